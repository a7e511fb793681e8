"""Text summarization: a pointer-generator (See et al., arXiv:1704.04368) with intra-attention (arXiv:1705.04304).

AIBench Training DC-AI-C14 (PyTorch/Text_summarization, after rohithreddy024's Text-Summarizer-Pytorch) writes titles
for first sentences of Gigaword's news: sources up to 55 words, titles up to 15, which 99 % of each keep to. A
bidirectional LSTM of 2 x 512 reads, an LSTM cell of 512 writes word by word. Each step attends to the source (a word's
weight is divided by all that earlier steps gave it: intra-temporal) and to its own earlier states (intra-decoder), and
mixes a distribution over 50,000 words with one over the source's words, so that words beyond the vocabulary can be
copied. A quarter of the decoder's inputs are its own samples. Batches of 200, Adam at 1e-3, 50,000 steps, no clipping.

As in that code, each step of the decoder projects all states of the encoder and all of its own anew, more than half
of the arithmetic, and makes several tensors of 200 x 50,010.

What differs here, and why:

- Words are drawn by a Zipf law, lengths by log-normal laws with Gigaword's means (31.4 and 8.3 words, from memory) and
  deviations that put 99 % within 55 and 15. All batches are padded to 55, as the longest of 200 sources mostly asks.
- Half of a title's words are copied from its source, and one source word in 20 is beyond the vocabulary: assumptions.
  A source has ``oov`` places for these, where the reference makes as many as a batch needs.
- The encoder reads the padding (two fifths of the slots) too, where the reference packs; attention masks it.
- Training by reward (self-critic, with ROUGE on the host), an option of the reference, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.language import text
from wcbench.tasks.language.text import FIRST_WORD, PAD, START, UNKNOWN

if TYPE_CHECKING:
    import numpy as np

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class SummarySettings(Settings):
    """Knobs of the summarization task.

    Attributes
    ----------
    source, target : slots of a source and of a title, padding and a title's end included.
    source_mean, source_deviation, title_mean, title_deviation : of the lengths in words.
    vocab : words, four marks among them.
    oov, oov_share : places of a source for words beyond the vocabulary, and the share of its words that are.
    copied : share of a title's words that are its source's.
    sampled : share of the decoder's inputs that are its own samples.
    embedding, hidden : widths of the words and of the LSTMs.
    lr : of Adam.
    """

    batch_size: int = 200
    source: int = 55
    target: int = 15
    source_mean: float = 31.4
    source_deviation: float = 8.1
    title_mean: float = 8.3
    title_deviation: float = 2.3
    vocab: int = 50_000
    oov: int = 10
    oov_share: float = 0.05
    copied: float = 0.5
    sampled: float = 0.25
    embedding: int = 256
    hidden: int = 512
    lr: float = 1e-3

    def validate(self) -> None:
        super().validate()
        positive = ("source", "target", "source_mean", "source_deviation", "title_mean", "title_deviation")
        for name in (*positive, "oov", "embedding", "hidden"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it lies above 0.")
        for name in ("oov_share", "copied", "sampled"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it is a share, from 0 to 1.")
        if self.vocab <= FIRST_WORD:
            raise UsageError(f"vocab {self.vocab} is refused: {FIRST_WORD} of its entries are no words.")


class Fit(nn.Module):
    """How well a query (batch, width) fits keys (batch, n, width): (batch, n)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width, bias=False)
        self.query = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        sums = self.key(keys) + self.query(query).unsqueeze(1)  # (batch, n, width)
        fits: Tensor = self.score(torch.tanh(sums)).squeeze(2).float()
        return fits


class Decoder(nn.Module):
    """Losses (batch, t) of the words of titles, from the encoder's states (batch, s, 2 hidden) and first own state."""

    def __init__(self, settings: SummarySettings) -> None:
        super().__init__()
        embedding, hidden = settings.embedding, settings.hidden
        self.settings = settings
        self.source_fit, self.own_fit = Fit(2 * hidden), Fit(hidden)
        self.join = nn.Linear(2 * hidden + embedding, embedding)
        self.cell = nn.LSTMCell(embedding, hidden)
        self.generate = nn.Linear(5 * hidden + embedding, 1)
        self.narrow = nn.Linear(4 * hidden, hidden)
        self.words = nn.Linear(hidden, settings.vocab)

    def forward(self, embedding: nn.Module, carried: Tensors, source: Tensors, read: Tensor, wanted: Tensor) -> Tensor:
        states, mask, ids = source
        vocab, losses, said = self.settings.vocab, [], read[:, 0]
        context = torch.zeros_like(states[:, 0])  # (batch, 2 hidden)
        beyond = mask.new_zeros(len(mask), self.settings.oov)  # the room for words beyond the vocabulary
        given: Tensor | None = None  # (batch, s): sum of what the source's words were given
        own: Tensor | None = None  # (batch, steps so far, hidden)
        for at in range(wanted.shape[1]):
            told = torch.rand(said.shape, device=said.device) >= self.settings.sampled
            word = embedding(torch.where(told, read[:, at], said))
            joined = self.join(torch.cat((word, context), dim=1))  # (batch, embedding)
            carried = self.cell(joined, carried)
            state, both = carried[0], torch.cat(carried, dim=1)  # (batch, hidden), (batch, 2 hidden)
            fits = torch.exp(self.source_fit(both, states))  # (batch, s)
            weights = mask * (fits if given is None else fits / given)
            given = fits + (1e-10 if given is None else given)
            weights = weights / weights.sum(1, keepdim=True)
            context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
            if own is None:
                back, own = torch.zeros_like(state), state.unsqueeze(1)
            else:
                looks = F.softmax(self.own_fit(state, own), dim=1).unsqueeze(1)  # (batch, 1, steps so far)
                back, own = torch.bmm(looks, own).squeeze(1), torch.cat((own, state.unsqueeze(1)), dim=1)
            share = torch.sigmoid(self.generate(torch.cat((context, back, both, joined), dim=1)).float())
            logits = self.words(self.narrow(torch.cat((state, context, back), dim=1)))
            chances = torch.cat((share * F.softmax(logits.float(), dim=1), beyond), dim=1)  # (batch, vocab + oov)
            chances = chances.scatter_add(1, ids, (1 - share) * weights)
            losses.append(F.nll_loss(torch.log(chances + 1e-12), wanted[:, at], ignore_index=PAD, reduction="none"))
            said = torch.multinomial(chances.detach(), 1).squeeze(1)
            said = torch.where(said < vocab, said, UNKNOWN)
        return torch.stack(losses, dim=1)


