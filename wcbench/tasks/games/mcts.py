"""Tree search as MiniGo runs it: PUCT with virtual losses, so that leaves go to the network in batches.

The formulas are those of tensorflow/minigo (cc/mcts_tree.cc); values are black's, from -1 to 1. A child's value is
W / (1 + N), where W starts at the parent's value less a penalty for the player to move: a child that was never tried
looks a little worse than its parent. A selected leaf is scored as lost for whoever chose it until its evaluation is
in, so that the next selection looks elsewhere; a leaf may still be selected twice, and is then evaluated twice.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wcbench.tasks.games.go import BLACK, Array, Position, unpack

# Positions to the probabilities of their moves (n, points + 1), pass last, and black's values (n,).
Evaluator = Callable[[Sequence[Position]], tuple[Array, Array]]

BASE, INIT = 19_652.0, 1.25  # of the exploration rate, which grows with the logarithm of the visits
ILLEGAL = 1000.0  # what an illegal move's score is lowered by


@dataclass(frozen=True)
class SearchOptions:
    """Knobs of the search, at the values of MLPerf's 19x19 flags.

    Attributes
    ----------
    virtual_losses : leaves that a tree selects at a time.
    noise, noise_mix : concentration of the root's Dirichlet noise, and its share of the priors.
    penalty : by which an untried child's value lies below its parent's.
    softness : power of the visits by which an early move is drawn.
    """

    virtual_losses: int = 4
    noise: float = 0.03
    noise_mix: float = 0.3
    penalty: float = 0.2
    softness: float = 0.98


class Node:
    """A position in the tree with the statistics of its moves; its own lie in its parent."""

    __slots__ = ("children", "expanded", "illegal", "parent", "position", "priors", "slot", "stats", "totals", "visits")

    def __init__(self, position: Position, parent: Node | None = None, slot: int = 0) -> None:
        self.position, self.parent, self.slot = position, parent, slot
        moves = position.board.points + 1
        self.visits: Array = np.zeros(moves)  # N
        self.totals: Array = np.zeros(moves)  # W
        self.priors: Array = np.zeros(moves)  # P
        self.illegal: Array = np.zeros(moves)
        self.stats = (np.zeros(1), np.zeros(1)) if parent is None else (parent.visits, parent.totals)
        self.children: dict[int, Node] = {}
        self.expanded = False

    @property
    def count(self) -> int:
        return int(self.stats[0][self.slot])

    @property
    def value(self) -> float:
        """Black's."""
        return float(self.stats[1][self.slot]) / (1 + self.count)

    @property
    def sign(self) -> int:
        """1 where black is to move, else -1."""
        return 1 if self.position.to_play == BLACK else -1

    def path(self) -> Iterator[Node]:
        """The node and those above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def rate(self) -> float:
        return 2 * (math.log((1 + self.count + BASE) / BASE) + INIT)

    def scores(self, root: float) -> Array:
        """What each move promises the player to move: its value, and what its prior gives for ``root``."""
        tries = 1 + self.visits
        scores: Array = self.sign * self.totals / tries + self.rate() * root * self.priors / tries - self.illegal
        return scores

    def best(self) -> int:
        return int(self.scores(math.sqrt(max(1, self.count - 1))).argmax())

    def child(self, move: int) -> Node:
        if move not in self.children:
            self.children[move] = Node(self.position.play(move), self, move)
        return self.children[move]

    def expand(self, priors: Array, value: float, penalty: float) -> None:
        legal = unpack([self.position.legal() | 1 << self.position.board.points], len(self.visits))[0]
        self.expanded = True
        self.illegal = ILLEGAL * (1 - legal.astype(np.float64))
        self.priors = legal * priors.astype(np.float64)
        self.priors /= max(self.priors.sum(), 1e-30)
        self.totals += min(1.0, max(-1.0, value - penalty * self.sign))  # in place: children share the array


class Cache:
    """The evaluations of the positions met last, up to a number of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.hits = self.misses = 0
        self._kept: OrderedDict[Hashable, tuple[Array, float]] = OrderedDict()

    @staticmethod
    def _name(position: Position) -> Hashable:
        return position.key, position.to_play, position.passes > 0, position.legal()

    def get(self, position: Position) -> tuple[Array, float] | None:
        name = self._name(position)
        found = self._kept.get(name)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self._kept.move_to_end(name)
        return found

    def put(self, position: Position, priors: Array, value: float) -> None:
        if self.capacity > 0:
            self._kept[self._name(position)] = (priors, value)
            if len(self._kept) > self.capacity:
                self._kept.popitem(last=False)


