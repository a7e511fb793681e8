"""Nsight Compute's files: CSV long and wide, pivots, text. Expected values by hand or by plain csv."""

from __future__ import annotations

import contextlib
import csv
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profilers.readers.conftest import Run
from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers import ncu_launches, ncu_layout
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.ncu import UNNAMED, NcuCsv, NcuPivot
from wcbench.profilers.readers.ncu_text import NcuText

OLD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream")
NEW = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)
VALUE = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULES = ("Rule Name", "Rule Type", "Rule Description")


def line(*cells: object) -> str:
    return ",".join('"' + str(cell).replace('"', '""') + '"' for cell in cells)


def old(number: int, kernel: str, metric: str, unit: str, value: str, *, process: int = 9) -> str:
    """A row of a metric in the layout of up to 2022.1 with rules: two fields short, with a comma at its end."""
    return line(number, process, "py", "h", kernel, "2023-May-09 15:12:33", 1, 7, "S", metric, unit, value) + ","


def new(number: int, kernel: str, metric: str, unit: str, value: str, *, device: int = 0) -> str:
    who = (number, 9, "py", "h", kernel, 1, 7, "(256, 1, 1)", "(864, 2, 1)", device, "8.0")
    return line(*who, "S", metric, unit, value)


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


OLD_HEADER = line(*OLD, *VALUE, *RULES)
NEW_HEADER = line(*NEW, *VALUE)
LONG = text(
    "==PROF== Connected to process 9 (/usr/bin/python)",
    "epoch 1, loss 0.5",
    '==PROF== Profiling "k" - 0: 0%....50%....100% - 10 passes',
    NEW_HEADER,
    new(0, "void k<float, 4>(float *)", "gpu__time_duration.sum", "nsecond", "6,400"),
    new(0, "void k<float, 4>(float *)", "dram__bytes.sum", "Mbyte", "17.50"),
    new(0, "void k<float, 4>(float *)", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "58.78"),
    new(0, "void k<float, 4>(float *)", "launch__registers_per_thread", "register/thread", "38"),
    new(0, "void k<float, 4>(float *)", "launch__shared_mem_per_block_static", "byte/block", "1,024"),
    new(0, "void k<float, 4>(float *)", "launch__shared_mem_per_block_dynamic", "byte/block", "16"),
    new(1, "reduce", "gpu__time_duration.sum", "usecond", "1.50", device=1),
    new(1, "reduce", "dram__bytes.sum", "byte", "n/a", device=1),
    "==PROF== Disconnected from process 9",
)


def test_long_rows_become_launches_and_values_in_the_records_units(run: Run) -> None:
    found = run(NcuCsv(), LONG)
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert kernels["name"].tolist() == ["void k<float, 4>(float *)", "reduce"]
    assert kernels["duration_ns"].tolist() == [6400, 1500]
    assert kernels["device"].tolist() == ["cuda:0", "cuda:1"]
    assert kernels["stream"].tolist() == [7, 7]
    assert kernels["grid"].tolist()[0].tolist() == [864, 2, 1]
    assert kernels["block"].tolist()[0].tolist() == [256, 1, 1]
    assert kernels["registers"].tolist()[0] == 38
    assert kernels["shared_bytes"].tolist()[0] == 1024 + 16
    assert kernels["start_ns"].isna().all()
    assert set(kernels["phase"]) == {"other"}
    assert set(kernels["pass"]) == {"counters"}
    assert counters["kernel"].tolist() == [0] * 6 + [1] * 2
    assert counters["calls"].isna().all()  # each value is of the one launch that it points at
    assert counters["value"].tolist()[:3] == [6400.0, 17.5e6, 58.78]
    assert counters["unit"].tolist()[:3] == ["ns", "B", "%"]
    assert counters["value"].isna().tolist() == [False] * 7 + [True]
    assert found.passes["counters"].device == "cuda:0"
    assert not found.losses


