"""Each gate with data that passes it, data that breaks it, and none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wcbench.analysis.gates import Gate, gates
from wcbench.record import Profile

A100 = {"gpus": [{"name": "NVIDIA A100-SXM4-80GB"}]}
GEMM = "volta_sgemm_128x64_nn"
US = 1000
NAMES = [
    "utilization",
    "streams",
    "self time",
    "sum of self times",
    "launches without work",
    "work without launch",
    "step length",
    "kernel length",
    "FLOP/s",
    "copies",
    "counters of bandwidth",
    "counters in per cent",
]


def timeline(made: Any, tables: dict[str, Any], machine: Any = None, **changes: Any) -> Profile:
    parts = {name: {"timeline": rows} for name, rows in tables.items()}
    profile: Profile = made.foreign({"timeline": made.foreign_info(**changes)}, parts, machine)
    return profile


def gate(profile: Profile, name: str) -> Gate:
    return next(row for row in gates(profile).rows if row.name == name)


def test_nothing_is_checked_where_nothing_is_there(made: Any) -> None:
    for profile in (made.foreign({}, {}), made.record({}, {}), made.foreign({"timeline": made.foreign_info()}, {})):
        found = gates(profile)
        assert [row.name for row in found.rows] == NAMES
        assert [row.held for row in found.rows] == [None] * len(NAMES)
        assert all(row.text.startswith("Not checked: ") and row.coverage is None for row in found.rows)
        assert (found.failed, found.checked) == ((), ())


def test_a_live_record_is_checked_too(full: Profile) -> None:
    held = {row.name: row.held for row in gates(full).rows}
    assert held["self time"] is True
    assert held["sum of self times"] is True
    assert held["step length"] is False  # the hand-made steps take 1.25 us
    assert held["utilization"] is None


def test_utilization_is_of_the_busiest_device_and_says_what_it_saw(made: Any) -> None:
    rows = made.device_rows([(GEMM, 10, 5), (GEMM, 25, 5), (GEMM, None, 7)])
    rows += made.device_rows([(GEMM, 10, 9)], device="cuda:1")
    found = gate(timeline(made, {"kernels": rows}), "utilization")
    assert (found.held, found.value, found.limit, found.coverage) == (True, 1.0, 1.0, 0.75)


def test_a_stream_that_runs_two_things_at_once_is_told(made: Any) -> None:
    """A TensorFlow 1 timeline that lists each kernel twice; streams of two devices under one label."""
    twice = made.device_rows([(GEMM, i * 200 * US, 100 * US) for i in range(1, 5)] * 2)
    found = gate(timeline(made, {"kernels": twice}), "streams")
    assert found.held is False
    assert found.value == pytest.approx(2.0 - 8 * 1000 / 400_000)  # beyond a microsecond an execution
    assert "stream 7 of cuda:0, rank 0" in found.text
    apart = [{**row, "stream": i % 2} for i, row in enumerate(twice)]
    apart = sorted(apart, key=lambda row: row["start_ns"])
    apart = [{**row, "stream": i % 2} for i, row in enumerate(apart)]
    assert gate(timeline(made, {"kernels": apart}), "streams").held is True


def test_times_cut_to_microseconds_do_not_break_a_stream(made: Any) -> None:
    """Each of these starts in the last microsecond of the one before it."""
    rows = made.device_rows([(GEMM, 10_000 + 4 * US * i, 5 * US) for i in range(100)])
    assert gate(timeline(made, {"kernels": rows}), "streams").held is True
    rows = made.device_rows([(GEMM, 10_000 + 3 * US * i, 5 * US) for i in range(100)])
    assert gate(timeline(made, {"kernels": rows}), "streams").held is False


def op(name: str, start: int, duration: int, own: int, parent: int | None = None, **more: Any) -> dict[str, Any]:
    depth = 0 if parent is None else 1
    times = {"start_ns": start, "duration_ns": duration, "self_ns": own, "depth": depth, "parent": parent}
    return {"name": name, "thread": 1, "phase": "other", **times, **more}


def test_case_11_negative_self_time(made: Any) -> None:
    rows = [op("a", 0, 100, 110), op("b", 10, 50, -10, 0)]
    profile = timeline(made, {"ops": rows})
    found = gate(profile, "self time")
    assert (found.held, found.value) == (False, -10)
    assert found.text == "1 of 2 operator calls have a negative self time."
    assert gate(profile, "sum of self times").held is True


def test_case_11_self_times_add_up_to_the_roots_on_each_thread(made: Any) -> None:
    rows = [op("a", 0, 100, 60), op("b", 10, 40, 40, 0), op("c", 0, 50, 50, thread=2), op("c", 0, 7, 7, rank=1)]
    found = gate(timeline(made, {"ops": rows}), "sum of self times")
    assert (found.held, found.value) == (True, 0)
    rows[2]["self_ns"] = 45
    found = gate(timeline(made, {"ops": rows}), "sum of self times")
    assert (found.held, found.value) == (False, pytest.approx(0.1))
    assert found.text.startswith("On thread 2 of rank 0 ")


def calls(*names: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "thread": 1, "start_ns": i, "duration_ns": 1, "correlation": i} for i, name in enumerate(names)
    ]


LAUNCHES = (
    *("cudaLaunchKernel", "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipExtModuleLaunchKernel"),
    *("cudaGraphLaunch", "cudaMemcpyAsync", "cudaLaunchHostFunc", "cudaStreamSynchronize"),
)


def test_case_24_54_launches_without_kernels_and_kernels_without_launch(made: Any) -> None:
    rows = made.device_rows([(GEMM, 1000 * i, 10) for i in range(1, 7)])
    for place, launch in enumerate((0, 1, 5, 5, 6, None)):  # the graph of row 5 launched two
        rows[place]["launch"] = launch
    profile = timeline(made, {"runtime": calls(*LAUNCHES), "kernels": rows})
    lost, orphans = gate(profile, "launches without work"), gate(profile, "work without launch")
    assert (lost.held, lost.value) == (False, 3)
    assert lost.text.startswith("3 of 6 launches have no device record")
    assert (orphans.held, orphans.value) == (False, 1)
    assert orphans.text.startswith("1 of 6 executions")
    whole = timeline(made, {"runtime": calls("cudaLaunchKernel"), "kernels": [{**rows[0], "launch": 0}]})
    assert gate(whole, "launches without work").held is True
    assert gate(whole, "work without launch").held is True


def test_launches_are_counted_where_no_work_was_recorded_at_all(made: Any) -> None:
    profile = timeline(made, {"runtime": calls(*LAUNCHES)})
    assert gate(profile, "launches without work").held is None
    assert "though 6 launches were" in gate(profile, "launches without work").text


@pytest.mark.parametrize(
    ("nanoseconds", "held", "limit"),
    [(100_000_000, True, 3600.0), (9_000, False, 1e-5), (100_000_000 * 10**6, False, 3600.0)],
    ids=["100 ms", "read as a thousandth", "read as a million times"],
)
def test_case_59_a_step_of_another_unit(made: Any, nanoseconds: int, held: bool, limit: float) -> None:
    found = gate(timeline(made, {"steps": made.step_rows([nanoseconds] * 3)}), "step length")
    assert (found.held, found.limit) == (held, limit)
    assert found.value == pytest.approx(nanoseconds / 1e9)


def test_a_whole_trace_is_no_step_whose_length_means_anything(made: Any) -> None:
    rows = [{**row, "kind": "whole file"} for row in made.step_rows([5])]
    found = gate(timeline(made, {"steps": rows}), "step length")
    assert (found.held, found.text) == (None, "Not checked: no steps are marked.")


def test_case_59_kernels_of_another_unit(made: Any) -> None:
    kernels = [(GEMM, 1000, 0), (GEMM, 5000, 3000), (GEMM, 9000, 5000)]  # 0: cut to whole microseconds
    found = gate(timeline(made, {"kernels": made.device_rows(kernels)}), "kernel length")
    assert (found.held, found.value, found.coverage) == (True, 4000.0, pytest.approx(2 / 3))
    short = [(name, start, ns // 1000) for name, start, ns in kernels]
    assert gate(timeline(made, {"kernels": made.device_rows(short)}), "kernel length").held is False
    negative = gate(timeline(made, {"kernels": made.device_rows([(GEMM, 1000, -5)])}), "kernel length")
    assert (negative.held, negative.value) == (False, -5)


MIB = 2**20


def test_copies_against_the_memory(made: Any) -> None:
    """A100 80 GB: 2,039 GB/s, 40 MiB of L2."""
    rows = made.device_rows([("Memcpy DtoD", 1000, 100 * US)])
    rows[0]["bytes"] = 100 * MIB  # 1,049 GB/s
    small = {**rows[0], "bytes": 10 * MIB, "duration_ns": 10 * US, "start_ns": 300 * US}  # a cache gives it
    short = {**rows[0], "bytes": 100 * MIB, "duration_ns": 2 * US, "start_ns": 500 * US}
    silent = {**rows[0], "bytes": None, "start_ns": 700 * US}
    found = gate(timeline(made, {"kernels": [*rows, small, short, silent]}, A100), "copies")
    assert (found.held, found.value) == (True, pytest.approx(100 * MIB / 1e-4))
    assert found.limit == 2039e9
    assert found.coverage == pytest.approx(100 / 210)
    fast = gate(timeline(made, {"kernels": [{**rows[0], "bytes": 300 * MIB}]}, A100), "copies")
    assert fast.held is False
    for machine, why in (
        (None, "the name of the GPU is not known"),
        ({"gpus": [{"name": "Volta Nine"}]}, "no peaks of 'Volta Nine' are known"),
        ({"gpus": [{"name": "NVIDIA H200"}, {"name": "NVIDIA B200"}]}, "it ran on GPUs of several kinds"),
    ):
        told = gate(timeline(made, {"kernels": rows}, machine), "copies")
        assert told.held is None
        assert why in told.text
    assert gate(timeline(made, {"kernels": [small]}, A100), "copies").held is None
    assert gate(timeline(made, {"kernels": [silent]}, A100), "copies").text.endswith("no copy tells its bytes.")


def counters(made: Any, *values: tuple[str, str, float | None]) -> Profile:
    rows = [{"name": GEMM, "metric": metric, "unit": unit, "value": value} for metric, unit, value in values]
    profile: Profile = made.foreign({"counters": made.foreign_info()}, {"counters": {"counters": rows}}, A100)
    return profile


def test_counters_against_the_memory_and_against_100(made: Any) -> None:
    true = [
        ("dram__bytes.sum.per_second", "B/s", 2e12),
        ("dram_read_throughput", "B/s", 1e12),
        ("l1tex__t_bytes.sum.per_second", "B/s", 9e12),  # a cache may
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", 100.4),
        ("gld_efficiency", "%", 180.0),  # may: it is no share of a peak
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", None),
    ]
    profile = counters(made, *true)
    assert (gate(profile, "counters of bandwidth").held, gate(profile, "counters of bandwidth").value) == (True, 2e12)
    assert (gate(profile, "counters in per cent").held, gate(profile, "counters in per cent").value) == (True, 100.4)
    wrong = counters(
        made,
        *true,
        ("dram__bytes.sum.per_second", "B/s", 2.5e12),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", 140.0),
    )
    assert [row.name for row in gates(wrong).failed] == ["counters of bandwidth", "counters in per cent"]
    assert "sm__throughput" in gate(wrong, "counters in per cent").text


def work(made: Any, kernel_ns: int, flops: int, **changes: Any) -> Profile:
    same = {"preset": "small", "batch_size": 4, "samples": 4, "precision": "fp32", **changes}
    rows = [made.operator_row(0, [made.access(0)], name="aten::mm", flops_matrix=flops, flops_all=flops)]
    profile: Profile = made.foreign(
        {"timeline": made.foreign_info(**same), "operators": made.foreign_info(**{**same, **changes.get("other", {})})},
        {
            "kernels": {"timeline": made.device_rows([(GEMM, 1000, kernel_ns)])},
            "steps": {"timeline": made.step_rows([2 * kernel_ns])},
            "operators": {"operators": rows},
        },
        A100,
    )
    return profile


def test_case_4_35_flops_against_the_peak(made: Any) -> None:
    """A100: 156 TFLOP/s of TF32, which is what fp32 may round to."""
    found = gate(work(made, 10_000_000, 10**12), "FLOP/s")  # 10^12 FLOP in 10 ms
    assert (found.held, found.value, found.limit) == (True, pytest.approx(1e14), 156e12)
    assert found.coverage == 1.0
    assert gate(work(made, 10_000_000, 10**13), "FLOP/s").held is False


def test_flops_of_other_conditions_are_not_compared(made: Any) -> None:
    for changes, why in (
        ({"batch_size": None}, "different presets or batches"),
        ({"precision": "int3"}, ""),
    ):
        found = gate(work(made, 10_000_000, 10**12, **changes), "FLOP/s")
        assert (found.held is None) == bool(why)
        assert why in found.text


def test_json_frame_and_repr(made: Any) -> None:
    found = gates(timeline(made, {"kernels": made.device_rows([(GEMM, 1000, 5)])}))
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["checked"], told["failed"], told["not_checked"]) == (3, 1, 9)
    assert found.to_frame()["name"].tolist() == NAMES
    assert "FAILED kernel length" in repr(found)
