"""Ranking distillation: sizes by hand, the kinds of steps and what each touches, the check-ins' statistics."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.commerce.caser import Caser
from wcbench.tasks.commerce.learning_to_rank import DISTILL, RANK, STATIC, TEACHER, LearningToRank, RankSettings, Visits

PAPER = LearningToRank.presets["paper"]
FIRST = {TEACHER: 0, DISTILL: 1, STATIC: 8, RANK: 9}  # the first step of each kind


def built(preset: str = "tiny", **options: Any) -> Built:
    task = LearningToRank()
    return task.build(task.configure(preset, **options))


def parameters_by_hand(d: int) -> int:
    tables = 13_149 * d + 14_008 * d + 14_008 * 2 * d + 14_008
    convolutions = (2 * 5 + 2) + sum(16 * height * d + 16 for height in range(1, 6))
    return tables + convolutions + (2 * d + 80) * d + d


def macs_by_hand(d: int, items: int) -> int:
    """Filters over one column; 6 - height places of filters as wide as an embedding; the hidden layer; the scores."""
    convolutions = 2 * d * 5 + sum((6 - height) * 16 * height * d for height in range(1, 6))
    return convolutions + (2 * d + 80) * d + items * 2 * d


def test_sizes_by_hand() -> None:
    """5,583,500 is what AIBench's log prints for the teacher."""
    assert (parameters_by_hand(100), parameters_by_hand(50)) == (5_583_500, 2_793_800)
    for d in (100, 50):
        with torch.device("meta"):
            model = Caser(13_149, 14_008, d)
        assert sum(p.numel() for p in model.parameters()) == parameters_by_hand(d)
    assert (2 * macs_by_hand(100, 4), 2 * macs_by_hand(50, 4)) == (171_600, 75_800)


def test_the_papers_scale_on_fake_tensors() -> None:
    """The teacher reads 4 rows of output weights or all 14,008, the student 114; each instance once."""
    forward = {}
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        task = built("paper")
        assert task.infer is not None
        with FlopCounterMode(display=False) as inference:
            scores = task.infer(task.batch(0))
        for kind, index in FIRST.items():
            with FlopCounterMode(display=False) as counter:
                loss = task.step(task.batch(index))
            assert loss.shape == ()
            forward[kind] = counter.get_total_flops()
    assert inference.get_total_flops() == 512 * 171_600
    assert scores.shape == (512, 4)
    assert forward[RANK] == 512 * 2 * macs_by_hand(100, 14_008)
    for kind, d, items in ((TEACHER, 100, 4), (DISTILL, 50, 114), (STATIC, 50, 114)):
        assert forward[kind] == pytest.approx(3 * 512 * 2 * macs_by_hand(d, items), rel=0.01)
    sizes = {role: sum(p.numel() for p in model.parameters()) for role, model in task.modules.items()}
    assert sizes == {"teacher": 5_583_500, "student": 2_793_800}


def test_shares_of_the_kinds_by_hand() -> None:
    """718 batches of 512 make an epoch of 367,611; 50 epochs each, 10 with fixed weights, and one ranking."""
    steps = math.ceil(367_611 / 512)
    assert steps == 718
    expected = {TEACHER: 50 * steps, DISTILL: 40 * steps, STATIC: 10 * steps, RANK: steps}
    shares = PAPER.step_kinds()
    assert shares == pytest.approx({kind: count / sum(expected.values()) for kind, count in expected.items()})
    assert sum(shares.values()) == pytest.approx(1)


def test_kinds_take_turns_in_a_cycle_of_ten() -> None:
    task = built()
    kinds = [task.kind(index) for index in range(20)]
    assert kinds[:10] == kinds[10:] == [TEACHER, DISTILL] * 4 + [STATIC, RANK]
    assert {kind: kinds.index(kind) for kind in task.step_kinds} == FIRST
    assert all(task.batch(index)["kind"] == task.kind(index) for index in range(10))


@pytest.mark.parametrize(
    ("kind", "places"),
    [(TEACHER, {"negatives": 3}), (DISTILL, {"negatives": 3, "best": 10, "dynamic": 100}), (RANK, {})],
)
def test_what_a_step_reads(kind: str, places: dict[str, int]) -> None:
    batch = Visits(PAPER, 0).batch(FIRST[kind])
    expected = {"sequences": (512, 5), "targets": (512, 1), "users": (512,)}
    expected |= {name: (512, count) for name, count in places.items()}
    assert {name: tuple(x.shape) for name, x in batch.items() if isinstance(x, Tensor)} == expected
    for name in set(expected) - {"users"}:
        assert 1 <= int(batch[name].min()) <= int(batch[name].max()) <= 14_007  # row 0 is the padding's


