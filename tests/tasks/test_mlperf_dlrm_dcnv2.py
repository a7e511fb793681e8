"""DLRM-DCNv2: sizes by hand, bags of ids, Adagrad by rows against torch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.commerce.dlrm import Table
from wcbench.tasks.mlperf.dlrm_dcnv2 import HOTS, LowRankCross, MlperfDlrmDcnv2, RowAdagrad

BOTTOM = 13 * 512 + 512 * 256 + 256 * 128
CROSS = 3 * 2 * 3456 * 512
TOP = 3456 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256 * 1


def test_sizes_by_hand() -> None:
    assert 27 * 128 == 3456
    assert 2 * (BOTTOM + CROSS + TOP) == 32_060_928
    rows = MlperfDlrmDcnv2.presets["paper"].tables()
    assert (len(rows), sum(rows), sum(HOTS)) == (26, 204_184_588, 214)
    biases = 512 + 256 + 128 + 3 * 3456 + 1024 + 1024 + 512 + 256 + 1
    assert 128 * sum(rows) + BOTTOM + CROSS + TOP + biases == 26_151_671_809


def test_the_papers_scale_on_fake_tensors() -> None:
    """14 million look-ups in a step, and state of Adagrad for every weight."""
    task = MlperfDlrmDcnv2()
    with FakeTensorMode(allow_non_fake_inputs=True):
        built = task.build(task.configure("paper"))
        assert built.infer is not None
        batch = built.batch(0)
        with FlopCounterMode(display=False) as counter:
            built.infer(batch)
        built.step(batch)
    assert counter.get_total_flops() == 65_536 * 32_060_928
    model: Any = built.modules["model"]
    assert sum(p.numel() for p in model.parameters()) == 26_151_671_809
    assert sum(ids.numel() for ids in batch[1]) == 65_536 * 214
    tables = built.optimizers["tables"]
    assert sum(tables.state[table.weight]["sum"].numel() for table in model.tables) == 128 * 204_184_588


def test_the_cross_network_by_hand() -> None:
    """One layer of rank 1 over two numbers: x0 * (W (V x0) + b) + x0."""
    cross = LowRankCross(1, 2, layers=1, rank=1)
    narrow, widen = cross.narrow[0], cross.widen[0]
    assert isinstance(narrow, nn.Linear)
    assert isinstance(widen, nn.Linear)
    with torch.no_grad():
        narrow.weight.copy_(torch.tensor([[1.0, 2.0]]))
        widen.weight.copy_(torch.tensor([[3.0], [4.0]]))
        widen.bias.copy_(torch.tensor([0.5, -0.5]))
    inner = 1 * 5 + 2 * 7
    assert cross(torch.tensor([[[5.0, 7.0]]])).tolist() == [[5 * (3 * inner + 0.5) + 5, 7 * (4 * inner - 0.5) + 7]]


def test_adagrad_by_rows_is_torchs_adagrad() -> None:
    """Against torch's own on the dense gradient, in which rows without look-ups are zero; ids repeat."""
    torch.manual_seed(0)
    table, dense = Table(6, 3, explicit=True), nn.Embedding(6, 3)
    dense.load_state_dict(table.state_dict())
    rows, whole = RowAdagrad([table], lr=0.1), torch.optim.Adagrad(dense.parameters(), lr=0.1, eps=1e-8, foreach=True)
    goals = torch.randn(4, 3)
    for ids in ([4, 1, 4, 4, 2, 5, 1, 1], [5, 5, 5, 5, 5, 5, 5, 5], [0, 1, 2, 3, 4, 5, 0, 1]):
        bags = torch.tensor(ids)
        for optimizer in (rows, whole):
            optimizer.zero_grad()
        (table(bags, torch.arange(0, 8, 2)) - goals).square().sum().backward()
        (dense(bags).view(4, 2, 3).sum(1) - goals).square().sum().backward()
        rows.step()
        whole.step()
        assert torch.allclose(table.weight, dense.weight, atol=1e-6)
    assert torch.allclose(rows.state[table.weight]["sum"], whole.state[dense.weight]["sum"], rtol=1e-5)


def test_the_further_ids_of_a_bag_are_fixed_by_the_first() -> None:
    """And uniform over the table, though the first follow Zipf's law."""
    task = MlperfDlrmDcnv2()
    config = task.configure("paper", batch_size=2000)
    bags = task.lookups(config, 0)["model.tables.20.weight"].reshape(2000, 100)
    again = task.lookups(config, 1)["model.tables.20.weight"].reshape(2000, 100)
    both = np.concatenate((bags, again))
    firsts, place = np.unique(both[:, 0], return_inverse=True)
    assert len(firsts) < 3000
    assert len(np.unique(both, axis=0)) == len(firsts)
    once = both[np.unique(place, return_index=True)[1], 1:]
    assert float(once.mean()) == pytest.approx(20_000_000, rel=0.01)
    assert len(np.unique(once)) > 0.99 * once.size


def test_look_ups_are_the_batchs() -> None:
    task = MlperfDlrmDcnv2()
    config = task.configure("tiny")
    built = task.build(config)
    _, ids, offsets, _ = built.batch(2)
    found = list(task.lookups(config, 2).values())
    assert [drawn.tolist() for drawn in found] == [drawn.tolist() for drawn in ids]
    assert [len(drawn) // 16 for drawn in found] == list(HOTS)
    assert offsets[20].tolist() == list(range(0, 1600, 100))


def test_it_learns() -> None:
    """Three in ten are clicked on; knowing only that, the loss is 0.611."""
    task = MlperfDlrmDcnv2()
    overrides = {"clicks": "0.3", "lr": "0.02", "rows": "8,8,8,8", "hots": "1,2,3,1"}
    built = task.build(task.configure("tiny", batch_size=512, overrides=overrides))
    losses = [float(built.step(built.batch(index))) for index in range(60)]
    assert sum(losses[-20:]) / 20 < 0.55


@pytest.mark.parametrize(
    ("overrides", "message"),
    [({"hots": "1,2"}, "each of the 26 tables takes 1 id or more"), ({"rank": "0"}, "cross and rank start at 1")],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MlperfDlrmDcnv2().configure("paper", overrides=overrides)
