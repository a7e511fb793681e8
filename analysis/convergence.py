"""How training runs reach their target: time and epochs to quality, and how much runs of one system differ."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "convergence"
SUCCESS, ABORTED = "success", "aborted"
QUANTITIES = ("epochs", "samples", "logged")
_POINTS = 400
_OLYMPIC_DROPS = {"unet3d": 4}
"""Runs that MLPerf leaves out at each end of its 40 of this benchmark; one at each end of all others."""

_NUMBER = re.compile(r"[-_. ]*\d+(\.[a-zA-Z]\w{0,4})*$")
"""The number at the end of a file's name, with what says its kind: `0.txt`, `12.log.gz`."""

_ABSURD = 1e100
"""No quantity of a training is so large, and sums of such numbers leave the range of a float."""

_FIELDS = ("run", "file", "benchmark", "system", "submitter", "seed", "batch_size", "status", "seconds", "epochs",
           "samples", "logged", "quality", "target", "metric")  # fmt: skip


@dataclass(frozen=True)
class Variation:
    """A quantity over the successful runs that have it.

    ``std`` is the sample standard deviation (n - 1), ``cv`` the coefficient of variation ``std / mean``; both are None
    where ``reason`` says why.
    """

    n: int
    mean: float | None
    std: float | None
    cv: float | None
    least: float | None
    most: float | None
    reason: str | None


@dataclass(frozen=True)
class Group:
    """Runs of one benchmark on one system with one batch.

    Attributes
    ----------
    series : what the files of the runs have in common, where one system has several series of numbered files (two
        frameworks, say, which no log names); None otherwise.
    unfinished : runs whose log ends before they did, or says neither success nor aborted.
    seconds, epochs, samples, logged : time to train, epochs and samples to quality, and the number that the logs
        themselves give the last evaluation; over successful runs.
    to_quality : which of epochs and samples the logs tell: the one that more runs have; None where none does.
    olympic_seconds : mean time to train without the fastest and the slowest run, as MLPerf scores; a run that did not
        reach its target counts as the slowest. None where ``olympic_reason`` says why.
    """

    benchmark: str | None
    system: str | None
    submitter: str | None
    batch_size: int | None
    series: str | None
    runs: tuple[int, ...]
    success: int
    aborted: int
    unfinished: int
    seconds: Variation
    epochs: Variation
    samples: Variation
    logged: Variation
    to_quality: str | None
    olympic_seconds: float | None
    olympic_dropped: int
    olympic_reason: str | None

    def quantity(self, name: str) -> Variation:
        """One of seconds, epochs, samples and logged, by its name."""
        return {"seconds": self.seconds, "epochs": self.epochs, "samples": self.samples, "logged": self.logged}[name]

    @property
    def variation(self) -> float | None:
        """Run-to-run variation as AIBench means it: the coefficient of variation of what a run needs to quality."""
        return None if self.to_quality is None else self.quantity(self.to_quality).cv

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "runs": list(self.runs), "variation": self.variation}


@dataclass(frozen=True)
class Convergence(Shown):
    """Runs, groups of them, and quality over epochs or samples.

    ``runs`` has one mapping a run: the columns of table trainings, and ``qualities``, the values of the last evaluation
    by metric (the metric is "" where the log names none). ``evaluations`` counts those with a quality, one of several
    metrics once. ``curves`` has one mapping a run and metric: ``of`` (epochs,
    samples or seconds) and ``points``, pairs of that and the quality.
    """

    source: Source
    runs: tuple[Mapping[str, Any], ...]
    groups: tuple[Group, ...]
    curves: tuple[Mapping[str, Any], ...]
    evaluations: int = 0

    def to_frame(self) -> pd.DataFrame:
        """One row a run."""
        return pd.DataFrame([dict(row) for row in self.runs])

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.source.to_dict(),
            "evaluations": self.evaluations,
            "rows": [dict(row) for row in self.runs],
            "groups": [group.to_dict() for group in self.groups],
            "curves": [dict(curve) for curve in self.curves],
        }

    def __repr__(self) -> str:
        count = f"{len(self.runs)} run{'' if len(self.runs) == 1 else 's'}"
        return "\n".join([f"Convergence: {count}", *(_line(group) for group in self.groups)])


def convergence(profile: Profile) -> Convergence | None:
    """Convergence of the training runs in a record; None where it has none."""
    origin, table = source(profile, _PASS), profile.table("trainings")
    if origin is None or table.empty:
        return None
    evaluations = profile.table("epochs")
    evaluations = evaluations[evaluations["quality"].notna()]
    by_run = dict(list(evaluations.groupby("run", sort=False)))
    runs = tuple(_run(row, by_run.get(row["run"])) for row in table.to_dict("records"))
    curves = tuple(curve for row in runs for curve in _curves(row["run"], by_run.get(row["run"])))
    count = sum(max(len(rows) for _, rows in _by_metric(found)) for found in by_run.values())
    return Convergence(origin, runs, tuple(_groups(runs)), curves, count)


# --- runs ---------------------------------------------------------------------------------------------------------


def _run(row: Mapping[Any, Any], evaluations: pd.DataFrame | None) -> dict[str, Any]:
    found: dict[str, Any] = {name: _plain(row.get(name)) for name in _FIELDS}
    found["qualities"] = {}
    if evaluations is not None:
        metrics = [_plain(metric) or "" for metric in evaluations["metric"]]
        found["qualities"] = dict(zip(metrics, map(float, evaluations["quality"]), strict=True))
    elif found["quality"] is not None:
        found["qualities"] = {"": found["quality"]}
    return found


