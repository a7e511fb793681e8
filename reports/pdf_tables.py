"""How a table fits on paper: type size, column widths, a turned page, parts for one too wide even for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from wcbench.reports import format as fmt
from wcbench.reports.document import Paper
from wcbench.reports.model import Column, Table
from wcbench.reports.pdf_text import LABEL_LIMIT, bounded, breakable, line, lines, narrowest, printable, width

POINTS: dict[Paper, tuple[float, float]] = {"a4": (595.28, 841.89), "letter": (612.0, 792.0)}
MARGIN = 57.0
"""Left and right, in points (2 cm)."""
GUTTER = 9.0
"""Between two columns, in points."""
SIZES = (8.0, 7.5, 7.0, 6.5)
"""Type sizes of tables in points, the best first. DejaVu Sans is large for its size."""
SMALLEST = 6.0
EASY = 20.0
"""A column of text reads well at this multiple of the type size, even if its longest name takes many lines."""
ONE_LINE = 10.0
"""A heading up to this multiple of the type size stands on one line."""
MANY_LINES, WORTH = 4, 250.0
"""Lines of a squeezed row, and points of all rows, beyond which the page is turned."""
BESIDE = 24.0
"""Room between two tables side by side, in points."""
BESIDE_ROWS = 30


@dataclass(frozen=True)
class Layout:
    """A table as it goes on paper; widths in points, without gutters."""

    size: float
    widths: tuple[float, ...]
    turned: bool = False

    @property
    def total(self) -> float:
        return sum(self.widths) + GUTTER * (len(self.widths) - 1)


@dataclass(frozen=True)
class PaperColumn:
    """A column's heading, unit and cells, ready to print."""

    head: str
    unit: str
    cells: tuple[str, ...]
    column: Column

    @cached_property
    def least(self) -> float:
        """The width below which something would run over, as a multiple of the type size."""
        return max(self._head_least, *map(self._cell_least, self.cells), 1.0)

    @cached_property
    def wanted(self) -> float:
        """The width at which no cell breaks, and a long heading into two lines."""
        head = width(self.head, bold=True) + (width(f" ({self.unit})") if self.unit else 0.0)
        return max(self.least, min(head, max(head / 2 + 1, ONE_LINE)), *map(width, self.cells))

    @property
    def easy(self) -> float:
        """The width at which a column of text reads well; over numbers, the heading breaks at every word."""
        return max(self.least, min(self.wanted, EASY)) if self.column.align == "left" else self.least

    @cached_property
    def _head_least(self) -> float:
        unit = narrowest(f"({self.unit})") if self.unit else 0.0
        return max(narrowest(self.head, bold=True), unit)

    def _cell_least(self, cell: str) -> float:
        """A short text stays in one piece, as numbers do."""
        return width(cell) if self.column.align == "right" and len(cell) < 25 else narrowest(cell)


def paper_columns(table: Table) -> tuple[PaperColumn, ...]:
    """The shown rows of a table as text, column by column."""
    return tuple(
        PaperColumn(
            line(bounded(column.title, LABEL_LIMIT)),
            printable(text.unit),
            _cells(column, text.cells),
            column,
        )
        for column, text in zip(table.columns, table.texts(table.shown), strict=True)
    )


def _cells(column: Column, texts: Sequence[str]) -> tuple[str, ...]:
    """A column's cells; names that differ only beyond the limit show where."""
    found = {text: cell(text) for text in texts}
    if column.kind == "name" and len(set(found.values())) < len(found):
        long = [text for text in found if len(text) > fmt.NAME_LIMIT]
        found |= zip(long, (breakable(printable(one)) for one in fmt.apart(long, fmt.NAME_LIMIT)), strict=True)
    return tuple(found[text] for text in texts)


def cell(text: str) -> str:
    """A cell's text; of one beyond the limit, how much is left out."""
    part = fmt.cut(text)
    more = f"… ({part.more:,} more characters)" if part.more else ""
    return breakable(printable(part.text)) + more


def room(paper: Paper, *, turned: bool = False) -> float:
    """The width of the text on a page, in points."""
    return POINTS[paper][1 if turned else 0] - 2 * MARGIN


