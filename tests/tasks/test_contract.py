"""What every task of the catalogue holds, at every preset; a new row is tested without a new test."""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib
import math
import subprocess
import sys
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UnknownNameError, UsageError
from wcbench.profilers.formulas import work
from wcbench.profilers.operators import as_call, operator_columns, storage_columns
from wcbench.profilers.recorder import Recorder, Stream
from wcbench.tasks.base import PRESETS, Built, Config, Task
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.load import load_task

AHEAD = 64  # kinds of steps recur within so many
TINY = 1 / 200  # of the paper's matrix-class FLOPs of a step, at most
SMALL = 24e9  # matrix-class FLOPs of a step: about half a second on one core of a laptop


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Where other jobs hold the cores, two threads wait for each other and take several times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


QUICK_STEPS = {"spatial-transformer", "recommendation", "advertising", "learning-to-rank", "mlperf-minigo"}
"""Tasks of which a step at the papers' scale is counted in a second or two; others take up to half a minute."""
every_task = pytest.mark.parametrize("name", TASKS.names())


@functools.cache
def task_of(name: str) -> Task:
    task = load_task(name)
    assert isinstance(task, Task)
    return task


def row_of(name: str) -> TaskRow:
    row = TASKS.row(name)
    assert isinstance(row, TaskRow)
    return row


def built(name: str, preset: str = "tiny", **options: Any) -> Built:
    task = task_of(name)
    return task.build(task.configure(preset, **options))


def losses(built: Built, steps: int = 2) -> list[float]:
    return [float(built.step(built.batch(index))) for index in range(steps)]


def first_of_each_kind(built: Built) -> dict[str, int]:
    kinds = [built.kind(index) for index in range(AHEAD)]
    return {kind: kinds.index(kind) for kind in dict.fromkeys(kinds)}


def same(ours: Any, theirs: Any) -> bool:
    """Whether two batches hold the same bits; undecided ones (NaN) are equal to themselves."""
    pairs = list(zip(tree_leaves(ours), tree_leaves(theirs), strict=True))
    tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]
    return all(a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in tensors)


def weights(built: Built) -> list[torch.Tensor]:
    return [p.detach().clone() for m in built.modules.values() for p in m.parameters()]


# --- what stands in the file ----------------------------------------------------------------------------------------


@every_task
def test_it_has_the_three_presets(name: str) -> None:
    presets = task_of(name).presets
    assert set(presets) == set(PRESETS)
    for settings in presets.values():
        settings.validate()
    assert len({type(settings) for settings in presets.values()}) == 1


@every_task
def test_every_setting_can_be_given_as_text(name: str) -> None:
    task = task_of(name)
    settings = task.presets["paper"]
    texts = {
        key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for key, value in dataclasses.asdict(settings).items()
    }
    assert task.configure("paper", overrides=texts).settings == settings


@every_task
def test_it_is_documented(name: str) -> None:
    """The module says what the task is and what differs; every setting is explained; files stay short."""
    task = task_of(name)
    module = importlib.import_module(type(task).__module__)
    text = module.__doc__ or ""
    assert any(word in text for word in ("arXiv", "Nature", "NIPS")), "name the source"
    assert "What differs here" in text
    explained = " ".join(
        cls.__doc__ or "" for cls in type(task.presets["paper"]).__mro__ if cls.__module__.startswith("wcbench.tasks")
    )
    missing = [field.name for field in dataclasses.fields(task.presets["paper"]) if field.name not in explained]
    assert missing == [], "explain each setting in the docstring of its class"
    assert type(task).__doc__
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        assert len(file.readlines()) <= 250


@every_task
def test_its_variants_are_the_catalogues(name: str) -> None:
    assert set(task_of(name).variants) == set(row_of(name).variants)


