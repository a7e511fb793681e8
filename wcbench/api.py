"""The verbs: what the command line and notebooks call, and nothing they do beside it.

Importing this module loads neither torch nor pandas; each verb imports what it needs.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench import record
from wcbench.errors import RecordError, UsageError, WcbenchError
from wcbench.files import HeldFolder
from wcbench.lookup import find_run, list_runs, run_folder, runs_root
from wcbench.record import Profile
from wcbench.tasks import catalog

if TYPE_CHECKING:
    from wcbench.analysis.diff import Diff
    from wcbench.analysis.placement import Placement
    from wcbench.analysis.study import Study
    from wcbench.analysis.sweep import Point, Sweep
    from wcbench.profilers.doctor import Check
    from wcbench.profilers.request import Progress
    from wcbench.profilers.suite import TaskRun
    from wcbench.reports.document import Made
    from wcbench.tasks.base import Task


def tasks() -> list[catalog.TaskRow]:
    """The catalogue's tasks, in its order."""
    return [row for row in catalog.TASKS if isinstance(row, catalog.TaskRow)]


def profile(
    task: str | Task | type[Task],
    *,
    device: str = "auto",
    passes: Sequence[str] | None = None,
    preset: str | None = None,
    batch_size: int | None = None,
    precision: str = "fp32",
    mode: str = "train",
    sequence_length: int | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    threads: int | None = None,
    steps: int | None = None,
    warmup: int | None = None,
    data_in_step: bool = False,
    scaling: bool = True,
    runs: str | Path | None = None,
    out: str | Path | None = None,
    save: bool = True,
    force: bool = False,
    progress: Progress | None = None,
    command: Sequence[str] | None = None,
) -> Profile:
    """Profile a training task and, unless told not to, save the record.

    Parameters
    ----------
    task : a catalogue name or alias, ``task@variant``, ``module:Class``, or a Task (object or class) of your own.
    device : "cpu", "cuda", "cuda:1", or "auto" for a GPU where torch finds one.
    passes : names of passes (`wcbench profile --help`); None runs all that make sense on the device.
    preset : "paper", "small" or "tiny" for every pass; None records operators at "paper" and runs the rest at "small"
        on a CPU and at "paper" on a GPU.
    batch_size : samples per step instead of the preset's.
    precision : "fp32", or "bf16" by autocast.
    mode : "train" for whole training steps, "inference" for the forward pass alone in evaluation mode.
    sequence_length : length of the task's sequence instead of the preset's.
    settings : further settings of the task by name, as texts or values.
    seed : of weights and batches; equal seeds give equal batches and losses.
    threads : intra-op threads of torch during the capture.
    steps, warmup : how many steps to measure and to drop before, instead of each pass's own numbers.
    data_in_step : whether making the batch counts as part of the step.
    scaling : whether operators are also counted at twice and four times the batch, to split what a step does into a
        fixed and a per-sample part.
    runs, out : the folder of all runs, or the very folder to write; an existing one is kept unless ``force``.
    save : False keeps the record in memory only.
    progress : called as ``progress(pass, steps done, steps in all)``.
    command : how the record says it was made.

    Returns
    -------
    Profile : the record; shows itself in Jupyter, `.view("hotspots")` derives results, `.table("kernels")` is raw data.

    Raises
    ------
    UsageError, TaskError, CaptureError, RecordError : see `wcbench.errors`; nothing is written then.
    """
    if isinstance(task, str):
        catalog.check_name(catalog.split_variant(task)[0])  # before torch is loaded, which takes seconds
    from wcbench.machine import describe
    from wcbench.profilers.capture import capture
    from wcbench.profilers.request import Request, silent

    name, variant, found = _resolve(task)
    request = Request(
        device=_device(device),
        passes=passes,
        preset=preset,
        variant=variant,
        batch_size=batch_size,
        precision=precision,
        overrides={key: _as_text(value) for key, value in (settings or {}).items()},
        seed=seed,
        threads=threads,
        steps=steps,
        warmup=warmup,
        data_in_step=data_in_step,
        mode=mode,
        sequence_length=sequence_length,
        scaling=scaling,
    )
    if save:
        record.check_place(Path(out) if out is not None else runs_root(runs) / "new", force=force)
    captured = capture(found, request, progress or silent)
    made = record.new_profile(
        task=name,
        variant=variant,
        suites=catalog.suites_of(name),
        machine=describe(),
        command=command or (f"wcbench.profile({name!r}, ...)",),
        passes=captured.passes,
        tables=captured.tables,
        notes=captured.notes,
    )
    if not save:
        return made
    folder = Path(out) if out is not None else run_folder(runs_root(runs), made.manifest)
    return made.save(folder, force=force)


