"""SQLite exports of Nsight Systems, and the CSV of nsys stats."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.kernels import classify
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.nsys import NsysSqlite
from wcbench.profilers.readers.nsys_rows import copy_name, fill_name
from wcbench.profilers.readers.nsys_trace import operation
from wcbench.profilers.readers.nvtx import parse

Run = Callable[..., Any]

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
    blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,
    graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
    start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
    start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, syncType INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (
    start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, textId INTEGER,
    domainId INTEGER);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2024.5.1'), ('EXPORT_SCHEMA_VERSION', '3.16.0');
CREATE TABLE TARGET_INFO_GPU (
    id INTEGER, name TEXT, busLocation TEXT, totalMemory INTEGER, computeMajor INTEGER, computeMinor INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', '0000:01:00.0', 85899345920, 9, 0);
"""
TEXTS = {
    1: "void gemm<float>(float*)", 2: "gemm", 3: "cudaLaunchKernel_v7000", 4: "cudaMemcpyAsync_v3020",
    5: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 6: "aten::mm, seq = 4, op_id = 9",
}  # fmt: skip
TABLES = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL", "copy": "CUPTI_ACTIVITY_KIND_MEMCPY", "fill": "CUPTI_ACTIVITY_KIND_MEMSET",
    "call": "CUPTI_ACTIVITY_KIND_RUNTIME", "sync": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "graph": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "nvtx": "NVTX_EVENTS",
}  # fmt: skip
PID, TID = 100, 101


def gpid(pid: int = PID) -> int:
    return (1 << 48) | (pid << 24)


def gtid(pid: int = PID, tid: int = TID) -> int:
    return gpid(pid) | tid


def kernel(start: int, end: int, correlation: int, **other: Any) -> tuple[Any, ...]:
    values = {"device": 0, "stream": 7, "pid": PID, "name": 1, "node": None, "context": 1, **other}
    who = (values["device"], values["context"], values["stream"], correlation, gpid(values["pid"]), values["name"], 2)
    return (start, end, *who, 40, 8, 4, 2, 128, 2, 1, 1024, 512, values["node"])


STEP: dict[str, list[tuple[Any, ...]]] = {
    "kernel": [kernel(1500, 2500, 11), kernel(4500, 4900, 12)],
    "copy": [(5000, 5600, 0, 7, 13, gpid(), 4096, 1, 0, 2)],
    "fill": [(5700, 5800, 0, 7, 14, gpid(), 256, 2)],
    "call": [
        (1100, 1200, 0, gtid(), 11, 3), (4100, 4200, 0, gtid(), 12, 3), (4300, 4400, 0, gtid(), 13, 4),
        (4410, 4420, 0, gtid(), 14, 999),
    ],
    "sync": [(1, 2, 0, 3), (3, 9, 0, 3)],
    "nvtx": [
        (1000, 3000, 59, "step 0", gtid(), None, 0), (4000, 6000, 59, "step 1", gtid(), None, 0),
        (1050, 1300, 59, None, gtid(), 6, 0), (4010, 4020, 59, "weights of layer 3", gtid(), None, 0),
        (4011, None, 34, "a mark", gtid(), None, 0), (4011, None, 59, "never closed", gtid(), None, 0),
        (0, None, 75, "NCCL", gtid(), None, 1),
    ],
}  # fmt: skip


def export(path: Path, rows: dict[str, list[tuple[Any, ...]]], *script: str, schema: str = SCHEMA) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", TEXTS.items())
        for name, values in rows.items():
            if values:
                connection.executemany(f"INSERT INTO {TABLES[name]} VALUES ({','.join('?' * len(values[0]))})", values)
        for statement in script:
            connection.executescript(statement)
        connection.commit()
    return path


def close(sink: Sink) -> None:
    """What a refused file leaves open."""
    sink.close()
    if sink._timeline is not None:
        sink._timeline._stages.close()


def told(result: Any) -> dict[tuple[str, str], tuple[int, bool]]:
    return {(loss.what, loss.why): (loss.count, loss.repaired) for loss in result.losses}


def plain(frame: pd.DataFrame, *names: str) -> list[Any]:
    rows = frame[list(names)].astype(object).where(frame[list(names)].notna(), None).to_numpy().tolist()
    return [row[0] if len(names) == 1 else tuple(row) for row in rows]


