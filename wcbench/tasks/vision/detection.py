"""What the detectors share: backbones, torchvision's R-CNN on a feature pyramid, batches and steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.rpn import RPNHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign

from wcbench.tasks.base import Built, Config
from wcbench.tasks.vision.boxes import Source

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]  # of ImageNet's pixels
LEVELS = (32, 64, 128, 256, 512)  # anchor sizes of a pyramid's levels, for a short side of 800 pixels
RATIOS = (0.5, 1.0, 2.0)


class Trunk(ResNet):  # type: ignore[misc]
    """torchvision's ResNet without its classifier, with stages ``width`` / 64 as wide (the stem keeps its 64).

    Fixed normalizations normalize nothing as long as no pre-trained weights are at hand: activations would double in
    variance with each residual block. The last one of each block therefore scales by one over the root of the number of
    blocks.
    """

    def __init__(
        self, layers: Sequence[int], width: int, norm_layer: Callable[[int], nn.Module], **options: Any
    ) -> None:
        self.stage_width = width
        super().__init__(Bottleneck, list(layers), num_classes=1, norm_layer=norm_layer, **options)
        del self.fc, self.avgpool
        for module in self.modules():
            if isinstance(module, Bottleneck):
                nn.init.constant_(module.bn3.weight, sum(layers) ** -0.5)

    def _make_layer(self, block: Any, planes: int, *rest: Any, **options: Any) -> Any:
        return super()._make_layer(block, planes * self.stage_width // 64, *rest, **options)

    def freeze(self) -> None:
        """No gradient for the stem and the first stage, as all the references have it."""
        for part in (self.conv1, self.bn1, self.layer1):
            part.requires_grad_(False)


class Images(GeneralizedRCNNTransform):  # type: ignore[misc]
    """Normalizes and pads as torchvision does, but leaves the size alone: images come at the size to train on."""

    def __init__(self, divisor: int) -> None:
        super().__init__(0, 0, MEAN, DEVIATION, size_divisible=divisor)

    def resize(self, image: Tensor, target: Any = None) -> tuple[Tensor, Any]:
        return image, target


def pyramid(trunk: Trunk, channels: int, stages: Sequence[int], extra: nn.Module | None = None) -> nn.Module:
    """A feature pyramid on the given stages (from 1) of a trunk."""
    names = {f"layer{stage}": str(level) for level, stage in enumerate(stages)}
    widths = [4 * trunk.stage_width * 2 ** (stage - 1) for stage in stages]
    return in_float32(BackboneWithFPN(trunk, names, widths, channels, extra))


def in_float32(module: nn.Module) -> nn.Module:
    """Have a module return float32: under bfloat16, coordinates and the losses on them would be too coarse."""
    module.register_forward_hook(lambda module, args, out: tree_map(lambda x: x.float(), out))
    return module


def pyramid_rcnn(kind: Any, settings: Any, **parts: Any) -> Any:
    """Faster or Mask R-CNN of torchvision's on a feature pyramid."""
    trunk = Trunk(settings.layers, settings.stage_width, FrozenBatchNorm2d)
    trunk.freeze()
    channels = settings.channels
    sizes = tuple((size,) for size in shrunk(LEVELS, settings, 800))
    model = kind(
        pyramid(trunk, channels, (1, 2, 3, 4)),
        rpn_anchor_generator=AnchorGenerator(sizes, (RATIOS,) * len(sizes)),
        rpn_head=in_float32(RPNHead(channels, len(RATIOS))),
        box_roi_pool=level_pool(7, settings),
        box_head=TwoMLPHead(channels * 7**2, settings.hidden),
        box_predictor=in_float32(FastRCNNPredictor(settings.hidden, settings.classes)),
        **counts(settings),
        **parts,
    )
    model.transform = Images(divisor=32)
    return model


def counts(settings: Any) -> dict[str, int]:
    """How many proposals and regions torchvision is to keep."""
    return {
        "rpn_pre_nms_top_n_train": settings.candidates,
        "rpn_pre_nms_top_n_test": settings.candidates // 2,  # in both references
        "rpn_post_nms_top_n_train": settings.proposals,
        "rpn_post_nms_top_n_test": settings.detect,
        "box_batch_size_per_image": settings.regions,
    }


def shrunk(sizes: tuple[int, ...], settings: Any, short: int) -> tuple[int, ...]:
    """Anchor sizes, which are for a short side of ``short`` pixels, for the images that there are."""
    return tuple(max(4, round(size * min(settings.height, settings.width) / short)) for size in sizes)


def level_pool(side: int, settings: Any) -> Any:
    """Regions of side x side from the level that suits their size."""
    (scale,) = shrunk((224,), settings, 800)
    return MultiScaleRoIAlign(["0", "1", "2", "3"], side, sampling_ratio=2, canonical_scale=scale)


def sgd(model: nn.Module, settings: Any, bias_rate: float = 1.0) -> torch.optim.SGD:
    """SGD that decays weights but no biases, and may move the biases faster."""
    learned = [p for p in model.parameters() if p.requires_grad]
    weights = {"params": [p for p in learned if p.dim() > 1], "weight_decay": settings.weight_decay}
    biases = {"params": [p for p in learned if p.dim() == 1], "lr": bias_rate * settings.lr}
    return torch.optim.SGD([weights, biases], lr=settings.lr, momentum=settings.momentum, foreach=True)


class Fixed(NamedTuple):
    """What a detector does under ``fixed_shapes``, by model and batch: its losses by name, and its inference."""

    losses: Callable[[Any, Mapping[str, Tensor]], Mapping[str, Tensor]]
    detect: Callable[[Any, Mapping[str, Tensor]], tuple[Tensor, ...]]


def detector(config: Config, model: Any, optimizer: torch.optim.Optimizer, source: Source, fixed: Fixed) -> Built:
    """A detector of torchvision's made ready. Its batch is what the model takes; under ``fixed_shapes``, a mapping."""
    size, device = config.settings.batch_size, config.device

    def batch(index: int) -> Any:
        scene = source.scene(config.seed, index, size)
        parts = scene.padded() if config.fixed_shapes else ([*scene.images], scene.targets())
        return tree_map(lambda x: x.to(device), parts)

    def step(batch: Any) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with config.autocast():
            losses = fixed.losses(model, batch) if config.fixed_shapes else model(*batch)
            loss = torch.stack([*losses.values()]).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def infer(batch: Any) -> tuple[Tensor, ...]:
        if config.fixed_shapes:
            return fixed.detect(model, batch)
        if model.training:
            return tuple(model(*batch).values())
        return tuple(tensor for found in model(batch[0]) for tensor in found.values())

    return Built(step, batch, {"model": model.train()}, size, {"model": optimizer}, infer=infer)
