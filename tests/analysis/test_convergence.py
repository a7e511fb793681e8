"""Convergence of training runs: figures by hand, and of NVIDIA's published runs from the published table alone."""

from __future__ import annotations

import csv
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.analysis.conftest import info, record
from wcbench.analysis.convergence import Convergence, Group, convergence, olympic_mean, variation
from wcbench.profilers.readers.base import Sink, Source
from wcbench.profilers.readers.mlperf import MlperfLog
from wcbench.record import Profile
from wcbench.reports.model import Notes, Section, Text
from wcbench.reports.sections.convergence import section


def trainings(seconds: Sequence[float | None], epochs: Sequence[float | None], **columns: Any) -> list[dict[str, Any]]:
    usual = {"benchmark": "resnet", "system": "abacus", "batch_size": 64, "status": "success", "quality": 0.76}
    return [
        {"run": run, "file": f"result_{run}.txt", **usual, "seconds": time, "epochs": number, **columns}
        for run, (time, number) in enumerate(zip(seconds, epochs, strict=True))
    ]


def made(rows: Sequence[Mapping[str, Any]], epochs: Sequence[Mapping[str, Any]] = ()) -> Profile:
    tables: dict[str, dict[str, Any]] = {"trainings": {"convergence": list(rows)}}
    if epochs:
        tables["epochs"] = {"convergence": list(epochs)}
    return record({"convergence": info(preset=None, batch_size=None, samples=None)}, tables)


def view(rows: Sequence[Mapping[str, Any]], epochs: Sequence[Mapping[str, Any]] = ()) -> Convergence:
    found = convergence(made(rows, epochs))
    assert found is not None
    return found


def group(rows: Sequence[Mapping[str, Any]]) -> Group:
    (found,) = view(rows).groups
    return found


def test_a_record_without_trainings_has_no_convergence() -> None:
    assert convergence(record({"timing": info()}, {})) is None


def test_mean_deviation_and_coefficient_by_hand() -> None:
    """Times 100, 110, 120: mean 110, squares of the distances 100 + 0 + 100 over n - 1 = 2 is 100, its root 10."""
    found = group(trainings([100, 120, 110], [10, 10, 13]))
    assert (found.seconds.n, found.seconds.mean, found.seconds.std) == (3, 110, 10)
    assert found.seconds.cv == pytest.approx(10 / 110, abs=1e-15)
    assert (found.seconds.least, found.seconds.most, found.seconds.reason) == (100, 120, None)
    assert (found.epochs.mean, found.epochs.std) == (11, pytest.approx(math.sqrt(3), abs=1e-15))
    assert found.to_quality == "epochs"
    assert found.variation == found.epochs.cv == pytest.approx(math.sqrt(3) / 11, abs=1e-15)
    assert (found.success, found.aborted, found.unfinished) == (3, 0, 0)
    assert (found.olympic_seconds, found.olympic_dropped, found.olympic_reason) == (110, 1, None)


def test_runs_that_did_not_reach_the_target_are_in_no_mean_and_the_slowest_of_the_score() -> None:
    rows = trainings([100, 5, 120, 110], [10, 1, 10, 13])
    rows[1]["status"] = "aborted"
    found = group(rows)
    assert (found.seconds.n, found.seconds.mean, found.epochs.n) == (3, 110, 3)
    assert (found.success, found.aborted, found.unfinished) == (3, 1, 0)
    assert found.olympic_seconds == 115, (
        "of 100, 110, 120 and the aborted one, the 100 and the aborted one are left out"
    )


def test_a_second_failure_leaves_no_score() -> None:
    rows = trainings([100, 5, 120, 110, None], [10, 1, 10, 13, None])
    rows[1]["status"], rows[4]["status"] = "aborted", None
    found = group(rows)
    assert (found.aborted, found.unfinished) == (1, 1)
    assert found.olympic_seconds is None
    assert found.olympic_reason == "more than 1 of 5 runs did not reach the target"


