"""The lines of nvprof's output as items: CSV and text, summaries, traces, metrics and events, in any order.

Only cells are cut here, nothing is converted: every cell comes as text, with the unit of a row of units where there is
one. Output of the profiled program may stand between the lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

from wcbench.profilers.readers.nvprof_items import (
    NONE,
    Call,
    Cell,
    Damage,
    Header,
    Item,
    Message,
    Total,
    Value,
    Work,
    called,
    kind_of,
    numbered,
)

_MESSAGE = re.compile(r"(?:==\d+==|=={3,8}) ?(.*)", re.ASCII)
_LEGEND = ("Regs: ", "SSMem: ", "DSMem: ", "SrcMemType: ", "DstMemType: ", "* ")
_TYPE = re.compile(r"\s*([A-Za-z][A-Za-z ()]{2,40}):\s", re.ASCII)
_CSV_TABLES = (
    ("metrics", {"Device", "Kernel", "Invocations"}),
    ("trace", {"Start", "Duration", "Grid X", "Name"}),
    ("calls", {"Start", "Duration", "Name"}),
    ("summary", {"Time(%)", "Time", "Calls", "Name"}),
)
_TEXT_TABLES = (
    ("summary", re.compile(r"\s*(?:Type\s{1,40})?Time\(%\)\s{1,40}Time\s{1,40}Calls\s{1,40}Avg\s.*Name\s*")),
    ("trace", re.compile(r"\s*Start\s{1,40}Duration\s{1,40}Grid Size\s{1,40}Block Size\s.*Name\s*")),
    ("calls", re.compile(r"\s*Start\s{1,40}Duration\s{1,40}Name\s*")),
    ("metrics", re.compile(r"\s*Invocations\s{1,80}(?:Metric|Event) Name\s.*")),
)
_UNITS = {"", "%", "s", "ms", "us", "ns", "B", "KB", "MB", "GB", "B/s", "KB/s", "MB/s", "GB/s", "TB/s"}


class Scanner:
    """Turns lines into items; holds the table that a line may belong to."""

    def __init__(self) -> None:
        self._table: _Csv | _Text | None = None
        self._kind = "kernel"

    def scan(self, line: str) -> Iterator[Item]:
        message = _MESSAGE.match(line)
        if message or line.startswith("Err:5"):  # what LibreOffice makes of a line that begins with an equal sign
            self._table = None
            text = message[1].strip() if message else ""
            if text.startswith(("API calls", "Profiling result")):
                self._kind = kind_of(text)
            yield Message(text)
            return
        if not line.strip():
            return
        started = self._header(line)
        if started is not None:
            self._table = started
            yield Header(started.kind)
        elif line.startswith(_LEGEND):
            self._table = None
        elif self._table is not None:
            yield from self._table.row(line)

    def _header(self, line: str) -> _Csv | _Text | None:
        if "," in line and ("Name" in line or "Kernel" in line) and len(line) < 4096:
            fields = [field.strip() for field in cut(line) or ()]
            for kind, needed in _CSV_TABLES:
                if needed <= set(fields):
                    return _Csv(kind, fields, self._kind)
        short = line[:600]
        for kind, form in _TEXT_TABLES:
            if form.fullmatch(short):
                return _Text(kind, short, self._kind)
        return None


def scanned(lines: Iterable[str]) -> Iterator[Item]:
    """Items of lines."""
    scanner = Scanner()
    for line in lines:
        yield from scanner.scan(line)


def cut(line: str) -> list[str] | None:
    """Fields of a line of CSV; None where it is none."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return None


class _Csv:
    """Rows below a CSV header. The first may be one of units."""

    def __init__(self, kind: str, header: Sequence[str], section: str) -> None:
        self.kind = kind
        self._columns = {name: i for i, name in reversed(list(enumerate(header)))}
        self._width, self._section = len(header), section
        self._name = self._columns["Kernel" if kind == "metrics" else "Name"]
        self._units = [""] * len(header)
        self._fresh = True

    def row(self, line: str) -> Iterator[Item]:
        fields = cut(line)
        if fields is None:
            yield Damage("it is no CSV, or one of its cells is too long")
            return
        if self._fresh and len(fields) == self._width and _UNITS.issuperset(field.strip() for field in fields):
            self._units, self._fresh = [field.strip() for field in fields], False
            return
        self._fresh = False
        extra = len(fields) - self._width
        if extra > 0 and '"' not in line:  # a spreadsheet took the quotes away: the commas are the name's
            fields[self._name : self._name + extra + 1] = [",".join(fields[self._name : self._name + extra + 1])]
            yield Damage("the quotes around a name are gone", repaired=True)
        if len(fields) != self._width or not fields[self._name].strip():
            yield Damage("it has too few or too many fields, or no name (output of the program?)")
            return
        yield self._item(fields)

    def _item(self, fields: Sequence[str]) -> Item:
        def text(name: str) -> str:
            at = self._columns.get(name, -1)
            return fields[at].strip() if at >= 0 else ""

        def cell(name: str) -> Cell:
            at = self._columns.get(name, -1)
            return (fields[at].strip(), self._units[at]) if at >= 0 else NONE

        name = text("Name")
        if self.kind == "summary":
            kind = kind_of(text("Type")) if "Type" in self._columns else self._section
            return Total(kind, name, text("Calls"), cell("Time"), cell("Avg"), cell("Min"), cell("Max"))
        if self.kind == "metrics":
            metric = text("Metric Name") or text("Event Name")
            kernel, calls = text("Kernel"), text("Invocations")
            return Value(text("Device"), kernel, calls, metric, text("Min"), text("Max"), text("Avg"))
        name, correlation = called(name) if self.kind == "calls" else numbered(name)
        correlation = text("Correlation_ID") or correlation
        if self.kind == "calls":
            return Call(name, cell("Start"), cell("Duration"), correlation)
        return Work(
            name=name,
            start=cell("Start"),
            duration=cell("Duration"),
            grid=tuple(text(f"Grid {axis}") for axis in "XYZ"),
            block=tuple(text(f"Block {axis}") for axis in "XYZ"),
            registers=text("Registers Per Thread"),
            static=cell("Static SMem"),
            dynamic=cell("Dynamic SMem"),
            size=cell("Size"),
            rate=cell("Throughput"),
            device=text("Device"),
            stream=text("Stream"),
            correlation=correlation,
        )