@every_task
def test_what_cannot_work_is_refused_by_name(name: str) -> None:
    task = task_of(name)
    with pytest.raises(UsageError, match="batch size 0 is refused"):
        task.configure("tiny", batch_size=0)
    with pytest.raises(UnknownNameError, match=r"Unknown setting 'bach_size'.*\n.*'batch_size'"):
        task.configure("tiny", overrides={"bach_size": "8"})
    with pytest.raises(UnknownNameError, match="Unknown preset 'huge'"):
        task.configure("huge")
    with pytest.raises(UsageError, match="'many' is not a value of type int"):
        task.configure("tiny", overrides={"batch_size": "many"})


# --- a step on real tensors -----------------------------------------------------------------------------------------


@every_task
def test_it_trains_and_returns_its_memory(name: str) -> None:
    """Every kind of step gives a finite loss; weights change; the same batch again costs no more; nothing stays."""
    task = built(name)
    before = weights(task)
    kinds = first_of_each_kind(task)
    for index in kinds.values():
        loss = task.step(task.batch(index))
        assert loss.shape == ()
        assert not loss.requires_grad
        assert math.isfinite(float(loss))
    assert any(not torch.equal(a, b) for a, b in zip(before, weights(task), strict=True))
    held = [weakref.ref(p) for m in task.modules.values() for p in m.parameters()]
    del task, loss
    gc.collect()
    assert not any(reference() is not None for reference in held)


@every_task
def test_small_steps_once(name: str) -> None:
    assert math.isfinite(*losses(built(name, "small"), steps=1))


@every_task
def test_shares_of_the_kinds_add_up(name: str) -> None:
    task = built(name)
    assert set(first_of_each_kind(task)) == set(task.step_kinds)
    assert sum(task.step_kinds.values()) == pytest.approx(1)
    assert min(task.step_kinds.values()) > 0
    assert task.samples % task_of(name).presets["tiny"].batch_size == 0


@every_task
def test_equal_seeds_are_equal_to_the_bit_and_others_differ(name: str) -> None:
    first, second, other = built(name, seed=3), built(name, seed=3), built(name, seed=4)
    assert all(same(first.batch(index), second.batch(index)) for index in (0, 1, 7))
    assert not same(first.batch(0), other.batch(0))
    again = next(index for index in range(1, AHEAD) if first.kind(index) == first.kind(0))
    assert not same(first.batch(0), first.batch(again))
    # Weights and dropout follow the seed too, as long as nothing else draws between a build and its steps.
    assert losses(built(name, seed=3)) == losses(built(name, seed=3)) != losses(built(name, seed=4))


@every_task
def test_a_batch_needs_no_global_random_state_and_leaves_it_alone(name: str) -> None:
    task = built(name)
    expected = task.batch(2)
    torch.rand(17)
    np.random.random(3)
    task.step(task.batch(0))
    before = torch.get_rng_state()
    drawn = "draw from tasks.data.generator(config.seed, index) alone"
    assert same(task.batch(2), expected), drawn
    assert torch.equal(torch.get_rng_state(), before), drawn


@every_task
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_batch_of_one_and_an_odd_batch_work(name: str, batch_size: int) -> None:
    task = built(name, batch_size=batch_size)
    assert task.samples % batch_size == 0
    assert all(math.isfinite(loss) for loss in losses(task))


@every_task
def test_mixed_precision_works(name: str) -> None:
    task = built(name, precision="bf16")
    assert all(math.isfinite(float(task.step(task.batch(index)))) for index in first_of_each_kind(task).values())
    assert all(p.dtype == torch.float32 for m in task.modules.values() for p in m.parameters())


@every_task
def test_inference_runs_in_evaluation_mode(name: str) -> None:
    task = built(name)
    assert task.infer is not None, "a task of the catalogue has Built.infer"
    for module in task.modules.values():
        module.eval()
    before = weights(task)
    with torch.no_grad():
        found = [leaf for leaf in tree_leaves(task.infer(task.batch(0))) if isinstance(leaf, torch.Tensor)]
    assert found
    assert all(bool(leaf.isfinite().all()) for leaf in found if leaf.is_floating_point())
    assert all(torch.equal(a, b) for a, b in zip(before, weights(task), strict=True))


