"""Host operators by name: calls, time with and without what they call, and the device time that they launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench import kernels
from wcbench.analysis.executions import Bool, Int, codes, is_text, sums, whole
from wcbench.analysis.shown import Shown, percent
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    import pyarrow as pa

    from wcbench.record import Profile

_PASS = "timeline"


@dataclass(frozen=True)
class Ops(Shown):
    """Host operators of the whole record, in steps or not, most self time first.

    ``rows`` has the columns name, category, calls, total_ns, self_ns, self_share (of all self time) and device_ns. A
    call inside another of its own name adds to calls and self time and not to the total, which would count it twice.
    ``device_ns`` is the time of the kernels that it launched itself, by the innermost operator around the launch; None
    where the record has no kernels of a device, or none of them tells its operator. ``device_unlinked_ns`` is that of
    kernels without such an operator.
    """

    source: Source
    calls: int
    self_ns: int
    ranks: int
    device_unlinked_ns: float | None
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def to_dict(self, rows: int | None = None) -> dict[str, Any]:
        """As JSON's types; ``rows`` cuts the list of operators."""
        return {
            **self.source.to_dict(),
            "calls": self.calls,
            "self_ns": self.self_ns,
            "ranks": self.ranks,
            "names": len(self.rows),
            "device_unlinked_ns": self.device_unlinked_ns,
            "rows": self.rows.head(len(self.rows) if rows is None else rows).to_dict("records"),
        }

    def __repr__(self) -> str:
        top = self.rows.head(10).itertuples()
        lines = [f"  {percent(row.self_share, '6.1f')}  {row.calls:>9,} calls  {row.name}" for row in top]
        return "\n".join([f"Host operators (share of self time; {self.source}; {len(self.rows)} names)", *lines])


def ops(profile: Profile, passname: str = _PASS) -> Ops | None:
    """Host operators of a record by name; None where it has none."""
    origin = source(profile, passname)
    table = profile.columns("ops", ["pass", "rank", "thread", "name", "start_ns", "duration_ns", "self_ns"])
    mine: Bool = is_text(table["pass"], passname)
    if origin is None or not mine.any():
        return None
    name, names = codes(table["name"])
    outermost = mine & ~_inside_itself(table, name)
    duration, own = whole(table["duration_ns"]), whole(table["self_ns"])
    calls = np.bincount(name[mine], minlength=len(names))
    self_ns = sums(name[mine], own[mine], len(names))
    there = np.flatnonzero(calls)
    device, unlinked = _device_time(profile, passname)
    all_self = float(self_ns.sum())
    rows = pd.DataFrame(
        {
            "name": pd.Series([names[i] for i in there], dtype="object"),
            "category": [kernels.classify(names[i], host=True).full for i in there],
            "calls": calls[there],
            "total_ns": sums(name[outermost], duration[outermost], len(names))[there],
            "self_ns": self_ns[there],
            "self_share": self_ns[there] / all_self if all_self else 0.0,
            "device_ns": pd.Series(
                [None] * len(there) if device is None else [device.get(names[i], 0.0) for i in there], dtype="Float64"
            ),
        }
    )
    rows = rows.sort_values(["self_ns", "name"], ascending=[False, True], ignore_index=True)
    ranks = len(np.unique(whole(table["rank"])[mine]))
    return Ops(origin, int(mine.sum()), round(all_self), ranks, unlinked, rows)


def _inside_itself(table: pa.Table, name: Int) -> Bool:
    """Which calls lie inside another of the same name on the same thread.

    Calls of a thread are nested or apart; so a call lies inside another where one that began no later ends no earlier.
    """
    begin, thread, rank = (whole(table[key]) for key in ("start_ns", "thread", "rank"))
    end = begin + whole(table["duration_ns"])
    order = np.lexsort((-end, begin, name, thread, rank))
    changes = np.any([np.diff(key[order]) != 0 for key in (name, thread, rank)], axis=0)
    group = np.concatenate(([0], np.cumsum(changes))) if len(order) else order
    # ends as ranks, above which lie those of all later groups: so one running maximum serves all groups
    ends = np.unique(end[order], return_inverse=True)[1] + group * (len(order) + 1)
    latest = np.maximum.accumulate(ends)
    found = np.zeros(len(order), np.bool_)
    found[order[1:]] = (latest[:-1] >= ends[1:]) & (group[1:] == group[:-1])
    return found


def _device_time(profile: Profile, passname: str) -> tuple[dict[str, float] | None, float | None]:
    """Kernel time by the operator that launched, and that of no operator; None where no kernel ran on a device, and of
    operators where no kernel has one."""
    table: pa.Table = profile.columns("kernels", ["pass", "device", "op", "duration_ns"])
    device, labels = codes(table["device"])
    mine = is_text(table["pass"], passname) & np.array([label != "cpu" for label in labels], np.bool_)[device]
    if not mine.any():
        return None, None
    op, names = codes(table["op"])
    time = sums(op[mine] + 1, whole(table["duration_ns"])[mine], len(names) + 1)  # 0 is null
    linked = dict(zip(names, time[1:].tolist(), strict=True)) if (op[mine] >= 0).any() else None
    return linked, float(time[0])
