"""What oneDNN ran on a CPU: the implementation behind each operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

TABLE_ROWS = 20
FIELDS = ("time_share", "time_ns", "primitive", "implementation", "direction", "shape", "memory", "calls")


def section(summary: Summary) -> Section | None:
    """The longest oneDNN primitives."""
    part = block(summary, "primitives")
    if part is None:
        return None
    blocks: list[Block] = [Text(_intro(part))]
    cells = tuple(tuple(row.get(field) for field in FIELDS) for row in rows(part.get("rows")))
    if cells:
        blocks.append(_table(summary, cells))
    return Section("primitives", "Primitives", (*blocks, *notes_blocks(summary, "primitives")))


def _intro(part: Mapping[str, Any]) -> str:
    of = part.get("of") or "oneDNN primitive time"
    if not rows(part.get("rows")):
        return f"No oneDNN primitive ran. {measured(part)}"
    ratio, steps = part.get("operator_share"), part.get("steps")
    beside = f", {fmt.share(ratio)} of the operators' self time" if ratio is not None else ""
    over = f" (mean of {fmt.plural(steps, 'step')})" if steps is not None else ""
    total = fmt.show(part.get("total_ns"), "time_ns")
    return f"{total} of {of} per step{over}{beside}. {measured(part)}"


def _table(summary: Summary, cells: tuple[tuple[Any, ...], ...]) -> Table:
    columns = (
        Column("share", "share"),
        Column("time", "time_ns"),
        Column("primitive"),
        Column("implementation"),
        Column("direction"),
        Column("shape", "name"),
        Column("memory", "name"),
        Column("calls", "number"),
    )
    caption = "oneDNN primitives by time per step"
    return Table("primitives-table", caption, columns, cells, TABLE_ROWS, show_command(summary, "primitives"))
