"""The provably minimal subset of workloads at radius r*, with the curve of all other sizes and every reason for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis import constraints as conditions
from wcbench.analysis.certificate import Certificate, certificate
from wcbench.analysis.constraints import Constraint
from wcbench.analysis.cover import (
    CAP,
    Bools,
    Distances,
    Optima,
    Set,
    all_optima,
    chosen,
    core,
    cost_vector,
    distances,
    nearest,
    preferred,
    radius_of,
    smallest,
)
from wcbench.analysis.curve import Problem, curve_of, saved
from wcbench.analysis.medians import Median, k_median
from wcbench.analysis.programs import Floats
from wcbench.analysis.radius import RStar, r_star
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import FeatureTable, Space
from wcbench.errors import UsageError, WcbenchError

__all__ = ["Constraint", "RStar", "Subset", "choose", "choose_in", "lexicographic", "r_star"]

CURVE = 80


@dataclass(frozen=True, eq=False)
class Subset(Shown):
    """A smallest set of workloads that has a member within r* of every workload.

    Attributes
    ----------
    radius : r*. ``reached`` is the radius that the members really have in the full space, ``reached_in_pcs`` the one
        between principal components, None where none were given.
    median_neighbour : median distance of a workload to its nearest neighbour, NaN for a single workload. Where r* is
        not below it, ``distinguishable`` is False and the members answer nothing.
    members : sorted by name. ``table`` says who covers whom: workload, member, covered_by (nearest member), distance,
        within_r (all members within r*), core, share_of_optima, cost.
    curve : a row for each size k: k, radius (smallest possible with k), needed (smallest cover at that radius),
        members, cost, cost_share, mean_distance, radius_in_pcs. ``curve_complete`` is False where only small k were
        solved.
    optima : all smallest covers, or as many as were listed where ``optima_complete`` is False.
    core : workloads in every smallest cover, whether all are listed or not.
    median : the best set of the same size by mean distance, and those nearly as good; None where not asked for.
    ties : workloads at distance 0 of each other; any of them may stand for the others.
    refused : workloads that could not be members and why. ``uncovered`` have no possible member within r*.
    cost_saved : 1 - cost of the members / cost of all, of ``cost_of``; None, with ``cost_reason``, where costs lack.
    """

    radius: float
    reached: float
    reached_in_pcs: float | None
    median_neighbour: float
    distinguishable: bool
    members: tuple[str, ...]
    table: pd.DataFrame
    curve: pd.DataFrame
    curve_complete: bool
    optima: tuple[tuple[str, ...], ...]
    optima_complete: bool
    core: tuple[str, ...]
    median: Median | None
    certificate: Certificate
    ties: tuple[tuple[str, ...], ...]
    constraints: tuple[str, ...]
    refused: Mapping[str, str]
    uncovered: tuple[str, ...]
    cost_saved: float | None
    cost_reason: str
    cost_of: str
    cost_unit: str

    def __len__(self) -> int:
        return len(self.members)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        n = len(self.table)
        if n == 1:
            return "There is one workload: nothing to choose."
        if not self.distinguishable:
            return (
                f"Not distinguishable with these features: the radius {self.radius:.4g} is not below the median "
                f"distance to the nearest neighbour, {self.median_neighbour:.4g}. The cover below is no answer."
            )
        if self.uncovered:
            return (
                f"{len(self.uncovered)} of {n} workloads have no permitted member within r = {self.radius:.4g}: "
                f"{', '.join(self.uncovered)}. For the others {len(self)} members are needed."
            )
        if self.radius == 0:
            return f"At r = 0 every workload is kept but exact duplicates: {len(self)} of {n}."
        if len(self) == n:
            return f"All {n} workloads are needed: no two lie within r = {self.radius:.4g} of each other."
        return f"{len(self)} of {n} workloads are needed, and no fewer, to cover all at r = {self.radius:.4g}."

    def to_frame(self) -> pd.DataFrame:
        return self.table.copy()

    def __repr__(self) -> str:
        several = f"{'' if self.optima_complete else 'at least '}{len(self.optima)}"
        reached = f"  reached radius {self.reached:.4g} in the full space"
        if self.reached_in_pcs is not None:
            reached += f", {self.reached_in_pcs:.4g} between principal components"
        lines = [f"Subset: {self.verdict}", f"  {', '.join(self.members)}", reached]
        lines.append(f"  {several} smallest covers; in all of them: {', '.join(self.core) or 'none'}")
        lines.append(f"  proof by {self.certificate.proof}; {self._cost_text()}")
        lines += [f"  members must be: {text}" for text in self.constraints]
        if self.uncovered:
            lines.append(f"  no permitted member within r*: {', '.join(self.uncovered)}")
        lines += [f"  alike (distance 0): {', '.join(group)}" for group in self.ties]
        return "\n".join(lines)

    def _cost_text(self) -> str:
        if self.cost_saved is None:
            return f"cost saved not known: {self.cost_reason}"
        unit = f" ({self.cost_unit})" if self.cost_unit else ""
        return f"saves {100 * self.cost_saved:.1f} % of {self.cost_of or 'the cost given'}{unit}"


def choose_in(
    space: Space,
    radius: float | RStar,
    *,
    table: FeatureTable | None = None,
    pcs: pd.DataFrame | None = None,
    constraints: Iterable[Constraint] = (),
    cap: int = CAP,
    curve: int | None = None,
    medians: bool | None = None,
) -> Subset:
    """`choose` among the workloads of a space; costs are the table's, ``pcs`` are points (workloads x components)."""
    between = None
    if pcs is not None:
        points = pcs.loc[space.names].to_numpy(np.float64)
        between = pd.DataFrame(_euclid(points), index=space.names, columns=space.names)
    return choose(
        distances(space.distances(), space.names),
        radius.value if isinstance(radius, RStar) else radius,
        costs={} if table is None else table.costs,
        cost_of="" if table is None else table.cost_of,
        cost_unit="" if table is None else table.cost_unit,
        pcs=between,
        constraints=constraints,
        cap=cap,
        curve=curve,
        medians=medians,
    )


