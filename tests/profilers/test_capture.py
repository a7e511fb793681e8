"""The loop over steps: order, counts, seeds, losses, settings, and what it says when a task cannot be stepped."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from wcbench.errors import TaskError, UnknownNameError, UsageError
from wcbench.profilers import loop as module
from wcbench.profilers import timing
from wcbench.profilers.base import Collector
from wcbench.profilers.capture import (
    COLLECTORS,
    PASSES,
    Captured,
    Request,
    capture,
    check_device,
    check_passes,
    default_passes,
    preset_of,
    run_pass,
    silent,
)
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]

no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def steps(captured: Captured, passname: str = "timing") -> pd.DataFrame:
    table = captured.tables["steps"].to_pandas()
    return table[table["pass"] == passname].reset_index(drop=True)


def roles(captured: Captured, passname: str = "timing") -> dict[str, int]:
    return {str(role): int(n) for role, n in steps(captured, passname)["role"].astype(str).value_counts().items()}


def simple(step: Callable[[Any], Any], **more: Any) -> Callable[[Config], Built]:
    return lambda config: Built(step, more.pop("batch", lambda i: torch.ones(4)), {}, 4, **more)


# --- which passes, on what ------------------------------------------------------------------------------------------


def test_passes_run_in_their_own_order_whatever_the_request(run: Run, mlp: Task) -> None:
    seen: list[str] = []

    def progress(passname: str, done: int, total: int) -> None:
        if passname not in seen:
            seen.append(passname)

    request = Request(passes=["primitives", "timeline", "timing", "operators", "memory"], preset="tiny", steps=1)
    captured = capture(mlp, request, progress)
    expected = ["operators", "memory", "timing", "timeline", "primitives"]
    assert [name for name in seen if "(" not in name] == list(captured.passes) == expected
    assert [name for name in seen if "(" in name] == ["operators (batch 8)", "operators (batch 16)"]
    assert [name for name in PASSES if name != "power"] == expected == list(COLLECTORS)


def test_power_rides_on_timing() -> None:
    assert check_passes(["power"], "cpu") == ("timing", "power")
    assert check_passes(["timeline", "power", "timeline"], "cpu") == ("timing", "power", "timeline")


def test_all_passes_by_default() -> None:
    assert default_passes("cpu") == PASSES
    assert default_passes("cuda:0") == tuple(name for name in PASSES if name != "primitives")
    assert check_passes(None, "cpu") == PASSES


@pytest.mark.parametrize(
    ("passes", "device", "message"),
    [
        ([], "cpu", "No pass is named"),
        (["timeing"], "cpu", "Unknown pass 'timeing'"),
        (["primitives"], "cuda:0", "exists on a CPU only"),
    ],
)
def test_passes_that_cannot_be(passes: list[str], device: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        check_passes(passes, device)
    assert caught.value.hint


def test_an_unknown_pass_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        check_passes(["timelin"], "cpu")
    assert "timeline" in caught.value.suggestions


def test_presets_without_one_asked_for() -> None:
    host, device = Request(device="cpu"), Request(device="cuda:0")
    assert [preset_of(COLLECTORS[name], host) for name in COLLECTORS] == ["paper", "small", "small", "small", "small"]
    assert {preset_of(cls, device) for cls in COLLECTORS.values()} == {"paper"}
    assert {preset_of(cls, Request(preset="tiny")) for cls in COLLECTORS.values()} == {"tiny"}


def test_devices() -> None:
    assert check_device("cpu") == "cpu"
    with pytest.raises(UsageError, match="'meta' is not supported"):
        check_device("meta")
    with pytest.raises(UnknownNameError, match="Unknown device 'gpu'"):
        check_device("gpu")


@no_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_cuda_without_cuda_says_what_is_missing(mlp: Task, device: str) -> None:
    with pytest.raises(UsageError, match=f"Device '{device}' cannot be used: .*CUDA") as caught:
        capture(mlp, Request(device=device))
    assert caught.value.hint is not None
    assert "--device cpu" in caught.value.hint


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"steps": -3}, {"warmup": -1}, {"threads": 0}, {"batch_size": 0}], ids=str
)
def test_numbers_that_cannot_work_are_refused_before_anything_runs(task_of: Any, options: dict[str, int]) -> None:
    def build(config: Config) -> Built:
        raise AssertionError("built")

    with pytest.raises(UsageError, match="refused") as caught:
        capture(task_of(build), Request(preset="tiny", **options))
    assert str(next(iter(options.values()))) in caught.value.message


# --- the loop -------------------------------------------------------------------------------------------------------


class Recording(Collector):
    """Writes down what the loop does."""

    name = "timing"
    purpose = "test"
    warmup = 2
    bare = 1
    steps = 2

    def __init__(self, log: list[str]) -> None:
        super().__init__("cpu")
        self.log = log

    def starting(self) -> None:
        self.log.append("starting")

    def built(self, built: Built) -> None:
        self.log.append("built")

    def warmed(self) -> None:
        self.log.append("warmed")

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        self.log.append("on")
        yield
        self.log.append("off")

    @contextlib.contextmanager
    def step(self, index: int, kind: str, batch: Any = None) -> Iterator[None]:
        self.log.append(f"enter {index} {kind}{'' if batch is None else ' with its batch'}")
        yield
        self.log.append("leave")


def logged(data_in_step: bool, task_of: Any) -> list[str]:
    log: list[str] = []

    def build(config: Config) -> Built:
        log.append("build")

        def batch(index: int) -> Tensor:
            log.append(f"batch {index}")
            return torch.ones(1)

        def step(x: Tensor) -> Tensor:
            log.append("step")
            return x.sum()

        return Built(step, batch, {}, 4, kind=lambda i: "d" if i % 2 else "g")

    task = task_of(build)
    request = Request(passes=["timing"], data_in_step=data_in_step)
    run_pass(task, task.configure("tiny"), Recording(log), request, silent)
    return log


def test_batches_are_made_before_the_instrument_looks(task_of: Any) -> None:
    assert logged(False, task_of) == [
        *("starting", "build", "built", "batch 0", "step", "batch 1", "step"),  # warm-up
        *("batch 2", "step"),  # bare
        *("warmed", "on", "batch 3", "enter 0 d with its batch", "step", "leave"),
        *("batch 4", "enter 1 g with its batch", "step", "leave", "off"),
    ]


def test_batches_are_made_inside_the_step_when_asked(task_of: Any) -> None:
    assert logged(True, task_of)[-10:] == [
        *("on", "enter 0 d", "batch 3", "step", "leave", "enter 1 g", "batch 4", "step", "leave", "off"),
    ]


def test_rows_of_steps(run: Run, task_of: Any) -> None:
    kinds = ("g", "d", "d")
    task = task_of(
        lambda c: Built(lambda x: x.sum(), lambda i: torch.full((4,), i), {}, 7, kind=lambda i: kinds[i % 3])
    )
    captured = run(task, "timeline", steps=2, warmup=1)
    rows = steps(captured, "timeline")
    assert rows["index"].tolist() == list(range(6))
    assert rows["role"].tolist() == ["warmup", "bare", "bare", "bare", "measured", "measured"]
    assert rows["kind"].tolist() == ["g", "d", "d", "g", "d", "d"]
    assert rows["loss"].tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    assert set(rows["samples"]) == {7}
    assert (rows["duration_ns"] > 0).all()


@pytest.mark.parametrize(("warmup", "count"), [(0, 1), (1, 4), (5, 2)])
def test_steps_and_warm_up_as_asked(run: Run, mlp: Task, warmup: int, count: int) -> None:
    captured = run(mlp, "timing", "memory", warmup=warmup, steps=count)
    for name in ("timing", "memory"):
        expected = {"measured": count} | ({"warmup": warmup} if warmup else {})
        assert roles(captured, name) == expected
        assert (captured.passes[name].steps, captured.passes[name].warmup) == (count, warmup)


def test_defaults_of_each_pass(run: Run, mlp: Task) -> None:
    captured = run(mlp, "memory", "timing", "timeline", "primitives")
    assert roles(captured, "memory") == {"warmup": 2, "measured": 3}
    assert roles(captured, "timeline") == roles(captured, "primitives") == {"warmup": 2, "bare": 3, "measured": 3}
    timed = roles(captured)
    assert timed["warmup"] == 3
    assert 10 <= timed["measured"] <= 100


@pytest.mark.parametrize(
    ("step_ms", "expected"), [(0.01, 100), (20, 100), (40, 50), (150, 13), (400, 10), (9000, 7), (40_000, 3)]
)
def test_about_two_seconds_are_filled(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch, step_ms: float, expected: int
) -> None:
    """On a clock that moves by the step's length each time it is read: 2 s / 0.15 s = 13.3 steps."""
    now = iter(range(0, 10**15, int(step_ms * 1e6)))
    clock = SimpleNamespace(perf_counter_ns=lambda: next(now), perf_counter=lambda: 0.0)
    monkeypatch.setattr(module, "time", clock)
    captured = run(task_of(simple(lambda x: x.sum())), "timing")
    assert captured.passes["timing"].steps == expected
    assert set(steps(captured)["duration_ns"]) == {int(step_ms * 1e6)}


