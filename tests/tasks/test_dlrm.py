"""DLRM's parts: dot products of pairs, and tables whose two forms of gradients do the same work."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.tasks.commerce.dlrm import Dlrm, PairDots, RowOptimizer, Table, perceptron

IDS = torch.tensor([3, 1, 3, 3, 0, 4, 2, 2])  # with repetitions within a bag and among bags
OFFSETS = torch.tensor([0, 2, 4, 6])
GOALS = torch.arange(8.0).view(4, 2)


def test_pairs_by_hand() -> None:
    """Three vectors: the first, then second x first, third x first, third x second."""
    vectors = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    interaction = PairDots(3, 2)
    assert interaction.width == 2 + 3
    assert interaction(vectors).tolist() == [[1, 2, 1 * 3 + 2 * 4, 1 * 5 + 2 * 6, 3 * 5 + 4 * 6]]
    assert PairDots(27, 16).width == 16 + 351


def test_the_perceptrons_weights_have_the_references_spread() -> None:
    torch.manual_seed(0)
    linear = perceptron((512, 256))[0]
    assert isinstance(linear, nn.Linear)
    assert float(linear.weight.detach().std()) == pytest.approx((2 / 768) ** 0.5, rel=0.01)
    assert float(linear.bias.detach().std()) == pytest.approx((1 / 256) ** 0.5, rel=0.15)


def test_a_bag_is_the_sum_of_its_rows() -> None:
    for explicit in (False, True):
        table = Table(5, 2, explicit=explicit)
        rows = table.weight.detach()
        assert float(rows.abs().max()) <= (1 / 5) ** 0.5
        assert torch.allclose(table(IDS, OFFSETS)[1], 2 * rows[3])


def step(table: Table, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    (table(IDS, OFFSETS) - GOALS).square().sum().backward()
    optimizer.step()


def test_both_forms_of_gradients_give_the_same_weights() -> None:
    """And a dense gradient does: plain autograd over ordinary indexing."""
    sparse, explicit = Table(5, 2, explicit=False), Table(5, 2, explicit=True)
    explicit.load_state_dict(sparse.state_dict())
    dense = sparse.weight.detach().clone().requires_grad_()
    optimizers = torch.optim.SGD(sparse.parameters(), lr=0.1, foreach=True), RowOptimizer([explicit], lr=0.1)
    for _ in range(3):
        step(sparse, optimizers[0])
        step(explicit, optimizers[1])
        (gradient,) = torch.autograd.grad((dense[IDS].view(4, 2, 2).sum(1) - GOALS).square().sum(), dense)
        dense = (dense - 0.1 * gradient).detach().requires_grad_()
    assert sparse.weight.grad is not None
    assert sparse.weight.grad.layout == torch.sparse_coo
    assert explicit.weight.grad is None
    assert torch.allclose(sparse.weight, dense, atol=1e-6)
    assert torch.allclose(explicit.weight, dense, atol=1e-6)


def test_old_rows_are_not_added_again() -> None:
    table = Table(5, 2, explicit=True)
    optimizer = RowOptimizer([table], lr=0.1)
    step(table, optimizer)
    before = table.weight.detach().clone()
    optimizer.zero_grad()
    optimizer.step()
    assert torch.equal(table.weight, before)


def test_on_fake_tensors_only_explicit_rows_have_their_size() -> None:
    """Why the recorder counts entries itself; when torch gives sparse fakes theirs, it need not."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        sparse, explicit = Table(5, 2, explicit=False), Table(5, 2, explicit=True)
        for table in (sparse, explicit):
            table(IDS, OFFSETS).sum().backward()
    assert sparse.weight.grad is not None
    assert sparse.weight.grad._nnz() == 0
    assert explicit.update is not None
    assert [tuple(part.shape) for part in explicit.update] == [(8,), (8, 2)]


def test_bags_of_several_sizes_and_parts_in_their_places() -> None:
    model = Dlrm((5, 7), 4, (8, 4), (6,), PairDots, explicit=False)
    ids, offsets = [torch.tensor([1, 2, 3, 4]), torch.tensor([6, 0])], [torch.tensor([0, 2]), torch.tensor([0, 1])]
    assert model(torch.rand(2, 13), ids, offsets).shape == (2,)
    assert [type(part).__name__ for part in model.bottom] == ["Linear", "ReLU"] * 2
    assert [type(part).__name__ for part in model.top] == ["Linear", "ReLU", "Linear"]
    assert isinstance(model.top[0], nn.Linear)
    assert model.top[0].in_features == 4 + 3