def test_rows_two_fields_short_of_rule_columns_are_whole_and_durations_are_derived(run: Run) -> None:
    content = text(
        "==WARNING== Unable to access the following 6 metrics: ctc__rx_bytes_data_user.sum.",
        OLD_HEADER,
        old(0, "k", "sm__cycles_elapsed.avg", "cycle", "12,096.93"),
        old(0, "k", "sm__cycles_elapsed.avg.per_second", "cycle/second", "1,024,468,659.04"),
        line(
            0, 9, "py", "h", "k", "2023-May-09 15:12:33", 1, 7, "Occupancy", "", "", "", "Occupancy", "WRN", "Low, so"
        ),
        old(0, "k", "Function Cache Configuration", "", "CachePreferNone"),
    )
    found = run(NcuCsv(), "\ufeff" + content.replace("\n", "\r\n"))
    # 12096.93 / 1024468659.04 s = 11.80800 us
    assert found.tables["kernels"]["duration_ns"].tolist() == [11808]
    assert found.tables["kernels"]["device"].tolist() == ["cuda"]
    assert len(found.tables["counters"]) == 2
    assert any("1 of 1 launches have no measured duration" in note for note in found.notes)
    assert {(loss.what, loss.count) for loss in found.losses} == {("a rule", 1), ("a value", 1)}


def test_a_launch_without_a_duration_has_values_and_no_row_among_kernels(run: Run) -> None:
    found = run(NcuCsv(), text(NEW_HEADER, new(0, "k", "dram__bytes.sum", "byte", "128")))
    assert "kernels" not in found.tables
    row = found.tables["counters"].iloc[0]
    assert (row["name"], row["calls"], row["value"]) == ("k", 1, 128.0)
    assert row.isna()["kernel"]
    assert any("have no duration" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "nanoseconds"),
    [
        ([("gpu__time_duration.sum", "ns", "100"), ("Duration", "us", "9.99")], 100),
        ([("gpu__time_duration.avg", "us", "0.25")], 250),
        ([("Duration", "usecond", "14.46")], 14460),
        ([("Elapsed Cycles", "cycle", "15,606"), ("SM Frequency", "cycle/nsecond", "1.00")], 15606),
        ([("gpu__time_duration.sum", "ns", "-5")], None),
        ([("gpu__time_duration.sum", "ns", "1e400")], None),
        ([("gpu__time_duration.sum", "second", "1e15")], None),
        ([("sm__cycles_elapsed.avg", "cycle", "5"), ("sm__cycles_elapsed.avg.per_second", "hz", "0")], None),
    ],
)
def test_durations_by_what_the_file_has(run: Run, given: list[tuple[str, str, str]], nanoseconds: int | None) -> None:
    found = run(NcuCsv(), text(NEW_HEADER, *(new(0, "k", *row) for row in given)))
    kernels = found.tables.get("kernels")
    assert (None if kernels is None else kernels["duration_ns"].tolist()) == (nanoseconds and [nanoseconds])


def test_numbers_of_a_continental_machine_are_read_with_its_decimal_comma(run: Run) -> None:
    content = text(
        NEW_HEADER,
        new(0, "k", "gpu__time_duration.sum", "ns", "117.344"),
        new(0, "k", "dram__bytes.sum", "byte", "27.595.520"),
        new(0, "k", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "65,77"),
    )
    found = run(NcuCsv(), content)
    assert found.tables["counters"]["value"].tolist() == [117344.0, 27595520.0, 65.77]
    assert not found.losses


def test_a_doubtful_decimal_mark_is_said(run: Run) -> None:
    found = run(NcuCsv(), text(NEW_HEADER, new(0, "k", "gpu__time_duration.sum", "ns", "117.344")))
    assert found.tables["kernels"]["duration_ns"].tolist() == [117]
    assert any("decimal mark" in note for note in found.notes)


def test_launches_of_several_processes_and_mixed_rows_stay_apart(run: Run) -> None:
    rows = [
        old(0, "a", "gpu__time_duration.sum", "ns", "10", process=1),
        old(0, "b", "gpu__time_duration.sum", "ns", "20", process=2),
        old(1, "a", "gpu__time_duration.sum", "ns", "30", process=1),
        old(0, "a", "dram__bytes.sum", "byte", "1", process=1),
        old(0, "b", "dram__bytes.sum", "byte", "2", process=2),
    ]
    found = run(NcuCsv(), text(OLD_HEADER, *rows))
    joined = found.tables["counters"].merge(found.tables["kernels"], left_on="kernel", right_index=True)
    values = {(d, m): v for d, m, v in zip(joined["duration_ns"], joined["metric"], joined["value"], strict=True)}
    assert len(found.tables["kernels"]) == 3
    assert values[10, "dram__bytes.sum"] == 1.0
    assert values[20, "dram__bytes.sum"] == 2.0


