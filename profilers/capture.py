"""The only loop over steps: passes, seeds, warm-up and clean-up.

One pass per instrument, so that no instrument colours another. Each pass builds the task anew from the same seed: the
weights, the batches and so the losses of all passes are the same.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import TaskError, UnknownNameError, UsageError, WcbenchError
from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.complexity import Complexity
from wcbench.profilers.memory import Memory
from wcbench.profilers.primitives import Primitives
from wcbench.profilers.state import preserved_state, torch_settings
from wcbench.profilers.timeline import Timeline
from wcbench.profilers.timing import Timing
from wcbench.record import Note, PassInfo
from wcbench.schema import to_arrow
from wcbench.tasks.base import Built, Config, Task

# In the order they run: memory first, since freed pages that earlier passes leave behind would hide growth.
PASSES = ("complexity", "memory", "timing", "power", "timeline", "primitives")
COLLECTORS: Mapping[str, type[Collector]] = {
    cls.name: cls for cls in (Complexity, Memory, Timing, Timeline, Primitives)
}

_FILL_SECONDS = 2.0  # a pass without a fixed number of steps measures for about this long
_FEWEST, _MOST = 10, 100


class Progress(Protocol):
    """Told how far a pass is; ``total`` is 0 while it is not known."""

    def __call__(self, passname: str, done: int, total: int) -> None: ...


def silent(passname: str, done: int, total: int) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Request:
    """What to capture. ``preset`` None takes each pass's own default (DESIGN, section 4)."""

    device: str = "cpu"
    passes: Sequence[str] | None = None
    preset: str | None = None
    variant: str | None = None
    batch_size: int | None = None
    precision: str = "fp32"
    overrides: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    steps: int | None = None
    warmup: int | None = None
    data_in_step: bool = False


@dataclass(frozen=True)
class Captured:
    """What the passes gave: how each was run, the tables of all, and what is missing or doubtful."""

    passes: Mapping[str, PassInfo]
    tables: Mapping[str, pa.Table]
    notes: Sequence[Note]


def check_device(device: str) -> str:
    """The device's full name (``cuda`` becomes ``cuda:0``); raises UsageError where it is not to be had."""
    try:
        wanted = torch.device(device)
    except RuntimeError:
        raise UnknownNameError("device", device, ["cpu", "cuda"]) from None
    if wanted.type == "cpu":
        return "cpu"
    if wanted.type != "cuda":
        raise UsageError(f"Device '{device}' is not supported.", "wcbench captures on cpu and cuda.")
    if not torch.cuda.is_available():
        raise UsageError(
            f"Device '{device}' cannot be used: {_why_no_cuda()}.", "Use --device cpu; see `wcbench doctor`."
        )
    index = wanted.index or 0
    if index >= torch.cuda.device_count():
        raise UsageError(f"There is no {device}: torch sees {torch.cuda.device_count()} CUDA devices.")
    return f"cuda:{index}"


def _why_no_cuda() -> str:
    if torch.version.cuda is None:
        return f"this torch ({torch.__version__}) is a CPU build without CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        return f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds no usable GPU: {reason}"
    return "torch finds no CUDA device"


def default_passes(device: str) -> tuple[str, ...]:
    """All passes that make sense on a device."""
    on_cpu = torch.device(device).type == "cpu"
    return tuple(name for name in PASSES if on_cpu or name != "primitives")


def check_passes(passes: Sequence[str] | None, device: str) -> tuple[str, ...]:
    """The passes asked for, in the order they run; `power` rides on `timing` and brings it along."""
    if passes is None:
        return default_passes(device)
    if not passes:
        raise UsageError("No pass is named.", f"Name one or more of: {', '.join(PASSES)}.")
    for name in passes:
        if name not in PASSES:
            raise UnknownNameError("pass", name, PASSES)
    if "primitives" in passes and torch.device(device).type != "cpu":
        raise UsageError("The pass primitives reads oneDNN's log, which exists on a CPU only.", "Use --device cpu.")
    wanted = {*passes, *(["timing"] if "power" in passes else [])}
    return tuple(name for name in PASSES if name in wanted)


def preset_of(collector: type[Collector], request: Request) -> str:
    """The preset of a pass: what was asked for, else the paper's scale where it costs nothing or a GPU holds it."""
    if request.preset is not None:
        return request.preset
    on_cpu = torch.device(request.device).type == "cpu"
    return "small" if on_cpu and collector.tensors == "real" else "paper"


