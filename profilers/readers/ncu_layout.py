"""Layouts of Nsight Compute's CSV: headers, and tables that take the rows below them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from wcbench.profilers.readers import units
from wcbench.profilers.readers.base import Head, Lost
from wcbench.profilers.readers.ncu_launches import Cells, Launch, Launches, device_label, plain_number, triple
from wcbench.profilers.readers.source import HEAD, MAX_LINE

_NAMES = ("Kernel Name", "Demangled Name", "Function Name")
_HELD_BYTES, _HELD_LAUNCHES, _VALUE_BYTES = 64 << 20, 4096, 300
_JOINED_LINES, _JOINED_BYTES = 64, 1 << 17
METRIC = re.compile(r"[a-z][a-z0-9]*__[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*", re.ASCII)
_BRACKETS = re.compile(r"(.+?) ?\[([^\[\]]*)\]")
_FIGURE = re.compile(r"[-+]?[\d.,' ]{1,40}(?:[eE][-+]?\d{1,4})?", re.ASCII)
_FRESH = re.compile(r'(?:"?\d{1,19}"?,"?\d{1,19}"?,|==)', re.ASCII)


@dataclass(frozen=True)
class Layout:
    """A header: where its columns stand. ``metrics`` of the wide layouts: index, metric, unit ("" if not known yet)."""

    kind: str  # long, summary or wide
    columns: dict[str, int]
    width: int
    metrics: tuple[tuple[int, str, str], ...] = ()

    def cell(self, fields: Sequence[str], name: str) -> str:
        at = self.columns.get(name, -1)
        return fields[at].strip() if 0 <= at < len(fields) else ""

    def kernel(self, fields: Sequence[str]) -> str:
        return next((cell for cell in (self.cell(fields, name) for name in _NAMES) if cell), "")


def layout(fields: Sequence[str]) -> Layout | None:
    """The layout that a row is the header of; None for other rows."""
    if not any(name in fields for name in _NAMES):
        return None
    columns = {name.strip(): i for i, name in reversed(list(enumerate(fields)))}
    if "Metric Name" in columns:
        for kind, needed in (("long", ("ID", "Metric Unit", "Metric Value")), ("summary", ("Invocations", "Average"))):
            if all(name in columns for name in needed):
                return Layout(kind, columns, len(fields))
        return None
    found = [(i, *_split_unit(name.strip())) for i, name in enumerate(fields)]
    metrics = tuple((i, name, unit or "") for i, name, unit in found if unit is not None or METRIC.fullmatch(name))
    return Layout("wide", columns, len(fields), metrics) if metrics else None


def _split_unit(name: str) -> tuple[str, str | None]:
    """Metric and unit of a GUI export's header, `dram__bytes.sum [Mbyte]`; None where there are no brackets."""
    found = _BRACKETS.fullmatch(name[:512])
    return (found[1], found[2]) if found else (name, None)


def is_units_row(header: Layout, fields: Sequence[str]) -> bool:
    """Whether a row names units: no launch, no kernel, no figures."""
    if header.kind != "wide" or header.kernel(fields) or header.cell(fields, "ID"):
        return False
    cells = [fields[i].strip() for i, _, _ in header.metrics if i < len(fields)]
    return any(cells) and not any(map(_FIGURE.fullmatch, cells))


def records(lines: Iterable[tuple[int, str]], lose: Lost) -> Iterator[tuple[int, list[str] | str]]:
    """Offset and fields of each row of a CSV file; lines that begin with `==` stay text.

    A row whose quotes are open at the end of a line goes on with the next ones, unless these begin a row themselves.
    """
    held, start, joined = "", 0, 0
    for offset, line in lines:
        if held and (_FRESH.match(line) or joined >= _JOINED_LINES or len(held) > _JOINED_BYTES):
            lose("a row", "its quotes do not end", offset=start)
            held = ""
        if not held:
            if line.startswith("=="):
                yield offset, line
                continue
            start, joined = offset, 0
        held = f"{held}\n{line}" if joined else line
        joined += 1
        if held.count('"') % 2:
            continue
        fields, held = _fields(held), ""
        if fields is None:
            lose("a row", "it is no CSV, or one of its cells is too long", offset=start)
        elif fields:
            yield start, fields
    if held:
        lose("a row", "its quotes do not end", offset=start)


def _fields(text: str) -> list[str] | None:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return None


def whole_header(head: Head) -> Head:
    """The head; a longer one where it does not reach beyond a header and the row below: some have 20,000 columns."""
    if len(head.data) < HEAD or not any(name in line for line in head.lines[-2:] for name in _NAMES):
        return head
    return Head(head.source, head.source.head(HEAD + 3 * MAX_LINE))


def head_rows(head: Head) -> Iterator[list[str] | str]:
    """Rows of the beginning of a file; what is cut or damaged there is met again when the file is read."""
    for _, row in records(enumerate(head.lines), lambda *_args, **_more: None):
        yield row


class Table(Protocol):
    """Takes the rows below one header."""

    def row(self, offset: int, fields: Sequence[str]) -> None: ...

    def finish(self) -> None: ...


