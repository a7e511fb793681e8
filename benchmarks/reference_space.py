"""Make a frozen reference space: wcbench/reference/reference-1.json, from the catalogue at the papers' scale.

Run: python benchmarks/reference_space.py [--runs FOLDER] [--parts FOLDER] [--changes N] [--jobs N] [-o FILE] [--force]

1. Records of all tasks of the three suites below, pass operators, preset paper; what is in ``--runs`` is taken.
2. r*: each task under at most N changes that leave it the same task (METHOD 2.2), parts in ``--parts``; what is there
   already is kept. Distances are taken in the space of step 1. With ``--changes 0`` nothing is run and only what is
   there counts, so that a study's own parts (FOLDER/parts/CODE-operators) can be named; without any the reference has
   no r*.
3. The space is fitted to all tasks, blind to suites, and frozen. An existing file is kept unless ``--force``: a new fit
   is a new reference with a new number, since old placements name the old one.

Everything runs on fake tensors, so that no GPU is needed; half a minute a task, and a few minutes for its changes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from wcbench import api, suites
from wcbench.analysis.features import chosen, evaluate
from wcbench.analysis.place import place
from wcbench.analysis.radius import RStar, r_star
from wcbench.analysis.reference import DEFAULT, Reference, freeze, references
from wcbench.analysis.study_parts import read_parts
from wcbench.errors import WcbenchError
from wcbench.machine import wcbench_version
from wcbench.profilers.change_jobs import Job, JobDone, run_jobs
from wcbench.profilers.changed import FOOTPRINT
from wcbench.profilers.suite import TaskRun, profile_tasks
from wcbench.record import Profile

SUITES = ("aibench-training-v1.1", "mlperf-training-v0.7", "mlperf-training-current")
FEATURES = "operators"
EVALUATE = "wcbench.analysis.study_rows:evaluate_record"
HOME = Path(__file__).resolve().parent.parent / "wcbench" / "reference"


def records(runs: Path, jobs: int) -> dict[str, Profile]:
    """The newest fitting record of every task, made where there is none."""
    tasks = list(dict.fromkeys(task for suite in SUITES for task in suites.load_suite(suite).tasks))
    lacking = [task for task in tasks if task not in _there(runs)]
    options = {"passes": ["operators"], "preset": "paper", "runs": runs}
    failed = [run for run in profile_tasks(lacking, options, jobs=jobs, told=_told) if run.error] if lacking else []
    if failed:
        raise WcbenchError(f"{len(failed)} tasks failed: {failed[0].task}: {failed[0].error}")
    found = _there(runs)
    return {task: found[task] for task in tasks}


def _there(runs: Path) -> dict[str, Profile]:
    found = {}
    for profile in api.runs(runs) if runs.is_dir() else ():
        info = profile.manifest.passes.get("operators")
        if info is not None and (info.preset, info.precision, info.mode) == ("paper", "fp32", "train"):
            found[profile.name] = profile
    return found


def _told(run: TaskRun, done: int, total: int) -> None:
    print(f"[{done}/{total}] {run.task}: {run.path or run.error} ({run.seconds:.0f} s)", flush=True)


def changed(found: Mapping[str, Profile], parts: Path, most: int, jobs: int) -> pd.DataFrame:
    """The feature rows of each task under each change, as far as they could be made: with columns workload, change."""
    homes = {name: parts / f"{name}-{profile.manifest.id}" for name, profile in found.items()}
    todo = [
        Job(name, str(p.path), str(homes[name]), EVALUATE, {"features": [FEATURES]}, most) for name, p in found.items()
    ]
    if most:
        run_jobs(todo, at_a_time=jobs, told=_job)
    there = {name: home for name, home in homes.items() if (home / "plan.json").is_file()}
    if not there:
        return pd.DataFrame(columns=["workload", "change", "feature"])
    rows = read_parts(there).changed
    wanted = [full for definition in chosen(FEATURES) for full in definition.names]
    return rows[(rows["change"] != FOOTPRINT) & rows["feature"].isin(wanted)]


def _job(done: JobDone, count: int, total: int) -> None:
    print(f"[{count}/{total}] {done.workload}: {done.made} made, {done.kept} kept, failed {dict(done.failed)}"
          f"{' ' + done.error if done.error else ''}", flush=True)  # fmt: skip


def radius(reference: Reference, rows: pd.DataFrame) -> RStar | None:
    """r* in this space; a change in which a feature of the space is missing has no distance."""
    found = []
    for (name, change), frame in rows.groupby(["workload", "change"], sort=True):
        placed = place(frame.drop(columns="change"), reference, mix=True)
        own = placed.nearest.loc[placed.nearest["same"], "distance"].iloc[0]
        found.append((name, change, float(own) if placed.complete else None))
    return r_star(pd.DataFrame(found, columns=["workload", "change", "distance"])) if found else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--parts", type=Path, default=Path("reference-parts"))
    parser.add_argument("--changes", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, default=HOME / f"{DEFAULT}.json")
    parser.add_argument("--force", action="store_true")
    asked = parser.parse_args()

    found = records(asked.runs, asked.jobs)
    versions = changed(found, asked.parts, asked.changes, asked.jobs)
    rows = pd.concat([evaluate(p, FEATURES, name) for name, p in found.items()], ignore_index=True)
    made = {
        "wcbench": wcbench_version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python benchmarks/reference_space.py",
        "of": f"all tasks of {', '.join(SUITES)}; pass operators at preset paper, fp32, on fake tensors",
        "torch": version("torch"),
    }
    belong = {name: tuple(profile.manifest.suites) for name, profile in found.items()}
    bare = freeze(asked.out.stem, rows, suites=belong, made=made)
    star = radius(bare, versions)
    told: dict[str, Any] = {}
    if star is not None:
        changes = ", ".join(sorted(star.table["change"].unique()))
        of = f"{star.quantile:.0%} quantile of {len(star.table)} distances of {len(star.workloads)} workloads to"
        told = {"radius": star.value, "radius_of": f"{of} themselves, changed: {changes}"}
    final = freeze(asked.out.stem, rows, suites=belong, made=made, **told)
    final.save(asked.out, force=asked.force)
    print(final)
    if star is not None:
        print(star)
    print(f"median distance to the nearest neighbour {final.median_neighbour:.4g}")
    print(f"wrote {asked.out} ({asked.out.stat().st_size} bytes); known: {', '.join(references())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
