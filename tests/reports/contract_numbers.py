"""Every number in a report's texts, sought in the JSON of the same command.

A number is a token with its unit, such as ``51.6 %`` or ``12 ms``. It is there where the JSON has a value that prints
as this token with its digits: a share under %, a time under ns to s, bytes under the binary prefixes, FLOPs under the
decimal ones, anything under no unit. What the program itself says in its sentences (``1 MAC = 2 FLOP``) is no datum,
nor are digits in names and in the record's own words, which stand in the JSON as they are.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Merge
from wcbench.reports.model import Command, Facts, Figure, Notes, Report, Text

ROOT = Path(__file__).resolve().parents[2]
SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
IEC = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "PiB": 2.0**50}
TIMES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
WORK = ("FLOP/s", "FLOP/byte", "FLOP/B", "FLOP", "MAC", "B/s")
UNITS: dict[str, tuple[str, float]] = {
    "%": ("share", 0.01),
    **{name: ("time", factor) for name, factor in TIMES.items()},
    **{name: ("bytes", factor) for name, factor in IEC.items()},
    **{f"{prefix}{unit}": ("work", factor) for prefix, factor in SI.items() for unit in WORK},
    **{prefix: ("", factor) for prefix, factor in SI.items() if prefix},
    **{f"{prefix}{unit}": ("", factor) for prefix, factor in SI.items() for unit in ("J", "Hz")},
    **{f"{prefix}B": ("bytes", factor) for prefix, factor in SI.items() if prefix},
}
"""Unit -> what its values are (anything where it is empty), and what one of it is in SI units."""
_UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_TOKEN = re.compile(
    rf"(?<![\w.,:/*^#\u2212-])(?P<bound>[<>]?)(?P<sign>[-\u2212])?"
    rf"(?P<digits>\d{{1,3}}(?:,\d{{3}})+|\d+)(?P<rest>\.\d+)?(?P<power>e[+-]?\d+)?"
    rf"(?:[ \u00a0]?(?P<unit>{_UNIT})(?:/[a-z]+)?(?![\w/]))?(?!\w|-[A-Za-z]|\.\d|[:/]\d)"
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+\d\d:\d\d)?)?")
_REST = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(?= (?:\w+ )?more\b)")
"""How many of a list are not named: ``a, b, and 964 more`` is no datum, but with those named it is a list's length."""
TWO = 2
"""Digits that the most uncertain number is shown with."""
NAMED = 12
"""Most that a sentence names of a list."""
ANSWERS = frozenset({"answer", "sentences", "verdict", "words", "certificate"})
"""Fields with sentences that are made of numbers; every other text in the data is a name or the record's own words."""


@dataclass(frozen=True)
class Token:
    """A number as it is shown: ``value`` in its own unit, ``tolerance`` half of its last digit."""

    text: str
    value: float
    tolerance: float
    unit: str
    bound: str

    @property
    def is_(self) -> tuple[str, float]:
        return UNITS.get(self.unit, ("", 1.0))


def tokens(text: str) -> Iterator[Token]:
    """The numbers of a text."""
    found = list(_TOKEN.finditer(text))
    for match, follows in itertools.zip_longest(found, found[1:]):
        unit = match["unit"] or ""
        if not unit and follows is not None and text[match.end() : follows.start()] == " to ":
            unit = follows["unit"] or ""  # 902 to 905 µs, but not 80 to 283 k
            unit = "" if unit in SI else unit
        digits, rest, power = match["digits"].replace(",", ""), match["rest"] or "", match["power"] or ""
        value = float(f"{'-' if match['sign'] else ''}{digits}{rest}{power}")
        step = 10.0 ** -(len(rest) - 1 if rest else 0) * (10.0 ** int(power[1:]) if power else 1.0)
        if not rest and not power and len(digits) > TWO:  # 1,230 may have been 1,234, and 720 ms 718
            zeros = min(len(digits) - len(digits.rstrip("0")), len(digits) - TWO)
            step = 10.0**zeros
        yield Token(match[0].strip(), value, step / 2, unit, match["bound"])


# --- what is shown ----------------------------------------------------------------------------------------------------


def texts(report: Report) -> Iterator[tuple[str, str]]:
    """Every text of a report that is no name, with where it stands."""
    yield "subtitle", report.subtitle
    yield "provenance", report.provenance
    yield from (("lead", sentence) for sentence in report.lead)
    for section in report.sections:
        yield section.id, section.title
        for block in section.blocks:
            yield from ((f"{section.id}: {type(block).__name__.lower()}", text) for text in _of_block(block))
        for table in section.tables():
            yield table.id, table.caption
            for i, column in enumerate(table.columns):
                yield f"{table.id}: heading", column.title
                cells = [str(row[i]) for row in table.rows if column.kind == "text" and isinstance(row[i], str)]
                yield from ((f"{table.id}: {column.title}", cell) for cell in cells)


