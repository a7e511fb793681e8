"""What a study takes of each record: features, costs, times by function, misses by capacity; tables of their own.

So a study works on small tables, and goes on where it stopped without reading a record twice (`study_parts`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench import devices
from wcbench.analysis.costs import UNITS_OF_WORK, workload_costs
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import TOYS, NotMeasuredError, device_of, forget
from wcbench.analysis.definitions.opmix import REFERENCE_DEVICE, types
from wcbench.analysis.definitions.parts import CAPACITIES
from wcbench.analysis.features import FACETS, chosen, evaluate
from wcbench.analysis.hotspots import DEVICE_TIME
from wcbench.analysis.roofline import MEMORY, roofline
from wcbench.analysis.source import timed_pass

if TYPE_CHECKING:
    from wcbench.record import Profile

COST_COLUMNS = ("workload", "work", "source", "unit", "value", "reason")
HOTSPOT_COLUMNS = ("workload", "source", "device", "function", "seconds")
MISS_COLUMNS = ("workload", "capacity", "miss_ratio")
ROOFLINE_COLUMNS = (
    "workload", "device", "flops", "bytes", "intensity", "least_seconds", "attainable", "memory_bound_share"
)  # fmt: skip
FRAMES = ("values", "costs", "hotspots", "miss_ratios", "roofline")
MISS_CAPACITIES = tuple(sorted({*(2**power for power in range(14, 38)), *CAPACITIES.values()}))
"""Bytes: powers of two from 16 KiB to 128 GiB, and the capacities of the features."""

PREDICTED, ON_GPU, ON_CPU = "roofline-predicted", "measured GPU", "measured CPU"


def evaluate_record(profile: Profile, workload: str, options: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Frames of one record: "values" (rows of `features.evaluate`), and if ``options["whole"]`` all of FRAMES.

    ``options["features"]`` are the features of the study; those of the facets are evaluated too.
    """
    names = [d.name for d in chosen([*options["features"], *facet_features()])]
    found = {"values": evaluate(profile, names, workload)}
    if options.get("whole"):
        found |= {
            "costs": _costs(profile, workload),
            "hotspots": _hotspots(profile, workload),
            "miss_ratios": _miss_ratios(profile, workload),
            "roofline": _roofline(profile, workload),
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
    found = _under_the_roof(profile)
    if found is None:
        return []
    return [(PREDICTED, devices.device(REFERENCE_DEVICE).name, found.groupby(found.index)["seconds"].sum())]


def _under_the_roof(profile: Profile) -> pd.DataFrame | None:
    """Operators of an average step by name: flops, bytes, seconds (0 where none is predicted), and whether memory is
    the bound; of a record whose steps differ in kind, each kind weighs its share."""
    try:
        frame = stream.calls(profile)
    except NotMeasuredError:
        return None
    device = devices.device(REFERENCE_DEVICE)
    found, _ = roofline(frame["name"].tolist(), frame["flops"], frame["bytes"], types(profile), device)
    if found is None:
        return None
    share = frame["share"].to_numpy()
    seconds = found.rows["time_s"].to_numpy(np.float64, na_value=0.0) * share
    columns = {"flops": frame["flops"].to_numpy() * share, "bytes": frame["bytes"].to_numpy() * share}
    bound = (found.rows["bound"] == MEMORY).fillna(False).to_numpy(bool)
    return pd.DataFrame({**columns, "seconds": seconds, "memory": bound}, index=frame["name"].astype(str).to_numpy())


def _roofline(profile: Profile, workload: str) -> pd.DataFrame:
    """The step under the roof of the reference device; no row where it has no operator stream."""
    found = _under_the_roof(profile)
    rows = []
    if found is not None and found["seconds"].sum() > 0:
        flops, moved, seconds = (float(found[name].sum()) for name in ("flops", "bytes", "seconds"))
        bound = float(found.loc[found["memory"], "seconds"].sum()) / seconds
        name, intensity = devices.device(REFERENCE_DEVICE).name, flops / moved if moved else math.nan
        rows.append((workload, name, flops, moved, intensity, seconds, flops / seconds, bound))
    return pd.DataFrame(rows, columns=list(ROOFLINE_COLUMNS))


def _miss_ratios(profile: Profile, workload: str) -> pd.DataFrame:
    """Share of the touched bytes that miss in an LRU cache of each of MISS_CAPACITIES, warmed by the step before."""
    try:
        rows = [(workload, capacity, stream.missed(profile, capacity)) for capacity in MISS_CAPACITIES]
    except NotMeasuredError:
        rows = []
    return pd.DataFrame(rows, columns=list(MISS_COLUMNS))
