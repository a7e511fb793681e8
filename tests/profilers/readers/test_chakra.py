"""Chakra graphs: protobuf written here byte by byte from its schema, and the JSON form of real files."""

from __future__ import annotations

import contextlib
import gzip
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Source
from wcbench.profilers.readers.chakra import Chakra
from wcbench.profilers.readers.execution_trace import ExecutionTrace

from .conftest import Run

COMP, COLLECTIVE = 4, 7
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"


# --- protobuf by hand ---------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def held(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def attribute(name: str, value: int | bool | str) -> bytes:
    if isinstance(value, str):
        return held(10, held(1, name) + held(29, value))
    return held(10, held(1, name) + number(27 if isinstance(value, bool) else 9, value))


def node(identity: int, name: str, kind: int, *, duration: int = 0, start: int = 0, parent: int | None = None,
         inputs: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None, **attributes: int | bool | str) -> bytes:  # fmt: skip # noqa: E501
    raw = number(1, identity) + held(2, name) + number(3, kind)
    raw += held(4, varint(parent)) if parent is not None else b""
    raw += (number(6, start) if start else b"") + (number(7, duration) if duration else b"")
    for field, lists in ((8, inputs), (9, outputs)):
        if lists is not None:
            raw += held(field, b"".join(held(i, str(lists[k])) for i, k in enumerate(("values", "shapes", "types"), 1)))
    return raw + b"".join(attribute(key, value) for key, value in attributes.items())


def file_of(*nodes: bytes, metadata: bytes | None = None) -> bytes:
    first = (
        held(1, "0.0.4") + held(2, held(1, "schema") + held(29, "1.1.0-chakra.0.0.4")) if metadata is None else metadata
    )
    return b"".join(varint(len(message)) + message for message in (first, *nodes))


def matrix(storage: int, rows: int, columns: int) -> tuple[list[Any], list[int], str]:
    return [90, storage, 0, rows * columns, 4, "cuda:0"], [rows, columns], "Tensor(float)"


def arguments(*tensors: tuple[list[Any], list[int], str]) -> dict[str, Any]:
    return {key: [each[i] for each in tensors] for i, key in enumerate(("values", "shapes", "types"))}


HOST = node(
    7, "aten::mm", COMP, duration=9, inputs=arguments(matrix(1, 2, 3), matrix(2, 3, 4)),
    outputs=arguments(matrix(3, 2, 4)), is_cpu_op=True, op_schema=MM, seq_id=5, scope=0,
)  # fmt: skip
KERNEL = node(8, "sgemm_128x64", COMP, duration=42, parent=7, is_cpu_op=False, stream=7)
REDUCE = node(9, "ncclDevKernel_AllReduce", COLLECTIVE, duration=100, is_cpu_op=False, stream=20, comm_type=0, comm_size=4096)  # fmt: skip # noqa: E501
WHOLE = file_of(HOST, KERNEL, REDUCE)


def test_kernels_of_a_converted_trace(run: Run) -> None:
    result = run(Chakra(), WHOLE)
    kernels = result.tables["kernels"]
    assert kernels["name"].tolist() == ["sgemm_128x64", "ncclDevKernel_AllReduce"]
    assert kernels["duration_ns"].tolist() == [42_000, 100_000]
    assert kernels["stream"].tolist() == [7, 20]
    assert kernels["start_ns"].isna().all()
    assert kernels["collective"].tolist()[1] == "all_reduce"
    assert result.passes["timeline"].device == "gpu"
    assert [(loss.what, loss.count) for loss in result.losses] == [("the time of a host node", 1)]


def test_starts_are_kept_where_there_are_some(run: Run) -> None:
    result = run(Chakra(), file_of(node(8, "k", COMP, duration=1, start=5, is_cpu_op=False, stream=7)))
    assert result.tables["kernels"]["start_ns"].tolist() == [5000]


