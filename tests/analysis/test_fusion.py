"""Greedy pointwise fusion by hand, and that it never moves more than the eager stream."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from wcbench.analysis.fusion import FusibleOp, fuse


def op(reads: str, writes: str, elements: int = 10, *, pointwise: bool = True) -> FusibleOp:
    """An operator on storages named by letters, 4 bytes an element."""
    nbytes = 4 * elements
    return FusibleOp(pointwise, elements, {ord(c): nbytes for c in reads}, {ord(c): nbytes for c in writes})


def kept(names: str) -> list[int]:
    return [ord(c) for c in names]


def test_a_chain_becomes_one_kernel() -> None:
    found = fuse([op("a", "b"), op("b", "c"), op("c", "d")], kept("d"))
    assert (found.operators, found.bytes_read, found.bytes_written) == (1, 40, 40)
    assert found.groups == ((0, 1, 2),)
    assert found.bytes == 80


def test_a_product_between_parts_them() -> None:
    """The product reads b, so b's group must have run; what follows joins nobody."""
    found = fuse([op("a", "b"), op("b", "c", pointwise=False), op("c", "d"), op("bd", "e")], kept("e"))
    assert found.groups == ((2, 3),)
    assert found.operators == 3
    assert found.bytes_read == 40 + 40 + (40 + 40)  # a; b; c and b
    assert found.bytes_written == 40 + 40 + 40  # b, c and e; d stays inside


def test_not_across_a_reader_of_the_output() -> None:
    found = fuse([op("a", "b"), op("b", "s", 1, pointwise=False), op("b", "c")], kept("cs"))
    assert found.groups == ()
    assert found.operators == 3


def test_another_number_of_elements_does_not_join() -> None:
    found = fuse([op("a", "b", 10), op("b", "c", 20)], kept("c"))
    assert found.operators == 2
    assert found.groups == ()


def test_in_place_joins_and_is_written_once() -> None:
    found = fuse([op("ax", "a"), op("a", "a"), op("a", "a")], kept("a"))
    assert (found.operators, found.bytes_read, found.bytes_written) == (1, 80, 40)


def test_what_outlives_the_step_is_written_though_nobody_reads_it() -> None:
    chain = [op("a", "b"), op("b", "c")]
    assert fuse(chain, kept("bc")).bytes_written == 80
    assert fuse(chain, kept("c")).bytes_written == 40
    assert fuse(chain, ()).bytes_written == 0


def test_a_writer_of_an_input_closes_the_group() -> None:
    """x is overwritten between the two, so the group cannot run where its second member stands."""
    found = fuse([op("ax", "b"), op("z", "x", pointwise=False), op("b", "c")], kept("cx"))
    assert found.groups == ()


def test_two_groups_meet_in_the_later_one() -> None:
    found = fuse([op("a", "b"), op("c", "d"), op("bd", "e")], kept("e"))
    assert found.groups == ((1, 2),)
    assert (found.bytes_read, found.bytes_written) == (40 + 40 + 40, 40 + 40)


def test_nothing_at_all() -> None:
    found = fuse([], ())
    assert (found.operators, found.bytes, found.groups) == (0, 0, ())
    assert "0 kernels" in repr(found)


SIZES = st.dictionaries(st.integers(0, 6), st.integers(1, 100), max_size=3)
OPS = st.lists(st.builds(FusibleOp, st.booleans(), st.sampled_from([1, 2]), SIZES, SIZES), max_size=12)


def moved(sides: Mapping[int, int]) -> int:
    return sum(sides.values())


@given(OPS, st.sets(st.integers(0, 6)))
def test_it_never_moves_more_and_loses_no_operator(ops: list[FusibleOp], needed: set[int]) -> None:
    found = fuse(ops, needed)
    assert found.bytes_read <= sum(moved(o.reads) for o in ops)
    assert found.bytes_written <= sum(moved(o.writes) for o in ops)
    assert found.operators == len(ops) - sum(len(group) - 1 for group in found.groups)
    members = [i for group in found.groups for i in group]
    assert len(set(members)) == len(members)
    assert all(ops[i].pointwise for i in members)
