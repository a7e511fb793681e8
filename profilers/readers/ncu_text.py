"""The details page of Nsight Compute as text, as `ncu` prints it without `--csv`.

A launch begins with a line of name, grid, block, stream, device and compute capability (up to 2022.1 of name, time,
context and stream) and goes on with sections, each a table between rules of dashes. Advice in words between the tables
is dropped. Figures are rounded to two decimals of the printed unit.
"""

from __future__ import annotations

import re
from typing import ClassVar

from wcbench.profilers.readers import units
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.ncu import DOUBTFUL, MESSAGE, nothing
from wcbench.profilers.readers.ncu_launches import PASS, Cells, Launch, Launches, device_label, plain_number, triple

_SECTION = re.compile(r" {2,8}Section: \S")
_RULE = re.compile(r" {2,8}-{3,}(?: -{3,})*\s*")
_DASHES = re.compile(r"-+")
_LAUNCH = re.compile(
    r"(?P<grid>\(\d{1,18}, \d{1,18}, \d{1,18}\))x(?P<block>\(\d{1,18}, \d{1,18}, \d{1,18}\)), Context \d+, "
    r"Stream (?P<stream>\d+)(?:, Device (?P<device>\d+))?(?:, CC [\d.]+)?\s*$",
    re.ASCII,
)
_OLD_LAUNCH = re.compile(r", \d{4}-\w{3,9}-\d\d \d\d:\d\d:\d\d, Context \d+, Stream (?P<stream>\d+)\s*$", re.ASCII)
_TAIL = 256
"""Characters at the end of a line in which a launch's grid, block and stream stand."""


class NcuText(Reader):
    """Text of the details page."""

    name: ClassVar[str] = "ncu-text"
    title: ClassVar[str] = "Nsight Compute's details page as text: what ncu prints without --csv"

    def recognizes(self, head: Head) -> bool:
        launch = False
        for line in head.lines:
            launch = launch or _launch(line) is not None
            if launch and _SECTION.match(line):
                return True
        return False

    def read(self, source: Source, sink: Sink) -> None:
        marks = units.decimal_mark(_last_cells(Head(source, source.head())))
        reading = _Reading(sink, marks.mark)
        for offset, line in source.lines(sink.lose):
            reading.line(offset, line)
        reading.finish(source)
        if marks.doubtful:
            sink.note(PASS, DOUBTFUL)


def _last_cells(head: Head) -> list[str]:
    """The last word of each line with a table's indent: values, and words that are no numbers."""
    return [line.split()[-1] for line in head.lines if line.startswith("    ") and line.strip()]


def _launch(line: str) -> Launch | None:
    """The launch that a line begins; None for other lines."""
    if not line.startswith("  ") or line.startswith("      "):
        return None
    cut = max(0, len(line) - _TAIL)
    found = _LAUNCH.search(line, cut)
    if found is not None:
        return Launch(
            line[: found.start()].strip(),
            device=device_label(found["device"] or ""),
            stream=plain_number(found["stream"]),
            grid=triple(found["grid"]),
            block=triple(found["block"]),
        )
    found = _OLD_LAUNCH.search(line, cut)
    return Launch(line[: found.start()].strip(), stream=plain_number(found["stream"])) if found else None


class _Reading:
    """One file, line by line: the launch, and the columns of the table that a line may stand in."""

    def __init__(self, sink: Sink, mark: str) -> None:
        self._sink = sink
        self._cells, self._launches = Cells(mark, sink.lose), Launches(sink)
        self._launch: Launch | None = None
        self._columns: list[tuple[int, int]] = []
        self._header = False
        self._messages: dict[str, None] = {}

    def line(self, offset: int, line: str) -> None:
        message = MESSAGE.match(line)
        if message is not None:
            if message[1] != "PROF" and len(self._messages) < 16:
                self._messages[message[2][:300].strip()] = None
            return
        fresh = _launch(line)
        if fresh is not None:
            self._end()
            self._launch = fresh
        elif _SECTION.match(line):
            self._columns, self._header = [], False
        elif _RULE.fullmatch(line[:4096]):
            self._rule(line)
        elif self._columns and self._launch is not None:
            self._row(self._launch, offset, line)

    def _rule(self, line: str) -> None:
        """A rule begins a table, ends its header (up to 2022.1 there is none), or ends the table."""
        ends = bool(self._columns) and not self._header
        self._columns = [] if ends else [found.span() for found in _DASHES.finditer(line)]
        self._header = False

    def _row(self, launch: Launch, offset: int, line: str) -> None:
        if line.strip().startswith("Metric Name"):
            self._header = True
        elif len(self._columns) != 3:
            self._sink.lose("a row", "it stands in a table of other columns than metric, unit and value", offset=offset)
        else:
            _, (unit_at, unit_end), _ = self._columns
            name, unit, value = line[:unit_at].strip(), line[unit_at:unit_end].strip(), line[unit_end:].strip()
            if name:
                self._cells.put(launch, name, unit, value)

    def _end(self) -> None:
        if self._launch is not None:
            self._launches.add(self._launch)
        self._launch, self._columns, self._header = None, [], False

    def finish(self, source: Source) -> None:
        self._end()
        if self._launches.empty:
            raise nothing(source, headed=False, messages=list(self._messages))
        self._launches.finish({"tool": "Nsight Compute"})
        for text in self._messages:
            self._sink.note(PASS, f"Nsight Compute wrote: {text}")
