"""Principal components against published eigenvalues, noise guards, signs and words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine
from threadpoolctl import threadpool_limits

from tests.analysis.oracles import decathlon, decathlon_active, usarrests
from wcbench.analysis.pca import Components, effective_rank, pca
from wcbench.analysis.table import Feature, FeatureTable, Space
from wcbench.analysis.transform import apply, to_space
from wcbench.errors import UsageError

Array = NDArray[np.float64]


def points(values: Array, names: Sequence[str] | None = None, blocks: Sequence[str] | None = None) -> Space:
    """A space of these coordinates as they are."""
    n, p = values.shape
    columns = [f"f{j:02}" for j in range(p)]
    frame = pd.DataFrame(values, index=list(names or [f"w{i:03}" for i in range(n)]), columns=columns)
    return Space(frame, tuple(blocks or columns), {}, np.zeros(p), np.ones(p))


def scaled(values: Array) -> Space:
    """The space of z-scores (ddof 1), through the whole of `to_space`: every feature a block."""
    names = [f"f{j:02}" for j in range(values.shape[1])]
    frame = pd.DataFrame(values, index=[f"w{i:03}" for i in range(len(values))], columns=names)
    return to_space(FeatureTable(frame, tuple(Feature(name, "", "none", name) for name in names)))


IRIS, WINE = load_iris().data, load_wine().data


DECATHLON = "3.2719055 1.7371310 1.4049167 1.0568504 0.6847735 0.5992687 0.4512353 0.3968766 0.2148149 0.1822275"
ACTIVE = "4.1242133 1.8385309 1.2391403 0.8194402 0.7015528 0.4228828 0.3025817 0.2744700 0.1552169 0.1219710"


@pytest.mark.parametrize(
    ("values", "expected", "digits"),
    [
        (IRIS, "2.918498 0.914030 0.146757 0.020715", 6),
        (WINE, "4.705850 2.496974 1.446072 0.918974", 6),
        (decathlon()[1], DECATHLON, 7),
        (decathlon_active()[1], ACTIVE, 7),
    ],
    ids=["iris", "wine", "decathlon", "decathlon2.active"],
)
def test_published_eigenvalues_of_correlations(values: Array, expected: str, digits: int) -> None:
    numbers = [float(word) for word in expected.split()]
    found = pca(scaled(values), draws=0).eigenvalues
    assert_allclose(found[: len(numbers)], numbers, rtol=0, atol=0.501 * 10.0**-digits)
    assert found.sum() == pytest.approx(values.shape[1], abs=1e-8)


def test_published_standard_deviations_of_usarrests() -> None:
    found = pca(scaled(usarrests()[1]), draws=0)
    assert_allclose(np.sqrt(found.eigenvalues), [1.574878, 0.994869, 0.597129, 0.416449], rtol=0, atol=5.1e-7)
    assert_allclose(found.ratios, [0.62006, 0.24744, 0.08914, 0.04336], rtol=0, atol=5.1e-6)
    raw = pca(points(usarrests()[1]), draws=0)
    assert_allclose(np.sqrt(raw.eigenvalues), [83.7324, 14.2124, 6.4894, 2.4828], rtol=0, atol=5.1e-5)
    assert raw.ratios[0] == pytest.approx(0.9655, abs=5e-5)


def test_published_cumulative_shares_of_decathlon() -> None:
    found = pca(scaled(decathlon()[1]), draws=0)
    assert_allclose(found.to_frame()["cumulative"][:3], [0.32719, 0.50090, 0.64140], rtol=0, atol=5.1e-6)


def test_iris_and_wine_shares_and_covariances() -> None:
    raw = pca(points(IRIS), draws=0)
    assert_allclose(raw.eigenvalues, [4.228242, 0.242671, 0.078210, 0.023835], rtol=0, atol=5.1e-7)
    assert_allclose(raw.ratios, [0.924619, 0.053066, 0.017103, 0.005212], rtol=0, atol=5.1e-7)
    assert_allclose(pca(scaled(IRIS), draws=0).ratios, [0.729624, 0.228508, 0.036689, 0.005179], rtol=0, atol=5.1e-7)
    wine = pca(scaled(WINE), draws=0).ratios
    assert_allclose(wine[:3], [0.361988, 0.192075, 0.111236], rtol=0, atol=5.1e-7)
    assert wine[:3].sum() == pytest.approx(0.6653, abs=5e-5)


# ---- how many components stand out


@pytest.mark.parametrize(("values", "kept"), [(IRIS, 1), (WINE, 3), (usarrests()[1], 1)], ids=["iris", "wine", "us"])
def test_parallel_analysis_of_published_data(values: Array, kept: int) -> None:
    found = pca(scaled(values))
    assert found.kept_columns == kept
    assert found.kept_blocks == kept  # every feature is a block of its own: the two questions are one


def noise_kept(draws: int) -> list[int]:
    """Components kept on Gaussian noise of 25 x 40."""
    return [pca(scaled(np.random.default_rng(i).normal(size=(25, 40)))).kept_columns for i in range(draws)]


def test_noise_has_no_components() -> None:
    kept = noise_kept(12)
    assert max(kept) <= 2
    assert kept.count(0) >= 10


@pytest.mark.slow
def test_noise_has_no_components_in_60_draws() -> None:
    """METHOD 7: none in 56 of 60, never more than 2."""
    kept = noise_kept(60)
    assert max(kept) <= 2
    assert kept.count(0) >= 53


def independent_blocks(seed: int) -> Space:
    """27 workloads; ten blocks of four features that follow one direction each, without any relation between blocks."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.normal(size=(27, 10)), 4, axis=1) + 0.3 * rng.normal(size=(27, 40))
    names = [f"f{j:02}" for j in range(40)]
    frame = pd.DataFrame(values, index=[f"w{i:02}" for i in range(27)], columns=names)
    return to_space(FeatureTable(frame, tuple(Feature(n, "", "none", f"b{j // 4}") for j, n in enumerate(names))))