class Tree:
    """The search of one game: `select` leaves, evaluate them, `absorb` the results; then `play` a move."""

    def __init__(self, position: Position, options: SearchOptions | None = None) -> None:
        self.options = options or SearchOptions()
        self.root = Node(position)

    def select(self, target: int, cache: Cache) -> list[Node]:
        """Leaves to evaluate, each charged a virtual loss; fewer where the root reaches its target of visits.

        Leaves that the cache knows and ends of games are scored at once.
        """
        leaves: list[Node] = []
        while len(leaves) < self.options.virtual_losses and self.root.count < target:
            leaf = self._leaf()
            known = None if leaf.position.over else cache.get(leaf.position)
            if leaf.position.over:
                self._back_up(leaf, leaf.position.winner())
            elif known is not None:
                self._incorporate(leaf, *known)
            else:
                leaves.append(leaf)
                self._lose(leaf, 1)
            if leaf is self.root:  # nothing below it can be selected before it is evaluated
                break
        return leaves

    def absorb(self, leaves: Sequence[Node], priors: Array, values: Array) -> None:
        for leaf, prior, value in zip(leaves, priors, values, strict=True):
            self._incorporate(leaf, prior, float(value))
            self._lose(leaf, -1)

    def _leaf(self) -> Node:
        node = self.root
        while node.expanded:
            node = node.child(node.best())
        return node

    def _lose(self, leaf: Node, sign: int) -> None:
        for node in leaf.path():
            node.stats[1][node.slot] += sign * node.sign  # the player to move there gains, so who chose it loses

    def _incorporate(self, leaf: Node, priors: Array, value: float) -> None:
        if not leaf.expanded:
            leaf.expand(priors, value, self.options.penalty)
            self._back_up(leaf, value)

    def _back_up(self, leaf: Node, value: float) -> None:
        for node in leaf.path():
            node.stats[0][node.slot] += 1
            node.stats[1][node.slot] += value

    def add_noise(self, rng: np.random.Generator) -> None:
        """Mix Dirichlet noise over the legal moves into the root's priors."""
        drawn = rng.dirichlet(np.full(len(self.root.priors), self.options.noise)) * (self.root.illegal == 0)
        mix = self.options.noise_mix
        self.root.priors = (1 - mix) * self.root.priors + mix * drawn / max(drawn.sum(), 1e-30)

    def policy(self, prune: bool = False) -> Array:
        """The visits as probabilities of moves (points + 1,), float32: what the network is to learn.

        ``prune`` first takes back the visits that the best move's score would not have spared a worse one.
        """
        root, visits = self.root, self.root.visits.copy()
        if prune:
            best = self.most_visited()
            scores = root.scores(math.sqrt(1 + root.count))
            regret = scores[best] - root.sign * root.totals / (1 + root.visits)
            spared = root.rate() * root.priors * math.sqrt(root.count) / np.maximum(regret, 1e-9)
            visits = np.minimum(visits, np.floor(spared))
            visits[best] = root.visits[best]
        if self.early():
            visits **= self.options.softness
        shares: Array = (visits / visits.sum()).astype(np.float32)
        return shares

    def early(self) -> bool:
        """Whether moves are still drawn by their visits: the first twelfth of the points, a whole number of pairs."""
        return self.root.position.moves < self.root.position.board.points // 12 // 2 * 2

    def most_visited(self) -> int:
        scores = self.root.scores(math.sqrt(1 + self.root.count))
        return int(np.lexsort((scores, self.root.visits))[-1])  # the higher score among equals

    def pick(self, rng: np.random.Generator | None) -> int:
        """The move to play: the most visited, or early in the game, given ``rng``, drawn by the visits; no pass."""
        shares = self.root.visits[:-1] ** self.options.softness
        if rng is None or not self.early() or not shares.any():
            return self.most_visited()
        return int(rng.choice(len(shares), p=shares / shares.sum()))

    def play(self, move: int, forget: bool = False) -> None:
        """Make a move the root, with its part of the tree; ``forget`` drops that too."""
        child = self.root.child(move)
        if forget:
            child = Node(child.position)
        else:
            visits, totals = child.stats
            child.stats, child.slot = (visits[[child.slot]], totals[[child.slot]]), 0
        child.parent = None
        self.root = child


def search(tree: Tree, evaluate: Evaluator, readouts: int, cache: Cache) -> None:
    """Visit the root so many times more."""
    target = tree.root.count + readouts
    while tree.root.count < target:
        leaves = tree.select(target, cache)
        if leaves:
            priors, values = evaluate([leaf.position for leaf in leaves])
            for leaf, prior, value in zip(leaves, priors, values, strict=True):
                cache.put(leaf.position, prior, float(value))
            tree.absorb(leaves, priors, values)
