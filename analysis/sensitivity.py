"""How much of a space hangs on what replaces the zeros of its compositions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis.recipe import Placed, Recipe
from wcbench.analysis.scales import Array
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import rows, to_space
from wcbench.errors import UsageError

MOST = 5000  # workloads: all their distances fit in 200 MB
TIE = 10  # decimals at which two distances are the same


@dataclass(frozen=True)
class DeltaSensitivity:
    """What the replacement of zeros in compositions does to the distances.

    ``frame`` has a row a delta: delta (in units of the floor), replaced (values below their floor), spearman (of all
    distances with those at ``base``), largest_change (of a distance, as a fraction), neighbours_changed (workloads
    whose nearest neighbour is another, as a fraction).
    """

    frame: pd.DataFrame
    base: float

    def to_frame(self) -> pd.DataFrame:
        return self.frame.copy()

    def __repr__(self) -> str:
        if not len(self.frame):
            return "DeltaSensitivity: no composition in the space, nothing is replaced"
        worst = self.frame.iloc[int(self.frame["spearman"].argmin())]
        return (
            f"DeltaSensitivity (against {self.base:g} of the floor): rank correlation of distances down to "
            f"{worst['spearman']:.3f} (at {worst['delta']:g}), distances change by up to "
            f"{100 * self.frame['largest_change'].max():.1f} %, nearest neighbours of up to "
            f"{100 * self.frame['neighbours_changed'].max():.0f} %"
        )


def delta_sensitivity(
    space: Placed, table: FeatureTable, deltas: Iterable[float] = (0.065, 0.325, 0.65, 1.0)
) -> DeltaSensitivity:
    """The space fitted again with other replacements of zeros, and its distances compared with the space's own."""
    from scipy.stats import rankdata

    recipe = space.recipe
    if len(recipe.fitted_on) > MOST:
        raise UsageError(
            f"{len(recipe.fitted_on)} workloads have too many distances to compare.", f"Draw at most {MOST} of them."
        )
    kept = rows(table, recipe.fitted_on)
    low = _replaced(recipe, kept)
    own = space.distances()
    pairs = np.triu_indices(len(own), 1)
    own_ranks, found = rankdata(np.round(own[pairs], TIE)), []
    for delta in deltas if any(c.transform == "clr" for c in recipe.coordinates) else ():
        other = to_space(
            kept, nulls=recipe.nulls, scale=recipe.scale, drop_blocks=recipe.drop_blocks, delta=delta
        ).distances()
        ranks = rankdata(np.round(other[pairs], TIE))
        apart = own[pairs] > 1e-10
        found.append(
            {
                "delta": float(delta),
                "replaced": low,
                "spearman": _correlation(own_ranks, ranks),
                "largest_change": float(np.abs(other[pairs][apart] / own[pairs][apart] - 1).max(initial=0.0)),
                "neighbours_changed": float(np.mean(_nearest(own) != _nearest(other))),
            }
        )
    names = ["delta", "replaced", "spearman", "largest_change", "neighbours_changed"]
    return DeltaSensitivity(pd.DataFrame(found, columns=names), recipe.delta)


def _replaced(recipe: Recipe, table: FeatureTable) -> int:
    """Values below their floor in the compositions."""
    parts = [c for c in recipe.coordinates if c.transform == "clr"]
    return sum(int((table.values[c.name] < (c.floor or 0)).sum()) for c in parts)


def _correlation(a: Array, b: Array) -> float:
    """Pearson's of two series of ranks; 1 where both are constant, NaN where one is."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 1.0 if np.ptp(a) == np.ptp(b) else float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def _nearest(distances: Array) -> Array:
    """Index of the nearest neighbour, of equals the first by name."""
    apart = np.round(distances, TIE)
    np.fill_diagonal(apart, np.inf)
    return np.asarray(apart.argmin(axis=1), np.float64)
