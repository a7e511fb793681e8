"""Curves with bands around them, steps, and named places on their way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wcbench.reports.canvas import FONT, FOOT, LINES, TIGHT, Key, canvas, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import Axis, Band, Bands
from wcbench.reports.palette import GRID, GROUPS, INK, MUTED
from wcbench.reports.planes import RIGHT, SMALL, left_of, nothing
from wcbench.reports.scales import Scale, scale

TALL = 280
TOP = 34
LEVEL = 15
"""Height of a line of names above the axes."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
SHAPES = ("o", "s", "^", "D", "v", "P", "X")
DOTS = 14
"""Marks on a curve at most: enough to tell it from the others."""


def draw_bands(data: Bands, width: int) -> Figure:
    """Each curve with its own colour, dashes and marks; places on the x axis as upright lines named above."""
    x, y = _scales(data, width)
    left = left_of(y)
    wide = width - left - RIGHT
    marks = _marks(data, x, wide)
    top = TOP + LEVEL * (1 + max((mark.level for mark in marks), default=-1))
    figure = canvas(width, top + TALL + FOOT)
    axes = panel_axes(figure, (left, top, wide, TALL))
    x.apply(axes.xaxis)
    y.apply(axes.yaxis)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_xlabel(x.title, fontsize=FONT, parse_math=False)
    write(axes, 0, 1, y.title, (-left, top - TOP + 14), transform=axes.transAxes, va="bottom", color=MUTED)
    told = _draw_marks(axes, marks, wide)
    curves = [(curve, *look) for curve, look in zip(data.curves, _looks(), strict=False)]
    for curve, color, dashes, shape in reversed(curves):
        _curve(axes, (x, y), curve, (color, dashes, shape), steps=data.steps)
    if not axes.lines:
        nothing(axes)
    keys = [Key(c.name, color, "curve", shape, dashes=dashes) for c, color, dashes, shape in curves if c.name]
    foot(figure, [*keys, *told])
    return figure


def _looks() -> Iterator[tuple[str, Any, str]]:
    """Colour, dashes and shape: seven that differ in all, then the same colours with other dashes and shapes."""
    for turn in itertools.count():
        again, first = divmod(turn, len(GROUPS))
        yield GROUPS[first], DASHES[(first + again) % len(DASHES)], SHAPES[(first + again) % len(SHAPES)]


def _scales(data: Bands, width: int) -> tuple[Scale, Scale]:
    across = [value for curve in data.curves for value in curve.x]
    up = [value for curve in data.curves for value in (*curve.y, *curve.low, *curve.high)]
    known = [value for value in up if math.isfinite(value)]
    near = known and min(known) >= 0 and 2 * min(known) < max(known)
    y = scale(data.y, up, TALL // 50, around=(0.0,) if near and not data.y.log else ())
    y = _from_zero(data.y, y, up) if near and not data.y.log else y
    places = [place for _, place in data.marks]
    return scale(data.x, across, (width - left_of(y)) // (80 if width < TIGHT else 75), around=places), y


def _from_zero(axis: Axis, found: Scale, up: Sequence[float]) -> Scale:
    """The same axis with 0 at its very foot."""
    whole = axis.kind == "share" and 0.5 < max(value for value in up if math.isfinite(value)) <= 1
    return scale(axis, up, TALL // 50, limits=(0.0, 1.04 if whole else found.high))


def _curve(axes: Any, scales: tuple[Scale, Scale], curve: Band, look: tuple[str, Any, str], *, steps: bool) -> None:
    color, dashes, shape = look
    points = _placed(scales, curve)
    if not points:
        return
    x, y, low, high = (list(column) for column in zip(*points, strict=True))
    if steps:  # the last value holds as far as the axis goes
        x, y, low, high = [*x, scales[0].high], [*y, y[-1]], [*low, low[-1]], [*high, high[-1]]
    if None not in (*low, *high):
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, step="post" if steps else None, zorder=1)
    every = max(1, math.ceil(len(x) / DOTS))
    style: dict[str, Any] = {"linewidth": 2, "color": color, "linestyle": dashes, "markevery": every, "zorder": 3}
    style |= {"drawstyle": "steps-post"} if steps else {"marker": shape, "markersize": 5}
    axes.plot(x, y, **style, clip_on=steps)


def _placed(scales: tuple[Scale, Scale], curve: Band) -> list[tuple[float, float, float | None, float | None]]:
    """The points that have a place on the axes, each with its band where both of its ends have one."""
    x, y = scales
    band = curve.low and curve.high
    lows, highs = (curve.low, curve.high) if band else ((), ())
    found = []
    for across, up, low, high in itertools.zip_longest(curve.x, curve.y, lows, highs):
        at, value = x.place(across), y.place(up)
        if at is not None and value is not None:
            found.append((at, value, y.place(low), y.place(high)))
    return found


@dataclass(frozen=True)
class Mark:
    """A named place on the x axis, and where its name stands above the axes; ``level`` -1 is in the legend."""

    place: float
    name: str
    start: float
    level: int


def _marks(data: Bands, x: Scale, wide: float) -> list[Mark]:
    """Names right of their lines, on as few lines of text as it takes; all in the legend if one would be crossed."""
    found: list[tuple[Mark, float, float]] = []
    for name, value in sorted(data.marks, key=lambda mark: -mark[1]):
        place = x.place(value)
        if place is None or not x.ticks:
            continue
        at, length = x.pixel(place, wide), text_width(name) * SMALL / FONT + 8
        start = at if at + length <= wide else max(0.0, at - length)
        spans = [(mark.level, mark.start, end, line) for mark, end, line in found]
        level = 1 + max((up for up, first, end, line in spans if start < end and first < start + length), default=-1)
        crossed = any(first < at < end for up, first, end, _ in spans if up < level) or start + length > wide
        found.append((Mark(place, name, start, -1 if crossed else level), start + length, at))
    marks = [mark for mark, *_ in found]
    return marks if all(mark.level >= 0 for mark in marks) else [replace(mark, level=-1) for mark in marks]


def _draw_marks(axes: Any, marks: Sequence[Mark], wide: float) -> list[Key]:
    """Upright lines with their names above; what the legend needs to say of them."""
    keys = []
    for mark, own in zip(marks, itertools.cycle(DASHES[1:]), strict=False):
        dashes = own if mark.level < 0 else LINES["dashed"]
        line: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 2}
        style: dict[str, Any] = {"color": INK, "linewidth": 1.2, "linestyle": dashes}
        top = 1 + LEVEL * (max(0, mark.level) + 0.2) / TALL
        axes.add_artist(Line2D([mark.place, mark.place], [0, top], **style, **line))  # which leaves the limits alone
        if mark.level < 0:
            keys.append(Key(mark.name, INK, "curve", "", dashes=dashes))
            continue
        at = (3, 4 + LEVEL * mark.level)
        write(axes, mark.start / wide, 1, mark.name, at, transform=axes.transAxes, fontsize=SMALL, color=INK)
    return keys
