"""Natural language processing: BERT pre-training (Devlin et al., arXiv:1810.04805).

AIBench Training DC-AI-C19 names BERT on Wikipedia, but its repository holds neither the code nor the size; BERT-base
is proposed here: 12 layers of 768, 12 heads, 30,522 word pieces, 512 positions, dropout 0.1. As in the paper it learns
to fill in masked words (15 % of each sequence: 80 % of these masked, 10 % replaced, 10 % kept) and to tell whether the
second sentence follows the first, in batches of 256 sequences at rate 1e-4 with weight decay 0.01. The paper's first
nine tenths of the steps take 128 tokens, the rest 512: ``--set seq=512 --set fill=0.5``.

What differs here, and why:

- The text is drawn: words by a Zipf-Mandelbrot law, with the ids in order of frequency as in BERT's vocabulary.
- At 128 tokens every slot is full and no attention mask is passed; the library drops a mask that hides nothing.
  ``fill`` below 1 draws each length uniformly around that mean share of the slots, pads the rest and passes a mask.
  In Wikipedia half of the slots are padding at 512 tokens (Krell et al., arXiv:2107.02027).
- The masked-word head runs on every position, as transformers does; Google's code gathers the predicted ones first.
- The optimizer is AdamW, which is what Google's code calls Adam: its weight decay is decoupled. Here it also decays
  biases and normalization weights. The warm-up of the rate and the clipping of gradients are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from transformers import BertConfig, BertForPreTraining

from wcbench.errors import UnknownNameError, UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

if TYPE_CHECKING:
    import numpy as np

ATTENTIONS = ("eager", "sdpa")
PAD, CLS, SEP, MASK, FIRST_WORD = 0, 1, 2, 3, 4
SHORTEST = 5  # [CLS] word [SEP] word [SEP]
IGNORED = -100  # the label that cross entropy leaves out
WORDS = "model.bert.embeddings.word_embeddings.weight"


@dataclass(frozen=True)
class TextSettings(Settings):
    """Knobs of the natural language task.

    Attributes
    ----------
    seq : tokens in a sequence, padding included.
    fill : mean share of the tokens that are no padding; 1.0 means that none is padded.
    attention : "sdpa" (torch's fused operator) or "eager" (matrix products and a softmax).
    layers, hidden, heads : depth, width and attention heads; the feed-forward part is four times as wide.
    vocab : word pieces, four special ones among them.
    positions : longest sequence that the position embeddings allow.
    masked : share of a sequence's tokens to predict.
    dropout : of embeddings, attention and outputs.
    lr, weight_decay : of AdamW.
    """

    batch_size: int = 256
    seq: int = 128
    fill: float = 1.0
    attention: str = "sdpa"
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    vocab: int = 30_522
    positions: int = 512
    masked: float = 0.15
    dropout: float = 0.1
    lr: float = 1e-4
    weight_decay: float = 0.01

    def validate(self) -> None:
        super().validate()
        if self.attention not in ATTENTIONS:
            raise UnknownNameError("attention", self.attention, ATTENTIONS)
        if not SHORTEST <= self.seq <= self.positions:
            raise UsageError(
                f"seq {self.seq} is refused: BERT learns one embedding per position and has {self.positions},"
                f" and two sentences with their marks take {SHORTEST} tokens.",
                f"Give {SHORTEST} to {self.positions}, or raise positions as well.",
            )
        if min(self.layers, self.hidden, self.heads) < 1 or self.hidden % self.heads:
            raise UsageError(
                f"hidden {self.hidden} with {self.heads} heads in {self.layers} layers is refused:"
                " each is at least 1, and the heads share the width evenly."
            )
        if self.vocab <= FIRST_WORD:
            raise UsageError(f"vocab {self.vocab} is refused: {FIRST_WORD} of its entries are no words.")
        for name in ("fill", "masked"):
            share = getattr(self, name)
            if not 0 < share <= 1:
                raise UsageError(f"{name} {share} is refused: it is a share, above 0 and at most 1.")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout {self.dropout} is refused: it is a probability below 1.")


class NaturalLanguage(Task):
    """BERT pre-training: masked words and next sentence."""

    presets: ClassVar[Mapping[str, TextSettings]] = {
        "paper": TextSettings(),
        "small": TextSettings(batch_size=2, seq=64, hidden=256, heads=4, vocab=5000),
        "tiny": TextSettings(batch_size=2, seq=16, layers=2, hidden=64, heads=2, vocab=200),
    }

    length: ClassVar[str | None] = "seq"

    def build(self, config: Config) -> Built:
        settings: TextSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = BertForPreTraining(architecture(settings)).train()
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, foreach=True
        )
        text = Text(settings, config.seed)

        def batch(index: int) -> dict[str, Tensor]:
            return {name: tensor.to(config.device) for name, tensor in text.batch(index).items()}

        def step(batch: dict[str, Tensor]) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss: Tensor = model(**batch).loss  # masked words + next sentence, both cross entropies
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            return score(model, batch, config)

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """The word embeddings' rows in the order of the tokens; the head reads the same table whole."""
        text = Text(config.settings, config.seed, zipf)
        return {WORDS: text.batch(index)["input_ids"].flatten().numpy()}


def score(model: BertForPreTraining, batch: Mapping[str, Tensor], config: Config) -> tuple[Tensor, Tensor]:
    """Words at every position (batch, seq, vocab), and whether the second sentence follows (batch, 2)."""
    inputs = ("input_ids", "token_type_ids", "attention_mask")
    with config.autocast():
        found = model(**{name: batch[name] for name in inputs if name in batch})
    return found.prediction_logits, found.seq_relationship_logits


def architecture(settings: TextSettings) -> BertConfig:
    """The library's configuration of the model that the settings describe."""
    return BertConfig(
        vocab_size=settings.vocab,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        max_position_embeddings=settings.positions,
        pad_token_id=PAD,
        attn_implementation=settings.attention,
    )


class Text:
    """Drawn text: pairs of sentences, some words of them hidden; batches lie on the CPU."""

    def __init__(self, settings: TextSettings, seed: int, zipf: float | None = None) -> None:
        self.settings, self.seed = settings, seed
        words = settings.vocab - FIRST_WORD
        law = (data.WORD_EXPONENT, data.WORD_SHIFT) if zipf is None else (zipf, 0.0)
        self.frequency = data.zipf_mandelbrot(words, *law)

    def batch(self, index: int) -> dict[str, Tensor]:
        """The model's arguments: tokens, segments and labels (batch, seq), next-sentence labels (batch,), a mask."""
        rng = data.generator(self.seed, index)
        shape = (self.settings.batch_size, self.settings.seq)
        length = self._lengths(rng)  # (batch, 1)
        middle = 2 + (torch.rand(length.shape, generator=rng) * (length - 4)).long()  # the first sentence's [SEP]
        place = torch.arange(self.settings.seq).unsqueeze(0)  # (1, seq)

        tokens = FIRST_WORD + data.draw(self.frequency, shape, rng)
        tokens = torch.where((place == middle) | (place == length - 1), SEP, tokens)
        tokens = torch.where(place == 0, CLS, tokens)
        tokens = torch.where(place >= length, PAD, tokens)
        inputs, labels = self._hide(tokens, length, rng)
        batch = {
            "input_ids": inputs,
            "token_type_ids": ((place > middle) & (place < length)).long(),
            "labels": labels,
            "next_sentence_label": torch.randint(2, (self.settings.batch_size,), generator=rng),
        }
        if self.settings.fill < 1:
            # Ready to be added to the scores, (batch, 1, 1, seq): from anything else the library makes its own,
            # and branches on the values. As in Google's code, -10,000 is as good as infinite.
            batch["attention_mask"] = ((place >= length) * -10_000.0)[:, None, None, :]
        return batch

    def _lengths(self, rng: torch.Generator) -> Tensor:
        """Tokens of each sequence (batch, 1): uniform and as wide as fits around the mean, ``fill`` of the slots."""
        fill, seq = self.settings.fill, self.settings.seq
        spread = min(fill, 1 - fill) * (2 * torch.rand(self.settings.batch_size, 1, generator=rng) - 1)
        return ((fill + spread) * seq).round().long().clamp(SHORTEST, seq)

    def _hide(self, tokens: Tensor, length: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and labels, both (batch, seq): a share of each sequence's words, at least one, is to be predicted."""
        lottery = torch.rand(tokens.shape, generator=rng).masked_fill(tokens < FIRST_WORD, 2.0)
        rank = lottery.argsort(dim=1, stable=True).argsort(dim=1)
        wanted = (length * self.settings.masked).round().clamp(min=1).minimum(length - 3)  # all but the three marks
        chosen = rank < wanted
        fate = torch.rand(tokens.shape, generator=rng)
        other = torch.randint(FIRST_WORD, self.settings.vocab, tokens.shape, generator=rng)
        inputs = torch.where(chosen & (fate < 0.8), MASK, tokens)
        inputs = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, inputs)
        return inputs, torch.where(chosen, tokens, IGNORED)