def test_kernels_copies_and_fills(run: Run, tmp_path: Path) -> None:
    result = run(NsysSqlite(), export(tmp_path / "f", STEP))
    kernels = result.tables["kernels"].sort_values("start_ns")
    assert plain(kernels, "name", "start_ns", "duration_ns", "device", "stream") == [
        ("void gemm<float>(float*)", 1500, 1000, "cuda:0", 7),
        ("void gemm<float>(float*)", 4500, 400, "cuda:0", 7),
        ("Memcpy HtoD (Pageable -> Device)", 5000, 600, "cuda:0", 7),
        ("Memset (Device)", 5700, 100, "cuda:0", 7),
    ]
    assert plain(kernels, "bytes") == [None, None, 4096, 256]
    assert plain(kernels, "registers", "shared_bytes")[:2] == [(40, 1536), (40, 1536)]
    assert [list(sizes) for sizes in kernels["grid"][:2]] == [[8, 4, 2]] * 2
    assert [list(sizes) for sizes in kernels["block"][:2]] == [[128, 2, 1]] * 2
    assert set(kernels["rank"]) == {0}
    assert set(kernels["pass"]) == {"timeline"}


def test_a_compressed_export(run: Run, tmp_path: Path) -> None:
    plain_file = export(tmp_path / "f", STEP)
    packed = tmp_path / "f.sqlite.gz"
    packed.write_bytes(gzip.compress(plain_file.read_bytes()))
    result = run(NsysSqlite(), packed)
    assert result.tables["kernels"]["duration_ns"].sum() == 1000 + 400 + 600 + 100


def test_ranges_that_cannot_be_used_are_told(run: Run, tmp_path: Path) -> None:
    ranges = [(10, 20, 59, "x" * 300, gtid(), None, 0), (10, 20, 60, None, gtid(), None, 0)]
    result = run(NsysSqlite(), export(tmp_path / "f", {"kernel": [kernel(10, 20, 5)], "nvtx": ranges}))
    assert told(result)["a range", "its text is too long for a step or an operator"] == (1, False)
    assert told(result)["a range", "it has no text"] == (1, False)


def test_launches_operators_and_steps_are_found(run: Run, tmp_path: Path) -> None:
    result = run(NsysSqlite(), export(tmp_path / "f", STEP))
    kernels, runtime = result.tables["kernels"].sort_values("start_ns"), result.tables["runtime"]
    assert runtime["name"].tolist() == [
        "cudaLaunchKernel",
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "(a call without a name)",
    ]
    assert runtime["thread"].tolist() == [TID] * 4
    assert [runtime["correlation"][int(row)] for row in kernels["launch"]] == [11, 12, 13, 14]
    assert plain(kernels, "op")[0] == "aten::mm"
    assert plain(kernels, "step") == [0, 1, 1, 1]
    assert plain(result.tables["ops"], "name", "start_ns", "duration_ns", "thread") == [("aten::mm", 1050, 250, TID)]
    assert result.tables["steps"]["duration_ns"].tolist() == [2000, 2000]


def test_what_is_left_out_is_told(run: Run, tmp_path: Path) -> None:
    result = run(NsysSqlite(), export(tmp_path / "f", STEP))
    losses = told(result)
    assert losses["a synchronization record", "it is waiting, no work of the device"] == (2, False)
    assert losses["an NVTX mark", "it has no duration"] == (1, False)
    assert losses["an NVTX range", "it was not closed, or is of another kind"] == (1, False)
    assert losses["the name of a call", "its id points nowhere"] == (1, True)
    assert any("1 ranges that tell neither" in note for note in result.notes)


def test_the_machine_and_the_time_span(run: Run, tmp_path: Path) -> None:
    result = run(NsysSqlite(), export(tmp_path / "f", STEP))
    assert result.sink.facts["gpus"] == [
        {
            "index": 0,
            "name": "NVIDIA H100",
            "memory_bytes": 85899345920,
            "pci": "0000:01:00.0",
            "compute_capability": "9.0",
        }
    ]
    assert result.passes["timeline"].seconds == pytest.approx((5800 - 1100) / 1e9)
    assert result.passes["timeline"].settings == {"nsys": "2024.5.1", "schema": "3.16.0"}


def test_an_old_export_with_few_columns(run: Run, tmp_path: Path) -> None:
    schema = """
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, shortName INT);
    """
    path = export(tmp_path / "f", {"kernel": [(10, 30, 2, 5, 2)]}, schema=schema)
    kernels = run(NsysSqlite(), path).tables["kernels"]
    assert plain(kernels, "name", "duration_ns", "device", "grid", "registers", "launch") == [
        ("gemm", 20, "cuda:2", None, None, None)
    ]


