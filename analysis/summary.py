"""Everything that a record says, as one plain object: the JSON of the command line and the reports' only input.

Its form is documented in docs/json.md and versioned; values are unrounded, in SI units, absent ones None.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.complexity import Complexity, complexity
from wcbench.analysis.hotspots import categories, hotspots
from wcbench.analysis.primitives import primitives
from wcbench.analysis.source import source
from wcbench.analysis.steps import LEAST_OVERHEAD, WIDE_SPREAD, StepTimes, step_times
from wcbench.analysis.telemetry import memory, power
from wcbench.record import Note

if TYPE_CHECKING:
    from wcbench.record import Profile

SCHEMA = "wcbench.profile/1"


def summary(profile: Profile) -> dict[str, Any]:
    """The whole of a record's results (docs/json.md)."""
    manifest = profile.manifest
    steps = step_times(profile)
    result = {
        "schema": SCHEMA,
        "run": None if profile.path is None else str(profile.path),
        "task": manifest.task,
        "variant": manifest.variant,
        "suites": list(manifest.suites),
        "created": manifest.created,
        "command": list(manifest.command),
        "wcbench": manifest.wcbench,
        "machine": dict(manifest.machine),
        "notes": [dataclasses.asdict(note) for note in notes(profile)],
        "passes": {name: _pass(profile, name, steps.get(name)) for name in manifest.passes},
        "steps": _steps(profile),
        "complexity": _complexity(complexity(profile)),
        "hotspots": _hotspots(profile),
        "categories": _categories(profile),
        "measured_memory": _memory(profile),
        "power": _power(profile),
        "primitives": _primitives(profile),
    }
    plain: dict[str, Any] = _plain(result)
    return plain


def notes(profile: Profile) -> list[Note]:
    """What the capture noted, and what the figures themselves make doubtful."""
    found = list(profile.notes)
    for name, times in step_times(profile).items():
        if name == "timing" and times.spread > WIDE_SPREAD:
            text = f"Step times are noisy: the quartiles lie {times.spread:.0%} of the median apart."
            found.append(Note(name, text))
        if times.overhead is not None and times.overhead < LEAST_OVERHEAD:
            text = (
                f"The overhead of {times.overhead:.2f} is noise: no instrument makes a step faster. The machine was "
                "too busy with other work to measure it."
            )
            found.append(Note(name, text))
    return found


def _pass(profile: Profile, name: str, times: StepTimes | None) -> dict[str, Any]:
    info = profile.manifest.passes[name]
    settings = dataclasses.asdict(info)
    low, median, high = (value / 1e6 for value in times.quartiles_ns) if times else (None, None, None)
    return {
        **settings,
        "steps": info.steps,
        "step_ms_median": median,
        "step_ms_q1": low,
        "step_ms_q3": high,
        "samples_per_s": times.samples_per_s if times else None,
        "loss_first": times.loss_first if times else None,
        "loss_last": times.loss_last if times else None,
        "overhead": times.overhead if times else None,
    }


def _steps(profile: Profile) -> dict[str, Any] | None:
    """Every step of the timing pass, warm-up included."""
    origin, table = source(profile, "timing"), profile.table("steps")
    table = table[table["pass"] == "timing"]
    if origin is None or table.empty:
        return None
    rows = table[["index", "role", "kind", "duration_ns", "loss"]]
    return {**origin.to_dict(), "rows": rows.to_dict("records")}


def _complexity(found: Complexity | None) -> dict[str, Any] | None:
    if found is None:
        return None
    forward = found.flops_matrix_forward / found.samples
    return {
        **found.source.to_dict(),
        "tensors": found.source.tensors,
        "samples": found.samples,
        "params_total": found.params_total,
        "params_trainable": found.params_trainable,
        "params_bytes": found.params_bytes,
        "params_shared": found.params_shared,
        "flops_matrix_forward": found.flops_matrix_forward,
        "flops_matrix_backward": found.flops_matrix.get("backward", 0),
        "flops_matrix_step": found.flops_matrix_step,
        "flops_matrix_forward_per_sample": forward,
        "macs_forward_per_sample": forward / 2,
        "operator_calls": found.operator_calls,
        "coverage_calls": found.coverage_calls,
        "coverage_matrix_calls": found.coverage_matrix_calls,
        "uncounted": found.uncounted.to_dict("records"),
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
        "rows": found.rows.to_dict("records"),
    }


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
        "phases": dict(found.phases),
        "python_share": found.python_share,
    }


def _memory(profile: Profile) -> dict[str, Any] | None:
    found = memory(profile)
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
