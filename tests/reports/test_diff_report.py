"""The report of two profiles compared shows the document's numbers, on the terminal, as HTML and as PDF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wcbench import api
from wcbench.cli import main
from wcbench.errors import RecordError
from wcbench.record import PassInfo, Profile, new_profile
from wcbench.reports.diff_report import diff_report
from wcbench.schema import to_arrow

FACTS = {
    "preset": "paper", "settings": {}, "batch_size": 4, "samples": 4, "precision": "fp32", "device": "cuda",
    "tensors": "real", "seed": 0, "steps": 1, "warmup": 0, "seconds": 1.0,
}  # fmt: skip


def record(gemm_ns: int, task: str = "toy", longest: str = "sgemm_128x64_nn") -> Profile:
    names, times = [longest, "relu_kernel", "<script>alert(1)</script>"], [gemm_ns, 300, 100]
    columns = {
        "name": names, "rank": [0] * 3, "device": ["cuda:0"] * 3, "start_ns": [0, gemm_ns, gemm_ns + 300],
        "duration_ns": times, "step": [0] * 3, "phase": ["forward"] * 3,
    }  # fmt: skip
    steps = {"rank": [0] * 7, "index": list(range(7)), "role": ["measured"] * 7, "kind": ["train"] * 7,
             "duration_ns": [10 * gemm_ns + n for n in range(7)], "samples": [4] * 7}  # fmt: skip
    tables = {"kernels": to_arrow("kernels", columns, "timeline"), "steps": to_arrow("steps", steps, "timeline")}
    return new_profile(task=task, variant=None, suites=[], machine={"cpu": {}, "gpus": []}, command=["wcbench"],
                       passes={"timeline": PassInfo(**FACTS)}, tables=tables, notes=[])  # type: ignore[arg-type]  # fmt: skip


def test_cells_are_the_documents_values() -> None:
    document = api.diff(record(600), record(200)).to_dict()
    report = diff_report(document)
    assert report.lead == tuple(document["answer"])
    table = report.section("categories").table("categories-full")
    assert dict(zip(table.column("category"), table.column("B - A"), strict=True))["GEMM"] == pytest.approx(
        -400 / 7
    )  # seven steps, kernels in one
    spots = report.section("hotspots").table("hotspots-table")
    assert spots.rows[0][0] == "sgemm_128x64_nn"
    assert [section.id for section in report.sections] == [
        "conditions", "categories", "hotspots", "activity", "notes", "provenance",
    ]  # fmt: skip


def test_another_schema_is_refused() -> None:
    with pytest.raises(RecordError, match=r"wcbench\.diff/1"):
        diff_report({"schema": "wcbench.diff/0"})


def test_it_is_html_and_pdf() -> None:
    made = api.make_report(record(600), against=record(200))
    html = made.html()
    assert "<script>alert" not in html
    assert "B / A" in html
    assert made.pdf().startswith(b"%PDF")


def test_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = record(600).save(tmp_path / "a"), record(200).save(tmp_path / "b")

    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["wcbench", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    shown = run("diff", str(a.path), str(b.path))
    assert "B / A" in shown
    assert f"Next: wcbench report {a.path} --against {b.path}" in shown
    found = json.loads(run("diff", str(a.path), str(b.path), "--json"))
    assert found["hotspots"]["difference_ns"] == pytest.approx(-400 / 7)
    run("report", str(a.path), "--against", str(b.path), "--quiet")
    assert [file.name for file in (tmp_path / "a").glob("report-against-*.html")] != []


def test_a_long_name_is_cut_after_it_was_anonymized() -> None:
    """Cut before, its beginning would no longer be found, and stay."""
    name = "secret_project_kernel_" + "x" * 300
    a, b = record(600, longest=name), record(200, longest=name)
    plain = api.make_report(a, against=b)
    lead = plain.report.lead[-1]
    assert "secret_project" in lead
    assert len(lead) < 300
    assert name in api.diff(a, b).answer[-1]
    hidden = api.make_report(a, against=b, anonymize=True)
    assert "secret_project" not in hidden.html() + json.dumps(hidden.to_dict())


def test_every_kind_of_amount_has_its_section() -> None:
    document = api.diff(record(600), record(200)).to_dict()
    caches = [(2**18, 80.0, 40.0), (2**19, 20.0, 10.0), (2**20, 20.0, 10.0), (2**21, 20.0, 10.0)]
    document["capacities"] = [
        {"capacity": c, "per": "sample", "a_traffic": a, "b_traffic": b, "a_miss_ratio": 0.5, "b_miss_ratio": 0.25}
        for c, a, b in caches
    ]
    document["operators"] = [
        {"name": "aten::mm", "category": "GEMM", "a_ns": 5.0, "b_ns": None, "a_calls": 1, "b_calls": None,
         "a_share": 0.5, "b_share": None, "difference_share": -0.5},
    ]  # fmt: skip
    document["runtime"] = [{"name": "cudaFree", "a_calls": 2, "b_calls": 3, "a_ns": 7.0, "b_ns": 8.0}]
    document["counters"] = {
        "five": [{"name": "ipc_efficiency", "a": 0.5, "b": None, "reason": "B: no such metric"}],
        "rows": [{"kernel": "k", "metric": "m", "unit": "%", "a": 1.0, "b": 2.0, "a_calls": 3, "b_calls": 4}],
        "only_a": 1, "only_b": 0,
    }  # fmt: skip
    report = diff_report(document)
    table = report.section("memory").table("memory-capacities")
    assert table.column("cache") == (2**18, 2**19)
    assert table.caption.endswith("larger caches change nothing")
    curves = next(report.section("memory").figures()).data.curves  # type: ignore[union-attr]
    assert [(curve.name, curve.points[-1]) for curve in curves] == [("A", (2**21, 20.0)), ("B", (2**21, 10.0))]
    assert report.section("operators").table("operators-table").column("B share") == (None,)
    assert report.section("operators").table("runtime-table").rows == (("cudaFree", 2, 3, 7.0, 8.0),)
    assert report.section("counters").table("counters-five").rows == (
        ("ipc_efficiency", 0.5, None, "B: no such metric"),
    )
    assert report.section("counters").table("counters-table").column("kernel") == ("k",)


def test_times_that_cannot_be_subtracted_are_shown_as_shares() -> None:
    document = api.diff(record(600), record(200)).to_dict()
    spots = document["hotspots"]
    spots |= {"per": None, "difference_ns": None, "parts": None, "unlike": "a step against a whole trace"}
    for row in (*spots["rows"], *spots["full"], *spots["paper"]):
        row["difference_ns"] = None
    report = diff_report(document)
    figure = next(figure for figure in report.section("categories").figures() if figure.id == "categories-difference")
    gemm = next(row for row in spots["full"] if row["category"] == "GEMM")
    assert figure.data.rows[0].value == pytest.approx(100 * gemm["difference_share"])  # type: ignore[union-attr]
    assert set(report.section("categories").table("categories-full").column("B - A")) == {None}
    assert "a step against a whole trace" in report.lead[-1]
