"""MLPerf logs of every version; figures of real ones against the published table, row by row."""

from __future__ import annotations

import ast
import csv
import json
import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profilers.readers.conftest import Result, Run
from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Source
from wcbench.profilers.readers.mlperf import MlperfLog
from wcbench.profilers.readers.mlperf_lines import MARK
from wcbench.profilers.readers.mlperf_runs import RULES, meaning

START = 1_600_000_000_000

Line = tuple[float, str, Any, dict[str, Any]]


def mllog(lines: Iterable[Line], prefix: str = "") -> str:
    """Lines of v0.7; times are seconds after START."""
    return "".join(
        f"{prefix}:::MLLOG "
        + json.dumps({"namespace": "", "time_ms": round(START + 1000 * at), "event_type": "POINT_IN_TIME", "key": key,
                      "value": value, "metadata": {"file": "train.py", "lineno": 1, **meta}})
        + "\n"
        for at, key, value, meta in lines
    )  # fmt: skip


def training(
    benchmark: str = "resnet",
    evaluations: Iterable[tuple[float, float, Any]] = ((60, 1, 0.5), (120, 2, 0.8)),
    *,
    stop: float = 121.5,
    status: str = "success",
    at: float = 0,
    seed: Any = 7,
) -> list[Line]:
    """A run; each evaluation is (seconds, number, value)."""
    return [
        (at - 9, "submission_benchmark", benchmark, {}),
        (at - 9, "submission_org", "ACME", {}),
        (at - 9, "submission_platform", "4xAbacus", {}),
        (at - 9, "submission_poc_email", "jane@example.org", {}),
        (at - 8, "seed", seed, {}),
        (at - 8, "global_batch_size", 256, {}),
        (at - 8, "opt_base_learning_rate", 0.1, {}),
        (at, "run_start", None, {}),
        *((at + when, "eval_accuracy", value, {"epoch_num": number}) for when, number, value in evaluations),
        (at + stop, "run_stop", None, {"status": status}),
    ]


def only(frame: pd.DataFrame) -> dict[str, Any]:
    assert len(frame) == 1
    return {str(key): None if pd.isna(value) else value for key, value in frame.iloc[0].items()}


def unended(*, at: float, seed: int, initialized: bool) -> list[Line]:
    lines = [line for line in training(at=at, seed=seed) if line[1] != "run_stop"]
    return [(at - 10, "init_start", None, {}), *lines] if initialized else lines


@pytest.mark.parametrize("initialized", [True, False])
@pytest.mark.parametrize("later", [1000, 40])
def test_what_is_logged_before_a_run_start_is_of_that_run(run: Run, initialized: bool, later: float) -> None:
    """A job that was killed and queued again; also within the time in which processes repeat each other."""
    first = unended(at=0, seed=7, initialized=initialized)[: -2 if later < 60 else None]
    second = unended(at=later, seed=8, initialized=initialized)
    second.insert(-3, (later - 1, "gradient_accumulation_steps", 4, {}))  # only the second says it
    result = run(MlperfLog(), mllog([*first, *second]))
    trainings = result.tables["trainings"]
    assert trainings["seed"].tolist() == [7, 8]
    assert trainings["batch_size"].tolist() == [256, 256]
    assert trainings["benchmark"].tolist() == ["resnet", "resnet"]
    assert trainings["status"].isna().all()


def test_what_another_process_says_again_stays_with_its_run(run: Run) -> None:
    lines = training()
    echo = [(at + 8.3, key, value, meta) for at, key, value, meta in lines[:7]]  # within a second of run_start
    result = run(MlperfLog(), mllog([*lines[:8], *echo, (0.4, "run_start", None, {}), *lines[8:]]))
    assert only(result.tables["trainings"])["seed"] == 7
    assert only(result.tables["trainings"])["batch_size"] == 256


