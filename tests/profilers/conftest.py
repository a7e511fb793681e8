"""Tiny tasks of the tests' own: a class made from a build function, an MLP and a convolution net."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.profilers.capture import Captured, capture
from wcbench.profilers.request import Request
from wcbench.tasks.base import PRESETS, Built, Config, Settings, Task

Build = Callable[[Config], Any]


class FunctionTask(Task):
    """A task that is nothing but its build function; batch size 4 at every preset."""

    presets = dict.fromkeys(PRESETS, Settings(4))

    def __init__(self, function: Build) -> None:
        self.function = function

    def build(self, config: Config) -> Built:
        built: Built = self.function(config)
        return built


def noise(config: Config, index: int, *shape: int) -> Tensor:
    """Normal numbers that depend on seed and index alone."""
    generator = torch.Generator().manual_seed(config.seed * 1_000_003 + index)
    return torch.randn(*shape, generator=generator)


def build_mlp(config: Config) -> Built:
    """16-32-8 with ReLU between, mean squared output as loss, SGD."""
    torch.manual_seed(config.seed)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    size = config.settings.batch_size
    return Built(step, lambda i: noise(config, i, size, 16), {"model": model}, size, {"sgd": optimizer})


def build_conv(config: Config) -> Built:
    """A 3x3 convolution of 3 to 8 channels on 10x10, padded, with SGD; the input asks for a gradient too."""
    torch.manual_seed(config.seed)
    model = nn.Conv2d(3, 8, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.relu(model(batch)).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    size = config.settings.batch_size
    return Built(
        step, lambda i: noise(config, i, size, 3, 10, 10).requires_grad_(), {"model": model}, size, {"sgd": optimizer}
    )


@pytest.fixture
def task_of() -> type[FunctionTask]:
    """The task of a build function: ``task_of(build)``."""
    return FunctionTask


@pytest.fixture
def mlp() -> Task:
    return FunctionTask(build_mlp)


@pytest.fixture
def conv() -> Task:
    return FunctionTask(build_conv)


@pytest.fixture
def run() -> Callable[..., Captured]:
    """Capture at preset tiny: ``run(task, "timing", steps=2)``."""

    def run(task: Task, *passes: str, **options: Any) -> Captured:
        return capture(task, Request(passes=passes, preset="tiny", **options))

    return run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The cores are shared; results must not depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
