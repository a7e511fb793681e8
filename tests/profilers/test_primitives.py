"""oneDNN's log: parsing by hand-written lines, real captures, and a task's own output that must survive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from wcbench.profilers.capture import Captured
from wcbench.profilers.primitives import parse_log
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]

MEMORY = "src_f32::blocked:abcd::f0 wei_f32::blocked:Acdb16a::f0 bia_f32::blocked:a::f0 dst_f32::blocked:abcd::f0"
SHAPE = "mb2_ic3oc8_ih10oh10kh3sh1dh0ph1_iw10ow10kw3sw1dw0pw1"
V1 = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
    f"{MEMORY},attr-scratchpad:user,alg:convolution_direct,{SHAPE},0.0251465"
)
OLD = V1.replace("v1,primitive,", "")
ROW = {
    "primitive": "convolution",
    "implementation": "jit:avx512_core",
    "direction": "forward_training",
    "memory": MEMORY,
    "attributes": "attr-scratchpad:user alg:convolution_direct",
    "shape": SHAPE,
    "duration_ns": 25146,  # 0.0251465 ms
    "step": 0,
}


def in_step(*lines: str) -> list[str]:
    return ["wcbench_step,0", *lines, "wcbench_step,"]


@pytest.mark.parametrize("line", [V1, OLD], ids=["v1", "before 3.5"])
def test_a_line_of_each_format(line: str) -> None:
    rows, odd = parse_log(in_step(line))
    assert rows in ([ROW], [{**ROW, "duration_ns": 25147}])  # 25146.5 ns rounds either way
    assert odd == 0


def test_a_line_with_a_timestamp() -> None:
    rows, odd = parse_log(in_step(V1.replace("v1,", "v1,1700000000.25,").replace("0.0251465", "2")))
    assert rows == [{**ROW, "duration_ns": 2_000_000}]
    assert odd == 0


def test_empty_attributes_and_commas_in_attributes() -> None:
    plain = f"onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,{MEMORY},,,8x3x3x3,0.001"
    comma = plain.replace(",,,", ",attr-post-ops:eltwise_relu:0:1,sum:0.5,alg:x,")
    rows, odd = parse_log(in_step(plain, comma))
    assert [row["attributes"] for row in rows] == ["", "attr-post-ops:eltwise_relu:0:1,sum:0.5 alg:x"]
    assert [row["shape"] for row in rows] == ["8x3x3x3"] * 2
    assert [row["duration_ns"] for row in rows] == [1000, 1000]
    assert odd == 0


def test_steps_are_told_apart_and_lines_outside_are_dropped() -> None:
    lines = [V1, "wcbench_step,0", V1, "wcbench_step,", V1, "wcbench_step,12", V1, V1, "wcbench_step,"]
    rows, _ = parse_log(lines)
    assert [row["step"] for row in rows] == [0, 12, 12]


def test_other_lines_are_no_primitives() -> None:
    lines = in_step(
        "onednn_verbose,v1,info,oneDNN v3.7.1 (commit 8d263e693366ef8db40acc569cc7d8edf644556d)",
        "onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,exec_time",
        "onednn_verbose,v1,primitive,create:cache_miss,cpu,convolution,jit,forward_training,m,,alg,s,0.5",
        "onednn_verbose,v1,graph,exec,cpu,100002,matmul,partition,src,,dst,0.25",
        "the task prints this, with ,exec, in it",
        "",
    )
    assert parse_log(lines) == ([], 0)


def test_garbage_is_counted_and_skipped() -> None:
    lines = in_step(
        "onednn_verbose,v1,primitive,exec,cpu,convolution",
        V1.replace("0.0251465", "soon"),
        V1[:80],
        "onednn_verbose,v1,primitive,exec,",
        V1,
    )
    rows, odd = parse_log(lines)
    assert len(rows) == 1
    assert odd == 4


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
def test_a_convolution_is_there_forward_and_backward_with_its_shape(run: Run, conv: Task) -> None:
    captured = run(conv, "primitives", steps=2, batch_size=2)
    table = captured.tables["primitives"].to_pandas()
    convolutions = table[table["primitive"] == "convolution"]
    assert set(convolutions["step"]) == {0, 1}
    directions = set(convolutions["direction"])
    assert "forward_training" in directions or "forward_inference" in directions
    assert {"backward_data", "backward_weights"} <= directions
    assert set(convolutions["shape"]) == {SHAPE}
    assert (table["duration_ns"] >= 0).all()
    assert table["duration_ns"].sum() > 0
    per_step = table.groupby("step").size()
    assert per_step[0] == per_step[1]
    assert captured.notes == []


def test_a_task_without_primitives_says_so(run: Run, task_of: Any) -> None:
    captured = run(task_of(lambda c: Built(lambda x: x.sum(), lambda i: torch.ones(4), {}, 4)), "primitives")
    assert "primitives" not in captured.tables
    assert [note.about for note in captured.notes] == ["primitives"]
    assert "ran no primitive" in captured.notes[0].text


def test_making_batches_is_not_in_the_table(run: Run, task_of: Any) -> None:
    weight = torch.randn(8, 3, 3, 3)

    def build(config: Config) -> Built:
        def batch(index: int) -> Tensor:
            return torch.nn.functional.conv2d(torch.ones(2, 3, 10, 10), weight)

        return Built(lambda x: x.sum(), batch, {}, 4)

    assert "primitives" not in run(task_of(build), "primitives").tables


CHILD = """
import ctypes, os, sys
import torch
from torch import nn
from wcbench.errors import TaskError
from wcbench.profilers.capture import Request, capture
from wcbench.tasks.base import PRESETS, Built, Settings, Task

