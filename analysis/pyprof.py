"""A record in PyProf's columns: one row per operator call of the last recorded step.

NVIDIA PyProf (retired in 2021) wrote one row per kernel. Here a row is an operator call of the pass `operators`, which
knows shapes, FLOPs and bytes; what only a run on real tensors knows is filled in where a timeline of the same task
settings called the very same operators in the same order, and is `na` otherwise, never a guess.

=========== ==========================================================================================================
Kernel      the one device kernel of the call, by name; `na` for none, several or no timeline
Module      `na`: the Python module that PyProf wrapped (torch, Tensor, ...) is not known below the dispatcher
Op          operator without namespace, e.g. addmm
Direction   fprop (forward), bprop (backward), else `na`, as PyProf writes an empty one
Sil(ns)     kernel time of the call in the timeline's last step; on a CPU self times of the operator and all below it
TC          `-`: no matrix work; `na`: matrix work, of which nobody knows whether tensor cores did it
FLOPs       matrix-class FLOPs of matrix operators (bias apart, as in PyProf), all FLOPs of others; `na` uncounted
Bytes       distinct bytes read and written
Device      index of the GPU, or cpu, of the timeline behind Sil; Stream, Block and Grid are those of Kernel
Idx         1, 2, ... from here on the columns that the published files lack
Params      PyProf's notation: column-major M, N, K as BLAS has them; a convolution's letters (padding, stride and
            dilation are not in a record: `na`); else the shapes T=[...]; then the type
Layer       path of the model's module, `-` for none (PyProf's name for it)
Phase       forward, backward, optimizer or other
Operator    full name and overload, e.g. aten::add.Tensor
=========== ==========================================================================================================
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis.recorded import main_step, rows_of
from wcbench.errors import RecordError

if TYPE_CHECKING:
    from wcbench.record import PassInfo, Profile

PYPROF_COLUMNS = (
    "Kernel", "Module", "Op", "Direction", "Sil(ns)", "TC", "FLOPs", "Bytes", "Device", "Stream", "Block", "Grid",
)  # fmt: skip
"""The columns of published PyProf files, in their order."""

EXTRA_COLUMNS = ("Idx", "Params", "Layer", "Phase", "Operator")

COLUMNS = PYPROF_COLUMNS + EXTRA_COLUMNS
NAMES = ("Kernel", "Op", "Layer", "Operator")
"""The columns that hold names of people's own making."""

NA, NONE = "na", "-"

_DIRECTIONS = {"forward": "fprop", "backward": "bprop"}
_TYPES = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16"}  # others keep their names
_SAME = ("preset", "batch_size", "device", "precision", "settings")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Silicon:
    """What ran for one operator call; texts as PyProf writes them."""

    nanoseconds: int
    device: str
    kernel: str = NA
    stream: str = NA
    block: str = NA
    grid: str = NA


@dataclass(frozen=True)
class PyProf:
    """The rows, as texts in the order of ``columns``; ``note`` says why Sil(ns) is `na`, None where it is not."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str | None

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def __repr__(self) -> str:
        note = "" if self.note is None else f"\n  {self.note}"
        return f"PyProf ({len(self.rows)} operator calls){note}"


def pyprof(profile: Profile) -> PyProf:
    """A record in PyProf's columns.

    Raises
    ------
    RecordError : the record has no operator stream.
    """
    calls = _calls(profile)
    if not calls:
        raise RecordError(
            "The record has no operator stream, which PyProf's columns are made of.",
            "Profile the task with --passes operators,timeline and one --preset for both.",
        )
    silicon, reason = _silicon(profile, calls)
    rows = [_row(index, call, silicon.get(index)) for index, call in enumerate(calls)]
    return PyProf(COLUMNS, rows, None if reason is None else f"Sil(ns) is na: {reason}.")


def _calls(profile: Profile) -> list[Row]:
    """Operator calls of the last recorded step, in order."""
    rows: list[Row] = rows_of(profile).drop_columns(["accesses"]).to_pylist()
    return sorted(rows, key=lambda row: int(row["order"]))


def _row(index: int, call: Row, ran: Silicon | None) -> tuple[str, ...]:
    name = str(call["name"])
    overload = f".{call['overload']}" if call["overload"] else ""
    values = {
        "Kernel": ran.kernel if ran else NA,
        "Module": NA,
        "Op": name.rpartition("::")[2],
        "Direction": _DIRECTIONS.get(call["phase"], NA),
        "Sil(ns)": str(ran.nanoseconds) if ran else NA,
        "TC": _tensor_core(call),
        "FLOPs": _flops(call),
        "Bytes": str(call["bytes_read"] + call["bytes_written"]),
        "Device": ran.device if ran else NA,
        "Stream": ran.stream if ran else NA,
        "Block": ran.block if ran else NA,
        "Grid": ran.grid if ran else NA,
        "Idx": str(index + 1),
        "Params": params(name, call["inputs"], call["outputs"]),
        "Layer": call["module"] or NONE,
        "Phase": str(call["phase"]),
        "Operator": name + overload,
    }
    return tuple(values[column] for column in COLUMNS)


def _tensor_core(call: Row) -> str:
    """PyProf read 1 or 0 off the kernel's name; a stream on fake tensors has no kernel."""
    return NONE if call["covered"] and not call["flops_matrix"] else NA