def blocks_kept(draws: int) -> tuple[list[int], list[int]]:
    found = [pca(independent_blocks(seed)) for seed in range(draws)]
    return [c.kept_columns for c in found], [c.kept_blocks for c in found]


def test_independent_blocks_fool_the_columns_and_not_the_blocks() -> None:
    columns, blocks = blocks_kept(8)
    assert min(columns) >= 4
    assert blocks.count(0) >= 6


@pytest.mark.slow
def test_independent_blocks_in_60_draws() -> None:
    """METHOD 1.1: by columns 5 to 8 components, by rows of blocks none in 52 of 60."""
    columns, blocks = blocks_kept(60)
    assert 5 <= np.median(columns) <= 8
    assert blocks.count(0) >= 50


def test_no_component_and_one_block_are_said() -> None:
    none = pca(independent_blocks(0))
    assert none.kept_blocks == 0
    assert "0: a map of it shows no direction that blocks share" in none.verdict
    assert none.map().shape == (27, 2)
    one = pca(points(np.random.default_rng(0).normal(size=(9, 3)), blocks=["b"] * 3))
    assert "with one block there is nothing between blocks" in one.verdict
    assert "not asked" in pca(points(IRIS), draws=0).verdict


# ---- signs, words, maps


def test_by_hand_on_a_line() -> None:
    """(0, 0), (3, -4), (-3, 4): along (-0.6, 0.8) with variance 25; the larger loading is positive."""
    found = pca(points(np.array([[0, 0], [3, -4], [-3, 4.0]])))
    assert_allclose(found.eigenvalues, [25])
    assert_allclose(found.loadings["PC1"], [-0.6, 0.8])
    assert_allclose(found.scores["PC1"], [0, -5, 5])
    assert found.effective_rank == 1
    assert found.map(3)["PC3"].eq(0).all()
    assert found.words(1) == "PC1 (100 %): more f01, less f00"


