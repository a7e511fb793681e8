"""Rates against the most that the device can do: a rate above its peak is a wrong count or a wrong time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench import devices
from wcbench.analysis.complexity import complexity
from wcbench.analysis.executions import ABSENT, COPY, Executions, is_text, whole
from wcbench.analysis.gates import Gate, unchecked
from wcbench.analysis.hotspots import DEVICE_TIME, hotspots
from wcbench.devices import Device

if TYPE_CHECKING:
    from wcbench.record import Profile

LEAST_NS = 10_000
"""Copies shorter than this are not asked: cut to whole microseconds, their time is wrong by more than a tenth."""

PERCENT = 101.0
"""Counters of a share of the peak pass 100 by a little where they were collected in several replays."""

TOLERANCE = 1.05
"""Clocks boost, and published bandwidths are rounded."""

_DRAM = re.compile(r"^(?:dram_|dram__|fbpa__)", re.IGNORECASE)
_PRECISION = {"fp32": ("tf32", "float32"), "bf16": ("bfloat16",), "fp16": ("float16",), "fp64": ("float64",)}


@dataclass(frozen=True)
class _Gpu:
    """The record's device with its peaks, or why these are not known."""

    device: Device | None
    why: str


def peak_gates(profile: Profile, passname: str, rows: Executions | None) -> Iterator[Gate]:
    """FLOP/s of the step, bytes/s of copies, and rates and shares that hardware counters give."""
    gpu = _gpu(profile, passname)
    yield _flops(profile, passname, gpu)
    yield _copies(profile, rows, gpu)
    table = profile.columns("counters", ["metric", "unit", "value"])
    rates = is_text(table["unit"], "B/s") | is_text(table["unit"], "%")
    counters = table.filter(rates & table["value"].is_valid().to_numpy()).to_pandas()
    counters = counters.astype({"metric": str, "unit": str})
    yield _bandwidth(counters, gpu)
    yield _percent(counters)


def _gpu(profile: Profile, passname: str) -> _Gpu:
    """The GPU of the pass, of another pass where there is none such; all its GPUs must be of one kind to be told."""
    gpus = [gpu for gpu in profile.manifest.machine.get("gpus") or () if isinstance(gpu, dict) and gpu.get("name")]
    if not gpus:
        return _Gpu(None, "the name of the GPU is not known")
    info = profile.manifest.passes.get(passname)
    index = "" if _several_files(profile) else (info.device if info else "").partition(":")[2]
    chosen = gpus[int(index)] if index.isdigit() and int(index) < len(gpus) else gpus[0]
    if not index.isdigit() and len({gpu["name"] for gpu in gpus}) > 1:
        return _Gpu(None, "it ran on GPUs of several kinds")
    found = devices.find(str(chosen["name"]), chosen.get("memory_bytes"), chosen.get("units"))
    if found is None:
        return _Gpu(None, f"no peaks of '{chosen['name']}' are known (wcbench/devices.toml)")
    return _Gpu(found, "")


def _several_files(profile: Profile) -> bool:
    """Whether the GPUs can be of several machines, so that a device's number does not tell its place among them."""
    return len((profile.manifest.source or {}).get("files") or ()) > 1


def _flops(profile: Profile, passname: str, gpu: _Gpu) -> Gate:
    name = "FLOP/s"
    work, hot = complexity(profile), hotspots(profile, passname=passname)
    if work is None or not work.coverage_calls:
        return unchecked(name, "no FLOPs were counted")
    if hot is None or hot.of != DEVICE_TIME or hot.basis != "steps" or not hot.total_ns:
        return unchecked(name, "there is no kernel time of a step")
    theirs, ours = (profile.manifest.passes[p] for p in ("operators", passname))
    if (theirs.preset, theirs.batch_size) != (ours.preset, ours.batch_size) or ours.batch_size is None:
        return unchecked(name, "FLOPs and kernel time are of different presets or batches")
    if gpu.device is None:
        return unchecked(name, gpu.why)
    types = _PRECISION.get(str(ours.precision), devices.DTYPES)
    peak = max((rate for dtype in types if (rate := gpu.device.peak(dtype)) is not None), default=None)
    if peak is None:
        return unchecked(name, f"no peak of {gpu.device.name} is known for {ours.precision}")
    rate = work.flops_all_step / (hot.total_ns / 1e9)
    text = f"{rate / 1e12:.3g} TFLOP/s in kernels; {gpu.device.name} does {peak / 1e12:.3g} at most."
    return Gate(name, rate <= TOLERANCE * peak, rate, peak, "FLOP/s", text, work.coverage_calls)


def _copies(profile: Profile, rows: Executions | None, gpu: _Gpu) -> Gate:
    """Copies and fills that pass the last-level cache; within it they may be faster than memory."""
    name = "copies"
    if rows is None:
        return unchecked(name, "no work of a device was recorded")
    copies = rows.take(rows.is_in(COPY))
    nbytes = whole(profile.columns("kernels", ["bytes"])["bytes"])[copies.row]
    told = nbytes != ABSENT
    if not told.any():
        return unchecked(name, "no copy tells its bytes")
    if gpu.device is None:
        return unchecked(name, gpu.why)
    cache = max(gpu.device.caches().values(), default=0)
    asked = told & (copies.duration >= LEAST_NS) & (nbytes > cache)
    if not asked.any():
        return unchecked(name, "every copy or fill is too short, or so small that a cache holds it")
    rate = float((nbytes[asked] / (copies.duration[asked] / 1e9)).max())
    peak = gpu.device.bandwidth
    text = f"The fastest copy moves {rate / 1e9:.3g} GB/s; the memory of {gpu.device.name} gives {peak / 1e9:.4g}."
    coverage = float(nbytes[asked].sum() / nbytes[told].sum())
    return Gate(name, rate <= TOLERANCE * peak, rate, peak, "B/s", text, coverage)


def _bandwidth(counters: pd.DataFrame, gpu: _Gpu) -> Gate:
    name = "counters of bandwidth"
    rates = counters[(counters["unit"] == "B/s") & counters["metric"].str.match(_DRAM)]
    if rates.empty:
        return unchecked(name, "no counter gives the bandwidth of device memory")
    if gpu.device is None:
        return unchecked(name, gpu.why)
    worst, peak = rates.iloc[int(rates["value"].to_numpy().argmax())], gpu.device.bandwidth
    value = float(worst["value"])
    text = f"{worst['metric']} reaches {value / 1e9:.4g} GB/s; {gpu.device.name} gives {peak / 1e9:.4g}."
    return Gate(name, value <= TOLERANCE * peak, value, peak, "B/s", text, 1.0)


def _percent(counters: pd.DataFrame) -> Gate:
    name = "counters in per cent"
    shares = counters[(counters["unit"] == "%") & counters["metric"].str.contains("pct_of_peak", regex=False)]
    if shares.empty:
        return unchecked(name, "no counter gives a share of a peak")
    worst = shares.iloc[int(shares["value"].to_numpy().argmax())]
    value = float(worst["value"])
    text = f"The greatest share of a peak is {value:.4g} % ({worst['metric']})."
    return Gate(name, value <= PERCENT, value, PERCENT, "%", text, 1.0)


__all__ = ["peak_gates"]
