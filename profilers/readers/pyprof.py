"""NVIDIA PyProf (and apex.pyprof): the CSV of `pyprof.prof --csv`, and the dictionaries of `pyprof.parse` (net.dict).

Both have a line for each kernel, in the order of their starts, which themselves are in neither: durations only.

- ``op`` is PyProf's module and operator together (`torch.nn.functional.linear`, `Tensor.__mul__`); ``module`` is the
  model's own module where the user's markers name it (Layer). PyProf's `Module` is a Python module, not the model's.
- PyProf calls `fprop` whatever autograd does not mark as backward: gradients added up, clipping, the optimizer. After a
  backward kernel, `fprop` of no function of a module is therefore phase `other`, up to the next forward call.
- FLOPs and Bytes are formulas of PyProf on the operator's arguments, not counters: metrics `pyprof.flops` (2 a
  multiply-accumulate) and `pyprof.bytes`. It writes 0 where it has no formula. They are null where TC or Params say
  that nothing was computed, and where Bytes is 0, since no kernel moves nothing; FLOPs 0 is kept for operators that
  only move data, and null for others (softmax: PyProf leaves its FLOPs at 0). An operator of several kernels has all
  its work in the first of them.
- net.dict has no FLOPs or Bytes: `prof` computes them.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_table import cells_of, number, whole
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.pyprof_rows import Kernel, Kernels

_COLUMNS = frozenset((
    "Idx", "SeqId", "AltSeqId", "callid", "input_callids", "unique_name", "TId", "Layer", "Trace", "Direction", "Sub",
    "Module", "Op", "Kernel", "KernelLName", "Params", "Sil(ns)", "TC", "Device", "Stream", "Grid", "Block", "FLOPs",
    "Bytes",
))  # fmt: skip
_OWN = frozenset(("Phase", "Operator"))
_DICT = ("'kShortName'", "'kDuration'")
_LEAD = 50
"""Lines in front of the header that are looked at: messages of the program, where a shell put both in one file."""
MAX_LITERAL = 1 << 18
"""Characters of one line of net.dict."""


class PyProf(Reader):
    name = "pyprof"
    title = "NVIDIA PyProf and apex.pyprof: CSV of `prof --csv`, dictionaries of `parse` (apex 2019-20, PyProf 3 seen)"

    def recognizes(self, head: Head) -> bool:
        return any(_is_header(line) or _is_dict(line) for line in head.lines[:_LEAD])

    def read(self, source: Source, sink: Sink) -> None:
        lines = source.lines(sink.lose)
        for offset, line in lines:
            if _is_dict(line) or _is_header(line):
                kernels = Kernels(sink, computed=not _is_dict(line))
                if _is_dict(line):
                    _read_dicts(itertools.chain([(offset, line)], lines), kernels)
                else:
                    _read_rows(line, lines, kernels)
                kernels.finish()
                return
            sink.lose("a line", "it stands in front of the kernels and is none of PyProf's", offset=offset)
        raise ReadError(f"{sink.label} has no header of PyProf's.", "Print it with `python -m pyprof.prof --csv`.")


def _is_header(line: str) -> bool:
    if len(line) > 4096 or "Kernel" not in line:
        return False
    titles = set(cells_of(line) or ())
    return len(titles & _COLUMNS) >= 3 and titles <= _COLUMNS | _OWN


def _is_dict(line: str) -> bool:
    return line.startswith("{") and all(word in line for word in _DICT)


# --- the CSV -------------------------------------------------------------------------------------------------------


def _read_rows(header: str, lines: Iterator[tuple[int, str]], kernels: Kernels) -> None:
    titles = cells_of(header) or []
    label = kernels.sink.label
    if set(titles) >= _OWN:
        raise ReadError(
            f"{label} is wcbench's own export in PyProf's columns: its rows are operator calls, not kernels.",
            "Use the record that it was exported from.",
        )
    if "Sil(ns)" not in titles:
        raise ReadError(f"{label} has no column Sil(ns), the kernels' durations.", "Print it with `-c ...,sil,...`.")
    for offset, line in lines:
        cells = cells_of(line)
        if not line.strip() or cells == titles:
            continue
        if cells is None or len(cells) != len(titles):
            kernels.sink.lose("a row", "it is damaged, or no row of PyProf's", offset=offset)
            continue
        kernel = _of_row(dict(zip(titles, cells, strict=True)), kernels.sink, offset)
        if kernel is not None:
            kernels.add(kernel)


def _of_row(row: Mapping[str, str], sink: Sink, offset: int) -> Kernel | None:
    duration = _count(row.get("Sil(ns)", ""))
    name = row.get("KernelLName") or row.get("Kernel") or ""
    if duration is None or not name:
        sink.lose("a kernel", "it has no duration or no name", offset=offset)
        return None
    computed = row.get("TC") != "na" and row.get("Params") != "na=na,"
    return Kernel(
        name,
        duration,
        direction=row.get("Direction", ""),
        module=row.get("Module", ""),
        op=row.get("Op", ""),
        layer=row.get("Layer", ""),
        trace=row.get("Trace", ""),
        device=row.get("Device", ""),
        stream=_count(row.get("Stream", "")),
        grid=_extents(row.get("Grid", "").split(",")),
        block=_extents(row.get("Block", "").split(",")),
        flops=_work(row.get("FLOPs", "")) if computed else None,
        nbytes=_work(row.get("Bytes", "")) if computed else None,
    )


def _count(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value >= 0 else None


def _work(text: str) -> float | None:
    value = number(text)
    return value if value is not None and value >= 0 else None


def _extents(parts: Sequence[Any]) -> list[int] | None:
    values = [whole(str(part)) for part in parts]
    found = [value for value in values if value is not None and value > 0]
    return found if len(found) == 3 == len(parts) else None


# --- net.dict ------------------------------------------------------------------------------------------------------


def _read_dicts(lines: Iterator[tuple[int, str]], kernels: Kernels) -> None:
    for offset, line in lines:
        if not line.strip():
            continue
        data = literal(line)
        kernel = _of_dict(data) if data is not None else None
        if kernel is None:
            kernels.sink.lose("a line", "it is no dictionary of a kernel with name and duration", offset=offset)
        else:
            kernels.add(kernel)


def literal(line: str) -> dict[str, Any] | None:
    """The dictionary that a line spells; nothing in it is evaluated. None for anything else and for lines too long."""
    if len(line) > MAX_LITERAL or not line.startswith("{"):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes in texts that are none
            found = ast.literal_eval(line)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _of_dict(data: Mapping[str, Any]) -> Kernel | None:
    name = data.get("kLongName") or data.get("kShortName")
    duration = _int(data.get("kDuration"))
    if not isinstance(name, str) or not name or duration is None:
        return None
    return Kernel(
        name,
        duration,
        direction=_first(data.get("dir")),
        module=_first(data.get("mod")),
        op=_first(data.get("op")),
        layer=":".join(map(str, _list(data.get("layer")))),
        trace=",".join(map(str, _list(data.get("trace")))),
        device=str(data.get("device", ""))[:20],
        stream=_int(data.get("stream")),
        grid=_extents(_list(data.get("grid"))),
        block=_extents(_list(data.get("block"))),
    )


def _int(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _first(value: Any) -> str:
    """`mod` and `op` are lists, of which PyProf takes the first."""
    found = next(iter(value), "") if isinstance(value, list | tuple) else value
    return found if isinstance(found, str) and re.search(r"\S", found) else ""
