"""Axes of a study's figures: limits, ticks and their texts for any finite values, linear or logarithmic.

A log axis has no place for 0, and studies hold many (a share of FLOPs in convolutions is 0 in a language model). Zeros
get a place of their own at the low end, parted from the scale by a line and named "0".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.ticker import MaxNLocator

from wcbench.reports import format as fmt
from wcbench.reports.canvas import FONT, trimmed
from wcbench.reports.figure_data import Axis
from wcbench.reports.palette import GRID

_FACTORS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_BASE = {"time_ns": 1e-9, "time_ms": 1e-3, "time_s": 1.0}
_SI = "kMGTPE"
_IEC = "KMGTP"
_MARGIN = 0.05
MOST_DRAWN = 1e302
"""Beyond it, arithmetic on an axis would leave the range of floats; what is below its inverse counts as 0."""
_TINY, _HUGE = 1e-4, 1e18
"""Beyond these, numbers are written with an exponent whatever their unit."""


@dataclass(frozen=True)
class Scale:
    """One axis, ready to draw: its limits, where its ticks stand, what is written there, and its title."""

    title: str
    log: bool
    low: float
    high: float
    ticks: tuple[float, ...]
    texts: tuple[str, ...]
    zero: float | None = None
    """Where zeros stand on a log axis that has any."""

    def place(self, value: float | None) -> float | None:
        """Where a value stands, or None where the axis has no place for it (not finite, below 0 on a log axis)."""
        if value is None or not abs(value) <= MOST_DRAWN:
            return None
        if not self.log:
            return value
        return value if value >= 1 / MOST_DRAWN else self.zero if value >= 0 else None

    def pixel(self, value: float, length: float) -> float:
        """The distance of a placed value from the low end of an axis of ``length`` pixels."""
        if not self.log:  # halves, since the distance between -1e308 and 1e308 is no float
            return length * (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        low = math.log(self.low)
        return length * (math.log(value) - low) / (math.log(self.high) - low)

    def apply(self, axis: Any) -> None:
        """Set up a matplotlib axis (``axes.xaxis`` or ``axes.yaxis``)."""
        name = axis.axis_name
        getattr(axis.axes, f"set_{name}scale")("log" if self.log else "linear")
        getattr(axis.axes, f"set_{name}lim")(self.low, self.high)
        axis.set_ticks(self.ticks, self.texts, fontsize=FONT, parse_math=False)
        axis.set_ticks([], minor=True)
        if self.zero is not None:
            edge = math.sqrt(self.zero) * math.sqrt(min(tick for tick in (*self.ticks, self.high) if tick > self.zero))
            draw = axis.axes.axvline if name == "x" else axis.axes.axhline
            draw(edge, color=GRID, linewidth=1.2, linestyle=(0, (2, 2)), zorder=0)


def scale(
    axis: Axis,
    values: Iterable[float | None],
    most: int,
    *,
    around: Sequence[float] = (),
    limits: tuple[float, float] | None = None,
) -> Scale:
    """An axis for some values; without any it has no ticks.

    Parameters
    ----------
    most : how many ticks there is room for.
    around : values that shall be on the axis although nothing is drawn there (a reference line).
    limits : of a linear axis, where they shall not follow from the values.
    """
    known = [float(value) for value in values if value is not None and abs(value) <= MOST_DRAWN]
    if not [value for value in known if value >= 0 or not axis.log]:
        return Scale(_titled(axis, ""), axis.log, 1.0, 10.0, (), ())
    known += [value for value in around if abs(value) <= MOST_DRAWN]
    if axis.log:
        return _log(axis, known, max(2, most))
    return _linear(axis, limits or limits_of(known), max(2, most))


# --- linear -------------------------------------------------------------------------------------------------------


def _linear(axis: Axis, limits: tuple[float, float], most: int) -> Scale:
    low, high = limits
    ticks = _round_values(low, high, most)
    largest = max((abs(tick) for tick in ticks), default=0.0)
    unit, factor = unit_of(axis, largest)
    texts = _alike([tick / factor for tick in ticks]) if axis.kind != "share" else _percents(ticks)
    return Scale(_titled(axis, unit), False, low, high, tuple(ticks), tuple(texts))


def limits_of(values: Sequence[float]) -> tuple[float, float]:
    """A margin around the values; an interval around a single one."""
    low, high = min(values), max(values)
    room = _MARGIN * (high - low) or 0.5 * abs(high) or 0.5
    if high - low < 1e-12 * max(abs(low), abs(high)):
        room = 0.5 * abs(high)
    return low - room, high + room


def _round_values(low: float, high: float, most: int) -> list[float]:
    """Round numbers between the limits, found at a size at which matplotlib's arithmetic is exact."""
    power = 10.0 ** min(300, max(-300, math.floor(math.log10(max(abs(low), abs(high))))))
    values = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low / power, high / power)
    return [float(value) * power for value in values if low <= value * power <= high]


