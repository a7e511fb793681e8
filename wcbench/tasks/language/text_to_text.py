"""Text-to-text translation: the Transformer, base size (Vaswani et al., arXiv:1706.03762).

AIBench Training DC-AI-C3 names WMT English-German; its code (PyTorch/Text_to_Text, a copy of jadore801120's
attention-is-all-you-need-pytorch) trains on Multi30k's sentences: batches of 256 random pairs, each side padded to its
longest, 20 epochs. Width 512, feed-forward 2,048, 8 heads, 6 + 6 layers, dropout 0.1 and label smoothing 0.1 with
dense one-hot targets, Adam with betas 0.9 and 0.98, a rate that rises for 4,000 steps and falls as the square root.
Teacher forcing: the decoder reads the true words so far under a causal mask.

What differs here, and why:

- One table of 37,000 pieces, the paper's vocabulary (from memory), for source, target and output. AIBench ties target
  and output only, and its vocabulary is not known.
- Sentences are drawn: Zipf words; 32 + 32 slots, lengths from a bucket of 10 % below that, as the paper batches by
  length. AIBench's batches as it runs them (from memory: Multi30k has 12 words a sentence and 2 marks):
  ``--set bucket=none --set mean_length=14 --set length_deviation=4``. Padding is masked; every slot is computed.
- Embeddings are multiplied by the square root of the width, as in the paper. Both stacks end in a normalization, as in
  torch.nn.Transformer: 2,048 weights that the paper does not have.
- The loss is the mean over the words, where AIBench takes the sum; Adam hardly notices.
- Attention is torch's fused operator; AIBench's code spells out products and softmax, as ``--set attention=eager``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UnknownNameError, UsageError
from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.language.text import PAD, Bucket, Pairs, PairSettings, kinds_of, smoothed_loss

if TYPE_CHECKING:
    import numpy as np

ATTENTIONS = ("eager", "sdpa")


@dataclass(frozen=True)
class TranslationSettings(PairSettings):
    """Knobs of the Transformer tasks.

    Attributes
    ----------
    attention : "sdpa" (torch's fused operator) or "eager" (matrix products and a softmax).
    layers : of the encoder, and as many of the decoder.
    hidden, inner, heads : width, width inside the feed-forward part, and attention heads.
    lr, warmup : of the rate ``lr * hidden**-0.5 * min(step**-0.5, step * warmup**-1.5)``.
    """

    batch_size: int = 256
    attention: str = "sdpa"
    layers: int = 6
    hidden: int = 512
    inner: int = 2048
    heads: int = 8
    lr: float = 1.0
    warmup: int = 4000

    def validate(self) -> None:
        super().validate()
        if self.attention not in ATTENTIONS:
            raise UnknownNameError("attention", self.attention, ATTENTIONS)
        if min(self.layers, self.hidden, self.inner, self.heads) < 1 or self.hidden % self.heads or self.hidden % 2:
            raise UsageError(
                f"hidden {self.hidden} with {self.heads} heads in {self.layers} layers of {self.inner} is refused: each"
                " is at least 1, the heads share the width evenly, and it is even, for pairs of sines and cosines."
            )
        if self.warmup < 1:
            raise UsageError(f"warmup {self.warmup} is refused: the rate rises during one step at least.")


class Attention(nn.Module):
    """Queries from x (batch, tq, hidden), keys and values from memory (batch, tk, hidden) or from x itself.

    The mask (batch, 1, tq or 1, tk) is true where a query may look.
    """

    def __init__(self, settings: TranslationSettings) -> None:
        super().__init__()
        self.heads, self.dropout, self.fused = settings.heads, settings.dropout, settings.attention == "sdpa"
        hidden = settings.hidden
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        query, key, value = (self._split(part) for part in (self.query(x), self.key(memory), self.value(memory)))
        dropout = self.dropout if self.training else 0.0
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, mask, dropout)  # (batch, heads, tq, width)
        else:
            scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(2, 3)  # (batch, heads, tq, tk)
            weights = F.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
            mixed = F.dropout(weights, dropout, self.training) @ value
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))  # (batch, tq, hidden)
        return out

    def _split(self, x: Tensor) -> Tensor:
        batch, slots, _ = x.shape
        return x.view(batch, slots, self.heads, -1).transpose(1, 2)  # (batch, heads, t, width)


class Residual(nn.Module):
    """x (batch, t, hidden) plus what a part makes of it, normalized before the part or after the sum."""

    def __init__(self, part: nn.Module, settings: TranslationSettings, pre_norm: bool) -> None:
        super().__init__()
        self.part, self.pre_norm = part, pre_norm
        self.norm = nn.LayerNorm(settings.hidden, eps=1e-6)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        made = self.part(self.norm(x) if self.pre_norm else x, *others)
        added: Tensor = x + self.dropout(made)
        normed: Tensor = added if self.pre_norm else self.norm(added)
        return normed


class Layer(nn.Module):
    """Self-attention, attention to the encoder's output where crossed, and the feed-forward part."""

    def __init__(self, settings: TranslationSettings, pre_norm: bool, crossed: bool) -> None:
        super().__init__()
        wide, narrow = nn.Linear(settings.hidden, settings.inner), nn.Linear(settings.inner, settings.hidden)
        inside = [nn.Dropout(settings.dropout)] if pre_norm else []  # only MLPerf's drops inside as well
        self.look = Residual(Attention(settings), settings, pre_norm)
        self.cross = Residual(Attention(settings), settings, pre_norm) if crossed else None
        self.feed = Residual(nn.Sequential(wide, nn.ReLU(), *inside, narrow), settings, pre_norm)

    def forward(self, x: Tensor, mask: Tensor, *seen_memory: Tensor) -> Tensor:
        x = self.look(x, mask)
        if self.cross is not None:
            x = self.cross(x, *seen_memory)
        fed: Tensor = self.feed(x)
        return fed


class Stack(nn.Module):
    """The encoder's or (crossed) the decoder's layers, and a last normalization."""

    def __init__(self, settings: TranslationSettings, pre_norm: bool, crossed: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(settings, pre_norm, crossed) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.hidden, eps=1e-6)

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, *others)
        normed: Tensor = self.norm(x)
        return normed


