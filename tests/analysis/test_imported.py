"""Views of records that foreign files gave: several ranks, no steps, no samples, sums only, nothing at all."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wcbench import api
from wcbench.analysis.complexity import complexity
from wcbench.analysis.executions import executions
from wcbench.analysis.hotspots import categories, hotspots
from wcbench.analysis.steps import step_times
from wcbench.analysis.summary import summary
from wcbench.errors import UnknownNameError
from wcbench.record import VIEWS, Loss, Note, Profile, load
from wcbench.schema import SCHEMA_VERSION, WHOLE_FILE

GEMM, NCCL = "volta_sgemm_128x64_nn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def timeline(made: Any, kernels: Any = (), **tables: Any) -> Profile:
    parts = {name: {"timeline": rows} for name, rows in {"kernels": kernels, **tables}.items() if rows}
    profile: Profile = made.foreign({"timeline": made.foreign_info(steps=2)}, parts)
    return profile


def steps(made: Any, *durations: int, **more: Any) -> list[dict[str, Any]]:
    return [{**row, "samples": None, "loss": None, **more} for row in made.step_rows(durations)]


# what hotspots add up


def two_steps(made: Any, **more: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = made.device_rows([(GEMM, 100, 60), (GEMM, 300, 40), (NCCL, 400, 100)], **more)
    rows[0]["step"], rows[1]["step"], rows[2]["step"] = 0, 1, None
    return rows


def test_kernels_outside_the_steps_are_not_lost(made: Any) -> None:
    profile = timeline(made, two_steps(made), steps=steps(made, 200, 200))
    hot, every = hotspots(profile), hotspots(profile, steps="all")
    assert hot is not None
    assert every is not None
    assert (hot.basis, hot.total_ns, hot.rows["name"].tolist()) == ("steps", 50.0, [GEMM])
    assert (hot.coverage, hot.whole_ns, hot.whole_calls) == (0.5, 200.0, 3)
    assert (every.basis, every.total_ns, every.rows["calls"].tolist()) == (
        "all",
        200.0,
        [1.0, 2.0],
    )  # equal times: by name
    assert every.per == "in all"
    whole = summary(profile)["hotspots"]["whole"]
    assert (whole["calls"], whole["total_ns"], len(whole["rows"])) == (3, 200.0, 2)
    shares = categories(profile, steps="all")
    assert shares is not None
    assert (shares.full["GEMM"], shares.full["communication"]) == (0.5, 0.5)


def test_marked_steps_that_hold_no_kernel_leave_all_of_them(made: Any) -> None:
    rows = [{**row, "step": None} for row in two_steps(made)]
    hot = hotspots(timeline(made, rows, steps=steps(made, 200, 200)))
    assert hot is not None
    assert (hot.basis, hot.total_ns, hot.coverage) == ("all", 200.0, 0.0)


def test_ranks_are_averaged_and_one_can_be_asked(made: Any) -> None:
    kernels = two_steps(made) + [{**row, "rank": 1, "duration_ns": 3 * row["duration_ns"]} for row in two_steps(made)]
    marks = steps(made, 200, 200) + steps(made, 200, 200, rank=1)
    profile = timeline(made, kernels, steps=marks)
    hot = hotspots(profile)
    assert hot is not None
    assert (hot.ranks, hot.rank_steps, hot.total_ns) == (2, 4, (100 + 300) / 4)
    assert hot.rows["calls"].tolist() == [1.0]
    assert hot.per == "per step, mean over 2 ranks"
    first, second = (hotspots(profile, rank=rank) for rank in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.total_ns, second.total_ns, first.ranks, second.rank_steps) == (50.0, 150.0, 1, 2)
    with pytest.raises(UnknownNameError, match="Unknown rank '7'"):
        hotspots(profile, rank=7)
    with pytest.raises(UnknownNameError, match="Unknown choice of steps"):
        hotspots(profile, steps="some")
    times = step_times(profile)["timeline"]
    assert (times.ranks, len(times.durations_ns)) == (2, 4)
    assert repr(times).startswith("4 steps of 2 ranks: median 0.0002 ms")


def test_a_rank_with_fewer_steps_weighs_as_much_as_it_has(made: Any) -> None:
    kernels = two_steps(made) + [{**row, "rank": 1} for row in two_steps(made) if row["step"] == 0]
    profile = timeline(made, kernels, steps=steps(made, 200, 200) + steps(made, 200, rank=1))
    hot = hotspots(profile)
    assert hot is not None
    assert (hot.rank_steps, hot.total_ns) == (3, (100 + 60) / 3)


def test_without_marks_the_trace_is_one_step_and_no_step_time(made: Any) -> None:
    """CASE 21."""
    kernels = [{**row, "step": 0} for row in two_steps(made)]
    profile = timeline(made, kernels, steps=steps(made, 400, kind=WHOLE_FILE))
    hot = hotspots(profile)
    assert hot is not None
    assert (hot.basis, hot.steps, hot.total_ns, hot.coverage) == ("trace", 1, 200.0, 1.0)
    assert step_times(profile) == {}
    told = summary(profile)
    assert told["steps"] is None
    assert told["passes"]["timeline"]["step_ms_median"] is None


def test_a_collective_is_communication_whatever_its_name(made: Any) -> None:
    """DeepEP and multimem kernels have no nccl in the name; one name may be both."""
    rows = made.device_rows([("dispatch_kernel", 100, 30), ("dispatch_kernel", 200, 10), (GEMM, 300, 60)])
    rows[0]["collective"] = "all_to_all"
    hot = hotspots(timeline(made, rows))
    assert hot is not None
    told = hot.rows[["name", "category", "paper", "time_ns"]].to_numpy().tolist()
    assert told == [
        [GEMM, "GEMM", "GEMM", 60.0],  # no step is marked: the whole counts as one
        ["dispatch_kernel", "communication", "none of the eight", 30.0],
        ["dispatch_kernel", "unknown", "unknown", 10.0],
    ]


def test_a_collective_that_some_kernels_name_and_some_do_not_is_one_row(made: Any) -> None:
    rows = made.device_rows([(NCCL, 100, 30), (NCCL, 200, 10)])
    rows[0]["collective"] = "allreduce"
    hot = hotspots(timeline(made, rows))
    assert hot is not None
    assert hot.rows[["name", "category", "time_ns"]].to_numpy().tolist() == [[NCCL, "communication", 40.0]]


def test_case_14_waiting_is_in_no_share(made: Any) -> None:
    hot = hotspots(timeline(made, made.device_rows([(GEMM, 100, 60), ("Stream Sync", 100, 9000)])))
    assert hot is not None
    assert (hot.rows["name"].tolist(), hot.rows["time_share"].tolist()) == ([GEMM], [1.0])
    assert (hot.waiting_calls, hot.waiting_ns, hot.whole_calls, hot.whole_ns) == (1, 9000.0, 1, 60.0)


def test_sums_by_name_stand_in_for_kernels(made: Any) -> None:
    rows = [
        {"kind": "kernel", "name": GEMM, "calls": 4, "total_ns": 300.0},
        {"kind": "kernel", "name": NCCL, "calls": 2, "total_ns": 100.0},
        {"kind": "kernel", "name": "Event Sync", "calls": 1, "total_ns": 900.0},
        {"kind": "runtime", "name": "cudaLaunchKernel", "calls": 6, "total_ns": 50.0},
    ]
    profile = timeline(made, totals=rows)
    hot, shares = hotspots(profile), categories(profile)
    assert hot is not None
    assert shares is not None
    assert (hot.basis, hot.of, hot.steps, hot.total_ns, hot.waiting_calls) == ("sums", "kernel time", 1, 400.0, 1)
    assert hot.rows[["name", "time_ns", "calls"]].to_numpy().tolist() == [[GEMM, 300.0, 4.0], [NCCL, 100.0, 2.0]]
    assert shares.full["GEMM"] == 0.75
    assert shares.phases is None
    second = timeline(made, totals=[*rows, {**rows[0], "rank": 1, "total_ns": 500.0}])
    both = hotspots(second)
    assert both is not None
    assert (both.ranks, both.total_ns) == (2, (400 + 500) / 2)
    json.dumps(summary(second), allow_nan=False)


def test_operators_stand_in_where_a_file_has_nothing_of_a_device(made: Any) -> None:
    hot = hotspots(timeline(made, ops=made.op_rows([("aten::mm", 60, 0, "forward"), ("aten::relu", 20, 1, "other")])))
    assert hot is not None
    assert (hot.of, hot.total_ns) == ("operator self time", 40.0)


def test_counters_files_list_executions_too(made: Any) -> None:
    rows = made.device_rows([(GEMM, None, 60), (GEMM, None, 40)], step=None)
    profile = made.foreign({"counters": made.foreign_info()}, {"kernels": {"counters": rows}})
    hot = hotspots(profile)
    assert hot is not None
    assert (hot.source.passname, hot.basis, hot.total_ns, hot.whole_calls) == ("counters", "all", 100.0, 2)


# what no file tells is unknown


def test_conditions_that_are_not_told_are_not_said(made: Any) -> None:
    profile = timeline(made, two_steps(made), steps=steps(made, 200, 300))
    hot, times = hotspots(profile), step_times(profile)["timeline"]
    assert hot is not None
    assert str(hot.source) == "pass timeline, cuda"
    assert hot.source.to_dict() == {"pass": "timeline", "preset": None, "batch_size": None, "device": "cuda"}
    assert (times.samples, times.samples_per_s, times.loss_first) == (None, None, None)
    assert "samples/s" not in repr(times)
    told = summary(profile)["passes"]["timeline"]
    assert (told["samples"], told["samples_per_s"], told["step_ms_median"], told["ranks"]) == (None, None, 0.00025, 1)


def test_an_execution_trace_has_no_samples_and_no_parameters(made: Any) -> None:
    profile = made.foreign(
        {"operators": made.foreign_info(device="cpu")},
        {"operators": {"operators": made.operator_rows()}, "storages": {"operators": made.storage_rows()}},
    )
    work = complexity(profile)
    assert work is not None
    assert (work.samples, work.flops_matrix_forward_per_sample, work.params_total) == (None, None, None)
    assert (work.flops_matrix_forward, work.flops_matrix_step) == (6000, 14000)
    assert "n/a parameters, n/a trainable" in repr(work)
    assert "a sample" not in repr(work)
    told = summary(profile)
    assert told["complexity"]["macs_forward_per_sample"] is None
    assert told["complexity"]["flops_matrix_step"] == 14000
    assert told["complexity"]["params_bytes"] is None
    assert told["modules"]["rows"]
    assert told["memory"]["peak_bytes"] == 120  # the weight, what an operator reads and what it writes


def test_work_that_no_formula_counts_is_unknown_and_not_0(made: Any) -> None:
    rows = made.operator_rows([("mystery::a", "forward", None, False, 0, 0)])
    profile = made.foreign({"operators": made.foreign_info()}, {"operators": {"operators": rows}})
    told = summary(profile)["complexity"]
    assert (told["coverage_calls"], told["flops_matrix_step"], told["flops_all_step"]) == (0.0, None, None)
    assert told["uncounted"] == [{"name": "mystery::a", "calls": 1}]


LOSS = Loss("/tmp/trace.json", "an event", "its braces do not close", 3, 17, True)


@pytest.mark.parametrize("machine", [{}, {"gpus": []}, {"gpus": [{"name": "GPU"}]}], ids=["nothing", "none", "a GPU"])
def test_every_view_stands_an_import_of_nothing(made: Any, machine: Any) -> None:
    for passes in ({}, {"timeline": made.foreign_info()}, {"operators": made.foreign_info()}):
        profile = made.foreign(passes, {}, machine, [LOSS])
        for name in VIEWS.names():
            profile.view(name)
        told = summary(profile)
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        assert told["losses"] == [
            {
                "file": "/tmp/trace.json",
                "what": "an event",
                "why": "its braces do not close",
                "count": 3,
                "offset": 17,
                "repaired": True,
                "deliberate": False,
            }
        ]
        assert told["source"]["files"][0]["format"] == "kineto"
        assert told["tables"] == {}
        assert "hand-made" in repr(profile)
        assert "hand-made" in profile._repr_html_()


def keys(value: Any) -> set[str]:
    """Every key anywhere in a JSON value."""
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys(item)}
    return {key for item in value for key in keys(item)} if isinstance(value, list) else set()


def test_every_field_of_an_import_is_on_the_page(made: Any) -> None:
    kernels = made.device_rows([(GEMM, 100, 60), (NCCL, 150, 50)])
    calls = [{"name": "cudaLaunchKernel", "thread": 1, "start_ns": 0, "duration_ns": 1, "correlation": 1}]
    allocated = [{"time_ns": 5, "action": "create", "nbytes": 64, "category": "parameter"}]
    counted = [{"name": GEMM, "metric": "dram__bytes.sum.per_second", "unit": "B/s", "value": 1.0}]
    passes = dict.fromkeys(("timeline", "counters", "memory"), made.foreign_info())
    tables = {
        "kernels": {"timeline": kernels},
        "runtime": {"timeline": calls},
        "ops": {"timeline": made.op_rows()},
        "steps": {"timeline": steps(made, 200, 300)},
        "counters": {"counters": counted},
        "allocations": {"memory": allocated},
    }
    told = summary(made.foreign(passes, tables, {}, [LOSS]))
    blocks = ("source", "losses", "gates", "activity", "ops", "totals", "counters", "allocations", "hotspots", "steps")
    words = set(re.findall(r"[A-Za-z_]\w*", (Path(__file__).parents[2] / "docs" / "json.md").read_text()))
    for block in blocks:
        assert told[block], block
        data = {"five": "aside", "curve": "aside", "peak_categories": "aside", "start_categories": "aside"}
        found = keys({**told[block], **data} if block in ("counters", "allocations") else told[block])
        assert found <= words | {"pass"}, (block, found - words)
    for figure in told["counters"]["five"].values():
        assert set(figure) <= words
    assert told["allocations"]["peak_bytes"] == 64
    assert told["allocations"]["curve"] == {"parameter": [0, 64]}


def test_a_live_record_has_no_source(full: Profile) -> None:
    told = summary(full)
    assert (told["source"], told["losses"]) == (None, [])
    assert told["tables"]["kernels"] == 13
    assert told["hotspots"]["coverage"] == pytest.approx(2000 / 52_000)


# only the columns that are asked for


def test_columns_of_a_saved_record_are_read_alone(made: Any, tmp_path: Path, monkeypatch: Any) -> None:
    rows = [{**row, "grid": [1, 2, 3], "block": [32, 1, 1]} for row in two_steps(made)]
    profile = timeline(made, rows, steps=steps(made, 200, 200))
    saved = load(profile.save(tmp_path / "run").path or "")
    asked: list[str] = []
    read = pq.read_table

    def spy(file: Any, columns: Any = None, **options: Any) -> Any:
        asked.extend(f"{Path(file).stem}.{column}" for column in columns or ["every column"])
        return read(file, columns=columns, **options)

    class Spied(pq.ParquetFile):  # type: ignore[misc, unused-ignore]
        def __init__(self, source: Any, **options: Any) -> None:
            self.stem = Path(source).stem
            super().__init__(source, **options)

        def read_row_group(self, i: int, columns: Any = None, **options: Any) -> Any:
            asked.extend(f"{self.stem}.{column}" for column in columns or ["every column"])
            return super().read_row_group(i, columns=columns, **options)

    monkeypatch.setattr(pq, "read_table", spy)
    monkeypatch.setattr(pq, "ParquetFile", Spied)
    for name in ("hotspots", "categories", "activity", "gates", "ops", "totals"):
        here, there = profile.view(name), saved.view(name)
        assert repr(here) == repr(there)
    assert "kernels.duration_ns" in asked
    assert not {"kernels.grid", "kernels.block", "kernels.every column"} & set(asked)
    one = saved.columns("kernels", ["name", "grid"])
    assert one.column_names == ["name", "grid"]
    assert one.equals(profile.arrow("kernels").select(["name", "grid"]))
    assert saved.columns("power", ["watts"]).num_rows == 0


def test_executions_know_their_rows_in_a_table_of_several_groups(made: Any, tmp_path: Path) -> None:
    """Groups of two rows of three: places count through them, and equal names have one number."""
    profile = timeline(made, two_steps(made), steps=steps(made, 200, 200))
    folder = profile.save(tmp_path / "run").path
    assert folder is not None
    table = profile.arrow("kernels")
    assert table.num_rows == 3
    pq.write_table(table, folder / "kernels.parquet", row_group_size=2)
    here, there = executions(profile, "timeline"), executions(load(folder), "timeline")
    assert here is not None
    assert there is not None
    assert there.row.tolist() == list(range(table.num_rows)) == here.row.tolist()
    assert [there.names[i] for i in there.name] == table["name"].to_pylist()
    assert len(set(there.names)) == len(there.names)


def test_columns_of_an_older_record_are_upgraded(full: Profile, tmp_path: Path) -> None:
    """Version 3 had no column rank in table steps."""
    folder = full.save(tmp_path / "run").path
    assert folder is not None
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 3}))
    for name in ("steps", "ops"):
        table = pq.read_table(folder / f"{name}.parquet")
        pq.write_table(table.drop_columns(["rank"]), folder / f"{name}.parquet")
    old = load(folder)
    assert SCHEMA_VERSION > 3
    assert old.columns("steps", ["rank", "index"])["rank"].to_pylist() == [0] * len(full.table("steps"))
    assert repr(old.view("ops")) == repr(full.view("ops"))


# real traces against plain JSON


TRACES = [
    "hta_trace_diff_control__control.json.gz",
    "hta_negative_queue_length_values_check__rank0.json.gz",
    "tracelens_mi300_resnet_act_checkpoint.json.gz",
    "kineto_samples_resnet50_num_workers_0__2d19c63_worker0.pt.trace.json.gz",
    "segment_anything_fast_amg_trace.json.gz",
]
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def device_events(file: Path) -> list[dict[str, Any]]:
    data = file.read_bytes()
    trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return [e for e in events if e.get("ph") == "X" and str(e.get("cat")).lower() in DEVICE]


@pytest.mark.parametrize("name", TRACES)
def test_the_whole_file_is_in_the_figures(shared: Path, name: str) -> None:
    """Counts, device time, the five longest kernels and the union of intervals, by a plain walk over the file."""
    events = device_events(shared / "traces" / "kineto" / name)
    profile = api.read(shared / "traces" / "kineto" / name)
    found, every = profile.view("activity"), hotspots(profile, steps="all")
    assert every is not None
    nanoseconds = [round(event["dur"] * 1000) for event in events]
    assert found.calls == every.whole_calls == len(events)
    assert found.sum_ns == every.total_ns == pytest.approx(sum(nanoseconds), abs=len(events))
    by_name: dict[str, int] = {}
    for event, duration in zip(events, nanoseconds, strict=True):
        by_name[event["name"]] = by_name.get(event["name"], 0) + duration
    top = sorted(by_name.items(), key=lambda item: -item[1])[:5]
    assert every.rows["name"].head(5).tolist() == [kernel for kernel, _ in top]
    assert every.rows["time_ns"].head(5).tolist() == pytest.approx([ns for _, ns in top], abs=len(events))
    assert found.devices["busy_ns"].sum() == pytest.approx(busy(events), abs=2 * len(events))


def busy(events: list[dict[str, Any]]) -> int:
    """Time in which a device has anything running, by a sweep over its sorted events."""
    total = 0
    for device in {(event["pid"], event["args"].get("device")) for event in events}:
        mine = sorted(
            (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000))
            for e in events
            if (e["pid"], e["args"].get("device")) == device
        )
        end = mine[0][0]
        for start, stop in mine:
            total += max(0, stop - max(start, end))
            end = max(end, stop)
    return total


def test_a_note_is_a_note(made: Any) -> None:
    """An import that gave notes alone is a record too."""
    profile = made.record({}, {}, [Note("file", "It holds a benchmark's peaks.")])
    assert summary(profile)["notes"][0]["text"] == "It holds a benchmark's peaks."


def test_an_unknown_device_is_told_even_where_there_is_nothing_for_a_roofline(made: Any) -> None:
    profile = timeline(made, two_steps(made), steps=steps(made, 200, 200))
    with pytest.raises(UnknownNameError, match="nosuch"):
        summary(profile, on="nosuch")
