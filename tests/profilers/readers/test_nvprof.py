"""nvprof's output: summaries, traces, metrics as CSV and text, and its SQLite files. Expected values by hand."""

# ruff: noqa: E501  (tables as nvprof prints them)

from __future__ import annotations

import contextlib
import functools
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profilers.readers.conftest import Run
from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.nvprof import NvprofCsv
from wcbench.profilers.readers.nvprof_sqlite import NvprofSqlite

SUMMARY = """==9630== NVPROF is profiling process 9630, command: ./train
epoch 1, loss 0.5
==9630== Profiling application: ./train
==9630== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,ms,
"GPU activities",66.666667,4.000000,2,2000.000000,1664.000000,2.336000,"void gemm<int=4, bool=1>(float*, int)"
"GPU activities",33.333333,2.000000,4,500.000000,250.000000,1.250000,"[CUDA memcpy HtoD]"
"API calls",78.020031,75.706000,11,6882.363636,6841.000000,6.941000,"cudaMemcpyAsync"
"OpenACC (excl)",1.000000,1.000000,1,1000.000000,1000.000000,1.000000,"acc_enqueue"
"""


def test_a_summary_gives_totals_each_column_in_its_own_unit(run: Run) -> None:
    found = run(NvprofCsv(), SUMMARY)
    totals = found.tables["totals"]
    assert totals["kind"].tolist() == ["kernel", "kernel", "runtime", "range"]
    assert totals["name"].tolist()[0] == "void gemm<int=4, bool=1>(float*, int)"
    assert totals["calls"].tolist() == [2, 4, 11, 1]
    assert totals["total_ns"].tolist() == pytest.approx([4e6, 2e6, 75.706e6, 1e6])
    assert totals["mean_ns"].tolist()[:2] == pytest.approx([2e6, 0.5e6])
    assert totals["minimum_ns"].tolist()[:2] == pytest.approx([1.664e6, 0.25e6])
    assert totals["maximum_ns"].tolist()[:2] == pytest.approx([2.336e6, 1.25e6])
    assert totals["device"].isna().all()
    assert "kernels" not in found.tables
    assert set(found.passes) == {"timeline"}
    assert not found.losses


def test_a_row_of_units_that_lies_is_not_believed(run: Run) -> None:
    content = SUMMARY.replace(",%,ms,,us,us,ms,", ",%,ms,,us,us,us,")  # maxima of 2.3 us beside means of 2 ms
    found = run(NvprofCsv(), content)
    totals = found.tables["totals"]
    assert totals["total_ns"].tolist() == pytest.approx([4e6, 2e6, 75.706e6, 1e6])
    assert totals["mean_ns"].tolist()[:2] == pytest.approx([2e6, 0.5e6])
    assert totals["maximum_ns"].isna().all()
    assert {loss.what: loss.count for loss in found.losses}["the greatest time of a row of a summary"] == 4
    with pytest.raises(ReadError):  # totals that are not calls times mean
        run(NvprofCsv(), SUMMARY.replace(",%,ms,,us,us,ms,", ",%,s,,us,us,ms,"))


def test_an_old_summary_has_sections_and_units_in_its_cells(run: Run) -> None:
    content = """==7== Profiling result:
Time(%),Time,Calls,Avg,Min,Max,Name
60.00%,1.50000s,3,500.00ms,929ns,1.49000s,"kernel(int, int)"
==7== API calls:
Time(%),Time,Calls,Avg,Min,Max,Name
99.00%,2.1760us,1,2.1760us,2.1760us,2.1760us,cudaMalloc
"""
    totals = run(NvprofCsv(), content).tables["totals"]
    assert totals["kind"].tolist() == ["kernel", "runtime"]
    assert totals["total_ns"].tolist() == pytest.approx([1.5e9, 2176.0])
    assert totals["minimum_ns"].tolist() == pytest.approx([929.0, 2176.0])


