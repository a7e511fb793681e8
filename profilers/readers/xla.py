"""What TensorFlow's and XLA's profiler means by its planes, lines and stats, in XPlane files and in Chrome traces.

A device is a plane ("/device:GPU:0"), and a line of it is one of two things: work as it ran ("Stream #7(Compute)" of a
GPU, "XLA Ops" of a TPU), or a view derived from that work ("XLA Modules", "Steps", "Framework Ops", "Source code",
and of a GPU also "XLA Ops"). Views overlap the work that they are derived from and never count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wcbench.profilers.readers.timeline import ABSENT

_HOSTS = {"/host:CPU", "/host:CUPTI", "/host:ROCTRACER"}
_DEVICE = re.compile(r"/device:(GPU|TPU):([0-9]{1,6})(?: \(.*\))?")
_STREAM = re.compile(r"Stream #([0-9]{1,18})(?![0-9])")
_TPU_WORK = "XLA Ops"
_STEPS = "Steps"
_TF_OP = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_.\\/>-]*):([A-Z_][A-Za-z0-9_]*)")
"""How TensorFlow's executor names a call: path of the node, colon, type of the operator."""

_NO_WORK_STATS = ("memalloc_details", "memfree_details", "memoryresidency_details")
_NO_WORK = {"MemoryAlloc", "MemoryFree", "MemoryResidency", "Synchronization", "Overhead", "HostRegister"}
_MAX_NUMBER = 1 << 63

STATS = frozenset(
    [
        *("correlation_id", "kernel_details", "theoretical_occupancy_pct", "memcpy_details", "memset_details"),
        *("hlo_op", "hlo_module", "tf_op", "name", "step_num", "gpu_device_name", "memory_size"),
        *_NO_WORK_STATS,
    ]
)
"""Stats that are looked at, in lower case."""

Stats = Mapping[str, Any]


@dataclass(frozen=True)
class Device:
    """A device that has a plane: a GPU or a TPU."""

    is_tpu: bool
    index: int

    @property
    def label(self) -> str:
        """GPUs are called cuda:N, those of AMD too, as torch does."""
        return f"{'tpu' if self.is_tpu else 'cuda'}:{self.index}"


def device(plane: str) -> Device | None:
    """The device whose plane this is; None for other planes."""
    found = _DEVICE.fullmatch(plane)
    return None if found is None else Device(found.group(1) == "TPU", int(found.group(2)))


def is_host(plane: str) -> bool:
    """Whether a plane holds calls on the host: threads, and launches that CUPTI or roctracer saw there."""
    return plane.partition(" (")[0] in _HOSTS


def stream_of(of: Device, line: str) -> int | None:
    """The stream whose work a line of a device holds, ABSENT for a TPU's only one; None for derived lines."""
    if of.is_tpu:
        return ABSENT if line == _TPU_WORK else None
    found = _STREAM.match(line)
    return int(found.group(1)) if found else None


def is_steps(line: str) -> bool:
    return line == _STEPS


def executor_call(name: str) -> tuple[str, str] | None:
    """Path and type of an operator that TensorFlow's executor calls; None for any other name."""
    found = _TF_OP.fullmatch(name) if ":" in name and len(name) < 4096 else None
    return (found.group(1), found.group(2)) if found else None


def is_work(name: str, stats: Stats) -> bool:
    """Whether a record of a stream is work: management of memory and waiting are not."""
    return name not in _NO_WORK and stats.keys().isdisjoint(_NO_WORK_STATS)


# --- stats ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """How a kernel was launched; ABSENT or None where its details do not tell."""

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int = ABSENT
    shared_bytes: int = ABSENT
    occupancy: float | None = None


@lru_cache(maxsize=1 << 14)
def launch(details: str) -> Launch:
    """The stat kernel_details: ``regs:32 static_shared:0 dynamic_shared:48 grid:8,1,1 block:256,1,1 occ_pct:50``.

    Of AMD: group_mem is shared memory of a block, and grid counts blocks there too (XLA divides the work items).
    """
    pairs = _pairs(details)
    shared = [whole(pairs.get(key)) for key in ("static_shared", "dynamic_shared", "shm", "group_mem")]
    known = [size for size in shared if size is not None]
    registers = whole(pairs.get("regs"))
    return Launch(
        _extents(pairs.get("grid")),
        _extents(pairs.get("block")),
        ABSENT if registers is None else registers,
        sum(known) if known else ABSENT,
        occupancy(pairs.get("occ_pct")),
    )


