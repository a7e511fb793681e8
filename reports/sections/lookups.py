"""What caches of rows would serve of a task's sparse look-ups, over laws of the ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command


def section(summary: Summary) -> Section | None:
    """A row for the task's own law and for each exponent of the band."""
    part = block(summary, "lookups")
    listed = rows(part.get("rows")) if part is not None else ()
    if part is None or not listed:
        return None
    capacities = [capacity for capacity, _ in listed[0].get("miss_ratio") or ()]
    columns = (
        Column("ids drawn by"),
        Column("look-ups", "count"),
        Column("distinct rows", "count"),
        Column("to the top 1 %", "share"),
        Column("never before", "share"),
        *(Column(f"miss at {fmt.show(capacity, 'bytes')}", "share") for capacity in capacities),
    )
    cells = tuple(
        (
            _law(row),
            row.get("lookups"),
            row.get("distinct"),
            row.get("top_share"),
            row.get("cold_share"),
            *(ratio for _, ratio in row.get("miss_ratio") or ()),
        )
        for row in listed
    )
    text = (
        f"One LRU cache of table rows, {fmt.count(part.get('samples'))} samples a step, the last of "
        f"{listed[0].get('steps')} steps; the ones before warm it. Misses are shares of the bytes looked up. Which ids "
        f"a data set holds decides how well its tables cache, so the band over Zipf exponents stands beside the task's "
        "own law. Rows never looked up before miss in every cache: where a miss ratio is no larger than their share, "
        f"the drawn steps do not fill the cache. {measured(part)}"
    )
    table = Table(
        "lookups-band", "Sparse look-ups by law of the ids", columns, cells, more=show_command(summary, "lookups")
    )
    return Section("lookups", "Sparse look-ups", (Text(text), table, *notes_blocks(summary, "lookups")))


def _law(row: Mapping[str, Any]) -> str:
    exponent = row.get("exponent")
    if exponent is not None:
        return f"Zipf {exponent:g}"
    return "recorded ids" if row.get("law") == "recorded" else "the task's own law"
