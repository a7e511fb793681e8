"""nvprof's SQLite files (`nvprof -o`, opened by the Visual Profiler): `.nvvp`, `.nvprof`, `.sql`.

Tables are named after CUPTI's kinds of activity; names stand in StringTable by number. One file is of one process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.database import AGAIN, Connection, TableError, columns, count, opened, quoted, tables
from wcbench.profilers.readers.database_rows import MAX_TEXT, Batch, Field, fields, rows
from wcbench.profilers.readers.nsys_rows import Span, timed, total, triples

KINDS = "CUPTI_ACTIVITY_KIND_"
_KERNELS = (KINDS + "CONCURRENT_KERNEL", KINDS + "KERNEL")
_COPIES, _PEER_COPIES, _FILLS = KINDS + "MEMCPY", KINDS + "MEMCPY2", KINDS + "MEMSET"
_RUNTIME, _DRIVER = KINDS + "RUNTIME", KINDS + "DRIVER"
_MARKERS = KINDS + "MARKER"
_STRINGS = "StringTable"
_MAX_NAMES = 1 << 20
# CUpti_ActivityMemcpyKind, in the words of nvprof's own traces.
_WAYS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_LAUNCH = 211
"""CUPTI's number of cudaLaunchKernel since CUDA 9.2, as torch's own reader of these files has it."""

Ints = NDArray[np.int64]


class NvprofSqlite(Reader):
    """Kernels, copies, fills and calls of nvprof's SQLite files."""

    name: ClassVar[str] = "nvprof-sqlite"
    title: ClassVar[str] = "nvprof's SQLite files (.nvvp, .nvprof, .sql), CUDA 7 to 11"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        found = head.sqlite_tables
        return "StringIds" not in found and (_STRINGS in found or any(name.startswith(KINDS) for name in found))

    def read(self, source: Source, sink: Sink) -> None:
        try:
            with source.local(sink.folder, sink.lose) as path, opened(path, source.label) as connection:
                _File(connection, sink).read()
        except sqlite3.Error as error:
            raise ReadError(f"{source.label} is a damaged SQLite file: {error}.", AGAIN) from error


