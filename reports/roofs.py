"""A device's roof, and the workloads of a study under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from wcbench.reports import format as fmt
from wcbench.reports import marks
from wcbench.reports.canvas import FONT, LINES, Key, foot, text_width, trimmed, write
from wcbench.reports.figure_data import Axis, DevicePoint, Roofs
from wcbench.reports.labels import Box, along
from wcbench.reports.maps import NO_PLACE, height
from wcbench.reports.palette import INK, MUTED
from wcbench.reports.planes import LINE, RIGHT, SMALL, Named, left_of, name_points, nothing, plane, put_names
from wcbench.reports.scales import Scale, scale

Line = list[tuple[float, float]]
"""Places in pixels."""
X = Axis("FLOP/byte", "number", log=True)


def draw_roofs(data: Roofs, width: int) -> Figure:
    """The roof with its peak, slope and ridge named, and every workload by name at what it attains."""
    tall = height(len(data.points), width)
    x, y = _scales(data, width, tall)
    size = (float(width - left_of(y) - RIGHT), float(tall))
    shown = [(point, across, up) for point in data.points if (across := x.place(point.intensity)) is not None
             and (up := y.place(_height(data, point))) is not None]  # fmt: skip
    spots = [Named(point.name, x.pixel(a, size[0]), y.pixel(b, size[1])) for point, a, b in shown]
    roof = [(x.pixel(a, size[0]), y.pixel(b, size[1])) for a, b in _corners(data, x, y)]
    way = _free_way(data, roof, spots)
    naming = name_points(spots, size, width, [*along(roof), *_texts(data, roof, way)])
    figure, axes = plane(width, tall, x, y)
    if not shown:
        nothing(axes)
    _roof(axes, data, (roof, way), (x, y))
    found = marks.looks(point.group for point in data.points)
    had = any(point.attained is not None for point in data.points)
    for point, across, up in shown:
        marks.dot(axes, across, up, found[point.group], filled=point.attained is not None or not had, clip_on=False)
    put_names(axes, naming, size)
    gone = [(NO_PLACE, point.name) for point in data.points if point not in [at for at, _, _ in shown]]
    foot(figure, [Key(f"roof of {data.device}", INK, "line"), *_keys(data, found)], [*naming.listed, *gone])
    return figure


def _keys(data: Roofs, found: dict[str, marks.Look]) -> list[Key]:
    had = [point.attained is not None for point in data.points]
    told = [Key("attained", INK, "dot")] if any(had) else []
    told += [Key("what the roof allows", "none", "dot")] if any(had) and not all(had) else []
    return [*marks.keys(found, []), *told]


def _allowed(data: Roofs, intensity: float) -> float:
    return min(data.peak, intensity * data.bandwidth)


def _height(data: Roofs, point: DevicePoint) -> float:
    return _allowed(data, point.intensity) if point.attained is None else point.attained


def _ridge(data: Roofs) -> float:
    return data.peak / data.bandwidth if data.bandwidth > 0 else math.inf


def _scales(data: Roofs, width: int, tall: int) -> tuple[Scale, Scale]:
    """Axes that hold the points and the ridge with a decade on both of its sides."""
    ridge = _ridge(data)
    known = 0 < ridge < math.inf
    sides = (max(ridge / 10, 1e-300), min(ridge * 10, 1e300)) if known else ()
    across = [point.intensity for point in data.points]
    values = [*(_height(data, point) for point in data.points), *(_allowed(data, side) for side in sides)]
    y = scale(Axis("FLOP/s", "si", log=True), values, tall // 60, around=(2 * data.peak,) if known else ())
    return scale(X, [*across, *sides], (width - left_of(y)) // 70), y


def _corners(data: Roofs, x: Scale, y: Scale) -> list[tuple[float, float]]:
    """Ends and ridge of the roof between the limits of the axes."""
    ridge = _ridge(data)
    if not 0 < ridge < math.inf:
        return []
    start = max(x.low, y.low / data.bandwidth)
    return [(start, _allowed(data, start)), (ridge, data.peak), (x.high, data.peak)]


def _roof(axes: Any, data: Roofs, drawn: tuple[Line, float], scales: tuple[Scale, Scale]) -> None:
    """The roof and its names; ``drawn`` : it in pixels, and how far along it the bandwidth stands."""
    (roof, way), (x, y) = drawn, scales
    corners = _corners(data, x, y)
    if not corners:
        return
    axes.plot([a for a, _ in corners], [b for _, b in corners], color=INK, linewidth=1.8, zorder=3)
    ridge = _ridge(data)
    axes.plot([ridge, ridge], [y.low, data.peak], color=MUTED, linewidth=1.0, linestyle=LINES["dashed"], zorder=1)
    style: dict[str, Any] = {"fontsize": SMALL, "color": INK}
    write(axes, x.high, data.peak, _peak(data), (-2, 5), transform=axes.transData, ha="right", **style)
    upright: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor"}
    write(axes, ridge, y.low, _named_ridge(data), (-4, 6), transform=axes.transData, **style, **upright)
    (x0, y0), (x1, y1), _ = roof
    turned: dict[str, Any] = {"rotation": math.degrees(math.atan2(y1 - y0, x1 - x0)), "rotation_mode": "anchor"}
    x2, y2 = _along_slope(roof, way, ABOVE)
    low, up = corners[0]
    write(axes, low, up, _slope(data), (x2 - x0, y2 - y0), transform=axes.transData, **style, **turned)


ABOVE = 5.0
"""Pixels between the roof and the name of its bandwidth."""


def _free_way(data: Roofs, roof: Line, spots: Sequence[Named]) -> float:
    """How far along the slope the bandwidth is named: where the nearest point is farthest away."""
    if not roof:
        return 0.0
    (x0, y0), (x1, y1), _ = roof
    half = text_width(_slope(data)) * SMALL / FONT / 2
    last = max(8.0, math.hypot(x1 - x0, y1 - y0) - 2 * half - 8)
    ways = [8.0 + (last - 8.0) * step / 24 for step in range(25)]
    middles = {way: _along_slope(roof, way + half, ABOVE + 4) for way in ways}
    gap = {way: min((math.hypot(x - s.x, y - s.y) for s in spots), default=0.0) for way, (x, y) in middles.items()}
    return max(ways, key=lambda way: (round(gap[way], 3), way))


def _along_slope(roof: Line, way: float, above: float) -> tuple[float, float]:
    """A place ``way`` pixels from the lower end of the roof along it, and ``above`` pixels off it."""
    (x0, y0), (x1, y1), _ = roof
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    right, up = (x1 - x0) / length, (y1 - y0) / length
    return x0 + way * right - above * up, y0 + way * up + above * right


def _peak(data: Roofs) -> str:
    return f"peak {trimmed(fmt.si(data.peak, 'FLOP/s'))}"


def _slope(data: Roofs) -> str:
    return trimmed(fmt.si(data.bandwidth, "B/s"))


def _named_ridge(data: Roofs) -> str:
    return f"ridge {trimmed(fmt.number(_ridge(data)))} FLOP/byte"


def _texts(data: Roofs, roof: Line, way: float) -> list[Box]:
    """Boxes of what is written at the roof."""
    if not roof:
        return []
    _, (ridge, _), (end, top) = roof
    peak, slope, named = (text_width(t) * SMALL / FONT + 4 for t in (_peak(data), _slope(data), _named_ridge(data)))
    return [
        (end - peak, top + 2, end, top + 4 + LINE),
        (ridge - 4 - LINE, 0, ridge + 2, 8 + named),
        *along([_along_slope(roof, end, ABOVE + 4) for end in (way, way + slope)], half=5),
    ]
