"""SSD300 on COCO (Liu et al., arXiv:1512.02325): MLPerf Training v0.7, object detection (light weight).

The reference (single_stage_detector/ssd) takes ResNet-34 up to its third stage, whose stride it removes, as the
backbone: 256 channels on 38x38 places. Five pairs of convolutions, without normalization, go on to 19, 10, 5, 3 and 1
places a side, and a 3x3 convolution on each of the six maps tells position and class of 4 or 6 priors a place, 8,732 in
all. Objects are matched to priors on the CPU, with the images: the best prior of an object, and every prior that it
covers by more than half. The loss adds smooth L1 of the positive priors and cross entropy of them and of the three
times as many negatives with the worst cross entropy, found by sorting twice. Batch 32, SGD at 2.5e-3, momentum 0.9,
weight decay 5e-4 on everything, a tenth of the rate at epochs 40 and 50. The reference also asks for the gradient of
the images, which nothing uses; so does the step here.

What differs here, and why:

- The images are drawn (`boxes`) and squeezed to 300x300; the reference cuts out parts of them at random.
- The backbone starts from random weights, the reference from ImageNet's.
- Images need not have 300 pixels a side; priors grow and shrink with them.
- The warm-up and the steps of the rate are left out, and so is the non-maximum suppression after inference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock
from torchvision.ops import box_convert, box_iou

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.vision.boxes import COCO_BOXES, Source
from wcbench.tasks.vision.detection import DEVIATION, MEAN

SIDES = (21, 45, 99, 153, 207, 261, 315)  # of the priors of each level, and of one level more, in 300 pixels
ASPECTS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))  # of the priors beside the two square ones
STRIDES = (8, 16, 32, 64, 100, 300)  # pixels between the centres of a level's priors
BLOCKS = (3, 4, 6)  # of the three stages
STRIDED = (True, True, True, False, False)  # levels that halve the one before; the last two only lose their margin
CENTRE, EXTENT = 10.0, 5.0  # by which the offsets of the centre and the logarithms of the extent are multiplied


@dataclass(frozen=True)
class SsdSettings(Settings):
    """Knobs of SSD.

    Attributes
    ----------
    image_size : side of the square images, in pixels.
    width : channels of the stem and the first stage; all others follow from it.
    classes : labels, the background among them.
    mean_boxes : objects an image.
    most_boxes : objects kept of an image.
    lr, momentum, weight_decay : of SGD.
    """

    batch_size: int = 32
    image_size: int = 300
    width: int = 64
    classes: int = 81
    mean_boxes: float = COCO_BOXES
    most_boxes: int = 60
    lr: float = 2.5e-3
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def validate(self) -> None:
        super().validate()
        for name, least in {"image_size": 64, "width": 2, "classes": 2, "mean_boxes": 1, "most_boxes": 1}.items():
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it is {least} or more.")


def map_sides(image_size: int) -> list[int]:
    """Places a side of the six maps."""
    sides = [math.ceil(image_size / 8)]
    for strided in STRIDED:
        sides.append(math.ceil(sides[-1] / 2) if strided else sides[-1] - 2 * (sides[-1] > 2))
    return sides


def priors(image_size: int) -> Tensor:
    """Centre and extent (priors, 4) of all priors, in shares of the image, at most 1."""
    levels = []
    for level, (side, aspects) in enumerate(zip(map_sides(image_size), ASPECTS, strict=True)):
        least, next_least = SIDES[level] / 300, SIDES[level + 1] / 300
        middle = math.sqrt(least * next_least)
        shapes = [(least, least), (middle, middle)]
        for root in map(math.sqrt, aspects):
            shapes += [(least * root, least / root), (least / root, least * root)]
        step = STRIDES[level] / 300 if image_size == 300 else 1 / side
        places = (torch.arange(side) + 0.5) * step
        y, x = torch.meshgrid(places, places, indexing="ij")
        centres = torch.stack((x, y), dim=-1).view(1, -1, 2)
        extents = torch.tensor(shapes).view(-1, 1, 2)
        both = torch.broadcast_tensors(centres, extents)
        levels.append(torch.cat(both, dim=-1).reshape(-1, 4))  # by shape, then by place, as the heads are read
    return torch.cat(levels).clamp(0, 1)


class Backbone(nn.Sequential):
    """Images (batch, 3, 300, 300) to features (batch, 4 width, 38, 38)."""

    def __init__(self, width: int) -> None:
        stages: list[nn.Module] = []
        inputs = width
        for stage, blocks in enumerate(BLOCKS):
            channels, stride = width * 2**stage, 2 if stage == 1 else 1
            for _ in range(blocks):
                short = None
                if stride != 1 or inputs != channels:
                    short = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
                stages.append(BasicBlock(inputs, channels, stride, short))
                inputs, stride = channels, 1
        stem = (nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        super().__init__(*stem, nn.MaxPool2d(3, 2, 1), *stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class Ssd(nn.Module):
    """Images (batch, 3, 300, 300) to offsets (batch, 4, priors) and class scores (batch, classes, priors)."""

    def __init__(self, width: int, classes: int, sides: list[int]) -> None:
        super().__init__()
        self.classes = classes
        self.backbone = Backbone(width)
        channels = [4 * width, 8 * width, 8 * width, 4 * width, 4 * width, 4 * width]
        narrow = (4 * width, 4 * width, 2 * width, 2 * width, 2 * width)
        self.extra = nn.ModuleList()
        for level, (inner, strided) in enumerate(zip(narrow, STRIDED, strict=True)):
            stride, margin = (
                (2, 1) if strided else (1, int(sides[level] <= 2))
            )  # a map of one or two places keeps its size
            self.extra.append(
                nn.Sequential(
                    nn.Conv2d(channels[level], inner, 1),
                    nn.ReLU(inplace=True),
                    nn.Conv2d(inner, channels[level + 1], 3, stride, margin),
                    nn.ReLU(inplace=True),
                )
            )
        shapes = [2 + 2 * len(aspects) for aspects in ASPECTS]
        self.offsets = nn.ModuleList(nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in zip(channels, shapes, strict=True))
        self.scores = nn.ModuleList(
            nn.Conv2d(c, classes * n, 3, padding=1) for c, n in zip(channels, shapes, strict=True)
        )
        for part in (self.extra, self.offsets, self.scores):
            for weight in part.parameters():
                if weight.dim() > 1:
                    nn.init.xavier_uniform_(weight)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        maps = [self.backbone(images)]
        for pair in self.extra:
            maps.append(pair(maps[-1]))
        offsets = [head(x).view(len(x), 4, -1) for head, x in zip(self.offsets, maps, strict=True)]
        scores = [head(x).view(len(x), self.classes, -1) for head, x in zip(self.scores, maps, strict=True)]
        return torch.cat(offsets, 2).float(), torch.cat(scores, 2).float()


def match(priors: Tensor, boxes: Tensor, labels: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Objects of an image to priors: centre and extent (4, priors) to aim at and classes (priors,), 0 for background.

    All boxes are in shares of the image; priors as centre and extent, objects as corners.
    """
    overlap = torch.where(valid[:, None], box_iou(boxes, box_convert(priors, "cxcywh", "xyxy")), -1.0)
    best, row = overlap.max(dim=0)
    closest = torch.where(valid, overlap.argmax(dim=1), len(priors))  # padding goes to a prior past the end
    taken = torch.full((len(priors) + 1,), -1).scatter_reduce(0, closest, torch.arange(len(boxes)), "amax")[:-1]
    row = torch.where(taken >= 0, taken, row)
    positive = (taken >= 0) | (best > 0.5)
    aim = torch.where(positive[:, None], box_convert(boxes[row], "xyxy", "cxcywh"), priors)
    return aim.T, torch.where(positive, labels[row], 0)


