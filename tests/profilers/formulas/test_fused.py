"""Fused operators against torch's own decompositions, which are recorded and counted part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._decomp import decomposition_table

Record = Callable[..., Any]
aten = torch.ops.aten
G, Y, W, P = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8), torch.softmax(torch.randn(4, 8), 1)
IMAGE, GRADIENT, C = torch.randn(2, 4, 5, 5), torch.randn(2, 4, 5, 5), torch.rand(4) + 0.5
MEAN, RSTD = Y.mean(1, keepdim=True), 1 / Y.std(1, keepdim=True)
EVERY = [True, True, True]

EQUAL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "softmax": (aten._softmax.default, (Y, 1, False)),
    "log_softmax": (aten._log_softmax.default, (Y, 1, False)),
    "softmax backward": (aten._softmax_backward_data.default, (G, P, 1, torch.float32)),
    "log_softmax backward": (aten._log_softmax_backward_data.default, (G, P, 1, torch.float32)),
    "layer norm": (aten.native_layer_norm.default, (Y, [8], W, W, 1e-5)),
    "layer norm, plain": (aten.native_layer_norm.default, (Y, [8], None, None, 1e-5)),
    "layer norm backward": (aten.native_layer_norm_backward.default, (G, Y, [8], MEAN, RSTD, W, W, EVERY)),
    "batch norm": (aten.native_batch_norm.default, (IMAGE, C, C, C, C, True, 0.1, 1e-5)),
    "batch norm, fixed": (aten.native_batch_norm.default, (IMAGE, C, C, C, C, False, 0.1, 1e-5)),
    "batch norm backward": (
        aten.native_batch_norm_backward.default,
        (GRADIENT, IMAGE, C, C, C, C, C, True, 1e-5, EVERY),
    ),
    "group norm": (aten.native_group_norm.default, (IMAGE, C, C, 2, 4, 25, 2, 1e-5)),
    "group norm, no bias": (aten.native_group_norm.default, (IMAGE, C, None, 2, 4, 25, 2, 1e-5)),
    "group norm, plain": (aten.native_group_norm.default, (IMAGE, None, None, 2, 4, 25, 2, 1e-5)),
    "group norm backward": (
        aten.native_group_norm_backward.default,
        (GRADIENT, IMAGE, C.view(2, 2), C.view(2, 2), C, 2, 4, 25, 2, EVERY),
    ),
    "gelu backward": (aten.gelu_backward.default, (G, Y)),
    "silu": (aten.silu.default, (Y,)),
    "silu backward": (aten.silu_backward.default, (G, Y)),
    "mish": (aten.mish.default, (Y,)),
    "sigmoid backward": (aten.sigmoid_backward.default, (G, Y)),
    "tanh backward": (aten.tanh_backward.default, (G, Y)),
    "hardswish": (aten.hardswish.default, (Y,)),
    "hardswish backward": (aten.hardswish_backward.default, (G, Y)),
    "hardsigmoid": (aten.hardsigmoid.default, (Y,)),
    "hardsigmoid backward": (aten.hardsigmoid_backward.default, (G, Y)),
    "softplus": (aten.softplus.default, (Y,)),
    "log sigmoid": (aten.log_sigmoid_forward.default, (Y,)),
    "log sigmoid backward": (aten.log_sigmoid_backward.default, (G, Y, Y)),
    "glu": (aten.glu.default, (Y,)),
    "glu backward": (aten.glu_backward.default, (G[:, :4], Y, 1)),
    "prelu backward": (aten._prelu_kernel_backward.default, (G, Y, Y)),
    "logit backward": (aten.logit_backward.default, (G, Y)),
    "mse": (aten.mse_loss.default, (Y, G)),
    "mse backward": (aten.mse_loss_backward.default, (G, Y, G, 0)),
    "smooth l1": (aten.smooth_l1_loss.default, (Y, G)),
    "smooth l1 backward": (aten.smooth_l1_loss_backward.default, (G, Y, G, 0, 1.0)),
    "huber": (aten.huber_loss.default, (Y, G)),
    "huber backward": (aten.huber_loss_backward.default, (G, Y, G, 0, 1.0)),
    "soft margin": (aten.soft_margin_loss.default, (Y, G)),
    "soft margin backward": (aten.soft_margin_loss_backward.default, (G, Y, G, 0)),
    "bce": (aten.binary_cross_entropy.default, (P, P)),
    "bce backward": (aten.binary_cross_entropy_backward.default, (G, P, P)),
    "bce with logits": (aten.binary_cross_entropy_with_logits.default, (Y, P)),
    "logsumexp": (aten.logsumexp.default, (Y, [1])),
    "weight norm": (aten._weight_norm_interface.default, (Y, MEAN)),
    "renorm": (aten.renorm.default, (Y, 2, 0, 1.0)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_a_fused_operator_is_the_sum_of_its_decomposition(record: Record, name: str) -> None:
    operator, args = EQUAL[name]
    args = tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in args)
    (fused,) = record(lambda: operator(*args)).works()
    parts = record(lambda: decomposition_table[operator](*args))
    assert parts.notes() == []
    assert fused.covered
    assert fused.flops_all == parts.flops()


def optimizer_flops(record: Record, make: Callable[..., torch.optim.Optimizer], **how: Any) -> int:
    """FLOPs of the second step, on 17 parameters."""
    parameters = [nn.Parameter(torch.ones(3, 4)), nn.Parameter(torch.ones(5))]
    optimizer = make(parameters, **how)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    recorded = record(optimizer.step)
    assert recorded.notes() == []
    counted: int = recorded.flops()
    return counted


OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any], int]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 2),  # p - lr * g
    "sgd momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 2 + 2),  # k * b + g
    "sgd decay": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, 2 + 2 + 2),
    "sgd damped": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, 2 + 3),
    "sgd nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, 2 + 2 + 2),
    "adam": (torch.optim.Adam, {}, 13),  # lerp 3, v 4, root, division and eps 3, step 3
    "adam decay": (torch.optim.Adam, {"weight_decay": 0.1}, 15),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}, 13),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}, 14),
    "adagrad": (torch.optim.Adagrad, {}, 7),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_foreach_and_loop_are_one_number(record: Record, name: str) -> None:
    make, options, each = OPTIMIZERS[name]
    foreach = optimizer_flops(record, make, foreach=True, **options)
    fused = optimizer_flops(record, make, fused=True, **options)
    counters = 0 if make is torch.optim.SGD else 2  # one addition for each parameter's step counter
    assert foreach == fused == each * 17 + counters
    assert optimizer_flops(record, make, foreach=False, **options) == foreach


def test_fused_adam_moves_each_state_once(record: Record) -> None:
    parameter = nn.Parameter(torch.ones(6, 4))
    optimizer = torch.optim.Adam([parameter], fused=True)
    parameter.grad = torch.ones(6, 4)
    optimizer.step()
    (done,) = record(optimizer.step).named("aten::_fused_adam_")
    # parameter, gradient and two moments are read, all but the gradient written; a step counter is read
    assert (done.bytes_read, done.bytes_written) == (4 * 24 * 4 + 4, 3 * 24 * 4)


def test_dropout_scales_what_it_keeps(record: Record) -> None:
    (done,) = record(lambda: aten.native_dropout(Y, 0.5, True)).works()
    assert (done.flops_all, done.bytes_read, done.bytes_written) == (32, 128, 128 + 32)
    (still,) = record(lambda: aten.native_dropout(Y, 0.5, False)).works()
    assert still.flops_all == 0


def test_running_statistics_are_written_in_training_and_read_otherwise(record: Record) -> None:
    mean, variance = torch.zeros(4), torch.ones(4)
    weights = (C, C, mean, variance)
    (training,) = record(lambda: aten.native_batch_norm(IMAGE, *weights, True, 0.1, 1e-5)).works()
    (fixed,) = record(lambda: aten.native_batch_norm(IMAGE, *weights, False, 0.1, 1e-5)).works()
    # 200 elements and weight (given twice, so once), mean, variance; out, two saved statistics and the running ones
    assert (training.bytes_read, training.bytes_written) == (4 * (200 + 4 + 4 + 4), 4 * (200 + 4 + 4 + 4 + 4))
    assert (fixed.bytes_read, fixed.bytes_written) == (4 * (200 + 12), 4 * 200)
