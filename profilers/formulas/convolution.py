"""Convolutions forward and backward: every spelling, any number of dimensions, grouped, dilated, transposed.

Each output pixel of each of Cout channels takes (Cin / groups) * prod(kernel) MAC, and a weight has the shape
(Cout, Cin / groups, *kernel): FLOP = 2 * N * prod(output pixels) * prod(weight's shape). A transposed convolution is
the gradient of one, so its pixels are those of its *input*, with a weight (Cin, Cout / groups, *kernel). Taps that fall
into the padding are counted. Every product x * w that enters an output gives one product for x's gradient and one for
w's, so each gradient that is asked for costs what the forward costs, whatever stride and groups (pytorch issue
183405). Bias adds 1 for each output, its gradient sums 1 for each gradient element, outside the matrix-class count.
"""

from __future__ import annotations

from math import prod
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.matmul import flops_of_macs
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Call, read, tensors, write

# where the bias stands, by operator; these are (input, weight, ...) and not transposed
BIAS_AT = {
    **dict.fromkeys(["convolution_overrideable", "mkldnn_convolution", "miopen_convolution", "_mps_convolution"], 2),
    **dict.fromkeys(["miopen_convolution_relu", "cudnn_convolution_relu", "_nnpack_spatial_convolution"], 2),
    **dict.fromkeys(["miopen_depthwise_convolution", "conv1d", "conv2d", "conv3d", "_convolution_mode"], 2),
    **dict.fromkeys(["_slow_conv2d_forward", "slow_conv3d_forward", "slow_conv3d", "thnn_conv2d"], 3),
    **dict.fromkeys(["slow_conv_dilated2d", "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d"], 3),
    "cudnn_convolution": None,
}
TRANSPOSED_BIAS_AT = {
    **dict.fromkeys(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "miopen_convolution_transpose"], 2),
    **dict.fromkeys(["slow_conv_transpose2d", "slow_conv_transpose3d"], 3),
    **dict.fromkeys(["cudnn_convolution_transpose", "_mps_convolution_transpose"], None),
}
TRANSPOSED_FLAG_AT = 6  # of convolution, _convolution, convolution_overrideable


def convolution_flops(outer: T, weight: T) -> int:
    """FLOPs of one product; ``outer`` is the output of a convolution and the input of a transposed one."""
    axes = len(weight.shape) - 2
    batch = outer.shape[0] if len(outer.shape) == axes + 2 else 1
    return flops_of_macs(batch * prod(outer.shape[len(outer.shape) - axes :]) * weight.numel, weight.dtype)


def forward(call: Call, *, transposed: bool, bias: Any) -> Cost:
    x, weight, result = call.args[0], call.args[1], call.result()
    return Cost(result.numel * (bias is not None), convolution_flops(x if transposed else result, weight))


@formula(*aten("convolution _convolution"))
def convolution(call: Call) -> Cost:
    flag = bool(call.arg(TRANSPOSED_FLAG_AT, "transposed", False))
    return forward(call, transposed=flag, bias=call.arg(2, "bias"))


@formula(*(f"aten::{name}" for name in BIAS_AT))
def plain(call: Call) -> Cost:
    at = BIAS_AT[call.name.removeprefix("aten::")]
    flag = call.name == "aten::convolution_overrideable" and bool(call.arg(TRANSPOSED_FLAG_AT, "transposed"))
    return forward(call, transposed=flag, bias=None if at is None else call.arg(at, "bias"))


@formula(*(f"aten::{name}" for name in TRANSPOSED_BIAS_AT))
def transposed(call: Call) -> Cost:
    at = TRANSPOSED_BIAS_AT[call.name.removeprefix("aten::")]
    return forward(call, transposed=True, bias=None if at is None else call.arg(at, "bias"))


@formula(*aten("cudnn_convolution_add_relu miopen_convolution_add_relu"))
def add_relu(call: Call) -> Cost:
    """relu(conv(x, w) + alpha * z + bias)"""
    base, outputs = forward(call, transposed=False, bias=call.arg(4, "bias")), call.result().numel
    alpha = call.arg(3, "alpha")
    return Cost(base.other + outputs * (1 + (alpha not in (None, 1))), base.matrix)


@formula(*aten("convolution_backward convolution_backward_overrideable"))
def backward(call: Call) -> Cost:
    over = call.name.endswith("overrideable")  # it has no bias_sizes
    is_transposed, mask = call.args[6 if over else 7], call.args[9 if over else 10]
    gradient, x, weight = call.args[:3]
    return gradients(call, gradient, x, weight, transposed=bool(is_transposed), mask=mask)


@formula("aten::_slow_conv2d_backward")
def slow_backward(call: Call) -> Cost:
    gradient, x, weight = call.args[:3]
    return gradients(call, gradient, x, weight, transposed=False, mask=call.arg(6, "output_mask", (True, True, True)))


@formula(*aten("mps_convolution_backward mps_convolution_transpose_backward"))
def mps_backward(call: Call) -> Cost:
    x, gradient, weight = call.args[:3]
    is_transposed = "transpose" in call.name
    return gradients(call, gradient, x, weight, transposed=is_transposed, mask=call.args[8 if is_transposed else 7])


def gradients(call: Call, gradient: T, x: T, weight: T, *, transposed: bool, mask: Any) -> Cost:
    """The gradients that the mask asks for; x is read only for the weight's, the weight only for x's."""
    for_input, for_weight, for_bias = (*map(bool, mask), False)[:3]
    each = convolution_flops(x if transposed else gradient, weight)
    needed = [gradient, x if for_weight else None, weight if for_input else None]
    moved = [*read(*needed), *write(tensors(call.out) or list(_outs(call)))]
    return Cost(gradient.numel * for_bias, each * (for_input + for_weight), moved)


def _outs(call: Call) -> list[T]:
    return tensors([call.kwargs[name] for name in call.writes_kwargs if name in call.kwargs])


@formula("aten::conv_tbc")
def conv_tbc(call: Call) -> Cost:
    """Time, batch, channels by (kernel, Cin, Cout): each output takes kernel * Cin MAC, and its bias."""
    weight, result = call.args[1], call.result()
    return Cost(result.numel, flops_of_macs(result.numel * weight.shape[0] * weight.shape[1], weight.dtype))


@formula("aten::conv_tbc_backward")
def conv_tbc_backward(call: Call) -> Cost:
    """Input and weight gradients, each as the forward; the bias sums."""
    gradient, weight = call.args[0], call.args[2]
    each = flops_of_macs(gradient.numel * weight.shape[0] * weight.shape[1], weight.dtype)
    return Cost(gradient.numel, 2 * each)
