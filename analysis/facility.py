"""Facility location: k workloads to which all others are most alike, greedily with a guarantee, then by swaps.

f(S) = sum_i w_i max_{j in S} s_ij with s = max(D) - D is monotone and submodular: greedy reaches at least 1 - 1/e of
the best f (Nemhauser, Wolsey and Fisher 1978). That is on likeness, not on distance; so swaps follow (PAM, Kaufman and
Rousseeuw 1987) until none lowers the sum of distances.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from wcbench.analysis.programs import Floats
from wcbench.errors import UsageError

GUARANTEE = 1 - math.exp(-1)
_FINE = 1e-9


@dataclass(frozen=True)
class Facility:
    """Greedy picks, and what swaps made of them.

    Attributes
    ----------
    picked : in the order of picking, by name. ``likeness`` is f of them, at least 0.632 of the best; ``distance`` the
        weighted sum of distances to the nearest of them.
    swapped : sorted, after swaps; ``swapped_distance`` their sum of distances: a local optimum without a guarantee.
    """

    picked: tuple[str, ...]
    likeness: float
    distance: float
    swapped: tuple[str, ...]
    swapped_distance: float

    def to_frame(self) -> pd.DataFrame:
        """rank, picked, swapped."""
        return pd.DataFrame({"rank": range(1, len(self.picked) + 1), "picked": self.picked, "swapped": self.swapped})

    def __repr__(self) -> str:
        return (
            f"Facility: {', '.join(self.picked)} (at least {100 * GUARANTEE:.1f} % of the best likeness)\n"
            f"  sum of distances {self.distance:.6g}, after swaps {self.swapped_distance:.6g}: "
            f"{', '.join(self.swapped)}"
        )


def facility(values: ArrayLike, names: Sequence[str], k: int, *, weights: ArrayLike | None = None) -> Facility:
    """Greedy facility location and swaps.

    Parameters
    ----------
    values : distances of n workloads (rows) to m candidates (columns, in the order of ``names``); m may be far smaller
        than n, e.g. a coreset.
    weights : of the workloads, 1 each by default.
    """
    d = np.asarray(values, np.float64)
    if d.ndim != 2 or d.shape[1] != len(names) or not np.isfinite(d).all():
        raise UsageError(f"Distances are workloads x candidates and finite: {d.shape} for {len(names)} candidates.")
    if not 1 <= k <= len(names):
        raise UsageError(f"{k} workloads cannot be chosen from {len(names)}.", f"Ask for 1 to {len(names)}.")
    w = np.ones(len(d)) if weights is None else np.asarray(weights, np.float64)
    picked = greedy(d.max() - d, k, w)
    after = sorted(swaps(d, picked, w))
    return Facility(
        picked=tuple(str(names[j]) for j in picked),
        likeness=math.fsum(w * (d.max() - d[:, picked].min(axis=1))),
        distance=math.fsum(w * d[:, picked].min(axis=1)),
        swapped=tuple(str(names[j]) for j in after),
        swapped_distance=math.fsum(w * d[:, after].min(axis=1)),
    )


def greedy(likeness: Floats, k: int, weights: Floats) -> list[int]:
    """The k columns picked greedily, each raising f most, of equal ones the first.

    Lazy: a gain can only shrink, so a candidate whose fresh gain still beats the others' stale ones is the best.
    """
    best = np.zeros(len(likeness))
    queue = [(-_gain(likeness[:, j], best, weights), j, 0) for j in range(likeness.shape[1])]
    heapq.heapify(queue)
    picked: list[int] = []
    while len(picked) < k:
        _, j, round_of = heapq.heappop(queue)
        if round_of == len(picked):
            picked.append(j)
            best = np.maximum(best, likeness[:, j])
        else:
            heapq.heappush(queue, (-_gain(likeness[:, j], best, weights), j, len(picked)))
    return picked


def _gain(column: Floats, best: Floats, weights: Floats) -> float:
    """By how much a candidate raises f, to 12 digits so that equal gains stay equal."""
    gain = math.fsum(weights * np.maximum(column - best, 0))
    return float(f"{gain:.12g}")


def swaps(d: Floats, members: Sequence[int], weights: Floats, most: int = 1000) -> list[int]:
    """Swap a member for another candidate while the sum of distances falls, the best swap each time."""
    current = list(members)
    for _ in range(most):
        total = math.fsum(weights * d[:, current].min(axis=1))
        costs = np.array([_without(d, current, i, weights) for i in range(len(current))])
        place = int(np.argmin(np.round(costs / max(total, _FINE), 11)))
        i, j = divmod(place, d.shape[1])
        if costs[i, j] >= total * (1 - _FINE):
            break
        current[i] = j
    return current


def _without(d: Floats, members: list[int], i: int, weights: Floats) -> Floats:
    """Sum of distances when member i is replaced by each candidate in turn."""
    others = members[:i] + members[i + 1 :]
    left = d[:, others].min(axis=1) if others else np.full(len(d), np.inf)
    found: Floats = weights @ np.minimum(d, left[:, None])
    return found
