"""The loop over a pass's steps: warm-up, bare and measured ones, timed, and what a task raises told as the task's."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from wcbench.errors import TaskError, WcbenchError
from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.inference import forward_only
from wcbench.profilers.request import Progress, Request
from wcbench.profilers.state import preserved_state
from wcbench.record import Note
from wcbench.tasks.base import Built, Config, Task

_FILL_SECONDS = 2.0  # a pass without a fixed number of steps measures for about this long
_FEWEST, _MOST = 10, 100
_LONGEST_SECONDS, _FEWEST_SLOW = 60.0, 3  # slow steps: fewer than ten where ten would take longer than this
_SHARES_OFF = 1e-6  # rounding of shares that add up to 1
_KINDS_AHEAD = 64  # steps looked ahead for other kinds, which recur within so many
_FARTHEST = 4096  # steps among which a counting pass looks for one of each kind


class Loop:
    """The steps of one pass."""

    def __init__(self, task: Task, config: Config, collector: Collector, request: Request, progress: Progress) -> None:
        self.task, self.config, self.collector = task, config, collector
        self.request, self.progress = request, progress
        self.warmup = collector.warmup if request.warmup is None else request.warmup
        if not collector.timed:
            self.warmup = max(self.warmup, 1)  # the first step creates the optimizer's state and differs
        self.measured = 0
        self.samples = 0
        self.kind_samples: dict[str, int] = {}
        self.step_kinds: dict[str, float] = {}
        self._rows: list[dict[str, Any]] = []
        self.kinds: list[str] = []  # of the first steps
        self._threads = 0
        self.load: float | None = None
        self._total = 0
        self._real = collector.tensors == "real"

    def run(self) -> None:
        if self.collector.rehearse:
            self._rehearse()
        self.collector.starting()
        _seed_all(self.config.seed)
        built = self._build()
        self.samples = built.samples
        self.kind_samples = dict(built.kind_samples)
        with self._task_errors("kind"):
            self.kinds = [_checked_kind(built.kind(index)) for index in range(_KINDS_AHEAD)]
        self.step_kinds = _checked_shares(built.step_kinds, self.kinds)
        self.collector.built(built)
        if self.collector.timed:
            self._run_timed(built)
        else:
            self._run_counted(built)

    def _run_timed(self, built: Built) -> None:
        fixed = self._fixed_steps()
        self._total = 0 if fixed is None else self.warmup + self.collector.bare + fixed
        for _ in range(self.warmup):
            self._step(built, "warmup")
        for _ in range(self.collector.bare):
            self._step(built, "bare")
        self.collector.warmed()
        self.measured = self._whole_periods(self._fixed_steps() or self._steps_that_fill())
        self._total = len(self._rows) + self.measured
        with contextlib.suppress(OSError, AttributeError):  # not every system has one
            self.load = os.getloadavg()[0]
        with self.collector.measuring(built):
            for index in range(self.measured):
                self._step(built, "measured", index)

    def _run_counted(self, built: Built) -> None:
        """So many steps of each kind, at the indices at which they first occur; indices between are skipped.

        The first of each kind are the warm-up, which creates the optimizers' state.
        """
        each = self.warmup + (self.collector.steps or 1)
        places: dict[str, list[int]] = {kind: [] for kind in self.step_kinds}
        with self._task_errors("kind"):
            for index in range(_FARTHEST):
                found = places[_checked_kind(built.kind(index))]
                if len(found) < each:
                    found.append(index)
                if all(len(found) == each for found in places.values()):
                    break
        warm = sorted(index for found in places.values() for index in found[: self.warmup])
        counted = sorted(index for found in places.values() for index in found[self.warmup :])
        self.measured = len(counted)
        self._total = len(warm) + len(counted)
        for index in warm:
            self._step(built, "warmup", at=index)
        self.collector.warmed()
        with self.collector.measuring(built):
            for number, index in enumerate(counted):
                self._step(built, "measured", number, at=index)

    def _rehearse(self) -> None:
        """One step of a task that is thrown away, with whatever it changes in the process."""
        with preserved_state():
            _seed_all(self.config.seed)
            built = self._build()
            with self._task_errors("rehearsal"):
                built.step(built.batch(0))
                self._synchronize()

    def _build(self) -> Built:
        with self._task_errors("build"):
            built = self.task.build(self.config)
        if not isinstance(built, Built):
            raise TaskError(
                f"{type(self.task).__name__}.build returned {type(built).__name__}, not wcbench.tasks.base.Built.",
                "CONTRIBUTING.md, 'Add a task', shows what a task returns.",
            )
        if not isinstance(built.kind_samples, Mapping):
            raise TaskError(f"Built.kind_samples is {built.kind_samples!r}.", "Give samples by kind, or leave it out.")
        for samples in (built.samples, *built.kind_samples.values()):
            if type(samples) is not int or samples < 1:
                raise TaskError(
                    f"A step must consume a whole number of samples from 1 up, not {samples!r}.", "See Built.samples."
                )
        return forward_only(built, self.config) if self.config.mode == "inference" else built

    def _whole_periods(self, steps: int) -> int:
        """Where steps differ in kind, enough of them that each kind has its share; what was asked for stays."""
        period = _period(self.kinds)
        if period == 1 or not self.collector.timed or self.request.steps is not None:
            return steps
        return -(-steps // period) * period

    def _fixed_steps(self) -> int | None:
        """How many steps to measure where that is fixed; None where the loop fills its time."""
        return self.collector.steps if self.request.steps is None else self.request.steps

    def _steps_that_fill(self) -> int:
        durations = [row["duration_ns"] for row in self._rows]
        if not durations:
            return _FEWEST
        # the last warm-up steps are the steadiest
        typical = float(statistics.median(durations[len(durations) // 2 :])) / 1e9
        fewest = min(_FEWEST, max(_FEWEST_SLOW, round(_LONGEST_SECONDS / max(typical, 1e-9))))
        return max(fewest, min(_MOST, round(_FILL_SECONDS / max(typical, 1e-9))))

    def _step(self, built: Built, role: str, measured: int | None = None, at: int | None = None) -> None:
        index = len(self._rows) if at is None else at
        with self._task_errors(f"step {index}"):
            kind = _checked_kind(built.kind(index))
            batch = None if self.request.data_in_step else built.batch(index)
        around = contextlib.nullcontext() if measured is None else self.collector.step(measured, kind, batch)
        with around, self._counted_threads(), self._task_errors(f"step {index}"):
            self._synchronize()
            begin = time.perf_counter_ns()
            loss = built.step(built.batch(index) if self.request.data_in_step else batch)
            self._synchronize()
            duration = time.perf_counter_ns() - begin
        self._rows.append(
            {
                "rank": 0,
                "index": index,
                "role": role,
                "kind": kind,
                "duration_ns": duration,
                "samples": built.kind_samples.get(kind, built.samples),
                "loss": self._loss(loss),
            }
        )
        self.progress(self.collector.name, len(self._rows), self._total)

    @contextlib.contextmanager
    def _counted_threads(self) -> Iterator[None]:
        """Count the Python threads that a step starts: instruments that follow one thread miss what runs in them."""
        start = threading.Thread.start

        def counted(thread: threading.Thread) -> None:
            self._threads += 1
            start(thread)

        threading.Thread.start = counted  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]

    def _synchronize(self) -> None:
        if self._real and self.config.device.startswith("cuda"):
            torch.cuda.synchronize(self.config.device)

    def _loss(self, loss: Any) -> float | None:
        if not self._real or loss is None:
            return None
        with self._task_errors("loss"):
            return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)

    @contextlib.contextmanager
    def _task_errors(self, where: str) -> Iterator[None]:
        """What a task raises, told as the task's: the pass, the step and the first line of the cause."""
        try:
            yield
        except WcbenchError:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            raise _task_error(self, where, error) from error

    def columns(self) -> Columns:
        return {key: [row[key] for row in self._rows] for key in self._rows[0]} if self._rows else {}

    def notes(self) -> list[Note]:
        """What the steps themselves make doubtful."""
        found = []
        bad = [row["index"] for row in self._rows if row["loss"] is not None and not np.isfinite(row["loss"])]
        if bad:
            found.append(f"The loss is not finite from step {bad[0]} on ({len(bad)} steps).")
        training = self.config.mode == "train"
        if training and self._real and self._rows and all(row["loss"] is None for row in self._rows):
            found.append("The task's step returns no loss, so that none is recorded.")
        if self._threads:
            found.append(
                f"The task's steps started {self._threads} Python threads: operators that run in them are not in this "
                "pass's counts."
            )
        if len(self.step_kinds) > 1:
            found.append(self._told_kinds())
        absent = set(self.step_kinds) - {row["kind"] for row in self._rows if row["role"] == "measured"}
        if absent and not self.collector.timed:
            found.append(f"No step of the kind {', '.join(sorted(absent))} was met: figures leave it out.")
        return [Note(self.collector.name, text) for text in found]

    def _told_kinds(self) -> str:
        shares = ", ".join(f"{share:.3g} {kind}" for kind, share in self.step_kinds.items())
        if not self.collector.timed:
            return (
                f"Steps differ in kind; figures of an average step weigh each kind by its share in training: {shares}."
            )
        measured = [row["kind"] for row in self._rows if row["role"] == "measured"]
        counts = ", ".join(f"{measured.count(kind)} {kind}" for kind in self.step_kinds)
        return f"Steps differ in kind; measured were {counts}: figures are of this mixture (in training: {shares})."


