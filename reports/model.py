"""What a report is before it is HTML, PDF or text: frozen data over which every renderer works.

Cells and facts hold the raw values of the summary together with their kind; `format` turns them into text when a
renderer writes them. So a test reads numbers from here, and two renderers cannot differ in them. Every other text here
is already free of invisible characters; escaping for its format is each renderer's own duty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from wcbench.errors import WcbenchError
from wcbench.reports.figure_data import FigureData
from wcbench.reports.format import ColumnText, Kind
from wcbench.reports.format import column as column_text

ONE_PARAGRAPH = 600
"""Characters up to which a lead is one paragraph."""
_ID = re.compile(r"[a-z][a-z0-9-]*\Z")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command line to copy, with what it is for."""

    label: str
    text: str


@dataclass(frozen=True)
class Fact:
    """One labelled value; ``hint`` says how it is meant or why it is absent."""

    label: str
    value: Any
    kind: Kind = "text"
    unit: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Facts:
    items: tuple[Fact, ...]


@dataclass(frozen=True)
class Column:
    """A column's heading, the kind of its values, and their unit where the kind does not imply one.

    ``keep``: where a place has no room for all columns, those without it go first. Columns of one ``group`` share
    their unit, so that they can be compared along a row.
    """

    title: str
    kind: Kind = "text"
    unit: str = ""
    keep: bool = False
    group: str = ""

    @property
    def align(self) -> Literal["left", "right"]:
        return "left" if self.kind in ("text", "name") else "right"


@dataclass(frozen=True)
class Table:
    """All rows, of which renderers show ``limit``; ``more`` is the command that prints the rest."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    limit: int = 50
    more: str = ""

    def __post_init__(self) -> None:
        _check_id(self.id)
        widths = {len(row) for row in self.rows} - {len(self.columns)}
        if widths:
            raise WcbenchError(f"Table '{self.id}' has {len(self.columns)} columns and a row of {widths.pop()} cells.")

    @property
    def shown(self) -> tuple[tuple[Any, ...], ...]:
        return self.rows[: self.limit]

    def texts(self, rows: tuple[tuple[Any, ...], ...]) -> list[ColumnText]:
        """Some rows as text, column by column, with the unit of each."""
        return [
            column_text([row[i] for row in rows], column.kind, column.unit, self._beside(i, rows))
            for i, column in enumerate(self.columns)
        ]

    def _beside(self, index: int, rows: tuple[tuple[Any, ...], ...]) -> list[Any]:
        group = self.columns[index].group
        peers = [i for i, column in enumerate(self.columns) if group and column.group == group]
        return [row[i] for row in rows for i in peers]

    @property
    def hidden(self) -> int:
        return len(self.rows) - len(self.shown)

    def column(self, title: str) -> tuple[Any, ...]:
        """All values of one column, by its heading."""
        index = [column.title for column in self.columns].index(title)
        return tuple(row[index] for row in self.rows)


@dataclass(frozen=True)
class SideBySide:
    """Tables to compare: next to each other where there is room, one below the other on a phone."""

    tables: tuple[Table, ...]


@dataclass(frozen=True)
class NoteLine:
    about: str
    text: str


@dataclass(frozen=True)
class Notes:
    """What is missing or doubtful, each with its reason."""

    items: tuple[NoteLine, ...]


@dataclass(frozen=True)
class Figure:
    """A figure's data, its caption, and in words what it shows."""

    id: str
    caption: str
    alt: str
    data: FigureData

    def __post_init__(self) -> None:
        _check_id(self.id)


Block = Text | Command | Facts | Table | SideBySide | Notes | Figure


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        _check_id(self.id)

    def tables(self) -> Iterator[Table]:
        for block in self.blocks:
            if isinstance(block, Table):
                yield block
            elif isinstance(block, SideBySide):
                yield from block.tables

    def table(self, name: str) -> Table:
        """A table by its id."""
        return next(table for table in self.tables() if table.id == name)

    def figures(self) -> Iterator[Figure]:
        return (block for block in self.blocks if isinstance(block, Figure))

    def facts(self) -> dict[str, Fact]:
        """Every fact of the section by its label."""
        return {fact.label: fact for block in self.blocks if isinstance(block, Facts) for fact in block.items}


@dataclass(frozen=True)
class Report:
    """A whole report: what it is of, the answer in three sentences, the sections, and where it comes from."""

    title: str
    subtitle: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    provenance: str

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in self._ids():
            if name in seen:
                raise WcbenchError(f"Two parts of the report have the id '{name}'.", "Links would be ambiguous.")
            seen.add(name)

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The lead as it is set: in one paragraph where it is short, else a sentence each."""
        whole = " ".join(self.lead)
        return self.lead if len(whole) > ONE_PARAGRAPH else (whole,) if whole else ()

    def _ids(self) -> Iterator[str]:
        for section in self.sections:
            yield section.id
            yield from (table.id for table in section.tables())
            yield from (figure.id for figure in section.figures())

    def section(self, name: str) -> Section:
        """A section by its id."""
        return next(section for section in self.sections if section.id == name)


def _check_id(name: str) -> None:
    """Ids become anchors and parts of SVG ids, so they are plain words."""
    if not _ID.match(name):
        raise WcbenchError(f"'{name}' is no id for a part of a report.", "Use lower-case letters, digits and hyphens.")
