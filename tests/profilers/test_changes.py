"""Changes of a task: which there are, how they are counted, and jobs that go on where they stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from wcbench import api, record
from wcbench.analysis.features import evaluate
from wcbench.errors import WcbenchError
from wcbench.profilers import change_jobs
from wcbench.profilers.change_jobs import Job, JobDone, finished, run_job, run_jobs
from wcbench.profilers.changed import captured, equal_footprint, keeps_its_line, straight, with_own_fit
from wcbench.profilers.changes import Change, plan

EVALUATE = "wcbench.analysis.study_rows:evaluate_record"
TASK = "spatial-transformer"


class Planned:
    presets: ClassVar[Mapping[str, Any]] = {}
    variants: ClassVar[Mapping[str, str]] = {"wide": "wider"}
    length: ClassVar[str | None] = "seq"


def info_of(**settings: Any) -> record.PassInfo:
    return record.PassInfo(preset="paper", settings={"batch_size": 8, **settings}, batch_size=8, samples=8,
                           precision="fp32", device="cpu", tensors="fake", seed=0, steps=2, warmup=1,
                           seconds=1.0)  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> record.Profile:
    """A tiny record of a task whose sums lie on their lines."""
    return api.profile(TASK, device="cpu", passes=["operators"], preset="tiny", out=tmp_path_factory.mktemp("r") / "x")


def test_all_kinds_of_changes_come_in_turn() -> None:
    told = plan(Planned(), info_of(seq=100, attention="sdpa", zipf=None), None, 99)  # type: ignore[arg-type]
    assert [(c.name, c.refit) for c in told.changes] == [
        ("batch x2", False), ("bf16", True), ("length x0.75", True), ("variant wide", True), ("attention eager", True),
        ("batch x1/2", False), ("length x1.25", True),
    ]  # fmt: skip
    assert told.changes[2].options == {"sequence_length": 75}
    assert "know no values" in told.skipped["ids"]
    few = plan(Planned(), info_of(seq=100), None, 2)  # type: ignore[arg-type]
    assert [c.name for c in few.changes] == ["batch x2", "bf16"]
    assert few.skipped["batch x1/2"] == "beyond the 2 changes asked for"


def test_a_variant_is_changed_into_the_model_of_the_suite() -> None:
    told = plan(Planned(), info_of(), "wide", 99)  # type: ignore[arg-type]
    assert [c.options for c in told.changes if c.kind == "variant"] == [{"variant": None}]


# --- counting anew ----------------------------------------------------------------------------------------------------


def test_two_batches_give_the_features_that_three_give(found: record.Profile) -> None:
    """Counted at b and 2b, a changed task has the values of a record that was counted at b, 2b and 4b."""
    quick = evaluate(captured(found, Change("bf16", "precision", {"precision": "bf16"}), fit=True), "operators")
    whole = api.profile(TASK, device="cpu", passes=["operators"], preset="tiny", precision="bf16", save=False)
    expected = evaluate(whole, "operators").set_index("feature")["value"]
    pd.testing.assert_series_equal(quick.set_index("feature")["value"], expected, rtol=1e-12)
    assert quick["value"].notna().sum() > 40


def test_a_batch_on_an_exact_line_needs_no_second_fit(found: record.Profile, tmp_path: Path) -> None:
    """The values that are taken from the record are those that counting all over again gives."""
    done = run_job(Job("x", str(found.path), str(tmp_path), EVALUATE, {"features": ["operators"]}, changes=1))
    assert (done.made, done.failed) == (2, {})
    quick = pd.read_parquet(tmp_path / "batch_x2.values.parquet").set_index("feature")
    batch = found.manifest.passes["operators"].batch_size
    assert batch is not None
    whole = api.profile(TASK, device="cpu", passes=["operators"], preset="tiny", batch_size=2 * batch, save=False)
    full = evaluate(whole, "operators").set_index("feature")["value"]
    assert quick["remark"].str.contains("exact").sum() >= 2
    pd.testing.assert_series_equal(quick["value"].loc[full.index], full, rtol=1e-9)


def test_only_what_features_take_of_the_fit_must_be_straight(found: record.Profile) -> None:
    assert straight(found, {"features": ["operators"]})
    rows = found.table("scaling")

    def bent(quantity: str, error: float | None) -> record.Profile:
        table = rows.assign(error=rows["error"].where(rows["quantity"] != quantity, error))
        return _with_scaling(found, table)

    assert straight(bent("calls", 0.1), {"features": ["operators"]})
    assert straight(bent("bytes_read", 1e-8), {"features": ["operators"]})
    assert not straight(bent("bytes_read", 1e-3), {"features": ["operators"]})
    assert not straight(bent("bytes_read", None), {"features": ["operators"]})  # a line through two batches
    assert straight(bent("live_peak_bytes", 0.1), {"features": ["operators"]})
    assert not straight(bent("live_peak_bytes", 0.1), {"features": ["all"]})
    continued = _with_scaling(found, rows.assign(recorded=False))
    assert straight(continued, {"features": ["operators"]})
    assert not keeps_its_line(continued, {"features": ["operators"]})
    assert keeps_its_line(found, {"features": ["operators"]})


def test_where_the_record_is_off_its_line_all_batches_are_counted(
    found: record.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Change("bf16", "precision", {"precision": "bf16"})
    assert {len(samples) for samples in captured(found, change, fit=True).table("scaling")["samples"]} == {2}
    monkeypatch.setattr("wcbench.profilers.changed.keeps_its_line", lambda *_: False)
    rows = captured(found, change, fit=True).table("scaling")
    assert {len(samples) for samples in rows["samples"]} == {3}
    assert rows["error"].notna().all()


def _with_scaling(profile: record.Profile, rows: pd.DataFrame) -> record.Profile:
    class Other:
        tables: ClassVar[tuple[str, ...]] = ("scaling",)

        def table(self, name: str) -> pd.DataFrame:
            return rows

    return Other()  # type: ignore[return-value]


def test_values_of_the_fit_are_the_records_own() -> None:
    reason = "the record has no fit over batch sizes: profile it without --no-scaling"
    changed = pd.DataFrame({"feature": ["a", "b", "c"], "value": [1.0, None, None], "reason": ["", reason, "else"],
                            "remark": ["", "", ""]})  # fmt: skip
    base = pd.DataFrame({"feature": ["a", "b", "c"], "value": [9.0, 2.0, 3.0]})
    found = with_own_fit(changed, base)
    assert found["value"].tolist()[:2] == [1.0, 2.0]
    assert pd.isna(found["value"][2])
    assert found["reason"].tolist() == ["", "", "else"]
    assert "exact" in found["remark"][1]


def test_the_batch_of_an_equal_footprint_lies_on_the_line(found: record.Profile) -> None:
    rows = found.table("scaling")
    row = rows[(rows["phase"] == "all") & (rows["quantity"] == "live_peak_bytes")].iloc[0]
    change = equal_footprint(found, round(row["fixed"] + 100 * row["per_sample"]))
    assert isinstance(change, Change)
    assert change.options == {"batch_size": 100}
    least = round(row["fixed"] + row["per_sample"])
    assert equal_footprint(found, least) == Change("equal footprint", "footprint", {"batch_size": 1}, refit=False)


def test_an_equal_footprint_out_of_reach_is_told(found: record.Profile) -> None:
    assert str(equal_footprint(found, 1)).startswith("a batch of 1 takes ")
    batch = found.manifest.passes["operators"].batch_size
    assert batch is not None
    rows = found.table("scaling")
    row = rows[(rows["phase"] == "all") & (rows["quantity"] == "live_peak_bytes")].iloc[0]
    far = equal_footprint(found, round(row["fixed"] + 1002 * batch * row["per_sample"]))
    assert far == f"it would take a batch of {1002 * batch:,}, 1,002 times the published one"


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_goes_on_where_it_stopped(found: record.Profile, tmp_path: Path) -> None:
    job = Job("x", str(found.path), str(tmp_path), EVALUATE, {"features": ["params_trainable"]}, changes=1)
    assert run_jobs([job])[0].made == 2
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.parquet")}
    assert {"base.values.parquet", "base.costs.parquet", "base.hotspots.parquet", "base.miss_ratios.parquet",
            "base.roofline.parquet", "batch_x2.values.parquet"} == set(before)  # fmt: skip
    assert finished(job) == JobDone("x", 0, 2, {})
    assert finished(replace(job, changes=2)) is None
    (tmp_path / "batch_x2.values.parquet").unlink()
    assert finished(job) is None
    done = run_jobs([job])[0]
    assert (done.made, done.kept) == (1, 1)
    assert [n for n, t in before.items() if (tmp_path / n).stat().st_mtime_ns != t] == ["batch_x2.values.parquet"]
    assert json.loads((tmp_path / "plan.json").read_text())["changes"] == [["batch x2", "batch"]]


def test_only_the_first_part_keeps_the_record_itself(found: record.Profile, tmp_path: Path) -> None:
    job = Job("x", str(found.path), str(tmp_path), EVALUATE, {"features": ["params_trainable"]}, changes=2, part=1,
              parts=2)  # fmt: skip
    assert run_job(job).made == 1
    assert [file.name for file in tmp_path.glob("*.values.parquet")] == ["bf16.values.parquet"]


def test_a_change_that_fails_is_kept_with_its_reason(
    found: record.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> record.Profile:
        raise WcbenchError("it cannot be")

    monkeypatch.setattr(change_jobs, "captured", failing)
    job = Job("x", str(found.path), str(tmp_path), EVALUATE, {"features": ["params_trainable"]}, changes=1)
    assert run_job(job).failed == {"batch x2": "it cannot be"}
    monkeypatch.undo()
    assert run_job(job).failed == {"batch x2": "it cannot be"}
    assert finished(job) == JobDone("x", 0, 1, {"batch x2": "it cannot be"})


def test_long_tasks_are_shared_out_and_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"a": 1.0, "b": 100.0}
    monkeypatch.setattr(change_jobs, "_seconds", lambda job: seconds[job.workload])
    shared = change_jobs._shared_out([Job(name, "", "", "", changes=9) for name in "ab"], 2)
    assert [(j.workload, j.part, j.parts) for j in shared] == [("b", 0, 2), ("b", 1, 2), ("a", 0, 1)]


def test_a_record_that_is_not_there_costs_no_other_job(found: record.Profile, tmp_path: Path) -> None:
    jobs = [Job("gone", str(tmp_path / "no"), str(tmp_path / "a"), EVALUATE),
            Job("x", str(found.path), str(tmp_path / "b"), EVALUATE, {"features": ["params_trainable"]})]  # fmt: skip
    lost, made = run_jobs(jobs)
    assert lost.error
    assert (made.error, made.made) == (None, 1)
