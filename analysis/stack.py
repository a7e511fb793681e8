"""LRU stack distances: for each touch the smallest LRU cache in which it hits (Mattson et al., 1970)."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from wcbench.analysis.segments import Bools, Ints

_T = TypeVar("_T", bound=np.generic)

INFINITE = int(np.iinfo(np.int64).max)  # the distance of a first touch; greater than every capacity


def previous_touch(segment: Ints) -> Ints:
    """Index of the touch before on the same segment, -1 for a first touch."""
    order = np.argsort(segment, kind="stable")
    previous = np.full(len(segment), -1, dtype=np.int64)
    again = segment[order[1:]] == segment[order[:-1]]
    previous[order[1:][again]] = order[:-1][again]
    return previous


def stack_distances(segment: Ints, size: Ints, previous: Ints | None = None) -> Ints:
    """Byte-weighted LRU stack distance of each touch, its own size included; `INFINITE` for a first touch.

    The distance is the sum of the sizes of the distinct segments touched since the touch before, so that a touch hits
    in an LRU cache of C bytes exactly when distance <= C.

    With p the previous touch of i, the touches between them add up to the distance once those that repeat a segment
    within (p, i) are taken off. Such a repeat j has previous(j) > p, and p < j follows from that; so what to take off
    is the weight of the earlier touches with a greater previous: weighted inversions of a permutation, which are
    counted without a loop over touches.

    Parameters
    ----------
    segment : int64 (n,), what is touched, in time order.
    size : int64 (n,), bytes of the touched segment; the same at each of its touches.
    previous : int64 (n,), `previous_touch` of ``segment`` where it is known already.

    References
    ----------
    Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970.
    Olken, "Efficient methods for calculating the success function of fixed space replacement policies", 1981.

    Examples
    --------
    >>> distances = stack_distances(np.array([0, 1, 0, 2, 1, 0]), np.array([4, 8, 4, 2, 8, 4]))
    >>> [None if d == INFINITE else int(d) for d in distances]
    [None, None, 12, None, 14, 14]
    """
    if previous is None:
        previous = previous_touch(segment)
    distances = np.full(len(segment), INFINITE, dtype=np.int64)
    again = np.flatnonzero(previous >= 0)
    if not len(again):
        return distances
    before = previous[again]
    if bool(np.any(size[again] != size[before])):
        raise ValueError("a segment has two sizes")
    upto = np.cumsum(size)  # may wrap past 2^63; differences are still right, since distances fit
    repeats = _heavier_before(_ranks(before, len(segment)), size[again])
    distances[again] = upto[again] - upto[before] - repeats
    return distances


def unit_distances(segment: Ints) -> Ints:
    """Classical stack distance: the number of other segments since the touch before; `INFINITE` for a first touch."""
    distances = stack_distances(segment, np.ones(len(segment), dtype=np.int64))
    return np.where(distances == INFINITE, INFINITE, distances - 1)


def _ranks(values: Ints, bound: int) -> Ints:
    """Rank of each of some distinct numbers in [0, bound)."""
    present = np.zeros(bound, dtype=np.int64)
    present[values] = 1
    return np.asarray((np.cumsum(present) - 1)[values], dtype=np.int64)


def _heavier_before(rank: Ints, weight: Ints) -> Ints:
    """For each i the sum of weight[j] over j < i with rank[j] > rank[i]; ``rank`` is a permutation of range(n).

    Decides pairs at the highest bit in which their ranks differ. At each level a block holds the ranks that share
    all higher bits, in time order; padded to a power of two, every block has half of its ranks on each side. Levels
    are whole-array operations, log2(n) of them.
    """
    n = len(rank)
    width = 1 << max(n - 1, 0).bit_length()
    rest: npt.NDArray[np.signedinteger[Any]] = np.concatenate([rank, np.arange(n, width)])
    rest = rest.astype(np.int32 if width < 2**31 else np.int64)
    load = np.zeros(width, dtype=np.int64)
    load[:n] = weight
    total = np.zeros(width, dtype=np.int64)
    block = width
    while block > 1:
        half = block // 2
        upper = (rest & half) != 0
        lower = ~upper
        seen = np.cumsum(np.where(upper, load, 0)).reshape(-1, block)
        seen[1:] -= seen[:-1, -1:].copy()
        total = _halves(total[lower] + seen.ravel()[lower], total[upper], half)
        rest, load = _halves(rest[lower], rest[upper], half), _halves(load[lower], load[upper], half)
        block = half
    return total[rank]  # by now everything stands in the order of ranks


def _halves(lower: npt.NDArray[_T], upper: npt.NDArray[_T], half: int) -> npt.NDArray[_T]:
    """Each block's lower half, then its upper half."""
    return np.stack([lower.reshape(-1, half), upper.reshape(-1, half)], axis=1).reshape(-1)