def _flops(call: Row) -> str:
    if not call["covered"]:
        return NA
    return str(call["flops_matrix"] or call["flops_all"])


# Params


def params(name: str, inputs: Sequence[Row], outputs: Sequence[Row]) -> str:
    """PyProf's text for an operator's arguments: `M=32,N=4,K=16,fp32,`; `na=na,` where there is no tensor."""
    tensors = [*inputs] or [*outputs]
    shapes = [list(tensor["shape"]) for tensor in tensors]
    if not shapes:
        return "na=na,"
    found = _special(name, shapes, [list(tensor["shape"]) for tensor in outputs])
    if found is None:
        found = {"T": "[" + ",".join(_tuple(shape) for shape in shapes) + "]"}
    types = dict.fromkeys(_type(tensor["dtype"]) for tensor in tensors)
    return "".join(f"{key}={value}," for key, value in found.items()) + ";".join(types) + ","


def _type(dtype: str) -> str:
    return _TYPES.get(dtype, dtype)


def _tuple(shape: Sequence[int]) -> str:
    return str(tuple(shape)).replace(" ", "")


def _special(name: str, shapes: list[list[int]], outputs: list[list[int]]) -> dict[str, Any] | None:
    """The letters of a matrix product or a convolution; None for every other operator."""
    plain = name.removeprefix("aten::").rstrip("_")
    if plain in {"mm", "bmm"} and len(shapes) >= 2:
        return _product(shapes[0], shapes[1])
    if plain in {"addmm", "baddbmm"} and len(shapes) >= 3:
        return _product(shapes[1], shapes[2])
    if plain == "convolution" and len(shapes) >= 2 and outputs:
        return _convolution(shapes[0], shapes[1], outputs[0])
    if plain == "convolution_backward" and len(shapes) >= 3:
        return _convolution(shapes[1], shapes[2], shapes[0])
    return None


def _product(left: list[int], right: list[int]) -> dict[str, Any]:
    """PyProf's M counts the right operand's columns, as the column-major BLAS call does."""
    batch = {"B": left[0]} if len(left) == 3 else {}
    return {**batch, "M": right[-1], "N": left[-2], "K": left[-1]}


def _convolution(source: list[int], weight: list[int], result: list[int]) -> dict[str, Any] | None:
    """One or two dimensions, as in PyProf; a picture of one dimension has height 1."""
    if not 3 <= len(source) == len(weight) == len(result) <= 4:
        return None
    flat = [1] if len(source) == 3 else []
    letters = [
        *zip("NCHW", [*source[:2], *flat, *source[2:]], strict=True),
        *zip("KPQ", [result[1], *flat, *result[2:]], strict=True),
        *zip("RS", [*flat, *weight[2:]], strict=True),
    ]
    unknown = dict.fromkeys(("ph", "pw", "U", "V", "dh", "dw"), NA)
    return {**dict(letters), **unknown, "g": _groups(source[1], weight, result[1])}


def _groups(channels: int, weight: list[int], filters: int) -> int | str:
    """A weight is (filters, channels / groups, ...); a transposed one (channels, filters / groups, ...)."""
    if weight[1] and weight[0] == filters:
        return channels // weight[1]
    return filters // weight[1] if weight[1] and weight[0] == channels else NA


# Sil


def _silicon(profile: Profile, calls: Sequence[Row]) -> tuple[dict[int, Silicon], str | None]:
    """What ran, by position of the operator call; empty, with the reason, where the timeline is of something else."""
    passes = profile.manifest.passes
    if "timeline" not in passes:
        return {}, "the record has no pass timeline"
    reason = _other_conditions(passes["operators"], passes["timeline"]) if "operators" in passes else None
    if reason is not None:
        return {}, reason
    moved: Counter[str] = Counter()
    for call in calls:
        moved[call["name"]] += call["bytes_read"] + call["bytes_written"]
    ops = _last_step(profile)
    owners = _owners(ops, set(moved))
    timed = [row for row in ops.index if owners[row] == row and moved[str(ops.at[row, "name"])]]
    working = [index for index, call in enumerate(calls) if moved[call["name"]]]
    left, right = [str(calls[index]["name"]) for index in working], [str(ops.at[row, "name"]) for row in timed]
    if left != right:
        return {}, _difference(left, right)
    ran = dict(_ran(profile, ops, owners, passes["timeline"].device))
    return {index: ran[row] for index, row in zip(working, timed, strict=True) if row in ran}, None


