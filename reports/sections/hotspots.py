"""Where the time of a step goes, by operator or kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Bar, BarPanel, Bars
from wcbench.reports.model import Block, Column, Figure, Section, Table, Text
from wcbench.reports.sections._common import (
    Summary,
    block,
    imported,
    mapping,
    measured,
    notes_blocks,
    rows,
    show_command,
)

COPY = "memory copy"
"""The category of the driver's copies and fills."""
TOP = 15
TABLE_ROWS = 30
_BY_RANK = (
    ("rank_min_ns", Column("least rank", "time_ns", keep=True, group="time")),
    ("rank_max_ns", Column("most rank", "time_ns", keep=True, group="time")),
)


def section(summary: Summary) -> Section | None:
    """The longest operators or kernels as bars, and a table with their full names."""
    part = block(summary, "hotspots")
    if part is None:
        return None
    spots = rows(part.get("rows"))
    whole = _whole(summary, part)
    blocks: list[Block] = [Text(_intro(part, spots, bool(whole)))]
    if spots:
        blocks += [_figure(part, spots), _table(summary, part, spots)]
    blocks += whole
    return Section("hotspots", "Hotspots", (*blocks, *notes_blocks(summary, "hotspots", "timeline")))


def noun(part: Mapping[str, Any]) -> str:
    """What the rows are: kernels on a device, operators on a CPU host."""
    return "kernel" if "kernel" in str(part.get("of")) else "operator"


def counted(part: Mapping[str, Any], amount: int) -> str:
    """``12 operators``, ``51 kernels``; a device's copies and fills are no kernels, and counted by their name too."""
    copies = noun(part) == "kernel" and any(row.get("category") == COPY for row in rows(part.get("rows")))
    return f"{fmt.count(amount)} kernels, copies and fills" if copies and amount > 1 else fmt.plural(amount, noun(part))


def _intro(part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]], whole: bool) -> str:
    of = str(part.get("of") or "time")
    if not spots:
        return f"No {noun(part)} was recorded. {measured(part)}"
    total = fmt.show(part.get("total_ns"), "time_ns")
    return (
        f"{of.capitalize()} {per(part)}: {total} in {counted(part, len(spots))}{_over(part)}. "
        f"{_basis(part, whole)}{_waiting(part)}{measured(part)}"
    )


def per(part: Mapping[str, Any]) -> str:
    """What the figures are of."""
    words = {"trace": "of the whole trace", "sums": "of the whole run", "all": "of the whole record"}
    return words.get(str(part.get("basis")), "per step")


def _over(part: Mapping[str, Any]) -> str:
    steps, ranks = part.get("steps"), part.get("ranks") or 1
    if steps is None or part.get("basis") == "all":
        return ""
    if part.get("basis") in ("trace", "sums"):
        return f", mean over {ranks} ranks" if ranks > 1 else ""
    each = f" on each of {ranks} ranks" if ranks > 1 else ""
    return f", mean of {fmt.plural(steps, 'step')}{each}"


def _basis(part: Mapping[str, Any], whole: bool) -> str:
    """How far the figures reach; ``whole`` says that a second table shows what lies outside the steps too."""
    basis = part.get("basis")
    if basis == "trace":
        return "The file marks no steps: the whole of it counts as one. "
    if basis == "sums":
        return "The file holds sums of a whole run and no single executions, so nothing here is per step. "
    if basis == "all":
        return "No step is marked around any of it, so nothing here is per step. "
    if not whole:
        return "Everything in this section is per step. "
    held = fmt.share(part.get("coverage"))
    return f"The steps hold {held} of the time in the record; the second table is of all of it. "


def _waiting(part: Mapping[str, Any]) -> str:
    calls = part.get("waiting_calls")
    if not calls:
        return ""
    time = fmt.show(part.get("waiting_ns"), "time_ns")
    return f"{fmt.plural(calls, 'record')} of synchronization ({time}) left out: waiting is no work. "


def _whole(summary: Summary, part: Mapping[str, Any]) -> list[Block]:
    """The longest of the whole record, where steps hold a part of it only."""
    whole = mapping(part.get("whole"))
    if part.get("basis") != "steps" or not imported(summary) or (part.get("coverage") or 0) >= 1:
        return []
    fields = ("time_share", "name", "time_ns", "calls")
    columns = (
        Column("share", "share"),
        Column(noun(part), "name"),
        Column("time", "time_ns"),
        Column("calls", "count"),
    )
    cells = tuple(tuple(row.get(field) for field in fields) for row in rows(whole.get("rows")))
    total = fmt.show(whole.get("total_ns"), "time_ns")
    caption = f"The whole record, in steps or not: {total} in {fmt.plural(whole.get('calls') or 0, 'execution')}"
    return [Table("hotspots-whole", caption, columns, cells, more=show_command(summary, "hotspots"))]


def _figure(part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]]) -> Figure:
    bars = tuple(
        Bar(str(row.get("name")), str(row.get("category")), float(row["time_share"]), row.get("cumulative_share"))
        for row in spots[:TOP]
        if row.get("time_share") is not None
    )
    of = part.get("of") or "time"
    names = fmt.apart([bar.name for bar in bars[:5]], 60)
    listed = "; ".join(f"{name} {fmt.share(bar.share)}" for name, bar in zip(names, bars[:5], strict=True))
    together = bars[-1].cumulative if bars else None
    last = "" if together is None else f" Together the {len(bars)} make up {fmt.share(together)}."
    return Figure(
        "hotspots-figure",
        f"The {len(bars)} longest of {counted(part, len(spots))} by share of {of}; Σ is the running total.",
        f"Horizontal bars of the {len(bars)} longest of {len(spots)}, share of {of}: {listed}.{last}",
        Bars(f"share of {of} (%)", (BarPanel("", bars),), legend=True),
    )


def _table(summary: Summary, part: Mapping[str, Any], spots: Sequence[Mapping[str, Any]]) -> Table:
    by_rank = [item for item in _BY_RANK if any(row.get(item[0]) is not None for row in spots)]
    columns = (
        Column("#", "count"),
        Column("share", "share"),  # before the name, so that a phone shows both without scrolling
        Column(noun(part), "name"),
        Column("time", "time_ns", keep=True, group="time"),
        *(column for _, column in by_rank),
        Column("Σ share", "share"),
        Column("calls", "number"),
        Column("category"),
    )
    fields = [field for field, _ in by_rank]
    cells = tuple(
        (
            rank,
            *(row.get(field) for field in ("time_share", "name", "time_ns", *fields)),
            *(row.get(field) for field in ("cumulative_share", "calls", "category")),
        )
        for rank, row in enumerate(spots, start=1)
    )
    caption = f"{noun(part).capitalize()}s, longest first ({part.get('of') or 'time'} {per(part)})"
    caption += "; least and most: the time on the rank that spends least, and most" if by_rank else ""
    return Table("hotspots-table", caption, columns, cells, TABLE_ROWS, show_command(summary, "hotspots"))
