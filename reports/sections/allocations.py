"""Memory over time by category of tensor, from torch's memory timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, descending, mapping, measured, notes_blocks


def section(summary: Summary) -> Section | None:
    """The peak, when it was, and what it consists of."""
    part = block(summary, "allocations")
    if part is None:
        return None
    blocks: list[Block] = [
        Text(
            "Bytes of tensors' storages in use, without the allocator's rounding and reserve; times count from the "
            f"first event. Rank {part.get('rank')}, {fmt.plural(part.get('moments') or 0, 'moment')}. {measured(part)}"
        ),
        Facts(tuple(_facts(part))),
    ]
    start = mapping(part.get("start_categories"))
    cells = tuple((name, value, start.get(name)) for name, value in descending(part.get("peak_categories")))
    columns = (Column("category"), Column("at the peak", "bytes"), Column("at the start", "bytes"))
    blocks.append(Table("allocations-table", "What the peak consists of", columns, cells))
    return Section("allocations", "Memory timeline", (*blocks, *notes_blocks(summary, "allocations")))


def _facts(part: Mapping[str, Any]) -> Iterator[Fact]:
    when = part.get("peak_ns")
    hint = "" if when is None else f"{fmt.show(when, 'time_ns')} after the first event"
    yield Fact("Peak", part.get("peak_bytes"), "bytes", hint=hint)
    yield Fact("At the start", part.get("start_bytes"), "bytes")
    yield Fact("At the end", part.get("end_bytes"), "bytes")
