"""MiniGo: sizes and shares by hand, the two kinds of steps, the stand-in positions, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.games.go import Position, features
from wcbench.tasks.mlperf.minigo import Batch, Loop, MlperfMinigo

TASK = MlperfMinigo()


def built(preset: str = "tiny", **options: Any) -> Built:
    return TASK.build(TASK.configure(preset, **options))


def loop_of(task: Built) -> Loop:
    loop = getattr(task.step, "__self__")  # noqa: B009  (a bound method)
    assert isinstance(loop, Loop)
    return loop


def test_sizes_by_hand() -> None:
    """A stem, six blocks of two convolutions with their norms, and two heads whose norms learn nothing."""
    trunk = 13 * 9 * 64 + 2 * 64 + 6 * 2 * (64 * 9 * 64 + 2 * 64)
    policy = 64 * 2 + (2 * 361 * 362 + 362)
    value = 64 + (361 * 64 + 64) + (64 + 1)
    assert trunk + policy + value == 736_671
    convolutions = 361 * (13 * 9 * 64 + 12 * 64 * 9 * 64 + 64 * 2 + 64)
    products = 722 * 362 + 361 * 64 + 64
    assert 2 * (convolutions + products) == 325_503_720


def test_the_papers_steps_on_fake_tensors() -> None:
    """A training step costs three forward passes but for the gradient of the planes; a wave is one of 128."""
    forward, stem = 325_503_720, 2 * 361 * 13 * 9 * 64
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        task = built("paper", fixed_shapes=True, overrides={"casual_games": "1"})
        assert sum(p.numel() for p in task.modules["model"].parameters()) == 736_671
        flops = {}
        for index in (0, 1):
            with FlopCounterMode(display=False) as counter:
                assert task.step(task.batch(index)).shape == ()
            flops[task.kind(index)] = counter.get_total_flops()
        assert task.batch(0).planes.shape == (4096, 13, 19, 19)
        assert task.batch(1).planes.shape == (128, 13, 19, 19)
    assert flops == {"train": 4096 * (3 * forward - stem), "selfplay": 128 * forward}


def test_shares_of_the_two_kinds() -> None:
    """Per move: 260 readouts and 3.125 of the evaluation, in waves of 128; 0.375 examples, in batches of 4,096."""
    shares = built("tiny").step_kinds
    assert sum(shares.values()) == pytest.approx(1.0)
    shares = TASK.presets["paper"].step_kinds()
    waves, steps = (0.25 * 800 + 0.75 * 80 + 256 * 100 / 8192) / 128, 5 * 0.25 * 0.3 / 4096
    assert waves / steps == pytest.approx(22_453.3, abs=0.1)
    assert shares["train"] == pytest.approx(steps / (waves + steps))
    assert sum(shares.values()) == pytest.approx(1.0)
    moves = 250 * 8192
    assert moves * steps == pytest.approx(187.5)
    assert moves * waves == pytest.approx(4.21e6, rel=1e-3)


def test_a_batch_of_positions() -> None:
    batch = built("small", batch_size=256).batch(4)
    planes, policies, outcomes = batch.planes, batch.policies, batch.outcomes
    assert planes.dtype == torch.uint8
    assert set(planes.unique().tolist()) == {0, 1}
    assert (planes[:, 0] & planes[:, 1]).sum() == 0  # a point holds one stone
    assert torch.equal(planes[:, 9:12].sum(1), planes[:, 0] + planes[:, 1])  # every stone has liberties
    assert torch.allclose(policies.sum(1), torch.ones(256))
    legal = policies[:, :-1].unflatten(1, (9, 9)) > 0
    assert not (legal & (planes[:, 0] + planes[:, 1] > 0)).any()
    taking = (planes[:, 12] > 0).flatten(1).any(1)
    assert torch.equal(legal[taking], planes[taking, 12] > 0)
    assert 0.1 < taking.float().mean() < 0.9
    assert set(outcomes.tolist()) == {-1.0, 1.0}
    assert 0.3 < planes[:, 8].float().mean() < 0.7  # black is to move in about half of them


def test_biases_do_not_decay() -> None:
    task = built()
    names = {id(p): name for name, p in task.modules["model"].named_parameters()}
    groups = task.optimizers["model"].param_groups
    decay = {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}
    assert set(decay) == set(names.values())
    assert {name for name, weight in decay.items() if weight == 0} == {n for n in decay if n.endswith(".bias")}
    assert set(decay.values()) == {0, 1e-4}


def test_self_play_leaves_the_network_alone_and_games_go_on() -> None:
    task = built()
    loop, model = loop_of(task), task.modules["model"]
    assert loop.play is not None
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stages = [game.tree.root.position.moves for game in loop.play.games]
    values = [float(task.step(task.batch(2 * number + 1))) for number in range(12)]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert all(-1 <= value <= 1 for value in values)
    assert len(set(values)) > 6
    assert [game.tree.root.position.moves for game in loop.play.games] != stages


def test_the_stand_in_of_a_wave_is_as_large_as_a_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[bool, list[int]] = {False: [], True: []}
    predict = Loop.predict

    def noted(self: Loop, planes: Tensor) -> tuple[Tensor, Tensor]:
        sizes[self.play is None].append(len(planes))
        return predict(self, planes)

    monkeypatch.setattr(Loop, "predict", noted)
    for fixed in (False, True):
        task = built("small", fixed_shapes=fixed, overrides={"cache": "0"})
        for index in (1, 3, 5):
            task.step(task.batch(index))
    assert sizes[True] == [16, 16, 16]
    assert sizes[False] == [4, 16, 16]  # the roots first


def test_policies_come_back_from_their_symmetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that wants to play where its own stones are, wherever they were turned to."""
    loop = loop_of(built())
    positions = [Position(5).play(1).play(13).play(8)]
    for move in (20, 4, 17, 6, 22, 11, 0, 24):
        positions.append(positions[-1].play(move))
    assert len({position.key % 8 for position in positions}) > 3

    def predict(self: Loop, planes: Tensor) -> tuple[Tensor, Tensor]:
        own = planes[:, 0].flatten(1).float()
        return torch.cat((9 * own, torch.zeros(len(own), 1)), 1), own.sum(1)

    monkeypatch.setattr(Loop, "predict", predict)
    policies, counts = loop._evaluate(positions)
    own = features(positions)[:, 0]
    assert np.array_equal(policies[:, :-1] > 0.01, own > 0)
    assert np.array_equal(counts, own.sum(1))


def test_it_learns() -> None:
    """Guessing evenly costs ln 26 = 3.26 for the move, and 0.5 for the winner."""
    task = built(batch_size=64, overrides={"lr": "0.1"})
    losses = [float(task.step(task.batch(index))) for index in range(0, 100, 2)]
    assert losses[0] == pytest.approx(3.26 + 0.5, abs=0.1)
    assert sum(losses[-5:]) / 5 < 3.0


def test_steps_are_in_turn_and_may_be_skipped() -> None:
    task = built()
    assert [task.kind(index) for index in range(4)] == ["train", "selfplay", "train", "selfplay"]
    assert all(isinstance(task.batch(index), Batch) for index in (0, 1))
    assert [float(task.step(task.batch(index))) < 10 for index in (0, 5, 7, 2)] == [True] * 4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"board": "2"}, "board 2 is refused: Go needs 3 to 25 points on a side"),
        ({"fast_share": "1"}, "no example would be left to train on"),
        ({"kept": "0"}, "no example would be left to train on"),
        ({"games": "0"}, "games 0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
