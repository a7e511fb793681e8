"""How numbers and names are written for people: the only place where a report rounds.

Numbers get three significant digits at most, fewer where their own spread supports fewer. Exact counts stay exact.
What is absent is written "n/a", never 0. Text from outside is made harmless to read: characters that are invisible
or that turn the reading direction are spelled out.
"""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "text", "name", "count", "number", "share", "si", "si_each", "bytes", "bytes_each", "time_ns", "time_ms", "time_s",
    "spread_ms",
]  # fmt: skip
"""How a value is written. In a column all cells share a unit, except in those of a kind ``..._each``, which spread over
too many powers of ten for one."""

ABSENT = "n/a"
NUMBER_UNIT = re.compile(r"(?<=\d) (?=(?:[kMGTPE]?(?:FLOP|MAC)|[mµn]?s|[KMGT]iB|[kMG]|%|J|W)(?![\w/]))")
"""The blank between a number and its unit, at which no line may end."""
DIGITS = 3
PLACES = 5
"""Decimal places of a cell at most, where the largest value of its column has a unit that other columns chose."""
NAME_LIMIT = 600
"""Characters of a name that a table shows; a template-heavy CUDA kernel name has 200 to 500."""

_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of characters that show nothing, or something that depends on the reader's fonts."""


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles, so that the digits shown can follow the spread."""

    median: float | None
    q1: float | None
    q3: float | None


# --- numbers ------------------------------------------------------------------------------------------------------


def absent(value: Any) -> bool:
    """Whether a value is missing: None, or a float that is no number."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def decimals(value: float, digits: int = DIGITS) -> int:
    """Decimal places that give ``value`` that many significant digits, after rounding (9.996 needs one fewer)."""
    if value == 0:
        return 0
    rounded = float(f"{value:.{digits - 1}e}")
    return max(0, digits - 1 - math.floor(math.log10(abs(rounded))))


def number(value: float | None, digits: int = DIGITS) -> str:
    """1,230 or 12.3 or 0.0123; a whole number below 1,000 stays as it is; extremes get an exponent."""
    if value is None or absent(value):
        return ABSENT
    if value == round(value) and abs(value) < 1000:
        return f"{value:.0f}"
    if abs(value) < 1e-4 or abs(value) >= 1e9:
        return f"{value:.{digits - 1}e}"
    rounded = float(f"{value:.{digits - 1}e}")
    return f"{rounded:,.{decimals(value, digits)}f}"


def count(value: float | None) -> str:
    """An exact whole number with thousands separated: 25,557,032."""
    if value is None or absent(value):
        return ABSENT
    return f"{value:,.0f}" if value == round(value) else number(value)


def share(value: float | None) -> str:
    """A fraction of 1 in percent, one decimal; what is not quite nothing or everything says so."""
    return ABSENT if value is None or absent(value) else f"{_percent(value)} %"


def _percent(value: float) -> str:
    percent = 100 * value
    if 0 < percent < 0.05:
        return "<0.1"
    if 99.95 <= percent < 100 - 1e-9:  # shares are sums of floats: 0.999999999999 is all of it
        return ">99.9"
    return f"{percent:.0f}" if percent in (0, 100) or abs(percent - 100) < 0.05 else f"{percent:.1f}"


def si(value: float | None, unit: str = "") -> str:
    """8.18 GFLOP, 25.6 M, 640 FLOP."""
    if value is None or absent(value):
        return ABSENT
    step, text = _scaled(value, 1000.0, len(_SI))
    return f"{text} {_SI[step]}{unit}".strip()


def binary_bytes(value: float | None) -> str:
    """Bytes with a binary prefix: 97.5 MiB."""
    if value is None or absent(value):
        return ABSENT
    step, text = _scaled(value, 1024.0, len(_IEC))
    return f"{text} {_IEC[step]}"


def _scaled(value: float, base: float, steps: int) -> tuple[int, str]:
    """The power of ``base`` to divide by and the quotient's text: 999.7 k becomes 1.00 M, 1,010 KiB 0.986 MiB."""
    step = 0
    while step < steps - 1 and float(f"{abs(value) / base**step:.{DIGITS - 1}e}") >= 1000:
        step += 1
    scaled = value / base**step
    if step == 0 and value == round(value):
        return step, f"{value:,.0f}"
    return step, f"{float(f'{scaled:.{DIGITS - 1}e}'):,.{decimals(scaled)}f}"


def seconds(value: float | None) -> str:
    """A duration given in seconds, in the unit that suits it: 12.3 ms."""
    if value is None or absent(value):
        return ABSENT
    if value == 0:
        return "0 s"
    unit, factor = _time_unit(abs(value))
    scaled = value / factor
    if abs(scaled) >= 1000:
        return f"{scaled:,.0f} {unit}"  # as in a column, where it would read as another time
    return f"{float(f'{scaled:.{DIGITS - 1}e}'):,.{decimals(scaled)}f} {unit}"


def _time_unit(value: float) -> tuple[str, float]:
    for unit, factor in _TIME:
        if float(f"{value / factor:.{DIGITS - 1}e}") < 1000:
            return unit, factor
    return _TIME[-1]


