"""Kineto traces of every kind that users reported (numbers: ../shared/CASES.md), written event by event."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profilers.readers.conftest import Result, Run
from tests.profilers.readers.traces import KINETO, call, kernel, mark, op, span, trace
from wcbench import api, kernels
from wcbench.errors import ReadError, WcbenchError

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EPOCH = 1_700_000_000_000_000  # microseconds


def named(result: Result, table: str, name: str) -> Any:
    """The one row of a table with this name."""
    rows = result.tables[table]
    rows = rows[rows["name"].astype(str) == name]
    assert len(rows) == 1, f"{len(rows)} rows of {name}"
    return rows.iloc[0]


def column(result: Result, table: str, name: str) -> list[Any]:
    """A column by rows, None for null."""
    values = result.tables[table][name].astype(object)
    return [None if pd.isna(value) is True or value is None else value for value in values]


def names(result: Result, table: str) -> list[str]:
    return [str(name) for name in result.tables[table]["name"]] if table in result.tables else []


def noted(result: Result, text: str) -> bool:
    return any(text in note for note in result.notes)


def lost(result: Result, *, repaired: bool = False) -> int:
    return sum(loss.count for loss in result.losses if loss.repaired == repaired)


# --- classes and links ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "nccldevkernel_allgather_ring_ll(ncclDevKernelArgsStorage)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
    ],
)
def test_case_9_collectives_are_communication_and_keep_their_own_name(run: Run, name: str) -> None:
    found = run(KINETO, trace(call(0, 1), kernel(2, 1, name=name, Collective_name="allreduce")))
    row = named(found, "kernels", name)
    assert row["collective"] == "allreduce"
    assert kernels.classify(name).full == "communication"


def test_case_10_an_id_of_an_operator_that_equals_a_correlation_links_nothing(run: Run) -> None:
    found = run(
        KINETO,
        trace(
            op("aten::wrong", 0, 5, External_id=23),
            op("aten::mm", 10, 20, External_id=7),
            call(12, 23, External_id=7),
            kernel(40, 23, External_id=23),
        ),
    )
    assert named(found, "kernels", "gemm")["op"] == "aten::mm"


@pytest.mark.parametrize("version", ["2.0", "2.4"])
def test_case_10_a_call_outside_every_operator_goes_by_an_operators_id_alone(run: Run, version: str) -> None:
    # torch 2.0 to 2.3 write the correlation itself as "External id" of each call: 23 is no operator's id there
    external = 23 if version == "2.0" else 7
    found = run(
        KINETO,
        trace(
            op("aten::wrong", 0, 5, External_id=23),
            op("aten::mm", 10, 2, External_id=7),
            call(15, 23, External_id=external),
            kernel(40, 23),
        ),
    )
    assert column(found, "kernels", "op") == [None if version == "2.0" else "aten::mm"]


@FUZZ
@given(seed=st.integers(0, 1 << 30), cut=st.booleans())
def test_case_11_self_times_are_never_negative_and_add_up(seed: int, cut: bool, run: Run) -> None:
    chance = random.Random(seed)
    events: list[dict[str, Any]] = []

    def nest(low: int, high: int, depth: int) -> None:
        """Properly nested in nanoseconds; the file's start and duration are cut to microseconds, each by itself."""
        at = low
        while at < high and depth < 4 and len(events) < 25:
            start = chance.randint(at, high)
            end = chance.randint(start, high)
            times = (start // 1000, (end - start) // 1000) if cut else (start / 1000, (end - start) / 1000)
            events.append(op(f"op{len(events)}", *times))
            nest(start, end, depth + 1)
            at = end + 1

    nest(0, 60_000, 0)
    chance.shuffle(events)
    events = [e for e in events if e["ts"] or e["dur"]]  # no time at all in these files: case 18
    if not events:
        return
    ops = run(KINETO, trace(*events)).tables["ops"]
    assert len(ops) == len(events)
    assert (ops["self_ns"] >= 0).all()
    roots = ops[ops["parent"].isna()]
    assert ops["self_ns"].sum() == roots["duration_ns"].sum()
    assert ops["duration_ns"].sum() == sum(round(event["dur"] * 1000) for event in events)


def test_case_11_of_the_report(run: Run) -> None:
    found = run(KINETO, trace(op("grand", 0, 100), op("parent", 10, 40.0004), op("child", 20, 30.0009)))
    # nanoseconds: [0, 100000], [10000, 50000], [20000, 50001] - cut by one
    assert column(found, "ops", "self_ns") == [60_000, 10_000, 30_000]
    assert column(found, "ops", "parent") == [None, 0, 1]
    assert noted(found, "1 calls outlived the call around them")


def test_case_12_utilization_is_a_union_for_each_device(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(
        trace(
            *(call(i, i) for i in range(1, 5)),
            kernel(1000, 1, dur=100_000, stream=7), kernel(1000, 2, dur=100_000, stream=8),
            kernel(1000, 3, dur=50_000, stream=7, device=1), kernel(151_000, 4, dur=50_000, stream=7, device=1),
        )
    )  # fmt: skip
    devices = api.read(file).view("activity").devices.set_index("device")
    assert devices.loc["cuda:0", "utilization"] == 1.0
    assert devices.loc["cuda:1", "utilization"] == 0.5
    assert devices.loc["cuda:0", "sum_ns"] == 200_000_000


@pytest.mark.parametrize("name", ["Stream Sync", "Device Sync", "Event Sync", "Stream Wait Event", "Context Sync"])
def test_case_14_synchronization_is_no_work_of_the_device(tmp_path: Path, name: str) -> None:
    file = tmp_path / "t.json"
    wait = {**kernel(1, 2, dur=1000, name=name), "cat": "cuda_sync"}
    file.write_text(trace(call(0, 1), kernel(100, 1, dur=50), wait, {**wait, "cat": "kernel"}))
    devices = api.read(file).view("activity").devices
    assert devices["busy_ns"].tolist() == [50_000]
    assert devices["waiting_calls"].tolist() == [1]


# --- damage ---------------------------------------------------------------------------------------------------------

GOOD = [json.dumps(op(f"good{i}", 10 * i, 5)) for i in range(6)]
DAMAGED = {
    "a newline in a name": ('<OP>"name":"a\n(1): <module>",<END>', True),
    "a control character": ('<OP>"name":"a\x01\x1fb",<END>', True),
    "quotes in a name": ('<OP>"name":"_x = Library("t", "IMPL")","pid":1,"tid":1,"ts":70}', False),
    "a Windows path": ('<OP>"name":"torch\\cuda\\__init__.py",<END>', True),
    "a path and good escapes": (
        '<OP>"name":"C:\\\\cuda\\_x \\"q\\"",<END>', True,
    ),
    "half an escape": ('<OP>"name":"\\u12",<END>', True),
    "a missing quote": ('<OP>"name":"a","pid":1,tid": 0,"ts":70,"dur":1}', False),
    "a missing colon": ('{"ph":"X","cat" "cpu_op","name":"a",<END>', False),
    "bytes that are no UTF-8": ('<OP>"name":"a\udcff\udc80",<END>', True),
    "bytes of another rank": ('{"ph":"X","cat":"cpu_o{"ph":"X","cat":"cp","name":"a",<END>', False),
    "a NaN": ('<OP>"name":"a","pid":1,"tid":0,"ts":NaN,"dur":1}', False),
    "a cut event": ('<OP>"name":"a","pid":1,"ti', False),
    "a brace too many": ('<OP>"name":"a",<END>}', False),
    "a bracket too many": ('<OP>"name":"a",<END>]', False),
    "text that is no event": ("oops", False),
    "zeros": ("\0" * 50, False),
}  # fmt: skip


WHOLE_ALL_THE_SAME = ("a brace too many", "a bracket too many")  # the event itself is kept, what is too much is told


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("what", DAMAGED)
def test_cases_15_to_17_damage_costs_its_own_event_and_is_located(run: Run, what: str, place: int) -> None:
    text, repaired = DAMAGED[what]
    text = text.replace("<OP>", '{"ph":"X","cat":"cpu_op",').replace("<END>", '"pid":1,"tid":1,"ts":70,"dur":1}')
    events = [*GOOD[:place], text, *GOOD[place:]]
    content = '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n' + ",\n".join(events) + "\n]}"
    data = content.encode("utf-8", "surrogateescape")
    found = run(KINETO, data)
    ops = names(found, "ops")
    assert [name for name in ops if name.startswith("good")] == [f"good{i}" for i in range(6)]
    assert len(ops) == 6 + (repaired or what in WHOLE_ALL_THE_SAME)
    if place < 6:  # in the last event it may hide the end of the list as well
        assert (lost(found), lost(found, repaired=True)) == (not repaired, repaired)
    at = data.index(text.encode("utf-8", "surrogateescape"))
    offsets = [loss.offset for loss in found.losses if loss.offset is not None]
    assert offsets
    assert at - 6 <= min(offsets) <= at + len(text), "of the event, or of the blanks before it"


def test_case_16_backslashes_are_kept(run: Run) -> None:
    text = r'{"ph":"X","cat":"cpu_op","name":"C:\\x\cuda\_y","pid":1,"tid":1,"ts":70,"dur":1}'
    found = run(KINETO, '{"schemaVersion":1,"traceEvents":[' + ",".join([*GOOD, text, *GOOD[:0], GOOD[0]]) + "]}")
    assert r"C:\x\cuda\_y" in names(found, "ops")


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_cut_at_every_byte_keeps_the_events_before_the_cut(run: Run, indent: int | None) -> None:
    events = [
        op("a", 0, 9, External_id=1),
        call(2, 1, External_id=1),
        kernel(5, 1, grid=[1, 2, 3]),
        op('n"}, {"ph', 20, 5),
    ]
    whole = trace(*events, indent=indent, deviceProperties=[{"id": 0, "name": "GPU"}], distributedInfo={"rank": 0})
    whole = whole[:-1].rstrip() + ', "traceName": "x"}'
    ends = []  # where each event ends
    at = whole.index('"traceEvents"')
    for event in events:
        at = whole.index(json.dumps(event["name"]), at)
        depth, inside = 1, True
        while depth:
            at += 1
            inside ^= whole[at] == '"' and whole[at - 1] != "\\"
            depth += 0 if inside else {"{": 1, "}": -1}.get(whole[at], 0)
        at += 1
        ends.append(at)
    step = 1 if indent is None else 7
    for cut in [*range(0, len(whole), step), len(whole)]:
        kept = sum(end <= cut for end in ends)
        try:
            found = _read(run, whole[:cut])
        except WcbenchError:
            assert kept == 0, cut
            continue
        assert len(names(found, "ops")) + len(names(found, "runtime")) + len(found.tables.get("kernels", ())) - (
            kept < 3 and len(found.tables.get("kernels", ()))
        ) == kept, cut  # fmt: skip
        assert bool(lost(found)) == (cut < len(whole)), cut


def _read(run: Run, content: str) -> Result:
    try:
        return run(KINETO, content)
    except AssertionError as error:
        raise WcbenchError(str(error)) from None  # too little to tell what it is


# --- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kernel", "gpu_memcpy", "cpu_op", "cuda_runtime", "user_annotation"])
@pytest.mark.parametrize("base", [None, 1_600_000_000_000_000_000])
def test_case_18_times_that_were_never_filled_in_stretch_nothing(run: Run, kind: str, base: int | None) -> None:
    empty = span(kind, "Optimizer.step#SGD.step", 0, 0, correlation=5, device=0, stream=7)
    top = {"baseTimeNanoseconds": base} if base else {}
    found = run(KINETO, trace(op("a", EPOCH, 10), call(EPOCH, 1), kernel(EPOCH + 20, 1, dur=30), empty, **top))
    assert found.tables["steps"]["duration_ns"].tolist() == [50_000]
    assert found.passes["timeline"].seconds == pytest.approx(50e-6)
    if kind in ("kernel", "gpu_memcpy"):
        assert None in column(found, "kernels", "start_ns")
        assert noted(found, "1 kernels carry no timestamp")
    else:
        assert lost(found) == 1


def test_an_event_at_the_very_base_of_times_is_one_like_others(run: Run) -> None:
    base = 1_600_000_000_000_000_000
    found = run(KINETO, trace(op("a", 0, 10), op("b", 5, 2), baseTimeNanoseconds=base))
    assert column(found, "ops", "start_ns") == [base, base + 5000]


def test_floats_of_microseconds_since_the_epoch_are_exact_to_the_nanosecond(run: Run) -> None:
    # 1700000000000000.123 has no float64: the nearest is .0 or .25
    times = [("1700000000000000.123", "0.377"), ("1700000000000000.124", "0.001"), ("1.7000000000000005e15", "2")]
    events = [f'{{"ph":"X","cat":"cpu_op","name":"op{i}","pid":1,"tid":{i},"ts":{ts},"dur":{dur}}}'
              for i, (ts, dur) in enumerate(times)]  # fmt: skip
    for layout in (events, [json.dumps(call(EPOCH, 1)), *events], ['{"name":"m","ph":"M"}', *events]):
        for count in (1, 2, 3):
            content = '{"schemaVersion":1,"traceEvents":[' + ",".join(layout[: len(layout) - 3 + count]) + "]}"
            found = run(KINETO, content)
            starts = [1_700_000_000_000_000_123, 1_700_000_000_000_000_124, 1_700_000_000_000_000_500][:count]
            assert column(found, "ops", "start_ns") == starts
            assert column(found, "ops", "duration_ns") == [377, 1, 2000][:count]
            assert len(names(found, "runtime")) == (layout[0] == json.dumps(call(EPOCH, 1)))


def test_exact_times_go_on_behind_pieces_full_of_other_events(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wcbench.profilers.readers.source.Source.chunks.__defaults__", (2048,), raising=False)
    flow = {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"}
    events: list[Any] = []
    for i in range(60):
        events += [flow] * 12 + [op(f"op{i}", EPOCH + 10 * i + 0.5, 5)]
    found = run(KINETO, trace(*events))
    assert column(found, "ops", "start_ns") == [EPOCH * 1000 + 10_000 * i + 500 for i in range(60)]


def test_damage_in_a_piece_that_is_read_twice_is_told_once(run: Run) -> None:
    content = ",".join([json.dumps(op("a", EPOCH + 0.5, 2)), "oops", json.dumps(op("b", EPOCH + 4.5, 2))])
    found = run(KINETO, '{"schemaVersion":1,"traceEvents":[' + content + "," + GOOD[0] + "]}")
    assert lost(found) == 1
    assert len(names(found, "ops")) == 3


@pytest.mark.parametrize("unit", [None, "ms", "ns"])
def test_case_59_times_are_microseconds_whatever_they_are_shown_in(run: Run, unit: str | None) -> None:
    top = {} if unit is None else {"displayTimeUnit": unit}
    found = run(KINETO, trace(op("a", 5, 10), **top))
    assert column(found, "ops", "duration_ns") == [10_000]


@pytest.mark.parametrize("dur", [-5, None, "n/a", 1e400, "missing"])
def test_a_duration_that_is_none_is_told(run: Run, dur: Any) -> None:
    event: dict[str, Any] = {**kernel(9, 1), "dur": dur}
    if dur == "missing":
        del event["dur"]
    content = trace(op("a", 5, 10), event).replace("Infinity", "1e400")
    found = run(KINETO, content)
    assert "gemm" not in names(found, "kernels") or named(found, "kernels", "gemm")["duration_ns"] == 0
    assert [(loss.what, loss.count) for loss in found.losses] in ([("a duration", 1)], [("an event", 1)])


# --- ranks and steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "rank", "world"),
    [
        (None, None, None),
        ({}, None, None),
        ({"backend": "nccl"}, None, None),
        ({"rank": 3}, 3, None),
        ({"backend": "nccl", "rank": 1, "world_size": 4, "pg_count": 2, "pg_config": [{"pg_name": "0"}]}, 1, 4),
        ({"rank": "2"}, None, None),
        ({"rank": -1, "world_size": 1e400}, None, None),
        ([1], None, None),
    ],
)
def test_case_20_what_a_file_says_of_its_rank(run: Run, info: Any, rank: int | None, world: int | None) -> None:
    text = trace(op("a", 1, 1), **({} if info is None else {"distributedInfo": info})).replace("Infinity", "1e400")
    found = run(KINETO, text)
    assert (found.sink.rank, found.sink.world_size) == (rank, world)


@pytest.mark.parametrize("behind", [False, True])
def test_metadata_stands_in_front_of_the_events_or_behind_them(run: Run, behind: bool) -> None:
    parts = {"traceEvents": [op("a", 1, 1), op("b", 3, 1)], "schemaVersion": 1, "distributedInfo": {"rank": 2},
             "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "numSms": 108}, {"id": 1, "name": "NVIDIA A100"}],
             "cuda_driver_version": 12020}  # fmt: skip
    keys = list(parts) if behind else list(parts)[::-1]
    for indent in (None, 2):
        found = run(KINETO, json.dumps({key: parts[key] for key in keys}, indent=indent))
        assert found.sink.rank == 2
        assert [gpu["name"] for gpu in found.sink.facts["gpus"]] == ["NVIDIA A100"] * 2
        assert found.sink.facts["versions"] == {"cuda_driver_version": 12020}
        assert names(found, "ops") == ["a", "b"]
        assert found.losses == []


def test_case_21_without_steps_the_whole_file_is_one(run: Run) -> None:
    found = run(KINETO, trace(op("a", 5, 10), call(6, 1), kernel(20, 1, dur=5)))
    steps = found.tables["steps"]
    assert (steps["index"].tolist(), steps["kind"].tolist()) == ([0], ["whole file"])
    assert steps["duration_ns"].tolist() == [20_000]
    assert noted(found, "marks no steps")
    assert column(found, "kernels", "step") == [0]


@pytest.mark.parametrize(
    "events",
    [[], [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}], [{}], [[]], [None]],
)
def test_case_21_a_file_without_events_in_time_is_refused_with_a_remedy(run: Run, events: list[Any]) -> None:
    with pytest.raises(ReadError, match="holds no events in time") as refused:
        run(KINETO, trace(*events))
    assert refused.value.hint
    assert "file-1" in refused.value.message


@pytest.mark.parametrize("cat", ["kernel", "Kernel", "KERNEL", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"])
def test_case_22_categories_in_every_spelling(run: Run, cat: str) -> None:
    found = run(KINETO, trace(op("a", 1, 2), {**kernel(5, 1, name="work"), "cat": cat}))
    assert names(found, "kernels") == ["work"]
    assert column(found, "kernels", "device") == ["cuda:0"]


@pytest.mark.parametrize("cat", ["cpu_op", "Operator", "operator", "CPU_OP"])
def test_case_22_operators_in_every_spelling(run: Run, cat: str) -> None:
    assert names(run(KINETO, trace(span(cat, "aten::add", 1, 2))), "ops") == ["aten::add"]


@pytest.mark.parametrize("name", ["CopyHostToDevice", "CopyDeviceToDevice", "CopyDeviceToHost"])
def test_case_22_copies_among_the_kernels_are_copies(name: str) -> None:
    assert kernels.classify(name).full == "memory copy"


def test_case_24_launches_without_kernels_are_counted(run: Run) -> None:
    for missing in range(4):
        events = (
            [op("a", 1, 50)] + [call(5 + 3 * i, i) for i in range(10)] + [kernel(60 + i, i) for i in range(missing, 10)]
        )
        found = run(KINETO, trace(*events, call(40, 99, name="cudaDeviceSynchronize")))
        assert noted(found, f"{missing} launches have no device record") == (missing > 0)


def test_case_25_frames_of_python_are_no_operators(run: Run) -> None:
    frames = [
        span("python_function", "threading.py(589): wait", 0, 1000),
        span("python_function", "built-in f", 2, 900),
    ]
    plain = run(KINETO, trace(op("a", 5, 10)))
    found = run(KINETO, trace(op("a", 5, 10), *frames))
    pd.testing.assert_frame_equal(found.tables["ops"], plain.tables["ops"])
    assert found.tables["steps"]["duration_ns"].tolist() == [10_000], "frames that end with the trace stretch no span"


@pytest.mark.parametrize(
    ("name", "cat"),
    [
        ("cuLaunchKernel", "cuda_driver"), ("cuLaunchKernelEx", "cuda_driver"), ("cudaLaunchKernelExC", "cuda_runtime"),
        ("hipLaunchKernel", "cuda_runtime"), ("hipExtModuleLaunchKernel", "hip_runtime"),
        ("cudaGraphLaunch", "Runtime"),
        ("cudaMemcpyAsync", "cuda_runtime"), ("runFunction - job_prep_and_submit_for_execution", "mtia_runtime"),
        ("no name that anybody knows", "xpu_runtime"), ("cuMemcpy", "Driver"),
    ],
)  # fmt: skip
def test_case_54_any_call_links_by_its_correlation(run: Run, name: str, cat: str) -> None:
    found = run(KINETO, trace(op("aten::mm", 0, 9), {**call(2, 4, name=name), "cat": cat}, kernel(20, 4)))
    assert named(found, "kernels", "gemm")["op"] == "aten::mm"
    assert column(found, "kernels", "launch") == [0]
    assert names(found, "runtime") == [name]


def test_case_60_a_kernel_is_of_the_step_that_launched_it(run: Run) -> None:
    steps = [mark("ProfilerStep#7", 0, 100), mark("ProfilerStep#8", 100, 100)]
    found = run(KINETO, trace(*steps, call(90, 1), kernel(150, 1), call(110, 2), kernel(160, 2), kernel(170, 99)))
    assert column(found, "kernels", "step") == [0, 1, None]
    assert found.tables["steps"]["index"].tolist() == [0, 1]
    assert found.passes["timeline"].steps == 2
    assert noted(found, "1 kernels have no launch")


@pytest.mark.parametrize("absent", ["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "user_annotation"])
def test_case_62_each_category_may_be_absent(tmp_path: Path, absent: str) -> None:
    events = [
        mark("ProfilerStep#1", 0, 100), op("aten::mm", 5, 20), call(6, 1), kernel(20, 1),
        kernel(30, 2, cat="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)", bytes=4096),
        kernel(40, 3, cat="gpu_memset", name="Memset (Device)", bytes=512),
    ]  # fmt: skip
    file = tmp_path / "t.json"
    file.write_text(trace(*(event for event in events if event["cat"] != absent)))
    profile = api.read(file)
    for view in ("activity", "hotspots", "categories", "steps", "summary"):
        json.dumps(profile.view(view), default=str)
    assert len(profile.table("kernels")) == 3 - (absent in ("kernel", "gpu_memcpy", "gpu_memset"))


@pytest.mark.parametrize("how", ["node", "old node", "thread"])
def test_case_63_kernels_of_forward_backward_and_optimizer(run: Run, how: str) -> None:
    backward = {
        "node": op("autograd::engine::evaluate_function: MmBackward0", 100, 50, tid=2),
        "old node": span("Operator", "MmBackward", 100, 50, tid=2),
        "thread": op("MmBackwardOfSomebody", 100, 50, tid=2, Fwd_thread_id=1, Sequence_number=4),
    }[how]
    found = run(
        KINETO,
        trace(
            mark("ProfilerStep#1", 0, 400),
            op("aten::mm", 10, 20, Sequence_number=4, Fwd_thread_id=0), call(12, 1), kernel(30, 1, name="fwd"),
            backward, op("aten::mm", 110, 20, tid=2), call(112, 2, tid=2), kernel(130, 2, name="bwd"),
            mark("Optimizer.step#SGD.step", 200, 50), op("aten::add_", 210, 20), call(212, 3),
            kernel(230, 3, name="opt"),
            mark("Optimizer.zero_grad#SGD.zero_grad", 300, 50), op("aten::zero_", 310, 9), call(312, 4),
            kernel(330, 4, name="zero"),
        ),
    )  # fmt: skip
    phases = dict(zip(names(found, "kernels"), map(str, found.tables["kernels"]["phase"]), strict=True))
    assert phases == {"fwd": "forward", "bwd": "backward", "opt": "optimizer", "zero": "other"}


def test_case_65_of_rocm_several_kernels_share_a_launch_and_fields_are_missing(run: Run) -> None:
    def bare(ts: float, name: str, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": "kernel", "name": name, "pid": 2, "tid": 0, "ts": ts, "dur": 3, "args": args}

    found = run(
        KINETO,
        trace(
            op("aten::mm", 0, 20, External_id=1),
            call(5, 11, name="hipLaunchKernel", External_id=1, kernel="k", grid=[1, 1, 1], block=[64, 1, 1]),
            bare(30, "a", correlation=11, device=2, stream=0), bare(40, "b", correlation=11, device=2, stream=0),
            bare(50, "c"), bare(60, "d", correlation="none", device="x", stream=None),
            {**bare(70, "Memcpy HtoD", kind="HtoD"), "cat": "gpu_memcpy"},
            {**bare(80, "e"), "args": None}, {key: value for key, value in bare(90, "f").items() if key != "args"},
        ),
    )  # fmt: skip
    assert column(found, "kernels", "op") == ["aten::mm", "aten::mm", None, None, None, None, None]
    assert column(found, "kernels", "launch") == [0, 0, None, None, None, None, None]
    for field in ("registers", "shared_bytes", "occupancy_estimate", "grid", "bytes"):
        assert column(found, "kernels", field) == [None] * 7, field
    assert set(map(str, found.tables["kernels"]["device"])) == {"cuda:2"}


@pytest.mark.parametrize("bad", [3.7, "n/a", None, 1e30, -5, [], {}, "12", 1e2, 2**63, 2**70])
def test_case_67_numbers_of_another_kind_cost_no_event(run: Run, bad: Any) -> None:
    fields = (
        "registers_per_thread",
        "shared_memory",
        "bytes",
        "est._achieved_occupancy_%",
        "External_id",
        "grid",
        "block",
    )
    events = [kernel(10, 1), kernel(20, 2, name="odd", **dict.fromkeys(fields, bad)), kernel(30, 3), call(1, 1)]
    found = run(KINETO, trace(*events, op("a", 0, 5, External_id=bad, Sequence_number=bad, Fwd_thread_id=bad)))
    assert names(found, "kernels") == ["gemm", "odd", "gemm"]
    assert found.losses == []
    row = found.tables["kernels"].iloc[1]
    whole = {"12": 12, "100.0": 100}.get(str(bad))
    assert column(found, "kernels", "registers") == [None, whole, None]
    assert column(found, "kernels", "bytes") == [None, whole, None]
    assert row["grid"] is None
    occupancy = column(found, "kernels", "occupancy_estimate")[1]
    assert occupancy is None or occupancy == pytest.approx(float(bad) / 100)


@pytest.mark.parametrize("bad", [[], {}, [1, 2], {"a": 1}, 3.5, True, None, "", "x" * 300, 2**70, -4])
@pytest.mark.parametrize("key", ["name", "cat", "pid", "tid", "ts", "dur", "args", "ph"])
def test_case_67_any_field_may_hold_anything(run: Run, key: str, bad: Any) -> None:
    for odd in (op("odd", 50, 1), call(50, 9), {**kernel(50, 9), "args": {}}, mark("Optimizer.step#x", 50, 1)):
        found = run(KINETO, trace(op("a", 1, 2), {**odd, key: bad}, op("b", 90, 2)))
        assert [name for name in names(found, "ops") if name in ("a", "b")] == ["a", "b"]


@pytest.mark.parametrize("ids", [[0, 0, 0], [7, 7, 7], [1, 2, 1]])
def test_case_68_ids_that_several_operators_carry_are_not_trusted(run: Run, ids: list[int]) -> None:
    ops = [op(f"op{i}", 10 * i, 5, External_id=number) for i, number in enumerate(ids)]
    found = run(KINETO, trace(*ops, call(100, 50, External_id=ids[0]), kernel(120, 50)))
    assert column(found, "kernels", "op") == [None]
    assert column(found, "runtime", "op") == [None]


def test_case_95_tables_are_data_frames(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(trace(op("a", 1, 5), call(2, 1), kernel(9, 1, grid=[2, 1, 1], block=[64, 1, 1])))
    profile = api.read(file)
    frame = profile.table("kernels")
    assert isinstance(frame, pd.DataFrame)
    assert frame["duration_ns"].dtype == "int64"
    assert frame["start_ns"].dtype == "Int64"
    assert list(frame["grid"].iloc[0]) == [2, 1, 1]
    assert isinstance(profile.view("hotspots").to_frame(), pd.DataFrame)


# --- shapes of real files -------------------------------------------------------------------------------------------


def test_integers_beyond_64_bits_cost_nothing(run: Run) -> None:
    found = run(
        KINETO, trace(op("a", 1, 2, Comms_Id=2**64 + 5, External_id=2**63), kernel(5, 2**63 + 1), call(3, 2**64))
    )
    assert found.losses == []
    assert column(found, "runtime", "correlation") == [-1]
    assert column(found, "kernels", "launch") == [None]


def test_one_graph_launch_owns_hundreds_of_kernels(run: Run) -> None:
    kernels_ = [kernel(20 + i, 5, name=f"k{i}") for i in range(420)]
    for kernel_ in kernels_:
        del kernel_["args"]["device"], kernel_["args"]["stream"]
    found = run(KINETO, trace(op("graph", 0, 9), call(2, 5, name="cudaGraphLaunch"), *kernels_))
    assert column(found, "kernels", "launch") == [0] * 420
    assert column(found, "kernels", "op") == ["graph"] * 420
    assert not noted(found, "have no device record")


def test_a_correlation_that_two_calls_carry_goes_to_the_first_of_its_thread(run: Run) -> None:
    found = run(KINETO, trace(op("a", 0, 9), op("b", 10, 9), call(12, 5), call(2, 5), kernel(30, 5)))
    assert column(found, "kernels", "op") == ["a"]


def test_events_in_two_parts_are_told(run: Run) -> None:
    begin, end = {**op("half", 5, 0), "ph": "B"}, {"ph": "E", "ts": 9, "pid": 1, "tid": 1}
    found = run(KINETO, trace(op("a", 1, 2), begin, end, begin, end))
    assert [(loss.what, loss.count) for loss in found.losses] == [("an event", 2)]
    with pytest.raises(ReadError):
        run(KINETO, trace(begin, end))


def test_merged_traces_keep_the_ranks_of_their_kernels(run: Run) -> None:
    found = run(KINETO, trace(*(kernel(10 * i, i, rank=i % 3, name=f"k{i}") for i in range(9))))
    assert found.sink.own_ranks
    assert column(found, "kernels", "rank") == [i % 3 for i in range(9)]


def test_equal_thread_ids_of_two_processes_are_two_threads(run: Run) -> None:
    found = run(KINETO, trace(op("a", 0, 100, pid=1), op("b", 10, 20, pid=2), call(12, 1, pid=2), kernel(50, 1)))
    assert column(found, "ops", "depth") == [0, 0]
    assert len(set(column(found, "ops", "thread"))) == 2
    assert column(found, "kernels", "op") == ["b"]


def test_unknown_categories_are_noted_and_known_ones_are_not(run: Run) -> None:
    others = [span("weird_thing", "x", 1, 1), span("weird_thing", "y", 1, 1), span("python_function", "f", 1, 1)]
    no_cat = {key: value for key, value in op("z", 1, 1).items() if key != "cat"}
    found = run(KINETO, trace(op("a", 1, 2), *others, no_cat))
    assert noted(found, "2 events of category weird_thing are left out")
    assert noted(found, "1 events of category (none) are left out")
    assert not noted(found, "python_function")


def mixed_events() -> list[dict[str, Any]]:
    flow = {"ph": "s", "id": 3, "pid": 1, "tid": 1, "ts": 4, "cat": "ac2g", "name": "ac2g"}
    return [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0.0, "args": {"name": "python"}},
        mark("ProfilerStep#1", 0, 100), op("aten::mm", 5, 20, External_id=1), call(6, 3, External_id=1), flow,
        kernel(30, 3, grid=[1, 2, 3], block=[4, 5, 6], registers_per_thread=7), op('quo"te\\ \n}, {"ph', 50, 4),
        {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "ts": 1, "pid": 1, "tid": 1, "s": "t"}, flow,
        kernel(60, 4, cat="gpu_memcpy", name="Memcpy", bytes=5), op("last", 90, 4),
    ]  # fmt: skip


@FUZZ
@given(seed=st.integers(0, 1 << 30), indent=st.sampled_from([None, 0, 2]), compact=st.booleans(), head=st.booleans())
def test_order_of_keys_and_layout_change_nothing(
    seed: int, indent: int | None, compact: bool, head: bool, run: Run
) -> None:
    plain = run(KINETO, trace(*mixed_events()))
    chance = random.Random(seed)
    events = [dict(chance.sample(list(event.items()), len(event))) for event in mixed_events()]
    separators = (",", ":") if compact else None
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=indent, separators=separators)
    if head:
        text = "\ufeff\n" + json.dumps([*events], indent=indent, separators=separators) + "\n"
    found = run(KINETO, text)
    assert found.losses == []
    for name in plain.tables:
        pd.testing.assert_frame_equal(found.tables[name], plain.tables[name], check_categorical=False)


@pytest.mark.parametrize("size", [64, 200, 1000])
def test_pieces_of_any_size_give_the_same(run: Run, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    plain = run(KINETO, trace(*mixed_events(), traceName="x"))
    monkeypatch.setattr("wcbench.profilers.readers.source.Source.chunks.__defaults__", (size,))
    found = run(KINETO, trace(*mixed_events(), traceName="x"))
    assert found.losses == []
    for name in plain.tables:
        pd.testing.assert_frame_equal(found.tables[name], plain.tables[name], check_categorical=False)


def test_counters_of_ranges_are_read_once_wherever_they_stand(run: Run) -> None:
    def counted(i: int) -> dict[str, Any]:
        return span("cuda_profiler_range", f"k{i}", 10 * i, 5, smsp__inst_executed=100.5 + i, text="x")

    for count in (1, 2, 5):
        ranges = [counted(i) for i in range(count)]
        for events in ([op("a", 1, 2), *ranges], [*ranges, op("a", 1, 2)], ranges):
            counters = run(KINETO, trace(*events)).tables["counters"]
            assert [str(name) for name in counters["name"]] == [f"k{i}" for i in range(count)]
            assert counters["value"].tolist() == [100.5 + i for i in range(count)]


def test_counters_beyond_a_float_are_told(run: Run) -> None:
    good, bad = (span("cuda_profiler_range", name, 10, 5, inst=1.5, cycles=math.inf) for name in ("good", "bad"))
    del good["args"]["cycles"]
    for beyond in ("1e999", "9" * 400):
        found = run(KINETO, trace(good, bad, op("a", 1, 2)).replace("Infinity", beyond))
        assert "good" in names(found, "counters")
        assert "bad" not in names(found, "counters") or column(found, "counters", "value") == [1.5, 1.5]
        assert lost(found) == 1 or "bad" in names(found, "counters")


MUTATIONS = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.sampled_from(["cut", "drop", "byte", "double", "swap"]), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=MUTATIONS, array=st.booleans())
def test_whatever_happens_to_a_file_it_is_read_or_refused(
    changes: list[tuple[int, str, int]], array: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = (
        json.dumps(mixed_events()).encode() if array else trace(*mixed_events(), distributedInfo={"rank": 1}).encode()
    )
    for where, what, byte in changes:
        at = where % max(1, len(data))
        end = at + 1 + byte
        data = {
            "cut": data[:at], "drop": data[:at] + data[end:], "byte": data[:at] + bytes([byte]) + data[at + 1 :],
            "double": data[:end] + data[at:], "swap": data[end:] + data[at:end],
        }[what]  # fmt: skip
    file = tmp_path_factory.mktemp("fuzz") / "t.json"
    file.write_bytes(data)
    try:
        profile = api.read(file, form="kineto")
    except WcbenchError as error:
        refused = error.message
        profile = None
    if profile is None:
        assert "itself failed" not in refused, refused
        return
    if "ops" in profile.tables:
        assert (profile.table("ops")["self_ns"] >= 0).all()
