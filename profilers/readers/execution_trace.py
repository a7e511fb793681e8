"""PyTorch execution traces (ExecutionTraceObserver; the input of Chakra and of PARAM's replay).

An execution trace has every call of an operator, calls within calls among them, with shapes, types, arguments and the
storages of its tensors, but no times. Below autograd a live capture sees the outermost call that is no composition of
others (`composites`); the same calls are taken here, so that each arithmetic counts once and figures compare.

The file is read entry by entry; what is kept of a call are its arguments' shapes, so that memory grows with the number
of calls and not with the text. A file of more than `MAX_BYTES` is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.formulas import Call, known, work
from wcbench.profilers.formulas.traffic import tensors
from wcbench.profilers.link import OTHER
from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.profilers.readers.composites import is_composite
from wcbench.profilers.readers.et_nodes import Node, Tree, node_of
from wcbench.profilers.readers.et_values import Values
from wcbench.profilers.readers.json_array import JsonArray
from wcbench.profilers.readers.operator_schema import Schema, schema_of
from wcbench.profilers.readers.operator_stream import PASS, Place, Stream

MAX_BYTES = 1 << 29
MAX_NODES = 4_000_000

_SCHEMA = re.compile(r'"schema"\s*:\s*"\d+\.\d+')
_NODES = re.compile(r'"nodes"\s*:\s*\[')
_STEP = re.compile(r"(?:ProfilerStep|wcbench\.step)#(\d{1,9})")
_OPTIMIZER = "Optimizer.step#"
_DEEPEST_VIEW = 16  # calls within a view, of which one is its as_strided
_IGNORED = ("prim", "profiler")
_BOOKKEEPING = frozenset(
    f"aten::{name}"
    for name in (
        *("_local_scalar_dense", "is_contiguous", "sym_is_contiguous", "size", "sym_size", "stride", "sym_stride"),
        *("storage_offset", "sym_storage_offset", "numel", "sym_numel", "dim", "is_strides_like_format"),
        "is_non_overlapping_and_dense",
    )
)


class ExecutionTrace(Reader):
    """Reads what torch.profiler.ExecutionTraceObserver writes."""

    name = "et"
    title = "PyTorch execution trace (JSON, schemas 1.0.1 to 1.1.1-chakra.0.0.4)"
    ranked = True

    def recognizes(self, head: Head) -> bool:
        start = head.text[: 1 << 16]
        return start.lstrip().startswith("{") and bool(_SCHEMA.search(start) and _NODES.search(start))

    def read(self, source: Source, sink: Sink) -> None:
        nodes, around = _nodes(source, sink)
        if not any(node.schema or node.compiled for node in nodes):
            raise ReadError(
                f"{source.label} holds {len(nodes)} entries and no operator call.",
                "Record it with ExecutionTraceObserver running while the model trains.",
            )
        read_calls(nodes, sink, _seconds(around))


def read_calls(nodes: Sequence[Node], sink: Sink, seconds: float) -> None:
    """Tables `operators` and `storages` of the calls of an execution trace, and what is to be said of them."""
    tree = Tree(nodes)
    if tree.orphans:
        sink.lose(
            "the parent of a call",
            "the file does not hold it: the call's phase may be wrong",
            count=tree.orphans,
            repaired=True,
        )
    found = _Reading(tree, sink)
    found.run()
    sink.describe(PASS, PassFacts(device=found.values.device, steps=max(1, found.steps), seconds=seconds))


def _nodes(source: Source, sink: Sink) -> tuple[list[Node], dict[str, Any]]:
    entries = JsonArray(source, sink, "nodes")
    nodes: list[Node] = []
    seen: set[int] = set()
    for offset, entry in entries:
        node = node_of(entry)
        if node is None:
            sink.lose("a call", "it has no id or no name", offset=offset)
        elif node.id in seen:
            sink.lose("a call", "its id was given to another one before", offset=offset)
        else:
            seen.add(node.id)
            nodes.append(node)
        if offset > MAX_BYTES or len(nodes) > MAX_NODES:
            raise ReadError(f"{source.label} is too large: it is held in memory.", "Record fewer steps.")
    if not nodes:
        raise ReadError(f"{source.label} holds no calls.", "Stop the observer after a step has run, then import.")
    return nodes, entries.around


def _seconds(around: dict[str, Any]) -> float:
    """What the file spans; its clock counts milliseconds."""
    start, end = around.get("start_ts"), around.get("finish_ts")
    if type(start) is int and type(end) is int and 0 <= end - start < 1 << 40:
        return (end - start) / 1e3
    return 0.0


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A call to be counted: its place in the tree and its schema."""

    index: int
    schema: Schema


