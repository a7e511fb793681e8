"""From records and suites to the inputs of a study: which record is taken, who is kin, what is published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from wcbench import record
from wcbench.analysis.costs import EPOCH, STEP, TRAINING, Cost, one_kind
from wcbench.analysis.features import chosen, refuse_mixtures, table_of
from wcbench.analysis.population import Population
from wcbench.analysis.study_inputs import Changed, Group, Inputs, narrowed, of_workloads
from wcbench.analysis.study_parts import Stored, costs_of, of
from wcbench.analysis.study_suites import catalogue_row, held_out, identities, incomplete, known_of, levels, one_task
from wcbench.analysis.table import FeatureTable
from wcbench.errors import RecordError, UsageError
from wcbench.lookup import folder_name, list_runs
from wcbench.record import Profile
from wcbench.suites import load_suite

PRESET, FOOTPRINT = "paper", "equal footprint"

RECORDS = "records"
"""The id of a group of records that somebody named."""


@dataclass(frozen=True)
class Source:
    """A workload of a study and the record that stands for it."""

    workload: str
    task: str
    path: Path


def newest(root: Path, task: str, settings: Mapping[str, Any]) -> Path | None:
    """The newest record of a task's operators at the preset paper as the suite has it; None where there is none.

    ``settings`` are the preset's own: a record of another batch, length, precision or mode is not taken, nor one
    without counts at several batches.
    """
    for folder in reversed([p for p in list_runs(root) if p.parent.name == folder_name(task)]):
        try:
            profile = record.load(folder)
        except RecordError:
            continue
        if _fits(profile, task, settings):
            return folder
    return None


def _fits(profile: Profile, task: str, settings: Mapping[str, Any]) -> bool:
    manifest = profile.manifest
    info = manifest.passes.get("operators")
    return (
        info is not None
        and (manifest.task, manifest.variant, manifest.source) == (task, None, None)
        and (info.preset, info.precision, info.mode) == (PRESET, "fp32", "train")
        and dict(info.settings) == dict(settings)
        and (info.tensors != "fake" or "scaling" in profile.tables)
    )


def sources(profiles: Iterable[Profile]) -> list[Source]:
    """The workloads of records by name; UsageError for two of one name."""
    found: dict[str, Source] = {}
    for profile in profiles:
        if profile.path is None:
            raise UsageError(f"The record of {profile.name} was not saved.", "Save it: `profile.save(folder)`.")
        if profile.name in found:
            raise UsageError(
                f"Two records are of the workload '{profile.name}': {found[profile.name].path} and {profile.path}.",
                "Name one of them.",
            )
        found[profile.name] = Source(profile.name, profile.manifest.task, Path(profile.path))
    return list(found.values())


def group_of(suites: Sequence[str], workloads: Iterable[str]) -> Group:
    """The group of one or several suites, or of records."""
    if not suites:
        return Group(RECORDS, "the records", tuple(sorted(workloads)))
    title = " and ".join(load_suite(suite).title for suite in suites)
    return Group("+".join(suites), title, tuple(sorted(workloads)))


def inputs_of(
    stored: Stored,
    studied: Group,
    against: Group | None,
    features: Sequence[str],
    *,
    mix: bool = False,
    no_changes: str = "",
    also: Sequence[Group] = (),
    population: Population | None = None,
    provenance: Mapping[str, Any] | None = None,
    left_out: Mapping[str, str] | None = None,
    broken: Mapping[str, str] | None = None,
) -> Inputs:
    """Inputs of a study of records from their stored parts.

    Raises UsageError for a table that mixes presets, devices or precisions, unless ``mix``.
    """
    names = [full for definition in chosen(list(features)) for full in definition.names]
    ours = (*studied.workloads, *(against.workloads if against else ()))
    if not mix:
        refuse_mixtures(stored.values[stored.values["feature"].isin(names)])
    tasks = {name: name.partition("@")[0] for name in sorted(set(stored.values["workload"]))}
    every = {name: catalogue_row(task) for name, task in tasks.items()}
    rows = {name: row for name, row in every.items() if row is not None}
    costs, left = _costs(stored.costs, studied)
    wide = table_of(
        stored.values,
        mix=True,
        costs=costs,
        suites={name: () if row is None else row.suites for name, row in every.items()},
        families={name: row.family for name, row in rows.items()},
    )
    whole = of_workloads(wide, ours)
    changed = _changed(stored, wide)
    suites = [load_suite(id) for id in dict.fromkeys(id for row in rows.values() for id in row.suites)]
    mine = of(stored.values, ours)
    return Inputs(
        table=narrowed(whole, tuple(names)),
        facet_table=whole,
        studied=studied,
        against=against,
        also=tuple(also),
        wide=narrowed(wide, tuple(names)) if also else None,
        changed=changed,
        no_changes="" if changed is not None else no_changes or "no changed versions were made",
        metrics=tuple(held_out(stored, studied, suites, tasks)),
        hotspots=of(stored.hotspots, ours),
        costs=of(stored.costs, ours),
        miss_ratios=of(stored.miss_ratios, ours),
        roofline=of(stored.roofline, ours),
        identities=identities(suites, tasks),
        same=one_task(suites, tasks),
        classes={name: row.domain for name, row in rows.items()},
        levels={name: levels(row) for name, row in rows.items()},
        others=_equal_footprint(stored, names, against),
        incomplete=incomplete([studied, *([against] if against else []), *also]),
        known=known_of(tasks, stored.values),
        population=population,
        rows=mine[mine["feature"].isin(names)].reset_index(drop=True),
        facet_rows=mine.reset_index(drop=True),
        notes=(
            *left,
            *(f"{name} is left out: {why}" for name, why in sorted((left_out or {}).items())),
            *(f"{name} lacks changes, as a process ended: {why}" for name, why in sorted((broken or {}).items())),
        ),
        provenance=provenance or {},
    )


def _changed(stored: Stored, own: FeatureTable) -> Changed | None:
    """The versions that r* is measured with: all but the one at equal footprint."""
    if stored.changed.empty:
        return None
    rows = stored.changed[stored.changed["change"] != FOOTPRINT]
    return Changed(rows, stored.changes[stored.changes["kind"] != "footprint"], own) if len(rows) else None


def _equal_footprint(stored: Stored, names: Sequence[str], against: Group | None) -> dict[str, FeatureTable]:
    """The table of the versions at equal memory footprint, for the comparison."""
    if stored.changed.empty or against is None:
        return {}
    rows = stored.changed[(stored.changed["change"] == FOOTPRINT) & stored.changed["feature"].isin(names)]
    if rows.empty:
        return {}
    n = rows["workload"].nunique()
    return {f"at equal memory footprint ({n} tasks)": table_of(rows.drop(columns="change"), mix=True)}


def _costs(rows: pd.DataFrame, studied: Group) -> tuple[dict[str, Any], list[str]]:
    """Costs of the largest unit of work that is known of all who are studied, and what the larger ones lack."""
    mine = of(rows, studied.workloads)
    left: list[str] = []
    for work in (TRAINING, EPOCH, STEP):
        found = costs_of(mine, work)
        told = one_kind(found)
        if told.values:
            return dict(found), left
        left.append(
            f"the cost of {'an' if work == EPOCH else 'a'} {work} is not known of all in one way: {_lacks(found)}"
        )
    return {}, left


def _lacks(costs: Mapping[str, Sequence[Cost]]) -> str:
    """How many lack each way to say a cost."""
    counts: dict[str, int] = {}
    for ways in costs.values():
        for cost in ways:
            counts[cost.source] = counts.get(cost.source, 0) + (cost.value is None)
    return ", ".join(f"{source} lacks {count} of {len(costs)}" for source, count in counts.items())


def manifest_of(path: Path) -> dict[str, Any]:
    """What the provenance of a study says of a record."""
    manifest = record.load(path).manifest
    info = manifest.passes.get("operators")
    return {
        "record": str(path),
        "id": manifest.id,
        "created": manifest.created,
        "wcbench": manifest.wcbench,
        "command": list(manifest.command),
        "preset": None if info is None else info.preset,
        "batch_size": None if info is None else info.batch_size,
        "precision": None if info is None else info.precision,
        "tensors": None if info is None else info.tensors,
        "notes": [f"{note.about}: {note.text}" for note in manifest.notes],
    }


def settings_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's settings as a manifest has them."""
    found: dict[str, Any] = json.loads(json.dumps(dict(settings), default=str))
    return found
