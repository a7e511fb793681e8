"""`wcbench study` from end to end on tiny records: streams, folder, going on where it stopped, refusals."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

import wcbench
from wcbench import api, record
from wcbench.analysis.cluster import cluster
from wcbench.analysis.reference import load_reference
from wcbench.analysis.study import Settings, load_study
from wcbench.analysis.study_records import newest, settings_text
from wcbench.analysis.study_run import Asked, Capture, run
from wcbench.cli import main
from wcbench.cli.study import parse_changes
from wcbench.errors import RecordError, UsageError, WcbenchError
from wcbench.profilers import changes

pytestmark = pytest.mark.slow  # each captures tasks: half a minute in all

TASKS = ("spatial-transformer", "recommendation", "image-classification", "learning-to-rank")
RPR = "aibench-training-v1.1-rpr"
QUICK = Settings(clusters=3, gap_draws=3, draws=10, permutations=19, robust=False)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run `wcbench ARGUMENTS` in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WCBENCH_RUNS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer puts its own there

    def started(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wcbench", *map(str, arguments)])
        try:
            main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code or 0
        captured = capsys.readouterr()
        return Ended(int(code), captured.out, captured.err)

    return started


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny record of each task's operators."""
    root = tmp_path_factory.mktemp("records") / "runs"
    for task in TASKS:
        api.profile(task, device="cpu", passes=["operators"], preset="tiny", runs=root)
    return root


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tables") / "jobs.csv"
    rows = [f"job{i},{10**i},{0.1 + 0.1 * i},{(i * 7) % 5}" for i in range(6)]
    file.write_text("\n".join(["workload,size,busy,depth", "unit,B,fraction,", *rows]) + "\n")
    return file


@pytest.fixture(autouse=True)
def _few_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap statistic takes most of a small study's time, and is not what is tested here."""

    def few(space: Any, **options: Any) -> Any:
        return cluster(space, **{**options, "most": 2, "draws": 2})

    monkeypatch.setattr("wcbench.analysis.study.cluster", few)


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_study_of_records_says_its_answer_and_goes_on_where_it_stopped(cli: Cli, runs: Path, tmp_path: Path) -> None:
    arguments = ["study", *TASKS, "--runs", runs, "-o", tmp_path / "mine", "--changes", "1", "--jobs", "1"]
    ended = cli(*arguments)
    assert ended.code == 0, ended.err
    study = load_study(tmp_path / "mine")
    assert " ".join(ended.out.split()).startswith("the records " + " ".join(" ".join(study.answer).split())[:60])
    assert all(name in ended.out for name in study.members)
    assert ended.out.rstrip().endswith(f"Wrote {tmp_path / 'mine'}")
    assert "[features 4/4]" in ended.err
    assert study.document["changes"]["made"] == 4  # the batch doubled, of each
    assert study.document["radius"]["distances"] == 4
    assert set(study.document["provenance"]["records"]) == set(TASKS)

    parts = sorted((tmp_path / "mine" / "parts").rglob("*.parquet"))
    before = {file: file.stat().st_mtime_ns for file in parts}
    lost = next(file for file in parts if file.name == "batch_x2.values.parquet")
    lost.unlink()  # as if it had been stopped before this one
    again = cli(*arguments)
    assert again.code == 0
    assert lost.is_file()
    assert [file for file in parts if file.stat().st_mtime_ns != before[file]] == [lost]
    found = load_study(tmp_path / "mine")
    assert found.answer == study.answer
    pd.testing.assert_frame_equal(found.tables["distances"], study.tables["distances"])

    space = load_reference(tmp_path / "mine")  # `wcbench place RUN --space FOLDER`
    assert space.recipe.fingerprint == study.document["space"]["fingerprint"]
    assert space.radius == study.document["radius"]["r_star"]


