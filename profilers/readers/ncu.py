"""Nsight Compute's CSV: the long layout of `ncu --csv`, the wide one of `--page raw` and the GUI, and authors' pivots.

Seen in the long layout: with `Kernel Time` and without grid, block and device (up to 2022.1), or the other way round;
with three to five columns of rules, where rows of metrics are shorter than the header; messages of the profiler and
output of the program before, between and after the rows; runs that failed and left messages only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from wcbench.errors import ReadError
from wcbench.profilers.readers import units
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.ncu_launches import (
    PASS,
    Cells,
    Launch,
    Launches,
    device_label,
    plain_number,
    triple,
)
from wcbench.profilers.readers.ncu_layout import (
    METRIC,
    TABLES,
    Layout,
    Table,
    head_rows,
    is_units_row,
    layout,
    records,
    whole_header,
)

DOUBTFUL = (
    "Numbers like 117.344 stand in the file and none that tells whether the point is the decimal mark or parts "
    "thousands: it was taken for the decimal mark."
)
UNNAMED = "unnamed kernel"
MESSAGE = re.compile(r"==(ERROR|WARNING|PROF)== ?(.*)")
_UNSAID = ("Profiling ", "Connected", "Disconnected")
_INDEX = ("Metric Name", "", "ID", "index", "Unnamed: 0", "Kernel Name")


class NcuCsv(Reader):
    """CSV of Nsight Compute itself."""

    name: ClassVar[str] = "ncu"
    title: ClassVar[str] = "Nsight Compute CSV: ncu --csv, details or raw page, 2020 to 2026; CSV exports of the GUI"

    def recognizes(self, head: Head) -> bool:
        header: Layout | None = None
        messages = others = 0
        for row in head_rows(whole_header(head)):
            if isinstance(row, str):
                messages += bool(MESSAGE.match(row))
                continue
            others += 1
            if header is not None:
                return is_units_row(header, row)
            header = layout(row)
            if header is not None and (header.kind != "wide" or any(unit for _, _, unit in header.metrics)):
                return True
        return header is None and bool(messages) and not others

    def read(self, source: Source, sink: Sink) -> None:
        marks = units.decimal_mark(_value_cells(whole_header(Head(source, source.head()))))
        reading = _Reading(sink, marks.mark)
        for offset, row in records(source.lines(sink.lose), sink.lose):
            if isinstance(row, str):
                reading.message(row)
            else:
                reading.row(offset, row)
        reading.finish(source)
        if marks.doubtful:
            sink.note(PASS, DOUBTFUL)


def _value_cells(head: Head) -> Iterator[str]:
    """Cells of the beginning of a file that hold values, by which the decimal mark is told."""
    header: Layout | None = None
    for row in head_rows(head):
        if isinstance(row, str):
            continue
        header = layout(row) or header
        if header is not None and header.kind == "wide":
            yield from (row[i] for i, _, _ in header.metrics if i < len(row))
        elif header is not None:
            yield from (header.cell(row, name) for name in ("Metric Value", "Minimum", "Maximum", "Average"))


class _Reading:
    """One file: finds the headers, and hands rows to the table they belong to."""

    def __init__(self, sink: Sink, mark: str) -> None:
        self._sink = sink
        self._cells, self._launches = Cells(mark, sink.lose), Launches(sink)
        self._table: Table | None = None
        self._messages: dict[str, None] = {}
        self._errors: dict[str, None] = {}

    def message(self, line: str) -> None:
        found = MESSAGE.match(line)
        if found is None or len(self._messages) >= 16 or found[2].startswith(_UNSAID):
            return
        self._messages[found[2][:300].strip()] = None
        if found[1] == "ERROR":
            self._errors[found[2][:300].strip()] = None

    def row(self, offset: int, fields: Sequence[str]) -> None:
        header = layout(fields)
        if header is not None:
            self._close()
            self._table = TABLES[header.kind](header, self._launches, self._cells)
        elif self._table is not None:
            self._table.row(offset, fields)
        # What stands above the first header is output of the program.

    def _close(self) -> None:
        if self._table is not None:
            self._table.finish()
        self._table = None

    def finish(self, source: Source) -> None:
        headed = self._table is not None
        self._close()
        if self._launches.empty:
            raise nothing(source, headed=headed, messages=list(self._messages))
        self._launches.finish({"tool": "Nsight Compute"})
        for text in self._errors:
            self._sink.note(PASS, f"Nsight Compute reported an error: {text}")


def nothing(source: Source, *, headed: bool, messages: Sequence[str]) -> ReadError:
    """Why a file of Nsight Compute is refused, in the words of the file where it has any."""
    said = " ".join(text if text.endswith(".") else f"{text}." for text in messages)
    what = "has a header and no values below it" if headed else "holds no profiled kernel"
    why = f" Nsight Compute wrote: {said}" if said else "" if source.nbytes else " It is empty: the run wrote nothing."
    return ReadError(
        f"{source.label} {what}.{why}", "Run ncu again and check that the program itself ends without an error."
    )


class NcuPivot(Reader):
    """Tables that authors made of Nsight Compute's CSV with pandas: a row per launch, a column per metric, no units.

    The units are those of `--print-units base`, by the metrics' names; where a launch's duration and its cycles
    contradict each other by a power of 1000, the duration was in another unit and is mended.
    """

    name: ClassVar[str] = "ncu-pivot"
    title: ClassVar[str] = "Nsight Compute CSV pivoted by its author: a row per launch, a column per metric, no units"

    def recognizes(self, head: Head) -> bool:
        rows = [row for _, row in zip(range(2), head_rows(whole_header(head)), strict=False)]
        if not rows or isinstance(rows[0], str) or rows[0][0].strip() not in _INDEX:
            return False
        metrics = _pivot_metrics(rows[0])
        header = layout(rows[0])
        if not metrics or (header is None and 2 * len(metrics) < len(rows[0])):
            return False
        return header is None or len(rows) < 2 or isinstance(rows[1], str) or not is_units_row(header, rows[1])

    def read(self, source: Source, sink: Sink) -> None:
        cells = Cells(units.POINT, sink.lose)
        launches = Launches(sink)
        header: list[str] = []
        metrics: list[tuple[int, str]] = []
        for offset, row in records(source.lines(sink.lose), sink.lose):
            if isinstance(row, str):
                continue
            if not header:
                header, metrics = row, _pivot_metrics(row)
                if not metrics:
                    break
            elif len(row) != len(header):
                sink.lose("a row", "it has too few or too many fields", offset=offset)
            else:
                launches.add(_pivot_launch(dict(zip(header, row, strict=True)), metrics, row, cells))
        if launches.empty:
            raise ReadError(f"{source.label} has a header and no launch below it.", "Export the table again.")
        launches.finish({"tool": "Nsight Compute"})
        sink.note(PASS, "The file gives no units: Nsight Compute's base units (ns, bytes, %) are taken.")
        if "Kernel Name" not in header:
            sink.note(PASS, f"The file names no kernels: each launch is '{UNNAMED}'.")


def _pivot_metrics(header: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, name.strip()) for i, name in enumerate(header) if METRIC.fullmatch(name.strip())]


def _pivot_launch(
    named: dict[str, str], metrics: Sequence[tuple[int, str]], row: Sequence[str], cells: Cells
) -> Launch:
    launch = Launch(
        named.get("Kernel Name", "").strip() or UNNAMED,
        device=device_label(named.get("Device", "")),
        stream=plain_number(named.get("Stream", "")),
        grid=triple(named.get("Grid Size", "")),
        block=triple(named.get("Block Size", "")),
    )
    for at, metric in metrics:
        holds, value = cells.number(row[at])
        if holds:
            launch.put(metric, value, units.ncu_base_unit(metric))
    _mend_duration(launch, cells)
    return launch


def _mend_duration(launch: Launch, cells: Cells) -> None:
    """Give the duration the unit in which it agrees with the cycles; drop one that agrees in none."""
    key = ("gpu__time_duration.sum", "ns")
    given = launch.values.get(key)
    cycles = launch.get("sm__cycles_elapsed.avg", "cycle")
    hertz = launch.get("sm__cycles_elapsed.avg.per_second", "Hz")
    if not given or not cycles or not hertz:
        return
    derived = cycles / hertz * 1e9
    for factor in (1.0, 1e3, 1e6, 1e9):
        if abs(given * factor / derived - 1) < 0.05:
            launch.values[key] = given * factor
            if factor != 1:
                cells.lose("a duration", "its unit was found by cycles and cycles per second", repaired=True)
            return
    del launch.values[key]
    cells.lose("a duration", "it contradicts cycles and cycles per second")