def test_a_second_header_begins_a_run_with_ids_of_its_own(run: Run) -> None:
    once = text(NEW_HEADER, new(0, "k", "gpu__time_duration.sum", "ns", "10"))
    found = run(NcuCsv(), once + "==PROF== Disconnected\n" + once)
    assert found.tables["kernels"]["duration_ns"].tolist() == [10, 10]


def test_contradicting_and_stray_rows_are_lost_with_their_reason(run: Run) -> None:
    content = text(
        NEW_HEADER,
        new(0, "k", "gpu__time_duration.sum", "ns", "10"),
        new(0, "k", "gpu__time_duration.sum", "ns", "11"),
        new(0, "other", "dram__bytes.sum", "byte", "5"),
        "step 3, loss 0.25",
        line("x", 9, "py", "h", "k", 1, 7, "", "", 0, "8.0", "S", "m", "", "1"),
        '"0","9","py","h","k',
        new(1, "k", "gpu__time_duration.sum", "ns", "12"),
    )
    found = run(NcuCsv(), content)
    assert found.tables["kernels"]["duration_ns"].tolist() == [10, 12]
    assert sorted((loss.why.split(" (")[0], loss.count) for loss in found.losses) == [
        ("it has too few or too many fields", 1),
        ("it names no launch or no kernel", 1),
        ("its launch has another kernel's name", 1),
        ("its launch has another value of the same metric, which is kept", 1),
        ("its quotes do not end", 1),
    ]


def test_a_rule_over_several_lines_is_one_row(run: Run) -> None:
    rule = line(0, 9, "py", "h", "k", "t", 1, 7, "Occupancy", "", "", "", "Occupancy", "WRN", "first\nsecond, third")
    found = run(NcuCsv(), text(OLD_HEADER, rule, old(0, "k", "gpu__time_duration.sum", "ns", "10")))
    assert found.tables["kernels"]["duration_ns"].tolist() == [10]
    assert [(loss.what, loss.count) for loss in found.losses] == [("a rule", 1)]


def test_rows_far_from_their_launch_are_lost_and_never_counted_as_another(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncu_layout, "_HELD_LAUNCHES", 2)
    rows = [new(n, "k", "gpu__time_duration.sum", "ns", str(10 + n)) for n in range(4)]
    found = run(NcuCsv(), text(NEW_HEADER, *rows, new(0, "k", "dram__bytes.sum", "byte", "5")))
    assert found.tables["kernels"]["duration_ns"].tolist() == [10, 11, 12, 13]
    assert [loss.why for loss in found.losses] == ["it is far from the other rows of its launch"]


def test_metrics_of_one_name_and_two_units_are_two(run: Run) -> None:
    rows = [new(0, "k", "Memory Throughput", "%", "15.59"), new(0, "k", "Memory Throughput", "Gbyte/second", "60.21")]
    found = run(NcuCsv(), text(NEW_HEADER, *rows)).tables["counters"]
    assert list(zip(found["unit"], found["value"], strict=True)) == [("%", 15.59), ("B/s", 60.21e9)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("==ERROR== The application returned an error code (2).\n==WARNING== No kernels were profiled.\n", "code (2)"),
        ("==PROF== Received signal\n==WARNING== No kernels were profiled.\n", "Received signal"),
        (NEW_HEADER + "\n", "has a header and no values below it"),
    ],
)
def test_a_failed_run_is_refused_in_its_own_words(run: Run, content: str, said: str) -> None:
    with pytest.raises(ReadError, match="file-1") as refused:
        run(NcuCsv(), content)
    assert said in refused.value.message
    assert refused.value.hint


def test_an_error_of_a_run_with_rows_is_noted(run: Run) -> None:
    found = run(NcuCsv(), "==ERROR== The application returned an error code (1).\n" + LONG)
    assert "Nsight Compute reported an error: The application returned an error code (1)." in found.notes


