"""CSV reports of ``nsys stats --format csv``: one or several in a file, with or without the lines that name them.

Sums of time by name become table `totals`: kernels, copies and fills of a device are kind kernel, calls of CUDA kind
runtime, NVTX ranges kind range. A trace of the GPU becomes kernels. Of reports that repeat what another one of the
same file has (`cuda_gpu_sum` holds `cuda_gpu_kern_sum`), the first is taken.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.nsys_trace import Trace, operation
from wcbench.profilers.readers.sums import CONTRADICTED, NONE, UNCONFIRMED, Printed, agreed, printed
from wcbench.profilers.readers.units import NotANumberError, decimal_mark, number

_COLUMN = re.compile(r"(.*?)\s*(?:\(([^()]*)\)|:(?:dur|ts|mem|ratio)_(\S+))?")
_TITLE = re.compile(r"\(([a-z0-9_]+)(?::[^()]*)?\):\s*$")
_SCRIPT = re.compile(r"Processing \[.*\] with \[(?:.*[/\\])?([a-z0-9_]+)\.py(?::[^\]]*)?\]")
_MESSAGE = re.compile(r"(?:Processing \[|Generating |NOTICE|SKIPPED|WARNING|ERROR|Using |Exporting | {0,4}\*\* )")
_CUDA = re.compile(r"cuda[A-Z]|cu[A-Z]")

_NS = {"ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "μs": 1e3, "µs": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9}
_CALLS = ("instances", "num calls", "count", "calls", "operations")
_NAMES = ("name", "operation", "range")
_VALUES: Mapping[str, tuple[str, ...]] = {
    "total_ns": ("total time",),
    "mean_ns": ("avg", "average"),
    "median_ns": ("med", "median"),
    "minimum_ns": ("min", "minimum"),
    "maximum_ns": ("max", "maximum"),
    "deviation_ns": ("stddev",),
}
_MOST_CALLS = 1 << 53
_HEAD_LINES = 400
_BUFFER = 4096
MAX_REPORTS = 1000

_KERNELS, _COPIES, _RUNTIME, _RANGES = "kernels", "copies and fills", "calls of CUDA", "ranges"
_KINDS = {_KERNELS: "kernel", _COPIES: "kernel", _RUNTIME: "runtime", _RANGES: "range"}
_CATEGORIES = {"CUDA_KERNEL": _KERNELS, "MEMORY_OPER": _COPIES, "CUDA_API": _RUNTIME}
_REPORTS = {  # names of today and of before 2022.2
    "cuda_gpu_kern_sum": _KERNELS, "gpukernsum": _KERNELS, "cuda_gpu_kern_gb_sum": _KERNELS, "gpukerngbsum": _KERNELS,
    "cuda_kern_exec_sum": "", "cuda_gpu_mem_time_sum": _COPIES, "gpumemtimesum": _COPIES,
    "cuda_api_sum": _RUNTIME, "cudaapisum": _RUNTIME, "nvtx_sum": _RANGES, "nvtxsum": _RANGES,
    "nvtx_pushpop_sum": _RANGES, "pushpopsum": _RANGES, "nvtx_startend_sum": _RANGES, "startendsum": _RANGES,
}  # fmt: skip
_BY_CATEGORY = frozenset(("cuda_gpu_sum", "gpusum", "cuda_api_gpu_sum", "apigpusum"))


class NsysStats(Reader):
    """Sums of time and traces of the GPU that `nsys stats` prints."""

    name: ClassVar[str] = "nsys-stats"
    title: ClassVar[str] = "CSV of nsys stats: sums of kernels, copies, calls of CUDA and NVTX ranges; cuda_gpu_trace"

    def recognizes(self, head: Head) -> bool:
        return any(_layout(line) is not None for line in head.lines[:_HEAD_LINES] if len(line) < 2000)

    def read(self, source: Source, sink: Sink) -> None:
        file = _File(sink)
        for offset, line in source.lines(sink.lose):
            file.line(offset, line)
        file.end()


@dataclass
class Layout:
    """The columns of a report: places by their names in lower case, units in parentheses set apart."""

    places: dict[str, int]
    units: dict[str, str]
    width: int
    trace: bool

    def scale(self, column: str) -> float | None:
        """Nanoseconds of the unit of a column of times, None for an unknown one; without one they are nanoseconds."""
        return _NS.get(self.units.get(column, "ns"))


def _layout(line: str) -> Layout | None:
    """The layout that a line names, None where it is no header of a report that is read."""
    if "time" not in line.lower() and "duration" not in line.lower():
        return None
    cells = cells_of(line) or []
    found = [_COLUMN.fullmatch(cell.strip()) for cell in cells]
    names = [match.group(1).lower() if match else "" for match in found]
    units = [(match.group(2) or match.group(3) or "") if match else "" for match in found]
    places = {name: at for at, name in reversed(list(enumerate(names)))}
    told = {name: units[at].strip() for name, at in places.items() if units[at].strip()}
    trace = {"start", "duration", "strm", "name"} <= places.keys() and "grdx" in places
    sums = "total time" in places and any(c in places for c in _CALLS) and any(n in places for n in _NAMES)
    if not trace and (not sums or "app time" in places or "pid" in places):
        return None
    return Layout(places, told, len(names), trace)


def cells_of(line: str) -> list[str] | None:
    """The cells of a line of CSV; None where it is none."""
    try:
        return next(csv.reader([line]), None)
    except csv.Error:
        return None


@dataclass
class _Section:
    """One report: its name where a line told it, its columns, the rows that wait."""

    report: str
    layout: Layout
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    mark: str | None = None
    trace: Trace | None = None


class _File:
    """The reading of one file, line by line."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._report, self._section = "", None  # type: str, _Section | None
        self._taken: dict[str, int] = {}  # which report the rows of each kind come from
        self._number = self._rows = 0
        self._trace: Trace | None = None
        self._doubtful = False

    def line(self, offset: int, line: str) -> None:
        if not line.strip():
            return
        if told := _SCRIPT.search(line) or (_TITLE.search(line) if "**" in line[:8] else None):
            self._flush()
            self._report, self._section = told.group(1), None
        elif layout := _layout(line) if len(line) < 2000 else None:
            self._flush()
            self._number += 1
            if self._number > MAX_REPORTS:
                raise ReadError(f"{self._sink.label} holds more than {MAX_REPORTS} reports.", "Export one at a time.")
            self._section = _Section(self._report, layout)
        elif _MESSAGE.match(line):
            return
        elif self._section is not None:
            self._row(self._section, offset, line)
        else:
            self._sink.lose("a line", "it belongs to no report that is read", offset=offset)

    def _row(self, section: _Section, offset: int, line: str) -> None:
        cells, width = cells_of(line), section.layout.width
        if cells is None or len(cells) < width:
            self._sink.lose("a row", "it has fewer cells than the report has columns", offset=offset)
            return
        # a name with commas may stand without quotation marks: it is the last column
        section.rows.append((offset, [*cells[: width - 1], ",".join(cells[width - 1 :])]))
        if len(section.rows) >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        section = self._section
        if section is None or not section.rows:
            return
        if section.mark is None:
            names = {section.layout.places.get(name, -1) for name in (*_NAMES, "device")}
            marks = decimal_mark(c for _, row in section.rows for at, c in enumerate(row) if at not in names)
            section.mark, self._doubtful = marks.mark, self._doubtful or marks.doubtful
        waiting, section.rows = section.rows, []
        if section.layout.trace:
            self._trace = self._trace or Trace(self._sink)
            if self._taken.setdefault("trace", self._number) == self._number:
                self._rows += self._trace.add(section.layout, section.mark, waiting)
            else:
                self._sink.lose("a row", "another report of the file has what its report holds", count=len(waiting))
        else:
            self._sums(section, waiting)

    def _sums(self, section: _Section, waiting: Iterable[tuple[int, list[str]]]) -> None:
        made: dict[str, list[Any]] = {name: [] for name in ("kind", "name", "calls", *_VALUES)}
        for offset, cells in waiting:
            what = _what(section, cells)
            if not what:
                self._sink.lose("a row", "its report is not read", offset=offset)
            elif self._taken.setdefault(what, self._number) != self._number:
                self._sink.lose("a row", "another report of the file has what its report holds", offset=offset)
            elif (values := self._values(section, cells, offset)) is not None:
                for name, value in {"kind": _KINDS[what], **values}.items():
                    made[name].append(value)
        self._rows += len(made["kind"])
        self._sink.add("totals", "timeline", made)

    def _values(self, section: _Section, cells: Sequence[str], offset: int) -> dict[str, Any] | None:
        layout, mark = section.layout, section.mark or "."
        try:
            times = [_time(layout, cells, mark, words) for words in _VALUES.values()]
            calls = number(cells[layout.places[next(w for w in _CALLS if w in layout.places)]], mark)
        except NotANumberError:
            self._sink.lose("a row", "it holds text where a number belongs", offset=offset)
            return None
        name, (total, mean, median, least, greatest, deviation) = _name(section, cells), times
        known = [time.value for time in times if time.value is not None]
        if not name or total.value is None or calls is None or not _sound(known, calls):
            self._sink.lose("a row", "its time, its number of calls or its name is missing or absurd", offset=offset)
            return None
        sums = agreed(int(calls), total, mean, least, greatest, median=median, deviation=deviation)
        if sums is None:
            self._sink.lose("a row", UNCONFIRMED, offset=offset)
            return None
        for column in sums.left:
            self._sink.lose(f"the {column} time of a row", CONTRADICTED, offset=offset)
        values = (total.value, sums.mean, sums.median, sums.least, sums.greatest, sums.deviation)
        return {"name": name, "calls": int(calls), **dict(zip(_VALUES, values, strict=True))}

    def end(self) -> None:
        self._flush()
        if not self._rows:
            raise ReadError(
                f"{self._sink.label} holds no rows of a report of nsys stats that is read.",
                "Write it with `nsys stats --format csv --report cuda_gpu_kern_sum,cuda_gpu_trace REPORT`.",
            )
        if self._doubtful:
            self._sink.note("timeline", f"Numbers of {self._sink.label} such as 1,234 were read as thousands.")
        seconds = self._trace.span.seconds if self._trace else 0.0
        self._sink.describe("timeline", PassFacts(device="cuda", seconds=seconds))


