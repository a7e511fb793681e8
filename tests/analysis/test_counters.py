"""Hardware counters by kernel and metric, and AIBench's five; every figure worked out by hand."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.conftest import info, record
from wcbench.analysis.counter_names import names
from wcbench.analysis.counters import WORKED, aibench_five, counters
from wcbench.record import Profile

ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
IPC = "sm__inst_executed.avg.per_cycle_active"
PER_SCHEDULER = "smsp__inst_executed.avg.per_cycle_active"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
FLOPS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def value(name: str, metric: str, unit: str, number: float | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "metric": metric, "unit": unit, "value": number, **more}


def profile(rows: Sequence[Mapping[str, Any]], durations: Sequence[int] = (), gpu: str | None = None) -> Profile:
    tables: dict[str, Any] = {"counters": {"counters": rows}}
    if durations:
        kernel = {"name": "k", "device": "cuda:0", "phase": "other"}
        tables["kernels"] = {"counters": [{**kernel, "duration_ns": length} for length in durations]}
    made = record({"counters": info(device="cuda:0")}, tables)
    machine = {"gpus": [{"name": gpu}] if gpu else []}
    return Profile(replace(made.manifest, machine=machine), {name: made.arrow(name) for name in made.tables})


def values(made: Profile) -> dict[tuple[str, str], float]:
    found = counters(made)
    assert found is not None
    return {(k, m): v for k, m, v in found.rows[["kernel", "metric", "value"]].to_numpy()}


def test_values_are_means_over_executions() -> None:
    rows = [
        value("gemm", ACTIVE, "%", 50.0, kernel=0, calls=1),
        value("gemm", ACTIVE, "%", 80.0, kernel=1, calls=1),
        value("gemm", ACTIVE, "%", None, kernel=2, calls=1),
        value("relu", "gld_efficiency", "%", 20.0, calls=3, minimum=10.0, maximum=30.0),
        value("relu", "gld_efficiency", "%", 60.0, calls=1),
    ]
    found = counters(profile(rows, durations=(100, 300, 5)))
    assert found is not None
    gemm, relu = found.to_frame().to_dict("records")
    assert gemm["value"] == 65.0
    assert (gemm["calls"], gemm["missing"]) == (2, 1)
    assert gemm["time_ns"] == 400
    assert gemm["time_value"] == (50 * 100 + 80 * 300) / 400
    assert relu["value"] == (20 * 3 + 60) / 4
    assert (relu["minimum"], relu["maximum"], relu["calls"]) == (10.0, 60.0, 4)
    assert math.isnan(relu["time_ns"])
    assert relu["metric"] == "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
    assert relu["given"] == "gld_efficiency"


@pytest.mark.parametrize(
    ("metric", "unit", "given", "canonical", "expected", "in_unit"),
    [
        ("achieved_occupancy", "", 0.6, ACTIVE, 60.0, "%"),  # a fraction against per cent
        ("Achieved Occupancy", "%", 58.78, ACTIVE, 58.78, "%"),
        ("ipc", "", 2.0, IPC, 2.0, ""),  # both per SM
        (PER_SCHEDULER, "inst/cycle", 0.5, IPC, 2.0, "inst/cycle"),  # 4 schedulers
        (
            "warp_execution_efficiency",
            "%",
            75.0,
            "smsp__thread_inst_executed_per_inst_executed.ratio",
            24.0,
            "thread/inst",
        ),
        ("l2_read_throughput", "B/s", 64e9, "lts__t_sectors_op_read.sum.per_second", 2e9, "sector/s"),
        ("dram_read_bytes", "", 7.0, "dram__bytes_read.sum", 7.0, "B"),
        ("sm_efficiency", "%", 99.0, "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed", 99.0, "%"),
        ("dram__read_bytes.sum", "B", 5.0, "dram__bytes_read.sum", 5.0, "B"),
        ("sm__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", 5.0, FLOPS.format("fadd"), 5.0, "inst"),
        # What is not converted: levels, parts of a sum, sums of several, other wholes.
        ("dram_utilization", "level", 3.0, "dram_utilization", 3.0, "level"),
        ("fb_subp0_read_sectors", "", 8.0, "fb_subp0_read_sectors", 8.0, ""),
        ("flop_count_sp", "", 8.0, "flop_count_sp", 8.0, ""),
        ("stall_sync", "%", 8.0, "stall_sync", 8.0, "%"),
        ("eligible_warps_per_cycle", "", 8.0, "eligible_warps_per_cycle", 8.0, ""),
        ("DRAM Throughput", "B/s", 8.0, "DRAM Throughput", 8.0, "B/s"),  # not the per cent of that name
    ],
)
def test_names_and_values_are_converted_where_one_follows_from_the_other(  # noqa: PLR0917
    metric: str, unit: str, given: float, canonical: str, expected: float, in_unit: str
) -> None:
    found = counters(profile([value("k", metric, unit, given)]))
    assert found is not None
    (row,) = found.to_frame().to_dict("records")
    assert (row["metric"], row["value"], row["unit"]) == (canonical, pytest.approx(expected, rel=1e-12), in_unit)


def test_parts_of_one_sum_stay_apart() -> None:
    found = values(profile([value("k", f"fb_subp{n}_read_sectors", "", 10.0 + n, calls=2) for n in (0, 1)]))
    assert found == {("k", "fb_subp0_read_sectors"): 10.0, ("k", "fb_subp1_read_sectors"): 11.0}


def test_flops_are_worked_out_where_all_their_parts_are_there() -> None:
    rows = [value("k", FLOPS.format(op), "inst", n) for op, n in (("fadd", 100.0), ("fmul", 10.0), ("ffma", 1000.0))]
    rows += [value("other", FLOPS.format("fadd"), "inst", 5.0)]
    found = counters(profile(rows))
    assert found is not None
    made = found.rows[found.rows["given"] == WORKED]
    assert made[["kernel", "metric", "value", "calls"]].to_numpy().tolist() == [["k", "flop_count_sp", 2110.0, 1]]


def test_parts_of_different_executions_make_no_sum() -> None:
    rows = [value("k", FLOPS.format(op), "inst", 1.0, calls=n) for op, n in (("fadd", 1), ("fmul", 1), ("ffma", 2))]
    assert ("k", "flop_count_sp") not in values(profile(rows))


def test_a_hit_rate_is_a_ratio_of_sums_and_absent_where_nothing_was_asked_for() -> None:
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}{}.sum"
    hits = {"ld": 30.0, "st": 10.0, "red": 0.0, "atom": 0.0}
    rows = [value("k", sectors.format(op, "_lookup_hit"), "sector", n) for op, n in hits.items()]
    rows += [value("k", sectors.format(op, ""), "sector", n) for op, n in {**hits, "ld": 130.0, "st": 30.0}.items()]
    rows += [value("idle", row["metric"], "sector", 0.0) for row in rows]
    found = values(profile(rows))
    assert found["k", "global_hit_rate"] == 100 * 40 / 160
    assert ("idle", "global_hit_rate") not in found


def test_unknown_metrics_keep_their_names_and_are_listed() -> None:
    found = counters(profile([value("k", "my__metric.sum", "", 1.0), value("k", ACTIVE, "%", 1.0)]))
    assert found is not None
    assert found.unknown == ("my__metric.sum",)


def test_the_view_is_json_and_text_and_none_without_counters() -> None:
    found = counters(profile([value("k", ACTIVE, "%", None), value("k", "ipc", "", 1.5)]))
    assert found is not None
    made = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert made["pass"] == "counters"
    assert {row["metric"]: row["value"] for row in made["rows"]} == {ACTIVE: None, IPC: 1.5}
    assert "2 metrics" in repr(found)
    assert counters(record({"timing": info()}, {})) is None


# --- AIBench's five -------------------------------------------------------------------------------------------------


def test_the_five_of_nsight_compute() -> None:
    rows = [
        value("a", ACTIVE, "%", 50.0, kernel=0),
        value("b", ACTIVE, "%", 20.0, kernel=1),
        value("b", ACTIVE, "%", 20.0, kernel=2),
        value("a", IPC, "inst/cycle", 2.0, kernel=0),
        value("a", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", "%", 80.0, kernel=0),
        value("a", DRAM, "%", 36.0, kernel=0),
    ]
    made = profile(rows, durations=(300, 50, 50))
    five = aibench_five(made)
    assert list(five) == [
        "achieved_occupancy",
        "ipc_efficiency",
        "gld_efficiency",
        "gst_efficiency",
        "dram_utilization",
    ]
    assert five["achieved_occupancy"].value == pytest.approx((0.5 + 0.2 + 0.2) / 3)
    assert (five["achieved_occupancy"].calls, five["achieved_occupancy"].coverage) == (3, 1.0)
    assert five["ipc_efficiency"].value == 2.0 / 4
    assert five["ipc_efficiency"].coverage == pytest.approx(1 / 3)
    assert five["gld_efficiency"].value == pytest.approx(0.8)
    assert five["dram_utilization"].value == pytest.approx(0.36)
    assert five["gst_efficiency"].value is None
    assert "op_st.pct" in str(five["gst_efficiency"].reason)
    timed = aibench_five(made, weight="time")
    assert timed["achieved_occupancy"].value == pytest.approx((0.5 * 300 + 0.2 * 100) / 400)


def test_the_five_of_nvprof() -> None:
    rows = [
        value("k", "achieved_occupancy", "", 0.6, calls=4),
        value("k", "ipc", "", 1.0, calls=4),
        value("k", "gld_efficiency", "%", 125.0, calls=4),
        value("k", "gst_efficiency", "%", 50.0, calls=4),
        value("k", "dram_utilization", "level", 3.0, calls=4),
    ]
    volta = aibench_five(profile(rows, gpu="Tesla V100-SXM2-16GB"))
    assert {name: figure.value for name, figure in volta.items()} == {
        "achieved_occupancy": pytest.approx(0.6),
        "ipc_efficiency": 0.25,
        "gld_efficiency": 1.25,
        "gst_efficiency": 0.5,
        "dram_utilization": pytest.approx(0.3),
    }
    assert "levels" in str(volta["dram_utilization"].remark)
    pascal = aibench_five(profile(rows, gpu="Tesla P100-PCIE-16GB"))["ipc_efficiency"]
    assert pascal.value is None
    assert "give ipc_peak" in str(pascal.reason)
    assert aibench_five(profile(rows), ipc_peak=2.0)["ipc_efficiency"].value == 0.5
    timed = aibench_five(profile(rows), weight="time")["achieved_occupancy"]
    assert timed.value is None
    assert "durations" in str(timed.reason)


def test_one_quantity_under_two_names_counts_once() -> None:
    rows = [value("k", IPC, "inst/cycle", 2.0), value("k", PER_SCHEDULER, "inst/cycle", 0.5)]
    figure = aibench_five(profile(rows))["ipc_efficiency"]
    assert (figure.value, figure.calls, figure.coverage) == (0.5, 1, 1.0)


def test_the_gpus_dram_throughput_stands_in_and_is_said_to() -> None:
    figure = aibench_five(profile([value("k", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", 36.28)]))[
        "dram_utilization"
    ]
    assert figure.value == pytest.approx(0.3628)
    assert figure.remark


def test_a_record_without_counters_has_none_of_the_five_and_wrong_requests_are_refused() -> None:
    five = aibench_five(record({"timing": info()}, {}))
    assert {figure.value for figure in five.values()} == {None}
    assert all(figure.reason for figure in five.values())
    for wrong in ({"weight": "mass"}, {"ipc_peak": 0.0}, {"ipc_peak": math.nan}):
        with pytest.raises(ValueError, match="weight is"):
            aibench_five(record({"timing": info()}, {}), **wrong)  # type: ignore[arg-type]


# --- the list of names ----------------------------------------------------------------------------------------------


def test_the_list_holds_every_name_of_the_table_with_its_metrics(shared: Path) -> None:
    with (shared / "nvprof_to_ncu.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    listed = {(row.nvprof, row.kind): row for row in names().metrics}
    assert set(listed) == {(row["nvprof_name"], row["kind"]) for row in table}
    for row in table:
        mine = listed[row["nvprof_name"], row["kind"]]
        expression = row["ncu_metric_or_formula_sm70plus"]
        assert (mine.form == "none") == (row["status"] == "missing")
        if mine.form != "ratio":
            assert all(term in expression for term, _ in mine.terms)
        assert (mine.form == "level") == ("level" in row["conversion_to_nvprof_units"])


def test_the_lists_rows_make_sense() -> None:
    for row in names().metrics:
        assert bool(row.terms) == (row.form != "none"), row.nvprof
        assert (len(row.terms) == 1) or row.form not in {"same", "level"}, row.nvprof
        assert bool(row.over) == (row.form == "ratio"), row.nvprof
        assert all(factor > 0 for _, factor in (*row.terms, *row.over)), row.nvprof
