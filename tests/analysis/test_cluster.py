"""Trees, k-means, silhouettes and the gap statistic against published values, and noise that must stay one cluster."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from tests.analysis.oracles import ruspini, usarrests
from wcbench.analysis.cluster import Clusters, agreement, cluster, hierarchy, prediction_strength, silhouettes
from wcbench.analysis.gap import dispersion, gap, kmeans, renumbered
from wcbench.analysis.table import Space
from wcbench.errors import UnknownNameError, UsageError

Array = NDArray[np.float64]
IRIS, SPECIES = load_iris(return_X_y=True)
LINE = np.array([[0.0], [1], [2], [10], [11], [20]])


def points(values: Array) -> Space:
    n, p = values.shape
    frame = pd.DataFrame(values, index=[f"w{i:03}" for i in range(n)], columns=[f"f{j}" for j in range(p)])
    return Space(frame, tuple(str(j) for j in range(p)), {}, np.zeros(p), np.ones(p))


def z_scores(values: Array) -> Array:
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0, ddof=1), np.float64)


def distances(values: Array) -> Array:
    return np.linalg.norm(values[:, None] - values[None, :], axis=2)


USARRESTS = z_scores(usarrests()[1])


# ---- k-means and silhouettes


@pytest.mark.parametrize(
    ("values", "k", "inertia", "silhouette", "sizes"),
    [
        (IRIS, 2, 152.347952, 0.681046, None),
        (IRIS, 3, 78.851441, 0.552819, [38, 50, 62]),
        (IRIS, 4, 57.228473, 0.498051, None),
        (USARRESTS, 2, 102.8624, 0.408489, [20, 30]),
        (USARRESTS, 3, 78.32327, 0.309431, [13, 17, 20]),
        (USARRESTS, 4, 56.40317, 0.339689, [8, 13, 13, 16]),
        (USARRESTS, 5, 48.94703, 0.305391, None),
        (ruspini(), 2, 89337.832, 0.582726, None),
        (ruspini(), 3, 51063.475, 0.632705, None),
        (ruspini(), 4, 12881.051, 0.737657, None),
        (ruspini(), 5, 10126.720, 0.701924, None),
    ],
)
def test_published_inertias_and_silhouettes(
    values: Array, k: int, inertia: float, silhouette: float, sizes: list[int] | None
) -> None:
    labels, found = kmeans(values, k)
    digits = {IRIS.shape: 6, USARRESTS.shape: 4 if k == 2 else 5}.get(values.shape, 3)
    assert found == pytest.approx(inertia, rel=0, abs=0.501 * 10.0**-digits)
    assert silhouettes(distances(values), labels).mean() == pytest.approx(silhouette, rel=0, abs=5.1e-7)
    if sizes:
        assert sorted(np.bincount(labels)) == sizes


@pytest.mark.parametrize(("ddof", "inertia"), [(0, 139.82), (1, 138.89)])
def test_the_divisor_of_z_scores_shows(ddof: int, inertia: float) -> None:
    """METHOD 6: iris by StandardScaler (ddof 0), and by R's scale() (ddof 1)."""
    scaled = (IRIS - IRIS.mean(axis=0)) / IRIS.std(axis=0, ddof=ddof)
    assert kmeans(scaled, 3)[1] == pytest.approx(inertia, rel=0, abs=5.1e-3)


def test_iris_species() -> None:
    assert agreement(kmeans(IRIS, 3)[0], SPECIES) == pytest.approx(0.730238, rel=0, abs=5.1e-7)


def test_the_data_of_iris_by_mixtures() -> None:
    """Full covariances, BIC (lower is better): two components; a check of the data, not of this code."""
    with threadpool_limits(1):
        fits = [GaussianMixture(k, n_init=4, random_state=0, tol=1e-6, max_iter=400).fit(IRIS) for k in (1, 2, 3)]
    found = [fitted.bic(IRIS) for fitted in fits]
    assert_allclose(found, [829.978, 574.018, 580.839], rtol=0, atol=2e-3)


def test_silhouettes_by_hand() -> None:
    """0, 1 | 5: of 0 (5 - 1) / 5, of 1 (4 - 1) / 4, of the lone one 0."""
    values = np.array([[0.0], [1], [5]])
    assert_allclose(silhouettes(distances(values), np.array([0, 0, 1])), [0.8, 0.75, 0])
    assert np.isnan(silhouettes(distances(values), np.array([0, 0, 0]))).all()
    assert np.isnan(silhouettes(distances(values), np.array([0, 1, 2]))).all()


def partitions(n: int, k: int) -> list[NDArray[np.int64]]:
    """All partitions of n points on a line into k runs."""
    cuts = combinations(range(1, n), k - 1)
    return [np.searchsorted(np.array(cut), np.arange(n), side="right") for cut in cuts]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_kmeans_on_a_line_is_the_best_of_all_partitions(k: int) -> None:
    """On a line the best clusters are runs, so that all of them can be tried."""
    best = min(dispersion(LINE, labels, 2) for labels in partitions(6, k))
    assert kmeans(LINE, k)[1] == pytest.approx(best, abs=1e-9)


