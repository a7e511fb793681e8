"""What is missing or doubtful: parts without content, features and workloads left out, values replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import View, joined, shorter


def section(view: View) -> Section:
    """Always there; a report that lacks nothing says so."""
    lines = (*view.missing, *_lines(view))
    blocks: list[Block] = [Notes(lines)] if lines else [Text("Nothing is missing, and nothing was replaced.")]
    return Section("notes", "What is missing or doubtful", (*blocks, *_values(view), *_nulls(view)))


def _lines(view: View) -> Iterator[NoteLine]:
    for note in view.part("table").get("notes") or ():
        yield NoteLine("table", fmt.prose(note))
    for name, why in mapping(view.part("space").get("dropped")).items():
        yield NoteLine(fmt.prose(name), f"left out of the space: {fmt.prose(why)}")
    for name, why in mapping(view.part("provenance").get("left_out")).items():
        yield NoteLine(fmt.prose(name), f"left out of the study: {fmt.prose(why)}")
    for name, one in mapping(view.part("provenance").get("records")).items():
        for note in mapping(one).get("notes") or ():
            yield NoteLine(fmt.prose(name), fmt.prose(note))


def _values(view: View) -> Iterator[Table]:
    """Values that the space replaced: floors of shares and logarithms."""
    found = [fmt.prose(note) for note in view.part("space").get("notes") or ()]
    cells = tuple((head, text) for head, _, text in (note.partition(": ") for note in found))
    if cells:
        caption = "Values that were replaced before distances were taken"
        columns = (Column("feature", "name", keep=True), Column("what"))
        yield Table("notes-replaced", caption, columns, cells, limit=12, more="study.json: space.notes")


def _nulls(view: View) -> Iterator[Table]:
    """What was not measured: one row for all features that lack the same workloads for the same reason."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for row in rows(view.part("table").get("nulls")):
        key = (fmt.prose(row.get("feature")), fmt.prose(row.get("reason")))
        lacking.setdefault(key, []).append(str(row.get("workload")))
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (feature, reason), who in lacking.items():
        alike.setdefault((tuple(who), reason), []).append(feature.partition("[")[0])
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (joined(dict.fromkeys(names)), _who(view, who), why) for (who, why), names in alike.items()
    )
    if cells:
        caption = "What was not measured, and of whom; nothing was put in its place"
        columns = (Column("features", keep=True), Column("of"), Column("reason"))
        yield Table("notes-nulls", caption, columns, cells, limit=12, more="study.json: table.nulls")


def _who(view: View, who: tuple[str, ...]) -> str:
    return "all" if {*who} >= {*view.names} else shorter(who, view.names)
