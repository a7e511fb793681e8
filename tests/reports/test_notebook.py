"""The short forms: right, plain, escaped, and never an exception."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from wcbench.record import VIEWS
from wcbench.reports.notebook import profile_html, profile_text


class FakeProfile:
    """As much of a Profile as the short forms use."""

    def __init__(self, summary: dict[str, Any]) -> None:
        self.summary = summary

    def view(self, name: str) -> Any:
        assert name == "summary"
        return self.summary


def test_text(summary: dict[str, Any]) -> None:
    assert profile_text(FakeProfile(summary)) == "\n".join(  # type: ignore[arg-type]
        [
            "spatial-transformer",
            "  record     runs/spatial-transformer/20261130T152945.000Z-0a1b2c3d",
            "  device     cpu, AMD EPYC 7B13",
            "  ran at     preset small, batch 64, float32",
            "  step       9.8 ms (quartiles 9.6 to 10.1 ms, 10 steps), 6,500 samples/s",
            "  model      27,360 parameters",
            "  work       1.12 GFLOP of matrix work a step "
            "(preset paper, batch 256; 1.50 GFLOP in all; 94.1 % of operator calls counted)",
            "  memory     180 MiB alive at the step's peak (preset paper, batch 256)",
            "  hotspots   share of operator self time, 16 operators in all",
            "     21.2 %  aten::mkldnn_convolution",
            "     20.0 %  aten::convolution_backward",
            "     12.5 %  aten::grid_sampler_2d",
            "     10.0 %  aten::grid_sampler_2d_backward",
            "      8.8 %  aten::max_pool2d_with_indices",
            "  notes      2 notes on what is missing or doubtful: .view('notes')",
        ]
    )


def test_any_record_has_both_forms(any_summary: dict[str, Any]) -> None:
    profile = FakeProfile(any_summary)
    text, html = profile_text(profile), profile_html(profile)  # type: ignore[arg-type]
    assert len(text) < 3000
    assert len(html) < 25_000
    for form in (text, html):
        assert not any(char in form for char in "\x00\x1b\u202e\u200b")
    assert "<script" not in html
    assert " id=" not in html  # a notebook holds many of these
    assert "http" not in html


def test_html_has_ten_hotspots_and_says_how_many_more(summary: dict[str, Any]) -> None:
    html = profile_html(FakeProfile(summary))  # type: ignore[arg-type]
    assert html.count("<bdi>") == 11  # the title and ten names
    assert "6 more: <code>.view(&#34;hotspots&#34;)" in html or '6 more: <code>.view("hotspots")' in html
    assert 'aria-label="Share of operator self time by category: convolution 41.2 %, ' in html


def test_names_that_are_alike_at_both_ends_differ(summary: dict[str, Any]) -> None:
    names = [f"{'k' * 100}<{one}>{'e' * 100}" for one in ("add", "mul", "div")]
    for row, name in zip(summary["hotspots"]["rows"], names, strict=False):
        row["name"] = name
    profile = FakeProfile(summary)
    assert all(f"<{one}>" in profile_text(profile) for one in ("add", "mul", "div"))  # type: ignore[arg-type]
    assert all(f"&lt;{one}&gt;" in profile_html(profile) for one in ("add", "mul", "div"))  # type: ignore[arg-type]


def test_the_record_finds_them() -> None:
    assert VIEWS.load("html") is profile_html
    assert VIEWS.load("text") is profile_text


def test_reports_need_no_torch_and_the_prompt_no_matplotlib() -> None:
    code = (
        "import sys, wcbench.reports.notebook as n, wcbench.reports.html;"
        "assert not {'torch', 'matplotlib', 'pandas'} & set(sys.modules), sorted(sys.modules);"
        "import wcbench.reports.figures, wcbench.reports.profile_report;"
        "assert not {'torch', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
