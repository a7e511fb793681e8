"""CycleGAN: sizes and the whole step by hand, the pool, the drawn domains."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.vision.image_to_image import ImagePool, ImageToImage


def built(preset: str = "tiny", **overrides: str) -> Built:
    task = ImageToImage()
    return task.build(task.configure(preset, overrides=overrides))


def generator_layers(side: int, width: int, blocks: int) -> list[int]:
    """Multiply-accumulates of one image by layer: output pixels x outputs x inputs."""
    outside, half, quarter = side**2, (side // 2) ** 2, (side // 4) ** 2
    down = [outside * width * 3 * 49, half * 2 * width * width * 9, quarter * 4 * width * 2 * width * 9]
    up = [quarter * 4 * width * 2 * width * 9, half * 2 * width * width * 9, outside * width * 3 * 49]
    return down + [quarter * (4 * width) ** 2 * 9] * (2 * blocks) + up


def judge_layers(side: int, width: int) -> list[int]:
    """Three halvings, then two convolutions of stride 1 that each take a pixel off the side."""
    sides = [side // 2, side // 4, side // 8, side // 8 - 1, side // 8 - 2]
    channels = [3, width, 2 * width, 4 * width, 8 * width, 1]
    pairs = zip(sides, channels[:-1], channels[1:], strict=True)
    return [pixels**2 * inputs * outputs * 16 for pixels, inputs, outputs in pairs]


def step_flops(side: int, width: int, blocks: int) -> int:
    """Six passes of generators, four of which start from data and need no gradient there; the judges frozen for two
    passes, then taught in four from data."""
    generator, judge = generator_layers(side, width, blocks), judge_layers(side, width)
    generators = 6 * 3 * sum(generator) - 4 * generator[0]
    judges = 2 * 2 * sum(judge) + 4 * (3 * sum(judge) - judge[0])
    return 2 * (generators + judges)


def test_parameters_and_flops_by_hand() -> None:
    w = 64
    ends = (3 * w * 49 + w) + (w * 3 * 49 + 3)
    stairs = (w * 2 * w + 2 * w * 4 * w) * 9 * 2 + (2 * w + 4 * w) + (2 * w + w)
    generator = ends + stairs + 18 * ((4 * w) ** 2 * 9 + 4 * w)
    judge = 16 * (3 * w + w * 2 * w + 2 * w * 4 * w + 4 * w * 8 * w + 8 * w) + (w + 2 * w + 4 * w + 8 * w + 1)
    with FakeTensorMode():
        task = built("paper")
        with FlopCounterMode(display=False) as counter:
            assert task.infer is not None
            scores = task.infer(task.batch(0))
    counted = [sum(p.numel() for p in module.parameters()) for module in task.modules.values()]
    assert counted == [generator, generator, judge, judge] == [11_378_179, 11_378_179, 2_764_737, 2_764_737]
    assert sum(counted) == 28_285_832
    assert scores.shape == (1, 1, 30, 30)  # 70x70 pixels each
    forward = 2 * (sum(generator_layers(256, w, 9)) + sum(judge_layers(256, w)))
    assert counter.get_total_flops() == forward == 105_396_633_600


def test_the_whole_steps_work_by_hand() -> None:
    task = built()
    with FlopCounterMode(display=False) as counter:
        task.step(task.batch(0))
    assert counter.get_total_flops() == step_flops(side=32, width=4, blocks=2)
    assert step_flops(side=256, width=64, blocks=9) == pytest.approx(1.879e12, rel=1e-3)


@pytest.mark.parametrize(("identity", "passes"), [("0.5", 3), ("0", 2)])
def test_how_often_each_network_is_called(identity: str, passes: int) -> None:
    task = built(identity=identity)
    calls = dict.fromkeys(task.modules, 0)

    def count(name: str) -> Any:
        def hook(*_: Any) -> None:
            calls[name] += 1

        return hook

    for name, module in task.modules.items():
        module.register_forward_hook(count(name))
    task.step(task.batch(0))
    assert calls == {"to_labels": passes, "to_scenes": passes, "labels_judge": 3, "scenes_judge": 3}


def test_the_pool_gives_half_of_the_images_back_late() -> None:
    pool = ImagePool(50, random.Random(0))
    shown = [float(pool.swap(torch.full((1, 3, 2, 2), float(index)))[0, 0, 0, 0]) for index in range(2000)]
    assert shown[:50] == [float(index) for index in range(50)]  # it fills first
    late = [index - past for index, past in enumerate(shown) if past != index]
    assert min(late) > 0
    assert len(late) / 1950 == pytest.approx(0.5, abs=0.04)
    assert sum(late) / len(late) == pytest.approx(100, rel=0.15)  # 50 places, each refilled by 1 image in 100
    assert len(set(shown[50:])) == 1950  # what is given out leaves the pool


def test_the_pool_works_image_by_image_and_without_a_graph() -> None:
    pool = ImagePool(2, random.Random(0))
    images = torch.arange(5.0).view(5, 1, 1, 1).requires_grad_()
    shown = pool.swap(images)
    assert shown.shape == images.shape
    assert not shown.requires_grad
    assert len(pool.images) == 2
    assert torch.equal(ImagePool(0, random.Random(0)).swap(images), images)


def test_the_judge_sees_older_images() -> None:
    """In each step the first pass of a generator makes the image, and the last image its judge sees is the pool's."""
    task = built(pool="1")
    made: list[list[Tensor]] = []
    seen: list[Tensor] = []
    task.modules["to_labels"].register_forward_hook(lambda _module, _inputs, image: made[-1].append(image.detach()))
    task.modules["labels_judge"].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].detach()))
    ages = []
    for index in range(12):
        made.append([])
        task.step(task.batch(index))
        first = [images[0] for images in made]
        ages.append(next(age for age in range(index + 1) if torch.equal(first[index - age], seen[-1])))
    assert ages[0] == 0
    assert 0 in ages[1:]
    assert max(ages) > 0


