"""Measures that grow with the number of tasks, made comparable: over subsets of one size, or left raw and labelled so.

Ranges, hulls, diameters, trees and numbers of classes of 19 tasks exceed those of 8 even where both come from one
population (METHOD 3.1); a raw one answers what a suite covers as shipped, never which suite is more diverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.pairing import Flags, Floats, Pair, subsets, tidy

Indices = NDArray[np.intp]
_BITS = 62
_BLOCK = 4096


def mean_range(points: Floats) -> float:
    """Mean over coordinates of maximum minus minimum."""
    return float(np.ptp(points, axis=0).mean())


def hull_volume(points: Floats) -> float:
    """Area (2-D) or volume (3-D) of the convex hull of n x d points; 0 where they are flat or too few."""
    if len(points) <= points.shape[1]:
        return 0.0
    try:
        # of Qhull, .volume is the content in every dimension; in 2-D .area is the perimeter
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0


def tree_length(points: Floats) -> float:
    """Length of the minimum spanning tree: the sum of single-linkage heights."""
    return float(linkage(pdist(points), "single")[:, 2].sum())


def principal(points: Floats, count: int) -> Floats:
    """First principal components of all workloads, blind to suites, largest loading positive; zeros beyond the rank."""
    from sklearn.decomposition import PCA

    if len(points) < 2 or not np.ptp(points, axis=0).any():
        return np.zeros((len(points), count))
    kept = min(count, *points.shape)
    model = PCA(kept, svd_solver="full").fit(points)
    signs = np.sign([row[np.abs(row).round(10).argmax()] for row in model.components_])
    found = np.zeros((len(points), count))
    found[:, :kept] = model.transform(points) * np.where(signs == 0, 1.0, signs)
    found[np.abs(found) <= 1e-12 * np.abs(points).max(initial=1e-300)] = 0.0
    return found


def hull_areas(points: Floats, members: Indices) -> Floats:
    """Areas of the convex hulls of subsets (rows of indices) of n points in the plane.

    A directed edge i -> j bounds the hull of a subset if it has i and j and no point to the right of the edge or on its
    line outside it; the area is half the sum of the edges' cross products. All subsets at once, with bit masks: 75 582
    subsets of 19 points take a quarter of a second where Qhull, one by one, takes four. Beyond 62 points: Qhull.
    """
    if len(points) > _BITS:
        return np.array([hull_volume(points[row]) for row in members])
    present = np.bitwise_or.reduce(np.uint64(1) << members.astype(np.uint64), axis=1)
    doubled = np.zeros(len(members))
    for i, j, blockers in _edges(points):
        ends = np.uint64((1 << i) | (1 << j))
        cross = points[i, 0] * points[j, 1] - points[i, 1] * points[j, 0]
        doubled[(present & (ends | blockers)) == ends] += cross
    return np.maximum(doubled / 2, 0.0)


def _edges(points: Floats) -> list[tuple[int, int, np.uint64]]:
    """Each directed edge and the mask of points that keep it from bounding a hull; of equal points the first counts."""
    side, n = _sides(points), len(points)
    found = []
    for i in range(n):
        for j in range(n):
            line = points[j] - points[i]
            length = float(line @ line)
            if i == j or length == 0.0:
                continue
            along = (points - points[i]) @ line
            outside = (side[i, j] == 0) & ((along < 0) | (along > length))
            same = [(points == points[end]).all(axis=1) & (np.arange(n) < end) for end in (i, j)]
            right = (side[i, j] < 0) | outside | same[0] | same[1]
            found.append((i, j, np.uint64(sum(1 << int(k) for k in np.flatnonzero(right) if k not in (i, j)))))
    return found


def _sides(points: Floats) -> NDArray[np.int64]:
    """Orientation of each triple, +1 left, -1 right, 0 on a line: worked out once a triple, so that no two disagree."""
    n = len(points)
    i, j, k = np.sort(np.indices((n, n, n)).reshape(3, -1), axis=0)
    u, v = points[j] - points[i], points[k] - points[i]
    cross = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    scale = float(np.ptp(points, axis=0).max(initial=0.0)) ** 2
    sign = np.where(np.abs(cross) <= 1e-12 * scale, 0, np.sign(cross)).reshape(n, n, n)
    i, j, k = np.indices((n, n, n))
    found: NDArray[np.int64] = (sign * -np.sign((i - j) * (j - k) * (i - k))).astype(np.int64)
    return found


def mean_ranges(points: Floats, members: Indices) -> Floats:
    """Mean over coordinates of the range of each subset."""
    total = np.zeros(len(members))
    for column in np.ascontiguousarray(points.T):
        values = column[members]
        total += values.max(axis=1) - values.min(axis=1)
    found: Floats = total / points.shape[1]
    return found


def mean_distances(distances: Floats, members: Indices) -> Floats:
    """Mean pairwise distance of each subset; its mean over all subsets of a size is the full suite's (U-statistic)."""
    size = members.shape[1]
    flags = np.zeros((len(members), len(distances)))
    np.put_along_axis(flags, members, 1.0, axis=1)
    found: Floats = ((flags @ distances) * flags).sum(axis=1) / (size * (size - 1))
    return found