class _Reading:
    def __init__(self, tree: Tree, sink: Sink) -> None:
        self._tree, self._sink = tree, sink
        self._stream = Stream(sink)
        self.values = Values(self._stream)
        self.steps = 0

    def run(self) -> None:
        phases = self._tree.phases()
        chosen = self._choose()
        steps = self._steps_of(chosen)
        gradients = iter([node for node in self._tree.nodes if node.accumulates])
        ahead = next(gradients, None)
        for call, step in zip(chosen, steps, strict=True):
            node = self._tree.nodes[call.index]
            while ahead is not None and ahead.id < node.id:
                self.values.mark_gradients(ahead)
                ahead = next(gradients, None)
            if step is None:
                self.values.pass_by(call.schema, node)
            else:
                self._count(call.index, call.schema, Place(step, phases[call.index]))
        outside = sum(step is None for step in steps)
        if outside:
            self._sink.lose("an operator call", "it runs outside of every marked step", count=outside)
        if not self._stream.calls:
            raise ReadError(
                f"{self._sink.label} holds no operator call within its steps.", "Record a whole training step."
            )
        self._stream.finish()
        self._remark(chosen, phases)

    def _count(self, index: int, schema: Schema, place: Place) -> None:
        node = self._tree.nodes[index]
        self.values.begin()
        given = self.values.inputs(schema, node)
        if node.outputs.strides is None:
            self.values.learn(
                node, self._tree.nodes[index + 1 : min(self._tree.last[index], index + _DEEPEST_VIEW) + 1]
            )
        made = self.values.outputs(schema, node)
        count = schema.positional
        call = Call(
            name=schema.name,
            overload=schema.overload,
            args=tuple(given[:count]),
            kwargs=dict(zip(schema.arguments[count:], given[count:], strict=False)),
            out=made[0] if len(made) == 1 else tuple(made),
            writes=schema.writes,
            writes_kwargs=schema.writes_kwargs,
        )
        self._stream.add(call, place, self.values.trouble)

    # --- which calls ------------------------------------------------------------------------------------------------

    def _choose(self) -> list[_Chosen]:
        """The outermost calls that are no compositions; and compositions that hold no call, if they compute.

        A call of another library that no formula counts is taken apart where it holds calls of torch's.
        """
        nodes = self._tree.nodes
        found: list[_Chosen] = []
        inside = bytearray(len(nodes))  # within a call that is counted or ignored
        for index, node in enumerate(nodes):
            above = self._tree.parent[index]
            inside[index] = above >= 0 and inside[above]
            schema = None if inside[index] else _schema(node)
            if schema is None:
                continue
            if schema.name.split("::")[0] in _IGNORED or schema.name in _BOOKKEEPING:
                inside[index] = 1
            elif self._whole(index, schema):
                inside[index] = 1
                found.append(_Chosen(index, schema))
        return found

    def _whole(self, index: int, schema: Schema) -> bool:
        if self._tree.nodes[index].compiled:
            return True
        if not is_composite(schema.name, schema.overload):
            return schema.name.startswith("aten::") or not self._tree.holds_operators[index] or _formula(schema)
        return not self._tree.holds_operators[index] and self._computes(index, schema)

    def _computes(self, index: int, schema: Schema) -> bool:
        """Whether a composition of which the file shows no parts has work of its own."""
        scratch = Values(Stream(self._sink))
        node = self._tree.nodes[index]
        given, made = scratch.inputs(schema, node), scratch.outputs(schema, node)
        call = Call(schema.name, schema.overload, tuple(given), {}, made[0] if len(made) == 1 else tuple(made))
        return bool(tensors(call.out)) and work(call).flops_all > 0

    # --- steps ------------------------------------------------------------------------------------------------------

    def _steps_of(self, chosen: Sequence[_Chosen]) -> list[int | None]:
        """The step of each call, from 0; None outside of every step."""
        marks = [index for index, node in enumerate(self._tree.nodes) if _STEP.fullmatch(node.name)]
        if marks:
            return self._marked(chosen, marks)
        ends = [self._tree.last[i] for i, node in enumerate(self._tree.nodes) if node.name.startswith(_OPTIMIZER)]
        parts = _parts(chosen, ends)
        if len(ends) > 1 and _alike(self._tree.nodes, chosen, parts, len(ends)):
            self.steps = len(ends)
            self._sink.note(PASS, "The trace marks no steps; each call of the optimizer is taken as the end of one.")
            return list(parts)
        self.steps = 1
        times = f" The optimizer ran {len(ends)} times in it." if len(ends) > 1 else ""
        self._sink.note(PASS, f"The trace marks no steps: all of it counts as one.{times}")
        return [0] * len(chosen)

    def _marked(self, chosen: Sequence[_Chosen], marks: Sequence[int]) -> list[int | None]:
        """By marks: a step lasts until the next one begins, since autograd's threads are not inside the mark."""
        found: list[int | None] = []
        at, numbers = 0, dict[int, int]()
        for call in chosen:
            while at < len(marks) and marks[at] < call.index:
                at += 1
            found.append(None if at == 0 else numbers.setdefault(at, len(numbers)))
        self.steps = len(numbers)
        return found

    # --- what to say ------------------------------------------------------------------------------------------------

    def _remark(self, chosen: Sequence[_Chosen], phases: Sequence[str]) -> None:
        stream, note = self._stream, self._sink.note
        for name, calls in stream.uncovered.most_common():
            note(PASS, f"No formula counts {name} ({calls} calls); its FLOPs are missing from every total.")
        for text in stream.remarks:
            note(PASS, text)
        if self.values.no_strides:
            note(
                PASS, "The trace gives no strides: they are those of its calls of as_strided, and contiguous otherwise."
            )
        note(
            "storages",
            "An execution trace does not tell when memory is freed or what it is for: storages are taken as freed "
            "after their last use, and roles are concluded from the calls that touch them.",
        )
        if all(phases[call.index] == OTHER for call in chosen):
            note(PASS, "The trace tells no phases: it has no autograd numbers and no marks of an optimizer.")
        counts = Counter(len(names) for names in stream.names.values())
        if len(counts) > 1:
            note(PASS, "Recorded steps differ in their operators. Figures are of the last one.")