def _other_conditions(operators: PassInfo, timeline: PassInfo) -> str | None:
    """How the two passes were run differently."""
    names = [field.name for field in fields(operators) if field.name in _SAME]
    different = [name for name in names if getattr(operators, name) != getattr(timeline, name)]
    if not different:
        return None
    first = "settings" if different == ["settings"] else next(name for name in different if name != "settings")
    if first == "settings":
        return "operators and timeline were recorded with different settings"
    a, b = getattr(operators, first), getattr(timeline, first)
    return f"operators were recorded at {first.replace('_', ' ')} {a}, the timeline at {b}"


def _last_step(profile: Profile) -> pd.DataFrame:
    """Host calls of the timeline's last step of the recorded kind, in time order; the index is their row."""
    ops, steps, recorded = profile.table("ops"), profile.table("steps"), main_step(profile)
    ops = ops[(ops["pass"] == "timeline") & ops["step"].notna()]
    kinds = steps.loc[(steps["pass"] == "timeline") & (steps["role"] == "measured"), "kind"].astype(str).tolist()
    if recorded is not None and len(set(kinds)) > 1:
        ops = ops[ops["step"].isin([number for number, kind in enumerate(kinds) if kind == recorded.kind])]
    last: pd.DataFrame = ops[ops["step"] == ops["step"].max()]
    return last.sort_values(["start_ns", "depth"], kind="stable")


def _owners(ops: pd.DataFrame, names: set[str]) -> dict[int, int | None]:
    """The outermost call with one of the names around each row: a recorded operator hides what it is made of."""
    owners: dict[int, int | None] = {}
    ordered = ops.sort_values("depth", kind="stable")
    for row, name, parent in zip(ordered.index, ordered["name"].astype(str), ordered["parent"], strict=True):
        above = None if pd.isna(parent) else owners.get(int(parent))
        own = int(row) if name in names else None
        owners[int(row)] = own if above is None else above
    return owners


def _difference(left: list[str], right: list[str]) -> str:
    stream, timeline = Counter(left), Counter(right)
    for name in sorted({*stream, *timeline}):
        if stream[name] != timeline[name]:
            return f"the recorded step calls {name} {stream[name]} times, the timeline's {timeline[name]} times"
    place, (a, b) = next((i, pair) for i, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
    return f"operator {place + 1} that moves data is {a} in the recorded step and {b} in the timeline"


def _ran(
    profile: Profile, ops: pd.DataFrame, owners: Mapping[int, int | None], device: str
) -> Iterator[tuple[int, Silicon]]:
    """Time of each outermost call."""
    if device == "cpu":
        spent: Counter[int] = Counter()
        for row, ns in zip(ops.index, ops["self_ns"], strict=True):
            owner = owners[row]
            if owner is not None:
                spent[owner] += int(ns)
        yield from ((row, Silicon(ns, device)) for row, ns in spent.items())
        return
    kernels = sorted(_device_kernels(profile, owners), key=lambda pair: pair[0])
    for row, group in itertools.groupby(kernels, key=lambda pair: pair[0]):
        yield row, _kernels([kernel for _, kernel in group])


def _device_kernels(profile: Profile, owners: Mapping[int, int | None]) -> Iterator[tuple[int, Row]]:
    """Kernels on a device with the outermost call that launched them."""
    launchers = profile.arrow("runtime")["op"].to_pylist()
    for kernel in profile.arrow("kernels").to_pylist():
        if kernel["pass"] != "timeline" or kernel["device"] == "cpu" or kernel["launch"] is None:
            continue
        row = owners.get(launchers[kernel["launch"]])
        if row is not None:
            yield row, kernel


def _kernels(kernels: list[Row]) -> Silicon:
    total = sum(kernel["duration_ns"] for kernel in kernels)
    first = kernels[0]
    device = str(first["device"]).rpartition(":")[2]
    if len(kernels) > 1:
        return Silicon(total, device)
    stream = NA if first["stream"] is None else str(first["stream"])
    return Silicon(total, device, str(first["name"]), stream, _dim(first["block"]), _dim(first["grid"]))


def _dim(extents: Sequence[int] | None) -> str:
    return NA if extents is None else ",".join(map(str, extents))
