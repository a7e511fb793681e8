"""Which addresses a tensor covers: distinct bytes, density, and a key that equal address sets share.

A tensor's elements lie at ``offset + sum(index[d] * stride[d])``. Stride 0 repeats an element, and windows (``unfold``,
``as_strided``) overlap; both are counted once. All on shapes and strides, without data.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from wcbench.dtypes import ITEMSIZE

# an overlapping core wider than this many elements (8 MiB as a bit set) is bounded, not counted
WIDEST_BIT_SET = 1 << 26

Dims = tuple[tuple[int, int], ...]  # (size, stride), strides rising


class T(NamedTuple):
    """A tensor as an operator saw it.

    ``storage`` identifies the memory behind it and ``version`` counts that memory's in-place changes; ``offset`` and
    ``stride`` are in elements, ``dtype`` is torch's name without its prefix. A sparse tensor (COO) is described by its
    values: ``shape`` starts with its entries, and ``sparse`` is how many of its dimensions they index.
    """

    storage: int
    version: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    sparse: int = 0

    @property
    def numel(self) -> int:
        """Logical elements, repeated ones included."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element; raises KeyError for a dtype that is not in ITEMSIZE."""
        return ITEMSIZE[self.dtype]


def extent_bytes(tensor: T) -> int:
    """Distinct bytes of a tensor's elements: repeated (stride 0) and overlapping ones count once."""
    return distinct_elements(tensor.shape, tensor.stride) * tensor.itemsize


def same_bytes_key(tensor: T) -> tuple[int, int, Dims, int]:
    """Equal for two tensors of one storage that cover the same addresses, as a matrix and its transpose do."""
    size = tensor.itemsize
    return tensor.storage, tensor.offset * size, merged(tensor.shape, tensor.stride), size


def kind_of(tensor: T) -> str:
    """``broadcast`` where an element is repeated by stride 0, ``contiguous`` where the addresses have no gap in some
    order of the dimensions, else ``strided``."""
    if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride, strict=True)):
        return "broadcast"
    dims = merged(tensor.shape, tensor.stride)
    return "contiguous" if not dims or (len(dims) == 1 and dims[0][1] == 1) else "strided"


@lru_cache(maxsize=1 << 16)
def merged(shape: tuple[int, ...], stride: tuple[int, ...]) -> Dims:
    """Dimensions by rising stride, without those of size 1 or stride 0, neighbours joined where no gap is between.

    An empty tensor comes out as one dimension of size 0, a single element as no dimension.
    """
    if 0 in shape:
        return ((0, 1),)
    dims = sorted((step, size) for size, step in zip(shape, stride, strict=True) if size > 1 and step != 0)
    joined: list[tuple[int, int]] = []
    for step, size in dims:
        if joined and joined[-1][0] * joined[-1][1] == step:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, step))
    return tuple(joined)


@lru_cache(maxsize=1 << 16)
def distinct_elements(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """How many different addresses the elements have; exact, except for huge irregular overlaps (an upper bound)."""
    return _distinct(merged(shape, stride))


def _distinct(dims: Dims) -> int:
    """Dimensions that cannot collide with the others are factors; what is left is counted.

    The outermost is one where its stride passes the whole span of the others; the innermost where its own span stays
    under the greatest common divisor of the other strides.
    """
    count, rest = 1, list(dims)
    while rest:
        size, step = rest[-1]
        if step > _span(rest[:-1]):
            count *= size
            rest.pop()
        elif len(rest) > 1 and gcd(*(s for _, s in rest[1:])) > (rest[0][0] - 1) * rest[0][1]:
            count *= rest.pop(0)[0]
        else:
            return count * _colliding(rest)
    return count


def _span(dims: list[tuple[int, int]]) -> int:
    """Distance from the first address to the last."""
    return sum((size - 1) * step for size, step in dims)


def _colliding(dims: list[tuple[int, int]]) -> int:
    if len(dims) == 2:
        # i*s1 + j*s2 repeats exactly along (i + s2/g, j - s1/g): of each such chain only the first is new
        (n1, s1), (n2, s2) = dims
        g = gcd(s1, s2)
        return n1 * n2 - max(0, n1 - s2 // g) * max(0, n2 - s1 // g)
    g = gcd(*(step for _, step in dims))
    span = _span(dims) // g
    if span > WIDEST_BIT_SET:
        return min(prod(size for size, _ in dims), span + 1)
    bits = 1  # bit a is set where address a*g is covered
    for size, step in dims:
        bits = _repeated(bits, size, step // g)
    return bits.bit_count()


def _repeated(bits: int, times: int, step: int) -> int:
    """The union of ``times`` copies, each ``step`` further on, by doubling."""
    done = 1
    while done < times:
        more = min(done, times - done)
        bits |= bits << (more * step)
        done += more
    return bits
