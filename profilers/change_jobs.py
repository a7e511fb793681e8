"""Jobs of a study: of each task its record first, then change by change, several side by side.

Each part is a file of its own that is written whole, so that a job that was killed goes on where it stopped. What a
record is turned into is not this module's matter: the evaluation is given by name, as layers above it are.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench import record
from wcbench.errors import WcbenchError
from wcbench.files import write_whole
from wcbench.profilers.changed import FOOTPRINT, as_asked, captured, equal_footprint, keeps_its_line, with_own_fit
from wcbench.profilers.changes import Change, Plan, plan
from wcbench.profilers.suite import Children
from wcbench.registry import load_target
from wcbench.tasks import catalog

if TYPE_CHECKING:
    import pandas as pd

BASE, PLAN = "base", "plan.json"


@dataclass(frozen=True)
class Job:
    """All that is to be derived of one workload.

    Attributes
    ----------
    workload : its name in the study. ``run`` : folder of its record.
    into : folder of its parts; what is there already is kept.
    evaluate : ``module:function`` that turns (record, workload, options) into frames by name.
    options : passed on to it.
    changes : how many changes at most; 0 for none. Changes need a task that can be run again.
    part, parts : the job does every ``parts``-th change, from the ``part``-th on, so that several processes share it.
    footprint : bytes that a step should take at its peak, for one more version at the batch that comes nearest; it is
        no change in the sense of r*. 0 for none.
    """

    workload: str
    run: str
    into: str
    evaluate: str
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: int = 0
    footprint: int = 0
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class JobDone:
    """What came of a job: parts made now, kept from before, failed with their reasons; or why there is nothing."""

    workload: str
    made: int
    kept: int
    failed: Mapping[str, str]
    error: str | None = None


Told = Callable[[JobDone, int, int], None]


def run_job(job: Job) -> JobDone:
    """Derive all parts of a job that are not there yet; a change that fails is told and costs no other."""
    work = _Work(job)
    found = _plan_of(work.profile, job)
    made = kept = 0
    if job.part == 0:
        kept = int(_stored(Path(job.into), BASE) is not None)
        made = 1 - kept
        work.base()
        _note(Path(job.into) / PLAN, {"asked": _asked(job), **_told(found)})
    failed: dict[str, str] = {}
    for change in found.changes[job.part :: job.parts]:
        state = work.change(change)
        made, kept = made + (state == "made"), kept + (state == "kept")
        if state not in ("made", "kept"):
            failed[change.name] = state
    return JobDone(job.workload, made, kept, failed)


def _told(found: Plan) -> dict[str, Any]:
    return {"changes": [[c.name, c.kind] for c in found.changes], "skipped": dict(found.skipped)}


def _asked(job: Job) -> list[int]:
    return [job.changes, job.footprint]


def finished(job: Job) -> JobDone | None:
    """What came of a job that has nothing left to do, without starting anything; None where it has."""
    folder = Path(job.into)
    try:
        plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        if plan["asked"] != _asked(job):
            return None
        names = [name for name, _ in plan["changes"]]
        failures = {name: folder / f"{_slug(name)}.failed.json" for name in names}
        failed = {name: str(json.loads(file.read_text(encoding="utf-8"))["reason"]) for name, file in failures.items()
                  if file.is_file()}  # fmt: skip
    except (OSError, ValueError, KeyError):
        return None
    kept = [BASE, *(_slug(name) for name in names if name not in failed)]
    if not all((folder / f"{part}.values.parquet").is_file() for part in kept):
        return None
    return JobDone(job.workload, 0, len(kept), failed)


def _plan_of(profile: record.Profile, job: Job) -> Plan:
    info = profile.manifest.passes.get("operators")
    name = profile.manifest.task
    if job.changes < 1 and job.footprint < 1:
        return Plan((), {"all": "no changes were asked for"})
    if info is None or (name not in catalog.TASKS and ":" not in name) or profile.manifest.source is not None:
        return Plan((), {"all": "only tasks that wcbench can run again can be changed"})
    from wcbench.tasks.load import load_task

    task = load_task(name)
    found = plan(task, as_asked(profile, task, info), profile.manifest.variant, job.changes)
    equal = equal_footprint(profile, job.footprint) if job.footprint else "no equal footprint was asked for"
    if isinstance(equal, str):
        return Plan(found.changes, {**found.skipped, FOOTPRINT: equal})
    return Plan((*found.changes, equal), found.skipped)


class _Work:
    """A job at work: the record, and what is derived of it when it is first needed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = Path(job.into)
        self.profile = record.load(job.run)
        self.evaluate: Callable[..., Mapping[str, pd.DataFrame]] = load_target(job.evaluate)

    def base(self) -> Mapping[str, pd.DataFrame]:
        """What is derived of the record itself; of a job that is shared out, the first part keeps it."""
        found = _stored(self.folder, BASE)
        if found is not None:
            return found
        made = self.evaluate(self.profile, self.job.workload, {**self.job.options, "whole": self.job.part == 0})
        if self.job.part == 0:
            _store(self.folder, BASE, made)
        return made

    def change(self, change: Change) -> str:
        """ "made" or "kept", or why the change failed; failures are kept too, since they would come again."""
        name = _slug(change.name)
        if _stored(self.folder, name) is not None:
            return "kept"
        failure = self.folder / f"{name}.failed.json"
        if failure.is_file():
            return str(json.loads(failure.read_text(encoding="utf-8"))["reason"])
        try:
            frames = self._changed(change)
        except WcbenchError as error:
            _note(failure, {"reason": error.message})
            return error.message
        _store(self.folder, name, frames)
        return "made"

    def _changed(self, change: Change) -> dict[str, pd.DataFrame]:
        fit = change.refit or not keeps_its_line(self.profile, self.job.options)
        found = captured(self.profile, change, fit=fit)
        frames = dict(self.evaluate(found, self.job.workload, self.job.options))
        if not fit:
            frames["values"] = with_own_fit(frames["values"], self.base()["values"])
        return frames