def _checked_kind(kind: Any) -> str:
    if not isinstance(kind, str):
        raise TaskError(f"Built.kind gave {kind!r} for the kind of a step.", "Give a text such as 'train'.")
    return kind


def _checked_shares(step_kinds: Any, kinds: list[str]) -> dict[str, float]:
    """The shares of the kinds of steps, each above 0; raises TaskError where they do not fit the kinds that occur.

    A task of several kinds that gives no shares has those of its cycle.
    """
    if not isinstance(step_kinds, Mapping) or not all(isinstance(s, int | float) for s in step_kinds.values()):
        raise TaskError(f"Built.step_kinds {step_kinds!r} are no shares by kind.", "For example {'train': 1.0}.")
    shares = dict(step_kinds)
    if not set(kinds) <= set(shares):
        if shares != {"train": 1.0}:
            raise TaskError(
                f"Built.step_kinds names {', '.join(map(str, shares))}, the task's steps are {', '.join(set(kinds))}.",
                "Name every kind that Built.kind gives within 64 steps, with its share of all steps.",
            )
        period = _period(kinds)
        cycle = kinds if period == 1 else kinds[:period]
        return {kind: cycle.count(kind) / len(cycle) for kind in dict.fromkeys(cycle)}
    if not all(share > 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > _SHARES_OFF:
        raise TaskError(f"Built.step_kinds {shares} are no shares.", "Each is above 0, and together they are 1.")
    return shares


def _period(kinds: list[str]) -> int:
    """The shortest cycle of the kinds of steps; 1 where they are all one, or follow no cycle within half of them."""
    for period in range(1, len(kinds) // 2 + 1):
        if all(a == b for a, b in zip(kinds, kinds[period:], strict=False)):
            return period
    return 1


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory")


def _task_error(loop: Loop, where: str, error: BaseException) -> TaskError:
    config = loop.config
    at = f"{where} of pass {loop.collector.name} (preset {config.preset}, batch size {config.settings.batch_size})"
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in _MEMORY_WORDS):
        return TaskError(
            f"Out of memory at {at} on {config.device}: {first_line(error)}.",
            "Use a smaller --preset or --batch-size.",
        )
    return TaskError(f"The task failed at {at}: {first_line(error)}", "See its traceback with --debug.")
