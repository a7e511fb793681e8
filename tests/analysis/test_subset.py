"""The subset: verdicts, curve, costs, constraints, ties, and r*."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from tests.analysis import oracles
from wcbench.analysis.constraints import at_most, having, without
from wcbench.analysis.cover import Distances, distances
from wcbench.analysis.medians import Centres
from wcbench.analysis.subset import choose, choose_in, r_star
from wcbench.analysis.table import Feature, FeatureTable, Space
from wcbench.errors import UsageError

TOY = (0, 1, 2, 10, 11, 20)
NAMES = list("abcdef")
COSTS = dict(zip(NAMES, (5.0, 1, 5, 3, 1, 2), strict=True))


def on_line(x: Sequence[float], names: Sequence[str] = NAMES) -> Distances:
    return distances(np.abs(np.subtract.outer(x, x)).astype(float), names)


@pytest.fixture(scope="module")
def clouds() -> Distances:
    """Three far clouds of 4, 3 and 2, and one alone."""
    x = np.array([[0, 0], [2, 0], [0, 2], [-2, -1], [50, 0], [52, 0], [50, 3], [0, 60], [2, 60], [70, 70]], float)
    return distances(cdist(x, x), [f"w{i}" for i in range(10)])


def test_who_covers_whom(clouds: Distances) -> None:
    found = choose(clouds, 2.9)
    # 2.9 reaches 2 but not 3: w0 covers w1, w2, w3 (2.24); w4 covers w5; w6 alone; w7 or w8; w9 alone
    # ties go by mean distance, all equal here, then by name
    assert found.members == ("w0", "w4", "w6", "w7", "w9")
    assert len(found.optima) == 4
    assert found.optima_complete
    assert found.core == ("w0", "w6", "w9")
    frame = found.to_frame().set_index("workload")
    assert frame["covered_by"].to_dict() == dict(
        zip(clouds.names, ["w0"] * 4 + ["w4"] * 2 + ["w6", "w7", "w7", "w9"], strict=True)
    )
    assert frame.loc["w3", "distance"] == pytest.approx(math.sqrt(5))
    assert frame.loc["w4", "share_of_optima"] == 0.5
    assert frame.loc["w0", "share_of_optima"] == 1
    assert frame.loc["w1", "within_r"] == "w0"
    assert found.reached == pytest.approx(math.sqrt(5))
    assert found.median_neighbour == pytest.approx(
        np.median([2, 2, 2, math.sqrt(5), 2, 2, 3, 2, 2, math.sqrt(70**2 + 20**2)])
    )
    assert not found.distinguishable  # 2.9 is above 2
    assert found.verdict.startswith("Not distinguishable with these features: the radius 2.9")
    assert repr(found).startswith("Subset: Not distinguishable")


def test_a_plain_answer(clouds: Distances) -> None:
    found = choose(clouds, 1.9)
    assert found.distinguishable
    assert found.verdict == "All 10 workloads are needed: no two lie within r = 1.9 of each other."
    near = on_line([0, 1, 10, 20, 30, 40])
    some = choose(near, 1.0)
    assert some.verdict == "5 of 6 workloads are needed, and no fewer, to cover all at r = 1."
    assert some.members == ("a", "c", "d", "e", "f")
    assert "proof by packing; cost saved not known: no costs were given" in repr(some)


def test_r_star_at_the_median_neighbour_does_not_distinguish() -> None:
    assert not choose(on_line(TOY), 1).distinguishable
    assert choose(on_line(TOY), 0.999).distinguishable
    assert not choose(on_line(TOY), 1 - 1e-12).distinguishable


def test_toy_line_curve() -> None:
    found = choose(on_line(TOY), 1, costs=COSTS, cost_of="FLOPs of a step", cost_unit="FLOP")
    assert found.members == ("b", "e", "f")
    curve = found.curve
    assert curve["k"].tolist() == [1, 2, 3, 4, 5, 6]
    assert curve["radius"].tolist() == [10, 9, 1, 1, 1, 0]
    assert curve["needed"].tolist() == [1, 2, 3, 3, 3, 6]
    # 1: only d reaches 10; 2: the cheapest of 5 pairs is b, e (2); 3: b, e, f (4); 4: one more, the cheapest is d (3)
    assert curve["members"].tolist()[:4] == [("d",), ("b", "e"), ("b", "e", "f"), ("b", "d", "e", "f")]
    assert curve["cost"].tolist() == [3, 2, 4, 7, 12, 17]
    assert curve["mean_distance"].tolist()[:3] == pytest.approx([38 / 6, 12 / 6, 3 / 6])
    assert found.curve_complete
    assert found.cost_saved == pytest.approx(1 - 4 / 17)
    assert "saves 76.5 % of FLOPs of a step (FLOP)" in repr(found)
    assert not choose(on_line(TOY), 1, curve=2).curve_complete


def test_a_missing_cost_is_told_and_breaks_no_tie() -> None:
    found = choose(on_line(TOY), 1, costs={name: cost for name, cost in COSTS.items() if name != "c"})
    assert found.cost_saved is None
    assert found.cost_reason == "no cost of 0 or more of c"
    assert found.members == ("b", "d", "f")  # by name
    assert found.table["cost"].isna().all()


def test_usarrests_curve_is_the_p_centre() -> None:
    names, x = oracles.usarrests()
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    found = choose(distances(cdist(z, z), names), 2.5, curve=6, cap=10)
    assert found.curve["radius"].round(6).tolist() == [3.300185, 2.299224, 2.295229, 2.058089, 1.729373, 1.514674]
    assert found.curve["members"][0] == ("Virginia",)
    assert found.core == ("Maryland",)
    assert len(found.optima) == 3
    assert found.median is not None
    assert found.median.members == ("Nebraska", "New Mexico")


def test_every_size_of_the_curve_is_a_cover_of_that_size_and_no_smaller_radius_has_one(clouds: Distances) -> None:
    curve = choose(clouds, 1.9).curve
    for row in curve.itertuples():
        places = clouds.places(row.members)
        assert len(places) == row.k
        assert clouds.values[:, places].min(axis=1).max() == pytest.approx(row.radius)
        assert row.needed == Centres(clouds).size_at(
            [round(r, 9) for r in Centres(clouds).radii].index(round(row.radius, 9))
        )
    assert (np.diff(curve["radius"]) <= 0).all()


def test_radius_zero_keeps_all_but_duplicates_which_are_named() -> None:
    found = choose(on_line([0, 0, 5, 9, 14, 20]), 0, costs=COSTS)
    assert found.verdict == "At r = 0 every workload is kept but exact duplicates: 5 of 6."
    assert found.members == ("b", "c", "d", "e", "f")  # b is cheaper than a
    assert found.ties == (("a", "b"),)
    assert "alike (distance 0): a, b" in repr(found)
    assert choose(on_line(TOY), 0).members == tuple(NAMES)


def test_duplicates_are_ties_at_any_radius() -> None:
    found = choose(on_line([3, 3, 3, 9, 9, 20]), 1)
    assert found.ties == (("a", "b", "c"), ("d", "e"))
    assert len(found.optima) == 6
    assert not found.distinguishable  # the median neighbour is a twin


# constraints


def test_members_must_have_a_property_but_all_are_covered() -> None:
    metric: Mapping[str, bool | None] = {"a": True, "b": False, "c": True, "d": True, "e": None, "f": True}
    found = choose(on_line(TOY), 2, constraints=[having("a widely accepted metric", metric)])
    assert found.members == ("a", "d", "f")
    assert found.refused == {"b": "a widely accepted metric: no", "e": "a widely accepted metric: not known"}
    assert found.uncovered == ()
    assert found.certificate.candidates == 4
    assert found.curve["k"].max() == 4
    assert found.median is not None
    assert not set(found.median.members) & {"b", "e"}
    assert "members must be: a widely accepted metric" in repr(found)


def test_variation_under_a_limit_and_by_name() -> None:
    variation = {"a": 0.01, "b": 0.05, "c": math.nan, "d": 0.02, "e": None}
    found = choose(on_line(TOY), 9, constraints=[at_most("variation", variation, 0.02), without(["a"])])
    assert found.members == ("d",)
    assert set(found.refused) == {"a", "b", "c", "e", "f"}
    assert found.refused["b"] == "variation at most 0.02: 0.05"
    assert found.refused["f"] == "variation at most 0.02: not known"
    assert found.uncovered == ("a", "f")  # 10 away
    assert "no permitted member within r*: a, f" in repr(found)
    assert found.table.set_index("workload")["covered_by"].isna()["a"]
    assert found.certificate.workloads == 4


def test_uncovered_workloads_are_named_first_where_they_can_be_told_apart() -> None:
    found = choose(on_line([0, 10, 20, 30, 40, 50]), 1, constraints=[without(["c"])])
    assert found.verdict.startswith("1 of 6 workloads have no permitted member within r = 1: c. For the others 5")


def test_nobody_may_be_a_member() -> None:
    with pytest.raises(UsageError, match="No workload meets the conditions on members: not a, b, c, d, e, f"):
        choose(on_line(TOY), 1, constraints=[without(NAMES)])


# small, odd and other input


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf])
def test_no_radius(radius: float) -> None:
    with pytest.raises(UsageError, match="at least 0"):
        choose(on_line(TOY), radius)


def test_suites_of_one_two_and_three() -> None:
    one = choose(on_line([7], "a"), 1)
    assert (one.members, one.verdict) == (("a",), "There is one workload: nothing to choose.")
    assert math.isnan(one.median_neighbour)
    assert choose(on_line([0, 5], "ab"), 1).members == ("a", "b")
    assert not choose(on_line([0, 5], "ab"), 5).distinguishable
    assert choose(on_line([0, 5, 6], "abc"), 0.5).members == ("a", "b", "c")


def test_principal_components_tell_the_radius_there_too() -> None:
    d = on_line([0, 1, 10, 20, 30, 40])
    half = pd.DataFrame(d.values / 2, index=d.names, columns=d.names)
    found = choose(d, 1, pcs=half.sample(frac=1, random_state=1))
    assert found.reached_in_pcs == 0.5
    assert found.curve["radius_in_pcs"].tolist() == pytest.approx(found.curve["radius"] / 2)
    with pytest.raises(UsageError, match="Principal components lack: a"):
        choose(d, 1, pcs=half.drop(index="a"))


def test_in_a_space_with_the_costs_of_its_table_whatever_the_order() -> None:
    points = pd.DataFrame({"x": [0.0, 1, 2, 10, 11, 20], "y": 0.0}, index=NAMES)
    table = FeatureTable(points, (Feature("x", "", "none", "x"),), costs=COSTS, cost_of="GPU hours", cost_unit="h")
    spaces = [
        Space(p, ("x", "y"), {}, np.zeros(2), np.ones(2)) for p in (points, points.sample(frac=1, random_state=3))
    ]
    a, b = (choose_in(space, 1, table=table, pcs=points[["x"]]) for space in spaces)
    assert a.members == b.members == ("b", "e", "f")
    assert repr(a) == repr(b)
    assert a.certificate == b.certificate
    pd.testing.assert_frame_equal(a.to_frame(), b.to_frame())
    pd.testing.assert_frame_equal(a.curve, b.curve)
    assert a.reached_in_pcs == 1


# r*


def changes(found: Sequence[float]) -> pd.DataFrame:
    rows = [(f"w{i % 3}", ("batch", "length")[i % 2], value) for i, value in enumerate(found)]
    return pd.DataFrame(rows, columns=["workload", "change", "distance"])


def test_r_star_is_the_95_percent_quantile() -> None:
    found = r_star(changes([*range(1, 21), math.nan]))
    # position 0.95 * 19 = 18.05 between 19 and 20
    assert found.value == pytest.approx(19.05)
    assert found.left_out == 1
    assert found.workloads == ("w0", "w1", "w2")
    assert not r_star(changes(range(21))).few
    assert found.few
    frame = found.to_frame().set_index("change")
    assert frame["distances"].to_dict() == {"batch": 10, "length": 10}
    assert frame["median"].to_dict() == {"batch": 10, "length": 11}
    assert frame["beyond"].to_dict() == {"batch": 0, "length": 0.1}
    assert "95 % quantile of 20 distances of 3 workloads" in repr(found)
    assert "1 changes without a distance are left out" in repr(found)


def test_r_star_of_what_never_moves_is_zero() -> None:
    assert r_star(changes([0, 0, 0])).value == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changes([]), "r\\* cannot be told"),
        (changes([math.nan]), "r\\* cannot be told"),
        (changes([1, math.inf]), "No distance: inf"),
        (changes([-1]), "No distance: -1"),
        (changes([1]).drop(columns="change"), "lacks: change"),
    ],
)
def test_no_r_star(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        r_star(table)