libc = ctypes.CDLL(None)

class Talking(Task):
    presets = dict.fromkeys(PRESETS, Settings(2))
    fail_at = -1
    def build(self, config):
        model = nn.Conv2d(3, 8, 3, padding=1)
        self.count = 0
        def step(x):
            self.count += 1
            print("python", self.count)
            libc.printf(b"native %d\\n", self.count)
            if self.count == self.fail_at:
                raise RuntimeError("broken")
            return model(x).sum().detach()
        return Built(step, lambda i: torch.ones(2, 3, 10, 10), {"model": model}, 2)

def run(fail_at):
    task = Talking()
    task.fail_at = fail_at
    try:
        return capture(task, Request(passes=["primitives"], preset="tiny", warmup=1, steps=2))
    except TaskError as error:
        print("failed:", error.message.partition(":")[0])

print("first")
print("rows", run(-1).tables["primitives"].num_rows > 0)
run(6)
sys.stdout.flush(); libc.fflush(None)
print("last", flush=True)
nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 10, 10))
"""


def child(environment: dict[str, str]) -> list[str]:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False, env={**buffered, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
def test_what_a_task_prints_survives_in_a_pipe_even_when_it_fails() -> None:
    """Into a pipe both Python and C buffer whole blocks; 1 warm-up, 3 bare and 2 measured steps print twice each."""
    lines = child({"ONEDNN_VERBOSE": "0"})
    for word in ("python", "native"):
        said = [line for line in lines if line.startswith(word)]
        assert said == [f"{word} {n}" for n in range(1, 7)] * 2
    assert lines[0] == "first"
    assert "rows True" in lines
    assert any(line.startswith("failed: The task failed at step 5") for line in lines)
    assert not [line for line in lines if line.startswith(("onednn_verbose", "wcbench_step"))]
    assert lines[-1] == "last"


@pytest.mark.slow
def test_the_level_that_the_environment_asks_for_is_in_force_afterwards() -> None:
    lines = child({"ONEDNN_VERBOSE": "1"})
    after = lines[lines.index("last") :]
    assert any(",exec," in line and "convolution" in line for line in after)
