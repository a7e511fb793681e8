"""Energy from samples of power and of energy counters: pure arithmetic over rows of table `power`.

The two ways to an energy disagree in practice, so both are given and neither is corrected by the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any


def integrate_energy(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Joules from power over time by the trapezoid rule, summed over the devices in the samples.

    A sample without power is skipped: the rule then goes straight from the reading before it to the one after it.
    Nothing is added before a device's first and after its last reading; `power_span_s` says how much time that
    leaves. None if any device has fewer than two readings, or no time between them: a sum that silently left a
    device out would be read as the total.
    """
    return _total(samples, _integral)


def counter_energy(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Joules by the devices' own energy counters, last reading minus first, summed over the devices.

    None if any device has fewer than two readings, or a counter that ran backward (the driver was reloaded
    meanwhile), or one that stood still: it ticks every 20 ms or slower, and no device runs on 0 J.
    """
    return _total(samples, _counted)


def power_span_s(samples: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds from the first reading of power to the last, of the device where that is shortest; or None."""
    spans = [_span(readings(rows, "watts")) for rows in _by_device(samples)]
    return min(spans, default=0.0) or None


def _total(
    samples: Iterable[Mapping[str, Any]], energy: Callable[[Sequence[Mapping[str, Any]]], float | None]
) -> float | None:
    parts = [energy(rows) for rows in _by_device(samples)]
    known = [part for part in parts if part is not None]
    return math.fsum(known) if known and len(known) == len(parts) else None


def _by_device(samples: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in samples:
        groups.setdefault(row["device"], []).append(row)
    return list(groups.values())


def _integral(rows: Sequence[Mapping[str, Any]]) -> float | None:
    power = readings(rows, "watts")
    if not _span(power) > 0:
        return None
    pairs = itertools.pairwise(power)
    return math.fsum((w0 + w1) / 2 * (t1 - t0) / 1e9 for (t0, w0), (t1, w1) in pairs)


def _counted(rows: Sequence[Mapping[str, Any]]) -> float | None:
    joules = [value for _, value in readings(rows, "energy_j")]
    backward = any(after < before for before, after in itertools.pairwise(joules))
    if len(joules) < 2 or backward or joules[0] == joules[-1]:
        return None
    return joules[-1] - joules[0]


def _span(series: Sequence[tuple[int, float]]) -> float:
    """Seconds; integers are subtracted first, for float64 holds epoch nanoseconds only to 256 ns."""
    return (series[-1][0] - series[0][0]) / 1e9 if series else 0.0


def readings(rows: Iterable[Mapping[str, Any]], column: str) -> list[tuple[int, float]]:
    """Time and value wherever there is a value, in order of time; a table read back may hold NaN for None."""
    found = [(int(row["time_ns"]), _number(row.get(column))) for row in rows]
    return sorted(((when, value) for when, value in found if value is not None), key=lambda reading: reading[0])


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None
