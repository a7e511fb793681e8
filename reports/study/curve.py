"""The best subset of every size: how many are needed at which radius."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Band, Bands
from wcbench.reports.model import Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import Row, View, absent, csv, shorter

COLUMNS = (
    ("k", Column("size", "count", keep=True)),
    ("radius", Column("radius", "number", keep=True)),
    ("cost_share", Column("cost", "share")),
    ("mean_distance", Column("mean distance", "number")),
    ("radius_in_pcs", Column("radius on the map", "number")),
)


def section(view: View) -> Section | NoteLine:
    """A step function with r marked, and the sets."""
    found = [row for row in rows(view.document.get("curve")) if row.get("k") is not None]
    if not found:
        return absent("curve", fmt.prose(view.part("alternatives").get("reason") or "no sizes were solved"))
    intro = (
        "One size says little: this is the smallest subset at every radius. Where the curve is steep near r, a "
        "slightly other radius gives another size."
    )
    return Section("curve", "Size against radius", (Text(intro), *_figure(view, found), _table(view, found)))


def steps_of(found: Sequence[Row]) -> list[tuple[float, int]]:
    """(radius, members needed) from the least radius up, one for each radius."""
    known = [row for row in found if row.get("radius") is not None]
    needed = {float(row["radius"]): int(row.get("needed") or row["k"]) for row in known}
    return sorted(needed.items())


def _figure(view: View, found: Sequence[Row]) -> Iterator[Figure]:
    steps = steps_of(found)
    part = view.part("subset")
    radius, kind = part.get("radius"), part.get("radius_is")
    if len(steps) < 2:
        return
    mark = "r*" if kind == "measured" else "r"
    curve = Band("smallest subset", tuple(r for r, _ in steps), tuple(float(k) for _, k in steps))
    (least, many), (widest, few) = steps[0], steps[-1]
    yield Figure(
        "curve-figure",
        f"Members needed so that each of {fmt.count(part.get('of'))} workloads has one within the radius; every step "
        f"is solved exactly. {mark} = {fmt.number(radius)}. Distances have no unit (blocks of variance 1).",
        f"A step curve that falls from {many} members at radius {fmt.number(least)} to {few} at "
        f"{fmt.number(widest)}; at {mark} = {fmt.number(radius)} it takes {fmt.count(part.get('size'))}.",
        Bands(
            Axis("radius, distance in the space of features"),
            Axis("members needed", "count"),
            (curve,),
            marks=((mark, float(radius)),) if radius is not None else (),
            steps=True,
        ),
    )


def _table(view: View, found: Sequence[Row]) -> Table:
    used = [(field, column) for field, column in COLUMNS if any(row.get(field) is not None for row in found)]
    every = sorted(map(str, view.part("studied").get("workloads") or ()))
    first, rest = used[:2], used[2:]
    columns = (
        *(column for _, column in first),
        Column("the set of that size with the least radius"),
        *(column for _, column in rest),
    )
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (
            *(row.get(field) for field, _ in first),
            shorter(row.get("members") or (), every),
            *(row.get(field) for field, _ in rest),
        )
        for row in found
    )
    caption = "Best subset of every size; cost as a share of that of all, mean distance to the nearest member"
    return Table("curve-table", caption, columns, cells, limit=30, more=csv("curve"))
