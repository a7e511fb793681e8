"""Names beside points, none over another: a place is sought around each point, farther out where it is crowded.

Everything is in pixels. The same points and names give the same places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""
Boxes = npt.NDArray[np.float64]
"""Boxes, one a row."""

POINT = 6.0
"""Half of the square around a point that no name may touch."""
NEAR = 7.0
_DISTANCES = (NEAR, 13.0, 22.0, 34.0, 48.0, 66.0, 88.0, 114.0, 145.0)
_LEADER = 12.0
"""From this gap on a line leads from the name to its point."""
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""The eight offsets, the preferred first."""
_PASSES = 4


@dataclass(frozen=True)
class Place:
    """Where a name stands, and the line that leads from its point to it where it stands apart."""

    box: Box
    leader: tuple[tuple[float, float], tuple[float, float]] | None


def place(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    bounds: Box,
    obstacles: Sequence[Box] = (),
    reach: float = _DISTANCES[-1],
) -> list[Place | None]:
    """A place for each name, or None for one that finds none within ``reach``.

    Parameters
    ----------
    points : the centre of each point.
    sizes : width and height of each name.
    bounds : where names may stand.
    obstacles : boxes that no name may cover.
    """
    if not points:
        return []
    search = _Search(points, sizes, bounds, obstacles, reach)
    for _ in range(_PASSES):
        moved = search.improve()
        if not search.swap() and not moved:
            break
    return [search.found(index) for index in range(len(points))]


def along(points: Sequence[tuple[float, float]], step: float = 6.0, half: float = 1.5) -> list[Box]:
    """Small boxes along a line through some points, to keep names off it."""
    boxes = []
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        count = max(1, round(math.hypot(x1 - x0, y1 - y0) / step))
        middles = [(x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count) for i in range(count + 1)]
        boxes += [(x - half, y - half, x + half, y + half) for x, y in middles]
    return boxes


class _Search:
    """Candidates of all names, and which of them each has at present."""

    def __init__(
        self,
        points: Sequence[tuple[float, float]],
        sizes: Sequence[tuple[float, float]],
        bounds: Box,
        obstacles: Sequence[Box],
        reach: float,
    ) -> None:
        self.points = np.asarray(points, dtype=float)
        marks = np.hstack([self.points - POINT, self.points + POINT])
        blocked = np.vstack([marks, np.asarray(obstacles, dtype=float).reshape(-1, 4)])
        self.boxes: list[Boxes] = []
        self.costs: list[npt.NDArray[np.float64]] = []
        self.lines: list[Boxes] = []
        self.chosen: list[int | None] = [None] * len(points)
        for point, size in zip(self.points, sizes, strict=True):
            boxes, costs = _candidates(point, size, reach)
            lines = _leaders(point, boxes)
            free = _inside(boxes, bounds) & ~_overlap(boxes, blocked).any(axis=1)
            others = marks[~np.all(self.points == point, axis=1)]
            costs = costs + 8.0 * _crossings(lines, others) + 3.0 * _crossings(lines, blocked[len(marks) :])
            self.boxes.append(boxes[free])
            self.costs.append(costs[free])
            self.lines.append(lines[free])

    def improve(self) -> bool:
        """Place each name anew among the others, those with the fewest free places first; whether any has moved."""
        order = sorted(range(len(self.boxes)), key=lambda index: (len(self.boxes[index]), index))
        before = list(self.chosen)
        for index in order:
            self.chosen[index] = None
            self.chosen[index] = self._best(index)
        return self.chosen != before

    def swap(self) -> bool:
        """Give each name without a place that of another which finds a new one; whether any has changed."""
        swapped = False
        for index, mine in enumerate(self.chosen):
            swapped |= mine is None and self._instead(index)
        return swapped

    def _instead(self, index: int) -> bool:
        for other, place in enumerate(self.chosen):
            if place is None or other == index:
                continue
            self.chosen[other] = None
            self.chosen[index] = self._best(index)
            self.chosen[other] = self._best(other)
            if self.chosen[index] is not None and self.chosen[other] is not None:
                return True
            self.chosen[index], self.chosen[other] = None, place
        return False

    def _best(self, index: int) -> int | None:
        """The cheapest place that touches no other name and whose line crosses none."""
        if not len(self.boxes[index]):
            return None
        taken = [(other, mine) for other, mine in enumerate(self.chosen) if mine is not None]
        costs = self.costs[index].copy()
        if taken:
            boxes = np.array([self.boxes[other][mine] for other, mine in taken])
            lines = np.array([self.lines[other][mine] for other, mine in taken])
            bad = _overlap(self.boxes[index], boxes).any(axis=1)
            bad |= _crossings(self.lines[index], boxes) > 0
            bad |= _cut(lines, self.boxes[index]).any(axis=0)
            costs += 12.0 * _meetings(self.lines[index], lines)
            costs[bad] = np.inf
        best = int(np.argmin(costs))
        return best if np.isfinite(costs[best]) else None

    def found(self, index: int) -> Place | None:
        mine = self.chosen[index]
        if mine is None:
            return None
        left, bottom, right, top = (float(edge) for edge in self.boxes[index][mine])
        x0, y0, x1, y1 = (float(end) for end in self.lines[index][mine])
        far = np.hypot(x1 - x0, y1 - y0) >= _LEADER
        return Place((left, bottom, right, top), ((x0, y0), (x1, y1)) if far else None)


