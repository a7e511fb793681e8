"""Features of parallelism: of the graph of operators, and within an operator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import feature, ratio, weighted_median

if TYPE_CHECKING:
    from wcbench.record import Profile


@feature("dag_width_mean", unit="", needs="operators", transform="log", block="parallelism", tier="core")
def dag_width_mean(profile: Profile) -> float:
    """FLOPs of a step over the FLOPs on its longest path of true dependences between operators: how many operators
    could run at once. Weighted by FLOPs, so that views count for nothing."""
    flops = stream.average(profile, lambda view: view.parallelism.flops)
    on_path = stream.average(profile, lambda view: view.parallelism.flops_on_path)
    return ratio(flops, on_path, "no operator has FLOPs")


@feature("dlp_median", unit="elements", needs="operators", transform="log2", block="parallelism", tier="core")
def dlp_median(profile: Profile) -> float:
    """FLOP-weighted median number of elements of an operator's results: half of all FLOPs are in operators with no
    more."""
    frame = stream.calls(profile)
    elements = [sum(math.prod(t["shape"]) for t in row) for row in stream.lists(profile, "outputs")]
    return weighted_median(elements, frame["flops"] * frame["share"])


@feature("serial_depth_per_sample", unit="operators", needs="operators", transform="log10", block="depth")
def serial_depth_per_sample(profile: Profile) -> float:
    """Operators on the longest path of a step: the catalogue's name, though a batch's samples share the path."""
    return stream.average(profile, lambda view: view.parallelism.depth)
