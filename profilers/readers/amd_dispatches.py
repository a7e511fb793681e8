"""Executions of kernels and copies that AMD's profilers tell of, and where they go.

- The launch grid is in work-items in all their files (HIP's blocks times block size): the record's is in blocks.
- Where a file gives only the product over x, y, z, the record has it in x: ``[product, 1, 1]``, with a note.
- Registers per thread are architected and accumulation VGPRs together; LDS is the record's shared memory.
- Kernels that ran while counters were collected ran one at a time: they go to pass `counters`, others to `timeline`.
- Devices are named as the tool counts: `gpu:N` by rocprof's gpu-id, `agent:N` by rocprofv3's agents, CPUs included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_table import MOST, Table, device_label, kernel_name, number
from wcbench.profilers.readers.base import PassFacts, Sink
from wcbench.profilers.readers.timeline import ABSENT

COUNTERS, TIMELINE = "counters", "timeline"
UNNAMED = "(no name)"
_TIME = "the time of an execution or call"
_BATCH = 1 << 15
_ALONE = "Kernels ran one at a time while counters were read, and the file names no units of the counters."
_FLAT = "The file gives the product of a launch's extents only: grid and block have it in x."


@dataclass(slots=True)
class Dispatch:
    """One execution of a kernel or a copy. Times in ns; ``start`` is None where only the duration is known; ``grid`` in
    blocks, ``block`` in threads."""

    name: str
    device: str
    duration: int
    start: int | None = None
    stream: int | None = None
    process: int | None = None
    correlation: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    nbytes: int | None = None


def blocks(items: Sequence[int | None], block: Sequence[int | None]) -> tuple[list[int] | None, list[int] | None]:
    """The grid in blocks, rounded up, and the block, of extents in work-items; None where one makes no sense."""
    sizes = [size for size in block if size is not None and 0 < size <= MOST]
    extents = [extent for extent in items if extent is not None and 0 < extent <= MOST]
    if len(sizes) < len(block):
        return None, None
    if len(extents) < len(items):
        return None, sizes
    return [-(-extent // size) for extent, size in zip(extents, sizes, strict=True)], sizes


def together(architected: int | None, accumulated: int | None) -> int | None:
    """Registers per thread."""
    return None if architected is None else min(architected + (accumulated or 0), MOST)


def read_dispatch(table: Table, cells: Sequence[str], sink: Sink, offset: int) -> Dispatch | None:
    """The execution that a row tells of; None, and a loss, where it has no duration."""
    span = _span(table, cells, sink, offset)
    if span is None:
        return None
    axes = "xyz" if table.has("grid_x") else ""
    size = [table.whole(cells, f"block_{axis}") for axis in axes] or [table.whole(cells, "block"), 1, 1]
    items = [table.whole(cells, f"grid_{axis}") for axis in axes] or [table.whole(cells, "grid"), 1, 1]
    grid, block = blocks(items, size)
    return Dispatch(
        kernel_name(table.text(cells, "name")) or UNNAMED,
        device_label(table.text(cells, "device"), "agent" if "agent_id" in table.at else "gpu"),
        span[1],
        start=span[0],
        stream=table.count(cells, "stream"),
        process=table.count(cells, "process"),
        correlation=table.count(cells, "correlation"),
        grid=grid,
        block=block,
        registers=together(table.count(cells, "vgpr"), table.count(cells, "accum")),
        shared_bytes=table.count(cells, "lds"),
    )


def _span(table: Table, cells: Sequence[str], sink: Sink, offset: int) -> tuple[int | None, int] | None:
    """Start, where the file has one, and duration."""
    if not table.has("start") and not table.has("end"):
        duration = table.whole(cells, "duration")
        if duration is not None and duration >= 0:
            return None, duration
        if table.has("duration"):
            sink.lose(_TIME, "it has no duration", offset=offset)
        return None
    span = checked_span(table.whole(cells, "start"), table.whole(cells, "end"), sink, offset)
    if span and table.has("duration") and table.whole(cells, "duration") != span[1]:
        why = "it is not what lies between start and end, which was taken"
        sink.lose("the duration of an execution", why, offset=offset, repaired=True)
    return span


def checked_span(start: int | None, end: int | None, sink: Sink, offset: int | None = None) -> tuple[int, int] | None:
    """Start and duration; None, and a loss, where the two times are none of an execution or call."""
    if start is None or end is None or max(start, end) > MOST:
        why = "its start or end is no such number"
    elif start <= 0 or end <= 0:
        why = "the profiler has no time of it (0)"
    elif end < start:
        why = "it ends before it starts"
    else:
        return start, end - start
    sink.lose(_TIME, why, offset=offset)
    return None


class Dispatches:
    """Puts executions into the timeline or, where counters were collected, into pass `counters` with their values."""

    def __init__(self, sink: Sink, *, counted: bool) -> None:
        self._sink, self._counted = sink, counted
        self._waiting: list[Dispatch] = []
        self._rows: list[int | None] = []
        self._values: dict[str, list[Any]] = {"name": [], "metric": [], "value": []}
        self._base = sink.rows.get("kernels", 0)
        self._first: int | None = None
        self._last = 0
        self._taken = self._given = 0
        self.device: str | None = None

    def add(self, dispatch: Dispatch) -> int:
        """Take an execution. Returns its row in table `kernels` where counters were collected."""
        if len(self._waiting) >= _BATCH:
            self._flush()
        self._waiting.append(dispatch)
        self.device = self.device or dispatch.device
        if dispatch.start is not None:
            self._first = dispatch.start if self._first is None else min(self._first, dispatch.start)
            self._last = max(self._last, dispatch.start + dispatch.duration)
        self._taken += 1
        return self._base + self._taken - 1

    def value(self, row: int | None, name: str, metric: str, value: float | None) -> None:
        """Take the value of a counter of an execution; ``row`` is None where the execution has no duration."""
        self._given += 1
        self._rows.append(row)
        self._values["name"].append(name)
        self._values["metric"].append(metric)
        self._values["value"].append(value)
        if len(self._rows) >= _BATCH:
            self._flush_values()

    def finish(self, *, flat: bool = False) -> bool:
        """Write the rest and describe the pass; False where there was neither an execution nor a value.

        ``flat``: extents are products, which a note says.
        """
        self._flush()
        self._flush_values()
        if not self._taken and not self._given:
            return False
        name = COUNTERS if self._counted else TIMELINE
        seconds = (self._last - self._first) / 1e9 if self._first is not None else 0.0
        self._sink.describe(name, PassFacts(self.device or "gpu", seconds=seconds))
        if self._counted:
            self._sink.note(COUNTERS, _ALONE)
        if flat:
            self._sink.note(name, _FLAT)
        return True

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            (_add_rows if self._counted else _add_events)(self._sink, waiting)

    def _flush_values(self) -> None:
        if not self._rows:
            return
        many = len(self._rows)
        self._sink.add(
            "counters", COUNTERS, {"kernel": self._rows, "calls": [1] * many, "unit": [""] * many, **self._values}
        )
        self._rows, self._values = [], {name: [] for name in self._values}


def _add_rows(sink: Sink, waiting: Sequence[Dispatch]) -> None:
    columns = {name: name for name in ("name", "device", "stream", "grid", "block", "registers", "shared_bytes")}
    columns |= {"start_ns": "start", "duration_ns": "duration", "bytes": "nbytes"}
    made = {column: [getattr(one, name) for one in waiting] for column, name in columns.items()}
    sink.add("kernels", COUNTERS, {**made, "phase": ["other"] * len(waiting)})


def _add_events(sink: Sink, waiting: Sequence[Dispatch]) -> None:
    timeline = sink.timeline()

    def given(name: str) -> list[int]:
        return [ABSENT if (value := getattr(one, name)) is None else value for one in waiting]

    timeline.device(
        name=[timeline.name(one.name) for one in waiting],
        process=[one.process or 0 for one in waiting],
        device=[timeline.name(one.device) for one in waiting],
        stream=given("stream"),
        start=given("start"),
        duration=[one.duration for one in waiting],
        correlation=given("correlation"),
        grid=[one.grid for one in waiting],
        block=[one.block for one in waiting],
        registers=given("registers"),
        shared_bytes=given("shared_bytes"),
        nbytes=given("nbytes"),
    )


class Calls:
    """Calls of a runtime and ranges of the user, in batches to the timeline."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls: list[tuple[int, ...]] = []
        self._ranges: list[tuple[int, ...]] = []
        self._first: int | None = None
        self._last = self.taken = 0

    def add(self, name: str, process: int, thread: int, span: tuple[int, int], correlation: int | None) -> None:
        """Take a call; of a range ``correlation`` is None."""
        end = span[0] + span[1]
        self._first = span[0] if self._first is None else min(self._first, span[0])
        self._last = max(self._last, end)
        self.taken += 1
        row = (self._sink.timeline().name(name), process, thread, span[0], end)
        if correlation is None:
            self._ranges.append(row)
        else:
            self._calls.append((*row, correlation))
        if len(self._calls) + len(self._ranges) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        names = ("name", "process", "thread", "start", "end", "correlation")
        if self._calls:
            self._sink.timeline().runtime(**dict(zip(names, map(list, zip(*self._calls, strict=True)), strict=True)))
        if self._ranges:
            self._sink.timeline().marks(**dict(zip(names, map(list, zip(*self._ranges, strict=True)), strict=False)))
        self._calls, self._ranges = [], []

    def seconds(self) -> float:
        return (self._last - self._first) / 1e9 if self._first is not None else 0.0


