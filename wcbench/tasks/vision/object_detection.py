"""Object detection: Faster R-CNN on PASCAL VOC2007 or COCO (Ren et al., arXiv:1506.01497).

AIBench Training DC-AI-C9 (PyTorch/Object_detection, after jwyang/faster-rcnn.pytorch) trains ResNet-101 up to its third
stage as the backbone and its fourth stage as the head of each region ("C4"), with stem, first stage and every batch
normalization frozen. Images have a short side of 600 pixels; 9 anchors a place, in VOC's configuration; the best 12,000
proposals go into non-maximum suppression at 0.7 and 2,000 come out; 256 anchors and 128 regions of 7x7 are sampled;
ground truth is padded to 20 boxes. Batch 10 (train.sh), SGD at 0.001, momentum 0.9, weight decay 1e-4 on all but
biases, a tenth of the rate every 5 of 20 epochs. The proposal network tells object from background by a softmax over
two scores, which is a sigmoid of their difference. The variant ``fpn`` is torchvision's ResNet-50 with a feature
pyramid for COCO's 91 classes, at torchvision's own sizes; AIBench names no batch for it.

What differs here, and why:

- No pre-trained weights are at hand, so that nothing that is frozen was ever learned. `detection.Trunk` keeps
  activations in range.
- The images are drawn (`boxes`), all of one size: 600x800, or 800x1344 with the pyramid. In the reference the long side
  follows the image, up to 1000 pixels.
- The backbone is torchvision's, which strides in the 3x3 convolution of a block; the reference strides in the 1x1
  before it, 3 % less work. Regions are sampled 2x2 a bin, and no proposal is dropped for its size.
- Inference classifies 128 regions (1,000 with the pyramid), as the catalogue counts it; the reference tests 300.
- Anchors shrink with the image, so that small presets match as many of them.
- `regions` tells what the step of fixed shapes does in place of the real one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.ops import MultiScaleRoIAlign

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.vision import detection, regions
from wcbench.tasks.vision.boxes import COCO_BOXES, VOC_BOXES, Source

PYRAMID = "fpn"


@dataclass(frozen=True)
class DetectionSettings(Settings):
    """Knobs of the object detection task; None (and no layers) stands for what the variant has at the paper's size.

    Attributes
    ----------
    height, width : of all images, in pixels.
    layers : bottleneck blocks in each of the four stages.
    stage_width : inner width of the first stage's blocks; later stages double it.
    channels : of the proposal network's layer, and of the pyramid.
    hidden : width of the pyramid's region head.
    classes : labels, the background among them; 21 is VOC, 91 COCO.
    candidates : best proposals, of each level of a pyramid, that go into non-maximum suppression.
    proposals : how many come out in training.
    regions : sampled for the region head, of each image.
    detect : proposals that inference classifies.
    mean_boxes : objects an image.
    most_boxes : objects kept of an image.
    fixed_boxes : objects that the step of fixed shapes pads to; near the mean, save where the reference pads as well.
    lr, momentum, weight_decay : of SGD.
    """

    batch_size: int = 10
    height: int | None = None
    width: int | None = None
    layers: tuple[int, ...] = ()
    stage_width: int = 64
    channels: int | None = None
    hidden: int = 1024
    classes: int | None = None
    candidates: int | None = None
    proposals: int = 2000
    regions: int | None = None
    detect: int | None = None
    mean_boxes: float | None = None
    most_boxes: int | None = None
    fixed_boxes: int | None = None
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def validate(self) -> None:
        super().validate()
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), SMALLEST.get(field.name, 1)
            if (isinstance(value, int) or field.name == "mean_boxes") and value is not None and value < least:
                raise UsageError(f"{field.name} {value} is refused: it is {least} or more.")
        if self.layers and (len(self.layers) != 4 or min(self.layers) < 1):
            raise UsageError(
                f"layers {self.layers} is refused: ResNet has four stages of at least one block.",
                "Give four numbers, e.g. --set layers=3,4,23,3.",
            )


SMALLEST = {"height": 64, "width": 64, "classes": 2, "candidates": 2, "regions": 4}  # 1 for all others
OWN: Mapping[str, tuple[Any, Any]] = {  # by setting: of ResNet-101 without a pyramid, and of the pyramid
    "height": (600, 800),
    "width": (800, 1344),
    "layers": ((3, 4, 23, 3), (3, 4, 6, 3)),
    "channels": (512, 256),
    "classes": (21, 91),
    "candidates": (12_000, 2000),
    "regions": (128, 512),
    "detect": (128, 1000),
    "mean_boxes": (VOC_BOXES, COCO_BOXES),
    "most_boxes": (20, 60),
    "fixed_boxes": (20, 8),
}


def resolved(settings: DetectionSettings, variant: str | None) -> Any:
    """The settings with nothing left to the variant."""
    own = {key: pair[variant == PYRAMID] for key, pair in OWN.items() if getattr(settings, key) in (None, ())}
    return dataclasses.replace(settings, **own)


class FrozenNorm(nn.BatchNorm2d):
    """Batch normalization by fixed statistics: torch's, which never trains, as the reference freezes it."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> FrozenNorm:
        return super().train(False)


