"""From records and suites to the inputs of a study: which record is taken, who is kin, what is published."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from wcbench import record
from wcbench.analysis.costs import EPOCH, STEP, TRAINING, Cost, one_kind
from wcbench.analysis.features import chosen, refuse_mixtures, table_of
from wcbench.analysis.study_inputs import Changed, Group, Inputs, narrowed
from wcbench.analysis.study_rows import PREDICTED, Stored, costs_of, of
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.validation import Metric
from wcbench.errors import RecordError, UsageError
from wcbench.lookup import folder_name, list_runs
from wcbench.record import Profile
from wcbench.suites import Suite, load_suite
from wcbench.tasks.catalog import TASKS, TaskRow

PRESET, FOOTPRINT = "paper", "equal footprint"
LEAST = 3  # workloads with a value, for a metric to be worth a row


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
        return Group("records", "the records", tuple(sorted(workloads)))
    return Group("+".join(suites), " and ".join(suites), tuple(sorted(workloads)))


def inputs_of(
    stored: Stored,
    studied: Group,
    against: Group | None,
    features: Sequence[str],
    *,
    mix: bool = False,
    no_changes: str = "",
    provenance: Mapping[str, Any] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Inputs:
    """Inputs of a study of records from their stored parts.

    Raises UsageError for a table that mixes presets, devices or precisions, unless ``mix``.
    """
    names = [full for definition in chosen(list(features)) for full in definition.names]
    own = stored.values[stored.values["feature"].isin(names)]
    if not mix:
        refuse_mixtures(own)
    tasks = {name: name.partition("@")[0] for name in sorted(set(stored.values["workload"]))}
    rows = {name: _row(task) for name, task in tasks.items()}
    costs, left = _costs(stored.costs, studied)
    whole = table_of(
        stored.values,
        mix=True,
        costs=costs,
        suites={name: () if row is None else row.suites for name, row in rows.items()},
        families={name: row.family for name, row in rows.items() if row is not None},
    )
    changed = _changed(stored)
    suites = [
        load_suite(id) for id in dict.fromkeys(id for row in rows.values() if row is not None for id in row.suites)
    ]
    return Inputs(
        table=narrowed(whole, tuple(names)),
        facet_table=whole,
        studied=studied,
        against=against,
        changed=changed,
        no_changes="" if changed is not None else no_changes or "no changed versions were made",
        metrics=tuple(_metrics(stored, studied, suites, tasks)),
        hotspots=stored.hotspots,
        identities=_identities(suites, tasks),
        same=_same(suites, tasks),
        classes={name: row.domain for name, row in rows.items() if row is not None},
        levels={name: _levels(row) for name, row in rows.items() if row is not None},
        others=_equal_footprint(stored, names, against),
        rows=own.reset_index(drop=True),
        notes=(*left, *(f"{name} is left out: {why}" for name, why in sorted((left_out or {}).items()))),
        provenance=provenance or {},
    )


def _changed(stored: Stored) -> Changed | None:
    """The versions that r* is measured with: all but the one at equal footprint."""
    if stored.changed.empty:
        return None
    rows = stored.changed[stored.changed["change"] != FOOTPRINT]
    return Changed(rows, stored.changes[stored.changes["kind"] != "footprint"]) if len(rows) else None


def _equal_footprint(stored: Stored, names: Sequence[str], against: Group | None) -> dict[str, FeatureTable]:
    """The table of the versions at equal memory footprint, for the comparison."""
    if stored.changed.empty or against is None:
        return {}
    rows = stored.changed[(stored.changed["change"] == FOOTPRINT) & stored.changed["feature"].isin(names)]
    if rows.empty:
        return {}
    n = rows["workload"].nunique()
    return {f"at equal memory footprint ({n} tasks)": table_of(rows.drop(columns="change"), mix=True)}


def _row(task: str) -> TaskRow | None:
    found = TASKS.row(task) if task in TASKS else None
    return found if isinstance(found, TaskRow) else None


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


def _metrics(stored: Stored, studied: Group, suites: Sequence[Suite], tasks: Mapping[str, str]) -> Iterable[Metric]:
    """What took no part in the choice: published facts, measured step times; and modelled times, labelled circular."""
    for suite in suites:
        if suite.subset_of is None:
            yield from _published(suite, studied, tasks)
    costs = of(stored.costs, studied.workloads)
    timed = costs[costs["source"].str.startswith("measured") & costs["value"].notna() & (costs["work"] == STEP)]
    for where, group in timed.groupby("source", sort=True):
        values = {str(name): float(x) for name, x in zip(group["workload"], group["value"], strict=True)}
        if len(values) >= LEAST:
            yield Metric("time of a step", values, "measured", "s", where=str(where))
    spent = of(stored.hotspots, studied.workloads)
    if len(spent):
        least = spent[spent["source"] == PREDICTED].groupby("workload")["seconds"].sum()
        device = ", ".join(sorted(set(spent.loc[spent["source"] == PREDICTED, "device"])))
        if len(least) >= LEAST:
            values = {str(name): float(x) for name, x in least.items()}
            yield Metric("least time of a step", values, "modelled", "s", where=f"roofline of {device}")


def _published(suite: Suite, studied: Group, tasks: Mapping[str, str]) -> Iterable[Metric]:
    """Numbers of a suite's file in one unit: what its tasks took, or are trained for."""
    for quantity in ("epochs to target, mean", "time to target, mean", "cost of an epoch", "length of training"):
        by_unit: dict[str, dict[str, float]] = {}
        for name in studied.workloads:
            member = suite.member(tasks.get(name, ""))
            fact = None if member is None else member.fact(quantity)
            if fact is not None and isinstance(fact.value, int | float) and math.isfinite(fact.value):
                by_unit.setdefault(str(fact.unit), {})[name] = float(fact.value)
        for unit, values in sorted(by_unit.items()):
            if len(values) >= LEAST:
                yield Metric(quantity, values, "published", unit, where=suite.title)


def _identities(suites: Sequence[Suite], tasks: Mapping[str, str]) -> dict[str, str]:
    found = {member.task: member.identity for suite in suites for member in suite.members}
    return {name: found[task] for name, task in tasks.items() if task in found}


def _same(suites: Sequence[Suite], tasks: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of workloads that train one model on the same data."""
    pairs = {tuple(sorted((member.task, other))) for suite in suites for member in suite.members for other in
             member.same_as}  # fmt: skip
    by_task = {task: name for name, task in tasks.items() if name == task}
    return tuple((by_task[a], by_task[b]) for a, b in sorted(pairs) if a in by_task and b in by_task)


def _levels(row: TaskRow) -> dict[str, Any]:
    """Factors of learning as levels: the first words of each, as its numbers make every task a level of its own."""
    found = row.factors

    def head(text: str) -> str:
        return text.partition(",")[0].partition(";")[0].strip()

    return {
        "modality": found.modality,
        "paradigm": head(found.paradigm),
        "layers": tuple(found.layers),
        "loss": head(found.loss),
        "optimizer": head(found.optimizer),
        "schedule": _schedule(found.schedule),
    }


def _schedule(text: str) -> str:
    """The kind of a schedule of the learning rate."""
    words = text.lower()
    kinds = ("constant", "cosine", "linear", "inverse square root", "warm-up", "step", "halved", "decay")
    found = [kind for kind in kinds if kind in words]
    warm = "warm-up" in found
    rest = next((kind for kind in found if kind != "warm-up"), "")
    kind = {"halved": "step", "": "step" if "at " in words or "," in words else words}.get(rest, rest)
    if rest == "" and warm:
        return "warm-up"
    return f"{kind} after a warm-up" if warm else kind


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
