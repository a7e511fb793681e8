"""Tree search: its formulas by hand, virtual losses that leave no trace, ends of games, the cache; it beats chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from wcbench.tasks.games.go import Array, Position
from wcbench.tasks.games.mcts import Cache, SearchOptions, Tree, search
from wcbench.tasks.games.selfplay import match, searcher


class Constant:
    """Values every position alike, with even priors unless given; counts what it is asked."""

    def __init__(self, value: float = 0.0, priors: Array | None = None) -> None:
        self.value, self.priors = value, priors
        self.batches: list[int] = []

    def __call__(self, positions: Sequence[Position]) -> tuple[Array, Array]:
        self.batches.append(len(positions))
        moves = positions[0].board.points + 1
        priors = np.full(moves, 1 / moves) if self.priors is None else self.priors
        return np.tile(priors, (len(positions), 1)), np.full(len(positions), self.value, np.float32)


def area(positions: Sequence[Position]) -> tuple[Array, Array]:
    """Even priors, and black's area now as the value."""
    priors, _ = Constant()(positions)
    return priors, np.tanh([(position.score() - 7.5) / 5 for position in positions])


def expanded(position: Position, constant: Constant, options: SearchOptions | None = None) -> Tree:
    tree = Tree(position, options)
    search(tree, constant, 1, Cache(0))
    return tree


def test_scores_by_hand() -> None:
    """The root has one visit: rate 2 (ln((1 + 1 + 19652) / 19652) + 1.25), times the root of max(1, 1 - 1)."""
    priors = np.full(10, 0.05)
    priors[4] = 0.55
    tree = expanded(Position(3), Constant(0.5, priors))
    rate = 2 * (math.log(19654 / 19652) + 1.25)
    assert tree.root.scores(1.0)[4] == pytest.approx(0.5 - 0.2 + rate * 0.55)
    assert tree.root.scores(1.0)[0] == pytest.approx(0.5 - 0.2 + rate * 0.05)
    assert tree.root.best() == 4
    tree.root.visits[4], tree.root.totals[4] = 3, 0.3 - 2.1  # three visits that found -0.7 each
    assert tree.root.scores(2.0)[4] == pytest.approx(-1.8 / 4 + rate * 2 * 0.55 / 4)


def test_white_wants_low_values() -> None:
    tree = expanded(Position(3).play(0), Constant(0.5))
    assert tree.root.totals[5] == pytest.approx(0.5 + 0.2)  # black's value: worse for white, who is to move
    tree.root.visits[5], tree.root.totals[5] = 1, 0.7 - 1.0
    tree.root.visits[6], tree.root.totals[6] = 1, 0.7 + 1.0
    assert tree.root.scores(1.0)[5] > tree.root.scores(1.0)[6]


def test_values_stay_between_minus_one_and_one() -> None:
    assert expanded(Position(3), Constant(-0.9)).root.totals[0] == -1.0


def test_illegal_moves_have_no_prior_and_are_never_tried() -> None:
    position = Position.of(".X. X.X .X.")
    position.to_play = 1
    tree = expanded(position, Constant())
    assert np.flatnonzero(tree.root.priors).tolist() == [9]  # every point is suicide or taken; a pass is left
    assert tree.root.priors[9] == pytest.approx(1.0)
    assert tree.root.best() == 9


def test_virtual_losses_spread_a_wave_and_leave_no_trace() -> None:
    constant = Constant(0.25)
    tree = expanded(Position(5), constant)
    leaves = tree.select(100, Cache(0))
    assert len(leaves) == 4
    assert len({leaf.slot for leaf in leaves}) == 4  # even priors: without the losses all would be one
    assert tree.root.stats[1][0] == pytest.approx(0.25 + 4)  # for black, who moves at the root, all four lose below
    priors, values = constant([leaf.position for leaf in leaves])
    tree.absorb(leaves, priors, values)
    assert tree.root.count == 5
    assert tree.root.stats[1][0] == pytest.approx(5 * 0.25)
    assert tree.root.visits.sum() == 4
    assert tree.root.totals[leaves[0].slot] == pytest.approx(0.05 + 0.25)


def test_a_leaf_selected_twice_counts_once() -> None:
    constant = Constant(0.5)
    tree = expanded(Position.of(".X. X.X .X.", to_play=1), constant)  # one move alone: a pass
    leaves = tree.select(100, Cache(0))
    assert len({id(leaf) for leaf in leaves}) == 1
    assert len(leaves) == 4
    tree.absorb(leaves, *constant([leaf.position for leaf in leaves]))
    assert tree.root.count == 2
    assert tree.root.stats[1][0] == pytest.approx(1.0)


def test_every_readout_is_backed_up_to_the_root() -> None:
    tree = Tree(Position(4))
    constant = Constant(0.125)
    search(tree, constant, 61, Cache(0))
    assert 61 <= tree.root.count < 61 + 4
    assert tree.root.visits.sum() == tree.root.count - 1
    assert tree.root.stats[1][0] == pytest.approx(tree.root.count * 0.125)
    assert constant.batches[0] == 1
    assert max(constant.batches) == 4
    total = tree.root.count
    search(tree, constant, 20, Cache(0))
    assert total + 20 <= tree.root.count < total + 24