@dataclass(frozen=True)
class Rarefied:
    """A measure of the larger suite over its subsets of the smaller one's size, and the smaller one's place in it.

    Attributes
    ----------
    larger, smaller : labels of the suites. ``size`` : tasks in a subset. ``subsets`` : how many were taken.
    exact : whether these are all there are; else seeded draws.
    mean, value : mean over the subsets; the smaller suite's own.
    share_above : share of the subsets with a larger value than the smaller suite's, ties counting half.
    reason : why the figures are None; empty where they are not.
    """

    measure: str
    larger: str
    smaller: str
    size: int
    subsets: int
    exact: bool
    mean: float | None
    value: float | None
    share_above: float | None
    reason: str = ""

    @property
    def words(self) -> str:
        """The comparison as a sentence."""
        if self.share_above is None:
            return f"{self.measure}: not compared, {self.reason}."
        if self.exact and self.subsets == 1:
            figures = f"{self.mean:.3g} in {self.larger} and {self.value:.3g} in {self.smaller}"
            return f"At equal size, the {self.measure} is {figures}."
        of = f"all {self.subsets}" if self.exact else f"{self.subsets} drawn"
        return (
            f"{100 * self.share_above:.0f} % of {of} {self.size}-task subsets of {self.larger} are more diverse than "
            f"{self.smaller} by {self.measure}."
        )

    def __repr__(self) -> str:
        return f"Rarefied({self.words})"

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([vars(self)])


def in_order(pair: Pair) -> tuple[str, str, Indices, Indices]:
    """Label of the larger suite, of the smaller, and their members; of equal ones a comes first."""
    if pair.sizes[0] >= pair.sizes[1]:
        return pair.label_a, pair.label_b, pair.a, pair.b
    return pair.label_b, pair.label_a, pair.b, pair.a


def place(measure: str, pair: Pair, values: Floats, own: Floats, exact: bool) -> Rarefied:
    """The smaller suite's value (one, or one a subset where the space is refitted) among those of the subsets."""
    larger, smaller, _, small = in_order(pair)
    near = np.abs(values - own) <= 1e-9 * np.maximum(1.0, np.abs(own))
    above = float(((values > own) & ~near).mean() + near.mean() / 2)
    mean, value = tidy(float(values.mean())), tidy(float(own.mean()))
    return Rarefied(measure, larger, smaller, len(small), len(values), exact, mean, value, tidy(above))


Fitted = Callable[[Flags, Flags], Floats]
"""Points of all workloads once the suites have these members: only for a space that depends on the labels."""

LEAST = {"range": 2, "mean pairwise distance": 2, "hull area": 3}
"""Measures that are rarefied, and the tasks that each needs."""


