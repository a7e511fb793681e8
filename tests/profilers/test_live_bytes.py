"""Live bytes, their peak and the compulsory traffic of an MLP with Adam: by hand, and against torch's own tracker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from wcbench.analysis.live import live_bytes
from wcbench.analysis.locality import locality
from wcbench.analysis.memory import accesses_of, lifetimes_of, memory
from wcbench.profilers.capture import Captured
from wcbench.record import Profile, new_profile
from wcbench.tasks.base import Built, Config

Run = Callable[..., Captured]

SIZES, BATCH = (64, 128, 32), 16
PARAMETERS = sum(a * b + b for a, b in itertools.pairwise(SIZES))
SCALARS = 4  # tensors of parameters; Adam counts the steps of each


def build_adam(config: Config) -> Built:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.ReLU(), nn.Linear(SIZES[1], SIZES[2]))
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Built(step, lambda i: torch.ones(BATCH, SIZES[0]), {"model": model}, BATCH, {"adam": optimizer})


def profile_of(captured: Captured) -> Profile:
    return new_profile(
        task="mlp",
        variant=None,
        suites=(),
        machine={},
        command=(),
        passes=captured.passes,
        tables=captured.tables,
        notes=captured.notes,
    )


@pytest.fixture
def profile(run: Run, task_of: Any) -> Profile:
    return profile_of(run(task_of(build_adam), "operators"))


def test_an_mlps_live_bytes_by_hand(profile: Profile) -> None:
    found = live_bytes(profile)
    assert found is not None
    for name, nbytes in {
        "weight": 4 * PARAMETERS,
        "optimizer state": 8 * PARAMETERS + 4 * SCALARS,
    }.items():
        curve = found.bytes_by_class[name]
        assert curve.min() == curve.max() == nbytes
    # the forward pass leaves both the hidden layer (after ReLU) and the output
    assert found.bytes_by_class["activation"].max() >= 4 * BATCH * (SIZES[1] + SIZES[2])
    assert found.bytes_by_class["gradient"][-1] == 4 * PARAMETERS
    assert sum(found.peak_classes.values()) == found.peak_bytes
    assert found.peak_bytes == found.total.max()


def test_an_mlps_compulsory_bytes_by_hand(profile: Profile) -> None:
    """Read from before the step: weights, both moments, step counts and the batch. Left: those, and the gradients."""
    found = memory(profile)
    assert found is not None
    state = 4 * PARAMETERS * 3 + 4 * SCALARS
    local = found.logical
    assert local.unplaced_bytes == 0
    constant = 4  # the 1 that Adam adds to its step counts; Python makes it, no operator writes it
    assert local.live_in_bytes == state + 4 * BATCH * SIZES[0] + constant
    # gradients and the loss outlive the last operator
    assert 0 <= local.live_out_bytes - (state + 4 * PARAMETERS) <= 8
    assert local.compulsory_bytes == local.live_in_bytes + local.live_out_bytes
    traffic = local.traffic
    assert (traffic[1:] <= traffic[:-1]).all()
    cold = locality(accesses_of(profile), lifetimes_of(profile), flush=True)
    assert cold.traffic[-1] == cold.compulsory_bytes == local.compulsory_bytes
    assert (cold.traffic >= traffic).all()  # a warm step finds part of it in the cache
    assert found.fused.bytes <= local.operator_bytes


def test_lookups_have_no_place_and_count_their_rows(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        table = nn.Embedding(100, 8)
        step = lambda x: table(x).sum().detach()  # noqa: E731
        return Built(step, lambda i: torch.arange(6), {"table": table}, 6)

    found = memory(profile_of(run(task_of(build), "operators")))
    assert found is not None
    assert found.logical.unplaced_bytes == 6 * 8 * 4  # six rows of the table


def test_the_peak_is_that_of_torchs_own_tracker(run: Run, task_of: Any) -> None:
    """To the byte: neither rounds as an allocator does, and both have the batch from outside."""
    tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")
    built = build_adam(task_of(build_adam).configure("tiny"))
    built.step(built.batch(0))
    batch = built.batch(1)
    found = tracker.MemTracker()
    found.track_external(*built.modules.values(), *built.optimizers.values(), batch)
    with found:
        built.step(batch)
    (peak,) = [sums["Total"] for device, sums in found.get_tracker_snapshot("peak").items() if device.type == "cpu"]
    ours = live_bytes(profile_of(run(task_of(build_adam), "operators")))
    assert ours is not None
    assert ours.peak_bytes == peak == 253_076
