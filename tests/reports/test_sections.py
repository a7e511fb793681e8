"""Sections move the summary's values: every number in the model is one of the summary's."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from wcbench.errors import RecordError, WcbenchError
from wcbench.reports.format import Spread, show, visible
from wcbench.reports.model import Bars, Column, Fact, Facts, Notes, Report, Section, StepTimes, Table, Text
from wcbench.reports.profile_report import profile_report
from wcbench.reports.sections import SECTIONS

ORDER = [
    "overview",
    "hotspots",
    "categories",
    "steps",
    "complexity",
    "primitives",
    "memory",
    "power",
    "notes",
    "provenance",
]


def numbers(value: Any) -> Iterator[float]:
    """Every number anywhere in nested data."""
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def note_texts(section: Section) -> list[str]:
    return [
        f"{line.about}: {line.text}" for block in section.blocks if isinstance(block, Notes) for line in block.items
    ]


def test_the_list_of_sections() -> None:
    assert SECTIONS.names() == ORDER


def test_sections_stand_in_order_and_only_null_blocks_are_left_out(summary: dict[str, Any]) -> None:
    assert [section.id for section in profile_report(summary).sections] == [n for n in ORDER if n != "power"]


def test_every_number_of_the_model_is_in_the_summary(summary: dict[str, Any]) -> None:
    """Ranks and running totals are the only numbers that a report forms; both are left out here."""
    known = set(numbers(summary))
    for section in profile_report(summary).sections:
        for table in section.tables():
            for column in table.columns:
                if column.title not in ("#", "Σ share"):
                    assert set(numbers(table.column(column.title))) <= known, (table.id, column.title)
        for fact in section.facts().values():
            value = fact.value
            values = (value.median, value.q1, value.q3) if isinstance(value, Spread) else value
            assert set(numbers(values)) <= known, fact.label


def test_hotspots(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("hotspots")
    table, rows = section.table("hotspots-table"), summary["hotspots"]["rows"]
    assert table.column("operator") == tuple(row["name"] for row in rows)
    assert table.column("share") == tuple(row["time_share"] for row in rows)
    assert table.column("Σ share")[2] == pytest.approx(0.5375)  # 0.2125 + 0.2 + 0.125
    assert table.column("Σ share")[-1] == pytest.approx(1)
    data = next(section.figures()).data
    assert isinstance(data, Bars)
    assert [bar.name for bar in data.panels[0].bars] == [row["name"] for row in rows[:15]]


def test_long_tables_name_the_command_that_shows_the_rest(hostile_report: Report) -> None:
    table = hostile_report.section("hotspots").table("hotspots-table")
    assert (len(table.rows), len(table.shown), table.hidden) == (60, 30, 30)
    assert table.more.startswith("wcbench show ")
    assert table.more.endswith(" hotspots --json")


def test_kernels_on_a_device_are_called_kernels(summary: dict[str, Any]) -> None:
    summary["hotspots"]["of"] = "kernel time"
    table = profile_report(summary).section("hotspots").table("hotspots-table")
    assert "kernel" in [column.title for column in table.columns]


def test_both_views_stand_side_by_side_with_unknown_and_python(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("categories")
    paper, full = section.table("categories-paper"), section.table("categories-full")
    assert dict(paper.rows) == summary["categories"]["paper"]
    assert dict(full.rows) == {name: share for name, share in summary["categories"]["full"].items() if share}
    assert section.facts()["Unknown share"].value == 0.00375
    assert section.facts()["Python share"].value == 0.1625


def test_unknown_and_python_share_are_there_even_when_absent(summary: dict[str, Any]) -> None:
    summary["categories"].update(unknown_share=0.0, python_share=None, full={"GEMM": 1.0, "unknown": 0.0})
    section = profile_report(summary).section("categories")
    assert section.facts()["Unknown share"].value == 0
    assert section.facts()["Python share"].value is None
    assert "device" in section.facts()["Python share"].hint
    assert section.table("categories-full").rows == (("GEMM", 1.0), ("unknown", 0.0))


def test_steps_show_each_step_and_what_was_dropped(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("steps")
    data = next(section.figures()).data
    assert isinstance(data, StepTimes)
    assert [point.role for point in data.points].count("warmup") == 2
    assert data.points[0].milliseconds == pytest.approx(31.5)
    assert (data.median, data.q1, data.q3) == (9.81, 9.6125, 10.0875)
    assert section.table("steps-table").column("pass") == ("timing", "timeline")
    assert section.table("steps-table").column("overhead") == (1.0, 1.34)


def test_steps_without_single_times_have_a_table_only(summary: dict[str, Any]) -> None:
    summary["steps"] = None
    section = profile_report(summary).section("steps")
    assert not list(section.figures())
    assert section.facts()["Step time, median"].value == Spread(9.81, 9.6125, 10.0875)


def test_complexity_says_flop_and_mac_and_how_much_is_covered(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("complexity")
    facts = section.facts()
    assert (facts["Forward, per sample"].value, facts["Forward, per sample"].unit) == (1_464_843.75, "FLOP")
    assert (facts["The same in MAC"].value, facts["The same in MAC"].unit) == (732_421.875, "MAC")
    assert facts["Coverage, matrix operators"].value == 0.96
    assert section.table("complexity-uncounted").rows == (("custom::fused_conv", 1),)
    text = section.blocks[0]
    assert isinstance(text, Text)
    assert "1 MAC = 2 FLOP" in text.text
    assert "fake tensors" in text.text


def test_power_keeps_both_energies_and_absent_ones_absent(summary: dict[str, Any]) -> None:
    device = {"device": 0, "samples": 40, "watts_mean": 310.5, "energy_counter_j": None, "energy_integrated_j": 327.0}
    where = {"pass": "timing", "preset": "small", "batch_size": 64, "device": "cuda:0"}
    summary["power"] = {**where, "devices": [device]}
    summary["notes"].append({"about": "power.energy_counter", "text": "The driver has no counter."})
    section = profile_report(summary).section("power")
    table = section.table("power-table")
    assert table.column("energy, counter") == (None,)
    assert table.column("energy, integrated") == (327.0,)
    assert table.column("utilization") == (None,)
    assert "power.energy_counter: The driver has no counter." in note_texts(section)


def test_missing_sections_are_named_with_their_reason(summary: dict[str, Any]) -> None:
    summary["measured_memory"] = summary["complexity"] = None
    del summary["passes"]["memory"]
    summary["primitives"] = None
    summary["notes"].append({"about": "timing", "text": "The host was busy."})
    summary["notes"].append({"about": "primitives", "text": "oneDNN is switched off."})
    texts = note_texts(profile_report(summary).section("notes"))
    assert "memory: Not in this report: pass memory was not run." in texts
    assert "power: Not in this report. No GPU: NVML is not installed, and RAPL is not read." in texts
    assert "complexity: Not in this report. custom::fused_conv has no FLOP formula." in texts
    assert "primitives: Not in this report. oneDNN is switched off." in texts
    assert "timing: The host was busy." in texts


def test_a_note_on_a_pass_is_a_reason_only_where_the_pass_did_not_end(summary: dict[str, Any]) -> None:
    summary.update(hotspots=None, notes=[{"about": "timeline", "text": "Its times are noisy."}])
    assert any("left nothing" in text for text in note_texts(profile_report(summary).section("notes")))
    del summary["passes"]["timeline"]
    texts = note_texts(profile_report(summary).section("notes"))
    assert "hotspots: Not in this report. Its times are noisy." in texts


def test_a_pass_that_ran_and_left_nothing_is_said_to(summary: dict[str, Any]) -> None:
    summary["primitives"] = None
    assert any("left nothing" in text for text in note_texts(profile_report(summary).section("notes")))


def test_nothing_missing_is_said_too(summary: dict[str, Any]) -> None:
    summary["notes"] = []
    summary["power"] = {"devices": []}
    section = profile_report(summary).section("notes")
    assert section.blocks == (Text("Nothing is missing, and the record doubts nothing."),)


def test_provenance(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("provenance")
    assert section.facts()["Processor"].value == "AMD EPYC 7B13"
    assert section.facts()["Memory"].value == 8 * 1024**3
    assert section.facts()["GPUs"].value == "none"
    passes = section.table("provenance-passes")
    assert passes.column("pass") == ("timing", "timeline", "complexity", "primitives", "memory")
    assert passes.column("overhead") == (1.0, 1.34, None, None, None)
    assert dict(section.table("provenance-packages").rows)["nvidia-ml-py"] == "not installed"


def strings(value: Any) -> Iterator[str]:
    """Every text of a model except figures' data, which figures shorten themselves."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Table):
        yield from (value.caption, value.more)
    elif isinstance(value, Fact):
        yield from (value.label, show(value.value, value.kind, value.unit), value.hint)
    elif isinstance(value, tuple):
        for item in value:
            yield from strings(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, Bars | StepTimes):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))


