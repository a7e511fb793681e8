"""PyProf's columns, against rows worked out by hand and the header of a published file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wcbench.analysis.pyprof import COLUMNS, PYPROF_COLUMNS, params, pyprof
from wcbench.errors import RecordError
from wcbench.record import Profile

Shape = Sequence[int]


def tensor(*shape: int, dtype: str = "float32") -> dict[str, Any]:
    return {"storage": 0, "version": 0, "offset": 0, "shape": list(shape), "stride": [1] * len(shape), "dtype": dtype}


def call(name: str, inputs: Sequence[Any], out: Any, flops: int, moved: tuple[int, int], **more: Any) -> dict[str, Any]:
    values = {
        "step": 0,
        "kind": "train",
        "name": name,
        "overload": "",
        "phase": "forward",
        "module": "model",
        "covered": True,
        "flops_matrix": 0,
        "flops_all": flops,
        "bytes_read": moved[0],
        "bytes_written": moved[1],
        "inputs": list(inputs),
        "outputs": [out],
        "accesses": [],
    }
    return {**values, **more}


# An MLP 16-32-8 on a batch of 4: (x W1 + b1) is 2*4*32*16 = 4096, the second product 2*4*8*32 = 2048.
# Bytes: addmm reads bias, x and W and writes its result, 4 bytes each: 4*(32 + 64 + 512) = 2432 and 4*128 = 512.
MLP = [
    call("aten::t", [tensor(32, 16)], tensor(16, 32), 0, (0, 0), module="model.0"),
    call(
        "aten::addmm",
        [tensor(32), tensor(4, 16), tensor(16, 32)],
        tensor(4, 32),
        4096 + 128,
        (2432, 512),
        flops_matrix=4096,
        module="model.0",
    ),
    call("aten::relu", [tensor(4, 32)], tensor(4, 32), 0, (512, 512), module="model.1"),
    call("aten::t", [tensor(8, 32)], tensor(32, 8), 0, (0, 0), module="model.2"),
    call(
        "aten::addmm",
        [tensor(8), tensor(4, 32), tensor(32, 8)],
        tensor(4, 8),
        2048 + 32,
        (1568, 128),
        flops_matrix=2048,
        module="model.2",
    ),
    call("aten::pow", [tensor(4, 8)], tensor(4, 8), 32, (128, 128), module=None, overload="Tensor_Scalar"),
    call(
        "aten::mm",
        [tensor(8, 4), tensor(4, 32)],
        tensor(8, 32),
        2048,
        (640, 1024),
        flops_matrix=2048,
        phase="backward",
        module="model.2",
    ),
    call("my::riddle", [tensor(3)], tensor(3), 0, (12, 12), covered=False, flops_matrix=None, flops_all=None),
    call("aten::_foreach_add_", [tensor(8), tensor(8)], tensor(8), 8, (64, 32), phase="optimizer", module=None),
]

# (name, phase, self time, depth, parent): what the host did in the same step, with the parts of operators below them
HOST = [
    ("aten::linear", "forward", 5, 0, None),
    ("aten::t", "forward", 7, 1, 0),
    ("aten::transpose", "forward", 3, 2, 1),
    ("aten::addmm", "forward", 100, 1, 0),
    ("aten::copy_", "forward", 20, 2, 3),
    ("aten::relu", "forward", 30, 0, None),
    ("aten::clamp_min", "forward", 9, 1, 5),
    ("aten::linear", "forward", 5, 0, None),
    ("aten::addmm", "forward", 50, 1, 7),
    ("aten::pow", "other", 11, 0, None),
    ("autograd::engine::evaluate_function: AddmmBackward0", "backward", 4, 0, None),
    ("aten::mm", "backward", 60, 1, 10),
    ("my::riddle", "forward", 13, 0, None),
    ("aten::_foreach_add_", "optimizer", 17, 0, None),
]


def host(calls: Sequence[tuple[str, str, int, int, int | None]], step: int = 0, base: int = 0) -> list[dict[str, Any]]:
    rows = []
    for index, (name, phase, self_ns, depth, parent) in enumerate(calls):
        times = {"start_ns": 10**18 + base + index, "duration_ns": self_ns, "self_ns": self_ns}
        above = None if parent is None else parent + base
        rows.append({"name": name, "thread": 1, **times, "depth": depth, "parent": above, "step": step, "phase": phase})
    return rows


def build(made: Any, calls: Sequence[Mapping[str, Any]] = MLP, **more: Any) -> Profile:
    rows = [{**row, "order": order} for order, row in enumerate(calls)]
    passes = {"operators": made.info(tensors="fake", **more.pop("operators", {}))}
    tables: dict[str, Any] = {"operators": {"operators": rows}}
    if "timeline" in more:
        passes["timeline"] = made.info(**more.pop("timeline"))
        tables |= {name: {"timeline": rows} for name, rows in more.items()}
    profile: Profile = made.record(passes, tables)
    return profile


def test_the_columns_are_those_of_the_published_file_and_more_at_the_end(shared: Path) -> None:
    with (shared / "traces" / "pyprof" / "josiahdavis_lm.csv").open(newline="") as stream:
        header = next(csv.reader(stream))
    assert list(PYPROF_COLUMNS) == header
    assert list(COLUMNS[: len(header)]) == header


def test_every_cell_of_the_mlp(made: Any) -> None:
    found = pyprof(build(made))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert rows[1] == {
        "Kernel": "na",
        "Module": "na",
        "Op": "addmm",
        "Direction": "fprop",
        "Sil(ns)": "na",
        "TC": "na",
        "FLOPs": "4096",
        "Bytes": "2944",
        "Device": "na",
        "Stream": "na",
        "Block": "na",
        "Grid": "na",
        "Idx": "2",
        "Params": "M=32,N=4,K=16,fp32,",
        "Layer": "model.0",
        "Phase": "forward",
        "Operator": "aten::addmm",
    }
    columns = ("Idx", "Op", "Direction", "TC", "FLOPs", "Bytes", "Params", "Layer", "Operator")
    assert [tuple(row[c] for c in columns) for row in rows[2:]] == [
        ("3", "relu", "fprop", "-", "0", "1024", "T=[(4,32)],fp32,", "model.1", "aten::relu"),
        ("4", "t", "fprop", "-", "0", "0", "T=[(8,32)],fp32,", "model.2", "aten::t"),
        ("5", "addmm", "fprop", "na", "2048", "1696", "M=8,N=4,K=32,fp32,", "model.2", "aten::addmm"),
        ("6", "pow", "fprop", "-", "32", "256", "T=[(4,8)],fp32,", "-", "aten::pow.Tensor_Scalar"),
        ("7", "mm", "bprop", "na", "2048", "1664", "M=32,N=8,K=4,fp32,", "model.2", "aten::mm"),
        ("8", "riddle", "fprop", "na", "na", "24", "T=[(3,)],fp32,", "model", "my::riddle"),
        ("9", "_foreach_add_", "na", "-", "8", "96", "T=[(8,),(8,)],fp32,", "-", "aten::_foreach_add_"),
    ]
    forward = sum(int(row["FLOPs"]) for row in rows if row["Direction"] == "fprop" and row["Op"] == "addmm")
    assert forward == 6144
    assert found.note == "Sil(ns) is na: the record has no pass timeline."


def test_only_the_last_recorded_step_is_shown_in_its_order(made: Any) -> None:
    calls = [{**row, "step": step} for step in (0, 1) for row in MLP[:2]]
    rows = pyprof(build(made, calls)).rows
    assert [row[COLUMNS.index("Op")] for row in rows] == ["t", "addmm"]


def test_a_record_without_operators_says_how_to_get_them(made: Any) -> None:
    with pytest.raises(RecordError, match="no operator stream") as error:
        pyprof(made.record({"timing": made.info()}, {"steps": {"timing": made.step_rows([5])}}))
    assert "--passes operators,timeline" in str(error.value.hint)


# Params


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "expected"),
    [
        ("aten::bmm", [(2, 3, 5), (2, 5, 7)], [(2, 3, 7)], "B=2,M=7,N=3,K=5,fp32,"),
        ("aten::baddbmm", [(2, 3, 7), (2, 3, 5), (2, 5, 7)], [(2, 3, 7)], "B=2,M=7,N=3,K=5,fp32,"),
        ("aten::addmm_", [(3, 7), (3, 5), (5, 7)], [(3, 7)], "M=7,N=3,K=5,fp32,"),
        (
            "aten::convolution",  # 6 groups' worth of weights: 8 / 4 = 2 groups
            [(2, 8, 10, 12), (6, 4, 3, 5), (6,)],
            [(2, 6, 8, 8)],
            "N=2,C=8,H=10,W=12,K=6,P=8,Q=8,R=3,S=5,ph=na,pw=na,U=na,V=na,dh=na,dw=na,g=2,fp32,",
        ),
        (
            "aten::convolution",  # one dimension is a picture of height 1
            [(2, 8, 12), (6, 8, 5)],
            [(2, 6, 8)],
            "N=2,C=8,H=1,W=12,K=6,P=1,Q=8,R=1,S=5,ph=na,pw=na,U=na,V=na,dh=na,dw=na,g=1,fp32,",
        ),
        (
            "aten::convolution",  # transposed: weight (in, out / groups)
            [(2, 8, 5, 5), (8, 3, 2, 2)],
            [(2, 6, 10, 10)],
            "N=2,C=8,H=5,W=5,K=6,P=10,Q=10,R=2,S=2,ph=na,pw=na,U=na,V=na,dh=na,dw=na,g=2,fp32,",
        ),
        (
            "aten::convolution_backward",  # gradient, input, weight
            [(2, 6, 8, 8), (2, 8, 10, 12), (6, 8, 3, 5)],
            [(2, 8, 10, 12)],
            "N=2,C=8,H=10,W=12,K=6,P=8,Q=8,R=3,S=5,ph=na,pw=na,U=na,V=na,dh=na,dw=na,g=1,fp32,",
        ),
        ("aten::convolution", [(1, 1, 4, 4, 4), (1, 1, 2, 2, 2)], [(1, 1, 3, 3, 3)], None),
        ("aten::add", [(), (3,)], [(3,)], "T=[(),(3,)],fp32,"),
        ("aten::zeros", [], [(3, 2)], "T=[(3,2)],fp32,"),
        ("aten::manual_seed", [], [], "na=na,"),
    ],
)
def test_params(name: str, inputs: Sequence[Shape], outputs: Sequence[Shape], expected: str | None) -> None:
    text = params(name, [tensor(*shape) for shape in inputs], [tensor(*shape) for shape in outputs])
    assert text == (expected or "T=[(1,1,4,4,4),(1,1,2,2,2)],fp32,")


def test_types_of_several_kinds_are_all_named_once() -> None:
    tensors = [tensor(4, 8, dtype="bfloat16"), tensor(4, dtype="int64"), tensor(8, dtype="bfloat16")]
    assert params("aten::index_add", tensors, []) == "T=[(4,8),(4,),(8,)],bf16;int64,"


# Sil


def cells(profile: Profile, *columns: str) -> list[tuple[str, ...]]:
    found = pyprof(profile)
    return [tuple(row[found.columns.index(c)] for c in columns) for row in found.rows]


def test_a_timeline_of_the_same_step_gives_its_times_with_all_below_them(made: Any) -> None:
    steps = [*host(HOST), *host([(n, p, 2 * t, d, q) for n, p, t, d, q in HOST], step=1, base=len(HOST))]
    profile = build(made, timeline={}, ops=steps)
    assert pyprof(profile).note is None
    # addmm holds its copy_ (100 + 20), relu its clamp_min (30 + 9); twice that in the last step; views have no work
    expected = ["na", "240", "78", "na", "100", "22", "120", "26", "34"]
    assert cells(profile, "Sil(ns)", "Device") == [(ns, "na" if ns == "na" else "cpu") for ns in expected]


def test_times_of_a_gpu_are_those_of_the_kernels_that_the_call_launched(made: Any) -> None:
    launched = [(4, "fill", 5), (3, "gemm", 1000), (6, "max", 70), (8, "gemm", 500), (9, "pow", 40), (11, "gemm", 600)]
    launched += [(13, "multi_tensor", 17)]  # riddle launches nothing
    common = {"rank": 0, "device": "cuda:1", "start_ns": 0, "step": 0, "phase": "forward", "stream": 7}
    kernels = [
        {**common, "name": name, "duration_ns": ns, "launch": launch, "grid": [2, 1, 1], "block": [128, 1, 1]}
        for launch, (_, name, ns) in enumerate(launched)
    ]
    zero = {"thread": 1, "start_ns": 0, "duration_ns": 1, "step": 0}
    runtime = [
        {"name": "cudaLaunchKernel", "correlation": i, "op": op, **zero} for i, (op, _, _) in enumerate(launched)
    ]
    gpu = {"device": "cuda:1"}
    profile = build(made, operators=gpu, timeline=gpu, ops=host(HOST), runtime=runtime, kernels=kernels)
    found = cells(profile, "Sil(ns)", "Kernel", "Device", "Stream", "Block", "Grid")
    nothing = ("na",) * 6
    whole = ("1", "7", "128,1,1", "2,1,1")
    assert found == [
        nothing,
        ("1005", "na", "1", "na", "na", "na"),  # two kernels are not one
        ("70", "max", *whole),
        nothing,
        ("500", "gemm", *whole),
        ("40", "pow", *whole),
        ("600", "gemm", *whole),
        nothing,
        ("17", "multi_tensor", *whole),
    ]


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"preset": "paper", "batch_size": 9}, "operators were recorded at preset small, the timeline at paper"),
        ({"batch_size": 9}, "operators were recorded at batch size 4, the timeline at 9"),
        ({"device": "cuda:0"}, "operators were recorded at device cpu, the timeline at cuda:0"),
        ({"precision": "bf16"}, "operators were recorded at precision fp32, the timeline at bf16"),
        ({"settings": {"seq": 9}}, "operators and timeline were recorded with different settings"),
    ],
)
def test_times_of_other_conditions_are_not_taken(made: Any, conditions: dict[str, Any], reason: str) -> None:
    profile = build(made, timeline=conditions, ops=host(HOST))
    assert {row[0] for row in cells(profile, "Sil(ns)")} == {"na"}
    assert pyprof(profile).note == f"Sil(ns) is na: {reason}."


def test_times_of_another_sequence_are_not_taken(made: Any) -> None:
    fewer = pyprof(build(made, timeline={}, ops=host(HOST[:7])))
    assert fewer.note == ("Sil(ns) is na: the recorded step calls aten::_foreach_add_ 1 times, the timeline's 0 times.")
    swapped = [*HOST[:9], HOST[12], *HOST[9:12], HOST[13]]
    swapped[12] = (*HOST[11][:4], 11)
    other = pyprof(build(made, timeline={}, ops=host(swapped)))
    assert other.note == (
        "Sil(ns) is na: operator 4 that moves data is aten::pow in the recorded step and my::riddle in the timeline."
    )
    assert {row[4] for row in [*fewer.rows, *other.rows]} == {"na"}


def test_a_timeline_without_operators_is_said(made: Any) -> None:
    profile = build(made, timeline={}, steps=made.step_rows([5]))
    assert str(pyprof(profile).note).endswith("the timeline's 0 times.")


def test_it_shows_itself(made: Any) -> None:
    found = pyprof(build(made))
    assert repr(found).startswith("PyProf (9 operator calls)\n  Sil(ns) is na")
    assert list(found.to_frame().columns) == list(COLUMNS)
