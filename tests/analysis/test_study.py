"""The study as a whole: what it says, that it can be read back, and that nothing but the data decides it."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.features import COLUMNS, definitions, table_of
from wcbench.analysis.population import Population
from wcbench.analysis.stability import SEED
from wcbench.analysis.study import Group, Inputs, Settings, Study, load_study, make_study
from wcbench.analysis.study_inputs import Changed, Known
from wcbench.analysis.study_run import run_table
from wcbench.analysis.study_table import default_transform, read_table, table_inputs
from wcbench.analysis.validation import Metric
from wcbench.errors import ReadError, RecordError, UnknownNameError, UsageError
from wcbench.machine import wcbench_version

QUICK = Settings(clusters=3, gap_draws=5, draws=20, permutations=99, robust=False)
NAMES = ("flops_per_sample", "params_trainable", "unique_bytes_per_step", "bytes_op_level", "wss_50", "dlp_median")


def rows_of(values: pd.DataFrame) -> pd.DataFrame:
    """Rows as `features.evaluate` gives them."""
    origin = {name: definition.origin for definition in definitions() for name in definition.names}
    rows = [
        (str(workload), str(feature), float(value), origin[str(feature)], "paper", "cpu", "fp32", "operators", "", "")
        for workload, line in values.iterrows()
        for feature, value in line.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def planted(n: int = 12, pairs: int = 2, seed: int = 0, spread: float = 9.0) -> pd.DataFrame:
    """Workloads decades apart, but the first ``pairs`` twos (w00 and w01, w02 and w03, ...), which are near twins."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(3, 3 + spread, (n - pairs, len(NAMES)))
    of = np.concatenate([np.repeat(np.arange(pairs), 2), np.arange(pairs, n - pairs)])
    values = 10 ** (centres[of] + rng.normal(0, 0.001, (n, len(NAMES))))
    return pd.DataFrame(values, index=[f"w{i:03d}" for i in range(n)], columns=list(NAMES))


def changed_of(values: pd.DataFrame, factor: float) -> Changed:
    """Every workload twice more: all values times a factor, and divided by it."""
    parts = []
    for name, by in (("up", factor), ("down", 1 / factor)):
        parts.append(rows_of(values * by).assign(change=name))
    pairs = [(w, c, "batch", "made", "") for w in values.index for c in ("up", "down")]
    pairs.append((str(values.index[0]), "length", "length", "skipped", "the task has no sequence"))
    states = pd.DataFrame(pairs, columns=["workload", "change", "kind", "state", "reason"])
    return Changed(pd.concat(parts, ignore_index=True), states)


def inputs_of(values: pd.DataFrame, **others: Any) -> Inputs:
    costs = {str(name): float(2 ** (i % 5)) for i, name in enumerate(sorted(values.index))}
    table = replace(table_of(rows_of(values)), costs=costs, cost_unit="FLOP", cost_of="FLOPs of a step, counted")
    names = tuple(sorted(map(str, values.index)))
    given: dict[str, Any] = {"studied": Group("s", "the suite", names), "changed": changed_of(values, 1.1)}
    return Inputs(table=table, **{**given, **others})


@pytest.fixture(scope="module")
def study() -> Study:
    metric = Metric("time", {f"w{i:03d}": 1.0 + i % 3 for i in range(12)}, "measured", "s", where="here")
    return make_study(inputs_of(planted(), metrics=(metric,)), QUICK)


# --- the subset -------------------------------------------------------------------------------------------------------


SINGLES = tuple(f"w{i:03d}" for i in range(4, 12))


def test_one_of_each_pair_of_twins_is_enough_and_it_is_the_cheaper(study: Study) -> None:
    assert study.members == ("w000", "w002", *SINGLES)
    assert study.document["radius"]["how"] == "measured"
    assert study.document["subset"]["distinguishable"]
    assert len(study.document["subset"]["optima"]) == 4
    assert study.document["subset"]["core"] == list(SINGLES)


