"""Versions: the contents that writes give to segments, and until which capacity a cache has to write them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wcbench.analysis.segments import Bools, Ints, Segmented
from wcbench.analysis.stack import INFINITE


@dataclass(frozen=True, eq=False)
class Versions:
    """One row a version: a write of the measured step to a placed segment, and the reads until the next write.

    ``touch`` is the write and ``size`` its bytes. ``needed`` is the capacity below which the version is written back,
    0 for never and `INFINITE` for always. ``live_in`` adds up the bytes whose first access in the step is a read,
    ``live_out`` those written in the step that are alive at its end.
    """

    touch: Ints
    size: Ints
    needed: Ints
    live_in: int
    live_out: int


def versions(trace: Segmented, distances: Ints, measured: Bools, outlives: Bools) -> Versions:
    """The versions of the measured step.

    A dirty segment is evicted where its next touch is farther than the capacity. It is written back then if its
    content is read later; once written it is clean, so the version costs one write-back exactly where the farthest of
    its reads is farther than the capacity. A version that the window's end finds alive is written once at every
    capacity, sooner or later. One that is overwritten or dies is needed by its reads only, and without any by nobody.

    Parameters
    ----------
    distances : int64 (touches,); `INFINITE` where nothing is reused.
    measured : bool (touches,), the touches of the step that is measured.
    outlives : bool (touches,), whether the touched storage is alive at the window's end.
    """
    touch = np.flatnonzero(measured & trace.placed)
    # reads without a place need the version too, and find it in memory at every capacity
    seen_in, seen_by = trace.unseen[:, measured[trace.unseen[1]]]
    place = np.concatenate([trace.segment[touch], seen_in])
    touch = np.concatenate([touch, seen_by])
    unseen = np.arange(len(touch)) >= len(touch) - len(seen_by)
    order = np.lexsort((touch, place))
    place, touch, unseen = place[order], touch[order], unseen[order]
    write = trace.write[touch]
    row = np.flatnonzero(write)
    current = np.cumsum(write) - 1  # the version of each row, wherever one has been written
    holds = (current >= 0) & ~write
    holds[holds] = _same(place, trace.owner[touch], holds.nonzero()[0], row[current[holds]])
    needed = np.zeros(len(row), dtype=np.int64)
    far = np.where(unseen, INFINITE, distances[touch])
    np.maximum.at(needed, current[holds], far[holds])
    newest = np.append(place[row[1:]] != place[row[:-1]], True) if len(row) else np.zeros(0, dtype=np.bool_)
    out = newest & outlives[touch[row]]
    size = trace.size[touch[row]]
    return Versions(
        touch=touch[row],
        size=size,
        needed=np.where(out, INFINITE, needed),
        live_in=_live_in(trace, place[~unseen], touch[~unseen]),
        live_out=int(size[out].sum()),
    )


def _same(place: Ints, owner: Ints, one: Ints, other: Ints) -> Bools:
    return np.asarray((place[one] == place[other]) & (owner[one] == owner[other]), dtype=np.bool_)


def _live_in(trace: Segmented, place: Ints, touch: Ints) -> int:
    """Bytes that their owner's first access in the step reads; rows sorted by segment, then time."""
    owner = trace.owner[touch]
    first = np.ones(len(touch), dtype=np.bool_)
    first[1:] = (np.diff(place) != 0) | (np.diff(owner) != 0)
    return int(trace.size[touch[first & ~trace.write[touch]]].sum())
