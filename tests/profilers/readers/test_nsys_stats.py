"""CSV reports of nsys stats: sums of time by name, and the trace of the GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.nsys_stats import NsysStats

Run = Callable[..., Any]

KERNELS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000,3,2000.0,1900.0,1000,3100,858.3,"void gemm<float, 4>(float*, int)"
40.0,4000,8,500.0,500.0,400,600,70.0,reduce
"""
COPIES = """Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
90.0,900,2,450.0,450.0,400,500,70.7,[CUDA memcpy Host-to-Device]
10.0,100,1,100.0,100.0,100,100,0.0,[CUDA memset]
"""
SIZES = """Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
16.000,2,8.0,8.0,8.0,8.0,0.0,[CUDA memcpy Host-to-Device]
"""
CALLS = """Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
100.0,700,7,100.0,100.0,90,110,5.0,cudaLaunchKernel
"""
SYSTEM = CALLS.replace("cudaLaunchKernel", "poll")
RANGES = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
100.0,123456,2,61728.0,61728.0,60000,63456,2443.8,PushPop,:forward
"""
TRACE = """Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),\
Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1000,661398,123,,,,,,,,,,4.194,6337.593,Pinned,Device,NVIDIA H100 (1),1,,7,[CUDA memcpy Host-to-Device]
1700000000000000001,50,124,8,4,1,128,1,1,40,0.000,0.025,,,,,NVIDIA H100 (0),1,,13,"gemm<float, 4>(float*)"
5000,10,125,,,,,,,,,,0.001,1.0,,Device,NVIDIA H100 (1),1,,7,[CUDA memset]
"""


def titled(*reports: tuple[str, str]) -> str:
    """Reports after each other as the program prints them."""
    blocks = [
        f"Processing [x.sqlite] with [/opt/nsys/reports/{name}.py]... \n\n ** A Title (Of It) ({name}):\n\n{text}\n"
        for name, text in reports
    ]
    return "NOTICE: Existing SQLite export found: x.sqlite\n" + "".join(blocks)


def lost(result: Any) -> dict[str, int]:
    return {loss.why: loss.count for loss in result.losses}


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame[["kind", "name", "calls", "total_ns"]].itertuples(index=False, name=None))


def test_sums_of_kernels(run: Run) -> None:
    result = run(NsysStats(), KERNELS)
    totals = result.tables["totals"]
    assert rows(totals) == [("kernel", "void gemm<float, 4>(float*, int)", 3, 6000.0), ("kernel", "reduce", 8, 4000.0)]
    assert totals.loc[0, ["mean_ns", "median_ns", "minimum_ns", "maximum_ns", "deviation_ns"]].tolist() == [
        2000.0, 1900.0, 1000.0, 3100.0, 858.3,
    ]  # fmt: skip
    assert totals["device"].isna().all()
    assert result.passes["timeline"].device == "cuda"
    assert not result.losses


def test_several_reports_with_their_titles(run: Run) -> None:
    text = titled(
        ("cuda_api_sum", CALLS), ("osrt_sum", SYSTEM), ("cuda_gpu_kern_sum", KERNELS),
        ("cuda_gpu_mem_time_sum", COPIES), ("cuda_gpu_mem_size_sum", SIZES), ("nvtx_sum", RANGES),
    )  # fmt: skip
    result = run(NsysStats(), text)
    assert rows(result.tables["totals"]) == [
        ("runtime", "cudaLaunchKernel", 7, 700.0),
        ("kernel", "void gemm<float, 4>(float*, int)", 3, 6000.0),
        ("kernel", "reduce", 8, 4000.0),
        ("kernel", "Memcpy HtoD", 2, 900.0),
        ("kernel", "Memset", 1, 100.0),
        ("range", ":forward", 2, 123456.0),
    ]
    assert lost(result)["its report is not read"] == 1


def test_reports_without_titles_are_told_by_their_columns(run: Run) -> None:
    result = run(NsysStats(), "\n".join([SYSTEM + CALLS.splitlines()[1], COPIES, KERNELS, RANGES]))
    assert result.tables["totals"]["kind"].tolist() == ["runtime", *["kernel"] * 4, "range"]
    assert lost(result) == {"its report is not read": 1}


def test_a_report_that_repeats_another_does_not_count_twice(run: Run) -> None:
    both = "Time (%),Total Time (ns),Instances,Avg (ns),Category,Operation\n"
    both += "60.0,6000,3,2000.0,CUDA_KERNEL,gemm\n40.0,900,2,450.0,MEMORY_OPER,[CUDA memcpy HtoD]\n"
    result = run(NsysStats(), titled(("cuda_gpu_kern_sum", KERNELS), ("cuda_gpu_sum", both)))
    totals = result.tables["totals"]
    assert totals.loc[totals["name"] == "gemm"].empty
    assert totals["total_ns"].sum() == 6000 + 4000 + 900
    assert lost(result)["another report of the file has what its report holds"] == 1


@pytest.mark.parametrize(("unit", "scale"), [("ns", 1), ("us", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_units_of_the_header(run: Run, unit: str, scale: float) -> None:
    totals = run(NsysStats(), KERNELS.replace("(ns)", f"({unit})")).tables["totals"]
    assert totals["total_ns"].tolist() == pytest.approx([6000 * scale, 4000 * scale])


def test_an_unknown_unit_is_no_zero(run: Run) -> None:
    with pytest.raises(ReadError, match="holds no rows"):
        run(NsysStats(), KERNELS.replace("(ns)", "(fortnights)"))


def test_columns_that_contradict_each_other_are_not_believed(run: Run) -> None:
    header = KERNELS.splitlines()[0]
    text = f"{header}\n50,1000,4,250.0,240.0,100,0.4,1.0,a\n30,1000,4,0.25,240.0,100,400,900.0,b\n"
    text += "20,1000000,4,250.0,240.0,100,400,1.0,c\n"
    result = run(NsysStats(), text)
    totals = result.tables["totals"].set_index("name")
    assert totals.index.tolist() == ["a", "b"]
    assert totals["total_ns"].tolist() == [1000.0, 1000.0]
    assert pd.isna(totals.loc["a", "maximum_ns"])
    assert totals.loc["a", "mean_ns"] == 250.0
    assert pd.isna(totals.loc["b", "mean_ns"])
    assert pd.isna(totals.loc["b", "deviation_ns"])
    assert totals.loc["b", ["minimum_ns", "maximum_ns"]].tolist() == [100.0, 400.0]
    assert {loss.what: loss.count for loss in result.losses} == {
        "the greatest time of a row": 1, "the mean time of a row": 1, "the deviation time of a row": 1, "a row": 1,
    }  # fmt: skip


def test_numbers_with_groups_and_a_name_with_commas_without_quotes(run: Run) -> None:
    text = (
        KERNELS.splitlines()[0]
        + '\n60.0,"1,234,567",3,"411,522.3","411,522.0",1,"900,000",1.0,gemm<float, 4>(float*, int)\n'
    )
    totals = run(NsysStats(), text).tables["totals"]
    assert totals.loc[0, ["total_ns", "mean_ns", "maximum_ns"]].tolist() == [1234567.0, 411522.3, 900000.0]
    assert totals["name"].tolist() == ["gemm<float, 4>(float*, int)"]


def test_a_decimal_comma(run: Run) -> None:
    text = KERNELS.splitlines()[0] + '\n"60,0","1.234.567",3,"411.522,3","411.522,0",1,"900.000","1,0",gemm\n'
    totals = run(NsysStats(), text).tables["totals"]
    assert totals.loc[0, ["total_ns", "mean_ns", "maximum_ns"]].tolist() == [1234567.0, 411522.3, 900000.0]


def test_headers_of_old_versions(run: Run) -> None:
    text = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n100.0,500,5,100.0,90,110,gemm\n"
    totals = run(NsysStats(), text).tables["totals"]
    assert totals.loc[0, ["total_ns", "mean_ns", "minimum_ns", "maximum_ns"]].tolist() == [500, 100, 90, 110]
    assert totals["median_ns"].isna().all()


def test_the_trace_of_the_gpu(run: Run) -> None:
    result = run(NsysStats(), titled(("cuda_gpu_trace", TRACE)))
    found = result.tables["kernels"].set_index("name")
    copy, gemm = found.loc["Memcpy HtoD (Pinned -> Device)"], found.loc["gemm<float, 4>(float*)"]
    assert (copy["start_ns"], copy["duration_ns"], copy["device"], copy["stream"]) == (1000, 661398, "cuda:1", 7)
    assert copy["bytes"] == 4194000  # of 4.194 MB
    assert (gemm["start_ns"], gemm["duration_ns"], gemm["device"]) == (1700000000000000001, 50, "cuda:0")
    assert (gemm["grid"].tolist(), gemm["block"].tolist(), gemm["registers"]) == ([8, 4, 1], [128, 1, 1], 40)
    assert pd.isna(gemm["shared_bytes"])  # 0.025 MB may be 24,500 bytes as well as 25,499
    assert pd.isna(found.loc["Memset (Device)", "bytes"])
    assert any("rounded" in note for note in result.notes)


def test_devices_without_a_number(run: Run) -> None:
    result = run(NsysStats(), TRACE.replace(" (1)", "").replace("NVIDIA H100 (0)", "NVIDIA L4"))
    assert sorted(set(result.tables["kernels"]["device"])) == ["cuda:0", "cuda:1"]
    assert any("numbered as they come" in note for note in result.notes)


def test_damaged_rows_are_skipped(run: Run) -> None:
    bad = ["50.0,-5,1,1,1,1,1,1,a", "50.0,x,1,1,1,1,1,1,b", "1,2", "50.0,5,0,1,1,1,1,1,c", "50.0,5,1e400,1,1,1,1,1,d"]
    bad += ["50.0,5,1,1,1,1,1,1,", "50.0,nan,1,1,1,1,1,1,e", '50.0,5,1,1,1,1,1,1,"' + "x" * 200_000]
    result = run(NsysStats(), KERNELS + "\n".join(bad) + "\n")
    assert len(result.tables["totals"]) == 2
    assert sum(loss.count for loss in result.losses) == len(bad)


def test_headers_only(run: Run) -> None:
    with pytest.raises(ReadError, match="holds no rows of a report"):
        run(NsysStats(), KERNELS.splitlines()[0])


@pytest.mark.parametrize(
    "text",
    [
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,ms,\n',
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n',
        "App Time (%),API Time (%),Total Time (ns),Instances,Avg (ns),Name\n",
        SIZES,
        "",
    ],
)
def test_reports_of_other_tools_are_not_taken(tmp_path: Any, text: str) -> None:
    path = tmp_path / "f"
    path.write_text(text)
    source = Source(path, "f")
    assert not NsysStats().recognizes(Head(source, source.head()))


WHOLE = titled(("cuda_gpu_kern_sum", KERNELS), ("cuda_gpu_mem_time_sum", COPIES), ("cuda_gpu_trace", TRACE))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=4)), max_size=8),
    cut=st.integers(0, 3000),
)
def test_any_damage_ends_in_rows_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(WHOLE.encode())
    for place, value in changes:
        at = place % len(data)
        data[at : at + len(value)] = value
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "f"
    path.write_bytes(data[:cut] if cut < len(data) else data)
    source = Source(path, "f")
    with contextlib.suppress(WcbenchError):  # the head alone may be that of a compressed file
        if not NsysStats().recognizes(Head(source, source.head())):
            return
        sink = Sink("f", folder)
        with contextlib.suppress(WcbenchError):
            NsysStats().read(source, sink)
            sink.finish()
        sink.close()