def read_dispatches(table: Table, sink: Sink, counters: Mapping[str, int], *, one_run: bool = True) -> None:
    """Read a file that has a row for each execution.

    ``counters`` are titles and positions of the columns with values; ``one_run``: the times are of one run, not means
    over several, so that starts have a meaning. Raises ReadError where no row can be used.
    """
    if not table.has("name"):
        raise no_columns(sink)
    taken = Dispatches(sink, counted=bool(counters))
    for offset, cells in table.rows():
        one = read_dispatch(table, cells, sink, offset)
        if one is not None and not one_run:
            one.start = None
        row = taken.add(one) if one is not None else None
        name = kernel_name(table.text(cells, "name")) or UNNAMED
        for metric, place in counters.items():
            value = number(cells[place])
            if value is None:
                sink.lose("the value of a counter", "the cell holds no number", offset=offset)
            taken.value(row, name, metric, value)
    if not taken.finish(flat=not table.has("grid_x") and table.has("grid")):
        raise nothing(sink, "execution of a kernel")


def nothing(sink: Sink, what: str) -> ReadError:
    return ReadError(f"{sink.label} holds no {what} that can be read.", "Did the profiled run end? Run it again.")


def no_columns(sink: Sink) -> ReadError:
    """For a file that the user says is of this format."""
    return ReadError(f"{sink.label} has none of the columns of this format.", "Leave out --format: content tells it.")


def copy_name(direction: str) -> str:
    """The first versions wrote HOST_TO_DEVICE, later ones MEMORY_COPY_HOST_TO_DEVICE."""
    return direction if direction.startswith("MEMORY_COPY") else f"MEMORY_COPY_{direction}"


def gpu_facts(node: int | None, product: str | None, architecture: str | None, units: int | None) -> dict[str, Any]:
    """What the record says of a GPU. ``index`` is the number in the labels of devices (`agent:N`)."""
    return {"index": node, "name": product or architecture, "architecture": architecture, "compute_units": units}
