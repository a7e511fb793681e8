"""Rows of device work as SQLite exports hold them: which times are sound, how packed ids and kinds read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.database_rows import ABSENT, Batch, select

Ints = NDArray[np.int64]

_LAST = 1 << 62
_CLOSED = (59, 60, 70, 71)  # ENUM_NSYS_EVENT_TYPE: NVTX ranges with both their ends, pushed or started
_MARKER, _NO_RANGE = 34, (33, 39, 75, 76)  # an instant; names of categories, threads and domains
# Numbers of the kinds of copies and of memory as nsys exports them (ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND).
_WAYS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD")
_UNIFIED = 11
_MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")


class Span:
    """The time from the first start to the last end."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    def add(self, start: Ints, end: Ints) -> None:
        first, last = int(start.min()), int(end.max())
        known = self._ends or (first, last)
        self._ends = min(first, known[0]), max(last, known[1])

    @property
    def seconds(self) -> float:
        return (self._ends[1] - self._ends[0]) / 1e9 if self._ends else 0.0


def process_of(identifier: Ints) -> Ints:
    """The process (with its host) of a packed identifier, ABSENT where there is none."""
    return np.where(identifier == ABSENT, ABSENT, identifier >> 24)


def timed(batch: Batch, table: str, sink: Sink) -> Batch:
    """The rows whose times are sound: CUPTI writes zeros for what it could not time."""
    untimed, wrong = _faults(batch)
    for which, why in ((untimed, "it has no times"), (wrong, "it ends before it begins, or at no sensible time")):
        if which.any():
            sink.lose(f"a row of table {table}", why, count=int(which.sum()))
    keep = ~(untimed | wrong)
    return batch if keep.all() else {name: select(values, keep) for name, values in batch.items()}


def sound(batch: Batch) -> NDArray[np.bool_]:
    """Which rows `timed` keeps."""
    untimed, wrong = _faults(batch)
    return ~(untimed | wrong)


def _faults(batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    start, end = batch["start"], batch["end"]
    untimed = (start == 0) & (end == 0)
    return untimed, ~untimed & ((end < start) | (start < 0) | (end > _LAST))


def closed(batch: Batch, sink: Sink) -> Batch:
    """The NVTX ranges of a batch that have an end; what merely names something is no event."""
    kind = batch["eventType"]
    marker, ranged = kind == _MARKER, ~np.isin(kind, (_MARKER, *_NO_RANGE))
    keep = np.isin(kind, _CLOSED) & (batch["end"] >= 0)
    for which, what, why in (
        (marker, "an NVTX mark", "it has no duration"),
        (ranged & ~keep, "an NVTX range", "it was not closed, or is of another kind"),
    ):
        if which.any():
            sink.lose(what, why, count=int(which.sum()))
    return {name: select(values, keep) for name, values in batch.items()}


def triples(x: Ints, y: Ints, z: Ints) -> list[tuple[int, int, int] | None]:
    """Extents of launches, None where one is not told."""
    found = zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
    return [extents if min(extents) >= 0 else None for extents in found]


def total(first: Ints, second: Ints) -> Ints:
    """Sums, ABSENT where a part is."""
    return np.where((first < 0) | (second < 0), ABSENT, first + second)


def mapped(known: Mapping[int, int], values: Ints) -> Ints:
    """Each value's entry, 0 where it has none."""
    different, at = np.unique(values, return_inverse=True)
    return np.array([known.get(value, 0) for value in different.tolist()], np.int64)[at]


def copy_name(way: int, source: int, target: int) -> str:
    """The name of a copy as Kineto writes it, e.g. ``Memcpy HtoD (Pageable -> Device)``."""
    known = _WAYS[way] if 0 <= way < len(_WAYS) else ""
    if way >= _UNIFIED and known:
        return f"Memcpy {known} (unified memory)"
    places = [_MEMORY[kind] if 0 <= kind < len(_MEMORY) else None for kind in (source, target)]
    between = f" ({places[0]} -> {places[1]})" if None not in places else ""
    return f"Memcpy {known}{between}" if known else f"Memcpy{between}"


def fill_name(kind: int) -> str:
    """The name of a fill as Kineto writes it, e.g. ``Memset (Device)``."""
    return f"Memset ({_MEMORY[kind] if 0 <= kind < len(_MEMORY) else 'Unknown'})"
