"""Rows that do not fit in memory: sorted in runs on disk, merged in batches, patched in place.

Rows are numpy structured arrays. Memory is bounded by the size of a run, whatever the number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
Key = tuple[str, bool]
"""A field to sort by, and whether it falls."""

RUN = 1 << 16
"""Rows of a run; of rows of more than `WIDE` bytes fewer, so that runs are about equal in bytes."""
WIDE = 64


def sort_order(rows: Rows, keys: Sequence[Key]) -> NDArray[np.int64]:
    """The order of rows by several fields, the first one decisive; equal rows keep their places.

    The complement turns an order round as the negative does, but has no number for which there is none.
    """
    columns = [~rows[field] if falls else rows[field] for field, falls in keys]
    return np.lexsort(columns[::-1])


def those(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """The rows of a mask. `take` copies a row at once, where an index in brackets copies field by field."""
    return rows.take(np.flatnonzero(mask))


class Sorter:
    """Takes rows in any order and gives them back sorted by ``keys`` (signed whole numbers), in batches.

    The last key counts rows in the order in which they are added, so that no two are equal; sorting, which is stable,
    can do without it.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], keys: Sequence[Key]) -> None:
        self.rows = 0
        self._path, self._dtype, self._keys = path, dtype, list(keys)
        self._run = max(1, RUN * WIDE // max(WIDE, dtype.itemsize))
        self._waiting: list[Rows] = []
        self._held = 0
        self._runs: list[tuple[int, int]] = []

    def add(self, rows: Rows) -> None:
        self._waiting.append(rows)
        self._held += len(rows)
        self.rows += len(rows)
        if self._held >= self._run:
            self._spill()

    def _sorted_waiting(self) -> Rows:
        rows = np.concatenate(self._waiting) if self._waiting else np.empty(0, self._dtype)
        self._waiting, self._held = [], 0
        return rows.take(sort_order(rows, self._keys[:-1]))

    def _spill(self) -> None:
        rows = self._sorted_waiting()
        with self._path.open("ab") as file:
            rows.tofile(file)
        first = self._runs[-1][1] if self._runs else 0
        self._runs.append((first, first + len(rows)))

    def __iter__(self) -> Iterator[Rows]:
        """All rows in order, in batches of at most about a run; can be asked for once."""
        if not self._runs:
            rows = self._sorted_waiting()
            if len(rows):
                yield rows
            return
        if self._held:
            self._spill()
        yield from _gathered(self._merged(), self._run // 2)
        self._path.unlink(missing_ok=True)

    def _merged(self) -> Iterator[Rows]:
        share = max(1 << 10, self._run // len(self._runs))
        with self._path.open("rb") as file:
            runs = [_Run(file, self._dtype, first, last, share) for first, last in self._runs]
            while runs := [run for run in runs if run.fill()]:
                bound = self._bound(runs)
                due = [run for run in runs if self._key(run.rows[0]) <= bound]
                parts = [run.take(self._until(run.rows, bound)) for run in due]
                if len(parts) == 1:  # files are mostly in the order of time, so that runs seldom overlap
                    yield parts[0]
                else:
                    batch = np.concatenate(parts)
                    yield batch.take(sort_order(batch, self._keys[:-1]))

    def _bound(self, runs: list[_Run]) -> tuple[int, ...]:
        """The least of the runs' last keys: up to it, everything that there is has been read."""
        return min(self._key(run.rows[-1]) for run in runs)

    def _key(self, row: Any) -> tuple[int, ...]:
        return tuple(~int(row[field]) if falls else int(row[field]) for field, falls in self._keys)

    def _until(self, rows: Rows, bound: tuple[int, ...]) -> int:
        """How many of the sorted rows are not above the bound."""
        low, high = 0, len(rows)
        for (field, falls), value in zip(self._keys, bound, strict=True):
            column = ~rows[field][low:high] if falls else rows[field][low:high]
            left, right = (int(np.searchsorted(column, value, side)) for side in ("left", "right"))
            low, high = low + left, low + right
            if low == high:
                break
        return high


def _gathered(batches: Iterator[Rows], least: int) -> Iterator[Rows]:
    """The same rows in fewer batches: what is done with each has a cost of its own."""
    parts: list[Rows] = []
    held = 0
    for batch in batches:
        parts.append(batch)
        held += len(batch)
        if held >= least:
            yield np.concatenate(parts)
            parts, held = [], 0
    if parts:
        yield np.concatenate(parts)


class _Run:
    """A sorted part of the file, read in pieces."""

    def __init__(self, file: Any, dtype: np.dtype[Any], first: int, last: int, share: int) -> None:
        self._file, self._dtype, self._at, self._last, self._share = file, dtype, first, last, share
        self.rows: Rows = np.empty(0, dtype)

    def fill(self) -> bool:
        """Read the next piece if the one in hand is used up; whether there is one."""
        if not len(self.rows) and self._at < self._last:
            count = min(self._share, self._last - self._at)
            self._file.seek(self._at * self._dtype.itemsize)
            self.rows = np.fromfile(self._file, self._dtype, count)
            self._at += count
        return len(self.rows) > 0

    def take(self, count: int) -> Rows:
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


class RowFile:
    """Rows appended to a file, whose fields can be changed afterwards, read back in batches."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.rows = 0
        self.dtype = dtype
        self._path = path
        self._file = path.open("w+b")

    def append(self, rows: Rows) -> int:
        """Add rows; returns the number of the first."""
        first = self.rows
        self._file.write(rows.tobytes())
        self.rows += len(rows)
        return first

    def patch(self, row: int, field: str, add: int) -> None:
        """Add a number to a whole-number field of a row."""
        self._file.flush()
        kind, place = self.dtype.fields[field][:2]  # type: ignore[index]
        at = row * self.dtype.itemsize + place
        old = np.frombuffer(os.pread(self._file.fileno(), kind.itemsize, at), kind)
        os.pwrite(self._file.fileno(), (old + add).astype(kind).tobytes(), at)

    def batches(self, size: int = RUN) -> Iterator[Rows]:
        self._file.flush()
        self._file.seek(0)
        while len(rows := np.fromfile(self._file, self.dtype, size)):
            yield rows

    def mapped(self) -> Rows:
        """All rows, mapped from the file and paged in as they are looked at."""
        self._file.flush()
        return np.memmap(self._path, self.dtype, "r", shape=(self.rows,)) if self.rows else np.empty(0, self.dtype)

    def close(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)
