"""Image classification: ResNet-50 on ImageNet (He et al., arXiv:1512.03385).

AIBench Training DC-AI-C1 (PyTorch/Image_classification) and MLPerf Training v0.7 train the same network: v1.5, where
the 3x3 convolution of a bottleneck carries the stride, as torchvision builds it. AIBench runs batches of 256 images of
224x224 with SGD, rate 0.1, momentum 0.9, weight decay 1e-4, for 90 epochs.

What differs here, and why:

- The images are noise with the statistics of ImageNet's normalized pixels (mean 0, standard deviation 1 in each
  channel) and the labels are uniform. The work of a step does not depend on the values, only on the shapes; nothing
  can be learned from them.
- The rate stays at 0.1; the decay every 30 epochs is no part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck, ResNet

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task


@dataclass(frozen=True)
class ImageSettings(Settings):
    """Knobs of the image classification task.

    Attributes
    ----------
    image_size : side of the square images, in pixels.
    layers : bottleneck blocks in each of the four stages; (3, 4, 6, 3) is ResNet-50.
    classes : labels to choose from.
    lr, momentum, weight_decay : of SGD.
    """

    batch_size: int = 256
    image_size: int = 224
    layers: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1000
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def validate(self) -> None:
        super().validate()
        if self.image_size < 32:
            raise UsageError(
                f"image size {self.image_size} is refused: ResNet halves an image five times.",
                "Give 32 or more, e.g. --set image_size=64.",
            )
        if self.image_size == 32 and self.batch_size == 1:
            raise UsageError(
                "a batch of one image of 32x32 is refused: its last stage holds one value per channel,"
                " and batch normalization needs two.",
                "Give --batch-size 2 or --set image_size=64.",
            )
        if len(self.layers) != 4 or min(self.layers) < 1:
            raise UsageError(
                f"layers {self.layers} is refused: ResNet has four stages of at least one block.",
                "Give four numbers, e.g. --set layers=3,4,6,3.",
            )
        if self.classes < 1:
            raise UsageError(f"{self.classes} classes are refused: a label needs at least one.")


class ImageClassification(Task):
    """ResNet-50 v1.5 on images of ImageNet's size."""

    presets: ClassVar[Mapping[str, ImageSettings]] = {
        "paper": ImageSettings(),
        "small": ImageSettings(batch_size=2, image_size=128, lr=1e-3),  # the rate goes with the batch
        "tiny": ImageSettings(batch_size=2, image_size=40, layers=(1, 1, 1, 1), classes=10, lr=1e-3),
    }

    def build(self, config: Config) -> Built:
        settings: ImageSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = ResNet(Bottleneck, list(settings.layers), num_classes=settings.classes)
        optimizer = self.optimizer(model, settings)

        def batch(index: int) -> tuple[Tensor, Tensor]:
            rng = data.generator(config.seed, index)
            images = torch.randn(settings.batch_size, 3, settings.image_size, settings.image_size, generator=rng)
            labels = torch.randint(settings.classes, (settings.batch_size,), generator=rng)
            return images.to(config.device), labels.to(config.device)

        def step(batch: tuple[Tensor, Tensor]) -> Tensor:
            images, labels = batch
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                logits = model(images)  # (batch, classes)
                loss = F.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: tuple[Tensor, Tensor]) -> Tensor:
            with config.autocast():
                logits: Tensor = model(batch[0])  # (batch, classes)
            return logits

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)

    def optimizer(self, model: nn.Module, settings: ImageSettings) -> torch.optim.Optimizer:
        """SGD on all parameters alike."""
        return torch.optim.SGD(
            model.parameters(),
            lr=settings.lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            foreach=True,
        )