class PointerGenerator(nn.Module):
    """Losses (batch, t) of the words of titles (batch, t), given sources (batch, s)."""

    def __init__(self, settings: SummarySettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.embedding = nn.Embedding(settings.vocab, settings.embedding)
        self.encoder = nn.LSTM(settings.embedding, hidden, batch_first=True, bidirectional=True)
        self.reduce_state, self.reduce_cell = nn.Linear(2 * hidden, hidden), nn.Linear(2 * hidden, hidden)
        self.decoder = Decoder(settings)
        narrow = (self.reduce_state, self.reduce_cell, self.decoder.words)
        for parameter in (self.embedding.weight, *(p for linear in narrow for p in linear.parameters())):
            nn.init.normal_(parameter, std=1e-4)
        for name, parameter in (*self.encoder.named_parameters(), *self.decoder.cell.named_parameters()):
            nn.init.uniform_(parameter, -0.02, 0.02)
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
                nn.init.ones_(parameter[hidden : 2 * hidden])  # the forget gate starts open

    def forward(self, words: Tensor, extended: Tensor, read: Tensor, wanted: Tensor) -> Tensor:
        states, last = text.run_lstm(self.encoder, self.embedding(words))  # (batch, s, 2 hidden)
        state, cell = (both.transpose(0, 1).flatten(1) for both in last)  # (batch, 2 hidden)
        carried = (F.relu(self.reduce_state(state)), F.relu(self.reduce_cell(cell)))
        mask = (words != PAD).float()
        losses: Tensor = self.decoder(self.embedding, carried, (states, mask, extended), read, wanted)
        return losses


class TextSummarization(Task):
    """Pointer-generator on sentences and titles of Gigaword's lengths."""

    length: ClassVar[str | None] = "source"
    presets: ClassVar[Mapping[str, SummarySettings]] = {
        "paper": SummarySettings(),
        "small": SummarySettings(4, 30, 8, 17.0, 4.5, 4.4, 1.2, vocab=5000, oov=6, embedding=128, hidden=256),
        "tiny": SummarySettings(4, 8, 4, 4.6, 1.2, 2.2, 0.6, vocab=200, oov=3, embedding=16, hidden=32),
    }

    def build(self, config: Config) -> Built:
        settings: SummarySettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = PointerGenerator(settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, foreach=True)
        titles = Titles(settings, config.seed)

        def batch(index: int) -> Tensors:
            return tuple(ids.to(config.device) for ids in titles.batch(index))

        def infer(batch: Tensors) -> Tensor:
            with config.autocast():
                losses: Tensor = model(*batch)
            return losses

        def step(batch: Tensors) -> Tensor:
            loss = (infer(batch).sum(1) / (batch[3] != PAD).sum(1)).mean()  # of a title's mean per word
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """Sources, then the decoder's inputs step by step; its own samples are taken to follow the law of the words."""
        words, _, read, _ = Titles(config.settings, config.seed, zipf).batch(index)
        return {"model.embedding.weight": torch.cat((words.flatten(), read.T.flatten())).numpy()}


class Titles:
    """Drawn sources and titles on the CPU."""

    def __init__(self, settings: SummarySettings, seed: int, zipf: float | None = None) -> None:
        self.settings, self.seed = settings, seed
        self.law = text.word_law(settings.vocab, zipf)

    def batch(self, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sources and the same with ids beyond the vocabulary (batch, s); the decoder's input and its title (batch, t).

        Sources come longest first, as the reference sorts them. A title that fits ends with END, a longer one is cut.
        """
        settings, rng = self.settings, data.generator(self.seed, index)
        length = self._lengths(settings.source_mean, settings.source_deviation, rng).clamp(max=settings.source)
        length = length.sort(dim=0, descending=True).values
        words = text.draw_words(self.law, (settings.batch_size, settings.source), rng)
        words = torch.where(torch.arange(settings.source) < length, words, PAD)
        words, extended = text.beyond_vocabulary(words, settings.vocab, settings.oov, settings.oov_share, rng)
        shape = (settings.batch_size, settings.target)
        place = (torch.rand(shape, dtype=torch.float64, generator=rng) * length).long()
        copied = torch.rand(shape, generator=rng) < settings.copied
        title = torch.where(copied, extended.gather(1, place), text.draw_words(self.law, shape, rng))
        end = self._lengths(settings.title_mean, settings.title_deviation, rng) + 1  # with END
        read = torch.where(title < settings.vocab, title, UNKNOWN)
        read = torch.cat((torch.full((len(read), 1), START), read[:, :-1]), dim=1)
        return words, extended, torch.where(torch.arange(settings.target) < end, read, PAD), text.close(title, end)

    def _lengths(self, mean: float, deviation: float, rng: torch.Generator) -> Tensor:
        law = text.length_law(mean, deviation, 1, int(mean + 10 * deviation) + 1)
        return text.draw_lengths(law, 1, (self.settings.batch_size, 1), rng)