def test_settings_of_a_run_that_never_began_change_nothing(run: Run) -> None:
    first = unended(at=0, seed=7, initialized=True)
    second = unended(at=1000, seed=8, initialized=True)
    result = run(MlperfLog(), mllog([*first, *second[:8]]))  # cut before its run_start
    assert only(result.tables["trainings"])["seed"] == 7


def test_a_run_of_v07(run: Run) -> None:
    result = run(MlperfLog(), "some output\n" + mllog(training()))
    row = only(result.tables["trainings"])
    row.pop("logged", None)
    assert row == {
        "pass": "convergence", "run": 0, "file": "file-1", "benchmark": "resnet", "system": "4xAbacus",
        "submitter": "ACME", "seed": 7, "batch_size": 256, "target": None, "metric": None, "status": "success",
        "seconds": 121.5, "epochs": 2.0, "samples": None, "quality": 0.8,
    }  # fmt: skip
    epochs = result.tables["epochs"]
    assert list(epochs["epoch"]) == [1.0, 2.0]
    assert list(epochs["seconds"]) == [60.0, 120.0]
    assert list(epochs["quality"]) == [0.5, 0.8]
    assert epochs["samples"].isna().all()
    assert epochs["metric"].isna().all()
    facts = result.passes["convergence"]
    assert (facts.device, facts.seconds, facts.batch_size, facts.seed) == ("4xAbacus", 121.5, 256, 7)
    assert facts.settings["opt_base_learning_rate"] == 0.1
    assert "jane" not in str(facts.settings)
    assert result.losses == []
    assert result.notes == []


def test_a_run_of_v06(run: Run) -> None:
    text = (
        "0: :::MLL 1556733600.250 submission_benchmark: {\"value\": \"ssd\", \"metadata\": {}}\n"
        "0: :::MLL 1556733600.250 run_start: {\"value\": null, \"metadata\": {\"lineno\": 7, \"file\": \"a.py\"}}\n"
        "0: :::MLL 1556733660.750 eval_accuracy: {\"metadata\": {\"epoch_num\": 40}, \"value\": 0.21}\n"
        "0: :::MLL 1556733661.000 run_stop: {\"value\": null, \"metadata\": {\"status\": \"aborted\"}}\n"
    )  # fmt: skip
    result = run(MlperfLog(), text)
    row = only(result.tables["trainings"])
    assert (row["benchmark"], row["status"], row["seconds"], row["epochs"], row["quality"]) == (
        "ssd", "aborted", 60.75, 40.0, 0.21)  # fmt: skip
    assert list(result.tables["epochs"]["seconds"]) == [60.5]
    assert result.losses == []


def test_a_run_of_v05(run: Run) -> None:
    mark = "NCF_RAW_:::MLPv0.5.0 resnet"
    text = (
        f"{mark} 1541635700.0 (main.py:1) run_set_random_seed: 41\n"
        f"{mark} 1541635700.0 (main.py:1) eval_target: 0.749\n"
        f"{mark} 1541635700.5 (main.py:2) run_start\n"
        f"{mark} 1541635701.0 (main.py:3) train_epoch: 0\n"
        f"{mark} 1541635710.5 (main.py:4) eval_accuracy: {{\"epoch\": 0, \"value\": 0.3}}\n"
        f"{mark} 1541635710.6 (main.py:3) train_epoch: 1\n"
        f"{mark} 1541635720.5 (main.py:4) eval_accuracy: {{\"epoch\": 1, \"value\": 0.75}}\n"
        f"{mark} 1541635720.5 (main.py:4) opt_name: \"adam\"\n"
        f"{mark} 1541635721.5 (main.py:5) run_stop: {{\"success\": true}}\n"
        f"{mark} 1541635721.6 (main.py:6) run_final\n"
    )  # fmt: skip
    result = run(MlperfLog(), text)
    row = only(result.tables["trainings"])
    assert (row["benchmark"], row["seed"], row["target"], row["status"]) == ("resnet", 41, 0.749, "success")
    assert (row["seconds"], row["epochs"], row["quality"]) == (21.0, 2.0, 0.75), "epochs 0 and 1 are two"
    assert result.passes["convergence"].settings["opt_name"] == "adam"
    assert result.losses == []


