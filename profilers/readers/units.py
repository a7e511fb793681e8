"""Numbers and units as Nsight Compute and nvprof print them, in the record's own: ns, B, B/s, Hz, %, counts.

Numbers. Nsight Compute groups digits by the machine's locale: `17,301,504` and `6,400` (six thousand four hundred) with
a decimal point, `27.595.520` and `65,77` with a decimal comma, `1'234` in Switzerland. One cell alone can be read both
ways (`117.344`), so `decimal_mark` looks at many of a file. nvprof always prints a decimal point.

Bytes. Nsight Compute's `Kbyte`, `Mbyte`, `Gbyte` are powers of 1000: 1024 bytes of shared memory are printed as
`1.02 Kbyte`. nvprof's `KB`, `MB`, `GB` changed their meaning: powers of 1000 in CUDA 5 (409600 bytes: `409.60KB`), of
1024 in the versions of CUDA 7 and later that were seen (1028 bytes: `1.003906` KB; 786432: `768.00KB`). No file says
which; traces tell by their own figures (`ByteBase`), summaries of metrics do not, and 1024 is assumed there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

POINT, COMMA = ".", ","
LEVEL = "level"
"""Unit of nvprof's utilization levels, whole numbers from 0 (idle) to 10 (max)."""

MAX_CELL = 64
_MOST_NS = float(1 << 63)
_ABSENT = frozenset(("", "-", "n/a", "na", "nan", "-nan", "inf", "-inf", "(!) n/a", "(!) nan", "none", "<overflow>"))
_GROUPS = str.maketrans("", "", " '\u2019\u00a0\u202f\u2009")
_NUMBER = {
    POINT: re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d{1,4})?", re.ASCII),
    COMMA: re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d{1,4})?", re.ASCII),
}
_LEVEL = re.compile(r"[A-Za-z]+ ?\((\d{1,2})\)", re.ASCII)
_SUFFIXED = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,4})?) ?([A-Za-z%/]*)", re.ASCII)


class NotANumberError(ValueError):
    """A cell holds text."""


def number(text: str, mark: str = POINT) -> float | None:
    """The number in a cell; None where the cell says that there is none (empty, `-`, n/a, nan, or beyond floats).

    ``mark`` is the decimal mark. Raises NotANumberError for text, digits grouped otherwise than by three among them.
    """
    plain = text.strip()
    if plain.lower() in _ABSENT:
        return None
    plain = plain[: MAX_CELL + 1].translate(_GROUPS)
    if len(plain) > MAX_CELL or not any(c in "0123456789" for c in plain) or not _NUMBER[mark].fullmatch(plain):
        raise NotANumberError(text[:MAX_CELL])
    plain = plain.replace(",", "") if mark == POINT else plain.replace(".", "").replace(",", ".")
    found = float(plain)
    return found if math.isfinite(found) else None


_SURE = {
    mark: re.compile(
        rf"[+-]?\d{{1,3}}(?:{group}\d{{3}})+{point}\d*|[+-]?\d{{1,3}}(?:{group}\d{{3}}){{2,}}|[+-]?\d*{point}(?:\d{{1,2}}|\d{{4,}})",
        re.ASCII,
    )
    for mark, point, group in ((POINT, r"\.", ","), (COMMA, ",", r"\."))
}
_DOUBTFUL = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)


@dataclass(frozen=True)
class Marks:
    """Which decimal mark a file's numbers have; ``doubtful`` where cells like `117.344` stand and none tells."""

    mark: str
    doubtful: bool


def decimal_mark(cells: Iterable[str]) -> Marks:
    """The decimal mark of numbers: by the cells that can be read in one way only, a point where none tells.

    `6,400` is then six thousand four hundred: with a decimal comma Nsight Compute would print two decimals.
    """
    point = comma = doubtful = 0
    for cell in cells:
        text = cell.strip()[:MAX_CELL].translate(_GROUPS)
        point += bool(_SURE[POINT].fullmatch(text))
        comma += bool(_SURE[COMMA].fullmatch(text))
        doubtful += bool(_DOUBTFUL.fullmatch(text))
    return Marks(COMMA if comma > point else POINT, bool(doubtful and point == comma))


def whole_ns(value: float | None) -> int | None:
    """Nanoseconds as a whole number; None for what no duration or time can be: negative or beyond int64."""
    if value is None or not 0 <= value < _MOST_NS:
        return None
    return round(value)


def whole(value: float | None) -> int | None:
    """A whole number that is not negative and fits int64; None otherwise."""
    if value is None or not 0 <= value < _MOST_NS or value != int(value):
        return None
    return int(value)


# --- Nsight Compute ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """A unit of the record and what a figure is multiplied with to be in it."""

    name: str
    factor: float = 1.0


_SECONDS = {
    "s": 1e9, "second": 1e9, "sec": 1e9, "ms": 1e6, "msecond": 1e6, "us": 1e3, "usecond": 1e3, "µs": 1e3, "ns": 1.0,
    "nsecond": 1.0,
}  # fmt: skip
_POWER = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_WORDS = ("byte", "B", "hz", "Hz", "cycle", "inst", "sector", "request", "thread", "warp", "block", "register", "op")
_PREFIXED = re.compile(rf"([kKMGTP]?)({'|'.join(_WORDS)})")
_PLAIN = {"byte": "B", "hz": "Hz"}


