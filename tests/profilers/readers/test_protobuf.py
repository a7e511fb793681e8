"""The protobuf wire reader against bytes written by hand from protobuf's encoding rules."""

from __future__ import annotations

import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError
from wcbench.profilers.readers.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    double,
    fields,
    packed,
    signed,
    single,
    text,
    varint,
    zigzag,
)


def view(data: bytes) -> memoryview:
    return memoryview(data)


def encoded(value: int) -> bytes:
    """A varint: groups of seven bits, least first, the high bit set on all but the last."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_fields_of_every_wire_type_in_order() -> None:
    data = (
        b"\x08\x96\x01"  # field 1, varint: 0x16 + (1 << 7) = 150
        + b"\x12\x07testing"  # field 2, 7 bytes
        + b"\x1d\x00\x00\x80\x3f"  # field 3, fixed32: 1.0
        + b"\x21\x00\x00\x00\x00\x00\x00\xf0\xbf"  # field 4, fixed64: -1.0
        + b"\x12\x00"  # field 2 again, empty
        + encoded((1000 << 3) | 0)
        + b"\x00"
    )
    found = list(fields(view(data)))
    assert [(f.number, f.wire) for f in found] == [
        (1, VARINT), (2, LENGTH), (3, FIXED32), (4, FIXED64), (2, LENGTH), (1000, VARINT)
    ]  # fmt: skip
    assert found[0].value == 150
    assert text(found[1].value) == "testing"
    assert single(found[2].value) == 1.0  # type: ignore[arg-type]
    assert double(found[3].value) == -1.0  # type: ignore[arg-type]
    assert text(found[4].value) == ""
    assert found[5].value == 0


def test_a_value_is_a_view_of_the_data_and_no_copy() -> None:
    data = bytearray(b"\x0a\x02ab")
    value = next(fields(view(bytes(data)))).value
    assert isinstance(value, memoryview)
    assert bytes(value) == b"ab"


def test_numbers_by_kind() -> None:
    # -2 as int64: 2**64 - 2; zigzag writes 0, -1, 1, -2 as 0, 1, 2, 3
    assert signed(2**64 - 2) == -2
    assert signed(2**63 - 1) == 2**63 - 1
    assert [zigzag(value) for value in (0, 1, 2, 3, 2**64 - 1)] == [0, -1, 1, -2, -(2**63)]
    assert list(packed(view(b"\x03\x8e\x02\x9e\xa7\x05"))) == [3, 270, 86942]
    assert list(packed(7)) == [7]
    assert text(7) == ""
    assert text(view(b"a\xff")) == "a�"


@pytest.mark.parametrize(
    ("data", "offset", "what"),
    [
        (b"\x08\x01\x0a\x05abc", 2, "5 bytes where 3"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", 0, "18446744073709551615 bytes"),
        (b"\x08" + b"\xff" * 11, 1, "does not end"),
        (b"\x08\x80", 1, "does not end"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 1, "does not end"),  # more than 64 bits
        (b"\x0b", 0, "wire type 3"),
        (b"\x0c", 0, "wire type 4"),
        (b"\x0e", 0, "wire type 6"),
        (b"\x00\x00", 0, "field number 0"),
        (encoded(1 << 32) + b"\x00", 0, "field number 536870912"),
        (b"\x09\x00\x00", 0, "8 bytes where 2"),
        (b"\x0d\x00", 0, "4 bytes where 1"),
    ],
)
def test_damage_names_its_place(data: bytes, offset: int, what: str) -> None:
    with pytest.raises(ReadError, match=rf"at byte {100 + offset}: .*{what}"):
        list(fields(view(data), base=100))


def test_fields_before_the_damage_are_given() -> None:
    found = fields(view(b"\x08\x01\x0a\x05abc"))
    assert next(found) == (1, VARINT, 1)
    with pytest.raises(ReadError):
        next(found)


@given(st.integers(0, 2**64 - 1))
def test_varints_come_back(value: int) -> None:
    assert varint(view(encoded(value)), 0) == (value, len(encoded(value)))


@given(st.integers(-(2**31), 2**31 - 1), st.floats(width=32, allow_nan=False))
def test_signed_and_floats_come_back(number: int, real: float) -> None:
    assert signed(number % 2**64) == number
    assert single(view(struct.pack("<f", real))) == real
    assert double(view(struct.pack("<d", real))) == real


@settings(max_examples=300)
@given(st.binary(max_size=64))
def test_any_bytes_give_fields_or_an_error_of_ours(data: bytes) -> None:
    try:
        for field in fields(view(data)):
            assert field.number >= 1
            if isinstance(field.value, memoryview):
                list(packed(field.value))
    except ReadError:
        pass


def test_a_million_fields_take_no_memory_and_little_time() -> None:
    begin = time.perf_counter()
    assert sum(1 for _ in fields(view(b"\x08\x01" * 1_000_000))) == 1_000_000
    assert time.perf_counter() - begin < 20
