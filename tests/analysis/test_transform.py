"""Transforms, blocks, nulls, frozen recipes: hand arithmetic and the oracles of METHOD 7."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from wcbench.analysis import scales
from wcbench.analysis.recipe import Placed, Recipe
from wcbench.analysis.sensitivity import delta_sensitivity
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.analysis.transform import apply, refit, rows, to_space
from wcbench.errors import UnknownNameError, UsageError

LN2 = np.log(2)
Column = tuple[Feature, Sequence[float]]


def table(*columns: Column, names: Sequence[str] | None = None, **more: Any) -> FeatureTable:
    n = len(columns[0][1])
    index = list(names or [f"w{i:02}" for i in range(n)])
    values = pd.DataFrame({f.name: np.array(v, np.float64) for f, v in columns}, index=index)
    return FeatureTable(values, tuple(f for f, _ in columns), **more)


def plain(name: str, values: Sequence[float], block: str = "", transform: str = "none", **more: Any) -> Column:
    return Feature(name, more.pop("unit", ""), transform, block or name, **more), values


def parts(shares: Sequence[Sequence[float]], floor: float | None = None, block: str = "mix") -> list[Column]:
    """The columns of one composition, given as rows of shares."""
    return [
        plain(f"{block}[{chr(97 + j)}]", column, block, "clr", floor=floor)
        for j, column in enumerate(zip(*shares, strict=True))
    ]


def mixed(n: int = 12, seed: int = 0) -> FeatureTable:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([1, 2, 3, 0.3], n)
    shares[0, 3] = 0
    shares /= shares.sum(axis=1, keepdims=True)
    return table(
        plain("flops", rng.lognormal(20, 3, n), "work", "log10"),
        plain("params", rng.lognormal(10, 2, n), "work", "log10"),
        plain("sparse", rng.beta(1, 4, n), "work", "logit", floor=1e-3),
        plain("depth", rng.normal(5, 1, n), "shape"),
        *parts(shares.tolist(), 1e-4),
    )


# ---- elementary transforms


def test_clr_oracles() -> None:
    assert_allclose(scales.clr(np.array([[1.0, 2, 4]])), [[-LN2, 0, LN2]], atol=1e-15)
    assert_allclose(scales.clr(np.array([[0.1, 0.3, 0.6]])), [[-0.963457, 0.135155, 0.828302]], atol=5e-7)


def test_aitchison_distance_and_its_invariances() -> None:
    x, y, by = np.array([[1, 1, 1]]) / 3, np.array([[0.5, 0.25, 0.25]]), np.array([[2.0, 3, 5]])

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        none = np.zeros(a.shape[1])
        return float(
            np.linalg.norm(scales.clr(scales.replace_zeros(a, none)) - scales.clr(scales.replace_zeros(b, none)))
        )

    assert distance(x, y) == pytest.approx(np.sqrt(2 / 3) * LN2, abs=1e-12)
    assert distance(x, y) == pytest.approx(0.565952, abs=5e-7)
    assert distance(x * by, y * by) == pytest.approx(distance(x, y), abs=1e-12)
    # the log-ratio of two parts is the same in the sub-composition
    whole, part = scales.clr(np.array([[0.2, 0.3, 0.5]])), scales.clr(np.array([[0.4, 0.6]]))
    assert whole[0, 0] - whole[0, 1] == pytest.approx(part[0, 0] - part[0, 1], abs=1e-12)


def test_clr_has_rank_d_minus_1() -> None:
    ratios = scales.clr(np.random.default_rng(0).dirichlet(np.ones(5), 20))
    assert np.linalg.svd(ratios - ratios.mean(axis=0), compute_uv=False)[-1] < 1e-12


def test_multiplicative_replacement_oracle() -> None:
    shares, floors = np.array([[0, 0.4, 0.6]]), np.full(3, 0.01 / 0.65)
    assert_allclose(scales.replace_zeros(shares, floors), [[0.01, 0.396, 0.594]], atol=1e-15)
    # sums are closed first; a floor in the raw unit shrinks with them
    assert_allclose(scales.replace_zeros(shares * 50, floors * 50), [[0.01, 0.396, 0.594]], atol=1e-15)


@pytest.mark.parametrize(("instead", "expected"), [(1e-2, -2.59), (1e-6, -8.73)])
def test_what_replaces_a_zero_decides_its_log_ratio(instead: float, expected: float) -> None:
    """METHOD 1.1, whose row is the one of the oracle above."""
    shares = scales.replace_zeros(np.array([[0, 0.4, 0.6]]), np.full(3, instead), 1.0)
    assert scales.clr(shares)[0, 0] == pytest.approx(expected, abs=5e-3)


def test_a_value_below_its_floor_counts_as_zero_and_ratios_stay() -> None:
    found = scales.replace_zeros(np.array([[0.001, 0.3, 0.699]]), np.full(3, 0.01))
    assert found[0, 0] == pytest.approx(0.0065)
    assert found.sum() == pytest.approx(1, abs=1e-15)
    assert found[0, 1] / found[0, 2] == pytest.approx(0.3 / 0.699, abs=1e-14)


def test_floors_that_leave_no_room_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing is left"):
        scales.replace_zeros(np.array([[0, 0, 4.0]]), np.array([3.5, 3.5, 1]))


@pytest.mark.parametrize(
    ("transform", "floor", "value", "expected"),
    [
        ("log", None, np.e, 1),
        ("log2", None, 8, 3),
        ("log10", None, 0.01, -2),
        ("log10", 0.1, 0, -1),
        ("log1p", None, np.e - 1, 1),
        ("sqrt", None, 9, 3),
        ("none", None, -7, -7),
        ("logit", None, 0.8, np.log(4)),
        ("logit", 0.01, 0, np.log(0.01 / 0.99)),
        ("logit", 0.01, 1, np.log(0.99 / 0.01)),
        ("logit", 0.01, 1 + 1e-12, np.log(0.99 / 0.01)),
    ],
)
def test_transforms(transform: str, floor: float | None, value: float, expected: float) -> None:
    column = np.array([value])
    assert not scales.unfit(column, transform, floor).any()
    assert scales.transformed(column, transform, floor)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("transform", "floor", "value"),
    [
        ("log", None, 0),
        ("log2", 1e-3, -1),
        ("log1p", None, -1),
        ("sqrt", None, -1e-3),
        ("logit", None, 1),
        ("logit", None, 0),
        ("logit", 1e-3, 30),
        ("clr", 1e-3, -0.1),
        ("none", None, np.inf),
        ("log", None, np.inf),
    ],
)
def test_values_without_a_meaning(transform: str, floor: float | None, value: float) -> None:
    assert scales.unfit(np.array([value]), transform, floor).all()


# ---- spaces


def test_two_features_by_hand() -> None:
    """a = 1, 2, 3: mean 2, SD 1. b = ln(1, e, e^2): mean 1, SD 1. One block of variance 2: divided by its root."""
    space = to_space(table(plain("a", [1, 2, 3], "x"), plain("b", [1, np.e, np.e**2], "x", "log")))
    assert_allclose(space.points.to_numpy(), np.array([[-1, -1], [0, 0], [1, 1]]) / np.sqrt(2), atol=1e-12)
    assert_allclose(space.centres, [2, 1], atol=1e-12)
    assert_allclose(space.scales, np.sqrt([2, 2]), atol=1e-12)
    assert space.blocks == ("x", "x")
    assert space.distances()[0, 2] == pytest.approx(2, abs=1e-12)


@pytest.mark.parametrize("scale", ["sd", "mad"])
def test_every_block_has_total_variance_1(scale: str) -> None:
    space = to_space(mixed(), scale=scale)
    total = space.points.var(ddof=1).groupby(np.array(space.blocks)).sum()
    assert set(total.index) == {"work", "shape", "mix"}
    assert_allclose(total, 1, atol=1e-12)


def test_copies_of_a_feature_in_its_block_weigh_nothing() -> None:
    one = table(plain("a", [1, 2, 4, 8]), plain("b", [3, 1, 4, 1]))
    five = table(*[plain(f"a{i}", [1, 2, 4, 8], "a") for i in range(5)], plain("b", [3, 1, 4, 1]))
    assert_allclose(to_space(five).distances(), to_space(one).distances(), atol=1e-12)


def test_a_composition_keeps_aitchisons_distances() -> None:
    shares = np.random.default_rng(1).dirichlet([1, 5, 2], 9)
    space = to_space(table(*parts(shares.tolist())))
    logs = np.log(shares) - np.log(shares).mean(axis=1, keepdims=True)
    aitchison = np.linalg.norm(logs[:, None] - logs[None, :], axis=2)
    ratio = space.distances()[np.triu_indices(9, 1)] / aitchison[np.triu_indices(9, 1)]
    assert_allclose(ratio, ratio[0], rtol=1e-10)
    assert len(set(space.scales)) == 1
    assert_allclose(space.points.sum(axis=1), 0, atol=1e-12)


def test_a_composition_beside_others_in_its_block_counts_as_its_rank() -> None:
    """Three parts are two features: beside one other, two thirds of the block's variance."""
    shares = np.random.default_rng(2).dirichlet([1, 5, 2], 9).tolist()
    space = to_space(table(*parts(shares), plain("a", np.arange(9.0).tolist(), "mix")))
    assert space.points["a"].var() == pytest.approx(1 / 3, abs=1e-12)


