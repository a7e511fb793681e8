"""How training runs reached their target: each run, and each group of runs of one benchmark and system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Curve, QualityCurves
from wcbench.reports.model import Block, Column, Figure, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, file_name, mapping, notes_blocks, rows, show_command

_MEANING = (
    "Over the runs that reached their target. cv is the coefficient of variation: sample standard deviation (n - 1) "
    "over the mean. The olympic mean leaves out the fastest and the slowest runs, as MLPerf scores; a run that did not "
    "reach its target counts as the slowest."
)
FIGURES, POINTS = 4, 2000
"""Groups that have a figure, and points of all lines of one."""
SENTENCES = 5
"""Groups of runs of which a sentence tells; all of them are in the table."""

_RUN_COLUMNS = (
    Column("run", "count"),
    Column("benchmark"),
    Column("system"),
    Column("batch", "count"),
    Column("seed"),
    Column("status"),
    Column("time to train", "time_s", keep=True),
    Column("epochs", "number", keep=True),
    Column("samples", "count", keep=True),
    Column("quality", keep=True),
    Column("file", "name"),
)
_GROUP_COLUMNS = (
    Column("benchmark"),
    Column("system"),
    Column("batch", "count"),
    Column("runs", "count", keep=True),
    Column("reached", "count"),
    Column("aborted", "count"),
    Column("time to train", "time_s", keep=True, group="time"),
    Column("time cv", "share", keep=True),
    Column("to quality", "number", keep=True),
    Column("of", keep=True),
    Column("cv", "share", keep=True),
    Column("olympic mean", "time_s", keep=True, group="time"),
)


def section(summary: Summary) -> Section | None:
    """A sentence a group, groups and runs as tables, and why a figure is missing."""
    part = block(summary, "convergence")
    if part is None:
        return None
    groups, runs = rows(part.get("groups")), rows(part.get("rows"))
    more = show_command(summary, "convergence")
    sentences = " ".join(sentence(group) for group in groups[:SENTENCES])
    if len(groups) > SENTENCES:
        sentences += f" The table has {fmt.plural(len(groups) - SENTENCES, 'group')} more."
    by_group, by_run = tuple(_group(group) for group in groups), tuple(_run(row) for row in runs)
    blocks: tuple[Block, ...] = (
        Text(f"{sentences} {_MEANING}".strip()),
        *_figures(part, groups),
        Table("convergence-groups", "Runs by benchmark and system", _GROUP_COLUMNS, by_group, more=more),
        Table("convergence-runs", "Training runs", _RUN_COLUMNS, by_run, more=more),
        *_reasons(groups),
        *notes_blocks(summary, "convergence", "trainings", "epochs"),
    )
    return Section("convergence", "Convergence", blocks)


def sentence(group: Mapping[str, Any]) -> str:
    """``5 of 5 runs of resnet on X reached the target: 39.8 min on average (cv 1.5 %), 41 epochs to quality.``"""
    seconds, told, amount = mapping(group.get("seconds")), group.get("to_quality"), _to_quality(group)
    mean = seconds.get("mean")
    words = [
        "" if fmt.absent(mean) else f"{fmt.seconds(mean)} to train on average{_cv(seconds)}",
        "" if told is None else f"{fmt.number(amount.get('mean'))} {told} to quality{_cv(amount)}",
    ]
    said = ", ".join(word for word in words if word)
    counted = f"{fmt.count(group.get('success'))} of {fmt.plural(len(group.get('runs') or ()), 'run')}"
    return f"{counted} of {_name(group)} reached the target{f': {said}' if said else ''}."


def _figures(part: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Quality of the runs of each of the first groups."""
    found = [(group, curves) for group in groups if (curves := _curves(part, group))]
    targets = {row.get("run"): row.get("target") for row in rows(part.get("rows"))}
    for number, (group, curves) in enumerate(found[:FIGURES], start=1):
        names = dict.fromkeys(str(curve.get("metric") or "") for curve in curves)
        wanted = [targets.get(curve.get("run")) for curve in curves] if len(names) == 1 else []
        runs, of = len({curve.get("run") for curve in curves}), str(curves[0]["of"])
        every = -(-sum(len(curve["points"]) for curve in curves) // POINTS)
        thin = tuple(Curve(fmt.prose(curve.get("metric") or ""), _thin(curve["points"], every)) for curve in curves)
        left = f" {len(found) - FIGURES} more groups are in the tables alone." if number == FIGURES < len(found) else ""
        yield Figure(
            f"convergence-figure-{number}",
            f"Quality of {fmt.plural(runs, 'run')} of {_name(group)} over {of}.{left}",
            f"A line for each of {fmt.plural(runs, 'run')}, quality over {of}. {sentence(group)}",
            QualityCurves(
                f"quality{_metric(names)}",
                of,
                thin,
                tuple(sorted({float(level) for level in wanted if level is not None})),
            ),
        )


def _metric(names: Mapping[str, None]) -> str:
    """What is measured, where it is one and the log names it."""
    only = next(iter(names)) if len(names) == 1 else ""
    return f" ({fmt.shorten(only, 40)})" if only else ""


def _curves(part: Mapping[str, Any], group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The curves of a group's runs along what most of them count, those of a single point left out."""
    mine = [c for c in rows(part.get("curves")) if c.get("run") in (group.get("runs") or ()) and c.get("points")]
    along = [str(curve.get("of")) for curve in mine]
    of = max(dict.fromkeys(along), key=along.count, default=None)
    kept = [curve for curve in mine if curve.get("of") == of]
    return kept if any(len(curve["points"]) > 1 for curve in kept) else []


def _thin(points: Sequence[Sequence[float]], every: int) -> tuple[tuple[float, float], ...]:
    """Every so many points, the last one among them."""
    return tuple((float(x), float(y)) for x, y in points[::-1][::every][::-1])


def _name(group: Mapping[str, Any]) -> str:
    series = _series(group)
    named = f"{group.get('benchmark') or 'an unnamed benchmark'} on {group.get('system') or 'an unnamed system'}"
    return fmt.prose(f"{named} ({series})" if series else named)


def _series(group: Mapping[str, Any]) -> str:
    """What the files of a series have in common, without their folders."""
    series = str(group.get("series") or "")
    return series.rpartition("/")[2] or series


def _cv(part: Mapping[str, Any]) -> str:
    return "" if fmt.absent(part.get("cv")) else f" (cv {fmt.share(part.get('cv'))})"


def _to_quality(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(group.get(str(group.get("to_quality"))))


def _group(group: Mapping[str, Any]) -> tuple[Any, ...]:
    seconds, amount = mapping(group.get("seconds")), _to_quality(group)
    return (
        group.get("benchmark"),
        _system(group),
        group.get("batch_size"),
        len(group.get("runs") or ()),
        group.get("success"),
        group.get("aborted"),
        seconds.get("mean"),
        seconds.get("cv"),
        amount.get("mean"),
        group.get("to_quality"),
        amount.get("cv"),
        group.get("olympic_seconds"),
    )


def _system(group: Mapping[str, Any]) -> str | None:
    system, series = group.get("system"), _series(group)
    return f"{system or fmt.ABSENT} ({series})" if series else system


def _run(row: Mapping[str, Any]) -> tuple[Any, ...]:
    fields = ("run", "benchmark", "system", "batch_size", "seed", "status", "seconds", "epochs", "samples")
    seed = row.get("seed")
    cells = [row.get(field) for field in fields]
    cells[4] = None if seed is None else str(seed)  # a name, not an amount: no separators
    return (*cells, _quality(row), None if row.get("file") is None else file_name(row))


def _quality(row: Mapping[str, Any]) -> str | None:
    """``0.759``, or ``BBOX 0.378, SEGM 0.344`` where an evaluation gives several."""
    values = mapping(row.get("qualities"))
    return ", ".join(f"{metric} {fmt.number(value)}".strip() for metric, value in values.items()) or None


def _reasons(groups: Any) -> Iterator[Notes]:
    """Why a figure is missing, each reason once."""
    found = dict.fromkeys(text for group in groups for text in _missing(group))
    if found:
        yield Notes(tuple(NoteLine("convergence", fmt.prose(text)) for text in found))


def _missing(group: Mapping[str, Any]) -> Iterator[str]:
    for label, part in (
        ("cv of the time to train", mapping(group.get("seconds"))),
        ("cv to quality", _to_quality(group)),
    ):
        if part.get("reason"):
            yield f"{_name(group)}, {label}: {part['reason']}."
    if group.get("olympic_reason"):
        yield f"{_name(group)}, olympic mean: {group['olympic_reason']}."
    if group.get("to_quality") is None:
        yield f"{_name(group)}, epochs to quality: no successful run tells epochs or samples."
