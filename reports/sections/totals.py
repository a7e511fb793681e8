"""Sums by name: what a file of sums holds, or the calls of the device's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

TABLE_ROWS = 20
_COLUMNS = (
    ("name", Column("name", "name")),
    ("calls", Column("calls", "count")),
    ("total_ns", Column("total", "time_ns")),
    ("mean_ns", Column("mean", "time_ns", group="one")),
    ("median_ns", Column("median", "time_ns", group="one")),
    ("minimum_ns", Column("shortest", "time_ns", group="one")),
    ("maximum_ns", Column("longest", "time_ns", group="one")),
    ("device", Column("device")),
)
_TITLES = {"kernel": "Kernels", "runtime": "Calls of the device's runtime on the host", "range": "Ranges"}


def section(summary: Summary) -> Section | None:
    """A table a kind."""
    part = block(summary, "totals")
    if part is None:
        return None
    listed = rows(part.get("rows"))
    kinds = dict.fromkeys(str(row.get("kind")) for row in listed)
    tables = tuple(_table(summary, kind, [row for row in listed if row.get("kind") == kind]) for kind in kinds)
    return Section("totals", "Sums by name", (Text(_intro(part)), *tables, *notes_blocks(summary, "totals")))


def _intro(part: Mapping[str, Any]) -> str:
    ranks = part.get("ranks") or 1
    where = f" All {ranks} ranks are added up." if ranks > 1 else ""
    what = "Sums that the file itself holds" if part.get("listed") else "Sums of the single calls in the record"
    return f"{what}, of the whole of it and not per step.{where} {measured(part)}"


def _table(summary: Summary, kind: str, listed: list[Mapping[str, Any]]) -> Table:
    told = [item for item in _COLUMNS if any(row.get(item[0]) is not None for row in listed)]
    cells = tuple(tuple(row.get(field) for field, _ in told) for row in listed)
    name = kind if kind in _TITLES else "other"
    columns = tuple(column for _, column in told)
    title = _TITLES.get(kind, fmt.prose(kind))
    return Table(f"totals-{name}", title, columns, cells, TABLE_ROWS, show_command(summary, "totals"))
