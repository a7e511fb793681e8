"""A report as one HTML file that needs nothing else: no request, figures inside, one small script of its own.

Every text goes through jinja2's escaping, and before it through `format.visible`, whatever its origin: kernel names
come from files of strangers. Should a text get through all the same, the page's policy lets no script run but ours.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Fact, Figure, Report, Table

SENTENCE = 2000
"""Characters of a sentence, a note or a command that a page shows."""
LABEL = 300
"""Characters of a heading or a label."""
LONG_NAME = 120
"""Longer names stand shortened in a table, and whole (up to `format.NAME_LIMIT`) in what opens below them."""

_NUMBER = re.compile(r"(?<=.) \(\d+\)$")
"""What `format.apart` puts behind names that it cannot tell apart otherwise."""
_SVG_TEXT = re.compile(r"(<text\b[^>]*>)([^<]*…[^<]*)(</text>)")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with escaping on and a typing error in a template an error."""
    found = Environment(
        loader=PackageLoader("wcbench.reports", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(prose=_prose, label=_label, limited=_limited, name=_name)
    found.globals.update(fact_text=_fact_text, table_view=_table_view, figure_view=_figure_view)
    found.globals.update(cut=fmt.cut, LONG_NAME=LONG_NAME)
    return found


def render_html(report: Report) -> str:
    """The report as a page of HTML."""
    script = _script()
    return environment().get_template("report.html").render(report=report, script=Markup(script), policy=policy(script))


@lru_cache(maxsize=1)
def _script() -> str:
    loader = environment().loader
    assert loader is not None, "the environment is made with one"
    return loader.get_source(environment(), "report.js")[0]


def policy(script: str) -> str:
    """A Content-Security-Policy: no request at all, styles in the page, and of scripts this one alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


# --- texts --------------------------------------------------------------------------------------------------------


def _harmless(value: Any) -> Any:
    """The last gate before escaping: a plain text has no invisible character left."""
    return fmt.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str, limit: int = SENTENCE) -> Markup:
    """A sentence on one line in which a number is not parted from its unit."""
    line = _limited(re.sub(r"\s+", " ", text).strip(), limit)
    return Markup(fmt.NUMBER_UNIT.sub("&nbsp;", str(escape(line))))


def _label(text: str) -> Markup:
    return _prose(text, LABEL)


def _limited(text: str, limit: int = SENTENCE) -> str:
    """The text, cut where it is too long for a page; the cut says so."""
    cut = fmt.cut(text, limit)
    return f"{cut.text}… ({cut.more:,} more characters)" if cut.more else cut.text


def _name(text: str) -> Markup:
    """A name that may break after ``::``, ``_`` and a comma before it has to break inside a word."""
    return Markup(re.sub(r"(::|_+|,)(?=\w)", r"\1<wbr>", str(escape(fmt.visible(text)))))


def _fact_text(fact: Fact) -> str:
    return _limited(fmt.show(fact.value, fact.kind, fact.unit), fmt.NAME_LIMIT)


# --- tables -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """A cell's text; ``raw`` is the number behind it, by which the page sorts, empty where there is none; ``short`` a
    long name as it first stands there."""

    text: str
    raw: str
    absent: bool
    short: str = ""


def _table_view(table: Table) -> tuple[list[tuple[Column, str]], list[list[_Cell]]]:
    """Headings with their units, and the shown rows; names stay whole, the template cuts them."""
    formatted = table.texts(table.shown)
    heads = [(column, text.unit) for column, text in zip(table.columns, formatted, strict=True)]
    texts = zip(*(text.cells for text in formatted), strict=True)
    rows = zip(table.shown, texts, strict=True)
    cells = [[_cell(*cell) for cell in zip(table.columns, *row, strict=True)] for row in rows]
    for place, column in enumerate(table.columns):
        if column.kind == "name":
            short = fmt.apart([row[place].text for row in cells], LONG_NAME)
            for row, text in zip(cells, short, strict=True):
                row[place] = replace(row[place], short=text)
    return heads, cells


def _cell(column: Column, value: Any, text: str) -> _Cell:
    value = value.median if isinstance(value, fmt.Spread) else value
    missing = fmt.absent(value)
    numeric = column.align == "right" and isinstance(value, int | float) and not missing
    return _Cell(text, str(value) if numeric else "", missing)


# --- figures ------------------------------------------------------------------------------------------------------


def _figure_view(figure: Figure) -> tuple[Markup, list[str]]:
    """The figure twice, for a phone and for wider screens (the style sheet shows one), and the names it shortens."""
    from wcbench.reports.canvas import NARROW, WIDE
    from wcbench.reports.figures import svg

    names = list(dict.fromkeys(map(fmt.visible, _texts(figure.data))))
    pictures, whole = [], set()
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        drawn = svg(figure.data, width=width, prefix=f"{figure.id}-{size}", label=_limited(fmt.prose(figure.alt)))
        drawn, found = _titled(drawn, names)
        whole |= found
        pictures.append(Markup('<div class="{}">{}</div>').format(size, Markup(drawn)))
    return Markup("\n").join(pictures), [name for name in names if name in whole]


def _texts(data: Any) -> Iterator[str]:
    """Every text in a figure's data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, tuple):
        for item in data:
            yield from _texts(item)
    elif is_dataclass(data):
        for field in fields(data):
            yield from _texts(getattr(data, field.name))


def _titled(svg: str, names: list[str]) -> tuple[str, set[str]]:
    """The picture with the whole name as a tooltip where it shows a shortened one, and those names."""
    found: set[str] = set()

    def titled(match: re.Match[str]) -> str:
        opening, shown, closing = match.groups()
        parts = _NUMBER.sub("", html.unescape(shown).strip()).split("…")
        meant = [name for name in names if _shortens(parts, name)]
        found.update(meant)
        whole = "\n".join(_limited(name, fmt.NAME_LIMIT) for name in meant[:3])
        return f"{opening}<title>{escape(whole)}</title>{shown}{closing}" if meant else match[0]

    return _SVG_TEXT.sub(titled, svg), found


def _shortens(parts: Sequence[str], name: str) -> bool:
    """Whether the parts about its ellipses are a name's beginning, middle and end."""
    if len(name) <= sum(map(len, parts)) or not (name.startswith(parts[0]) and name.endswith(parts[-1])):
        return False
    return all(part in name for part in parts[1:-1])
