"""Operators on sparse tensors (COO): traffic by entries, since a gradient of a table touches the rows looked up alone.

A sparse tensor is described by its values, (entries, ...), and has an int64 index for each entry and sparse dimension.
How many entries share a row depends on data: counts are those before coalescing, the most there can be.
"""

from __future__ import annotations

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T, extent_bytes
from wcbench.profilers.formulas.indexing import MEAN
from wcbench.profilers.formulas.model import Cost, Uncounted, formula
from wcbench.profilers.formulas.traffic import Access, Call, gather, inputs, read, scatter, tensors

_INDEX_BYTES = 8


def _sparse(call: Call) -> list[T]:
    return [tensor for tensor in tensors([call.args, call.kwargs]) if tensor.sparse]


def _entries(tensor: T, *, write: bool = False) -> list[Access]:
    """Values and indices of a sparse tensor."""
    nbytes = extent_bytes(tensor) + tensor.shape[0] * tensor.sparse * _INDEX_BYTES
    return [Access(tensor, write, "contiguous", nbytes)]


def _width(tensor: T) -> int:
    """Elements of an entry."""
    return tensor.numel // max(1, tensor.shape[0])


@formula(
    *aten("_values _indices values indices detach alias view_as _coalesced_ is_coalesced _nnz sparse_dim dense_dim"),
    *aten("_sparse_coo_tensor_with_dims_and_tensors sparse_coo_tensor _sparse_coo_tensor_unsafe empty_like"),
    sparse=True,
)
def form(call: Call) -> Cost:
    """Parts put together or taken apart; nothing moves."""
    return Cost(accesses=[])


@formula(*aten("_embedding_bag_backward _embedding_bag_sparse_backward embedding_sparse_backward"), sparse=True)
def bag_backward(call: Call) -> Cost:
    """Each index takes its bag's gradient row as its entry; nothing is added up."""
    dense, gradient = call.args[0], tensors(call.out)[0]
    other = 0
    if call.name == "aten::_embedding_bag_backward":  # divided for the mean, multiplied by weights
        mode, weights = call.arg(8, "mode", 0), call.arg(10, "per_sample_weights")
        other = gradient.numel * ((mode == MEAN) + isinstance(weights, T))
    moved = [gather(dense, gradient.shape[0], _width(gradient)), *read([t for t in inputs(call) if t is not dense])]
    return Cost(other, accesses=[*moved, *_entries(gradient, write=True)])


@formula(*aten("clone _to_copy copy_ neg neg_ abs"), sparse=True)
def copy(call: Call) -> Cost:
    entries = _sparse(call)[-1]
    return Cost(accesses=[*_entries(entries), *_entries(entries, write=True)])


@formula(*aten("mul mul_ div div_ pow sqrt"), sparse=True)
def elementwise(call: Call) -> Cost:
    """1 for each element of the entries; the other operand is a number."""
    entries = _sparse(call)
    if len(tensors(call.args)) > len(entries) or len(entries) > 1:
        raise Uncounted("a product with another tensor")
    return Cost(entries[0].numel, accesses=copy(call).accesses)


@formula(*aten("coalesce _coalesce"), sparse=True)
def coalesce(call: Call) -> Cost:
    note = "Sparse gradients are coalesced as if no row repeated: the bytes are an upper bound."
    return Cost(accesses=copy(call).accesses, note=note)


@formula(*aten("add add_ sub sub_"), sparse=True)
def add(call: Call) -> Cost:
    """Each entry, times alpha where it is not 1, is added to its row of a dense tensor; sparse ones are joined."""
    target, entries = call.args[0], _sparse(call)[-1]
    if target.sparse:
        joined = tensors(call.out)[0]
        return Cost(accesses=[*_entries(entries), *_entries(target), *_entries(joined, write=True)])
    if not call.name.endswith("_"):
        raise Uncounted("a dense and a sparse tensor added into a new one")
    rows = scatter(target, entries.shape[0], _width(entries), accumulate=True)
    scaled = call.arg(2, "alpha", 1) not in (1, -1)
    return Cost((1 + scaled) * entries.numel, accesses=[*_entries(entries), *rows])


@formula(*aten("sparse_mask"), sparse=True)
def mask(call: Call) -> Cost:
    """The rows of a dense tensor at the mask's indices."""
    entries = _sparse(call)[-1]
    index = Access(entries, False, "contiguous", entries.shape[0] * entries.sparse * _INDEX_BYTES)
    rows = gather(call.args[0], entries.shape[0], _width(entries))
    return Cost(accesses=[rows, index, *_entries(entries, write=True)])
