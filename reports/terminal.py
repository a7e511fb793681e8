"""A report, or one of its sections, on a terminal: the same model and the same formatting as in HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text as RichText

from wcbench.errors import WcbenchError
from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Command, Facts, Figure, Notes, Report, Section, SideBySide, Table, Text
from wcbench.reports.profile_report import profile_report
from wcbench.reports.sections import SECTIONS
from wcbench.reports.sections._common import NOTHING, missing

_ROWS = 20
_NAME_LIMIT = 200  # characters of a name; the JSON has the whole


def terminal_lead(report: Report) -> RenderableType:
    """The answer in sentences."""
    return Panel(RichText(" ".join(report.lead)), title=report.title, title_align="left")


def terminal_view(summary: Mapping[str, Any], section: str | None = None, rows: int = _ROWS) -> RenderableType:
    """A profile's summary (docs/json.md): every section after the answer in sentences, or one section alone.

    Raises
    ------
    UnknownNameError : there is no such section in any report.
    WcbenchError : this record has nothing for it.
    """
    report = profile_report(summary)
    if section is None:
        return Group(terminal_lead(report), *[terminal_section(part, rows) for part in report.sections])
    SECTIONS.row(section)
    found = [part for part in report.sections if part.id == section]
    if not found:
        reasons = [line.text for line in missing(summary) if line.about == section]
        reasons += [f"{NOTHING[section][:1].upper()}{NOTHING[section][1:]}."] if section in NOTHING else []
        raise WcbenchError(f"This record has no {section}. {' '.join(reasons)}".strip())
    return terminal_section(found[0], rows)


def terminal_report(report: Report, rows: int = _ROWS) -> RenderableType:
    """Any report: its answer, then every section but where it comes from."""
    parts = [terminal_section(part, rows) for part in report.sections if part.id != "provenance"]
    return Group(terminal_lead(report), *parts)


def terminal_section(section: Section, rows: int = _ROWS) -> RenderableType:
    """One section; tables show their first ``rows`` rows."""
    parts: list[RenderableType] = [Rule(section.title, align="left")]
    for block in section.blocks:
        parts.extend(_block(block, rows))
    return Group(*parts)


def _block(block: Block, rows: int) -> Iterator[RenderableType]:
    if isinstance(block, Text):
        yield RichText(block.text)
    elif isinstance(block, Command):
        yield RichText.assemble((f"{block.label}: ", "dim"), block.text)
    elif isinstance(block, Facts):
        yield _facts(block)
    elif isinstance(block, Table):
        yield from _table(block, rows)
    elif isinstance(block, SideBySide):
        for table in block.tables:
            yield from _table(table, rows)
    elif isinstance(block, Notes):
        for note in block.items:
            yield RichText.assemble((f"{note.about}: ", "bold"), fmt.visible(note.text))
    elif isinstance(block, Figure):
        return


def _facts(facts: Facts) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for fact in facts.items:
        value = RichText(fmt.show(fact.value, fact.kind, fact.unit))
        if fact.hint:
            value.append(f"  {fact.hint}", style="dim")
        grid.add_row(fact.label, value)
    return grid


def _table(table: Table, rows: int) -> Iterator[RenderableType]:
    yield _Fitted(table, rows)
    if len(table.rows) > rows:
        yield RichText(f"... and {len(table.rows) - rows:,} more rows: --rows {len(table.rows)}", "dim")


NAME_ROOM = 24
"""Columns of characters that a name keeps before values have to go."""


class _Fitted:
    """A table as wide as its place.

    Where it is too wide, headings break first; then columns go that say nothing (empty, all 0, the same in every row),
    then those that are not to be kept. What goes is named; the first column and the first of names never go.
    """

    def __init__(self, table: Table, rows: int) -> None:
        self.table, self.rows = table, rows
        self.texts = table.texts(table.rows[:rows])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(range(len(self.texts)))
        heads = [self._heading(index) for index in kept]
        if self._wide(kept, heads) > options.max_width:
            heads = [self._broken(index) for index in kept]
        for index in self._dispensable() if self._wide(kept, heads) > options.max_width else ():
            if self._wide(kept, heads) > options.max_width and len(kept) > 2:
                kept.remove(index)
        yield self._rich(kept, heads)
        yield from self._left([index for index in range(len(self.texts)) if index not in kept])

    def _heading(self, index: int) -> str:
        title, unit = self.table.columns[index].title, self.texts[index].unit
        return f"{title} [{unit}]" if unit else title

    def _broken(self, index: int) -> str:
        """The heading on as many lines as make it no wider than the cells, if its words let it."""
        longest = max(map(len, self.texts[index].cells), default=0)
        return "\n".join(textwrap.wrap(self._heading(index), max(longest, 4), break_long_words=False))

    def _wide(self, kept: list[int], heads: list[str]) -> int:
        return sum(self._width(index, heads[index]) for index in kept)

    def _width(self, index: int, heading: str) -> int:
        """Of the longest cell and the heading, with the gap to the next column; of a name at most its room."""
        longest = max(map(len, [*heading.split("\n"), *self.texts[index].cells]))
        return 2 + (longest if self.table.columns[index].align == "right" else min(longest, NAME_ROOM))

    def _dispensable(self) -> list[int]:
        """The columns that may go, in the order in which they do."""
        columns = self.table.columns
        first_name = next((i for i, column in enumerate(columns) if column.kind == "name"), 0)
        free = [i for i in range(len(columns)) if i not in (0, first_name)]
        if self._same(0) and first_name:
            free.insert(0, 0)
        return sorted(free, key=lambda i: (self._worth(i), -i))

    def _worth(self, index: int) -> int:
        """0 for what says nothing, 1 for what is the same in every row, more for the rest and what is to be kept."""
        values = {row[index] for row in self._plain}
        if values <= {None, "0", "0.0"} and self.table.columns[index].align == "right":
            return 0
        keep = 2 if self.table.columns[index].keep else 0
        return keep + (1 if self._same(index) else 2)

    def _same(self, index: int) -> bool:
        """Whether every row has the same there; of one row nothing can be said."""
        rows = self._plain
        return len(rows) > 1 and len({row[index] for row in rows}) == 1

    @cached_property
    def _plain(self) -> list[tuple[str | None, ...]]:
        """All rows as texts, None where a value is absent."""
        return [tuple(None if fmt.absent(value) else str(value) for value in row) for row in self.table.rows]

    def _left(self, left: list[int]) -> Iterator[RichText]:
        """What has no room; what is the same in every row is said once."""
        same = [i for i in left if self._same(i) and not fmt.absent(self.table.rows[0][i])]
        if same:
            said = ", ".join(f"{self._heading(i)} {fmt.cut(self.texts[i].cells[0], NAME_ROOM * 2).text}" for i in same)
            yield RichText(f"The same in every row: {said}", "dim")
        other = [self.table.columns[i].title for i in left if i not in same]
        if other:
            yield RichText(f"No room for: {', '.join(other)} (a wider terminal, or --json)", "dim")

    def _rich(self, kept: list[int], heads: list[str]) -> RichTable:
        title = self.table.caption
        shown = RichTable(title=title, title_justify="left", title_style="", header_style="bold", box=None)
        for index in kept:
            align = self.table.columns[index].align
            head = RichText(heads[index])
            shown.add_column(head, justify=align, overflow="fold", no_wrap=align == "right", min_width=4)
        for row in zip(*(map(_cell, self.texts[index].cells) for index in kept), strict=True):
            shown.add_row(*row)
        return shown


def _cell(text: str) -> RichText:
    """A long name ends in an ellipsis."""
    part = fmt.cut(text, _NAME_LIMIT)
    return RichText(f"{part.text}…" if part.more else part.text)
