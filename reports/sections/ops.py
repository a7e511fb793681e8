"""Host operators by name: calls, their time with and without what they call, and the device time they launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

TABLE_ROWS = 30
_COLUMNS = (
    ("self_share", Column("self share", "share")),
    ("name", Column("operator", "name")),
    ("calls", Column("calls", "count")),
    ("self_ns", Column("self", "time_ns", group="time")),
    ("total_ns", Column("total", "time_ns", group="time")),
    ("device_ns", Column("on devices", "time_ns", group="time")),
    ("category", Column("category")),
)


def section(summary: Summary) -> Section | None:
    """The operators with most self time."""
    part = block(summary, "ops")
    if part is None:
        return None
    listed = rows(part.get("rows"))
    device = any(row.get("device_ns") is not None for row in listed)
    columns = [(field, column) for field, column in _COLUMNS if device or field != "device_ns"]
    cells = tuple(tuple(row.get(field) for field, _ in columns) for row in listed)
    table = Table(
        "ops-table",
        "Host operators, most self time first (whole record)",
        tuple(column for _, column in columns),
        cells,
        TABLE_ROWS,
        show_command(summary, "ops"),
    )
    return Section("ops", "Host operators", (Text(_intro(part, device)), table, *notes_blocks(summary, "ops")))


def _intro(part: Mapping[str, Any], device: bool) -> str:
    calls, names, ranks = part.get("calls"), part.get("names"), part.get("ranks") or 1
    where = f" on {fmt.plural(ranks, 'rank')}" if ranks > 1 else ""
    text = (
        f"{fmt.plural(calls or 0, 'call')} of {fmt.plural(names or 0, 'operator')}{where} in the whole record, in "
        "steps or not. Self time is without, total time with what an operator calls"
    )
    if device:
        text += "; time on devices is of the kernels that it launched itself"
        loose = part.get("device_unlinked_ns")
        text += f" ({fmt.show(loose, 'time_ns')} of kernels belong to no operator)" if loose else ""
    elif part.get("device_unlinked_ns"):
        text += "; no kernel tells the operator that launched it"
    return f"{text}. {measured(part)}"