class _Text:
    """Rows below a header of the text form: cells are parted by blanks, `-` stands for none."""

    def __init__(self, kind: str, header: str, section: str) -> None:
        self.kind = kind
        self._section = section
        self._typed = "SrcMemType" in header
        self._event = "Event Name" in header
        self._device = self._kernel = ""

    def row(self, line: str) -> Iterator[Item]:
        made = {"summary": self._total, "trace": self._work, "calls": self._call, "metrics": self._value}[self.kind]
        item = made(line)
        if item is not None:
            yield item

    def _total(self, line: str) -> Item:
        typed = _TYPE.match(line[:60])
        if typed:
            self._section = kind_of(typed[1])
            line = line[typed.end() :]
        words = line.split()
        if len(words) < 7 or not words[0].endswith("%"):
            return Damage("it is no row of a summary (output of the program?)")
        _, time, calls, mean, least, greatest = words[:6]
        name = " ".join(words[6:])
        return Total(self._section, name, calls, (time, ""), (mean, ""), (least, ""), (greatest, ""))

    def _call(self, line: str) -> Item:
        words = line.split(None, 2)
        if len(words) < 3:
            return Damage("it is no row of a trace (output of the program?)")
        name, correlation = called(words[2].strip())
        return Call(name, (words[0], ""), (words[1], ""), correlation)

    def _work(self, line: str) -> Item:
        words = line.split()
        try:
            start, duration, *rest = words
            grid, rest = _extents(rest)
            block, rest = _extents(rest)
            registers, static, dynamic, size, rate, *rest = rest
            at = _device_end(rest, 2 if self._typed else 0)
        except ValueError:
            return Damage("it is no row of a trace (output of the program?)")
        device, stream = " ".join(rest[2 if self._typed else 0 : at]), rest[at + 1]
        name, correlation = numbered(" ".join(rest[at + 2 :]))
        return Work(
            name,
            (start, ""),
            (duration, ""),
            grid,
            block,
            registers,
            (static, ""),
            (dynamic, ""),
            (size, ""),
            (rate, ""),
            device,
            stream,
            correlation,
        )

    def _value(self, line: str) -> Item | None:
        text = line.strip()
        if text.startswith("Device "):
            self._device = text.removeprefix("Device ").strip('"')
            return None
        if text.startswith("Kernel: "):
            self._kernel = text.removeprefix("Kernel: ")
            return None
        words = _with_levels(text.split())
        if len(words) < 5 or not words[0].isdigit() or not self._kernel:
            return Damage("it is no row of metrics (output of the program?)")
        least, greatest, mean = words[-4:-1] if self._event else words[-3:]
        return Value(self._device, self._kernel, words[0], words[1], least, greatest, mean)


def _extents(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Extents `(64 1 1)` or `-` at the beginning of words, and the words behind; ValueError where there are none."""
    if words[:1] == ["-"]:
        return (), words[1:]
    if not words or not words[0].startswith("("):
        raise ValueError("no extents")
    end = next((i for i, word in enumerate(words[:3]) if word.endswith(")")), None)
    if end is None:
        raise ValueError("no end of extents")
    return tuple(word.strip("()") for word in words[: end + 1]), words[end + 1 :]


def _device_end(words: Sequence[str], start: int) -> int:
    """Where the context stands: two numbers behind the device's name (of several words), and a kernel's name behind."""
    for at in range(start, min(len(words) - 2, start + 16)):
        if all(word == "-" or word.isdigit() for word in words[at : at + 2]) and not words[at + 2].isdigit():
            return at
    raise ValueError("no context and stream")


def _with_levels(words: Sequence[str]) -> list[str]:
    """Words, with `Low (1)` as one."""
    joined: list[str] = []
    for word in words:
        level = word.startswith("(") and word.endswith(")") and word[1:-1].isdigit()
        if level and joined and joined[-1] in ("Idle", "Low", "Mid", "High", "Max"):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined
