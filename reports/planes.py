"""A plane of two axes on which workloads stand by name, with a legend and a list of names below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from wcbench.reports.canvas import (
    FONT,
    FOOT,
    TIGHT,
    canvas,
    fit,
    fits,
    panel_axes,
    text_width,
    write,
)
from wcbench.reports.labels import Box, Place, along, place
from wcbench.reports.palette import GRID, INK, MUTED
from wcbench.reports.scales import Scale

SMALL = 11
"""Letters of names on a plane."""
LINE = 13.0
"""Height of a name."""
TOP = 34
RIGHT = 18
NOTHING = "nothing to show"


@dataclass(frozen=True)
class Named:
    """A name and the pixels where its point stands, counted from the low end of both axes."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Naming:
    """Names with their places on the plane, and those that stand below it by number."""

    placed: tuple[tuple[str, Place], ...]
    listed: tuple[tuple[str, str], ...]


def left_of(scale: Scale) -> int:
    """Room for the numbers of a vertical axis."""
    return round(max((text_width(text) for text in scale.texts), default=24)) + 14


def short(names: Sequence[str], pixels: float) -> list[str]:
    """Names that fit and differ; of one name that stands there more than once, all but the first are numbered."""
    seen: dict[str, int] = {}
    found = []
    for name, text in zip(names, fits(names, pixels), strict=True):
        seen[text] = count = seen.get(text, 0) + 1
        found.append(text if count == 1 else f"{fit(name, pixels - 26)} ({count})")
    return found


def name_points(points: Sequence[Named], size: tuple[float, float], width: int, obstacles: Sequence[Box]) -> Naming:
    """Every name at its point; where there is no room, a number there and the name in a list."""
    names = short([point.name for point in points], 160 if width < TIGHT else 220)
    spots = [(point.x, point.y) for point in points]
    bounds = (0.0, 0.0, *size)
    sizes = [(text_width(name) * SMALL / FONT + 2, LINE) for name in names]
    found = place(spots, sizes, bounds, obstacles, 50 if width < TIGHT else 70)
    placed = [(name, at) for name, at in zip(names, found, strict=True) if at is not None]
    left = [index for index, at in enumerate(found) if at is None]
    numbers = _numbers([spots[index] for index in left])
    at_point = {number: spots[index] for index, number in zip(left, numbers, strict=True)}
    taken = [*obstacles, *(at.box for _, at in placed), *((x - 5, y - 5, x + 5, y + 5) for x, y in spots)]
    taken += [box for _, at in placed if at.leader for box in along(at.leader)]
    wide = [(text_width(str(number)) * SMALL / FONT + 2, LINE) for number in at_point]
    spare = place(list(at_point.values()), wide, bounds, taken)
    placed += [(str(number), at) for number, at in zip(at_point, spare, strict=True) if at is not None]
    listed = [(str(number), points[index].name) for index, number in zip(left, numbers, strict=True)]
    return Naming(tuple(placed), tuple(listed))


def _numbers(spots: Sequence[tuple[float, float]]) -> list[int]:
    """1, 2, ...: one number for all points that stand in the same place."""
    heads: list[tuple[float, float]] = []
    numbers = []
    for x, y in spots:
        near = [i for i, (u, v) in enumerate(heads) if abs(u - x) < 3 and abs(v - y) < 3]
        if not near:
            heads.append((x, y))
        numbers.append(near[0] + 1 if near else len(heads))
    return numbers


def plane(width: int, tall: int, x: Scale, y: Scale) -> tuple[Figure, Any]:
    """A canvas with one pair of axes ``tall`` pixels high; the name of the vertical one stands above it."""
    left = left_of(y)
    figure = canvas(width, TOP + tall + FOOT)
    axes = panel_axes(figure, (left, TOP, width - left - RIGHT, tall))
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=FONT)
    x.apply(axes.xaxis)
    y.apply(axes.yaxis)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_xlabel(x.title, fontsize=FONT, parse_math=False)
    write(axes, 0, 1, y.title, transform=axes.transAxes, va="bottom", offset=(-left, 14), color=MUTED)
    return figure, axes


def put_names(axes: Any, naming: Naming, size: tuple[float, float]) -> None:
    """Write each name in its box and draw the lines that lead to those that stand apart."""
    wide, tall = size
    for name, at in naming.placed:
        if at.leader:
            (x0, y0), (x1, y1) = at.leader
            style: dict[str, Any] = {"color": MUTED, "linewidth": 0.7, "zorder": 2, "transform": axes.transAxes}
            axes.plot([x0 / wide, x1 / wide], [y0 / tall, y1 / tall], **style)
        x, y = at.box[0] + 1, at.box[1] + 3
        text: dict[str, Any] = {"transform": axes.transAxes, "fontsize": SMALL, "color": INK, "zorder": 5}
        write(axes, x / wide, y / tall, name, **text)


def nothing(axes: Any) -> None:
    """Say that there is nothing, rather than show an empty frame."""
    write(axes, 0.5, 0.5, NOTHING, transform=axes.transAxes, ha="center", color=MUTED)