def weights(task: Built) -> dict[str, list[Tensor]]:
    return {role: [p.detach().clone() for p in model.parameters()] for role, model in task.modules.items()}


@pytest.mark.parametrize(
    ("kind", "learns"), [(TEACHER, {"teacher"}), (DISTILL, {"student"}), (STATIC, {"student"}), (RANK, set())]
)
def test_a_step_changes_one_model_and_there_every_row(kind: str, learns: set[str]) -> None:
    """Gradients are dense, and Adam's l2 alone moves rows that were not looked up."""
    task = built()
    before = weights(task)
    task.step(task.batch(FIRST[kind]))
    for role, after in weights(task).items():
        moved = [not torch.equal(old, new) for old, new in zip(before[role], after, strict=True)]
        assert any(moved) == all(moved) == (role in learns)
    for role in learns:
        model: Any = task.modules[role]
        table = model.weights.weight
        assert table.grad.layout == torch.strided
        place = [name for name, _ in model.named_parameters()].index("weights.weight")
        assert bool((before[role][place] != table).any(dim=1).all())


def test_the_teachers_ranking_by_brute_force() -> None:
    """Each instance on its own, its target crossed out; dropout is off."""
    task = built()
    batch = task.batch(FIRST[RANK])
    teacher: Any = task.modules["teacher"]
    mean = float(task.step(batch))
    assert not teacher.training
    best = []
    for row in range(8):
        one = slice(row, row + 1)
        with torch.no_grad():
            scores = teacher(batch["sequences"][one], batch["users"][one], torch.arange(81).unsqueeze(0))[0]
        scores[batch["targets"][row, 0]] = -math.inf
        best += scores.sort(descending=True).values[:10].tolist()
    assert mean == pytest.approx(sum(best) / 80, rel=1e-5)
    task.step(task.batch(FIRST[TEACHER]))
    assert teacher.training


@pytest.mark.parametrize("kind", [DISTILL, STATIC])
def test_the_distilled_loss_by_hand(kind: str) -> None:
    """In NumPy, place by place: the loss of a batch without dropout."""
    task = built(batch_size=3)
    student: Any = task.modules["student"]
    student.dropout.p = 0.0
    batch = task.batch(FIRST[kind])
    items = torch.cat([batch[name] for name in ("targets", "negatives", "best", "dynamic")], dim=1)
    with torch.no_grad():
        scores = student(batch["sequences"], batch["users"], items).double().numpy()
    total = 0.0
    fixed = np.exp(-np.arange(1, 11)) / np.exp(-np.arange(1, 11)).sum()
    for row in scores:
        target, negatives, best, dynamic = row[0], row[1:4], row[4:14], row[14:]
        total += np.log1p(np.exp(-target)) + np.log1p(np.exp(negatives)).sum()
        for place in range(10):
            weight = fixed[place]
            if kind == DISTILL:
                rank = math.floor(81 * (dynamic > best[place]).sum() / 20)
                weight *= max(0.0, math.tanh(0.1 * (rank - place)))
            total += weight * np.log1p(np.exp(-best[place]))
    assert float(task.step(batch)) == pytest.approx(total / 3, rel=1e-4)