def test_operators_of_a_converted_trace(run: Run) -> None:
    calls = run(Chakra(), WHOLE).tables["operators"]
    assert calls["name"].tolist() == ["aten::mm"]
    assert calls["flops_matrix"].tolist() == [2 * 2 * 3 * 4]
    assert calls["bytes_read"].tolist() == [(6 + 12) * 4]
    assert calls["phase"].tolist() == ["forward"]


def test_operators_equal_those_of_the_execution_trace(run: Run, shared: Path) -> None:
    """A real execution trace, encoded as Chakra's converter encodes it."""
    path = shared / "traces" / "chakra_et" / "param_linear_et.json.gz"
    entries = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    known = {each["id"] for each in entries}
    nodes = [
        node(
            each["id"], each["name"], COMP, duration=3, parent=each["parent"] if each["parent"] in known else None,
            inputs={k: each[f"input{s}"] for k, s in (("values", "s"), ("shapes", "_shapes"), ("types", "_types"))},
            outputs={k: each[f"output{s}"] for k, s in (("values", "s"), ("shapes", "_shapes"), ("types", "_types"))},
            is_cpu_op=True, op_schema=each["op_schema"], seq_id=each["seq_id"], scope=each["scope"],
        )
        for each in entries
    ]  # fmt: skip
    ours, theirs = run(Chakra(), file_of(*nodes)), run(ExecutionTrace(), path)
    columns = ["name", "phase", "covered", "flops_matrix", "flops_all", "bytes_read", "bytes_written"]
    assert ours.tables["operators"][columns].equals(theirs.tables["operators"][columns])
    assert ours.tables["storages"].equals(theirs.tables["storages"])


def test_a_description_for_a_simulator_is_refused(run: Run) -> None:
    graph = file_of(
        node(1, "COMP_NODE_conv1_FWD", COMP, duration=10), node(2, "COMM_COLL_NODE", COLLECTIVE, comm_size=5)
    )
    with pytest.raises(ReadError, match="simulator and holds no measurement") as error:
        run(Chakra(), graph)
    assert error.value.hint is not None
    assert "Kineto" in error.value.hint


def test_nothing_to_read_is_refused(run: Run) -> None:
    with pytest.raises(ReadError, match="none of its 1 nodes is a kernel"):
        run(Chakra(), file_of(node(1, "label", COMP, is_cpu_op=True)))


def test_more_than_a_piece_of_the_file(run: Run) -> None:
    """Nodes lie across the pieces in which the file is read."""
    count = 40_000
    nodes = [node(i + 1, f"kernel_{i % 7}", COMP, duration=i, is_cpu_op=False, stream=7) for i in range(count)]
    data = file_of(*nodes)
    assert len(data) > 1 << 20
    kernels = run(Chakra(), data).tables["kernels"]
    assert kernels["duration_ns"].sum() == sum(range(count)) * 1000
    assert len(kernels) == count


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_node_is_skipped(run: Run) -> None:
    broken = number(1, 3) + b"\x12\x7fshort"  # a name of 127 bytes where 5 are left
    result = run(Chakra(), file_of(KERNEL, broken, REDUCE))
    assert len(result.tables["kernels"]) == 2
    metadata = len(file_of())
    at = metadata + 1 + len(KERNEL) + 1
    assert [(loss.what, loss.offset) for loss in result.losses] == [("a node", at)]


def test_a_cut_file(run: Run) -> None:
    result = run(Chakra(), file_of(KERNEL, REDUCE)[:-5])
    assert len(result.tables["kernels"]) == 1
    assert [loss.what for loss in result.losses] == ["the rest of the file"]


@pytest.mark.parametrize("tail", [b"\xff" * 12, b"\xff\xff\xff\xff\x7f"])
def test_no_length_of_a_message(run: Run, tail: bytes) -> None:
    with pytest.raises(ReadError, match=f"damaged at byte {len(file_of(KERNEL))}"):
        run(Chakra(), file_of(KERNEL) + tail)