def test_a_summary_as_text_names_its_type_in_the_first_row(run: Run) -> None:
    content = """==15105== NVPROF is profiling process 15105, command: ./a.out
==15105== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   49.13%  169.63us         1  169.63us  169.63us  169.63us  [CUDA memcpy HtoD]
                   45.01%  155.39us         2  77.695us  70.000us  85.390us  void k<int, float>(int, float*)
      API calls:   99.13%  1.5000ms         3  500.00us  100.00us  1.0000ms  cudaMalloc
all done
"""
    found = run(NvprofCsv(), content)
    totals = found.tables["totals"]
    assert totals["kind"].tolist() == ["kernel", "kernel", "runtime"]
    assert totals["name"].tolist()[1] == "void k<int, float>(int, float*)"
    assert totals["total_ns"].tolist() == pytest.approx([169630, 155390, 1.5e6])
    assert [loss.why for loss in found.losses] == ["it is no row of a summary (output of the program?)"]


def test_a_file_that_a_spreadsheet_took_the_quotes_from(run: Run) -> None:
    content = """Err:510
Err:510
Type,Time(%),Time,Calls,Avg,Min,Max,Name
,%,us,,us,us,us,
GPU activities,100,10,2,5,4,6,void gemm<int=4, bool=1>(float*, int)
"""
    found = run(NvprofCsv(), content)
    assert found.tables["totals"]["name"].tolist() == ["void gemm<int=4, bool=1>(float*, int)"]
    assert [(loss.count, loss.repaired) for loss in found.losses] == [(1, True)]


TRACE_HEADER = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"\n'
)
TRACE = (
    "======== Warning: 42 records have invalid timestamps due to insufficient device buffer space.\n"
    "======== Profiling result:\n"
    + TRACE_HEADER
    + """s,us,,,,,,,,KB,B,KB,GB/s,,,,,,,
0.000001,1.568000,,,,,,,,,,1.003906,0.610586,"Device",,"Tesla V100-SXM2-16GB (1)","1","7","[CUDA memset]",274
0.000010,2.500000,10,2,1,32,4,1,16,1.062500,64,,,,,"Tesla V100-SXM2-16GB (1)","1","14","k(int, float)",275
0.000020,,10,2,1,32,4,1,16,1.062500,64,,,,,"Tesla V100-SXM2-16GB (1)","1","14","k(int, float)",276
0.000020,1.0,,,,,,,,,,,,,,,,,"[Unified Memory CPU page faults]",
"""
)


def test_a_trace_goes_to_the_timeline_by_its_row_of_units(run: Run) -> None:
    found = run(NvprofCsv(), TRACE)
    kernels = found.tables["kernels"]
    assert kernels["name"].tolist() == ["[CUDA memset]", "k(int, float)"]
    assert kernels["start_ns"].tolist() == [1000, 10000]
    assert kernels["duration_ns"].tolist() == [1568, 2500]
    assert kernels["device"].tolist() == ["cuda:1", "cuda:1"]
    assert kernels["stream"].tolist() == [7, 14]
    assert kernels["bytes"].tolist()[0] == 1028  # 1.003906 * 1024; the throughput says that KB are 1024 bytes
    assert kernels["shared_bytes"].tolist()[1] == 1088 + 64
    assert kernels["registers"].tolist()[1] == 16
    assert kernels["grid"].tolist()[1].tolist() == [10, 2, 1]
    assert kernels["block"].tolist()[1].tolist() == [32, 4, 1]
    assert found.sink.facts["gpus"] == [{"name": "Tesla V100-SXM2-16GB"}]
    assert found.passes["timeline"].seconds == pytest.approx((10000 + 2500 - 1000) / 1e9)
    assert sorted((loss.what, loss.count) for loss in found.losses) == [
        ("a record", 42),
        ("a record of unified memory", 1),
        ("a row of a trace", 1),
    ]
    assert not any("1024" in note for note in found.notes)


TRACE_TEXT = """==27706== NVPROF is profiling process 27706, command: matrixMul
==27706== Profiling result:
   Start  Duration  Grid Size  Block Size  Regs*    SSMem*  DSMem*      Size  Throughput   Device   Context  Stream  Name
133.81ms  135.78us          -           -      -         -       -  409.60KB  3.0167GB/s  GTX 980         1       2  [CUDA memcpy HtoD]
134.90ms  3.7037ms  (20 10 1)   (32 32 1)     29  8.1920KB      0B         -           -  GTX 980         1       2  void mm<int=32>(float*, int, int) [94]

Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver.
SSMem: Static shared memory allocated per CUDA block.
"""


