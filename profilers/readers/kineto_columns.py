"""From the bytes of a piece of a Kineto trace to columns of numbers: the part that needs nothing but the piece.

What of an event is needed is decoded, sorted by kind, and put into columns at once; texts and ids become places in a
list of those that the piece holds, so that what is given on is small.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import compress
from typing import Any, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.readers.numbers import EXACT_US, NO_TIME, nanoseconds, whole
from wcbench.profilers.readers.rows import ABSENT, NO_SIZE, size_column

NAMELESS = "(no name)"


class _Args(msgspec.Struct, gc=False):
    """What is needed of an event's args; the rest is not decoded. Numbers that are not there are ABSENT, so that a
    column of them is one of whole numbers at once."""

    external: Any = msgspec.field(name="External id", default=ABSENT)
    external_old: Any = msgspec.field(name="external id", default=ABSENT)
    sequence: Any = msgspec.field(name="Sequence number", default=ABSENT)
    forward_thread: Any = msgspec.field(name="Fwd thread id", default=ABSENT)
    correlation: Any = ABSENT
    device: Any = None
    stream: Any = ABSENT
    grid: Any = NO_SIZE
    block: Any = NO_SIZE
    registers: Any = msgspec.field(name="registers per thread", default=ABSENT)
    shared: Any = msgspec.field(name="shared memory", default=ABSENT)
    occupancy: Any = msgspec.field(name="est. achieved occupancy %", default=math.nan)
    nbytes: Any = msgspec.field(name="bytes", default=ABSENT)
    collective: Any = msgspec.field(name="Collective name", default=None)
    rank: Any = ABSENT


_NO_ARGS = _Args()


class AnyEvent(msgspec.Struct, gc=False):
    """An event of whatever kind: how damaged pieces are read, one event at a time."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: _Args | None = None


class _Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event; ``ts`` and ``dur`` in microseconds."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: _Args | None = None


class _ExactAny(AnyEvent, gc=False):
    """The same with times in full: a float64 holds microseconds since the epoch only to a quarter."""

    ts: Decimal | None = None
    dur: Decimal | None = None


class _ExactSpan(_Span, gc=False, tag_field="ph", tag="X"):
    ts: Decimal | None = None
    dur: Decimal | None = None


class _Range(msgspec.Struct, gc=False):
    """A range of CUPTI's range profiler: its args are the counters of a kernel."""

    cat: Any = None
    name: Any = None
    args: dict[str, Any] | None = None


# Flow arrows, instants and metadata make up half of a trace and are not needed: nothing of them is decoded.
_OTHERS = [
    msgspec.defstruct(f"_Event{tag}", [], gc=False, tag_field="ph", tag=tag) for tag in "sftiIMBEbenCPNODRcSTpFVva"
]
EVENT: Any = Union[(_Span, *_OTHERS)]
_EXACT_EVENT: Any = Union[(_ExactSpan, *_OTHERS)]
_EVENT_B = next(kind for kind in _OTHERS if kind.__name__ == "_EventB")

OPS, MARKS, CALLS, WORK, COUNTERS, LEFT, _OLD_OPS = range(7)
RANGES = "cuda_profiler_range"
_KINDS = {
    "cpu_op": OPS, "operator": _OLD_OPS, "user_annotation": MARKS,
    "runtime": CALLS, "driver": CALLS,
    "kernel": WORK, "gpu_memcpy": WORK, "gpu_memset": WORK, "memcpy": WORK, "memset": WORK,
    "concurrent_kernel": WORK, "mtia_ccp_events": WORK, "hpu_op": WORK,
    RANGES: COUNTERS,
}  # fmt: skip
_OLD_MARK = re.compile(r"ProfilerStep#\d+|Optimizer\.(?:step|zero_grad)#.*", re.DOTALL)

Again = Callable[[Any, Any], list[Any]]
"""Reads the piece once more: as a kind for damaged pieces, and as one for all others."""


@dataclass
class Coded:
    """A column of texts or ids: ``values`` in the order in which they occur, and the place in it of each row."""

    values: list[Any]
    places: NDArray[np.int64]


@dataclass
class Part:
    """Events of one kind: their number and columns."""

    kind: int
    count: int
    columns: dict[str, Any]


