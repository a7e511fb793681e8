"""Figures of studies: every workload named, points where the data are, no name over another, no empty or false axes."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pytest

from wcbench import kernels
from wcbench.reports import dots, figures, intervals, labels, maps, marks, matrices, palette, stacks
from wcbench.reports.canvas import NARROW, WIDE, trimmed
from wcbench.reports.figure_data import (
    Axis,
    Band,
    Bands,
    DevicePoint,
    DotPlot,
    DotRow,
    FigureData,
    Interval,
    Intervals,
    Leaf,
    Map,
    MapPoint,
    Matrix,
    Merge,
    Roofs,
    StackBar,
    Stacks,
    Tree,
)
from wcbench.reports.scales import scale

A, B = "AIBench Training v1.1", "MLPerf Training v0.7"
FAMILIES = {
    "image": ("classification", "compression", "generation", "to-image", "to-text"),
    "text": ("summarization", "to-text"),
    "3d": ("face-recognition", "object-reconstruction"),
    "mlperf": ("bert", "dlrm", "gnmt", "maskrcnn", "minigo", "resnet", "ssd", "transformer"),
}
ALONE = (
    "advertising", "face-embedding", "learning-to-rank", "natural-language", "neural-architecture-search",
    "object-detection", "recommendation", "spatial-transformer", "speech-recognition", "video-prediction",
)  # fmt: skip
NAMES = sorted([*ALONE, *(f"{family}-{name}" for family, names in FAMILIES.items() for name in names)])
GROUPS = [B if name.startswith("mlperf") else A for name in NAMES]
WIDTHS = pytest.mark.parametrize("width", [WIDE, NARROW])


def draw(data: FigureData, width: int = WIDE) -> Any:
    return figures.draw(data, width)


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def boxes(artists: Sequence[Any], figure: Any) -> list[Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    return [artist.get_window_extent(figure.canvas.get_renderer()) for artist in artists]


def places(axes: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for dot in axes.collections for x, y in dot.get_offsets()]


def suite_map(**more: Any) -> Map:
    """27 tasks, crowded in the middle."""
    draws = random.Random(5)
    points = [(draws.gauss(0, 2.0), draws.gauss(0, 1.0)) for _ in NAMES]
    found = (MapPoint(name, *at, group, name < "j") for name, at, group in zip(NAMES, points, GROUPS, strict=True))
    return Map(Axis("PC1"), Axis("PC2"), tuple(found), **more)


# --- maps ---------------------------------------------------------------------------------------------------------


@WIDTHS
def test_map_names_every_workload_at_its_place(width: int) -> None:
    data = suite_map()
    figure = draw(data, width)
    assert places(figure.axes[0]) == [(point.x, point.y) for point in data.points]
    assert set(NAMES) <= set(texts(figure))
    assert {A, B, marks.CHOSEN, marks.OTHER, "PC1", "PC2"} <= set(texts(figure))


@WIDTHS
def test_no_name_on_a_map_covers_another_or_a_point(width: int) -> None:
    data = suite_map(hulls=True)
    figure = draw(data, width)
    axes = figure.axes[0]
    shown = [text for text in axes.texts if text.get_text() not in {"PC2"}]
    found = boxes(shown, figure)
    assert len(found) == 27  # a name or a number each
    for (one, a), (two, b) in itertools.combinations(zip(shown, found, strict=True), 2):
        assert not a.shrunk(0.98, 0.8).overlaps(b.shrunk(0.98, 0.8)), f"{one.get_text()} over {two.get_text()}"
    for text, box in zip(shown, found, strict=True):
        frame = axes.get_window_extent()
        assert frame.x0 - 1 <= box.x0 < box.x1 <= frame.x1 + 2, f"{text.get_text()} leaves the plane"
        for x, y in axes.transData.transform(places(axes)):
            assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1), f"{text.get_text()} over a point"


def test_groups_differ_in_shape_and_colour_and_look_the_same_in_every_figure() -> None:
    found = marks.looks(GROUPS)
    assert (found[A].shape, found[B].shape) == ("o", "s")
    assert found[A].color != found[B].color
    assert marks.looks(reversed(GROUPS)) == found  # a dendrogram names them in another order
    many = marks.looks(str(number) for number in range(20)).values()
    assert len(set(many)) == 20
    assert len(marks.SHAPES) == len(palette.GROUPS)


def test_filled_marks_are_in_the_subset() -> None:
    axes = draw(suite_map()).axes[0]
    filled = [bool(len(dot.get_facecolor())) for dot in axes.collections]
    assert filled == [name < "j" for name in NAMES]
    nobody = Map(Axis("x"), Axis("y"), (MapPoint("a", 0, 0, A), MapPoint("b", 1, 1, A)))
    assert all(len(dot.get_facecolor()) for dot in draw(nobody).axes[0].collections)
    assert marks.CHOSEN not in texts(draw(nobody))


def test_hulls_are_convex_and_only_of_three_points_with_an_area() -> None:
    assert maps.hull([(0, 0), (1, 1)]) == []
    assert maps.hull([(0, 0), (1, 1), (2, 2)]) == []
    assert set(maps.hull([(0, 0), (2, 0), (1, 0.5), (1, 2)])) == {(0, 0), (2, 0), (1, 2)}
    assert len(draw(suite_map(hulls=True)).axes[0].patches) == 2
    assert not draw(suite_map()).axes[0].patches
    three = tuple(MapPoint(name, x, y, group) for name, x, y, group in (("a", 0, 0, A), ("b", 1, 0, A), ("c", 0, 1, B)))
    assert not draw(Map(Axis("x"), Axis("y"), three, hulls=True)).axes[0].patches


@WIDTHS
def test_equal_axes_have_one_unit_on_both(width: int) -> None:
    axes = draw(suite_map(equal=True), width).axes[0]
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    frame = axes.get_window_extent()
    assert (x1 - x0) / frame.width == pytest.approx((y1 - y0) / frame.height, rel=0.01)


def test_zeros_on_a_log_axis_have_a_place_of_their_own_and_the_negative_is_told() -> None:
    values = (("a", 0.0), ("b", 1e6), ("c", 1e9), ("d", -1.0))
    data = Map(Axis("work", "si", "FLOP", log=True), Axis("y"), tuple(MapPoint(n, v, 1.0, A) for n, v in values))
    figure = draw(data)
    axes = figure.axes[0]
    (zero, _), *rest = places(axes)
    assert [x for x, _ in rest] == [1e6, 1e9]
    ticks = dict(zip((text.get_text() for text in axes.get_xticklabels()), axes.get_xticks(), strict=True))
    assert ticks["0"] == zero < 1e6
    assert ticks["1 M"] == 1e6
    assert maps.NO_PLACE in texts(figure)
    assert "d" in texts(figure)
    assert axes.get_xlabel() == "work (FLOP)"


def test_sixty_workloads_with_long_names() -> None:
    draws = random.Random(1)
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>" * 2
    points = tuple(MapPoint(f"{name} {i}", draws.gauss(0, 1), draws.gauss(0, 1), f"s{i % 3}") for i in range(60))
    figure = draw(Map(Axis("x"), Axis("y"), points, hulls=True))
    ends = {text.rsplit(" ", 1)[-1] for text in texts(figure) if "…" in text}
    assert ends == {str(number) for number in range(60)}
    assert figure.get_figheight() * 72 > draw(suite_map()).get_figheight() * 72


def test_workloads_in_one_place_share_a_number_or_have_their_names() -> None:
    points = tuple(MapPoint(f"a-workload-with-a-name-{i}", 1.0, 1.0, A) for i in range(60))
    figure = draw(Map(Axis("x"), Axis("y"), points), NARROW)
    assert {point.name for point in points} <= set(texts(figure))
    listed = [text.get_text() for text in figure.texts]
    assert listed.count("1") == len([text for text in listed if text.startswith("a-workload")]) > 0


def test_names_take_the_nearest_free_place_and_lead_to_it_from_afar() -> None:
    alone = labels.place([(50, 50)], [(30, 12)], (0, 0, 200, 100))[0]
    assert alone is not None
    assert alone.box == (57.0, 44.0, 87.0, 56.0)  # right of it
    assert alone.leader is None
    edge = labels.place([(190, 50)], [(30, 12)], (0, 0, 200, 100))[0]
    assert edge is not None
    assert edge.box[2] == 183.0  # left of it, since the right has no room
    blocked = labels.place([(50, 50)], [(30, 12)], (0, 0, 200, 100), [(20, 30, 95, 70)])[0]
    assert blocked is not None
    assert blocked.leader is not None
    assert labels.place([(50, 50)], [(300, 12)], (0, 0, 200, 100)) == [None]


# --- roofs --------------------------------------------------------------------------------------------------------


@WIDTHS
def test_workloads_stand_on_the_roof_or_at_what_they_had(width: int) -> None:
    points = (DevicePoint("low", A, 2.0), DevicePoint("high", B, 500.0), DevicePoint("had", A, 100.0, 3e12))
    figure = draw(Roofs("a GPU", 60e12, 3e12, points), width)
    axes = figure.axes[0]
    assert places(axes) == [(2.0, 6e12), (500.0, 60e12), (100.0, 3e12)]
    roof = next(line for line in axes.lines if len(line.get_xdata()) == 3)
    assert (roof.get_xdata()[1], roof.get_ydata()[1]) == (20.0, 60e12)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    said = set(texts(figure))
    assert {"low", "high", "had", "peak 60 TFLOP/s", "3 TB/s", "ridge 20 FLOP/byte", "roof of a GPU"} <= said


# --- stacks -------------------------------------------------------------------------------------------------------


@WIDTHS
def test_stacks_draw_every_share_and_keep_what_is_too_thin_in_the_legend(width: int) -> None:
    parts = (("GEMM", 0.25), ("convolution", 0.5), ("pooling", 1e-5), ("other", 0.1))
    figure = draw(Stacks("share of time", (StackBar("one", A, parts), StackBar("two", B, (("GEMM", 1.0),)))), width)
    bars = figure.axes[0].patches
    spans = [(bar.get_x(), bar.get_width()) for bar in bars]
    expected = [(0, 0.25), (0.25, 0.5), (0.75, 1e-5), (0.75001, 0.1), (0, 1.0)]
    assert np.array(spans) == pytest.approx(np.array(expected))
    assert bars[1].get_facecolor() == mpl.colors.to_rgba(palette.category_color("convolution"))
    said = texts(figure)
    assert {"one", "two", A, B, "convolution", "other"} <= set(said)
    assert any(text.startswith("pooling (at most 0.1 %") for text in said)


def test_stacks_without_shares_and_with_too_many_say_so() -> None:
    figure = draw(Stacks("s", (StackBar("none", A, ()), StackBar("wrong", A, (("GEMM", 0.9), ("other", 0.9))))))
    assert not figure.axes[0].patches
    assert {"n/a: no shares", "n/a: shares sum to 180 %"} <= set(texts(figure))


def test_names_inside_parts_are_legible() -> None:
    for category in (*kernels.PAPER, *kernels.FULL):
        color = palette.category_color(category)
        assert contrast(color, stacks.legible(color)) >= 4.5


def luminance(color: Any) -> float:
    srgb = np.array(mpl.colors.to_rgb(color))
    return float(np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def contrast(one: Any, two: Any) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


# --- trees --------------------------------------------------------------------------------------------------------

TREE = Tree(
    "distance",
    (Leaf("a", A, True), Leaf("b", A), Leaf("c", B), Leaf("d", B)),
    (Merge(0, 1, 1.0), Merge(2, 3, 2.0), Merge(4, 5, 4.0)),
    cut=3.0,
)


@WIDTHS
def test_tree_has_a_bracket_for_each_merge(width: int) -> None:
    figure = draw(TREE, width)
    axes = figure.axes[0]
    brackets = [line for line in axes.lines if len(line.get_xdata()) == 4]
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in brackets]
    assert drawn == [
        ([0, 1, 1, 0], [0, 0, 1, 1]),
        ([0, 2, 2, 0], [2, 2, 3, 3]),
        ([1, 4, 4, 2], [0.5, 0.5, 2.5, 2.5]),
    ]
    assert axes.get_xlim()[0] > 4.0 > axes.get_xlim()[1] == 0  # distances grow to the left
    assert {"a", "b", "c", "d", "cut at 3", A, B, "distance"} <= set(texts(figure))
    shade = next(patch for patch in axes.patches)
    assert shade.get_y() == 1.5  # the second of two clusters
    assert shade.get_height() == 2.0


def test_names_of_a_tree_do_not_touch() -> None:
    merges = tuple(Merge(0 if i == 0 else 26 + i, i + 1, i + 1.0) for i in range(26))
    figure = draw(Tree("d", tuple(Leaf(n, g) for n, g in zip(NAMES, GROUPS, strict=True)), merges), NARROW)
    names = [text for text in figure.axes[0].texts if text.get_text() != "d"]
    found = boxes(names, figure)
    assert len(found) == 27
    assert all(not a.overlaps(b) for a, b in itertools.combinations(found, 2))
    assert max(box.x1 for box in found) <= NARROW + 1


# --- dots ---------------------------------------------------------------------------------------------------------


@WIDTHS
def test_dots_stand_at_their_values_on_the_lines_of_their_groups(width: int) -> None:
    values = (("w1", A, 0.2), ("w2", B, 0.8), ("w3", "a third", 0.5))
    rows = (DotRow("a_share", "share", "", False, values), DotRow("flops", "si", "FLOP", True, (("w1", A, 1e9),)))
    figure = draw(DotPlot((B, A), rows), width)
    lanes = [[tuple(at) for at in dot.get_offsets()] for dot in figure.axes[0].collections]
    assert lanes == [[(0.8, 0.5)], [(0.2, 1.5)], [(0.5, 2.5)]]  # one that is not among the groups is not lost
    assert {"a_share", "flops", "(FLOP)", A, B, "a third"} <= set(texts(figure))
    assert figure.axes[1].get_xscale() == "log"


def test_dots_near_each_other_are_moved_apart() -> None:
    rises = dots.swarm([10.0, 10.0, 10.0, 100.0], 22)
    assert len(set(rises[:3])) == 3
    assert rises[3] == 0
    assert all(abs(rise) <= 11 - dots.DOT / 2 for rise in dots.swarm([5.0] * 50, 22))


# --- intervals ----------------------------------------------------------------------------------------------------


@WIDTHS
def test_intervals_with_a_reference_and_marked_rows(width: int) -> None:
    rows = (Interval("as chosen", 1.31, 1.02, 1.69), Interval("by rank", 0.8, 0.5, 1.2, True), Interval("bare", 2.0))
    figure = draw(Intervals(Axis("ratio", "number", log=True), rows, 1.0), width)
    axes = figure.axes[0]
    assert [x for x, _ in places(axes)] == [1.31, 0.8, 2.0]
    spans = [list(line.get_xdata()) for line in axes.lines if line.get_linewidth() == 2 and len(line.get_xdata()) == 2]
    assert spans == [[1.02, 1.69], [0.5, 1.2]]
    assert len({len(dot.get_paths()[0].vertices) for dot in axes.collections[:2]}) == 2  # another shape
    assert {line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1} >= {1.0}
    said = set(texts(figure))
    assert {"as chosen", "by rank", "1.31 (1.02 to 1.69)", "0.80 (0.50 to 1.20)", "2"} <= said
    assert "says something else than the first row" in said


def test_numbers_have_the_digits_that_their_interval_supports() -> None:
    ratio = Axis("ratio")
    assert intervals.interval_text(Interval("", 1.3123, 0.4, 9.87), ratio) == "1.3 (0.4 to 9.9)"
    assert intervals.interval_text(Interval("", 1.3123, 1.3101, 1.3155), ratio) == "1.31 (1.31 to 1.32)"
    assert intervals.interval_text(Interval("", 1.27, None, 1.9), ratio) == "1.27 (to 1.90)"
    assert intervals.interval_text(Interval("", 1.27, 1.0, math.inf), ratio) == "1.27 (from 1)"
    assert intervals.interval_text(Interval("", 0.5, 0.25, 0.75), Axis("s", "share")) == "50.0 % (25.0 % to 75.0 %)"
    assert intervals.interval_text(Interval("", math.nan, 1.0, 2.0), ratio) == "n/a"


# --- bands --------------------------------------------------------------------------------------------------------


@WIDTHS
def test_curves_with_bands(width: int) -> None:
    one = Band(A, (2.0, 3.0, 4.0), (1.0, 2.0, 2.5), (0.5, 1.5, 2.4), (1.5, 2.5, 2.6))
    figure = draw(Bands(Axis("tasks", "count"), Axis("distance"), (one, Band(B, (2.0, 3.0), (1.0, 1.2)))), width)
    axes = figure.axes[0]
    curves = {len(line.get_xdata()): line for line in axes.lines}
    assert list(curves[3].get_ydata()) == [1.0, 2.0, 2.5]
    assert (curves[3].get_marker(), curves[2].get_marker()) == ("o", "s")
    (area,) = axes.collections
    corners = area.get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.5, 2.6)
    assert axes.get_ylim()[0] == 0
    assert {A, B, "tasks", "distance"} <= set(texts(figure))


@WIDTHS
def test_steps_hold_to_the_end_of_the_axis(width: int) -> None:
    curve = Band("", (0.0, 1.0, 3.0), (5.0, 3.0, 1.0))
    marked = (("r* = 2.0", 2.0), ("a place with a name that is rather long for a phone", 2.4))
    figure = draw(Bands(Axis("radius"), Axis("members", "count"), (curve,), marked, steps=True), width)
    axes = figure.axes[0]
    (line,) = (line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert list(line.get_ydata()) == [5.0, 3.0, 1.0, 1.0]
    assert line.get_xdata()[-1] == axes.get_xlim()[1]
    lines = [artist for artist in axes.get_children() if isinstance(artist, mpl.lines.Line2D)]
    assert {2.0, 2.4} <= {line.get_xdata()[0] for line in lines if len(line.get_xdata()) == 2}
    assert "r* = 2.0" in texts(figure)


# --- matrices -----------------------------------------------------------------------------------------------------


@WIDTHS
def test_matrix_writes_each_share_where_there_is_room(width: int) -> None:
    data = Matrix("overlap of time", ("a", "b", "c"), ((1.0, 0.253, None), (0.253, 1.0, 0.004), (None, 0.004, 1.0)))
    figure = draw(data, width)
    said = texts(figure)
    assert [said.count(text) for text in ("100", "25", "<1")] == [3, 2, 2]
    assert {"a", "b", "c", "overlap of time (%)", "not known"} <= set(said)
    cells = [patch for patch in figure.axes[0].patches if patch.get_xy() == (1, 0)]
    assert cells[0].get_facecolor()[3] == pytest.approx(matrices.SHADE * 0.253)


def test_a_large_matrix_on_a_phone_has_its_names_below_and_no_numbers_in_part_of_its_cells() -> None:
    rows = tuple(tuple(0.1 if row < column else 0.05 for column in range(27)) for row in range(27))
    figure = draw(Matrix("overlap", tuple(NAMES), rows), NARROW)
    assert {text for text in texts(figure) if "…" not in text} >= set(NAMES) - {
        name for name in NAMES if len(name) > 20
    }
    inside = {text.get_text() for text in figure.axes[0].texts if text.get_fontsize() == matrices.DIGITS}
    assert not {"10", "5"} & inside


def test_shares_are_never_rounded_to_nothing_or_all() -> None:
    assert [matrices.percent(share) for share in (0, 0.001, 0.25, 0.996, 1)] == ["0", "<1", "25", ">99", "100"]


def test_numbers_in_cells_and_texts_are_legible_in_both_themes() -> None:
    themes = {"light": ("#1b1f24", "#0b62a8", "#ffffff"), "dark": ("#e6e9ed", "#7ab8f0", "#14171b")}
    for ink, shade, paper in themes.values():
        mixed = matrices.SHADE * np.array(mpl.colors.to_rgb(shade))
        mixed += (1 - matrices.SHADE) * np.array(mpl.colors.to_rgb(paper))
        assert contrast(mixed, ink) >= 4.5
    assert contrast(palette.INK, "#ffffff") >= 4.5
    assert contrast(palette.MUTED, "#ffffff") >= 4.5
    for color in palette.GROUPS:
        assert contrast(color, "#ffffff") >= 3  # WCAG's bound for what is not text
        assert contrast(color, "#14171b") >= 3


# --- axes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (Axis("t", "si", "FLOP", True), [1e6, 1e12], ["1 M", "10 M", "100 M", "1 G", "10 G", "100 G", "1 T"]),
        (Axis("t", "share", "", True), [1e-6, 1e-2], ["1e-04 %", "0.001 %", "0.01 %", "0.1 %", "1 %"]),
        (Axis("t", "bytes", "", True), [2**20, 2**24], ["1 MiB", "2 MiB", "4 MiB", "8 MiB", "16 MiB"]),
        (Axis("t", "number", "", True), [1.0, 2.0], ["1", "1.2", "1.4", "2"]),
        (Axis("t", "number"), [-2.0, 2.0], ["−2", "−1", "0", "1", "2"]),
        (Axis("t", "si", "FLOP"), [0.0, 4e9], ["0", "1", "2", "3", "4"]),
        (Axis("t", "share"), [0.0, 0.04], ["0 %", "1 %", "2 %", "3 %", "4 %"]),
        (Axis("t", "time_s"), [0.0, 0.004], ["0", "1", "2", "3", "4"]),
        (Axis("t", "number"), [1e-300, 3e-300], ["1.0e-300", "2.0e-300", "3.0e-300"]),
    ],
)
def test_ticks_are_round_and_say_what_they_are(axis: Axis, values: list[float], expected: list[str]) -> None:
    found = scale(axis, values, 7)
    assert set(expected) <= set(found.texts)
    assert found.low <= min(values)
    assert found.high >= max(values)
    assert len(set(found.texts)) == len(found.texts)


def test_titles_have_the_unit_of_the_ticks() -> None:
    assert scale(Axis("work", "si", "FLOP"), [0, 4e9], 5).title == "work (GFLOP)"
    assert scale(Axis("work", "si", "FLOP", True), [1, 4e9], 5).title == "work (FLOP)"
    assert scale(Axis("memory", "bytes"), [0, 3 * 2**30], 5).title == "memory (GiB)"
    assert scale(Axis("time", "time_ms"), [0, 4000.0], 5).title == "time (s)"
    assert scale(Axis("share", "share"), [0, 1], 5).title == "share"


def test_values_that_are_all_the_same_have_room_around_them() -> None:
    for value in (5.0, -5.0, 0.0, 1e-300, 1e300):
        found = scale(Axis("t"), [value, value], 5)
        assert found.low < value < found.high
        assert found.ticks
        assert found.pixel(value, 100) == pytest.approx(50)
    assert not scale(Axis("t"), [], 5).ticks
    assert not scale(Axis("t"), [math.nan, None], 5).ticks


def test_trimmed_numbers_keep_their_exponent() -> None:
    assert trimmed("1.00e-10") == "1e-10"
    assert trimmed("16.0 MiB") == "16 MiB"
    assert trimmed("100") == "100"
    assert trimmed("1.50e+300 s") == "1.5e+300 s"


# --- all of them --------------------------------------------------------------------------------------------------


def extreme(values: Sequence[float], *, log: bool) -> list[FigureData]:
    """A figure of each kind over some values."""
    axis = Axis("axis", "si" if log else "number", "u", log)
    all_of = tuple(values)
    return [
        Map(axis, Axis("y"), tuple(MapPoint(str(i), x, i, A) for i, x in enumerate(values)), hulls=True, equal=not log),
        Intervals(axis, tuple(Interval("n", x, x, None) for x in values), 1.0),
        Bands(axis, axis, (Band("b", all_of, all_of, all_of, all_of),), (("m", 1.0),), steps=log),
        DotPlot((A,), (DotRow("f", "number", "", log, tuple(("w", A, x) for x in values)),)),
        Roofs("device", 1e12, 1e9, tuple(DevicePoint("p", A, x) for x in values)),
        Stacks("s", tuple(StackBar("w", A, (("GEMM", x),)) for x in values)),
        Tree("t", (Leaf("a", A), Leaf("b", B)), tuple(Merge(0, 1, x) for x in values[:1]), None),
        Matrix("m", ("a",), tuple((x,) for x in values[:1])),
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0],
        [-3.0],
        [1e-300, 1e300],
        [-1e300, 1e300],
        [2.0, 2.0, 2.0],
        [0.0, 1e-300, 1.0],
        [math.nan, math.inf, 1.0],
    ],
    ids=str,
)
@pytest.mark.parametrize("log", [False, True])
def test_any_values_can_be_drawn(values: list[float], log: bool) -> None:
    for data in extreme(values, log=log):
        text = figures.svg(data, width=NARROW, prefix="a", label="")
        places_of = re.findall(r'(?:\bd|x|y|transform)="([^"]*)"', text)
        assert not any(re.search(r"\b(nan|inf)\b", place) for place in places_of), data


def test_empty_figures_say_so() -> None:
    nothing: list[FigureData] = [
        Map(Axis("x"), Axis("y"), ()),
        Stacks("s", ()),
        Tree("t", (), ()),
        DotPlot((), ()),
        Intervals(Axis("x"), ()),
        Bands(Axis("x"), Axis("y"), ()),
        Matrix("m", (), ()),
        Roofs("d", 1e12, 1e9, ()),
    ]
    for data in nothing:
        assert "nothing to show" in texts(draw(data, NARROW)), data


def test_the_same_bytes_each_time_and_a_form_for_print() -> None:
    data = suite_map(hulls=True, equal=True)
    page = figures.svg(data, width=NARROW, prefix="a", label="a map")
    assert figures.svg(data, width=NARROW, prefix="a", label="a map") == page
    assert "var(--ink)" in page
    printed = figures.print_svg(data, NARROW, "a map")
    assert printed == figures.svg(data, width=NARROW, prefix="a", label="a map", theme="print")
    assert printed.startswith('<svg viewBox="0 0 343 ')
    assert 'width="343"' in printed
    assert "var(" not in printed
    assert palette.INK in printed
    assert "DejaVu Sans" in printed
    assert ">advertising<" in re.sub(r"\s+", "", printed)


def test_names_are_no_formulas() -> None:
    point = MapPoint("$x^2$ and <b>", 0.0, 0.0, "$g$")
    data = Map(Axis("$a$"), Axis("$b$"), (point, MapPoint("other", 1.0, 1.0, "h")))
    said = set(texts(draw(data)))
    assert {"$x^2$ and <b>", "$a$", "$b$", "$g$"} <= said
    assert "<b>" not in figures.svg(data, width=WIDE, prefix="a", label="")


def test_names_that_look_like_markup_stay_as_they_are() -> None:
    name = 'a id="b" url(#c) #1b1f24'
    themes: tuple[Literal["page", "print"], ...] = ("page", "print")
    for theme in themes:
        data = Map(Axis("x"), Axis("y"), (MapPoint(name, 0.0, 0.0, A),))
        assert f">{name}</text>" in figures.svg(data, width=WIDE, prefix="p", label="", theme=theme)
