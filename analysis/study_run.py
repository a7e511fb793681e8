"""A study from the start: find or make the records, derive their parts, work it out, keep everything.

What captures is handed in (`Capture`), since analysis does not reach into the profilers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wcbench import record
from wcbench.analysis.features import chosen
from wcbench.analysis.population import read_population
from wcbench.analysis.reference import IN_STUDY, Reference
from wcbench.analysis.study import RECIPES, Settings, Study, make_study
from wcbench.analysis.study_files import DOCUMENT, SCHEMA
from wcbench.analysis.study_inputs import Group, Inputs
from wcbench.analysis.study_parts import code_fingerprint, is_whole, read_parts
from wcbench.analysis.study_records import (
    RECORDS,
    Source,
    group_of,
    inputs_of,
    manifest_of,
    newest,
    settings_text,
    sources,
)
from wcbench.analysis.study_suites import known_of
from wcbench.analysis.study_table import table_inputs
from wcbench.errors import RecordError, UnknownNameError, UsageError, WcbenchError
from wcbench.files import HeldFolder
from wcbench.suites import load_suite

EVALUATE = "wcbench.analysis.study_rows:evaluate_record"
FOOTPRINT = 16 * 2**30
"""Peak of live bytes at which suites are compared once more: what a GPU of 2021 held."""

ALL = 10**6
MLPERF, CURRENT = "mlperf-training-", "mlperf-training-current"
Told = Callable[[str, int, int, str], None]
"""Called as ``told(stage, done, total, text)``."""


@dataclass(frozen=True)
class Capture:
    """What runs tasks.

    Attributes
    ----------
    settings : of a task's preset paper. ``profile`` : profiles tasks into the folder of all records; gives (task,
        folder or None, error) and tells each. ``derive`` : runs jobs given as `profilers.changes.Job` takes them; gives
        (workload, failed changes, error).
    """

    settings: Callable[[str], Mapping[str, Any]]
    profile: Callable[[Sequence[str], Told], Sequence[tuple[str, Path | None, str | None]]]
    derive: Callable[[Sequence[Mapping[str, Any]], Told], Sequence[tuple[str, Mapping[str, str], str | None]]]


@dataclass(frozen=True)
class Asked:
    """What a study is asked for; see `wcbench.study`."""

    runs: Sequence[record.Profile] = ()
    suites: Sequence[str] = ()
    against: str | None = None
    also: Sequence[str] = ()
    features: Sequence[str] = ("operators",)
    population: Path | None = None
    mix: bool = False
    changes: int = ALL
    settings: Settings = field(default_factory=Settings)
    out: Path | None = None
    root: Path = Path("runs")
    command: Sequence[str] = ()
    force: bool = False


@dataclass(frozen=True)
class _Found:
    """The workloads of a study with their records, by group, and who is left out and why."""

    studied: tuple[Source, ...]
    against: tuple[Source, ...]
    also: Mapping[str, tuple[Source, ...]]
    left_out: Mapping[str, str]
    made: tuple[str, ...]

    @property
    def every(self) -> dict[str, Source]:
        further = (one for group in self.also.values() for one in group)
        return {one.workload: one for one in (*self.studied, *self.against, *further)}


def check(asked: Asked) -> None:
    """Refuse what cannot work before anything is run."""
    chosen(list(asked.features))
    if asked.settings.recipe not in RECIPES:
        raise UnknownNameError("recipe", asked.settings.recipe, RECIPES)
    if bool(asked.runs) == bool(asked.suites):
        raise UsageError(
            "A study is of records or of suites.", "Name records, or --suite ID (`wcbench list --suite ID` shows one)."
        )
    for id in _ids(asked):
        load_suite(id)
    if asked.against in asked.suites:
        raise UsageError(f"Suite '{asked.against}' cannot be compared with itself.", "Name another with --against.")
    if asked.also and not asked.against:
        raise UsageError("A further suite takes one to compare with first.", "Name it with --against.")
    if twice := [id for id in asked.also if id in (*asked.suites, asked.against)]:
        raise UsageError(f"Suite '{twice[0]}' is compared already.", "Leave it out of --also.")
    if asked.suites:
        _check_conditions(asked)
    if asked.population is not None:
        read_population(asked.population)
    if asked.out is not None:
        check_folder(asked.out)


def _ids(asked: Asked) -> tuple[str, ...]:
    """All suites that are named."""
    return (*asked.suites, *([asked.against] if asked.against else []), *asked.also)


def _check_conditions(asked: Asked) -> None:
    """Refuse conditions on members that nobody meets; of records it is told once they are evaluated."""
    tasks = sorted({task for id in asked.suites for task in load_suite(id).tasks})
    conditions = known_of({task: task for task in tasks}).constraints(asked.settings, tasks)
    if not any(all(one.reason(task) is None for one in conditions) for task in tasks):
        told = "; ".join(f"{one.text}: met by {sum(one.reason(t) is None for t in tasks)}" for one in conditions)
        raise UsageError(f"No task of {' and '.join(asked.suites)} meets the conditions on members ({told}).",
                         "What the suite's file does not tell is not met; loosen a condition.")  # fmt: skip


def check_folder(out: Path) -> None:
    """Refuse a folder that holds something else than a study."""
    if out.is_dir() and any(out.iterdir()) and not ((out / "parts").is_dir() or (out / "study.json").is_file()):
        raise RecordError(f"{out} holds something else than a study, and is left as it is.", "Name another folder.")
    if out.exists() and not out.is_dir():
        raise RecordError(f"{out} is a file.", "Name a folder with --out.")


def keep_others(out: Path | None, studied: Group, against: str | None, *, force: bool) -> None:
    """Refuse to replace a finished study of other records, suites or another table, unless by force; one of the same
    is made anew."""
    there = None if out is None or force else _document_at(out)
    if there is None:
        return
    group, other = there["studied"], (there["against"] or {}).get("id")
    same = (group["id"], other) == (studied.id, against)
    if not same or (group["id"] == RECORDS and {*group["workloads"]} != {*studied.workloads}):
        raise RecordError(
            f"{out} holds another study: {there['title']}, of {len(group['workloads'])} workloads.",
            "Name another folder with --out, or replace it with --force.",
        )


def _document_at(folder: Path) -> Mapping[str, Any] | None:
    """The document of a finished study; None where there is none that can be read."""
    try:
        found: Mapping[str, Any] = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA else None


def default_also(suites: Sequence[str], against: str | None) -> tuple[str, ...]:
    """The current MLPerf where suites are compared with an older one: what held against that may not hold today."""
    older = against is not None and against.startswith(MLPERF) and against != CURRENT
    return (CURRENT,) if older and suites and CURRENT not in suites else ()


def run_table(
    file: Path,
    against: str | None,
    settings: Settings,
    *,
    population: Path | None = None,
    out: Path | None = None,
    command: Sequence[str] = (),
    force: bool = False,
) -> Study:
    """The study of a table of somebody's own; raises UsageError for conditions that a plain table cannot tell."""
    if settings.require_metric or settings.max_variation is not None:
        raise UsageError("A plain table does not tell of metrics and variation.", "Leave out the rows instead.")
    if out is not None:
        check_folder(out)
    people = None if population is None else read_population(population)
    inputs = table_inputs(file, against)
    keep_others(out, inputs.studied, against, force=force)
    made = {**_made(command), **inputs.provenance}
    found = make_study(replace(inputs, population=people, provenance=made), settings)
    if out is not None:
        found.save(out)
    return found