def _what(section: _Section, cells: Sequence[str]) -> str:
    """What a row of sums is of: by the report's name, or by its columns where no line told it; empty if unknown."""
    places, report = section.layout.places, section.report
    if "category" in places and (not report or report in _BY_CATEGORY):
        return _CATEGORIES.get(cells[places["category"]].strip(), "")
    if report:
        return _REPORTS.get(report, "")
    if "range" in places:
        return _RANGES
    if "num calls" in places:  # calls of the system look the same
        return _RUNTIME if _CUDA.match(cells[places["name"]] if "name" in places else "") else ""
    return _COPIES if "operation" in places else _KERNELS if "instances" in places else ""


def _time(layout: Layout, cells: Sequence[str], mark: str, words: Sequence[str]) -> Printed:
    """The time in the first column of these names; NotANumberError where it is text."""
    word = next((word for word in words if word in layout.places), None)
    text = cells[layout.places[word]] if word else ""
    found, scale = number(text, mark), layout.scale(word) if word else None
    return NONE if found is None or scale is None else printed(found * scale, text, scale, mark)


def _name(section: _Section, cells: Sequence[str]) -> str:
    text = cells[next(section.layout.places[name] for name in _NAMES if name in section.layout.places)].strip()
    return operation(text) or text


def _sound(times: Iterable[float], calls: float) -> bool:
    return all(0 <= time < 1 << 62 for time in times) and 0 < calls < _MOST_CALLS and calls == int(calls)
