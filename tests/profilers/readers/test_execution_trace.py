"""Execution traces: the same operators, FLOPs and bytes as a live capture; old schemas, real and damaged files."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import random
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.profiler import ExecutionTraceObserver, profile, schedule

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.formulas import work
from wcbench.profilers.operators import as_call, operator_columns, storage_columns
from wcbench.profilers.readers.composites import is_composite
from wcbench.profilers.readers.execution_trace import ExecutionTrace
from wcbench.profilers.readers.operator_schema import Schema, schema_of
from wcbench.profilers.recorder import Recorder

from .conftest import Result, Run


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.layers = nn.Sequential(nn.Linear(512, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        result: torch.Tensor = self.layers(x)
        return result


class Training:
    """A few steps of a small network, the same operators in each but the first."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = Net()
        self.optimizer = torch.optim.Adam(self.net.parameters(), foreach=True)
        self.x, self.y = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.net(self.x), self.y).backward()
        self.optimizer.step()


def observed(path: Path, what: Callable[[], None]) -> dict[str, Any]:
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    try:
        what()
    finally:
        observer.stop()
        observer.unregister_callback()
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The execution trace of one step."""
    training = Training()
    return observed(tmp_path_factory.mktemp("et") / "trace.json", training.step)


@pytest.fixture(scope="module")
def live() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables `operators` and `storages` of a live capture of the same step."""
    training = Training()
    recorder = Recorder({"net": training.net}, {"adam": training.optimizer})
    with recorder.step(0, batch=(training.x, training.y)):
        training.step()
    done = [work(as_call(note)) for note in recorder.stream.calls]
    return pd.DataFrame(operator_columns(recorder.stream, done)), pd.DataFrame(storage_columns(recorder.stream))


# What autograd does with its saved tensors and `torch.tensor` with its number, without work or traffic, looks otherwise
# to a dispatch mode than to an observer.
IDLE = ("aten::detach", "aten::detach_", "aten::empty")


def working(table: pd.DataFrame) -> pd.DataFrame:
    idle = table[table["name"].isin(IDLE)]
    assert not idle[["flops_all", "bytes_read", "bytes_written"]].to_numpy().any()
    return table[~table["name"].isin(IDLE)].reset_index(drop=True)


def read(run: Run, trace: dict[str, Any]) -> Result:
    return run(ExecutionTrace(), json.dumps(trace))


# --- against a live capture ---------------------------------------------------------------------------------------


def test_calls_flops_bytes_and_phases_equal_a_live_capture(
    run: Run, trace: dict[str, Any], live: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found, expected = working(read(run, trace).tables["operators"]), working(live[0])
    columns = ["name", "overload", "covered", "flops_matrix", "flops_all", "bytes_read", "bytes_written"]
    assert found[columns].values.tolist() == expected[columns].values.tolist()
    assert found["flops_matrix"].sum() > 0
    # the gradient's seed is made under no_grad before autograd starts: to a mode forward, without a number other
    unlike = found[found["phase"] != expected["phase"]]
    assert unlike[["name", "phase"]].values.tolist() == [["aten::ones_like", "other"]]


def test_tensors_equal_a_live_capture(run: Run, trace: dict[str, Any], live: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    found, expected = working(read(run, trace).tables["operators"]), working(live[0])
    for column in ("inputs", "outputs"):
        for ours, theirs, name in zip(found[column], expected[column], found["name"], strict=True):
            assert [form(t) for t in ours] == [form(t) for t in theirs], name


def form(tensor: dict[str, Any]) -> tuple[Any, ...]:
    return (list(tensor["shape"]), list(tensor["stride"]), tensor["offset"], tensor["dtype"])


def test_which_tensors_share_memory_equals_a_live_capture(
    run: Run, trace: dict[str, Any], live: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    """Numbers of storages may differ, but only one to one."""
    found, expected = working(read(run, trace).tables["operators"]), working(live[0])
    pairs = set()
    for column in ("inputs", "outputs"):
        for ours, theirs in zip(found[column], expected[column], strict=True):
            pairs |= {(a["storage"], b["storage"]) for a, b in zip(ours, theirs, strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_roles_and_sizes_of_storages_equal_a_live_capture(
    run: Run, trace: dict[str, Any], live: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    found, expected = read(run, trace).tables["storages"], live[1]
    # a live capture also has what no operator met, e.g. the gradients of the step before
    met = {t["storage"] for row in live[0].itertuples() for t in (*row.inputs, *row.outputs)}
    expected = expected[expected["id"].isin(met)]
    for role in ("weight", "gradient", "optimizer state", "activation"):
        ours, theirs = (sorted(t[t["role"] == role]["nbytes"]) for t in (found, expected))
        if role == "weight":  # buffers of the batch norm cannot be told: mean, variance, number of batches
            assert sorted([*ours, 32, 32, 8]) == theirs
        elif role == "activation":  # the program keeps the loss and its gradient alive, which no call uses any more
            assert sorted([*ours, 4, 4]) == theirs
        else:
            assert ours == theirs, role
    assert found["nbytes"].sum() == expected["nbytes"].sum()


def test_storages_die_after_their_last_use_and_never_later_than_live(
    run: Run, trace: dict[str, Any], live: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    result = read(run, trace)
    found, calls = result.tables["storages"].set_index("id"), result.tables["operators"]
    last: dict[int, int] = {}
    for row in calls.itertuples():
        for tensor in (*row.inputs, *row.outputs):
            last[tensor["storage"]] = row.order
    for number, row in found.iterrows():
        if not pd.isna(row["died"]):
            assert row["died"] == last[number] + 1
    outlive = found[found["died"].isna() & found["born"].notna()]
    assert set(outlive["role"]) <= {"gradient", "optimizer state", "workspace"}
    assert any("freed after their last use" in note for note in result.notes)


def test_device_and_one_step(run: Run, trace: dict[str, Any]) -> None:
    result = read(run, trace)
    facts = result.passes["operators"]
    assert (facts.device, facts.steps) == ("cpu", 1)
    assert facts.batch_size is None
    assert facts.samples is None
    assert facts.seconds == (trace["finish_ts"] - trace["start_ts"]) / 1000
    assert set(result.tables["operators"]["step"]) == {0}
    assert any("marks no steps" in note for note in result.notes)


# --- steps --------------------------------------------------------------------------------------------------------


def test_profiler_steps(run: Run, tmp_path: Path) -> None:
    training = Training()
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    with profile(schedule=schedule(wait=0, warmup=1, active=3, repeat=1), execution_trace_observer=observer) as prof:
        for _ in range(4):
            training.step()
            prof.step()
    result = run(ExecutionTrace(), tmp_path / "et.json")
    calls = result.tables["operators"]
    counts = calls.groupby("step").size()
    assert result.passes["operators"].steps == len(counts) == 3
    assert counts.nunique() == 1
    flops = calls.groupby("step")["flops_all"].sum()
    assert flops.nunique() == 1
    # convolution: 4 images x 16 x 16 places x 8 x 3 x 3 x 3 MACs, forward and once backward (no gradient of the input);
    # linear layers: 4 x (512 x 32 + 32 x 10) MACs, forward and twice backward; a MAC is 2 FLOP
    conv, linear = 4 * 16 * 16 * 8 * 27, 4 * (512 * 32 + 320)
    assert set(calls.groupby("step")["flops_matrix"].sum()) == {2 * (2 * conv + 3 * linear)}


def test_steps_by_the_optimizer_where_nothing_marks_them(run: Run, tmp_path: Path) -> None:
    training = Training()
    result = read(run, observed(tmp_path / "et.json", lambda: [training.step() for _ in range(3)] and None))
    assert result.passes["operators"].steps == 3
    assert result.tables["operators"].groupby("step")["flops_all"].sum().nunique() == 1
    assert any("call of the optimizer" in note for note in result.notes)


def test_unlike_steps_stay_one(run: Run, tmp_path: Path) -> None:
    training = Training()

    def steps() -> None:
        training.step()
        training.optimizer.step()  # as of a second network of the same step

    result = read(run, observed(tmp_path / "et.json", steps))
    assert result.passes["operators"].steps == 1
    assert any("ran 2 times" in note for note in result.notes)


# --- schemas and arguments ----------------------------------------------------------------------------------------


def in_schema_1_0_1(trace: dict[str, Any]) -> dict[str, Any]:
    """The same trace with the flat keys of the first schema, which has no strides."""
    flat = []
    for node in trace["nodes"]:
        attributes = {each["name"]: each["value"] for each in node["attrs"]}
        entry = {"name": node["name"], "id": node["id"], "parent": node["ctrl_deps"]}
        entry |= {key: attributes[key] for key in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "op_schema")}
        for which in ("input", "output"):
            held = node[f"{which}s"]
            entry |= {f"{which}s": held["values"], f"{which}_shapes": held["shapes"], f"{which}_types": held["types"]}
        flat.append(entry)
    return {"schema": "1.0.1", "pid": 1, "nodes": flat}


def without_strides(trace: dict[str, Any]) -> dict[str, Any]:
    middle = copy.deepcopy(trace) | {"schema": "1.0.3-chakra.0.0.4"}
    for node in middle["nodes"]:
        del node["inputs"]["strides"], node["outputs"]["strides"]
    return middle


@pytest.mark.parametrize("older", [in_schema_1_0_1, without_strides])
def test_older_schemas_give_the_same_figures_and_strides(
    run: Run, trace: dict[str, Any], older: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Strides are found again in the calls of as_strided that views make; what no view made is contiguous here."""
    new, old = read(run, trace), read(run, older(trace))
    columns = ["name", "phase", "flops_matrix", "flops_all", "bytes_read", "bytes_written"]
    assert old.tables["operators"][columns].equals(new.tables["operators"][columns])
    for column in ("inputs", "outputs"):
        for ours, theirs in zip(old.tables["operators"][column], new.tables["operators"][column], strict=True):
            assert [form(t) for t in ours] == [form(t) for t in theirs]
    assert any("no strides" in note for note in old.notes)
    assert not any("no strides" in note for note in new.notes)


def test_an_expanded_tensor_is_read_once_without_strides(run: Run) -> None:
    """A row of 3 floats, expanded to 1000 rows by stride 0, then copied."""
    wide = [4, 5, 0, 3000, 4, "cuda:0"]
    row = matrix(5, 1, 3)
    sizes = [([1000, 3], [[], []], "GenericList[Int,Int]"), ([0, 1], [[], []], "GenericList[Int,Int]")]
    expand = call(2, "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
                  [row, sizes[0], (False, [], "Bool")], [(wide, [1000, 3], "Tensor(float)")])  # fmt: skip
    strided = call(3, "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? o=None) -> Tensor(a)",
                   [row, *sizes, ("<None>", [], "None")], [(wide, [1000, 3], "Tensor(float)")], parent=2)  # fmt: skip
    clone = call(4, "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
                 [(wide, [1000, 3], "Tensor(float)"), (0, [], "Int")], [matrix(6, 1000, 3)])  # fmt: skip
    found = run(ExecutionTrace(), json.dumps(small(strided, expand, clone))).tables["operators"]
    assert found["name"].tolist() == ["aten::expand", "aten::clone"]
    assert found["bytes_read"].tolist() == [0, 12]
    assert found["bytes_written"].tolist() == [0, 12_000]


def call(
    number: int,
    schema: str,
    inputs: list[tuple[Any, Any, str]],
    outputs: list[tuple[Any, Any, str]],
    **more: Any,
) -> dict[str, Any]:
    """A node of schema 1.1.0 from (value, shape, type) triples; contiguous."""

    def held(items: list[tuple[Any, Any, str]]) -> dict[str, Any]:
        return {
            "values": [v for v, _, _ in items],
            "shapes": [s for _, s, _ in items],
            "types": [t for _, _, t in items],
        }

    attributes = {"seq_id": 5, "scope": 0, "op_schema": schema} | more
    return {
        "id": number,
        "name": schema.partition("(")[0].partition(".")[0],
        "ctrl_deps": more.get("parent", 1),
        "inputs": held(inputs),
        "outputs": held(outputs),
        "attrs": [{"name": key, "type": "", "value": value} for key, value in attributes.items()],
    }


MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"


def matrix(storage: int, rows: int, columns: int, tensor: int = 90) -> tuple[Any, Any, str]:
    return [tensor, storage, 0, rows * columns, 4, "cuda:0"], [rows, columns], "Tensor(float)"


def small(*nodes: dict[str, Any]) -> dict[str, Any]:
    root = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "attrs": []}
    return {"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [*nodes, root]}


def test_a_recycled_address_is_a_new_storage(run: Run) -> None:
    """Storage 7 is made by the first product and again by the second, so it must have been freed between."""
    first = call(2, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)])
    second = call(3, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)])
    third = call(4, "aten::relu_(Tensor(a!) self) -> Tensor(a!)", [matrix(7, 2, 4)], [matrix(7, 2, 4)])
    result = run(ExecutionTrace(), json.dumps(small(first, second, third)))
    storages = result.tables["storages"]
    # 2 x 3, 3 x 4 and twice 2 x 4 floats
    assert storages["nbytes"].tolist() == [24, 48, 32, 32]
    assert storages["born"].fillna(-1).tolist() == [-1, -1, 0, 1]
    assert storages["died"].fillna(-1).tolist() == [-1, -1, 1, -1]
    last = result.tables["operators"].iloc[2]
    assert last["inputs"][0]["storage"] == last["outputs"][0]["storage"] == 3
    assert (last["bytes_read"], last["bytes_written"]) == (32, 32)


def test_calls_within_a_counted_call_are_not_counted_again(run: Run) -> None:
    linear = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
    outer = call(2, linear, [matrix(5, 2, 3), matrix(6, 4, 3), ("<None>", [], "None")], [matrix(7, 2, 4)])
    middle = call(3, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)], parent=2)
    inner = call(4, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)], parent=3)
    found = run(ExecutionTrace(), json.dumps(small(inner, middle, outer))).tables["operators"]
    assert found["name"].tolist() == ["aten::mm"]
    assert found["flops_all"].tolist() == [2 * 2 * 3 * 4]


def test_what_no_formula_counts_is_named(run: Run) -> None:
    unknown = call(2, "aten::novel(Tensor self) -> Tensor", [matrix(5, 2, 3)], [matrix(6, 2, 3)])
    compiled = call(3, "", [matrix(5, 2, 3), matrix(8, 2, 3)], [], kernel_backend="triton")
    compiled["name"] = "triton_poi_fused_cos_0"
    result = run(ExecutionTrace(), json.dumps(small(unknown, compiled)))
    found = result.tables["operators"]
    assert found["covered"].tolist() == [False, False]
    assert found["flops_all"].isna().all()
    assert any("No formula counts aten::novel (1 calls)" in note for note in result.notes)
    assert any("No formula counts triton_poi_fused_cos_0" in note for note in result.notes)


def test_keyword_arguments_lists_and_infinities(run: Run) -> None:
    cat = call(
        2,
        "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
        [
            ([matrix(5, 2, 3)[0], matrix(6, 4, 3)[0]], [[2, 3], [4, 3]], "GenericList[Tensor(float),Tensor(float)]"),
            (0, [], "Int"),
        ],
        [matrix(7, 6, 3)],
    )
    fill = call(
        3,
        "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        [matrix(7, 6, 3), ([3, 9, 0, 18, 1, "cuda:0"], [6, 3], "Tensor(bool)"), ("-inf", [], "Double")],
        [matrix(8, 6, 3)],
    )
    out = call(
        4,
        "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
        [matrix(7, 6, 3), matrix(10, 3, 5), matrix(11, 6, 5)],
        [matrix(11, 6, 5)],
    )
    found = run(ExecutionTrace(), json.dumps(small(cat, fill, out))).tables["operators"]
    # cat: reads 24 + 48 B and writes 72; fill: reads 72 and 18 B of the mask and writes 72; mm.out only writes out
    assert found["bytes_read"].tolist() == [72, 90, 72 + 60]
    assert found["bytes_written"].tolist() == [72, 72, 120]
    assert found["flops_all"].tolist()[2] == 2 * 6 * 3 * 5
    assert found["overload"].tolist() == ["", "Scalar", "out"]


def test_a_sparse_tensor_is_not_counted_as_a_dense_one(run: Run) -> None:
    sparse = ([3, 0, 0, 0, 0, ""], [1000000, 64], "Tensor(float)")
    step = call(2, "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
                [matrix(5, 1000000, 64), sparse, (1, [], "Int")], [matrix(5, 1000000, 64)])  # fmt: skip
    result = run(ExecutionTrace(), json.dumps(small(step)))
    assert result.tables["operators"]["covered"].tolist() == [False]
    assert any("aten::add_" in note for note in result.notes)


def test_schemas_are_taken_apart() -> None:
    found = schema_of("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
    assert found == Schema("aten::mm", "out", ("self", "mat2", "out"), 2, (), ("out",), (True,))
    found = schema_of('aten::gelu_(Tensor(a!) self, *, str approximate="none, (or tanh)") -> Tensor(a!)')
    assert found == Schema("aten::gelu_", "", ("self", "approximate"), 1, (0,), (), (True,))
    found = schema_of("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
    assert found == Schema("aten::max", "dim", ("self", "dim", "keepdim"), 3, (), (), (False, False))
    found = schema_of("aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()")
    assert found == Schema("aten::_foreach_add_", "List", ("self", "other", "alpha"), 2, (0,), (), ())
    for text in ("", "no schema", "aten::mm", "aten::mm(", "aten::mm((", "(", "aten::mm(" + "(" * 9000):
        assert schema_of(text) is None


def test_schemas_equal_what_torch_knows_of_them() -> None:
    for schema in torch._C._jit_get_all_schemas():
        found = schema_of(str(schema))
        if not schema.name.startswith("aten::") or schema.name.startswith("aten::_test") or "..." in str(schema):
            continue
        assert found is not None, schema
        written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        positional = [i for i, a in enumerate(schema.arguments) if not a.kwarg_only]
        assert found.name == schema.name
        assert found.overload == schema.overload_name
        assert list(found.arguments) == [a.name for a in schema.arguments]
        assert found.positional == len(positional)
        assert list(found.writes) == [i for i in positional if written[i]]
        assert len(found.aliased) == len(schema.returns)
        if all(str(r.type) == "Tensor" for r in schema.returns):
            assert list(found.aliased) == [r.alias_info is not None for r in schema.returns]


def test_the_list_of_compositions_is_torchs() -> None:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    wrong = []
    for schema in torch._C._jit_get_all_schemas():
        full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if not schema.name.startswith("aten::") or schema.name.startswith("aten::_test"):
            continue
        try:
            composite = torch._C._dispatch_has_kernel_for_dispatch_key(full, key)
        except RuntimeError:  # TorchScript's own, which the dispatcher does not know
            continue
        if composite != is_composite(schema.name, schema.overload_name):
            wrong.append(full)
    assert not wrong


# --- real files ---------------------------------------------------------------------------------------------------


def test_real_linear_trace(run: Run, shared: Path) -> None:
    """21 linear layers; matrix products counted from the file's own addmm and mm."""
    path = shared / "traces" / "chakra_et" / "param_linear_et.json.gz"
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    products = 0
    for node in nodes:
        shapes = node["input_shapes"]
        if node["name"] == "aten::addmm":
            products += 2 * shapes[1][0] * shapes[1][1] * shapes[2][1]
        elif node["name"] == "aten::mm":
            products += 2 * shapes[0][0] * shapes[0][1] * shapes[1][1]
    result = run(ExecutionTrace(), path)
    calls = result.tables["operators"]
    assert calls["flops_matrix"].sum() == products > 0
    assert result.passes["operators"].device == "cuda:0"
    assert Counter(calls["name"])["aten::addmm"] == 21
    assert set(calls[calls["name"] == "aten::mm"]["phase"]) == {"backward"}
    assert set(calls[calls["name"] == "aten::_foreach_add_"]["phase"]) == {"optimizer"}
    roles = result.tables["storages"].groupby("role").size()
    assert roles["weight"] == roles["gradient"] == 42  # 21 layers, weight and bias
    assert not result.losses


def unpacked(shared: Path, name: str, member: str, folder: Path) -> Path:
    with tarfile.open(shared / "traces" / "chakra_et" / name) as archive:
        stream = archive.extractfile(member)
        assert stream is not None
        path = folder / "member.json"
        path.write_bytes(stream.read())
    return path


def test_real_resnet_trace(run: Run, shared: Path, tmp_path: Path) -> None:
    path = unpacked(shared, "param_resnet_1gpu_et.json.tar.gz", "resnet_1gpu_et.json", tmp_path)
    result = run(ExecutionTrace(), path)
    calls = result.tables["operators"]
    assert result.passes["operators"].steps == 3
    forward = calls[calls["phase"] == "forward"].groupby("step")["flops_matrix"].sum()
    # ResNet-50 at 224 x 224 is 4.089 GMAC an image (torchvision: 4.09), here 32 images
    assert (forward / 2 / 32 / 1e9).round(3).tolist() == [4.089] * 3
    uncovered = set(calls[~calls["covered"]]["name"])
    assert uncovered == {"c10d::allreduce_", "c10d::broadcast_"}
    weights = result.tables["storages"].query("role == 'weight'")["nbytes"]
    assert len(weights) == 161
    assert weights.sum() == 25_557_032 * 4  # ResNet-50's parameters


def test_real_compiled_trace(run: Run, shared: Path, tmp_path: Path) -> None:
    path = unpacked(shared, "param_pt2_et.json.tar.gz", "pt2_et.json", tmp_path)
    calls = run(ExecutionTrace(), path).tables["operators"]
    assert calls["step"].tolist() == [0, 0, 1, 1]
    assert calls.query("name == 'aten::mm'")["flops_matrix"].tolist() == [2 * 4 * 4 * 4] * 2
    assert calls[calls["name"].str.startswith("triton")]["covered"].tolist() == [False, False]


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_entry_is_skipped_and_told(run: Run) -> None:
    text = json.dumps(small(*(call(i, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)]) for i in (2, 3, 4))))
    at = text.index('{"id": 3')
    damaged = text[:at] + '{"id": 3, "name" "aten::mm"' + text[text.index('{"id": 4') - 3 :]
    result = run(ExecutionTrace(), damaged)
    assert len(result.tables["operators"]) == 2
    assert [(loss.what, loss.count, loss.offset) for loss in result.losses] == [("an entry of the list", 1, at)]


def test_many_damaged_entries_take_no_long_time(run: Run) -> None:
    """Error messages of json count lines from the text's beginning, which must not add up."""
    bad = ",".join(f'{{"id": {number} "x"}}' for number in range(50_000))
    good = json.dumps(call(2, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)]))
    begin = time.perf_counter()
    result = run(ExecutionTrace(), f'{{"schema": "1.1.0", "nodes": [{bad}, {good}]}}')
    assert time.perf_counter() - begin < 20
    assert len(result.tables["operators"]) == 1
    assert {loss.what: loss.count for loss in result.losses}["an entry of the list"] == 50_000


def test_a_cut_file_keeps_what_is_whole(run: Run, trace: dict[str, Any]) -> None:
    text = json.dumps(trace)
    result = run(ExecutionTrace(), text[: len(text) // 2])
    whole = read(run, trace)
    assert 0 < len(result.tables["operators"]) < len(whole.tables["operators"])
    assert any("cut" in loss.why for loss in result.losses)
    assert any(loss.what == "the parent of a call" for loss in result.losses)


@pytest.mark.parametrize(
    "text",
    ['{"schema": "1.0.1", "nodes": []}', '{"schema": "1.0.1", "nodes": [{"id": 1, "name": "x"}]}'],
)
def test_nothing_in_it_is_refused(run: Run, text: str) -> None:
    with pytest.raises(ReadError, match="file-1 holds"):
        run(ExecutionTrace(), text)


def test_absurd_numbers_and_nesting(run: Run) -> None:
    good = call(2, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)])
    huge = call(3, MM, [matrix(5, 2**40, 2**40), matrix(6, 2**40, 2**40)], [matrix(7, 2**40, 2**40)])
    negative = call(4, MM, [matrix(5, -2, 3), matrix(6, 3, 4)], [matrix(7, 2, 4)])
    deep = '{"id": 5, "name": "x", "inputs": ' + "[" * 200_000 + "]" * 200_000 + "}"
    long = '{"id": ' + "9" * 10_000 + ', "name": "x"}'
    text = json.dumps(small(good, huge, negative))[:-2] + f", {deep}, {long}, " + '{"id": 1e400, "name": "x"}]}'
    result = run(ExecutionTrace(), text)
    assert result.tables["operators"]["covered"].tolist() == [True, False]
    assert {loss.what for loss in result.losses} >= {"an operator call", "an entry of the list", "a call"}


ODD = [None, 0, -1, 2**63, 2**70, 1e300, "x", "", [], {}, [[]], True, "Tensor(float)", "GenericList[Tensor(float)]"]
ODD += ["<None>", "Double", [1, 2, 3], {"a": 1}, MM]


def altered(value: Any, choose: random.Random) -> None:
    """Put something odd in place of one value anywhere within."""
    key = choose.choice(list(value)) if isinstance(value, dict) else choose.randrange(len(value))
    if isinstance(value[key], dict | list) and value[key] and choose.random() > 0.3:
        altered(value[key], choose)
    else:
        value[key] = copy.deepcopy(choose.choice(ODD))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_odd_values_give_a_record_or_an_error_of_ours(run: Run, trace: dict[str, Any], seed: int) -> None:
    """Valid JSON whose values are of other kinds than they should be."""
    choose = random.Random(seed)
    odd = copy.deepcopy({**trace, "nodes": trace["nodes"][:60]})
    for _ in range(30):
        altered(choose.choice(odd["nodes"]), choose)
    with contextlib.suppress(WcbenchError):
        read(run, odd)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_a_record_or_an_error_of_ours(run: Run, data: st.DataObject) -> None:
    nodes = [call(i, MM, [matrix(5, 2, 3), matrix(6, 3, 4)], [matrix(i, 2, 4)]) for i in range(2, 6)]
    raw = bytearray(json.dumps(small(*nodes)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(120, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    cut = data.draw(st.integers(100, len(raw)))
    with contextlib.suppress(WcbenchError):
        run(ExecutionTrace(), bytes(raw[:cut]))