def _alike(values: Sequence[float]) -> list[str]:
    """Numbers with as many decimals as the distance between them needs."""
    largest = max((abs(value) for value in values), default=0.0)
    step = min((after - before for before, after in itertools.pairwise(values)), default=0.0) or largest
    if largest and (largest < _TINY or largest >= 1e9):
        digits = min(15, max(0, math.ceil(math.log10(largest / step) - 1e-9)) if step else 2)
        return [f"{value:.{digits}e}" if value else "0" for value in values]
    places = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    return [f"{value:,.{places}f}".replace("-", "−") if value else "0" for value in values]


def _percents(values: Sequence[float]) -> list[str]:
    return [f"{text} %" for text in _alike([round(100 * value, 12) for value in values])]


# --- logarithmic --------------------------------------------------------------------------------------------------


def _log(axis: Axis, values: Sequence[float], most: int) -> Scale:
    positive = [value for value in values if value >= 1 / MOST_DRAWN]
    low, high = (math.log10(min(positive)), math.log10(max(positive))) if positive else (0.0, 1.0)
    room = _MARGIN * (high - low) or 0.15
    low, high = max(low - room, -303.0), min(high + room, 303.0)
    ticks = _log_ticks(axis, low, high, most)
    zero = None
    if any(0 <= value < 1 / MOST_DRAWN for value in values):
        gap = min(max(0.07 * (high - low), 0.05), (low + 307) / 2)
        zero, low = 10 ** (low - gap), low - 2 * gap
    texts = [tick_text(tick, axis) for tick in ticks]
    places = (ticks, texts) if zero is None else ([zero, *ticks], ["0", *texts])
    return Scale(_titled(axis, axis.unit), True, 10.0**low, 10.0**high, tuple(places[0]), tuple(places[1]), zero)


def _log_ticks(axis: Axis, low: float, high: float, most: int) -> list[float]:
    """Powers of ten (of two for bytes) at an even distance; 1, 2, 5 between them, or round numbers, on short axes."""
    base = math.log10(2) if axis.kind in ("bytes", "bytes_each") else 1.0
    first, last = math.ceil(low / base), math.floor(high / base)
    count = last - first + 1
    if base == 1.0 and count < 3:
        return _between(low, high, most)
    step = max(1, math.ceil(count / most))
    step = next((nice for nice in (1, 2, 3, 5, 10, 20, 50, 100) if nice >= step), 200)
    exponents = [exponent for exponent in range(first, last + 1) if exponent % step == 0] or [first]
    return [2.0**exponent if base < 1 else float(f"1e{exponent}") for exponent in exponents]


def _between(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(low), math.ceil(high) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
        found = [value for value in found if 10**low <= value <= 10**high]
        if len(found) <= most:
            break
    if len(found) > 2 or (len(found) > 1 and high - low >= 1):
        return found
    return _apart(_round_values(10**low, 10**high, most), (high - low) / (1.4 * most))


def _apart(values: Sequence[float], decades: float) -> list[float]:
    """Values without those that come too close to the one before; on a log axis round numbers crowd at its end."""
    kept: list[float] = []
    for value in values:
        if not kept or math.log10(value) - math.log10(kept[-1]) >= decades:
            kept.append(value)
    return kept


# --- texts --------------------------------------------------------------------------------------------------------


def _titled(axis: Axis, unit: str) -> str:
    return f"{axis.title} ({unit})" if unit else axis.title


def unit_of(axis: Axis, largest: float) -> tuple[str, float]:
    """The unit in which values up to ``largest`` are readable, and what they are divided by."""
    kind = {"si_each": "si", "bytes_each": "bytes"}.get(axis.kind, axis.kind)
    if kind == "share" or (largest and not _TINY <= largest < 1e20):
        return ("" if kind == "share" else {"time_ns": "ns", "time_ms": "ms", "time_s": "s"}.get(kind, axis.unit)), 1.0
    unit = fmt.column([largest], kind, axis.unit).unit  # type: ignore[arg-type]
    if kind in _BASE:
        return unit, _FACTORS[unit] / _BASE[kind]
    if kind == "si":
        prefix = unit.removesuffix(axis.unit) if axis.unit else unit
        return unit, 1000.0 ** (_SI.index(prefix) + 1 if prefix else 0)
    if kind == "bytes":
        return unit, 1024.0 ** (_IEC.index(unit[0]) + 1 if unit != "B" else 0)
    return axis.unit, 1.0


def tick_text(value: float, axis: Axis) -> str:
    """A value on a log axis, without zeros that say nothing, its unit left to the title where it has a prefix only."""
    if axis.kind == "share":
        return f"{trimmed(fmt.number(100 * value))} %"
    if value and not _TINY <= abs(value) < _HUGE:
        return trimmed(fmt.number(value))
    if axis.kind in ("si", "si_each"):
        return trimmed(fmt.si(value))
    return trimmed(fmt.show(value, axis.kind)) if axis.kind != "count" else trimmed(fmt.number(value))


def said(value: float | None, axis: Axis) -> str:
    """A value by itself with its unit, also where it is too small or too large for any prefix."""
    if value is not None and math.isfinite(value) and value and not _TINY <= abs(value) < _HUGE:
        return f"{fmt.number(value)} {axis.unit}".strip()
    return fmt.show(value, axis.kind, axis.unit)