def test_r_star_is_the_quantile_of_the_distances_that_the_changes_make(study: Study) -> None:
    values = planted()
    logs = np.column_stack(
        [np.log10(values[name]) if name not in ("wss_50", "dlp_median") else np.log2(values[name]) for name in NAMES]
    )
    scaled = logs / logs.std(axis=0, ddof=1)
    # six features in six blocks: each has variance 1, and a factor of 1.1 moves all points alike
    step = np.log10(1.1) / logs.std(axis=0, ddof=1)
    step[4:] *= np.log2(1.1) / np.log10(1.1)
    assert len({c.block for c in study.parts.space.recipe.coordinates}) == 6  # type: ignore[union-attr]
    assert study.document["radius"]["r_star"] == pytest.approx(float(np.sqrt((step**2).sum())), rel=1e-9)
    assert study.document["radius"]["distances"] == 24
    d = squareform(pdist(scaled))
    assert d[0, 1] < study.radius < d[0, 2]


def test_in_a_space_of_other_versions_a_change_is_measured_from_the_record_itself() -> None:
    """At ten times every value the changes still move by a factor of 1.1, and not by that and ten."""
    values = planted()
    base = make_study(inputs_of(values), QUICK).parts
    other = make_study(inputs_of(values * 10, changed=None), QUICK).parts
    assert base is not None
    assert other is not None
    plain, own = changed_of(values, 1.1), replace(changed_of(values, 1.1), own=table_of(rows_of(values)))
    assert own.radius(base.space).value == pytest.approx(plain.radius(base.space).value, rel=1e-9)
    assert own.radius(other.space).value == pytest.approx(own.radius(base.space).value, rel=1e-9)
    assert plain.radius(other.space).value > 5 * own.radius(other.space).value


def test_the_certificate_holds_by_a_separate_check(study: Study) -> None:
    """Ten lines: every workload has a member within the radius, and no two of the packing share a coverer."""
    d = study.tables["distances"].set_index("workload")
    found = study.document["subset"]
    near = d <= found["radius"] * (1 + 1e-9)
    assert near[found["members"]].any(axis=1).all()
    packing = found["certificate"]["packing"]
    assert len(packing) == found["size"]
    for i, one in enumerate(packing):
        for other in packing[i + 1 :]:
            assert not (near[one] & near[other]).any()
    assert sorted(name for names in found["covers"].values() for name in names) == sorted(d.index)


def test_the_cost_saved_is_that_of_the_twins_left_out(study: Study) -> None:
    cost = [float(2 ** (i % 5)) for i in range(12)]
    assert study.document["cost"]["saved"] == pytest.approx((cost[1] + cost[3]) / sum(cost))
    curve = {row["k"]: row for row in study.document["curve"]}
    assert curve[12]["cost_share"] == 1.0
    assert curve[10]["cost"] == pytest.approx(sum(cost) - cost[1] - cost[3])


def test_costs_as_large_as_flops_change_nothing() -> None:
    """HiGHS finds no solution where a row of the program holds 10^15; the study scales costs before it asks."""
    base = inputs_of(planted())
    huge = replace(
        base, table=replace(base.table, costs={name: cost * 1e15 for name, cost in base.table.costs.items()})
    )
    small, large = (make_study(one, QUICK) for one in (base, huge))
    assert small.members == large.members
    assert large.document["curve"][2]["cost"] == pytest.approx(1e15 * small.document["curve"][2]["cost"])


def test_the_answer_has_three_sentences_that_name_the_members_and_the_cost(study: Study) -> None:
    first, second, third = study.answer
    assert first.startswith("10 of the 12 workloads of the suite are needed, and no fewer, to have one within r* = ")
    assert "all but w001 (w000 stands for it), w003 (w002 stands for it) (proof by packing; 4 sets" in first
    assert second.startswith("One step of each takes ")
    assert "fewer FLOPs than one step of all (counted, not measured;" in second
    assert "clusters" in third
    assert all(sentence.endswith(".") for sentence in study.answer)


def test_metrics_are_listed_with_their_source(study: Study) -> None:
    (row,) = study.document["validation"]["metrics"]
    assert (row["source"], row["circular"], row["where"]) == ("measured", False, "here")
    values = [1.0 + i % 3 for i in range(12)]
    estimate = sum(values) - values[1] + values[0] - values[3] + values[2]
    assert row["error"] == pytest.approx(estimate / sum(values) - 1)


def test_changes_that_were_not_made_stand_in_the_document_with_their_reason(study: Study) -> None:
    found = study.document["changes"]
    assert found["made"] == 24
    assert found["skipped"] == [{"change": ["length"], "workloads": 1, "reason": "the task has no sequence"}]


# --- the radius -------------------------------------------------------------------------------------------------------


