"""Stack distances: published traces, a naive LRU stack on random ones, and miss-ratio curves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.sampling import distances as sampled_distances
from wcbench.analysis.stack import (
    INFINITE,
    Curve,
    miss_ratio_curve,
    previous_touch,
    stack_distances,
    stack_distances_fenwick,
    unit_distances,
)

INF = INFINITE
BELADY = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]  # Belady, Nelson, Shedler 1969: FIFO's anomaly, LRU beside it
SILBERSCHATZ = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]  # Operating System Concepts, ch. 9


def ints(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def naive(trace: list[int], size: dict[int, int]) -> list[int]:
    """Mattson's own procedure: a list, the newest in front."""
    stack: list[int] = []
    found = []
    for name in trace:
        at = stack.index(name) if name in stack else None
        found.append(INF if at is None else sum(size[other] for other in stack[: at + 1]))
        if at is not None:
            stack.pop(at)
        stack.insert(0, name)
    return found


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("abcabc", [INF, INF, INF, 2, 2, 2]),
        ("abcba", [INF, INF, INF, 1, 2]),
        ("aaaa", [INF, 0, 0, 0]),
        ("abacab", [INF, INF, 1, INF, 1, 2]),
        ("", []),
        ("a", [INF]),
    ],
)
def test_classical_distances(trace: str, expected: list[int]) -> None:
    assert unit_distances(ints([ord(c) for c in trace])).tolist() == expected


@pytest.mark.parametrize(
    ("trace", "faults"),
    [(BELADY, [12, 12, 10, 8, 5]), (SILBERSCHATZ, [20, 17, 12, 8, 7, 6, 6])],
)
def test_published_page_faults(trace: list[int], faults: list[int]) -> None:
    ones = np.ones(len(trace), dtype=np.int64)
    ratios = miss_ratio_curve(stack_distances(ints(trace), ones), ones, range(1, len(faults) + 1))
    assert (ratios * len(trace)).round(9).tolist() == faults


@pytest.mark.parametrize("blocks", [1, 2, 7, 64])
def test_a_cyclic_trace_hits_all_or_nothing(blocks: int) -> None:
    trace = np.tile(np.arange(blocks), 5)
    distances = unit_distances(trace)
    assert (distances[:blocks] == INF).all()
    assert (distances[blocks:] == blocks - 1).all()
    ones = np.ones(len(trace), dtype=np.int64)
    ratio = miss_ratio_curve(distances + (distances < INF), ones, [blocks - 1, blocks])
    assert ratio.tolist() == [1.0, 0.2]


def test_byte_weighted_distances() -> None:
    trace, size = ints([0, 1, 0, 2, 1, 0]), ints([4, 8, 4, 2, 8, 4])
    for distances in (stack_distances(trace, size), stack_distances_fenwick(trace, size)):
        assert distances.tolist() == [INF, INF, 12, INF, 14, 14]
        missed = miss_ratio_curve(distances, size, [8, 12, 14]) * 30
        assert missed.round(9).tolist() == [30, 26, 14]


TRACES = st.lists(st.integers(0, 7), max_size=60)


@settings(deadline=None)
@given(TRACES, st.lists(st.integers(0, 9), min_size=8, max_size=8))
def test_distances_equal_a_naive_stack(trace: list[int], sizes: list[int]) -> None:
    size = dict(enumerate(sizes))
    touched = ints([size[name] for name in trace])
    expected = naive(trace, size)
    assert stack_distances(ints(trace), touched).tolist() == expected
    assert stack_distances_fenwick(ints(trace), touched).tolist() == expected
    unit = [d if d == INF else d - 1 for d in naive(trace, dict.fromkeys(size, 1))]
    assert unit_distances(ints(trace)).tolist() == unit


@pytest.mark.parametrize("touches", [2**10 - 1, 2**10, 2**10 + 1, 5000])  # around the padding to a power of two
def test_the_merge_equals_the_tree_on_long_traces(touches: int) -> None:
    rng = np.random.default_rng(touches)
    trace = rng.zipf(1.3, touches) % 700
    size = rng.integers(1, 2**40, 700)[trace]  # the sum of the sizes is beyond 2^31, the distances with it
    assert np.array_equal(stack_distances(trace, size), stack_distances_fenwick(trace, size))


