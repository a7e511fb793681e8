"""Launches that Nsight Compute profiled: their values, and the rows that are made of them.

One launch is one execution of a kernel, replayed until all its metrics are collected. A launch whose duration is known
is a row of `kernels` (pass `counters`); its values are rows of `counters` that point at it. Kernels need a duration, so
a launch without one has rows in `counters` only, with `kernel` null and `calls` 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wcbench.profilers.readers import units
from wcbench.profilers.readers.base import Lost, PassFacts, Sink

PASS = "counters"
UNKNOWN_DEVICE = "cuda"
"""Label of a GPU whose number the file does not tell."""

MEASURED = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "Duration")
DERIVED = (
    ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"),
    ("sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second"),
    ("Elapsed Cycles", "SM Frequency"),
)
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_SHARED = (
    ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
    ("Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"),
)
_BATCH, _MOST_VALUES = 1 << 14, 1 << 17
_KERNEL_COLUMNS = (
    *("name", "device", "stream", "duration_ns", "phase", "grid", "block"),
    *("registers", "shared_bytes"),
)
_COUNTER_COLUMNS = ("kernel", "name", "calls", "metric", "unit", "value", "minimum", "maximum")
_TRIPLE = re.compile(r"\(?\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)?", re.ASCII)


@dataclass
class Launch:
    """One launch as far as it was read.

    ``values`` maps (metric, unit) to the value in that unit of the record, None where the profiler has none: the
    details page gives one name to several metrics (`Memory Throughput` in % and in bytes per second).
    """

    name: str
    device: str = UNKNOWN_DEVICE
    stream: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    values: dict[tuple[str, str], float | None] = field(default_factory=dict)
    rounded: set[str] = field(default_factory=set)
    """Sizes printed in Kbyte and more, with two decimals."""

    def put(self, metric: str, value: float | None, unit: str, *, rounded: bool = False) -> bool:
        """Add a value; False where another one stands for the metric already, which is kept."""
        known = self.values.setdefault((metric, unit), value)
        if rounded:
            self.rounded.add(metric)
        return known == value

    def get(self, metric: str, *wanted: str) -> float | None:
        """The value of a metric in the first of these units that has one."""
        found = (self.values.get((metric, unit)) for unit in wanted)
        return next((value for value in found if value is not None), None)

    def duration(self) -> tuple[int | None, bool]:
        """Nanoseconds, and whether they are derived: cycles / (cycles per second)."""
        for metric in MEASURED:
            found = units.whole_ns(self.get(metric, "ns"))
            if found is not None:
                return found, False
        for cycles, rate in DERIVED:
            count, hertz = self.get(cycles, "cycle", ""), self.get(rate, "Hz")
            if count is not None and hertz:
                return units.whole_ns(count / hertz * 1e9), True
        return None, False

    def registers(self) -> int | None:
        """Registers per thread."""
        found = (units.whole(self.get(name, "register/thread", "")) for name in _REGISTERS)
        return next((count for count in found if count is not None), None)

    def shared_bytes(self) -> int | None:
        """Static and dynamic shared memory per block; None where the file tells but one, or not to the byte."""
        for names in _SHARED:
            if self.rounded.intersection(names):
                continue
            parts = [self.get(name, "B/block", "B") for name in names]
            if None not in parts:
                return units.whole(round(sum(part for part in parts if part is not None), 6))
        return None


def triple(text: str) -> list[int] | None:
    """Extents as `(864, 1, 1)`; None for other texts."""
    found = _TRIPLE.fullmatch(text.strip()[:80])
    return [int(part) for part in found.groups()] if found else None


@dataclass(frozen=True)
class Cells:
    """Puts cells of a file into launches; ``mark`` is the file's decimal mark."""

    mark: str
    lose: Lost

    def number(self, cell: str) -> tuple[bool, float | None]:
        """Whether a cell holds a number or none, and the number; text is told to ``lose``."""
        try:
            return True, units.number(cell, self.mark)
        except units.NotANumberError:
            self.lose("a value", "it is text, not a number")
            return False, None

    def put(self, launch: Launch, metric: str, unit: str, cell: str) -> None:
        """Put a cell of the file into a launch, converted; text and contradictions are told to ``lose``."""
        holds, value = self.number(cell)
        if not holds:
            return
        if len(launch.values) >= _MOST_VALUES:
            self.lose("a value", "its launch has more of them than are kept")
            return
        known = units.ncu_unit(unit)
        scaled = None if value is None else value * known.factor
        rounded = known.name.startswith("B") and known.factor > 1 and bool(value)
        if not launch.put(metric, scaled, known.name, rounded=rounded):
            self.lose("a value", "its launch has another value of the same metric, which is kept")


