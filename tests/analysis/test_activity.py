"""Busy and idle time, overlap and groups against figures worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.activity import DEVICE_COLUMNS, STREAM_COLUMNS, activity
from wcbench.record import Profile

GEMM, NCCL, COPY = "volta_sgemm_128x64_nn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "Memcpy HtoD"
MS = 1_000_000


def timeline(made: Any, rows: list[dict[str, Any]], **changes: Any) -> Profile:
    profile: Profile = made.foreign({"timeline": made.foreign_info(**changes)}, {"kernels": {"timeline": rows}})
    return profile


def device(found: Any, name: str = "cuda:0", rank: int = 0) -> dict[str, Any]:
    frame = found.devices
    row = frame[(frame["device"] == name) & (frame["rank"] == rank)]
    assert len(row) == 1
    return {str(key): None if value is pd.NA else value for key, value in row.iloc[0].items()}


def test_golden_figures_by_hand(made: Any) -> None:
    """CASE 61. GEMM 0-100, NCCL 50-150, copy 200-230, GEMM 220-260: span 260, idle 150-200."""
    rows = made.device_rows([(GEMM, 10, 100), (COPY, 210, 30), (GEMM, 230, 40)])
    rows += made.device_rows([(NCCL, 60, 100)], stream=20)
    found = activity(timeline(made, rows))
    assert found is not None
    row = device(found)
    assert (row["calls"], row["sum_ns"], row["span_ns"]) == (4, 270, 260)
    assert (row["busy_ns"], row["idle_ns"]) == (210, 50)
    assert row["utilization"] == pytest.approx(210 / 260)
    assert row["concurrency"] == pytest.approx(270 / 210)
    assert (row["computation_ns"], row["communication_ns"], row["copy_ns"]) == (140, 100, 30)
    assert (row["overlap_ns"], row["overlap_share"]) == (50, 0.5)
    assert found.groups[0, "cuda:0"] == {
        ("computation",): 80,  # 0-50 and 230-260
        ("communication",): 50,
        ("computation", "communication"): 50,
        ("memory copy",): 20,
        ("computation", "memory copy"): 10,
    }
    assert found.notes == ()


def test_case_12_overlapping_kernels_are_busy_once(made: Any) -> None:
    rows = made.device_rows([(GEMM, MS, 100 * MS)]) + made.device_rows([(GEMM, MS, 100 * MS)], stream=8)
    found = activity(timeline(made, rows))
    assert found is not None
    assert (device(found)["utilization"], device(found)["concurrency"]) == (1.0, 2.0)
    assert found.utilization == 1.0


def test_case_12_one_stream_number_on_two_devices_is_two_streams(made: Any) -> None:
    rows = made.device_rows([(GEMM, 1000, 100), (GEMM, 1400, 100)])
    rows += made.device_rows([(GEMM, 1050, 100)], device="cuda:1") + made.device_rows([(GEMM, 1050, 100)], rank=1)
    found = activity(timeline(made, rows))
    assert found is not None
    assert found.streams[["rank", "device", "stream"]].to_numpy().tolist() == [
        [0, "cuda:0", 7],
        [0, "cuda:1", 7],
        [1, "cuda:0", 7],
    ]
    assert found.devices["utilization"].tolist() == [0.4, 1.0, 1.0]
    assert found.utilization == pytest.approx(400 / 700)  # of all spans together, never merged


def test_case_9_62_each_group_absent_in_turn(made: Any) -> None:
    calls = {"computation": (GEMM, 100, 10), "communication": (NCCL, 120, 10), "copy": (COPY, 140, 10)}
    for absent in calls:
        rows = made.device_rows([call for name, call in calls.items() if name != absent])
        found = activity(timeline(made, rows))
        assert found is not None
        row = device(found)
        assert {name: row[f"{name}_ns"] for name in calls} == {name: 10 * (name != absent) for name in calls}
        assert row["overlap_share"] == (None if absent == "communication" else 0.0)
        assert row["overlap_ns"] == (None if absent == "communication" else 0)
        assert any("not defined" in note for note in found.notes) == (absent == "communication")


@pytest.mark.parametrize("name", ["ncclKernel_x", "ncclDevKernel_x", "nccldevkernel_x", "rcclKernel", "nccl:reduce"])
def test_case_9_names_of_communication(made: Any, name: str) -> None:
    found = activity(timeline(made, made.device_rows([(name, 100, 10)])))
    assert found is not None
    assert device(found)["communication_ns"] == 10


def test_what_a_file_calls_a_collective_is_communication(made: Any) -> None:
    rows = made.device_rows([("multimem_kernel", 100, 10)], collective="allreduce")
    rows += made.device_rows([("foo", 200, 5)])
    found = activity(timeline(made, rows))
    assert found is not None
    assert (device(found)["communication_ns"], device(found)["computation_ns"]) == (10, 5)


def test_case_14_synchronization_is_waiting(made: Any) -> None:
    rows = made.device_rows([(GEMM, 100, 10), ("Stream Sync", 0, 1000), ("Event Sync", 110, 10)])
    rows += made.device_rows([("Device Sync", 0, 77)], stream=-1)
    found = activity(timeline(made, rows))
    assert found is not None
    row = device(found)
    assert (row["calls"], row["sum_ns"], row["busy_ns"], row["span_ns"]) == (1, 10, 10, 10)
    assert (row["waiting_calls"], row["waiting_ns"]) == (3, 1087)
    assert found.streams["stream"].tolist() == [7]  # a stream that only waited did nothing
    assert any(note.startswith("3 records of synchronization") for note in found.notes)


DAY = 86_400_000_000_000


@pytest.mark.parametrize(
    "rows",
    [
        [(GEMM, 20_000 * DAY, 50), (GEMM, 20_000 * DAY + 150, 50), (GEMM, 0, 0)],
        [(GEMM, 20_000 * DAY, 50), (GEMM, 20_000 * DAY + 150, 50), (GEMM, 0, 30)],  # a duration, and no start
        [(GEMM, 20_000 * DAY, 50), (GEMM, 20_000 * DAY + 150, 50), (GEMM, None, 30)],
        [(GEMM, 20_000 * DAY, 50), (GEMM, 20_000 * DAY + 150, 50), (GEMM, 2**63 - 1, 30)],
    ],
    ids=["both 0", "start 0", "null", "beyond all clocks"],
)
def test_case_18_without_a_timestamp_the_span_does_not_stretch(made: Any, rows: list[Any]) -> None:
    found = activity(timeline(made, made.device_rows(rows)))
    assert found is not None
    row = device(found)
    assert (row["calls"], row["no_timestamp"]) == (3, 1)
    assert (row["span_ns"], row["busy_ns"], row["idle_ns"]) == (200, 100, 100)
    assert row["sum_ns"] == 100 + rows[-1][2]
    assert found.notes[0].startswith("1 of 3 executions has no timestamp")


def test_a_clock_that_begins_with_the_file_may_begin_at_0(made: Any) -> None:
    found = activity(timeline(made, made.device_rows([(GEMM, 0, 50), (GEMM, 100, 50)])))
    assert found is not None
    assert (device(found)["no_timestamp"], device(found)["span_ns"]) == (0, 150)


def test_durations_alone_give_sums_and_no_shares(made: Any) -> None:
    found = activity(timeline(made, made.device_rows([(GEMM, None, 50), (NCCL, None, 20)])))
    assert found is not None
    row = device(found)
    assert (row["calls"], row["sum_ns"], row["no_timestamp"]) == (2, 70, 2)
    absent = ("span_ns", "busy_ns", "idle_ns", "utilization", "concurrency", "computation_ns", "overlap_share")
    assert [row[name] for name in absent] == [None] * len(absent)
    assert found.utilization is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_host_has_no_devices(full: Profile, made: Any) -> None:
    assert activity(full) is None
    assert activity(made.foreign({}, {})) is None
    assert activity(timeline(made, made.device_rows([("aten::mm", 5, 5)], device="cpu"))) is None


def test_json_and_frames(made: Any) -> None:
    found = activity(timeline(made, made.device_rows([(GEMM, 100, 60), (NCCL, 150, 50)]), device="cuda:0"))
    assert found is not None
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert tuple(told["devices"][0]) == (*DEVICE_COLUMNS, "groups")
    assert tuple(told["streams"][0]) == STREAM_COLUMNS
    assert (told["calls"], told["sum_ns"], told["utilization"]) == (2, 110, 1.0)
    shares = {tuple(group["active"]): group["span_share"] for group in told["devices"][0]["groups"]}
    assert shares == {("computation",): 0.5, ("computation", "communication"): 0.1, ("communication",): 0.4, (): 0.0}
    frame = found.to_frame()
    frame["calls"] = 0
    assert found.calls == 2
    assert "busy 100.0 %" in repr(found)


CALLS = st.lists(
    st.tuples(
        st.sampled_from([GEMM, NCCL, COPY, "Event Sync"]),
        st.integers(1, 60),
        st.integers(0, 20),
        st.sampled_from(["cuda:0", "cuda:1"]),
        st.sampled_from([7, 8, None]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=25,
)


@given(CALLS)
@settings(max_examples=60, deadline=None)
def test_against_single_moments(made: Any, calls: list[Any]) -> None:
    rows = [
        {**made.device_rows([(name, start, ns)], device=label, stream=stream)[0], "rank": rank}
        for name, start, ns, label, stream, rank in calls
    ]
    found = activity(timeline(made, rows))
    assert found is not None
    for row in found.devices.to_dict("records"):
        mine = [call for call in calls if (call[3], call[5]) == (row["device"], row["rank"])]
        work = [call for call in mine if call[0] != "Event Sync"]
        assert row["calls"] == len(work)
        assert row["waiting_calls"] == len(mine) - len(work)
        if not work:
            assert pd.isna(row["busy_ns"])
            continue
        held = {kind: {m for n, s, d, *_ in work if n == kind for m in range(s, s + d)} for kind in (GEMM, NCCL, COPY)}
        busy = set().union(*held.values())
        assert row["busy_ns"] == len(busy)
        assert row["span_ns"] == max(s + d for _, s, d, *_ in work) - min(s for _, s, *_ in work)
        assert row["idle_ns"] == row["span_ns"] - len(busy)
        if busy:
            assert row["computation_ns"] == len(held[GEMM])
            assert row["communication_ns"] == len(held[NCCL])
            assert row["copy_ns"] == len(held[COPY])
            if held[NCCL]:
                assert row["overlap_ns"] == len(held[NCCL] & held[GEMM])
            else:
                assert pd.isna(row["overlap_ns"])
        groups = found.groups[row["rank"], row["device"]]
        assert sum(groups.values()) == len(busy)
    assert found.streams["sum_ns"].sum() == found.sum_ns
    assert found.streams["calls"].sum() == found.calls


@pytest.mark.parametrize("several", [1, 40])
def test_many_rows_on_many_streams(made: Any, several: int) -> None:
    """The split by keys against a group-by."""
    rng = np.random.default_rng(0)
    count = 2000
    starts = np.sort(rng.integers(1, 10**6, count))
    rows = made.device_rows([(GEMM, int(s), int(n)) for s, n in zip(starts, rng.integers(1, 900, count), strict=True)])
    for row, stream in zip(rows, rng.integers(0, several, count).tolist(), strict=True):
        row["stream"] = stream
    found = activity(timeline(made, rows))
    assert found is not None
    expected = pd.DataFrame(rows).groupby("stream")["duration_ns"].sum()
    assert dict(zip(found.streams["stream"], found.streams["sum_ns"], strict=True)) == expected.to_dict()
