"""AMD's rocprofv3 (ROCprofiler-SDK): its CSV files, one a domain, and its JSON.

=================================== ==================================================================================
kernel_trace, memory_copy_trace     executions (`amd_dispatches`); a copy is its destination's, of host memory its
                                    source's; versions without Stream_Id number queues instead
hip, hsa, rccl, rocdecode, rocjpeg  calls of the runtime; a file of its own, so that no kernel is linked to them (JSON
traces (Domain, Function, ...)      has both). Domains MARKER_* are ranges
counter_collection                  rows of `counters`, and the executions (pass `counters`) where a version gives times
*_stats                             sums (`rocprof.read_sums`)
agent_info                          facts of the machine
=================================== ==================================================================================

Headers differ between versions in columns, order and case (`Vgpr_Count`, `Guid` in front); agents are numbers or
`Agent 4`. LDS_Block_Size is the static part, rounded up as it is allocated; JSON has static and dynamic together.
Traces of allocations, scratch memory and samples of the program counter hold no times of kernels and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.amd_dispatches import (
    TIMELINE,
    UNNAMED,
    Calls,
    Dispatch,
    Dispatches,
    checked_span,
    copy_name,
    gpu_facts,
    no_columns,
    nothing,
    read_dispatch,
    read_dispatches,
)
from wcbench.profilers.readers.amd_table import Table, device_label, header, kernel_name, number, whole
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.rocprof import SUMS, read_sums
from wcbench.profilers.readers.rocprofv3_json import MARK, read_json

_TIMES = frozenset(("start_timestamp", "end_timestamp"))
_KERNELS = _TIMES | {"kind", "kernel_name", "agent_id"}
_COPIES = _TIMES | {"kind", "direction", "correlation_id"}
_CALLS = _TIMES | {"domain", "function", "correlation_id"}
_VALUES = frozenset(("dispatch_id", "kernel_name", "counter_name", "counter_value"))
_AGENTS = frozenset(("node_id", "agent_type", "cu_count", "product_name"))
_REFUSED = {
    frozenset(("kind", "operation", "allocation_size")): "memory that was allocated",
    frozenset(("kind", "operation", "agent_id", "alloc_flags")): "scratch memory that was allocated",
    frozenset(("sample_timestamp", "exec_mask", "dispatch_id")): "samples of the program counter",
}


class Rocprofv3Reader(Reader):
    name = "rocprofv3"
    title = "AMD rocprofv3: CSV of kernels, copies, calls, markers, counters, sums; results.json (ROCm 6.2 to 7 seen)"

    def recognizes(self, head: Head) -> bool:
        if head.stripped.startswith(b"{"):
            return MARK in head.stripped[:4096]
        names = header(head)
        return names >= SUMS | {"minns"} or any(names >= columns for columns in (*_READ, *_REFUSED))

    def read(self, source: Source, sink: Sink) -> None:
        if source.head(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            read_json(source, sink)
            return
        table = Table(source, sink)
        names = table.at.keys()
        for columns, what in _REFUSED.items():
            if names >= columns:
                raise ReadError(
                    f"{sink.label} tells of {what}: no kernel, copy or call.",
                    "Import *kernel_trace.csv, *memory_copy_trace.csv or *counter_collection.csv of the same run.",
                )
        if names >= SUMS:
            read_sums(table, sink)
            return
        read = next((read for columns, read in _READ.items() if names >= columns), None)
        if read is None:
            raise no_columns(sink)
        read(table, sink)


def _read_kernels(table: Table, sink: Sink) -> None:
    read_dispatches(table, sink, {})


def _read_values(table: Table, sink: Sink) -> None:
    """Counters in long form: a row for each value, the rows of an execution together or apart."""
    taken = Dispatches(sink, counted=True)
    metric_at, value_at = table.at["counter_name"], table.at["counter_value"]
    rows: dict[tuple[str, str], int | None] = {}  # about 200 bytes an execution
    timed = table.has("start")
    if not timed:
        sink.note(
            "counters", "This version of rocprofv3 writes no times beside counters: values are of no row in kernels."
        )
    for offset, cells in table.rows():
        name = kernel_name(table.text(cells, "name")) or UNNAMED
        which = (table.text(cells, "process"), table.text(cells, "dispatch"))
        if timed and which not in rows:
            one = read_dispatch(table, cells, sink, offset)
            rows[which] = taken.add(one) if one is not None else None
        value = number(cells[value_at])
        if value is None:
            sink.lose("the value of a counter", "the cell holds no number", offset=offset)
        taken.value(rows.get(which), name, cells[metric_at], value)
    if not taken.finish(flat=timed):
        raise nothing(sink, "value of a counter")


def _read_copies(table: Table, sink: Sink) -> None:
    taken = Dispatches(sink, counted=False)
    at = table.at
    for offset, cells in table.rows():
        span = checked_span(table.whole(cells, "start"), table.whole(cells, "end"), sink, offset)
        if span is None:
            continue
        direction = cells[at["direction"]]
        ends = [cells[at[end]] if end in at else "" for end in ("source_agent_id", "destination_agent_id")]
        taken.add(
            Dispatch(
                copy_name(direction),
                device_label(ends[0] if direction.endswith("TO_HOST") else ends[1], "agent"),
                span[1],
                start=span[0],
                stream=table.count(cells, "stream"),
                process=table.count(cells, "process"),
                correlation=table.count(cells, "correlation"),
            )
        )
    if not taken.finish():
        raise nothing(sink, "copy")


def _read_calls(table: Table, sink: Sink) -> None:
    calls = Calls(sink)
    domain_at, name_at = table.at["domain"], table.at["function"]
    for offset, cells in table.rows():
        span = checked_span(table.whole(cells, "start"), table.whole(cells, "end"), sink, offset)
        if span is None:
            continue
        process, thread = table.count(cells, "process") or 0, table.count(cells, "thread") or 0
        mark = cells[domain_at].upper().startswith("MARKER")
        correlation = None if mark else table.count(cells, "correlation")
        if correlation is None and not mark:
            sink.lose("a call of the runtime", "it has no correlation id", offset=offset)
            continue
        calls.add(cells[name_at] or UNNAMED, process, thread, span, correlation)
    if not calls.taken:
        raise nothing(sink, "call")
    calls.flush()
    sink.describe(TIMELINE, PassFacts("gpu", seconds=calls.seconds()))


def _read_agents(table: Table, sink: Sink) -> None:
    """The GPUs among the agents as facts of the machine."""
    at = table.at
    gpus: list[dict[str, Any]] = []
    for _, cells in table.rows():
        if cells[at["agent_type"]].strip().upper() == "GPU":
            gpus.append(
                gpu_facts(
                    whole(cells[at["node_id"]]), _named(table, cells, "product_name"), _named(table, cells, "name"),
                    whole(cells[at["cu_count"]]),
                )
            )  # fmt: skip
    if not gpus:
        raise nothing(sink, "GPU")
    sink.facts["gpus"] = gpus
    sink.note("machine", f"{sink.label} tells of the machine only, of no kernels.")


def _named(table: Table, cells: Sequence[str], column: str) -> str | None:
    return cells[table.at[column]].strip() or None if column in table.at else None


_READ: dict[frozenset[str], Callable[[Table, Sink], None]] = {
    _VALUES: _read_values,
    _KERNELS: _read_kernels,
    _COPIES: _read_copies,
    _CALLS: _read_calls,
    _AGENTS: _read_agents,
}
