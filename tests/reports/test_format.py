"""Formatting: expected texts are written by hand."""

from __future__ import annotations

from typing import get_args

import pytest

from wcbench.reports import format as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8_178_000_000, "8.18 GFLOP"),
        (999_600, "1.00 MFLOP"),  # rounding carries into the next prefix
        (999_400, "999 kFLOP"),
        (640, "640 FLOP"),
        (0, "0 FLOP"),
        (3.9e21, "3,900 EFLOP"),  # past the last prefix
        (None, "n/a"),
        (float("nan"), "n/a"),
    ],
)
def test_si(value: float | None, text: str) -> None:
    assert fmt.si(value, "FLOP") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4525, "45.2 %"), (0, "0 %"), (1, "100 %"), (0.0004, "<0.1 %"), (0.9996, ">99.9 %"), (1 - 1e-13, "100 %")],
)
def test_share_never_rounds_something_to_nothing(value: float, text: str) -> None:
    assert fmt.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "12.3 ms"), (0.9999, "1.00 s"), (5e-7, "500 ns"), (3600, "3,600 s"), (0, "0 s"), (None, "n/a")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert fmt.seconds(value) == text


def test_bytes_are_binary() -> None:
    assert fmt.binary_bytes(102_228_128) == "97.5 MiB"  # / 1,048,576 = 97.49
    assert fmt.binary_bytes(512) == "512 B"
    assert fmt.binary_bytes(1_048_575) == "1.00 MiB"


@pytest.mark.parametrize(
    ("median", "q1", "q3", "text", "quartiles"),
    [
        (9.812, 9.6, 10.1, "9.8 ms", "9.6 to 10.1 ms"),  # half a millisecond apart: tenths
        (9.812, 9.80, 9.83, "9.81 ms", "9.80 to 9.83 ms"),  # closer: still three digits at most
        (123.456, 123.41, 123.49, "123 ms", "123 to 123 ms"),
        (100.0, 60.0, 140.0, "100 ms", "60 to 140 ms"),
        (123.4, 91.0, 148.0, "120 ms", "90 to 150 ms"),  # 57 ms apart: tens tell nothing more
        (718.0, 140.0, 736.0, "720 ms", "140 to 740 ms"),  # two digits stay, however wide
        (1500.0, 1400.0, 1700.0, "1.5 s", "1.4 to 1.7 s"),
        (0.25, None, None, "250 µs", ""),
        (None, None, None, "n/a", ""),
    ],
)
def test_digits_follow_the_spread(
    median: float | None, q1: float | None, q3: float | None, text: str, quartiles: str
) -> None:
    spread = fmt.Spread(median, q1, q3)
    assert fmt.spread_ms(spread) == text
    assert fmt.quartiles_ms(spread) == quartiles


def test_a_column_has_one_unit() -> None:
    assert fmt.column([4_120_000, 21_000, 100, 0, None], "time_ns") == fmt.ColumnText(
        "ms", ("4.12", "0.02", "<0.01", "0", "n/a")
    )
    assert fmt.column([0.5, None], "share") == fmt.ColumnText("%", ("50.0", "n/a"))
    assert fmt.column([], "bytes").cells == ()
    assert fmt.column([None], "si", "J").cells == ("n/a",)


def test_a_column_beside_others_takes_their_unit_and_its_own_digits() -> None:
    assert fmt.column([307_000, 0], "time_ns", beside=[3_910_000]) == fmt.ColumnText("ms", ("0.307", "0"))
    assert fmt.column([0], "time_ns", beside=[3_910_000]) == fmt.ColumnText("ms", ("0",))
    assert fmt.column([2], "time_ns", beside=[3.9e9]) == fmt.ColumnText("s", ("<0.00001",))


def test_absent_is_never_zero() -> None:
    kinds = get_args(fmt.Kind)
    assert {fmt.show(None, kind) for kind in kinds} == {"n/a"}
    assert {fmt.column([None], kind).cells for kind in kinds} == {("n/a",)}


def test_counts_stay_exact_and_numbers_get_three_digits() -> None:
    assert fmt.count(25_557_032) == "25,557,032"
    assert fmt.number(6524.0) == "6,520"
    assert fmt.number(1.34) == "1.34"
    assert fmt.number(12345678) == "12,300,000"
    assert fmt.number(2e-9) == "2.00e-09"
    assert fmt.plural(1, "step") == "1 step"
    assert fmt.plural(1024, "sample") == "1,024 samples"