def test_a_radius_given_is_taken_and_said_so() -> None:
    found = make_study(inputs_of(planted()), replace(QUICK, radius=100.0))
    assert (len(found.members), found.document["radius"]["how"]) == (1, "given")
    assert "the given radius of 100" in found.answer[0]


@pytest.mark.parametrize("radius", [-1.0, float("nan"), float("inf")])
def test_what_is_no_radius_is_refused(radius: float) -> None:
    with pytest.raises(UsageError, match="--radius"):
        make_study(inputs_of(planted()), replace(QUICK, radius=radius))


def test_without_changes_the_subset_is_shown_and_not_claimed() -> None:
    found = make_study(inputs_of(planted(), changed=None, no_changes="none were asked for"), QUICK)
    d = squareform(pdist(found.tables["points"].set_index("workload").to_numpy()))
    np.fill_diagonal(d, np.inf)
    assert found.document["radius"]["how"] == "shown"
    assert found.radius == pytest.approx(float(np.median(d.min(axis=1))))
    assert "cannot be told, since r* is not known: none were asked for" in found.answer[0]
    assert not found.document["subset"]["distinguishable"]


def test_r_star_beyond_the_nearest_neighbours_is_no_answer() -> None:
    values = planted()
    found = make_study(inputs_of(values, changed=changed_of(values, 1e6)), QUICK)
    assert found.document["radius"]["how"] == "shown"
    assert "is not below the median distance to the nearest neighbour" in found.answer[0]
    assert found.document["radius"]["r_star"] > found.radius


def test_rows_that_were_filtered_make_a_table_too() -> None:
    values = planted()
    changed = changed_of(values, 1.1)
    some = replace(changed, states=changed.states[changed.states["change"] != "up"])
    assert "changes" in make_study(inputs_of(values, changed=some), QUICK).tables


# --- what decides -----------------------------------------------------------------------------------------------------


def test_the_order_of_rows_changes_no_digit(study: Study) -> None:
    values = planted()
    metric = Metric("time", {f"w{i:03d}": 1.0 + i % 3 for i in range(12)}, "measured", "s", where="here")
    mixed = inputs_of(values.iloc[np.random.default_rng(1).permutation(12)], metrics=(metric,))
    assert json.dumps(make_study(mixed, QUICK).to_dict()) == json.dumps(study.to_dict())


def test_a_study_is_read_back_as_it_was(study: Study, tmp_path: Path) -> None:
    found = load_study(study.save(tmp_path / "study"))
    assert found.to_dict() == study.to_dict()
    assert (found.answer, found.members, found.parts) == (study.answer, study.members, None)
    assert repr(found) == repr(study)
    assert sorted(found.tables) == sorted(study.tables) == study.document["tables"]
    for name, frame in study.tables.items():
        pd.testing.assert_frame_equal(found.tables[name], frame, check_dtype=False)
        assert (tmp_path / "study" / "tables" / f"{name}.csv").is_file()
    assert not list(tmp_path.rglob("*.partial"))


def test_what_is_no_study_is_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no finished study"):
        load_study(tmp_path)
    folder = study.save(tmp_path / "study")
    (folder / "study.json").write_text('{"schema": "wcbench.study/99"}')
    with pytest.raises(RecordError, match=r"wcbench\.study/99"):
        load_study(folder)
    (folder / "study.json").write_text("{")
    with pytest.raises(RecordError, match="cannot be read"):
        load_study(folder)
    folder = study.save(tmp_path / "study")
    (folder / "tables" / "curve.parquet").write_bytes(b"no")
    with pytest.raises(RecordError, match="curve"):
        load_study(folder)


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_workloads_are_refused_with_what_it_takes(n: int) -> None:
    with pytest.raises(UsageError, match="3 workloads"):
        make_study(inputs_of(planted(n, 0)), QUICK)


def test_three_workloads_make_a_study() -> None:
    found = make_study(inputs_of(planted(3, 0)), QUICK)
    assert len(found.members) == 3
    assert found.answer[0].startswith("All 3 workloads of the suite are needed")


def test_unknown_recipes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="recipe"):
        make_study(inputs_of(planted()), replace(QUICK, recipe="aibench"))


def test_the_recipe_of_2021_stands_beside_ours_with_its_instability() -> None:
    found = make_study(inputs_of(planted()), replace(QUICK, recipe="aibench2021")).document["recipe2021"]
    assert len(found["agreement_of_seeds"]) == 190
    assert "no counter of the paper is used" in found["caveat"]