def test_names_that_point_nowhere_fall_back_or_are_told(run: Run, tmp_path: Path) -> None:
    rows = {"kernel": [kernel(10, 30, 1, name=777), (40, 45, 0, 1, 7, 1, gpid(), 777, 778, *[1] * 9, None)]}
    result = run(NsysSqlite(), export(tmp_path / "f", rows))
    assert plain(result.tables["kernels"], "name", "duration_ns") == [("gemm", 20), ("(a kernel without a name)", 5)]
    assert told(result)["the name of a kernel", "its id points nowhere"] == (1, True)


def test_rows_without_sense_are_skipped(run: Run, tmp_path: Path) -> None:
    bad = [kernel(0, 0, 1), kernel(50, 40, 2), kernel(-5, 40, 3), kernel(1, 2**63 - 1, 4), kernel("soon", 5, 5)]  # type: ignore[arg-type]
    result = run(NsysSqlite(), export(tmp_path / "f", {"kernel": [*bad, kernel(10, 11, 6)]}))
    assert plain(result.tables["kernels"], "start_ns", "duration_ns") == [(10, 1)]
    assert sorted(count for count, _ in told(result).values()) == [1, 1, 3]


def test_two_processes_are_ranks_with_links_of_their_own(run: Run, tmp_path: Path) -> None:
    """The same correlation id and stream in both; the one on device 0 has the greater process id."""
    rows = {
        "kernel": [kernel(10, 20, 5, device=1, pid=200, name=5), kernel(10, 25, 5, device=0, pid=300, name=5)],
        "call": [(1, 2, 0, gtid(200, 7), 5, 3), (3, 4, 0, gtid(300, 8), 5, 4)],
    }
    result = run(NsysSqlite(), export(tmp_path / "f", rows))
    kernels, runtime = result.tables["kernels"], result.tables["runtime"]
    assert sorted(plain(kernels, "rank", "device", "duration_ns", "collective")) == [
        (0, "cuda:0", 15, "AllReduce"), (1, "cuda:1", 10, "AllReduce"),
    ]  # fmt: skip
    launches = {row.device: runtime["name"][int(row.launch)] for row in kernels.itertuples()}
    assert launches == {"cuda:0": "cudaMemcpyAsync", "cuda:1": "cudaLaunchKernel"}
    assert result.sink.own_ranks
    assert any("not their ranks" in note for note in result.notes)


@pytest.mark.parametrize(
    "skipped",
    [
        {"kernel": [kernel(100, 50, 5, pid=1), kernel(0, 0, 6, pid=2), kernel(-9, (1 << 63) - 1, 7, pid=3)]},
        {"copy": [(10, 20, 0, 7, 5, gpid(1), 64, None, 0, 2)]},  # of no kind
        {"kernel": [kernel(10, 20, 5, node=4)], "graph": [(10, 30, 0, 7, 5, gpid(1))]},  # its kernels are there
    ],
)
def test_rows_that_are_skipped_are_of_no_process(run: Run, tmp_path: Path, skipped: dict[str, list[Any]]) -> None:
    rows = {**skipped, "kernel": [*skipped.get("kernel", []), kernel(1500, 2500, 11)]}
    result = run(NsysSqlite(), export(tmp_path / "f", rows))
    assert not result.sink.own_ranks
    assert set(result.tables["kernels"]["rank"]) == {0}
    assert not any("processes" in note for note in result.notes)


@pytest.mark.parametrize(("told_ranks", "expected"), [([(200, 6), (300, 4)], [4, 6]), ([(200, 6)], [0, 1])])
def test_ranks_of_mpi_where_all_are_told(
    run: Run, tmp_path: Path, told_ranks: Sequence[tuple[int, int]], expected: list[int]
) -> None:
    rows = {"kernel": [kernel(10, 20, 5, pid=200), kernel(10, 25, 5, device=1, pid=300)]}
    values = ", ".join(f"({gtid(pid)}, {rank})" for pid, rank in told_ranks)
    script = f"CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER); INSERT INTO MPI_RANKS VALUES {values};"
    result = run(NsysSqlite(), export(tmp_path / "f", rows, script))
    assert sorted(result.tables["kernels"]["rank"]) == expected


