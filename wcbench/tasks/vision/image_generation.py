"""Image generation: a Wasserstein GAN on LSUN's bedrooms (Arjovsky et al., arXiv:1701.07875).

AIBench Training DC-AI-C2 (PyTorch/Image_generation/WGAN) runs the authors' code: DCGAN's generator and critic at
64x64 pixels, batches of 64, RMSprop at 5e-5 for both, 25 epochs. A step here is one optimizer iteration, of two kinds:

- ``critic``: every weight of the critic (normalizations too) is first clamped to +-0.01; real images, then images
  generated without a graph go through it, each with a backward pass of its own.
- ``generator``: the critic's weights are frozen, so that its backward pass computes no gradients of them.

Five critic steps precede each generator step, but a hundred do in the first 25 generator steps and in every 500th.
``step_kinds`` counts them over the whole training: every batch of the 25 epochs feeds one critic step, and an epoch's
last generator step takes the critic steps that are left. By default `kind` repeats 5 + 1 from the start;
``warm_start=true`` follows the reference from its first step, where the first 100 steps are critic steps.

What differs here, and why:

- The images are sums of equally strong octaves of smooth noise, in [-1, 1]: the spectrum of natural images.
- Noise is drawn with the batch, on the CPU; the reference draws it on the device, within the step.
- Every batch is full, where an epoch's last one holds 18 images in the reference, and ``warm_start`` does not cut a
  group of critic steps at an epoch's end.
- The number of images, 3,033,042, is from memory; it only moves ``step_kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

IMAGES = 3_033_042  # of LSUN's bedrooms
EPOCHS = 25
WARM = 25  # generator steps in which the critic is brought up
BURST_EVERY = 500  # generator steps
COARSEST = 4  # side of the coarsest octave, of the generator's first image and of the critic's last one


@dataclass(frozen=True)
class GanSettings(Settings):
    """Knobs of the image generation task.

    Attributes
    ----------
    image_size : side of the square images, in pixels; a power of two.
    noise : width of the generator's input.
    generator_width, critic_width : channels next to the image; they double with every halving of the side.
    critic_steps : critic steps per generator step.
    burst : critic steps before each of the first 25 generator steps and before every 500th.
    warm_start : follow the reference's schedule from its first step, bursts included.
    lr : of RMSprop, for both.
    clamp : largest absolute value of a weight of the critic.
    """

    batch_size: int = 64
    image_size: int = 64
    noise: int = 100
    generator_width: int = 64
    critic_width: int = 64
    critic_steps: int = 5
    burst: int = 100
    warm_start: bool = False
    lr: float = 5e-5
    clamp: float = 0.01

    def validate(self) -> None:
        super().validate()
        if self.image_size < 2 * COARSEST or self.image_size & (self.image_size - 1):
            raise UsageError(
                f"image size {self.image_size} is refused: the generator doubles a side of {COARSEST} until it fits.",
                "Give a power of two from 8 up, e.g. --set image_size=64.",
            )
        if min(self.noise, self.generator_width, self.critic_width) < 1:
            raise UsageError("noise, generator_width and critic_width start at 1.")
        if not 1 <= self.critic_steps <= 31:
            raise UsageError(
                f"critic_steps {self.critic_steps} is refused: the kinds of steps must repeat within 32 steps.",
                "Give 1 to 31, e.g. --set critic_steps=5.",
            )
        if self.burst < self.critic_steps:
            raise UsageError(f"burst {self.burst} is refused: it is at least critic_steps, {self.critic_steps}.")
        if self.clamp <= 0:
            raise UsageError(f"clamp {self.clamp} is refused: it is the largest size of a weight, above 0.")


def generator(size: int, noise: int, width: int) -> nn.Sequential:
    """Noise (batch, noise, 1, 1) to images (batch, 3, size, size)."""
    channels = width * size // (2 * COARSEST)
    layers: list[nn.Module] = [nn.ConvTranspose2d(noise, channels, COARSEST, bias=False)]  # (batch, 512, 4, 4)
    while channels > width:
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        layers += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False)]  # (batch, 256, 8, 8) and on
        channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]  # (batch, 64, 32, 32)
    layers += [nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers).apply(_initialize)


def critic(size: int, width: int) -> nn.Sequential:
    """Images (batch, 3, size, size) to scores (batch, 1, 1, 1)."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    channels, side = width, size // 2  # (batch, 64, 32, 32)
    while side > COARSEST:
        layers += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False)]  # to (batch, 512, 4, 4)
        layers += [nn.BatchNorm2d(2 * channels), nn.LeakyReLU(0.2, inplace=True)]
        channels, side = 2 * channels, side // 2
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, COARSEST, bias=False)).apply(_initialize)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


