"""The curve k(r): for each size the smallest radius it can have and the best subset of that size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from wcbench.analysis.cover import Bools, Distances, Set, chosen, radius_of, total_distance
from wcbench.analysis.medians import Centres
from wcbench.analysis.programs import Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be covered (``rows``, places) by whom (``candidates``) at what cost."""

    d: Distances
    candidates: Set
    rows: Set
    costs: Floats | None

    @property
    def values(self) -> Floats:
        return self.d.values[list(self.rows)]

    def near(self, radius: float) -> Bools:
        return self.d.within(radius)[list(self.rows)]


def curve_of(problem: Problem, limit: int, pcs: Floats | None, known: Set = ()) -> pd.DataFrame:
    """The best subset of each size: smallest radius, then cost, then mean distance.

    ``known`` is the subset that was chosen among all smallest covers: of its size it stands where none is nearer, since
    of costs that are equal to seven digits the solver takes either."""
    centres = Centres(problem.d, problem.candidates)
    found = []
    for k in range(1, limit + 1):
        radius = centres.radius(k)
        if len(known) == k and radius_of(problem.values, known) <= radius + problem.d.tolerance:
            members = known
        else:
            members = chosen(problem.values, problem.near(radius), problem.candidates, k, problem.costs)
        cost = None if problem.costs is None else math.fsum(problem.costs[list(members)])
        share = saved(problem.costs, members)
        found.append(
            {
                "k": k,
                "radius": radius,
                "needed": centres.size_at(centres.step_of(k)),
                "members": problem.d.called(members),
                "cost": math.nan if cost is None else cost,
                "cost_share": math.nan if share is None else 1 - share,
                "mean_distance": total_distance(problem.values, members) / len(problem.d),
                "radius_in_pcs": math.nan if pcs is None else radius_of(pcs, members),
            }
        )
    return pd.DataFrame(found)


def saved(costs: Floats | None, members: Set) -> float | None:
    """1 - cost of the members / cost of all; None without costs or where all are 0."""
    if costs is None or math.fsum(costs) == 0:
        return None
    return 1 - math.fsum(costs[list(members)]) / math.fsum(costs)
