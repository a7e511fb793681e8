"""The child of ENAS: a language model with a recurrent cell whose weights all architectures share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.tasks.search.controller import FUNCTIONS, Architecture


class Norm(nn.BatchNorm1d):
    """Normalizes over the rows of a time step, damped by an epsilon of 1; a single row, which has no spread, by the
    running moments."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1.0, momentum=0.001)

    def forward(self, rows: Tensor) -> Tensor:
        if len(rows) > 1:
            return super().forward(rows)
        return F.batch_norm(rows, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class Child(nn.Module):
    """Words (batch, time) to logits (batch x time, vocab), by the cell of an architecture.

    Every block of weights is a parameter of its own, by node, earlier node and function: a block that the
    architecture leaves out gets no gradient. Embedding and output share one table.
    """

    def __init__(self, vocab: int, hidden: int, nodes: int, keep: tuple[float, float, float]) -> None:
        super().__init__()
        self.keep_word, self.keep_input, self.keep_state = keep
        self.embedding = nn.Embedding(vocab, hidden)
        self.first = nn.ParameterDict({name: torch.empty(2 * hidden, 2 * hidden) for name in FUNCTIONS})
        self.later = nn.ParameterDict(
            {
                f"{node}_{previous}_{name}": torch.empty(hidden, 2 * hidden)
                for node in range(1, nodes)
                for previous in range(node)
                for name in FUNCTIONS
            }
        )
        self.norms = nn.ModuleList([*(Norm(2 * hidden) for _ in range(nodes)), Norm(hidden)])
        spread = 0.1 if hidden <= 300 else 0.05 if hidden <= 400 else 0.04
        for parameter in (self.embedding.weight, *self.first.values(), *self.later.values()):
            nn.init.uniform_(parameter, -spread, spread)

    def forward(self, words: Tensor, architecture: Architecture, hidden: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.embedding(words)  # (batch, time, hidden)
        input_mask = state_mask = None
        if self.training:
            inputs = inputs * self._word_mask(words).unsqueeze(2)
            input_mask = _mask(hidden, self.keep_input)  # one mask for all time steps
            state_mask = _mask(hidden, self.keep_state)
        outputs = []
        for step in inputs.unbind(1):
            hidden = self._cell(_masked(step, input_mask), hidden, architecture, state_mask)
            outputs.append(hidden)
        return torch.stack(outputs, 1).flatten(0, 1) @ self.embedding.weight.t(), hidden

    def _cell(self, inputs: Tensor, hidden: Tensor, architecture: Architecture, mask: Tensor | None) -> Tensor:
        """The state (batch, hidden) after a word: the mean of the nodes that no other node reads."""
        names = [FUNCTIONS[function] for function in architecture.functions]
        rows = torch.cat((inputs, _masked(hidden, mask)), 1) @ self.first[names[0]]  # (batch, 2 hidden)
        nodes = [_highway(self.norms[0](rows), hidden, names[0])]
        for node, previous in enumerate(architecture.previous, 1):
            rows = _masked(nodes[previous], mask) @ self.later[f"{node}_{previous}_{names[node]}"]
            nodes.append(_highway(self.norms[node](rows), nodes[previous], names[node]))
        state: Tensor = self.norms[-1](torch.stack([nodes[leaf] for leaf in architecture.leaves()]).mean(0))
        return state

    def _word_mask(self, words: Tensor) -> Tensor:
        """Whole words dropped (batch, time); a word dropped once in a row is dropped wherever it follows."""
        mask = _mask(words.float(), self.keep_word)
        same = words.unsqueeze(2) == words.unsqueeze(1)  # (batch, time, earlier)
        gone = (same & (mask == 0).unsqueeze(1)).tril(-1).any(2)
        return mask.masked_fill(gone, 0.0)


def _highway(rows: Tensor, below: Tensor, name: str) -> Tensor:
    new, gate = rows.chunk(2, 1)  # each (batch, hidden)
    value = new if name == "identity" else getattr(torch, name)(new)
    return below + gate.sigmoid() * (value - below)


def _mask(like: Tensor, keep: float) -> Tensor:
    return torch.empty_like(like).bernoulli_(keep) / keep


def _masked(rows: Tensor, mask: Tensor | None) -> Tensor:
    return rows if mask is None else rows * mask
