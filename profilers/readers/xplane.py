"""XPlane files of TensorFlow's and JAX's profiler (`*.xplane.pb`): one protobuf message XSpace of planes of lines.

The names of events and stats may stand behind the events that use them, so that the file is gone over twice: first for
names, then for events. Of the file, one event is in memory at a time; of its tables of names, all.
"""

from __future__ import annotations

import re

from wcbench.errors import ReadError
from wcbench.profilers.readers import xla
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.protobuf import LENGTH, fields, signed, text, varint
from wcbench.profilers.readers.xla_rows import Event, Rows
from wcbench.profilers.readers.xspace import FOREVER, MAX_ENTRY, CutError, Line, Plane, Stream, Survey

_MAX_TEXTS, _MAX_GPUS = 100, 1024
_NOTHING = "there are no events whose names are in the file"
_PLANE_NAME = re.compile(rb"/host:|/device:|/virtualdevice:|Task Environment|Host CPUs|Syscalls|#Chip")


class XPlane(Reader):
    """XPlane protobuf."""

    name = "xplane"
    title = "XPlane protobuf of TensorFlow's and JAX's profiler (*.xplane.pb)"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        """A first field 1 that is a message, in it an id perhaps, and the name of a plane."""
        data = memoryview(head.data[: 1 << 10])
        try:
            if not data or data[0] != 0x0A:
                return False
            _, at = varint(data, 1)
            if data[at] == 0x08:
                _, at = varint(data, at + 1)
            if data[at] != 0x12:
                return False
            size, at = varint(data, at + 1)
            return 0 < size < 1 << 10 and _PLANE_NAME.match(data, at) is not None
        except (ReadError, IndexError):
            return False

    def read(self, source: Source, sink: Sink) -> None:
        planes = Survey(source).planes()
        rows = Rows(sink)
        for plane in planes:
            _tell_device(plane, sink)
        events = _Events(source, sink, rows, planes)
        events.read()
        try:
            rows.finish()
        except ReadError as error:
            if events.ended is None:
                raise
            message = f"{source.label} is cut or damaged at byte {events.ended}; in front of it {_NOTHING}."
            raise ReadError(message, "Copy it again, or profile again.") from error


def _tell_device(plane: Plane, sink: Sink) -> None:
    """Name and memory of a GPU, where its plane tells."""
    of = xla.device(plane.name)
    try:
        stats = plane.decoded(plane.stats)
    except ReadError:
        return
    known = {"name": stats.get("gpu_device_name"), "memory_bytes": stats.get("memory_size")}
    known = {key: value for key, value in known.items() if value is not None}
    if of is None or of.is_tpu or not known or of.index >= _MAX_GPUS:
        return
    gpus = sink.facts.setdefault("gpus", [])
    gpus += [{} for _ in range(len(gpus), of.index + 1)]
    gpus[of.index] = known


# --- second pass: events -------------------------------------------------------------------------------------------


