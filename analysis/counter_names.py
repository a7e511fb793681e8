"""Names of hardware counters: nvprof's and Nsight Compute's for the same quantity, from `wcbench/counters.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wcbench import devices

_FILE = Path(devices.__file__).with_name("counters.toml")
CONVERTED, WORKED_OUT = ("same",), ("sum", "ratio")
_FORMS = (*CONVERTED, *WORKED_OUT, "level", "part", "share", "unlike", "none")

Terms = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Metric:
    """A metric or event of nvprof: its value is ``scale`` times the sum of ``terms`` (over the sum of ``over``), where
    ``form`` says that this holds; see the file. ``unit`` is the term's where it is another one than nvprof's."""

    nvprof: str
    form: str
    terms: Terms = ()
    over: Terms = ()
    scale: float = 1.0
    unit: str | None = None
    kind: str = "metric"
    note: str = ""


@dataclass(frozen=True)
class Name:
    """What a metric of a file is in the record's views: ``metric``, in ``unit`` (None: the file's), of which the file's
    value times ``factor`` is the value. ``known`` is False for names that the list does not hold."""

    metric: str
    factor: float = 1.0
    unit: str | None = None
    known: bool = True


@dataclass(frozen=True)
class Names:
    """The list."""

    version: int
    metrics: Sequence[Metric]
    nvprof: Mapping[str, Metric]
    same: Mapping[str, Mapping[str, Any]]
    prefixes: Sequence[Mapping[str, str]]
    terms: frozenset[str]

    def canonical(self, metric: str, unit: str) -> Name:
        """What a metric of a file stands for; ``unit`` is the file's unit in the record's spelling.

        Nsight Compute's names stay; nvprof's become Nsight Compute's where one value can be made of the other, and stay
        where it cannot (sums of several, levels, parts).
        """
        other = self.same.get(metric)
        if other is not None and other.get("unit", unit) == unit:
            return Name(other["metric"], float(other.get("factor", 1)))
        for prefix in self.prefixes:
            if metric.startswith(prefix["starts"]) and metric.endswith(prefix["ends"]):
                return Name(prefix["becomes"] + metric.removeprefix(prefix["starts"]))
        row = self.nvprof.get(metric)
        if row is None:
            return Name(metric, known=metric in self.terms)
        return self._converted(row) if row.form in CONVERTED else Name(metric)

    def _converted(self, row: Metric) -> Name:
        """One term: the term is the value over scale and factor, and the term may have another name itself."""
        term, factor = row.terms[0]
        named = self.canonical(term, row.unit or "")
        return Name(named.metric, named.factor / (row.scale * factor), row.unit)


@cache
def names() -> Names:
    """The list that comes with wcbench."""
    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    metrics = [_metric(row) for row in data["metric"]]
    return Names(
        version=data["version"],
        metrics=metrics,
        nvprof={row.nvprof: row for row in reversed(metrics)},  # the first of a name wins: metrics before events
        same={row["name"]: row for row in data["same"]},
        prefixes=data["prefix"],
        terms=frozenset(
            [term for row in metrics for term, _ in (*row.terms, *row.over)] + [row["metric"] for row in data["same"]]
        ),
    )


def _metric(row: Mapping[str, Any]) -> Metric:
    if row["form"] not in _FORMS:
        raise ValueError(f"counters.toml: {row['nvprof']} has the form {row['form']}")
    parts: dict[str, Any] = {part: _terms(row.get(part, ())) for part in ("terms", "over")}
    rest = {key: value for key, value in row.items() if key not in parts}
    return Metric(**rest, **parts)


def _terms(listed: Sequence[Sequence[Any]]) -> Terms:
    return tuple((str(name), float(factor)) for name, factor in listed)
