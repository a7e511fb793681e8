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


def record(gemm_ns: int, task: str = "toy") -> Profile:
    names, times = ["sgemm_128x64_nn", "relu_kernel", "<script>alert(1)</script>"], [gemm_ns, 300, 100]
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
        "conditions", "time", "categories", "hotspots", "quantities", "notes", "provenance",
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
