"""Features of a device's timeline: kernels, gaps and idle time, of a recorded or an imported trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wcbench.analysis.definitions.base import (
    MEASURED,
    SHARE_FLOOR,
    Found,
    NotMeasuredError,
    feature,
    once,
    pass_of,
    ratio,
    weighted_median,
)
from wcbench.analysis.executions import (
    ABSENT,
    COMMUNICATION,
    COPY,
    OUTSIDE,
    SYNCHRONIZATION,
    Executions,
    executions,
    is_text,
    sums,
    whole,
)
from wcbench.analysis.intervals import Intervals, difference, union
from wcbench.analysis.selection import unmarked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

_US = 1e3  # nanoseconds
_NO_STEPS = "the trace marks no steps"


@dataclass(frozen=True)
class _Device:
    """Work of a device in the measured steps, its waiting left out: ``steps`` of all ranks together (None where the
    trace marks none: then all work of the trace is here), and their wall time by rank."""

    work: Executions
    steps: int | None
    wall_ns: dict[int, int]

    def rank_steps(self) -> int:
        if not self.steps:
            raise NotMeasuredError(_NO_STEPS)
        return self.steps

    def kernels(self) -> Executions:
        """Without copies and fills."""
        found = self.work.take(~self.work.is_in(COPY))
        if not len(found):
            raise NotMeasuredError("no kernel ran in the measured steps")
        return found


def device(profile: Profile) -> _Device:
    """A device's work; NotMeasuredError where a host's operators are all that there is."""
    passname, _ = pass_of(profile, "timeline")
    return once(profile, "device work", lambda: _device(profile, passname))


def _device(profile: Profile, passname: str) -> _Device:
    rows = executions(profile, passname)
    if rows is None or rows.host:
        raise NotMeasuredError("no kernel of a GPU is in the record: the steps ran on a CPU, or the file lists none")
    rows = rows.take(~rows.is_in(SYNCHRONIZATION))
    if unmarked(profile, passname) or not (rows.step != OUTSIDE).any():
        return _Device(rows, None, {})
    table = profile.columns("steps", ["pass", "rank", "role", "duration_ns"])
    measured = is_text(table["pass"], passname) & is_text(table["role"], "measured")
    ranks, wall = whole(table["rank"])[measured], whole(table["duration_ns"])[measured]
    by_rank = {int(rank): int(wall[ranks == rank].sum()) for rank in np.unique(ranks)}
    return _Device(rows.take(rows.step != OUTSIDE), int(measured.sum()), by_rank)


def _per_device(found: _Device) -> Iterator[tuple[int, Executions]]:
    """(wall time of the rank's steps, the work) of every device of every rank that has both."""
    work = found.work.take(found.work.placed())
    for rank, place in sorted(set(zip(work.rank.tolist(), work.device.tolist(), strict=True))):
        if found.wall_ns.get(rank):
            yield found.wall_ns[rank], work.take((work.rank == rank) & (work.device == place))


def _spans(rows: Executions) -> Intervals:
    return union(rows.start, rows.start + rows.duration)


@feature("kernels_per_step", unit="count", needs="timeline", transform="log10", block="kernels", tier="core",
         origin=MEASURED)  # fmt: skip
def kernels_per_step(profile: Profile) -> float:
    """Kernels of a step on one rank; copies and fills by the driver are none."""
    found = device(profile)
    return len(found.kernels()) / found.rank_steps()


@feature("kernel_dur_median", unit="us", needs="timeline", transform="log10", block="kernels", tier="core",
         origin=MEASURED)  # fmt: skip
def kernel_dur_median(profile: Profile) -> float:
    """Median duration of a kernel."""
    return float(np.median(device(profile).kernels().duration)) / _US


@feature("kernel_dur_p90", unit="us", needs="timeline", transform="log10", block="kernels", tier="core",
         origin=MEASURED)  # fmt: skip
def kernel_dur_p90(profile: Profile) -> float:
    """Duration that 90 % of the kernels do not exceed (linear interpolation)."""
    return float(np.quantile(device(profile).kernels().duration, 0.9)) / _US


@feature("gpu_idle_share", unit="fraction", needs="timeline", transform="logit", block="idle", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED)  # fmt: skip
def gpu_idle_share(profile: Profile) -> float:
    """1 - time with a kernel or copy running over the wall time of the measured steps; of several devices their
    mean."""
    found = device(profile)
    found.rank_steps()
    idle = [max(0.0, 1 - _spans(rows).length / wall) for wall, rows in _per_device(found)]
    if not idle:
        raise NotMeasuredError("the kernels have no time stamps")
    return float(np.mean(idle))


@feature("launch_gap_median", unit="us", needs="timeline", transform="log10", block="launch gaps", floor=0.1,
         origin=MEASURED)  # fmt: skip
def launch_gap_median(profile: Profile) -> float:
    """Median time between the end of a kernel and the start of the next on the busiest stream, within steps."""
    rows = device(profile).kernels()
    rows = rows.take(rows.placed() & (rows.stream != ABSENT))
    if not len(rows):
        raise NotMeasuredError("the kernels have no time stamps or streams")
    keys = np.stack([rows.rank, rows.device, rows.stream], axis=1)
    streams, place = np.unique(keys, axis=0, return_inverse=True)
    busiest = int(np.argmax(np.bincount(place.ravel(), weights=rows.duration, minlength=len(streams))))
    mine = rows.take(place.ravel() == busiest)
    order = np.argsort(mine.start, kind="stable")
    start, end, step = mine.start[order], (mine.start + mine.duration)[order], mine.step[order]
    gaps = (start[1:] - end[:-1])[step[1:] == step[:-1]]
    if not len(gaps):
        raise NotMeasuredError("no step has two kernels on the busiest stream")
    return float(np.median(np.maximum(gaps, 0))) / _US


@feature("top1_kernel_share", unit="fraction", needs="timeline", transform="logit", block="kernel concentration",
         floor=SHARE_FLOOR, origin=MEASURED)  # fmt: skip
def top1_kernel_share(profile: Profile) -> float:
    """Share of the kernel time that the kernel of most time takes, by name."""
    times = _times(profile)
    return ratio(times[0], times.sum(), "the kernels have no time")


@feature("kernels_for_80pct", unit="count", needs="timeline", transform="log", block="kernel concentration",
         origin=MEASURED)  # fmt: skip
def kernels_for_80pct(profile: Profile) -> float:
    """Kernels by name that make up 80 % of the kernel time."""
    times = _times(profile)
    return float(np.searchsorted(np.cumsum(times), 0.8 * times.sum() * (1 - 1e-12)) + 1)


def _times(profile: Profile) -> NDArray[np.float64]:
    """Kernel time by name, longest first."""
    rows = device(profile).kernels()
    return np.sort(sums(rows.name, rows.duration, len(rows.names)))[::-1]


@feature("comm_share", unit="fraction", needs="timeline", transform="logit", block="communication", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def comm_share(profile: Profile) -> float:
    """Time in which only communication runs over the wall time of the steps; of several devices their mean."""
    found = device(profile)
    found.rank_steps()
    exposed = []
    for wall, rows in _per_device(found):
        talk, copies = rows.is_in(COMMUNICATION), rows.is_in(COPY)
        alone = difference(_spans(rows.take(talk)), _spans(rows.take(~talk & ~copies)))
        exposed.append(alone.length / wall)
    if not exposed:
        raise NotMeasuredError("the kernels have no time stamps")
    return float(np.mean(exposed))


@feature("stream_overlap", unit="", needs="timeline", transform="log", block="streams", origin=MEASURED)
def stream_overlap(profile: Profile) -> float:
    """Kernel times added up over the time in which a kernel or copy runs, of all devices together."""
    rows = device(profile).work
    rows = rows.take(rows.placed())
    added = busy = 0
    for rank, place in set(zip(rows.rank.tolist(), rows.device.tolist(), strict=True)):
        mine = rows.take((rows.rank == rank) & (rows.device == place))
        added, busy = added + int(mine.duration.sum()), busy + _spans(mine).length
    return ratio(added, busy, "the kernels have no time stamps")


@feature("h2d_bytes_per_sample", unit="B/sample", needs="timeline", transform="log1p", block="host to device",
         origin=MEASURED)  # fmt: skip
def h2d_bytes_per_sample(profile: Profile) -> float:
    """Bytes that copies from host to device move in a step over the step's samples."""
    passname, info = pass_of(profile, "timeline")
    found, names = device(profile), ("memcpy htod", "[cuda memcpy htod", "copyhosttodevice", "memcpyhtod")
    if not info.samples:
        raise NotMeasuredError("the file does not tell how many samples a step consumes")
    to_device = np.array([name.lower().startswith(names) for name in found.work.names], np.bool_)
    copies = found.work.take(to_device[found.work.name])
    moved = whole(profile.columns("kernels", ["bytes"])["bytes"])[copies.row]
    if (moved == ABSENT).any():
        raise NotMeasuredError(f"copies of pass {passname} tell no bytes")
    return float(moved.sum()) / found.rank_steps() / info.samples


@feature("warps_launched_median", unit="warps", needs="timeline", transform="log2", block="warps", origin=MEASURED)
def warps_launched_median(profile: Profile) -> float:
    """Time-weighted median of the warps that a kernel launches: grid times block over 32, whole warps a block."""
    rows = device(profile).kernels()
    table = profile.columns("kernels", ["grid", "block"]).take(rows.row)
    pairs = zip(table["grid"].to_pylist(), table["block"].to_pylist(), rows.duration.tolist(), strict=True)
    sizes = [(int(np.prod(grid)) * -(-int(np.prod(block)) // 32), ns) for grid, block, ns in pairs if grid and block]
    if not sizes:
        raise NotMeasuredError("the record tells no launch grids")
    warps, time = zip(*sizes, strict=True)
    return weighted_median(warps, time)


@feature("dataloader_wait_share", unit="fraction", needs="timeline", transform="logit", block="data loader",
         floor=SHARE_FLOOR, origin=MEASURED)  # fmt: skip
def dataloader_wait_share(profile: Profile) -> Found:
    """Time in DataLoader's next, as its ranges in the trace tell, over the wall time of the steps."""
    passname, _ = pass_of(profile, "timeline")
    ops = profile.columns("ops", ["pass", "name", "step", "duration_ns"]).to_pandas()
    ops = ops[(ops["pass"] == passname) & ops["step"].notna()]
    waits = ops[ops["name"].astype(str).str.startswith("enumerate(DataLoader)#")]
    steps = profile.columns("steps", ["pass", "role", "duration_ns"]).to_pandas()
    wall = steps.loc[(steps["pass"] == passname) & (steps["role"] == "measured"), "duration_ns"].sum()
    if ops.empty or waits.empty or unmarked(profile, passname):
        raise NotMeasuredError("the trace has no ranges of a DataLoader in steps")
    return Found(ratio(waits["duration_ns"].sum(), wall, _NO_STEPS))
