"""The pass `operators` on fake tensors: the stream itself, then counts at other batch sizes and lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.errors import TaskError, UsageError
from wcbench.profilers.base import Columns
from wcbench.profilers.lookups import lookup_columns
from wcbench.profilers.operators import Counted, Operators
from wcbench.profilers.request import Progress, Request
from wcbench.profilers.run import Outcome, run_pass
from wcbench.profilers.scaling import LEAST, Point, scaling_columns
from wcbench.record import Note
from wcbench.tasks.base import Config, Task

_CONTRACT = "wcbench/tasks/base.py says what a task gives."


def run_counted(task: Task, config: Config, collector: Operators, request: Request, progress: Progress) -> Outcome:
    """The stream at the config, at a short length where the task unrolls too long a one; `scaling` and `lookups`."""
    lengths, target = _lengths(task, config)
    outcome = run_pass(task, _at(task, config, lengths[-1]), collector, request, progress)
    tables, notes = dict(outcome.tables), list(outcome.notes)
    if target is not None:
        notes.append(Note(collector.name, _shortened(task, lengths, target, request.scaling)))
    if request.scaling:
        points = [_point(lengths[-1], outcome, collector)]
        try:
            points += _points(task, config, lengths, request, progress)
            tables["scaling"], doubts = scaling_columns(points, target)
            notes += [Note(collector.name, text) for text in [*doubts, *_unchecked(request)]]
        except (TaskError, UsageError) as error:
            notes.append(Note(collector.name, f"No fixed and per-sample parts: {error.message}"))
    else:
        notes.append(Note("scaling", "Counts at twice and four times the batch were left out (--no-scaling)."))
    ids, doubts = lookup_columns(task, config, outcome, _rows_of_tables(tables))
    if ids:
        tables["lookups"] = ids
    notes += [Note(collector.name, text) for text in doubts]
    return dataclasses.replace(outcome, tables=tables, notes=notes)


def _unchecked(request: Request) -> list[str]:
    """Two points always lie on a line."""
    count = len(set(request.factors))
    return (
        [] if count >= LEAST else [f"Counted at {count} batches: the error of the lines over the batch is not known."]
    )


def _rows_of_tables(tables: Mapping[str, Columns]) -> dict[str, int]:
    """Rows of every parameter, by path."""
    columns = tables.get("parameters") or {"model": [], "name": [], "shape": []}
    triples = zip(columns["model"], columns["name"], columns["shape"], strict=True)
    return {f"{model}.{name}": shape[0] if len(shape) else 1 for model, name, shape in triples}


def _lengths(task: Task, config: Config) -> tuple[tuple[int | None, ...], int | None]:
    """The lengths to count at, and the length to continue to: None where the preset's own is counted."""
    if task.length is None:
        return (None,), None
    if not isinstance(getattr(config.settings, task.length, None), int):
        raise UsageError(f"Task.length names '{task.length}', which is no whole number of its settings.", _CONTRACT)
    if task.unrolled and (len(set(task.unrolled)) != 2 or min(task.unrolled) < 1):
        raise UsageError(f"Task.unrolled is {task.unrolled}, not two different lengths from 1 up.", _CONTRACT)
    own: int = getattr(config.settings, task.length)
    if task.unrolled and own > max(task.unrolled):
        return tuple(sorted(task.unrolled)), own
    return (own,), None


def _at(task: Task, config: Config, length: int | None, factor: int = 1) -> Config:
    """The config at another length and at a multiple of its batch size."""
    changes: dict[str, Any] = {"batch_size": config.settings.batch_size * factor}
    if task.length is not None:
        changes[task.length] = length
    settings = dataclasses.replace(config.settings, **changes)
    settings.validate()
    return dataclasses.replace(config, settings=settings)


def _points(
    task: Task, config: Config, lengths: tuple[int | None, ...], request: Request, progress: Progress
) -> Iterator[Point]:
    """Counts at the other batch sizes and lengths; the longest length at the batch size itself is counted already."""
    for length in reversed(lengths):
        for factor in request.factors:
            if length == lengths[-1] and factor == 1:
                continue
            there = _at(task, config, length, factor)
            counted = Counted(there.device)
            label = f"batch {there.settings.batch_size}" + ("" if len(lengths) == 1 else f", {task.length} {length}")

            def report(passname: str, done: int, total: int, label: str = label) -> None:
                progress(f"{passname} ({label})", done, total)

            outcome = run_pass(task, there, counted, request, report)
            yield _point(length, outcome, counted)


def _point(length: int | None, outcome: Outcome, collector: Operators) -> Point:
    samples = outcome.info.samples
    assert samples is not None  # only an imported file does not tell
    return Point(length, samples, collector.totals, outcome.info.kind_samples)


def _shortened(task: Task, lengths: tuple[int | None, ...], target: int, scaling: bool) -> str:
    text = f"Counted at {task.length} {lengths[-1]} of {target}, since every step of the recurrence is unrolled"
    if not scaling:
        return f"{text}; nothing is continued to {target}."
    return f"{text}; table scaling continues the straight line through {task.length} {lengths[0]} and {lengths[-1]}."