def test_a_summary_gives_means_over_invocations(run: Run) -> None:
    header = line("Process ID", "Kernel Name", "Device", "Invocations", *VALUE[:3], "Minimum", "Maximum", "Average")
    row = line(9, "k", 0, 5, "S", "dram__bytes.sum", "Kbyte", "1.00", "3.00", "2.50")
    found = run(NcuCsv(), text(header, row)).tables["counters"].iloc[0]
    assert (found["calls"], found["value"], found["minimum"], found["maximum"]) == (5, 2500.0, 1000.0, 3000.0)


# --- wide -----------------------------------------------------------------------------------------------------------


def test_the_raw_page_has_its_units_in_the_second_row(run: Run) -> None:
    content = text(
        "==PROF== Disconnected from process 9",
        line(*NEW, "dram__bytes.sum", "gpu__time_duration.sum", "smsp__inst_executed.sum"),
        line(*[""] * len(NEW), "Mbyte", "us", "inst"),
        line(0, 9, "py", "h", "k(int)", 1, 7, "(32, 1, 1)", "(4, 1, 1)", 0, "9.0", "1.50", "2.25", "1,024"),
        line(1, 9, "py", "h", "k(int)", 1, 7, "(32, 1, 1)", "(4, 1, 1)", 0, "9.0", "3.00", "4.00", "n/a"),
    )
    found = run(NcuCsv(), content)
    assert found.tables["kernels"]["duration_ns"].tolist() == [2250, 4000]
    counters = found.tables["counters"]
    assert counters["value"].tolist()[:4] == [1.5e6, 2250.0, 1024.0, 3e6]
    assert counters["unit"].tolist()[:3] == ["B", "ns", "inst"]
    assert counters["value"].isna().sum() == 1


def test_exports_of_the_gui_have_units_in_brackets(run: Run) -> None:
    content = text(
        line(
            "ID",
            "Function Name",
            "Grid Size",
            "Block Size",
            "dram__bytes.sum.per_second [Gbyte/second]",
            "Duration [us]",
        ),
        line(0, "k", "   864,     1,     1", "256, 1, 1", "689.86", "580.19"),
    )
    found = run(NcuCsv(), content)
    assert found.tables["kernels"]["duration_ns"].tolist() == [580190]
    assert found.tables["kernels"]["grid"][0].tolist() == [864, 1, 1]
    assert found.tables["counters"]["value"].tolist() == pytest.approx([689.86e9, 580190.0])


def test_a_header_of_20000_columns_is_longer_than_a_head(run: Run) -> None:
    metrics = [f"sm__inst_number_{number}.sum" for number in range(20_000)]
    values = [f"{number},5" for number in range(20_000)]  # with a decimal comma: the mark is found behind the header
    content = text(
        line(*NEW, *metrics),
        line(*[""] * len(NEW), *["Kinst"] * 20_000),
        line(0, *[1] * 3, "k", *[1] * 6, *values),
    )
    assert len(content.splitlines()[0]) > 1 << 18
    counters = run(NcuCsv(), content).tables["counters"]
    assert counters["metric"].tolist() == metrics
    assert counters["value"].tolist() == [1000 * (number + 0.5) for number in range(20_000)]


def test_a_second_row_of_units_holds_from_there_on(run: Run) -> None:
    def row(number: int, value: str) -> str:
        return line(number, *[1] * 3, "k", *[1] * 6, value)

    head, blank = line(*NEW, "dram__bytes.sum"), [""] * len(NEW)
    found = run(NcuCsv(), text(head, line(*blank, "byte"), row(0, "5"), line(*blank, "Kbyte"), row(1, "5")))
    assert found.tables["counters"]["value"].tolist() == [5.0, 5000.0]
    assert [(loss.what, loss.repaired) for loss in found.losses] == [("a row of units", True)]
    figures = run(NcuCsv(), text(head, line(*blank, "byte"), row(0, "5"), line(*blank, "7"), row(1, "5")))
    assert figures.tables["counters"]["value"].tolist() == [5.0, 5.0]  # a figure is no unit: its row lost its kernel
    assert [loss.repaired for loss in figures.losses] == [False]


