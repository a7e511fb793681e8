"""DLRM, the model of the tasks on Criteo's logs of advertising (Naumov et al., arXiv:1906.00091), and its tables.

Numbers pass a perceptron, categories a table each: a sample reads rows of every table, and after the backward pass
the same rows are updated. The vectors meet pair by pair (`PairDots`), and a second perceptron gives the logit.

A table's gradient comes in one of two forms:

- As torch's sparse tensor, which the reference uses: `EmbeddingBag(sparse=True)` and torch's own optimizers.
- Explicit: the backward pass gathers a gradient row for every look-up, and a `RowOptimizer` applies these to the
  table: for updates that torch has no sparse optimizer for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NUMBERS = 13


class Table(nn.EmbeddingBag):
    """Bags of ids to sums of rows. Explicit ones keep ``update``: the ids and their gradient rows, once there."""

    def __init__(self, rows: int, dim: int, *, explicit: bool) -> None:
        bound = math.sqrt(1 / rows)
        super().__init__(rows, dim, mode="sum", sparse=True, _weight=torch.empty(rows, dim).uniform_(-bound, bound))
        self.explicit = explicit
        self.update: tuple[Tensor, Tensor] | None = None

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:  # type: ignore[override]
        """Ids (n,) and where each bag begins (batch,), all bags of one size, to (batch, dim)."""
        if not self.explicit:
            return super().forward(ids, offsets)
        pooled: Tensor = _RowGradients.apply(self.weight, ids, offsets, self)
        return pooled


class _RowGradients(torch.autograd.Function):
    """The bag's own operator; its backward pass is that of torch's sparse form, in operators on dense tensors."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, offsets: Tensor, table: Table) -> Tensor:
        ctx.table = table
        ctx.save_for_backward(ids)
        return F.embedding_bag(ids, weight, offsets, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        bag = torch.arange(ids.numel(), device=ids.device) // (ids.numel() // gradients[0].shape[0])
        ctx.table.update = (ids, gradients[0].index_select(0, bag))
        return None, None, None, None


class RowOptimizer(torch.optim.Optimizer):
    """Updates tables by the gradient rows that explicit look-ups left; with plain SGD unless `apply` is replaced."""

    def __init__(self, tables: Sequence[Table], lr: float) -> None:
        self.tables = tables
        super().__init__([table.weight for table in tables], {"lr": lr, "foreach": False})

    def zero_grad(self, set_to_none: bool = True) -> None:
        for table in self.tables:
            table.update = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for table in self.tables:
            if table.update is not None:
                self.apply(table.weight, *table.update)

    def apply(self, weight: Tensor, ids: Tensor, rows: Tensor) -> None:
        """One table's update: a row that was looked up twice is added to twice."""
        weight.index_add_(0, ids, rows, alpha=-self.param_groups[0]["lr"])


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers, a ReLU after each; weights normal of deviation sqrt(2 / (in + out)), biases of sqrt(1 / out)."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        linear = nn.Linear(wide, narrow)
        nn.init.normal_(linear.weight, std=math.sqrt(2 / (wide + narrow)))
        nn.init.normal_(linear.bias, std=math.sqrt(1 / narrow))
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers)


class PairDots(nn.Module):
    """Vectors (batch, n, dim) to the first of them and all n (n - 1) / 2 dot products (batch, dim + pairs)."""

    pairs: Tensor

    def __init__(self, vectors: int, dim: int) -> None:
        super().__init__()
        self.width = dim + vectors * (vectors - 1) // 2
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, offset=-1), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        dots = torch.bmm(vectors, vectors.transpose(1, 2))  # (batch, n, n): both halves and the diagonal
        return torch.cat((vectors[:, 0], dots[:, self.pairs[0], self.pairs[1]]), dim=1)


class Dlrm(nn.Module):
    """Numbers (batch, 13) and a bag of ids for each table to logits (batch,).

    Parameters
    ----------
    rows : of the tables.
    dim : width of an embedding, and the last of ``bottom``, the widths of the numbers' perceptron.
    top : hidden widths of the perceptron over what ``interaction``, made of (vectors, dim), gives.
    explicit : whether the tables' gradients are rows in place of sparse tensors.
    """

    def __init__(
        self,
        rows: Sequence[int],
        dim: int,
        bottom: Sequence[int],
        top: Sequence[int],
        interaction: Callable[[int, int], Any],
        *,
        explicit: bool,
    ) -> None:
        super().__init__()
        self.bottom = perceptron((NUMBERS, *bottom))
        self.tables = nn.ModuleList(Table(count, dim, explicit=explicit) for count in rows)
        self.interaction = interaction(1 + len(rows), dim)
        self.top = perceptron((self.interaction.width, *top, 1))[:-1]  # the last layer gives a logit

    def forward(self, numbers: Tensor, ids: Sequence[Tensor], offsets: Sequence[Tensor]) -> Tensor:
        vectors = [self.bottom(numbers)]  # (batch, dim), as each of the following
        vectors += [table(*bags) for table, *bags in zip(self.tables, ids, offsets, strict=True)]
        stacked = torch.cat(vectors, dim=1).view(numbers.shape[0], len(vectors), -1)  # (batch, 27, dim)
        logits: Tensor = self.top(self.interaction(stacked)).squeeze(1)
        return logits
