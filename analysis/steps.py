"""Step times: raw times in, median and quartiles out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

WIDE_SPREAD = 0.2
"""Quartile range over median from which step times are called noisy."""

LEAST_OVERHEAD = 0.95
"""Steps with an instrument that seem faster than this share of those without it were timed on a busy machine."""


@dataclass(frozen=True)
class StepTimes:
    """Times of the measured steps of one pass, in nanoseconds; warm-up and bare steps are not in them.

    ``overhead`` is the median step with the instrument over the median step without it in the same pass; 1 for
    `timing`, which has no instrument, and None where a pass timed no bare steps.
    """

    source: Source
    samples: int
    durations_ns: tuple[int, ...]
    overhead: float | None
    loss_first: float | None
    loss_last: float | None
    kinds: int = 1
    samples_total: int = 0

    @property
    def quartiles_ns(self) -> tuple[float, float, float]:
        """First quartile, median, third quartile."""
        values = pd.Series(self.durations_ns).quantile([0.25, 0.5, 0.75])
        return float(values.iloc[0]), float(values.iloc[1]), float(values.iloc[2])

    @property
    def median_ns(self) -> float:
        return self.quartiles_ns[1]

    @property
    def spread(self) -> float:
        """Quartile range over median."""
        low, middle, high = self.quartiles_ns
        return (high - low) / middle if middle else 0.0

    @property
    def samples_per_s(self) -> float:
        """By the median step; by all steps where they differ in kind, since the median is then of one kind."""
        if self.kinds > 1:
            return self.samples_total / (sum(self.durations_ns) / 1e9)
        return self.samples / (self.median_ns / 1e9)

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"duration_ns": self.durations_ns})

    def __repr__(self) -> str:
        low, middle, high = (value / 1e6 for value in self.quartiles_ns)
        return (
            f"{len(self.durations_ns)} steps: median {middle:.3g} ms (quartiles {low:.3g} to {high:.3g}), "
            f"{self.samples_per_s:.4g} samples/s ({self.source})"
        )


def step_times(profile: Profile) -> dict[str, StepTimes]:
    """Step times by pass, for every pass that timed steps."""
    table = profile.table("steps")
    found = {}
    for name in profile.manifest.passes:
        rows = table[table["pass"] == name]
        measured = rows[rows["role"] == "measured"]
        origin = source(profile, name)
        if measured.empty or origin is None:
            continue
        losses = [None if pd.isna(loss) else float(loss) for loss in measured["loss"]]
        found[name] = StepTimes(
            source=origin,
            samples=int(measured["samples"].iloc[0]),
            durations_ns=tuple(int(ns) for ns in measured["duration_ns"]),
            overhead=1.0 if name == "timing" else _overhead(rows, measured),
            loss_first=losses[0],
            loss_last=losses[-1],
            kinds=int(measured["kind"].nunique()),
            samples_total=int(measured["samples"].sum()),
        )
    return found


def bare_median_ns(profile: Profile, passname: str) -> float | None:
    """Median of a pass's steps without its instrument; None where it timed none."""
    table = profile.table("steps")
    bare = table.loc[(table["pass"] == passname) & (table["role"] == "bare"), "duration_ns"]
    return None if bare.empty else float(bare.median())


def _overhead(rows: pd.DataFrame, measured: pd.DataFrame) -> float | None:
    bare = rows.loc[rows["role"] == "bare", "duration_ns"]
    return None if bare.empty else float(measured["duration_ns"].median() / bare.median())
