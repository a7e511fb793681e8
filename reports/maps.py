"""Figures of workloads in two dimensions: a map with every one named, and a device's roof with workloads under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from wcbench.reports import marks
from wcbench.reports.canvas import TIGHT, foot
from wcbench.reports.figure_data import Map, MapPoint
from wcbench.reports.planes import RIGHT, Named, left_of, name_points, nothing, plane, put_names
from wcbench.reports.scales import Scale, scale

NO_PLACE = "not drawn, no value on these axes:"


def draw_map(data: Map, width: int) -> Figure:
    """Marks by group, hulls behind them, and every workload by name."""
    x, y, tall = _scales(data, width)
    shown = [point for point in data.points if x.place(point.x) is not None and y.place(point.y) is not None]
    size = (float(width - left_of(y) - RIGHT), float(tall))
    spots = [_spot(point, x, y, size) for point in shown]
    naming = name_points(spots, size, width, ())
    found = marks.looks(point.group for point in data.points)
    figure, axes = plane(width, tall, x, y)
    if not shown:
        nothing(axes)
    if data.hulls and len(found) > 1:
        for group, look in found.items():
            mine = [(spot.x, spot.y) for point, spot in zip(shown, spots, strict=True) if point.group == group]
            _hull(axes, hull(mine), size, look)
    hollow = any(point.chosen for point in data.points)
    for point in shown:
        marks.dot(
            axes,
            x.place(point.x),
            y.place(point.y),
            found[point.group],
            filled=point.chosen or not hollow,
            clip_on=False,
        )
    put_names(axes, naming, size)
    gone = [(NO_PLACE, point.name) for point in data.points if point not in shown]
    foot(figure, marks.keys(found, [point.chosen for point in data.points]), [*naming.listed, *gone])
    return figure


def height(count: int, width: int) -> int:
    """More names need more room."""
    return 360 + 7 * max(0, min(count, 80) - 12) if width < TIGHT else 430 + 5 * max(0, min(count, 80) - 20)


def _spot(point: MapPoint, x: Scale, y: Scale, size: tuple[float, float]) -> Named:
    across, up = x.place(point.x), y.place(point.y)
    assert across is not None, "only points that stand on the axes"
    assert up is not None
    return Named(point.name, x.pixel(across, size[0]), y.pixel(up, size[1]))


def _scales(data: Map, width: int) -> tuple[Scale, Scale, int]:
    """Both axes, and the height of the plane in pixels."""
    tall = height(len(data.points), width)
    across, up = [point.x for point in data.points], [point.y for point in data.points]
    y = scale(data.y, up, tall // 60)
    x = scale(data.x, across, (width - left_of(y)) // 85)
    if not data.equal or data.x.log or data.y.log or not x.ticks or not y.ticks:
        return x, y, tall
    wide = width - left_of(y) - RIGHT
    tall = round(min(tall, max(0.75 * tall, wide * (y.high - y.low) / (x.high - x.low))))
    unit = max((x.high - x.low) / wide, (y.high - y.low) / tall)
    limits = _widened((x.low, x.high), unit * wide), _widened((y.low, y.high), unit * tall)
    y = scale(data.y, up, tall // 60, limits=limits[1])
    return scale(data.x, across, (width - left_of(y)) // 85, limits=limits[0]), y, tall


def _widened(limits: tuple[float, float], length: float) -> tuple[float, float]:
    more = (length - (limits[1] - limits[0])) / 2
    return limits[0] - more, limits[1] + more


def _hull(axes: Any, corners: Sequence[tuple[float, float]], size: tuple[float, float], look: marks.Look) -> None:
    """A group's hull as it looks on these axes: a light area with a broken edge."""
    if not corners:
        return
    place = [(x / size[0], y / size[1]) for x, y in corners]
    area = Polygon(place, facecolor=to_rgba(look.color, 0.07), edgecolor=to_rgba(look.color, 0.55), zorder=1)
    area.set(linewidth=1.0, linestyle=(0, (4, 2)), transform=axes.transAxes)
    axes.add_patch(area)


def hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the convex hull in their order; none where the points span no area."""
    from scipy.spatial import ConvexHull, QhullError

    if len(points) < 3:
        return []
    try:
        found = ConvexHull(np.asarray(points, dtype=float))
    except QhullError:  # on a line, or in one place
        return []
    return [points[index] for index in found.vertices]
