"""One pass over a task: build it, step it, and leave the process as it was found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.loop import Loop
from wcbench.profilers.request import Progress, Request
from wcbench.profilers.state import preserved_state, torch_settings
from wcbench.record import Note, PassInfo
from wcbench.tasks.base import Config, Task


@dataclass(frozen=True)
class Outcome:
    """What one pass gave."""

    info: PassInfo
    tables: Mapping[str, Columns]
    notes: Sequence[Note]
    kinds: Sequence[str] = ()  # of the first steps, of which those of a cycle come again


def run_pass(task: Task, config: Config, collector: Collector, request: Request, progress: Progress) -> Outcome:
    """Build the task, drop the warm-up, time the bare steps, measure, and leave the process as it was found."""
    started = time.perf_counter()
    loop = Loop(task, config, collector, request, progress)
    with preserved_state(), _no_autocast(config.device), _tensors(collector.tensors):
        if request.threads is not None:
            torch.set_num_threads(request.threads)
        before = torch_settings()
        loop.run()
        settings = torch_settings()  # as the measured steps ran: a task may have set its own
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
        load=loop.load,
        torch=settings,
        mode=config.mode,
        step_kinds=loop.step_kinds,
        kind_samples=loop.kind_samples,
    )
    notes = [*collector.notes, *loop.notes(), *_changed(collector, before, settings)]
    return Outcome(info, tables, notes, loop.kinds)


def _changed(collector: Collector, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """Settings of torch that the task changed; the pass records what it ran under."""
    own = {"mkldnn"} if collector.tensors == "fake" or not collector.timed else set()  # switched off by the pass
    names = [name for name in after if name not in own and before.get(name) != after[name]]
    texts = [f"{name} {before.get(name)} to {after[name]}" for name in names]
    return [Note(collector.name, f"The task changed settings of torch: {', '.join(texts)}.")] if texts else []


@contextlib.contextmanager
def _no_autocast(device: str) -> Iterator[None]:
    """Mixed precision is the config's alone, not that of whoever calls."""
    with torch.autocast(torch.device(device).type, enabled=False):
        yield


@contextlib.contextmanager
def _tensors(kind: str) -> Iterator[None]:
    if kind == "real":
        yield
        return
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield
