"""The controller of ENAS: an LSTM that writes down a recurrent cell, decision by decision."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

FUNCTIONS = ("tanh", "relu", "identity", "sigmoid")
Choose = Callable[[Tensor], int]  # probabilities (n,) to one of 0..n-1


class Architecture(NamedTuple):
    """A cell: each node applies a function to one earlier node; node 0 reads the word and the last state."""

    previous: tuple[int, ...]  # of the nodes 1, 2, ...
    functions: tuple[int, ...]  # of the nodes 0, 1, ...

    def decisions(self) -> list[int]:
        """In the order in which the controller takes them: function 0, previous 1, function 1, previous 2, ..."""
        later = zip(self.previous, self.functions[1:], strict=True)
        return [self.functions[0], *itertools.chain.from_iterable(later)]

    def leaves(self) -> list[int]:
        """The nodes that no other node reads: their mean is the cell's output."""
        return [node for node in range(len(self.functions)) if node not in self.previous]


class Sample(NamedTuple):
    """An architecture with its negative log-likelihood (a scalar) and the sum of p ln 1/p over its decisions."""

    architecture: Architecture
    loss: Tensor
    entropy: Tensor


class Controller(nn.Module):
    """Samples architectures of a number of nodes; one LSTM step before each decision.

    Two steps a node: the state after the first attends over the earlier nodes, that after the second picks the
    function. Near nodes are favoured: a distance d costs d^2 / 12 of a logit.
    """

    def __init__(self, nodes: int, size: int, temperature: float, bound: float) -> None:
        super().__init__()
        self.nodes, self.temperature, self.bound = nodes, temperature, bound
        self.start = nn.Parameter(torch.empty(1, size))
        self.functions = nn.Parameter(torch.empty(len(FUNCTIONS), size))
        self.lstm = nn.Parameter(torch.empty(2 * size, 4 * size))
        self.to_function = nn.Parameter(torch.empty(size, len(FUNCTIONS)))
        self.to_key = nn.Parameter(torch.empty(size, size))
        self.to_query = nn.Parameter(torch.empty(size, size))
        self.to_score = nn.Parameter(torch.empty(size, 1))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, choose: Choose) -> Sample:
        previous: list[int] = []
        functions: list[int] = []
        losses: list[Tensor] = []
        states: list[Tensor] = []  # of the earlier nodes, each (1, size)
        keys: list[Tensor] = []
        inputs: Tensor = self.start  # (1, size)
        state = (torch.zeros_like(inputs), torch.zeros_like(inputs))

        def decide(logits: Tensor) -> int:
            choice = choose(logits.detach().softmax(0))
            losses.append(-F.log_softmax(logits, 0)[choice])
            return choice

        for node in range(self.nodes):
            state = self._step(inputs, state)
            if node > 0:
                choice = decide(self._nearness(state[0], keys))
                previous.append(choice)
                inputs = states[choice] / (0.1 + node - choice)
            else:
                inputs = self.start
            states.append(state[0])
            keys.append(state[0] @ self.to_key)
            state = self._step(inputs, state)
            functions.append(decide(self._bounded(state[0] @ self.to_function)[0]))
            inputs = self.functions[functions[-1] : functions[-1] + 1]
        loss = torch.stack(losses)  # (2 nodes - 1,)
        entropy = (loss * (-loss).exp()).sum().detach()
        return Sample(Architecture(tuple(previous), tuple(functions)), loss.sum(), entropy)

    def _step(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        hidden, cell = state  # each (1, size)
        gates = (torch.cat((inputs, hidden), 1) @ self.lstm).chunk(4, 1)
        take, keep, show, new = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].sigmoid(), gates[3].tanh()
        cell = take * new + keep * cell
        return show * cell.tanh(), cell

    def _bounded(self, logits: Tensor) -> Tensor:
        return self.bound * (logits / self.temperature).tanh()

    def _nearness(self, hidden: Tensor, keys: Sequence[Tensor]) -> Tensor:
        """Logits (n,) of the n earlier nodes."""
        query = (hidden @ self.to_query + torch.cat(tuple(keys))).tanh()  # (n, size)
        distance = torch.arange(len(keys), 0, -1, device=hidden.device)
        return self._bounded(query @ self.to_score)[:, 0] - distance**2 / 12


class Sampler:
    """Draws architectures by luck: a uniform number per decision.

    ``twin`` is None where the controller's weights are real. Fake weights tell no probabilities; a real twin then
    decides, out of sight of every dispatch mode, and the controller goes over the decisions taken.
    """

    def __init__(self, controller: Controller, twin: Controller | None) -> None:
        self.controller, self.twin = controller, twin

    def draw(self, luck: Sequence[float]) -> Sample:
        if self.twin is None:
            sample: Sample = self.controller(_by_luck(iter(luck)))
            return sample
        with _disable_current_modes(), torch.no_grad():
            decisions = iter(self.twin(_by_luck(iter(luck))).architecture.decisions())
        sample = self.controller(lambda _: next(decisions))
        return sample


def _by_luck(luck: Iterator[float]) -> Choose:
    def choose(probabilities: Tensor) -> int:
        number = next(luck)
        bounds: list[float] = list(itertools.accumulate(probabilities.tolist()))
        return min(sum(bound <= number for bound in bounds), len(bounds) - 1)

    return choose
