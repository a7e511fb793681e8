"""Video prediction: a recurrent network that moves the pixels of the last frame (Finn et al., arXiv:1605.07157).

AIBench Training DC-AI-C11 names motion-focused prediction on robot pushing; its TensorFlow code is the authors' model
CDNA: seven convolutional LSTMs with 5x5 filters see a frame, the arm's pose and its command, and give ten 5x5 kernels
that blur and shift the frame, one generated image, and eleven masks that blend them into the next frame. Clips of 10
frames of 64x64, 2 of them context, in batches of 32; Adam at rate 1e-3, 100,000 steps; mean squared error of the
frames plus 1e-4 times that of the poses. After the context a clip sees either the true frame or the network's own:
how many of a batch see true ones is counted on the host and falls with the step, as k / (k + exp(step / k)), k = 900.
As in that code the tenth moved frame is made and finds no mask (previous frame, generated image and nine moved ones
have the eleven), and what goes into the sigmoid and the softmax passes a ReLU first.

What differs here, and why:

- AIBench's PyTorch code runs another model, DDPAE on Moving MNIST. Its layer sizes were not found, so it is left out.
- Every convolution has a bias: the authors' code leaves out two before a normalization, 96 of 8,312,063 parameters.
- The per-sample kernels are applied by one convolution with a group for each colour of each sample. The authors' code
  takes the colours as the batch and the samples as the groups: the same products, a third of the groups.
- Which clips see a true frame is drawn with the batch; a mask mixes where the authors' code gathers and scatters rows.
- The clips are drawn: squares bounce on a smooth background; one is the arm, the command its velocity in five numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

KERNEL = 5  # side of the predicted kernels
POSE = 5  # numbers in the arm's pose, and in its command
BLOBS = 3  # moving squares beside the arm
TINY = 1e-12  # keeps a kernel's sum above zero

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class VideoSettings(Settings):
    """Knobs of the video prediction task.

    Attributes
    ----------
    side : of the square frames, in pixels; a multiple of 8.
    frames : in a clip, context included; all but the last are seen, all but the first are predicted.
    context : true frames that are always seen; predictions count in the loss from the one after them on.
    width : channels of the first convolution; the LSTMs have 1, 1, 2, 2, 4, 2, 1 times as many.
    masks : kernels predicted for a frame; there is one mask more.
    sampling : k of the schedule by which true frames give way to predicted ones.
    lr : of Adam.
    """

    batch_size: int = 32
    side: int = 64
    frames: int = 10
    context: int = 2
    width: int = 32
    masks: int = 10
    sampling: float = 900.0
    lr: float = 1e-3

    def validate(self) -> None:
        super().validate()
        if self.side < 8 or self.side % 8:
            raise UsageError(f"side {self.side} is refused: a frame is halved three times.", "Give a multiple of 8.")
        if not 1 <= self.context < self.frames:
            raise UsageError(
                f"{self.frames} frames with {self.context} of context are refused: one is given, one predicted.",
                "Give more frames than context, e.g. --set frames=6 --set context=2.",
            )
        for name in ("width", "masks", "sampling"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it must be above zero.")


class ConvLSTM(nn.Module):
    """A step of an LSTM whose gates are one 5x5 convolution over input and hidden state."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.gates = nn.Conv2d(inputs + channels, 4 * channels, 5, padding=2)

    def forward(self, x: Tensor, state: State | None) -> State:
        if state is None:
            zeros = x.new_zeros(x.shape[0], self.channels, *x.shape[2:])
            state = zeros, zeros
        hidden, cell = state
        entry, candidate, forget, output = self.gates(torch.cat((x, hidden), dim=1)).chunk(4, dim=1)
        cell = cell * (forget + 1).sigmoid() + entry.sigmoid() * candidate.tanh()
        return cell.tanh() * output.sigmoid(), cell


