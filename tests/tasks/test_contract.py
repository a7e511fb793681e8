"""What every task of the catalogue holds, at every preset; a new row is tested without a new test."""

from __future__ import annotations

import dataclasses
import functools
import math
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UnknownNameError, UsageError
from wcbench.tasks.base import PRESETS, Built, Task
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.load import load_task


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Where other jobs hold the cores, two threads wait for each other and take several times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


every_task = pytest.mark.parametrize("name", TASKS.names())


@functools.cache
def task_of(name: str) -> Task:
    task = load_task(name)
    assert isinstance(task, Task)
    return task


def built(name: str, preset: str = "tiny", **options: Any) -> Built:
    task = task_of(name)
    return task.build(task.configure(preset, **options))


def losses(built: Built, steps: int = 3) -> list[float]:
    return [float(built.step(built.batch(index))) for index in range(steps)]


def same(ours: Any, theirs: Any) -> bool:
    """Whether two batches hold the same bits."""
    pairs = list(zip(tree_leaves(ours), tree_leaves(theirs), strict=True))
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor))


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
@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_it_trains(name: str, preset: str) -> None:
    task = built(name, preset)
    before = [p.detach().clone() for m in task.modules.values() for p in m.parameters()]
    assert all(math.isfinite(loss) for loss in losses(task, steps=3 if preset == "tiny" else 1))
    after = [p.detach() for m in task.modules.values() for p in m.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


@every_task
def test_the_loss_is_a_detached_scalar(name: str) -> None:
    task = built(name)
    loss = task.step(task.batch(0))
    assert loss.shape == ()
    assert not loss.requires_grad
    assert task.samples == task_of(name).presets["tiny"].batch_size
    assert task.kind(0) == "train"


@every_task
def test_equal_seeds_are_equal_to_the_bit(name: str) -> None:
    first, second = built(name, seed=3), built(name, seed=3)
    assert all(same(first.batch(index), second.batch(index)) for index in (0, 1, 7))
    # Weights and dropout follow the seed too, as long as nothing else draws between a build and its steps.
    assert losses(built(name, seed=3), steps=2) == losses(built(name, seed=3), steps=2)


@every_task
def test_other_seeds_and_indices_are_other_batches(name: str) -> None:
    task, other = built(name, seed=0), built(name, seed=1)
    assert not same(task.batch(0), other.batch(0))
    assert not same(task.batch(0), task.batch(1))
    assert not same(task.batch(1), other.batch(0))
    assert losses(built(name, seed=0), steps=1) != losses(built(name, seed=1), steps=1)


@every_task
def test_a_batch_needs_no_global_random_state_and_leaves_it_alone(name: str) -> None:
    task = built(name)
    expected = task.batch(2)
    torch.rand(17)
    task.step(task.batch(0))
    before = torch.get_rng_state()
    assert same(task.batch(2), expected)
    assert torch.equal(torch.get_rng_state(), before)


@every_task
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_batch_of_one_and_an_odd_batch_work(name: str, batch_size: int) -> None:
    task = built(name, batch_size=batch_size)
    assert task.samples == batch_size
    assert all(math.isfinite(loss) for loss in losses(task, steps=2))


@every_task
def test_mixed_precision_works(name: str) -> None:
    task = built(name, precision="bf16")
    assert all(math.isfinite(loss) for loss in losses(task, steps=2))
    assert all(p.dtype == torch.float32 for m in task.modules.values() for p in m.parameters())


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


@every_task
def test_small_is_the_papers_structure(name: str) -> None:
    def structure(preset: str) -> list[tuple[str, str, type]]:
        with FakeTensorMode():
            modules = built(name, preset).modules
        return [(role, path, type(part)) for role, m in modules.items() for path, part in m.named_modules()]

    assert structure("small") == structure("paper")


@every_task
def test_optimizers_are_batched_over_tensors(name: str) -> None:
    """The default differs between CPU and GPU; the stream of operators must not."""
    optimizers = built(name).optimizers
    assert all(group["foreach"] for optimizer in optimizers.values() for group in optimizer.param_groups)


@dataclasses.dataclass
class Paper:
    """What the paper's scale amounts to, measured on fake tensors."""

    name: str
    built: Built
    batch: Any
    loss: torch.Tensor
    forward_flops: int


@pytest.fixture(scope="module", params=TASKS.names())
def paper(request: pytest.FixtureRequest) -> Paper:
    """A task at its paper preset, built and stepped on fake tensors without the fusions of the CPU's backend."""
    name = request.param
    settings = typing.get_type_hints(type(task_of(name).presets["paper"]))
    overrides = {"attention": "eager"} if "attention" in settings else {}  # the counter knows no fused attention
    forward: list[int] = []
    backward = torch.Tensor.backward
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode():
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        task = built(name, "paper", overrides=overrides)
        batch = task.batch(0)
        with FlopCounterMode(display=False) as counter:

            def note_and_go_on(self: torch.Tensor, *args: Any, **options: Any) -> None:
                forward.append(counter.get_total_flops())
                backward(self, *args, **options)

            patch.setattr(torch.Tensor, "backward", note_and_go_on)
            loss = task.step(batch)
    return Paper(name, task, batch, loss, forward[0])


def test_the_papers_scale_steps_on_fake_tensors(paper: Paper) -> None:
    assert paper.loss.shape == ()
    assert paper.built.samples == task_of(paper.name).presets["paper"].batch_size
    tensors = [leaf for leaf in tree_leaves(paper.batch) if isinstance(leaf, torch.Tensor)]
    assert tensors
    assert all(hasattr(tensor, "fake_mode") for tensor in [*tensors, paper.loss])


def test_parameters_are_the_catalogues(paper: Paper) -> None:
    row = TASKS.row(paper.name)
    assert isinstance(row, TaskRow)
    parameters = {id(p): p.numel() for m in paper.built.modules.values() for p in m.parameters() if p.requires_grad}
    assert sum(parameters.values()) == row.parameters


def test_forward_flops_are_the_catalogues(paper: Paper) -> None:
    row = TASKS.row(paper.name)
    assert isinstance(row, TaskRow)
    assert paper.forward_flops / paper.built.samples == pytest.approx(row.forward_flops, rel=1e-3)


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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
