"""Batch, layer, group and RMS normalization, forward and backward, each as the sum of its parts.

n = elements of the input, m = groups that share their statistics (channels of a batch norm, rows of a layer norm,
sample-groups of a group norm).

Statistics: sum n, minus the mean n, squares n, their sum n; for each group two divisions, + eps, 1/root: 4m. Then, in a
second pass, minus the mean n, times 1/sigma n, times weight n, plus bias n. So 6n + 4m, and 2n for the affine part.
tests/profilers/formulas/test_fused.py compares these with torch's own decompositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Access, Call, read, tensors, write, writes

UPDATE = 7  # of running statistics, a channel: unbiased variance 1, and twice (1 - k) * old + k * new: 3


def affine(weight: Any, bias: Any) -> int:
    """FLOPs of the affine part for each element: one for a weight, one for a bias."""
    return (weight is not None) + (bias is not None)


# operators whose signature has `training`: its position; the others say it by their name
TRAINING_AT = {
    **dict.fromkeys(["native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"], 5),
    **dict.fromkeys(["_native_batch_norm_legit", "_native_batch_norm_legit_functional", "batch_norm"], 5),
    "_native_batch_norm_legit.no_stats": 3,
}
TRAINING_BY_NAME = {
    "_batch_norm_with_update": True,
    "_batch_norm_with_update_functional": True,
    "_native_batch_norm_legit_no_training": False,
    "_batch_norm_no_update": False,
}


@formula(*(f"aten::{name}" for name in (*TRAINING_AT, *TRAINING_BY_NAME)))
def batch_norm(call: Call) -> Cost:
    """Training: statistics, and the running ones updated where there are any. Otherwise minus, times, and the channel's
    + eps and 1/root: 2n + 2C. The schema of `native_batch_norm` does not say that it writes the running statistics."""
    name = call.name.removeprefix("aten::")
    x, weight, bias = call.args[:3]
    no_stats = call.overload.startswith("no_stats")
    running = [] if no_stats else tensors(call.args[3:5])
    at = 3 if no_stats else TRAINING_AT.get(name)
    training = TRAINING_BY_NAME[name] if at is None else bool(call.args[at])
    n, channels = x.numel, x.shape[1]
    if not training:
        moved = [*read(x, weight, bias, running), *_results(call)]
        return Cost((2 + affine(weight, bias)) * n + 2 * channels, accesses=moved)
    other = (6 + affine(weight, bias)) * n + 4 * channels + (UPDATE * channels if running else 0)
    updated = [] if "functional" in name else running
    return Cost(other, accesses=[*read(x, weight, bias, running), *write(updated), *_results(call)])


def _results(call: Call) -> list[Access]:
    """The output and the saved statistics; running statistics among them are not new memory."""
    held = {tensor.storage for tensor in tensors(call.args)}
    return write([tensor for tensor in tensors(call.out) if tensor.storage not in held])


@formula(*aten("native_batch_norm_backward batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward"))
def batch_norm_backward(call: Call) -> Cost:
    """Training: sum of g (n), minus the mean (n), times g (n), their sum (n), and for the input
    (g - mean(g) - (x - mean) * k) * scale: 5n, 6 for each channel. Fixed statistics: g * scale for the input."""
    own = call.name in ("aten::native_batch_norm_backward", "aten::batch_norm_backward")
    gradient, x = call.args[:2] if own else call.args[1::-1]
    weight, running, saved = call.args[2], tensors(call.args[3:5]), tensors(call.args[5:7])
    training = bool(call.args[7]) if own else True
    for_input, for_weight, for_bias = call.arg(9, "output_mask", (True, True, True)) if own else (True, True, True)
    n, channels = x.numel, x.shape[1]
    if training:
        other = 4 * n + channels + (5 * n + 5 * channels if for_input else 0)
    else:
        other = (n if for_input else 0) + (3 * n if for_weight else 0) + (n if for_bias else 0)
    return Cost(other, accesses=[*read(gradient, x, weight, saved if training else running), *_results(call)])


@formula("aten::batch_norm_stats")
def batch_norm_stats(call: Call) -> Cost:
    """Synchronized batch norm, first part: mean and 1/sigma of this rank's share."""
    x = call.args[0]
    return Cost(4 * x.numel + 4 * x.shape[1])


@formula("aten::batch_norm_update_stats")
def batch_norm_update_stats(call: Call) -> Cost:
    x, running = call.args[0], tensors(call.args[1:3])
    return Cost(4 * x.numel + (2 + UPDATE) * x.shape[1], accesses=[*read(x, running), *write(running), *_results(call)])


@formula(*aten("batch_norm_gather_stats batch_norm_gather_stats_with_counts"))
def batch_norm_gather_stats(call: Call) -> Cost:
    """For each rank and channel: variance from 1/sigma 3, two means merged 4, two variances 5; then the update."""
    means = call.args[1]
    return Cost(12 * means.numel + (2 + UPDATE) * means.shape[-1])


@formula("aten::batch_norm_elemt")
def batch_norm_elemt(call: Call) -> Cost:
    """Minus the mean, times 1/sigma, and the affine part."""
    x, weight, bias = call.args[:3]
    return Cost((2 + affine(weight, bias)) * x.numel)


@formula("aten::batch_norm_backward_reduce")
def batch_norm_backward_reduce(call: Call) -> Cost:
    """The sums of g and of g * (x - mean)."""
    return Cost(4 * call.args[1].numel)


