"""Features of memory traffic and arithmetic intensity."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wcbench import devices
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import MODELLED, SHARE_FLOOR, Found, NotMeasuredError, feature, ratio
from wcbench.analysis.definitions.opmix import REFERENCE_DEVICE, types
from wcbench.analysis.definitions.parts import CAPACITIES
from wcbench.analysis.roofline import roofline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

_REUSE = "Mattson et al. 1970; docs/locality.md"
_ROOF = "Williams, Waterman and Patterson 2009"
_NO_BYTES = "no operator moves a byte"
_COPIES = re.compile(r"^aten::(?:_foreach_copy|copy|clone|contiguous|_to_copy|to|type_as|\w+_copy)_?$")
"""Operators that only copy, cast or lay out anew; fills, concatenations and paddings are none."""


@feature("bytes_op_level", unit="B/sample", needs="operators", transform="log10", block="traffic", tier="core")
def bytes_op_level(profile: Profile) -> float:
    """Bytes that operators read and write, each by itself, for one more sample: the slope of the fit over batch
    sizes. What a step moves whatever its batch is bytes_op_level_fixed."""
    return stream.fit(profile, "bytes_read", "bytes_written")[0]


@feature("bytes_op_level_fixed", unit="B/step", needs="operators", transform="log10", block="traffic", floor=1.0)
def bytes_op_level_fixed(profile: Profile) -> float:
    """Bytes of a step that do not depend on the batch: the fixed part of the same fit, at least 0."""
    return max(0.0, stream.fit(profile, "bytes_read", "bytes_written")[1])


@feature("bytes_compulsory", unit="B/sample", needs="operators", transform="log10", block="traffic", tier="core",
         reference=_REUSE, origin=MODELLED)  # fmt: skip
def bytes_compulsory(profile: Profile) -> float:
    """First reads of what is older than the step and last writes of what outlives it, of a step at the preset's batch
    over its samples: the traffic of an infinite cache. Weights are in it, so that it falls with the batch."""
    return stream.average(profile, lambda view: view.logical.compulsory_bytes) / stream.samples(profile)


@feature("fusion_headroom", unit="", needs="operators", transform="log", block="traffic", tier="derived",
         origin=MODELLED)  # fmt: skip
def fusion_headroom(profile: Profile) -> float:
    """Bytes that all operators move over compulsory bytes, of the same step at the preset's batch."""
    moved = stream.average(profile, lambda view: view.logical.operator_bytes)
    return ratio(moved, stream.average(profile, lambda view: view.logical.compulsory_bytes), "nothing is compulsory")


@feature("ai_op_level", unit="FLOP/B", needs="operators", transform="log2", block="intensity", tier="derived",
         reference=_ROOF)  # fmt: skip
def ai_op_level(profile: Profile) -> float:
    """All FLOPs of an average step over all bytes that its operators move."""
    frame = stream.calls(profile)
    return ratio((frame["flops"] * frame["share"]).sum(), (frame["bytes"] * frame["share"]).sum(), _NO_BYTES)


@feature("ai_at_capacity", unit="FLOP/B", needs="operators", transform="log2", block="intensity", tier="core",
         parts=tuple(CAPACITIES), reference=_REUSE, origin=MODELLED)  # fmt: skip
def ai_at_capacity(profile: Profile) -> dict[str, float]:
    """All FLOPs of a step over the bytes (read misses and write-backs) that an LRU cache of this capacity leaves, by
    the inter-operator reuse model: too high where a single operator does not fit."""
    flops = stream.kind_flops(profile)
    return {part: ratio(flops, stream.traffic(profile, c), _NO_BYTES) for part, c in CAPACITIES.items()}


@feature("ai_spread", unit="log2 units", needs="operators", transform="none", block="intensity spread")
def ai_spread(profile: Profile) -> float:
    """FLOP-weighted standard deviation of log2(FLOP/B) over operators that have both."""
    return _spread(profile, "flops")


@feature("ai_spread_bytes", unit="log2 units", needs="operators", transform="none", block="intensity spread")
def ai_spread_bytes(profile: Profile) -> float:
    """The same, byte-weighted."""
    return _spread(profile, "bytes")


def _spread(profile: Profile, by: str) -> float:
    frame = stream.calls(profile)
    frame = frame[(frame["flops"] > 0) & (frame["bytes"] > 0)]
    if frame.empty:
        raise NotMeasuredError("no operator has both FLOPs and bytes")
    intensity: NDArray[np.float64] = np.log2((frame["flops"] / frame["bytes"]).to_numpy())
    weight = (frame[by] * frame["share"]).to_numpy()
    mean = np.average(intensity, weights=weight)
    return float(np.sqrt(np.average((intensity - mean) ** 2, weights=weight)))


@feature("time_mem_bound_share", unit="fraction", needs="operators", transform="logit", block="memory-bound time",
         floor=SHARE_FLOOR, reference=_ROOF, origin=MODELLED)  # fmt: skip
def time_mem_bound_share(profile: Profile) -> Found:
    """Share of the least time under the roof of a named device in operators that its bandwidth bounds."""
    frame, device = stream.calls(profile), devices.device(REFERENCE_DEVICE)
    found, reason = roofline(frame["name"].tolist(), frame["flops"], frame["bytes"], types(profile), device)
    if found is None:
        raise NotMeasuredError(reason or "no roofline")
    seconds = found.rows["time_s"].to_numpy(np.float64, na_value=0.0) * frame["share"].to_numpy()
    bound = found.rows["bound"].fillna("").to_numpy() == "memory"
    share = ratio(seconds[bound].sum(), seconds.sum(), "no operator has a modelled time")
    return Found(share, device=device.name)


@feature("write_share", unit="fraction", needs="operators", transform="logit", block="writes")
def write_share(profile: Profile) -> float:
    """Bytes written over bytes read and written."""
    frame = stream.calls(profile)
    written = (frame["bytes_written"].astype("float64") * frame["share"]).sum()
    return ratio(written, (frame["bytes"] * frame["share"]).sum(), _NO_BYTES)


@feature("copy_layout_share", unit="fraction", needs="operators", transform="logit", block="spatial", tier="core",
         floor=SHARE_FLOOR)  # fmt: skip
def copy_layout_share(profile: Profile) -> float:
    """Bytes of operators that only copy, cast or change a layout (copy_, clone, contiguous, _to_copy, *_copy) over
    all; fills, concatenations and paddings are none of them."""
    frame = stream.calls(profile)
    moved = frame["bytes"] * frame["share"]
    copies = [_COPIES.match(name) is not None for name in frame["name"]]
    return ratio(moved[copies].sum(), moved.sum(), _NO_BYTES)
