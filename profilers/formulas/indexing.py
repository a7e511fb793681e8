"""Gathers, scatters and embeddings: traffic by rows at addresses that are data; FLOPs only where rows accumulate.

A gather reads index count x bytes of a row, whether or not rows repeat. A result that is filled and then scattered
into is written once; of these bytes the rows count as scatter (`traffic.scatter_new`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.matmul import broadcast
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.pointwise import scaled
from wcbench.profilers.formulas.traffic import (
    Access,
    Call,
    gather,
    part,
    read,
    scatter,
    scatter_new,
    targets,
    tensors,
    write,
    writes,
)


@formula("aten::embedding")
def embedding(call: Call) -> Cost:
    """One row of the table for each index."""
    table, indices = call.args[0], call.args[1]
    return Cost(accesses=[gather(table, indices.numel, table.shape[-1]), *read(indices), *writes(call)])


@formula(*aten("embedding_dense_backward embedding_backward"))
def embedding_backward(call: Call) -> Cost:
    """A table of zeros, to which each gradient row is added at its index."""
    gradient, indices = call.args[0], call.args[1]
    table = call.result()
    rows = scatter_new(table, indices.numel, table.shape[-1])
    return Cost(gradient.numel, accesses=[*read(gradient, indices), *rows])


SUM, MEAN = 0, 1  # modes of an embedding bag; 2 is the maximum


@formula(*aten("_embedding_bag _embedding_bag_forward_only embedding_bag"))
def embedding_bag(call: Call) -> Cost:
    """Rows are gathered and added up by bag (1 for each element gathered, the maximum compares), weighted ones
    multiplied (1), and for the mean divided (1 for each result)."""
    table, indices, offsets = call.args[:3]
    mode, weights = call.arg(4, "mode", 0), call.arg(6, "per_sample_weights")
    picked = indices.numel * table.shape[-1]
    other = picked * ((mode in (SUM, MEAN)) + isinstance(weights, T))
    other += call.result().numel * (mode == MEAN)
    moved = [gather(table, indices.numel, table.shape[-1]), *read(indices, offsets, weights)]
    return Cost(other, accesses=[*moved, *writes(call)])


@formula(*aten("_embedding_bag_dense_backward _embedding_bag_backward"))
def embedding_bag_backward(call: Call) -> Cost:
    """Each index adds its bag's gradient row to a table of zeros; divided for the mean, multiplied by weights."""
    dense = call.name.endswith("dense_backward")
    gradient, indices = call.args[0], call.args[1]
    mode, weights = (call.args[7], call.arg(8, "per_sample_weights")) if dense else (call.args[8], call.args[10])
    table = call.result()
    width, count = gradient.shape[-1], indices.numel
    other = count * width * ((mode in (SUM, MEAN)) + (mode == MEAN) + isinstance(weights, T))
    bags = tensors(call.args[2:6])
    moved = [gather(gradient, count, width), *read(indices, bags, weights)]
    return Cost(other, accesses=[*moved, *scatter_new(table, count, width)])


