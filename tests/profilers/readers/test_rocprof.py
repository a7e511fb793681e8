"""rocprof 1 and 2: dispatches, counters and sums, against the real files and against hand arithmetic."""

from __future__ import annotations

import contextlib
import csv
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers import amd_table
from wcbench.profilers.readers.amd_dispatches import blocks
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.pyprof import PyProf
from wcbench.profilers.readers.rocprof import RocprofReader
from wcbench.profilers.readers.rocprof_compute import RocprofComputeReader
from wcbench.profilers.readers.rocprofv3 import Rocprofv3Reader

READER = RocprofReader()
FIRST = (
    '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr",'
    '"accum_vgpr","sgpr","wave_size","sig","obj",{}"DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
)


def row(index: int, name: str, *times: object, counters: str = "") -> str:
    begin, end, duration = times
    head = f'{index},"{name}",1,2,{index},77,78,1030,256,512,0,28,4,48,64,"0x0","0x7f",'
    return f"{head}{counters}{begin},{begin},{end},{end},{duration}\n"


def first(*rows: str, counters: str = "") -> str:
    return FIRST.format(counters) + "".join(rows)


def plain(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "traces/rocprof" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def without_mark(name: str) -> str:
    for mark in (" [clone .kd]", ".kd"):
        if name.endswith(mark):
            return name[: -len(mark)]
    return name


def test_real_results(run, shared):
    rows = plain(shared, "aiter_results.csv")
    found = run(READER, shared / "traces/rocprof/aiter_results.csv")
    kernels = found.tables["kernels"]
    assert len(kernels) == len(rows) == 10
    assert kernels["duration_ns"].sum() == sum(int(r["EndNs"]) - int(r["BeginNs"]) for r in rows)
    assert kernels["duration_ns"].tolist() == [int(r["DurationNs"]) for r in rows]
    assert kernels["start_ns"].tolist() == [int(r["BeginNs"]) for r in rows]
    times: Counter[str] = Counter()
    for r in rows:
        times[without_mark(r["KernelName"])] += int(r["DurationNs"])
    mine = kernels.groupby("name", observed=True)["duration_ns"].sum()
    assert mine.to_dict() == dict(times)
    assert mine.sort_values(ascending=False).index[:5].tolist() == [name for name, _ in times.most_common(5)]
    assert not kernels["name"].astype(str).str.endswith(("kd", "]")).any()
    # 524288 and 54525952 work-items in blocks of 256
    assert [list(grid) for grid in kernels["grid"][:3]] == [[2048, 1, 1], [2048, 1, 1], [212992, 1, 1]]
    assert {tuple(block) for block in kernels["block"]} == {(256, 1, 1)}
    assert set(kernels["device"]) == {"gpu:1"}
    assert set(kernels["pass"]) == {"timeline"}
    assert found.losses == []
    span = max(int(r["EndNs"]) for r in rows) - min(int(r["BeginNs"]) for r in rows)
    assert found.passes["timeline"].seconds == pytest.approx(span / 1e9)


def test_real_sums(run, shared):
    rows = plain(shared, "aiter_results.stats.csv")
    totals = run(READER, shared / "traces/rocprof/aiter_results.stats.csv").tables["totals"]
    assert totals["name"].tolist() == [without_mark(r["Name"]) for r in rows]
    assert totals["calls"].tolist() == [int(r["Calls"]) for r in rows]
    assert totals["total_ns"].tolist() == [float(r["TotalDurationNs"]) for r in rows]
    assert set(totals["kind"]) == {"kernel"}
    assert totals["mean_ns"].iloc[1] == 677283 / 2  # the file cuts it to 338641
    assert totals["minimum_ns"].isna().all()


def test_sums_and_trace_of_one_run_agree(run, shared):
    """They are of the same run: 10 dispatches of 3 kernels."""
    kernels = run(READER, shared / "traces/rocprof/aiter_results.csv").tables["kernels"]
    totals = run(READER, shared / "traces/rocprof/aiter_results.stats.csv").tables["totals"]
    mine = kernels.groupby("name", observed=True)["duration_ns"].agg(["sum", "size"])
    sums = totals.set_index(totals["name"].astype(str))[["total_ns", "calls"]]
    for name, both in sums.iterrows():
        assert tuple(mine.loc[name]) == (both["total_ns"], both["calls"])


def test_counters_are_further_columns(run):
    rows = (
        row(0, "a.kd", 100, 160, 60, counters="16384,12.5,"),
        row(1, "b (.kd)", 200, 260, 60, counters="nan,,"),
        row(2, "a.kd", 0, 0, 0, counters="3,4,"),
    )
    text = first(*rows, counters='"SQ_WAVES","VALUBusy",')
    found = run(READER, text)
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert kernels["name"].tolist() == ["a", "b"]
    assert set(kernels["pass"]) == {"counters"}
    assert kernels["duration_ns"].tolist() == [60, 60]
    assert kernels["phase"].tolist() == ["other", "other"]
    assert kernels["registers"].tolist() == [32, 32]
    assert kernels["shared_bytes"].tolist() == [512, 512]
    assert list(kernels["grid"][0]) == [5, 1, 1]  # 1030 work-items in blocks of 256: the last is not full
    assert counters["metric"].tolist() == ["SQ_WAVES", "VALUBusy"] * 3
    assert counters["name"].tolist() == ["a", "a", "b", "b", "a", "a"]
    assert counters["kernel"].tolist()[:4] == [0, 0, 1, 1]
    assert counters["kernel"].isna().tolist()[4:] == [True, True]
    assert counters["value"].tolist()[:2] == [16384.0, 12.5]
    assert counters["value"].isna().tolist()[2:4] == [True, True]
    assert counters["value"].tolist()[4:] == [3.0, 4.0]
    assert set(counters["calls"]) == {1}
    assert {(loss.what, loss.count) for loss in found.losses} == {
        ("the value of a counter", 2),
        ("the time of an execution or call", 1),
    }


def test_counters_without_times(run):
    text = '"Index","KernelName","gpu-id","grd","wgr","SQ_WAVES"\n0,"a",0,64,64,1\n'
    found = run(READER, text)
    assert list(found.tables) == ["counters"]
    assert found.tables["counters"]["kernel"].isna().all()
    assert found.tables["counters"]["value"].tolist() == [1.0]


def test_duration_alone(run):
    found = run(READER, '"Index","KernelName","grd","wgr","DurationNs"\n0,"a",256,64,400\n1,"a",256,64,-1\n')
    kernels = found.tables["kernels"]
    assert kernels["duration_ns"].tolist() == [400]
    assert kernels["start_ns"].isna().all()
    assert kernels["device"].tolist() == ["gpu"]
    assert [loss.why for loss in found.losses] == ["it has no duration"]


def test_second_version(run):
    text = (
        "Dispatch_ID,GPU_ID,Queue_ID,Process_ID,Thread_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,"
        "Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,"
        "Correlation_ID,SQ_WAVES\n"
        '0,2,1,77,78,1024,64,0,0,8,0,16,64,"a(int) [clone .kd]",1000,1250,7,16\n'
    )
    found = run(READER, text)
    kernel = found.tables["kernels"].iloc[0]
    assert (kernel["name"], kernel["device"], kernel["duration_ns"], kernel["start_ns"]) == (
        "a(int)",
        "gpu:2",
        250,
        1000,
    )
    assert found.tables["counters"]["metric"].tolist() == ["SQ_WAVES"]


def test_damaged_rows_are_told(run):
    lines = [
        row(0, "good", 100, 160, 60),
        "1,2,3\n",  # cut
        row(2, "backwards", 200, 150, 50),
        row(3, "no time", 0, 0, 0),
        row(4, "other duration", 300, 310, 99),
        row(5, "absurd", "9" * 25, "9" * 25, 1),
        '6,"open quote,1\n',
        row(7, "text", "x", "1e400", "nan"),
        FIRST.format(""),  # two files put together
        row(8, "good", 500, 500, 0),
    ]
    found = run(READER, first(*lines))
    kernels = found.tables["kernels"].sort_values("start_ns")
    assert kernels["name"].tolist() == ["good", "other duration", "good"]
    assert kernels["duration_ns"].tolist() == [60, 10, 0]
    told = {(loss.what, loss.why): loss.count for loss in found.losses}
    assert told == {
        ("a row", "it is damaged: not as many cells as the header"): 2,
        ("the time of an execution or call", "it ends before it starts"): 1,
        ("the time of an execution or call", "the profiler has no time of it (0)"): 1,
        ("the time of an execution or call", "its start or end is no such number"): 2,
        ("the duration of an execution", "it is not what lies between start and end, which was taken"): 1,
    }
    assert [loss.offset for loss in found.losses if loss.what == "a row"] == [len(first(lines[0]))]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["hipLaunchKernel", "__hipPushCallConfiguration", "hipMemcpy"], "runtime"),
        (["hsa_agent_get_info"], "runtime"),
        (["CopyHostToDevice", "CopyDeviceToHost"], "kernel"),
        (["ncclDevKernel_Generic_4"], "kernel"),
        (["hipMemcpy", "vecCopy(double*) [clone .kd]"], "kernel"),
    ],
)
def test_names_tell_what_sums_are_of(run, names, kind):
    text = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    found = run(READER, text + "".join(f'"{name}",2,100,50,1\n' for name in names))
    assert set(found.tables["totals"]["kind"]) == {kind}


