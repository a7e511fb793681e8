"""The three sentences, word for word, with any part absent."""

from __future__ import annotations

from typing import Any

import pytest

from wcbench.reports.lead import lead


def test_usual(summary: dict[str, Any]) -> None:
    assert lead(summary) == (
        "spatial-transformer takes 9.8 ms a step (quartiles 9.6 to 10.1 ms, 10 steps) at preset small, batch 64, "
        "on cpu: 6,500 samples/s.",
        "The largest part of the operator self time goes to convolution (41.2 %); "
        "the top 3 of 16 operators make up 53.8 %.",
        "At preset paper, batch 256, it has 27,360 parameters and does 1.12 GFLOP of matrix work a step "
        "(1.50 GFLOP in all, counted for 94.1 % of the operator calls), with 180 MiB alive at its peak.",
    )


def test_nothing_measured(summary: dict[str, Any]) -> None:
    summary.update(passes={}, hotspots=None, categories=None, complexity=None, variant="tiny")
    assert lead(summary) == (
        "No step of spatial-transformer@tiny was timed.",
        "Where the time goes was not measured.",
        "Its parameters and its arithmetic were not counted.",
    )


def test_conditions_are_repeated_only_where_they_differ(summary: dict[str, Any]) -> None:
    summary["complexity"].update(
        preset="small", batch_size=64, coverage_calls=1.0, flops_all_step=None, params_total=25_557_032
    )
    assert lead(summary)[2] == "It has 25.6 M parameters and does 1.12 GFLOP of matrix work a step."


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"flops_matrix_step": None}, "It has 27,360 parameters; its arithmetic could not be counted."),
        ({"params_total": None}, "It does 1.12 GFLOP of matrix work a step."),
        ({"params_total": 1}, "It has 1 parameter and does 1.12 GFLOP of matrix work a step."),
        ({"params_total": None, "flops_matrix_step": None}, "Its parameters and its arithmetic could not be counted."),
    ],
)
def test_size_with_parts_absent(summary: dict[str, Any], change: dict[str, Any], sentence: str) -> None:
    summary["complexity"].update(
        preset="small", batch_size=64, coverage_calls=None, **{"flops_all_step": None, **change}
    )
    assert lead(summary)[2] == sentence


def test_live_bytes_of_another_preset_are_left_out(summary: dict[str, Any]) -> None:
    assert "180 MiB alive" in lead(summary)[2]
    summary["memory"]["preset"] = "small"
    assert "alive" not in lead(summary)[2]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (0, "No operator was recorded."),
        (1, "It is all in one operator."),
        (2, "The longest of 2 operators makes up 21.2 %."),
        (3, "The top 2 of 3 operators make up 41.2 %."),
    ],
)
def test_few_hotspots_without_categories(summary: dict[str, Any], rows: int, sentence: str) -> None:
    summary["categories"] = None
    summary["hotspots"]["rows"] = summary["hotspots"]["rows"][:rows]
    assert lead(summary)[1] == sentence


def test_a_majority_and_unknown_names(summary: dict[str, Any]) -> None:
    summary["hotspots"].update(of="kernel time", rows=summary["hotspots"]["rows"][:1])
    summary["categories"]["full"] = {"unknown": 0.75, "GEMM": 0.25}
    assert (
        lead(summary)[1]
        == "Most of the kernel time goes to names that no rule knows (75.0 %); it is all in one kernel."
    )


def test_shares_that_are_absent(summary: dict[str, Any]) -> None:
    summary["categories"] = None
    for row in summary["hotspots"]["rows"]:
        row.update(time_share=None, cumulative_share=None)
    assert lead(summary)[1] == "Its operators have no share of the time."


def test_a_timing_pass_without_quartiles_or_rate(summary: dict[str, Any]) -> None:
    timing = summary["passes"]["timing"]
    timing.update(step_ms_q1=None, step_ms_q3=None, samples_per_s=None, steps=1)
    assert lead(summary)[0] == "spatial-transformer takes 9.81 ms a step (1 step) at preset small, batch 64, on cpu."
    timing.update(step_ms_median=None)
    assert lead(summary)[0] == "The timing pass of spatial-transformer has no step time."
