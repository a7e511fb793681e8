"""Columns of numbers as foreign files give them: integers, floats, texts, nothing, nonsense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LIMIT = 1 << 62
_LATEST = (1 << 61) // 1000
"""Microseconds (73 years): a start, the base that it counts from and a duration together are still an int64 of ns."""
NO_TIME = -(1 << 63)
"""In a column of nanoseconds: no time, or one beyond what a clock tells."""
EXACT_US = float(1 << 43)
"""Microseconds up to which a float64 tells nanoseconds exactly (8.8e12; from the epoch it is 1.8e15)."""


def _column(values: Sequence[Any]) -> NDArray[Any]:
    try:
        return np.array(values)
    except (ValueError, OverflowError, TypeError):
        return np.array([*values, None], dtype=object)[:-1]  # never an array of lists


def whole(values: Sequence[Any], absent: int = -1) -> NDArray[np.int64]:
    """Whole numbers; ``absent`` for what is none (None, texts that are no number, fractions, beyond int64)."""
    column = _column(values)
    if column.dtype.kind == "i" and column.ndim == 1:
        return column.astype(np.int64, copy=False)
    return np.array([_whole(value, absent) for value in values], np.int64)


def _whole(value: Any, absent: int) -> int:
    if type(value) is str:
        try:
            value = int(value) if len(value) < 20 else absent
        except ValueError:
            return absent
    if type(value) is float and math.isfinite(value) and value == int(value):
        value = int(value)
    return value if type(value) is int and -_LIMIT < value < _LIMIT else absent


def nanoseconds(values: Sequence[Any]) -> NDArray[np.int64]:
    """Microseconds as nanoseconds, rounded to the nearest; NO_TIME for what is no number of a clock.

    Texts and Decimals are exact; a float of more than EXACT_US has already lost its nanoseconds.
    """
    column = _column(values)
    plain = column.ndim == 1 and column.size > 0
    if column.dtype.kind == "i" and plain and column.min() > -_LATEST and column.max() < _LATEST:
        return column.astype(np.int64) * 1000
    if column.dtype.kind == "f" and plain:
        low, high = column.min(), column.max()  # NaN compares false
        if low > -EXACT_US and high < EXACT_US:
            return np.rint(np.asarray(column, np.float64) * 1000).astype(np.int64)
    return np.array([_nanoseconds(value) for value in values], np.int64)


def _nanoseconds(value: Any) -> int:
    if type(value) is int:
        return value * 1000 if abs(value) < _LATEST else NO_TIME
    try:
        exact = Decimal(value) if isinstance(value, str | float | Decimal) else None
        if exact is None or not exact.is_finite() or abs(exact) >= _LATEST:
            return NO_TIME
        return int((exact * 1000).to_integral_value())
    except (InvalidOperation, ValueError):
        return NO_TIME
