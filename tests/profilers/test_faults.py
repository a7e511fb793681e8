"""What tasks do that would make figures wrong or lose them: each is told, or made harmless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile, record_function

import wcbench
from wcbench.errors import TaskError
from wcbench.profilers.capture import Captured
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]
TaskOf = Callable[..., Task]


def texts(captured: Captured) -> list[str]:
    return [note.text for note in captured.notes]


def built_of(step: Callable[[Tensor], Any], **more: Any) -> Callable[[Config], Built]:
    """A task of one linear layer whose step is given."""
    return lambda config: Built(step, lambda index: torch.ones(4, 8), {}, 4, **more)


def product(x: Tensor) -> Tensor:
    return (x @ x.T).sum()


def test_ranges_of_the_users_own_cut_nothing(run: Run, task_of: TaskOf) -> None:
    """A range opened before backward and closed in a hook crosses operators; phases must not follow it."""

    def build(config: Config) -> Built:
        model = nn.Linear(8, 8)

        def step(x: Tensor) -> Tensor:
            open_range = record_function("mine")
            out = model(x)
            out.register_hook(lambda grad: open_range.__exit__(None, None, None))
            open_range.__enter__()
            loss = (out @ out.T).sum()
            loss.backward()
            return loss.detach()

        return Built(step, lambda index: torch.ones(4, 8), {"model": model}, 4)

    captured = run(task_of(build), "timeline")
    assert not any("cut to its end" in text for text in texts(captured))
    ops = captured.tables["ops"].to_pandas()
    inside = ops[ops["name"] == "aten::mm"]
    assert set(inside["phase"]) == {"forward", "backward"}
    # two of the product's backward and one of the layer's, against the product's own in the forward pass
    counts = inside[inside["step"] == 0].groupby("phase", observed=True).size()
    assert (counts["forward"], counts["backward"]) == (1, 3)


def test_a_profiler_of_the_tasks_own_is_told(run: Run, task_of: TaskOf) -> None:
    def step(x: Tensor) -> Tensor:
        with profile():
            return product(x)

    captured = run(task_of(built_of(step)), "timeline")
    assert any("A profiler of the task's own cancels this one" in text for text in texts(captured))
    assert "kernels" not in captured.tables


def test_a_profiler_or_mode_that_a_task_leaves_on_is_switched_off(run: Run, task_of: TaskOf) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    def left_profiler(x: Tensor) -> Tensor:
        if not torch._C._autograd._profiler_enabled():
            profile().__enter__()
        return product(x)

    def left_mode(x: Tensor) -> Tensor:
        if _get_current_dispatch_mode() is None:
            Passing().__enter__()  # type: ignore[no-untyped-call]
        return product(x)

    for step in (left_profiler, left_mode):
        captured = run(task_of(built_of(step)), "memory", "timing", steps=1)
        assert list(captured.passes) == ["memory", "timing"]  # the second pass does not refuse to start
        assert not torch._C._autograd._profiler_enabled()
        assert _get_current_dispatch_mode() is None


def test_threads_that_a_step_starts_are_told_and_start_all_the_same(run: Run, task_of: TaskOf) -> None:
    done: list[int] = []

    def step(x: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: done.append(1))
        thread.start()
        thread.join()
        return product(x)

    before = threading.Thread.start
    captured = run(task_of(built_of(step)), "timing", steps=3, warmup=1)
    assert len(done) == 4
    assert any("started 4 Python threads" in text for text in texts(captured))
    assert threading.Thread.start is before


def test_steps_of_several_kinds_are_measured_in_their_proportion(run: Run, task_of: TaskOf) -> None:
    kind = lambda index: "critic" if index % 5 else "generator"  # noqa: E731
    captured = run(task_of(built_of(product, kind=kind)), "timeline")
    steps = captured.tables["steps"].to_pandas()
    assert steps.loc[steps["role"] == "measured", "kind"].value_counts().to_dict() == {"critic": 4, "generator": 1}
    told = "Steps differ in kind; measured were 1 generator, 4 critic: figures are of this mixture"
    assert f"{told} (in training: 0.2 generator, 0.8 critic)." in texts(captured)


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), RecursionError("deep"), StopIteration()])
def test_whatever_a_task_raises_is_the_tasks_failure(run: Run, task_of: TaskOf, error: BaseException) -> None:
    def step(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(TaskError, match=type(error).__name__):
        run(task_of(built_of(step)), "timing")


@pytest.mark.parametrize("samples", [0, -1, 2.5, None, True])
def test_a_step_without_whole_samples_is_refused(run: Run, task_of: TaskOf, samples: Any) -> None:
    with pytest.raises(TaskError, match="whole number of samples"):
        run(task_of(lambda config: Built(product, lambda index: torch.ones(4, 8), {}, samples)), "timing")


def test_settings_that_the_task_changes_are_recorded_and_told(run: Run, task_of: TaskOf) -> None:
    def build(config: Config) -> Built:
        torch.set_float32_matmul_precision("medium")
        return built_of(product)(config)

    captured = run(task_of(build), "timing", steps=1)
    assert captured.passes["timing"].torch["float32_matmul_precision"] == "medium"
    assert any("float32_matmul_precision highest to medium" in text for text in texts(captured))
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_callers_autocast_is_not_the_tasks(run: Run, task_of: TaskOf) -> None:
    seen: list[torch.dtype] = []

    def step(x: Tensor) -> Tensor:
        out = x @ x.T
        seen.append(out.dtype)
        return out.sum()

    with torch.autocast("cpu", torch.bfloat16):
        run(task_of(built_of(step)), "timing", steps=1, warmup=0)
    assert seen == [torch.float32]


def test_passes_that_saw_other_losses_are_told(run: Run, task_of: TaskOf) -> None:
    state = iter(np.arange(1, 1000.0))
    captured = run(task_of(built_of(lambda x: product(x) * next(state))), "memory", "timing", steps=2)
    assert any("so passes are not of the same work" in text for text in texts(captured))
    assert not any("same work" in text for text in texts(run(task_of(built_of(product)), "memory", "timing", steps=2)))


def test_the_log_of_primitives_survives_what_a_task_prints_on_its_lines(
    run: Run, task_of: TaskOf, capfd: pytest.CaptureFixture[str]
) -> None:
    layer = nn.Conv2d(1, 8, 3)

    def quiet(x: Tensor) -> Tensor:
        with torch.no_grad():
            return layer(torch.ones(2, 1, 16, 16)).sum()

    def loud(x: Tensor) -> Tensor:
        os.write(1, b"half a line")  # as a flushed print does; pytest keeps sys.stdout off the descriptor
        return quiet(x)

    def logged(step: Callable[[Tensor], Tensor]) -> list[tuple[str, int]]:
        table = run(task_of(built_of(step)), "primitives", steps=2, warmup=0).tables["primitives"].to_pandas()
        return list(zip(table["primitive"].astype(str), table["step"], strict=True))

    expected = logged(quiet)
    assert [step for name, step in expected if name == "convolution"] == [0, 1]
    assert logged(loud) == expected  # the first primitive of a step stands on the half line
    out = capfd.readouterr().out
    assert out.count("half a line") == 5  # three bare steps, two measured
    assert "onednn_verbose" not in out
    assert "wcbench_step" not in out


def test_memory_leaves_out_what_torch_loads_once() -> None:
    """Twenty parameters in a fresh process: what the first optimizer of a process imports is not their memory."""
    code = (
        "import json, wcbench\n"
        "p = wcbench.profile('spatial-transformer', device='cpu', preset='tiny', passes=['memory'], save=False)\n"
        "print(json.dumps(wcbench.summary(p)['measured_memory']['increase_bytes']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout) < 60 * 2**20  # scikit-learn's import with the digits among it


def test_json_is_alone_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os, torch\nfrom wcbench import Built, Settings, Task\n"
        "class Loud(Task):\n"
        "    presets = {'tiny': Settings(4)}\n"
        "    def build(self, config):\n"
        "        def step(x):\n"
        "            print('from Python')\n"
        "            os.write(1, b'from below\\n')\n"
        "            return x.sum()\n"
        "        return Built(step, lambda i: torch.ones(4), {}, 4)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "wcbench", "profile", "loud:Loud", "--passes", "timing", "--json", "--steps", "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["passes"]["timing"]["preset"] == "tiny"  # the only one that the task has
    assert "from Python" in done.stderr
    assert "from below" in done.stderr


def test_flipped_bits_in_a_record_are_noticed(tmp_path: Path) -> None:
    profile_ = wcbench.profile(
        "spatial-transformer", device="cpu", preset="tiny", passes=["timing"], steps=20, out=tmp_path / "run"
    )
    assert profile_.path is not None
    file = profile_.path / "steps.parquet"
    whole = bytearray(file.read_bytes())
    noticed = 0
    for at in range(8, 200, 8):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        try:
            same = wcbench.load(profile_.path).table("steps").equals(profile_.table("steps"))
        except wcbench.WcbenchError:
            noticed += 1
        else:
            assert same, f"bit at {at} changed the numbers in silence"
    assert noticed
