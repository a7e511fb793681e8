"""What suites and catalogue say of a study's workloads: metrics, identities, kin, factors of learning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from wcbench.analysis.costs import STEP
from wcbench.analysis.study_inputs import Group, Known
from wcbench.analysis.study_parts import Stored, of
from wcbench.analysis.validation import Metric
from wcbench.suites import Member, Suite, load_suite, suite_ids
from wcbench.tasks.catalog import TASKS, TaskRow

LEAST = 3  # workloads with a value, for a metric to be worth a row


def catalogue_row(task: str) -> TaskRow | None:
    found = TASKS.row(task) if task in TASKS else None
    return found if isinstance(found, TaskRow) else None


def held_out(stored: Stored, studied: Group, suites: Sequence[Suite], tasks: Mapping[str, str]) -> Iterable[Metric]:
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
    yield from _modelled(of(stored.roofline, studied.workloads))


def _modelled(roof: pd.DataFrame) -> Iterable[Metric]:
    """What the roofline says of a step: its least time, which its batch sets, and two quantities that it does not."""
    if len(roof) < LEAST:
        return
    where = f"roofline of {', '.join(sorted(set(roof['device'])))}"
    for name, column, unit, mean in (
        ("least time of a step", "least_seconds", "s", "arithmetic"),
        ("attainable rate", "attainable", "FLOP/s", "geometric"),
        ("memory-bound share of the least time", "memory_bound_share", "fraction", "arithmetic"),
    ):
        values = {str(w): float(x) for w, x in zip(roof["workload"], roof[column], strict=True) if math.isfinite(x)}
        yield Metric(name, values, "modelled", unit, mean, where)


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


VARIATION = ("epochs to target, coefficient of variation", "time to target, coefficient of variation")
"""Facts of a suite that tell how much runs of a task differ, in %, the better first."""


def known_of(tasks: Mapping[str, str], values: pd.DataFrame | None = None) -> Known:
    """What conditions on members are about: by the suites' files, and where a record measured it, by the record.

    ``tasks`` : the task of each workload. ``values`` : rows of features. What is only remembered of a suite is not
    known.
    """
    measured: dict[str, float] = {}
    if values is not None and len(values):
        rows = values[(values["feature"] == "seed_cv_epochs") & values["value"].notna()]
        measured = dict(zip(rows["workload"].astype(str), rows["value"].astype(float), strict=True))
    metric = {name: _has_target(_members(task)) for name, task in tasks.items()}
    variation = {name: measured.get(name, _variation(_members(task))) for name, task in tasks.items()}
    return Known(metric, variation)


def _members(task: str) -> list[Member]:
    row = catalogue_row(task)
    found = [load_suite(id).member(task) for id in (() if row is None else row.suites)]
    return [member for member in found if member is not None]


def _has_target(members: Sequence[Member]) -> bool | None:
    facts = [fact for member in members if (fact := member.fact("target")) is not None]
    if any(fact.value is not None and fact.kind != "from memory" for fact in facts):
        return True
    return False if facts and all(fact.value is None for fact in facts) else None


def _variation(members: Sequence[Member]) -> float | None:
    for quantity in VARIATION:
        for member in members:
            fact = member.fact(quantity)
            if fact is not None and isinstance(fact.value, int | float) and fact.kind != "from memory":
                return float(fact.value) / 100
    return None


def incomplete(groups: Iterable[Group]) -> dict[str, str]:
    """Groups that are not all of their suite, by id, each with a sentence that says what is missing and why."""
    found = {}
    for group in groups:
        if group.id not in suite_ids():
            continue
        suite = load_suite(group.id)
        lost = [task for task in suite.tasks if task not in group.workloads]
        left = [one.title for one in suite.not_included]
        if lost or left:
            why = [f"no task here: {'; '.join(left)}" if left else "", f"left out: {', '.join(lost)}" if lost else ""]
            told = "; ".join(text for text in why if text)
            found[group.id] = f"{group.title} stands here with {len(group.workloads)} tasks ({told})"
    return found


def identities(suites: Sequence[Suite], tasks: Mapping[str, str]) -> dict[str, str]:
    found = {member.task: member.identity for suite in suites for member in suite.members}
    return {name: found[task] for name, task in tasks.items() if task in found}


def one_task(suites: Sequence[Suite], tasks: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of workloads that train one model on the same data."""
    pairs = {tuple(sorted((member.task, other))) for suite in suites for member in suite.members for other in
             member.same_as}  # fmt: skip
    by_task = {task: name for name, task in tasks.items() if name == task}
    return tuple((by_task[a], by_task[b]) for a, b in sorted(pairs) if a in by_task and b in by_task)


def levels(row: TaskRow) -> dict[str, Any]:
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
