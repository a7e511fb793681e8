"""Many workloads (10^5 and more) made few: duplicates merged with weights, and points picked farthest first.

No matrix of all distances is ever made: time is O(n m) and memory O(n d) for n workloads of d coordinates and m points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from wcbench.analysis.programs import Floats
from wcbench.errors import UsageError

POINTS = 300
_PIECE = 2048
_DIGITS = 12

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Merged:
    """Workloads with those that are (nearly) the same as one.

    Attributes
    ----------
    points : m x d, of the representatives, which are workloads themselves; ``names`` theirs, ascending.
    weights : how many workloads (or what weight of them) each stands for.
    member_of : for each workload, in the order of ``workloads``, the row of its representative.
    moved : largest distance of a workload to its representative, 0 where only exact duplicates were merged.
    """

    points: Floats
    names: tuple[str, ...]
    weights: Floats
    workloads: tuple[str, ...]
    member_of: Places
    step: float
    moved: float

    def to_frame(self) -> pd.DataFrame:
        """workload, representative."""
        names = np.array(self.names, object)[self.member_of]
        return pd.DataFrame({"workload": self.workloads, "representative": names})

    def __repr__(self) -> str:
        how = f"to steps of {self.step:.4g}" if self.step else "exact duplicates"
        return f"Merged ({how}): {len(self.names)} of {len(self.workloads)} left, moved by at most {self.moved:.4g}"


def merged(points: ArrayLike, names: Sequence[str], *, step: float = 0.0, weights: ArrayLike | None = None) -> Merged:
    """Merge workloads with the same coordinates, or, with a step, those in the same cell of a grid.

    Parameters
    ----------
    points : n x d, finite. ``names`` are unique.
    step : side of the cells; the representative is the first of a cell by name.
    weights : of the workloads, 1 each by default.
    """
    x, labels, order = sorted_points(points, names)
    if not (math.isfinite(step) and step >= 0):
        raise UsageError(f"A step is a number of at least 0, not {step}.")
    cells = np.round(x / step) if step else x
    w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)[order]
    # + 0.0 turns -0.0 into 0.0, which is another pattern of bits
    patterns = np.ascontiguousarray(cells + 0.0).view(np.dtype((np.void, cells.shape[1] * 8))).ravel()
    _, first, inverse = np.unique(patterns, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    member_of = rank[inverse]
    kept = np.sort(first)
    moved = max(float(np.sqrt(squares(x[a:b], x[kept[member_of[a:b]]]).max())) for a, b in pieces(len(x)))
    return Merged(
        points=x[kept],
        names=tuple(labels[i] for i in kept),
        weights=np.bincount(member_of, weights=w).astype(np.float64),
        workloads=labels,
        member_of=member_of,
        step=step,
        moved=moved,
    )


def sorted_points(points: ArrayLike, names: Sequence[str]) -> tuple[Floats, tuple[str, ...], Places]:
    """Points and names in the order of the names, and that order; UsageError for what is no points."""
    x = np.asarray(points, np.float64)
    if x.ndim != 2 or len(x) != len(names) or not x.size:
        raise UsageError(f"Points are workloads x coordinates, one name each: {x.shape} for {len(names)} names.")
    labels = np.array([str(name) for name in names], object)
    order = np.argsort(labels, kind="stable").astype(np.intp)
    labels = labels[order]
    if len(set(labels)) < len(labels):
        raise UsageError("Names of workloads must be unique.")
    if not np.isfinite(x).all():
        bad = labels[~np.isfinite(x[order]).all(axis=1)]
        raise UsageError(f"Coordinates that are no numbers (NaN or infinite), at: {', '.join(bad[:10])}.")
    return np.ascontiguousarray(x[order]), tuple(labels), order


def pieces(n: int) -> Iterator[tuple[int, int]]:
    """Bounds of pieces that stay in the cache."""
    return ((start, min(start + _PIECE, n)) for start in range(0, n, _PIECE))


def squares(x: Floats, y: Floats) -> Floats:
    """Squared distances, row by row; by subtraction, so without cancellation and without BLAS."""
    off = x - y
    found: Floats = np.einsum("ij,ij->i", off, off)
    return found


@dataclass(frozen=True, eq=False)
class FarthestFirst:
    """Points picked one after the other, each the farthest from those before it (Gonzalez 1985).

    The k + 1 points first picked are pairwise at least ``radii[k - 1]`` apart, so that any k centres leave two of them
    with one centre: the smallest radius of k centres is between half of ``radii[k - 1]`` and all of it.

    Attributes
    ----------
    picked : places of the points in the order of picking.
    radii : radii[k - 1] is the radius of the first k over all points; non-increasing, 0 once all are reached.
    served : place in ``picked`` of the nearest pick of each point (of equally near ones the first); ``distance`` to it.
    """

    names: tuple[str, ...]
    picked: Places
    radii: Floats
    served: Places
    distance: Floats

    def to_frame(self) -> pd.DataFrame:
        """k, workload (the k-th picked), radius of the first k, lower_bound on the radius of any k."""
        names = [self.names[i] for i in self.picked]
        frame = pd.DataFrame({"k": range(1, len(names) + 1), "workload": names, "radius": self.radii})
        frame["lower_bound"] = self.radii / 2
        return frame

    def __repr__(self) -> str:
        k, radius = len(self.picked), self.radii[-1]
        return (
            f"FarthestFirst: {k} of {len(self.names)} points reach all within {radius:.4g}; "
            f"no {k} points do within less than {radius / 2:.4g}"
        )


def farthest_first(points: ArrayLike, names: Sequence[str], most: int = POINTS, until: float = 0.0) -> FarthestFirst:
    """Up to ``most`` points, or until the radius is no more than ``until``; the first is the one nearest to the mean.

    Equally far points are taken by name. Time O(n k d), memory O(n d).
    """
    if most < 1:
        raise UsageError("Ask for at least 1 point.")
    x, labels, _ = sorted_points(points, names)
    first = int(np.argmin(_rounded(_to(x, x.mean(axis=0)))))
    nearest = np.full(len(x), np.inf)
    served = np.zeros(len(x), np.intp)
    picked, radii = [first], []
    while True:
        update(x, x[picked[-1]], nearest, served, len(picked) - 1)
        radii.append(math.sqrt(nearest.max()))
        if len(picked) >= min(most, len(x)) or radii[-1] <= until:
            break
        picked.append(int(np.argmax(_rounded(nearest))))
    return FarthestFirst(labels, np.array(picked, np.intp), np.array(radii), served, np.sqrt(nearest))


def _to(x: Floats, centre: Floats) -> Floats:
    """Squared distances of all points to one."""
    return np.concatenate([squares(x[a:b], centre) for a, b in pieces(len(x))])


def update(x: Floats, centre: Floats, nearest: Floats, served: Places, label: int) -> None:
    """Take a new point into account, in place."""
    for a, b in pieces(len(x)):
        found = squares(x[a:b], centre)
        closer = found < nearest[a:b]
        nearest[a:b][closer] = found[closer]
        served[a:b][closer] = label


def nearest_of(x: Floats, members: Places) -> tuple[Places, Floats]:
    """Which member is nearest to each point, of equally near ones the first, and how far it is."""
    nearest, served = np.full(len(x), np.inf), np.zeros(len(x), np.intp)
    for label, member in enumerate(members):
        update(x, x[member], nearest, served, label)
    return served, np.sqrt(nearest)


def _rounded(squared: Floats) -> Floats:
    """To 12 digits of the largest: of what is equal but for the last bits, the first by name is then taken."""
    largest = float(squared.max())
    if largest <= 0:
        return squared
    return np.round(squared, min(290, max(-290, _DIGITS - 1 - math.floor(math.log10(largest)))))
