"""Pooling, interpolation, grid sampling and the gradients of padding: neighbourhoods of a picture.

Weights of a tap that are the same for all channels are counted where they are made for each output place (grid
sampling) and left out where they belong to a row or column (interpolation). Index arithmetic counts 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Any

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, formula
from wcbench.profilers.formulas.traffic import Call, part, read, stencil, writes

# --- pooling


@formula(
    *aten("max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices"),
    *aten("mkldnn_max_pool2d mkldnn_max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"),
    *aten("fractional_max_pool2d fractional_max_pool3d max_unpool2d max_unpool3d quantized_max_pool1d"),
    *aten("quantized_max_pool2d quantized_max_pool3d"),
)
def max_pool(_: Call) -> Cost:
    """Compares only."""
    return Cost()


@formula(
    *aten("max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"),
    *aten("adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward"),
    *aten("max_pool2d_backward mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward"),
)
def max_pool_backward(call: Call) -> Cost:
    """Each gradient is added where its maximum was; the input is passed for its shape, the indices are read."""
    gradient: T = call.args[0]
    indices = [a for a in call.args if isinstance(a, T) and a.dtype in ("int64", "int32")]
    if not indices:
        return Cost(gradient.numel)
    return Cost(gradient.numel, accesses=[*read(gradient, indices[-1]), *writes(call)])


def window(kernel: Any, axes: int) -> int:
    """Elements of a pooling window; one number stands for all axes."""
    sizes = [kernel] if isinstance(kernel, int) else list(kernel)
    return prod(sizes * axes if len(sizes) == 1 else sizes)


@formula(*aten("avg_pool1d avg_pool2d avg_pool3d"))
def avg_pool(call: Call) -> Cost:
    """A window's elements are added and the sum divided, for each result; padding counts as elements."""
    axes = int(call.name[-2])
    return Cost((window(call.args[1], axes) + 1) * call.result().numel)


@formula(*aten("avg_pool2d_backward avg_pool3d_backward"))
def avg_pool_backward(call: Call) -> Cost:
    """Each gradient is divided and added to its window; the input is passed for its shape."""
    gradient, axes = call.args[0], 2 if "2d" in call.name else 3
    return Cost((window(call.args[2], axes) + 1) * gradient.numel, accesses=[*read(gradient), *writes(call)])