def test_mad_by_hand_and_its_fallback() -> None:
    """a = 0, 1, 2, 3, 100: median 2, MAD 1. b is mostly 5: its MAD is 0, and its SD (ddof 1) of sqrt(5) is taken."""
    space = to_space(table(plain("a", [0, 1, 2, 3, 100]), plain("b", [5, 5, 5, 5, 0])), scale="mad")
    before = np.array([-2, -1, 0, 1, 98]) / 1.4826
    assert_allclose(space.points["a"], before / before.std(ddof=1), atol=1e-12)
    assert space.recipe.coordinates[1].spread == "sd as MAD is 0"
    assert space.recipe.coordinates[1].scale == pytest.approx(np.sqrt(5), abs=1e-12)
    assert "MAD is 0: b" in space.recipe.notes[-1]


def test_blind_to_labels_and_to_the_order_of_rows() -> None:
    given_ = mixed()
    labelled = replace(
        given_, suites={n: ("aibench" if n < "w05" else "mlperf",) for n in given_.values.index}, families={"w01": "x"}
    )
    shuffled = replace(given_, values=given_.values.sample(frac=1, random_state=3))
    values = given_.values
    layout = replace(given_, values=pd.DataFrame(np.array(values, order="C"), values.index, values.columns))
    other = replace(given_, values=pd.DataFrame(np.array(values, order="F"), values.index, values.columns))
    spaces = [to_space(t) for t in (given_, labelled, shuffled, layout, other)]
    for space in spaces[1:]:
        pd.testing.assert_frame_equal(space.points, spaces[0].points, check_exact=True)
        assert space.recipe == spaces[0].recipe
    assert spaces[0].names == sorted(spaces[0].names)


