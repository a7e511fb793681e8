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

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import ReadError
from wcbench.profilers.readers import kineto_columns as columns
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.events import Events
from wcbench.profilers.readers.kineto_columns import AnyEvent, Coded, Columns, Extract, Part
from wcbench.profilers.readers.numbers import NO_TIME
from wcbench.profilers.readers.timeline import ABSENT, Timeline

EXTRACT = "wcbench.profilers.readers.kineto_columns:Extract"
# Not needed, and in nearly every trace: flows, Python frames, marks mirrored on the device, the profiler's own cost.
_KNOWN_OTHERS = {
    "ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd", "python_function", "overhead", "trace",
    "gpu_user_annotation", "cpu_instant_event", "cuda_sync",
}  # fmt: skip
_LABELS = {"mtia_ccp_events": "mtia", "hpu_op": "hpu"}
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
        self._events: Events[Any] = Events(source, sink, AnyEvent)
        self._left: Counter[str] = Counter()
        self._threads: dict[Any, int] = {}
        self._taken: set[int] = set()
        self._devices: dict[Any, int] = {}
        self._pids: dict[Any, int] = {}
        self._kept = self._open = 0
        self._base = 0
        self._takers: dict[int, Callable[..., None]] = {
            columns.OPS: self._timeline.ops,
            columns.MARKS: self._timeline.marks,
            columns.CALLS: self._timeline.runtime,
        }

    def run(self) -> None:
        extract = Extract()

        def damaged(batch: Sequence[Any]) -> Columns:
            return extract.of(batch, lambda plain, _fast: self._events.batch_as(plain))

        for found in self._events.extracted(extract, damaged, EXTRACT):
            self._base = _base(self._events.metadata.get("baseTimeNanoseconds"))
            self._take(found)
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

    def _take(self, found: Columns) -> None:
        """Hand on what a piece of the file holds, each kind to its table."""
        self._open += found.opened
        self._left += found.left
        for part in found.parts:
            self._kept += part.count
            if part.kind == columns.WORK:
                self._take_work(part)
            else:
                self._takers[part.kind](**self._host(part))
        self._take_counters(found)

    # --- columns ---------------------------------------------------------------------------------------------------

    def _times(self, part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and durations; NO_TIME where the start is none, 0 where the duration is none."""
        start, duration = part.columns.pop("start"), part.columns.pop("duration")
        start[start != NO_TIME] += self._base
        if (wrong := duration < 0).any():
            why = "it is missing, negative or no number, and taken for 0"
            self._sink.lose("a duration", why, count=int(wrong.sum()), repaired=True)
            duration[wrong] = 0
        return start, duration

    def _names(self, column: Coded) -> NDArray[np.int64]:
        return self._timeline.names(column.values)[column.places]

    def _thread(self, lane: tuple[Any, Any]) -> int:
        """The number of a thread: its own, if it has one and no other process of the file has it too."""
        text = str(lane[1])
        number = int(text) if re.fullmatch(r"\d{1,18}", text) else ABSENT
        if number < 0 or number in self._taken:
            return -2 - len(self._threads)
        self._taken.add(number)
        return number

    def _lanes(self, pid: Coded, numbers: NDArray[np.int64], tid: Coded) -> NDArray[np.int64]:
        """The number of each event's thread; ``numbers`` are those of the pids."""
        pairs, places = np.unique(pid.places << 32 | tid.places, return_inverse=True)
        lanes = [(int(numbers[pair >> 32]), tid.values[pair & 0xFFFFFFFF]) for pair in pairs.tolist()]
        return _numbers_of(lanes, self._threads, self._thread)[places]

    def _host(self, part: Part) -> dict[str, Any]:
        """Columns of host events; those without a time are lost."""
        start, duration = self._times(part)
        pid, tid = part.columns.pop("pid"), part.columns.pop("tid")
        numbers = _numbers_of(pid.values, self._pids, lambda _pid: len(self._pids))
        found = {
            **part.columns,
            "name": self._names(part.columns["name"]),
            "process": numbers[pid.places],
            "thread": self._lanes(pid, numbers, tid),
            "start": start,
            "end": start + duration,
        }
        timed = start != NO_TIME
        if timed.all():
            return found
        self._sink.lose("an event", "it has no time, or one beyond a clock's", count=int((~timed).sum()))
        return {name: column[timed] for name, column in found.items()}

    def _take_work(self, part: Part) -> None:
        start, duration = self._times(part)
        start[start == NO_TIME] = ABSENT
        given = part.columns
        labels, collectives = given.pop("device"), given.pop("collective")
        self._timeline.device(
            **given | {"name": self._names(given["name"])},
            process=np.full(part.count, ABSENT),  # the pid of device records is the device's number
            device=_numbers_of(labels.values, self._devices, self._device)[labels.places],
            start=start,
            duration=duration,
            collective=self._names(collectives) if any(collectives.values) else None,
        )

    def _take_counters(self, found: Columns) -> None:
        self._kept += found.ranges
        if found.unreadable:
            why = "they hold what is no number of a counter"
            self._sink.lose("counters of a kernel", why, count=found.unreadable)
        if found.counters:
            name, metric, value = map(list, zip(*found.counters, strict=True))
            self._sink.describe("counters", PassFacts(device="cuda"))
            rows = {"name": name, "metric": metric, "unit": [""] * len(name), "value": value, "calls": [1] * len(name)}
            self._sink.add("counters", "counters", rows)

    def _device(self, label: tuple[Any, Any]) -> int:
        cat, index = label
        kind = _LABELS.get(cat, "cuda")
        return self._timeline.name(f"{kind}:{index}" if type(index) is int else kind)

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


def _numbers_of(values: Sequence[Any], known: dict[Any, int], new: Callable[[Any], int]) -> NDArray[np.int64]:
    """The number of each value, by a dictionary that ``new`` adds to."""
    for value in values:
        if value not in known:
            known[value] = new(value)
    return np.array([known[value] for value in values], np.int64)


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
