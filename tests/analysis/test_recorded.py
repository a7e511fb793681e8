"""Kinds of steps: the last recorded one of each, weighed by its share of a training."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import nn

from wcbench import record
from wcbench.analysis.recorded import main_step, recorded_steps
from wcbench.errors import TaskError, UnknownNameError
from wcbench.profilers.capture import Request, capture
from wcbench.record import Note, Profile
from wcbench.tasks.base import Built, Config, Settings, Task

SHARES = {"small": 0.75, "large": 0.25}
WORK = {"small": 2 * 4 * 16 * 8, "large": 2 * 40 * 16 * 8}  # one product a step


NOTES: list[Note] = []  # of the last capture


class TwoKinds(Task):
    """Three small steps, then a large one; in a whole training as many as ``shares`` says."""

    presets = {"paper": Settings(4), "small": Settings(4), "tiny": Settings(4)}  # noqa: RUF012
    shares: Mapping[str, float] = SHARES

    def build(self, config: Config) -> Built:
        model = nn.Linear(16, 8)
        rows = lambda index: 40 if index % 4 == 3 else 4  # noqa: E731
        return Built(
            step=lambda x: model(x).sum().detach(),
            batch=lambda index: torch.ones(rows(index), 16),
            modules={"model": model},
            samples=4,
            kind=lambda index: "large" if index % 4 == 3 else "small",
            step_kinds=self.shares,
        )


def recorded(shares: Mapping[str, float] = SHARES) -> Profile:
    task = TwoKinds()
    task.shares = shares
    captured = capture(task, Request(passes=["operators"], preset="tiny"))
    NOTES[:] = captured.notes
    return record.new_profile(
        task="two",
        variant=None,
        suites=(),
        machine={},
        command=(),
        passes=captured.passes,
        tables=captured.tables,
        notes=(),
    )


def test_two_steps_of_each_kind_are_recorded_and_the_last_counts() -> None:
    profile = recorded()
    kinds = profile.table("operators").groupby("step")["kind"].first().astype(str).to_dict()
    assert kinds == {0: "small", 1: "small", 2: "large", 3: "large"}
    assert [(step.kind, step.step, step.share) for step in recorded_steps(profile)] == [
        ("small", 1, 0.75),
        ("large", 3, 0.25),
    ]


def test_sums_are_of_an_average_step() -> None:
    found = recorded().view("complexity")
    average = 0.75 * WORK["small"] + 0.25 * WORK["large"]
    assert found.flops_matrix_step == found.flops_matrix_forward == average
    kinds = found.kinds.set_index("kind")
    assert kinds["flops_matrix"].to_dict() == WORK
    assert kinds["share"].to_dict() == SHARES
    product = found.operators.set_index("name").loc["aten::addmm"]
    assert (product["calls"], product["flops_matrix"]) == (1.0, average)
    modules = recorded().view("modules").rows.set_index("module")
    assert modules.loc["model", "flops_matrix"] == average


def test_other_shares_are_another_average() -> None:
    found = recorded({"small": 0.5, "large": 0.5}).view("complexity")
    assert found.flops_matrix_step == (WORK["small"] + WORK["large"]) / 2


def test_memory_is_of_the_kind_that_moves_most() -> None:
    profile = recorded()
    step = main_step(profile)
    assert step is not None
    assert step.kind == profile.view("memory").kind == "large"
    small, large = (profile.view("memory", kind=kind).logical.operator_bytes for kind in ("small", "large"))
    # the result (8 columns) is written and read; of the rest only the 16 columns of the batch depend on its rows
    assert large - small == 4 * (40 - 4) * (16 + 8 + 8)
    with pytest.raises(UnknownNameError, match="Unknown kind of step 'other'"):
        profile.view("memory", kind="other")


@pytest.mark.parametrize("shares", [{"small": 1.0}, {"small": 0.7, "large": 0.7}, {"small": 1.0, "large": 0.0}])
def test_shares_that_do_not_fit_are_refused(shares: Mapping[str, float]) -> None:
    with pytest.raises(TaskError, match=r"Built\.step_kinds"):
        recorded(shares)


def test_several_kinds_without_shares_have_those_of_their_cycle() -> None:
    found = recorded({"train": 1.0}).manifest.passes["operators"].step_kinds
    assert found == {"small": 0.75, "large": 0.25}


def test_samples_of_an_average_step_are_those_of_the_kinds_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    plain = TwoKinds.build

    def build(self: TwoKinds, config: Config) -> Built:
        shares = {"small": 0.5, "large": 0.25, "never": 0.25}
        return dataclasses.replace(plain(self, config), step_kinds=shares, kind_samples={"large": 40, "never": 9_000})

    monkeypatch.setattr(TwoKinds, "build", build)
    profile = recorded()
    assert profile.view("complexity").samples == pytest.approx((2 * 4 + 40) / 3)
    assert any("No step of the kind never was met" in note.text for note in NOTES)


def test_records_of_version_2_count_their_last_step() -> None:
    import dataclasses

    profile = recorded()
    info = dataclasses.replace(profile.manifest.passes["operators"], step_kinds={})
    manifest = dataclasses.replace(profile.manifest, passes={"operators": info})
    old = Profile(manifest, {name: profile.arrow(name) for name in profile.tables})
    assert [(step.kind, step.share) for step in recorded_steps(old)] == [("large", 1.0)]


def test_overhead_compares_steps_of_one_kind() -> None:
    import pandas as pd

    from wcbench.analysis.steps import _overhead

    columns = ("role", "kind", "duration_ns")
    steps = [("bare", "a", 10), ("bare", "a", 10), ("bare", "b", 900), ("measured", "a", 12), ("measured", "b", 990)]
    rows = pd.DataFrame(steps, columns=list(columns))
    assert _overhead(rows, rows[rows["role"] == "measured"]) == 1.2
    none = pd.DataFrame([("bare", "c", 10), ("measured", "a", 12)], columns=list(columns))
    assert _overhead(none, none[none["role"] == "measured"]) is None
