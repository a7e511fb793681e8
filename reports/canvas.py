"""What every figure is drawn with: settings, canvas, text that fits, legends.

Only matplotlib's object interface is used, under settings that end with the drawing, so that a notebook's own style
neither changes a report nor is changed by it. One SVG unit is one CSS pixel: a figure drawn for a phone's width has
readable letters there. Names never pass through mathtext, or a `$` in a kernel's name would be taken for a formula.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import matplotlib
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import ScaledTranslation

from wcbench.reports import format as fmt
from wcbench.reports.palette import EDGE, GRID, INK, MUTED

LEAST = 8
"""Characters of a name that are shown however little room there is."""
WIDE = 720
NARROW = 343
"""Widths in CSS pixels: a desktop's column, and a phone of 375 px less its margins."""

FONT = 12
FOOT = 46
"""Room for the numbers and the name of a horizontal axis."""
TIGHT = 500
"""Below this width panels stand one below the other."""
KEY_LINE = 20
"""Height of one line of a legend."""

_STYLE = {
    "font.size": FONT,
    "font.family": "DejaVu Sans",  # ships with matplotlib, so that lengths are the same everywhere
    "svg.fonttype": "none",  # real letters: sharp at any zoom, searchable, a tenth of the size of outlines
    "svg.hashsalt": "wcbench",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


LINES: Any = {"line": "-", "dashed": (0, (3, 1.5))}


@contextmanager
def style() -> Iterator[None]:
    """Our settings over matplotlib's defaults, whatever the process had; what it had comes back."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's fonts have more
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def canvas(width: int, height: int) -> Figure:
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_alpha(0)
    return figure


def panel_axes(figure: Figure, box: tuple[float, float, float, float]) -> Any:
    """Axes at a box of pixels counted from the top left."""
    width, height = figure.get_size_inches() * 72
    left, top, wide, tall = box
    tall = max(tall, 1)
    axes = figure.add_axes((left / width, 1 - (top + tall) / height, wide / width, tall / height))
    axes.patch.set_alpha(0)
    return axes


def write(axes: Any, x: float, y: float, text: str, offset: tuple[float, float] = (0, 0), **style: Any) -> None:
    """Text at a place, shifted by pixels; never read as mathtext."""
    transform = style.pop("transform") + ScaledTranslation(offset[0] / 72, offset[1] / 72, axes.figure.dpi_scale_trans)
    axes.text(x, y, text, transform=transform, parse_math=False, **{"va": "baseline", **style})


# --- legends ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a text, and what it explains."""

    text: str
    color: str
    mark: Literal["patch", "line", "dashed", "dot", "curve", "slash"] = "patch"
    shape: str = "o"
    """Of a dot, and of those on a curve, as matplotlib names it."""
    alpha: float = 1.0
    dashes: Any = "-"
    """Of a curve."""


def legend_rows(keys: Sequence[Key], width: int) -> list[list[tuple[float, Key]]]:
    """For each line that fits, its entries with their distance from the left."""
    lines: list[list[tuple[float, Key]]] = []
    left = float(width)
    for key, text in zip(keys, fits([key.text for key in keys], width - 20), strict=True):
        wide = text_width(text) + (42 if key.mark == "curve" else 30)
        if left + wide > width + 10:
            lines.append([])
            left = 0
        lines[-1].append((left, replace(key, text=text)))
        left += wide
    return lines


def legend(figure: Figure, lines: Sequence[Sequence[tuple[float, Key]]]) -> None:
    """Draw the lines at the foot of a figure."""
    width, height = figure.get_size_inches() * 72
    for number, line in enumerate(reversed(lines)):
        y = (6 + KEY_LINE * number) / height
        for x, key in line:
            more = 12 if key.mark == "curve" else 0  # its dashes need room
            figure.add_artist(_mark(key, (x + 0.5 + more / 2) / width, y - 1 / height, figure))
            figure.text((x + 17 + more) / width, y, key.text, parse_math=False, va="baseline")


def _mark(key: Key, x: float, y: float, figure: Figure) -> Any:
    width, height = figure.get_size_inches() * 72
    wide, tall = 12 / width, 12 / height
    place: dict[str, Any] = {"transform": figure.transFigure}
    if key.mark in ("line", "dashed"):
        dashes = LINES[key.mark]
        return Line2D([x, x + wide], [y + tall / 2] * 2, color=key.color, linewidth=2, linestyle=dashes, **place)
    if key.mark == "dot":
        dot: dict[str, Any] = {"marker": key.shape, "markersize": 7, "markerfacecolor": key.color}
        dot |= {"markeredgecolor": EDGE, "markeredgewidth": 1.4 if key.color == "none" else 0.6}
        return Line2D([x + wide / 2], [y + tall / 2], linestyle="none", **dot, **place)
    if key.mark == "curve":
        style: dict[str, Any] = {"marker": key.shape, "markevery": [1], "markersize": 5, "linewidth": 2}
        ends = [x - 6 / width, x + wide / 2, x + wide + 6 / width]
        return Line2D(ends, [y + tall / 2] * 3, color=key.color, linestyle=key.dashes, **style, **place)
    if key.mark == "slash":
        return Line2D([x + wide / 4, x + 3 * wide / 4], [y, y + tall], color=key.color, linewidth=1, **place)
    face = to_rgba(key.color, key.alpha)
    return Rectangle((x, y), wide, tall, facecolor=face, edgecolor=EDGE, linewidth=0.6, **place)


# --- foot: room below what is drawn for a legend and a list of names -----------------------------------------------

LIST_LINE = 17
"""Height of a line of a list of names."""


def foot(figure: Figure, keys: Sequence[Key] = (), listed: Sequence[tuple[str, str]] = ()) -> None:
    """Make a drawn figure higher by what a legend and a list need, and write them there.

    Parameters
    ----------
    listed : what is named (a number on the figure), and the name.
    """
    width, height = figure.get_size_inches() * 72
    lines, names = legend_rows(keys, int(width)), _columns(listed, width)
    more = KEY_LINE * len(lines) + LIST_LINE * len(names) + (8 if names else 0)
    if not more:
        return
    for axes in figure.axes:
        left, bottom, wide, tall = axes.get_position().bounds
        axes.set_position((left, (bottom * height + more) / (height + more), wide, tall * height / (height + more)))
    figure.set_size_inches(width / 72, (height + more) / 72)
    legend(figure, lines)
    _write_names(figure, names, KEY_LINE * len(lines))


def _columns(listed: Sequence[tuple[str, str]], width: float) -> list[list[tuple[float, float, str, str]]]:
    """For each line its entries (left, left of the name, sign, name): as many columns as fit, read down each."""
    if not listed:
        return []
    indent = max(text_width(sign) for sign, _ in listed) + 8
    names = fits([name for _, name in listed], width - indent)
    texts = [(sign, name) for (sign, _), name in zip(listed, names, strict=True)]
    widest = indent + max(text_width(text) for _, text in texts) + 18
    count = max(1, min(len(texts), int((width + 18) // widest)))
    rows = -(-len(texts) // count)
    starts = [(widest * (i // rows), i) for i in range(len(texts))]
    return [[(x, x + indent, *texts[i]) for x, i in starts if i % rows == row] for row in range(rows)]


def _write_names(figure: Figure, lines: Sequence[Sequence[tuple[float, float, str, str]]], above: float) -> None:
    width, height = figure.get_size_inches() * 72
    for number, line in enumerate(reversed(lines)):
        y = (above + 8 + LIST_LINE * number) / height
        for sign_at, name_at, sign, name in line:
            figure.text(sign_at / width, y, sign, parse_math=False, va="baseline", color=MUTED)
            figure.text(name_at / width, y, name, parse_math=False, va="baseline")


# --- text that fits -----------------------------------------------------------------------------------------------


def text_width(text: str) -> float:
    """Width in pixels of a line in the figures' font; readers' own fonts are as narrow or narrower."""
    return _width(text)


@lru_cache(maxsize=4096)
def _width(text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        font = FontProperties(family="DejaVu Sans", size=FONT)
        return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0])


def trimmed(text: str) -> str:
    """A number's text without zeros that say nothing: 16.0 MiB is 16 MiB, 1.00e-10 is 1e-10."""
    number, _, unit = text.partition(" ")
    digits, e, exponent = number.partition("e")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}{e}{exponent} {unit}".rstrip()


def fits(names: Sequence[str], room: float) -> list[str]:
    """Each name as `fit` shortens it; different ones that would look alike are told apart (`format.apart`)."""
    found = {name: fit(name, room) for name in names}
    seen = Counter(found.values())
    alike = [name for name, text in found.items() if seen[text] > 1]
    width = max((len(found[name]) for name in alike), default=0)
    told = fmt.apart(alike, width)
    while width > LEAST and max(map(text_width, told), default=0) > room:
        width -= 1
        told = fmt.apart(alike, width)
    found |= zip(alike, told, strict=True)
    return [found[name] for name in names]


def fit(name: str, room: float) -> str:
    """The name, shortened in its middle until it takes no more than ``room`` pixels."""
    width = max(LEAST, int(room / 4))
    text = fmt.shorten(name, width)
    while width > LEAST and text_width(text) > room:
        width = min(width - 1, int(width * room / text_width(text)))
        text = fmt.shorten(name, max(LEAST, width))
    return text
