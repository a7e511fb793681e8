"""Figures on memory: live bytes over a step, traffic and misses against capacity, the roofline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from wcbench.reports import format as fmt
from wcbench.reports.canvas import (
    FONT,
    FOOT,
    KEY_LINE,
    LINES,
    TIGHT,
    Key,
    canvas,
    legend,
    legend_rows,
    panel_axes,
    trimmed,
    write,
)
from wcbench.reports.figure_data import CapacityCurves, KnobCurves, LiveCurve, QualityCurves, Roofline
from wcbench.reports.palette import EDGE, GRID, INK, MEDIAN, MUTED, PAPER, live_color

HEIGHT = 300
LEFT = 72
RIGHT = 26
TOP = 34
"""Room above the axes for the name of the vertical one, which a phone has no room for beside it."""
TOO_LOW = "below an operator's operands: too low"
STYLES: tuple[tuple[str, Any], ...] = (
    (MEDIAN, "line"),
    (PAPER["gemm"], "dashed"),
    (PAPER["batch normalization"], "line"),
)
"""Colour and kind of the curves of a figure, in their order."""


def _frame(width: int, keys: Sequence[Key], title: str) -> tuple[Figure, Any]:
    """A canvas with one pair of axes, the name of the vertical axis above it, and a legend below."""
    lines = legend_rows(keys, width)
    figure = canvas(width, HEIGHT + KEY_LINE * len(lines))
    axes = panel_axes(figure, (LEFT, TOP, width - LEFT - RIGHT, HEIGHT - TOP - FOOT))
    axes.tick_params(labelsize=FONT)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    write(axes, 0, 1, title, transform=axes.transAxes, va="bottom", offset=(-LEFT, 14), color=MUTED)
    legend(figure, lines)
    return figure, axes


# --- live bytes ---------------------------------------------------------------------------------------------------


def live(data: LiveCurve, width: int) -> Figure:
    """Stacked areas, painted from the top of the stack down, so that each needs one edge only."""
    data, unit = _along_time(data) if data.timed else (data, "")
    shown = [(name, values) for name, values in data.classes if any(values)]
    keys = [Key(name, live_color(name)) for name, _ in shown]
    figure, axes = _frame(width, keys, "live bytes")
    heights = [sum(column) for column in zip(*(values for _, values in shown), strict=True)] or [0] * len(data.order)
    peak, last = max(heights, default=0), data.order[-1]
    _byte_scale(axes, peak)
    axes.set_xlim(data.order[0], last if last > data.order[0] else data.order[0] + 1)
    axes.xaxis.set_major_locator(MaxNLocator(4 if width < TIGHT else 8, integer=not unit))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel(f"time since the first event ({unit})" if unit else "operator (its place in the stream)")
    tops = list(heights)
    for name, values in reversed(shown):
        axes.fill([data.order[0], *data.order, last], [0, *tops, 0], color=live_color(name), linewidth=0)
        tops = [top - value for top, value in zip(tops, values, strict=True)]
    if peak:
        _peak(axes, data.order[heights.index(peak)], peak)
    return figure


def _along_time(data: LiveCurve) -> tuple[LiveCurve, str]:
    """The curve with its steps drawn out, and the unit of its times; bytes stay until the next moment."""
    unit = fmt.column([data.order[-1]], "time_ns").unit
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    order = [moment / factor for moment in data.order]
    twice = tuple((name, tuple(itertools.chain(*zip(values, values, strict=True)))) for name, values in data.classes)
    ends = [*order[1:], order[-1]]
    places: Any = tuple(itertools.chain(*zip(order, ends, strict=True)))
    return LiveCurve(places, twice), unit


def _byte_scale(axes: Any, peak: float) -> None:
    """From nothing to above the peak, with ticks at round numbers of the unit that suits it."""
    unit = fmt.column([peak], "bytes").unit or "B"
    step = 1024.0 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    ticks = [tick * step for tick in MaxNLocator(5, steps=[1, 2, 4, 5, 8, 10]).tick_values(0, peak / step)]
    axes.set_yticks(ticks, [f"{tick / step:,g} {unit}" for tick in ticks])
    axes.set_ylim(0, 1.15 * peak or 1)


def _peak(axes: Any, x: float, peak: float) -> None:
    axes.scatter([x], [peak], s=26, facecolors="none", edgecolors=INK, linewidths=1.4, zorder=3, clip_on=False)
    low, high = axes.get_xlim()
    right = x > (low + high) / 2
    place: dict[str, Any] = {"ha": "right" if right else "left", "offset": (-8 if right else 8, 4)}
    write(axes, x, peak, f"peak {fmt.binary_bytes(peak)}", transform=axes.transData, weight="bold", **place)


# --- against capacity ---------------------------------------------------------------------------------------------


def capacity(data: CapacityCurves, width: int) -> Figure:
    """Each curve through its points, constants as thin lines with their names, the doubtful region shaded."""
    lines = [(curve, *look) for curve, look in zip(data.curves, STYLES, strict=False)]
    keys = [Key(curve.name, color, mark) for curve, color, mark in lines]
    low, high = _limits(x for curve in data.curves for x, _ in curve.points)
    doubtful = data.too_low is not None and data.too_low > low
    figure, axes = _frame(width, [*keys, *([Key(TOO_LOW, GRID)] if doubtful else [])], data.axis)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    _log_ticks(axes.xaxis, low, high, 4 if width < TIGHT else 9)
    axes.set_xlabel("cache capacity")
    _vertical(axes, data)
    if doubtful:
        axes.axvspan(low, min(data.too_low or low, high), color=GRID, alpha=0.6, linewidth=0, zorder=0)
    for curve, color, mark in reversed(lines):  # the first on top of those that it coincides with
        points = [(x, y) for x, y in curve.points if y > 0 or data.unit == "share"]
        style: dict[str, Any] = {"color": color, "linestyle": LINES[mark], "linewidth": 2, "marker": "o"}
        axes.plot([x for x, _ in points], [y for _, y in points], markersize=4, zorder=3, **style)
    return figure


def _vertical(axes: Any, data: CapacityCurves) -> None:
    """Shares on a plain axis in percent; bytes on a log axis that reaches beyond the constants."""
    if data.unit == "share":
        axes.set_ylim(0, 1.04)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        return
    levels = [(name, value) for name, value in data.levels if value > 0]
    low, high = _limits([*(y for curve in data.curves for _, y in curve.points), *(value for _, value in levels)])
    room = (high / low) ** 0.14
    low, high = low / max(room, 1.2), high * max(room, 1.2)
    axes.set_yscale("log", base=2)
    axes.set_ylim(low, high)
    _log_ticks(axes.yaxis, low, high, 6)
    for name, value in levels:
        _level(axes, f"{name} {fmt.binary_bytes(value)}", value, above=value * value > low * high)


def _level(axes: Any, text: str, value: float, *, above: bool) -> None:
    """The name stands where curves do not: above a high line at its right end, below a low one at its left."""
    axes.axhline(value, color=MUTED, linewidth=1.2, linestyle=(0, (1.5, 1.5)))
    x, side, offset = (1, "right", (0, 5)) if above else (0, "left", (4, -14))
    write(axes, x, value, text, transform=axes.get_yaxis_transform(), ha=side, offset=offset, color=INK)


def _limits(values: Iterable[float]) -> tuple[float, float]:
    """The least and the greatest positive value, never the same."""
    known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    return min(known), max(*known, 2 * min(known))


def _log_ticks(axis: Any, low: float, high: float, most: int) -> None:
    """Powers of two at an even distance, written as bytes."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / most))
    ticks = [2.0**exponent for exponent in range(first, last + 1) if exponent % step == 0]
    ticks = ticks or [2.0**first]
    axis.set_ticks(ticks, [_round_bytes(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def _round_bytes(value: float) -> str:
    """16 MiB: a power of two needs no decimals."""
    return trimmed(fmt.binary_bytes(value))


# --- against a knob ------------------------------------------------------------------------------------------------


def knob(data: KnobCurves, width: int) -> Figure:
    """A line for each curve through all of its points; the values of the knob themselves are the ticks."""
    lines = list(zip(data.curves, itertools.cycle(STYLES)))
    keys = [Key(curve.name, color, mark) for curve, (color, mark) in lines if curve.name]
    figure, axes = _frame(width, keys, data.axis)
    points = [point for curve in data.curves for point in curve.points if point[1] > 0]
    low, high = _limits(y for _, y in points)
    first, last = _limits(x for x, _ in points)
    axes.set(xscale="log", yscale="log", xlim=(first / 1.1, last * 1.1), ylim=(low / 1.5, high * 1.5))
    values = sorted({x for x, _ in points})
    shown = values[:: max(1, math.ceil(len(values) / (4 if width < TIGHT else 9)))]
    axes.xaxis.set_ticks(shown, [f"{value:,.0f}" for value in shown])
    axes.xaxis.set_ticks([], minor=True)
    _round_ticks(axes.yaxis, low / 1.5, high * 1.5, data)
    axes.set_xlabel(data.knob)
    for curve, (color, mark) in lines:
        x, y = zip(*(point for point in curve.points if point[1] > 0), strict=True)
        axes.plot(x, y, color=color, linestyle=LINES[mark], linewidth=2, marker="o", markersize=4, zorder=3)
    return figure


def quality(data: QualityCurves, width: int) -> Figure:
    """A thin line a run, of one colour where they are of one name; targets as dashed levels."""
    names = list(dict.fromkeys(curve.name for curve in data.curves))
    colors = dict(zip(names, itertools.cycle(color for color, _ in STYLES), strict=False))
    keys = [Key(name, colors[name], "line") for name in names if name]
    figure, axes = _frame(width, [*keys, *([Key("target", MUTED, "dashed")] if data.levels else [])], data.axis)
    for curve in data.curves:
        x, y = zip(*curve.points, strict=True)
        style: dict[str, Any] = {"alpha": 0.7, "marker": "o", "markersize": 3} if len(x) < MARKED else {"alpha": 0.7}
        axes.plot(x, y, color=colors[curve.name], linewidth=1.4, zorder=3, **style)
    for level in data.levels:
        axes.axhline(level, color=MUTED, linewidth=1.2, linestyle=LINES["dashed"])
    low, high = axes.get_xlim()
    ticks: dict[str, Any] = {"steps": [1, 2, 5, 10], "integer": high - low > 2}
    axes.xaxis.set_major_locator(MaxNLocator(4 if width < TIGHT else 8, **ticks))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}" if value < 1e6 else trimmed(fmt.si(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel(data.along)
    return figure


MARKED = 60
"""Points from which a line of quality has no dots."""


def _round_ticks(axis: Any, low: float, high: float, data: KnobCurves) -> None:
    """1, 2 and 5 times powers of ten; powers of two for bytes."""
    if data.kind == "bytes":
        return _log_ticks(axis, low, high, 6)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [figure * 10.0**decade for decade in decades for figure in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    ticks = ticks[:: max(1, math.ceil(len(ticks) / 8))]
    axis.set_ticks(ticks, [trimmed(fmt.show(tick, data.kind, data.unit)) for tick in ticks])
    axis.set_ticks([], minor=True)


# --- roofline -----------------------------------------------------------------------------------------------------


def roofline(data: Roofline, width: int) -> Figure:
    """Operators on the roof at their intensity, larger the more FLOPs they have; the whole step as upright lines."""
    points = [point for point in data.points if point.intensity > 0 and point.flops > 0]
    keys = [Key("roof", INK, "line"), Key("an operator, by FLOPs", MEDIAN, "dot")]
    keys.append(Key("whole step, by cache capacity", PAPER["gemm"], "dashed"))
    figure, axes = _frame(width, keys, "attainable FLOP/s")
    ridge = data.peak / data.bandwidth
    marks = [(x, _round_bytes(size)) for size, x in data.capacities if x > 0]
    marks = [(data.intensity, "no cache"), *marks] if data.intensity else marks
    low, high = _limits([ridge / 30, ridge * 10, *(point.intensity for point in points), *(x for x, _ in marks)])
    axes.set(xscale="log", yscale="log", xlim=(low / 1.5, high * 1.5))
    axes.set_ylim(data.bandwidth * low / 1.5, data.peak * 2.5)
    axes.xaxis.set_major_formatter(lambda value, _: trimmed(fmt.number(value)))
    axes.yaxis.set_major_formatter(lambda value, _: trimmed(fmt.si(value)))
    axes.minorticks_off()
    axes.set_xlabel("FLOP/byte")
    ends = [low / 1.5, ridge, high * 1.5]
    axes.plot(ends, [_roof(data, x) for x in ends], color=INK, linewidth=1.8)
    most = max((point.flops for point in points), default=1.0)
    sizes = [12 + 160 * point.flops / most for point in points]
    places = [point.intensity for point in points], [_roof(data, point.intensity) for point in points]
    axes.scatter(*places, s=sizes, color=MEDIAN, alpha=0.75, edgecolors=EDGE, linewidths=0.6, zorder=3, clip_on=False)
    _intensities(axes, marks)
    return figure


def _roof(data: Roofline, intensity: float) -> float:
    return min(data.peak, intensity * data.bandwidth)


def _intensities(axes: Any, marks: Sequence[tuple[float, str]]) -> None:
    """Upright lines; intensities whose names would overlap become a band with one name."""
    groups: list[list[tuple[float, str]]] = []
    for x, name in sorted(marks, key=lambda mark: mark[0]):
        near = groups and _pixel(axes, x) - _pixel(axes, groups[-1][0][0]) < FONT + 3
        if near:
            groups[-1].append((x, name))
        else:
            groups.append([(x, name)])
    for group in groups:
        axes.axvspan(group[0][0], group[-1][0], color=PAPER["gemm"], alpha=0.2, linewidth=0, zorder=1)
        axes.axvline(group[0][0], color=PAPER["gemm"], linewidth=1.2, linestyle=LINES["dashed"], zorder=1)
        names = [name for _, name in group]
        text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        style: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "color": INK}
        write(axes, group[0][0], 0, text, transform=axes.get_xaxis_transform(), offset=(-4, 6), **style)


def _pixel(axes: Any, x: float) -> float:
    return float(axes.transData.transform((x, 1.0))[0]) * 72 / float(axes.figure.dpi)
