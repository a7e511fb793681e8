"""The bytes of an XPlane file: fields of nested messages in a stream, and the tables of names in it.

Numbers of fields (xplane.proto of tsl): XSpace 1 planes, 2 errors, 3 warnings; XPlane 2 name, 3 lines, 4 event and 5
stat metadata (maps), 6 stats; XLine 1 id, 2 name, 3 timestamp_ns, 4 events; XEvent 1 metadata_id, 2 offset_ps,
3 duration_ps, 4 stats, 5 num_occurrences; XStat 1 metadata_id, 2 double, 3 uint64, 4 int64, 5 text, 7 reference to
a stat's name; XEventMetadata 2 name, 4 display_name, 5 stats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Source
from wcbench.profilers.readers.protobuf import FIXED32, FIXED64, LENGTH, VARINT, double, fields, signed, text, varint
from wcbench.profilers.readers.xla import STATS

MAX_ENTRY = 1 << 20
"""Bytes of an event or an entry of a table of names from which it is skipped (programs lie among them)."""
MAX_NAME = 1 << 16
FOREVER = 1 << 63
"""As the end of a message: that of the file."""
_MAX_KNOWN = 1 << 16


class CutError(ReadError):
    """The file ends within a field."""


class Stream:
    """Bytes of the file, taken one after another; ``at`` is the place of the next one."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._data = memoryview(b"")
        self._next = 0
        self._before = 0

    @property
    def at(self) -> int:
        return self._before + self._next

    def ended(self) -> bool:
        while self._next >= len(self._data):
            if not self._more():
                return True
        return False

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._before += len(self._data)
        self._next -= len(self._data)
        self._data = memoryview(chunk)
        return True

    def take(self, size: int) -> memoryview:
        """The next ``size`` bytes; raises CutError where the file ends before."""
        start, stop = self._next, self._next + size
        if stop <= len(self._data):
            self._next = stop
            return self._data[start:stop]
        parts = bytearray()
        while len(parts) < size:
            if self.ended():
                raise CutError(f"the file ends at byte {self.at}")
            part = self._data[self._next : self._next + size - len(parts)]
            parts += part
            self._next += len(part)
        return memoryview(bytes(parts))

    def skip_to(self, place: int) -> None:
        self._next += place - self.at
        while self._next > len(self._data):
            if not self._more():
                raise CutError(f"the file ends at byte {self._before + len(self._data)}")

    def varint(self) -> int:
        at = self._next
        if at + 10 <= len(self._data):
            value, self._next = varint(self._data, at, self._before)
            return value
        return self._slow_varint()

    def _slow_varint(self) -> int:
        """A number that may reach over the end of a chunk."""
        found = bytearray()
        while not found or found[-1] > 127:
            found += self.take(1)
            if len(found) > 10:
                break
        return varint(memoryview(bytes(found)), 0, self.at)[0]

    def drain(self) -> None:
        """Read to the end, for the digest of the file."""
        for _ in self._chunks:
            pass

    def fields(self, end: int) -> Iterator[tuple[int, int, int]]:
        """Number, wire type and value of each field up to ``end``; of LENGTH the size instead.

        What the caller leaves of a LENGTH field is skipped. Raises ReadError where the fields are damaged.
        """
        while self.at < end and not (end == FOREVER and self.ended()):
            key = self.varint()
            number, wire = key >> 3, key & 7
            if wire == VARINT:
                yield number, wire, self.varint()
            elif wire == LENGTH:
                size = self.varint()
                stop = self.at + size
                if stop > end:
                    raise ReadError(f"a field at byte {self.at} is larger than what holds it")
                yield number, wire, size
                self.skip_to(stop)
            elif wire in (FIXED64, FIXED32):
                self.skip_to(self.at + (8 if wire == FIXED64 else 4))
            else:
                raise ReadError(f"wire type {wire} at byte {self.at}")


# --- first pass: names ---------------------------------------------------------------------------------------------


@dataclass
class Line:
    id: int = 0
    name: str = ""
    timestamp: int = 0


@dataclass
class Kind:
    """What all events of one number share."""

    name: str = ""
    stats: list[bytes] = field(default_factory=list)
    known: dict[str, Any] | None = None


