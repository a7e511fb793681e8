"""Entries of an execution trace in one form, whatever its schema version, and the tree that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wcbench.profilers import link

_USER_SCOPE = 7
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_BIG = 1 << 62


@dataclass(frozen=True, slots=True)
class Arguments:
    """Inputs or outputs of a call: aligned lists; ``strides`` is None where the version has none."""

    values: Sequence[Any] = ()
    shapes: Sequence[Any] = ()
    types: Sequence[Any] = ()
    strides: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A call or a range. ``schema`` is empty for what is no operator, ``sequence`` -1 where autograd gave no number;
    ``compiled`` are kernels that torch.compile made, which have no schema."""

    id: int
    parent: int
    name: str
    schema: str
    sequence: int
    mark: bool
    compiled: bool
    inputs: Arguments
    outputs: Arguments

    @property
    def accumulates(self) -> bool:
        return self.name == _ACCUMULATE


def node_of(entry: Mapping[str, Any]) -> Node | None:
    """An entry as a node; None without an id or a name. Schema 1.0.1 has flat keys, later ones have ``attrs``."""
    number, name = entry.get("id"), entry.get("name")
    if not _whole(number) or not isinstance(name, str):
        return None
    facts = _attributes(entry)
    schema = facts.get("op_schema")
    schema = schema if isinstance(schema, str) else ""
    compiled = not schema and bool(facts.get("kernel_backend"))
    kept = bool(schema) or compiled or name == _ACCUMULATE
    return Node(
        id=int(number),  # type: ignore[arg-type]  # _whole has checked it
        parent=_parent(entry),
        name=name,
        schema=schema,
        sequence=_number(facts.get("seq_id")),
        mark=facts.get("scope") == _USER_SCOPE,
        compiled=compiled,
        inputs=_arguments(entry, "input") if kept else Arguments(),
        outputs=_arguments(entry, "output") if kept else Arguments(),
    )


def _attributes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    given = entry.get("attrs")
    if not isinstance(given, list):
        return entry
    pairs = [each for each in given if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: each.get("value") for each in pairs}


def _parent(entry: Mapping[str, Any]) -> int:
    found = entry.get("parent", entry.get("ctrl_deps"))
    if isinstance(found, list):  # of graphs with further edges the first one is the call
        found = found[0] if found else None
    return _number(found)


def _arguments(entry: Mapping[str, Any], which: str) -> Arguments:
    held = entry.get(f"{which}s")
    if isinstance(held, dict):
        strides = held.get("strides")
        found = (held.get("values"), held.get("shapes"), held.get("types"))
    else:
        strides = entry.get(f"{which}_strides")
        found = (held, entry.get(f"{which}_shapes"), entry.get(f"{which}_types"))
    values, shapes, types = (each if isinstance(each, list) else [] for each in found)
    return Arguments(values, shapes, types, strides if isinstance(strides, list) else None)


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < _BIG


def _number(value: Any) -> int:
    return value if type(value) is int and -1 <= value < _BIG else -1


class Tree:
    """Nodes in the order in which they began.

    Attributes
    ----------
    nodes : by id; ids count calls as they begin, on all threads, and a parent's is smaller than its children's.
    parent : place of each node's parent, -1 for roots.
    last : place of the last node within each node, itself if there is none.
    holds_operators : whether a node has operators below it.
    orphans : nodes whose parent the file does not have.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.id)
        place = {node.id: index for index, node in enumerate(self.nodes)}
        self.parent: list[int] = []
        self._depth: list[int] = []
        self.orphans = 0
        for index, node in enumerate(self.nodes):
            above = place.get(node.parent, -1)
            above = above if above < index else -1
            self.orphans += above < 0 and node.parent > 0 and index > 0
            self.parent.append(above)
            self._depth.append(self._depth[above] + 1 if above >= 0 else 0)
        self.last = list(range(len(self.nodes)))
        self.holds_operators = bytearray(len(self.nodes))
        for index in range(len(self.nodes) - 1, -1, -1):
            above = self.parent[index]
            if above >= 0:
                self.last[above] = max(self.last[above], self.last[index])
                if self.nodes[index].schema or self.nodes[index].compiled or self.holds_operators[index]:
                    self.holds_operators[above] = 1

    def phases(self) -> list[str]:
        """The phase of each node by the rules for live timelines (`link.phases`): what counts is who called it."""
        count = len(self.nodes)
        unused = np.zeros(count, np.int64)
        events = link.HostEvents(
            name=[node.name for node in self.nodes],
            mark=np.array([node.mark for node in self.nodes], np.bool_),
            thread=unused,
            start=unused,
            end=unused,
            sequence=np.array([node.sequence for node in self.nodes], np.int64),
        )
        parent, depth = np.array(self.parent, np.int64), np.array(self._depth, np.int64)
        nesting = link.Nesting(
            order=np.arange(count), parent=parent, depth=depth, end=unused, self_ns=unused, clipped=0, clipped_ns=0
        )
        return link.phases(events, nesting)
