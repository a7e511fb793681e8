"""Levels, pairs of levels, classes and functions that suites cover: by hand and against published values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from wcbench.analysis.factors import (
    class_diversity,
    expected_levels,
    factor_coverage,
    hill,
    rarefied_hill,
    sample_coverage,
)
from wcbench.analysis.overlap import SOURCES, hotspot_overlap, hotspot_overlaps
from wcbench.analysis.pairing import pair
from wcbench.errors import UsageError

BOTH = pair(["a1", "a2", "a3"], ["b1", "b2"], labels=("AIBench", "MLPerf"))
LEVELS = {
    "a1": {"modality": "image", "layers": ("convolution", "pooling")},
    "a2": {"modality": "text", "layers": ("attention",)},
    "a3": {"modality": "audio"},
    "b1": {"modality": "image", "layers": ("convolution",)},
    "b2": {"modality": "graph", "layers": ("attention",)},
}


def test_one_way_coverage() -> None:
    rows = factor_coverage(BOTH, LEVELS).rows.set_index("factor")
    modality = rows.loc["modality"]
    assert (modality["seen"], modality["a"], modality["b"]) == (4, 3, 2)
    assert modality["only_a"] == ("audio", "text")
    assert modality["only_b"] == ("graph",)
    assert (modality["m"], modality["a_at_m"], modality["b_at_m"]) == (2, 2, 2)
    assert rows.loc["layers", "only_a"] == ("pooling",)


def test_two_way_coverage() -> None:
    cells = factor_coverage(BOTH, LEVELS).rows.set_index("factor").loc["layers x modality"]
    assert cells["possible"] == 3 * 4
    assert (cells["seen"], cells["a"], cells["b"]) == (4, 3, 2)
    assert cells["only_a"] == ("attention + text", "pooling + image")
    assert cells["only_b"] == ("attention + graph",)


def test_workloads_without_levels_are_named() -> None:
    found = factor_coverage(BOTH, {name: LEVELS[name] for name in ("a1", "a2")})
    assert found.missing == ("a3", "b1", "b2")
    assert set(found.rows["reason"]) == {"a suite has no task with this factor"}
    assert len(factor_coverage(BOTH, {}).rows) == 0


def test_expected_levels_are_the_mean_over_subsets() -> None:
    tasks = [{"x"}, {"x", "y"}, {"y"}, {"z"}]
    counts = {"x": 2, "y": 2, "z": 1}
    means = np.mean([len(set.union(*s)) for s in combinations(tasks, 2)])
    assert expected_levels(counts, 4, 2) == pytest.approx(means)


@pytest.mark.parametrize(("order", "expected"), [(0, 4), (1, 3.363586), (2, 2.909091)])
def test_hill_numbers(order: int, expected: float) -> None:
    assert hill((1 / 2, 1 / 4, 1 / 8, 1 / 8), order) == pytest.approx(expected, abs=5e-7)
    assert hill((4, 2, 1, 1, 0), order) == pytest.approx(expected, abs=5e-7)


def test_hill_of_order_one_is_a_power_of_two() -> None:
    assert hill((4, 2, 1, 1), 1) == pytest.approx(2**1.75)


@pytest.mark.parametrize(("m", "expected"), [(1, 1), (8, 3.555577), (20, 5)])
def test_hurlberts_rarefaction(m: int, expected: float) -> None:
    assert rarefied_hill((10, 5, 3, 1, 1), m, 0) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_rarefaction_to_the_full_size_changes_nothing(order: int) -> None:
    assert rarefied_hill((10, 5, 3, 1, 1), 20, order) == pytest.approx(hill((10, 5, 3, 1, 1), order))
    assert rarefied_hill((10, 5, 3, 1, 1), 1, order) == pytest.approx(1)


def test_rarefaction_is_refused_beyond_the_sample() -> None:
    with pytest.raises(UsageError, match="between 1 and 3"):
        rarefied_hill((2, 1), 4, 0)


def test_sample_coverage() -> None:
    assert sample_coverage((3, 3)) == 1
    # f1 = 2, f2 = 1, n = 6: 1 - 2/6 * 10 / (10 + 2)
    assert sample_coverage((2, 2, 1, 1)[:1] + (2, 1, 1)[1:] + (2,)) == pytest.approx(1 - 2 / 6 * 10 / 14)
    assert sample_coverage((2, 2, 1, 1)) == pytest.approx(1 - 2 / 6 * 10 / 14)
    assert sample_coverage((1,) * 8) == pytest.approx(1 - 49 / 51)
    assert sample_coverage((1,)) == 0
    assert sample_coverage((2, 1), 1) == pytest.approx(1 - (2 / 3 * 1 / 2 + 1 / 3 * 2 / 2))


def test_singletons_are_uninformative() -> None:
    found = class_diversity(BOTH, dict(zip(("a1", "a2", "a3", "b1", "b2"), "uvwxy", strict=True)))
    assert "uninformative" in found.reason
    assert found.to_frame().loc[0, ["a", "b", "m", "a_at_m", "b_at_m"]].tolist() == [3, 2, 2, 2, 2]


def test_classes_at_equal_size_and_coverage() -> None:
    a, b = [f"a{i}" for i in range(10)], [f"b{i}" for i in range(6)]
    classes = dict(zip(a, "xxxxyyyzzw", strict=True)) | dict(zip(b, "xxxyyz", strict=True))
    rows = class_diversity(pair(a, b), classes).rows.set_index("order")
    assert rows.loc[0, "a_at_m"] == pytest.approx(rarefied_hill((4, 3, 2, 1), 6, 0))
    assert rows.loc[0, "b_at_m"] == 3
    assert rows.loc[1, "b"] == pytest.approx(hill((3, 2, 1), 1))
    assert (rows["b_at_c"] == rows["b"]).all()  # the less complete sample stays as it is
    assert (rows["a_at_c"] < rows["a"]).all()
    assert class_diversity(BOTH, {"a1": "x"}).reason == "a suite has no task with a class"


SHARES = {
    "a1": {"gemm": 0.5, "relu": 0.5},
    "a2": {"gemm": 1.0},
    "b1": {"gemm": 3.0, "sort": 1.0},  # milliseconds will do: each task adds up to one
    "b2": {"sort": 1.0},
}


def test_hotspot_overlap_by_hand() -> None:
    found = hotspot_overlap(BOTH, SHARES, "measured CPU")
    # A: gemm .75, relu .25; B: gemm .375, sort .625. minima .375, maxima .75 + .25 + .625
    assert found.jaccard == pytest.approx(0.375 / 1.625)
    assert (found.shared, found.only_a, found.only_b) == (("gemm",), ("relu",), ("sort",))
    assert found.missing == ("a3",)
    assert list(found.rows["function"]) == ["gemm", "sort", "relu"]


def test_the_null_of_the_overlap() -> None:
    found = hotspot_overlap(BOTH, SHARES, "measured CPU")
    tables = {name: np.array([row.get(f, 0) for f in ("gemm", "relu", "sort")]) for name, row in SHARES.items()}
    rows = [x / x.sum() for x in tables.values()]
    values = []
    for chosen in combinations(range(4), 2):
        a = np.mean([rows[i] for i in chosen], axis=0)
        b = np.mean([rows[i] for i in range(4) if i not in chosen], axis=0)
        values.append(np.minimum(a, b).sum() / np.maximum(a, b).sum())
    assert found.expected == pytest.approx(np.mean(values))
    assert found.p == pytest.approx(np.mean(np.array(values) <= found.jaccard + 1e-9))


def test_sources_never_mix() -> None:
    found = hotspot_overlaps(BOTH, {"measured CPU": SHARES, "measured GPU": {"a1": {"gemm": 1.0}}})
    assert [one.source for one in found] == list(SOURCES)
    assert [one.jaccard is None for one in found] == [True, False, True]
    assert found[0].reason == "no task of MLPerf has measured GPU times"
    assert found[2].missing == BOTH.names


def test_bad_sources_and_shares_are_refused() -> None:
    with pytest.raises(UsageError, match="Unknown source"):
        hotspot_overlaps(BOTH, {"guessed": SHARES})
    with pytest.raises(UsageError, match="Unknown source"):
        hotspot_overlap(BOTH, SHARES, "guessed")
    with pytest.raises(UsageError, match="name of the device"):
        hotspot_overlap(BOTH, SHARES, "roofline-predicted")
    with pytest.raises(UsageError, match="those of a1 are not"):
        hotspot_overlap(BOTH, SHARES | {"a1": {"gemm": 2.0, "relu": -1.0}}, "measured CPU")
    assert hotspot_overlap(BOTH, SHARES, "roofline-predicted", device="H100").device == "H100"
