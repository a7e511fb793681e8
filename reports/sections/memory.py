"""How much memory a device held, by moment of the run."""

from __future__ import annotations

from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

FIELDS = ("device", "moment", "current_bytes", "peak_bytes", "reserved_bytes")


def section(summary: Summary) -> Section | None:
    """The peak, and current and peak use at each moment."""
    part = block(summary, "measured_memory")
    if part is None:
        return None
    blocks: list[Block] = [
        Text(f"cpu is the resident set of the process, cuda the allocator of torch. {measured(part)}"),
        Facts(
            (
                Fact("Peak", part.get("peak_bytes"), "bytes", hint="over all moments, on the device that stepped"),
                Fact("Over the start", part.get("increase_bytes"), "bytes", hint="the peak less what stood before"),
            )
        ),
    ]
    cells = tuple(tuple(row.get(field) for field in FIELDS) for row in rows(part.get("rows")))
    if cells:
        columns = (
            Column("device"),
            Column("moment"),
            Column("in use", "bytes"),
            Column("peak", "bytes"),
            Column("reserved", "bytes"),
        )
        caption = "Memory by moment; the peak is since the moment before"
        blocks.append(Table("memory-table", caption, columns, cells, more=show_command(summary, "memory")))
    return Section("memory", "Memory", (*blocks, *notes_blocks(summary, "memory")))
