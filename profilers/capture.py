"""Passes: which run, on what preset and device, and their clean-up. The loop over their steps is `loop.Loop`.

One pass per instrument, so that no instrument colours another. Each pass builds the task anew from the same seed: the
weights, the batches and so the losses of all passes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import torch

from wcbench.errors import TaskError, UnknownNameError, UsageError
from wcbench.profilers.base import Collector
from wcbench.profilers.counting import run_counted
from wcbench.profilers.loop import first_line
from wcbench.profilers.memory import Memory
from wcbench.profilers.operators import Operators
from wcbench.profilers.primitives import Primitives
from wcbench.profilers.request import Progress, Request, silent
from wcbench.profilers.run import Outcome, run_pass
from wcbench.profilers.timeline import Timeline
from wcbench.profilers.timing import Timing
from wcbench.record import Note, PassInfo
from wcbench.schema import to_arrow
from wcbench.tasks.base import PRESETS, Config, Task

# In the order they run: memory first, since freed pages that earlier passes leave behind would hide growth.
PASSES = ("operators", "memory", "timing", "power", "timeline", "primitives")
COLLECTORS: Mapping[str, type[Collector]] = {cls.name: cls for cls in (Operators, Memory, Timing, Timeline, Primitives)}


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
        raise UnknownNameError("device", device, {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda"}) from None
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


def _preset_of(collector: type[Collector], request: Request, task: Task) -> str:
    """The preset of a pass for a task; one of the task's own where it lacks the default."""
    wanted = preset_of(collector, request)
    if request.preset is not None or wanted in task.presets or not task.presets:
        return wanted
    return next((name for name in PRESETS if name in task.presets), next(iter(task.presets)))


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
    notes += _same_losses(parts.get("steps", []))
    tables = {name: pa.concat_tables(group).unify_dictionaries() for name, group in parts.items()}
    return Captured(infos, tables, notes)


_LOSS_TOLERANCE = 0.01  # relative; sums in another order differ by less, other numbers by more


def _same_losses(steps: Sequence[pa.Table]) -> list[Note]:
    """A note where two passes saw different losses at one step, though each builds the same weights and batches."""
    first: dict[int, tuple[str, float]] = {}
    for table in steps:
        for row in table.select(["pass", "index", "loss"]).to_pylist():
            loss = row["loss"]
            if loss is None or not np.isfinite(loss):
                continue
            name, known = first.setdefault(row["index"], (row["pass"], loss))
            if abs(loss - known) > _LOSS_TOLERANCE * max(abs(loss), abs(known)):
                text = (
                    f"The loss of step {row['index']} is {loss:.4g} in pass {row['pass']} and {known:.4g} in {name}: "
                    "the task draws unseeded numbers or keeps state from build to build, so passes are not of the "
                    "same work."
                )
                return [Note(row["pass"], text)]
    return []


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


def _plan(task: Task, name: str, request: Request, power: bool) -> _Plan:
    cls = COLLECTORS[name]
    fake = cls.tensors == "fake"
    config = task.configure(
        _preset_of(cls, request, task),
        overrides={**_table_knobs(task, request), **_length(task, request)},
        batch_size=request.batch_size,
        variant=request.variant,
        seed=request.seed,
        # fake CUDA tensors need a driver; the algorithm's counts are the same on a fake CPU
        device="cpu" if fake else request.device,
        precision=request.precision,
        mode=request.mode,
        fixed_shapes=fake,
    )
    collector = Timing(request.device, power=power) if cls is Timing else cls(config.device)
    return _Plan(collector, config)


def _table_knobs(task: Task, request: Request) -> Mapping[str, str]:
    """The settings asked for; the law or file of ids asked of a task without sparse tables is refused by its name."""
    known = {name for settings in task.presets.values() for name in vars(settings)}
    for name in ("zipf", "ids"):
        if name in request.overrides and name not in known:
            raise UsageError("The task has no sparse tables whose ids could be set.", f"Leave --{name} out.")
    return request.overrides


def _length(task: Task, request: Request) -> dict[str, str]:
    """The length that was asked for, as the task's own setting."""
    if request.sequence_length is None:
        return {}
    if task.length is None:
        raise UsageError("The task has no sequence whose length could be set.", "Leave --sequence-length out.")
    return {task.length: str(request.sequence_length)}


def _run(task: Task, plan: _Plan, request: Request, progress: Progress) -> Outcome:
    """One pass; a pass on fake tensors that a task does not stand falls back to real ones, with a note."""
    if plan.collector.tensors == "real":
        return run_pass(task, plan.config, plan.collector, request, progress)
    assert isinstance(plan.collector, Operators)
    try:
        return run_counted(task, plan.config, plan.collector, request, progress)
    except TaskError as error:
        first = error
        reason = f"{plan.collector.name}: not possible on fake tensors ({first_line(error.__cause__ or error)})"
    preset = request.preset or ("small" if request.device == "cpu" else "paper")
    fallback = replace(request, preset=preset)
    again = _plan(task, plan.collector.name, fallback, power=False)
    again.collector.tensors = "real"
    try:
        outcome = run_pass(task, again.config, again.collector, request, progress)
    except TaskError:
        raise first from first.__cause__  # it fails on real tensors too: the task's fault, told where it first showed
    note = Note(
        plan.collector.name, f"{reason}; counted on real tensors at preset {preset} instead, at one batch size."
    )
    return replace(outcome, notes=[note, *outcome.notes])
