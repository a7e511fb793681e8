"""Image-to-image translation: CycleGAN between street scenes and label maps (Zhu et al., arXiv:1703.10593).

AIBench Training DC-AI-C5 (PyTorch/Image_to_Image/CycleGAN) runs the authors' code on Cityscapes: 256x256 crops of
286x286, one image of each domain at a time, Adam at 2e-4 with beta 0.5, 100 epochs and 100 more of falling rate.
Two generators with nine residual blocks translate either way and two 70x70 PatchGANs judge. One iteration, one step:

- The generators make six passes: each translates its own domain, translates back what the other one made, and is fed
  the domain that it should leave as it is. The judges are frozen meanwhile. Least squares against the judges, plus 10
  times the cycle's and 5 times the identity's L1 distance; one optimizer holds both generators.
- Each judge then sees a real image and a made one. Once the pool of 50 made before is full, every second made image
  on average is swapped for a random one of the pool, which the host draws.

What differs here, and why:

- The images are drawn: label maps of 19 flat colours in blobs, and scenes that are other such maps under noise.
- The pool gives an image out without the reference's copy of it. While it fills, in the first 50 steps, memory grows.
- Activations are not in place: autograd would copy views on real tensors that it does not copy on fake ones.
- The reported loss is the generators'. The fall of the rate is no part of a step.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

LABELS = 19  # classes of Cityscapes that count
BLOBS = 8  # of them along a side, about


@dataclass(frozen=True)
class CycleSettings(Settings):
    """Knobs of the image-to-image task.

    Attributes
    ----------
    image_size : side of the square images, in pixels; a multiple of 4.
    blocks : residual blocks of a generator.
    width : channels of the first layer of each network.
    pool : images of the past kept for each judge; 0 keeps none.
    cycle : weight of the cycle's loss.
    identity : weight of the identity's loss, as a share of the cycle's; 0 leaves its two passes out.
    lr : of Adam, for all four.
    """

    batch_size: int = 1
    image_size: int = 256
    blocks: int = 9
    width: int = 64
    pool: int = 50
    cycle: float = 10.0
    identity: float = 0.5
    lr: float = 2e-4

    def validate(self) -> None:
        super().validate()
        if self.image_size < 24 or self.image_size % 4:
            raise UsageError(
                f"image size {self.image_size} is refused: the generators halve a side twice and double it again, and"
                " below 24 pixels nothing is left of an image for the judges to normalize.",
                "Give a multiple of 4 from 24 up, e.g. --set image_size=64.",
            )
        if min(self.blocks, self.width) < 1 or min(self.pool, self.cycle, self.identity) < 0:
            raise UsageError("blocks and width start at 1, pool, cycle and identity at 0.")


class ResidualBlock(nn.Module):
    """Images (batch, channels, height, width) to the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            *_normalized(channels),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
        )

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = images + self.change(images)
        return changed


