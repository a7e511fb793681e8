"""Nearest tasks of the other suite by hand, coverage against its published null, and shares of a population."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist, squareform

from wcbench.analysis.novelty import coverage, coverage_density, coverage_null, novelty, population
from wcbench.analysis.pairing import Pair, pair, relabellings
from wcbench.analysis.table import Space
from wcbench.errors import UsageError

LINE = pd.Series({"a1": 0.0, "a2": 1.0, "a3": 9.0, "b1": 1.5, "b2": 20.0, "s": 5.0})


def on_a_line(both: Pair) -> np.ndarray:
    return squareform(pdist(LINE[list(both.names)].to_numpy()[:, None]))


BOTH = pair(["a1", "a2", "a3", "s"], ["b1", "b2", "s"], labels=("AIBench", "MLPerf"))


def test_novel_tasks_are_named_both_ways() -> None:
    found = novelty(BOTH, on_a_line(BOTH), 2.0, relabellings(BOTH))
    assert found.shared == ("s",)
    assert found.a.novel == ("a3",)  # 4 from s
    assert found.b.novel == ("b2",)  # 11 from a3
    rows = found.a.rows.set_index("task")
    assert list(rows.index) == ["a3", "a1", "a2"]  # furthest first, the shared task is no row
    assert rows["nearest"].to_dict() == {"a3": "s", "a1": "b1", "a2": "b1"}
    assert rows["distance"].to_dict() == {"a3": 4, "a1": 1.5, "a2": 0.5}
    assert found.a.mean == 2
    assert (found.a.largest, found.b.largest, found.hausdorff) == (4, 11, 11)
    assert set(found.to_frame()["suite"]) == {"AIBench", "MLPerf"}


def test_at_the_radius_a_task_is_not_new() -> None:
    found = novelty(BOTH, on_a_line(BOTH), 4.0, relabellings(BOTH))
    assert found.a.novel == ()
    assert novelty(BOTH, on_a_line(BOTH), 3.999, relabellings(BOTH)).a.novel == ("a3",)


def test_the_null_exchanges_labels() -> None:
    distances, ways = on_a_line(BOTH), relabellings(BOTH)
    counts = []
    for in_a, in_b in zip(ways.in_a, ways.in_b, strict=True):
        others = [j for j in range(6) if in_b[j]]
        counts.append(sum(distances[i, others].min() > 2 for i in range(6) if in_a[i] and not in_b[i]))
    found = novelty(BOTH, distances, 2.0, ways)
    assert ways.distinct == 10
    assert found.a.expected == pytest.approx(np.mean(counts))
    assert found.a.p == pytest.approx(np.mean(np.array(counts) >= 1))
    stack = np.repeat(distances[None], 10, axis=0)
    assert novelty(BOTH, distances, 2.0, ways, stack).a.p == found.a.p


def test_without_a_radius_nothing_is_counted() -> None:
    found = novelty(BOTH, on_a_line(BOTH), None, relabellings(BOTH))
    assert found.a.novel is None
    assert found.a.reason == "no radius is given"
    assert found.a.largest == 4


def test_a_suite_within_the_other() -> None:
    inside = pair(["a1", "a2"], ["a1", "a2", "b1"])
    found = novelty(inside, on_a_line(inside), 1.0, relabellings(inside))
    assert len(found.a.rows) == 0
    assert found.a.reason == "every task of A is in B too"
    assert found.a.mean is None
    assert found.hausdorff == 0.5


def test_equal_distances_go_to_the_first_name() -> None:
    both = pair(["a"], ["c", "b"])
    distances = np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]], float)
    assert novelty(both, distances, 1.0, relabellings(both)).a.rows.loc[0, "nearest"] == "b"


@pytest.mark.parametrize(
    ("n", "m", "k", "expected"),
    [
        (19, 8, 1, 0.308),
        (19, 8, 2, 0.529),
        (19, 8, 3, 0.686),
        (19, 8, 5, 0.870),
        (8, 19, 1, 0.731),
        (8, 19, 3, 0.987),
    ],
)
def test_the_null_of_coverage(n: int, m: int, k: int, expected: float) -> None:
    assert coverage_null(n, m, k) == pytest.approx(expected, abs=5e-4)


def test_the_null_of_coverage_for_many() -> None:
    assert coverage_null(10_000, 10_000, 5) == pytest.approx(0.9688, abs=5e-5)


def test_coverage_and_density_of_one_population_are_their_nulls() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(1500):
        x, y = rng.standard_normal((19, 3)), rng.standard_normal((8, 3))
        found.append(coverage_density(squareform(pdist(x)), cdist(x, y), 2))
    assert np.mean(found, axis=0) == pytest.approx([coverage_null(19, 8, 2), 1.0], abs=0.02)


def test_coverage_by_hand() -> None:
    # reference 0 1 10: nearest neighbours at 1, 1, 9; balls [-1, 1], [0, 2], [1, 19]; covering 1.5 and 30
    x, y = np.array([[0.0], [1], [10]]), np.array([[1.5], [30]])
    share, density = coverage_density(squareform(pdist(x)), cdist(x, y), 1)
    assert share == pytest.approx(2 / 3)
    assert density == pytest.approx(2 / (1 * 2))


def test_coverage_takes_part_without_shared_tasks() -> None:
    rows = coverage(BOTH, on_a_line(BOTH)).rows
    assert set(zip(rows["reference"], rows["n"], rows["m"], strict=True)) == {("AIBench", 3, 2), ("MLPerf", 2, 3)}
    assert list(rows.loc[rows["reference"] == "AIBench", "k"]) == [1, 2]
    assert rows["excess"].to_numpy() == pytest.approx(rows["coverage"] - rows["null"])
    small = pair(["a1"], ["b1"])
    assert "two tasks" in coverage(small, on_a_line(small)).reason


def space() -> Space:
    points = pd.DataFrame({"x": LINE}).sort_index()
    return Space(points, ("block",), {}, np.zeros(1), np.ones(1))


def test_the_share_of_a_population() -> None:
    weights = {"a1": 5.0, "a3": 2.0, "b2": 1.0, "unknown": 2.0}
    found = population(space(), weights, ["a2", "s"], 4.0, "the subset")
    assert found.share == pytest.approx(0.7)  # a1 is 1 from a2, a3 is 4 from s, b2 is 15 away
    assert found.unplaced == pytest.approx(0.2)
    assert found.rows.set_index("workload")["nearest"].to_dict() == {"a1": "a2", "a3": "s", "b2": "s"}
    assert "70.0 % of the population within r* of the subset" in repr(found)


@pytest.mark.parametrize("weights", [{}, {"a1": 0.0}, {"a1": -1.0, "a2": 3.0}, {"a1": float("nan")}])
def test_weights_are_checked(weights: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="weights"):
        population(space(), weights, ["a2"], 1.0)


def test_a_suite_outside_the_space_is_refused() -> None:
    with pytest.raises(UsageError, match="No task of the suite"):
        population(space(), {"a1": 1.0}, ["nobody"], 1.0)
