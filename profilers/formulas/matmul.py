"""Matrix products in all their spellings: 2 FLOP for each multiply-accumulate (MAC), m*k by k*n is m*n*k MAC.

A complex MAC is four real ones. Bias and scaling stand outside the matrix-class count: the bias is one addition for
each output, ``beta`` one multiplication for each element of the added tensor and ``alpha`` one for each output, where
they are not 1; with ``beta`` 0 the added tensor is neither read nor added.
"""

from __future__ import annotations

from math import prod
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, Uncounted, formula
from wcbench.profilers.formulas.pointwise import GELU, scaled
from wcbench.profilers.formulas.traffic import Call, inputs, read, tensors, writes


def flops_of_macs(macs: int, dtype: str) -> int:
    """2 for each, complex numbers 8."""
    return macs * (8 if dtype.startswith("complex") else 2)


def product_macs(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """MAC of ``a @ b`` by torch.matmul's rules: vectors are a row or a column, leading dimensions broadcast."""
    rows = (1, *a) if len(a) == 1 else a
    columns = (*b, 1) if len(b) == 1 else b
    return prod(broadcast(rows[:-2], columns[:-2])) * rows[-2] * rows[-1] * columns[-1]


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which two shapes broadcast."""
    width = max(len(a), len(b))
    pairs = zip((1,) * (width - len(a)) + tuple(a), (1,) * (width - len(b)) + tuple(b), strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def product(a: T, b: T) -> int:
    """FLOPs of ``a @ b``."""
    return flops_of_macs(product_macs(a.shape, b.shape), a.dtype)


@formula(*aten("mm bmm mv dot vdot matmul linalg_matmul inner _int_mm _sparse_mm"))
def matmul(call: Call) -> Cost:
    if call.name == "aten::inner":  # over the last dimension of both
        a, b = call.args[0], call.args[1]
        return Cost(matrix=flops_of_macs(a.numel * b.numel // max(1, a.shape[-1]), a.dtype))
    return Cost(matrix=product(call.args[0], call.args[1]))


@formula(*aten("_foreach_mm"))
def foreach_mm(call: Call) -> Cost:
    return Cost(matrix=sum(product(a, b) for a, b in zip(call.args[0], call.args[1], strict=True)))


@formula(*aten("outer ger"))
def outer(call: Call) -> Cost:
    """One multiplication for each output, nothing to accumulate."""
    return Cost(call.result().numel)


@formula(*aten("addmm baddbmm addmv addbmm addr"))
def addmm(call: Call) -> Cost:
    """beta * self + alpha * (a @ b); addbmm adds the batch's products up, addr is an outer product (k = 1)."""
    added, a, b = call.args[0], call.args[1], call.args[2]
    macs = a.numel * b.numel if call.name.startswith("aten::addr") else product_macs(a.shape, b.shape)
    outputs = call.result().numel
    beta, alpha = call.option("beta", 1), call.option("alpha", 1)
    other = outputs * scaled(alpha)
    if isinstance(beta, T) or beta != 0:
        return Cost(other + outputs + added.numel * scaled(beta), flops_of_macs(macs, a.dtype))
    read_inputs = [tensor for tensor in inputs(call) if tensor != added]
    return Cost(other, flops_of_macs(macs, a.dtype), [*read(read_inputs), *writes(call)])


@formula("aten::_addmm_activation")
def addmm_activation(call: Call) -> Cost:
    """addmm followed by relu (0) or by gelu in its tanh form."""
    base, activation = addmm(call), GELU["tanh"] if call.option("use_gelu", False) else 0
    return Cost(base.other + activation * call.result().numel, base.matrix, base.accesses)


@formula(*aten("linear mkldnn_linear _mixed_dtypes_linear"))
def linear(call: Call) -> Cost:
    """(..., k) by (n, k) transposed, and one addition for each output where there is a bias."""
    x, weight = call.args[0], call.args[1]
    bias = call.option("bias") if call.name == "aten::_mixed_dtypes_linear" else call.arg(2, "bias")
    macs = x.numel * (weight.shape[0] if len(weight.shape) > 1 else 1)
    return Cost(call.result().numel if bias is not None else 0, flops_of_macs(macs, x.dtype))


@formula(*aten("linear_backward mkldnn_linear_backward"))
def linear_backward(call: Call) -> Cost:
    """g @ w for the input and g.T @ x for the weight, each as much as the forward; the bias sums g."""
    x, gradient = call.arg(0, "self"), call.arg(1, "grad_output")
    for_input, for_weight, for_bias = call.arg(3, "output_mask", (True, True, True))
    each = flops_of_macs(x.numel * gradient.shape[-1], x.dtype)
    return Cost(gradient.numel * bool(for_bias), each * (bool(for_input) + bool(for_weight)))


@formula("aten::mkldnn_linear_backward_input")
def linear_backward_input(call: Call) -> Cost:
    gradient, weight = call.arg(1, "grad_output"), call.arg(2, "weight")
    return Cost(matrix=product(gradient, weight))


@formula("aten::mkldnn_linear_backward_weights")
def linear_backward_weights(call: Call) -> Cost:
    gradient, x = call.arg(0, "grad_output"), call.arg(1, "input")
    matrix = flops_of_macs(x.numel * gradient.shape[-1], x.dtype)
    return Cost(gradient.numel * bool(call.arg(3, "bias_defined")), matrix)


@formula("aten::matmul_backward")
def matmul_backward(call: Call) -> Cost:
    """Each gradient that is asked for repeats the forward's multiplications."""
    for_self, for_other = call.arg(3, "mask")
    return Cost(matrix=product(call.arg(1, "self"), call.arg(2, "other")) * (bool(for_self) + bool(for_other)))


@formula(*aten("_scaled_mm _scaled_mm_v2 _weight_int8pack_mm"))
def scaled_mm(call: Call) -> Cost:
    """m*k by k*n, and one multiplication by a scale for each output; int8 weights lie as n*k."""
    a, result = call.args[0], call.result()
    position = {"aten::_scaled_mm": 4, "aten::_scaled_mm_v2": 8}.get(call.name)
    bias = None if position is None else call.arg(position, "bias")
    return Cost(result.numel * (1 + (bias is not None)), flops_of_macs(a.shape[-1] * result.numel, a.dtype))


@formula(*aten("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2"))
def grouped_mm(call: Call) -> Cost:
    """Every row meets the weights of one group: 2-D by 3-D is m*k*n whatever the groups' sizes, and so is 3-D by 2-D;
    2-D by 2-D cuts k, whose parts add up to it; 3-D by 3-D is a bmm."""
    a, b = call.args[0], call.args[1]
    groups = a.shape[0] if len(a.shape) == len(b.shape) == 3 else 1
    scaling = call.result().numel if "scaled" in call.name else 0
    return Cost(scaling, flops_of_macs(groups * a.shape[-2] * a.shape[-1] * b.shape[-1], a.dtype))


@formula("aten::_trilinear")
def trilinear(call: Call) -> Cost:
    """Products of three factors over all dimensions, summed over some: two multiplications and one addition each."""
    shapes = [_expanded(call.args[i], call.args[i + 3]) for i in range(3)]
    points = prod(broadcast(broadcast(shapes[0], shapes[1]), shapes[2]))
    return Cost(matrix=3 * points)


def _expanded(tensor: T, dims: list[int]) -> tuple[int, ...]:
    shape: list[int] = list(tensor.shape)
    for dim in sorted(dims):
        shape.insert(dim, 1)
    return tuple(shape)


@formula("aten::bilinear")
def bilinear(call: Call) -> Cost:
    """x1 (..., i), weight (o, i, j), x2 (..., j): two multiplications and one addition for each (..., o, i, j)."""
    x1, weight, bias = call.args[0], call.args[2], call.arg(3, "bias")
    outputs = call.result().numel
    return Cost(outputs * (bias is not None), 3 * (x1.numel // x1.shape[-1]) * weight.numel)


@formula(*aten("_euclidean_dist"))
def euclidean_dist(call: Call) -> Cost:
    """|a|^2 - 2ab + |b|^2 as one product of rows widened by 2; squares and sums of both, -2a, a root each result."""
    a, b, result = call.args[0], call.args[1], call.result()
    macs = result.numel * (a.shape[-1] + 2)
    return Cost(3 * a.numel + 2 * b.numel + result.numel, flops_of_macs(macs, a.dtype))


@formula(*aten("affine_grid_generator cudnn_affine_grid_generator"))
def affine_grid(call: Call) -> Cost:
    """A hidden batched product: each of N*H*W base points (x, y, 1) by a 3 x 2 matrix, in space 4 x 3.

    Matrix-class, as its backward shows as a bmm.
    """
    grid = call.result()
    axes = grid.shape[-1]
    return Cost(matrix=2 * grid.numel * (axes + 1))


@formula("aten::cudnn_affine_grid_generator_backward")
def affine_grid_backward(call: Call) -> Cost:
    """The base points transposed by the gradient: as many multiplications as the forward."""
    gradient: T = call.args[0]
    return Cost(matrix=2 * gradient.numel * (gradient.shape[-1] + 1))


@formula("aten::einsum")
def einsum(call: Call) -> Cost:
    """Shows as itself only where nothing decomposes it; its cost depends on the path, which is not an argument."""
    raise Uncounted(f"{len(tensors(call.args))} factors are contracted along a path that the call does not show")


@formula("aten::_transform_bias_rescale_qkv")
def bias_rescale_qkv(call: Call) -> Cost:
    """Bias for q, k and v, and q divided by the root of its width."""
    qkv: Any = call.args[0]
    return Cost(qkv.numel + qkv.numel // 3)
