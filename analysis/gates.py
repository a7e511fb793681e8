"""Plausibility gates: what no true record can violate, checked on every record, imported or not.

A gate that cannot be checked says why; it never counts as held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.activity import Activity, activity
from wcbench.analysis.executions import ABSENT, OUTSIDE, Executions, codes, executions, is_text, sums, whole
from wcbench.analysis.selection import unmarked
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import timed_pass

if TYPE_CHECKING:
    from wcbench.record import Profile

ROUNDING_NS = 1000
"""Older profilers cut times to whole microseconds, so that neighbours seem to overlap by as much."""

LOST, ORPHANS = "launches without work", "work without launch"
SELF_TOLERANCE = 1e-3
STEP_S = (1e-5, 3600.0)
KERNEL_NS = (500.0, 1e10)
"""Mean time of a kernel: none starts and ends within half a microsecond, and none of training lasts ten seconds. Values
beyond are those of a file whose unit of time was taken for another."""

_LAUNCH = re.compile(r"launch(?!host)", re.IGNORECASE)


@dataclass(frozen=True)
class Gate:
    """One check: whether it held (None: not checked, ``text`` says why), the value found and its limit, and the share
    of what could be checked that was."""

    name: str
    held: bool | None
    value: float | None
    limit: float | None
    unit: str
    text: str
    coverage: float | None


@dataclass(frozen=True)
class Gates(Shown):
    """All gates of a record, in a fixed order."""

    rows: tuple[Gate, ...]

    @property
    def failed(self) -> tuple[Gate, ...]:
        return tuple(gate for gate in self.rows if gate.held is False)

    @property
    def checked(self) -> tuple[Gate, ...]:
        return tuple(gate for gate in self.rows if gate.held is not None)

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([asdict(gate) for gate in self.rows])

    def to_dict(self) -> dict[str, Any]:
        counts = {"checked": len(self.checked), "failed": len(self.failed), "not_checked": self._not_checked}
        return {**counts, "rows": [asdict(gate) for gate in self.rows]}

    @property
    def _not_checked(self) -> int:
        return len(self.rows) - len(self.checked)

    def __repr__(self) -> str:
        head = f"Gates: {len(self.failed)} failed, {len(self.checked)} checked, {self._not_checked} not checked"
        return "\n".join([head, *(f"  FAILED {gate.name}: {gate.text}" for gate in self.failed)])


def gates(profile: Profile, passname: str | None = None) -> Gates:
    """The gates of a record; those of devices and operators are of one pass, ``passname`` as `hotspots` has it."""
    passname = passname or timed_pass(profile)
    from wcbench.analysis.peaks import peak_gates

    rows, busy = executions(profile, passname), activity(profile, passname)
    rows = None if rows is None or rows.host else rows
    return Gates(
        (
            _utilization(busy),
            _streams(busy),
            *_self_times(profile, passname),
            *_links(profile, passname, rows),
            _step_length(profile, passname),
            _kernel_length(rows),
            *peak_gates(profile, passname, rows),
        )
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def unchecked(name: str, why: str) -> Gate:
    """A gate that could not be checked, and the reason."""
    return Gate(name, None, None, None, "", f"Not checked: {why}.", None)


_NO_TIMES = "no device's work has both a start and a duration"


def _utilization(busy: Activity | None) -> Gate:
    known = None if busy is None else busy.devices[busy.devices["utilization"].notna()]
    if busy is None or known is None or known.empty:
        return unchecked("utilization", _NO_TIMES)
    worst = float(known["utilization"].max())
    timed = int(busy.devices["calls"].sum() - busy.devices["no_timestamp"].sum())
    text = f"The busiest device had something running for {_percent(worst)} of its span."
    return Gate("utilization", worst <= 1, worst, 1.0, "fraction", text, timed / busy.calls)


def _streams(busy: Activity | None) -> Gate:
    """A stream is a queue: its executions follow each other, so their times cannot add up to more than its span."""
    name = "streams"
    known = None if busy is None else busy.streams[busy.streams["span_ns"].fillna(0) > 0]
    if busy is None or known is None or known.empty:
        return unchecked(name, _NO_TIMES)
    counts, busy_ns = known["calls"].astype("float64"), known["busy_ns"].astype("float64")
    # what overlaps on a stream beyond the rounding of each execution, over the time in which the stream was busy
    excess = (known["concurrency"].astype("float64") - 1) * busy_ns - ROUNDING_NS * counts
    share = 1 + (excess.clip(lower=0) / busy_ns)
    worst = known.iloc[int(share.to_numpy().argmax())]
    value, limit = float(share.max()), 1.01
    text = "Executions on each stream follow one another."
    if value > limit:
        where = f"stream {worst['stream']} of {worst['device']}, rank {worst['rank']}"
        text = (
            f"On {where} the executions add up to {value:.2f} times the time in which any ran: they were listed twice, "
            "streams were mixed up, or a graph's branches ran side by side under one number."
        )
    return Gate(name, value <= limit, value, limit, "fraction", text, float(known["calls"].sum() / busy.calls))


def _self_times(profile: Profile, passname: str) -> Iterator[Gate]:
    """Two gates: no operator's own time is negative, and on each thread own times add up to that of the outermost."""
    table = profile.columns("ops", ["pass", "rank", "thread", "duration_ns", "self_ns", "parent"])
    mine = is_text(table["pass"], passname)
    if not mine.any():
        yield unchecked("self time", "there are no host operators")
        yield unchecked("sum of self times", "there are no host operators")
        return
    duration, own = whole(table["duration_ns"])[mine], whole(table["self_ns"])[mine]
    least, count = int(own.min()), int((own < 0).sum())
    said = f"{count:,} of {len(own):,} operator calls have a negative self time." if count else "None is negative."
    yield Gate("self time", not count, least, 0.0, "ns", said, 1.0)
    rank, ranks = pd.factorize(whole(table["rank"])[mine])
    thread, threads = pd.factorize(whole(table["thread"])[mine])
    key, size = rank * len(threads) + thread, len(ranks) * len(threads)
    roots = table["parent"].is_null().to_numpy()[mine]
    inside, outer = sums(key, own, size), sums(key[roots], duration[roots], size)
    off = np.abs(inside - outer) / np.maximum(np.maximum(inside, outer), 1)
    worst = float(off.max())
    text = "On each thread self times add up to the time of the outermost operators."
    if worst > SELF_TOLERANCE:
        at = int(off.argmax())
        where = f"On thread {threads[at % len(threads)]} of rank {ranks[at // len(threads)]}"
        text = f"{where} self times and the time of the outermost operators differ by {_percent(worst)}."
    yield Gate("sum of self times", worst <= SELF_TOLERANCE, worst, SELF_TOLERANCE, "fraction", text, 1.0)


