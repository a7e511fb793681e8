"""Self-play as MiniGo runs it: parallel games that share the network's batches, the window of examples, the gate.

From tensorflow/minigo's cc/concurrent_selfplay.cc and MLPerf's 19x19 flags: a quarter of the moves is searched by 800
readouts on an empty tree with noise at its root, and becomes an example; the others by 80 on top of the tree that is
there, and do not. A game is resigned below a value drawn for it from -1 to -0.9. (Where the C++ code empties a tree
it still adds the dropped visits to the 800; here it does not.)
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wcbench.tasks.games.go import BLACK, Array, Position, features, unpack
from wcbench.tasks.games.mcts import Cache, Evaluator, Node, SearchOptions, Tree, search

Player = Callable[[Position], int]
TARGET_SHARE = 0.5  # of the games that a model has to win to pass the gate


@dataclass(frozen=True)
class PlayOptions:
    """Knobs of self-play, at the values of MLPerf's 19x19 flags.

    Attributes
    ----------
    readouts, fast_readouts, fast_share : visits of a fully searched and of a fast move, and the fast moves' share.
    resign : the range from which a game's value of resignation is drawn.
    search : the search's own.
    """

    readouts: int = 800
    fast_readouts: int = 80
    fast_share: float = 0.75
    resign: tuple[float, float] = (-1.0, -0.9)
    search: SearchOptions = field(default_factory=SearchOptions)


class Example(NamedTuple):
    """A position, the probabilities of its moves (points + 1,), and 1 where black won the game, else -1."""

    position: Position
    policy: Array
    outcome: int


class Game:
    """One game that plays both sides; the first move is fully searched."""

    def __init__(self, start: Position, options: PlayOptions, rng: np.random.Generator) -> None:
        self.options, self.rng = options, rng
        self.tree = Tree(start, options.search)
        self.resign = rng.uniform(*options.resign)
        self.fast, self.noisy, self.target = False, True, options.readouts
        self.outcome = 0  # not yet known
        self._searched: list[tuple[Position, Array]] = []

    def select(self, cache: Cache) -> list[Node]:
        """Leaves to evaluate for the move at hand."""
        if self.noisy and self.tree.root.expanded:
            self.tree.add_noise(self.rng)
            self.noisy = False
        return self.tree.select(self.target, cache)

    def advance(self) -> bool:
        """Play the move where it has its readouts; whether the game is over."""
        root, options = self.tree.root, self.options
        if root.count < self.target:
            return False
        if root.sign * root.value < self.resign:
            self.outcome = -root.sign
            return True
        if not self.fast:
            self._searched.append((root.position, self.tree.policy(prune=True)))
        move = self.tree.pick(self.rng)
        self.fast = bool(self.rng.random() < options.fast_share)
        self.noisy = not self.fast
        self.tree.play(move, forget=not self.fast and options.fast_share > 0)
        self.target = self.tree.root.count + (options.fast_readouts if self.fast else options.readouts)
        if self.tree.root.position.over:
            self.outcome = self.tree.root.position.winner()
        return self.tree.root.position.over

    def examples(self) -> list[Example]:
        return [Example(position, policy, self.outcome) for position, policy in self._searched]


class SelfPlay:
    """Games in parallel, of one seed; a game that ends makes room for a new one on the empty board."""

    def __init__(self, starts: Sequence[Position], options: PlayOptions, seed: int, cache: int) -> None:
        self.options, self.cache = options, Cache(cache)
        self._seeds = np.random.default_rng(seed)
        self.size = starts[0].board.size
        self.games = [self._game(start) for start in starts]

    def _game(self, start: Position) -> Game:
        return Game(start, self.options, self._seeds.spawn(1)[0])

    def wave(self, evaluate: Evaluator) -> tuple[Array, list[Example]]:
        """One round of all games: leaves of each, one batch for the network, back-up, and the moves that are due.

        Returns the values (n,) of the n leaves evaluated, and the examples of the games that ended.
        """
        chosen = [(game, game.select(self.cache)) for game in self.games]
        leaves = [leaf for _, part in chosen for leaf in part]
        values = np.zeros(0, np.float32)
        if leaves:
            priors, values = evaluate([leaf.position for leaf in leaves])
            for leaf, prior, value in zip(leaves, priors, values, strict=True):
                self.cache.put(leaf.position, prior, float(value))
            done = 0
            for game, part in chosen:
                game.tree.absorb(part, priors[done : done + len(part)], values[done : done + len(part)])
                done += len(part)
        examples: list[Example] = []
        for slot, game in enumerate(self.games):
            if game.advance():
                examples += game.examples()
                self.games[slot] = self._game(Position(self.size))
        return values, examples


class Window:
    """The examples of the latest generations, of which a share is trained on."""

    def __init__(self, generations: int = 5, share: float = 0.3) -> None:
        self.share = share
        self.generations: deque[list[Example]] = deque(maxlen=generations)

    def add(self, examples: list[Example]) -> None:
        self.generations.append(examples)

    def draw(self, rng: np.random.Generator) -> list[Example]:
        """Each example with the probability of the share, in random order."""
        held = [example for generation in self.generations for example in generation]
        kept = np.flatnonzero(rng.random(len(held)) < self.share)
        return [held[place] for place in rng.permutation(kept)]


def arrays(examples: Sequence[Example], symmetries: Array) -> tuple[Array, Array, Array]:
    """Examples turned by symmetries (n,) for the network: planes (n, 13, size, size), policies, outcomes (n,)."""
    board = examples[0].position.board
    turns = board.symmetries[symmetries]  # (n, points + 1)
    planes = features([example.position for example in examples])
    planes = np.take_along_axis(planes, turns[:, None, :-1], axis=2).reshape(len(examples), -1, board.size, board.size)
    policies = np.take_along_axis(np.stack([example.policy for example in examples]), turns, axis=1)
    return planes, policies, np.array([example.outcome for example in examples], np.float32)


def searcher(evaluate: Evaluator, readouts: int, options: SearchOptions, rng: np.random.Generator | None) -> Player:
    """A player that searches each move anew, without noise; ``rng`` lets it vary its first moves."""

    def player(position: Position) -> int:
        tree = Tree(position, options)
        search(tree, evaluate, readouts, Cache(0))
        return tree.pick(rng)

    return player


def match(player: Player, opponent: Player, size: int, games: int) -> float:
    """The share of games on the empty board that a player wins, black in every second one."""
    won = 0
    for number in range(games):
        sides = (player, opponent) if number % 2 == BLACK else (opponent, player)
        position = Position(size)
        while not position.over:
            position = position.play(sides[position.to_play](position))
        won += (position.winner() > 0) == (number % 2 == BLACK)
    return won / games


def passes_gate(player: Player, target: Player, size: int, games: int = 256) -> bool:
    """Whether a model reaches the target's strength; MLPerf plays 256 games of 100 readouts a move."""
    return match(player, target, size, games) >= TARGET_SHARE


