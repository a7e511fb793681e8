"""The records of rocprofv3's results.json that are used, and how they are decoded: sections apart, fail-soft."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Sink, Source

LIMIT = 1 << 28
FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_DEPTH = 64
_NULL = msgspec.Raw(b"null")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)  # possessive: remembers no way back
_CLOSE = {b"[": b"]", b"{": b"}"}

R = TypeVar("R")


class Handle(msgspec.Struct, frozen=True, gc=False):
    handle: int = 0


class Correlation(msgspec.Struct, frozen=True, gc=False):
    internal: int = 0


class Extents(msgspec.Struct, frozen=True, gc=False):
    x: int = 0
    y: int = 0
    z: int = 0


class Info(msgspec.Struct):
    kernel_id: int
    dispatch_id: int = -1
    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    group_segment_size: int = -1
    workgroup_size: Extents = Extents()
    grid_size: Extents = Extents()


class Executed(msgspec.Struct):
    """A record of kernel_dispatch, or the `dispatch_data` of a record of counter_collection."""

    dispatch_info: Info
    start_timestamp: int = 0
    end_timestamp: int = 0
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Copied(msgspec.Struct):
    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    correlation_id: Correlation = Correlation()
    src_agent_id: Handle = Handle()
    dst_agent_id: Handle = Handle()
    bytes: int | None = None
    stream_id: Handle | None = None


class Called(msgspec.Struct):
    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    correlation_id: Correlation
    thread_id: int = 0


class Measured(msgspec.Struct):
    counter_id: Handle
    value: float


class Counted(msgspec.Struct):
    dispatch_data: Executed
    records: list[Measured] = []


class Symbol(msgspec.Struct):
    kernel_id: int
    formatted_kernel_name: str = ""
    kernel_name: str = ""
    arch_vgpr_count: int = -1
    accum_vgpr_count: int = 0


class Agent(msgspec.Struct):
    id: Handle
    node_id: int = -1
    type: int = 0
    name: str = ""
    product_name: str = ""
    cu_count: int | None = None


class Kind(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    key: int
    value: str


class Counter(msgspec.Struct):
    id: Handle
    name: str


class Process(msgspec.Struct):
    pid: int = 0


class Tool(msgspec.Struct):
    """What a file says of one process, sections still as text."""

    metadata: msgspec.Raw = _NULL
    agents: msgspec.Raw = _NULL
    counters: msgspec.Raw = _NULL
    strings: dict[str, msgspec.Raw] = {}
    kernel_symbols: msgspec.Raw = _NULL
    callback_records: dict[str, msgspec.Raw] = {}
    buffer_records: dict[str, msgspec.Raw] = {}


class File(msgspec.Struct):
    tools: list[Tool] | Tool = msgspec.field(name="rocprofiler-sdk-tool")


def read_tools(source: Source, sink: Sink) -> Sequence[Tool]:
    """The processes of a file. Raises ReadError where it is too large, or damaged in other ways than cut."""
    data = source.read(sink.lose, LIMIT)
    if not data.isascii():
        data = _plain(data, sink)
    try:
        return _decoded(data)
    except FAULTS as error:
        # what is of another form stays so when its end is mended
        mended = None if isinstance(error, msgspec.ValidationError) else _closed(data, sink)
        try:
            if mended is not None:
                return _decoded(mended)
        except FAULTS:
            pass
        raise ReadError(
            f"{sink.label} is no JSON of rocprofv3: {error}.", "Export it again, or profile with --output-format csv."
        ) from error


def _decoded(data: bytes) -> Sequence[Tool]:
    tools = msgspec.json.decode(data, type=File).tools
    return [tools] if isinstance(tools, Tool) else tools


def _plain(data: bytes, sink: Sink) -> bytes:
    """The same in UTF-8: names of kernels may hold any bytes."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        sink.lose("bytes", "they are no UTF-8 and were replaced", offset=error.start, repaired=True)
        return data.decode("utf-8", "replace").encode()
    return data


def _closed(data: bytes, sink: Sink) -> bytes | None:
    """A cut file, ended behind its last whole record; None where that cannot be found."""
    open_: list[bytes] = []
    end, closers = 0, b""
    for token in _TOKEN.finditer(data):
        mark = token[0][:1]
        if mark in _CLOSE:
            open_.append(_CLOSE[mark])
            if len(open_) > _DEPTH:
                return None
        elif mark != b'"':
            if not open_ or open_.pop() != mark:
                return None
            if mark == b"}" and open_ and open_[-1] == b"]":
                end, closers = token.end(), b"".join(reversed(open_))
    if not end or not open_:
        return None
    sink.lose("the rest of the file", "it is cut: its JSON ends early", offset=end)
    return data[:end] + closers


def records_of(raw: msgspec.Raw | None, kind: type[R], what: str, sink: Sink) -> Sequence[R]:
    """A list of records; those that are damaged are lost."""
    if raw is None or raw == _NULL:
        return []
    try:
        return msgspec.json.decode(raw, type=list[kind])  # type: ignore[valid-type]
    except FAULTS:
        return list(_whole(raw, kind, what, sink))


def _whole(raw: msgspec.Raw, kind: type[R], what: str, sink: Sink) -> Iterator[R]:
    try:
        parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except FAULTS:
        sink.lose(what, "they are no list of records")
        return
    for part in parts:
        try:
            yield msgspec.json.decode(part, type=kind)
        except FAULTS:
            sink.lose(what, "a record is damaged or of another form")