def _plain(value: Any) -> Any:
    """A value of a data frame as Python's own; None for what is missing or not finite."""
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def _curves(run: int, evaluations: pd.DataFrame | None) -> Iterable[dict[str, Any]]:
    """Quality over what the log counts, a curve a metric; of many evaluations every so many, the last one kept."""
    if evaluations is None:
        return
    for metric, rows in _by_metric(evaluations):
        of = next((name for name in ("epoch", "samples", "seconds") if rows[name].notna().all()), None)
        if of is None:
            continue
        step = -(-len(rows) // _POINTS)
        kept = rows.iloc[::-1].iloc[::step].iloc[::-1]
        points = [[float(x), float(y)] for x, y in zip(kept[of], kept["quality"], strict=True)]
        yield {"run": run, "metric": metric, "of": "epochs" if of == "epoch" else of, "points": points}


def _by_metric(evaluations: pd.DataFrame) -> list[tuple[str | None, pd.DataFrame]]:
    metrics = pd.Series([_plain(metric) or "" for metric in evaluations["metric"]], index=evaluations.index)
    return [(name or None, evaluations[metrics == name]) for name in dict.fromkeys(metrics)]


# --- groups -------------------------------------------------------------------------------------------------------


def _groups(runs: Sequence[Mapping[str, Any]]) -> Iterable[Group]:
    keys = ("benchmark", "system", "submitter", "batch_size")
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in runs:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    for members in found.values():
        for series, rows in _series(members).items():
            yield _group(rows, series)


def _series(rows: Sequence[Mapping[str, Any]]) -> dict[str | None, list[Mapping[str, Any]]]:
    """The runs by what their files' names have before the number, if every such name has two runs or more.

    MLPerf's logs name neither framework nor software, so one machine's runs with two of them differ in nothing else.
    """
    found: dict[str | None, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(_NUMBER.sub("", str(row["file"])), []).append(row)
    return found if len(found) > 1 and min(map(len, found.values())) > 1 else {None: list(rows)}


def _group(rows: Sequence[Mapping[str, Any]], series: str | None) -> Group:
    done = [row for row in rows if row["status"] == SUCCESS]
    aborted = sum(row["status"] == ABORTED for row in rows)
    found = {name: variation([row[name] for row in done]) for name in ("seconds", *QUANTITIES)}
    first = rows[0]
    drops = _OLYMPIC_DROPS.get(first["benchmark"] or "", 1)
    olympic, reason = olympic_mean([row["seconds"] if row["status"] == SUCCESS else math.inf for row in rows], drops)
    told = [name for name in ("epochs", "samples") if found[name].n]
    return Group(
        benchmark=first["benchmark"],
        system=first["system"],
        submitter=first["submitter"],
        batch_size=first["batch_size"],
        series=series,
        runs=tuple(row["run"] for row in rows),
        success=len(done),
        aborted=aborted,
        unfinished=len(rows) - len(done) - aborted,
        seconds=found["seconds"],
        epochs=found["epochs"],
        samples=found["samples"],
        logged=found["logged"],
        to_quality=max(told, key=lambda name: found[name].n) if told else None,
        olympic_seconds=olympic,
        olympic_dropped=drops,
        olympic_reason=reason,
    )


def variation(values: Iterable[float | None]) -> Variation:
    """Mean, sample standard deviation (n - 1) and coefficient of variation of the values that are known."""
    known = [float(value) for value in values if value is not None and abs(value) < _ABSURD]
    if not known:
        return Variation(0, None, None, None, None, None, "no successful run tells it")
    mean, least, most = statistics.fmean(known), min(known), max(known)
    if len(known) < 2:
        return Variation(1, mean, None, None, least, most, "one successful run has no variation: two are needed")
    std = statistics.stdev(known)
    if mean <= 0:
        return Variation(len(known), mean, std, None, least, most, "a mean that is not above 0 has no such coefficient")
    return Variation(len(known), mean, std, std / mean, least, most, None)


def olympic_mean(seconds: Sequence[float | None], drops: int = 1) -> tuple[float | None, str | None]:
    """Mean without the ``drops`` fastest and slowest runs, and why there is none.

    A run that did not reach its target is infinitely slow.
    """
    if any(value is None for value in seconds):
        return None, "a successful run has no time"
    ordered = sorted(float(value) for value in seconds if value is not None)
    if len(ordered) < 2 * drops + 1:
        few = "1 run is" if len(ordered) == 1 else f"{len(ordered)} runs are"
        ends = f"{drops} at each end {'is' if drops == 1 else 'are'}"
        return None, f"{few} too few: {ends} left out"
    kept = ordered[drops:-drops]
    if math.isinf(kept[-1]):
        return None, f"more than {drops} of {len(ordered)} runs did not reach the target"
    return statistics.fmean(kept), None


def _line(group: Group) -> str:
    name = f"{group.benchmark or 'unnamed benchmark'} on {group.system or 'unnamed system'}"
    series = f" ({group.series})" if group.series else ""
    runs = f"{len(group.runs)} run{'' if len(group.runs) == 1 else 's'}"
    parts = [f"{group.success} of {runs} reached the target"]
    if group.seconds.mean is not None:
        parts.append(f"{_seconds(group.seconds.mean)}{_of(group.seconds)}")
    if group.to_quality is not None:
        found = group.quantity(group.to_quality)
        parts.append(f"{found.mean:.6g} {group.to_quality} to quality{_of(found)}")
    if group.olympic_seconds is not None:
        parts.append(f"olympic mean {_seconds(group.olympic_seconds)}")
    return f"  {name}{series}: {'; '.join(parts)}"


def _seconds(value: float) -> str:
    """In seconds, as tables have it: three digits, and no fewer than whole ones."""
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"


def _of(found: Variation) -> str:
    return "" if found.cv is None else f" (cv {100 * found.cv:.2f} %)"
