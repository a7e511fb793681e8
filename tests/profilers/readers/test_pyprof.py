"""PyProf's CSV and dictionaries, against the real file and against hand arithmetic."""

from __future__ import annotations

import contextlib
import csv
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers.base import Head, Sink, Source
from wcbench.profilers.readers.pyprof import MAX_LITERAL, PyProf, literal

READER = PyProf()
TITLES = ("Idx", "Direction", "Sub", "Module", "Op", "Kernel", "Params", "Sil(ns)", "TC", "FLOPs", "Bytes", "Layer",
          "Trace", "Device", "Stream", "Grid", "Block")  # fmt: skip
BASE = {
    "Idx": 1, "Direction": "fprop", "Sub": 0, "Module": "torch.nn.functional", "Op": "linear", "Kernel": "gemm",
    "Params": "M=1,N=1,K=1,", "Sil(ns)": 100, "TC": 1, "FLOPs": 2000.0, "Bytes": 400, "Layer": "-", "Trace": "-",
    "Device": 0, "Stream": 7, "Grid": "8,2,1", "Block": "128,1,1",
}  # fmt: skip


def table(*rows: dict[str, object]) -> str:
    lines = [TITLES, *([{**BASE, **row}[title] for title in TITLES] for row in rows)]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)


def kernel_dict(**changes: object) -> str:
    data = {
        "kShortName": "gemm", "kDuration": 1234, "layer": ["encoder", "0"], "trace": ["/a/train.py:5"],
        "reprMarkers": [], "marker": ["{'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'type': 'tensor'}]}"],
        "seqMarker": ["mm, seq = 5"], "seqId": [5], "subSeqId": 0, "altSeqId": [], "dir": "fprop", "mod": ["torch"],
        "op": ["mm"], "tid": 1, "device": 0, "stream": 7, "grid": (8, 2, 1), "block": (128, 1, 1),
        "kLongName": "void gemm<float>(float*)",
    }  # fmt: skip
    return f"{ {**data, **changes} }\n"


def test_real_file(run, shared):
    path = shared / "traces/pyprof/josiahdavis_lm.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = run(READER, path)
    kernels = found.tables["kernels"]
    assert len(kernels) == len(rows) == 160
    assert found.losses == []
    assert kernels["duration_ns"].tolist() == [int(r["Sil(ns)"]) for r in rows]
    times: Counter[str] = Counter()
    for r in rows:
        times[r["Kernel"]] += int(r["Sil(ns)"])
    mine = kernels.groupby("name", observed=True)["duration_ns"].sum().sort_values(ascending=False)
    assert list(zip(mine.index[:5], mine[:5], strict=True)) == times.most_common(5)
    assert [list(grid) for grid in kernels["grid"]] == [[int(n) for n in r["Grid"].split(",")] for r in rows]
    assert kernels["start_ns"].isna().all()
    assert kernels["module"].isna().all()
    assert set(kernels["device"]) == {"cuda:0"}
    assert set(kernels["stream"]) == {7}
    assert kernels["op"].tolist()[:2] == ["torch.nn.functional.embedding", "Tensor.__mul__"]
    assert found.passes["timeline"].device == "cuda:0"


def test_phases_of_the_real_file(run, shared):
    path = shared / "traces/pyprof/josiahdavis_lm.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    backward = [i for i, r in enumerate(rows) if r["Direction"] == "bprop"]
    phases = run(READER, path).tables["kernels"]["phase"].tolist()
    assert [phases[i] for i in backward] == ["backward"] * 42
    start = backward[0] - 1
    assert rows[start]["Op"] == "backward"
    assert phases[start] == "backward"
    assert phases[:start] == ["forward"] * start
    # behind it PyProf calls fprop what adds gradients up, clips them and steps the optimizer: 160 - 46 - 42
    rest = [phases[i] for i in range(start + 1, 160) if i not in backward]
    assert rest == ["other"] * 72


