"""The pass `operators`: its tables are whole and right, on fake tensors as on real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from wcbench.profilers.capture import Captured, Request, capture
from wcbench.tasks.base import Built, Config, Task

Run = Callable[..., Captured]


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

    captured = run(task_of(build), "operators")
    told = "figures of an average step weigh each kind by its share in training: 0.5 a, 0.5 b."
    assert [note.text for note in captured.notes] == [f"Steps differ in kind; {told}"]
    assert captured.passes["operators"].step_kinds == {"a": 0.5, "b": 0.5}
    table = captured.tables["operators"].to_pandas()
    assert table.groupby("step")["kind"].first().to_dict() == {0: "a", 1: "b", 2: "a", 3: "b"}


def test_case_28_causal_attention_in_both_conventions(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        def step(q: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().detach()

        return Built(step, lambda i: torch.ones(1, 2, 8, 4), {}, 1)

    table = run(task_of(build), "operators").tables["operators"].to_pandas().query("step == 1")
    full, half = table["flops_matrix"].sum(), table["flops_matrix_half"].sum()
    assert full == 4 * 2 * 8 * 8 * 4
    assert half == full // 2


@pytest.mark.parametrize("fake", [True, False])
def test_sparse_gradients_move_the_rows_looked_up_alone(run: Run, task_of: Any, fake: bool) -> None:
    def build(config: Config) -> Built:
        table = nn.EmbeddingBag(1000, 3, sparse=True, mode="sum")
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = table(x).sum()
            loss.backward()
            optimizer.step()
            if not fake:
                loss.item()  # which fake tensors do not stand
            return loss.detach()

        return Built(step, lambda i: torch.tensor([[1, 2], [1, 3]]), {"table": table}, 2, {"sgd": optimizer})

    captured = run(task_of(build), "operators")
    assert (captured.passes["operators"].tensors == "fake") == fake
    table = captured.tables["operators"].to_pandas().query("step == 1 and phase != 'forward'").set_index("name")
    entries = 4 * (3 * 4 + 8)  # of four look-ups: a row of three floats and an index
    gradient, update = table.loc["aten::_embedding_bag_backward"], table.loc["aten::add_"]
    assert gradient["bytes_written"] == entries
    assert update["bytes_read"] == entries + 4 * 12  # and the four rows they change
    assert update["bytes_written"] == 4 * 12
    assert update["flops_all"] == 4 * 3 * 2  # times the rate, and added
    assert table["covered"].all()


def test_the_batch_is_no_input_where_it_is_made_inside_the_step(run: Run, mlp: Task) -> None:
    captured = capture(mlp, Request(passes=["operators"], preset="tiny", data_in_step=True))
    roles = set(captured.tables["storages"].to_pandas()["role"].astype(str))
    assert "weight" in roles
    assert captured.passes["operators"].data_in_step


def sparse_task(task_of: Any, lookups: int, make: Callable[..., Any], *, fake: bool, mode: str = "sum") -> Task:
    """A table of 1,000 rows of 3, looked up so many times in a step."""

    def build(config: Config) -> Built:
        table = nn.EmbeddingBag(1000, 3, sparse=True, mode=mode)
        optimizer = make(table.parameters())

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = sum(table(x + i).sum() for i in range(lookups))  # type: ignore[assignment]
            loss.backward()
            optimizer.step()
            if not fake:
                loss.item()
            return loss.detach()

        return Built(step, lambda i: torch.tensor([[1, 2], [1, 3]]), {"table": table}, 2, {"o": optimizer})

    found: Task = task_of(build)
    return found


@pytest.mark.parametrize("fake", [True, False])
def test_joined_sparse_gradients_have_the_entries_of_both(run: Run, task_of: Any, fake: bool) -> None:
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    captured = run(sparse_task(task_of, 2, sgd, fake=fake), "operators")
    table = captured.tables["operators"].to_pandas().query("step == 1 and phase == 'optimizer'").set_index("name")
    # of twice four look-ups; torch merges equal rows of each gradient on the way, which is data: 3 + 3 distinct ones
    entries = 2 * 4 if fake else 3 + 3
    assert table.loc["aten::add_", "bytes_written"] == entries * 12
    assert table.loc["aten::add_", "flops_all"] == entries * 3 * 2


def test_a_rate_of_one_multiplies_nothing(run: Run, task_of: Any) -> None:
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=1.0)  # noqa: E731
    captured = run(sparse_task(task_of, 1, sgd, fake=True), "operators")
    table = captured.tables["operators"].to_pandas().query("step == 1 and phase == 'optimizer'").set_index("name")
    assert table.loc["aten::add_", "flops_all"] == 4 * 3  # alpha is -1: added, not multiplied


@pytest.mark.parametrize("fake", [True, False])
def test_a_mean_divides_each_entry(run: Run, task_of: Any, fake: bool) -> None:
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    captured = run(sparse_task(task_of, 1, sgd, fake=fake, mode="mean"), "operators")
    table = captured.tables["operators"].to_pandas().query("step == 1").set_index("name")
    assert table.loc["aten::_embedding_bag_backward", "flops_all"] == 4 * 3


@pytest.mark.parametrize("make", [torch.optim.SparseAdam, torch.optim.Adagrad])
def test_optimizers_that_look_into_sparse_gradients_are_counted_on_real_tensors(
    run: Run, task_of: Any, make: Callable[..., Any], recwarn: pytest.WarningsRecorder
) -> None:
    """torch's fake sparse tensors have no entries, so that the whole update would count as nothing."""
    captured = run(sparse_task(task_of, 1, lambda p: make(list(p)), fake=True), "operators")
    assert captured.passes["operators"].tensors == "real"
    (note,) = [note.text for note in captured.notes if "fake tensors" in note.text]
    assert "the entries of a sparse gradient depend on data" in note
    optimizer = captured.tables["operators"].to_pandas().query("step == 1 and phase == 'optimizer'")
    assert optimizer["bytes_written"].sum() > 3 * 12  # three distinct rows of state and weight
