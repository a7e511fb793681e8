"""A record in one row: under which conditions it was made, and its headline figures; of several it makes a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from wcbench.record import PassInfo, Profile


def headline(profile: Profile) -> pd.DataFrame:
    """One row, always with the same columns; absent is null. Conditions of counts and of times stand apart.

    Columns: name, run; of the timed steps (pass timing; of an import its timeline) device, preset, batch_size,
    precision, mode, threads, step_ms, step_ms_q1, step_ms_q3, samples_per_s; of the operator stream counted_preset,
    counted_batch_size, params_total, flops_matrix_step, flops_all_step, bytes_step, peak_bytes, coverage_calls; of the
    hotspots top_hotspot, top_share.
    """
    row = {
        "name": profile.name,
        "run": None if profile.path is None else str(profile.path),
        **_timed(profile),
        **_counted(profile),
        **_hotspot(profile),
    }
    return pd.DataFrame([row]).astype(dict.fromkeys(_WHOLE, "Int64")).astype(dict.fromkeys(_REAL, "float64"))


_WHOLE = ("batch_size", "threads", "counted_batch_size", "params_total", "flops_matrix_step", "flops_all_step",
          "bytes_step", "peak_bytes")  # fmt: skip
_REAL = ("step_ms", "step_ms_q1", "step_ms_q3", "samples_per_s", "coverage_calls", "top_share")


def _info(profile: Profile, *names: str) -> PassInfo | None:
    return next((profile.manifest.passes[name] for name in names if name in profile.manifest.passes), None)


def _timed(profile: Profile) -> dict[str, Any]:
    info = _info(profile, "timing", "timeline")
    found = profile.view("steps")
    # a timeline's steps carry its instrument's cost, but for an imported one there are no others
    times = found.get("timing") or (found.get("timeline") if profile.manifest.source is not None else None)
    low, median, high = (ns / 1e6 for ns in times.quartiles_ns) if times else (None, None, None)
    return {
        "device": info.device if info else None,
        "preset": info.preset if info else None,
        "batch_size": info.batch_size if info else None,
        "precision": info.precision if info else None,
        "mode": info.mode if info else None,
        "threads": info.torch.get("threads") if info else None,
        "step_ms": median,
        "step_ms_q1": low,
        "step_ms_q3": high,
        "samples_per_s": times.samples_per_s if times else None,
    }


def _counted(profile: Profile) -> dict[str, Any]:
    info = _info(profile, "operators")
    work, moved = profile.view("complexity"), profile.view("memory")
    return {
        "counted_preset": info.preset if info else None,
        "counted_batch_size": info.batch_size if info else None,
        "params_total": work.params_total if work else None,
        "flops_matrix_step": work.flops_matrix_step if work else None,
        "flops_all_step": work.flops_all_step if work else None,
        "bytes_step": work.bytes_read + work.bytes_written if work else None,
        "peak_bytes": moved.live.peak_bytes if moved else None,
        "coverage_calls": work.coverage_calls if work else None,
    }


def _hotspot(profile: Profile) -> dict[str, Any]:
    found = profile.view("hotspots")
    if found is None or found.to_frame().empty:
        return {"top_hotspot": None, "top_share": None}
    first = found.to_frame().iloc[0]
    return {"top_hotspot": str(first["name"]), "top_share": float(first["time_share"])}
