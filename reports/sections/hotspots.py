"""Where the time of a step goes, by operator or kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Bar, BarPanel, Bars, Block, Column, Figure, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

TOP = 15
TABLE_ROWS = 30


def section(summary: Summary) -> Section | None:
    """The longest operators or kernels as bars, and a table with their full names."""
    part = block(summary, "hotspots")
    if part is None:
        return None
    spots = rows(part.get("rows"))
    blocks: list[Block] = [Text(_intro(part, spots))]
    if spots:
        blocks += [_figure(part, spots), _table(summary, part, spots)]
    return Section("hotspots", "Hotspots", (*blocks, *notes_blocks(summary, "hotspots", "timeline")))


def noun(part: Mapping[str, Any]) -> str:
    """What the rows are: kernels on a device, operators on a CPU host."""
    return "kernel" if "kernel" in str(part.get("of")) else "operator"


def cumulative(spots: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """The running total of the rows' shares, as far as they are known."""
    known = [row.get("time_share") for row in spots]
    end = known.index(None) if None in known else len(known)
    return [*accumulate(float(value or 0) for value in known[:end]), *[None] * (len(known) - end)]


def _intro(part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]]) -> str:
    of = str(part.get("of") or "time")
    if not spots:
        return f"No {noun(part)} was recorded. {measured(part)}"
    total, steps = fmt.show(part.get("total_ns"), "time_ns"), part.get("steps")
    over = f", mean of {fmt.plural(steps, 'step')}" if steps is not None else ""
    return (
        f"{of.capitalize()} per step: {total} in {fmt.plural(len(spots), noun(part))}{over}. "
        f"Everything in this section is per step. {measured(part)}"
    )


def _figure(part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]]) -> Figure:
    sums = cumulative(spots[:TOP])
    bars = tuple(
        Bar(str(row.get("name")), str(row.get("category")), float(row["time_share"]), total)
        for row, total in zip(spots, sums, strict=False)
        if total is not None
    )
    of = part.get("of") or "time"
    listed = "; ".join(f"{fmt.shorten(bar.name, 60)} {fmt.share(bar.share)}" for bar in bars[:5])
    last = f" Together the {len(bars)} make up {fmt.share(bars[-1].cumulative)}." if bars else ""
    return Figure(
        "hotspots-figure",
        f"The {len(bars)} longest of {fmt.plural(len(spots), noun(part))} by share of {of}; Σ is the running total.",
        f"Horizontal bars of the {len(bars)} longest of {len(spots)}, share of {of}: {listed}.{last}",
        Bars(f"share of {of} (%)", (BarPanel("", bars),), legend=True),
    )


def _table(summary: Summary, part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("#", "count"),
        Column("share", "share"),  # before the name, so that a phone shows both without scrolling
        Column(noun(part), "name"),
        Column("time", "time_ns"),
        Column("Σ share", "share"),
        Column("calls", "number"),
        Column("category"),
    )
    cells = tuple(
        (rank, row.get("time_share"), row.get("name"), row.get("time_ns"), total, row.get("calls"), row.get("category"))
        for rank, (row, total) in enumerate(zip(spots, cumulative(spots), strict=True), start=1)
    )
    caption = f"{noun(part).capitalize()}s, longest first ({part.get('of') or 'time'} per step)"
    return Table("hotspots-table", caption, columns, cells, TABLE_ROWS, show_command(summary, "hotspots"))
