"""Stand-in data: what a step reads when the real data set is not at hand, and where its statistics come from.

Every batch is a function of (seed, index) alone. It is drawn on the CPU from a generator of its own and then moved,
so that it is the same on every device, and the global random state (weights, dropout) has no part in it. All of it is
torch operators, so that it also works inside FakeTensorMode; only recorded ids are read from a file.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wcbench.errors import UsageError

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

ZIPF_HEAD = 4096  # ranks whose weights are added up one by one


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


def zipf(n: int, exponent: float, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Ranks from 0 up, int64, by Zipf's law over n ranks: rank r = 1..n has weight ``r ** -exponent``, any from 0 up.

    No table of n entries is made. The first 4,096 weights are summed exactly; each later one is the integral of
    ``x ** -exponent`` over half a rank either way, which is off by exponent (exponent + 1) / (24 r^2) of it, 1e-8 at
    most for exponents up to 1.3.
    """
    head = min(n, ZIPF_HEAD)
    cumulative = (torch.arange(1, head + 1, dtype=torch.float64) ** -exponent).cumsum(0)
    start, power = head + 0.5, 1 - exponent
    stretch = math.log((n + 0.5) / start)
    straight = abs(power) < 1e-12  # weights 1 / r, whose integral is a logarithm
    unit = start**power
    longest = stretch if straight else math.expm1(power * stretch) / power  # the tail's mass, in this unit
    target = torch.rand(shape, dtype=torch.float64, generator=rng)
    if unit * longest < 1e-17:  # of a total of 1 or more: nothing beyond the head is ever drawn
        return torch.searchsorted(cumulative, target * cumulative[-1], right=True).clamp(max=head - 1)
    target = target * (cumulative[-1] + unit * longest)
    near = torch.searchsorted(cumulative, target, right=True).clamp(max=head - 1)
    mass = ((target - cumulative[-1]) / unit).clamp(0, longest)
    distance = mass if straight else (power * mass).clamp(min=-1).log1p() / power
    far = (start * distance.exp() - 0.5).clamp(head, n - 1).floor().long()
    return torch.where(target < cumulative[-1], near, far)


def scatter(ranks: Tensor, n: int, seed: int, table: int) -> Tensor:
    """Rows of a table of n (below 2**31) by popularity rank: a one-to-one map, so that popular rows lie far apart.

    It is affine modulo n, with constants from the seed and the table's number, and needs no permutation of n entries.
    """
    digest = hashlib.blake2b(f"scatter:{seed}:{table}".encode(), digest_size=16).digest()
    step = n // 4 + int.from_bytes(digest[:8], "little") % max(1, n // 2)
    while math.gcd(step, n) != 1:
        step += 1
    return (ranks * step + int.from_bytes(digest[8:], "little") % n) % n


def scramble(values: Tensor, salt: Tensor) -> Tensor:
    """Numbers from 0 to 2**63 - 1 which look random yet are functions of value and salt alone; all are int64."""
    mixed = values * 0x1E3779B97F4A7C15 + salt * 0x3F58476D1CE4E5B9  # wraps around
    mixed = (mixed ^ (mixed >> 32)) * 0x14D049BB133111EB
    mixed = (mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D
    return (mixed ^ (mixed >> 32)) & 0x7FFFFFFFFFFFFFFF


def missing(rows: int, shares: Sequence[float], rng: torch.Generator) -> Tensor:
    """Which values are missing (rows, len(shares)), bool: each column on its own, by its share."""
    return torch.rand(rows, len(shares), generator=rng) < torch.tensor(shares)


IDS_FORMATS = (".npy", ".csv", ".txt")


def check_ids(law: float | None, path: str | None) -> None:
    """Raise UsageError where settings ``zipf`` and ``ids`` cannot work; the file is only looked for."""
    if law is not None and not 0 <= law < math.inf:
        raise UsageError(
            f"zipf {law} is refused: the exponent of a Zipf law is a finite number from 0 (uniform) up.",
            "Give e.g. --zipf 1.1.",
        )
    if path is None:
        return
    if law is not None:
        raise UsageError("zipf and ids are both given, but row ids are either drawn or read.", "Leave out one of them.")
    if Path(path).suffix not in IDS_FORMATS:
        raise UsageError(f"ids file '{path}' is of no known format.", f"Known: {', '.join(IDS_FORMATS)}.")
    if not Path(path).is_file():
        raise UsageError(f"ids file '{path}' does not exist.", "Give the path of a file of recorded row ids.")


def recorded(path: str, tables: Sequence[tuple[str, int]], index: int, rows: int) -> Tensor:
    """The recorded ids (rows, tables), int64, of a step: the file in order, from its start again when it ends.

    A file has one line for each sample and one column for each of ``tables``, (name, size) pairs: ``.npy`` of
    integers, ``.csv`` or ``.txt`` of numbers set apart by commas or blanks; lines that begin with # are skipped.
    """
    ids = _recorded(path, Path(path).stat().st_mtime_ns, tuple(tables))
    return torch.from_numpy(ids[np.arange(index * rows, (index + 1) * rows) % len(ids)])


@functools.lru_cache(maxsize=4)
def _recorded(path: str, changed: int, tables: tuple[tuple[str, int], ...]) -> Any:
    try:
        if path.endswith(".npy"):
            ids = np.load(path, allow_pickle=False)
        else:
            ids = np.loadtxt(path, dtype=np.int64, delimiter="," if path.endswith(".csv") else None, ndmin=2)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"ids file '{path}' cannot be read: {error}.", "It holds whole numbers only.") from None
    if ids.ndim == 1:
        ids = ids[:, None]
    if ids.dtype.kind not in "iu" or ids.ndim != 2 or not ids.size:
        raise UsageError(f"ids file '{path}' holds {ids.dtype} of shape {ids.shape}, not rows of whole numbers.")
    if ids.shape[1] != len(tables):
        names = ", ".join(name for name, _ in tables)
        raise UsageError(f"ids file '{path}' has {ids.shape[1]} columns, and the task takes {len(tables)}: {names}.")
    wrong = np.argwhere((ids < 0) | (ids >= np.array([size for _, size in tables])))
    if len(wrong):
        row, column = (int(place) for place in wrong[0])
        name, size = tables[column]
        raise UsageError(
            f"ids file '{path}', row {row} (from 0): {ids[row, column]} is no row of table {name}, which has {size:,}.",
            f"Ids of this table are 0 to {size - 1}.",
        )
    return ids.astype(np.int64)


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
