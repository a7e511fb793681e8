"""Profiling many tasks, each in a process of its own: one that fails, or is killed, never takes the others along."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WROTE = re.compile(r"^Wrote (.+)$", re.MULTILINE)
_SIGNALS = {-9: "killed (out of memory?)", -11: "segmentation fault", -6: "aborted"}


@dataclass(frozen=True)
class TaskRun:
    """What came of one task: its record, or why there is none."""

    task: str
    seconds: float
    path: Path | None
    error: str | None = None


Told = Callable[[TaskRun, int, int], None]


def profile_tasks(
    tasks: Sequence[str], options: Mapping[str, Any], *, jobs: int = 1, told: Told | None = None
) -> list[TaskRun]:
    """Profile each task in a child process, ``jobs`` at a time, and give what came of each, in order.

    Parameters
    ----------
    options : as `wcbench.profile` takes them; None and False leave an option out.
    told : called as ``told(run, done, total)`` when a task ends.
    """
    arguments = command_options(options)
    found: list[TaskRun | None] = [None] * len(tasks)

    def run(place: int) -> None:
        made = found[place] = _run(tasks[place], arguments, share_cores=jobs > 1)
        if told is not None:
            told(made, sum(entry is not None for entry in found), len(tasks))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            list(pool.map(run, range(len(tasks))))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [entry for entry in found if entry is not None]


def command_options(options: Mapping[str, Any]) -> list[str]:
    """Options of `wcbench.profile` as the command line spells them."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "settings":
            words += [word for key, text in (value or {}).items() for word in ("--set", f"{key}={text}")]
        elif name == "scaling":
            words += [] if value else ["--no-scaling"]
        elif value is True:
            words.append(flag)
        elif isinstance(value, list | tuple):
            words += [flag, ",".join(map(str, value))]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def _run(task: str, arguments: Sequence[str], *, share_cores: bool) -> TaskRun:
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if share_cores else None
    command = [sys.executable, "-m", "wcbench", "profile", task, "--brief", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - started
    wrote = _WROTE.search(done.stdout)
    if done.returncode == 0 and wrote is not None:
        return TaskRun(task, seconds, Path(wrote.group(1)))
    return TaskRun(task, seconds, None, _why(done))


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """The child's own message; what a killed one left unsaid."""
    lines = [line.removeprefix("wcbench: ") for line in done.stderr.splitlines() if line.startswith("wcbench: ")]
    if lines:
        return lines[-1]
    return _SIGNALS.get(done.returncode, f"ended with exit code {done.returncode}")
