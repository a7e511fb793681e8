"""What nvprof's output consists of, in cells as they stand; see `nvprof_scan`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERED = re.compile(r"(.*?) ?\[(\d{1,18})\]", re.ASCII)

Cell = tuple[str, str]
"""Text, and the unit that a row of units gives its column ("" where there is none)."""

NONE: Cell = ("", "")


@dataclass(frozen=True)
class Header:
    """A table begins."""

    kind: str


@dataclass(frozen=True)
class Message:
    """A line of nvprof to its user, without the equal signs."""

    text: str


@dataclass(frozen=True)
class Damage:
    """A line that is no row of the table it stands in, or was mended."""

    why: str
    repaired: bool = False


@dataclass(frozen=True)
class Total:
    """A row of a summary; ``kind`` as in table totals."""

    kind: str
    name: str
    calls: str
    time: Cell
    mean: Cell
    least: Cell
    greatest: Cell


@dataclass(frozen=True)
class Value:
    """A metric or event of all invocations of a kernel."""

    device: str
    kernel: str
    calls: str
    metric: str
    least: str
    greatest: str
    mean: str


@dataclass(frozen=True)
class Work:
    """A row of the GPU trace."""

    name: str
    start: Cell
    duration: Cell
    grid: tuple[str, ...]
    block: tuple[str, ...]
    registers: str
    static: Cell
    dynamic: Cell
    size: Cell
    rate: Cell
    device: str
    stream: str
    correlation: str


@dataclass(frozen=True)
class Call:
    """A row of the API trace."""

    name: str
    start: Cell
    duration: Cell
    correlation: str


Item = Header | Message | Damage | Total | Value | Work | Call


def kind_of(text: str) -> str:
    """Kind of a summary's rows by nvprof's word for them."""
    if text.startswith("API"):
        return "runtime"
    return "kernel" if text.startswith(("GPU", "Profiling result")) else "range"


def numbered(name: str) -> tuple[str, str]:
    """A kernel's name without the number of its launch behind it, and that number ("" where there is none)."""
    found = _NUMBERED.fullmatch(name) if name.endswith("]") and name[-20:].rfind("[") >= 0 else None
    return (found[1], found[2]) if found and found[1] else (name, "")


def called(name: str) -> tuple[str, str]:
    """A call's name without the kernel that it launched, and that launch's number: `cudaLaunch (k(int) [94])`."""
    call, inside, kernel = name.partition(" (")
    number = numbered(kernel.removesuffix(")"))[1] if inside and kernel.endswith("])") else ""
    return (call, number) if number else numbered(name)
