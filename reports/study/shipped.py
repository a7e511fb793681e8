"""The suites as shipped: what grows or falls with the number of tasks alone, labelled so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports.model import Column, NoteLine, Section, Table, Text
from wcbench.reports.study._common import View, absent, csv
from wcbench.reports.study.diversity import how, labels, measures

SHIPPED = "1"


def section(view: View) -> Section | NoteLine:
    """Ranges, hulls and totals; coverage with what chance gives."""
    alone = view.alone("as shipped")
    if alone:
        return alone
    tables = (*_shipped(view), *_coverage(view))
    if not tables:
        return absent("as shipped", "the comparison has no such measures")
    intro = (
        "What each suite reaches as it is. The larger one may well win, by its size alone: this is no evidence of "
        "diversity per task, and no ratio is given."
    )
    return Section("shipped", "The suites as shipped", (Text(intro), *tables))


def _shipped(view: View) -> Iterator[Table]:
    found = [row for row in measures(view, SHIPPED) if row.get("size_dependent")]
    one, two = labels(view)
    columns = (Column("measure", keep=True), Column(one, "number"), Column(two, "number"), Column("how"))
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (row.get("measure"), row.get("a"), row.get("b"), how({**row, "reason": ""})) for row in found
    )
    if cells:
        caption = "As shipped: what grows or falls with the number of tasks alone; no evidence of diversity per task"
        yield Table("shipped-measures", caption, columns, cells, limit=9, more=csv("comparison0_measures"))


def _coverage(view: View) -> Iterator[Table]:
    found = view.rows("comparison0_coverage", "reference", "by", "k", "coverage", "null", "excess")
    columns = (
        Column("of"),
        Column("by"),
        Column("k", "count"),
        Column("coverage", "number", keep=True),
        Column("null", "number"),
        Column("less null", "number", keep=True),
    )
    fields = ("reference", "by", "k", "coverage", "null", "excess")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if cells:
        caption = (
            "Coverage: share of one suite's tasks with a task of the other among their k nearest (Naeem et al. 2020), "
            "and what two equal populations of these sizes would give"
        )
        yield Table("shipped-coverage", caption, columns, cells, more=csv("comparison0_coverage"))
