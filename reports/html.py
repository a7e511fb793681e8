"""A report as one HTML file that needs nothing else: no request, no script, figures inside.

Every text goes through jinja2's escaping, and before it through `format.visible`, whatever its origin: kernel names
come from files of strangers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from wcbench.reports import format as fmt
from wcbench.reports.model import Column, Fact, Figure, Report, Table

_NUMBER_UNIT = re.compile(r"(?<=\d) (?=(?:[kMGTPE]?(?:FLOP|MAC)|[mµn]?s|[KMGT]iB|[kMG]|%|J|W)(?![\w/]))")


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
    found.filters.update(prose=_prose, name=_name)
    found.globals.update(
        fact_text=_fact_text, table_view=_table_view, cut=fmt.cut, cut_prose=_cut_prose, figure_svg=_figure_svg
    )
    return found


def render_html(report: Report) -> str:
    """The report as a page of HTML."""
    return environment().get_template("report.html").render(report=report)


def _harmless(value: Any) -> Any:
    """The last gate before escaping: a plain text has no invisible character left."""
    return fmt.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """A sentence on one line in which a number is not parted from its unit."""
    return Markup(_NUMBER_UNIT.sub("&nbsp;", str(escape(fmt.prose(text)))))


def _name(text: str) -> Markup:
    """A name that may break after ``::``, ``_`` and a comma before it has to break inside a word."""
    return Markup(re.sub(r"(::|_+|,)(?=\w)", r"\1<wbr>", str(escape(fmt.visible(text)))))


def _cut_prose(text: str, limit: int = 2000) -> fmt.Cut:
    return fmt.cut(fmt.prose(text), limit)


def _fact_text(fact: Fact) -> str:
    text = fmt.show(fact.value, fact.kind, fact.unit)
    cut = fmt.cut(text)
    return f"{cut.text}… ({cut.more:,} more characters)" if cut.more else cut.text


def _table_view(table: Table) -> tuple[list[tuple[Column, str]], list[tuple[str, ...]]]:
    """Headings with their units, and the shown rows as text; names stay whole, the template cuts them."""
    formatted = table.texts(table.shown)
    heads = [(column, text.unit) for column, text in zip(table.columns, formatted, strict=True)]
    return heads, list(zip(*(text.cells for text in formatted), strict=True))


def _figure_svg(figure: Figure) -> Markup:
    """The figure twice, for a phone and for wider screens; the style sheet shows one of them."""
    from wcbench.reports.canvas import NARROW, WIDE
    from wcbench.reports.figures import svg

    drawn = (
        (name, svg(figure.data, width=width, prefix=f"{figure.id}-{name}", label=figure.alt))
        for name, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return Markup("\n").join(Markup('<div class="{}">{}</div>').format(name, Markup(text)) for name, text in drawn)