@dataclass
class Columns:
    """What a piece holds.

    Attributes
    ----------
    left : events of categories that nothing is made of. ``opened`` : events in two parts that begin here.
    ranges : CUPTI's, of which ``unreadable`` hold what is no counter. ``counters`` : (kernel, metric, value) of theirs.
    """

    parts: list[Part] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    counters: list[tuple[str, str, float]] = field(default_factory=list)
    ranges: int = 0
    unreadable: int = 0


class Extract:
    """Makes columns of pieces. One that has met times in fractions since the epoch reads further ones in full."""

    def __init__(self) -> None:
        self._exact = False
        self._decoders: dict[Any, Any] = {}

    def __call__(self, piece: bytes) -> Columns:
        """The columns of a piece: events in brackets. Raises what msgspec raises where some of it is damaged."""

        def again(_plain: Any, fast: Any) -> list[Any]:
            if fast not in self._decoders:
                self._decoders[fast] = msgspec.json.Decoder(list[fast])
            found: list[Any] = self._decoders[fast].decode(piece)
            return found

        return self.of(again(None, _EXACT_EVENT if self._exact else EVENT), again)

    def of(self, batch: Sequence[Any], again: Again) -> Columns:
        """The columns of events; ``again`` reads them once more."""
        try:
            return self._of(batch, again)
        except _InexactError:
            self._exact = True
            return self._of(again(_ExactAny, _EXACT_EVENT), again)

    def _of(self, batch: Sequence[Any], again: Again) -> Columns:
        found = Columns(opened=_opened(batch))
        spans = _spans(batch)
        cats = coded([event.cat for event in spans])
        kinds = np.array([_kind(cat) for cat in cats.values], np.int64)[cats.places]
        for kind in np.unique(kinds).tolist():
            mine = kinds == kind
            if kind == LEFT:
                names, counts = np.unique(cats.places[mine], return_counts=True)
                found.left.update(
                    {_text(cats.values[i]): n for i, n in zip(names.tolist(), counts.tolist(), strict=True)}
                )
                continue
            events = list(compress(spans, mine.tolist()))
            if kind == COUNTERS:
                _count(found, len(events), again)
            else:
                found.parts += _parts(kind, events)
        return found


class _InexactError(Exception):
    """Times are fractions since the epoch, of which a float64 has lost the nanoseconds."""


def _parts(kind: int, events: Sequence[Any]) -> list[Part]:
    """Before there were annotations, marks were operators."""
    if kind != _OLD_OPS:
        return [_part(kind, events)]
    old = [type(event.name) is str and _OLD_MARK.fullmatch(event.name) is not None for event in events]
    ops = [event for event, is_mark in zip(events, old, strict=True) if not is_mark]
    marks = list(compress(events, old))
    return [_part(which, mine) for which, mine in ((MARKS, marks), (OPS, ops)) if mine]


def _part(kind: int, events: Sequence[Any]) -> Part:
    start, duration = _times(events)
    columns: dict[str, Any] = {
        "start": start,
        "duration": duration,
        "name": coded([NAMELESS if event.name is None else event.name for event in events]),
    }
    if kind != WORK:
        columns["pid"] = coded([event.pid for event in events])
        columns["tid"] = coded([event.tid for event in events])
    if kind != MARKS:
        columns |= _OF_KIND[kind](events, [event.args or _NO_ARGS for event in events])
    return Part(kind, len(events), columns)


def _of_ops(_events: Sequence[Any], args: Sequence[_Args]) -> dict[str, Any]:
    return {
        "sequence": whole([a.sequence for a in args]),
        "backward": whole([a.forward_thread for a in args]) > 0,
        "external": _external(args),
    }


def _of_calls(_events: Sequence[Any], args: Sequence[_Args]) -> dict[str, Any]:
    correlation, external = whole([a.correlation for a in args]), _external(args)
    external[external == correlation] = ABSENT  # torch 2.0 to 2.3 write the correlation there: no operator's id
    return {"correlation": correlation, "external": external}


