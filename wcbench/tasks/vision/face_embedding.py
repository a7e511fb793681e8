"""Face embedding: FaceNet with Inception-ResNet-v1 on VGGFace2 (Schroff et al., arXiv:1503.03832 and 1602.07261).

AIBench Training DC-AI-C7 (PyTorch/Face_embedding) learns from triplets: an anchor, another face of the same person and
one of somebody else, batches of 64 triplets, Adam at 1e-3, margin 0.5 between Euclidean distances, 200 epochs of 10,000
random triplets. Each of the three goes through the network in a pass of its own. Only triplets that violate the margin
count. A step takes 192 faces, which are the samples.

The variant ``resnet34`` is what AIBench's PyTorch code runs under this name: ResNet-34 on faces of 182x182, a linear
layer to 128 numbers, scaled to length 10, and a classifier of 10,000 people. After the three passes it sends the faces
through the network and the classifier once more and never uses the outcome, which lives until the step ends.

What differs here, and why:

- The network that the task is named for takes 160x160 pixels to 512 numbers, as its public PyTorch port does.
- The reference picks the violating triplets on the host and skips a step that has none. Here they are a mask: no shape
  depends on data, and a step without any runs, with a loss and gradients of 0. The variant's unused passes take all
  the faces; the reference's take those of the violating triplets, nearly all at first and fewer later.
- A batch of one triplet goes through in one pass of three faces: normalization needs more than one value per channel.
- The faces are drawn: a smooth pattern for each person under as smooth, stronger noise, in [-1, 1]. People are equally
  likely, as in the reference; their number is from memory. The fall of the rate is no part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

SMALLEST = 75  # pixels that Inception-ResNet-v1's convolutions without padding leave something of
PATTERN = 8  # side of a person's pattern


@dataclass(frozen=True)
class FaceSettings(Settings):
    """Knobs of the face embedding task. ``batch_size`` counts triplets.

    Attributes
    ----------
    image_size : side of the square faces, in pixels; None is 160, and 182 in the variant.
    embedding : numbers that describe a face; None is 512, and 128 in the variant.
    blocks : residual blocks in the three stages of Inception-ResNet-v1.
    width : channels of Inception-ResNet-v1, as a share of the original's.
    layers : blocks in the four stages of the variant.
    classes : people that the variant's classifier knows.
    identities : people in the data set.
    margin : by which a stranger's face should be farther away.
    lr : of Adam.
    """

    batch_size: int = 64
    image_size: int | None = None
    embedding: int | None = None
    blocks: tuple[int, ...] = (5, 10, 5)
    width: float = 1.0
    layers: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 10_000
    identities: int = 9131
    margin: float = 0.5
    lr: float = 1e-3

    def validate(self) -> None:
        super().validate()
        if self.image_size is not None and self.image_size < SMALLEST:
            raise UsageError(
                f"image size {self.image_size} is refused: convolutions without padding leave nothing of it.",
                f"Give {SMALLEST} or more, e.g. --set image_size=96.",
            )
        if len(self.blocks) != 3 or len(self.layers) != 4 or min(self.blocks + self.layers) < 1:
            raise UsageError(
                f"blocks {self.blocks} or layers {self.layers} is refused: three and four stages have a block each.",
                "Give e.g. --set blocks=5,10,5 --set layers=3,4,6,3.",
            )
        if min(self.embedding or 1, self.classes, self.identities - 1) < 1 or self.embedding == 0 or self.width <= 0:
            raise UsageError("embedding and classes start at 1, identities at 2, and width lies above 0.")


Kernel = tuple[int, int]
Chains = tuple[tuple[Kernel, ...], ...]
POINT, SQUARE = (1, 1), (3, 3)


def convolution(inputs: int, outputs: int, kernel: Kernel, stride: int = 1, pad: bool = False) -> nn.Sequential:
    padding = (kernel[0] // 2, kernel[1] // 2) if pad else 0
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU())


halve = partial(convolution, kernel=SQUARE, stride=2)


def chain(inputs: int, outputs: int, *kernels: Kernel) -> nn.Sequential:
    """Convolutions of one width that keep the size."""
    widths = (inputs, *[outputs] * len(kernels))
    layers = [convolution(n, outputs, kernel, pad=True) for n, kernel in zip(widths, kernels, strict=False)]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """Chains side by side, joined to the channels of the input and added to it, weakened."""

    def __init__(self, channels: int, width: int, chains: Chains, scale: float, last: bool = False) -> None:
        super().__init__()
        self.branches = nn.ModuleList([chain(channels, width, *kernels) for kernels in chains])
        self.join = nn.Conv2d(len(chains) * width, channels, 1)
        self.scale, self.last = scale, last

    def forward(self, images: Tensor) -> Tensor:
        change = self.join(torch.cat([branch(images) for branch in self.branches], dim=1))
        images = images + self.scale * change
        return images if self.last else F.relu(images)


class Reduction(nn.Module):
    """Branches that halve the side, one of them by pooling; channels add up."""

    def __init__(self, *branches: nn.Sequential) -> None:
        super().__init__()
        self.branches = nn.ModuleList([*branches, nn.MaxPool2d(3, 2)])

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([branch(images) for branch in self.branches], dim=1)


class InceptionResnet(nn.Module):
    """Faces (batch, 3, 160, 160) to embeddings (batch, 512) of length 1."""

    def __init__(self, settings: FaceSettings) -> None:
        super().__init__()
        widths = (max(1, round(settings.width * channels)) for channels in (32, 64, 80, 128, 192, 256, 384))
        c32, c64, c80, c128, c192, c256, c384 = widths
        c896, c1792 = c384 + 2 * c256, 2 * (c384 + 2 * c256)
        embedding = settings.embedding or 512
        first, second, third = settings.blocks
        chains35 = ((POINT,), (POINT, SQUARE), (POINT, SQUARE, SQUARE))
        chains17 = ((POINT,), (POINT, (1, 7), (7, 1)))
        chains8 = ((POINT,), (POINT, (1, 3), (3, 1)))
        self.layers = nn.Sequential(
            halve(3, c32),  # (batch, 32, 79, 79)
            convolution(c32, c32, SQUARE),  # (batch, 32, 77, 77)
            convolution(c32, c64, SQUARE, pad=True),  # (batch, 64, 77, 77)
            nn.MaxPool2d(3, 2),  # (batch, 64, 38, 38)
            convolution(c64, c80, POINT),  # (batch, 80, 38, 38)
            convolution(c80, c192, SQUARE),  # (batch, 192, 36, 36)
            halve(c192, c256),  # (batch, 256, 17, 17)
            *[Residual(c256, c32, chains35, 0.17) for _ in range(first)],  # (batch, 256, 17, 17)
            Reduction(halve(c256, c384), chain(c256, c192, POINT, SQUARE).append(halve(c192, c256))),
            *[Residual(c896, c128, chains17, 0.10) for _ in range(second)],  # (batch, 896, 8, 8)
            Reduction(
                chain(c896, c256, POINT).append(halve(c256, c384)),
                chain(c896, c256, POINT).append(halve(c256, c256)),
                chain(c896, c256, POINT, SQUARE).append(halve(c256, c256)),
            ),
            *[Residual(c1792, c192, chains8, 0.20) for _ in range(third)],  # (batch, 1792, 3, 3)
            Residual(c1792, c192, chains8, 1.0, last=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),  # (batch, 1792)
            nn.Dropout(0.6),
            nn.Linear(c1792, embedding, bias=False),
            nn.BatchNorm1d(embedding, eps=1e-3),
        )

    def forward(self, faces: Tensor) -> Tensor:
        return F.normalize(self.layers(faces).float(), dim=1)


class FaceResnet(nn.Module):
    """Faces (batch, 3, 182, 182) to embeddings (batch, 128) of length 10, and those to logits (batch, people)."""

    def __init__(self, settings: FaceSettings, image_size: int) -> None:
        super().__init__()
        resnet, width = ResNet(BasicBlock, list(settings.layers), num_classes=1), settings.embedding or 128
        self.trunk = nn.Sequential(*list(resnet.children())[:-2])  # (batch, 512, 6, 6): five halvings, rounded up
        self.embed = nn.Linear(512 * (-(-image_size // 32)) ** 2, width)
        self.classifier = nn.Linear(width, settings.classes)

    def forward(self, faces: Tensor) -> Tensor:
        return 10 * F.normalize(self.embed(self.trunk(faces).flatten(1)).float(), dim=1)


class FaceEmbedding(Task):
    """FaceNet on triplets of VGGFace2's shape."""

    presets: ClassVar[Mapping[str, FaceSettings]] = {
        "paper": FaceSettings(),
        "small": FaceSettings(batch_size=2, image_size=80),
        "tiny": FaceSettings(batch_size=2, image_size=80, blocks=(1, 1, 1), width=0.25, layers=(1, 1, 1, 1)),
    }
    variants: ClassVar[Mapping[str, str]] = {"resnet34": "ResNet-34 and a classifier, as AIBench's PyTorch code runs"}

    def build(self, config: Config) -> Built:
        settings: FaceSettings = config.settings
        image_size = settings.image_size or (182 if config.variant else 160)
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = FaceResnet(settings, image_size) if config.variant else InceptionResnet(settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, foreach=True)

        def embed(triplets: Tensor) -> tuple[Tensor, ...]:
            """Three embeddings (batch, 512) of faces (3, batch, 3, side, side)."""
            single = settings.batch_size == 1
            with config.autocast():
                embeddings = [model(faces) for faces in ([triplets.flatten(0, 1)] if single else triplets)]
            return embeddings[0].split(1) if single else tuple(embeddings)

        def step(triplets: Tensor) -> Tensor:
            anchor, positive, negative = embed(triplets)
            with config.autocast():
                unused = [model.classifier(part) for part in embed(triplets)] if isinstance(model, FaceResnet) else []
            near, far = F.pairwise_distance(anchor, positive), F.pairwise_distance(anchor, negative)  # (batch,)
            violation = F.relu(near - far + settings.margin)
            loss = violation.sum() / (violation > 0).sum().clamp(min=1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            del unused
            return loss.detach()

        batch = Faces(config, image_size).batch
        return Built(step, batch, {"model": model}, 3 * settings.batch_size, {"model": optimizer}, infer=embed)


class Faces:
    """Drawn triplets of faces."""

    def __init__(self, config: Config, image_size: int) -> None:
        self.config, self.image_size = config, image_size
        shape = (config.settings.identities, 3, PATTERN, PATTERN)
        self.patterns = torch.randn(shape, generator=data.generator(config.seed, data.DATASET))

    def batch(self, index: int) -> Tensor:
        """Faces (3, batch, 3, side, side) in [-1, 1]: anchors, positives and negatives."""
        n, side, people = self.config.settings.batch_size, self.image_size, len(self.patterns)
        rng = data.generator(self.config.seed, index)
        person = torch.randint(people, (n,), generator=rng)
        stranger = (person + 1 + torch.randint(people - 1, (n,), generator=rng)) % people
        patterns = self.patterns[torch.cat((person, person, stranger))]  # (3 batch, 3, 8, 8)
        patterns = (patterns + 2 * torch.randn(patterns.shape, generator=rng)) / 5**0.5
        faces = F.interpolate(patterns, size=(side, side), mode="bilinear", align_corners=False)
        faces = (0.5 * faces + 0.1 * torch.randn(faces.shape, generator=rng)).clamp(-1, 1)
        return faces.view(3, n, 3, side, side).to(self.config.device)
