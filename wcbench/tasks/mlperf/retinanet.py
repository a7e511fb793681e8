"""RetinaNet on Open Images (Lin et al., arXiv:1708.02002): MLPerf Training v2.0 to v5.1, object detection.

The reference (single_stage_detector/ssd, after torchvision) is ResNeXt-50 32x4d with a feature pyramid on its last
three stages and two more levels, 256 channels; on each level two towers of four 3x3 convolutions tell 264 classes and
the box of 9 anchors a place, 120,087 in 800x800 pixels. Stem, first stage and every normalization are frozen. Focal
loss on all anchors but those between the thresholds (0.4 and 0.5), L1 on the positive ones; matching is part of the
step. Batch 16 on 8 GPUs, Adam without weight decay at 1e-4 (the rate from memory), warmed up over one epoch, half
precision, channels last.

What differs here, and why:

- No pre-trained weights are at hand, so that nothing that is frozen was ever learned. `detection.Trunk` keeps
  activations in range.
- The images are drawn (`boxes`), with as many objects as COCO's; Open Images' statistics were not found.
- Single precision unless asked for, channels first, no warm-up.
- Anchors shrink with the image, so that small presets match as many of them.
- The step of fixed shapes selects no rows: anchors that do not count are multiplied by zero. It gives the loss of the
  real step, of which it is the same work but for the copies that a selection makes. Its inference takes the best scores
  of each level in place of those above a threshold, and leaves non-maximum suppression out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import FrozenBatchNorm2d, sigmoid_focal_loss
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from wcbench.errors import UsageError
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.vision import detection
from wcbench.tasks.vision.boxes import COCO_BOXES, Source
from wcbench.tasks.vision.regions import match

GROUPS, GROUP_WIDTH = 32, 4  # of ResNeXt's convolutions: 32 groups, of 4 channels in the first stage
THIRDS = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))  # sizes of anchors within a level


@dataclass(frozen=True)
class RetinaSettings(Settings):
    """Knobs of RetinaNet.

    Attributes
    ----------
    height, width : of all images, in pixels.
    layers : bottleneck blocks in each of the four stages.
    stage_width : a quarter of the first stage's outputs; later stages double it. A multiple of 16, for the groups.
    channels : of the pyramid and the towers.
    classes : labels; 0, the background, is never met.
    mean_boxes : objects an image.
    most_boxes : objects kept of an image.
    fixed_boxes : objects that the step of fixed shapes pads to, near the mean.
    lr : of Adam.
    """

    batch_size: int = 16
    height: int = 800
    width: int = 800
    layers: tuple[int, ...] = (3, 4, 6, 3)
    stage_width: int = 64
    channels: int = 256
    classes: int = 264
    mean_boxes: float = COCO_BOXES
    most_boxes: int = 60
    fixed_boxes: int = 8
    lr: float = 1e-4

    def validate(self) -> None:
        super().validate()
        least = {
            "height": 64,
            "width": 64,
            "channels": 1,
            "classes": 2,
            "mean_boxes": 1,
            "most_boxes": 1,
            "fixed_boxes": 1,
        }
        for name, value in least.items():
            if getattr(self, name) < value:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it is {value} or more.")
        if len(self.layers) != 4 or min(self.layers) < 1:
            raise UsageError(
                f"layers {self.layers} is refused: ResNeXt has four stages of at least one block.",
                "Give four numbers, e.g. --set layers=3,4,6,3.",
            )
        if self.stage_width < 16 or self.stage_width % 16:
            raise UsageError(
                f"stage_width {self.stage_width} is refused: its {GROUPS} groups share {GROUP_WIDTH} * {GROUPS} / 64"
                " channels for each of it evenly.",
                "Give a multiple of 16.",
            )


def retinanet(settings: RetinaSettings) -> Any:
    """torchvision's RetinaNet on ResNeXt-50."""
    trunk = detection.Trunk(
        settings.layers, settings.stage_width, FrozenBatchNorm2d, groups=GROUPS, width_per_group=GROUP_WIDTH
    )
    trunk.freeze()
    channels = settings.channels
    sizes = [tuple(int(size * third) for third in THIRDS) for size in detection.shrunk(detection.LEVELS, settings, 800)]
    backbone = detection.pyramid(trunk, channels, (2, 3, 4), LastLevelP6P7(channels, channels))
    anchors = AnchorGenerator(tuple(sizes), (detection.RATIOS,) * len(sizes))
    model = RetinaNet(backbone, settings.classes, anchor_generator=anchors)
    for head in (model.head.classification_head, model.head.regression_head):
        detection.in_float32(head)
    model.transform = detection.Images(divisor=32)
    return model