def profile_suite(
    suite: str,
    *,
    jobs: int | None = None,
    told: Callable[[TaskRun, int, int], None] | None = None,
    **options: Any,
) -> list[TaskRun]:
    """Profile every task of a suite, each in a process of its own, and give what came of each.

    Parameters
    ----------
    suite : id of a suite, e.g. "aibench-training-v1.1".
    jobs : tasks at a time; None is one a core where nothing is timed (the pass operators alone), else one.
    told : called as ``told(run, tasks done, tasks in all)`` when a task ends; a failed one has an ``error``.
    options : as `profile` takes them, except ``task``, ``out``, ``save``, ``progress`` and ``command``.

    Raises
    ------
    UnknownNameError : there is no such suite. A task that fails raises nothing: see its ``error``.
    """
    from wcbench.machine import cpu
    from wcbench.profilers.suite import profile_tasks
    from wcbench.suites import load_suite

    tasks = load_suite(suite).tasks
    if jobs is None:
        timed = list(options.get("passes") or ()) != ["operators"]
        jobs = 1 if timed else cpu()["usable_cores"] or 1
    if jobs < 1:
        raise UsageError(f"--jobs {jobs} is refused.", "Give a whole number from 1 up.")
    record.check_place(runs_root(options.get("runs")) / "new", force=bool(options.get("force")))
    return profile_tasks(tasks, options, jobs=jobs, told=told)


def sweep(
    task: str | Task | type[Task],
    *,
    batch_size: Sequence[int] | None = None,
    sequence_length: Sequence[int] | None = None,
    precision: Sequence[str] = ("fp32",),
    told: Callable[[Point, int, int], None] | None = None,
    **options: Any,
) -> Sweep:
    """Profile a task at every combination of these knobs; each point is a record as `profile` makes it.

    Parameters
    ----------
    batch_size, sequence_length : values of the knob; None leaves the preset's own.
    precision : "fp32", "bf16" or both.
    told : called as ``told(point, points done, points in all)``.
    options : further ones as `profile` takes them.

    Returns
    -------
    Sweep : ``to_frame`` has a row a point; a point that failed has its error and costs no other.

    Raises
    ------
    WcbenchError : every point failed; the first one's error.
    """
    from wcbench.analysis.sweep import Point, Sweep

    points: list[Point] = []  # each is a record of its own, so that what was made stays when a later one fails
    refused: WcbenchError | None = None
    own: list[int | None] = [None]
    knobs = list(itertools.product(batch_size or own, sequence_length or own, precision))
    for batch, length, kind in knobs:
        chosen: dict[str, Any] = {"batch_size": batch, "sequence_length": length, "precision": kind}
        try:
            points.append(Point(**chosen, profile=profile(task, **chosen, **options)))
        except WcbenchError as error:
            refused = refused or error
            points.append(Point(**chosen, profile=None, error=error.message))
        if told is not None:
            told(points[-1], len(points), len(knobs))
    if refused is not None and all(point.profile is None for point in points):
        raise refused
    return Sweep(tuple(points))


def sweep_page(made: Sweep, out: str | Path | None = None) -> Path:
    """Write a sweep's curves as one HTML file and return its path; by default beside its records.

    Raises UsageError where no point has a saved record and no file is named.
    """
    from wcbench.reports.build import of_sweep

    return of_sweep(made).save(out, force=True)


