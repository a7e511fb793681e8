"""The JSON of a profile: complete as docs/json.md says, plain, and the same however often it is asked for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wcbench.analysis.complexity import complexity
from wcbench.analysis.hotspots import categories, hotspots
from wcbench.analysis.memory import memory
from wcbench.analysis.modules import modules
from wcbench.analysis.primitives import primitives
from wcbench.analysis.stack import Curve
from wcbench.analysis.steps import step_times
from wcbench.analysis.summary import notes, summary
from wcbench.analysis.telemetry import measured_memory, power
from wcbench.record import Note, Profile, load

BLOCKS = [
    "steps",
    "complexity",
    "hotspots",
    "categories",
    "operators",
    "modules",
    "memory",
    "roofline",
    "measured_memory",
    "power",
    "primitives",
]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"
VIEWS = {
    "hotspots": hotspots,
    "categories": categories,
    "complexity": complexity,
    "steps": step_times,
    "operators": complexity,
    "modules": modules,
    "memory": memory,
    "measured_memory": measured_memory,
    "power": power,
    "primitives": primitives,
    "notes": notes,
}


def rows_of_the_page() -> Iterator[tuple[str, str]]:
    """(first cell, second cell) of the two tables of docs/json.md."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not set(line) <= {"|", "-", " "} and cells[0] not in ("field", "block"):
            yield cells[0], "|".join(cells[1:])


def names(cell: str) -> set[str]:
    """The identifiers inside backticks."""
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`]*)`", cell))))


def words(value: Any) -> set[str]:
    """All keys and texts of a JSON value, taken apart into identifiers."""
    if isinstance(value, dict):
        parts = [*map(str, value), *value.values()]
    else:
        parts = list(value) if isinstance(value, list) else []
    found = set(re.findall(r"[A-Za-z_]\w*", value)) if isinstance(value, str) else set()
    for part in parts:
        found |= words(part)
    return found


def test_every_field_of_the_page_is_there(full: Profile) -> None:
    result = summary(full)
    blocks = set(BLOCKS) - {"roofline"}  # unknown device: null (tested with the roofline)
    documented = set()
    for first, second in rows_of_the_page():
        block = next(iter(names(first) & blocks), None)
        if first.strip("`") in blocks:
            assert block is not None
            documented.add(block)
            # words that the page uses for what a value may be, and values that this record does not have
            allowed = {"null", "share", "kernel", "category", "capacity", "bytes", "ratio"}
            allowed |= {"counted_length", "length", "peak_bytes"}  # of what is continued to a longer sequence
            allowed |= {"trace", "sums", "all"}  # bases of imported records
            missing = names(second) - words(result[block]) - allowed
            assert not missing, (block, missing)
            for key in ("pass", "preset", "batch_size", "device"):
                assert key in result[block]
        elif first == "`passes.NAME`":
            missing = names(second) - words(result["passes"]) - {"null", "inference"}
            assert not missing, missing
        else:
            for name in names(first):
                assert name in result
    assert documented == blocks


def test_the_blocks_by_hand(full: Profile) -> None:
    result = summary(full)
    assert result["schema"] == "wcbench.profile/1"
    assert result["run"] is None
    timing = result["passes"]["timing"]
    assert (timing["step_ms_q1"], timing["step_ms_median"], timing["step_ms_q3"]) == (2.0, 3.0, 4.0)
    assert (timing["steps"], timing["overhead"]) == (5, 1.0)
    assert timing["samples_per_s"] == pytest.approx(4 / 0.003)
    assert result["passes"]["timeline"]["overhead"] == 1.25
    assert result["passes"]["memory"]["overhead"] is None
    counted = result["passes"]["operators"]
    assert (counted["step_ms_median"], counted["samples_per_s"], counted["tensors"]) == (None, None, "fake")
    assert result["complexity"]["flops_matrix_forward_per_sample"] == 6000 / 8
    assert result["complexity"]["macs_forward_per_sample"] == 6000 / 8 / 2
    assert result["complexity"]["uncounted"] == [{"name": "mystery::gemm", "calls": 1}]
    assert [row["role"] for row in result["steps"]["rows"]] == ["warmup"] + ["measured"] * 5
    assert result["hotspots"]["rows"][0] == {
        "name": "aten::addmm",
        "category": "GEMM",
        "paper": "GEMM",
        "time_ns": 500.0,
        "time_share": 0.5,
        "calls": 1.0,
        "rank_min_ns": None,
        "rank_max_ns": None,
        "cumulative_share": 0.5,
    }
    assert result["measured_memory"]["increase_bytes"] == 350
    assert result["power"]["devices"][1]["watts_mean"] is None
    assert result["primitives"]["of"] == "oneDNN primitive time"
    # the record's own, noisy times, and no GPU to draw a roof of
    assert {note["about"] for note in result["notes"]} >= {"power", "timing", "roofline"}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("empty", [False, True], ids=["full", "no tables"])
