"""Many workloads: merging, farthest-first, coreset covers with both bounds, and facility location."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tests.analysis import oracles
from wcbench.analysis.cover import distances, smallest
from wcbench.analysis.largen import coreset_cover, facility, farthest_first, merged
from wcbench.analysis.medians import p_centre
from wcbench.errors import UsageError

few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def names_of(n: int) -> list[str]:
    return [f"w{i:05d}" for i in range(n)]


# merging


def test_exact_duplicates_become_weights() -> None:
    found = merged([[1, 2], [0.0, 3], [1, 2], [-0.0, 3], [5, 5]], list("abcde"))
    assert found.names == ("a", "b", "e")
    assert found.weights.tolist() == [2, 2, 1]
    assert found.member_of.tolist() == [0, 1, 0, 1, 2]
    assert found.points.tolist() == [[1, 2], [0, 3], [5, 5]]
    assert found.moved == 0
    assert found.to_frame()["representative"].tolist() == ["a", "b", "a", "b", "e"]
    assert repr(found) == "Merged (exact duplicates): 3 of 5 left, moved by at most 0"


def test_cells_of_a_grid_with_given_weights() -> None:
    found = merged([[0.1], [0.2], [1.1], [0.9], [7]], list("edcba"), step=1, weights=[1, 2, 3, 4, 5])
    # by name: a 7, b 0.9, c 1.1, d 0.2, e 0.1
    assert found.names == ("a", "b", "d")
    assert found.weights.tolist() == [5, 7, 3]
    assert found.moved == pytest.approx(0.2)


@few
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.sampled_from([0, 1.5]))
def test_merging_against_a_dictionary(points: list[tuple[int, int]], step: float) -> None:
    names = names_of(len(points))
    found = merged(np.array(points, float), names, step=step)
    cells: dict[tuple[float, ...], list[int]] = {}
    for i, point in enumerate(points):
        cells.setdefault(tuple(round(v / step) if step else v for v in point), []).append(i)
    assert found.names == tuple(names[group[0]] for group in cells.values())
    assert found.weights.tolist() == [len(group) for group in cells.values()]
    worst = max(math.dist(points[i], points[group[0]]) for group in cells.values() for i in group)
    assert found.moved == pytest.approx(worst)


@pytest.mark.parametrize(
    ("points", "names", "message"),
    [
        ([[1, math.nan], [2, 3]], ["a", "b"], "no numbers .* at: a"),
        ([[1, 2], [2, math.inf]], ["a", "b"], "no numbers .* at: b"),
        ([[1], [2]], ["a", "a"], "unique"),
        ([[1], [2]], ["a"], "one name each"),
        ([1, 2], ["a", "b"], "one name each"),
        (np.empty((0, 3)), [], "one name each"),
    ],
)
def test_what_is_no_points(points: list[list[float]], names: list[str], message: str) -> None:
    for use in (merged, farthest_first):
        with pytest.raises(UsageError, match=message):
            use(points, names)


def test_no_step_and_no_radius() -> None:
    with pytest.raises(UsageError, match="step"):
        merged([[1]], ["a"], step=-1)
    with pytest.raises(UsageError, match="radius"):
        coreset_cover([[1]], ["a"], math.nan)
    with pytest.raises(UsageError, match="at least 1 point"):
        farthest_first([[1]], ["a"], 0)


# farthest-first


def test_farthest_first_against_a_plain_loop_and_its_certificate() -> None:
    x = np.random.default_rng(0).normal(size=(200, 4))
    found = farthest_first(x, names_of(200), 12)
    picked = [int(cdist(x, x.mean(axis=0)[None]).argmin())]
    for k in range(1, 13):
        near = cdist(x, x[picked]).min(axis=1)
        assert found.radii[k - 1] == pytest.approx(near.max())
        picked.append(int(near.argmax()))
        # the k + 1 points are pairwise at least that far apart, so k centres cannot do with less than half
        assert min(math.dist(x[a], x[b]) for a, b in combinations(picked, 2)) >= found.radii[k - 1] - 1e-9
    assert found.picked.tolist() == picked[:12]
    assert found.distance == pytest.approx(cdist(x, x[picked[:12]]).min(axis=1))
    assert found.served.tolist() == cdist(x, x[picked[:12]]).argmin(axis=1).tolist()


def test_the_bounds_hold_the_exact_p_centre_of_ruspini() -> None:
    x = oracles.ruspini()
    names = names_of(75)
    frame = farthest_first(x, names, 6).to_frame()
    d = distances(cdist(x, x), names)
    for row in frame.itertuples():
        assert row.lower_bound <= p_centre(d, row.k) <= row.radius


def test_it_stops_when_all_are_reached_and_ties_go_by_name() -> None:
    found = farthest_first([[0], [0], [3], [-3], [0]], list("abcde"))
    assert [found.names[i] for i in found.picked] == ["a", "c", "d"]
    assert found.radii.tolist() == [3, 3, 0]
    assert farthest_first([[0], [0], [3], [-3], [0]], list("abcde"), until=3).picked.tolist() == [0]
    assert "no 3 points do within less than 0" in repr(found)


# covers


@few
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.3, 0.8, 1.5, 3.0]),
    st.sampled_from([4, 10, 40]),
    st.sampled_from([0, 0.2]),
)
def test_bounds_hold_the_exact_size(seed: int, radius: float, most: int, step: float) -> None:
    x = np.random.default_rng(seed).normal(size=(40, 2))
    names = names_of(40)
    found = coreset_cover(x, names, radius, most=most, step=step)
    d = distances(cdist(x, x), names)
    answer = smallest(d.within(radius), range(40))
    assert answer is not None
    assert found.lower <= len(answer.chosen) <= found.upper
    places, packed = d.places(found.members), d.places(found.packing)
    if places:
        assert d.values[:, places].min(axis=1).max() == pytest.approx(found.reached)
        assert found.reached <= radius * (1 + 1e-9)
    # by definition: nobody within the radius of two of the packing
    assert (d.values[:, packed] <= radius).sum(axis=1).max() <= 1


def test_with_all_points_in_the_coreset_the_cover_is_exact() -> None:
    x = oracles.ruspini()
    found = coreset_cover(x, names_of(75), 31.3)
    assert found.upper == 4
    assert found.lower == 4
    assert "a smallest cover of 75 workloads at r = 31.3 has exactly 4 members" in repr(found)
    assert len(found.to_frame()) == 75


def test_clusters_of_many_with_duplicates() -> None:
    random = np.random.default_rng(1)
    centres = np.eye(12) * 40
    x = centres[random.integers(0, 12, 6000)] + random.normal(size=(6000, 12))
    x[::3] = x[0]
    # x[0] itself is the first of the 2000 that are alike
    names = names_of(6000)
    found = coreset_cover(x, names, 11.0)
    assert (found.lower, found.upper) == (12, 12)
    assert found.merged == 4001
    assert found.coreset == 300
    order = random.permutation(6000)
    again = coreset_cover(x[order], [names[i] for i in order], 11.0)
    assert repr(again) == repr(found)
    assert again.members == found.members
    assert again.table.equals(found.table)


def test_where_there_are_no_clusters_a_greedy_cover_is_the_smallest_and_the_bounds_lie_apart() -> None:
    x = np.random.default_rng(1).normal(size=(2000, 6))
    found = coreset_cover(x, names_of(2000), 3.4)
    assert found.how == "coreset points taken greedily"
    near = cdist(x, x) <= 3.4
    places = [int(name[1:]) for name in found.members]
    assert near[:, places].any(axis=1).all()
    assert near[:, [int(name[1:]) for name in found.packing]].sum(axis=1).max() <= 1
    assert 1 < found.lower < found.upper < 40
    assert f"between {found.lower} and {found.upper} members" in repr(found)


def test_a_radius_that_no_thousand_points_reach_gives_no_members_but_a_lower_bound() -> None:
    x = np.random.default_rng(0).random((1500, 3))
    found = coreset_cover(x, names_of(1500), 1e-6)
    assert found.members == ()
    assert found.upper == 1500
    assert found.lower == 1000
    assert found.how == "all workloads, as 1000 farthest-first points do not reach them"
    assert math.isnan(found.reached)


def test_radius_zero_and_one_workload() -> None:
    assert coreset_cover([[1.0], [1.0], [2.0]], list("abc"), 0).members == ("a", "c")
    assert coreset_cover([[1.0]], ["a"], 5).members == ("a",)


# facility location


def test_greedy_facility_location_on_ruspini() -> None:
    x = oracles.ruspini()
    d = cdist(x, x)
    names = [str(i) for i in range(1, 76)]
    assert facility(d, names, 5).picked == ("48", "17", "32", "70", "52")
    exact = {3: 1619.469760, 4: 861.478111, 5: 779.684302}  # k-median, METHOD section 7
    shares = {k: facility(d, names, k).likeness / (75 * d.max() - best) for k, best in exact.items()}
    assert {k: round(share, 5) for k, share in shares.items()} == {
        3: 0.96923,
        4: 0.95984,
        5: 0.98818,
    }  # METHOD: .98819; .9881829 here
    four = facility(d, names, 4)
    assert round(four.distance) == 1292
    assert four.swapped == ("10", "32", "52", "70")
    assert round(four.swapped_distance, 3) == 861.478
    assert "63.2 % of the best" in repr(four)
    assert four.to_frame()["picked"].tolist() == list(four.picked)


@few
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_lazy_greedy_is_greedy_and_keeps_its_guarantee(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    x, w = random.normal(size=(12, 2)), random.integers(1, 5, 12).astype(float)
    d = cdist(x, x[:7])
    s = d.max() - d
    picked: list[int] = []
    for _ in range(k):
        picked.append(max((j for j in range(7) if j not in picked), key=lambda j: w @ s[:, [*picked, j]].max(axis=1)))
    found = facility(d, list("abcdefg"), k, weights=w)
    assert found.picked == tuple("abcdefg"[j] for j in picked)
    best = max(w @ s[:, list(c)].max(axis=1) for c in combinations(range(7), k))
    assert found.likeness >= (1 - 1 / math.e) * best - 1e-9
    assert found.swapped_distance <= found.distance + 1e-9
    assert found.swapped_distance == pytest.approx(w @ d[:, ["abcdefg".index(n) for n in found.swapped]].min(axis=1))


def test_facility_refuses() -> None:
    with pytest.raises(UsageError, match="cannot be chosen from 2"):
        facility([[0, 1], [1, 0]], ["a", "b"], 3)
    with pytest.raises(UsageError, match="finite"):
        facility([[0, math.nan], [1, 0]], ["a", "b"], 1)