def test_the_rank_of_one_process(run: Run, tmp_path: Path) -> None:
    script = f"CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER); INSERT INTO MPI_RANKS VALUES ({gtid()}, 3);"
    result = run(NsysSqlite(), export(tmp_path / "f", STEP, script))
    assert (result.sink.rank, result.sink.own_ranks) == (3, False)


def test_launches_of_graphs_recorded_whole(run: Run, tmp_path: Path) -> None:
    rows = {"kernel": [kernel(10, 20, 5)], "graph": [(30, 90, 0, 7, 6, gpid()), (100, 130, 0, 7, 7, gpid())]}
    result = run(NsysSqlite(), export(tmp_path / "f", rows))
    kernels = result.tables["kernels"]
    graphs = kernels[kernels["name"].str.startswith("CUDA graph")]
    assert graphs["duration_ns"].tolist() == [60, 30]
    assert classify(graphs["name"].iloc[0]).full == "unknown"
    assert any("cuda-graph-trace=node" in note for note in result.notes)


def test_a_graph_whose_kernels_are_there_does_not_count_twice(run: Run, tmp_path: Path) -> None:
    rows = {"kernel": [kernel(10, 20, 5, node=3)], "graph": [(10, 20, 0, 7, 5, gpid())]}
    result = run(NsysSqlite(), export(tmp_path / "f", rows))
    assert len(result.tables["kernels"]) == 1
    assert told(result)["a launch of a CUDA graph", "its kernels are there"] == (1, False)


def test_a_view_in_place_of_a_table_is_not_run(run: Run, tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    view = f"""
    DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;
    CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS {endless} SELECT i AS start, i AS end, 0 AS deviceId, 0 AS streamId,
    1 AS copyKind FROM n;
    """
    result = run(NsysSqlite(), export(tmp_path / "f", {"kernel": [kernel(10, 20, 5)]}, view))
    assert len(result.tables["kernels"]) == 1


def test_a_table_of_an_unknown_form_costs_only_itself(run: Run, tmp_path: Path) -> None:
    script = "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end)"
    result = run(NsysSqlite(), export(tmp_path / "f", {"kernel": [kernel(10, 20, 5)]}, script))
    assert len(result.tables["kernels"]) == 1
    assert any(what == "table CUPTI_ACTIVITY_KIND_MEMCPY" for what, _ in told(result))


def test_an_export_without_work_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="holds no kernels, copies, calls of CUDA or NVTX ranges"):
        run(NsysSqlite(), export(tmp_path / "f", {"sync": [(1, 2, 0, 3)]}))


def test_an_export_of_the_host_only(run: Run, tmp_path: Path) -> None:
    result = run(NsysSqlite(), export(tmp_path / "f", {"call": [(1, 2, 0, gtid(), 5, 3)]}))
    assert len(result.tables["runtime"]) == 1
    assert any("no work of a device" in note for note in result.notes)


def test_texts_of_ranges() -> None:
    assert parse("aten::addmm, seq = 12, op_id = 34, sizes = [[2, 3], []]") == ("aten::addmm", 12, True)
    assert parse("AddmmBackward0, seq = 12, op_id = 35") == ("AddmmBackward0", 12, True)
    assert parse("torch::autograd::AccumulateGrad, op_id = 7") == ("torch::autograd::AccumulateGrad", -1, True)
    assert parse("autograd::engine::evaluate_function: MmBackward0") == (
        "autograd::engine::evaluate_function: MmBackward0", -1, True,
    )  # fmt: skip
    assert parse("Optimizer.step#SGD.step, op_id = 90") == ("Optimizer.step#SGD.step", -1, False)
    assert parse("cub::DeviceReduce::Sum") == ("cub::DeviceReduce::Sum", -1, False)
    assert parse("iteration 7") == ("iteration 7", -1, False)
    assert parse("aten::mm, seq = " + "9" * 50) == ("aten::mm", -1, True)


