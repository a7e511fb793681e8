"""Elementwise operators: FLOPs for each output element, as tables.

Arithmetic and transcendental functions count 1. What only compares, selects, rounds, casts or handles sign bits
counts 0: IEEE 754 (5.5.1) lists negate, abs and copySign with copy, as operations on the sign bit; so ``a - b`` and
``a + (-b)`` come out equal (pytorch issue 82951). Logic and bits count 0 too; arithmetic of integers and of complex
numbers counts as that of reals. Composed activations count the sum of their parts, written beside them.
"""

from __future__ import annotations

from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import REGISTRY, Cost, formula
from wcbench.profilers.formulas.traffic import Call, tensors

COMPARE_SELECT_ROUND = """
eq ne lt le gt ge not_equal less less_equal greater greater_equal equal isclose allclose isnan isinf isfinite isneginf
isposinf isreal isin logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__
__ilshift__ __irshift__ where maximum minimum fmax fmin clamp clamp_min clamp_max clip relu relu6 hardtanh threshold
hardshrink masked_fill sign sgn signbit neg negative abs absolute copysign nan_to_num heaviside floor ceil trunc fix
round special_round nextafter frexp threshold_backward hardtanh_backward hardshrink_backward softshrink_backward
"""

ONE = """
mul multiply div divide true_divide floor_divide reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan
asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh atan2 arctan2 erf erfc
erfinv lgamma digamma polygamma mvlgamma i0 igamma igammac pow float_power square fmod remainder gcd lcm hypot frac
deg2rad rad2deg sinc angle ldexp sigmoid leaky_relu leaky_relu_backward _prelu_kernel prelu softshrink
rrelu_with_noise rrelu_with_noise_functional rrelu rrelu_with_noise_backward polar logaddexp logaddexp2 logit
subtract _dirichlet_grad _standard_gamma_grad special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_entr special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he
special_i0e special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr
special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
special_ndtri special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta special_expit special_expm1
special_exp2 special_log1p special_erf special_erfc special_erfinv special_gammaln special_digamma special_psi
special_polygamma special_i0 special_sinc special_ndtr special_logit special_gammainc special_gammaincc
"""

# composed functions: FLOPs per output element, and of what
COMPOSED = {
    "xlogy": 2,  # x * log y
    "special_xlogy": 2,
    "special_xlog1py": 2,
    "silu": 2,  # x * sigmoid(x)
    "silu_backward": 6,  # g * s * (1 + x * (1 - s)): sigmoid, 1-, x*, 1+, s*, g*
    "mish": 4,  # x * tanh(log1p(exp x))
    "mish_backward": 11,  # sp (2), t = tanh sp, s = sigmoid x, g * (t + x * s * (1 - t * t)) (6), s's part again 1
    "sigmoid_backward": 3,  # g * (1 - y) * y
    "tanh_backward": 3,  # g * (1 - y * y)
    "logit_backward": 3,  # g / (x * (1 - x))
    "elu": 2,  # alpha * expm1(x)
    "celu": 3,  # alpha * expm1(x / alpha)
    "selu": 3,  # scale * alpha * expm1(x)
    "elu_backward": 3,  # g * scale * (y + alpha), or g * scale * alpha * exp(x)
    "softplus": 2,  # log1p(exp x); beta = 1
    "softplus_backward": 4,  # z = exp x; g * z / (z + 1)
    "hardsigmoid": 2,  # relu6(x + 3) / 6
    "hardsigmoid_backward": 1,  # g / 6
    "hardswish": 3,  # x * relu6(x + 3) / 6
    "hardswish_backward": 3,  # g * (x / 3 + 1/2)
    "log_sigmoid_forward": 3,  # min(0, x) - log1p(exp(-|x|))
    "log_sigmoid": 3,
    "log_sigmoid_backward": 5,  # z = exp(-|x|); g * (max - sign * (z / (1 + z)))
    "glu": 2,  # a * sigmoid(b)
    "glu_jvp": 7,  # da * s + a * s * (1 - s) * db, and sigmoid
    "glu_backward_jvp": 20,  # the derivative of six products and a sigmoid, by the product rule
    "_prelu_kernel_backward": 2,  # g * w for x and g * x for w
    "hann_window": 4,  # scale of the index, cos, times, minus
    "hamming_window": 4,
    "blackman_window": 8,  # two cosines
    "kaiser_window": 8,  # square, root and Bessel function of the scaled index
    "fake_quantize_per_tensor_affine_cachemask": 4,  # times 1/scale, plus zero point, minus it, times scale
    "fake_quantize_per_channel_affine_cachemask": 4,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": 4,
    "_fake_quantize_learnable_per_tensor_affine": 4,
    "_fake_quantize_learnable_per_channel_affine": 4,
    "_masked_scale": 1,  # selected by the mask, times the scale
}