def test_v05_that_failed_and_v05_that_does_not_say(run: Run) -> None:
    mark = ":::MLPv0.5.0 ncf"
    start = f"{mark} 100.0 (a.py:1) run_start\n"
    failed = run(MlperfLog(), start + f"{mark} 110.0 (a.py:1) run_stop: {{\"success\": false}}\n")  # fmt: skip
    assert only(failed.tables["trainings"])["status"] == "aborted"
    silent = run(MlperfLog(), start + f"{mark} 110.0 (a.py:1) run_stop: {{\"success\": []}}\n")  # fmt: skip
    assert only(silent.tables["trainings"])["status"] is None
    assert [loss.what for loss in silent.losses] == ["a status"]


def test_several_processes_that_log_the_same_count_once(run: Run) -> None:
    lines = training()
    echoed = [(at + rank / 1000, key, value, meta) for at, key, value, meta in lines for rank in range(8)]
    result = run(MlperfLog(), mllog(echoed, prefix="3: "))
    assert only(result.tables["trainings"])["seconds"] == 121.5
    assert list(result.tables["epochs"]["epoch"]) == [1.0, 2.0]
    assert result.notes == ["Several processes logged the same events; each is counted once."]
    assert result.losses == []


def test_a_process_that_flushes_late_is_no_second_run(run: Run) -> None:
    lines = training()
    result = run(MlperfLog(), mllog(lines) + mllog([(at + 0.02, *rest) for at, *rest in lines]))  # type: ignore[misc]
    assert only(result.tables["trainings"])["seconds"] == 121.5
    assert len(result.tables["epochs"]) == 2


def test_several_runs_in_a_file(run: Run) -> None:
    second = [line for line in training(at=500, stop=99, status="aborted", seed=8) if not line[1].startswith("subm")]
    third = [line for line in training(at=900, stop=130) if line[1] != "seed"]
    result = run(MlperfLog(), mllog([*training(), *second, *third]))
    rows = result.tables["trainings"]
    assert list(rows["run"]) == [0, 1, 2]
    assert list(rows["seconds"]) == [121.5, 99.0, 130.0]
    assert list(rows["status"]) == ["success", "aborted", "success"]
    assert list(rows["benchmark"]) == ["resnet"] * 3, "said once, of all"
    assert [None if pd.isna(seed) else seed for seed in rows["seed"]] == [7, 8, None], "a seed is of its own run"
    assert list(result.tables["epochs"]["run"]) == [0, 0, 1, 1, 2, 2]
    facts = result.passes["convergence"]
    assert (facts.seed, facts.batch_size, facts.seconds) == (None, 256, 350.5)


def test_what_stands_behind_run_stop_is_of_the_run(run: Run) -> None:
    """Google's logs name the submission at their end."""
    lines = training()
    late = [(200.0, *line[1:]) for line in lines if line[1].startswith("submission")]
    again = [(at + 1000, *rest) for at, *rest in [*lines[4:], *late]]
    again.insert(0, (900.0, "cache_clear", True, {}))
    result = run(MlperfLog(), mllog([*lines[4:], *late, *again]))  # type: ignore[list-item]
    assert list(result.tables["trainings"]["benchmark"]) == ["resnet", "resnet"]
    assert list(result.tables["trainings"]["system"]) == ["4xAbacus"] * 2


def test_the_next_run_speaks_before_it_starts(run: Run) -> None:
    """The seed behind cache_clear is the second run's, though the first has none."""
    first = [line for line in training() if line[1] != "seed"]
    second = [(900.0, "cache_clear", True, {}), (901.0, "seed", 8, {}), *training(at=1000)[7:]]
    result = run(MlperfLog(), mllog([*first, *second]))
    assert [None if pd.isna(seed) else seed for seed in result.tables["trainings"]["seed"]] == [None, 8]