def spread_ms(value: Spread) -> str:
    """The median of milliseconds, with no more digits than the quartiles support."""
    texts = _spread_texts(value)
    return ABSENT if texts is None else f"{texts[0]} {texts[3]}"


def quartiles_ms(value: Spread) -> str:
    """``9.6 to 10.1 ms``, with the digits of the median; empty where the quartiles are absent."""
    texts = _spread_texts(value)
    return "" if texts is None or ABSENT in texts else f"{texts[1]} to {texts[2]} {texts[3]}"


def _spread_texts(value: Spread) -> tuple[str, str, str, str] | None:
    if value.median is None or absent(value.median):
        return None
    unit, (median, q1, q3) = _scaled_spread(value)
    places = _places(median, q1, q3)
    texts = (ABSENT if x is None else f"{round(x, places):,.{max(0, places)}f}" for x in (median, q1, q3))
    first, second, third = texts
    return first, second, third, unit


def _scaled_spread(value: Spread) -> tuple[str, tuple[float, float | None, float | None]]:
    """The unit that suits the median, and all three in it."""
    known = value.median or 0.0
    unit, factor = _time_unit(abs(known) * 1e-3)
    q1, q3 = (None if x is None or absent(x) else x * 1e-3 / factor for x in (value.q1, value.q3))
    return unit, (known * 1e-3 / factor, q1, q3)


def _places(median: float, q1: float | None, q3: float | None) -> int:
    """Decimal places that quartiles support, below 0 left of the point; two digits of the median stay."""
    places = decimals(median)
    if q1 is None or q3 is None or q3 <= q1:
        return places
    two = 1 - math.floor(math.log10(abs(median))) if median else places
    return min(places, max(two, -math.floor(math.log10(q3 - q1))))


def rate(value: float | None, time: Spread) -> str:
    """What is counted a second, with no more digits than the step time has that it is made of."""
    digits = _spread_digits(time)
    return number(value if absent(value) else float(f"{value:.{digits - 1}e}"), digits)


def _spread_digits(value: Spread) -> int:
    """Significant digits with which `spread_ms` shows a median: those of 720 ms may be two, or three."""
    if value.median is None or absent(value.median) or not value.median:
        return DIGITS
    _, (median, q1, q3) = _scaled_spread(value)
    places = _places(median, q1, q3)
    return max(2, min(DIGITS, math.floor(math.log10(abs(round(median, places) or median))) + 1 + places))


