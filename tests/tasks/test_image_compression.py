"""The recurrent autoencoder: sizes by hand, its drawn bits, and images with a natural spectrum."""

from __future__ import annotations

import pytest
import torch

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.vision.image_compression import (
    Binarizer,
    Decoder,
    Encoder,
    ImageCompression,
    StochasticSign,
    natural_images,
)

# (inputs, channels, side of the hidden kernel, side of the image) of the LSTMs; their input kernels are 3x3
LSTMS = (
    *((64, 256, 1, 8), (256, 512, 1, 4), (512, 512, 1, 2)),
    *((512, 512, 1, 2), (128, 512, 1, 4), (128, 256, 3, 8), (64, 128, 3, 16)),
)


def test_parameters_by_hand() -> None:
    lstms = sum(4 * channels * (9 * inputs + k**2 * channels) for inputs, channels, k, _ in LSTMS)
    others = 3 * 9 * 64 + 512 * 32 + 32 * 512 + 32 * 3
    with torch.device("meta"):
        modules = (Encoder(64), Binarizer(64, 32), Decoder(64, 32))
    assert lstms + others == sum(p.numel() for m in modules for p in m.parameters()) == 35_456_800


def test_flops_by_hand() -> None:
    """Output pixels x outputs x inputs; sixteen iterations of a crop, the first with a hidden state of zeros too."""
    lstms = sum(side**2 * 4 * channels * (9 * inputs + k**2 * channels) for inputs, channels, k, side in LSTMS)
    others = 16**2 * 64 * 27 + 2**2 * 512 * 32 + 2**2 * 32 * 512 + 32**2 * 32 * 3
    assert 2 * 16 * (lstms + others) == pytest.approx(23_643_800_000, rel=1e-6)


def test_bits_are_drawn_and_gradients_pass() -> None:
    torch.manual_seed(0)
    x = torch.tensor([-1.0, -0.5, 0.0, 0.8, 1.0]).unsqueeze(1).expand(-1, 4000).requires_grad_()
    code = StochasticSign.apply(x)
    assert set(code.unique().tolist()) == {-1.0, 1.0}
    assert code.mean(dim=1).tolist() == pytest.approx([-1, -0.5, 0, 0.8, 1], abs=0.06)  # 4 standard errors
    upstream = torch.randn(5, 4000)
    (gradient,) = torch.autograd.grad(code, x, upstream)
    assert torch.equal(gradient, upstream)


def test_inference_takes_the_sign() -> None:
    torch.manual_seed(0)
    binarizer = Binarizer(4, 8)
    features = torch.randn(2, 32, 2, 2)
    training = [binarizer(features) for _ in range(2)]
    assert not torch.equal(training[0], training[1])
    binarizer.eval()
    assert torch.equal(binarizer(features), binarizer.conv(features).sign())


def test_each_iteration_takes_off_what_the_code_tells() -> None:
    """Residuals by an independent loop over the same modules; a code has 128 bits."""
    task = ImageCompression()
    built = task.build(task.configure("paper", batch_size=2, overrides={"width": "4", "iterations": "3"}))
    for module in built.modules.values():
        module.eval()
    encoder, binarizer, decoder = (built.modules[role] for role in ("encoder", "binarizer", "decoder"))
    images = built.batch(0)
    assert built.infer is not None
    with torch.no_grad():
        residuals = built.infer(images)
        left, encoding, decoding = images - 0.5, [None] * 3, [None] * 4
        for residual in residuals:
            code = binarizer(encoder(left, encoding))
            assert code.numel() == 2 * 128
            taken = decoder(code, decoding)
            assert float(taken.abs().max()) <= 0.5
            left = left - taken
            assert torch.equal(residual, left)
    assert len(residuals) == 3


def test_the_loss_is_the_mean_of_all_residuals() -> None:
    task = ImageCompression()
    built = task.build(task.configure("tiny"))
    images = built.batch(0)
    assert built.infer is not None
    torch.manual_seed(1)
    with torch.no_grad():
        residuals = built.infer(images)
    torch.manual_seed(1)  # the same bits
    loss = float(built.step(images))
    assert len(residuals) == 4
    assert loss == pytest.approx(sum(float(r.abs().mean()) for r in residuals) / 4, rel=1e-5)


def test_images_have_a_natural_spectrum() -> None:
    """Amplitude 1 / f is power f ** -2: the slope of the mean power over rings of equal frequency, windowed."""
    images = natural_images(128, 32, data.generator(0, 0))
    assert images.shape == (128, 3, 32, 32)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    assert float(images.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(images.std()) == pytest.approx(0.2, abs=0.02)
    window = torch.hann_window(32, periodic=False)
    grey = images.mean(dim=1)
    grey = (grey - grey.mean(dim=(1, 2), keepdim=True)) * window * window.unsqueeze(1)
    power = torch.fft.fft2(grey).abs().square().mean(dim=0)
    frequency = torch.fft.fftfreq(32) * 32
    radius = (frequency.square() + frequency.square().unsqueeze(1)).sqrt().round()
    rings = torch.arange(2, 14)
    y = torch.stack([power[radius == ring].mean() for ring in rings]).log()
    x = rings.float().log()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    assert slope == pytest.approx(-2, abs=0.15)
    assert float(torch.corrcoef(images.transpose(0, 1).flatten(1))[0, 1]) == pytest.approx(0.9, abs=0.03)


def test_it_learns_a_crop_by_heart() -> None:
    """One crop over and over, coded once, for speed: the work of real training takes minutes."""
    task = ImageCompression()
    overrides = {"lr": "0.005", "side": "16", "iterations": "1"}
    built = task.build(task.configure("tiny", batch_size=1, overrides=overrides))
    crop = built.batch(0)
    losses = [float(built.step(crop)) for _ in range(80)]
    assert sum(losses[-10:]) < 0.6 * sum(losses[:10])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"side": "24"}, "side 24 is refused: the encoder halves a crop four times"),
        ({"width": "7"}, "width 7 is refused: the last pixel shuffle leaves half of it"),
        ({"iterations": "0"}, "0 iterations and 32 bits are refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ImageCompression().configure("tiny", overrides=overrides)
