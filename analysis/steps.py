"""Step times: raw times in, median and quartiles out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wcbench.analysis.executions import OUTSIDE, SYNCHRONIZATION, executions
from wcbench.analysis.selection import unmarked
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

WIDE_SPREAD = 0.2
"""Quartile range over median from which step times are called noisy."""

LEAST_OVERHEAD = 0.95
"""Steps with an instrument that seem faster than this share of those without it were timed on a busy machine."""


@dataclass(frozen=True)
class StepTimes(Shown):
    """Times of the measured steps of one pass, in nanoseconds; warm-up and bare steps are not in them.

    Where steps differ in kind, ``samples`` is of an average step (None where an imported file tells none), and losses
    are of the kind with most steps in a training; of several ``ranks`` the steps of all are here. ``by_kind`` has each
    kind's times, ``shares`` its share of all steps. ``overhead`` is the median step with
    the instrument over the median step without it in the same pass; 1 for `timing`, which has no instrument, and None
    where a pass timed no bare steps.
    """

    source: Source
    samples: float | None
    durations_ns: tuple[int, ...]
    overhead: float | None
    loss_first: float | None
    loss_last: float | None
    by_kind: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    ranks: int = 1

    @property
    def quartiles_ns(self) -> tuple[float, float, float]:
        """First quartile, median, third quartile; where steps differ in kind, those of each kind weighed by its share
        of all steps of a training: an average step's."""
        if len(self.by_kind) < 2:
            return _quartiles(self.durations_ns)
        low, middle, high = (
            sum(self.shares[kind] * _quartiles(times)[place] for kind, times in self.by_kind.items())
            for place in range(3)
        )
        return low, middle, high

    @property
    def median_ns(self) -> float:
        return self.quartiles_ns[1]

    @property
    def spread(self) -> float:
        """Quartile range over median, the widest of any kind of step."""
        kinds = list(self.by_kind.values()) if len(self.by_kind) > 1 else [self.durations_ns]
        ranges = [_quartiles(times) for times in kinds]
        return max((high - low) / middle if middle else 0.0 for low, middle, high in ranges)

    @property
    def samples_per_s(self) -> float | None:
        """By the median step, of one process; None without samples or time."""
        return self.samples / (self.median_ns / 1e9) if self.samples and self.median_ns else None

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"duration_ns": self.durations_ns})

    def __repr__(self) -> str:
        low, middle, high = (value / 1e6 for value in self.quartiles_ns)
        rate = "" if self.samples_per_s is None else f", {self.samples_per_s:.4g} samples/s"
        several = f" of {self.ranks} ranks" if self.ranks > 1 else ""
        return (
            f"{len(self.durations_ns)} steps{several}: median {middle:.3g} ms (quartiles {low:.3g} to {high:.3g})"
            f"{rate} ({self.source})"
        )


def step_times(profile: Profile) -> dict[str, StepTimes]:
    """Step times by pass, for every pass that timed steps; a trace without marks of steps timed none."""
    table = profile.table("steps")
    found = {}
    for name in profile.manifest.passes:
        rows = table[table["pass"] == name]
        measured = rows[rows["role"] == "measured"]
        origin = source(profile, name)
        if measured.empty or origin is None or unmarked(profile, name):
            continue
        shares = _shares(profile, name, measured)
        kinds = {kind: measured[measured["kind"].astype(str) == kind] for kind in shares}
        largest = kinds[max(shares, key=lambda kind: shares[kind])]
        losses = [None if pd.isna(loss) else float(loss) for loss in largest["loss"]]
        found[name] = StepTimes(
            source=origin,
            samples=_samples(kinds, shares),
            durations_ns=tuple(int(ns) for ns in measured["duration_ns"]),
            overhead=1.0 if name == "timing" else _overhead(rows, measured),
            loss_first=losses[0],
            loss_last=losses[-1],
            by_kind={kind: tuple(int(ns) for ns in steps["duration_ns"]) for kind, steps in kinds.items()},
            shares=shares,
            ranks=int(measured["rank"].nunique()),
        )
    return found


def device_step_ns(profile: Profile, passname: str) -> float | None:
    """Median over the steps of all ranks of how long one spans on its devices: from the first start to the last end of
    its kernels, which run after the host that launches them and so on another clock than its marks.

    None where steps are not marked, or no kernel of one has a time.
    """
    rows = executions(profile, passname)
    if rows is None or rows.host or unmarked(profile, passname):
        return None
    rows = rows.take((rows.step != OUTSIDE) & rows.placed() & ~rows.is_in(SYNCHRONIZATION))
    if not len(rows):
        return None
    order = np.lexsort((rows.step, rows.rank))
    rank, step, start = rows.rank[order], rows.step[order], rows.start[order]
    first = np.flatnonzero(np.r_[True, (np.diff(rank) != 0) | (np.diff(step) != 0)])
    ends = np.maximum.reduceat(start + rows.duration[order], first)
    return float(np.median(ends - np.minimum.reduceat(start, first)))


def _samples(kinds: Mapping[str, pd.DataFrame], shares: Mapping[str, float]) -> float | None:
    """Samples of an average step; None where a kind of step does not tell its own."""
    told = {kind: steps["samples"].iloc[0] for kind, steps in kinds.items()}
    if any(pd.isna(samples) for samples in told.values()):
        return None
    counts = {kind: int(samples) for kind, samples in told.items()}
    if len(set(counts.values())) == 1:
        return max(counts.values())
    return sum(share * counts[kind] for kind, share in shares.items())


def _quartiles(durations: Sequence[int]) -> tuple[float, float, float]:
    values = pd.Series(durations).quantile([0.25, 0.5, 0.75])
    return float(values.iloc[0]), float(values.iloc[1]), float(values.iloc[2])


def _shares(profile: Profile, name: str, measured: pd.DataFrame) -> dict[str, float]:
    """Shares of the measured kinds: the task's, or of records of before schema version 3 those that were measured."""
    counts = {str(kind): int(count) for kind, count in measured["kind"].astype(str).value_counts().items()}
    own = profile.manifest.passes[name].step_kinds
    weights = {kind: float(own.get(kind, 0.0)) for kind in counts}
    if not sum(weights.values()):
        weights = {kind: float(count) for kind, count in counts.items()}
    total = sum(weights.values())
    return {kind: weight / total for kind, weight in weights.items()}


def bare_median_ns(profile: Profile, passname: str) -> float | None:
    """Median of a pass's steps without its instrument; None where it timed none."""
    table = profile.table("steps")
    bare = table.loc[(table["pass"] == passname) & (table["role"] == "bare"), "duration_ns"]
    return None if bare.empty else float(bare.median())


def _overhead(rows: pd.DataFrame, measured: pd.DataFrame) -> float | None:
    """Of the kind with most bare steps among those measured: steps of two kinds say nothing of an instrument."""
    bare = rows[(rows["role"] == "bare") & rows["kind"].astype(str).isin(set(measured["kind"].astype(str)))]
    if bare.empty:
        return None
    kind = bare["kind"].astype(str).mode().iloc[0]
    with_it, without = (table.loc[table["kind"].astype(str) == kind, "duration_ns"] for table in (measured, bare))
    return float(with_it.median() / without.median())
