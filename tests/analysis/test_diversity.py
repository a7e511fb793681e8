"""The panel for two suites: what it says, what it refuses, and that it favours neither of two equal ones."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from wcbench.analysis.diversity import Diversity, Extras, Options, Source, diversity
from wcbench.analysis.facets import facets
from wcbench.analysis.factors import factor_coverage
from wcbench.analysis.overlap import hotspot_overlaps
from wcbench.analysis.pairing import pair, relabellings
from wcbench.analysis.table import Feature, FeatureTable, Space
from wcbench.analysis.verdict import judge, setting
from wcbench.errors import UnknownNameError, UsageError, WcbenchError

QUICK = Options(permutations=199, robust=False)


def fit(table: FeatureTable) -> Space:
    """A plain space of its own: standardized columns, each block of total variance 1; null and constant columns go."""
    assert not table.suites  # blind to labels
    values = table.values.sort_index()
    dropped, kept = {}, []
    for feature in table.features:
        column = values[feature.name]
        bad = "null" if column.isna().any() else "constant" if column.std() < 1e-9 else ""
        if bad:
            dropped[feature.name] = bad
        else:
            kept.append(feature)
    if not kept:
        raise WcbenchError("No feature remains: all are null or constant.")
    blocks = tuple(feature.block for feature in kept)
    raw = values[[feature.name for feature in kept]]
    scales = raw.std(ddof=1).to_numpy() * np.sqrt([blocks.count(block) for block in blocks])
    return Space((raw - raw.mean()) / scales, blocks, dropped, raw.mean().to_numpy(), scales)


def drawn(
    seed: int, columns: int, factors: int, *, sizes: tuple[int, int] = (19, 8), wide: float = 1.0, blocks: int = 8
) -> FeatureTable:
    """Two suites of one population of correlated columns; suite A stretched about its centre by ``wide``."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((factors, columns))
    count = sum(sizes)
    values = rng.standard_normal((count, factors)) @ loadings + 0.5 * rng.standard_normal((count, columns))
    values[: sizes[0]] *= wide
    names = [f"a{i:02}" for i in range(sizes[0])] + [f"b{i:02}" for i in range(sizes[1])]
    features = tuple(Feature(f"f{i:02}", "", "none", f"block{i % blocks}") for i in range(columns))
    frame = pd.DataFrame(values, index=names, columns=[feature.name for feature in features])
    suites = {name: ("AIBench" if name[0] == "a" else "MLPerf",) for name in names}
    return FeatureTable(frame, features, suites=suites)


def compared(table: FeatureTable, **options) -> Diversity:  # type: ignore[no-untyped-def]
    options.setdefault("options", QUICK)
    return diversity(Source(fit, table), "AIBench", "MLPerf", **options)


def with_suites(table: FeatureTable, a: Collection[str], b: Collection[str]) -> FeatureTable:
    ids = {name: tuple(s for s, part in (("AIBench", a), ("MLPerf", b)) if name in part) for name in {*a, *b}}
    return replace(table, suites=ids)


def verdicts(draws: range, columns: int, factors: int, wide: float = 1.0) -> list[tuple[str | None, float, float]]:
    """Favoured suite, dispersion ratio and p of each draw, by the pipeline's own steps: table, fit, verdict."""
    found = []
    for seed in draws:
        table = drawn(seed, columns, factors, wide=wide)
        names = sorted(table.suites)
        both = pair([n for n in names if n[0] == "a"], [n for n in names if n[0] == "b"])
        verdict = judge(setting(Source(fit, table), both), relabellings(both, 199, seed))
        found.append((verdict.favours, verdict.dispersion.ratio or 0.0, verdict.test.p or 0.0))
    return found


