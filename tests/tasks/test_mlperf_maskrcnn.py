"""Mask R-CNN: parameters, the cost of its masks by hand, and for which regions each step draws them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.tasks.base import Built
from wcbench.tasks.mlperf.maskrcnn import MlperfMaskrcnn

PUBLISHED = 134.38  # G multiplications of torchvision's Mask R-CNN on 800x800 pixels, on which it finds nothing
MASK = 4 * 14**2 * 256 * 256 * 9 + 14**2 * 256 * 256 * 2**2 + 28**2 * 256 * 91  # multiplications of one mask
HEAD = 7**2 * 256 * 1024 + 1024 * 1024 + 1024 * (91 + 4 * 91)  # of one region's box


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(preset: str = "tiny", *, fixed: bool = False, **options: Any) -> Built:
    task = MlperfMaskrcnn()
    return task.build(task.configure(preset, fixed_shapes=fixed, **options))


def test_parameters() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = list(build("paper").modules["model"].parameters())
    assert sum(p.numel() for p in parameters) == 44_401_393
    # torchvision's Faster R-CNN, four convolutions, one transposed, one to 91 classes
    assert 41_755_286 + 4 * (256 * 256 * 9 + 256) + (256 * 256 * 4 + 256) + (256 * 91 + 91) == 44_401_393
    assert sum(p.numel() for p in parameters if not p.requires_grad) == 64 * 147 + 212_992  # stem and first stage


def test_inference_is_what_torchvision_publishes_and_100_masks() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = build("paper", fixed=True, batch_size=1, overrides={"height": "800", "width": "800"})
        built.modules["model"].eval()
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            built.infer(batch)  # type: ignore[misc]
    assert round(counter.get_total_flops() / 2e9 - 100 * MASK / 1e9, 2) == PUBLISHED


def test_the_step_of_the_paper() -> None:
    """Forward and backward at 800x1344 pixels: 512 regions, and masks for a quarter of them.

    Nothing below the second stage has a gradient, all else costs twice its forward pass, save the input's gradient
    where the second stage and the pyramid read the frozen first stage.
    """
    forward, stem_and_first, reading = forward_of_the_step()
    expected = 3 * forward - 2 * stem_and_first - reading
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = build("paper", fixed=True, batch_size=1)
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.step(batch)
    assert counter.get_total_flops() == 2 * expected


def forward_of_the_step() -> tuple[int, int, int]:
    """Multiplications of the step's forward pass, of its frozen part, and of the layers that read the frozen part."""
    height, width = 200, 336
    frozen = 400 * 672 * 64 * 147 + height * width * (64 * 64 * 9 * 3 + 64 * 256 * 4 + 64 * 64 + 2 * 256 * 64)
    reading = height * width * (256 * 128 + 256 * 256) + height // 2 * width // 2 * 256 * 512
    total, inputs = frozen, 256
    maps = [(height, width)]
    for inner, blocks in ((128, 4), (256, 6), (512, 3)):
        total += height * width * inputs * inner
        height, width = math.ceil(height / 2), math.ceil(width / 2)
        places = height * width
        total += places * (inputs * 4 * inner + (blocks - 1) * 4 * inner * inner)
        total += places * blocks * (9 * inner * inner + 4 * inner * inner)
        maps.append((height, width))
        inputs = 4 * inner
    for level, (height, width) in enumerate(maps):
        total += height * width * (256 * 2**level * 256 + 256 * 256 * 9)  # the pyramid
    maps.append((13, 21))  # pooled from the last level
    total += sum(height * width for height, width in maps) * (256 * 256 * 9 + 256 * 3 * 5)  # proposals
    return total + 512 * HEAD + 128 * MASK, frozen, reading


@pytest.mark.parametrize("fixed", [False, True])
def test_which_regions_get_masks(fixed: bool) -> None:
    """The real step draws masks for the positive regions, that of fixed shapes for a quarter of all regions."""
    built = build(fixed=fixed, batch_size=3)
    model: Any = built.modules["model"]
    seen: list[int] = []
    positive: list[int] = []
    model.roi_heads.mask_head.register_forward_hook(lambda module, args, out: seen.append(len(out)))
    select = model.roi_heads.select_training_samples

    def noted(*args: Any) -> Any:
        chosen = select(*args)
        positive.append(sum(int((labels > 0).sum()) for labels in chosen[2]))
        return chosen

    model.roi_heads.select_training_samples = noted
    built.step(built.batch(0))
    assert seen == ([3 * 16 // 4] if fixed else positive)
    assert 0 < seen[0] <= 12


@pytest.mark.parametrize("fixed", [False, True])
def test_it_learns(fixed: bool) -> None:
    built = build(fixed=fixed, overrides={"lr": "0.02"})
    batch = built.batch(0)
    losses = [built.step(batch).item() for _ in range(12)]
    assert losses[0] == pytest.approx(math.log(91) + 2 * math.log(2), abs=0.7)  # classes, objects, mask pixels
    assert sum(losses[-3:]) / 3 < 0.9 * losses[0]


def test_targets_have_masks() -> None:
    _, targets = build().batch(0)
    assert all(target["masks"].shape == (len(target["boxes"]), 64, 64) for target in targets)
    batch: dict[str, Tensor] = build(fixed=True).batch(0)
    assert batch["masks"].shape == (2, 8, 64, 64)