def test_beyond_300_workloads_both_bounds_are_given_and_nothing_is_called_minimal() -> None:
    values = planted(330, pairs=80)
    found = make_study(inputs_of(values, changed=changed_of(values, 1.2)), QUICK)
    subset = found.document["subset"]
    assert (subset["lower"], subset["upper"]) == (250, 250)
    assert "minimal" not in found.answer[0]


# --- the comparison ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared() -> Study:
    wide, narrow = planted(9, 0, seed=3), planted(5, 0, seed=4, spread=1.0)
    narrow.index = pd.Index([f"x{i}" for i in range(5)])
    values = pd.concat([wide, narrow])
    return make_study(
        inputs_of(
            values,
            studied=Group("wide", "wide", tuple(wide.index)),
            against=Group("narrow", "narrow", tuple(narrow.index)),
            identities={"w000": "proposed"},
            same=(("w001", "x0"),),
            levels={name: {"modality": "image" if i % 2 else "text"} for i, name in enumerate(values.index)},
        ),
        QUICK,
    )


def test_the_subset_is_of_the_suite_studied_and_the_space_is_of_both(compared: Study) -> None:
    assert {name[0] for name in compared.members} == {"w"}
    assert compared.document["subset"]["of"] == 9
    assert len(compared.document["space"]["workloads"]) == 14


def test_the_suites_are_compared_with_names_of_what_is_new(compared: Study) -> None:
    found = compared.document["comparisons"][0]
    assert (found["id"], found["labels"], found["favours"]) == ("suites", ["wide", "narrow"], "wide")
    assert found["shared"] == ["w001", "x0"]
    one, two = found["novelty"]
    assert one["of"] == "wide"
    assert len(one["novel"]) >= 8
    assert set(one["novel"]) <= {f"w{i:03d}" for i in range(9)}
    assert {row["change"] for row in found["repeats"]} == {"without shared tasks", "without tasks of proposed identity"}
    assert two["of"] == "narrow"


def test_facets_that_are_missing_are_named_in_the_answer(compared: Study) -> None:
    found = compared.document["comparisons"][0]["facets"]
    assert found["of"] == 6
    assert {"convergence", "hotspot functions"} <= set(found["gaps"])
    assert found["hotspots_by"] == []
    third = compared.answer[2]
    assert f"facets compared: {found['compared']} of 6" in third
    assert all(name in third for name in found["gaps"])
    assert (found["modelled"], found["compared"] + len(found["gaps"])) == ({}, 6)


def test_the_subset_is_compared_with_the_other_suite_and_at_equal_size(compared: Study) -> None:
    by_id = {one["id"]: one for one in compared.document["comparisons"]}
    assert set(by_id) == {"suites", "subset", "subsets"}
    assert by_id["subset"]["sizes"] == [len(compared.members), 5]
    assert by_id["subsets"]["sizes"][0] == by_id["subsets"]["sizes"][1]
    assert by_id["subset"]["about"].startswith("narrow alone needs ")


def test_conditions_on_members_hold_in_the_subset_and_in_its_stability() -> None:
    values = planted()
    known = Known({f"w{i:03d}": i not in (0, 5) for i in range(12)})
    found = make_study(inputs_of(values, known=known), replace(QUICK, require_metric=True))
    subset = found.document["subset"]
    assert subset["refused"] == {"w000": "a target on a metric: no", "w005": "a target on a metric: no"}
    assert subset["constraints"] == ["a target on a metric"]
    assert "w001" in found.members  # stands for w000, its twin
    assert subset["uncovered"] == ["w005"]  # nobody else is near
    assert found.answer[0].startswith("1 of the 12 workloads of the suite have no permitted member within r* = ")
    assert "(members must have a target on a metric); the other 11 need 9, and no fewer: w001, " in found.answer[0]
    assert found.answer[1].startswith("What they save says nothing, as they do not stand for all;")
    assert found.document["stability"]["frequency"]["w000"] == 0
    assert not any("w000" in row["members"] for row in found.document["stability"]["blocks"])


def test_variation_that_is_not_known_is_not_at_most_a_limit() -> None:
    known = Known({}, {f"w{i:03d}": 0.01 * i for i in range(1, 12)})
    found = make_study(inputs_of(planted(), known=known), replace(QUICK, max_variation=0.075)).document["subset"]
    assert set(found["refused"]) == {"w000", "w008", "w009", "w010", "w011"}
    assert found["refused"]["w000"].endswith("not known")