def test_one_run_has_no_variation() -> None:
    found = group(trainings([100], [10]))
    assert (found.seconds.n, found.seconds.mean, found.seconds.std, found.seconds.cv) == (1, 100, None, None)
    assert found.seconds.reason == "one successful run has no variation: two are needed"
    assert found.variation is None
    assert found.olympic_reason == "1 run is too few: 1 at each end is left out"


def test_samples_take_the_place_of_epochs() -> None:
    rows = trainings([100, 120], [None, None])
    rows[0]["samples"], rows[1]["samples"] = 3_000_000, 3_500_000
    found = group(rows)
    assert found.to_quality == "samples"
    assert (found.epochs.n, found.epochs.mean) == (0, None)
    assert found.epochs.reason == "no successful run tells it"
    assert found.samples.mean == 3_250_000
    assert found.variation == pytest.approx(math.sqrt(2 * 250_000**2) / 3_250_000, abs=1e-15)


def test_no_quantity_to_quality() -> None:
    found = group(trainings([100, 120], [None, None]))
    assert (found.to_quality, found.variation) == (None, None)


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, 1e300])
def test_what_is_no_number_is_left_out(bad: float | None) -> None:
    assert variation([bad, 1.0, 3.0, bad]) == variation([1.0, 3.0])
    assert variation([bad]).mean is None


def test_a_mean_of_nothing_has_no_coefficient() -> None:
    found = variation([0.0, 0.0])
    assert (found.mean, found.std, found.cv) == (0, 0, None)
    assert found.reason is not None


def test_the_score_leaves_out_more_runs_of_unet3d() -> None:
    """Ten runs, four left out at each end: the mean of the fifth and the sixth."""
    rows = trainings([float(n * n) for n in range(1, 11)], [1.0] * 10, benchmark="unet3d")
    found = group(rows)
    assert (found.olympic_dropped, found.olympic_seconds) == (4, (25 + 36) / 2)
    assert olympic_mean([1.0, None, 2.0]) == (None, "a successful run has no time")


def test_groups_are_by_benchmark_system_and_batch() -> None:
    rows = trainings([1, 2, 3, 4, 5, 6], [1] * 6)
    rows[1]["benchmark"], rows[2]["system"], rows[3]["batch_size"], rows[4]["batch_size"] = "bert", "other", 128, None
    assert [found.runs for found in view(rows).groups] == [(0, 5), (1,), (2,), (3,), (4,)]


def test_series_of_numbered_files_are_told_apart() -> None:
    """One system with two frameworks, which the logs do not name."""
    rows = trainings([1, 2, 3, 4], [1] * 4)
    for row, name in zip(rows, ("mx20.06_r_0.txt", "pt_r_0.txt", "mx20.06_r_1.txt", "pt_r_1.txt"), strict=True):
        row["file"] = name
    assert [(found.series, found.runs) for found in view(rows).groups] == [("mx20.06_r", (0, 2)), ("pt_r", (1, 3))]
    for row, name in zip(rows, ("a.txt", "b.txt", "c.txt", "d_2.txt.gz"), strict=True):
        row["file"] = name
    assert [(found.series, found.runs) for found in view(rows).groups] == [(None, (0, 1, 2, 3))], "no series at all"


def test_qualities_and_curves() -> None:
    rows = trainings([10, 20], [2, 2])
    evaluations = [
        {"run": 0, "epoch": 1.0, "quality": 0.5},
        {"run": 0, "epoch": 2.0, "quality": None},
        {"run": 0, "epoch": 2.0, "quality": 0.76},
        {"run": 1, "epoch": 1.0, "quality": 0.3, "metric": "BBOX", "samples": 9, "seconds": 4.0},
        {"run": 1, "epoch": None, "quality": 0.2, "metric": "SEGM", "samples": 9, "seconds": 5.0},
    ]
    found = view(rows, evaluations)
    assert [row["qualities"] for row in found.runs] == [{"": 0.76}, {"BBOX": 0.3, "SEGM": 0.2}]
    assert list(found.curves) == [
        {"run": 0, "metric": None, "of": "epochs", "points": [[1.0, 0.5], [2.0, 0.76]]},
        {"run": 1, "metric": "BBOX", "of": "epochs", "points": [[1.0, 0.3]]},
        {"run": 1, "metric": "SEGM", "of": "samples", "points": [[9.0, 0.2]]},
    ]