def test_invisible_characters_are_spelled_out() -> None:
    assert fmt.visible("a\u202eb\x00c\x1b\n\ud800\u200b") == "a\\u202eb\\x00c\\x1b\\n\\ud800\\u200b"
    assert fmt.visible("größe 模型 ")[:8] == "größe 模型"
    assert fmt.visible(fmt.visible("\x00")) == "\\x00"


def test_long_names() -> None:
    assert fmt.cut("x" * 1000, 600) == fmt.Cut("x" * 600, 400)
    assert fmt.shorten("short", 10) == "short"
    short = fmt.shorten("begin" + "m" * 10_000 + "ends", 9)
    assert short == "begi…ends"


def test_commands_can_be_pasted() -> None:
    assert fmt.command(["wcbench", "--set", "title=two words"]) == "wcbench --set 'title=two words'"
    assert fmt.command("as it is") == "as it is"


def test_a_column_of_each_has_a_unit_in_every_cell() -> None:
    assert fmt.column([14.3e12, 5.0e6, 0, None], "si_each", "FLOP") == fmt.ColumnText(
        "FLOP", ("14.3 T", "5.00 M", "0", "n/a")
    )
    assert fmt.column([2**40, 2**10, None], "bytes_each") == fmt.ColumnText("", ("1.00 TiB", "1.00 KiB", "n/a"))


def test_a_rate_has_the_digits_of_its_time() -> None:
    """64 samples in 718 ms are 89.136 a second."""
    assert fmt.rate(89.136, fmt.Spread(718.0, 140.0, 736.0)) == "89"
    assert fmt.rate(89.136, fmt.Spread(718.0, 717.8, 718.1)) == "89.1"
    assert fmt.rate(3264.9, fmt.Spread(20.0, 19.0, 21.0)) == "3,300"
    assert fmt.rate(89.136, fmt.Spread(None, None, None)) == "89.1"
    assert fmt.rate(8.9136, fmt.Spread(718.0, 140.0, 736.0)) == "8.9"
    assert fmt.rate(89.136, fmt.Spread(100.0, 99.99, 100.01)) == "89.1"  # 100 ms has three digits here
    assert fmt.rate(None, fmt.Spread(100.0, None, None)) == "n/a"


def test_names_that_are_alike_at_both_ends_show_where_they_differ() -> None:
    names = [f"void at::native::elementwise_kernel<128, 2, {one}>(at::TensorIteratorBase &, const T1 &)::[lambda(int)]"
             for one in ("direct_copy_kernel_cuda", "CUDAFunctor_add<float>")]  # fmt: skip
    assert fmt.shorten(names[0], 60) == fmt.shorten(names[1], 60)
    first, second, third = fmt.apart([*names, "gemm"], 60)
    assert "direct_copy" in first
    assert "CUDAFunctor" in second
    assert third == "gemm"
    assert max(map(len, (first, second))) <= 60
    assert first.startswith("void at::native")
    assert first.endswith("[lambda(int)]")
    assert fmt.apart([names[0], names[0]], 60) == [fmt.shorten(names[0], 60)] * 2  # one kernel twice


def test_more_than_two_names_that_are_alike() -> None:
    """The first differ early, the other two late: one window cannot show both."""
    names = ["a" * 50 + "x" + "b" * 150, "a" * 50 + "y" + "b" * 50 + "1" + "b" * 99, "a" * 50 + "y" + "b" * 150]
    shown = fmt.apart(names, 40)
    assert len(set(shown)) == 3
    assert "x" in shown[0]
    assert "1" in shown[1]
    assert max(map(len, shown)) <= 40
    late = ["a" * 5000 + one + "b" * 5000 for one in "xy"]
    assert [one in text for one, text in zip("xy", fmt.apart(late, 40), strict=True)] == [True, True]


def test_what_cannot_be_told_apart_is_numbered() -> None:
    hidden = ["k" * 20 + "\x00" * 20 + one + "\x00" * 20 + "e" * 20 for one in "xyz"]  # spelled out, x has no room
    shown = fmt.apart(hidden, 12)
    assert len(set(shown)) == 3
    assert [text[-4:] for text in shown[1:]] == [" (2)", " (3)"]
    assert max(map(len, shown)) <= 12