def outputs(model: Any, images: Tensor) -> tuple[list[Tensor], Mapping[str, Tensor], list[Tensor]]:
    """Maps, scores and boxes of all anchors, and the anchors of each image."""
    listed, _ = model.transform([*images])
    maps = list(model.backbone(listed.tensors).values())
    heads = model.head(maps)
    return maps, heads, model.anchor_generator(listed, maps)


def losses(model: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """torchvision's losses, with anchors that do not count multiplied by zero instead of left out."""
    _, heads, anchors = outputs(model, batch["images"])
    classified, moved = [], []
    truth = zip(batch["boxes"], batch["labels"], batch["valid"], anchors, strict=True)
    for image, (boxes, labels, valid, places) in enumerate(truth):
        rows = match(model.proposal_matcher, boxes, valid, places)
        positive, counts = rows >= 0, rows != model.proposal_matcher.BETWEEN_THRESHOLDS
        found, rows = positive.sum().clamp(min=1), rows.clamp(min=0)
        logits = heads["cls_logits"][image]
        wanted = torch.zeros_like(logits).scatter(1, labels[rows][:, None], positive[:, None].to(logits.dtype))
        wrong = sigmoid_focal_loss(logits, wanted) * counts[:, None]
        classified.append(wrong.sum() / found)
        aim = model.box_coder.encode_single(boxes[rows], places)
        moved.append(((heads["bbox_regression"][image] - aim).abs() * positive[:, None]).sum() / found)
    return {"classification": torch.stack(classified).mean(), "bbox_regression": torch.stack(moved).mean()}


def detect(model: Any, batch: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """Inference: boxes and scores of the best anchors and classes."""
    maps, heads, anchors = outputs(model, batch["images"])
    counts = [anchors[0].shape[0] * level[0, 0].numel() // sum(x[0, 0].numel() for x in maps) for level in maps]
    scores = [level.sigmoid().flatten(1) for level in heads["cls_logits"].split(counts, dim=1)]
    boxes = heads["bbox_regression"].split(counts, dim=1)
    classes = heads["cls_logits"].shape[-1]
    found, best = [], []
    for score, box, place in zip(scores, boxes, anchors[0].split(counts), strict=True):
        top = score.topk(min(model.topk_candidates, score.shape[1]))
        at = top.indices // classes
        found.append(torch.stack([model.box_coder.decode_single(b[i], place[i]) for b, i in zip(box, at, strict=True)]))
        best.append(top.values)
    keep = torch.cat(best, 1).topk(min(model.detections_per_img, sum(x.shape[1] for x in best)))
    rows = keep.indices[..., None].expand(-1, -1, 4)
    return torch.cat(found, 1).gather(1, rows), keep.values


class MlperfRetinanet(Task):
    """torchvision's RetinaNet, ResNeXt-50 with a feature pyramid, on drawn images."""

    presets: ClassVar[Mapping[str, RetinaSettings]] = {
        "paper": RetinaSettings(),
        "small": RetinaSettings(batch_size=1, height=96, width=96, stage_width=32, channels=128),
        "tiny": RetinaSettings(
            batch_size=2,
            height=64,
            width=64,
            layers=(1, 1, 1, 1),
            stage_width=16,
            channels=16,
            classes=5,
            most_boxes=20,
            lr=1e-3,
        ),
    }

    def build(self, config: Config) -> Built:
        settings: RetinaSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = retinanet(settings)
        learned = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(learned, lr=settings.lr, foreach=True)
        most = settings.fixed_boxes if config.fixed_shapes else settings.most_boxes
        source = Source(settings.height, settings.width, settings.classes, settings.mean_boxes, most)
        return detection.detector(config, model, optimizer, source, detection.Fixed(losses, detect))
