"""RetinaNet: sizes by hand, and the step of fixed shapes against torchvision's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.mlperf import retinanet
from wcbench.tasks.mlperf.retinanet import MlperfRetinanet

LEVELS = (100, 50, 25, 13, 7)  # places a side on 800x800 pixels


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(preset: str = "tiny", *, fixed: bool = False, **options: Any) -> Built:
    task = MlperfRetinanet()
    return task.build(task.configure(preset, fixed_shapes=fixed, **options))


def layers() -> list[tuple[int, int, int, bool]]:
    """Each convolution of the paper's size: output places, inputs times kernel, outputs, whether it has a bias."""
    found = [(400**2, 3 * 49, 64, False)]
    inputs, side = 64, 200
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outputs = 128 * 2**stage, 256 * 2**stage
        for block in range(blocks):
            after = side // 2 if block == 0 and stage else side
            found.append((side**2, inputs, inner, False))
            found.append((after**2, inner // 32 * 9, inner, False))  # 32 groups
            found.append((after**2, inner, outputs, False))
            if block == 0:
                found.append((after**2, inputs, outputs, False))
            inputs, side = outputs, after
    for level, channels in enumerate((512, 1024, 2048)):
        found.append((LEVELS[level] ** 2, channels, 256, True))
        found.append((LEVELS[level] ** 2, 256 * 9, 256, True))
    found += [(LEVELS[level] ** 2, 256 * 9, 256, True) for level in (3, 4)]
    return found


HEADS = [(256 * 9, 256)] * 8 + [(256 * 9, 9 * 264), (256 * 9, 9 * 4)]  # of one place


def test_parameters_by_hand() -> None:
    total = sum(inputs * outputs + bias * outputs for _, inputs, outputs, bias in layers())
    total += sum(inputs * outputs + outputs for inputs, outputs in HEADS)
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = list(build("paper").modules["model"].parameters())
    assert sum(p.numel() for p in parameters) == total == 37_060_652
    assert round(total, -6) == 37_000_000  # as the reference says


def test_flops_by_hand() -> None:
    total = sum(places * inputs * outputs for places, inputs, outputs, _ in layers())
    total += sum(side**2 for side in LEVELS) * sum(inputs * outputs for inputs, outputs in HEADS)
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = build("paper", fixed=True, batch_size=1)
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            boxes, scores = built.infer(batch)  # type: ignore[misc]
    assert counter.get_total_flops() == 2 * total == 402_416_789_504
    assert (boxes.shape, scores.shape) == ((1, 300, 4), (1, 300))


def test_anchors() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = build("paper", fixed=True, batch_size=1)
        _, heads, anchors = retinanet.outputs(built.modules["model"], built.batch(0)["images"])
    assert heads["cls_logits"].shape == (1, 120_087, 264)
    assert anchors[0].shape == (9 * sum(side**2 for side in LEVELS), 4) == (120_087, 4)
    model: Any = built.modules["model"]
    assert model.anchor_generator.sizes[0] == (32, 40, 50)
    assert model.anchor_generator.sizes[4] == (512, 645, 812)


def test_losses_and_gradients_are_torchvisions() -> None:
    same: dict[str, Any] = {"overrides": {"most_boxes": "6", "fixed_boxes": "6"}, "seed": 3}
    real, fixed = build(**same), build(fixed=True, **same)
    expected = real.modules["model"](*real.batch(0))
    losses = retinanet.losses(fixed.modules["model"], fixed.batch(0))
    assert losses.keys() == expected.keys()
    for name, loss in losses.items():
        assert loss.item() == pytest.approx(expected[name].item(), rel=1e-5), name
    for named in (losses, expected):
        torch.stack([*named.values()]).sum().backward()
    compared = 0
    for (name, ours), theirs in zip(
        fixed.modules["model"].named_parameters(), real.modules["model"].parameters(), strict=True
    ):
        assert (ours.grad is None) == (theirs.grad is None) == (not theirs.requires_grad), name
        if ours.grad is not None and theirs.grad is not None:
            assert torch.allclose(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5), name
            compared += 1
    assert compared > 40


def test_both_steps_are_the_same_matrix_work() -> None:
    flops = []
    for fixed in (False, True):
        built = build(fixed=fixed)
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.step(batch)
        flops.append(counter.get_total_flops())
    assert flops[0] == flops[1] > 0


@pytest.mark.parametrize("fixed", [False, True])
def test_inference_finds_the_best_anchors(fixed: bool) -> None:
    """A score of one class at one anchor is far above all others: its box comes first."""
    built = build(fixed=fixed, batch_size=1)
    model: Any = built.modules["model"].eval()
    head = model.head.classification_head
    head.register_forward_hook(
        lambda module, args, out: out.clone().index_put_(
            (torch.tensor(0), torch.tensor(5), torch.tensor(2)), torch.tensor(9.0)
        )
    )
    with torch.no_grad():
        boxes, scores = built.infer(built.batch(0))[:2]  # type: ignore[misc]
    boxes, scores = (boxes[0], scores[0]) if fixed else (boxes, scores)
    assert float(scores[0]) == pytest.approx(1 / (1 + math.exp(-9)))
    width, height = (boxes[0, 2:] - boxes[0, :2]).tolist()
    assert 0 < width <= 8
    assert 0 < height <= 8


@pytest.mark.parametrize("fixed", [False, True])
def test_it_learns(fixed: bool) -> None:
    built = build(fixed=fixed)
    batch = built.batch(0)
    losses = [built.step(batch).item() for _ in range(15)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"height": "32"}, "height 32 is refused: it is 64 or more"),
        ({"layers": "1"}, r"layers \(1,\) is refused"),
        ({"stage_width": "24"}, "stage_width 24 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MlperfRetinanet().configure("tiny", overrides=overrides)
