"""rocprofv3's CSV files and JSON, against the samples of AMD's documentation and against hand arithmetic."""

from __future__ import annotations

import contextlib
import csv
import json
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.rocprof import RocprofReader
from wcbench.profilers.readers.rocprofv3 import Rocprofv3Reader

READER = Rocprofv3Reader()
TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)


def sample(shared: Path, name: str) -> tuple[Path, list[dict[str, str]]]:
    path = shared / f"traces/rocprof/rocprofsdk_{name}.csv"
    with path.open(newline="") as file:
        return path, list(csv.DictReader(file))


# --- CSV -----------------------------------------------------------------------------------------------------------


def test_real_kernels(run, shared):
    path, rows = sample(shared, "kernel_trace")
    found = run(READER, path)
    kernels = found.tables["kernels"].sort_values("start_ns").reset_index(drop=True)
    rows.sort(key=lambda r: int(r["Start_Timestamp"]))
    assert len(kernels) == len(rows) == 7
    assert found.losses == []
    assert kernels["start_ns"].tolist() == [int(r["Start_Timestamp"]) for r in rows]
    times = [int(r["End_Timestamp"]) - int(r["Start_Timestamp"]) for r in rows]
    assert kernels["duration_ns"].tolist() == times
    by_name: Counter[str] = Counter()
    for r, time in zip(rows, times, strict=True):
        by_name[r["Kernel_Name"]] += time
    mine = kernels.groupby("name", observed=True)["duration_ns"].sum().sort_values(ascending=False)
    assert list(zip(mine.index, mine, strict=True)) == by_name.most_common(5)
    assert kernels["stream"].tolist() == [int(r["Queue_Id"]) for r in rows]  # the version has no Stream_Id
    # SQ_WAVES of the same kernels is 16384 waves of 64 work-items: 1024 x 1024 work-items are 16384 blocks of 64
    assert {tuple(grid) for grid in kernels["grid"]} == {(16, 1024, 1)}
    assert {tuple(block) for block in kernels["block"]} == {(64, 1, 1)}
    assert set(kernels["device"]) == {"agent:1"}
    assert kernels["registers"].isna().all()


@pytest.mark.parametrize("name", ["hip_runtime_trace", "hip_compile_trace", "hsa_api_trace"])
def test_real_calls(run, shared, name):
    path, rows = sample(shared, name)
    calls = run(READER, path).tables["runtime"]
    assert len(calls) == len(rows)
    expected = sorted(
        (int(r["Correlation_Id"]), r["Function"], int(r["End_Timestamp"]) - int(r["Start_Timestamp"])) for r in rows
    )
    assert sorted(zip(calls["correlation"], calls["name"].astype(str), calls["duration_ns"], strict=True)) == expected
    assert set(calls["thread"]) == {int(r["Thread_Id"]) for r in rows}


def test_real_copies(run, shared):
    path, rows = sample(shared, "memory_copy_trace")
    copies = run(READER, path).tables["kernels"].sort_values("start_ns")
    assert copies["name"].tolist() == [r["Direction"] for r in rows]
    assert copies["duration_ns"].tolist() == [int(r["End_Timestamp"]) - int(r["Start_Timestamp"]) for r in rows]
    assert set(copies["device"]) == {"agent:1"}
    assert copies["stream"].isna().all()
    assert copies["bytes"].isna().all()


@pytest.mark.parametrize("name", ["counter_collection", "kernel_names"])
def test_real_counters_of_before_times(run, shared, name):
    path, rows = sample(shared, name)
    found = run(READER, path)
    assert list(found.tables) == ["counters"]
    counters = found.tables["counters"]
    assert counters["name"].tolist() == [r["Kernel_Name"] for r in rows]
    assert counters["value"].tolist() == [float(r["Counter_Value"]) for r in rows]
    assert set(counters["metric"]) == {"SQ_WAVES"}
    assert counters["kernel"].isna().all()
    assert set(counters["calls"]) == {1}
    assert any("no times" in note for note in found.notes)


