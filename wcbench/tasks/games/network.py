"""MiniGo's network: a residual trunk with a policy and a value head."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.tasks.games.go import PLANES


class Residual(nn.Module):
    """A residual block of two 3x3 convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(width, width, 3), _convolution(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


class DualNet(nn.Module):
    """Planes (batch, 13, size, size) to logits of the moves (batch, points + 1) and black's value (batch,)."""

    def __init__(self, size: int, blocks: int, width: int, hidden: int) -> None:
        super().__init__()
        points = size * size
        self.trunk = nn.Sequential(
            _convolution(PLANES, width, 3),  # (batch, width, size, size)
            nn.ReLU(),
            *(Residual(width) for _ in range(blocks)),
        )
        self.policy = nn.Sequential(
            _convolution(width, 2, 1, affine=False),  # (batch, 2, size, size)
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * points, points + 1),
        )
        self.value = nn.Sequential(
            _convolution(width, 1, 1, affine=False),  # (batch, 1, size, size)
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(points, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
            nn.Tanh(),
        )

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        shared = self.trunk(planes)
        return self.policy(shared), self.value(shared)[:, 0]


def _convolution(inputs: int, outputs: int, side: int, affine: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, side, padding=side // 2, bias=False),
        nn.BatchNorm2d(outputs, momentum=0.05, affine=affine),
    )
