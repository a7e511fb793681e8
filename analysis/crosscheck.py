"""Counts against rules of thumb that are known to hold, so that a wrong one is noticed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from wcbench import kernels
from wcbench.analysis.recorded import rows_of

if TYPE_CHECKING:
    from wcbench.record import Profile

TOLERANCE = 0.30


def six_n(profile: Profile) -> str | None:
    """A doubt where a transformer's step is not about 6 N FLOP a token, else None.

    N counts the weights that forward products use, tokens the most ids that an embedding looks up: a token costs
    2 N forward and 4 N backward (Kaplan et al., "Scaling laws for neural language models", arXiv:2001.08361, 2020).
    Attention's own products are left out of the rule, so long sequences pass it by their share. Only streams with
    attention and an embedding are asked.
    """
    table = profile.arrow("operators")
    if not table.num_rows or profile.manifest.passes["operators"].mode != "train":
        return None
    table = rows_of(profile)
    total = pc.sum(table["flops_matrix"]).as_py() or 0
    forward = table.filter(pc.equal(table["phase"].cast("string"), "forward")).select(["name", "inputs"]).to_pylist()
    tokens, weights = _tokens(forward), _weights(profile, forward)
    if not _has_attention(forward) or not tokens or not weights:
        return None
    ratio = total / (6 * weights * tokens)
    if abs(ratio - 1) <= TOLERANCE:
        return None
    return (
        f"Matrix-class FLOPs are {ratio:.2f} times 6 N a token (N = {weights:,} weights in products, {tokens:,} tokens)"
        ": long sequences, several token streams or frozen layers explain that; a wrong count would look the same."
    )


def _has_attention(forward: list[dict[str, Any]]) -> bool:
    names = {row["name"] for row in forward}
    kinds = {kernels.classify(name, host=True).full for name in names}
    return "attention" in kinds or ("softmax" in kinds and "aten::bmm" in names)


def _tokens(forward: list[dict[str, Any]]) -> int:
    """The most ids that one embedding looks up: positions may be looked up once for the whole batch."""
    lookups = [row["inputs"] for row in forward if row["name"] == "aten::embedding"]
    return max((math.prod(inputs[1]["shape"]) for inputs in lookups if len(inputs) > 1), default=0)


def _weights(profile: Profile, forward: list[dict[str, Any]]) -> int:
    """Elements of the weights that are operands of products, each storage once."""
    storages = profile.table("storages")
    known = set(storages.loc[storages["role"] == "weight", "id"].tolist())
    used: dict[int, int] = {}
    for row in forward:
        if kernels.classify(row["name"], host=True).full == "GEMM":
            for tensor in row["inputs"]:
                if tensor["storage"] in known and len(tensor["shape"]) > 1:
                    used[tensor["storage"]] = math.prod(tensor["shape"])
    return sum(used.values())
