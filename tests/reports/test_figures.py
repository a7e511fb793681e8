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
from wcbench.reports import figures, palette
from wcbench.reports.figures import NARROW, WIDE, fit, svg, text_width
from wcbench.reports.model import Bar, BarPanel, Bars, FigureData, StepPoint, StepTimes
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


def test_degenerate_figures() -> None:
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


def test_every_category_has_a_colour_of_its_own() -> None:
    names = [*kernels.PAPER, *kernels.FULL]
    colors = {name: palette.category_color(name) for name in names}
    assert palette.UNKNOWN not in colors.values()
    assert palette.category_color(kernels.UNKNOWN) == palette.UNKNOWN
    assert len(set(colors.values())) == len(set(names))
