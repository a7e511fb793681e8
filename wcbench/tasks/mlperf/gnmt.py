"""Translation: GNMT of MLPerf Training v0.7, a recurrent encoder and decoder (Wu et al., arXiv:1609.08144).

The reference (mlcommons/training, rnn_translator/pytorch) trains on WMT16 English-German to 24.0 BLEU: width 1,024,
a bidirectional LSTM and three more that read, four LSTMs that write, residual connections from the third layer on.
Normalised additive attention follows the decoder's first layer, and what it found is fed to all later ones; scoring
makes tensors of batch x target x source x 1,024 (472 MB at 128 x 30 x 30). One embedding of both languages, a separate
output layer, dropout 0.2 before each LSTM, label smoothing 0.1, Adam at 1e-3 after 200 steps of rising rate, clipping
at norm 5. Batches hold 128 pairs up to 50 tokens, from one of five buckets of the longer side, 10 tokens wide.

What differs here, and why:

- Sentences are drawn: Zipf words, 30 + 30 slots, the lengths of either side from the third bucket (21 to 30). Steps of
  other buckets: ``--set source=50 --set bucket=1.25``, and so on.
- The first LSTM of the encoder reads the padding too, where the reference packs; attention masks it, as there.
- 32,320 pieces: the reference's vocabulary padded to a multiple of 32 (from memory).
- The halvings of the rate, in the last third of the training, are left out.
- The loss is the sum over a batch's words divided by its pairs, as there.
- In bf16 on a CPU the LSTMs run step by step (`text.run_lstm`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.language.text import PAD, Pairs, PairSettings, run_lstm

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class GnmtSettings(PairSettings):
    """Knobs of GNMT.

    Attributes
    ----------
    layers : of the encoder, and as many of the decoder.
    hidden : width of everything.
    lr, warmup : rate of Adam, and the steps over which it rises to it from a hundredth.
    clip : greatest norm of the gradients.
    """

    batch_size: int = 128
    source: int = 30
    bucket: float | None = 1.5
    vocab: int = 32_320
    dropout: float = 0.2
    layers: int = 4
    hidden: int = 1024
    lr: float = 1e-3
    warmup: int = 200
    clip: float = 5.0

    def validate(self) -> None:
        super().validate()
        if self.layers < 2 or self.hidden < 1:
            raise UsageError(
                f"layers {self.layers} of hidden {self.hidden} is refused: attention sits between the first two layers."
            )
        if self.clip <= 0 or self.warmup < 1:
            raise UsageError(f"clip {self.clip} with warmup {self.warmup} is refused: both lie above 0.")


class Encoder(nn.Module):
    """Embedded words (s, batch, hidden) to states of the same shape."""

    def __init__(self, settings: GnmtSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.both_ways = nn.LSTM(hidden, hidden, bidirectional=True)
        self.narrow = nn.LSTM(2 * hidden, hidden)
        self.residual = nn.ModuleList(nn.LSTM(hidden, hidden) for _ in range(settings.layers - 2))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = run_lstm(self.both_ways, self.dropout(x))  # (s, batch, 2 hidden)
        x, _ = run_lstm(self.narrow, self.dropout(x))
        for lstm in self.residual:
            x = x + run_lstm(lstm, self.dropout(x))[0]
        return x


class Attention(nn.Module):
    """Queries (t, batch, hidden) over states (s, batch, hidden), real where seen (batch, 1, s): (t, batch, hidden)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Parameter(torch.empty(hidden))
        self.scale = nn.Parameter(torch.empty(1))
        self.bias = nn.Parameter(torch.empty(hidden))

    def forward(self, queries: Tensor, states: Tensor, seen: Tensor) -> Tensor:
        states = states.transpose(0, 1)  # (batch, s, hidden)
        query = self.query(queries.transpose(0, 1)).unsqueeze(2)  # (batch, t, 1, hidden)
        sums = query + self.key(states).unsqueeze(1)  # (batch, t, s, hidden)
        direction = self.score / self.score.norm() * self.scale
        scores = torch.tanh(sums + self.bias).matmul(direction)  # (batch, t, s)
        weights = F.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
        return torch.bmm(weights, states).transpose(0, 1)


class Decoder(nn.Module):
    """Embedded words (t, batch, hidden) and the encoder's states to outputs (t, batch, hidden)."""

    def __init__(self, settings: GnmtSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.first = nn.LSTM(hidden, hidden)
        self.attention = Attention(hidden)
        self.later = nn.ModuleList(nn.LSTM(2 * hidden, hidden) for _ in range(settings.layers - 1))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, states: Tensor, seen: Tensor) -> Tensor:
        x, _ = run_lstm(self.first, self.dropout(x))
        found = self.attention(x, states, seen)
        for at, lstm in enumerate(self.later):
            y, _ = run_lstm(lstm, self.dropout(torch.cat((x, found), dim=2)))
            x = y + x if at else y
        return x


class Gnmt(nn.Module):
    """Source (batch, s) and the decoder's input (batch, t), both ids, to logits (t, batch, vocab)."""

    def __init__(self, settings: GnmtSettings) -> None:
        super().__init__()
        self.embedding = nn.Embedding(settings.vocab, settings.hidden, padding_idx=PAD)
        self.encoder = Encoder(settings)
        self.decoder = Decoder(settings)
        self.output = nn.Linear(settings.hidden, settings.vocab)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
        nn.init.constant_(self.decoder.attention.scale, settings.hidden**-0.5)
        nn.init.zeros_(self.decoder.attention.bias)

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        seen = (source != PAD).unsqueeze(1)  # (batch, 1, s)
        states = self.encoder(self.embedding(source.T))  # time first, as the reference has it
        logits: Tensor = self.output(self.decoder(self.embedding(read.T), states, seen))
        return logits


class MlperfGnmt(Task):
    """GNMT on pairs of sentences."""

    length: ClassVar[str | None] = "source"
    presets: ClassVar[Mapping[str, GnmtSettings]] = {
        "paper": GnmtSettings(),
        "small": GnmtSettings(batch_size=4, source=16, vocab=4000, hidden=256),
        "tiny": GnmtSettings(batch_size=4, source=6, vocab=200, layers=3, hidden=32),
    }

    def build(self, config: Config) -> Built:
        settings: GnmtSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Gnmt(settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, foreach=True)
        pairs = Pairs(settings, config.seed)
        done = 0

        def batch(index: int) -> tuple[Tensor, ...]:
            return tuple(ids.to(config.device) for ids in pairs.batch(index, settings.shape))

        def infer(batch: tuple[Tensor, ...]) -> Tensor:
            with config.autocast():
                logits: Tensor = model(*batch[:2])
            return logits

        def step(batch: tuple[Tensor, ...]) -> Tensor:
            nonlocal done
            optimizer.param_groups[0]["lr"] = settings.lr * 0.01 ** max(0.0, 1 - done / settings.warmup)
            done += 1
            optimizer.zero_grad(set_to_none=True)
            logits, wanted = infer(batch).flatten(0, 1).float(), batch[2].T.flatten()
            loss = F.cross_entropy(
                logits, wanted, ignore_index=PAD, label_smoothing=settings.smoothing, reduction="sum"
            ) / len(batch[2])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip, foreach=True)
            optimizer.step()
            return loss.detach()

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        settings: GnmtSettings = config.settings
        return {"model.embedding.weight": Pairs(settings, config.seed, zipf).lookups(index, settings.shape)}
