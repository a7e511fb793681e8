"""Placements by hand arithmetic in a reference of four points, and in wcbench's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import wcbench
from wcbench.analysis.differences import apart, quantity
from wcbench.analysis.features import COLUMNS, all_features
from wcbench.analysis.place import derived, place
from wcbench.analysis.recipe import Coordinate
from wcbench.analysis.reference import DEFAULT, IN_STUDY, Reference, freeze, load_reference, plain_rows, references
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.analysis.transform import to_space
from wcbench.errors import UnknownNameError, UsageError

FLOPS, PARAMS, SPARSE, DLP = "flops_per_sample", "params_trainable", "params_sparse_share", "dlp_median"
MIX = [feature.name for feature in all_features() if feature.block == "op_class_flop_share"]
LIKE = {"origin": "exact", "preset": "paper", "device": "cpu", "precision": "fp32", "needs": "operators"}


def rows(name: str, values: Mapping[str, float], **conditions: Any) -> pd.DataFrame:
    """Feature rows of a workload, as `features.evaluate` makes them."""
    told = {**LIKE, "reason": "", "remark": "", **conditions}
    found = [{"workload": name, "feature": feature, "value": value, **told} for feature, value in values.items()]
    return pd.DataFrame(found, columns=list(COLUMNS))


def shares(**parts: float) -> dict[str, float]:
    """A composition of FLOPs: the parts named, and 0 for the others."""
    given = {f"op_class_flop_share[{part}]": value for part, value in parts.items()}
    return dict.fromkeys(MIX, 0.0) | given


def four(radius: float | None = None, **more: Any) -> Reference:
    """log10 FLOPs 6, 7, 8, 9 (mean 7.5, variance 5/3) and log10 parameters 3, 3, 5, 5 (mean 4, variance 4/3).

    A step of one in log10 FLOPs is sqrt(3/5) apart, and of one in log10 parameters sqrt(3/4): each block's variance
    is 1.
    """
    table = zip("ABCD", (1e6, 1e7, 1e8, 1e9), (1e3, 1e3, 1e5, 1e5), strict=True)
    points = [rows(name, {FLOPS: flops, PARAMS: params, SPARSE: 0.0}) for name, flops, params in table]
    return freeze("four-1", pd.concat(points, ignore_index=True), radius=radius, **more)


NEW = {FLOPS: 1e8, PARAMS: 1e4, SPARSE: 0.0}
"""Half way between the two numbers of parameters, with the FLOPs of C."""


def test_distances_by_hand() -> None:
    """To C 3/4; to B and D 3/5 + 3/4; to A 4 * 3/5 + 3/4, all squared; B comes before D by name."""
    placed = place(rows("mine", NEW), four(0.9))
    assert placed.nearest["workload"].tolist() == ["C", "B", "D", "A"]
    assert_allclose(placed.nearest["distance"] ** 2, [0.75, 1.35, 1.35, 3.15], atol=1e-9)
    assert placed.nearest["within_r"].tolist() == [True, False, False, False]
    assert not placed.nearest["same"].any()
    assert (placed.verdict, placed.within, placed.against) == ("inside", ("C",), "C")
    assert placed.complete
    assert placed.to_frame().equals(placed.nearest)


def test_what_makes_the_distance_by_hand() -> None:
    placed = place(rows("mine", {**NEW, FLOPS: 1e7}), four())  # apart from C by 3/5 in FLOPs and 3/4 in parameters
    found = placed.contributions("C").set_index("feature")
    assert found.index.tolist() == [PARAMS, FLOPS]
    assert_allclose(found["squared"], [0.75, 0.6])
    assert_allclose(found["share"], [0.75 / 1.35, 0.6 / 1.35])
    assert list(found.loc[PARAMS, ["value", "other", "unit"]]) == [1e4, 1e5, "count"]
    assert found.loc[PARAMS, "words"] == "params_trainable: 1/10 of that of C (10 k against 100 k)"
    assert found.loc[FLOPS, "words"] == (
        "flops_per_sample: 1/10 of that of C (10 MFLOP/sample against 100 MFLOP/sample)"
    )
    blocks = placed.blocks("C")
    assert blocks["block"].tolist() == ["parameters", "work"]
    assert_allclose(blocks["share"], [0.75 / 1.35, 0.6 / 1.35])
    with pytest.raises(UnknownNameError, match="'E'"):
        placed.contributions("E")


def test_beyond_all_of_the_reference_is_said() -> None:
    found = place(rows("mine", {**NEW, FLOPS: 4e9}), four()).contributions("D").set_index("feature")
    assert found.loc[FLOPS, "words"] == "flops_per_sample: 4 times that of D (4 GFLOP/sample against 1 GFLOP/sample)"
    assert found.loc[FLOPS, "beyond"] == "more than any workload of the reference (up to 1 GFLOP/sample)"
    assert found.loc[PARAMS, "beyond"] == ""


@pytest.mark.parametrize("name", list("ABCD"))
def test_a_workload_of_the_reference_lies_on_itself(name: str) -> None:
    space = four(0.1)
    placed = place(space.rows[space.rows["workload"] == name], space)
    first = placed.nearest.iloc[0]
    assert (first["workload"], first["distance"], first["same"]) == (name, 0.0, True)
    assert placed.verdict == "inside"
    assert placed.against != name  # the differences are told with the nearest that lies apart
    assert "this task itself" in repr(placed)


def test_a_workload_at_distance_0_of_a_single_one() -> None:
    placed = place(rows("twin", {FLOPS: 1e6, PARAMS: 1e3, SPARSE: 0.0}), four())
    assert placed.nearest.loc[0, "distance"] == 0
    assert placed.contributions("A")["share"].isna().all()
    assert json.loads(json.dumps(placed.to_dict(), allow_nan=False))["nearest"][0]["distance"] == 0


# verdicts


@pytest.mark.parametrize(("radius", "verdict"), [(0.75**0.5, "inside"), (0.866, "new"), (2.0, "inside"), (0.0, "new")])
def test_the_radius_belongs_to_the_inside(radius: float, verdict: str) -> None:
    assert place(rows("mine", NEW), four(radius)).verdict == verdict


def test_without_r_star_there_is_no_verdict() -> None:
    placed = place(rows("mine", NEW), four())
    assert placed.verdict == "no radius"
    assert placed.within == ()
    told = placed.to_dict()
    assert told["verdict"] is None
    assert told["reference"]["distinguishable"] is None
    assert [row["within_r"] for row in told["nearest"]] == [None] * 4
    assert "r* is not known for this reference" in repr(placed)


def test_r_star_that_tells_the_reference_itself_not_apart_is_said() -> None:
    """Neighbours of A, B, C, D lie sqrt(3/5) = 0.7746 away: at r* = 0.9 all of them are one."""
    assert "do not tell them apart" in repr(place(rows("mine", NEW), four(0.9)))
    assert "do not tell them apart" not in repr(place(rows("C", {FLOPS: 1e8, PARAMS: 1e5, SPARSE: 0}), four(0.7)))
    assert four(0.9).median_neighbour == pytest.approx(0.6**0.5)


@pytest.mark.parametrize(
    ("flops", "verdict", "distance"), [(1e8, "undecided", 0.0), (1e7, "undecided", 0.0), (1e12, "new", 3 * 0.6**0.5)]
)
def test_what_the_record_lacks_can_prove_new_and_never_inside(flops: float, verdict: str, distance: float) -> None:
    lacking = rows("mine", {FLOPS: flops, PARAMS: float("nan"), SPARSE: 0.0}, reason="nobody counted")
    placed = place(lacking, four(0.9))
    assert placed.missing == {PARAMS: "nobody counted"}
    assert placed.verdict == verdict
    assert placed.nearest["distance"].iloc[0] == pytest.approx(distance)
    assert [c.name for c in placed.coordinates] == [FLOPS]
    text = repr(placed)
    assert "lower bounds" in text
    assert "compared on 1 of 2 features in 1 of 2 blocks" in text
    assert "params_trainable: nobody counted" in text
    assert placed.to_dict()["distances_are"] == "lower bounds"


def test_a_feature_without_a_row_is_missing_too() -> None:
    assert place(rows("mine", {FLOPS: 1e8}), four()).missing == {PARAMS: "not measured"}
    with pytest.raises(UsageError, match=r"no feature of four-1: .*nobody counted"):
        place(rows("mine", dict.fromkeys((FLOPS, PARAMS), np.nan), reason="nobody counted"), four())


@pytest.mark.parametrize("bad", [np.inf, -1.0, 0.0])
def test_a_value_without_a_logarithm_is_missing(bad: float) -> None:
    assert set(place(rows("mine", {FLOPS: bad, PARAMS: 1e4}), four()).missing) == {FLOPS}


def composed(radius: float | None = None) -> Reference:
    mixes = [
        shares(conv=0.5, gemm=0.5),
        shares(conv=0.9, gemm=0.1),
        shares(conv=0.1, gemm=0.9),
        shares(conv=0.2, gemm=0.8),
    ]
    points = [rows(f"w{i}", {FLOPS: 10.0**i, **mix}) for i, mix in enumerate(mixes)]
    return freeze("mix-1", pd.concat(points, ignore_index=True), radius=radius)


def test_a_composition_is_compared_whole_or_not_at_all() -> None:
    """Two parts: ln(conv / gemm) / sqrt(2) is the one coordinate of rank, centred and of variance 1 in all."""
    space = composed()
    logs = np.log([1.0, 9.0, 1 / 9, 1 / 4])
    mine = np.log(0.3 / 0.7)
    expected = np.abs(logs - mine) / logs.std(ddof=1)
    placed = place(rows("mine", {FLOPS: 1.0, **shares(conv=0.3, gemm=0.7)}), space)
    by_name = placed.squares[["op_class_flop_share[conv]", "op_class_flop_share[gemm]"]].sum(axis=1)
    assert_allclose(by_name**0.5, expected)
    words = placed.contributions("w1")["words"]
    assert "op_class_flop_share[conv]: 30 % against 90 % of w1" in words.tolist()

    half = rows("mine", {FLOPS: 1.0, "op_class_flop_share[conv]": 0.3})
    assert set(place(half, space).missing) == {"op_class_flop_share[conv]", "op_class_flop_share[gemm]"}


# what the space cannot see


def test_a_part_that_nobody_in_the_reference_has_forbids_inside() -> None:
    strange = rows("mine", {FLOPS: 1.0, **shares(conv=0.3, gemm=0.3, rnn=0.4)})
    placed = place(strange, composed(1.5))
    assert placed.verdict == "undecided"
    assert set(placed.unseen) == {"op_class_flop_share[rnn]"}
    assert "40 % here, and at most 0 %" in placed.unseen["op_class_flop_share[rnn]"]
    below = rows("mine", {FLOPS: 1.0, **shares(conv=0.3, gemm=0.6995, rnn=5e-4)})  # under the detection limit of 1e-3
    assert place(below, composed(1.5)).verdict == "inside"


def test_a_feature_that_is_constant_in_the_reference_and_differs_here_is_named() -> None:
    placed = place(rows("mine", {**NEW, SPARSE: 0.25}), four(0.9))
    assert placed.verdict == "undecided"
    assert set(placed.unseen) == {SPARSE}
    assert "25 % here" in repr(placed)
    far = place(rows("mine", {**NEW, FLOPS: 1e15, SPARSE: 0.25}), four(0.9))
    assert far.verdict == "new"  # what is not seen can only add to the distance
    assert place(rows("mine", {**NEW, SPARSE: 5e-4}), four(0.9)).verdict == "inside"  # held at the floor, as 0 is


# conditions


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"preset": "small"}, r"preset small here, paper there \(every feature\)"),
        ({"preset": None}, "preset not told here, paper there"),
        ({"origin": "toy"}, "origin toy here, exact there"),
        ({"precision": "bf16"}, "precision bf16 here, fp32 there"),
        ({"device": "cuda"}, "device cuda here, cpu there"),
    ],
)
def test_other_conditions_are_refused_and_told_where_asked_for(condition: dict[str, Any], message: str) -> None:
    other = rows("mine", NEW, **condition)
    with pytest.raises(UsageError, match=message) as raised:
        place(other, four())
    assert "--mix" in str(raised.value.hint)
    placed = place(other, four(), mix=True)
    assert len(placed.mixed) == 1
    assert "mixed: " in repr(placed)
    assert_allclose(placed.nearest["distance"], place(rows("mine", NEW), four()).nearest["distance"])


def test_conditions_of_what_is_missing_do_not_count() -> None:
    lacking = rows("mine", {FLOPS: 1e8, PARAMS: 1e4})
    lacking.loc[1, ["value", "preset", "origin"]] = [np.nan, None, "published"]
    assert place(lacking, four()).mixed == ()


def test_rows_of_two_workloads_or_of_one_feature_twice_are_refused() -> None:
    for frame in (pd.concat([rows("a", NEW), rows("b", NEW)]), pd.concat([rows("a", NEW)] * 2), rows("a", {})):
        with pytest.raises(UsageError, match="one workload, each feature once"):
            place(frame, four())


def test_plain_rows_of_a_table_of_ones_own() -> None:
    """Features that wcbench does not know, in a space made with them; a record cannot tell them."""
    space = four()
    data = json.loads(json.dumps(space.to_dict()).replace(FLOPS, "speed").replace(PARAMS, "weight"))
    data["fingerprint"] = ""
    with pytest.raises(UsageError, match="was changed"):
        Reference.from_dict(data)
    recipe = type(space.recipe).from_dict(data["recipe"])
    own = Reference.from_dict({**data, "fingerprint": recipe.fingerprint})
    given = pd.DataFrame({"workload": "mine", "feature": ["speed", "weight"], "value": [1e8, 1e4]})
    with pytest.raises(UsageError, match="not told here"):
        place(given, own)
    assert_allclose(place(given, own, mix=True).nearest["distance"] ** 2, [0.75, 1.35, 1.35, 3.15], atol=1e-9)


def test_another_definition_of_a_feature_is_refused() -> None:
    data = four().to_dict()
    data["recipe"]["coordinates"][0]["unit"] = "MAC/sample"
    recipe = type(four().recipe).from_dict(data["recipe"])
    old = Reference.from_dict({**data, "fingerprint": recipe.fingerprint})
    with pytest.raises(UsageError, match="another definition"):
        place(rows("mine", NEW), old)


# bounds and determinism


def random_space(seed: int) -> tuple[Reference, dict[str, float]]:
    rng = np.random.default_rng(seed)
    names = [FLOPS, PARAMS, DLP, "bytes_op_level", "bytes_compulsory", "wss_50", "wss_90", "wss_99"]
    points = []
    for _ in range(9):
        values = dict(zip(names, 10 ** rng.normal(6, 1, len(names)), strict=True))
        mix = dict(zip(MIX, rng.dirichlet(np.ones(len(MIX))), strict=True))
        points.append({**values, **mix})
    *known, mine = points
    table = pd.concat([rows(f"w{i}", values) for i, values in enumerate(known)], ignore_index=True)
    return freeze("random-1", table), mine


@pytest.mark.parametrize("seed", range(5))
def test_distances_on_fewer_features_are_lower_bounds(seed: int) -> None:
    space, mine = random_space(seed)
    whole = place(rows("mine", mine), space).nearest.set_index("workload")["distance"]
    points = space.space.points
    for name in np.random.default_rng(seed).permutation(list(mine))[:6]:
        placed = place(rows("mine", {**mine, name: np.nan}), space)
        part = placed.nearest.set_index("workload")["distance"]
        assert (part <= whole[part.index] + 1e-9).all()
        gone = {name} if name not in MIX else set(MIX)
        assert set(placed.missing) == gone & set(points.columns)


def test_the_order_of_rows_changes_no_digit() -> None:
    space, mine = random_space(7)
    shuffled = freeze("random-1", space.rows.sample(frac=1, random_state=1).reset_index(drop=True))
    one = place(rows("mine", mine), space)
    other = place(rows("mine", dict(reversed(mine.items()))), shuffled)
    assert one.nearest.equals(other.nearest)
    assert one.to_dict() == other.to_dict()


# the file


def test_a_file_keeps_every_digit(tmp_path: Path) -> None:
    space, mine = random_space(3)
    full = freeze("random-1", space.rows, radius=1 / 3, radius_of="a third", suites={"w0": ("s",)}, made={"by": "me"})
    path = full.save(tmp_path / "space.json")
    for where in (path, tmp_path):
        back = load_reference(where)
        assert back.recipe == full.recipe
        assert (back.radius, back.radius_of, back.made, back.suites["w0"]) == (1 / 3, "a third", {"by": "me"}, ("s",))
        assert back.values.equals(full.values[list(back.values.columns)])
        assert back.to_dict() == full.to_dict()
        assert place(rows("mine", mine), back).to_dict() == place(rows("mine", mine), full).to_dict()
    assert path.read_text(encoding="utf-8").count("\n") > len(full.recipe.coordinates)
    with pytest.raises(UsageError, match="exists"):
        full.save(path)


def test_reasons_and_remarks_stay(tmp_path: Path) -> None:
    table = pd.concat([four().rows, rows("A", {DLP: np.nan}, reason="why not", remark="oh")], ignore_index=True)
    space = freeze("four-2", table)
    back = load_reference(space.save(tmp_path / "x.json"))
    (kept,) = back.rows[back.rows["feature"] == DLP].to_dict("records")
    assert (kept["workload"], kept["reason"], kept["remark"]) == ("A", "why not", "oh")
    assert DLP in back.recipe.dropped


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data["recipe"]["coordinates"][0].update(centre=7.0), "was changed"),
        (lambda data: data.pop("workloads"), "damaged"),
        (lambda data: data["workloads"]["A"]["values"].pop(), "damaged"),
        (lambda data: data.update(radius=3), "damaged"),
        (lambda data: data["radius"].update(value=-1), "radius"),
        (lambda data: data.update(schema="wcbench.reference/2"), "schema"),
        (lambda data: data["recipe"].update(version=2), "version"),
    ],
)
def test_a_spoilt_file_is_refused(spoil: Any, message: str, tmp_path: Path) -> None:
    data = json.loads(json.dumps(four().to_dict()))
    spoil(data)
    (tmp_path / "x.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        load_reference(tmp_path / "x.json")


@pytest.mark.parametrize("text", ["", "[1]", "{", "null", "[" * 100_000])
def test_what_is_no_reference_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"no JSON|no reference space"):
        load_reference(tmp_path / "x.json")


def test_a_space_that_is_not_there(tmp_path: Path) -> None:
    for name in ("reference-0", str(tmp_path), str(tmp_path / "none.json")):
        with pytest.raises(UnknownNameError, match="reference space") as raised:
            load_reference(name)
        assert IN_STUDY in str(raised.value.hint)


# words


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.1234, "fraction", "12.3 %"),
        (0.0, "fraction", "0 %"),
        (3e-6, "fraction", "3e-06"),
        (1234.0, "B/sample", "1.23 kB/sample"),
        (999.6, "B", "1 kB"),
        (2.5e12, "FLOP", "2.5 TFLOP"),
        (1e7, "samples", "10 M samples"),
        (12.0, "count", "12"),
        (1e4, "count", "10 k"),
        (5e6, "us", "5e+06 us"),
        (3.25, "", "3.25"),
        (float("nan"), "B", "not measured"),
    ],
)
def test_quantities_in_words(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "other", "text"),
    [
        (4.1e6, 1e6, "x: 4.1 times that of W (4.1 MB against 1 MB)"),
        (1e6, 4e6, "x: 1/4 of that of W (1 MB against 4 MB)"),
        (1e6, 1.001e6, "x: the same as that of W (1 MB against 1 MB)"),
        (19_000.0, 1.0, "x: 1,900 times that of W (19 kB against 1 B; below 10 B counts as that)"),
        (0.0, 123_456.0, "x: 1/12,000 of that of W (0 B against 123 kB; below 10 B counts as that)"),
    ],
)
def test_differences_in_words(value: float, other: float, text: str) -> None:
    assert apart(Coordinate("x", "B", "log10", "b", 10.0, 0, 1, "sd"), value, other, "W") == text


# wcbench's own


def test_every_task_of_our_own_reference_lies_on_itself_and_is_told_from_the_others() -> None:
    space = load_reference()
    assert space.id == DEFAULT
    assert DEFAULT in references()
    assert len(space.recipe.fitted_on) == 30
    for name, own in space.rows.groupby("workload"):
        placed = place(own, space)
        first = placed.nearest.iloc[0]
        assert (first["workload"], first["distance"]) == (name, 0)
        assert placed.complete
        assert not placed.unseen
        assert (placed.nearest["distance"].iloc[1:] > 0).all()


@pytest.mark.usefixtures("torch_unchanged")
def test_a_fresh_record_of_a_task_lies_where_the_frozen_one_does(tmp_path: Path) -> None:
    """Fails where a definition, a formula or torch changed what is counted: then it is time for another reference."""
    made = wcbench.profile("spatial-transformer", device="cpu", preset="paper", passes=["operators"], save=False)
    placed = place(made)
    assert placed.nearest.loc[0, "workload"] == "spatial-transformer"
    assert placed.nearest.loc[0, "distance"] == pytest.approx(0, abs=1e-9)
    assert derived(made, "x", {"features": FLOPS})["values"]["workload"].tolist() == ["x"]


def test_an_imported_execution_trace_is_placed_on_what_it_tells(shared: Path) -> None:
    read = wcbench.read(shared / "traces" / "chakra_et" / "param_linear_et.json.gz")
    with pytest.raises(UsageError, match="preset not told here"):
        place(read)
    placed = place(read, mix=True)
    assert placed.mixed
    assert placed.missing  # a single batch has no fit
    assert placed.to_dict()["distances_are"] == "lower bounds"


def test_rows_of_a_plain_table_make_a_reference_and_can_be_placed() -> None:
    """Somebody's own table, whose conditions nobody told: nothing mixes."""
    names, values = ["speed", "weight"], [[1e6, 1e3], [1e7, 1e3], [1e8, 1e5], [1e9, 1e5], [np.nan, 1.0]]
    frame = pd.DataFrame(values, index=list("ABCDE"), columns=names)
    own = FeatureTable(
        frame, tuple(Feature(name, "u", "log10", name) for name in names), reasons={("E", "speed"): "not told"}
    )
    table = plain_rows(own)
    assert table[table["value"].isna()]["reason"].tolist() == ["not told"]
    space = to_space(own, nulls="drop-workload")
    reference = Reference("own", space.recipe, table, radius=1.0)
    back = Reference.from_dict(json.loads(json.dumps(reference.to_dict())))
    assert back.values.index.tolist() == list("ABCD")
    mine = pd.DataFrame({"workload": "mine", "feature": names, "value": [1e8, 1e4]})
    placed = place(mine, back)
    assert placed.mixed == ()
    assert_allclose(placed.nearest["distance"] ** 2, [0.75, 1.35, 1.35, 3.15], atol=1e-9)
