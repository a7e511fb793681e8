"""Protobuf's wire form without protobuf: fields of one message, one after another, within bounds.

Readers know the numbers of the fields that they want; a message in a message is a value that is given to `fields` again
by the reader, which so decides how deep it goes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from wcbench.errors import ReadError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MAX_VARINT, _MAX_FIELD = 10, (1 << 29) - 1
_HINT = "The file is cut or damaged, or it is no protobuf: export it again."


class Field(NamedTuple):
    """One field of a message; ``value`` is an int (varint, as unsigned), or the bytes of the others in place.

    ``value`` of FIXED64 and FIXED32 has 8 and 4 bytes, little-endian: see `double`, `single`.
    """

    number: int
    wire: int
    value: int | memoryview


def fields(data: memoryview, base: int = 0) -> Iterator[Field]:
    """The fields of one message in their order; nothing is copied.

    ``base`` is the place of ``data`` in the file, for messages.

    Raises
    ------
    ReadError : a field reaches beyond the message, a number or wire type that protobuf does not know, or a group (of
        protobuf's first version, which no profiler writes).
    """
    at, end = 0, len(data)
    while at < end:
        start = at
        key, at = varint(data, at, base)
        number, wire = key >> 3, key & 7
        if not 1 <= number <= _MAX_FIELD:
            raise _damaged(base + start, f"field number {number}")
        if wire == VARINT:
            value, at = varint(data, at, base)
            yield Field(number, wire, value)
            continue
        if wire == LENGTH:
            size, at = varint(data, at, base)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise _damaged(base + start, f"wire type {wire}")
        if size > end - at:
            raise _damaged(base + start, f"a field of {size} bytes where {end - at} are left")
        yield Field(number, wire, data[at : at + size])
        at += size


def varint(data: memoryview, at: int, base: int = 0) -> tuple[int, int]:
    """The unsigned number of up to 64 bits at a place and the place behind it; ReadError where it does not end."""
    if at < len(data) and (only := data[at]) < 128:
        return only, at + 1
    value = 0
    for count, byte in enumerate(data[at : at + _MAX_VARINT]):
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            if value >> 64:
                break
            return value, at + count + 1
    raise _damaged(base + at, "a number that does not end")


def packed(value: int | memoryview, base: int = 0) -> Iterator[int]:
    """The unsigned numbers of a repeated varint field, packed or single."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = varint(value, at, base)
        yield number


def signed(value: int) -> int:
    """An int32 or int64 from its varint: negative numbers are written as 64-bit two's complement."""
    return value - (1 << 64) if value >> 63 else value


def zigzag(value: int) -> int:
    """A sint32 or sint64 from its varint."""
    return (value >> 1) ^ -(value & 1)


def double(value: memoryview) -> float:
    """The float64 of 8 bytes."""
    return float(struct.unpack("<d", value)[0])


def single(value: memoryview) -> float:
    """The float32 of 4 bytes."""
    return float(struct.unpack("<f", value)[0])


def text(value: int | memoryview) -> str:
    """The text of a LENGTH field; wrong UTF-8 becomes U+FFFD, and a number is no text."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def _damaged(offset: int, what: str) -> ReadError:
    return ReadError(f"Protobuf data is damaged at byte {offset}: {what}.", _HINT)
