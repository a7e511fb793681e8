"""Process-wide state of torch: whatever a task changes is put back; other instruments are refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import CaptureError, TaskError
from wcbench.profilers.capture import PASSES, Captured
from wcbench.profilers.state import preserved_state, torch_settings
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]


def mixed(read: Callable[[], Any]) -> Any:
    """What torch says, or that it refuses because its two interfaces to fp32 precision were mixed."""
    try:
        return read()
    except RuntimeError:
        return "mixed"


# (name, what it is now, how a task may change it)
STATE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "threads": (torch.get_num_threads, lambda: torch.set_num_threads(3)),
    "dtype": (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float64)),
    "device": (torch.get_default_device, lambda: torch.set_default_device("meta")),
    "grad": (torch.is_grad_enabled, lambda: torch._C._set_grad_enabled(False)),
    "anomaly": (torch.is_anomaly_enabled, lambda: torch.set_anomaly_enabled(True)),
    "matmul precision": (
        lambda: (
            mixed(torch.get_float32_matmul_precision),
            torch.backends.cuda.matmul.fp32_precision,
            torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        ),
        lambda: torch.set_float32_matmul_precision("medium"),
    ),
    "matmul precision, new interface": (
        lambda: (mixed(torch.get_float32_matmul_precision), torch.backends.cuda.matmul.fp32_precision),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    ),
    "fp32 precision of all": (
        lambda: (torch.backends.fp32_precision, torch.backends.cudnn.conv.fp32_precision),  # type: ignore[attr-defined]
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    ),
    "cudnn tf32": (lambda: torch.backends.cudnn.allow_tf32, lambda: setattr(torch.backends.cudnn, "allow_tf32", False)),
    "deterministic": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    ),
    "mkldnn": (lambda: torch.backends.mkldnn.enabled, lambda: setattr(torch.backends.mkldnn, "enabled", False)),
    "cudnn": (lambda: torch.backends.cudnn.enabled, lambda: setattr(torch.backends.cudnn, "enabled", False)),
    "benchmark": (lambda: torch.backends.cudnn.benchmark, lambda: setattr(torch.backends.cudnn, "benchmark", True)),
    "cudnn deterministic": (
        lambda: torch.backends.cudnn.deterministic,
        lambda: setattr(torch.backends.cudnn, "deterministic", True),
    ),
    "flash": (torch.backends.cuda.flash_sdp_enabled, lambda: torch.backends.cuda.enable_flash_sdp(False)),
    "math": (torch.backends.cuda.math_sdp_enabled, lambda: torch.backends.cuda.enable_math_sdp(False)),
    "efficient": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        lambda: torch.backends.cuda.enable_mem_efficient_sdp(False),
    ),
    "cudnn attention": (torch.backends.cuda.cudnn_sdp_enabled, lambda: torch.backends.cuda.enable_cudnn_sdp(False)),
    "torch RNG": (lambda: torch.get_rng_state().tolist(), lambda: torch.manual_seed(99)),
    "numpy RNG": (lambda: list(np.random.get_state()[1]), lambda: np.random.seed(99)),  # type: ignore[index]
    "python RNG": (random.getstate, lambda: random.seed(99)),
    "module hooks": (
        lambda: dict(nn.modules.module._global_forward_hooks),
        lambda: nn.modules.module.register_module_forward_hook(lambda *a: None),
    ),
    "backward hooks": (
        lambda: dict(nn.modules.module._global_backward_hooks),
        lambda: nn.modules.module.register_module_full_backward_hook(lambda *a: None),
    ),
    "optimizer hooks": (
        lambda: len(__import__("sys").modules[torch.optim.Optimizer.__module__]._global_optimizer_post_hooks),
        lambda: register_optimizer_step_post_hook(lambda *a: None),
    ),
}

every_state = pytest.mark.parametrize("name", STATE)


@every_state
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.usefixtures("torch_unchanged")
def test_what_is_changed_inside_is_put_back(name: str, raises: bool) -> None:
    read, change = STATE[name]
    before = read()
    try:
        with preserved_state():
            change()
            assert read() != before, "the test changes nothing"
            if raises:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert raises
    assert read() == before


@every_state
@pytest.mark.usefixtures("torch_unchanged")
def test_what_a_task_changes_is_gone_in_the_next_pass(run: Run, task_of: Any, name: str) -> None:
    read, change = STATE[name]
    before, seen = read(), []
    is_seeded = "RNG" in name

    def build(config: Config) -> Built:
        seen.append(read())
        model = nn.Linear(2, 2)

        def step(x: torch.Tensor) -> float:
            change()
            return 0.5

        return Built(step, lambda i: None, {"model": model}, 4)  # type: ignore[arg-type, return-value]

    run(task_of(build), "memory", "timing", steps=1, warmup=1)
    assert len(seen) == 3  # memory's rehearsal, memory, timing
    assert seen[0] == seen[1] == seen[2]
    assert is_seeded or seen[0] == before
    assert read() == before


def raising(where: str, error: type[BaseException]) -> Callable[[Config], Built]:
    """A task that changes all it can and then raises."""

    def trouble(index: int = 0) -> Any:
        for _, change in STATE.values():
            change()
        raise error("on purpose")

    def build(config: Config) -> Built:
        if where == "build":
            trouble()
        batch = trouble if where == "batch" else (lambda i: torch.ones(4))
        kind = trouble if where == "kind" else (lambda i: "train")
        step = trouble if where == "step" else (lambda x: x.sum())
        return Built(step, batch, {"model": nn.Linear(2, 2)}, 4, kind=kind)

    return build


@pytest.mark.parametrize("passname", [name for name in PASSES if name != "power"])
@pytest.mark.parametrize("where", ["build", "batch", "step", "kind"])
@pytest.mark.usefixtures("torch_unchanged")
def test_state_is_restored_when_the_task_raises(run: Run, task_of: Any, passname: str, where: str) -> None:
    before = {name: read() for name, (read, _) in STATE.items()}
    with pytest.raises(TaskError, match="ValueError: on purpose") as caught:
        run(task_of(raising(where, ValueError)), passname)
    assert f"of pass {passname}" in caught.value.message
    assert {name: read() for name, (read, _) in STATE.items()} == before


@pytest.mark.parametrize("passname", ["operators", "memory", "timing", "timeline", "primitives"])
@pytest.mark.usefixtures("torch_unchanged")
def test_state_is_restored_at_ctrl_c(run: Run, task_of: Any, passname: str) -> None:
    before = {name: read() for name, (read, _) in STATE.items()}
    with pytest.raises(KeyboardInterrupt):
        run(task_of(raising("step", KeyboardInterrupt)), passname)
    assert {name: read() for name, (read, _) in STATE.items()} == before


@pytest.fixture
def mixed_precision_interfaces() -> Iterator[None]:
    """The recommended new interface used once: from then on torch refuses to answer the old one."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert mixed(torch.get_float32_matmul_precision) == "mixed"
    yield
    torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.usefixtures("mixed_precision_interfaces")
