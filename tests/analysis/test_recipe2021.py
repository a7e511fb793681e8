"""The paper's own way: its metrics, its repetition over seeds, and noise that looks like clusters in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from wcbench.analysis.recipe2021 import METRICS, Recipe2021, recipe2021
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.analysis.transform import to_space
from wcbench.errors import UsageError


def counters(n: int = 19, metrics: Sequence[str] = METRICS, seed: int = 0) -> FeatureTable:
    rng = np.random.default_rng(seed)
    values = pd.DataFrame(rng.uniform(0.05, 0.95, (n, len(metrics))), [f"w{i:02}" for i in range(n)], list(metrics))
    return FeatureTable(values, tuple(Feature(m, "", "logit", "counters", 1e-3) for m in metrics))


def heaps() -> FeatureTable:
    """Three heaps of six, far apart in all five counters."""
    table = counters(18)
    centres = np.repeat([0.1, 0.5, 0.9], 6)[:, None]
    noise = np.random.default_rng(1).normal(0, 0.01, (18, 5))
    return FeatureTable(table.values * 0 + centres + noise, table.features)


@pytest.fixture(scope="module")
def noise() -> Recipe2021:
    table = counters()
    return recipe2021(table, space=to_space(table), seeds=range(20), perplexity=5)


def test_twenty_seeds_of_noise_look_like_clusters_and_disagree(noise: Recipe2021) -> None:
    assert noise.faithful
    assert noise.caveat == ""
    assert len(noise.pairs) == 190
    assert np.median(noise.map_silhouettes) > np.median(noise.data_silhouettes) + 0.1
    assert noise.pairs.min() < 0.5
    assert noise.unsure > 0.1
    assert "over 20 seeds any two runs agree to" in noise.verdict


def test_the_figures_are_what_they_are_called(noise: Recipe2021) -> None:
    pairs = [adjusted_rand_score(noise.labels[i], noise.labels[j]) for i, j in combinations(range(20), 2)]
    np.testing.assert_allclose(noise.pairs, pairs, atol=1e-10)
    both = np.mean(noise.labels[:, 2] == noise.labels[:, 9])
    assert noise.together.loc["w02", "w09"] == pytest.approx(both)
    assert noise.maps.shape == (20, 19, 2)
    assert noise.labels.shape == (20, 19)
    assert set(noise.labels.ravel()) == {0, 1, 2}
    assert np.isfinite(noise.on_ours).all()
    assert len(noise.to_frame()) == 380
    assert list(noise.by_seed()["seed"]) == list(range(20))


def test_real_heaps_are_found_by_every_seed() -> None:
    found = recipe2021(heaps(), seeds=range(4), perplexity=4)
    assert found.pairs.min() == 1
    assert found.on_scores.min() == 1
    assert found.unsure == 0
    assert np.isnan(found.on_ours).all()
    assert "our space" not in found.verdict


def test_the_same_twice_whatever_the_order_of_rows() -> None:
    table = counters(8)
    shuffled = FeatureTable(table.values.iloc[::-1], table.features)
    one, other = (recipe2021(t, seeds=(0, 1)) for t in (table, shuffled))
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)


@pytest.mark.parametrize(("n", "asked", "used"), [(8, None, 7 / 3), (19, None, 6), (8, 7, 7), (100, None, 30)])
def test_perplexity_stays_below_the_number_of_workloads(n: int, asked: float | None, used: float) -> None:
    from wcbench.analysis.recipe2021 import _perplexity

    assert _perplexity(n, asked) == pytest.approx(used)


@pytest.mark.parametrize("asked", [30, 8, 0.5])
def test_a_perplexity_that_does_not_fit_is_refused(asked: float) -> None:
    with pytest.raises(UsageError, match="does not fit 8 workloads"):
        recipe2021(counters(8), perplexity=asked)


def test_the_paper_s_metrics_where_present() -> None:
    table = counters(8, [*METRICS[:3], "kernels"])
    found = recipe2021(table, seeds=(0, 1))
    assert found.metrics == METRICS[:3]
    assert found.missing == METRICS[3:]
    assert not found.faithful
    assert found.caveat.startswith("without gst_efficiency, dram_utilization")


def test_without_the_counters_all_features_take_their_place_and_it_is_said() -> None:
    table = counters(8, ["flops", "bytes", "depth"])
    values = table.values.copy()
    values.iloc[0, 0] = 0  # raw z-scores: a 0 is a value, whatever the feature's transform
    values["depth"] = 7
    found = recipe2021(
        FeatureTable(values, tuple(Feature(f.name, "", "log", "x") for f in table.features)), seeds=(0, 1)
    )
    assert found.metrics == ("flops", "bytes")
    assert "no counter of the paper is used" in repr(found)
    assert found.dropped == {"depth": "constant: no z-score"}


def test_workloads_without_counters_are_left_out_with_the_reason() -> None:
    table = counters(9)
    values = table.values.copy()
    values.iloc[3, 1] = np.nan
    found = recipe2021(FeatureTable(values, table.features), seeds=(0, 1))
    assert "w03" not in found.names
    assert found.dropped["w03"] == "no value for ipc_efficiency (not measured)"


def test_what_it_cannot_work_on_is_refused() -> None:
    with pytest.raises(UsageError, match="4 workloads and 5 metrics"):
        recipe2021(counters(4))
    with pytest.raises(UsageError, match="One seed"):
        recipe2021(counters(8), seeds=[3])
    with pytest.raises(UsageError, match="do not make 9 clusters"):
        recipe2021(counters(8), k=9)
    with pytest.raises(UsageError, match="8 workloads and 1 metrics"):
        recipe2021(counters(8, ["flops"]))
