"""The recorder: what it notes of an operator, of storages' lives, of phases and modules, and that it leaves nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from wcbench.profilers.operators import storage_columns
from wcbench.profilers.recorder import NO_STORAGE, CallNote, Recorder, Stream, TensorNote, same_steps
from wcbench.tasks.load import load_task


@pytest.fixture(autouse=True)
def _no_onednn() -> Iterator[None]:
    before = torch.backends.mkldnn.enabled
    setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010
    yield
    setattr(torch.backends.mkldnn, "enabled", before)  # noqa: B010


def record(run: Callable[[], Any], *modules: nn.Module, **optimizers: torch.optim.Optimizer) -> Stream:
    recorder = Recorder({f"m{i}": module for i, module in enumerate(modules)}, optimizers)
    with recorder.step(0):
        run()
    return recorder.stream


def names(stream: Stream) -> list[str]:
    return [call.info.name.removeprefix("aten::") for call in stream.calls]


def one(stream: Stream, name: str) -> CallNote:
    (found,) = [call for call in stream.calls if call.info.name == f"aten::{name}"]
    return found


def phases(stream: Stream, name: str) -> list[str]:
    return [call.phase for call in stream.calls if call.info.name == f"aten::{name}"]


# --- storages -------------------------------------------------------------------------------------------------------


def test_a_tensor_is_noted_with_its_form() -> None:
    x = torch.arange(24.0).view(4, 6)
    call = one(record(lambda: torch.exp(x[1:, ::2])), "exp")
    assert call.args == [TensorNote(0, 0, 6, (3, 3), (6, 2), torch.float32)]
    assert call.out == TensorNote(1, 0, 0, (3, 3), (3, 1), torch.float32)
    assert (call.info.name, call.info.overload, call.step) == ("aten::exp", "", 0)


def test_an_address_used_again_is_a_new_storage() -> None:
    def run() -> None:
        for _ in range(8):
            torch.ones(1000).exp()  # both die at once, so that the allocator hands out the same addresses

    stream = record(run)
    born = [call.out.storage for call in stream.calls]
    assert len(set(born)) == 16 == len(stream.storages)
    assert all(note.nbytes == 4000 for note in stream.storages.values())


def test_deaths_are_told_at_the_first_operator_that_runs_without() -> None:
    kept = []

    def run() -> None:
        a = torch.ones(3)  # 0
        b = a + 1  # 1
        del a
        c = b * 2  # 2
        d = c.view(3, 1)  # 3, keeps c's storage
        del c
        kept.append(d.exp())  # 4
        del d, b
        torch.zeros(1)  # 5

    stream = record(run)
    lives = [(stream.storages[i].born, stream.storages[i].died) for i in range(5)]
    assert lives == [(0, 2), (1, 5), (2, 5), (4, None), (5, 6)]
    kept.clear()
    gc.collect()
    assert stream.storages[3].died == 6


def test_views_have_their_storage_and_copies_their_own() -> None:
    def run() -> None:
        x = torch.ones(4, 6)
        y = x.t().reshape(2, 12)  # must copy
        x.reshape(24)  # need not
        y.expand(3, 2, 12)

    stream = record(run)
    out = {call.info.name: call.out for call in stream.calls if call.info.name != "aten::view"}
    assert out["aten::t"].storage == out["aten::ones"].storage
    assert out["aten::clone"].storage != out["aten::ones"].storage
    assert (out["aten::expand"].storage, out["aten::expand"].stride) == (out["aten::clone"].storage, (0, 12, 1))
    views = [call for call in stream.calls if call.info.name in ("aten::view", "aten::_unsafe_view")]
    assert {call.out.storage for call in views} == {out["aten::ones"].storage, out["aten::clone"].storage}
    assert len(stream.storages) == 2


def test_writes_in_place_are_told_and_raise_the_version() -> None:
    def run() -> None:
        x = torch.ones(4)
        x.add_(1)
        x[:2].mul_(2)
        torch.exp(x, out=x)

    stream = record(run)
    add, mul, exp = one(stream, "add_"), one(stream, "mul_"), one(stream, "exp")
    assert (add.info.writes, mul.info.writes, exp.info.writes) == ((0,), (0,), ())
    assert exp.info.writes_kwargs == ("out",)
    assert [call.args[0].version for call in (add, mul, exp)] == [0, 1, 2]
    assert {call.out.storage for call in (add, mul, exp)} == {0}
    assert one(record(lambda: torch.ones(3).exp()), "exp").info.writes == ()


def test_lists_of_tensors_are_noted_each() -> None:
    stream = record(lambda: torch._foreach_add_([torch.ones(2), torch.ones(3)], 1.0))
    call = one(stream, "_foreach_add_")
    assert [note.shape for note in call.args[0]] == [(2,), (3,)]
    assert call.args[1] == 1.0


def test_a_constant_that_python_makes_is_born_where_it_is_made() -> None:
    def run() -> None:
        torch.ones(3).mul(torch.tensor(2.0))

    stream = record(run)
    lifted = one(stream, "lift_fresh")
    assert stream.storages[lifted.args[0].storage].born == 1
    assert storage_columns(stream)["role"] == ["workspace"] * 3


class Names(TorchDispatchMode):
    """Only writes down names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func._schema.name))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["natural-language", "image-classification"])
