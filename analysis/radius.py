"""r*: how far a workload lies from itself under changes that leave it the same workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis.shown import Shown
from wcbench.errors import UsageError

QUANTILE = 0.95
_COLUMNS = ("workload", "change", "distance")


@dataclass(frozen=True, eq=False)
class RStar(Shown):
    """The radius below which two workloads cannot be told apart.

    r* is the 95 % quantile (linear between order statistics) of the distances between a workload and itself with half
    or twice the batch, other lengths of data, another precision and the like (METHOD 2.2). Not tuned, not multiplied.

    Attributes
    ----------
    value : r*, in the unit of the space.
    table : the distances it is from: workload, change, distance, sorted.
    left_out : rows without a distance, which count for nothing.
    """

    value: float
    table: pd.DataFrame
    left_out: int
    quantile: float = QUANTILE

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(sorted(self.table["workload"].unique()))

    @property
    def few(self) -> bool:
        """Whether so few distances stand behind it that the quantile lies between the two largest."""
        return (len(self.table) - 1) * (1 - self.quantile) < 1

    def to_frame(self) -> pd.DataFrame:
        """By change, largest median first: distances, median, largest, and the share of them beyond r*."""
        groups = self.table.groupby("change")["distance"]
        frame = pd.DataFrame({"distances": groups.size(), "median": groups.median(), "largest": groups.max()})
        frame["beyond"] = groups.apply(lambda found: float((found > self.value).mean()))
        return frame.reset_index().sort_values(["median", "change"], ascending=[False, True], ignore_index=True)

    def __repr__(self) -> str:
        head = f"r* = {self.value:.6g} ({100 * self.quantile:.0f} % quantile of {len(self.table)} distances"
        lines = [f"{head} of {len(self.workloads)} workloads to themselves, changed)"]
        if self.left_out:
            lines.append(f"  {self.left_out} changes without a distance are left out")
        if self.few:
            lines.append("  so few that it lies between the two largest")
        rows = self.to_frame().itertuples(index=False)
        return "\n".join([*lines, *(f"  {r.change}: median {r.median:.4g}, largest {r.largest:.4g}" for r in rows)])


def r_star(distances_of_changes: pd.DataFrame, quantile: float = QUANTILE) -> RStar:
    """r* from a table of (workload, change, distance); a null distance is left out and counted.

    Raises UsageError for a table without these columns or without any distance, or with one that is infinite or
    negative.
    """
    if lacking := [name for name in _COLUMNS if name not in distances_of_changes.columns]:
        raise UsageError(f"The table of changes lacks: {', '.join(lacking)}.", f"It needs {', '.join(_COLUMNS)}.")
    table = distances_of_changes[list(_COLUMNS)].astype({"workload": str, "change": str, "distance": float})
    known = table.dropna(subset=["distance"]).sort_values(list(_COLUMNS), ignore_index=True)
    if known.empty:
        raise UsageError(
            "r* cannot be told: there is no distance between a workload and itself under a change.",
            "Give the radius, or profile the workloads at other batch sizes and lengths of data as well.",
        )
    bad = known[~np.isfinite(known["distance"]) | (known["distance"] < 0)]
    if len(bad):
        raise UsageError(f"No distance: {bad['distance'].iloc[0]} of {bad['workload'].iloc[0]}.")
    value = float(np.quantile(known["distance"].to_numpy(), quantile))
    return RStar(value, known, len(table) - len(known), quantile)
