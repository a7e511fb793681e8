"""Advertising: sizes by hand, the impressions' statistics, sparse gradients, recorded ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built
from wcbench.tasks.commerce.advertising import MISSING, Advertising, ClickSettings, Impressions, exponent

BOTTOM = 13 * 512 + 512 * 256 + 256 * 64 + 64 * 16
TOP = 367 * 512 + 512 * 256 + 256 * 1


def built(preset: str = "tiny", **options: Any) -> Built:
    task = Advertising()
    return task.build(task.configure(preset, **options))


def test_sizes_by_hand() -> None:
    """The interaction is a product of the 27 vectors with themselves, of which 351 results are used."""
    assert 16 + 27 * 26 // 2 == 367
    assert 2 * (BOTTOM + TOP + 27 * 27 * 16) == 972_064
    rows = Advertising.presets["paper"].tables()
    assert (len(rows), sum(rows)) == (26, 33_762_577)
    biases = 512 + 256 + 64 + 16 + 512 + 256 + 1
    assert 16 * sum(rows) + BOTTOM + TOP + biases == 540_677_217


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_the_papers_scale_on_fake_tensors(fixed_shapes: bool) -> None:
    """A step is three forward passes, without gradients of the 13 numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        task = built("paper", fixed_shapes=fixed_shapes)
        batch = task.batch(0)
        with FlopCounterMode(display=False) as forward:
            logits = task.infer(batch) if task.infer else None
        with FlopCounterMode(display=False) as whole:
            task.step(batch)
    assert logits is not None
    assert logits.shape == (128,)
    assert forward.get_total_flops() == 128 * 972_064
    assert whole.get_total_flops() == 128 * (3 * 972_064 - 2 * 13 * 512)
    assert sum(p.numel() for p in task.modules["model"].parameters()) == 540_677_217


def test_gradients_of_tables_are_sparse_with_an_entry_for_each_look_up() -> None:
    task = built()
    task.step(task.batch(0))
    model: Any = task.modules["model"]
    for table in model.tables:
        assert table.weight.grad.layout == torch.sparse_coo
        assert table.weight.grad._nnz() == 16
    assert all(p.grad.layout == torch.strided for p in model.top.parameters())
    assert not any(task.optimizers["tables"].state.values())


def test_only_rows_that_are_looked_up_change() -> None:
    task = built()
    model: Any = task.modules["model"]
    before = model.tables[2].weight.detach().clone()
    batch = task.batch(0)
    task.step(batch)
    changed = (model.tables[2].weight != before).any(1).nonzero().flatten()
    assert changed.tolist() == sorted(set(batch[1][2].tolist()))


def test_numbers_are_logarithms_of_counts_with_gaps() -> None:
    """Columns miss 20 to 45 %; ln of a log-normal count of median e^1.5 with deviation 1.5, rounded down."""
    numbers, *_ = Impressions(ClickSettings(batch_size=20_000, cap=100), 0).batch(0)
    assert (MISSING[0], MISSING[-1]) == (0.20, 0.45)
    assert float(numbers.min()) == 0.0
    assert torch.allclose(numbers.exp(), numbers.exp().round(), rtol=1e-4)
    few = (numbers == 0).double().mean(0)  # missing, or a count of 0: P(normal < -1) = 15.9 %
    assert few.tolist() == pytest.approx([share + (1 - share) * 0.159 for share in MISSING], abs=0.012)
    many = (numbers > np.log1p(20)).double().mean(0)  # a count of 21 or more: P(normal > (ln 21 - 1.5) / 1.5) = 15.2 %
    assert many.tolist() == pytest.approx([(1 - share) * 0.152 for share in MISSING], abs=0.012)


@pytest.mark.parametrize(("batch_size", "clicks"), [(20_000, 5120), (128, 33), (3, 1), (1, 1)])
def test_a_quarter_is_clicked_on(batch_size: int, clicks: int) -> None:
    labels = Impressions(ClickSettings(batch_size=batch_size), 0).batch(0)[3]
    assert sorted(labels.tolist()) == [0.0] * (batch_size - clicks) + [1.0] * clicks


def test_big_tables_are_skewed_and_small_ones_nearly_even() -> None:
    """Zipf of 1.3 over 10 million: the first rank has 1 / 3.9 of the draws. Of 0.2 over 10: 15 %, and the last 9 %."""
    assert exponent(1000) == 1.05
    assert exponent(8_351_593) == pytest.approx(1.05 + 0.25 * 3.9218 / 4, abs=1e-4)
    assert exponent(10_131_227) == exponent(40_000_000) == 1.3
    _, ids, offsets, _ = Impressions(ClickSettings(batch_size=20_000), 0).batch(0)
    assert offsets[0].tolist() == list(range(20_000))
    big = ids[2].unique(return_counts=True)[1].sort(descending=True).values
    zeta = 3.9319 - 10_131_227**-0.3 / 0.3  # of 1.3, less the tail beyond the table
    assert float(big[0]) / 20_000 == pytest.approx(1 / zeta, abs=0.015)
    assert float(big[1]) / 20_000 == pytest.approx(2**-1.3 / zeta, abs=0.012)
    small = ids[16].bincount(minlength=10).sort(descending=True).values / 20_000
    weights = [rank**-0.2 for rank in range(1, 11)]
    assert small.tolist() == pytest.approx([weight / sum(weights) for weight in weights], abs=0.01)


