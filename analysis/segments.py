"""Accesses of operators to byte runs of storages, and the segments into which they cut them.

A storage is cut at every extent boundary seen in the window, so an access touches whole segments only. Then the bytes
of a segment share one fate: each has the same stack distance at each touch (docs/locality.md), and what is computed
by segment equals what an LRU cache of single bytes would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

NEVER = int(np.iinfo(np.int64).max)  # the operator index at which a storage dies that outlives the window
RUN_LIMIT = 64


@dataclass(frozen=True, eq=False)
class Accesses:
    """Accesses in program order, one row for each access of one operator to one run of bytes.

    Parameters
    ----------
    op : int64 (n,), index of the operator call, never decreasing. An operator reads before it writes.
    storage : int64 (n,), identity of the storage.
    begin, end : int64 (n,), the bytes [begin, end) of the storage.
    write : bool (n,)
    weighted : bool (n,), an access that has no place: a gather whose indices are unknown, a tensor of too many runs.
        It counts ``nbytes`` at every capacity and no reuse is credited; [begin, end) is where its bytes may lie.
    nbytes : int64 (n,), bytes that a weighted access moves; of the others it is set to ``end - begin``.
    step : int64 (n,), index of the training step; the last one is measured, those before it warm the cache.
    phase : int8 (n,), 0 forward, 1 backward, 2 optimizer, 3 other.
    tenant : int64 (n,) or None, whose bytes these are where ``storage`` is an address space (`to_allocator`).
    """

    op: Ints
    storage: Ints
    begin: Ints
    end: Ints
    write: Bools
    weighted: Bools
    nbytes: Ints
    step: Ints
    phase: npt.NDArray[np.int8]
    tenant: Ints | None = None

    def __post_init__(self) -> None:
        kinds: dict[str, npt.DTypeLike] = {"write": np.bool_, "weighted": np.bool_, "phase": np.int8}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                array: npt.NDArray[Any] = np.asarray(value, dtype=kinds.get(field.name, np.int64))
                if array.shape != (len(self.op),):
                    raise ValueError(f"{field.name} has shape {array.shape}; op has {len(self.op)} rows")
                object.__setattr__(self, field.name, array)
        if len(self.op) and int(np.diff(self.op).min(initial=0)) < 0:
            raise ValueError("op decreases: accesses must stand in program order")
        if bool(np.any(self.begin < 0) or np.any(self.end < self.begin)):
            raise ValueError("an access ends before it begins, or begins before byte 0")
        object.__setattr__(self, "nbytes", np.where(self.weighted, self.nbytes, self.end - self.begin))

    def __len__(self) -> int:
        return len(self.op)

    @property
    def owner(self) -> Ints:
        """The storage whose life decides whether bytes are needed later."""
        return self.storage if self.tenant is None else self.tenant

    def take(self, rows: npt.NDArray[Any]) -> Accesses:
        """The rows of a mask or of an index."""
        columns = ((field.name, getattr(self, field.name)) for field in fields(self))
        taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns}
        return Accesses(**taken)


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """When storages live: during operators born <= op < died.

    A storage that is not listed is older than the window and outlives it, as weights are. ``died`` is the first
    operator that runs without the storage (the window's last one + 1 for what is freed after it), `NEVER` for what
    outlives the window. ``nbytes`` is optional; without it a storage is as large as its accesses show.
    """

    storage: Ints
    born: Ints
    died: Ints
    nbytes: Ints | None = None

    @classmethod
    def of(cls, births: Births) -> Lifetimes:
        """Of a mapping storage -> (born, died), died None for a storage that outlives the window; sorted."""
        if births is None:
            births = {}
        if isinstance(births, Lifetimes):
            order = np.argsort(births.storage, kind="stable")
            sizes = None if births.nbytes is None else births.nbytes[order]
            return cls(births.storage[order], births.born[order], births.died[order], sizes)
        rows = [(s, born, NEVER if died is None else died) for s, (born, died) in sorted(births.items())]
        storage, born, died = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return cls(storage, born, died)

    def lookup(self, storage: Ints, column: str, default: int) -> Ints:
        """A column for each given storage; ``default`` for one that is not listed."""
        if not len(self.storage):
            return np.full(len(storage), default, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.storage, storage), len(self.storage) - 1)
        values: Ints = getattr(self, column)[at]
        return np.where(self.storage[at] == storage, values, default)


Births: TypeAlias = "Mapping[int, tuple[int, int | None]] | Lifetimes | None"


@dataclass(frozen=True, eq=False)
class Segmented:
    """Touches of whole segments, in the order in which an LRU cache sees them.

    All arrays have one row a touch except ``unseen``. ``segment`` is a number without meaning beyond identity; an
    access without a place is one touch of a segment of its own (``placed`` False). ``size`` is the segment's bytes.
    ``unseen`` (2, m) holds pairs (segment, touch): the unplaced read ``touch`` may need bytes of ``segment``.
    """

    segment: Ints
    size: Ints
    placed: Bools
    op: Ints
    owner: Ints
    write: Bools
    step: Ints
    phase: npt.NDArray[np.int8]
    unseen: Ints
    ids: int

    def __len__(self) -> int:
        return len(self.segment)


def segment(accesses: Accesses) -> Segmented:
    """Cut storages at every extent boundary of the window; each access becomes the segments that it covers.

    Touches follow program order; within an operator reads come before writes, each in the order given, and an access
    touches its segments from the lowest byte up. Accesses of zero bytes vanish.
    """
    accesses = _in_touch_order(accesses)
    low, high, sizes = _cuts(accesses)
    unplaced = np.flatnonzero(accesses.weighted)
    ids = len(sizes) + len(unplaced)
    first, count = low.copy(), high - low
    first[unplaced], count[unplaced] = np.arange(len(sizes), ids), 1
    sizes = np.concatenate([sizes, accesses.nbytes[unplaced]])
    access, segments = _expand(first, count)
    return Segmented(
        segment=segments,
        size=sizes[segments],
        placed=~accesses.weighted[access],
        op=accesses.op[access],
        owner=accesses.owner[access],
        write=accesses.write[access],
        step=accesses.step[access],
        phase=accesses.phase[access],
        unseen=_unseen(accesses, low, high, np.cumsum(count) - count),
        ids=ids,
    )


def _in_touch_order(accesses: Accesses) -> Accesses:
    """Without empty rows; reads before writes within an operator."""
    accesses = accesses.take(accesses.nbytes > 0)
    key = accesses.op * 2 + accesses.write
    if bool(np.all(np.diff(key) >= 0)):
        return accesses
    return accesses.take(np.argsort(key, kind="stable"))


def _cuts(accesses: Accesses) -> tuple[Ints, Ints, Ints]:
    """First piece and past-the-last piece of each access, and the bytes of each piece of the storages.

    Pieces are numbered through all storages; the last of a storage is followed by one of 0 bytes that nobody covers.
    """
    storage = np.concatenate([accesses.storage, accesses.storage])
    offset = np.concatenate([accesses.begin, accesses.end])
    order = np.lexsort((offset, storage))
    storage, offset = storage[order], offset[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(storage) != 0) | (np.diff(offset) != 0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    storage, offset = storage[new], offset[new]
    sizes = np.zeros(len(offset), dtype=np.int64)
    sizes[:-1] = np.where(np.diff(storage) == 0, np.diff(offset), 0)
    return number[: len(accesses)], number[len(accesses) :], sizes


def _unseen(accesses: Accesses, low: Ints, high: Ints, touch: Ints) -> Ints:
    """Pairs (segment, touch) of the segments that unplaced reads may read."""
    reads = np.flatnonzero(accesses.weighted & ~accesses.write)
    row, segments = _expand(low[reads], (high - low)[reads])
    return np.stack([segments, touch[reads][row]])


def _expand(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Rows repeated ``count`` times, and for each the numbers first, first + 1, ..."""
    row = np.repeat(np.arange(len(first)), count)
    return row, np.repeat(first - (np.cumsum(count) - count), count) + np.arange(len(row))


def measured_step(accesses: Accesses) -> int:
    """The step whose distances count: the last."""
    return int(accesses.step.max()) if len(accesses) else 0


def last_step_only(accesses: Accesses) -> Accesses:
    """The measured step alone, as if the cache were emptied at the step's boundary."""
    return accesses.take(accesses.step == measured_step(accesses))


def runs_of(
    offset: int, shape: Sequence[int], stride: Sequence[int], itemsize: int, limit: int = RUN_LIMIT
) -> tuple[Ints, Ints] | None:
    """Contiguous byte runs that a strided tensor covers, ascending, each byte once.

    A dimension of stride 0 (``expand``) counts once, overlapping and touching runs are merged. None where there are
    more than ``limit`` runs (or, a shortcut, where more than 64 x ``limit`` unmerged ones would have to be laid out).

    Examples
    --------
    >>> runs_of(0, (2, 3), (5, 1), 4)
    (array([ 0, 20]), array([12, 32]))
    """
    if 0 in shape:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    begins, ends = np.array([offset], dtype=np.int64), np.array([offset + 1], dtype=np.int64)
    for step, size in _moving(shape, stride):
        shift = min(step, 0) * (size - 1)  # a negative stride covers the same bytes from the other side
        if len(begins) == 1 and abs(step) <= ends[0] - begins[0]:
            begins, ends = begins + shift, ends + shift + abs(step) * (size - 1)
            continue
        if size * len(begins) > 64 * limit:
            return None
        copies = shift + abs(step) * np.arange(size, dtype=np.int64)[:, None]
        begins, ends = _merged((begins + copies).ravel(), (ends + copies).ravel())
    return None if len(begins) > limit else (begins * itemsize, ends * itemsize)


def _moving(shape: Sequence[int], stride: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(stride, size) of the dimensions that lead to new elements, the smallest stride first."""
    pairs = zip(stride, shape, strict=True)
    return iter(sorted(((s, n) for s, n in pairs if n > 1 and s != 0), key=lambda pair: abs(pair[0])))


def _merged(begins: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Sorted runs, overlapping and touching ones as one."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    opens = np.ones(len(begins), dtype=np.bool_)
    opens[1:] = begins[1:] > ends[:-1]
    closes = np.append(opens[1:], True)
    return begins[opens], ends[closes]
