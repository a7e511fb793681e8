"""Parallelism of a step's operators: how wide the graph of their true dependences is, and how deep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Parallelism:
    """Work over critical path of the operator graph, once with each operator as 1 and once weighted by FLOPs.

    An operator depends on the last one that wrote a storage it touches, and a writer also on the readers since; so
    the graph is the stream's own, at the grain of storages (two halves of one storage count as one).
    """

    operators: int
    depth: int
    flops: int
    flops_on_path: int

    @property
    def width(self) -> float:
        """Mean number of operators that could run at once."""
        return self.operators / self.depth if self.depth else 0.0

    @property
    def width_by_flops(self) -> float | None:
        """The same with each operator as long as its FLOPs; None without any."""
        return self.flops / self.flops_on_path if self.flops_on_path else None


def parallelism(reads: Sequence[Iterable[int]], writes: Sequence[Iterable[int]], flops: Sequence[int]) -> Parallelism:
    """Longest paths through the operators in program order.

    Parameters
    ----------
    reads, writes : storages that each operator reads and writes.
    flops : its FLOPs.
    """
    depth_of = _longest(reads, writes, [1] * len(flops))
    flops_of = _longest(reads, writes, list(flops))
    return Parallelism(
        len(flops), max(depth_of, default=0), int(np.sum(flops, dtype=np.int64)), max(flops_of, default=0)
    )


def _longest(reads: Sequence[Iterable[int]], writes: Sequence[Iterable[int]], weight: Sequence[int]) -> list[int]:
    written: dict[int, int] = {}  # storage -> longest path that ends with its last writer
    touched: dict[int, int] = {}  # storage -> longest path that ends with a reader since that writer
    ends = []
    for read, write, own in zip(reads, writes, weight, strict=True):
        before = max((written.get(s, 0) for s in read), default=0)
        before = max(before, max((_later(written, touched, s) for s in write), default=0))
        end = before + own
        for s in read:
            touched[s] = max(touched.get(s, 0), end)
        for s in write:
            written[s], touched[s] = end, 0
        ends.append(end)
    return ends


def _later(written: Mapping[int, int], touched: Mapping[int, int], storage: int) -> int:
    return max(written.get(storage, 0), touched.get(storage, 0))
