"""Amounts of work, memory, devices and energy of two profiles, side by side; exact where they are counts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wcbench.analysis.diff_time import main_pass, per_of, step_samples

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """An amount: its name, unit, block of the summary and field there; ``grows`` with the samples of a step, so that it
    is divided by them where they differ."""

    name: str
    unit: str
    block: str
    field: str
    grows: bool = False


QUANTITIES = (
    Quantity("parameters", "", "complexity", "params_total"),
    Quantity("matrix FLOPs", "FLOP", "complexity", "flops_matrix_step", grows=True),
    Quantity("all FLOPs", "FLOP", "complexity", "flops_all_step", grows=True),
    Quantity("bytes read by operators", "B", "complexity", "bytes_read", grows=True),
    Quantity("bytes written by operators", "B", "complexity", "bytes_written", grows=True),
    Quantity("operator calls", "", "complexity", "operator_calls"),
    Quantity("trainable parameters", "", "complexity", "params_trainable"),
    Quantity("matrix FLOPs forward", "FLOP", "complexity", "flops_matrix_forward", grows=True),
    Quantity("matrix FLOPs backward", "FLOP", "complexity", "flops_matrix_backward", grows=True),
    Quantity("operator calls with a formula", "1", "complexity", "coverage_calls"),
    Quantity("FLOP per byte, without reuse", "FLOP/B", "roofline", "intensity"),
    Quantity("time bound by memory, modelled", "1", "roofline", "memory_bound_share"),
    Quantity("least time, modelled", "ns", "roofline", "time_ns", grows=True),
    Quantity("live bytes at the peak, modelled", "B", "memory", "peak_bytes"),
    Quantity("bytes moved by operators, modelled", "B", "memory", "operator_bytes", grows=True),
    Quantity("distinct bytes, modelled", "B", "memory", "unique_bytes", grows=True),
    Quantity("compulsory traffic, modelled", "B", "memory", "compulsory_bytes", grows=True),
    Quantity("working set of 90 % of reuses, modelled", "B", "memory", "wss_90"),
    Quantity("peak memory, measured", "B", "measured_memory", "peak_bytes"),
    Quantity("increase of memory, measured", "B", "measured_memory", "increase_bytes"),
    Quantity("peak of the memory timeline", "B", "allocations", "peak_bytes"),
    Quantity("device utilization", "1", "activity", "utilization"),
    Quantity("computation, of a device's span", "1", "activity", "computation_ns"),
    Quantity("communication, of a device's span", "1", "activity", "communication_ns"),
    Quantity("copies, of a device's span", "1", "activity", "copy_ns"),
    Quantity("idle, of a device's span", "1", "activity", "idle_ns"),
    Quantity("communication hidden", "1", "activity", "hidden_share"),
    Quantity("devices", "", "activity", "devices"),
    Quantity("functions", "", "hotspots", "names"),
    Quantity("calls of functions", "", "hotspots", "calls"),
    Quantity("time that no rule knows", "1", "categories", "unknown_share"),
    Quantity("forward, of the time", "1", "categories", "phases.forward"),
    Quantity("backward, of the time", "1", "categories", "phases.backward"),
    Quantity("optimizer, of the time", "1", "categories", "phases.optimizer"),
    Quantity("Python share of a step", "1", "categories", "python_share"),
    Quantity("mean power", "W", "power", "watts_mean"),
    Quantity("utilization by telemetry", "1", "power", "utilization_mean"),
    Quantity("device memory in use", "B", "power", "memory_used_bytes_max"),
    Quantity("clock of the multiprocessors", "Hz", "power", "sm_clock_hz_mean"),
    Quantity("first loss", "", "steps", "loss_first"),
    Quantity("last loss", "", "steps", "loss_last"),
)


def quantities(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """All of `QUANTITIES` of both (docs/diff.md)."""
    return [_row(a, b, quantity) for quantity in QUANTITIES]


def _row(a: Summary, b: Summary, quantity: Quantity) -> dict[str, Any]:
    per, divisors = per_of(*(_samples(side, quantity.block) for side in (a, b))) if quantity.grows else (None, (1, 1))
    values = [_value(side, quantity) for side in (a, b)]
    left, right = (None if v is None else v if d == 1 else v / d for v, d in zip(values, divisors, strict=True))
    lacks = [label for label, value in zip("AB", values, strict=True) if value is None]
    known = left is not None and right is not None
    reason = f"not known of {' and '.join(lacks)}" if lacks else None
    if left == 0:
        reason = "A has none of it: there is no ratio to 0"
    if quantity.block == "roofline" and not lacks and a["roofline"]["on"] != b["roofline"]["on"]:
        reason = f"roof of {a['roofline']['on']} against that of {b['roofline']['on']}"
    return {
        "name": quantity.name,
        "unit": quantity.unit,
        "block": quantity.block,
        "per": per,
        "a": left,
        "b": right,
        "difference": right - left if left is not None and right is not None else None,
        "ratio": right / left if known and left and right is not None else None,
        "equal": left == right if known else None,
        "reason": reason,
    }


def _samples(summary: Summary, block: str) -> float | None:
    """Samples of the step that a block is of; the model of memory reads the operators' step."""
    if block in ("complexity", "memory", "roofline"):
        found = (summary["complexity"] or {}).get("samples")
        return None if found is None else float(found)
    return step_samples(summary, (summary[block] or {}).get("pass"))