PIVOT = text(
    "Metric Name,dram__bytes.sum,gpu__time_duration.sum,sm__cycles_elapsed.avg,sm__cycles_elapsed.avg.per_second",
    "0,7864448.0,11808.0,12096.93,1024468659.04",
    "1,727680.0,5.536,4721.96,852955737.53",
    "2,100.0,,4721.96,852955737.53",
    "3,100.0,77.0,4721.96,852955737.53",
)


def test_pivots_have_base_units_and_durations_that_agree_with_the_cycles(run: Run) -> None:
    found = run(NcuPivot(), PIVOT)
    # 4721.96 / 852955737.53 s = 5536.0 ns: the second duration was in us, the third and fourth are derived
    assert found.tables["kernels"]["duration_ns"].tolist() == [11808, 5536, 5536, 5536]
    assert set(found.tables["kernels"]["name"]) == {UNNAMED}
    assert found.tables["counters"]["unit"].tolist()[:4] == ["B", "ns", "cycle", "Hz"]
    assert {(loss.what, loss.repaired) for loss in found.losses} == {("a duration", True), ("a duration", False)}
    assert any("names no kernels" in note for note in found.notes)
    assert any("no units" in note for note in found.notes)


def test_pivots_with_names_keep_them_and_damaged_rows_are_lost(run: Run) -> None:
    content = text("Kernel Name,gpu__time_duration.sum,dram__bytes.sum", "gemm,10.0,2.0", "gemm,11.0", "relu,5.0,text")
    found = run(NcuPivot(), content)
    assert found.tables["kernels"]["name"].tolist() == ["gemm", "relu"]
    assert [loss.what for loss in found.losses] == ["a row", "a value"]


def test_a_raw_page_whose_row_of_units_was_dropped_is_a_pivot(run: Run) -> None:
    row = line(0, 9, "py", "h", "k(int)", 1, 7, "(32, 1, 1)", "(4, 1, 1)", 2, "9.0", "2250")
    found = run(NcuPivot(), text(line(*NEW, "gpu__time_duration.sum"), row)).tables["kernels"]
    assert found[["name", "device", "stream", "duration_ns"]].to_numpy().tolist() == [["k(int)", "cuda:2", 7, 2250]]
    assert found["grid"][0].tolist() == [4, 1, 1]


def test_an_empty_pivot_is_refused(run: Run) -> None:
    with pytest.raises(ReadError, match="no launch below it"):
        run(NcuPivot(), "Metric Name,gpu__time_duration.sum,dram__bytes.sum\n")


# --- text -----------------------------------------------------------------------------------------------------------

TEXT = """==PROF== Connected to process 7
loss 0.5
[185098] python3.8@127.0.0.1
  void at::native::k<(int)4, f(float *)>(int, T2) (864, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 3, CC 8.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    SM Frequency            cycle/nsecond         1.07
    Memory Throughput                   %        15.59
    Duration                      usecond        14.46
    ----------------------- ------------- ------------
    OPT   This kernel exhibits low compute throughput, 12 of 34
          of this device.
    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Function Cache Configuration                     CachePreferNone
    Registers Per Thread             register/thread              38
    Dynamic Shared Memory Per Block       byte/block               0
    Static Shared Memory Per Block       Kbyte/block            1.02
    Threads                                   thread         221,184
    -------------------------------- --------------- ---------------
  square (1, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 3, CC 8.0
    Section: Occupancy
    ------------------------------- ----------- ------------
    Metric Name                     Metric Unit Metric Value
    ------------------------------- ----------- ------------
    Achieved Occupancy                        %        60.71
    ------------------------------- ----------- ------------
"""