def loss_of(offsets: Tensor, scores: Tensor, aim: Tensor, labels: Tensor, priors: Tensor) -> Tensor:
    """SSD's loss: positions of positive priors, classes of them and of the worst negatives, three for each."""
    positive = labels > 0
    count = positive.sum(dim=1)
    centre, extent = priors.T[:2], priors.T[2:]
    wanted = torch.cat((CENTRE * (aim[:, :2] - centre) / extent, EXTENT * (aim[:, 2:] / extent).log()), dim=1)
    position = F.smooth_l1_loss(offsets, wanted, reduction="none").sum(dim=1)
    entropy = F.cross_entropy(scores, labels, reduction="none")  # (batch, priors)
    order = entropy.detach().masked_fill(positive, 0.0).sort(dim=1, descending=True).indices
    worst = order.sort(dim=1).indices < (3 * count)[:, None]
    total = (position * positive).sum(dim=1) + (entropy * (positive.float() + worst.float())).sum(dim=1)
    return (total / count.clamp(min=1)).mean()  # every image has an object, and every object a prior


class MlperfSsd(Task):
    """SSD300 with ResNet-34 on drawn images."""

    presets: ClassVar[Mapping[str, SsdSettings]] = {
        "paper": SsdSettings(),
        "small": SsdSettings(batch_size=1, width=32, classes=21, lr=1e-3),
        "tiny": SsdSettings(batch_size=2, image_size=96, width=8, classes=5, lr=1e-3),
    }

    def build(self, config: Config) -> Built:
        settings: SsdSettings = config.settings
        side, size = settings.image_size, settings.batch_size
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Ssd(settings.width, settings.classes, map_sides(side))
        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=settings.lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            foreach=True,
        )
        places = priors(side)
        on_device = places.to(config.device)
        source = Source(side, side, settings.classes, settings.mean_boxes, settings.most_boxes)

        def batch(index: int) -> tuple[Tensor, Tensor, Tensor]:
            scene = source.scene(config.seed, index, size)
            images = (scene.images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
            objects = zip(scene.boxes / side, scene.labels, scene.valid, strict=True)
            aims, labels = zip(*(match(places, *each) for each in objects), strict=True)
            return images.to(config.device), torch.stack(aims).to(config.device), torch.stack(labels).to(config.device)

        def step(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            images, aim, labels = batch
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                offsets, scores = model(images.detach().requires_grad_())
            loss = loss_of(offsets, scores, aim, labels, on_device)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            offsets, scores = model(batch[0])
            return offsets, scores

        return Built(step, batch, {"model": model}, size, {"model": optimizer}, infer=infer)
