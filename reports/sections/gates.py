"""Plausibility: what no true record can violate, the violated ones first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, rows, show_command

VERDICTS = {True: "held", False: "FAILED", None: "not checked"}
_COLUMNS = (
    Column("check"),
    Column("verdict"),
    Column("finding"),
    Column("seen", "share"),
)


def section(summary: Summary) -> Section | None:
    """All gates in a table, also where none could be checked: then each says why."""
    part = block(summary, "gates")
    listed = rows(part.get("rows")) if part else ()
    if part is None or not listed:
        return None
    ordered = sorted(listed, key=lambda row: (False, True, None).index(row.get("held")))
    cells = tuple(_row(row) for row in ordered)
    caption = "Checks that every true record passes; 'seen' is the share of the data that a check could see"
    table = Table("gates-table", caption, _COLUMNS, cells, more=show_command(summary, "gates"))
    return Section("gates", "Plausibility", (Text(_verdict(part)), table))


def failed(summary: Summary) -> list[Mapping[str, Any]]:
    """The gates that failed."""
    part = block(summary, "gates")
    return [row for row in rows(part.get("rows") if part else None) if row.get("held") is False]


def _verdict(part: Mapping[str, Any]) -> str:
    count, bad, open_ = (int(part.get(key) or 0) for key in ("checked", "failed", "not_checked"))
    left = f"; {fmt.plural(open_, 'check')} could not be made, each with its reason below" if open_ else ""
    if bad:
        says = "its finding says" if bad == 1 else "their findings say"
        return f"{bad} of {fmt.plural(count, 'check')} failed: {says} which figures are touched{left}."
    if not count:
        return "No check could be made; each has its reason below."
    held = "The one check that could be made held" if count == 1 else f"All {count} checks held"
    return f"{held}{left}."


def _row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row.get("name"), VERDICTS[row.get("held")], row.get("text"), row.get("coverage")
