"""ResNet-50: sizes by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from wcbench.errors import UsageError
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.vision.image_classification import ImageClassification

ROW = TASKS.row("image-classification")


def multiplications() -> int:
    """Multiply-accumulates of one 224x224 image, convolution by convolution: output pixels x outputs x inputs."""
    total = 112**2 * 64 * (3 * 7 * 7)  # the stem
    inputs, side = 64, 56  # after max pooling
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            total += side**2 * inputs * width  # 1x1 before the stride: v1.5
            side //= stride
            total += side**2 * width * width * 9  # 3x3, strided
            total += side**2 * width * 4 * width  # 1x1
            if block == 0:
                total += side**2 * inputs * 4 * width  # 1x1 on the shortcut, strided
            inputs = 4 * width
    return total + 2048 * 1000


def test_flops_by_hand() -> None:
    assert isinstance(ROW, TaskRow)
    assert 2 * multiplications() == ROW.forward_flops == 8_178_368_512


def test_the_stride_is_in_the_3x3() -> None:
    task = ImageClassification()
    model: Any = task.build(task.configure("tiny")).modules["model"]
    assert model.layer2[0].conv1.stride == (1, 1)
    assert model.layer2[0].conv2.stride == (2, 2)


def test_images_are_normalized_noise() -> None:
    task = ImageClassification()
    images, labels = task.build(task.configure("tiny", batch_size=64)).batch(0)
    assert images.shape == (64, 3, 40, 40)
    assert images.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=0.02)
    assert images.std(dim=(0, 2, 3)).tolist() == pytest.approx([1, 1, 1], abs=0.02)
    assert labels.dtype == torch.int64
    assert 0 <= int(labels.min()) <= int(labels.max()) < 10


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "31"}, "image size 31 is refused: ResNet halves an image five times"),
        ({"image_size": "32", "batch_size": "1"}, "one value per channel, and batch normalization needs two"),
        ({"layers": "3,4,6"}, r"layers \(3, 4, 6\) is refused: ResNet has four stages"),
        ({"layers": "3,4,6,0"}, "at least one block"),
        ({"classes": "0"}, "0 classes are refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ImageClassification().configure("tiny", overrides=overrides)


def test_the_smallest_image_works() -> None:
    task = ImageClassification()
    built = task.build(task.configure("tiny", batch_size=2, overrides={"image_size": "32"}))
    assert torch.isfinite(built.step(built.batch(0)))


def test_inference_gives_a_score_for_each_class() -> None:
    task = ImageClassification()
    built = task.build(task.configure("tiny", batch_size=3))
    assert built.infer is not None
    assert built.infer(built.batch(0)).shape == (3, 10)
