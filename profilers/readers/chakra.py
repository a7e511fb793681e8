"""Chakra's graphs of work (MLCommons): protobuf files (``.et``) and the JSON form with a ``workload_graph``.

What a converter made of a PyTorch trace is read: kernels with the device's time (table `kernels`), and, of protobuf
files, operator calls with their shapes (tables `operators`, `storages`, as of the execution trace itself). Times of
host nodes are exclusive and have no start, so they are left out and counted. A graph that was written for a simulator,
whose nodes do not say where they ran, holds no measurement and is refused. Edges between nodes are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.chakra_proto import Entry, entries, is_chakra
from wcbench.profilers.readers.et_nodes import Node
from wcbench.profilers.readers.execution_trace import MAX_NODES, read_calls
from wcbench.profilers.readers.json_array import JsonArray
from wcbench.profilers.readers.timeline import ABSENT

_GRAPH = re.compile(r'"workload_graph"\s*:\s*\[\s*(?:\{\s*"(?:Id|Name|NodeType)"|\])')
_TIMELINE = "timeline"
_BATCH = 1 << 14
_LONGEST_US = 1 << 50
_DEVICE = "gpu"

_SEND, _RECEIVE, _COLLECTIVE = 5, 6, 7
_COLLECTIVES = (
    *("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast"),
    *("all_to_all", "reduce_scatter", "reduce_scatter", "barrier"),
)


class Chakra(Reader):
    """Reads protobuf and JSON graphs that were made of PyTorch traces."""

    name = "chakra"
    title = "Chakra execution trace (protobuf .et of 0.0.4, or JSON with workload_graph) converted from PyTorch"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        if head.stripped.startswith(b"{"):
            return bool(_GRAPH.search(head.text[: 1 << 16]))
        return is_chakra(head.data)

    def read(self, source: Source, sink: Sink) -> None:
        as_json = source.head(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
        found = _from_json(source, sink) if as_json else entries(source, sink)
        reading = _Graph(sink)
        for entry in found:
            reading.add(entry)
        reading.finish(source.label)


def _from_json(source: Source, sink: Sink) -> Iterator[Entry]:
    for offset, item in JsonArray(source, sink, "workload_graph"):
        name, runtime, host = item.get("Name"), item.get("runtime"), item.get("is_cpu_op")
        if not isinstance(name, str):
            sink.lose("a node", "it has no name", offset=offset)
            continue
        yield Entry(
            id=item["Id"] if type(item.get("Id")) is int else ABSENT,
            name=name,
            kind=item["NodeType"] if type(item.get("NodeType")) is int else 0,
            start_us=None,
            duration_us=runtime if type(runtime) is int else None,
            host=None if host is None else bool(host),
            stream=ABSENT,
            collective=item["comm_type"] if type(item.get("comm_type")) is int else None,
            call=None,
        )


@dataclass
class _Counts:
    nodes: int = 0
    placed: int = 0  # nodes that say where they ran
    kernels: int = 0
    host: int = 0
    timeless: int = 0


class _Graph:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._count = _Counts()
        self._calls: list[Node] = []
        self._kernels: list[Entry] = []
        self._ids: set[int] = set()

    def add(self, entry: Entry) -> None:
        self._count.nodes += 1
        if entry.host is None:
            return
        self._count.placed += 1
        if entry.call is not None and entry.id not in self._ids:
            if len(self._calls) >= MAX_NODES:
                raise ReadError(
                    f"{self._sink.label} is too large: its calls are held in memory.", "Record fewer steps."
                )
            self._ids.add(entry.id)
            self._calls.append(entry.call)
        if entry.host:
            self._count.host += bool(entry.duration_us)
        elif entry.duration_us is None or not 0 <= entry.duration_us < _LONGEST_US:
            self._count.timeless += 1
        else:
            self._kernels.append(entry)
            if len(self._kernels) >= _BATCH:
                self._flush()

    def finish(self, label: str) -> None:
        self._flush()
        calls = [node for node in self._calls if node.schema]
        if not self._count.placed:
            raise ReadError(
                f"{label}: none of its {self._count.nodes} nodes says whether it ran on the host or on a device. It is "
                "a description of work for a simulator and holds no measurement.",
                "Import the PyTorch execution trace or the Kineto trace that it was made of.",
            )
        if not self._count.kernels and not calls:
            raise ReadError(
                f"{label}: none of its {self._count.nodes} nodes is a kernel with a time or a call with its shapes.",
                "Import the PyTorch execution trace or the Kineto trace that it was made of.",
            )
        if calls:
            read_calls(self._calls, self._sink, 0.0)
        self._remark()

    def _remark(self) -> None:
        count, sink = self._count, self._sink
        if count.host:
            sink.lose("the time of a host node", "it is exclusive and has no start", count=count.host)
        if count.timeless:
            sink.lose("a kernel", "it has no duration", count=count.timeless)
        if count.kernels:
            sink.note(_TIMELINE, "Chakra counts whole microseconds: shorter kernels have a duration of 0.")
            sink.note(_TIMELINE, "A Chakra graph does not name its device nor mark its steps.")
            sink.describe(_TIMELINE, PassFacts(device=_DEVICE))

    def _flush(self) -> None:
        found, self._kernels = self._kernels, []
        if not found:
            return
        self._count.kernels += len(found)
        timeline = self._sink.timeline()
        device = timeline.name(_DEVICE)
        collectives = [_collective(entry) for entry in found]
        timeline.device(
            name=[timeline.name(entry.name) for entry in found],
            process=[0] * len(found),
            device=[device] * len(found),
            stream=[entry.stream for entry in found],
            start=[entry.start_us * 1000 if entry.start_us else ABSENT for entry in found],
            duration=[(entry.duration_us or 0) * 1000 for entry in found],
            collective=[ABSENT if text is None else timeline.name(text) for text in collectives],
        )


def _collective(entry: Entry) -> str | None:
    """What a communication node does, where the graph says it."""
    if entry.kind in (_SEND, _RECEIVE):
        return "send" if entry.kind == _SEND else "receive"
    known: Mapping[int, str] = dict(enumerate(_COLLECTIVES))
    return known.get(entry.collective) if entry.kind == _COLLECTIVE and entry.collective is not None else None