def stack_distances_fenwick(segment: Ints, size: Ints) -> Ints:
    """The same distances by another way: a Fenwick tree over time that holds each segment at its last touch. Slow."""
    n = len(segment)
    tree = [0] * (n + 1)

    def add(at: int, amount: int) -> None:
        while at <= n:
            tree[at] += amount
            at += at & -at

    def upto(at: int) -> int:
        total = 0
        while at:
            total += tree[at]
            at &= at - 1
        return total

    last: dict[int, int] = {}
    distances = []
    for now, (name, nbytes) in enumerate(zip(segment.tolist(), size.tolist(), strict=True), start=1):
        before = last.get(name)
        distances.append(INFINITE if before is None else upto(n) - upto(before - 1))
        if before is not None:
            add(before, -nbytes)
        add(now, nbytes)
        last[name] = now
    return np.array(distances, dtype=np.int64)


def miss_ratio_curve(distances: Ints, sizes: Ints, capacities: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Share of the touched bytes that miss in an LRU cache of each capacity; NaN where nothing is touched."""
    total = int(sizes.sum())
    at = np.asarray(capacities, dtype=np.int64)
    if not total:
        return np.full(at.shape, np.nan)
    return np.asarray(bytes_above(distances, sizes)(at) / total, dtype=np.float64)


class Curve:
    """Bytes that move, as a function of an LRU cache's capacity; never rises.

    Each threshold t moves its weight at capacities below t, those at `INFINITE` always. ``total`` corrects a sample:
    it is what the weights of the finite thresholds should add up to, and they are scaled to it (where the sample has
    none of them, their bytes move at every capacity).
    """

    def __init__(self, thresholds: Ints, weights: Ints, total: int | None = None, always: int = 0) -> None:
        finite = thresholds < INFINITE
        order = np.argsort(thresholds[finite])
        self._at: Ints = thresholds[finite][order]
        above = np.zeros(len(order) + 1, dtype=np.int64)
        above[:-1] = np.cumsum(weights[finite][order][::-1])[::-1]
        self.always = int(weights[~finite].sum()) + always
        if total is not None and total != above[0]:
            self.always += 0 if above[0] else total
            above = np.rint(above * (total / max(int(above[0]), 1))).astype(np.int64)
        self._above: Ints = above

    def __call__(self, capacity: npt.ArrayLike) -> Ints:
        at = np.searchsorted(self._at, np.asarray(capacity, dtype=np.int64), side="right")
        return np.asarray(self._above[at] + self.always, dtype=np.int64)

    @property
    def finite(self) -> int:
        """The bytes that some capacity avoids."""
        return int(self._above[0])

    def capacity_for(self, percent: int) -> int | None:
        """Smallest capacity that avoids ``percent`` % of what can be avoided; None where nothing can."""
        if not len(self._at):
            return None
        left = self.finite - -(-self.finite * percent // 100)  # in whole bytes, without rounding
        return int(self._at[np.argmax(self._above[1:] <= left)])


def bytes_above(distances: Ints, sizes: Ints, which: Bools | None = None) -> Curve:
    """The curve of missed bytes of some touches."""
    return Curve(distances, sizes) if which is None else Curve(distances[which], sizes[which])
