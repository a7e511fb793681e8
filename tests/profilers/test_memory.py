"""Peak memory: a known allocation shows, and what cannot be read is null with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from wcbench.profilers import memory
from wcbench.profilers.capture import Captured
from wcbench.tasks.base import Built, Config

Run = Callable[..., Captured]

SIZE = 200_000_000

needs_proc = pytest.mark.skipif(
    not memory._CLEAR_REFS.exists() or "VmHWM" not in memory._STATUS.read_text(), reason="no peak resident set here"
)


def moments(captured: Captured) -> pd.DataFrame:
    return captured.tables["memory"].to_pandas().set_index("moment")


def temporary(config: Config) -> Built:
    """Each step fills 200 MB and lets go of them."""
    return Built(lambda x: torch.ones(SIZE // 4).sum(), lambda i: torch.ones(4), {}, 4)


def keeping(config: Config) -> Built:
    """The build fills 200 MB and keeps them."""
    kept = torch.ones(SIZE // 4)
    return Built(lambda x: kept[:4].sum(), lambda i: torch.ones(4), {}, 4)


@needs_proc
def test_a_temporary_of_200_mb_shows_in_the_peak_of_the_steps(run: Run, task_of: Any) -> None:
    rows = moments(run(task_of(temporary), "memory"))
    assert list(rows.index) == ["start", "built", "warmup", "steps"]
    assert set(rows["device"]) == {"cpu"}
    for moment in ("warmup", "steps"):
        grown = rows.loc[moment, "peak_bytes"] - rows.loc["built", "current_bytes"]
        assert grown == pytest.approx(SIZE, rel=0.2)
        assert rows.loc[moment, "current_bytes"] - rows.loc["built", "current_bytes"] < 0.2 * SIZE
    assert rows.loc["built", "peak_bytes"] - rows.loc["start", "current_bytes"] < 0.2 * SIZE
    assert rows["reserved_bytes"].isna().all()


@needs_proc
def test_what_the_build_keeps_shows_when_built(run: Run, task_of: Any) -> None:
    rows = moments(run(task_of(keeping), "memory"))
    for moment in ("built", "warmup", "steps"):
        assert rows.loc[moment, "current_bytes"] - rows.loc["start", "current_bytes"] == pytest.approx(SIZE, rel=0.2)
        assert rows.loc[moment, "peak_bytes"] >= 0.99 * rows.loc[moment, "current_bytes"]


@needs_proc
def test_a_peak_is_of_its_own_moment(run: Run, task_of: Any) -> None:
    """What only the build needs is no peak of the steps."""

    def build(config: Config) -> Built:
        torch.ones(SIZE // 4).sum()
        return Built(lambda x: x.sum(), lambda i: torch.ones(4), {}, 4)

    rows = moments(run(task_of(build), "memory"))
    grown = rows["peak_bytes"] - rows.loc["start", "current_bytes"]
    assert grown["built"] == pytest.approx(SIZE, rel=0.2)
    assert grown["warmup"] < 0.2 * SIZE
    assert grown["steps"] < 0.2 * SIZE


def test_no_proc_gives_no_rows_and_says_why(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    captured = run(task_of(temporary), "memory", steps=1)
    assert "memory" not in captured.tables
    (note,) = captured.notes
    assert note.about == "memory"
    assert "not measured" in note.text


@needs_proc
def test_a_peak_that_cannot_be_reset_is_null(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    captured = run(task_of(temporary), "memory", steps=1)
    rows = moments(captured)
    assert rows["peak_bytes"].isna().all()
    assert (rows["current_bytes"] > 0).all()
    (note,) = captured.notes
    assert "cannot be written" in note.text


@pytest.mark.parametrize("peak", [2_048_000, None], ids=["with a peak", "a kernel that knows none"])
def test_status_is_in_kib(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peak: int | None
) -> None:
    text = "Name:\tpython\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n"
    (tmp_path / "status").write_text(text if peak else text.replace("VmHWM", "VmOther"))
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory, "_CLEAR_REFS", tmp_path / "clear_refs")
    captured = run(task_of(keeping), "memory", steps=1)
    rows = moments(captured)
    assert rows["current_bytes"].tolist() == [1_024_000] * 4
    assert [None if pd.isna(p) else p for p in rows["peak_bytes"]] == [peak] * 4
    assert (tmp_path / "clear_refs").read_text() == "5"
    assert len(captured.notes) == (peak is None)


def test_a_status_without_any_size_gives_no_rows(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "status").write_text("Name:\tpython\n")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    captured = run(task_of(keeping), "memory", steps=1)
    assert "memory" not in captured.tables
    assert "not measured" in captured.notes[0].text
