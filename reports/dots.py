"""Small plots, one a feature: a dot for each workload, on a line for each group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from wcbench.reports import marks
from wcbench.reports.canvas import FONT, canvas, fit, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import Axis, DotPlot, DotRow
from wcbench.reports.palette import GRID, INK, MUTED
from wcbench.reports.planes import SMALL, nothing
from wcbench.reports.scales import Scale, scale

HEAD = 24
LANE = 22
ALONE = 32
"""Heights of a group's line, and of the only one."""
AXIS = 30
"""Room for the numbers below a plot."""
LEAST = 215
"""Width below which a plot would be too small."""
GAP = 26
DOT = 6.5
"""Width of a dot."""
SCALE = 0.62
CROWD = 4
"""Dots that can be told apart in one place."""
LEFT = 4


def draw_dots(data: DotPlot, width: int) -> Figure:
    """As many plots beside each other as there is room for; a group's dots have its shape and colour."""
    columns = max(1, min(len(data.rows), (width + GAP) // (LEAST + GAP)))
    lines = -(-len(data.rows) // columns)
    groups = list(dict.fromkeys([*data.groups, *(group for row in data.rows for _, group, _ in row.values)]))
    found = marks.looks(groups)
    lanes = {group: found[group] for group in groups}
    tall = LANE * len(groups) if len(groups) > 1 else ALONE
    high = HEAD + tall + AXIS
    figure = canvas(width, high * max(1, lines))
    share = (width + GAP) / columns - GAP
    for index, row in enumerate(data.rows):
        line, column = divmod(index, columns)
        box = (column * (share + GAP) + LEFT, line * high + HEAD, share - LEFT - 12, tall)
        _row(panel_axes(figure, box), row, lanes)
    if not data.rows:
        nothing(_empty(figure, width))
    foot(figure, marks.keys(lanes, []))
    return figure


def _empty(figure: Figure, width: int) -> Any:
    axes = panel_axes(figure, (0, 0, width, HEAD + LANE))
    axes.set_axis_off()
    return axes


def _row(axes: Any, row: DotRow, found: dict[str, marks.Look]) -> None:
    """One plot: the feature's name and unit above it, dots, and the numbers of the axis below."""
    wide, tall = axes.get_window_extent().width, axes.get_window_extent().height
    at = scale(Axis("", row.kind, row.unit, row.log), [value for *_, value in row.values], max(2, int(wide // 58)))
    at.apply(axes.xaxis)
    axes.set(ylim=(max(1, len(found)), 0), yticks=[])
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.spines["left"].set_visible(False)
    _title(axes, row, at)
    for lane, (group, look) in enumerate(found.items()):
        axes.axhline(lane + 0.5, color=GRID, linewidth=0.8, zorder=0)
        placed = [place for _, mine, value in row.values if mine == group and (place := at.place(value)) is not None]
        rises = swarm([at.pixel(value, wide) for value in placed], tall / max(1, len(found)))
        y = [lane + 0.5 - rise * len(found) / tall for rise in rises]
        _crowds(axes, placed, lane, at)
        marks.dot(axes, placed, y, look, filled=True, scale=SCALE, clip_on=False, alpha=0.85)
    if not at.ticks:
        nothing(axes)


def _crowds(axes: Any, placed: Sequence[float], lane: int, at: Scale) -> None:
    """How many dots stand in one place, where more do than can be told apart and there is room to say so."""
    wide = axes.get_window_extent().width
    pixels = [at.pixel(value, wide) for value in placed]
    for pixel, count in Counter(round(pixel) for pixel in pixels).items():
        text = f"×{count}"
        span = 8 + text_width(text) * SMALL / FONT
        free = not any(DOT / 2 < other - pixel < span + DOT for other in pixels) and pixel + span < wide
        left = not any(DOT / 2 < pixel - other < span + DOT for other in pixels) and pixel - span > 0
        if count > CROWD and (free or left):
            place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "left" if free else "right"}
            write(axes, pixel / wide, lane + 0.5, text, (8 if free else -8, 2), fontsize=SMALL, color=MUTED, **place)


def _title(axes: Any, row: DotRow, at: Scale) -> None:
    """The feature's name, and its unit in parentheses as far as there is room for both; or how many are not drawn."""
    gone = sum(at.place(value) is None for *_, value in row.values) if at.ticks else 0
    unit = f"{gone} not drawn" if gone else at.title.strip()
    room = axes.get_window_extent().width + LEFT
    spare = text_width(unit) + 8 if unit and text_width(unit) < room / 2 else 0
    name = fit(row.name, (room - spare) * 0.93)  # bold letters are wider
    write(axes, 0, 1, name, (-LEFT, 8), transform=axes.transAxes, color=INK, weight="bold")
    if spare:
        write(axes, 1, 1, unit, (0, 8), transform=axes.transAxes, ha="right", color=MUTED)


def swarm(places: Sequence[float], room: float) -> list[float]:
    """How far each dot is moved up or down on a line ``room`` pixels high, so that dots near each other can be seen."""
    rises = [0.0] * len(places)
    done: list[int] = []
    limit = (room - DOT) / 2
    for index in sorted(range(len(places)), key=lambda i: (places[i], i)):
        near = [other for other in done if abs(places[other] - places[index]) < DOT]
        steps = [sign * step * DOT / 2 for step in range(math.ceil(2 * limit / DOT) + 1) for sign in (1, -1)]
        steps = [step for step in steps if abs(step) <= limit]
        rises[index] = max(steps, key=lambda step: (_distance(places, rises, near, (index, step)), -abs(step)))
        done.append(index)
    return rises


def _distance(places: Sequence[float], rises: list[float], near: list[int], at: tuple[int, float]) -> float:
    """To the nearest of the dots near it, a dot's width at most: beyond it nothing is gained."""
    index, rise = at
    ways = [math.hypot(places[other] - places[index], rises[other] - rise) for other in near]
    return round(min([*ways, DOT]), 6)
