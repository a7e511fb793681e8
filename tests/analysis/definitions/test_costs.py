"""Costs of workloads: which they are, and one kind for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wcbench.analysis import costs
from wcbench.errors import UnknownNameError
from wcbench.record import Profile


def test_costs_say_which_they_are(named: Callable[..., Profile]) -> None:
    found = costs.workload_costs(named("mlperf-gnmt"), on="a100-sxm-80gb")
    assert [(c.unit, c.value is None) for c in found] == [("s", True), ("s", False), ("FLOP", False)]
    assert "timed steps" in found[0].reason
    # every operator is bound by bandwidth: 2,039 GB/s
    assert found[1].source.startswith("modelled by the roofline of")
    assert found[1].value == pytest.approx(1636 / 2039e9, rel=1e-3)
    assert found[2] == costs.Cost(576.0, "FLOP", "step", "counted")


def test_cost_of_a_training(named: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch) -> None:
    found = {c.source: c for c in costs.workload_costs(named("mlperf-resnet"), "training")}
    assert found["published"].value == pytest.approx(39.849 * 60)
    assert found["counted"].value is None
    assert "from memory" in found["counted"].reason
    one = costs.workload_costs(named("mlperf-retinanet"), "epoch")
    assert one[-1].value == pytest.approx(576 * 1_170_301 / 4)  # images over the samples of a step
    with pytest.raises(UnknownNameError):
        costs.workload_costs(named("mlperf-resnet"), "epochs")


def test_measured_steps_come_first_if_they_are_of_the_same_preset(full: Profile, made: Any) -> None:
    first = costs.workload_costs(full)[0]
    assert first.value is None
    assert "timed at preset small" in first.reason
    timed = made.record({"timing": made.info(preset="paper")}, {"steps": {"timing": made.step_rows([3_000_000] * 3)}})
    first = costs.workload_costs(timed)[0]
    assert (first.value, first.source) == (0.003, "measured on abacus")


def test_one_kind_of_cost_is_chosen_for_all() -> None:
    measured = costs.Cost(2.0, "s", "step", "measured on x")
    counted = [costs.Cost(value, "FLOP", "step", "counted") for value in (5.0, 7.0)]
    unknown = costs.Cost(None, "s", "step", "measured", "not timed")
    both = costs.one_kind({"a": [measured, counted[0]], "b": [unknown, counted[1]]})
    assert (dict(both.values), both.of) == ({"a": 5.0, "b": 7.0}, "FLOPs of a step, counted")
    alike = costs.one_kind({"a": [measured, counted[0]], "b": [measured, counted[1]]})
    assert alike.of == "seconds of a step, measured on x"
    none = costs.one_kind({"a": [measured], "b": [unknown]})
    assert not none.values
    assert none.reasons == {"a": "measured on x: known", "b": "measured: not timed"}
    assert "none known of all" in repr(none)
    assert none.to_frame()["workload"].tolist() == ["a", "b"]
    assert costs.one_kind({}).values == {}
