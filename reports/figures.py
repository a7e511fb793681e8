"""Figures of a report: data in, matplotlib figure or SVG text out. Curves against memory stand in `curves`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from wcbench.reports import curves
from wcbench.reports import format as fmt
from wcbench.reports.canvas import (
    FONT,
    FOOT,
    KEY_LINE,
    TIGHT,
    WIDE,
    Key,
    canvas,
    fit,
    legend,
    legend_rows,
    panel_axes,
    style,
    write,
)
from wcbench.reports.figure_data import (
    Bar,
    BarPanel,
    Bars,
    CapacityCurves,
    KnobCurves,
    LiveCurve,
    QualityCurves,
    Roofline,
    StepPoint,
    StepTimes,
)
from wcbench.reports.model import FigureData
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
    for index, bar in enumerate(panel.bars):
        _bar(axes, index, bar, width)


def _bar(axes: Any, index: int, bar: Bar, width: int) -> None:
    """Name and numbers on one line, the bar below it."""
    base = index + (ROW - BAR / 2 - 3) / ROW
    color = category_color(bar.category)
    axes.barh([base], [100 * bar.share], height=BAR / ROW, color=color, edgecolor=EDGE, linewidth=0.6)
    line = index + (ROW - BAR - 8) / ROW
    room = width - (112 if bar.cumulative is not None else 58)
    write(axes, 0, line, fit(bar.name, room), transform=axes.get_yaxis_transform())
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
    words = ["● measured", "○ △ dropped" if dropped else "", "━ median", "▒ quartiles"]
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
}


# --- SVG ----------------------------------------------------------------------------------------------------------

_THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", EDGE: "var(--edge)", MEDIAN: "var(--median)"}


def svg(data: FigureData, *, width: int, prefix: str, label: str) -> str:
    """Some data as an ``<svg>`` element to stand inside a page.

    Parameters
    ----------
    prefix : goes before every id, so that several figures can share a page.
    label : what the figure shows, for people who do not see it.
    """
    figure = draw(data, width)
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), prefix, label)


def _inline(text: str, prefix: str, label: str) -> str:
    """matplotlib's file as an element: no prolog, no rules for the whole page, own ids, the page's colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>\s*", "", text, flags=re.DOTALL)  # its `*` selector would hit the page
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r'\bd="[^"]+"', _hundredths, text)
    for color, variable in _THEME.items():
        text = text.replace(color, variable)
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None, "matplotlib writes a viewBox"
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    opening = f'<svg {box[0]} role="img" aria-label="{_attribute(label)}" {spaces}>'
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1).strip()


def _hundredths(path: re.Match[str]) -> str:
    """Hundredths of a pixel are enough, and half of the size."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])


def _attribute(text: str) -> str:
    from markupsafe import escape

    return str(escape(fmt.prose(text)))