def _of_block(block: Any) -> Iterator[str]:
    if isinstance(block, Text):
        yield block.text
    elif isinstance(block, Command):
        yield block.label
    elif isinstance(block, Notes):
        yield from (note.text for note in block.items)
    elif isinstance(block, Figure):
        yield from (block.caption, block.alt)
    elif isinstance(block, Facts):
        for fact in block.items:
            yield from (fact.label, fact.hint)
            if isinstance(fact.value, str) and fact.kind == "text":
                yield fact.value


def cells(report: Report) -> Iterator[tuple[str, float]]:
    """Every number of a table or a fact, with where it stands; ranks in a column # are places and no data."""
    for section in report.sections:
        for table in section.tables():
            for i, column in enumerate(table.columns):
                if column.title != "#":
                    yield from ((f"{table.id}: {column.title}", n) for row in table.rows for n in _floats(row[i]))
        for label, fact in section.facts().items():
            yield from ((f"{section.id}: {label}", n) for n in _floats(fact.value))


def drawn(report: Report) -> Iterator[tuple[str, float]]:
    """Every number in the data of a figure."""
    for section in report.sections:
        for figure in section.figures():
            yield from ((figure.id, number) for number in _floats(figure.data))


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield from () if math.isnan(value) else (float(value),)
    elif isinstance(value, Merge):
        yield value.height  # left and right are places in the tree
    elif is_dataclass(value):
        for field in fields(value):
            yield from _floats(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from _floats(child)
    elif isinstance(value, Sequence):
        for child in value:
            yield from _floats(child)
    elif hasattr(value, "item"):
        yield from _floats(value.item())


# --- what is known ----------------------------------------------------------------------------------------------------

_SECONDS = (
    (re.compile(r"(^|_)ns($|_)"), 1e-9),
    (re.compile(r"(^|_)ms($|_)"), 1e-3),
    (re.compile(r"(^|_)seconds($|_)|^s$"), 1.0),
)
_BYTES = re.compile(
    r"bytes|^wss|traffic|miss_ratio|^live$|peak_classes|peak_kinds|categories|^curve$|capacit|^MiB$|^B$|fixed|per_sample"
)
_WORK = re.compile(r"flop|macs|FLOP|intensity|balance|peak|bandwidth|ridge|attainable|^cost|fixed|per_sample", re.I)


class Known:
    """The values of a command's JSON by what they are, in SI units, and its names."""

    def __init__(self, data: Mapping[str, Any], shown: Report | None = None) -> None:
        self.values: dict[str, set[float]] = {"": set(), "time": set(), "bytes": set(), "work": set(), "share": set()}
        self.names: set[str] = set()
        self._percent = _in_percent(data)
        self._walk(data, ())
        if shown is not None:  # of the longest operators, how many a figure has
            self.values[""] |= {float(len(panel)) for panel in _lists(shown)}
        self._sorted = {kind: sorted(found) for kind, found in self.values.items()}

    def _walk(self, value: Any, path: tuple[str, ...], unit: str = "") -> None:
        if isinstance(value, Mapping):
            self._count(value)
            told = str(value.get("unit") or "")
            for key, child in value.items():
                self._named(str(key), path)
                self._walk(child, (*path, str(key)), told)
        elif isinstance(value, list | tuple):
            self._count(value)
            for name in {str(key) for row in value if isinstance(row, Mapping) for key in row}:
                column = {repr(row.get(name)) for row in value if isinstance(row, Mapping)}
                self.values[""].add(float(len(column)))  # kinds, ranks, kernels: how many there are
            for child in value:
                self._walk(child, path, unit)
        elif isinstance(value, str):
            self._named(value, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(float(value), path, unit)

    def _count(self, found: Any) -> None:
        self.values[""].add(float(len(found)))

    def _named(self, text: str, path: tuple[str, ...]) -> None:
        if re.fullmatch(r"\d+", text):
            self.values[""].add(float(text))  # of a mapping such as {13: 77}, or a seed
        if not ANSWERS & {*path} and re.search(r"\d", text) and re.search(r"[A-Za-z]", text):
            self.names.add(text)

    def _number(self, value: float, path: tuple[str, ...], unit: str) -> None:
        near = [part for part in path[-2:] if part != "rows"]
        whole = " ".join((*near, unit))
        self.values[""].add(value)
        if abs(value) <= 1 + 1e-9:
            self.values["share"].add(value)
        if "percentile" in near or unit == "%" or (path[:1] == ("tables",) and path[-1] in self._percent):
            self.values["share"].add(value / 100)
        for pattern, factor in _SECONDS:
            if any(pattern.search(part) for part in (*near, unit)):
                self.values["time"].add(value * factor)
        table = path[:1] == ("tables",)  # columns are features, whose units stand elsewhere
        if table or any(_BYTES.search(part) for part in (*near, unit)):
            self.values["bytes"].add(value)
        if table or _WORK.search(whole):
            self.values["work"].add(value)

    def has(self, token: Token) -> bool:
        """Whether a value prints as this token."""
        kind, factor = token.is_
        low, high = (token.value - token.tolerance) * factor, (token.value + token.tolerance) * factor
        slack = 1e-9 * max(abs(low), abs(high))
        if token.bound == "<":  # neither nothing nor everything
            low, high, slack = 1e-300, token.value * factor, 0.0
        elif token.bound == ">":
            low, high, slack = token.value * factor, 1 - 1e-9, 0.0
        return self._between(self._sorted[kind], low - slack, high + slack)

    @staticmethod
    def _between(found: Sequence[float], low: float, high: float) -> bool:
        from bisect import bisect_left

        place = bisect_left(found, low)
        return place < len(found) and found[place] <= high

    def is_rest(self, number: str) -> bool:
        """Whether so many are left of a list of which a few are named."""
        left = int(number.replace(",", ""))
        return any(float(left + named) in self.values[""] for named in range(1, NAMED + 1))

    def exactly(self, value: float, *factors: float) -> bool:
        """Whether this is a value, or one times a factor (a figure's axis may be in ms)."""
        every = self._sorted[""]
        return any(
            self._between(every, *sorted((value / factor * (1 - 1e-12), value / factor * (1 + 1e-12))))
            for factor in (1.0, *factors)
        )


def _in_percent(data: Mapping[str, Any]) -> set[str]:
    """The columns of a study's tables that hold percent, as in somebody's own table of features: 135 is 135 %."""
    features = (data.get("table") or {}).get("features") or [] if isinstance(data.get("table"), Mapping) else []
    return {str(one["name"]) for one in features if one.get("unit") == "%"}


def _lists(value: Any) -> Iterator[Sequence[Any]]:
    """Every list in a report: bars of a figure, rows of a table."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _lists(getattr(value, field.name))
    elif isinstance(value, tuple):
        yield value
        for child in value:
            yield from _lists(child)


@cache
def program() -> tuple[str, ...]:
    """What the program itself says with digits in it, the longest first."""
    found: set[str] = set()
    for path in itertools.chain((ROOT / "reports").rglob("*.py"), (ROOT / "analysis").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.strip()) >= 8:
                found.add(fmt.prose(node.value))
    return tuple(sorted((text for text in found if re.search(r"\d", text)), key=len, reverse=True))


def bare(text: str, names: Sequence[str]) -> str:
    """The text without names, dates and the program's own words."""
    text = fmt.prose(text)
    for part in (*names, *program()):
        if part in text:
            text = text.replace(part, " … ")
    return _DATE.sub("…", text)


def spellings(names: set[str]) -> list[str]:
    """How names stand in sentences: on one line, without a full stop, shortened; the longest first."""
    found: set[str] = set()
    for name in names:
        shown = fmt.prose(name)
        found |= {shown, shown.rstrip("."), shown.rpartition("/")[2], shown.partition(": ")[2], shown.replace("_", " ")}
        found |= {shown[:1].upper() + shown[1:], shown[:1].lower() + shown[1:]}
        found |= {fmt.shorten(shown, width) for width in (30, 40, 60, 80) if len(shown) > width}
    return sorted((n for n in found if re.search(r"[A-Za-z]", n) and re.search(r"\d", n)), key=len, reverse=True)


def leaves(names: set[str]) -> set[str]:
    """How modules stand in a tree: of ``tables.20`` only ``20``."""
    return {name.rpartition(".")[2] for name in names if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name)}


def unknown_numbers(report: Report, data: Mapping[str, Any]) -> list[str]:
    """Every number of a text that no value of the JSON prints as, with where it stands."""
    known = Known(data, report)
    names, modules = spellings(known.names), leaves(known.names)
    return [
        f"{where}: {token.text!r} in {text[:200]!r}"
        for where, text in texts(report)
        if re.search(r"\d", text) and not (where.endswith(": module") and text.strip() in modules)
        for token in tokens(_REST.sub(lambda m: "…" if known.is_rest(m[1]) else m[0], bare(text, names)))
        if not known.has(token)
    ]
