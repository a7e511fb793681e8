"""How r* was measured: the distance of each workload to itself under changes that leave it the same task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import DotPlot, DotRow
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import DRAWN, View, absent, csv, joined

TOP = 10


def section(view: View) -> Section | NoteLine:
    """Where the radius is from, which changes move workloads most, and by which features."""
    part = view.part("radius")
    if not part:
        return absent("radius", "the study's document does not say where the radius is from")
    blocks: list[Block] = [Text(_intro(view)), Facts(tuple(_facts(view)))]
    blocks += [*_figure(view), *_by_change(view), *_by_feature(view), *_not_made(view)]
    return Section("radius", "How r* was measured", tuple(blocks))


def _intro(view: View) -> str:
    part, changes = view.part("radius"), view.part("changes")
    how = {
        "measured": "r* is not tuned.",
        "given": "The radius was given with --radius.",
        "shown": f"No r* tells these workloads apart: {fmt.prose(part.get('reason') or 'it is not known')}.",
    }.get(str(part.get("how")), "")
    if not part.get("distances"):
        why = fmt.prose(changes.get("reason") or part.get("reason") or "no changed versions are known")
        return f"{how} No distances of a workload to itself were measured: {why}."
    return (
        f"{how} Each workload was changed so that it stays the same task: other batch, length of data, precision, "
        "attention, and the like. Two workloads that are nearer than such changes move one cannot be told apart by "
        "these features. r* is the 95 % quantile of those distances, of all workloads together."
    )


def _facts(view: View) -> Iterator[Fact]:
    part, changes = view.part("radius"), view.part("changes")
    yield Fact("r*", part.get("r_star"), "number", hint="no unit: blocks of features of variance 1")
    if part.get("how") != "measured":
        yield Fact("Radius used", part.get("value"), "number", hint=fmt.prose(part.get("reason") or ""))
    yield Fact("Nearest neighbour", part.get("median_nearest_neighbour"), "number", hint="median; r* must be below it")
    yield Fact("Distances", part.get("distances"), "count", hint="changed versions that were placed")
    if part.get("left_out"):
        yield Fact("Left out", part["left_out"], "count", hint="changed versions that have no place in the space")
    yield Fact("Versions made", changes.get("made"), "count", hint="those that could not be made are listed below")


def _figure(view: View) -> Iterator[Figure]:
    moves = view.rows("moves", "workload", "change", "distance")
    values = tuple(
        (fmt.visible(str(row["workload"])), fmt.visible(str(row["change"])), float(row["distance"]))
        for row in moves
        if row["distance"] is not None
    )
    groups = tuple(dict.fromkeys(fmt.visible(str(row["change"])) for row in rows(view.part("radius").get("by_change"))))
    groups = groups or tuple(dict.fromkeys(change for _, change, _ in values))
    if not values or len({name for name, *_ in values}) > DRAWN:
        return
    told = "; ".join(
        f"{fmt.prose(row.get('change'))} median {fmt.number(row.get('median'))}, largest "
        f"{fmt.number(row.get('largest'))}"
        for row in rows(view.part("radius").get("by_change"))[:8]
    )
    yield Figure(
        "radius-moves",
        "How far each change moves each workload from itself (dots); no unit. The 95 % quantile of all dots is "
        f"r* = {fmt.number(view.part('radius').get('r_star'))}. n = {fmt.plural(len(values), 'distance')}.",
        f"Dots on a line for each change: {told}.",
        DotPlot(groups, (DotRow("distance to itself, changed", "number", "", False, values),)),
    )


def _by_change(view: View) -> Iterator[Table]:
    found = rows(view.part("radius").get("by_change"))
    fields = ("change", "distances", "median", "largest", "beyond")
    columns = (
        Column("change", keep=True),
        Column("workloads", "count"),
        Column("median", "number", group="distance"),
        Column("largest", "number", group="distance"),
        Column("beyond r*", "share"),
    )
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        yield Table("radius-changes", "Distance of a workload to itself, by change", columns, cells)


def _by_feature(view: View) -> Iterator[Table]:
    found = view.rows("moves_by_feature", "feature", "share")
    fields = ["feature", *(["block"] if found and "block" in found[0] else []), "share"]
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if not cells:
        cells = tuple((row.get("feature"), row.get("share")) for row in rows(view.part("radius").get("carried_by")))
        fields = ["feature", "share"]
    heads = {
        "feature": Column("feature", "name", keep=True),
        "block": Column("block"),
        "share": Column("share", "share"),
    }
    if cells:
        caption = "Which features carry the changes: share of the mean square of all moves"
        columns = tuple(heads[field] for field in fields)
        yield Table("radius-features", caption, columns, cells, limit=TOP, more=csv("moves_by_feature"))


def _not_made(view: View) -> Iterator[Table]:
    changes = view.part("changes")
    cells: list[tuple[Any, ...]] = [
        (joined([f"{row.get('workload')}"]), fmt.prose(row.get("change")), "failed", fmt.prose(row.get("reason")))
        for row in rows(changes.get("failed"))
    ]
    cells += [
        (fmt.plural(row["workloads"], "workload"), joined(row.get("change") or ()), "skipped", fmt.prose(row["reason"]))
        for row in rows(changes.get("skipped"))
        if row.get("workloads") is not None
    ]
    if cells:
        columns = (Column("of", "name", keep=True), Column("changes"), Column("state"), Column("reason"))
        yield Table(
            "radius-not-made", "Changes that r* was not measured with", columns, tuple(cells), 12, csv("changes")
        )
