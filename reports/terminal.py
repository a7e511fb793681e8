"""A report, or one of its sections, on a terminal: the same model and the same formatting as in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text as RichText

from wcbench.errors import WcbenchError
from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Command, Facts, Figure, Notes, Report, Section, SideBySide, Table, Text
from wcbench.reports.profile_report import profile_report
from wcbench.reports.sections import SECTIONS
from wcbench.reports.sections._common import missing

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
    shown = RichTable(title=table.caption, title_justify="left", title_style="", header_style="bold", box=None)
    cells = []
    for index, column in enumerate(table.columns):
        text = fmt.column([row[index] for row in table.rows[:rows]], column.kind, column.unit)
        cells.append([RichText(fmt.cut(cell, _NAME_LIMIT).text) for cell in text.cells])
        title = f"{column.title} [{text.unit}]" if text.unit else column.title
        shown.add_column(
            RichText(title), justify=column.align, overflow="fold", no_wrap=column.align == "right", min_width=4
        )
    for row in zip(*cells, strict=True):
        shown.add_row(*row)
    yield shown
    if len(table.rows) > rows:
        yield RichText(f"... and {len(table.rows) - rows:,} more rows: --rows {len(table.rows)}", "dim")