def test_copies_and_fills_are_named_as_kineto_does() -> None:
    assert copy_name(2, 2, 1) == "Memcpy DtoH (Device -> Pinned)"
    assert copy_name(8, 2, 2) == "Memcpy DtoD (Device -> Device)"
    assert copy_name(10, -1, -1) == "Memcpy PtoP"
    assert copy_name(11, 0, 2) == "Memcpy HtoD (unified memory)"
    assert copy_name(99, 77, 2) == copy_name(0, -1, -1) == "Memcpy"
    assert [fill_name(2), fill_name(-1), fill_name(0)] == ["Memset (Device)", "Memset (Unknown)", "Memset (Pageable)"]
    for name in (copy_name(2, 2, 1), copy_name(99, 0, 0), copy_name(11, 0, 2), fill_name(2)):
        assert classify(name).full == "memory copy"
    assert operation("[CUDA memcpy HtoD]") == "Memcpy HtoD"
    assert operation("[CUDA memcpy Device-to-Device]", "Device", "Device") == "Memcpy DtoD (Device -> Device)"
    assert operation("[CUDA memset]") == "Memset"
    assert operation("[CUDA Unified Memory memcpy HtoD]") == "Memcpy HtoD (unified memory)"
    assert operation("gemm") is None


def test_the_real_export_against_pandas(run: Run, shared: Path) -> None:
    """DDP training on two GPUs: counts, time and longest kernels by an independent way."""
    path = shared / "traces" / "nsys" / "lizhieffe_ddp53_scrubbed.sqlite"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        frames = [
            pd.read_sql(f"SELECT *, end - start AS ns FROM CUPTI_ACTIVITY_KIND_{kind}", connection)
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
        ]
        texts = pd.read_sql("SELECT * FROM StringIds", connection).set_index("id")["value"]
        calls = pd.read_sql("SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME", connection)
    expected = frames[0].assign(name=frames[0]["demangledName"].map(texts))
    result = run(NsysSqlite(), path)
    found = result.tables["kernels"]
    assert len(found) == 4652 + 330 + 30 == sum(map(len, frames))
    assert found["duration_ns"].sum() == sum(frame["ns"].sum() for frame in frames)
    for rank in (0, 1):  # the ranks are the devices here
        mine = found[found["rank"] == rank]
        assert set(mine["device"]) == {f"cuda:{rank}"}
        assert mine["duration_ns"].sum() == sum(f.loc[f["deviceId"] == rank, "ns"].sum() for f in frames)
    kernels = found[~found["name"].str.startswith("Mem")]
    assert len(kernels) == 4652
    top = kernels.groupby("name", observed=True)["duration_ns"].sum().nlargest(5)
    want = expected.groupby("name")["ns"].sum().nlargest(5)
    assert dict(zip(top.index.astype(str), top, strict=True)) == want.to_dict()
    # the manifest says 450: without the ten all-reduces of u64
    assert kernels["name"].str.startswith("nccl").sum() == 460 == expected["name"].str.startswith("nccl").sum()
    assert kernels["collective"].value_counts().to_dict() == {
        "AllReduce": expected["name"].str.contains("AllReduce").sum(),
        "Broadcast": expected["name"].str.contains("Broadcast").sum(),
    }
    assert len(result.tables["runtime"]) == len(calls) == 24203
    runtime = result.tables["runtime"]
    launched = kernels.dropna(subset=["launch"])
    assert len(launched) == 4652
    key = expected.assign(rank=expected["deviceId"]).set_index(["rank", "start", "streamId"])["correlationId"]
    for row in launched.iloc[::97].itertuples():
        assert runtime["correlation"][int(row.launch)] == key.loc[(row.rank, row.start_ns, row.stream)]
    assert told(result)["a synchronization record", "it is waiting, no work of the device"] == (3242, False)
    first = min(calls["start"].min(), *(f["start"].min() for f in frames))
    last = max(calls["end"].max(), *(f["end"].max() for f in frames))
    assert result.passes["timeline"].seconds == pytest.approx((last - first) / 1e9)


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("seed") / "f", STEP)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=4)), max_size=8),
    cut=st.sampled_from([0, 0, 0, 1, 4096, 20_000]),
)
def test_any_damage_ends_in_rows_or_an_error_of_ours(
    seed: Path, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(seed.read_bytes())
    for place, value in changes:
        at = place % (len(data) - 4)
        data[at : at + len(value)] = value
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "f"
    path.write_bytes(data[: len(data) - cut])
    source = Source(path, "f")
    reader = NsysSqlite()
    with contextlib.suppress(WcbenchError):  # the head alone may be that of a compressed file
        if not reader.recognizes(Head(source, source.head())):
            return
        sink = Sink("f", folder)
        try:
            reader.read(source, sink)
            sink.finish()
        except WcbenchError:
            close(sink)
