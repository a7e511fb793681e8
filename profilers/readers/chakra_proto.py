"""Chakra's protobuf files: messages behind their lengths, first one of metadata, then one a node.

Field numbers are those of mlcommons/chakra, schema/protobuf/et_def.proto (0.0.4 and later).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Sink, Source
from wcbench.profilers.readers.et_nodes import Arguments, Node
from wcbench.profilers.readers.protobuf import LENGTH, VARINT, fields, packed, signed, text, varint
from wcbench.profilers.readers.timeline import ABSENT

MAX_MESSAGE = 1 << 24
_MAX_LITERAL = 1 << 16
_TYPES = range(1, 11)
_USER_SCOPE = 7
_BIG, _LATEST_US = 1 << 62, 1 << 52
_ABSENT: Any = object()

# fields of Node
_ID, _NAME, _TYPE, _CTRL_DEPS, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTR = 1, 2, 3, 4, 6, 7, 8, 9, 10
# fields of AttributeProto: its name, and values of kinds that are whole numbers, truth values or texts
_INTEGERS, _BOOL, _STRING = frozenset((7, 9, 11, 13)), 27, 29


@dataclass(frozen=True, slots=True)
class Entry:
    """A node of either form. ``kind`` is Chakra's type of node, ``host`` whether it ran on the host (None where the
    graph does not say), ``call`` the operator call of an execution trace that it was made of."""

    id: int
    name: str
    kind: int
    start_us: int | None
    duration_us: int | None
    host: bool | None
    stream: int
    collective: int | None
    call: Node | None


def is_chakra(start: bytes) -> bool:
    """Whether a file begins with metadata and a node."""
    data = memoryview(start)
    try:
        size, at = varint(data, 0)
        if size > len(data) - at or not _is_metadata(data[at : at + size]):
            return False
        at += size
        size, at = varint(data, at)
        if at + size > len(data):
            return False
        node = _node(data[at : at + size])
    except ReadError:
        return False
    return node.kind in _TYPES and node.name.isprintable() and bool(node.name)


def _is_metadata(message: memoryview) -> bool:
    for number, wire, value in fields(message):
        if wire != LENGTH or number > 2 or isinstance(value, int):
            return False
        if number == 2 and not any(inner.number == 1 and inner.wire == LENGTH for inner in fields(value)):
            return False
    return True


def entries(source: Source, sink: Sink) -> Iterator[Entry]:
    """The nodes of a file; one that is damaged is told as lost."""
    messages = _messages(source, sink)
    next(messages, None)  # the metadata
    for offset, message in messages:
        try:
            yield _node(message)
        except ReadError:
            sink.lose("a node", "its message is damaged", offset=offset)


def _messages(source: Source, sink: Sink) -> Iterator[tuple[int, memoryview]]:
    buffer, offset, ended = b"", 0, False
    chunks = source.chunks(sink.lose)
    while True:
        done = 0
        for begin, end in _whole(buffer, source, offset):
            yield offset + begin, memoryview(buffer)[begin:end]
            done = end
        buffer, offset = buffer[done:], offset + done
        if ended:
            break
        chunk = next(chunks, None)
        ended = chunk is None
        buffer += chunk or b""
    if buffer:
        sink.lose("the rest of the file", "it ends within a message: the file is cut", offset=offset)


def _whole(buffer: bytes, source: Source, offset: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each message that the buffer holds whole."""
    data, at = memoryview(buffer), 0
    while at < len(data):
        try:
            size, begin = varint(data, at)
        except ReadError:
            if len(data) - at < 10:  # the length itself is cut
                return
            raise ReadError(
                f"{source.label} is damaged at byte {offset + at}: no length of a message.", "Convert it again."
            ) from None
        if size > MAX_MESSAGE:
            raise ReadError(
                f"{source.label} is damaged at byte {offset + at}: a message of {size} bytes.", "Convert it again."
            )
        if begin + size > len(data):
            return
        at = begin + size
        yield begin, at


def _node(message: memoryview) -> Entry:
    numbers: dict[int, int] = {}
    parts: dict[int, memoryview] = {}
    facts: dict[str, Any] = {}
    above: list[int] = []
    for number, wire, value in fields(message):
        if number == _CTRL_DEPS:
            above += packed(value)
        elif isinstance(value, int):
            numbers[number] = value
        elif number == _ATTR and wire == LENGTH:
            facts.update(_attribute(value))
        elif wire == LENGTH:
            parts[number] = value
    host = facts.get("is_cpu_op")
    entry = Entry(
        id=numbers.get(_ID, 0),
        name=text(parts.get(_NAME, memoryview(b""))),
        kind=numbers.get(_TYPE, 0),
        start_us=_micros(numbers.get(_START)),
        duration_us=_micros(numbers.get(_DURATION, 0)),
        host=None if host is None else bool(host),
        stream=_integer(facts.get("stream")),
        collective=facts.get("comm_type") if type(facts.get("comm_type")) is int else None,
        call=_call(numbers.get(_ID, 0), parts, facts, above) if host else None,
    )
    return entry


def _attribute(message: memoryview) -> Mapping[str, Any]:
    name, held = "", _ABSENT
    for number, wire, value in fields(message):
        if number == 1 and wire == LENGTH:
            name = text(value)
        elif wire == VARINT and isinstance(value, int):
            held = bool(value) if number == _BOOL else signed(value) if number in _INTEGERS else held
        elif number == _STRING and wire == LENGTH:
            held = text(value)
    return {} if held is _ABSENT else {name: held}


def _call(number: int, parts: Mapping[int, memoryview], facts: Mapping[str, Any], above: Sequence[int]) -> Node | None:
    """The entry of the execution trace that a host node was made of."""
    if not 0 <= number < _BIG:
        return None
    schema = facts.get("op_schema")
    schema = schema if isinstance(schema, str) else ""
    return Node(
        id=number,
        parent=above[0] if above and above[0] < _BIG else -1,
        name=text(parts.get(_NAME, memoryview(b""))),
        schema=schema,
        sequence=_integer(facts.get("seq_id")),
        mark=facts.get("scope") == _USER_SCOPE,
        compiled=False,
        inputs=_arguments(parts.get(_INPUTS)) if schema else Arguments(),
        outputs=_arguments(parts.get(_OUTPUTS)) if schema else Arguments(),
    )


def _arguments(message: memoryview | None) -> Arguments:
    """Inputs or outputs, which the converter writes as texts of Python's lists."""
    found: dict[int, list[Any]] = {}
    for number, wire, value in fields(message) if message is not None else ():
        if wire == LENGTH and number in (1, 2, 3):
            found[number] = _literal(text(value))
    return Arguments(found.get(1, []), found.get(2, []), found.get(3, []))


def _literal(written: str) -> list[Any]:
    if len(written) > _MAX_LITERAL:
        return []
    try:
        found = ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _micros(value: int | None) -> int | None:
    return value if value is not None and value < _LATEST_US else None


def _integer(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _BIG else ABSENT