def adaptive_taps(full: Sequence[int], pooled: Sequence[int]) -> int:
    """Elements in all windows of adaptive pooling: window i of an axis runs from floor(i*n/m) to ceil((i+1)*n/m)."""
    return prod(sum(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in zip(full, pooled, strict=True))


@formula(
    *aten("_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
    *aten("mkldnn_adaptive_avg_pool2d"),
)
def adaptive_avg_pool(call: Call) -> Cost:
    """Each window's elements are added and the sum divided."""
    return Cost(_adaptive(call.args[0], call.result(), int(call.name[-2])))


@formula(
    *aten("_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_avg_pool3d_backward"),
    *aten("mkldnn_adaptive_avg_pool2d_backward"),
)
def adaptive_avg_pool_backward(call: Call) -> Cost:
    gradient, x = call.args[:2]
    flops = _adaptive(x, gradient, 2 if "2d" in call.name else 3)
    return Cost(flops, accesses=[*read(gradient), *writes(call)])


def _adaptive(full: T, pooled: T, axes: int) -> int:
    planes = prod(pooled.shape[:-axes])
    return planes * adaptive_taps(full.shape[-axes:], pooled.shape[-axes:]) + pooled.numel


# --- interpolation


def linear_flops(axes: int) -> int:
    """a + w * (b - a), halving the taps axis by axis: 3 * (2^axes - 1) for each result."""
    return 3 * ((1 << axes) - 1)


CUBIC = 5 * (4 + 3)  # four rows and then the column: 4 products and 3 additions each
# forward: FLOPs for each result; backward: for each gradient element and tap a product and an addition
RESAMPLING: dict[str, tuple[int, int]] = {
    **{f"upsample_nearest{axes}d": (0, 1) for axes in (1, 2, 3)},
    **{f"_upsample_nearest_exact{axes}d": (0, 1) for axes in (1, 2, 3)},
    "upsample_linear1d": (linear_flops(1), 2 * 2),
    "upsample_bilinear2d": (linear_flops(2), 2 * 4),
    "upsample_trilinear3d": (linear_flops(3), 2 * 8),
    "upsample_bicubic2d": (CUBIC, 2 * 16),
}


def _resampled(flops: int) -> Callable[[Call], Cost]:
    """Shapes come from the result, so it does not matter how the scale was given (DeepSpeed issues 1701, 4498)."""

    def upsample(call: Call) -> Cost:
        x, result = call.args[0], call.result()
        seen = (16 if flops else 1) * result.numel * x.itemsize  # nearest skips elements where it shrinks
        return Cost(flops * result.numel, accesses=[part(x, seen), *writes(call)])

    return upsample


def _resampled_backward(flops: int) -> Callable[[Call], Cost]:
    return lambda call: Cost(flops * call.args[0].numel)


for _name, (_forward, _backward) in RESAMPLING.items():
    formula(f"aten::{_name}")(_resampled(_forward))
    formula(f"aten::{_name}_backward")(_resampled_backward(_backward))

SUPPORT = {"bilinear": 1, "bicubic": 2, "lanczos": 3}  # half width of the filter, in pixels of the smaller picture


@formula(*(f"aten::_upsample_{name}2d_aa{way}" for name in SUPPORT for way in ("", "_backward")))
def antialiased(call: Call) -> Cost:
    """Two passes, along rows and then along columns; each result takes 2 * ceil(support * scale) + 1 taps at most, a
    product and an addition each, where the scale is that by which the picture shrinks."""
    backward = call.name.endswith("backward")
    small = call.args[0].shape if backward else call.result().shape
    large = call.result().shape if backward else call.args[0].shape
    support = next(s for name, s in SUPPORT.items() if name in call.name)
    taps = [2 * ceil(support * max(1.0, n / m)) + 1 for n, m in zip(large[-2:], small[-2:], strict=True)]
    planes = prod(small[:-2])
    return Cost(planes * 2 * (large[-2] * small[-1] * taps[1] + small[-2] * small[-1] * taps[0]))


# --- grid sampling

BILINEAR, NEAREST, BICUBIC = 0, 1, 2


def _grid_flops(places: int, channels: int, axes: int, mode: int) -> int:
    """For each place the coordinates: ((x + 1) * size - 1) / 2, 4 an axis. Linear: distances 2 an axis, weights of
    2^axes corners axes - 1 products each; for each channel a product a corner and their sum. Cubic: 8 coefficients of
    about 8, for each channel as in interpolation."""
    corners = 1 << axes
    if mode == NEAREST:
        return 4 * axes * places
    if mode == BICUBIC:
        return places * (4 * axes + 8 * 8 + CUBIC * channels)
    return places * (4 * axes + 2 * axes + corners * (axes - 1) + (2 * corners - 1) * channels)


@formula(*aten("grid_sampler_2d grid_sampler_3d cudnn_grid_sampler _grid_sampler_2d_cpu_fallback grid_sampler"))
def grid_sampler(call: Call) -> Cost:
    """Each place of the grid reads 2^axes neighbours (cubic 16) in every channel, where the grid's values say."""
    x, grid = call.args[:2]
    result, mode, axes = call.result(), call.arg(2, "interpolation_mode", BILINEAR), grid.shape[-1]
    taps = {NEAREST: 1, BICUBIC: 16}.get(mode, 2**axes)
    moved = [stencil(x, taps * result.numel * x.itemsize), *read(grid), *writes(call)]
    return Cost(_grid_flops(grid.numel // axes, x.shape[1], axes, mode), accesses=moved)


@formula(
    *aten("grid_sampler_2d_backward grid_sampler_3d_backward cudnn_grid_sampler_backward"),
    *aten("_grid_sampler_2d_cpu_fallback_backward"),
)
def grid_sampler_backward(call: Call) -> Cost:
    """The place's weights again; for each channel and corner g * weight is added to the input's gradient (2), and
    value * g * slope to the grid's, on each axis (3); then the coordinates' own factor, one an axis."""
    cudnn = call.name.startswith("aten::cudnn")
    gradient, x, grid = (call.args[2], call.args[0], call.args[1]) if cudnn else call.args[:3]
    mode = BILINEAR if cudnn else call.args[3]
    for_input, for_grid = call.arg(6, "output_mask", (True, True))
    axes = grid.shape[-1]
    places = grid.numel // axes
    taps = {NEAREST: 1, BICUBIC: 16}.get(mode, 2**axes)
    other = _grid_flops(places, 0, axes, mode) if mode != NEAREST else 4 * axes * places
    other += gradient.numel * taps * (1 if mode == NEAREST else 2) * bool(for_input)
    if for_grid and mode != NEAREST:
        other += gradient.numel * taps * 3 * axes + places * axes
    values = [stencil(x, taps * gradient.numel * x.itemsize)] if for_grid else []
    return Cost(other, accesses=[*read(gradient, grid), *values, *writes(call)])


# --- gradients of padding


@formula(*(f"aten::{kind}_pad{axes}d_backward" for kind in ("reflection", "replication") for axes in (1, 2, 3)))
def pad_backward(call: Call) -> Cost:
    """Each gradient is added where its value came from; the input is passed for its shape."""
    gradient: T = call.args[0]
    return Cost(gradient.numel, accesses=[*read(gradient), *writes(call)])
