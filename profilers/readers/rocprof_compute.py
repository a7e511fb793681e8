"""AMD's rocprof-compute (Omniperf): the CSV files of a workload folder.

====================== ===============================================================================================
pmc_perf.csv           read: rows of `counters` for each execution, and the executions in pass `counters`. Every kernel
                       was run several times for it; the file has means of begin and end over these runs, so durations
                       are kept (to a nanosecond) and starts are not
timestamps.csv         read: the executions of one run, with starts, in pass `timeline`
sysinfo.csv            read: model, architecture, compute units and clocks as facts of the machine
roofline.csv           refused: peaks that a benchmark measured, no kernels
pmc_dispatch_info.csv  refused: names of executions, neither times nor counters
====================== ===============================================================================================

A counter that several of the runs collected stands in a column for each (`X`, `X_1`, ...): the first is taken. Of
`SQ_ACCUM_PREV_HIRES`, which adds up another counter in each run, none is taken where it stands more than once, since
the file does not say which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_dispatches import COUNTERS, nothing, read_dispatches
from wcbench.profilers.readers.amd_table import DESCRIPTION, Table, header, key, number
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.rocprof import is_second

_DISPATCHES = frozenset(("dispatch_id", "kernel_name", "gpu_id"))
_SYSTEM = frozenset(("workload_name", "command", "rocm_version"))
_ROOFLINE = frozenset(("device", "hbmbw", "l2bw", "ldsbw"))
_AGAIN = re.compile(r"(.+)_[0-9]{1,4}")
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"
_WHICH = "Import pmc_perf.csv (counters) or timestamps.csv (times) of the same workload folder."
_MEANS = (
    "Times are means over the runs that collected the counters: durations only. timestamps.csv has one run's starts."
)
_QUANTITIES: Mapping[str, tuple[str, float]] = {
    "max_sm_clock_hz": ("max_sclk", 1e6),
    "max_memory_clock_hz": ("max_mclk", 1e6),
    "compute_units": ("cu_per_gpu", 1),
}


class RocprofComputeReader(Reader):
    name = "rocprof-compute"
    title = "AMD rocprof-compute (Omniperf): pmc_perf.csv, timestamps.csv, sysinfo.csv of a workload (MI200, v2 seen)"

    def recognizes(self, head: Head) -> bool:
        names = header(head)
        if is_second(head, names):
            return False
        return any(names >= columns for columns in (_DISPATCHES, _SYSTEM, _ROOFLINE))

    def read(self, source: Source, sink: Sink) -> None:
        table = Table(source, sink)
        names = table.at.keys()
        if names >= _SYSTEM:
            _read_system(table, sink)
        elif names >= _ROOFLINE:
            raise ReadError(f"{sink.label} holds peaks that a benchmark measured, no kernels.", _WHICH)
        else:
            _read_dispatches(table, sink)


def _read_dispatches(table: Table, sink: Sink) -> None:
    counters = _first_of(table.counters(), sink)
    if table.has("name") and not counters and not table.has("start"):
        raise ReadError(f"{sink.label} lists executions of kernels without times or counters.", _WHICH)
    one_run = table.has("stream") or not counters
    read_dispatches(table, sink, counters, one_run=one_run)
    if not one_run:
        sink.note(COUNTERS, _MEANS)


def _first_of(columns: Mapping[str, int], sink: Sink) -> dict[str, int]:
    """The counters, each once; what repeats a column of the description is none."""
    kept: dict[str, int] = {}
    again: dict[str, int] = {}
    for title, place in columns.items():
        found = _AGAIN.fullmatch(title)
        base = found[1] if found else title
        if base != title and (base in columns or key(base) in DESCRIPTION):
            again[base] = again.get(base, 0) + (base in columns)
        else:
            kept[title] = place
    repeated = sum(again.values())
    if repeated:
        sink.lose("a column", "the counter was collected in several runs: the first is taken", count=repeated)
    if again.get(_ACCUMULATED) and kept.pop(_ACCUMULATED, None) is not None:
        sink.lose("a column", f"{_ACCUMULATED} adds up another counter in each run, the file does not say which")
    return kept


def _read_system(table: Table, sink: Sink) -> None:
    """Facts of the GPU; names of the host and of people are left out."""
    _, cells = next(table.rows(), (0, None))
    if cells is None:
        raise nothing(sink, "description of a machine")

    def text(title: str) -> str | None:
        value = cells[table.at[title]].strip() if title in table.at else ""
        return value if value and value.upper() != "NA" else None

    gpu: dict[str, Any] = {"name": text("gpu_model") or text("gpu_arch"), "architecture": text("gpu_arch")}
    for fact, (title, factor) in _QUANTITIES.items():
        value = number(text(title) or "")
        gpu[fact] = round(value * factor) if value is not None and 0 < value < 1e9 else None
    sink.facts["gpus"] = [gpu]
    sink.note("machine", f"{sink.label} tells of the machine only. {_WHICH}")