def test_a_long_curve_is_thinned_and_ends_where_it_ended() -> None:
    evaluations = [{"run": 0, "epoch": float(n), "quality": n / 2000} for n in range(1, 1002)]
    (curve,) = view(trainings([10], [1001]), evaluations).curves
    assert len(curve["points"]) == 334
    assert curve["points"][-1] == [1001.0, 1001 / 2000]


def test_it_is_plain_data_and_says_itself() -> None:
    found = view(trainings([100, 120, 110], [10, 10, 13]))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["pass"] == "convergence"
    assert plain["groups"][0]["variation"] == found.groups[0].variation
    assert [row["seconds"] for row in plain["rows"]] == [100, 120, 110]
    assert list(found.to_frame()["epochs"]) == [10, 10, 13]
    assert repr(found) == (
        "Convergence: 3 runs\n"
        "  resnet on abacus: 3 of 3 runs reached the target; 110 s (cv 9.09 %); 11 epochs to quality (cv 15.75 %); "
        "olympic mean 110 s"
    )


def test_it_needs_no_torch() -> None:
    code = "import sys, wcbench.analysis.convergence; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the section of the report ------------------------------------------------------------------------------------


def built(rows: Sequence[Mapping[str, Any]]) -> Section:
    found = section({"convergence": view(rows).to_dict(), "run": "runs/x", "notes": []})
    assert found is not None
    return found


def test_no_section_without_runs() -> None:
    assert section({"convergence": None}) is None
    assert section({}) is None


def test_the_section_says_and_shows_the_runs() -> None:
    found = built(trainings([100, 120, 110], [10, 10, 13]))
    text = found.blocks[0]
    assert isinstance(text, Text)
    assert text.text.startswith(
        "3 of 3 runs of resnet on abacus reached the target: 110 s to train on average (cv 9.1 %), 11 epochs to "
        "quality (cv 15.7 %)."
    )
    table = found.table("convergence-groups")
    assert table.column("time to train") == (110,)
    assert table.column("time cv") == (pytest.approx(10 / 110),)
    assert table.column("olympic mean") == (110,)
    runs = found.table("convergence-runs")
    assert runs.column("epochs") == (10, 10, 13)
    assert runs.column("quality") == ("0.760", "0.760", "0.760")
    assert not [part for part in found.blocks if isinstance(part, Notes)]


def test_the_section_says_how_many_groups_it_does_not_tell_of() -> None:
    rows = trainings([1, 2, 3, 4, 5, 6], [1] * 6)
    for batch, row in enumerate(rows, 1):
        row["batch_size"] = batch
    found = built(rows)
    text = found.blocks[0]
    assert isinstance(text, Text)
    assert text.text.count("reached the target:") == 5
    assert "The table has 1 group more." in text.text
    assert len(found.table("convergence-groups").rows) == 6


def test_the_section_says_what_is_missing_and_why() -> None:
    found = built(trainings([None], [None], status=None, benchmark=None, quality=None))
    (notes,) = (part for part in found.blocks if isinstance(part, Notes))
    said = " ".join(line.text for line in notes.items)
    assert "no successful run tells it" in said
    assert "epochs to quality" in said
    assert found.table("convergence-groups").column("time to train") == (None,)


# --- published runs -----------------------------------------------------------------------------------------------

FOLDER = "traces/mlperf/v0.7"