class ImageGeneration(Task):
    """WGAN on images of LSUN's shape."""

    presets: ClassVar[Mapping[str, GanSettings]] = {
        "paper": GanSettings(),
        "small": GanSettings(batch_size=8, generator_width=32, critic_width=32),
        "tiny": GanSettings(batch_size=4, generator_width=8, critic_width=8),
    }

    def build(self, config: Config) -> Built:
        settings: GanSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            generate = generator(settings.image_size, settings.noise, settings.generator_width)
            judge = critic(settings.image_size, settings.critic_width)
        optimizers = {
            "generator": torch.optim.RMSprop(generate.parameters(), lr=settings.lr, foreach=True),
            "critic": torch.optim.RMSprop(judge.parameters(), lr=settings.lr, foreach=True),
        }
        kind = schedule(settings)

        def batch(index: int) -> tuple[Tensor, ...]:
            """Noise (batch, 100, 1, 1), and for a critic step images (batch, 3, 64, 64) before it."""
            rng = data.generator(config.seed, index)
            drawn = [torch.randn(settings.batch_size, settings.noise, 1, 1, generator=rng)]
            if kind(index) == "critic":
                drawn.insert(0, pictures(settings.batch_size, settings.image_size, rng))
            return tuple(tensor.to(config.device) for tensor in drawn)

        def score(images: Tensor) -> Tensor:
            with config.autocast():
                scores: Tensor = judge(images)
            return scores.float().mean()

        def critic_step(images: Tensor, noise: Tensor) -> Tensor:
            with torch.no_grad():
                for parameter in judge.parameters():
                    parameter.clamp_(-settings.clamp, settings.clamp)
            optimizers["critic"].zero_grad(set_to_none=True)
            real = score(images)
            real.backward()
            with torch.no_grad(), config.autocast():
                invented = generate(noise)
            fake = score(invented)
            (-fake).backward()
            optimizers["critic"].step()
            return real.detach() - fake.detach()

        def generator_step(noise: Tensor) -> Tensor:
            judge.requires_grad_(False)
            optimizers["generator"].zero_grad(set_to_none=True)
            with config.autocast():
                invented = generate(noise)
            loss = score(invented)
            loss.backward()
            optimizers["generator"].step()
            judge.requires_grad_(True)
            return loss.detach()

        def step(batch: tuple[Tensor, ...]) -> Tensor:
            return critic_step(*batch) if len(batch) == 2 else generator_step(*batch)

        def infer(batch: tuple[Tensor, ...]) -> Tensor:
            with config.autocast():
                scores: Tensor = judge(generate(batch[-1]))
            return scores

        modules = {"generator": generate, "critic": judge}
        return Built(step, batch, modules, settings.batch_size, optimizers, kind, step_kinds(settings), infer)


def schedule(settings: GanSettings) -> Callable[[int], str]:
    """The kind of the step of an index."""
    usual, burst = settings.critic_steps + 1, settings.burst + 1
    first = WARM * burst + (BURST_EVERY - WARM) * usual  # steps until the first burst after the warm-up
    later = burst + (BURST_EVERY - 1) * usual

    def kind(index: int) -> str:
        bursts = WARM if settings.warm_start else 0
        if settings.warm_start and index >= first:
            index, bursts = (index - first) % later, 1
        if index < bursts * burst:
            return "generator" if index % burst == burst - 1 else "critic"
        return "generator" if (index - bursts * burst) % usual == usual - 1 else "critic"

    return kind


def step_kinds(settings: GanSettings) -> dict[str, float]:
    """Share of the steps of the reference's 25 epochs by kind."""
    batches, generator_steps = -(-IMAGES // settings.batch_size), 0
    for _ in range(EPOCHS):
        left = batches
        while left > 0:
            if generator_steps < WARM or generator_steps % BURST_EVERY == 0:
                left -= settings.burst
                generator_steps += 1
            else:
                until_burst = BURST_EVERY - generator_steps % BURST_EVERY
                steps = min(until_burst, -(-left // settings.critic_steps))
                left -= steps * settings.critic_steps
                generator_steps += steps
    critic_steps = EPOCHS * batches
    total = critic_steps + generator_steps
    return {"critic": critic_steps / total, "generator": generator_steps / total}


def pictures(n: int, side: int, rng: torch.Generator) -> Tensor:
    """Images (n, 3, side, side) in [-1, 1] whose octaves are equally strong, as in natural images."""
    total, octave, octaves = torch.zeros(n, 3, side, side), COARSEST, 0
    while octave < side:
        noise = torch.randn(n, 3, octave, octave, generator=rng)
        total += F.interpolate(noise, size=(side, side), mode="bilinear", align_corners=False)
        octave, octaves = 2 * octave, octaves + 1
    return torch.clamp(total / (1.4 * octaves**0.5), -1, 1)
