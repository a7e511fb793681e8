"""Figures: the drawn data, nothing left behind, the same bytes each time, colours that everybody can tell apart."""

from __future__ import annotations

import itertools
import re
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from wcbench import kernels
from wcbench.analysis.live import CLASSES
from wcbench.reports import figures, palette
from wcbench.reports.canvas import NARROW, WIDE, Key, fit, fits, legend_rows, text_width
from wcbench.reports.figure_data import (
    Bar,
    BarPanel,
    Bars,
    CapacityCurves,
    Curve,
    FigureData,
    LiveCurve,
    Roofline,
    RoofPoint,
    StepPoint,
    StepTimes,
)
from wcbench.reports.figures import svg
from wcbench.reports.profile_report import profile_report

# Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
DEFICIENCY = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def figures_of(summary: dict[str, Any]) -> dict[str, FigureData]:
    return {f.id: f.data for section in profile_report(summary).sections for f in section.figures()}


def draw(data: FigureData, width: int = WIDE) -> Any:
    """Untyped, since matplotlib's own types know less of an artist than its documentation."""
    return figures.draw(data, width)


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_hotspot_bars(summary: dict[str, Any], width: int) -> None:
    figure = draw(figures_of(summary)["hotspots-figure"], width)
    axes = figure.axes[0]
    expected = [100 * row["time_share"] for row in summary["hotspots"]["rows"][:15]]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(expected)
    assert axes.get_xlabel() == "share of operator self time (%)"
    assert {"aten::addmm", "7.5 %", "80.0 %"} <= set(texts(figure))
    assert figure.get_figwidth() * 72 == pytest.approx(width)


def test_a_category_has_one_colour_everywhere(summary: dict[str, Any]) -> None:
    found = figures_of(summary)
    hot = draw(found["hotspots-figure"]).axes[0].patches[0].get_facecolor()
    paper, full = (axes.patches[0].get_facecolor() for axes in draw(found["categories-figure"]).axes)
    assert hot == paper == full == mpl.colors.to_rgba(palette.category_color("convolution"))


def test_steps(summary: dict[str, Any]) -> None:
    figure = draw(figures_of(summary)["steps-figure"])
    axes = figure.axes[0]
    measured = axes.collections[0].get_offsets()
    assert [y for _, y in measured][:3] == pytest.approx([9.81, 9.6, 9.75])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "time (ms)")
    assert axes.lines[0].get_ydata()[0] == 9.81
    assert axes.get_ylim()[1] == pytest.approx(13.0)  # 1.25 x 10.4: the 31.5 ms of the warm-up do not set the scale
    assert "31.5 ms" in texts(figure)


def test_many_steps_are_capped_and_said_to_be() -> None:
    points = tuple(StepPoint(index, 10.0, "measured") for index in range(5000))
    figure = draw(StepTimes(points, 10.0, 10.0, 10.0))
    assert len(figure.axes[0].collections[0].get_offsets()) == figures.POINTS
    assert figure.axes[0].get_xlabel() == "step (the first 400 of 5,000)"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_live_bytes_stack_to_the_peak(summary: dict[str, Any], width: int) -> None:
    figure = draw(figures_of(summary)["memory-live"], width)
    axes = figure.axes[0]
    assert len(axes.patches) == 5  # no optimizer state
    heights = [patch.get_xy()[:, 1].max() / 2**20 for patch in axes.patches]
    assert heights == pytest.approx([180, 120, 70, 30, 10])  # from the top of the stack down
    assert axes.patches[0].get_facecolor() == mpl.colors.to_rgba(palette.live_color("workspace"))
    assert {"peak 180 MiB", "activation", "workspace", "live bytes"} <= set(texts(figure))
    assert "optimizer state" not in texts(figure)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_traffic_against_capacity(summary: dict[str, Any], width: int) -> None:
    figure = draw(figures_of(summary)["memory-traffic"], width)
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    drawn = [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in reversed(curves)]
    expected = [summary["memory"]["traffic"], summary["memory"]["allocator"]["traffic"]]
    assert drawn == [[tuple(point) for point in curve] for curve in expected]
    shaded = axes.patches[0]
    assert (shaded.get_x(), shaded.get_x() + shaded.get_width()) == (2**18, 64 * 2**20)
    said = set(texts(figure))
    assert {"operator bytes 0.977 GiB", "compulsory 20.0 MiB", "below an operator's operands: too low"} <= said
    assert {"1 GiB", "logical (each tensor's bytes new)"} <= said


def test_miss_ratios_are_shares(summary: dict[str, Any]) -> None:
    axes = draw(figures_of(summary)["memory-misses"]).axes[0]
    assert axes.get_yscale() == "linear"
    assert axes.lines[-1].get_ydata()[0] == 1.0
    assert axes.lines[-1].get_ydata()[-1] == 0.04


def test_nothing_is_shaded_where_the_model_holds_everywhere(summary: dict[str, Any]) -> None:
    summary["memory"]["largest_operator_bytes"] = 2**10
    figure = draw(figures_of(summary)["memory-traffic"])
    assert not figure.axes[0].patches
    assert "below an operator's operands: too low" not in texts(figure)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_roofline_puts_operators_on_the_roof(summary: dict[str, Any], width: int) -> None:
    figure = draw(figures_of(summary)["roofline-figure"], width)
    axes = figure.axes[0]
    points = axes.collections[0].get_offsets()
    expected = [(row["intensity"], min(66.9e12, row["intensity"] * 3.35e12)) for row in summary["roofline"]["points"]]
    assert np.asarray(points) == pytest.approx(np.array(expected))
    assert axes.get_xlabel() == "FLOP/byte"
    assert any(text.startswith("no cache") for text in texts(figure))