def test_places_are_as_popular_as_in_gowalla() -> None:
    """TASKS.md, C16, counted in the authors' file: top 1 % of places 14.9 % of rows, top 10 % 42.2 %."""
    visits = Visits(RankSettings(batch_size=20_000), 0)
    batch = visits.batch(0)
    liked = torch.cat((batch["sequences"], batch["targets"]), dim=1)
    for top, share in ((140, 0.149), (1401, 0.422)):
        favourites = visits.place_of_rank[:top]
        assert float(torch.isin(liked, favourites).double().mean()) == pytest.approx(share, abs=0.01)
        assert float(torch.isin(batch["negatives"], favourites).double().mean()) == pytest.approx(
            top / 14_007, abs=0.004
        )
    busy = visits.user_of_rank[-13_149 // 2 :]
    assert float(torch.isin(batch["users"], busy).double().mean()) > 0.75  # the busier half has most of the instances


@pytest.mark.parametrize("kind", [TEACHER, DISTILL, STATIC, RANK])
def test_look_ups_are_the_batchs(kind: str) -> None:
    task = LearningToRank()
    config = task.configure("tiny")
    index = FIRST[kind] + 10
    role = "teacher" if kind in (TEACHER, RANK) else "student"
    model = task.build(config).modules[role]
    batch = task.build(config).batch(index)
    ids = task.lookups(config, index)
    assert set(ids) == {f"{role}.{name}" for name, p in model.named_parameters() if p.shape[0] in (50, 81)}
    assert ids[f"{role}.users.weight"].tolist() == batch["users"].tolist()
    assert ids[f"{role}.items.weight"].tolist() == batch["sequences"].flatten().tolist()
    parts = [batch[name] for name in ("targets", "negatives", "best", "dynamic") if name in batch]
    scored = [*range(81)] * 8 if kind == RANK else torch.cat(parts, dim=1).flatten().tolist()
    assert ids[f"{role}.weights.weight"].tolist() == ids[f"{role}.biases.weight"].tolist() == scored


def test_another_law_and_recorded_instances(tmp_path: Path) -> None:
    """Exponent 3 puts 1 / 1.2021 of all draws on one user and one place."""
    task = LearningToRank()
    steep = task.lookups(task.configure("paper"), 1, zipf=3.0)
    assert task.configure("paper", overrides={"zipf": "3"}).settings.zipf == 3.0
    for ids in steep.values():
        assert np.unique(ids, return_counts=True)[1].max() / len(ids) == pytest.approx(1 / 1.2021, abs=0.06)
    lines = np.arange(7 * 9).reshape(9, 7) % 50
    np.save(tmp_path / "ids.npy", lines)
    batch = built(overrides={"ids": str(tmp_path / "ids.npy")}).batch(1)
    rows = [lines[place % 9] for place in range(8, 16)]
    assert batch["users"].tolist() == [row[0] for row in rows]
    assert batch["sequences"].tolist() == [row[1:6].tolist() for row in rows]
    assert batch["targets"].tolist() == [[row[6]] for row in rows]


def test_both_models_learn() -> None:
    """Places are skewed: at first the loss is ln 2 for each of the 4 places, and for the student one more."""
    task = built(batch_size=64, overrides={"lr": "0.01"})
    losses: dict[str, list[float]] = {TEACHER: [], DISTILL: []}
    for index in [place for place in range(200) if task.kind(place) in losses]:
        losses[task.kind(index)].append(float(task.step(task.batch(index))))
    assert losses[TEACHER][0] == pytest.approx(4 * math.log(2), abs=0.2)
    assert sum(losses[TEACHER][-20:]) / 20 < losses[TEACHER][0] - 0.25
    assert sum(losses[DISTILL][-20:]) / 20 < losses[DISTILL][0] - 0.2


@torch.no_grad()
def test_a_score_by_hand() -> None:
    """Caser in plain arithmetic: no activation after convolutions, the highest of a filter's places, a sigmoid."""
    torch.manual_seed(0)
    model: Any = Caser(3, 6, 4).eval()
    model.biases.weight.copy_(torch.arange(6.0).unsqueeze(1))
    rows = model.items.weight[torch.tensor([1, 2, 3, 4, 5])]  # (5, 4)
    features = [model.vertical.weight[f, 0, :, 0] @ rows + model.vertical.bias[f] for f in range(2)]
    for height, convolution in enumerate(model.horizontal, start=1):
        windows = torch.stack([rows[start : start + height].flatten() for start in range(6 - height)])
        features.append((windows @ convolution.weight.flatten(1).T + convolution.bias).max(0).values)
    hidden = torch.sigmoid(F.linear(torch.cat(features), model.hidden.weight, model.hidden.bias))
    state = torch.cat((hidden, model.users.weight[2]))
    score = model(torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([2]), torch.tensor([[5]]))
    assert float(score) == pytest.approx(float(state @ model.weights.weight[5] + 5), rel=1e-5)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"users": "0"}, "Sizes start at 1"),
        ({"items": "19"}, "items 19 at twice the 10 best"),
        ({"static": "50"}, "static 50 of 50 epochs is refused"),
        ({"zipf": "-1"}, "zipf -1.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LearningToRank().configure("paper", overrides=overrides)
