"""Differences between two raw values in words with units."""

from __future__ import annotations

import math

import pandas as pd

from wcbench.analysis.recipe import Coordinate
from wcbench.analysis.scales import LOGS

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_OWN_PREFIX = ("us", "s")


def quantity(value: float, unit: str) -> str:
    """A value to three digits with its unit; shares in per cent, large ones with a prefix of 1000s (1.23 MB)."""
    if math.isnan(value):
        return "not measured"
    if unit == "fraction":
        return f"{value:.3g}" if 0 < abs(value) < 1e-4 else f"{100 * value:.3g} %"
    size, power = abs(value), 0
    while size >= 999.5 and power < len(_PREFIXES) - 1 and unit not in _OWN_PREFIX:
        size, power = size / 1000, power + 1
    word = "" if unit == "count" else unit
    joined = word if word.startswith(("B", "FLOP", "J")) else f" {word}" if power else word  # 12 MB, but 12 M samples
    return f"{math.copysign(size, value):.3g} {_PREFIXES[power]}{joined}".rstrip()


def apart(c: Coordinate, value: float, other: float, whose: str) -> str:
    """How a value differs from another workload's: a factor where the coordinate is a logarithm, both values always."""
    both = f"{quantity(value, c.unit)} against {quantity(other, c.unit)}"
    held = _held(c, value, other)
    if c.transform in LOGS:
        floor = c.floor or 0.0
        factor = max(value, floor) / max(other, floor)
        return f"{c.name}: {_factor(factor)} {whose} ({both}{held})"
    return f"{c.name}: {both} of {whose}{f' ({held[2:]})' if held else ''}"


def _factor(factor: float) -> str:
    """In words: 4.1 times that of, a fifth as 1/5 of that of."""
    if abs(factor - 1) < 0.005:
        return "the same as that of"
    if factor > 1:
        return f"{_short(factor)} times that of"
    return f"1/{_short(1 / factor)} of that of"


def _short(factor: float) -> str:
    """1.23, 12.3, 123, 1,230, 12,000."""
    if factor < 1000:
        return f"{factor:.3g}"
    return f"{float(f'{factor:.3g}' if factor < 1e4 else f'{factor:.2g}'):,.0f}"


def _held(c: Coordinate, value: float, other: float) -> str:
    """Words where one of the values counts as the detection limit."""
    if c.floor is None or min(value, other) >= c.floor:
        return ""
    return f"; below {quantity(c.floor, c.unit)} counts as that" if c.transform != "clr" else (
        f"; below {quantity(c.floor, c.unit)} is replaced")  # fmt: skip


def beyond(c: Coordinate, value: float, known: pd.Series) -> str:
    """Words where the value lies past all of the reference's, by more than rounding."""
    least, most = float(known.min()), float(known.max())
    if value > most + 1e-9 * abs(most):
        return f"more than any workload of the reference (up to {quantity(most, c.unit)})"
    if value < least - 1e-9 * abs(least):
        return f"less than any workload of the reference (from {quantity(least, c.unit)})"
    return ""
