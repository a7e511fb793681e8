"""Features of memory capacity: what is alive, and how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import SHARE_FLOOR, NotMeasuredError, feature, ratio, shares, weighted_median
from wcbench.analysis.definitions.parts import FOOTPRINT_CLASSES, FOOTPRINT_PARTS

if TYPE_CHECKING:
    from wcbench.record import Profile


@feature("footprint_peak", unit="B", needs="operators", transform="log10", block="footprint", tier="core")
def footprint_peak(profile: Profile) -> float:
    """Most bytes of storages alive at once, at the preset's batch, of the kind of step that needs most; of a stream
    counted at a shorter length the peak continued to the preset's."""
    continued = stream.at_preset_length(profile)
    peak = stream.largest(profile).live.peak_bytes if continued is None else continued["peak_bytes"]
    return float(peak)


@feature("footprint_per_sample", unit="B/sample", needs="operators", transform="log10", block="footprint fit",
         floor=1.0)  # fmt: skip
def footprint_per_sample(profile: Profile) -> float:
    """What one more sample adds to the peak: the slope of the fit over batch sizes (a maximum is straight in pieces
    only)."""
    return max(0.0, stream.fit(profile, "live_peak_bytes")[0])


@feature("footprint_fixed", unit="B", needs="operators", transform="log10", block="footprint fit", floor=1.0)
def footprint_fixed(profile: Profile) -> float:
    """What of the peak does not depend on the batch: the fixed part of the same fit, at least 0."""
    return max(0.0, stream.fit(profile, "live_peak_bytes")[1])


@feature("footprint_class_share", unit="fraction", needs="operators", transform="clr", block="footprint_class_share",
         tier="core", floor=SHARE_FLOOR, parts=FOOTPRINT_PARTS)  # fmt: skip
def footprint_class_share(profile: Profile) -> dict[str, float]:
    """Shares of the live bytes at that peak by class."""
    classes = stream.largest(profile).live.peak_classes
    return shares({part: classes[FOOTPRINT_CLASSES[part]] for part in FOOTPRINT_PARTS}, "nothing is alive")


@feature("unique_bytes_per_step", unit="B", needs="operators", transform="log10", block="footprint", tier="core")
def unique_bytes_per_step(profile: Profile) -> float:
    """Distinct bytes that an average step touches, by storage, offset and stride; of rows that data choose, those that
    operators move without a place of their own count as distinct."""
    return stream.average(profile, lambda view: view.logical.unique_bytes + view.logical.unplaced_bytes)


@feature("activation_per_param", unit="", needs="operators", transform="log", block="footprint", tier="core",
         floor=SHARE_FLOOR)  # fmt: skip
def activation_per_param(profile: Profile) -> float:
    """Most bytes of activations (what the forward pass leaves for the backward pass) alive at once over the bytes of
    the parameters, at the preset's batch."""
    activations = max(int(view.live.bytes_by_class["activation"].max()) for _, view in stream.memories(profile))
    parameters = stream.work(profile).params_bytes
    if not parameters:
        storages = profile.table("storages")
        parameters = int(storages.loc[storages["role"].astype(str) == "weight", "nbytes"].sum())
    return ratio(activations, parameters, "the record tells no parameters")


@feature("tensor_size_median", unit="B", needs="operators", transform="log2", block="tensor sizes")
def tensor_size_median(profile: Profile) -> float:
    """Byte-weighted median of what one access to a tensor moves: half of all bytes move in accesses up to this size."""
    rows = zip(stream.calls(profile)["share"], stream.lists(profile, "accesses"), strict=True)
    sizes = np.array([(a["nbytes"], share * a["nbytes"]) for share, row in rows for a in row], np.float64)
    if not len(sizes):
        raise NotMeasuredError("no operator moves a byte")
    return weighted_median(sizes[:, 0], sizes[:, 1])
