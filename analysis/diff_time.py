"""The time of a step of two profiles, with intervals, and of what it is: of a step, or of a sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from wcbench.analysis.diff_interval import LEAST, Middle, middle, ratio, weighed

Summary = Mapping[str, Any]
Sides = tuple[float | None, float | None]


def main_pass(summary: Summary) -> tuple[str, Mapping[str, Any]]:
    """The pass whose times count, with its name: timing; of an imported record its timeline; else the first."""
    passes: Mapping[str, Mapping[str, Any]] = summary["passes"]
    name = next((name for name in ("timing", "timeline") if name in passes), next(iter(passes), ""))
    return name, passes.get(name, {})


def step_samples(summary: Summary, passname: str | None = None) -> float | None:
    """Samples of a step of a pass, by default of the one whose times count; where kinds of steps differ in samples,
    those of the average step behind its median, and None where no such step was timed."""
    info = main_pass(summary)[1] if passname is None else summary["passes"].get(passname) or {}
    if not info.get("kind_samples"):
        return info.get("samples")
    rate, step = info.get("samples_per_s"), info.get("step_ms_median")
    return None if passname is not None or not rate or not step else round(rate * step / 1e3, 9)


def per_of(a: float | None, b: float | None) -> tuple[str, tuple[float, float]]:
    """ "sample" with what to divide each one's amounts by where samples of a step are known and differ, else "step"."""
    return ("sample", (float(a), float(b))) if a and b and a != b else ("step", (1.0, 1.0))


def time(a: Summary, b: Summary) -> dict[str, Any]:
    """Medians in ms a step with 95 % intervals, and B / A: per sample where samples differ (docs/diff.md)."""
    sides = (_step(a), _step(b))
    per, divisors = per_of(step_samples(a), step_samples(b))
    found: dict[str, Any] = {"per": per, "ratio": None, "low": None, "high": None, "told_apart": None, "reason": None}
    for name, side, summary in zip("ab", sides, (a, b), strict=True):
        found |= {f"{name}_{key}": value for key, value in _side(side, summary).items()}
    left, right = sides
    if left is None or right is None:
        lacks = " and ".join(name for name, side in zip("AB", sides, strict=True) if side is None)
        return found | {"reason": f"no step of {lacks} was timed"}
    value, low, high = ratio(_divided(left, divisors[0]), _divided(right, divisors[1]))
    apart = None if low is None or high is None else not low <= 1 <= high
    why = f"too few steps for an interval, which takes {LEAST} of each kind on both sides" if apart is None else None
    return found | {"ratio": value, "low": low, "high": high, "told_apart": apart, "reason": why}


def _side(side: Middle | None, summary: Summary) -> dict[str, Any]:
    name, info = main_pass(summary)
    steps = _times(summary)
    return {
        "ms": None if side is None else side.value,
        "low_ms": None if side is None else side.low,
        "high_ms": None if side is None else side.high,
        "device_ms": info.get("device_step_ms_median"),
        "samples_per_s": info.get("samples_per_s"),
        "samples": step_samples(summary),
        "steps": sum(map(len, steps.values())) or None,
        "ranks": info.get("ranks"),
        "pass": name or None,
        "host_marks": summary.get("source") is not None and side is not None,
    }


def _divided(one: Middle, by: float) -> Middle:
    low, high = (None if end is None else end / by for end in (one.low, one.high))
    return Middle(one.value / by, low, high)


def _step(summary: Summary) -> Middle | None:
    """The median step in ms with its interval; kinds of steps weigh as they occur in a training."""
    times = _times(summary)
    if not times:
        return None
    shares = _shares(summary, times)
    return weighed({kind: middle(values) for kind, values in times.items()}, shares)


def _times(summary: Summary) -> dict[str, list[float]]:
    """Milliseconds of the measured steps by kind. Steps of several ranks run together and so are no independent
    evidence: of each, the median over its ranks counts once."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in (summary["steps"] or {}).get("rows") or ():
        if row["role"] == "measured" and row["duration_ns"] is not None:
            found[str(row["kind"])][row["index"]].append(row["duration_ns"] / 1e6)
    return {kind: [float(np.median(ranks)) for ranks in steps.values()] for kind, steps in found.items()}


def _shares(summary: Summary, times: Mapping[str, list[float]]) -> dict[str, float]:
    """Shares of the measured kinds: the task's own, else of how many were measured; as `analysis.steps` has them."""
    own = main_pass(summary)[1].get("step_kinds") or {}
    weights = {kind: float(own.get(kind, 0.0)) for kind in times}
    if not sum(weights.values()):
        weights = {kind: float(len(values)) for kind, values in times.items()}
    total = sum(weights.values())
    return {kind: weight / total for kind, weight in weights.items()}
