"""torch.profiler's events, in integer nanoseconds, as tables `ops`, `kernels` and `runtime`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from wcbench.profilers import link
from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.streams import quiet_kineto
from wcbench.tasks.base import Built

_OPS = {"cpu_op"}
_MARKS = {"user_annotation"}
_RUNTIME = {"cuda_runtime", "cuda_driver"}
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
# seen in every capture and no part of it: the profiler's own cost, and copies of host marks on the device
_IGNORED = {"overhead", "gpu_user_annotation", "python_function", "cpu_instant_event", "cuda_sync"}


class Timeline(Collector):
    """Runs the measured steps under torch.profiler: no shapes, no stacks, no memory, few steps."""

    name = "timeline"
    purpose = "every operator and kernel in time, by torch.profiler"
    warmup = 2
    bare = 3
    steps = 3

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._events: list[Any] = []
        self._entered = 0

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        activities = [ProfilerActivity.CPU]
        on_cuda = torch.device(self.device).type == "cuda"
        if on_cuda:
            activities.append(ProfilerActivity.CUDA)
        profiler = profile(activities=activities, acc_events=False)
        with quiet_kineto():
            profiler.start()
        try:
            with _forward_marks(built):
                yield
        finally:
            with quiet_kineto():
                profiler.stop()
        self._events = list(profiler.profiler.kineto_results.events())  # type: ignore[union-attr]

    @contextlib.contextmanager
    def step(self, index: int, kind: str, batch: Any = None) -> Iterator[None]:
        self._entered += 1
        with record_function(f"{link.STEP_MARK}{index}"):
            yield

    def tables(self) -> Mapping[str, Columns]:
        marked = {event.name() for event in self._events if link.is_step_mark(event.name())}
        if len(marked) < self._entered:
            self.note(
                f"The timeline is missing: of {self._entered} steps the profiler saw {len(marked)}. A profiler of the "
                "task's own cancels this one."
            )
            return {}
        tables, notes = events_to_tables(self._events)
        for text in notes:
            self.note(text)
        return tables


@contextlib.contextmanager
def _forward_marks(built: Built) -> Iterator[None]:
    """Mark calls of the task's outermost modules, so that what runs there under no_grad is forward too."""
    handles = []
    for module in built.modules.values():
        open_marks: list[record_function] = []

        def enter(_module: Any, _args: Any, marks: list[record_function] = open_marks) -> None:
            marks.append(record_function(link.FORWARD_MARK))
            marks[-1].__enter__()

        def leave(_module: Any, _args: Any, _output: Any, marks: list[record_function] = open_marks) -> None:
            marks.pop().__exit__(None, None, None)

        with contextlib.suppress(RuntimeError):  # a ScriptModule takes no hooks; autograd tells its forward
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def events_to_tables(events: Sequence[Any]) -> tuple[dict[str, Columns], list[str]]:
    """Tables and notes from Kineto's event objects (`torch._C._autograd._KinetoEvent`)."""
    by_kind: dict[str, list[Any]] = {"host": [], "runtime": [], "device": []}
    others: dict[str, int] = {}
    for event in events:
        kind = event.activity_type()
        if kind in _OPS or (kind in _MARKS and link.is_mark(event.name())):
            by_kind["host"].append(event)
        elif kind in _RUNTIME:
            by_kind["runtime"].append(event)
        elif kind in _DEVICE:
            by_kind["device"].append(event)
        elif kind not in _IGNORED and kind not in _MARKS:
            others[kind] = others.get(kind, 0) + 1
    notes = [f"{count} events of kind {kind} are left out." for kind, count in sorted(others.items())]
    if any(event.name().startswith("PythonDispatchMode") for event in by_kind["host"]):
        notes.append("A dispatch mode runs inside the steps: call counts may be doubled (pytorch issue 195746).")
    builder = _Tables(by_kind["host"], by_kind["runtime"], by_kind["device"], notes)
    return builder.build(), notes