@pytest.mark.parametrize(("columns", "factors"), [(36, 4), (75, 8)])
def test_two_suites_of_one_population_are_not_told_apart(columns: int, factors: int) -> None:
    found = verdicts(range(40), columns, factors)
    favoured = [favours for favours, _, _ in found]
    # 40 draws at 5 %: 2 expected, more than 5 in 1 of 70 cases; these seeds are fixed
    assert favoured.count("A") + favoured.count("B") <= 5
    assert np.median([ratio for _, ratio, _ in found]) == pytest.approx(1, abs=0.08)
    assert np.mean([p <= 0.5 for _, _, p in found]) == pytest.approx(0.5, abs=0.2)


def test_a_suite_that_spreads_wider_is_told_whichever_comes_first() -> None:
    found = verdicts(range(12), 36, 4, wide=2.0)
    assert [favours for favours, _, _ in found].count("A") >= 9
    table = drawn(0, 36, 4, wide=1 / 2)
    assert compared(table).verdict.favours == "MLPerf"


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "factors"), [(36, 4), (75, 8)])
def test_false_alarms_stay_nominal(columns: int, factors: int) -> None:
    """500 draws: at most 5 % + 2.6 standard errors, to neither side more than the other by chance."""
    found = [favours for favours, _, _ in verdicts(range(1000, 1500), columns, factors)]
    a, b = found.count("A"), found.count("B")
    assert (a + b) / 500 <= 0.075
    assert abs(a - b) <= 3 * np.sqrt(max(a + b, 1)) + 3


@pytest.mark.slow
def test_the_whole_panel_favours_neither() -> None:
    """Rarefied measures place the smaller suite in the middle of the larger one's subsets, on average."""
    above, excess = [], []
    for seed in range(2000, 2050):
        panel = compared(drawn(seed, 36, 4), options=replace(QUICK, permutations=49))
        above.append([one.share_above for one in (*panel.rarefied, *panel.vendi.rarefied)])
        excess.append(panel.coverage.rows["excess"].to_numpy())
    assert np.mean(above, axis=0) == pytest.approx(0.5, abs=0.14)
    assert np.mean(excess, axis=0) == pytest.approx(0, abs=0.07)


def test_the_panel_is_fast() -> None:
    table = drawn(3, 80, 8)
    start = time.process_time()
    panel = compared(table, radius=0.9, options=Options())
    assert time.process_time() - start < 8  # 2.5 s here
    assert {one.kind for one in panel.repeats} == {"task", "block"}
    assert len(panel.repeats) == 27 + 8


def test_the_frame_tells_the_questions_apart() -> None:
    panel = compared(
        drawn(1, 36, 4), radius=2.0, extras=Extras(classes=dict.fromkeys(["a00", "a01", "b00", "b01"], "x"))
    )
    rows = panel.to_frame()
    assert set(rows["question"]) == {"1", "2", "different?"}
    raw = rows[rows["measure"].str.contains("hull|range|tree|largest|Vendi") & (rows["question"] == "1")]
    assert len(raw) >= 12
    assert raw["size_dependent"].all()
    assert raw["how"].str.startswith("size-dependent").all()
    assert raw["ratio"].isna().all()  # never compared raw across sizes
    assert not rows.loc[rows["question"] == "2", "size_dependent"].any()
    assert "not: which is more diverse" in rows.set_index("measure").loc["energy distance", "how"]
    distance = rows[rows["measure"] == "mean pairwise distance"].iloc[0]
    again = rows[rows["measure"] == "mean pairwise distance, rarefied"].iloc[0]
    assert distance["a"] == pytest.approx(again["a"], rel=1e-9)  # the U-statistic's property
    assert "all 75582 8-task subsets of AIBench" in again["how"]


def test_sentences_have_numbers_and_never_times_more_diverse() -> None:
    panel = compared(drawn(1, 36, 4, wide=3), radius=2.0)
    text = " ".join(panel.sentences)
    assert panel.sentences[0].startswith("Per task, AIBench spreads wider: dispersion ratio AIBench to MLPerf ")
    assert "jackknife 95 %" in panel.sentences[0]
    assert "PERMDISP p = " in panel.sentences[0]
    assert "x more" not in text
    assert "times more" not in text
    assert "% of all 75582 8-task subsets of AIBench are more diverse than MLPerf by hull area." in text
    a = panel.novelty.a
    assert f"{len(a.novel or ())} of 19 tasks of AIBench are further than r from every task of MLPerf" in text
    assert len(repr(panel)) < 4000


