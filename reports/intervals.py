"""Values with their intervals one below the other, and what they are compared with."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from wcbench.reports import format as fmt
from wcbench.reports import marks
from wcbench.reports.canvas import FONT, FOOT, LINES, TIGHT, Key, canvas, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import Axis, Interval, Intervals
from wcbench.reports.palette import GRID, INK, MEDIAN, MUTED, PAPER
from wcbench.reports.planes import nothing, short
from wcbench.reports.scales import Scale, said, scale

ROW = 24
TALL_ROW = 40
TOP = 22
MOST = 300
LOOKS = {False: marks.Look(MEDIAN, "o"), True: marks.Look(PAPER["gemm"], "D")}
"""Of usual and of marked rows."""


def draw_intervals(data: Intervals, width: int) -> Figure:
    """A mark with its interval a row, its name before it and its numbers behind; on a phone both stand above it."""
    tight = width < TIGHT
    numbers = [interval_text(row, data.axis) for row in data.rows]
    behind = max((text_width(text) for text in numbers), default=0)
    names = short([row.name for row in data.rows], width - behind - 16 if tight else MOST)
    left = 10 if tight else 12 + max((text_width(name) for name in names), default=0)
    right = 14 if tight else behind + 20
    row = TALL_ROW if tight else ROW
    tall = row * max(1, len(names))
    figure = canvas(width, TOP + tall + FOOT)
    axes = panel_axes(figure, (left, TOP, width - left - right, tall))
    at = _along(data, int(width - left - right) // 70)
    _frame(axes, at, len(names), tight=tight)
    for index, (interval, name, text) in enumerate(zip(data.rows, names, numbers, strict=True)):
        base = index + (0.74 if tight else 0.5)
        _interval(axes, at, interval, base)
        _texts(axes, (name, text), index, (left, right) if tight else None)
    if data.reference is not None and (x := at.place(data.reference)) is not None and names:
        for index in range(len(names)):
            ends = (index + 0.5, index + 1) if tight else (index, index + 1)
            axes.plot([x, x], ends, color=INK, linewidth=1.2, linestyle=LINES["dashed"], zorder=1)
        write(axes, x, 1, said(data.reference, data.axis), (0, 5), transform=axes.get_xaxis_transform(), ha="center")
    if not names:
        nothing(axes)
    foot(figure, _keys(data))
    return figure


def _along(data: Intervals, most: int) -> Scale:
    ends = [end for row in data.rows for end in (row.value, row.low, row.high)]
    around = () if data.reference is None else (data.reference,)
    return scale(data.axis, ends, most, around=around)


def _frame(axes: Any, at: Scale, count: int, *, tight: bool) -> None:
    at.apply(axes.xaxis)
    axes.set(ylim=(max(1, count), 0), yticks=[])
    axes.spines["left"].set_visible(False)
    if not tight:  # where lines would run through the names
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    axes.set_xlabel(at.title, fontsize=FONT, parse_math=False)


def _interval(axes: Any, at: Scale, row: Interval, base: float) -> None:
    """The line from end to end; an end that is not known, or has no place, is left open with an arrow."""
    look = LOOKS[row.marked]
    value, low, high = (at.place(x) for x in (row.value, row.low, row.high))
    style: dict[str, Any] = {"color": look.color, "linewidth": 2, "zorder": 3, "solid_capstyle": "butt"}
    if low is not None or high is not None:
        ends = [at.low if low is None else low, at.high if high is None else high]
        axes.plot(ends, [base, base], **style)
        for end, open_mark, known in zip(ends, "<>", (low, high), strict=True):
            axes.plot([end], [base], marker="|" if known is not None else open_mark, markersize=8, markeredgewidth=2,
                      color=look.color, zorder=3, clip_on=False)  # fmt: skip
    if value is not None:
        marks.dot(axes, value, base, look, filled=True, clip_on=False)


def _texts(axes: Any, texts: tuple[str, str], index: int, sides: tuple[float, float] | None) -> None:
    """Name and numbers: beside the axes, or above the mark where ``sides`` says how wide the margins are."""
    name, numbers = texts
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform()}
    if sides:
        write(axes, 0, index, name, (-sides[0], -14), color=INK, **place)
        write(axes, 1, index, numbers, (sides[1], -14), ha="right", color=MUTED, **place)
        return
    write(axes, 0, index + 0.5, name, (-10, -4), ha="right", color=INK, **place)
    write(axes, 1, index + 0.5, numbers, (14, -4), color=INK, **place)


def _keys(data: Intervals) -> list[Key]:
    if not any(row.marked for row in data.rows):
        return []
    usual, marked = LOOKS[False], LOOKS[True]
    told = [(data.unmarked_as, usual), (data.marked_as, marked)]
    return [Key(text, look.color, "dot", look.shape) for text, look in told]


# --- numbers ------------------------------------------------------------------------------------------------------


def interval_text(row: Interval, axis: Axis) -> str:
    """``1.31 (1.02 to 1.69)``, with no more digits than the interval supports."""
    if row.low is None or row.high is None or not all(map(math.isfinite, (row.value, row.low, row.high))):
        return _open(row, axis)
    shown = [_supported(x, row.high - row.low, axis) for x in (row.value, row.low, row.high)]
    unit = f" {axis.unit}" if axis.unit and axis.kind in ("number", "count") else ""
    return f"{shown[0]} ({shown[1]} to {shown[2]}){unit}"


def _open(row: Interval, axis: Axis) -> str:
    """``1.27 (to 1.90)``: an interval of which one end is known, or none."""
    end = next((end for end in (row.low, row.high) if _known(end)), None)
    if end is None or not _known(row.value):
        return said(row.value, axis)
    value, known = (_supported(x, abs(row.value - end), axis) for x in (row.value, end))
    unit = f" {axis.unit}" if axis.unit and axis.kind in ("number", "count") else ""
    return f"{value} ({'from' if end == row.low else 'to'} {known}){unit}"


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _supported(value: float, wide: float, axis: Axis) -> str:
    """Two digits of the interval's width are the last that say anything."""
    if axis.kind not in ("number", "count") or (value and not 1e-4 <= abs(value) < 1e9):
        return said(value, axis)
    if wide <= 0:
        return fmt.number(value)
    places = max(0, 1 - math.floor(math.log10(wide)))
    return f"{value:,.{places}f}" if places < fmt.decimals(value) else fmt.number(value)