def _value(summary: Summary, quantity: Quantity) -> float | None:
    if quantity.block == "steps":
        found: float | None = main_pass(summary)[1].get(quantity.field)
        return found
    part = summary[quantity.block]
    if part is None:
        return None
    if quantity.block in _SPECIAL:
        return _SPECIAL[quantity.block](part, quantity.field)
    return _field(part, quantity.field)


def _field(part: Mapping[str, Any], path: str) -> float | None:
    value: Any = part
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None


def _complexity(part: Mapping[str, Any], field: str) -> float | None:
    """Where the step was counted at a shorter length, what it is at the task's own."""
    continued = part.get("continued") or {}
    return _field(part, field) if continued.get(field) is None else _field(continued, field)


def _activity(part: Mapping[str, Any], field: str) -> float | None:
    """Of several devices the median of each one's share of its own span."""
    devices = part.get("devices") or ()
    if field == "devices":
        return len(devices)
    if not field.endswith("_ns"):
        return _field(part, field)
    return _median([row[field] / row["span_ns"] for row in devices if row.get(field) is not None and row["span_ns"]])


def _hotspots(part: Mapping[str, Any], field: str) -> float | None:
    if field == "names":
        return len(part["rows"])
    calls = [row.get("calls") for row in part["rows"]]
    return None if not calls or None in calls else sum(calls)


def _power(part: Mapping[str, Any], field: str) -> float | None:
    return _median([row[field] for row in part.get("devices") or () if row.get(field) is not None])


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


_SPECIAL = {"complexity": _complexity, "activity": _activity, "hotspots": _hotspots, "power": _power}


def energy(a: Summary, b: Summary) -> dict[str, Any]:
    """Joule per sample over all devices, by the energy counter."""
    values = []
    for side in (a, b):
        devices = (side["power"] or {}).get("devices") or ()
        each = [device["energy_per_sample_j"] for device in devices]
        values.append(sum(each) if each and all(value is not None for value in each) else None)
    lacks = [name for name, value in zip("AB", values, strict=True) if value is None]
    left, right = values
    return {
        "a_j_per_sample": left,
        "b_j_per_sample": right,
        "ratio": right / left if left and right is not None else None,
        "reason": f"no energy was counted of {' and '.join(lacks)}" if lacks else None,
    }


def capacities(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Traffic behind a cache of each capacity that both have, and the share of accessed bytes that misses in it."""
    if a["memory"] is None or b["memory"] is None:
        return []
    per, divisors = per_of(_samples(a, "memory"), _samples(b, "memory"))
    curves = {
        (side, field): {int(capacity): value for capacity, value in summary["memory"][field]}
        for side, summary in (("a", a), ("b", b))
        for field in ("traffic", "miss_ratio")
    }
    common = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    scale = dict(zip("ab", divisors, strict=True))
    return [
        {
            "capacity": capacity,
            "per": per,
            **{f"{side}_traffic": curves[side, "traffic"][capacity] / scale[side] for side in "ab"},
            **{f"{side}_miss_ratio": curves[side, "miss_ratio"][capacity] for side in "ab"},
        }
        for capacity in common
    ]
