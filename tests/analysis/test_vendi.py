"""Vendi scores against METHOD's oracles, and their rarefaction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform

from wcbench.analysis.pairing import pair
from wcbench.analysis.vendi import gaussian, subset_scores, vendi, vendi_score
from wcbench.errors import UsageError

PUBLISHED = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])


def test_the_readmes_six_samples() -> None:
    x = np.array([0, 0, 10, 10, 20, 20], float)
    assert vendi_score(np.exp(-np.abs(x[:, None] - x))) == pytest.approx(2.9999999959, abs=5e-11)


@pytest.mark.parametrize(("order", "expected"), [(1, 2.157300), (0.5, 2.420348), (2, 1.948052), (math.inf, 1.578947)])
def test_orders(order: float, expected: float) -> None:
    assert vendi_score(PUBLISHED, order) == pytest.approx(expected, abs=5e-7)


def test_cosine_similarities() -> None:
    rows = np.array([[100, 0], [99, 1], [1, 99], [0, 100]], float)
    assert vendi_score(1 - cdist(rows, rows, "cosine")) == pytest.approx(1.999898, abs=5e-7)


@pytest.mark.parametrize("order", [0.5, 1, 2, 3, math.inf])
def test_all_unlike_is_n_and_all_alike_is_one(order: float) -> None:
    assert vendi_score(np.eye(5), order) == pytest.approx(5)
    assert vendi_score(np.ones((5, 5)), order) == pytest.approx(1)


def test_a_kernel_is_checked() -> None:
    with pytest.raises(UsageError, match="ones on its diagonal"):
        vendi_score(2 * np.eye(3))


def test_stacks_equal_single_scores() -> None:
    kernel = gaussian(squareform(pdist(np.random.default_rng(0).standard_normal((6, 2)))), 1.0)
    picks = np.array([[0, 1, 2], [1, 3, 5]])
    for order in (1.0, 2.0):
        found = subset_scores(kernel, picks, order)
        assert found == pytest.approx([vendi_score(kernel[np.ix_(row, row)], order) for row in picks])


def _vendi(n_a: int, n_b: int, points: np.ndarray, **options):  # type: ignore[no-untyped-def]
    both = pair([f"a{i:02}" for i in range(n_a)], [f"b{i:02}" for i in range(n_b)])
    return vendi(both, squareform(pdist(points)), **options)


def test_scores_and_curves_of_both_suites() -> None:
    found = _vendi(19, 8, np.random.default_rng(3).standard_normal((27, 4)))
    middle = found.rows[(found.rows["bandwidth"] == 1) & (found.rows["order"] == 1)].iloc[0]
    assert set(found.rows["bandwidth"]) == {0.5, 1, 2}
    curve = found.curve[(found.curve["bandwidth"] == 1) & (found.curve["order"] == 1)]
    scores = curve[curve["suite"] == "A"].set_index("m")["score"]
    assert list(scores.index) == list(range(1, 20))
    assert scores[1] == pytest.approx(1)
    assert scores[19] == pytest.approx(middle["a"])
    assert scores.is_monotonic_increasing


def test_raw_scores_grow_with_size_and_rarefied_ones_do_not() -> None:
    """METHOD 3.1: median ratios 1.24 and 0.99 for suites of one population."""
    ratios = []
    for seed in range(60):
        points = np.random.default_rng(seed).standard_normal((27, 4))
        row = _vendi(19, 8, points, orders=(1.0,), bandwidths=(1.0,), draws=60, curve_draws=1).rows.iloc[0]
        ratios.append((row["a"] / row["b"], row["mean"] / row["value"]))
    assert np.median(ratios, axis=0) == pytest.approx([1.24, 0.99], abs=0.06)


def test_small_families_of_subsets_are_taken_whole() -> None:
    points = np.random.default_rng(4).standard_normal((7, 2))
    found = _vendi(4, 3, points, orders=(2.0,), bandwidths=(1.0,))
    kernel = gaussian(squareform(pdist(points)), np.median(pdist(points)))
    picks = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
    assert found.rows.loc[0, "exact"]
    assert found.rows.loc[0, "mean"] == pytest.approx(np.mean([9 / (kernel[np.ix_(p, p)] ** 2).sum() for p in picks]))


def test_each_bandwidth_is_a_multiple_of_the_pooled_median() -> None:
    points = np.random.default_rng(6).standard_normal((7, 2))
    found = _vendi(4, 3, points, orders=(1.0,), bandwidths=(0.5, 2.0)).rows.set_index("bandwidth")
    for factor in (0.5, 2.0):
        kernel = gaussian(squareform(pdist(points)), factor * np.median(pdist(points)))
        assert found.loc[factor, "a"] == pytest.approx(vendi_score(kernel[:4, :4]))
        assert found.loc[factor, "value"] == pytest.approx(vendi_score(kernel[4:, 4:]))


def test_one_task_scores_one() -> None:
    found = _vendi(3, 1, np.random.default_rng(5).standard_normal((4, 2)))
    assert (found.rows["value"] == 1).all()
    assert (found.rows["mean"] == 1).all()


def test_coinciding_workloads_have_no_bandwidth() -> None:
    found = _vendi(3, 2, np.ones((5, 2)))
    assert "there is no bandwidth" in found.reason
    assert "none" in repr(found)
