"""Features of spatial locality: strides, indirection and how much of what memory delivers is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench import kernels
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import MODELLED, SHARE_FLOOR, feature, once, ratio, shares
from wcbench.analysis.definitions.parts import STRIDE_PARTS
from wcbench.dtypes import ITEMSIZE

if TYPE_CHECKING:
    from wcbench.record import Profile

SECTOR, LINE = 32, 128  # bytes
_BOUNDS = (64, 512, 4096, 32768)
_NO_BYTES = "no operator moves a byte"
_INDIRECT = ("gather", "scatter")
_SINGLE = ("aten::gather", "aten::take", "aten::masked_s", "aten::nll_loss", "aten::scatter", "aten::grid_sampler")
"""Operators that choose single elements, not rows, by these beginnings of their names."""


def accesses(profile: Profile) -> pd.DataFrame:
    """Accesses of an average step with the columns bytes (times the kind's share), sorts (of an operator that sorts or
    selects), stride (innermost, in elements), bucket, indirect, sector_use and line_use (useful bytes over those of
    the sectors and lines that the access touches)."""
    stream.work(profile)
    return once(profile, "accesses", lambda: _accesses(profile))


def _accesses(profile: Profile) -> pd.DataFrame:
    frame = stream.calls(profile)
    found = []
    for name, share, row in zip(frame["name"], frame["share"], stream.lists(profile, "accesses"), strict=True):
        single = name.startswith(_SINGLE)
        for access in row:
            if access["nbytes"] and access["storage"] >= 0:
                found.append((share * access["nbytes"], _sorts(name), *_form(access, single=single)))
    columns = ["bytes", "sorts", "stride", "bucket", "indirect", "sector_use", "line_use"]
    made = pd.DataFrame(found, columns=columns)
    return made.assign(indirect=made["indirect"] | made["sorts"])


@lru_cache(maxsize=4096)
def _sorts(name: str) -> bool:
    return kernels.classify(name, host=True).full == "sort and selection"


def _form(access: Mapping[str, Any], *, single: bool) -> tuple[int, str, bool, float, float]:
    size, shape, strides = ITEMSIZE[access["dtype"]], tuple(access["shape"]), tuple(access["stride"])
    if access["kind"] in _INDIRECT:
        return _indirect(shape, strides, size, single=single)
    # the alignment of an access is that of its first element to a line
    return _direct(shape, strides, size, access["offset"] * size % LINE)


@lru_cache(maxsize=65536)
def _direct(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int, start: int
) -> tuple[int, str, bool, float, float]:
    inner = innermost(shape, strides)
    sectors, lines = (_use(shape, strides, size, start, unit) for unit in (SECTOR, LINE))
    return inner, bucket(inner, size), False, sectors, lines


@lru_cache(maxsize=65536)
def _indirect(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int, *, single: bool
) -> tuple[int, str, bool, float, float]:
    inner = innermost(shape, strides)
    sectors, lines = (_row_use(shape, strides, size, unit, single=single) for unit in (SECTOR, LINE))
    return inner, bucket(inner, size), True, sectors, lines


def innermost(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Stride in elements of the last extent that is not 1; 1 where there is none."""
    return next((s for extent, s in zip(reversed(shape), reversed(strides), strict=True) if extent != 1), 1)


def bucket(stride: int, size: int) -> str:
    """Part of STRIDE_PARTS of an innermost stride in elements of ``size`` bytes."""
    if stride in (0, 1):
        return STRIDE_PARTS[stride]
    place = sum(abs(stride) * size > bound for bound in _BOUNDS)
    return STRIDE_PARTS[2 + place]


