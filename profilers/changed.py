"""A task counted anew as a change has it, on fake tensors, and what its record's own fit still says of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wcbench import record
from wcbench.errors import TaskError
from wcbench.profilers.changes import Change

if TYPE_CHECKING:
    import pandas as pd

    from wcbench.tasks.base import Task

FOOTPRINT = "equal footprint"
TWO_POINTS, ALL_POINTS = (1, 2), (1, 2, 4)
"""Batches that a changed task is counted at, as multiples: a line needs two, which tell no error. So two are enough
where the record itself, counted at three, lies on its line. Where it does not, or is continued to a longer sequence
(its bent peak of live bytes too), all are, so that both are fitted alike."""

MOST_TIMES = 1000
CLOSE = 1.25
"""Of an equal footprint: the largest batch as a multiple of the record's, and how far a batch of 1 may exceed it."""

_OF_THE_FIT = ("flops_matrix", "flops_all", "bytes_read", "bytes_written")
_PEAK_FEATURES = frozenset({"footprint_per_sample", "footprint_fixed", "all"})
_STRAIGHT = 1e-6
"""Relative error up to which a line over the batch counts as exact."""


def captured(profile: record.Profile, change: Change, *, fit: bool) -> record.Profile:
    """The changed task, counted anew; with ``fit`` at several batches, for its fixed and per-sample parts."""
    from wcbench.profilers.capture import capture
    from wcbench.profilers.request import Request
    from wcbench.tasks.load import load_task

    manifest = profile.manifest
    info = manifest.passes["operators"]
    task = load_task(manifest.task)
    info = as_asked(profile, task, info)
    asked: dict[str, Any] = {
        "passes": ("operators",),
        "preset": info.preset,
        "variant": manifest.variant,
        "batch_size": info.batch_size,
        "precision": info.precision or "fp32",
        "overrides": _overrides(task, info) | dict(change.options.get("overrides", {})),
        "seed": info.seed or 0,
        "mode": info.mode,
        "scaling": fit,
        "factors": TWO_POINTS if keeps_its_line(profile, {}) else ALL_POINTS,
        **{name: value for name, value in change.options.items() if name != "overrides"},
    }
    found = capture(task, Request(**asked))
    if found.passes["operators"].preset != info.preset:
        raise TaskError(f"{change.name}: the task does not run on fake tensors when so changed.")
    return record.new_profile(
        task=manifest.task,
        variant=asked["variant"],
        suites=manifest.suites,
        machine=manifest.machine,
        command=("wcbench study",),
        passes=found.passes,
        tables=found.tables,
        notes=found.notes,
    )


def counted_settings(task: Task, preset: str) -> dict[str, Any]:
    """Settings as a record of a preset's operators has them: where the recurrence is unrolled, the length is short."""
    found = _plain(vars(task.presets[preset]))
    if task.length is not None and task.unrolled and found[task.length] > max(task.unrolled):
        found[task.length] = max(task.unrolled)
    return found


def as_asked(profile: record.Profile, task: Task, info: record.PassInfo) -> record.PassInfo:
    """How the operators were asked for: a stream that was counted at a short length stands for its longer one."""
    if task.length is None or "scaling" not in profile.tables:
        return info
    rows = profile.table("scaling")
    if rows["recorded"].all() or rows["length"].isna().all():
        return info
    return dataclasses.replace(info, settings={**info.settings, task.length: int(rows["length"].max())})


def _overrides(task: Task, info: record.PassInfo) -> dict[str, str]:
    """Settings of the record that are not the preset's own."""
    preset = task.presets.get(info.preset or "")
    own = {} if preset is None else _plain(vars(preset))
    given = {name: value for name, value in info.settings.items() if name != "batch_size" and own.get(name) != value}
    return {name: ",".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for name, v in given.items()}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(settings), default=str))
    return found


# --- the record's own fit ---------------------------------------------------------------------------------------------


def straight(profile: record.Profile, options: Mapping[str, Any]) -> bool:
    """Whether what features take of the fit lies on its line over the batch.

    The peak of live bytes often bends; it counts only where a feature is asked for that needs its line.
    """
    if "scaling" not in profile.tables:
        return False
    wanted = {*_OF_THE_FIT, *(["live_peak_bytes"] if _PEAK_FEATURES & set(options.get("features", ())) else [])}
    rows = profile.table("scaling")
    rows = rows[(rows["phase"] == "all") & rows["quantity"].isin(wanted)]
    return bool(len(rows) and (rows["error"] <= _STRAIGHT).all())


def keeps_its_line(profile: record.Profile, options: Mapping[str, Any]) -> bool:
    """Whether a change of the batch alone leaves the line where it is: it is straight, and was counted at the preset's
    own length."""
    return straight(profile, options) and bool(profile.table("scaling")["recorded"].all())


def with_own_fit(changed: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Values that only the fit gives are the record's own: a batch on the line leaves the line where it is."""
    known = base.set_index("feature")["value"]
    lacks = changed["value"].isna() & changed["reason"].str.contains("no fit over batch sizes", regex=False)
    found = changed.copy()
    found.loc[lacks, "value"] = found.loc[lacks, "feature"].map(known)
    found.loc[lacks, "remark"] = "the record's own fit over batch sizes, which is exact"
    found.loc[lacks & found["value"].notna(), "reason"] = ""
    return found


def equal_footprint(profile: record.Profile, wanted: int) -> Change | str:
    """The batch whose step comes nearest to a peak of live bytes, by the record's fit; or why there is none.

    A batch beyond MOST_TIMES the record's own is another task: nobody trains so, and data sets end before.
    """
    if "scaling" not in profile.tables:
        return "the record has no fit over batch sizes"
    rows = profile.table("scaling")
    peak = rows[(rows["phase"] == "all") & (rows["quantity"] == "live_peak_bytes") & rows["recorded"]]
    info = profile.manifest.passes["operators"]
    if peak.empty or not info.samples or not info.batch_size:
        return "the record does not tell how its footprint grows with the batch"
    longest = peak[peak["length"].isna() | (peak["length"] == peak["length"].max())]
    row = longest.loc[(longest["fixed"] + longest["per_sample"]).idxmax()]
    if not row["per_sample"] > 0:
        return "its footprint does not grow with the batch"
    fixed, slope = float(row["fixed"]), float(row["per_sample"]) * info.samples / info.batch_size
    if fixed + slope > CLOSE * wanted:
        return f"a batch of 1 takes {(fixed + slope) / 2**30:.3g} GiB already"
    batch = max(1, round((wanted - fixed) / slope))
    if batch > MOST_TIMES * info.batch_size:
        return f"it would take a batch of {batch:,}, {batch / info.batch_size:,.0f} times the published one"
    return Change(FOOTPRINT, "footprint", {"batch_size": batch}, refit=False)
