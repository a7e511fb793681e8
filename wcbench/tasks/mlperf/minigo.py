"""MiniGo: MLPerf Training v0.7's reinforcement learning, Go on 19x19 by self-play (Silver et al., Nature 550, 2017).

The network is small: 6 residual blocks of 64 channels on 13 planes, with a policy and a value head. An iteration plays
8,192 games with the latest network, trains on 30 % of the examples of the last 5 iterations in batches of 4,096 (SGD
with momentum 0.9, rate 0.16 from step 128 to 10,000, l2 1e-4, value loss halved), and later plays 256 games of 100
readouts against a target model, of which it must win half. Sizes and flags are those of NVIDIA's and the reference's
v0.7 code (training_results_v0.7, minigo/ml_perf/flags/19); the game is in `wcbench.tasks.games`.

Steps are of two kinds, in turn here, by phases there. ``train`` is a step of SGD. ``selfplay`` is one wave of a
thread's 32 games: each tree selects 4 leaves by virtual losses, the network evaluates them in one batch of up to 128,
the values are backed up, and games that have their readouts move. Samples are positions: of a wave, 128. The
shares follow from the flags, and the length of a game cancels. A move costs 0.25 x 800 + 0.75 x 80 = 260 readouts, and
the evaluation's games add 256 x 100 / 8,192 = 3.125: 263.125 / 128 = 2.0557 waves. Its examples give 5 x 0.25 x 0.3 /
4,096 = 9.155e-5 training steps: one step in 22,454 trains. At 250 moves a game (from memory: 200 to 300) an iteration
is 4.21 million waves and 187.5 training steps. The inference cache saves part of the waves; how much is not known, and
not counted.

What differs here, and why:

- Training reads games of a stand-in player, who takes stones where it can and else moves at random (590 moves a game:
  fuller boards), each position turned by a random symmetry: drawn data are a function of seed and index, played ones of
  all steps before. `selfplay.Window` holds the played examples in a loop of one's own.
- The games go on from step to step, from positions of stand-in games at any stage; the first wave evaluates only the
  roots. With fixed shapes, and on fake tensors, the network evaluates a full batch of stand-in positions instead.
- The search runs in Python, on one thread: it takes many times what the C++ code takes, and none of it is an operator.
  On a GPU the host's share of a ``selfplay`` step is therefore too large.
- The evaluation's games are counted as self-play: they are the same inference. The network runs in the precision asked
  for, where NVIDIA's self-play runs a TensorRT engine in half precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.games import go
from wcbench.tasks.games.go import Array, Position
from wcbench.tasks.games.mcts import SearchOptions
from wcbench.tasks.games.network import DualNet
from wcbench.tasks.games.selfplay import PlayOptions, SelfPlay, casual_games

TRAIN, SELFPLAY = "train", "selfplay"
EVALUATION = 256 * 100 / 8192  # readouts of the evaluation per move of self-play


@dataclass(frozen=True)
class GoSettings(Settings):
    """Knobs of MiniGo.

    Attributes
    ----------
    board : points on a side.
    blocks, width, hidden : residual blocks, their channels, width of the value head's layer.
    games, virtual_losses : parallel games of a wave, and leaves of each.
    readouts, fast_readouts, fast_share : visits of a full and of a fast move, share of fast moves.
    cache : positions whose evaluations are kept; about as many as 8 GB hold.
    window, kept : iterations whose examples are trained on, and the share of them.
    lr, momentum, l2 : of SGD; l2 acts on all weights but biases.
    value_weight : of the value's squared error beside the policy's cross entropy.
    casual_games : stand-in games from which positions are drawn.
    """

    batch_size: int = 4096
    board: int = 19
    blocks: int = 6
    width: int = 64
    hidden: int = 64
    games: int = 32
    virtual_losses: int = 4
    readouts: int = 800
    fast_readouts: int = 80
    fast_share: float = 0.75
    cache: int = 5_000_000
    window: int = 5
    kept: float = 0.3
    lr: float = 0.16
    momentum: float = 0.9
    l2: float = 1e-4
    value_weight: float = 0.5
    casual_games: int = 8

    def validate(self) -> None:
        super().validate()
        if not 3 <= self.board <= 25:
            raise UsageError(f"board {self.board} is refused: Go needs 3 to 25 points on a side.", "MLPerf's is 19.")
        counts = ("blocks", "width", "hidden", "games", "virtual_losses", "readouts", "fast_readouts", "window")
        for name in (*counts, "casual_games"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is refused: give a whole number from 1 up.")
        if not 0 <= self.fast_share < 1 or not 0 < self.kept <= 1:
            raise UsageError(
                f"fast_share {self.fast_share} with kept {self.kept} is refused: no example would be left to train on.",
                "Give fast_share from 0 up, below 1, and kept above 0, at most 1.",
            )

    @property
    def wave(self) -> int:
        """Leaves that a wave evaluates at most."""
        return self.games * self.virtual_losses

    def step_kinds(self) -> dict[str, float]:
        """Steps of each kind per move of self-play, as shares."""
        readouts = (1 - self.fast_share) * self.readouts + self.fast_share * self.fast_readouts
        waves = (readouts + EVALUATION) / self.wave
        steps = self.window * (1 - self.fast_share) * self.kept / self.batch_size
        return {SELFPLAY: waves / (waves + steps), TRAIN: steps / (waves + steps)}


class Batch(NamedTuple):
    """Planes (n, 13, size, size), uint8, the policies to learn (n, points + 1), and the games' outcomes (n,)."""

    kind: str
    planes: Tensor
    policies: Tensor
    outcomes: Tensor


