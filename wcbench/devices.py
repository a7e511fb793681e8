"""What a device can do at most: FLOP/s by type, memory bandwidth, cache sizes, each with its source.

The figures are data (`devices.toml`). A device that is not in it has no figures: `find` answers None and never guesses
from a part of the name, since a wrong peak makes every efficiency computed from it wrong too.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from wcbench.errors import UnknownNameError, WcbenchError

Unit = Literal["vector", "matrix"]

DTYPES: Final = ("float64", "float32", "tf32", "bfloat16", "float16", "float8")
UNITS: Final[tuple[Unit, ...]] = ("vector", "matrix")

_DEFAULT = Path(__file__).with_name("devices.toml")
# A driver reports up to a tenth less than is soldered on (error correction, its own reserve), and hardly ever more.
_MEMORY_SEEN = (0.90, 1.02)
_ALIASES = {"double": "float64", "float": "float32", "half": "float16"}  # as Kineto and TorchScript write them
_ALIASES |= {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8"}
_SIZES = {
    "bandwidth_gbs": ("bandwidth", 10**9),
    "memory_gib": ("memory", 2**30),
    "l2_mib": ("l2", 2**20),
    "last_level_mib": ("last_level", 2**20),
    "units": ("units", 1),
}
_REQUIRED = ("id", "vendor", "names", "bandwidth_gbs", "memory_gib", "source")
_KNOWN = {*_REQUIRED, *_SIZES, *(f"{unit}_tflops" for unit in UNITS), "note"}


@dataclass(frozen=True)
class Source:
    """Where figures come from; ``seen`` is where they were read, ``checked`` False where they were not."""

    covers: tuple[str, ...]
    title: str
    section: str
    url: str | None
    seen: str
    checked: bool

    def __str__(self) -> str:
        return f"{self.title}: {self.section}" + ("" if self.url is None else f", {self.url}")


@dataclass(frozen=True)
class Device:
    """Peak figures of a device, dense, in SI units; what is not published is None.

    ``vector`` and ``matrix`` map types to FLOP/s of the two kinds of units; 1 multiply-accumulate = 2 FLOP.
    ``names`` are the names by which `find` knows it; ``units`` counts multiprocessors or compute units.
    """

    id: str
    vendor: str
    names: tuple[str, ...]
    vector: Mapping[str, float]
    matrix: Mapping[str, float]
    bandwidth: float
    memory_bytes: int
    l2_bytes: int | None
    last_level_bytes: int | None
    units: int | None
    note: str
    sources: tuple[Source, ...]

    @property
    def name(self) -> str:
        return self.names[0]

    def peak(self, dtype: str, unit: Unit | None = None) -> float | None:
        """FLOP/s for a type, of the faster unit unless one is named; None where nothing is published.

        Types as torch writes them, with or without ``torch.``; every float8 format counts as ``float8``. ``float32`` is
        the true one: a matrix product that may round to TF32 is asked for as ``tf32``.
        """
        tables = {"vector": self.vector, "matrix": self.matrix}
        rates = [tables[u].get(normalize_dtype(dtype)) for u in (UNITS if unit is None else (unit,))]
        return max((rate for rate in rates if rate is not None), default=None)

    def balance(self, dtype: str) -> float | None:
        """FLOP/byte at which arithmetic and memory take equally long: the ridge point of the roofline."""
        peak = self.peak(dtype)
        return None if peak is None else peak / self.bandwidth

    def caches(self) -> dict[str, int]:
        """Capacities in bytes, nearest first, of the caches that all multiprocessors share."""
        sizes = {"L2": self.l2_bytes, "last level": self.last_level_bytes}
        return {name: size for name, size in sizes.items() if size is not None}

    def figures(self) -> dict[str, float]:
        """Every figure that is given, by the name under which sources cover it."""
        tables: dict[Unit, Mapping[str, float]] = {"vector": self.vector, "matrix": self.matrix}
        rates = {f"{unit}.{dtype}": rate for unit in UNITS for dtype, rate in tables[unit].items()}
        sizes = {
            "bandwidth": self.bandwidth,
            "memory": self.memory_bytes,
            "l2": self.l2_bytes,
            "last_level": self.last_level_bytes,
            "units": self.units,
        }
        return rates | {name: size for name, size in sizes.items() if size is not None}

    def source(self, figure: str) -> Source:
        """Where a figure comes from, such as ``matrix.bfloat16`` or ``bandwidth``."""
        if figure not in self.figures():
            raise UnknownNameError(f"figure of {self.id}", figure, self.figures())
        return next(s for s in self.sources if not {figure, figure.partition(".")[0]}.isdisjoint(s.covers))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Figures that nobody compared with a source."""
        return tuple(figure for figure in self.figures() if not self.source(figure).checked)

    def __repr__(self) -> str:
        return f"Device({self.id}: {self.bandwidth / 1e12:.2f} TB/s, {self.memory_bytes / 2**30:.0f} GiB)"


def normalize_dtype(dtype: str) -> str:
    """``torch.float32`` and ``float`` are ``float32``; every ``float8_...`` is ``float8``; others stay as they are."""
    name = dtype.lower().rpartition(".")[2].removeprefix("c10::")
    name = "float8" if name.startswith("float8") else name
    return _ALIASES.get(name, name)


def devices() -> list[Device]:
    """All devices with figures, in the order of the file."""
    return list(_table())


def device(id: str) -> Device:
    """The device of an id; raises UnknownNameError with suggestions."""
    for entry in _table():
        if entry.id == id:
            return entry
    raise UnknownNameError("device", id, {word: d.id for d in _table() for word in (d.id, d.name.lower())})


