"""The timeline of a CUDA host without a GPU: a capture of two steps made by hand from fake Kineto events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from wcbench.profilers.timeline import events_to_tables
from wcbench.schema import to_arrow


@dataclass(frozen=True)
class FakeEvent:
    """What `events_to_tables` asks of torch's `_KinetoEvent`, by the same names."""

    kind: str
    text: str
    begin: int
    end: int
    thread: int = 1
    correlation: int = 0
    sequence: int = -1
    device: int = 0
    stream: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)

    def activity_type(self) -> str:
        return self.kind

    def name(self) -> str:
        return self.text

    def start_ns(self) -> int:
        return self.begin

    def duration_ns(self) -> int:
        return self.end - self.begin

    def start_thread_id(self) -> int:
        return self.thread

    def correlation_id(self) -> int:
        return self.correlation

    def sequence_nr(self) -> int:
        return self.sequence

    def device_index(self) -> int:
        return self.device

    def device_resource_id(self) -> int:
        return self.stream

    def metadata_json(self) -> str:
        return json.dumps(self.metadata)[1:-1]


def test_torch_events_answer_to_these_names() -> None:
    import torch

    real = torch._C._autograd._KinetoEvent
    asked = [name for name in vars(FakeEvent) if not name.startswith("_") and callable(getattr(FakeEvent, name))]
    assert len(asked) == 10
    assert [name for name in asked if not hasattr(real, name)] == []


def op(name: str, begin: int, end: int, **more: Any) -> FakeEvent:
    return FakeEvent("cpu_op", name, begin, end, **more)


def mark(name: str, begin: int, end: int) -> FakeEvent:
    return FakeEvent("user_annotation", name, begin, end)


def call(name: str, begin: int, correlation: int, kind: str = "cuda_runtime", thread: int = 1) -> FakeEvent:
    return FakeEvent(kind, name, begin, begin + 20, thread=thread, correlation=correlation)


def kernel(name: str, begin: int, end: int, correlation: int, **more: Any) -> FakeEvent:
    return FakeEvent(more.pop("kind", "kernel"), name, begin, end, 0, correlation, device=1, **more)


# as Kineto wrote it for an H100 (shared/traces, tracelens_h100_Falconsai)
GEMM = {
    "External id": 2161,
    "queued": 0,
    "device": 1,
    "context": 1,
    "stream": 7,
    "correlation": 13,
    "registers per thread": 168,
    "shared memory": 231424,
    "blocks per SM": 0.742424,
    "warps per SM": 8.909091,
    "grid": [98, 1, 1],
    "block": [384, 1, 1],
    "est. achieved occupancy %": 19,
}
SMALL = {**GEMM, "grid": [1, 1, 1], "block": [64, 1, 1], "registers per thread": 20, "shared memory": 0} | {
    "est. achieved occupancy %": 0
}

HOST = [
    mark("wcbench.step#0", 1000, 5000),
    mark("Optimizer.zero_grad#SGD.zero_grad", 1010, 1050),
    mark("wcbench.forward", 1100, 2000),
    op("aten::linear", 1150, 1600, sequence=1),
    op("aten::addmm", 1200, 1500, sequence=1),
    op("autograd::engine::evaluate_function: AddmmBackward0", 2500, 3500, thread=2),
    op("AddmmBackward0", 2550, 3400, thread=2, sequence=1),
    op("aten::mm", 2600, 3000, thread=2),
    mark("Optimizer.step#SGD.step", 3600, 4500),
    op("aten::_foreach_add_", 3700, 4000),
    op("aten::empty", 5400, 5500),  # between the steps: a batch is made
    mark("wcbench.step#1", 6000, 9000),
    op("aten::copy_", 6100, 6500),
]
RUNTIME = [
    call("cudaDeviceSynchronize", 5200, 17),
    call("cudaLaunchKernel", 1300, 11),
    call("cuLaunchKernelEx", 1400, 12, kind="cuda_driver"),
    call("cudaLaunchKernel", 2700, 13, thread=2),
    call("cudaGraphLaunch", 3800, 14),
    call("cudaLaunchKernel", 5420, 18),
    call("cudaMemcpyAsync", 6200, 15),
    call("cudaLaunchKernel", 6600, 16),  # outside any operator, and its kernel is lost
]
DEVICE = [
    kernel("gemm_11", 1800, 2200, 11, stream=7, metadata=GEMM),
    kernel("triton_12", 2000, 2400, 12, stream=20, metadata=SMALL),  # overlaps the one before, on another stream
    kernel("gemm_13", 6150, 6250, 13, stream=7, metadata=GEMM),  # launched in step 0, runs during step 1
    kernel("graph_14a", 5100, 5300, 14, stream=7),
    kernel("graph_14b", 5300, 5350, 14, stream=7),
    kernel("fill_18", 5600, 5650, 18, stream=7, metadata=SMALL),
    kernel(
        "Memcpy HtoD (Pageable -> Device)",
        6700,
        6900,
        15,
        stream=7,
        kind="gpu_memcpy",
        metadata={"stream": 7, "correlation": 15, "bytes": 4096, "memory bandwidth (GB/s)": 20.48},
    ),
    kernel("orphan_99", 900, 950, 99, stream=7, metadata=SMALL),
]


