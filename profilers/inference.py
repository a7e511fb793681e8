"""`--mode inference`: the forward pass alone, in evaluation mode, in place of the training step."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from wcbench.errors import TaskError
from wcbench.tasks.base import Built, Config

KIND = "inference"
_AHEAD = 64  # kinds are cyclic within so many steps


def forward_only(built: Built, config: Config) -> Built:
    """The task with `Built.infer` as its step: models in evaluation mode, no gradients, no optimizers.

    Its batches are those of the first kind of step, which is what `Built.infer` takes. Raises TaskError where the task
    offers no inference.
    """
    infer = built.infer
    if infer is None:
        raise TaskError("The task offers no inference.", "Give its Built an `infer`, or leave --mode inference out.")
    for module in built.modules.values():
        module.eval()
    first = [index for index in range(_AHEAD) if built.kind(index) == built.kind(0)]
    same = len(first) == _AHEAD

    parameters = [p for module in built.modules.values() for p in module.parameters()]

    def step(batch: Any) -> Any:
        versions = [p._version for p in parameters]
        with torch.no_grad(), config.autocast():
            infer(batch)
        if versions != [p._version for p in parameters] or any(p.grad is not None for p in parameters):
            raise TaskError("Built.infer changes weights or makes gradients.", "It is the forward pass alone.")

    def batch(index: int) -> Any:
        return built.batch(index if same else first[index % len(first)])

    return dataclasses.replace(
        built,
        step=step,
        batch=batch,
        samples=built.kind_samples.get(built.kind(0), built.samples),
        optimizers={},
        kind=lambda index: KIND,
        step_kinds={KIND: 1.0},
        kind_samples={},
    )