def test_the_order_of_rows_changes_nothing() -> None:
    table = drawn(5, 24, 4, sizes=(9, 5))
    mixed = replace(table, values=table.values.sample(frac=1, random_state=3))
    one, two = compared(table, radius=2.0, options=Options()), compared(mixed, radius=2.0, options=Options())
    assert repr(one) == repr(two)
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), check_exact=True)
    pd.testing.assert_frame_equal(one.repeats_frame(), two.repeats_frame(), check_exact=True)
    pd.testing.assert_frame_equal(one.features.rows, two.features.rows, check_exact=True)


def test_shared_tasks_and_kin_are_listed_and_left_out_in_repeats() -> None:
    table = drawn(6, 24, 4, sizes=(9, 5))
    names = list(table.values.index)
    table = with_suites(table, names[:9], [*names[9:], "a00"])
    table = replace(table, families={"a01": "ResNet", "b00": "ResNet", "a02": "GAN", "a03": "GAN"})
    panel = compared(table)
    assert panel.shared == ("a00",)
    assert panel.kin == ("a01", "b00")
    held = [panel.pair.names.index(name) for name in ("a00", "a01", "b00")]
    assert list(np.flatnonzero(panel.pair.fixed)) == held
    repeats = {one.name: one.verdict for one in panel.repeats}
    assert repeats["without shared tasks"] is not None
    assert repeats["without shared tasks"].sizes == (8, 5)
    assert repeats["without families in both suites"].sizes == (7, 4)  # type: ignore[union-attr]
    assert "a00" not in set(panel.novelty.to_frame()["task"])
    assert "Shared tasks, fixed in permutations: a00." in panel.sentences


def test_one_task_under_two_names() -> None:
    panel = compared(drawn(6, 24, 4, sizes=(9, 5)), extras=Extras(shared=("a03", "b02")))
    assert panel.shared == ("a03", "b02")
    assert panel.repeats[0].verdict.sizes == (8, 4)  # type: ignore[union-attr]


def test_a_verdict_that_hinges_on_one_task_says_so() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((16, 6))
    values[0] = 40.0
    names = [f"a{i:02}" for i in range(8)] + [f"b{i:02}" for i in range(8)]
    features = tuple(Feature(f"f{i}", "", "none", f"block{i % 2}") for i in range(6))
    table = FeatureTable(pd.DataFrame(values, index=names, columns=[f.name for f in features]), features)
    table = with_suites(table, names[:8], names[8:])
    table.values.iloc[8:] *= 0.3
    panel = compared(table, variants={"first halves": [*names[:4], *names[8:12]]}, options=Options(permutations=499))
    row = panel.repeats_frame().set_index("change")
    assert row.loc["without a00", "n_a"] == 7
    assert row.loc["first halves", ["n_a", "n_b"]].tolist() == [4, 4]
    changed = [one.name for one in panel.changes]
    expected = [
        one.name
        for one in panel.repeats
        if one.verdict and not one.reason and one.verdict.favours != panel.verdict.favours
    ]
    assert changed == expected
    assert "without a00" in changed
    assert "The verdict changes in" in panel.sentences[-1]
    assert "without a00: favours MLPerf" in panel.sentences[-1] or "without a00: favours AIBench" in panel.sentences[-1]


