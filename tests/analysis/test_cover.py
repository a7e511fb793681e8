"""Set cover, p-centre, k-median and their certificate: oracles of METHOD section 7 and brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tests.analysis import oracles
from wcbench.analysis import cover, programs
from wcbench.analysis.certificate import Certificate, certificate, packing
from wcbench.analysis.cover import Distances, all_optima, chosen, core, distances, preferred, smallest
from wcbench.analysis.medians import Centres, k_median, p_centre, within_budget
from wcbench.errors import UsageError, WcbenchError

TOY = (0, 1, 2, 10, 11, 20)
few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def on_line(x: Sequence[float]) -> Distances:
    return distances(np.abs(np.subtract.outer(x, x)).astype(float), [f"{i:02d}" for i in range(len(x))])


@pytest.fixture(scope="module")
def states() -> Distances:
    names, x = oracles.usarrests()
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    return distances(cdist(z, z), names)


@pytest.fixture(scope="module")
def ruspini() -> Distances:
    x = oracles.ruspini()
    return distances(cdist(x, x), [f"{i:02d}" for i in range(1, 76)])


def optima_at(d: Distances, radius: float) -> cover.Optima:
    near = d.within(radius)
    first = smallest(near, range(len(d)))
    assert first is not None
    return all_optima(near, range(len(d)), first.chosen)


# brute force, on plain lists


def brute_covers(d: Distances, radius: float) -> list[tuple[int, ...]]:
    """All smallest covers by trying all sets."""
    n = len(d)
    for k in range(1, n + 1):
        found = [
            s for s in combinations(range(n), k) if all(min(d.values[i][j] for j in s) <= radius for i in range(n))
        ]
        if found:
            return found
    raise AssertionError


def brute_median(d: Distances, k: int) -> float:
    return min(sum(min(row[j] for j in s) for row in d.values) for s in combinations(range(len(d)), k))


def brute_packing(d: Distances, radius: float) -> int:
    """Largest set of workloads no two of which have a third within the radius of both."""
    n = len(d)

    def apart(a: int, b: int) -> bool:
        return not any(d.values[j][a] <= radius and d.values[j][b] <= radius for j in range(n))

    sizes = (
        k for k in range(n, 0, -1) for s in combinations(range(n), k) if all(apart(a, b) for a, b in combinations(s, 2))
    )
    return next(sizes)


def holds(c: Certificate, d: Distances) -> bool:
    """The separate checker: is this a cover, and does packing, weights or bound prove that no smaller one exists?"""
    dist = {(a, b): d.values[i, j] for i, a in enumerate(d.names) for j, b in enumerate(d.names)}
    served = [w for group in c.covers.values() for w in group]
    covers = sorted(served) == list(d.names) and len(c.covers) == c.size
    covers &= all(dist[w, m] <= c.radius + 1e-9 for m, group in c.covers.items() for w in group)
    balls = [{w for w in d.names if dist[w, j] <= c.radius + 1e-9} for j in d.names]
    packed = len(c.packing) == c.size and all(len(ball & set(c.packing)) <= 1 for ball in balls)
    fair = all(sum(c.weights.get(w, 0) for w in ball) <= 1 + 1e-9 for ball in balls)
    weighed = fair and sum(c.weights.values()) > c.size - 1 + 1e-9
    proofs = {"packing": packed, "weights": weighed, "bound": c.gap == 0 and c.bound > c.size - 1}
    return covers and proofs[c.proof]


# METHOD section 7


def test_toy_line_covers() -> None:
    d = on_line(TOY)
    sizes = {r: (len(optima_at(d, r).covers[0]), len(optima_at(d, r).covers)) for r in (0, 1, 2, 9, 10)}
    assert sizes == {0: (6, 1), 1: (3, 2), 2: (3, 6), 9: (2, 5), 10: (1, 1)}


def test_toy_line_centres_and_medians() -> None:
    d = on_line(TOY)
    assert [p_centre(d, k) for k in (1, 2, 3)] == [10, 9, 1]
    best = {k: k_median(d, k) for k in (1, 2, 3)}
    assert {k: m.value for k, m in best.items()} == {1: 38, 2: 12, 3: 3}
    assert {k: [m.members, *(s for v, s in m.others if v == m.value)] for k, m in best.items()} == {
        1: [("02",), ("03",)],
        2: [("01", "04")],
        3: [("01", "03", "05"), ("01", "04", "05")],
    }
    assert all(m.complete and m.gap == 0 for m in best.values())


def test_toy_line_costs() -> None:
    d, costs = on_line(TOY), np.array([5.0, 1, 5, 3, 1, 2])
    assert preferred(d.values, optima_at(d, 1), costs) == (1, 4, 5)
    assert chosen(d.values, d.within(1), range(6), 3, costs) == (1, 4, 5)
    assert within_budget(d, costs, 4) == (("01", "04", "05"), 3)
    with pytest.raises(UsageError, match="pays for no workload"):
        within_budget(d, costs, 0.5)


def test_costs_in_any_unit_choose_the_same() -> None:
    """With a row of 1e15 the solver finds no solution at all, so it is told parts of the largest."""
    d = on_line(TOY)
    costs = np.array([5, 1, 5, 3, 1, 2], np.float64)
    for unit in (1e-12, 1.0, 1e15):
        assert chosen(d.values, d.within(1), range(6), 3, unit * costs) == (1, 4, 5)
    assert chosen(d.values, d.within(1), range(6), 3, np.zeros(6)) in ((1, 3, 5), (1, 4, 5))


def test_usarrests_centres(states: Distances) -> None:
    found = Centres(states)
    radii = [round(found.radius(k), 6) for k in range(1, 7)]
    assert radii == [3.300185, 2.299224, 2.295229, 2.058089, 1.729373, 1.514674]
    assert states.called([int(states.values.max(axis=1).argmin())]) == ("Virginia",)


def test_usarrests_covers(states: Distances) -> None:
    sizes = {}
    for radius in (1.0, 1.5, 2.0, 2.5):
        answer = smallest(states.within(radius), range(50))
        assert answer is not None
        sizes[radius] = len(answer.chosen)
    assert sizes == {1.0: 21, 1.5: 7, 2.0: 5, 2.5: 2}
    optima = optima_at(states, 2.5)
    assert optima.complete
    assert [states.called(s) for s in optima.covers] == [
        ("Maryland", x) for x in ("Minnesota", "Nebraska", "Wisconsin")
    ]
    assert states.called(core(states.within(2.5), range(50), optima)) == ("Maryland",)


@pytest.mark.parametrize(
    ("k", "value", "members", "margin"),
    [
        (1, 92.070696, "Oklahoma", 0.010),
        (2, 68.448474, "Nebraska, New Mexico", 0.0008),
        (3, 59.035843, "New Hampshire, New Mexico, Oklahoma", 0.0014),
        (4, 51.355098, "Alabama, Michigan, New Hampshire, Oklahoma", None),
        (5, 47.141985, "Alabama, Massachusetts, Michigan, New Hampshire, Oklahoma", None),
        (6, 44.230283, "Alabama, Illinois, Massachusetts, Michigan, New Hampshire, Oklahoma", None),
    ],
)
def test_usarrests_medians(states: Distances, k: int, value: float, members: str, margin: float | None) -> None:
    best = k_median(states, k, cap=1, runner_up=margin is not None)
    assert round(best.value, 6) == value
    assert ", ".join(best.members) == members
    if margin is not None:
        assert best.margin is not None
        assert round(best.margin, 4 if margin < 0.01 else 3) == margin
        assert set(best.runner_up[1]) != set(best.members)  # type: ignore[index]


def test_ruspini_medians(ruspini: Distances) -> None:
    expected = {
        1: (4312.152559, "48"),
        2: (2395.804211, "17 42"),
        3: (1619.469760, "17 32 52"),
        4: (861.478111, "10 32 52 70"),  # METHOD prints 861.478112; with 40 digits it is 861.47811109...
        5: (779.684302, "10 32 47 52 70"),
    }
    found = {k: k_median(ruspini, k, runner_up=False) for k in expected}
    assert {k: (round(m.value, 6), " ".join(m.members)) for k, m in found.items()} == expected
    assert round(found[4].value / 75, 6) == 11.486375


def test_ruspini_centres(ruspini: Distances) -> None:
    found = Centres(ruspini)
    radii = [round(found.radius(k), 6) for k in range(1, 6)]
    assert radii == [90.354856, 62.481997, 59.093147, 31.240999, 24.041631]


# certificate


@pytest.mark.parametrize("radius", [1.0, 1.5, 2.0, 2.5, 0.8])
def test_certificate_of_states_stands_the_checker(states: Distances, radius: float) -> None:
    answer = smallest(states.within(radius), range(50))
    assert answer is not None
    found = certificate(states, radius, answer.chosen, range(50))
    assert holds(found, states)
    assert found.size == len(answer.chosen)
    assert all(name in found.text for name in found.packing)
    assert set(found.to_frame()["workload"]) == set(states.names)


def test_a_ring_has_no_packing_that_reaches_but_weights_do() -> None:
    # 5 in a ring, each reaches its two neighbours: 2 are needed; any two share a neighbour, so the packing is 1;
    # every ball holds 3, so weights of 1/3 add up to 5/3 > 1
    steps = np.abs(np.subtract.outer(range(5), range(5)))
    d = distances(np.minimum(steps, 5 - steps), list("abcde"))
    answer = smallest(d.within(1), range(5))
    assert answer is not None
    found = certificate(d, 1, answer.chosen, range(5))
    assert (found.size, len(found.packing), found.proof) == (2, 1, "weights")
    assert sum(found.weights.values()) == pytest.approx(5 / 3, abs=1e-4)
    assert holds(found, d)
    assert "weighs at most 1" in found.text


def test_where_no_hand_proof_exists_the_bound_is_told() -> None:
    # random graphs of 12 (distance 1 along an edge, else 2); among 60 all three kinds of proof occur
    random = np.random.default_rng(5)
    proofs = set()
    for _ in range(60):
        a = np.triu(random.random((12, 12)) < 0.35, 1)
        d = distances(2.0 - (a | a.T) - 2 * np.eye(12), [f"{i:02d}" for i in range(12)])
        answer = smallest(d.within(1), range(12))
        assert answer is not None
        found = certificate(d, 1, answer.chosen, range(12))
        assert len(answer.chosen) == len(brute_covers(d, 1)[0])
        assert holds(found, d)
        proofs.add(found.proof)
        if found.proof == "bound":
            assert "branch and bound" in found.text
    assert proofs == {"packing", "weights", "bound"}


def test_the_checker_rejects_what_is_wrong(states: Distances) -> None:
    from dataclasses import replace

    answer = smallest(states.within(2.0), range(50))
    assert answer is not None
    good = certificate(states, 2.0, answer.chosen, range(50))
    assert holds(good, states)
    assert not holds(replace(good, radius=1.9), states)
    assert not holds(replace(good, packing=("Alaska", "Nevada", "Alabama", "Georgia", "Vermont")), states)
    with pytest.raises(WcbenchError, match="no smallest cover"):
        certificate(states, 2.0, (*answer.chosen, 0), range(50))


# brute force


@few
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8), st.integers(0, 6))
def test_small_problems_against_brute_force(points: list[tuple[int, int]], radius: int) -> None:
    x = np.array(points, float)
    d = distances(cdist(x, x, "cityblock"), [f"{i}" for i in range(len(x))])
    optima = optima_at(d, radius)
    expected = brute_covers(d, radius)
    assert len(optima.covers[0]) == len(expected[0])
    assert optima.covers == tuple(expected)
    near = d.within(radius)
    assert set(core(near, range(len(d)), optima)) == set(expected[0]).intersection(*expected)
    assert len(packing(near, range(len(d)))) == brute_packing(d, radius)
    assert holds(certificate(d, radius, optima.covers[0], range(len(d))), d)
    k = 1 + radius % len(d)
    best = k_median(d, k)
    assert best.value == pytest.approx(brute_median(d, k), abs=1e-9)
    assert p_centre(d, k) == min(
        max(min(row[j] for j in s) for row in d.values) for s in combinations(range(len(d)), k)
    )


@pytest.mark.parametrize("n", [14, 20])
def test_larger_problems_against_brute_force(n: int) -> None:
    random = np.random.default_rng(n)
    x = random.normal(size=(n, 3))
    d = distances(cdist(x, x), [f"{i:02d}" for i in range(n)])
    found, expected = optima_at(d, 2.2), brute_covers(d, 2.2)
    assert set(found.covers) <= set(expected)
    assert len(found.covers) == min(len(expected), cover.CAP)
    assert k_median(d, 4, runner_up=False).value == pytest.approx(brute_median(d, 4), abs=1e-9)


def test_near_optima_of_the_median_are_all_that_brute_force_finds() -> None:
    x = np.random.default_rng(3).normal(size=(12, 2))
    d = distances(cdist(x, x), list("abcdefghijkl"))
    best = k_median(d, 3, near=0.05, cap=50)
    sums = {s: sum(min(row[j] for j in s) for row in d.values) for s in combinations(range(12), 3)}
    expected = {d.called(s) for s, value in sums.items() if value <= min(sums.values()) * 1.05}
    assert {best.members, *(members for _, members in best.others)} == expected
    assert best.complete
    assert len(best.to_frame()) == len(expected)


@few
@given(st.integers(0, 10_000), st.sampled_from([1.5, 2.0, 2.5]))
def test_list_and_programs_choose_the_same(seed: int, radius: float) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(9, 3))
    d = distances(cdist(x, x), list("abcdefghi"))
    costs = random.integers(1, 4, 9).astype(float)
    near = d.within(radius)
    optima = optima_at(d, radius)
    listed = preferred(d.values, optima, costs)
    solved = chosen(d.values, near, range(9), len(listed), costs)

    def rank(s: tuple[int, ...]) -> tuple[float, float]:
        return costs[list(s)].sum(), round(cover.total_distance(d.values, s), 8)

    assert rank(listed) == rank(solved) == min(rank(s) for s in brute_covers(d, radius))


# decisions do not hang on the last bit, nor on the order


def test_the_last_bit_decides_nothing() -> None:
    x = np.array([0, 0.1, 0.2, 0.3, 0.7])
    a = distances(np.abs(np.subtract.outer(x, x)), list("abcde"))
    shaken = np.abs(np.subtract.outer(x, x)) * (1 + 2e-16 * np.arange(25).reshape(5, 5))
    b = distances((shaken + shaken.T) / 2, list("abcde"))
    assert np.array_equal(a.values, b.values)
    # 0.3 - 0.2 is 0.09999999999999998 and 0.2 - 0.1 is 0.1: one radius
    assert a.radii.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert len(a.radii) == 8
    assert a.within(0.1).sum() == 5 + 2 * 3


def test_order_of_rows_changes_nothing(states: Distances) -> None:
    order = np.random.default_rng(0).permutation(50)
    mixed = distances(states.values[np.ix_(order, order)], [states.names[i] for i in order])
    assert mixed.names == states.names
    assert np.array_equal(mixed.values, states.values)


# refused


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        ([[0, 1], [1, 0]], ["a", "a"], "must be unique; these are not: a"),
        ([[0, math.nan], [math.nan, 0]], ["a", "b"], "no numbers .* at: a, b"),
        ([[0, math.inf], [math.inf, 0]], ["a", "b"], "no numbers"),
        ([[0, 1], [2, 0]], ["a", "b"], "symmetric"),
        ([[0, -1], [-1, 0]], ["a", "b"], "not negative"),
        ([[1, 1], [1, 0]], ["a", "b"], "0 between a workload and itself"),
        ([[0, 1], [1, 0]], ["a"], "1 x 1 distances, not 2 x 2"),
        (np.empty((0, 0)), [], "no workloads"),
    ],
)
def test_what_is_no_distances_is_refused(values: list[list[float]], names: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        distances(values, names)


def test_frames_bring_their_names() -> None:
    frame = pd.DataFrame([[0, 1], [1, 0]], index=["b", "a"], columns=["b", "a"])
    assert distances(frame).names == ("a", "b")
    with pytest.raises(UsageError, match="not the same workloads"):
        distances(frame.rename(columns={"a": "c"}))


def test_k_out_of_reach_is_refused() -> None:
    for k in (0, 7):
        with pytest.raises(UsageError, match="cannot be chosen from 6"):
            p_centre(on_line(TOY), k)
        with pytest.raises(UsageError, match="cannot be chosen from 6"):
            k_median(on_line(TOY), k)


def test_names_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="No such workload: zz"):
        on_line(TOY).places(["00", "zz"])


def test_no_candidate_in_reach_is_no_cover() -> None:
    assert smallest(on_line(TOY).within(1), [0, 3]) is None
    assert programs.minimise(np.ones(1), programs.rows((np.ones(1), 2, 3))) is None


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_suites(n: int) -> None:
    d = on_line(range(n))
    assert optima_at(d, 0).covers == (tuple(range(n)),)
    assert Centres(d).radius(n) == 0
    assert k_median(d, n).value == 0
    assert k_median(d, n).runner_up is None


def test_all_duplicates() -> None:
    d = on_line([4, 4, 4])
    assert optima_at(d, 0).covers == ((0,), (1,), (2,))
    assert d.radii.tolist() == [0]
    assert repr(d) == "Distances (3 workloads, largest 0)"
    assert repr(optima_at(d, 0)) == "Optima (3 smallest covers)"


def test_the_cap_is_told() -> None:
    d = on_line([0] * 7)
    found = all_optima(d.within(0), range(7), (0,), cap=3)
    assert (len(found.covers), found.complete) == (3, False)
    assert core(d.within(0), range(7), found) == ()
    lone = on_line([0] * 7 + [9])
    part = all_optima(lone.within(0), range(8), (0, 7), cap=3)
    assert core(lone.within(0), range(8), part) == (7,)


def test_costs_of_any_unit_and_spread_find_the_cheapest_cover() -> None:
    """Two pairs of workloads, one of each pair free to choose: the cheaper of each, whatever the spread of costs."""
    values = np.array([[0, 1, 9, 9, 9], [1, 0, 9, 9, 9], [9, 9, 0, 1, 9], [9, 9, 1, 0, 9], [9, 9, 9, 9, 0]], float)
    near = values <= 1
    for unit in (1e-9, 1.0, 1e13):
        for spread in (2.0, 1e6, 1e12):
            costs = unit * np.array([3.0, 2.0, spread, 5.0, 1.7])
            assert chosen(values, near, range(5), 3, costs) == (1, 3 if spread > 5 else 2, 4)
