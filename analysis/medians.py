"""Choosing k workloads: the smallest radius (p-centre) and the smallest sum of distances (k-median), both exact.

p-centre searches the distinct distances with set cover (Minieka 1970); k-median is the integer program

    minimise sum_ij w_i D_ij x_ij  subject to  sum_j x_ij = 1, x_ij <= y_j, sum_j y_j = k,  y in {0, 1}, x >= 0

(ReVelle and Swain 1970), whose x come out whole by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from wcbench.analysis.cover import TOLERANCE, Distances, Set, radius_of, size
from wcbench.analysis.programs import Answer, Floats, minimise, rows
from wcbench.errors import UsageError, WcbenchError

NEAR = 0.01
TRIED = 50_000
_PIECE = 2_000_000


class Centres:
    """Smallest cover sizes at the distinct radii and smallest radii by size, each solved once and when asked for."""

    def __init__(self, d: Distances, candidates: Sequence[int] | None = None, needing: Sequence[int] | None = None):
        self._d = d
        self._candidates = list(range(len(d))) if candidates is None else list(candidates)
        self._rows = list(range(len(d))) if needing is None else list(needing)
        # no radius below the one that all candidates together have
        least = radius_of(d.values[self._rows], self._candidates)
        self.radii: list[float] = [r for r in d.radii.tolist() if r >= least - d.tolerance]
        self._sizes: dict[int, int] = {}

    def size_at(self, step: int) -> int:
        """Size of a smallest cover at radius ``radii[step]``."""
        if step not in self._sizes:
            found = size(self._d.within(self.radii[step])[self._rows], self._candidates)
            if found is None:
                raise WcbenchError(f"Nothing covers at radius {self.radii[step]}.")
            self._sizes[step] = found
        return self._sizes[step]

    def step_of(self, k: int) -> int:
        """First step whose smallest cover has at most k members; steps already solved narrow the search."""
        low = max((step + 1 for step, s in self._sizes.items() if s > k), default=0)
        high = min((step for step, s in self._sizes.items() if s <= k), default=len(self.radii) - 1)
        while low < high:
            middle = (low + high) // 2
            if self.size_at(middle) <= k:
                high = middle
            else:
                low = middle + 1
        return low

    def radius(self, k: int) -> float:
        """Smallest radius at which k members cover everything."""
        return self.radii[self.step_of(_checked_k(k, len(self._candidates)))]


def p_centre(d: Distances, k: int) -> float:
    """Smallest radius at which k of the workloads cover all, in the unit of the distances."""
    return Centres(d).radius(k)


@dataclass(frozen=True)
class Median:
    """The k workloads with the smallest sum of weighted distances to the nearest of them.

    Attributes
    ----------
    value : that sum, recomputed from the members; ``bound`` and ``gap`` are the solver's proof.
    others : further sets, best first, as (value, members): all within ``share`` of the best, or as many as were asked
        for where ``complete`` is False. ``runner_up`` is the next best set however far, None where there is none.
    """

    k: int
    members: tuple[str, ...]
    value: float
    bound: float
    gap: float
    radius: float
    share: float
    others: tuple[tuple[float, tuple[str, ...]], ...]
    runner_up: tuple[float, tuple[str, ...]] | None
    complete: bool

    @property
    def margin(self) -> float | None:
        """By what share of the best value the runner-up is worse; None without a runner-up or at value 0."""
        return None if self.runner_up is None or self.value == 0 else self.runner_up[0] / self.value - 1

    def to_frame(self) -> pd.DataFrame:
        """A row for each set: rank, value, worse_by (share), members."""
        sets = [(self.value, self.members), *self.others]
        frame = pd.DataFrame({"rank": range(1, len(sets) + 1), "value": [value for value, _ in sets]})
        frame["worse_by"] = [value / self.value - 1 if self.value else 0.0 for value, _ in sets]
        frame["members"] = [", ".join(members) for _, members in sets]
        return frame

    def __repr__(self) -> str:
        head = f"Median of {self.k}: {', '.join(self.members)} (sum of distances {self.value:.6g}, gap {self.gap:.2g})"
        if self.margin is None or self.runner_up is None:
            return head
        several = f"{'' if self.complete else 'at least '}{len(self.others)} other sets within {100 * self.share:.0f} %"
        return f"{head}\n  runner-up {100 * self.margin:.2f} % worse: {', '.join(self.runner_up[1])}; {several}"


def k_median(
    d: Distances,
    k: int,
    *,
    weights: Floats | None = None,
    candidates: Sequence[int] | None = None,
    near: float = NEAR,
    cap: int = 10,
    runner_up: bool = True,
) -> Median:
    """The exact k-median of the workloads and what comes close to it.

    Parameters
    ----------
    weights : of the workloads in the order of ``d.names``; 1 each by default.
    candidates : places of those that may be members, all by default.
    near : how much worse, as a share of the best, the other sets may be.
    cap : no more than this many others.
    runner_up : also look for the others; each costs another solve.
    """
    allowed = range(len(d)) if candidates is None else candidates
    k = _checked_k(k, len(allowed))
    weights = np.ones(len(d)) if weights is None else np.asarray(weights, np.float64)
    program = _Program(d, weights, tuple(j for j in range(len(d)) if j not in set(allowed)), k)
    first = program.solve([])
    if first is None:
        raise WcbenchError(f"The solver found no {k} workloads.")
    found, complete = _ranked(program, _members(first, len(d)), near, cap if runner_up else 0)
    if found[0][0] < first.objective - 1e-6 * abs(first.objective):
        raise WcbenchError(f"The solver's optimum {first.objective!r} is beaten by {found[0][0]!r}.")
    limit = found[0][0] * (1 + near)
    named = [(value, d.called(members)) for value, members in found]
    return Median(
        k=k,
        members=named[0][1],
        value=named[0][0],
        bound=first.bound,
        gap=first.gap,
        radius=radius_of(d.values, found[0][1]),
        share=near,
        others=tuple(pair for pair in named[1:] if pair[0] <= limit),
        runner_up=named[1] if len(named) > 1 else None,
        complete=complete,
    )


@dataclass(frozen=True, eq=False)
class _Program:
    """The k-median program; variables y (n), then x (n * n, served workload first).

    ``refused`` may not be members; ``k`` is their number, or None where only a budget limits it.
    """

    d: Distances
    weights: Floats
    refused: Set
    k: int | None = None
    costs: Floats | None = None
    budget: float = math.inf

    def solve(self, forbidden: list[Set]) -> Answer | None:
        """Its optimum without the forbidden sets; None where they are all."""
        n = len(self.d)
        served, by = np.divmod(np.arange(n * n), n)
        at, ones = np.arange(n * n), np.ones(n * n)
        assigned = sparse.csr_array((ones, (served, n + at)), shape=(n, n + n * n))
        linked = sparse.csr_array(
            (np.concatenate([ones, -ones]), (np.tile(at, 2), np.concatenate([n + at, by]))), shape=(n * n, n + n * n)
        )
        limits: list[Any] = [(_indicator(self.refused, n), -np.inf, 0)]
        limits += [(_indicator(members, n), -np.inf, len(members) - 1) for members in forbidden]
        if self.k is not None:
            limits.append((_indicator(range(n), n), self.k, self.k))
        if self.costs is not None:
            limits.append((_padded(self.costs), -np.inf, self.budget))
        objective = np.concatenate([np.zeros(n), (self.weights[:, None] * self.d.values).ravel()])
        constraints = rows((assigned, 1, 1), (linked, -np.inf, 0), *limits)
        return minimise(objective, constraints, np.arange(n + n * n) < n)


def _ranked(program: _Program, best: Set, near: float, cap: int) -> tuple[list[tuple[float, Set]], bool]:
    """Sets by value, equal ones by name, up to the first that is worse than ``near``; and whether these are all."""
    d, weights = program.d, program.weights
    found = [(_sum(d, best, weights), best)]
    complete = False
    possible = [j for j in range(len(d)) if j not in program.refused]
    if cap and math.comb(len(possible), len(best)) <= TRIED:
        return _tried(program, possible, len(best), near, cap)
    while not complete and len(found) <= cap:
        answer = program.solve([members for _, members in found])
        if answer is not None:
            members = _members(answer, len(d))
            found.append((_sum(d, members, weights), members))
        complete = answer is None or found[-1][0] > found[0][0] * (1 + near)
    return sorted(found, key=_rank), complete


def _tried(
    program: _Program, possible: list[int], k: int, near: float, cap: int
) -> tuple[list[tuple[float, Set]], bool]:
    """The same where there are few sets of k: all are tried, far faster than a program for each."""
    sets = np.array(list(combinations(possible, k)), np.intp)
    pieces = np.array_split(sets, 1 + sets.size * len(program.d) // _PIECE)
    totals = [(program.weights[:, None] * program.d.values[:, piece].min(axis=2)).sum(axis=0) for piece in pieces]
    sums = np.concatenate(totals)
    # one more than asked for: the first that is worse than near, or the one that shows that there are more
    first = np.argsort(sums, kind="stable")[: cap + 2]
    found = sorted(((_sum(program.d, members, program.weights), members) for members in _sets(sets[first])), key=_rank)
    limit = found[0][0] * (1 + near)
    within = sum(value <= limit for value, _ in found)
    return found[: max(2, min(within, cap + 1))], within <= cap + 1


def _sets(rows_of_places: NDArray[np.intp]) -> list[Set]:
    return [tuple(int(j) for j in row) for row in rows_of_places]


def _rank(pair: tuple[float, Set]) -> tuple[float, Set]:
    """By value to 9 digits, so that equal sums stay equal, then by name."""
    return float(f"{pair[0]:.9g}"), pair[1]


def within_budget(d: Distances, costs: Floats, budget: float) -> tuple[tuple[str, ...], float]:
    """The members whose cost in all is within the budget with the smallest sum of distances, and that sum.

    Parameters
    ----------
    costs : of the workloads in the order of ``d.names``. Raises UsageError where the budget is below the cheapest.
    """
    answer = _Program(d, np.ones(len(d)), (), None, costs, budget * (1 + TOLERANCE)).solve([])
    if answer is None:
        raise UsageError(f"A budget of {budget:.6g} pays for no workload.", f"The cheapest costs {costs.min():.6g}.")
    members = _members(answer, len(d))
    return d.called(members), _sum(d, members, np.ones(len(d)))


def _indicator(members: Sequence[int], n: int) -> Floats:
    """A row over all variables with 1 at the members' y."""
    row = np.zeros(n)
    row[list(members)] = 1
    return _padded(row)


def _padded(row: Floats) -> Floats:
    """A row over the y (n) as one over all variables (n + n * n)."""
    return np.concatenate([row, np.zeros(len(row) ** 2)])


def _members(answer: Answer, n: int) -> Set:
    return tuple(j for j in answer.chosen if j < n)


def _sum(d: Distances, members: Set, weights: Floats) -> float:
    """Sum of the weighted distances to the nearest member."""
    return math.fsum(weights * d.values[:, list(members)].min(axis=1))


def _checked_k(k: int, n: int) -> int:
    if not 1 <= k <= n:
        raise UsageError(f"{k} workloads cannot be chosen from {n}.", f"Ask for 1 to {n}.")
    return int(k)