@formula("aten::batch_norm_backward_elemt")
def batch_norm_backward_elemt(call: Call) -> Cost:
    """(g - mean(g) - (x - mean) * k) * scale: minus, times, minus, minus, times."""
    return Cost(5 * call.args[1].numel)


def groups_of(x: T, normalized: Sequence[int]) -> int:
    """Rows of a layer norm."""
    return x.numel // max(1, prod(normalized))


@formula(*aten("native_layer_norm layer_norm"))
def layer_norm(call: Call) -> Cost:
    x, normalized, weight, bias = call.args[0], call.args[1], call.arg(2, "weight"), call.arg(3, "bias")
    return Cost((6 + affine(weight, bias)) * x.numel + 4 * groups_of(x, normalized))


@formula("aten::native_layer_norm_backward")
def layer_norm_backward(call: Call) -> Cost:
    """xhat 2n. Input: g * weight n, sums of it and of it * xhat 3n, N*g - sum - xhat * sum 4n, times 1/(N sigma) n and
    m. Weight: g * xhat, sum 2n. Bias: sum n; its values are not read."""
    gradient, x, normalized, mean, rstd, weight = call.args[:6]
    for_input, for_weight, for_bias = call.args[7]
    n, other = x.numel, 0
    if for_input or for_weight:
        other += 2 * n
    if for_input:
        other += (8 + (weight is not None)) * n + groups_of(x, normalized)
    other += (2 * n if for_weight else 0) + (n if for_bias else 0)
    return Cost(other, accesses=[*read(gradient, x, mean, rstd, weight), *writes(call)])


@formula("aten::native_group_norm")
def group_norm(call: Call) -> Cost:
    """Statistics 4n; the rest as x * a + b: 2n, with a = weight / sigma and b = bias - a * mean for each sample and
    channel. Without a weight minus and times, 2n as well."""
    x, weight, bias, samples, channels = call.args[:5]
    coefficients = 0 if weight is None else 3 if bias is not None else 2
    return Cost(6 * x.numel + 4 * samples * call.args[6] + coefficients * samples * channels)


@formula("aten::native_group_norm_backward")
def group_norm_backward(call: Call) -> Cost:
    """g * x and its sum, sum of g: 3n. Input g*c1 + x*c2 + c3: 4n, whose coefficients take 5 for each sample and
    channel (weights times sums, summed, and c1) and 10 for each sample and group. Weight: (sum - sum * mean) * rstd,
    summed: 4 for each sample and channel; bias 1."""
    x, weight = call.args[1], call.args[4]
    samples, channels, _, groups, mask = call.args[5:10]
    for_input, for_weight, for_bias = mask
    other = 3 * x.numel
    if for_input:
        other += 4 * x.numel + (5 if weight is not None else 3) * samples * channels + 10 * samples * groups
    return Cost(other + (4 * bool(for_weight) + bool(for_bias)) * samples * channels)


@formula(*aten("_fused_rms_norm rms_norm"))
def rms_norm(call: Call) -> Cost:
    """Squares, sum, times 1/rms, times weight; for each row a division, + eps, 1/root."""
    x, normalized, weight = call.args[0], call.args[1], call.arg(2, "weight")
    return Cost((3 + (weight is not None)) * x.numel + 3 * groups_of(x, normalized))


@formula("aten::_fused_rms_norm_backward")
def rms_norm_backward(call: Call) -> Cost:
    """xhat n. Input: g * weight n, times xhat n, sum n, (g - xhat * mean) / rms 3n, a division a row. Weight 2n."""
    x, normalized, weight = call.args[1], call.args[2], call.args[4]
    for_input, for_weight = call.args[5]
    n = x.numel
    for_x = (5 + (weight is not None)) * n + groups_of(x, normalized) if for_input else 0
    return Cost(n + for_x + (2 * n if for_weight else 0))


@formula("aten::_weight_norm_interface")
def weight_norm(call: Call) -> Cost:
    """v * (g / |v|): squares and sum 2n, times n; a root and a division for each norm."""
    v, g = call.args[:2]
    return Cost(3 * v.numel + 2 * g.numel)


@formula("aten::_weight_norm_interface_backward")
def weight_norm_backward(call: Call) -> Cost:
    """Sum of w's gradient * v: 2n; for v: g/|v| * (dw - v * s): 3n; for each norm 5 (the factors, and g's gradient)."""
    v, g = call.args[1], call.args[2]
    return Cost(5 * v.numel + 5 * g.numel)


@formula("aten::_batch_norm_impl_index")
def batch_norm_impl(call: Call) -> Cost:
    """The composite above the operators: same arguments, same work."""
    return batch_norm(Call("aten::native_batch_norm", "", call.args, call.kwargs, call.out, (), ()))


@formula(*aten("group_norm instance_norm"))
def composite_norm(call: Call) -> Cost:
    """Composites in one piece: statistics over each sample's groups (or channels)."""
    x = call.args[0]
    is_group = call.name == "aten::group_norm"
    at = 2 if is_group else 1
    weight, bias = call.arg(at, "weight"), call.arg(at + 1, "bias")
    groups = call.args[1] if is_group else x.shape[1]
    return Cost((6 + affine(weight, bias)) * x.numel + 4 * x.shape[0] * groups)
