"""Everything that a record says, as one plain object: the JSON of the command line and the reports' only input.

Its form is documented in docs/json.md and versioned; values are unrounded, in SI units, absent ones None.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.activity import activity
from wcbench.analysis.complexity import Complexity, complexity
from wcbench.analysis.convergence import convergence
from wcbench.analysis.crosscheck import six_n
from wcbench.analysis.foreign import allocations_block, counters_block
from wcbench.analysis.gates import gates
from wcbench.analysis.hotspots import Hotspots, categories, hotspots
from wcbench.analysis.locality import Locality
from wcbench.analysis.lookups import lookups
from wcbench.analysis.losses import losses_block, lost_block
from wcbench.analysis.memory import MemoryAccess, memory
from wcbench.analysis.modules import Modules, modules
from wcbench.analysis.noise import noise, unresolved_overheads
from wcbench.analysis.ops import ops
from wcbench.analysis.primitives import primitives
from wcbench.analysis.roofline import Roofline, profile_roofline
from wcbench.analysis.scaling import continued, scaling
from wcbench.analysis.selection import ALL, unmarked
from wcbench.analysis.source import imported, source
from wcbench.analysis.steps import StepTimes, device_step_ns, step_times
from wcbench.analysis.telemetry import measured_memory, power
from wcbench.analysis.totals import totals
from wcbench.record import Note

if TYPE_CHECKING:
    from wcbench.record import Profile

SCHEMA = "wcbench.profile/1"
_WHOLE_ROWS = 20
_OPS_ROWS = 200
_LIVE_POINTS = 400  # of the curve of live bytes; a figure shows no more


def summary(profile: Profile, on: str | None = None) -> dict[str, Any]:
    """The whole of a record's results (docs/json.md); ``on`` names the device of the roofline (devices.toml)."""
    manifest = profile.manifest
    steps = step_times(profile)
    accessed, work = memory(profile), complexity(profile)
    roof, no_roof = profile_roofline(profile, on, _pairs(accessed))
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "run": None if profile.path is None else str(profile.path),
        "task": manifest.task,
        "variant": manifest.variant,
        "suites": list(manifest.suites),
        "created": manifest.created,
        "command": list(manifest.command),
        "wcbench": manifest.wcbench,
        "machine": dict(manifest.machine),
        "source": None if manifest.source is None else dict(manifest.source),
        "losses": losses_block(manifest.losses),
        "lost": lost_block(manifest.losses),
        "tables": dict(manifest.tables),
        "notes": [dataclasses.asdict(note) for note in _notes(profile, accessed, no_roof)],
        "noise": [text for _, text in noise(profile)],
        "passes": {name: _pass(profile, name, steps.get(name)) for name in manifest.passes},
        "steps": _steps(profile),
        "complexity": _complexity(profile, work),
        "hotspots": _hotspots(profile),
        "categories": _categories(profile),
        "scaling": _scaling(profile),
        "lookups": _lookups(profile),
        "operators": _frame(work),
        "modules": _frame(modules(profile)),
        "memory": _memory(accessed),
        "roofline": _roofline(roof, accessed),
        "measured_memory": _measured_memory(profile),
        "power": _power(profile),
        "primitives": _primitives(profile),
        "gates": gates(profile).to_dict(),
        "activity": _as_dict(activity(profile)),
        "ops": _ops(profile),
        "totals": _as_dict(totals(profile)),
        "counters": counters_block(profile),
        "convergence": _as_dict(convergence(profile)),
        "allocations": allocations_block(profile),
    }
    plain: dict[str, Any] = _plain(result)
    return plain


def notes(profile: Profile) -> list[Note]:
    """What the capture noted, and what the figures themselves make doubtful: the notes of the summary."""
    accessed = memory(profile)
    _, no_roof = profile_roofline(profile, None, _pairs(accessed))
    return _notes(profile, accessed, no_roof)


def _notes(profile: Profile, accessed: MemoryAccess | None, no_roof: str | None) -> list[Note]:
    found = list(profile.manifest.notes)
    found += [Note(name, text) for name, text in [*noise(profile), *unresolved_overheads(profile)]]
    doubt = six_n(profile)
    if doubt is not None:
        found.append(Note("operators", doubt))
    return [*found, *_doubts(accessed, no_roof)]


def _pass(profile: Profile, name: str, times: StepTimes | None) -> dict[str, Any]:
    info = profile.manifest.passes[name]
    settings = dataclasses.asdict(info)
    low, median, high = (value / 1e6 for value in times.quartiles_ns) if times else (None, None, None)
    device = device_step_ns(profile, name) if times else None
    return {
        **settings,
        "steps": info.steps,
        "step_ms_median": median,
        "step_ms_q1": low,
        "step_ms_q3": high,
        "device_step_ms_median": None if device is None else device / 1e6,
        "samples_per_s": times.samples_per_s if times else None,
        "ranks": times.ranks if times else None,
        "loss_first": times.loss_first if times else None,
        "loss_last": times.loss_last if times else None,
        "overhead": times.overhead if times else None,
    }