def test_work_of_the_real_file(run, shared):
    path = shared / "traces/pyprof/josiahdavis_lm.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = run(READER, path)
    counters = found.tables["counters"]
    flops, moved = (counters[counters["metric"] == name] for name in ("pyprof.flops", "pyprof.bytes"))
    assert set(flops["unit"]) == {"FLOP"}
    assert set(moved["unit"]) == {"B"}
    assert flops["kernel"].tolist() == moved["kernel"].tolist() == list(range(160))
    assert flops["value"].sum() == sum(float(r["FLOPs"]) for r in rows)
    assert moved["value"].sum() == sum(float(r["Bytes"]) for r in rows)
    zero = {i for i, r in enumerate(rows) if float(r["FLOPs"]) == 0}
    moves = {i for i, r in enumerate(rows) if r["Op"] == "embedding" and int(r["Bytes"])}
    assert {int(i) for i in flops["kernel"][flops["value"].isna()]} == zero - moves
    assert flops["value"].iloc[sorted(moves)].tolist() == [0.0] * 4
    assert {int(i) for i in moved["kernel"][moved["value"].isna()]} == {
        i for i, r in enumerate(rows) if int(r["Bytes"]) == 0
    }
    assert any("no FLOPs for" in note for note in found.notes)


def test_full_columns(run):
    found = run(
        READER,
        table(
            {"Layer": "net:encoder"},
            {"Direction": "bprop", "Op": "softmax", "FLOPs": 0, "TC": "-"},  # PyProf's formula leaves it at 0
            {"Op": "na", "Module": "na", "FLOPs": 0, "Bytes": 0, "TC": "na", "Params": "na=na,"},
            {"Op": "copy_", "Module": "Tensor", "FLOPs": 0, "Bytes": 64},
            {"Op": "linear", "FLOPs": 0, "Bytes": 0, "Sub": 1},
            {"Op": "add_", "Module": "Tensor", "Trace": "/x/torch/optim/sgd.py:9", "FLOPs": "1e3"},
            {"Op": "adam", "Module": "apex", "FLOPs": "nan"},
            {"Direction": "", "Op": "mm"},
        ),
    )
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    assert kernels["phase"].tolist() == [
        "forward", "backward", "other", "other", "forward", "optimizer", "optimizer", "other",
    ]  # fmt: skip
    assert kernels["module"].tolist()[0] == "net:encoder"
    assert kernels["module"].isna().sum() == 7
    assert kernels["op"].isna()[2]
    assert kernels["op"][3] == "Tensor.copy_"
    flops = counters[counters["metric"] == "pyprof.flops"]["value"]
    moved = counters[counters["metric"] == "pyprof.bytes"]["value"]
    assert flops.fillna(-1).tolist() == [2000.0, -1, -1, 0.0, -1, 1000.0, -1, 2000.0]
    assert moved.fillna(-1).tolist() == [400, 400, -1, 64, -1, 400, 400, 400]
    assert list(kernels["grid"][0]) == [8, 2, 1]
    assert list(kernels["block"][0]) == [128, 1, 1]


def test_next_step_begins_with_a_function_of_a_module(run):
    rows = [
        {"Direction": "bprop"},
        {"Op": "add_", "Module": "na"},
        {"Op": "mul", "Module": "Tensor"},
        {"Op": "embedding"},
        {"Op": "add", "Module": "Tensor"},
    ]
    found = run(READER, table(*rows))
    assert found.tables["kernels"]["phase"].tolist() == ["backward", "other", "other", "forward", "forward"]
    assert any(note.startswith("2 of 5 kernels") for note in found.notes)


def test_long_names_win(run):
    text = '"KernelLName","Kernel","Sil(ns)","Op"\n"void gemm<float>(int)","gemm","5","mm"\n'
    found = run(READER, text)
    assert found.tables["kernels"]["name"].tolist() == ["void gemm<float>(int)"]
    assert found.tables["kernels"]["phase"].tolist() == ["other"]
    assert found.tables["kernels"]["grid"].isna().all()


def test_error_text_in_the_file(run):
    """PyProf's issues 95 and 98, apex's 737: messages in front of and behind the kernels."""
    text = (
        "Found 2 kernels. Getting info for each kernel.\n" + table({}, {})
        + "Traceback (most recent call last):\n"
        + 'File "/usr/lib/python3/prof.py", line 5, in main\nAssertionError\n"1","fprop"\n'
    )  # fmt: skip
    found = run(READER, text)
    assert len(found.tables["kernels"]) == 2
    assert {(loss.what, loss.count) for loss in found.losses} == {("a line", 1), ("a row", 4)}


