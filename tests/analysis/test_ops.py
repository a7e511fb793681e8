"""Host operators and sums by name against figures worked out by hand and against a plain walk."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcbench.analysis.ops import ops
from wcbench.analysis.totals import COLUMNS, totals
from wcbench.record import Profile


def op(name: str, start: int, end: int, own: int, parent: int | None = None, **more: Any) -> dict[str, Any]:
    times = {"start_ns": start, "duration_ns": end - start, "self_ns": own, "depth": 0, "parent": parent}
    return {"name": name, "thread": 1, "phase": "other", **times, **more}


def record(made: Any, **tables: Any) -> Profile:
    parts = {name: {"timeline": rows} for name, rows in tables.items()}
    profile: Profile = made.foreign({"timeline": made.foreign_info()}, parts)
    return profile


NESTED = [
    op("block", 0, 100, 30),
    op("aten::mm", 10, 40, 30, 0),
    op("block", 50, 90, 25, 0),  # a block in a block
    op("aten::mm", 60, 75, 15, 2),
    op("block", 0, 70, 70, thread=2),  # at the same time on another thread
    op("block", 5, 25, 20, rank=1),
]


def test_by_hand(made: Any) -> None:
    kernels = made.device_rows([("k", 20, 500), ("k", 30, 70), ("k", 40, 9)])
    kernels[0]["op"] = kernels[1]["op"] = "aten::mm"
    found = ops(record(made, ops=NESTED, kernels=kernels))
    assert found is not None
    rows = found.rows.set_index("name")
    assert found.rows["name"].tolist() == ["block", "aten::mm"]  # 145 and 45 of own time
    assert rows["calls"].to_dict() == {"block": 4, "aten::mm": 2}
    assert rows["self_ns"].to_dict() == {"block": 145.0, "aten::mm": 45.0}
    assert rows["total_ns"].to_dict() == {"block": 190.0, "aten::mm": 45.0}  # 100 + 70 + 20: the inner one is in it
    assert rows["self_share"].tolist() == [145 / 190, 45 / 190]
    assert rows["device_ns"].to_dict() == {"block": 0.0, "aten::mm": 570.0}
    assert (found.calls, found.self_ns, found.ranks, found.device_unlinked_ns) == (6, 190, 2, 9.0)
    assert rows.loc["aten::mm", "category"] == "GEMM"


def test_without_a_device_its_time_is_unknown(made: Any, full: Profile) -> None:
    found = ops(record(made, ops=NESTED))
    assert found is not None
    assert found.rows["device_ns"].isna().all()
    assert found.device_unlinked_ns is None
    own = ops(full)
    assert own is not None
    assert own.rows["device_ns"].isna().all()  # kernels of device cpu are the operators themselves
    assert own.rows["calls"].sum() == 13


def test_json_and_frames(made: Any) -> None:
    found = ops(record(made, ops=NESTED, kernels=made.device_rows([("k", 20, 500)])))
    assert found is not None
    told = found.to_dict(rows=1)
    assert (told["names"], len(told["rows"])) == (2, 1)
    json.dumps(told, allow_nan=False)
    frame = found.to_frame()  # CASE 95
    frame["calls"] = 0
    assert found.rows["calls"].sum() == 6
    assert "block" in repr(found)


def test_nothing(made: Any) -> None:
    assert ops(made.foreign({}, {})) is None
    assert ops(record(made)) is None
    assert totals(made.foreign({}, {})) is None
    assert totals(record(made)) is None


TREES = st.recursive(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.just([])),
    lambda inner: st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.lists(inner, max_size=3)),
    max_leaves=12,
)


def walk(tree: Any, start: int, above: tuple[str, ...], rows: list[Any], total: dict[str, int]) -> int:
    """Lay a tree of (name, own time, children) out in time; add up what no call of the same name surrounds."""
    name, own, children = tree
    place = len(rows)
    rows.append(None)
    at = start
    for child in children:
        at = walk(child, at, (*above, name), rows, total)
    end = at + own
    rows[place] = op(name, start, end, own)
    if name not in above:
        total[name] += end - start
    return end


@given(st.lists(TREES, min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_totals_count_nested_calls_of_one_name_once(made: Any, trees: list[Any]) -> None:
    rows: list[Any] = []
    expected: dict[str, int] = defaultdict(int)
    start = 0
    for tree in trees:
        start = walk(tree, start, (), rows, expected)
    found = ops(record(made, ops=rows))
    assert found is not None
    assert dict(zip(found.rows["name"], found.rows["total_ns"], strict=True)) == {
        name: expected.get(name, 0) for name in {row["name"] for row in rows}
    }
    assert found.rows["self_ns"].sum() == sum(row["self_ns"] for row in rows)


# sums by name


def test_sums_that_a_file_holds(made: Any) -> None:
    common = {"device": "cuda:0", "minimum_ns": 1.0, "maximum_ns": 9.0, "median_ns": 4.0}
    rows = [
        {"kind": "kernel", "name": "k", "calls": 4, "total_ns": 20.0, **common},
        {"kind": "kernel", "name": "k", "calls": 1, "total_ns": 30.0, **common, "rank": 1, "maximum_ns": 30.0},
        {"kind": "runtime", "name": "cudaLaunchKernel", "calls": 5, "total_ns": 7.0},
    ]
    found = totals(record(made, totals=rows))
    assert found is not None
    assert (found.listed, found.ranks, tuple(found.rows.columns)) == (True, 2, COLUMNS)
    kernel, call = found.rows.to_dict("records")
    assert [kernel[key] for key in ("calls", "total_ns", "mean_ns", "minimum_ns", "maximum_ns")] == [5, 50, 10, 1, 30]
    assert kernel["median_ns"] != kernel["median_ns"]  # of two ranks together it is not known
    assert [call[key] for key in ("calls", "total_ns", "mean_ns")] == [5, 7.0, 1.4]
    assert call["minimum_ns"] != call["minimum_ns"]


def test_sums_of_runtime_calls(made: Any) -> None:
    rows = [
        {"name": name, "thread": 1, "start_ns": 0, "duration_ns": ns, "correlation": i}
        for i, (name, ns) in enumerate([("b", 1), ("a", 10), ("b", 2), ("b", 9)])
    ]
    found = totals(record(made, runtime=rows))
    assert found is not None
    assert found.listed is False
    told = found.rows[["kind", "name", "calls", "total_ns", "mean_ns", "median_ns", "minimum_ns", "maximum_ns"]]
    assert told.to_numpy().tolist() == [
        ["runtime", "b", 3, 12.0, 4.0, 2.0, 1.0, 9.0],
        ["runtime", "a", 1, 10.0, 10.0, 10.0, 10.0, 10.0],
    ]
    assert found.to_dict()["rows"][0]["name"] == "b"


@pytest.mark.parametrize("table", ["totals", "runtime"])
def test_other_passes_stay_out(made: Any, table: str) -> None:
    rows = {
        "totals": [{"kind": "kernel", "name": "k", "calls": 4, "total_ns": 20.0}],
        "runtime": [{"name": "a", "thread": 1, "start_ns": 0, "duration_ns": 1, "correlation": 1}],
    }[table]
    passes = {"timeline": made.foreign_info(), "other": made.foreign_info()}
    assert totals(made.foreign(passes, {table: {"other": rows}})) is None
