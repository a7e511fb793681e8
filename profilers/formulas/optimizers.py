"""Optimizer steps: the foreach family (one call for a list of tensors) and the fused operators.

A foreach operator does to each tensor of its list what the plain operator of its name does. A fused optimizer is the
sum of the foreach calls that torch's unfused optimizer makes, so both ways of running one come out equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.pointwise import flops_per_element, scaled
from wcbench.profilers.formulas.traffic import Access, Call, read, tensors, write

FOREACH = """
abs acos asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lgamma log log10 log1p log2
maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
"""


def elements(call: Call) -> int:
    """Elements of the lists that are worked on; ``_foreach_pow.ScalarAndTensor`` has its list second."""
    return sum(tensor.numel for tensor in tensors(call.args[0] if tensors(call.args[0]) else call.args[1]))


def _foreach(flops: int) -> Callable[[Call], Cost]:
    return lambda call: Cost(flops * elements(call))


for _name in FOREACH.split():
    formula(f"aten::_foreach_{_name}")(_foreach(flops_per_element(_name)))


@formula(*aten("_foreach_add _foreach_sub"))
def foreach_add(call: Call) -> Cost:
    """a + alpha * b"""
    return Cost((1 + scaled(call.option("alpha", 1))) * elements(call))


@formula("aten::_foreach_lerp")
def foreach_lerp(call: Call) -> Cost:
    """start + weight * (end - start)"""
    return Cost(3 * elements(call))


@formula(*aten("_foreach_addcmul _foreach_addcdiv"))
def foreach_addcmul(call: Call) -> Cost:
    """self + value * (a * b), one value for all, or one for each tensor."""
    values = call.arg(3, "value" if call.overload.startswith("Scalar") else "scalars", 1)
    if isinstance(values, (list, tuple)) and not isinstance(values, T):
        pairs = zip(tensors(call.args[0]), values, strict=True)
        return Cost(sum((2 + scaled(value)) * tensor.numel for tensor, value in pairs))
    return Cost((2 + scaled(values)) * elements(call))


@formula(*aten("_fused_adam _fused_adamw"))
def fused_adam(call: Call) -> Cost:
    """Each parameter: m = lerp(m, g) 3; v = b2 * v + (1 - b2) * g * g: 4; sqrt(v) / c + eps: 3; p - a * m / that: 3;
    weight decay g + w * p: 2, decoupled (AdamW) p * (1 - lr * w): 1. amsgrad compares; the step counters are counted
    by an operator of their own."""
    decay = _positive(call.option("weight_decay")) * (1 if "adamw" in call.name else 2)
    return _fused(call, 13 + decay, steps_at=5)


@formula("aten::_fused_sgd")
def fused_sgd(call: Call) -> Cost:
    """p - lr * g: 2; weight decay g + w * p: 2; momentum k * buffer + (1 - damping) * g: 2 or 3, a copy in the first
    step; Nesterov g + k * buffer: 2."""
    each = 2 + 2 * _positive(call.option("weight_decay"))
    if _positive(call.option("momentum")):
        if not call.option("is_first_step", False):
            each += 2 + scaled(1 - call.option("dampening", 0))
        each += 2 * bool(call.option("nesterov", False))
    return _fused(call, each)


@formula("aten::_fused_adagrad")
def fused_adagrad(call: Call) -> Cost:
    """s + g * g: 2; sqrt(s) + eps: 2; p - rate * g / that: 3; weight decay g + w * p: 2."""
    return _fused(call, 7 + 2 * _positive(call.option("weight_decay")), steps_at=3)


def _positive(value: Any) -> bool:
    return isinstance(value, T) or bool(value)


def _fused(call: Call, each: int, *, steps_at: int | None = None) -> Cost:
    """Parameters and states are read and written, gradients are read, and written only where the operator unscales
    them (1 FLOP); step counters are read."""
    parameters, gradients, *states = call.args
    unscaled = isinstance(call.option("grad_scale"), T)
    counters = call.args[steps_at] if steps_at is not None else ()
    changed = tensors([parameters, [state for state in states if state is not counters]])
    first = bool(call.option("is_first_step", False))  # buffers are written but not read
    moved: list[Access] = read(parameters if first else changed, gradients, counters, tensors(dict(call.kwargs)))
    if call.writes:
        moved += write(changed, gradients if unscaled else ())
    else:  # the functional form returns new tensors
        moved += write(tensors(call.out))
    return Cost((each + unscaled) * sum(p.numel for p in tensors(parameters)), accesses=moved)
