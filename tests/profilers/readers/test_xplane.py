"""XPlane files: real ones against a decoder of the test's own, rules against messages built byte by byte."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers import xla
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.xplane import XPlane

REAL = "traces/tf_jax/tracelens_test_data_jax_te_fused_attn_categorization_934987a2fc2f.xplane.pb"


# --- the wire form, written for the test -----------------------------------------------------------------------------


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def put(at: int, value: int | float | str | bytes) -> bytes:
    """One field; a float as fixed64, text and bytes with their length."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    if isinstance(value, float):
        return number(at << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(data)) + data


class Plane:
    """Builds a plane; names of events and stats get their numbers as they come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines = b""
        self.own = b""
        self.kinds: dict[str, bytes] = {}
        self.stats: dict[str, int] = {}

    def stat(self, name: str, value: int | float | str, at: int | None = None) -> bytes:
        known = self.stats.setdefault(name, len(self.stats) + 1)
        at = at or (2 if isinstance(value, float) else 3 if isinstance(value, int) else 5)
        return put(1, known) + put(at, value)

    def refer(self, name: str, text: str) -> bytes:
        """A stat whose text is the name of another stat."""
        return self.stat(name, self.stats.setdefault(text, len(self.stats) + 1), at=7)

    def event(self, name: str, offset_ps: int, duration_ps: int, **stats: int | float | str) -> bytes:
        self.kinds.setdefault(name, b"")
        data = put(1, list(self.kinds).index(name) + 1) + put(2, offset_ps) + put(3, duration_ps)
        for key, value in stats.items():
            data += put(4, self.refer(key, value) if isinstance(value, str) else self.stat(key, value))
        return data

    def line(self, name: str, *events: bytes, ident: int = 1, timestamp_ns: int = 1000, late: bool = False) -> Plane:
        """``late``: name and time stand behind the events, as protobuf allows."""
        head = put(1, ident) + put(2, name) + put(3, timestamp_ns)
        body = b"".join(put(4, event) for event in events)
        self.lines += put(3, body + head if late else head + body)
        return self

    def describe(self, **stats: int | float | str) -> Plane:
        for name, value in stats.items():
            self.own += put(6, self.stat(name, value))
        return self

    def __bytes__(self) -> bytes:
        kinds = b""
        for place, (name, more) in enumerate(self.kinds.items(), start=1):
            kinds += put(4, put(1, place) + put(2, put(1, place) + put(2, name) + more))
        texts = b"".join(put(5, put(1, n) + put(2, put(1, n) + put(2, name))) for name, n in self.stats.items())
        return put(2, self.name) + self.lines + kinds + texts + self.own


def space(*planes: Plane, more: bytes = b"") -> bytes:
    return b"".join(put(1, bytes(plane)) for plane in planes) + more


def plain(data: bytes) -> Iterator[tuple[int, Any]]:
    """Fields of a message, decoded without the code under test."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def gpu(*events: bytes, plane: Plane, line: str = "Stream #7(Compute)") -> Plane:
    return plane.line(line, *events)


DETAILS = "regs:32 static_shared:16 dynamic_shared:48 grid:8,2,1 block:256,1,1 occ_pct:50"


# --- the real file ---------------------------------------------------------------------------------------------------


def test_real_file_has_every_kernel_once(run: Any, shared: Path) -> None:
    result = run(XPlane(), shared / REAL)
    expected: Counter[str] = Counter()
    for at, plane in plain((shared / REAL).read_bytes()):
        fields = list(plain(plane)) if at == 1 else []
        if (2, b"/device:GPU:0") not in fields:
            continue
        names = {}
        for _, entry in (field for field in fields if field[0] == 4):
            message = dict(plain(dict(plain(entry))[2]))
            names[message[1]] = message[2].decode()
        for _, line in (field for field in fields if field[0] == 3):
            for _, event in (field for field in plain(line) if field[0] == 4):
                found = dict(plain(event))
                expected[names[found[1]]] += found[3] // 1000
    kernels = result.tables["kernels"]
    assert len(kernels) == 150
    assert kernels.groupby("name", observed=True)["duration_ns"].sum().to_dict() == expected
    assert sum(expected.values()) == 12_133_585  # ns
    assert set(kernels["device"]) == {"cuda:0"}
    assert set(kernels["stream"]) == {2}
    assert result.passes["timeline"].device == "cuda:0"
    assert result.sink.facts["gpus"] == [{"memory_bytes": 309_220_868_096}]