def test_a_trace_as_text_of_the_times_when_a_kilobyte_was_1000_bytes(run: Run) -> None:
    found = run(NvprofCsv(), TRACE_TEXT)
    kernels = found.tables["kernels"]
    assert kernels["name"].tolist() == ["[CUDA memcpy HtoD]", "void mm<int=32>(float*, int, int)"]
    assert kernels["duration_ns"].tolist() == [135780, 3703700]
    assert kernels["bytes"].tolist()[0] == 409600
    assert kernels["shared_bytes"].tolist()[1] == 8192
    assert kernels["bytes"].isna().tolist() == [False, True]
    assert kernels["stream"].tolist() == [2, 2]
    assert kernels["device"].tolist() == ["cuda", "cuda"]  # the text form cuts the device's number away
    assert not found.losses


def test_calls_of_the_api_are_linked_to_kernels_by_their_numbers(run: Run) -> None:
    content = (
        "======== Profiling result:\n"
        + TRACE_HEADER
        + "us,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,\n"
        + '10.0,2.5,10,2,1,32,4,1,16,0,0,,,,,"Tesla V100 (0)","1","7","k(int)",275\n'
        + "======== API calls:\n"
        + '"Start","Duration","Name","Correlation_ID"\nus,us,,\n1.0,0.5,"cudaMalloc",274\n'
        + '8.0,0.5,"cudaLaunchKernel",275\n'
    )
    found = run(NvprofCsv(), content)
    runtime, kernels = found.tables["runtime"], found.tables["kernels"]
    assert runtime["name"].tolist() == ["cudaMalloc", "cudaLaunchKernel"]
    assert runtime["start_ns"].tolist() == [1000, 8000]
    assert runtime["name"][kernels["launch"][0]] == "cudaLaunchKernel"


def test_a_trace_of_the_api_as_text(run: Run) -> None:
    content = """==9== Profiling result:
   Start  Duration  Name
1.0000ms  2.5000us  cudaMalloc
2.0000ms  3.0000us  cudaLaunch (k(int, float) [94])
oops
"""
    found = run(NvprofCsv(), content)
    runtime = found.tables["runtime"]
    assert runtime["name"].tolist() == ["cudaMalloc", "cudaLaunch"]
    assert runtime["correlation"].tolist()[1] == 94
    assert runtime["start_ns"].tolist() == [1_000_000, 2_000_000]
    assert runtime["duration_ns"].tolist() == [2500, 3000]
    assert sum(loss.count for loss in found.losses) == 1


METRICS = """==20858== NVPROF is profiling process 20858, command: ./test
==20858== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100-SXM2-16GB (0)","k(float*, int)",3,"achieved_occupancy","Achieved Occupancy",0.500000,0.700000,0.600000
"Tesla V100-SXM2-16GB (0)","k(float*, int)",3,"gld_efficiency","Global Memory Load Efficiency",15.541355%,16.00%,15.60%
"Tesla V100-SXM2-16GB (0)","k(float*, int)",5,"gld_throughput","Global Load Throughput",512.000000MB/s,2.0GB/s,1.0GB/s
"Tesla V100-SXM2-16GB (0)","k(float*, int)",5,"dram_utilization","Device Memory","Low (1)","Mid (5)","Low (3)"
"Tesla V100-SXM2-16GB (0)","k(float*, int)",5,"flop_count_sp","FLOPs(Single Precision)",3611549214,3611549214,3611549214
"""


def test_metrics_are_means_over_invocations(run: Run) -> None:
    found = run(NvprofCsv(), METRICS)
    counters = found.tables["counters"]
    assert counters["calls"].tolist() == [3, 3, 5, 5, 5]
    assert counters["unit"].tolist() == ["", "%", "B/s", "level", ""]
    assert counters["value"].tolist() == [0.6, 15.6, 2.0**30, 3.0, 3611549214.0]
    assert counters["minimum"].tolist() == [0.5, 15.541355, 512 * 2.0**20, 1.0, 3611549214.0]
    assert counters["maximum"].tolist()[:4] == [0.7, 16.0, 2.0**31, 5.0]
    assert counters["kernel"].isna().all()
    assert any("1024 was taken" in note for note in found.notes)
    assert found.passes["counters"].device == "cuda:0"