def test_further_suites_are_compared_with_both_in_a_space_of_their_own() -> None:
    values = planted(14, 0, seed=3)
    third = planted(4, 0, seed=5)
    third.index = pd.Index([f"y{i}" for i in range(4)])
    names = tuple(values.index)
    groups = {"studied": Group("one", "one", names[:9]), "against": Group("two", "two", names[9:])}
    plain = make_study(inputs_of(values, **groups), QUICK)
    wide = table_of(rows_of(pd.concat([values, third])))
    also = Group("three", "three", tuple(third.index))
    text = {"three": "three stands here with 4 tasks (no task here: a fifth)"}
    found = make_study(inputs_of(values, **groups, also=(also,), wide=wide, incomplete=text), QUICK)
    assert [one["id"] for one in found.document["comparisons"][3:]] == ["one:three", "two:three"]
    assert [one["sizes"] for one in found.document["comparisons"][3:]] == [[9, 4], [5, 4]]
    assert found.document["comparisons"][4]["about"] == text["three"]
    assert found.answer == plain.answer  # the first comparison and the subset do not see them
    pd.testing.assert_frame_equal(found.tables["distances"], plain.tables["distances"])
    assert set(found.tables["rarefaction"]["comparison"]) == {"suites", "subset", "subsets", "one:three", "two:three"}


def test_a_population_has_its_share_and_without_one_a_reason() -> None:
    values = planted()
    weights = pd.Series({"w000": 3.0, "job": 1.0})
    raw = pd.DataFrame(np.nan, index=["job", "w000"], columns=list(NAMES))
    raw.loc["job"] = values.loc["w005"] * 1.001
    people = Population("the fleet", "fleet.csv", weights.sort_index(), raw)
    found = make_study(inputs_of(values, population=people), QUICK)
    assert found.document["population"]["suites"] == [
        {"suite": "the suite", "share": 1.0, "share_of_placed": 1.0, "tasks": 12}
    ]
    assert found.tables["population"].set_index("item")["nearest"].to_dict() == {"job": "w005", "w000": "w000"}
    none = make_study(inputs_of(values), QUICK)
    assert none.document["population"] == {"reason": "no population was given (--population FILE)"}
    assert "population" not in none.tables
    assert not any("represent" in sentence for sentence in none.answer)


def test_a_recipe_that_cannot_be_gone_costs_no_study(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise UsageError("too few workloads")

    monkeypatch.setattr("wcbench.analysis.study.recipe2021", refused)
    found = make_study(inputs_of(planted()), replace(QUICK, recipe="aibench2021"))
    assert found.document["recipe2021"] == {"reason": "too few workloads"}
    assert len(found.members) == 10


def test_a_compared_study_is_read_back_too(compared: Study, tmp_path: Path) -> None:
    assert load_study(compared.save(tmp_path)).to_dict() == compared.to_dict()


# --- tables of one's own ----------------------------------------------------------------------------------------------


def written(file: Path, *lines: str) -> Path:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_unit_row_decides_the_transforms_and_is_said(tmp_path: Path) -> None:
    file = written(
        tmp_path / "jobs.csv", "workload,size,busy,delta,calls", "unit,MB,fraction,ms,count", "a,1,0.1,-1,0",
        "b,10,0.5,2,3", "c,100,,3,9",
    )  # fmt: skip
    found = read_table(file)
    assert {f.name: f.transform for f in found.table.features} == {
        "size": "log10", "busy": "logit", "delta": "none", "calls": "none",
    }  # fmt: skip
    assert found.table.reasons == {("c", "busy"): "empty cell"}
    assert "1 metrics enter log10 by their unit, as nothing else is said: size" in found.notes
    assert any(note.startswith("2 metrics enter as they are") for note in found.notes)


@pytest.mark.parametrize("form", ["csv", "toml"])
def test_a_sidecar_says_unit_transform_and_block(tmp_path: Path, form: str) -> None:
    file = written(tmp_path / "jobs.csv", "workload,a,b", "x,1,2", "y,3,4", "z,9,1")
    if form == "csv":
        written(tmp_path / "jobs.units.csv", "metric,unit,transform,block,floor", "a,s,log,time,", "b,B,,,", "c,s,,,")
    else:
        written(tmp_path / "jobs.units.toml", "[a]", 'unit = "s"', 'transform = "log"', 'block = "time"', "[b]",
                'unit = "B"', "[c]", 'unit = "s"')  # fmt: skip
    found = read_table(file)
    a, b = found.table.features
    assert (a.unit, a.transform, a.block) == ("s", "log", "time")
    assert (b.unit, b.transform, b.block) == ("B", "log10", "b")
    assert any("names metrics that the table lacks: c" in note for note in found.notes)


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("B", [1, 2], "log10"),
        ("B", [0, 2], "none"),
        ("FLOP", [5, 7], "log10"),
        ("fraction", [0, 1], "logit"),
        ("fraction", [0, 1.5], "none"),
        ("ms", [1, 2], "none"),
        ("", [1, 2], "none"),
        ("count", [np.nan, 3], "log10"),
        ("count", [np.nan], "none"),
    ],
)
def test_default_transforms(unit: str, values: list[float], expected: str) -> None:
    assert default_transform(unit, np.array(values, float)) == expected