def test_equal_seeds_are_equal_beyond_the_filling_of_the_pool() -> None:
    first, second = built(pool="1"), built(pool="1")
    random.seed(1)
    losses = [float(first.step(first.batch(index))) for index in range(5)]
    random.seed(2)
    assert [float(second.step(second.batch(index))) for index in range(5)] == losses


def test_label_maps_are_flat_and_scenes_are_not() -> None:
    scenes, labels = built(image_size="256", batch_size="2").batch(0)
    assert scenes.shape == labels.shape == (2, 3, 256, 256)
    for image in labels:
        assert torch.unique(image.flatten(1), dim=1).shape[1] <= 19
    same = (labels[..., 1:] == labels[..., :-1]).all(dim=1)
    assert 0.93 < float(same.float().mean()) < 0.99  # blobs
    assert not torch.equal(scenes[..., 1:], scenes[..., :-1])
    for images in (scenes, labels):
        assert float(images.abs().max()) <= 1
        neighbours = torch.stack((images[..., 1:].flatten(), images[..., :-1].flatten()))
        assert float(torch.corrcoef(neighbours)[0, 1]) > 0.8


def test_the_generators_learn() -> None:
    task = built()
    batch = task.batch(0)
    losses = [float(task.step(batch)) for _ in range(15)]
    assert sum(losses[-3:]) / 3 < 0.93 * losses[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "30"}, "image size 30 is refused: the generators halve a side twice"),
        ({"image_size": "20"}, "image size 20 is refused"),
        ({"width": "0"}, "blocks and width start at 1"),
        ({"pool": "-1"}, "pool, cycle and identity at 0"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ImageToImage().configure("tiny", overrides=overrides)


def test_the_smallest_image_works() -> None:
    task = built(image_size="24")
    assert torch.isfinite(task.step(task.batch(0)))
