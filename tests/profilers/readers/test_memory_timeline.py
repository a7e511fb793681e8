"""Torch's memory timelines: events and curves, a timeline made here by torch itself, real and damaged files."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.profiler import _memory_profiler as torchs

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Source
from wcbench.profilers.readers.memory_timeline import ACTIONS, CATEGORIES, MemoryTimeline

from .conftest import Run

EVENTS = "[[-1, 1, 100, 0], [5000, 2, 40, 4], [6000, 3, -40, 4], [6000, 3, 40, 5], [7000, 4, -40, 5]]"
CURVE = "[[10, 10, 12], [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 40, 0, 0, 7], [0, 100, 0, 0, 0, 0, 0, 0, 0]]]"


def test_events(run: Run) -> None:
    result = run(MemoryTimeline(), EVENTS)
    table = result.tables["allocations"]
    assert table["time_ns"].isna().tolist() == [True, False, False, False, False]
    assert table["time_ns"].tolist()[1:] == [5000, 6000, 6000, 7000]
    assert table["action"].tolist() == [
        "preexisting", "create", "increment_version", "increment_version", "destroy"
    ]  # fmt: skip
    assert table["nbytes"].tolist() == [100, 40, -40, 40, -40]
    assert table["category"].tolist() == ["parameter", "activation", "activation", "gradient", "gradient"]
    assert set(table["pass"]) == {"memory"}
    assert result.passes["memory"].seconds == 2000 / 1e9
    assert not result.losses


def test_curve_in_microseconds(run: Run) -> None:
    result = run(MemoryTimeline(), CURVE)
    table = result.tables["memory_curve"]
    assert len(table) == 3 * 8
    assert table["time_ns"].tolist() == [10_000] * 16 + [12_000] * 8
    second = table.iloc[8:16].set_index("category")["nbytes"]
    assert second.to_dict() == dict.fromkeys(CATEGORIES, 0) | {"parameter": 100, "activation": 40, "unknown": 7}
    assert result.passes["memory"].seconds == 2e-6
    assert not result.losses


def test_numbers_of_actions_and_categories_are_torchs() -> None:
    by_number = {number: action.name.lower() for action, number in torchs._ACTION_TO_INDEX.items()}
    assert by_number == dict(enumerate(ACTIONS, start=1))
    indices = {
        "unknown" if category is None else category.name.lower().replace("_", " "): index
        for category, index in torchs._CATEGORY_TO_INDEX.items()
    }
    assert indices == {name: index for index, name in enumerate(CATEGORIES)}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch wants people to use memory snapshots instead
def test_what_torch_writes_here(run: Run, tmp_path: Path) -> None:
    """Both exports of one profile: the curve's last value is the sum of the events, for each category."""
    net = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(net.parameters())
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
    ) as profile:
        net(torch.randn(8, 64)).sum().backward()
        optimizer.step()
    raw, curve = tmp_path / "timeline.raw.json.gz", tmp_path / "timeline.json"
    profile.export_memory_timeline(str(raw), device="cpu")
    profile.export_memory_timeline(str(curve), device="cpu")
    rows = json.loads(gzip.decompress(raw.read_bytes()))
    events = run(MemoryTimeline(), raw)
    table = events.tables["allocations"]
    assert len(table) == len(rows) > 10
    assert table["nbytes"].tolist() == [row[2] for row in rows]
    # nanoseconds since the epoch, as the clock of this machine has them
    assert abs(table["time_ns"].max() / 1e9 - time.time()) < 3600
    last = run(MemoryTimeline(), curve).tables["memory_curve"].iloc[-8:].set_index("category")["nbytes"]
    sums = table.groupby("category")["nbytes"].sum()
    assert {name: int(value) for name, value in last.items() if value} == {n: int(v) for n, v in sums.items() if v}


def test_real_file(run: Run, shared: Path) -> None:
    path = shared / "traces" / "memory_timeline" / "hta_memory_analysis__memory_timeline.raw.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))
    result = run(MemoryTimeline(), path)
    table = result.tables["allocations"]
    assert len(table) == len(rows) == 16845
    assert table["nbytes"].tolist() == [row[2] for row in rows]
    assert table["time_ns"].isna().sum() == sum(row[0] == -1 for row in rows) == 645
    times = pq.read_table(result.sink.folder / "allocations.parquet")["time_ns"].to_pylist()  # pandas makes floats
    assert times == [None if row[0] < 0 else row[0] for row in rows]
    assert Counter(table["category"]) == Counter(CATEGORIES[row[3]] for row in rows)
    assert Counter(table["action"]) == Counter(ACTIONS[row[1] - 1] for row in rows)
    assert not result.losses


