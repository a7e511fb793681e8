"""Elementwise operators, reductions and interpolation by hand; in place and out of place count alike."""

# ruff: noqa: PLW0108  (methods inlined would be bound before the recorder looks)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from wcbench.profilers.formulas import Call, formula, known
from wcbench.profilers.formulas.pointwise import COMPARE_SELECT_ROUND, COMPOSED, ONE

Record = Callable[..., Any]
A, B = torch.rand(2, 3) + 0.5, torch.rand(2, 3) + 0.5

BY_HAND: dict[str, tuple[Callable[[], Any], int]] = {
    "a - b": (lambda: A - B, 6),
    "a + b": (lambda: A + B, 6),
    "a + (-b)": (lambda: A + (-B), 6),  # a sign is no arithmetic
    "a * b": (lambda: A * B, 6),
    "a / b": (lambda: A / B, 6),
    "a + 2b": (lambda: torch.add(A, B, alpha=2), 12),
    "1 - a": (lambda: 1 - A, 6),
    "row broadcast": (lambda: A + B[0], 6),
    "exp": (lambda: A.exp(), 6),
    "rsqrt": (lambda: A.rsqrt(), 6),
    "pow": (lambda: A**3, 6),
    "compare": (lambda: A > B, 0),
    "select": (lambda: torch.where(A > B, A, B), 0),
    "relu": (lambda: A.relu(), 0),
    "clamp": (lambda: A.clamp(0, 1), 0),
    "abs": (lambda: A.abs(), 0),
    "round": (lambda: A.round(), 0),
    "cast": (lambda: A.double(), 0),
    "copy": (lambda: A.clone(), 0),
    "transpose": (lambda: A.t(), 0),
    "fill": (lambda: torch.zeros(2, 3), 0),
    "random": (lambda: torch.rand(2, 3), 0),
    "sort": (lambda: A.sort(), 0),
    "topk": (lambda: A.topk(2), 0),
    "argmax": (lambda: A.argmax(), 0),
    "maximum": (lambda: A.amax(0), 0),
    "sum": (lambda: A.sum(), 6),
    "sum of columns": (lambda: A.sum(0), 6),
    "mean": (lambda: A.mean(), 6 + 1),
    "cumsum": (lambda: A.cumsum(0), 6),
    "product": (lambda: A.prod(), 6),
    "norm": (lambda: torch.linalg.vector_norm(A), 6 + 6 + 1),
    "norm 1": (lambda: torch.linalg.vector_norm(A, 1), 6),
    "norm inf": (lambda: torch.linalg.vector_norm(A, float("inf")), 0),
    "variance": (lambda: A.var(1), 4 * 6 + 2 * 2),
    "deviation": (lambda: A.std(1), 4 * 6 + 3 * 2),
    "logsumexp": (lambda: torch.logsumexp(A, 1), 3 * 6 + 2 * 2),
    "softmax": (lambda: A.softmax(1), 4 * 6),
    "log_softmax": (lambda: A.log_softmax(1), 4 * 6 + 2),
    "addcmul": (lambda: torch.addcmul(A, A, B), 12),
    "addcmul with value": (lambda: torch.addcmul(A, A, B, value=3), 18),
    "lerp": (lambda: torch.lerp(A, B, 0.3), 18),
    "silu": (lambda: F.silu(A), 12),
    "gelu tanh": (lambda: F.gelu(A, approximate="tanh"), 9 * 6),
    "mse": (lambda: F.mse_loss(A, B), 2 * 6 + 6 + 1),
    "outer": (lambda: torch.outer(A[0], B[0]), 9),
    # (1, 1, 4, 4) into 2x2: 4 additions and a division for each of 4 results
    "average pool": (lambda: F.avg_pool2d(torch.ones(1, 1, 4, 4), 2), 4 * 5),
    "maximum pool": (lambda: F.max_pool2d(torch.ones(1, 1, 4, 4), 2), 0),
    # 5 into 2 windows: 0..3 and 2..5, so 3 + 3 additions and 2 divisions
    "adaptive pool": (lambda: F.adaptive_avg_pool1d(torch.ones(1, 1, 5), 2), 3 + 3 + 2),
    # 8 points: 5 * 8 * log2(8) for each of 4 rows; a real transform half of it
    "fft": (lambda: torch.fft.fft(torch.ones(4, 8, dtype=torch.complex64)), 4 * 120),
    "rfft": (lambda: torch.fft.rfft(torch.ones(4, 8)), 4 * 60),
    "irfft": (lambda: torch.fft.irfft(torch.ones(4, 5, dtype=torch.complex64)), 4 * 60 + 32),  # and 1/N
    "cholesky": (lambda: torch.linalg.cholesky(torch.eye(6)), 72),  # 6^3 / 3
    "scatter_add": (lambda: torch.zeros(2, 3).scatter_add(0, torch.zeros(1, 3, dtype=torch.int64), A), 3),
    "index_add": (lambda: torch.zeros(2, 3).index_add(0, torch.tensor([1, 1]), A), 6),
    "embedding": (lambda: F.embedding(torch.tensor([0, 1, 1]), A), 0),
    "embedding bag": (lambda: F.embedding_bag(torch.tensor([[0, 1], [1, 1]]), A, mode="sum"), 12),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(record: Record, name: str) -> None:
    function, flops = BY_HAND[name]
    recorded = record(function)
    assert recorded.notes() == []
    assert recorded.flops() == flops
    assert recorded.matrix() == 0


def test_case_37_a_difference_counts_like_a_sum_with_the_sign_turned(record: Record) -> None:
    assert record(lambda: A - B).flops() == record(lambda: A + (-B)).flops() == record(lambda: A + B).flops() == 6


@pytest.mark.parametrize(
    "scale", [{"scale_factor": 2}, {"scale_factor": (2.0, 2.0)}, {"size": (448, 448)}, {"size": 448}]
)
def test_case_42_interpolation_however_the_scale_is_given(record: Record, scale: dict[str, Any]) -> None:
    x = torch.randn(1, 3, 224, 224)
    bilinear = record(lambda: F.interpolate(x, mode="bilinear", **scale))
    # 448*448*3 results, three interpolations a + w * (b - a) of 3 FLOPs each
    assert bilinear.flops() == 448 * 448 * 3 * 9 == 5_419_008
    assert record(lambda: F.interpolate(x, mode="nearest", **scale)).flops() == 0
    (done,) = bilinear.works()
    assert (done.bytes_read, done.bytes_written) == (4 * 3 * 224**2, 4 * 3 * 448**2)


IN_PLACE = ["add", "sub", "mul", "div", "pow", "clamp_min", "addcmul", "addcdiv", "lerp", "atan2", "fmod"]
ALONE = ["exp", "relu", "neg", "sqrt", "sigmoid", "tanh", "silu", "gelu", "erf", "log1p", "abs", "floor", "reciprocal"]


@pytest.mark.parametrize("name", IN_PLACE + ALONE)
def test_in_place_counts_the_same_flops_and_reads_and_writes_its_target(record: Record, name: str) -> None:
    aten = torch.ops.aten
    target, other = torch.ones(4, 5), torch.ones(4, 5)
    more = [] if name in ALONE else [other, other] if name.startswith("addc") else [other]
    more = [other, 0.5] if name == "lerp" else more
    (plain,) = record(lambda: getattr(aten, name)(target.clone(), *more)).works()[1:]
    (changed,) = record(lambda: getattr(aten, f"{name}_")(target, *more)).works()
    assert changed.flops_all == plain.flops_all
    assert changed.bytes_read == plain.bytes_read
    assert changed.bytes_written == plain.bytes_written == 80


def test_out_variants_count_the_same_and_do_not_read_their_target(record: Record) -> None:
    into = torch.empty(2, 3)
    (plain,), (out,) = record(lambda: A + B).works(), record(lambda: torch.add(A, B, out=into)).works()
    assert (out.flops_all, out.bytes_read, out.bytes_written) == (plain.flops_all, 48, 24)
    assert (plain.bytes_read, plain.bytes_written) == (48, 24)


def test_a_name_is_registered_once() -> None:
    names = [*COMPARE_SELECT_ROUND.split(), *ONE.split(), *COMPOSED]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError, match="Two formulas are registered for aten::mm"):
        formula("aten::mm")(lambda call: None)  # type: ignore[arg-type, return-value]


def test_known() -> None:
    assert known("aten::add")
    assert known("aten::add_", "Tensor")
    assert known("aten::__and__", "Tensor")
    assert not known("aten::no_such_operator")
    assert not known("custom::add")


def test_odd_input_never_raises() -> None:
    from wcbench.profilers.formulas import T, work

    for args in ((), (None,), ("text", 3.0), ([],), (T(1, 0, 0, (2,), (1,), "float1024"),)):
        for name in ("aten::addmm", "aten::mean", "aten::convolution", "aten::index_put", "aten::_fused_adam_", "x::y"):
            done = work(Call(name, "", args))
            assert not done.covered
            assert done.note is not None
            assert done.note.startswith(name)