def occupancy(percent: Any) -> float | None:
    """A fraction. 0 is what XLA writes where it could not compute it (every kernel on AMD), so it is absent."""
    try:
        value = float(percent)
    except (TypeError, ValueError):
        return None
    return value / 100 if 0 < value <= 100 else None


@lru_cache(maxsize=1 << 12)
def moved_bytes(details: str) -> int:
    """Bytes of a copy (``size:``) or a fill (``num_bytes:``) by its details; ABSENT where they do not tell."""
    pairs = _pairs(details)
    size = whole(pairs.get("size", pairs.get("num_bytes")))
    return ABSENT if size is None else size


def _pairs(details: str) -> dict[str, str]:
    words = (word.partition(":") for word in details[:4096].split())
    return {key: value for key, colon, value in words if colon}


def _extents(text: str | None) -> tuple[int, ...] | None:
    values = [whole(part) for part in (text or "").split(",")]
    known = tuple(value for value in values if value)
    return known if len(known) == len(values) == 3 else None


def whole(value: Any) -> int | None:
    """A number from 0 up that fits 64 bits, of a stat that is one or its text; None for anything else."""
    if isinstance(value, str):
        value = int(value) if len(value) < 20 and value.isascii() and value.isdigit() else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) < (1 << 62) else None
    return value if isinstance(value, int) and 0 <= value < _MAX_NUMBER else None


def origin(tf_op: str, path: str, hlo_op: str, hlo_module: str) -> tuple[str | None, str | None, str | None]:
    """Operator, module and phase of a kernel.

    The operator is XLA's instruction (hlo_op), of plain TensorFlow the operator's type. The module is the scope that
    the program was in: the path of the operator (JAX: stat ``name``, TensorFlow: tf_op) without the operator itself;
    where no path is given, XLA's module, which is the compiled program.
    """
    node, kind = _node(tf_op)
    path = path or node
    operator = hlo_op or kind or path.rpartition("/")[2]
    return operator or None, scope(path) or hlo_module or None, phase(path, kind)


def _node(tf_op: str) -> tuple[str, str]:
    """Path and type of "path:Type"; JAX gives paths without a type, and XLA puts "XlaModule:" around every launch."""
    path, colon, kind = tf_op.rpartition(":")
    if not colon or not (kind.isidentifier() or not kind):
        path, kind = tf_op, ""
    return ("", "") if path.partition(":")[0] == "XlaModule" else (path, kind)


def scope(path: str) -> str:
    """A path without its last part, where that is an operator: JAX's transformations and calls have parentheses."""
    outer, _, last = path.rpartition("/")
    if "(" in last or ")" in last:
        return path
    return outer


def phase(path: str, kind: str = "") -> str | None:
    """The phase that a path tells: JAX marks what it differentiates (jvp) and transposes, TensorFlow its gradients and
    the operators that apply them. None where the path tells nothing."""
    if "jvp(" in path:
        return "backward" if "jvp(" in path.partition("transpose(")[2] else "forward"
    if kind.startswith(("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")):
        return "optimizer"
    parts = path.split("/")
    if any(part == "gradient_tape" or part.startswith("gradients") for part in parts[:-1]):
        return "backward"
    return None


def correlation(stats: Stats) -> int:
    """The id that ties a launch to its work; ABSENT where there is none."""
    number = whole(stats.get("correlation_id"))
    return ABSENT if number is None else number


def launched(stats: Stats) -> tuple[Any, ...]:
    """Grid, block, registers, shared memory and occupancy of a kernel."""
    made = launch(str(stats.get("kernel_details", "")))
    share = occupancy(stats.get("theoretical_occupancy_pct")) or made.occupancy
    return made.grid, made.block, made.registers, made.shared_bytes, share


def copied(stats: Stats) -> int:
    """Bytes of a copy or fill, ABSENT where the stats do not tell."""
    return moved_bytes(str(stats.get("memcpy_details") or stats.get("memset_details") or ""))