def rarefy(
    pair: Pair, points: Floats, *, seed: int = 0, draws: int = 10_000, refit: Fitted | None = None
) -> tuple[Rarefied, ...]:
    """Range, mean pairwise distance and hull area (first two principal components) at the smaller suite's size.

    Over all subsets of the larger suite if they are at most 200 000, else over seeded draws. With ``refit`` the space,
    which depends on the labels, is fitted anew to each subset against the smaller suite (all if at most ``draws``).
    """
    larger, smaller, big, small = in_order(pair)
    limit = 200_000 if refit is None else draws
    picks = subsets(len(big), len(small), limit=limit, draws=draws, seed=seed)
    exact = len(picks) == math.comb(len(big), len(small))
    spaces = [] if refit is None else _refitted(pair, big[picks], refit)
    found = []
    for name, least in LEAST.items():
        if len(small) < least:
            why = f"it needs {least} tasks, {smaller} has {len(small)}"
            found.append(Rarefied(name, larger, smaller, len(small), 0, exact, None, None, None, why))
        elif refit is None:
            found.append(place(name, pair, *_in_one_space(name, points, big[picks], small), exact))
        else:
            found.append(place(name, pair, *_in_each(name, spaces, big[picks], small), exact))
    return tuple(found)


def _in_one_space(name: str, points: Floats, picks: Indices, small: Indices) -> tuple[Floats, Floats]:
    """The measure of each subset, and of the smaller suite as an array of one."""
    own = small[None]
    if name == "hull area":
        flat = principal(points, 2)
        return hull_areas(flat, picks), hull_areas(flat, own)
    if name == "range":
        return mean_ranges(points, picks), mean_ranges(points, own)
    distances = squareform(pdist(points))
    return mean_distances(distances, picks), mean_distances(distances, own)


def _refitted(pair: Pair, picks: Indices, refit: Fitted) -> list[Floats]:
    """The space fitted to each subset of the larger suite and the smaller suite."""
    spaces = []
    for pick in picks:
        part = np.zeros(len(pair.names), bool)
        part[pick] = True
        first = pair.sizes[0] >= pair.sizes[1]
        spaces.append(refit(part, pair.in_b) if first else refit(pair.in_a, part))
    return spaces


def _in_each(name: str, spaces: list[Floats], picks: Indices, small: Indices) -> tuple[Floats, Floats]:
    """The measure of each subset, and of the smaller suite in the same space."""
    both = [_in_one_space(name, points, pick[None], small) for points, pick in zip(spaces, picks, strict=True)]
    return np.concatenate([values for values, _ in both]), np.concatenate([own for _, own in both])


SHIPPED: dict[str, tuple[Callable[[Floats], float], int, int]] = {
    "mean range": (mean_range, 0, 2),
    "hull area, PC1-2": (hull_volume, 2, 3),
    "hull volume, PC1-3": (hull_volume, 3, 4),
    "largest distance": (lambda points: float(pdist(points).max()), 0, 2),
    "length of the spanning tree": (tree_length, 0, 2),
}
"""What grows with the number of tasks: function, principal components it is of (0: all coordinates), tasks needed."""


def shipped(pair: Pair, points: Floats) -> pd.DataFrame:
    """Raw measures of both suites as they are: columns measure, a, b, ratio, size_dependent (true), reason.

    Across sizes they are never divided: there a ratio says more about the sizes than about the suites.
    """
    rows: list[tuple[object, ...]] = []
    equal = pair.sizes[0] == pair.sizes[1]
    for name, (measure, components, least) in SHIPPED.items():
        places = principal(points, components) if components else points
        a, b = (tidy(measure(places[i])) if len(i) >= least else None for i in (pair.a, pair.b))
        ratio = tidy(a / b) if equal and a is not None and b else None
        why = f"it needs {least} tasks" if a is None or b is None else "" if equal else "no ratio: the sizes differ"
        rows.append((name, a, b, ratio, True, why))
    found = pd.DataFrame(rows, columns=["measure", "a", "b", "ratio", "size_dependent", "reason"])
    return found.astype({"a": "float64", "b": "float64", "ratio": "float64"})
