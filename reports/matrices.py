"""Shares between workloads as shaded cells with their numbers."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from wcbench.reports import format as fmt
from wcbench.reports.canvas import FONT, TIGHT, Key, canvas, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import Matrix
from wcbench.reports.palette import GRID, INK, MEDIAN, MUTED
from wcbench.reports.planes import SMALL, nothing, short

MOST = 210
HEAD = 46
"""Room for the title and the heads of the columns."""
TALLEST = 24
WIDEST = 72
SHADE = 0.5
"""Of a share of 1: darker cells would leave their numbers too little contrast."""
DIGITS = 10
"""Letters of the numbers in cells; 100 has smaller ones."""


def draw_matrix(data: Matrix, width: int) -> Figure:
    """Cells shaded by their share; columns have the numbers of the rows, which are named beside or below."""
    count = len(data.names)
    below = width < TIGHT and count > 8
    heads = [str(number) for number in range(1, count + 1)]
    names = short(list(data.names), min(MOST, 0.42 * width))
    sign = max((text_width(head) for head in heads), default=0) + 8
    left = sign + (0 if below else max((text_width(name) for name in names), default=0) + 8)
    wide = min(WIDEST, (width - left - 2) / max(1, count))
    tall = min(TALLEST, max(wide, 12)) if count else TALLEST
    figure = canvas(width, round(HEAD + tall * max(1, count) + 8))
    axes = panel_axes(figure, (left, HEAD, wide * max(1, count), tall * max(1, count)))
    axes.set(xlim=(0, max(1, count)), ylim=(max(1, count), 0), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    title = {"transform": axes.transAxes, "va": "bottom", "color": MUTED}
    write(axes, 0, 1, f"{data.axis} (%)", (-left, 26), **title)
    _heads(axes, heads, [] if below else names, (wide, tall))
    numbers = wide > text_width("<1") * DIGITS / FONT and tall >= DIGITS + 2
    for row, cells in enumerate(data.rows[:count]):
        for column, share in enumerate(cells[:count]):
            _cell(axes, (row, column), share, wide if numbers else 0)
    if not count:
        nothing(axes)
    unknown = any(_absent(share) for cells in data.rows for share in cells)
    foot(figure, _keys(unknown=unknown) if count else [], list(zip(heads, names, strict=True)) if below else [])
    return figure


def _absent(share: float | None) -> bool:
    return share is None or not math.isfinite(share)


def _heads(axes: Any, heads: list[str], names: list[str], size: tuple[float, float]) -> None:
    """Numbers above columns and before rows, every fifth where all would touch; names behind those of rows."""
    wide, tall = size
    widest = max((text_width(head) for head in heads), default=0)
    for index, head in enumerate(heads):
        fifth = int(head) % 5 == 0 or head == "1"
        if wide >= widest + 2 or fifth:
            write(axes, index + 0.5, 1, head, (0, 5), transform=axes.get_xaxis_transform(), ha="center", color=MUTED)
        if tall >= SMALL + 1 or fifth:
            place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right"}
            write(axes, 0, index + 0.5, head, (-6, -4), color=MUTED, **place)
            if names:
                write(axes, 0, index + 0.5, names[index], (-14 - widest, -4), color=INK, **place)


def _cell(axes: Any, at: tuple[int, int], share: float | None, room: float) -> None:
    """A shade and its percent where there is room; what is not known is crossed out."""
    row, column = at
    frame: dict[str, Any] = {"edgecolor": GRID, "linewidth": 0.6, "clip_on": False}
    if share is None or not math.isfinite(share):
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor="none", **frame))
        axes.plot([column + 0.25, column + 0.75], [row + 0.75, row + 0.25], color=MUTED, linewidth=0.8)
        return
    face = to_rgba(MEDIAN, SHADE * min(1.0, max(0.0, share)))
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=face, **frame))
    text = percent(share)
    letters = DIGITS if len(text) < 3 else DIGITS - 1
    if text_width(text) * letters / FONT < room:
        middle: dict[str, Any] = {"transform": axes.transData, "ha": "center", "fontsize": letters, "color": INK}
        write(axes, column + 0.5, row + 0.5, text, (0, -3.5), **middle)


def percent(share: float) -> str:
    """A whole percent; what is not quite nothing or everything is not written as 0 or 100."""
    value = 100 * share
    if 0 < value < 0.5:
        return "<1"
    if 99.5 <= value < 100 - 1e-9:
        return ">99"
    return f"{value:.0f}" if abs(value) < 1e6 else fmt.number(value)


def _keys(*, unknown: bool) -> list[Key]:
    shades = [Key(f"{100 * share:.0f} %", MEDIAN, "patch", alpha=SHADE * share) for share in (0, 0.25, 0.5, 0.75, 1)]
    return [*shades, *([Key("not known", MUTED, "slash")] if unknown else [])]
