"""Speech recognition: Deep Speech 2 on LibriSpeech (Amodei et al., arXiv:1512.02595).

AIBench Training DC-AI-C6 (PyTorch/Speech_to_Text) runs SeanNaren's network: two convolutions over a spectrogram of 161
frequencies and 100 frames a second, five bidirectional GRUs of 800 whose directions are summed, batch normalization
between them, 29 characters, CTC. Batches of 20, SGD at 3e-4 with Nesterov momentum 0.9 and weight decay 1e-5, the
gradient's norm cut to 400, the rate divided by 1.1 an epoch, 70 epochs. Utterances are sorted by duration and cut into
bins of one batch each; the first epoch takes the bins in that order (SortaGrad), later ones in random order.

What differs here, and why:

- Each step takes the bin of the mean duration, 12.3 s: work is linear in the frames, so the mean bin costs what bins
  cost on average. The reference's steps run from 1.5 to 17 s, in order or not; its peak of memory is the longest bin's.
- Durations follow a law of that mean with the mode at 15 s (AIBench's script drops what is longer by default).
  Neighbours in a sorted LibriSpeech differ by less than a frame, so nothing is padded; fewer ``utterances`` make bins
  wider. The law is stretched for other ``frames``.
- Sequences are dense, not packed. Outputs of padding are set to zero, as unpacking does, and the forward direction is
  exact. The backward direction starts in the padding instead of at the utterance's last frame, and padding is computed.
- The masks are made on the device once a step, where the reference fills six on the host in a loop over lengths.
- The loss is torch's CTC in an operator of our own (`ctc`), whose lattice has the padded width of the labels. That
  width, ``characters``, does not follow ``frames``: the lattice, frames x characters, stays linear in the frames.
- A spectrogram is drawn: a pattern for each character and as much noise, of mean 0 and deviation 1. Transcripts have
  15 characters a second (from memory), with a deviation of 2 that is ours; all are equally frequent. The rate is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.speech.ctc import ctc_loss

BINS = 161  # frequencies of a window of 20 ms at 16 kHz
SYMBOLS = 29  # the blank, an apostrophe, 26 letters, a space
BLANK = 0

# Kumaraswamy's law, a Beta law with a quantile function in closed form, between two durations
SHORTEST, LONGEST, MEAN = 1.5, 17.0, 12.3  # seconds
LAW = (2.8, 1.2908)

CHARACTERS_A_FRAME = 0.15  # mean; 100 frames a second
SPREAD = 2 / 15  # deviation, as a share of the mean


@dataclass(frozen=True)
class SpeechSettings(Settings):
    """Knobs of the speech recognition task.

    Attributes
    ----------
    frames : of the longest utterance in a batch, 100 a second; the others are padded to it.
    characters : padded width of the labels; longer transcripts are cut, so raise it along with ``frames``.
    utterances : in the data set; the more, the less a bin's durations differ.
    channels : of the two convolutions.
    layers, hidden : recurrent layers and their width.
    lr, momentum, weight_decay : of SGD.
    clip : greatest norm of the gradient.
    """

    batch_size: int = 20
    frames: int = 1230
    characters: int = 230  # 12.3 s x 15, and the longest of 20 draws
    utterances: int = 281_241
    channels: int = 32
    layers: int = 5
    hidden: int = 800
    lr: float = 3e-4
    momentum: float = 0.9
    weight_decay: float = 1e-5
    clip: float = 400.0

    def validate(self) -> None:
        super().validate()
        if self.frames < 3:
            raise UsageError(
                f"frames {self.frames} is refused: every second frame is left to the recurrent layers,"
                " and batch normalization needs two of them.",
                "Give 3 or more; 100 frames are a second.",
            )
        if min(self.characters, self.utterances, self.channels, self.layers, self.hidden) < 1:
            raise UsageError("characters, utterances, channels, layers and hidden start at 1.")
        if self.clip <= 0 or self.momentum <= 0:
            raise UsageError(
                f"clip {self.clip} with momentum {self.momentum} is refused: the gradient's greatest norm and"
                " Nesterov's momentum lie above 0."
            )


class MaskedConvolutions(nn.Module):
    """Spectrograms (batch, 1, 161, frames) to features (batch, channels, 41, steps), zero where there is no sound."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            (
                nn.Conv2d(1, channels, (41, 11), stride=(2, 2), padding=(20, 5)),  # (batch, channels, 81, steps)
                nn.BatchNorm2d(channels),
                nn.Hardtanh(0, 20),
                nn.Conv2d(channels, channels, (21, 11), stride=(2, 1), padding=(10, 5)),  # (..., 41, steps)
                nn.BatchNorm2d(channels),
                nn.Hardtanh(0, 20),
            )
        )

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x).masked_fill(padding[:, None, None, :], 0)
        return x


class RecurrentLayer(nn.Module):
    """Sequences (steps, batch, inputs) to (steps, batch, hidden): both directions' sum, zero in the padding."""

    def __init__(self, inputs: int, hidden: int, *, normalized: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs) if normalized else None
        self.gru = nn.GRU(inputs, hidden, bidirectional=True)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        if self.norm is not None:
            x = self.norm(x.flatten(0, 1)).view_as(x)
        both: Tensor = self.gru(x)[0]  # (steps, batch, 2 * hidden)
        summed: Tensor = both.unflatten(2, (2, -1)).sum(2)
        return summed.masked_fill(padding.t().unsqueeze(2), 0)


