"""Profiling many tasks, each in a process of its own: one that fails, or is killed, never takes the others along."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WROTE = re.compile(r"^Wrote (.+)$", re.MULTILINE)
_SIGNALS = {-15: "ended with wcbench", -9: "killed (out of memory?)", -11: "segmentation fault", -6: "aborted"}


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
    children = Children()

    def run(place: int) -> None:
        made = found[place] = _run(tasks[place], arguments, children, share_cores=jobs > 1)
        if told is not None and not children.ended:
            told(made, sum(entry is not None for entry in found), len(tasks))

    with children, ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(run, place) for place in range(len(tasks))]
        try:
            for future in waiting:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()  # else leaving the pool waits for them
            raise
    return [entry for entry in found if entry is not None]


class Children:
    """The processes that run; they end with this one, also when it is told to (SIGTERM)."""

    def __init__(self) -> None:
        self.ended = False
        self._running: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        self._before: Any = None

    def __enter__(self) -> Children:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, _terminated)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.CompletedProcess[str]:
        with self._lock:
            if self.ended:
                return subprocess.CompletedProcess(command, -signal.SIGTERM, "", "")
            pipe = subprocess.PIPE
            child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
            self._running.append(child)
        out, err = child.communicate()
        return subprocess.CompletedProcess(command, child.returncode, out, err)

    def end(self) -> None:
        with self._lock:
            self.ended = True
            for child in self._running:
                if child.poll() is None:
                    child.terminate()


def _terminated(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def command_options(options: Mapping[str, Any]) -> list[str]:
    """Options of `wcbench.profile` as the command line spells them."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "settings":
            words += [word for key, item in (value or {}).items() for word in ("--set", f"{key}={_text(item)}")]
        elif name == "scaling":
            words += [] if value else ["--no-scaling"]
        elif value is True:
            words.append(flag)
        elif isinstance(value, list | tuple):
            words += [flag, _text(value)]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _run(task: str, arguments: Sequence[str], children: Children, *, share_cores: bool) -> TaskRun:
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if share_cores else None
    command = [sys.executable, "-m", "wcbench", "profile", task, "--brief", *arguments]
    done = children.run(command, environment)
    seconds = time.perf_counter() - started
    wrote = _WROTE.findall(done.stdout)
    if done.returncode == 0 and wrote:
        return TaskRun(task, seconds, Path(wrote[-1]))  # the task itself may print such a line before
    return TaskRun(task, seconds, None, _why(done))


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """The child's own message; what a killed one left unsaid."""
    lines = [line.removeprefix("wcbench: ") for line in done.stderr.splitlines() if line.startswith("wcbench: ")]
    if lines:
        return lines[-1]
    return _SIGNALS.get(done.returncode, f"ended with exit code {done.returncode}")