def run(asked: Asked, capture: Capture, told: Told | None = None) -> Study:
    """Make the study, and write it where a folder is named.

    Raises UsageError for a wrong request, WcbenchError where no record can be had.
    """
    tell = told or (lambda stage, done, total, text: None)
    check(asked)
    held = None if asked.out is not None else HeldFolder(".wcbench-study-")
    folder = asked.out or (held.path if held else Path())
    try:
        found = _records(asked, capture, tell)
        keep_others(asked.out, _group(asked, found.studied), asked.against, force=asked.force)
        inputs = _inputs(asked, found, folder, capture, tell)
        study = make_study(inputs, asked.settings, lambda text: tell("study", 0, 0, text))
    finally:
        if held is not None:
            held.remove()
    if asked.out is not None:
        study.save(asked.out)
        freeze(study, asked.out)
    return study


def freeze(study: Study, folder: Path) -> Path | None:
    """Write the study's space as a reference in which further records are placed; None where it is of no records."""
    parts = study.parts
    if parts is None:
        return None
    radius, inputs = parts.radius, parts.inputs
    if inputs.rows is None:
        return None
    star = radius.star
    known = radius.value if radius.how == "given" else None if star is None else star.value
    reference = Reference(
        id=f"study of {study.document['title']}",
        recipe=parts.space.recipe,
        rows=inputs.rows,
        radius=known,
        radius_of=radius.reason,
        suites=dict(inputs.table.suites),
        made={"wcbench": str(inputs.provenance["wcbench"]), "command": " ".join(inputs.provenance["command"])},
    )
    return reference.save(folder / IN_STUDY, force=True)


