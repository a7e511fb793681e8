"""Lists of two profiles side by side: host operators, calls of the runtime, hardware counters, training runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wcbench.analysis.diff_interval import middle, ratio

Summary = Mapping[str, Any]
Row = Mapping[str, Any]
_LIBRARY = re.compile(r"(?<=::)(?:cudnn|miopen)_")


def operators(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Device time by the host operator that launched it, of the whole records, greatest difference of shares first.

    Operators have one name on every architecture, kernels have not; cuDNN's and MIOpen's of one name are one row.
    Empty where one of the two does not tell.
    """
    sides = [_launched(side) for side in (a, b)]
    if not all(sides):
        return []
    rows = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        there = [side[name] for side in sides if name in side]
        names = dict.fromkeys(row["name"] for row in there)
        found: dict[str, Any] = {"name": " / ".join(names), "category": there[0]["category"]}
        for label, side, summary in zip("ab", sides, (a, b), strict=True):
            row, whole = side.get(name), summary["hotspots"]["whole"]["total_ns"]
            found[f"{label}_ns"] = None if row is None else row["device_ns"]
            found[f"{label}_calls"] = None if row is None else row["calls"]
            found[f"{label}_share"] = None if row is None or not whole else row["device_ns"] / whole
        found["difference_share"] = (found["b_share"] or 0.0) - (found["a_share"] or 0.0)
        rows.append(found)
    return sorted(rows, key=lambda row: (-abs(row["difference_share"]), row["name"]))


def _launched(summary: Summary) -> dict[str, Row]:
    """Operators that launched device work themselves; empty where kernels do not tell their operators."""
    if not summary["hotspots"]:
        return {}
    found: dict[str, Row] = {}
    for row in (summary["ops"] or {}).get("rows") or ():
        if row["device_ns"]:
            key = _LIBRARY.sub("", row["name"])
            found[row["name"] if key in found else key] = row
    return found


def runtime(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Calls of the device's runtime of the whole records; CUDA's and HIP's of one name are one row."""
    sides = [_calls(side) for side in (a, b)]
    if not all(sides):
        return []
    rows = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        left, right = (side.get(name) for side in sides)
        names = list(dict.fromkeys(row["name"] for row in (left, right) if row is not None))
        rows.append({
            "name": " / ".join(names), "a_calls": left and left["calls"], "b_calls": right and right["calls"],
            "a_ns": left and left["total_ns"], "b_ns": right and right["total_ns"],
        })  # fmt: skip
    return sorted(rows, key=lambda row: (-max(row["a_ns"] or 0, row["b_ns"] or 0), row["name"]))


def _calls(summary: Summary) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in (summary["totals"] or {}).get("rows") or ():
        if row["kind"] == "runtime":
            found.setdefault(_api(str(row["name"])), row)
    return found


def _api(name: str) -> str:
    """``cudaLaunchKernel`` and ``hipLaunchKernel`` do the same, ``hipExtLaunchKernel`` stays another."""
    for prefix in ("cuda", "hip"):
        if name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper():
            return name[len(prefix) :]
    return name


def counters(a: Summary, b: Summary) -> dict[str, Any] | None:
    """Hardware counters of both: AIBench's five, and those of kernels and metrics of one name; None without both."""
    left, right = a["counters"], b["counters"]
    if left is None or right is None:
        return None
    sides = [
        {(row["kernel"], row["metric"], row["unit"]): row for row in side["rows"] if row["value"] is not None}
        for side in (left, right)
    ]
    common = [key for key in sides[0] if key in sides[1]]
    rows = [
        {
            "kernel": key[0], "metric": key[1], "unit": key[2],
            "a": sides[0][key]["value"], "b": sides[1][key]["value"],
            "a_calls": sides[0][key]["calls"], "b_calls": sides[1][key]["calls"],
        }
        for key in common
    ]  # fmt: skip
    return {"five": _five(left, right), "rows": rows, "only_a": len(sides[0]) - len(common),
            "only_b": len(sides[1]) - len(common)}  # fmt: skip


def _five(left: Row, right: Row) -> list[dict[str, Any]]:
    """AIBench's five, with the reason of each that is missing."""
    rows = []
    for name in dict.fromkeys((*(left.get("five") or {}), *(right.get("five") or {}))):
        one, other = ((side.get("five") or {}).get(name) or {} for side in (left, right))
        lacks = [
            f"{label}: {value.get('reason') or 'not of an NVIDIA GPU'}"
            for label, value in (("A", one), ("B", other))
            if value.get("value") is None
        ]
        rows.append({"name": name, "a": one.get("value"), "b": other.get("value"), "reason": "; ".join(lacks) or None})
    return rows


# --- training runs ----------------------------------------------------------------------------------------------------


def trainings(a: Summary, b: Summary) -> list[dict[str, Any]]:
    """Medians over the successful runs of each benchmark that both hold: seconds, epochs and samples to the target.

    Runs are compared group by group (one system and one series of runs); where a side has several groups of a
    benchmark, with the other side's group of the same system.
    """
    found = []
    for left, right in _groups(a, b):
        for field, unit in (("seconds", "s"), ("epochs", "epochs"), ("samples", "samples")):
            values = [_values(side, group, field) for side, group in ((a, left), (b, right))]
            if not all(values):
                continue
            one, other = (middle(each) for each in values)
            value, low, high = ratio(one, other)
            found.append({
                "benchmark": left["benchmark"], "of": field, "unit": unit, "a": one.value, "b": other.value,
                "a_runs": len(values[0]), "b_runs": len(values[1]), "a_least": min(values[0]),
                "a_most": max(values[0]), "b_least": min(values[1]), "b_most": max(values[1]),
                "a_system": left["system"], "b_system": right["system"], "ratio": value, "low": low, "high": high,
                "reason": None if low is not None else "fewer than six runs of each have no 95 % interval",
            })  # fmt: skip
    return found


def _groups(a: Summary, b: Summary) -> list[tuple[Row, Row]]:
    """Groups that belong together: of a benchmark the only one of each, else those of one system and series."""
    sides = [_by(side, lambda group: group["benchmark"]) for side in (a, b)]
    found: list[tuple[Row, Row]] = []
    for benchmark in (name for name in sides[0] if name in sides[1]):
        left, right = (side[benchmark] for side in sides)
        if len(left) == len(right) == 1:
            found.append((left[0], right[0]))
            continue
        systems = {(group["system"], group["series"]): group for group in right}
        pairs = ((group, systems.get((group["system"], group["series"]))) for group in left)
        found += [(group, other) for group, other in pairs if other is not None]
    return found


def _by(summary: Summary, key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for group in (summary["convergence"] or {}).get("groups") or ():
        found[key(group)].append(group)
    return found


def _values(summary: Summary, group: Row, field: str) -> Sequence[float]:
    """What the group's successful runs needed, without the absurd values that its own spread leaves out."""
    runs, spread = set(group["runs"]), group[field]
    if not spread["n"]:
        return []
    known = [row[field] for row in summary["convergence"]["rows"] if row["run"] in runs and row["status"] == "success"]
    return [float(value) for value in known if value is not None and spread["least"] <= value <= spread["most"]]
