"""What a study takes of each record: rows of features, costs, and times by function; kept as tables of their own.

So a study works on small tables, and goes on where it stopped without reading a record twice.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench import devices
from wcbench.analysis.costs import UNITS_OF_WORK, Cost, workload_costs
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import TOYS, NotMeasuredError, device_of, forget
from wcbench.analysis.definitions.opmix import REFERENCE_DEVICE, types
from wcbench.analysis.features import FACETS, chosen, evaluate
from wcbench.analysis.hotspots import DEVICE_TIME
from wcbench.analysis.roofline import roofline
from wcbench.analysis.source import timed_pass

if TYPE_CHECKING:
    from wcbench.record import Profile

COST_COLUMNS = ("workload", "work", "source", "unit", "value", "reason")
HOTSPOT_COLUMNS = ("workload", "source", "device", "function", "seconds")
PREDICTED, ON_GPU, ON_CPU = "roofline-predicted", "measured GPU", "measured CPU"


def evaluate_record(profile: Profile, workload: str, options: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Frames of one record: "values" (rows of `features.evaluate`) and, if ``options["whole"]``, "costs", "hotspots".

    ``options["features"]`` are the features of the study; those of the facets are evaluated too.
    """
    names = [d.name for d in chosen([*options["features"], *facet_features()])]
    if not options.get("whole"):
        changed = {"values": evaluate(profile, names, workload)}
        forget(profile)
        return changed
    found = {
        "values": evaluate(profile, names, workload),
        "costs": _costs(profile, workload),
        "hotspots": _hotspots(profile, workload),
    }
    forget(profile)
    return found


def facet_features() -> tuple[str, ...]:
    """Features that some facet compares."""
    return tuple(dict.fromkeys(name for names in FACETS.values() for name in names))


def _costs(profile: Profile, workload: str) -> pd.DataFrame:
    rows = [
        (workload, cost.work, cost.source, cost.unit, math.nan if cost.value is None else cost.value, cost.reason)
        for work in UNITS_OF_WORK
        for cost in workload_costs(profile, work)
    ]
    return pd.DataFrame(rows, columns=list(COST_COLUMNS))


def costs_of(rows: pd.DataFrame, work: str) -> dict[str, tuple[Cost, ...]]:
    """Costs of a unit of work by workload, as `costs.one_kind` takes them, from stored rows."""
    found: dict[str, tuple[Cost, ...]] = {}
    for workload, group in rows[rows["work"] == work].groupby("workload", sort=True):
        found[str(workload)] = tuple(
            Cost(
                value=None if math.isnan(row["value"]) else row["value"],
                **{name: row[name] for name in ("unit", "work", "source", "reason")},
            )
            for row in group.to_dict("records")
        )
    return found


def _hotspots(profile: Profile, workload: str) -> pd.DataFrame:
    """Seconds by function: measured where kernels or host operators were timed, and predicted by the roofline."""
    rows: list[tuple[str, str, str, str, float]] = []
    for source, device, seconds in (*_measured(profile), *_predicted(profile)):
        rows += [(workload, source, device, str(name), float(time)) for name, time in seconds.items() if time > 0]
    return pd.DataFrame(rows, columns=list(HOTSPOT_COLUMNS))


def _measured(profile: Profile) -> list[tuple[str, str, pd.Series]]:
    """Time of kernels on a GPU, or of host operators by themselves on a CPU; at a toy's size it is no hotspot."""
    found = profile.view("hotspots")
    name = timed_pass(profile)
    info = profile.manifest.passes.get(name)
    if found is None or info is None or info.preset in TOYS:
        return []
    seconds = found.rows.groupby(found.rows["name"].astype(str))["time_ns"].sum() / 1e9
    return [(ON_GPU if found.of == DEVICE_TIME else ON_CPU, device_of(profile, info), seconds)]