class _Tables:
    """The three tables of one capture, built from its events."""

    def __init__(self, host: list[Any], runtime: list[Any], device: list[Any], notes: list[str]) -> None:
        self.events = _host_events(host)
        self.nesting = link.nest(self.events.thread, self.events.start, self.events.end)
        self.phase = np.array(link.phases(self.events, self.nesting), dtype=object)
        self.step = link.steps_by_time(self.events, self.events.start)
        self.runtime, self.device, self.notes = runtime, device, notes
        # operator calls within a step, in time order, become rows of `ops`
        kept = np.flatnonzero(~self.events.mark & (self.step >= 0))
        self.rows = kept[np.lexsort((self.nesting.depth[kept], self.events.start[kept]))]
        self.row_of = np.full(len(self.events), -1, np.int64)
        self.row_of[self.rows] = np.arange(len(self.rows))

    def build(self) -> dict[str, Columns]:
        if self.nesting.clipped:
            self.notes.append(
                f"{self.nesting.clipped} calls outlived the call around them and were cut to its end "
                f"({self.nesting.clipped_ns} ns in all)."
            )
        if len(self.events) and not len(self.rows) and not self.device:
            self.notes.append("The measured steps ran no operator.")
        tables: dict[str, Columns] = {"ops": self._ops()}
        if self.device or self.runtime:
            tables.update(self._device_tables())
        else:
            tables["kernels"] = self._host_kernels()
        return tables

    def _ops(self) -> Columns:
        above = link.enclosing_op(self.events, self.nesting)[self.rows]
        return {
            "name": [self.events.name[i] for i in self.rows],
            "rank": np.zeros(len(self.rows), np.int64),
            "thread": self.events.thread[self.rows],
            "start_ns": self.events.start[self.rows],
            "duration_ns": (self.events.end - self.events.start)[self.rows],
            "self_ns": self.nesting.self_ns[self.rows],
            "depth": link.op_depth(self.events, self.nesting)[self.rows],
            "parent": _none_below_zero(_pick(self.row_of, above, -1)),
            "step": self.step[self.rows],
            "phase": self.phase[self.rows],
        }

    def _host_kernels(self) -> Columns:
        """On a CPU host every operator call is a kernel row with its self time; a call whose only child is one of the
        same name (an operator that dispatches to itself again) is one call, as torch's own table has it."""
        rows, time = self._merged()
        n = len(rows)
        return {
            "name": [self.events.name[i] for i in rows],
            "rank": np.zeros(n, np.int64),
            "device": ["cpu"] * n,
            "start_ns": self.events.start[rows],
            "duration_ns": time[rows],
            "step": self.step[rows],
            "phase": self.phase[rows],
        }

    def _merged(self) -> tuple[link.Ints, link.Ints]:
        """Events that stand for a call, and self times with those of the calls merged into them."""
        above = link.enclosing_op(self.events, self.nesting)
        children = np.bincount(above[above >= 0], minlength=len(self.events))
        time, stands = self.nesting.self_ns.copy(), np.arange(len(self.events))
        kept = []
        for i in self.rows.tolist():  # in time order, outer calls first
            outer = int(above[i])
            if outer >= 0 and children[outer] == 1 and self.events.name[outer] == self.events.name[i]:
                stands[i] = stands[outer]
                time[stands[i]] += time[i]
            else:
                kept.append(i)
        return np.array(kept, dtype=np.int64), time

    def _device_tables(self) -> dict[str, Columns]:
        runtime = sorted(self.runtime, key=lambda e: int(e.start_ns()))
        start = _ints(e.start_ns() for e in runtime)
        correlation = _ints(e.correlation_id() for e in runtime)
        thread = _ints(e.start_thread_id() for e in runtime)
        inside = link.innermost(self.events, self.nesting, thread, start)
        op = self._nearest_op(inside)
        step = link.steps_by_time(self.events, start)
        launches = link.link_launches(
            _ints(e.correlation_id() for e in self.device), correlation, [e.name() for e in runtime]
        )
        self._note_losses(launches)
        tables: dict[str, Columns] = {
            "runtime": {
                "name": [e.name() for e in runtime],
                "rank": np.zeros(len(runtime), np.int64),
                "thread": thread,
                "start_ns": start,
                "duration_ns": _ints(e.duration_ns() for e in runtime),
                "correlation": correlation,
                "op": _none_below_zero(_pick(self.row_of, op, -1)),
                "step": _none_below_zero(step),
            }
        }
        tables["kernels"] = self._device_kernels(launches.launch, inside, op, step)
        return tables

    def _nearest_op(self, inside: link.Ints) -> link.Ints:
        above = link.enclosing_op(self.events, self.nesting)
        return np.where(_pick(self.events.mark, inside, False), _pick(above, inside, -1), inside)

    def _device_kernels(self, launch: link.Ints, inside: link.Ints, op: link.Ints, step: link.Ints) -> Columns:
        """Kernels take step, phase and operator from their launch; one without a launch has none of them."""
        details = [_details(e) for e in self.device]
        return {
            "name": [e.name() for e in self.device],
            "rank": np.zeros(len(self.device), np.int64),
            "device": [f"cuda:{e.device_index()}" for e in self.device],
            "stream": [e.device_resource_id() for e in self.device],
            "start_ns": _ints(e.start_ns() for e in self.device),
            "duration_ns": _ints(e.duration_ns() for e in self.device),
            "step": _none_below_zero(_pick(step, launch, -1)),
            "phase": [self.phase[i] if i >= 0 else link.OTHER for i in _pick(inside, launch, -1)],
            "op": [self.events.name[i] if i >= 0 else None for i in _pick(op, launch, -1)],
            "launch": _none_below_zero(launch),
            **{key: [d[key] for d in details] for key in _DETAILS},
        }

    def _note_losses(self, launches: link.Launches) -> None:
        if launches.lost:
            self.notes.append(f"{launches.lost} launches have no device record: their kernels are missing.")
        if launches.orphans:
            self.notes.append(f"{launches.orphans} kernels have no launch in the window and belong to no step.")
        timeless = sum(e.start_ns() <= 0 for e in self.device)
        if timeless:  # kineto issue 109
            self.notes.append(f"{timeless} kernels carry no timestamp: their time is missing.")


