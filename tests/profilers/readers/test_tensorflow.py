"""Chrome traces of TensorFlow and JAX: real timelines against plain json, rules against traces written for the test."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers import tensorflow
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.tensorflow import Tf1Timeline, TraceViewer

CPU = "traces/tf_jax/ikhlestov_CPU_timeline_02_step_0.json"
GPU = "traces/tf_jax/ikhlestov_GPU_timeline_02_step_0.json"
JOB = "/job:localhost/replica:0/task:0"

Event = dict[str, Any]


def process(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def thread(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def trace(*events: Event, indent: int | None = None) -> str:
    return json.dumps({"traceEvents": list(events)}, indent=indent)


# --- TensorFlow 1 ----------------------------------------------------------------------------------------------------


def op(pid: int, ts: float, dur: float, path: str, kind: str, *, tid: int = 0) -> Event:
    args = {"name": path, "op": kind}
    return {"ph": "X", "cat": "Op", "name": kind, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def of_real_file(path: Path) -> tuple[list[Event], dict[int, str]]:
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    return [event for event in events if event["ph"] == "X"], names


def test_real_gpu_timeline_counts_every_operation_once(run: Any, shared: Path) -> None:
    result = run(Tf1Timeline(), shared / GPU)
    events, names = of_real_file(shared / GPU)
    alone = [e for e in events if "stream:" in names[e["pid"]] and "stream:all" not in names[e["pid"]]]
    kernels = result.tables["kernels"]
    assert len(kernels) == len(alone) == 45  # 38 of stream 12, 4 of 13, 2 of 14, 1 of 7
    assert kernels["duration_ns"].sum() == sum(e["dur"] for e in alone) * 1000 == 778_000
    assert kernels["stream"].value_counts().to_dict() == {12: 38, 13: 4, 14: 2, 7: 1}
    assert set(kernels["device"]) == {"cuda:0"}
    expected = Counter(e["name"] for e in alone)
    expected["MatMul"] -= 1  # it stands among the copies too: a copy within MatMul
    expected["MEMCPY"] += 1
    assert kernels["name"].value_counts().to_dict() == expected
    copy = kernels[kernels["name"] == "MEMCPY"].iloc[0]
    assert (copy["op"], copy["module"], copy["stream"]) == ("MatMul", "layer_1/fully_connected", 7)
    assert any("45 events of stream:all and memcpy" in note for note in result.notes)


def test_real_gpu_timeline_tells_phases_and_calls_of_the_host(run: Any, shared: Path) -> None:
    result = run(Tf1Timeline(), shared / GPU)
    events, names = of_real_file(shared / GPU)
    on_host = [e for e in events if "stream" not in names[e["pid"]] and "memcpy" not in names[e["pid"]]]
    ops = result.tables["ops"]
    assert ops["name"].value_counts().to_dict() == Counter(e["name"] for e in on_host)
    assert ops["self_ns"].sum() == sum(e["dur"] for e in on_host) * 1000 == 113_847_000
    phases = result.tables["kernels"].groupby("phase", observed=True)["name"].agg(set).to_dict()
    assert phases["optimizer"] == {"ApplyGradientDescent"}
    assert {"ReluGrad", "SigmoidGrad", "BiasAddGrad"} <= phases["backward"]
    assert {"Relu", "Sigmoid", "BiasAdd", "MEMCPY"} <= phases["other"]
    assert result.passes["timeline"].seconds == pytest.approx(0.11417)


def test_real_cpu_timeline_has_operators_as_kernels(run: Any, shared: Path) -> None:
    result = run(Tf1Timeline(), shared / CPU)
    events, _ = of_real_file(shared / CPU)
    expected: Counter[str] = Counter()
    for event in events:
        expected[event["name"]] += event["dur"] * 1000
    kernels = result.tables["kernels"]
    assert kernels.groupby("name", observed=True)["duration_ns"].sum().to_dict() == expected
    assert len(kernels) == 67
    assert set(kernels["device"]) == {"cpu"}
    assert result.passes["timeline"].device == "cpu"
    assert (result.passes["timeline"].steps, result.passes["timeline"].seconds) == (1, pytest.approx(0.024127))


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("last", [False, True])
def test_names_may_stand_behind_the_events(run: Any, indent: int | None, last: bool) -> None:
    names = [process(3, "/device:GPU:1/stream:all Compute"), process(4, "/device:GPU:1/stream:5 Compute")]
    events = [op(3, 10, 2, "m/MatMul", "MatMul"), op(4, 10, 2, "m/MatMul", "MatMul")]
    both = events + names if last else names + events
    kernels = run(Tf1Timeline(), trace(*both, indent=indent)).tables["kernels"]
    assert kernels[["name", "device", "stream", "start_ns", "duration_ns", "op", "module"]].to_numpy().tolist() == [
        ["MatMul", "cuda:1", 5, 10_000, 2_000, "MatMul", "m"]
    ]


def test_without_single_streams_the_common_ones_count(run: Any) -> None:
    content = trace(
        process(1, f"{JOB}/gpu:0/stream:all Compute"),
        process(2, "/gpu:0/memcpy Compute"),
        op(1, 10, 2, "a/Relu", "Relu"),
        op(2, 20, 3, "edge_1_a", "MEMCPYHtoD"),
        op(2, 30, 3, "a/MatMul", "MatMul"),
    )
    kernels = run(Tf1Timeline(), content).tables["kernels"]
    assert kernels["name"].tolist() == ["Relu", "MEMCPYHtoD", "MEMCPY"]
    assert kernels["stream"].isna().all()
    assert kernels["op"].astype(object).fillna("none").tolist() == ["Relu", "none", "MatMul"]


def test_rows_of_the_executor_are_no_threads_and_nothing_nests(run: Any) -> None:
    content = trace(
        process(1, f"{JOB}/device:CPU:0 Compute"),
        process(2, f"{JOB}/device:CPU:0 Tensors"),
        process(3, "Allocators"),
        op(1, 0, 10, "a", "MatMul", tid=0),
        op(1, 2, 3, "b", "Relu", tid=1),
        op(2, 2, 3, "c", "Relu"),
        {"ph": "C", "cat": "Memory", "name": "cpu", "pid": 3, "ts": 4, "args": {"cpu": 7}},
        {"ph": "s", "cat": "DataFlow", "name": "a", "pid": 1, "tid": 0, "ts": 4, "id": 0},
    )
    result = run(Tf1Timeline(), content)
    assert result.tables["ops"].set_index("name")["self_ns"].to_dict() == {"MatMul": 10_000, "Relu": 3_000}
    assert [(loss.why, loss.count) for loss in result.losses] == [("its process is not named as one that computes", 1)]


def test_times_that_make_no_sense_are_skipped_and_told(run: Any) -> None:
    good = op(1, 5, 1, "a", "Relu")
    bad = [{**good, "dur": -1}, {**good, "ts": -5}, {**good, "ts": 1e300}, {k: v for k, v in good.items() if k != "ts"}]
    result = run(Tf1Timeline(), trace(process(1, "cpu:0 Compute"), good, *bad))
    assert len(result.tables["ops"]) == 1
    assert [loss.count for loss in result.losses] == [4]


def test_a_timeline_without_operations_is_refused(run: Any) -> None:
    content = trace(process(1, "cpu:0 Compute"), {**op(1, 0, 1, "a", "b"), "ph": "i"})
    with pytest.raises(ReadError, match="holds no operations"):
        run(Tf1Timeline(), content)


# --- the trace viewer ------------------------------------------------------------------------------------------------


def call(pid: int, tid: int, name: str, ts: float, dur: float, /, **args: Any) -> Event:
    return {"args": args, "dur": dur, "name": name, "ph": "X", "pid": pid, "tid": tid, "ts": ts}


def viewer(*events: Event) -> str:
    """As JAX writes it: names first, an empty object at the end, displayTimeUnit ns though times are us."""
    head = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    return json.dumps({**head, "traceEvents": [*events, {}]})


NAMES = [
    process(1, "/device:GPU:0"),
    process(701, "/host:CPU"),
    thread(1, 13, "Stream #13(Compute,MemcpyD2D)"),
    thread(1, 20, "XLA Ops"),
    thread(1, 21, "XLA Modules"),
    thread(1, 22, "Steps"),
    thread(1, 23, "Framework Name Scope"),
    thread(701, 9, "python"),
]
KERNEL = {
    "correlation_id": "42",
    "hlo_module": "jit_step",
    "hlo_op": "fusion.1",
    "kernel_details": "regs:32 static_shared:0 dynamic_shared:8 grid:4,1,1 block:128,1,1 occ_pct:75",
    "name": "jit(step)/transpose(jvp(Model))/dot_general",
    "tf_op": "XlaModule:",
}
WORK = [
    call(1, 13, "gemm", 100.25, 2.5, **KERNEL),
    call(1, 13, "MemcpyD2D", 104, 1, memcpy_details="kind_src:device kind_dst:device size:64 dest:0 async:1"),
    call(701, 9, "cuLaunchKernel", 90, 5, correlation_id="42"),
    call(701, 9, "train", 80, 40, step_num="3"),
]
DERIVED = [call(1, tid, "fusion.1", 100, 3) for tid in (20, 21, 23)] + [call(1, 22, "3", 100, 5)]


@pytest.mark.parametrize("last", [False, True])
def test_only_streams_count_and_names_may_come_last(run: Any, last: bool) -> None:
    both = WORK + DERIVED + NAMES if last else NAMES + WORK + DERIVED
    result = run(TraceViewer(), viewer(*both))
    kernels = result.tables["kernels"]
    assert kernels["name"].tolist() == ["gemm", "MemcpyD2D"]
    gemm = kernels.iloc[0]
    assert (gemm["start_ns"], gemm["duration_ns"], gemm["stream"]) == (100_250, 2_500, 13)
    assert (gemm["op"], gemm["module"], gemm["phase"]) == (
        "fusion.1",
        "jit(step)/transpose(jvp(Model))",
        "backward",
    )
    assert (gemm["registers"], gemm["shared_bytes"], gemm["occupancy_estimate"]) == (32, 8, 0.75)
    assert (gemm["grid"].tolist(), gemm["block"].tolist()) == ([4, 1, 1], [128, 1, 1])
    assert gemm["launch"] == 0
    assert kernels.iloc[1]["bytes"] == 64
    assert [loss.count for loss in result.losses] == [3]


@pytest.mark.parametrize("name", ["train", "train 4"])
def test_ranges_with_step_num_are_the_steps(run: Any, name: str) -> None:
    second = [  # the trace viewer gives a range the name of its step, where it has one
        call(701, 9, name, 120, 30, step_num="4"),
        call(701, 9, "cuLaunchKernel", 130, 5, correlation_id="43"),
        call(1, 13, "later", 140, 1, correlation_id="43"),
    ]
    result = run(TraceViewer(), viewer(*NAMES, *WORK, *second))
    steps = result.tables["kernels"].set_index("name")["step"]
    assert (steps["gemm"], steps["later"]) == (0, 1)
    assert result.tables["steps"]["duration_ns"].tolist() == [40_000, 30_000]
    assert result.passes["timeline"].steps == 2


def test_a_gzipped_trace_is_read_alike(run: Any) -> None:
    result = run(TraceViewer(), gzip.compress(viewer(*NAMES, *WORK).encode()))
    assert len(result.tables["kernels"]) == 2


def test_operations_of_a_tpu_within_others_count_once(run: Any) -> None:
    names = [process(2, "/device:TPU:0"), thread(2, 1, "XLA Ops"), thread(2, 2, "XLA Modules")]
    work = [
        call(2, 1, "while", 0, 10),
        call(2, 1, "fusion.1", 1, 4),
        call(2, 1, "fusion.2", 5, 4.5),
        call(2, 2, "jit_f", 0, 10),
    ]
    kernels = run(TraceViewer(), viewer(*names, *work)).tables["kernels"]
    assert kernels["name"].tolist() == ["fusion.1", "fusion.2"]
    assert kernels["duration_ns"].tolist() == [4_000, 4_500]


def test_args_of_any_kind_are_survived(run: Any) -> None:
    odd = call(1, 13, "odd", 1, 1, name=[1], tf_op={"a": 1}, correlation_id=1.5, hlo_op=None, kernel_details=7)
    late = call(1, 13, "none", 1, 1)
    del late["dur"]
    result = run(TraceViewer(), viewer(*NAMES, odd, late))
    row = result.tables["kernels"].iloc[0]
    assert row["name"] == "odd"
    assert result.tables["kernels"][["op", "module", "grid", "registers"]].isna().all(axis=None)
    assert [loss.count for loss in result.losses] == [1]


def test_a_full_trace_viewer_shows_the_beginning_only(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow, "_VIEWER_CAP", len(WORK))
    assert any("begin first" in note for note in run(TraceViewer(), viewer(*NAMES, *WORK)).notes)
    assert not any("begin first" in note for note in run(TraceViewer(), viewer(*NAMES, *WORK[1:])).notes)


def test_a_trace_without_work_is_refused(run: Any) -> None:
    with pytest.raises(ReadError, match="neither kernels nor operators"):
        run(TraceViewer(), viewer(*NAMES, call(701, 9, "$api.py:1 wait", 0, 5)))


# --- which is which, and damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (viewer(*NAMES), [TraceViewer]),
        (viewer(*WORK, *NAMES), [TraceViewer]),
        (trace(process(1, "cpu:0 Compute"), op(1, 0, 1, "a", "b"), indent=4), [Tf1Timeline]),
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm"}]}', []),
        ("[1, 2]", []),
        ("", []),
    ],
)
def test_content_decides(tmp_path: Path, content: str, expected: list[type[Reader]]) -> None:
    path = tmp_path / "any.json"
    path.write_text(content)
    source = Source(path, path.name)
    head = Head(source, source.head())
    assert [kind for kind in (Tf1Timeline, TraceViewer) if kind().recognizes(head)] == expected


def read_quietly(reader: Reader, data: bytes, folder: Path) -> None:
    path = folder / "fuzzed"
    path.write_bytes(data)
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    source = Source(path, path.name)
    sink = Sink(source.label, stage)
    try:
        reader.read(source, sink)
        sink.finish()
    except WcbenchError:
        pass


TIMELINE = trace(
    process(1, "/gpu:0/stream:all Compute"),
    process(2, "/gpu:0/stream:3 Compute"),
    process(3, "/gpu:0/memcpy Compute"),
    process(4, "cpu:0 Compute"),
    *[op(pid, 10 * pid, 2, "gradients/a", "MatMul") for pid in (1, 2, 3, 4)],
)
CHANGES = st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=6)), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 3000), changes=CHANGES, kind=st.sampled_from([Tf1Timeline, TraceViewer]))
def test_any_damage_is_survived(tmp_path: Path, cut: int, changes: list[tuple[int, bytes]], kind: type[Reader]) -> None:
    data = bytearray((TIMELINE if kind is Tf1Timeline else viewer(*NAMES, *WORK, *DERIVED)).encode())
    for place, text in changes:
        at = place % len(data)
        data[at : at + len(text)] = text
    read_quietly(kind(), bytes(data[: len(data) - cut % len(data)]), tmp_path)