def test_variants_are_tables_sources_or_workloads() -> None:
    table = drawn(7, 24, 4, sizes=(9, 5))
    left = table.values.drop(index=["a00", "b00"])
    other = replace(table, values=left, suites={name: table.suites[name] for name in left.index})
    variants = {"published batch": other, "verified": list(table.values.index[2:]), "other fit": Source(fit, other)}
    panel = compared(table, variants=variants)
    sizes = {one.name: one.verdict.sizes for one in panel.repeats if one.verdict}
    assert sizes == {"published batch": (8, 4), "verified": (7, 5), "other fit": (8, 4)}
    assert all(one.novel is None for one in panel.repeats)
    known = compared(table, variants=variants, radius=_radius).repeats_frame().set_index("change")
    inner = compared(other, radius=_radius).novelty
    assert known.loc["published batch", ["new_a", "new_b"]].tolist() == [len(x.novel or ()) for x in (inner.a, inner.b)]
    gone = compared(table, variants={"none left": ["a00"]}).repeats[0]
    assert (gone.verdict, gone.reason) == (None, "a suite has no task left")
    with pytest.raises(UsageError, match="not the text"):
        compared(table, variants={"x": "a00"})


def test_suites_may_be_any_names() -> None:
    table = drawn(8, 24, 4)
    panel = diversity(
        Source(fit, table),
        ["a00", "a05", "a07", "a09"],
        ["b00", "b01", "b02", "b03"],
        labels=("WC subset", "MLPerf subset"),
        options=QUICK,
    )
    assert panel.verdict.labels == ("WC subset", "MLPerf subset")
    assert panel.shipped["ratio"].notna().all()
    assert any(one.startswith("At equal size, the hull area is") for one in panel.sentences)


def test_a_function_of_names_serves_as_well_as_a_table() -> None:
    table = drawn(9, 24, 4, sizes=(9, 5))
    names = list(table.values.index)

    def of_names(chosen: Collection[str]) -> Space:
        return fit(replace(table, values=table.values.loc[list(chosen)], suites={}))

    one = diversity(Source(of_names), names[:9], names[9:], options=Options(permutations=199))
    two = diversity(Source(fit, table), names[:9], names[9:], options=Options(permutations=199))
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), check_exact=True)
    assert [x.name for x in one.repeats] == [x.name for x in two.repeats]
    pd.testing.assert_frame_equal(one.repeats_frame(), two.repeats_frame(), check_exact=True)


def test_a_space_that_depends_on_labels_is_fitted_in_each_permutation_and_draw() -> None:
    table = drawn(10, 12, 3, sizes=(6, 4))
    names, calls = list(table.values.index), set()

    def labelled(chosen: FeatureTable, a: Collection[str], b: Collection[str]) -> Space:
        calls.add((tuple(a), tuple(b)))
        space = fit(chosen)
        centre = (space.points.loc[list(a)].mean() + space.points.loc[list(b)].mean()) / 2
        return replace(space, points=space.points - centre)

    chosen = Options(permutations=209, robust=False)
    panel = diversity(Source(labelled, table, labelled=True), names[:6], names[6:], radius=2.0, options=chosen)
    plain = diversity(Source(fit, table), names[:6], names[6:], radius=2.0, options=chosen)
    assert len([1 for a, b in calls if len(a) == 6]) == 210  # all relabellings, C(10, 4)
    assert len([1 for a, b in calls if len(a) == 4]) == 15  # all subsets of 4 of 6
    assert "the space fitted anew in each" in panel.verdict.test.how
    assert panel.energy.p == plain.energy.p  # this label-dependent shift moves no distance
    assert panel.novelty.a.expected == plain.novelty.a.expected
    assert "depends on the labels" in panel.vendi.reason


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 3), (2, 2), (3, 1), (3, 2), (3, 3), (5, 1), (19, 2)])
def test_small_suites_give_values_or_reasons(sizes: tuple[int, int]) -> None:
    panel = compared(drawn(11, 12, 3, sizes=sizes), radius=1.0, options=Options(permutations=99))
    rows = panel.to_frame()
    empty = rows[rows["a"].isna() & rows["b"].isna()]
    assert (empty["reason"] != "").all()
    if min(sizes) < 3:
        assert panel.verdict.favours is None
        assert "cannot be compared" in panel.verdict.text
        assert panel.verdict.reason
    assert repr(panel)


