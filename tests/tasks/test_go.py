"""Go: known positions, and random games against rules written out point by point."""

from __future__ import annotations

import random

import numpy as np
import pytest

from wcbench.tasks.games.go import BLACK, WHITE, Board, IllegalMoveError, Position, features


def show(position: Position) -> str:
    """Rows of X, O and dots."""
    points = [
        "X" if position.stones[BLACK] >> p & 1 else "O" if position.stones[WHITE] >> p & 1 else "."
        for p in range(position.board.points)
    ]
    size = position.board.size
    return " ".join("".join(points[row * size : (row + 1) * size]) for row in range(size))


def at(position: Position, row: int, column: int) -> int:
    return row * position.board.size + column


def play(position: Position, *moves: tuple[int, int] | None) -> Position:
    """Moves by row and column; None passes."""
    for move in moves:
        position = position.play(position.board.points if move is None else at(position, *move))
    return position


def test_one_stone_is_captured() -> None:
    position = play(Position.of(".X... XO... .X... ..... ....."), (1, 2))
    assert show(position) == ".X... X.X.. .X... ..... ....."
    assert position.taken == 1


def test_a_chain_and_two_chains_at_once_are_captured() -> None:
    position = play(Position.of("OOX.. OX... .X... ..... ....."), (2, 0))
    assert show(position) == "..X.. .X... XX... ..... ....."
    both = play(Position.of(".X.X. XO.OX .X.X. ..... ....."), (1, 2))
    assert show(both) == ".X.X. X.X.X .X.X. ..... ....."
    assert (position.taken, both.taken) == (3, 2)


def test_liberties_come_back_where_stones_are_taken() -> None:
    """White's stone at (0, 1) was the last liberty but one of the corner; taken, it is a liberty of all around it."""
    position = play(Position.of("XO... .X... ..... ..... ....."), (0, 2))
    assert show(position) == "X.X.. .X... ..... ..... ....."
    liberties = {stones.bit_length() - 1: position.board.list(free) for stones, free, _ in position.chains[BLACK]}
    assert liberties == {0: [1, 5], 2: [1, 3, 7], 6: [1, 5, 7, 11]}


def test_ko_may_be_retaken_only_after_a_move_elsewhere() -> None:
    position = play(Position.of(".XO.. XO.O. .XO.. ..... ....."), (1, 2))  # takes at (1, 1)
    assert show(position) == ".XO.. X.XO. .XO.. ..... ....."
    assert not position.is_legal(at(position, 1, 1))
    with pytest.raises(IllegalMoveError, match="Move 6 is refused after 1 moves"):
        play(position, (1, 1))
    assert position.takes().keys() == {1 << 6}
    assert not features([position])[0, 12].any()  # it would take a stone, if it were legal
    later = play(position, (4, 4), (4, 0))
    assert later.is_legal(at(position, 1, 1))
    assert np.flatnonzero(features([later])[0, 12]).tolist() == [6]
    assert show(play(later, (1, 1))) == ".XO.. XO.O. .XO.. ..... X...O"


def test_superko_counts_passes_out_and_the_mover_too() -> None:
    """After two passes simple ko would let white retake; positional superko does not."""
    position = play(Position.of(".XO.. XO.O. .XO.. ..... ....."), (1, 2), None, None)
    assert position.to_play == WHITE
    assert not position.is_legal(at(position, 1, 1))


def test_snapback() -> None:
    """White takes the stone thrown in, and black takes five by playing there again: nothing is repeated."""
    position = play(Position.of("XO..X XOOOX XXXXX ..... ....."), (0, 2), (0, 3))
    assert show(position) == "XO.OX XOOOX XXXXX ..... ....."
    position = play(position, (0, 2))
    assert show(position) == "X.X.X X...X XXXXX ..... ....."
    assert position.taken == 6