def test_a_duplicate_workload_is_at_distance_0() -> None:
    given_ = mixed()
    values = pd.concat([given_.values, given_.values.iloc[[4]].rename(index={"w04": "copy"})])
    space = to_space(replace(given_, values=values))
    assert space.distances()[space.names.index("copy"), space.names.index("w04")] == 0


# ---- drops


def test_constant_and_near_constant_features_are_dropped_with_a_notice() -> None:
    near = [3.0, 3.0 * (1 + 1e-12), 3.0, 3.0 * (1 - 1e-12)]
    space = to_space(
        table(
            plain("a", [1, 2, 4, 8]),
            plain("same", [7, 7, 7, 7], unit="ms"),
            plain("near", near),
            plain("nearlog", near, transform="log"),
            plain("small", [1e-15, 2e-15, 3e-15, 4e-15]),
        )
    )
    assert list(space.points.columns) == ["a", "small"]
    assert "constant or nearly so: 7 ms" in space.dropped["same"]
    assert {"near", "nearlog"} < set(space.dropped)


@pytest.mark.parametrize(
    ("nulls", "features", "workloads"),
    [("drop-feature", ["a"], 5), ("drop-workload", ["a", "b"], 4)],
)
def test_policies_for_nulls(nulls: str, features: list[str], workloads: int) -> None:
    columns = [plain("a", [1, 2, 4, 8, 3]), plain("b", [1, np.nan, 4, 2, 5]), plain("none", [np.nan] * 5)]
    space = to_space(table(*columns, reasons={("w01", "b"): "no counters on a CPU"}), nulls=nulls)
    assert list(space.points.columns) == features
    assert len(space.names) == workloads
    assert "no workload has a value" in space.dropped["none"]
    gone = "b" if nulls == "drop-feature" else "w01"
    assert "no counters on a CPU" in space.dropped[gone]


def test_a_workload_without_any_value_takes_no_feature_along() -> None:
    space = to_space(table(plain("a", [1, 2, 4, np.nan]), plain("b", [3, 1, 2, np.nan])))
    assert list(space.points.columns) == ["a", "b"]
    assert "none of its 2 features" in space.dropped["w03"]


@pytest.mark.parametrize("value", [np.inf, -np.inf, -3, 0])
def test_inf_and_values_without_a_logarithm_are_nulls_with_that_reason(value: float) -> None:
    space = to_space(table(plain("a", [1, 2, 4]), plain("b", [1, value, 4], transform="log")))
    assert list(space.points.columns) == ["a"]
    assert f"w01: {value:g} " in space.dropped["b"]


