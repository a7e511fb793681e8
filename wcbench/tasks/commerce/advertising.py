"""Advertising: DLRM on Criteo's Kaggle data (Naumov et al., arXiv:1906.00091); and drawn impressions.

AIBench Training names advertising as DC-AI-C18, from memory: its training repository holds no code for it. The
scenario repository and facebookresearch/dlrm's bench/dlrm_s_criteo_kaggle.sh have the same flags: embeddings of 16, a
bottom perceptron 13-512-256-64-16, all 351 dot products of 27 vectors, a top one 367-512-256-1, binary cross entropy,
SGD at 0.1, batches of 128. The 26 tables hold 33,762,577 rows and nearly all of the 540,677,217 parameters; a sample
reads one row of each. 972,064 FLOP a sample count the interaction as the code runs it: a product of the 27 vectors
with themselves, 27 x 27 x 16, of which 351 results are used. Alone these would take 11,232 FLOP in place of 23,328.

What differs here, and why:

- Impressions are drawn, since Criteo's terms forbid passing its data on. The 13 numbers are log-normal counts, 20 to
  45 % of them missing by column, taken as log(1 + count), and as 0 where missing.
- A table's ids follow Zipf's law: of exponent 0.2 (near uniform) below 1,000 rows, of 1.05 at 1,000 and growing with
  the logarithm of the rows to 1.3 at 10 million. These exponents are not from a source, none was found: replace them
  by ``--set zipf=1.1`` or give recorded ids.
- Popular rows lie scattered. The reference numbers categories as they first appear, which gathers popular ones near a
  table's start: its neighbouring rows are reused more than here.
- Whether an impression is clicked on depends on all 39 features, so that there is something to learn. The share of
  clicks is the same in every batch.
- The last sigmoid is part of the loss, which mixed precision needs.
- Two SGDs, for the perceptrons and for the tables, where the reference has one: torch batches over tensors only what
  has no sparse gradient.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.commerce.dlrm import NUMBERS, Dlrm, PairDots, Table

KAGGLE = (
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194,
    27, 14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
MISSING = tuple(0.20 + 0.25 * column / (NUMBERS - 1) for column in range(NUMBERS))

Batch = tuple[Tensor, list[Tensor], list[Tensor], Tensor]  # numbers, ids by table, offsets by table, labels


@dataclass(frozen=True)
class ClickSettings(Settings):
    """Knobs of the tasks on Criteo's logs.

    Attributes
    ----------
    rows : of the tables, one a category; ``cap`` cuts larger ones down to it.
    dim : width of an embedding.
    bottom, top : widths of the numbers' perceptron, ending with dim, and hidden ones of that which gives the logit.
    lr : of the optimizer.
    clicks : share of the impressions that are clicked on.
    zipf : exponent of Zipf's law for the ids of every table, in place of the task's own laws.
    ids : file of recorded ids, a line an impression and a column a table.
    """

    batch_size: int = 128
    rows: tuple[int, ...] = KAGGLE
    cap: int = 2**31 - 1
    dim: int = 16
    bottom: tuple[int, ...] = (512, 256, 64, 16)
    top: tuple[int, ...] = (512, 256)
    lr: float = 0.1
    clicks: float = 0.256  # of Criteo's Kaggle data, from memory
    zipf: float | None = None
    ids: str | None = None

    def validate(self) -> None:
        super().validate()
        data.check_ids(self.zipf, self.ids)
        if not self.rows or not 1 <= min(*self.rows, self.cap) <= max(*self.rows, self.cap) < 2**31:
            raise UsageError(
                f"rows {self.rows} with cap {self.cap} is refused: there is at least one table, of 1 to 2**31 - 1 rows."
            )
        if not self.bottom or not self.top or min(*self.bottom, *self.top) < 1:
            raise UsageError("Widths of bottom and top are 1 or more, and neither perceptron is empty.")
        if self.bottom[-1] != self.dim:
            raise UsageError(
                f"bottom {self.bottom} with dim {self.dim} is refused: the numbers' vector meets the embeddings.",
                f"End bottom with {self.dim}, or set dim to {self.bottom[-1]}.",
            )
        if not 0 < self.clicks < 1:
            raise UsageError(f"clicks {self.clicks} is refused: it is a share, above 0 and below 1.")

    def tables(self) -> tuple[int, ...]:
        return tuple(min(rows, self.cap) for rows in self.rows)

    def bags(self) -> tuple[int, ...]:
        """Ids of a sample by table."""
        return (1,) * len(self.rows)


def exponent(rows: int) -> float:
    """Of Zipf's law over the ids of a table; a proposal."""
    return 0.2 if rows < 1000 else 1.05 + 0.25 * min(1.0, math.log10(rows / 1000) / 4)


