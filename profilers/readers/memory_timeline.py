"""Torch's memory timelines (`torch.profiler.profile.export_memory_timeline`): single events, or bytes over time.

``.raw.json.gz`` is a list of ``[time, action, bytes, category]``, its times in nanoseconds and -1 for what existed when
the profile began; ``.json`` and ``.json.gz`` are ``[times, sizes]``, times in microseconds and sizes one list of nine
numbers a moment: a zero and the bytes of eight categories. Both are read a piece at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

PASS = "memory"
ACTIONS = ("preexisting", "create", "increment_version", "destroy")
"""Numbered from 1 in the file."""
CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
"""Numbered from 0 in the file."""

MAX_MOMENTS = 1 << 26
_LARGEST = 1 << 53
_LATEST = 1 << 62
_MAX_ROW = 1 << 12
_BEFORE = -1
_DEVICE = "unknown device"

_NUMBER = rb"\s*-?\d{1,25}\s*"
_EVENT = re.compile(rb"\[\s*\[" + _NUMBER + rb",\s*[1-4]\s*," + _NUMBER + rb",\s*[0-7]\s*\]\s*(?:[,\]]|$)")
_CURVE = re.compile(rb"\[\s*\[(?:" + _NUMBER + rb",)*" + _NUMBER + rb"(?:\]\s*,\s*\[\s*\[\s*0\s*,|$)")
_ROW = re.compile(rb"\[[^\[\]]*\]")
_SEPARATORS = b", \t\r\n"


class MemoryTimeline(Reader):
    """Reads both files of torch's memory timeline."""

    name = "memory-timeline"
    title = "torch memory timeline (.raw.json.gz: events; .json: bytes by category over time)"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        return bool(_EVENT.match(head.stripped)) or _is_curve(head.stripped)

    def read(self, source: Source, sink: Sink) -> None:
        reading = _Curve(source, sink) if _is_curve(Head(source, source.head()).stripped) else _Events(source, sink)
        seconds = reading.run()
        sink.note(PASS, "The file does not say of which device it is, nor how many steps it spans.")
        sink.describe(PASS, PassFacts(device=_DEVICE, seconds=seconds))


def _is_curve(start: bytes) -> bool:
    # where the list of times is longer than what is looked at, the match ends with a number that may be cut
    return bool(_CURVE.match(start) or _CURVE.match(start.rstrip(b"0123456789-").rstrip(_SEPARATORS)))


class _Rows:
    """Lists of so many whole numbers each, out of a stream of JSON text; what is none is told as lost."""

    def __init__(self, width: int, sink: Sink, what: str) -> None:
        self._width, self._sink, self._what = width, sink, what
        self._decoder = msgspec.json.Decoder(list[list[int]])
        self._one = msgspec.json.Decoder(list[int])

    def array(self, piece: bytes, offset: int) -> Ints:
        """The rows of a piece that begins with one and ends behind one."""
        try:
            found = np.array(self._decoder.decode(b"[" + piece + b"]"), np.int64)
            if found.ndim == 2 and found.shape[1] == self._width:
                return found
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            pass
        return self._one_by_one(piece, offset)

    def _one_by_one(self, piece: bytes, offset: int) -> Ints:
        good, end = [], 0
        for found in _ROW.finditer(piece):
            if piece[end : found.start()].strip(_SEPARATORS):
                self._sink.lose("bytes", "they stand between the rows", offset=offset + end)
            end = found.end()
            row = self._row(found[0])
            if row is None:
                self._sink.lose(
                    self._what, f"it is no list of {self._width} whole numbers", offset=offset + found.start()
                )
            else:
                good.append(row)
        if piece[end:].strip(_SEPARATORS):
            self._sink.lose("bytes", "they stand between the rows", offset=offset + end)
        return np.array(good, np.int64).reshape(-1, self._width)

    def _row(self, text: bytes) -> list[int] | None:
        try:
            row = self._one.decode(text)
        except (msgspec.DecodeError, ValueError):
            return None
        return row if len(row) == self._width and all(-_LATEST < value < _LATEST for value in row) else None


