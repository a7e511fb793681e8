"""The rules of Go on a square board of any size, as MiniGo plays them, and what its network sees of a position.

A set of points is a Python integer: point row * size + column is its bit of that number. Questions about the whole
board (liberties, legal moves, area) then take a few shifts and masks, and a position is cheap to copy.

The rules are those of tensorflow/minigo's cc/position.cc: suicide is refused; a move may not bring back any earlier
arrangement of stones, whoever is to move (positional superko, of which simple ko is a case; arrangements are told
apart by Zobrist hashes of 64 bits, as there); passing is always legal; two passes end the game; the area counts
(Tromp-Taylor), komi is 7.5. A game also ends after 2 moves a point (722 on 19x19). MiniGo's rule that unconditionally
alive regions count as their owner's, dead stones in them included, is left out: dead stones have to be captured.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BLACK, WHITE = 0, 1
KOMI = 7.5
HISTORY = 4  # positions of which the network sees the stones
PLANES = 2 * HISTORY + 1 + 3 + 1
FOLD = 8  # so many of the latest arrangements lie outside the set that positions share

Array = np.ndarray[Any, Any]
Chain = tuple[int, int, int]  # connected stones of one colour, their liberties, and what they add to the hash


class IllegalMoveError(ValueError):
    """A move that the rules refuse."""


@functools.cache  # one of each size
class Board:
    """The geometry of a size."""

    def __init__(self, size: int) -> None:
        self.size, self.points = size, size * size
        self.full = (1 << self.points) - 1
        first_column = sum(1 << row * size for row in range(size))
        self._not_first = self.full ^ first_column
        self._not_last = self.full ^ first_column << size - 1
        self.neighbours = [self.spread(1 << point) for point in range(self.points)]
        rng = random.Random(size)
        self.marks = [[rng.getrandbits(64) for _ in range(self.points)] for _ in (BLACK, WHITE)]  # Zobrist's
        grid = np.arange(self.points).reshape(size, size)
        views = [np.rot90(flipped, quarter).ravel() for flipped in (grid, grid.T) for quarter in range(4)]
        passing = np.full((8, 1), self.points)
        self.symmetries = np.concatenate((np.stack(views), passing), 1)  # (8, points + 1): new[i] = old[row[i]]
        self.inverses = self.symmetries.argsort(axis=1)

    def spread(self, bits: int) -> int:
        """All points beside the given ones."""
        sideways = (bits << 1) & self._not_first | (bits >> 1) & self._not_last
        return sideways | (bits << self.size) & self.full | bits >> self.size

    def reach(self, start: int, through: int) -> int:
        """The start and all points connected to it by points that it may go through."""
        reached, grown = 0, start
        while grown != reached:
            reached = grown
            grown |= self.spread(reached) & through
        return reached

    def list(self, bits: int) -> list[int]:
        """The points of a set, in order."""
        found: list[int] = np.flatnonzero(unpack([bits], self.points)).tolist()
        return found


def unpack(sets: Sequence[int], points: int) -> Array:
    """Sets of points as an array (n, points), uint8."""
    width = (points + 7) // 8
    packed = np.frombuffer(b"".join(bits.to_bytes(width, "little") for bits in sets), np.uint8)
    return np.unpackbits(packed.reshape(len(sets), width), axis=1, count=points, bitorder="little")


class Position:
    """A position, with what led to it as far as rules and network ask; never changed: `play` makes the next."""

    __slots__ = (
        "_legal",
        "board",
        "chains",
        "earlier",
        "key",
        "moves",
        "passes",
        "stones",
        "taken",
        "to_play",
        "trail",
    )

    def __init__(self, size: int) -> None:
        self.board = Board(size)
        self.chains: tuple[list[Chain], list[Chain]] = ([], [])  # black's, white's
        self.stones: tuple[int, int] = (0, 0)  # black's, white's
        self.key = 0  # the arrangement's hash
        self.to_play = BLACK
        self.moves = self.passes = self.taken = 0  # moves so far, passes in a row, stones captured so far
        self.trail: tuple[tuple[int, int], ...] = ()  # the stones of the positions before, the latest first
        self.earlier: tuple[frozenset[int], tuple[int, ...]] = (frozenset(), ())  # keys of all positions before
        self._legal: int | None = None

    @staticmethod
    def of(text: str, to_play: int = BLACK) -> Position:
        """A position from rows of X (black), O (white) and dots, without a past."""
        rows = text.split()
        position = Position(len(rows))
        field = position.board
        black, white = (sum(1 << i for i, mark in enumerate("".join(rows)) if mark == colour) for colour in "XO")
        position.stones, position.to_play = (black, white), to_play
        for colour in (BLACK, WHITE):
            left = position.stones[colour]
            while left:
                stones = field.reach(left & -left, left)
                mark = functools.reduce(operator.xor, (field.marks[colour][point] for point in field.list(stones)))
                position.chains[colour].append((stones, field.spread(stones) & ~(black | white), mark))
                position.key ^= mark
                left ^= stones
        return position

    @property
    def over(self) -> bool:
        return self.passes >= 2 or self.moves >= 2 * self.board.points

    def legal(self) -> int:
        """The points that may be played; passing, move number ``board.points``, is legal besides."""
        if self._legal is None:
            empty = self.board.full ^ self.stones[BLACK] ^ self.stones[WHITE]
            free = self.board.spread(empty)  # beside an empty point: a liberty is left
            for _, liberties, _ in self.chains[self.to_play]:
                if liberties & (liberties - 1):  # joins a chain that has another liberty
                    free |= liberties
            takes = self.takes()
            legal = empty & (free | sum(takes))
            self._legal = legal & ~self._repeats(legal, takes) if self.taken else legal
        return self._legal

    def is_legal(self, move: int) -> bool:
        return move == self.board.points or (0 <= move < self.board.points and bool(self.legal() >> move & 1))

    def takes(self) -> dict[int, int]:
        """Where the player to move takes stones: what they add to the hash, by the point's bit."""
        found: dict[int, int] = {}
        for _, liberties, mark in self.chains[1 - self.to_play]:
            if not liberties & (liberties - 1):
                found[liberties] = found.get(liberties, 0) ^ mark
        return found

    def _repeats(self, moves: int, takes: Mapping[int, int]) -> int:
        """Those of the moves that would bring back an earlier arrangement."""
        older, latest = self.earlier[0], set(self.earlier[1])
        key, marks = self.key, self.board.marks[self.to_play]
        repeats = 0
        for point in self.board.list(moves & ~sum(takes)):
            after = key ^ marks[point]
            if after in older or after in latest:
                repeats |= 1 << point
        for bit, taken in takes.items():
            after = key ^ marks[bit.bit_length() - 1] ^ taken
            if after in older or after in latest:
                repeats |= bit
        return repeats

    def play(self, move: int) -> Position:
        """The position after a move; raises IllegalMoveError where the rules refuse it."""
        if not self.is_legal(move):
            raise IllegalMoveError(f"Move {move} is refused after {self.moves} moves: taken, suicide or a repetition.")
        new = Position.__new__(Position)
        new.board, new.to_play, new.moves, new.taken = self.board, 1 - self.to_play, self.moves + 1, self.taken
        new.trail = (self.stones, *self.trail[: HISTORY - 2])
        new._legal = None
        older, latest = self.earlier[0], (*self.earlier[1], self.key)
        new.earlier = (older.union(latest), ()) if len(latest) == FOLD else (older, latest)
        new.chains, new.stones, new.key, new.passes = self.chains, self.stones, self.key, self.passes + 1
        if move < self.board.points:
            new.passes = 0
            self._place(new, move)
        return new

    def _place(self, new: Position, move: int) -> None:
        me, bit = self.to_play, 1 << move
        stones, liberties = bit, self.board.neighbours[move] & ~(self.stones[BLACK] | self.stones[WHITE])
        mark = self.board.marks[me][move]
        new.key ^= mark
        mine: list[Chain] = []
        for chain in self.chains[me]:
            if chain[1] & bit:  # joins the stone played
                stones |= chain[0]
                liberties |= chain[1]
                mark ^= chain[2]
            else:
                mine.append(chain)
        mine.append((stones, liberties & ~bit, mark))
        theirs: list[Chain] = []
        captured = 0
        for chain in self.chains[1 - me]:
            if chain[1] == bit:
                captured |= chain[0]
                new.key ^= chain[2]
            else:
                theirs.append((chain[0], chain[1] & ~bit, chain[2]) if chain[1] & bit else chain)
        if captured:
            mine = [(own, free | self.board.spread(own) & captured, mark) for own, free, mark in mine]
            new.taken += captured.bit_count()
        own, other = self.stones[me] | bit, self.stones[1 - me] & ~captured
        new.stones = (own, other) if me == BLACK else (other, own)
        new.chains = (mine, theirs) if me == BLACK else (theirs, mine)

    def score(self) -> int:
        """Black's area less white's: stones, and empty points that reach stones of one colour alone."""
        black, white = self.stones
        empty = self.board.full ^ black ^ white
        to_black, to_white = self.board.reach(black, empty), self.board.reach(white, empty)
        return (to_black & ~to_white).bit_count() - (to_white & ~to_black).bit_count()

    def winner(self) -> int:
        """1 where black wins by area, else -1; komi leaves no draw."""
        return 1 if self.score() > KOMI else -1

    def planes(self) -> list[int]:
        """What the network sees, as sets of points: the 13 planes that MLPerf names "mlperf07".

        The stones of the player to move and of the other, now and at the three positions before; everywhere where
        black is to move; chains with one, two, and three or more liberties; legal moves that take stones.
        """
        me = self.to_play
        seen = [stones[colour] for stones in (self.stones, *self.trail) for colour in (me, 1 - me)]
        seen += [0] * (2 * HISTORY - len(seen))
        counted = [0, 0, 0]
        for stones, liberties, _ in (*self.chains[BLACK], *self.chains[WHITE]):
            counted[min(liberties.bit_count(), 3) - 1] |= stones
        return [*seen, self.board.full if me == BLACK else 0, *counted, sum(self.takes()) & self.legal()]


def features(positions: Sequence[Position]) -> Array:
    """The planes of positions of one size: (n, 13, points), uint8."""
    points = positions[0].board.points
    sets = [bits for position in positions for bits in position.planes()]
    return unpack(sets, points).reshape(len(positions), PLANES, points)
