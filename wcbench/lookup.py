"""Where records lie, and which one a name means: ``runs/<task>[@variant]/<UTC time>-<id>``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from wcbench.errors import UsageError
from wcbench.record import MANIFEST, Manifest, run_name

RUNS_VARIABLE = "WCBENCH_RUNS"


def runs_root(runs: str | Path | None = None) -> Path:
    """The folder of all runs: the argument, else the variable WCBENCH_RUNS, else ``runs``."""
    return Path(runs or os.environ.get(RUNS_VARIABLE) or "runs")


def run_folder(root: Path, manifest: Manifest) -> Path:
    """The default place of a record: ``root/<task>[@variant]/<UTC time>-<id>``."""
    stamp = re.sub(r"[-:]", "", manifest.created.replace("+00:00", "Z"))
    return root / folder_name(run_name(manifest.task, manifest.variant)) / f"{stamp}-{manifest.id}"


def folder_name(name: str) -> str:
    """The folder of a task's runs under the root: ``module:Class`` becomes ``module.Class``."""
    return name.replace(":", ".").replace("/", ".")


def list_runs(root: Path) -> Iterator[Path]:
    """Folders of all records under a root, oldest first within each task."""
    if not root.is_dir():
        return
    for task in sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
        yield from sorted(p for p in task.iterdir() if not p.name.startswith(".") and (p / MANIFEST).is_file())


def find_run(run: str | Path, root: Path) -> Path:
    """The folder that RUN names: a path, ``task``, ``task:latest`` or ``task:<start of its name or id>``."""
    path = Path(run)
    if os.path.isfile(path / MANIFEST):  # Path.is_file raises on a name that is too long
        return path
    if path.name == MANIFEST and os.path.isfile(path):
        return path.parent
    task, which = _split_run(str(run), root)
    found = [p for p in list_runs(root) if p.parent.name == task]
    chosen = found if which in ("", "latest") else [p for p in found if which in (p.name, p.name.rpartition("-")[2])]
    if not chosen and which:
        chosen = [p for p in found if p.name.startswith(which) or p.name.rpartition("-")[2].startswith(which)]
        if len(chosen) > 1:
            names = ", ".join(p.name for p in chosen[-5:])
            raise UsageError(f"'{run}' names {len(chosen)} records.", f"Give more of the name: {names}.")
    if not chosen:
        raise _no_run(run, root, found)
    return chosen[-1]


def _split_run(run: str, root: Path) -> tuple[str, str]:
    """Name of the task's folder, and which of its runs; a task of one's own has a colon in its name."""
    whole = folder_name(run)
    if whole in {p.parent.name for p in list_runs(root)}:
        return whole, ""
    task, _, which = run.rpartition(":") if ":" in run else (run, "", "")
    return folder_name(task), which


def _no_run(run: str | Path, root: Path, same_task: Sequence[Path]) -> UsageError:
    if os.path.isdir(run):
        return UsageError(f"{run} holds no {MANIFEST}, so it is no record.", "Give the folder that `profile` wrote.")
    if os.path.isfile(run):
        return UsageError(f"{run} is a file and no record.", f"Read it first: `wcbench import {run}`.")
    if same_task:
        names = ", ".join(p.name for p in same_task[-5:])
        return UsageError(f"No record '{run}' under {root}.", f"There are: {names}.")
    tasks = sorted({p.parent.name for p in list_runs(root)})
    known = f"There are records of: {', '.join(tasks)}" if tasks else "There are no records yet"
    return UsageError(
        f"No record '{run}' under {root}.",
        f"{known}. `wcbench profile TASK` makes one; operators alone, as a study takes them, come with "
        "`--passes operators`.",
    )