def test_labels_are_numbered_by_first_appearance() -> None:
    assert renumbered([7, 7, 2, 7, 0]).tolist() == [0, 0, 1, 0, 2]
    labels, _ = kmeans(LINE, 3)
    assert labels.tolist() == [0, 0, 0, 1, 1, 2]


def test_duplicates_are_one_point_to_kmeans() -> None:
    values = np.array([[0.0], [0], [0], [5]])
    assert kmeans(values, 2)[0].tolist() == [0, 0, 0, 1]
    with pytest.raises(UsageError, match="2 distinct points do not make 3 clusters"):
        kmeans(values, 3)


# ---- trees


@pytest.mark.parametrize(
    ("method", "expected"), [("average", 0.876956), ("ward", 0.872828), ("complete", 0.726986), ("single", 0.863879)]
)
def test_published_cophenetic_correlations_of_iris(method: str, expected: float) -> None:
    assert hierarchy(points(IRIS), method=method).cophenetic == pytest.approx(expected, rel=0, abs=5.1e-7)


def test_a_tree_by_hand() -> None:
    """0, 1, 2, 10, 11, 20, average: heights 1, 1, 1.5, then (0, 1, 2) with (10, 11) at 9.5, and 20 at 15.2."""
    tree = hierarchy(points(LINE))
    assert_allclose(tree.linkage[:, 2], [1, 1, 1.5, 9.5, 15.2])
    assert tree.labels(3).tolist() == [0, 0, 0, 1, 1, 2]
    assert tree.labels(2).tolist() == [0, 0, 0, 0, 0, 1]
    assert tree.labels(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert list(tree.order) in ([f"w{i:03}" for i in range(6)], [f"w{i:03}" for i in (5, 4, 3, 2, 1, 0)])
    frame = tree.to_frame()
    assert frame["size"].iloc[-1] == 6
    assert frame["height"].iloc[-1] == pytest.approx(15.2)
    with pytest.raises(UsageError, match="cut into 7"):
        tree.labels(7)


def test_trees_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="centroid"):
        hierarchy(points(LINE), method="centroid")
    with pytest.raises(UsageError, match="1 workloads cannot be clustered"):
        hierarchy(points(LINE[:1]))
    assert np.isnan(hierarchy(points(np.ones((4, 2)))).cophenetic)


# ---- the gap statistic


def test_dispersions_of_ruspini_as_clusgap_gives_them() -> None:
    """R's logW with d.power = 1 is ours less ln 2, as it halves every sum."""
    found = [np.log(dispersion(ruspini(), kmeans(ruspini(), k)[0], 1)) - np.log(2) for k in (1, 2, 3, 4)]
    assert_allclose(found, [7.187997, 6.628498, 6.261660, 5.692737], rtol=0, atol=1.1e-6)


def test_dispersion_by_hand_with_both_powers() -> None:
    """0, 1, 2 | 10, 11: sums over pairs 4 and 1, of squares 6 and 1; over the sizes 3 and 2."""
    labels = np.array([0, 0, 0, 1, 1])
    assert dispersion(LINE[:5], labels, 1) == pytest.approx(4 / 3 + 1 / 2)
    assert dispersion(LINE[:5], labels, 2) == pytest.approx(6 / 3 + 1 / 2)


def test_ruspini_has_four_clusters_by_both_powers() -> None:
    found = gap(ruspini(), draws=12, inits=5)
    assert found.chosen == {2: 4, 1: 4}
    assert found.settled == {2: True, 1: True}
    assert list(found.frame["k"]) == [1, 2, 3, 4, 5]  # no further than needed


def test_the_rule_is_tibshiranis_on_the_frame() -> None:
    frame = gap(ruspini(), draws=6, inits=5, most=6, full=True).to_frame()
    for power in (1, 2):
        held = [
            frame[f"gap_{power}"][i] >= frame[f"gap_{power}"][i + 1] - frame[f"error_{power}"][i + 1]
            for i in range(len(frame) - 1)
        ]
        assert held.index(True) + 1 == 4
    assert_allclose(frame["gap_2"], frame["expected_2"] - frame["log_w_2"], atol=1e-9)
    assert_allclose(np.exp(frame["log_w_2"][:4]), [kmeans(ruspini(), k)[1] for k in (1, 2, 3, 4)], rtol=1e-8)


def test_references_fill_the_box_along_the_principal_axes() -> None:
    """k = 1 needs no k-means: its row again from numpy alone, on points along a diagonal."""
    t = np.linspace(-1, 1, 9)
    values = np.column_stack([t, t]) + 0.01 * np.random.default_rng(0).normal(size=(9, 2))
    row = gap(values, draws=7, inits=2).frame.iloc[0]
    centred = values - values.mean(axis=0)
    axes = np.linalg.svd(centred)[2]
    axes *= np.sign(axes[range(2), np.abs(axes).argmax(axis=1)])[:, None]
    box = centred @ axes.T
    draws = [np.random.default_rng([0, b]).uniform(box.min(axis=0), box.max(axis=0), (9, 2)) for b in range(7)]
    logs = [np.log(((b - b.mean(axis=0)) ** 2).sum()) for b in draws]
    assert row["log_w_2"] == pytest.approx(np.log((centred**2).sum()), abs=1e-9)
    assert row["gap_2"] == pytest.approx(np.mean(logs) - np.log((centred**2).sum()), abs=1e-9)
    assert row["error_2"] == pytest.approx(np.std(logs) * np.sqrt(1 + 1 / 7), abs=1e-9)


