"""SQLite exports of Nsight Systems (``nsys export --type sqlite``).

Identifiers: `globalTid` and `globalPid` pack, from the highest bits down, 8 bits of hardware id, 8 of virtual machine,
24 of process and 24 of thread (zero in a `globalPid`). All but the thread is what a process is here, so that processes
of several hosts stay apart; correlation ids count within one.

Ranks: where several processes used devices, each is a rank of its own, since devices, streams and correlation ids are
numbered within a process. The number is MPI's where the export has it (MPI_RANKS); otherwise processes are numbered
by their main device, then by process id, as launchers start them, and a note says so.

Device labels are the process's own ordinals, as torch names them (`cuda:1` is what the process called so).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.database import Connection, TableError, count, opened, tables
from wcbench.profilers.readers.database_rows import ABSENT, Batch, Field, Texts, fields, rows
from wcbench.profilers.readers.nsys_processes import COPY, FILL, GRAPH, KERNEL, KINDS, gpus, ranks, versions
from wcbench.profilers.readers.nsys_rows import (
    Span,
    closed,
    copy_name,
    fill_name,
    mapped,
    process_of,
    timed,
    total,
    triples,
)
from wcbench.profilers.readers.nvtx import Ranges
from wcbench.profilers.readers.timeline import Timeline

Ints = NDArray[np.int64]

_CALLS = (KINDS + "RUNTIME", KINDS + "DRIVER")
_SYNC, _NVTX = KINDS + "SYNCHRONIZATION", "NVTX_EVENTS"
_OWN = frozenset(("META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_GPU", KERNEL, *_CALLS, _NVTX))

_NAMES = ("demangledName", "shortName", "mangledName")
_VERSION = re.compile(r"_v[0-9]{4,5}\Z")
_COLLECTIVE = re.compile(r"nccl\w*?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)")


class NsysSqlite(Reader):
    """Kernels, copies, fills, calls of the runtime and ranges of a SQLite export."""

    name: ClassVar[str] = "nsys"
    title: ClassVar[str] = "Nsight Systems' SQLite export (nsys export --type sqlite); seen: schema 3.27 of 2026.3"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        found = head.sqlite_tables
        return "StringIds" in found and not _OWN.isdisjoint(found)

    def read(self, source: Source, sink: Sink) -> None:
        with source.local(sink.folder, sink.lose) as path, opened(path, source.label) as connection:
            _Export(connection, sink).read()


class _Export:
    """The reading of one export."""

    def __init__(self, connection: Connection, sink: Sink) -> None:
        self._connection, self._sink = connection, sink
        self._tables = tables(connection)
        self._texts = Texts(connection, "StringIds", "value", sink.lose)
        self._ranks = ranks(connection, sink, self._tables)
        self._known: dict[tuple[Any, ...], int] = {}
        self._collectives: dict[int, int] = {}
        self._span = Span()
        self._graph_kernels = self._worked = 0

    @property
    def _timeline(self) -> Timeline:
        return self._sink.timeline()  # made for the first row: a file that is refused leaves none behind

    def read(self) -> None:
        self._kernels()
        self._copied()
        self._filled()
        self._graphs()
        called = sum(self._called(table) for table in _CALLS)
        ranges = self._ranges()
        waits = count(self._connection, _SYNC)
        if waits:
            self._sink.lose("a synchronization record", "it is waiting, no work of the device", count=waits)
        self._end(called + ranges)

    def _end(self, host: int) -> None:
        label = self._connection.label
        if not self._worked + host:
            raise ReadError(
                f"{label} holds no kernels, copies, calls of CUDA or NVTX ranges.",
                "Profile with `nsys profile --trace=cuda,nvtx`, and see that the program ran on a GPU.",
            )
        if not self._worked:
            self._sink.note("timeline", f"{label} holds no work of a device; profile with --trace=cuda.")
        if found := gpus(self._connection, self._tables, self._sink):
            self._sink.facts["gpus"] = found
        settings = versions(self._connection, self._tables, self._sink)
        self._sink.describe("timeline", PassFacts(device="cuda", seconds=self._span.seconds, settings=settings))

    # --- work of devices -----------------------------------------------------------------------------------------

    def _kernels(self) -> None:
        asked = fields(
            "start end deviceId streamId",
            f"correlationId globalPid {' '.join(_NAMES)} gridX gridY gridZ blockX blockY blockZ registersPerThread "
            "staticSharedMemory dynamicSharedMemory graphNodeId",
        )
        for batch in self._batches(KERNEL, asked):
            names = self._kernel_names(batch)
            self._graph_kernels += int((batch["graphNodeId"] > 0).sum())
            self._work(
                batch,
                names,
                grid=triples(batch["gridX"], batch["gridY"], batch["gridZ"]),
                block=triples(batch["blockX"], batch["blockY"], batch["blockZ"]),
                registers=batch["registersPerThread"],
                shared_bytes=total(batch["staticSharedMemory"], batch["dynamicSharedMemory"]),
                collective=np.array([self._collectives.get(n, ABSENT) for n in names.tolist()], np.int64),
            )

    def _copied(self) -> None:
        asked = fields("start end deviceId streamId copyKind", "correlationId globalPid bytes srcKind dstKind")
        for batch in self._batches(COPY, asked):
            kinds = zip(*(batch[name].tolist() for name in ("copyKind", "srcKind", "dstKind")), strict=True)
            self._work(batch, self._made(copy_name, kinds), nbytes=batch["bytes"])

    def _filled(self) -> None:
        asked = fields("start end deviceId streamId", "correlationId globalPid bytes memKind")
        for batch in self._batches(FILL, asked):
            kinds = ((kind,) for kind in batch["memKind"].tolist())
            self._work(batch, self._made(fill_name, kinds), nbytes=batch["bytes"])

    def _graphs(self) -> None:
        """Launches of CUDA graphs that were recorded as one piece of work each, which is how nsys does by default."""
        asked = fields("start end deviceId streamId", "correlationId globalPid")
        launches = 0
        for batch in self._batches(GRAPH, asked):
            if self._graph_kernels:  # its time would count twice
                self._sink.lose("a launch of a CUDA graph", "its kernels are there", count=len(batch["start"]))
                continue
            launches += len(batch["start"])
            name = self._timeline.name("CUDA graph (kernels not recorded)")
            self._work(batch, np.full(len(batch["start"]), name, np.int64))
        if launches:
            self._sink.note(
                "timeline",
                f"{launches} launches of CUDA graphs were recorded whole, without the kernels in them: their time "
                "has no category. Profile with `nsys profile --cuda-graph-trace=node`.",
            )

    def _work(self, batch: Batch, names: Ints, **extra: Any) -> None:
        process = process_of(batch["globalPid"])
        start, end = batch["start"], batch["end"]
        if self._sink.own_ranks:
            extra["rank"] = mapped(self._ranks, process)
        self._timeline.device(
            name=names,
            process=process,
            device=self._made("cuda:{}".format, ((number,) for number in batch["deviceId"].tolist())),
            stream=batch["streamId"],
            start=start,
            duration=end - start,
            correlation=batch["correlationId"],
            **extra,
        )
        self._worked += len(start)
        self._span.add(start, end)

    # --- the host ------------------------------------------------------------------------------------------------

    def _called(self, table: str) -> int:
        called = 0
        for batch in self._batches(table, fields("start end globalTid", "correlationId nameId")):
            thread = batch["globalTid"]
            self._timeline.runtime(
                name=self._unnamed(self._numbers(batch["nameId"], self._call_name), "a call"),
                process=process_of(thread),
                thread=thread & 0xFFFFFF,
                start=batch["start"],
                end=batch["end"],
                correlation=batch["correlationId"],
            )
            called += len(thread)
            self._span.add(batch["start"], batch["end"])
        return called

    def _ranges(self) -> int:
        ranges = Ranges(self._sink)
        asked = (*fields("start eventType globalTid", "end textId"), Field("text", "text", needed=False))
        for batch in self._batches(_NVTX, asked, closed):
            texts = self._texts.of(np.unique(batch["textId"]).tolist())
            found = [own or texts[at] for own, at in zip(batch["text"], batch["textId"].tolist(), strict=True)]
            thread = batch["globalTid"]
            ranges.add(found, process_of(thread), thread & 0xFFFFFF, batch["start"], batch["end"])
        return ranges.given

    # --- rows and names ------------------------------------------------------------------------------------------

    def _batches(
        self, table: str, asked: Sequence[Field], filtered: Callable[[Batch, Sink], Batch] | None = None
    ) -> Iterator[Batch]:
        """Batches of rows with sound times; an absent table has none, one of an unknown form is told."""
        if table not in self._tables:
            return
        try:
            for batch in rows(self._connection, table, asked, self._sink.lose):
                sound = timed(batch if filtered is None else filtered(batch, self._sink), table, self._sink)
                if len(sound["start"]):
                    yield sound
        except TableError as error:
            self._sink.lose(f"table {table}", error.message.removeprefix(f"{self._connection.label}: "))

    def _kernel_names(self, batch: Batch) -> Ints:
        found = np.full(len(batch["start"]), ABSENT, np.int64)
        for column in _NAMES:
            nameless = found < 0
            if nameless.any():
                found[nameless] = self._numbers(batch[column][nameless], self._kernel_name)
        return self._unnamed(found, "a kernel")

    def _kernel_name(self, text: str) -> int:
        number = self._timeline.name(text)
        if number not in self._collectives:
            found = _COLLECTIVE.match(text)
            self._collectives[number] = self._timeline.name(found.group(1)) if found else ABSENT
        return number

    def _call_name(self, text: str) -> int:
        return self._timeline.name(_VERSION.sub("", text))

    def _numbers(self, ids: Ints, number: Callable[[str], int]) -> Ints:
        """The timeline's numbers of texts by their ids in StringIds; ABSENT where an id points nowhere."""
        different, at = np.unique(ids, return_inverse=True)
        texts = self._texts.of(different.tolist())
        found = (texts[one] for one in different.tolist())
        return np.array([number(text) if text else ABSENT for text in found], np.int64)[at]

    def _unnamed(self, numbers: Ints, what: str) -> Ints:
        nameless = numbers < 0
        if nameless.any():
            self._sink.lose(f"the name of {what}", "its id points nowhere", count=int(nameless.sum()), repaired=True)
            numbers[nameless] = self._timeline.name(f"({what} without a name)")
        return numbers

    def _made(self, make: Callable[..., str], keys: Iterable[tuple[int, ...]]) -> Ints:
        """The timeline's numbers of names that are made of a few numbers each."""
        found = []
        for key in keys:
            number = self._known.get((make, *key))
            if number is None:
                number = self._known[(make, *key)] = self._timeline.name(make(*key))
            found.append(number)
        return np.array(found, np.int64)