class MlperfMinigo(Task):
    """Go by self-play: training steps and waves of the search."""

    presets: ClassVar[Mapping[str, GoSettings]] = {
        "paper": GoSettings(),
        "small": GoSettings(batch_size=32, board=9, games=4, lr=0.02),
        "tiny": GoSettings(
            batch_size=8, board=5, blocks=2, width=16, games=2, readouts=16, fast_readouts=4, lr=0.02, casual_games=4
        ),
    }

    def build(self, config: Config) -> Built:
        settings: GoSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):  # built in place: a module of fake tensors cannot be moved
            model = DualNet(settings.board, settings.blocks, settings.width, settings.hidden)
        loop = Loop(config, model)
        positions = StandIn(settings, config.seed)

        def batch(index: int) -> Batch:
            kind, *tensors = positions.batch(index)
            return Batch(kind, *(tensor.to(config.device) for tensor in tensors))

        return Built(
            step=loop.step,
            batch=batch,
            modules={"model": model},
            samples=settings.batch_size,
            optimizers={"model": loop.optimizer},
            kind=_kind,
            step_kinds=settings.step_kinds(),
            infer=lambda batch: loop.predict(batch.planes),
            kind_samples={SELFPLAY: settings.wave},
        )


def _kind(index: int) -> str:
    return SELFPLAY if index % 2 else TRAIN


class Loop:
    """The two kinds of steps; the games go on in between."""

    def __init__(self, config: Config, model: DualNet) -> None:
        settings: GoSettings = config.settings
        self.config, self.settings, self.model = config, settings, model
        biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
        others = [p for name, p in model.named_parameters() if not name.endswith("bias")]
        groups: list[dict[str, Any]] = [{"params": others, "weight_decay": settings.l2}, {"params": biases}]
        self.optimizer = torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum, foreach=True)
        fixed = config.fixed_shapes or isinstance(biases[0], FakeTensor)
        self.play = None if fixed else _games(settings, config.seed)

    def predict(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        with self.config.autocast():
            logits, values = self.model(planes.float())
        return logits.float(), values.float()

    def step(self, batch: Batch) -> Tensor:
        return self._train(batch) if batch.kind == TRAIN else self._selfplay(batch)

    def _train(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        logits, values = self.predict(batch.planes)
        loss = F.cross_entropy(logits, batch.policies)
        loss = loss + self.settings.value_weight * F.mse_loss(values, batch.outcomes)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _selfplay(self, batch: Batch) -> Tensor:
        """The mean of the values found."""
        self.model.eval()
        with torch.no_grad():
            if self.play is None:
                logits, values = self.predict(batch.planes)
                logits.softmax(1)
                mean = values.mean()
            else:
                found, _ = self.play.wave(self._evaluate)
                mean = torch.tensor(found.mean() if len(found) else 0.0, device=self.config.device)
        self.model.train()
        return mean

    def _evaluate(self, positions: Sequence[Position]) -> tuple[Array, Array]:
        """What the network thinks, each position turned by a symmetry that its hash picks."""
        board = positions[0].board
        symmetries = np.array([position.key % 8 for position in positions])
        planes = np.take_along_axis(go.features(positions), board.symmetries[symmetries][:, None, :-1], axis=2)
        shape = (len(positions), go.PLANES, board.size, board.size)
        logits, values = self.predict(torch.from_numpy(planes.reshape(shape)).to(self.config.device))
        policies = np.take_along_axis(logits.softmax(1).cpu().numpy(), board.inverses[symmetries], axis=1)
        return policies, values.cpu().numpy()


def _games(settings: GoSettings, seed: int) -> SelfPlay:
    """The parallel games, each at a random stage."""
    examples, _ = casual_games(settings.board, settings.casual_games, seed)
    places = np.random.default_rng((seed, settings.games)).integers(len(examples), size=settings.games)
    search = SearchOptions(virtual_losses=settings.virtual_losses)
    options = PlayOptions(settings.readouts, settings.fast_readouts, settings.fast_share, search=search)
    return SelfPlay([examples[place].position for place in places], options, seed, settings.cache)


class StandIn:
    """Positions of stand-in games, turned at random; batches lie on the CPU."""

    def __init__(self, settings: GoSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        _, (planes, policies, outcomes) = casual_games(settings.board, settings.casual_games, seed)
        self.planes, self.policies = torch.tensor(planes).flatten(2), torch.tensor(policies)
        self.outcomes = torch.tensor(outcomes)
        self.symmetries = torch.tensor(go.Board(settings.board).symmetries)

    def batch(self, index: int) -> Batch:
        settings, rng = self.settings, data.generator(self.seed, index)
        kind = _kind(index)
        n = settings.batch_size if kind == TRAIN else settings.wave
        rows = torch.randint(len(self.outcomes), (n,), generator=rng)
        turns = self.symmetries[torch.randint(8, (n,), generator=rng)]  # (n, points + 1)
        planes = self.planes[rows].gather(2, turns[:, None, :-1].expand(-1, go.PLANES, -1))
        planes = planes.unflatten(2, (settings.board, settings.board))
        return Batch(kind, planes, self.policies[rows].gather(1, turns), self.outcomes[rows])