def test_a_user_of_the_new_precision_interface_can_capture(run: Run, mlp: Task) -> None:
    settings = run(mlp, "timing", steps=1).passes["timing"].torch
    assert settings["float32_matmul_precision"] is None
    assert settings["fp32_precision_cuda_matmul"] == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"


def test_case_1_a_capture_inside_a_profiler_is_refused(run: Run, mlp: Task) -> None:
    with profile(acc_events=True), pytest.raises(CaptureError, match="torch profiler is already running") as caught:
        run(mlp, "timing", steps=1)
    assert caught.value.hint is not None
    assert "195746" in caught.value.hint


def test_case_1_a_capture_inside_a_dispatch_mode_is_refused(run: Run, mlp: Task) -> None:
    with FlopCounterMode(display=False) as mode, pytest.raises(CaptureError, match="dispatch mode"):
        run(mlp, "timeline")
    assert mode.get_total_flops() == 0  # nothing ran


def test_case_1_a_profiler_started_by_hand_is_refused(run: Run, mlp: Task) -> None:
    profiler = profile(acc_events=True)
    profiler.start()
    try:
        with pytest.raises(CaptureError):
            run(mlp, "operators")
    finally:
        profiler.stop()


def test_settings_are_plain_values() -> None:
    import json

    settings = torch_settings()
    assert json.loads(json.dumps(settings, allow_nan=False)).keys() == settings.keys()
    assert settings["threads"] == torch.get_num_threads()
    assert settings["default_dtype"] == "float32"
    assert settings["mkldnn"] is torch.backends.mkldnn.enabled