def test_json_alone_goes_to_standard_output(cli: Cli, runs: Path, tmp_path: Path) -> None:
    ended = cli("study", *TASKS, "--runs", runs, "-o", tmp_path / "s", "--changes", "none", "--jobs", "1", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == "wcbench.study/1"
    assert document == load_study(tmp_path / "s").to_dict()
    assert document["radius"]["how"] == "shown"
    assert "no changes were asked for" in document["answer"][0]
    assert f"Wrote {tmp_path / 's'}" in ended.err


def test_quiet_says_nothing_on_standard_error(cli: Cli, table: Path, tmp_path: Path) -> None:
    ended = cli("study", "--table", table, "-o", tmp_path / "s", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert "Wrote" not in ended.out


def test_a_batch_on_an_exact_line_needs_no_second_fit(runs: Path, tmp_path: Path) -> None:
    """The values that are taken from the record are those that counting all over again gives."""
    found = record.load(next((runs / "spatial-transformer").iterdir()))
    job = changes.Job("x", str(found.path), str(tmp_path), "wcbench.analysis.study_rows:evaluate_record",
                      {"features": ["operators"]}, changes=1)  # fmt: skip
    done = changes.run_job(job)
    assert (done.made, done.failed) == (2, {})
    quick = pd.read_parquet(tmp_path / "batch_x2.values.parquet").set_index("feature")
    batch = found.manifest.passes["operators"].batch_size
    assert batch is not None
    whole = api.profile("spatial-transformer", device="cpu", passes=["operators"], preset="tiny", batch_size=2 * batch,
                        save=False)  # fmt: skip
    from wcbench.analysis.features import evaluate

    full = evaluate(whole, "operators").set_index("feature")["value"]
    assert quick["remark"].str.contains("exact").sum() >= 2
    pd.testing.assert_series_equal(quick["value"].loc[full.index], full, rtol=1e-9)


# --- changes ----------------------------------------------------------------------------------------------------------


class Planned:
    presets: ClassVar[Mapping[str, Any]] = {}
    variants: ClassVar[Mapping[str, str]] = {"wide": "wider"}
    length: ClassVar[str | None] = "seq"


def info_of(**settings: Any) -> record.PassInfo:
    return record.PassInfo(preset="paper", settings={"batch_size": 8, **settings}, batch_size=8, samples=8,
                           precision="fp32", device="cpu", tensors="fake", seed=0, steps=2, warmup=1,
                           seconds=1.0)  # fmt: skip


def test_all_kinds_of_changes_come_in_turn() -> None:
    found = changes.plan(Planned(), info_of(seq=100, attention="sdpa", zipf=None), None, 99)  # type: ignore[arg-type]
    assert [(c.name, c.refit) for c in found.changes] == [
        ("batch x2", False), ("bf16", True), ("length x0.75", True), ("variant wide", True), ("attention eager", True),
        ("batch x1/2", False), ("length x1.25", True),
    ]  # fmt: skip
    assert found.changes[2].options == {"sequence_length": 75}
    assert "know no values" in found.skipped["ids"]
    few = changes.plan(Planned(), info_of(seq=100), None, 2)  # type: ignore[arg-type]
    assert [c.name for c in few.changes] == ["batch x2", "bf16"]
    assert few.skipped["batch x1/2"] == "beyond the 2 changes asked for"


def test_a_variant_is_changed_into_the_model_of_the_suite() -> None:
    found = changes.plan(Planned(), info_of(), "wide", 99)  # type: ignore[arg-type]
    assert [c.options for c in found.changes if c.kind == "variant"] == [{"variant": None}]


def test_long_tasks_are_shared_out_and_go_first(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"a": 1.0, "b": 100.0}
    monkeypatch.setattr(changes, "_seconds", lambda job: seconds[job.workload])
    jobs = [changes.Job(name, "", "", "", changes=9) for name in "ab"]
    found = changes._shared_out(jobs, 2)
    assert [(j.workload, j.part, j.parts) for j in found] == [("b", 0, 2), ("b", 1, 2), ("a", 0, 1)]


def test_a_change_that_fails_is_kept_with_its_reason(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> record.Profile:
        raise WcbenchError("it cannot be")

    monkeypatch.setattr(changes, "_captured", failing)
    found = next((runs / "recommendation").iterdir())
    job = changes.Job("x", str(found), str(tmp_path), "wcbench.analysis.study_rows:evaluate_record",
                      {"features": ["params_trainable"]}, changes=1)  # fmt: skip
    assert changes.run_job(job).failed == {"batch x2": "it cannot be"}
    monkeypatch.undo()
    assert changes.run_job(job).failed == {"batch x2": "it cannot be"}


# --- suites -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def papers(runs: Path, tmp_path: Path) -> Path:
    """The tiny records, posing as records at preset paper."""
    root = tmp_path / "papers"
    shutil.copytree(runs, root)
    for file in root.rglob(record.MANIFEST):
        data = json.loads(file.read_text())
        data["passes"]["operators"]["preset"] = "paper"
        file.write_text(json.dumps(data))
    return root


def settings_of(root: Path, task: str) -> Mapping[str, Any]:
    found = next((root / task).iterdir())
    return record.load(found).manifest.passes["operators"].settings


def test_only_a_record_that_is_as_the_suite_has_it_is_taken(papers: Path, runs: Path) -> None:
    task = "recommendation"
    settings = settings_of(papers, task)
    assert newest(papers, task, settings) == next((papers / task).iterdir())
    assert newest(papers, task, {**settings, "batch_size": 3}) is None
    assert newest(runs, task, settings) is None  # of another preset
    assert newest(papers, "advertising", settings) is None
    manifest = next((papers / task).iterdir()) / record.MANIFEST
    data = json.loads(manifest.read_text())
    data["passes"]["operators"]["precision"] = "bf16"
    manifest.write_text(json.dumps(data))
    assert newest(papers, task, settings) is None


def test_settings_are_compared_as_a_manifest_has_them() -> None:
    assert settings_text({"layers": (1, 2), "lr": 0.1}) == {"layers": [1, 2], "lr": 0.1}


def capture(papers: Path, failing: Sequence[str] = ()) -> tuple[Capture, list[str]]:
    """Settings as the records have them; "profiling" copies another task's record."""
    asked: list[str] = []

    def profile(tasks: Sequence[str], told: Any) -> list[tuple[str, Path | None, str | None]]:
        asked.extend(tasks)
        return [(t, None, "out of memory") if t in failing else (t, _copied(papers, t), None) for t in tasks]

    def derive(jobs: Sequence[Mapping[str, Any]], told: Any) -> list[tuple[str, Mapping[str, str], str | None]]:
        done = changes.run_jobs([changes.Job(**{**job, "footprint": 0}) for job in jobs])
        return [(job.workload, job.failed, job.error) for job in done]

    def settings(task: str) -> Mapping[str, Any]:
        return settings_of(papers, task if (papers / task).is_dir() else "recommendation")

    return Capture(settings, profile, derive), asked


def _copied(papers: Path, task: str) -> Path:
    source = next((papers / "spatial-transformer").iterdir())
    target = papers / task / source.name
    shutil.copytree(source, target)
    data = json.loads((target / record.MANIFEST).read_text())
    (target / record.MANIFEST).write_text(json.dumps({**data, "task": task, "id": "0000beef"}))
    return target


def test_what_a_suite_lacks_is_profiled_first_and_named(papers: Path, tmp_path: Path) -> None:
    made, asked = capture(papers)
    study = run(Asked(suites=(RPR,), changes=0, settings=QUICK, out=tmp_path / "s", root=papers), made)
    assert asked == ["object-detection"]
    assert study.document["provenance"]["made_for_this_study"] == ["object-detection"]
    assert study.document["studied"]["title"] == RPR
    assert study.document["table"]["workloads"] == ["image-classification", "learning-to-rank", "object-detection"]


def test_a_task_that_fails_is_left_out_and_said(papers: Path, tmp_path: Path) -> None:
    made, _ = capture(papers, failing=["object-detection"])
    with pytest.raises(UsageError, match="3 workloads"):  # two remain
        run(Asked(suites=(RPR,), changes=0, settings=QUICK, out=tmp_path / "s", root=papers), made)
    asked = Asked(
        runs=[api.load(t, runs=papers) for t in ("spatial-transformer", "recommendation")],
        against=RPR, changes=0, settings=QUICK, out=tmp_path / "t", root=papers,
    )  # fmt: skip
    study = run(asked, made)
    assert "object-detection is left out: out of memory" in study.document["table"]["notes"]
    assert study.document["provenance"]["left_out"] == {"object-detection": "out of memory"}
    assert [one["id"] for one in study.document["comparisons"]] == ["suites", "subset", "subsets"]


# --- tables and refusals ----------------------------------------------------------------------------------------------


def test_a_table_of_ones_own(cli: Cli, table: Path, tmp_path: Path) -> None:
    ended = cli("study", "--table", table, "--radius", "0.4")
    assert ended.code == 0, ended.err
    study = load_study(tmp_path / "studies" / "jobs")
    assert "the given radius of 0.4" in ended.out.replace("\n", " ").replace("  ", " ")
    assert "1 metrics enter log10 by their unit" in ended.out
    assert len(study.tables["points"]) == 6
    assert wcbench.analysis.study.load_study is load_study


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([], "Nothing to study is named."),
        (["--suite", "aibench"], "Unknown suite 'aibench'."),
        (["--suite", RPR, "--against", RPR], "cannot be compared with itself"),
        (["--suite", RPR, "--changes", "some"], "--changes some is refused."),
        (["--suite", RPR, "--jobs", "0"], "--jobs 0 is refused."),
        (["--suite", RPR, "--features", "flops"], "Unknown feature or set 'flops'."),
        (["--suite", RPR, "--recipe", "ours"], "Unknown recipe 'ours'."),
        (["--suite", RPR, "nothing"], "No record 'nothing'"),
        (["--table", "nowhere.csv"], "There is no file nowhere.csv."),
        (["--table", "x.csv", "--suite", RPR], "A study is of a table, of records or of suites."),
    ],
)
def test_what_cannot_work_is_refused_at_once(cli: Cli, arguments: list[str], match: str) -> None:
    ended = cli("study", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert match in ended.err


def test_a_folder_with_something_else_is_left_alone(cli: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    ended = cli("study", "--table", table, "-o", tmp_path / "letters")
    assert ended.code == 1
    assert "holds something else than a study" in ended.err
    assert [file.name for file in (tmp_path / "letters").iterdir()] == ["a.txt"]


def test_numbers_of_changes() -> None:
    assert [parse_changes(text) for text in ("all", "none", "0", "12")] == [None, 0, 0, 12]
    for text in ("-1", "1.5", "", "1" * 9):
        with pytest.raises(UsageError, match="--changes"):
            parse_changes(text)


def test_records_of_one_workload_twice_are_refused(cli: Cli, runs: Path, tmp_path: Path) -> None:
    folder = next((runs / "recommendation").iterdir())
    shutil.copytree(folder, tmp_path / "copy")
    ended = cli("study", folder, tmp_path / "copy", "--runs", runs)
    assert ended.code == 2
    assert "Two records are of the workload 'recommendation'" in ended.err


def test_nothing_is_kept_where_no_folder_is_named(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = api.study(TASKS, root=runs, changes=0, jobs=1)
    assert study.members
    assert not list(tmp_path.iterdir())
    with pytest.raises(RecordError):
        load_study(tmp_path)
