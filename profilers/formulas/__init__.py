"""FLOPs, bytes and access classes of operator calls, from shapes and strides alone, without torch.

`work` turns one recorded `Call` into `Work`; `known` says whether a formula is registered. Each module holds the
formulas of one kind with their derivation; a new operator is one function with ``@formula("namespace::name")``.

Conventions
-----------
* A FLOP is one addition or multiplication; a multiply-accumulate (MAC) is 2.
* ``flops_matrix``: convolutions, matrix products, attention, recurrences, the hidden product of an affine grid. These
  are comparable with published numbers; the bias is not among them.
* ``flops_all``: these, and 1 for each output element of elementwise arithmetic or transcendental functions, 1 for each
  input element of a reduction that adds or multiplies. Comparing, selecting, rounding, casting, sign bits, copying,
  filling, sorting and random numbers count 0. Integers and complex numbers count as reals do, except that a complex
  MAC is 8 FLOP. A fused operator counts the sum of its decomposition, which stands beside its formula.
* Attention takes the query's heads; causal attention is counted in full unless ``causal="half"`` is asked for.
* Bytes are those that an operator alone must move: each distinct byte of an argument read once and of a result written
  once, stride-0 and overlapping extents once, the same addresses given as two arguments once. In place is a read and a
  write, unless the operator overwrites (fill, copy, random). Views, and questions about a tensor's form, move nothing.
* Gathers and scatters move index count x bytes of a row, repeats included. A result that is filled and then scattered
  into is written once, its rows as scatter and the rest as fill. Sampling a picture where data says so is a gather of
  at most the whole picture.
* A sparse tensor moves its entries and their indices. Entries of one row count each, and coalescing is counted as if
  all were different: how many coincide is data.
* An operator that no formula knows, or whose work depends on data, has ``covered=False``, FLOPs of 0 that mean
  nothing, a note with its name, and still the bytes of its operands.
"""

from __future__ import annotations

# the explicit list of formula modules; importing one registers what it holds
from wcbench.profilers.formulas import (
    attention,
    convolution,
    data,
    indexing,
    losses,
    matmul,
    normalization,
    optimizers,
    pointwise,
    recurrent,
    reductions,
    sampling,
    sparse,
    transforms,
    vision,
)
from wcbench.profilers.formulas.extent import T, extent_bytes, kind_of
from wcbench.profilers.formulas.model import REGISTRY, Cost, Uncounted, Work, formula, known, work
from wcbench.profilers.formulas.traffic import Access, Call

MODULES = (
    attention,
    convolution,
    data,
    indexing,
    losses,
    matmul,
    normalization,
    optimizers,
    pointwise,
    recurrent,
    reductions,
    sampling,
    sparse,
    transforms,
    vision,
)

__all__ = [
    "MODULES",
    "REGISTRY",
    "Access",
    "Call",
    "Cost",
    "T",
    "Uncounted",
    "Work",
    "extent_bytes",
    "formula",
    "kind_of",
    "known",
    "work",
]