@lru_cache(maxsize=4096)
def ncu_unit(text: str) -> Unit:
    """What Nsight Compute's name of a unit stands for; a unit that is not known stays as it is.

    Time is in ns, bytes in B (powers of 1000), rates per second, `cycle/nsecond` and `Ghz` in Hz. `%` stays `%`.
    """
    text = text.strip()
    if text in _SECONDS:
        return Unit("ns", _SECONDS[text])
    above, slash, below = text.partition("/")
    found = _PREFIXED.fullmatch(above)
    if found is None:
        return Unit(text)
    name, factor = _PLAIN.get(found[2], found[2]), _POWER[found[1]]
    if not slash:
        return Unit(name, factor)
    if below not in _SECONDS:  # e.g. byte/block
        return Unit(f"{name}/{below}", factor)
    per_second = factor * 1e9 / _SECONDS[below]
    return Unit("Hz", per_second) if name == "cycle" else Unit(f"{name}/s", per_second)


def ncu_base_unit(metric: str) -> str:
    """The unit of a metric in Nsight Compute's base units, by the metric's name; empty where that does not tell."""
    if "pct" in metric.replace("__", ".").replace("_", ".").split("."):
        return "%"
    if metric.startswith("gpu__time_duration"):
        return "ns"
    rate = metric.endswith(".per_second")
    of_bytes = "_bytes" in metric and "_per_" not in metric.removesuffix(".per_second")
    if of_bytes and not metric.endswith((".ratio", ".pct")):
        return "B/s" if rate else "B"
    if "__cycles_" in metric and "per_cycle" not in metric:
        return "Hz" if rate else "cycle"
    return ""


# --- nvprof -----------------------------------------------------------------------------------------------------------

_NVPROF_TIME = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_NVPROF_POWER = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


def nvprof_unit(text: str, base: int) -> Unit:
    """What nvprof's name of a unit stands for, where KB is ``base`` bytes; an unknown one stays as it is."""
    if text in _NVPROF_TIME:
        return Unit("ns", _NVPROF_TIME[text])
    size, slash, below = text.partition("/")
    if size in _NVPROF_POWER and (below == "s" if slash else True):
        return Unit("B/s" if slash else "B", float(base ** _NVPROF_POWER[size]))
    return Unit(text)


def nvprof_cell(text: str, base: int, unit: str = "") -> tuple[float | None, str]:
    """Value and unit of a cell: `2.1760us`, `1.0625KB`, `1.1655GB/s`, `22.92%`, `Low (1)`, or a figure whose unit
    (``unit``) stands in a row of units.

    Raises NotANumberError for text.
    """
    plain = text.strip()
    if plain.lower() in _ABSENT:
        return None, nvprof_unit(unit, base).name
    if len(plain) > MAX_CELL:
        raise NotANumberError(text[:MAX_CELL])
    level = _LEVEL.fullmatch(plain)
    if level:
        return float(level[1]), LEVEL
    found = _SUFFIXED.fullmatch(plain)
    if found is None:
        raise NotANumberError(plain)
    known = nvprof_unit(found[2] or unit, base)
    value = float(found[1]) * known.factor
    return (value if math.isfinite(value) else None), known.name


def split_cell(text: str) -> tuple[float, str] | None:
    """Figure and unit of a cell as they stand, e.g. (1.0625, "KB"); None for other cells."""
    found = _SUFFIXED.fullmatch(text.strip()) if len(text) <= MAX_CELL else None
    return (float(found[1]), found[2]) if found else None


class ByteBase:
    """Finds out whether a trace's KB are 1000 or 1024 bytes.

    A copy's size, time and throughput are printed in different units (KB and GB/s), so that size / time / throughput
    gives the ratio of the units: 1000 or 1024 to the power of their distance. Where there are no such copies, sizes of
    shared memory tell: only one of the two gives whole bytes.
    """

    def __init__(self) -> None:
        self._votes = {1000: 0, 1024: 0}

    def copy(self, size: tuple[float, str], duration_ns: float, rate: tuple[float, str]) -> None:
        """A copy's figures as printed."""
        above, below = _NVPROF_POWER.get(size[1]), _NVPROF_POWER.get(rate[1].removesuffix("/s"))
        if above is None or below is None or above == below or not (size[0] > 0 and rate[0] > 0 and duration_ns > 0):
            return
        ratio = rate[0] * duration_ns / 1e9 / size[0]
        for base in self._votes:
            if abs(ratio / float(base) ** (above - below) - 1) < 0.008:  # the two lie 2.4 % apart, or more
                self._votes[base] += 100

    def shared(self, text: str, unit: str = "") -> None:
        """A size of shared memory as printed."""
        found = split_cell(text)
        if found is None or (found[1] or unit) != "KB" or found[0] <= 0:
            return
        decimals = len(text.strip().removesuffix("KB").partition(".")[2])
        blur = 0.51 * 10.0**-decimals
        fits = {base: _off(found[0] * base) <= blur * base for base in self._votes if blur * base < 0.25}
        for base, fit in fits.items():
            self._votes[base] += fit and not all(fits.values())

    @property
    def base(self) -> int | None:
        """1000 or 1024; None where nothing tells."""
        small, large = self._votes[1000], self._votes[1024]
        return None if small == large else 1000 if small > large else 1024


def _off(value: float) -> float:
    return abs(value - round(value))


KB_NOTE = (
    "nvprof does not say whether its KB, MB and GB are powers of 1024 (CUDA 7 and later) or of 1000 (CUDA 5), and "
    "nothing in this file tells: 1024 was taken. If it was 1000, sizes and rates are too large by 2.4 % (KB), 4.9 % "
    "(MB) or 7.4 % (GB)."
)
