"""The list of features and its sets; and a real profile from end to end. Values by hand: tests in definitions/."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from wcbench.analysis import features
from wcbench.errors import UnknownNameError, UsageError, WcbenchError
from wcbench.record import Profile
from wcbench.registry import Registry, Row


def catalogue(shared: Path) -> list[dict[str, str]]:
    with (shared / "features.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def listed(name: str) -> list[str]:
    """Names of a row of the catalogue: `a / b` is two, `wss_50 / wss_90` too, and `kernel_dur_median / p90`."""
    first, *others = [part.strip() for part in name.partition("[")[0].split("/")]
    found = [first]
    for other in others:
        found.append(f"{first.rpartition('_')[0]}_{other}" if other == "p90" else other)
    return found


def test_core_features_are_those_of_the_catalogue(shared: Path) -> None:
    core = [name for row in catalogue(shared) if row["tier"] == "core" for name in listed(row["name"])]
    assert sorted(d.name for d in features.definitions() if d.tier == "core") == sorted(core)


def test_transforms_and_tiers_are_those_of_the_catalogue(shared: Path) -> None:
    """What is listed there has its transform; named exceptions have none of ours there."""
    ours = {d.name: d for d in features.definitions()}
    rows = {name: row for row in catalogue(shared) for name in listed(row["name"])}
    words = {"log(x+0.01) or sqrt": "sqrt", "logit (clip 1e-3..1-1e-3; may exceed 1: use log)": "log"}
    words |= {"log10(1+x)": "log1p", "logit / log": ""}
    for name in ours.keys() & rows.keys():
        row, d = rows[name], ours[name]
        given = words.get(row["transform_before_PCA"], row["transform_before_PCA"]).lower()
        assert d.tier == row["tier"], name
        if name in ("mrc_miss_ratio", "optimizer_byte_share"):  # several points, or one share of a composition
            assert d.transform == "logit"
        elif given:
            assert given.partition("(")[0].partition(" ")[0] == d.transform, name
    added = {"flops_fixed", "bytes_op_level_fixed", "footprint_fixed", "footprint_per_sample", "ai_spread_bytes"}
    added |= {"line_utilisation_128B", "kernel_class_time_modelled"}
    assert ours.keys() - rows.keys() == added


def test_sets() -> None:
    found = features.sets()
    assert len(found["operators"]) == 24
    assert set(found["core"]) == {*found["operators"], *found["gpu"], *found["training"]}
    assert found["training"] == ("epochs_to_quality", "samples_to_quality", "seed_cv_epochs")
    assert set(found["aibench5"]) <= set(found["gpu"])
    assert "samples_per_step" not in found["all"]
    names = [d.name for d in features.chosen("aibench5, wss_50,ai_at_capacity[4MiB]")]
    assert names == ["ai_at_capacity", "wss_50", *(n for n in features.FEATURES.names() if n in features.AIBENCH5)]


def test_facets_name_features() -> None:
    assert len(features.FACETS) == 6
    for names in features.FACETS.values():
        assert set(names) <= set(features.FEATURES.names())


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'flops_per_sample'"):
        features.chosen("flop_per_sample")
    with pytest.raises(UnknownNameError, match="Did you mean 'operators'"):
        features.chosen("operator")
    with pytest.raises(UsageError, match="No feature is named"):
        features.chosen(" , ")


def test_the_list_is_explicit() -> None:
    with pytest.raises(WcbenchError, match="Two features are named 'a'"):
        Registry("feature", [Row("a", "x:a"), Row("a", "y:a")])
    names = [f.name for f in features.all_features()]
    assert len(names) == len(set(names))


def test_compositions_are_blocks_of_their_own() -> None:
    """All columns of a block with clr are the parts of one composition, and nothing else is in it."""
    for block, members in itertools.groupby(sorted(features.all_features(), key=lambda f: f.block), lambda f: f.block):
        rows = list(members)
        if any(row.transform == "clr" for row in rows):
            assert {row.name.partition("[")[0] for row in rows} == {block}
            assert {row.floor for row in rows} == {1e-3}
    one = {d.block for d in features.chosen("wss_50,wss_90,wss_99,reuse_dist_median")}
    assert one == {"working sets"}


def test_every_transform_that_needs_a_floor_has_one() -> None:
    for row in features.all_features():
        if row.transform == "logit" and row.name != "write_share":  # every step writes and reads
            assert row.floor is not None, row.name


def test_the_page_names_every_feature() -> None:
    text = features.features_page()
    assert all(f"`{d.name}`" in text and d.meaning and d.block for d in features.definitions())


# --- end to end -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Profile:
    import wcbench

    return wcbench.profile(
        "spatial-transformer", device="cpu", preset="tiny", passes=["operators", "timing"], save=False
    )


def test_a_real_profile(tiny: Profile) -> None:
    table = features.build_table([tiny])
    assert not table.reasons
    assert np.isfinite(table.values.to_numpy()).all()
    assert set(table.origins.values()) == {"toy"}
    row = table.values.iloc[0]
    for name in ("op_class_flop_share", "op_class_byte_share", "footprint_class_share", "reuse_class_share"):
        assert row.filter(like=f"{name}[").sum() == pytest.approx(1.0)
    assert row["params_trainable"] == tiny.view("complexity").params_trainable
    assert row["wss_50"] <= row["wss_90"] <= row["wss_99"] <= row["unique_bytes_per_step"]
    assert row["bytes_compulsory"] < row["bytes_op_level"]
    found = tiny.view("memory")
    assert row["footprint_peak"] == found.live.peak_bytes
    assert row["wss_90"] == found.logical.wss_90
    work = tiny.view("complexity")
    assert row["ai_at_capacity[4MiB]"] == found.logical.intensity(work.flops_all_step, [2**22])[0]
    assert row["flops_per_sample"] == pytest.approx(work.flops_all_step / work.samples, rel=0.05)
    assert table.cost_of.startswith("seconds of a step, measured on")


def test_all_features_of_a_real_profile_have_a_value_or_a_reason(tiny: Profile) -> None:
    rows = features.evaluate(tiny, "all")
    assert ((rows["reason"] != "") == rows["value"].isna()).all()
    assert not rows.loc[rows["needs"] == "operators", "value"].isna().any() or set(
        rows.loc[(rows["needs"] == "operators") & rows["value"].isna(), "feature"]
    ) == {"shape_change_rate"}
