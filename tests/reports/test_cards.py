"""Cards: what results show of themselves in a notebook, and that no stranger's text becomes markup."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from wcbench.analysis.diff import Diff
from wcbench.analysis.hotspots import Hotspots
from wcbench.analysis.shown import Drawn, Shown
from wcbench.analysis.source import Source
from wcbench.analysis.study_compare import Comparison
from wcbench.analysis.subset import choose_in
from wcbench.analysis.sweep import Point, Sweep
from wcbench.analysis.table import Feature, FeatureTable, Space
from wcbench.reports.cards import COLUMNS, ROWS, card, result_html, table


class Odd(Shown):
    """A result that says hostile things."""

    def __repr__(self) -> str:
        return "Odd <script>alert(1)</script>\n  a\u202esentence\x00 of it\n  12.5 %  a row of the frame"

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"<b>name": ["<img onerror=x>", None], "time_share": [0.25, np.nan]})


@pytest.fixture
def features() -> FeatureTable:
    values = pd.DataFrame({"flops": [1.0e9, 2.5e12, 4.0e9], "idle_share": [0.5, 0.25, np.nan]}, index=["a", "b", "c"])
    columns = (Feature("flops", "FLOP", "log10", "work"), Feature("idle_share", "fraction", "logit", "time", 1e-3))
    return FeatureTable(values, columns, origins={"flops": "given"})


def test_hostile_texts_are_escaped() -> None:
    html = result_html(Odd())
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert not any(char in html for char in "\x00\u202e")
    assert " id=" not in html  # a notebook holds many of these
    assert Odd()._repr_html_() == html


def test_any_result_has_its_sentences_and_its_frame() -> None:
    found = card(Odd())
    assert len(found.lines) == 1  # the line of numbers comes again as a row
    assert found.tables[0].rows == (("<img onerror=x>", "25.0 %"), ("n/a", "n/a"))


def test_a_table_says_what_it_leaves_out() -> None:
    frame = pd.DataFrame({f"c{i}": range(ROWS + 3) for i in range(COLUMNS + 2)}).assign(empty=None)
    found = table(frame)
    assert len(found.rows) == ROWS
    assert found.heads == tuple(f"c{i}" for i in range(COLUMNS))
    assert found.left_out == "3 rows and 3 columns more: .to_frame()"
    assert table(frame[["c0"]].head(2)).left_out == ""


def test_cells_are_rounded_and_absent_ones_say_so() -> None:
    frame = pd.DataFrame({"x": [1234.567, np.nan], "flops": [2.5e12, 4e9], "n": [1234567, 2], "ok": [True, False]})
    found = table(frame)
    assert found.rows == (("1,230", "2.50 T", "1,234,567", "yes"), ("n/a", "4.00 G", "2", "no"))
    assert found.right == (True, True, True, False)


def test_feature_tables_and_spaces(features: FeatureTable) -> None:
    assert features.to_frame().equals(features.values)
    assert features.units()["unit"].tolist() == ["FLOP", "fraction"]
    assert repr(features).splitlines()[0] == "FeatureTable (3 workloads x 2 features in 2 blocks)"
    assert "1 of 6 values not measured" in repr(features)
    assert card(features).tables[0].heads == ("workload", "flops", "idle_share")
    points = pd.DataFrame({"x": [0.0, 1.0]}, index=["a", "b"])
    space = Space(points, ("work",), {"c": "it lacks a value"}, np.zeros(1), np.ones(1))
    assert "1 left out: c" in repr(space)
    assert card(space).tables[0].rows == (("a", "0"), ("b", "1"))
    assert "a" in card(choose_in(space, 0.5)).tables[0].rows[0]


def test_a_comparison_that_was_not_made_says_why() -> None:
    found = Comparison("suites", "A against B", None, "B has one task")
    assert card(found).lines == ("Not made: B has one task",)
    assert "B has one task" in repr(found)
    assert found.to_frame().empty


def test_a_sweep_and_a_diff() -> None:
    sweep = Sweep((Point(2, None, "fp32", None, "no room"), Point(4, None, "fp32", None, "no room")))
    assert card(sweep).tables[0].heads == ("batch_size", "precision", "error")
    rows = [{"name": "f", "category": "GEMM", "a_ns": 2e6, "b_ns": None, "difference_ns": -2e6}]
    made = {"a": {"label": "one"}, "b": {"label": "two"}, "answer": ["B is faster."], "hotspots": {"rows": rows}}
    found = card(Diff(made))
    assert (found.title, found.lines) == ("A = one, B = two", ("B is faster.",))
    assert isinstance(Diff(made), Drawn)


def test_views_are_shown() -> None:
    rows = pd.DataFrame({"name": ["k" * 200], "category": ["GEMM"], "time_ns": [1.5e6], "time_share": [1.0]})
    found = Hotspots(Source("timeline", "small", 4, "cpu", "real"), "operator self time", 2, 1.5e6, rows)
    made = card(found)
    assert "operator self time" in made.title
    assert made.tables[0].rows[0][1:3] == ("GEMM", "1.50 M")
    assert len(made.tables[0].rows[0][0]) <= 48
