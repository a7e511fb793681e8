"""Hotspots and categories against figures worked out by hand (the rows stand in conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench import kernels
from wcbench.analysis.hotspots import categories, hotspots
from wcbench.record import Profile

Timeline = Callable[..., Profile]


def test_hotspots_by_hand(full: Profile) -> None:
    found = hotspots(full)
    assert found is not None
    assert (found.of, found.steps, found.total_ns) == ("operator self time", 2, 1000.0)
    rows = found.rows
    assert rows["name"].tolist() == [
        "aten::addmm",
        "aten::mm",
        "aten::relu",  # the same time as the next: by name
        "mystery::riddle",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "aten::add_",
    ]
    assert rows["time_ns"].tolist() == [500.0, 250.0, 100.0, 100.0, 30.0, 20.0]
    assert rows["time_share"].tolist() == pytest.approx([0.5, 0.25, 0.1, 0.1, 0.03, 0.02], abs=1e-12)
    assert rows["calls"].tolist() == [1.0] * 6
    assert rows["category"].tolist() == ["GEMM", "GEMM", "ReLU activation", "unknown", "framework", "element-wise"]
    assert rows["paper"].tolist() == [
        *("GEMM", "GEMM", "ReLU activation", "unknown", "none of the eight", "element-wise")
    ]
    assert rows["time_ns"].sum() == found.total_ns


def test_categories_by_hand(full: Profile) -> None:
    found = categories(full)
    assert found is not None
    paper = {name: share for name, share in found.paper.items() if share}
    assert paper == pytest.approx(
        {"GEMM": 0.75, "ReLU activation": 0.1, "element-wise": 0.02, "none of the eight": 0.03, "unknown": 0.1}
    )
    shares = {name: share for name, share in found.full.items() if share}
    assert shares == pytest.approx(
        {"GEMM": 0.75, "ReLU activation": 0.1, "element-wise": 0.02, "framework": 0.03, "unknown": 0.1}
    )
    assert found.phases == pytest.approx({"forward": 0.7, "backward": 0.28, "optimizer": 0.02, "other": 0.0})
    assert found.unknown_share == pytest.approx(0.1)
    assert found.unknown_names == ("mystery::riddle",)
    assert found.python_share == pytest.approx(0.2)  # 2000 of 2500 ns are in operators
    assert set(found.paper) == {*kernels.PAPER, "none of the eight", "unknown"}
    assert set(found.full) == {*kernels.FULL, "unknown"}


NAMES = ["aten::addmm", "aten::relu", "x::y", "Foo", "aten::copy_", "volta_sgemm_128x64_nn", "ncclDevKernel_x", "ü"]
CALLS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 10**12),
        st.integers(0, 2),
        st.sampled_from(["forward", "backward", "optimizer", "other"]),
    ),
    min_size=1,
    max_size=30,
)


@given(CALLS, st.sampled_from(["cpu", "cuda:0"]))
@settings(max_examples=25, deadline=None)
def test_shares_sum_to_one_in_both_views(made: Any, calls: list[Any], device: str) -> None:
    profile = made.record({"timeline": made.info(steps=3)}, {"kernels": {"timeline": made.kernel_rows(calls, device)}})
    hot, shares = hotspots(profile), categories(profile)
    assert hot is not None
    total = sum(ns for _, ns, _, _ in calls)
    assert hot.total_ns == pytest.approx(total / 3)
    assert hot.rows["calls"].sum() == pytest.approx(len(calls) / 3)
    if not total:
        assert shares is None
        assert hot.rows["time_share"].tolist() == [0.0] * len(hot.rows)
        return
    assert shares is not None
    for view in (shares.paper, shares.full, shares.phases):
        assert sum(view.values()) == pytest.approx(1, abs=1e-9)
    assert hot.rows["time_share"].sum() == pytest.approx(1, abs=1e-9)
    assert shares.paper["unknown"] == pytest.approx(shares.full["unknown"], abs=1e-12)
    assert (hot.rows["time_ns"].diff().dropna() <= 0).all()


def test_each_paper_share_is_the_sum_of_its_full_ones(full: Profile) -> None:
    found = categories(full)
    assert found is not None
    for name in (*kernels.PAPER, kernels.NONE_OF_THE_EIGHT):
        parts = [share for category, share in found.full.items() if kernels.FULL.get(category) == name]
        assert found.paper[name] == pytest.approx(sum(parts), abs=1e-12)


def test_no_timeline_is_none(made: Any) -> None:
    profile = made.record({"timing": made.info()}, {"steps": {"timing": made.step_rows([5, 6])}})
    assert hotspots(profile) is None
    assert categories(profile) is None


def test_a_timeline_with_nothing_in_its_steps_is_none(timeline: Timeline, made: Any) -> None:
    profile = timeline(made.kernel_rows([("aten::sort", 10, None, "other")]))
    assert hotspots(profile) is None
    assert categories(profile) is None


def test_one_row(timeline: Timeline, made: Any) -> None:
    profile = timeline(made.kernel_rows([("aten::addmm", 7, 0, "forward")]), durations=[10])
    hot, shares = hotspots(profile), categories(profile)
    assert hot is not None
    assert shares is not None
    assert hot.rows[["time_ns", "time_share", "calls"]].to_numpy().tolist() == [[7.0, 1.0, 1.0]]
    assert (shares.paper["GEMM"], shares.unknown_share, shares.unknown_names) == (1.0, 0.0, ())
    assert shares.python_share is None  # there are no ops to tell


def test_only_zero_durations(timeline: Timeline, made: Any) -> None:
    """Truncated times may all be 0: there are calls, but no shares."""
    profile = timeline(made.kernel_rows([("aten::addmm", 0, 0, "forward"), ("aten::mm", 0, 1, "backward")]))
    hot = hotspots(profile)
    assert hot is not None
    assert hot.rows["time_share"].tolist() == [0.0, 0.0]
    assert hot.rows["calls"].tolist() == [0.5, 0.5]
    assert categories(profile) is None


def test_some_zero_durations(timeline: Timeline, made: Any) -> None:
    profile = timeline(made.kernel_rows([("aten::addmm", 0, 0, "forward"), ("aten::mm", 8, 1, "backward")]))
    hot = hotspots(profile)
    assert hot is not None
    assert hot.rows[["name", "time_ns", "time_share"]].to_numpy().tolist() == [
        ["aten::mm", 4.0, 1.0],
        ["aten::addmm", 0.0, 0.0],
    ]


DEVICE = [
    ("volta_scudnn_128x64_relu_interior_nn_v1", 300, 0, "forward"),  # a convolution, whatever its name carries
    ("volta_scudnn_128x64_relu_interior_nn_v1", 300, 1, "forward"),
    ("Memcpy HtoD (Pageable -> Device)", 100, 0, "other"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 100, 1, "backward"),
    ("before the window", 10_000, None, "other"),
]


def test_a_gpus_kernels_leave_the_hosts_rows_out(timeline: Timeline, made: Any) -> None:
    rows = [*made.kernel_rows(), *made.kernel_rows(DEVICE, "cuda:1")]
    profile = timeline(rows, ops=made.op_rows(), device="cuda:1")
    hot, shares = hotspots(profile), categories(profile)
    assert hot is not None
    assert shares is not None
    assert (hot.of, hot.total_ns) == ("kernel time", 400.0)
    assert hot.rows["time_share"].tolist() == [0.75, 0.125, 0.125]
    assert hot.rows["calls"].tolist() == [1.0, 0.5, 0.5]
    assert shares.full["convolution"] == 0.75
    assert shares.full["communication"] == 0.125  # CASE 9
    assert shares.paper["memory copy"] == 0.125
    assert shares.paper["none of the eight"] == 0.125
    assert shares.python_share is None


def test_kernels_on_two_streams_add_up_as_kernel_time(timeline: Timeline, made: Any) -> None:
    """CASE 12 in the sum's sense: shares of kernel time never pass 1, however many run at once."""
    both = [("volta_sgemm_128x64_nn", 100, 0, "forward")] * 2
    rows = [{**row, "start_ns": 0, "stream": i} for i, row in enumerate(made.kernel_rows(both, "cuda:0"))]
    shares = categories(timeline(rows, durations=[100], device="cuda:0"))
    assert shares is not None
    assert shares.paper["GEMM"] == 1.0