class Stages(nn.Module):
    """Images (batch, 3, height, width) to features (batch, 16 stage_width, height / 16, width / 16)."""

    def __init__(self, trunk: detection.Trunk) -> None:
        super().__init__()
        stem = (trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool)
        self.body = nn.Sequential(*stem, trunk.layer1, trunk.layer2, trunk.layer3)
        self.out_channels = 16 * trunk.stage_width

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return {"0": self.body(images)}


class LastStage(nn.Module):
    """Regions (n, 16 stage_width, 7, 7) to (n, 32 stage_width): the fourth stage, averaged over its 4x4 places."""

    def __init__(self, trunk: detection.Trunk) -> None:
        super().__init__()
        self.layer4 = trunk.layer4

    def forward(self, regions: Tensor) -> Tensor:
        return self.layer4(regions).mean((2, 3))  # type: ignore[no-any-return]


class TwoScores(nn.Module):
    """Features to objectness (batch, anchors, h, w) and deltas (batch, 4 anchors, h, w) of the one level.

    The softmax of the reference over background and object equals a sigmoid of their difference, which is returned.
    """

    def __init__(self, inputs: int, channels: int, anchors: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, 3, padding=1)
        self.scores = nn.Conv2d(channels, 2 * anchors, 1)
        self.deltas = nn.Conv2d(channels, 4 * anchors, 1)
        for p in self.parameters():
            nn.init.normal_(p, std=0.01 if p.dim() > 1 else 0.0)

    def forward(self, features: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        hidden = self.conv(features[0]).relu()
        background, thing = self.scores(hidden).chunk(2, dim=1)
        return [thing - background], [self.deltas(hidden)]


def faster_rcnn(settings: Any) -> Any:
    """Faster R-CNN with the fourth stage of its ResNet as the head."""
    trunk = detection.Trunk(settings.layers, settings.stage_width, FrozenNorm)
    trunk.freeze()
    backbone = detection.in_float32(Stages(trunk))
    anchors = AnchorGenerator((detection.shrunk((128, 256, 512), settings, 600),), (detection.RATIOS,))
    model = FasterRCNN(
        backbone,
        rpn_anchor_generator=anchors,
        rpn_head=detection.in_float32(TwoScores(16 * settings.stage_width, settings.channels, 9)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 7, sampling_ratio=2),
        box_head=LastStage(trunk),
        box_predictor=detection.in_float32(FastRCNNPredictor(32 * settings.stage_width, settings.classes)),
        **detection.counts(settings),
    )
    model.transform = detection.Images(divisor=1)
    return model


def drawn(settings: Any, config: Config, *, masks: bool = False) -> Source:
    """The images that the settings ask for."""
    most = settings.fixed_boxes if config.fixed_shapes else settings.most_boxes
    return Source(settings.height, settings.width, settings.classes, settings.mean_boxes, most, masks)


class ObjectDetection(Task):
    """Faster R-CNN on drawn images."""

    presets: ClassVar[Mapping[str, DetectionSettings]] = {
        "paper": DetectionSettings(),
        "small": DetectionSettings(
            batch_size=1,
            height=128,
            width=160,
            stage_width=32,
            candidates=200,
            proposals=100,
            regions=16,
            detect=16,
        ),
        "tiny": DetectionSettings(
            batch_size=2,
            height=64,
            width=64,
            layers=(1, 1, 1, 1),
            stage_width=8,
            channels=32,
            hidden=64,
            candidates=100,
            proposals=50,
            regions=16,
            detect=16,
            lr=0.01,
        ),
    }
    variants: ClassVar[Mapping[str, str]] = {PYRAMID: "ResNet-50 with a feature pyramid, torchvision's, for COCO"}

    def build(self, config: Config) -> Built:
        settings = resolved(config.settings, config.variant)
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = detection.pyramid_rcnn(FasterRCNN, settings) if config.variant else faster_rcnn(settings)
        optimizer = detection.sgd(model, settings)
        return detection.detector(
            config, model, optimizer, drawn(settings, config), detection.Fixed(regions.losses, regions.detect)
        )
