"""What a feature is, and the table of some records with its refusals."""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from wcbench.analysis import features
from wcbench.analysis.definitions.base import Found, NotMeasuredError, feature, once, weighted_median
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import to_space
from wcbench.errors import UsageError, WcbenchError
from wcbench.record import Profile


def test_a_feature_has_pinned_names_and_declares_its_conditions(hand: Profile) -> None:
    @feature("split", unit="B", needs="operators", transform="clr", block="split", parts=("a", "b"))
    def split(profile: Profile) -> Found:
        """Two
        parts."""
        return Found({"b": 2.0, "a": 1.0}, remark="odd")

    found = split.evaluate(hand)
    assert found.values.to_dict() == {"split[a]": 1.0, "split[b]": 2.0}
    assert (found.origin, found.preset, found.device, found.precision) == ("exact", "paper", "cpu", "fp32")
    assert (found.remark, split.meaning) == ("odd", "Two parts.")

    @feature("gone", unit="", needs="operators", transform="log", block="gone")
    def gone(profile: Profile) -> float:
        raise NotMeasuredError("so it is")

    assert gone.evaluate(hand).reason == "so it is"
    assert math.isnan(gone(hand).item())
    with pytest.raises(WcbenchError, match="unknown need"):
        feature("odd", unit="", needs="magic", transform="log", block="odd")(lambda profile: 0.0)


def test_shared_results_are_made_once_and_go_with_the_record(hand: Profile) -> None:
    made: list[int] = []
    profile = Profile(hand.manifest, {name: hand.arrow(name) for name in hand.tables})
    for _ in range(2):
        assert once(profile, "x", lambda: made.append(1) or 7) == 7  # type: ignore[func-returns-value]
    assert made == [1]
    gone = weakref.ref(profile)
    features.evaluate(profile, "operators")
    del profile
    assert gone() is None


def test_weighted_median() -> None:
    assert weighted_median([3, 1, 2], [1, 1, 1]) == 2
    assert weighted_median([3, 1, 2], [5, 1, 1]) == 3
    assert weighted_median([1, 2], [1, 1]) == 1  # half of the weight is reached
    with pytest.raises(NotMeasuredError):
        weighted_median([1], [0])


# --- the table ------------------------------------------------------------------------------------------------------


def test_table(named: Callable[..., Profile]) -> None:
    names = ["mlperf-gnmt", "mlperf-bert", "mine:Mlp"]
    table = features.build_table((named(name) for name in names), "wss_50,ops_per_step,epochs_to_quality")
    assert isinstance(table, FeatureTable)
    assert list(table.values.index) == sorted(names)
    assert list(table.values.columns) == ["ops_per_step", "wss_50", "epochs_to_quality"]
    assert [f.name for f in table.features] == list(table.values.columns)
    assert table.values.loc["mine:Mlp", "wss_50"] == 128
    assert table.origins == {"ops_per_step": "exact", "wss_50": "modelled", "epochs_to_quality": "published"}
    assert set(table.reasons) == {("mlperf-bert", "epochs_to_quality"), ("mine:Mlp", "epochs_to_quality")}
    assert set(table.families) == {"mlperf-gnmt", "mlperf-bert"}
    assert table.costs == dict.fromkeys(sorted(names), 576.0)
    assert (table.cost_unit, table.cost_of) == ("FLOP", "FLOPs of a step, counted")


def test_order_of_records_changes_nothing(named: Callable[..., Profile], stream: Callable[..., Profile]) -> None:
    profiles = {"b": named("b"), "a": stream(kinds=["train"]), "c": named("c")}
    one = features.build_table(profiles)
    other = features.build_table(dict(reversed(profiles.items())))
    assert one.values.equals(other.values)
    assert one.reasons == other.reasons


def test_table_makes_a_space(named: Callable[..., Profile], stream: Callable[..., Profile]) -> None:
    def wider(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["flops_all"] *= 3
            row["bytes_read"] *= 2

    profiles = {"a": named("a"), "b": stream(kinds=["train"]), "c": stream(edit=wider)}
    space = to_space(features.build_table(profiles))
    assert len(space.points) == 3


def test_two_records_of_one_workload_are_refused(hand: Profile) -> None:
    with pytest.raises(UsageError, match="Two records are of the workload 'hand-made'"):
        features.build_table([hand, hand])
    with pytest.raises(UsageError, match="needs records"):
        features.build_table([])
    found = features.build_table({"one": hand, "two": hand}, "wss_50")
    assert found.values["wss_50"].tolist() == [128, 128]


def test_mixed_presets_are_refused_with_their_rows(
    named: Callable[..., Profile], stream: Callable[..., Profile]
) -> None:
    small = stream(preset="small")
    with pytest.raises(UsageError, match=r"mixes presets: paper \(a, b\); small \(c\)") as caught:
        features.build_table({"a": named("a"), "b": named("b"), "c": small})
    assert "--mix" in str(caught.value)
    mixed = features.build_table({"a": named("a"), "c": small}, "wss_50", mix=True)
    assert mixed.origins["wss_50"] == "modelled, toy"
    assert features.build_table({"c": small}, "wss_50").origins["wss_50"] == "toy"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"precision": "bf16"}, r"The table mixes precisions: bf16 \(b\); fp32 \(a\)"),
        ({"device": "cuda"}, r"Feature flops_per_sample mixes devices: cpu \(a\); cuda \(b\)"),
        ({"preset": None}, r"The table mixes presets: not told \(b\); paper \(a\)"),
    ],
)
def test_other_mixtures_are_refused(stream: Callable[..., Profile], change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        features.build_table({"a": stream(), "b": stream(**change)})


def test_a_feature_of_two_origins_is_refused(named: Callable[..., Profile], made: Any) -> None:
    run = {"run": 0, "file": "a.txt", "status": "success", "epochs": 4.0}
    own = made.foreign({"convergence": made.foreign_info()}, {"trainings": {"convergence": [run]}})
    with pytest.raises(UsageError, match=r"epochs_to_quality mixes origins: measured \(b\); published \(a\)"):
        features.build_table({"a": named("mlperf-gnmt"), "b": own}, "training")


def test_devices_of_what_was_measured_do_not_mix(made: Any, full: Profile) -> None:
    other = dataclasses.replace(full.manifest, machine={"cpu": {"name": "slide rule"}, "gpus": []})
    second = Profile(other, {name: full.arrow(name) for name in full.tables})
    with pytest.raises(UsageError, match=r"What was measured mixes devices: abacus \(a\); slide rule \(b\)"):
        features.build_table({"a": full, "b": second}, "kernel_class_time_share")