def find(name: str, memory_bytes: int | None = None, units: int | None = None) -> Device | None:
    """The device that reports this name, or None where that is not certain.

    Parameters
    ----------
    name : as NVML, torch or a trace gives it; the whole of it must be known.
    memory_bytes : total memory as reported. It tells versions of a device apart, and a device whose memory is not as
        expected (a slice of one, a virtual one) is not the device.
    units : multiprocessors or compute units as reported, used in the same way.
    """
    wanted = " ".join(name.split()).casefold()
    fits = [(fit, d) for d in _table() if (fit := _fit(d, wanted)) is not None]
    longest = max((fit for fit, _ in fits), default=0)
    certain = [d for fit, d in fits if fit == longest and _agrees(d, memory_bytes, units)]
    return certain[0] if len(certain) == 1 else None


def _fit(entry: Device, wanted: str) -> int | None:
    """Length of the longest of the device's names that matches in full, wildcards not counted."""
    hits = [len(name.replace("*", "")) for name in entry.names if _pattern(name).fullmatch(wanted)]
    return max(hits, default=None)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in name.casefold().split("*")))


def _agrees(entry: Device, memory_bytes: int | None, units: int | None) -> bool:
    low, high = _MEMORY_SEEN
    memory = memory_bytes is None or low * entry.memory_bytes <= memory_bytes <= high * entry.memory_bytes
    return memory and (units is None or entry.units is None or units == entry.units)


# Reading the file


@cache
def _table() -> tuple[Device, ...]:
    return load_devices(_DEFAULT)


def load_devices(path: Path) -> tuple[Device, ...]:
    """Read and check a file of devices; raises WcbenchError that names file, device and field."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("device", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WcbenchError(f"{path} cannot be read: {error}.", "Reinstall wcbench, or mend the file.") from error
    found = tuple(_Row(path, row).device() for row in rows)
    _no_duplicates(path, found)
    return found


def _no_duplicates(path: Path, found: Iterable[Device]) -> None:
    seen = set()
    for entry in found:
        if entry.id in seen:
            raise WcbenchError(f"{path.name}: device {entry.id}, field id: given twice.", "Rename one of the two.")
        seen.add(entry.id)


class _Row:
    """One device of the file on its way to a `Device`; every complaint names file, device and field."""

    def __init__(self, path: Path, row: Mapping[str, Any]) -> None:
        self._path = path
        self._row = row
        for field in _REQUIRED:
            if not row.get(field):
                raise self._error(field, "is missing")
        for field in row:
            if field not in _KNOWN:
                raise self._error(field, "is not known")

    def _error(self, field: str, what: str) -> WcbenchError:
        text = f"{self._path.name}: device {self._row.get('id', '(no id)')}, field {field}: {what}."
        return WcbenchError(text, f"Mend it in {self._path}.")

    def device(self) -> Device:
        row = self._row
        sizes = {figure: self._size(field, scale) for field, (figure, scale) in _SIZES.items()}
        entry = Device(
            id=self._text("id"),
            vendor=self._text("vendor"),
            names=self._texts("names", row["names"]),
            vector=self._rates("vector_tflops"),
            matrix=self._rates("matrix_tflops"),
            bandwidth=float(sizes["bandwidth"] or 0),
            memory_bytes=sizes["memory"] or 0,
            l2_bytes=sizes["l2"],
            last_level_bytes=sizes["last_level"],
            units=sizes["units"],
            note=str(row.get("note", "")),
            sources=tuple(self._sources()),
        )
        self._check_covered(entry)
        return entry

    def _text(self, field: str) -> str:
        if not isinstance(self._row[field], str):
            raise self._error(field, "is not a text")
        return str(self._row[field])

    def _texts(self, field: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or not all(isinstance(text, str) and text for text in value):
            raise self._error(field, "is not a list of texts")
        return tuple(value)

    def _number(self, field: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise self._error(field, f"{value!r} is not a positive number")
        return value

    def _size(self, field: str, scale: int) -> int | None:
        return round(self._number(field, self._row[field]) * scale) if field in self._row else None

    def _rates(self, field: str) -> Mapping[str, float]:
        table = self._row.get(field, {})
        if not isinstance(table, dict):
            raise self._error(field, "is not a table of types and rates")
        for dtype in table:
            if dtype not in DTYPES:
                raise self._error(f"{field}.{dtype}", f"is not a known type ({', '.join(DTYPES)})")
        rates = {dtype: self._number(f"{field}.{dtype}", value) for dtype, value in table.items()}
        # through megaFLOP/s, so that 989.4 becomes 989.4e12 to the last bit
        return MappingProxyType({dtype: round(value * 1e6) * 1e6 for dtype, value in rates.items()})

    def _sources(self) -> Iterator[Source]:
        for row in self._row["source"]:
            for field in ("title", "section", "seen"):
                if not isinstance(row.get(field), str) or not row[field]:
                    raise self._error(f"source.{field}", "is missing")
            covers = self._texts("source.covers", row.get("covers"))
            checked = row.get("checked", True)
            if not isinstance(checked, bool):
                raise self._error("source.checked", "is neither true nor false")
            yield Source(covers, row["title"], row["section"], row.get("url"), row["seen"], checked)

    def _check_covered(self, entry: Device) -> None:
        """Each figure has one source, and no source speaks of a figure that is not there."""
        figures = entry.figures()
        names = {*figures, *(figure.partition(".")[0] for figure in figures)}
        covers = [cover for source in entry.sources for cover in source.covers]
        for cover in covers:
            if cover not in names:
                raise self._error("source.covers", f"'{cover}' is not a figure of this device")
        for figure in figures:
            count = sum(cover in (figure, figure.partition(".")[0]) for cover in covers)
            if count != 1:
                raise self._error(figure, "has no source" if count == 0 else "has more than one source")
