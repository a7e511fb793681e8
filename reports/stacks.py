"""A bar of shares for each workload, with one legend of the categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from wcbench.reports import format as fmt
from wcbench.reports import marks
from wcbench.reports.canvas import FONT, FOOT, TIGHT, Key, canvas, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import StackBar, Stacks
from wcbench.reports.palette import EDGE, GRID, INK, MUTED, category_color
from wcbench.reports.planes import SMALL, nothing, short

ROW = 22
TALL_ROW = 36
"""Height of a row whose name stands above its bar."""
BAR = 15
MOST = 230
TOP = 6
MARK = 16
LAST = ("other", "none of the eight")
MOST_OF_1 = 1.005
"""Shares that sum to more than rounding explains are no parts of a whole, and are not drawn."""
THIN = 1.0
"""Pixels below which a part is said to be too thin to see."""


def draw_stacks(data: Stacks, width: int) -> Figure:
    """Bars below each other; a name stands before its bar, on a phone above it."""
    tight = width < TIGHT
    mark = MARK if len({bar.group for bar in data.bars}) > 1 else 0
    names = short([bar.name for bar in data.bars], width - mark if tight else MOST)
    left = 0.0 if tight else mark + 10 + max((text_width(name) for name in names), default=0)
    row = TALL_ROW if tight else ROW
    figure = canvas(width, TOP + row * max(1, len(names)) + FOOT)
    axes = panel_axes(figure, (left, TOP, width - left - 14, row * max(1, len(names))))
    _frame(axes, data.axis, len(names), tight=tight)
    order = categories(data.bars)
    found = marks.looks(bar.group for bar in data.bars)
    for index, (bar, name) in enumerate(zip(data.bars, names, strict=True)):
        base = index + (1 - (BAR / 2 + 4) / row if tight else 0.5)
        _bar(axes, bar, order, base, BAR / row)
        _name(axes, name, found[bar.group] if mark else None, (index, base), tight)
    if not names:
        nothing(axes)
    foot(figure, [*(marks.keys(found, []) if mark else []), *_keys(data.bars, order, width - left - 14)])
    return figure


def categories(bars: Sequence[StackBar]) -> list[str]:
    """Categories that any bar has, those with most in all bars together first; what no other holds comes last."""
    sums: dict[str, float] = {}
    for bar in bars:
        for name, share in _parts(bar):
            sums[name] = sums.get(name, 0.0) + share
    return sorted(sums, key=lambda name: (name.casefold() in LAST, -sums[name], name))


def _parts(bar: StackBar) -> list[tuple[str, float]]:
    return [(name, share) for name, share in bar.parts if math.isfinite(share) and share > 0]


def _frame(axes: Any, title: str, count: int, *, tight: bool) -> None:
    axes.set(xlim=(0, 1), ylim=(max(1, count), 0), yticks=[])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"], fontsize=FONT)
    axes.spines["left"].set_visible(False)
    if tight:  # lines would run through the names, and half of the outer numbers off the page
        axes.get_xticklabels()[0].set_ha("left")
        axes.get_xticklabels()[-1].set_ha("right")
    else:
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    axes.set_xlabel(title, fontsize=FONT, parse_math=False)


def _bar(axes: Any, bar: StackBar, order: Sequence[str], base: float, tall: float) -> None:
    """Parts in the order of the legend; the widest are named inside."""
    parts = dict(_parts(bar))
    whole = sum(parts.values())
    if not parts or whole > MOST_OF_1:
        text = f"{fmt.ABSENT}: shares sum to {fmt.number(100 * whole)} %" if parts else f"{fmt.ABSENT}: no shares"
        write(axes, 0, base, text, (4, -4), transform=axes.transData, color=MUTED, fontsize=SMALL)
        return
    start = 0.0
    length = axes.get_window_extent().width
    for name in (name for name in order if name in parts):
        share = parts[name]
        color = category_color(name)
        edge = {"edgecolor": EDGE, "linewidth": 0.5}
        axes.barh([base], [share], left=start, height=tall, color=color, clip_on=False, **edge)
        _inside(axes, name, (start + share / 2, base), share * length, color)
        start += share


def _inside(axes: Any, name: str, at: tuple[float, float], room: float, color: str) -> None:
    """The category's name in its part where it fits, in black or white, whichever reads better."""
    text = fmt.visible(name)
    if text_width(text) * SMALL / FONT + 8 <= room:
        write(axes, *at, text, (0, -4), transform=axes.transData, ha="center", fontsize=SMALL, color=legible(color))


def legible(color: str) -> str:
    """Black or white, whichever has more contrast to a colour (WCAG 2, at least 4.5 to 1 in any case)."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    light = sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), channels, strict=True))
    return "#000000" if light > 0.179 else "#ffffff"


def _name(axes: Any, name: str, look: marks.Look | None, at: tuple[float, float], tight: bool) -> None:
    index, base = at
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "color": INK}
    if tight:
        write(axes, 0, index, name, (MARK if look else 0, -14), **place)
    else:
        write(axes, 0, base, name, (-8 - (MARK if look else 0), -4), ha="right", **place)
    if look:
        width, tall = axes.get_window_extent().width, axes.get_window_extent().height
        y = index + 10 * axes.get_ylim()[0] / tall if tight else base
        x = (6 if tight else -6 - MARK / 2) / width
        marks.dot(axes, x, y, look, filled=True, transform=axes.get_yaxis_transform(), clip_on=False)


def _keys(bars: Sequence[StackBar], order: Sequence[str], length: float) -> list[Key]:
    """Every category, also one whose parts are too thin to see."""
    most = {name: max(share for bar in bars for part, share in _parts(bar) if part == name) for name in order}
    thin = {
        name: f" (at most {fmt.share(most[name]).strip('<')}, too thin to see)"
        for name in order
        if most[name] * length < THIN
    }
    return [Key(f"{fmt.visible(name)}{thin.get(name, '')}", category_color(name)) for name in order]
