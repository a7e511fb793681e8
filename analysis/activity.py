"""How busy each device and each of its streams was: unions of intervals, never sums of overlapping ones.

Devices are kept apart, and so are ranks: equal numbers of streams on two devices are two streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.executions import (
    ABSENT,
    COMMUNICATION,
    COPY,
    SYNCHRONIZATION,
    Bool,
    Executions,
    Int,
    executions,
    total,
)
from wcbench.analysis.intervals import Intervals, intersection, regions, union
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source, timed_pass

if TYPE_CHECKING:
    from wcbench.record import Profile

COMPUTATION = "computation"
GROUPS = (COMPUTATION, COMMUNICATION, COPY)
"""What a device does; copies are the driver's copies and fills, computation is all the rest that is no waiting."""

DEVICE_COLUMNS = (
    "rank",
    "device",
    "calls",
    "sum_ns",
    "span_ns",
    "busy_ns",
    "idle_ns",
    "utilization",
    "concurrency",
    "computation_ns",
    "communication_ns",
    "copy_ns",
    "overlap_ns",
    "overlap_share",
    "no_timestamp",
    "waiting_calls",
    "waiting_ns",
)
STREAM_COLUMNS = (*DEVICE_COLUMNS[:2], "stream", *DEVICE_COLUMNS[2:9], "no_timestamp")


@dataclass(frozen=True)
class Activity(Shown):
    """Activity of devices over the whole record, steps or not.

    ``devices`` has a row for each device of each rank, ``streams`` one for each of their streams: ``calls`` (kernels,
    copies and fills; their times added up are ``sum_ns``), ``span_ns`` (from the first start to the last end),
    ``busy_ns`` (of the span, with anything running), ``idle_ns``, ``utilization`` (busy / span), ``concurrency`` (how
    many ran at once, on the mean of the busy time). Of devices also the time with ``computation``, ``communication`` or
    ``copy`` running (unions: they overlap), ``overlap_ns`` of communication with computation and ``overlap_share`` of
    the communication that it is: None where there is no communication, since there is nothing to hide.

    Work without a time stamp (``no_timestamp``) is in calls and sums alone; what depends on times is None where no work
    has one. Waiting that a file lists among the work (synchronization) is in none of these but ``waiting``.

    ``groups`` maps rank and device to the time in which exactly these groups of `GROUPS` ran;
    ``untimed_communication`` counts communication without a time stamp, of which no overlap is known.
    """

    source: Source
    devices: pd.DataFrame
    streams: pd.DataFrame
    groups: Mapping[tuple[int, str], Mapping[tuple[str, ...], int]]
    untimed_communication: int = 0

    @property
    def hidden_share(self) -> float | None:
        """Share of all devices' communication that runs beside computation; None without communication."""
        talk = int(self.devices["communication_ns"].fillna(0).sum())
        return int(self.devices["overlap_ns"].fillna(0).sum()) / talk if talk else None

    @property
    def calls(self) -> int:
        """Kernels, copies and fills of the whole record."""
        return int(self.devices["calls"].sum())

    @property
    def sum_ns(self) -> int:
        """Their times added up."""
        return sum(int(ns) for ns in self.devices["sum_ns"])

    @property
    def utilization(self) -> float | None:
        """Busy time over span of all devices together; None where no device has both."""
        known = self.devices[self.devices["span_ns"].notna()]
        span = int(known["span_ns"].sum())
        return int(known["busy_ns"].sum()) / span if span else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the figures leave out."""
        return tuple(_notes(self.devices, self.untimed_communication))

    def to_frame(self) -> pd.DataFrame:
        """A row a device."""
        return self.devices.copy()

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.source.to_dict(),
            "calls": self.calls,
            "sum_ns": self.sum_ns,
            "utilization": self.utilization,
            "hidden_share": self.hidden_share,
            "devices": [_plain(row) | {"groups": self._groups(row)} for row in self.devices.to_dict("records")],
            "streams": [_plain(row) for row in self.streams.to_dict("records")],
            "notes": list(self.notes),
        }

    def _groups(self, row: Mapping[Any, Any]) -> list[dict[str, Any]]:
        """What ran together for how long, and when nothing did: the whole span, each moment once."""
        span = row["span_ns"]
        if span is pd.NA or not span:
            return []
        found = {**self.groups.get((row["rank"], row["device"]), {}), (): row["idle_ns"]}
        return [{"active": list(active), "time_ns": ns, "span_share": ns / span} for active, ns in found.items()]

    def __repr__(self) -> str:
        lines = [_line(_plain(row)) for row in self.devices.head(10).to_dict("records")]
        return "\n".join([f"Activity of {len(self.devices)} devices ({self.source})", *lines])


def _line(row: Mapping[str, Any]) -> str:
    busy = row["utilization"]
    share = "" if busy is None else f", busy {100 * busy:.1f} % of {row['span_ns'] / 1e6:,.3f} ms"
    return f"  rank {row['rank']} {row['device']}: {row['calls']:,} executions, {row['sum_ns'] / 1e6:,.3f} ms{share}"


def activity(profile: Profile, passname: str | None = None) -> Activity | None:
    """Activity of a record's devices; None where it has no work of a device. ``passname`` as `hotspots` has it."""
    passname = passname or timed_pass(profile)
    origin, rows = source(profile, passname), executions(profile, passname)
    if origin is None or rows is None or rows.host:
        return None
    waiting = rows.is_in(SYNCHRONIZATION)
    placed = rows.placed() & ~waiting
    kinds = {COMMUNICATION: rows.is_in(COMMUNICATION), COPY: rows.is_in(COPY)}
    kinds[COMPUTATION] = ~(kinds[COMMUNICATION] | kinds[COPY] | waiting)
    devices, groups = [], {}
    for (rank, device), mine in _places(rows.rank, rows.device):
        label = rows.devices[device]
        unions = {name: _union(rows, mine[kinds[name][mine] & placed[mine]]) for name in GROUPS}
        parts = regions(unions)
        groups[rank, label] = parts
        devices.append(
            {
                "rank": rank,
                "device": label,
                **_busy(rows, mine, placed, waiting),
                **_overlap(unions),
                "waiting_calls": int(waiting[mine].sum()),
                "waiting_ns": total(rows.duration[mine[waiting[mine]]]),
            }
        )
    streams = [
        {
            "rank": rank,
            "device": rows.devices[device],
            "stream": None if stream == ABSENT else stream,
            **_busy(rows, mine, placed, waiting),
        }
        for (rank, device, stream), mine in _places(rows.rank, rows.device, rows.stream)
        if not waiting[mine].all()
    ]
    untimed = int((kinds[COMMUNICATION] & ~placed & ~waiting).sum())
    return Activity(origin, _frame(devices, DEVICE_COLUMNS), _frame(streams, STREAM_COLUMNS), groups, untimed)


