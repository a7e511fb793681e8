"""Events to a timeline: calls nested on their threads, kernels tied to launches, operators, phases and steps.

Arrays in, arrays out, without torch: a live capture and the reading of somebody's trace use the same code. All times
are integer nanoseconds on one clock.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
PHASES = (FORWARD, BACKWARD, OPTIMIZER, OTHER)

STEP_MARK = "wcbench.step#"
FORWARD_MARK = "wcbench.forward"
_BACKWARD_NODE = "autograd::engine::evaluate_function"
# Nodes of autograd by their own names, which traces of before torch 1.9 give alone: AddmmBackward, MulBackward0.
_NODE = re.compile(r"(?:torch::autograd::(?:AccumulateGrad|CopyBackwards)|[A-Z]\w*Backward\d*)")
_OPTIMIZER_MARK = "Optimizer.step#"
_ZERO_GRAD_MARK = "Optimizer.zero_grad#"


_STEP = re.compile(re.escape(STEP_MARK) + r"[0-9]{1,9}")


def is_step_mark(name: str) -> bool:
    """Whether a range is the loop's own mark of a measured step."""
    return _STEP.fullmatch(name) is not None


def is_mark(name: str) -> bool:
    """Whether a range is one that tells steps and phases.

    Ranges of the user's own are left out: they may cross operators (opened before `backward`, closed in a hook), and
    nesting operators into them would cut these.
    """
    return is_step_mark(name) or name == FORWARD_MARK or name.startswith((_OPTIMIZER_MARK, _ZERO_GRAD_MARK))


@dataclass(frozen=True)
class HostEvents:
    """What happened on the host, one array entry an event, in any order.

    ``mark`` tells annotations (of the profiler, the optimizer, the user) from operator calls; ``sequence`` is
    autograd's number, negative where the call records nothing for a backward pass; ``backward`` tells calls of which
    the profiler itself says that they are of a backward pass (None where it never does).
    """

    name: Sequence[str]
    mark: NDArray[np.bool_]
    thread: Ints
    start: Ints
    end: Ints
    sequence: Ints
    backward: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Nesting:
    """How calls contain each other on their threads.

    ``order`` sorts events by thread and time, parents before children; the other arrays are aligned to the events:
    ``parent`` (-1 for a root), ``depth`` from 0, ``self_ns`` (own time without children, never negative), ``end`` (the
    event's end, cut to its parent's).
    ``clipped`` counts events cut to their parent's end, and ``clipped_ns`` by how much in all.
    """

    order: Ints
    parent: Ints
    depth: Ints
    self_ns: Ints
    end: Ints
    clipped: int
    clipped_ns: int


def nest(thread: Ints, start: Ints, end: Ints) -> Nesting:
    """Nest intervals by containment on each thread.

    A child that outlives its parent (traces cut times to microseconds, pytorch issue 101861) is cut to the parent's
    end, so that self times are never negative and add up to the roots' durations.
    """
    order = np.lexsort((-end, start, thread))
    parents, depths, last = _sweep(thread[order], start[order], end[order])
    n = len(order)
    parent, depth, ends = (np.empty(n, np.int64) for _ in range(3))
    parent[order] = np.where(parents >= 0, order[parents], -1) if n else parents
    depth[order], ends[order] = depths, last
    own = ends - start
    inside = parent >= 0
    np.subtract.at(own, parent[inside], (ends - start)[inside])
    cut = end - ends
    return Nesting(order, parent, depth, own, ends, int((cut > 0).sum()), int(cut.sum()))


