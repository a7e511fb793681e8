"""Any callable as a training step, on the tensors that it already has: what ``%%wcbench`` runs, without a notebook.

A task builds its model anew for each pass; a callable of somebody's own cannot. In its place whatever has a
``state_dict`` (models, optimizers, schedulers) is copied beforehand and put back before each pass and at the end, so
that all passes see the same weights and the caller's training is where it was.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from wcbench import record
from wcbench.errors import TaskError
from wcbench.machine import describe
from wcbench.profilers.capture import Captured, capture
from wcbench.profilers.request import Progress, Request, silent
from wcbench.record import Note, PassInfo, Profile
from wcbench.tasks.base import Batch, Built, Config, Settings, Task

PRESET = "cell"
LONG = 3.0
"""Seconds: a callable that takes longer is run once a pass, and its first run is the warm-up."""
_FAKE = "not possible on fake tensors"


def profile_call(
    run: Callable[[], Any],
    *,
    name: str = "cell",
    objects: Mapping[str, Any] | None = None,
    passes: Sequence[str] | None = None,
    device: str | None = None,
    samples: int | None = None,
    steps: int | None = None,
    warmup: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    keep: bool = False,
    progress: Progress = silent,
    command: Sequence[str] = ("wcbench.cell.profile_call(...)",),
    seconds: float | None = None,
) -> Profile:
    """Profile a callable that is a training step, or any other work.

    Parameters
    ----------
    run : called once a step; a number or a tensor of one element that it returns is the step's loss.
    name : of the record.
    objects : what it works on, by name: modules (their parameters are counted, operators are told by module),
        optimizers, and whatever else has ``state_dict`` and ``load_state_dict``.
    passes : None runs operators (where there is a module), timing and timeline.
    device : None is that of the modules.
    samples : how many samples one call consumes; without it there is no throughput.
    keep : leave ``objects`` as the steps leave them, and save the memory of a copy.
    seconds : how long a call takes, where that is known; None calls it once to see.

    Returns
    -------
    Profile : a record in hand, not saved.

    Raises
    ------
    TaskError : the callable failed (``__cause__`` has its exception). UsageError, CaptureError : as in `api.profile`.
    """
    found = dict(objects or {})
    modules = outermost(found)
    saved = Saved({} if keep else found)
    task = CallTask(run, modules, found, saved)
    with saved.putting_back():
        if seconds is None:
            seconds = _timed(run)
        request = Request(
            device=device or device_of(modules),
            passes=passes,
            preset=PRESET,
            batch_size=samples,
            seed=seed,
            threads=threads,
            steps=steps if steps is not None else 1 if seconds > LONG else None,
            warmup=warmup if warmup is not None else 0 if seconds > LONG else None,
            scaling=False,
        )
        captured, failed = _captured(task, request, bool(modules), progress)
    notes = [*_notes(captured, task, saved, bool(samples)), *failed]
    if steps is None and seconds > LONG:
        notes.append(
            Note("timing", f"A run takes {seconds:.3g} s, so that each pass measured one: no spread is known.")
        )
    return record.new_profile(
        task=name,
        variant=None,
        suites=(),
        machine=describe(),
        command=command,
        passes={key: _told(info, samples) for key, info in captured.passes.items()},
        tables={key: _without_samples(key, table, samples) for key, table in captured.tables.items()},
        notes=notes,
    )


def _timed(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    try:
        run()
    except Exception as error:
        raise TaskError(f"The code failed in its first run: {type(error).__name__}: {error}") from error
    return time.perf_counter() - begin


def _captured(task: CallTask, request: Request, counted: bool, progress: Progress) -> tuple[Captured, list[Note]]:
    """The passes asked for. Of those that nobody asked for, `operators` may fail: not all code stands its recorder."""
    if request.passes is not None:
        return capture(task, request, progress), []
    usual = ("timing", "timeline")
    if not counted:
        reason = "No module was found among the names that the code uses, so that no operators were counted."
        return capture(task, replace(request, passes=usual), progress), [Note("operators", reason)]
    try:
        return capture(task, replace(request, passes=("operators", *usual)), progress), []
    except TaskError as error:
        if "pass operators" not in error.message:
            raise
        failed = Note("operators", f"The pass failed and was left out: {error.message}")
        return capture(task, replace(request, passes=usual), progress), [failed]


# --- the task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallSettings(Settings):
    """A callable has no knobs."""


class CallTask(Task):
    """A callable as a task; it cannot be built on fake tensors."""

    presets: ClassVar[Mapping[str, Settings]] = {PRESET: CallSettings(batch_size=1)}

    def __init__(
        self,
        run: Callable[[], Any],
        modules: Mapping[str, nn.Module] | None = None,
        objects: Mapping[str, Any] | None = None,
        saved: Saved | None = None,
    ) -> None:
        self.run = run
        self.modules = dict(modules or {})
        self.optimizers = {k: v for k, v in (objects or {}).items() if isinstance(v, torch.optim.Optimizer)}
        self.saved = saved or Saved({})
        self.runs = 0

    def build(self, config: Config) -> Built:
        if isinstance(torch.empty(0), FakeTensor):
            raise TaskError("the code works on tensors that are there already")
        self.saved.put_back()

        def step(batch: Batch) -> Tensor:
            self.runs += 1
            return as_loss(self.run())  # type: ignore[return-value]  # None where it gives no loss

        samples = config.settings.batch_size
        return Built(step, lambda index: None, self.modules, samples, self.optimizers)


def as_loss(value: Any) -> Tensor | None:
    """The value as a loss, where it is one number."""
    if isinstance(value, Tensor):
        return value.detach() if value.numel() == 1 else None
    return torch.tensor(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def outermost(objects: Mapping[str, Any]) -> dict[str, nn.Module]:
    """The modules among some objects, each once, without those that are parts of another."""
    modules = {name: value for name, value in objects.items() if isinstance(value, nn.Module)}
    inner = {id(part) for module in modules.values() for part in module.modules() if part is not module}
    found: dict[int, tuple[str, nn.Module]] = {}
    for name, module in modules.items():
        if id(module) not in inner:
            found.setdefault(id(module), (name, module))
    return dict(found.values())


def device_of(modules: Mapping[str, nn.Module]) -> str:
    """Where the modules' first parameter is; the CPU where they have none."""
    first = next((p for module in modules.values() for p in module.parameters()), None)
    return "cpu" if first is None else str(first.device)


