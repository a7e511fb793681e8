"""Row ids that steps look up in sparse tables, drawn for real beside a pass on fake tensors, which knows no values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from wcbench.errors import TaskError, WcbenchError
from wcbench.profilers.base import Columns
from wcbench.profilers.run import Outcome
from wcbench.profilers.state import preserved_state
from wcbench.tasks.base import Config, Task

EXPONENTS = (0.6, 0.9, 1.05, 1.2)
"""Exponents of Zipf's law over which a sparse task's reuse is given as a band: few data sets say what theirs is."""

MOST_IDS = 2**19  # of one law, all steps together: a record stays within some ten megabytes
_FEWEST, _MOST = 2, 32  # steps


def lookup_columns(task: Task, config: Config, outcome: Outcome, rows: Mapping[str, int]) -> tuple[Columns, list[str]]:
    """Columns of table `lookups`, empty for a task without sparse tables; and what is doubtful.

    ``rows`` has the rows of each parameter by path: ids of other tables, or beyond a table's rows, are refused.
    """
    try:
        with preserved_state():
            return _columns(task, config, outcome, rows)
    except WcbenchError as error:
        return {}, [f"No look-ups: {error.message}"]
    except (Exception, SystemExit, GeneratorExit) as error:  # whatever a task's own code raises
        return {}, [f"No look-ups: the task's lookups failed: {type(error).__name__}: {error}"]


def _columns(task: Task, config: Config, outcome: Outcome, sizes: Mapping[str, int]) -> tuple[Columns, list[str]]:
    asked: int = config.settings.batch_size
    first = task.lookups(config, 0)
    if not first:
        return {}, []
    shares = -(-sum(map(len, first.values())) * _FEWEST // MOST_IDS)
    if shares > 1:
        fewer = dataclasses.replace(config.settings, batch_size=max(1, asked // shares))
        config = dataclasses.replace(config, settings=fewer)
        first = task.lookups(config, 0)
    steps = int(np.clip(MOST_IDS // max(1, sum(map(len, first.values()))), _FEWEST, _MOST))
    part = config.settings.batch_size / asked
    rows: list[dict[str, Any]] = []
    asked_for = getattr(config.settings, "zipf", None)
    for exponent in (None, *(e for e in EXPONENTS if e != asked_for)):
        drawn = 0
        for step in range(steps):
            ids = task.lookups(config, step, exponent)
            drawn += sum(map(len, ids.values()))
            if drawn > MOST_IDS and step >= _FEWEST:
                break  # a kind of step that looks up far more than the first
            kind = outcome.kinds[step] if step < len(outcome.kinds) else "train"
            samples = max(1, round(part * outcome.info.kind_samples.get(kind, outcome.info.samples)))
            rows += _rows(
                _checked(ids, sizes), _law(config.settings, exponent), {"step": step, "kind": kind, "samples": samples}
            )
    notes = [] if part == 1 else [f"Look-ups are drawn for {part:.3g} of a step's samples."]
    return {name: [row[name] for row in rows] for name in rows[0]}, notes


def _checked(ids: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The ids as int64; raises TaskError where they are no rows of a parameter."""
    found = {}
    for path, values in ids.items():
        array = np.asarray(values)
        if path not in sizes:
            raise TaskError(f"Task.lookups names '{path}', which is no parameter of the task's modules.")
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TaskError(
                f"Task.lookups gives {array.dtype} of {array.ndim} dimensions for {path}, not whole numbers."
            )
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < sizes[path]:
            wrong = int(array.max()) if int(array.max()) >= sizes[path] else int(array.min())
            raise TaskError(f"Task.lookups gives row {wrong} for {path}, which has {sizes[path]} rows.")
        found[path] = array.astype(np.int64)
    return found


def _law(settings: Any, exponent: float | None) -> dict[str, Any]:
    """The law of the band, else what --ids or --zipf asked for, else the task's own."""
    if exponent is None and getattr(settings, "ids", None) is not None:
        return {"law": "recorded", "exponent": None}
    asked = getattr(settings, "zipf", None) if exponent is None else exponent
    return {"law": "own" if asked is None else "zipf", "exponent": asked}


def _rows(ids: Mapping[str, Any], law: Mapping[str, Any], step: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"parameter": path, **law, **step, "ids": values} for path, values in ids.items()]
