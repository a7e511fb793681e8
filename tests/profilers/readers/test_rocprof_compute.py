"""rocprof-compute's workload files: what is read and what is refused, against the real folder."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.rocprof import RocprofReader
from wcbench.profilers.readers.rocprof_compute import RocprofComputeReader
from wcbench.profilers.readers.rocprofv3 import Rocprofv3Reader

READER = RocprofComputeReader()
HEAD = (
    "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Arch_VGPR,Accum_VGPR,SGPR,wave_size,obj"
)


def workload(shared: Path, name: str) -> Path:
    return shared / f"traces/rocprof/rocprofcompute_device_filter_MI200_{name}.csv"


def test_real_counters(run, shared):
    path = workload(shared, "pmc_perf")
    wide = pd.read_csv(path)
    described = [c for c in wide if c.startswith(("wave_size", "obj")) or c in HEAD or "Timestamp" in c or "Scr" in c]
    wanted = wide.drop(columns=described)
    found = run(READER, path)
    counters, kernels = found.tables["counters"], found.tables["kernels"]
    assert len(counters) == wanted.size == 3 * 972  # 1022 columns, 50 of them of the dispatch
    long = wanted.to_numpy(dtype=float).ravel()
    assert counters["value"].to_numpy().tolist() == long.tolist()
    assert counters["metric"].tolist() == [c for _ in range(3) for c in wanted]
    assert counters["kernel"].tolist() == [row for row in range(3) for _ in wanted.columns]
    assert kernels["duration_ns"].tolist() == (wide["End_Timestamp"] - wide["Start_Timestamp"]).tolist()
    assert kernels["start_ns"].isna().all()
    assert set(kernels["pass"]) == {"counters"}
    assert set(kernels["name"]) == {"vecCopy(double*, double*, double*, int, int)"}
    assert {tuple(grid) for grid in kernels["grid"]} == {(1048576 // 256, 1, 1)}
    waves = counters[counters["metric"] == "SQ_WAVES"]["value"]  # 64 work-items each
    assert waves.tolist() == [1048576 / 64] * 3
    assert any("means over the runs" in note for note in found.notes)
    assert found.losses == []


def test_real_times(run, shared):
    path = workload(shared, "timestamps")
    rows = pd.read_csv(path)
    kernels = run(READER, path).tables["kernels"]
    assert kernels["start_ns"].tolist() == rows["Start_Timestamp"].tolist()
    assert kernels["duration_ns"].tolist() == (rows["End_Timestamp"] - rows["Start_Timestamp"]).tolist()
    assert set(kernels["pass"]) == {"timeline"}
    assert set(kernels["device"]) == {"gpu:2"}


def test_real_machine(run, shared):
    found = run(READER, workload(shared, "sysinfo"))
    assert found.tables == {}
    assert found.sink.facts["gpus"] == [
        {
            "name": "MI200",
            "architecture": "gfx90a",
            "max_sm_clock_hz": 1_700_000_000,
            "max_memory_clock_hz": 1_600_000_000,
            "compute_units": 104,
        }
    ]
    assert "hpcfund" not in str(found.sink.facts)


@pytest.mark.parametrize(("name", "words"), [("roofline", "peaks"), ("pmc_dispatch_info", "without times or counters")])
def test_real_files_that_are_refused(run, shared, name, words):
    with pytest.raises(ReadError, match=words) as raised:
        run(READER, workload(shared, name))
    assert "pmc_perf.csv" in str(raised.value.hint)


@pytest.mark.parametrize("other", [RocprofReader(), Rocprofv3Reader()])
def test_files_are_of_one_reader(shared, other):
    for path in (shared / "traces/rocprof").iterdir():
        source = Source(path, path.name)
        head = Head(source, source.head())
        assert not (READER.recognizes(head) and other.recognizes(head)), path.name


def test_counters_of_several_runs(run):
    text = (
        f"{HEAD},SQ_WAVES,SQ_BUSY_CYCLES,SQC_DCACHE_REQ_READ_8,wave_size_1,obj_1,SQ_BUSY_CYCLES_1,SQ_BUSY_CYCLES_2,"
        "SQ_ACCUM_PREV_HIRES,SQ_ACCUM_PREV_HIRES_3,Start_Timestamp,End_Timestamp\n"
        '0,"a (.kd)",2,1024,64,512,8,4,16,64,0x7f,16,100,5,64,0x7e,101,102,7,8,1412702536508356.5,1412702536528996.0\n'
    )
    found = run(READER, text)
    counters, kernel = found.tables["counters"], found.tables["kernels"].iloc[0]
    assert dict(zip(counters["metric"].astype(str), counters["value"], strict=True)) == {
        "SQ_WAVES": 16.0,
        "SQ_BUSY_CYCLES": 100.0,
        "SQC_DCACHE_REQ_READ_8": 5.0,  # no column of that name without the number: it is part of the name
    }
    assert (kernel["name"], kernel["duration_ns"], kernel["registers"]) == ("a", 20639, 12)
    assert pd.isna(kernel["start_ns"])
    assert [(loss.what, loss.count) for loss in found.losses] == [("a column", 3), ("a column", 1)]


def test_counters_without_times(run):
    found = run(READER, f"{HEAD},SQ_WAVES\n0,a,2,1024,64,0,8,0,16,64,0x7f,16\n")
    assert list(found.tables) == ["counters"]
    assert found.tables["counters"]["kernel"].isna().all()


@pytest.mark.parametrize("text", [f"{HEAD},SQ_WAVES\n", f"{HEAD},Start_Timestamp,End_Timestamp\n", f"{HEAD}\n"])
def test_nothing_to_read(run, text):
    with pytest.raises(ReadError, match="file-1"):
        run(READER, text)


def test_machine_without_a_row(run):
    with pytest.raises(ReadError, match="no description"):
        run(READER, "workload_name,command,rocm_version,gpu_model\n")


def test_machine_with_absurd_figures(run):
    found = run(
        READER, "workload_name,command,rocm_version,gpu_model,gpu_arch,max_sclk,cu_per_gpu\nx,y,6,NA,,1e400,-3\n"
    )
    assert set(found.sink.facts["gpus"][0].values()) == {None}


GOOD = (
    f"{HEAD},SQ_WAVES,SQ_WAVES_1,Start_Timestamp,End_Timestamp\n"
    + '0,"a(int, int) [clone .kd]",2,1024,64,0,8,0,16,64,0x7f,16,17,1412702536508356,1412702536528996\n' * 3
).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_never_a_crash(data):
    content = bytearray(GOOD[: data.draw(st.integers(0, len(GOOD)))])
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        path.write_bytes(content)
        source, sink = Source(path, "file"), Sink("file", Path(name))
        with contextlib.suppress(WcbenchError):
            if READER.recognizes(Head(source, source.head())):
                READER.read(source, sink)
                sink.finish()
