"""Row ids that steps look up in sparse tables, drawn for real beside a pass on fake tensors, which knows no values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from wcbench.errors import WcbenchError
from wcbench.profilers.base import Columns
from wcbench.profilers.state import preserved_state
from wcbench.tasks.base import Config, Task

EXPONENTS = (0.6, 0.9, 1.05, 1.2)
"""Exponents of Zipf's law over which a sparse task's reuse is given as a band: few data sets say what theirs is."""

MOST_IDS = 2**19  # of one law, all steps together: a record stays within some ten megabytes
_FEWEST, _MOST = 2, 8  # steps


def lookup_columns(task: Task, config: Config) -> tuple[Columns, list[str]]:
    """Columns of table `lookups`, empty for a task without sparse tables; and what is doubtful."""
    try:
        with preserved_state():
            return _columns(task, config)
    except WcbenchError as error:
        return {}, [f"No look-ups: {error.message}"]
    except Exception as error:  # whatever a task's own code raises
        return {}, [f"No look-ups: the task's lookups failed: {type(error).__name__}: {error}"]


def _columns(task: Task, config: Config) -> tuple[Columns, list[str]]:
    asked = config.settings.batch_size
    first = task.lookups(config, 0)
    if not first:
        return {}, []
    shares = -(-sum(map(len, first.values())) * _FEWEST // MOST_IDS)
    if shares > 1:
        fewer = dataclasses.replace(config.settings, batch_size=max(1, asked // shares))
        config = dataclasses.replace(config, settings=fewer)
        first = task.lookups(config, 0)
    steps = int(np.clip(MOST_IDS // max(1, sum(map(len, first.values()))), _FEWEST, _MOST))
    samples: int = config.settings.batch_size
    rows: list[dict[str, Any]] = []
    for exponent in (None, *EXPONENTS):
        for step in range(steps):
            rows += _rows(task.lookups(config, step, exponent), exponent, step, samples)
    notes = [] if samples == asked else [f"Look-ups are drawn for {samples:,} of the step's {asked:,} samples."]
    return {name: [row[name] for row in rows] for name in rows[0]}, notes


def _rows(ids: Mapping[str, Any], exponent: float | None, step: int, samples: int) -> list[dict[str, Any]]:
    law = "own" if exponent is None else "zipf"
    return [
        {
            "parameter": path,
            "law": law,
            "exponent": exponent,
            "step": step,
            "samples": samples,
            "ids": np.asarray(values, np.int64),
        }
        for path, values in ids.items()
    ]
