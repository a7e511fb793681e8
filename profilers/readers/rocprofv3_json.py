"""rocprofv3's results.json: all domains of a run in one file, names kept apart from the records that use them.

The file is read whole, within a limit: names of kernels and calls stand in front of the records, but what a version
writes in between differs. Only the fields used here are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

import msgspec

from wcbench.profilers.readers.amd_dispatches import (
    TIMELINE,
    UNNAMED,
    Calls,
    Dispatch,
    Dispatches,
    blocks,
    checked_span,
    copy_name,
    gpu_facts,
    nothing,
    together,
)
from wcbench.profilers.readers.amd_table import MOST, kernel_name
from wcbench.profilers.readers.base import PassFacts, Sink, Source
from wcbench.profilers.readers.rocprofv3_records import (
    FAULTS,
    Agent,
    Called,
    Copied,
    Counted,
    Counter,
    Executed,
    Handle,
    Info,
    Kind,
    Message,
    Process,
    Symbol,
    Tool,
    read_tools,
    records_of,
)

MARK = b'"rocprofiler-sdk-tool"'
_GPU = 2

R = TypeVar("R")


def read_json(source: Source, sink: Sink) -> None:
    """Put the executions, calls, ranges and counters of a file into the sink.

    Raises ReadError where the file is too large, damaged in other ways than cut, or has none of them.
    """
    runs = [_Run(tool, sink) for tool in read_tools(source, sink)]
    counted = any(run.counted for run in runs)
    kernels, calls = Dispatches(sink, counted=counted), Calls(sink)
    copies = Dispatches(sink, counted=False) if counted else kernels
    for run in runs:
        run.executions(kernels)
        run.copies(copies)
        run.calls(calls)
    calls.flush()
    found = [taken.finish() for taken in dict.fromkeys((kernels, copies))]
    if calls.taken:
        facts = sink.passes.get(TIMELINE) or PassFacts(kernels.device or "gpu")
        facts.seconds = max(facts.seconds, calls.seconds())
        sink.describe(TIMELINE, facts)
    gpus = [fact for run in runs for fact in run.gpus()]
    if gpus:
        sink.facts["gpus"] = gpus
    if not any(found) and not calls.taken:
        raise nothing(sink, "execution or call")


class _Run:
    """One process of a file."""

    def __init__(self, tool: Tool, sink: Sink) -> None:
        self._tool, self._sink = tool, sink
        try:
            self._process = msgspec.json.decode(tool.metadata, type=Process).pid
        except FAULTS:
            self._process = 0

    def _list(self, raw: msgspec.Raw | None, kind: type[R], what: str) -> Sequence[R]:
        return records_of(raw, kind, what, self._sink)

    @cached_property
    def counted(self) -> Sequence[Counted]:
        return self._list(self._tool.callback_records.get("counter_collection"), Counted, "values of counters")

    @cached_property
    def _agents(self) -> dict[int, Agent]:
        return {agent.id.handle: agent for agent in self._list(self._tool.agents, Agent, "agents")}

    @cached_property
    def _symbols(self) -> dict[int, Symbol]:
        symbols = self._list(self._tool.kernel_symbols, Symbol, "names of kernels")
        return {symbol.kernel_id: symbol for symbol in symbols}

    @cached_property
    def _kinds(self) -> Sequence[Kind]:
        return self._list(self._tool.strings.get("buffer_records"), Kind, "names of calls")

    @cached_property
    def _messages(self) -> dict[int, str]:
        found = self._list(self._tool.strings.get("marker_api"), Message, "texts of ranges")
        return {message.key: message.value for message in found}

    def gpus(self) -> list[dict[str, object]]:
        """The GPUs as facts of the machine."""
        found = [agent for agent in self._agents.values() if agent.type == _GPU]
        return [gpu_facts(a.node_id, a.product_name or None, a.name or None, a.cu_count) for a in found]

    def _device(self, agent: Handle) -> str:
        known = self._agents.get(agent.handle)
        return f"agent:{known.node_id}" if known is not None and known.node_id >= 0 else "agent"

    def executions(self, taken: Dispatches) -> None:
        """Kernels, and the values of their counters."""
        rows: dict[int, int] = {}
        records = self._tool.buffer_records
        raw = records.get("kernel_dispatch", records.get("kernel_dispatches"))
        for one in self._list(raw, Executed, "executions of kernels"):
            self._execute(one, taken, rows)
        names = {c.id.handle: c.name for c in self._list(self._tool.counters, Counter, "names of counters")}
        for counted in self.counted:
            self._count(counted, names, taken, rows)

    def _execute(self, one: Executed, taken: Dispatches, rows: dict[int, int]) -> None:
        span = checked_span(one.start_timestamp, one.end_timestamp, self._sink)
        if span is None:
            return
        info, size, items = one.dispatch_info, one.dispatch_info.workgroup_size, one.dispatch_info.grid_size
        grid, block = blocks([items.x, items.y, items.z], [size.x, size.y, size.z])
        made = Dispatch(
            self._name(info),
            self._device(info.agent_id),
            span[1],
            start=span[0],
            stream=_identity((one.stream_id or info.queue_id).handle),
            process=self._process,
            correlation=_identity(one.correlation_id.internal),
            grid=grid,
            block=block,
            registers=self._registers(info),
            shared_bytes=_identity(info.group_segment_size),
        )
        rows[info.dispatch_id] = taken.add(made)

    def _registers(self, info: Info) -> int | None:
        symbol = self._symbols.get(info.kernel_id)
        return together(_identity(symbol.arch_vgpr_count), _identity(symbol.accum_vgpr_count)) if symbol else None

    def _name(self, info: Info) -> str:
        symbol = self._symbols.get(info.kernel_id)
        name = kernel_name(symbol.formatted_kernel_name or symbol.kernel_name) if symbol else ""
        if not name:
            self._sink.lose("the name of a kernel", "the file has none for its number", repaired=True)
        return name or UNNAMED

    def _count(self, counted: Counted, names: dict[int, str], taken: Dispatches, rows: dict[int, int]) -> None:
        """Values of one execution; those of the parts of a device (XCCs, channels) are added up, as in AMD's CSV."""
        info, data = counted.dispatch_data.dispatch_info, counted.dispatch_data
        if info.dispatch_id not in rows and data.end_timestamp:
            self._execute(data, taken, rows)
        values: dict[int, float] = {}
        for measured in counted.records:
            values[measured.counter_id.handle] = values.get(measured.counter_id.handle, 0.0) + measured.value
        for handle, value in values.items():
            metric = names.get(handle) or f"counter {handle}"
            taken.value(rows.get(info.dispatch_id), self._name(info), metric, value)

    def copies(self, taken: Dispatches) -> None:
        for one in self._list(self._tool.buffer_records.get("memory_copy"), Copied, "copies"):
            span = checked_span(one.start_timestamp, one.end_timestamp, self._sink)
            if span is None:
                continue
            name = copy_name(self._operation(one.kind, one.operation))
            host = name.endswith("TO_HOST")
            made = Dispatch(name, self._device(one.src_agent_id if host else one.dst_agent_id), span[1], start=span[0])
            made.stream = _identity(one.stream_id.handle) if one.stream_id is not None else None
            made.process, made.correlation = self._process, _identity(one.correlation_id.internal)
            made.nbytes = _identity(one.bytes)
            taken.add(made)

    def _operation(self, kind: int, operation: int) -> str:
        known = self._kinds[kind].operations if 0 <= kind < len(self._kinds) else []
        if 0 <= operation < len(known):
            return known[operation]
        self._sink.lose("the name of a call", "the file has none for its number", repaired=True)
        return UNNAMED

    def calls(self, taken: Calls) -> None:
        for section, raw in self._tool.buffer_records.items():
            if not section.endswith("_api"):
                continue
            ranges = section.startswith("marker")
            for one in self._list(raw, Called, "calls"):
                span = checked_span(one.start_timestamp, one.end_timestamp, self._sink)
                number = _identity(one.correlation_id.internal)
                if span is None or number is None:
                    continue
                text = self._messages.get(number) if ranges else None
                name = text or self._operation(one.kind, one.operation)
                thread = _identity(one.thread_id) or 0
                taken.add(name, self._process, thread, span, None if ranges else number)


def _identity(value: int | None) -> int | None:
    """None for what the record cannot hold."""
    return value if value is not None and 0 <= value <= MOST else None
