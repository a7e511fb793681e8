"""Hardware counters by kernel and metric, and the five of AIBench.

Files of nvprof hold means over all executions of a kernel, those of Nsight Compute one value per execution; both are
weighted by executions here. Names are Nsight Compute's where nvprof's value can be converted (see `counter_names`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.counter_names import WORKED_OUT, Metric, Terms, names
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "counters"
FORMULAS = "pyprof."
"""Beginning of the metrics that are formulas of PyProf on an operator's arguments, no counters of the hardware."""

COLUMNS = (
    "kernel", "metric", "unit", "value", "minimum", "maximum", "calls", "missing", "given", "known", "time_ns",
    "time_value",
)  # fmt: skip
WORKED = "worked out"
"""In column `given`: the value is made of others by the list of names."""

_NSIGHT = re.compile(r"[a-z0-9]+__[a-z]")
_NAMED_KEYS = ["kernel", "metric", "unit", "given", "known"]


@dataclass(frozen=True)
class Counters(Shown):
    """Values by kernel and metric.

    ``rows`` has a row per kernel name, metric, unit and name that the file gave it (``given``), with the columns

    - value: mean over executions, each counting once; minimum, maximum: among all executions, as far as files tell;
    - calls: executions with a value, missing: executions without one (the profiler had none);
    - known: whether the list of names holds the metric;
    - time_ns: time of the executions with a value, time_value: mean weighted by that time; both NaN where the duration
      of one of them is not in the record.
    """

    source: Source
    rows: pd.DataFrame

    @property
    def hardware(self) -> bool:
        """Whether any of them is a counter of the hardware; PyProf's FLOPs and bytes are none."""
        return not bool(self.rows["metric"].str.startswith(FORMULAS).all())

    @property
    def nvidia(self) -> bool:
        """Whether any is named as nvprof or Nsight Compute name theirs."""
        return bool((self.rows["known"] | self.rows["given"].str.match(_NSIGHT)).any())

    @property
    def unknown(self) -> tuple[str, ...]:
        """Metrics that the list of names does not hold: they stand under the file's names."""
        other = self.rows.loc[~self.rows["known"] & ~self.rows["metric"].str.startswith(FORMULAS), "metric"]
        return tuple(sorted(set(other)))

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def to_dict(self) -> dict[str, Any]:
        """As JSON's own types; null where a value is absent."""
        records = self.rows.to_dict("records")
        return {**self.source.to_dict(), "rows": [{str(k): _plain(v) for k, v in row.items()} for row in records]}

    def __repr__(self) -> str:
        kernels, metrics = self.rows["kernel"].nunique(), self.rows["metric"].nunique()
        head = f"Counters (mean per execution; {self.source}; {kernels} kernels, {metrics} metrics)"
        first = self.rows.head(10)
        columns = (first[name] for name in ("value", "unit", "metric", "kernel"))
        lines = [f"  {v:14,.6g} {u:8} {metric}  {kernel[:60]}" for v, u, metric, kernel in zip(*columns, strict=True)]
        return "\n".join([head, *lines])


def counters(profile: Profile) -> Counters | None:
    """Counters of a record; None where it has none."""
    frame = profile.table("counters")
    if frame.empty:
        return None
    # files of another kind than counters' can hold values too
    origin = source(profile, _PASS) or source(profile, str(frame["pass"].iloc[0]))
    if origin is None:
        return None
    rows = _grouped(_canonical(frame, _durations(profile)))
    made = [row for metric in names().metrics if metric.form in WORKED_OUT for row in _worked_out(rows, metric)]
    if made:
        rows = pd.concat([rows, pd.DataFrame(made, columns=list(COLUMNS))], ignore_index=True)
    return Counters(origin, _ordered(rows))


def _ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """AIBench's metrics first, then those that the list of names holds, then the others; within each those with a value
    first, and by name."""
    first = {way.metric for ways in _WAYS.values() for way in ways}
    place = np.where(rows["metric"].isin(first), 0, np.where(rows["known"].astype(bool), 1, 2))
    marked = rows.assign(place=place, empty=rows["value"].isna())
    ordered = marked.sort_values(["place", "empty", "metric", "kernel", "unit", "given"], ignore_index=True)
    return ordered.drop(columns=["place", "empty"])


def _durations(profile: Profile) -> pd.Series:
    """Nanoseconds by row of table kernels."""
    found: pd.Series[Any] = profile.columns("kernels", ["duration_ns"])["duration_ns"].to_pandas()
    return found


