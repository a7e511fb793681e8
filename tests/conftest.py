"""What all tests share: the folder of real files beside the checkout, and the proof that nothing is left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before torch is loaded: where two processes share two cores, a second thread of each waits for the other's.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def shared_folder() -> Path:
    """The folder ../shared; without it the test is skipped, and under CI it fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have {SHARED}")
        pytest.skip("no ../shared beside this checkout")
    return SHARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares fixtures or caches runs in one process (pytest-xdist, ``--dist loadgroup``): a file, or of the tasks'
    contract everything on one task."""
    for item in items:
        task = getattr(item, "callspec", None)
        contract = item.path.name == "test_contract.py" and task is not None and "name" in task.params
        group = f"task {task.params['name']}" if contract else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
def shared() -> Path:
    return shared_folder()


def _torch_state() -> dict[str, Any]:
    """Everything process-wide that a capture could leave changed; written apart from `profilers.state`."""
    import random

    import numpy as np
    import torch
    from torch.nn.modules import module
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    homes = (module, sys.modules[torch.optim.Optimizer.__module__])
    names = ((home, name) for home in homes for name in dir(home) if name.startswith("_global_"))
    hooks = {name: len(getattr(home, name)) for home, name in names if isinstance(getattr(home, name), dict)}
    return {
        "hooks": hooks,
        "profiler": torch._C._autograd._profiler_enabled(),
        "mode": _get_current_dispatch_mode(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark),
        "torch_rng": torch.get_rng_state().tolist(),
        "numpy_rng": np.random.get_state()[1].tolist(),
        "python_rng": random.getstate(),
    }


@pytest.fixture
def torch_unchanged() -> Iterator[None]:
    """Fail if the test left torch's process-wide state changed."""
    before = _torch_state()
    yield
    after = _torch_state()
    assert after == before


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """After every test: no profiler on, no dispatch mode, no hook; cheap while torch is not loaded."""
    yield
    if "torch" in sys.modules:
        state = _torch_state()
        assert not state["profiler"]
        assert state["mode"] is None
        assert not any(state["hooks"].values()), state["hooks"]
