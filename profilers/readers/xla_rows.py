"""Events of XPlane files and of the trace viewer on their way to the timeline: what each is, what does not count."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wcbench.errors import ReadError
from wcbench.profilers.readers import xla
from wcbench.profilers.readers.base import PassFacts, Sink
from wcbench.profilers.readers.timeline import ABSENT

BATCH = 1 << 13
_MAX_TIME = 1 << 62
_MAX_ORIGINS = 1 << 16
_NUMBER_AT_END = re.compile(r"(?:.*\D)?([0-9]{1,12})", re.DOTALL)
_MAX_STEP = 10**12

_HOST = ["name", "process", "thread", "start", "end"]
_KERNEL = [
    *("name", "process", "device", "stream", "start", "duration", "correlation", "op", "phase", "module"),
    *("grid", "block", "registers", "shared_bytes", "occupancy", "nbytes"),
]


class Event(NamedTuple):
    """What happened on a line: name, start and duration in nanoseconds, stats by lower-case name."""

    name: str
    start: int
    duration: int
    stats: xla.Stats


class Batch:
    """Rows on their way to a method of the timeline, which is made when the first of them get there: not at all for a
    file that holds none."""

    def __init__(self, sink: Sink, method: str, columns: Sequence[str]) -> None:
        self._sink, self._method = sink, method
        self._columns: dict[str, list[Any]] = {name: [] for name in columns}
        self._lists = list(self._columns.values())
        self.rows = 0

    def add(self, *values: Any) -> None:
        """One row, in the order of the columns."""
        for column, value in zip(self._lists, values, strict=True):
            column.append(value)
        self.rows += 1
        if len(self._lists[0]) >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._lists[0]:
            give = getattr(self._sink.timeline(), self._method)
            give(**{name: list(values) for name, values in self._columns.items()})
        for column in self._lists:
            column.clear()


class Rows:
    """Takes events of planes and lines, decides what they are, and gives them to the timeline.

    A file is of one process, number 0. Times are nanoseconds.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kernels = Batch(sink, "device", _KERNEL)
        self._runtime = Batch(sink, "runtime", [*_HOST, "correlation"])
        self._ops = Batch(sink, "ops", [*_HOST, "backward"])
        self._nested: dict[xla.Device, _Nested] = {}
        self._marks: dict[str, dict[int, tuple[int, int, int]]] = {}  # name: number: thread, start, end
        self._device_steps: dict[int, tuple[int, int, int]] = {}
        self._steps_of: xla.Device | None = None
        self._devices: set[xla.Device] = set()
        self._no_occupancy = 0
        self._origins: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        self._first, self._last = _MAX_TIME, -_MAX_TIME

    def on_device(self, of: xla.Device, stream: int, event: Event) -> None:
        """Work on a stream: a kernel, a copy or a fill."""
        name, start, duration, stats = event
        if not xla.is_work(name, stats):
            self._sink.lose("a record of memory management or waiting on a device", "it is no work")
            return
        if not self._timed(start, duration):
            return
        self._devices.add(of)
        op, module, phase_of = self._origin(stats)
        if of.is_tpu:
            self._nested.setdefault(of, _Nested()).add(start, duration, self._name(name), op, phase_of, module)
            return
        launched = xla.launched(stats)
        self._no_occupancy += launched[-1] is None and launched[0] is not None
        self._kernels.add(
            self._name(name), 0, self._name(of.label), stream, start, duration, xla.correlation(stats), op, phase_of,
            module, *launched, xla.copied(stats),
        )  # fmt: skip

    def on_host(self, thread: int, event: Event) -> None:
        """A call on the host.

        What has a correlation id is a call of the runtime. Operators are calls of XLA's instructions (stat hlo_op) and
        of TensorFlow's executor ("path:Type"). The rest is left out: Python's frames, ranges of the framework's own
        machinery (which wait as often as they work), the allocator's instants.
        """
        name, start, duration, stats = event
        number = xla.whole(stats.get("step_num"))
        if number is not None and number < _MAX_STEP:
            self._mark(event, number, thread)
            return
        correlation = xla.correlation(stats)
        found = xla.executor_call(name)
        if correlation == ABSENT and found is None and "hlo_op" not in stats:
            self._sink.lose("a range on the host", "it is of Python or of the framework's machinery, no operator")
        elif self._timed(start, duration):
            row = (0, thread, start, start + duration)
            if correlation != ABSENT:
                self._runtime.add(self._name(name), *row, correlation)
            else:
                path, called = found or (str(stats.get("name", "")), name)
                self._ops.add(self._name(called), *row, xla.phase(path, called) == "backward")

    def step(self, of: xla.Device, thread: int, event: Event) -> None:
        """A step as a device saw it: of several devices the first one's are used, and only where the host marks none
        and launches nothing (a launch of the next step may lie within a step of the device)."""
        name, start, duration, _ = event
        found = _NUMBER_AT_END.fullmatch(name)
        self._steps_of = self._steps_of or of
        if found and self._steps_of == of and self._sane(start, duration):
            self._device_steps.setdefault(int(found.group(1)), (thread, start, start + duration))

    def _name(self, text: str) -> int:
        return self._sink.timeline().name(text)

    def _origin(self, stats: xla.Stats) -> tuple[int, int, int]:
        """Numbers of operator, module and phase."""
        get = stats.get
        key = (get("tf_op", ""), get("name", ""), get("hlo_op", ""), get("hlo_module", ""))
        known = self._origins.get(key)
        if known is None:
            op, module, phase_of = (ABSENT if t is None else self._name(t) for t in xla.origin(*map(str, key)))
            known = (op, module, phase_of)
            if len(self._origins) < _MAX_ORIGINS:
                self._origins[key] = known
        return known

    def finish(self) -> None:
        """Hand over what waits. Raises ReadError where the file held nothing."""
        for of, nested in self._nested.items():
            self._leaves(of, nested)
        rows = self._kernels.rows + self._ops.rows + self._runtime.rows
        if not rows:
            raise ReadError(
                f"{self._sink.label} holds neither kernels nor operators.",
                "Profile again while steps run; of a GPU, with access to its counters (see TensorFlow's messages).",
            )
        for batch in (self._kernels, self._runtime, self._ops):
            batch.flush()
        self._doubts()
        steps = self._steps()
        label = min((of.label for of in self._devices), default="cpu")
        self._sink.describe("timeline", PassFacts(label, max(steps, 1), (self._last - self._first) / 1e9))

    def _doubts(self) -> None:
        if self._no_occupancy:
            text = f"The file gives no occupancy of {self._no_occupancy} kernels (0 % is what XLA writes there)."
            self._sink.note("kernels", text)
        if self._kernels.rows:
            text = "Phases are read off the paths of operators; work whose path tells none counts as other."
            self._sink.note("kernels", text)

    def _timed(self, start: int, duration: int) -> bool:
        if not self._sane(start, duration):
            self._sink.lose("an event", "its time is negative or absurd")
            return False
        self._first, self._last = min(self._first, start), max(self._last, start + duration)
        return True

    @staticmethod
    def _sane(start: int, duration: int) -> bool:
        return 0 <= start < _MAX_TIME and 0 <= duration < _MAX_TIME - start

    def _mark(self, event: Event, number: int, thread: int) -> None:
        name, start, duration, _ = event
        if not self._sane(start, duration):
            self._sink.lose("a step's mark", "its time is negative or absurd")
            return
        # where a step has a name ("train 7"), the trace viewer shows it instead of the range's own ("train")
        known = self._marks.setdefault(name.removesuffix(str(number)).rstrip(" #_"), {})
        if number in known:
            self._sink.lose("a step's mark", "another one of its name has its number")
        else:
            known[number] = (thread, start, start + duration)

    def _steps(self) -> int:
        """Give the marks of steps as "ProfilerStep#N", torch's name for them, and return how many there are.

        Where several ranges carry numbers (train and eval, or one within the other), those that span most are used.
        """
        name = max(self._marks, key=lambda each: _span(self._marks[each]), default=None)
        if len(self._marks) > 1:
            self._sink.note("steps", f"Steps are the ranges {name!r}; other ranges that carry numbers are left out.")
        found = {} if name is None else self._marks[name]
        if name is None and not self._runtime.rows:
            found = self._device_steps
        batch = Batch(self._sink, "marks", _HOST)
        for number, (thread, start, end) in found.items():
            batch.add(self._name(f"ProfilerStep#{number}"), 0, thread, start, end)
        batch.flush()
        return len(found)

    def _leaves(self, of: xla.Device, nested: _Nested) -> None:
        """Of nested operations only the innermost are work: a while loop's time is that of its body."""
        outer = nested.outer()
        if outer.any():
            why = "its time is that of the operations within it"
            self._sink.lose("an operation that encloses others (while, conditional, call)", why, count=int(outer.sum()))
        label = self._name(of.label)
        for i in np.flatnonzero(~outer).tolist():
            start, duration, name, op, phase_of, module = nested.row(i)
            unknown = xla.Launch()
            self._kernels.add(
                name, 0, label, ABSENT, start, duration, ABSENT, op, phase_of, module, unknown.grid, unknown.block,
                unknown.registers, unknown.shared_bytes, unknown.occupancy, ABSENT,
            )  # fmt: skip


class _Nested:
    """Operations of a TPU, which may lie within each other; six whole numbers a row."""

    def __init__(self) -> None:
        self._columns = [array("q") for _ in range(6)]

    def add(self, *row: int) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def row(self, index: int) -> list[int]:
        return [column[index] for column in self._columns]

    def outer(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which operations enclose another one."""
        start, duration = (np.array(column, np.int64) for column in self._columns[:2])
        end = start + duration
        order = np.lexsort((-end, start))
        found = np.zeros(len(start), np.bool_)
        # sorted so, an operation encloses others if it does the next one
        inner, around = order[1:], order[:-1]
        within = (end[inner] <= end[around]) & (start[inner] < end[around])
        found[around] = within & (duration[inner] < duration[around])
        return found


def _span(marks: Mapping[int, tuple[int, int, int]]) -> int:
    return sum(end - start for _, start, end in marks.values())