class Long:
    """A row per value. Rows of a launch stand together as a rule; those that do not are found while it is held."""

    def __init__(self, header: Layout, launches: Launches, cells: Cells) -> None:
        self._header, self._launches, self._cells, self._lose = header, launches, cells, cells.lose
        self._value = tuple(header.columns[name] for name in ("Metric Name", "Metric Unit", "Metric Value"))
        self._least = max(self._value) + 1
        self._open: dict[tuple[str, int], tuple[Launch, int]] = {}
        self._ended: dict[str, int] = {}
        self._held = 0

    def row(self, offset: int, fields: Sequence[str]) -> None:
        if not self._least <= len(fields) <= self._header.width:
            self._lose("a row", "it has too few or too many fields (output of the program?)", offset=offset)
            return
        metric, unit, value = (fields[at] for at in self._value)
        if not metric.strip():
            self._lose("a rule", "advice in words is not kept")
            return
        launch = self._launch(fields, offset)
        if launch is not None:
            self._cells.put(launch, metric.strip(), unit, value)
            self._bound()

    def _launch(self, fields: Sequence[str], offset: int) -> Launch | None:
        number, process = plain_number(self._header.cell(fields, "ID")), self._header.cell(fields, "Process ID")
        name = self._header.kernel(fields)
        if number is None or not name:
            self._lose("a row", "it names no launch or no kernel", offset=offset)
            return None
        key = (process, number)
        launch, size = self._open.get(key, (None, 0))
        grown = _VALUE_BYTES
        if launch is None:
            if number <= self._ended.get(process, -1):
                self._lose("a row", "it is far from the other rows of its launch", offset=offset)
                return None
            launch = _described(self._header, fields, name)
            grown += len(name)
        elif launch.name != name:
            self._lose("a row", "its launch has another kernel's name", offset=offset)
            return None
        self._held += grown
        self._open[key] = (launch, size + grown)
        return launch

    def _bound(self) -> None:
        while len(self._open) > 1 and (self._held > _HELD_BYTES or len(self._open) > _HELD_LAUNCHES):
            self._end(next(iter(self._open)))

    def _end(self, key: tuple[str, int]) -> None:
        launch, size = self._open.pop(key)
        self._held -= size
        self._ended[key[0]] = max(key[1], self._ended.get(key[0], -1))
        self._launches.add(launch)

    def finish(self) -> None:
        for key in list(self._open):
            self._end(key)


def _described(header: Layout, fields: Sequence[str], name: str) -> Launch:
    """A launch with what its row tells beside values."""
    cell = header.cell
    return Launch(
        name,
        device=device_label(cell(fields, "Device")),
        stream=plain_number(cell(fields, "Stream")),
        grid=triple(cell(fields, "Grid Size")),
        block=triple(cell(fields, "Block Size")),
    )


class Summary:
    """`--print-summary`: a row per value of all launches of a kernel, with least, greatest and mean."""

    def __init__(self, header: Layout, launches: Launches, cells: Cells) -> None:
        self._header, self._launches, self._cells, self._lose = header, launches, cells, cells.lose

    def row(self, offset: int, fields: Sequence[str]) -> None:
        cell = self._header.cell
        name, metric, calls = self._header.kernel(fields), cell(fields, "Metric Name"), cell(fields, "Invocations")
        count = plain_number(calls)
        if not name or not metric or not count:
            self._lose("a row", "it names no kernel, no metric or no invocations", offset=offset)
            return
        unit = units.ncu_unit(cell(fields, "Metric Unit"))
        found = [self._cells.number(cell(fields, which)) for which in ("Average", "Minimum", "Maximum")]
        if not all(holds for holds, _ in found):
            return
        scaled = [None if value is None else value * unit.factor for _, value in found]
        self._launches.summed(name, metric, unit.name, count, scaled)

    def finish(self) -> None:
        """Nothing is held."""


class Wide:
    """A row per launch; where the header holds no units, the row below it does."""

    def __init__(self, header: Layout, launches: Launches, cells: Cells) -> None:
        self._header, self._launches, self._cells, self._lose = header, launches, cells, cells.lose
        self._units = [unit for _, _, unit in header.metrics]
        self._first = True

    def row(self, offset: int, fields: Sequence[str]) -> None:
        if is_units_row(self._header, fields):
            self._take_units(offset, fields)
            return
        self._first = False
        name = self._header.kernel(fields)
        if len(fields) != self._header.width or not name:
            self._lose("a row", "it has too few or too many fields (output of the program?)", offset=offset)
            return
        launch = _described(self._header, fields, name)
        for (at, metric, _), unit in zip(self._header.metrics, self._units, strict=True):
            self._cells.put(launch, metric, unit, fields[at])
        self._launches.add(launch)

    def _take_units(self, offset: int, fields: Sequence[str]) -> None:
        """Units of the rows below: of all as a rule, of the rest of them where tables were put together."""
        if self._first or len(fields) == self._header.width:
            self._units = [fields[i].strip() if i < len(fields) else "" for i, _, _ in self._header.metrics]
        if not self._first:
            why = "it stands between launches: those below it are in its units"
            if len(fields) != self._header.width:
                why = "it stands between launches and has too few or too many fields: what is below it may be wrong"
            self._lose("a row of units", why, offset=offset, repaired=len(fields) == self._header.width)
        self._first = False

    def finish(self) -> None:
        """Nothing is held."""


TABLES: dict[str, type[Long] | type[Wide] | type[Summary]] = {"long": Long, "wide": Wide, "summary": Summary}
