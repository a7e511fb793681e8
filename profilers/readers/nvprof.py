"""Output of nvprof: CSV (`--csv`) and text, of summaries, GPU and API traces, metrics and events.

Summaries go to table `totals` (calls of the API are kind `runtime`), traces to the timeline, metrics to `counters` as
means over all invocations of a kernel. nvprof's KB can be 1000 or 1024 bytes; see `units`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from wcbench.errors import ReadError
from wcbench.profilers.readers import units
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.nvprof_items import Call, Cell, Damage, Header, Item, Message, Total, Value, Work
from wcbench.profilers.readers.nvprof_scan import Scanner
from wcbench.profilers.readers.rows import ABSENT
from wcbench.profilers.readers.sums import CONTRADICTED, NONE, UNCONFIRMED, Printed, agreed, printed

TIMELINE, COUNTERS = "timeline", "counters"
UNKNOWN_DEVICE = "cuda"
_BATCH = 1 << 13
_OWN_WORDS = ("NVPROF is profiling", "Profiling result", "Metric result", "Event result", "No kernels were profiled")
_TELLING = ("Warning", "Error", "No kernels were profiled", "No API activities", "No events/metrics")
_DEVICE = re.compile(r"(.*) \((\d{1,6})\)", re.ASCII)
_KILO_BYTES = re.compile(r"[\d.]+ ?[KMGT]B(?:/s)?", re.ASCII)
_INVALID = re.compile(r"\b(\d{1,15}) records have invalid timestamps", re.ASCII)
_MOST_INT32 = (1 << 31) - 1


class NvprofCsv(Reader):
    """CSV and text of nvprof."""

    name: ClassVar[str] = "nvprof"
    title: ClassVar[str] = "nvprof: summaries, --print-gpu-trace, --print-api-trace, --metrics, --events; CSV and text"

    def recognizes(self, head: Head) -> bool:
        return any(_is_own(item) for _, item in _items(enumerate(head.lines)))

    def read(self, source: Source, sink: Sink) -> None:
        base = _byte_base(Head(source, source.head()))
        reading = _Reading(sink, base)
        for offset, item in _items(source.lines(sink.lose)):
            reading.take(offset, item)
        reading.finish(source)


def _items(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Item]]:
    scanner = Scanner()
    for offset, line in lines:
        for item in scanner.scan(line):
            yield offset, item


def _is_own(item: Item) -> bool:
    if isinstance(item, Message):
        return any(words in item.text for words in _OWN_WORDS)
    return isinstance(item, Header) and item.kind != "calls"  # Start, Duration, Name stand in other files too


def _byte_base(head: Head) -> int | None:
    """How many bytes the KB of a trace are, by the beginning of the file; None where nothing tells."""
    found = units.ByteBase()
    for _, item in _items(enumerate(head.lines)):
        if not isinstance(item, Work):
            continue
        for text, unit in (item.static, item.dynamic):
            found.shared(text, unit)
        size, rate = (units.split_cell(text) for text, _ in (item.size, item.rate))
        duration = _time(item.duration)
        if size and rate and duration:
            found.copy((size[0], size[1] or item.size[1]), duration, (rate[0], rate[1] or item.rate[1]))
    return found.base


def _time(cell: Cell) -> int | None:
    """Nanoseconds of a cell; None where it holds no time."""
    found = _figure(cell, 1024)
    return units.whole_ns(found[0]) if found and found[1] == "ns" else None


def _figure(cell: Cell, base: int) -> tuple[float | None, str] | None:
    """Value and unit of a cell; None where it holds text."""
    try:
        return units.nvprof_cell(cell[0], base, cell[1])
    except units.NotANumberError:
        return None


def _whole(text: str, most: int = _MOST_INT32) -> int | None:
    """A whole number of a cell, None where it holds none or a greater one."""
    text = text.strip()
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else most + 1
    return number if number <= most else None


class _Reading:
    """One file: converts items, and writes them in batches."""

    def __init__(self, sink: Sink, base: int | None) -> None:
        self._sink = sink
        self._told, self._base = base is not None, base or 1024
        self._totals: list[Total] = []
        self._values: list[Value] = []
        self._work: list[Work] = []
        self._calls: list[Call] = []
        self._devices: dict[str, str] = {}
        self._messages: dict[str, None] = {}
        self._written = {"totals": 0, "counters": 0, "device": 0, "runtime": 0}
        self._first: int | None = None
        self._last = 0
        self._scaled = False

    def take(self, offset: int, item: Item) -> None:
        if isinstance(item, Damage):
            self._sink.lose("a row", item.why, offset=offset, repaired=item.repaired)
        elif isinstance(item, Message):
            self._message(item.text)
        elif isinstance(item, Total):
            self._totals.append(item)
        elif isinstance(item, Value):
            self._values.append(item)
        elif isinstance(item, Work):
            self._work.append(item)
        elif isinstance(item, Call):
            self._calls.append(item)
        if len(self._totals) + len(self._values) + len(self._work) + len(self._calls) >= _BATCH:
            self._flush()

    def _message(self, text: str) -> None:
        if not text.startswith(_TELLING):
            return
        invalid = _INVALID.search(text[:300])
        if invalid:
            self._sink.lose("a record", "nvprof gave it no valid time", count=int(invalid[1]))
        elif len(self._messages) < 16:
            self._messages[text[:300]] = None

    def _flush(self) -> None:
        self._write_totals()
        self._write_values()
        self._write_work()
        self._write_calls()

    # --- summaries -----------------------------------------------------------------------------------------------

    def _write_totals(self) -> None:
        rows = [row for row in map(self._total, self._totals) if row is not None]
        self._totals = []
        if rows:
            names = ("kind", "name", "calls", "total_ns", "mean_ns", "minimum_ns", "maximum_ns")
            self._sink.add("totals", TIMELINE, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
            self._written["totals"] += len(rows)

    def _total(self, item: Total) -> tuple[object, ...] | None:
        calls, (total, *spread) = _whole(item.calls, 1 << 53), [self._nanoseconds(cell) for cell in _times(item)]
        if not calls or total.value is None:
            self._sink.lose("a row of a summary", "its calls or its time cannot be read")
            return None
        found = agreed(calls, total, *spread)
        if found is None:
            self._sink.lose("a row of a summary", UNCONFIRMED)
            return None
        for column in found.left:
            self._sink.lose(f"the {column} time of a row of a summary", CONTRADICTED)
        return (item.kind, item.name, calls, total.value, found.mean, found.least, found.greatest)

    def _nanoseconds(self, cell: Cell) -> Printed:
        found, parts = _figure(cell, self._base), units.split_cell(cell[0])
        if not found or found[1] != "ns" or found[0] is None or found[0] < 0 or not parts:
            return NONE
        return printed(found[0], cell[0], units.nvprof_unit(parts[1] or cell[1], self._base).factor)

    # --- metrics -------------------------------------------------------------------------------------------------

    def _write_values(self) -> None:
        rows = [row for row in map(self._value, self._values) if row is not None]
        self._values = []
        if rows:
            names = ("name", "calls", "metric", "unit", "value", "minimum", "maximum")
            self._sink.add("counters", COUNTERS, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
            self._written["counters"] += len(rows)

    def _value(self, item: Value) -> tuple[object, ...] | None:
        calls, texts = _whole(item.calls, 1 << 62), (item.mean, item.least, item.greatest)
        found = [_figure((text, ""), self._base) for text in texts]
        if not calls or not item.metric or None in found:
            self._sink.lose("a row of metrics", "its invocations, its metric or a value cannot be read")
            return None
        seen = {unit for value, unit in filter(None, found) if value is not None}
        if len(seen) > 1:
            self._sink.lose("a row of metrics", "its values are in different units")
            return None
        self._device(item.device)
        self._scaled |= any(_KILO_BYTES.fullmatch(text) for text in texts)
        return (item.kernel, calls, item.metric, next(iter(seen), ""), *(pair[0] for pair in found if pair))

    # --- traces --------------------------------------------------------------------------------------------------

    def _write_work(self) -> None:
        items, self._work = [item for item in self._work if self._is_work(item)], []
        if not items:
            return
        timeline = self._sink.timeline()
        times = [_time(item.start) for item in items]
        durations = [_time(item.duration) or 0 for item in items]
        timeline.device(
            name=[timeline.name(item.name) for item in items],
            process=[0] * len(items),
            device=[timeline.name(self._device(item.device)) for item in items],
            stream=[_or_absent(_whole(item.stream)) for item in items],
            start=[_or_absent(time) for time in times],
            duration=durations,
            correlation=[_or_absent(_whole(item.correlation, 1 << 62)) for item in items],
            grid=[_extents(item.grid) for item in items],
            block=[_extents(item.block) for item in items],
            registers=[_or_absent(_whole(item.registers)) for item in items],
            shared_bytes=[_or_absent(self._shared(item)) for item in items],
            nbytes=[_or_absent(self._bytes(item.size)) for item in items],
        )
        self._written["device"] += len(items)
        self._span(times, durations)

    def _is_work(self, item: Work) -> bool:
        if "page fault" in item.name or (item.name.startswith("[Unified Memory") and not item.device):
            self._sink.lose("a record of unified memory", "it is no work of a device")
            return False
        if _time(item.duration) is None:
            self._sink.lose("a row of a trace", "its duration cannot be read")
            return False
        return True

    def _bytes(self, cell: Cell) -> int | None:
        """Bytes of a cell, to the printed digits."""
        found = _figure(cell, self._base)
        if found is None or found[0] is None or found[1] != "B":
            return None
        self._scaled |= cell[1] not in ("", "B") or cell[0].strip()[-2:-1] in tuple("KMGT")
        return units.whole_ns(found[0])

    def _shared(self, item: Work) -> int | None:
        parts = self._bytes(item.static), self._bytes(item.dynamic)
        return None if parts[0] is None or parts[1] is None else sum(part for part in parts if part is not None)

    def _write_calls(self) -> None:
        calls, self._calls = self._calls, []
        timed = [(call, _time(call.start), _time(call.duration)) for call in calls]
        sound = [(call, start, length) for call, start, length in timed if start is not None and length is not None]
        if len(sound) < len(calls):
            self._sink.lose("a row of a trace", "its times cannot be read", count=len(calls) - len(sound))
        if not sound:
            return
        timeline = self._sink.timeline()
        timeline.runtime(
            name=[timeline.name(call.name) for call, _, _ in sound],
            process=[0] * len(sound),
            thread=[0] * len(sound),
            start=[start for _, start, _ in sound],
            end=[start + length for _, start, length in sound],
            correlation=[_or_absent(_whole(call.correlation, 1 << 62)) for call, _, _ in sound],
        )
        self._written["runtime"] += len(sound)
        self._span([start for _, start, _ in sound], [length for _, _, length in sound])

    def _span(self, starts: Iterable[int | None], durations: Iterable[int]) -> None:
        for start, duration in zip(starts, durations, strict=True):
            if start is not None:
                self._first = start if self._first is None else min(start, self._first)
                self._last = max(self._last, start + duration)

    # --- the file ------------------------------------------------------------------------------------------------

    def _device(self, text: str) -> str:
        """Label of a device that the file names `Tesla V100-SXM2-16GB (0)`; traces as text cut such names."""
        known = self._devices.get(text)
        if known is None:
            found = _DEVICE.fullmatch(text) if len(text) < 256 else None
            known = f"cuda:{int(found[2])}" if found else UNKNOWN_DEVICE
            if len(self._devices) < 1024:
                self._devices[text] = known
        return known

    def finish(self, source: Source) -> None:
        self._flush()
        if not any(self._written.values()):
            said = " ".join(self._messages)
            why = f" nvprof wrote: {said}" if said else ""
            raise ReadError(
                f"{source.label} holds no kernel, call or metric of nvprof.{why}",
                "Profile again, and check that the program ran on a GPU and ended without an error.",
            )
        self._describe()
        for text in self._messages:
            self._sink.note(TIMELINE if self._written["counters"] == 0 else COUNTERS, f"nvprof wrote: {text}")

    def _describe(self) -> None:
        device = next(iter(self._devices.values()), UNKNOWN_DEVICE)
        seconds = 0.0 if self._first is None else (self._last - self._first) / 1e9
        if any(self._written[part] for part in ("totals", "device", "runtime")):
            self._sink.describe(TIMELINE, PassFacts(device=device, seconds=seconds, settings={"tool": "nvprof"}))
        if self._written["counters"]:
            self._sink.describe(COUNTERS, PassFacts(device=device, settings={"tool": "nvprof"}))
        if self._scaled and not self._told:
            self._sink.note(COUNTERS if self._written["counters"] else TIMELINE, units.KB_NOTE)
        named = {label: found[1] for text, label in self._devices.items() if (found := _DEVICE.fullmatch(text))}
        if named:
            self._sink.facts["gpus"] = [{"name": named[label]} for label in sorted(named)]


def _times(item: Total) -> tuple[Cell, Cell, Cell, Cell]:
    return item.time, item.mean, item.least, item.greatest


def _or_absent(value: int | None) -> int:
    return ABSENT if value is None else value


def _extents(words: tuple[str, ...]) -> list[int] | None:
    found = [_whole(word) for word in words]
    extents = [extent for extent in found if extent is not None]
    return extents if extents and len(extents) == len(found) else None
