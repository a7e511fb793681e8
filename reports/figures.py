"""Figures of a report: data in, matplotlib figure or SVG text out. Curves against memory stand in `curves`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from wcbench.reports import bands, curves, dots, intervals, maps, matrices, roofs, stacks, trees, vector
from wcbench.reports import format as fmt
from wcbench.reports.canvas import (
    FONT,
    FOOT,
    KEY_LINE,
    TIGHT,
    WIDE,
    Key,
    canvas,
    fits,
    legend,
    legend_rows,
    panel_axes,
    style,
    write,
)
from wcbench.reports.figure_data import (
    Bands,
    Bar,
    BarPanel,
    Bars,
    CapacityCurves,
    DotPlot,
    FigureData,
    Intervals,
    KnobCurves,
    LiveCurve,
    Map,
    Matrix,
    QualityCurves,
    Roofline,
    Roofs,
    Stacks,
    StepPoint,
    StepTimes,
    Tree,
)
from wcbench.reports.palette import EDGE, GRID, INK, MEDIAN, MUTED, category_color

ROW = 34
BAR = 13
HEAD = 24
SUMS = 58
"""Room for the running totals, right of the shares."""
MEASURED = "measured"
POINTS = 400
"""Steps drawn one by one; more would make the page heavy and the dots a band."""


def draw(data: FigureData, width: int = WIDE) -> Figure:
    """The figure of some data, ``width`` CSS pixels wide; its height follows from the data."""
    with style():
        return _draw(data, width)


def _draw(data: FigureData, width: int) -> Figure:
    return _DRAWERS[type(data)](data, width)


# --- bars ---------------------------------------------------------------------------------------------------------


def _bars(data: Bars, width: int) -> Figure:
    """Each bar under its own name, since kernel names leave no room beside them."""
    categories = list(dict.fromkeys(bar.category for panel in data.panels for bar in panel.bars)) if data.legend else []
    keys = legend_rows([Key(name, category_color(name)) for name in categories], width)
    stacked = width < TIGHT or len(data.panels) == 1
    heights = [HEAD + ROW * len(panel.bars) + FOOT for panel in data.panels]
    height = (sum(heights) if stacked else max(heights, default=0)) + KEY_LINE * len(keys)
    figure = canvas(width, max(height, FOOT))
    longest = max((bar.share for panel in data.panels for bar in panel.bars), default=0) or 1
    top, left, share = 0, 0, width if stacked else width // max(1, len(data.panels))
    for panel, tall in zip(data.panels, heights, strict=True):
        gap = 0 if stacked or left + share >= width else 24
        axes = panel_axes(figure, (left, top + HEAD, share - gap, ROW * len(panel.bars)))
        _panel(axes, panel, longest, share - gap)
        axes.set_xlabel(data.axis, fontsize=FONT)
        top, left = (top + tall, left) if stacked else (top, left + share)
    legend(figure, keys)
    return figure


def _panel(axes: Any, panel: BarPanel, longest: float, width: int) -> None:
    rows = len(panel.bars)
    axes.set(ylim=(rows or 1, 0), xlim=(0, 100 * longest), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=FONT)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    running = any(bar.cumulative is not None for bar in panel.bars)
    write(axes, 0, 1, panel.title, transform=axes.transAxes, va="bottom", weight="bold", offset=(0, 6))
    if running:
        head = {"transform": axes.transAxes, "va": "bottom", "ha": "right", "color": MUTED, "offset": (0, 4)}
        write(axes, 1 - SUMS / width, 1, "share", **head)
        write(axes, 1, 1, "Σ", **head)
    names = fits([bar.name for bar in panel.bars], width - (112 if running else 58))
    for index, bar in enumerate(panel.bars):
        _bar(axes, index, bar, names[index], width)


def _bar(axes: Any, index: int, bar: Bar, name: str, width: int) -> None:
    """Name and numbers on one line, the bar below it."""
    base = index + (ROW - BAR / 2 - 3) / ROW
    color = category_color(bar.category)
    axes.barh([base], [100 * bar.share], height=BAR / ROW, color=color, edgecolor=EDGE, linewidth=0.6)
    line = index + (ROW - BAR - 8) / ROW
    write(axes, 0, line, name, transform=axes.get_yaxis_transform())
    right = 1 - SUMS / width if bar.cumulative is not None else 1
    write(axes, right, line, fmt.share(bar.share), transform=axes.get_yaxis_transform(), ha="right")
    if bar.cumulative is not None:
        total = fmt.share(bar.cumulative)
        write(axes, 1, line, total, transform=axes.get_yaxis_transform(), ha="right", color=MUTED)


# --- steps --------------------------------------------------------------------------------------------------------


def _steps(data: StepTimes, width: int) -> Figure:
    """One dot a step; hollow ones were dropped. The band holds the middle half of the measured ones."""
    figure = canvas(width, 320)
    unit, factor = _milliseconds(data)
    axes = panel_axes(figure, (58, 54, width - 70, 320 - 54 - FOOT))
    if data.q1 is not None and data.q3 is not None:
        axes.axhspan(data.q1 * factor, data.q3 * factor, color=MEDIAN, alpha=0.22, linewidth=0)
    if data.median is not None:
        axes.axhline(data.median * factor, color=MEDIAN, linewidth=1.6)
    points = data.points[:POINTS]
    top = _top(data) * factor
    _dots(axes, [point for point in points if point.role == MEASURED], factor, INK)
    _dots(axes, [point for point in points if point.role != MEASURED], factor, "none")
    _above(axes, [point for point in points if point.milliseconds * factor > top], factor, top)
    axes.set_ylim(0, top)
    axes.set_xlim(points[0].index - 0.7, points[-1].index + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(6 if width < TIGHT else 12, integer=True))
    axes.set_xlabel("step" if len(points) == len(data.points) else f"step (the first {POINTS} of {len(data.points):,})")
    axes.set_ylabel(f"time ({unit})")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    _steps_key(axes, data)
    return figure


def _milliseconds(data: StepTimes) -> tuple[str, float]:
    """The unit in which the times are readable, and what milliseconds are multiplied by."""
    longest = max(point.milliseconds for point in data.points)
    unit = fmt.column([longest], "time_ms").unit
    return unit, {"ns": 1e6, "µs": 1e3, "ms": 1.0, "s": 1e-3}[unit]


def _top(data: StepTimes) -> float:
    """The end of the scale: measured steps decide it, or a slow first step would press them into a line."""
    measured = [point.milliseconds for point in data.points if point.role == MEASURED]
    return 1.25 * max(measured or [point.milliseconds for point in data.points], default=0) or 1


def _above(axes: Any, points: Sequence[StepPoint], factor: float, top: float) -> None:
    """Steps beyond the scale as triangles at its end; the longest says how long it was."""
    if not points:
        return
    face = {"facecolors": "none", "edgecolors": INK, "linewidths": 1.2, "clip_on": False, "zorder": 3}
    axes.scatter([point.index for point in points], [top] * len(points), s=44, marker="^", **face)
    longest = max(points, key=lambda point: point.milliseconds)
    said = fmt.show(longest.milliseconds, "time_ms")
    write(axes, longest.index, top, said, transform=axes.transData, va="center", offset=(-4, 13))


def _dots(axes: Any, points: Sequence[StepPoint], factor: float, face: str) -> None:
    x, y = [point.index for point in points], [point.milliseconds * factor for point in points]
    axes.scatter(x, y, s=30, facecolors=face, edgecolors=INK, linewidths=1.2, zorder=3)


def _steps_key(axes: Any, data: StepTimes) -> None:
    dropped = any(point.role != MEASURED for point in data.points)
    words = ["● measured", "○ △ dropped" if dropped else "", "━ median", "▒ quartiles" if data.q1 is not None else ""]
    text = "  ".join(word for word in words if word)
    write(axes, 0, 1, text, transform=axes.transAxes, va="bottom", offset=(-56, 34), color=MUTED)


_DRAWERS: dict[type, Callable[[Any, int], Figure]] = {
    Bars: _bars,
    StepTimes: _steps,
    LiveCurve: curves.live,
    CapacityCurves: curves.capacity,
    KnobCurves: curves.knob,
    QualityCurves: curves.quality,
    Roofline: curves.roofline,
    Map: maps.draw_map,
    Stacks: stacks.draw_stacks,
    Tree: trees.draw_tree,
    DotPlot: dots.draw_dots,
    Intervals: intervals.draw_intervals,
    Bands: bands.draw_bands,
    Matrix: matrices.draw_matrix,
    Roofs: roofs.draw_roofs,
}


# --- SVG ----------------------------------------------------------------------------------------------------------

Theme = Literal["page", "print"]


def svg(data: FigureData, *, width: int, prefix: str, label: str, theme: Theme = "page") -> str:
    """Some data as an ``<svg>`` element to stand inside a page, in the colours of the page's theme.

    Parameters
    ----------
    prefix : goes before every id, so that several figures can share a page.
    label : what the figure shows, for people who do not see it.
    theme : "page" takes the colours of the page, light or dark; "print" is `print_svg`, which no page's ids meet.
    """
    return print_svg(data, width, label) if theme == "print" else vector.inline(draw(data, width), prefix, label)


def print_svg(data: FigureData, width: int = WIDE, label: str = "") -> str:
    """Some data as an SVG file that stands alone: dark ink for light paper, letters of DejaVu Sans."""
    return vector.standalone(draw(data, width), label)