def test_real_file_ties_kernels_to_their_launches(run: Any, shared: Path) -> None:
    tables = run(XPlane(), shared / REAL).tables
    kernels, calls = tables["kernels"], tables["runtime"]
    assert calls["name"].value_counts().to_dict() == {
        "hipModuleLaunchKernel": 75,
        "hipLaunchKernel": 50,
        "hipMemsetAsync": 20,
        "hipExtModuleLaunchKernel": 5,
    }
    assert kernels["launch"].notna().all()
    launches = calls.loc[kernels["launch"].astype(int)].reset_index(drop=True)
    fills = kernels["name"] == "__amd_rocclr_fillBufferAligned.kd"
    assert (launches["name"][fills] == "hipMemsetAsync").all()
    assert (launches["name"][~fills] != "hipMemsetAsync").all()
    assert (launches["start_ns"] <= kernels["start_ns"]).all()


def test_real_file_tells_operator_module_phase_and_launch(run: Any, shared: Path) -> None:
    kernels = run(XPlane(), shared / REAL).tables["kernels"]
    gemm = kernels[kernels["name"] == "gemm_fusion_dot_6.kd"].iloc[0]
    assert gemm["op"] == "gemm_fusion_dot.6"
    assert gemm["module"] == "jit(loss_fn)/transpose(jvp(bsd,de->bse))"
    assert gemm["phase"] == "backward"
    assert gemm["grid"].tolist() == [3072, 1, 1]
    assert gemm["block"].tolist() == [256, 1, 1]
    assert gemm["shared_bytes"] == 32768
    assert kernels["registers"].isna().all()  # AMD's details have none
    assert kernels["occupancy_estimate"].isna().all()  # 0 % throughout: it was not computed
    assert kernels["phase"].value_counts().to_dict() == {"backward": 75, "forward": 50, "other": 25}


# --- what counts -----------------------------------------------------------------------------------------------------


def test_lines_derived_from_streams_do_not_count(run: Any) -> None:
    plane = Plane("/device:GPU:1")
    work = plane.event("k", 5_000, 2_400, correlation_id=9)
    gpu(work, plane=plane, line="Stream #13(Compute,MemcpyD2D)")
    for line in ("XLA Ops", "XLA Modules", "Steps", "TensorFlow Ops", "Framework Name Scope", "Source code"):
        gpu(plane.event("copy of k 3", 5_000, 2_400), plane=plane, line=line)
    result = run(XPlane(), space(plane))
    kernels = result.tables["kernels"]
    assert len(kernels) == 1
    row = kernels.iloc[0]
    assert (row["name"], row["device"], row["stream"]) == ("k", "cuda:1", 13)
    assert (row["start_ns"], row["duration_ns"]) == (1005, 2)  # 1000 + 5; 2.4 ns
    derived = [loss for loss in result.losses if "derived" in loss.why]
    assert [loss.count for loss in derived] == [5]


