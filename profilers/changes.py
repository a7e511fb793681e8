"""A task under changes that leave it the same task, and the rows that are derived from each: what r* is made of.

Half and twice the batch, shorter and longer sequences, the other precision, attention spelt out or fused, the other
models that go under the task's name (METHOD 2.2). All on fake tensors, so that the paper's size costs seconds.

A job is one task: its record first, then change by change. Each part is a file of its own that is written whole, so
that a job that was killed goes on where it stopped. What a record is turned into is not this module's matter: the
evaluation is given by name, as layers above it are.
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
from wcbench.errors import TaskError, WcbenchError
from wcbench.files import write_whole
from wcbench.registry import load_target
from wcbench.tasks import catalog

if TYPE_CHECKING:
    import pandas as pd

    from wcbench.tasks.base import Task

BASE, FOOTPRINT = "base", "equal footprint"
_PEAK_FEATURES = frozenset({"footprint_per_sample", "footprint_fixed", "all"})
SHORTER, LONGER = 0.75, 1.25
"""Lengths stand at 3/4 and 5/4 of the preset's: no data set of the suites publishes its quartiles, so this is ours."""


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes
    ----------
    name : e.g. "batch x2". ``kind`` : batch, length, precision, attention or variant.
    options : what it sets of a `Request`.
    refit : whether quantities are counted at several batches again. A change of the batch alone moves along the line
        that the record was fitted with; where that line is exact it is kept.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    refit: bool = True


@dataclass(frozen=True)
class Plan:
    """Changes of a task, in the order they are made, and those that it does not have, each with its reason."""

    changes: tuple[Change, ...]
    skipped: Mapping[str, str]


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


def plan(task: Task, info: record.PassInfo, variant: str | None, most: int) -> Plan:
    """Changes of a task whose operators were counted as ``info`` says, the first ``most`` of them.

    One of each kind comes before the second of any, so that a bound cuts all kinds alike.
    """
    settings = dict(info.settings)
    by_kind = {
        "batch": _batches(info),
        "precision": _precision(info),
        "length": _lengths(task, settings),
        "variant": _variants(task, variant),
        "attention": _attention(settings),
    }
    skipped = {kind: found for kind, found in by_kind.items() if isinstance(found, str)}
    skipped["ids"] = (
        "another law of the ids changes no operator, shape or byte count on fake tensors, which know no values"
        if "zipf" in settings
        else "the task has no sparse tables"
    )
    groups = [found for found in by_kind.values() if not isinstance(found, str)]
    turns = range(max(map(len, groups), default=0))
    order = [group[turn] for turn in turns for group in groups if turn < len(group)]
    skipped |= {change.name: f"beyond the {most} changes asked for" for change in order[most:]}
    return Plan(tuple(order[:most]), skipped)


