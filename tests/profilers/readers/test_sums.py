"""Sums whose columns contradict each other; by hand: 4 calls, 1000 ns in all, 100 to 400 ns each."""

from __future__ import annotations

import pytest

from wcbench.profilers.readers.sums import NONE, Printed, Sums, agreed, printed


def p(value: float | None) -> Printed:
    return NONE if value is None else Printed(value, 1.0)


def test_what_agrees_is_kept() -> None:
    found = agreed(4, p(1000), p(250), p(100), p(400), median=p(240), deviation=p(110))
    assert found == Sums(250, 100, 400, 240, 110)


def test_what_is_missing_contradicts_nothing() -> None:
    assert agreed(4, p(1000), p(None), p(None), p(None)) == Sums(None, None, None, None, None)


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ((250, 100, 0.4), ("greatest",)),  # printed in us, said to be ns
        ((250, 100_000, 400), ("least",)),
        ((250, 100, 400_000), ("greatest",)),  # one call cannot take longer than all
        ((0.25, 100, 400), ("mean",)),
        ((250, 249, 251.5), ()),
        ((250, 240, 252), ()),
        ((250, 10, 252), ("least", "greatest")),  # 10 and three times 252 are no 1000
    ],
)
def test_what_contradicts_the_rest_is_left_out(columns: tuple[float, float, float], left: tuple[str, ...]) -> None:
    found = agreed(4, p(1000), *map(p, columns))
    assert found is not None
    assert found.left == left
    values = dict(zip(("mean", "least", "greatest"), columns, strict=True))
    assert {name: getattr(found, name) for name in values} == {n: None if n in left else v for n, v in values.items()}


@pytest.mark.parametrize(
    "columns",
    [(1e6, 250, 100, 400), (1000, 500, None, None), (1000, 500, 100, 600), (1e6, None, 100, 400)],
)
def test_a_total_that_nothing_confirms_is_none(columns: tuple[float | None, ...]) -> None:
    assert agreed(4, *map(p, columns)) is None


def test_digits_that_were_not_printed_are_no_contradiction() -> None:
    total, mean = printed(3e6, "0.003", 1e9), printed(1.2e6, "1.2", 1e6)  # 3.4 ms may be 3 ms
    assert total.step == pytest.approx(1e6)
    assert agreed(3, total, mean, NONE, NONE) is not None
    assert agreed(3, printed(3e6, "3.000000", 1e6), printed(1.2e6, "1.200000", 1e6), NONE, NONE) is None
    assert printed(1e9, "1.23E+09", 1.0).step == pytest.approx(1e7)
    assert printed(1234.5, "1.234,5", 1.0, ",").step == pytest.approx(0.1)
