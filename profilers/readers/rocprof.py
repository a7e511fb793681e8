"""AMD's rocprof, versions 1 and 2: results.csv (dispatches, with counters as further columns) and sums by name.

Version 1 titles its columns Index, KernelName, gpu-id, ..., BeginNs, EndNs, DurationNs, version 2 Dispatch_ID, GPU_ID,
Queue_ID, ..., Kernel_Name, Start_Timestamp, End_Timestamp. The sums (`*stats.csv`: Name, Calls, TotalDurationNs,
AverageNs, Percentage) are of kernels, copies or host calls, which only the names tell. Version 1's results.json is a
Chrome trace and not read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_dispatches import TIMELINE, nothing, read_dispatches
from wcbench.profilers.readers.amd_table import Table, header, kernel_name, number, whole
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source

SUMS = frozenset(("name", "calls", "totaldurationns", "averagens"))
MAX_SUMS = 1 << 18
"""Names of one file of sums."""

_SECOND = frozenset(("dispatch_id", "gpu_id", "queue_id", "kernel_name", "start_timestamp"))
_SPREAD = {"minimum_ns": "minns", "maximum_ns": "maxns", "deviation_ns": "stddev"}
_CALL = re.compile(r"(?:__)?(?:hip|hsa_|roctx|nccl(?!Kernel|DevKernel)|rocdec|rocJpeg|ompt_)[A-Za-z0-9_]*", re.ASCII)
_DOMAIN = re.compile(r"[A-Z_]+_API(?:_EXT)?|KERNEL_DISPATCH|MEMORY_(?:COPY|ALLOCATION)|SCRATCH_MEMORY", re.ASCII)
_GUESSED = "Only names tell what the sums are of: rows not named like calls of a runtime are taken as kernels."


class RocprofReader(Reader):
    name = "rocprof"
    title = "AMD rocprof 1 and 2: results.csv with or without counters, *stats.csv (ROCm 6, MI300 seen)"

    def recognizes(self, head: Head) -> bool:
        names = header(head)
        first = "kernelname" in names and not names.isdisjoint(("grd", "beginns", "durationns"))
        return first or is_second(head, names) or (names >= SUMS and "minns" not in names)

    def read(self, source: Source, sink: Sink) -> None:
        table = Table(source, sink)
        if table.at.keys() >= SUMS:
            read_sums(table, sink)
            return
        counters = table.counters()
        if table.has("name") and not counters and not any(map(table.has, ("start", "end", "duration"))):
            raise ReadError(
                f"{sink.label} has neither times nor counters of its kernels.",
                "Profile with `rocprof --stats` or `rocprof --timestamp on`.",
            )
        read_dispatches(table, sink, counters)


def is_second(head: Head, names: frozenset[str]) -> bool:
    """Whether a file is version 2's own: files of rocprof-compute spell the queue `queue-id` or leave it out."""
    return names >= _SECOND and "queue-id" not in head.text.lstrip().partition("\n")[0]


def read_sums(table: Table, sink: Sink) -> None:
    """Sums by name; raises ReadError where there are none, or only those of whole domains."""
    columns: dict[str, list[Any]] = {"name": [], "calls": [], "total_ns": [], "mean_ns": []}
    columns |= {name: [] for name in _SPREAD}
    for offset, cells in table.rows():
        name, calls = kernel_name(cells[table.at["name"]]), whole(cells[table.at["calls"]])
        total, mean = (number(cells[table.at[title]]) for title in ("totaldurationns", "averagens"))
        if not name or calls is None or calls < 1 or total is None or total < 0:
            sink.lose("a row", "its calls or total time are no such numbers", offset=offset)
            continue
        if mean is None or abs(mean - total / calls) > 1.0 + 1e-6 * total / calls:  # version 1 cuts it to whole ns
            sink.lose("the mean of a row", "it is not total over calls, which was taken", offset=offset, repaired=True)
        if len(columns["name"]) >= MAX_SUMS:
            raise ReadError(f"{sink.label} has sums of more than {MAX_SUMS} names.", "Import the trace itself.")
        rest = _consistent(total / calls, total, [_spread(table, cells, title) for title in _SPREAD.values()], sink)
        for values, value in zip(columns.values(), (name, calls, total, total / calls, *rest), strict=True):
            values.append(value)
    kind = _kind(columns["name"], sink)
    sink.add("totals", TIMELINE, {**columns, "kind": [kind] * len(columns["name"])})
    sink.describe(TIMELINE, PassFacts("gpu"))


def _spread(table: Table, cells: Sequence[str], title: str) -> float | None:
    value = number(cells[table.at[title]]) if title in table.at else None
    return value if value is not None and value >= 0 else None


def _consistent(mean: float, total: float, spread: list[float | None], sink: Sink) -> list[float | None]:
    """Least, greatest and deviation; None for what contradicts the mean and the total."""
    least, greatest, deviation = spread
    kept = [least if least is None or least <= mean + 1 else None]
    kept.append(greatest if greatest is None or mean - 1 <= greatest <= total + 1 else None)
    kept.append(deviation if deviation is None or deviation <= total + 1 else None)
    lost = sum(value is not None for value in spread) - sum(value is not None for value in kept)
    if lost:
        sink.lose("a time of a row", "it contradicts its mean or its total, and is left empty", count=lost)
    return kept


def _kind(names: Sequence[str], sink: Sink) -> str:
    """What the sums are of (schema: kernel, runtime or range); a file is of one domain."""
    if not names:
        raise nothing(sink, "sum of a kernel or call")
    if all(map(_DOMAIN.fullmatch, names)):
        raise ReadError(
            f"{sink.label} adds up whole domains ({names[0]}, ...), not kernels or calls.",
            "Import the file *kernel_stats.csv or *api_stats.csv of the same run.",
        )
    if all(map(_CALL.fullmatch, names)):
        return "runtime"
    if "marker" in sink.label.rpartition("/")[2].lower():  # the rows themselves do not differ from those of kernels
        return "range"
    sink.note(TIMELINE, _GUESSED)
    return "kernel"
