"""Rows of nsys' report `cuda_gpu_trace`: one execution of a kernel, copy or fill each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.nsys_rows import Span
from wcbench.profilers.readers.timeline import ABSENT
from wcbench.profilers.readers.units import NotANumberError, number

if TYPE_CHECKING:
    from wcbench.profilers.readers.nsys_stats import Layout

_WAY = r"(?: ([A-Za-z]+?)(?:-to-|to)([A-Za-z]+))?"
_OPERATION = re.compile(rf"\[CUDA (?:(Unified Memory) )?mem(cpy|set){_WAY}\]", re.IGNORECASE)
_INDEX = re.compile(r".*\(([0-9]{1,4})\)\s*")
_BYTES = {"B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ROUNDED = 100
"""A size is kept from so many units of its last digit on: half of one is an error of at most half a per cent."""
_MOST = (1 << 31) - 1
_LAST = 1 << 62
MAX_DEVICES = 4096


def operation(text: str, source: str = "", target: str = "") -> str | None:
    """The name of a copy or fill as Kineto writes it; None for a kernel.

    >>> operation("[CUDA memcpy Host-to-Device]", "Pinned", "Device")
    'Memcpy HtoD (Pinned -> Device)'
    """
    found = _OPERATION.fullmatch(text)
    if found is None:
        return None
    unified, kind, first, second = found.groups()
    if kind.lower() == "set":
        place = target or source
        return f"Memset ({place})" if place else "Memset"
    way = f" {first[0].upper()}to{second[0].upper()}" if first and second else ""
    between = " (unified memory)" if unified else f" ({source} -> {target})" if source and target else ""
    return f"Memcpy{way}{between}"


class Trace:
    """Puts rows of the report into the sink's timeline."""

    def __init__(self, sink: Sink) -> None:
        self.span = Span()
        self._sink, self._timeline = sink, sink.timeline()
        self._devices: dict[str, int] = {}
        self._noted: set[str] = set()

    def add(self, layout: Layout, mark: str, rows: Iterable[tuple[int, Sequence[str]]]) -> int:
        """Take rows (offset, cells) and return how many of them were sound."""
        made: dict[str, list[Any]] = {}
        for offset, cells in rows:
            try:
                row = self._row(_Cells(layout, mark, cells))
            except NotANumberError:
                row = None
            if row is None:
                self._sink.lose("a row", "its start, its duration or its name is missing or absurd", offset=offset)
                continue
            for name, value in row.items():
                made.setdefault(name, []).append(value)
        if not made:
            return 0
        count = len(made["name"])
        self._timeline.device(process=[0] * count, **made)
        start = np.array(made["start"], np.int64)
        self.span.add(start, start + np.array(made["duration"], np.int64))
        return count

    def _row(self, cells: _Cells) -> dict[str, Any] | None:
        start, duration, name = cells.time("start"), cells.time("duration"), cells.text("name")
        if start is None or duration is None or not name:
            return None
        copied = operation(name, cells.text("srcmemkd"), cells.text("dstmemkd"))
        fixed, dynamic = self._bytes(cells, "stcsmem"), self._bytes(cells, "dymsmem")
        return {
            "name": self._timeline.name(copied or name),
            "device": self._device(cells.text("device")),
            "stream": cells.whole("strm"),
            "start": start,
            "duration": duration,
            "correlation": cells.whole("corrid"),
            "grid": cells.triple("grdx", "grdy", "grdz"),
            "block": cells.triple("blkx", "blky", "blkz"),
            "registers": cells.whole("reg/trd"),
            "shared_bytes": ABSENT if fixed < 0 or dynamic < 0 else fixed + dynamic,
            "nbytes": self._bytes(cells, "bytes"),
        }

    def _device(self, text: str) -> int:
        """The label of a device such as ``NVIDIA A100 (0)``; those without a number are numbered as they come."""
        known = self._devices.get(text)
        if known is None:
            found = _INDEX.fullmatch(text)
            index = int(found.group(1)) if found else min(len(self._devices), MAX_DEVICES)
            if found is None:
                self._note(f"{self._sink.label} names devices without a number: they are numbered as they come.")
            known = self._timeline.name(f"cuda:{index}")
            if len(self._devices) < MAX_DEVICES:
                self._devices[text] = known
        return known

    def _bytes(self, cells: _Cells, column: str) -> int:
        found = cells.size(column)
        if found is None:
            return ABSENT
        value, unit, step = found
        if step < 1 or (unit == 1 and value == int(value)):
            return int(value)
        self._note(f"Sizes of {self._sink.label} are rounded to {step:.0f} B; the smaller ones are left out.")
        return round(value) if value >= _ROUNDED * step else ABSENT

    def _note(self, text: str) -> None:
        if text not in self._noted and len(self._noted) < 8:
            self._noted.add(text)
            self._sink.note("timeline", text)


class _Cells:
    """One row by the names of its columns."""

    def __init__(self, layout: Layout, mark: str, cells: Sequence[str]) -> None:
        self._layout, self._mark, self._cells = layout, mark, cells

    def text(self, column: str) -> str:
        place = self._layout.places.get(column)
        return "" if place is None else self._cells[place].strip()

    def time(self, column: str) -> int | None:
        """Nanoseconds; None where the cell has no number or one that no clock gives."""
        text, scale = self.text(column), self._layout.scale(column)
        if scale == 1 and text.isdecimal() and len(text) < 20:
            # a float would round the nanoseconds of a clock that began in 1970
            return int(text) if int(text) < _LAST else None
        value = number(text, self._mark)
        value = None if value is None or scale is None else value * scale
        return round(value) if value is not None and 0 <= value < _LAST else None

    def whole(self, column: str) -> int:
        value = number(self.text(column), self._mark)
        return int(value) if value is not None and 0 <= value <= _LAST and value == int(value) else ABSENT

    def triple(self, *columns: str) -> tuple[int, ...] | None:
        found = tuple(self.whole(column) for column in columns)
        return found if all(0 <= extent <= _MOST for extent in found) else None

    def size(self, column: str) -> tuple[float, int, float] | None:
        """Bytes, those of the unit, and those of one in the last digit."""
        text = self.text(column)
        value, unit = number(text, self._mark), _BYTES.get(self._layout.units.get(column, ""), 0)
        if value is None or not unit or not 0 <= value * unit < _LAST:
            return None
        digits = len(text.rpartition(self._mark)[2]) if self._mark in text else 0
        return value * unit, unit, unit / 10.0**digits