def test_suicide_is_refused_unless_it_takes() -> None:
    position = Position.of(".X... X.... ..... ..... .....", to_play=WHITE)
    assert not position.is_legal(0)
    chain = Position.of(".OX.. OXX.. X.... ..... .....", to_play=WHITE)
    assert not chain.is_legal(0)  # joins both stones, and no liberty is left
    assert play(Position.of(".OX.. OXX.. X.... ..... ....."), (0, 0)).taken == 2  # the same point for black
    assert not position.is_legal(1)  # occupied
    assert position.is_legal(25)  # a pass


def test_two_passes_in_a_row_end_the_game() -> None:
    position = play(Position(5), None)
    assert not position.over
    assert not play(position, (0, 0), None).over
    assert play(position, None).over


def test_a_game_ends_after_two_moves_a_point() -> None:
    position = Position(3)
    position.moves = 17
    assert not position.over
    assert play(position, (0, 0)).over


def test_area_with_dame_and_eyes() -> None:
    """Black: 11 stones and an eye. White: 8 stones and two points. Three points between them are nobody's."""
    position = Position.of("XX.O. .X.OO XX.O. XXXOO XXXOO")
    assert position.score() == (11 + 1) - (8 + 2)
    assert position.winner() == -1  # white has 7.5 more
    assert Position.of("XXXXX XXXXX XXXXX ..... .....").score() == 25
    assert Position.of("XXXXX XXXXX XXXXX ..... .....").winner() == 1
    assert Position.of("X.... ..... ..... ..... ....O").score() == 0
    assert Position(5).score() == 0


class Plain:
    """The rules on a dictionary of stones, point by point, with every earlier arrangement kept."""

    def __init__(self, size: int) -> None:
        self.size, self.stones, self.to_play = size, dict[tuple[int, int], int](), BLACK
        self.seen = {self.arrangement(self.stones)}

    def arrangement(self, stones: dict[tuple[int, int], int]) -> frozenset[tuple[tuple[int, int], int]]:
        return frozenset(stones.items())

    def beside(self, point: tuple[int, int]) -> list[tuple[int, int]]:
        row, column = point
        near = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        return [(r, c) for r, c in near if 0 <= r < self.size and 0 <= c < self.size]

    def chain(self, stones: dict[tuple[int, int], int], point: tuple[int, int]) -> tuple[set[tuple[int, int]], int]:
        """The stones connected to a point, and the number of their liberties."""
        chain, liberties, todo = {point}, set(), [point]
        while todo:
            for other in self.beside(todo.pop()):
                if other not in stones:
                    liberties.add(other)
                elif stones[other] == stones[point] and other not in chain:
                    chain.add(other)
                    todo.append(other)
        return chain, len(liberties)

    def after(self, point: tuple[int, int], repeat: bool = False) -> dict[tuple[int, int], int] | None:
        """The stones after a move, None where it is illegal; ``repeat`` lets it bring back an arrangement."""
        if point in self.stones:
            return None
        stones = self.stones | {point: self.to_play}
        for other in self.beside(point):
            if stones.get(other) == 1 - self.to_play:
                chain, liberties = self.chain(stones, other)
                if liberties == 0:
                    stones = {p: colour for p, colour in stones.items() if p not in chain}
        if self.chain(stones, point)[1] == 0:
            return None
        return stones if repeat or self.arrangement(stones) not in self.seen else None

    def play(self, point: tuple[int, int] | None) -> None:
        if point is not None:
            after = self.after(point)
            assert after is not None
            self.stones = after
        self.seen.add(self.arrangement(self.stones))
        self.to_play = 1 - self.to_play