def capture(task: Task, request: Request, progress: Progress = silent) -> Captured:
    """Run the passes of a request over a task.

    Raises
    ------
    UsageError : the request cannot work; found before the first pass.
    TaskError : the task's own code failed while it was built or stepped on real tensors.
    CaptureError : another profiler is active in this process.
    """
    request = replace(request, device=check_device(request.device))
    passes = check_passes(request.passes, request.device)
    _check_counts(request)
    plans = [_plan(task, name, request, power="power" in passes) for name in passes if name != "power"]
    infos: dict[str, PassInfo] = {}
    parts: dict[str, list[pa.Table]] = {}
    notes: list[Note] = []
    for plan in plans:
        outcome = _run(task, plan, request, progress)
        infos[plan.collector.name] = outcome.info
        notes += outcome.notes
        for name, columns in outcome.tables.items():
            parts.setdefault(name, []).append(to_arrow(name, columns, plan.collector.name))
    tables = {name: pa.concat_tables(group).unify_dictionaries() for name, group in parts.items()}
    return Captured(infos, tables, notes)


def _check_counts(request: Request) -> None:
    for name, value, least in (
        ("steps", request.steps, 1),
        ("warmup", request.warmup, 0),
        ("threads", request.threads, 1),
    ):
        if value is not None and value < least:
            raise UsageError(f"--{name} {value} is refused.", f"Give a whole number from {least} up.")


@dataclass(frozen=True)
class _Plan:
    """A pass ready to run."""

    collector: Collector
    config: Config


@dataclass(frozen=True)
class _Outcome:
    info: PassInfo
    tables: Mapping[str, Columns]
    notes: Sequence[Note]


def _plan(task: Task, name: str, request: Request, power: bool) -> _Plan:
    cls = COLLECTORS[name]
    fake = cls.tensors == "fake"
    config = task.configure(
        preset_of(cls, request),
        overrides=request.overrides,
        batch_size=request.batch_size,
        variant=request.variant,
        seed=request.seed,
        # fake CUDA tensors need a driver; the algorithm's counts are the same on a fake CPU
        device="cpu" if fake else request.device,
        precision=request.precision,
    )
    collector = Timing(request.device, power=power) if cls is Timing else cls(config.device)
    return _Plan(collector, config)


def _run(task: Task, plan: _Plan, request: Request, progress: Progress) -> _Outcome:
    """One pass; a pass on fake tensors that a task does not stand falls back to real ones, with a note."""
    if plan.collector.tensors == "real":
        return run_pass(task, plan.config, plan.collector, request, progress)
    try:
        return run_pass(task, plan.config, plan.collector, request, progress)
    except TaskError as error:
        reason = f"{plan.collector.name}: not possible on fake tensors ({_first_line(error.__cause__ or error)})"
    preset = request.preset or ("small" if request.device == "cpu" else "paper")
    fallback = replace(request, preset=preset)
    again = _plan(task, plan.collector.name, fallback, power=False)
    again.collector.tensors = "real"
    outcome = run_pass(task, again.config, again.collector, request, progress)
    note = Note(plan.collector.name, f"{reason}; counted on real tensors at preset {preset} instead.")
    return replace(outcome, notes=[note, *outcome.notes])


def run_pass(task: Task, config: Config, collector: Collector, request: Request, progress: Progress) -> _Outcome:
    """Build the task, drop the warm-up, time the bare steps, measure, and leave the process as it was found."""
    started = time.perf_counter()
    with preserved_state(), _tensors(collector.tensors):
        if request.threads is not None:
            torch.set_num_threads(request.threads)
        settings = torch_settings()
        loop = _Loop(task, config, collector, request, progress)
        loop.run()
        tables: dict[str, Columns] = dict(collector.tables())
    if collector.timed:
        tables["steps"] = loop.columns()
    info = PassInfo(
        preset=config.preset,
        settings=dict(vars(config.settings)),
        batch_size=config.settings.batch_size,
        samples=loop.samples,
        precision=config.precision,
        device=config.device,
        tensors=collector.tensors,
        seed=config.seed,
        steps=loop.measured,
        warmup=loop.warmup,
        seconds=time.perf_counter() - started,
        data_in_step=request.data_in_step,
        torch=settings,
    )
    return _Outcome(info, tables, [*collector.notes, *loop.notes()])