def choose(
    d: Distances,
    radius: float,
    *,
    costs: Mapping[str, float] | None = None,
    cost_of: str = "",
    cost_unit: str = "",
    pcs: pd.DataFrame | None = None,
    constraints: Iterable[Constraint] = (),
    cap: int = CAP,
    curve: int | None = None,
    medians: bool | None = None,
) -> Subset:
    """The smallest subset at the radius, of several the cheapest, then that of least mean distance, then by name.

    Parameters
    ----------
    d : distances in the full space, from `cover.distances`.
    costs : by workload; without all of them no cost breaks ties and none is told as saved.
    pcs : distances between principal components, to tell the subset's radius there too.
    constraints : conditions on members; all workloads are to be covered all the same.
    cap : list no more smallest covers than this.
    curve : solve the sizes up to this; by default all where there are no more than 80 workloads, else up to 40.
    medians : also solve the k-median of the same size; by default where there are no more than 80 workloads.
    """
    if not (math.isfinite(radius) and radius >= 0):
        raise UsageError(f"A radius is a number of at least 0, not {radius}.")
    listed = tuple(constraints)
    candidates, refused = conditions.candidates(d, listed)
    rows = tuple(int(i) for i in np.flatnonzero(d.within(radius)[:, candidates].any(axis=1)))
    vector, reason = cost_vector(d, costs or {})
    problem = Problem(d, candidates, rows, vector)
    members, optima = lexicographic(problem.values, problem.near(radius), candidates, vector, cap)
    inner = _pc_distances(d, pcs)
    small = len(d) <= CURVE
    limit = min(len(candidates), (len(candidates) if small else CURVE // 2) if curve is None else curve)
    everywhere = Problem(d, candidates, tuple(range(len(d))), vector)
    every_core = core(problem.near(radius), candidates, optima)
    neighbour = float(np.median(d.nearest_neighbour)) if len(d) > 1 else math.nan
    return Subset(
        radius=float(radius),
        reached=radius_of(problem.values, members),
        reached_in_pcs=None if inner is None else radius_of(inner[list(rows)], members),
        median_neighbour=neighbour,
        distinguishable=len(d) == 1 or radius < neighbour - d.tolerance,
        members=d.called(members),
        table=_table(problem, radius, members, optima, every_core),
        curve=curve_of(everywhere, limit, inner, members),
        curve_complete=limit == len(candidates),
        optima=tuple(d.called(cover) for cover in optima.covers),
        optima_complete=optima.complete,
        core=d.called(every_core),
        median=k_median(d, len(members), candidates=candidates) if (small if medians is None else medians) else None,
        certificate=certificate(d, radius, members, candidates, rows),
        ties=_ties(d),
        constraints=tuple(constraint.text for constraint in listed),
        refused=refused,
        uncovered=tuple(name for i, name in enumerate(d.names) if i not in set(rows)),
        cost_saved=saved(vector, members),
        cost_reason=reason,
        cost_of=cost_of,
        cost_unit=cost_unit,
    )


def lexicographic(
    values: Floats,
    near: Bools,
    candidates: Sequence[int],
    costs: Floats | None = None,
    cap: int = CAP,
) -> tuple[Set, Optima]:
    """The smallest cover, then cheapest, then nearest, then first by name; and the smallest covers it was taken from.

    Where there are more than ``cap`` smallest covers, programs find it in place of the list; covers that are equal in
    size, cost and k-median are then not told apart by name.
    """
    answer = smallest(near, candidates)
    if answer is None:
        raise WcbenchError("Some workloads have no candidate within the radius.")
    optima = all_optima(near, candidates, tuple(candidates[i] for i in answer.chosen), cap)
    if optima.complete:
        return preferred(values, optima, costs), optima
    best = chosen(values, near, candidates, len(optima.covers[0]), costs)
    covers = optima.covers if best in optima.covers else tuple(sorted((*optima.covers, best)))
    return best, Optima(covers, False)


def _table(problem: Problem, radius: float, members: Set, optima: Optima, every_core: Set) -> pd.DataFrame:
    """A row for each workload: who covers it and how much it matters itself."""
    d = problem.d
    served = nearest(d.values, members)
    covered = set(problem.rows)
    near = d.within(radius)[:, list(members)]
    share = np.bincount(np.concatenate(optima.covers), minlength=len(d)) / len(optima.covers)
    every = range(len(d))
    return pd.DataFrame(
        {
            "workload": d.names,
            "member": [i in members for i in every],
            "covered_by": [d.names[served[i]] if i in covered else None for i in every],
            "distance": d.values[np.arange(len(d)), served],
            "within_r": [", ".join(d.called(np.asarray(members)[near[i]])) for i in every],
            "core": [i in every_core for i in every],
            "share_of_optima": share,
            "cost": np.nan if problem.costs is None else problem.costs,
        }
    )


def _ties(d: Distances) -> tuple[tuple[str, ...], ...]:
    """Groups of workloads at distance 0 of each other."""
    same = d.within(0)
    groups = {d.called(np.flatnonzero(row)) for row in same if row.sum() > 1}
    return tuple(sorted(groups))


def _pc_distances(d: Distances, pcs: pd.DataFrame | None) -> Floats | None:
    if pcs is None:
        return None
    if lacking := sorted(set(d.names) - set(pcs.index)):
        raise UsageError(f"Principal components lack: {', '.join(lacking)}.")
    return pcs.loc[list(d.names), list(d.names)].to_numpy(np.float64)


def _euclid(points: Floats) -> Floats:
    from scipy.spatial.distance import pdist, squareform

    found: Floats = squareform(pdist(points))
    return found
