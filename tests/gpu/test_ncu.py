"""The reuse model's traffic at the L2's size against the DRAM bytes that Nsight Compute counts; `pytest -m gpu`."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import wcbench
from wcbench.analysis.memory import MemoryAccess

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(shutil.which("ncu") is None, reason="no ncu on the PATH"),
]

METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
TASKS = ("spatial-transformer", "image-classification", "natural-language")

STEP = """
import torch
from wcbench.tasks.load import load_task
task = load_task({name!r})
built = task.build(task.configure("small", device="cuda"))
batches = [built.batch(index) for index in range(4)]
for batch in batches[:3]:
    built.step(batch)
torch.cuda.synchronize()
torch.cuda.profiler.start()
built.step(batches[3])
torch.cuda.synchronize()
torch.cuda.profiler.stop()
"""


def dram_bytes(name: str, folder: Path) -> float:
    """Bytes read from and written to DRAM by all kernels of one step, as ncu counts them without clearing caches."""
    script = folder / "step.py"
    script.write_text(STEP.format(name=name), encoding="utf-8")
    command = ["ncu", "--csv", "--profile-from-start", "off", "--cache-control", "none", "--metrics", ",".join(METRICS)]
    done = subprocess.run([*command, sys.executable, str(script)], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    rows = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    values = (float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]] for row in rows)
    return sum(values)


def test_traffic_at_the_l2s_size_ranks_tasks_as_dram_does(tmp_path: Path) -> None:
    """Within a factor of three, and in the same order: kernels differ from operators, and fusion is cuDNN's own."""
    capacity = torch.cuda.get_device_properties(0).L2_cache_size
    modelled, measured = [], []
    for name in TASKS:
        profile = wcbench.profile(name, device="cuda", preset="small", passes=["operators"], save=False)
        memory: MemoryAccess = profile.view("memory")
        modelled.append(memory.allocator.traffic_at(capacity))
        measured.append(dram_bytes(name, tmp_path))
        print(f"{name}: model {modelled[-1]:.3e} B, DRAM {measured[-1]:.3e} B")
    assert sorted(range(3), key=modelled.__getitem__) == sorted(range(3), key=measured.__getitem__)
    assert all(1 / 3 < model / counted < 3 for model, counted in zip(modelled, measured, strict=True))
