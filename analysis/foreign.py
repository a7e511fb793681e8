"""Blocks of the summary that imported files bring alone: counters and memory timelines."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from wcbench.analysis.allocations import allocations
from wcbench.analysis.counters import aibench_five, counters

if TYPE_CHECKING:
    from wcbench.record import Profile

_MOMENTS = 400
"""Of a memory timeline; a figure shows no more."""


def counters_block(profile: Profile) -> dict[str, Any] | None:
    """Every counter, and AIBench's five made of them (None of metrics of other devices than NVIDIA's)."""
    found = counters(profile)
    if found is None:
        return None
    five = {name: dataclasses.asdict(figure) for name, figure in aibench_five(profile).items()}
    told = {"hardware": found.hardware, "unknown": list(found.unknown), "five": five if found.nvidia else None}
    return {**found.to_dict(), **told}


def allocations_block(profile: Profile) -> dict[str, Any] | None:
    """The peak of a memory timeline, and some of its moments: the first, the last and the peak among them."""
    found = allocations(profile)
    if found is None:
        return None
    every = -(-len(found.time_ns) // _MOMENTS)
    places = sorted({*range(0, len(found.time_ns), every), found.peak_at, len(found.time_ns) - 1})
    return {
        **found.source.to_dict(),
        "rank": found.rank,
        "moments": len(found.time_ns),
        "peak_bytes": found.peak_bytes,
        "peak_ns": found.peak_ns,
        "peak_categories": found.peak_categories,
        "start_bytes": found.start_bytes,
        "start_categories": found.start_categories,
        "end_bytes": found.end_bytes,
        "time_ns": [int(found.time_ns[i]) for i in places],
        "curve": {name: [int(values[i]) for i in places] for name, values in found.bytes_by_category.items()},
    }