def test_no_text_of_the_model_is_invisible(hostile_report: Report) -> None:
    """A terminal would obey an escape sequence in one."""
    found = list(strings(hostile_report))
    assert any("<script>" in text for text in found)
    assert [text for text in found if visible(text) != text] == []


def test_empty_records_give_reports(any_summary: dict[str, Any]) -> None:
    report = profile_report(any_summary)
    assert [section.id for section in report.sections] == [s for s in ORDER if s in {x.id for x in report.sections}]
    assert {"overview", "notes", "provenance"} <= {section.id for section in report.sections}
    assert len(report.lead) == 3


def test_building_changes_nothing_and_repeats(any_summary: dict[str, Any]) -> None:
    before = copy.deepcopy(any_summary)
    assert profile_report(any_summary) == profile_report(any_summary)
    assert any_summary == before


def test_another_form_is_refused(summary: dict[str, Any]) -> None:
    summary["schema"] = "wcbench.profile/2"
    with pytest.raises(RecordError, match=r"wcbench\.profile/2.*wcbench\.profile/1"):
        profile_report(summary)


def test_the_model_guards_its_form() -> None:
    with pytest.raises(WcbenchError, match="1 columns and a row of 2 cells"):
        Table("t", "caption", (Column("one"),), ((1, 2),))
    with pytest.raises(WcbenchError, match="is no id"):
        Section("No Id", "title", ())
    twice = (Section("a", "A", (Facts(()),)), Section("a", "A", ()))
    with pytest.raises(WcbenchError, match="Two parts of the report have the id 'a'"):
        Report("title", "", (), twice, "")
