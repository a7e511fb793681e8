"""Sums by name: of files that hold nothing else, and of calls of the runtime, which are too many to list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.executions import codes, is_text, whole
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "timeline"
COLUMNS = ("kind", "name", "device", "calls", "total_ns", "mean_ns", "median_ns", "minimum_ns", "maximum_ns")


@dataclass(frozen=True)
class Totals(Shown):
    """Sums of the whole record by kind (kernel, runtime or range), name and device, longest first within each kind.

    ``rows`` has the `COLUMNS`; of several ranks, times and calls are added up, and the median is known of one only.
    ``listed`` says whether the sums are a file's own (table `totals`) or made of single calls (table `runtime`).
    """

    source: Source
    listed: bool
    ranks: int
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def to_dict(self) -> dict[str, Any]:
        told = {"listed": self.listed, "ranks": self.ranks}
        return {**self.source.to_dict(), **told, "rows": self.rows.to_dict("records")}

    def __repr__(self) -> str:
        top = self.rows.head(10).itertuples()
        lines = [f"  {row.kind:8} {row.calls:>9,} calls  {row.name}" for row in top]
        return "\n".join([f"Sums by name ({self.source}; {len(self.rows)} names)", *lines])


def totals(profile: Profile, passname: str = _PASS) -> Totals | None:
    """Sums by name of a record: those that a file holds, else those of its runtime calls; None without either."""
    origin = source(profile, passname)
    if origin is None:
        return None
    table = profile.arrow("totals")
    table = table.filter(is_text(table["pass"], passname))
    if table.num_rows:
        return Totals(origin, True, len(np.unique(whole(table["rank"]))), _own(table.to_pandas()))
    return _runtime(profile, passname, origin)


def _own(frame: pd.DataFrame) -> pd.DataFrame:
    """The file's rows, those of several ranks put together."""
    frame = frame.astype({"kind": str, "name": str, "device": object})
    groups = frame.groupby(["kind", "name", "device"], dropna=False, sort=False)
    made = groups.agg(
        calls=("calls", "sum"),
        total_ns=("total_ns", "sum"),
        median_ns=("median_ns", "first"),
        minimum_ns=("minimum_ns", lambda least: least.min(skipna=False)),
        maximum_ns=("maximum_ns", lambda most: most.max(skipna=False)),
    ).reset_index()
    made["median_ns"] = made["median_ns"].where(groups.size().to_numpy() == 1)
    made["mean_ns"] = made["total_ns"] / made["calls"].where(made["calls"] > 0)
    return _ordered(made)


def _runtime(profile: Profile, passname: str, origin: Source) -> Totals | None:
    table = profile.columns("runtime", ["pass", "rank", "name", "duration_ns"])
    table = table.filter(is_text(table["pass"], passname))
    if not table.num_rows:
        return None
    name, names = codes(table["name"])
    duration = pd.Series(whole(table["duration_ns"])).groupby(name)
    made = pd.DataFrame(
        {
            "calls": duration.size(),
            "total_ns": duration.sum().astype("float64"),
            "mean_ns": duration.mean(),
            "median_ns": duration.median(),
            "minimum_ns": duration.min().astype("float64"),
            "maximum_ns": duration.max().astype("float64"),
        }
    )
    made = made.assign(kind="runtime", name=[names[i] for i in made.index], device=None)
    return Totals(origin, False, len(np.unique(whole(table["rank"]))), _ordered(made))


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    kept = frame[list(COLUMNS)].astype({"device": object})
    return kept.sort_values(["kind", "total_ns", "name"], ascending=[True, False, True], ignore_index=True)