def _places(*keys: Int) -> Iterator[tuple[tuple[int, ...], Int]]:
    """Every combination of the keys, in order, with the places where it stands."""
    order = np.lexsort(keys[::-1])
    columns = [key[order] for key in keys]
    changes = np.flatnonzero(np.any([np.diff(column) != 0 for column in columns], axis=0)) + 1
    for places in np.split(order, changes):
        if len(places):
            yield tuple(int(key[places[0]]) for key in keys), places


def _union(rows: Executions, places: Int) -> Intervals:
    start = rows.start[places]
    return union(start, start + rows.duration[places])


def _busy(rows: Executions, mine: Int, placed: Bool, waiting: Bool) -> dict[str, Any]:
    """Figures that devices and streams share."""
    work, timed = mine[~waiting[mine]], mine[placed[mine]]
    found: dict[str, Any] = {
        "calls": len(work),
        "sum_ns": total(rows.duration[work]),
        "no_timestamp": len(work) - len(timed),
    }
    if not len(timed):
        return found
    busy = _union(rows, timed).length
    span = int((rows.start[timed] + rows.duration[timed]).max()) - int(rows.start[timed].min())
    return found | {
        "span_ns": span,
        "busy_ns": busy,
        "idle_ns": span - busy,
        "utilization": busy / span if span else None,
        "concurrency": total(rows.duration[timed]) / busy if busy else None,
    }


def _overlap(unions: Mapping[str, Intervals]) -> dict[str, Any]:
    """Time of each group, and of communication that computation hides; None where nothing has a time stamp."""
    if not any(len(group.start) for group in unions.values()):
        return {}
    talk = unions[COMMUNICATION].length
    both = intersection(unions[COMMUNICATION], unions[COMPUTATION]).length
    return {
        "computation_ns": unions[COMPUTATION].length,
        "communication_ns": talk,
        "copy_ns": unions[COPY].length,
        "overlap_ns": both if talk else None,
        "overlap_share": both / talk if talk else None,
    }


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """Whole numbers stay whole where some are missing."""
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=_dtype(name)) for name in columns})


def _dtype(name: str) -> str:
    if name == "device":
        return "object"
    return "Float64" if name in ("utilization", "concurrency", "overlap_share") else "Int64"


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): None if value is pd.NA else value for key, value in row.items()}


def _notes(devices: pd.DataFrame, untimed: int) -> Iterator[str]:
    calls, unplaced = int(devices["calls"].sum()), int(devices["no_timestamp"].sum())
    if unplaced:
        have = "has" if unplaced == 1 else "have"
        yield (
            f"{unplaced:,} of {calls:,} executions {have} no timestamp: they are in calls and sums, and in no span, "
            "busy or idle time."
        )
    waiting = int(devices["waiting_calls"].sum())
    if waiting:
        are = "record of synchronization is" if waiting == 1 else "records of synchronization are"
        yield f"{waiting:,} {are} waiting, not work: in no figure of busy time."
    if untimed:
        are = "execution of communication has" if untimed == 1 else "executions of communication have"
        yield f"{untimed:,} {are} no timestamp: how much of it runs beside computation is not known."
    elif not devices["communication_ns"].fillna(0).any():
        yield "No communication ran on any device, so its overlap with computation is not defined."
