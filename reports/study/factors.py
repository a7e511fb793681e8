"""Suites seen through names: levels of the factors of learning, and domains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import View, absent, csv, joined
from wcbench.reports.study.diversity import labels


def section(view: View) -> Section | NoteLine:
    """One-way coverage by level, pairs of factors, and Hill numbers of domains."""
    alone = view.alone("factors")
    if alone:
        return alone
    tables = (*_levels(view), *_pairs(view), *_classes(view))
    if not tables:
        return absent("factors", "factors and domains of the workloads are not known")
    intro = (
        "What the tasks are, rather than how they run: how many levels of each factor a suite has. The counts grow "
        "with the number of tasks, so each stands beside what as many tasks as the smaller suite has would show on "
        "average."
    )
    return Section("factors", "Factors and domains", (Text(intro), *tables))


def _levels(view: View) -> Iterator[Table]:
    found = [row for row in rows(view.suites.get("factors")) if row.get("way") == 1]
    one, two = labels(view)
    columns = (
        Column("factor", keep=True),
        Column("levels seen", "count"),
        Column(one, "count"),
        Column("of m tasks", "number"),
        Column(two, "count"),
        Column("of m tasks", "number"),
        Column("m", "count"),
    )
    fields = ("factor", "seen", "a", "a_at_m", "b", "b_at_m", "m")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        caption = "Levels of each factor; of m tasks: expected of so many tasks of the suite"
        yield Table("factors-levels", caption, columns, cells, more=csv("comparison0_factors"))
    names = tuple(
        (row.get("factor"), *(joined(row.get(side) or (), 12) for side in ("only_a", "only_b"))) for row in found
    )
    if names:
        heads = (Column("factor", keep=True), Column(f"only {one}"), Column(f"only {two}"))
        yield Table("factors-names", "Levels that one suite alone has", heads, names, more=csv("comparison0_factors"))


def _pairs(view: View) -> Iterator[Table]:
    found = [row for row in rows(view.suites.get("factors")) if row.get("way") == 2]
    one, two = labels(view)
    columns = (
        Column("pair of factors", keep=True),
        Column("possible", "count"),
        Column("seen", "count"),
        Column(one, "count"),
        Column("of m tasks", "number"),
        Column(two, "count"),
        Column("of m tasks", "number"),
    )
    fields = ("factor", "possible", "seen", "a", "a_at_m", "b", "b_at_m")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        caption = "Pairs of levels of two factors (two-way coverage)"
        yield Table("factors-pairs", caption, columns, cells, limit=6, more=csv("comparison0_factors"))


def _classes(view: View) -> Iterator[Table]:
    found = rows(view.suites.get("classes"))
    one, two = labels(view)
    columns = (
        Column("order q", "count", keep=True),
        Column(one, "number"),
        Column("of m tasks", "number"),
        Column(two, "number"),
        Column("of m tasks", "number"),
        Column("m", "count"),
        Column("sample coverage", "share"),
    )
    fields = ("order", "a", "a_at_m", "b", "b_at_m", "m", "coverage")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        caption = "Hill numbers of domains: effective number of domains (q = 0 counts them all), raw and at equal size"
        yield Table("factors-domains", fmt.prose(caption), columns, cells)
