"""RGB-D ResNet-50: sizes by hand, the first convolution, smooth depth."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.vision.face_recognition_3d import FaceRecognition3D


def built(preset: str = "tiny", **overrides: str) -> Built:
    task = FaceRecognition3D()
    return task.build(task.configure(preset, overrides=overrides))


def convolutions() -> list[tuple[int, int, int]]:
    """(output side, outputs, inputs x kernel) of every convolution of ResNet-50 on four channels of 224x224."""
    found = [(112, 64, 4 * 49)]
    inputs, side = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            before = side
            if block == 0 and stage > 0:
                side //= 2
            found += [(before, width, inputs), (side, width, 9 * width), (side, 4 * width, width)]
            if block == 0:
                found.append((side, 4 * width, inputs))
            inputs = 4 * width
    return found


def test_parameters_and_flops_by_hand() -> None:
    flops = 2 * (sum(side**2 * outputs * inner for side, outputs, inner in convolutions()) + 2048 * 1200)
    parameters = sum(outputs * inner + 2 * outputs for _, outputs, inner in convolutions()) + 2049 * 1200
    with FakeTensorMode():
        task = built("paper")
        with FlopCounterMode(display=False) as counter:
            assert task.infer is not None
            assert task.infer(task.batch(0)).shape == (16, 1200)
    assert sum(p.numel() for p in task.modules["model"].parameters()) == parameters == 25_969_968
    assert counter.get_total_flops() / 16 == flops == 8_257_863_680


def test_the_first_convolution_takes_four_channels() -> None:
    model: Any = built().modules["model"]
    weight = model.conv1.weight
    assert weight.shape == (64, 4, 7, 7)
    assert float(weight.detach().std()) == pytest.approx(math.sqrt(2 / (64 * 49)), rel=0.05)  # by the outputs
    assert model.conv1.bias is None


def test_depth_is_smooth_and_colours_are_not() -> None:
    faces, people = built(batch_size="16", image_size="224").batch(0)
    assert faces.shape == (16, 4, 224, 224)
    assert people.dtype == torch.int64
    assert 0 <= int(people.min()) <= int(people.max()) < 10
    assert faces.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0] * 4, abs=0.2)
    assert faces.std(dim=(0, 2, 3)).tolist() == pytest.approx([1] * 4, abs=0.2)

    def neighbours(images: torch.Tensor) -> float:
        return float(torch.corrcoef(torch.stack((images[..., 1:].flatten(), images[..., :-1].flatten())))[0, 1])

    assert neighbours(faces[:, 3]) > 0.99
    assert neighbours(faces[:, :3]) < 0.85


def test_faces_of_a_person_are_alike() -> None:
    faces, people = built(batch_size="16").batch(0)
    depth = faces[:, 3].flatten(1)
    for first in range(16):
        for second in range(first):
            alike = torch.equal(depth[first], depth[second])
            assert alike == bool(people[first] == people[second])


def test_it_learns() -> None:
    task = built(batch_size="4")
    batch = task.batch(0)
    losses = [float(task.step(batch)) for _ in range(10)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "32"}, "image size 32 is refused: ResNet halves an image five times"),
        ({"layers": "3,4,6"}, r"layers \(3, 4, 6\) is refused: ResNet has four stages"),
        ({"layers": "3,4,6,0"}, "at least one block"),
        ({"classes": "0"}, "0 classes are refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FaceRecognition3D().configure("tiny", overrides=overrides)


def test_one_smallest_image_works() -> None:
    task = built(image_size="33", batch_size="1")
    assert torch.isfinite(task.step(task.batch(0)))
