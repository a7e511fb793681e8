"""Stand-in text: how long sentences are, which words they hold, batches of pairs padded to a length, and their loss.

Words follow a Zipf-Mandelbrot law (`data.WORD_EXPONENT`), with the ids in order of frequency as vocabularies have
them. Sentence lengths follow a log-normal law; a batch takes them from a bucket of similar lengths and pads them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Settings

if TYPE_CHECKING:
    import numpy as np

PAD, UNKNOWN, START, END, FIRST_WORD = 0, 1, 2, 3, 4
SHORTEST = 2  # a word and the mark of the end


def word_law(vocab: int, zipf: float | None = None) -> Tensor:
    """Cumulative probabilities (vocab - 4,) of the words, the most frequent first; ``zipf`` is another exponent."""
    exponent, shift = (data.WORD_EXPONENT, data.WORD_SHIFT) if zipf is None else (zipf, 0.0)
    return data.zipf_mandelbrot(vocab - FIRST_WORD, exponent, shift)


def draw_words(law: Tensor, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Word ids, int64 of the given shape, drawn from `word_law`; none of them is a mark."""
    return FIRST_WORD + data.draw(law, shape, rng)


def beyond_vocabulary(
    words: Tensor, vocab: int, places: int, share: float, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Makes a share of the words (n, slots) unknown: as the model reads them, and as a pointer tells them apart.

    The unknown words of a row are numbered from ``vocab`` up; those that find no place share the last number.
    """
    unknown = (words != PAD) & (torch.rand(words.shape, generator=rng) < share)
    number = (unknown.cumsum(1) - 1).clamp(max=places - 1)
    return torch.where(unknown, UNKNOWN, words), torch.where(unknown, vocab + number, words)


def length_law(mean: float, deviation: float, shortest: int, longest: int) -> list[float]:
    """Probabilities of the lengths shortest..longest: the log-normal law of a mean and a standard deviation, cut off.

    Python numbers, so that shares of steps are known inside FakeTensorMode too.
    """
    variance = math.log1p((deviation / mean) ** 2)
    center = math.log(mean) - variance / 2
    logs = [-((math.log(n) - center) ** 2) / (2 * variance) - math.log(n) for n in range(shortest, longest + 1)]
    weights = [math.exp(value - max(logs)) for value in logs]
    return [weight / sum(weights) for weight in weights]


def draw_lengths(law: Sequence[float], shortest: int, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Lengths, int64 of the given shape, from the probabilities of the lengths from ``shortest`` up."""
    cumulative = torch.tensor(list(itertools.accumulate(law)), dtype=torch.float64)
    return shortest + data.draw(cumulative, shape, rng)


def ladder(first: int, growth: float, limit: int) -> list[tuple[int, int]]:
    """Shortest and longest length of each bucket up to ``limit``; bounds grow by a factor, or by 1 where it is less."""
    bounds = [first]
    while bounds[-1] < limit:
        bounds.append(max(bounds[-1] + 1, int(bounds[-1] * growth)))
    lows = [1, *bounds[:-1]]
    return [(low, min(high - 1, limit)) for low, high in zip(lows, [*bounds[:-1], limit + 1], strict=True)]


@dataclass(frozen=True)
class Bucket:
    """The shape of a batch: pairs, padded lengths of the two sides, and the share of all steps that have it."""

    pairs: int
    source: int
    target: int
    share: float = 1.0

    @property
    def kind(self) -> str:
        return f"length-{self.source}"


def step_shares(
    tokens: int, lengths: Sequence[int], law: Sequence[float], rungs: Sequence[tuple[int, int]]
) -> list[float]:
    """Share of all steps by padded length, where each bucket (rung) makes batches of about ``tokens`` slots.

    A rung's batches hold ``tokens`` divided by its bound pairs, so that it makes its share of the sentences divided
    by that many. Each length counts to the padded length nearest to it on a logarithmic scale.
    """
    shares = [math.ulp(1.0)] * len(lengths)  # a kind of step always has a share
    for low, high in rungs:
        pairs = max(1, tokens // (high + 1))
        for length in range(low, high + 1):
            nearest = min(range(len(lengths)), key=lambda at: abs(math.log(length / lengths[at])))
            shares[nearest] += law[length - 1] / pairs
    return [share / sum(shares) for share in shares]


@dataclass(frozen=True)
class PairSettings(Settings):
    """Knobs of tasks on pairs of sentences.

    Attributes
    ----------
    source, target : slots of a sentence on either side, padding and one mark included; no target: as many as source.
    bucket : how much longer a batch's longest sentence may be than its shortest; none: all lengths are mixed.
    mean_length, length_deviation : of the sentences' log-normal law, a mark included.
    vocab : words shared by both sides, four marks among them.
    dropout : of the model, wherever it drops.
    smoothing : share of the label that goes to the wrong words.
    """

    source: int = 32
    target: int | None = None
    bucket: float | None = 1.1
    mean_length: float = 29.0
    length_deviation: float = 16.0
    vocab: int = 37_000
    dropout: float = 0.1
    smoothing: float = 0.1

    @property
    def target_slots(self) -> int:
        return self.source if self.target is None else self.target

    @property
    def shape(self) -> Bucket:
        return Bucket(self.batch_size, self.source, self.target_slots)

    def validate(self) -> None:
        super().validate()
        for name, slots in (("source", self.source), ("target", self.target_slots)):
            if slots < SHORTEST:
                raise UsageError(f"{name} {slots} is refused: a sentence takes {SHORTEST} slots, a word and its end.")
        if self.bucket is not None and self.bucket < 1:
            raise UsageError(
                f"bucket {self.bucket} is refused: it is the ratio of the longest sentence to the shortest.",
                "Give 1 for full slots, 1.1 for 10 % between the lengths, or none for all lengths.",
            )
        if min(self.mean_length, self.length_deviation) <= 0:
            raise UsageError(
                f"mean_length {self.mean_length} with length_deviation {self.length_deviation} is refused:"
                " both lie above 0."
            )
        if self.vocab <= FIRST_WORD:
            raise UsageError(f"vocab {self.vocab} is refused: {FIRST_WORD} of its entries are no words.")
        for name in ("dropout", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it is a share from 0, below 1.")


class Pairs:
    """Drawn sentence pairs on the CPU; a target is its source read backwards, so that there is something to learn."""

    def __init__(self, settings: PairSettings, seed: int, zipf: float | None = None) -> None:
        self.settings, self.seed = settings, seed
        self.law = word_law(settings.vocab, zipf)

    def batch(self, index: int, shape: Bucket) -> tuple[Tensor, Tensor, Tensor]:
        """Source (pairs, source), decoder's input and what it shall say (pairs, target), int64, PAD at their ends.

        A source is words and END; the decoder reads START and words and shall say words and END.
        """
        rng = data.generator(self.seed, index)
        length = self.lengths(shape.pairs, shape.source, rng)  # (pairs, 1)
        target_length = self.lengths(shape.pairs, shape.target, rng)
        words = draw_words(self.law, (shape.pairs, shape.source), rng)
        others = draw_words(self.law, (shape.pairs, shape.target), rng)  # where the source has ended
        place = torch.arange(shape.target).unsqueeze(0)  # (1, target)
        mirrored = length - 2 - place  # (pairs, target)
        translated = torch.where(mirrored >= 0, words.gather(1, mirrored.clamp(min=0)), others)

        wanted = close(translated, target_length)
        read = torch.cat((torch.full((shape.pairs, 1), START), translated[:, :-1]), dim=1)
        return close(words, length), torch.where(place < target_length, read, PAD), wanted

    def lengths(self, pairs: int, slots: int, rng: torch.Generator) -> Tensor:
        """Lengths (pairs, 1) of the bucket whose longest sentences fill the slots."""
        settings = self.settings
        low = (
            SHORTEST if settings.bucket is None else min(slots, max(SHORTEST, math.floor(slots / settings.bucket) + 1))
        )
        law = length_law(settings.mean_length, settings.length_deviation, low, slots)
        return draw_lengths(law, low, (pairs, 1), rng)

    def lookups(self, index: int, shape: Bucket) -> np.ndarray[Any, Any]:
        """Ids that a step looks up in a table shared by both sides: all of the sources, then all decoder inputs."""
        source, read, _ = self.batch(index, shape)
        ids: np.ndarray[Any, Any] = torch.cat((source.flatten(), read.flatten())).numpy()
        return ids


def close(words: Tensor, length: Tensor) -> Tensor:
    """Words (n, slots) padded after lengths (n, 1), the last of which is END; what is longer is cut without END."""
    place = torch.arange(words.shape[1]).unsqueeze(0)
    return torch.where(place < length - 1, words, torch.where(place == length - 1, END, PAD))


def kinds_of(buckets: Sequence[Bucket]) -> Mapping[str, float]:
    """Shares of all steps by kind: one kind for each bucket, or plain training where there is one."""
    return {"train": 1.0} if len(buckets) == 1 else {bucket.kind: bucket.share for bucket in buckets}


def smoothed_loss(logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """Mean cross entropy of logits (batch, t, vocab) for words (batch, t), padding left out, as a scalar.

    The label is dense: ``smoothing`` of it is spread evenly over all the wrong words.
    """
    logits, wanted = logits.flatten(0, 1).float(), wanted.flatten()
    label = torch.full_like(logits, smoothing / (logits.shape[1] - 1), requires_grad=False)
    label.scatter_(1, wanted.unsqueeze(1), 1 - smoothing)
    real = wanted != PAD
    return (F.cross_entropy(logits, label, reduction="none") * real).sum() / real.sum()


def run_lstm(lstm: nn.Module, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Outputs and last states of an LSTM; in bf16 on a CPU not by oneDNN, whose LSTM many CPUs do not have in bf16."""
    backend: Any = torch.backends.mkldnn
    onednn = backend.enabled
    try:
        backend.enabled = onednn and not torch.is_autocast_enabled("cpu")
        outputs: tuple[Tensor, tuple[Tensor, Tensor]] = lstm(x)
    finally:
        backend.enabled = onednn
    return outputs
