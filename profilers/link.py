"""Events to a timeline: calls nested on their threads, kernels tied to launches, operators, phases and steps.

Arrays in, arrays out, without torch: a live capture and the reading of somebody's trace use the same code. All times
are integer nanoseconds on one clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
PHASES = (FORWARD, BACKWARD, OPTIMIZER, OTHER)

STEP_MARK = "wcbench.step#"
FORWARD_MARK = "wcbench.forward"
_BACKWARD_NODE = "autograd::engine::evaluate_function"
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
    autograd's number, negative where the call records nothing for a backward pass.
    """

    name: Sequence[str]
    mark: NDArray[np.bool_]
    thread: Ints
    start: Ints
    end: Ints
    sequence: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Nesting:
    """How calls contain each other on their threads.

    ``order`` sorts events by thread and time, parents before children; the other arrays are aligned to the events:
    ``parent`` (-1 for a root), ``depth`` from 0, ``self_ns`` (own time without children, never negative).
    ``clipped`` counts events cut to their parent's end, and ``clipped_ns`` by how much in all.
    """

    order: Ints
    parent: Ints
    depth: Ints
    self_ns: Ints
    clipped: int
    clipped_ns: int


def nest(thread: Ints, start: Ints, end: Ints) -> Nesting:
    """Nest intervals by containment on each thread.

    A child that outlives its parent (traces cut times to microseconds, pytorch issue 101861) is cut to the parent's
    end, so that self times are never negative and add up to the roots' durations.
    """
    n = len(start)
    order = np.lexsort((np.arange(n), -end, start, thread))
    parent, depth = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    last = end.copy()  # ends after cutting
    stack: list[int] = []
    clipped_ns = clipped = 0
    starts, ends, threads = start.tolist(), end.tolist(), thread.tolist()
    for i in order.tolist():
        while stack and (threads[stack[-1]] != threads[i] or ends[stack[-1]] <= starts[i]):
            stack.pop()
        if stack:
            top = stack[-1]
            parent[i], depth[i] = top, len(stack)
            if ends[i] > ends[top]:
                clipped, clipped_ns = clipped + 1, clipped_ns + ends[i] - ends[top]
                ends[i] = ends[top]
                last[i] = ends[top]
        stack.append(i)
    own = last - start
    inside = parent >= 0
    np.subtract.at(own, parent[inside], (last - start)[inside])
    return Nesting(order, parent, depth, own, clipped, clipped_ns)


def phases(events: HostEvents, nesting: Nesting) -> list[str]:
    """The phase of each event: backward inside an autograd node, optimizer inside its step, forward where a module
    runs or autograd records, other elsewhere (zero_grad, clipping, what a step does under no_grad)."""
    found: list[str | None] = [None] * len(events)
    parents, sequences, marks = nesting.parent.tolist(), events.sequence.tolist(), events.mark.tolist()
    for i in nesting.order.tolist():
        above = found[parents[i]] if parents[i] >= 0 else None
        found[i] = _phase(events.name[i], marks[i], sequences[i], above)
    return [phase or OTHER for phase in found]


def _phase(name: str, mark: bool, sequence: int, above: str | None) -> str | None:
    if above == BACKWARD or name.startswith(_BACKWARD_NODE):
        return BACKWARD
    if mark:
        if name.startswith(_OPTIMIZER_MARK):
            return OPTIMIZER
        if name.startswith(_ZERO_GRAD_MARK):
            return OTHER
        return FORWARD if name == FORWARD_MARK else above
    # an optimizer may call the model again (LBFGS); what autograd records there is forward all the same. zero_grad
    # (the only OTHER that is inherited) leaves autograd on too, but records nothing that a backward pass would use.
    return FORWARD if sequence >= 0 and above != OTHER else above


def enclosing_op(events: HostEvents, nesting: Nesting) -> Ints:
    """The nearest enclosing operator call of each event, marks skipped; -1 where there is none."""
    found = np.full(len(events), -1, np.int64)
    for i in nesting.order.tolist():
        above = nesting.parent[i]
        if above >= 0:
            found[i] = found[above] if events.mark[above] else above
    return found


def op_depth(events: HostEvents, nesting: Nesting) -> Ints:
    """How many operator calls enclose each event; marks do not count."""
    depth = np.zeros(len(events), np.int64)
    for i in nesting.order.tolist():
        above = nesting.parent[i]
        if above >= 0:
            depth[i] = depth[above] + (not events.mark[above])
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
    for number in np.unique(thread):
        mine = nesting.order[events.thread[nesting.order] == number]
        asked = np.flatnonzero(thread == number)
        if not len(mine):
            continue
        at = np.searchsorted(events.start[mine], time[asked], side="right") - 1
        for query, position in zip(asked.tolist(), at.tolist(), strict=True):
            found[query] = _climb(events, nesting, int(mine[position]) if position >= 0 else -1, int(time[query]))
    return found


def _climb(events: HostEvents, nesting: Nesting, event: int, time: int) -> int:
    while event >= 0 and events.end[event] <= time:
        event = int(nesting.parent[event])
    return event


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


def _launches_work(name: str) -> bool:
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
        _launches_work(name) and number not in seen
        for name, number in zip(runtime_name, runtime_correlation.tolist(), strict=True)
    )
    return Launches(launch, lost)
