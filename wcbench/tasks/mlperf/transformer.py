"""Translation: the Transformer, big size, of MLPerf Training v0.7 (Vaswani et al., arXiv:1706.03762).

The reference (mlcommons/training, translation/tensorflow/transformer) trains on WMT17 English-German to 25.0 BLEU:
width 1,024, feed-forward 4,096, 16 heads, 6 + 6 layers that normalize before each part, one table of 33,708 pieces for
source, target and output, dropout 0.1 (inside the feed-forward part too), label smoothing 0.1 with dense targets, Adam
with betas 0.9 and 0.997, factor 2.0 of a rate that rises for 16,000 steps. A batch holds 4,096 tokens, not a number of
sentences: pairs are grouped by the longer side into buckets whose bounds grow from 8 by 1.1 up to 256, and a bucket's
batches hold 4,096 divided by its bound pairs. So the shapes change from step to step.

What differs here, and why:

- Of the reference's 42 buckets four stand for all: 32 slots on each side (128 pairs), then 19, 45 and 65. Each is a
  kind of step of its own, and steps take them in turn. The share of a kind in all steps is that of the lengths nearest
  to it, by the law of sentence lengths (log-normal, mean 29, deviation 16: proposed, not measured), taken for the
  longer side. ``--set others=`` keeps the first only.
- ``batch_size`` counts the pairs of the first kind; by the shares, the mean step has 133.
  The budget follows from it, 128 x 32 slots. The reference divides by the bound, 33 for 32 slots, and takes 124.
- Both sides have the same number of slots, and their lengths are drawn apart, from the bucket.
- Projections of attention have biases, as NVIDIA's entry has (fairseq, from memory) and the catalogue counts; without
  them, as in the reference, there are 73,728 weights fewer.
- The reference's encoder takes padding out before the feed-forward part and puts it back; here every slot is computed.
- The first word that the decoder reads is a mark's embedding, where the reference reads zeros.
- Everything else is as in text-to-text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.language.text import SHORTEST, Bucket, Pairs, ladder, length_law, step_shares
from wcbench.tasks.language.text_to_text import TranslationSettings, build_transformer

if TYPE_CHECKING:
    import numpy as np

RUNGS = ladder(first=8, growth=1.1, limit=256)


@dataclass(frozen=True)
class BigSettings(TranslationSettings):
    """Knobs of MLPerf's Transformer.

    Attributes
    ----------
    batch_size : pairs of a batch whose sides have ``source`` slots; the other kinds have as many slots in all.
    others : slots of a side in the other kinds of steps.
    """

    batch_size: int = 128
    vocab: int = 33_708
    hidden: int = 1024
    inner: int = 4096
    heads: int = 16
    lr: float = 2.0
    warmup: int = 16_000
    others: tuple[int, ...] = (19, 45, 65)

    def validate(self) -> None:
        super().validate()
        if min(self.others, default=SHORTEST) < SHORTEST:
            raise UsageError(f"others {self.others} is refused: a sentence takes {SHORTEST} slots, a word and its end.")

    def buckets(self) -> list[Bucket]:
        """The shapes of the kinds of steps, that of ``source`` first."""
        lengths = list(dict.fromkeys((self.source, *self.others)))
        tokens = self.batch_size * self.source
        law = length_law(self.mean_length, self.length_deviation, 1, RUNGS[-1][1])
        return [
            Bucket(max(1, tokens // length), length, max(SHORTEST, length * self.target_slots // self.source), share)
            for length, share in zip(lengths, step_shares(tokens, lengths, law, RUNGS), strict=True)
        ]


class MlperfTransformer(Task):
    """The big Transformer on batches of a number of tokens."""

    length: ClassVar[str | None] = "source"
    presets: ClassVar[Mapping[str, BigSettings]] = {
        "paper": BigSettings(),
        "small": BigSettings(
            batch_size=4,
            source=24,
            others=(14, 34, 49),
            mean_length=21.8,
            length_deviation=12.0,
            vocab=4000,
            hidden=256,
            inner=1024,
            heads=4,
        ),
        "tiny": BigSettings(
            batch_size=4,
            source=8,
            others=(5, 12),
            mean_length=7.3,
            length_deviation=4.0,
            vocab=200,
            layers=2,
            hidden=64,
            inner=128,
            heads=2,
        ),
    }

    def build(self, config: Config) -> Built:
        buckets = config.settings.buckets()
        built = build_transformer(config, buckets, betas=(0.9, 0.997), pre_norm=True)
        pairs = {kind: bucket.pairs for kind, bucket in zip(built.step_kinds, buckets, strict=True)}
        return replace(built, kind_samples=pairs)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        settings: BigSettings = config.settings
        buckets = settings.buckets()
        pairs = Pairs(settings, config.seed, zipf)
        return {"model.embedding.weight": pairs.lookups(index, buckets[index % len(buckets)])}