def plain_number(text: str) -> int | None:
    """A stream's or device's number; None where there is none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def device_label(text: str) -> str:
    number = plain_number(text)
    return UNKNOWN_DEVICE if number is None else f"cuda:{number}"


class Launches:
    """Turns launches into rows, in batches, and says at the end what is derived or missing."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kernels, self._counters = _columns(_KERNEL_COLUMNS), _columns(_COUNTER_COLUMNS)
        self.devices: dict[str, None] = {}
        self.count = self.derived = self.timeless = self.values = 0

    @property
    def empty(self) -> bool:
        return not self.count and not self.values

    def add(self, launch: Launch) -> None:
        """A whole launch: nothing more of it may come."""
        self.count += 1
        if len(self.devices) < 64:
            self.devices[launch.device] = None
        duration, derived = launch.duration()
        self.derived += derived
        self.timeless += duration is None
        row = self._kernel(launch, duration) if duration is not None else None
        self._values(launch, row)
        if len(self._kernels["name"]) >= _BATCH or len(self._counters["name"]) >= _BATCH:
            self._flush()

    def _values(self, launch: Launch, row: int | None) -> None:
        many, columns = len(launch.values), self._counters
        self.values += many
        columns["kernel"].extend([row] * many)
        columns["name"].extend([launch.name] * many)
        columns["calls"].extend([1 if row is None else None] * many)
        columns["metric"].extend([metric for metric, _ in launch.values])
        columns["unit"].extend([unit for _, unit in launch.values])
        columns["value"].extend(launch.values.values())
        for bound in ("minimum", "maximum"):
            columns[bound].extend([None] * many)

    def summed(self, name: str, metric: str, unit: str, calls: int, found: Sequence[float | None]) -> None:
        """Mean, least and greatest value of ``calls`` launches together."""
        self.values += 1
        mean, least, greatest = found
        row = (None, name, calls, metric, unit, mean, least, greatest)
        for column, value in zip(self._counters.values(), row, strict=True):
            column.append(value)
        if len(self._counters["name"]) >= _BATCH:
            self._flush()

    def _kernel(self, launch: Launch, duration: int) -> int:
        row = (
            launch.name,
            launch.device,
            launch.stream,
            duration,
            "other",
            launch.grid,
            launch.block,
            launch.registers(),
            launch.shared_bytes(),
        )
        for column, value in zip(self._kernels.values(), row, strict=True):
            column.append(value)
        return self._sink.rows.get("kernels", 0) + len(self._kernels["name"]) - 1

    def _flush(self) -> None:
        self._sink.add("kernels", PASS, self._kernels)
        self._sink.add("counters", PASS, self._counters)
        self._kernels, self._counters = _columns(_KERNEL_COLUMNS), _columns(_COUNTER_COLUMNS)

    def finish(self, settings: Mapping[str, object]) -> None:
        """Write what is left, describe the pass, and note what a reader of the figures must know."""
        self._flush()
        device = next(iter(self.devices), UNKNOWN_DEVICE)
        self._sink.describe(PASS, PassFacts(device=device, settings=dict(settings)))
        if self.derived:
            self._sink.note(
                PASS,
                f"{self.derived} of {self.count} launches have no measured duration: it is derived from elapsed cycles "
                "and cycles per second.",
            )
        if self.timeless:
            self._sink.note(
                PASS,
                f"{self.timeless} of {self.count} launches have no duration (collect gpu__time_duration.sum): they are "
                "in table counters, not in table kernels.",
            )


def _columns(names: Sequence[str]) -> dict[str, list[object]]:
    return {name: [] for name in names}
