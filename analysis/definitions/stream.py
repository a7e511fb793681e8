"""What features of the operator stream share: the calls, accesses and memory views of a record, each made once.

Where steps differ in kind, sums are of an average step: each kind's last recorded step weighs as much as its share of
all steps of a training (`recorded.mixture`). Curves of several kinds add up in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from wcbench.analysis.complexity import Complexity, complexity
from wcbench.analysis.definitions.base import NotMeasuredError, once, pass_of
from wcbench.analysis.definitions.parts import operator_parts
from wcbench.analysis.live import LiveBytes, live_bytes
from wcbench.analysis.locality import Locality, locality
from wcbench.analysis.memory import accesses_of, lifetimes_of
from wcbench.analysis.parallel import Parallelism, parallelism
from wcbench.analysis.recorded import RecordedStep, average_samples, mixture, recorded_steps
from wcbench.analysis.scaling import WHOLE_STEP, continued, scaling
from wcbench.analysis.source import imported
from wcbench.analysis.stack import Curve

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"


def work(profile: Profile) -> Complexity:
    """Parameters, FLOPs and bytes of an average step."""
    pass_of(profile, _PASS)
    found = once(profile, "complexity", lambda: complexity(profile))
    if found is None or found.operators.empty:
        raise NotMeasuredError("the record's operator stream has no operators")
    return found


def samples(profile: Profile) -> float:
    """Samples of an average step."""
    work(profile)
    found = average_samples(profile)
    if not found:
        raise NotMeasuredError("the imported file does not tell how many samples a step consumes")
    return float(found)


def calls(profile: Profile) -> pd.DataFrame:
    """Calls of an average step: the columns of table operators without lists, share, bytes, flop_part, byte_part, and
    ``flops`` (all, 0 where no formula counts the operator; which ones stands in the record's notes)."""
    work(profile)
    return once(profile, "calls", lambda: _calls(profile))


def _calls(profile: Profile) -> pd.DataFrame:
    frame = mixture(profile).astype({"name": str, "overload": str, "phase": str})
    parts = {name: operator_parts(name) for name in frame["name"].unique()}
    return frame.assign(
        bytes=(frame["bytes_read"] + frame["bytes_written"]).astype("float64"),
        flops=frame["flops_all"].fillna(0).astype("float64"),
        matrix=frame["flops_matrix"].fillna(0).astype("float64"),
        flop_part=frame["name"].map({name: of_flops for name, (of_flops, _) in parts.items()}),
        byte_part=frame["name"].map({name: of_bytes for name, (_, of_bytes) in parts.items()}),
    )


def by_part(frame: pd.DataFrame, part: str, amount: str, parts: Sequence[str]) -> dict[str, float]:
    """Sums of a column over an average step, for every part."""
    sums = (frame[amount] * frame["share"]).groupby(frame[part]).sum()
    return {name: float(sums.get(name, 0.0)) for name in parts}


def lists(profile: Profile, column: str) -> list[Any]:
    """A column of lists of the same rows as `calls`, as Python objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def read() -> list[Any]:
        table = profile.arrow(_PASS).select(["step", column])
        wanted = [step.step for step in recorded_steps(profile)]
        kept = table.filter(pc.is_in(table["step"], value_set=pa.array(wanted, pa.int64())))
        return cast("list[Any]", kept[column].to_pylist())

    return once(profile, f"lists of {column}", read)


# --- the fit over batch sizes -----------------------------------------------------------------------------------------


def fit(profile: Profile, *quantities: str) -> tuple[float, float]:
    """(per sample, fixed) parts of quantities of an average step, added up, at the preset's own length.

    Each kind of step is a line in its own samples; a training's mean sample pays the kinds' slopes weighed by the
    samples that they consume, and an average step pays their fixed parts weighed by their shares.
    """
    work(profile)
    found = scaling(profile)
    if found is None:
        advice = "an imported stream is of one batch" if imported(profile) else "profile it without --no-scaling"
        raise NotMeasuredError(f"the record has no fit over batch sizes: {advice}")
    info, rows = profile.manifest.passes[_PASS], found.at_preset()
    rows = rows[(rows["phase"] == WHOLE_STEP) & rows["quantity"].isin(quantities)]
    slope = fixed = consumed = 0.0
    for step in recorded_steps(profile):
        mine = rows[rows["kind"] == step.kind]
        if set(mine["quantity"]) != set(quantities):
            raise NotMeasuredError(f"the fit over batch sizes lacks {', '.join(quantities)} of the kind '{step.kind}'")
        count = info.kind_samples.get(step.kind, info.samples) or 0
        slope += step.share * count * float(mine["per_sample"].sum())
        fixed += step.share * float(mine["fixed"].sum())
        consumed += step.share * count
    if not consumed:
        raise NotMeasuredError("the record does not tell how many samples a step consumes")
    return slope / consumed, fixed


def at_preset_length(profile: Profile) -> dict[str, Any] | None:
    """Figures of an average step continued to the preset's length (`scaling.continued`); None where it was counted."""
    work(profile)
    return once(profile, "continued", lambda: continued(profile))


# --- the memory views -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """What features need of `memory.memory`, which with addresses, fusion and tiling takes more than twice the time."""

    live: LiveBytes
    logical: Locality
    parallelism: Parallelism


Kinds = list[tuple[RecordedStep, View]]


def memories(profile: Profile) -> Kinds:
    """The memory view of each kind of step; the costly part of all features, made once."""
    work(profile)
    found = once(profile, "memories", lambda: _memories(profile))
    if not found:
        raise NotMeasuredError("the record's operator stream has no storages")
    return found


def _memories(profile: Profile) -> Kinds:
    found: Kinds = []
    accesses = lives = None
    for step in recorded_steps(profile):
        live = live_bytes(profile, step.kind)
        if live is None:
            continue
        accesses = accesses_of(profile) if accesses is None else accesses
        lives = lifetimes_of(profile) if lives is None else lives
        logical = locality(accesses.take(accesses.step <= step.step), lives)
        found.append((step, View(live, logical, _parallelism(profile, step))))
    return found


def _parallelism(profile: Profile, step: RecordedStep) -> Parallelism:
    frame = calls(profile)
    mine = np.flatnonzero(frame["step"] == step.step)
    rows = [lists(profile, "accesses")[place] for place in mine.tolist()]
    reads, writes = ([{a["storage"] for a in row if a["write"] == w and a["nbytes"]} for row in rows] for w in (0, 1))
    return parallelism(reads, writes, [int(flops) for flops in frame["flops"].iloc[mine]])


def average(profile: Profile, quantity: Callable[[View], float]) -> float:
    """A quantity that adds up, of an average step."""
    return math.fsum(step.share * float(quantity(view)) for step, view in memories(profile))


def largest(profile: Profile) -> View:
    """The view of the kind of step whose peak of live bytes is greatest."""
    return max((view for _, view in memories(profile)), key=lambda view: view.live.peak_bytes)


def kind_flops(profile: Profile) -> float:
    """All FLOPs of an average step of those kinds that have a memory view."""
    known = {step.kind for step, _ in memories(profile)}
    frame = calls(profile)
    frame = frame[frame["kind"].astype(str).isin(known)]
    return float((frame["flops"] * frame["share"]).sum())


def working_set(profile: Profile, percent: int) -> float:
    """Smallest LRU capacity in bytes with ``percent`` % of the byte hits that can be had at all, of an average step."""
    curves = [(step.share, view.logical.curve_all) for step, view in memories(profile)]
    if len(curves) == 1:
        found = curves[0][1].capacity_for(percent)
        if found is None:
            raise NotMeasuredError("no byte is touched twice")
        return float(found)
    return _smallest(curves, percent)


def _smallest(curves: Sequence[tuple[float, Curve]], percent: int) -> float:
    """The same of several curves: by halving, since what is missed never rises with the capacity."""
    all_hits = sum(share * curve.finite for share, curve in curves)
    if not all_hits:
        raise NotMeasuredError("no byte is touched twice")
    left = all_hits * (1 - percent / 100) * (1 + 1e-12)

    def missed(capacity: int) -> float:
        return float(sum(share * (int(curve(capacity)) - curve.always) for share, curve in curves))

    low, high = 0, 2**62
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if missed(middle) <= left else (middle + 1, high)
    return float(low)


def missed(profile: Profile, capacity: int) -> float:
    """Share of the touched bytes that miss in an LRU cache."""
    touched = average(profile, lambda view: view.logical.operator_bytes)
    if not touched:
        raise NotMeasuredError("no operator moves a byte")
    return average(profile, lambda view: float(view.logical.curve_all(capacity))) / touched


def traffic(profile: Profile, capacity: int) -> float:
    """Bytes between a cache and the memory behind it: read misses and write-backs."""
    return average(profile, lambda view: float(view.logical.traffic_at(np.array([capacity]))[0]))
