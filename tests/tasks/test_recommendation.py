"""NeuMF: sizes by hand, the pairs' statistics, dense gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from wcbench.errors import UsageError
from wcbench.tasks.catalog import TASKS, TaskRow
from wcbench.tasks.commerce.recommendation import Pairs, PairSettings, Recommendation

ROW = TASKS.row("recommendation")


def test_flops_by_hand() -> None:
    """Three layers of the perceptron and the score: 106,624 multiply-accumulates a pair."""
    perceptron = 256 * 256 + 256 * 128 + 128 * 64
    assert isinstance(ROW, TaskRow)
    assert 2 * (perceptron + 128 * 1) == ROW.forward_flops == 213_248


def test_parameters_by_hand() -> None:
    tables = (138_493 + 26_744) * (64 + 128)
    perceptron = (256 * 256 + 256) + (256 * 128 + 128) + (128 * 64 + 64)
    assert isinstance(ROW, TaskRow)
    assert tables + perceptron + (128 + 1) == ROW.parameters == 31_832_577


@pytest.mark.parametrize(("batch_size", "positives"), [(65_536, 13_107), (5, 1), (1, 1), (7, 1), (8, 2)])
def test_one_pair_in_five_is_positive(batch_size: int, positives: int) -> None:
    _, _, labels = Pairs(PairSettings(batch_size=batch_size), seed=0).batch(0)
    assert int(labels.sum()) == positives


def test_pairs_of_the_papers_batch() -> None:
    """Positives: top 1 % of items ~7 %, top 10 % ~43 % of rows; negatives: uniform, so 1 % and 10 %."""
    pairs = Pairs(PairSettings(), seed=0)
    users, items, labels = pairs.batch(0)
    assert 0 <= int(users.min()) <= int(users.max()) < 138_493
    assert 0 <= int(items.min()) <= int(items.max()) < 26_744
    for label, shares in ((1.0, (0.073, 0.427)), (0.0, (0.01, 0.10))):
        chosen = items[labels == label]
        for top, share in zip((267, 2674), shares, strict=True):
            inside = torch.isin(chosen, pairs.item_of_rank[:top]).double().mean()
            assert float(inside) == pytest.approx(share, abs=0.015)
    busy = torch.isin(users, pairs.user_of_rank[-138_493 // 2 :]).double().mean()
    assert float(busy) > 0.8  # the busier half of the users has most of the rows


def test_popular_items_lie_scattered() -> None:
    top = Pairs(PairSettings(), seed=0).item_of_rank[:267].double()
    assert float(top.mean()) == pytest.approx(26_744 / 2, rel=0.15)


def test_gradients_are_dense() -> None:
    task = Recommendation()
    built = task.build(task.configure("tiny"))
    built.step(built.batch(0))
    model: Any = built.modules["model"]
    for table in (model.factor_user, model.factor_item, model.deep_user, model.deep_item):
        assert table.weight.grad.layout == torch.strided
        assert built.optimizers["model"].state[table.weight]["exp_avg"].shape == table.weight.shape


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"layers": "255,64"}, "the first joins a user's and an item's half, so it must be even"),
        ({"layers": ""}, r"layers \(\) is refused"),
        ({"users": "0"}, "users, items and factors start at 1"),
        ({"negatives": "-1"}, "negatives at 0"),
        ({"median_rows": "200"}, "the median of a log-normal law is positive and lies at or below its mean"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recommendation().configure("paper", overrides=overrides)
