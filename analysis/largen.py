"""A cover of many workloads (10^5 and more), with an upper and a lower bound on the size of the smallest.

Time is O(n m) and memory O(n d) for n workloads of d coordinates and m points. What comes out is an upper bound beside
its lower bound, and never called minimal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from wcbench.analysis.cover import Bools, distances, smallest
from wcbench.analysis.facility import Facility, facility
from wcbench.analysis.farthest import (
    POINTS,
    FarthestFirst,
    Merged,
    Places,
    farthest_first,
    merged,
    nearest_of,
    pieces,
    sorted_points,
    squares,
)
from wcbench.analysis.programs import Floats
from wcbench.errors import UsageError, WcbenchError

__all__ = ["Coreset", "Facility", "FarthestFirst", "Merged", "coreset_cover", "facility", "farthest_first", "merged"]

MOST = 1000
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Coreset:
    """A cover of many workloads, with both bounds on the size of a smallest one.

    Attributes
    ----------
    members : a cover at ``radius``; empty where none of fewer than all was found, so that ``upper`` is all workloads.
    reached : the members' radius over all workloads, NaN without members.
    packing : workloads no two of which have a workload within the radius of both: ``lower`` is their number.
    how : how the members were found.
    coreset : number of points looked at; ``coreset_radius`` is d, within which they reach all workloads.
    merged : how many workloads were left after merging, of ``workloads``.
    table : workload, covered_by, distance.
    """

    radius: float
    members: tuple[str, ...]
    reached: float
    packing: tuple[str, ...]
    how: str
    coreset: int
    coreset_radius: float
    merged: int
    workloads: int
    table: pd.DataFrame

    @property
    def upper(self) -> int:
        return len(self.members) or self.workloads

    @property
    def lower(self) -> int:
        return len(self.packing)

    def to_frame(self) -> pd.DataFrame:
        return self.table.copy()

    def __repr__(self) -> str:
        span = f"exactly {self.upper}" if self.upper == self.lower else f"between {self.lower} and {self.upper}"
        lines = [f"Coreset: a smallest cover of {self.workloads} workloads at r = {self.radius:.4g} has {span} members"]
        lines.append(f"  upper bound: {self.how} ({self.coreset} points, d = {self.coreset_radius:.4g})")
        lines.append(f"  lower bound: {self.lower} workloads no two of which have a workload within r of both")
        return "\n".join(lines)


def coreset_cover(
    points: ArrayLike, names: Sequence[str], radius: float, *, most: int = POINTS, step: float = 0.0
) -> Coreset:
    """Cover workloads at a radius by way of m farthest-first points.

    Three covers are made and the smallest is taken: an exact cover of the m points at r - d, with d their own radius,
    covers everything at r (triangle inequality); the first farthest-first points whose radius is at most r do; so do
    coreset points taken greedily, each covering most of what is left (Chvatal 1979).

    Parameters
    ----------
    points : n x d in the full space.
    most : m, the size of the coreset. Farthest-first goes on to 1000 points where it takes so many to reach r.
    step : merge workloads in the same cell of a grid first; 0 merges exact duplicates only. How far that moves a
        workload counts in both bounds.
    """
    if not (math.isfinite(radius) and radius >= 0):
        raise UsageError(f"A radius is a number of at least 0, not {radius}.")
    x, labels, _ = sorted_points(points, names)
    few = merged(x, labels, step=step)
    far = farthest_first(few.points, few.names, most)
    if far.radii[-1] > radius - few.moved:
        far = farthest_first(few.points, few.names, max(most, MOST), max(0.0, radius - few.moved))
    how, places = _members(few, far, radius, most)
    place = {name: i for i, name in enumerate(labels)}
    members = np.array([place[few.names[i]] for i in places], np.intp)
    table, reached = _served(x, labels, members)
    if reached > radius * (1 + 2 * _SLACK):
        raise WcbenchError("The cover of the coreset does not cover all workloads.")
    return Coreset(
        radius=radius,
        members=tuple(labels[i] for i in members),
        reached=reached,
        packing=_packing(few, far, radius, most),
        how=how,
        coreset=min(most, len(far.picked)),
        coreset_radius=float(far.radii[min(most, len(far.picked)) - 1]) + few.moved,
        merged=len(few.names),
        workloads=len(x),
        table=table,
    )


def _members(few: Merged, far: FarthestFirst, radius: float, most: int) -> tuple[str, Places]:
    """The smallest of three covers (places in the merged points), and what it is; nothing where there is none."""
    m = min(most, len(far.picked))
    left = radius - few.moved - float(far.radii[m - 1])
    covers: list[tuple[str, Places]] = []
    if left >= 0:
        core = far.picked[:m]
        covers.append(("exact cover of the coreset at r - d", core[_cover(few.points[core], left)]))
        covers.append(("coreset points taken greedily", core[_greedy(few.points, core, radius - few.moved)]))
    reaching = np.flatnonzero(far.radii <= radius - few.moved)
    if len(reaching):
        covers.append(("farthest-first points until r", far.picked[: reaching[0] + 1]))
    if not covers:
        return f"all workloads, as {len(far.picked)} farthest-first points do not reach them", np.empty(0, np.intp)
    how, places = min(covers, key=lambda cover: len(cover[1]))
    return how, np.sort(places)


def _served(x: Floats, labels: Sequence[str], members: Places) -> tuple[pd.DataFrame, float]:
    """Who is nearest to whom, and the largest distance."""
    if not len(members):
        return pd.DataFrame({"workload": labels, "covered_by": labels, "distance": 0.0}), math.nan
    served, distance = nearest_of(x, members)
    by = np.array(labels, object)[members[served]]
    return pd.DataFrame({"workload": labels, "covered_by": by, "distance": distance}), float(distance.max())


def _cover(points: Floats, radius: float) -> list[int]:
    """Places of a smallest cover of the points, without a tolerance: the triangle inequality leaves no slack."""
    from scipy.spatial.distance import pdist, squareform

    d = distances(squareform(pdist(points)), [f"{i:09d}" for i in range(len(points))])
    answer = smallest(d.values <= radius, range(len(points)))
    if answer is None:
        raise WcbenchError("Points that cover themselves have no cover.")
    return list(answer.chosen)


def _greedy(x: Floats, core: Places, radius: float) -> list[int]:
    """Places in the coreset of points that cover all of x, each the one that covers most of what is left."""
    reach = np.concatenate([_reach(x[a:b], x[core], radius) for a, b in pieces(len(x))])
    if not reach.any(axis=1).all():
        raise WcbenchError("The coreset does not reach all workloads.")
    taken: list[int] = []
    while len(reach):
        taken.append(int(reach.sum(axis=0).argmax()))
        reach = reach[~reach[:, taken[-1]]]
    return taken


def _reach(x: Floats, core: Floats, radius: float) -> Bools:
    """Which points (rows) lie within the radius of which of the coreset (columns)."""
    return np.stack([squares(x, point) <= (radius * (1 + _SLACK)) ** 2 for point in core], axis=1)


def _packing(few: Merged, far: FarthestFirst, radius: float, most: int) -> tuple[str, ...]:
    """Workloads no two of which can share a coverer; the larger of two sets.

    Points more than 2 r apart share none; and of the coreset, points that no workload has within r of both. A workload
    that was merged away lies within ``moved`` of one that was not, so r + moved is used there.
    """
    limit = radius + few.moved
    # each pick lies farther than this from all picks before it
    spread = far.picked[: 1 + int((far.radii[: len(far.picked) - 1] > 2 * limit * (1 + _SLACK)).sum())]
    core = far.picked[: min(most, len(far.picked))]
    packed = core[_independent(_conflicts(few.points, core, limit))]
    best = spread if len(spread) >= len(packed) else packed
    return tuple(few.names[i] for i in np.sort(best))


def _conflicts(x: Floats, core: Places, limit: float) -> Bools:
    """Which points of the coreset share a coverer among all points (m x m)."""
    found = np.zeros((len(core), len(core)), bool)
    for a, b in pieces(len(x)):
        reach = _reach(x[a:b], x[core], limit).astype(np.float32)
        found |= (reach.T @ reach) > 0.5
    return found


def _independent(conflict: Bools) -> list[int]:
    """Points without a conflict among them: again and again the one with the fewest conflicts left."""
    left, packed = np.ones(len(conflict), bool), []
    while left.any():
        degree = np.where(left, (conflict & left).sum(axis=1), len(conflict) + 1)
        pick = int(np.argmin(degree))
        packed.append(pick)
        left &= ~conflict[pick]
        left[pick] = False
    return packed