class Impressions:
    """Drawn impressions; batches lie on the CPU."""

    def __init__(self, settings: ClickSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    def ids(self, rng: torch.Generator, index: int, law: float | None = None) -> list[Tensor]:
        """Ids (batch, size of a bag) by table, drawn first from a step's generator; ``law`` is Zipf's exponent."""
        settings, tables = self.settings, self.settings.tables()
        if law is None and settings.ids is not None:
            names = [(f"tables.{number}", rows) for number, rows in enumerate(tables)]
            first = list(data.recorded(settings.ids, names, index, settings.batch_size).unbind(1))
        else:
            law = settings.zipf if law is None else law
            first = []
            for number, rows in enumerate(tables):
                ranks = data.zipf(rows, exponent(rows) if law is None else law, (settings.batch_size,), rng)
                first.append(data.scatter(ranks, rows, self.seed, number))
        return [self._bag(ids, number) for number, ids in enumerate(first)]

    def _bag(self, first: Tensor, number: int) -> Tensor:
        """The further ids of a bag are fixed for its first, and uniform over the table."""
        more = torch.arange(1, self.settings.bags()[number]).unsqueeze(0)
        rest = data.scramble(first.unsqueeze(1), 1000 * number + more) % self.settings.tables()[number]
        return torch.cat((first.unsqueeze(1), rest), dim=1)

    def batch(self, index: int) -> Batch:
        rng = data.generator(self.seed, index)
        size = self.settings.batch_size
        ids = self.ids(rng, index)
        normal = torch.randn(size, NUMBERS, generator=rng)
        missing = data.missing(size, MISSING, rng)
        counts = (1.5 + 1.5 * normal).exp().floor()
        numbers = counts.log1p().masked_fill(missing, 0)
        labels = self._labels(normal.masked_fill(missing, 0), torch.stack([bag[:, 0] for bag in ids], dim=1), rng)
        offsets = [torch.arange(0, bag.numel(), bag.shape[1]) for bag in ids]
        return numbers, [bag.flatten() for bag in ids], offsets, labels

    def _labels(self, numbers: Tensor, first: Tensor, rng: torch.Generator) -> Tensor:
        """1.0 for a click, (batch,): the likeliest by what the features add up to, and by logistic chance."""
        tables = torch.arange(first.shape[1])
        effects = data.scramble(first, 10**6 + self.seed + tables).double() / 2**63 - 0.5
        weights = torch.randn(NUMBERS, generator=data.generator(self.seed, data.DATASET)) / math.sqrt(NUMBERS)
        signal = numbers @ weights + effects.sum(1) * 1.7 * math.sqrt(12 / first.shape[1])
        score = signal + torch.rand(signal.shape, dtype=torch.float64, generator=rng).logit(1e-9)
        clicks = max(1, round(self.settings.clicks * self.settings.batch_size))
        return (score >= score.topk(clicks).values[-1]).float()


class ClickTask(Task):
    """DLRM on drawn impressions; tasks give presets, and where they differ interaction and optimizers."""

    explicit: ClassVar[bool] = False  # gradients of the tables as rows in place of sparse tensors

    def interaction(self, settings: Any) -> Callable[[int, int], nn.Module]:
        """What makes the interaction of so many vectors of one width."""
        return PairDots

    def optimizers(self, model: Dlrm, lr: float) -> dict[str, torch.optim.Optimizer]:
        tables = [table for table in model.tables if isinstance(table, Table)]
        dense = [p for part in (model.bottom, model.interaction, model.top) for p in part.parameters()]
        return {"model": self.dense_optimizer(dense, lr), "tables": self.table_optimizer(tables, lr)}

    def dense_optimizer(self, parameters: list[Any], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr, foreach=True)

    def table_optimizer(self, tables: list[Table], lr: float) -> torch.optim.Optimizer:
        # one tensor after the other all the same, which torch falls back to for sparse gradients
        return torch.optim.SGD([table.weight for table in tables], lr=lr, foreach=True)

    def build(self, config: Config) -> Built:
        settings: ClickSettings = config.settings
        _refuse_too_large(settings, config.device)
        torch.manual_seed(config.seed)
        parts = (settings.tables(), settings.dim, settings.bottom, settings.top, self.interaction(settings))
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Dlrm(*parts, explicit=self.explicit)
        optimizers = self.optimizers(model, settings.lr)
        impressions = Impressions(settings, config.seed)

        def batch(index: int) -> Batch:
            numbers, ids, offsets, labels = impressions.batch(index)
            ids, offsets = ([one.to(config.device) for one in many] for many in (ids, offsets))
            return numbers.to(config.device), ids, offsets, labels.to(config.device)

        def step(batch: Batch) -> Tensor:
            *inputs, labels = batch
            for optimizer in optimizers.values():
                optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss = F.binary_cross_entropy_with_logits(model(*inputs), labels)
            loss.backward()
            for optimizer in optimizers.values():
                optimizer.step()
            return loss.detach()

        def infer(batch: Batch) -> Tensor:
            with config.autocast():
                logits: Tensor = model(*batch[:3])
            return logits

        return Built(step, batch, {"model": model}, settings.batch_size, optimizers, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        drawn = Impressions(config.settings, config.seed).ids(data.generator(config.seed, index), index, zipf)
        return {f"model.tables.{number}.weight": ids.flatten().numpy() for number, ids in enumerate(drawn)}


def _refuse_too_large(settings: ClickSettings, device: str) -> None:
    """Tables are written when they are made: on a CPU without the memory the system would kill the process."""
    if not hasattr(os, "sysconf"):  # not every system has it
        return
    needed = 4 * settings.dim * sum(settings.tables())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if torch.device(device).type == "cpu" and not isinstance(torch.empty(0), FakeTensor) and needed > memory:
        raise UsageError(
            f"The tables take {needed / 2**30:.1f} GiB, and this machine has {memory / 2**30:.1f}.",
            "Count the operators instead, which takes no memory, or cut the tables, e.g. with --set cap=100000.",
        )


class Advertising(ClickTask):
    """DLRM at the size of Criteo's Kaggle data."""

    presets: ClassVar[Mapping[str, ClickSettings]] = {
        "paper": ClickSettings(),
        "small": ClickSettings(cap=100_000),
        "tiny": ClickSettings(batch_size=16, cap=100, dim=4, bottom=(16, 8, 8, 4), top=(32, 16)),
    }