class Cdna(nn.Module):
    """Frames and commands to the next frames; channels below are multiples of ``width``, sizes parts of ``side``."""

    def __init__(self, settings: VideoSettings) -> None:
        super().__init__()
        w = settings.width
        self.context = settings.context
        self.first = nn.Conv2d(3, w, 5, stride=2, padding=2)
        channels = (w, w, 2 * w, 2 * w, 4 * w, 2 * w, w)
        inputs = (w, w, w, 2 * w, 2 * w, 4 * w, 3 * w)
        self.lstms = nn.ModuleList(ConvLSTM(i, c) for i, c in zip(inputs, channels, strict=True))
        self.norms = nn.ModuleList(nn.GroupNorm(1, c) for c in (w, *channels, 2 * w))  # over channels and pixels
        self.down = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for c in (w, 2 * w))  # stride 2, padding 1
        self.join = nn.Conv2d(2 * w + 2 * POSE, 2 * w, 1)
        self.up = nn.ModuleList(nn.ConvTranspose2d(c, c, 3, 2, 1, output_padding=1) for c in (4 * w, 3 * w, 2 * w))
        self.generate = nn.ConvTranspose2d(2 * w, 3, 1)
        self.mask = nn.ConvTranspose2d(2 * w, settings.masks + 1, 1)
        self.kernels = nn.Linear(4 * w * (settings.side // 8) ** 2, settings.masks * KERNEL**2)
        self.pose = nn.Linear(2 * POSE, POSE)

    def forward(self, images: Tensor, actions: Tensor, poses: Tensor, true: Tensor) -> list[list[Tensor]]:
        """The frames and the poses after each but the last of ``images`` (batch, frames, 3, side, side)."""
        states: list[State | None] = [None] * len(self.lstms)
        predicted: list[Tensor] = []
        reached = [poses[:, 0]]
        for t in range(images.shape[1] - 1):
            frame = images[:, t]
            if t >= self.context:
                frame = torch.where(true[t - self.context][:, None, None, None], frame, predicted[-1])
            situation = torch.cat((actions[:, t], reached[-1]), dim=1)  # (batch, 10)
            predicted.append(self._next(frame, situation, states))
            reached.append(self.pose(situation))
        return [predicted, reached[1:]]

    def _recur(self, layer: int, x: Tensor, states: list[State | None]) -> Tensor:
        states[layer] = state = self.lstms[layer](x, states[layer])
        normalized: Tensor = self.norms[layer + 1](state[0])
        return normalized

    def _next(self, frame: Tensor, situation: Tensor, states: list[State | None]) -> Tensor:
        early = self.norms[0](self.first(frame)).relu()  # (batch, w, side / 2, side / 2)
        hidden = self._recur(1, self._recur(0, early, states), states)
        middle = self.down[0](hidden).relu()  # (batch, w, side / 4, side / 4)
        hidden = self._recur(3, self._recur(2, middle, states), states)
        hidden = self.down[1](hidden).relu()  # (batch, 2w, side / 8, side / 8)
        everywhere = situation[:, :, None, None].expand(-1, -1, *hidden.shape[2:])
        deepest = self._recur(4, self.join(torch.cat((hidden, everywhere), dim=1)).relu(), states)
        hidden = self._recur(5, self.up[0](deepest).relu(), states)  # (batch, 2w, side / 4, side / 4)
        hidden = self.up[1](torch.cat((hidden, middle), dim=1)).relu()  # (batch, 3w, side / 2, side / 2)
        hidden = self._recur(6, hidden, states)
        hidden = self.norms[8](self.up[2](torch.cat((hidden, early), dim=1))).relu()  # (batch, 2w, side, side)

        masks = self.mask(hidden).relu().softmax(dim=1).split(1, dim=1)
        layers = [self.generate(hidden).relu().sigmoid(), *self._moved(frame, deepest)]
        blend: Tensor = masks[0] * frame
        for layer, mask in zip(layers, masks[1:], strict=False):  # the last moved frame finds no mask
            blend = blend + layer * mask
        return blend

    def _moved(self, frame: Tensor, deepest: Tensor) -> tuple[Tensor, ...]:
        """The frame (batch, 3, side, side) under each of the kernels that its own sample predicts."""
        batch, colours, *sides = frame.shape
        kernels = self.kernels(deepest.flatten(1)).float().view(batch, 1, -1, KERNEL, KERNEL)
        kernels = (kernels - TINY).relu() + TINY
        kernels = kernels / kernels.sum(dim=(3, 4), keepdim=True)
        weights = kernels.expand(-1, colours, -1, -1, -1).reshape(-1, 1, KERNEL, KERNEL)
        moved = F.conv2d(frame.reshape(1, -1, *sides), weights, padding=KERNEL // 2, groups=batch * colours)
        return moved.view(batch, colours, -1, *sides).unbind(dim=2)


class VideoPrediction(Task):
    """CDNA on clips of a moving arm and moving squares."""

    presets: ClassVar[Mapping[str, VideoSettings]] = {
        "paper": VideoSettings(),
        "small": VideoSettings(batch_size=1, side=32, frames=6, width=16),
        "tiny": VideoSettings(batch_size=2, side=16, frames=4, width=4),
    }
    length: ClassVar[str | None] = "frames"

    def build(self, config: Config) -> Built:
        settings: VideoSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = Cdna(settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, foreach=True)

        def batch(index: int) -> list[Tensor]:
            return [tensor.to(config.device) for tensor in clips(settings, config.seed, index)]

        def step(batch: list[Tensor]) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with config.autocast():
                frames, reached = model(*batch)
            loss = _loss(frames, batch[0], settings.context) + 1e-4 * _loss(reached, batch[2], settings.context)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def infer(batch: list[Tensor]) -> tuple[Tensor, ...]:
            with config.autocast():
                return tuple(model(*batch)[0])

        return Built(step, batch, {"model": model}, settings.batch_size, {"model": optimizer}, infer=infer)


def _loss(predicted: list[Tensor], true: Tensor, context: int) -> Tensor:
    """Mean squared error of what comes after the context; ``true`` is (batch, frames, ...)."""
    errors = [F.mse_loss(predicted[t - 1].float(), true[:, t]) for t in range(context, true.shape[1])]
    return torch.stack(errors).sum() / len(errors)


def true_frames(batch_size: int, index: int, k: float) -> int:
    """How many clips of a batch see true frames at a step: all at first, none in the end."""
    return round(batch_size * k / (k + math.exp(min(index / k, 700.0))))  # exp overflows above 709


def clips(settings: VideoSettings, seed: int, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (batch, frames, 3, side, side) in [0, 1], commands and poses (batch, frames, 5), and which clips see the
    true frame, (frames - 1 - context, batch). On the CPU."""
    batch, frames = settings.batch_size, settings.frames
    rng = data.generator(seed, index)
    arm = _bounce(batch, 1, frames + 1, POSE, rng)[:, 0]  # (batch, frames + 1, 5)
    blobs = _bounce(batch, BLOBS, frames, 2, rng)
    places = torch.cat((arm[:, None, :-1, :2], blobs), dim=1)  # (batch, squares, frames, 2)
    order = torch.rand(frames - 1 - settings.context, batch, generator=rng).argsort(dim=1)
    true = order < true_frames(batch, index, settings.sampling)
    return _draw(places, settings.side, rng), arm[:, 1:] - arm[:, :-1], arm[:, :-1], true


def _draw(places: Tensor, side: int, rng: torch.Generator) -> Tensor:
    batch, squares, frames, _ = places.shape
    background = F.interpolate(torch.rand(batch, 3, 4, 4, generator=rng), size=side, mode="bilinear")
    colours = torch.rand(batch, squares, 3, generator=rng)
    half = 0.12 + 0.13 * torch.rand(batch, squares, 1, 1, 1, generator=rng)  # the canvas spans -1 to 1
    pixels = (torch.arange(side) + 0.5) * 2 / side - 1
    distance = (pixels - 0.75 * places.unsqueeze(-1)).abs()  # (batch, squares, frames, 2, side)
    near = ((half - distance) * side / 2 + 0.5).clamp(0, 1)  # edges are one pixel soft
    images = background.unsqueeze(1).expand(-1, frames, -1, -1, -1)
    for square in reversed(range(squares)):  # the arm is drawn last, in front
        cover = (near[:, square, :, 1, :, None] * near[:, square, :, 0, None, :]).unsqueeze(2)
        images = torch.lerp(images, colours[:, square, None, :, None, None], cover)
    return images


def _bounce(batch: int, things: int, frames: int, numbers: int, rng: torch.Generator) -> Tensor:
    """Straight paths (batch, things, frames, numbers) that are mirrored where they leave -1 to 1."""
    start, speed = torch.rand(2, batch, things, 1, numbers, generator=rng) * 2 - 1
    path: Tensor = (start + 0.25 * speed * torch.arange(frames).unsqueeze(-1) + 1).remainder(4)
    return 1 - (path - 2).abs()