def _batches(info: record.PassInfo) -> list[Change] | str:
    batch = info.batch_size
    if not batch:
        return "the record does not tell its batch size"
    found = [Change("batch x2", "batch", {"batch_size": 2 * batch}, refit=False)]
    if batch >= 2:
        found.append(Change("batch x1/2", "batch", {"batch_size": batch // 2}, refit=False))
    return found


def _precision(info: record.PassInfo) -> list[Change] | str:
    other = {"fp32": "bf16", "bf16": "fp32"}.get(info.precision or "")
    return [Change(other, "precision", {"precision": other})] if other else "the record does not tell its precision"


def _lengths(task: Task, settings: Mapping[str, Any]) -> list[Change] | str:
    if task.length is None:
        return "the task has no sequence"
    own = settings.get(task.length)
    if not isinstance(own, int) or own < 4:
        return f"its length is {own}, too short to change"
    parts = [(f"length x{share:g}", max(1, round(share * own))) for share in (SHORTER, LONGER)]
    return [Change(name, "length", {"sequence_length": length}) for name, length in parts]


def _variants(task: Task, variant: str | None) -> list[Change] | str:
    others: list[str | None] = [name for name in (None, *task.variants) if name != variant]
    found = [Change(f"variant {name or 'of the suite'}", "variant", {"variant": name}) for name in others]
    return found or "no other model goes under this task's name"


def _attention(settings: Mapping[str, Any]) -> list[Change] | str:
    other = {"sdpa": "eager", "eager": "sdpa"}.get(str(settings.get("attention")))
    if other is None:
        return "the task has no attention that could be written in another way"
    return [Change(f"attention {other}", "attention", {"overrides": {"attention": other}})]


# --- one job ----------------------------------------------------------------------------------------------------------


def run_job(job: Job) -> JobDone:
    """Derive all parts of a job that are not there yet; a change that fails is told and costs no other."""
    folder = Path(job.into)
    evaluate: Callable[..., Mapping[str, pd.DataFrame]] = load_target(job.evaluate)
    made = kept = 0
    failed: dict[str, str] = {}
    profile = record.load(job.run)
    base = _stored(folder, BASE)
    if base is None:
        base = dict(evaluate(profile, job.workload, {**job.options, "whole": True}))
        if job.part == 0:
            _store(folder, BASE, base)
            made += 1
    else:
        kept += job.part == 0
    found = _plan_of(profile, job)
    _note(folder / "plan.json", {"changes": [[c.name, c.kind] for c in found.changes], "skipped": dict(found.skipped)})
    for change in found.changes[job.part :: job.parts]:
        state = _changed(change, job, profile, base, evaluate)
        made, kept = made + (state == "made"), kept + (state == "kept")
        if state not in ("made", "kept"):
            failed[change.name] = state
    return JobDone(job.workload, made, kept, failed)


def _plan_of(profile: record.Profile, job: Job) -> Plan:
    info = profile.manifest.passes.get("operators")
    name = profile.manifest.task
    if job.changes < 1 and job.footprint < 1:
        return Plan((), {"all": "no changes were asked for"})
    if info is None or (name not in catalog.TASKS and ":" not in name) or profile.manifest.source is not None:
        return Plan((), {"all": "only tasks that wcbench can run again can be changed"})
    from wcbench.tasks.load import load_task

    task = load_task(name)
    found = plan(task, _as_asked(profile, task, info), profile.manifest.variant, job.changes)
    equal = _equal_footprint(profile, job.footprint) if job.footprint else "no equal footprint was asked for"
    if isinstance(equal, str):
        return Plan(found.changes, {**found.skipped, FOOTPRINT: equal})
    return Plan((*found.changes, equal), found.skipped)


def _equal_footprint(profile: record.Profile, wanted: int) -> Change | str:
    """The batch whose step comes nearest to a peak of live bytes, by the record's fit."""
    if "scaling" not in profile.tables:
        return "the record has no fit over batch sizes"
    rows = profile.table("scaling")
    peak = rows[(rows["phase"] == "all") & (rows["quantity"] == "live_peak_bytes") & rows["recorded"]]
    info = profile.manifest.passes["operators"]
    if peak.empty or not info.samples or not info.batch_size:
        return "the record does not tell how its footprint grows with the batch"
    longest = peak[peak["length"].isna() | (peak["length"] == peak["length"].max())]
    row = longest.loc[(longest["fixed"] + longest["per_sample"]).idxmax()]
    if not row["per_sample"] > 0:
        return "its footprint does not grow with the batch"
    samples = (wanted - float(row["fixed"])) / float(row["per_sample"])
    batch = max(1, round(samples * info.batch_size / info.samples))
    return Change(FOOTPRINT, "footprint", {"batch_size": batch}, refit=False)


def _changed(
    change: Change,
    job: Job,
    profile: record.Profile,
    base: Mapping[str, pd.DataFrame],
    evaluate: Callable[..., Mapping[str, pd.DataFrame]],
) -> str:
    """ "made" or "kept", or why the change failed; failures are kept too, since they would come again."""
    folder, name = Path(job.into), _slug(change.name)
    if _stored(folder, name) is not None:
        return "kept"
    failure = folder / f"{name}.failed.json"
    if failure.is_file():
        return str(json.loads(failure.read_text(encoding="utf-8"))["reason"])
    try:
        refit = change.refit or not _exact(profile, job.options)
        frames = dict(evaluate(_captured(profile, change, scaling=refit), job.workload, job.options))
        if not refit:
            frames["values"] = _with_base_fit(frames["values"], base["values"])
    except WcbenchError as error:
        _note(failure, {"reason": error.message})
        return error.message
    _store(folder, name, frames)
    return "made"


def _captured(profile: record.Profile, change: Change, *, scaling: bool) -> record.Profile:
    """The changed task, counted anew."""
    from wcbench.profilers.capture import capture
    from wcbench.profilers.request import Request
    from wcbench.tasks.load import load_task

    manifest = profile.manifest
    info = manifest.passes["operators"]
    task = load_task(manifest.task)
    info = _as_asked(profile, task, info)
    asked: dict[str, Any] = {
        "passes": ("operators",),
        "preset": info.preset,
        "variant": manifest.variant,
        "batch_size": info.batch_size,
        "precision": info.precision or "fp32",
        "overrides": _overrides(task, info) | dict(change.options.get("overrides", {})),
        "seed": info.seed or 0,
        "mode": info.mode,
        "scaling": scaling,
        **{name: value for name, value in change.options.items() if name != "overrides"},
    }
    captured = capture(task, Request(**asked))
    if captured.passes["operators"].preset != info.preset:
        raise TaskError(f"{change.name}: the task does not run on fake tensors when so changed.")
    return record.new_profile(
        task=manifest.task,
        variant=asked["variant"],
        suites=manifest.suites,
        machine=manifest.machine,
        command=("wcbench study",),
        passes=captured.passes,
        tables=captured.tables,
        notes=captured.notes,
    )


def counted_settings(task: Task, preset: str) -> dict[str, Any]:
    """Settings as a record of a preset's operators has them: where the recurrence is unrolled, the length is short."""
    found = _plain(vars(task.presets[preset]))
    if task.length is not None and task.unrolled and found[task.length] > max(task.unrolled):
        found[task.length] = max(task.unrolled)
    return found


def _as_asked(profile: record.Profile, task: Task, info: record.PassInfo) -> record.PassInfo:
    """How the operators were asked for: a stream that was counted at a short length stands for its longer one."""
    if task.length is None or "scaling" not in profile.tables:
        return info
    rows = profile.table("scaling")
    if rows["recorded"].all() or rows["length"].isna().all():
        return info
    return dataclasses.replace(info, settings={**info.settings, task.length: int(rows["length"].max())})


def _overrides(task: Task, info: record.PassInfo) -> dict[str, str]:
    """Settings of the record that are not the preset's own."""
    preset = task.presets.get(info.preset or "")
    own = {} if preset is None else _plain(vars(preset))
    given = {name: value for name, value in info.settings.items() if name != "batch_size" and own.get(name) != value}
    return {name: ",".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for name, v in given.items()}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(settings), default=str))
    return found


def _exact(profile: record.Profile, options: Mapping[str, Any]) -> bool:
    """Whether a step's sums lie on their lines over the batch to the last digit, at the preset's own length.

    The peak of live bytes often does not; it counts only where a feature is asked for that needs its line.
    """
    if "scaling" not in profile.tables:
        return False
    rows = profile.table("scaling")
    rows = rows[rows["phase"] == "all"]
    if not _PEAK_FEATURES & set(options.get("features", ())):
        rows = rows[rows["quantity"] != "live_peak_bytes"]
    return bool((rows["error"] == 0).all() and rows["recorded"].all())


def _with_base_fit(changed: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Values that only the fit gives are the record's own: a batch on the line leaves the line where it is."""
    known = base.set_index("feature")["value"]
    lacks = changed["value"].isna() & changed["reason"].str.contains("no fit over batch sizes", regex=False)
    found = changed.copy()
    found.loc[lacks, "value"] = found.loc[lacks, "feature"].map(known)
    found.loc[lacks, "remark"] = "the record's own fit over batch sizes, which is exact"
    found.loc[lacks & found["value"].notna(), "reason"] = ""
    return found


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

    The longest go first. Of a job that was shared out, each part is told and given back.
    """
    if at_a_time <= 1:
        found = []
        for job in jobs:
            found.append(_safely(job))
            if told is not None:
                told(found[-1], len(found), len(jobs))
        return found
    return list(_side_by_side(_shared_out(jobs, at_a_time), at_a_time, told))


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


def _side_by_side(jobs: Sequence[Job], at_a_time: int, told: Told | None) -> Iterator[JobDone]:
    from wcbench.profilers.suite import _Children

    children = _Children()
    lock, done = threading.Lock(), [0]

    def run(job: Job) -> JobDone:
        text = json.dumps(dataclasses.asdict(job))
        command = [sys.executable, "-m", "wcbench.profilers.changes", text]
        ended = children.run(command, {**os.environ, "OMP_NUM_THREADS": "1"})
        found = _read_answer(job, ended.returncode, ended.stdout, ended.stderr)
        with lock:
            done[0] += 1
            if told is not None and not children.ended:
                told(found, done[0], len(jobs))
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
