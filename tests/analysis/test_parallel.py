"""Width and depth of the operator graph by hand."""

from __future__ import annotations

import pytest

from wcbench.analysis.parallel import parallelism


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_chain_is_as_deep_as_it_is_long(length: int) -> None:
    found = parallelism([[i] for i in range(length)], [[i + 1] for i in range(length)], [10] * length)
    assert (found.depth, found.width, found.flops_on_path, found.width_by_flops) == (length, 1.0, 10 * length, 1.0)


def test_independent_operators_are_as_wide_as_they_are_many() -> None:
    found = parallelism([[0]] * 5, [[i + 1] for i in range(5)], [10, 20, 30, 40, 100])
    assert (found.operators, found.depth, found.width) == (5, 1, 5.0)
    assert (found.flops, found.flops_on_path, found.width_by_flops) == (200, 100, 2.0)


def test_a_diamond() -> None:
    found = parallelism([[0], [1], [1], [2, 3]], [[1], [2], [3], [4]], [1, 5, 2, 1])
    assert (found.depth, found.width) == (3, 4 / 3)
    assert (found.flops_on_path, found.width_by_flops) == (7, 9 / 7)


def test_a_writer_waits_for_readers_and_for_the_writer_before() -> None:
    after_read = parallelism([[0], []], [[1], [0]], [1, 1])
    after_write = parallelism([[], []], [[0], [0]], [1, 1])
    assert (after_read.depth, after_write.depth) == (2, 2)
    readers = parallelism([[0], [0], []], [[1], [2], [0]], [1, 1, 1])
    assert readers.depth == 2  # two readers at once, then the writer


def test_in_place_is_a_chain() -> None:
    assert parallelism([[0]] * 4, [[0]] * 4, [1] * 4).depth == 4


def test_nothing_at_all() -> None:
    found = parallelism([], [], [])
    assert (found.operators, found.depth, found.width, found.width_by_flops) == (0, 0, 0.0, None)


def test_no_flops_have_no_width_by_flops() -> None:
    assert parallelism([[0]], [[1]], [0]).width_by_flops is None