def casual_policy(position: Position) -> Array:
    """The stand-in player's moves (points + 1,): it takes stones where it can, else plays anywhere but in its own eyes
    of one point, and passes last; the moves of the first of these kinds share the probability evenly."""
    board, legal = position.board, position.legal()
    others = board.full ^ position.stones[position.to_play]
    eyes = others & ~board.spread(others)  # every neighbour is its own
    moves = legal & sum(position.takes()) or legal & ~eyes or 1 << board.points
    shares: Array = unpack([moves], board.points + 1)[0] / np.float32(moves.bit_count())
    return shares


def casual_game(size: int, rng: np.random.Generator) -> list[Example]:
    """A whole game of the stand-in player against itself: positions as real as its moves are random."""
    position = Position(size)
    played: list[tuple[Position, Array]] = []
    while not position.over:
        policy = casual_policy(position)
        played.append((position, policy))
        position = position.play(int(rng.choice(np.flatnonzero(policy))))
    return [Example(before, policy, position.winner()) for before, policy in played]


@functools.lru_cache(maxsize=2)
def casual_games(size: int, games: int, seed: int) -> tuple[list[Example], tuple[Array, Array, Array]]:
    """Whole games of the stand-in player, and the same as arrays, not turned."""
    rng = np.random.default_rng((seed, size))
    examples = [example for _ in range(games) for example in casual_game(size, rng)]
    return examples, arrays(examples, np.zeros(len(examples), np.int64))
