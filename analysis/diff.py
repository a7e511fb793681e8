"""Two profiles compared: what was unlike about them, how their steps differ, and where the difference lies.

Both summaries (docs/json.md) are read, so that a number here is the number that `wcbench show` prints. Where the
samples of a step differ, times and amounts are per sample. docs/diff.md explains every field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis import diff_hotspots
from wcbench.analysis.diff_answer import answer
from wcbench.analysis.diff_interval import Middle, middle, ratio, weighed
from wcbench.errors import UsageError
from wcbench.machine import differences

if TYPE_CHECKING:
    from wcbench.record import Profile

SCHEMA = "wcbench.diff/1"
SETTINGS = ("preset", "batch_size", "samples", "precision", "mode", "device", "data_in_step")
"""What of a pass makes a comparison one of unlike things where it differs."""

# (name, unit, block, field, whether it grows with the samples of a step)
QUANTITIES: tuple[tuple[str, str, str, str, bool], ...] = (
    ("parameters", "", "complexity", "params_total", False),
    ("matrix FLOPs", "FLOP", "complexity", "flops_matrix_step", True),
    ("all FLOPs", "FLOP", "complexity", "flops_all_step", True),
    ("bytes read by operators", "B", "complexity", "bytes_read", True),
    ("bytes written by operators", "B", "complexity", "bytes_written", True),
    ("operator calls", "", "complexity", "operator_calls", False),
    ("live bytes at the peak, modelled", "B", "memory", "peak_bytes", False),
    ("compulsory traffic, modelled", "B", "memory", "compulsory_bytes", True),
    ("peak memory, measured", "B", "measured_memory", "peak_bytes", False),
    ("device utilization", "1", "activity", "utilization", False),
    ("communication hidden", "1", "activity", "hidden_share", False),
    ("Python share of a step", "1", "categories", "python_share", False),
)


@dataclass(frozen=True, eq=False)
class Diff:
    """Two profiles compared; ``document`` is all of it as JSON's own types (schema wcbench.diff/1)."""

    document: Mapping[str, Any]

    @property
    def answer(self) -> tuple[str, ...]:
        """Sentences."""
        return tuple(self.document["answer"])

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return dict(self.document)

    def to_frame(self) -> pd.DataFrame:
        """One row a function: times in ns, shares, calls of both, and the difference; greatest difference first."""
        spots = self.document["hotspots"]
        return pd.DataFrame([] if spots is None else spots["rows"])

    def __repr__(self) -> str:
        a, b = (self.document[side]["label"] for side in "ab")
        return "\n".join([f"Diff (A = {a}, B = {b})", *(f"  {sentence}" for sentence in self.answer)])


def diff(a: Profile, b: Profile, on: str | None = None) -> Diff:
    """Compare two profiles; ``on`` names the device of their rooflines.

    Raises UsageError where they have nothing in common that could be compared.
    """
    return of_summaries(a.view("summary", on=on), b.view("summary", on=on))


def of_summaries(a: Mapping[str, Any], b: Mapping[str, Any]) -> Diff:
    """Compare two summaries."""
    passes = [_main(side) for side in (a, b)]
    samples = [float(info.get("samples") or 0) for info in passes]
    each = all(samples) and samples[0] != samples[1]
    per = (samples[0], samples[1]) if each else (1.0, 1.0)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "answer": [],
        "a": _who(a, "A"),
        "b": _who(b, "B"),
        "per": "sample" if each else "step",
        "conditions": list(_conditions(*passes)),
        "machine": [{"what": d.path, "a": d.left, "b": d.right} for d in differences(a["machine"], b["machine"])],
        "time": _time(a, b, per),
        "hotspots": _hotspots(a, b, per),
        "quantities": [_quantity(a, b, row, per) for row in QUANTITIES],
        "energy": _energy(a, b),
        "trainings": _trainings(a, b),
        "missing": list(_missing(a, b)),
    }
    if not (
        _known(document["time"]["a_ms"], document["time"]["b_ms"]) or document["hotspots"] or _comparable(document)
    ):
        held = [f"{name}: {', '.join(side['tables']) or 'no tables'}" for name, side in (("A", a), ("B", b))]
        raise UsageError("These two records have nothing in common to compare.", "; ".join(held) + ".")
    document["answer"] = answer(document)
    return Diff(document)


def _comparable(document: Mapping[str, Any]) -> bool:
    return bool(document["trainings"]) or any(row["ratio"] is not None for row in document["quantities"])


def _known(*values: Any) -> bool:
    return all(value is not None for value in values)