def _predicted(profile: Profile) -> list[tuple[str, str, pd.Series]]:
    """Least seconds of each operator of an average step under the roof of the reference device."""
    try:
        frame = stream.calls(profile)
    except NotMeasuredError:
        return []
    device = devices.device(REFERENCE_DEVICE)
    found, _ = roofline(frame["name"].tolist(), frame["flops"], frame["bytes"], types(profile), device)
    if found is None:
        return []
    seconds = found.rows["time_s"].to_numpy(np.float64, na_value=0.0) * frame["share"].to_numpy()
    return [(PREDICTED, device.name, pd.Series(seconds).groupby(frame["name"].to_numpy()).sum())]


@cache
def code_fingerprint() -> str:
    """Twelve hex digits of all code that makes or derives rows: what other code made is not taken for this one's.

    That is this module, `profilers.changes`, whatever these import, and all tasks.
    """
    root = Path(devices.__file__).parent
    found = {root / "analysis/study_rows.py", root / "profilers/changes.py", root / "profilers/capture.py"}
    found |= {*root.glob("analysis/definitions/*.py"), *root.glob("tasks/**/*.py"), *root.glob("*.toml")}
    left = sorted(found)
    while left:
        text = left.pop().read_text(encoding="utf-8")
        names = (one or other for one, other in _IMPORT.findall(text))
        for name in names:
            file = root.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if file.is_file() and file not in found:
                found.add(file)
                left.append(file)
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(found))).hexdigest()[:12]


_IMPORT = re.compile(r"^\s*(?:from (wcbench[\w.]*) import|import (wcbench[\w.]*))", re.MULTILINE)


# --- reading back -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stored:
    """The parts of all workloads of a study.

    Attributes
    ----------
    values : rows of the records themselves. ``changed`` : rows of changed versions, with column ``change``.
    costs, hotspots : as `evaluate_record` makes them.
    changes : workload, change, kind, state (made, skipped or failed), reason.
    """

    values: pd.DataFrame
    changed: pd.DataFrame
    costs: pd.DataFrame
    hotspots: pd.DataFrame
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)


CHANGE_COLUMNS = ("workload", "change", "kind", "state", "reason")


def read_parts(folders: Mapping[str, Path]) -> Stored:
    """Read the parts of workloads, by name, from their folders."""
    frames: dict[str, list[pd.DataFrame]] = {"values": [], "changed": [], "costs": [], "hotspots": []}
    states: list[tuple[str, str, str, str, str]] = []
    for workload, folder in sorted(folders.items()):
        for name in ("values", "costs", "hotspots"):
            frames[name].append(_read(folder / f"base.{name}.parquet", workload))
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        for change, kind in plan["changes"]:
            found, reason = _read_change(folder, change, workload)
            if found is not None:
                frames["changed"].append(found.assign(change=change))
            states.append((workload, change, kind, "failed" if found is None else "made", reason))
        states += [(workload, name, name, "skipped", reason) for name, reason in plan["skipped"].items()]
    return Stored(
        **{name: _concat(parts) for name, parts in frames.items()},
        changes=pd.DataFrame(states, columns=list(CHANGE_COLUMNS)),
    )


def _read(file: Path, workload: str) -> pd.DataFrame:
    return pd.read_parquet(file).assign(workload=workload)


def _read_change(folder: Path, change: str, workload: str) -> tuple[pd.DataFrame | None, str]:
    slug = "".join(c if c.isalnum() or c in ".-" else "_" for c in change)
    file = folder / f"{slug}.values.parquet"
    if file.is_file():
        return _read(file, workload), ""
    failure = folder / f"{slug}.failed.json"
    if failure.is_file():
        return None, str(json.loads(failure.read_text(encoding="utf-8"))["reason"])
    return None, "it was not made"


def _concat(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    full = [part for part in parts if len(part)]
    return pd.concat(full, ignore_index=True) if full else (parts[0].copy() if parts else pd.DataFrame())


def of(rows: pd.DataFrame, workloads: Iterable[str]) -> pd.DataFrame:
    """The rows of these workloads."""
    return rows[rows["workload"].isin(set(workloads))] if len(rows) else rows
