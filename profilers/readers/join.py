"""Device records tied to the calls that launched them, where neither fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.link import Ints
from wcbench.profilers.readers.rows import ABSENT, LAUNCH
from wcbench.profilers.readers.spill import Rows, those


def pick(values: NDArray[Any], rows: Ints, otherwise: Any) -> NDArray[Any]:
    """``values[row]`` for each row, and ``otherwise`` where the row is below zero."""
    return np.where(rows >= 0, values[rows], otherwise) if len(values) else np.full(len(rows), otherwise)


class Window:
    """Launches in the order of process and id, of which only those are held that records may still ask for."""

    def __init__(self, batches: Iterator[Rows]) -> None:
        self._batches = batches
        self._held: Rows = np.empty(0, LAUNCH)
        self._hit = np.empty(0, np.bool_)
        self._done = False
        self._unmatched: dict[int, int] = {}
        self.ambiguous = 0
        """Records whose id several processes use, where they do not say whose it is: they are tied to none."""

    def match(self, records: Rows) -> Ints:
        """For each record (sorted by process and id) the place of its launch among those held; -1 without one."""
        last = (int(records["process"][-1]), int(records["number"][-1]))
        self._drop((int(records["process"][0]), int(records["number"][0])))
        while not self._done and (not len(self._held) or self._key(-1) <= last):
            self._more()
        found = np.full(len(records), -1, np.int64)
        for process in np.unique(records["process"]).tolist():
            first, end = (int(np.searchsorted(self._held["process"], process, side)) for side in ("left", "right"))
            mine = np.flatnonzero((records["process"] == process) & (records["number"] >= 0))
            ids = self._held["number"][first:end]
            if not len(ids) or not len(mine):
                continue
            asked = records["number"][mine]
            left, right = (np.searchsorted(ids, asked, side) for side in ("left", "right"))
            hit = left < right
            owner = self._held["owner"][first:end]
            several = hit & (owner[np.minimum(left, len(ids) - 1)] != owner[np.maximum(right - 1, 0)])
            self.ambiguous += int(several.sum())
            clear = hit & ~several
            found[mine[clear]] = first + left[clear]
            edges = np.zeros(len(ids) + 1, np.int64)
            np.add.at(edges, left[hit], 1)
            np.add.at(edges, right[hit], -1)
            self._hit[first:end] |= np.cumsum(edges)[:-1] > 0
        return found

    def field(self, name: str, places: Ints) -> NDArray[Any]:
        values: NDArray[Any] = self._held[name].astype(np.int64)
        return pick(values, places, ABSENT)

    def unmatched(self) -> dict[int, int]:
        """How many launches by the number of their name no record asked for; called at the end."""
        while not self._done:
            self._more()
        self._count(self._held[~self._hit])
        return self._unmatched

    def _key(self, place: int) -> tuple[int, int]:
        return int(self._held["process"][place]), int(self._held["number"][place])

    def _more(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self._done = True
            return
        self._held = np.concatenate([self._held, batch])
        self._hit = np.concatenate([self._hit, np.zeros(len(batch), np.bool_)])

    def _drop(self, below: tuple[int, int]) -> None:
        """Forget launches below the first record that may still come."""
        process, number = self._held["process"], self._held["number"]
        gone = (process < below[0]) | ((process == below[0]) & (number < below[1]))
        self._count(those(self._held, gone & ~self._hit))
        self._held, self._hit = those(self._held, ~gone), self._hit[~gone]

    def _count(self, launches: Rows) -> None:
        for number, count in zip(*np.unique(launches["name"], return_counts=True), strict=True):
            self._unmatched[int(number)] = self._unmatched.get(int(number), 0) + int(count)
