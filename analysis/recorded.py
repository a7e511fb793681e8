"""Which recorded steps the figures of an operator stream are of: the last of each kind, each with its share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.errors import UnknownNameError

if TYPE_CHECKING:
    import pyarrow as pa

    from wcbench.record import Profile

_PASS = "operators"
_LISTS = ["inputs", "outputs", "accesses"]


@dataclass(frozen=True)
class RecordedStep:
    """The last recorded step of a kind, and the kind's share of all steps of a training."""

    kind: str
    step: int
    share: float


def recorded_steps(profile: Profile) -> list[RecordedStep]:
    """The last recorded step of each kind, in order of the stream; empty without a stream.

    Shares are those of the task (`PassInfo.step_kinds`); of several kinds without shares, as records of before schema
    version 3 have them, only the last step counts.
    """
    table = profile.arrow(_PASS).select(["step", "kind"]).to_pandas().drop_duplicates()
    if table.empty:
        return []
    last = table.astype({"kind": str}).groupby("kind")["step"].max().sort_values()
    shares = dict(profile.manifest.passes[_PASS].step_kinds)
    if not set(last.index) <= set(shares):
        return [RecordedStep(str(last.index[-1]), int(last.iloc[-1]), 1.0)]
    total = sum(shares[kind] for kind in last.index)
    return [RecordedStep(str(kind), int(step), shares[kind] / total) for kind, step in last.items()]


def average_samples(profile: Profile) -> float | None:
    """Samples of an average step: those of each recorded kind, weighed by its share; None where a file tells none."""
    info = profile.manifest.passes[_PASS]
    if info.samples is None or not info.kind_samples:
        return info.samples
    return sum(step.share * info.kind_samples.get(step.kind, info.samples) for step in recorded_steps(profile))


def main_step(profile: Profile, kind: str | None = None) -> RecordedStep | None:
    """The recorded step of a kind, by default of the one that moves most bytes in a training; None without a stream.

    Raises UnknownNameError for a kind that was not recorded.
    """
    steps = recorded_steps(profile)
    if kind is not None and kind not in {step.kind for step in steps}:
        raise UnknownNameError("kind of step", kind, [step.kind for step in steps])
    if kind is not None:
        return next(step for step in steps if step.kind == kind)
    if len(steps) < 2:
        return steps[0] if steps else None
    table = profile.arrow(_PASS).select(["step", "bytes_read", "bytes_written"]).to_pandas()
    moved = table.groupby("step").sum().sum(axis=1)
    return max(steps, key=lambda step: step.share * float(moved[step.step]))


def rows_of(profile: Profile, kind: str | None = None) -> pa.Table:
    """Rows of table `operators` of `main_step`, in order."""
    import pyarrow.compute as pc

    table = profile.arrow(_PASS)
    step = main_step(profile, kind)
    return table if step is None else table.filter(pc.equal(table["step"], step.step))


def calls_of(profile: Profile, kind: str | None = None) -> pd.DataFrame:
    """The same as a data frame, without the columns of lists."""
    frame: pd.DataFrame = rows_of(profile, kind).drop_columns(_LISTS).to_pandas()
    return frame


def mixture(profile: Profile) -> pd.DataFrame:
    """Rows of all of `recorded_steps`, without the columns of lists, with the kind's share in the column ``share``."""
    share = {step.step: step.share for step in recorded_steps(profile)}
    frame: pd.DataFrame = profile.arrow(_PASS).drop_columns(_LISTS).to_pandas()
    frame = frame[frame["step"].isin(share)]
    return frame.assign(share=frame["step"].map(share).astype("float64"))
