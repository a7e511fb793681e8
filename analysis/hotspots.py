"""Where a step's time goes: by kernel or operator, and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wcbench import kernels
from wcbench.analysis.executions import COMMUNICATION, Int, sums
from wcbench.analysis.selection import ALL, MEASURED, Selection, select
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, imported, source, timed_pass

if TYPE_CHECKING:
    from wcbench.record import Profile

HOST_TIME, DEVICE_TIME = "operator self time", "kernel time"
PHASES = ("forward", "backward", "optimizer", "other")
NAME_WIDTH = 100
"""Characters of a kernel's name in a `repr`."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hotspots(Shown):
    """Time by name, longest first.

    ``rows`` has the columns name, category (full view), paper, time_ns, time_share, calls; shares are of ``total_ns``.
    Of several ranks also rank_min_ns and rank_max_ns: the same time of the rank on which it is least, and most (0 where
    one never ran it); NaN of one rank. ``of`` says what is added up: operator self time on a CPU host, kernel time on
    a device.

    ``basis`` says of what the figures are:

    - "steps": an average over the measured steps of all ``ranks``, ``rank_steps`` of them, and no more;
    - "trace": the file marks no steps, so that the whole of it counts as one;
    - "sums": the file holds sums of a whole run by name, which counts as one step;
    - "all": nothing is averaged, everything in the record is added up.

    ``coverage`` is the share of all time in the record that lies in the measured steps (None: it has none at all),
    ``whole_ns`` and ``whole_calls`` are of everything in the record. Waiting (``waiting_calls``, ``waiting_ns``:
    synchronization that a file lists among a device's work) is in none of these figures.
    """

    source: Source
    of: str
    steps: int
    total_ns: float
    rows: pd.DataFrame
    basis: str = "steps"
    ranks: int = 1
    rank_steps: int = 1
    coverage: float | None = 1.0
    whole_ns: float = 0.0
    whole_calls: int = 0
    waiting_ns: float = 0.0
    waiting_calls: int = 0

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    @property
    def per(self) -> str:
        """What the figures are per, in words."""
        words = {"steps": "per step", "trace": "of the whole trace", "sums": "of the whole run", "all": "in all"}
        return words[self.basis] + (f", mean over {self.ranks} ranks" if self.ranks > 1 and self.basis != ALL else "")

    def __repr__(self) -> str:
        head = f"Hotspots ({self.of}, {self.per}; {self.source}; {len(self.rows)} names)"
        top = self.rows.head(10)
        triples = zip(top["time_share"], top["time_ns"] / 1e6, top["name"], strict=True)
        lines = [f"  {100 * share:6.1f} %  {ms:10.3f} ms  {_short(name)}" for share, ms, name in triples]
        return "\n".join([head, *lines])


@dataclass(frozen=True)
class Categories(Shown):
    """Shares of the same time by category.

    ``paper`` holds AIBench Training's eight, `none of the eight` and `unknown`; ``full`` the refined view. Each sums
    to 1. ``phases`` splits the time into forward, backward, optimizer and other; None where a file holds sums by name,
    which belong to no phase. Of an imported record a phase that nothing carries is None, since a file need not tell
    it, and all are where nothing carries any of the three. ``python_share`` is the share of the step's wall time
    outside every operator, None where kernels run on a device.
    """

    source: Source
    of: str
    paper: Mapping[str, float]
    full: Mapping[str, float]
    phases: Mapping[str, float | None] | None
    unknown_names: tuple[str, ...]
    python_share: float | None

    @property
    def unknown_share(self) -> float:
        return self.full[kernels.UNKNOWN]

    @cached_property
    def _ranked(self) -> list[tuple[str, float]]:
        return sorted(self.full.items(), key=lambda item: -item[1])

    def to_frame(self) -> pd.DataFrame:
        """Columns view, category, share."""
        rows = [("paper", *item) for item in self.paper.items()] + [("full", *item) for item in self.full.items()]
        return pd.DataFrame(rows, columns=["view", "category", "share"])

    def __repr__(self) -> str:
        lines = [f"  {100 * share:6.1f} %  {name}" for name, share in self._ranked if share > 0]
        return "\n".join([f"Categories (share of {self.of}; {self.source})", *lines])


def hotspots(
    profile: Profile, *, steps: str = MEASURED, rank: int | None = None, passname: str | None = None
) -> Hotspots | None:
    """Hotspots of a record, complete; None where it has no timeline.

    Parameters
    ----------
    steps : "measured" for an average over the measured steps, "all" for the sum of everything in the record.
    rank : one process of a distributed job; None averages over all of them (and with "all" adds them up).
    passname : the pass whose executions are meant; None for the record's own (`source.timed_pass`).

    Raises UnknownNameError for a rank that has no rows.
    """
    passname = passname or timed_pass(profile)
    origin = source(profile, passname)
    found = select(profile, passname, steps=steps, rank=rank)
    if origin is None or found is None:
        return None
    rows = _rows(found)
    return Hotspots(
        source=origin,
        of=HOST_TIME if found.host else DEVICE_TIME,
        steps=profile.manifest.passes[passname].steps if found.basis == "steps" else 1,
        total_ns=float(rows["time_ns"].sum()),
        rows=rows,
        basis=found.basis,
        ranks=found.ranks,
        rank_steps=found.divisor,
        coverage=found.coverage,
        whole_ns=found.whole_ns,
        whole_calls=found.whole_calls,
        waiting_ns=found.waiting_ns,
        waiting_calls=found.waiting_calls,
    )


