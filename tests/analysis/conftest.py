"""Records made by hand, small enough that every figure can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from wcbench.record import Note, PassInfo, Profile, new_profile
from wcbench.schema import to_arrow

Rows = Sequence[Mapping[str, Any]]


def info(**changes: Any) -> PassInfo:
    values: dict[str, Any] = {
        "preset": "small",
        "settings": {"batch_size": 4},
        "batch_size": 4,
        "samples": 4,
        "precision": "fp32",
        "device": "cpu",
        "tensors": "real",
        "seed": 0,
        "steps": 2,
        "warmup": 1,
        "seconds": 1.5,
        "torch": {"threads": 2},
    }
    return PassInfo(**{**values, **changes})


def table(name: str, rows: Rows, passname: str) -> pa.Table:
    keys = {key: None for row in rows for key in row}
    return to_arrow(name, {key: [row.get(key) for row in rows] for key in keys}, passname)


def record(
    passes: Mapping[str, PassInfo], tables: Mapping[str, Mapping[str, Rows]], notes: Sequence[Note] = ()
) -> Profile:
    """A record from pass infos and rows: ``tables[table][pass]`` is a list of rows."""
    arrow = {
        name: pa.concat_tables([table(name, rows, passname) for passname, rows in parts.items()]).unify_dictionaries()
        for name, parts in tables.items()
    }
    return new_profile(
        task="hand-made",
        variant=None,
        suites=["aibench-training-v1.1"],
        machine={"cpu": {"name": "abacus"}, "gpus": []},
        command=["wcbench", "profile"],
        passes=passes,
        tables=arrow,
        notes=notes,
    )


def step_rows(durations: Sequence[int], role: str = "measured", losses: Sequence[float | None] | None = None) -> Rows:
    losses = losses or [0.5] * len(durations)
    return [
        {"index": i, "role": role, "kind": "train", "duration_ns": ns, "samples": 4, "loss": loss}
        for i, (ns, loss) in enumerate(zip(durations, losses, strict=True))
    ]


# (operator, self time, step, phase); 1000 ns of operators in each step, and a giant outside them
HOST = [
    ("aten::addmm", 600, 0, "forward"),
    ("aten::relu", 100, 0, "forward"),
    ("aten::mm", 200, 0, "backward"),
    ("mystery::riddle", 50, 0, "forward"),
    ("autograd::engine::evaluate_function: AddmmBackward0", 30, 0, "backward"),
    ("aten::add_", 20, 0, "optimizer"),
    ("aten::addmm", 400, 1, "forward"),
    ("aten::relu", 100, 1, "forward"),
    ("aten::mm", 300, 1, "backward"),
    ("mystery::riddle", 150, 1, "forward"),
    ("autograd::engine::evaluate_function: AddmmBackward0", 30, 1, "backward"),
    ("aten::add_", 20, 1, "optimizer"),
    ("aten::sort", 50_000, None, "other"),
]


def kernel_rows(calls: Sequence[tuple[str, int, int | None, str]] = HOST, device: str = "cpu") -> Rows:
    return [
        {"name": name, "rank": 0, "device": device, "start_ns": i, "duration_ns": ns, "step": step, "phase": phase}
        for i, (name, ns, step, phase) in enumerate(calls)
    ]


def op_rows(calls: Sequence[tuple[str, int, int | None, str]] = HOST, thread: int = 1) -> Rows:
    return [
        {
            "name": name,
            "thread": thread,
            "start_ns": i,
            "duration_ns": ns,
            "self_ns": ns,
            "depth": 0,
            "step": step,
            "phase": phase,
        }
        for i, (name, ns, step, phase) in enumerate(calls)
    ]


PRIMITIVES = [
    ("convolution", "jit:avx2", "forward_training", "a", "mb4", 100, 0),
    ("convolution", "jit:avx2", "forward_training", "a", "mb4", 300, 1),
    ("reorder", "jit:uni", "undef", "b", "8x3", 100, 0),
]


def primitive_rows() -> Rows:
    keys = ("primitive", "implementation", "direction", "memory", "shape", "duration_ns", "step")
    return [{**dict(zip(keys, row, strict=True)), "attributes": ""} for row in PRIMITIVES]


COUNTS = [
    ("aten::addmm", "forward", 2, True, 6000),
    ("aten::mm", "backward", 3, True, 8000),
    ("mystery::gemm", "forward", 1, True, None),
    ("aten::relu", "forward", 4, False, None),
]


def count_rows(kind: str = "train") -> Rows:
    keys = ("name", "phase", "calls", "matrix_class", "flops_matrix")
    return [{"kind": kind, **dict(zip(keys, row, strict=True))} for row in COUNTS]


PARAMETERS = [
    ("a.weight", [10, 5], True, None),
    ("a.bias", [10], False, None),
    ("head.weight", [10, 5], True, "model.a.weight"),
]


def parameter_rows() -> Rows:
    rows = []
    for name, shape, trainable, shared in PARAMETERS:
        numel = shape[0] * (shape[1] if len(shape) > 1 else 1)
        rows.append(
            {
                "model": "model",
                "name": name,
                "shape": shape,
                "dtype": "float32",
                "numel": numel,
                "nbytes": 4 * numel,
                "trainable": trainable,
                "shared_with": shared,
            }
        )
    return rows


def power_rows() -> Rows:
    second = 1_000_000_000
    start = 1_796_000_000 * second
    common = {"utilization": 0.5, "memory_used_bytes": 7, "sm_clock_hz": 1_000_000_000, "temperature_c": 40.0}
    readings = [(0, 100.0, 10.0), (1, None, 150.0), (2, 300.0, 410.0)]
    rows: list[dict[str, Any]] = [
        {"device": 0, "time_ns": start + t * second, "watts": w, "energy_j": j, **common} for t, w, j in readings
    ]
    rows[1] |= {"utilization": 1.0, "memory_used_bytes": 9, "sm_clock_hz": None, "temperature_c": 60.0}
    return [*rows, {"device": 1, "time_ns": start, "watts": None}]


def memory_rows() -> Rows:
    sizes = {"start": (100, 110), "built": (150, 180), "warmup": (200, 450), "steps": (210, 400)}
    return [
        {"moment": moment, "device": "cpu", "current_bytes": current, "peak_bytes": peak}
        for moment, (current, peak) in sizes.items()
    ]


def full_record() -> Profile:
    """A record of every pass on a CPU host."""
    warm = step_rows([9_000_000], "warmup")
    bare = step_rows([500, 3000, 1000], "bare")
    return record(
        {
            "complexity": info(preset="paper", tensors="fake", steps=1, samples=8, batch_size=8),
            "memory": info(),
            "timing": info(steps=5),
            "timeline": info(),
            "primitives": info(),
        },
        {
            "steps": {
                "memory": step_rows([1000, 1000]),
                "timing": [*warm, *step_rows([1_000_000, 2_000_000, 3_000_000, 4_000_000, 100_000_000])],
                "timeline": [*warm, *bare, *step_rows([1250, 1250])],
                "primitives": [*bare, *step_rows([4000, 6000])],
            },
            "kernels": {"timeline": kernel_rows()},
            "ops": {"timeline": op_rows()},
            "primitives": {"primitives": primitive_rows()},
            "operator_counts": {"complexity": count_rows()},
            "parameters": {"complexity": parameter_rows()},
            "memory": {"memory": memory_rows()},
            "power": {"timing": power_rows()},
        },
        [Note("power", "a note")],
    )


class Made:
    """What a test makes records with."""

    info = staticmethod(info)
    record = staticmethod(record)
    step_rows = staticmethod(step_rows)
    kernel_rows = staticmethod(kernel_rows)
    op_rows = staticmethod(op_rows)
    primitive_rows = staticmethod(primitive_rows)
    count_rows = staticmethod(count_rows)
    parameter_rows = staticmethod(parameter_rows)
    power_rows = staticmethod(power_rows)
    memory_rows = staticmethod(memory_rows)
    full = staticmethod(full_record)


@pytest.fixture(scope="session")
def made() -> type[Made]:
    return Made


@pytest.fixture
def full() -> Profile:
    return full_record()


@pytest.fixture
def timeline() -> Callable[..., Profile]:
    """A record of a timeline: ``timeline(kernels, ops=..., steps=..., durations=...)``."""

    def make(kernels: Rows, ops: Rows = (), durations: Sequence[int] = (1250, 1250), **changes: Any) -> Profile:
        tables = {"kernels": {"timeline": kernels}, "steps": {"timeline": step_rows(durations)}}
        if ops:
            tables["ops"] = {"timeline": ops}
        return record({"timeline": info(**{"steps": len(durations), **changes})}, tables)

    return make