@pytest.mark.parametrize(("size", "moves", "seeds"), [(2, 30, 30), (3, 60, 20), (4, 90, 8), (7, 150, 1)])
def test_random_games_against_rules_written_out(size: int, moves: int, seeds: int) -> None:
    """Small boards fill and empty many times, and repetitions are common."""
    repetitions = 0
    for seed in range(seeds):
        rng = random.Random(seed)
        position, plain = Position(size), Plain(size)
        for _ in range(moves):
            points = [(row, column) for row in range(size) for column in range(size)]
            legal = [point for point in points if plain.after(point) is not None]
            assert position.board.list(position.legal()) == [row * size + column for row, column in legal]
            counts = np.array([plain.chain(plain.stones, p)[1] if p in plain.stones else 0 for p in points])
            planes = features([position])[0]
            assert np.array_equal(planes[9:12], [counts == 1, counts == 2, counts >= 3])
            mine = np.array([plain.stones.get(p) == plain.to_play for p in points])
            assert np.array_equal(planes[0], mine)
            assert Position.of(show(position)).key == position.key
            repetitions += sum(plain.after(point, repeat=True) is not None for point in points) - len(legal)
            move = rng.choice([*legal, None]) if rng.random() < 0.1 or not legal else rng.choice(legal)
            position = play(position, move)
            plain.play(move)
    assert repetitions > 10 or size == 7


def test_planes_by_hand() -> None:
    """Black has played (0, 0) and (0, 1), white (1, 1) and (1, 0); black is to move."""
    position = play(Position(3), (0, 0), (1, 1), (0, 1), (1, 0))
    planes = features([position])[0].reshape(13, 3, 3)
    stones = {name: np.zeros((3, 3), np.uint8) for name in ("black", "white", "black before", "white before")}
    stones["black"][0, :2] = 1
    stones["white"][1, :2] = 1
    stones["white before"][1, 1] = 1
    assert np.array_equal(planes[0], stones["black"])
    assert np.array_equal(planes[1], stones["white"])
    assert np.array_equal(planes[2], stones["black"])  # before white's last move
    assert np.array_equal(planes[3], stones["white before"])
    assert planes[4].sum() == planes[5].sum() == 1  # two moves before
    assert planes[6].sum() == 1
    assert planes[7].sum() == 0  # three moves before: one black stone
    assert planes[8].all()  # black is to move
    assert np.array_equal(planes[9], stones["black"])  # one liberty, (0, 2)
    assert planes[10].sum() == 0
    assert np.array_equal(planes[11], stones["white"])  # (2, 0), (2, 1), (1, 2)
    assert planes[12].sum() == 0
    turned = features([play(position, None)])[0].reshape(13, 3, 3)
    assert np.array_equal(turned[0], stones["white"])
    assert not turned[8].any()
    assert turned[12].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]  # white takes there


def test_the_first_positions_have_no_past() -> None:
    planes = features([Position(5), play(Position(5), (2, 2))])
    assert planes[0][:8].sum() == 0
    assert [int(plane.sum()) for plane in planes[1][:8]] == [0, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("size", [3, 4, 19])
def test_the_eight_symmetries(size: int) -> None:
    board = Board(size)
    assert len({tuple(row) for row in board.symmetries.tolist()}) == 8
    assert (board.symmetries[0] == np.arange(board.points + 1)).all()
    assert (board.symmetries[:, -1] == board.points).all()
    for turn, back in zip(board.symmetries, board.inverses, strict=True):
        assert (turn[back] == np.arange(board.points + 1)).all()
        rows, columns = np.divmod(turn[:-1].reshape(size, size), size)
        assert (abs(np.diff(rows, axis=0)) + abs(np.diff(columns, axis=0)) == 1).all()  # neighbours stay neighbours
        assert (abs(np.diff(rows, axis=1)) + abs(np.diff(columns, axis=1)) == 1).all()


def test_a_turned_game_looks_turned() -> None:
    rng = random.Random(1)
    for number in range(8):
        position = turned = Position(5)
        turn, back = position.board.symmetries[number], position.board.inverses[number]
        for _ in range(25):
            move = rng.choice([*position.board.list(position.legal()), 25])
            position, turned = position.play(move), turned.play(int(back[move]))
        assert np.array_equal(features([position])[0][:, turn[:-1]], features([turned])[0])
        assert position.score() == turned.score()
