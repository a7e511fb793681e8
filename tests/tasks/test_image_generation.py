"""WGAN: sizes by hand, the work of both kinds of steps, the clamp, the schedule against the reference's loop."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.vision.image_generation import EPOCHS, IMAGES, GanSettings, ImageGeneration, schedule, step_kinds

# Multiply-accumulates of one image by layer. A transposed convolution does kernel x outputs for every INPUT pixel.
GENERATOR = [100 * 512 * 16, 4**2 * 512 * 256 * 16, 8**2 * 256 * 128 * 16, 16**2 * 128 * 64 * 16, 32**2 * 64 * 3 * 16]
CRITIC = [32**2 * 3 * 64 * 16, 16**2 * 64 * 128 * 16, 8**2 * 128 * 256 * 16, 4**2 * 256 * 512 * 16, 512 * 16]


def built(preset: str = "tiny", **overrides: str) -> Built:
    task = ImageGeneration()
    return task.build(task.configure(preset, overrides=overrides))


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def equal(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@dataclasses.dataclass
class Paper:
    """The paper's scale on fake tensors: parameters by module, FLOPs of a sample."""

    parameters: dict[str, int]
    infer: float
    steps: dict[str, float]


@pytest.fixture(scope="module")
def paper() -> Paper:
    def flops(function: Callable[[Any], Any] | None, batch: Any) -> float:
        assert function is not None
        with FlopCounterMode(display=False) as counter:
            function(batch)
        return float(counter.get_total_flops() / 64)

    with FakeTensorMode():
        task = built("paper")
        parameters = {name: sum(p.numel() for p in module.parameters()) for name, module in task.modules.items()}
        steps = {task.kind(index): flops(task.step, task.batch(index)) for index in (0, 5)}
        return Paper(parameters, flops(task.infer, task.batch(0)), steps)


def test_parameters_by_hand(paper: Paper) -> None:
    generator = 16 * (100 * 512 + 512 * 256 + 256 * 128 + 128 * 64 + 64 * 3) + 2 * (512 + 256 + 128 + 64)
    critic = 16 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512 + 512) + 2 * (128 + 256 + 512)
    assert (
        paper.parameters == {"generator": generator, "critic": critic} == {"generator": 3_576_704, "critic": 2_765_568}
    )
    assert generator + critic == 6_342_272


def test_flops_by_hand(paper: Paper) -> None:
    assert paper.infer == 2 * sum(GENERATOR + CRITIC) == 416_890_880


def test_a_critic_step_generates_without_a_graph_and_goes_backward_twice(paper: Paper) -> None:
    """Backward does a layer's work twice, for inputs and weights; the first layer's inputs need no gradient."""
    expected = sum(GENERATOR) + 2 * (3 * sum(CRITIC) - CRITIC[0])
    assert paper.steps["critic"] == 2 * expected == 1_442_480_128


def test_a_generator_step_computes_no_gradients_of_the_critics_weights(paper: Paper) -> None:
    expected = 3 * sum(GENERATOR) - GENERATOR[0] + 2 * sum(CRITIC)
    assert paper.steps["generator"] == 2 * expected == 1_041_399_808


def test_the_critic_is_clamped_before_each_of_its_steps() -> None:
    """Its normalizations start around 1: they too must be within the clamp whenever images go through."""
    task = built()
    critic = task.modules["critic"]
    seen: list[float] = []

    def largest(*_: Any) -> float:
        return max(float(parameter.detach().abs().max()) for parameter in critic.parameters())

    assert largest() > 0.5
    critic.register_forward_pre_hook(lambda *_: seen.append(largest()))
    for index in range(3):
        task.step(task.batch(index))
    assert len(seen) == 6  # real and generated images apart
    assert max(seen) == pytest.approx(0.01)


def test_a_step_moves_the_weights_of_its_kind_only() -> None:
    task = built()
    generator, critic = task.modules["generator"], task.modules["critic"]
    before = weights(generator)
    task.step(task.batch(0))
    assert equal(weights(generator), before)
    assert all(p.grad is None for p in generator.parameters())
    between = weights(critic)
    task.step(task.batch(5))
    assert equal(weights(critic), between)
    assert not equal(weights(generator), before)
    assert all(p.requires_grad for p in critic.parameters())


