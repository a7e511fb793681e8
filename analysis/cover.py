"""The smallest set of workloads such that every workload lies within a radius of a member: exact set cover.

    minimise sum_j y_j  subject to  sum_{j: D_ij <= r} y_j >= 1 for every i,  y_j in {0, 1}

solved as an integer program with gap 0 (Toregas et al. 1971, the location set covering problem). Ties are broken in
order: size, cost, sum of the distances to the nearest member (k-median), names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from wcbench.analysis.programs import Answer, Floats, minimise, rows
from wcbench.errors import UsageError, WcbenchError

TOLERANCE = 1e-9
_FEASIBLE = 1e-7
"""To what part of its bound HiGHS holds a constraint."""
DIGITS = 12
CAP = 100

Bools = NDArray[np.bool_]
Set = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances between named workloads, fit for decisions: sorted by name, symmetric, rounded to 12 digits.

    ``tolerance`` is 1e-9 of the largest distance: two distances nearer than that count as equal, so that no decision
    hangs on the last bit. Make one with `distances`.
    """

    names: tuple[str, ...]
    values: Floats
    tolerance: float

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Distances ({len(self)} workloads, largest {self.values.max(initial=0):.4g})"

    def within(self, radius: float) -> Bools:
        """Who lies within the radius of whom (n x n), equality within the tolerance included."""
        near: Bools = self.values <= radius + self.tolerance
        return near

    def only(self, places: Sequence[int] | NDArray[np.intp]) -> Distances:
        """The distances between some of the workloads, by place in ``names``; the tolerance stays."""
        kept = np.sort(np.asarray(places, np.intp))
        return Distances(tuple(self.names[i] for i in kept), self.values[np.ix_(kept, kept)], self.tolerance)

    def places(self, names: Iterable[str]) -> Set:
        """Places of the names in ``names``; raises UsageError for a name that is not there."""
        place = {name: i for i, name in enumerate(self.names)}
        asked = sorted(set(names))
        if strangers := [name for name in asked if name not in place]:
            raise UsageError(f"No such workload: {', '.join(strangers)}.", f"There are: {', '.join(self.names)}.")
        return tuple(place[name] for name in asked)

    def called(self, places: Iterable[int]) -> tuple[str, ...]:
        """Names at the places."""
        return tuple(self.names[i] for i in places)

    @cached_property
    def radii(self) -> Floats:
        """The distinct distances, 0 included, ascending; of those equal within the tolerance, the largest."""
        every = np.unique(np.append(self.values, 0.0))
        last_of_its_group = np.append(np.diff(every) > self.tolerance, True)
        found: Floats = every[last_of_its_group]
        return found

    @cached_property
    def nearest_neighbour(self) -> Floats:
        """Distance of each workload to the nearest other one; empty for a single workload."""
        if len(self) < 2:
            return np.empty(0)
        others = self.values + np.diag(np.full(len(self), np.inf))
        found: Floats = others.min(axis=1)
        return found


def distances(values: ArrayLike | pd.DataFrame, names: Iterable[str] | None = None) -> Distances:
    """Check a matrix of distances and make it fit for decisions.

    Parameters
    ----------
    values : n x n, symmetric, finite, not negative, 0 on the diagonal; a frame brings its names along.
    names : unique names of the rows; not needed for a frame.

    Raises UsageError for anything else, naming the workloads.
    """
    if isinstance(values, pd.DataFrame):
        names = values.index if names is None else names
        if list(values.index) != list(values.columns):
            raise UsageError("The rows and columns of the distances are not the same workloads in the same order.")
    matrix = np.array(values, np.float64)
    labels = [str(name) for name in names] if names is not None else []
    _refuse(matrix, labels)
    order = sorted(range(len(labels)), key=labels.__getitem__)
    largest = float(matrix.max())
    rounded = _rounded((matrix + matrix.T)[np.ix_(order, order)] / 2, largest)
    np.fill_diagonal(rounded, 0.0)
    return Distances(tuple(labels[i] for i in order), rounded, TOLERANCE * largest)


def _rounded(matrix: Floats, largest: float) -> Floats:
    """Rounded to DIGITS decimal digits of the largest value: what differs between BLAS builds is gone."""
    if largest <= 0:
        return matrix
    decimals = DIGITS - 1 - math.floor(math.log10(largest))
    return np.round(matrix, decimals) if abs(decimals) < 290 else matrix