def test_look_ups_are_the_batchs() -> None:
    task = Advertising()
    for overrides in ({}, {"zipf": "1.1"}):
        config = task.configure("tiny", overrides=overrides)
        numbered = enumerate(task.build(config).batch(5)[1])
        expected = {f"model.tables.{number}.weight": ids.tolist() for number, ids in numbered}
        assert {path: ids.tolist() for path, ids in task.lookups(config, 5).items()} == expected
    names = dict(task.build(config).modules["model"].named_parameters())
    assert {path.removeprefix("model.") for path in expected} <= set(names)
    assert all(ids.dtype == np.int64 for ids in task.lookups(config, 0).values())


def test_look_ups_by_another_law() -> None:
    """Exponent 0 is uniform; 3 puts 1 / 1.2021 on one row of every table."""
    task = Advertising()
    config = task.configure("paper", batch_size=4000)
    even = task.lookups(config, 0, zipf=0.0)["model.tables.2.weight"]
    assert len(np.unique(even)) > 3990
    assert float(even.mean()) == pytest.approx(10_131_227 / 2, rel=0.05)
    for ids in task.lookups(config, 0, zipf=3.0).values():
        assert np.unique(ids, return_counts=True)[1].max() / 4000 == pytest.approx(1 / 1.2021, abs=0.05)


def test_recorded_ids_take_the_place_of_drawn_ones(tmp_path: Path) -> None:
    task = Advertising()
    ids = np.arange(26 * 40).reshape(40, 26) % 3
    np.save(tmp_path / "ids.npy", ids)
    config = task.configure("tiny", overrides={"ids": str(tmp_path / "ids.npy")})
    batch = task.build(config).batch(1)
    assert torch.stack(batch[1], dim=1).tolist() == ids[16:32].tolist()
    assert task.lookups(config, 1)["model.tables.7.weight"].tolist() == ids[16:32, 7].tolist()
    assert task.lookups(config, 1, zipf=0.0)["model.tables.7.weight"].tolist() != ids[16:32, 7].tolist()
    assert np.isfinite(float(task.build(config).step(batch)))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert all(hasattr(column, "fake_mode") for column in task.build(config).batch(1)[1])


def test_recorded_ids_name_the_table_that_they_miss(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.full((4, 26), 3))
    task = Advertising()
    with pytest.raises(UsageError, match=r"row 0 \(from 0\): 3 is no row of table tables\.8, which has 3"):
        task.lookups(task.configure("paper", overrides={"ids": str(tmp_path / "ids.npy")}), 0)


def test_tables_beyond_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.01 GiB of tables on a machine of 1 GiB, but on fake tensors."""
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}
    monkeypatch.setattr(os, "sysconf", lambda name: sizes[name])
    with pytest.raises(UsageError, match=r"The tables take 2\.0 GiB, and this machine has 1\.0"):
        built("paper")
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert built("paper").samples == 128


def test_it_learns_more_than_the_share_of_clicks() -> None:
    """Knowing only that 25.6 % are clicked on, the loss is 0.569."""
    overrides = {"lr": "0.5", "rows": "8,8,8,8", "dim": "8", "bottom": "32,16,8"}
    task = built(batch_size=512, overrides=overrides)
    losses = [float(task.step(task.batch(index))) for index in range(150)]
    assert sum(losses[-30:]) / 30 < 0.51


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"rows": ""}, r"rows \(\) with cap"),
        ({"rows": "5,0"}, r"rows \(5, 0\) with cap .* of 1 to 2\*\*31 - 1 rows"),
        ({"cap": "0"}, "with cap 0 is refused"),
        ({"dim": "8"}, r"with dim 8 is refused.*\nEnd bottom with 8, or set dim to 16"),
        ({"top": ""}, "neither perceptron is empty"),
        ({"top": "5,0"}, "1 or more"),
        ({"clicks": "1"}, "clicks 1.0 is refused"),
        ({"zipf": "-1"}, "zipf -1.0 is refused"),
        ({"ids": "nowhere.npy"}, "ids file 'nowhere.npy' does not exist"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Advertising().configure("paper", overrides=overrides)


def test_ids_and_labels_follow_the_seed_and_the_index() -> None:
    first, again, other = (Impressions(ClickSettings(cap=50), seed).batch(3) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert not torch.equal(first[1][2], other[1][2])
    generator = data.generator(0, 3)
    assert torch.equal(first[1][2], Impressions(ClickSettings(cap=50), 0).ids(generator, 3)[2].flatten())