# --- state --------------------------------------------------------------------------------------------------------


class Saved:
    """Copies of what has a state, to be put back; what cannot be copied is named with its reason in ``failed``."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.failed: dict[str, str] = {}
        self._entries: list[tuple[str, Any, Any]] = []
        self._modules: list[tuple[nn.Module, bool, dict[str, Tensor | None]]] = []
        unique = {id(value): (name, value) for name, value in objects.items() if has_state(value)}
        for name, value in unique.values():
            self._copy(name, value)

    def _copy(self, name: str, value: Any) -> None:
        try:
            self._entries.append((name, value, copy.deepcopy(value.state_dict())))
            if isinstance(value, nn.Module):
                self._modules += [(part, part.training, _gradients(part)) for part in value.modules()]
        except Exception as error:  # whatever a class of the user's, or the memory, says
            self.failed[name] = f"{type(error).__name__}: {error}"

    def put_back(self) -> None:
        """Write the copies back."""
        for name, value, state in self._entries:
            try:
                value.load_state_dict(copy.deepcopy(state))
            except Exception as error:
                self.failed[name] = f"{type(error).__name__}: {error}"
        for module, training, gradients in self._modules:
            module.training = training
            for key, parameter in module.named_parameters(recurse=False):
                kept = gradients.get(key)
                parameter.grad = None if kept is None else kept.clone()

    @contextlib.contextmanager
    def putting_back(self) -> Iterator[None]:
        """Whatever happens inside, write the copies back afterwards."""
        try:
            yield
        finally:
            self.put_back()


def has_state(value: Any) -> bool:
    """Whether it is an object, not a class, whose state can be read and written."""
    methods = (getattr(value, name, None) for name in ("state_dict", "load_state_dict"))
    return not isinstance(value, type) and all(callable(method) for method in methods)


def _gradients(module: nn.Module) -> dict[str, Tensor | None]:
    own = module.named_parameters(recurse=False)
    return {key: None if parameter.grad is None else parameter.grad.clone() for key, parameter in own}


# --- what the record says -----------------------------------------------------------------------------------------


def _told(info: PassInfo, samples: int | None) -> PassInfo:
    """A pass as it was: of a callable neither preset nor precision are known, nor its samples unless they were told."""
    return replace(info, preset=None, settings={}, batch_size=samples, samples=samples, precision=None)


def _without_samples(name: str, table: pa.Table, samples: int | None) -> pa.Table:
    if name != "steps" or samples is not None:
        return table
    index = table.schema.get_field_index("samples")
    return table.set_column(index, table.schema.field(index), pa.nulls(len(table), pa.int64()))


def _notes(captured: Captured, task: CallTask, saved: Saved, samples: bool) -> list[Note]:
    """The capture's own notes, in the words of a callable, and what they do not say."""
    kept = [note for note in captured.notes if _FAKE not in note.text and "returns no loss" not in note.text]
    if "operators" in captured.passes:
        kept.append(Note("operators", "Counted on the code's own tensors, at one batch size."))
        if not task.modules:
            kept.append(
                Note("operators", "No module was found among what the code uses, so that parameters are not counted.")
            )
    if not samples:
        kept.append(Note("timing", "Nobody told how many samples a run consumes, so that there is no throughput."))
    kept += [Note(f"state of {name}", f"It could not be put back: {text}") for name, text in saved.failed.items()]
    return [*kept, Note("record", f"The code ran {task.runs} times in the passes.")]