def test_the_means_of_ruspini() -> None:
    assert_allclose(ruspini().mean(axis=0), [54.88, 92.02667], rtol=0, atol=5.1e-6)


def one_everywhere(sets: int, draws: int) -> list[dict[int, int]]:
    return [gap(np.random.default_rng(i).normal(size=(27, 5)), draws=draws).chosen for i in range(sets)]


def test_noise_is_one_cluster() -> None:
    assert one_everywhere(4, 12) == [{2: 1, 1: 1}] * 4


@pytest.mark.slow
def test_noise_is_one_cluster_in_30_of_30_sets() -> None:
    """METHOD 7."""
    assert one_everywhere(30, 100) == [{2: 1, 1: 1}] * 30


def test_a_curve_that_never_settles_says_so() -> None:
    found = gap(ruspini(), most=3, draws=5, inits=5)
    assert found.chosen[2] == 3
    assert not found.settled[2]
    assert "not settled up to 3" in repr(found)


def test_two_points_have_no_gap() -> None:
    with pytest.raises(UsageError, match="2 points"):
        gap(LINE[:2])


# ---- the whole


@pytest.fixture(scope="module")
def four() -> Clusters:
    return cluster(points(ruspini()), most=5, draws=6)


def test_clusters_of_ruspini(four: Clusters) -> None:
    assert (four.k, four.gap.k) == (4, 4)
    assert four.natural
    assert four.silhouette == pytest.approx(0.737657, abs=5.1e-7)
    assert four.agreement == 1
    assert four.verdict.startswith("4 clusters: silhouette 0.74")
    assert four.by_k.set_index("k").loc[4, "sizes"] == (23, 20, 17, 15)
    assert repr(four).count("\n") == 4
    assert len(four.to_frame()) == 75


def test_noise_has_no_natural_clusters() -> None:
    found = cluster(points(np.random.default_rng(0).normal(size=(27, 5))), most=6, draws=6)
    assert not found.natural
    assert found.verdict == "no natural clusters: the gap statistic finds one"
    assert np.isnan(found.agreement)
    assert found.labels.tolist() == [0] * 27
    assert list(found.by_k["k"]) == [2, 3, 4, 5, 6]


def test_a_weak_silhouette_is_no_evidence(four: Clusters) -> None:
    from dataclasses import replace

    weak = replace(four, silhouettes=np.full(75, 0.2))
    assert not weak.natural
    assert "no natural clusters: the gap statistic finds 4, but their silhouette of 0.20 is below 0.3" in weak.verdict


@pytest.mark.parametrize("values", [np.array([[0.0], [1], [5]]), np.array([[0.0], [0], [5]]), np.ones((3, 2))])
def test_three_workloads_duplicates_and_equals_have_an_outcome(values: Array) -> None:
    found = cluster(points(values), draws=5)
    assert found.k == 1
    assert not found.natural


def test_too_few_and_too_many_are_refused() -> None:
    with pytest.raises(UsageError, match="2 workloads cannot be clustered"):
        cluster(points(LINE[:2]))
    with pytest.raises(UsageError, match="5001 workloads have too many distances"):
        hierarchy(points(np.zeros((5001, 1))))


def test_neither_the_order_of_rows_nor_threads_change_a_digit(four: Clusters) -> None:
    space = points(ruspini())
    shuffled = Space(space.points.sample(frac=1, random_state=2), space.blocks, {}, space.centres, space.scales)
    with threadpool_limits(2):
        again = cluster(shuffled, most=5, draws=6)
    pd.testing.assert_frame_equal(again.to_frame(), four.to_frame(), check_exact=True)
    pd.testing.assert_frame_equal(again.by_k, four.by_k, check_exact=True)
    pd.testing.assert_frame_equal(again.gap.frame, four.gap.frame, check_exact=True)
    pd.testing.assert_frame_equal(again.hierarchy.to_frame(), four.hierarchy.to_frame(), check_exact=True)


def test_prediction_strength_of_three_heaps() -> None:
    rng = np.random.default_rng(0)
    heaps = np.concatenate([rng.normal(c, 0.3, (40, 2)) for c in (0, 5, 10)])
    strength = [prediction_strength(points(heaps), k, draws=4, inits=10) for k in (1, 2, 3, 4)]
    assert strength[0] == 1
    assert strength[2] == 1
    assert strength[3] < 0.8
    with pytest.raises(UsageError, match="too small for 3"):
        prediction_strength(points(LINE), 3)
