"""The timeline of real captures on a CPU: names, counts, self times, phases, and what must not be in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from wcbench.profilers.capture import Captured, capture
from wcbench.profilers.request import Request
from wcbench.profilers.timeline import Timeline
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]


def frames(captured: Captured) -> dict[str, pd.DataFrame]:
    return {name: table.to_pandas() for name, table in captured.tables.items()}


def calls(ops: pd.DataFrame, step: int) -> dict[str, int]:
    counts = ops.loc[ops["step"] == step, "name"].astype(str).value_counts()
    return {str(name): int(count) for name, count in counts.items()}


def test_convolution_and_linear_are_there_forward_and_backward(run: Run, mlp: Task, conv: Task) -> None:
    ops = frames(run(mlp, "timeline"))["ops"]
    phase = {str(name): set(rows["phase"]) for name, rows in ops.groupby("name", observed=True)}
    assert phase["aten::addmm"] == {"forward"}
    assert phase["aten::mm"] == {"backward"}
    ops = frames(run(conv, "timeline"))["ops"]
    phase = {str(name): set(rows["phase"]) for name, rows in ops.groupby("name", observed=True)}
    assert phase["aten::convolution"] == {"forward"}
    assert phase["aten::convolution_backward"] == {"backward"}


def test_calls_of_a_step_by_reasoning(run: Run, mlp: Task) -> None:
    """Two layers forward; backward wants two weight gradients and one input gradient (of the second layer)."""
    ops = frames(run(mlp, "timeline", steps=2))["ops"]
    for step in (0, 1):
        counts = calls(ops, step)
        assert counts["aten::addmm"] == 2
        assert counts["aten::mm"] == 3
        assert counts["aten::relu"] == 1
        assert counts["autograd::engine::evaluate_function: AddmmBackward0"] == 2
        assert counts["autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"] == 4


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_calls_equal_those_that_torch_itself_counts(run: Run, name: str, request: pytest.FixtureRequest) -> None:
    task: Task = request.getfixturevalue(name)
    built = task.build(task.configure("tiny"))
    for index in range(3):
        built.step(built.batch(index))
    batch = built.batch(3)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        built.step(batch)
    theirs = {e.key: e.count for e in profiler.key_averages() if not e.key.startswith("Optimizer.")}
    ops = frames(run(task, "timeline", steps=3))["ops"]
    assert calls(ops, 0) == calls(ops, 1) == calls(ops, 2)
    assert calls(ops[~repeats_its_parent(ops)], 0) == theirs


def repeats_its_parent(ops: pd.DataFrame) -> Any:
    """Where a call is the only child of one with its own name (sum over sum.dim): torch's table merges the two."""
    above = ops["parent"].astype("Int64")
    children = above.value_counts()
    names = ops["name"].astype(str)
    return (names == above.map(names)) & (above.map(children) == 1)


def test_self_times_and_python_make_up_the_step(run: Run, mlp: Task) -> None:
    found = frames(run(mlp, "timeline", steps=3))
    ops, steps = found["ops"], found["steps"]
    assert (ops["self_ns"] >= 0).all()
    measured = steps.loc[steps["role"] == "measured", "duration_ns"].tolist()
    assert len(measured) == 3
    for step, duration in enumerate(measured):
        mine = ops[ops["step"] == step]
        assert mine["thread"].nunique() == 1
        roots = mine[mine["depth"] == 0].sort_values("start_ns")
        # roots follow each other, so that what they span and what they leave (Python) is the step
        ends = roots["start_ns"] + roots["duration_ns"]
        assert (roots["start_ns"].to_numpy()[1:] >= ends.to_numpy()[:-1]).all()
        assert mine["self_ns"].sum() == roots["duration_ns"].sum()
        span = ends.iloc[-1] - roots["start_ns"].iloc[0]
        assert 0 < mine["self_ns"].sum() <= span <= 1.001 * duration + 1000