def test_an_evaluation_behind_run_stop_is_not_the_last(run: Run) -> None:
    result = run(MlperfLog(), mllog([*training(), (130, "eval_accuracy", 0.9, {"epoch_num": 3})]))
    row = only(result.tables["trainings"])
    assert (row["epochs"], row["quality"]) == (2.0, 0.8)
    assert [(loss.what, loss.why) for loss in result.losses] == [("an evaluation", "it stands after run_stop")]


def test_a_log_that_is_cut_has_no_status(run: Run) -> None:
    result = run(MlperfLog(), mllog(training()[:-1]))
    row = only(result.tables["trainings"])
    assert (row["status"], row["seconds"], row["epochs"]) == (None, None, 2.0)
    assert [(loss.what, loss.count) for loss in result.losses] == [("the end of a run", 1)]


def test_a_log_that_starts_later_has_no_time(run: Run) -> None:
    result = run(MlperfLog(), mllog(training()[8:]))
    row = only(result.tables["trainings"])
    assert (row["status"], row["seconds"], row["quality"]) == ("success", None, 0.8)
    assert result.tables["epochs"]["seconds"].isna().all()
    assert [loss.what for loss in result.losses] == ["the beginning of a run"]


def test_mask_rcnn_keeps_both_metrics(run: Run) -> None:
    values = ({"BBOX": 0.3, "SEGM": 0.2}, {"BBOX": 0.38, "SEGM": 0.34})
    evaluations = [(60.0, 1, values[0]), (120.0, 2, values[1])]
    result = run(MlperfLog(), mllog(training("maskrcnn", evaluations)))
    row = only(result.tables["trainings"])
    assert (row["metric"], row["quality"], row["epochs"]) == ("BBOX, SEGM", None, 2.0)
    epochs = result.tables["epochs"]
    assert list(epochs["epoch"]) == [1, 1, 2, 2]
    assert list(epochs["metric"]) == ["BBOX", "SEGM"] * 2
    assert list(epochs["quality"]) == [0.3, 0.2, 0.38, 0.34]
    assert len(result.notes) == 1


# --- what the numbers mean ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("benchmark", "number", "origin", "shift", "expected"),
    [
        ("resnet", 41, 1, 0, ("epochs", 41)),
        ("resnet", 39, 0, 1, ("epochs", 40)),
        ("dlrm", 1.75, 1, 0, ("epochs", 0.75)),
        ("dlrm", 0.75, 0, 0, ("epochs", 0.75)),
        ("dlrm", 0.75, None, 0, ("epochs", 0.75)),
        ("dlrm", 1.75, None, 0, ("unknown", None)),
        ("dlrm_dcnv2", 1.5, 0, 0, ("epochs", 1.5)),
        ("bert", 3_000_064, None, 0, ("samples", 3_000_064)),
        ("bert", 1, 1, 0, ("under way", None)),
        ("unet3d", 2200, None, 0, ("epochs", 2200)),
        ("unet3d", 369_600, None, 0, ("samples", 369_600)),
        ("gpt3", 24576, None, 0, ("unknown", None)),
        ("gpt3", 1_207_959_552, None, 0, ("unknown", None)),
        (None, 3, 1, 0, ("epochs", 3)),
        ("something new", 1_000_000, None, 0, ("unknown", None)),
        ("resnet", None, None, 0, ("unknown", None)),
    ],
)
def test_units_are_never_mixed(benchmark: Any, number: Any, origin: Any, shift: int, expected: Any) -> None:
    assert meaning(benchmark, number, origin, shift) == expected


def test_every_rule_says_why() -> None:
    assert all(len(rule.why) > 5 for rule in RULES.values())