def test_arguments_that_are_no_lists(run: Run) -> None:
    wild = node(7, "aten::mm", COMP, is_cpu_op=True, op_schema=MM, seq_id=1,
                inputs={"values": "__import__('os')", "shapes": "[" * 60_000, "types": "x" * 70_000})  # fmt: skip
    calls = run(Chakra(), file_of(wild, KERNEL)).tables["operators"]
    assert calls["covered"].tolist() == [False]


# --- JSON ---------------------------------------------------------------------------------------------------------


def member(shared: Path, name: str, folder: Path) -> Path:
    with tarfile.open(shared / "traces" / "chakra_et" / "chakra_json_trace.tar.gz") as archive:
        stream = archive.extractfile(f"jsonData/{name}")
        assert stream is not None
        path = folder / "graph.json"
        path.write_bytes(stream.read())
    return path


@pytest.mark.parametrize("name", ["chakra.0.json", "small_chakra.0.json"])
def test_real_workload_graphs(run: Run, shared: Path, tmp_path: Path, name: str) -> None:
    path = member(shared, name, tmp_path)
    nodes = json.loads(path.read_text())["workload_graph"]
    device = [each for each in nodes if not each["is_cpu_op"]]
    timed = [each for each in device if "runtime" in each]
    result = run(Chakra(), path)
    kernels = result.tables["kernels"]
    assert Counter(kernels["name"]) == Counter(each["Name"] for each in timed)
    assert kernels["duration_ns"].sum() == sum(each["runtime"] for each in timed) * 1000 > 0
    lost = {loss.what: loss.count for loss in result.losses}
    assert lost["the time of a host node"] == sum(bool(each.get("runtime")) for each in nodes if each["is_cpu_op"])
    assert lost.get("a kernel", 0) == len(device) - len(timed)


def test_absurd_numbers_of_a_node(run: Run) -> None:
    wild = node(2**64 - 1, "wild", COMP, start=2**63, duration=3, is_cpu_op=False, stream=-(2**63), comm_type=2**62)
    endless = node(3, "endless", COMP, duration=2**60, is_cpu_op=False)
    result = run(Chakra(), file_of(KERNEL, wild, endless))
    assert result.tables["kernels"]["duration_ns"].tolist() == [42_000, 3000]
    assert result.tables["kernels"]["start_ns"].isna().all()
    assert [(loss.what, loss.count) for loss in result.losses] == [("a kernel", 1)]


def test_a_graph_without_a_place_is_refused(run: Run) -> None:
    with pytest.raises(ReadError, match="simulator"):
        run(Chakra(), '{"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4, "runtime": 5}]}')


def test_absurd_times(run: Run) -> None:
    text = '{"Id": %d, "Name": "k", "NodeType": 4, "runtime": %s, "is_cpu_op": false}'
    nodes = [text % (i, value) for i, value in enumerate(["5", "-5", "1e400", "9" * 30, '"x"', "null"])]
    result = run(Chakra(), '{"workload_graph": [' + ", ".join(nodes) + "]}")
    assert result.tables["kernels"]["duration_ns"].tolist() == [5000]
    assert [(loss.what, loss.count) for loss in result.losses] == [("a kernel", 5)]


# --- what is taken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0\0\0",
        b"\x0a\x02ab",
        b"hello world, this is no protobuf at all",
        b'{"nodes": []}',
        b"\x89PNG\r\n",
    ],
)
def test_other_files_are_not_taken(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    source = Source(path, "other")
    assert not Chakra().recognizes(Head(source, source.head()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_a_record_or_an_error_of_ours(run: Run, data: st.DataObject) -> None:
    raw = bytearray(WHOLE)
    start = len(file_of(HOST))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(start, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    damaged = bytes(raw[: data.draw(st.integers(start, len(raw)))])
    with contextlib.suppress(WcbenchError):
        run(Chakra(), damaged)