def test_the_details_page_as_text(run: Run) -> None:
    found = run(NcuText(), TEXT)
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert kernels["name"].tolist() == ["void at::native::k<(int)4, f(float *)>(int, T2)"]
    assert kernels["duration_ns"].tolist() == [14460]
    assert kernels["device"].tolist() == ["cuda:3"]
    assert kernels["grid"][0].tolist() == [864, 2, 1]
    assert kernels["registers"].tolist() == [38]
    assert kernels["shared_bytes"].isna().all()  # 1.02 Kbyte is not told to the byte
    values = {metric: (value, unit) for metric, value, unit in counters[["metric", "value", "unit"]].to_numpy()}
    assert values["SM Frequency"] == (pytest.approx(1.07e9), "Hz")
    assert values["Static Shared Memory Per Block"] == (1020.0, "B/block")
    assert values["Threads"] == (221184.0, "thread")
    assert values["Achieved Occupancy"] == (60.71, "%")
    assert len(counters) == 8
    assert counters["name"].tolist()[-1] == "square"
    assert counters["kernel"].isna().tolist() == [False] * 7 + [True]


def test_text_of_before_2022_has_no_headers_in_its_tables(run: Run) -> None:
    rule = f"    {'-' * 70} {'-' * 15} {'-' * 30}"
    content = text(
        "  void k(float*), 2021-Mar-02 10:00:00, Context 1, Stream 16",
        "    Section: GPU Speed Of Light",
        rule,
        f"    {'Duration':70} {'msecond':>15} {'1.50':>30}",
        f"    {'SM [%]':70} {'%':>15} {'3.25':>30}",
        rule,
        "    WRN   This kernel grid is too small to fill the available resources 1.25",
    )
    found = run(NcuText(), content)
    assert found.tables["kernels"]["duration_ns"].tolist() == [1_500_000]
    assert found.tables["kernels"]["stream"].tolist() == [16]
    assert found.tables["counters"]["value"].tolist() == [1.5e6, 3.25]


# --- real files -----------------------------------------------------------------------------------------------------


def _plain_rows(path: Path) -> list[dict[str, str]]:
    lines = [text for text in path.read_text("utf-8").splitlines() if not text.startswith("==")]
    return list(csv.DictReader(lines))


def test_a_real_file_gives_every_value_and_its_derived_times(run: Run, shared: Path) -> None:
    path = shared / "traces/ncu/leleucas_attn_5-9_bert_torch_nsight.csv"
    rows = [row for row in _plain_rows(path) if row["Metric Name"]]
    numbers = [row for row in rows if row["Metric Name"] != "Function Cache Configuration"]
    found = run(NcuCsv(), path)
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert counters["value"].tolist() == [float(row["Metric Value"].replace(",", "")) for row in numbers]
    assert counters["metric"].tolist() == [row["Metric Name"] for row in numbers]
    cycles = [float(r["Metric Value"].replace(",", "")) for r in rows if r["Metric Name"] == "sm__cycles_elapsed.avg"]
    rates = [
        float(r["Metric Value"].replace(",", ""))
        for r in rows
        if r["Metric Name"] == "sm__cycles_elapsed.avg.per_second"
    ]
    assert kernels["duration_ns"].tolist() == [round(c / r * 1e9) for c, r in zip(cycles, rates, strict=True)]
    assert {(loss.what, loss.count) for loss in found.losses} == {("a value", 26), ("a rule", 51)}


def test_a_real_pivot(run: Run, shared: Path) -> None:
    path = shared / "traces/ncu/leleucas_activation_relu_nsight_result.csv"
    rows = _plain_rows(path)
    found = run(NcuPivot(), path)
    assert found.tables["kernels"]["duration_ns"].tolist() == [round(float(r["gpu__time_duration.sum"])) for r in rows]
    assert len(found.tables["counters"]) == 21 * len(rows)
    assert not found.losses


def test_a_real_text_report(run: Run, shared: Path) -> None:
    found = run(NcuText(), shared / "traces/ncu/gpumode_lecture001_ncu_logs.txt")
    assert len(found.tables["kernels"]) == 17
    assert found.tables["kernels"]["duration_ns"].tolist()[:2] == [14460, 10850]
    assert len(found.tables["counters"]) == 17 * 27


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d_nsight", "data_pooling_nsight32"])
def test_real_failed_runs_are_refused(run: Run, shared: Path, name: str) -> None:
    (path,) = (shared / "traces/ncu").glob(f"*{name}.csv")
    with pytest.raises(ReadError, match="No kernels were profiled"):
        run(NcuCsv(), path)