def _of_work(events: Sequence[Any], args: Sequence[_Args]) -> dict[str, Any]:
    labels = [
        (event.cat, a.device if type(a.device) is int else event.pid) for event, a in zip(events, args, strict=True)
    ]
    return {
        "device": coded(labels),
        "stream": _streams(events, args),
        "correlation": whole([a.correlation for a in args]),
        "grid": size_column([a.grid for a in args]),
        "block": size_column([a.block for a in args]),
        "registers": whole([a.registers for a in args]),
        "shared_bytes": whole([a.shared for a in args]),
        "occupancy": _shares([a.occupancy for a in args]),
        "nbytes": whole([a.nbytes for a in args]),
        "collective": coded([a.collective for a in args]),
        "rank": whole([a.rank for a in args]),
    }


_OF_KIND = {OPS: _of_ops, CALLS: _of_calls, WORK: _of_work}


def _times(events: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and durations in nanoseconds; NO_TIME where there is none."""
    starts = [event.ts for event in events]
    start, duration = nanoseconds(starts), nanoseconds([event.dur for event in events])
    if start.size and np.abs(start).max() > EXACT_US * 1000 and float in set(map(type, starts)):
        raise _InexactError
    start[(start == 0) & (duration == 0)] = NO_TIME  # kineto issue 109: never filled in
    return start, duration


def _count(found: Columns, ranges: int, again: Again) -> None:
    """CUPTI's range profiler replays each kernel in a range of its own: counters instead of times."""
    events = [event for event in again(_Range, _Range) if event.cat == RANGES]
    found.ranges += ranges
    found.unreadable += ranges - len(events)
    for event in events:
        for metric, value in (event.args or {}).items():
            if _finite(value):
                found.counters.append((str(event.name), metric, float(value)))


def _spans(batch: Sequence[Any]) -> list[Any]:
    """The complete events of a batch; all of it was read as one kind or the other."""
    if batch and isinstance(batch[0], AnyEvent):
        return [event for event in batch if event.ph == "X"]
    kinds = list(map(type, batch))
    kind = _ExactSpan if _ExactSpan in kinds else _Span
    return [event for event, of in zip(batch, kinds, strict=True) if of is kind]


def _opened(batch: Sequence[Any]) -> int:
    """How many events of a batch open what another one closes."""
    if batch and isinstance(batch[0], AnyEvent):
        return sum(event.ph == "B" for event in batch)
    return sum(type(event) is _EVENT_B for event in batch)


def _kind(cat: Any) -> int:
    """The kind of a category. Cases differ between versions, prefixes between devices."""
    text = cat.lower() if isinstance(cat, str) else ""
    kind = _KINDS.get(text, LEFT)
    return CALLS if kind == LEFT and text.endswith(("_runtime", "_driver")) else kind


def _text(cat: Any) -> str:
    return str(cat or "")


def coded(values: list[Any]) -> Coded:
    """Values as places in the list of those that occur."""
    try:
        known = dict.fromkeys(values)
    except TypeError:  # a list or an object where a name or a number belongs
        return coded([_hashable(value) for value in values])
    for place, value in enumerate(known):
        known[value] = place
    return Coded(list(known), np.array(list(map(known.__getitem__, values)), np.int64))


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return json.dumps(value) if isinstance(value, list | dict) else value


def _external(args: Sequence[_Args]) -> NDArray[np.int64]:
    new = whole([a.external for a in args])
    if (new >= 0).all():
        return new
    return np.where(new >= 0, new, whole([a.external_old for a in args]))


def _streams(events: Sequence[Any], args: Sequence[_Args]) -> NDArray[np.int64]:
    """Numbers of streams; in old traces they are threads called "stream 7"."""
    streams = whole([a.stream for a in args])
    if (streams < 0).any():
        threads = [str(event.tid).removeprefix("stream ") for event in events]
        streams = np.where(streams < 0, whole(threads), streams)
    return streams


def _shares(values: list[Any]) -> NDArray[np.float64]:
    """Occupancy as a fraction; NaN where the file has none. A whole per cent: 0 is "under 0.5 %"."""
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.array([value if _finite(value) else math.nan for value in values], np.float64)
    found[~((found >= 0) & (found <= 100))] = math.nan
    return found / 100


def _finite(value: Any) -> bool:
    """Whether it is a number that a float64 can hold."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False
