"""Numbers and units of Nsight Compute and nvprof; expected values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.profilers.readers import units
from wcbench.profilers.readers.units import COMMA, POINT, ByteBase, NotANumberError, Unit


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("17,301,504", POINT, 17301504.0),
        ("6,400", POINT, 6400.0),
        ("1,024,468,659.04", POINT, 1024468659.04),
        ("65.77", POINT, 65.77),
        ("27.595.520", COMMA, 27595520.0),
        ("117.344", COMMA, 117344.0),
        ("65,77", COMMA, 65.77),
        ("1.234,5", COMMA, 1234.5),
        ("17'301'504", POINT, 17301504.0),
        ("17\u2019301\u2019504.5", POINT, 17301504.5),
        ("17\u202f301\u00a0504", POINT, 17301504.0),
        (" -3 ", POINT, -3.0),
        ("4.2950e+09", POINT, 4.295e9),
    ],
)
def test_numbers_are_read_by_their_decimal_mark(cell: str, mark: str, value: float) -> None:
    assert units.number(cell, mark) == value


@pytest.mark.parametrize("cell", ["", " ", "-", "n/a", "N/A", "nan", "inf", "1e4000", "(!) n/a"])
def test_cells_without_a_number_are_none_and_not_zero(cell: str) -> None:
    assert units.number(cell) is None


@pytest.mark.parametrize(
    "cell",
    ["CachePreferNone", "65,77", "1,73,015", "1_000", "0x10", "٣", "1.2.3", ".", "+", "1" * 65, "12a", "1e", "--1"],
)
def test_text_and_wrongly_grouped_digits_are_no_numbers(cell: str) -> None:
    with pytest.raises(NotANumberError):
        units.number(cell)


def test_the_decimal_mark_is_told_by_the_cells_that_can_be_read_in_one_way() -> None:
    assert units.decimal_mark(["117.344", "27.595.520", "65,77"]) == units.Marks(COMMA, doubtful=False)
    assert units.decimal_mark(["6,400", "17,301,504", "65.77"]) == units.Marks(POINT, doubtful=False)
    assert units.decimal_mark(["117.344"]) == units.Marks(POINT, doubtful=True)
    assert units.decimal_mark(["6,400", "12"]) == units.Marks(POINT, doubtful=False)
    assert units.decimal_mark(["0.125", "12", "CachePreferNone"]) == units.Marks(POINT, doubtful=False)
    assert units.decimal_mark([]) == units.Marks(POINT, doubtful=False)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("nsecond", Unit("ns")),
        ("ns", Unit("ns")),
        ("usecond", Unit("ns", 1e3)),
        ("us", Unit("ns", 1e3)),
        ("msecond", Unit("ns", 1e6)),
        ("second", Unit("ns", 1e9)),
        ("byte", Unit("B")),
        ("Kbyte", Unit("B", 1e3)),
        ("Mbyte", Unit("B", 1e6)),
        ("Gbyte/second", Unit("B/s", 1e9)),
        ("byte/s", Unit("B/s")),
        ("Kbyte/block", Unit("B/block", 1e3)),
        ("cycle/nsecond", Unit("Hz", 1e9)),
        ("cycle/usecond", Unit("Hz", 1e6)),
        ("cycle/second", Unit("Hz")),
        ("Ghz", Unit("Hz", 1e9)),
        ("hz", Unit("Hz")),
        ("sector/second", Unit("sector/s")),
        ("inst/cycle", Unit("inst/cycle")),
        ("register/thread", Unit("register/thread")),
        ("%", Unit("%")),
        ("", Unit("")),
        ("furlong", Unit("furlong")),
    ],
)
def test_units_of_nsight_compute(text: str, unit: Unit) -> None:
    assert units.ncu_unit(text) == unit


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("gpu__time_duration.sum", "ns"),
        ("dram__bytes.sum", "B"),
        ("dram__bytes_read.sum.per_second", "B/s"),
        ("sm__cycles_elapsed.avg", "cycle"),
        ("sm__cycles_elapsed.avg.per_second", "Hz"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("l1tex__t_sector_hit_rate.pct", "%"),
        ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", "%"),
        ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio", ""),
        ("sm__inst_executed.avg.per_cycle_active", ""),
        ("sm__inst_executed.sum", ""),
    ],
)
def test_base_units_by_a_metrics_name(metric: str, unit: str) -> None:
    assert units.ncu_base_unit(metric) == unit


@pytest.mark.parametrize(
    ("cell", "base", "value", "unit"),
    [
        ("929ns", 1024, 929.0, "ns"),
        ("2.1760us", 1024, 2176.0, "ns"),
        ("3.70190s", 1024, 3.7019e9, "ns"),
        ("1.0625KB", 1024, 1088.0, "B"),
        ("8.1920KB", 1000, 8192.0, "B"),
        ("0B", 1024, 0.0, "B"),
        ("1.5GB/s", 1000, 1.5e9, "B/s"),
        ("1.5GB/s", 1024, 1.5 * 2**30, "B/s"),
        ("22.92%", 1024, 22.92, "%"),
        ("Low (1)", 1024, 1.0, "level"),
        ("Idle (0)", 1024, 0.0, "level"),
        ("Max (10)", 1024, 10.0, "level"),
        ("3611549214", 1024, 3611549214.0, ""),
        ("-", 1024, None, ""),
    ],
)
def test_cells_of_nvprof_carry_their_units(cell: str, base: int, value: float | None, unit: str) -> None:
    found = units.nvprof_cell(cell, base)
    assert found[1] == unit
    assert found[0] == (None if value is None else pytest.approx(value, rel=1e-12))


def test_a_row_of_units_gives_cells_their_unit_and_an_empty_cell_stays_absent() -> None:
    assert units.nvprof_cell("1.5", 1024, "ms") == (1.5e6, "ns")
    assert units.nvprof_cell("", 1024, "KB") == (None, "B")
    with pytest.raises(NotANumberError):
        units.nvprof_cell("cudaMalloc", 1024, "us")


# Figures of copies as real traces print them: 409600 and 4194300 B in powers of 1000, 1028, 786432 and 4 B of 1024.
@pytest.mark.parametrize(
    ("size", "nanoseconds", "rate", "base"),
    [
        ((409.60, "KB"), 135.78e3, (3.0167, "GB/s"), 1000),
        ((4.1943, "MB"), 702.00e3, (5.9748, "GB/s"), 1000),
        ((1.003906, "KB"), 1568.0, (0.610586, "GB/s"), 1024),
        ((768.0, "KB"), 72703.0, (10.074, "GB/s"), 1024),
        ((4.0, "B"), 640.0, (5.9605, "MB/s"), 1024),
        ((5.0, "GB"), 1e9, (5.0, "GB/s"), None),
        ((5.0, "KB"), 1e3, (99.0, "GB/s"), None),
    ],
)
def test_copies_tell_how_many_bytes_a_kilobyte_is(
    size: tuple[float, str], nanoseconds: float, rate: tuple[float, str], base: int | None
) -> None:
    found = ByteBase()
    found.copy(size, nanoseconds, rate)
    assert found.base == base


@pytest.mark.parametrize(
    ("cell", "unit", "base"),
    [
        ("8.1920KB", "", 1000),  # 8192 B; 8388.608 of 1024
        ("1.0625KB", "", 1024),  # 1088 B; 1062.5 of 1000
        ("1.1152KB", "", 1024),  # 1142 B = 1.11523 * 1024; 1115.2 of 1000
        ("1.062500", "KB", 1024),
        ("4.0000KB", "", None),  # whole in both
        ("512B", "", None),
    ],
)
def test_shared_memory_tells_too(cell: str, unit: str, base: int | None) -> None:
    found = ByteBase()
    found.shared(cell, unit)
    assert found.base == base


def test_whole_numbers_that_cannot_be_are_absent() -> None:
    assert units.whole_ns(1.6) == 2
    assert [units.whole_ns(x) for x in (-1.0, 1e19, math.inf, math.nan, None)] == [None] * 5
    assert [units.whole(x) for x in (3.0, 3.5, -3.0, 1e300, None)] == [3, None, None, None, None]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.sampled_from([POINT, COMMA]))
def test_any_text_is_a_number_none_or_refused(text: str, mark: str) -> None:
    for read in (lambda: units.number(text, mark), lambda: units.nvprof_cell(text, 1024)[0]):
        try:
            value = read()
        except NotANumberError:
            continue
        assert value is None or math.isfinite(value)
    units.ncu_unit(text)
    units.decimal_mark([text])
    ByteBase().shared(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**15), st.integers(0, 99))
def test_grouped_numbers_are_read_back(whole: int, cents: int) -> None:
    english = f"{whole:,}.{cents:02d}"
    assert units.number(english) == float(f"{whole}.{cents:02d}")
    german = english.translate(str.maketrans(",.", ".,"))
    assert units.number(german, COMMA) == units.number(english)
