"""Losses, each as the sum of its parts; a reduction adds 1 for each element, a mean one division.

Reduction is torch's number: 0 none, 1 mean, 2 sum. n = elements of the loss before reduction.
"""

from __future__ import annotations

from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Call, gather, read, scatter_new, tensors, writes

MEAN = 1


def reduced(elements: int, reduction: Any) -> int:
    """FLOPs of the reduction itself."""
    return 0 if reduction == 0 else elements + (reduction == MEAN)


# name: FLOPs an element, position of `reduction`
ELEMENTWISE = {
    "mse_loss": (2, 2),  # (x - t) * (x - t)
    "l1_loss": (1, 2),  # |x - t|
    "smooth_l1_loss": (5, 2),  # x - t; both branches: d*d/2/beta 3, d - beta/2 1
    "huber_loss": (5, 2),  # x - t; d*d/2 2, delta * (d - delta/2) 2
    "soft_margin_loss": (3, 2),  # log1p(exp(-x * t))
    "binary_cross_entropy": (6, 3),  # (t - 1) * log1p(-x) - t * log x
    "binary_cross_entropy_with_logits": (6, 4),  # (1 - t) * x - logsigmoid(x): 2 + 3 + 1
    "kl_div": (3, 2),  # t * (log t - x)
    "poisson_nll_loss": (3, 5),  # exp(x) - t * x
    "hinge_embedding_loss": (2, 3),
    "margin_ranking_loss": (3, 4),
}


@formula(*(f"aten::{name}" for name in ELEMENTWISE))
def elementwise(call: Call) -> Cost:
    name = call.name.removeprefix("aten::")
    flops, at = ELEMENTWISE[name]
    n = call.args[0].numel
    other = flops * n + reduced(n, call.arg(at, "reduction", MEAN))
    if name.startswith("binary_cross_entropy"):
        other += n * isinstance(call.arg(2, "weight"), T)
    if name.endswith("with_logits") and isinstance(call.arg(3, "pos_weight"), T):
        other += 3 * n  # 1 + (p - 1) * t is a factor of the second term
    return Cost(other)


# gradient * slope (and * 1/N for a mean, which is taken into the gradient's scalar)
ELEMENTWISE_BACKWARD = {
    "mse_loss_backward": 3,  # c * (x - t) * g
    "smooth_l1_loss_backward": 5,  # x - t; c*d*g/beta 3; c*g 1
    "huber_loss_backward": 7,  # x - t; c*d*g 2; c*g*delta 2 on either side
    "soft_margin_loss_backward": 5,  # c * g * t * (sigmoid(t * x) - 1)
    "binary_cross_entropy_backward": 5,  # g * (x - t) / ((1 - x) * x)
}


@formula(*(f"aten::{name}" for name in ELEMENTWISE_BACKWARD))
def elementwise_backward(call: Call) -> Cost:
    n = call.args[1].numel
    weighted = call.name == "aten::binary_cross_entropy_backward" and isinstance(call.arg(3, "weight"), T)
    mean = call.name == "aten::binary_cross_entropy_backward" and call.arg(4, "reduction", MEAN) == MEAN
    return Cost((ELEMENTWISE_BACKWARD[call.name.removeprefix("aten::")] + weighted + mean) * n)


@formula(*aten("nll_loss_forward nll_loss2d_forward nll_loss nll_loss2d nll_loss_nd"))
def nll_loss(call: Call) -> Cost:
    """One log-probability is picked for each target and, with weights, multiplied; weights are summed as well."""
    x, target, weight = call.args[0], call.args[1], call.arg(2, "weight")
    n, weighted = target.numel, isinstance(weight, T)
    other = n * weighted + reduced(n, call.arg(3, "reduction", MEAN)) + n * weighted
    picked = [gather(x, n), *([gather(weight, n)] if weighted else []), *read(target)]
    return Cost(other, accesses=[*picked, *writes(call)])


@formula(*aten("nll_loss_backward nll_loss2d_backward"))
def nll_loss_backward(call: Call) -> Cost:
    """Zeros, and -g (times weight, over the total) at each target; x is passed for its shape only."""
    gradient, target, weight, total = call.args[0], call.args[2], call.arg(3, "weight"), call.arg(6, "total_weight")
    n, weighted = target.numel, isinstance(weight, T)
    other = n * weighted + n * (call.arg(4, "reduction", MEAN) == MEAN)
    moved = [*read(gradient, target, total), *([gather(weight, n)] if weighted else [])]
    return Cost(other, accesses=[*moved, *scatter_new(call.result(), n)])


@formula(*aten("multi_margin_loss multi_margin_loss_backward"))
def multi_margin(call: Call) -> Cost:
    """margin - x[target] for each row, + x, and the sum; backward the slope's products and its sum for the target."""
    at = 1 if call.name.endswith("backward") else 0
    x, target = call.args[at : at + 2]
    return Cost(2 * x.numel + target.numel)


@formula(*aten("multilabel_margin_loss multilabel_margin_loss_forward multilabel_margin_loss_backward"))
def multilabel_margin(call: Call) -> Cost:
    """Each labelled class against each other class: at most classes x classes pairs, 3 FLOPs each."""
    x: T = call.args[1 if call.name.endswith("backward") else 0]
    return Cost(3 * x.numel * (x.shape[-1] if x.shape else 1), note="every class is taken as labelled: an upper bound")


CTC_STEP = 11  # log-sum-exp of three: minus 3, exp 3, plus 2, log 1, plus the maximum 1; plus the log-probability 1


def _ctc_states(call: Call, at: int) -> tuple[int, int, bool]:
    """(steps x states over the batch, elements of log_probs, whether lengths are data).

    T steps of 2*S + 1 states, S target symbols; log_probs is (T, N, classes).
    """
    log_probs, targets, lengths = call.args[at], call.args[at + 1], call.args[at + 3]
    time, batch = log_probs.shape[0], (log_probs.shape[1] if len(log_probs.shape) == 3 else 1)
    if tensors([lengths]):  # lengths in a tensor are data: the padded length stands for each
        symbols = batch * targets.shape[-1] if len(targets.shape) > 1 else targets.numel
        return time * (2 * symbols + batch), log_probs.numel, True
    steps = [int(t) for t in call.args[at + 2]]
    states = sum(t * (2 * int(s) + 1) for t, s in zip(steps, lengths, strict=True))
    return states, log_probs.numel, False


PADDED = "lengths are data: every sequence is taken at the padded length"


@formula(*aten("_ctc_loss ctc_loss"), "wcbench::ctc_loss")
def ctc_loss(call: Call) -> Cost:
    """The forward recursion over steps and states."""
    states, _, padded = _ctc_states(call, 0)
    return Cost(CTC_STEP * states, note=PADDED if padded else None)


@formula("aten::_ctc_loss_backward", "wcbench::ctc_loss_backward")
def ctc_loss_backward(call: Call) -> Cost:
    """The backward recursion, alpha + beta collected by symbol (plus, exp, log1p, plus: 4), and for each class and step
    (exp(p) - exp(sum + loss - p)) * g: 6."""
    states, elements, padded = _ctc_states(call, 1)
    return Cost((CTC_STEP + 4) * states + 6 * elements, note=PADDED if padded else None)


@formula(*aten("_cudnn_ctc_loss miopen_ctc_loss"))
def cudnn_ctc_loss(call: Call) -> Cost:
    """Loss and gradient in one operator."""
    states, elements, padded = _ctc_states(call, 0)
    return Cost((2 * CTC_STEP + 4) * states + 6 * elements, note=PADDED if padded else None)
