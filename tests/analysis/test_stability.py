"""Stability: what sub-samples, dropped blocks and noise do to a subset."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from wcbench.analysis.cover import Distances, distances
from wcbench.analysis.stability import jitter, sub_samples, without_blocks
from wcbench.analysis.subset import choose
from wcbench.analysis.table import Space
from wcbench.errors import UsageError


def space_of(x: np.ndarray[tuple[int, int], np.dtype[np.float64]], blocks: str) -> Space:
    names = [f"w{i:02d}" for i in range(len(x))]
    return Space(pd.DataFrame(x, index=names), tuple(blocks), {}, np.zeros(x.shape[1]), np.ones(x.shape[1]))


@pytest.fixture(scope="module")
def apart() -> Distances:
    """10 workloads of which no two are near."""
    x = np.arange(10.0)[:, None] * 100
    return distances(cdist(x, x), [f"w{i}" for i in range(10)])


def test_workloads_far_apart_are_chosen_whenever_they_are_drawn(apart: Distances) -> None:
    found = sub_samples(apart, 1, apart.names, draws=50)
    assert found.sizes == {8: 50}
    assert found.table["frequency"].tolist() == [1.0] * 10
    assert found.table["drawn"].sum() == 50 * 8
    assert (found.jaccard, found.jaccard_between, found.pac) == (1, 1, 0)
    assert found.consensus.to_numpy()[~np.eye(10, dtype=bool)].max() == 0
    assert (np.diag(found.consensus) == 1).all()
    assert "sub-samples of 8 of 10 workloads" in repr(found)
    assert found.to_frame().equals(found.table)


def test_draws_against_a_slow_reckoning() -> None:
    x = np.random.default_rng(4).normal(size=(9, 2))
    d = distances(cdist(x, x), list("abcdefghi"))
    full = choose(d, 1.0).members
    found = sub_samples(d, 1.0, full, draws=30, seed=5)
    random = np.random.default_rng(5)
    sizes, likeness, drawn_counts = [], [], np.zeros(9)
    for _ in range(30):
        drawn = sorted(random.choice(9, 7, replace=False).tolist())
        drawn_counts[drawn] += 1
        covers = [
            s
            for k in range(1, 8)
            for s in combinations(drawn, k)
            if all(min(d.values[i, j] for j in s) <= 1 for i in drawn)
        ]
        best = [s for s in covers if len(s) == len(covers[0])]
        target = {i for i in d.places(full) if i in drawn}
        overlap = max(len(target & set(s)) for s in best)
        sizes.append(len(best[0]))
        likeness.append(overlap / (len(best[0]) + len(target) - overlap))
    assert found.sizes == {k: sizes.count(k) for k in sorted(set(sizes))}
    assert found.jaccard == pytest.approx(np.mean(likeness))
    assert found.table["drawn"].tolist() == drawn_counts.tolist()


def test_twins_share_a_member_in_every_draw_that_has_both() -> None:
    x = np.array([0, 0.1, 50, 100, 150])[:, None]
    d = distances(cdist(x, x), list("abcde"))
    found = sub_samples(d, 1, ("a", "c", "d", "e"), draws=60)
    assert found.consensus.loc["a", "b"] == 1
    assert found.consensus.loc["a", "c"] == 0
    assert found.pac == 0
    # b is needed only where a was not drawn; the tie between them goes to the full subset
    frequency = found.table.set_index("workload")["frequency"]
    assert frequency["a"] == 1
    assert frequency["b"] < 0.5


def test_same_seed_same_result_and_any_order() -> None:
    x = np.random.default_rng(1).normal(size=(15, 3))
    names = [f"w{i:02d}" for i in range(15)]
    order = np.random.default_rng(2).permutation(15)
    a, b = distances(cdist(x, x), names), distances(cdist(x[order], x[order]), [names[i] for i in order])
    one, two = (sub_samples(d, 1.2, choose(d, 1.2, curve=1).members, draws=20) for d in (a, b))
    assert repr(one) == repr(two)
    pd.testing.assert_frame_equal(one.table, two.table)
    pd.testing.assert_frame_equal(one.consensus, two.consensus)


def test_candidates_only() -> None:
    x = np.array([0, 1, 50, 51, 100.0])[:, None]
    d = distances(cdist(x, x), list("abcde"))
    found = sub_samples(d, 1, ("a", "c"), candidates=("a", "c"), draws=40)
    table = found.table.set_index("workload")
    assert table["chosen"][["b", "d", "e"]].sum() == 0
    assert table["drawn"]["e"] == 0  # no candidate reaches it
    assert math.isnan(table["frequency"]["e"])


@pytest.mark.parametrize(("draws", "share"), [(0, 0.8), (10, 0), (10, 1.2)])
def test_draws_that_cannot_be_made(apart: Distances, draws: int, share: float) -> None:
    with pytest.raises(UsageError, match="cannot be made"):
        sub_samples(apart, 1, apart.names, draws=draws, share=share)


def test_tiny_suites() -> None:
    for n in (1, 2, 3):
        d = distances(np.abs(np.subtract.outer(range(n), range(n))), list("abc")[:n])
        found = sub_samples(d, 0, d.names, draws=5)
        assert found.jaccard == 1
        assert math.isnan(found.pac) == (n == 1)


def test_no_noise_changes_nothing_and_much_does() -> None:
    x = np.random.default_rng(7).normal(size=(12, 4))
    space = space_of(x, "aabb")
    full = choose(distances(space.distances(), space.names), 1.2, curve=1).members
    still = jitter(space, 0, 1.2, full, draws=10)
    assert still.jaccard == 1
    assert still.sizes == {len(full): 10}
    moved = jitter(space, [0, 0, 0.5, 0.5], 1.2, full, draws=40)
    assert moved.jaccard < 1
    assert repr(moved) == repr(jitter(space, [0, 0, 0.5, 0.5], 1.2, full, draws=40))
    with pytest.raises(UsageError, match="noise of a feature"):
        jitter(space, -1, 1.2, full)


def test_blocks_dropped_in_turn() -> None:
    # block a tells 00, 01 | 02, 03; block b tells 00, 02 | 01, 03: with both all four differ
    space = space_of(np.array([[0, 0], [0, 9], [9, 0], [9, 9.0]]), "ab")
    found = without_blocks(space, 1, space.names)
    assert found.table["block"].tolist() == ["a", "b"]
    assert found.table["k"].tolist() == [2, 2]
    assert found.table["jaccard"].tolist() == [0.5, 0.5]
    assert found.table["radius"].tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    assert found.table["holds"].all()
    given = without_blocks(space, 1, ("w00",), radii={"a": 10})
    assert given.table["radius_from"].tolist() == ["the changes without the block", "scaled with the distances"]
    assert given.table["reached"].tolist() == [9, 9]
    assert given.table["holds"].tolist() == [True, False]
    assert given.table["k"].tolist() == [1, 2]
    assert "without a: k = 1" in repr(given)


def test_a_single_block_cannot_be_dropped() -> None:
    assert without_blocks(space_of(np.eye(3), "aaa"), 1, ("w00",)).to_frame().empty
