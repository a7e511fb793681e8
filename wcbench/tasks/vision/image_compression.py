"""Image compression: a recurrent autoencoder that sends what is still wrong, again and again (arXiv:1608.05148).

AIBench Training DC-AI-C12 (PyTorch/Image_compression) trains the variant with convolutional LSTMs of Toderici et al.:
an encoder, a binarizer of 128 bits an iteration and a decoder, none with a bias, run 16 times on crops of 32x32; each
run codes the residual that the runs before have left. Weights are used 16 times and all activations kept. The loss is
the mean absolute residual over the 16 runs. Batches of 32 crops, Adam at rate 5e-4, 20 epochs. A bit is drawn: +1
with probability (1 + x) / 2, else -1, and the gradient passes as if nothing had happened; in inference it is the sign.

What differs here, and why:

- The crops are drawn in place of COCO's or ImageNet's: random fields whose amplitude falls with frequency as 1 / f,
  as that of natural images does, mostly the same in all three colours.
- The rate stays at 5e-4; it is halved after epochs 3 and 10 of the 20, which is no part of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class CompressionSettings(Settings):
    """Knobs of the image compression task.

    Attributes
    ----------
    side : of the square crops, in pixels; a multiple of 16.
    iterations : runs of the autoencoder on one crop.
    width : channels of the first convolution, even; the LSTMs have 4, 8, 8 and 8, 8, 4, 2 times as many.
    bits : channels of the code, which is a 16th of the crop wide and high.
    lr : of Adam.
    """

    batch_size: int = 32
    side: int = 32
    iterations: int = 16
    width: int = 64
    bits: int = 32
    lr: float = 5e-4

    def validate(self) -> None:
        super().validate()
        if self.side < 16 or self.side % 16:
            raise UsageError(
                f"side {self.side} is refused: the encoder halves a crop four times.",
                "Give a multiple of 16, e.g. --set side=64.",
            )
        if self.width < 2 or self.width % 2:
            raise UsageError(
                f"width {self.width} is refused: the last pixel shuffle leaves half of it.",
                "Give an even number, e.g. --set width=32.",
            )
        if min(self.iterations, self.bits) < 1:
            raise UsageError(f"{self.iterations} iterations and {self.bits} bits are refused: each is at least 1.")


class ConvLSTM(nn.Module):
    """A step of an LSTM whose gates are a convolution over the input plus one over the hidden state."""

    def __init__(self, inputs: int, channels: int, *, stride: int = 1, hidden_kernel: int = 1) -> None:
        super().__init__()
        self.input = nn.Conv2d(inputs, 4 * channels, 3, stride=stride, padding=1, bias=False)
        self.hidden = nn.Conv2d(channels, 4 * channels, hidden_kernel, padding=hidden_kernel // 2, bias=False)

    def forward(self, x: Tensor, state: State | None) -> State:
        gates = self.input(x)
        if state is None:
            zeros = gates.new_zeros(gates.shape[0], gates.shape[1] // 4, *gates.shape[2:])
            state = zeros, zeros
        hidden, cell = state
        entry, forget, candidate, output = (gates + self.hidden(hidden)).chunk(4, dim=1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * candidate.tanh()
        return output.sigmoid() * cell.tanh(), cell


class Encoder(nn.Module):
    """Residuals (batch, 3, side, side) to features (batch, 8 width, side / 16, side / 16)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
        self.lstms = nn.ModuleList(
            ConvLSTM(i * width, c * width, stride=2) for i, c in ((1, 4), (4, 8), (8, 8))
        )  # sides: a 4th, an 8th, a 16th of the crop

    def forward(self, residual: Tensor, states: list[State | None]) -> Tensor:
        """``states`` are moved on in place."""
        x: Tensor = self.conv(residual)
        for layer, lstm in enumerate(self.lstms):
            x, cell = lstm(x, states[layer])
            states[layer] = x, cell
        return x