def plain(value: Any) -> str:
    """Any value of the summary as text: lists and mappings flat, booleans as words, nothing invisible."""
    if absent(value):
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(key)}={plain(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, int | float):
        return count(value) if isinstance(value, int) else number(value)
    return visible(str(value))


_SHOW: Mapping[str, Callable[[Any, str], str]] = {
    "text": lambda value, unit: plain(value),
    "name": lambda value, unit: plain(value),
    "count": lambda value, unit: _with_unit(count(value), unit),
    "number": lambda value, unit: _with_unit(number(value), unit),
    "share": lambda value, unit: share(value),
    "si": si,
    "si_each": si,
    "bytes": lambda value, unit: binary_bytes(value),
    "bytes_each": lambda value, unit: binary_bytes(value),
    "time_ns": lambda value, unit: seconds(None if value is None else value * 1e-9),
    "time_ms": lambda value, unit: seconds(None if value is None else value * 1e-3),
    "time_s": lambda value, unit: seconds(value),
    "spread_ms": lambda value, unit: spread_ms(value),
}


def _with_unit(text: str, unit: str) -> str:
    return text if text == ABSENT or not unit else f"{text} {unit}"


def show(value: Any, kind: Kind = "text", unit: str = "") -> str:
    """One value by itself, unit included."""
    return ABSENT if absent(value) else _SHOW[kind](value, unit)


# --- columns: one unit for all cells, so that they can be compared down the column ---------------------------------


@dataclass(frozen=True)
class ColumnText:
    """A column's unit for its heading and the text of each cell without it."""

    unit: str
    cells: tuple[str, ...]


def column(values: Sequence[Any], kind: Kind, unit: str = "", beside: Sequence[Any] = ()) -> ColumnText:
    """The cells of a column in the unit that suits the largest of them, and of what stands ``beside`` it.

    The unit is shared with what stands beside, the decimal places are the column's own: 0.307 ms beside 42.1 ms.
    """
    known = [abs(value) for value in (*values, *beside) if not absent(value)] if kind in _SCALES else []
    if kind == "share":
        return ColumnText("%", tuple(ABSENT if absent(value) else _percent(value) for value in values))
    if kind in _SCALES:
        name, factor = _SCALES[kind](max(known, default=0.0), unit)
        own = max((abs(value) for value in values if not absent(value)), default=0.0)
        places = min(decimals((own or max(known, default=0.0)) / factor), PLACES)
        return ColumnText(name, tuple(_cell(value, factor, places) for value in values))
    return ColumnText(unit, tuple(show(value, kind) for value in values))


def _cell(value: float | None, factor: float, places: int) -> str:
    if value is None or absent(value):
        return ABSENT
    if value == 0:
        return "0"
    least = 10.0**-places
    if 0 < value / factor < least / 2:
        return f"<{least:.{places}f}"
    if -least / 2 < value / factor < 0:
        return f">-{least:.{places}f}"
    return f"{value / factor:,.{places}f}"


def _scale_time(to_seconds: float) -> Callable[[float, str], tuple[str, float]]:
    def scale(largest: float, unit: str) -> tuple[str, float]:
        name, factor = _time_unit(largest * to_seconds) if largest else ("s", 1.0)
        return name, factor / to_seconds

    return scale


def _scale_si(largest: float, unit: str) -> tuple[str, float]:
    step, _ = _scaled(largest, 1000.0, len(_SI))
    return f"{_SI[step]}{unit}", 1000.0**step


def _scale_bytes(largest: float, unit: str) -> tuple[str, float]:
    step, _ = _scaled(largest, 1024.0, len(_IEC))
    return _IEC[step], 1024.0**step


_SCALES: Mapping[str, Callable[[float, str], tuple[str, float]]] = {
    "time_ns": _scale_time(1e-9),
    "time_ms": _scale_time(1e-3),
    "time_s": _scale_time(1.0),
    "si": _scale_si,
    "bytes": _scale_bytes,
}


# --- text from outside --------------------------------------------------------------------------------------------


def visible(text: str) -> str:
    """The text with every character that cannot be seen, or that turns the reading direction, spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def _spelled(char: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(char)
    digits, letter = next((n, c) for n, c in ((2, "x"), (4, "u"), (8, "U")) if code < 16**n)
    return short.get(char) or f"\\{letter}{code:0{digits}x}"


def prose(text: Any) -> str:
    """A sentence from outside on one line: white space folded, the rest visible."""
    return visible(re.sub(r"\s+", " ", str(text)).strip())


@dataclass(frozen=True)
class Cut:
    """A long name for a table: its start, and how many characters are left out."""

    text: str
    more: int


def cut(name: Any, limit: int = NAME_LIMIT) -> Cut:
    """The visible name, cut at ``limit`` characters."""
    text = str(name)
    return Cut(visible(text[:limit]), max(0, len(text) - limit))


def shorten(name: str, width: int) -> str:
    """A name for a figure: its middle gives way, since kernels differ at both ends.

    >>> shorten("aten::native_batch_norm_backward", 17)
    'aten::na…backward'
    """
    text = visible(name[: 2 * width] + name[-2 * width :] if len(name) > 4 * width else name)
    if len(text) <= width:
        return text
    head = width // 2
    return text[:head] + "…" + text[len(text) - (width - head - 1) :]


def apart(names: Sequence[str], width: int) -> list[str]:
    """Names of one column, axis or legend, shortened so that different ones look different: those that are alike at
    both ends show the place where they differ, too, and a number where even that does not tell them apart.

    >>> apart(["kernel_of_a_long_name<add, std::array<char*>>", "kernel_of_a_long_name<mul, std::array<char*>>"], 21)
    ['kerne…e<add, st…ar*>>', 'kerne…e<mul, st…ar*>>']
    """
    found = {name: shorten(name, width) for name in names}
    tried: set[frozenset[str]] = set()
    while groups := [group for group in _alike(found) if group not in tried]:
        for group in groups:  # of three that are alike, two may still be when the third is told apart
            tried.add(group)
            found |= {name: _around(name, _common(group), width) for name in group if len(visible(name)) > width}
    shown: set[str] = set()
    for name, text in found.items():
        number = 1
        while found[name] in shown:
            number += 1
            found[name] = shorten(text, width - len(f" ({number})")) + f" ({number})"
        shown.add(found[name])
    return [found[name] for name in names]


def _alike(found: Mapping[str, str]) -> list[frozenset[str]]:
    """Groups of names of which one text is shown."""
    groups: dict[str, set[str]] = {}
    for name, text in found.items():
        groups.setdefault(text, set()).add(name)
    return [frozenset(group) for group in groups.values() if len(group) > 1]


def _common(group: frozenset[str]) -> int:
    """How many characters names have in common before they differ."""
    first, last = min(group), max(group)  # in the order of letters the others are between them
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _around(name: str, place: int, width: int) -> str:
    """Head, what stands about a place, and tail."""
    ends = max(1, width // 4)
    middle = width - 2 * ends - 2
    start = max(ends, min(place - 2, len(name) - ends - middle))
    head, tail = visible(name[:ends])[:ends], visible(name[len(name) - ends :])[-ends:]
    if start == ends:
        return f"{visible(name[: ends + middle + 1])[: ends + middle + 1]}…{tail}"
    return f"{head}…{visible(name[start : start + middle])[:middle]}…{tail}"


def command(words: Any) -> str:
    """A command line that can be pasted into a shell; an invisible character in it is spelled out all the same."""
    if absent(words):
        return ABSENT
    return visible(words if isinstance(words, str) else shlex.join(str(word) for word in words))


def plural(amount: float, noun: str) -> str:
    """``1 step``, ``10 steps``; ``1,024 samples``."""
    return f"{count(amount)} {noun}" if amount == 1 else f"{count(amount)} {noun}s"