def test_real_sums(run, shared):
    path, rows = sample(shared, "hip_api_stats")
    totals = run(READER, path).tables["totals"]
    assert totals["name"].tolist() == [r["Name"] for r in rows]
    assert set(totals["kind"]) == {"runtime"}
    assert totals["total_ns"].tolist() == [float(r["TotalDurationNs"]) for r in rows]
    assert totals["mean_ns"].tolist() == pytest.approx([float(r["AverageNs"]) for r in rows], rel=1e-9)
    assert totals["deviation_ns"].tolist() == [float(r["StdDev"]) for r in rows]
    assert totals["minimum_ns"].tolist() == [float(r["MinNs"]) for r in rows]
    source = Source(path, path.name)
    assert not RocprofReader().recognizes(Head(source, source.head()))


def test_real_ranges(run, shared):
    path, rows = sample(shared, "marker_api_trace")
    found = run(READER, path)
    assert len(rows) == 5
    assert set(found.tables) <= {"steps"}
    assert found.passes["timeline"].seconds == pytest.approx((1520113901495882 - 1520113899312225) / 1e9)


def test_ranges_tell_steps(run):
    head = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    rows = "".join(f'"MARKER_CORE_API","step {i}",7,7,{i},{1000 * i + 1},{1000 * i + 900}\n' for i in range(1, 4))
    steps = run(READER, head + rows).tables["steps"]
    assert steps["duration_ns"].tolist() == [899, 899, 899]


def test_new_kernel_trace(run):
    rows = (
        '"KERNEL_DISPATCH","Agent 4",9,1,70,1,10,"a(float*, int)",5,1000,1300,512,0,8,4,16,64,2,1,130,7,1\n'
        '"KERNEL_DISPATCH","GPU 0",9,0,70,2,10,"b.kd",6,1400,1300,0,0,8,4,16,64,1,1,64,1,1\n'
        '"KERNEL_DISPATCH","Agent 4",9,2,70,3,10,"b.kd",7,1500,1600,0,0,8,x,16,0,1,1,64,1,1\n'
    )
    found = run(READER, TRACE + rows)
    a, b = found.tables["kernels"].sort_values("start_ns").to_dict("records")
    assert (a["name"], a["device"], a["stream"], a["duration_ns"]) == ("a(float*, int)", "agent:4", 1, 300)
    assert (list(a["grid"]), list(a["block"])) == ([3, 4, 1], [64, 2, 1])  # 130/64 and 7/2, rounded up
    assert (a["registers"], a["shared_bytes"]) == (12, 512)
    assert (b["name"], b["stream"], b["registers"], b["grid"], b["block"]) == ("b", 2, 8, None, None)
    assert [loss.why for loss in found.losses] == ["it ends before it starts"]


def test_case_and_order_of_titles(run):
    """rocpd2csv puts a Guid in front and writes Vgpr_Count."""
    titles = TRACE.replace("LDS_", "Lds_").replace("VGPR", "Vgpr").replace("SGPR", "Sgpr")
    row = '"g","KERNEL_DISPATCH","Agent 4",9,1,70,1,10,"a",5,1000,1300,512,0,8,4,16,64,1,1,64,1,1\n'
    kernel = run(READER, '"Guid",' + titles + row).tables["kernels"].iloc[0]
    assert (kernel["registers"], kernel["shared_bytes"]) == (12, 512)


def test_first_names_of_copies(run):
    titles = "Kind", "Direction", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id", "Start_Timestamp"
    head = ",".join(f'"{title}"' for title in (*titles, "End_Timestamp")) + "\n"
    rows = '"MEMORY_COPY","HOST_TO_DEVICE",0,3,1,10,20\n"MEMORY_COPY","DEVICE_TO_HOST",2,0,2,30,50\n'
    copies = run(READER, head + rows).tables["kernels"].sort_values("start_ns")
    assert copies["name"].tolist() == ["MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"]
    assert copies["device"].tolist() == ["agent:3", "agent:2"]


