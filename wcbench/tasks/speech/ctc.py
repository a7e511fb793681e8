"""Connectionist temporal classification with shapes known beforehand (Graves et al., 2006).

torch's own operator sizes its lattice by the longest label, which is data: FakeTensorMode refuses it. The two
operators here call it and keep the lattice at the padded width of the labels, so that every shape follows from the
arguments' shapes. Losses and gradients are those of `torch.nn.functional.ctc_loss`.

    wcbench::ctc_loss(log_probs (T, B, C), labels (B, S), steps (B,), label_lengths (B,), blank)
        -> losses (B,), alpha (B, T, 2 S + 1)
    wcbench::ctc_loss_backward(gradient (B,), log_probs, labels, steps, label_lengths, losses, alpha, blank)
        -> gradient (T, B, C)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("wcbench::ctc_loss", mutates_args=())
def _ctc_loss(
    log_probs: Tensor, labels: Tensor, steps: Tensor, label_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    losses, alpha = torch.ops.aten._ctc_loss(log_probs, labels, steps.tolist(), label_lengths.tolist(), blank)
    unused = 2 * labels.shape[1] + 1 - alpha.shape[2]  # states beyond the longest label
    return losses, F.pad(alpha, (0, unused), value=-torch.inf) if unused else alpha


@_ctc_loss.register_fake
def _(log_probs: Tensor, labels: Tensor, steps: Tensor, label_lengths: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    time, batch, _ = log_probs.shape
    return log_probs.new_empty(batch), log_probs.new_empty(batch, time, 2 * labels.shape[1] + 1)


@torch.library.custom_op("wcbench::ctc_loss_backward", mutates_args=())
def _ctc_loss_backward(  # noqa: PLR0917  (an operator's schema)
    gradient: Tensor,
    log_probs: Tensor,
    labels: Tensor,
    steps: Tensor,
    label_lengths: Tensor,
    losses: Tensor,
    alpha: Tensor,
    blank: int,
) -> Tensor:
    lengths = (steps.tolist(), label_lengths.tolist())
    moved: Tensor = torch.ops.aten._ctc_loss_backward(gradient, log_probs, labels, *lengths, losses, alpha, blank)
    return moved


@_ctc_loss_backward.register_fake
def _(  # noqa: PLR0917
    gradient: Tensor,
    log_probs: Tensor,
    labels: Tensor,
    steps: Tensor,
    label_lengths: Tensor,
    losses: Tensor,
    alpha: Tensor,
    blank: int,
) -> Tensor:
    return torch.empty_like(log_probs)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.blank = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)  # alpha has no gradient, and a lattice of zeros in its place would cost memory


def _backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    moved = _ctc_loss_backward(gradient, *ctx.saved_tensors, ctx.blank)
    return moved, None, None, None, None


_ctc_loss.register_autograd(_backward, setup_context=_save)


def ctc_loss(log_probs: Tensor, labels: Tensor, steps: Tensor, label_lengths: Tensor, *, blank: int = 0) -> Tensor:
    """Negative log-likelihood (batch,) of each label sequence.

    Parameters
    ----------
    log_probs : (time, batch, classes), after a log-softmax; computed in float, whatever autocast is on.
    labels : (batch, width), int64; what lies beyond a label's length is not read.
    steps, label_lengths : (batch,), int64, on the CPU: torch's operator takes them as numbers.
    """
    losses: Tensor = _ctc_loss(log_probs.float(), labels, steps, label_lengths, blank)[0]
    return losses
