"""The inter-operator reuse model: what an LRU cache of each size would leave of a training step's memory traffic.

docs/locality.md has the definitions and the limits. In short: operators touch byte runs of storages in program order;
stack distances give the hits of all LRU caches at once; traffic is read misses plus the write-backs of bytes that
are needed later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from wcbench.analysis import sampling
from wcbench.analysis.addresses import to_allocator
from wcbench.analysis.segments import (
    NEVER,
    Accesses,
    Births,
    Bools,
    Ints,
    Lifetimes,
    Segmented,
    last_step_only,
    measured_step,
    runs_of,
    segment,
)
from wcbench.analysis.stack import (
    INFINITE,
    Curve,
    bytes_above,
    miss_ratio_curve,
    previous_touch,
    stack_distances,
    stack_distances_fenwick,
    unit_distances,
)
from wcbench.analysis.tiling import attention_io_lower_bound, conv_io_lower_bound, gemm_io_lower_bound
from wcbench.analysis.versions import Versions, versions

__all__ = [
    "CAPACITIES",
    "INFINITE",
    "NEVER",
    "Accesses",
    "Births",
    "Curve",
    "Lifetimes",
    "Locality",
    "Segmented",
    "attention_io_lower_bound",
    "bytes_above",
    "conv_io_lower_bound",
    "gemm_io_lower_bound",
    "locality",
    "miss_ratio_curve",
    "runs_of",
    "segment",
    "stack_distances",
    "stack_distances_fenwick",
    "to_allocator",
    "unit_distances",
]

CAPACITIES = tuple(2**exponent for exponent in range(18, 37))  # 256 KiB to 64 GiB
CHAIN = 16  # operators; a reuse within fewer is within one chain
FORWARD, BACKWARD, OPTIMIZER = 0, 1, 2
REUSE_CLASSES = ("same chain", "optimizer", "step to step", "forward to backward", "other")


@dataclass(frozen=True, eq=False)
class Locality:
    """Reuse in the measured step, the last of the stream; the steps before it warm the cache.

    Capacities and everything else in bytes.

    Parameters
    ----------
    identity : `logical` (each tensor's bytes are new) or `allocator` (addresses are reused).
    flushed : whether the cache was emptied at the step's boundary instead of being warm.
    capacities : int64 (k,)
    miss_ratio : float64 (k,), share of all touched bytes, reads and writes, that miss; NaN in an empty step.
    read_misses, write_backs : int64 (k,); their sum is ``traffic``.
    curve_all, curve_reads, curve_writes : the same as functions of any capacity (`Curve`).
    touches : of whole segments, in the measured step.
    operator_bytes : what all operators read and wrote.
    unique_bytes : distinct bytes among them; accesses without a place are left out.
    cold_bytes : touched for the first time in the whole window, warm-up included; likewise.
    live_in_bytes, live_out_bytes : first accessed by a read in the step; written in it and alive at its end.
    unplaced_bytes : of accesses without a place: in ``operator_bytes`` and, at every capacity, in ``traffic``.
    unplaced_inner_bytes : those among them that no compulsory traffic accounts for (of storages born in the step and
        read, or written and dead by its end).
    largest_operator_bytes : distinct bytes of the largest operator; below this capacity the model is too low.
    wss_50, wss_90, wss_99 : smallest capacity with that share of the attainable byte hits; None without any reuse.
    reuse_classes : share of the reused bytes; empty without any reuse. ``reuse_count_mean`` is touches a byte.
    sample_rate, sample_error : share of the touches sampled and the error of their miss ratio (`sampling.distances`);
        1 and 0 for exact distances.
    notes : what is doubtful about the numbers.
    """

    identity: str
    flushed: bool
    capacities: Ints
    curve_all: Curve
    curve_reads: Curve
    curve_writes: Curve
    touches: int
    operator_bytes: int
    unique_bytes: int
    cold_bytes: int
    live_in_bytes: int
    live_out_bytes: int
    unplaced_bytes: int
    unplaced_inner_bytes: int
    largest_operator_bytes: int
    reuse_classes: Mapping[str, float]
    reuse_count_mean: float | None
    sample_rate: float
    sample_error: float
    notes: tuple[str, ...]

    @property
    def compulsory_bytes(self) -> int:
        """Live-in reads and live-out writes: the traffic of an infinite cache that starts and ends the step empty."""
        return self.live_in_bytes + self.live_out_bytes

    @property
    def miss_ratio(self) -> npt.NDArray[np.float64]:
        return self.miss_ratio_at(self.capacities)

    @property
    def read_misses(self) -> Ints:
        return self.curve_reads(self.capacities)

    @property
    def write_backs(self) -> Ints:
        return self.curve_writes(self.capacities)

    @property
    def traffic(self) -> Ints:
        return self.traffic_at(self.capacities)

    @property
    def wss_50(self) -> int | None:
        return self.curve_all.capacity_for(50)

    @property
    def wss_90(self) -> int | None:
        return self.curve_all.capacity_for(90)

    @property
    def wss_99(self) -> int | None:
        return self.curve_all.capacity_for(99)

    @property
    def reuse_dist_median(self) -> int | None:
        """Byte-weighted median of the finite distances, the lower one; by definition the same number as wss_50."""
        return self.wss_50

    def miss_ratio_at(self, capacities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        missed = self.curve_all(capacities)
        share = missed / self.operator_bytes if self.operator_bytes else np.full(missed.shape, np.nan)
        return np.asarray(share, dtype=np.float64)

    def traffic_at(self, capacities: npt.ArrayLike) -> Ints:
        """Bytes between the cache and the memory behind it, at any capacity."""
        return self.curve_reads(capacities) + self.curve_writes(capacities)

    def intensity(self, flops: float, capacities: npt.ArrayLike | None = None) -> npt.NDArray[np.float64]:
        """FLOP per byte of traffic; NaN where nothing moves."""
        traffic = self.traffic_at(self.capacities if capacities is None else capacities)
        return np.asarray(flops / np.where(traffic > 0, traffic, np.nan), dtype=np.float64)

    def to_frame(self) -> pd.DataFrame:
        """Columns capacity, miss_ratio, read_misses, write_backs, traffic, model_too_low."""
        return pd.DataFrame(
            {
                "capacity": self.capacities,
                "miss_ratio": self.miss_ratio,
                "read_misses": self.read_misses,
                "write_backs": self.write_backs,
                "traffic": self.traffic,
                "model_too_low": self.capacities < self.largest_operator_bytes,
            }
        )

    def __repr__(self) -> str:
        wss = ", ".join("n/a" if w is None else _mib(w) for w in (self.wss_50, self.wss_90, self.wss_99))
        state = "flushed" if self.flushed else "warm"
        lines = [
            f"Locality (inter-operator reuse model; {self.identity} storages, {state} step, {self.touches:,} touches)",
            f"  operators touch {_mib(self.operator_bytes)}; compulsory {_mib(self.compulsory_bytes)}",
            f"  working sets for 50, 90, 99 % of the attainable hits: {wss}",
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def locality(
    accesses: Accesses,
    births: Births = None,
    *,
    capacities: Sequence[int] = CAPACITIES,
    flush: bool = False,
    sample_above: int = sampling.SAMPLE_ABOVE,
    sample_rate: float | None = None,
) -> Locality:
    """The reuse model of the last step of a stream.

    Parameters
    ----------
    accesses : two steps or more; with `to_allocator` before it for the second identity.
    births : storage -> (born, died) as `Lifetimes` has it; of storages, not of addresses. Unlisted: always alive.
    flush : empty the cache at the step's boundary; else the earlier steps warm it.
    sample_above : from this number of touches on distances come from a sample.
    sample_rate : share of the segments in the sample; by default 2 million through the number of touches.
    """
    last = measured_step(accesses)
    trace = segment(last_step_only(accesses) if flush else accesses)
    lives = Lifetimes.of(births)
    previous = previous_touch(trace.segment)
    reused = _reused(trace, previous)
    rate = (sample_rate or sampling.SAMPLE_TARGET / len(trace)) if len(trace) > sample_above else None
    sampled = sampling.distances(trace.segment, trace.size, trace.ids, previous, rate)
    distances = np.where(reused, sampled.distances, INFINITE)
    measured = trace.step == last
    written = versions(trace, distances, measured, _outlives(lives, trace))
    scale = sampled.scale
    counted = np.rint(trace.size * scale).astype(np.int64)
    unplaced = ~trace.placed & measured
    inner = unplaced & _inner(trace, lives, measured)
    placed = measured & trace.placed
    unique = int(trace.size[placed & ((previous < 0) | (trace.step[previous] < last))].sum())
    return Locality(
        identity="logical" if accesses.tenant is None else "allocator",
        flushed=flush,
        capacities=np.asarray(capacities, dtype=np.int64),
        curve_all=_curve(distances, trace.size, counted, measured),
        curve_reads=_curve(distances, trace.size, counted, measured & ~trace.write),
        curve_writes=_written_curve(written, scale, int(trace.size[unplaced & trace.write].sum())),
        touches=int(measured.sum()),
        operator_bytes=int(trace.size[measured].sum()),
        unique_bytes=unique,
        cold_bytes=int(trace.size[placed & (previous < 0)].sum()),
        live_in_bytes=written.live_in + int(trace.size[unplaced & ~inner & ~trace.write].sum()),
        live_out_bytes=written.live_out + int(trace.size[unplaced & ~inner & trace.write].sum()),
        unplaced_bytes=int(trace.size[unplaced].sum()),
        unplaced_inner_bytes=int(trace.size[inner].sum()),
        largest_operator_bytes=_largest_operator(trace, previous, measured),
        reuse_classes=_reuse_classes(trace, previous, reused & measured),
        reuse_count_mean=int(trace.size[placed].sum()) / unique if unique else None,
        sample_rate=sampled.rate,
        sample_error=sampled.error,
        notes=tuple(_notes(trace, measured, sampled, flush)),
    )


def _reused(trace: Segmented, previous: Ints) -> Bools:
    """Touches that find what the touch before left: none for a read of an address that another tenant left behind."""
    again = previous >= 0
    return np.asarray(again & (trace.write | (trace.owner[previous] == trace.owner)), dtype=np.bool_)


def _outlives(lives: Lifetimes, trace: Segmented) -> Bools:
    """Whether the storage of each touch is alive at the end of the window: after whatever the last operator frees."""
    end = int(trace.op[-1]) if len(trace) else 0
    return lives.lookup(trace.owner, "died", NEVER) > end + 1


def _inner(trace: Segmented, lives: Lifetimes, measured: Bools) -> Bools:
    """Reads of storages born in the measured step, and writes of storages that are dead at its end."""
    start = int(trace.op[measured].min(initial=NEVER))
    born_inside = lives.lookup(trace.owner, "born", -1) >= start
    return np.where(trace.write, ~_outlives(lives, trace), born_inside)


def _curve(distances: Ints, size: Ints, counted: Ints, which: Bools, always: int = 0) -> Curve:
    """Of exact totals and, where there is a sample, of estimated weights (``counted``) in between."""
    finite = which & (distances < INFINITE)
    always += int(size[which & (distances == INFINITE)].sum())
    return Curve(distances[finite], counted[finite], int(size[finite].sum()), always)


def _written_curve(written: Versions, scale: npt.NDArray[np.float64], unplaced: int) -> Curve:
    counted = np.rint(written.size * scale[written.touch]).astype(np.int64)
    return _curve(written.needed, written.size, counted, written.needed > 0, unplaced)


def _largest_operator(trace: Segmented, previous: Ints, measured: Bools) -> int:
    """Most distinct bytes that one operator of the measured step touches."""
    anew = (previous < 0) | (trace.op[previous] != trace.op)
    op, size = trace.op[measured], np.where(anew, trace.size, 0)[measured]
    if not len(op):
        return 0
    starts = np.flatnonzero(np.diff(op, prepend=op[0] - 1))
    return int(np.add.reduceat(size, starts).max())


def _reuse_classes(trace: Segmented, previous: Ints, reused: Bools) -> dict[str, float]:
    """Share of the reused bytes by class; a reuse that fits several belongs to the first."""
    touch = np.flatnonzero(reused)
    before, size = previous[touch], trace.size[touch]
    total = int(size.sum())
    if not total:
        return {}
    same_step = trace.step[before] == trace.step[touch]
    conditions = [
        same_step & (trace.op[touch] - trace.op[before] < CHAIN),
        trace.phase[touch] == OPTIMIZER,
        ~same_step,
        (trace.phase[before] == FORWARD) & (trace.phase[touch] == BACKWARD),
    ]
    number = np.select(conditions, range(len(conditions)), len(conditions))
    return {name: int(size[number == i].sum()) / total for i, name in enumerate(REUSE_CLASSES)}


def _notes(trace: Segmented, measured: Bools, sampled: sampling.Sampled, flush: bool) -> list[str]:
    notes = []
    unplaced = measured & ~trace.placed
    if unplaced.any():
        moved, total = int(trace.size[unplaced].sum()), int(trace.size[measured].sum())
        notes.append(
            f"{int(unplaced.sum()):,} accesses ({moved:,} bytes, {100 * (moved / total):.1f} %) have no place: "
            "no reuse is credited, and traffic has them at every capacity"
        )
    if len(trace) and not flush and measured.all():
        notes.append("only one step was recorded: the cache starts cold")
    if sampled.rate < 1:
        notes.append(
            f"distances come from {100 * sampled.rate:.2f} % of the touches (SHARDS); "
            f"two standard errors of the miss ratio are at most {sampled.error:.4f}, "
            f"and {100 * sampled.shift:.1f} % of a distance as large as the footprint"
        )
    return notes


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.1f} MiB"