@formula("aten::_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(call: Call) -> Cost:
    """A dot product of table row and gradient row for each index: 2 for each element."""
    gradient, table, indices = call.args[:3]
    width = table.shape[-1]
    moved = [gather(table, indices.numel, width), gather(gradient, indices.numel, width), *read(indices)]
    return Cost(2 * indices.numel * width, accesses=[*moved, *writes(call)])


@formula(*aten("index _unsafe_index _unsafe_masked_index"))
def index(call: Call) -> Cost:
    """As many elements of self are read as the result has; boolean masks are read whole, as indices are."""
    x = call.args[0]
    return Cost(accesses=[gather(x, call.result().numel), *read(tensors(call.args[1:])), *writes(call)])


@formula(*aten("index_select gather take take_along_dim masked_select"))
def gather_rows(call: Call) -> Cost:
    """The index (or mask) is read, and an element of self for each element of the result."""
    others = tensors([*call.args[1:], *call.kwargs.values()])
    kept = [tensor for tensor in others if tensor not in targets(call)]
    return Cost(accesses=[gather(call.args[0], call.result().numel), *read(kept), *writes(call)])


def placed(call: Call, rows: int, sources: list[T], *, accumulate: bool, row_reads: int | None = None) -> list[Access]:
    """Traffic of writing ``rows`` elements at indexed places of self: in place only those, else into a copy of self."""
    x = call.args[0]
    given = [part(source, (rows if row_reads is None else row_reads) * source.itemsize) for source in sources]
    if call.writes:
        return [*given, *scatter(x, rows, accumulate=accumulate)]
    return [*given, *read(x), *scatter_new(call.result(), rows)]


@formula(*aten("scatter scatter_add scatter_reduce"))
def scatter_elements(call: Call) -> Cost:
    """An element of src for each element of the index; adding or multiplying counts 1, minimum and maximum 0."""
    indices, src = call.args[2], call.arg(3, "src")
    reduction = "sum" if "scatter_add" in call.name else call.arg(4, "reduce", "") or ""
    arithmetic = reduction in ("sum", "add", "mean", "prod", "multiply")
    moved = placed(call, indices.numel, tensors([src]), accumulate=bool(reduction))
    return Cost(indices.numel * arithmetic, accesses=[*moved, *read(indices)])


@formula(*aten("index_add index_copy index_fill index_reduce"))
def index_rows(call: Call) -> Cost:
    """Rows along one dimension: index_add multiplies where alpha is not 1, and adds."""
    x, dim, indices, source = call.args[0], call.args[1], call.args[2], call.arg(3, "source")
    base = call.name.removesuffix("_")
    elements = indices.numel * (x.numel // x.shape[dim] if x.shape and x.shape[dim] else 1)
    if base == "aten::index_add":
        arithmetic = 1 + scaled(call.option("alpha", 1))
    else:
        arithmetic = int(base == "aten::index_reduce" and call.arg(4, "reduce") in ("prod", "mean"))
    accumulate = base in ("aten::index_add", "aten::index_reduce")
    moved = placed(call, elements, tensors([source]), accumulate=accumulate)
    return Cost(arithmetic * elements, accesses=[*moved, *read(indices)])


def indexed_elements(x: T, indices: Any) -> int:
    """Elements that ``x[indices]`` addresses: index tensors broadcast, dimensions without one are whole.

    A boolean mask stands for as many dimensions as it has; how many of its elements are true is data, so all count.
    """
    count: tuple[int, ...] = ()
    rest, dim = 1, 0
    for each in indices:
        if not isinstance(each, T):
            rest *= x.shape[dim]
            dim += 1
        elif each.dtype in ("bool", "uint8"):
            count = broadcast(count, (each.numel,))
            dim += len(each.shape)
        else:
            count = broadcast(count, each.shape)
            dim += 1
    return prod(count) * rest * prod(x.shape[dim:])


@formula(*aten("index_put _index_put_impl _unsafe_index_put _unsafe_masked_index_put_accumulate"))
def index_put(call: Call) -> Cost:
    """Values at indexed places, added where it accumulates."""
    masked = call.name.startswith("aten::_unsafe_masked")
    x, indices, values = call.args[0], call.args[2 if masked else 1], call.args[3 if masked else 2]
    accumulate = masked or bool(call.arg(3, "accumulate", False))
    elements = indexed_elements(x, indices)
    masks = [i for i in tensors(list(indices)) if i.dtype in ("bool", "uint8")]
    note = None
    if masks and values.numel > 1:
        elements = values.numel  # one value for each true element of the mask
    elif masks:
        note = "how many elements a mask selects is data: all are counted"
    moved = placed(call, elements, [values], accumulate=accumulate)
    read_masks = tensors([call.args[1]]) if masked else []
    return Cost(elements * accumulate, accesses=[*moved, *read(tensors(list(indices)), read_masks)], note=note)


@formula("aten::put")
def put(call: Call) -> Cost:
    """Elements of source at flat indices."""
    indices, source = call.args[1], call.args[2]
    accumulate = bool(call.arg(3, "accumulate", False))
    moved = placed(call, indices.numel, [source], accumulate=accumulate)
    return Cost(indices.numel * accumulate, accesses=[*moved, *read(indices)])


@formula("aten::masked_scatter")
def masked_scatter(call: Call) -> Cost:
    """Elements of source where the mask is true; at most as many as self and source have."""
    x, mask, source = call.args[:3]
    moved = placed(call, min(x.numel, source.numel), [source], accumulate=False)
    return Cost(accesses=[*moved, *read(mask)])


@formula("aten::masked_scatter_backward")
def masked_scatter_backward(call: Call) -> Cost:
    """The gradient's elements under the mask."""
    gradient, mask = call.args[:2]
    result = call.result()
    return Cost(accesses=[gather(gradient, result.numel), *read(mask), *write(result)])


@formula("aten::unfold_backward")
def unfold_backward(call: Call) -> Cost:
    """Windows are added into zeros: 1 for each element of the gradient."""
    return Cost(call.args[0].numel)


@formula("aten::col2im")
def col2im(call: Call) -> Cost:
    """Columns are added into the image."""
    return Cost(call.args[0].numel)