def test_a_slow_first_step_does_not_shorten_the_pass(run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm-up of 30 s and 40 ms: the typical step is one of 40 ms."""
    lengths = iter([30_000, 40, *[40] * 200])
    now = [0]

    def tick() -> Iterator[int]:
        while True:
            yield now[0]
            now[0] += next(lengths) * 1_000_000
            yield now[0]

    clock = tick()
    fake = SimpleNamespace(perf_counter_ns=lambda: next(clock), perf_counter=lambda: 0.0)
    monkeypatch.setattr(module, "time", fake)
    assert run(task_of(simple(lambda x: x.sum())), "timing", warmup=2).passes["timing"].steps == 50


def test_without_a_warm_up_ten_steps(run: Run, mlp: Task) -> None:
    assert run(mlp, "timing", warmup=0).passes["timing"].steps == 10


def test_progress_counts_up_to_the_total(mlp: Task) -> None:
    told: list[tuple[str, int, int]] = []
    capture(mlp, Request(passes=["memory"], preset="tiny", steps=3), lambda *args: told.append(args))
    assert told == [("memory", done, 5) for done in range(1, 6)]
    told.clear()
    capture(mlp, Request(passes=["timing"], preset="tiny"), lambda *args: told.append(args))
    assert told[0] == ("timing", 1, 0)  # not known before the warm-up has told how long a step takes
    assert told[-1][1] == told[-1][2]


# --- seeds and losses -----------------------------------------------------------------------------------------------


def losses(captured: Captured, passname: str) -> list[float]:
    return [float(loss) for loss in steps(captured, passname)["loss"]]


@pytest.mark.usefixtures("torch_unchanged")
def test_the_same_losses_in_all_passes_and_captures(run: Run, mlp: Task) -> None:
    names = ("memory", "timing", "timeline", "primitives")
    first, second = (run(mlp, *names, steps=3, seed=7) for _ in range(2))
    expected = losses(first, "timeline")
    assert len(expected) == 8
    assert len(set(expected)) == 8  # it learns, and batches differ
    for captured in (first, second):
        for name in names:
            found = losses(captured, name)
            assert found == expected[: len(found)]
        assert {info.seed for info in captured.passes.values()} == {7}


def test_another_seed_gives_other_losses(run: Run, mlp: Task) -> None:
    one, other = (losses(run(mlp, "timing", steps=2, seed=seed), "timing") for seed in (1, 2))
    assert not set(one) & set(other)


def test_tasks_that_draw_from_the_global_generators_repeat_too(run: Run, task_of: Any) -> None:
    import random

    import numpy as np

    def build(config: Config) -> Built:
        model = nn.Linear(4, 4)
        return Built(
            lambda x: (model(x).sum() + torch.rand(()) + np.random.rand() + random.random()).detach(),
            lambda i: torch.ones(4),
            {"model": model},
            4,
        )

    torch.manual_seed(1)
    first = losses(run(task_of(build), "timing", steps=3, seed=2**40), "timing")
    torch.manual_seed(2)
    random.seed(3)
    assert losses(run(task_of(build), "timing", steps=3, seed=2**40), "timing") == first


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.25, 0.25),
        (3, 3.0),
        (None, None),
        (torch.tensor(0.5), 0.5),
        (torch.tensor([[0.5]], dtype=torch.bfloat16), 0.5),
        (torch.tensor(0.5, requires_grad=True), 0.5),  # a step that forgets to detach
    ],
    ids=str,
)
def test_what_a_step_may_return(run: Run, task_of: Any, value: Any, expected: float | None) -> None:
    found = steps(run(task_of(simple(lambda x: value)), "timing", steps=1, warmup=0))["loss"].tolist()
    assert [None if pd.isna(loss) else loss for loss in found] == [expected]


@pytest.mark.parametrize("value", ["low", torch.ones(3), object()], ids=lambda v: type(v).__name__)
def test_what_is_no_loss_is_the_tasks_error(run: Run, task_of: Any, value: Any) -> None:
    with pytest.raises(TaskError, match="failed at loss of pass timing"):
        run(task_of(simple(lambda x: value)), "timing", steps=1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_noted(run: Run, task_of: Any, bad: float) -> None:
    values = iter([1.0, 2.0, bad, bad, 1.0])
    captured = run(task_of(simple(lambda x: next(values))), "timing", steps=4, warmup=1)
    (note,) = captured.notes
    assert note.about == "timing"
    assert "not finite from step 2 on (2 steps)" in note.text


# --- settings and what is recorded ----------------------------------------------------------------------------------


def test_threads_are_set_inside_and_put_back(run: Run, task_of: Any) -> None:
    seen = []

    def build(config: Config) -> Built:
        seen.append(torch.get_num_threads())
        return Built(lambda x: seen.append(torch.get_num_threads()), lambda i: None, {}, 4)  # type: ignore[arg-type, return-value]

    before = torch.get_num_threads()
    captured = run(task_of(build), "timing", steps=1, warmup=1, threads=before + 1)
    assert seen == [before + 1] * 3
    assert torch.get_num_threads() == before
    assert captured.passes["timing"].torch["threads"] == before + 1


def test_what_is_recorded_of_a_pass(run: Run, mlp: Task) -> None:
    captured = run(mlp, "timing", batch_size=6, seed=3, steps=2, warmup=1, precision="bf16", data_in_step=True)
    info = captured.passes["timing"]
    assert (info.preset, info.batch_size, info.samples, info.precision, info.device) == ("tiny", 6, 6, "bf16", "cpu")
    assert (info.tensors, info.seed, info.steps, info.warmup, info.data_in_step) == ("real", 3, 2, 1, True)
    assert info.settings == {"batch_size": 6}
    assert info.seconds > 0
    assert json.loads(json.dumps(info.torch)) == info.torch
    assert set(captured.tables["steps"]["pass"].to_pylist()) == {"timing"}


def test_settings_given_as_text_reach_the_task(run: Run, mlp: Task) -> None:
    captured = run(mlp, "timing", steps=1, overrides={"batch_size": "5"})
    assert captured.passes["timing"].settings == {"batch_size": 5}
    with pytest.raises(UnknownNameError, match="setting 'batch'"):
        run(mlp, "timing", steps=1, overrides={"batch": "5"})


def test_tables_of_several_passes_are_one(run: Run, mlp: Task) -> None:
    captured = run(mlp, "memory", "timing", steps=2, warmup=1)
    table = captured.tables["steps"]
    assert table["pass"].to_pylist() == ["memory"] * 3 + ["timing"] * 3
    assert table.schema.metadata[b"wcbench.table"] == b"steps"


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_task_that_raises_is_told_with_pass_preset_and_batch(run: Run, task_of: Any) -> None:
    def step(x: Tensor) -> Tensor:
        raise ValueError("shapes do not fit\nand a second line")

    with pytest.raises(TaskError) as caught:
        run(task_of(simple(step)), "timing", batch_size=9)
    message = "The task failed at step 0 of pass timing (preset tiny, batch size 9): ValueError: shapes do not fit"
    assert caught.value.message == message
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 1e15"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_out_of_memory_says_what_to_do(run: Run, task_of: Any, error: Exception) -> None:
    def step(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(TaskError, match="Out of memory at step 0 of pass timing") as caught:
        run(task_of(simple(step)), "timing")
    assert caught.value.hint == "Use a smaller --preset or --batch-size."


def test_a_build_that_returns_something_else(run: Run, task_of: Any) -> None:
    with pytest.raises(TaskError, match=r"FunctionTask\.build returned tuple, not"):
        run(task_of(lambda config: (1, 2)), "timing")


def test_a_task_that_fails_on_fake_and_real_tensors_raises(run: Run, task_of: Any) -> None:
    def step(x: Tensor) -> Tensor:
        raise ValueError("in any case")

    with pytest.raises(TaskError, match="in any case"):
        run(task_of(simple(step)), "operators")


# --- power beside timing --------------------------------------------------------------------------------------------


class FakeSampler:
    """A sampler of one device that is on while its context is open."""

    on = False
    notes = ("utilization is not supported",)
    samples = (
        {"device": 0, "time_ns": 1_000, "watts": 100.0, "energy_j": None},
        {"device": 0, "time_ns": 2_000, "watts": 120.0, "energy_j": None},
    )

    def __enter__(self) -> None:
        FakeSampler.on = True

    def __exit__(self, *exc: object) -> None:
        FakeSampler.on = False


def test_power_is_sampled_during_the_measured_steps_alone(
    run: Run, task_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "PowerSampler", FakeSampler)
    seen: list[bool] = []
    captured = run(task_of(simple(lambda x: seen.append(FakeSampler.on))), "power", "memory", steps=2, warmup=1)
    assert seen == [False] * 4 + [False, True, True]  # memory with its rehearsal, then timing
    assert list(captured.passes) == ["memory", "timing"]
    assert captured.tables["power"].to_pylist()[1]["watts"] == 120.0
    assert captured.tables["power"]["pass"].to_pylist() == ["timing"] * 2
    told = [(n.about, n.text) for n in captured.notes if "no loss" not in n.text]
    assert told == [("power", "utilization is not supported")]


def test_no_sampler_without_power(run: Run, mlp: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PowerSampler", None)  # would not be callable
    captured = run(mlp, "timing", steps=1)
    assert "power" not in captured.tables
    assert captured.notes == []
