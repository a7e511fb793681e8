"""Records made by hand, small enough that every figure can be worked out on paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from wcbench.record import Loss, Note, PassInfo, Profile, new_profile
from wcbench.schema import table_schema, to_arrow

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
    """Rows as a table; the only process of a job is rank 0."""
    if "rank" in table_schema(name).column_names():
        rows = [{"rank": 0, **row} for row in rows]
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


# (operator, phase, module, covered, matrix-class FLOPs, all FLOPs) of one step: a chain in which operator i reads ten
# floats of storage i and writes ten of storage i + 1; storage 0 is a weight, the last one a gradient, and what lies
# between dies as soon as the next operator has read it
CHAIN: list[tuple[str, str, str | None, bool, int, int]] = [
    ("aten::addmm", "forward", "model.a", True, 3000, 3010),
    ("aten::relu", "forward", "model.a", True, 0, 0),
    ("aten::tanh", "forward", "model.a.act", True, 0, 10),
    ("aten::addmm", "forward", "model.head", True, 3000, 3010),
    ("mystery::gemm", "forward", "model", False, 0, 0),
    ("aten::sum", "forward", None, True, 0, 10),
    ("aten::mm", "backward", "model.head", True, 2000, 2000),
    ("aten::tanh_backward", "backward", "model.a.act", True, 0, 30),
    ("aten::mm", "backward", "model.a", True, 3000, 3000),
    ("aten::mm", "backward", "model.a", True, 3000, 3000),
]


def tensor(storage: int, elements: int = 10, **changes: Any) -> dict[str, Any]:
    """A row of float32 numbers from the storage's start."""
    form = {"offset": 0, "shape": [elements], "stride": [1], "dtype": "float32"}
    return {"storage": storage, **form, **changes}


def access(storage: int, elements: int = 10, *, write: bool = False, **changes: Any) -> dict[str, Any]:
    own = {"write": write, "kind": "contiguous", "nbytes": 4 * elements}
    return {**tensor(storage, elements), **own, **changes}


def operator_row(order: int, accesses: Rows, **changes: Any) -> dict[str, Any]:
    """One operator call; its tensors and bytes are those of its accesses."""
    sides = {write: [a for a in accesses if a["write"] == write] for write in (False, True)}
    keys = ("storage", "offset", "shape", "stride", "dtype")
    inputs, outputs = ([{"version": 0, **{key: a[key] for key in keys}} for a in sides[w]] for w in (False, True))
    values = {
        "step": 0,
        "kind": "train",
        "order": order,
        "name": "aten::add",
        "overload": "Tensor",
        "phase": "forward",
        "module": None,
        "covered": True,
        "flops_matrix": 0,
        "flops_all": 0,
        "bytes_read": sum(a["nbytes"] for a in sides[False]),
        "bytes_written": sum(a["nbytes"] for a in sides[True]),
        "inputs": inputs,
        "outputs": outputs,
        "accesses": list(accesses),
    }
    row = {**values, **changes}
    return {"flops_matrix_half": row["flops_matrix"], **row}


def operator_rows(calls: Sequence[tuple[str, str, str | None, bool, int, int]] = CHAIN, step: int = 0) -> Rows:
    rows = []
    for i, (name, phase, module, covered, matrix, flops) in enumerate(calls):
        order = step * len(calls) + i
        work = {"flops_matrix": matrix, "flops_all": flops} if covered else {"flops_matrix": None, "flops_all": None}
        told = {"name": name, "phase": phase, "module": module, "covered": covered, "step": step, **work}
        rows.append(operator_row(order, [access(i), access(i + 1, write=True)], **told))
    return rows


def storage_row(number: int, nbytes: int, role: str, born: int | None = None, died: int | None = None) -> Any:
    return {"id": number, "nbytes": nbytes, "role": role, "born": born, "died": died}


def storage_rows(length: int = len(CHAIN)) -> Rows:
    between = [storage_row(i, 40, "workspace", i - 1, i + 1) for i in range(1, length)]
    return [storage_row(0, 40, "weight"), *between, storage_row(length, 40, "gradient", length - 1)]


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
            "operators": info(preset="paper", tensors="fake", steps=1, samples=8, batch_size=8),
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
            "operators": {"operators": operator_rows()},
            "storages": {"operators": storage_rows()},
            "parameters": {"operators": parameter_rows()},
            "memory": {"memory": memory_rows()},
            "power": {"timing": power_rows()},
        },
        [Note("power", "a note")],
    )


def foreign(
    passes: Mapping[str, PassInfo],
    tables: Mapping[str, Mapping[str, Rows]],
    machine: Mapping[str, Any] | None = None,
    losses: Sequence[Loss] = (),
) -> Profile:
    """A record as an import makes it: it has a source, and a machine as far as the files tell of one."""
    made = record(passes, tables)
    told = {"files": [{"path": "/tmp/trace.json", "format": "kineto", "sha256": "00", "bytes": 7, "rank": None}]}
    manifest = dataclasses.replace(
        made.manifest, source=told, machine=dict(machine or {}), losses=tuple(losses), suites=(), command=()
    )
    return Profile(manifest, {name: made.arrow(name) for name in made.tables})


def foreign_info(**changes: Any) -> PassInfo:
    """Of a file that tells no conditions."""
    told = dict.fromkeys(("preset", "batch_size", "samples", "precision", "seed"))
    return info(**{**told, "settings": {}, "torch": {}, "device": "cuda", "steps": 1, "warmup": 0, **changes})


def device_rows(calls: Sequence[tuple[str, int | None, int]], **more: Any) -> list[dict[str, Any]]:
    """Kernels from (name, start, duration), on stream 7 of cuda:0 in step 0 unless ``more`` says otherwise."""
    common = {"device": "cuda:0", "stream": 7, "step": 0, "phase": "other", **more}
    return [{**common, "name": name, "start_ns": start, "duration_ns": ns} for name, start, ns in calls]


class Made:
    """What a test makes records with."""

    foreign = staticmethod(foreign)
    foreign_info = staticmethod(foreign_info)
    device_rows = staticmethod(device_rows)

    info = staticmethod(info)
    record = staticmethod(record)
    step_rows = staticmethod(step_rows)
    kernel_rows = staticmethod(kernel_rows)
    op_rows = staticmethod(op_rows)
    primitive_rows = staticmethod(primitive_rows)
    access = staticmethod(access)
    operator_row = staticmethod(operator_row)
    operator_rows = staticmethod(operator_rows)
    storage_row = staticmethod(storage_row)
    storage_rows = staticmethod(storage_rows)
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
