"""rocpd files: three forms of the schema that rocprofiler-sdk had, built here."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.kernels import classify
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.rocpd import Rocpd
from wcbench.profilers.readers.rocpd_parts import copy_name, parts_of

Run = Callable[..., Any]

GUID = "_00000a3b_1111_7222_8333_444455556666"
FORMS = ("inline", "tracks", "timestamps")
_WHO = "pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER"
PLACES = {
    "inline": f"{_WHO}, start BIGINT, end BIGINT",
    "tracks": "track_id INTEGER, start BIGINT, end BIGINT",
    "timestamps": "track_id INTEGER, start_id INTEGER, end_id INTEGER",
}
STRINGS = ("HIP_RUNTIME_API", "KERNEL_DISPATCH", "hipLaunchKernel", "MEMORY_COPY_HOST_TO_DEVICE", "MARKER_CORE_API",
           "roctxRangePushA", "RCCL_API", "ncclAllReduce", "MEMORY_COPY")  # fmt: skip


class Builder:
    """Writes a file of one of the forms, table by table."""

    def __init__(self, path: Path, form: str, guid: str = GUID) -> None:
        self.form, self.guid = form, guid
        self.db = sqlite3.connect(path)
        self.tracks: dict[tuple[int, ...], int] = {}
        self.rows = dict.fromkeys(("event", "timestamp", "kernel_dispatch", "memory_copy", "region", "pmc_event"), 0)
        axes = ", ".join(f"{what}_size_{axis} INTEGER" for what in ("workgroup", "grid") for axis in "xyz")
        place = PLACES[form]
        tables = {
            "string": "string TEXT", "timestamp": "value BIGINT", "info_category": "name TEXT",
            "info_process": "pid INTEGER, environment TEXT",
            "info_agent": "type TEXT, type_index INTEGER, logical_index INTEGER, name TEXT, product_name TEXT",
            "info_kernel_symbol": "kernel_name TEXT, display_name TEXT, arch_vgpr_count INTEGER, "
            "accum_vgpr_count INTEGER, extdata TEXT",
            "track": _WHO,
            "event": "category_id INTEGER, stack_id INTEGER, correlation_id INTEGER, extdata TEXT",
            "kernel_dispatch": f"{place}, kernel_id INTEGER, group_segment_size INTEGER, event_id INTEGER, {axes}",
            "memory_copy": f"{place}, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, "
            "event_id INTEGER",
            "region": f"{place}, name_id INTEGER, event_id INTEGER",
            "info_pmc": "name TEXT, symbol TEXT", "pmc_event": "event_id INTEGER, pmc_id INTEGER, value REAL",
        }  # fmt: skip
        if form == "inline":
            del tables["info_category"], tables["timestamp"]
        for name, columns in tables.items():
            self.db.execute(f'CREATE TABLE "rocpd_{name}{guid}" (id INTEGER PRIMARY KEY, guid TEXT, {columns})')
            self.db.execute(f'CREATE VIEW IF NOT EXISTS "rocpd_{name}" AS SELECT * FROM "rocpd_{name}{guid}"')
        self.common()

    def insert(self, table: str, row: dict[str, Any]) -> None:
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        self.db.execute(f'INSERT INTO "rocpd_{table}{self.guid}" ({names}) VALUES ({marks})', tuple(row.values()))

    def common(self) -> None:
        for number, text in enumerate(STRINGS, 1):
            self.insert("string", {"id": number, "string": text})
            if self.form != "inline":
                self.insert("info_category", {"id": number, "name": text})
        self.insert("info_agent", {"id": 0, "type": "CPU", "type_index": 0, "name": "EPYC"})
        gpu = {"type": "GPU", "type_index": 0, "logical_index": 1, "product_name": "AMD Instinct MI300X"}
        self.insert("info_agent", {"id": 4, **gpu})
        self.insert("info_agent", {"id": 5, **gpu, "type_index": 1})
        demangled = {"demangled_kernel_name": "gemm<float>(float*) [clone .kd]"}
        symbol = {"kernel_name": "_Z4gemm.kd", "display_name": "gemm", "arch_vgpr_count": 96, "accum_vgpr_count": 4}
        self.insert("info_kernel_symbol", {"id": 7, **symbol, "extdata": json.dumps(demangled)})
        self.insert("info_kernel_symbol", {"id": 8, "kernel_name": "fill.kd", "extdata": "{not json"})

    def next(self, table: str) -> int:
        self.rows[table] += 1
        return self.rows[table]

    def event(self, category: int, stack: int, extdata: str = "{}") -> int:
        number = self.next("event")
        self.insert("event", {"id": number, "category_id": category, "stack_id": stack, "extdata": extdata})
        return number

    def place(self, start: int, end: int, pid: int, tid: int, agent: int | None) -> dict[str, Any]:
        who = {"pid": pid, "tid": tid, "agent_id": agent, "queue_id": 2, "stream_id": 3}
        if self.form == "inline":
            return {**who, "start": start, "end": end}
        key = (pid, tid, agent or 0)
        if key not in self.tracks:
            self.tracks[key] = len(self.tracks) + 1
            self.insert("track", {"id": self.tracks[key], **who})
        if self.form == "tracks":
            return {"track_id": self.tracks[key], "start": start, "end": end}
        ids = {}
        for name, value in (("start_id", start), ("end_id", end)):
            ids[name] = self.next("timestamp")
            self.insert("timestamp", {"id": ids[name], "value": value})
        return {"track_id": self.tracks[key], **ids}

    def kernel(self, start: int, end: int, stack: int, *, kernel: int = 7, agent: int = 4, pid: int = 50) -> int:
        event = self.event(2, stack)
        size = {"workgroup_size_x": 64, "workgroup_size_y": 2, "workgroup_size_z": 1}
        size |= {"grid_size_x": 640, "grid_size_y": 7, "grid_size_z": 1}
        row = {"kernel_id": kernel, "group_segment_size": 2048, "event_id": event, **size}
        self.insert("kernel_dispatch", {**self.place(start, end, pid, 51, agent), **row})
        return event

    def copy(self, start: int, end: int, stack: int, *, pid: int = 50) -> None:
        row = {"name_id": 4, "dst_agent_id": 5, "src_agent_id": 0, "size": 4096, "event_id": self.event(9, stack)}
        self.insert("memory_copy", {**self.place(start, end, pid, 51, None), **row})

    def region(self, span: tuple[int, int], name: int, category: int, stack: int, extdata: str = "{}") -> None:
        row = {"name_id": name, "event_id": self.event(category, stack, extdata)}
        self.insert("region", {**self.place(*span, 50, 51, None), **row})

    def done(self) -> None:
        self.db.commit()
        self.db.close()


def build(path: Path, form: str = "tracks") -> Path:
    made = Builder(path, form)
    made.region((900, 5000), 6, 5, 1, json.dumps({"message": "step 0"}))
    made.region((1000, 1100), 3, 1, 2)
    made.region((1200, 1300), 8, 7, 3)
    made.kernel(2000, 2600, 2)
    made.copy(3000, 3400, 9)
    made.done()
    return path


def plain(frame: pd.DataFrame, *names: str) -> list[Any]:
    return frame[list(names)].astype(object).where(frame[list(names)].notna(), None).to_numpy().tolist()


@pytest.mark.parametrize("form", FORMS)
def test_the_three_forms_read_alike(run: Run, tmp_path: Path, form: str) -> None:
    result = run(Rocpd(), build(tmp_path / "f", form))
    kernels = result.tables["kernels"].sort_values("start_ns")
    assert plain(kernels, "name", "start_ns", "duration_ns", "device", "bytes", "step") == [
        ["gemm<float>(float*)", 2000, 600, "cuda:0", None, 0],
        ["Memcpy HtoD (Host -> Device)", 3000, 400, "cuda:1", 4096, None],  # its launch is not in the file
    ]
    first = kernels.iloc[0]
    assert first["grid"].tolist() == [10, 4, 1]  # 640 / 64; 7 work-items in groups of 2
    assert first["block"].tolist() == [64, 2, 1]
    assert (first["registers"], first["shared_bytes"], first["stream"]) == (100, 2048, 3)
    runtime = result.tables["runtime"]
    assert plain(runtime, "name", "thread", "start_ns", "duration_ns", "correlation") == [
        ["hipLaunchKernel", 51, 1000, 100, 2]
    ]
    assert [None if pd.isna(row) else int(row) for row in kernels["launch"]] == [0, None]
    assert result.tables["steps"]["duration_ns"].tolist() == [4100]
    assert result.sink.facts["gpus"] == [
        {"index": 0, "name": "AMD Instinct MI300X"}, {"index": 1, "name": "AMD Instinct MI300X"},
    ]  # fmt: skip
    told = {(loss.what, loss.why): loss.count for loss in result.losses}
    assert told == {("a region", "it is neither a call of HIP or HSA nor a marker"): 1}
    assert result.passes["timeline"].seconds == pytest.approx((3400 - 1000) / 1e9)


def test_names_fall_back_and_are_told(run: Run, tmp_path: Path) -> None:
    made = Builder(tmp_path / "f", "tracks")
    made.kernel(10, 20, 1, kernel=8)
    made.kernel(30, 50, 2, kernel=99)
    made.kernel(60, 61, 3, agent=77)
    made.done()
    result = run(Rocpd(), tmp_path / "f")
    found = result.tables["kernels"].sort_values("start_ns")
    assert plain(found, "name", "device", "registers") == [
        ["fill", "cuda:0", None], ["(no name)", "cuda:0", None], ["gemm<float>(float*)", "agent:77", 100],
    ]  # fmt: skip
    assert [(loss.what, loss.count, loss.repaired) for loss in result.losses] == [("the name of a kernel", 1, True)]


def test_views_of_the_file_are_not_run(run: Run, tmp_path: Path) -> None:
    path = build(tmp_path / "f")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP VIEW rocpd_kernel_dispatch")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        db.execute(f"CREATE VIEW rocpd_kernel_dispatch AS {endless} SELECT i AS id FROM n")
        db.commit()
    assert len(run(Rocpd(), path).tables["kernels"]) == 2


def test_two_guids_are_two_processes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for guid, agent, end in (("_a", 5, 30), ("_b", 4, 25)):
        made = Builder(path, "tracks", guid)
        made.kernel(10, end, 1, agent=agent)
        made.region((1, 2), 3, 1, 1)
        made.done()
    result = run(Rocpd(), path)
    assert sorted(plain(result.tables["kernels"], "rank", "device", "duration_ns")) == [
        [0, "cuda:0", 15], [1, "cuda:1", 20],
    ]  # fmt: skip
    assert sorted(int(row) for row in result.tables["kernels"]["launch"]) == [0, 1]
    assert result.sink.own_ranks


def test_the_rank_in_the_environment(run: Run, tmp_path: Path) -> None:
    made = Builder(tmp_path / "f", "inline")
    made.kernel(10, 20, 1)
    environment = {"HOME": "/home/somebody", "RANK": "3", "WORLD_SIZE": "8"}
    made.insert("info_process", {"id": 50, "pid": 50, "environment": json.dumps(environment)})
    made.done()
    result = run(Rocpd(), tmp_path / "f")
    assert (result.sink.rank, result.sink.world_size, result.sink.own_ranks) == (3, 8, False)
    assert "somebody" not in repr((result.sink.facts, result.notes, result.losses, result.passes))


def test_counters_go_to_a_pass_of_their_own(run: Run, tmp_path: Path) -> None:
    made = Builder(tmp_path / "f", "tracks")
    for number, name in ((1, "SQ_WAVES"), (2, "SQ_WAVES"), (3, "GRBM_COUNT")):
        made.insert("info_pmc", {"id": number, "name": name, "symbol": f"{name}:{number}"})
    for start, scale in ((100, 1), (300, 10)):
        event = made.kernel(start, start + 50, start)
        for counter in (1, 2, 3):
            made.insert("pmc_event", {"event_id": event, "pmc_id": counter, "value": counter * scale})
    made.insert("pmc_event", {"event_id": 12345, "pmc_id": 1, "value": 1.0})
    made.copy(500, 600, 9)
    made.done()
    result = run(Rocpd(), tmp_path / "f")
    kernels, counters = result.tables["kernels"], result.tables["counters"]
    assert set(kernels["pass"]) == set(counters["pass"]) == {"counters"}
    assert plain(kernels, "start_ns", "duration_ns", "device") == [[100, 50, "cuda:0"], [300, 50, "cuda:0"]]
    assert plain(counters, "kernel", "name", "metric", "value") == [  # waves are summed over their two instances
        [0, "gemm<float>(float*)", "SQ_WAVES", 3.0], [0, "gemm<float>(float*)", "GRBM_COUNT", 3.0],
        [1, "gemm<float>(float*)", "SQ_WAVES", 30.0], [1, "gemm<float>(float*)", "GRBM_COUNT", 30.0],
    ]  # fmt: skip
    assert [(loss.what, loss.count) for loss in result.losses] == [("a copy", 1), ("the value of a counter", 1)]


def test_an_empty_file_is_refused(run: Run, tmp_path: Path) -> None:
    Builder(tmp_path / "f", "tracks").done()
    with pytest.raises(ReadError, match="holds no kernels, copies, calls or markers"):
        run(Rocpd(), tmp_path / "f")


def test_copies_are_named_as_kineto_does() -> None:
    assert copy_name("MEMORY_COPY_DEVICE_TO_HOST") == "Memcpy DtoH (Device -> Host)"
    assert copy_name("MEMORY_COPY_NONE") == "Memcpy (MEMORY_COPY_NONE)"
    assert copy_name(None) == "Memcpy"
    assert classify(copy_name("HOST_TO_DEVICE")).full == "memory copy"


def test_suffixes_of_tables() -> None:
    names = [
        "rocpd_kernel_dispatch_ab-1",
        "rocpd_region_ab-1",
        "rocpd_memory_copy",
        "rocpd_kernel_dispatchX",
        "other_x",
    ]
    assert parts_of(names) == ["", "_ab-1"]


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("seed") / "f", "timestamps")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 17), st.binary(min_size=1, max_size=4)), max_size=8),
    cut=st.sampled_from([0, 0, 0, 1, 4096, 40_000]),
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
    if Rocpd().recognizes(Head(source, source.head())):
        sink = Sink("f", folder)
        try:
            Rocpd().read(source, sink)
            sink.finish()
        except WcbenchError:
            sink.close()
            if sink._timeline is not None:
                sink._timeline._stages.close()