def test_samples_are_no_epochs(run: Run) -> None:
    result = run(MlperfLog(), mllog(training("bert", [(60, 3_000_064, 0.7), (120, 3_500_032, 0.72)])))
    row = only(result.tables["trainings"])
    assert (row["epochs"], row["samples"]) == (None, 3_500_032)
    assert list(result.tables["epochs"]["samples"]) == [3_000_064, 3_500_032]
    assert result.tables["epochs"]["epoch"].isna().all()


def test_samples_count_takes_the_place_of_epochs(run: Run) -> None:
    lines = training("llama2_70b_lora", [])
    lines.insert(-1, (50, "train_loss", 1.25, {"samples_count": 320}))
    lines.insert(-1, (60, "eval_accuracy", 0.924, {"samples_count": 384}))
    result = run(MlperfLog(), mllog(lines))
    row = only(result.tables["trainings"])
    assert (row["epochs"], row["samples"], row["quality"]) == (None, 384, 0.924)
    assert list(result.tables["epochs"]["loss"]) == [1.25]


def test_tokens_are_neither(run: Run) -> None:
    result = run(MlperfLog(), mllog(training("gpt3", [(60, 1_207_959_552, 2.69)])))
    row = only(result.tables["trainings"])
    assert (row["epochs"], row["samples"], row["quality"]) == (None, None, 2.69)
    assert "tokens or steps" in result.notes[0]


def test_fractions_count_from_the_number_of_the_first_epoch(run: Run) -> None:
    lines = training("dlrm", [(60, 1.25, 0.79), (120, 1.75, 0.81)])
    lines.insert(8, (0, "epoch_start", None, {"epoch_num": 1}))
    lines.append((122, "epoch_stop", None, {"epoch_num": 2}))
    result = run(MlperfLog(), mllog(lines))
    assert only(result.tables["trainings"])["epochs"] == 0.75
    assert list(result.tables["epochs"]["epoch"]) == [0.25, 0.75]
    assert "Epochs are those trained" in result.notes[0]


def blocks(first: int, eval_number: int, *, stopped: bool) -> list[Line]:
    """One block of four epochs from 0, and its evaluation."""
    block = {"first_epoch_num": first, "epoch_count": 4}
    lines: list[Line] = [(at, key, None, block) for at, key in ((1, "block_start"), (50, "block_stop"))]
    evaluation: Line = (60, "eval_accuracy", 0.8, {"epoch_num": eval_number})
    lines.insert(2 if stopped else 1, evaluation)
    return [*training(evaluations=[])[:-1], *lines, (70, "run_stop", None, {"status": "success"})]


@pytest.mark.parametrize(
    ("first", "number", "stopped", "epochs"),
    [
        (0, 3, True, 4.0),  # Intel's resnet: epochs 0 to 3
        (0, 3, False, 4.0),  # Google's resnet: evaluated within the block
        (0, 4, True, 4.0),  # Google's ssd: epochs counted
        (1, 4, True, 4.0),  # NVIDIA's: epochs 1 to 4
    ],
)
def test_epochs_numbered_from_0_and_epochs_counted(
    run: Run, first: int, number: int, stopped: bool, epochs: float
) -> None:
    result = run(MlperfLog(), mllog(blocks(first, number, stopped=stopped)))
    assert only(result.tables["trainings"])["epochs"] == epochs
    rows = result.tables["epochs"]
    assert list(rows["epoch"]) == [4.0, 4.0], "the block's end and the evaluation"
    assert rows["quality"].notna().sum() == 1


def test_an_epoch_that_has_begun_meanwhile_is_not_counted(run: Run) -> None:
    """Google's ssd evaluates while the next block runs; here with blocks of one epoch, counted from 1."""
    lines: list[Line] = []
    for first in (0, 1):
        block = {"first_epoch_num": first, "epoch_count": 1}
        lines += [(60 * first + 1, "block_start", None, block), (60 * first + 50, "block_stop", None, block)]
    lines.insert(3, (65, "eval_accuracy", 0.8, {"epoch_num": 1}))
    result = run(MlperfLog(), mllog([*training(evaluations=[])[:-1], *lines]))
    assert only(result.tables["trainings"])["epochs"] == 1.0


