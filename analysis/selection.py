"""Which executions a table of hotspots adds up: those of the measured steps, or all; of one process, or of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wcbench import kernels
from wcbench.analysis.executions import (
    COMMUNICATION,
    OUTSIDE,
    SYNCHRONIZATION,
    Bool,
    Executions,
    Int,
    codes,
    executions,
    is_text,
    whole,
)
from wcbench.analysis.source import imported
from wcbench.errors import UnknownNameError
from wcbench.schema import WHOLE_FILE

if TYPE_CHECKING:
    from wcbench.record import Profile

MEASURED, ALL = "measured", "all"


@dataclass(frozen=True)
class Selection:
    """Rows to add up: for each the place of its name in ``names``, its time, its calls, and its place in ``phases``
    (None where the file has sums only). Sums are divided by ``divisor``, those of one rank by its ``rank_steps``; see
    `hotspots.Hotspots` for the rest."""

    names: Sequence[str]
    name: Int
    rank: Int
    time: NDArray[Any]
    calls: Int
    collective: Bool
    phases: Sequence[str]
    phase: Int | None
    host: bool
    basis: str
    rank_steps: Mapping[int, int]
    coverage: float | None
    whole_ns: float
    whole_calls: int
    waiting_ns: float = 0.0
    waiting_calls: int = 0
    averaged: bool = True

    @property
    def ranks(self) -> int:
        return len(self.rank_steps)

    @property
    def divisor(self) -> int:
        """Steps of all ranks together; 1 where everything is added up."""
        return max(1, sum(self.rank_steps.values())) if self.averaged else 1

    def category(self, name: int, *, collective: bool) -> kernels.Category:
        """The categories of a name; a collective is communication whatever it is called."""
        if collective:
            return kernels.Category(COMMUNICATION, kernels.FULL[COMMUNICATION], None)
        return kernels.classify(self.names[name], host=self.host)


def select(profile: Profile, passname: str, *, steps: str = MEASURED, rank: int | None = None) -> Selection | None:
    """The rows to add up; None where the pass has none of its own.

    Kernels come first; without any, sums by name that a file holds of a whole run; without these, of a foreign file the
    host's operators.

    Raises UnknownNameError for a rank without rows, or for other steps than "measured" and "all".
    """
    if steps not in (MEASURED, ALL):
        raise UnknownNameError("choice of steps", steps, [MEASURED, ALL])
    rows = executions(profile, passname)
    if rows is None:
        found = _sums(profile, passname, steps, rank)
        if found is not None:
            return found
        rows = _operators(profile, passname) if imported(profile) else None
    return None if rows is None else _executed(profile, passname, rows, steps, rank)


def _executed(profile: Profile, passname: str, rows: Executions, steps: str, rank: int | None) -> Selection | None:
    rows = rows.take(_of_rank(rows.rank, rank))
    waiting = np.zeros(len(rows), np.bool_) if rows.host else rows.is_in(SYNCHRONIZATION)
    inside = ~waiting & (rows.step != OUTSIDE)
    basis = _basis(profile, passname, steps, bool(inside.any()))
    if basis is None:
        return None
    whole_ns, inside_ns = (float(rows.duration.sum(dtype=np.float64, where=these)) for these in (~waiting, inside))
    chosen = rows.take(~waiting if basis == ALL else inside)
    return Selection(
        names=chosen.names,
        name=chosen.name,
        rank=chosen.rank,
        time=chosen.duration,
        calls=np.ones(len(chosen), np.int64),
        collective=chosen.collective,
        phases=chosen.phases,
        phase=chosen.phase,
        host=rows.host,
        basis=basis,
        rank_steps=_rank_steps(profile, passname, np.unique(rows.rank), chosen if basis != ALL else None),
        averaged=basis != ALL,
        coverage=inside_ns / whole_ns if whole_ns else None,
        whole_ns=whole_ns,
        whole_calls=int((~waiting).sum()),
        waiting_ns=float(rows.duration[waiting].sum(dtype=np.float64)),
        waiting_calls=int(waiting.sum()),
    )


def _basis(profile: Profile, passname: str, steps: str, any_inside: bool) -> str | None:
    """Of what the figures are; a foreign file's kernels never vanish because none lies in a step."""
    if steps == ALL:
        return ALL
    if any_inside:
        return "trace" if unmarked(profile, passname) else "steps"
    return ALL if imported(profile) else None


