"""MLPerf's ResNet-50: AIBench's network, trained at a rate by the batch, decay for weights alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from wcbench.tasks.mlperf.resnet import MlperfImageSettings, MlperfResnet
from wcbench.tasks.vision.image_classification import ImageClassification

TASK = MlperfResnet()


def test_it_is_the_network_of_aibench() -> None:
    def shapes(task: Any) -> list[tuple[str, tuple[int, ...]]]:
        with torch.device("meta"):
            built = task.build(task.configure("paper", batch_size=2))
        return [(name, tuple(p.shape)) for name, p in built.modules["model"].named_parameters()]

    assert shapes(TASK) == shapes(ImageClassification())


def test_parameters_by_hand() -> None:
    """Convolutions without bias, normalizations of two numbers a channel, 1000 classes."""
    total = 3 * 64 * 49 + 2 * 64
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            total += inputs * width + 9 * width**2 + 4 * width**2 + 2 * (width + width + 4 * width)
            if block == 0:
                total += inputs * 4 * width + 2 * 4 * width
            inputs = 4 * width
    assert total + 2048 * 1000 + 1000 == 25_557_032
    with torch.device("meta"):
        built = TASK.build(TASK.configure("paper", batch_size=2))
    assert sum(p.numel() for p in built.modules["model"].parameters()) == 25_557_032


@pytest.mark.parametrize(("batch_size", "rate"), [(256, 0.128), (1024, 0.512), (2, 0.001)])
def test_the_rate_goes_with_the_batch(batch_size: int, rate: float) -> None:
    optimizer: Any = TASK.optimizer(torch.nn.Linear(2, 2), MlperfImageSettings(batch_size=batch_size))
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([rate, rate])
    assert all(group["momentum"] == 0.9 and group["foreach"] for group in optimizer.param_groups)


def test_only_weights_decay() -> None:
    """ResNet-50 has 53 convolutions and one linear layer; 53 normalizations and one bias have one dimension."""
    with torch.device("meta"):
        built = TASK.build(TASK.configure("paper", batch_size=2))
    weights, others = built.optimizers["model"].param_groups
    assert (len(weights["params"]), weights["weight_decay"]) == (54, 1e-4)
    assert (len(others["params"]), others["weight_decay"]) == (2 * 53 + 1, 0.0)


def test_a_step_of_momentum_by_hand() -> None:
    """The second step moves a bias, which does not decay, by rate x (0.9 x first gradient + second gradient)."""
    built = TASK.build(TASK.configure("tiny"))
    model: Any = built.modules["model"]
    moved, gradients = [], []
    for index in range(2):
        before = model.fc.bias.detach().clone()
        built.step(built.batch(index))
        moved.append(before - model.fc.bias.detach())
        gradients.append(model.fc.bias.grad.clone())
    assert torch.allclose(moved[0], 0.001 * gradients[0], atol=1e-7)
    assert torch.allclose(moved[1], 0.001 * (0.9 * gradients[0] + gradients[1]), atol=1e-7)


def test_it_learns_a_batch_by_heart() -> None:
    built = TASK.build(TASK.configure("tiny", overrides={"lr": "1.28"}))
    batch = built.batch(0)
    losses = [float(built.step(batch)) for _ in range(5)]
    assert losses[-1] < losses[0] / 2
