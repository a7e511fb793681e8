"""What only a CUDA device can show; run with `pytest -m gpu`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import wcbench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> wcbench.Profile:
    runs: Path = tmp_path_factory.mktemp("runs")
    return wcbench.profile("spatial-transformer", device="cuda", preset="small", runs=runs)


def test_kernels_are_linked_to_launches_operators_and_phases(profile: wcbench.Profile) -> None:
    kernels = profile.table("kernels")
    assert (kernels["device"] == "cuda:0").all()
    linked = kernels[kernels["launch"].notna()]
    assert len(linked) / len(kernels) > 0.99
    assert linked["op"].notna().mean() > 0.95
    assert {"forward", "backward", "optimizer"} <= set(linked["phase"])
    compute = linked[~linked["name"].astype(str).str.startswith(("Memcpy", "Memset"))]
    assert compute["grid"].notna().all()
    assert compute["block"].notna().all()
    assert compute["occupancy_estimate"].dropna().between(0, 1).all()


def test_device_time_equals_torchs_own_table(profile: wcbench.Profile) -> None:
    summary = wcbench.summary(profile)
    assert summary["hotspots"]["of"] == "kernel time"
    assert summary["categories"]["unknown_share"] < 0.01
    assert abs(sum(summary["categories"]["full"].values()) - 1) < 1e-9
    # kernels of a step cannot be busy for longer than the step lasts on one stream
    assert summary["hotspots"]["total_ns"] / 1e6 < 1.05 * summary["passes"]["timeline"]["step_ms_median"]


def test_power_and_memory_are_there(profile: wcbench.Profile) -> None:
    summary = wcbench.summary(profile)
    assert summary["measured_memory"]["peak_bytes"] > 27_360 * 4
    device = summary["power"]["devices"][0]
    assert device["watts_mean"] > 0
    assert device["energy_integrated_j"] is None or device["energy_integrated_j"] > 0