def _records(asked: Asked, capture: Capture, tell: Told) -> _Found:
    """The records named, and of suites the newest that fits, made where there is none."""
    wanted = {id: load_suite(id).tasks for id in _ids(asked)}
    tasks = list(dict.fromkeys(task for group in wanted.values() for task in group))
    own = {one.workload: one for one in sources(asked.runs)}
    paths: dict[str, Path] = {one.task: one.path for one in own.values() if one.workload == one.task}
    missing = []
    for task in (task for task in tasks if task not in paths):
        path = newest(asked.root, task, settings_text(capture.settings(task)))
        if path is None:
            missing.append(task)
        else:
            paths[task] = path
    left_out = {}
    for task, folder, error in capture.profile(missing, tell) if missing else ():
        if folder is None:
            left_out[task] = error or "it could not be profiled"
        else:
            paths[task] = folder
    there = {id: {task for task in group if task in paths} for id, group in wanted.items()}
    ours = {task for id in asked.suites for task in there[id]}
    theirs = there.get(asked.against or "", set())
    named = {task: Source(task, task, paths[task]) for group in there.values() for task in group} | own
    studied = own if asked.runs else {task: named[task] for task in ours}
    if not studied:
        raise WcbenchError("No task could be profiled.", "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    if asked.against and not theirs:
        raise WcbenchError(f"No task of {asked.against} could be profiled.", "; ".join(left_out.values()))
    also = {id: tuple(named[task] for task in sorted(there[id])) for id in asked.also}
    return _Found(tuple(studied.values()), tuple(named[t] for t in sorted(theirs)), also, left_out, tuple(missing))


def _inputs(asked: Asked, found: _Found, folder: Path, capture: Capture, tell: Told) -> Inputs:
    """Derive what is not there yet, and read all of it."""
    code = code_fingerprint()
    key = "+".join(sorted(asked.features))
    places = {name: _place(folder, code, key, one) for name, one in found.every.items()}
    compared = {one.workload for one in (*found.studied, *found.against)} if asked.against else set()
    jobs = [
        {
            "workload": name,
            "run": str(one.path.resolve()),
            "into": str(places[name]),
            "evaluate": EVALUATE,
            "options": {"features": list(asked.features)},
            "changes": asked.changes,
            "footprint": FOOTPRINT if name in compared and asked.changes else 0,
        }
        for name, one in found.every.items()
    ]
    errors = {workload: error for workload, _, error in capture.derive(jobs, tell) if error is not None}
    kept = {name: place for name, place in places.items() if is_whole(place)}
    left_out = {**found.left_out, **{name: why for name, why in errors.items() if name not in kept}}
    studied = _group(asked, [one for one in found.studied if one.workload in kept])
    against = None
    if asked.against:
        against = group_of((asked.against,), [one.workload for one in found.against if one.workload in kept])
    further = [group_of((id,), [one.workload for one in group if one.workload in kept]) for id, group in
               found.also.items()]  # fmt: skip
    if not studied.workloads:
        raise WcbenchError("No record could be evaluated.", "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    return inputs_of(
        read_parts(kept),
        studied,
        against,
        asked.features,
        mix=asked.mix,
        also=[group for group in further if group.workloads],
        population=None if asked.population is None else read_population(asked.population),
        no_changes="no changes were asked for (--changes none)" if not asked.changes else "",
        left_out=left_out,
        broken={name: why for name, why in errors.items() if name in kept},
        provenance=_provenance(asked, found, left_out),
    )


def _provenance(asked: Asked, found: _Found, left_out: Mapping[str, str]) -> dict[str, Any]:
    """With what the study was made, and of which records."""
    return _made(
        asked.command,
        code=code_fingerprint(),
        features=list(asked.features),
        records={name: manifest_of(one.path) for name, one in sorted(found.every.items())},
        made_for_this_study=list(found.made),
        left_out=dict(left_out),
    )


def _made(command: Sequence[str], **more: Any) -> dict[str, Any]:
    """With what a study was made; without home paths, user and host, as studies are shared."""
    from wcbench.machine import describe
    from wcbench.redaction import redact_tree

    machine = {name: value for name, value in describe().items() if name != "time"}
    told = {"wcbench": _version(), "command": list(command), "machine": machine, **more}
    found: dict[str, Any] = redact_tree(told, machine.get("identity") or {})
    return found


def _group(asked: Asked, kept: Iterable[Source]) -> Group:
    return group_of(tuple(asked.suites), [one.workload for one in kept])


def _place(folder: Path, code: str, key: str, one: Source) -> Path:
    """The folder of a workload's parts: another record, set of features or version of the code has another."""
    name = "".join(c if c.isalnum() or c in "-.@" else "_" for c in one.workload)
    return folder / "parts" / f"{code}-{key}"[:100] / f"{name}-{record.load(one.path).manifest.id}"


def _version() -> str:
    from wcbench.machine import wcbench_version

    return wcbench_version()


def default_folder(suites: Sequence[str], against: str | None, table: Path | None) -> Path:
    """Where a study goes that names no folder: ``studies/<what it is of>``."""
    what = table.stem if table is not None else "+".join(suites) or "records"
    return Path("studies") / (f"{what}-against-{against}" if against else what)
