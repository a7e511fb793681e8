"""A report, or one of its sections, on a terminal: the same model and the same formatting as in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """A table as wide as its place: values that have no room are left out and named, the names never."""

    def __init__(self, table: Table, rows: int) -> None:
        self.table, self.rows = table, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [self._width(index) for index in range(len(self.table.columns))]
        kept = list(range(len(widths)))
        while len(kept) > 2 and sum(widths[index] for index in kept) > options.max_width:
            kept.remove(max(index for index in kept if self.table.columns[index].align == "right" or index))
        yield _rich_table(self.table, self.rows, kept)
        left = [column.title for index, column in enumerate(self.table.columns) if index not in kept]
        if left:
            yield RichText(f"No room for: {', '.join(left)} (a wider terminal, or --json)", "dim")

    def _width(self, index: int) -> int:
        """Of the longest cell and the heading, with the gap to the next column; of a name at most its room."""
        column = self.table.columns[index]
        text = fmt.column([row[index] for row in self.table.rows[: self.rows]], column.kind, column.unit)
        heading = f"{column.title} [{text.unit}]" if text.unit else column.title
        longest = max(map(len, [heading, *text.cells]))
        return 2 + (longest if column.align == "right" else min(longest, NAME_ROOM))


def _rich_table(table: Table, rows: int, kept: list[int]) -> RichTable:
    shown = RichTable(title=table.caption, title_justify="left", title_style="", header_style="bold", box=None)
    cells = []
    for index in kept:
        column = table.columns[index]
        text = fmt.column([row[index] for row in table.rows[:rows]], column.kind, column.unit)
        cells.append([RichText(fmt.cut(cell, _NAME_LIMIT).text) for cell in text.cells])
        title = f"{column.title} [{text.unit}]" if text.unit else column.title
        shown.add_column(
            RichText(title), justify=column.align, overflow="fold", no_wrap=column.align == "right", min_width=4
        )
    for row in zip(*cells, strict=True):
        shown.add_row(*row)
    return shown
