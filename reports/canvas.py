"""What every figure is drawn with: settings, canvas, text that fits, legends.

Only matplotlib's object interface is used, under settings that end with the drawing, so that a notebook's own style
neither changes a report nor is changed by it. One SVG unit is one CSS pixel: a figure drawn for a phone's width has
readable letters there. Names never pass through mathtext, or a `$` in a kernel's name would be taken for a formula.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import ScaledTranslation

from wcbench.reports import format as fmt
from wcbench.reports.palette import EDGE, GRID, INK, MUTED

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
    mark: Literal["patch", "line", "dashed", "dot"] = "patch"


def legend_rows(keys: Sequence[Key], width: int) -> list[list[tuple[float, Key]]]:
    """For each line that fits, its entries with their distance from the left."""
    lines: list[list[tuple[float, Key]]] = []
    left = float(width)
    for key in keys:
        text = fit(key.text, width - 20)
        wide = text_width(text) + 30
        if left + wide > width + 10:
            lines.append([])
            left = 0
        lines[-1].append((left, Key(text, key.color, key.mark)))
        left += wide
    return lines


def legend(figure: Figure, lines: Sequence[Sequence[tuple[float, Key]]]) -> None:
    """Draw the lines at the foot of a figure."""
    width, height = figure.get_size_inches() * 72
    for number, line in enumerate(reversed(lines)):
        y = (6 + KEY_LINE * number) / height
        for x, key in line:
            figure.add_artist(_mark(key, (x + 0.5) / width, y - 1 / height, figure))
            figure.text((x + 17) / width, y, key.text, parse_math=False, va="baseline")


def _mark(key: Key, x: float, y: float, figure: Figure) -> Any:
    width, height = figure.get_size_inches() * 72
    wide, tall = 12 / width, 12 / height
    place: dict[str, Any] = {"transform": figure.transFigure}
    if key.mark in ("line", "dashed"):
        dashes = LINES[key.mark]
        return Line2D([x, x + wide], [y + tall / 2] * 2, color=key.color, linewidth=2, linestyle=dashes, **place)
    if key.mark == "dot":
        dot: dict[str, Any] = {"marker": "o", "markersize": 7, "markerfacecolor": key.color, "markeredgecolor": EDGE}
        return Line2D([x + wide / 2], [y + tall / 2], linestyle="none", markeredgewidth=0.6, **dot, **place)
    return Rectangle((x, y), wide, tall, facecolor=key.color, edgecolor=EDGE, linewidth=0.6, **place)


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


def fit(name: str, room: float) -> str:
    """The name, shortened in its middle until it takes no more than ``room`` pixels."""
    width = max(8, int(room / 4))
    text = fmt.shorten(name, width)
    while width > 8 and text_width(text) > room:
        width = min(width - 1, int(width * room / text_width(text)))
        text = fmt.shorten(name, max(8, width))
    return text