def test_a_real_empty_file_is_of_no_format_and_refused_if_asked_for(shared: Path, tmp_path: Path) -> None:
    (path,) = (shared / "traces/ncu").glob("*nsight128.csv")
    source = Source(path, path.name)
    assert not any(reader.recognizes(Head(source, b"")) for reader in (NcuCsv(), NcuPivot(), NcuText()))
    with pytest.raises(ReadError, match="It is empty"):
        NcuCsv().read(source, Sink(path.name, tmp_path))


@pytest.mark.parametrize("reader", [NcuCsv(), NcuPivot(), NcuText()], ids=lambda reader: reader.name)
@pytest.mark.parametrize("other", [b"", b"a,b\n1,2\n", b'{"traceEvents": []}', b"==1234== Memcheck\n", b"\x00" * 99])
def test_other_files_are_not_recognized(reader: Reader, other: bytes, tmp_path: Path) -> None:
    assert not reader.recognizes(Head(Source(tmp_path / "x", "x"), other))


# --- size and damage ------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu_layout, "_HELD_BYTES", 1 << 14)
    monkeypatch.setattr(ncu_launches, "_BATCH", 256)

    def peak(launches: int) -> int:
        path = tmp_path / f"{launches}.csv"
        with path.open("w") as out:
            out.write(NEW_HEADER + "\n")
            for number in range(launches):
                out.writelines(new(number, "k" * 3000, f"m__{i}.sum", "inst", "1,234") + "\n" for i in range(2))
        folder = tmp_path / f"stage-{launches}"
        folder.mkdir()
        sink = Sink("file", folder)
        tracemalloc.start()
        try:
            NcuCsv().read(Source(path, "file"), sink)
            sink.finish()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert sink.rows["counters"] == 2 * launches

    assert peak(2000) < 1.5 * peak(500)  # files of 12 and 3 MB: some pieces of 1 MiB each


KINDS = st.sampled_from(["cut", "drop", "put", "double"])
EDITS = st.lists(st.tuples(KINDS, st.integers(0, 1 << 16), st.integers(0, 300), st.binary(max_size=9)), max_size=6)


def damaged(content: bytes, edits: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    for kind, place, length, piece in edits:
        at = place % (len(content) + 1)
        if kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + length :]
        elif kind == "put":
            content = content[:at] + piece + content[at:]
        else:
            content = content[: at + length] + content[at:]
    return content


WIDE = text(line(*NEW, "dram__bytes.sum"), line(*[""] * len(NEW), "byte"), line(0, *[1] * 3, "k", *[1] * 6, "5"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=EDITS,
    case=st.sampled_from([(NcuCsv(), LONG), (NcuCsv(), WIDE), (NcuPivot(), PIVOT), (NcuText(), TEXT)]),
)
def test_damaged_files_are_read_or_refused(
    edits: list[tuple[str, int, int, bytes]], case: tuple[Reader, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader, content = case
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "file"
    path.write_bytes(damaged(content.encode(), edits))
    source = Source(path, "file")
    sink = Sink("file", folder)
    try:
        reader.recognizes(Head(source, source.head()))
        reader.read(source, sink)
        sink.finish()
    except WcbenchError:
        sink.close()


@pytest.mark.parametrize(
    "content",
    [
        "(" * 100_000,
        '"' * 99_999,
        NEW_HEADER + "\n" + '"' + "x" * 200_000,
        NEW_HEADER + "\n" + new(0, "k" * 200_000, "m", "", "1"),
        NEW_HEADER + "\n" + new(10**30, "k", "m", "", "1"),
        TEXT.splitlines()[3] + " " * 100_000 + "\n    Section: A\n    " + "- " * 50_000,
        "Metric Name," + "a__b.sum," * 2718 + "\n" + "1," * 2718,
    ],
    ids=range(7),
)
def test_absurd_files_neither_crash_nor_hang(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    source = Source(path, "file")
    for reader in (NcuCsv(), NcuPivot(), NcuText()):
        reader.recognizes(Head(source, source.head()))
        sink = Sink("file", tmp_path)
        with contextlib.suppress(ReadError):
            reader.read(source, sink)
        sink.close()