def test_sizes_may_add_up_past_two_to_the_63() -> None:
    trace, size = np.tile(np.arange(2), 20), np.full(40, 2**60)
    assert set(stack_distances(trace, size)[2:].tolist()) == {2**61}


def test_a_segment_of_two_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        stack_distances(ints([0, 0]), ints([1, 2]))


@settings(deadline=None)
@given(TRACES)
def test_the_miss_ratio_never_rises_with_capacity(trace: list[int]) -> None:
    size = ints([name + 1 for name in trace])
    ratios = miss_ratio_curve(stack_distances(ints(trace), size), size, range(50))
    if trace:
        assert (np.diff(ratios) <= 0).all()
        assert ratios[0] == 1
        distinct = {name: name + 1 for name in trace}
        assert ratios[-1] == pytest.approx(sum(distinct.values()) / size.sum())
    else:
        assert np.isnan(ratios).all()


def test_a_curve_between_and_beyond_its_thresholds() -> None:
    curve = Curve(ints([5, 3, INF, 5]), ints([10, 1, 7, 20]))
    assert curve([0, 2, 3, 4, 5, INF]).tolist() == [38, 38, 37, 37, 7, 7]
    # 31 bytes can be avoided; 3 avoids 1 of them, 5 all
    assert [curve.capacity_for(percent) for percent in (1, 3, 4, 50, 100)] == [3, 3, 5, 5, 5]
    assert Curve(ints([INF]), ints([4])).capacity_for(50) is None


@pytest.mark.parametrize(
    ("skew", "seed", "greatest"), [(1.05, s, 0.02) for s in range(3)] + [(1.2, s, 1) for s in range(4)]
)
def test_sampling_errs_little(skew: float, seed: int, greatest: float) -> None:
    """A loop over large segments among skewed touches of small ones, 200,000 in all; a tenth of the segments kept.

    The loop is a cliff in the curve: all of it hits or nothing. There a small error of a distance is a large one of
    the miss ratio, which is why the stated error comes with a stated shift along the capacities.
    """
    rng = np.random.default_rng(seed)
    trace = (rng.zipf(skew, 200_000) - 1) % 20_000
    trace[::4] = 20_000 + np.arange(50_000) % 900
    sizes = np.where(np.arange(20_900) < 20_000, rng.integers(1, 4096, 20_900), 65_536)
    size = sizes[trace]
    exact = stack_distances(trace, size)
    previous = previous_touch(trace)
    sample = sampled_distances(trace, size, 20_900, previous, 0.1)
    kept = np.unique(trace[sample.scale > 0])
    assert len(kept) == pytest.approx(0.1 * len(np.unique(trace)), rel=0.1)
    found = np.where(previous < 0, INF, sample.distances)
    weights = np.rint(size * sample.scale).astype(np.int64)
    again = previous >= 0
    curve = Curve(found[again], weights[again], int(size[again].sum()), int(size[~again].sum()))
    capacities = np.geomspace(1024, sizes.sum(), 60).astype(np.int64)
    estimate = curve(capacities) / size.sum()
    error = np.abs(estimate - miss_ratio_curve(exact, size, capacities))
    assert error.mean() < 0.02
    assert error.max() < greatest  # the cliff of the more skewed traces lies on one of the capacities
    moved = np.minimum(sample.shift * np.sqrt(sizes[np.unique(trace)].sum() / capacities), 1) * capacities
    low, high = (miss_ratio_curve(exact, size, capacities + sign * moved) for sign in (1, -1))
    assert (estimate < high + 0.01).all()
    assert (estimate > low - 0.01).all()
    assert 0 < sample.error < 0.03
    assert 0 < sample.shift < 0.1


def test_sampling_everything_is_exact() -> None:
    trace = np.arange(1000) % 37
    size = trace + 1
    previous = previous_touch(trace)
    sample = sampled_distances(trace, size, 37, previous, 1.0)
    exact = stack_distances(trace, size)
    assert np.array_equal(np.where(previous < 0, INF, sample.distances), exact)
    assert sample.error == pytest.approx(0, abs=1e-6)
    assert sample.scale == pytest.approx(1)
