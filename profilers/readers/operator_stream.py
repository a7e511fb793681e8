"""Operator calls of a file to the tables `operators` and `storages`, as a live capture writes them.

The formulas of `profilers.formulas` count each call. What a file does not tell (when a storage is freed, what it is
for) is concluded from which calls touch it; how stands at `Stream.finish`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wcbench.profilers.formulas import Access, Call, T, Work, work
from wcbench.profilers.formulas.traffic import tensors
from wcbench.profilers.link import BACKWARD, FORWARD, OPTIMIZER
from wcbench.profilers.readers.base import Sink

NO_STORAGE = -1
"""Identity of what has no dense storage of its own."""

LARGEST_BYTES, LARGEST_FLOPS = 1 << 53, 1 << 62
"""Bytes and FLOPs of a call from which it is taken for damage."""

PASS = "operators"
_BATCH = 4096


@dataclass(slots=True)
class Storage:
    """A storage's life so far: orders of its first and last call, and by whom it was touched."""

    nbytes: int
    born: int | None
    producer: str | None
    last: int = -1
    born_phase: str | None = None
    step: int = 0
    phases: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    later: bool = False  # touched in a later step than the first one that touched it
    gradient: bool = False  # the file says so


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a training a call stands."""

    step: int
    phase: str


class Stream:
    """Takes calls in program order and puts them into the sink."""

    def __init__(self, sink: Sink, kind: str = "train") -> None:
        self._sink = sink
        self._kind = kind
        self._rows: list[dict[str, Any]] = []
        self._orders = 0
        self._backward: dict[int, int] = {}
        self._optimizes = False
        self.storages: list[Storage] = []
        self.versions: list[int] = []
        self.uncovered: Counter[str] = Counter()
        self.remarks: dict[str, None] = {}
        self.names: dict[int, list[str]] = {}

    @property
    def calls(self) -> int:
        return self._orders

    def storage(self, *, fresh: bool, producer: str) -> int:
        """The number of a storage not met before; ``fresh`` where the call at hand makes it."""
        born = self._orders if fresh else None
        self.storages.append(Storage(0, born, producer if fresh else None))
        self.versions.append(0)
        return len(self.storages) - 1

    def add(self, call: Call, place: Place, uncounted: str | None = None) -> None:
        """One call; ``uncounted`` says why no formula may be asked. Absurd extents are told as lost."""
        done = work(call) if uncounted is None else Work(0, 0, (), False, uncounted)
        given = tensors([call.args, call.kwargs])
        made = tensors(call.out)
        if not _sane([*given, *made], done):
            self._sink.lose("an operator call", "its extents or its work are absurd")
            return
        self._touch(call, place, given, made)
        self._remark(call, done)
        self._rows.append(self._row(call, place, done, given, made))
        self._orders += 1
        if len(self._rows) >= _BATCH:
            self._flush()

    def finish(self) -> None:
        """Write what is left, and the storages.

        A storage older than the stream, a weight or an optimizer's state outlives it; any other is taken as freed
        after its last use, the earliest that is possible. Weights are those that the model uses and the optimizer
        writes, states those that only the optimizer touches, gradients those of the backward pass that the optimizer
        touches; a model's buffers cannot be told from its inputs.
        """
        self._flush()
        rows = [(number, storage) for number, storage in enumerate(self.storages) if storage.last >= 0]
        roles = [self._role(storage) for _, storage in rows]
        columns = {
            "id": [number for number, _ in rows],
            "nbytes": [storage.nbytes for _, storage in rows],
            "role": roles,
            "born": [storage.born for _, storage in rows],
            "died": [self._died(storage, role) for (_, storage), role in zip(rows, roles, strict=True)],
            "producer": [storage.producer for _, storage in rows],
        }
        self._sink.add("storages", PASS, columns)

    # --- one call ---------------------------------------------------------------------------------------------------

    def _touch(self, call: Call, place: Place, given: Sequence[T], made: Sequence[T]) -> None:
        order = self._orders
        if place.phase == BACKWARD:
            self._backward.setdefault(place.step, order)
        self._optimizes |= place.phase == OPTIMIZER
        written = {t.storage for index in call.writes if index < len(call.args) for t in tensors(call.args[index])}
        written |= {t.storage for name in call.writes_kwargs for t in tensors(call.kwargs.get(name))}
        for tensor in (*given, *made):
            if tensor.storage == NO_STORAGE:
                continue
            storage = self.storages[tensor.storage]
            storage.nbytes = max(storage.nbytes, span_bytes(tensor))
            if storage.last < 0:
                storage.step = place.step
                storage.born_phase = place.phase
            storage.later |= place.step != storage.step
            storage.last = order
            storage.phases.add(place.phase)
            if tensor.storage in written:
                storage.written.add(place.phase)
        for number in written - {NO_STORAGE}:
            self.versions[number] += 1

    def _remark(self, call: Call, done: Work) -> None:
        if not done.covered:
            self.uncovered[call.name] += 1
        elif done.note:
            self.remarks.setdefault(done.note)

    def _row(self, call: Call, place: Place, done: Work, given: Sequence[T], made: Sequence[T]) -> dict[str, Any]:
        self.names.setdefault(place.step, []).append(call.name)
        return {
            "step": place.step,
            "kind": self._kind,
            "order": self._orders,
            "name": call.name,
            "overload": call.overload,
            "phase": place.phase,
            "covered": done.covered,
            "flops_matrix": done.flops_matrix if done.covered else None,
            "flops_matrix_half": _half(call, done),
            "flops_all": done.flops_all if done.covered else None,
            "bytes_read": done.bytes_read,
            "bytes_written": done.bytes_written,
            "inputs": [_tensor_row(t) for t in given],
            "outputs": [_tensor_row(t) for t in made],
            "accesses": [_access_row(access) for access in done.accesses],
        }

    def _flush(self) -> None:
        if self._rows:
            self._sink.add("operators", PASS, {key: [row[key] for row in self._rows] for key in self._rows[0]})
            self._rows = []

    # --- storages ---------------------------------------------------------------------------------------------------

    def _role(self, storage: Storage) -> str:
        forward, optimized = FORWARD in storage.phases, OPTIMIZER in storage.phases
        backward = BACKWARD in storage.phases
        if optimized and not forward and backward:
            return "gradient"
        if storage.gradient and not forward and not self._optimizes:
            return "gradient"
        if OPTIMIZER in storage.written and forward:
            return "weight"
        if optimized and not forward and (storage.born is None or storage.later):
            return "optimizer state"
        if storage.born is None:
            return "input"
        return "activation" if self._saved(storage) else "workspace"

    def _saved(self, storage: Storage) -> bool:
        """Whether the forward pass made it and the backward pass still has it."""
        turn = self._backward.get(storage.step)
        born = storage.born if storage.born is not None else -1
        return storage.born_phase == FORWARD and turn is not None and born < turn <= storage.last

    def _died(self, storage: Storage, role: str) -> int | None:
        last_step = max(self.names, default=0)
        outlives = storage.born is None or role in ("weight", "optimizer state")
        if role == "gradient" and self._step_of(storage.last) == last_step:
            outlives = True  # until the next step's zero_grad
        return None if outlives or storage.last + 1 >= self._orders else storage.last + 1

    def _step_of(self, order: int) -> int:
        for step in sorted(self.names):
            order -= len(self.names[step])
            if order < 0:
                return step
        return -1


def span_bytes(tensor: T) -> int:
    """Bytes from the storage's beginning to the tensor's last element: the least that the storage has."""
    if 0 in tensor.shape:
        return 0
    steps = ((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride, strict=True))
    try:
        return (tensor.offset + sum(steps) + 1) * tensor.itemsize
    except KeyError:  # an element type that is not known
        return 0


def _sane(found: Iterable[T], done: Work) -> bool:
    spans = (span_bytes(t) for t in found if t.storage != NO_STORAGE)
    return done.flops_all < LARGEST_FLOPS and max(done.bytes_read, done.bytes_written, *spans, 0) < LARGEST_BYTES


def _half(call: Call, done: Work) -> int | None:
    """Matrix-class FLOPs without the masked half of causal attention; other operators have none."""
    if not done.covered or "attention" not in call.name:
        return done.flops_matrix if done.covered else None
    return work(call, causal="half").flops_matrix


def _tensor_row(t: T) -> Mapping[str, Any]:
    return {
        "storage": t.storage,
        "version": t.version,
        "offset": t.offset,
        "shape": list(t.shape),
        "stride": list(t.stride),
        "dtype": t.dtype,
    }


def _access_row(access: Access) -> Mapping[str, Any]:
    t = access.tensor
    return {
        "storage": t.storage,
        "offset": t.offset,
        "shape": list(t.shape),
        "stride": list(t.stride),
        "dtype": t.dtype,
        "write": access.write,
        "kind": access.kind,
        "nbytes": access.nbytes,
    }
