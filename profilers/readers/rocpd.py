"""rocpd: the SQLite files of rocprofv3 and of ROCm's other profilers, schema 3.0 to 4.1.

The base tables carry the file's GUID in their names (several, in files put together). They are read; the file's views,
by which its own tools read them, are programs of the file's and are not. Where the times, the queue and the agent of
a row stand moved between versions: in the row, in its track, or (times) in a table of timestamps.

A kernel and the call that launched it share the `stack_id` of their events. Launch grids are in work-items; the record
has blocks. Devices are named by their place among the GPUs that the process saw, as torch names them. Where counters
were collected, kernels ran one at a time, and go to pass `counters` with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_dispatches import Dispatch, Dispatches
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.database import Connection, TableError, count, opened, tables
from wcbench.profilers.readers.database_rows import ABSENT, Batch, Field, fields, rows
from wcbench.profilers.readers.nsys_rows import Ints, Span, mapped, timed
from wcbench.profilers.readers.nvtx import Ranges
from wcbench.profilers.readers.rocpd_parts import Part, blocks_of, copy_name, parts_of, ranks

_PLACE = "pid tid agent_id queue_id stream_id start end start_id end_id track_id event_id"
_AXES = "workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z"


class Rocpd(Reader):
    """Kernels, copies, calls, markers and counters of a rocpd file."""

    name: ClassVar[str] = "rocpd"
    title: ClassVar[str] = "rocpd, the SQLite files of rocprofv3 (ROCm 7), schema 3.0 to 4.1; written after its schema"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        found = head.sqlite_tables
        return any(name.startswith(("rocpd_kernel_dispatch", "rocpd_info_agent")) for name in found)

    def read(self, source: Source, sink: Sink) -> None:
        with source.local(sink.folder, sink.lose) as path, opened(path, source.label) as connection:
            _File(connection, sink).read()


class _File:
    """The reading of one file."""

    def __init__(self, connection: Connection, sink: Sink) -> None:
        self._connection, self._sink = connection, sink
        self._tables = tables(connection)
        self._parts = [Part(connection, sink, suffix, at) for at, suffix in enumerate(parts_of(self._tables))]
        if not self._parts:
            raise ReadError(f"{connection.label} has no tables of rocpd's.", "Write it with rocprofv3 again.")
        self._counted = any(count(connection, part.table("pmc_event")) for part in self._parts)
        self._ranks = {} if self._counted else ranks(self._parts, sink)
        self._span = Span()
        self._worked = self._called = 0

    def read(self) -> None:
        dispatches = Dispatches(self._sink, counted=True)
        ranges = Ranges(self._sink)
        for part in self._parts:
            if self._counted:
                self._with_counters(part, dispatches)
            else:
                self._kernels(part)
                self._copies(part)
            self._regions(part, ranges)
        counted = dispatches.finish() if self._counted else False
        self._end(counted, self._called + ranges.given)

    def _end(self, counted: bool, host: int) -> None:
        label = self._connection.label
        if not (counted or self._worked or host):
            raise ReadError(
                f"{label} holds no kernels, copies, calls or markers.",
                "Profile with `rocprofv3 --runtime-trace --output-format rocpd`.",
            )
        gpus = [gpu for part in self._parts for gpu in part.gpus]
        if gpus:
            self._sink.facts["gpus"] = gpus
        if self._worked or host:
            self._sink.describe("timeline", PassFacts(device="cuda", seconds=self._span.seconds))
        if not self._worked and not counted:
            self._sink.note("timeline", f"{label} holds no work of a device; profile with --kernel-trace.")

    # --- work of devices -----------------------------------------------------------------------------------------

    def _kernels(self, part: Part) -> None:
        asked = fields("kernel_id", f"{_PLACE} {_AXES} group_segment_size")
        for batch in self._batches(part, "kernel_dispatch", asked):
            symbols = part.symbols(batch["kernel_id"])
            grid, block = blocks_of(batch)
            self._work(
                part,
                batch,
                np.array([self._sink.timeline().name(symbol.name) for symbol in symbols], np.int64),
                part.labels(batch["agent_id"]),
                grid=grid,
                block=block,
                registers=[symbol.registers for symbol in symbols],
                shared_bytes=batch["group_segment_size"],
            )

    def _copies(self, part: Part) -> None:
        asked = fields("name_id", f"{_PLACE} dst_agent_id src_agent_id size")
        for batch in self._batches(part, "memory_copy", asked):
            texts = part.texts(batch["name_id"])
            names = [self._sink.timeline().name(copy_name(text)) for text in texts]
            target, source = part.labels(batch["dst_agent_id"]), part.labels(batch["src_agent_id"])
            device = [a if a.startswith("cuda") else b for a, b in zip(target, source, strict=True)]
            self._work(part, batch, np.array(names, np.int64), device, nbytes=batch["size"])

    def _work(self, part: Part, batch: Batch, names: Ints, labels: list[str], **extra: Any) -> None:
        timeline = self._sink.timeline()
        process = part.process(batch["pid"])
        if self._sink.own_ranks:
            extra["rank"] = mapped(self._ranks, process)
        timeline.device(
            name=names,
            process=process,
            device=[timeline.name(label) for label in labels],
            stream=_stream(batch),
            start=batch["start"],
            duration=batch["end"] - batch["start"],
            correlation=part.events(batch["event_id"]).stack,
            **extra,
        )
        self._worked += len(names)
        self._span.add(batch["start"], batch["end"])

    def _with_counters(self, part: Part, dispatches: Dispatches) -> None:
        """Kernels of which counters were collected, and the counters: the sum over a counter's instances each."""
        asked = fields("kernel_id", f"{_PLACE} {_AXES} group_segment_size")
        known: dict[int, tuple[int, str]] = {}
        for batch in self._batches(part, "kernel_dispatch", asked):
            symbols, labels = part.symbols(batch["kernel_id"]), part.labels(batch["agent_id"])
            grid, block = blocks_of(batch)
            stream = _stream(batch).tolist()
            columns = [batch[name].tolist() for name in ("start", "end", "group_segment_size", "event_id")]
            for at, (start, end, shared, event) in enumerate(zip(*columns, strict=True)):
                dispatch = Dispatch(
                    symbols[at].name,
                    labels[at],
                    end - start,
                    start=start,
                    stream=_told(stream[at]),
                    grid=None if grid[at] is None else list(grid[at] or ()),
                    block=None if block[at] is None else list(block[at] or ()),
                    registers=_told(symbols[at].registers),
                    shared_bytes=_told(shared),
                )
                known[event] = dispatches.add(dispatch), symbols[at].name
        if copies := count(self._connection, part.table("memory_copy")):  # alone they would look like all the work
            self._sink.lose("a copy", "kernels ran one at a time for their counters", count=copies)
        for event, metric, value in self._counters(part):
            row, name = known.get(event, (None, None))
            if name is None:
                self._sink.lose("the value of a counter", "its kernel is not in the file")
            else:
                dispatches.value(row, name, metric, value)

    def _counters(self, part: Part) -> Iterator[tuple[int, str, float]]:
        """Event, name and value of each counter; the instances of one follow each other in the file."""
        names = part.counters()
        asked = (*fields("event_id pmc_id"), Field("value", "real"))
        event, sums = ABSENT, dict[str, float]()
        try:
            for batch in rows(self._connection, part.table("pmc_event"), asked, self._sink.lose):
                for at, counter, value in zip(*(batch[field.name].tolist() for field in asked), strict=True):
                    if at != event:
                        yield from ((event, name, total) for name, total in sums.items())
                        event, sums = at, {}
                    name = names.get(counter)
                    if name is None or not np.isfinite(value):
                        self._sink.lose("the value of a counter", "its counter is not described, or it is no number")
                    else:
                        sums[name] = sums.get(name, 0.0) + value
        except TableError as error:
            self._sink.lose("the counters", error.message)
        yield from ((event, name, total) for name, total in sums.items())

    # --- the host ------------------------------------------------------------------------------------------------

    def _regions(self, part: Part, ranges: Ranges) -> None:
        for batch in self._batches(part, "region", fields("name_id", _PLACE)):
            events = part.events(batch["event_id"])
            names = part.texts(batch["name_id"])
            call = np.array([kind.startswith(("HIP", "HSA")) for kind in events.category], np.bool_)
            mark = np.array(["MARKER" in kind for kind in events.category], np.bool_)
            other = int((~call & ~mark).sum())
            if other:
                self._sink.lose("a region", "it is neither a call of HIP or HSA nor a marker", count=other)
            process = part.process(batch["pid"])
            self._calls(batch, names, process, events.stack, call)
            texts = [events.message(at) or names[at] for at in np.flatnonzero(mark).tolist()]
            where = (process[mark], batch["tid"][mark], batch["start"][mark], batch["end"][mark])
            ranges.add(texts, *where)

    def _calls(self, batch: Batch, names: list[str | None], process: Ints, stack: Ints, call: Any) -> None:
        if not call.any():
            return
        timeline = self._sink.timeline()
        found = [timeline.name(names[at] or "(a call without a name)") for at in np.flatnonzero(call).tolist()]
        timeline.runtime(
            name=found,
            process=process[call],
            thread=batch["tid"][call],
            start=batch["start"][call],
            end=batch["end"][call],
            correlation=stack[call],
        )
        self._called += len(found)
        self._span.add(batch["start"][call], batch["end"][call])

    def _batches(self, part: Part, name: str, asked: tuple[Field, ...]) -> Iterator[Batch]:
        """Rows of one of a part's tables with their places filled in and sound times."""
        table = part.table(name)
        if table not in self._tables:
            return
        try:
            for batch in rows(self._connection, table, asked, self._sink.lose):
                part.place(batch)
                sound = timed(batch, table, self._sink)
                if len(sound["start"]):
                    yield sound
        except TableError as error:
            self._sink.lose(f"table {table}", error.message)


def _stream(batch: Batch) -> Ints:
    """The stream, or the queue of a file that does not tell streams."""
    stream: Ints = batch["stream_id"]
    return np.where(stream < 0, np.asarray(batch["queue_id"], np.int64), stream)


def _told(value: int) -> int | None:
    return value if value >= 0 else None
