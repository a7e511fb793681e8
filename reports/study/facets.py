"""The six facets in which AIBench Training claims diversity: which were compared, and how each came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Interval, Intervals
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import Row, View, absent, csv
from wcbench.reports.study.diversity import labels


def section(view: View) -> Section | NoteLine:
    """How many of the six, each with its ratio and interval, and the reason of each gap."""
    alone = view.alone("facets")
    if alone:
        return alone
    part = mapping(view.suites.get("facets"))
    found = rows(part.get("rows"))
    if not found:
        return absent("facets", "no facet was compared")
    by = [fmt.prose(source) for source in part.get("hotspots_by") or ()]
    only = " Hotspot functions were compared by predicted times only." if by == ["roofline-predicted"] else ""
    modelled = [f"{fmt.prose(k)} ({fmt.prose(by)})" for k, by in mapping(part.get("modelled")).items()]
    only = f" Only a model answers for {', '.join(modelled)}." if modelled else only
    intro = (
        f"Compared: {fmt.count(part.get('compared'))} of {fmt.count(part.get('of'))} facets, each in the space of "
        f"its own features. A facet that was not measured is missing; nothing else stands in for it.{only}"
    )
    blocks: list[Block] = [Text(intro), *_figure(view, found), _table(found)]
    return Section("facets", "Facet by facet", tuple(blocks))


def _figure(view: View, found: Sequence[Row]) -> Iterator[Figure]:
    known = [row for row in found if row.get("dispersion_ratio") is not None]
    if not known:
        return
    one, two = labels(view)
    shown = tuple(
        Interval(
            fmt.visible(str(row.get("facet"))),
            row["dispersion_ratio"],
            row.get("low"),
            row.get("high"),
            row.get("favours") is not None,
        )
        for row in known
    )
    told = "; ".join(f"{fmt.prose(row.get('facet'))} {fmt.number(row['dispersion_ratio'])}" for row in known)
    yield Figure(
        "facets-ratios",
        f"Dispersion ratio of {one} to {two} in each facet, with its jackknife 95 % interval. No unit; 1 favours "
        "neither. Marked: told apart.",
        f"Intervals of the dispersion ratio by facet: {told}.",
        Intervals(Axis("dispersion ratio", "number", log=True), shown, 1.0, "not told apart", "told apart"),
    )


def _table(found: Sequence[Row]) -> Table:
    heads = {
        "facet": Column("facet", keep=True),
        "compared": Column("compared"),
        "source": Column("by"),
        "dispersion_ratio": Column("ratio", "number", keep=True),
        "low": Column("low", "number"),
        "high": Column("high", "number"),
        "p": Column("p", "number"),
    }
    used = [key for key in heads if key != "source" or any(row.get(key) for row in found)]
    told = any(row.get("favours") is not None for row in found)
    columns = (*(heads[key] for key in used), *([Column("favours")] if told else []), Column("how, or why not"))
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (*(_cell(row, key) for key in used), *([_favours(row)] if told else []), fmt.prose(row.get("reason") or ""))
        for row in found
    )
    caption = "Facets: dispersion ratio where features are numbers; low and high: jackknife 95 %"
    return Table("facets-table", caption, columns, cells, more=csv("comparison0_facets"))


def _cell(row: Row, key: str) -> Any:
    return fmt.prose(row.get(key) or "") if key == "source" else row.get(key)


def _favours(row: Row) -> str:
    if row.get("favours") is not None:
        return fmt.prose(row["favours"])
    return "not told apart" if row.get("dispersion_ratio") is not None else ""