def _steps(profile: Profile) -> dict[str, Any] | None:
    """Every step of the timing pass, warm-up included; of an imported record, of its timeline."""
    name = "timeline" if imported(profile) else "timing"
    origin, table = source(profile, name), profile.table("steps")
    table = table[table["pass"] == name]
    if origin is None or table.empty or unmarked(profile, name):
        return None
    rows = table[["rank", "index", "role", "kind", "duration_ns", "loss"]]
    return {**origin.to_dict(), "rows": rows.to_dict("records")}


def _complexity(profile: Profile, found: Complexity | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "tensors": found.source.tensors,
        "samples": found.samples,
        "params_total": found.params_total,
        "params_trainable": found.params_trainable,
        "params_bytes": found.params_bytes,
        "params_shared": found.params_shared,
        **_flops(found, foreign=imported(profile)),
        "bytes_read": found.bytes_read,
        "bytes_written": found.bytes_written,
        "operator_calls": found.operator_calls,
        "coverage_calls": found.coverage_calls,
        "coverage_bytes": found.coverage_bytes,
        "uncounted": found.uncounted.to_dict("records"),
        "kinds": found.kinds.to_dict("records"),
        "continued": continued(profile),
    }


def _flops(found: Complexity, *, foreign: bool) -> dict[str, float | None]:
    """Work by phase; of an imported record None for a phase of which no call is: the file need not tell it."""
    nothing = None if foreign else 0
    has_forward = not foreign or "forward" in found.flops_matrix
    forward = found.flops_matrix_forward_per_sample if has_forward else None
    counts: dict[str, float | None] = {
        "flops_matrix_forward": found.flops_matrix.get("forward", nothing),
        "flops_matrix_backward": found.flops_matrix.get("backward", nothing),
        "flops_matrix_step": found.flops_matrix_step,
        "flops_matrix_step_causal_half": found.flops_matrix_half,
        "flops_all_forward": found.flops_all.get("forward", nothing),
        "flops_all_backward": found.flops_all.get("backward", nothing),
        "flops_all_step": found.flops_all_step,
        "flops_matrix_forward_per_sample": forward,
        "macs_forward_per_sample": None if forward is None else forward / 2,
    }
    # where no formula covers any call, the work is unknown and not 0
    return dict.fromkeys(counts) if found.operator_calls and not found.coverage_calls else counts


def _scaling(profile: Profile) -> dict[str, Any] | None:
    found = scaling(profile)
    return None if found is None else {**found.source.to_dict(), "rows": found.rows.to_dict("records")}


def _lookups(profile: Profile) -> dict[str, Any] | None:
    found = lookups(profile)
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "samples": found.samples,
        "kind": found.kind,
        "rows": found.rows.to_dict("records"),
    }


def _hotspots(profile: Profile) -> dict[str, Any] | None:
    found = hotspots(profile)
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "of": found.of,
        "steps": found.steps,
        "total_ns": found.total_ns,
        "basis": found.basis,
        "ranks": found.ranks,
        "rank_steps": found.rank_steps,
        "coverage": found.coverage,
        "waiting_calls": found.waiting_calls,
        "waiting_ns": found.waiting_ns,
        "whole": _whole(profile, found),
        "rows": _running(found.rows),
    }


