"""The events of a Chrome trace (Kineto, TensorFlow, JAX, rocprof), streamed and fail-soft.

A piece of the file is cut where one event ends and the next begins, and decoded at once; only where that fails is the
piece taken apart event by event, and what cannot be mended is skipped and told. Neither the whole file nor its list of
events is ever in memory, and no step of the work recurses.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

import msgspec

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Lost, Sink, Source
from wcbench.profilers.readers.side import Side

MAX_EVENT = 1 << 24
"""Bytes of one event from which it is skipped."""
MAX_METADATA = 1 << 24
"""Bytes in front of the events, and behind them, that are looked at for what the file says of itself."""

_WINDOW = 1 << 15
_BETWEEN = b", \t\r\n"
_MAX_JOINED = 8
_MAX_WAITING = 12
"""Pieces whose turn has not come because an earlier one is still in the second process."""
_MAX_STARTS = 8
"""Places that look like the beginning of the list of events and are tried: further ones are within something else."""
_MAX_MENDED = 1 << 21
_MAX_TRIED, _MAX_SALVAGED = 64, 1 << 16
"""Places in a damaged piece at which an event may begin that are tried, and the bytes it may have: each costs time."""
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
# Where one event ends and the next begins, by the keys with which tools begin an event.
_KEYS = rb"ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
_FIRST = re.compile(rb'\s*\{\s*"([A-Za-z_ ]{1,32})"')
_KEY_FOLLOWS = re.compile(rb'\s{0,16},\s{0,16}"[^"\\]{1,64}"\s{0,16}:')
# A string, up to the end of the text where it stays open. Possessive: no memory for a way back, no second look.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_TOKEN = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_ESCAPE = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)

E = TypeVar("E", bound=msgspec.Struct)
T = TypeVar("T")


@dataclass
class _Piece:
    """Events in brackets, where the first of them stands in the file, and the separators that stood in front."""

    text: bytes
    offset: int
    skipped: bytes


class Events(Generic[E]):
    """Iterates over lists of events.

    ``kind`` is a msgspec Struct with a default for every field; of a damaged piece it is read event by event.

    Attributes
    ----------
    metadata : keys of the top level beside ``traceEvents``; those behind the events are there when the iteration ends.
    """

    def __init__(self, source: Source, sink: Sink, kind: type[E]) -> None:
        self.metadata: dict[str, Any] = {}
        self._source, self._sink = source, sink
        self._lose: Lost = sink.lose
        self._offset = 0  # of the buffer's first byte
        self._piece = b""
        self._rest = b""
        self._begin_with(_KEYS)
        self._tail: bytearray | None = None  # what stands behind the list, once it has ended
        self._tail_due = True  # at least the brace that closes the file
        self._read_as(kind)

    def _read_as(self, kind: Any) -> None:
        self._kind = kind
        self._many: Any = msgspec.json.Decoder(list[kind])
        self._one = msgspec.json.Decoder(kind)

    def batch_as(self, kind: Any) -> list[Any]:
        """The batch in hand once more as another kind; what is lost of it was told before."""
        before = self._kind
        self._read_as(kind)
        self._lose = _told_before
        found: list[Any] = self._decode(self._piece, self._offset)
        self._lose = self._sink.lose
        self._read_as(before)
        return found

    def __iter__(self) -> Iterator[list[E]]:
        for piece in self._pieces():
            self._piece = piece.text
            batch = self._decode(piece.text, piece.offset)
            if batch:
                yield batch
        yield from self._end()

    def extracted(self, extract: Callable[[bytes], T], damaged: Callable[[list[E]], T], target: str) -> Iterator[T]:
        """What is made of the pieces, in their order, where a second process makes its share of it.

        ``extract`` makes it of a piece and raises what msgspec raises where the piece is damaged; ``damaged`` makes it
        of the events that were saved. ``target`` is ``module:attr`` of what makes another ``extract``.
        """
        side = Side(target) if self._source.worth_a_second_process else None
        waiting: deque[tuple[_Piece, Future[T] | T | None]] = deque()
        try:
            for piece in self._pieces():
                waiting.append((piece, _begun(piece, extract, side)))
                yield from self._ready(waiting, extract, damaged, most=_MAX_WAITING)
            yield from self._ready(waiting, extract, damaged, most=0)
        finally:
            if side is not None:
                side.close()
        for batch in self._end():
            yield damaged(batch)

    def _ready(
        self,
        waiting: deque[tuple[_Piece, Future[T] | T | None]],
        extract: Callable[[bytes], T],
        damaged: Callable[[list[E]], T],
        *,
        most: int,
    ) -> Iterator[T]:
        """What is made of the first pieces, as far as it is; waits until there are at most so many."""
        while waiting:
            piece, made = waiting[0]
            if isinstance(made, Future) and len(waiting) <= most and not made.done():
                return
            waiting.popleft()
            if self._ended():
                self._keep_tail(piece.skipped + piece.text[1:-1])
                continue
            found = _outcome(piece, made, extract)
            if found is None:
                self._piece = piece.text
                batch = self._one_by_one(piece.text[1:-1].lstrip(_BETWEEN), piece.offset)
                found = damaged(batch) if batch else None
            if found is not None:
                yield found

    def _pieces(self) -> Iterator[_Piece]:
        """The file in pieces that end where events do; what is behind the last one stays in ``_rest``."""
        chunks = self._source.chunks(self._sink.lose)
        rest = b""  # the beginning of an event that goes on in the next chunk
        for chunk in chain([self._begin(chunks)], chunks):
            if self._ended():
                self._keep_tail(chunk)
            elif cut := self._last_boundary(chunk):
                kept = rest.lstrip(_BETWEEN)
                yield _Piece(
                    b"".join((b"[", kept, memoryview(chunk)[:cut], b"]")), self._offset, rest[: len(rest) - len(kept)]
                )
                self._offset += len(rest) + cut
                rest = chunk[cut:]
                if self._ended():
                    self._keep_tail(rest)
                    rest = b""
            elif len(rest) + len(chunk) > MAX_EVENT:
                self._lose_event("it is larger than events are", self._offset)
                self._offset += len(rest) + len(chunk)
                rest = b""
            else:
                rest += chunk
        self._rest = rest

    def _end(self) -> Iterator[list[E]]:
        """The events behind the last piece, and what the file says of itself behind them."""
        if self._ended():
            self._keep_tail(self._rest)
        else:
            yield from self._last(self._rest)
        self._read_tail()

    def _ended(self) -> bool:
        """Whether the list of events has ended."""
        return self._tail is not None

    def _begin_with(self, keys: bytes) -> None:
        """Take it that events begin with one of these keys."""
        self._boundary = _boundary(keys)
        self._begins = re.compile(rb'\{\s{0,16}"(?:' + keys + rb')"')

    # --- the beginning -------------------------------------------------------------------------------------------

    def _begin(self, chunks: Iterator[bytes]) -> bytes:
        """What follows the opening of the list of events, read up to the first piece."""
        buffer = b""
        for chunk in chunks:
            buffer += chunk
            start = self._list_start(buffer)
            if start is not None:
                self._offset = start
                first = _FIRST.match(buffer, start)
                self._begin_with(_KEYS + b"|" + re.escape(first.group(1)) if first else _KEYS)
                return buffer[start:]
            if len(buffer) > MAX_METADATA:
                break
        raise ReadError(
            f"{self._source.label} holds no list of traceEvents in its first {min(len(buffer), MAX_METADATA)} bytes.",
            "Export the trace again; a file that was cut at its beginning cannot be read.",
        )

    def _list_start(self, buffer: bytes) -> int | None:
        blank = len(buffer) - len(buffer.removeprefix(b"\xef\xbb\xbf").lstrip())
        if buffer[blank : blank + 1] == b"[":
            self._tail_due = False
            return blank + 1
        for found in islice(_LIST.finditer(buffer), _MAX_STARTS):
            if self._read_metadata(buffer[blank : found.start()].rstrip().rstrip(b",") + b"}", blank):
                return found.end()
        first = _LIST.search(buffer)
        if first is not None:  # a head that is no JSON costs what the file says of itself, not its events
            self._sink.lose("what the file says of itself", "it is no valid JSON", offset=blank)
            return first.end()
        return None

    def _read_metadata(self, text: bytes, offset: int) -> bool:
        try:
            found = msgspec.json.decode(text)
        except _FAULTS:
            try:
                found = msgspec.json.decode(mended(text))
            except _FAULTS:
                return False
            self._sink.lose("what the file says of itself", "its text is damaged", offset=offset, repaired=True)
        if not isinstance(found, dict):
            return False
        self.metadata.update(found)
        return True

    # --- pieces --------------------------------------------------------------------------------------------------

    def _last_boundary(self, buffer: bytes) -> int:
        """The end of the last event that another one follows; 0 where there is none."""
        window = _WINDOW
        while True:
            start = max(0, len(buffer) - window)
            last = 0
            for found in self._boundary.finditer(buffer, start):
                last = found.start() + 1
            if last or not start:
                return last
            window *= 8

    def _decode(self, piece: bytes, offset: int) -> list[E]:
        """The events of a piece, which stands in brackets."""
        try:
            found: list[E] = self._many.decode(piece)
        except _FAULTS:
            return self._one_by_one(piece[1:-1].lstrip(_BETWEEN), offset)
        return found

    def _one_by_one(self, piece: bytes, offset: int) -> list[E]:
        """Each event by itself: those that are whole are kept, others mended or told as lost."""
        found: list[E] = []
        ends = [match.start() + 1 for match in self._boundary.finditer(piece)] + [len(piece)]
        begin = at = 0
        while at < len(ends):
            taken, event = self._joined(piece, begin, ends[at : at + _MAX_JOINED])
            if event is not None:
                found.append(event)
            elif self._ends_list(piece, begin, ends[at], offset, found):
                return found
            else:
                taken = 1
                self._mend(piece[begin : ends[at]], offset + begin, found)
            begin = ends[at + taken - 1]
            at += taken
        return found

    def _joined(self, piece: bytes, begin: int, ends: list[int]) -> tuple[int, E | None]:
        """The event that begins here, which may reach over what looks like boundaries within it."""
        for number, end in enumerate(ends, start=1):
            try:
                return number, self._one.decode(piece[begin:end].lstrip(_BETWEEN))
            except _FAULTS:
                continue
        return 0, None

    def _mend(self, text: bytes, offset: int, found: list[E]) -> None:
        text = text.lstrip(_BETWEEN)
        if not text:
            return
        for version in (text, mended(text)) if len(text) <= _MAX_MENDED else (text,):
            try:
                event = self._one.decode(version)
            except msgspec.ValidationError:
                self._convert(version, offset, found)
                return
            except _FAULTS:
                continue
            found.append(event)
            why = "control characters, bytes that are no UTF-8 or wrong escapes in it"
            self._lose("an event", why, offset=offset, repaired=True)
            return
        rest = self._salvaged(text, offset, found)
        if rest < len(text):
            self._lose_event("it is no valid JSON", offset + rest)

    def _salvaged(self, text: bytes, offset: int, found: list[E]) -> int:
        """Take events that stand whole among damage, tell what stands in front of each, and return where they end."""
        done = 0
        for match in islice(self._begins.finditer(text), _MAX_TRIED):
            start = match.start()
            end = None if start < done else object_end(text, start, start + _MAX_SALVAGED)
            if end is None or b'"ph"' not in text[start:end]:
                continue
            try:
                found.append(self._one.decode(text[start:end]))
            except _FAULTS:
                continue
            if text[done:start].strip(_BETWEEN):
                self._lose_event("it is no valid JSON", offset + done)
            done = end
        return len(text) if not text[done:].strip(_BETWEEN) else done

    def _convert(self, text: bytes, offset: int, found: list[E]) -> None:
        """An event of valid JSON of which some field is of another kind: the field is dropped."""
        try:
            plain = msgspec.json.decode(text)
        except _FAULTS:
            plain = None
        if not isinstance(plain, dict):
            self._lose_event("it is no object, or holds a number beyond all", offset)
            return
        kept = {}
        for key, value in plain.items():
            try:
                msgspec.convert({key: value}, self._kind)
                kept[key] = value
            except msgspec.ValidationError:
                self._lose(f"field {key[:32]} of an event", "it is of another type", offset=offset)
        found.append(msgspec.convert(kept, self._kind))

    def _lose_event(self, why: str, offset: int) -> None:
        self._lose("an event", why, offset=offset)

    # --- the end -------------------------------------------------------------------------------------------------

    def _ends_list(self, piece: bytes, begin: int, until: int, offset: int, found: list[E]) -> bool:
        """Whether the list of events ends between two places of a piece and other keys of the file follow."""
        end = list_end(piece[begin:until])
        if end is None or not _KEY_FOLLOWS.match(piece, begin + end + 1):
            return False
        self._close(piece, begin, begin + end, offset, found)
        return True

    def _close(self, piece: bytes, begin: int, end: int, offset: int, found: list[E]) -> None:
        """Take the list's last event, and keep what follows as the tail."""
        self._tail = bytearray()
        self._keep_tail(piece[end + 1 :])
        self._piece = b"[" + piece[:end].strip(_BETWEEN) + b"]"
        last = piece[begin:end].strip(_BETWEEN)
        if last:
            self._mend_last(last, offset + begin, found)

    def _mend_last(self, last: bytes, offset: int, found: list[E]) -> None:
        try:
            found.append(self._one.decode(last))
        except _FAULTS:
            self._mend(last, offset, found)

    def _last(self, buffer: bytes) -> Iterator[list[E]]:
        batch: list[E] = []
        end = list_end(buffer)
        if end is None:
            batch = self._cut(buffer)
        else:
            self._close(buffer, 0, end, self._offset, batch)
        if batch:
            yield batch

    def _cut(self, buffer: bytes) -> list[E]:
        """The file ends within its list of events."""
        text = buffer.strip(_BETWEEN)
        self._piece = b"[" + text + b"]"
        found: list[E] = []
        rest = self._salvaged(text, self._offset, found)
        if rest < len(text):
            self._sink.lose("the last event", "the file ends within it: it is cut", offset=self._offset + rest)
        else:
            self._sink.lose("the end of the list of events", "the file ends before: it is cut", offset=self._offset)
        return found

    def _keep_tail(self, data: bytes) -> None:
        assert self._tail is not None
        if len(self._tail) <= MAX_METADATA:
            self._tail += data

    def _read_tail(self) -> None:
        tail = bytes(self._tail or b"").strip().lstrip(_BETWEEN)
        if len(tail) > MAX_METADATA:
            self._sink.lose("what stands behind the events", "it is too large to be what a file says of itself")
        elif not tail and self._tail_due and self._tail is not None:
            self._sink.lose("what stands behind the events", "the file ends before: it is cut", offset=self._offset)
        elif tail and tail != b"}" and not self._read_metadata(b"{" + tail, self._offset):
            self._sink.lose("what stands behind the events", "it is no valid JSON", offset=self._offset)
        again = self.metadata.pop("traceEvents", None)
        if again:
            count = len(again) if isinstance(again, list) else 1
            self._sink.lose("an event", "it stands in a second list of traceEvents", count=count, offset=self._offset)


