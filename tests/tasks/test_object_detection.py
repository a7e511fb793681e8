"""Faster R-CNN: sizes by hand, the published cost of torchvision's, the reference's peculiarities, that it learns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.vision.object_detection import ObjectDetection, TwoScores, resolved

CATALOGUE = 218_745_000_000  # tasks.csv: FLOPs of one 600x800 image with 128 regions


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bottlenecks(size: tuple[int, int], inputs: int, inner: int, blocks: int, stride: int) -> tuple[int, int, int]:
    """Multiplications of a ResNet stage whose 3x3 convolution strides, and the size that it leaves."""
    (height, width), total = size, 0
    for block in range(blocks):
        total += height * width * inputs * inner  # 1x1, before the stride
        if block == 0:
            height, width = math.ceil(height / stride), math.ceil(width / stride)
        total += height * width * (inner * inner * 9 + inner * 4 * inner)
        if block == 0:
            total += height * width * inputs * 4 * inner  # the shortcut
        inputs = 4 * inner
    return total, height, width


def multiplications() -> int:
    """Of one image of 600x800 with 128 regions, by layer: output pixels x outputs x inputs."""
    total = 300 * 400 * 64 * (3 * 7 * 7)
    inputs, height, width = 64, 150, 200
    for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 23, 2)):
        stage, height, width = bottlenecks((height, width), inputs, inner, blocks, stride)
        total, inputs = total + stage, 4 * inner
    assert (height, width) == (38, 50)
    proposals = height * width * (1024 * 512 * 9 + 512 * (18 + 36))
    head, height, width = bottlenecks((7, 7), 1024, 512, 3, 2)
    assert (height, width) == (4, 4)
    return total + proposals + 128 * (head + 2048 * (21 + 84))


def fake(variant: str | None = None, **overrides: str) -> Built:
    task = ObjectDetection()
    config = task.configure("paper", variant=variant, batch_size=1, overrides=overrides, fixed_shapes=True)
    return task.build(config)


def inference_flops(built: Built) -> int:
    built.modules["model"].eval()
    batch = built.batch(0)  # drawn by products too
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        built.infer(batch)  # type: ignore[misc]
    return int(counter.get_total_flops())


def test_flops_by_hand() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert inference_flops(fake()) == 2 * multiplications() == pytest.approx(CATALOGUE, rel=1e-4)


def test_the_pyramid_costs_what_torchvision_publishes() -> None:
    """134.38 G multiplications, as torchvision's own test counts them: 800x800 pixels, 1,000 proposals."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        flops = inference_flops(fake("fpn", height="800", width="800"))
    assert round(flops / 2e9, 2) == 134.38


def test_parameters_by_hand() -> None:
    def stage(inputs: int, inner: int, blocks: int) -> tuple[int, int]:
        """Weights of convolutions, and of normalizations."""
        first = inputs * inner + inner * inner * 9 + inner * 4 * inner + inputs * 4 * inner
        later = 4 * inner * inner + inner * inner * 9 + inner * 4 * inner
        return first + (blocks - 1) * later, 2 * (blocks * 6 * inner + 4 * inner)

    stages = [stage(*sizes) for sizes in ((64, 64, 3), (256, 128, 4), (512, 256, 23), (1024, 512, 3))]
    stem = 64 * 3 * 7 * 7
    norms = 2 * 64 + sum(norm for _, norm in stages)
    proposals = (1024 * 512 * 9 + 512) + (512 * 18 + 18) + (512 * 36 + 36)
    head = (2048 * 21 + 21) + (2048 * 84 + 84)
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = list(fake().modules["model"].parameters())
    total = stem + norms + sum(weights for weights, _ in stages) + proposals + head
    assert sum(p.numel() for p in parameters) == total == 47_462_111
    learned = sum(p.numel() for p in parameters if p.requires_grad)
    assert learned == total - stem - norms - stages[0][0] == 47_134_367