def test_a_batch_fits_the_step_of_its_index() -> None:
    task = built(warm_start="true")
    for index in (0, 99, 100, 101, 201):
        critic = index not in (100, 201)
        assert task.kind(index) == ("critic" if critic else "generator")
        shapes = [tuple(tensor.shape) for tensor in task.batch(index)]
        assert shapes == [(4, 3, 64, 64)] * critic + [(4, 100, 1, 1)]


def reference(batches: int, epochs: int) -> Iterator[str]:
    """The loop as the paper's code has it: batches are used up, generator steps are counted."""
    done = 0
    for _ in range(epochs):
        left = batches
        while left:
            for _ in range(min(left, 100 if done < 25 or done % 500 == 0 else 5)):
                yield "critic"
                left -= 1
            yield "generator"
            done += 1


def test_the_schedule_is_the_references() -> None:
    steps = 10_000  # two bursts after the warm-up
    expected = list(itertools.islice(reference(batches=steps, epochs=1), steps))
    kind = schedule(GanSettings(warm_start=True))
    assert [kind(index) for index in range(steps)] == expected
    steady = schedule(GanSettings())
    assert [steady(index) for index in range(64)] == ((["critic"] * 5 + ["generator"]) * 11)[:64]


@pytest.mark.parametrize("batch_size", [64, 500])
def test_shares_of_the_kinds_are_those_of_the_whole_training(batch_size: int) -> None:
    shares = step_kinds(GanSettings(batch_size=batch_size))
    kinds = list(reference(-(-IMAGES // batch_size), EPOCHS))
    assert shares["critic"] == pytest.approx(kinds.count("critic") / len(kinds), rel=1e-12)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["critic"] == pytest.approx(0.8388, abs=2e-3)  # 5 in 6 without the bursts: 0.8333


def test_images_have_the_spectrum_of_natural_ones() -> None:
    images, _ = built("tiny", image_size="64", batch_size="64").batch(0)
    assert float(images.abs().max()) <= 1
    assert float(images.std()) == pytest.approx(0.5, abs=0.05)
    neighbours = torch.stack((images[..., 1:].flatten(), images[..., :-1].flatten()))
    assert float(torch.corrcoef(neighbours)[0, 1]) > 0.9
    energy = torch.fft.fft2(images).abs().square().mean(dim=(0, 1))
    waves = torch.fft.fftfreq(64) * 64
    radius = (waves[:, None] ** 2 + waves**2).sqrt()
    octaves = [float(energy[(radius >= low) & (radius < 2 * low)].sum()) for low in (1, 2, 4, 8)]
    assert max(octaves) < 3 * min(octaves)


def test_the_critic_learns_to_tell_images_apart() -> None:
    """Its loss, real minus generated, starts at 0 and falls."""
    task = built(lr="5e-4")
    losses = [float(task.step(task.batch(6 * index))) for index in range(40)]
    assert abs(losses[0]) < 0.001
    assert sum(losses[-10:]) / 10 < -0.03


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"image_size": "48"}, "image size 48 is refused: the generator doubles a side of 4 until it fits"),
        ({"image_size": "4"}, "image size 4 is refused"),
        ({"noise": "0"}, "noise, generator_width and critic_width start at 1"),
        ({"critic_steps": "32"}, "critic_steps 32 is refused: the kinds of steps must repeat"),
        ({"burst": "4"}, "burst 4 is refused: it is at least critic_steps, 5"),
        ({"clamp": "0"}, r"clamp 0\.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ImageGeneration().configure("tiny", overrides=overrides)


def test_the_smallest_image_works() -> None:
    task = built(image_size="8", batch_size="1")
    assert torch.isfinite(task.step(task.batch(0)))
    assert task.batch(0)[0].shape == (1, 3, 8, 8)