def test_costs_suites_and_families_are_columns_of_their_own(tmp_path: Path) -> None:
    file = written(
        tmp_path / "t.csv", "Workload,Suite,Family,Cost,m", "unit,,,h,", "a,s;t,f,2,1", "b,t,f,3,2", "c,,,5,4"
    )
    table = read_table(file).table
    assert table.suites == {"a": ("s", "t"), "b": ("t",)}
    assert table.families == {"a": "f", "b": "f"}
    assert (table.costs, table.cost_unit) == ({"a": 2.0, "b": 3.0, "c": 5.0}, "h")
    assert list(table.values.columns) == ["m"]


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        ([], "empty"),
        (["workload,a"], "no workloads"),
        (["workload,a", "unit,s"], "no workloads"),
        (["workload", "a"], "no metrics"),
        (["workload,a,a", "x,1,2"], "named twice: a"),
        (["workload,a,", "x,1,2"], "without a name: 3"),
        (["workload,a", "x,fast"], "column 'a': 'fast' is no number"),
        (["workload,a", "x,1,2"], "3 cells"),
        (["workload,a", "x,1", ",2"], "no name of a workload"),
    ],
)
def test_damaged_tables_are_refused_with_their_place(tmp_path: Path, lines: list[str], match: str) -> None:
    with pytest.raises(ReadError, match=re.escape(match)):
        read_table(written(tmp_path / "t.csv", *lines) if lines else _empty(tmp_path / "t.csv"))


def _empty(file: Path) -> Path:
    file.write_text("")
    return file


def test_a_workload_twice_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", "workload,a", "x,1", "x,2", "y,3")
    with pytest.raises(UsageError, match="more than one row for x"):
        make_study(table_inputs(file), QUICK)


def test_suites_of_a_table_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    lines = ["workload,suite,a,b,c,d"]
    for i in range(9):
        spread, suite = (3.0, "ours") if i < 5 else (1.0, "theirs")
        lines.append(f"w{i},{suite}," + ",".join(f"{x:.6f}" for x in spread * rng.normal(size=4)))
    file = written(tmp_path / "t.csv", *lines)
    found = make_study(table_inputs(file, "theirs"), replace(QUICK, radius=0.5))
    assert found.document["comparisons"][0]["labels"] == ["ours", "theirs"]
    assert found.document["subset"]["of"] == 5
    with pytest.raises(UnknownNameError, match="suite of the table"):
        table_inputs(file, "their")


# --- the real matrix of DaCapo ----------------------------------------------------------------------------------------

_LINE = re.compile(r"^(\w+): \[(.*)\]\s*$")


def dacapo(folder: Path, target: Path) -> Path:
    """Its nominal statistics, YAML of lines `NAME: [score, value, rank, min, median, max, text]`, as one CSV."""
    values: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob("*_stats-nominal.yml")):
        lines = map(_LINE.match, file.read_text(encoding="utf-8").splitlines())
        values[file.name.partition("_")[0]] = {m[1]: m[2].split(",")[1].strip() for m in lines if m}
    names = sorted({name for own in values.values() for name in own})
    with target.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["workload", *names])
        for workload, own in values.items():
            writer.writerow([workload, *(own.get(name, "") for name in names)])
    return target


