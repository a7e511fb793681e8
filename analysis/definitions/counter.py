"""Features of hardware counters: AIBench's five, and others that a file of Nsight Compute or nvprof holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wcbench.analysis.counters import aibench_five, counters
from wcbench.analysis.definitions.base import MEASURED, SHARE_FLOOR, Found, NotMeasuredError, feature, once, pass_of

if TYPE_CHECKING:
    from wcbench.record import Profile

_FIVE = "AIBench Training, ISPASS 2021"
_BY_CALLS = "each execution counts once: the file tells no durations"


def _five(profile: Profile, name: str) -> Found:
    """One of the five, kernels weighted by their time (METHOD 4.3) where the file tells it, else by executions."""
    pass_of(profile, "counters")
    by_time = once(profile, "five by time", lambda: aibench_five(profile, weight="time"))[name]
    by_calls = once(profile, "five by calls", lambda: aibench_five(profile))[name]
    found, words = (by_calls, _BY_CALLS) if by_time.value is None else (by_time, "")
    if found.value is None:
        raise NotMeasuredError(found.reason or "the record has no such counter")
    return Found(found.value, remark="; ".join(filter(None, (words, found.remark))))


@feature("achieved_occupancy", unit="fraction", needs="counters", transform="logit", block="occupancy", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED, reference=_FIVE)  # fmt: skip
def achieved_occupancy(profile: Profile) -> Found:
    """Active warps over the most that a multiprocessor holds."""
    return _five(profile, "achieved_occupancy")


@feature("ipc_efficiency", unit="fraction", needs="counters", transform="logit", block="ipc", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED, reference=_FIVE)  # fmt: skip
def ipc_efficiency(profile: Profile) -> Found:
    """Instructions executed per cycle over the most that a multiprocessor issues."""
    return _five(profile, "ipc_efficiency")


@feature("gld_efficiency", unit="fraction", needs="counters", transform="log", block="coalescing", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED, reference=_FIVE)  # fmt: skip
def gld_efficiency(profile: Profile) -> Found:
    """Bytes that global loads asked for over those transferred; may exceed 1 where a warp broadcasts."""
    return _five(profile, "gld_efficiency")


@feature("gst_efficiency", unit="fraction", needs="counters", transform="log", block="coalescing", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED, reference=_FIVE)  # fmt: skip
def gst_efficiency(profile: Profile) -> Found:
    """The same of global stores."""
    return _five(profile, "gst_efficiency")


@feature("dram_utilization", unit="fraction", needs="counters", transform="logit", block="dram", tier="core",
         floor=SHARE_FLOOR, origin=MEASURED, reference=_FIVE)  # fmt: skip
def dram_utilization(profile: Profile) -> Found:
    """Throughput of device memory over its peak; nvprof knows it in tenths."""
    return _five(profile, "dram_utilization")


def _mean(profile: Profile, metric: str, unit: str, over: float) -> Found:
    """Mean of a metric over kernels, by time where all durations are known, else by executions."""
    pass_of(profile, "counters")
    found = once(profile, "counters", lambda: counters(profile))
    if found is None:
        raise NotMeasuredError("the record holds no counters")
    rows = found.rows
    mine = rows[(rows["metric"] == metric) & (rows["unit"] == unit) & (rows["calls"] > 0)].drop_duplicates("kernel")
    if mine.empty:
        raise NotMeasuredError(f"the record holds no value of {metric}")
    timed = bool(mine["time_ns"].notna().all())
    value, weight = ("time_value", "time_ns") if timed else ("value", "calls")
    mean = float((mine[value] * mine[weight]).sum() / mine[weight].sum())
    return Found(mean / over, remark="" if timed else _BY_CALLS)


@feature("l1_hit", unit="fraction", needs="counters", transform="logit", block="cache hits", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def l1_hit(profile: Profile) -> Found:
    """Share of sectors found in the first cache."""
    return _mean(profile, "l1tex__t_sector_hit_rate.pct", "%", 100)


@feature("l2_hit", unit="fraction", needs="counters", transform="logit", block="cache hits", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def l2_hit(profile: Profile) -> Found:
    """Share of sectors found in the second cache."""
    return _mean(profile, "lts__t_sector_hit_rate.pct", "%", 100)


@feature("tensor_util", unit="fraction", needs="counters", transform="logit", block="tensor pipe", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def tensor_util(profile: Profile) -> Found:
    """Cycles in which the tensor pipe is active."""
    return _mean(profile, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", 100)


@feature("branch_eff", unit="fraction", needs="counters", transform="logit", block="divergence", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def branch_eff(profile: Profile) -> Found:
    """Share of branches that all threads of a warp take alike."""
    return _mean(profile, "smsp__sass_average_branch_targets_threads_uniform.pct", "%", 100)


@feature("warp_exec_eff", unit="fraction", needs="counters", transform="logit", block="divergence", floor=SHARE_FLOOR,
         origin=MEASURED)  # fmt: skip
def warp_exec_eff(profile: Profile) -> Found:
    """Active threads per instruction of a warp over its 32."""
    return _mean(profile, "smsp__thread_inst_executed_per_inst_executed.ratio", "", 32)


@feature("sectors_per_request_ld", unit="sectors", needs="counters", transform="log2", block="coalescing",
         origin=MEASURED)  # fmt: skip
def sectors_per_request_ld(profile: Profile) -> Found:
    """Sectors of 32 bytes per load of a warp: 4 for coalesced float32, 32 for scattered."""
    return _mean(profile, "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "", 1)