class _File:
    """The reading of one file."""

    def __init__(self, connection: Connection, sink: Sink) -> None:
        self._connection, self._sink = connection, sink
        self._tables = tables(connection)
        self._names = _Strings(connection, sink)
        self._span = Span()
        self._linked = True

    def read(self) -> None:
        self._linked = self._one_process()
        worked = sum(self._kernels(table) for table in _KERNELS)
        worked += sum(self._copied(table) for table in (_COPIES, _PEER_COPIES)) + self._filled()
        if not worked:
            raise self._nothing()
        for table, what in ((_RUNTIME, "runtime"), (_DRIVER, "driver")):
            self._called(table, what)
        markers = count(self._connection, _MARKERS)
        if markers:
            self._sink.lose("a marker", "ranges of nvprof's files are not read", count=markers)
        facts = PassFacts(device="cuda", seconds=self._span.seconds, settings={"tool": "nvprof"})
        self._sink.describe("timeline", facts)

    def _nothing(self) -> ReadError:
        filled = sorted(name for name in self._tables if name.startswith(KINDS) and count(self._connection, name))
        held = f"it holds {', '.join(filled[:6])} only" if filled else "its tables are empty"
        return ReadError(
            f"{self._connection.label} holds no kernels, copies or fills: {held}.",
            "Profile again with nvprof -o, and check that the program ran on a GPU.",
        )

    def _one_process(self) -> bool:
        """Whether calls are of one process: correlation ids count within one, and kernels do not name theirs."""
        processes: set[int] = set()
        for batch in self._batches(_RUNTIME, fields("start end", "processId")):
            processes.update(np.unique(batch["processId"]).tolist())
        if len(processes) > 1:
            self._sink.note("timeline", "Calls are of several processes and kernels name none: they are not linked.")
        return len(processes) <= 1

    def _kernels(self, table: str) -> int:
        asked = fields(
            "start end deviceId streamId name",
            "correlationId gridX gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory "
            "dynamicSharedMemory",
        )
        given = 0
        for batch in self._batches(table, asked):
            self._work(
                batch,
                self._names.numbers(batch["name"]),
                grid=triples(batch["gridX"], batch["gridY"], batch["gridZ"]),
                block=triples(batch["blockX"], batch["blockY"], batch["blockZ"]),
                registers=batch["registersPerThread"],
                shared_bytes=total(batch["staticSharedMemory"], batch["dynamicSharedMemory"]),
            )
            given += len(batch["start"])
        return given

    def _copied(self, table: str) -> int:
        given = 0
        for batch in self._batches(table, fields("start end deviceId streamId copyKind", "correlationId bytes")):
            ways = [_WAYS[way] if 0 < way < len(_WAYS) else "" for way in batch["copyKind"].tolist()]
            names = [self._sink.timeline().name(f"[CUDA memcpy {way}]" if way else "[CUDA memcpy]") for way in ways]
            self._work(batch, np.array(names, np.int64), nbytes=batch["bytes"])
            given += len(names)
        return given

    def _filled(self) -> int:
        given = 0
        for batch in self._batches(_FILLS, fields("start end deviceId streamId", "correlationId bytes")):
            name = self._sink.timeline().name("[CUDA memset]")
            self._work(batch, np.full(len(batch["start"]), name, np.int64), nbytes=batch["bytes"])
            given += len(batch["start"])
        return given

    def _work(self, batch: Batch, names: Ints, **extra: object) -> None:
        devices = [self._sink.timeline().name(f"cuda:{number}") for number in batch["deviceId"].tolist()]
        absent = np.full(len(names), -1, np.int64)
        self._sink.timeline().device(
            name=names,
            process=np.zeros(len(names), np.int64),
            device=devices,
            stream=batch["streamId"],
            start=batch["start"],
            duration=batch["end"] - batch["start"],
            correlation=batch["correlationId"] if self._linked else absent,
            **extra,  # type: ignore[arg-type]
        )
        self._span.add(batch["start"], batch["end"])

    def _called(self, table: str, what: str) -> None:
        asked = fields("start end correlationId", "cbid threadId processId")
        for batch in self._batches(table, asked):
            numbers = batch["cbid"].tolist()
            names = [self._sink.timeline().name(_call_name(what, number)) for number in numbers]
            self._sink.timeline().runtime(
                name=names,
                process=np.zeros(len(names), np.int64) if self._linked else batch["processId"] + 1,
                thread=batch["threadId"],
                start=batch["start"],
                end=batch["end"],
                correlation=batch["correlationId"],
            )
            self._span.add(batch["start"], batch["end"])

    def _batches(self, table: str, asked: Sequence[Field]) -> Iterator[Batch]:
        """Batches of rows with sound times; an absent table has none, one of an unknown form is told."""
        if table not in self._tables:
            return
        try:
            for batch in rows(self._connection, table, asked, self._sink.lose):
                sound = timed(batch, table, self._sink)
                if len(sound["start"]):
                    yield sound
        except TableError as error:
            self._sink.lose(f"table {table}", error.message.removeprefix(f"{self._connection.label}: "))


def _call_name(what: str, number: int) -> str:
    """A call's name: the file holds CUPTI's number of it only."""
    if what == "runtime" and number == _LAUNCH:
        return "cudaLaunchKernel"
    return f"CUDA {what} call {number}" if number >= 0 else f"CUDA {what} call"


class _Strings:
    """Numbers in the timeline of the texts of StringTable, looked up when first asked for."""

    def __init__(self, connection: Connection, sink: Sink) -> None:
        self._connection, self._sink = connection, sink
        self._known: dict[int, int] = {}
        try:
            self._there = {"_id_", "value"} <= columns(connection, _STRINGS)
        except TableError:
            self._there = False

    def numbers(self, ids: Ints) -> Ints:
        different, at = np.unique(ids, return_inverse=True)
        return np.array([self._number(number) for number in different.tolist()], np.int64)[at]

    def _number(self, number: int) -> int:
        known = self._known.get(number)
        if known is not None:
            return known
        text = self._text(number)
        if text is None:
            self._sink.lose("the name of a kernel", "its number points nowhere", repaired=True)
        made = self._sink.timeline().name(text or "(a kernel without a name)")
        if len(self._known) < _MAX_NAMES:
            self._known[number] = made
        return made

    def _text(self, number: int) -> str | None:
        if not self._there:
            return None
        query = f"SELECT substr(value, 1, {MAX_TEXT}) FROM {quoted(_STRINGS)} WHERE _id_ = ? AND typeof(value) = 'text'"
        with self._connection.working():
            found = self._connection.execute(query, (number,)).fetchone()
        return str(found[0]) if found else None