@dataclass
class Plane:
    name: str = ""
    lines: list[Line] = field(default_factory=list)
    kinds: dict[int, Kind] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: list[bytes] = field(default_factory=list)
    _known: dict[bytes, tuple[str, Any]] = field(default_factory=dict)

    @cached_property
    def _wanted(self) -> frozenset[int]:
        return frozenset(number for number, name in self.stat_names.items() if name.lower() in STATS)

    def decoded(self, raw: list[bytes]) -> dict[str, Any]:
        """Those of xla.STATS that are among raw stats, by lower-case name; asked for once the plane is surveyed."""
        found = {}
        for data in raw:
            known = self._known.get(data)
            if known is None:
                number = data[1] if len(data) > 1 and data[0] == 0x08 else 128  # as a rule it stands in front
                if number < 128 and number not in self._wanted:
                    continue
                known = _stat(memoryview(data), self.stat_names)
                if isinstance(known[1], str) and len(self._known) < _MAX_KNOWN:  # texts repeat, numbers rarely do
                    self._known[data] = known
            found[known[0]] = known[1]
        return found


class Survey:
    """Goes over the file for all but its events; damage is left to the second pass to tell."""

    def __init__(self, source: Source) -> None:
        self._stream = Stream(source.chunks(_silent, hashed=False))

    def planes(self) -> list[Plane]:
        found: list[Plane] = []
        try:
            for number, wire, size in self._stream.fields(FOREVER):
                if (number, wire) == (1, LENGTH):
                    found.append(Plane())
                    self._guarded(self._plane, found[-1], self._stream.at + size)
        except ReadError:
            pass
        return found

    def _guarded(self, read: Callable[[Any, int], None], into: Any, end: int) -> None:
        """Damage ends at the end of what holds it."""
        try:
            read(into, end)
        except CutError:
            raise
        except ReadError:
            self._stream.skip_to(end)

    def _plane(self, plane: Plane, end: int) -> None:
        for number, wire, size in self._stream.fields(end):
            if wire != LENGTH:
                continue
            if number == 3:
                plane.lines.append(Line())
                self._guarded(self._line, plane.lines[-1], self._stream.at + size)
            elif size > MAX_ENTRY:
                continue
            elif number == 2:
                plane.name = text(self._stream.take(size))
            elif number in (4, 5):
                self._entry(plane, number, self._stream.take(size))
            elif number == 6:
                plane.stats.append(bytes(self._stream.take(size)))

    def _line(self, line: Line, end: int) -> None:
        for number, wire, value in self._stream.fields(end):
            if wire == LENGTH and number == 4 and line.name and line.timestamp:
                self._stream.skip_to(end)  # what is wanted here stands in front of the events, as a rule
                return
            if wire == VARINT and number == 1:
                line.id = signed(value)
            elif wire == VARINT and number == 3:
                line.timestamp = signed(value)
            elif wire == LENGTH and number == 2 and value <= MAX_NAME:
                line.name = text(self._stream.take(value))

    @staticmethod
    def _entry(plane: Plane, number: int, data: memoryview) -> None:
        """One entry of a map: of kinds of events (4) or of names of stats (5)."""
        key, message = 0, memoryview(b"")
        for at, wire, value in fields(data):
            if at == 1 and isinstance(value, int):
                key = signed(value)
            elif at == 2 and wire == LENGTH and not isinstance(value, int):
                message = value
        if number == 5:
            plane.stat_names[key] = next((text(f.value) for f in fields(message) if f.number == 2), "")
            return
        kind, shown = Kind(), ""
        for at, wire, value in fields(message):
            if wire != LENGTH or isinstance(value, int):
                continue
            if at == 2:
                kind.name = text(value[:MAX_NAME])
            elif at == 4:
                shown = text(value[:MAX_NAME])
            elif at == 5 and len(value) <= MAX_NAME:
                kind.stats.append(bytes(value))
        if shown and (kind.name.startswith("%") or not kind.name):
            kind.name = shown  # of a TPU the name is the whole text of the instruction
        plane.kinds[key] = kind


def _silent(*_args: Any, **_kwargs: Any) -> None:
    """The second pass tells the losses."""


def _stat(data: memoryview, names: dict[int, str]) -> tuple[str, Any]:
    """Name in lower case and value of one stat; the value is None where it is of bytes."""
    name, found = "", None  # type: str, Any
    for number, wire, value in fields(data):
        if isinstance(value, int):
            if number == 1:
                name = names.get(signed(value), "")
            elif number in (3, 4):
                found = value if number == 3 else signed(value)
            elif number == 7:
                found = names.get(signed(value), "")
        elif number == 2 and wire == FIXED64:
            found = double(value)
        elif number == 5:
            found = text(value)
    return name.lower(), found