def test_counters_with_times_share_an_execution(run):
    def value(dispatch, counter, number, start=1000, end=1100):
        return f'1,{dispatch},"Agent 1",1,77,77,1048576,17,"a(int)",64,0,0,8,0,16,"{counter}",{number},{start},{end}\n'

    rows = (
        value(1, "SQ_WAVES", "16384.000000") + value(1, "GRBM_COUNT", 7) + value(2, "SQ_WAVES", 5, 1200, 1250)
        + value(1, "OccupancyPercent", 62.5) + value(3, "SQ_WAVES", 1, 0, 0) + value(2, "GRBM_COUNT", "nan")
    )  # fmt: skip
    found = run(READER, COUNTERS + rows)
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert kernels["duration_ns"].tolist() == [100, 50]
    assert set(kernels["pass"]) == {"counters"}
    assert list(kernels["grid"][0]) == [16384, 1, 1]
    assert counters["kernel"].tolist()[:4] == [0, 0, 1, 0]
    assert counters["kernel"].isna().tolist()[4:] == [True, False]
    assert counters["value"].tolist()[:5] == [16384.0, 7.0, 5.0, 62.5, 1.0]
    assert counters["value"].isna()[5]
    assert "timeline" not in found.passes


def test_agents_are_facts(run):
    head = '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Vendor_Name","Product_Name","Model_Name"\n'
    rows = '0,0,"CPU",0,"x","CPU","AMD EPYC",""\n4,1,"GPU",304,"gfx942","AMD","AMD Instinct MI300X",""\n'
    found = run(READER, head + rows)
    assert found.sink.facts["gpus"] == [
        {"index": 4, "name": "AMD Instinct MI300X", "architecture": "gfx942", "compute_units": 304}
    ]
    assert not found.tables
    with pytest.raises(ReadError, match="no GPU"):
        run(READER, head + '0,0,"CPU",0,"x","CPU","AMD EPYC",""\n')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TRACE, "no execution"),
        (COUNTERS, "no value"),
        ('"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id"\n', "allocated"),
        ('"Kind","Operation","Agent_Id","Queue_Id","Thread_Id","Alloc_Flags"\n', "scratch"),
        ('"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction"\n', "samples"),
        (
            '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs"\n"HIP_API",1,5,5,1,5,5\n',
            "domains",
        ),
        ('{"rocprofiler-sdk-tool": []}', "no execution"),
        ('{"rocprofiler-sdk-tool": [{}]}', "no execution"),
        ('{"rocprofiler-sdk-tool": [' + "[" * 200_000, "no JSON"),
        ('{"rocprofiler-sdk-tool": [{"x": ' + "[" * 200_000 + "]" * 200_000 + "}]}", "no JSON"),
        ('{"rocprofiler-sdk-tool": 1}', "no JSON"),
        ('{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": 3}}]}', "no execution"),
    ],
)
def test_refused(run, text, words):
    with pytest.raises(ReadError, match=words):
        run(READER, text)


def test_markers_in_the_name_of_sums(tmp_path, run):
    path = tmp_path / "marker_api_stats.csv"
    path.write_text('"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs"\n"main",1,5,5,1,5,5\n')
    assert set(run(READER, path).tables["totals"]["kind"]) == {"range"}


# --- JSON ----------------------------------------------------------------------------------------------------------


def dispatch(number: int, kernel: int, start: int, end: int, agent: int = 91) -> dict:
    return {
        "size": 1, "kind": 1, "operation": 1, "thread_id": 70, "correlation_id": {"internal": number, "external": 0},
        "start_timestamp": start, "end_timestamp": end, "stream_id": {"handle": 3},
        "dispatch_info": {
            "size": 1, "agent_id": {"handle": agent}, "queue_id": {"handle": 1}, "kernel_id": kernel,
            "dispatch_id": number, "private_segment_size": 0, "group_segment_size": 256,
            "workgroup_size": {"x": 64, "y": 2, "z": 1}, "grid_size": {"x": 128, "y": 2, "z": 1},
        },
    }  # fmt: skip


def call(kind: int, operation: int, number: int, start: int, end: int) -> dict:
    return {
        "kind": kind, "operation": operation, "correlation_id": {"internal": number}, "thread_id": 70,
        "start_timestamp": start, "end_timestamp": end,
    }  # fmt: skip