def _candidates(point: Any, size: tuple[float, float], reach: float) -> tuple[Boxes, npt.NDArray[np.float64]]:
    """Boxes around a point by side and distance, and what each costs: the distance, then the side."""
    width, height = size
    boxes, costs = [], []
    for distance in (gap for gap in _DISTANCES if gap <= reach):
        for rank, (right, up) in enumerate(_SIDES):
            slant = 0.75 if right and up else 1.0
            x = point[0] + right * distance * slant - (0 if right > 0 else width if right < 0 else width / 2)
            y = point[1] + up * distance * slant - (0 if up > 0 else height if up < 0 else height / 2)
            boxes.append((x, y, x + width, y + height))
            costs.append(distance + 0.5 * rank)
    return np.array(boxes), np.array(costs)


def _leaders(point: Any, boxes: Boxes) -> Boxes:
    """From the point to the nearest place of each box."""
    x = np.clip(point[0], boxes[:, 0], boxes[:, 2])
    y = np.clip(point[1], boxes[:, 1], boxes[:, 3])
    return np.column_stack([np.full(len(boxes), point[0]), np.full(len(boxes), point[1]), x, y])


def _inside(boxes: Boxes, bounds: Box) -> npt.NDArray[np.bool_]:
    left, bottom, right, top = bounds
    low = (boxes[:, 0] >= left) & (boxes[:, 1] >= bottom)
    inside: npt.NDArray[np.bool_] = low & (boxes[:, 2] <= right) & (boxes[:, 3] <= top)
    return inside


def _overlap(one: Boxes, two: Boxes) -> npt.NDArray[np.bool_]:
    """Whether each box of one meets each of two."""
    a, b = one[:, None, :], two[None, :, :]
    wide = (a[..., 0] < b[..., 2]) & (b[..., 0] < a[..., 2])
    meets: npt.NDArray[np.bool_] = wide & (a[..., 1] < b[..., 3]) & (b[..., 1] < a[..., 3])
    return meets


def _cut(lines: Boxes, boxes: Boxes) -> npt.NDArray[np.bool_]:
    """Whether each line passes through each box (Liang and Barsky); lines short of a leader are not drawn."""
    drawn = np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]) >= _LEADER
    first = np.zeros((len(lines), len(boxes)))
    last = np.ones_like(first)
    for axis in (0, 1):
        start, way = lines[:, axis], lines[:, axis + 2] - lines[:, axis]
        still = np.abs(way) < 1e-9
        step = np.where(still, 1.0, way)[:, None]
        low = (boxes[None, :, axis] - start[:, None]) / step
        high = (boxes[None, :, axis + 2] - start[:, None]) / step
        within = (start[:, None] > boxes[None, :, axis]) & (start[:, None] < boxes[None, :, axis + 2])
        enter = np.where(still[:, None], np.where(within, 0.0, 2.0), np.minimum(low, high))
        leave = np.where(still[:, None], np.where(within, 1.0, -1.0), np.maximum(low, high))
        first, last = np.maximum(first, enter), np.minimum(last, leave)
    cut: npt.NDArray[np.bool_] = (first < last) & drawn[:, None]
    return cut


def _crossings(lines: Boxes, boxes: Boxes) -> npt.NDArray[np.float64]:
    """How many boxes each line passes through."""
    found: npt.NDArray[np.float64] = _cut(lines, boxes).sum(axis=1).astype(float)
    return found


def _meetings(one: Boxes, two: Boxes) -> npt.NDArray[np.float64]:
    """How many lines of two each line of one crosses."""

    def side(a: Any, b: Any, x: Any, y: Any) -> Any:
        return (b[..., 0] - a[..., 0]) * (y - a[..., 1]) - (b[..., 1] - a[..., 1]) * (x - a[..., 0])

    p, q = one[:, None, :2], one[:, None, 2:]
    r, s = two[None, :, :2], two[None, :, 2:]
    apart = side(p, q, r[..., 0], r[..., 1]) * side(p, q, s[..., 0], s[..., 1])
    other = side(r, s, p[..., 0], p[..., 1]) * side(r, s, q[..., 0], q[..., 1])
    found: npt.NDArray[np.float64] = ((apart < 0) & (other < 0)).sum(axis=1).astype(float)
    return found
