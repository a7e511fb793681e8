"""Summaries written by hand in the form of docs/json.md: a usual one, empty ones, and one made to break a page."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import Any

import pytest

from wcbench.reports.model import Report
from wcbench.reports.profile_report import profile_report

OPERATORS: list[tuple[str, str, str, float]] = [
    # name, full category, paper's category, share of 8 ms; the shares add up to 1
    ("aten::mkldnn_convolution", "convolution", "convolution", 0.2125),
    ("aten::convolution_backward", "convolution", "convolution", 0.2),
    ("aten::grid_sampler_2d", "interpolation and sampling", "none of the eight", 0.125),
    ("aten::grid_sampler_2d_backward", "interpolation and sampling", "none of the eight", 0.1),
    ("aten::max_pool2d_with_indices", "pooling", "pooling", 0.0875),
    ("aten::addmm", "GEMM", "GEMM", 0.075),
    ("aten::mm", "GEMM", "GEMM", 0.05),
    ("aten::threshold_backward", "ReLU activation", "ReLU activation", 0.0375),
    ("aten::clamp_min", "ReLU activation", "ReLU activation", 0.025),
    ("aten::copy_", "memory copy", "memory copy", 0.025),
    ("aten::_foreach_add_", "optimizer", "element-wise", 0.025),
    ("aten::native_dropout", "random", "element-wise", 0.0125),
    ("aten::log_softmax", "softmax", "none of the eight", 0.0125),
    ("aten::add_", "element-wise", "element-wise", 0.00625),
    ("mystery::operator", "unknown", "unknown", 0.00375),
    ("aten::view", "data arrangement", "data arrangement", 0.0025),
]
TOTAL_NS = 8_000_000
MIB = 2**20
COUNTED = {"pass": "operators", "preset": "paper", "batch_size": 256, "device": "cpu"}


def _pass(**fields: Any) -> dict[str, Any]:
    usual = {
        "preset": "small",
        "settings": {},
        "batch_size": 64,
        "samples": 64,
        "precision": "float32",
        "device": "cpu",
        "tensors": "real",
        "seed": 0,
        "data_in_step": False,
        "seconds": 1.25,
    }
    return {**usual, **fields}


def _timed(median: float, q1: float, q3: float, overhead: float, **fields: Any) -> dict[str, Any]:
    times = {"step_ms_median": median, "step_ms_q1": q1, "step_ms_q3": q3, "samples_per_s": 64 / median * 1000}
    return _pass(steps=10, loss_first=2.3026, loss_last=1.875, overhead=overhead, **times, **fields)


def _shares(index: int) -> dict[str, float]:
    shares: dict[str, float] = {}
    for row in OPERATORS:
        shares[str(row[index])] = shares.get(str(row[index]), 0.0) + row[3]
    return shares


def _machine() -> dict[str, Any]:
    return {
        "cpu": {"model": "AMD EPYC 7B13", "usable_cores": 2, "memory_bytes": 8 * 1024**3, "reasons": {}},
        "gpus": [],
        "gpus_reason": "NVML is not installed",
        "platform": {"system": "Linux", "distribution": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0"},
        "python": {"version": "3.11.7"},
        "packages": {"torch": "2.14.1", "numpy": "2.3.0", "nvidia-ml-py": None},
        "wcbench": {"version": "0.1.0", "commit": "0123456789abcdef0123", "dirty": True},
    }


def _hotspots() -> dict[str, Any]:
    rows = [
        {"name": name, "category": full, "paper": paper, "time_ns": share * TOTAL_NS, "time_share": share, "calls": 2.0}
        | {"cumulative_share": total}
        for (name, full, paper, share), total in zip(OPERATORS, accumulate(row[3] for row in OPERATORS), strict=True)
    ]
    where = {"pass": "timeline", "preset": "small", "batch_size": 64, "device": "cpu"}
    return {**where, "of": "operator self time", "steps": 5, "total_ns": TOTAL_NS, "rows": rows}


def _categories() -> dict[str, Any]:
    return {
        "pass": "timeline",
        "preset": "small",
        "batch_size": 64,
        "device": "cpu",
        "of": "operator self time",
        "paper": {"batch normalization": 0.0, **_shares(2)},
        "full": {**_shares(1), "attention": 0.0, "recurrent": 0.0},
        "unknown_share": 0.00375,
        "unknown_names": ["mystery::operator"],
        "phases": {"forward": 0.4, "backward": 0.5, "optimizer": 0.0625, "other": 0.0375},
        "python_share": 0.1625,
    }


def _complexity() -> dict[str, Any]:
    return {
        **COUNTED,
        "tensors": "fake",
        "samples": 256,
        "params_total": 27_360,
        "params_trainable": 27_360,
        "params_bytes": 109_440,
        "params_shared": 0,
        "flops_matrix_forward": 375_000_000,
        "flops_matrix_backward": 749_000_000,
        "flops_matrix_step": 1_124_000_000,
        "flops_matrix_step_causal_half": 1_124_000_000,
        "flops_all_step": 1_500_000_000,
        "flops_all_forward": 500_000_000,
        "flops_all_backward": 900_000_000,
        "flops_matrix_forward_per_sample": 1_464_843.75,
        "macs_forward_per_sample": 732_421.875,
        "coverage_calls": 0.9412,
        "coverage_bytes": 0.98,
        "uncounted": [{"name": "custom::fused_conv", "calls": 11}],
        "operator_calls": 187,
        "bytes_read": 600 * MIB,
        "bytes_written": 400 * MIB,
    }


def _operators() -> dict[str, Any]:
    """As many calls, FLOPs and bytes as block `complexity` has."""
    work = [
        ("aten::convolution_backward", "backward", 12, 749_000_000, 749_000_000, 250, 150),
        ("aten::convolution", "forward", 6, 375_000_000, 375_000_000, 150, 100),
        ("aten::mul", "backward", 80, 0, 151_000_000, 100, 100),
        ("aten::threshold", "forward", 70, 0, 125_000_000, 60, 30),
        ("aten::_foreach_add_", "optimizer", 8, 0, 100_000_000, 40, 20),
        ("custom::fused_conv", "forward", 11, 0, 0, 0, 0),
    ]
    fields = ("name", "phase", "calls", "flops_matrix", "flops_all", "bytes_read", "bytes_written")
    rows = [dict(zip(fields, (*row[:5], row[5] * MIB, row[6] * MIB), strict=True)) for row in work]
    return {**COUNTED, "rows": rows}


def _modules() -> dict[str, Any]:
    tree = [  # module, depth, calls, matrix, all, parameters, share; the rows of depth 0 are the step
        ("(outside modules)", 0, 8, 0, 100_000_000, 0, 100 / 1500),
        ("model", 0, 179, 1_124_000_000, 1_400_000_000, 27_360, 1400 / 1500),
        ("model.localization", 1, 100, 624_000_000, 900_000_000, 20_000, 900 / 1500),
        ("model.localization.conv", 2, 60, 624_000_000, 700_000_000, 15_000, 700 / 1500),
        ("model.localization.conv.inner", 3, 30, 624_000_000, 690_000_000, 15_000, 690 / 1500),
        ("model.localization.conv.inner.deep", 4, 20, 624_000_000, 680_000_000, 15_000, 680 / 1500),
        ("model.classifier", 1, 79, 500_000_000, 500_000_000, 7_360, 500 / 1500),
    ]
    fields = ("module", "depth", "calls", "flops_matrix", "flops_all", "params", "share")
    moved = {"bytes_read": 300 * MIB, "bytes_written": 200 * MIB}
    return {**COUNTED, "rows": [{**dict(zip(fields, row, strict=True)), **moved} for row in tree]}


def _reuse(left: float) -> dict[str, Any]:
    """A locality of which ``left`` of the 1,000 MiB of operator bytes are left by the largest cache."""
    capacities = [2**exponent for exponent in range(18, 37)]
    ratios = [max(left, 1 - 0.1 * index) for index in range(len(capacities))]
    return {
        "operator_bytes": 1000 * MIB,
        "unique_bytes": 400 * MIB,
        "cold_bytes": 390 * MIB,
        "compulsory_bytes": 20 * MIB,
        "unplaced_bytes": 3 * MIB,
        "largest_operator_bytes": 64 * MIB,
        "traffic": [[size, ratio * 1000 * MIB] for size, ratio in zip(capacities, ratios, strict=True)],
        "miss_ratio": [[size, ratio] for size, ratio in zip(capacities, ratios, strict=True)],
        "wss_50": 8 * MIB,
        "wss_90": 128 * MIB,
        "wss_99": 256 * MIB,
        "reuse_classes": {"same chain": 0.75, "optimizer": 0.05, "forward to backward": 0.2, "other": 0.0},
        "reuse_count_mean": 2.5,
    }


def _model_memory() -> dict[str, Any]:
    classes = ("weight", "gradient", "optimizer state", "activation", "input", "workspace")
    live: dict[str, list[int]] = {"order": list(range(187, 374))}
    for number, name in enumerate(classes, start=1):
        live[name] = [number * MIB if index != 90 else 10 * number * MIB for index in range(187)]
    live["optimizer state"] = [0] * 187
    return {
        **COUNTED,
        "tensors": "fake",
        "peak_bytes": 180 * MIB,
        "peak_classes": {name: live[name][90] for name in classes},
        **_reuse(0.04),
        "allocator": _reuse(0.02),
        "fused": {"operators": 90, "operator_bytes": 700 * MIB, "groups": 12, "eager_operators": 160},
        "dag_width": 2.75,
        "dag_width_flops": 1.25,
        "dag_depth": 68,
        "live": live,
    }


def _roofline() -> dict[str, Any]:
    points = [
        {"name": row["name"], "flops": row["flops_all"], "bytes": moved, "intensity": row["flops_all"] / moved}
        for row in _operators()["rows"]
        if (moved := row["bytes_read"] + row["bytes_written"])
    ]
    return {
        "on": "h100-sxm",
        "dtype": "float32",
        "peak_flops": 66.9e12,
        "bandwidth": 3.35e12,
        "balance": 66.9e12 / 3.35e12,
        "intensity": 1_500 / 1048.576,
        "capacities": [[size, 1_500e6 / moved] for size, moved in _reuse(0.04)["traffic"]],
        "points": points,
        "memory_bound_share": 0.875,
        "time_ns": 313_000,
    }


def _primitives() -> dict[str, Any]:
    rows = [
        {
            "primitive": "convolution",
            "implementation": "jit:avx2",
            "direction": "forward_training",
            "shape": "mb64_ic1oc8_ih28oh22kh7sh1dh0ph0_iw28ow22kw7sw1dw0pw0",
            "memory": "src:f32::blocked:abcd::f0 wei:f32:a:blocked:Abcd8a::f0 dst:f32::blocked:aBcd8b::f0",
            "time_ns": 1_500_000.0,
            "time_share": 0.75,
            "calls": 2.0,
        },
        {
            "primitive": "reorder",
            "implementation": "jit:uni",
            "direction": None,
            "shape": "8x1x7x7",
            "memory": "src:f32::blocked:abcd::f0 dst:f32::blocked:Abcd8a::f0",
            "time_ns": 500_000.0,
            "time_share": 0.25,
            "calls": 4.0,
        },
    ]
    where = {"pass": "primitives", "preset": "small", "batch_size": 64, "device": "cpu"}
    of = {"of": "oneDNN primitive time", "steps": 5, "total_ns": 2_000_000, "operator_share": 0.25}
    return {**where, **of, "rows": rows}


def _measured_memory() -> dict[str, Any]:
    moments = [("start", 300, 310), ("built", 320, 330), ("warmup", 400, 450), ("steps", 410, 460)]
    rows = [
        {
            "device": "cpu",
            "moment": moment,
            "current_bytes": now * 2**20,
            "peak_bytes": peak * 2**20,
            "reserved_bytes": None,
        }
        for moment, now, peak in moments
    ]
    where = {"pass": "memory", "preset": "small", "batch_size": 64, "device": "cpu"}
    return {**where, "rows": rows, "peak_bytes": 460 * 2**20, "increase_bytes": 160 * 2**20}


def _steps() -> dict[str, Any]:
    warm = [31.5, 14.25]
    measured = [9.81, 9.6, 9.75, 10.1, 9.9, 9.62, 10.4, 9.81, 10.05, 9.5]
    rows = [
        {"index": index, "role": "warmup" if index < len(warm) else "measured", "duration_ns": round(ms * 1e6)}
        for index, ms in enumerate(warm + measured)
    ]
    return {"pass": "timing", "preset": "small", "batch_size": 64, "device": "cpu", "rows": rows}


def _scaling() -> dict[str, Any]:
    row = {"kind": "train", "phase": "all", "length": None, "recorded": True, "samples": [256, 512, 1024]}
    flops = {"quantity": "flops_all", "unit": "FLOP", "fixed": 1.5e6, "per_sample": 4.62e6, "error": 0.0}
    calls = {"quantity": "calls", "unit": "calls", "fixed": 251.0, "per_sample": 0.0, "error": 0.0125}
    forward = {**row, **flops, "phase": "forward", "per_sample": 1.55e6, "values": [1, 2, 3]}
    rows = [{**row, **flops, "values": [1, 2, 3]}, {**row, **calls, "values": [251] * 3}, forward]
    return {"pass": "operators", "preset": "paper", "batch_size": 256, "device": "cpu", "rows": rows}


def usual() -> dict[str, Any]:
    """A spatial transformer on a CPU, without power."""
    return {
        "schema": "wcbench.profile/1",
        "run": "runs/spatial-transformer/20261130T152945.000Z-0a1b2c3d",
        "task": "spatial-transformer",
        "variant": None,
        "suites": ["aibench-training-v1.1:DC-AI-C15"],
        "created": "2026-11-30T15:29:45.000+00:00",
        "command": ["wcbench", "profile", "spatial-transformer", "--set", "title=two words"],
        "wcbench": "0.1.0",
        "machine": _machine(),
        "notes": [
            {"about": "power", "text": "No GPU: NVML is not installed, and RAPL is not read."},
            {"about": "complexity", "text": "custom::fused_conv has no FLOP formula."},
        ],
        "passes": {
            "timing": _timed(9.81, 9.6125, 10.0875, 1.0),
            "timeline": _timed(13.2, 12.9, 13.6, 1.34),
            "operators": _pass(preset="paper", batch_size=256, samples=256, tensors="fake", seconds=0.31),
            "primitives": _pass(),
            "memory": _pass(),
        },
        "complexity": _complexity(),
        "scaling": _scaling(),
        "lookups": None,
        "operators": _operators(),
        "modules": _modules(),
        "memory": _model_memory(),
        "roofline": _roofline(),
        "hotspots": _hotspots(),
        "categories": _categories(),
        "primitives": _primitives(),
        "measured_memory": _measured_memory(),
        "power": None,
        "steps": _steps(),
    }


BLOCKS = (
    "complexity",
    "scaling",
    "lookups",
    "operators",
    "modules",
    "memory",
    "roofline",
    "hotspots",
    "categories",
    "primitives",
    "measured_memory",
    "power",
)


def nothing() -> dict[str, Any]:
    """A record of which no pass ended: only notes."""
    summary = usual()
    summary.update(dict.fromkeys(BLOCKS), passes={}, steps=None, suites=[], machine={}, command=[])
    summary["notes"] = [{"about": "timing", "text": "The task failed in its first step."}]
    return summary


def empty() -> dict[str, Any]:
    """Every block is there and holds nothing."""
    where = {"pass": "timeline", "preset": "small", "batch_size": 64, "device": "cpu"}
    summary = usual()
    summary.update(
        notes=[],
        complexity={**where, "params_total": None, "flops_matrix_step": None, "uncounted": []},
        hotspots={**where, "of": "kernel time", "steps": 0, "total_ns": None, "rows": []},
        categories={**where, "of": "kernel time", "paper": {}, "full": {}, "unknown_share": None, "unknown_names": []},
        primitives={**where, "of": "oneDNN primitive time", "steps": 0, "total_ns": None, "rows": []},
        operators={**where, "rows": []},
        modules={**where, "rows": []},
        memory={
            **where,
            "peak_bytes": None,
            "peak_classes": {},
            "traffic": [],
            "allocator": None,
            "live": {"order": []},
        },
        measured_memory={**where, "rows": [], "peak_bytes": None},
        roofline={"on": None, "dtype": None, "peak_flops": None, "bandwidth": None, "capacities": [], "points": []},
        power={**where, "devices": []},
        steps={**where, "rows": []},
    )
    return summary


HOSTILE = "<script>alert(1)</script>\"'&$x^2$\u202egnp.exe\x00\x1b[31m\n\u200b"
LONG = 10_000


def hostile() -> dict[str, Any]:
    """Sixty operators whose names try everything; two have 10,000 characters."""
    summary = usual()
    names = [f"{HOSTILE}{'k' * 160}{index:02d}"[:200] + f"{index:02d}" for index in range(60)]
    names[3], names[7] = HOSTILE + "A" * (LONG - len(HOSTILE)), "W" * LONG
    rows = [
        {
            "name": name,
            "category": HOSTILE if index == 5 else "GEMM",
            "paper": "GEMM",
            "time_ns": 1000.0 * (60 - index),
            "time_share": (60 - index) / 1830,
            "cumulative_share": sum(60 - other for other in range(index + 1)) / 1830,
            "calls": 1.0,
        }
        for index, name in enumerate(names)
    ]
    summary["hotspots"]["rows"] = rows
    summary["categories"]["unknown_names"] = names
    summary["categories"]["full"] = {HOSTILE: 0.75, "GEMM": 0.25}
    summary["primitives"]["rows"][0]["shape"] = HOSTILE * 300
    summary["operators"]["rows"] = [{**summary["operators"]["rows"][0], "name": name} for name in names]
    summary["modules"]["rows"] += [
        {**summary["modules"]["rows"][1], "module": f"model.{name}", "depth": 1} for name in names
    ]
    summary["complexity"]["uncounted"] = [{"name": name, "calls": 1} for name in names]
    summary["memory"]["peak_classes"] = {HOSTILE: 180 * MIB}
    summary["memory"]["live"] = {"order": [5], HOSTILE: [180 * MIB]}
    summary["memory"]["reuse_classes"] = {HOSTILE: 1.0}
    summary["memory"].update(traffic=[[2**20, 0], [2**21, None]], operator_bytes=0, compulsory_bytes=None)
    summary["roofline"]["on"] = summary["roofline"]["dtype"] = HOSTILE
    summary["roofline"]["points"] = [
        {"name": HOSTILE, "flops": None, "bytes": 1.0, "intensity": None},
        {"name": HOSTILE, "flops": 0, "bytes": 1.0, "intensity": 0.0},
    ]
    summary["notes"] = [{"about": HOSTILE, "text": HOSTILE * 100}]
    summary["task"], summary["variant"] = f"train{HOSTILE}.py", HOSTILE
    summary["run"], summary["command"] = HOSTILE, ["wcbench", HOSTILE]
    summary["machine"]["cpu"]["model"] = HOSTILE
    summary["machine"]["packages"][HOSTILE] = HOSTILE
    summary["passes"]["timing"]["device"] = HOSTILE
    summary["passes"]["timing"]["settings"] = {HOSTILE: HOSTILE}
    return summary


WHERE = {"pass": "timeline", "preset": None, "batch_size": None, "device": "cuda"}


def _gates() -> dict[str, Any]:
    names = ("utilization", "launches without work", "FLOP/s")
    fields = ("name", "held", "value", "limit", "unit", "text", "coverage")
    rows = [
        (names[0], True, 0.75, 1.0, "fraction", "The busiest device had something running for 75 % of its span.", 1.0),
        (names[1], False, 3, 0.0, "", "3 of 100 launches have no device record.", 1.0),
        (names[2], None, None, None, "", "Not checked: no FLOPs were counted.", None),
    ]
    listed = [dict(zip(fields, row, strict=True)) for row in rows]
    return {"checked": 2, "failed": 1, "not_checked": 1, "rows": listed}


def _activity() -> dict[str, Any]:
    groups = [
        {"active": ["computation"], "time_ns": 50_000, "span_share": 0.5},
        {"active": ["computation", "communication"], "time_ns": 25_000, "span_share": 0.25},
        {"active": [], "time_ns": 25_000, "span_share": 0.25},
    ]
    device = {"rank": 0, "device": "cuda:0", "calls": 40, "sum_ns": 100_000, "span_ns": 100_000, "busy_ns": 75_000}
    device |= {"idle_ns": 25_000, "utilization": 0.75, "concurrency": 4 / 3, "computation_ns": 75_000}
    device |= {"communication_ns": 25_000, "copy_ns": 0, "overlap_ns": 25_000, "overlap_share": 1.0}
    device |= {"no_timestamp": 1, "waiting_calls": 0, "waiting_ns": 0, "groups": groups}
    stream = {
        key: device[key] for key in ("rank", "device", "calls", "sum_ns", "span_ns", "utilization", "concurrency")
    }
    told = {"calls": 40, "sum_ns": 100_000, "utilization": 0.75, "devices": [device]}
    return {**WHERE, **told, "streams": [{**stream, "stream": 7}], "notes": ["1 of 40 executions has no timestamp."]}


def _ops() -> dict[str, Any]:
    row = {"name": "aten::mm", "category": "GEMM", "calls": 12, "total_ns": 900.0, "self_ns": 600.0, "self_share": 0.75}
    rows = [{**row, "device_ns": 5000.0}, {**row, "name": "aten::empty", "self_share": 0.25, "device_ns": 0.0}]
    told = {"calls": 24, "self_ns": 800, "ranks": 1, "names": 2, "device_unlinked_ns": 70.0}
    return {**WHERE, **told, "rows": rows}


def _totals() -> dict[str, Any]:
    row = {"kind": "runtime", "name": "cudaLaunchKernel", "device": None, "calls": 100, "total_ns": 4e5}
    row |= {"mean_ns": 4e3, "median_ns": 3900.0, "minimum_ns": 1e3, "maximum_ns": 9e3}
    return {**WHERE, "listed": False, "ranks": 1, "rows": [row]}


def _counters() -> dict[str, Any]:
    row = {"kernel": "k", "metric": "dram__bytes.sum", "unit": "B", "value": 512.0, "minimum": 500.0, "maximum": 520.0}
    row |= {"calls": 3, "missing": 1, "given": "dram__bytes.sum", "known": True, "time_ns": None, "time_value": None}
    known = {"value": 0.5, "reason": None, "metric": "m", "calls": 3, "coverage": 0.75, "remark": "at best"}
    five = {
        "achieved_occupancy": known,
        "ipc_efficiency": {**known, "value": None, "reason": "the record holds no ipc"},
    }
    return {**WHERE, "pass": "counters", "rows": [row], "unknown": ["own_metric"], "five": five}


def _allocations() -> dict[str, Any]:
    told = {"rank": 0, "moments": 3, "peak_bytes": 8 * MIB, "peak_ns": 1500, "start_bytes": MIB, "end_bytes": 2 * MIB}
    parts = {"peak_categories": {"activation": 7 * MIB, "parameter": MIB}, "start_categories": {"parameter": MIB}}
    return {**WHERE, "pass": "memory", **told, **parts, "time_ns": [0, 1500, 2000], "curve": {}}


def imported() -> dict[str, Any]:
    """A trace of a GPU with counters and a memory timeline, as `wcbench import` makes it."""
    whole = [{"name": "outside_kernel", "category": "GEMM", "time_ns": 60_000.0, "time_share": 0.6, "calls": 4.0}]
    told = {"basis": "steps", "ranks": 2, "rank_steps": 4, "coverage": 0.4, "waiting_calls": 5, "waiting_ns": 900.0}
    spots = {**_hotspots(), **WHERE, "of": "kernel time", "steps": 2, **told}
    spots["whole"] = {"calls": 40, "total_ns": 100_000.0, "rows": whole}
    unknown = dict.fromkeys(("preset", "batch_size", "samples", "precision", "seed"))
    times = {"step_ms_median": 12.5, "step_ms_q1": 12.0, "step_ms_q3": 13.0, "samples_per_s": None, "ranks": 2}
    loss = {"file": "/data/rank0.json", "what": "an event", "why": "its braces do not close", "count": 3, "offset": 17}
    summary = nothing()
    summary.update(
        task="rank0",
        source={
            "files": [
                {"path": f"/data/rank{rank}.json", "format": "kineto", "sha256": f"ab{rank}", "bytes": 4096 + rank}
                | {"rank": rank, "refused": None}
                for rank in range(2)
            ]
        },
        machine={"gpus": [{"name": "NVIDIA A100-SXM4-80GB"}] * 8, "world_size": 2},
        losses=[{**loss, "repaired": False}, {**loss, "why": "a time is turned round", "count": 2, "repaired": True}],
        lost={"missing": 3, "mended": 2, "deliberate": 0},
        tables={"kernels": 40, "ops": 24, "counters": 7},
        notes=[{"about": "timeline", "text": "350 ranges are left out."}],
        passes={
            "timeline": _pass(steps=2, device="cuda", **{**unknown, **times}),
            "counters": _pass(device="cuda", **unknown),
        },
        steps={**WHERE, "rows": [{**row, "rank": row["index"] % 2} for row in _steps()["rows"]]},
        hotspots=spots,
        categories={**_categories(), **WHERE, "of": "kernel time", "python_share": None},
        gates=_gates(),
        activity=_activity(),
        ops=_ops(),
        totals=_totals(),
        counters=_counters(),
        convergence=None,
        allocations=_allocations(),
    )
    return summary


def empty_import() -> dict[str, Any]:
    """Files were read and nothing of them is in the record."""
    summary = nothing()
    summary.update(source={"files": []}, losses=[], tables={}, notes=[], gates={"rows": []}, activity={**WHERE})
    summary.update(ops={**WHERE}, totals={**WHERE}, counters={**WHERE}, allocations={**WHERE})
    return summary


def hostile_import() -> dict[str, Any]:
    """Every text that a foreign file can bring tries everything."""
    summary = imported()
    summary["source"]["files"][0].update(path=f"{HOSTILE}/{HOSTILE * 200}", format=HOSTILE, refused=HOSTILE)
    summary["losses"][0].update(what=HOSTILE, why=HOSTILE * 100, file=HOSTILE)
    summary["machine"]["gpus"] = [{"name": HOSTILE}, {"name": None}, HOSTILE]
    summary["activity"]["devices"] = [
        {**summary["activity"]["devices"][0], "device": f"{HOSTILE}{i}"} for i in range(11)
    ]
    summary["activity"]["streams"] *= 60
    summary["activity"]["notes"] = [HOSTILE]
    summary["gates"]["rows"][1].update(text=HOSTILE, name=HOSTILE)
    summary["ops"]["rows"] = [{**summary["ops"]["rows"][0], "name": f"{HOSTILE}{i}"} for i in range(60)]
    summary["totals"]["rows"] = [{**summary["totals"]["rows"][0], "name": HOSTILE, "kind": HOSTILE}]
    summary["counters"]["rows"] = [{**summary["counters"]["rows"][0], "kernel": HOSTILE, "metric": HOSTILE}] * 60
    summary["counters"].update(unknown=[HOSTILE] * 20, five={HOSTILE: {"value": None, "reason": HOSTILE}})
    summary["allocations"]["peak_categories"] = {HOSTILE: MIB}
    summary["hotspots"]["whole"]["rows"][0]["name"] = HOSTILE * 300
    summary["passes"]["timeline"]["device"] = HOSTILE
    return summary


SUMMARIES = {
    "usual": usual,
    "nothing": nothing,
    "empty": empty,
    "hostile": hostile,
    "imported": imported,
    "empty import": empty_import,
    "hostile import": hostile_import,
}


@pytest.fixture
def summary() -> dict[str, Any]:
    return copy.deepcopy(usual())


@pytest.fixture
def foreign() -> dict[str, Any]:
    return copy.deepcopy(imported())


@pytest.fixture(params=list(SUMMARIES))
def any_summary(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SUMMARIES[request.param]()


@pytest.fixture
def hostile_report() -> Report:
    return profile_report(hostile())


@pytest.fixture(params=["hostile", "hostile import"])
def any_hostile_report(request: pytest.FixtureRequest) -> Report:
    return profile_report(SUMMARIES[request.param]())
