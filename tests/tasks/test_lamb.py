"""LAMB: one step by hand, many against plain Python, and what it leaves alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from wcbench.errors import UsageError
from wcbench.tasks.lamb import Lamb, trust_ratios


def parameter(*values: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values))


def test_the_first_step_by_hand() -> None:
    """Bias-corrected, the first update of Adam is the gradient's sign: (1, -1) for gradients (0.3, -0.7).

    Weights (3, 4) of norm 5, no decay: trust ratio 5 / sqrt(2), so each weight moves by 0.1 * 5 / sqrt(2) = 0.35355.
    """
    weights = parameter(3.0, 4.0)
    weights.grad = torch.tensor([0.3, -0.7])
    Lamb([weights], lr=0.1, weight_decay=0.0, eps=1e-12).step()
    move = 0.1 * 5 / math.sqrt(2)
    assert weights.tolist() == pytest.approx([3 - move, 4 + move], rel=1e-6)


def test_decay_belongs_to_the_update_that_is_scaled() -> None:
    """Update (1, 1) + 0.5 (3, 4) = (2.5, 3), of norm sqrt(15.25); the step has norm 0.1 * 5 whatever the gradients."""
    weights = parameter(3.0, 4.0)
    weights.grad = torch.tensor([0.2, 0.9])
    Lamb([weights], lr=0.1, weight_decay=0.5, eps=1e-12).step()
    scale = 0.1 * 5 / math.sqrt(15.25)
    assert weights.tolist() == pytest.approx([3 - 2.5 * scale, 4 - 3 * scale], rel=1e-6)


def plain(weights: list[float], gradients: list[list[float]], lr: float, decay: float) -> list[float]:
    """Algorithm 2 of arXiv:1904.00962 number by number, with betas 0.9 and 0.999 and epsilon 1e-6."""
    first, second = [0.0] * len(weights), [0.0] * len(weights)
    for count, gradient in enumerate(gradients, start=1):
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradient, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradient, strict=True)]
        update = [
            m / (1 - 0.9**count) / (math.sqrt(v / (1 - 0.999**count)) + 1e-6) + decay * w
            for m, v, w in zip(first, second, weights, strict=True)
        ]
        ratio = math.hypot(*weights) / math.hypot(*update)
        weights = [w - lr * ratio * u for w, u in zip(weights, update, strict=True)]
    return weights


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_twenty_steps_against_plain_python(decay: float) -> None:
    rng = torch.Generator().manual_seed(0)
    tensors = [torch.randn(size, generator=rng, dtype=torch.float64) for size in (3, 5)]
    gradients = [[torch.randn(t.shape, generator=rng, dtype=torch.float64) for t in tensors] for _ in range(20)]
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in tensors]
    optimizer = Lamb(parameters, lr=0.01, weight_decay=decay)
    for step in gradients:
        for p, gradient in zip(parameters, step, strict=True):
            p.grad = gradient
        optimizer.step()
    for place, p in enumerate(parameters):
        expected = plain(tensors[place].tolist(), [step[place].tolist() for step in gradients], 0.01, decay)
        assert p.tolist() == pytest.approx(expected, rel=1e-9)


def test_each_tensor_has_a_trust_ratio_of_its_own_and_zero_norms_have_1() -> None:
    weights = [torch.tensor([3.0, 4.0]), torch.zeros(2), torch.ones(1)]
    updates = [torch.tensor([0.0, 10.0]), torch.ones(2), torch.zeros(1)]
    assert [float(ratio) for ratio in trust_ratios(weights, updates)] == [0.5, 1.0, 1.0]


def test_zero_weights_leave_zero() -> None:
    """By the ratio of 1; the norm of the weights alone would keep them at zero for ever."""
    weights = parameter(0.0, 0.0)
    weights.grad = torch.tensor([1.0, -1.0])
    Lamb([weights], lr=0.1, eps=1e-12).step()
    assert weights.tolist() == pytest.approx([-0.1, 0.1])


def test_groups_have_their_own_decay_and_what_has_no_gradient_stays() -> None:
    decayed, bare, idle = parameter(1.0), parameter(1.0), parameter(1.0)
    optimizer = Lamb([{"params": [decayed, idle]}, {"params": [bare], "weight_decay": 0.0}], lr=0.1, weight_decay=0.5)
    decayed.grad, bare.grad = torch.zeros(1), torch.zeros(1)
    optimizer.step()
    assert float(decayed.detach()) == pytest.approx(0.9)  # update 0.5, trust ratio 2
    assert float(bare.detach()) == 1.0
    assert float(idle.detach()) == 1.0
    assert idle not in optimizer.state


def test_it_goes_on_from_a_saved_state() -> None:
    def run(restart: bool) -> Tensor:
        weights = parameter(1.0, -2.0)
        optimizer = Lamb([weights], lr=0.05)
        for step in range(6):
            if restart and step == 3:
                saved: Any = optimizer.state_dict()
                optimizer = Lamb([weights], lr=0.5)
                optimizer.load_state_dict(saved)
            weights.grad = torch.tensor([0.1 * step, 1.0])
            optimizer.step()
        return weights.detach()

    assert torch.equal(run(restart=True), run(restart=False))


def test_a_closure_is_run_with_gradients() -> None:
    weights = parameter(2.0)
    optimizer = Lamb([weights], lr=0.1)

    def closure() -> float:
        optimizer.zero_grad()
        loss = (weights**2).sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 4.0
    assert float(weights.detach()) < 2


@pytest.mark.parametrize(
    "options",
    [{"lr": -1.0}, {"lr": 0.1, "betas": (1.0, 0.9)}, {"lr": 0.1, "eps": 0.0}, {"lr": 0.1, "weight_decay": -0.1}],
)
def test_what_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is refused"):
        Lamb([parameter(1.0)], **options)
    with pytest.raises(UsageError, match="all tensors of a group at once"):
        Lamb([parameter(1.0)], lr=0.1, foreach=False)
