"""The report of a study: every number is the document's, and what is missing says why."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wcbench.analysis.features import COLUMNS, definitions, table_of
from wcbench.analysis.study import Group, Inputs, Settings, Study, make_study
from wcbench.analysis.study_inputs import Changed
from wcbench.analysis.validation import Metric
from wcbench.errors import RecordError
from wcbench.reports.figure_data import Bands, DotPlot, Intervals, Map, Matrix, Roofs, Stacks, Tree
from wcbench.reports.html import render_html
from wcbench.reports.model import Facts, Figure, NoteLine, Report, Section, Table, Text
from wcbench.reports.study import SECTIONS, build_sections
from wcbench.reports.study._common import View, joined, unit_of
from wcbench.reports.study.curve import steps_of
from wcbench.reports.study.locality import picked
from wcbench.reports.study_report import study_report

QUICK = Settings(clusters=3, gap_draws=5, draws=20, permutations=99, robust=True)
NAMES = ("flops_per_sample", "params_trainable", "bytes_op_level", "wss_50", "wss_90", "wss_99",
         "op_class_byte_share[conv]", "op_class_byte_share[gemm]")  # fmt: skip
OURS, THEIRS = tuple(f"a{i}" for i in range(6)), ("b0", "b1", "b2", "<b3>")
PARTS = {"document", "tables"}


def rows_of(values: pd.DataFrame) -> pd.DataFrame:
    """Rows as `features.evaluate` gives them."""
    origin = {name: definition.origin for definition in definitions() for name in definition.names}
    rows = [
        (str(workload), str(feature), float(value), origin[str(feature)], "paper", "cpu", "fp32", "operators", "", "")
        for workload, line in values.iterrows()
        for feature, value in line.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def values() -> pd.DataFrame:
    """Ten workloads decades apart; a0 and a1 are near twins."""
    rng = np.random.default_rng(1)
    found = pd.DataFrame(10 ** rng.uniform(3, 9, (10, len(NAMES))), index=[*OURS, *THEIRS], columns=list(NAMES))
    found.loc["a1"] = found.loc["a0"] * 1.001
    shares = rng.uniform(0.2, 0.8, 10)
    shares[1] = shares[0]
    found[NAMES[6]], found[NAMES[7]] = shares, 1 - shares
    return found


def changed_of(base: pd.DataFrame) -> Changed:
    parts = []
    for name, factor in (("batch x2", 1.05), ("bf16", 0.9)):
        moved = base.copy()
        moved[list(NAMES[:6])] *= factor
        parts.append(rows_of(moved).assign(change=name))
    states = [(w, c, "batch", "made", "") for w in base.index for c in ("batch x2", "bf16")]
    states += [("a0", "length", "length", "skipped", "the task has no sequence")]
    columns = ["workload", "change", "kind", "state", "reason"]
    return Changed(pd.concat(parts, ignore_index=True), pd.DataFrame(states, columns=columns))


def inputs() -> Inputs:
    base = values()
    costs = {name: float(2 ** (i % 4)) for i, name in enumerate(OURS)}
    table = replace(table_of(rows_of(base)), costs=costs, cost_unit="FLOP", cost_of="FLOPs of a step, counted")
    return Inputs(
        table=table,
        facet_table=table,
        studied=Group("s", "suite A", OURS),
        against=Group("t", "suite B", THEIRS),
        changed=changed_of(base),
        metrics=(
            Metric("time", {name: 1.0 + i % 3 for i, name in enumerate(OURS)}, "measured", "s", where="here"),
            Metric("epochs", {"a0": 3.0}, "published", "epochs"),
        ),
        classes={name: "vision" if i % 2 else "text" for i, name in enumerate([*OURS, *THEIRS])},
        levels={name: {"optimizer": "SGD" if i % 3 else "Adam"} for i, name in enumerate([*OURS, *THEIRS])},
        provenance={"wcbench": "0.1.0", "code": "abc", "command": ["wcbench", "study", "--runs", "/home/eve/runs"],
                    "records": {"a0": {"id": "1f", "record": "/home/eve/runs/a0", "batch_size": 16}}},
    )  # fmt: skip


def more_tables() -> dict[str, pd.DataFrame]:
    """The tables of times, misses and intensities, which a table of features alone does not have."""
    every = [*OURS, *THEIRS]
    predicted: dict[str, Any] = {"source": "roofline-predicted", "device": "A100"}
    categories = [
        (w, v, c, s) for w in every for v in ("paper", "full") for c, s in (("GEMM", 0.75), ("pooling", 0.25))
    ]
    pairs = [(one, other, 0.5) for i, one in enumerate(every) for other in every[i + 1 :]]
    misses = [(w, 2.0**p, (40 - p) / (20 + i)) for i, w in enumerate(every) for p in (18, 22, 28)]
    roofs = [(w, "A100", 1e12, 1e10, 1.0 + i, 0.5, 2e12) for i, w in enumerate(every)]
    functions = [
        ("aten::mm", "GEMM", 10, 6, 4, 0.6, 0.75, 0.01),
        ("aten::max_pool2d", "pooling", 3, 2, 1, 0.1, 0.25, 0.01),
    ]
    return {
        "categories": pd.DataFrame(categories, columns=["workload", "view", "category", "share"]).assign(**predicted),
        "hotspot_counts": pd.DataFrame(
            [(w, 12, 4, "aten::mm", 0.75) for w in every],
            columns=["workload", "functions", "for_80", "top", "top_share"],
        ).assign(**predicted),
        "hotspot_functions": pd.DataFrame(
            functions, columns=["function", "category", "tasks", "a", "b", "mean_share", "max_share", "least"]
        ).assign(**predicted),
        "hotspot_overlap": pd.DataFrame(pairs, columns=["one", "other", "overlap"]).assign(**predicted),
        "miss_ratios": pd.DataFrame(misses, columns=["workload", "capacity", "miss_ratio"]),
        "roofline": pd.DataFrame(
            roofs, columns=["workload", "device", "flops", "bytes", "intensity", "least_seconds", "attainable"]
        ),
    }


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study(inputs(), QUICK)


@pytest.fixture(scope="module")
def given(study: Study) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Document and tables of a whole study."""
    device = {"reason": "", "device": "A100", "peak_flops": 1.56e14, "bandwidth_bytes_s": 2.0e12, "ridge": 78.0}
    document = {**study.to_dict(), "roofline": device, "population": {"reason": "none is given"}}
    return document, {**study.tables, **more_tables()}


