"""Foreign files to tables of the record: one small class a format, on the explicit list below.

The first one that recognizes a file's content reads it: formats that are told by a magic number or a marker of their
own stand before those that are told by the words in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcbench.errors import ReadError
from wcbench.registry import Registry, Row

if TYPE_CHECKING:
    from wcbench.profilers.readers.base import Head, Reader

_HERE = "wcbench.profilers.readers"

READERS = Registry(
    "format",
    [
        Row("nsys", f"{_HERE}.nsys:NsysSqlite"),
        Row("nvprof-sqlite", f"{_HERE}.nvprof_sqlite:NvprofSqlite"),
        Row("rocpd", f"{_HERE}.rocpd:Rocpd"),
        Row("mlperf", f"{_HERE}.mlperf:MlperfLog"),
        Row("et", f"{_HERE}.execution_trace:ExecutionTrace"),
        Row("tf-timeline", f"{_HERE}.tensorflow:Tf1Timeline"),
        Row("tf-trace", f"{_HERE}.tensorflow:TraceViewer"),
        Row("kineto", f"{_HERE}.kineto:Kineto"),
        Row("memory-timeline", f"{_HERE}.memory_timeline:MemoryTimeline"),
        Row("ncu", f"{_HERE}.ncu:NcuCsv"),
        Row("ncu-text", f"{_HERE}.ncu_text:NcuText"),
        Row("ncu-pivot", f"{_HERE}.ncu:NcuPivot"),
        Row("nvprof", f"{_HERE}.nvprof:NvprofCsv"),
        Row("nsys-stats", f"{_HERE}.nsys_stats:NsysStats"),
        Row("rocprof-compute", f"{_HERE}.rocprof_compute:RocprofComputeReader"),
        Row("rocprofv3", f"{_HERE}.rocprofv3:Rocprofv3Reader"),
        Row("rocprof", f"{_HERE}.rocprof:RocprofReader"),
        Row("pyprof", f"{_HERE}.pyprof:PyProf"),
        Row("xplane", f"{_HERE}.xplane:XPlane"),
        Row("chakra", f"{_HERE}.chakra:Chakra"),
    ],
)


def reader(name: str) -> Reader:
    """The reader of a format by its name; raises UnknownNameError."""
    made: Reader = READERS.load(name)()
    return made


def detect(head: Head) -> Reader:
    """The reader of a file's content.

    Raises
    ------
    ReadError : the file is empty, or no reader recognizes it.
    """
    label = head.source.label
    if not head.data:
        raise ReadError(f"{label} is empty (0 bytes).", "The run that should have written it failed; profile again.")
    for name in READERS.names():
        found = reader(name)
        if found.recognizes(head):
            return found
    if b'"ph"' in head.data and b'"ts"' in head.data:
        raise ReadError(
            f"{label} is a Chrome trace of no tool known here: it has no categories or threads that tell kernels.",
            "Its tool may have another export, with a category (cat) on each event.",
        )
    raise ReadError(
        f"{label} is of no format that is read here; it begins with {head.data[:40]!r}.",
        f"Formats: {', '.join(READERS.names())} (docs/formats.md). If it is one of them, name it by --format.",
    )
