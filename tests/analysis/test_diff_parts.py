"""Two summaries compared, each written by hand: conditions, steps of ranks and kinds, bases, counts, what is absent."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from wcbench.analysis.diff import Diff, of_summaries
from wcbench.analysis.diff_answer import answer
from wcbench.analysis.diff_hotspots import BY_NAME, BY_NUMBERS, BY_SHAPE, compared
from wcbench.analysis.diff_tables import operators, runtime, trainings
from wcbench.errors import UsageError

BLOCKS = ("steps", "complexity", "hotspots", "categories", "scaling", "lookups", "operators", "modules", "memory",
          "roofline", "measured_memory", "power", "primitives", "gates", "activity", "ops", "totals", "counters",
          "convergence", "allocations")  # fmt: skip
Rows = list[dict[str, Any]]


def run(**changes: Any) -> dict[str, Any]:
    """A pass."""
    usual = {
        "preset": "paper", "settings": {"batch_size": 4}, "batch_size": 4, "samples": 4, "precision": "fp32",
        "device": "cuda", "tensors": "real", "seed": 0, "steps": 8, "warmup": 1, "data_in_step": False, "mode": "train",
        "torch": {"threads": 2}, "step_kinds": {"train": 1.0}, "kind_samples": {}, "step_ms_median": None,
        "samples_per_s": None, "ranks": 1, "device_step_ms_median": None, "loss_first": None, "loss_last": None,
    }  # fmt: skip
    return {**usual, **changes}


def side(passes: dict[str, Any] | None = None, machine: dict[str, Any] | None = None, **blocks: Any) -> dict[str, Any]:
    """A summary in which only ``blocks`` were measured."""
    head = {
        "task": "toy", "variant": None, "run": "runs/toy", "created": "2026-01-01T00:00:00Z", "command": ["wcbench"],
        "source": None, "noise": [], "notes": [], "tables": {"steps": 1}, "machine": machine or {},
        "passes": {"timing": run()} if passes is None else passes,
    }  # fmt: skip
    return {**head, **dict.fromkeys(BLOCKS), **blocks}


def steps(times: list[float], *, rank: int = 0, kind: str = "train") -> Rows:
    return [
        {"rank": rank, "index": i, "role": "measured", "kind": kind, "duration_ns": round(1e6 * ms)}
        for i, ms in enumerate(times)
    ]


def spots(rows: list[tuple[str, str, float, float | None]], **changes: Any) -> dict[str, Any]:
    """A block of hotspots of (name, category, ns, calls)."""
    listed = [
        {"name": name, "category": category, "paper": category, "time_ns": ns, "calls": calls}
        for name, category, ns, calls in rows
    ]
    total = sum(row[2] for row in rows)
    usual = {"pass": "timeline", "of": "kernel time", "basis": "steps", "ranks": 1, "coverage": 1.0,
             "whole": {"total_ns": total}, "total_ns": total, "rows": listed}  # fmt: skip
    return {**usual, **changes}


EIGHT = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7]


def timed(times: list[float] = EIGHT, **changes: Any) -> dict[str, Any]:
    return side({"timing": run(**changes)}, steps={"rows": steps(times)})


# --- conditions -------------------------------------------------------------------------------------------------------


def test_threads_a_seed_and_a_version_are_no_like_conditions() -> None:
    a = timed() | {"machine": {"packages": {"torch": "2.13"}}}
    b = timed(torch={"threads": 4}, seed=1) | {"machine": {"packages": {"torch": "2.14"}}}
    found = of_summaries(a, b)
    assert [(row["what"], row["a"], row["b"], row["passes"]) for row in found.document["conditions"]] == [
        ("torch.threads", 2, 4, ["timing"]),
        ("seed", 0, 1, ["timing"]),
    ]
    assert found.answer[0] == (
        "A and B are both toy; they differ in threads 2 against 4; seed 0 against 1; torch 2.13 against 2.14."
    )


def test_a_pass_whose_times_do_not_count_is_compared_too() -> None:
    """The counts are of pass operators: its preset makes another number of every one of them."""
    a, b = ({"timing": run(preset="small"), "operators": run(preset=preset)} for preset in ("paper", "tiny"))
    found = of_summaries(side(a, steps={"rows": steps(EIGHT)}), side(b, steps={"rows": steps(EIGHT)}))
    assert [(row["what"], row["passes"]) for row in found.document["conditions"]] == [("preset", ["operators"])]
    assert "preset of pass operators paper against tiny" in found.answer[0]


def test_more_measured_steps_are_told_and_make_nothing_unlike() -> None:
    found = of_summaries(timed(), timed([*EIGHT, 10.8], steps=9, warmup=2))
    assert [row["what"] for row in found.document["conditions"]] == ["warmup"]
    assert (found.document["time"]["a_steps"], found.document["time"]["b_steps"]) == (8, 9)
    assert found.answer[0] == "A and B are both toy, run alike."


def test_a_graphics_card_is_named() -> None:
    a, b = (timed() | {"machine": {"gpus": [{"name": name}]}} for name in ("H100", "MI300X"))
    assert of_summaries(a, b).answer[0] == "A and B are both toy; they differ in GPU H100 against MI300X."


def test_what_imported_files_do_not_tell_is_not_called_alike() -> None:
    told = dict.fromkeys(("preset", "batch_size", "samples", "precision"))
    a, b = (
        side({"timeline": run(**told)}, source={"files": []}, steps={"rows": steps(EIGHT)}, task=name)
        for name in ("one.json", "other.json")
    )
    found = of_summaries(a, b)
    assert found.document["untold"] == [
        {"side": name, "what": ["preset", "batch_size", "precision"]} for name in ("A", "B")
    ]
    assert found.answer[0] == (
        "A is one.json, B is other.json, run alike as far as the files tell. The imported files do not tell preset, "
        "batch size, precision of both, and whether they are one workload."
    )
    assert "by the host's marks" in found.answer[1]


def test_failed_checks_and_noise_stand_in_the_answer() -> None:
    gates = {"rows": [{"name": "streams", "held": False, "text": "They overlap."},
                      {"name": "FLOP/s", "held": None, "text": "Not checked."}]}  # fmt: skip
    found = of_summaries(timed() | {"gates": gates}, timed() | {"noise": ["The machine was shared."]})
    assert found.document["doubts"] == [{"side": "A", "about": "streams", "text": "They overlap."}]
    assert found.answer[2:4] == (
        "Do not rely on the times of B: the record shows a machine that was not quiet.",
        "A fails checks of plausibility (streams).",
    )


# --- the time of a step -----------------------------------------------------------------------------------------------


def test_ranks_are_no_further_evidence() -> None:
    """Eight steps on each of three ranks are eight steps: of each the median over the ranks counts."""
    ranks = [row for rank, shift in enumerate((0.0, 0.5, 3.0)) for row in steps([t + shift for t in EIGHT], rank=rank)]
    several = side({"timing": run(ranks=3)}, steps={"rows": ranks})
    time = of_summaries(timed(), several).document["time"]
    assert time["b_ms"] == pytest.approx(statistics.median(EIGHT) + 0.5)
    assert (time["b_steps"], time["b_ranks"]) == (8, 3)
    assert time["b_high_ms"] - time["b_low_ms"] == pytest.approx(time["a_high_ms"] - time["a_low_ms"])


def test_kinds_that_were_not_measured_have_no_weight() -> None:
    """As `show` has it: of shares 0.6, 0.2 and 0.2 the first two were measured, so they weigh 0.75 and 0.25."""
    kinds = {"x": 0.6, "y": 0.2, "z": 0.2}
    rows = [*steps([8.0] * 8, kind="x"), *steps([100.0] * 8, kind="y")]
    found = of_summaries(timed(), side({"timing": run(step_kinds=kinds)}, steps={"rows": rows})).document["time"]
    assert found["b_ms"] == pytest.approx(0.75 * 8 + 0.25 * 100)


def test_an_average_step_has_the_samples_behind_its_rate() -> None:
    """Kinds of 1 and of 9 samples, 3 on average: 3 samples in 31 ms."""
    part = run(kind_samples={"y": 9}, samples=1, step_ms_median=31.0, samples_per_s=3 / 31e-3)
    found = of_summaries(timed(), side({"timing": part}, steps={"rows": steps(EIGHT)})).document["time"]
    assert (found["per"], found["a_samples"], found["b_samples"]) == ("sample", 4, 3)
    assert found["ratio"] == pytest.approx(4 / 3)


def test_five_steps_have_a_ratio_and_no_interval() -> None:
    time = of_summaries(timed(), timed([20.0] * 5)).document["time"]
    assert (time["low"], time["told_apart"]) == (None, None)
    assert time["ratio"] == pytest.approx(20 / 10.35)
    assert "too few steps" in time["reason"]


# --- where the time differs -------------------------------------------------------------------------------------------

A = [("f<4>", "GEMM", 600.0, 6.0), ("f<8>", "GEMM", 100.0, 1.0), ("same", "copy", 200.0, 2.0),
     ("gone", "copy", 50.0, 1.0), ("void g<float>(int)", "loss", 70.0, 1.0),
     ("same", "communication", 5.0, 1.0)]  # fmt: skip
B = [("f<2>", "GEMM", 500.0, 10.0), ("same", "copy", 300.0, 3.0), ("void g<double>(long)", "loss", 30.0, 1.0),
     ("new", "pooling", 40.0, 4.0), ("same", "communication", 9.0, 3.0)]  # fmt: skip


def test_pairs_of_every_kind_and_their_causes() -> None:
    found = compared(spots(A), spots(B), (1.0, 1.0))
    rows = {(row["name"], row["category"]): row for row in found["rows"]}
    assert {key: row["matched"] for key, row in rows.items()} == {
        ("f<4>", "GEMM"): BY_NUMBERS, ("same", "copy"): BY_NAME, ("same", "communication"): BY_NAME,
        ("void g<float>(int)", "loss"): BY_SHAPE, ("gone", "copy"): None, ("new", "pooling"): None,
    }  # fmt: skip
    gemm = rows["f<4>", "GEMM"]  # 700 ns in 7 calls against 500 ns in 10: 3 more calls of 75 ns, each 50 ns shorter
    assert (gemm["difference_ns"], gemm["calls_ns"], gemm["length_ns"]) == (-200, 3 * 75, -50 * 8.5)
    copy = rows["same", "copy"]  # as long as before, once more
    assert (copy["calls_ns"], copy["length_ns"]) == (100, 0)
    assert (rows["gone", "copy"]["b_ns"], rows["gone", "copy"]["difference_ns"]) == (None, -50)


def test_every_split_adds_up_to_the_difference_and_turns_its_sign() -> None:
    found, turned = compared(spots(A), spots(B), (1.0, 1.0)), compared(spots(B), spots(A), (1.0, 1.0))
    whole = 879 - 1025
    assert found["difference_ns"] == whole
    for view in ("rows", "full", "paper"):
        assert math.fsum(row["difference_ns"] for row in found[view]) == whole
    assert math.fsum(found["parts"].values()) == pytest.approx(whole)
    assert found["parts"]["only_a_ns"] == -50
    assert found["parts"]["only_b_ns"] == 40
    assert turned["parts"]["calls_ns"] == pytest.approx(-found["parts"]["calls_ns"])
    assert turned["parts"]["length_ns"] == pytest.approx(-found["parts"]["length_ns"])


def test_calls_that_a_file_does_not_tell_stay_unknown() -> None:
    found = compared(spots([("f", "GEMM", 10.0, None)]), spots([("f", "GEMM", 30.0, 2.0)]), (1.0, 1.0))
    row = found["rows"][0]
    assert (row["a_calls"], row["b_calls"], row["calls_ns"], row["length_ns"]) == (None, 2, None, None)
    assert found["parts"]["uncounted_ns"] == 20


def test_a_step_is_not_subtracted_from_a_whole_trace() -> None:
    a = side({"timeline": run()}, hotspots=spots([("f", "GEMM", 60.0, 1.0), ("g", "loss", 40.0, 1.0)]))
    whole = spots([("f", "GEMM", 1000.0, 9.0)], basis="trace")
    found = of_summaries(a, side({"timeline": run()}, hotspots=whole))
    part = found.document["hotspots"]
    assert (part["per"], part["difference_ns"], part["parts"]) == (None, None, None)
    assert {row["difference_ns"] for row in (*part["rows"], *part["full"])} == {None}
    assert [(row["category"], row["difference_share"]) for row in part["full"]] == [("GEMM", 0.4), ("loss", -0.4)]
    assert found.answer[-1] == (
        "Times of functions are not subtracted (a step against a whole trace); of each one's own time most differs "
        "GEMM (60 % of A, 100 % of B) and loss (40 % of A, 0 % of B)."
    )


def test_whole_records_are_not_called_steps() -> None:
    a, b = (
        side({"counters": run()}, hotspots=spots([("f", "GEMM", ns, 1.0)], basis="all", **{"pass": "counters"}))
        for ns in (1000.0, 3000.0)
    )
    found = of_summaries(a, b)
    assert found.document["hotspots"]["per"] == "record"
    assert "B − A in kernel time is +2 µs in all, most of it in GEMM (+2 µs)" in found.answer[-1]


def test_a_function_is_named_where_most_have_partners_only() -> None:
    a, b = (side({"timeline": run()}, hotspots=spots([(n, "GEMM", t, 1.0)])) for n, t in (("f", 10.0), ("q", 30.0)))
    assert (
        of_summaries(a, b)
        .answer[-1]
        .endswith("functions with a partner in the other hold 0 % of A's time and 0 % of B's.")
    )
    same = of_summaries(a, {**a, "hotspots": spots([("f", "GEMM", 30.0, 1.0)])})
    assert same.answer[-1].endswith("the function that differs most is f (+20 ns).")
    assert answer(same.document, lambda name: f"<{name}>")[-1].endswith("is <f> (+20 ns).")


def test_operators_and_runtime_calls_of_two_architectures() -> None:
    def machine(kernel: str, operator: str, call: str, ns: float) -> dict[str, Any]:
        listed = [{"name": operator, "category": "convolution", "calls": 3, "device_ns": ns},
                  {"name": "aten::empty", "category": "view and allocation", "calls": 9, "device_ns": 0.0}]  # fmt: skip
        calls = [{"kind": "runtime", "name": call, "calls": 5, "total_ns": 50.0},
                 {"kind": "kernel", "name": "x", "calls": 1, "total_ns": 1.0}]  # fmt: skip
        return side({"timeline": run()}, hotspots=spots([(kernel, "convolution", 4 * ns, 1.0)]), ops={"rows": listed},
                    totals={"rows": calls})  # fmt: skip

    a = machine("k", "aten::cudnn_convolution", "cudaLaunchKernel", 100.0)
    b = machine("q", "aten::miopen_convolution", "hipLaunchKernel", 300.0)
    assert operators(a, b) == [
        {"name": "aten::cudnn_convolution / aten::miopen_convolution", "category": "convolution", "a_ns": 100.0,
         "a_calls": 3, "a_share": 0.25, "b_ns": 300.0, "b_calls": 3, "b_share": 0.25, "difference_share": 0.0},
    ]  # fmt: skip
    assert [(row["name"], row["a_calls"], row["b_ns"]) for row in runtime(a, b)] == [
        ("cudaLaunchKernel / hipLaunchKernel", 5, 50.0)
    ]
    assert operators(a, side()) == runtime(a, side()) == []


# --- amounts ----------------------------------------------------------------------------------------------------------


def counted(samples: int, flops: int, **changes: Any) -> dict[str, Any]:
    found = {"pass": "operators", "samples": samples, "params_total": 7, "flops_matrix_step": flops, "continued": None}
    return {**found, **changes}


def amount(found: Diff, name: str) -> dict[str, Any]:
    return next(row for row in found.document["quantities"] if row["name"] == name)


def test_counts_are_divided_by_the_samples_of_their_own_pass() -> None:
    """Timed at one batch, counted at two: times are of a step, FLOPs of a sample."""
    a, b = (timed() | {"complexity": counted(n, flops)} for n, flops in ((4, 80), (8, 152)))
    found = of_summaries(a, b)
    row = amount(found, "matrix FLOPs")
    assert (found.document["time"]["per"], row["per"], row["a"], row["b"]) == ("step", "sample", 20, 19)
    assert (row["difference"], row["ratio"], row["equal"]) == (-1, 0.95, False)
    row = amount(found, "parameters")
    assert (row["per"], row["a"], row["difference"], row["equal"]) == (None, 7, 0, True)


def test_a_step_counted_at_a_shorter_length_is_compared_at_its_own() -> None:
    a = timed() | {"complexity": counted(4, 80, continued={"flops_matrix_step": 800.0})}
    assert amount(of_summaries(a, timed() | {"complexity": counted(4, 880)}), "matrix FLOPs")["ratio"] == pytest.approx(
        1.1
    )


def test_shares_of_a_span_are_medians_over_devices() -> None:
    def busy(*times: int) -> dict[str, Any]:
        devices = [{"span_ns": 100, "computation_ns": ns} for ns in times]
        return timed() | {
            "activity": {"pass": "timeline", "utilization": 0.5, "hidden_share": None, "devices": devices}
        }

    found = of_summaries(busy(10), busy(20, 30, 90))
    row = amount(found, "computation, of a device's span")
    assert (row["a"], row["b"], row["ratio"]) == (0.1, 0.3, pytest.approx(3))
    assert (amount(found, "devices")["a"], amount(found, "devices")["b"]) == (1, 3)
    hidden = amount(found, "communication hidden")
    assert (hidden["a"], hidden["ratio"], hidden["reason"]) == (None, None, "not known of A and B")


def test_capacities_of_both_and_per_sample() -> None:
    def cached(samples: int, traffic: list[list[int]]) -> dict[str, Any]:
        memory = {"pass": "operators", "traffic": traffic, "miss_ratio": [[c, 0.5] for c, _ in traffic]}
        return timed() | {"complexity": counted(samples, 1), "memory": memory}

    found = of_summaries(cached(4, [[256, 80], [512, 40]]), cached(8, [[512, 24], [1024, 8]])).document
    assert found["capacities"] == [
        {"capacity": 512, "per": "sample", "a_traffic": 10, "b_traffic": 3, "a_miss_ratio": 0.5, "b_miss_ratio": 0.5}
    ]


def test_counters_of_one_kernel_and_metric() -> None:
    def counter(kernel: str, value: float, five: Any) -> dict[str, Any]:
        rows = [{"kernel": kernel, "metric": "m", "unit": "%", "value": value, "calls": 2},
                {"kernel": "k", "metric": "n", "unit": "", "value": value, "calls": 2}]  # fmt: skip
        return timed() | {"counters": {"rows": rows, "five": {"ipc": five}}}

    a = counter("k", 3.0, {"value": 0.25, "reason": None})
    b = counter("other", 4.0, {"value": None, "reason": "no such metric"})
    found = of_summaries(a, b).document["counters"]
    assert [(row["kernel"], row["metric"], row["a"], row["b"]) for row in found["rows"]] == [("k", "n", 3.0, 4.0)]
    assert (found["only_a"], found["only_b"]) == (1, 1)
    assert found["five"] == [{"name": "ipc", "a": 0.25, "b": None, "reason": "B: no such metric"}]
    assert of_summaries(a, timed()).document["counters"] is None


# --- training runs ----------------------------------------------------------------------------------------------------


def trained(*systems: tuple[str, list[tuple[float, str]]]) -> dict[str, Any]:
    rows: Rows = []
    groups = []
    for system, runs in systems:
        numbers = range(len(rows), len(rows) + len(runs))
        rows += [{"run": n, "status": status, "seconds": s, "epochs": 3.0, "samples": None}
                 for n, (s, status) in zip(numbers, runs, strict=True)]  # fmt: skip
        known = [s for s, status in runs if status == "success"]
        spread = {"n": len(known), "least": min(known), "most": max(known)}
        groups.append({"benchmark": "resnet", "system": system, "series": None, "runs": list(numbers),
                       "seconds": spread, "samples": {"n": 0},
                       "epochs": {"n": len(known), "least": 3.0, "most": 3.0}})  # fmt: skip
    return side({"convergence": run()}, convergence={"rows": rows, "groups": groups})


GOOD = [(100.0, "success"), (104.0, "success"), (102.0, "success")]


def test_only_runs_that_reached_the_target_count() -> None:
    a = trained(("one", [*GOOD, (1.0, "aborted"), (2.0, "")]))
    found = of_summaries(a, trained(("two", [(51.0, "success")])))
    row = found.document["trainings"][0]
    assert (row["of"], row["a"], row["a_runs"], row["a_least"], row["a_most"]) == ("seconds", 102, 3, 100, 104)
    assert (row["b"], row["ratio"], row["low"]) == (51, 0.5, None)
    assert [entry["of"] for entry in found.document["trainings"]] == ["seconds", "epochs"]
    assert found.answer[-1] == (
        "To its target resnet needs in B 51 s against 102 (B / A 0.5; too few runs for an interval) and 3 epochs "
        "against 3 (B / A 1; too few runs for an interval), medians of 1 and 3 successful runs."
    )
    assert not any("Step times" in sentence for sentence in found.answer)


def test_systems_do_not_mix() -> None:
    several = trained(("one", GOOD), ("two", [(51.0, "success")]))
    rows = trainings(several, trained(("two", [(17.0, "success")]), ("three", GOOD)))
    assert [(row["a_system"], row["a"], row["b"]) for row in rows if row["of"] == "seconds"] == [("two", 51, 17)]


# --- what is absent ---------------------------------------------------------------------------------------------------


def test_what_one_lacks_has_its_reason() -> None:
    a = timed() | {"complexity": counted(4, 1), "power": {"devices": []}}
    b = timed() | {"notes": [{"about": "power.energy", "text": "No counter."}]}
    found = {row["about"]: (row["side"], row["text"]) for row in of_summaries(a, b).document["missing"]}
    assert found == {
        "complexity": ("B", "Only A has it. B: pass operators was not run."),
        "power": ("B", "Only A has it. B: No counter."),
    }


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing in common"):
        of_summaries(timed(), side({"operators": run()}, complexity=counted(4, 1)))


def test_a_record_against_itself_differs_in_nothing() -> None:
    one = timed() | {"complexity": counted(4, 80), "hotspots": spots(A)}
    found = of_summaries(one, one)
    assert found.document["conditions"] == found.document["machine"] == found.document["missing"] == []
    assert (found.document["time"]["ratio"], found.document["time"]["told_apart"]) == (1, False)
    assert {row["difference_ns"] for row in found.document["hotspots"]["rows"]} == {0}
    assert found.answer[-1] == "Both spend the same kernel time."


def test_frames_by_name() -> None:
    found = of_summaries(timed() | {"hotspots": spots(A)}, timed(seed=1) | {"hotspots": spots(B)})
    assert len(found.to_frame()) == 6
    assert list(found.to_frame("conditions")["what"]) == ["seed"]
    assert found.to_frame("trainings").empty
    with pytest.raises(UsageError, match="no table 'hotspot'"):
        found.to_frame("hotspot")