def test_self_time_is_the_duration_without_direct_children(run: Run, conv: Task) -> None:
    ops = frames(run(conv, "timeline", steps=1))["ops"]
    children = ops.groupby("parent")["duration_ns"].sum()
    expected = ops["duration_ns"] - children.reindex(ops.index).fillna(0).astype(int)
    assert ops["self_ns"].tolist() == expected.tolist()
    inside = ops["parent"].notna()
    above = ops.loc[ops.loc[inside, "parent"].astype(int)]
    assert (ops.loc[inside, "depth"].to_numpy() == above["depth"].to_numpy() + 1).all()
    assert (ops.loc[inside, "start_ns"].to_numpy() >= above["start_ns"].to_numpy()).all()
    assert (ops.loc[~inside, "depth"] == 0).all()


def test_on_a_cpu_each_call_is_a_kernel_with_its_self_time(run: Run, mlp: Task) -> None:
    """A call that only dispatches to itself again is one kernel with the self times of both, as in torch's table."""
    found = frames(run(mlp, "timeline"))
    ops, kernels = found["ops"], found["kernels"]
    assert ops["start_ns"].is_monotonic_increasing
    assert "runtime" not in found
    again = repeats_its_parent(ops)
    assert again.any()
    whole = ops[~again]
    for column in ("name", "start_ns", "step"):
        assert whole[column].tolist() == kernels[column].tolist()
    assert whole["phase"].astype(str).tolist() == kernels["phase"].astype(str).tolist()
    assert kernels["duration_ns"].sum() == ops["self_ns"].sum()
    alone = ~whole.index.isin(ops.loc[again, "parent"].astype(int))
    assert whole["self_ns"][alone].tolist() == kernels["duration_ns"][alone].tolist()
    assert set(kernels["device"]) == {"cpu"}
    for absent in ("stream", "op", "launch", "grid", "block", "registers", "occupancy_estimate", "bytes"):
        assert kernels[absent].isna().all()


def test_case_98_three_steps_and_no_stacks_or_shapes_by_default(run: Run, mlp: Task) -> None:
    captured = run(mlp, "timeline")
    assert captured.passes["timeline"].steps == Timeline.steps == 3
    assert set(frames(captured)["ops"]["step"]) == {0, 1, 2}


def giant(config: Config) -> Built:
    """Makes its batch by operators that the step has not: a singular value decomposition and a sort."""

    def batch(index: int) -> Tensor:
        generator = torch.Generator().manual_seed(index)
        return torch.linalg.svdvals(torch.randn(300, 300, generator=generator)).sort().values

    return Built(lambda x: (x * 2).sum(), batch, {}, 4)


def test_making_batches_is_no_part_of_the_step(run: Run, task_of: Any) -> None:
    names = set(frames(run(task_of(giant), "timeline"))["ops"]["name"])
    assert {"aten::mul", "aten::sum"} <= names
    assert not {n for n in names if "svd" in n or "sort" in n or "randn" in n}


def test_making_batches_is_part_of_the_step_when_asked(run: Run, task_of: Any) -> None:
    captured = run(task_of(giant), "timeline", data_in_step=True)
    names = set(frames(captured)["ops"]["name"])
    assert {"aten::mul", "aten::linalg_svdvals", "aten::sort"} <= names
    assert captured.passes["timeline"].data_in_step


def test_no_mark_and_nothing_between_steps_is_in_the_tables(run: Run, mlp: Task) -> None:
    found = frames(run(mlp, "timeline"))
    for table in ("ops", "kernels"):
        assert not found[table]["name"].astype(str).str.contains("wcbench|Optimizer|ProfilerStep").any()
        assert found[table]["step"].notna().all()


def many_phases(config: Config) -> Built:
    """zero_grad by zeroing, a teacher under no_grad, recomputation, clipping, an update by hand: all in one step."""
    torch.manual_seed(config.seed)
    model, teacher = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        with torch.no_grad():
            target = teacher(batch)
        found = checkpoint(model, batch, use_reentrant=False)
        assert isinstance(found, Tensor)
        loss = (found - target).abs().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for parameter in teacher.parameters():
                parameter.clamp_(-1, 1)
        return loss.detach()

    return Built(step, lambda i: torch.ones(4, 8), {"model": model, "teacher": teacher}, 4, {"adam": optimizer})


