"""Changes that leave a task the same task: what r* is made of.

Half and twice the batch, shorter and longer sequences, the other precision, attention spelt out or fused, the other
models that go under the task's name (METHOD 2.2). `changed` counts a task so changed, `change_jobs` runs many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wcbench import record

if TYPE_CHECKING:
    from wcbench.tasks.base import Task

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