def test_recording_changes_nothing_of_the_stream(name: str) -> None:
    """A reference kept too long would turn in-place into copies, or views into clones."""
    task = load_task(name)

    def built() -> tuple[Any, Any]:
        torch.manual_seed(0)
        made = task.build(task.configure("tiny"))
        made.step(made.batch(0))
        return made, made.batch(1)

    made, batch = built()
    with Names() as plain:
        made.step(batch)
    made, batch = built()
    recorder = Recorder(made.modules, made.optimizers)
    with recorder.step(0, "train", batch):
        made.step(batch)
    ignored = ("aten::_local_scalar_dense", "prim::device", "profiler::")
    assert [call.info.name for call in recorder.stream.calls] == [n for n in plain.names if not n.startswith(ignored)]


def test_it_keeps_nothing_alive() -> None:
    model, seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []

    def run() -> None:
        y = model(torch.ones(2, 4))
        seen.append(weakref.ref(y.untyped_storage()))
        y.sum().backward()

    stream = record(run, model)
    gc.collect()
    assert seen[0]() is None
    assert stream.calls
    gradient = model[0].weight.grad
    assert gradient is not None
    storage = weakref.ref(gradient.untyped_storage())
    del gradient
    model.zero_grad()
    assert storage() is None


def test_sparse_tensors_have_no_storage_of_their_own() -> None:
    table = nn.EmbeddingBag(10, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def run() -> None:
        optimizer.zero_grad()
        table(torch.tensor([[1, 2], [1, 3]])).sum().backward()
        optimizer.step()

    stream = record(run, table, sgd=optimizer)
    notes = [call.out for call in stream.calls if isinstance(call.out, TensorNote) and call.out.sparse]
    assert {(note.storage, note.shape, note.sparse) for note in notes} == {(NO_STORAGE, (4, 3), 1)}  # four look-ups
    assert NO_STORAGE not in stream.storages


def test_inference_tensors_have_no_version_and_composites_are_taken_apart() -> None:
    model = nn.Linear(4, 3)

    def run() -> None:
        with torch.inference_mode():
            model(torch.ones(2, 4))

    stream = record(run, model)
    assert "linear" not in names(stream)
    assert "addmm" in names(stream)
    assert one(stream, "addmm").out.version == 0


# --- phases and modules ---------------------------------------------------------------------------------------------


def test_phases_of_a_step() -> None:
    model = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def run() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 4)).tanh().sum().backward()
        with torch.no_grad():
            torch.ones(3).sin()
        optimizer.step()

    stream = record(run, model, adam=optimizer)
    assert phases(stream, "tanh") == ["forward"]
    assert phases(stream, "tanh_backward") == ["backward"]
    assert phases(stream, "sin") == ["other"]
    assert phases(stream, "_foreach_sqrt") == ["optimizer"]


def test_a_model_under_no_grad_is_forward() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def run() -> None:
        with torch.no_grad():
            model(torch.ones(2, 4)).sin()

    stream = record(run, model)
    assert (phases(stream, "tanh"), phases(stream, "sin")) == (["forward"], ["other"])


def test_an_optimizers_closure_is_forward_and_backward() -> None:
    model = nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(torch.ones(4, 8)).tanh().sum()
        loss.backward()
        return loss

    stream = record(lambda: optimizer.step(closure), model, lbfgs=optimizer)  # type: ignore[arg-type]
    assert set(phases(stream, "tanh")) == {"forward"}
    assert set(phases(stream, "tanh_backward")) == {"backward"}
    assert "optimizer" in {call.phase for call in stream.calls}


def test_recomputation_is_backward_and_has_its_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def run() -> None:
        out = checkpoint(model, torch.ones(2, 4), use_reentrant=False)
        assert isinstance(out, Tensor)
        out.sum().backward()

    stream = record(run, model)
    assert phases(stream, "tanh") == ["forward", "backward"]


def modules_of(stream: Stream, name: str) -> list[tuple[str, str | None]]:
    return [(call.phase, call.module) for call in stream.calls if call.info.name == f"aten::{name}"]