def test_it_is_plain_json(full: Profile, made: Any, empty: bool) -> None:
    profile = made.record({name: made.info() for name in full.manifest.passes}, {}) if empty else full
    result = summary(profile)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for leaf in leaves(result):
        assert leaf is None or type(leaf) in (bool, int, float, str)
        assert not isinstance(leaf, float) or math.isfinite(leaf)
    if empty:
        measured = {"steps", "hotspots", "categories", "memory", "measured_memory", "power", "primitives"}
        assert {name for name in measured if result[name] is None} == measured


def test_losses_that_are_not_finite_are_null(made: Any) -> None:
    rows = made.step_rows([1, 1], "measured", [float("nan"), float("inf")])
    result = summary(made.record({"timing": made.info()}, {"steps": {"timing": rows}}))
    assert [row["loss"] for row in result["steps"]["rows"]] == [None, None]
    assert result["passes"]["timing"]["loss_last"] is None
    json.dumps(result, allow_nan=False)


def test_no_passes_at_all(made: Any) -> None:
    result = summary(made.record({}, {}))
    assert result["passes"] == {}
    assert result["complexity"] is None


def same(a: Any, b: Any) -> bool:
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b)
        return True
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=True))
    if isinstance(a, Curve):
        return same(vars(a), vars(b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if hasattr(a, "__dataclass_fields__") and not isinstance(a, Note):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return bool(a == b)


def test_case_38_asking_twice_changes_nothing(full: Profile) -> None:
    tables = {name: full.table(name).copy(deep=True) for name in full.tables}
    first = {name: view(full) for name, view in VIEWS.items()}
    text = json.dumps(summary(full))
    for value in first.values():
        repr(value)
        if hasattr(value, "to_frame"):
            frame = value.to_frame()
            frame[frame.columns[0]] = None  # what a caller does to a frame is the caller's
    second = {name: view(full) for name, view in reversed(VIEWS.items())}
    for name in VIEWS:
        assert same(first[name], second[name]), name
    assert json.dumps(summary(full)) == text
    for name, frame in tables.items():
        pd.testing.assert_frame_equal(full.table(name), frame)


def test_a_saved_record_says_the_same(full: Profile, tmp_path: Path) -> None:
    saved = full.save(tmp_path / "run")
    here, there = summary(full), summary(load(tmp_path / "run"))
    assert there["run"] == str(tmp_path / "run") == str(saved.path)
    assert {**there, "run": None} == here


def test_the_notes_are_those_of_the_summary(full: Profile) -> None:
    told = [(note.about, note.text) for note in notes(full)]
    assert told == [(note["about"], note["text"]) for note in summary(full)["notes"]]
    assert "roofline" in dict(told)


def test_results_show_themselves_in_a_few_lines(made: Any) -> None:
    many = [(f"aten::mm{i}", 10 + i, 0, "forward") for i in range(200)]
    profile = made.full()
    big = made.record(profile.manifest.passes, {"kernels": {"timeline": made.kernel_rows(many)}})
    for shown in (profile, big):
        for name in set(VIEWS) - {"steps", "notes"}:
            found = VIEWS[name](shown)  # type: ignore[operator]
            if found is not None:
                assert 1 <= len(repr(found).splitlines()) < 15, name
        for times in step_times(shown).values():
            assert len(repr(times).splitlines()) == 1
    assert "50.0 %" in repr(hotspots(profile))
    assert "aten::addmm" in repr(hotspots(profile))


def test_records_know_their_views_by_name(full: Profile) -> None:
    for name, view in VIEWS.items():
        assert same(full.view(name), view(full))
    assert full.view("summary") == summary(full)
