"""How much of a weighted population lies near a suite: representativeness, which is not diversity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import View, absent, csv


def section(view: View) -> Section | NoteLine:
    """The share of the weight within r* of each suite, and who has no place."""
    part = view.part("population")
    if not part or part.get("reason"):
        why = part.get("reason") or "no population of workloads is given (--population), so none is claimed"
        return absent("representativeness", why)
    intro = " ".join(
        (
            "Representativeness is another question than diversity: how much of this population, by weight, lies "
            "within the radius of a task.",
            *(fmt.prose(sentence) for sentence in part.get("sentences") or ()),
        )
    )
    blocks: list[Block] = [Text(intro), Facts(tuple(_facts(view))), *_suites(view)]
    lines = tuple(NoteLine(fmt.prose(k), fmt.prose(v)) for k, v in list(mapping(part.get("left_out")).items())[:12])
    return Section("population", "Against a population", (*blocks, *([Notes(lines)] if lines else [])))


def _facts(view: View) -> Iterator[Fact]:
    part = view.part("population")
    yield Fact("Population", part.get("title"))
    yield Fact("Items", part.get("items"), "count")
    yield Fact("Placed", part.get("placed"), "share", hint="of the weight; the rest has no place in the space")
    yield Fact("Radius", part.get("radius"), "number")


def _suites(view: View) -> Iterator[Table]:
    fields = ("suite", "share", "share_of_placed", "tasks")
    found = rows(view.part("population").get("suites"))
    columns = (
        Column("suite", keep=True),
        Column("within the radius", "share", keep=True),
        Column("of what is placed", "share"),
        Column("tasks", "count"),
    )
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        yield Table("population-suites", "Share of the population's weight", columns, cells, more=csv("population"))
