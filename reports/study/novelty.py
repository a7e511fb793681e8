"""Which tasks of one suite have no task of the other within r*: by name, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import Row, View, csv, joined


def section(view: View) -> Section | NoteLine:
    """Two tables, farthest first; who is shared or kin."""
    alone = view.alone("novelty")
    if alone:
        return alone
    sides = rows(view.suites.get("novelty"))
    blocks: list[Block] = [Text(_told(view, side)) for side in sides]
    blocks.append(Text("The number of new tasks grows with the size of their suite, and falls with that of the other."))
    blocks += [_table(f"novelty-{number}", side) for number, side in enumerate(sides, start=1) if side.get("tasks")]
    return Section("novelty", "What is new in each suite", (*blocks, *_apart(view)))


def _told(view: View, side: Row) -> str:
    of, to = fmt.prose(side.get("of")), fmt.prose(side.get("to"))
    if side.get("novel") is None:
        return f"New tasks of {of} are not counted: {fmt.prose(side.get('reason') or 'no r* is known')}."
    chance = ""
    if side.get("expected") is not None:
        p = fmt.number(side.get("p"))
        chance = f" With exchanged labels there are {fmt.number(side['expected'])} on average (p = {p})."
    names = f": {joined(side['novel'], 40)}" if side["novel"] else ""
    count = f"{len(side['novel'])} of {fmt.count(side.get('size'))}"
    radius = fmt.number(view.suites.get("radius"))
    return f"{count} tasks of {of} are further than r* = {radius} from every task of {to}{names}.{chance}"


def _table(name: str, side: Row) -> Table:
    found = rows(side.get("tasks"))
    columns = (
        Column("task", "name", keep=True),
        Column("nearest there", "name"),
        Column("distance", "number", keep=True),
        Column("new"),
    )
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (row.get("task"), row.get("nearest"), row.get("distance"), row.get("novel")) for row in found
    )
    caption = (
        f"{fmt.prose(side.get('of'))}: distance to the nearest task of {fmt.prose(side.get('to'))}; new: beyond r*"
    )
    return Table(name, caption, columns, cells, limit=60, more=csv("comparison0_novelty"))


def _apart(view: View) -> Iterator[Text]:
    shared, kin = view.suites.get("shared") or (), view.suites.get("kin") or ()
    if shared:
        yield Text(f"One task under two names, kept fixed in all permutations: {joined(shared)}.")
    if kin:
        yield Text(f"Of a model or family that the other suite has too: {joined(kin)}.")