def _links(profile: Profile, passname: str, rows: Executions | None) -> Iterator[Gate]:
    """Two gates: every launch has its work, and all work of a device its call."""
    table = profile.columns("runtime", ["pass", "name"])
    mine = is_text(table["pass"], passname)
    if not mine.any() or rows is None:
        why = "there are no runtime calls" if not mine.any() else "no work of a device was recorded"
        if rows is None and mine.any() and _launches(table, mine).any():
            why = f"{why}, though {int(_launches(table, mine).sum()):,} launches were"
        yield unchecked(LOST, why)
        yield unchecked(ORPHANS, why)
        return
    launch = whole(profile.columns("kernels", ["launch"])["launch"])[rows.row]
    linked = np.zeros(len(mine), np.bool_)
    linked[launch[(launch >= 0) & (launch < len(mine))]] = True
    launches = _launches(table, mine)
    lost, asked = int((launches & ~linked).sum()), int(launches.sum())
    if not asked:
        yield unchecked(LOST, "no runtime call is a launch")
    else:
        text = "Every launch has its work on a device."
        if lost:
            text = (
                f"{lost:,} of {asked:,} launches have no device record: their work lies outside the trace, was dropped "
                "by the profiler (then device time and calls lack it), or went into a graph that was being captured; "
                "host times are not touched."
            )
        yield Gate(LOST, not lost, lost, 0.0, "", text, 1.0)
    orphans = int((launch == ABSENT).sum())
    text = "All work of a device has its call on the host."
    if orphans:
        text = _orphans(profile, rows, launch == ABSENT)
    yield Gate(ORPHANS, not orphans, orphans, 0.0, "", text, 1.0)


def _orphans(profile: Profile, rows: Executions, lone: Any) -> str:
    """What executions without a call on the host touch, and what not."""
    op = profile.columns("kernels", ["op"])["op"].is_null().to_numpy()[rows.row]
    count, outside, nameless = int(lone.sum()), int((lone & (rows.step == OUTSIDE)).sum()), int((lone & op).sum())
    parts = [
        f"{outside:,} in no step (figures per step lack them)" if outside else "",
        f"{nameless:,} without an operator (figures by operator lack them)" if nameless else "",
    ]
    touched = " and ".join(part for part in parts if part)
    return (
        f"{count:,} of {len(rows):,} executions have no call on the host, which lies outside the trace"
        f"{f'; of these {touched}' if touched else ''}; figures of the whole file hold all of them."
    )


def _launches(table: Any, mine: Any) -> Any:
    number, names = codes(table["name"])
    return np.array([bool(_LAUNCH.search(name)) for name in names], np.bool_)[number] & mine


def _step_length(profile: Profile, passname: str) -> Gate:
    """A step that is a thousand times too short or too long tells of a wrong unit of time."""
    table = profile.columns("steps", ["pass", "role", "duration_ns"])
    mine = is_text(table["pass"], passname) & is_text(table["role"], "measured")
    if not mine.any() or unmarked(profile, passname):
        return unchecked("step length", "no steps are marked" if mine.any() else "there are no steps")
    median = float(np.median(whole(table["duration_ns"])[mine])) / 1e9
    low, high = STEP_S
    text = f"The median step takes {median:.3g} s; {low * 1e6:.0f} µs to {high / 3600:.0f} h are plausible."
    limit = low if median < low else high
    return Gate("step length", low <= median <= high, median, limit, "s", text, 1.0)


def _kernel_length(rows: Executions | None) -> Gate:
    name = "kernel length"
    if rows is None:
        return unchecked(name, "no work of a device was recorded")
    duration = rows.duration
    negative, known = int((duration < 0).sum()), duration[duration > 0]
    if negative:
        text = f"{negative:,} of {len(duration):,} executions have a negative duration."
        return Gate(name, False, float(duration.min()), 0.0, "ns", text, 1.0)
    if not len(known):
        return unchecked(name, "every duration is 0")
    mean, (low, high) = float(known.mean()), KERNEL_NS
    text = f"The mean execution takes {mean / 1e3:.3g} µs; {low / 1e3:.1f} µs to {high / 1e9:.0f} s are plausible."
    limit = low if mean < low else high
    return Gate(name, low <= mean <= high, mean, limit, "ns", text, len(known) / len(duration))