def test_dictionaries(run):
    found = run(
        READER,
        kernel_dict()
        + "Error: seqId 5 not found.\n"
        + kernel_dict(dir="bprop", op=[], mod=["na"], grid=(1, 2), layer=[], kLongName="")
        + kernel_dict(kDuration=-5)
        + kernel_dict(kDuration=2**70)
        + kernel_dict(trace=["/x/apex/optimizers/fused_adam.py:3"], op=["step"], stream="x")
        + "{'kShortName': __import__('os').system('true'), 'kDuration': 1}\n",
    )
    kernels = found.tables["kernels"]
    assert kernels["name"].tolist() == ["void gemm<float>(float*)", "gemm", "void gemm<float>(float*)"]
    assert kernels["duration_ns"].tolist() == [1234] * 3
    assert kernels["phase"].tolist() == ["forward", "backward", "optimizer"]
    assert kernels["op"].tolist()[0] == "torch.mm"
    assert kernels["op"].isna()[1]
    assert kernels["module"].tolist()[0] == "encoder:0"
    assert list(kernels["grid"][0]) == [8, 2, 1]
    assert kernels["grid"][1] is None
    assert "counters" not in found.tables
    assert any("net.dict has no FLOPs" in note for note in found.notes)
    assert [(loss.what, loss.count) for loss in found.losses] == [("a line", 4)]


@pytest.mark.parametrize(
    "line",
    [
        "{'a': " + "[" * 50_000 + "]" * 50_000 + "}",
        "{'a': " + "(" * 90 + ")" * 90 + "}",
        "{'a': " + "-" * 100_000 + "1}",
        "{'a': " + "9" * 5000 + "}",
        "{'a': 1}" + " " * MAX_LITERAL,
        "{'a': '\x00'}",
        "{'a'}",
        "{**x}",
        "{'a': f()}",
        "{[]: 1}",
        "{",
    ],
)
def test_literals_that_are_none(line):
    found = literal(line)
    assert found is None or found.keys() == {"a"}


def test_backslashes_of_texts(recwarn):
    assert literal(r"{'kShortName': '\d'}") == {"kShortName": r"\d"}
    assert not recwarn.list


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (table(), "no kernels"),
        ('"Kernel","Op","FLOPs"\n"a","b","1"\n', "Sil"),
        ('"Kernel","Op","Sil(ns)","Phase","Operator"\n"na","mm","na","forward","aten::mm"\n', "wcbench's own export"),
        ("{'kShortName': 'a', 'kDuration': 'x'}\n", "no kernels"),
    ],
)
def test_refused(run, text, words):
    with pytest.raises(ReadError, match=words):
        run(READER, text)


def test_absurd_cells(run):
    found = run(READER, table({"Sil(ns)": "1e400"}, {"Sil(ns)": 2**64}, {"Sil(ns)": -1}, {"Kernel": ""}, {"Bytes": -1}))
    assert len(found.tables["kernels"]) == 1
    moved = found.tables["counters"].set_index("metric")["value"]
    assert moved.isna()["pyprof.bytes"]
    assert moved["pyprof.flops"] == 2000.0
    assert [(loss.what, loss.count) for loss in found.losses] == [("a kernel", 4)]


@pytest.mark.parametrize("text", ["", "Kernel,x,y\n", "{}\n", '{"kShortName": 1}\n', "a\nb\n", '"Kernel","Duration"\n'])
def test_other_files(tmp_path, text):
    (tmp_path / "net.dict").write_text(text)
    source = Source(tmp_path / "net.dict", "net.dict")
    assert not READER.recognizes(Head(source, source.head()))


def test_many_kernels_keep_their_rows(run):
    many = 40_000
    text = '"Kernel","Op","Sil(ns)","TC","FLOPs","Bytes"\n'
    found = run(READER, text + "".join(f'"k{i % 9}","mm","{i + 1}","1","{i}","8"\n' for i in range(many)))
    kernels, counters = found.tables["kernels"], found.tables["counters"]
    names = kernels["name"].astype(str).to_numpy()[counters["kernel"].to_numpy(dtype=int)]
    assert len(counters) == 2 * many
    assert (names == counters["name"].astype(str).to_numpy()).all()


GOOD = [table({}, {"Direction": "bprop"}, {}), kernel_dict() * 2]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_never_a_crash(data):
    good = data.draw(st.sampled_from(GOOD)).encode()
    content = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        path.write_bytes(content)
        source, sink = Source(path, "file"), Sink("file", Path(name))
        with contextlib.suppress(WcbenchError):
            if READER.recognizes(Head(source, source.head())):
                READER.read(source, sink)
                sink.finish()