def _canonical(frame: pd.DataFrame, durations: pd.Series) -> pd.DataFrame:
    """The table's rows under the names of the views, values converted, with weights."""
    given, unit = frame["metric"].astype(str), frame["unit"].astype(str)
    pairs = pd.MultiIndex.from_arrays([given, unit])
    codes, unique = pairs.factorize()
    found = [names().canonical(metric, own) for metric, own in unique]
    factor = np.array([name.factor for name in found])[codes]
    kernel = frame["kernel"]
    return pd.DataFrame(
        {
            "kernel": frame["name"].astype(str),
            "metric": np.array([name.metric for name in found], dtype=object)[codes],
            "unit": np.array([name.unit or own for name, (_, own) in zip(found, unique, strict=True)], object)[codes],
            "given": given.to_numpy(),
            "known": np.array([name.known for name in found])[codes],
            "value": frame["value"].to_numpy() * factor,
            "minimum": frame["minimum"].fillna(frame["value"]).to_numpy() * factor,
            "maximum": frame["maximum"].fillna(frame["value"]).to_numpy() * factor,
            "calls": frame["calls"].fillna(1).to_numpy(np.float64),
            "time_ns": durations.reindex(kernel.fillna(-1).astype("int64")).to_numpy(np.float64),
        }
    )