def test_rows_across_pieces(run: Run) -> None:
    """More than a megabyte, so that rows lie across the pieces in which the file is read."""
    count = 150_000
    text = "[" + ", ".join(f"[{1_700_000_000_000_000_000 + i}, 2, {i}, {i % 8}]" for i in range(count)) + "]"
    result = run(MemoryTimeline(), text)
    assert result.tables["allocations"]["nbytes"].tolist() == list(range(count))
    assert not result.losses


def test_a_long_curve(run: Run) -> None:
    """Times that fill more than the part by which files are recognized."""
    count = 60_000
    sizes = [[0, i, 0, 0, 0, 0, 0, 0, 1] for i in range(count)]
    result = run(MemoryTimeline(), json.dumps([[1_700_000_000_000_000 + i for i in range(count)], sizes]))
    table = result.tables["memory_curve"]
    assert table[table["category"] == "parameter"]["nbytes"].tolist() == list(range(count))
    assert (table[table["category"] == "unknown"]["nbytes"] == 1).all()
    assert not result.losses


@pytest.mark.parametrize(
    ("text", "kept", "lost"),
    [
        (EVENTS[:-30], 3, "the file is cut"),
        (EVENTS.replace("[5000, 2, 40, 4]", "[5000, 2, 40]"), 4, "no list of 4 whole numbers"),
        (EVENTS.replace("5000", "5e400"), 4, "no list of 4 whole numbers"),
        (EVENTS.replace("5000", "9" * 30), 4, "no list of 4 whole numbers"),
        (EVENTS.replace("[5000, 2, 40, 4]", "[5000, 9, 40, 4]"), 4, "none of a memory timeline"),
        (EVENTS.replace("[5000, 2, 40, 4]", "[5000, 2, -40, 4]"), 4, "none of a memory timeline"),
        (EVENTS.replace("5000", "-5000"), 4, "none of a memory timeline"),
        (EVENTS.replace("[5000, 2, 40, 4]", "garbage"), 4, "between the rows"),
        (EVENTS.replace("[5000, 2, 40, 4]", "[" * 100_000), 4, "between the rows"),
    ],
)
def test_damaged_events(run: Run, text: str, kept: int, lost: str) -> None:
    result = run(MemoryTimeline(), text)
    assert len(result.tables["allocations"]) == kept
    assert any(lost in loss.why for loss in result.losses)


def test_a_curve_that_is_cut_keeps_its_whole_moments(run: Run) -> None:
    result = run(MemoryTimeline(), CURVE[:-20])
    assert len(result.tables["memory_curve"]) == 2 * 8
    assert {loss.what for loss in result.losses} == {"the rest of the file", "a moment"}


def test_nothing_in_it_is_refused(run: Run) -> None:
    with pytest.raises(ReadError, match="holds no moment"):
        run(MemoryTimeline(), "[[1, 2, 3], [[0, 1]]]")


@pytest.mark.parametrize("text", ["[]", "[[]]", "[[1, 2]]", '[{"a": 1}]', '{"traceEvents": []}', "[[1, 2, 3, 9], [1]]"])
def test_other_files_are_not_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other"
    path.write_text(text)
    source = Source(path, "other")
    assert not MemoryTimeline().recognizes(Head(source, source.head()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), text=st.sampled_from([EVENTS, CURVE]))
def test_any_damage_gives_a_record_or_an_error_of_ours(run: Run, data: st.DataObject, text: str) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(24, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    damaged = bytes(raw[: data.draw(st.integers(24, len(raw)))])
    try:
        result = run(MemoryTimeline(), damaged)
    except (WcbenchError, AssertionError) as error:
        if not isinstance(error, WcbenchError):
            assert "does not recognize" in str(error)  # noqa: PT017
        return
    for table in result.tables.values():
        assert isinstance(table, pd.DataFrame)
        assert (table["nbytes"].abs() < 2**53).all()
