"""The pass `operators`: its tables are whole and right, on fake tensors as on real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.profilers.capture import Captured, Request, capture
from wcbench.profilers.formulas import work
from wcbench.profilers.operators import as_call, operator_columns, storage_columns
from wcbench.profilers.recorder import Recorder, Stream, same_steps
from wcbench.tasks.base import Built, Config, Task
from wcbench.tasks.catalog import TASKS
from wcbench.tasks.load import load_task

Run = Callable[..., Captured]


def stream_of(name: str, *, fake: bool, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Two steps of a catalogue task at tiny, after the one that creates optimizer state."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    torch.manual_seed(0)
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else torch.enable_grad():
        task = load_task(name)
        built = task.build(task.configure("tiny"))
        built.step(built.batch(0))
        recorder = Recorder(built.modules, built.optimizers)
        for index in range(2):
            batch = built.batch(index + 1)
            with recorder.step(index, "train", batch):
                built.step(batch)
    return recorder.stream


@pytest.mark.parametrize("name", TASKS.names())
def test_contract_fake_and_real_streams_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In operators, phases, modules, FLOPs and bytes; and every call of the catalogue is covered."""
    frames, shares = [], []
    for fake in (False, True):
        stream = stream_of(name, fake=fake, monkeypatch=monkeypatch)
        assert same_steps(stream, 0, 1) is None
        done = [work(as_call(note)) for note in stream.calls]
        frame = pd.DataFrame(operator_columns(stream, done))
        assert frame["covered"].all()
        assert frame["flops_matrix"].sum() > 0
        frames.append(frame.drop(columns=["inputs", "outputs", "accesses"]))
        storages = pd.DataFrame(storage_columns(stream))
        shares.append(storages.groupby("role")["nbytes"].sum().to_dict())
    pd.testing.assert_frame_equal(*frames)
    assert set(shares[0]) == set(shares[1])
    for role in ("weight", "optimizer state", "input"):
        assert shares[0].get(role) == shares[1].get(role)


def test_rows_of_an_mlp(run: Run, mlp: Task) -> None:
    captured = run(mlp, "operators")
    table = captured.tables["operators"].to_pandas()
    assert table["order"].tolist() == list(range(len(table)))
    assert sorted(set(table["step"])) == [0, 1]
    for row in table.to_dict("records"):
        sides = {w: sum(a["nbytes"] for a in row["accesses"] if a["write"] == w) for w in (False, True)}
        assert (row["bytes_read"], row["bytes_written"]) == (sides[False], sides[True])
    first = table[(table["name"] == "aten::addmm") & (table["step"] == 1)].iloc[0]
    assert (first["phase"], first["module"]) == ("forward", "model.0")
    assert [t["shape"].tolist() for t in first["inputs"]] == [[32], [4, 16], [16, 32]]
    assert [t["shape"].tolist() for t in first["outputs"]] == [[4, 32]]
    assert (first["flops_matrix"], first["flops_all"]) == (4096, 4096 + 128)
    assert (first["bytes_read"], first["bytes_written"]) == (4 * (32 + 64 + 512), 4 * 128)
    assert captured.notes == []


def test_every_storage_of_the_operators_has_its_row(run: Run, mlp: Task) -> None:
    captured = run(mlp, "operators")
    storages = captured.tables["storages"].to_pandas().set_index("id")
    orders = captured.tables["operators"].num_rows
    for row in captured.tables["operators"].to_pylist():
        for tensor in (*row["inputs"], *row["outputs"], *row["accesses"]):
            storage = storages.loc[tensor["storage"]]
            assert pd.isna(storage["born"]) or storage["born"] <= row["order"]
            assert pd.isna(storage["died"]) or storage["died"] > row["order"]
    assert storages["born"].dropna().between(0, orders - 1).all()
    producers = storages[storages["born"].notna()]
    assert producers["producer"].notna().all()
    by_role = storages.groupby("role", observed=True)["nbytes"].sum()
    assert by_role["weight"] == by_role["optimizer state"] == 4 * (16 * 32 + 32 + 32 * 8 + 8)
    assert by_role["input"] == 2 * 4 * 4 * 16  # a batch for each of two steps


def test_steps_that_differ_are_told(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(4, 2)
        step = lambda x: model(x).sum().detach()  # noqa: E731
        return Built(step, lambda i: torch.ones(4 + i, 4), {"model": model}, 4)

    captured = run(task_of(build), "operators")
    (note,) = captured.notes
    assert note.about == "operators"
    assert note.text.startswith("Two recorded steps differ: operator ")
    last = captured.tables["operators"].to_pandas().query("step == 1")
    assert last["flops_matrix"].sum() == 2 * (4 + 2) * 4 * 2  # the third batch has six rows


def test_steps_of_different_kinds_may_differ(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(4, 2)
        step = lambda x: model(x).sum().detach()  # noqa: E731
        kind = lambda i: "ab"[i % 2]  # noqa: E731
        return Built(step, lambda i: torch.ones(4 + i % 2, 4), {"model": model}, 4, kind=kind)

    texts = [note.text for note in run(task_of(build), "operators").notes]
    assert texts == ["The task has steps of the kinds a, b; counted is a step of the kind a."]


def test_case_28_causal_attention_in_both_conventions(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        def step(q: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().detach()

        return Built(step, lambda i: torch.ones(1, 2, 8, 4), {}, 1)

    table = run(task_of(build), "operators").tables["operators"].to_pandas().query("step == 1")
    full, half = table["flops_matrix"].sum(), table["flops_matrix_half"].sum()
    assert full == 4 * 2 * 8 * 8 * 4
    assert half == full // 2


def test_sparse_gradients_do_not_crash_the_pass(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        table = nn.EmbeddingBag(10, 3, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = table(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Built(step, lambda i: torch.tensor([[1, 2], [1, 3]]), {"table": table}, 2, {"sgd": optimizer})

    captured = run(task_of(build), "operators")
    assert captured.tables["operators"].num_rows > 4


def test_the_batch_is_no_input_where_it_is_made_inside_the_step(run: Run, mlp: Task) -> None:
    captured = capture(mlp, Request(passes=["operators"], preset="tiny", data_in_step=True))
    roles = set(captured.tables["storages"].to_pandas()["role"].astype(str))
    assert "weight" in roles
    assert captured.passes["operators"].data_in_step
