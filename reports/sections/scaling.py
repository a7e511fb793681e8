"""What of a step grows with the batch and what does not."""

from __future__ import annotations

from wcbench.reports.model import Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

WHOLE_STEP = "all"
_TITLES = {
    "flops_matrix": "matrix-class FLOPs",
    "flops_all": "all FLOPs",
    "bytes_read": "bytes read by operators",
    "bytes_written": "bytes written by operators",
    "calls": "operator calls",
    "live_peak_bytes": "live bytes at the peak",
}


def section(summary: Summary) -> Section | None:
    """The whole step's quantities, at the preset's own length where the task has one."""
    part = block(summary, "scaling")
    if part is None:
        return None
    listed = [row for row in rows(part.get("rows")) if row.get("phase") == WHOLE_STEP]
    longest = max((row["length"] for row in listed if row.get("length") is not None), default=None)
    shown = [row for row in listed if row.get("length") == longest]
    several = len({row.get("kind") for row in shown}) > 1
    cells = tuple(
        (
            f"{_TITLES.get(str(row.get('quantity')), row.get('quantity'))}" + (f", {row.get('kind')}" * several),
            row.get("fixed"),
            row.get("per_sample"),
            row.get("unit"),
            row.get("error"),
        )
        for row in shown
    )
    columns = (
        Column("a step"),
        Column("fixed", "si_each"),
        Column("per sample", "si_each"),
        Column("unit"),
        Column("error", "share"),
    )
    caption = "Quantities of a step as fixed part + samples × part per sample"
    text = (
        "Counted at one, two and four times the batch; each quantity is split by the straight line through the three. "
        f"The error is the greatest deviation from it. {measured(part)}"
    )
    if shown and not all(row.get("recorded") for row in shown):
        text += f" Continued to length {longest:,.0f} on the line through two shorter ones."
    table = Table("scaling-parts", caption, columns, cells, more=show_command(summary, "scaling"))
    return Section("scaling", "Scaling with the batch", (Text(text), table, *notes_blocks(summary, "scaling")))