class Binarizer(nn.Module):
    """Features to a code of -1 and +1 (batch, bits, side / 16, side / 16)."""

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8 * width, bits, 1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        x = self.conv(features).tanh()
        code: Tensor = StochasticSign.apply(x) if self.training else torch.where(x >= 0, 1.0, -1.0)
        return code


class StochasticSign(torch.autograd.Function):
    """+1 with probability (1 + x) / 2, else -1; the gradient goes straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.where(torch.rand_like(x, dtype=torch.float32) < (1 + x) / 2, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class Decoder(nn.Module):
    """Codes to what is to be taken off the residual, (batch, 3, side, side) in -0.5 to 0.5."""

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(bits, 8 * width, 1, bias=False)
        # a pixel shuffle after each doubles the side and leaves a quarter of the channels
        self.lstms = nn.ModuleList(
            ConvLSTM(i * width, c * width, hidden_kernel=k) for i, c, k in ((8, 8, 1), (2, 8, 1), (2, 4, 3), (1, 2, 3))
        )
        self.image = nn.Conv2d(width // 2, 3, 1, bias=False)

    def forward(self, code: Tensor, states: list[State | None]) -> Tensor:
        """``states`` are moved on in place."""
        x: Tensor = self.conv(code)
        for layer, lstm in enumerate(self.lstms):
            state = lstm(x, states[layer])
            states[layer] = state
            x = F.pixel_shuffle(state[0], 2)
        image: Tensor = self.image(x).tanh() / 2
        return image


class ImageCompression(Task):
    """The recurrent autoencoder on crops with a natural spectrum."""

    presets: ClassVar[Mapping[str, CompressionSettings]] = {
        "paper": CompressionSettings(),
        "small": CompressionSettings(batch_size=1, width=20),
        "tiny": CompressionSettings(batch_size=2, iterations=4, width=8),
    }

    def build(self, config: Config) -> Built:
        settings: CompressionSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            encoder = Encoder(settings.width)
            binarizer = Binarizer(settings.width, settings.bits)
            decoder = Decoder(settings.width, settings.bits)
        modules: dict[str, nn.Module] = {"encoder": encoder, "binarizer": binarizer, "decoder": decoder}
        parameters = [p for module in modules.values() for p in module.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=settings.lr, foreach=True)

        def batch(index: int) -> Tensor:
            rng = data.generator(config.seed, index)
            return natural_images(settings.batch_size, settings.side, rng).to(config.device)

        def residuals(images: Tensor) -> tuple[Tensor, ...]:
            """What each iteration leaves."""
            encoding: list[State | None] = [None] * len(encoder.lstms)
            decoding: list[State | None] = [None] * len(decoder.lstms)
            left = [images - 0.5]
            with config.autocast():
                for _ in range(settings.iterations):
                    code = binarizer(encoder(left[-1], encoding))
                    left.append(left[-1] - decoder(code, decoding))
            return tuple(left[1:])

        def step(images: Tensor) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            errors = [residual.abs().mean() for residual in residuals(images)]
            loss = torch.stack(errors).sum() / settings.iterations
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, batch, modules, settings.batch_size, {"model": optimizer}, infer=residuals)


def natural_images(n: int, side: int, rng: torch.Generator) -> Tensor:
    """Random fields (n, 3, side, side) in 0 to 1 whose amplitude is 1 / f; crops of twice the side, as a whole field
    is periodic. Nine tenths of the variance are common to the colours."""
    whole = 2 * side
    frequency = torch.fft.fftfreq(whole).square().unsqueeze(1) + torch.fft.rfftfreq(whole).square()
    frequency[0, 0] = torch.inf  # no mean
    noise = torch.randn(2, n, 4, whole, whole // 2 + 1, generator=rng)
    fields = torch.fft.irfft2(torch.complex(noise[0], noise[1]) / frequency.sqrt(), s=(whole, whole))
    fields = fields / fields.std(dim=(2, 3), keepdim=True)
    images = 0.5 + 0.2 * (0.9**0.5 * fields[:, :1] + 0.1**0.5 * fields[:, 1:])
    crops: Tensor = images[:, :, :side, :side].clamp(0, 1).contiguous()
    return crops
