"""Validation of a subset: the toy oracle, random subsets, workloads left out, and what is labelled circular."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from wcbench.analysis.cover import Distances, distances
from wcbench.analysis.subset import choose
from wcbench.analysis.validation import Metric, validate, weighted_mean
from wcbench.errors import UsageError

Y = (1.0, 2, 3, 10, 11, 20)
NAMES = list("abcdef")


@pytest.fixture(scope="module")
def line() -> Distances:
    return distances(np.abs(np.subtract.outer(Y, Y)), NAMES)


def metric(values: Sequence[float] = Y, source: str = "measured", mean: str = "arithmetic") -> Metric:
    return Metric("y", dict(zip(NAMES, values, strict=True)), source, "s", mean)


def test_toy_oracle() -> None:
    y = np.array(Y)
    assert y.mean() == pytest.approx(7.8333, abs=1e-4)
    for reps, expected, error in (((1, 3, 5), 7.6667, -0.0213), ((1, 4, 5), 8.0, 0.0213)):
        served = np.array([reps[0]] * 3 + [reps[1]] * 2 + [reps[2]])
        found = weighted_mean(y, served)
        assert found == pytest.approx(expected, abs=1e-4)
        assert found / y.mean() - 1 == pytest.approx(error, abs=5e-5)


def test_suite_mean_of_the_toy_line(line: Distances) -> None:
    row = validate(line, 1, ("b", "e", "f"), [metric()]).table.iloc[0]
    assert row["suite"] == pytest.approx(47 / 6)
    assert row["estimate"] == pytest.approx(8)
    assert row["error"] == pytest.approx(8 / (47 / 6) - 1)


def test_percentile_among_all_subsets_by_hand_loops(line: Distances) -> None:
    row = validate(line, 1, ("b", "e", "f"), [metric()]).table.iloc[0]
    errors = []
    for s in combinations(range(6), 3):
        served = [min(s, key=lambda j, i=i: (abs(Y[i] - Y[j]), j)) for i in range(6)]  # type: ignore[misc]
        errors.append(abs(sum(Y[j] for j in served) / sum(Y) - 1))
    own = abs(48 / 47 - 1)
    better = sum(e < own - 1e-9 for e in errors) + sum(abs(e - own) <= 1e-9 for e in errors) / 2
    assert row["percentile"] == pytest.approx(100 * better / 20)
    assert (row["subsets"], row["all_subsets"]) == (20, True)


def test_random_subsets_where_there_are_too_many_for_all() -> None:
    x = np.random.default_rng(0).normal(size=(16, 2))
    d = distances(cdist(x, x), [f"w{i:02d}" for i in range(16)])
    y = Metric("y", dict(zip(d.names, np.exp(x[:, 0]), strict=True)), "measured")
    members = choose(d, 0.8, curve=1).members
    every = validate(d, 0.8, members, [y], subsets=100_000).table.iloc[0]
    some = validate(d, 0.8, members, [y], subsets=2000).table.iloc[0]
    assert every["all_subsets"]
    assert every["subsets"] == math.comb(16, len(members))
    assert not some["all_subsets"]
    assert some["subsets"] == 2000
    assert abs(some["percentile"] - every["percentile"]) < 4
    again = validate(d, 0.8, members, [y], subsets=2000)
    assert repr(again) == repr(validate(d, 0.8, members, [y], subsets=2000))


def test_geometric_mean_of_scores(line: Distances) -> None:
    row = validate(line, 1, ("b", "e", "f"), [metric(mean="geometric")]).table.iloc[0]
    assert row["suite"] == pytest.approx(np.exp(np.mean(np.log(Y))))
    assert row["estimate"] == pytest.approx((2**3 * 11**2 * 20) ** (1 / 6))


def test_workloads_left_out_by_hand(line: Distances) -> None:
    found = validate(line, 1, ("b", "e", "f"), [metric()])
    # a out: b or c, d or e, f (k-median: any) -> b and c tie by 1; the nearest of what is chosen predicts
    residuals = found.residuals.set_index("workload")
    assert residuals.loc["f", "predicted_by"] in {"d", "e"}
    assert residuals.loc["f", "log_ratio"] == pytest.approx(math.log(residuals.loc["f", "prediction"] / 20))
    assert residuals.loc["d", "predicted_by"] == "e"
    assert residuals.loc["e", "predicted_by"] == "d"
    assert residuals.loc["c", "predicted_by"] in {"a", "b"}
    row = found.table.iloc[0]
    sizes = residuals["log_ratio"].abs()
    assert row["left_out_median"] == pytest.approx(np.median(sizes))
    assert (row["left_out_max"], row["left_out_worst"]) == (sizes.max(), sizes.idxmax())
    assert row["predictions"] == 6


def test_left_out_chooses_anew_by_brute_force() -> None:
    x = np.random.default_rng(2).normal(size=(9, 2))
    d = distances(cdist(x, x), list("abcdefghi"))
    y = Metric("y", dict(zip(d.names, np.exp(x[:, 0]), strict=True)), "measured")
    residuals = validate(d, 1.2, choose(d, 1.2, curve=1).members, [y]).residuals.set_index("workload")
    for i, name in enumerate(d.names):
        rest = [j for j in range(9) if j != i]
        covers = [
            s
            for k in range(1, 9)
            for s in combinations(rest, k)
            if all(min(d.values[h, j] for j in s) <= 1.2 for h in rest)
        ]
        best = min(
            (s for s in covers if len(s) == len(covers[0])),
            key=lambda s: sum(min(d.values[h, j] for j in s) for h in rest),
        )
        assert residuals.loc[name, "predicted_by"] == d.names[min(best, key=lambda j, i=i: d.values[i, j])]  # type: ignore[misc]


def test_a_modelled_metric_is_labelled_circular(line: Distances) -> None:
    found = validate(line, 1, ("b", "e", "f"), [metric(), metric(source="modelled"), metric(source="published")])
    assert found.table["circular"].tolist() == [False, True, False]
    assert "y (modelled, circular: a function of the features): mean off by +2.13 %" in repr(found)
    assert "y (published): mean off by +2.13 %" in repr(found)


@pytest.mark.parametrize(
    ("values", "mean", "reason"),
    [
        ((math.nan,) * 6, "arithmetic", "no workload has a value"),
        ((1, math.nan, 3, 4, 5, 6), "arithmetic", "no value of b, which the subset has"),
        ((1, math.inf, 3, 4, 5, 6), "arithmetic", "infinite value of b"),
        ((1, 0, 3, 4, 5, 6), "geometric", "a geometric mean needs values above 0"),
        ((-1, 1, 3, 4, 5, 6), "arithmetic", "values on both sides of 0 have no relative error"),
        ((0,) * 6, "arithmetic", "all values are 0, so there is no relative error"),
    ],
)
def test_reasons_for_no_number(line: Distances, values: Sequence[float], mean: str, reason: str) -> None:
    found = validate(line, 1, ("b", "e", "f"), [metric(values, mean=mean)])
    assert found.table.loc[0, "reason"] == reason
    assert found.table.loc[0, ["suite", "estimate", "error", "percentile"]].isna().all()
    assert found.residuals.empty
    assert reason in repr(found)


def test_workloads_without_a_value_are_left_out_of_both_means(line: Distances) -> None:
    row = validate(line, 1, ("b", "e", "f"), [metric((1, 2, 3, math.nan, 11, 20))]).table.iloc[0]
    assert row["workloads"] == 5
    assert row["suite"] == pytest.approx(37 / 5)
    assert row["estimate"] == pytest.approx((3 * 2 + 11 + 20) / 5)
    assert row["subsets"] == math.comb(5, 3)


def test_candidates_limit_the_random_subsets_too(line: Distances) -> None:
    row = validate(line, 9, ("b", "e"), [metric()], candidates=("a", "b", "e", "f")).table.iloc[0]
    assert row["subsets"] == math.comb(4, 2)


def test_all_members_make_no_error_and_one_workload_no_prediction(line: Distances) -> None:
    row = validate(line, 0, NAMES, [metric()]).table.iloc[0]
    assert (row["error"], row["subsets"], row["percentile"]) == (0, 1, 50)
    lone = validate(distances([[0]], ["a"]), 1, ("a",), [Metric("y", {"a": 3}, "measured")])
    assert lone.table.loc[0, "predictions"] == 0
    assert "mean off by +0.00 %" in repr(lone)
    empty: Mapping[str, float] = {}
    assert validate(line, 1, ("b", "e", "f"), []).table.empty
    assert validate(line, 1, ("b", "e", "f"), [Metric("none", empty, "measured")]).to_frame().loc[0, "workloads"] == 0


def test_what_is_no_metric() -> None:
    with pytest.raises(UsageError, match="source is one of"):
        Metric("y", {}, "guessed")
    with pytest.raises(UsageError, match="mean is one of"):
        Metric("y", {}, "measured", mean="harmonic")