# --- files ------------------------------------------------------------------------------------------------------------


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in name)


def _store(folder: Path, part: str, frames: Mapping[str, pd.DataFrame]) -> None:
    """One file for each frame; the one named "values" last, since it stands for all."""
    for name in sorted(frames, key=lambda name: name == "values"):
        frame = frames[name]
        write_whole(folder / f"{part}.{name}.parquet", lambda file, frame=frame: frame.to_parquet(file, index=False))  # type: ignore[misc]


def _stored(folder: Path, part: str) -> dict[str, pd.DataFrame] | None:
    import pandas as pd

    file = folder / f"{part}.values.parquet"
    try:
        return {"values": pd.read_parquet(file)} if file.is_file() else None
    except Exception:  # a damaged file is made again
        return None


def _note(file: Path, value: Mapping[str, Any]) -> None:
    write_whole(file, lambda place: place.write_text(json.dumps(value, indent=2), encoding="utf-8"))


# --- many jobs --------------------------------------------------------------------------------------------------------


LONG = 15.0
"""Seconds that the operators of a record took to count, beyond which its changes are shared by several processes."""


def run_jobs(jobs: Sequence[Job], *, at_a_time: int = 1, told: Told | None = None) -> list[JobDone]:
    """Run jobs, each in a process of its own where several run at a time; one that fails costs no other.

    The longest go first, and those that have nothing left to do start none. Of a job that was shared out, each part is
    told and given back.
    """
    ready = [(job, finished(job)) for job in jobs]
    found = [done for _, done in ready if done is not None]
    left = [job for job, done in ready if done is None]
    todo = left if at_a_time <= 1 else _shared_out(left, at_a_time)
    total = len(found) + len(todo)
    if told is not None:
        for count, done in enumerate(found, start=1):
            told(done, count, total)
    if at_a_time > 1:
        return [*found, *_side_by_side(todo, at_a_time, told, len(found))]
    for job in todo:
        found.append(_safely(job))
        if told is not None:
            told(found[-1], len(found), total)
    return found


def _shared_out(jobs: Sequence[Job], at_a_time: int) -> list[Job]:
    """Longest first; those of long tasks in parts."""
    weighed: list[tuple[float, Job]] = []
    for job in jobs:
        seconds = _seconds(job)
        parts = min(at_a_time, 4) if seconds > LONG and (job.changes or job.footprint) else 1
        weighed += [(seconds, dataclasses.replace(job, part=part, parts=parts)) for part in range(parts)]
    return [job for _, job in sorted(weighed, key=lambda pair: (-pair[0], pair[1].workload, pair[1].part))]


def _seconds(job: Job) -> float:
    try:
        info = record.load(job.run).manifest.passes.get("operators")
    except WcbenchError:
        return 0.0
    return 0.0 if info is None else info.seconds


def _safely(job: Job) -> JobDone:
    try:
        return run_job(job)
    except WcbenchError as error:
        return JobDone(job.workload, 0, 0, {}, error.message)


def _side_by_side(jobs: Sequence[Job], at_a_time: int, told: Told | None, before: int) -> Iterator[JobDone]:
    """``before`` : how many were told already."""
    children = Children()
    lock, done = threading.Lock(), [before]

    def run(job: Job) -> JobDone:
        text = json.dumps(dataclasses.asdict(job))
        command = [sys.executable, "-m", "wcbench.profilers.change_jobs", text]
        ended = children.run(command, {**os.environ, "OMP_NUM_THREADS": "1"})
        found = _read_answer(job, ended.returncode, ended.stdout, ended.stderr)
        with lock:
            done[0] += 1
            if told is not None and not children.ended:
                told(found, done[0], before + len(jobs))
        return found

    with children, ThreadPoolExecutor(max_workers=at_a_time) as pool:
        waiting = [pool.submit(run, job) for job in jobs]
        try:
            found = [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise
    yield from found


def _read_answer(job: Job, code: int, out: str, err: str) -> JobDone:
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if code == 0 and lines:
        return JobDone(**json.loads(lines[-1]))
    why = err.strip().splitlines()[-1] if err.strip() else f"ended with exit code {code}"
    return JobDone(job.workload, 0, 0, {}, why)


def main(text: str) -> None:
    """A child process: run the job that the JSON text holds, and print what came of it as the last line."""
    done = _safely(Job(**json.loads(text)))
    print(json.dumps(dataclasses.asdict(done)))


if __name__ == "__main__":
    main(sys.argv[1])
