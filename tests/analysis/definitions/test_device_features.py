"""Features of timelines, counters and trainings on small records, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from wcbench.analysis import features
from wcbench.analysis.definitions import training
from wcbench.analysis.definitions.base import NotMeasuredError
from wcbench.record import Profile
from wcbench.suites import load_suite

SGEMM, RELU, NORM = "volta_sgemm_128x64_nn", "void relu_kernel<float>()", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>"
COPY, TALK = "Memcpy HtoD (Pageable -> Device)", "ncclDevKernel_AllReduce_Sum_f32"


def evaluated(profile: Profile, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = features.evaluate(profile, name).iloc[0]
    return found


def value(profile: Profile, name: str) -> float:
    return float(evaluated(profile, name)["value"])


@pytest.fixture
def gpu(made: Any) -> Profile:
    """Two steps of 1,000 ns; stream 7 but for the second rectifier:

    step 0: copy 0-100, sgemm 100-400, relu 450-500, norm 500-600, nccl 550-700
    step 1: copy 1000-1100, sgemm 1100-1400, relu on stream 8 1350-1450, norm 1500-1600, nccl 1600-1650
    """
    one = [(COPY, 0, 100), (SGEMM, 100, 300), (RELU, 450, 50), (NORM, 500, 100), (TALK, 550, 150)]
    two = [(COPY, 1000, 100), (SGEMM, 1100, 300), (RELU, 1350, 100), (NORM, 1500, 100), (TALK, 1600, 50)]
    rows = [*made.device_rows(one), *made.device_rows(two, step=1)]
    grids = {SGEMM: ([10, 2, 1], [256, 1, 1]), RELU: ([5, 1, 1], [100, 1, 1])}
    for row in rows:
        row["bytes"] = 800 if row["name"] == COPY else None
        row["grid"], row["block"] = grids.get(row["name"], (None, None))
    rows[7]["stream"] = 8
    outside = made.device_rows([(SGEMM, 5000, 9000)], step=None)
    info = made.info(preset="paper", device="cuda", steps=2)
    ops = [
        {"name": "enumerate(DataLoader)#_Iter.__next__", "thread": 1, "start_ns": 0, "duration_ns": 50, "self_ns": 50,
         "depth": 0, "step": 0, "phase": "other"}
    ]  # fmt: skip
    tables = {
        "kernels": {"timeline": [*rows, *outside]},
        "steps": {"timeline": made.step_rows([1000, 1000])},
        "ops": {"timeline": ops},
    }
    return made.record({"timeline": info}, tables)  # type: ignore[no-any-return]


TIMELINE = {
    "kernels_per_step": 4.0,
    "kernel_dur_median": 0.1,  # 50 50 100 100 100 150 300 300 ns
    "kernel_dur_p90": 0.3,  # position 6.3: between 300 and 300
    # busy: 0-400, 450-700 and 1000-1450, 1500-1650
    "gpu_idle_share": 1 - (400 + 250 + 450 + 150) / 2000,
    # stream 7, copies left out: 400 to 450, 500 to 500, 600 to 550 (overlaps: 0); 1400 to 1500, 1600 to 1600
    "launch_gap_median": 0.0,
    "top1_kernel_share": 600 / 1150,
    "kernels_for_80pct": 3.0,  # 600 + 200 + 200 of 150 + ... = 1,150: 920 needs three
    "comm_share": (100 + 50) / 2000,  # 600-700 and 1600-1650
    "stream_overlap": (700 + 650) / 1250,
    "h2d_bytes_per_sample": 1600 / 2 / 4,
    "warps_launched_median": 160.0,  # sgemm: 20 blocks of 8 warps, 600 ns; relu: 5 of 4 (100 threads), 150 ns
    "dataloader_wait_share": 50 / 2000,
}


@pytest.mark.parametrize("name", TIMELINE)
def test_timeline(gpu: Profile, name: str) -> None:
    assert value(gpu, name) == pytest.approx(TIMELINE[name])


def test_kernel_classes_are_the_paper_s_eight_and_the_rest(gpu: Profile) -> None:
    found = features.chosen("kernel_class_time_share")[0](gpu)
    total = 200 + 600 + 150 + 200 + 200
    expected = {"memcpy": 200, "gemm": 600, "relu": 150, "batchnorm": 200, "other": 200}
    assert {k[24:-1]: v for k, v in found.items() if v} == pytest.approx({k: v / total for k, v in expected.items()})


def test_a_host_s_operators_have_classes_but_no_kernels(full: Profile) -> None:
    row = evaluated(full, "kernel_class_time_share")
    assert row["device"] == "abacus"
    assert row["remark"] == "operators' self time on the host"
    assert row["origin"] == "toy"  # preset small
    none = evaluated(full, "kernels_per_step")
    assert math.isnan(none["value"])
    assert "on a CPU" in none["reason"]


def test_a_trace_without_steps_has_durations_and_no_shares_of_steps(made: Any) -> None:
    rows = made.device_rows([(SGEMM, 100, 300), (RELU, 450, 100)], step=None)
    profile = made.foreign({"timeline": made.foreign_info()}, {"kernels": {"timeline": rows}})
    assert value(profile, "kernel_dur_median") == 0.2
    for name in ("kernels_per_step", "gpu_idle_share", "comm_share"):
        assert evaluated(profile, name)["reason"] == "the trace marks no steps"


# --- counters ---------------------------------------------------------------------------------------------------------

OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = {
    OCCUPANCY: ("%", 50.0, 20.0),
    "sm__inst_executed.avg.pct_of_peak_sustained_active": ("%", 30.0, 10.0),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": ("%", 100.0, 60.0),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct": ("%", 80.0, 40.0),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 10.0, 90.0),
    "l1tex__t_sector_hit_rate.pct": ("%", 40.0, 80.0),
    "lts__t_sector_hit_rate.pct": ("%", 20.0, 60.0),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", 0.0, 4.0),
    "smsp__sass_average_branch_targets_threads_uniform.pct": ("%", 100.0, 96.0),
    "smsp__thread_inst_executed_per_inst_executed.ratio": ("", 32.0, 28.0),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": ("", 4.0, 8.0),
}
# one execution of 300 ns and one of 100 ns
COUNTERS = {
    "achieved_occupancy": (0.5 * 3 + 0.2) / 4,
    "ipc_efficiency": (0.3 * 3 + 0.1) / 4,
    "gld_efficiency": (1.0 * 3 + 0.6) / 4,
    "gst_efficiency": (0.8 * 3 + 0.4) / 4,
    "dram_utilization": (0.1 * 3 + 0.9) / 4,
    "l1_hit": (0.4 * 3 + 0.8) / 4,
    "l2_hit": (0.2 * 3 + 0.6) / 4,
    "tensor_util": 0.01,
    "branch_eff": (3 + 0.96) / 4,
    "warp_exec_eff": (3 + 28 / 32) / 4,
    "sectors_per_request_ld": 5.0,
}


def counters(made: Any, *, kernels: bool = True) -> Profile:
    executions = made.device_rows([(SGEMM, 0, 300), (RELU, 300, 100)])
    rows = [
        {"kernel": place if kernels else None, "name": name, "metric": metric, "unit": unit, "value": values[place]}
        for metric, (unit, *values) in METRICS.items()
        for place, name in enumerate((SGEMM, RELU))
    ]
    info = made.foreign_info(device="cuda")
    tables = {"counters": {"counters": rows}}
    if kernels:
        tables["kernels"] = {"counters": executions}
    machine = {"cpu": {}, "gpus": [{"name": "Abacus GPU"}]}
    return made.foreign({"counters": info}, tables, machine)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_are_weighted_by_time(made: Any, name: str) -> None:
    row = evaluated(counters(made), name)
    assert row["value"] == pytest.approx(COUNTERS[name])
    assert (row["origin"], row["device"], row["preset"]) == ("measured", "Abacus GPU", None)


def test_counters_without_durations_count_each_execution_once_and_say_so(made: Any) -> None:
    row = evaluated(counters(made, kernels=False), "achieved_occupancy")
    assert row["value"] == pytest.approx(0.35)
    assert "each execution counts once" in row["remark"]
    row = evaluated(counters(made, kernels=False), "l2_hit")
    assert row["value"] == pytest.approx(0.4)
    assert "each execution counts once" in row["remark"]


def test_every_device_feature_is_tested() -> None:
    needs = {d.name: d.needs for d in features.definitions() if d.needs in ("timeline", "counters")}
    assert set(needs) == {*TIMELINE, *COUNTERS, "kernel_class_time_share"}


# --- trainings --------------------------------------------------------------------------------------------------------


def trainings(made: Any, epochs: list[float | None], **more: Any) -> Profile:
    rows = [
        {"run": i, "file": f"run{i}.txt", "benchmark": "b", "system": "s", "status": "success" if e else "aborted",
         "epochs": e, "samples": int(e * 100) if e else None, "seconds": 10.0 * e if e else 99.0, **more}
        for i, e in enumerate(epochs)
    ]  # fmt: skip
    info = made.foreign_info(device="cuda", steps=1)
    return made.foreign({"convergence": info}, {"trainings": {"convergence": rows}})  # type: ignore[no-any-return]


def test_measured_trainings(made: Any) -> None:
    profile = trainings(made, [4.0, 6.0, 5.0, 9.0, None])
    row = evaluated(profile, "epochs_to_quality")
    assert (row["value"], row["origin"]) == (5.5, "measured")
    assert row["remark"] == "median of 4 runs; 1 more did not reach the target"
    assert value(profile, "samples_to_quality") == 550.0
    # mean 6, squared deviations 4 0 1 9: sd = sqrt(14 / 3)
    assert value(profile, "seed_cv_epochs") == pytest.approx(math.sqrt(14 / 3) / 6 * (1 + 1 / 16))
    assert value(profile, "time_per_epoch") == pytest.approx(10.0)
    assert "3 successful runs are too few" in evaluated(trainings(made, [4.0, 6.0, 5.0]), "seed_cv_epochs")["reason"]


def test_published_trainings_come_from_the_suite_s_file(named: Callable[..., Profile]) -> None:
    member = load_suite("mlperf-training-v0.7").member("mlperf-gnmt")
    assert member is not None
    facts = {fact.quantity: fact.value for fact in member.facts}
    profile = named("mlperf-gnmt")
    row = evaluated(profile, "epochs_to_quality")
    assert (row["value"], row["origin"], row["preset"]) == (facts["epochs to target, mean"], "published", None)
    cv, runs = facts["epochs to target, coefficient of variation"], facts["runs per result"]
    assert value(profile, "seed_cv_epochs") == pytest.approx(float(cv) / 100 * (1 + 1 / (4 * float(runs))))  # type: ignore[arg-type]
    # 4,500,000 sentence pairs are known from memory: no basis for a decision
    assert "from memory only" in evaluated(profile, "samples_to_quality")["reason"]
    assert training.published_samples(profile, from_memory=True).value == 4_500_000


def test_why_nothing_is_published(named: Callable[..., Profile]) -> None:
    reason = evaluated(named("mlperf-bert"), "epochs_to_quality")["reason"]
    assert "the results count samples, not epochs" in reason
    assert "wcbench import" in reason
    assert "another variant" in evaluated(named("mlperf-gnmt", "deep"), "epochs_to_quality")["reason"]
    with pytest.raises(NotMeasuredError, match="no suite's file"):
        training.published(named("mine:Mlp"), "epochs to target, mean")


def test_flops_to_quality_is_the_product(named: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch) -> None:
    from wcbench.suites import Fact

    size = Fact(quantity="training samples", value=1000, unit="pairs", source="a test", kind="published")
    monkeypatch.setattr(training, "published_samples", lambda profile: size)
    profile = named("mlperf-gnmt")
    assert value(profile, "samples_to_quality") == pytest.approx(4100.0)
    assert value(profile, "flops_to_quality") == pytest.approx(136 * 4100.0)


def test_timing(full: Profile) -> None:
    # 1 2 3 4 100 ms: the median is 3, the deviations 2 1 0 1 97 have the median 1
    assert value(full, "step_time_cv") == pytest.approx(1.4826 / 3)
    # 400 J by the counter of the first device, over 5 steps of 4 samples
    assert value(full, "energy_per_sample") == pytest.approx(400 / 20)


def test_every_feature_of_a_training_is_tested() -> None:
    names = {d.name for d in features.definitions() if d.needs in ("convergence", "timing")}
    assert names == {"epochs_to_quality", "samples_to_quality", "flops_to_quality", "seed_cv_epochs", "step_time_cv",
                     "time_per_epoch", "energy_per_sample"}  # fmt: skip