class Nested(nn.Module):
    """A convolution, a block in which one layer runs twice, and a function of the outer module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.block = nn.ModuleDict({"again": nn.Linear(4, 4)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        again = self.block["again"]
        out: Tensor = again(again(x)).tanh()
        return out


def test_paths_of_modules_forward_and_backward() -> None:
    model = Nested()
    x = torch.ones(2, 1, 4, 4, requires_grad=True)
    stream = record(lambda: F.softplus(model(x)).sum().backward(), model)
    assert modules_of(stream, "convolution") == [("forward", "m0.conv")]
    assert modules_of(stream, "convolution_backward") == [("backward", "m0.conv")]
    assert modules_of(stream, "addmm") == [("forward", "m0.block.again")] * 2
    assert modules_of(stream, "mm") == [("backward", "m0.block.again")] * 4
    assert modules_of(stream, "tanh") == [("forward", "m0")]
    assert modules_of(stream, "tanh_backward") == [("backward", "m0")]
    assert modules_of(stream, "softplus") == [("forward", None)]
    assert modules_of(stream, "softplus_backward") == [("backward", None)]


# --- steps ----------------------------------------------------------------------------------------------------------


def steps(batches: list[Tensor], model: nn.Module) -> Stream:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    step(batches[0])
    recorder = Recorder({"model": model}, {"sgd": optimizer})
    for index, batch in enumerate(batches):
        with recorder.step(index, "train", batch):
            step(batch)
    return recorder.stream


def test_two_steps_are_the_same_and_a_difference_is_told() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    stream = steps([torch.ones(2, 4), torch.zeros(2, 4), torch.ones(5, 4)], model)
    assert same_steps(stream, 0, 1) is None
    assert stream.kinds == {0: "train", 1: "train", 2: "train"}
    told = same_steps(stream, 1, 2)
    assert told is not None
    assert "aten::" in told
    assert "step 1" in told
    longer = record(lambda: torch.ones(2).exp())
    longer.calls += [longer.calls[0]._replace(step=1)]
    assert same_steps(longer, 0, 1) == "2 operators in step 0, 1 in step 1"


# --- roles ----------------------------------------------------------------------------------------------------------


def test_roles_of_an_mlps_storages_by_hand() -> None:
    """16-32-8 and batch 4, with batch normalization's buffers and Adam; bytes, exactly."""
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step(torch.ones(4, 16))
    x = torch.ones(4, 16)
    recorder = Recorder({"model": model}, {"adam": optimizer})
    for index in range(2):
        with recorder.step(index, "train", x):
            step(x)
    columns = storage_columns(recorder.stream)
    sums: dict[str, int] = {}
    second = recorder.stream.calls[-1].step
    begins = min(i for i, call in enumerate(recorder.stream.calls) if call.step == second)
    for role, nbytes, born, died in zip(*(columns[k] for k in ("role", "nbytes", "born", "died")), strict=True):
        if died is None or died > begins or (born is not None and born >= begins):
            sums[role] = sums.get(role, 0) + nbytes
    parameters = 16 * 32 + 32 + 32 + 32 + 32 * 8 + 8
    assert sums["weight"] == 4 * (parameters + 32 + 32) + 8  # running mean and variance; batches tracked is an int64
    assert sums["input"] == 4 * 4 * 16
    assert sums["optimizer state"] == 2 * 4 * parameters + 6 * 4  # two moments and a step count for each of 6 tensors
    assert sums["gradient"] == 4 * parameters  # those of the step before went with zero_grad
    # what the backward pass needs: the inputs of normalization and tanh's output, mean and deviation of 32 columns,
    # the model's output; and two scalars, the loss and its gradient, which autograd makes before it starts
    assert sums["activation"] == 4 * (2 * 4 * 32 + 2 * 32 + 4 * 8 + 2)
    assert set(sums) == {"weight", "gradient", "optimizer state", "activation", "input", "workspace"}


# --- nothing is left behind -----------------------------------------------------------------------------------------


def test_hooks_and_modes_go_also_when_the_step_raises() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = Recorder({"model": model}, {"sgd": optimizer})

    def broken() -> None:
        model(torch.ones(2, 5))

    with recorder.step(0):
        model(torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="shapes"), recorder.step(1):
        broken()
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    with recorder.step(2):
        model(torch.ones(2, 4)).sum().backward()
    told = [call for call in recorder.stream.calls if call.step == 2]
    assert {call.module for call in told if call.info.name == "aten::tanh"} == {"model.1"}
    sums = {call.phase: call.module for call in told if call.info.name == "aten::sum"}
    assert sums == {"forward": None, "backward": "model.0"}  # the backward one is the bias's gradient
