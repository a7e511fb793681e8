"""Views of imported records: what ranks, phases and marks that files do not tell do to figures, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wcbench import api
from wcbench.analysis.activity import activity
from wcbench.analysis.convergence import convergence
from wcbench.analysis.gates import gates
from wcbench.analysis.hotspots import categories, hotspots
from wcbench.analysis.losses import DELIBERATE, deliberate, losses_block
from wcbench.analysis.ops import ops
from wcbench.analysis.steps import device_step_ns
from wcbench.analysis.summary import summary
from wcbench.errors import UnknownNameError
from wcbench.record import Loss, Profile
from wcbench.schema import WHOLE_FILE

ROOT = Path(__file__).parents[2]
GEMM, NCCL = "volta_sgemm_128x64_nn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
LOSS = Loss("/tmp/trace.json", "an event", "its braces do not close", 3, 17, True)


def timeline(made: Any, kernels: Any = (), **tables: Any) -> Profile:
    parts = {name: {"timeline": rows} for name, rows in {"kernels": kernels, **tables}.items() if rows}
    profile: Profile = made.foreign({"timeline": made.foreign_info(steps=2)}, parts)
    return profile


def steps(made: Any, *durations: int, **more: Any) -> list[dict[str, Any]]:
    return [{**row, "samples": None, "loss": None, **more} for row in made.step_rows(durations)]


def two_steps(made: Any) -> list[dict[str, Any]]:
    """A GEMM of 60 and of 40 ns in steps 0 and 1, and communication in none."""
    rows: list[dict[str, Any]] = made.device_rows([(GEMM, 100, 60), (GEMM, 300, 40), (NCCL, 400, 100)])
    rows[0]["step"], rows[1]["step"], rows[2]["step"] = 0, 1, None
    return rows


def test_a_rank_without_a_mark_of_its_own_counts_too(made: Any) -> None:
    """A file of two processes that marks no steps: 100 + 300 ns are 200 a rank, not 400."""
    kernels = made.device_rows([(GEMM, 100, 60), (NCCL, 300, 40)])
    kernels += [{**row, "rank": 1, "duration_ns": 3 * row["duration_ns"]} for row in kernels]
    hot = hotspots(timeline(made, kernels, steps=steps(made, 400, kind=WHOLE_FILE)))
    assert hot is not None
    assert (hot.basis, hot.ranks, hot.rank_steps, hot.total_ns) == ("trace", 2, 2, 200.0)
    assert hot.rows[["rank_min_ns", "rank_max_ns"]].to_numpy().tolist() == [[60.0, 180.0], [40.0, 120.0]]


def test_a_rank_that_marks_no_step_counts_those_it_works_in(made: Any) -> None:
    kernels = two_steps(made) + [{**row, "rank": 1} for row in two_steps(made)]
    hot = hotspots(timeline(made, kernels, steps=steps(made, 200, 200)))
    assert hot is not None
    assert (hot.rank_steps, hot.total_ns) == (4, 50.0)


def test_the_least_and_the_most_of_ranks_are_per_step_of_each(made: Any) -> None:
    first = made.device_rows([(GEMM, 100, 60), (GEMM, 300, 40)])
    first[1]["step"] = 1
    second = made.device_rows([(GEMM, 100, 90), (NCCL, 200, 10)], rank=1)
    marks = steps(made, 200, 200) + steps(made, 200, rank=1)
    profile = timeline(made, first + second, steps=marks)
    hot = hotspots(profile)
    assert hot is not None
    told = hot.rows[["name", "time_ns", "rank_min_ns", "rank_max_ns"]].to_numpy().tolist()
    # 190 ns in three steps; 100 / 2 on rank 0, 90 / 1 on rank 1, and rank 0 never talks
    assert told == [[GEMM, pytest.approx(190 / 3), 50.0, 90.0], [NCCL, pytest.approx(10 / 3), 0.0, 10.0]]
    alone = hotspots(profile, rank=0)
    assert alone is not None
    assert alone.rows["rank_max_ns"].isna().all()


def test_long_names_are_cut_in_a_line(made: Any) -> None:
    hot = hotspots(timeline(made, made.device_rows([("k" * 300, 100, 60)])))
    assert repr(hot).splitlines()[1].endswith("k" * 99 + "…")
    assert "k" * 100 not in repr(hot)


@pytest.mark.parametrize(
    ("phases", "shares"),
    [
        (("other", "other"), (None, None, None, None)),
        (("forward", "other"), (0.75, None, None, 0.25)),
        (("forward", "backward"), (0.75, 0.25, None, 0.0)),
    ],
)
def test_a_phase_that_no_kernel_carries_is_not_known(made: Any, phases: Any, shares: Any) -> None:
    rows = made.device_rows([(GEMM, 100, 75), (NCCL, 300, 25)])
    for row, phase in zip(rows, phases, strict=True):
        row["phase"] = phase
    found = categories(timeline(made, rows))
    assert found is not None
    assert found.phases is not None
    assert tuple(found.phases.values()) == shares


def test_a_step_on_the_device_spans_its_kernels(made: Any) -> None:
    """Steps of 60 to 160 and of 300 to 520 ns on rank 0 (a kernel of stream 8 ends first), one of 40 on rank 1."""
    rows = made.device_rows([(GEMM, 60, 100), (GEMM, 300, 220), (GEMM, 310, 5), (GEMM, 500, 40)])
    rows[1]["step"] = rows[2]["step"] = 1
    rows[3]["rank"] = 1
    waits = made.device_rows([("Context Sync", 0, 9000)])
    marks = steps(made, 50, 50) + steps(made, 50, rank=1)
    profile = timeline(made, rows + waits, steps=marks)
    assert device_step_ns(profile, "timeline") == 100.0
    assert summary(profile)["passes"]["timeline"]["device_step_ms_median"] == 100e-6
    assert summary(timeline(made, rows))["passes"]["timeline"]["device_step_ms_median"] is None
    timeless = [{**row, "start_ns": None} for row in rows]
    assert device_step_ns(timeline(made, timeless, steps=marks), "timeline") is None


def test_what_is_left_out_on_purpose_is_no_damage() -> None:
    meant = Loss("a", "a record", "it is waiting, no work of the device", 3)
    assert deliberate(meant)
    assert not deliberate(LOSS)
    assert not deliberate(Loss("a", "an event", "of a reason that is not on the list"))
    assert [row["deliberate"] for row in losses_block([meant, LOSS])] == [True, False]


def test_every_reason_on_the_list_is_a_reader_s() -> None:
    code = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "profilers" / "readers").glob("*.py"))
    assert not [why for why in DELIBERATE if why not in code]


def test_operators_that_no_kernel_names_have_no_device_time(made: Any) -> None:
    rows = made.device_rows([(GEMM, 100, 60)])
    profile = timeline(made, rows, ops=made.op_rows())
    found = ops(profile)
    assert found is not None
    assert found.rows["device_ns"].isna().all()
    assert found.device_unlinked_ns == 60.0


def test_work_of_a_phase_that_is_not_told_is_unknown(made: Any) -> None:
    profile = made.foreign({"operators": made.foreign_info()}, {"operators": {"operators": made.operator_rows()}})
    found = summary(profile)["complexity"]
    phases = set(profile.table("operators")["phase"].astype(str))
    for phase in ("forward", "backward"):
        assert (found[f"flops_matrix_{phase}"] is None) == (phase not in phases)
    rows = [{**row, "phase": "other"} for row in made.operator_rows()]
    found = summary(made.foreign({"operators": made.foreign_info()}, {"operators": {"operators": rows}}))["complexity"]
    assert (found["flops_matrix_forward"], found["flops_all_backward"]) == (None, None)
    assert found["flops_matrix_step"] > 0


def test_values_of_any_pass_are_shown(made: Any) -> None:
    """PyProf's FLOPs and bytes, which are formulas, in a pass that is not named after counters."""
    rows = [
        {"name": GEMM, "metric": f"pyprof.{name}", "unit": unit, "value": 8.0}
        for name, unit in (("flops", "FLOP"), ("bytes", "B"))
    ]
    profile = made.foreign({"timeline": made.foreign_info()}, {"counters": {"timeline": rows}})
    part = summary(profile)["counters"]
    assert (part["pass"], part["hardware"], part["five"], part["unknown"]) == ("timeline", False, None, [])
    assert [row["metric"] for row in part["rows"]] == ["pyprof.bytes", "pyprof.flops"]


