"""Memory-access patterns of a training step from its operator stream: the inter-operator reuse model.

What it is, and what it is not, stands in docs/locality.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench import kernels
from wcbench.analysis.fusion import Fused, FusibleOp, fuse
from wcbench.analysis.live import LiveBytes, live_bytes
from wcbench.analysis.locality import Accesses, Lifetimes, Locality, locality, runs_of, to_allocator
from wcbench.analysis.parallel import Parallelism, parallelism
from wcbench.analysis.recorded import calls_of, main_step, recorded_steps, rows_of
from wcbench.analysis.segments import NEVER
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source
from wcbench.analysis.tiling import tiling_excess
from wcbench.dtypes import ITEMSIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

POINTWISE = frozenset({"element-wise", "ReLU activation", "other activation", "optimizer"})
"""Categories whose operators map elements one by one; foreach optimizers do so over many tensors at once."""

_PHASES = {"forward": 0, "backward": 1, "optimizer": 2, "other": 3}
_UNPLACED = ("gather", "scatter")


@dataclass(frozen=True)
class MemoryAccess(Shown):
    """Live bytes and reuse of the last recorded step of a kind.

    ``logical`` takes each tensor's bytes as new ones, ``allocator`` lets a tensor have the addresses of dead ones.
    ``tiling_excess`` is what matrix products and convolutions must move besides at each of ``logical.capacities``:
    below the size of an operator's operands the reuse model alone is too low (`tiling.tiling_excess`).
    ``peak_kinds`` has the peak of live bytes of every kind of step. ``eager_operators`` move bytes; ``fused`` is what
    remains of them when pointwise neighbours become one kernel.
    """

    source: Source
    kind: str
    live: LiveBytes
    peak_kinds: Mapping[str, int]
    logical: Locality
    allocator: Locality
    tiling_excess: NDArray[np.float64]
    fused: Fused
    eager_operators: int
    parallelism: Parallelism

    def to_frame(self) -> pd.DataFrame:
        """Traffic at each capacity, of logical storages."""
        return self.logical.to_frame()

    def __repr__(self) -> str:
        return f"{self.live!r}\n{self.logical!r}\n{self.fused!r}"


def memory(profile: Profile, kind: str | None = None) -> MemoryAccess | None:
    """Memory-access patterns of a record; None where it has no operator stream.

    Where steps differ in kind they are of one kind: ``kind``, by default the one that moves most bytes in a training.
    The steps recorded before it warm the cache.
    """
    live, step = live_bytes(profile, kind), main_step(profile, kind)
    if live is None or step is None:
        return None
    accesses, lives = accesses_of(profile), lifetimes_of(profile)
    accesses = accesses.take(accesses.step <= step.step)
    logical = locality(accesses, lives)
    operators = fusible_operators(profile, kind)
    moving = [op for op in operators if op.reads or op.writes]
    outlive = lives.storage[lives.died == NEVER].tolist()
    return MemoryAccess(
        source=live.source,
        kind=step.kind,
        live=live,
        peak_kinds={each.kind: _peak(profile, each.kind) for each in recorded_steps(profile)},
        logical=logical,
        allocator=locality(to_allocator(accesses, lives), lives),
        tiling_excess=_tiling(profile, kind, logical.capacities.tolist()),
        fused=fuse(moving, outlive),
        eager_operators=len(moving),
        parallelism=parallelism([op.reads for op in operators], [op.writes for op in operators], _flops(profile, kind)),
    )


def _peak(profile: Profile, kind: str) -> int:
    live = live_bytes(profile, kind)
    return 0 if live is None else live.peak_bytes


def _tiling(profile: Profile, kind: str | None, capacities: list[int]) -> NDArray[np.float64]:
    """Excess of the step's matrix products and convolutions; attention kernels are left out, their bound is an order
    of magnitude only."""
    table = rows_of(profile, kind)
    columns = ["name", "flops_matrix", "bytes_read", "bytes_written", "inputs", "outputs"]
    rows = [_product(row) for row in table.select(columns).to_pylist() if row["flops_matrix"] and row["outputs"]]
    found = np.array([row for row in rows if row is not None], dtype=np.float64).reshape(-1, 4)
    flops, moved, size, reuse = found.T
    return tiling_excess(flops, moved, size, reuse, capacities)


def _product(row: Mapping[str, Any]) -> tuple[int, int, int, float] | None:
    """(FLOPs, bytes touched, bytes of an element, reuse) of a product or a convolution; None for what is neither."""
    kind = kernels.classify(row["name"], host=True).full
    if kind not in ("GEMM", "convolution"):
        return None
    reuse = 1.0 if kind == "GEMM" else _window_reuse([t["shape"] for t in row["inputs"]])
    size = ITEMSIZE[row["outputs"][0]["dtype"]]
    return row["flops_matrix"], row["bytes_read"] + row["bytes_written"], size, reuse


def _window_reuse(shapes: list[list[int]]) -> float:
    """Positions that an input element serves: kernel over stride, at least 1.

    The kernel's tensor is the one of most dimensions with the smallest extents; the stride shows as the ratio of the
    two others' extents (backward), and is taken as 1, the larger reuse and so the smaller bound, where only one is
    there (forward).
    """
    spatial = [shape[2:] for shape in shapes if len(shape) == max(map(len, shapes))]
    kernel = min(math.prod(extents) for extents in spatial)
    maps = sorted(math.prod(extents) for extents in spatial)[1:]
    stride = maps[-1] / maps[0] if len(maps) > 1 and maps[0] else 1.0
    return max(1.0, kernel / max(1.0, stride))


def _flops(profile: Profile, kind: str | None) -> list[int]:
    """All FLOPs of each operator of the step; what no formula counts is 0 here and named in the notes."""
    return [int(value) for value in calls_of(profile, kind)["flops_all"].fillna(0)]


def fusible_operators(profile: Profile, kind: str | None = None) -> list[FusibleOp]:
    """The operators of the step (`recorded.main_step`) as the fusion rule sees them."""
    found = []
    for row in rows_of(profile, kind).select(["name", "outputs", "accesses"]).to_pylist():
        pointwise = kernels.classify(row["name"], host=True).full in POINTWISE
        elements = sum(math.prod(t["shape"]) for t in row["outputs"])
        found.append(FusibleOp(pointwise, elements, _moved(row, write=False), _moved(row, write=True)))
    return found


def _moved(row: Mapping[str, Any], *, write: bool) -> dict[int, int]:
    moved: dict[int, int] = {}
    for access in row["accesses"]:
        if access["write"] == write and access["nbytes"]:
            moved[access["storage"]] = moved.get(access["storage"], 0) + access["nbytes"]
    return moved


def lifetimes_of(profile: Profile) -> Lifetimes:
    """When storages live, in orders of table `operators`; those older than the stream are born at -1."""
    table = profile.table("storages")
    return Lifetimes.of(
        Lifetimes(
            storage=table["id"].to_numpy(dtype=np.int64),
            born=table["born"].fillna(-1).to_numpy(dtype=np.int64),
            died=table["died"].fillna(NEVER).to_numpy(dtype=np.int64),
            nbytes=table["nbytes"].to_numpy(dtype=np.int64),
        )
    )


def accesses_of(profile: Profile) -> Accesses:
    """Accesses of all recorded steps, each cut into its contiguous runs.

    An access has no place where its addresses depend on data (gathers, scatters), where it moves fewer bytes than its
    tensor spans, or where it falls into too many runs (`segments.RUN_LIMIT`).
    """
    table = profile.arrow("operators").select(["order", "step", "phase", "accesses"])
    rows: list[tuple[Any, ...]] = []
    for order, step, phase, accesses in zip(*(column.to_pylist() for column in table.columns), strict=True):
        for access in _whole_writes(accesses):
            rows.extend((order, step, _PHASES[phase], *row) for row in _rows(access))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 9).T
    op, step, phase, storage, begin, end, write, weighted, nbytes = columns
    return Accesses(
        op, storage, begin, end, write.astype(bool), weighted.astype(bool), nbytes, step, phase.astype(np.int8)
    )


def _whole_writes(accesses: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Writes of one operator to one tensor as one: what is filled and then scattered into is written as a whole."""
    merged: dict[Any, dict[str, Any]] = {}
    for access in accesses:
        tensor = (access["storage"], access["offset"], tuple(access["shape"]), tuple(access["stride"]))
        key = tensor if access["write"] else len(merged)
        if key in merged:
            merged[key]["nbytes"] += access["nbytes"]
        else:
            merged[key] = dict(access)
    return list(merged.values())


def _rows(access: Mapping[str, Any]) -> list[tuple[int, int, int, bool, bool, int]]:
    """(storage, begin, end, write, weighted, nbytes) of each run of an access."""
    size = ITEMSIZE[access["dtype"]]
    storage, write, nbytes = access["storage"], access["write"], access["nbytes"]
    if storage < 0 or not nbytes:
        return []
    runs = None
    if write or access["kind"] not in _UNPLACED:
        runs = runs_of(access["offset"], access["shape"], access["stride"], size)
    if runs is not None and int((runs[1] - runs[0]).sum()) == nbytes:
        return [(storage, int(b), int(e), write, False, int(e - b)) for b, e in zip(*runs, strict=True)]
    begin = access["offset"] * size
    spans = ((extent - 1) * stride for extent, stride in zip(access["shape"], access["stride"], strict=True))
    return [(storage, begin, begin + (sum(spans) + 1) * size, write, True, nbytes)]
