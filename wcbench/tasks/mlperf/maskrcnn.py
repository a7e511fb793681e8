"""Mask R-CNN on COCO (He et al., arXiv:1703.06870): MLPerf Training v0.7, object detection (heavy weight).

The reference (object_detection/pytorch, after maskrcnn-benchmark: e2e_mask_rcnn_R_50_FPN_1x) is ResNet-50 with a
feature pyramid of 256 channels, stem, first stage and every normalization frozen; short side 800 pixels, long side at
most 1333, padded to multiples of 32; 2,000 proposals of each level go into non-maximum suppression and 2,000 come out;
256 anchors and 512 regions an image are sampled, a quarter of the regions positive; boxes from 7x7 places by two layers
of 1024, masks of 28x28 from 14x14 places by four convolutions of 256. Batch 16, SGD at 0.02, momentum 0.9, weight decay
1e-4 (biases at twice the rate and without decay, from memory), a tenth of the rate after 60,000 and 80,000 of 90,000
steps, warmed up.

What differs here, and why:

- The network is torchvision's: it strides in the 3x3 convolution of a block, the reference in the 1x1 before it; it has
  91 classes, the reference 81; its 2,000 proposals are those of an image, the reference's those of the batch.
- No pre-trained weights are at hand, so that nothing that is frozen was ever learned. `detection.Trunk` keeps
  activations in range.
- The images are drawn (`boxes`), all of 800x1344, and masks come as bitmaps of blocks and ellipses; the reference
  rasterizes polygons on the CPU. Sizes vary there, short sides of 800 with long sides up to 1333.
- The warm-up and the steps of the rate are left out.
- Inference classifies 1,000 proposals and draws up to 100 masks, as torchvision does. The 134.38 GMAC that torchvision
  publishes are of an image of 800x800 on which nothing is found, without a single mask.
- `regions` tells what the step of fixed shapes does in place of the real one: it computes a quarter of the 512 regions'
  masks, which is the most that can be positive, and pads ground truth to 8 objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor

from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.vision import detection, regions
from wcbench.tasks.vision.object_detection import PYRAMID, DetectionSettings, drawn, resolved

DEPTH = 4  # convolutions of the mask head


@dataclass(frozen=True)
class MaskSettings(DetectionSettings):
    """Knobs of Mask R-CNN: those of Faster R-CNN on a pyramid.

    Attributes
    ----------
    mask_channels : of the convolutions that draw masks.
    """

    batch_size: int = 16
    lr: float = 0.02
    mask_channels: int = 256


class MlperfMaskrcnn(Task):
    """torchvision's Mask R-CNN, ResNet-50 with a feature pyramid, on drawn images."""

    presets: ClassVar[Mapping[str, MaskSettings]] = {
        "paper": MaskSettings(),
        "small": MaskSettings(
            batch_size=1,
            height=96,
            width=128,
            stage_width=32,
            hidden=256,
            candidates=200,
            proposals=100,
            regions=16,
            detect=16,
            most_boxes=20,
            lr=1e-3,
        ),
        "tiny": MaskSettings(
            batch_size=2,
            height=64,
            width=64,
            layers=(1, 1, 1, 1),
            stage_width=8,
            channels=16,
            hidden=64,
            candidates=50,
            proposals=50,
            regions=16,
            detect=16,
            mask_channels=16,
            most_boxes=20,
            lr=0.01,
        ),
    }

    def build(self, config: Config) -> Built:
        settings = resolved(config.settings, PYRAMID)
        wide = settings.mask_channels
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = detection.pyramid_rcnn(
                MaskRCNN,
                settings,
                mask_roi_pool=detection.level_pool(14, settings),
                mask_head=MaskRCNNHeads(settings.channels, (wide,) * DEPTH, 1),
                mask_predictor=detection.in_float32(MaskRCNNPredictor(wide, wide, settings.classes)),
            )
        optimizer = detection.sgd(model, settings, bias_rate=2)
        source = drawn(settings, config, masks=True)
        return detection.detector(config, model, optimizer, source, detection.Fixed(regions.losses, regions.detect))
