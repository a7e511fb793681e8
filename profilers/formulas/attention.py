"""Scaled dot-product attention, whole operators: flash, memory-efficient, cuDNN, CPU, and the composite.

With B batches, H query heads, L queries, S keys, widths E (query, key) and Ev (value), P = B*H*L*S scores:

* forward, matrix-class: scores 2*P*E, output 2*P*Ev. Keys and values of grouped queries are shared by heads and not
  computed twice, so the heads are the query's (pytorch issue 177169).
* backward, matrix-class: these operators keep no scores, so five products: the scores once more (E), gradients of the
  value (Ev), of the probabilities (Ev), of query and key (E each): 2*P*(3E + 2Ev). Attention that runs as separate
  operators shows two products forward and four backward by itself.
* elsewhere, for each score: forward scale, minus the maximum, exp, sum, divide: 5; an additive mask 1, dropout 1.
  Backward scale, minus the log of the sum, exp: 3 (mask 1), p * (dp - delta): 2, scale: 1, dropout 2, and
  delta = sum of g * out: 2 for each output element.

Causal attention (``is_causal``) is counted in full by default, as published tables do; ``half`` takes half of P, the
convention of the flash papers. A causal mask given as a tensor is a mask like any other: its values are data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, Uncounted, formula
from wcbench.profilers.formulas.traffic import Call


@dataclass(frozen=True)
class Places:
    """Where an operator has its arguments; None where it has none of the kind. ``bhle`` is torch's usual layout, the
    raw kernels have (batch, length, heads, width)."""

    mask: int | str | None = None
    dropout: int | None = 3
    causal: int | None = 4
    lengths: int | None = None  # cumulative lengths of packed sequences
    query: int = 0
    bhle: bool = True


FORWARD = {
    "scaled_dot_product_attention": Places(mask=3, dropout=4, causal=5),
    "_scaled_dot_product_attention_math": Places(mask=3, dropout=4, causal=5),
    "_scaled_dot_product_attention_math_for_mps": Places(mask=3, dropout=4, causal=5),
    "_scaled_dot_product_flash_attention": Places(),
    "_scaled_dot_product_flash_attention.quantized": Places(dropout=6, causal=7),
    "_scaled_dot_product_flash_attention_for_cpu": Places(mask="attn_mask"),
    "_scaled_dot_product_efficient_attention": Places(mask=3, dropout=5, causal=6),
    "_scaled_dot_product_cudnn_attention": Places(mask=3, dropout=5, causal=6),
    "_scaled_dot_product_fused_attention_overrideable": Places(mask=3, dropout=4, causal=5),
    "_triton_scaled_dot_attention": Places(dropout=3, causal=None),
    "_flash_attention_forward": Places(dropout=7, causal=8, lengths=3, bhle=False),
    "_flash_attention_forward.quantized": Places(dropout=7, causal=8, lengths=3, bhle=False),
    "_flash_attention_forward_no_dropout_inplace": Places(dropout=8, causal=9, lengths=4, query=1, bhle=False),
    "_efficient_attention_forward": Places(mask=3, dropout=8, causal=9, lengths=4, bhle=False),
    "_cudnn_attention_forward": Places(mask=3, dropout=9, causal=10, lengths=4),
}
BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": Places(dropout=10, causal=11, query=1),
    "_scaled_dot_product_flash_attention_for_cpu_backward": Places(mask="attn_mask", dropout=6, causal=7, query=1),
    "_scaled_dot_product_efficient_attention_backward": Places(mask=4, dropout=9, causal=11, query=1),
    "_scaled_dot_product_cudnn_attention_backward": Places(mask=8, dropout=13, causal=14, query=1),
    "_scaled_dot_product_fused_attention_overrideable_backward": Places(mask=4, dropout=12, causal=13, query=1),
    "_flash_attention_backward": Places(dropout=10, causal=11, lengths=6, query=1, bhle=False),
    "_efficient_attention_backward": Places(mask=4, dropout=11, causal=14, lengths=6, query=1, bhle=False),
    "_cudnn_attention_backward": Places(mask=8, dropout=13, causal=14, lengths=9, query=1),
}


@dataclass(frozen=True)
class Sizes:
    """Scores P, widths of keys and values, and what is done for each score beside the products."""

    scores: int
    key_width: int
    value_width: int
    outputs: int  # elements of the output: B*H*L*Ev
    mask: int
    dropout: int


def _sizes(call: Call, places: Places) -> Sizes:
    query, key, value = call.args[places.query : places.query + 3]
    if places.lengths is not None and len(query.shape) == 3:
        raise Uncounted("the lengths of packed sequences are data")
    q, k = (query.shape, key.shape) if places.bhle else (_swapped(query.shape), _swapped(key.shape))
    rows = query.numel // q[-1]  # B*H*L
    mask = _argument(call, places.mask, "attn_mask", "attn_bias", "bias")
    rate = _argument(call, places.dropout, "dropout_p")
    return Sizes(
        scores=rows * k[-2],
        key_width=q[-1],
        value_width=value.shape[-1],
        outputs=rows * value.shape[-1],
        mask=int(isinstance(mask, T) and mask.dtype != "bool" and mask.numel > 0),
        dropout=int(bool(rate)),
    )


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(batch, length, heads, width) as (batch, heads, length, width)."""
    return (*shape[:-3], shape[-2], shape[-3], shape[-1])


def _argument(call: Call, place: int | str | None, *names: str) -> Any:
    """An argument by position, or where it was given by name, by one of its names."""
    if isinstance(place, int) and place < len(call.args):
        return call.args[place]
    return next((call.kwargs[name] for name in names if place is not None and name in call.kwargs), None)


def forward_cost(s: Sizes) -> Cost:
    other = (5 + s.mask + s.dropout) * s.scores
    return Cost(other, 2 * s.scores * (s.key_width + s.value_width))


def backward_cost(s: Sizes) -> Cost:
    other = (6 + s.mask + 2 * s.dropout) * s.scores + 2 * s.outputs
    return Cost(other, 2 * s.scores * (3 * s.key_width + 2 * s.value_width))


def _counted(places: Places, cost: Callable[[Sizes], Cost]) -> Callable[[Call], Cost]:
    def attention(call: Call) -> Cost:
        sizes = _sizes(call, places)
        full = cost(sizes)
        if not _argument(call, places.causal, "is_causal", "custom_mask_type"):
            return full
        delta = full.other - cost(replace(sizes, scores=0)).other  # what hangs on the scores; the rest is not halved
        half = Cost(full.other - delta // 2, full.matrix // 2, note="causal attention, half of the scores counted")
        return Cost(full.other, full.matrix, note="causal attention, all scores counted", half=half)

    return attention


for _name, _places in FORWARD.items():
    formula(f"aten::{_name}")(_counted(_places, forward_cost))
for _name, _places in BACKWARD.items():
    formula(f"aten::{_name}")(_counted(_places, backward_cost))
