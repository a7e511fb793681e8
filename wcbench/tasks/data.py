"""Stand-in data: what a step reads when the real data set is not at hand, and where its statistics come from.

Every batch is a function of (seed, index) alone. It is drawn on the CPU from a generator of its own and then moved,
so that it is the same on every device, and the global random state (weights, dropout) has no part in it. All of it is
torch operators, so that it also works inside FakeTensorMode.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

DATASET = -1  # the index from which a task draws what all of its batches share

# Zipf-Mandelbrot, weight of rank r of n = (r + SHIFT n) ** -EXPONENT, solved for the popularity of items in MovieLens
# ml-100k (counted in the file that ships with recbole 1.2.1): the top 1 % of items hold 7.3 % of the rows, the top
# 10 % hold 42.7 %. The head is flat: a plain Zipf law of exponent 1 gives its top 1 % half of all rows. With the shift
# in units of n, the shares hardly depend on n.
ITEM_EXPONENT = 1.32
ITEM_SHIFT = 0.069

# Zipf's law for the words of a text as Mandelbrot corrected it: rank r has weight (r + 2.7) ** -1.
WORD_EXPONENT = 1.0
WORD_SHIFT = 2.7


def generator(seed: int, index: int) -> torch.Generator:
    """A CPU generator of its own for a step index; neighbouring seeds and indices share nothing."""
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def zipf_mandelbrot(n: int, exponent: float, shift: float) -> Tensor:
    """Cumulative probabilities (n,), float64, of ranks 1..n with weights ``(rank + shift) ** -exponent``."""
    return _cumulative((torch.arange(1, n + 1, dtype=torch.float64) + shift) ** -exponent)


def item_popularity(n: int) -> Tensor:
    """Cumulative probabilities (n,) of items, the most popular first, skewed as the items of MovieLens ml-100k."""
    return zipf_mandelbrot(n, ITEM_EXPONENT, ITEM_SHIFT * n)


def log_normal(n: int, *, mean: float, median: float, minimum: float) -> Tensor:
    """How many rows each of n users has (n,), float64, ascending: quantiles of a log-normal law, cut off below.

    A log-normal law of median m and mean a has mu = ln m and sigma = sqrt(2 ln(a / m)).
    """
    quantiles = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    sigma = math.sqrt(2 * math.log(mean / median))
    return (median * torch.exp(sigma * torch.special.ndtri(quantiles))).clamp(min=minimum)


def user_activity(n: int, *, mean: float, median: float) -> Tensor:
    """Cumulative probabilities (n,) that a row is a given user's; MovieLens keeps users of 20 rows or more."""
    return _cumulative(log_normal(n, mean=mean, median=median, minimum=20.0))


def _cumulative(weights: Tensor) -> Tensor:
    total = weights.cumsum(0)
    return total / total[-1]


def draw(cumulative: Tensor, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Ranks from 0 up, int64 of the given shape, drawn from cumulative probabilities (n,)."""
    uniform = torch.rand(shape, dtype=torch.float64, generator=rng)
    return torch.searchsorted(cumulative, uniform, right=True).clamp(max=cumulative.numel() - 1)


@functools.cache
def _digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits()  # NumPy arrays: unlike tensors they belong to no FakeTensorMode and may be kept


def handwritten_digits() -> tuple[Tensor, Tensor]:
    """Real handwritten digits: images (1797, 1, 8, 8) in [0, 1], float32, and labels (1797,), int64.

    They ship with scikit-learn: the test part of UCI's "Optical Recognition of Handwritten Digits" (Alpaydin and
    Kaynak, 1998), 13 people's 32x32 bitmaps, counted in 4x4 blocks to values 0..16.
    """
    digits = _digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images, torch.tensor(digits.target, dtype=torch.int64)


def distort(images: Tensor, rng: torch.Generator, *, side: int, rotation: float, shift: float) -> Tensor:
    """Each image turned, zoomed and moved at random on an empty canvas: (n, 1, h, w) to (n, 1, side, side) in [0, 1].

    Turns are uniform within +-rotation degrees, moves within +-shift of half a canvas, and the image spans 0.55 to
    0.80 of the canvas. The contrast is then raised, since interpolation smears the strokes. Digits so made have the
    statistics of MNIST: about 80 % of the pixels are exactly zero, mean 0.13 and standard deviation 0.31.
    """
    n = images.shape[0]
    uniform = torch.rand(4, n, generator=rng)
    angle = (2 * uniform[0] - 1) * math.radians(rotation)
    zoom = 1 / (0.55 + 0.25 * uniform[1])  # canvas coordinates per image coordinate
    move = (2 * uniform[2:] - 1) * shift  # (2, n)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    row_x = torch.stack((cos, -sin, move[0] * zoom), dim=1)
    row_y = torch.stack((sin, cos, move[1] * zoom), dim=1)
    grid = F.affine_grid(torch.stack((row_x, row_y), dim=1), [n, 1, side, side], align_corners=False)
    pixels = F.grid_sample(images, grid, align_corners=False)
    return ((pixels - 0.3) * 2.5).clamp(0, 1)
