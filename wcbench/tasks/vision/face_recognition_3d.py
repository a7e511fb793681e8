"""3D face recognition: ResNet-50 on colour and depth (the RGB-D ResNet-50 of AIBench; He et al., arXiv:1512.03385).

AIBench Training DC-AI-C8 (PyTorch/3D_face_recognition) feeds ResNet-50, as torchvision builds it, images of four
channels, red, green, blue and depth, and classifies whose face it sees: 224x224 pixels, batches of 16, SGD at rate
1e-3 with momentum 0.9, 50 epochs. The first convolution is replaced by one of four input channels, drawn by Kaiming's
rule from the outputs; the rest starts from weights of ImageNet or from scratch.

What differs here, and why:

- 1,200 classes, as in the command that the README gives; the data set it describes has 253 people in 77,715 samples:
  ``--set classes=253``.
- The faces are drawn: a smooth pattern for each person in all four channels, under noise in the colours and none in
  the depth, which is smooth. The weights start from scratch.
- The fall of the rate, to a tenth every 7 epochs, is no part of a step.
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

CHANNELS = 4  # red, green, blue, depth
PATTERN = 8  # side of a person's pattern


@dataclass(frozen=True)
class DepthSettings(Settings):
    """Knobs of the 3D face recognition task.

    Attributes
    ----------
    image_size : side of the square images, in pixels.
    layers : bottleneck blocks in each of the four stages; (3, 4, 6, 3) is ResNet-50.
    classes : people to tell apart.
    lr, momentum : of SGD.
    """

    batch_size: int = 16
    image_size: int = 224
    layers: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1200
    lr: float = 1e-3
    momentum: float = 0.9

    def validate(self) -> None:
        super().validate()
        if self.image_size < 33:
            raise UsageError(
                f"image size {self.image_size} is refused: ResNet halves an image five times, and normalization needs"
                " more than one value per channel, even in a batch of one.",
                "Give 33 or more, e.g. --set image_size=64.",
            )
        if len(self.layers) != 4 or min(self.layers) < 1:
            raise UsageError(
                f"layers {self.layers} is refused: ResNet has four stages of at least one block.",
                "Give four numbers, e.g. --set layers=3,4,6,3.",
            )
        if self.classes < 1:
            raise UsageError(f"{self.classes} classes are refused: a label needs at least one.")


def depth_resnet(settings: DepthSettings) -> ResNet:
    """Faces (batch, 4, 224, 224) to logits (batch, people)."""
    model = ResNet(Bottleneck, list(settings.layers), num_classes=settings.classes)
    model.conv1 = nn.Conv2d(CHANNELS, 64, 7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    return model


class FaceRecognition3D(Task):
    """ResNet-50 on colour and depth of faces."""

    presets: ClassVar[Mapping[str, DepthSettings]] = {
        "paper": DepthSettings(),
        "small": DepthSettings(batch_size=2, image_size=112),
        "tiny": DepthSettings(batch_size=2, image_size=40, layers=(1, 1, 1, 1), classes=10),
    }

    def build(self, config: Config) -> Built:
        settings: DepthSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = depth_resnet(settings)
        optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr, momentum=settings.momentum, foreach=True)
        patterns = torch.randn(
            settings.classes, CHANNELS, PATTERN, PATTERN, generator=data.generator(config.seed, data.DATASET)
        )

        def batch(index: int) -> tuple[Tensor, Tensor]:
            """Faces (batch, 4, side, side) of mean 0 and deviation about 1, and whose they are (batch,)."""
            rng = data.generator(config.seed, index)
            people = torch.randint(settings.classes, (settings.batch_size,), generator=rng)
            size = (settings.image_size, settings.image_size)
            faces = F.interpolate(patterns[people], size=size, mode="bicubic", align_corners=False)
            noise = torch.randn(settings.batch_size, CHANNELS - 1, *size, generator=rng)
            faces[:, :-1] += 0.5 * noise
            return faces.to(config.device), people.to(config.device)

        def infer(batch: tuple[Tensor, Tensor]) -> Tensor:
            with config.autocast():
                logits: Tensor = model(batch[0])  # (batch, people)
            return logits

        def step(batch: tuple[Tensor, Tensor]) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                loss = F.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)