def _refuse(matrix: Floats, labels: list[str]) -> None:
    """UsageError unless the matrix can be one of distances between the labels."""
    n = len(labels)
    if n == 0:
        raise UsageError("There are no workloads to choose from.")
    if matrix.shape != (n, n):
        raise UsageError(f"{n} workloads need {n} x {n} distances, not {' x '.join(map(str, matrix.shape))}.")
    if twice := sorted({name for name in labels if labels.count(name) > 1}):
        raise UsageError(f"Names of workloads must be unique; these are not: {', '.join(twice)}.")
    if not np.isfinite(matrix).all():
        bad = [labels[i] for i in np.flatnonzero(~np.isfinite(matrix).all(axis=1))]
        raise UsageError(
            f"Distances that are no numbers (NaN or infinite), at: {', '.join(bad[:10])}.",
            "Drop features or workloads that were not measured before distances are taken.",
        )
    slack = TOLERANCE * np.abs(matrix).max()
    if (matrix < -slack).any() or (np.abs(matrix - matrix.T) > slack).any() or (np.abs(np.diag(matrix)) > slack).any():
        raise UsageError("Distances must be symmetric, not negative, and 0 between a workload and itself.")


def smallest(near: Bools, candidates: Sequence[int], weights: Floats | None = None, *extra: Any) -> Answer | None:
    """A smallest cover, as variables over ``candidates``; None where some workload has no candidate within reach.

    Parameters
    ----------
    near : n x n, who lies within the radius of whom.
    candidates : who may be a member.
    weights : minimise their sum in place of the size, one for each candidate.
    extra : further constraints as `programs.rows` takes them.
    """
    reach = near[:, candidates]
    if not reach.any(axis=1).all():
        return None
    objective = np.ones(len(candidates)) if weights is None else weights
    return minimise(objective, rows((np.unique(reach, axis=0).astype(float), 1, np.inf), *extra))


def size(near: Bools, candidates: Sequence[int]) -> int | None:
    """Size of a smallest cover; None where there is no cover."""
    answer = smallest(near, candidates)
    return None if answer is None else len(answer.chosen)


def nearest(values: Floats, members: Sequence[int]) -> NDArray[np.intp]:
    """For each workload its nearest member (place), of equally near ones the first by name; a member is its own.

    A member at distance 0 of another stays its own, so that weights of duplicates add up.
    """
    ordered = np.sort(np.asarray(members, np.intp))
    found: NDArray[np.intp] = ordered[np.argmin(values[:, ordered], axis=1)]
    found[ordered] = ordered
    return found


def total_distance(values: Floats, members: Sequence[int]) -> float:
    """Sum over the workloads of the distance to the nearest member: the k-median objective."""
    return math.fsum(values[:, list(members)].min(axis=1))


def radius_of(values: Floats, members: Sequence[int]) -> float:
    """Largest distance of a workload to its nearest member."""
    return float(values[:, list(members)].min(axis=1).max())


@dataclass(frozen=True)
class Optima:
    """All smallest covers (places), each sorted, by name; ``complete`` is False where the cap cut them."""

    covers: tuple[Set, ...]
    complete: bool

    def __repr__(self) -> str:
        return f"Optima ({'' if self.complete else 'at least '}{len(self.covers)} smallest covers)"


def all_optima(near: Bools, candidates: Sequence[int], first: Set, cap: int = CAP) -> Optima:
    """All smallest covers, by forbidding each that was found (no-good cuts) until none of that size is left.

    Parameters
    ----------
    first : one smallest cover, as places.
    cap : look for no more than this many.
    """
    place = {j: i for i, j in enumerate(candidates)}
    found = [tuple(sorted(first))]
    cuts: list[Any] = [(np.ones(len(candidates)), len(first), len(first))]
    while len(found) < cap:
        cut = np.zeros(len(candidates))
        cut[[place[j] for j in found[-1]]] = 1
        cuts.append((cut, -np.inf, len(first) - 1))
        answer = smallest(near, candidates, None, *cuts)
        if answer is None:
            return Optima(tuple(sorted(found)), True)
        found.append(tuple(sorted(candidates[i] for i in answer.chosen)))
    return Optima(tuple(sorted(found)), False)


