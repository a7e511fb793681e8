"""Unions, intersections and regions by hand, and against sets of single moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.intervals import MOST_GROUPS, Intervals, difference, intersection, regions, union

PAIRS = st.lists(st.tuples(st.integers(-30, 60), st.integers(-5, 25)), max_size=25)


def made(*pairs: tuple[int, int]) -> Intervals:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return union(start, end)


def moments(*pairs: tuple[int, int]) -> set[int]:
    """The whole moments that half-open intervals hold, one by one."""
    return {moment for start, end in pairs for moment in range(start, end)}


def listed(found: Intervals) -> list[tuple[int, int]]:
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_union_by_hand() -> None:
    # 5-9 and 7-12 overlap, 12-13 touches them, 20-20 is empty, 30-29 is turned round
    found = made((20, 20), (7, 12), (5, 9), (12, 13), (30, 29), (40, 41))
    assert listed(found) == [(5, 13), (40, 41)]
    assert found.length == 9


def test_an_interval_inside_a_longer_one_does_not_end_it() -> None:
    assert listed(made((0, 100), (10, 20), (30, 40), (99, 101))) == [(0, 101)]


def test_nothing() -> None:
    assert listed(made()) == []
    assert made((3, 3)).length == 0
    assert listed(intersection(made(), made((1, 2)))) == []
    assert listed(difference(made((1, 2)), made())) == [(1, 2)]
    assert regions({}) == {}
    assert regions({"a": made(), "b": made()}) == {}


def test_intersection_and_difference_by_hand() -> None:
    a, b = made((0, 10), (20, 30)), made((5, 25), (29, 40))
    assert listed(intersection(a, b)) == [(5, 10), (20, 25), (29, 30)]
    assert listed(difference(a, b)) == [(0, 5), (25, 29)]
    assert listed(difference(b, a)) == [(10, 20), (30, 40)]


def test_case_70_regions_of_three_groups_by_hand() -> None:
    # a 0-10, b 4-12, c 8-9 and 20-23: a 0-4, ab 4-8, abc 8-9, ab 9-10, b 10-12, c 20-23
    found = regions({"a": made((0, 10)), "b": made((4, 12)), "c": made((8, 9), (20, 23))})
    assert found == {("a", "b"): 5, ("a",): 4, ("c",): 3, ("b",): 2, ("a", "b", "c"): 1}
    assert next(iter(found)) == ("a", "b")  # the longest first


def test_as_many_groups_as_there_are_bits() -> None:
    groups = {f"g{i}": made((i, i + 2)) for i in range(MOST_GROUPS)}
    found = regions(groups)
    assert sum(found.values()) == MOST_GROUPS + 1
    assert found["g60", "g61"] == 1
    with pytest.raises(ValueError, match="63 groups"):
        regions({**groups, "one too many": made((0, 1))})


@given(PAIRS, PAIRS)
@settings(max_examples=150, deadline=None)
def test_two_sets_against_single_moments(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a = [(start, start + length) for start, length in left]
    b = [(start, start + length) for start, length in right]
    one, two = made(*a), made(*b)
    for found, expected in (
        (one, moments(*a)),
        (intersection(one, two), moments(*a) & moments(*b)),
        (difference(one, two), moments(*a) - moments(*b)),
    ):
        assert moments(*listed(found)) == expected
        assert found.length == len(expected)
        assert (found.start < found.end).all()
        assert (found.end[:-1] < found.start[1:]).all()  # disjoint, in order, none touches the next


@given(st.lists(PAIRS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_regions_against_single_moments(groups: list[list[tuple[int, int]]]) -> None:
    pairs = {f"g{i}": [(s, s + n) for s, n in group] for i, group in enumerate(groups)}
    held = {name: moments(*group) for name, group in pairs.items()}
    expected: dict[tuple[str, ...], int] = {}
    for moment in set().union(*held.values()) if held else set():
        active = tuple(name for name in held if moment in held[name])
        expected[active] = expected.get(active, 0) + 1
    assert regions({name: made(*group) for name, group in pairs.items()}) == expected


def test_large_times_stay_exact() -> None:
    base = 2**62
    assert made((base, base + 3), (base + 1, base + 5)).length == 5
