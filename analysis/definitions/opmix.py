"""Features of the mix of operators: what kinds, how many, in which types and shapes."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wcbench import devices, kernels
from wcbench.analysis.definitions import stream
from wcbench.analysis.definitions.base import (
    MEASURED,
    MODELLED,
    SHARE_FLOOR,
    Found,
    NotMeasuredError,
    feature,
    pass_of,
    shares,
)
from wcbench.analysis.definitions.parts import (
    BATCHED,
    BYTE_PARTS,
    DTYPE_PARTS,
    FLOP_PARTS,
    PAPER_PARTS,
    TIME_PARTS,
    dtype_part,
)
from wcbench.analysis.hotspots import HOST_TIME, categories
from wcbench.analysis.recorded import recorded_steps
from wcbench.analysis.roofline import roofline

if TYPE_CHECKING:
    from wcbench.record import Profile

_AITCHISON = "Aitchison 1982: a composition, one block"
_NO_BYTES = "no operator moves a byte"
REFERENCE_DEVICE = "a100-sxm-80gb"
"""Id of the device on which roofline-modelled times stand: named wherever they are shown."""


@feature("op_class_flop_share", unit="fraction", needs="operators", transform="clr", block="op_class_flop_share",
         tier="core", floor=SHARE_FLOOR, parts=FLOP_PARTS, reference=_AITCHISON)  # fmt: skip
def op_class_flop_share(profile: Profile) -> dict[str, float]:
    """Shares of all FLOPs of a step by class of operator."""
    amounts = stream.by_part(stream.calls(profile), "flop_part", "flops", FLOP_PARTS)
    return shares(amounts, "no operator has FLOPs")


@feature("op_class_byte_share", unit="fraction", needs="operators", transform="clr", block="op_class_byte_share",
         tier="core", floor=SHARE_FLOOR, parts=BYTE_PARTS, reference=_AITCHISON)  # fmt: skip
def op_class_byte_share(profile: Profile) -> dict[str, float]:
    """Shares of the bytes that operators read and write, by class of operator."""
    return shares(stream.by_part(stream.calls(profile), "byte_part", "bytes", BYTE_PARTS), _NO_BYTES)


@feature("kernel_class_time_share", unit="fraction", needs="timeline", transform="clr", block="kernel_class_time_share",
         tier="core", floor=SHARE_FLOOR, parts=TIME_PARTS, origin=MEASURED,
         reference="AIBench Training, ISPASS 2021: hotspot functions")  # fmt: skip
def kernel_class_time_share(profile: Profile) -> Found:
    """Shares of kernel time (on a CPU: of operators' self time) by AIBench Training's eight categories; what is none
    of the eight or unknown is `other`. Idle time is no part."""
    pass_of(profile, "timeline")
    found = categories(profile)
    if found is None:
        raise NotMeasuredError("the timeline has no kernels or operators with time in its measured steps")
    amounts = dict.fromkeys(TIME_PARTS, 0.0)
    for name, share in found.paper.items():
        amounts[PAPER_PARTS[name]] += share
    remark = "operators' self time on the host" if found.of == HOST_TIME else ""
    return Found(shares(amounts, "no kernel has time"), remark=remark)


@feature("kernel_class_time_modelled", unit="fraction", needs="operators", transform="clr",
         block="kernel_class_time_modelled", floor=SHARE_FLOOR, parts=TIME_PARTS, origin=MODELLED,
         reference="Williams, Waterman and Patterson 2009")  # fmt: skip
def kernel_class_time_modelled(profile: Profile) -> Found:
    """The same shares of the least time that each operator of the stream takes under the roof of a named device
    (REFERENCE_DEVICE): a model at paper scale, no measurement."""
    frame, device = stream.calls(profile), devices.device(REFERENCE_DEVICE)
    found, reason = roofline(frame["name"].tolist(), frame["flops"], frame["bytes"], types(profile), device)
    if found is None:
        raise NotMeasuredError(reason or "no roofline")
    amounts = dict.fromkeys(TIME_PARTS, 0.0)
    seconds = found.rows["time_s"].to_numpy(np.float64, na_value=0.0) * frame["share"].to_numpy()
    for name, time in zip(frame["name"], seconds, strict=True):
        amounts[PAPER_PARTS[kernels.classify(name, host=True).paper]] += time
    return Found(shares(amounts, "no operator has a modelled time"), device=device.name)


def types(profile: Profile) -> list[str]:
    """The type in which each call computes: of its first result, float32 where it has none."""
    return [row[0]["dtype"] if row else "float32" for row in stream.lists(profile, "outputs")]


@feature("op_types_distinct", unit="count", needs="operators", transform="log", block="stream")
def op_types_distinct(profile: Profile) -> float:
    """Distinct operators and overloads in the recorded kinds of step."""
    return float(len(stream.calls(profile)[["name", "overload"]].drop_duplicates()))


@feature("op_entropy_hill1", unit="effective number", needs="operators", transform="log", block="stream",
         reference="Hill 1973, q = 1")  # fmt: skip
def op_entropy_hill1(profile: Profile) -> float:
    """Exponential of the Shannon entropy of op_class_byte_share: how many classes the bytes are spread over."""
    found = shares(stream.by_part(stream.calls(profile), "byte_part", "bytes", BYTE_PARTS), _NO_BYTES)
    return math.exp(-math.fsum(p * math.log(p) for p in found.values() if p > 0))


@feature("ops_per_step", unit="count", needs="operators", transform="log10", block="stream", tier="core")
def ops_per_step(profile: Profile) -> float:
    """Operator calls of an average training step at the preset's batch (views included); of a stream counted at a
    shorter length the calls continued to the preset's."""
    continued = stream.at_preset_length(profile)
    return float(stream.calls(profile)["share"].sum()) if continued is None else float(continued["operator_calls"])


@feature("shape_distinct_per_op", unit="fraction", needs="operators", transform="logit", block="shapes",
         floor=SHARE_FLOOR)  # fmt: skip
def shape_distinct_per_op(profile: Profile) -> float:
    """Distinct signatures (operator, shapes, strides and types of its inputs) over calls."""
    signatures = _signatures(profile)
    return len(set(signatures)) / len(signatures)


def _signatures(profile: Profile) -> list[Any]:
    names = stream.calls(profile)["name"]
    return [
        (name, *((tuple(t["shape"]), tuple(t["stride"]), t["dtype"]) for t in row))
        for name, row in zip(names, stream.lists(profile, "inputs"), strict=True)
    ]


@feature("shape_change_rate", unit="fraction", needs="operators", transform="logit", block="shapes", floor=SHARE_FLOOR)
def shape_change_rate(profile: Profile) -> float:
    """Share of the calls of a step whose signature did not occur in the step of its kind before. Not of fake tensors,
    which have fixed shapes by construction."""
    stream.work(profile)
    if profile.manifest.passes["operators"].tensors == "fake":
        raise NotMeasuredError("fake tensors have fixed shapes: a stream of real tensors tells it")
    table = profile.arrow("operators").select(["step", "kind", "name", "inputs"]).to_pylist()
    changed = counted = 0.0
    for step in recorded_steps(profile):
        before = [row["step"] for row in table if row["kind"] == step.kind and row["step"] < step.step]
        if not before:
            raise NotMeasuredError(f"one step of the kind '{step.kind}' was recorded: two are needed")
        known = Counter(_signature(row) for row in table if row["step"] == max(before))
        mine = [_signature(row) for row in table if row["step"] == step.step]
        changed += step.share * sum(signature not in known for signature in mine)
        counted += step.share * len(mine)
    return changed / counted


def _signature(row: Any) -> Any:
    return (row["name"], *((tuple(t["shape"]), tuple(t["stride"]), t["dtype"]) for t in row["inputs"]))


# --- products ---------------------------------------------------------------------------------------------------------


@feature("gemm_aspect", unit="log2 units", needs="operators", transform="none", block="gemm shape")
def gemm_aspect(profile: Profile) -> float:
    """FLOP-weighted mean of log2(max(M, N, K) / min(M, N, K)) over matrix products."""
    extents, weights = _products(profile)
    aspect = np.log2(extents.max(axis=1) / extents.min(axis=1))
    return float(np.average(aspect, weights=weights))


@feature("gemm_dim_geomean", unit="elements", needs="operators", transform="log2", block="gemm shape")
def gemm_dim_geomean(profile: Profile) -> float:
    """FLOP-weighted geometric mean of (M N K)^(1/3) over matrix products."""
    extents, weights = _products(profile)
    return float(np.exp(np.average(np.log(extents).mean(axis=1), weights=weights)))


def _products(profile: Profile) -> tuple[Any, Any]:
    """M, N, K of each product (n x 3) and its FLOPs in an average step; K is FLOPs / (2 M N)."""
    frame, rows = stream.calls(profile), stream.lists(profile, "outputs")
    found = []
    columns = zip(frame["name"], frame["matrix"], frame["share"], rows, strict=True)
    for name, flops, share, outputs in columns:
        if flops and outputs and kernels.classify(name, host=True).full == "GEMM":
            shape = [1, 1, *outputs[0]["shape"]]
            count = math.prod(shape[:-2]) if name in BATCHED else 1
            m, n = (shape[-2], shape[-1]) if name in BATCHED else (math.prod(shape[:-1]), shape[-1])
            if m and n:
                found.append((m, n, flops / (2 * m * n * count), flops * share))
    if not found:
        raise NotMeasuredError("no operator is a matrix product")
    table = np.array(found, np.float64)
    return table[:, :3], table[:, 3]


@feature("dtype_byte_share", unit="fraction", needs="operators", transform="clr", block="dtype_byte_share",
         floor=SHARE_FLOOR, parts=DTYPE_PARTS, reference=_AITCHISON)  # fmt: skip
def dtype_byte_share(profile: Profile) -> dict[str, float]:
    """Shares of the bytes moved by element type; `int` is all integers of 32 bits and less. TF32 is a mode of float32
    products and shows in no stream; complex numbers count as their parts."""
    amounts = dict.fromkeys(DTYPE_PARTS, 0.0)
    for share, row in zip(stream.calls(profile)["share"], stream.lists(profile, "accesses"), strict=True):
        for access in row:
            amounts[dtype_part(access["dtype"])] += share * access["nbytes"]
    return shares(amounts, _NO_BYTES)
