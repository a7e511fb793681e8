"""Reductions and scans: 1 FLOP per input element for what adds or multiplies, 0 for what only compares.

n = elements of the input, m = elements of the result.
"""

from __future__ import annotations

import math
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Call, read, scatter, tensors

# comparing, ordering, searching: no arithmetic
ORDER = """
max min amax amin aminmax _aminmax argmax argmin all any _is_all_true _is_any_true median nanmedian mode kthvalue sort
msort argsort topk cummax cummin _cummax_helper _cummin_helper nonzero nonzero_static argwhere unique_dim
unique_consecutive unique_dim_consecutive _unique _unique2 searchsorted bucketize hash_tensor _foreach_max
"""
ADDING = "sum nansum prod cumsum cumprod count_nonzero bincount histc histogram segment_reduce _segment_reduce_backward"


def source(call: Call) -> T:
    """The tensor that is reduced: the first argument, which may be the first of a list."""
    return tensors(call.args)[0]


@formula(*aten(ORDER))
def order(_: Call) -> Cost:
    return Cost()


@formula(*aten(ADDING))
def total(call: Call) -> Cost:
    """One addition, multiplication or count for every input element."""
    return Cost(source(call).numel)


@formula("aten::trace")
def trace(call: Call) -> Cost:
    """The diagonal's elements are added; only they are read."""
    return Cost(min(source(call).shape))


@formula("aten::mean")
def mean(call: Call) -> Cost:
    """A sum, and one division for each result: n + m."""
    return Cost(source(call).numel + call.result().numel)


@formula("aten::nanmean")
def nanmean(call: Call) -> Cost:
    """A sum, a count and a division: 2n + m."""
    return Cost(2 * source(call).numel + call.result().numel)


@formula(*aten("var std var_mean std_mean"))
def variance(call: Call) -> Cost:
    """Mean (n + m), differences (n), squares (n), their sum (n), a division (m), for std a root (m)."""
    root = call.name.startswith("aten::std")
    return Cost(4 * source(call).numel + (2 + root) * call.result().numel)


def norm_flops(elements: int, results: int, order: Any, *, root: bool = True) -> int:
    """|x|^p summed, and its p-th root: p = 2 squares and takes a root, p = 1 sums, infinity and 0 compare or count."""
    p = 2.0 if order is None or order == "fro" else float(order)
    if math.isinf(p):
        return 0
    if p in (0.0, 1.0):
        return elements
    return 2 * elements + root * results


@formula(*aten("norm linalg_vector_norm native_norm frobenius_norm linalg__powsum"))
def norm(call: Call) -> Cost:
    order = None if call.name == "aten::frobenius_norm" else call.arg(1, "ord" if "linalg" in call.name else "p", 2)
    root = call.name != "aten::linalg__powsum"
    return Cost(norm_flops(source(call).numel, call.result().numel, order, root=root))


@formula(*aten("_foreach_norm _foreach_powsum"))
def foreach_norm(call: Call) -> Cost:
    """A norm of every tensor in the list."""
    order, root = call.arg(1, "ord", 2), call.name == "aten::_foreach_norm"
    return Cost(sum(norm_flops(each.numel, 1, order, root=root) for each in tensors(call.arg(0, "self"))))


@formula("aten::dist")
def dist(call: Call) -> Cost:
    """The norm of a difference."""
    n = source(call).numel
    return Cost(n + norm_flops(n, 1, call.arg(2, "p", 2)))


@formula(*aten("logsumexp special_logsumexp"))
def logsumexp(call: Call) -> Cost:
    """Minus the maximum (n), exp (n), sum (n), log and plus the maximum (2m)."""
    return Cost(3 * source(call).numel + 2 * call.result().numel)


@formula(*aten("logcumsumexp _logcumsumexp"))
def logcumsumexp(call: Call) -> Cost:
    """Each step max + log1p(exp(min - max)): 4 FLOPs."""
    return Cost(4 * source(call).numel)


@formula(*aten("_softmax softmax special_softmax _safe_softmax _masked_softmax"))
def softmax(call: Call) -> Cost:
    """Minus the row's maximum (n), exp (n), the row's sum (n), division by it (n); the maximum compares (0)."""
    return Cost(4 * source(call).numel)


@formula(*aten("_log_softmax log_softmax special_log_softmax"))
def log_softmax(call: Call) -> Cost:
    """Minus the maximum (n), exp (n), sum (n), log (one a row), minus it (n)."""
    x = source(call)
    return Cost(4 * x.numel + rows(x, call.arg(1, "dim", -1)))


def rows(x: T, dim: int) -> int:
    """How many rows a softmax over ``dim`` has."""
    return x.numel // x.shape[dim] if x.shape and x.numel else min(x.numel, 1)


@formula(*aten("_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward"))
def softmax_backward(call: Call) -> Cost:
    """softmax: g*y (n), its sum (n), y * sum (n), minus (n). log_softmax: sum of g, exp(y), times it, minus: 4n."""
    return Cost(4 * source(call).numel)


@formula(*aten("_cdist_forward cdist"))
def cdist(call: Call) -> Cost:
    """Every pair of rows and column: minus, power, plus (3); p = 1 and infinity need no power (2); a root a pair."""
    result, width, p = call.result(), source(call).shape[-1], call.arg(2, "p", 2.0)
    plain = p == 1 or math.isinf(p)
    return Cost((2 if plain else 3) * result.numel * width + (0 if plain else result.numel))


@formula(*aten("_cdist_backward"))
def cdist_backward(call: Call) -> Cost:
    """For every pair and column: minus, over the distance, times the gradient, plus."""
    gradient: T = call.arg(0, "grad_output")
    x1: T = call.arg(1, "x1")
    return Cost(4 * gradient.numel * x1.shape[-1])


@formula(*aten("_pdist_forward _pdist_backward"))
def pdist(call: Call) -> Cost:
    """Pairs of rows times columns: 3 FLOPs (and a root a pair) forward, 4 backward, as for cdist."""
    if call.name.endswith("backward"):
        gradient, x = call.arg(0, "grad_output"), call.arg(1, "self")
        return Cost(4 * gradient.numel * x.shape[-1])
    return Cost(3 * call.result().numel * source(call).shape[-1] + call.result().numel)


@formula("aten::renorm", "aten::embedding_renorm")
def renorm(call: Call) -> Cost:
    """A norm of every slice (2 per element), a multiplication by its factor (1); a root and the factor 4 a slice."""
    if call.name.startswith("aten::embedding_renorm"):
        indices: T = call.arg(1, "indices")
        table, count = source(call), indices.numel
        moved = [*read(indices), *scatter(table, count, table.shape[-1], accumulate=True)]
        return Cost(count * (3 * table.shape[-1] + 4), accesses=moved, note="every indexed row is taken to be scaled")
    return Cost(3 * source(call).numel + 4 * source(call).shape[call.args[2]])
