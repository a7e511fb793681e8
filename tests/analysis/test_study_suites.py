"""What suites' files say of a study's workloads, and the answer's sentences, from small documents."""

from __future__ import annotations

from typing import Any

import pandas as pd

from wcbench.analysis.study_answer import answer
from wcbench.analysis.study_inputs import Group, Settings
from wcbench.analysis.study_parts import code_fingerprint
from wcbench.analysis.study_suites import incomplete, known_of
from wcbench.suites import load_suite


def test_metrics_and_variation_are_the_suites_own() -> None:
    known = known_of({"mlperf-gnmt": "mlperf-gnmt", "image-generation": "image-generation", "mine": "x:Mine"})
    assert known.metric == {"mlperf-gnmt": True, "image-generation": False, "mine": None}
    assert known.variation["mlperf-gnmt"] == 0.0771  # 7.71 % over ten runs
    assert (known.variation["image-generation"], known.variation["mine"]) == (None, None)


def test_what_is_only_remembered_is_not_known() -> None:
    member = load_suite("aibench-training-v1.1").member("text-to-text")
    assert member is not None
    fact = member.fact("target")
    assert fact is not None
    assert fact.kind == "from memory"
    assert known_of({"text-to-text": "text-to-text"}).metric == {"text-to-text": None}


def test_a_measured_variation_comes_before_a_published_one() -> None:
    rows = pd.DataFrame({"workload": ["mlperf-gnmt"], "feature": ["seed_cv_epochs"], "value": [0.03]})
    assert known_of({"mlperf-gnmt": "mlperf-gnmt"}, rows).variation == {"mlperf-gnmt": 0.03}


def test_conditions_are_those_asked_for() -> None:
    known = known_of({"mlperf-gnmt": "mlperf-gnmt", "mlperf-ssd": "mlperf-ssd"})
    assert known.constraints(Settings(), ["mlperf-gnmt"]) == ()
    (limit,) = known.constraints(Settings(max_variation=0.05), ["mlperf-gnmt", "mlperf-ssd"])
    assert limit.text == "run-to-run variation of epochs to the target at most 0.05"
    assert limit.refused == {"mlperf-gnmt": "0.0771"}


def test_a_suite_that_is_not_here_as_a_whole_says_so() -> None:
    whole = load_suite("mlperf-training-v0.7")
    current = load_suite("mlperf-training-current")
    groups = [
        Group(whole.id, whole.id, whole.tasks),
        Group("records", "the records", ("a",)),
        Group(current.id, current.id, current.tasks[1:]),
    ]
    found = incomplete(groups)
    assert list(found) == [current.id]
    assert found[current.id].startswith(
        "mlperf-training-current stands here with 2 tasks (no task here: Llama 3.1 405B"
    )
    assert found[current.id].endswith(f"left out: {current.tasks[0]})")


def test_comments_do_not_make_other_code() -> None:
    assert len(code_fingerprint()) == 12


# --- the answer -------------------------------------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    subset = {
        "members": ["a"], "size": 1, "of": 3, "radius": 1.0, "covers": {"a": ["a", "b", "c"]}, "constraints": [],
        "certificate": {"proof": "packing"}, "optima": [["a"]], "optima_complete": True, "uncovered": [],
    }  # fmt: skip
    found = {
        "studied": {"title": "S"},
        "subset": subset,
        "radius": {"how": "measured", "reason": ""},
        "cost": {"saved": 0.25, "of": "time of a step, measured on X", "reason": "", "measured": True},
        "stability": {"reason": "it takes three workloads"},
        "clusters": {"reason": "none"},
        "pca": {"reason": "none"},
        "comparisons": [],
    }
    return {**found, **changes}


def test_a_small_subset_is_named_and_a_large_one_told_by_what_it_leaves_out() -> None:
    assert "of each: a (proof by packing; no other set of that size does)." in answer(document())[0]
    large = {**document()["subset"], "members": ["a", "b"], "size": 2, "covers": {"a": ["a"], "b": ["b", "c"]}}
    assert "of each: all but c (b stands for it) (proof" in answer(document(subset=large))[0]


def test_a_step_is_no_training() -> None:
    assert answer(document())[1] == "They save 25 % of the time of a step, measured on X."
    counted = {"saved": 0.25, "of": "FLOPs of a step, counted", "reason": "", "measured": False}
    assert answer(document(cost=counted))[1] == (
        "One step of each takes 25 % fewer FLOPs than one step of all (counted, not measured; what whole trainings "
        "would save is not known)."
    )
    trained = {**counted, "of": "FLOPs of a training, counted"}
    assert answer(document(cost=trained))[1] == "They save 25 % of the FLOPs of a training (counted, not measured)."


def test_what_a_model_answers_and_what_is_missing_stand_in_the_third_sentence() -> None:
    side = {"novel": ["x"], "size": 3, "of": "S", "to": "T", "expected": 1.25, "reason": ""}
    comparison = {
        "reason": "", "labels": ["S", "T"], "favours": None,
        "verdict": {"reason": "", "low": 0.5, "high": 2.0, "dispersion_ratio": 1.0, "p": 0.5},
        "repeats": [{"reason": ""}, {"reason": "too few"}], "changed_by": [],
        "novelty": [side, {**side, "novel": [], "of": "T", "to": "S"}],
        "facets": {"compared": 1, "of": 3, "modelled": {"hotspots": "roofline-predicted on X"}, "gaps": {"c": "why"}},
    }  # fmt: skip
    assert answer(document(comparisons=[comparison]))[2] == (
        "Per task, S and T are not told apart: dispersion ratio 1.00, jackknife 0.50 to 2.00, p = 0.5 (the same in 1 "
        "repeats, of the other 1 no test is possible); as shipped, 1 of 3 tasks of S are new to T, and 0 of 3 the "
        "other way (1.2 and 1.2 on average if labels are exchanged); facets compared: 1 of 3, hotspots only "
        "roofline-predicted on X, missing c."
    )