def core(near: Bools, candidates: Sequence[int], optima: Optima) -> Set:
    """Workloads in every smallest cover; where not all are known, those without which a cover must be larger."""
    common = set(optima.covers[0]).intersection(*optima.covers)
    if optima.complete:
        return tuple(sorted(common))
    best = len(optima.covers[0])
    return tuple(j for j in sorted(common) if size(near, [c for c in candidates if c != j]) != best)


def chosen(values: Floats, near: Bools, candidates: Sequence[int], k: int, costs: Floats | None = None) -> Set:
    """The cover of exactly k members that is cheapest, then nearest (k-median): by programs, not by listing all.

    Of several with the same cost and k-median the solver takes one. ``near`` must have a cover of k members.

    Parameters
    ----------
    values, near : distances, and who is within the radius, of the workloads to be covered (rows) to all (columns).
    costs : in any unit; the solver is told them as parts of the largest, as with rows of 1e13 it finds no solution.
    """
    places = list(candidates)
    fixed: list[Any] = [(np.ones(len(places)), k, k)]
    if costs is not None and (most := float(costs[places].max())) > 0:
        cheapest = smallest(near, places, costs[places] / most, *fixed)
        if cheapest is None:
            raise WcbenchError(f"There is no cover of {k} members.")
        # Told in parts of what may be spent, and without those who cost more: of the largest cost it may be a part too
        # small for the solver's tolerance.
        limit = math.fsum(costs[places[i]] for i in cheapest.chosen)
        places = [place for place in places if costs[place] <= limit * (1 + TOLERANCE)]
        fixed = [(np.ones(len(places)), k, k)]
        if limit > 0:
            fixed.append((costs[places] / limit, -np.inf, 1 + _FEASIBLE))
    answer = _nearest_cover(values, near, places, fixed)
    if answer is None:
        raise WcbenchError(f"There is no cover of {k} members.")
    return tuple(sorted(places[i] for i in answer.chosen if i < len(places)))


def _nearest_cover(values: Floats, near: Bools, places: list[int], fixed: list[Any]) -> Answer | None:
    """The k-median program over covers: workload i may be served by j only within the radius, so few variables.

    min sum D_ij x_ij, sum_j x_ij = 1, x_ij <= y_j; variables y (one per candidate), then x.
    """
    served, by = np.nonzero(near[:, places])
    m, pairs = len(places), len(served)
    at = np.arange(pairs)
    assigned = sparse.csr_array((np.ones(pairs), (served, m + at)), shape=(len(values), m + pairs))
    ones = np.ones(pairs)
    linked = sparse.csr_array(
        (np.concatenate([ones, -ones]), (np.tile(at, 2), np.concatenate([m + at, by]))), shape=(pairs, m + pairs)
    )
    padded = [(np.concatenate([row, np.zeros(pairs)]), low, high) for row, low, high in fixed]
    objective = np.concatenate([np.zeros(m), values[served, np.asarray(places)[by]]])
    whole = np.arange(m + pairs) < m
    return minimise(objective, rows((assigned, 1, 1), (linked, -np.inf, 0), *padded), whole)


def preferred(values: Floats, optima: Optima, costs: Floats | None = None) -> Set:
    """Of listed covers the cheapest, then the nearest (k-median), then the first by name."""

    def rank(members: Set) -> tuple[float, float, Set]:
        cost = 0.0 if costs is None else math.fsum(costs[list(members)])
        return _significant(cost), _significant(total_distance(values, members)), members

    return min(optima.covers, key=rank)


def _significant(value: float) -> float:
    """To 9 significant digits, so that equal sums in another order of terms stay equal."""
    return float(f"{value:.9g}")


def cost_vector(d: Distances, costs: Mapping[str, float]) -> tuple[Floats | None, str]:
    """Costs in the order of the names, or None and why not: all must be there, finite and not negative."""
    if not costs:
        return None, "no costs were given"
    found = np.array([float(costs.get(name, math.nan)) for name in d.names])
    if lacking := [name for name, cost in zip(d.names, found, strict=True) if not (math.isfinite(cost) and cost >= 0)]:
        return None, f"no cost of 0 or more of {', '.join(lacking[:10])}{' ...' if len(lacking) > 10 else ''}"
    return found, ""
