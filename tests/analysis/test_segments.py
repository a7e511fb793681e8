"""Byte runs of strided tensors, the cutting of storages, and the addresses of an allocator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.addresses import GRANULE, to_allocator
from wcbench.analysis.segments import NEVER, Accesses, Lifetimes, runs_of, segment

Row = tuple[int, int, int, int, bool]  # op, storage, begin, end, write


def accesses(rows: list[Row]) -> Accesses:
    op, storage, begin, end, write = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 5
    zeros = np.zeros(len(rows), dtype=np.int64)
    fields = {"op": op, "storage": storage, "begin": begin, "end": end, "write": write}
    arrays = {name: np.array(column, dtype=np.int64) for name, column in fields.items()}
    return Accesses(**arrays, weighted=zeros, nbytes=zeros, step=zeros, phase=zeros)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offset", "shape", "stride", "itemsize", "runs"),
    [
        (0, (), (), 4, [(0, 4)]),  # a scalar
        (3, (2, 3), (3, 1), 4, [(12, 36)]),  # contiguous
        (0, (3, 2), (1, 3), 4, [(0, 24)]),  # transposed: the same bytes
        (0, (2, 3), (5, 1), 4, [(0, 12), (20, 32)]),  # a slice of the columns
        (0, (4, 8), (0, 0), 4, [(0, 4)]),  # METHOD 4.3: a scalar expanded to 4 x 8 is one element
        (1, (4, 8), (0, 1), 2, [(2, 18)]),  # a bias expanded over rows
        (0, (5, 3), (1, 1), 4, [(0, 28)]),  # unfold: overlapping windows, 7 elements
        (0, (3, 2), (4, 2), 1, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]),  # every other element
        (0, (2, 2, 2), (16, 10, 1), 1, [(0, 2), (10, 12), (16, 18), (26, 28)]),
        (0, (2, 3, 6), (15, 10, 1), 1, [(0, 6), (10, 31), (35, 41)]),  # two combs that interlock
        (5, (3,), (-1,), 4, [(12, 24)]),  # flipped, as numpy does it: elements 3, 4, 5
        (0, (0, 3), (3, 1), 4, []),  # no elements
        (0, (2, 1), (1, 99), 8, [(0, 16)]),  # the stride of a dimension of size 1 means nothing
        (2**31, (2,), (2**33,), 8, [(2**34, 2**34 + 8), (2**34 + 2**36, 2**34 + 2**36 + 8)]),
    ],
)
def test_runs(
    offset: int, shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int, runs: list[tuple[int, int]]
) -> None:
    found = runs_of(offset, shape, stride, itemsize)
    assert found is not None
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == runs


def test_too_many_runs_are_none() -> None:
    assert runs_of(0, (65, 2), (9, 1), 4) is None
    assert runs_of(0, (64, 2), (9, 1), 4) is not None
    assert runs_of(0, (65, 2), (9, 1), 4, limit=65) is not None
    assert runs_of(0, (10**9, 2), (9, 1), 4) is None  # nothing of that size is laid out


@settings(deadline=None)
@given(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 5), st.integers(-7, 7)), max_size=4))
def test_runs_cover_the_elements_and_nothing_else(offset: int, dims: list[tuple[int, int]]) -> None:
    shape, stride = [n for n, _ in dims], [s for _, s in dims]
    offset += sum(-s * (n - 1) for n, s in dims if s < 0 and n)  # keep every element at or after 0
    found = runs_of(offset, shape, stride, 1, limit=10**6)
    assert found is not None
    covered = [byte for begin, end in zip(*found, strict=True) for byte in range(begin, end)]
    places = itertools.product(*(range(n) for n in shape))
    assert covered == sorted({offset + sum(i * s for i, s in zip(p, stride, strict=True)) for p in places})


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 12), st.integers(0, 12), st.booleans()), max_size=20
).map(lambda rows: sorted(((o, s, min(b, e), max(b, e), w) for o, s, b, e, w in rows), key=lambda row: row[0]))


@settings(deadline=None)
@given(ROWS)
def test_cutting_conserves_bytes(rows: list[Row]) -> None:
    cut = segment(accesses(rows))
    assert cut.size.sum() == sum(end - begin for _, _, begin, end, _ in rows)
    # two touches share a segment as often as accesses share a byte, byte by byte
    touched: dict[tuple[int, int], int] = {}
    for _, storage, begin, end, _ in rows:
        for byte in range(begin, end):
            touched[storage, byte] = touched.get((storage, byte), 0) + 1
    names, counts = np.unique(cut.segment, return_counts=True)
    of = dict(zip(cut.segment.tolist(), cut.size.tolist(), strict=True))
    by_segment = [int(n) for name, n in zip(names, counts, strict=True) for _ in range(of[int(name)])]
    assert sorted(by_segment) == sorted(touched.values())


def test_an_operator_reads_before_it_writes_and_pieces_ascend() -> None:
    cut = segment(accesses([(0, 7, 0, 8, True), (0, 7, 0, 4, False), (1, 7, 2, 6, False)]))
    # cuts at 0 2 4 6 8; the read [0, 4) first, then the write, then operator 1
    assert cut.size.tolist() == [2] * 8
    assert (cut.segment - cut.segment.min()).tolist() == [0, 1, 0, 1, 2, 3, 1, 2]
    assert cut.write.tolist() == [False] * 2 + [True] * 4 + [False] * 2


def test_equal_offsets_of_two_storages_are_two_segments() -> None:
    cut = segment(accesses([(0, 1, 0, 4, False), (0, 2, 0, 4, False), (0, 1, 4, 4, False)]))
    assert len(cut) == 2
    assert len(set(cut.segment.tolist())) == 2


def test_sizes_beyond_32_bits() -> None:
    cut = segment(accesses([(0, 0, 0, 2**40, False), (0, 0, 2**39, 2**41, False)]))
    assert cut.size.tolist() == [2**39, 2**39, 2**39, 2**41 - 2**40]


def test_no_accesses() -> None:
    assert len(segment(accesses([]))) == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 0, 0, 4, False), (0, 0, 0, 4, False)], "program order"),
        ([(0, 0, 5, 4, False)], "ends before it begins"),
        ([(0, 0, -1, 4, False)], "before byte 0"),
    ],
)
def test_impossible_accesses_are_refused(rows: list[Row], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accesses(rows)


def test_columns_of_unequal_length_are_refused() -> None:
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match=r"end has shape \(2,\); op has 1 rows"):
        Accesses(one, one, one, two, one > 0, one > 0, one, one, one.astype(np.int8))


def test_lifetimes_of_unlisted_storages() -> None:
    lives = Lifetimes.of({7: (3, None), 2: (1, 5)})
    names = np.array([2, 3, 7])
    assert lives.lookup(names, "born", -1).tolist() == [1, -1, 3]
    assert lives.lookup(names, "died", NEVER).tolist() == [5, NEVER, NEVER]
    assert Lifetimes.of(None).lookup(names, "born", -1).tolist() == [-1] * 3


def test_addresses_by_hand() -> None:
    """Storage 9 is older than the window; 1 and 2 are next to each other, 3 fits into what both leave."""
    k = GRANULE
    rows = [(0, 9, 0, 10, False), (0, 1, 0, k, True), (1, 2, 0, k + 1, True), (3, 3, 0, 3 * k, True)]
    rows += [(4, 4, 0, 1, True)]
    moved = to_allocator(accesses(rows), {1: (0, 2), 2: (1, 3), 3: (3, None), 4: (4, None)})
    # 9 -> [0, k); 1 -> [k, 2k); 2 takes 2k -> [2k, 4k); freed together [k, 4k); 3 -> [k, 4k); 4 -> [4k, 5k)
    assert moved.begin.tolist() == [0, k, 2 * k, k, 4 * k]
    assert (moved.end - moved.begin).tolist() == [10, k, k + 1, 3 * k, 1]
    assert set(moved.storage.tolist()) == {0}
    assert moved.owner.tolist() == [9, 1, 2, 3, 4]


def test_the_smallest_hole_that_fits_is_taken_and_split() -> None:
    k = GRANULE
    rows = [(0, s, 0, n * k, True) for s, n in [(1, 4), (2, 1), (3, 2), (4, 1)]]
    rows += [(1, 5, 0, k, True), (1, 6, 0, k, True)]
    lives = {1: (0, 1), 2: (0, None), 3: (0, 1), 4: (0, None), 5: (1, None), 6: (1, None)}
    moved = to_allocator(accesses(rows), lives)
    # holes [0, 4k) and [5k, 7k): both fit the smaller one
    assert moved.begin.tolist()[-2:] == [5 * k, 6 * k]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3000)), min_size=1, max_size=25))
def test_storages_alive_together_never_overlap(lives: list[tuple[int, int, int]]) -> None:
    rows = sorted((min(a, b), s, 0, n, True) for s, (a, b, n) in enumerate(lives))
    births = {s: (min(a, b), max(a, b)) for s, (a, b, _) in enumerate(lives) if a != b}
    moved = to_allocator(accesses(rows), births)
    places = dict(zip(moved.owner.tolist(), zip(moved.begin.tolist(), moved.end.tolist(), strict=True), strict=True))
    for one, other in itertools.combinations(places, 2):
        (born, died), (born2, died2) = births.get(one, (-1, NEVER)), births.get(other, (-1, NEVER))
        if born < died2 and born2 < died:
            (low, high), (low2, high2) = places[one], places[other]
            assert high <= low2 or high2 <= low or low == high or low2 == high2