def _use(shape: Sequence[int], strides: Sequence[int], size: int, start: int, unit: int) -> float:
    """Useful bytes over the bytes of the units that a strided access touches.

    Its runs of ``run`` bytes begin ``gap`` bytes apart; those that share a unit share it (so that no run touches more
    than the gap). The mean is over all places in a unit where runs can begin.
    """
    run, rest = _run(shape, strides, size)
    if not rest:
        return run / (unit * -(-(start % unit + run) // unit))
    gap = rest[0]
    if gap < run:  # windows that overlap
        return 1.0
    step = math.gcd(unit, *rest)
    return run / max(run, min(gap, _touched(run, start % step, step, unit)))


def _row_use(shape: Sequence[int], strides: Sequence[int], size: int, unit: int, *, single: bool) -> float:
    """The same of rows (all dimensions but the first) or single elements that data choose: none shares a unit."""
    run = size if single or len(shape) < 2 else _run(shape[1:], strides[1:], size)[0]
    pitch = size if single or not shape else max(1, abs(strides[0])) * size
    return run / _touched(run, 0, math.gcd(unit, pitch), unit)


def _run(shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, list[int]]:
    """Bytes of the contiguous runs of a tensor, and the strides in bytes between them, nearest first."""
    steps = sorted((abs(s) * size, extent) for extent, s in zip(shape, strides, strict=True) if extent != 1 and s != 0)
    run = size
    for place, (step, extent) in enumerate(steps):
        if step != run:
            return run, [later for later, _ in steps[place:]]
        run *= extent
    return run, []


def _touched(run: int, first: int, step: int, unit: int) -> float:
    """Mean bytes of the units that a run touches when it begins at first, first + step, ... within a unit."""
    places = range(first, unit, step)
    return unit * sum(-(-(place + run) // unit) for place in places) / len(places)


@feature("noncontig_byte_share", unit="fraction", needs="operators", transform="logit", block="spatial", tier="core",
         floor=SHARE_FLOOR)  # fmt: skip
def noncontig_byte_share(profile: Profile) -> float:
    """Bytes accessed through tensors whose innermost stride is not 1 (extents of 1 dropped; transposes, slices with a
    step and broadcasts), over all."""
    frame = accesses(profile)
    return ratio(frame.loc[frame["stride"] != 1, "bytes"].sum(), frame["bytes"].sum(), _NO_BYTES)


@feature("stride_bucket_share", unit="fraction", needs="operators", transform="clr", block="stride_bucket_share",
         floor=SHARE_FLOOR, parts=STRIDE_PARTS, reference="MICA, Hoste and Eeckhout 2006: data strides")  # fmt: skip
def stride_bucket_share(profile: Profile) -> dict[str, float]:
    """Shares of the bytes accessed by innermost stride: 0, one element, and up to so many bytes."""
    frame = accesses(profile)
    sums = frame.groupby("bucket")["bytes"].sum()
    return shares({part: float(sums.get(part, 0.0)) for part in STRIDE_PARTS}, _NO_BYTES)


@feature("indirect_byte_share", unit="fraction", needs="operators", transform="logit", block="spatial", tier="core",
         floor=SHARE_FLOOR)  # fmt: skip
def indirect_byte_share(profile: Profile) -> float:
    """Bytes read or written where data say (rows of look-ups, gathers, scatters, sampled pictures), and all bytes of
    sorts and selections, over all."""
    frame = accesses(profile)
    return ratio(frame.loc[frame["indirect"], "bytes"].sum(), frame["bytes"].sum(), _NO_BYTES)


_SECTORS = "predicted from shape, stride, offset and row; GPU sectors are 32 B, lines 128 B"


@feature("line_utilisation_pred", unit="fraction", needs="operators", transform="logit", block="spatial", tier="core",
         floor=SHARE_FLOOR, reference=_SECTORS, origin=MODELLED)  # fmt: skip
def line_utilisation_pred(profile: Profile) -> float:
    """Useful bytes over bytes of the 32-byte sectors that accesses touch, each access by itself."""
    return _utilisation(profile, "sector_use")


@feature("line_utilisation_128B", unit="fraction", needs="operators", transform="logit", block="spatial",
         floor=SHARE_FLOOR, reference=_SECTORS, origin=MODELLED)  # fmt: skip
def line_utilisation_128B(profile: Profile) -> float:  # noqa: N802  (the unit is a part of the name)
    """The same for lines of 128 bytes."""
    return _utilisation(profile, "line_use")


def _utilisation(profile: Profile, column: str) -> float:
    frame = accesses(profile)
    return ratio(frame["bytes"].sum(), (frame["bytes"] / frame[column]).sum(), _NO_BYTES)