def test_phases_of_a_step_that_does_everything(run: Run, task_of: Any) -> None:
    ops = frames(run(task_of(many_phases), "timeline", steps=1))["ops"]
    phases = {str(name): Counter(rows["phase"].astype(str)) for name, rows in ops.groupby("name", observed=True)}
    assert set(phases["aten::_foreach_zero_"] if "aten::_foreach_zero_" in phases else phases["aten::zero_"]) == {
        "other"
    }
    assert set(phases["aten::sigmoid"]) == {"forward"}  # the teacher's, under no_grad
    assert phases["aten::tanh"] == {"forward": 1, "backward": 1}  # recomputed inside backward
    assert set(phases["aten::tanh_backward"]) == {"backward"}
    assert set(phases["aten::linalg_vector_norm"]) == {"other"}  # clipping
    assert set(phases["aten::_foreach_sqrt"]) == {"optimizer"}
    assert set(phases["aten::clamp_"]) == {"other"}


def lbfgs(config: Config) -> Built:
    torch.manual_seed(config.seed)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def step(batch: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(batch).square().mean()
            loss.backward()
            return loss

        loss: Tensor = optimizer.step(closure)  # type: ignore[arg-type, assignment]
        return loss.detach()

    return Built(step, lambda i: torch.ones(4, 8), {"model": model}, 4, {"lbfgs": optimizer})


def test_a_closure_is_forward_and_backward_inside_the_optimizer(run: Run, task_of: Any) -> None:
    ops = frames(run(task_of(lbfgs), "timeline", steps=1))["ops"]
    phases = {str(name): set(rows["phase"]) for name, rows in ops.groupby("name", observed=True)}
    assert phases["aten::addmm"] == {"forward"}
    assert phases["aten::mm"] == {"backward"}
    assert "optimizer" in set(ops["phase"])


def talks_at_c_level(config: Config) -> Built:
    def step(batch: Tensor) -> Tensor:
        os.write(2, b"a line of the task\n")
        return batch.sum()

    return Built(step, lambda i: torch.ones(4), {}, 4)


def test_kinetos_log_is_kept_off_the_screen_and_the_tasks_is_not(
    run: Run, task_of: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    run(task_of(talks_at_c_level), "timeline", steps=2)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "a line of the task\n" * (2 + 3 + 2)  # warm-up, bare, measured: nothing else, nothing lost


@pytest.mark.usefixtures("torch_unchanged")
def test_hooks_and_profiler_are_gone_when_a_measured_step_raises(run: Run, task_of: Any) -> None:
    models = []
    count = iter(range(100))

    def build(config: Config) -> Built:
        model = nn.Linear(2, 2)
        models.append(model)

        def step(batch: Tensor) -> Tensor:
            if next(count) == 6:  # the second measured step, after two of warm-up and three bare
                raise KeyboardInterrupt
            result: Tensor = model(batch)
            return result.sum()

        return Built(step, lambda i: torch.ones(4, 2), {"model": model}, 4)

    with pytest.raises(KeyboardInterrupt):
        run(task_of(build), "timeline")
    assert not models[0]._forward_hooks
    assert not models[0]._forward_pre_hooks
    assert not torch._C._autograd._profiler_enabled()
    capture(task_of(giant), Request(passes=["timeline"], preset="tiny"))  # and the next capture works


def test_a_model_whose_forward_raises_and_is_caught_leaves_no_open_mark(run: Run, task_of: Any) -> None:
    class Moody(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if float(x[0]) > 0:
                raise ValueError("not today")
            return x * 3

    def build(config: Config) -> Built:
        model = Moody()

        def step(batch: Tensor) -> Tensor:
            with torch.no_grad():
                for sign in (1, -1):
                    try:
                        model(batch * sign)
                    except ValueError:
                        batch = batch.abs()
                return batch.sqrt().sum()

        return Built(step, lambda i: torch.ones(4), {"model": model}, 4)

    ops = frames(run(task_of(build), "timeline", steps=1))["ops"]
    phases = {name: set(ops.loc[ops["name"] == name, "phase"]) for name in ("aten::mul", "aten::abs", "aten::sqrt")}
    # the model multiplies only where it does not raise; batch * sign is outside it
    assert phases == {"aten::mul": {"forward", "other"}, "aten::abs": {"other"}, "aten::sqrt": {"other"}}
