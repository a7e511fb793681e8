"""Parameters of a task's models, each tensor told once by its first name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from wcbench.tasks.base import Built


def parameter_rows(built: Built) -> Iterator[dict[str, Any]]:
    """A row of table `parameters` for every name; a tensor met again says with which name it is shared.

    Parameters that stand in no module but that an optimizer updates follow, under the optimizer's role.
    """
    first: dict[int, str] = {}
    for model, name, parameter in _named_parameters(built):
        yield {
            "model": model,
            "name": name,
            "shape": list(parameter.shape),
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "numel": parameter.numel(),
            "nbytes": parameter.numel() * parameter.element_size(),
            "trainable": parameter.requires_grad,
            "shared_with": first.get(id(parameter)),
        }
        first.setdefault(id(parameter), f"{model}.{name}")


def _named_parameters(built: Built) -> Iterator[tuple[str, str, torch.Tensor]]:
    seen: set[int] = set()
    for model, module in built.modules.items():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            seen.add(id(parameter))
            yield model, name, parameter
    for role, optimizer in built.optimizers.items():
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield role, f"group{g}.{i}", parameter
