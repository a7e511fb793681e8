"""The region step of fixed shapes against torchvision's own: same matches, samples, regions, losses and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler, Matcher
from torchvision.models.resnet import resnet50
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign, box_iou

from wcbench.tasks.base import Built, Task
from wcbench.tasks.mlperf.maskrcnn import MlperfMaskrcnn
from wcbench.tasks.vision import detection, regions
from wcbench.tasks.vision.object_detection import ObjectDetection

# Padded and real ground truth hold the same objects, and there are proposals for every region that is wanted.
SAME = {"most_boxes": "6", "fixed_boxes": "6", "proposals": "200", "candidates": "200"}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def some_boxes(n: int, side: float = 60.0) -> Tensor:
    corners = torch.rand(n, 2, 2) * side
    return torch.cat((corners.min(1).values, corners.max(1).values + 1), dim=1)


@pytest.mark.parametrize(("high", "low", "low_quality"), [(0.7, 0.3, True), (0.5, 0.5, False), (0.5, 0.4, True)])
def test_matches_are_torchvisions(high: float, low: float, low_quality: bool) -> None:
    torch.manual_seed(0)
    matcher = Matcher(high, low, allow_low_quality_matches=low_quality)
    truth, boxes = some_boxes(5), torch.cat((some_boxes(200), some_boxes(5)))
    boxes[::40] = truth[:1] + 0.5
    expected = matcher(box_iou(truth, boxes))
    padded = torch.cat((truth, boxes[7:10]))  # padding that would match exactly
    valid = torch.tensor([True] * 5 + [False] * 3)
    assert torch.equal(regions.match(matcher, padded, valid, boxes), expected)
    assert {-1} < set(expected.tolist())


@pytest.mark.parametrize(
    ("positive", "negative", "ignored"),
    [(3, 100, 10), (50, 100, 10), (50, 5, 100), (0, 100, 10), (4, 6, 54)],
)
def test_samples_are_drawn_as_torchvision_draws_them(positive: int, negative: int, ignored: int) -> None:
    torch.manual_seed(0)
    sampler = BalancedPositiveNegativeSampler(32, 0.25)
    labels = torch.cat(
        (torch.full((positive,), 2), torch.zeros(negative, dtype=torch.int64), -torch.ones(ignored).long())
    )
    labels = labels[torch.randperm(len(labels))]
    (chosen,), (rest,) = sampler([labels])
    indices, kept = regions.sample(sampler, labels)
    assert len(indices) == len(set(indices.tolist())) == 32
    assert int((kept == 2).sum()) == int(chosen.sum())
    assert int((kept == 0).sum()) == int(rest.sum())
    assert int((kept == regions.IGNORED).sum()) == 32 - int(chosen.sum()) - int(rest.sum())
    assert torch.equal(labels[indices][kept >= 0], kept[kept >= 0])
    assert (kept[: int(chosen.sum())] == 2).all()  # the positives come first


def test_samples_differ_from_draw_to_draw() -> None:
    torch.manual_seed(0)
    sampler, labels = BalancedPositiveNegativeSampler(8, 0.5), torch.tensor([1] * 20 + [0] * 20)
    draws = {tuple(sorted(regions.sample(sampler, labels)[0].tolist())) for _ in range(20)}
    assert len(draws) == 20
    assert len({index for draw in draws for index in draw}) > 35


def test_regions_come_from_the_levels_that_torchvision_takes_them_from() -> None:
    torch.manual_seed(0)
    features = {str(level): torch.rand(2, 3, 64 // 2**level, 64 // 2**level) for level in range(4)}
    pooler = MultiScaleRoIAlign(["0", "1", "2", "3"], 7, sampling_ratio=2)
    corner = torch.rand(16, 2) * 20
    sides = torch.tensor([40.0, 130.0, 250.0, 500.0]).repeat(4)[:, None]  # one in four on each level
    boxes = list(torch.cat((corner, corner + sides), 1).split(8))
    seen = regions.Proposed((256, 256), features, [], torch.empty(0), torch.empty(0), [])
    expected = pooler(features, boxes, [(256, 256)] * 2)
    assert torch.allclose(regions.pool(pooler, seen, boxes), expected)


def exhaustive(built: Built) -> Any:
    """The model, such that non-maximum suppression leaves everything and sampling takes everything."""
    model: Any = built.modules["model"]
    model.rpn.nms_thresh = 1.0
    for part in (model.rpn, model.roi_heads):  # 1,023 anchors of a pyramid on 64x64 pixels, 206 candidates
        part.fg_bg_sampler.batch_size_per_image = 5000
    return model


def real_and_fixed(task: Task, variant: str | None = None) -> tuple[Built, Built]:
    options: Any = {"variant": variant, "overrides": SAME, "seed": 3}
    return tuple(  # type: ignore[return-value]
        task.build(task.configure("tiny", fixed_shapes=fixed, **options)) for fixed in (False, True)
    )


def gradients(model: Any, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
    torch.stack([*losses.values()]).sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("task", "variant"), [(ObjectDetection(), None), (ObjectDetection(), "fpn"), (MlperfMaskrcnn(), None)]
)
def test_losses_and_gradients_are_torchvisions(
    task: Task, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal where nothing is suppressed, everything sampled and every region pooled from its own level."""
    real, fixed = real_and_fixed(task, variant)
    ours, theirs = exhaustive(fixed), exhaustive(real)
    monkeypatch.setattr(
        regions, "pool", lambda pooler, seen, boxes: pooler(seen.features, boxes, [seen.size] * len(boxes))
    )
    batch, (images, targets) = fixed.batch(0), real.batch(0)
    assert torch.equal(torch.stack(images), batch["images"])
    expected, losses = theirs(images, targets), regions.losses(ours, batch)
    assert losses.keys() == expected.keys()
    for name, loss in losses.items():  # torchvision samples a mask's target once a bin in so small a region
        rel = 0.01 if name == "loss_mask" else 1e-5
        assert loss.item() == pytest.approx(expected[name].item(), rel=rel), name
    a, b = gradients(ours, losses), gradients(theirs, expected)
    assert a.keys() == b.keys()
    masked = "loss_mask" in losses
    for name, gradient in b.items():
        assert float((a[name] - gradient).norm()) < (0.05 if masked else 1e-3) * float(gradient.norm()) + 1e-7, name