def test_the_largest_loading_is_positive_and_of_equals_the_first_by_name() -> None:
    found = pca(scaled(WINE), draws=0).loadings
    assert all(found[pc].iloc[found[pc].abs().argmax()] > 0 for pc in found)
    tied = pca(points(np.array([[1, -1], [-1, 1], [2, -2.0]])), draws=0)
    assert_allclose(tied.loadings["PC1"], [np.sqrt(0.5), -np.sqrt(0.5)], atol=1e-10)


def test_words_name_families_and_take_labels() -> None:
    rng = np.random.default_rng(0)
    t = rng.normal(size=9)
    frame = pd.DataFrame(
        {"bytes_per_sample": t, "op_class_byte_share[GEMM]": -t, "depth": 0.3 * rng.normal(size=9)},
        index=[f"w{i}" for i in range(9)],
    )
    found = pca(Space(frame, ("a", "b", "c"), {}, np.zeros(3), np.ones(3)), draws=0)
    assert found.words(1).endswith("more bytes per sample, less GEMM in op class byte share")
    assert "more bytes of a sample" in found.words(1, labels={"bytes_per_sample": "bytes of a sample"})


def test_effective_rank_by_hand() -> None:
    """Shares 1/2, 1/4, 1/8, 1/8: 2^1.75."""
    assert effective_rank(np.array([0.5, 0.25, 0.125, 0.125])) == pytest.approx(3.363586, abs=5e-7)
    assert effective_rank(np.array([1.0, 0])) == 1


def test_equal_eigenvalues_are_told() -> None:
    found = pca(points(np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0.1]])), draws=0)
    assert (1, 2) in found.ties


def test_other_points_are_projected_the_same() -> None:
    names = ["a", "b"]
    frame = pd.DataFrame(
        np.random.default_rng(0).lognormal(size=(8, 2)), index=[f"w{i}" for i in range(8)], columns=names
    )
    table = FeatureTable(frame, tuple(Feature(n, "", "log", n) for n in names))
    space = to_space(table)
    found = pca(space, draws=0)
    pd.testing.assert_frame_equal(found.project(apply(space.recipe, table)), found.scores)
    with pytest.raises(UsageError, match="another space"):
        found.project(points(IRIS))


def test_a_composition_has_one_component_less() -> None:
    shares = np.random.default_rng(0).dirichlet([1, 2, 3], 12)
    frame = pd.DataFrame(shares, index=[f"w{i:02}" for i in range(12)], columns=["m[a]", "m[b]", "m[c]"])
    space = to_space(FeatureTable(frame, tuple(Feature(c, "", "clr", "m") for c in frame.columns)))
    assert len(pca(space, draws=0).eigenvalues) == 2


def same(a: Components, b: Components) -> None:
    for name in ("eigenvalues", "ratios", "limits_columns", "limits_blocks"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    pd.testing.assert_frame_equal(a.loadings, b.loadings, check_exact=True)
    pd.testing.assert_frame_equal(a.scores, b.scores, check_exact=True)


def test_neither_the_order_of_rows_nor_threads_change_a_digit() -> None:
    space = scaled(WINE)
    shuffled = Space(
        space.points.sample(frac=1, random_state=1), space.blocks, space.dropped, space.centres, space.scales
    )
    with threadpool_limits(1):
        one = pca(space, draws=10)
    with threadpool_limits(2):
        same(one, pca(shuffled, draws=10))


def test_too_few_or_equal_workloads_are_refused() -> None:
    with pytest.raises(UsageError, match="2 workloads"):
        pca(points(IRIS[:2]))
    with pytest.raises(UsageError, match="at the same point"):
        pca(points(np.ones((4, 2))))


def test_short_in_words_and_a_frame() -> None:
    found = pca(scaled(IRIS), draws=10)
    assert repr(found).startswith(
        "Components (150 workloads, 4 coordinates; effective rank 2.0; by columns permuted, 1 "
    )
    assert list(found.to_frame()["component"]) == ["PC1", "PC2", "PC3", "PC4"]
