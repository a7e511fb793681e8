"""What of the imported files is not in the record: the loss log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, imported, rows, show_command

_COLUMNS = (
    Column("what"),
    Column("count", "count"),
    Column("why"),
    Column("done"),
    Column("first at byte", "count"),
    Column("file", "name"),
)


def section(summary: Summary) -> Section | None:
    """Of an imported record always, so that silence means that nothing is missing."""
    if not imported(summary):
        return None
    lost = [row for row in rows(summary.get("losses")) if not row.get("repaired")]
    mended = [row for row in rows(summary.get("losses")) if row.get("repaired")]
    blocks: list[Block] = [Text(_intro(lost, mended))]
    if lost or mended:
        cells = tuple(_row(row) for row in (*lost, *mended))
        caption = "What was left out or mended; bytes are those of the uncompressed file"
        blocks.append(Table("losses-table", caption, _COLUMNS, cells, more=show_command(summary, "losses")))
    return Section("losses", "Left out", tuple(blocks))


def amount(listed: list[Mapping[str, Any]]) -> int:
    """How many pieces these are."""
    return sum(int(row.get("count") or 0) for row in listed)


def _intro(lost: list[Mapping[str, Any]], mended: list[Mapping[str, Any]]) -> str:
    left = f"{fmt.plural(amount(lost), 'piece')} of the files are not in this record" if lost else ""
    kept = f"{fmt.plural(amount(mended), 'piece')} were damaged, mended and kept" if mended else ""
    words = "; ".join(word for word in (left, kept) if word)
    nothing = "Nothing was lost and nothing had to be mended; what was left out on purpose stands in the notes"
    return f"{words or nothing}."


def _row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    done = "mended" if row.get("repaired") else "left out"
    return row.get("what"), row.get("count"), row.get("why"), done, row.get("offset"), row.get("file")