class _Events:
    """Goes over the file for its events, and tells damage; ``ended`` is the byte from which nothing could be read."""

    def __init__(self, source: Source, sink: Sink, rows: Rows, planes: list[Plane]) -> None:
        self._stream = Stream(source.chunks(sink.lose))
        self._sink, self._rows, self._planes = sink, rows, iter(planes)
        self._texts = 0
        self.ended: int | None = None

    def read(self) -> None:
        try:
            for number, wire, size in self._stream.fields(FOREVER):
                if (number, wire) == (1, LENGTH):
                    self._plane(next(self._planes, Plane()), self._stream.at + size)
                elif wire == LENGTH and number in (2, 3) and size <= MAX_ENTRY and self._texts < _MAX_TEXTS:
                    self._texts += 1
                    what = "an error" if number == 2 else "a warning"
                    self._sink.note("profiler", f"The profiler left {what}: {text(self._stream.take(size))[:1000]}")
        except CutError:
            self._end("it ends within a plane: it is cut")
        except ReadError:
            self._end("its protobuf is damaged")
        self._stream.drain()

    def _end(self, why: str) -> None:
        self.ended = self._stream.at
        self._sink.lose("the rest of the file", why, offset=self.ended)

    def _damaged(self, what: str, end: int) -> None:
        """Damage ends at the end of what holds it."""
        self._sink.lose(what, "its protobuf is damaged", offset=self._stream.at)
        self._stream.skip_to(end)

    def _plane(self, plane: Plane, end: int) -> None:
        of, lines, skipped = xla.device(plane.name), iter(plane.lines), 0
        host = xla.is_host(plane.name)
        try:
            for number, wire, size in self._stream.fields(end):
                if (number, wire) != (3, LENGTH):
                    continue
                line = next(lines, Line())
                if host or (of and (xla.stream_of(of, line.name) is not None or xla.is_steps(line.name))):
                    self._line(_Target(self._rows, plane, line, of), self._stream.at + size)
                else:
                    skipped += 1
        except CutError:
            raise
        except ReadError:
            self._damaged("the rest of a plane", end)
        if skipped:
            why = "it is derived from the work of the device" if of else "its plane is of no device and no host"
            self._sink.lose("a line of events", why, count=skipped)

    def _line(self, target: _Target, end: int) -> None:
        try:
            for number, wire, size in self._stream.fields(end):
                if (number, wire) != (4, LENGTH):
                    continue
                if size > MAX_ENTRY:
                    self._sink.lose("an event", "it is larger than events are", offset=self._stream.at)
                    continue
                self._event(target, bytes(self._stream.take(size)))
        except CutError:
            raise
        except ReadError:
            self._damaged("the rest of a line of events", end)

    def _event(self, target: _Target, data: bytes) -> None:
        try:
            why = target.add(data)
        except ReadError:
            why = "its protobuf is damaged"
        if why:
            self._sink.lose("an event", why, offset=self._stream.at - len(data))


_ID, _OFFSET, _DURATION, _STAT, _COUNT = 0x08, 0x10, 0x18, 0x22, 0x28
"""First bytes of an event's fields: number and wire type."""


def _event(data: bytes) -> tuple[int, int, int | None, list[bytes]]:
    """Number of its kind, offset and duration in picoseconds (None of a mere count) and raw stats of an event."""
    found = {_ID: 0, _OFFSET: 0, _DURATION: 0}
    raw: list[bytes] = []
    view = memoryview(data)
    at, end = 0, len(data)
    while at < end:
        key, after = data[at], at + 2
        value = data[at + 1] if after <= end else 128
        if value > 127:
            value, after = varint(view, at + 1)
        if key in found or key == _COUNT:
            found[key], at = signed(value), after
        elif key == _STAT:
            at = after + value
            if at > end:
                raise ReadError("a stat is larger than its event")
            raw.append(data[after:at])
        else:
            return _event_of_others(view)
    return found[_ID], found[_OFFSET], None if _COUNT in found else found[_DURATION], raw


def _event_of_others(view: memoryview) -> tuple[int, int, int | None, list[bytes]]:
    """The same of an event that has fields not known here."""
    found = {1: 0, 2: 0, 3: 0}
    raw: list[bytes] = []
    for number, wire, value in fields(view):
        if isinstance(value, int):
            found[number] = signed(value)
        elif (number, wire) == (4, LENGTH):
            raw.append(bytes(value))
    return found[1], found[2], None if 5 in found else found[3], raw


class _Target:
    """Where the events of a line go."""

    def __init__(self, rows: Rows, plane: Plane, line: Line, of: xla.Device | None) -> None:
        self._rows, self._plane, self._line, self._of = rows, plane, line, of
        self._stream = xla.stream_of(of, line.name) if of else None

    def add(self, data: bytes) -> str | None:
        """Take an event; returns why it cannot be taken, and raises ReadError where it is damaged."""
        number, offset, duration, raw = _event(data)
        if duration is None:
            return "it is a count of events, without times"
        kind = self._plane.kinds.get(number)
        if kind is None or not kind.name:
            return "its name is not in the file"
        if kind.known is None:
            kind.known = self._plane.decoded(kind.stats)
        stats = self._plane.decoded(raw)
        if kind.known:
            stats = {**kind.known, **stats}
        # picoseconds; starts are cut to whole nanoseconds, durations rounded
        start = self._line.timestamp + offset // 1000
        self._give(Event(kind.name, start, (duration + 500) // 1000, stats))
        return None

    def _give(self, event: Event) -> None:
        if self._of is None:
            self._rows.on_host(self._line.id, event)
        elif self._stream is None:
            self._rows.step(self._of, self._line.id, event)
        else:
            self._rows.on_device(self._of, self._stream, event)