def test_metrics_and_events_as_text(run: Run) -> None:
    content = """==1039== Profiling result:
==1039== Event result:
Invocations                                Event Name         Min         Max         Avg       Total
Device "Tesla P100-PCIE-16GB (0)"
    Kernel: inside(int, int)
          2                            warps_launched          32          64          48          96
==1039== Metric result:
Invocations                               Metric Name                        Metric Description         Min         Max         Avg
Device "Tesla P100-PCIE-16GB (0)"
    Kernel: inside(int, int)
          1                        achieved_occupancy                        Achieved Occupancy    0.920796    0.920796    0.920796
          1                          dram_utilization                 Device Memory Utilization    Idle (0)     Low (2)     Low (1)
          1                             flop_count_sp    Floating Point Operations(Single Pr...         100         200         150
"""
    counters = run(NvprofCsv(), content).tables["counters"]
    assert counters["metric"].tolist() == ["warps_launched", "achieved_occupancy", "dram_utilization", "flop_count_sp"]
    assert counters["value"].tolist() == [48.0, 0.920796, 1.0, 150.0]
    assert counters["minimum"].tolist() == [32.0, 0.920796, 0.0, 100.0]
    assert set(counters["name"]) == {"inside(int, int)"}


def test_damaged_rows_are_lost_and_values_never_guessed(run: Run) -> None:
    content = METRICS + (
        '"Tesla V100 (0)","k",3,"ipc","d",0.5,0.7,oops\n'
        '"Tesla V100 (0)","k",0,"ipc","d",0.5,0.7,0.6\n'
        '"Tesla V100 (0)","k",3,"ipc","d",5%,0.7,0.6\n'
        '"Tesla V100 (0)","k",3\n'
    )
    found = run(NvprofCsv(), content)
    assert len(found.tables["counters"]) == 5
    assert sum(loss.count for loss in found.losses) == 4


@pytest.mark.parametrize(
    "content",
    [
        "==5== NVPROF is profiling process 5, command: ./a\n==5== Warning: No kernels were profiled.\n",
        "======== Error: Application received signal 139\n======== Profiling result:\n",
    ],
)
def test_a_run_without_kernels_is_refused_in_nvprofs_words(run: Run, content: str) -> None:
    with pytest.raises(ReadError, match=r"nvprof wrote: (Warning: No kernels|Error: Application received)"):
        run(NvprofCsv(), content)


