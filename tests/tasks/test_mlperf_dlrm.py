"""DLRM at MLPerf's size: sizes by hand, and look-ups that are quick though the tables are huge."""

from __future__ import annotations

import os
import time

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.mlperf.dlrm import MlperfDlrm

BOTTOM = 13 * 512 + 512 * 256 + 256 * 128
TOP = 479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256 * 1


def test_sizes_by_hand() -> None:
    assert 128 + 27 * 26 // 2 == 479
    assert 2 * (BOTTOM + TOP + 27 * 27 * 128) == 4_916_992  # 4,916,990 when rounded to six digits
    rows = MlperfDlrm.presets["paper"].tables()
    assert (len(rows), sum(rows)) == (26, 187_767_399)
    biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert 128 * sum(rows) + BOTTOM + TOP + biases == 24_036_595_969


def test_the_papers_scale_on_fake_tensors() -> None:
    task = MlperfDlrm()
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = task.build(task.configure("paper", fixed_shapes=True))
        assert built.infer is not None
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.infer(batch)
        built.step(batch)
    assert counter.get_total_flops() == 2048 * 4_916_992
    assert sum(p.numel() for p in built.modules["model"].parameters()) == 24_036_595_969


def test_look_ups_of_the_papers_scale_are_quick() -> None:
    """No table of 40 million entries is made: some 20 ms on a quiet core, where such tables take seconds."""
    task = MlperfDlrm()
    config = task.configure("paper")
    seconds = []
    for index in range(3):
        start = time.perf_counter()
        ids = task.lookups(config, index)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5
    rows = config.settings.tables()
    assert all(0 <= int(drawn.min()) <= int(drawn.max()) < rows[n] for n, drawn in enumerate(ids.values()))
    assert [len(drawn) for drawn in ids.values()] == [2048] * 26


@pytest.mark.parametrize("preset", ["small", "tiny"])
def test_the_real_ones_are_small(preset: str) -> None:
    task = MlperfDlrm()
    built = task.build(task.configure(preset))
    assert sum(p.numel() for p in built.modules["model"].parameters()) < 40_000_000
    assert all(float(built.step(built.batch(index))) < 5 for index in range(2))


def test_the_papers_scale_is_not_built_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**22}  # 16 GiB, whatever this machine has
    monkeypatch.setattr(os, "sysconf", lambda name: sizes[name])
    task = MlperfDlrm()
    with pytest.raises(UsageError, match=r"The tables take 89\.5 GiB, and this machine has 16\.0"):
        task.build(task.configure("paper"))