@every_task
def test_state_goes_round(name: str) -> None:
    one, other = built(name, seed=0), built(name, seed=1)
    for role, module in one.modules.items():
        other.modules[role].load_state_dict(module.state_dict())
        mine, theirs = module.state_dict(), other.modules[role].state_dict()
        assert list(mine) == list(theirs)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


@every_task
def test_look_ups_name_tables_and_stay_inside(name: str) -> None:
    task = task_of(name)
    config = task.configure("tiny")
    rows = {
        f"{role}.{path}": parameter.shape[0]
        for role, module in task.build(config).modules.items()
        for path, parameter in module.named_parameters()
    }
    for zipf in (None, 0.6, 1.2):
        found = task.lookups(config, 1, zipf)
        again = task.lookups(config, 1, zipf)
        for path, ids in found.items():
            assert ids.dtype == np.int64
            assert ids.ndim == 1
            assert len(ids)
            assert 0 <= ids.min() <= ids.max() < rows[path]
            assert np.array_equal(ids, again[path])


@every_task
def test_optimizers_are_batched_over_tensors(name: str) -> None:
    """The default differs between CPU and GPU; the stream of operators must not."""
    optimizers = built(name).optimizers
    groups = [group for optimizer in optimizers.values() for group in optimizer.param_groups]
    assert all(group["foreach"] is not None for group in groups if "foreach" in group), "pass foreach=True"


# --- fake tensors are real ones -------------------------------------------------------------------------------------


def stream_of(name: str, *, fake: bool) -> Stream:
    """One step of each kind at tiny, after the one that creates optimizer state; shapes known beforehand."""
    torch.manual_seed(0)
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else torch.enable_grad():
        task = built(name, fixed_shapes=True)
        kinds = first_of_each_kind(task)
        for index in kinds.values():
            task.step(task.batch(index))
        recorder = Recorder(task.modules, task.optimizers)
        for kind, index in kinds.items():
            later = next(i for i in range(index + 1, 2 * AHEAD) if task.kind(i) == kind)
            batch = task.batch(later)
            with recorder.step(index, kind, batch):
                task.step(batch)
    return recorder.stream


@every_task
def test_fake_and_real_streams_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In operators, phases, modules, FLOPs and bytes; and every call of the catalogue is covered."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    frames, shares = [], []
    for fake in (False, True):
        stream = stream_of(name, fake=fake)
        frame = pd.DataFrame(operator_columns(stream, [work(as_call(note)) for note in stream.calls]))
        assert frame.loc[~frame["covered"], "name"].unique().tolist() == []
        assert frame["flops_matrix"].sum() > 0
        frames.append(frame.drop(columns=["inputs", "outputs", "accesses"]))
        storages = pd.DataFrame(storage_columns(stream))
        shares.append(storages.groupby("role")["nbytes"].sum().to_dict())
    pd.testing.assert_frame_equal(*frames)
    for role in ("weight", "optimizer state"):
        assert shares[0].get(role) == shares[1].get(role)


# --- the paper's scale, on fake tensors -----------------------------------------------------------------------------


@dataclasses.dataclass
class Paper:
    """What the paper's scale amounts to."""

    name: str
    parameters: int
    trainable: int
    structure: list[tuple[str, str, type]]


def configured(name: str, preset: str, **overrides: str) -> Config:
    settings = typing.get_type_hints(type(task_of(name).presets[preset]))
    if "attention" in settings:  # torch's counter knows no fused attention on a CPU
        overrides["attention"] = "eager"
    return task_of(name).configure(preset, overrides=overrides, fixed_shapes=True)


def structure(modules: Mapping[str, torch.nn.Module]) -> list[tuple[str, str, type]]:
    return [(role, path, type(part)) for role, m in modules.items() for path, part in m.named_modules()]


def forward_flops(task: Built) -> float:
    assert task.infer is not None
    batch = task.batch(0)
    with FlopCounterMode(display=False) as counter:
        found = tree_leaves(task.infer(batch))
    assert all(hasattr(leaf, "fake_mode") for leaf in found if isinstance(leaf, torch.Tensor))
    return counter.get_total_flops() / task.samples