class Transformer(nn.Module):
    """Source (batch, s) and the decoder's input (batch, t), both ids, to logits (batch, t, vocab)."""

    positions: Tensor

    def __init__(self, settings: TranslationSettings, slots: int, pre_norm: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(settings.vocab, settings.hidden, padding_idx=PAD)
        self.register_buffer("positions", _sinusoids(slots, settings.hidden), persistent=False)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = Stack(settings, pre_norm, crossed=False)
        self.decoder = Stack(settings, pre_norm, crossed=True)
        self.output = nn.Linear(settings.hidden, settings.vocab, bias=False)
        for parameter in (p for p in self.parameters() if p.dim() == 2):
            nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=settings.hidden**-0.5)
        self.output.weight = self.embedding.weight

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        seen = (source != PAD)[:, None, None, :]  # (batch, 1, 1, s)
        slots = read.shape[1]
        past = torch.ones(slots, slots, dtype=torch.bool, device=read.device).tril()
        mask = (read != PAD)[:, None, None, :] & past  # (batch, 1, t, t)
        memory = self.encoder(self._embed(source), seen)  # (batch, s, hidden)
        logits: Tensor = self.output(self.decoder(self._embed(read), mask, seen, memory))
        return logits

    def _embed(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.dropout(words + self.positions[: ids.shape[1]])
        return embedded


def _sinusoids(slots: int, width: int) -> Tensor:
    """Position codes (slots, width): sines, then cosines, of wavelengths from 2 pi to 10,000 times that."""
    wave = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    angle = torch.arange(slots).unsqueeze(1) * wave  # (slots, width / 2)
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def build_transformer(config: Config, buckets: Sequence[Bucket], betas: tuple[float, float], pre_norm: bool) -> Built:
    """A Transformer whose steps take the buckets in turn; shared with MLPerf's."""
    settings: TranslationSettings = config.settings
    torch.manual_seed(config.seed)
    slots = max(max(bucket.source, bucket.target) for bucket in buckets)
    with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
        model = Transformer(settings, slots, pre_norm)
    optimizer = torch.optim.Adam(model.parameters(), betas=betas, eps=1e-9, foreach=True)
    pairs, kinds = Pairs(settings, config.seed), kinds_of(buckets)
    done = 0

    def batch(index: int) -> tuple[Tensor, ...]:
        return tuple(ids.to(config.device) for ids in pairs.batch(index, buckets[index % len(buckets)]))

    def infer(batch: tuple[Tensor, ...]) -> Tensor:
        with config.autocast():
            logits: Tensor = model(*batch[:2])
        return logits

    def step(batch: tuple[Tensor, ...]) -> Tensor:
        nonlocal done
        done += 1
        optimizer.param_groups[0]["lr"] = rate(done, settings)
        optimizer.zero_grad(set_to_none=True)
        loss = smoothed_loss(infer(batch), batch[2], settings.smoothing)
        loss.backward()
        optimizer.step()
        return loss.detach()

    samples, models, optimizers = settings.batch_size, {"model": model}, {"model": optimizer}
    return Built(step, batch, models, samples, optimizers, lambda index: list(kinds)[index % len(kinds)], kinds, infer)


def rate(step: int, settings: TranslationSettings) -> float:
    """The learning rate of a step, counted from 1."""
    return float(settings.lr * settings.hidden**-0.5 * min(step**-0.5, step * settings.warmup**-1.5))


class TextToText(Task):
    """The base Transformer on pairs of sentences."""

    length: ClassVar[str | None] = "source"
    presets: ClassVar[Mapping[str, TranslationSettings]] = {
        "paper": TranslationSettings(),
        "small": TranslationSettings(batch_size=4, source=24, vocab=4000, hidden=256, inner=1024, heads=4),
        "tiny": TranslationSettings(batch_size=4, source=8, vocab=200, layers=2, hidden=64, inner=128, heads=2),
    }

    def build(self, config: Config) -> Built:
        return build_transformer(config, [config.settings.shape], betas=(0.9, 0.98), pre_norm=False)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        pairs = Pairs(config.settings, config.seed, zipf)
        return {"model.embedding.weight": pairs.lookups(index, config.settings.shape)}
