"""What of the imported files is not in the record: the loss log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, file_name, imported, mapping, rows, show_command

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
    lost, mended, meant = sorted_losses(summary)
    blocks: list[Block] = [Text(_intro(summary))]
    if lost or mended or meant:
        cells = tuple(_row(row) for row in (*lost, *mended, *meant))
        caption = "What is missing, was mended, or was left out on purpose; bytes are those of the uncompressed file"
        blocks.append(Table("losses-table", caption, _COLUMNS, cells, more=show_command(summary, "losses")))
    return Section("losses", "Left out", tuple(blocks))


Rows = list[Mapping[str, Any]]


def sorted_losses(summary: Summary) -> tuple[Rows, Rows, Rows]:
    """What is missing though it should not be, what was mended, and what was left out on purpose."""
    found = rows(summary.get("losses"))
    mended = [row for row in found if row.get("repaired")]
    meant = [row for row in found if row.get("deliberate") and not row.get("repaired")]
    return [row for row in found if not row.get("repaired") and not row.get("deliberate")], mended, meant


def pieces(summary: Summary, kind: str) -> int:
    """How many pieces of the files are "missing", "mended", or left out on purpose ("deliberate")."""
    return int(mapping(summary.get("lost")).get(kind) or 0)


def counted(amount: int, one: str, several: str) -> str:
    """``3 pieces of the files were missing``; empty where there are none."""
    return f"{fmt.plural(amount, 'piece')} {one if amount == 1 else several}" if amount else ""


def _intro(summary: Summary) -> str:
    words = (
        counted(
            pieces(summary, "missing"),
            *(f"of the files {be} missing, damaged or not readable" for be in ("is", "are")),
        ),
        counted(pieces(summary, "mended"), "was damaged, mended and kept", "were damaged, mended and kept"),
    )
    meant = pieces(summary, "deliberate")
    damage = "; ".join(word for word in words if word) or "Nothing was lost and nothing had to be mended"
    be, it = ("is", "it") if meant == 1 else ("are", "them")
    purpose = f" {fmt.plural(meant, 'piece')} {be} left out on purpose, and no figure lacks {it}." if meant else ""
    return f"{damage}.{purpose}"


def _row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    done = "mended" if row.get("repaired") else "left out on purpose" if row.get("deliberate") else "missing"
    file = None if row.get("file") is None else file_name(row)
    return row.get("what"), row.get("count"), row.get("why"), done, row.get("offset"), file
