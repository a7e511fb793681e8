"""Sums by name whose columns contradict each other: a profiler's row of units that lies, a spreadsheet's rounding.

The mean lies between the least and the greatest time, and times the number of calls it is the total. What two columns
agree on is kept; what contradicts them is left empty, and told. A total that the others contradict makes no row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECIMALS = {mark: re.compile(rf"{re.escape(mark)}(\d{{1,40}})", re.ASCII) for mark in ".,"}
_POWER = re.compile(r"[eE]([+-]?\d{1,3})", re.ASCII)
_SLACK = 1e-6


@dataclass(frozen=True)
class Printed:
    """A time in ns as it was printed: ``step`` is one of its last digit. The value is None where there is none."""

    value: float | None = None
    step: float = 0.0

    def below(self, other: Printed) -> bool:
        """Whether it is less or the same, as far as the digits tell; also where one of the two is not known."""
        if self.value is None or other.value is None:
            return True
        return self.value <= other.value * (1 + _SLACK) + self.step + other.step

    def times(self, factor: float) -> Printed:
        return Printed(None if self.value is None else self.value * factor, self.step * factor)

    def plus(self, other: Printed) -> Printed:
        value = None if self.value is None or other.value is None else self.value + other.value
        return Printed(value, self.step + other.step)


NONE = Printed()


def printed(value: float | None, text: str, scale: float, mark: str = ".") -> Printed:
    """A time of ``value`` ns that stands as ``text`` in a unit of ``scale`` ns."""
    decimals, power = _DECIMALS[mark].search(text), _POWER.search(text)
    digits = (int(power[1]) if power else 0) - (len(decimals[1]) if decimals else 0)
    return Printed(value, scale * 10.0 ** max(-300, min(digits, 200)) if value is not None else 0.0)


@dataclass(frozen=True)
class Sums:
    """The times of one row that do not contradict each other; ``left`` names those that were left out."""

    mean: float | None
    least: float | None
    greatest: float | None
    median: float | None
    deviation: float | None
    left: tuple[str, ...] = ()


def agreed(
    calls: int,
    total: Printed,
    mean: Printed,
    least: Printed,
    greatest: Printed,
    *,
    median: Printed = NONE,
    deviation: Printed = NONE,
) -> Sums | None:
    """What of a row can stand beside its total; None where nothing confirms the total, or the rest contradicts it."""
    each = total.times(1 / calls)
    if not (each.below(mean) and mean.below(each)):
        if least.value is None or greatest.value is None or not _between(least, each, greatest):
            return None
        if _between(least, mean, greatest):
            return None
        mean, left = NONE, ["mean"]
    elif mean.value is None and not _between(least, each, greatest):
        return None
    else:
        left = []
    if not least.below(each):
        least, left = NONE, [*left, "least"]
    if not each.below(greatest) or not greatest.below(total):
        greatest, left = NONE, [*left, "greatest"]
    if not _add_up(calls, total, least, greatest):
        least, greatest, left = NONE, NONE, [*left, "least", "greatest"]
    if not _between(least, median, greatest):
        median, left = NONE, [*left, "median"]
    if not deviation.plus(least).below(greatest):
        deviation, left = NONE, [*left, "deviation"]
    return Sums(mean.value, least.value, greatest.value, median.value, deviation.value, tuple(left))


def _between(least: Printed, middle: Printed, greatest: Printed) -> bool:
    return least.below(middle) and middle.below(greatest)


def _add_up(calls: int, total: Printed, least: Printed, greatest: Printed) -> bool:
    """Whether the total can hold both: one call takes the least time, another the greatest, the rest lie between."""
    if calls == 1:
        return least.below(greatest) and greatest.below(least)
    lowest, highest = greatest.plus(least.times(calls - 1)), least.plus(greatest.times(calls - 1))
    return lowest.below(total) and total.below(highest)


CONTRADICTED = "it contradicts the other columns of its row, and is left empty"
UNCONFIRMED = "its total is not its calls times its mean, or not within its least and greatest time"
