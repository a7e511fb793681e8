"""Why no smaller cover exists, in a form that a reader can check by hand.

Three proofs, the simplest that holds is told first:

1. packing: workloads no two of which have a common candidate within the radius; each needs a member of its own;
2. weights: a number for each workload such that what any one candidate covers adds up to at most 1; then no fewer
   members than the sum of all weights will do (LP duality);
3. the solver's dual bound, where neither reaches the size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis.cover import Bools, Distances, Set, nearest, smallest
from wcbench.analysis.programs import minimise, rows
from wcbench.errors import WcbenchError

_GRID = 10**6


@dataclass(frozen=True)
class Certificate:
    """A cover of ``size`` members at ``radius``, and the proofs that there is no smaller one.

    Attributes
    ----------
    covers : for each member the workloads within the radius of it (nearest member only, so each workload once).
    bound, gap : the solver's dual bound on the size and its relative gap, 0 for a proven optimum.
    packing : a largest set of workloads no two of which share a candidate within the radius.
    weights : proof 2, only where the packing is smaller than the cover; empty where it does not reach the size either.
    candidates : how many workloads could be members, of ``workloads``.
    """

    radius: float
    size: int
    covers: Mapping[str, tuple[str, ...]]
    bound: float
    gap: float
    packing: tuple[str, ...]
    weights: Mapping[str, float]
    candidates: int
    workloads: int

    @property
    def proof(self) -> str:
        """Which proof holds: packing, weights or bound."""
        if len(self.packing) == self.size:
            return "packing"
        return "weights" if self.weights else "bound"

    @property
    def text(self) -> str:
        """The whole argument in words."""
        head = f"Each of {self.workloads} workloads lies within r = {self.radius:.6g} of one of {self.size}:"
        lines = [f"  {name}: {', '.join(others)}" for name, others in self.covers.items()]
        return "\n".join([head, *lines, *self._argument()])

    def _argument(self) -> list[str]:
        packed = f"{len(self.packing)} workloads no two of which have a candidate within r of both"
        solver = f"The solver's dual bound is {self.bound:.6g}, its gap {self.gap:.2g}."
        if self.proof == "packing":
            return [f"No fewer will do, as these are {packed}:", f"  {', '.join(self.packing)}", solver]
        if self.proof == "weights":
            terms = ", ".join(f"{name} {weight:.6g}" for name, weight in self.weights.items())
            total = math.fsum(self.weights.values())
            why = (
                f"No fewer will do: give workloads these weights, in all {total:.6g} and so more than {self.size - 1};"
            )
            return [why, "  what any one candidate covers weighs at most 1:", f"  {terms}", solver]
        why = "No fewer will do, by branch and bound; no proof that can be checked by hand was found:"
        return [why, f"  the largest packing has {packed}.", solver]

    def to_frame(self) -> pd.DataFrame:
        """A row for each workload: the member that covers it, in the packing or not, its weight."""
        served = {name: member for member, names in self.covers.items() for name in names}
        frame = pd.DataFrame({"workload": sorted(served)})
        frame["covered_by"] = frame["workload"].map(served)
        frame["packed"] = frame["workload"].isin(self.packing)
        frame["weight"] = frame["workload"].map(dict(self.weights)).fillna(0.0)
        return frame

    def __repr__(self) -> str:
        return f"Certificate (size {self.size}, proof by {self.proof})\n{self.text}"


def certificate(
    d: Distances, radius: float, members: Set, candidates: Sequence[int], needing: Sequence[int] | None = None
) -> Certificate:
    """Proofs that no cover at the radius is smaller than ``members``.

    Parameters
    ----------
    needing : the workloads to be covered (all by default). Raises WcbenchError where a smaller cover exists after all.
    """
    rows_of = list(range(len(d))) if needing is None else sorted(needing)
    near = d.within(radius)[rows_of]
    answer = smallest(near, candidates)
    if answer is None or len(answer.chosen) != len(members) or not near[:, list(members)].any(axis=1).all():
        raise WcbenchError("These members are no smallest cover.")
    packed = packing(near, candidates)
    weights = {} if len(packed) == len(members) else _weights(near, candidates, len(members))
    served = nearest(d.values, members)
    return Certificate(
        radius=radius,
        size=len(members),
        covers={d.names[j]: tuple(d.names[i] for i in rows_of if served[i] == j) for j in sorted(members)},
        bound=answer.bound,
        gap=answer.gap,
        packing=d.called(rows_of[i] for i in packed),
        weights={d.names[rows_of[i]]: weight for i, weight in weights.items()},
        candidates=len(candidates),
        workloads=len(rows_of),
    )


def packing(near: Bools, candidates: Sequence[int]) -> Set:
    """A largest set of rows no two of which share a candidate: max sum x_i, each candidate reaching at most one."""
    reach = np.unique(near[:, candidates].T, axis=0).astype(float)
    answer = minimise(-np.ones(len(near)), rows((reach, -np.inf, 1)))
    if answer is None:  # x = 0 always satisfies it
        raise WcbenchError("The solver found no packing, not even the empty one.")
    return answer.chosen


def _weights(near: Bools, candidates: Sequence[int], size: int) -> dict[int, float]:
    """Weights by row whose sum proves the size; none where the linear bound does not reach it.

    The solver's numbers are rounded down to millionths, so that they keep to the rule exactly.
    """
    reach = near[:, candidates].T
    answer = minimise(
        -np.ones(len(near)), rows((np.unique(reach, axis=0).astype(float), -np.inf, 1)), np.zeros(len(near), bool)
    )
    if answer is None:
        return {}
    units = [math.floor(value * _GRID) for value in answer.values]
    heaviest = max(_GRID, *(sum(units[i] for i in np.flatnonzero(ball)) for ball in reach))
    scaled = {i: unit * _GRID // heaviest for i, unit in enumerate(units) if unit > 0}
    if sum(scaled.values()) <= (size - 1) * _GRID:
        return {}
    return {i: unit / _GRID for i, unit in scaled.items()}