def generator(width: int, blocks: int) -> nn.Sequential:
    """Images (batch, 3, 256, 256) to images of the same shape in [-1, 1]."""
    layers: list[nn.Module] = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), *_normalized(width)]
    for channels in (width, 2 * width):  # to (batch, 128, 128, 128) and (batch, 256, 64, 64)
        layers += [nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), *_normalized(2 * channels)]
    layers += [ResidualBlock(4 * width) for _ in range(blocks)]
    for channels in (4 * width, 2 * width):  # back to (batch, 128, 128, 128) and (batch, 64, 256, 256)
        up = nn.ConvTranspose2d(channels, channels // 2, 3, stride=2, padding=1, output_padding=1)
        layers += [up, *_normalized(channels // 2)]
    layers += [nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh()]
    return nn.Sequential(*layers).apply(_initialize)


def _normalized(channels: int) -> list[nn.Module]:
    return [nn.InstanceNorm2d(channels), nn.ReLU()]


def judge(width: int) -> nn.Sequential:
    """Images (batch, 3, 256, 256) to scores (batch, 1, 30, 30), each of a patch of 70x70 pixels."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    for channels, stride in ((width, 2), (2 * width, 2), (4 * width, 1)):  # to 64x64, 32x32 and 31x31
        layers += [nn.Conv2d(channels, 2 * channels, 4, stride, padding=1), nn.InstanceNorm2d(2 * channels)]
        layers += [nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, padding=1)).apply(_initialize)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class ImagePool:
    """Images made in the past, shown to a judge in place of half of the new ones."""

    def __init__(self, size: int, rng: random.Random) -> None:
        self.size, self.rng = size, rng
        self.images: list[Tensor] = []

    def swap(self, images: Tensor) -> Tensor:
        """Images (batch, 3, height, width) without a graph, some of them older ones."""
        shown = []
        for image in images.detach().split(1):
            if len(self.images) < self.size:
                self.images.append(image)
            elif self.size and self.rng.random() > 0.5:
                place = self.rng.randrange(self.size)
                self.images[place], image = image, self.images[place]  # noqa: PLW2901
            shown.append(image)
        return torch.cat(shown)


class ImageToImage(Task):
    """CycleGAN between drawn scenes and label maps."""

    presets: ClassVar[Mapping[str, CycleSettings]] = {
        "paper": CycleSettings(),
        "small": CycleSettings(image_size=64, width=16),
        "tiny": CycleSettings(image_size=32, blocks=2, width=4),
    }

    def build(self, config: Config) -> Built:
        settings: CycleSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            translate = [generator(settings.width, settings.blocks) for _ in range(2)]
            judges = [judge(settings.width) for _ in range(2)]
        modules = {"to_labels": translate[0], "to_scenes": translate[1]}
        modules |= {"labels_judge": judges[0], "scenes_judge": judges[1]}
        trainer = Trainer(modules, config)

        def infer(batch: tuple[Tensor, Tensor]) -> Tensor:
            with config.autocast():
                scores: Tensor = modules["labels_judge"](modules["to_labels"](batch[0]))
            return scores

        batch = Images(config).batch
        return Built(trainer.step, batch, modules, settings.batch_size, trainer.optimizers, infer=infer)


class Trainer:
    """The iteration: optimizers, pools and losses around the four networks."""

    def __init__(self, modules: Mapping[str, nn.Module], config: Config) -> None:
        self.config = config
        self.settings: CycleSettings = config.settings
        self.to_labels, self.to_scenes = modules["to_labels"], modules["to_scenes"]
        self.labels_judge, self.scenes_judge = modules["labels_judge"], modules["scenes_judge"]
        self.judges = nn.ModuleList((self.labels_judge, self.scenes_judge))
        rng = random.Random(config.seed)
        self.labels_pool, self.scenes_pool = (ImagePool(self.settings.pool, rng) for _ in range(2))
        adam = partial(torch.optim.Adam, lr=self.settings.lr, betas=(0.5, 0.999), foreach=True)
        generators = chain(self.to_labels.parameters(), self.to_scenes.parameters())
        self.optimizers = {"generators": adam(generators), "judges": adam(self.judges.parameters())}

    def step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        scenes, labels = batch
        with self.config.autocast():
            made_labels = self.to_labels(scenes)
            scenes_again = self.to_scenes(made_labels)
            made_scenes = self.to_scenes(labels)
            labels_again = self.to_labels(made_scenes)
        self.judges.requires_grad_(False)  # their weights get no gradients from what the generators learn
        self.optimizers["generators"].zero_grad(set_to_none=True)
        loss = self._identity_loss(scenes, labels) if self.settings.identity else 0.0
        loss = loss + self._verdict(self.labels_judge, made_labels, 1.0)
        loss = loss + self._verdict(self.scenes_judge, made_scenes, 1.0)
        loss = loss + self.settings.cycle * (_distance(scenes_again, scenes) + _distance(labels_again, labels))
        loss.backward()
        self.optimizers["generators"].step()
        self.judges.requires_grad_(True)
        self.optimizers["judges"].zero_grad(set_to_none=True)
        made_labels, made_scenes = self.labels_pool.swap(made_labels), self.scenes_pool.swap(made_scenes)
        lessons = ((self.labels_judge, labels, made_labels), (self.scenes_judge, scenes, made_scenes))
        for judge, real, made in lessons:
            ((self._verdict(judge, real, 1.0) + self._verdict(judge, made, 0.0)) / 2).backward()
        self.optimizers["judges"].step()
        return loss.detach()

    def _identity_loss(self, scenes: Tensor, labels: Tensor) -> Tensor:
        with self.config.autocast():
            kept_labels, kept_scenes = self.to_labels(labels), self.to_scenes(scenes)
        kept = _distance(kept_labels, labels) + _distance(kept_scenes, scenes)
        return kept * self.settings.cycle * self.settings.identity

    def _verdict(self, judge: nn.Module, images: Tensor, wanted: float) -> Tensor:
        with self.config.autocast():
            scores: Tensor = judge(images)
        return (scores.float() - wanted).square().mean()


def _distance(one: Tensor, other: Tensor) -> Tensor:
    return F.l1_loss(one.float(), other)


class Images:
    """Drawn scenes and label maps, unpaired."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.colours = 2 * torch.rand(2, LABELS, 3, generator=data.generator(config.seed, data.DATASET)) - 1

    def batch(self, index: int) -> tuple[Tensor, Tensor]:
        """Scenes and label maps, both (batch, 3, side, side) in [-1, 1]."""
        rng = data.generator(self.config.seed, index)
        n, side = self.config.settings.batch_size, self.config.settings.image_size
        blobs = torch.randn(2 * n, LABELS, BLOBS, BLOBS, generator=rng)
        strength = F.interpolate(blobs, size=(side, side), mode="bicubic", align_corners=False)
        scenes, labels = strength.argmax(dim=1).chunk(2)  # (batch, side, side)
        noise = 0.2 * torch.randn(n, 3, side, side, generator=rng)
        scenes = (self.colours[0][scenes].permute(0, 3, 1, 2) + noise).clamp(-1, 1).contiguous()
        labels = self.colours[1][labels].permute(0, 3, 1, 2).contiguous()
        return scenes.to(self.config.device), labels.to(self.config.device)
