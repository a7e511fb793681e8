"""Measures of diversity over subsets of every size: curves on which two suites can be read at one number of tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.pairing import Floats, Pair, subsets, tidy
from wcbench.analysis.rarefaction import hull_areas, mean_distances, mean_ranges, principal
from wcbench.analysis.vendi import gaussian, subset_scores

DRAWS = 300
LOW, HIGH = 2.5, 97.5
COLUMNS = ("measure", "suite", "m", "mean", "low", "high", "subsets", "exact")
Measure = Callable[[NDArray[np.intp]], Floats]


def rarefaction_curves(pair: Pair, points: Floats, *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """Mean and middle 95 % of each measure over subsets of m tasks, for both suites and every m.

    All subsets of a size where there are at most ``draws``, else seeded ones. Columns COLUMNS; a full suite is its only
    subset, so that its band is a point.
    """
    rows = []
    for name, (least, measure) in _measures(points).items():
        for label, members in ((pair.label_a, pair.a), (pair.label_b, pair.b)):
            for m in range(least, len(members) + 1):
                picks = members[subsets(len(members), m, limit=draws, draws=draws, seed=seed + m)]
                values = measure(picks)
                low, high = np.percentile(values, [LOW, HIGH])
                exact = len(picks) == math.comb(len(members), m)
                figures = (tidy(float(values.mean())), tidy(float(low)), tidy(float(high)))
                rows.append((name, label, m, *figures, len(picks), exact))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _measures(points: Floats) -> Mapping[str, tuple[int, Measure]]:
    """Tasks that each measure needs, and the measure of subsets (rows of places)."""
    distances = squareform(pdist(points))
    flat = principal(points, 2)
    found: dict[str, tuple[int, Measure]] = {
        "mean pairwise distance": (2, lambda picks: mean_distances(distances, picks)),
        "range": (2, lambda picks: mean_ranges(points, picks)),
        "hull area": (3, lambda picks: hull_areas(flat, picks)),
    }
    upper = distances[np.triu_indices(len(distances), 1)]
    median = float(np.median(upper)) if len(upper) else 0.0
    if median > 0:
        kernel = gaussian(distances, median)
        found["Vendi score, q = 1, bandwidth 1 x median"] = (1, lambda picks: subset_scores(kernel, picks, 1.0))
    return found
