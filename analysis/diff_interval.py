"""Medians with intervals, and the interval of their ratio: order statistics and MOVER, without a random number.

The interval of one median lies between two order statistics, whatever the distribution; between the two nearest ones
it is interpolated so that it holds 95 % (Hettmansperger and Sheather 1986, Statistics & Probability Letters 4:75).
Intervals of independent medians are put together by MOVER, the method of variance estimates recovery (Zou and Donner
2008, Statistics in Medicine 27:1693): for a ratio on the logarithm, for a weighed sum on the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

LEVEL = 0.95
LEAST = 6
"""With fewer values no two order statistics hold the median with 95 %: five give 93.75 %."""


@dataclass(frozen=True)
class Middle:
    """A median (or a weighed sum of medians) with its interval; None where values are too few for one."""

    value: float
    low: float | None
    high: float | None


def middle(values: Sequence[float]) -> Middle:
    """The median of at least one value, with its 95 % interval."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n, value = len(ordered), float(np.median(ordered))
    if n < LEAST:
        return Middle(value, None, None)
    k = int(binom.ppf((1 - LEVEL) / 2, n, 0.5))  # the interval from the k-th to the (n - k + 1)-th holds at least 95 %
    outer, inner = (1 - 2 * float(binom.cdf(place - 1, n, 0.5)) for place in (k, k + 1))
    share = (outer - LEVEL) / (outer - inner)
    weight = (n - k) * share / (k + (n - 2 * k) * share)
    low = (1 - weight) * ordered[k - 1] + weight * ordered[k]
    high = (1 - weight) * ordered[n - k] + weight * ordered[n - k - 1]
    return Middle(value, float(low), float(high))


def weighed(parts: Mapping[str, Middle], shares: Mapping[str, float]) -> Middle:
    """The sum of medians of kinds of steps, each weighed by its share of all steps."""
    value = sum(shares[kind] * part.value for kind, part in parts.items())
    if any(part.low is None for part in parts.values()):
        return Middle(value, None, None)
    below = math.hypot(*(shares[kind] * (part.value - (part.low or 0)) for kind, part in parts.items()))
    above = math.hypot(*(shares[kind] * ((part.high or 0) - part.value) for kind, part in parts.items()))
    return Middle(value, value - below, value + above)


def ratio(a: Middle, b: Middle) -> tuple[float | None, float | None, float | None]:
    """b / a with the ends of its 95 % interval; None where it has no value, or too few values for an interval."""
    if a.value <= 0 or b.value <= 0:
        return None, None, None
    found = b.value / a.value
    if a.low is None or a.high is None or b.low is None or b.high is None or a.low <= 0 or b.low <= 0:
        return found, None, None
    below = math.hypot(math.log(b.value / b.low), math.log(a.high / a.value))
    above = math.hypot(math.log(b.high / b.value), math.log(a.value / a.low))
    return found, found * math.exp(-below), found * math.exp(above)
