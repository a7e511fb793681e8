"""torch.profiler's Chrome traces (Kineto), of every layout since 2020, of any device or of a CPU alone.

Layouts differ in case and names of categories, in the type of times (whole microseconds, or fractions relative to
`baseTimeNanoseconds`), in where a stream's number stands, and in what a kernel tells of itself. What is needed is read
whatever the layout; categories that nothing is made of are dropped while reading, and noted unless every trace has
them.

- Kernels, copies and fills are rows of `kernels`; their device is `cuda:N` as torch names it, of AMD's GPUs too, where
  N is the number that the profiler gives (of ROCm an agent, not an index of deviceProperties).
- `External id` is not asked where it repeats the correlation, as on all calls of torch 2.0 to 2.3.
- Ranges of CUPTI's range profiler (`cuda_profiler_range`) are rows of `counters`: their times are those of replays.
- Occupancy is an estimate in whole per cent: 0 is "under half a per cent".
- `Collective name` on a kernel makes it communication, whatever its own name.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import compress
from typing import Any, ClassVar, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.events import Events
from wcbench.profilers.readers.numbers import EXACT_US, NO_TIME, nanoseconds, whole
from wcbench.profilers.readers.timeline import ABSENT, NO_SIZE, Timeline


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


class _Any(msgspec.Struct, gc=False):
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


class _ExactAny(_Any, gc=False):
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
_EVENT: Any = Union[(_Span, *_OTHERS)]
_EXACT_EVENT: Any = Union[(_ExactSpan, *_OTHERS)]
_PLAIN = (_Any, _ExactAny)
_EVENT_B = next(kind for kind in _OTHERS if kind.__name__ == "_EventB")

_OPS, _OLD_OPS, _MARKS, _CALLS, _WORK, _COUNTERS, _LEFT = range(7)
_KINDS = {
    "cpu_op": _OPS, "operator": _OLD_OPS, "user_annotation": _MARKS,
    "runtime": _CALLS, "driver": _CALLS,
    "kernel": _WORK, "gpu_memcpy": _WORK, "gpu_memset": _WORK, "memcpy": _WORK, "memset": _WORK,
    "concurrent_kernel": _WORK, "mtia_ccp_events": _WORK, "hpu_op": _WORK,
    "cuda_profiler_range": _COUNTERS,
}  # fmt: skip
# Not needed, and in nearly every trace: flows, Python frames, marks mirrored on the device, the profiler's own cost.
_KNOWN_OTHERS = {
    "ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd", "python_function", "overhead", "trace",
    "gpu_user_annotation", "cpu_instant_event", "cuda_sync",
}  # fmt: skip
_LABELS = {"mtia_ccp_events": "mtia", "hpu_op": "hpu"}
_OLD_MARK = re.compile(r"ProfilerStep#\d+|Optimizer\.(?:step|zero_grad)#.*", re.DOTALL)
NAMELESS = "(no name)"
_LOOKED_AT = 8
"""Events of a batch whose times are looked at: one of absolute microseconds in fractions is enough."""
_SIGNS = (
    b'"deviceProperties"', b'"schemaVersion"', b'"baseTimeNanoseconds"', b'"distributedInfo"', b'"External id"',
    b'"external id"', b'"PyTorch Profiler', b'"cpu_op"', b'"Operator"', b'"python_function"', b'"user_annotation"',
    b'"gpu_user_annotation"', b'"cuda_runtime"', b'"cat": "kernel"', b'"cat":"kernel"', b'"cat": "Kernel"',
    b'"Runtime"',
)  # fmt: skip


class Kineto(Reader):
    name: ClassVar[str] = "kineto"
    title: ClassVar[str] = "torch.profiler (Kineto) Chrome trace, .json or .json.gz, of 2020 to today"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        start = head.stripped
        if start[:1] not in (b"{", b"["):
            return False
        return any(sign in start for sign in _SIGNS) and (b'"ph"' in start or b"traceEvents" in start)

    def read(self, source: Source, sink: Sink) -> None:
        _Reading(source, sink).run()


class _Reading:
    """One file while it is read."""

    def __init__(self, source: Source, sink: Sink) -> None:
        self._source, self._sink = source, sink
        self._timeline: Timeline = sink.timeline()
        self._events: Events[Any] = Events(source, sink, _Any, _EVENT)
        self._kind_of: dict[Any, int] = {}
        self._left: Counter[str] = Counter()
        self._threads: dict[Any, int] = {}
        self._taken: set[int] = set()
        self._devices: dict[Any, int] = {}
        self._pids: dict[Any, int] = {}
        self._tids: dict[Any, int] = {}
        self._tid_of: list[Any] = []
        self._kept = self._open = 0
        self._exact = False
        self._base = 0
        self._takers = {
            _OPS: self._take_ops,
            _OLD_OPS: self._take_old_ops,
            _MARKS: self._take_marks,
            _CALLS: self._take_calls,
            _WORK: self._take_work,
            _COUNTERS: self._take_counters,
        }

    def run(self) -> None:
        for batch in self._events:
            self._base = _base(self._events.metadata.get("baseTimeNanoseconds"))
            self._batch(batch)
        self._facts()
        if self._open:
            self._sink.lose("an event", "it is in two parts (phases B and E), which are not read", count=self._open)
        if not self._kept and not self._left:
            raise ReadError(
                f"{self._source.label} holds no events in time: its list of events is empty or holds metadata only.",
                "Record at least one step while the profiler is active: a schedule may have skipped them all.",
            )
        for cat, count in sorted(self._left.items()):
            if cat.lower() not in _KNOWN_OTHERS:
                self._sink.note("timeline", f"{count} events of category {cat or '(none)'} are left out.")

    def _batch(self, batch: Sequence[Any]) -> None:
        """Sort a batch by kind of event and hand each kind on."""
        spans = _spans(batch, self._exact)
        self._open += _opened(batch)
        if not self._exact and any(
            type(event.ts) is float and abs(event.ts) > EXACT_US for event in spans[:_LOOKED_AT]
        ):
            self._exact = True
            spans = _spans(self._events.again(_ExactAny, _EXACT_EVENT), self._exact)
        kinds = _numbers_of([event.cat for event in spans], self._kind_of, self._new_kind)
        for kind in np.unique(kinds).tolist():
            events = list(compress(spans, (kinds == kind).tolist()))
            if kind in self._takers:
                self._kept += len(events)
                self._takers[kind](events)
            else:
                self._left.update(str(event.cat or "") for event in events)

    def _new_kind(self, cat: Any) -> int:
        """The kind of a category seen for the first time. Cases differ between versions, prefixes between devices."""
        text = cat.lower() if isinstance(cat, str) else ""
        kind = _KINDS.get(text, _LEFT)
        return _CALLS if kind == _LEFT and text.endswith(("_runtime", "_driver")) else kind

    # --- columns ---------------------------------------------------------------------------------------------------

    def _times(self, events: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and durations in nanoseconds; NO_TIME where the start is none, 0 where the duration is none."""
        starts, durations = [event.ts for event in events], [event.dur for event in events]
        start, duration = nanoseconds(starts), nanoseconds(durations)
        start[(start == 0) & (duration == 0)] = NO_TIME  # kineto issue 109: never filled in
        start[start != NO_TIME] += self._base
        if (wrong := duration < 0).any():
            why = "it is missing, negative or no number, and taken for 0"
            self._sink.lose("a duration", why, count=int(wrong.sum()), repaired=True)
            duration[wrong] = 0
        return start, duration

    def _names(self, events: Sequence[Any]) -> NDArray[np.int64]:
        return self._timeline.names([NAMELESS if event.name is None else event.name for event in events])

    def _thread(self, lane: tuple[Any, Any]) -> int:
        """The number of a thread: its own, if it has one and no other process of the file has it too."""
        text = str(lane[1])
        number = int(text) if re.fullmatch(r"\d{1,18}", text) else ABSENT
        if number < 0 or number in self._taken:
            return -2 - len(self._threads)
        self._taken.add(number)
        return number

    def _lanes(self, pids: NDArray[np.int64], events: Sequence[Any]) -> NDArray[np.int64]:
        """The number of each event's thread."""
        tids = _numbers_of([event.tid for event in events], self._tids, self._tid)
        pairs, places = np.unique(pids << 32 | tids, return_inverse=True)
        lanes = [(pair >> 32, self._tid_of[pair & 0xFFFFFFFF]) for pair in pairs.tolist()]
        return _numbers_of(lanes, self._threads, self._thread)[places]

    def _tid(self, tid: Any) -> int:
        self._tid_of.append(tid)
        return len(self._tid_of) - 1

    def _host(self, events: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
        """Columns that all host events have, and the events that have a time at all."""
        start, duration = self._times(events)
        timed = start != NO_TIME
        if not timed.all():
            self._sink.lose("an event", "it has no time, or one beyond a clock's", count=int((~timed).sum()))
            events = list(compress(events, timed.tolist()))
            start, duration = start[timed], duration[timed]
        columns = {
            "name": self._names(events),
            "process": (pids := _numbers_of([event.pid for event in events], self._pids, lambda _pid: len(self._pids))),
            "thread": self._lanes(pids, events),
            "start": start,
            "end": start + duration,
        }
        return columns, events

    def _take_old_ops(self, events: Sequence[Any]) -> None:
        """Before there were annotations, marks were operators."""
        old = [type(event.name) is str and _OLD_MARK.fullmatch(event.name) is not None for event in events]
        if marks := list(compress(events, old)):
            self._take_marks(marks)
        if ops := [event for event, is_mark in zip(events, old, strict=True) if not is_mark]:
            self._take_ops(ops)

    def _take_ops(self, events: Sequence[Any]) -> None:
        host, events = self._host(events)
        args = _args(events)
        self._timeline.ops(
            **host,
            sequence=whole([a.sequence for a in args]),
            backward=whole([a.forward_thread for a in args]) > 0,
            external=_external(args),
        )

    def _take_marks(self, events: Sequence[Any]) -> None:
        self._timeline.marks(**self._host(events)[0])

    def _take_calls(self, events: Sequence[Any]) -> None:
        host, events = self._host(events)
        args = _args(events)
        correlation, external = whole([a.correlation for a in args]), _external(args)
        external[external == correlation] = ABSENT  # torch 2.0 to 2.3 write the correlation there: no operator's id
        self._timeline.runtime(**host, correlation=correlation, external=external)

    def _take_work(self, events: Sequence[Any]) -> None:
        args = _args(events)
        start, duration = self._times(events)
        start[start == NO_TIME] = ABSENT
        labels = [
            (event.cat, a.device if type(a.device) is int else event.pid) for event, a in zip(events, args, strict=True)
        ]
        collectives = [a.collective for a in args]
        self._timeline.device(
            name=self._names(events),
            process=np.full(len(events), ABSENT),  # the pid of device records is the device's number
            device=_numbers_of(labels, self._devices, self._device),
            stream=self._streams(events, args),
            start=start,
            duration=duration,
            correlation=whole([a.correlation for a in args]),
            grid=[a.grid for a in args],
            block=[a.block for a in args],
            registers=whole([a.registers for a in args]),
            shared_bytes=whole([a.shared for a in args]),
            occupancy=_shares([a.occupancy for a in args]),
            nbytes=whole([a.nbytes for a in args]),
            collective=self._timeline.names(collectives) if any(collectives) else None,
            rank=whole([a.rank for a in args]),
        )

    def _take_counters(self, events: Sequence[Any]) -> None:
        """CUPTI's range profiler replays each kernel in a range of its own: counters instead of times."""
        rows: dict[str, list[Any]] = {"name": [], "metric": [], "unit": [], "value": [], "calls": []}
        ranges = [event for event in self._events.batch_as(_Range) if event.cat == "cuda_profiler_range"]
        if len(ranges) < len(events):
            why = "they hold what is no number of a counter"
            self._sink.lose("counters of a kernel", why, count=len(events) - len(ranges))
        for event in ranges:
            for metric, value in (event.args or {}).items():
                if _finite(value):
                    for column, entry in zip(rows, (str(event.name), metric, "", float(value), 1), strict=True):
                        rows[column].append(entry)
        if rows["name"]:
            self._sink.describe("counters", PassFacts(device="cuda"))
            self._sink.add("counters", "counters", rows)

    def _device(self, label: tuple[Any, Any]) -> int:
        cat, index = label
        kind = _LABELS.get(cat, "cuda")
        return self._timeline.name(f"{kind}:{index}" if type(index) is int else kind)

    def _streams(self, events: Sequence[Any], args: Sequence[_Args]) -> NDArray[np.int64]:
        """Numbers of streams; in old traces they are threads called "stream 7"."""
        streams = whole([a.stream for a in args])
        if (streams < 0).any():
            threads = [str(event.tid).removeprefix("stream ") for event in events]
            streams = np.where(streams < 0, whole(threads), streams)
        return streams

    # --- what the file says of itself ------------------------------------------------------------------------------

    def _facts(self) -> None:
        metadata = self._events.metadata
        if not self._base:  # most writers put it behind the events
            self._timeline.base = _base(metadata.get("baseTimeNanoseconds"))
        info = metadata.get("distributedInfo")
        if isinstance(info, Mapping):
            self._sink.rank = _count(info.get("rank"))
            self._sink.world_size = _count(info.get("world_size"))
        gpus = [_gpu(entry) for entry in _entries(metadata.get("deviceProperties"))]
        if gpus:
            self._sink.facts["gpus"] = gpus
        versions = {key: metadata[key] for key in metadata if key.endswith("_version") and _plain(metadata[key])}
        if versions:
            self._sink.facts["versions"] = versions


def _spans(batch: Sequence[Any], exact: bool) -> list[Any]:
    """The complete events of a batch; all of it was read as one kind or the other."""
    if batch and type(batch[0]) in _PLAIN:
        return [event for event in batch if event.ph == "X"]
    kind = _ExactSpan if exact else _Span
    return [event for event in batch if type(event) is kind]


def _opened(batch: Sequence[Any]) -> int:
    """How many events of a batch open what another one closes."""
    if batch and type(batch[0]) in _PLAIN:
        return sum(event.ph == "B" for event in batch)
    return Counter(map(type, batch))[_EVENT_B]


def _numbers_of(values: Sequence[Any], known: dict[Any, int], new: Callable[[Any], int]) -> NDArray[np.int64]:
    """The number of each value, by a dictionary that ``new`` adds to."""
    try:
        found = list(map(known.get, values))
    except TypeError:  # a list or an object where a name or a number belongs
        return _numbers_of([_hashable(value) for value in values], known, new)
    if None in found:
        for value in values:
            if value not in known:
                known[value] = new(value)
        found = [known[value] for value in values]
    return np.array(found, np.int64)


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return json.dumps(value) if isinstance(value, list | dict) else value


def _args(events: Sequence[Any]) -> list[_Args]:
    return [event.args or _NO_ARGS for event in events]


def _external(args: Sequence[_Args]) -> NDArray[np.int64]:
    new = whole([a.external for a in args])
    if (new >= 0).all():
        return new
    return np.where(new >= 0, new, whole([a.external_old for a in args]))


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


def _base(value: Any) -> int:
    """Nanoseconds since the epoch that times count from, in traces since torch 2.4."""
    return value if type(value) is int and 0 < value < 1 << 62 else 0


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def _plain(value: Any) -> bool:
    return type(value) in (int, float, str)


def _entries(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _gpu(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A device as the record's machine has it, of what Kineto tells."""
    return {
        "index": entry.get("id"),
        "name": entry.get("name") or None,
        "memory_bytes": entry.get("totalGlobalMem"),
        "multiprocessors": entry.get("numSms"),
        "threads_per_multiprocessor": entry.get("maxThreadsPerMultiprocessor"),
        "warp_size": entry.get("warpSize"),
    }