def tool(**sections: object) -> dict:
    made = {
        "metadata": {"pid": 70, "command": ["x"]},
        "agents": [
            {"id": {"handle": 90}, "node_id": 0, "type": 1, "name": "cpu", "product_name": "EPYC"},
            {"id": {"handle": 91}, "node_id": 4, "type": 2, "name": "gfx942", "product_name": "MI300X"},
        ],
        "counters": [{"id": {"handle": 5}, "agent_id": {"handle": 91}, "name": "SQ_WAVES"}],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": ["NONE"]},
                {"kind": "HIP_RUNTIME_API", "operations": ["none", "hipLaunchKernel"]},
                {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
            ],
            "marker_api": [{"key": 30, "value": "iteration 1"}],
        },
        "kernel_symbols": [
            {"kernel_id": 0},
            {"kernel_id": 1, "kernel_name": "_Z1a.kd", "formatted_kernel_name": "a(int)", "arch_vgpr_count": 8,
             "accum_vgpr_count": 4},
            {"kernel_id": 2, "kernel_name": "b.kd", "formatted_kernel_name": "b.kd"},
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": [dispatch(1, 1, 1100, 1200), dispatch(2, 2, 1200, 1450), dispatch(3, 9, 1500, 1501)],
            "hip_api": [call(1, 1, 1, 1000, 1020), call(1, 1, 2, 1030, 1050), call(1, 7, 3, 1060, 1070)],
            "marker_api": [call(3, 1, 30, 900, 1600)],
            "memory_copy": [
                {"kind": 2, "operation": 1, "start_timestamp": 800, "end_timestamp": 850, "bytes": 4096,
                 "correlation_id": {"internal": 9}, "src_agent_id": {"handle": 90}, "dst_agent_id": {"handle": 91}},
            ],
        },
    }  # fmt: skip
    return {**made, **sections}


def document(*tools: dict) -> str:
    return json.dumps({"rocprofiler-sdk-tool": list(tools)}, indent=1)


def test_json(run):
    found = run(READER, document(tool()))
    kernels = found.tables["kernels"].sort_values("start_ns").to_dict("records")
    assert [(k["name"], k["start_ns"], k["duration_ns"]) for k in kernels] == [
        ("MEMORY_COPY_HOST_TO_DEVICE", 800, 50),
        ("a(int)", 1100, 100),
        ("b", 1200, 250),
        ("(no name)", 1500, 1),
    ]
    copy, a = kernels[0], kernels[1]
    assert (copy["bytes"], copy["device"]) == (4096, "agent:4")
    assert (list(a["grid"]), list(a["block"]), a["registers"], a["shared_bytes"]) == ([2, 1, 1], [64, 2, 1], 12, 256)
    assert a["stream"] == 3
    calls = found.tables["runtime"].set_index("correlation")
    assert calls.loc[1, "name"] == "hipLaunchKernel"
    assert calls.loc[2, "duration_ns"] == 20
    launched = {k["name"]: int(k["launch"]) for k in kernels if k["launch"] >= 0}
    numbers = {name: found.tables["runtime"]["correlation"].iloc[row] for name, row in launched.items()}
    assert numbers == {"a(int)": 1, "b": 2, "(no name)": 3}
    assert found.tables["steps"]["duration_ns"].tolist() == [700]  # the range "iteration 1"
    assert found.sink.facts["gpus"][0]["name"] == "MI300X"
    assert len(found.sink.facts["gpus"]) == 1
    assert {(loss.what, loss.count) for loss in found.losses} == {
        ("the name of a kernel", 1),
        ("the name of a call", 1),
    }
    assert found.passes["timeline"].device == "agent:4"