def test_blocks_that_add_up_to_other_epochs_are_noted(run: Run) -> None:
    lines = blocks(0, 3, stopped=True)
    more: list[Line] = [
        (61, "block_start", None, {"first_epoch_num": 3, "epoch_count": 4}),
        (62, "block_stop", None, {"first_epoch_num": 3}),
        (63, "eval_accuracy", 0.9, {"epoch_num": 6}),
    ]
    result = run(MlperfLog(), mllog([*lines[:-1], *more, lines[-1]]))
    assert only(result.tables["trainings"])["epochs"] == 7.0
    assert any("add up" in note for note in result.notes)


def test_ends_of_epochs_are_rows_without_quality(run: Run) -> None:
    ends: list[Line] = [(60.0 * n, "epoch_stop", None, {"epoch_num": n}) for n in (1, 2, 3)]
    lines = training(evaluations=[])
    result = run(MlperfLog(), mllog([*lines[:-1], *ends, (200, "run_stop", None, {"status": "success"})]))
    rows = result.tables["epochs"]
    assert list(rows["epoch"]) == [1.0, 2.0, 3.0]
    assert list(rows["seconds"]) == [60.0, 120.0, 180.0]
    assert rows["quality"].isna().all()
    assert only(result.tables["trainings"])["epochs"] is None, "nothing was evaluated"


# --- damage -------------------------------------------------------------------------------------------------------


def test_damaged_lines_are_told(run: Run) -> None:
    bad = [
        ":::MLLOG {garbage\n",
        ":::MLLOG {\"key\": 3, \"value\": 1}\n",
        ":::MLLOG " + "{\"a\":" * 100_000 + "\n",
        ":::MLLOG {\"key\": \"seed\", \"value\": " + "9" * 5000 + "}\n",
        ":::MLL 155 eval_accuracy: [1]\n",
        ":::MLLOG\n",
    ]  # fmt: skip
    good = mllog(training())
    result = run(MlperfLog(), good[: good.index("\n") + 1] + "".join(bad) + good[good.index("\n") + 1 :])
    assert only(result.tables["trainings"])["quality"] == 0.8
    first = len(good[: good.index("\n") + 1])
    found = {(loss.what, loss.why): (loss.count, loss.offset) for loss in result.losses}
    assert found == {
        ("a log line", "what follows the mark is no JSON"): (3, first),
        ("a log line", "it has no key or no value"): (2, first + len(bad[0])),
    }


def test_two_events_on_one_line(run: Run) -> None:
    text = mllog(training())
    lines = text.splitlines()
    joined = "\n".join([*lines[:-2], lines[-2] + " 3: " + lines[-1]])
    assert only(run(MlperfLog(), joined).tables["trainings"])["status"] == "success"


def test_numbers_that_are_none(run: Run) -> None:
    lines = training(evaluations=[(60, 1, math.nan), (90, 1e400, 0.4), (100, 2, True)], seed=2**63)
    text = mllog(lines).replace("Infinity", "1e400")
    result = run(MlperfLog(), text)
    row = only(result.tables["trainings"])
    assert (row["seed"], row["quality"], row["epochs"], row["seconds"]) == (None, None, 2.0, 121.5)
    assert [None if pd.isna(value) else value for value in result.tables["epochs"]["quality"]] == [None, 0.4, None]
    assert {(loss.what, loss.count, loss.repaired) for loss in result.losses} == {
        ("a quality", 2, True), ("the seed", 1, False)}  # fmt: skip


def test_a_clock_that_goes_back(run: Run) -> None:
    result = run(MlperfLog(), mllog(training(evaluations=[(-20, 1, 0.5), (50, 2, 0.8)], stop=-5)))
    assert only(result.tables["trainings"])["seconds"] is None
    assert [None if pd.isna(x) else x for x in result.tables["epochs"]["seconds"]] == [None, 50.0]
    assert {loss.what for loss in result.losses} == {"a time", "a time to train"}


