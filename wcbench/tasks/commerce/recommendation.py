"""Recommendation: neural collaborative filtering, NeuMF, on MovieLens ml-20m (He et al., arXiv:1708.05031).

AIBench Training DC-AI-C10 (PyTorch/recommendation) runs MLPerf's NeuMF: matrix factorization with 64 factors beside a
perceptron 256-256-128-64 over embeddings of 128, Adam at 2e-4, batches of 65,536 pairs with 4 sampled negatives per
positive, shuffled. Gradients of the embeddings are dense, so that Adam updates all 31.7 million weights in every
step, whatever the batch: most of a step is this update.

What differs here, and why:

- The pairs are drawn, not read. Positives take items by ml-100k's popularity (`data.item_popularity`) and users by a
  log-normal activity with ml-20m's mean; negatives take items uniformly. Which users and items are the frequent ones
  is a random choice, so that popular rows lie scattered in the tables.
- A batch holds exactly one positive in five, where the reference's shuffle gives that share on average.
- With setting ``zipf`` all users and items, negatives too, follow Zipf's law; ``ids`` reads the pairs from a file.
- Weights start as normal with deviation 0.01 in the embeddings and Xavier-uniform in the perceptron.
- AIBench's default data set; the fractally expanded one (16 times the users, 32 times the items) is
  ``--set users=2215888 --set items=855808``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task


@dataclass(frozen=True)
class PairSettings(Settings):
    """Knobs of the recommendation task.

    Attributes
    ----------
    users, items : rows of the embedding tables.
    mean_rows, median_rows : rows of the data set per user, which shape the users' activity.
    factors : width of the matrix factorization's embeddings.
    layers : widths of the perceptron; its embeddings are half of the first.
    negatives : sampled negatives per positive.
    lr : of Adam.
    zipf : exponent of Zipf's law for users and items, in place of the laws above.
    ids : file of recorded pairs, a line a pair: user, item.
    """

    batch_size: int = 65_536
    users: int = 138_493
    items: int = 26_744
    mean_rows: float = 144.4  # 20,000,263 rows of ml-20m
    median_rows: float = 68.0  # of ml-20m, from memory
    factors: int = 64
    layers: tuple[int, ...] = (256, 256, 128, 64)
    negatives: int = 4
    lr: float = 2e-4
    zipf: float | None = None
    ids: str | None = None

    def validate(self) -> None:
        super().validate()
        data.check_ids(self.zipf, self.ids)
        if min(self.users, self.items, self.factors) < 1 or self.negatives < 0:
            raise UsageError("users, items and factors start at 1 and negatives at 0.")
        if not self.layers or min(self.layers) < 1 or self.layers[0] % 2:
            raise UsageError(
                f"layers {self.layers} is refused: the first joins a user's and an item's half, so it must be even.",
                "Give e.g. --set layers=256,256,128,64.",
            )
        if not 0 < self.median_rows <= self.mean_rows:
            raise UsageError(
                f"median_rows {self.median_rows} with mean_rows {self.mean_rows} is refused:"
                " the median of a log-normal law is positive and lies at or below its mean."
            )


class NeuMF(nn.Module):
    """Users (batch,) and items (batch,) to logits (batch,)."""

    def __init__(self, users: int, items: int, factors: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.factor_user = nn.Embedding(users, factors)
        self.factor_item = nn.Embedding(items, factors)
        self.deep_user = nn.Embedding(users, layers[0] // 2)
        self.deep_item = nn.Embedding(items, layers[0] // 2)
        blocks = [nn.Sequential(nn.Linear(wide, narrow), nn.ReLU()) for wide, narrow in pairwise(layers)]
        self.perceptron = nn.Sequential(*blocks)
        self.score = nn.Linear(factors + layers[-1], 1)
        self.apply(_initialize)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        factorized = self.factor_user(users) * self.factor_item(items)  # (batch, 64)
        deep = torch.cat((self.deep_user(users), self.deep_item(items)), dim=1)  # (batch, 256)
        deep = self.perceptron(deep)  # (batch, 64)
        logits: Tensor = self.score(torch.cat((factorized, deep), dim=1)).squeeze(1)
        return logits


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.01)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


class Recommendation(Task):
    """NeuMF on pairs of MovieLens's shape."""

    presets: ClassVar[Mapping[str, PairSettings]] = {
        "paper": PairSettings(),
        "small": PairSettings(batch_size=2048, users=943, items=1682, mean_rows=106.0, median_rows=65.0),  # ml-100k
        "tiny": PairSettings(batch_size=64, users=50, items=80, factors=8, layers=(32, 32, 16, 8)),
    }

    def build(self, config: Config) -> Built:
        settings: PairSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = NeuMF(settings.users, settings.items, settings.factors, settings.layers)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, betas=(0.9, 0.999), foreach=True)
        pairs = Pairs(settings, config.seed)

        def batch(index: int) -> tuple[Tensor, Tensor, Tensor]:
            users, items, labels = pairs.batch(index)
            return users.to(config.device), items.to(config.device), labels.to(config.device)

        def step(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            users, items, labels = batch
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss = F.binary_cross_entropy_with_logits(model(users, items), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            with config.autocast():
                logits: Tensor = model(batch[0], batch[1])
            return logits

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        users, items, _ = Pairs(config.settings, config.seed).batch(index, zipf)
        ids = {"user": users.numpy(), "item": items.numpy()}
        return {f"model.{part}_{side}.weight": ids[side] for part in ("factor", "deep") for side in ids}


class Pairs:
    """The drawn data set: who is active, what is popular, and batches of both on the CPU."""

    def __init__(self, settings: PairSettings, seed: int) -> None:
        rng = data.generator(seed, data.DATASET)
        self.settings, self.seed = settings, seed
        self.tables = (("users", settings.users), ("items", settings.items))
        self.activity = data.user_activity(settings.users, mean=settings.mean_rows, median=settings.median_rows)
        self.popularity = data.item_popularity(settings.items)
        self.user_of_rank = torch.randperm(settings.users, generator=rng)
        self.item_of_rank = torch.randperm(settings.items, generator=rng)

    def batch(self, index: int, law: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Users (batch,) and items (batch,), int64, and labels (batch,), 1.0 where the pair is a positive.

        ``law`` draws users and items by Zipf's law of that exponent.
        """
        rng = data.generator(self.seed, index)
        settings = self.settings
        shape = (settings.batch_size,)
        positives = max(1, round(settings.batch_size / (1 + settings.negatives)))
        positive = torch.randperm(settings.batch_size, generator=rng) < positives
        if law is None and settings.ids is not None:
            pairs = data.recorded(settings.ids, self.tables, index, settings.batch_size)
            return pairs[:, 0], pairs[:, 1], positive.float()
        law = settings.zipf if law is None else law
        if law is not None:
            users = self.user_of_rank[data.zipf(settings.users, law, shape, rng)]
            return users, self.item_of_rank[data.zipf(settings.items, law, shape, rng)], positive.float()
        users = self.user_of_rank[data.draw(self.activity, shape, rng)]
        liked = self.item_of_rank[data.draw(self.popularity, shape, rng)]
        sampled = torch.randint(settings.items, shape, generator=rng)
        return users, torch.where(positive, liked, sampled), positive.float()