def test_counters_of_amd_have_no_five_and_known_ones_come_first(made: Any) -> None:
    def counted(*metrics: str) -> Any:
        rows = [{"name": GEMM, "metric": metric, "unit": "%", "value": 8.0} for metric in metrics]
        return summary(made.foreign({"counters": made.foreign_info()}, {"counters": {"counters": rows}}))["counters"]

    part = counted("SQ_WAVES")
    assert (part["five"], part["hardware"]) == (None, True)
    warps = "sm__warps_active.avg.pct_of_peak_sustained_active"
    part = counted("a__own.sum", "dram__bytes_read.sum", warps)
    assert [row["metric"] for row in part["rows"]] == [warps, "dram__bytes_read.sum", "a__own.sum"]
    assert part["five"]["achieved_occupancy"]["value"] == 0.08


def test_orphans_say_what_they_touch(made: Any) -> None:
    calls = [{"name": "cudaLaunchKernel", "thread": 1, "start_ns": 0, "duration_ns": 1, "correlation": 1}]
    rows = made.device_rows([(GEMM, 100, 60), (NCCL, 300, 40)])
    rows[0].update(launch=0, op="aten::mm")
    rows[1].update(step=None)
    found = {gate.name: gate for gate in gates(timeline(made, rows, runtime=calls)).rows}["work without launch"]
    assert found.held is False
    assert found.text == (
        "1 of 2 executions have no call on the host, which lies outside the trace; of these 1 in no step (figures per "
        "step lack them) and 1 without an operator (figures by operator lack them); figures of the whole file hold all "
        "of them."
    )


