"""The pass `operators`: the recorded stream with its formulas applied, as tables of the record."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.formulas import Access, Call, T, Work, work
from wcbench.profilers.parameters import parameter_rows
from wcbench.profilers.recorder import BACKWARD, FORWARD, CallNote, Recorder, Stream, TensorNote, same_steps
from wcbench.profilers.scaling import Key, totals
from wcbench.tasks.base import Built


class Operators(Collector):
    """Records two steps of each kind after the one that creates optimizer state, and compares them."""

    name = "operators"
    purpose = "every operator with its tensors, FLOPs and bytes, at the paper's scale on fake tensors"
    tensors = "fake"
    timed = False
    warmup = 1
    steps = 2

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._recorder: Recorder | None = None
        self._parameters: list[dict[str, Any]] = []
        self.totals: Mapping[Key, int] = {}

    def built(self, built: Built) -> None:
        # torch hides a whole LSTM in one oneDNN call, which no formula knows; without it the matmuls show
        setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010  (torch types it as a property object)

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        # after the warm-up step, in which lazy modules get their parameters
        self._parameters = list(parameter_rows(built))
        self._recorder = Recorder(built.modules, built.optimizers)
        yield

    @contextlib.contextmanager
    def step(self, index: int, kind: str, batch: Any = None) -> Iterator[None]:
        with self._recorder.step(index, kind, batch) if self._recorder else contextlib.nullcontext():
            yield

    def tables(self) -> Mapping[str, Columns]:
        if self._recorder is None:
            return {}
        stream = self._recorder.stream
        done = [work(as_call(note)) for note in stream.calls]
        self.totals = totals(stream, done)
        self._remark(stream, done)
        parameters = self._parameters
        return {
            "operators": operator_columns(stream, done),
            "storages": storage_columns(stream),
            "parameters": {key: [row[key] for row in parameters] for key in parameters[0]} if parameters else {},
        }

    def _remark(self, stream: Stream, done: Sequence[Work]) -> None:
        for text in stream.remarks:
            self.note(text)
        before: dict[str, int] = {}
        for step, kind in sorted(stream.kinds.items()):
            difference = same_steps(stream, before[kind], step) if kind in before else None
            if difference:
                of = "" if len(set(stream.kinds.values())) == 1 else f" of the kind {kind}"
                self.note(f"Two recorded steps{of} differ: {difference}. Figures are of the last one.")
            before[kind] = step
        missing = Counter(call.info.name for call, w in zip(stream.calls, done, strict=True) if not w.covered)
        for name, calls in missing.most_common():
            self.note(f"No formula counts {name} ({calls} calls); its FLOPs are missing from every total.")
        for text in dict.fromkeys(w.note for w in done if w.covered and w.note):
            self.note(text)


class Counted(Operators):
    """The same for its totals alone: one step of each kind, no tables."""

    steps = 1

    def tables(self) -> Mapping[str, Columns]:
        if self._recorder is not None:
            stream = self._recorder.stream
            self.totals = totals(stream, [work(as_call(note)) for note in stream.calls])
        return {}


def as_call(note: CallNote) -> Call:
    """A recorded call as the formulas take it."""
    info = note.info
    return Call(
        name=info.name,
        overload=info.overload,
        args=tuple(_described(x) for x in note.args),
        kwargs={key: _described(x) for key, x in note.kwargs.items()},
        out=_described(note.out),
        writes=info.writes,
        writes_kwargs=info.writes_kwargs,
    )


def _described(value: Any) -> Any:
    if isinstance(value, TensorNote):
        return T(
            value.storage, value.version, value.offset, value.shape, value.stride, _dtype(value.dtype), value.sparse
        )
    if isinstance(value, list):
        return [_described(item) for item in value]
    return value


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def operator_columns(stream: Stream, done: Sequence[Work]) -> Columns:
    """Columns of table `operators`."""
    calls = stream.calls
    return {
        "step": [call.step for call in calls],
        "kind": [stream.kinds[call.step] for call in calls],
        "order": list(range(len(calls))),
        "name": [call.info.name for call in calls],
        "overload": [call.info.overload for call in calls],
        "phase": [call.phase for call in calls],
        "module": [call.module for call in calls],
        "covered": [w.covered for w in done],
        "flops_matrix": [w.flops_matrix if w.covered else None for w in done],
        "flops_matrix_half": [_half(note, w) for note, w in zip(calls, done, strict=True)],
        "flops_all": [w.flops_all if w.covered else None for w in done],
        "bytes_read": [w.bytes_read for w in done],
        "bytes_written": [w.bytes_written for w in done],
        "inputs": [[_row(t) for t in _tensors([*call.args, *call.kwargs.values()])] for call in calls],
        "outputs": [[_row(t) for t in _tensors([call.out])] for call in calls],
        "accesses": [[_access(a) for a in w.accesses] for w in done],
    }


def _half(note: CallNote, full: Work) -> int | None:
    """Matrix-class FLOPs without the masked half of causal attention; other operators have none."""
    if not full.covered or "attention" not in note.info.name:
        return full.flops_matrix if full.covered else None
    return work(as_call(note), causal="half").flops_matrix


def _tensors(values: Sequence[Any]) -> Iterator[TensorNote]:
    for value in values:
        if isinstance(value, TensorNote):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _row(t: TensorNote) -> dict[str, Any]:
    return {
        "storage": t.storage,
        "version": t.version,
        "offset": t.offset,
        "shape": list(t.shape),
        "stride": list(t.stride),
        "dtype": _dtype(t.dtype),
    }


def _access(access: Access) -> dict[str, Any]:
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


def storage_columns(stream: Stream) -> Columns:
    """Columns of table `storages`; what no role was given for is an activation if the backward pass still has it."""
    rows = sorted(stream.storages.items())
    backward = _first_backward(stream)
    return {
        "id": [number for number, _ in rows],
        "nbytes": [note.nbytes for _, note in rows],
        "role": [note.role or _role(stream, note.born, note.died, backward) for _, note in rows],
        "born": [note.born for _, note in rows],
        "died": [note.died for _, note in rows],
        "producer": [None if note.born is None else stream.calls[note.born].info.name for _, note in rows],
    }


def _first_backward(stream: Stream) -> dict[int, int]:
    """The first backward operator of each step."""
    first: dict[int, int] = {}
    for index, call in enumerate(stream.calls):
        if call.phase == BACKWARD:
            first.setdefault(call.step, index)
    return first


def _role(stream: Stream, born: int | None, died: int | None, backward: Mapping[int, int]) -> str:
    if born is None:
        return "input"  # came from outside: the batch, or a tensor that the task keeps between steps
    call = stream.calls[born]
    turn = backward.get(call.step)
    saved = call.phase == FORWARD and turn is not None and born < turn and (died is None or died > turn)
    return "activation" if saved else "workspace"
