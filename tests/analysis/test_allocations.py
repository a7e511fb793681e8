"""Peak memory by category from torch's memory timeline: by hand, and against a plain loop over a real file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wcbench.analysis.allocations import Allocations, allocations
from wcbench.profilers.readers.base import Sink, Source
from wcbench.profilers.readers.memory_timeline import CATEGORIES, MemoryTimeline
from wcbench.record import new_profile

# bytes in use: 150 at the start; at 1000 a temporary of 30 comes (180); at 2000 it becomes an activation (180) and 50
# more come (230); at 2500 both go and a gradient of 20 comes: 80 leave and 20 stay (170); at 3000 60 come (230 again)
EVENTS = [
    (None, "preexisting", 100, "parameter"),
    (None, "preexisting", 50, "input"),
    (1000, "create", 30, "temporary"),
    (2000, "create", 50, "activation"),
    (2000, "increment_version", -30, "temporary"),
    (2000, "increment_version", 30, "activation"),
    (2500, "create", 20, "gradient"),
    (2500, "destroy", -80, "activation"),
    (3000, "create", 60, "unknown"),
]


def record(made: Any, events: list[tuple[int | None, str, int, str]], rank: int = 0) -> list[dict[str, Any]]:
    keys = ("time_ns", "action", "nbytes", "category")
    return [{"rank": rank, **dict(zip(keys, event, strict=True))} for event in events]


def view(made: Any, rows: list[dict[str, Any]], table: str = "allocations") -> Allocations:
    profile = made.record({"memory": made.info(device="cuda:0")}, {table: {"memory": rows}})
    found = allocations(profile)
    assert found is not None
    return found


def test_peak_start_and_end(made: Any) -> None:
    found = view(made, record(made, EVENTS))
    assert found.time_ns.tolist() == [0, 0, 1000, 1500, 2000]
    assert found.total.tolist() == [150, 180, 230, 170, 230]
    assert (found.peak_bytes, found.peak_ns, found.start_bytes, found.end_bytes) == (230, 1000, 150, 230)
    at_peak = {name: value for name, value in found.peak_categories.items() if value}
    assert at_peak == {"parameter": 100, "activation": 80, "input": 50}
    assert list(at_peak) == ["parameter", "activation", "input"]
    assert sum(found.peak_categories.values()) == found.peak_bytes
    assert {n: v for n, v in found.start_categories.items() if v} == {"parameter": 100, "input": 50}
    frame = found.to_frame()
    assert frame["temporary"].tolist() == [0, 30, 0, 0, 0]
    assert "peak 0 MiB" in repr(found)
    assert "pass memory" in repr(found)


def test_a_change_of_category_is_no_peak(made: Any) -> None:
    """Told in one time as both leaving and coming, the larger one first here."""
    events = [(1000, "create", 100, "temporary"), (2000, "increment_version", 100, "activation")]
    events.append((2000, "increment_version", -100, "temporary"))
    assert view(made, record(made, events)).peak_bytes == 100


def test_events_out_of_order_are_put_in_order(made: Any) -> None:
    assert view(made, record(made, EVENTS[::-1])).total.tolist() == [150, 180, 230, 170, 230]


def test_the_rank_with_the_highest_peak(made: Any) -> None:
    rows = record(made, EVENTS) + record(made, [*EVENTS, (3500, "create", 1, "unknown")], rank=1)
    profile = made.record({"memory": made.info()}, {"allocations": {"memory": rows}})
    highest, first = allocations(profile), allocations(profile, rank=0)
    assert highest is not None
    assert first is not None
    assert (highest.rank, highest.peak_bytes) == (1, 231)
    assert (first.rank, first.peak_bytes) == (0, 230)
    assert allocations(profile, rank=7) is None


def test_a_curve(made: Any) -> None:
    moments = [(10_000, {"parameter": 100}), (10_000, {"parameter": 100, "gradient": 40}), (12_000, {"parameter": 90})]
    rows = [
        {"rank": 0, "time_ns": time, "category": name, "nbytes": held.get(name, 0)}
        for time, held in moments
        for name in ("parameter", "gradient", "unknown")
    ]
    found = view(made, rows, "memory_curve")
    assert found.total.tolist() == [100, 140, 90]
    assert (found.peak_bytes, found.peak_ns, found.start_bytes, found.end_bytes) == (140, 0, 100, 90)
    assert found.time_ns.tolist() == [0, 0, 2000]


def test_nothing_without_a_timeline(made: Any) -> None:
    assert allocations(made.full()) is None
    assert allocations(made.record({"timeline": made.info()}, {})) is None


def test_real_file(made: Any, shared: Path, tmp_path: Path) -> None:
    """Against a loop over the file's rows, one time after the other."""
    path = shared / "traces" / "memory_timeline" / "hta_memory_analysis__memory_timeline.raw.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))
    held = dict.fromkeys(range(8), 0)
    peak, peak_time, peak_held, start = -1, 0, dict(held), 0
    for index, (time, _, change, category) in enumerate(rows):
        held[category] += change
        if index + 1 < len(rows) and rows[index + 1][0] == time:
            continue
        if time == -1:
            start = sum(held.values())
        if sum(held.values()) > peak:
            peak, peak_time, peak_held = sum(held.values()), time, dict(held)

    sink = Sink("timeline", tmp_path)
    MemoryTimeline().read(Source(path, "timeline"), sink)
    sink.finish()
    table = pq.read_table(tmp_path / "allocations.parquet")
    profile = new_profile(
        task="t", variant=None, suites=[], machine={}, command=[], passes={"memory": made.info()},
        tables={"allocations": table}, notes=[],
    )  # fmt: skip
    found = allocations(profile)
    assert found is not None
    assert found.start_bytes == start == 332_060_904
    assert found.peak_bytes == peak
    assert found.peak_ns == peak_time - min(row[0] for row in rows if row[0] >= 0)
    assert found.peak_categories == {CATEGORIES[number]: value for number, value in peak_held.items()}
    assert found.end_bytes == sum(row[2] for row in rows)
    assert max(found.peak_categories, key=found.peak_categories.__getitem__) == "activation"


@pytest.mark.parametrize("count", [1, 2])
def test_only_what_existed_before(made: Any, count: int) -> None:
    found = view(made, record(made, EVENTS[:count]))
    assert found.total.tolist() == [sum(event[2] for event in EVENTS[:count])]
    assert found.peak_ns == 0
