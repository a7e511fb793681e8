"""Spatial transformer: a network that straightens a digit before it reads it (Jaderberg et al., arXiv:1506.02025).

AIBench Training DC-AI-C15 (PyTorch/Spatial_transformer) trains the network of PyTorch's tutorial on MNIST: 28x28
images in batches of 64, SGD at rate 0.01, negative log-likelihood, 39 epochs. Its 27,360 parameters make it the
smallest of the suite; its time goes into launches and scattered reads rather than arithmetic.

What differs here, and why:

- The images are scikit-learn's real handwritten digits in place of MNIST, since they need no download: 8x8 pixels,
  enlarged to 28x28. They are turned, zoomed and moved at random, where the tutorial leaves the digits upright: the
  network then has something to straighten. The pixels have MNIST's sparsity, mean and spread (`data.distort`).
- Settings are the same in `paper` and `small`: the reference is small already. `tiny` has narrower layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

SIDE = 28  # the layer sizes below follow from it
MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels, by which the tutorial normalizes


@dataclass(frozen=True)
class DigitSettings(Settings):
    """Knobs of the spatial transformer task.

    Attributes
    ----------
    localiser, classifier : channels of each part's two convolutions, then the units of its hidden layer.
    lr, momentum : of SGD.
    rotation : largest turn of a digit either way, in degrees.
    shift : largest move of a digit either way, in halves of the canvas.
    """

    batch_size: int = 64
    localiser: tuple[int, ...] = (8, 10, 32)
    classifier: tuple[int, ...] = (10, 20, 50)
    lr: float = 0.01
    momentum: float = 0.0
    rotation: float = 30.0
    shift: float = 0.2

    def validate(self) -> None:
        super().validate()
        for name in ("localiser", "classifier"):
            widths = getattr(self, name)
            if len(widths) != 3 or min(widths) < 1:
                raise UsageError(
                    f"{name} {widths} is refused: two convolutions and a hidden layer take one channel or more each.",
                    f"Give three numbers, e.g. --set {name}=8,10,32.",
                )


class SpatialTransformerNet(nn.Module):
    """Images (batch, 1, 28, 28) to log-probabilities (batch, 10)."""

    def __init__(self, localiser: tuple[int, ...] = (8, 10, 32), classifier: tuple[int, ...] = (10, 20, 50)) -> None:
        super().__init__()
        first, second, hidden = localiser
        self.localiser = nn.Sequential(
            nn.Conv2d(1, first, 7),  # (batch, 8, 22, 22) with the default widths
            nn.MaxPool2d(2),  # (batch, 8, 11, 11)
            nn.ReLU(),
            nn.Conv2d(first, second, 5),  # (batch, 10, 7, 7)
            nn.MaxPool2d(2),  # (batch, 10, 3, 3)
            nn.ReLU(),
            nn.Flatten(),  # (batch, 90)
            nn.Linear(second * 9, hidden),  # (batch, 32)
            nn.ReLU(),
        )
        self.affine = nn.Linear(hidden, 6)  # a map of the plane, by rows
        first, second, hidden = classifier
        self.classifier = nn.Sequential(
            nn.Conv2d(1, first, 5),  # (batch, 10, 24, 24)
            nn.MaxPool2d(2),  # (batch, 10, 12, 12)
            nn.ReLU(),
            nn.Conv2d(first, second, 5),  # (batch, 20, 8, 8)
            nn.Dropout2d(),
            nn.MaxPool2d(2),  # (batch, 20, 4, 4)
            nn.ReLU(),
            nn.Flatten(),  # (batch, 320)
            nn.Linear(second * 16, hidden),  # (batch, 50)
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, 10),
            nn.LogSoftmax(dim=1),
        )
        nn.init.zeros_(self.affine.weight)  # start at the identity
        with torch.no_grad():
            self.affine.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))

    def forward(self, images: Tensor) -> Tensor:
        affine = self.affine(self.localiser(images)).view(-1, 2, 3).float()  # bf16 is too coarse for coordinates
        grid = F.affine_grid(affine, list(images.shape), align_corners=False)  # (batch, 28, 28, 2)
        straight = F.grid_sample(images, grid, align_corners=False)  # (batch, 1, 28, 28)
        log_probabilities: Tensor = self.classifier(straight)
        return log_probabilities


class SpatialTransformer(Task):
    """The tutorial's spatial transformer on real handwritten digits."""

    presets: ClassVar[Mapping[str, DigitSettings]] = {
        "paper": DigitSettings(),
        "small": DigitSettings(),
        "tiny": DigitSettings(batch_size=2, localiser=(2, 2, 8), classifier=(2, 4, 16)),
    }

    def build(self, config: Config) -> Built:
        settings: DigitSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = SpatialTransformerNet(settings.localiser, settings.classifier)
        optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr, momentum=settings.momentum, foreach=True)
        digits, labels = data.handwritten_digits()

        def batch(index: int) -> tuple[Tensor, Tensor]:
            rng = data.generator(config.seed, index)
            rows = torch.randint(labels.numel(), (settings.batch_size,), generator=rng)
            images = data.distort(digits[rows], rng, side=SIDE, rotation=settings.rotation, shift=settings.shift)
            images = (images - MEAN) / DEVIATION
            return images.to(config.device), labels[rows].to(config.device)

        def step(batch: tuple[Tensor, Tensor]) -> Tensor:
            images, labels = batch
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss = F.nll_loss(model(images), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: tuple[Tensor, Tensor]) -> Tensor:
            with config.autocast():
                log_probabilities: Tensor = model(batch[0])  # (batch, 10)
            return log_probabilities

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)