def _schema(node: Node) -> Schema | None:
    if node.compiled:
        count = len(node.inputs.values)
        return Schema(node.name, "", ("",) * count, count, (), (), ())
    return schema_of(node.schema) if node.schema else None


def _formula(schema: Schema) -> bool:
    return known(schema.name, schema.overload)


def _parts(chosen: Sequence[_Chosen], ends: Sequence[int]) -> list[int]:
    """For each call the number of optimizer calls that ended before it; what follows the last one belongs to it."""
    found, at = [], 0
    for call in chosen:
        while at < len(ends) and ends[at] < call.index:
            at += 1
        found.append(min(at, len(ends) - 1) if ends else 0)
    return found


def _alike(nodes: Sequence[Node], chosen: Sequence[_Chosen], parts: Sequence[int], count: int) -> bool:
    """Whether the parts are the same operators, the first one (lazy state) and what follows the last one aside."""
    names: list[list[str]] = [[] for _ in range(count)]
    for call, part in zip(chosen, parts, strict=True):
        names[part].append(nodes[call.index].name)
    compared = names[1:] if count > 2 else names
    shortest = min(len(part) for part in compared)
    return (
        shortest > 0
        and all(part[:shortest] == compared[0][:shortest] for part in compared)
        and (all(len(part) == shortest for part in compared[:-1]))
    )
