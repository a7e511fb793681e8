"""`wcbench study` from end to end on tiny records: streams, folder, going on where it stopped, refusals."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import wcbench
from wcbench import api, record
from wcbench.analysis.cluster import cluster
from wcbench.analysis.reference import load_reference
from wcbench.analysis.study import Settings, load_study
from wcbench.analysis.study_records import newest, settings_text
from wcbench.analysis.study_run import Asked, Capture, default_also, run
from wcbench.cli import main
from wcbench.cli.study import CHANGES, parse_changes, parse_fraction
from wcbench.errors import RecordError, UsageError
from wcbench.profilers.change_jobs import Job, run_jobs

FEW = ("spatial-transformer", "recommendation", "image-classification")
TASKS = (*FEW, "learning-to-rank")
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
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny record of the operators of the three quickest tasks."""
    root = tmp_path_factory.mktemp("records") / "runs"
    for task in FEW:
        api.profile(task, device="cpu", passes=["operators"], preset="tiny", runs=root)
    return root


@pytest.fixture(scope="module")
def runs(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all four."""
    root = tmp_path_factory.mktemp("more") / "runs"
    shutil.copytree(few, root)
    api.profile(TASKS[-1], device="cpu", passes=["operators"], preset="tiny", runs=root)
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


def test_three_records_make_a_study_with_every_table(cli: Cli, few: Path, tmp_path: Path) -> None:
    arguments = ["study", *FEW, "--runs", few, "-o", tmp_path / "mine", "--changes", "1", "--jobs", "1"]
    ended = cli(*arguments)
    assert ended.code == 0, ended.err
    assert "[features 3/3]" in ended.err
    assert ended.out.rstrip().endswith(f"Wrote {tmp_path / 'mine'}\nNext: wcbench report {tmp_path / 'mine'}")
    study = load_study(tmp_path / "mine")
    assert all(name in ended.out for name in study.members)
    assert study.document["changes"]["made"] == 3  # the batch doubled, of each
    assert set(study.document["tables"]) == set(study.tables) >= {
        "features", "values", "points", "distances", "curve", "subset", "costs", "changes", "moves", "hotspots",
        "categories", "hotspot_counts", "hotspot_functions", "hotspot_overlap", "miss_ratios", "roofline", "draws",
    }  # fmt: skip
    assert set(study.tables["hotspots"]["source"]) == {"roofline-predicted"}
    misses = study.tables["miss_ratios"]
    assert all(rows.sort_values("capacity")["miss_ratio"].is_monotonic_decreasing for _, rows in
               misses.groupby("workload"))  # fmt: skip
    roof = study.tables["roofline"].set_index("workload")
    assert roof["intensity"].to_dict() == pytest.approx((roof["flops"] / roof["bytes"]).to_dict())
    assert (roof["attainable"] <= study.document["roofline"]["peak_flops"]).all()
    assert study.document["table"]["conditions"]["precision"] == ["fp32"]
    assert cli(*arguments).code == 0
    again = load_study(tmp_path / "mine")
    assert again.answer == study.answer
    for name, frame in study.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], frame)


@pytest.mark.slow
def test_a_study_of_records_says_its_answer_and_goes_on_where_it_stopped(cli: Cli, runs: Path, tmp_path: Path) -> None:
    arguments = ["study", *TASKS, "--runs", runs, "-o", tmp_path / "mine", "--changes", "1", "--jobs", "1"]
    ended = cli(*arguments)
    assert ended.code == 0, ended.err
    study = load_study(tmp_path / "mine")
    assert " ".join(ended.out.split()).startswith("the records " + " ".join(" ".join(study.answer).split())[:60])
    assert all(name in ended.out for name in study.members)
    assert ended.out.rstrip().endswith(f"Wrote {tmp_path / 'mine'}\nNext: wcbench report {tmp_path / 'mine'}")
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


@pytest.mark.slow
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


# --- suites -----------------------------------------------------------------------------------------------------------


def posing(records: Path, root: Path) -> Path:
    """The tiny records, posing as records at preset paper."""
    shutil.copytree(records, root)
    for file in root.rglob(record.MANIFEST):
        data = json.loads(file.read_text())
        data["passes"]["operators"]["preset"] = "paper"
        file.write_text(json.dumps(data))
    return root


@pytest.fixture
def papers(runs: Path, tmp_path: Path) -> Path:
    return posing(runs, tmp_path / "papers")


def settings_of(root: Path, task: str) -> Mapping[str, Any]:
    found = next((root / task).iterdir())
    return record.load(found).manifest.passes["operators"].settings


def test_only_a_record_that_is_as_the_suite_has_it_is_taken(few: Path, tmp_path: Path) -> None:
    task, papers, runs = "recommendation", posing(few, tmp_path / "papers"), few
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
        done = run_jobs([Job(**{**job, "footprint": 0}) for job in jobs])
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


@pytest.mark.slow
def test_what_a_suite_lacks_is_profiled_first_and_named(papers: Path, tmp_path: Path) -> None:
    made, asked = capture(papers)
    study = run(Asked(suites=(RPR,), changes=0, settings=QUICK, out=tmp_path / "s", root=papers), made)
    assert asked == ["object-detection"]
    assert study.document["provenance"]["made_for_this_study"] == ["object-detection"]
    assert study.document["studied"]["title"] == "AIBench Training v1.1 RPR"
    assert study.document["table"]["workloads"] == ["image-classification", "learning-to-rank", "object-detection"]


@pytest.mark.slow
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
        (["--suite", RPR, "--max-variation", "much"], "--max-variation much is refused."),
        (["--suite", RPR, "--max-variation", "2 %"], "meets the conditions on members"),
        (["--suite", RPR, "--population", "nobody.csv"], "There is no file nobody.csv."),
        (["--suite", RPR, "--also", "mlperf-training-current"], "Name it with --against."),
        (["--suite", RPR, "--against", "mlperf-training-v0.7", "--also", RPR], "is compared already"),
        (["--suite", RPR, "--features", "flops"], "Unknown feature or set 'flops'."),
        (["--suite", RPR, "--recipe", "ours"], "Unknown recipe 'ours'."),
        (["--suite", RPR, "nothing"], "No record 'nothing'"),
        (["--table", "nowhere.csv"], "There is no file nowhere.csv."),
        (["--table", "x.csv", "--suite", RPR], "A study is of a table, of records or of suites."),
        (["--table", "x.csv", "--require-metric"], "does not tell of metrics"),
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


def test_fractions() -> None:
    assert [parse_fraction(text, "--x") for text in ("2%", "0.02", " 10 %", "0")] == [0.02, 0.02, 0.1, 0.0]
    for text in ("-1%", "nan", "", "two"):
        with pytest.raises(UsageError, match="--x"):
            parse_fraction(text, "--x")


def test_the_current_mlperf_is_compared_with_an_older_one_only() -> None:
    assert default_also(["aibench-training-v1.1"], "mlperf-training-v0.7") == ("mlperf-training-current",)
    assert default_also(["aibench-training-v1.1"], "mlperf-training-current") == ()
    assert default_also(["mlperf-training-current"], "mlperf-training-v0.7") == ()
    assert default_also(["mlperf-training-v0.7"], "aibench-training-v1.1") == ()
    assert default_also([], "mlperf-training-v0.7") == ()


def test_one_of_each_kind_of_change_is_the_default_everywhere() -> None:
    assert inspect.signature(api.study).parameters["changes"].default == CHANGES == 4


def test_a_population_goes_along_with_a_table(cli: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text("workload,weight\njob0,1\njob1,3\nelsewhere,4\n")
    ended = cli("study", "--table", table, "--radius", "0.1", "--population", "fleet.csv")
    assert ended.code == 0, ended.err
    assert "at least 50 % of fleet, by weight, lies within r = 0.1 of a task of jobs" in " ".join(ended.out.split())
    assert load_study(tmp_path / "studies" / "jobs").document["population"]["placed"] == 0.5


def test_records_of_one_workload_twice_are_refused(cli: Cli, few: Path, tmp_path: Path) -> None:
    folder = next((few / "recommendation").iterdir())
    shutil.copytree(folder, tmp_path / "copy")
    ended = cli("study", folder, tmp_path / "copy", "--runs", few)
    assert ended.code == 2
    assert "Two records are of the workload 'recommendation'" in ended.err


@pytest.mark.slow
def test_nothing_is_kept_where_no_folder_is_named(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = api.study(TASKS, root=runs, changes=0, jobs=1)
    assert study.members
    assert not list(tmp_path.iterdir())
    with pytest.raises(RecordError):
        load_study(tmp_path)
