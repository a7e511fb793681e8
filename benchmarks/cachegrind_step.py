"""Three tiny training tasks of plain torch, and the program that cachegrind runs (benchmarks/cachegrind.py calls it).

Run by itself: python benchmarks/cachegrind_step.py mlp conv attention

torch is imported once. Then, for each task and for its control (the same operators on next to no data), two processes
are forked off: one ends after `WARMUP` steps, the other after `COUNTED` more. cachegrind counts on through a fork and
prints the totals of each process as it ends, so their difference is that of the counted steps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WARMUP, COUNTED = 2, 2

Made = tuple[nn.Module, tuple[Tensor, Tensor], Callable[[tuple[Tensor, Tensor]], Tensor]]


class Attention(nn.Module):
    """Embedding, one transformer block without dropout or norms, a head over the vocabulary."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v
        x = x + self.down(F.relu(self.up(x)))
        out: Tensor = self.head(x)
        return out.flatten(0, 1)


def mlp(full: bool) -> tuple[nn.Module, Tensor, Tensor]:
    batch, inputs, hidden, classes = (64, 512, 1024, 256) if full else (1, 8, 8, 8)
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    return model, torch.randn(batch, inputs), torch.randint(classes, (batch,))


def conv(full: bool) -> tuple[nn.Module, Tensor, Tensor]:
    batch, side, width = (8, 32, 16) if full else (1, 4, 2)
    body = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*body, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(width * side * side // 4, 10))
    return model, torch.randn(batch, 3, side, side), torch.randint(10, (batch,))


def attention(full: bool) -> tuple[nn.Module, Tensor, Tensor]:
    batch, length, vocabulary, width = (4, 64, 2048, 64) if full else (1, 4, 8, 8)
    tokens = torch.randint(vocabulary, (batch, length))
    return Attention(vocabulary, width), tokens, torch.randint(vocabulary, (batch * length,))


TASKS = {"mlp": mlp, "conv": conv, "attention": attention}


def make(name: str, full: bool) -> Made:
    """Model, batch and step of a task."""
    torch.manual_seed(0)
    model, inputs, targets = TASKS[name](full)
    states = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        with torch.no_grad():
            for p, mean, square in states:
                adam(p, mean, square)
        return loss.detach()

    return model, (inputs, targets), step


def adam(p: nn.Parameter, mean: Tensor, square: Tensor) -> None:
    """Adam as torch.optim does it on one tensor; torch.optim would import torch._dynamo, minutes under valgrind."""
    grad = p.grad
    assert grad is not None
    mean.lerp_(grad, 0.1)
    square.mul_(0.999).addcmul_(grad, grad, value=0.001)
    p.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)
    p.grad = None


def run(name: str, full: bool, steps: int) -> None:
    _, batch, step = make(name, full)
    for _ in range(steps):
        step(batch)


def forked(name: str, full: bool, steps: int) -> int:
    """Run a task in a process of its own; its id."""
    child = os.fork()
    if child == 0:
        run(name, full, steps)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"{name} failed")
    return child


def main(names: Iterable[str]) -> None:
    torch.set_num_threads(1)
    setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010  as the pass `operators` does
    for name in names:
        for full in (True, False):
            ids = [forked(name, full, steps) for steps in (WARMUP, WARMUP + COUNTED)]
            print("pids", name, int(full), *ids, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or TASKS)