def test_rounding_of_paths_leaves_texts_alone() -> None:
    data = Bars("share (%)", (BarPanel("", (Bar("v1.23456789", "gemm", 1.0),)),))
    text = svg(data, width=NARROW, prefix="a", label="0.98765")
    assert "v1.23456789" in text
    assert "0.98765" in text
    assert not re.search(r'\bd="[^"]*\.\d{3}', text)


def test_degenerate_figures() -> None:
    draw(LiveCurve((0,), (("weight", (0,)),)), NARROW)
    draw(LiveCurve((7,), (("strange", (5,)),)), NARROW)
    draw(LiveCurve((1, 2), ()), NARROW)
    one = Curve("one", ((1024.0, 0.0),))
    draw(CapacityCurves("traffic", "bytes", (one,), (("operator bytes", 0),), None), NARROW)
    draw(CapacityCurves("misses", "share", (one,), (), 2.0**70))
    draw(Roofline(1e12, 1e9, (), None, ()), NARROW)
    draw(Roofline(1e12, 1e9, (RoofPoint("a", 0.0, 0.0),), 0.5, ((2.0**20, 0.5),)))
    draw(Bars("share (%)", (BarPanel("", ()),)), NARROW)
    draw(Bars("share (%)", (BarPanel("a", (Bar("n", "c", 0.0),)), BarPanel("b", ()))))
    draw(StepTimes((StepPoint(0, 1.0, "warmup"),), None, None, None))
    draw(StepTimes((StepPoint(0, 0.0, "measured"),), 0.0, 0.0, 0.0))


def test_settings_are_neither_used_nor_left(summary: dict[str, Any]) -> None:
    data = figures_of(summary)["hotspots-figure"]
    plain = svg(data, width=WIDE, prefix="a", label="")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path", "text.usetex": False}):
        before = dict(mpl.rcParams)
        assert svg(data, width=WIDE, prefix="a", label="") == plain
        assert dict(mpl.rcParams) == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_svg_stands_alone_in_a_page(summary: dict[str, Any]) -> None:
    text = svg(figures_of(summary)["categories-figure"], width=NARROW, prefix="fig", label='what "it" shows')
    assert text.startswith('<svg viewBox="0 0 343 ')
    assert 'role="img" aria-label="what &#34;it&#34; shows"' in text
    assert all(name.startswith("fig-") for name in re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(re.findall(r'\bid="([^"]+)"', text))
    assert "<style" not in text
    assert "<metadata" not in text
    assert not any(color in text for color in (palette.INK, palette.MUTED, palette.GRID, palette.EDGE))


def test_names_fit_and_are_no_formulas() -> None:
    for name in ("W" * 10_000, "i" * 300, "$x^2$ and $", "模型" * 50):
        assert text_width(fit(name, 200)) <= 200
    data = Bars("share (%)", (BarPanel("", (Bar("$x^2$", "gemm", 1.0),)),))
    assert "$x^2$" in svg(data, width=NARROW, prefix="a", label="")


def _lab(rgb: Any) -> Any:
    """CIE L*a*b* (D65) of linear RGB."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _linear(color: str) -> Any:
    srgb = np.array(mpl.colors.to_rgb(color))
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("kind", list(DEFICIENCY))
def test_the_eight_can_be_told_apart(kind: str) -> None:
    seen = {name: _lab(np.array(DEFICIENCY[kind]) @ _linear(color)) for name, color in palette.PAPER.items()}
    for (one, a), (two, b) in itertools.combinations(seen.items(), 2):
        assert np.linalg.norm(a - b) > 10, f"{one} and {two} look alike to {kind}"


def test_classes_of_live_bytes_take_colours_that_can_be_told_apart() -> None:
    assert list(palette.LIVE) == list(CLASSES)
    assert len(set(palette.LIVE.values())) == len(palette.LIVE)
    assert set(palette.LIVE.values()) <= set(palette.PAPER.values())
    assert palette.live_color("strange") == palette.UNKNOWN


def test_every_category_has_a_colour_of_its_own() -> None:
    names = [*kernels.PAPER, *kernels.FULL]
    colors = {name: palette.category_color(name) for name in names}
    assert palette.UNKNOWN not in colors.values()
    assert palette.category_color(kernels.UNKNOWN) == palette.UNKNOWN
    assert len(set(colors.values())) == len(set(names))


@pytest.mark.parametrize("room", [90, 150, 285, 600])
def test_names_that_are_alike_at_both_ends_fit_and_differ(room: float) -> None:
    """Bars, axes and legends: two kernels are never drawn as one, whatever the room."""
    names = [f"void at::native::{'k' * 60}<{one}>({'e' * 100})" for one in ("add", "mul", "div")]
    shown = fits([*names, names[0]], room)
    assert len(set(shown)) == 3
    assert shown[3] == shown[0]
    assert max(map(text_width, shown)) <= room
    keys = legend_rows([Key(name, "black") for name in names], int(room) + 20)
    assert len({key.text for line in keys for _, key in line}) == 3


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_two_bars_have_one_name(summary: dict[str, Any], width: int) -> None:
    for row, one in zip(summary["hotspots"]["rows"], ("add", "mul", "div"), strict=False):
        row["name"] = f"{'k' * 200}<{one}>{'e' * 200}"
    shown = [text for text in texts(draw(figures_of(summary)["hotspots-figure"], width)) if "kkk" in text]
    assert len(shown) == len(set(shown)) == 3


def test_without_quartiles_the_key_does_not_name_them(summary: dict[str, Any]) -> None:
    summary["passes"]["timing"]["steps"] = 3
    assert not any("quartiles" in text for text in texts(draw(figures_of(summary)["steps-figure"])))
