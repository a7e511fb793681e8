"""What one operator must move through a cache smaller than its operands: I/O lower bounds in bytes.

The inter-operator reuse model sees an operator touch each operand once. Below the size of the operands no schedule
gets away with that; these bounds say how much more it is. They are leading terms: constants of lower order are left
out, and attention's is an order of magnitude only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def gemm_io_lower_bound(
    m: int, n: int, k: int, capacity_bytes: float, itemsize: int, *, batch: int = 1, reuse: float = 1.0
) -> float:
    """Bytes that C[m, n] = A[m, k] B[k, n] moves through a fast memory of ``capacity_bytes``.

    2 m n k / sqrt(S) elements with S the capacity in elements, and never less than reading A and B and writing C
    once. Hong and Kung gave the order, Smith et al. the constant (their theorem takes 2 S off for what may stay in
    the cache); Kwasniewski et al. show that the m n stores of C come on top, so the leading term alone is safe.

    Parameters
    ----------
    batch : independent products of this shape.
    reuse : how often an element of A stands in several rows or columns (`conv_io_lower_bound`).

    References
    ----------
    Hong, Kung, "I/O complexity: the red-blue pebble game", STOC 1981.
    Smith, Lowery, Langou, van de Geijn, "A tight I/O lower bound for matrix multiplication", arXiv:1702.02017 (2019).
    Kwasniewski et al., "Red-blue pebbling revisited: near optimal parallel matrix-matrix multiplication", SC 2019.
    """
    tiled = 2 * m * n * k / math.sqrt(reuse * _elements(capacity_bytes, itemsize))
    once = m * k / reuse + k * n + m * n
    return batch * itemsize * max(tiled, once)


def conv_io_lower_bound(
    batch: int,
    channels_in: int,
    channels_out: int,
    *,
    kernel: Sequence[int],
    output: Sequence[int],
    stride: Sequence[int],
    capacity_bytes: float,
    itemsize: int,
    groups: int = 1,
) -> float:
    """Bytes of a convolution, as an implicit GEMM of (batch x output positions), channels_out, channels_in x kernel.

    A window overlaps its neighbours, so an input element serves up to R = prod(kernel / stride) positions; with it
    the GEMM's bound falls by sqrt(R). ``kernel``, ``output`` and ``stride`` have one entry a spatial dimension.

    References
    ----------
    Chen, Han, Wang, "Communication lower bound in convolution accelerators", HPCA 2020, arXiv:1911.05662.
    Demmel, Dinh, "Communication-optimal convolutional neural nets", arXiv:1802.06905 (2018).
    """
    reuse = max(1.0, math.prod(kernel) / math.prod(stride))
    rows = batch * math.prod(output)
    depth = channels_in // groups * math.prod(kernel)
    return gemm_io_lower_bound(rows, channels_out // groups, depth, capacity_bytes, itemsize, batch=groups, reuse=reuse)


def attention_io_lower_bound(
    heads: int, queries: int, keys: int, head_dim: int, *, capacity_bytes: float, itemsize: int
) -> float:
    """Bytes of exact attention over ``heads`` (batch x heads) independent heads: an order, its constant taken as 1.

    queries x keys x d^2 / S elements, which FlashAttention attains, for S >= d^2; below it, as two matrix products
    would, queries x keys x d / sqrt(S). Never less than reading Q, K and V and writing the output once.

    References
    ----------
    Dao et al., "FlashAttention", NeurIPS 2022, arXiv:2205.14135.
    Saha, Ye, "The I/O complexity of attention, or how optimal is FlashAttention?", ICML 2024, arXiv:2402.07443.
    """
    space = _elements(capacity_bytes, itemsize)
    pairs = queries * keys * head_dim
    tiled = pairs * head_dim / space if space >= head_dim**2 else pairs / math.sqrt(space)
    once = 2 * head_dim * (queries + keys)
    return heads * itemsize * max(tiled, once)


def _elements(capacity_bytes: float, itemsize: int) -> float:
    if capacity_bytes < itemsize:
        raise ValueError(f"a capacity of {capacity_bytes} bytes holds no element of {itemsize} bytes")
    return capacity_bytes / itemsize


def tiling_excess(
    flops: npt.NDArray[np.float64],
    moved: npt.NDArray[np.float64],
    itemsize: npt.NDArray[np.float64],
    reuse: npt.NDArray[np.float64],
    capacities: Sequence[int],
) -> npt.NDArray[np.float64]:
    """Bytes that products must move at each capacity beyond touching each operand once, over all of a step's products.

    A product of F = 2 m n k FLOP moves at least F / sqrt(R S) elements (`gemm_io_lower_bound`, batched and grouped
    ones included, since both sides add up), R being the reuse of `conv_io_lower_bound` and 1 for a GEMM. What it moves
    by touching operands once is in the reuse model already.

    Parameters
    ----------
    flops, moved, itemsize, reuse : (operators,), FLOPs, bytes touched once, bytes of an element, R.
    capacities : (k,) bytes.

    Returns
    -------
    (k,) bytes to add to the model's traffic: with them it is no longer too low below the size of the operands.
    """
    space = np.asarray(capacities, dtype=np.float64)[:, None] / itemsize
    tiled = itemsize * flops / np.sqrt(reuse * space)
    return np.asarray(np.maximum(0.0, tiled - moved).sum(axis=1))