def _sweep(threads: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Parents (as positions), depths and cut ends of events that are in order."""
    n = len(starts)
    parents, moving = _enclosing(threads, starts, ends)
    inside = np.flatnonzero(parents >= 0)
    crossing = np.unique(threads[np.concatenate([inside[ends[inside] > ends[parents[inside]]], moving])])
    depths, last = _depths(parents), ends.copy()
    borders = [0, *(np.flatnonzero(np.diff(threads)) + 1).tolist(), n] if len(crossing) else []
    for first, end in itertools.pairwise(borders):
        if threads[first] in crossing:  # a cut end may move what begins later to another parent: one by one
            part = slice(first, end)
            parents[part], depths[part], last[part] = _sweep_thread(starts[part].tolist(), ends[part].tolist(), first)
    return parents, depths, last


_LEAPS = 500


def _enclosing(threads: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """For each event the nearest one before it on its thread that has not ended when it begins; -1 where there is none.

    All events step back at once, from candidate to candidate: what a candidate has left behind ended before it began,
    and so before whatever begins later. Also returns the events that are still under way after many steps.
    """
    n = len(starts)
    found = np.arange(-1, n - 1)
    found[np.flatnonzero(np.diff(threads, prepend=threads[:1] - 1))] = -1
    moving = np.flatnonzero(found >= 0)
    for _ in range(_LEAPS):
        moving = moving[ends[found[moving]] <= starts[moving]]
        if not moving.size:
            break
        found[moving] = found[found[moving]]
        moving = moving[found[moving] >= 0]
    return found, moving


def _depths(parents: Ints) -> Ints:
    """How many events enclose each: the ancestors of all are counted in leaps that double."""
    depths, above = (parents >= 0).astype(np.int64), parents.copy()
    while (rows := np.flatnonzero(above >= 0)).size:
        higher = above[rows]
        depths[rows] += depths[higher]
        above[rows] = above[higher]
    return depths


def _sweep_thread(starts: list[int], ends: list[int], first: int) -> tuple[list[int], list[int], list[int]]:
    """The same for one thread whose calls cross, whose events begin at position ``first``."""
    parents, depths = [-1] * len(starts), [0] * len(starts)
    calls: list[int] = []  # open ones, and when they end
    until: list[int] = []
    for i, start in enumerate(starts):
        while until and until[-1] <= start:
            until.pop()
            calls.pop()
        if until:
            parents[i] = first + calls[-1]
            depths[i] = len(calls)
            ends[i] = min(ends[i], until[-1])
        calls.append(i)
        until.append(ends[i])
    return parents, depths, ends


_NONE = -1
_FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = range(len(PHASES))


def phases(events: HostEvents, nesting: Nesting) -> list[str]:
    """The phase of each event, as a word: see `phase_codes`."""
    return [PHASES[code] for code in phase_codes(events, nesting).tolist()]


def phase_codes(events: HostEvents, nesting: Nesting) -> NDArray[np.int8]:
    """The phase of each event, as its place in PHASES: backward inside an autograd node, optimizer inside its step,
    forward where a module runs or autograd records, other elsewhere (zero_grad, clipping, what a step does under
    no_grad)."""
    found = np.full(len(events), _NONE, np.int8)
    own = np.fromiter(map(_own_phase, events.name, events.mark.tolist()), np.int8, len(events))
    if events.backward is not None:
        own[events.backward & ~events.mark] = _BACKWARD
    for rows in _levels(nesting.depth):
        parent = nesting.parent[rows]
        above = np.where(parent >= 0, found[parent], _NONE)
        # an optimizer may call the model again (LBFGS); what autograd records there is forward all the same. zero_grad
        # (the only OTHER that is inherited) leaves autograd on too, but records nothing that a backward pass would use.
        records = ~events.mark[rows] & (events.sequence[rows] >= 0) & (above != _OTHER)
        phase = np.where(records, _FORWARD, above)
        phase = np.where(own[rows] != _NONE, own[rows], phase)
        found[rows] = np.where(above == _BACKWARD, _BACKWARD, phase)
    found[found == _NONE] = _OTHER
    return found


@lru_cache(maxsize=1 << 16)
def _own_phase(name: str, mark: bool) -> int:
    """The phase that an event's own name tells; -1 for the one around it."""
    if name.startswith(_BACKWARD_NODE) or (not mark and _NODE.fullmatch(name)):
        return _BACKWARD
    if not mark:
        return _NONE
    if name.startswith(_OPTIMIZER_MARK):
        return _OPTIMIZER
    if name.startswith(_ZERO_GRAD_MARK):
        return _OTHER
    return _FORWARD if name == FORWARD_MARK else _NONE


def _levels(depth: Ints) -> Iterator[Ints]:
    """The rows of each depth, outermost first."""
    order = np.argsort(depth, kind="stable")
    yield from (rows for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(rows))


def enclosing_op(events: HostEvents, nesting: Nesting) -> Ints:
    """The nearest enclosing operator call of each event, marks skipped; -1 where there is none."""
    found = nesting.parent.copy()
    while (rows := np.flatnonzero((found >= 0) & events.mark[found])).size:
        found[rows] = nesting.parent[found[rows]]
    return found


def op_self(events: HostEvents, nesting: Nesting, above: Ints) -> Ints:
    """Time of each event without the operator calls in it (``above``: `enclosing_op`); a mark takes none."""
    lasted = nesting.end - events.start
    own = lasted.copy()
    calls = ~events.mark & (above >= 0)
    np.subtract.at(own, above[calls], lasted[calls])
    return own


def op_depth(events: HostEvents, nesting: Nesting) -> Ints:
    """How many operator calls enclose each event; marks do not count."""
    depth = np.zeros(len(events), np.int64)
    for rows in _levels(nesting.depth):
        above = nesting.parent[rows]
        depth[rows] = np.where(above >= 0, depth[above] + ~events.mark[above], 0)
    return depth


def steps_by_time(events: HostEvents, times: Ints) -> Ints:
    """The step whose mark on the host spans each time; -1 outside every step."""
    marks = [i for i in np.flatnonzero(events.mark).tolist() if events.name[i].startswith(STEP_MARK)]
    marks.sort(key=lambda i: int(events.start[i]))
    if not marks:
        return np.full(len(times), -1, np.int64)
    number = np.array([int(events.name[i].removeprefix(STEP_MARK)) for i in marks], np.int64)
    at = np.searchsorted(events.start[marks], times, side="right") - 1
    inside = (at >= 0) & (times < events.end[marks][np.maximum(at, 0)])
    return np.where(inside, number[np.maximum(at, 0)], -1)


def innermost(events: HostEvents, nesting: Nesting, thread: Ints, time: Ints) -> Ints:
    """The innermost event that runs on a thread at a time, for each query; -1 where none does."""
    found = np.full(len(time), -1, np.int64)
    ordered = events.thread[nesting.order]
    for number in np.unique(thread):
        first, last = (int(np.searchsorted(ordered, number, side)) for side in ("left", "right"))
        if first == last:
            continue
        mine, asked = nesting.order[first:last], np.flatnonzero(thread == number)
        at = np.searchsorted(events.start[mine], time[asked], side="right") - 1
        place = np.where(at >= 0, mine[at], -1)
        while (over := np.flatnonzero((place >= 0) & (events.end[place] <= time[asked]))).size:
            place[over] = nesting.parent[place[over]]
        found[asked] = place
    return found


@dataclass(frozen=True)
class Launches:
    """Kernels tied to the runtime calls that launched them.

    ``launch`` : row of the runtime call for each kernel, -1 for an orphan (launched before the window).
    ``lost`` : launching runtime calls that have no device record at all.
    """

    launch: Ints
    lost: int

    @property
    def orphans(self) -> int:
        return int((self.launch < 0).sum())


def launches_work(name: str) -> bool:
    """Whether a runtime call launches work of a device; a function launched on the host leaves no record there."""
    return "launch" in name.lower() and "hostfunc" not in name.lower()


def link_launches(kernel_correlation: Ints, runtime_correlation: Ints, runtime_name: Sequence[str]) -> Launches:
    """Tie kernels to runtime calls by correlation alone; one launch may own many kernels (graphs).

    The names of runtime calls serve only to tell how many launches left no device record, never to link.
    """
    launch = np.full(len(kernel_correlation), -1, np.int64)
    if len(runtime_correlation):
        order = np.argsort(runtime_correlation, kind="stable")
        ranked = runtime_correlation[order]
        at = np.minimum(np.searchsorted(ranked, kernel_correlation), len(ranked) - 1)
        hit = ranked[at] == kernel_correlation
        launch[hit] = order[at[hit]]
    seen = set(kernel_correlation.tolist())
    lost = sum(
        launches_work(name) and number not in seen
        for name, number in zip(runtime_name, runtime_correlation.tolist(), strict=True)
    )
    return Launches(launch, lost)