def test_evaluations_after_the_run_have_no_time(run: Run) -> None:
    """Minigo's are made from saved models when the training is over, and run_stop, written last, has the run's time."""
    lines = training("minigo", [(5000, 1, 0.1), (5000, 2, 0.6)], stop=700)
    lines.insert(8, (600, "epoch_stop", None, {"epoch_num": 18}))
    lines.insert(9, (900, "epoch_stop", None, {"epoch_num": 19}))
    result = run(MlperfLog(), mllog(lines))
    assert only(result.tables["trainings"])["seconds"] == 700.0
    rows = result.tables["epochs"]
    assert list(rows["epoch"]) == [1.0, 1.0, 2.0]
    assert [None if pd.isna(x) else x for x in rows["seconds"]] == [600.0, None, None]
    assert len(result.notes) == 1
    assert [(loss.what, loss.count) for loss in result.losses] == [("the end of an epoch", 1)]


def test_a_log_without_a_run_is_refused(run: Run) -> None:
    with pytest.raises(ReadError, match="file-1 holds lines of MLPerf, but no run"):
        run(MlperfLog(), mllog(training()[:7]))


@pytest.mark.parametrize(
    "text",
    ["", "hello", ":::MLLOG is what to look for", json.dumps({"traceEvents": [{"name": mllog(training())}]})],
    ids=["empty", "text", "mark", "quoted"],
)
def test_other_files_are_not_recognized(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    source = Source(path, "file")
    assert not MlperfLog().recognizes(Head(source, source.head()))


def test_the_search_for_marks_does_not_hang() -> None:
    for text in (
        ":::MLPv0.5.0 " * 80_000,
        ":::MLPv0.5.0 a 1 (" + "(" * 1_000_000,
        ":::MLL " * 100_000,
        ":::MLLOG" * 90_000,
    ):
        assert MARK.search(text) is None


ALL = (
    mllog([*training(), *training("maskrcnn", [(9, 1, {"BBOX": 0.3, "SEGM": 0.2})], at=500)], prefix="0: ")
    + ':::MLL 1700000000.0 run_start: {"value": null, "metadata": {}}\n'
    + ':::MLPv0.5.0 ncf 1700009000.5 (a.py:1) run_start\n:::MLPv0.5.0 ncf 1700009009.5 (a.py:1) eval_accuracy: '
    + '{"epoch": 1, "value": 0.6}\n'
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), cut=st.integers(1, len(ALL)), changes=st.integers(0, 12))
def test_no_damage_is_fatal(run: Run, seed: int, cut: int, changes: int) -> None:
    chance = random.Random(seed)
    data = bytearray(ALL.encode())
    for _ in range(changes):
        data[chance.randrange(len(data))] = chance.randrange(256)
    tokens = [b"null", b"1e999", b"-1", b"[]", b"{}", b"NaN", b"9" * 30, b'"x"', b"true"]
    piece = bytes(data[:cut]).replace(chance.choice([b"256", b"0.8", b"1", b"null"]), chance.choice(tokens), 3)
    if not MlperfLog().recognizes(Head(Source(Path("none"), "none"), piece)):
        return
    try:
        result = run(MlperfLog(), piece)
    except WcbenchError:
        return
    assert (result.tables["trainings"]["seconds"].dropna() >= 0).all()


# --- real logs ----------------------------------------------------------------------------------------------------

FOLDER = "traces/mlperf/v0.7"