def test_a_percentage_is_no_fraction() -> None:
    space = to_space(table(plain("a", [1, 2, 4]), plain("b", [20, 30, 90], transform="logit", floor=1e-3)))
    assert "30 is no fraction of 1" in space.dropped["b"]


def test_parts_of_compositions_that_cannot_be_taken() -> None:
    shares = [[0.5, 0.3, 0.2, 0], [0.2, 0.2, 0.6, 0], [0.3, 0.7, 0, 0], [0.1, 0.4, 0.5, 0]]
    space = to_space(table(*parts(shares)))
    assert list(space.points.columns) == ["mix[a]", "mix[b]"]
    assert "0 (or below its floor) in every workload" in space.dropped["mix[d]"]
    assert "declares no floor" in space.dropped["mix[c]"]
    floored = to_space(table(*parts(shares, 1e-3)))
    assert list(floored.points.columns) == ["mix[a]", "mix[b]", "mix[c]"]
    assert any("mix[c]: 1 of 4 values replaced" in note for note in floored.recipe.notes)


def test_an_empty_composition_is_a_null() -> None:
    columns = [*parts([[0.5, 0.5], [0.2, 0.8], [0, 0], [0.3, 0.7]], 1e-3), plain("a", [1, 2, 4, 8])]
    space = to_space(table(*columns), nulls="drop-workload")
    assert "nothing in the composition 'mix' is above its floor" in space.dropped["w02"]
    assert space.names == ["w00", "w01", "w03"]


def test_a_composition_equal_everywhere_or_of_one_part_is_dropped() -> None:
    columns = [*parts([[0.5, 0.5]] * 3), *parts([[1], [2], [3]], block="one"), plain("a", [1, 2, 4])]
    space = to_space(table(*columns))
    assert list(space.points.columns) == ["a"]
    assert "the same in every workload" in space.dropped["mix[a]"]
    assert "only part left" in space.dropped["one[a]"]


def test_sums_that_were_closed_are_told() -> None:
    space = to_space(table(*parts([[50, 50], [20, 80], [30, 69]])))
    assert "sums from 99 to 100 were closed to 1" in space.recipe.notes[0]


def test_blocks_left_out() -> None:
    space = to_space(mixed(), drop_blocks=("mix",))
    assert set(space.blocks) == {"work", "shape"}
    assert space.dropped["mix[a]"] == "block 'mix' is left out"
    with pytest.raises(UnknownNameError, match="mixx"):
        to_space(mixed(), drop_blocks=("mixx",))


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_workloads_are_refused(n: int) -> None:
    with pytest.raises(UsageError, match=f"{n} workloads and .* remain"):
        to_space(table(plain("a", [1.0, 2.0][:n])))


def test_nothing_left_names_what_went() -> None:
    with pytest.raises(UsageError, match=r"a: 1 of 4 workloads have no value \(w01: not measured\)"):
        to_space(table(plain("a", [1, np.nan, 3, 4]), plain("b", [np.nan, 2, 3, 5])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": "range"}, "Unknown scale"),
        ({"nulls": "impute"}, "Unknown policy for nulls"),
        ({"delta": 0}, "cannot be replaced"),
    ],
)
def test_options_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        to_space(mixed(), **change)


def test_tables_are_checked() -> None:
    good = table(plain("a", [1, 2, 4]))
    with pytest.raises(UsageError, match="more than one row for w00"):
        to_space(replace(good, values=good.values.rename(index={"w01": "w00"})))
    with pytest.raises(UsageError, match="not its features"):
        to_space(replace(good, features=()))
    with pytest.raises(UsageError, match="Unknown transform 'ln'"):
        to_space(table(plain("a", [1, 2, 4], transform="ln")))
    with pytest.raises(UsageError, match="no detection limit"):
        to_space(table(plain("a", [0.1, 0.2, 0.4], transform="logit", floor=0.5)))


# ---- frozen recipes


@pytest.fixture(scope="module")
def space() -> Placed:
    return to_space(mixed())


def test_a_recipe_survives_json_to_the_last_digit(space: Placed) -> None:
    back = Recipe.from_dict(json.loads(json.dumps(space.recipe.to_dict())))
    assert back == space.recipe
    assert back.fingerprint == space.recipe.fingerprint
    pd.testing.assert_frame_equal(apply(back, mixed()).points, space.points, check_exact=True)


def test_further_workloads_do_not_move_the_space(space: Placed) -> None:
    more = mixed(n=30, seed=5)
    alone = apply(space.recipe, rows(more, ["w07"]))
    assert_allclose(alone.points, apply(space.recipe, more).points.loc[["w07"]], atol=0)
    raw = more.values.loc["w07"]
    expected = (np.log10(raw["flops"]) - space.centres[0]) / space.scales[0]
    assert alone.points.loc["w07", "flops"] == pytest.approx(expected, abs=1e-12)