def test_a_suite_against_itself_and_against_a_part_of_itself() -> None:
    table = drawn(12, 12, 3, sizes=(6, 4))
    names = list(table.values.index)
    same = diversity(Source(fit, table), names, names, radius=1.0, options=Options(permutations=99))
    assert "no labels can be exchanged" in same.verdict.text
    assert same.energy.value == 0
    part = diversity(Source(fit, table), names, names[:4], radius=1.0, options=QUICK)
    assert part.verdict.favours is None
    assert part.novelty.b.reason == "every task of B is in A too"


def test_duplicate_workloads_are_defined() -> None:
    table = drawn(13, 12, 3, sizes=(6, 4))
    table.values.loc["a01"] = table.values.loc["a00"]
    table.values.loc["b00"] = table.values.loc["a00"]
    panel = compared(table, radius=0.5)
    assert "a00" not in (panel.novelty.a.novel or ())
    assert panel.verdict.dispersion.ratio is not None
    equal = replace(table, values=table.values * 0 + np.arange(12.0))
    with pytest.raises(WcbenchError, match="No feature remains"):
        compared(equal)


def test_null_and_constant_features_are_left_out_with_reasons() -> None:
    table = drawn(14, 12, 3, sizes=(6, 4))
    clean = compared(replace(table, features=table.features[2:]))
    table.values["f00"], table.values["f01"] = np.nan, 1 + 1e-12 * np.arange(10)
    panel = compared(table)
    assert panel.left_out == {"f00": "null", "f01": "constant"}
    pd.testing.assert_frame_equal(panel.to_frame(), clean.to_frame(), check_exact=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_space_with_no_number_is_refused(bad: float) -> None:
    table = drawn(15, 12, 3, sizes=(6, 4))

    def broken(chosen: FeatureTable) -> Space:
        space = fit(chosen)
        space.points.loc["a02", "f03"] = bad
        return space

    with pytest.raises(WcbenchError, match="'f03' of workload 'a02' is no finite number"):
        diversity(Source(broken, table), "AIBench", "MLPerf", options=QUICK)


def test_workloads_that_the_fit_drops_are_named() -> None:
    table = drawn(16, 12, 3, sizes=(6, 4))

    def dropping(chosen: FeatureTable) -> Space:
        space = fit(chosen)
        names = [name for name in space.points.index if name[0] == "a" and name < "a02"]
        return replace(space, points=space.points.drop(index=names), dropped=dict.fromkeys(names, "nothing measured"))

    panel = diversity(Source(dropping, table), "AIBench", "MLPerf", options=QUICK)
    assert panel.left_out == {"a00": "nothing measured", "a01": "nothing measured"}
    assert panel.verdict.sizes == (4, 4)
    with pytest.raises(WcbenchError, match="No task of X has a place") as caught:
        diversity(Source(dropping, table), ["a00"], "MLPerf", labels=("X", "M"), options=QUICK)
    assert "nothing measured" in str(caught.value)


def test_unknown_suites_and_workloads_are_refused() -> None:
    table = drawn(17, 12, 3, sizes=(6, 4))
    with pytest.raises(UnknownNameError, match="AIBench"):
        diversity(Source(fit, table), "AIBenhc", "MLPerf")
    with pytest.raises(UsageError, match="no workload 'nobody'"):
        diversity(Source(fit, table), ["nobody"], "MLPerf")
    with pytest.raises(UsageError, match="up to 1000 tasks, not 1200"):
        compared(drawn(0, 2, 1, sizes=(1000, 200)))
    twice = replace(table, values=pd.concat([table.values, table.values.iloc[:1]]))
    with pytest.raises(UsageError, match="a workload twice: a00"):
        compared(twice)


def _radius(space: Space) -> float:
    return float(np.median(space.distances()))


def test_facets_are_compared_or_named_as_missing() -> None:
    table = drawn(18, 24, 4, sizes=(9, 5))
    table.values[["f04", "f12", "f20"]] = np.nan  # block4
    names = list(table.values.index)
    both = pair(names[:9], names[9:])
    parts = {
        "model complexity": ["block0", "block1"],
        "computational cost": ["f02"],
        "convergence": "epochs to quality are published for no task of MLPerf",
        "computation and memory access": ["block4"],
        "hotspots": hotspot_overlaps(both, {"measured CPU": {n: {"gemm": 1.0} for n in names}}),
        "learning factors": factor_coverage(both, {n: {"modality": n[0]} for n in names}),
    }
    found = facets(Source(fit, table), "AIBench", "MLPerf", parts, radius=_radius, options=QUICK)
    assert found.sentence.startswith("Facets compared: 4 of 6; missing: convergence (epochs to quality")
    assert found.sources["learning factors"] == "catalogue"
    assert list(found.gaps) == ["convergence", "computation and memory access"]
    assert "No feature remains" in found.gaps["computation and memory access"]
    complexity = found.panels["model complexity"].points
    assert set(complexity.columns) == {"f00", "f01", "f08", "f09", "f16", "f17"}
    assert found.panels["computational cost"].points.shape == (14, 1)
    assert found.panels["model complexity"].novelty.radius is not None
    frame = found.to_frame().set_index("facet")
    assert frame["compared"].sum() == 4
    assert "Facets compared: 4 of 6" in repr(found)


def test_what_only_a_model_answers_is_named_and_not_counted() -> None:
    table = drawn(18, 24, 4, sizes=(9, 5))
    origins = {name: "modelled" if name < "f08" else "exact" for name in table.values.columns}
    table = replace(table, origins=origins)
    names = list(table.values.index)
    both = pair(names[:9], names[9:])
    times = {"roofline-predicted": {n: {"gemm": 1.0} for n in names}}
    parts = {
        "counted": ["f08", "f09", "never[a]", "never[b]"],
        "both": ["f01", "f09"],
        "modelled": ["f01", "f02"],
        "hotspots": hotspot_overlaps(both, times, {"roofline-predicted": "GPU X"}),
    }
    found = facets(Source(fit, table), names[:9], names[9:], parts, options=QUICK)
    assert found.compared == ("counted", "both")
    assert found.modelled == {"modelled": "modelled", "hotspots": "roofline-predicted on GPU X"}
    assert found.sentence == (
        "Facets compared: 2 of 4 (counted without never); only by a model: modelled (modelled), hotspots "
        "(roofline-predicted on GPU X)."
    )
    frame = found.to_frame().set_index("facet")
    assert frame["source"].to_dict() == {
        "counted": "exact",
        "both": "exact, modelled",
        "modelled": "modelled",
        "hotspots": "roofline-predicted on GPU X",
    }
    assert frame.loc["hotspots", "reason"] == "no distances: see its own table"
    measured = hotspot_overlaps(both, {**times, "measured CPU": times["roofline-predicted"]},
                                {"roofline-predicted": "GPU X"})  # fmt: skip
    found = facets(Source(fit, table), names[:9], names[9:], {"hotspots": measured}, options=QUICK)
    assert found.sentence == "Facets compared: 1 of 1."


def test_a_facet_of_nothing_is_a_gap() -> None:
    table = drawn(19, 12, 3, sizes=(6, 4))
    both = pair(["a00"], ["b00"])
    parts = {"empty": [], "hotspots": hotspot_overlaps(both, {}), "factors": factor_coverage(both, {})}
    found = facets(Source(fit, table), "AIBench", "MLPerf", parts, options=QUICK)
    assert found.sentence.startswith("Facets compared: 0 of 3")
    assert found.gaps["factors"] == "no workload has a factor"
    assert "has measured GPU times" in found.gaps["hotspots"]
