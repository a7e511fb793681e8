"""CSV files of AMD's profilers as streams of rows: columns by what they mean, whatever a version calls them.

Every line is taken for itself, so that damage ends with its line; a name with a line break in it is lost.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from wcbench.profilers.readers.base import Head, Sink, Source

MOST = (1 << 63) - 1
"""The greatest number that the record holds."""

_DIGITS = re.compile(r"(-?[0-9]{1,19})(?:\.([0-9]{1,40}))?")
_POWER = re.compile(r"[0-9](?:\.[0-9]{1,40})?[eE]\+?[0-9]{1,2}")
_MARK = re.compile(r"\s*(?:\[clone \.kd\]|\(\.kd\)|\.kd)\s*$")
_AGENT = re.compile(r"(?:(agent|gpu)[ :-]*)?([0-9]{1,18})", re.IGNORECASE | re.ASCII)

_NAMES: Mapping[str, tuple[str, ...]] = {
    "name": ("kernelname", "kernel_name"),
    "device": ("gpu_id", "agent_id"),
    "stream": ("stream_id", "queue_id"),
    "process": ("pid", "process_id"),
    "thread": ("tid", "thread_id"),
    "correlation": ("correlation_id",),
    "dispatch": ("dispatch_id", "index"),
    "start": ("beginns", "start_timestamp"),
    "end": ("endns", "end_timestamp"),
    "duration": ("durationns",),
    "grid": ("grd", "grid_size"),
    "block": ("wgr", "workgroup_size"),
    "lds": ("lds", "lds_per_workgroup", "lds_block_size", "group_segment_size"),
    "vgpr": ("arch_vgpr", "vgpr", "vgpr_count"),
    "accum": ("accum_vgpr", "accum_vgpr_count"),
    **{f"grid_{axis}": (f"grid_size_{axis}",) for axis in "xyz"},
    **{f"block_{axis}": (f"workgroup_size_{axis}",) for axis in "xyz"},
}
_OTHERS = (
    "queue_index", "scr", "scratch_per_workitem", "scratch_size", "private_segment_size", "sgpr", "sgpr_count", "fbar",
    "sig", "obj", "wave_size", "dispatchns", "completens", "kernel_id", "kind", "guid", "counter_name", "counter_value",
)  # fmt: skip
DESCRIPTION = frozenset((*_OTHERS, *(name for names in _NAMES.values() for name in names)))
"""Keys of the columns that describe a dispatch; all others of a table of dispatches are counters."""


def whole(text: str) -> int | None:
    """A whole number, a fraction rounded to the nearest; None for anything else and beyond int64."""
    if len(text) < 19 and text.isascii() and text.isdigit():  # nearly all cells
        return int(text)
    text = text.strip()
    found = _DIGITS.fullmatch(text)
    if found is None:
        return round(float(text)) if _POWER.fullmatch(text) and float(text) < MOST else None
    value, fraction = int(found[1]), found[2] or ""
    if fraction[:1] >= "5":
        value += -1 if found[1].startswith("-") else 1
    return value if abs(value) <= MOST else None


def number(text: str) -> float | None:
    """A finite number, None for anything else."""
    if len(text) > 64 or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@lru_cache(maxsize=1024)
def kernel_name(text: str) -> str:
    """A kernel's name without the mark of its descriptor: `.kd`, `[clone .kd]` or `(.kd)` at the end."""
    return _MARK.sub("", text)


@lru_cache(maxsize=1024)
def device_label(text: str, counted: str) -> str:
    """``Agent 4``, ``GPU 0`` or a bare number, of which ``counted`` (gpu or agent) says what it counts."""
    found = _AGENT.fullmatch(text.strip())
    return f"{(found[1] or counted).lower()}:{int(found[2])}" if found else text.strip() or counted


def key(title: str) -> str:
    """A column's title as it is compared: tools and versions differ in case and hyphens."""
    return title.strip().lower().replace("-", "_")


def cells_of(line: str) -> list[str] | None:
    """The cells of one line of CSV, None where it is none: a cell beyond the library's limit, an open quote."""
    if '"' not in line and "\r" not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True), None)
    except csv.Error:
        return None


def header(head: Head) -> frozenset[str]:
    """Keys of the columns in a file's first line; empty where it is no header of a CSV file."""
    cells = cells_of(next((line for line in head.lines if line.strip()), ""))
    return frozenset(map(key, cells)) if cells and len(cells) > 2 else frozenset()


class Table:
    """A CSV file as a stream of rows.

    Attributes
    ----------
    titles : the columns' titles as the file spells them.
    at : position of each column by its key; of several equal ones the first.
    """

    def __init__(self, source: Source, sink: Sink) -> None:
        self._sink, self._lines = sink, source.lines(sink.lose)
        self.titles = cells_of(next((line for _, line in self._lines if line.strip()), "")) or []
        self.at: dict[str, int] = {}
        for position, title in enumerate(self.titles):
            self.at.setdefault(key(title), position)
        self._places = {name: self._place(keys) for name, keys in _NAMES.items()}

    def _place(self, keys: Sequence[str]) -> int | None:
        return next((self.at[name] for name in keys if name in self.at), None)

    def has(self, name: str) -> bool:
        """Whether there is a column of this meaning (see _NAMES)."""
        return self._places[name] is not None

    def text(self, cells: Sequence[str], name: str) -> str:
        """The cell of a column by its meaning, empty where the file has no such column."""
        place = self._places[name]
        return "" if place is None else cells[place]

    def whole(self, cells: Sequence[str], name: str) -> int | None:
        place = self._places[name]
        return None if place is None else whole(cells[place])

    def count(self, cells: Sequence[str], name: str) -> int | None:
        """The same, None too for what no count or identity can be."""
        value = self.whole(cells, name)
        return value if value is not None and value >= 0 else None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Offset and cells of each row; rows with more or fewer cells than the header are lost."""
        for offset, line in self._lines:
            if not line.strip():
                continue
            cells = cells_of(line)
            if cells is None or len(cells) != len(self.titles):
                self._sink.lose("a row", "it is damaged: not as many cells as the header", offset=offset)
            elif cells != self.titles:  # files put together repeat it
                yield offset, cells

    def counters(self) -> dict[str, int]:
        """Titles and positions of the columns that are no part of a dispatch's description."""
        found: dict[str, int] = {}
        for position, title in enumerate(self.titles):
            if key(title) not in DESCRIPTION and title.strip():
                found.setdefault(title.strip(), position)
        return found
