"""The subset: its size, who stands for whom, and what is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping
from wcbench.reports.study._common import Row, View, absent, csv, joined, unit_of

RADII = {
    "measured": "r*: 95 % quantile of how far a workload moves when it is changed and stays the same task",
    "given": "given with --radius",
    "shown": "no r*: the median distance to the nearest neighbour, so that a subset can be shown",
}


def section(view: View) -> Section | NoteLine:
    """Verdict, facts, and a table of members; another of those who are left out."""
    part = view.part("subset")
    if not part.get("members") and not part.get("size"):
        return absent("subset", "the study's document names none")
    blocks: list[Block] = [Text(_intro(view)), Facts(tuple(_facts(view))), *_members(view), *_left_out(view)]
    return Section("subset", "The subset", tuple(blocks))


def _intro(view: View) -> str:
    part = view.part("subset")
    words = [fmt.prose(part.get("verdict") or "")]
    if "upper" in part:
        words.append("Beyond some hundreds of workloads a cover comes with an upper and a lower bound, and no proof.")
    else:
        words.append("Each workload has a member within the radius; distances are of the full space of features.")
    return " ".join(word for word in words if word)


def _facts(view: View) -> Iterator[Fact]:
    part, cost, stable = view.part("subset"), view.part("cost"), view.part("stability")
    if "upper" in part:
        yield Fact("Members, at most", part.get("upper"), "count", hint=f"of {fmt.count(part.get('of'))} workloads")
        yield Fact("Members, at least", part.get("lower"), "count", hint="no two of these share a coverer")
    else:
        yield Fact("Members", part.get("size"), "count", hint=f"of {fmt.count(part.get('of'))} workloads")
    yield Fact("Radius", part.get("radius"), "number", hint=RADII.get(str(part.get("radius_is")), ""))
    yield Fact("Reached", part.get("reached"), "number", hint="largest distance of a workload to its member")
    if part.get("reached_in_pcs") is not None:
        yield Fact("Reached on the map", part["reached_in_pcs"], "number", hint="the same between components kept")
    yield Fact("Cost saved", cost.get("saved"), "share", hint=_cost(view))
    if not stable.get("reason") and stable:
        hint = f"mean Jaccard with the subsets of {fmt.count(stable.get('draws'))} draws of 80 % of the workloads"
        yield Fact("Stability", stable.get("jaccard"), "share", hint=hint)


def _cost(view: View) -> str:
    cost = view.part("cost")
    if cost.get("saved") is None:
        return fmt.prose(cost.get("reason") or "not known")
    kind = "" if cost.get("measured") else "; nobody measured it"
    return f"of the {fmt.prose(cost.get('of') or 'cost given')}{kind}"


def _members(view: View) -> Iterator[Table]:
    """A row a member: those who stand for others first."""
    own = {str(row["workload"]): row for row in view.rows("subset", "workload", "covered_by")}
    covers = mapping(view.part("subset").get("covers"))
    served = {name: [other for other in covers.get(name) or _served(own, name) if other != name] for name in _all(view)}
    columns: list[tuple[Column, Callable[[str], Any]]] = [
        (Column("member", "name", keep=True), lambda name: name),
        (Column("stands for"), lambda name: joined(served[name], 60) if served[name] else "itself alone"),
    ]
    first = next(iter(own.values()), {})
    if "core" in first:
        columns.append((Column("in every smallest set"), lambda name: own.get(name, {}).get("core")))
    if "frequency" in first:
        columns.append((Column("chosen in draws", "share"), lambda name: own.get(name, {}).get("frequency")))
    if any(row.get("cost") is not None for row in own.values()):
        cost = unit_of(view.part("cost").get("unit"))
        columns.append((cost.column("cost"), lambda name: own.get(name, {}).get("cost")))
    ordered = sorted(_all(view), key=lambda name: (-len(served[name]), name))
    cells = tuple(tuple(cell(name) for _, cell in columns) for name in ordered)
    if cells:
        of = fmt.prose(view.part("cost").get("of") or "")
        caption = f"The members, and for whom each stands (its nearest){f'; cost: {of}' if of else ''}"
        yield Table("subset-members", caption, tuple(column for column, _ in columns), cells, more=csv("subset"))


def _all(view: View) -> list[str]:
    return list(map(str, view.part("subset").get("members") or ()))


def _served(own: dict[str, Row], member: str) -> list[str]:
    return [name for name, row in own.items() if row.get("covered_by") == member]


def _left_out(view: View) -> Iterator[Table]:
    """Who is not in the subset, and how near the member is that stands for it."""
    rows = [row for row in view.rows("subset", "workload", "covered_by", "distance") if not _is_member(view, row)]
    if not rows or not view.members:
        return
    columns = [Column("workload", "name", keep=True), Column("stood for by", "name"), Column("distance", "number")]
    fields = ["workload", "covered_by", "distance"]
    if "frequency" in rows[0]:
        columns.append(Column("chosen in draws", "share"))
        fields.append("frequency")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in rows)
    caption = "Who is left out; distance to the member in the full space (no unit: blocks of variance 1)"
    yield Table("subset-left-out", caption, tuple(columns), cells, more=csv("subset"))


def _is_member(view: View, row: Row) -> bool:
    return str(row["workload"]) in view.members