def test_json_counters_add_up_parts_of_the_device(run):
    data = {
        "dispatch_data": dispatch(1, 1, 0, 0),
        "records": [{"counter_id": {"handle": 5}, "value": v} for v in (10.0, 20.0, 0.5)]
        + [{"counter_id": {"handle": 6}, "value": 1}],
    }
    late = {"dispatch_data": dispatch(8, 2, 2000, 2100), "records": [{"counter_id": {"handle": 5}, "value": 4}]}
    found = run(READER, document(tool(callback_records={"counter_collection": [data, late]})))
    counters, kernels = found.tables["counters"], found.tables["kernels"]
    assert counters["metric"].tolist() == ["SQ_WAVES", "counter 6", "SQ_WAVES"]
    assert counters["value"].tolist() == [30.5, 1.0, 4.0]
    assert counters["name"].tolist() == ["a(int)", "a(int)", "b"]
    rows = kernels.iloc[counters["kernel"].tolist()]
    assert rows["name"].tolist() == ["a(int)", "a(int)", "b"]
    assert rows["duration_ns"].tolist() == [100, 100, 100]
    assert set(rows["pass"]) == {"counters"}
    assert kernels[kernels["pass"] == "timeline"]["name"].tolist() == ["MEMORY_COPY_HOST_TO_DEVICE"]


def test_json_damaged_records_are_lost_alone(run):
    bad = tool()
    records = bad["buffer_records"]["kernel_dispatch"]
    records[1]["start_timestamp"] = "x"
    records += [dispatch(5, 1, 2**63, 2**63 + 5), dispatch(6, 1, 50, 40), dispatch(7, 1, 0, 0), {}]
    found = run(READER, document(bad))
    names = set(found.tables["kernels"]["name"])
    assert names == {"MEMORY_COPY_HOST_TO_DEVICE", "a(int)", "(no name)"}
    told = {(loss.what, loss.count) for loss in found.losses if not loss.repaired}
    assert ("executions of kernels", 2) in told
    assert sum(count for what, count in told if what.startswith("the time")) in (1, 3)


def test_json_cut(run):
    text = document(tool())
    place = text.index('"hip_api"')
    found = run(READER, text[: place - 200])
    assert found.tables["kernels"]["name"].tolist()[:1] == ["a(int)"]
    assert next(loss.what for loss in found.losses) == "the rest of the file"
    offset = found.losses[0].offset
    assert offset is not None
    assert text[offset - 1] == "}"


def test_json_names_of_any_bytes(run):
    text = document(tool()).encode().replace(b"a(int)", b"a\x8d(int)")
    found = run(READER, text)
    assert "a�(int)" in set(found.tables["kernels"]["name"])
    assert any(loss.repaired and loss.what == "bytes" for loss in found.losses)


def test_json_limit(run, monkeypatch):
    monkeypatch.setattr("wcbench.profilers.readers.rocprofv3_records.LIMIT", 1 << 10)
    with pytest.raises(ReadError, match="more than 0 MiB"):
        run(READER, document(tool()))


@pytest.mark.parametrize("text", ['{"traceEvents": []}', "[]", "", "a,b,c\n", '{"x": "rocprofiler"}'])
def test_other_files(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    source = Source(tmp_path / "results.json", "results.json")
    assert not READER.recognizes(Head(source, source.head()))


@pytest.mark.parametrize("text", ["x" * 20_000_000, '\\"' * 5_000_000], ids=["plain", "escaped"])
def test_a_string_without_end_is_refused_in_bounded_memory(text: str, run) -> None:
    content = f'{{"rocprofiler-sdk-tool":["{text}'.encode()
    tracemalloc.start()
    try:
        with pytest.raises(ReadError, match="truncated"):
            run(READER, content)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content)
    finally:
        tracemalloc.stop()


GOOD = [
    document(tool(callback_records={"counter_collection": [{"dispatch_data": dispatch(1, 1, 5, 6), "records": []}]})),
    document(tool()),
    TRACE + '"KERNEL_DISPATCH","Agent 4",9,1,70,1,10,"a(float*, int)",5,1000,1300,512,0,8,4,16,64,2,1,130,7,1\n' * 3,
    COUNTERS + '1,1,"Agent 1",1,77,77,1048576,17,"a",64,0,0,8,0,16,"SQ_WAVES",1.5,1000,1100\n' * 3,
]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_never_a_crash(data):
    good = data.draw(st.sampled_from(GOOD)).encode()
    content = bytearray(good[: data.draw(st.integers(0, len(good)))] if data.draw(st.booleans()) else good)
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