def test_the_matrix_of_dacapo(shared: Path, tmp_path: Path) -> None:
    file = dacapo(shared / "traces" / "feature_matrix" / "dacapo", tmp_path / "dacapo.csv")
    found = make_study(table_inputs(file), QUICK)
    assert found.document["subset"]["of"] == 22
    table = pd.read_csv(file, index_col="workload")
    whole = table.dropna(axis=1)
    whole = whole.loc[:, whole.std() > 0]
    z = (whole - whole.mean()) / whole.std(ddof=1)  # every metric is a block of its own
    d = pd.DataFrame(squareform(pdist(z.to_numpy())), index=z.index, columns=z.index)
    ours = found.tables["distances"].set_index("workload").loc[list(z.index), list(z.index)]
    np.testing.assert_allclose(ours.to_numpy(), d.to_numpy(), atol=1e-9)
    members = list(found.members)
    assert (d[members].min(axis=1) <= found.radius * (1 + 1e-9)).all()
    packing = found.document["subset"]["certificate"]["packing"]
    near = d <= found.radius
    assert len(packing) == len(members)
    assert (near[packing].sum(axis=1) <= 1).all()  # no workload is within the radius of two of them


def test_the_saving_of_a_tables_own_cost_is_said_in_plain_words() -> None:
    from wcbench.analysis.study_answer import _saved

    cost = {"saved": 0.42, "of": "the column cost of the table", "measured": False, "reason": ""}
    document = {"cost": cost, "subset": {"size": 2, "of": 5, "uncovered": []}}
    assert _saved(document) == "They save 42 % of the column cost of the table"


def test_a_study_leaves_no_table_of_the_one_before_it(tmp_path: Path) -> None:
    """Two suites, then one: the tables of the comparison go."""
    rows = [f"w{i},{'A' if i < 4 else 'B'},{1 + i},{(5 * i) % 7 + 1}" for i in range(7)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["workload,suite,time,bytes", "unit,,s,B", *rows]) + "\n")
    small = Settings(gap_draws=3, draws=10, permutations=19, robust=False, radius=0.5)
    run_table(file, "B", small, out=tmp_path / "s")
    assert list((tmp_path / "s" / "tables").glob("comparison0_*.csv"))
    with pytest.raises(RecordError, match="holds another study: A against B, of 4 workloads"):
        run_table(file, None, small, out=tmp_path / "s")
    alone = run_table(file, None, small, out=tmp_path / "s", force=True)
    assert run_table(file, None, replace(small, seed=7), out=tmp_path / "s").document["stability"]["seed"] == SEED + 7
    alone = run_table(file, None, small, out=tmp_path / "s")
    assert alone.document["stability"]["seed"] == SEED
    assert alone.document["provenance"]["wcbench"] == wcbench_version()
    left = {one.stem for one in (tmp_path / "s" / "tables").iterdir()}
    assert left == set(alone.tables)


def test_a_table_without_suites_has_none_to_compare_with(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("workload,time\na,1\nb,2\nc,4\n")
    with pytest.raises(UsageError, match="tells no suite of any workload") as caught:
        table_inputs(file, "theirs")
    assert caught.value.hint == "Add a column suite, or leave --against out."


def test_a_workload_may_be_called_unit(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("workload,time,bytes\nunit,1,5\nb,2,4\nc,4,9\n")
    assert list(table_inputs(file, None).table.values.index) == ["unit", "b", "c"]
    file.write_text("workload,time,bytes\nunit,s,1\nb,2,4\nc,4,9\n")
    assert list(table_inputs(file, None).table.values.index) == ["b", "c"]


def test_without_costs_no_set_is_called_the_cheapest(tmp_path: Path) -> None:
    """Two pairs near each other: four covers of two. With costs one of them is the cheapest."""
    rows = ["a,0,0", "b,0.1,0", "c,9,9", "d,9.1,9"]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["workload,x,y", "unit,m,m", *rows]) + "\n")
    small = Settings(gap_draws=3, draws=10, permutations=19, robust=False, radius=0.5)
    told = run_table(file, None, small, out=tmp_path / "s").answer[0]
    assert "4 sets of that size do, and of this one the others are nearest on average" in told
    file.write_text(
        "\n".join(["workload,x,y,cost", "unit,m,m,s", *(f"{row},{i}" for i, row in enumerate(rows, 1))]) + "\n"
    )
    assert (
        "4 sets of that size do, and this is the cheapest" in run_table(file, None, small, out=tmp_path / "t").answer[0]
    )
