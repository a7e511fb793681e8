"""Features of size and work: FLOPs, parameters and where the bytes of a step go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import SHARE_FLOOR, NotMeasuredError, feature, ratio

if TYPE_CHECKING:
    from wcbench.record import Profile


@feature("flops_per_sample", unit="FLOP/sample", needs="operators", transform="log10", block="work", tier="core",
         reference="torch.utils.flop_counter; 1 MAC = 2 FLOP")  # fmt: skip
def flops_per_sample(profile: Profile) -> float:
    """FLOPs of all kinds that one more sample adds to a training step: the slope of the fit over batch sizes. What a
    step costs whatever its batch (the optimizer) is flops_fixed."""
    return stream.fit(profile, "flops_all")[0]


@feature("flops_fixed", unit="FLOP/step", needs="operators", transform="log10", block="work", floor=1.0)
def flops_fixed(profile: Profile) -> float:
    """FLOPs of a step that do not depend on the batch: the fixed part of the same fit, at least 0."""
    return max(0.0, stream.fit(profile, "flops_all")[1])


@feature("params_trainable", unit="count", needs="operators", transform="log10", block="parameters", tier="core")
def params_trainable(profile: Profile) -> float:
    """Trainable parameters; a shared tensor counts once."""
    return _known(stream.work(profile).params_trainable)


def _known(count: int | None) -> float:
    if not count:
        raise NotMeasuredError("the record has no list of parameters: an imported operator stream tells none")
    return float(count)


@feature("params_sparse_share", unit="fraction", needs="operators", transform="logit", block="parameters", tier="core",
         floor=SHARE_FLOOR)  # fmt: skip
def params_sparse_share(profile: Profile) -> float:
    """Share of all parameters that are looked up by row: elements of the weights that an operator of the category
    embedding and scatter gathers from (embedding, embedding_bag, index_select, index, gather)."""
    total = _known(stream.work(profile).params_total)
    storages = profile.table("storages")
    weights = set(storages.loc[storages["role"].astype(str) == "weight", "id"])
    lookups = (stream.calls(profile)["byte_part"] == "embedding").to_numpy()
    rows = [row for row, wanted in zip(stream.lists(profile, "accesses"), lookups, strict=True) if wanted]
    tables = {
        (a["storage"], a["offset"], math.prod(a["shape"]))
        for row in rows
        for a in row
        if a["kind"] == "gather" and a["storage"] in weights
    }
    return min(1.0, float(sum(elements for _, _, elements in tables)) / total)


@feature("bwd_fwd_flop_ratio", unit="", needs="operators", transform="log", block="work phases")
def bwd_fwd_flop_ratio(profile: Profile) -> float:
    """Matrix-class FLOPs of the backward pass over those of the forward pass: 2 of dense layers, less where the first
    layer needs no gradient of its input."""
    flops = stream.work(profile).flops_matrix
    backward = flops.get("backward", 0)
    if not backward:
        raise NotMeasuredError("the step has no backward pass with matrix products")
    return ratio(backward, flops.get("forward", 0), "the forward pass has no matrix products")


@feature("optimizer_byte_share", unit="fraction", needs="operators", transform="logit", block="work phases",
         floor=SHARE_FLOOR)  # fmt: skip
def optimizer_byte_share(profile: Profile) -> float:
    """Bytes that the optimizer's operators move over those of all."""
    frame = stream.calls(profile)
    moved = frame["bytes"] * frame["share"]
    return ratio(moved[frame["phase"] == "optimizer"].sum(), moved.sum(), "no operator moves a byte")


@feature("samples_per_step", unit="samples", needs="operators", transform="log2", block="batch", tier="meta")
def samples_per_step(profile: Profile) -> float:
    """Samples of an average step: a knob of the workload, not a property of it."""
    return stream.samples(profile)