def test_placing_tells_what_it_cannot_place(space: Placed) -> None:
    given_ = mixed()
    values = given_.values.copy()
    values.loc["w02", "depth"] = np.nan
    values["mix[e]"] = 0.0
    values.loc["w03", "mix[e]"] = 0.31
    extra = replace(given_, values=values, features=(*given_.features, Feature("mix[e]", "", "clr", "mix", 1e-4)))
    placed = apply(space.recipe, extra)
    assert placed.dropped["w02"] == "no value for depth (not measured)"
    assert "0.31 in w03" in placed.dropped["mix[e]"]
    assert "w02" not in placed.names


def test_placing_refuses_other_features(space: Placed) -> None:
    given_ = mixed()
    with pytest.raises(UsageError, match="lacks 1 of the 8 features of this space: depth"):
        apply(
            space.recipe,
            replace(
                given_,
                values=given_.values.drop(columns="depth"),
                features=tuple(f for f in given_.features if f.name != "depth"),
            ),
        )
    with pytest.raises(UsageError, match="'flops' is in 'GFLOP'"):
        apply(space.recipe, replace(given_, features=(replace(given_.features[0], unit="GFLOP"), *given_.features[1:])))
    with pytest.raises(UsageError, match="No workload of the table can be placed"):
        apply(space.recipe, replace(given_, values=given_.values * np.nan))


def test_damaged_and_foreign_recipes_are_refused(space: Placed) -> None:
    data = space.recipe.to_dict()
    with pytest.raises(UsageError, match="version 99"):
        Recipe.from_dict({**data, "version": 99})
    with pytest.raises(UsageError, match="damaged"):
        Recipe.from_dict({k: v for k, v in data.items() if k != "coordinates"})


def test_refit_is_a_fit_to_the_draw_with_the_same_options() -> None:
    given_ = mixed()
    draw = ["w09", "w01", "w05", "w03", "w11"]
    again = refit(to_space(given_, scale="mad", drop_blocks=("shape",)), given_, draw)
    direct = to_space(replace(given_, values=given_.values.loc[draw]), scale="mad", drop_blocks=("shape",))
    pd.testing.assert_frame_equal(again.points, direct.points, check_exact=True)
    with pytest.raises(UnknownNameError, match="w99"):
        refit(to_space(given_), given_, ["w99"])


def test_sensitivity_to_delta() -> None:
    """One zero in 12 workloads: at the space's own delta nothing changes."""
    given_ = mixed()
    found = delta_sensitivity(to_space(given_), given_).to_frame().set_index("delta")
    own = found.loc[0.65]
    assert own["spearman"] == pytest.approx(1, abs=1e-12)
    assert own["largest_change"] == 0
    assert own["neighbours_changed"] == 0
    assert found.loc[0.065, "largest_change"] > found.loc[0.325, "largest_change"] > 0
    assert (
        found["replaced"] == (given_.values[["mix[a]", "mix[b]", "mix[c]", "mix[d]"]] < 1e-4).to_numpy().sum()
    ).all()
    none = delta_sensitivity(to_space(given_, drop_blocks=("mix",)), given_)
    assert "no composition" in repr(none)


def test_results_are_short_in_words_and_turn_into_frames(space: Placed) -> None:
    assert repr(space).startswith("Space (12 workloads, 8 coordinates in 3 blocks")
    assert space.recipe.fingerprint in repr(space.recipe)
    assert list(space.recipe.to_frame()["name"]) == list(space.points.columns)
    pd.testing.assert_frame_equal(space.to_frame(), space.points)


cells = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64), st.sampled_from([0.0, 1.0, 0.5, 1e-12]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(cells, min_size=5, max_size=5), min_size=0, max_size=7),
    st.sampled_from(["drop-feature", "drop-workload"]),
    st.sampled_from(["sd", "mad"]),
)
def test_any_table_gives_a_space_of_finite_points_or_a_refusal(
    rows_: list[list[float]], nulls: str, scale: str
) -> None:
    kinds = ["log", "logit", "clr", "clr", "none"]
    columns = [
        plain(f"f{j}", [row[j] for row in rows_], "mix" if kind == "clr" else "", kind, floor=None if j == 4 else 1e-3)
        for j, kind in enumerate(kinds)
    ]
    with np.errstate(all="ignore"):
        try:
            found = to_space(table(*columns), nulls=nulls, scale=scale)
        except UsageError:
            return
    assert np.isfinite(found.points.to_numpy()).all()
