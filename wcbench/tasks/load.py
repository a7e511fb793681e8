"""From a task's name to the task itself, the catalogue's or one's own."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from wcbench.errors import TaskError, UsageError
from wcbench.registry import load_target
from wcbench.tasks.base import Task
from wcbench.tasks.catalog import TASKS, check_name

_RECIPE = "CONTRIBUTING.md, 'Add a task', shows what one needs."
_TRACEBACK = "See its traceback with --debug."


def load_task(name: str) -> Task:
    """The task object of a catalogue name, an alias or ``module:Class``.

    Raises
    ------
    UnknownNameError : with the nearest names, where the name is none of these.
    UsageError : a module or class of one's own cannot be found or is no task.
    TaskError : its own code failed on the way.
    """
    check_name(name)
    found = TASKS.load(name) if name in TASKS else _load_own(name)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UsageError(f"'{name}' is not a subclass of wcbench.Task.", _RECIPE)
    if inspect.isabstract(found):
        raise UsageError(f"'{name}' has no method build.", _RECIPE)
    try:
        return found()
    except Exception as error:
        raise TaskError(f"'{name}' cannot be created: {type(error).__name__}: {error}", _TRACEBACK) from error


def _load_own(name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not look into the current folder; python -m does
        sys.path.insert(0, here)
    try:
        found: object = load_target(name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"'{name}' cannot be imported: {error}.",
            "Give module:Class, where the module lies in the current folder or is installed.",
        ) from error
    except Exception as error:  # whatever the module's own code raises
        raise TaskError(f"'{name}' failed on import: {type(error).__name__}: {error}", _TRACEBACK) from error
    return found