def _host_events(events: list[Any]) -> link.HostEvents:
    start = _ints(e.start_ns() for e in events)
    return link.HostEvents(
        name=[e.name() for e in events],
        mark=np.array([e.activity_type() in _MARKS for e in events], dtype=np.bool_),
        thread=_ints(e.start_thread_id() for e in events),
        start=start,
        end=start + _ints(e.duration_ns() for e in events),
        sequence=_ints(e.sequence_nr() for e in events),
    )


_DETAILS = ("grid", "block", "registers", "shared_bytes", "occupancy_estimate", "bytes")


def _details(event: Any) -> dict[str, Any]:
    """Launch configuration from a device event's metadata, as Kineto writes it; null where it is not there."""
    try:
        data = json.loads("{" + event.metadata_json() + "}")
    except (json.JSONDecodeError, AttributeError):
        data = {}
    occupancy = data.get("est. achieved occupancy %")
    return {
        "grid": data.get("grid"),
        "block": data.get("block"),
        "registers": data.get("registers per thread"),
        "shared_bytes": data.get("shared memory"),
        "occupancy_estimate": None if occupancy is None else occupancy / 100,  # a whole per cent: 0 is "under 0.5 %"
        "bytes": data.get("bytes"),
    }


def _ints(values: Any) -> link.Ints:
    return np.fromiter(values, dtype=np.int64)


def _pick(values: Any, rows: link.Ints, otherwise: int) -> Any:
    """``values[row]`` for each row, and ``otherwise`` where the row is below zero."""
    return np.where(rows >= 0, values[rows], otherwise) if len(values) else np.full(len(rows), otherwise)


def _none_below_zero(values: link.Ints) -> list[int | None]:
    return [value if value >= 0 else None for value in values.tolist()]
