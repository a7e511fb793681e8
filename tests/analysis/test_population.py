"""Shares of a population within r* of suites: by hand on a line, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wcbench.analysis.population import Population, read_population, represented
from wcbench.analysis.recipe import Placed
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.analysis.transform import to_space
from wcbench.errors import ReadError, UsageError


@pytest.fixture
def space() -> Placed:
    """a at 0, b at 1, c at 2 of one feature: SD 1 and mean 1, so that distances are differences of values."""
    values = pd.DataFrame({"x": [0.0, 1.0, 2.0]}, index=["a", "b", "c"])
    return to_space(FeatureTable(values, (Feature("x", "", "none", "x"),)))


def population(**items: tuple[float, float]) -> Population:
    """Items as (weight, value)."""
    weights = pd.Series({name: weight for name, (weight, _) in items.items()}).sort_index()
    values = pd.DataFrame({"x": {name: value for name, (_, value) in items.items()}}).sort_index()
    return Population("the fleet", "fleet.csv", weights, values)


def test_shares_are_of_the_weight(space: Placed) -> None:
    people = population(near=(2.0, 0.1), edge=(1.0, 0.25), far=(4.0, 9.0), b=(1.0, np.nan))
    found = represented(people, space, 0.25, {"one": ("a",), "two": ("a", "b"), "none": ("z",)})
    assert found.shares == {"one": 3 / 8, "two": 4 / 8, "none": 0.0}
    assert found.placed == 1.0
    rows = found.rows[found.rows["suite"] == "two"].set_index("item")
    assert rows["nearest"].to_dict() == {"near": "a", "edge": "a", "far": "b", "b": "b"}
    assert rows["distance"].to_dict() == pytest.approx({"near": 0.1, "edge": 0.25, "far": 8.0, "b": 0.0})
    assert found.sentences[0] == "38 % of the fleet, by weight, lies within r = 0.25 of a task of one."
    assert found.to_dict()["suites"][1] == {"suite": "two", "share": 0.5, "share_of_placed": 0.5, "tasks": 2}


def test_what_has_no_place_makes_the_share_a_lower_bound(space: Placed) -> None:
    people = population(near=(1.0, 0.1), unknown=(3.0, np.nan))
    found = represented(people, space, 0.25, {"one": ("a",)})
    assert (found.shares["one"], found.placed) == (0.25, 0.25)
    assert found.to_dict()["suites"][0]["share_of_placed"] == 1.0
    assert found.left_out == {"unknown": "it has no values, and no workload of the study has its name"}
    assert found.sentences[0].startswith("at least 25 % of the fleet")
    assert "75 % of the weight has no place" in repr(found)


def written(folder: Path, *lines: str) -> Path:
    file = folder / "fleet.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_population_is_read(tmp_path: Path) -> None:
    found = read_population(written(tmp_path, "workload,weight,x", "b,2,", "a,1,0.5"))
    assert found.weights.to_dict() == {"a": 1.0, "b": 2.0}
    assert found.values["x"].to_dict() == pytest.approx({"a": 0.5, "b": np.nan}, nan_ok=True)
    assert found.title == "fleet"


@pytest.mark.parametrize(
    ("lines", "error", "match"),
    [
        (["workload,x", "a,1"], ReadError, "no column 'weight'"),
        (["workload,weight", "a,-1"], UsageError, "those of a are not"),
        (["workload,weight", "a,"], UsageError, "those of a are not"),
        (["workload,weight", "a,0", "b,0"], UsageError, "All weights"),
        (["workload,weight", "a,1", "a,1"], UsageError, "names 'a' twice"),
    ],
)
def test_what_is_no_population_is_refused(tmp_path: Path, lines: list[str], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        read_population(written(tmp_path, *lines))
