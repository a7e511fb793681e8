"""MLPerf Training v0.7, natural language processing: BERT-large pre-training, second phase (arXiv:1810.04805).

MLPerf's reference (mlcommons/training, language_model/tensorflow/bert) continues from a checkpoint of the first phase
with sequences of 512 word pieces of Wikipedia: 24 layers of 1024, 16 heads, 30,522 word pieces. It gathers up to 76
masked positions of a sequence before the masked-word head, whose decoder over the whole vocabulary is the largest
product of the network. LAMB at 4e-5 in batches of 24 (the README's demonstration; submitters tune both), to 71.2 %
masked-word accuracy, from 3 million samples on.

What differs here, and why:

- `infer` runs the head on every position, as transformers does and as the catalogue counts it (368.1 GFLOP a
  sequence); the step gathers as the reference does (339.9 GFLOP forward). ``--set predictions=none`` puts the head on
  every position of the step too.
- Weights start at random in place of the checkpoint; the work is the same.
- Words are drawn, with ids by frequency, see `language.natural_language`. A quarter of the sequences fills all 512
  slots (from memory) and the others are drawn so that half of all slots are padding (Krell et al., arXiv:2107.02027).
- Weight decay 0.01 without biases and normalization, gradients clipped to norm 1 (both from memory of the code); the
  warm-up and decay of the rate are no part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertForPreTraining

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.lamb import Lamb
from wcbench.tasks.language.natural_language import (
    IGNORED,
    SHORTEST,
    WORDS,
    Text,
    TextSettings,
    architecture,
    score,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class LargeTextSettings(TextSettings):
    """Knobs of MLPerf's BERT, besides those of the natural language task.

    Attributes
    ----------
    predictions : slots for masked words that the head runs on; None puts it on every position.
    whole : share of the sequences that fill every slot.
    clip : largest norm of all gradients together.
    """

    batch_size: int = 24
    seq: int = 512
    fill: float = 0.5
    layers: int = 24
    hidden: int = 1024
    heads: int = 16
    predictions: int | None = 76
    whole: float = 0.25
    lr: float = 4e-5
    clip: float = 1.0

    def validate(self) -> None:
        super().validate()
        if self.predictions is not None and not 1 <= self.predictions <= self.seq:
            raise UsageError(
                f"predictions {self.predictions} is refused: it is 1 to seq ({self.seq}), or none for every position."
            )
        if not 0 <= self.whole <= self.fill:
            raise UsageError(
                f"whole {self.whole} is refused: full sequences alone would fill more than fill, {self.fill}, allows."
            )
        if self.clip <= 0:
            raise UsageError(f"clip {self.clip} is refused: a norm to clip to is positive.")


class MlperfBert(Task):
    """BERT-large: masked words at gathered positions and next sentence, under LAMB."""

    presets: ClassVar[Mapping[str, LargeTextSettings]] = {
        "paper": LargeTextSettings(),
        "small": LargeTextSettings(batch_size=2, seq=64, hidden=128, heads=2, vocab=5000, predictions=10),
        "tiny": LargeTextSettings(batch_size=2, seq=16, layers=2, hidden=64, heads=2, vocab=200, predictions=3),
    }
    length: ClassVar[str | None] = "seq"

    def build(self, config: Config) -> Built:
        settings: LargeTextSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = BertForPreTraining(architecture(settings)).train()
        parameters = list(model.parameters())
        optimizer = Lamb(groups(model, settings.weight_decay), lr=settings.lr, foreach=True)
        text = LongText(settings, config.seed)

        def batch(index: int) -> dict[str, Tensor]:
            return {name: tensor.to(config.device) for name, tensor in text.batch(index).items()}

        def step(batch: dict[str, Tensor]) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss = pretraining_loss(model, batch, settings.predictions)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, settings.clip, foreach=True)
            optimizer.step()
            return loss.detach()

        def infer(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            return score(model, batch, config)

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """The word embeddings' rows in the order of the tokens; the head reads the same table whole."""
        text = LongText(config.settings, config.seed, zipf)
        return {WORDS: text.batch(index)["input_ids"].flatten().numpy()}


def groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that decay, and those of one dimension (biases, normalization), which do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]


def pretraining_loss(model: Any, batch: Mapping[str, Tensor], predictions: int | None) -> Tensor:
    """Cross entropies of the masked words (their mean) and of the next sentence, added."""
    found = model.bert(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
    hidden, labels = found.last_hidden_state, batch["labels"]  # (batch, seq, width), (batch, seq)
    if predictions is not None:
        masked = (labels == IGNORED).long().argsort(dim=1, stable=True)[:, :predictions]  # first those to be predicted
        hidden = hidden.gather(1, masked.unsqueeze(2).expand(-1, -1, hidden.shape[2]))  # (batch, predictions, width)
        labels = labels.gather(1, masked)  # empty slots keep the label that is left out
    words = model.cls.predictions(hidden).float()  # (batch, predictions or seq, vocab)
    follows = model.cls.seq_relationship(found.pooler_output).float()  # (batch, 2)
    return F.cross_entropy(words.flatten(0, 1), labels.flatten(), ignore_index=IGNORED) + F.cross_entropy(
        follows, batch["next_sentence_label"]
    )


class LongText(Text):
    """Drawn text of which some sequences fill every slot, with no more masked words than there are slots for them."""

    settings: LargeTextSettings

    def _lengths(self, rng: torch.Generator) -> Tensor:
        """Tokens of each sequence (batch, 1): ``whole`` of them full, the rest uniform, ``fill`` of all slots."""
        s = self.settings
        rest = (s.fill - s.whole) / (1 - s.whole) if s.whole < 1 else 1.0  # mean share of the others
        uniform = torch.rand(2, s.batch_size, 1, generator=rng)
        share = rest + min(rest, 1 - rest) * (2 * uniform[0] - 1)
        share = torch.where(uniform[1] < s.whole, 1.0, share)
        return (share * s.seq).round().long().clamp(SHORTEST, s.seq)

    def _hide(self, tokens: Tensor, length: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        inputs, labels = super()._hide(tokens, length, rng)
        if self.settings.predictions is None:
            return inputs, labels
        beyond = (labels != IGNORED).cumsum(dim=1) > self.settings.predictions
        return inputs, labels.masked_fill(beyond, IGNORED)