def _rows(found: Selection) -> pd.DataFrame:
    """A row a name; one that a file calls a collective here and not there, and that tells nothing itself, has two."""
    known = np.array([found.category(i, collective=False).full == COMMUNICATION for i in range(len(found.names))], bool)
    keys = 2 * found.name + (found.collective & ~known[found.name] if len(known) else found.collective)
    size = 2 * len(found.names)
    time, calls = sums(keys, found.time, size), sums(keys, found.calls, size)
    least, most = _by_rank(found, keys, size)
    there = np.flatnonzero(np.bincount(keys, minlength=size))
    category = [found.category(key // 2, collective=bool(key % 2)) for key in there.tolist()]
    whole = float(time.sum())
    rows = pd.DataFrame(
        {
            "name": pd.Series([found.names[key // 2] for key in there.tolist()], dtype="object"),
            "category": [c.full for c in category],
            "paper": [c.paper for c in category],
            "time_ns": time[there] / found.divisor,
            "time_share": time[there] / whole if whole else 0.0,
            "calls": calls[there] / found.divisor,
            "rank_min_ns": least[there],
            "rank_max_ns": most[there],
        }
    )
    return rows.sort_values(["time_ns", "name"], ascending=[False, True], ignore_index=True)


def _by_rank(found: Selection, keys: Int, size: int) -> tuple[Floats, Floats]:
    """The least and the most time that a rank spends on each key, over that rank's steps; NaN of one rank alone."""
    if found.ranks < 2:
        return np.full(size, np.nan), np.full(size, np.nan)
    least, most = np.full(size, np.inf), np.zeros(size)
    for rank, steps in found.rank_steps.items():
        mine = found.rank == rank
        time = sums(keys[mine], found.time[mine], size) / (max(1, steps) if found.averaged else 1)
        least, most = np.minimum(least, time), np.maximum(most, time)
    return least, most


def _short(name: str) -> str:
    """A name for a line of a `repr`; `to_frame` has the whole."""
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


def categories(
    profile: Profile, *, steps: str = MEASURED, rank: int | None = None, passname: str | None = None
) -> Categories | None:
    """Category shares of a record; None where it has no timeline or no time in it. Options as `hotspots` has them."""
    passname = passname or timed_pass(profile)
    hot = hotspots(profile, steps=steps, rank=rank, passname=passname)
    found = select(profile, passname, steps=steps, rank=rank)
    if hot is None or found is None or not hot.total_ns:
        return None
    full = dict.fromkeys([*kernels.FULL, kernels.UNKNOWN], 0.0)
    paper = dict.fromkeys([*kernels.PAPER, kernels.NONE_OF_THE_EIGHT, kernels.UNKNOWN], 0.0)
    for view, column in ((full, "category"), (paper, "paper")):
        for name, share in hot.rows.groupby(column)["time_share"].sum().items():
            view[str(name)] = float(share)
    unknown = hot.rows.loc[hot.rows["category"] == kernels.UNKNOWN, "name"]
    python = _python_share(profile, passname) if found.host and found.basis == "steps" else None
    return Categories(hot.source, hot.of, paper, full, _phases(found, imported(profile)), tuple(unknown), python)


def _phases(found: Selection, foreign: bool) -> dict[str, float | None] | None:
    """Shares by phase; of a ``foreign`` file 0 and "not told" are not told apart by an absence."""
    if found.phase is None:
        return None
    shares = sums(found.phase, found.time, len(found.phases)) / float(found.time.sum())
    there = np.bincount(found.phase, minlength=len(found.phases)) > 0
    by_phase = {phase: share for phase, share, any_ in zip(found.phases, shares.tolist(), there, strict=True) if any_}
    if not foreign:
        return {phase: by_phase.get(phase, 0.0) for phase in PHASES}
    told = set(by_phase) & set(PHASES[:3])
    return {phase: by_phase.get(phase, 0.0 if phase == "other" else None) if told else None for phase in PHASES}


def _python_share(profile: Profile, passname: str) -> float | None:
    """Share of the steps' wall time that no operator on the stepping thread covers; of several ranks their mean."""
    steps = profile.columns("steps", ["pass", "role", "duration_ns"]).to_pandas()
    wall = steps.loc[(steps["pass"] == passname) & (steps["role"] == "measured"), "duration_ns"].sum()
    ops = profile.columns("ops", ["pass", "rank", "thread", "step", "self_ns"]).to_pandas()
    ops = ops[(ops["pass"] == passname) & ops["step"].notna()]
    if not wall or ops.empty:
        return None
    # the stepping thread does nearly all of the work
    busy = ops.groupby(["rank", "thread"])["self_ns"].sum().groupby("rank").max().sum()
    return float(max(0.0, 1 - busy / wall))