def test_sums_that_contradict_themselves(run):
    text = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    rows = '"a",4,100,25,50\n"b",4,100,90,50\n"c",0,100,25,1\n"d",x,1,1,1\n"e",1,1e400,1,1\n"f",1,-5,-5,1\n'
    found = run(READER, text + rows)
    assert found.tables["totals"]["name"].tolist() == ["a", "b"]
    assert found.tables["totals"]["mean_ns"].tolist() == [25.0, 25.0]
    assert sorted((loss.count, loss.repaired) for loss in found.losses) == [(1, True), (4, False)]


@pytest.mark.parametrize(
    "text",
    [
        first(),
        first("1,2\n"),
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n',
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"HIP_API",2,100,50,1\n',
        '"Index","KernelName","gpu-id","grd","wgr"\n0,"a",0,64,64\n',
    ],
)
def test_nothing_to_read(run, text):
    with pytest.raises(ReadError, match="file-1"):
        run(READER, text)


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", '{"traceEvents":[{}\n', "Index,KernelName\n", "\x00" * 64])
def test_other_files(tmp_path, text):
    (tmp_path / "results.csv").write_text(text)
    source = Source(tmp_path / "results.csv", "results.csv")
    assert not READER.recognizes(Head(source, source.head()))


@pytest.mark.parametrize("reader", [RocprofReader(), Rocprofv3Reader(), RocprofComputeReader(), PyProf()])
@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", "{}", "\x00\xff\n"])
def test_format_asked_for_by_hand(tmp_path, reader, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(ReadError, match=r"file\.csv"):
        reader.read(Source(tmp_path / "file", "file.csv"), Sink("file.csv", tmp_path))


def test_cells():
    assert amd_table.whole("1412702536508356.5") == 1412702536508357
    assert amd_table.whole("-3.6") == -4
    assert amd_table.whole("9223372036854775807") == 2**63 - 1
    assert amd_table.whole("1.5e+16") == 15 * 10**15
    for text in ("", "9223372036854775808", "9" * 30, "1_000", "1e400", "1e99", "nan", "0x10", "１２", "--1", "1.2.3"):
        assert amd_table.whole(text) is None, text
    for text in ("nan", "inf", "1e400", "1_0", "", "x", "9" * 65):
        assert amd_table.number(text) is None, text
    assert amd_table.number("1.5e3") == 1500.0
    assert amd_table.device_label("Agent 4", "agent") == "agent:4" == amd_table.device_label("4", "agent")
    assert amd_table.device_label("GPU 0", "agent") == "gpu:0"
    assert amd_table.kernel_name("f(int) (.kd)") == "f(int)"
    assert amd_table.kernel_name("kd.kdx") == "kd.kdx"


def test_grids():
    assert blocks([1024, 1024, 1], [64, 1, 1]) == ([16, 1024, 1], [64, 1, 1])
    assert blocks([1025, 3, 1], [64, 2, 1]) == ([17, 2, 1], [64, 2, 1])
    assert blocks([1024, None, 1], [64, 1, 1]) == (None, [64, 1, 1])
    assert blocks([1024, 1, 1], [0, 1, 1]) == (None, None)


def test_counter_rows_point_at_their_kernels(run):
    """More rows than a batch: numbers go on from one to the next."""
    many = 40_000
    text = '"Index","KernelName","gpu-id","grd","wgr","BeginNs","EndNs","SQ_WAVES"\n'
    found = run(READER, text + "".join(f"{i},k{i % 7},0,64,64,{1 + i},{2 + i + i % 5},{i}\n" for i in range(many)))
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert len(kernels) == len(counters) == many
    assert (counters["kernel"].to_numpy() == range(many)).all()
    both = pd.DataFrame({"kernel": kernels["name"].astype(str), "counter": counters["name"].astype(str)})
    assert (both["kernel"] == both["counter"]).all()


GOOD = first(
    *(
        row(i, f"kernel<{i % 3}>(float*) [clone .kd]", 100 * i + 1, 100 * i + 60, 59, counters=f"{i},{i}.5,")
        for i in range(6)
    ),
    counters='"SQ_WAVES","VALUBusy",',
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
