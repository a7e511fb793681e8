"""A report as a PDF for people who print, forward and read aloud: tagged (PDF/UA-1), with text that can be selected.

Typst sets it from one template. Every text travels as data in a file of JSON, never as markup, and before that through
`pdf_text`, which leaves only characters that the fonts have: kernel names come from files of strangers. Nothing but
the wheels of typst and matplotlib is needed, and the same report gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from wcbench.reports import format as fmt
from wcbench.reports.document import Paper
from wcbench.reports.model import (
    Block,
    Command,
    Fact,
    Facts,
    Figure,
    Notes,
    Report,
    Section,
    SideBySide,
    Table,
    Text,
)
from wcbench.reports.pdf_tables import (
    GUTTER,
    MARGIN,
    POINTS,
    Layout,
    PaperColumn,
    fit,
    fit_beside,
    heights,
    paper_columns,
    parts,
    room,
)
from wcbench.reports.pdf_text import FONTS, LABEL_LIMIT, bounded, breakable, glyphs, line, printable

if TYPE_CHECKING:
    from typst import Fonts

TITLE_LIMIT = 300
RUNNING = 48
"""Characters of a title at the head of each page."""
CAPTION_LIMIT = 1000
NOTE_LIMIT = 2000
INTRODUCTION = 1000
"""Characters of a paragraph that stays on the page of what it introduces."""
CARD, CARD_HINT = 26, 90
"""Characters of a fact and its hint that fit into a third of the width."""
TALLEST = 0.8
"""Part of a page's text that a figure may take, so that its caption stays with it."""
TOGETHER, WHOLE = 190.0, 160.0
"""Points of height below which a table, or a row, is not parted by the end of a page."""
FRAME = 10.0
"""Pixels of a drawing's frame; on a page of HTML such numbers show, Typst cuts them off."""
HEAD_AND_FOOT = 130.0
"""Points of a page's height that are not text."""

_VIEW_BOX = re.compile(r'viewBox="([-.\d]+) ([-.\d]+) ([-.\d]+) ([-.\d]+)"')


def render_pdf(report: Report, paper: Paper = "a4") -> bytes:
    """The report as a PDF file on A4 or letter paper.

    Raises
    ------
    TypeError : a block of a kind that has no form on paper.
    """
    import typst

    files = _files(report, paper)
    made = typst.compile(files, font_paths=_fonts(), ignore_system_fonts=True, pdf_standards="ua-1", timestamp=0)
    assert isinstance(made, bytes), "one document, no output file"
    return made


def render_page(report: Report, page: int, *, ppi: float = 100.0, paper: Paper = "a4") -> bytes:
    """One page of it, from 1, as a PNG picture of ``ppi`` pixels an inch.

    Raises IndexError where there is no such page.
    """
    import typst

    made: Any = typst.compile(  # a list where there are several pages
        _files(report, paper), font_paths=_fonts(), ignore_system_fonts=True, timestamp=0, format="png", ppi=ppi
    )
    pages = made if isinstance(made, list) else [made]
    picture = pages[page - 1]
    assert isinstance(picture, bytes), "no output file"
    return picture


def _files(report: Report, paper: Paper) -> Any:
    return {"main.typ": _template(), "report.json": json.dumps(_document(report, paper)).encode()}


@lru_cache(maxsize=1)
def _template() -> bytes:
    return resources.files("wcbench.reports").joinpath("templates", "report.typ").read_bytes()


@lru_cache(maxsize=1)
def _fonts() -> Fonts:
    """What typst brings along and matplotlib's DejaVu; the machine's own would make the bytes differ."""
    import typst

    return typst.Fonts(include_system_fonts=False, include_embedded_fonts=True, font_paths=[str(FONTS)])


# --- the document -------------------------------------------------------------------------------------------------


def _document(report: Report, paper: Paper) -> dict[str, Any]:
    """All that the template places."""
    wide, tall = POINTS[paper]
    title = fmt.prose(report.title) or "wcbench report"
    return {
        "paper": {"width": wide, "height": tall, "margin": MARGIN, "gutter": GUTTER},
        "plain_title": bounded(title, TITLE_LIMIT),  # no glyphs are drawn of it, nor of a figure's words
        "title": line(bounded(title, TITLE_LIMIT)),
        "running": printable(fmt.shorten(title, RUNNING)),
        "subtitle": line(report.subtitle),
        "lead": [line(paragraph) for paragraph in report.paragraphs],
        "flows": list(_flows([part for section in report.sections for part in _section(section, paper)])),
        "provenance": line(bounded(report.provenance, NOTE_LIMIT)),
    }


def _section(section: Section, paper: Paper) -> Iterator[dict[str, Any]]:
    title = fmt.prose(section.title) or section.id
    yield {
        "kind": "heading",
        "text": line(bounded(title, TITLE_LIMIT)),
        "running": printable(fmt.shorten(title, RUNNING)),
    }
    for block in section.blocks:
        yield from _block(block, paper)


