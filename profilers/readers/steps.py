"""The steps of a file, from the ranges that mark them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.link import Ints

Mark = tuple[int, int, int, int, int]
"""Family, process, start, end and name (as a number) of a range that marks a step."""


class Steps:
    """The steps of a file, by the marks of each of its processes; without marks everything is step 0.

    Of several families of marks the first one counts. Marks of one name that overlap (on several threads) are one step;
    where marks of different names overlap, a time belongs to the one that began last.

    Attributes
    ----------
    spans : (steps, 2) starts and ends by process, in the order of their starts.
    """

    def __init__(self, marks: Sequence[Mark]) -> None:
        family = min((mark[0] for mark in marks), default=None)
        found: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for kind, process, start, end, name in marks:
            if kind == family:
                found.setdefault(process, {}).setdefault(name, []).append((start, end))
        self.spans = {process: _spans(by_name) for process, by_name in found.items()}
        self._pieces = {process: _pieces(spans) for process, spans in self.spans.items()}
        self._any = next(iter(self._pieces.values()), None) if len(self._pieces) == 1 else None

    @property
    def marked(self) -> bool:
        return bool(self.spans)

    @property
    def count(self) -> int:
        """Steps of the process that has most."""
        return max((len(spans) for spans in self.spans.values()), default=1)

    def of(self, process: NDArray[Any], times: NDArray[Any]) -> Ints:
        """The step in which each time lies; -1 outside all of them."""
        if not self.marked:
            return np.zeros(len(times), np.int64)
        found = np.full(len(times), -1, np.int64)
        for number in np.unique(process).tolist():
            pieces = self._pieces.get(number, self._any)
            if pieces is not None:
                mine = process == number
                found[mine] = _within(pieces, times[mine])
        return found


def _spans(by_name: dict[int, list[tuple[int, int]]]) -> Ints:
    """Starts and ends, overlapping ones of one name joined, in the order of their starts."""
    joined: list[tuple[int, int]] = []
    for ranges in by_name.values():
        last: tuple[int, int] | None = None
        for start, end in sorted(ranges):
            if last is not None and start < last[1]:
                last = (last[0], max(last[1], end))
            else:
                if last is not None:
                    joined.append(last)
                last = (start, end)
        if last is not None:
            joined.append(last)
    return np.array(sorted(joined, key=lambda span: (span[0], -span[1])), np.int64)


def _pieces(spans: Ints) -> Ints:
    """The same as pieces (start, end, step) that do not overlap: of two steps the one that began last."""
    pieces: list[tuple[int, int, int]] = []
    open_: list[tuple[int, int]] = []  # end and number of the steps that go on
    at = 0

    def until(time: int) -> None:
        """Close what ends before a time, piece by piece."""
        nonlocal at
        while open_ and at < time:
            end, number = open_[-1]
            stop = min(end, time)
            if stop > at:
                pieces.append((at, stop, number))
            at = max(at, stop)
            if end <= at:
                open_.pop()

    for number, (start, end) in enumerate(spans.tolist()):
        until(start)
        at = start
        open_.append((end, number))
    until(int(spans[:, 1].max()))
    return np.array(pieces, np.int64).reshape(-1, 3)


def _within(pieces: Ints, times: Ints) -> Ints:
    if not len(pieces):
        return np.full(len(times), -1, np.int64)
    at = np.searchsorted(pieces[:, 0], times, side="right") - 1
    place = np.maximum(at, 0)
    inside = (at >= 0) & (times < pieces[place, 1])
    return np.where(inside, pieces[place, 2], -1)
