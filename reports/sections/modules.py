"""Which parts of the model the work belongs to: the tree of its modules, forward and backward together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Command, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, notes_blocks, rows, show_command
from wcbench.reports.sections.complexity import counted_on

DEPTH = 3
TABLE_ROWS = 60
INDENT = "\N{NO-BREAK SPACE}" * 3
COLUMNS = (
    ("share", Column("share", "share")),
    ("flops_all", Column("work, all", "si_each", "FLOP")),
    ("flops_matrix", Column("matrix class", "si_each", "FLOP")),
    ("calls", Column("calls", "count")),
    ("bytes_read", Column("read", "bytes_each")),
    ("bytes_written", Column("written", "bytes_each")),
    ("params", Column("parameters", "count")),
)


def section(summary: Summary) -> Section | None:
    """The upper levels of the tree, each module with all that runs below it."""
    part = block(summary, "modules")
    if part is None:
        return None
    listed = rows(part.get("rows"))
    shallow = [row for row in listed if (row.get("depth") or 0) <= DEPTH]
    blocks: list[Block] = [Text(_intro(part, listed))]
    if shallow:
        blocks.append(_table(summary, shallow))
    deeper = len(listed) - len(shallow)
    if deeper:
        blocks.append(
            Command(f"All {fmt.count(len(listed))} modules, those further down too", show_command(summary, "modules"))
        )
    return Section("modules", "Modules", (*blocks, *notes_blocks(summary, "modules")))


def _intro(part: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]) -> str:
    if not listed:
        return f"No operator was recorded in a module. {counted_on(part)}"
    return (
        "The work of one step by module, forward and backward, each with everything below it; rows that are not "
        f"indented add up to the step. {counted_on(part)}"
    )


def _table(summary: Summary, listed: Sequence[Mapping[str, Any]]) -> Table:
    cells = tuple((_indented(row), *(row.get(field) for field, _ in COLUMNS)) for row in listed)
    columns = (Column("module"), *(column for _, column in COLUMNS))
    caption = f"Modules down to level {DEPTH}; share of all FLOPs of the step"
    return Table("modules-table", caption, columns, cells, TABLE_ROWS, show_command(summary, "modules"))


def _indented(row: Mapping[str, Any]) -> str:
    """The module's own name below its parent's; the parent stands above it in the table."""
    name, depth = str(row.get("module")), int(row.get("depth") or 0)
    return INDENT * depth + (name.rpartition(".")[2] if depth else name)