@pytest.fixture(scope="module")
def report(given: tuple[dict[str, Any], dict[str, pd.DataFrame]]) -> Report:
    return study_report(*given)


def numbers(value: Any) -> Iterator[float]:
    """Every number anywhere in plain data."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)


def table_of_section(report: Report, section: str, name: str) -> Table:
    return report.section(section).table(name)


def figure(report: Report, name: str) -> Any:
    return next(one.data for section in report.sections for one in section.figures() if one.id == name)


# --- the whole --------------------------------------------------------------------------------------------------------


def test_every_section_is_there_in_its_order_and_the_rest_is_missing_with_a_reason(report: Report) -> None:
    names = [name for name in SECTIONS.names() if name not in ("others", "population", "recipe2021")]
    assert [section.id for section in report.sections] == names
    notes = {line.about: line.text for line in _notes(report)}
    assert notes["recipe2021"] == "Not in this report: ask for it with --recipe aibench2021."
    assert notes["representativeness"] == "Not in this report: none is given."
    assert notes["further suites"].endswith("none was named.")


def _notes(report: Report) -> tuple[NoteLine, ...]:
    return next(block.items for block in report.section("notes").blocks if type(block).__name__ == "Notes")


def test_the_lead_is_the_answer_and_its_caveats(report: Report, given: Any) -> None:
    assert list(report.lead[:3]) == given[0]["answer"]
    assert report.lead[3] == (
        "All features are counted from operator streams or modelled: nothing here was measured on a device."
    )
    assert report.subtitle == "Study: 6 workloads of suite A and 4 workloads of suite B, 8 features"


def test_every_number_of_facts_and_tables_stands_in_the_document_or_its_tables(report: Report, given: Any) -> None:
    document, tables = given
    known = set(numbers(document))
    for frame in tables.values():
        known |= set(numbers([value.item() if hasattr(value, "item") else value for value in frame.to_numpy().ravel()]))
    ranks = {float(i) for i in range(1, 20)}
    for section in report.sections:
        facts = [fact.value for fact in section.facts().values()]
        cells = [row for table in section.tables() for row in table.rows if not table.id.endswith("-optima")]
        lost = {x for x in numbers([facts, [list(row) for row in cells]]) if x not in known | ranks}
        assert not lost, (section.id, lost)


def test_captions_and_alternative_texts_are_sentences(report: Report) -> None:
    figures = [one for section in report.sections for one in section.figures()]
    assert len(figures) >= 14
    for one in figures:
        assert one.caption.endswith("."), one.id
        assert one.alt.endswith("."), one.id
        assert any(char.isdigit() for char in one.alt), one.id


def test_another_schema_is_refused(given: Any) -> None:
    with pytest.raises(RecordError, match=r"wcbench\.study/9"):
        study_report({**given[0], "schema": "wcbench.study/9"}, given[1])


def test_home_folders_are_not_in_the_report(report: Report) -> None:
    assert "eve" not in str(report.section("provenance"))
    assert "/runs" in str(report.section("provenance"))


# --- which are enough -------------------------------------------------------------------------------------------------


def test_members_stand_for_whom_the_document_says(report: Report, given: Any) -> None:
    found = given[0]["subset"]
    table = table_of_section(report, "subset", "subset-members")
    assert sorted(table.column("member")) == found["members"] == ["a0", "a2", "a3", "a4", "a5"]
    assert table.rows[0][:2] == ("a0", "a1")
    assert dict(zip(table.column("member"), table.column("cost"), strict=True))["a2"] == 4.0
    left = table_of_section(report, "subset", "subset-left-out")
    distance = given[1]["distances"].set_index("workload").loc["a0", "a1"]
    assert left.rows[0][:3] == ("a1", "a0", pytest.approx(distance, abs=1e-11))
    facts = report.section("subset").facts()
    assert (facts["Members"].value, facts["Radius"].value) == (5, found["radius"])
    # costs 1 2 4 8 1 2; a1 is left out
    assert facts["Cost saved"].value == pytest.approx(2 / 18)


def test_the_packing_is_named_and_the_others_by_what_they_change(report: Report, given: Any) -> None:
    section = report.section("proof")
    texts = " ".join(block.text for block in section.blocks if isinstance(block, Text))
    packing = set(given[0]["subset"]["certificate"]["packing"])
    assert packing in ({*OURS} - {"a0"}, {*OURS} - {"a1"})
    assert f"The packing: all but {({*OURS} - packing).pop()}." in texts
    assert "In every smallest subset: all but a0." in texts
    assert section.facts()["Smallest subsets"].value == 2
    assert section.table("proof-optima").rows[0][1:] == ("a0", "a1")


def test_the_curve_is_the_steps_of_the_document_with_r_star_marked(report: Report, given: Any) -> None:
    data = figure(report, "curve-figure")
    assert isinstance(data, Bands)
    assert data.steps
    assert data.marks == (("r*", given[0]["radius"]["r_star"]),)
    pairs = dict(zip(data.curves[0].x, data.curves[0].y, strict=True))
    assert pairs == {row["radius"]: row["needed"] for row in given[0]["curve"]}
    assert list(data.curves[0].x) == sorted(data.curves[0].x)


def test_steps_at_one_radius_are_one_step() -> None:
    rows = [{"k": 1, "radius": 9.0, "needed": 1}, {"k": 2, "radius": 4.0, "needed": 2},
            {"k": 3, "radius": 4.0, "needed": 2}, {"k": 4, "radius": 0.0, "needed": 4}]  # fmt: skip
    assert steps_of(rows) == [(0.0, 4), (4.0, 2), (9.0, 1)]


def test_moves_are_dots_by_change(report: Report, given: Any) -> None:
    data = figure(report, "radius-moves")
    assert isinstance(data, DotPlot)
    assert set(data.groups) == {"batch x2", "bf16"}
    assert len(data.rows[0].values) == 20
    assert {value for *_, value in data.rows[0].values} == set(given[1]["moves"]["distance"])
    assert ("1 workload", "length", "skipped", "the task has no sequence") in table_of_section(
        report, "radius", "radius-not-made"
    ).rows


def test_metrics_have_a_source_and_those_without_a_result_a_reason(report: Report, given: Any) -> None:
    section = report.section("validation")
    (row,) = section.table("validation-means").rows
    assert row[0] == "time (measured, s, here)"
    assert row[1] == pytest.approx(2.0)  # 1 2 3 1 2 3
    assert row[2] == pytest.approx((1 + 1 + 3 + 1 + 2 + 3) / 6)
    (line,) = next(block.items for block in section.blocks if type(block).__name__ == "Notes")
    assert line.about == "epochs (published, epochs)"


# --- one suite against another ----------------------------------------------------------------------------------------


def test_the_verdict_stands_first_among_all_its_repeats(report: Report, given: Any) -> None:
    found = given[0]["comparisons"][0]
    data = figure(report, "diversity-repeats")
    assert isinstance(data, Intervals)
    assert data.reference == 1.0
    assert data.rows[0].value == found["verdict"]["dispersion_ratio"]
    ratios = [row["dispersion_ratio"] for row in found["repeats"] if row["dispersion_ratio"] is not None]
    assert [row.value for row in data.rows[1:]] == ratios
    assert [row.name for row in data.rows if row.marked] == found["changed_by"]


def test_measures_that_grow_with_the_size_are_apart_from_those_per_task(report: Report, given: Any) -> None:
    per_task = table_of_section(report, "diversity", "diversity-per-task").column("measure")
    shipped = table_of_section(report, "shipped", "shipped-measures").column("measure")
    grow = {row["measure"] for row in given[0]["comparisons"][0]["measures"] if row["size_dependent"]}
    assert set(shipped) == grow
    assert not grow & set(per_task)
    assert "dispersion" in per_task


def test_new_tasks_are_named_both_ways(report: Report, given: Any) -> None:
    for number, side in enumerate(given[0]["comparisons"][0]["novelty"], start=1):
        table = table_of_section(report, "novelty", f"novelty-{number}")
        assert list(table.rows) == [
            tuple(row[k] for k in ("task", "nearest", "distance", "novel")) for row in side["tasks"]
        ]


def test_facets_that_were_not_compared_say_why(report: Report, given: Any) -> None:
    facets = given[0]["comparisons"][0]["facets"]
    table = table_of_section(report, "facets", "facets-table")
    assert len(table.rows) == facets["of"] == 6
    for row in table.rows:
        if row[0] in facets["gaps"]:
            assert row[-1]


def test_levels_of_factors_are_beside_their_number_at_equal_size(report: Report) -> None:
    (row,) = table_of_section(report, "factors", "factors-levels").rows
    # Adam at places 0, 3, 6, 9 of ten: 2 of suite A's six and 2 of suite B's four; 1 - C(4, 4) / C(6, 4) of m = 4
    assert row[:3] == ("optimizer", 2, 2)
    assert row[3] == pytest.approx(2 - 1 / 15)
    assert (row[4], row[5], row[6]) == (2, 2.0, 4)


# --- what they are like -----------------------------------------------------------------------------------------------


def test_the_map_has_both_suites_and_marks_the_chosen(report: Report, given: Any) -> None:
    data = figure(report, "map-figure")
    assert isinstance(data, Map)
    assert data.hulls
    scores = given[1]["map"].set_index("workload")
    for point in data.points:
        assert (point.x, point.y) == (scores.loc[point.name, "PC1"], scores.loc[point.name, "PC2"])
        assert point.group == ("suite A" if point.name.startswith("a") else "suite B")
        assert point.chosen == (point.name in given[0]["subset"]["members"])


def test_the_tree_merges_as_the_table_says(report: Report, given: Any) -> None:
    data = figure(report, "clusters-tree")
    assert isinstance(data, Tree)
    names = [leaf.name for leaf in data.leaves]
    assert names == given[0]["clusters"]["order"]
    first = data.merges[0]
    assert {names[first.left], names[first.right]} == {"a0", "a1"}
    assert [merge.height for merge in data.merges] == list(given[1]["merges"]["height"])
    used = [side for merge in data.merges for side in (merge.left, merge.right)]
    assert sorted(used) == list(range(10))  # six leaves and five merges, of which the last is the root


def test_no_natural_clusters_are_said_in_plain_words(given: Any) -> None:
    clusters = {**given[0]["clusters"], "natural": False, "verdict": "no natural clusters: the gap statistic finds one"}
    section = next(s for s in study_report({**given[0], "clusters": clusters}, given[1]).sections if s.id == "clusters")
    assert section.blocks[0] == Text(
        "There are no natural clusters: the gap statistic finds one. So no groups are named here. The tree shows who "
        "is near whom; cut anywhere, it would give clusters of pure noise too."
    )


def test_complexity_is_parameters_against_work_on_log_axes(report: Report) -> None:
    data = figure(report, "complexity-figure")
    assert (data.x.log, data.y.log, data.y.unit) == (True, True, "FLOP")
    base = values()
    assert {(p.name, p.x, p.y) for p in data.points} == {
        (str(w), base.loc[w, "params_trainable"], base.loc[w, "flops_per_sample"]) for w in base.index
    }


def test_categories_are_stacks_of_both_views_and_of_bytes(report: Report) -> None:
    for name in ("categories-paper", "categories-full"):
        data = figure(report, name)
        assert isinstance(data, Stacks)
        assert len(data.bars) == 10
        assert dict(data.bars[0].parts) == {"GEMM": 0.75, "pooling": 0.25}
    bars = {bar.name: dict(bar.parts) for bar in figure(report, "categories-bytes").bars}
    assert bars["a3"]["convolution"] == values().loc["a3", "op_class_byte_share[conv]"]
    assert "predicted, not measured" in report.section("categories").blocks[0].text  # type: ignore[union-attr]


def test_measured_times_are_taken_where_as_many_tasks_have_them(given: Any) -> None:
    tables = dict(given[1])
    gpu = tables["categories"].assign(source="measured GPU", device="H200")
    tables["categories"] = pd.concat([tables["categories"], gpu], ignore_index=True)
    section = study_report(given[0], tables).section("categories")
    assert section.blocks[0] == Text("Times are measured GPU on H200, of a training step.")


def test_overlap_is_symmetric_and_one_on_the_diagonal(report: Report) -> None:
    data = figure(report, "hotspots-overlap")
    assert isinstance(data, Matrix)
    grid = np.array(data.rows, float)
    assert (np.diag(grid) == 1).all()
    assert (grid == grid.T).all()
    assert table_of_section(report, "hotspots", "hotspots-functions").rows[0][:3] == ("aten::mm", "GEMM", 10)


def test_miss_ratios_are_curves_of_tasks_picked_evenly_by_rank(report: Report) -> None:
    data = figure(report, "locality-misses")
    assert data.curves[0].name == "a0"  # misses most
    assert data.curves[-1].name == "<b3>"
    assert data.curves[0].y == pytest.approx((22 / 20, 18 / 20, 12 / 20))
    assert picked({f"w{i:02d}": [(1.0, i / 20)] for i in range(20)}) == [
        "w19",
        "w16",
        "w13",
        "w09",
        "w06",
        "w03",
        "w00",
    ]


def test_tasks_stand_under_the_roof_of_the_device(report: Report) -> None:
    data = figure(report, "roofline-figure")
    assert isinstance(data, Roofs)
    assert (data.peak, data.bandwidth) == (1.56e14, 2.0e12)
    assert data.points[0] == type(data.points[0])("a0", "suite A", 1.0)  # predicted, so that nothing was attained


def test_dots_have_the_values_and_units_of_the_features(report: Report) -> None:
    rows = [row for one in report.section("features").figures() for row in one.data.rows]  # type: ignore[union-attr]
    assert {row.name for row in rows} == set(NAMES[:6])  # shares of one whole are stacks
    work = next(row for row in rows if row.name == "flops_per_sample")
    assert (work.kind, work.unit, work.log) == ("si_each", "FLOP/sample", True)
    assert {(w, v) for w, _, v in work.values} == {(str(w), v) for w, v in values()["flops_per_sample"].items()}


# --- degraded ---------------------------------------------------------------------------------------------------------


def test_without_any_table_the_report_says_what_is_missing(given: Any) -> None:
    found = study_report(given[0], {})
    about = {line.about for line in _notes(found)}
    assert {"complexity", "roofline", "locality"} <= about
    assert found.section("subset").table("subset-members").rows
    assert not list(found.section("map").figures())
    render_html(found)


DOCUMENT = ("subset", "curve", "radius", "stability", "validation", "comparisons", "pca", "clusters", "table", "space",
            "alternatives", "changes", "provenance", "cost", "studied", "settings")  # fmt: skip


@pytest.mark.parametrize("part", DOCUMENT)
def test_without_a_part_of_the_document_the_rest_stands(given: Any, part: str) -> None:
    document = {key: value for key, value in given[0].items() if key != part}
    found = study_report(document, given[1])
    assert {"notes", "method", "provenance"} <= {section.id for section in found.sections}
    for section in found.sections:
        assert section.blocks, section.id


@pytest.mark.parametrize("name", ["subset", "moves", "map", "merges", "certificate", "features", "categories",
                                  "hotspot_overlap", "miss_ratios", "rarefaction", "matched"])  # fmt: skip
def test_without_a_table_or_with_an_empty_one_the_rest_stands(given: Any, name: str) -> None:
    document, tables = given
    study_report(document, {key: frame for key, frame in tables.items() if key != name})
    if name in tables:
        study_report(document, {**tables, name: tables[name].iloc[:0]})
        blank = tables[name].astype(object).where(tables[name].map(lambda item: isinstance(item, str)), None)
        study_report(document, {**tables, name: blank})


def test_numbers_that_are_null_everywhere_are_absent_and_not_zero(given: Any) -> None:
    document = json.loads(json.dumps(given[0]))
    blanked = _blank(document)
    blanked["schema"], blanked["answer"] = document["schema"], document["answer"]
    html = render_html(study_report(blanked, {}))
    assert "n/a" in html


def _blank(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return None if isinstance(value, int | float) and not isinstance(value, bool) else value


def test_one_suite_has_no_comparison_and_says_so(given: Any) -> None:
    document = {**given[0], "against": None, "comparisons": []}
    found = study_report(document, given[1])
    assert not {"diversity", "novelty", "facets", "factors", "subsets"} & {section.id for section in found.sections}
    notes = {line.about: line.text for line in _notes(found)}
    assert notes["diversity"] == ("Not in this report: nothing to compare with: name another suite with --against.")


def test_a_comparison_that_failed_gives_its_reason(given: Any) -> None:
    document = {**given[0], "comparisons": [{"id": "suites", "title": "A against B", "reason": "one task is left"}]}
    notes = {line.about: line.text for line in _notes(study_report(document, given[1]))}
    assert notes["diversity"] == "Not in this report: the suites cannot be compared: one task is left."


def test_many_workloads_have_bounds_and_no_figure_by_name(given: Any) -> None:
    names = [f"j{i}" for i in range(400)]
    found = {
        "members": names[:50], "size": 50, "of": 400, "radius": 1.0, "radius_is": "given", "reached": 0.9,
        "upper": 50, "lower": 31, "distinguishable": True, "verdict": "A smallest cover has 31 to 50 members.",
        "certificate": {"proof": "bounds", "text": "", "packing": names[:31]},
    }  # fmt: skip
    document = {
        **given[0],
        "studied": {"id": "s", "title": "jobs", "workloads": names},
        "against": None, "comparisons": [], "curve": [], "subset": found,
        "alternatives": {"reason": "beyond 300 workloads covers are not listed"},
        "cost": {"saved": None, "reason": "not worked out", "of": "", "unit": ""},
        "stability": {"reason": "few"}, "clusters": {"reason": "few"},
        "table": {**given[0]["table"], "workloads": names},
    }  # fmt: skip
    scores = pd.DataFrame({"workload": names, "PC1": range(400), "PC2": range(400)})
    served = pd.DataFrame({"workload": names, "covered_by": [names[i % 50] for i in range(400)], "distance": 0.5})
    report = study_report(document, {"map": scores, "subset": served, "features": scores})
    facts = report.section("subset").facts()
    assert (facts["Members, at most"].value, facts["Members, at least"].value) == (50, 31)
    assert not [one for section in report.sections for one in section.figures()]
    assert "it has 400 workloads" in str(report.section("map"))
    assert "not claimed to be minimal" in " ".join(report.lead)


def test_a_radius_that_is_shown_only_is_said_to_be_no_answer(given: Any) -> None:
    document = copy.deepcopy(given[0])
    document["radius"].update(how="shown", reason="r* is not known: none were asked for", r_star=None, distances=0)
    document["subset"]["radius_is"] = "shown"
    found = study_report(document, {})
    assert "No r* tells these workloads apart" in str(found.section("radius").blocks[0])
    assert found.section("subset").facts()["Radius"].hint.startswith("no r*")
    assert found.section("curve").figures().__next__().data.marks[0][0] == "r"  # type: ignore[union-attr]


def test_the_recipe_of_2021_is_shown_with_its_doubts(given: Any) -> None:
    recipe = {
        "reason": "", "reference": "ISPASS 2021", "caveat": "no counter of the paper is used", "verdict": "they change",
        "metrics": ["ipc_efficiency"], "missing": ["dram_utilization"], "clusters": 3, "perplexity": 2.5, "seeds": [0],
    }  # fmt: skip
    table = pd.DataFrame([(s, w, s + i, 2.0 * i, i % 3) for s in (0, 1) for i, w in enumerate(OURS)],
                         columns=["seed", "workload", "x", "y", "cluster"])  # fmt: skip
    report = study_report({**given[0], "recipe2021": recipe}, {**given[1], "recipe2021": table})
    points = figure(report, "recipe2021-map").points
    assert {(p.name, p.x, p.y, p.group) for p in points} == {
        (w, float(i), 2.0 * i, f"cluster {i % 3}") for i, w in enumerate(OURS)
    }
    assert "Not the paper's: no counter of the paper is used." in str(report.section("recipe2021"))
    failed = study_report({**given[0], "recipe2021": {"reason": "it takes counters of a GPU"}}, given[1])
    assert ("recipe2021", "Not in this report: it takes counters of a GPU.") in {
        (n.about, n.text) for n in _notes(failed)
    }


def test_a_population_is_another_question_than_diversity(given: Any) -> None:
    part = {
        "reason": "", "title": "our cluster", "items": 4, "weight": 8.0, "placed": 0.75, "radius": 1.5,
        "suites": [{"suite": "suite A", "share": 0.5, "share_of_placed": 2 / 3, "tasks": 6}],
        "sentences": ["at least 50 % of it lies near."], "left_out": {"job-7": "it has no values"},
    }  # fmt: skip
    section = study_report({**given[0], "population": part}, given[1]).section("population")
    assert section.table("population-suites").rows == (("suite A", 0.5, 2 / 3, 6),)
    assert section.facts()["Placed"].value == 0.75
    assert "job-7" in str(section)


def report_cells(table: Table) -> list[str]:
    return [str(cell) for row in table.rows for cell in row]


def test_a_further_suite_has_its_own_verdict(given: Any) -> None:
    one = {**given[0]["comparisons"][0], "id": "suite-c", "title": "suite A against suite C", "about": ""}
    found = study_report({**given[0], "comparisons": [*given[0]["comparisons"], one]}, given[1])
    (row,) = found.section("others").table("others-verdicts").rows
    assert row[0] == "suite A against suite C"
    assert row[3] == one["verdict"]["dispersion_ratio"]
    verdicts = report_cells(found.section("subsets").table("subsets-verdicts"))
    assert not any("suite C" in cell for cell in verdicts)


def test_names_of_strangers_are_harmless(given: Any) -> None:
    document = json.loads(json.dumps(given[0]).replace("a3", "<script>alert(1)</script>\\u202e"))
    tables = {
        name: frame.map(
            lambda item: item.replace("a3", "<script>alert(1)</script>\u202e") if isinstance(item, str) else item
        )
        for name, frame in given[1].items()
        if name not in ("distances", "consensus")
    }
    report = study_report(document, tables)
    html = render_html(
        report.__class__(report.title, report.subtitle, report.lead, tuple(map(_undrawn, report.sections)), "")
    )
    assert "<script>alert" not in html
    assert "\u202e" not in html


def _undrawn(section: Section) -> Section:
    return replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Figure)))


# --- small parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "kind", "written"),
    [("fraction", "share", ""), ("B", "bytes_each", ""), ("FLOP/sample", "si_each", "FLOP/sample"),
     ("FLOP/B", "number", "FLOP/B"), ("", "number", ""), ("widgets", "number", "widgets"), (None, "number", "")],
)  # fmt: skip
def test_units_say_how_values_are_written(unit: str, kind: str, written: str) -> None:
    found = unit_of(unit)
    assert (found.kind, found.unit) == (kind, written)


def test_long_lists_of_names_end_with_their_number() -> None:
    assert joined(["a", "b", "c"], 2) == "a, b and 1 more"
    assert joined([]) == "none"


def test_a_workload_in_both_suites_is_of_both(given: Any) -> None:
    document = copy.deepcopy(given[0])
    document["against"]["workloads"].append("a0")
    view = View(document, given[1])
    assert view.group("a0") == "both suites"
    assert view.titles == ("suite A", "suite B", "both suites")
    assert build_sections(view)


def test_facts_are_never_empty_blocks(report: Report) -> None:
    for section in report.sections:
        assert all(block.items for block in section.blocks if isinstance(block, Facts))