def _main(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pass whose times count: timing, else the timeline, else the first."""
    passes: Mapping[str, Mapping[str, Any]] = summary["passes"]
    first: Mapping[str, Any] = next(iter(passes.values()), {})
    return passes.get("timing") or passes.get("timeline") or first


def _who(summary: Mapping[str, Any], name: str) -> dict[str, Any]:
    info, variant = _main(summary), summary.get("variant")
    task = f"{summary['task']}@{variant}" if variant else str(summary["task"])
    return {"name": name, "label": task, "run": summary["run"], "created": summary["created"],
            "command": summary["command"], "noise": list(summary["noise"]),
            **{key: info.get(key) for key in SETTINGS}}  # fmt: skip


def _conditions(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings that differ."""
    for key in SETTINGS:
        if a.get(key) != b.get(key):
            yield {"what": key, "a": a.get(key), "b": b.get(key)}
    left, right = a.get("settings") or {}, b.get("settings") or {}
    for key in sorted({*left, *right} - {"batch_size"}):
        if left.get(key) != right.get(key):
            yield {"what": key, "a": left.get(key), "b": right.get(key)}


# --- the time of a step -----------------------------------------------------------------------------------------------


def _time(a: Mapping[str, Any], b: Mapping[str, Any], per: tuple[float, float]) -> dict[str, Any]:
    """Medians in ms a step with 95 % intervals, and B / A, per sample where samples differ."""
    sides = [_step(side) for side in (a, b)]
    found: dict[str, Any] = {"ratio": None, "low": None, "high": None, "told_apart": None, "reason": None}
    for name, side, summary in zip("ab", sides, (a, b), strict=True):
        found |= {
            f"{name}_ms": None if side is None else side.value,
            f"{name}_low_ms": None if side is None else side.low,
            f"{name}_high_ms": None if side is None else side.high,
            f"{name}_samples_per_s": _main(summary).get("samples_per_s"),
        }
    left, right = sides
    if left is None or right is None:
        lacks = " and ".join(name for name, side in zip("AB", sides, strict=True) if side is None)
        return found | {"reason": f"no step of {lacks} was timed"}
    value, low, high = ratio(_divided(left, per[0]), _divided(right, per[1]))
    apart = None if low is None or high is None else not low <= 1 <= high
    why = "too few steps for an interval (it takes six of each)" if apart is None else None
    return found | {"ratio": value, "low": low, "high": high, "told_apart": apart, "reason": why}


def _divided(one: Middle, by: float) -> Middle:
    low, high = (None if end is None else end / by for end in (one.low, one.high))
    return Middle(one.value / by, low, high)


def _step(summary: Mapping[str, Any]) -> Middle | None:
    """The median step in ms with its interval; kinds of steps weigh as they occur in a training."""
    steps = summary["steps"]
    by_kind: dict[str, list[float]] = {}
    for row in steps["rows"] if steps else ():
        if row["role"] == "measured" and row["duration_ns"] is not None:
            by_kind.setdefault(str(row["kind"]), []).append(row["duration_ns"] / 1e6)
    if not by_kind:
        return None
    shares: Mapping[str, float] = _main(summary).get("step_kinds") or {}
    if len(by_kind) == 1 or not set(by_kind) <= set(shares):
        return middle([value for values in by_kind.values() for value in values])
    return weighed({kind: middle(values) for kind, values in by_kind.items()}, shares)


# --- the rest ---------------------------------------------------------------------------------------------------------


def _hotspots(a: Mapping[str, Any], b: Mapping[str, Any], per: tuple[float, float]) -> dict[str, Any] | None:
    left, right = a["hotspots"], b["hotspots"]
    if not (left and right and left["rows"] and right["rows"]):
        return None
    found = diff_hotspots.compared(left, right, per)
    return {**found, "unlike": None if left["of"] == right["of"] else f"{left['of']} against {right['of']}"}


def _quantity(
    a: Mapping[str, Any], b: Mapping[str, Any], row: tuple[str, str, str, str, bool], per: tuple[float, float]
) -> dict[str, Any]:
    """An amount of both: per sample where samples differ and it grows with them, of the block's own batch."""
    name, unit, block, field, grows = row
    values: list[float | None] = []
    for side in (a, b):
        part = side.get(block)
        value = None if part is None else part.get(field)
        samples = (side["complexity"] or {}).get("samples")  # of the pass that the model of memory reads, too
        divide = grows and per != (1.0, 1.0)
        values.append(None if value is None else value / samples if divide and samples else None if divide else value)
    left, right = values
    known = left is not None and right is not None
    lacks = [label for label, value in zip("AB", values, strict=True) if value is None]
    return {
        "name": name,
        "unit": unit,
        "per": "sample" if grows and per != (1.0, 1.0) else "step" if grows else None,
        "a": left,
        "b": right,
        "ratio": right / left if known and left and right is not None else None,
        "equal": left == right if known else None,
        "reason": f"not known of {' and '.join(lacks)}" if lacks else None,
    }


def _energy(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
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


def _trainings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Medians over the runs of each benchmark that both hold, aborted ones left out: time, epochs, samples."""
    sides = [_by_benchmark(side["convergence"]) for side in (a, b)]
    found = []
    for benchmark in sorted(set(sides[0]) & set(sides[1])):
        for field, unit in (("seconds", "s"), ("epochs", "epochs"), ("samples", "samples")):
            values = [[run[field] for run in side[benchmark] if run.get(field) is not None] for side in sides]
            if all(values):
                left, right = (middle(each) for each in values)
                value, low, high = ratio(left, right)
                found.append({
                    "benchmark": benchmark, "of": field, "unit": unit, "a": left.value, "b": right.value,
                    "a_runs": len(values[0]), "b_runs": len(values[1]), "ratio": value, "low": low, "high": high,
                })  # fmt: skip
    return found


def _by_benchmark(block: Mapping[str, Any] | None) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for run in (block or {}).get("rows") or ():
        if run.get("status") != "aborted":
            found.setdefault(str(run.get("benchmark")), []).append(run)
    return found


def _missing(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Blocks that one of the two has and the other has not."""
    names: Sequence[str] = [name for name in a if isinstance(a[name], dict) or isinstance(b.get(name), dict)]
    for name in names:
        lacks = [label for label, side in (("A", a), ("B", b)) if not side.get(name)]
        if len(lacks) == 1 and name not in ("source", "tables", "machine"):
            yield {"about": name, "text": f"{lacks[0]} has no {name}, so it is not compared."}