class _Pieces:
    """The text of a file, cut where one row ends and the next begins."""

    def __init__(self, source: Source, sink: Sink) -> None:
        self._chunks, self._sink = source.chunks(sink.lose), sink
        self.buffer, self.offset = b"", 0
        self.ended = False

    def more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            self.ended = True
            return False
        self.buffer += chunk
        return True

    def drop(self, count: int) -> None:
        self.buffer, self.offset = self.buffer[count:], self.offset + count

    def skip_to_rows(self) -> None:
        """Past the blanks and the bracket that opens a list."""
        while (at := self.buffer.find(b"[")) < 0 and self.more():
            pass
        self.drop(at + 1)

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Offset and text of pieces of the list of lists in which the text stands, to its end."""
        while not self.ended:
            cut = self.buffer.rfind(b"],")
            if cut >= 0:
                yield self.offset, self.buffer[: cut + 1].lstrip(_SEPARATORS)
                self.drop(cut + 2)
            elif len(self.buffer) > _MAX_ROW:
                self._sink.lose("bytes", "they are no row", offset=self.offset, count=1)
                self.drop(len(self.buffer) - _MAX_ROW // 2)
            self.more()
        yield from self._last()

    def _last(self) -> Iterator[tuple[int, bytes]]:
        end = self.buffer.rfind(b"]")
        rest = self.buffer[: end + 1].strip(_SEPARATORS).rstrip(b"] \t\r\n")
        whole = self.buffer.rstrip().endswith(b"]") and self.buffer.rstrip()[:-1].rstrip(b" \t\r\n").endswith(b"]")
        if not whole:
            self._sink.lose("the rest of the file", "it ends within its list: the file is cut", offset=self.offset)
        if rest:
            yield self.offset, rest + b"]"


class _Events:
    def __init__(self, source: Source, sink: Sink) -> None:
        self._source, self._sink = source, sink
        self._first, self._last = _LATEST, -1
        self._count = 0

    def run(self) -> float:
        """Fill table `allocations`; returns the seconds that it spans."""
        rows = _Rows(4, self._sink, "an event")
        pieces = _Pieces(self._source, self._sink)
        pieces.skip_to_rows()
        for offset, piece in pieces.rows():
            self._add(rows.array(piece, offset))
        if not self._count:
            raise ReadError(
                f"{self._source.label} holds no memory events.", "Export the timeline after a step has run."
            )
        return max(0, self._last - self._first) / 1e9

    def _add(self, found: Ints) -> None:
        time, action, nbytes, category = found.T
        sane = (time >= _BEFORE) & (time < _LATEST) & (np.abs(nbytes) < _LARGEST)
        known = (action >= 1) & (action <= len(ACTIONS)) & (category >= 0) & (category < len(CATEGORIES))
        # what appears adds bytes and what goes takes them; a new version is told as both, one row after the other
        sign = np.where(action <= 2, nbytes >= 0, np.where(action == 4, nbytes <= 0, True))
        good = sane & known & sign
        if not good.all():
            self._sink.lose("an event", "its numbers are none of a memory timeline", count=int((~good).sum()))
        time, action, nbytes, category = found[good].T
        self._count += len(time)
        inside = time[time >= 0]
        if len(inside):
            self._first, self._last = min(self._first, int(inside.min())), max(self._last, int(inside.max()))
        columns = {
            "time_ns": _or_null(time, time >= 0),
            "action": _words(ACTIONS, action - 1),
            "nbytes": nbytes,
            "category": _words(CATEGORIES, category),
        }
        self._sink.add("allocations", PASS, columns)


class _Curve:
    def __init__(self, source: Source, sink: Sink) -> None:
        self._source, self._sink = source, sink

    def run(self) -> float:
        """Fill table `memory_curve`; returns the seconds that it spans."""
        pieces = _Pieces(self._source, self._sink)
        pieces.skip_to_rows()
        times = self._times(pieces)
        rows, at = _Rows(1 + len(CATEGORIES), self._sink, "a moment"), 0
        pieces.skip_to_rows()
        for offset, piece in pieces.rows():
            sizes = rows.array(piece, offset)
            here = times[at : at + len(sizes)]
            at += len(sizes)
            self._add(here, sizes[: len(here)])
        if at != len(times):
            self._sink.lose(
                "a moment", "it has a time without sizes or sizes without a time", count=abs(at - len(times))
            )
        if not min(at, len(times)):
            raise ReadError(f"{self._source.label} holds no moment.", "Export the timeline after a step has run.")
        return float(times.max() - times.min()) / 1e6

    def _times(self, pieces: _Pieces) -> Ints:
        """All times, in microseconds as the file has them."""
        pieces.skip_to_rows()
        found: list[Ints] = []
        decoder = msgspec.json.Decoder(list[int])
        total = 0
        while True:
            end = pieces.buffer.find(b"]")
            cut = end if end >= 0 else pieces.buffer.rfind(b",")
            text = pieces.buffer[: max(cut, 0)].strip(_SEPARATORS)
            try:
                found.append(np.array(decoder.decode(b"[" + text + b"]"), np.int64))
            except (msgspec.DecodeError, ValueError, OverflowError) as error:
                raise ReadError(
                    f"{self._source.label}: its times are damaged near byte {pieces.offset}.", "Export it again."
                ) from error
            total += len(found[-1])
            if total > MAX_MOMENTS:
                raise ReadError(f"{self._source.label} holds more than {MAX_MOMENTS} moments.", "Profile fewer steps.")
            pieces.drop(cut + 1)
            if end >= 0:
                return np.concatenate(found)
            if not pieces.more():
                raise ReadError(f"{self._source.label} ends within its times: the file is cut.", "Export it again.")

    def _add(self, times: Ints, sizes: Ints) -> None:
        bytes_in_use = sizes[:, 1:]
        good = (times >= 0) & (times < _LATEST // 1000) & ((bytes_in_use >= 0) & (bytes_in_use < _LARGEST)).all(axis=1)
        if not good.all():
            self._sink.lose("a moment", "its numbers are none of a memory timeline", count=int((~good).sum()))
        count, kinds = int(good.sum()), len(CATEGORIES)
        columns = {
            "time_ns": np.repeat(times[good] * 1000, kinds),
            "category": _words(CATEGORIES, np.tile(np.arange(kinds), count)),
            "nbytes": bytes_in_use[good].ravel(),
        }
        self._sink.add("memory_curve", PASS, columns)


def _words(words: Sequence[str], codes: Ints) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words))


def _or_null(values: Ints, given: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int64(), mask=~given)
