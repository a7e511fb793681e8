"""DLRM-DCNv2 on multi-hot Criteo: MLPerf Training v3.0 to v6.0 (cross network: Wang et al., arXiv:2008.13535).

mlcommons/training's recommendation_v2/torchrec_dlrm: embeddings of 128, a bottom perceptron 13-512-256-128, a cross
network of three layers and rank 512 over the 27 vectors in a row (3,456 numbers), a top perceptron
3456-1024-1024-512-256-1, binary cross entropy, Adagrad at rate 0.005, batches of 65,536 on eight GPUs, one epoch of
4,195,197,692 samples, AUROC 0.80275. Categories are hashed to at most 40 million rows, 204,184,588 in 26 tables. A
sample reads 214 of them, 1 to 100 a table: the first id of a bag is Criteo's, the others are drawn once for each first
id, uniformly over the table. The reference updates tables within the backward pass, by a fused kernel which sorts the
look-ups and adds up the gradients of a row before it squares them.

What differs here, and why:

- Impressions are drawn as in `commerce.advertising`, with further ids by a hash of the first in place of a table.
- The update of the tables is the reference's, written with torch's operators: `RowAdagrad`. It stores a gradient row
  for each look-up, which the fused kernel does not. Shapes are fixed: as many rows are summed as were looked up, zeros
  in place of those that occurred before.
- It runs after the backward pass, and one device holds it all. At `paper` that is for counting on fake tensors.
- The README's "167 M" parameters do not fit its own tables; these layers have 26,151,671,809.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks.commerce.advertising import ClickSettings, ClickTask
from wcbench.tasks.commerce.dlrm import RowOptimizer, Table

MULTI_HOT = (
    40_000_000, 39_060, 17_295, 7424, 20_265, 3, 7122, 1543, 63, 40_000_000, 3_067_956, 405_282, 10, 2209,
    11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
)  # fmt: skip
HOTS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


@dataclass(frozen=True)
class CrossSettings(ClickSettings):
    """Knobs of DLRM-DCNv2: those of DLRM and these.

    Attributes
    ----------
    hots : ids of a sample by table; recorded ids hold the first of each bag.
    cross, rank : layers of the cross network, and their rank.
    """

    batch_size: int = 65_536
    rows: tuple[int, ...] = MULTI_HOT
    dim: int = 128
    bottom: tuple[int, ...] = (512, 256, 128)
    top: tuple[int, ...] = (1024, 1024, 512, 256)
    lr: float = 0.005
    clicks: float = 0.032  # from memory
    hots: tuple[int, ...] = HOTS
    cross: int = 3
    rank: int = 512

    def validate(self) -> None:
        super().validate()
        if len(self.hots) != len(self.rows) or min(self.hots) < 1:
            raise UsageError(f"hots {self.hots} is refused: each of the {len(self.rows)} tables takes 1 id or more.")
        if min(self.cross, self.rank) < 1:
            raise UsageError("cross and rank start at 1.")

    def bags(self) -> tuple[int, ...]:
        return self.hots


class LowRankCross(nn.Module):
    """Vectors (batch, n, dim) to (batch, n dim): each layer multiplies its input by a linear map of the last one."""

    def __init__(self, vectors: int, dim: int, layers: int, rank: int) -> None:
        super().__init__()
        self.width = vectors * dim
        self.narrow = nn.ModuleList(nn.Linear(self.width, rank, bias=False) for _ in range(layers))
        self.widen = nn.ModuleList(nn.Linear(rank, self.width) for _ in range(layers))
        for part in (*self.narrow, *self.widen):
            assert isinstance(part, nn.Linear)
            nn.init.xavier_normal_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        start = last = vectors.flatten(1)  # (batch, 3456)
        for narrow, widen in zip(self.narrow, self.widen, strict=True):
            last = start * widen(narrow(last)) + last
        return last


class RowAdagrad(RowOptimizer):
    """Adagrad for tables: a row that was looked up several times is updated once, by the sum of its gradients."""

    def __init__(self, tables: Sequence[Table], lr: float, eps: float = 1e-8) -> None:
        super().__init__(tables, lr)
        self.eps = eps
        for table in tables:
            self.state[table.weight]["sum"] = torch.zeros_like(table.weight, requires_grad=False)

    def apply(self, weight: Tensor, ids: Tensor, rows: Tensor) -> None:
        ids, order = ids.sort()
        starts = torch.cat((torch.zeros_like(ids[:1]), (ids[1:] != ids[:-1]).long()))
        place = starts.cumsum(0)  # (n,): 0 for the first of the distinct rows, 1 for the second, and so on
        summed = torch.zeros_like(rows).index_add_(0, place, rows.index_select(0, order))
        distinct = torch.zeros_like(ids).scatter_(0, place, ids)  # row 0, with a gradient of 0, beyond the last one
        squares = self.state[weight]["sum"].index_add_(0, distinct, summed.square())
        summed /= squares.index_select(0, distinct).sqrt_().add_(self.eps)
        weight.index_add_(0, distinct, summed, alpha=-self.param_groups[0]["lr"])


_PAPER = CrossSettings()
_SMALL = replace(_PAPER, batch_size=64, cap=20_000, dim=32, bottom=(128, 64, 32), top=(256, 256, 128, 64), rank=128)
_TINY = replace(_PAPER, batch_size=16, cap=100, dim=8, bottom=(16, 8, 8), top=(32, 32, 16, 8), rank=8)


class MlperfDlrmDcnv2(ClickTask):
    """DLRM with a cross network and bags of ids, at the size of Criteo's terabyte."""

    explicit = True
    presets: ClassVar[Mapping[str, CrossSettings]] = {"paper": _PAPER, "small": _SMALL, "tiny": _TINY}

    def interaction(self, settings: Any) -> Callable[[int, int], nn.Module]:
        return functools.partial(LowRankCross, layers=settings.cross, rank=settings.rank)

    def dense_optimizer(self, parameters: list[Any], lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(parameters, lr=lr, foreach=True)

    def table_optimizer(self, tables: list[Table], lr: float) -> torch.optim.Optimizer:
        return RowAdagrad(tables, lr)