@contextlib.contextmanager
def _tensors(kind: str) -> Iterator[None]:
    if kind == "real":
        yield
        return
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


class _Loop:
    """The steps of one pass."""

    def __init__(self, task: Task, config: Config, collector: Collector, request: Request, progress: Progress) -> None:
        self.task, self.config, self.collector = task, config, collector
        self.request, self.progress = request, progress
        self.warmup = collector.warmup if request.warmup is None else request.warmup
        if not collector.timed:
            self.warmup = max(self.warmup, 1)  # the first step creates the optimizer's state and differs
        self.measured = 0
        self.samples = 0
        self._rows: list[dict[str, Any]] = []
        self._total = 0
        self._real = collector.tensors == "real"

    def run(self) -> None:
        self.collector.starting()
        _seed_all(self.config.seed)
        built = self._build()
        self.samples = built.samples
        self.collector.built(built)
        fixed = self._fixed_steps()
        self._total = 0 if fixed is None else self.warmup + self.collector.bare + fixed
        for _ in range(self.warmup):
            self._step(built, "warmup")
        for _ in range(self.collector.bare):
            self._step(built, "bare")
        self.collector.warmed()
        self.measured = self._fixed_steps() or self._steps_that_fill()
        self._total = len(self._rows) + self.measured
        with self.collector.measuring(built):
            for index in range(self.measured):
                self._step(built, "measured", index)

    def _build(self) -> Built:
        with self._task_errors("build"):
            built = self.task.build(self.config)
        if not isinstance(built, Built):
            raise TaskError(
                f"{type(self.task).__name__}.build returned {type(built).__name__}, not wcbench.tasks.base.Built.",
                "CONTRIBUTING.md, 'Add a task', shows what a task returns.",
            )
        return built

    def _fixed_steps(self) -> int | None:
        """How many steps to measure where that is fixed; None where the loop fills its time."""
        if not self.collector.timed:
            return self.collector.steps
        return self.collector.steps if self.request.steps is None else self.request.steps

    def _steps_that_fill(self) -> int:
        durations = [row["duration_ns"] for row in self._rows]
        if not durations:
            return _FEWEST
        # the last warm-up steps are the steadiest
        typical = float(statistics.median(durations[len(durations) // 2 :]))
        return max(_FEWEST, min(_MOST, round(_FILL_SECONDS * 1e9 / max(typical, 1))))

    def _step(self, built: Built, role: str, measured: int | None = None) -> None:
        index = len(self._rows)
        with self._task_errors(f"step {index}"):
            kind = built.kind(index)
            batch = None if self.request.data_in_step else built.batch(index)
        around = contextlib.nullcontext() if measured is None else self.collector.step(measured, kind)
        with around, self._task_errors(f"step {index}"):
            self._synchronize()
            begin = time.perf_counter_ns()
            loss = built.step(built.batch(index) if self.request.data_in_step else batch)
            self._synchronize()
            duration = time.perf_counter_ns() - begin
        self._rows.append(
            {
                "index": index,
                "role": role,
                "kind": kind,
                "duration_ns": duration,
                "samples": built.samples,
                "loss": self._loss(loss),
            }
        )
        self.progress(self.collector.name, len(self._rows), self._total)

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
        except Exception as error:
            raise _task_error(self, where, error) from error

    def columns(self) -> Columns:
        return {key: [row[key] for row in self._rows] for key in self._rows[0]} if self._rows else {}

    def notes(self) -> list[Note]:
        bad = [row["index"] for row in self._rows if row["loss"] is not None and not np.isfinite(row["loss"])]
        if not bad:
            return []
        return [Note(self.collector.name, f"The loss is not finite from step {bad[0]} on ({len(bad)} steps).")]


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory")


def _task_error(loop: _Loop, where: str, error: Exception) -> TaskError:
    config = loop.config
    at = f"{where} of pass {loop.collector.name} (preset {config.preset}, batch size {config.settings.batch_size})"
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in _MEMORY_WORDS):
        return TaskError(
            f"Out of memory at {at} on {config.device}: {_first_line(error)}.",
            "Use a smaller --preset or --batch-size.",
        )
    return TaskError(f"The task failed at {at}: {_first_line(error)}", "See its traceback with --debug.")
