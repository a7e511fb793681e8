"""Self-play: readouts of full and fast moves, resignation, the window, matches; and the stand-in player."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from wcbench.tasks.games.go import BLACK, Array, Position, features
from wcbench.tasks.games.mcts import Cache, SearchOptions
from wcbench.tasks.games.selfplay import (
    Example,
    Game,
    PlayOptions,
    SelfPlay,
    Window,
    arrays,
    casual_game,
    casual_policy,
    match,
    passes_gate,
    searcher,
)


def even(positions: Sequence[Position], value: float = 0.0) -> tuple[Array, Array]:
    moves = positions[0].board.points + 1
    return np.full((len(positions), moves), 1 / moves), np.full(len(positions), value, np.float32)


def lost(positions: Sequence[Position]) -> tuple[Array, Array]:
    """Black has lost, as the network sees it."""
    return even(positions, -1.0)


def finish_move(game: Game) -> bool:
    """Search until a move is played or the game ends; whether it ended."""
    moves = game.tree.root.position.moves
    while True:
        leaves = game.select(Cache(0))
        if leaves:
            game.tree.absorb(leaves, *even([leaf.position for leaf in leaves]))
        if game.advance():
            return True
        if game.tree.root.position.moves > moves:
            return False


def test_full_moves_are_searched_anew_and_fast_ones_on_top() -> None:
    options = PlayOptions(readouts=24, fast_readouts=6, fast_share=0.75)
    game = Game(Position(5), options, np.random.default_rng(3))
    fast = []
    for number in range(40):
        before = game.tree.root.count
        assert game.target == (0 if not game.fast else before) + (6 if game.fast else 24)
        assert game.fast or not game.tree.root.expanded  # a full search starts on an empty tree
        fast.append(game.fast)
        assert not fast[0]
        if finish_move(game):
            break
        assert game.tree.root.position.moves == number + 1
    assert 0.5 < sum(fast) / len(fast) < 0.95
    examples = game.examples()
    assert len(examples) == fast.count(False)
    assert all(example.policy.sum() == pytest.approx(1.0) for example in examples)
    numbers = [example.position.moves for example in examples]
    assert numbers == [number for number, was_fast in enumerate(fast) if not was_fast]


@pytest.mark.parametrize(("fast_share", "noisy"), [(0.0, True), (0.999, False)])
def test_noise_comes_with_full_moves_alone(fast_share: float, noisy: bool) -> None:
    options = PlayOptions(8, 8, fast_share, search=SearchOptions(noise=1.0))
    game = Game(Position(4), options, np.random.default_rng(0))
    finish_move(game)  # the first is always full
    root = game.tree.root
    assert root.expanded
    assert game.fast != noisy
    before = root.priors.copy()
    game.select(Cache(0))
    assert (not np.array_equal(root.priors, before)) == noisy
    after = root.priors.copy()
    game.select(Cache(0))
    assert np.array_equal(root.priors, after)  # once a move


def test_a_lost_game_is_resigned() -> None:
    """All values are -1 for black: W / (1 + N) is -8 / 9 after 8 visits, -38 / 39 after 38."""
    for readouts, resigned in ((8, False), (38, True)):
        options = PlayOptions(readouts=readouts, resign=(-0.95, -0.95), fast_share=0.0)
        game = Game(Position(5), options, np.random.default_rng(0))
        over = False
        while game.tree.root.position.moves == 0 and not over:
            leaves = game.select(Cache(0))
            game.tree.absorb(leaves, *lost([leaf.position for leaf in leaves]))
            over = game.advance()
        assert over == resigned
        assert game.outcome == (-1 if resigned else 0)


def selfplay(seed: int = 0, games: int = 3) -> SelfPlay:
    options = PlayOptions(readouts=8, fast_readouts=4)
    return SelfPlay([Position(3)] * games, options, seed, cache=10_000)


def test_waves_batch_all_games_and_end_them() -> None:
    play, sizes, examples = selfplay(), list[int](), list[Example]()
    for _ in range(200):
        values, ended = play.wave(even)
        sizes.append(len(values))
        examples += ended
    assert sizes[0] == 3  # the roots
    assert sizes[1] > 3
    assert max(sizes) <= 3 * 4
    assert {example.outcome for example in examples} <= {-1, 1}
    assert len(examples) > 10
    assert any(example.position.moves == 0 for example in examples)  # games began anew
    assert len(play.games) == 3
    assert play.cache.hits > 0


def test_equal_seeds_play_equal_games() -> None:
    def positions(seed: int) -> list[int]:
        play = selfplay(seed)
        for _ in range(60):
            play.wave(even)
        return [game.tree.root.position.key for game in play.games]

    assert positions(1) == positions(1)
    assert positions(1) != positions(2)
    assert len(set(positions(1))) > 1  # the games of one seed differ too


def test_the_window_holds_five_generations_and_gives_three_tenths() -> None:
    window = Window()
    for generation in range(7):
        window.add([Example(Position(3), np.full(10, generation, np.float32), 1)] * 400)
    drawn = window.draw(np.random.default_rng(0))
    numbers = [int(example.policy[0]) for example in drawn]
    assert set(numbers) == {2, 3, 4, 5, 6}
    assert len(drawn) == pytest.approx(0.3 * 2000, abs=80)
    assert numbers != sorted(numbers)


def test_examples_and_policies_are_turned_alike() -> None:
    """The stand-in player takes stones where it can: its moves are then the plane of captures, in every symmetry."""
    examples = [example for example in casual_game(5, np.random.default_rng(0)) if example.position.takes()]
    examples = [example for example in examples if features([example.position])[0, 12].any()]
    assert len(examples) > 8
    for symmetry in range(8):
        planes, policies, outcomes = arrays(examples, np.full(len(examples), symmetry))
        assert planes.shape == (len(examples), 13, 5, 5)
        assert np.array_equal(planes[:, 12].reshape(-1, 25) > 0, policies[:, :-1] > 0)
        assert outcomes.tolist() == [example.outcome for example in examples]
    rows = np.arange(len(examples)) % 8
    mixed, _, _ = arrays(examples, rows)
    alone, _, _ = arrays(examples[3:4], rows[3:4])
    assert np.array_equal(mixed[3], alone[0])


def test_the_stand_in_player() -> None:
    eye = Position.of(".XO.. XXO.. OOO.. ..... .....")
    assert casual_policy(eye)[0] == 0  # its own eye stays
    assert casual_policy(eye).sum() == pytest.approx(1.0)
    assert casual_policy(eye)[25] == 0
    takes = casual_policy(Position.of("OX... ..... ..... ..... ....."))
    assert takes.tolist() == [0, 0, 0, 0, 0, 1] + [0] * 20
    full = casual_policy(Position.of(".X.X. XXXXX XXXXX XXXXX XXXX."))
    assert full[25] == 1.0  # nothing but eyes is left
    examples = casual_game(9, np.random.default_rng(1))
    assert all(example.policy[:-1].any() or example.position.moves > 60 for example in examples)
    assert len({example.outcome for example in examples}) == 1


def test_a_match_changes_sides() -> None:
    """Who passes loses to komi as black; a player who takes the board wins as white too."""
    starts: list[int] = []

    def passing(position: Position) -> int:
        return position.board.points

    def filling(position: Position) -> int:
        if position.moves < 2:
            starts.append(position.to_play)
        return int(casual_policy(position).argmax())

    assert match(filling, passing, size=3, games=4) == 1.0
    assert starts.count(BLACK) == 2
    assert passes_gate(filling, passing, size=3, games=4)
    assert not passes_gate(passing, filling, size=3, games=4)
    assert match(passing, passing, size=3, games=4) == 0.5  # white wins each


def test_a_searcher_needs_no_luck() -> None:
    player = searcher(even, 12, SearchOptions(), None)
    position = Position(4).play(5)
    assert player(position) == player(position)
    assert position.is_legal(player(position))