def _read(path: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    folder.mkdir()
    sink = Sink(path.name, folder)
    MlperfLog().read(Source(path, path.name), sink)
    sink.finish()
    return {name: pq.read_table(folder / f"{name}.parquet").drop_columns("pass").to_pylist() for name in sink.rows}


@pytest.fixture
def published(shared: Path, tmp_path: Path) -> tuple[Convergence, list[dict[str, str]]]:
    """All of NVIDIA's logs in one record, and the rows of the published table."""
    with (shared / "published/mlperf_v07_nvidia_runs.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["system"].startswith("dgxa100")]
    tables: dict[str, list[dict[str, Any]]] = {"trainings": [], "epochs": []}
    kept = []
    for row in rows:
        path = shared / FOLDER / f"{row['benchmark']}__NVIDIA__{row['system']}__result_{row['run']}.txt"
        if path.is_file():
            for name, found in _read(path, tmp_path / path.stem).items():
                tables[name] += [{**cells, "run": len(kept)} for cells in found]
            kept.append(row)
    return view(tables["trainings"], tables["epochs"]), kept


def test_coefficients_of_variation_of_the_published_runs(published: tuple[Convergence, list[dict[str, str]]]) -> None:
    """From the table's own minutes, which are rounded to 0.001, and its own numbers of epochs."""
    found, rows = published
    assert len(rows) == 57
    names = list(dict.fromkeys((row["benchmark"], row["system"]) for row in rows))
    assert len(found.groups) == len(names) == 9
    for benchmark, system in names:
        of = [row for row in rows if (row["benchmark"], row["system"]) == (benchmark, system)]
        (one,) = (
            g for g in found.groups
            if g.benchmark == benchmark and system in str(found.runs[g.runs[0]]["file"])
        )  # fmt: skip
        minutes = [float(row["minutes"]) for row in of]
        mean = statistics.fmean(minutes)
        assert one.success == len(of)
        assert one.seconds.mean == pytest.approx(60 * mean, abs=60 * 0.0005)
        assert one.seconds.cv == pytest.approx(statistics.stdev(minutes) / mean, abs=2 * 0.0005 / mean)
        numbers = [float(row["last_eval_epoch_or_samples"]) for row in of]
        if benchmark == "bert":
            assert one.samples.mean == 3_250_048
        elif benchmark == "dlrm":  # the table's position in the epoch counts from 1
            assert one.epochs.mean == pytest.approx(statistics.fmean(numbers) - 1)
            assert one.epochs.cv == pytest.approx(statistics.stdev(numbers) / (statistics.fmean(numbers) - 1))
        else:
            assert one.epochs.mean == pytest.approx(statistics.fmean(numbers))
            assert one.epochs.cv == pytest.approx(statistics.stdev(numbers) / statistics.fmean(numbers))
        if one.logged.n:
            assert one.logged.mean == pytest.approx(statistics.fmean(numbers))
            assert one.logged.cv == pytest.approx(statistics.stdev(numbers) / statistics.fmean(numbers))


def test_scores_of_the_published_runs(published: tuple[Convergence, list[dict[str, str]]]) -> None:
    """MLPerf's: the fastest and the slowest left out; bert has but two of its ten logs here."""
    found, rows = published
    for one in found.groups:
        minutes = sorted(float(rows[run]["minutes"]) for run in one.runs)
        if len(minutes) < 3:
            assert one.olympic_seconds is None
        else:
            assert one.olympic_seconds == pytest.approx(60 * statistics.fmean(minutes[1:-1]), abs=60 * 0.0005)


def test_both_metrics_of_mask_rcnn(published: tuple[Convergence, list[dict[str, str]]]) -> None:
    found, rows = published
    (first,) = (i for i, row in enumerate(rows) if row["benchmark"] == "maskrcnn" and row["run"] == "0")
    assert found.runs[first]["qualities"] == {"BBOX": 0.37848828640629323, "SEGM": 0.34417646963592163}
    assert {curve["metric"] for curve in found.curves if curve["run"] == first} == {"BBOX", "SEGM"}