def test_a_table_that_is_none_is_answered_with_those_of_the_record(made: Any, tmp_path: Path) -> None:
    profile = timeline(made, two_steps(made))
    with pytest.raises(UnknownNameError, match="Unknown table 'zzz'") as error:
        api.export(profile, tmp_path / "x.csv", table="zzz")
    assert error.value.hint == "Known: kernels. The record has: kernels."


def test_communication_without_times_is_not_none(made: Any) -> None:
    """None ran, some ran without times, some ran with them: three different things."""
    none, some, timed = (
        activity(timeline(made, made.device_rows([(GEMM, 100, 60), *more])))
        for more in ([], [(NCCL, None, 40)], [(NCCL, 130, 60)])
    )
    assert none is not None
    assert some is not None
    assert timed is not None
    assert none.notes == ("No communication ran on any device, so its overlap with computation is not defined.",)
    assert some.notes[1] == (
        "1 execution of communication has no timestamp: how much of it runs beside computation is not known."
    )
    assert (none.hidden_share, some.hidden_share, timed.hidden_share) == (None, None, 0.5)  # 130 to 160 of 130 to 190
    assert timed.to_dict()["hidden_share"] == 0.5


def test_only_evaluations_with_a_quality_count(made: Any) -> None:
    """Epochs without one are rows too; two metrics of one evaluation are one."""
    training = {"run": 0, "file": "a.txt", "benchmark": "b", "status": "success", "seconds": 466.6}
    rows = [
        {"run": 0, "epoch": 1.0},
        {"run": 0, "epoch": 1.0, "quality": 0.3, "metric": "BBOX"},
        {"run": 0, "epoch": 1.0, "quality": 0.2, "metric": "SEGM"},
        {"run": 0, "epoch": 2.0, "quality": 0.4, "metric": "BBOX"},
    ]
    tables = {"trainings": {"convergence": [training]}, "epochs": {"convergence": rows}}
    found = convergence(made.foreign({"convergence": made.foreign_info()}, tables))
    assert found is not None
    assert found.evaluations == 2
    assert repr(found).startswith("Convergence: 1 run\n")
    assert "1 of 1 run reached the target; 467 s" in repr(found)  # as tables have it, and in their unit
    assert found.groups[0].olympic_reason == "1 run is too few: 1 at each end is left out"


def test_machines_of_several_files_are_not_told_by_a_device_s_number(made: Any) -> None:
    """cuda:1 of the second file is not the second GPU of the list, whose peaks would then be the wrong ones."""
    gpus = {"gpus": [{"name": "NVIDIA A100-SXM4-80GB"}, {"name": "NVIDIA H100 80GB HBM3"}]}
    profile = made.foreign({"timeline": made.foreign_info(device="cuda:1")}, {}, gpus)
    one = next(gate for gate in gates(profile).rows if gate.name == "copies")
    assert "several kinds" not in one.text
    rows = {"kernels": {"timeline": [{**made.device_rows([("Memcpy DtoD", 0, 50_000)])[0], "bytes": 10**9}]}}
    files = [{"path": name, "format": "kineto", "sha256": "0", "bytes": 7, "rank": None} for name in "ab"]
    profile = made.foreign({"timeline": made.foreign_info(device="cuda:1")}, rows, gpus)
    object.__setattr__(profile.manifest, "source", {"files": files})
    gate = next(gate for gate in gates(profile).rows if gate.name == "copies")
    assert gate.text == "Not checked: it ran on GPUs of several kinds."