def _published(shared: Path) -> list[dict[str, str]]:
    """Rows of NVIDIA's runs whose logs are there, with the name of the log's file."""
    with (shared / "published/mlperf_v07_nvidia_runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["file"] = f"{row['benchmark']}__NVIDIA__{row['system']}__result_{row['run']}.txt"
    return [row for row in rows if (shared / FOLDER / row["file"]).is_file()]


def _qualities(result: Result) -> Any:
    rows = result.tables["epochs"]
    rows = rows[rows["quality"].notna()]
    if rows["metric"].isna().all():
        return float(rows["quality"].iloc[-1])
    return {str(m): float(group["quality"].iloc[-1]) for m, group in rows.groupby("metric", observed=True)}


def test_every_published_run(run: Run, shared: Path) -> None:
    """Minutes, number, quality, batch and status of all runs of the table whose logs there are.

    Two benchmarks differ on purpose. The table quotes the log's epoch_num: dlrm's counts from 1 at the beginning of its
    only epoch (hugectr logs train_samples 3772348416 of 4195197692, which is 0.8992 of an epoch, where epoch_num says
    1.8992), and bert's is the epoch under way, 1 in every run, while the samples trained differ.
    """
    published = _published(shared)
    assert len(published) == 57
    for row in published:
        result = run(MlperfLog(), shared / FOLDER / row["file"])
        found, number = only(result.tables["trainings"]), float(row["last_eval_epoch_or_samples"])
        assert abs(found["seconds"] / 60 - float(row["minutes"])) < 0.0005 + 1e-9, row  # rounded to three places
        assert found["status"] == row["status"], row
        assert (found["batch_size"] or "") == (int(row["global_batch_size"]) if row["global_batch_size"] else ""), row
        assert _qualities(result) == ast.literal_eval(row["last_eval_value"]), row
        assert found["logged"] == number, row
        if row["benchmark"] == "bert":
            assert (number, found["epochs"]) == (1, None)
            assert found["samples"] in (3_000_064, 3_500_032)
        elif row["benchmark"] == "dlrm":
            assert found["epochs"] == pytest.approx(number - 1, abs=1e-12), row
        else:
            assert found["epochs"] == number, row
            assert found["samples"] is None


def test_position_of_dlrm_against_the_samples_of_the_log(shared: Path) -> None:
    """The reason why 1 is taken off, from the logs alone."""

    def last(name: str, key: str) -> Any:
        lines = [line for line in (shared / FOLDER / name).read_text().splitlines() if f'"{key}"' in line]
        return json.loads(lines[-1].partition(":::MLLOG ")[2])

    hugectr = "dlrm__NVIDIA__dgxa100_ngc20.06_merlin_hugectr__result_0.txt"
    whole_set = last("dlrm__NVIDIA__dgxa100_ngc20.06_pytorch__result_0.txt", "train_samples")["value"]
    trained = last(hugectr, "train_samples")["value"]
    position = last(hugectr, "eval_accuracy")["metadata"]["epoch_num"]
    assert position - 1 == pytest.approx(trained / whole_set, abs=2e-5)


@pytest.mark.parametrize(
    ("name", "epochs", "logged"),
    [
        ("resnet__Intel__1-node-8s-cpx-1-tensorflow__result_1.txt", 40, 39),  # ten blocks of four, numbered from 0
        ("resnet__Google__tpu-v4-16-TF__result_0.txt", 39, 38),
        ("ssd__Google__tpu-v4-16-TF__result_0.txt", 50, 50),
        ("transformer__Google__tpu-v4-16-TF__result_3.txt", 4, 4),
    ],
)
def test_logs_of_others(run: Run, shared: Path, name: str, epochs: float, logged: float) -> None:
    result = run(MlperfLog(), shared / FOLDER / name)
    row = only(result.tables["trainings"])
    assert row["epochs"] == epochs
    assert row["status"] == "success"
    assert row["submitter"] == name.split("__")[1]
    text = (shared / FOLDER / name).read_text()
    evaluations = [json.loads(line.partition(":::MLLOG ")[2]) for line in text.splitlines() if "eval_accuracy" in line]
    assert evaluations[-1]["metadata"]["epoch_num"] == logged
    assert len(result.tables["epochs"]["quality"].dropna()) == len(evaluations)
    noted = any("add up" in note for note in result.notes)
    assert noted == ("resnet__Google" in name), "its blocks of four overlap: ten of them are 40 epochs"