def test_parameters_of_the_pyramid_are_torchvisions() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = list(fake("fpn").modules["model"].parameters())
    assert sum(p.numel() for p in parameters) == 41_755_286
    assert sum(p.numel() for p in parameters if not p.requires_grad) == 64 * 147 + 212_992  # stem and first stage


def test_two_scores_are_a_softmax() -> None:
    torch.manual_seed(0)
    head, features = TwoScores(4, 8, 9), torch.rand(2, 4, 5, 6)
    (objectness,), (deltas,) = head([features])
    assert objectness.shape == (2, 9, 5, 6)
    assert deltas.shape == (2, 36, 5, 6)
    background, thing = head.scores(head.conv(features).relu()).chunk(2, dim=1)
    both = torch.stack((background, thing), dim=1)  # (batch, 2, anchors, h, w)
    labels = torch.randint(2, objectness.shape)
    ours = F.binary_cross_entropy_with_logits(objectness, labels.float())
    assert torch.allclose(ours, F.cross_entropy(both, labels))


def test_the_paper_has_the_references_numbers() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model: Any = fake().modules["model"]
        assert model.rpn.anchor_generator.sizes == ((128, 256, 512),)
        assert model.rpn.anchor_generator.num_anchors_per_location() == [9]
    rpn, heads = model.rpn, model.roi_heads
    assert (rpn.pre_nms_top_n(), rpn.post_nms_top_n(), rpn.nms_thresh) == (12_000, 2000, 0.7)
    assert (rpn.fg_bg_sampler.batch_size_per_image, rpn.fg_bg_sampler.positive_fraction) == (256, 0.5)
    assert (heads.fg_bg_sampler.batch_size_per_image, heads.fg_bg_sampler.positive_fraction) == (128, 0.25)
    assert ObjectDetection.presets["paper"].batch_size == 10


def test_settings_left_to_the_variant() -> None:
    settings = ObjectDetection().configure("paper", overrides={"regions": "64", "layers": "2,2,2,2"}).settings
    own, pyramid = resolved(settings, None), resolved(settings, "fpn")
    assert (own.height, own.width, own.classes, own.most_boxes) == (600, 800, 21, 20)
    assert (pyramid.height, pyramid.width, pyramid.classes, pyramid.detect) == (800, 1344, 91, 1000)
    assert own.regions == pyramid.regions == 64
    assert own.layers == pyramid.layers == (2, 2, 2, 2)


def test_biases_do_not_decay() -> None:
    task = ObjectDetection()
    built = task.build(task.configure("tiny"))
    weights, biases = built.optimizers["model"].param_groups
    assert weights["weight_decay"] == 1e-4
    assert biases["weight_decay"] == 0
    assert all(p.dim() == 1 for p in biases["params"])
    learned = [p for p in built.modules["model"].parameters() if p.requires_grad]
    assert len(weights["params"]) + len(biases["params"]) == len(learned)


@pytest.mark.parametrize(("variant", "fixed"), [(None, False), (None, True), ("fpn", False), ("fpn", True)])
def test_it_learns(variant: str | None, fixed: bool) -> None:
    """The same images again and again; it starts at about ln 21 or ln 91 for the classes and ln 2 for objects."""
    task = ObjectDetection()
    config = task.configure("tiny", variant=variant, overrides={"lr": "0.02"}, fixed_shapes=fixed)
    built = task.build(config)
    batch = built.batch(0)
    losses = [built.step(batch).item() for _ in range(12)]
    chance = math.log(91 if variant else 21) + math.log(2)
    assert losses[0] == pytest.approx(chance, abs=0.5)
    assert sum(losses[-3:]) / 3 < 0.85 * losses[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"height": "32"}, "height 32 is refused: it is 64 or more"),
        ({"classes": "1"}, "classes 1 is refused: it is 2 or more"),
        ({"regions": "3"}, "regions 3 is refused"),
        ({"mean_boxes": "0.5"}, "mean_boxes 0.5 is refused: it is 1 or more"),
        ({"layers": "3,4,6"}, r"layers \(3, 4, 6\) is refused: ResNet has four stages"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ObjectDetection().configure("tiny", overrides=overrides)
