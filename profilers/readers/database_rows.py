"""Rows of SQLite tables in batches of columns, fail-soft.

A page that is damaged costs what stands behind it in its table; values of the wrong type cost their row, or only
themselves where the reader can do without.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import ReadError
from wcbench.profilers.readers.database import AGAIN, FAULTS, ROW_BYTES, Connection, TableError, columns, fault, quoted
from wcbench.profilers.readers.source import Lost

ABSENT = -1
"""In columns of whole numbers: null, or a value of another type."""

BATCH = 1 << 16
MAX_TEXT = 1 << 14
"""Characters of a text that are read; kernel names reach some 5,000."""
MAX_TEXTS = 1 << 28
"""Characters of all names that are kept at a time."""

_ASKED = 500  # ids a query: SQLite of before 3.32 takes 999 parameters

Batch = dict[str, Any]
"""Equally long columns by name: int64 arrays (ABSENT), float64 arrays (NaN) or lists of texts (None)."""


@dataclass(frozen=True)
class Field:
    """A column that is asked for. ``kind`` is int, real or text; a row without a ``needed`` one is skipped."""

    name: str
    kind: str = "int"
    needed: bool = True


def fields(needed: str, optional: str = "") -> tuple[Field, ...]:
    """Columns of whole numbers by their names, separated by blanks."""
    return (*map(Field, needed.split()), *(Field(name, needed=False) for name in optional.split()))


def rows(
    connection: Connection, table: str, asked: Sequence[Field], lose: Lost, *, size: int = BATCH
) -> Iterator[Batch]:
    """The rows of a table in batches of up to ``size``.

    Rows of which a needed column is null or of the wrong type are skipped, other values of the wrong type dropped;
    where the table is damaged, what stands before the damage is given. ``lose`` is told of each.

    Raises
    ------
    TableError : the table or a needed column is missing.
    ReadError : it holds more rows than the file has room for, or takes too long.
    """
    there = columns(connection, table)
    missing = [field.name for field in asked if field.needed and field.name not in there]
    if missing:
        raise TableError(f"{connection.label}: table {table} has no column {', '.join(missing)}.", AGAIN)
    kept = [field for field in asked if field.name in there]
    cursor = _Cursor(connection, f"SELECT {', '.join(map(_expression, kept))} FROM {quoted(table)} NOT INDEXED")
    given, room = 0, connection.size // ROW_BYTES
    while True:
        found, problem = cursor.fetch(size)
        given += len(found)
        if given > room:
            raise ReadError(f"{connection.label}: table {table} holds more rows than the file has room for.", AGAIN)
        if found:
            yield _batch(found, kept, asked, table, lose)
        if problem is not None:
            lose(f"the rest of table {table}", f"it is damaged: {problem}")
        if problem is not None or len(found) < size:
            return


class _Cursor:
    """A query whose rows are given up to where the file is damaged."""

    def __init__(self, connection: Connection, query: str, values: Sequence[int] = ()) -> None:
        self._connection, self._query, self._values = connection, query, values
        self._cursor: sqlite3.Cursor | None = None

    def fetch(self, size: int) -> tuple[list[tuple[Any, ...]], str | None]:
        """Up to ``size`` rows, and what is wrong with the file behind them."""
        found: list[tuple[Any, ...]] = []
        with self._connection.working():
            try:
                if self._cursor is None:
                    self._cursor = self._connection.execute(self._query, self._values)
                found.extend(islice(self._cursor, size))  # keeps what came before an error, unlike fetchmany
            except FAULTS as error:
                return found, fault(error)
        return found, None


_STORED = {"int": "'integer'", "real": "'real', 'integer'", "text": "'text'"}
_WRONG = {"int": "''", "real": "''", "text": "0"}  # what stands for a value of the wrong type: itself of another type


def _expression(field: Field) -> str:
    """SQL for a column that gives its value, null, or a mark of the wrong type, whose value is not even loaded."""
    name = quoted(field.name)
    value = f"substr({name}, 1, {MAX_TEXT})" if field.kind == "text" else name
    wrong = _WRONG[field.kind]
    stored = f"typeof({name}) IN ({_STORED[field.kind]})"
    return f"CASE WHEN {stored} THEN {value} WHEN {name} IS NULL THEN NULL ELSE {wrong} END"


def _batch(
    found: list[tuple[Any, ...]], kept: Sequence[Field], asked: Sequence[Field], table: str, lose: Lost
) -> Batch:
    keep: NDArray[np.bool_] = np.ones(len(found), np.bool_)
    made: Batch = {}
    spoiled = 0
    for field, values in zip(kept, zip(*found, strict=True), strict=True):
        made[field.name], absent, wrong = _convert(field.kind, values)
        if field.needed:
            keep &= ~(absent | wrong)
        else:
            spoiled += int(wrong.sum())
    if spoiled:
        lose(f"a value of table {table}", "it is of the wrong type", count=spoiled, repaired=True)
    if not keep.all():
        lose(f"a row of table {table}", "a value is missing or of the wrong type", count=int((~keep).sum()))
    for field in asked:
        if field.name not in made:
            made[field.name] = _convert(field.kind, [None] * len(found))[0]
    return made if keep.all() else {name: select(values, keep) for name, values in made.items()}


def _convert(kind: str, values: Sequence[Any]) -> tuple[Any, NDArray[np.bool_], NDArray[np.bool_]]:
    """A column, where it is null, and where it is of the wrong type."""
    types = set(map(type, values))
    right = (str,) if kind == "text" else (int,) if kind == "int" else (int, float)
    good = types <= set(right)
    absent = np.zeros(len(values), np.bool_) if good else np.array([v is None for v in values], np.bool_)
    wrong = np.zeros(len(values), np.bool_)
    if not good:
        wrong = np.array([v is not None and type(v) not in right for v in values], np.bool_)
        empty = {"text": None, "int": ABSENT, "real": float("nan")}[kind]
        values = [value if type(value) in right else empty for value in values]
    if kind == "text":
        return list(values), absent, wrong
    return np.array(values, np.int64 if kind == "int" else np.float64), absent, wrong


def select(values: Any, keep: NDArray[np.bool_]) -> Any:
    """The entries of a column of a batch that are to be kept."""
    return values[keep] if isinstance(values, np.ndarray) else [v for v, k in zip(values, keep, strict=True) if k]


def lookup(
    connection: Connection, table: str, asked: Sequence[Field], ids: Iterable[int], lose: Lost
) -> dict[int, tuple[Any, ...]]:
    """Rows of a table by its column `id`; those that are not there are left out.

    None stands for null and for values of the wrong type. The columns must exist (see `columns`).
    """
    found: dict[int, tuple[Any, ...]] = {}
    query = f"SELECT id, {', '.join(map(_expression, asked))} FROM {quoted(table)} NOT INDEXED WHERE id IN "
    wanted = iter(ids)
    while part := list(islice(wanted, _ASKED)):
        got, problem = _Cursor(connection, f"{query}({', '.join('?' * len(part))})", part).fetch(2 * _ASKED)
        if problem is not None:
            lose(f"entries of table {table}", f"it is damaged: {problem}")
        for number, *values in got:
            found[number] = tuple(v if _fits(f.kind, v) else None for f, v in zip(asked, values, strict=True))
    return found


def _fits(kind: str, value: Any) -> bool:
    return isinstance(value, str) if kind == "text" else isinstance(value, int if kind == "int" else int | float)


class Texts:
    """Texts of a table by id, looked up when first asked for: such tables can be larger than memory."""

    def __init__(self, connection: Connection, table: str, column: str, lose: Lost) -> None:
        if not {"id", column} <= columns(connection, table):
            raise TableError(f"{connection.label}: table {table} has no columns id and {column}.", AGAIN)
        self._connection, self._table, self._lose = connection, table, lose
        self._field = (Field(column, "text"),)
        self._known: dict[int, str | None] = {}
        self._characters = 0

    def of(self, ids: Iterable[int]) -> Mapping[int, str | None]:
        """The text of each id, None where it points nowhere (negative ids stand for no id)."""
        asked = {int(number) for number in ids}
        missing = [number for number in asked if number not in self._known]
        if self._characters > MAX_TEXTS:
            raise ReadError(f"{self._connection.label} holds too many names to be kept.", "Export fewer steps.")
        there = (number for number in missing if number >= 0)
        found = lookup(self._connection, self._table, self._field, there, self._lose)
        for number in missing:
            text = found.get(number, (None,))[0]
            self._known[number] = text
            self._characters += len(text) + 50 if text else 50
        return {number: self._known[number] for number in asked}
