"""Sections move the summary's values: every number in the model is one of the summary's."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from wcbench.errors import RecordError, WcbenchError
from wcbench.reports.figure_data import Bars, CapacityCurves, Roofline, StepTimes
from wcbench.reports.format import Spread, show, visible
from wcbench.reports.model import Column, Command, Fact, Facts, FigureData, Notes, Report, Section, Table, Text
from wcbench.reports.profile_report import profile_report
from wcbench.reports.sections import SECTIONS

ORDER = [
    "overview",
    "gates",
    "hotspots",
    "categories",
    "activity",
    "ops",
    "totals",
    "steps",
    "complexity",
    "scaling",
    "operators",
    "modules",
    "memory",
    "lookups",
    "roofline",
    "primitives",
    "power",
    "counters",
    "allocations",
    "convergence",
    "losses",
    "notes",
    "provenance",
]
FOREIGN = {"gates", "activity", "ops", "totals", "counters", "allocations", "convergence", "losses"}


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
    assert [section.id for section in profile_report(summary).sections] == [
        n for n in ORDER if n not in {"power", "lookups", *FOREIGN}
    ]


def test_every_number_of_the_model_is_in_the_summary(summary: dict[str, Any]) -> None:
    """Ranks and running totals are the only numbers that a report forms; both are left out here."""
    _only_known_numbers(summary)


def test_every_number_of_an_imported_model_is_in_the_summary(foreign: dict[str, Any]) -> None:
    _only_known_numbers(foreign)


def _only_known_numbers(summary: dict[str, Any]) -> None:
    known = set(numbers(summary))
    for section in profile_report(summary).sections:
        for table in section.tables():
            for column in table.columns:
                if column.title != "#":
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


def test_the_papers_view_says_what_it_folds_in(summary: dict[str, Any]) -> None:
    """Attention is GEMM there, an optimizer element-wise; what has no time is not named."""
    summary["categories"].update(full={"GEMM": 0.6, "attention": 0.2, "optimizer": 0.1, "pooling": 0.1, "random": 0.0})
    section = profile_report(summary).section("categories")
    (figure,) = section.figures()
    said = section.blocks[0].text
    for text in (said, figure.caption):
        assert "The paper's view folds others into its eight: attention in GEMM; optimizer in element-wise." in text
    assert "the sentences at the head of a report speak of the full view" in said


@pytest.mark.parametrize(("steps", "there"), [(1, False), (3, False), (4, True), (10, True)])
def test_quartiles_need_four_steps(summary: dict[str, Any], steps: int, there: bool) -> None:
    for part in summary["passes"].values():
        part["steps"] = steps
    report = profile_report(summary)
    section = report.section("steps")
    (figure,) = section.figures()
    told = [report.lead[0], section.facts()["Step time, median"].hint, report.section("overview").facts()[
        "Step time, median"].hint, figure.caption, figure.alt]  # fmt: skip
    assert ["quartiles" in text for text in told] == [there] * 5
    assert f"{steps} step" in told[0]
    assert (figure.data.q1 is not None) == there
    assert ("quartile 1" in [column.title for column in section.table("steps-table").columns]) == there


def test_throughput_has_no_more_digits_than_the_step_time(summary: dict[str, Any]) -> None:
    """64 samples in 718 ms: 720 ms, 89 samples/s."""
    summary["passes"]["timing"].update(
        step_ms_median=718.0, step_ms_q1=140.0, step_ms_q3=736.0, samples_per_s=64 / 0.718
    )
    report = profile_report(summary)
    assert "takes 720 ms a step (quartiles 140 to 740 ms, 10 steps)" in report.lead[0]
    assert report.lead[0].endswith(": 89 samples/s.")
    for section in ("overview", "steps"):
        fact = report.section(section).facts()["Throughput"]
        assert show(fact.value, fact.kind, fact.unit) == "89 samples/s"


def test_names_that_are_alike_at_both_ends_differ_in_words_too(summary: dict[str, Any]) -> None:
    names = [f"{'k' * 100}<{one}>{'e' * 100}" for one in ("add", "mul", "div")]
    for row, name in zip(summary["hotspots"]["rows"], names, strict=False):
        row["name"] = name
    summary["categories"]["unknown_names"] = names
    report = profile_report(summary)
    (figure,) = report.section("hotspots").figures()
    unknown = report.section("categories").blocks[-1].text
    for said in (figure.alt, unknown):
        assert all(f"<{one}>" in said for one in ("add", "mul", "div"))


def test_copies_are_not_counted_as_kernels(summary: dict[str, Any]) -> None:
    spots = summary["hotspots"]
    spots["of"] = "kernel time"
    for row in spots["rows"]:
        row["category"] = "GEMM"
    assert "the top 3 of 16 kernels make up" in profile_report(summary).lead[1]
    spots["rows"][-1].update(name="Memcpy HtoD (Pinned -> Device)", category="memory copy")
    report = profile_report(summary)
    (figure,) = report.section("hotspots").figures()
    for said in (report.lead[1], report.section("hotspots").blocks[0].text, figure.caption):
        assert "16 kernels, copies and fills" in said


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


def test_complexity_has_both_totals_and_says_how_much_is_covered(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("complexity")
    assert section.table("complexity-work").rows == (
        ("whole step", 1_124_000_000, 1_500_000_000),
        ("forward", 375_000_000, 500_000_000),
        ("backward", 749_000_000, 900_000_000),
    )
    facts = section.facts()
    assert (facts["Forward, per sample"].value, facts["Forward, per sample"].unit) == (1_464_843.75, "FLOP")
    assert (facts["The same in MAC"].value, facts["The same in MAC"].unit) == (732_421.875, "MAC")
    assert (facts["Coverage by calls"].value, facts["Coverage by bytes"].value) == (0.9412, 0.98)
    assert (facts["Bytes read, step"].value, facts["Bytes written, step"].value) == (600 * 2**20, 400 * 2**20)
    assert section.table("complexity-uncounted").rows == (("custom::fused_conv", 11),)
    text = section.blocks[0]
    assert isinstance(text, Text)
    assert "1 MAC = 2 FLOP" in text.text
    assert "fake tensors" in text.text


def test_causal_attention_has_a_row_only_where_it_differs(summary: dict[str, Any]) -> None:
    summary["complexity"]["flops_matrix_step_causal_half"] = 1_000_000_000
    table = profile_report(summary).section("complexity").table("complexity-work")
    assert table.rows[1] == ("causal attention without its masked half", 1_000_000_000, None)


def test_operators(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("operators")
    table, rows = section.table("operators-table"), summary["operators"]["rows"]
    assert table.column("operator") == tuple(row["name"] for row in rows)
    assert table.column("work, all") == tuple(row["flops_all"] for row in rows)
    assert table.column("phase")[-2:] == ("optimizer", "forward")
    assert section.facts()["Longest chain"].value == 68
    summary["memory"] = None
    assert not profile_report(summary).section("operators").facts()


def test_many_operators_are_cut(hostile_report: Report) -> None:
    table = hostile_report.section("operators").table("operators-table")
    assert (len(table.rows), table.hidden) == (60, 35)
    assert table.more.endswith(" operators --json")


def test_modules_are_a_tree_of_which_the_lower_levels_are_named(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("modules")
    table = section.table("modules-table")
    plain = [name.replace("\N{NO-BREAK SPACE}", " ") for name in table.column("module")]
    assert plain == [
        "(outside modules)",
        "model",
        "   localization",
        "      conv",
        "         inner",
        "   classifier",
    ]
    assert table.column("share")[1] == 1400 / 1500
    assert table.column("parameters")[1] == 27_360
    command = section.blocks[2]
    assert isinstance(command, Command)
    assert command.label == "All 7 modules, those further down too"
    assert command.text.endswith(" modules --json")


def test_memory_has_the_model_and_then_what_was_measured(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("memory")
    assert [table.id for table in section.tables()] == [
        "memory-classes",
        "memory-reuse",
        "memory-capacities",
        "memory-fused",
        "memory-table",
    ]
    assert [figure.id for figure in section.figures()] == ["memory-live", "memory-traffic", "memory-misses"]
    assert all("inter-operator reuse model" in figure.caption for figure in section.figures())
    facts = section.facts()
    assert facts["Live bytes, peak"].value == 180 * 2**20
    assert [facts[f"Working set {share} %"].value for share in (50, 90, 99)] == [8 * 2**20, 128 * 2**20, 256 * 2**20]
    assert facts["Measured peak"].value == 460 * 2**20
    assert section.table("memory-classes").rows[0] == ("workspace", 60 * 2**20)
    assert section.table("memory-fused").column("operator bytes") == (1000 * 2**20, 700 * 2**20)
    assert section.table("memory-fused").column("operators") == (160, 90)


@pytest.mark.parametrize(
    ("absent", "left"),
    [
        ("memory", ["memory-table"]),
        ("measured_memory", ["memory-classes", "memory-reuse", "memory-capacities", "memory-fused"]),
    ],
)
def test_each_half_of_memory_stands_alone(summary: dict[str, Any], absent: str, left: list[str]) -> None:
    summary[absent] = None
    report = profile_report(summary)
    assert [table.id for table in report.section("memory").tables()] == left
    assert any(text.startswith(f"{absent}: Not in this report") for text in note_texts(report.section("notes")))


def test_a_note_of_the_measuring_pass_is_no_reason_for_the_model(summary: dict[str, Any]) -> None:
    summary.update(memory=None, notes=[{"about": "memory", "text": "The device has no counter."}])
    texts = note_texts(profile_report(summary).section("notes"))
    assert any("memory: Not in this report: pass operators ran but left nothing" in text for text in texts)


def test_capacity_figures_hold_both_identities_and_the_doubtful_region(summary: dict[str, Any]) -> None:
    summary["memory"]["traffic_tiled"] = [[2**18, 2000 * 2**20], [2**19, 1500 * 2**20]]
    _, traffic, misses = profile_report(summary).section("memory").figures()
    assert isinstance(traffic.data, CapacityCurves)
    assert isinstance(misses.data, CapacityCurves)
    names = [curve.name.split(" ")[0] for curve in traffic.data.curves]
    assert names == ["logical", "allocator", "logical,"]
    assert list(traffic.data.curves[0].points[0]) == [2**18, 1000 * 2**20]
    assert dict(traffic.data.levels) == {"operator bytes": 1000 * 2**20, "compulsory": 20 * 2**20}
    assert traffic.data.too_low == misses.data.too_low == 64 * 2**20
    assert "Logical (each tensor's bytes new): 0.977 GiB at 256 KiB, 40.0 MiB at 64.0 GiB." in traffic.alt


def test_a_tiling_bound_that_changes_nothing_is_no_curve(summary: dict[str, Any]) -> None:
    summary["memory"]["traffic_tiled"] = summary["memory"]["traffic"]
    _, traffic, _ = profile_report(summary).section("memory").figures()
    assert isinstance(traffic.data, CapacityCurves)
    assert len(traffic.data.curves) == 2


def test_capacities_stand_in_a_table_too(summary: dict[str, Any]) -> None:
    """A terminal shows no figures, and some readers see none."""
    summary["memory"]["allocator"]["traffic"] = [[2**20, 5.0]]
    table = profile_report(summary).section("memory").table("memory-capacities")
    model = summary["memory"]
    assert table.column("capacity") == tuple(size for size, _ in model["traffic"])
    assert table.column("traffic, logical") == tuple(moved for _, moved in model["traffic"])
    assert table.column("traffic, allocator") == (None, None, 5.0, *[None] * 16)
    assert table.column("misses, allocator") == tuple(ratio for _, ratio in model["allocator"]["miss_ratio"])


def test_roofline(summary: dict[str, Any]) -> None:
    section = profile_report(summary).section("roofline")
    assert section.facts()["Peak"].value == 66.9e12
    data = next(section.figures()).data
    assert isinstance(data, Roofline)
    assert [point.name for point in data.points] == [row["name"] for row in summary["roofline"]["points"]]
    assert data.capacities[0][0] == 2**18
    assert section.table("roofline-table").column("FLOP/byte")[0] == summary["roofline"]["points"][0]["intensity"]


def test_no_roofline_without_peaks_and_the_reason(summary: dict[str, Any]) -> None:
    summary["roofline"] = None
    summary["notes"].append({"about": "roofline", "text": "The device is not in devices.toml."})
    report = profile_report(summary)
    assert "roofline" not in [section.id for section in report.sections]
    texts = note_texts(report.section("notes"))
    assert "roofline: Not in this report. The device is not in devices.toml." in texts


def test_operators_of_next_to_no_work_do_not_stretch_the_roofline(summary: dict[str, Any]) -> None:
    summary["roofline"]["points"].append({"name": "tiny", "flops": 10, "bytes": 10**9, "intensity": 1e-8})
    section = profile_report(summary).section("roofline")
    data = next(section.figures()).data
    assert isinstance(data, Roofline)
    assert "tiny" not in [point.name for point in data.points]
    assert "tiny" in section.table("roofline-table").column("operator")


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
    assert "measured_memory: Not in this report: pass memory was not run." in texts
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


def test_scaling_shows_the_whole_step_in_its_two_parts(summary: dict[str, Any]) -> None:
    table = profile_report(summary).section("scaling").table("scaling-parts")
    assert table.column("a step") == ("all FLOPs", "operator calls")
    assert table.column("fixed") == (1.5e6, 251.0)
    assert table.column("per sample") == (4.62e6, 0.0)
    assert table.column("error") == (0.0, 0.0125)
    for row in summary["scaling"]["rows"]:
        row.update(length=1230, recorded=False, kind="critic")
    summary["scaling"]["rows"].append({**summary["scaling"]["rows"][0], "kind": "generator", "length": 60})
    summary["scaling"]["rows"].append({**summary["scaling"]["rows"][0], "kind": "generator"})
    section = profile_report(summary).section("scaling")
    assert section.table("scaling-parts").column("a step") == (
        "all FLOPs, critic",
        "operator calls, critic",
        "all FLOPs, generator",
    )
    assert "Continued to length 1,230" in str(section.blocks[0])


def test_lookups_show_a_row_a_law(summary: dict[str, Any]) -> None:
    assert "lookups" not in [section.id for section in profile_report(summary).sections]
    row = {"lookups": 100, "distinct": 60, "top_share": 0.25, "steps": 8, "miss_ratio": [[2**18, 0.5], [2**22, 0.125]]}
    rows = [{**row, "law": "own", "exponent": None}, {**row, "law": "zipf", "exponent": 1.05}]
    summary["lookups"] = {
        "pass": "operators",
        "preset": "paper",
        "batch_size": 4,
        "device": "cpu",
        "samples": 4,
        "rows": rows,
    }
    table = profile_report(summary).section("lookups").table("lookups-band")
    assert table.column("ids drawn by") == ("the task's own law", "Zipf 1.05")
    assert table.column("miss at 256 KiB") == (0.5, 0.5)
    assert table.column("miss at 4.00 MiB") == (0.125, 0.125)


def test_kinds_of_steps_have_a_table_where_there_are_several(summary: dict[str, Any]) -> None:
    kind = {"kind": "critic", "share": 0.8, "calls": 3, "flops_matrix": 4, "flops_all": 5, "bytes_read": 6}
    summary["complexity"]["kinds"] = [{**kind, "bytes_written": 7}]
    assert "complexity-kinds" not in [table.id for table in profile_report(summary).section("complexity").tables()]
    summary["complexity"]["kinds"] *= 2
    table = profile_report(summary).section("complexity").table("complexity-kinds")
    assert table.rows[0] == ("critic", 0.8, 3, 4, 5, 6, 7)


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
    assert passes.column("pass") == ("timing", "timeline", "operators", "primitives", "memory")
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
    elif dataclasses.is_dataclass(value) and not isinstance(value, FigureData):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))


def test_no_text_of_the_model_is_invisible(any_hostile_report: Report) -> None:
    """A terminal would obey an escape sequence in one."""
    found = list(strings(any_hostile_report))
    assert any("<script>" in text for text in found)
    assert [text for text in found if visible(text) != text] == []


def test_empty_records_give_reports(any_summary: dict[str, Any]) -> None:
    report = profile_report(any_summary)
    assert [section.id for section in report.sections] == [s for s in ORDER if s in {x.id for x in report.sections}]
    assert {"overview", "notes", "provenance"} <= {section.id for section in report.sections}
    assert 1 <= len(report.lead) <= 6


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
