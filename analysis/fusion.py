"""The fused stream: what is left of a step's operators and bytes when pointwise neighbours become one kernel.

The rule is greedy and documented, not a compiler: a pointwise operator joins the group of a pointwise operator whose
output it reads, if both work on the same number of elements and nothing outside the group has used the group's
outputs or changed its inputs in between (so that the group may run where its last member stood). A tensor that is
written and read inside one group alone is neither written nor read. Reductions, products and copies stay as they are,
so a compiler that also fuses those (Inductor) moves less: this is an upper bound of the fused stream's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FusibleOp:
    """An operator as the rule sees it: distinct bytes read and written by storage, and the output's elements."""

    pointwise: bool
    elements: int
    reads: Mapping[int, int]
    writes: Mapping[int, int]


@dataclass(frozen=True)
class Fused:
    """What remains: kernels that move bytes, and their bytes. ``groups`` lists the members of every fused kernel."""

    operators: int
    bytes_read: int
    bytes_written: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    def __repr__(self) -> str:
        return f"Fused: {self.operators:,} kernels, {self.bytes:,} bytes, {len(self.groups):,} groups of two or more"


@dataclass
class _Group:
    number: int
    elements: int
    open: bool
    members: list[int] = field(default_factory=list)
    reads: dict[int, int] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)


def fuse(operators: Sequence[FusibleOp], needed_after: Iterable[int]) -> Fused:
    """Fuse a step's operators in program order.

    Parameters
    ----------
    operators : those that move bytes, in program order.
    needed_after : storages whose content is used after the step (weights, optimizer state, gradients kept).
    """
    state = _Fusion(set(needed_after))
    for index, op in enumerate(operators):
        state.add(index, op)
    return state.result(operators)


class _Fusion:
    def __init__(self, needed_after: set[int]) -> None:
        self._needed_after = needed_after
        self._groups: list[_Group] = []
        self._writer: dict[int, _Group] = {}  # storage -> open group that wrote it last
        self._reader: dict[int, set[int]] = {}  # storage -> numbers of the groups that read it while open

    def add(self, index: int, op: FusibleOp) -> None:
        group = self._group_for(op)
        self._close_others(op, group)
        if group is None:
            group = _Group(len(self._groups), op.elements, op.pointwise)
            self._groups.append(group)
        self._join(group, index, op)

    def _group_for(self, op: FusibleOp) -> _Group | None:
        """The group that wrote one of the inputs, where the operator may join it; the latest of several."""
        if not op.pointwise:
            return None
        found = [self._writer[s] for s in op.reads if s in self._writer]
        usable = [g for g in found if g.open and g.elements == op.elements]
        return max(usable, key=lambda g: g.members[-1], default=None)

    def _close_others(self, op: FusibleOp, own: _Group | None) -> None:
        """Groups whose outputs this operator uses, or whose inputs it changes, must have run before it."""
        for storage in (*op.reads, *op.writes):
            writer = self._writer.get(storage)
            if writer is not None and writer is not own:
                writer.open = False
        for storage in op.writes:
            for number in self._reader.get(storage, ()):
                if self._groups[number] is not own:
                    self._groups[number].open = False

    def _join(self, group: _Group, index: int, op: FusibleOp) -> None:
        group.members.append(index)
        for storage, nbytes in op.reads.items():
            if storage not in group.writes:
                group.reads[storage] = max(nbytes, group.reads.get(storage, 0))
        for storage, nbytes in op.writes.items():
            group.writes[storage] = max(nbytes, group.writes.get(storage, 0))
            self._writer[storage] = group
        for storage in op.reads if group.open else ():
            self._reader.setdefault(storage, set()).add(group.number)

    def result(self, operators: Sequence[FusibleOp]) -> Fused:
        used = self._used_outside(operators)
        read = written = 0
        for group in self._groups:
            read += sum(group.reads.values())
            written += sum(
                nbytes
                for storage, nbytes in group.writes.items()
                if storage in self._needed_after or storage in used.get(group.number, ())
            )
        fused = tuple(tuple(g.members) for g in self._groups if len(g.members) > 1)
        return Fused(len(self._groups), read, written, fused)

    def _used_outside(self, operators: Sequence[FusibleOp]) -> dict[int, set[int]]:
        """For each group the storages it wrote that another group reads before they are written anew."""
        home = {member: group for group in self._groups for member in group.members}
        writer: dict[int, _Group] = {}
        used: dict[int, set[int]] = {}
        for index, op in enumerate(operators):
            mine = home[index]
            for storage in op.reads:
                by = writer.get(storage)
                if by is not None and by is not mine:
                    used.setdefault(by.number, set()).add(storage)
            for storage in op.writes:
                writer[storage] = mine
        return used