@pytest.mark.parametrize(
    ("self_ns", "wall", "expected"),
    [(1000, 1000, 0.0), (1000, 4000, 0.75), (1001, 1000, 0.0), (0, 1000, 1.0)],
    ids=["all", "a quarter", "clocks differ by a ns", "none"],
)
def test_python_share_by_hand(timeline: Timeline, made: Any, self_ns: int, wall: int, expected: float) -> None:
    calls = [("aten::mm", self_ns, 0, "forward"), ("aten::relu", 0, 0, "forward"), ("aten::sort", 10**6, None, "other")]
    kernels_ = made.kernel_rows([("aten::mm", 5, 0, "forward")])
    found = categories(timeline(kernels_, ops=made.op_rows(calls), durations=[wall]))
    assert found is not None
    assert found.python_share == pytest.approx(expected)


def test_python_share_asks_the_stepping_thread(timeline: Timeline, made: Any) -> None:
    ops = [*made.op_rows([("aten::mm", 600, 0, "forward")]), *made.op_rows([("aten::add", 300, 0, "other")], thread=2)]
    found = categories(timeline(made.kernel_rows([("aten::mm", 600, 0, "forward")]), ops=ops, durations=[1000]))
    assert found is not None
    assert found.python_share == pytest.approx(0.4)


def test_other_passes_do_not_mix_in(made: Any) -> None:
    """Kernels of another pass (counters, an import) are not the timeline's."""
    profile = made.record(
        {"timeline": made.info(steps=1), "counters": made.info(steps=1)},
        {
            "kernels": {
                "counters": made.kernel_rows([("aten::conv2d", 900, 0, "forward")]),
                "timeline": made.kernel_rows([("aten::mm", 100, 0, "forward")]),
            }
        },
    )
    hot = hotspots(profile)
    assert hot is not None
    assert hot.rows["name"].tolist() == ["aten::mm"]
    assert hot.total_ns == 100


def test_frames_are_copies(full: Profile) -> None:
    hot, shares = hotspots(full), categories(full)
    assert hot is not None
    assert shares is not None
    changed = hot.to_frame()
    changed["time_ns"] = 0
    assert hot.rows["time_ns"].sum() == 1000
    frame = shares.to_frame()
    assert list(frame.columns) == ["view", "category", "share"]
    assert frame.groupby("view")["share"].sum().tolist() == pytest.approx([1, 1])
