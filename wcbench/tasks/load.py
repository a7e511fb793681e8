"""From a task's name to the task itself, the catalogue's or one's own."""

from __future__ import annotations

import sys
from pathlib import Path

from wcbench.errors import UsageError
from wcbench.registry import load_target
from wcbench.tasks.base import Task
from wcbench.tasks.catalog import TASKS, check_name


def load_task(name: str) -> Task:
    """The task object of a catalogue name, an alias or ``module:Class``.

    Raises
    ------
    UnknownNameError : with the nearest names, where the name is none of these.
    UsageError : a module or class of one's own cannot be imported or is no task.
    """
    check_name(name)
    if name not in TASKS:
        return _load_own(name)
    found: Task = TASKS.load(name)()
    return found


def _load_own(name: str) -> Task:
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not look into the current folder; python -m does
        sys.path.insert(0, here)
    try:
        found = load_target(name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"'{name}' cannot be imported: {error}.",
            "Give module:Class, where the module lies in the current folder or is installed.",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UsageError(
            f"'{name}' is not a subclass of wcbench.Task.", "CONTRIBUTING.md, 'Add a task', shows what one needs."
        )
    return found()
