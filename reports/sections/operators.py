"""Every operator of a step by name and phase: calls, FLOPs and bytes, whatever they cost in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, mapping, notes_blocks, rows, show_command
from wcbench.reports.sections.complexity import counted_on

TABLE_ROWS = 25
COLUMNS = (
    ("flops_all", Column("work, all", "si_each", "FLOP")),  # before the name, so that a phone shows it
    ("name", Column("operator", "name")),
    ("phase", Column("phase")),
    ("calls", Column("calls", "count")),
    ("flops_matrix", Column("matrix class", "si_each", "FLOP")),
    ("bytes_read", Column("read", "bytes_each")),
    ("bytes_written", Column("written", "bytes_each")),
)


def section(summary: Summary) -> Section | None:
    """A table of operators by phase, and how far they could run side by side."""
    part = block(summary, "operators")
    if part is None:
        return None
    listed = rows(part.get("rows"))
    blocks: list[Block] = [Text(_intro(summary, part))]
    graph = mapping(summary.get("memory"))
    if graph.get("dag_depth") is not None:
        blocks.append(_graph(graph))
    if listed:
        caption = "Operators of one step by phase, most work first; bytes of each operator alone, without reuse"
        cells = tuple(tuple(row.get(field) for field, _ in COLUMNS) for row in listed)
        columns, more = tuple(column for _, column in COLUMNS), show_command(summary, "operators")
        blocks.append(Table("operators-table", caption, columns, cells, TABLE_ROWS, more))
    return Section("operators", "Operators", (*blocks, *notes_blocks(summary, "operators")))


def _intro(summary: Summary, part: Mapping[str, Any]) -> str:
    listed, calls = rows(part.get("rows")), mapping(summary.get("complexity")).get("operator_calls")
    if not listed:
        return f"No operator was recorded. {counted_on(part)}"
    called = "" if calls is None else f", called {fmt.count(calls)} times in all"
    kinds = fmt.plural(len(listed), "row")
    return f"The work of one step: {kinds} of operator and phase{called}. {counted_on(part)}"


def _graph(part: Mapping[str, Any]) -> Facts:
    chain = "operators that wait for each other, one after the other"
    return Facts(
        (
            Fact("Longest chain", part.get("dag_depth"), "count", hint=chain),
            Fact("Side by side, mean", part.get("dag_width"), "number", hint="operators that could run at once"),
            Fact("The same by FLOPs", part.get("dag_width_flops"), "number", hint="each weighted by its work"),
        )
    )