def _begun(piece: _Piece, extract: Callable[[bytes], T], side: Side | None) -> Future[T] | T | None:
    """A piece given to the second process if it has room, else done here; None where it is damaged."""
    if side is not None and side.has_room:
        return side.submit(piece.text)
    return _tried(piece, extract)


def _tried(piece: _Piece, extract: Callable[[bytes], T]) -> T | None:
    try:
        return extract(piece.text)
    except _FAULTS:
        return None


def _outcome(piece: _Piece, made: Future[T] | T | None, extract: Callable[[bytes], T]) -> T | None:
    """What was made of a piece; what the second process could not make is tried here."""
    if not isinstance(made, Future):
        return made
    try:
        return made.result()
    except ChildProcessError:
        return _tried(piece, extract)


def _told_before(*_args: Any, **_kwargs: Any) -> None:
    """Losses of a piece that is decoded once more."""


def _boundary(keys: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'\}(?=\s{0,16},\s{0,16}\{\s{0,16}(?:"(?:' + keys + rb')"|\}))')


def object_end(text: bytes, begin: int, limit: int) -> int | None:
    """Where the object ends that begins at ``begin``; None where it is open at ``limit``."""
    depth = 0
    for token in _TOKEN.finditer(text, begin, limit):
        kind = token.group()[:1]
        if kind in b"[{":
            depth += 1
        elif kind in b"]}":
            depth -= 1
            if not depth:
                return token.end()
    return None


def list_end(text: bytes, begin: int = 0) -> int | None:
    """Position of the bracket that closes a list which was opened before ``begin``; None where it stays open."""
    depth = 0
    for token in _TOKEN.finditer(text, begin):
        kind = token.group()[:1]
        if kind in b"[{":
            depth += 1
        elif kind in b"]}":
            if not depth:
                return token.start() if kind == b"]" else None
            depth -= 1
    return None


def mended(text: bytes) -> bytes:
    """Text with wrong UTF-8 replaced, control characters in strings escaped and stray backslashes doubled."""
    text = text.decode("utf-8", "replace").encode()
    text = _ESCAPE.sub(lambda escape: escape.group() if escape.group(1) else rb"\\", text)
    return _WHOLE_STRING.sub(_escape_controls, text)


def _escape_controls(found: re.Match[bytes]) -> bytes:
    return _CONTROL.sub(lambda control: b"\\u%04x" % control.group()[0], found.group())