# x * Phi(x): x*k, erf, 1+, x/2, *;  tanh form: x*x, *x, *c, x+, *k, tanh, 1+, x/2, *
GELU = {"none": 5, "tanh": 9}
# exact: cdf (x*k, erf, 1+, /2), pdf (x*x, *-1/2, exp, *c), g * (cdf + x * pdf)
# tanh: inner (5), tanh, x/2, 1+, their product's derivative (1 - t*t: 2; k*(1 + 3c*x*x): 3; products 2; left 1), g*(+)
GELU_BACKWARD = {"none": 11, "tanh": 18}


def _register() -> None:
    zero, one = _fixed(0), _fixed(1)
    formula(*aten(COMPARE_SELECT_ROUND))(zero)
    formula(*aten(ONE))(one)
    for name, flops in COMPOSED.items():
        formula(f"aten::{name}")(_fixed(flops))


def _fixed(flops: int) -> Any:
    """The formula of an operator that does ``flops`` for every element of its (first) result."""

    def elementwise(call: Call) -> Cost:
        return Cost(flops * call.result().numel if flops else 0)

    elementwise.flops = flops  # type: ignore[attr-defined]  # the foreach family reads it
    return elementwise


def scaled(factor: Any) -> int:
    """1 where a factor multiplies: any but the number 1, a tensor included."""
    return int(isinstance(factor, T) or factor != 1)


@formula(*aten("add sub rsub"))
def add(call: Call) -> Cost:
    """a + alpha * b: one addition, and one multiplication where alpha is not 1."""
    alpha = call.arg(2, "alpha", 1)
    return Cost((1 + scaled(alpha)) * call.result().numel)


@formula("aten::_add_relu")
def add_relu(call: Call) -> Cost:
    """max(0, a + alpha * b)"""
    return add(call)


@formula(*aten("addcmul addcdiv"))
def addcmul(call: Call) -> Cost:
    """self + value * (a * b), or self + value * (a / b)."""
    return Cost((2 + scaled(call.option("value", 1))) * call.result().numel)


@formula("aten::lerp")
def lerp(call: Call) -> Cost:
    """start + weight * (end - start)"""
    return Cost(3 * call.result().numel)


@formula("aten::gelu")
def gelu(call: Call) -> Cost:
    return Cost(GELU[call.option("approximate", "none")] * call.result().numel)


@formula("aten::gelu_backward")
def gelu_backward(call: Call) -> Cost:
    return Cost(GELU_BACKWARD[call.option("approximate", "none")] * call.result().numel)


@formula("aten::glu_backward")
def glu_backward(call: Call) -> Cost:
    """y = a * s(b), for each element of g: s, g*s for a; (1 - s) * s * g * a for b."""
    gradient: T = call.arg(0, "grad_output")
    return Cost(6 * gradient.numel)


@formula(*aten("native_dropout _fused_dropout"))
def native_dropout(call: Call) -> Cost:
    """The mask is random (0) and selects (0); what is kept is scaled (1). Without training it is a copy."""
    training = True if call.name == "aten::_fused_dropout" else call.arg(2, "train")
    return Cost(0 if training is False else call.result().numel)


@formula(*aten("native_dropout_backward"))
def native_dropout_backward(call: Call) -> Cost:
    """Selected by the mask, times the scale."""
    return Cost(call.result().numel)


@formula(*aten("_amp_foreach_non_finite_check_and_unscale"))
def unscale(call: Call) -> Cost:
    """Each gradient times the inverse scale; the check compares."""
    return Cost(sum(tensor.numel for tensor in tensors(call.arg(0, "self"))))


@formula("aten::_amp_update_scale")
def update_scale(call: Call) -> Cost:
    """The scale times its growth or backoff factor, and the count of good steps plus 1."""
    return Cost(2)


_register()


def flops_per_element(name: str) -> int:
    """FLOPs per element of a table's operator, by its name without namespace; KeyError for others."""
    return int(getattr(REGISTRY[f"aten::{name}"], "flops"))  # noqa: B009  (an attribute that functions may carry)