def _flows(made: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Runs of parts on upright pages and on turned ones; what introduces a wide table turns with it."""
    turned = [bool(part.get("turned")) for part in made]
    for index in range(len(made) - 2, -1, -1):
        part, follows = made[index], made[index + 1]["kind"]
        introduces = part["kind"] in ("heading", "text") and len(part["text"]) < INTRODUCTION and follows != "heading"
        turned[index] |= introduces and turned[index + 1]
        part["sticky"] = introduces and follows != "text"
    start = 0
    for index in range(1, len(made) + 1):
        if index == len(made) or turned[index] != turned[start]:
            yield {"turned": turned[start], "parts": made[start:index]}
            start = index


# --- blocks -------------------------------------------------------------------------------------------------------


def _block(block: Block, paper: Paper) -> Iterator[dict[str, Any]]:
    try:
        make = _BLOCKS[type(block)]
    except KeyError:
        raise TypeError(f"A block of kind {type(block).__name__} has no form in a PDF.") from None
    return make(block, paper)


def _text(block: Text, paper: Paper) -> Iterator[dict[str, Any]]:
    yield {"kind": "text", "text": line(block.text), "sticky": False}


def _command(block: Command, paper: Paper) -> Iterator[dict[str, Any]]:
    yield {
        "kind": "command",
        "label": line(bounded(block.label, TITLE_LIMIT)),
        "text": breakable(printable(block.text)),
    }


def _facts(block: Facts, paper: Paper) -> Iterator[dict[str, Any]]:
    yield {"kind": "facts", "items": [_fact(fact) for fact in block.items]}


def _fact(fact: Fact) -> dict[str, Any]:
    """``span`` : how many thirds of the width it takes."""
    value, hint = bounded(fmt.show(fact.value, fact.kind, fact.unit), fmt.NAME_LIMIT), bounded(fact.hint, NOTE_LIMIT)
    span = next((n for n in (1, 2) if len(value) <= n * CARD and len(hint) <= n * CARD_HINT), 3)
    return {"label": line(bounded(fact.label, LABEL_LIMIT)), "value": line(value), "hint": line(hint), "span": span}


def _notes(block: Notes, paper: Paper) -> Iterator[dict[str, Any]]:
    items = [
        {"about": line(bounded(note.about, TITLE_LIMIT)), "text": line(bounded(note.text, NOTE_LIMIT))}
        for note in block.items
    ]
    yield {"kind": "notes", "items": items}


def _figure(block: Figure, paper: Paper) -> Iterator[dict[str, Any]]:
    """The drawing as wide as the text, or as high as the page lets it be."""
    from wcbench.reports.canvas import WIDE
    from wcbench.reports.figures import print_svg

    svg, tall = _framed(glyphs(print_svg(block.data, WIDE)))
    wide = min(room(paper), TALLEST * (POINTS[paper][1] - HEAD_AND_FOOT) / tall)
    caption = line(bounded(block.caption, CAPTION_LIMIT))
    yield {"kind": "figure", "svg": svg, "width": wide, "alt": fmt.prose(block.alt), "caption": caption}


def _framed(svg: str) -> tuple[str, float]:
    """The drawing with room around it for numbers that stand half outside, and its height over its width."""
    found = _VIEW_BOX.search(svg)
    assert found is not None, "print_svg writes a viewBox"
    left, top, wide, tall = map(float, found.groups())
    box = (left - FRAME, top - FRAME, wide + 2 * FRAME, tall + 2 * FRAME)
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    shown = " ".join(f"{number:g}" for number in box)
    opening = _VIEW_BOX.sub(f'viewBox="{shown}"', opening)
    return f"{opening}>{rest}", box[3] / box[2]


# --- tables -------------------------------------------------------------------------------------------------------


def _table(table: Table, paper: Paper) -> Iterator[dict[str, Any]]:
    """One table, or one a group of columns where not even a turned page is wide enough."""
    columns = paper_columns(table)
    if not columns:
        yield from _text(Text(bounded(table.caption, CAPTION_LIMIT)), paper)
        return
    layout = fit(columns, paper)
    if layout is not None:
        yield _laid(table, columns, layout)
        return
    groups = list(parts(columns, paper))
    for number, (group, part) in enumerate(groups, 1):
        said = f"(Part {number} of {len(groups)}: {len(group)} of {len(columns)} columns.)"
        yield _laid(table, [columns[index] for index in group], part, said)


def _side_by_side(block: SideBySide, paper: Paper) -> Iterator[dict[str, Any]]:
    """Next to each other where all of them fit."""
    columns = [paper_columns(table) for table in block.tables]
    layouts = [
        fit_beside(one, len(table.shown), len(columns), paper) if one else None
        for one, table in zip(columns, block.tables, strict=True)
    ]
    laid = [
        _laid(table, one, layout)
        for table, one, layout in zip(block.tables, columns, layouts, strict=True)
        if layout is not None
    ]
    if laid and len(laid) == len(block.tables):
        yield {"kind": "beside", "tables": laid}
        return
    for table in block.tables:
        yield from _table(table, paper)


def _laid(table: Table, columns: Sequence[PaperColumn], layout: Layout, part: str = "") -> dict[str, Any]:
    rows = heights(columns, layout)
    return {
        "kind": "table",
        "caption": line(" ".join(filter(None, (bounded(table.caption, CAPTION_LIMIT), part)))),
        "size": layout.size,
        "widths": layout.widths,
        "turned": layout.turned,
        "heads": [{"text": one.head, "unit": one.unit, "align": one.column.align} for one in columns],
        "rows": list(zip(*(one.cells for one in columns), strict=True)),
        "whole": [row < WHOLE for row in rows],
        "together": sum(rows) < TOGETHER,
        "more": _more(table),
        "command": breakable(printable(table.more)) if table.hidden else "",
    }


def _more(table: Table) -> str:
    if not table.hidden:
        return "" if table.rows else "No rows."
    return f"{fmt.plural(table.hidden, 'more row')}{':' if table.more else '.'}"


_BLOCKS: Mapping[type, Callable[[Any, Paper], Iterator[dict[str, Any]]]] = {
    Text: _text,
    Command: _command,
    Facts: _facts,
    Table: _table,
    SideBySide: _side_by_side,
    Notes: _notes,
    Figure: _figure,
}