def _grouped(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel, metric, unit and given name."""
    there = frame["value"].notna()
    frame = frame.assign(
        weighted=(frame["value"] * frame["calls"]),
        timed=(frame["value"] * frame["time_ns"]),
        missing=frame["calls"].where(~there, 0.0),
        calls=frame["calls"].where(there, 0.0),
        time_ns=frame["time_ns"].where(there, 0.0),
        untimed=there & frame["time_ns"].isna(),
    )
    groups = frame.groupby(_NAMED_KEYS, observed=True, sort=False)
    found = groups[["weighted", "timed", "calls", "missing", "time_ns", "untimed"]].sum()
    found["minimum"], found["maximum"] = groups["minimum"].min(), groups["maximum"].max()
    found["value"] = found["weighted"] / found["calls"].where(found["calls"] > 0)
    whole = (found["untimed"] == 0) & (found["time_ns"] > 0)
    found["time_value"] = found["timed"].where(whole) / found["time_ns"].where(whole)
    found["time_ns"] = found["time_ns"].where(whole)
    counted = found.reset_index().astype({"calls": "int64", "missing": "int64"})
    return counted[list(COLUMNS)]


def _worked_out(rows: pd.DataFrame, metric: Metric) -> list[dict[str, Any]]:
    """Rows of an nvprof metric that several of Nsight Compute's make up, of kernels that have them all."""
    wanted = [term for term, _ in (*metric.terms, *metric.over)]
    parts = rows[rows["metric"].isin(wanted)]
    made = []
    for kernel, mine in parts.groupby("kernel", observed=True, sort=True):
        values = dict(zip(mine["metric"], mine["value"], strict=True))
        calls = mine["calls"].unique()
        if set(values) != set(wanted) or len(calls) != 1 or mine["missing"].any():
            continue  # sums of means are means of sums where they are of the same executions
        above, below = _sum(values, metric.terms), _sum(values, metric.over) if metric.over else 1.0
        if below:
            row = dict.fromkeys(COLUMNS, math.nan) | {"kernel": kernel, "metric": metric.nvprof} | _GIVEN
            unit = "%" if metric.over else ""
            row |= {"unit": unit, "value": metric.scale * above / below, "calls": int(calls[0]), "missing": 0}
            made.append(row)
    return made


_GIVEN = {"given": WORKED, "known": True}


def _sum(values: Mapping[str, float], terms: Terms) -> float:
    return float(sum(factor * values[term] for term, factor in terms))


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


# --- AIBench's five -------------------------------------------------------------------------------------------------

Five = Mapping[str, "Figure"]


@dataclass(frozen=True)
class Figure:
    """One of the five over all kernels, as a fraction of 1; None with the reason.

    ``metric`` is the counter that it is made of, ``calls`` the executions that have it, ``coverage`` their share of
    all executions with counters, ``remark`` what to know of it.
    """

    value: float | None
    reason: str | None = None
    metric: str | None = None
    calls: int = 0
    coverage: float = 0.0
    remark: str | None = None


@dataclass(frozen=True)
class _Way:
    """One counter that a figure can be made of: the counter's value over ``peak``."""

    metric: str
    peak: float = 100.0
    unit: str = "%"
    remark: str | None = None
    given: str = ""


_EFFICIENCY = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"
_IPC = "sm__inst_executed.avg.per_cycle_active"
_BROADCAST = "nvprof's figure goes beyond 1 where a warp broadcasts"
_WAYS: dict[str, tuple[_Way, ...]] = {
    "achieved_occupancy": (_Way("sm__warps_active.avg.pct_of_peak_sustained_active"),),
    "ipc_efficiency": (_Way("sm__inst_executed.avg.pct_of_peak_sustained_active"),),
    "gld_efficiency": (_Way(_EFFICIENCY.format("ld"), remark=_BROADCAST),),
    "gst_efficiency": (_Way(_EFFICIENCY.format("st"), remark=_BROADCAST),),
    "dram_utilization": (
        _Way("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        _Way("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", remark="of the GPU's DRAM throughput"),
        _Way("dram_utilization", 10.0, "level", "nvprof's whole levels from 0 to 10: known to a tenth at best"),
    ),
}
_SCHEDULERS = 4.0
"""Instructions that an SM of compute capability 7.0 and later issues per cycle, and so those of all that Nsight Compute
profiles today; one per scheduler."""

_VOLTA = ("V100", "TITAN V", "GV100")


def aibench_five(profile: Profile, *, weight: str = "executions", ipc_peak: float | None = None) -> Five:
    """AIBench Training's five counters over all profiled kernels, as fractions of 1.

    Parameters
    ----------
    weight : "executions" counts each execution of a kernel once, "time" by its duration.
    ipc_peak : instructions that an SM of the device can issue per cycle, to make ipc_efficiency of nvprof's `ipc`;
        4 is known for compute capability 7.0 and later.

    Raises
    ------
    ValueError : another weight, or a peak that is not above 0.
    """
    if weight not in ("executions", "time") or (ipc_peak is not None and not ipc_peak > 0):
        raise ValueError(f"weight is {weight!r}, ipc_peak {ipc_peak!r}")
    found = counters(profile)
    if found is None:
        return {name: Figure(None, "the record holds no counters") for name in _WAYS}
    ways = dict(_WAYS)
    ways["ipc_efficiency"] = (*ways["ipc_efficiency"], *_ipc_ways(profile, ipc_peak))
    figures = {name: _figure(found.rows, tried, weight) for name, tried in ways.items()}
    if figures["ipc_efficiency"].value is None and (found.rows["given"] == "ipc").any():
        figures["ipc_efficiency"] = Figure(
            None, "nvprof gives ipc, and how many instructions an SM of this device issues is not known: give ipc_peak"
        )
    return figures


def _ipc_ways(profile: Profile, peak: float | None) -> list[_Way]:
    gpus = profile.manifest.machine.get("gpus") or ()
    volta = [any(word in str(gpu.get("name")) for word in _VOLTA) for gpu in gpus if isinstance(gpu, Mapping)]
    known = peak if peak is not None else _SCHEDULERS if volta and all(volta) else None
    remark = "executed instructions per cycle over {:g}, the most that an SM issues"
    ncu = peak or _SCHEDULERS
    ways = [_Way(_IPC, ncu, "", remark.format(ncu), given="ncu")]
    return ways if known is None else [*ways, _Way(_IPC, known, "", remark.format(known), given="ipc")]


def _executions(rows: pd.DataFrame) -> int:
    """Executions of all kernels: of each, those of the metric that most have."""
    return int((rows["calls"] + rows["missing"]).groupby(rows["kernel"]).max().sum())


def _figure(rows: pd.DataFrame, ways: tuple[_Way, ...], weight: str) -> Figure:
    """The figure by the first counter that the record holds."""
    for way in ways:
        mine = rows[(rows["metric"] == way.metric) & (rows["calls"] > 0)]
        if way.given:
            mine = mine[(mine["given"] == "ipc") == (way.given == "ipc")]
        if way.unit:
            mine = mine[mine["unit"] == way.unit]
        mine = mine.drop_duplicates("kernel")  # one quantity can be there under two names
        if mine.empty:
            continue
        column, share = ("time_value", mine["time_ns"]) if weight == "time" else ("value", mine["calls"])
        if share.isna().any():
            return Figure(None, "durations of executions are not in the record", way.metric)
        value = float((mine[column] * share).sum() / share.sum()) / way.peak
        calls = int(mine["calls"].sum())
        return Figure(value, None, way.metric, calls, calls / _executions(rows), way.remark)
    wanted = " or ".join(way.metric for way in ways if way.unit != "level")
    return Figure(None, f"the record holds no value of {wanted}")