def unmarked(profile: Profile, passname: str) -> bool:
    """Whether a file marks no steps, so that the whole trace counts as one."""
    if not imported(profile):
        return False
    table = profile.columns("steps", ["pass", "kind"])
    mine = is_text(table["pass"], passname)
    return not mine.any() or bool(is_text(table["kind"], WHOLE_FILE)[mine].all())


def _rank_steps(profile: Profile, passname: str, ranks: Int, chosen: Executions | None) -> dict[int, int]:
    """Measured steps of each of these processes; of one that marks none, the steps in which it did anything.

    Where everything is added up (no ``chosen``), each counts as one.
    """
    if chosen is None:
        return dict.fromkeys(ranks.tolist(), 1)
    table = profile.columns("steps", ["pass", "rank", "role"])
    marked = whole(table["rank"])[is_text(table["pass"], passname) & is_text(table["role"], "measured")]
    if not len(marked) and not imported(profile):
        return dict.fromkeys(ranks.tolist(), profile.manifest.passes[passname].steps)
    return {
        rank: int((marked == rank).sum()) or len(np.unique(chosen.step[chosen.rank == rank])) for rank in ranks.tolist()
    }


def _of_rank(ranks: Int, rank: int | None) -> Bool:
    chosen: Bool = np.ones(len(ranks), np.bool_) if rank is None else ranks == rank
    if not chosen.any():
        raise UnknownNameError("rank", str(rank), [str(known) for known in np.unique(ranks)])
    return chosen


def _sums(profile: Profile, passname: str, steps: str, rank: int | None) -> Selection | None:
    """Sums by name that a file holds instead of single executions."""
    table = profile.columns("totals", ["pass", "rank", "kind", "name", "calls", "total_ns"])
    table = table.filter(is_text(table["pass"], passname) & is_text(table["kind"], "kernel"))
    if not table.num_rows:
        return None
    table = table.filter(_of_rank(whole(table["rank"]), rank))
    name, names = codes(table["name"])
    waits = np.array([kernels.classify(text).full == SYNCHRONIZATION for text in names], np.bool_)[name]
    time, calls = table["total_ns"].to_numpy(), whole(table["calls"])
    ranks = whole(table["rank"])
    return Selection(
        names=names,
        name=name[~waits],
        rank=ranks[~waits],
        time=time[~waits],
        calls=calls[~waits],
        collective=np.zeros(int((~waits).sum()), np.bool_),
        phases=(),
        phase=None,
        host=False,
        basis=ALL if steps == ALL else "sums",
        rank_steps=dict.fromkeys(np.unique(ranks).tolist(), 1),
        averaged=steps != ALL,
        coverage=None,
        whole_ns=float(time[~waits].sum()),
        whole_calls=int(calls[~waits].sum()),
        waiting_ns=float(time[waits].sum()),
        waiting_calls=int(calls[waits].sum()),
    )


def _operators(profile: Profile, passname: str) -> Executions | None:
    """Operator calls of a host with their self time, of a trace that has no kernels."""
    table = profile.columns("ops", ["pass", "name", "rank", "start_ns", "self_ns", "step", "phase"])
    mine = np.flatnonzero(is_text(table["pass"], passname))
    if not len(mine):
        return None
    (name, names), (phase, phases) = codes(table["name"]), codes(table["phase"])
    zero = np.zeros(len(mine), np.int64)
    return Executions(
        names=names,
        devices=("cpu",),
        phases=phases,
        row=mine,
        name=name[mine],
        rank=whole(table["rank"])[mine],
        device=zero,
        stream=zero,
        start=whole(table["start_ns"])[mine],
        duration=whole(table["self_ns"])[mine],
        step=whole(table["step"], OUTSIDE)[mine],
        phase=phase[mine],
        collective=zero.astype(np.bool_),
    )