def tables(*events: FakeEvent) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The tables as a record gives them back, so that they also fit their schemas."""
    found, notes = events_to_tables(events)
    frames = {name: to_arrow(name, columns, "timeline").to_pandas() for name, columns in found.items()}
    return frames, notes


@cache
def two_steps() -> tuple[dict[str, pd.DataFrame], list[str]]:
    return tables(*DEVICE, *RUNTIME, *reversed(HOST))


def column(table: str, name: str, key: str = "name") -> dict[str, Any]:
    frame = two_steps()[0][table]
    values = [None if not isinstance(v, (list, str)) and pd.isna(v) else v for v in frame[name].map(plain)]
    return dict(zip(frame[key], values, strict=True))


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def test_operators_of_the_steps_in_time_order() -> None:
    ops = two_steps()[0]["ops"]
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    assert list(ops["name"]) == [
        "aten::linear",
        "aten::addmm",
        backward,
        "AddmmBackward0",
        "aten::mm",
        "aten::_foreach_add_",
        "aten::copy_",
    ]
    assert column("ops", "self_ns") == {
        "aten::linear": 150,  # 450 - 300
        "aten::addmm": 300,
        backward: 150,  # 1000 - 850
        "AddmmBackward0": 450,  # 850 - 400
        "aten::mm": 400,
        "aten::_foreach_add_": 300,
        "aten::copy_": 400,
    }
    assert list(ops["depth"]) == [0, 1, 0, 1, 2, 0, 0]
    assert [None if pd.isna(p) else int(p) for p in ops["parent"]] == [None, 0, None, 2, 3, None, None]
    assert list(ops["step"]) == [0, 0, 0, 0, 0, 0, 1]
    assert list(ops["thread"]) == [1, 1, 2, 2, 2, 1, 1]
    assert list(ops["phase"]) == ["forward"] * 2 + ["backward"] * 3 + ["optimizer", "other"]


def test_runtime_calls_know_their_operator_and_step() -> None:
    runtime = two_steps()[0]["runtime"]
    assert list(runtime["correlation"]) == [11, 12, 13, 14, 17, 18, 15, 16]
    assert column("runtime", "step", "correlation") == {
        11: 0, 12: 0, 13: 0, 14: 0, 17: None, 18: None, 15: 1, 16: 1,
    }  # fmt: skip
    # rows of table ops; 18 lies in an operator outside the steps, which has no row
    assert column("runtime", "op", "correlation") == {
        11: 1, 12: 1, 13: 4, 14: 5, 17: None, 18: None, 15: 6, 16: None,
    }  # fmt: skip
    assert set(runtime["duration_ns"]) == {20}
    assert column("runtime", "thread", "correlation")[13] == 2


def test_case_60_kernels_belong_to_the_step_that_launched_them() -> None:
    assert column("kernels", "step") == {
        "gemm_11": 0,
        "triton_12": 0,
        "gemm_13": 0,
        "graph_14a": 0,
        "graph_14b": 0,
        "fill_18": None,
        "Memcpy HtoD (Pageable -> Device)": 1,
        "orphan_99": None,
    }


def test_case_63_phases_come_from_the_launching_thread() -> None:
    assert column("kernels", "phase") == {
        "gemm_11": "forward",
        "triton_12": "forward",
        "gemm_13": "backward",
        "graph_14a": "optimizer",
        "graph_14b": "optimizer",
        "fill_18": "other",
        "Memcpy HtoD (Pageable -> Device)": "other",
        "orphan_99": "other",
    }


def test_kernels_name_operator_and_launch() -> None:
    assert column("kernels", "op") == {
        "gemm_11": "aten::addmm",
        "triton_12": "aten::addmm",
        "gemm_13": "aten::mm",
        "graph_14a": "aten::_foreach_add_",
        "graph_14b": "aten::_foreach_add_",
        "fill_18": "aten::empty",
        "Memcpy HtoD (Pageable -> Device)": "aten::copy_",
        "orphan_99": None,
    }
    frames = two_steps()[0]
    correlations = frames["runtime"]["correlation"]
    launches = {
        name: None if row is None else int(correlations[row]) for name, row in column("kernels", "launch").items()
    }
    assert launches == {
        "gemm_11": 11,
        "triton_12": 12,
        "gemm_13": 13,
        "graph_14a": 14,
        "graph_14b": 14,
        "fill_18": 18,
        "Memcpy HtoD (Pageable -> Device)": 15,
        "orphan_99": None,
    }


def test_launch_configuration_and_bytes() -> None:
    kernels = two_steps()[0]["kernels"]
    assert column("kernels", "grid")["gemm_11"] == [98, 1, 1]
    assert column("kernels", "block")["gemm_11"] == [384, 1, 1]
    assert column("kernels", "registers")["gemm_11"] == 168
    assert column("kernels", "shared_bytes") == {
        "gemm_11": 231424, "triton_12": 0, "gemm_13": 231424, "graph_14a": None, "graph_14b": None, "fill_18": 0,
        "Memcpy HtoD (Pageable -> Device)": None, "orphan_99": 0,
    }  # fmt: skip
    assert set(kernels["device"]) == {"cuda:1"}
    assert set(kernels["rank"]) == {0}
    assert column("kernels", "stream")["triton_12"] == 20
    assert column("kernels", "start_ns")["gemm_13"] == 6150
    assert column("kernels", "duration_ns")["gemm_13"] == 100
    copied = {name: size for name, size in column("kernels", "bytes").items() if size is not None}
    assert copied == {"Memcpy HtoD (Pageable -> Device)": 4096}


def test_occupancy_under_half_a_per_cent_is_zero_and_not_null() -> None:
    found = column("kernels", "occupancy_estimate")
    assert found["gemm_11"] == 0.19
    assert found["triton_12"] == 0.0
    assert found["graph_14a"] is None


def test_losses_are_told() -> None:
    assert sorted(two_steps()[1]) == [
        "1 kernels have no launch in the window and belong to no step.",
        "1 launches have no device record: their kernels are missing.",
    ]


def test_case_24_three_launches_have_no_device_record() -> None:
    calls = [call("cudaLaunchKernel", 1000 + 30 * i, 100 + i) for i in range(10)]
    kernels = [kernel(f"k{i}", 5000 + i, 5001 + i, 100 + i) for i in range(3, 10)]
    _, notes = tables(mark("wcbench.step#0", 900, 9000), *calls, *kernels)
    assert notes == ["3 launches have no device record: their kernels are missing."]


def test_case_18_kernels_without_a_time_are_told() -> None:
    broken = kernel("no time", 0, 0, 11)
    frames, notes = tables(mark("wcbench.step#0", 900, 9000), call("cudaLaunchKernel", 1000, 11), broken)
    assert frames["kernels"]["duration_ns"].tolist() == [0]
    assert notes == ["1 kernels carry no timestamp: their time is missing."]


def test_case_65_fields_that_rocm_lacks_are_null() -> None:
    rocm = {"device": 2, "stream": 0, "correlation": 11, "kind": "Dispatch Kernel", "grid": [16384, 1, 1]}
    frames, _ = tables(
        mark("wcbench.step#0", 900, 9000),
        call("hipExtModuleLaunchKernel", 1000, 11),
        kernel("Cijk_a", 1100, 1200, 11, metadata=rocm),
        kernel("Cijk_b", 1200, 1300, 11, metadata=rocm),
    )
    kernels = frames["kernels"]
    assert list(kernels["launch"]) == [0, 0]
    assert kernels["grid"].map(list).tolist() == [[16384, 1, 1]] * 2
    for missing in ("block", "registers", "shared_bytes", "occupancy_estimate", "bytes", "op", "module"):
        assert kernels[missing].isna().all(), missing


@pytest.mark.parametrize("text", ["", '"grid": [1, 1', "no json at all"])
def test_metadata_that_is_no_json_is_null(text: str) -> None:
    @dataclass(frozen=True)
    class Broken(FakeEvent):
        def metadata_json(self) -> str:
            return text

    broken = Broken("kernel", "k", 1100, 1200, correlation=11, device=0)
    frames, _ = tables(mark("wcbench.step#0", 900, 9000), call("cudaLaunchKernel", 1000, 11), broken)
    assert frames["kernels"]["grid"].isna().all()
    assert list(frames["kernels"]["device"]) == ["cuda:0"]


def test_case_25_python_frames_and_the_profilers_own_cost_are_in_no_table() -> None:
    noise = [
        FakeEvent("python_function", "threading.py(355): wait", 1000, 9000),
        FakeEvent("overhead", "Activity Buffer Request", 1000, 1100),
        FakeEvent("gpu_user_annotation", "wcbench.step#0", 1000, 9000),
        FakeEvent("cuda_sync", "Stream Sync", 1000, 2000),
        FakeEvent("cpu_instant_event", "[memory]", 1000, 1000),
    ]
    frames, notes = tables(*HOST, *RUNTIME, *DEVICE, *noise)
    for name, frame in two_steps()[0].items():
        pd.testing.assert_frame_equal(frames[name], frame)
    assert sorted(notes) == sorted(two_steps()[1])


def test_kinds_that_nobody_knows_are_told() -> None:
    _, notes = tables(*HOST, FakeEvent("mtia_ccp_events", "x", 0, 1), FakeEvent("mtia_ccp_events", "y", 0, 1))
    assert notes == ["2 events of kind mtia_ccp_events are left out."]


def test_a_call_that_outlives_its_parent_is_told() -> None:
    _, notes = tables(mark("wcbench.step#0", 0, 100), op("aten::a", 10, 50), op("aten::b", 20, 53))
    assert notes == ["1 calls outlived the call around them and were cut to its end (3 ns in all)."]


def test_no_marks_belong_to_the_tables() -> None:
    for frame in two_steps()[0].values():
        assert not frame["name"].astype(str).str.contains("wcbench|Optimizer").any()


def test_device_events_without_any_host_event() -> None:
    frames, notes = tables(call("cudaLaunchKernel", 1000, 11), kernel("k", 1100, 1200, 11))
    assert list(frames["kernels"]["launch"]) == [0]
    assert frames["kernels"]["step"].isna().all()
    assert frames["runtime"]["op"].isna().all()
    assert frames["ops"].empty
    assert notes == []


def test_kernels_without_any_runtime_call() -> None:
    frames, notes = tables(*HOST, kernel("k", 1100, 1200, 11))
    assert frames["kernels"]["launch"].isna().all()
    assert frames["kernels"]["step"].isna().all()
    assert list(frames["kernels"]["phase"]) == ["other"]
    assert notes == ["1 kernels have no launch in the window and belong to no step."]


def test_launches_without_any_kernel() -> None:
    frames, notes = tables(*HOST, *RUNTIME)
    assert frames["kernels"].empty
    assert len(frames["runtime"]) == len(RUNTIME)
    assert notes == ["6 launches have no device record: their kernels are missing."]


def test_no_events_at_all() -> None:
    frames, notes = tables()
    assert all(frame.empty for frame in frames.values())
    assert notes == []


def test_case_10_an_operators_id_never_links_a_kernel() -> None:
    """The operator carries the correlation 11 too (as its own id); the kernel goes to the launch's operator."""
    decoy = op("aten::decoy", 1650, 1700, correlation=11, sequence=3)
    frames, _ = tables(
        *[replace(e, correlation=11) if e.text == "aten::mm" else e for e in HOST], decoy, *RUNTIME, *DEVICE
    )
    kernels = frames["kernels"].set_index("name")
    assert kernels.loc["gemm_11", "op"] == "aten::addmm"


def test_the_keys_are_those_of_real_files(shared: Path) -> None:
    """The names read from Kineto's metadata stand in real traces of several years."""
    import gzip

    seen: set[str] = set()
    for file in ("hta_timeline_analysis__sampled_rank-0", "tracelens_h100_gaunernst_bert-small-uncased__1016001"):
        trace = json.loads(gzip.decompress((shared / "traces" / "kineto" / f"{file}.json.gz").read_bytes()))
        for event in trace["traceEvents"]:
            if event.get("cat") in ("kernel", "gpu_memcpy"):
                seen |= set(event["args"])
    assert set(GEMM) | {"bytes"} <= seen