def test_a_pass_that_wins_is_found_and_one_that_loses_is_not_played() -> None:
    won = Position.of("X.X .X. X.X").play(9).play(9)
    position = Position.of("X.X .X. X.X", to_play=1).play(9)  # white has passed; black owns all nine points
    assert won.over
    tree = Tree(position)
    search(tree, Constant(), 60, Cache(0))
    assert tree.most_visited() == 9
    assert tree.root.visits[9] > 40
    behind = Tree(Position.of("XX. XX. XX.").play(9))  # black has passed; white loses by passing too
    search(behind, Constant(), 60, Cache(0))
    assert behind.root.visits[9] < 10
    assert behind.root.totals[9] > 0  # black wins there


def test_noise_falls_on_legal_moves_alone() -> None:
    position = Position(3).play(4)
    tree = expanded(position, Constant(), SearchOptions(noise=1.0, noise_mix=0.25))
    before = tree.root.priors.copy()
    tree.add_noise(np.random.default_rng(0))
    added = (tree.root.priors - 0.75 * before) / 0.25
    assert added[4] == 0
    assert added.sum() == pytest.approx(1.0)
    assert (np.delete(added, 4) > 0).all()


def test_visits_that_regret_takes_back() -> None:
    """Ten visits for the best move, six for one as likely before that turned out worse: three would have done."""
    tree = expanded(Position(5), Constant())
    root = tree.root
    root.stats[0][0] = 17
    root.visits[:], root.totals[:], root.priors[:] = 0, 0, 0
    root.visits[[3, 7]], root.totals[[3, 7]], root.priors[[3, 7]] = (10, 6), (5.5, -2.8), (0.4, 0.4)
    rate = 2 * (math.log((18 + 19652) / 19652) + 1.25)
    best = 5.5 / 11 + rate * math.sqrt(18) * 0.4 / 11
    spared = math.floor(rate * 0.4 * math.sqrt(17) / (best - (-2.8 / 7)))
    assert spared == 3
    root.position.moves = 2  # no longer early
    policy = tree.policy(prune=True)
    assert policy[3] == pytest.approx(10 / (10 + spared))
    assert policy[7] == pytest.approx(spared / (10 + spared))
    assert tree.policy()[7] == pytest.approx(6 / 16)
    assert policy.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("size", "moves"), [(19, 30), (9, 6), (5, 2)])
def test_early_moves_are_drawn_and_never_pass(size: int, moves: int) -> None:
    position = Position(size)
    position.moves = moves - 1
    tree = expanded(position, Constant())
    tree.root.visits[[0, 1, -1]] = (1, 3, 100)
    rng = np.random.default_rng(0)
    drawn = [tree.pick(rng) for _ in range(400)]
    share = 3**0.98 / (1 + 3**0.98)
    assert drawn.count(1) / 400 == pytest.approx(share, abs=0.07)
    assert set(drawn) == {0, 1}
    assert tree.pick(None) == size * size
    position.moves = moves
    assert tree.pick(rng) == size * size


def test_playing_a_move_keeps_its_part_of_the_tree() -> None:
    tree = Tree(Position(4))
    search(tree, Constant(0.5), 80, Cache(0))
    move = tree.most_visited()
    kept, total = tree.root.visits[move], tree.root.totals[move]
    tree.play(move)
    assert tree.root.count == kept > 1
    assert tree.root.stats[1][0] == total
    assert tree.root.parent is None
    search(tree, Constant(0.5), 8, Cache(0))
    assert tree.root.count >= kept + 8
    tree.play(tree.most_visited(), forget=True)
    assert (tree.root.count, tree.root.expanded, len(tree.root.children)) == (0, False, 0)


def test_the_cache_saves_evaluations_and_forgets_the_oldest() -> None:
    cache, first, second = Cache(10_000), Constant(0.5), Constant(0.5)
    one, two = Tree(Position(4)), Tree(Position(4))
    search(one, first, 40, cache)
    search(two, second, 40, cache)
    assert sum(first.batches) >= 30
    assert sum(second.batches) <= 4
    assert np.array_equal(one.root.totals.nonzero(), two.root.totals.nonzero())
    small = Cache(2)
    positions = [Position(3).play(move) for move in range(3)]
    for position in positions[:2]:
        small.put(position, np.zeros(10), 0.5)
    assert small.get(positions[0]) is not None
    small.put(positions[2], np.zeros(10), 0.5)  # drops the one not asked for
    assert small.get(positions[1]) is None
    assert small.get(positions[0]) is not None
    assert (small.hits, small.misses) == (2, 1)


def test_the_cache_tells_apart_who_moves_and_what_is_legal() -> None:
    cache = Cache(10)
    cache.put(Position.of("X.. ... ..."), np.zeros(10), 0.5)
    assert cache.get(Position.of("X.. ... ...", to_play=1)) is None
    assert cache.get(Position.of("X.. ... ...").play(9).play(9)) is None  # a pass before
    assert cache.get(Position.of("X.. ... ...")) is not None


def test_search_beats_chance() -> None:
    """With the area on the board as value, 24 readouts on 5x5 win nearly every game, by either colour."""
    rng = np.random.default_rng(0)

    def chance(position: Position) -> int:
        return int(rng.choice([*position.board.list(position.legal()), 25]))

    player = searcher(area, 24, SearchOptions(), rng)
    assert match(player, chance, size=5, games=10) >= 0.9