@pytest.mark.parametrize("variant", [None, "fpn"])
def test_both_steps_are_the_same_matrix_work(variant: str | None) -> None:
    """As torchvision samples, without any change: 16 of the regions, and every anchor."""
    flops = []
    for built in real_and_fixed(ObjectDetection(), variant):
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.step(batch)
        flops.append(counter.get_total_flops())
    assert flops[0] == flops[1] > 0


def test_the_trunk_is_torchvisions() -> None:
    with torch.device("meta"):
        ours, theirs = detection.Trunk((3, 4, 6, 3), 64, torch.nn.BatchNorm2d), resnet50()
    shapes = {name: p.shape for name, p in theirs.named_parameters() if not name.startswith("fc")}
    assert {name: p.shape for name, p in ours.named_parameters()} == shapes


def test_activations_stay_in_range_without_pretrained_weights() -> None:
    torch.manual_seed(0)
    trunk = detection.Trunk((3, 4, 23, 3), 16, FrozenBatchNorm2d)
    x = trunk.maxpool(trunk.relu(trunk.conv1(torch.randn(1, 3, 64, 64))))
    x = trunk.layer4(trunk.layer3(trunk.layer2(trunk.layer1(x))))
    assert 0.05 < x.std().item() < 20


@pytest.mark.parametrize(("variant", "fixed"), [(None, False), (None, True), ("fpn", False), ("fpn", True)])
def test_what_is_frozen_gets_no_gradient_and_all_else_does(variant: str | None, fixed: bool) -> None:
    built = real_and_fixed(ObjectDetection(), variant)[fixed]
    built.step(built.batch(0))
    parameters = dict(built.modules["model"].named_parameters())
    frozen = {name for name, p in parameters.items() if p.grad is None}
    body = "backbone.body." if variant else "backbone.body"
    stage = "layer1" if variant else "4"
    normalized = {name for name, p in parameters.items() if p.dim() == 1 and ("bn" in name or "downsample" in name)}
    stem = {name for name in parameters if name.startswith((f"{body}.0.", f"{body}conv1"))}
    first = {name for name in parameters if f"body.{stage}." in name}
    assert len(stem) == 1
    assert len(first) >= 4
    assert frozen == (stem | first | normalized | ({f"{body}.1.weight", f"{body}.1.bias"} if not variant else set()))