def step_flops(task: Built) -> float:
    """Of an average step; each kind is stepped once."""
    total = 0.0
    for kind, index in first_of_each_kind(task).items():
        batch = task.batch(index)
        with FlopCounterMode(display=False) as counter:
            loss = task.step(batch)
        assert loss.shape == ()
        assert hasattr(loss, "fake_mode")
        total += task.step_kinds[kind] * counter.get_total_flops()
    return total


def straight(lengths: tuple[int, ...], values: list[float], at: int) -> float:
    (a, b), (x, y) = lengths, values
    return x + (y - x) * (at - a) / (b - a)


def built_of(name: str, length: int | None) -> Built:
    """A task at its paper preset on fake tensors, at another length where one is given."""
    overrides = {} if length is None else {str(task_of(name).length): str(length)}
    return task_of(name).build(configured(name, "paper", **overrides))


def per_paper(name: str, count: Callable[[Built], float]) -> float:
    """What is counted at the paper preset, without the fusions of the CPU's backend.

    A task whose recurrence is too long to unroll is counted at its two short lengths, and continued to its own.
    """
    task = task_of(name)
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True):
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        found = [count(built_of(name, length)) for length in task.unrolled or (None,)]
    if not task.unrolled:
        return found[0]
    return straight(task.unrolled, found, getattr(task.presets["paper"], str(task.length)))


@functools.cache
def paper_of(name: str) -> Paper:
    task = task_of(name)
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = built_of(name, task.unrolled[0] if task.unrolled else None)
    parameters = {id(p): (p.numel(), p.requires_grad) for m in made.modules.values() for p in m.parameters()}
    return Paper(
        name,
        sum(numel for numel, _ in parameters.values()),
        sum(numel for numel, trainable in parameters.values() if trainable),
        structure(made.modules),
    )


@every_task
def test_parameters_are_the_catalogues(name: str) -> None:
    paper, row = paper_of(name), row_of(name)
    assert paper.parameters == row.parameters + row.further_parameters
    assert paper.trainable == row.trainable + row.further_parameters


@every_task
def test_forward_flops_are_the_catalogues(name: str) -> None:
    assert per_paper(name, forward_flops) == pytest.approx(row_of(name).forward_flops, rel=1e-6)


@every_task
def test_small_is_the_papers_structure(name: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        small = task_of(name).build(task_of(name).configure("small"))
    assert structure(small.modules) == paper_of(name).structure


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK_STEPS)) for name in TASKS.names()]
)
def test_tiny_is_tiny_and_small_is_small(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True):
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        tiny, small = (step_flops(task_of(name).build(configured(name, preset))) for preset in ("tiny", "small"))
    assert 0 < tiny <= TINY * per_paper(name, step_flops)
    assert tiny <= small <= SMALL


# --- all together ---------------------------------------------------------------------------------------------------


def test_every_task_is_quiet() -> None:
    """In a process of its own, where imports warn for the first time: nothing on stderr, warnings raise."""
    script = """
from wcbench.tasks.catalog import TASKS
from wcbench.tasks.load import load_task
for name in TASKS.names():
    task = load_task(name)
    built = task.build(task.configure("tiny"))
    built.step(built.batch(0))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@every_task
def test_its_models_compile(name: str) -> None:
    """Where a task's forward pass is one graph after another; `eager` needs no compiler of the host."""
    task = built(name, fixed_shapes=True)  # a suppression of boxes is no graph
    assert task.infer is not None
    batch = task.batch(0)
    for module in task.modules.values():
        module.eval()
    with torch.no_grad():
        expected = tree_leaves(task.infer(batch))
        torch._dynamo.reset()
        compiled = tree_leaves(torch.compile(task.infer, backend="eager")(batch))
    for ours, theirs in zip(compiled, expected, strict=True):
        if isinstance(ours, torch.Tensor) and ours.is_floating_point():
            torch.testing.assert_close(ours, theirs)
