"""Image to text: Neural Image Caption on COCO (Vinyals et al., arXiv:1411.4555).

AIBench Training DC-AI-C4 (PyTorch/Image_to_Text) describes an image by an LSTM of 512 that reads the image first and
then the caption's words. The image is seen by an Inception-v3 (arXiv:1512.00567) that is frozen: it runs without a
graph, so that of 32.1 million weights only 10.4 million have gradients. Its 2,048 features become 299 by a linear
layer and batch normalization (momentum 0.01). Batches of 128, Adam at 1e-3, 5 epochs. Nothing is put in evaluation
mode: the frozen network normalizes by its batch, updates its running statistics and drops out half of its features.

``im2txt`` is the same repository's TensorFlow twin: no batch normalization of the features, embeddings of 512,
12,000 words, dropout around the LSTM, SGD at 2.0 with the gradient's norm cut to 5, in batches of 32
(``--batch-size 32``). Its Inception-v3 normalizes by stored statistics, and the image's own step says no word (both
from memory).

What differs here, and why:

- Inception-v3 is torchvision's, with drawn weights, without its auxiliary head and its last layer, on 299 pixels as
  the images are stored; AIBench's loader cuts 224 pixels out of them (``--set image_size=224``).
- Captions are dense, not packed: an image and ``words`` inputs each, start mark included, which is what the catalogue
  counts. Packing computes as many steps as a caption has, 12.5 on average, so longer captions are cut here and shorter
  ones padded. Padding comes last and has no part in the loss.
- Captions are drawn: 10.5 words with a deviation of 2.4, 6 to 50 (from memory), words by a Zipf-Mandelbrot law with
  the ids in order of frequency. The vocabulary's size is from memory as well. The images are noise.
- A batch of one has no variance between images: its features are normalized by the running statistics.
- torch's LSTM has two bias vectors where TensorFlow's has one: ``im2txt`` has 2,048 weights more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import inception

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

if TYPE_CHECKING:
    import numpy as np

PAD, START, END, UNKNOWN, FIRST_WORD = 0, 1, 2, 3, 4
MEAN_WORDS, DEVIATION, FEWEST, MOST = 10.5, 2.4, 6, 50  # of COCO's captions, marks not counted
SMALLEST_IMAGE = 75
SMALLEST_SINGLE = 107  # below it Inception's last maps hold one value for each channel
FEATURES = 2048
IM2TXT = "im2txt"


@dataclass(frozen=True)
class CaptionSettings(Settings):
    """Knobs of the image-to-text task.

    Attributes
    ----------
    image_size : side of the square images, in pixels.
    narrow : by what Inception's channels are divided.
    words : inputs of the LSTM after the image, start mark included.
    vocab : words, four marks among them; none: the model's own number.
    embedding : width of word and image embeddings; none: the model's own.
    hidden : width of the LSTM.
    lr : of Adam, or of SGD in im2txt; none: the model's own.
    clip : greatest norm of im2txt's gradient.
    """

    batch_size: int = 128
    image_size: int = 299
    narrow: int = 1
    words: int = 11
    vocab: int | None = None
    embedding: int | None = None
    hidden: int = 512
    lr: float | None = None
    clip: float = 5.0

    def validate(self) -> None:
        super().validate()
        if self.image_size < SMALLEST_IMAGE:
            raise UsageError(
                f"image size {self.image_size} is refused: Inception-v3 leaves nothing of an image that small.",
                f"Give {SMALLEST_IMAGE} or more.",
            )
        if self.batch_size == 1 and self.image_size < SMALLEST_SINGLE:
            raise UsageError(
                f"a batch of one image of {self.image_size} pixels is refused: Inception's last maps hold one value"
                " per channel, and batch normalization needs two.",
                f"Give --batch-size 2 or --set image_size={SMALLEST_SINGLE}.",
            )
        if self.narrow not in (1, 2, 4, 8, 16):
            raise UsageError(f"narrow {self.narrow} is refused: it divides every width of Inception: 1, 2, 4, 8 or 16.")
        if self.vocab is not None and self.vocab <= FIRST_WORD:
            raise UsageError(f"vocab {self.vocab} is refused: {FIRST_WORD} of its entries are no words.")
        if min(self.words, self.hidden, 1 if self.embedding is None else self.embedding) < 1:
            raise UsageError("words, hidden and embedding start at 1.")


def inception_v3(narrow: int) -> nn.Module:
    """torchvision's Inception-v3 without heads: images (batch, 3, side, side) to features (batch, 2048 / narrow)."""

    def convolution(inputs: int, outputs: int, **options: Any) -> Any:
        return inception.BasicConv2d(inputs if inputs == 3 else inputs // narrow, outputs // narrow, **options)

    names = ("InceptionA", "InceptionB", "InceptionC", "InceptionD", "InceptionE", "InceptionAux")
    blocks = [partial(getattr(inception, name), conv_block=convolution) for name in names]
    cnn = inception.Inception3(
        inception_blocks=[convolution, *blocks], aux_logits=False, transform_input=False, init_weights=False
    )
    cnn.fc = nn.Identity()
    frozen: nn.Module = cnn.requires_grad_(False)
    return frozen


class FeatureNorm(nn.BatchNorm1d):
    """Batch normalization of features (batch, width) that takes a single image by its running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


class Captioner(nn.Module):
    """Images (batch, 3, side, side) and words read so far (batch, words) to logits (batch, words + 1, vocab)."""

    def __init__(self, settings: CaptionSettings, vocab: int, width: int, *, im2txt: bool) -> None:
        super().__init__()
        self.im2txt = im2txt
        self.cnn = inception_v3(settings.narrow)
        self.image = nn.Linear(FEATURES // settings.narrow, width, bias=not im2txt)
        self.norm = nn.Identity() if im2txt else FeatureNorm(width, momentum=0.01)
        self.embedding = nn.Embedding(vocab, width)
        self.dropout = nn.Dropout(0.3) if im2txt else nn.Identity()
        self.lstm = nn.LSTM(width, settings.hidden, batch_first=True)
        self.words = nn.Linear(settings.hidden, vocab)

    def train(self, mode: bool = True) -> Captioner:
        super().train(mode)
        if self.im2txt:
            self.cnn.eval()
        return self

    def forward(self, images: Tensor, words: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.cnn(images)  # (batch, 2048)
        first = self.norm(self.image(features)).unsqueeze(1)  # (batch, 1, width)
        read = torch.cat((first, self.embedding(words)), dim=1)  # (batch, words + 1, width)
        states = self.dropout(self._recur(self.dropout(read)))  # (batch, words + 1, hidden)
        logits: Tensor = self.words(states[:, 1:] if self.im2txt else states)
        return logits

    def _recur(self, read: Tensor) -> Tensor:
        states: Tensor
        if read.device.type == "cpu" and torch.backends.mkldnn.enabled:  # few CPUs have oneDNN's LSTM in bf16
            with torch.autocast("cpu", enabled=False):
                states, _ = self.lstm(read.float())
        else:
            states, _ = self.lstm(read)
        return states


class ImageToText(Task):
    """Neural Image Caption on noise and drawn captions."""

    presets: ClassVar[Mapping[str, CaptionSettings]] = {
        "paper": CaptionSettings(),
        "small": CaptionSettings(batch_size=2, image_size=139, vocab=2000),
        "tiny": CaptionSettings(batch_size=2, image_size=107, narrow=16, vocab=200, embedding=16, hidden=32),
    }
    variants: ClassVar[Mapping[str, str]] = {
        IM2TXT: "TensorFlow's im2txt: 12,000 words, embeddings of 512, no batch normalization of the features, SGD"
    }
    length: ClassVar[str | None] = "words"

    def build(self, config: Config) -> Built:
        settings: CaptionSettings = config.settings
        im2txt = config.variant == IM2TXT
        vocab, width, lr = _sizes(config)
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Captioner(settings, vocab, width, im2txt=im2txt).train()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(trained, lr=lr, foreach=True) if im2txt else torch.optim.Adam(trained, lr=lr, foreach=True)
        )
        captions = Captions(settings, vocab, config.seed)

        def batch(index: int) -> tuple[Tensor, Tensor]:
            rng = data.generator(config.seed, index)
            words = captions.draw(rng)
            images = torch.randn(settings.batch_size, 3, settings.image_size, settings.image_size, generator=rng)
            return images.to(config.device), words.to(config.device)

        def step(batch: tuple[Tensor, Tensor]) -> Tensor:
            images, words = batch
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                logits = model(images, words[:, :-1])
                wanted = words[:, 1:] if im2txt else words
                loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)
            loss.backward()
            if im2txt:
                nn.utils.clip_grad_norm_(trained, settings.clip, foreach=True)
            optimizer.step()
            return loss.detach()

        def infer(batch: tuple[Tensor, Tensor]) -> Tensor:
            logits: Tensor = model(batch[0], batch[1][:, :-1])
            return logits

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """The words that the LSTM reads, caption by caption; padding is looked up as well."""
        words = Captions(config.settings, _sizes(config)[0], config.seed, zipf).draw(data.generator(config.seed, index))
        return {"model.embedding.weight": words[:, :-1].flatten().numpy()}


def _sizes(config: Config) -> tuple[int, int, float]:
    """Vocabulary, width of the embeddings and rate: as set, else the model's own."""
    settings: CaptionSettings = config.settings
    vocab, width, lr = (12_000, 512, 2.0) if config.variant == IM2TXT else (9_956, 299, 1e-3)
    return settings.vocab or vocab, settings.embedding or width, lr if settings.lr is None else settings.lr


class Captions:
    """Drawn captions: words by their frequency, cut or padded to the LSTM's steps."""

    def __init__(self, settings: CaptionSettings, vocab: int, seed: int, zipf: float | None = None) -> None:
        self.settings = settings
        exponent, shift = (data.WORD_EXPONENT, data.WORD_SHIFT) if zipf is None else (zipf, 0.0)
        self.frequency = data.zipf_mandelbrot(vocab - FIRST_WORD, exponent, shift)

    def lengths(self, rng: torch.Generator) -> Tensor:
        """Words of each caption (batch, 1), before it is cut."""
        normal = torch.randn(self.settings.batch_size, 1, generator=rng)
        return (MEAN_WORDS + DEVIATION * normal).round().long().clamp(FEWEST, MOST)

    def draw(self, rng: torch.Generator) -> Tensor:
        """Start mark, words, end mark, padding: (batch, words + 1), int64. The last is only ever to be said."""
        length = self.lengths(rng).clamp(max=self.settings.words - 1)
        place = torch.arange(self.settings.words + 1)
        words = FIRST_WORD + data.draw(self.frequency, (self.settings.batch_size, self.settings.words + 1), rng)
        words = torch.where(place <= length, words, torch.where(place == length + 1, END, PAD))
        return torch.where(place == 0, START, words)
