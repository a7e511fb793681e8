"""Features of temporal locality, by the inter-operator reuse model (docs/locality.md) with a warm cache."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import (
    MODELLED,
    SHARE_FLOOR,
    NotMeasuredError,
    feature,
    ratio,
    shares,
    weighted_median,
)
from wcbench.analysis.definitions.parts import CAPACITIES, REUSE_CLASSES, REUSE_PARTS
from wcbench.analysis.memory import lifetimes_of
from wcbench.analysis.recorded import main_step

if TYPE_CHECKING:
    from wcbench.record import Profile

_REUSE = "Mattson et al. 1970; docs/locality.md"
_NO_BYTES = "no operator moves a byte"


@feature("mrc_miss_ratio", unit="fraction", needs="operators", transform="logit", block="miss ratios",
         floor=SHARE_FLOOR, parts=tuple(CAPACITIES), reference=_REUSE, origin=MODELLED)  # fmt: skip
def mrc_miss_ratio(profile: Profile) -> dict[str, float]:
    """Share of the touched bytes that miss in an LRU cache of this capacity, warmed by the steps before."""
    return {part: stream.missed(profile, capacity) for part, capacity in CAPACITIES.items()}


@feature("wss_50", unit="B", needs="operators", transform="log2", block="working sets", tier="core", reference=_REUSE,
         origin=MODELLED)  # fmt: skip
def wss_50(profile: Profile) -> float:
    """Smallest LRU capacity with 50 % of the byte hits that an infinite one has."""
    return stream.working_set(profile, 50)


@feature("wss_90", unit="B", needs="operators", transform="log2", block="working sets", tier="core", reference=_REUSE,
         origin=MODELLED)  # fmt: skip
def wss_90(profile: Profile) -> float:
    """The same for 90 %."""
    return stream.working_set(profile, 90)


@feature("wss_99", unit="B", needs="operators", transform="log2", block="working sets", tier="core", reference=_REUSE,
         origin=MODELLED)  # fmt: skip
def wss_99(profile: Profile) -> float:
    """The same for 99 %."""
    return stream.working_set(profile, 99)


@feature("reuse_dist_median", unit="B", needs="operators", transform="log2", block="working sets", tier="core",
         reference=_REUSE, origin=MODELLED)  # fmt: skip
def reuse_dist_median(profile: Profile) -> float:
    """Byte-weighted median of the finite stack distances: by definition the same number as wss_50, in one block with
    it."""
    return stream.working_set(profile, 50)


@feature("cold_share", unit="fraction", needs="operators", transform="logit", block="reuse", floor=SHARE_FLOOR,
         origin=MODELLED)  # fmt: skip
def cold_share(profile: Profile) -> float:
    """Share of the bytes touched in a step that no step before and no operator of this one left behind: they miss in
    every cache."""
    touched = stream.average(profile, lambda view: view.logical.operator_bytes)
    return ratio(stream.average(profile, lambda view: view.logical.curve_all.always), touched, _NO_BYTES)


@feature("reuse_class_share", unit="fraction", needs="operators", transform="clr", block="reuse_class_share",
         tier="core", floor=SHARE_FLOOR, parts=REUSE_PARTS, origin=MODELLED)  # fmt: skip
def reuse_class_share(profile: Profile) -> dict[str, float]:
    """Shares of the reused bytes by class: within 16 operators, from forward to backward, from step to step, in the
    optimizer, other; what fits several is of the first of same chain, optimizer, step to step, forward to backward."""
    return shares({part: _reused(profile, REUSE_CLASSES[part]) for part in REUSE_PARTS}, "no byte is touched twice")


def _reused(profile: Profile, name: str) -> float:
    """Reused bytes of a class."""
    found = [(step.share, view.logical) for step, view in stream.memories(profile)]
    return math.fsum(share * part.curve_all.finite * part.reuse_classes.get(name, 0.0) for share, part in found)


@feature("reuse_count_mean", unit="touches/B", needs="operators", transform="log", block="reuse")
def reuse_count_mean(profile: Profile) -> float:
    """Bytes touched over distinct bytes, of accesses that have a place."""
    unique = stream.average(profile, lambda view: view.logical.unique_bytes)
    touched = stream.average(profile, lambda v: (v.logical.reuse_count_mean or 0.0) * v.logical.unique_bytes)
    return ratio(touched, unique, "no access has a place")


@feature("lifetime_median", unit="fraction", needs="operators", transform="logit", block="reuse", floor=SHARE_FLOOR)
def lifetime_median(profile: Profile) -> float:
    """Byte-weighted median life of the storages alive in a step, in operators over those of the step; what is older
    and stays has 1. Of the kind of step that moves most bytes."""
    frame, step = stream.calls(profile), main_step(profile)
    if step is None or profile.table("storages").empty:
        raise NotMeasuredError("the record's operator stream has no storages")
    orders = frame.loc[frame["step"] == step.step, "order"]
    first, end = int(orders.min()), int(orders.max()) + 1
    lives = lifetimes_of(profile)
    nbytes = profile.table("storages")["nbytes"].to_numpy(np.int64)
    alive = (lives.born < end) & (lives.died > first)
    length = np.minimum(lives.died, end) - np.maximum(lives.born, first)
    return weighted_median((length / (end - first))[alive], nbytes[alive])
