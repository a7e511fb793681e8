"""Per-step quantities as straight lines in the number of samples: a fixed and a per-sample part, with the error.

A batch size is a knob, not a property: between 1 and 65,536 in the suites. A task is therefore counted at b, 2b and 4b
(`Request.factors`), and each quantity is split by a least-squares line. Where a sequence is too long to unroll, this is
done at two short lengths, and both parts are continued on the straight line through them (`Task.unrolled`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wcbench.profilers.base import Columns
from wcbench.profilers.formulas import Work
from wcbench.profilers.recorder import Stream

WHOLE_STEP = "all"
LEAST = 3
"""Batches of which a line has an error; on fewer it always fits."""
_DUST = 1e-9  # of the greatest value: what rounding leaves of a part that is not there
UNITS = {
    "flops_matrix": "FLOP",
    "flops_all": "FLOP",
    "bytes_read": "B",
    "bytes_written": "B",
    "calls": "calls",
    "live_peak_bytes": "B",
}

Key = tuple[str, str, str]  # kind, phase, quantity
Totals = Mapping[Key, int]


@dataclass(frozen=True)
class Point:
    """Totals of one counted configuration."""

    length: int | None
    samples: int
    totals: Totals
    kind_samples: Mapping[str, int] = field(default_factory=dict)  # of kinds that consume another number


def totals(stream: Stream, done: Sequence[Work]) -> dict[Key, int]:
    """Quantities of the last recorded step of each kind, by phase and for the whole step."""
    last = {kind: step for step, kind in sorted(stream.kinds.items())}
    found: dict[Key, int] = defaultdict(int)
    for call, work in zip(stream.calls, done, strict=True):
        kind = stream.kinds[call.step]
        if last[kind] != call.step:
            continue
        for phase in (call.phase, WHOLE_STEP):
            found[kind, phase, "flops_matrix"] += work.flops_matrix if work.covered else 0
            found[kind, phase, "flops_all"] += work.flops_all if work.covered else 0
            found[kind, phase, "bytes_read"] += work.bytes_read
            found[kind, phase, "bytes_written"] += work.bytes_written
            found[kind, phase, "calls"] += 1
    for kind, step in last.items():
        found[kind, WHOLE_STEP, "live_peak_bytes"] = live_peak(stream, step)
    return dict(found)


def live_peak(stream: Stream, step: int) -> int:
    """Most bytes of storages that are alive at one operator of a step."""
    places = [place for place, call in enumerate(stream.calls) if call.step == step]
    if not places:
        return 0
    first, end = places[0], places[-1] + 1
    change = np.zeros(end - first + 1, np.int64)
    for note in stream.storages.values():
        born = min(max(first if note.born is None else note.born, first), end)
        died = min(max(end if note.died is None else note.died, first), end)
        change[born - first] += note.nbytes
        change[max(died, born) - first] -= note.nbytes
    return int(np.cumsum(change)[:-1].max())


def scaling_columns(points: Sequence[Point], target: int | None) -> tuple[Columns, list[str]]:
    """Columns of table `scaling` from counted points, and what is doubtful.

    ``target`` is the length to continue to, None for none. A kind of step that some points lack has no line.
    """
    rows: list[dict[str, Any]] = []
    everywhere = set.intersection(*({key[0] for key in point.totals} for point in points))
    lengths = sorted({point.length for point in points}, key=lambda length: length or 0)
    keys = dict.fromkeys(key for point in points for key in point.totals if key[0] in everywhere)
    lost = sorted({key[0] for point in points for key in point.totals} - everywhere)
    for key in keys:
        fitted = [_fitted(key, length, [p for p in points if p.length == length]) for length in lengths]
        rows += fitted
        if target is not None:
            rows.append(_continued(fitted, target))
    text = f"Steps of the kind {', '.join(lost)} occur at some batch sizes only: table scaling has no line."
    doubts = [text] if lost else []
    return ({name: [row[name] for row in rows] for name in rows[0]} if rows else {}), doubts


def fit(samples: Sequence[int], values: Sequence[int]) -> tuple[float, float, float]:
    """(fixed, per sample, greatest relative error) of the least-squares line; the error is of the recorded values.

    Two points always lie on a line, which tells no error: it is NaN.
    """
    x, y = np.asarray(samples, np.float64), np.asarray(values, np.float64)
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread else 0.0
    fixed = float(y.mean() - slope * x.mean())
    least = _DUST * float(np.abs(y).max())
    fixed = 0.0 if abs(fixed) < least else fixed
    slope = 0.0 if abs(slope) * float(x.max()) < least else slope
    off = np.abs(fixed + slope * x - y)
    error = float((off / np.maximum(np.abs(y), 1.0)).max())
    if len(set(samples)) < LEAST:
        return fixed, slope, math.nan
    return fixed, slope, error if error > _DUST else 0.0


def _fitted(key: Key, length: int | None, points: Sequence[Point]) -> dict[str, Any]:
    samples = [point.kind_samples.get(key[0], point.samples) for point in points]
    values = [point.totals.get(key, 0) for point in points]
    fixed, per_sample, error = fit(samples, values)
    return {**_row(key, length), "recorded": True, "fixed": fixed, "per_sample": per_sample, "error": error} | {
        "samples": samples,
        "values": values,
    }


def _continued(fitted: Sequence[Mapping[str, Any]], target: int) -> dict[str, Any]:
    """The row at a longer length, each part on the line through those at the two shorter ones."""
    short, long = fitted[0], fitted[-1]
    share = (target - short["length"]) / (long["length"] - short["length"])
    parts = {name: short[name] + share * (long[name] - short[name]) for name in ("fixed", "per_sample")}
    key = (short["kind"], short["phase"], short["quantity"])
    error = max(row["error"] for row in fitted)
    return {**_row(key, target), "recorded": False, **parts, "error": error, "samples": long["samples"], "values": []}


def _row(key: Key, length: int | None) -> dict[str, Any]:
    kind, phase, quantity = key
    return {"kind": kind, "phase": phase, "quantity": quantity, "unit": UNITS[quantity], "length": length}
