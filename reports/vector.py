"""A matplotlib figure as SVG: an element inside a page of ours, or a file that stands alone, as Typst takes it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from markupsafe import escape
from matplotlib.figure import Figure

from wcbench.reports import format as fmt
from wcbench.reports.canvas import style
from wcbench.reports.palette import EDGE, GRID, INK, MEDIAN, MUTED

_THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", EDGE: "var(--edge)", MEDIAN: "var(--median)"}
_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_JOINTS = 'stroke-linejoin="round" stroke-linecap="butt"'
"""What matplotlib's style sheet says of all lines; a sheet inside a page would hit the page."""


def inline(figure: Figure, prefix: str, label: str) -> str:
    """The figure as an element: no prolog, no rules for the whole page, own ids, the page's colours."""

    def own(tag: str) -> str:
        tag = re.sub(r' id="([^"]+)"', rf' id="{prefix}-\1"', tag)
        tag = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{prefix}-", tag)
        for color, variable in _THEME.items():
            tag = tag.replace(color, variable)
        return tag

    return _opened(_tags(_element(figure), own), f'role="img" aria-label="{_attribute(label)}"')


def standalone(figure: Figure, label: str = "") -> str:
    """The figure as a file: its own colours, on light paper, and its size in pixels."""
    width, height = (round(inches * 72) for inches in figure.get_size_inches())
    named = f' role="img" aria-label="{_attribute(label)}"' if label else ""
    return _opened(_element(figure), f'width="{width}" height="{height}" {_JOINTS}{named}') + "\n"


def _element(figure: Figure) -> str:
    """matplotlib's file from `<svg` on, the same bytes each time, without what says nothing."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for unwanted in (r"<metadata>.*?</metadata>\s*", r"<!--.*?-->\s*", r"<style[^>]*>.*?</style>\s*"):
        text = re.sub(unwanted, "", text, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))

    def lean(tag: str) -> str:
        tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
        tag = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", tag)
        return re.sub(r'\bd="[^"]+"', _hundredths, tag)

    return _tags(text, lean).strip()


def _tags(text: str, change: Callable[[str], str]) -> str:
    """The text with its tags changed and what stands between them, names of strangers, left as it is."""
    return re.sub(r"<[^>]+>", lambda found: change(found[0]), text)


def _opened(text: str, attributes: str) -> str:
    """The element with an opening of ours."""
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None, "matplotlib writes a viewBox"
    opening = f"<svg {box[0]} {attributes} {_SPACES}>"
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1)


def _hundredths(path: re.Match[str]) -> str:
    """Hundredths of a pixel are enough, and half of the size."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])


def _attribute(text: str) -> str:
    return str(escape(fmt.prose(text)))