def _running(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, each with the sum of its share and of all before it."""
    found: list[dict[str, Any]] = rows.assign(cumulative_share=rows["time_share"].cumsum()).to_dict("records")  # type: ignore[assignment]
    return found


def _whole(profile: Profile, found: Hotspots) -> dict[str, Any]:
    """Everything in the record, in steps or not: so that what no step holds is not lost from sight."""
    every = hotspots(profile, steps=ALL)
    rows = [] if every is None else every.rows.head(_WHOLE_ROWS).to_dict("records")
    return {"calls": found.whole_calls, "total_ns": found.whole_ns, "rows": rows}


def _ops(profile: Profile) -> dict[str, Any] | None:
    found = ops(profile)
    return None if found is None else found.to_dict(_OPS_ROWS)


def _as_dict(found: Any) -> dict[str, Any] | None:
    plain: dict[str, Any] | None = None if found is None else found.to_dict()
    return plain


def _categories(profile: Profile) -> dict[str, Any] | None:
    found = categories(profile)
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "of": found.of,
        "paper": dict(found.paper),
        "full": dict(found.full),
        "unknown_share": found.unknown_share,
        "unknown_names": list(found.unknown_names),
        "phases": None if found.phases is None else dict(found.phases),
        "python_share": found.python_share,
    }


def _frame(found: Complexity | Modules | None) -> dict[str, Any] | None:
    return None if found is None else {**found.source.to_dict(), "rows": found.to_frame().to_dict("records")}


def _memory(found: MemoryAccess | None) -> dict[str, Any] | None:
    if found is None:
        return None
    step = found.parallelism
    return {
        **found.source.to_dict(),
        "tensors": found.source.tensors,
        "kind": found.kind,
        "peak_bytes": found.live.peak_bytes,
        "peak_classes": found.live.peak_classes,
        "peak_kinds": dict(found.peak_kinds),
        **_locality(found.logical),
        "traffic_tiled": [
            [capacity, traffic + excess]
            for capacity, traffic, excess in zip(
                found.logical.capacities, found.logical.traffic, found.tiling_excess, strict=True
            )
        ],
        "allocator": _locality(found.allocator),
        "fused": {
            "eager_operators": found.eager_operators,
            "operators": found.fused.operators,
            "operator_bytes": found.fused.bytes,
            "groups": len(found.fused.groups),
        },
        "dag_width": step.width,
        "dag_width_flops": step.width_by_flops,
        "dag_depth": step.depth,
        "live": found.live.sampled(_LIVE_POINTS),
    }


def _pairs(found: MemoryAccess | None) -> list[tuple[int, float]]:
    if found is None:
        return []
    return [(int(c), float(b)) for c, b in zip(found.logical.capacities, found.logical.traffic, strict=True)]


def _doubts(accessed: MemoryAccess | None, no_roof: str | None) -> list[Note]:
    """What the reuse model doubts of itself, and why there is no roofline where there could be one."""
    if accessed is None:
        return []
    found = [Note("reuse", text) for text in accessed.logical.notes]  # pass memory has notes of its own
    if no_roof is not None:
        found.append(Note("roofline", f"There is {no_roof}. Name a device with --on, e.g. --on h100-sxm."))
    return found


def _roofline(found: Roofline | None, accessed: MemoryAccess | None) -> dict[str, Any] | None:
    if found is None or accessed is None:
        return None
    dtype = next(iter(found.ridge), None)
    return {
        **accessed.source.to_dict(),
        "on": found.device.id,
        "dtype": dtype,
        "peak_flops": None if dtype is None else found.device.peak(dtype),
        "bandwidth": found.device.bandwidth,
        "balance": None if dtype is None else found.ridge[dtype],
        "intensity": found.intensity,
        "capacities": [[line.capacity, line.intensity] for line in found.capacities],
        "points": _points(found),
        "memory_bound_share": found.memory_bound_share,
        "time_ns": found.time_s * 1e9,
        "unplaced": found.unplaced,
    }


def _points(found: Roofline) -> list[dict[str, Any]]:
    """Operators by name: together they are few enough for a figure."""
    known = found.rows[found.rows["flops"].notna() & found.rows["bytes"].notna()]
    sums = known.groupby("name")[["flops", "bytes"]].sum().reset_index()
    sums = sums[(sums["flops"] > 0) & (sums["bytes"] > 0)].sort_values(["flops", "name"], ascending=[False, True])
    return [
        {"name": name, "flops": flops, "bytes": moved, "intensity": flops / moved}
        for name, flops, moved in zip(sums["name"], sums["flops"], sums["bytes"], strict=True)
    ]


def _locality(found: Locality) -> dict[str, Any]:
    return {
        "operator_bytes": found.operator_bytes,
        "unique_bytes": found.unique_bytes,
        "cold_bytes": found.cold_bytes,
        "compulsory_bytes": found.compulsory_bytes,
        "unplaced_bytes": found.unplaced_bytes,
        "largest_operator_bytes": found.largest_operator_bytes,
        "traffic": [list(pair) for pair in zip(found.capacities, found.traffic, strict=True)],
        "miss_ratio": [list(pair) for pair in zip(found.capacities, found.miss_ratio, strict=True)],
        "wss_50": found.wss_50,
        "wss_90": found.wss_90,
        "wss_99": found.wss_99,
        "reuse_classes": dict(found.reuse_classes),
        "reuse_count_mean": found.reuse_count_mean,
    }


def _measured_memory(profile: Profile) -> dict[str, Any] | None:
    found = measured_memory(profile)
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "peak_bytes": found.peak_bytes,
        "increase_bytes": found.increase_bytes,
        "rows": found.rows.to_dict("records"),
    }


def _power(profile: Profile) -> dict[str, Any] | None:
    found = power(profile)
    return None if found is None else {**found.source.to_dict(), "devices": found.rows.to_dict("records")}


def _primitives(profile: Profile) -> dict[str, Any] | None:
    found = primitives(profile)
    if found is None:
        return None
    return {
        **found.source.to_dict(),
        "of": "oneDNN primitive time",
        "steps": found.steps,
        "total_ns": found.total_ns,
        "operator_share": found.operator_share,
        "rows": found.rows.to_dict("records"),
    }


def _plain(value: Any) -> Any:
    """JSON's own types only; what is not a number (NA, NaN, infinite) becomes None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)
