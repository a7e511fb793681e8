"""Algebra of half-open intervals of time: unions, intersections, and which of several groups are active when.

Intervals are pairs of int64 arrays (starts, ends). Everything is O(n log n) and vectorized, so that a million kernels
take a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]

MOST_GROUPS = 62
"""Groups of `regions`: each is a bit of an int64."""


class Intervals(NamedTuple):
    """Disjoint intervals in order: none touches the next, none is empty. Made by `union`."""

    start: Int
    end: Int

    @property
    def length(self) -> int:
        """Time that they cover."""
        return int((self.end - self.start).sum())


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Int, end: Int) -> Intervals:
    """The union of intervals in any order; empty ones (an end at or before its start) cover nothing.

    Parameters
    ----------
    start, end : int64, shape (n,).
    """
    kept = end > start
    order = np.argsort(start[kept], kind="stable")
    begin, last = start[kept][order], np.maximum.accumulate(end[kept][order])
    if not len(begin):
        return EMPTY
    fresh = np.ones(len(begin), np.bool_)
    fresh[1:] = begin[1:] > last[:-1]  # later than all before it ended
    firsts = np.flatnonzero(fresh)
    return Intervals(begin[firsts], last[np.append(firsts[1:], len(begin)) - 1])


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Times that lie in both."""
    return _where([a, b], lambda mask: mask == 3)


def difference(a: Intervals, b: Intervals) -> Intervals:
    """Times that lie in ``a`` and not in ``b``."""
    return _where([a, b], lambda mask: mask == 1)


def regions(groups: Mapping[str, Intervals]) -> dict[tuple[str, ...], int]:
    """Time in which exactly these groups were active, for every combination that occurs, the longest first.

    The values add up to the time in which any group was active. At most `MOST_GROUPS` groups.

    Examples
    --------
    >>> one = union(np.array([0]), np.array([10]))
    >>> two = union(np.array([6]), np.array([12]))
    >>> regions({"compute": one, "copy": two})
    {('compute',): 6, ('compute', 'copy'): 4, ('copy',): 2}
    """
    if len(groups) > MOST_GROUPS:
        raise ValueError(f"{len(groups)} groups of intervals; at most {MOST_GROUPS}")
    names = list(groups)
    edges, masks = _sweep(list(groups.values()))
    lengths, kinds = np.diff(edges), masks[:-1]
    found: dict[tuple[str, ...], int] = {}
    for mask in np.unique(kinds[(lengths > 0) & (kinds > 0)]).tolist():
        active = tuple(name for bit, name in enumerate(names) if mask >> bit & 1)
        found[active] = int(lengths[kinds == mask].sum())
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _where(groups: Sequence[Intervals], wanted: Callable[[Int], NDArray[np.bool_]]) -> Intervals:
    edges, masks = _sweep(groups)
    chosen = wanted(masks[:-1])
    return union(edges[:-1][chosen], edges[1:][chosen])


def _sweep(groups: Sequence[Intervals]) -> tuple[Int, Int]:
    """Every start and end in order, and the groups that are active from there on, one bit each."""
    times = [part for group in groups for part in (group.start, group.end)]
    signs = [np.full(len(g.start), s << bit, np.int64) for bit, g in enumerate(groups) for s in (1, -1)]
    if not times:
        return EMPTY
    edges, steps = np.concatenate(times), np.concatenate(signs)
    order = np.argsort(edges, kind="stable")
    return edges[order], np.cumsum(steps[order])
