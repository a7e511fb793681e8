"""What PyProf tells of a kernel, and the rows that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.link import BACKWARD, FORWARD, OPTIMIZER, OTHER
from wcbench.profilers.readers.base import PassFacts, Sink

PASS = "timeline"
FLOPS, BYTES = "pyprof.flops", "pyprof.bytes"
MOVERS = frozenset((
    "embedding", "cat", "stack", "reshape", "gather", "masked_scatter_", "masked_select", "nonzero", "index_select",
    "copy_", "clone", "contiguous", "to", "bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long",
    "short",
))  # fmt: skip
"""Operators for which PyProf's formulas say 0 FLOPs because they compute nothing."""

_NONE = frozenset(("", "na", "-"))
_GENERAL = frozenset(("", "na", "-", "Tensor", "torch"))
_OPTIMIZERS = ("/optim/", "/optimizers/")
_BATCH = 1 << 14


@dataclass(slots=True)
class Kernel:
    """One line. ``flops`` and ``nbytes`` are as written, None where PyProf says that it computed nothing."""

    name: str
    duration: int
    direction: str = ""
    module: str = ""
    op: str = ""
    layer: str = ""
    trace: str = ""
    device: str = ""
    stream: int | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    flops: float | None = None
    nbytes: float | None = None

    def work(self) -> tuple[float | None, float | None]:
        """FLOPs and bytes, None where a 0 does not mean that there are none (see `pyprof`)."""
        nbytes = self.nbytes or None
        moves = self.op in MOVERS and nbytes is not None
        return (self.flops if self.flops or moves else None), nbytes

    def operator(self) -> str | None:
        if self.op in _NONE:
            return None
        return self.op if self.module in _NONE else f"{self.module}.{self.op}"


class Phases:
    """Phases of kernels in the order of the file."""

    def __init__(self) -> None:
        self._behind = False  # a backward pass has begun, and no forward pass since
        self.unsure = 0

    def of(self, kernel: Kernel) -> str:
        if kernel.direction == "bprop" or kernel.op == "backward":
            self._behind = True
            return BACKWARD
        if kernel.op == "adam" or any(part in kernel.trace for part in _OPTIMIZERS):
            return OPTIMIZER
        if kernel.direction != "fprop":
            return OTHER
        if self._behind and kernel.module in _GENERAL:
            self.unsure += 1
            return OTHER
        self._behind = False
        return FORWARD


class Kernels:
    """Takes kernels and writes them in batches, where ``computed`` with their FLOPs and bytes."""

    def __init__(self, sink: Sink, *, computed: bool) -> None:
        self.sink, self._computed = sink, computed
        self._waiting: list[Kernel] = []
        self._names: list[str] = []
        self._phases = Phases()
        self._device: str | None = None
        self._unknown = self._taken = 0

    def add(self, kernel: Kernel) -> None:
        self._waiting.append(kernel)
        self._names.append(self._phases.of(kernel))
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        many, phases = self._waiting, self._names
        self._waiting, self._names = [], []
        if not many:
            return
        devices = [f"cuda:{int(k.device)}" if _digits(k.device) else (k.device or "cuda") for k in many]
        self._device = self._device or devices[0]
        self._taken += len(many)
        columns: dict[str, Sequence[Any]] = {
            "name": [k.name for k in many],
            "device": devices,
            "stream": [k.stream for k in many],
            "duration_ns": [k.duration for k in many],
            "phase": phases,
            "op": [k.operator() for k in many],
            "module": [None if k.layer in _NONE else k.layer for k in many],
            "grid": [k.grid for k in many],
            "block": [k.block for k in many],
        }
        first = self.sink.add("kernels", PASS, columns)
        if self._computed:
            self._add_work(first, many)

    def _add_work(self, first: int, many: Sequence[Kernel]) -> None:
        work = [kernel.work() for kernel in many]
        self._unknown += sum(flops is None for flops, _ in work)
        for place, (metric, unit) in enumerate(((FLOPS, "FLOP"), (BYTES, "B"))):
            columns = {
                "kernel": list(range(first, first + len(many))),
                "name": [kernel.name for kernel in many],
                "calls": [1] * len(many),
                "metric": [metric] * len(many),
                "unit": [unit] * len(many),
                "value": [values[place] for values in work],
            }
            self.sink.describe("counters", PassFacts(self._device or "cuda"))
            self.sink.add("counters", "counters", columns)

    def finish(self) -> None:
        """Write the rest and describe the pass; raises ReadError where there was no kernel."""
        self._flush()
        if not self._taken:
            raise ReadError(f"{self.sink.label} holds no kernels.", "Was the run profiled to its end? Run it again.")
        self.sink.describe(PASS, PassFacts(self._device or "cuda"))
        self.sink.note(PASS, "PyProf's files have durations of kernels in their order, no starts.")
        if self._phases.unsure:
            self.sink.note(
                PASS,
                f"{self._phases.unsure} of {self._taken} kernels ran after a backward kernel and are called fprop by "
                "PyProf (gradients added up, clipping, the optimizer): their phase is `other`.",
            )
        if not self._computed:
            self.sink.note("counters", "net.dict has no FLOPs or bytes: import the CSV of `pyprof.prof` for them.")
        elif self._unknown:
            self.sink.note(
                "counters",
                f"PyProf has no FLOPs for {self._unknown} of {self._taken} kernels (no value rather than its 0); the "
                "others are its formulas, not hardware counters.",
            )


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