class DeepSpeech2(nn.Module):
    """Spectrograms (batch, 1, 161, frames) and frames of each (batch,) to log-probabilities (steps, batch, 29)."""

    def __init__(self, channels: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.convolutions = MaskedConvolutions(channels)
        widths = (41 * channels, *[hidden] * (layers - 1))
        self.layers = nn.ModuleList(RecurrentLayer(w, hidden, normalized=i > 0) for i, w in enumerate(widths))
        self.norm = nn.BatchNorm1d(hidden)
        self.symbols = nn.Linear(hidden, SYMBOLS, bias=False)

    def forward(self, spectrograms: Tensor, lengths: Tensor) -> Tensor:
        steps = steps_of(spectrograms.shape[3])
        padding = torch.arange(steps, device=lengths.device) >= steps_of(lengths).unsqueeze(1)  # (batch, steps)
        x = self.convolutions(spectrograms, padding).flatten(1, 2)  # (batch, 41 * channels, steps)
        x = x.permute(2, 0, 1).contiguous()
        for layer in self.layers:
            x = layer(x, padding)
        logits: Tensor = self.symbols(self.norm(x.flatten(0, 1))).unflatten(0, x.shape[:2])
        return F.log_softmax(logits.float(), dim=2)


def steps_of(frames: Any) -> Any:
    """Steps of the recurrent layers, every second frame: of a number or of a tensor."""
    return (frames + 1) // 2


class Speech(NamedTuple):
    """A batch; the last two stay on the CPU, where CTC takes them from."""

    spectrograms: Tensor  # (batch, 1, 161, frames), zero in the padding
    lengths: Tensor  # (batch,), in frames, the longest first
    labels: Tensor  # (batch, characters), blank in the padding
    steps: Tensor  # (batch,)
    label_lengths: Tensor  # (batch,)


class SpeechRecognition(Task):
    """Deep Speech 2 on drawn spectrograms of LibriSpeech's durations."""

    presets: ClassVar[Mapping[str, SpeechSettings]] = {
        "paper": SpeechSettings(),
        "small": SpeechSettings(batch_size=2, frames=160, characters=30, hidden=160),
        "tiny": SpeechSettings(batch_size=2, frames=48, characters=10, channels=8, layers=2, hidden=32),
    }
    length: ClassVar[str | None] = "frames"
    # even, so that steps are exactly half; below 102 frames the optimizer makes the peak of memory, not the activations
    unrolled: ClassVar[tuple[int, ...]] = (120, 160)

    def build(self, config: Config) -> Built:
        settings: SpeechSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = DeepSpeech2(settings.channels, settings.layers, settings.hidden)
        decay, momentum = settings.weight_decay, settings.momentum
        optimizer = torch.optim.SGD(
            model.parameters(), settings.lr, momentum, weight_decay=decay, nesterov=True, foreach=True
        )
        patterns = torch.randn(SYMBOLS, BINS, generator=data.generator(config.seed, data.DATASET))

        def batch(index: int) -> Speech:
            speech = draw_speech(settings, patterns, data.generator(config.seed, index))
            return Speech._make([*(tensor.to(config.device) for tensor in speech[:3]), *speech[3:]])

        def infer(batch: Speech) -> Any:
            return model(batch.spectrograms, batch.lengths)

        def step(batch: Speech) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                losses = ctc_loss(infer(batch), batch.labels, batch.steps, batch.label_lengths, blank=BLANK)
                loss = losses.sum() / settings.batch_size
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip, foreach=True)
            optimizer.step()
            return loss.detach()

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)


def duration(quantile: Tensor) -> Tensor:
    """Seconds of the utterance below which a share of the data set lies."""
    a, b = LAW
    seconds: Tensor = SHORTEST + (LONGEST - SHORTEST) * (1 - (1 - quantile) ** (1 / b)) ** (1 / a)
    return seconds


def draw_bin(settings: SpeechSettings, rng: torch.Generator) -> Tensor:
    """Frames of the utterances of a bin (batch,), descending from ``frames``, which stands for the mean duration.

    Utterances are neighbours in order of duration: the gaps between their quantiles are exponential.
    """
    a, b = LAW
    middle = 1 - (1 - ((MEAN - SHORTEST) / (LONGEST - SHORTEST)) ** a) ** b
    gaps = -torch.log1p(-torch.rand(settings.batch_size, dtype=torch.float64, generator=rng)) / settings.utterances
    quantile = (middle - (gaps.cumsum(0) - gaps[0])).clamp(min=0)
    return (settings.frames * duration(quantile) / MEAN).round().long().clamp(min=1)


def draw_speech(settings: SpeechSettings, patterns: Tensor, rng: torch.Generator) -> Speech:
    """A batch on the CPU; each character sounds equally long."""
    lengths = draw_bin(settings, rng)
    rate = CHARACTERS_A_FRAME * (1 + SPREAD * torch.randn(settings.batch_size, generator=rng))
    most = (steps_of(lengths) // 2).clamp(1, settings.characters)  # CTC needs a step more for each repetition
    label_lengths = (rate * lengths).round().long().clamp(min=1).minimum(most)

    labels = torch.randint(1, SYMBOLS, (settings.batch_size, settings.characters), generator=rng)
    labels = torch.where(torch.arange(settings.characters) < label_lengths.unsqueeze(1), labels, BLANK)
    place = torch.arange(settings.frames)  # (frames,)
    spoken = (place * label_lengths.unsqueeze(1) // lengths.unsqueeze(1)).minimum(label_lengths.unsqueeze(1) - 1)
    sound = patterns[labels.gather(1, spoken)]  # (batch, frames, 161)
    sound = (sound + torch.randn(sound.shape, generator=rng)) / 2**0.5
    sound = sound * (place < lengths.unsqueeze(1)).unsqueeze(2)
    return Speech(sound.transpose(1, 2).unsqueeze(1).contiguous(), lengths, labels, steps_of(lengths), label_lengths)