# --- SQLite ---------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(_id_ INTEGER PRIMARY KEY, cacheConfig BLOB, registersPerThread INT,
    start INT, end INT, deviceId INT, contextId INT, streamId INT, gridX INT, gridY INT, gridZ INT, blockX INT,
    blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT, correlationId INT, gridId INT, name INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(_id_ INTEGER PRIMARY KEY, copyKind INT, bytes INT, start INT, end INT,
    deviceId INT, streamId INT, correlationId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(_id_ INTEGER PRIMARY KEY, bytes INT, start INT, end INT, deviceId INT,
    streamId INT, correlationId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(_id_ INTEGER PRIMARY KEY, cbid INT, start INT, end INT, processId INT,
    threadId INT, correlationId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER(_id_ INTEGER PRIMARY KEY, id INT, timestamp INT, name INT);
"""
KERNEL = "INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES(?,0,?,?,?,0,1,7,10,2,1,32,4,1,?,?,?,0,?)"
CALL = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(?,?,?,?,?,?,?)"


def database(path: Path, *, kernels: bool = True) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("INSERT INTO StringTable VALUES(5, 'void gemm<4>(float*)')")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES(1, 1, 10, 5)")
        if kernels:
            connection.execute(KERNEL, (1, 40, 1000, 1500, 1024, 16, 77, 5))
            connection.execute(KERNEL, (2, 40, 2000, 1900, 0, 0, 78, 5))  # ends before it begins
            connection.execute(KERNEL, (3, 40, 3000, 3100, 0, 0, 79, 6))  # its name points nowhere
            connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(1, 1, 4096, 200, 300, 0, 7, 70)")
            connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(1, 64, 400, 450, 0, 7, 71)")
            connection.execute(CALL, (1, 211, 900, 950, 42, 1, 77))
            connection.execute(CALL, (2, 13, 100, 150, 42, 1, 70))
        connection.commit()
    return path


def test_sqlite_files_give_kernels_copies_and_calls(run: Run, tmp_path: Path) -> None:
    found = run(NvprofSqlite(), database(tmp_path / "a.nvvp"))
    kernels = found.tables["kernels"].set_index("start_ns")
    assert sorted(kernels.index) == [200, 400, 1000, 3000]
    assert kernels.at[1000, "name"] == "void gemm<4>(float*)"
    assert kernels.at[1000, "duration_ns"] == 500
    assert kernels.at[1000, "shared_bytes"] == 1040
    assert kernels.at[1000, "registers"] == 40
    assert kernels.at[1000, "grid"].tolist() == [10, 2, 1]
    assert kernels.at[200, "name"] == "[CUDA memcpy HtoD]"
    assert kernels.at[200, "bytes"] == 4096
    assert kernels.at[400, "name"] == "[CUDA memset]"
    runtime = found.tables["runtime"]
    assert runtime["name"].tolist() == ["CUDA runtime call 13", "cudaLaunchKernel"]
    assert runtime["name"][kernels.at[1000, "launch"]] == "cudaLaunchKernel"
    lost = {loss.what: loss.count for loss in found.losses}
    assert lost["a marker"] == 1
    assert lost["the name of a kernel"] == 1
    assert lost["a row of table CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"] == 1


def test_a_sqlite_file_without_kernels_is_refused_and_says_what_it_holds(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="it holds CUPTI_ACTIVITY_KIND_MARKER only"):
        run(NvprofSqlite(), database(tmp_path / "a.nvvp", kernels=False))


def test_calls_of_several_processes_are_not_linked(run: Run, tmp_path: Path) -> None:
    path = database(tmp_path / "a.nvvp")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(CALL, (3, 211, 910, 960, 43, 1, 77))
        connection.commit()
    found = run(NvprofSqlite(), path)
    assert found.tables["kernels"]["launch"].isna().all()
    assert any("several processes" in note for note in found.notes)


@pytest.mark.parametrize("reader", [NvprofCsv(), NvprofSqlite()], ids=lambda reader: reader.name)
@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"a,b\n1,2\n",
        b"==1234== Memcheck, a memory error detector\n",
        b"==PROF== Connected\n",
        b'"ID","Kernel Name"\n',
    ],
)
def test_other_files_are_not_recognized(reader: Reader, other: bytes, tmp_path: Path) -> None:
    assert not reader.recognizes(Head(Source(tmp_path / "x", "x"), other))


# --- damage ---------------------------------------------------------------------------------------------------------

Edit = tuple[str, int, int, bytes]
KINDS = st.sampled_from(["cut", "drop", "put", "double"])
EDITS = st.lists(st.tuples(KINDS, st.integers(0, 1 << 16), st.integers(0, 300), st.binary(max_size=9)), max_size=6)


def damaged(content: bytes, edits: Sequence[Edit]) -> bytes:
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


def read_or_refuse(reader: Reader, content: bytes, folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(content)
    source, sink = Source(path, "file"), Sink("file", folder)
    try:
        reader.recognizes(Head(source, source.head()))
        reader.read(source, sink)
        sink.finish()
    except WcbenchError:
        sink.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, content=st.sampled_from([SUMMARY, TRACE, TRACE_TEXT, METRICS]))
def test_damaged_files_are_read_or_refused(
    edits: list[Edit], content: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    read_or_refuse(NvprofCsv(), damaged(content.encode(), edits), tmp_path_factory.mktemp("fuzz"))


@functools.cache
def sqlite_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return database(Path(folder) / "a.nvvp").read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_damaged_databases_are_read_or_refused(
    places: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(sqlite_bytes())
    for place, piece in places:
        at = place % len(content)
        content[at : at + len(piece)] = piece
    read_or_refuse(NvprofSqlite(), bytes(content), tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize(
    "content",
    [
        TRACE_TEXT.splitlines()[2] + "\n" + "1ms 2us " * 50_000,
        TRACE_TEXT.splitlines()[2] + "\n1ms 2us - - - - - - -" + " " * 200_000 + "x",
        TRACE_HEADER + '0,1,,,,,,,,,,1e400,,,,"' + "x" * 200_000,
        SUMMARY + '"GPU activities",1,1e308,99999999999999999999999,1,1,1,"k"\n',
        METRICS + '"d","k",3,"m","d",1e999,-1e999,nan\n',
        "[" * 100_000 + "\n" + METRICS,
        " " * 500_000 + "Time(%)",
    ],
    ids=range(7),
)
def test_absurd_files_neither_crash_nor_hang(content: str, tmp_path: Path) -> None:
    read_or_refuse(NvprofCsv(), content.encode(), tmp_path)