def test_stats_become_columns(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    gpu(
        plane.event("a", 0, 1000, kernel_details=DETAILS, tf_op="model/dense/MatMul:MatMul"),
        plane.event("b", 2000, 1000, kernel_details="regs:8 shm:100 grid:1,1,1 block:2,1,1", hlo_op="dot.1"),
        plane.event("c", 4000, 1000, theoretical_occupancy_pct=25.0, hlo_module="jit_f", tf_op="XlaModule:"),
        plane.event("MemcpyH2D", 6000, 1000, memcpy_details="kind_src:host kind_dst:device size:4096 dest:0 async:1"),
        plane.event("Memset", 8000, 1000, Memset_details="kind:Unknown num_bytes:512 async:1"),
        plane=plane,
    )
    rows = run(XPlane(), space(plane)).tables["kernels"].set_index("name")
    assert rows.loc["a", "registers"] == 32
    assert rows.loc["a", "shared_bytes"] == 64
    assert rows.loc["a", "grid"].tolist() == [8, 2, 1]
    assert rows.loc["a", "occupancy_estimate"] == 0.5
    assert (rows.loc["a", "op"], rows.loc["a", "module"]) == ("MatMul", "model/dense")
    assert rows.loc["b", "shared_bytes"] == 100
    assert rows.loc["b", "op"] == "dot.1"
    assert rows.loc["c", "occupancy_estimate"] == 0.25
    assert rows.loc["c", "module"] == "jit_f"
    assert rows["bytes"].to_dict()["MemcpyH2D"] == 4096
    assert rows["bytes"].to_dict()["Memset"] == 512
    assert rows["bytes"].isna().sum() == 3


def test_memory_management_and_waiting_are_no_work(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    gpu(
        plane.event("k", 0, 1000),
        plane.event("cudaMalloc", 0, 9000, memalloc_details="kind:Device num_bytes:8"),
        plane.event("Synchronization", 0, 9000),
        plane=plane,
    )
    result = run(XPlane(), space(plane))
    assert result.tables["kernels"]["name"].tolist() == ["k"]
    assert [loss.count for loss in result.losses] == [2]


def test_of_a_tpu_the_innermost_operations_count(run: Any) -> None:
    plane = Plane("/device:TPU:0")
    plane.line(
        "XLA Ops",
        plane.event("while.1", 0, 10_000_000),
        plane.event("fusion.1", 1_000_000, 3_000_000, tf_op="jit(f)/jvp(Model)/dot_general"),
        plane.event("fusion.2", 5_000_000, 4_000_000),
        plane.event("copy.3", 12_000_000, 1_000_000),
    )
    plane.line("Async XLA Ops", plane.event("copy-start", 0, 50_000_000))
    plane.line("XLA Modules", plane.event("jit_f", 0, 50_000_000))
    plane.line("Steps", plane.event("4", 0, 10_000_000), plane.event("5", 11_000_000, 5_000_000))
    result = run(XPlane(), space(plane))
    kernels = result.tables["kernels"].sort_values("start_ns")
    assert kernels["name"].tolist() == ["fusion.1", "fusion.2", "copy.3"]
    assert kernels["duration_ns"].tolist() == [3000, 4000, 1000]
    assert set(kernels["device"]) == {"tpu:0"}
    assert kernels["stream"].isna().all()
    assert kernels["step"].tolist() == [0, 0, 1]
    assert kernels["phase"].tolist() == ["forward", "other", "other"]
    assert result.passes["timeline"].steps == 2
    enclosing = [loss for loss in result.losses if "encloses" in loss.what]
    assert [loss.count for loss in enclosing] == [1]


def test_a_tpus_display_name_stands_for_the_text_of_the_instruction(run: Any) -> None:
    plane = Plane("/device:TPU:0")
    plane.line("XLA Ops", plane.event("%fusion.7 = bf16[8,8]{1,0} fusion(...)", 0, 1_000_000))
    plane.kinds = {name: put(4, "fusion.7") + put(5, plane.stat("tf_op", "jit(f)/add")) for name in plane.kinds}
    row = run(XPlane(), space(plane)).tables["kernels"].iloc[0]
    assert (row["name"], row["op"], row["module"]) == ("fusion.7", "add", "jit(f)")  # stats of the kind count


def host(*events: bytes, plane: Plane, ident: int = 5) -> Plane:
    return plane.line("python", *events, ident=ident)


def test_host_events_are_operators_calls_or_left_out(run: Any) -> None:
    plane = Plane("/host:CPU")
    host(
        plane.event("model/dense/MatMul:MatMul", 0, 10_000_000),
        plane.event("dot.3", 20_000_000, 5_000_000, hlo_op="dot.3", hlo_module="jit_f"),
        plane.event("cuLaunchKernel", 1_000_000, 2_000_000, correlation_id=77),
        plane.event("ExecutorState::Process", 0, 90_000_000),
        plane.event("$api.py:3105 block_until_ready", 0, 90_000_000),
        plane.event("MemoryAllocation", 0, 0),
        plane=plane,
    )
    device = Plane("/device:GPU:0")
    gpu(device.event("k", 30_000_000, 1_000_000, correlation_id=77), plane=device)
    result = run(XPlane(), space(device, plane))
    ops, calls = result.tables["ops"], result.tables["runtime"]
    assert ops["name"].tolist() == ["MatMul", "dot.3"]
    assert ops["duration_ns"].tolist() == [10_000, 5_000]
    assert calls["name"].tolist() == ["cuLaunchKernel"]
    assert calls["op"].tolist() == [0]
    kernel = result.tables["kernels"].iloc[0]
    assert (kernel["launch"], kernel["op"]) == (0, "MatMul")
    assert [loss.count for loss in result.losses] == [3]


def test_without_a_device_operators_are_the_kernels(run: Any) -> None:
    plane = Plane("/host:CPU")
    host(
        plane.event("while.1", 0, 10_000_000, hlo_op="while.1"),
        plane.event("dot.3", 1_000_000, 4_000_000, hlo_op="dot.3"),
        plane=plane,
    )
    result = run(XPlane(), space(plane))
    kernels = result.tables["kernels"].set_index("name")
    assert kernels["duration_ns"].to_dict() == {"while.1": 6000, "dot.3": 4000}
    assert set(kernels["device"]) == {"cpu"}
    assert result.passes["timeline"].device == "cpu"


def test_ranges_with_a_number_of_a_step_are_the_steps(run: Any) -> None:
    plane, device = Plane("/host:CPU"), Plane("/device:GPU:0")
    host(
        plane.event("train", 0, 10_000_000, step_num=7),
        plane.event("train", 10_000_000, 12_000_000, step_num=8),
        plane.event("eval", 0, 1_000_000, step_num=7),  # spans less: not the steps
        plane.event("cuLaunchKernel", 1_000_000, 1_000_000, correlation_id=1),
        plane.event("cuLaunchKernel", 11_000_000, 1_000_000, correlation_id=2),
        plane=plane,
    )
    gpu(
        device.event("first", 9_000_000, 3_000_000, correlation_id=1),
        device.event("second", 13_000_000, 3_000_000, correlation_id=2),
        plane=device,
    )
    device.line("Steps", device.event("7", 9_000_000, 3_000_000))  # the host's marks win
    result = run(XPlane(), space(device, plane))
    assert result.tables["kernels"].set_index("name")["step"].to_dict() == {"first": 0, "second": 1}
    assert result.tables["steps"]["duration_ns"].tolist() == [10_000, 12_000]
    assert result.passes["timeline"].steps == 2
    assert any("train" in note for note in result.notes)


def test_a_devices_steps_are_not_used_where_the_host_launches(run: Any) -> None:
    plane, device = Plane("/host:CPU"), Plane("/device:GPU:0")
    host(plane.event("cuLaunchKernel", 0, 1_000_000, correlation_id=1), plane=plane)
    gpu(device.event("k", 9_000_000, 1_000_000, correlation_id=1), plane=device)
    device.line("Steps", device.event("0", 9_000_000, 1_000_000))
    result = run(XPlane(), space(device, plane))
    assert result.tables["kernels"]["step"].tolist() == [0]
    assert result.tables["steps"]["kind"].tolist() == ["whole file"]


def test_launches_on_planes_of_their_own_are_found(run: Any) -> None:
    planes = [Plane("/host:CUPTI"), Plane("/host:ROCTRACER"), Plane("/device:GPU:0")]
    for place, plane in enumerate(planes[:2]):
        plane.line(
            f"Host Threads/{place}", plane.event("launch", 0, 1_000, correlation_id=place), ident=place, timestamp_ns=0
        )
    gpu(planes[2].event("k", 0, 1_000, correlation_id=1), plane=planes[2])
    result = run(XPlane(), space(*planes))
    assert sorted(result.tables["runtime"]["thread"]) == [0, 1]
    assert result.tables["kernels"]["launch"].notna().all()


def test_other_planes_are_left_out_and_told(run: Any) -> None:
    device, other = Plane("/device:GPU:0"), Plane("/device:CUSTOM:Megascale Trace")
    gpu(device.event("k", 0, 1000), plane=device)
    gpu(other.event("x", 0, 1000), plane=other)
    result = run(XPlane(), space(other, device))
    assert result.tables["kernels"]["name"].tolist() == ["k"]
    assert [(loss.what, loss.count) for loss in result.losses] == [("a line of events", 1)]


def test_errors_and_warnings_of_the_profiler_are_notes(run: Any) -> None:
    device = Plane("/device:GPU:0").describe(gpu_device_name="NVIDIA A100", memory_size=1 << 30)
    gpu(device.event("k", 0, 1000), plane=device)
    result = run(XPlane(), space(device, more=put(2, "CUPTI failed") + put(3, "7 events dropped")))
    assert sum("CUPTI failed" in note for note in result.notes) == 1
    assert sum("7 events dropped" in note for note in result.notes) == 1
    assert result.sink.facts["gpus"] == [{"name": "NVIDIA A100", "memory_bytes": 1 << 30}]


# --- damage ----------------------------------------------------------------------------------------------------------


def test_name_and_time_of_a_line_may_stand_behind_its_events(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    plane.line("Stream #1", plane.event("k", 3000, 1000), timestamp_ns=500, late=True)
    assert run(XPlane(), space(plane)).tables["kernels"]["start_ns"].tolist() == [503]


def test_gzip_is_read_as_the_plain_file(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    gpu(plane.event("k", 0, 1000), plane=plane)
    assert len(run(XPlane(), gzip.compress(space(plane))).tables["kernels"]) == 1


def test_damaged_events_are_skipped_and_told(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    good = plane.event("k", 0, 1000)
    plane.line(
        "Stream #1",
        good,
        b"\x0f\x0f\x0f",  # a wire type that protobuf does not have
        put(1, 99) + put(2, 0) + put(3, 1),  # no such kind
        put(1, 1) + put(5, 12),  # a count without times
        put(1, 1) + put(2, -5) + put(3, 1000),  # -5 ps is before the line: start 999 ns, still a time
        put(1, 1) + put(2, 0) + put(3, -1000),
        put(1, 1) + put(2, 0) + put(3, 1) + put(9, "a field of later versions"),
    )
    result = run(XPlane(), space(plane))
    assert sorted(result.tables["kernels"]["start_ns"]) == [999, 1000, 1000]
    assert {loss.why: loss.count for loss in result.losses} == {
        "its protobuf is damaged": 1,
        "its name is not in the file": 1,
        "it is a count of events, without times": 1,
        "its time is negative or absurd": 1,
    }


def test_damage_ends_at_the_end_of_a_line(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    plane.line("Stream #1", plane.event("before", 0, 1000))
    plane.lines += put(3, put(2, "Stream #2") + b"\x22\xff\x01")  # an event that is larger than its line
    plane.line("Stream #3", plane.event("behind", 0, 1000))
    result = run(XPlane(), space(plane))
    assert sorted(result.tables["kernels"]["name"]) == ["before", "behind"]
    assert [loss.what for loss in result.losses] == ["the rest of a line of events"]


def test_a_cut_file_keeps_whole_planes(run: Any) -> None:
    first, second = Plane("/device:GPU:0"), Plane("/device:GPU:1")
    gpu(first.event("k", 0, 1000), plane=first)
    gpu(*[second.event(f"k{i}", i, 1000) for i in range(50)], plane=second)
    data = space(first, second)
    end = data.index(put(2, "/device:GPU:1")) + 300  # within the second plane's events
    result = run(XPlane(), data[:end])
    assert result.tables["kernels"]["name"].tolist() == ["k"]
    told = {(loss.what, loss.why): loss for loss in result.losses}
    assert told["the rest of the file", "it ends within a plane: it is cut"].offset == end
    # 15 bytes of the plane's name, 3 and 25 of the line's head, 9 of each event
    assert told["an event", "its name is not in the file"].count == (300 - 43) // 9


def test_a_file_cut_before_its_names_is_refused(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    gpu(*[plane.event(f"k{i}", i, 1000) for i in range(50)], plane=plane)
    with pytest.raises(ReadError, match="cut or damaged at byte 300"):
        run(XPlane(), space(plane)[:300])


def test_sizes_that_no_file_has_cost_nothing(run: Any) -> None:
    plane = Plane("/device:GPU:0")
    gpu(plane.event("k", 0, 1000), plane=plane)
    plane.line("Stream #2", bytes(2 << 20))  # larger than events are
    huge = b"\x0a" + number(1 << 62)
    result = run(XPlane(), space(plane, more=huge))
    assert result.tables["kernels"]["name"].tolist() == ["k"]
    assert {loss.what for loss in result.losses} == {"an event", "the rest of the file"}


def test_a_file_without_events_is_refused(run: Any) -> None:
    with pytest.raises(ReadError, match="neither kernels nor operators"):
        run(XPlane(), space(Plane("/host:metadata"), Plane("Task Environment")))


def test_other_files_are_not_recognized(tmp_path: Path) -> None:
    for place, data in enumerate((b"", b"\n", b"\x0a\x05\x12\x03abc", b"[1, 2]", put(1, put(2, "version 1.1.0")))):
        path = tmp_path / str(place)
        path.write_bytes(data)
        source = Source(path, path.name)
        assert not XPlane().recognizes(Head(source, source.head()))


# --- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "phase"),
    [
        ("jit(f)/jvp(Model)/dot_general", "", "forward"),
        ("jit(f)/transpose(jvp(Model))/dot_general", "", "backward"),
        ("jit(f)/transpose(jit(jvp(g)))/mul", "", "backward"),
        ("jit(f)/jvp(g)/transpose", "", "forward"),
        ("jit(f)/add", "", None),
        ("gradient_tape/model/MatMul", "MatMul", "backward"),
        ("train/gradients/model/MatMul", "MatMul", "backward"),
        ("gradients", "NoOp", None),
        ("Adam/Adam/update/ResourceApplyAdam", "ResourceApplyAdam", "optimizer"),
    ],
)
def test_phase_of_a_path(path: str, kind: str, phase: str | None) -> None:
    assert xla.phase(path, kind) == phase


def test_launch_details_of_any_text() -> None:
    assert xla.launch("") == xla.Launch()
    assert xla.launch("regs:x grid:1,2 block:0,0,0 occ_pct:nan shm:-4 private_mem:7") == xla.Launch()
    assert xla.launch("occ_pct:101").occupancy is None
    assert xla.launch("grid:99999999999999999999,1,1").grid is None


def mixed() -> bytes:
    device, cpu = Plane("/device:GPU:0"), Plane("/host:CPU")
    gpu(
        *[device.event(f"k{i}", i * 1000, 1000, correlation_id=i, kernel_details=DETAILS) for i in range(8)],
        plane=device,
    )
    device.line("Steps", device.event("1", 0, 9000))
    host(*[cpu.event("a/b:MatMul", i * 1000, 900, step_num=i, correlation_id=i) for i in range(8)], plane=cpu)
    tpu = Plane("/device:TPU:0")
    tpu.line("XLA Ops", tpu.event("while", 0, 9000), tpu.event("dot", 10, 900))
    return space(device, cpu, tpu, more=put(2, "error"))


def read_quietly(data: bytes, folder: Path) -> None:
    path = folder / "fuzzed"
    path.write_bytes(data)
    source = Source(path, path.name)
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    sink = Sink(source.label, stage)
    try:
        XPlane().read(source, sink)
        sink.finish()
    except WcbenchError:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), places=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=8))
def test_any_damage_is_survived(tmp_path: Path, cut: int, places: list[tuple[int, int]]) -> None:
    data = bytearray(mixed())
    for place, byte in places:
        data[place % len(data)] = byte
    read_quietly(bytes(data[: len(data) - cut % len(data)]), tmp_path)
