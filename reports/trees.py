"""The dendrogram: how workloads merge into clusters, and at what distance."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from wcbench.reports import marks
from wcbench.reports.canvas import FONT, FOOT, LINES, TIGHT, Key, canvas, foot, panel_axes, text_width, write
from wcbench.reports.figure_data import Axis, Tree
from wcbench.reports.palette import GRID, INK, MEDIAN
from wcbench.reports.planes import nothing, short
from wcbench.reports.scales import MOST_DRAWN, Scale, said, scale

ROW = 20
TOP = 26
MARK = 18
"""Room for a leaf's mark between the tree and its name."""
MOST = 260
"""Pixels that a name takes at most."""


def draw_tree(data: Tree, width: int) -> Figure:
    """The tree from its root on the left to the names on the right, distances along the bottom."""
    most = min(MOST, 0.46 * width)
    names = short([leaf.name for leaf in data.leaves], most)
    right = MARK + max((text_width(name) for name in names), default=0)
    tall = ROW * max(2, len(names))
    top = TOP if data.cut is not None else 6
    figure = canvas(width, top + tall + FOOT)
    axes = panel_axes(figure, (8, top, width - 12 - right, tall))
    at = _along(data, width)
    _frame(axes, at, len(names))
    places = _places(data)
    _bands(axes, data, places)
    for lines in _branches(data, places):
        axes.plot(*lines, color=INK, linewidth=1.4, zorder=3, solid_joinstyle="miter", clip_on=False)
    if data.cut is not None and math.isfinite(data.cut):
        axes.axvline(data.cut, color=MEDIAN, linewidth=1.4, linestyle=LINES["dashed"], zorder=2)
        text = f"cut at {said(data.cut, Axis(data.axis))}"
        side = "left" if at.pixel(data.cut, 1.0) > 0.5 else "right"
        write(axes, data.cut, 1, text, (0, 5), transform=axes.get_xaxis_transform(), ha=side, color=MEDIAN)
    found = _leaves(axes, data, names)
    if not names:
        nothing(axes)
    chosen = [leaf.chosen for leaf in data.leaves]
    band = [Key("every other cluster", GRID)] if _clusters(data, places) else []
    foot(figure, [*marks.keys(found, chosen), *band])
    return figure


def _along(data: Tree, width: int) -> Scale:
    """The distance from 0 on; it grows to the left."""
    heights = [0.0, *(merge.height for merge in data.merges), *(() if data.cut is None else (data.cut,))]
    if not data.leaves:
        heights = []
    high = max((value for value in heights if abs(value) <= MOST_DRAWN), default=0.0) or 1.0
    return scale(Axis(data.axis), heights, 4 if width < TIGHT else 8, limits=(0.0, 1.04 * high))


def _frame(axes: Any, at: Scale, count: int) -> None:
    at.apply(axes.xaxis)
    axes.set_xlim(at.high, at.low)
    axes.set_ylim(max(2, count) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=FONT)
    axes.set_xlabel(at.title, fontsize=FONT, parse_math=False)


def _places(data: Tree) -> list[tuple[float, float, int, int]]:
    """Of each leaf and merge: where it stands from the top, its height, and its first and last leaf."""
    places = [(float(leaf), 0.0, leaf, leaf) for leaf in range(len(data.leaves))]
    for merge in data.merges:
        one, two = places[merge.left], places[merge.right]
        places.append(((one[0] + two[0]) / 2, merge.height, min(one[2], two[2]), max(one[3], two[3])))
    return places


def _branches(data: Tree, places: list[tuple[float, float, int, int]]) -> list[tuple[list[float], list[float]]]:
    """A bracket for each merge: (distances, places from the top)."""
    found = []
    for merge in data.merges:
        (y0, x0, *_), (y1, x1, *_) = places[merge.left], places[merge.right]
        found.append(([x0, merge.height, merge.height, x1], [y0, y0, y1, y1]))
    return found


def _clusters(data: Tree, places: list[tuple[float, float, int, int]]) -> list[tuple[int, int]]:
    """First and last leaf of each cluster below the cut, from the top; none where there is no cut, or one cluster."""
    if data.cut is None:
        return []
    inside: set[int] = set()
    found = []
    for index in range(len(places) - 1, -1, -1):
        if index in inside or places[index][1] <= data.cut:
            if index not in inside:
                found.append(places[index][2:])
            if index >= len(data.leaves):
                merge = data.merges[index - len(data.leaves)]
                inside |= {merge.left, merge.right}
    return sorted(found) if len(found) > 1 else []


def _bands(axes: Any, data: Tree, places: list[tuple[float, float, int, int]]) -> None:
    """A shade behind every other cluster."""
    for first, last in _clusters(data, places)[1::2]:
        axes.axhspan(first - 0.5, last + 0.5, color=GRID, alpha=0.55, linewidth=0, zorder=0)


def _leaves(axes: Any, data: Tree, names: list[str]) -> dict[str, marks.Look]:
    """Names right of the tree, each behind its group's mark."""
    found = marks.looks(leaf.group for leaf in data.leaves)
    hollow = any(leaf.chosen for leaf in data.leaves)
    width = axes.get_window_extent().width
    for row, (leaf, name) in enumerate(zip(data.leaves, names, strict=True)):
        transform = axes.get_yaxis_transform()
        filled = leaf.chosen or not hollow
        marks.dot(axes, 1 + 9 / width, row, found[leaf.group], filled=filled, transform=transform, clip_on=False)
        write(axes, 1, row, name, (MARK, -4), transform=transform, color=INK)
    return found
