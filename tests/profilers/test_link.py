"""Nesting, phases, steps and launches against cases worked out by hand and against brute force."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.profilers import link
from wcbench.profilers.link import HostEvents, Ints, Nesting


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def host(*rows: tuple[Any, ...]) -> HostEvents:
    """Events from (name, start, end[, options]); names with '#' or of wcbench are marks, as a profiler gives them."""
    full = [(*row, {}) if len(row) == 3 else row for row in rows]
    return HostEvents(
        name=[name for name, *_ in full],
        mark=np.array([o.get("mark", "#" in n or n.startswith("wcbench.")) for n, _, _, o in full], np.bool_),
        thread=ints(*(o.get("thread", 1) for *_, o in full)),
        start=ints(*(start for _, start, _, _ in full)),
        end=ints(*(end for _, _, end, _ in full)),
        sequence=ints(*(o.get("seq", -1) for *_, o in full)),
    )


def nested(events: HostEvents) -> Nesting:
    return link.nest(events.thread, events.start, events.end)


def phases(*rows: tuple[Any, ...]) -> dict[str, str]:
    events = host(*rows)
    return dict(zip(events.name, link.phases(events, nested(events)), strict=True))


# --- nest: by hand --------------------------------------------------------------------------------------------------


def one_thread(*intervals: tuple[int, int]) -> Nesting:
    return link.nest(ints(*[1] * len(intervals)), ints(*(a for a, _ in intervals)), ints(*(b for _, b in intervals)))


def test_case_11_a_child_that_outlives_its_parent_by_a_fraction_stays_its_child() -> None:
    # grandparent [0, 100], parent [10, 50.0004], child [20, 50.0009], here in ten-thousandths
    nesting = one_thread((0, 1_000_000), (100_000, 500_004), (200_000, 500_009))
    assert nesting.parent.tolist() == [-1, 0, 1]
    assert nesting.depth.tolist() == [0, 1, 2]
    # child 500,004 - 200,000; parent 400,004 - 300,004; grandparent 1,000,000 - 400,004
    assert nesting.self_ns.tolist() == [599_996, 100_000, 300_004]
    assert (nesting.clipped, nesting.clipped_ns) == (1, 5)


def test_case_11_after_truncation_to_microseconds() -> None:
    nesting = one_thread((0, 100), (10, 50), (20, 50))
    assert nesting.parent.tolist() == [-1, 0, 1]
    assert nesting.self_ns.tolist() == [60, 10, 30]
    assert nesting.clipped == 0


def test_start_and_duration_truncated_apart_leave_no_negative_self_time() -> None:
    # parent 10.9 us for 39.2 us -> [10, 49]; child 20.1 us for 30.0 us (it ends at the parent's end) -> [20, 50]
    nesting = one_thread((0, 100), (10, 49), (20, 50))
    assert nesting.parent.tolist() == [-1, 0, 1]
    assert nesting.self_ns.tolist() == [61, 10, 29]
    assert (nesting.clipped, nesting.clipped_ns) == (1, 1)


def test_a_cut_reaches_the_grandchildren() -> None:
    # 10 is the end of all: [2, 12] is cut to 10, and so is [3, 11] inside it
    nesting = one_thread((0, 10), (2, 12), (3, 11))
    assert nesting.self_ns.tolist() == [2, 1, 7]
    assert (nesting.clipped, nesting.clipped_ns) == (2, 3)


def test_siblings_that_touch_are_siblings() -> None:
    nesting = one_thread((0, 10), (0, 5), (5, 10))
    assert nesting.parent.tolist() == [-1, 0, 0]
    assert nesting.self_ns.tolist() == [0, 5, 5]


def test_equal_starts_nest_the_shorter_in_the_longer_whatever_the_order() -> None:
    nesting = one_thread((0, 3), (0, 10), (0, 7))
    assert nesting.parent.tolist() == [2, -1, 1]
    assert nesting.depth.tolist() == [2, 0, 1]
    assert nesting.self_ns.tolist() == [3, 3, 4]


def test_the_same_interval_twice_nests_the_second_in_the_first() -> None:
    nesting = one_thread((0, 10), (0, 10))
    assert nesting.parent.tolist() == [-1, 0]
    assert nesting.self_ns.tolist() == [0, 10]


def test_zero_length_events_cost_nothing_and_hold_nothing() -> None:
    # at the parent's start, inside, and at its end (where the parent is over); two at one time are no parent and child
    nesting = one_thread((0, 10), (0, 0), (5, 5), (5, 5), (10, 10), (5, 8))
    assert nesting.parent.tolist() == [-1, 0, 5, 5, -1, 0]
    assert nesting.self_ns.tolist() == [7, 0, 0, 0, 0, 3]


def test_threads_do_not_nest_in_each_other() -> None:
    nesting = link.nest(ints(2, 1, 2, 1), ints(0, 5, 10, 20), ints(100, 90, 20, 30))
    assert nesting.parent.tolist() == [-1, -1, 0, 1]
    assert nesting.self_ns.tolist() == [90, 75, 10, 10]


def test_unsorted_input_gives_the_same_answer_as_sorted() -> None:
    intervals = [(0, 100), (10, 50), (20, 30), (60, 90), (60, 70)]
    shuffled = [3, 0, 4, 2, 1]
    straight, mixed = one_thread(*intervals), one_thread(*(intervals[i] for i in shuffled))
    assert mixed.self_ns.tolist() == [straight.self_ns[i] for i in shuffled]
    assert mixed.depth.tolist() == [straight.depth[i] for i in shuffled]
    assert [shuffled[p] if p >= 0 else -1 for p in mixed.parent] == [straight.parent[i] for i in shuffled]


def test_order_puts_parents_before_children() -> None:
    nesting = one_thread((5, 6), (0, 10), (5, 8))
    assert nesting.order.tolist() == [1, 2, 0]


def test_nothing_nests_to_nothing() -> None:
    nesting = one_thread()
    assert len(nesting.self_ns) == len(nesting.parent) == len(nesting.depth) == len(nesting.order) == 0
    assert (nesting.clipped, nesting.clipped_ns) == (0, 0)


def test_absolute_nanoseconds_stay_exact() -> None:
    # float64 holds epoch nanoseconds only to 256 ns
    t = 1_796_000_000_123_456_789
    nesting = one_thread((t, t + 101), (t + 1, t + 100))
    assert nesting.self_ns.tolist() == [2, 99]


# --- nest: random trees ---------------------------------------------------------------------------------------------


@dataclass
class Node:
    gap: int
    tail: int
    children: list[Node] = field(default_factory=list)


def forest_of(rows: list[tuple[int, int, int]]) -> list[Node]:
    """Trees from (level, gap, tail) in preorder; a level deeper than the row before allows is cut to it."""
    top = Node(0, 0)
    path = [top]
    for level, gap, tail in rows:
        del path[level + 1 :]
        path[-1].children.append(Node(gap, tail))
        path.append(path[-1].children[-1])
    return top.children


rows_of_a_thread = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2500), st.integers(1, 2500)), max_size=12)
forests = st.lists(rows_of_a_thread.map(forest_of), min_size=1, max_size=3)  # of each thread


@dataclass
class Laid:
    """A forest laid out in time, with the answers by construction."""

    thread: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)

    def place(self, node: Node, thread: int, at: int, parent: int) -> int:
        """Lay a node from `gap` after a time on; returns its end. Its own time is what its children leave."""
        row, begin = len(self.start), at + node.gap
        for values, value in ((self.thread, thread), (self.start, begin), (self.end, 0), (self.parent, parent)):
            values.append(value)
        self.own.append(0)
        cursor, children = begin, 0
        for child in node.children:
            before = cursor
            cursor = self.place(child, thread, cursor, row)
            children += cursor - before - child.gap
        self.end[row] = cursor + node.tail
        self.own[row] = self.end[row] - begin - children
        return self.end[row]


def lay(forest: list[list[Node]]) -> Laid:
    laid = Laid()
    for thread, roots in enumerate(forest):
        cursor = 0
        for root in roots:
            cursor = laid.place(root, thread, cursor, -1)
    return laid


def union(start: Ints, end: Ints) -> int:
    """Measure of a union of intervals, by sweeping."""
    total, reach = 0, None
    for a, b in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if reach is None or a > reach:
            total, reach = total + b - a, b
        elif b > reach:
            total, reach = total + b - reach, b
    return total


@given(forests, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_properly_nested_forest_is_found_again(forest: list[list[Node]], random: Any) -> None:
    laid = lay(forest)
    n = len(laid.start)
    order = list(range(n))
    random.shuffle(order)
    nesting = link.nest(*(ints(*(values[i] for i in order)) for values in (laid.thread, laid.start, laid.end)))
    assert [order[p] if p >= 0 else -1 for p in nesting.parent.tolist()] == [laid.parent[i] for i in order]
    assert nesting.self_ns.tolist() == [laid.own[i] for i in order]
    assert nesting.clipped == 0
    threads = ints(*(laid.thread[i] for i in order))
    for thread in set(laid.thread):
        mine = threads == thread
        starts, ends = (ints(*(values[i] for i in order))[mine] for values in (laid.start, laid.end))
        assert int(nesting.self_ns[mine].sum()) == union(starts, ends)


@given(forests)
@settings(max_examples=100, deadline=None)
def test_self_times_stay_sound_when_times_are_cut_to_microseconds(forest: list[list[Node]]) -> None:
    laid = lay(forest)
    thread = ints(*laid.thread)
    start = ints(*(a // 1000 for a in laid.start))
    end = start + ints(*((b - a) // 1000 for a, b in zip(laid.start, laid.end, strict=True)))
    nesting = link.nest(thread, start, end)
    cut = end.copy()
    for i in nesting.order.tolist():
        above = int(nesting.parent[i])
        if above < 0:
            assert nesting.depth[i] == 0
            continue
        cut[i] = min(cut[i], cut[above])
        assert thread[above] == thread[i]
        assert start[above] <= start[i] <= cut[i] <= cut[above]
        assert nesting.depth[i] == nesting.depth[above] + 1
    assert (nesting.self_ns >= 0).all()
    assert nesting.clipped_ns == int((end - cut).sum())
    for number in set(laid.thread):
        mine = thread == number
        assert int(nesting.self_ns[mine].sum()) == union(start[mine], cut[mine])
        assert union(start[mine], end[mine]) - union(start[mine], cut[mine]) <= nesting.clipped_ns


# --- phases ---------------------------------------------------------------------------------------------------------


def test_phases_of_a_plain_step() -> None:
    found = phases(
        ("wcbench.step#0", 0, 1000),
        ("Optimizer.zero_grad#SGD.zero_grad", 0, 50),
        ("aten::zero_", 10, 20, {"seq": 4}),
        ("wcbench.forward", 100, 300),
        ("aten::linear", 110, 200, {"seq": 5}),
        ("aten::as_strided", 120, 130),
        ("aten::mse_loss", 310, 350, {"seq": 6}),
        ("autograd::engine::evaluate_function: AddmmBackward0", 400, 500),
        ("AddmmBackward0", 410, 490, {"seq": 5}),
        ("aten::mm", 420, 480),
        ("aten::_foreach_norm", 510, 540),
        ("Optimizer.step#SGD.step", 600, 800),
        ("aten::_foreach_add_", 610, 700),
        ("aten::item", 900, 910),
    )
    assert found == {
        "wcbench.step#0": "other",
        "Optimizer.zero_grad#SGD.zero_grad": "other",
        "aten::zero_": "other",  # autograd is on in zero_grad, yet it is no forward work
        "wcbench.forward": "forward",
        "aten::linear": "forward",
        "aten::as_strided": "forward",  # its parent's phase
        "aten::mse_loss": "forward",  # outside the module, but autograd records it
        "autograd::engine::evaluate_function: AddmmBackward0": "backward",
        "AddmmBackward0": "backward",
        "aten::mm": "backward",
        "aten::_foreach_norm": "other",  # gradient clipping
        "Optimizer.step#SGD.step": "optimizer",
        "aten::_foreach_add_": "optimizer",
        "aten::item": "other",
    }


def test_a_backward_thread_needs_no_mark_of_its_own() -> None:
    found = phases(
        ("wcbench.step#0", 0, 1000),
        ("autograd::engine::evaluate_function: MulBackward0", 400, 500, {"thread": 2}),
        ("aten::mul", 410, 490, {"thread": 2}),
        ("aten::elsewhere", 510, 520, {"thread": 2}),
    )
    assert found["aten::mul"] == "backward"
    assert found["aten::elsewhere"] == "other"


def test_a_closure_inside_the_optimizer_is_forward_and_backward() -> None:
    found = phases(
        ("Optimizer.step#LBFGS.step", 0, 1000),
        ("wcbench.forward", 100, 200),
        ("aten::addmm", 110, 190, {"seq": 3}),
        ("aten::loss", 210, 220, {"seq": 4}),
        ("autograd::engine::evaluate_function: AddmmBackward0", 300, 400),
        ("aten::mm", 310, 390),
        ("aten::dot", 500, 510),
    )
    assert found["aten::addmm"] == found["aten::loss"] == "forward"
    assert found["aten::mm"] == "backward"
    assert found["aten::dot"] == "optimizer"


def test_a_model_under_no_grad_is_forward() -> None:
    assert phases(("wcbench.forward", 0, 100), ("aten::addmm", 10, 20))["aten::addmm"] == "forward"


def test_recomputation_inside_backward_is_backward() -> None:
    found = phases(
        ("autograd::engine::evaluate_function: CheckpointFunctionBackward", 0, 1000),
        ("wcbench.forward", 100, 500),
        ("aten::addmm", 110, 200, {"seq": 9}),
        ("user section#1", 600, 700),
        ("aten::mul", 610, 620, {"seq": 10}),
    )
    assert set(found.values()) == {"backward"}


def test_other_peoples_marks_change_nothing() -> None:
    found = phases(("Optimizer.step#Adam.step", 0, 100), ("my section#7", 10, 90), ("aten::add_", 20, 30))
    assert found["my section#7"] == found["aten::add_"] == "optimizer"


def test_an_operator_that_is_called_like_a_mark_is_no_mark() -> None:
    found = phases(("Optimizer.step#fake", 0, 100, {"mark": False}), ("aten::add_", 20, 30))
    assert found["aten::add_"] == "other"


# --- the operator around, steps -------------------------------------------------------------------------------------


def test_marks_are_skipped_on_the_way_up() -> None:
    events = host(
        ("wcbench.step#0", 0, 100),
        ("aten::outer", 10, 90),
        ("wcbench.forward", 20, 80),
        ("my section#1", 30, 70),
        ("aten::inner", 40, 50),
    )
    nesting = nested(events)
    assert link.enclosing_op(events, nesting).tolist() == [-1, -1, 1, 1, 1]
    assert link.op_depth(events, nesting).tolist() == [0, 0, 1, 1, 1]


def test_a_step_holds_its_start_and_not_its_end() -> None:
    events = host(("wcbench.step#3", 100, 200), ("wcbench.step#4", 200, 300), ("wcbench.step#5", 350, 400))
    times_ = ints(99, 100, 199, 200, 299, 300, 349, 350, 399, 400, 10**18)
    assert link.steps_by_time(events, times_).tolist() == [-1, 3, 3, 4, 4, -1, -1, 5, 5, -1, -1]


def test_steps_without_marks_or_queries() -> None:
    assert link.steps_by_time(host(("aten::add", 0, 10)), ints(5)).tolist() == [-1]
    assert link.steps_by_time(host(("wcbench.step#0", 0, 10)), ints()).tolist() == []
    assert link.steps_by_time(host(), ints(5)).tolist() == [-1]


def test_step_marks_may_come_in_any_order() -> None:
    events = host(("wcbench.step#1", 50, 60), ("aten::add", 0, 100), ("wcbench.step#0", 10, 20))
    assert link.steps_by_time(events, ints(15, 55, 30)).tolist() == [0, 1, -1]


def test_an_operator_that_is_called_like_a_step_opens_none() -> None:
    events = host(("wcbench.step#0", 0, 10, {"mark": False}))
    assert link.steps_by_time(events, ints(5)).tolist() == [-1]


def test_innermost_climbs_to_what_still_runs() -> None:
    events = host(
        ("aten::a", 0, 100),
        ("aten::b", 10, 50),
        ("aten::c", 20, 30),
        ("aten::z", 40, 40),
        ("aten::d", 0, 100, {"thread": 2}),
    )
    queries = [(1, 0), (1, 10), (1, 29), (1, 30), (1, 40), (1, 50), (1, 99), (1, 100), (2, 25), (3, 25), (1, -1)]
    found = link.innermost(events, nested(events), ints(*(t for t, _ in queries)), ints(*(at for _, at in queries)))
    assert found.tolist() == [0, 1, 2, 1, 1, 0, 0, -1, 4, -1, -1]


@given(forests, st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 30_000)), max_size=20))
@settings(max_examples=100, deadline=None)
def test_innermost_agrees_with_brute_force(forest: list[list[Node]], queries: list[tuple[int, int]]) -> None:
    laid = lay(forest)
    rows = [("aten::x", a, b, {"thread": t}) for t, a, b in zip(laid.thread, laid.start, laid.end, strict=True)]
    events = host(*rows)
    nesting = nested(events)
    found = link.innermost(events, nesting, ints(*(t for t, _ in queries)), ints(*(at for _, at in queries)))
    for (thread, at), answer in zip(queries, found.tolist(), strict=True):
        running = [i for i in range(len(rows)) if laid.thread[i] == thread and laid.start[i] <= at < laid.end[i]]
        assert answer == max(running, key=lambda i: int(nesting.depth[i]), default=-1)


def test_innermost_of_nothing() -> None:
    events = host()
    assert link.innermost(events, nested(events), ints(1), ints(5)).tolist() == [-1]
    events = host(("aten::a", 0, 100))
    assert link.innermost(events, nested(events), ints(), ints()).tolist() == []


# --- launches -------------------------------------------------------------------------------------------------------


def test_case_10_the_ids_of_operators_play_no_part() -> None:
    """An operator's External id 23 and a launch's correlation 23 are two things: only runtime calls are asked."""
    launches = link.link_launches(ints(23, 24), ints(24, 23), ["cudaLaunchKernel", "cudaLaunchKernel"])
    assert launches.launch.tolist() == [1, 0]
    assert (launches.lost, launches.orphans) == (0, 0)
    # the same ids on operators alone: nothing to tie to
    assert link.link_launches(ints(23), ints(), []).launch.tolist() == [-1]


def test_one_graph_launch_owns_420_kernels() -> None:
    launches = link.link_launches(
        ints(*[7] * 420, 8), ints(6, 7, 8), ["cudaMalloc", "hipGraphLaunch", "hipLaunchKernel"]
    )
    assert launches.launch.tolist() == [1] * 420 + [2]
    assert (launches.lost, launches.orphans) == (0, 0)


def test_a_correlation_that_two_runtime_calls_carry_goes_to_the_first() -> None:
    launches = link.link_launches(ints(5, 5), ints(9, 5, 5), ["cudaMalloc", "cudaLaunchKernel", "cuLaunchKernel"])
    assert launches.launch.tolist() == [1, 1]
    assert launches.lost == 0


def test_orphans_are_counted() -> None:
    launches = link.link_launches(ints(705, 3, 736), ints(1, 2, 3), ["a", "b", "cudaLaunchKernel"])
    assert launches.launch.tolist() == [-1, 2, -1]
    assert launches.orphans == 2


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_case_24_launches_without_a_device_record(missing: int) -> None:
    correlation = ints(*range(100, 110))
    launches = link.link_launches(correlation[missing:], correlation, ["cudaLaunchKernel"] * 10)
    assert (launches.lost, launches.orphans) == (missing, 0)


def test_calls_that_launch_nothing_are_not_lost() -> None:
    names = ["cudaDeviceSynchronize", "cudaMalloc", "cudaEventRecord", "cuCtxGetCurrent", "cudaLaunchHostFunc"]
    assert link.link_launches(ints(), ints(1, 2, 3, 4, 5), names).lost == 0


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemcpyWithStream",
        "cudaMemcpyAsync",
        "aNameOfTheNextCuda",
    ],
)
def test_case_54_any_runtime_call_links(name: str) -> None:
    launches = link.link_launches(ints(2), ints(1, 2), ["other", name])
    assert launches.launch.tolist() == [1]
    assert (launches.lost, launches.orphans) == (0, 0)


def test_empty_arrays_of_each_kind() -> None:
    nothing = link.link_launches(ints(), ints(), [])
    assert (nothing.launch.tolist(), nothing.lost, nothing.orphans) == ([], 0, 0)
    kernels = link.link_launches(ints(1, 2), ints(), [])
    assert (kernels.launch.tolist(), kernels.lost, kernels.orphans) == ([-1, -1], 0, 2)
    calls = link.link_launches(ints(), ints(1, 2), ["cudaLaunchKernel", "cudaGraphLaunch"])
    assert (calls.launch.tolist(), calls.lost, calls.orphans) == ([], 2, 0)


@given(st.lists(st.integers(0, 12), max_size=30), st.lists(st.integers(0, 12), max_size=30))
def test_launches_agree_with_brute_force(kernels: list[int], runtime: list[int]) -> None:
    launches = link.link_launches(ints(*kernels), ints(*runtime), ["cudaLaunchKernel"] * len(runtime))
    assert launches.launch.tolist() == [runtime.index(k) if k in runtime else -1 for k in kernels]
    assert launches.lost == sum(r not in kernels for r in runtime)


# --- what imported files add ----------------------------------------------------------------------------------------


def test_calls_of_which_the_file_says_so_are_backward_with_all_inside_them() -> None:
    events = host(("forward", 0, 10, {"seq": 3}), ("node", 20, 60), ("inner", 30, 40, {"seq": 4}), ("after", 70, 80))
    told = dataclasses.replace(events, backward=np.array([False, True, False, False]))
    assert link.phases(told, nested(told)) == ["forward", "backward", "backward", "other"]
    none = dataclasses.replace(events, backward=np.zeros(4, np.bool_))
    assert link.phases(none, nested(none)) == ["forward", "other", "forward", "other"]


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("AddmmBackward", "backward"),
        ("MulBackward0", "backward"),
        ("torch::autograd::AccumulateGrad", "backward"),
        ("torch::autograd::CopyBackwards", "backward"),
        ("aten::threshold_backward", "other"),
        ("BackwardHook", "other"),
        ("backward", "other"),
    ],
)
def test_nodes_of_autograd_are_known_by_their_own_names(name: str, phase: str) -> None:
    assert phases((name, 0, 10))[name] == phase


def test_times_and_depths_of_operators_skip_marks_between_them() -> None:
    events = host(("outer", 0, 100), ("Optimizer.step#SGD", 10, 90), ("inner", 20, 50), ("leaf", 30, 40))
    nesting = nested(events)
    above = link.enclosing_op(events, nesting)
    assert above.tolist() == [-1, 0, 0, 2]
    # outer 100 - 30 (inner, not the mark); inner 30 - 10
    assert link.op_self(events, nesting, above).tolist()[::2] == [70, 20]
    assert link.op_depth(events, nesting)[[0, 2, 3]].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("cudaLaunchKernel", True),
        ("cuLaunchKernelEx", True),
        ("hipExtModuleLaunchKernel", True),
        ("cudaGraphLaunch", True),
        ("cudaLaunchHostFunc", False),
        ("cudaMemcpyAsync", False),
        ("cudaDeviceSynchronize", False),
    ],
)
def test_what_launches_work_that_leaves_a_record(name: str, launches: bool) -> None:
    assert link.launches_work(name) == launches
