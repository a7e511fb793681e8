"""LAMB: Adam whose step is scaled layer by layer to the norm of the weights (You et al., arXiv:1904.00962).

torch has no LAMB of its own. This is algorithm 2 of the paper with the identity as its scaling function: moments with
bias correction as in Adam, decoupled weight decay inside the scaled update, and a trust ratio |w| / |update| for each
tensor, 1 where either norm is zero. All tensors of a group are worked on at once (the `_foreach` operators), so that
the operators are the same on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from wcbench.errors import UsageError


class Lamb(torch.optim.Optimizer):
    """LAMB over parameters or groups of them, as torch's optimizers take them.

    Parameters
    ----------
    lr : learning rate.
    betas : decay of the first and the second moment.
    eps : added to the root of the second moment.
    weight_decay : share of the weights that is added to the update before it is scaled.
    foreach : always True; a group says it as those of torch's optimizers do.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        foreach: bool = True,
    ) -> None:
        if not foreach:
            raise UsageError("Lamb works on all tensors of a group at once.", "Leave foreach at True.")
        if lr < 0 or eps <= 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise UsageError(
                f"Lamb with lr {lr}, betas {betas}, eps {eps}, weight_decay {weight_decay} is refused:"
                " rates are 0 or more, eps is positive and betas lie in [0, 1)."
            )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": True, "step": 0}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                group["step"] += 1
                self._update(group, parameters)
        return loss

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        gradients = [p.grad for p in parameters if p.grad is not None]
        first = [self._moment(p, "exp_avg") for p in parameters]
        second = [self._moment(p, "exp_avg_sq") for p in parameters]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)

        roots = torch._foreach_sqrt(second)
        torch._foreach_div_(roots, (1 - beta2 ** group["step"]) ** 0.5)
        torch._foreach_add_(roots, group["eps"])
        updates = list(torch._foreach_div(first, roots))
        torch._foreach_div_(updates, 1 - beta1 ** group["step"])
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        torch._foreach_mul_(updates, trust_ratios(parameters, updates))
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moment(self, parameter: Tensor, name: str) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        moment: Tensor = state[name]
        return moment


def trust_ratios(weights: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """Norm of each weight over the norm of its update, as scalars; 1 where either is zero."""
    weight = torch.stack(torch._foreach_norm(weights))  # (tensors,)
    update = torch.stack(torch._foreach_norm(updates))
    ratio = torch.where((weight > 0) & (update > 0), weight / update, 1.0)
    return list(ratio.unbind())
