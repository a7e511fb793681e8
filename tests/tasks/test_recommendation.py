"""NeuMF: sizes by hand, the pairs' statistics, dense gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.commerce.recommendation import Pairs, PairSettings, Recommendation


def test_flops_by_hand() -> None:
    """Three layers of the perceptron and the score: 106,624 multiply-accumulates a pair."""
    perceptron = 256 * 256 + 256 * 128 + 128 * 64
    assert 2 * (perceptron + 128 * 1) == 213_248
    task = Recommendation()
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = task.build(task.configure("paper"))
        assert built.infer is not None
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            assert built.infer(batch).shape == (65_536,)
    assert counter.get_total_flops() == 65_536 * 213_248


def test_parameters_by_hand() -> None:
    tables = (138_493 + 26_744) * (64 + 128)
    perceptron = (256 * 256 + 256) + (256 * 128 + 128) + (128 * 64 + 64)
    assert tables + perceptron + (128 + 1) == 31_832_577


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


def test_look_ups_are_the_batchs() -> None:
    task = Recommendation()
    for overrides in ({}, {"zipf": "0.8"}):
        config = task.configure("tiny", overrides=overrides)
        users, items, _ = task.build(config).batch(4)
        ids = task.lookups(config, 4)
        assert list(ids) == [f"model.{p}.weight" for p in ("factor_user", "factor_item", "deep_user", "deep_item")]
        assert [drawn.tolist() for drawn in ids.values()] == [users.tolist(), items.tolist()] * 2


def test_pairs_by_zipfs_law() -> None:
    """Exponent 3 puts 1 / 1.2021 of all pairs on one user and one item, negatives too; positives stay one in five."""
    task = Recommendation()
    for ids in task.lookups(task.configure("paper"), 0, zipf=3.0).values():
        assert np.unique(ids, return_counts=True)[1].max() / 65_536 == pytest.approx(1 / 1.2021, abs=0.01)
    users, items, labels = Pairs(PairSettings(zipf=0.0), seed=0).batch(0)
    assert int(labels.sum()) == 13_107
    for side, size in ((users, 138_493), (items, 26_744)):
        assert float(side.double().mean()) == pytest.approx(size / 2, rel=0.02)


def test_recorded_pairs(tmp_path: Path) -> None:
    pairs = np.stack((np.arange(100) % 50, np.arange(100) % 80), axis=1)
    np.save(tmp_path / "ids.npy", pairs)
    task = Recommendation()
    config = task.configure("tiny", overrides={"ids": str(tmp_path / "ids.npy")})
    users, items, labels = task.build(config).batch(1)
    assert torch.stack((users, items), dim=1).tolist() == [pairs[place % 100].tolist() for place in range(64, 128)]
    assert int(labels.sum()) == 13
    np.save(tmp_path / "ids.npy", np.full((5, 2), 60))
    with pytest.raises(UsageError, match="60 is no row of table users, which has 50"):
        task.lookups(config, 0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"layers": "255,64"}, "the first joins a user's and an item's half, so it must be even"),
        ({"layers": ""}, r"layers \(\) is refused"),
        ({"users": "0"}, "users, items and factors start at 1"),
        ({"negatives": "-1"}, "negatives at 0"),
        ({"zipf": "nan"}, "zipf nan is refused"),
        ({"median_rows": "200"}, "the median of a log-normal law is positive and lies at or below its mean"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recommendation().configure("paper", overrides=overrides)