def fit(columns: Sequence[PaperColumn], paper: Paper) -> Layout | None:
    """The layout that reads best; None where the columns need more than one page's width.

    Columns that read well are worth smaller type; squeezed ones are better than a page to be turned, up to a point.
    """
    upright, turned = room(paper), room(paper, turned=True)
    tries = [(size, upright, True) for size in SIZES]
    tries += [(size, upright, False) for size in SIZES[2:]]
    tries += [(size, turned, True) for size in SIZES] + [(SIZES[-1], turned, False), (SMALLEST, turned, False)]
    layouts = [
        Layout(size, _widths(columns, size, wide), turned=wide == turned)
        for size, wide, easily in tries
        if _needed(columns, size, easily) <= wide
    ]
    return next((one for one in layouts if not _squeezed(columns, one)), layouts[0] if layouts else None)


def _squeezed(columns: Sequence[PaperColumn], layout: Layout) -> bool:
    """Whether columns are narrower than reads well, rows of many lines for it, and enough of them to fill a page."""
    rows = heights(columns, layout)
    narrow = _needed(columns, layout.size, True) > layout.total + 0.1 * len(columns)
    return narrow and sum(rows) > WORTH and max(rows) > layout.size * (0.9 + 1.2 * MANY_LINES)


def fit_beside(columns: Sequence[PaperColumn], rows: int, tables: int, paper: Paper) -> Layout | None:
    """The layout of one of several tables side by side; None where they go one below the other."""
    wide = (room(paper) - BESIDE * (tables - 1)) / tables
    for size in SIZES if rows <= BESIDE_ROWS else ():
        if _needed(columns, size, True) <= wide:
            return Layout(size, _widths(columns, size, wide))
    return None


def heights(columns: Sequence[PaperColumn], layout: Layout) -> list[float]:
    """About how many points high each row will be."""
    pairs = list(zip(columns, layout.widths, strict=True))
    rows = zip(*([lines(text, wide / layout.size) for text in one.cells] for one, wide in pairs), strict=True)
    return [layout.size * (0.9 + 1.2 * max(row)) for row in rows]


def parts(columns: Sequence[PaperColumn], paper: Paper) -> Iterator[tuple[list[int], Layout]]:
    """Groups of columns that fit, each with the columns that say which row it is."""
    keys, left = _keys(columns), room(paper)
    group = list(keys)
    for index in (index for index in range(len(columns)) if index not in keys):
        if len(group) > len(keys) and _needed([columns[i] for i in [*group, index]], SIZES[2], True) > left:
            yield group, _part(columns, group, left)
            group = list(keys)
        group.append(index)
    yield group, _part(columns, group, left)


def _part(columns: Sequence[PaperColumn], group: Sequence[int], left: float) -> Layout:
    return Layout(SIZES[2], _widths([columns[i] for i in group], SIZES[2], left))


def _keys(columns: Sequence[PaperColumn]) -> list[int]:
    """The first column, and the first of names."""
    names = [index for index, one in enumerate(columns) if one.column.kind == "name"]
    return sorted({0, *names[:1]})


def _needed(columns: Sequence[PaperColumn], size: float, easily: bool) -> float:
    """Points that columns take with their gutters."""
    return sum(size * (one.easy if easily else one.least) for one in columns) + GUTTER * (len(columns) - 1)


def _widths(columns: Sequence[PaperColumn], size: float, left: float) -> tuple[float, ...]:
    """Numbers and short texts get their room first, long texts what is left, headings on one line what is left then."""
    left -= GUTTER * (len(columns) - 1)
    least, wanted = [size * one.least for one in columns], [size * one.wanted for one in columns]
    texts = [size * (one.least if one.column.align == "right" else one.wanted) for one in columns]
    return tuple(round(one + 0.005, 2) for one in _filled(_filled(least, texts, left), wanted, left))


def _filled(least: Sequence[float], wanted: Sequence[float], left: float) -> list[float]:
    """All widths grown to one level, each at most to what it wants, until nothing is left."""
    low, high = 0.0, max(wanted)
    if sum(_grown(least, wanted, high)) <= left:
        return _grown(least, wanted, high)
    for _ in range(40):  # by halving
        level = (low + high) / 2
        low, high = (level, high) if sum(_grown(least, wanted, level)) <= left else (low, level)
    return _grown(least, wanted, low)


def _grown(least: Sequence[float], wanted: Sequence[float], level: float) -> list[float]:
    return [max(small, min(large, level)) for small, large in zip(least, wanted, strict=True)]
