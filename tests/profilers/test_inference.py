"""`--mode inference`: the forward pass alone, in evaluation mode, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from wcbench.errors import TaskError, UnknownNameError
from wcbench.profilers.capture import Captured, Request, capture
from wcbench.tasks.base import Built, Config, Task

TaskOf = Callable[..., Task]


def task(seen: list[Any], task_of: TaskOf) -> Task:
    def build(config: Config) -> Built:
        model = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            raise AssertionError("no training step in inference")

        def infer(x: Tensor) -> Tensor:
            seen.append((model.training, torch.is_grad_enabled(), tuple(x.shape)))
            y: Tensor = model(x)
            return y

        kind = lambda index: "first" if index % 3 == 0 else "second"  # noqa: E731
        batch = lambda index: torch.ones(4, 16) if index % 3 == 0 else torch.ones(9, 16)  # noqa: E731
        shares = {"first": 0.5, "second": 0.5}
        return Built(step, batch, {"model": model}, 4, {"sgd": optimizer}, kind, shares, infer)

    return task_of(build)


def inference(task: Task, *passes: str) -> Captured:
    return capture(task, Request(passes=passes, preset="tiny", mode="inference", steps=5))


def test_only_the_forward_pass_runs(task_of: TaskOf) -> None:
    seen: list[Any] = []
    captured = inference(task(seen, task_of), "timing", "operators")
    assert set(seen) == {(False, False, (4, 16))}
    operators = captured.tables["operators"].to_pandas()
    assert set(operators["phase"].astype(str)) == {"forward"}
    assert set(operators["kind"].astype(str)) == {"inference"}
    assert operators.query("step == 1")["flops_matrix"].sum() == 2 * 4 * 16 * 8
    assert captured.tables["steps"].to_pandas()["loss"].isna().all()
    assert captured.passes["timing"].mode == "inference"
    assert captured.passes["timing"].step_kinds == {"inference": 1.0}
    assert captured.notes == []


def test_a_task_without_inference_is_told_what_it_lacks(mlp: Task) -> None:
    with pytest.raises(TaskError, match="offers no inference") as caught:
        inference(mlp, "timing")
    assert "infer" in (caught.value.hint or "")


def test_an_unknown_mode_is_refused(mlp: Task) -> None:
    with pytest.raises(UnknownNameError, match="Unknown mode 'dream'"):
        capture(mlp, Request(passes=["timing"], preset="tiny", mode="dream"))


@pytest.mark.parametrize("wrong", ["weights", "gradients"])
def test_an_inference_that_trains_is_refused(task_of: TaskOf, wrong: str) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(16, 8)

        def infer(x: Tensor) -> Tensor:
            with torch.enable_grad():
                y: Tensor = model(x).sum()
                if wrong == "gradients":
                    y.backward()
            if wrong == "weights":
                model.weight.mul_(2)
            return y

        step = lambda x: model(x).sum().detach()  # noqa: E731
        return Built(step, lambda index: torch.ones(4, 16), {"model": model}, 4, infer=infer)

    with pytest.raises(TaskError, match=r"Built\.infer changes weights or makes gradients"):
        inference(task_of(build), "timing")


def test_samples_are_those_of_the_first_kind(task_of: TaskOf) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(16, 8)
        step = lambda x: model(x).sum().detach()  # noqa: E731
        kind = lambda index: "ab"[index % 2]  # noqa: E731
        return Built(
            step,
            lambda index: torch.ones(40, 16),
            {"model": model},
            4,
            kind=kind,
            step_kinds={"a": 0.5, "b": 0.5},
            infer=model,
            kind_samples={"a": 40},
        )

    info = inference(task_of(build), "operators").passes["operators"]
    assert (info.samples, info.kind_samples) == (40, {})
