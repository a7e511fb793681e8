"""The report of an imported record: its sentences, sections and provenance."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from wcbench.errors import WcbenchError
from wcbench.reports.figure_data import Bars, LiveCurve, QualityCurves
from wcbench.reports.figures import draw, svg
from wcbench.reports.lead import lead
from wcbench.reports.model import Column, Notes, Section, Table, Text
from wcbench.reports.profile_report import profile_report
from wcbench.reports.terminal import terminal_section, terminal_view


def text(section: Section) -> str:
    return " ".join(block.text for block in section.blocks if isinstance(block, Text))


def test_the_sentences(foreign: dict[str, Any]) -> None:
    assert lead(foreign) == (
        "rank0.json and 1 more file (kineto) hold 40 executions of kernels and copies on cuda:0 (NVIDIA "
        "A100-SXM4-80GB): 100 µs of device time; the device was busy for 75.0 % of its span. Beside that it has 7 "
        "values of hardware counters.",
        "A step takes 12 ms by the host's marks (quartiles 12 to 13 ms, 2 steps on each of 2 ranks); the steps hold "
        "40.0 % of the kernel time.",
        "1 of 2 checks of plausibility failed (launches without work: 3 of 100 launches have no device record).",
        "The largest part of the kernel time goes to convolution (41.2 %); the top 3 of 16 kernels, copies and "
        "fills make up 53.8 %.",
        "Import: 3 pieces of the files are missing, damaged or not readable, 2 pieces were damaged and mended (section "
        "Left out).",
    )


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({}, "rank0.json and 1 more file (kineto) hold nothing that a report shows."),
        ({"trainings": 1}, "rank0.json and 1 more file (kineto) hold 1 training run."),
        (
            {"totals": 1, "trainings": 5, "epochs": 70},
            "rank0.json and 1 more file (kineto) hold 5 training runs, 70 evaluations and 1 sum by name.",
        ),
    ],
)
def test_files_without_a_device(foreign: dict[str, Any], tables: dict[str, int], sentence: str) -> None:
    foreign.update(
        activity=None, hotspots=None, categories=None, losses=[], lost={}, tables=tables, gates=None, passes={}
    )
    assert lead(foreign) == (sentence,)


def test_a_trace_without_steps_says_so(foreign: dict[str, Any]) -> None:
    foreign["hotspots"]["basis"] = "trace"
    foreign["passes"]["timeline"]["step_ms_median"] = None
    assert lead(foreign)[1] == "It marks no steps, so that the whole trace counts as one."
    section = profile_report(foreign).section("hotspots")
    assert "of the whole trace: 8.00 ms in 16 kernels, copies and fills, mean over 2 ranks." in text(section)
    assert "per step" not in text(section)
    assert [table.id for table in section.tables()] == ["hotspots-table"]


@pytest.mark.parametrize(("basis", "words"), [("sums", "sums of a whole run"), ("all", "No step is marked")])
def test_figures_that_are_of_no_step(foreign: dict[str, Any], basis: str, words: str) -> None:
    foreign["hotspots"]["basis"] = basis
    told = text(profile_report(foreign).section("hotspots"))
    assert words in told
    assert "nothing here is per step" in told


def test_hotspots_show_the_whole_file_beside_the_steps(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("hotspots")
    assert "mean of 2 steps on each of 2 ranks. The steps hold 40.0 % of the time in the record" in text(section)
    assert "5 records of synchronization (900 ns) left out" in text(section)
    assert section.table("hotspots-whole").rows == ((0.6, "outside_kernel", 60_000.0, 4.0),)
    foreign["hotspots"]["coverage"] = 1.0
    section = profile_report(foreign).section("hotspots")
    assert [table.id for table in section.tables()] == ["hotspots-table"]
    assert "Everything in this section is per step." in text(section)


def test_several_devices_are_counted(foreign: dict[str, Any]) -> None:
    device = foreign["activity"]["devices"][0]
    foreign["activity"]["devices"] = [{**device, "rank": rank} for rank in range(2)]
    assert (
        "on 2 devices (NVIDIA A100-SXM4-80GB) of 2 ranks: 100 µs of device time; the devices were" in lead(foreign)[0]
    )


def test_gates_stand_on_top_the_failed_ones_first(foreign: dict[str, Any]) -> None:
    report = profile_report(foreign)
    assert [section.id for section in report.sections][:2] == ["overview", "gates"]
    section = report.section("gates")
    assert section.table("gates-table").column("verdict") == ("FAILED", "held", "not checked")
    assert "1 of 2 checks failed" in text(section)
    assert "1 check could not be made" in text(section)
    foreign["gates"].update(failed=0, rows=foreign["gates"]["rows"][:1], checked=1, not_checked=0)
    assert text(profile_report(foreign).section("gates")) == "The one check that could be made held."
    assert "plausibility" not in " ".join(lead(foreign))


def test_a_live_record_says_what_failed_too(summary: dict[str, Any], foreign: dict[str, Any]) -> None:
    assert len(lead(summary)) == 3
    summary["gates"] = foreign["gates"]
    assert lead(summary)[1].startswith("1 of 2 checks of plausibility failed")
    assert "losses" not in [section.id for section in profile_report(summary).sections]


def test_where_nothing_can_be_checked_each_check_says_why(foreign: dict[str, Any]) -> None:
    foreign["gates"].update(rows=foreign["gates"]["rows"][2:], checked=0, failed=0, not_checked=1)
    section = profile_report(foreign).section("gates")
    assert text(section) == "No check could be made; each has its reason below."
    assert section.table("gates-table").column("verdict") == ("not checked",)
    foreign["gates"]["rows"] = []
    assert "gates" not in [section.id for section in profile_report(foreign).sections]


def test_activity(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("activity")
    table = section.table("activity-devices")
    assert table.column("busy") == (0.75,)
    assert table.column("hidden") == (1.0,)
    assert table.column("no timestamp") == (1,)
    assert section.table("activity-streams").column("stream") == ("7",)
    (figure,) = section.figures()
    assert isinstance(figure.data, Bars)
    bars = [(bar.name, bar.share) for bar in figure.data.panels[0].bars]
    assert bars == [("computation", 0.5), ("computation + communication", 0.25), ("idle", 0.25)]
    notes = [line.text for block in section.blocks if isinstance(block, Notes) for line in block.items]
    assert "1 of 40 executions has no timestamp." in notes
    foreign["activity"]["devices"][0]["no_timestamp"] = 0
    titles = [column.title for column in profile_report(foreign).section("activity").table("activity-devices").columns]
    assert "no timestamp" not in titles


def test_many_devices_have_figures_of_two_and_a_word_on_the_rest(foreign: dict[str, Any]) -> None:
    foreign["activity"]["devices"] = [{**foreign["activity"]["devices"][0], "rank": rank} for rank in range(11)]
    figures = list(profile_report(foreign).section("activity").figures())
    assert [figure.id for figure in figures] == [f"activity-figure-{number}" for number in (1, 2, 3, 4)]
    assert "3 more devices are in the table alone." in figures[-1].caption
    assert "more devices" not in figures[0].caption


def test_operators_and_sums(foreign: dict[str, Any]) -> None:
    report = profile_report(foreign)
    ops = report.section("ops")
    assert ops.table("ops-table").column("on devices") == (5000.0, 0.0)
    assert "24 calls of 2 operators in the whole record" in text(ops)
    assert "(70.0 ns of kernels belong to no operator)" in text(ops)
    for row in foreign["ops"]["rows"]:
        row["device_ns"] = None
    titles = [column.title for column in profile_report(foreign).section("ops").table("ops-table").columns]
    assert "on devices" not in titles
    table = report.section("totals").table("totals-runtime")
    assert table.column("mean") == (4e3,)
    assert "device" not in [column.title for column in table.columns]


def test_counters_and_the_memory_timeline(foreign: dict[str, Any]) -> None:
    report = profile_report(foreign)
    counters = report.section("counters")
    assert counters.table("counters-five").rows == (
        ("achieved_occupancy", 0.5, 0.75, "m; at best"),
        ("ipc_efficiency", None, None, "m; at best; the record holds no ipc"),
    )
    assert counters.table("counters-table").column("mean") == (512.0,)
    assert "Metrics under the file's own names: own_metric." in text(counters)
    memory = report.section("allocations")
    assert memory.facts()["Peak"].value == 8 * 2**20
    assert memory.table("allocations-table").rows == (
        ("activation", 7 * 2**20, None),
        ("parameter", 2**20, 2**20),
    )


def test_what_was_lost_stands_before_what_was_mended(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("losses")
    assert section.table("losses-table").column("done") == ("missing", "mended")
    assert section.table("losses-table").column("count") == (3, 2)
    assert text(section).startswith("3 pieces of the files are missing, damaged or not readable; 2 pieces were")
    foreign["losses"] = [{**foreign["losses"][0], "count": 1, "deliberate": True}]
    foreign["lost"] = {"missing": 0, "mended": 0, "deliberate": 1}
    section = profile_report(foreign).section("losses")
    assert text(section) == (
        "Nothing was lost and nothing had to be mended. 1 piece is left out on purpose, and no figure lacks it."
    )
    assert section.table("losses-table").column("done") == ("left out on purpose",)
    assert section.table("losses-table").column("file") == ("rank0.json",)
    assert "Import" not in " ".join(lead(foreign))
    foreign.update(losses=[], lost={"missing": 0, "mended": 0, "deliberate": 0})
    assert text(profile_report(foreign).section("losses")) == "Nothing was lost and nothing had to be mended."


def test_the_files_and_the_machine(foreign: dict[str, Any]) -> None:
    report = profile_report(foreign)
    assert report.subtitle == "Imported profile: kineto, on cuda"
    assert report.provenance.startswith("Imported 2026-11-30 15:29 UTC")
    section = report.section("provenance")
    files = section.table("provenance-files")
    assert files.column("file") == ("rank0.json", "rank1.json")
    assert files.column("rank") == (0, 1)
    assert "refused because" not in [column.title for column in files.columns]
    facts = section.facts()
    assert facts["GPUs"].value == "8 × NVIDIA A100-SXM4-80GB"
    assert facts["Processes of the job"].value == 2
    assert "Processor" not in facts
    foreign["source"]["files"][1]["refused"] = "It is empty."
    files = profile_report(foreign).section("provenance").table("provenance-files")
    assert files.column("refused because") == (None, "It is empty.")


def test_overview_tells_only_what_the_files_tell(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("overview")
    facts = section.facts()
    assert facts["Read from"].value == "rank0.json, rank1.json"
    assert (facts["Device"].value, facts["Device"].hint) == ("cuda", "NVIDIA A100-SXM4-80GB")
    assert facts["Executions on devices"].value == 40
    assert not {"Preset", "Batch", "Precision", "Throughput", "Parameters"} & set(facts)
    assert [column.title for column in section.table("overview-where").columns] == ["section", "pass", "device"]
    foreign["passes"]["timeline"].update(preset="paper", batch_size=8)
    facts = profile_report(foreign).section("overview").facts()
    assert (facts["Preset"].value, facts["Batch"].value) == ("paper", 8)


def test_gpus_of_several_kinds_are_not_guessed(foreign: dict[str, Any]) -> None:
    foreign["machine"]["gpus"] = [{"name": "one"}, {"name": "another"}]
    hint = profile_report(foreign).section("overview").facts()["Device"].hint
    assert hint == "one, another"
    foreign["passes"]["timeline"]["device"] = "cuda:1"
    hint = profile_report(foreign).section("overview").facts()["Device"].hint
    assert hint == "one, another"  # two files are perhaps of two machines, each with a cuda:1
    foreign["source"]["files"].pop()
    assert profile_report(foreign).section("overview").facts()["Device"].hint == "another"


def test_missing_parts_are_one_sentence(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("notes")
    assert text(section).startswith(
        "The imported files hold nothing for these parts of a report: complexity, scaling, "
    )
    assert all(
        "Not in this report" not in line.text for b in section.blocks if isinstance(b, Notes) for line in b.items
    )


def test_steps_of_an_import(foreign: dict[str, Any]) -> None:
    section = profile_report(foreign).section("steps")
    assert set(section.facts()) == {"Step time, median"}
    (figure,) = section.figures()
    assert figure.caption.startswith("Every step of pass timeline on each of 2 ranks.")


def test_a_terminal_shows_each_section(foreign: dict[str, Any]) -> None:
    for section in profile_report(foreign).sections:
        assert terminal_view(foreign, section.id) is not None


@pytest.mark.parametrize("section", ["activity", "ops", "totals", "counters", "convergence", "allocations", "losses"])
def test_a_section_that_a_record_has_not_is_told_with_its_reason(summary: dict[str, Any], section: str) -> None:
    with pytest.raises(WcbenchError, match=rf"This record has no {section}\. (No|It) .+\."):
        terminal_view(summary, section)


def test_a_step_that_lasts_longer_on_the_device_says_so(foreign: dict[str, Any]) -> None:
    foreign["passes"]["timeline"]["device_step_ms_median"] = 20.0
    assert "2 ranks), but its kernels span 20.0 ms on the device; the steps hold" in lead(foreign)[1]
    report = profile_report(foreign)
    assert report.section("overview").facts()["Step on the device"].value == 20.0
    assert report.section("steps").facts()["On the device, median"].value == 20.0
    assert report.section("steps").table("steps-table").column("on the device") == (20.0,)
    foreign["passes"]["timeline"]["device_step_ms_median"] = 12.6  # within 2 % of the host's
    assert "on the device" not in lead(foreign)[1]
    assert "Step on the device" not in profile_report(foreign).section("overview").facts()


def test_hidden_communication_is_in_the_answer(foreign: dict[str, Any]) -> None:
    foreign["activity"]["hidden_share"] = 0.25
    assert lead(foreign)[0].endswith("25.0 % of the communication is hidden behind computation.")
    assert "25.0 % of the communication is hidden" in text(profile_report(foreign).section("activity"))


def convergence() -> dict[str, Any]:
    """Two runs of one benchmark by hand, of which the second has one evaluation more."""
    curves = [
        {"run": run, "metric": None, "of": "epochs", "points": [[1.0, 0.5], [2.0, 0.7], [3.0, 0.75]][: 2 + run]}
        for run in range(2)
    ]
    common = {"benchmark": "resnet", "system": "box", "batch_size": 8, "status": "success", "target": 0.7}
    runs = [
        {**common, "run": run, "seed": 1, "seconds": 3101.0 + run, "epochs": 2 + run, "samples": None}
        | {"quality": 0.7, "qualities": {"": 0.7}, "file": f"/logs/result_{run}.txt"}
        for run in range(2)
    ]
    amounts = {"n": 2, "std": 1.0, "least": 1.0, "most": 3.0, "reason": None}
    group = {**common, "submitter": None, "series": None, "runs": [0, 1], "success": 2, "aborted": 0, "unfinished": 0}
    group |= {"seconds": {**amounts, "mean": 3101.5, "cv": 0.01}, "epochs": {**amounts, "mean": 2.5, "cv": 0.28}}
    group |= {"to_quality": "epochs", "olympic_seconds": None, "olympic_reason": "2 runs are too few"}
    return {"pass": "convergence", "evaluations": 5, "rows": runs, "groups": [group], "curves": curves}


def test_training_runs_are_answered_and_drawn(foreign: dict[str, Any]) -> None:
    foreign.update(convergence=convergence(), tables={"trainings": 2, "epochs": 9}, activity=None, hotspots=None)
    foreign.update(categories=None)
    first, second = lead(foreign)[:2]
    assert first.endswith("hold 2 training runs and 5 evaluations.")
    said = "2 of 2 runs of resnet on box reached the target: 3,102 s to train on average (cv 1.0 %), 2.50 epochs to "
    assert second == said + "quality (cv 28.0 %)."
    section = profile_report(foreign).section("convergence")
    assert section.table("convergence-runs").column("file") == ("result_0.txt", "result_1.txt")
    (figure,) = section.figures()
    assert isinstance(figure.data, QualityCurves)
    assert [curve.points for curve in figure.data.curves] == [
        ((1.0, 0.5), (2.0, 0.7)),
        ((1.0, 0.5), (2.0, 0.7), (3.0, 0.75)),
    ]
    assert (figure.data.along, figure.data.levels) == ("epochs", (0.7,))
    assert "<svg" in svg(figure.data, width=343, prefix="x", label="y")
    for curve in foreign["convergence"]["curves"]:
        curve["points"] = curve["points"][:1]
    assert not list(profile_report(foreign).section("convergence").figures())


def test_long_curves_are_thinned_and_end_where_they_end(foreign: dict[str, Any]) -> None:
    made = convergence()
    made["curves"] = [{**made["curves"][0], "points": [[float(i), 0.5] for i in range(9000)]}]
    foreign["convergence"] = made
    (figure,) = profile_report(foreign).section("convergence").figures()
    (curve,) = figure.data.curves  # type: ignore[union-attr]
    assert len(curve.points) == 9000 / 5
    assert curve.points[-1] == (8999.0, 0.5)


def test_memory_over_time_is_drawn(foreign: dict[str, Any]) -> None:
    foreign["allocations"].update(
        moments=3, time_ns=[0, 1_000_000, 4_000_000], curve={"input": [1, 1, 1], "activation": [0, 7, 2], "x": [0] * 3}
    )
    (figure,) = profile_report(foreign).section("allocations").figures()
    assert isinstance(figure.data, LiveCurve)
    assert figure.data.timed
    assert figure.data.classes == (("activation", (0, 7, 2)), ("input", (1, 1, 1)))
    axes = draw(figure.data).axes[0]
    assert axes.get_xlabel() == "time since the first event (ms)"
    corners = axes.patches[-1].get_xy()  # the lowest of the stack: activation, which stays until the next moment
    assert {(1.0, 0.0), (1.0, 7.0), (4.0, 7.0), (4.0, 2.0)} <= {(float(x), float(y)) for x, y in corners}


def test_missing_blocks_of_an_import_are_all_named(foreign: dict[str, Any]) -> None:
    foreign.update(activity=None, counters=None)
    said = text(profile_report(foreign).section("notes"))
    assert all(name in said for name in ("activity", "counters", "convergence", "complexity"))


def test_formulas_are_no_hardware_counters(foreign: dict[str, Any]) -> None:
    foreign["counters"].update(hardware=False, five=None)
    section = profile_report(foreign).section("counters")
    assert text(section).startswith("By PyProf's formulas on the operators' arguments, no counters of the hardware.")
    assert [table.id for table in section.tables()] == ["counters-table"]
    assert "Beside that it has 7 values by PyProf's formulas." in lead(foreign)[0]


def test_phases_that_are_not_told_have_no_share(foreign: dict[str, Any]) -> None:
    foreign["categories"]["phases"] = dict.fromkeys(("forward", "backward", "optimizer", "other"))
    table = profile_report(foreign).section("categories").table("categories-phases")
    assert table.column("share") == (None,) * 4
    assert "n/a: the file does not tell it, or none ran" in table.caption


def test_times_of_ranks_share_their_unit(foreign: dict[str, Any]) -> None:
    assert "least rank" not in [
        c.title for c in profile_report(foreign).section("hotspots").table("hotspots-table").columns
    ]
    for row in foreign["hotspots"]["rows"]:
        row.update(rank_min_ns=400.0, rank_max_ns=9_000_000.0)
    table = profile_report(foreign).section("hotspots").table("hotspots-table")
    assert set(table.column("least rank")) == {400.0}
    units = {column.title: text.unit for column, text in zip(table.columns, table.texts(table.shown), strict=True)}
    assert (units["time"], units["least rank"], units["most rank"]) == ("ms", "ms", "ms")


def shown(table: Table, width: int, rows: int = 20) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(terminal_section(Section("x", "x", (table,)), rows))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_narrow_terminal_drops_first_what_says_nothing() -> None:
    columns = (
        Column("rank", "count"),
        Column("machine of the job"),
        Column("never there", "count"),
        Column("other", "count"),
        Column("hidden", "share", keep=True),
        Column("kernel", "name"),
    )
    rows = tuple((rank, "one and the same machine", 0, 123_456_789_012, 0.25, "k" * 300) for rank in range(2))
    table = Table("x", "caption", columns, rows)
    told = " ".join(shown(table, 60).split())
    assert "hidden" in told
    said = "machine of the job one and the same machine, never there 0, other 123,456,789,012"
    assert told.endswith(f"The same in every row: {said}")
    assert "k…" in told  # a cut name ends so
    assert "No room" not in shown(table, 200)
    assert "k…" in shown(table, 200).replace("\n", "")


def test_times_of_a_table_share_their_unit_and_nothing_has_one_of_its_own(foreign: dict[str, Any]) -> None:
    """A span of milliseconds, work of microseconds and no communication, as a trace of one device has."""
    times = {"sum_ns": 309_000, "span_ns": 3_910_000, "computation_ns": 307_000, "communication_ns": 0, "copy_ns": 2240}
    foreign["activity"]["devices"] = [{**foreign["activity"]["devices"][0], **times}]
    foreign["activity"]["streams"] = [{**foreign["activity"]["streams"][0], "sum_ns": 309_000, "span_ns": 3_910_000}]
    section = profile_report(foreign).section("activity")
    for table in section.tables():
        told = zip(table.columns, table.texts(table.rows), strict=True)
        cells = {column.title: (text.unit, *text.cells) for column, text in told if column.kind == "time_ns"}
        wanted = {"times added up": "0.309", "span": "3.91", "computation": "0.307", "communication": "0"}
        wanted["copies"] = "0.00224"
        assert cells == {title: ("ms", wanted[title]) for title in cells}
        assert {"times added up", "span"} <= set(cells)


def test_each_table_of_times_has_one_unit(foreign: dict[str, Any]) -> None:
    """A sum of calls apart, which is no time of a call."""
    for section in profile_report(foreign).sections:
        for table in section.tables():
            units = {text.unit for column, text in zip(table.columns, table.texts(table.rows), strict=True)
                     if column.kind in ("time_ns", "time_ms", "time_s") and column.title != "total"}  # fmt: skip
            assert len(units) < 2, table.id