def read(
    files: str | Path | Sequence[str | Path],
    *,
    form: str | None = None,
    name: str | None = None,
    jobs: int | None = None,
    runs: str | Path | None = None,
    out: str | Path | None = None,
    save: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
    command: Sequence[str] | None = None,
) -> Profile:
    """Read files of other profilers as one record: traces, counters, execution traces, training logs.

    Parameters
    ----------
    files : a file, a folder (of ranks, say), an archive, or several of them. Each file's format is told by its content.
    form : the name of the format (docs/formats.md) instead.
    name : name of the record; None takes the first file's.
    jobs : processes that read several files side by side; None is one a core.
    runs, out, save, force : as in `profile`; ``out`` saves too. Without them the record is in hand only.
    progress : called as ``progress(bytes read, bytes in all)``.

    Returns
    -------
    Profile : as of a live capture, with ``manifest.source`` (the files) and ``manifest.losses`` (what of them is not in
        it, and why); ranks are the column ``rank``.

    Raises
    ------
    ReadError : nothing could be read; says what the file is instead, where, and what to do.
    UsageError : no such format or file; RecordError : the record cannot be written. Nothing is left behind then.
    """
    from wcbench.profilers.readers.gather import gather
    from wcbench.profilers.readers.record import to_profile

    paths = [Path(f) for f in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise UsageError("There is no file to read.", "Name a file or a folder.")
    if name is not None and not _is_name(name):
        raise UsageError(f"{name[:120]!r} is no name for a record.", "Take letters, digits, dots and dashes.")
    target = Path(out) if out is not None else None
    if save or target is not None:
        record.check_place(target or runs_root(runs) / "new", force=force)
    held = HeldFolder(".wcbench-import-", _staging(save, target, runs))
    try:
        gathered = gather(paths, held.path, form=form, jobs=jobs, progress=progress)
        made = to_profile(gathered, name or _name_of(paths[0]), command or ("wcbench.read(...)",), held)
        if not save and target is None:
            return made
        return made.save(target or run_folder(runs_root(runs), made.manifest), force=force)
    except BaseException:
        held.remove()
        raise


def _staging(save: bool, target: Path | None, runs: str | Path | None) -> Path | None:
    """Where an import stages its tables: on the disk of the record's place where it stands, to be moved at no cost."""
    root = target.parent if target is not None else runs_root(runs) if save else None
    return root if root is not None and root.is_dir() else None


def _name_of(path: Path) -> str:
    """A record's name from a file's: without what only tells its format."""
    stem = re.sub(r"(?:\.(?:gz|json|csv|txt|sqlite|pb|xplane|pt|trace|tar|tgz|zip|et|db))+$", "", path.resolve().name)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip(".-")[:80] or "import"


def study(
    runs: Sequence[str | Path | Profile] = (),
    *,
    suites: Sequence[str] = (),
    against: str | None = None,
    also: Sequence[str] | None = None,
    features: str | Sequence[str] = "operators",
    table: str | Path | None = None,
    recipe: str = "wcbench",
    mix: bool = False,
    radius: float | None = None,
    changes: int | None = 4,
    require_metric: bool = False,
    max_variation: float | None = None,
    population: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    root: str | Path | None = None,
    seed: int = 0,
    force: bool = False,
    told: Callable[[str, int, int, str], None] | None = None,
    command: Sequence[str] | None = None,
) -> Study:
    """The provably minimal subset of workloads, and how a suite compares with another (docs/study.md).

    Parameters
    ----------
    runs : records, or what `load` takes. Or ``suites`` : ids of suites, whose tasks are profiled where no record of
        their operators at preset paper is there. Or ``table`` : a CSV of workloads x metrics with its units.
    against : id of the suite to compare with; of a table, a word of its column suite.
    also : further suites that both are compared with; None takes the current MLPerf where ``against`` is an older one.
    features : a set ("operators", "gpu", "training", "core", "aibench5", "all") or names.
    recipe : "aibench2021" sets the paper's own way beside ours. ``mix`` : let presets, devices and precisions mix.
    radius : in place of r*, which is the distance of a workload to itself under ``changes`` (at most so many a
        workload, one of each kind first; None: all, 0: none).
    require_metric, max_variation : conditions on members of the subset, as AIBench's RPR subset has them: a target on a
        metric, and a run-to-run variation of at most this fraction, as the suite's file tells them.
    population : a CSV of items with weights, for the share of them within r* of each suite.
    out : folder of the study: finished parts are kept there, and a study that was stopped goes on. None keeps nothing.
        A finished study of other workloads there is kept unless ``force``.
    jobs : tasks at a time, each in a process of its own; None is one a core. ``root`` : folder of all records.
    told : called as ``told(stage, done, total, text)``.

    Raises
    ------
    UsageError, ReadError, RecordError : see `wcbench.errors`. A task that fails is left out, and named in the result.
    """
    from wcbench.analysis.study import Settings
    from wcbench.analysis.study_run import ALL, Asked, Capture, default_also, run, run_table
    from wcbench.profilers.study_capture import StudyTasks

    settings = Settings(
        radius=radius, recipe=recipe, require_metric=require_metric, max_variation=max_variation, seed=seed
    )
    folder, command = None if out is None else Path(out), command or ("wcbench.study(...)",)
    people = None if population is None else Path(population)
    if table is not None:
        if runs or suites:
            raise UsageError("A study is of a table, of records or of suites.", "Give one of the three.")
        return run_table(
            Path(table),
            against,
            settings,
            population=people,
            out=folder,
            command=command,
            force=force,
        )
    asked = Asked(
        runs=[entry if isinstance(entry, Profile) else load(entry, runs=root) for entry in runs],
        suites=tuple(suites),
        against=against,
        also=default_also(suites, against) if also is None else tuple(also),
        features=(features,) if isinstance(features, str) else tuple(features),
        population=people,
        mix=mix,
        changes=ALL if changes is None else changes,
        settings=settings,
        out=folder,
        root=runs_root(root),
        command=command,
        force=force,
    )
    tasks = StudyTasks(jobs, asked.root)
    return run(asked, Capture(tasks.settings, tasks.profile, tasks.derive), told)


def _resolve(task: Any) -> tuple[str, str | None, Task]:
    """Name, variant and object of what was asked for."""
    from wcbench.tasks.base import Task
    from wcbench.tasks.load import load_task

    if isinstance(task, str):
        base, variant = catalog.split_variant(task)
        return catalog.canonical(base), variant, load_task(base)

    found = task() if isinstance(task, type) else task
    if not isinstance(found, Task):
        raise UsageError(
            f"{task!r} is no task.", "Give a name of `wcbench list`, module:Class, or a subclass of wcbench.Task."
        )
    return f"{type(found).__module__}:{type(found).__qualname__}", None, found


def _device(device: str) -> str:
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def load(run: str | Path, *, runs: str | Path | None = None) -> Profile:
    """The record that ``run`` names: a folder, ``task``, ``task:latest`` or ``task:<start of its id>``.

    Raises UsageError where there is none, RecordError where it cannot be read.
    """
    text = str(run)
    if not os.path.exists(text):  # Path.exists raises on a name that is too long
        head, colon, which = text.partition(":")
        base, variant = catalog.split_variant(head)
        text = record.run_name(catalog.canonical(base), variant) + colon + which
    return record.load(find_run(text, runs_root(runs)))


def runs(root: str | Path | None = None, *, unreadable: Callable[[RecordError], None] | None = None) -> list[Profile]:
    """All records under a root, oldest first within each task.

    Those that cannot be read are left out; ``unreadable`` is told of each, or a warning is given without it.
    """
    found = []
    for folder in list_runs(runs_root(root)):
        try:
            found.append(record.load(folder))
        except RecordError as error:
            if unreadable is None:
                warnings.warn(error.message, stacklevel=2)
            else:
                unreadable(error)
    return found


def _is_name(name: str) -> bool:
    """Whether a folder can be called so, and be found again: it is printable, hidden nowhere and leads nowhere else."""
    plain = name == name.strip() and name.isprintable() and not set(name) & set('/\\<>"|?*')
    return plain and not name.startswith(".") and 0 < len(name) <= 120


def summary(
    run: Profile | str | Path, *, redact: bool = False, on: str | None = None, runs: str | Path | None = None
) -> dict[str, Any]:
    """All results of a record as one plain object (docs/json.md).

    ``run`` : a record, or what `load` takes. ``redact`` hides home paths, user and host names; ``on`` names the device
    of the roofline (wcbench/devices.toml) where it is not the record's own GPU.
    """
    from wcbench.redaction import redact_tree

    found = run if isinstance(run, Profile) else load(run, runs=runs)
    result: dict[str, Any] = found.view("summary", on=on)
    if redact:
        result = redact_tree(result, result["machine"].get("identity") or {})
    return result


def diff(
    a: Profile | str | Path, b: Profile | str | Path, *, runs: str | Path | None = None, on: str | None = None
) -> Diff:
    """Compare two records: conditions, time of a step, where the difference lies, work and memory (docs/diff.md).

    Parameters
    ----------
    a, b : records in hand, or what `load` takes; ratios are B / A, differences B - A.
    on : device of the rooflines where it is not the records' own GPU.

    Raises
    ------
    UsageError : there is no such record, or the two have nothing in common.
    """
    from wcbench.analysis.diff import diff as compared

    first, second = (run if isinstance(run, Profile) else load(run, runs=runs) for run in (a, b))
    return compared(first, second, on)


def report(
    what: Profile | Study | str | Path,
    out: str | Path | None = None,
    *,
    against: Profile | str | Path | None = None,
    pdf: bool = False,
    paper: str = "a4",
    runs: str | Path | None = None,
    redact: bool = True,
    anonymize: bool = False,
    on: str | None = None,
    force: bool = False,
) -> Path:
    """Write the report of a record, of two compared, or of a study as one self-contained file, and return its path.

    Parameters
    ----------
    what : a record or a study in hand, the folder of a study, or what `load` takes.
    out : the file; None puts ``report.html`` into the record's or study's folder. An existing one is kept unless
        ``force``.
    against : a second record, to compare the first one with.
    pdf : write a tagged PDF instead of HTML (as a name that ends in .pdf does), on ``paper`` "a4" or "letter".
    redact : hide home paths, user and host names (on by default: reports are shared).
    anonymize : hide names of kernels, modules, files and of operators that are not of a public library, too.
    on : device of the roofline where it is not the record's own GPU, e.g. "h100-sxm".

    Raises
    ------
    UsageError : there is no such record or study, or no folder for the file. RecordError : the file exists.
    """
    made = make_report(what, against=against, runs=runs, redact=redact, anonymize=anonymize, on=on)
    return made.save(out, pdf=pdf, paper=paper, force=force)


def make_report(
    what: Profile | Study | str | Path,
    *,
    against: Profile | str | Path | None = None,
    runs: str | Path | None = None,
    redact: bool = True,
    anonymize: bool = False,
    on: str | None = None,
) -> Made:
    """The report itself, not yet written: `to_dict` gives all of its numbers unrounded; options as in `report`."""
    from wcbench.analysis.study import Study, load_study
    from wcbench.reports import build

    folder = Path(what) if isinstance(what, str | Path) and os.path.isfile(os.path.join(what, "study.json")) else None
    study_ = load_study(folder) if folder is not None else what
    if isinstance(study_, Study):
        if against is not None:
            raise UsageError("Two studies are not compared.", "Name records, or use `wcbench study --against`.")
        return build.of_study(study_, folder, redact=redact, anonymize=anonymize)
    first = study_ if isinstance(study_, Profile) else load(study_, runs=runs)
    if against is None:
        return build.of_profile(first, redact=redact, anonymize=anonymize, on=on)
    second = against if isinstance(against, Profile) else load(against, runs=runs)
    return build.of_two(diff(first, second, on=on), (first, second), redact=redact, anonymize=anonymize)


def export(
    run: Profile | str | Path,
    out: str | Path | None = None,
    *,
    table: str | None = None,
    form: str = "csv",
    runs: str | Path | None = None,
    redact: bool = True,
    anonymize: bool = False,
    force: bool = False,
    note: Callable[[str], None] | None = None,
) -> Path:
    """Write a table of a record, or its operators in PyProf's columns, as one file, and return its path.

    Parameters
    ----------
    run : a record in hand, or what `load` takes.
    out : the file; None puts it into ``export/`` in the record's folder. An existing one is kept unless ``force``.
    table : the table (docs/record.md); ``form`` "pyprof" needs none.
    form : "csv", "parquet" or "pyprof".
    redact : hide home paths, user and host names (on by default: exports are shared).
    anonymize : hide names of kernels, modules, files and of operators that are not of a public library, too.
    note : is told what is missing in the file and why; a warning is given without it.
    """
    from wcbench.analysis.export import export as write

    found = run if isinstance(run, Profile) else load(run, runs=runs)
    target = None if out is None else Path(out)
    done = write(found, target, table=table, form=form, redacted=redact, anonymize=anonymize, force=force)
    if done.note is not None:
        if note is None:
            warnings.warn(done.note, stacklevel=2)
        else:
            note(done.note)
    return done.path


def place(
    run: Profile | str | Path,
    space: str | Path | None = None,
    *,
    runs: str | Path | None = None,
    mix: bool = False,
) -> Placement:
    """Place a record with an operators pass in a frozen reference space.

    Parameters
    ----------
    run : a record in hand, or what `load` takes.
    space : a reference's file, its id, or the folder of a study; None takes the one that comes with wcbench.
    mix : let its origin, preset, device and precision differ from the reference's.

    Returns
    -------
    Placement : nearest tasks, whether one lies within r*, which features set it apart, and what was not compared.

    Raises
    ------
    UsageError : there is no such record or space, they mix, or the record has no feature of the space.
    """
    from wcbench.analysis.place import place as placed
    from wcbench.analysis.reference import load_reference

    reference = load_reference(space)
    return placed(run if isinstance(run, Profile) else load(run, runs=runs), reference, mix=mix)


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found, check by check."""

    checks: Sequence[Check]

    def to_dict(self) -> dict[str, Any]:
        return {"schema": "wcbench.doctor/1", "checks": [dataclasses.asdict(check) for check in self.checks]}


def doctor(runs: str | Path | None = None) -> Diagnosis:
    """Look at what can be measured here, and say what is missing and what to do about it."""
    from wcbench.profilers.doctor import examine

    return Diagnosis(tuple(examine(runs_root(runs))))
