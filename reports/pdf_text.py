"""Texts as a PDF can show them: only characters that the fonts have, long words with places to break, and widths.

PDF/UA forbids a character without a glyph, and a word that cannot break would run over its column or off the page.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.ft2font import FT2Font, LoadFlags

from wcbench.reports import format as fmt

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
"""DejaVu, which matplotlib brings along: the same letters on every machine, in text and figures."""

BREAK = "\ue000"
"""A place to break that leaves nothing in the text, so that a name copied from the PDF is the name. No text from
outside holds one: `format.visible` spells private characters out."""
HARD_BREAK = "\u200b"
"""A place to break beside brackets, where the rules of line breaking would ignore the other one."""
NO_GLYPH = "\ufffd"
LONGEST = 20
"""Characters of a word that stay together."""
LABEL_LIMIT = 120
"""Characters of a column's heading or a fact's label."""
CHOPPED = 8
"""Characters that stay together in a longer word without a separator or a capital."""

_AFTER = re.compile(r"(?<=::)(?=[^:])|(?<=[_,/<=;&|-])(?=\w)|(?<=\.)(?=[^\W\d])")
"""Where a name is best broken: after a separator."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SOFT = re.compile(r"[\w:,/<>=.;&|-]")


# --- characters ---------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text without invisible characters (spelled out) and without any that the fonts lack (U+FFFD)."""
    return glyphs(fmt.visible(text))


def glyphs(text: str) -> str:
    """The text with U+FFFD in place of every character that the fonts lack; of SVG, the tags stay as they are."""
    if text.isascii():
        return text
    known = _covered()
    return "".join(char if char.isascii() or ord(char) in known else NO_GLYPH for char in text)


@lru_cache(maxsize=1)
def _covered() -> frozenset[int]:
    """What both weights in use have; a third font would add characters to one of them only."""
    return frozenset.intersection(*(frozenset(_font(bold).get_charmap()) for bold in (False, True)))


# --- lines --------------------------------------------------------------------------------------------------------


def line(text: Any) -> str:
    """A sentence or a name on one line: printable, breakable, no number parted from its unit."""
    return breakable(fmt.NUMBER_UNIT.sub("\u00a0", printable(fmt.prose(text))))


def bounded(text: Any, limit: int) -> str:
    """A text on one line of which no more is shown than a page has room for; what is cut is counted."""
    part = fmt.cut(fmt.prose(text), limit)
    return f"{part.text}… ({part.more:,} more characters)" if part.more else part.text


def breakable(text: str) -> str:
    """The text with places to break in every long word."""
    return re.sub(rf"[^ \u00a0]{{{LONGEST},}}", lambda word: _broken(word[0]), text)


def _broken(word: str) -> str:
    parts = [piece for part in _AFTER.split(word) for piece in _bounded(part)]
    text = parts[0]
    for before, after in pairwise(parts):
        text += (BREAK if _SOFT.match(before[-1]) and _SOFT.match(after[0]) else HARD_BREAK) + after
    return text


def _bounded(part: str) -> list[str]:
    """A part of a word in pieces of bounded length, at a capital after a small letter where there is one."""
    if len(part) <= LONGEST:
        return [part]
    return [piece for hump in _HUMP.split(part) for piece in (_chopped(hump) if len(hump) > LONGEST else [hump])]


def _chopped(hump: str) -> list[str]:
    return [hump[start : start + CHOPPED] for start in range(0, len(hump), CHOPPED)]


def pieces(text: str) -> list[str]:
    """What a line cannot be broken within."""
    return re.split(f"[ {BREAK}{HARD_BREAK}]", text)


# --- widths -------------------------------------------------------------------------------------------------------


def width(text: str, *, bold: bool = False) -> float:
    """Width of a line in DejaVu Sans as a multiple of the type size, without kerning (which takes a little away)."""
    return sum(_advance(char, bold) for char in text)


def narrowest(text: str, *, bold: bool = False) -> float:
    """Width of the widest piece of a text that cannot be broken, as a multiple of the type size."""
    return max(width(piece, bold=bold) for piece in pieces(text))


def lines(text: str, wide: float) -> int:
    """How many lines of a width, a multiple of the type size, a text takes."""
    count, at = 1, 0.0
    for piece in re.split(f"(?<=[ {BREAK}{HARD_BREAK}])", text):
        if at and at + width(piece.rstrip()) > wide:
            count, at = count + 1, 0.0
        at += width(piece)
    return count


@lru_cache(maxsize=8192)
def _advance(char: str, bold: bool) -> float:
    if char in (BREAK, HARD_BREAK):
        return 0.0
    font = _font(bold)
    return float(font.load_char(ord(char), LoadFlags.NO_SCALE).horiAdvance) / font.units_per_EM


@lru_cache(maxsize=2)
def _font(bold: bool) -> FT2Font:
    return FT2Font(FONTS / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"))
