"""SQLite files of strangers: what is refused, what is read in spite of damage, and in which time."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.errors import ReadError, WcbenchError
from wcbench.profilers.readers import database
from wcbench.profilers.readers.database import TableError, columns, count, opened, table_names, tables
from wcbench.profilers.readers.database_rows import ABSENT, Field, Texts, fields, lookup, rows


class Losses:
    """Collects what is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, int, bool]] = []

    def __call__(
        self, what: str, why: str, *, count: int = 1, offset: int | None = None, repaired: bool = False
    ) -> None:
        self.told.append((what, why, count, repaired))


def write(path: Path, script: str, *many: tuple[str, list[tuple[Any, ...]]]) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for statement, values in many:
            connection.executemany(statement, values)
        connection.commit()
    return path


def numbers(path: Path, total: int, script: str = "CREATE TABLE t (a INTEGER, b INTEGER)") -> Path:
    return write(path, script, ("INSERT INTO t (a, b) VALUES (?, ?)", [(i, 2 * i) for i in range(total)]))


def read(path: Path, asked: Any = None, size: int = 1000) -> tuple[list[Any], Losses]:
    lost = Losses()
    with opened(path, "x.sqlite") as connection:
        return list(rows(connection, "t", asked or fields("a b"), lost, size=size)), lost


def test_rows_come_in_batches_of_columns(tmp_path: Path) -> None:
    batches, lost = read(numbers(tmp_path / "f", 2500))
    assert [len(batch["a"]) for batch in batches] == [1000, 1000, 500]
    whole = np.concatenate([batch["b"] for batch in batches])
    assert whole.dtype == np.int64
    assert whole.tolist() == [2 * i for i in range(2500)]
    assert not lost.told


def test_a_whole_number_of_batches_and_an_empty_table(tmp_path: Path) -> None:
    assert [len(b["a"]) for b in read(numbers(tmp_path / "f", 2000))[0]] == [1000, 1000]
    assert read(numbers(tmp_path / "g", 0))[0] == []


def test_values_of_wrong_types_cost_their_row_or_themselves(tmp_path: Path) -> None:
    values = [
        (1, "x", 0.5),
        ("text", "y", 0.5),
        (None, "z", 1),
        (2.5, "w", 1),
        (b"\x01", "v", 1),
        (5, b"blob", "no"),
        (6, None, None),
    ]
    path = write(tmp_path / "f", "CREATE TABLE t (a, b, c)", ("INSERT INTO t VALUES (?, ?, ?)", values))
    asked = (Field("a"), Field("b", "text", needed=False), Field("c", "real", needed=False), Field("d", needed=False))
    (batch,), lost = read(path, asked)
    assert batch["a"].tolist() == [1, 5, 6]
    assert batch["b"] == ["x", None, None]
    assert batch["c"][0] == 0.5
    assert np.isnan(batch["c"][1:]).all()
    assert batch["d"].tolist() == [ABSENT] * 3
    assert ("a row of table t", "a value is missing or of the wrong type", 4, False) in lost.told
    assert ("a value of table t", "it is of the wrong type", 2, True) in lost.told


def test_a_needed_text_may_not_be_missing_and_a_long_one_is_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "f", "CREATE TABLE t (a)", ("INSERT INTO t VALUES (?)", [("x" * 100_000,), (None,), (7,)]))
    (batch,), lost = read(path, (Field("a", "text"),))
    assert [len(text) for text in batch["a"]] == [1 << 14]
    assert lost.told[0][2] == 2


def test_missing_tables_and_columns(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 3)
    with pytest.raises(TableError, match="no column nope"):
        read(path, fields("a nope"))
    with opened(path, "x.sqlite") as connection:
        with pytest.raises(TableError, match="no table u"):
            columns(connection, "u")
        assert count(connection, "u") == 0
        assert count(connection, "t") == 3
        assert columns(connection, "t") == {"a", "b"}


def test_a_column_that_is_not_there_is_no_text_of_its_name(tmp_path: Path) -> None:
    """SQLite takes a quoted name that is no column for a text."""
    (batch,), _ = read(numbers(tmp_path / "f", 1), (*fields("a"), Field("zzz", "text", needed=False)))
    assert batch["zzz"] == [None]


VIEWS = [
    "CREATE VIEW t AS WITH RECURSIVE n(a, b) AS (SELECT 1, 1 UNION ALL SELECT a + 1, b FROM n) SELECT a, b FROM n",
    "CREATE VIEW t AS SELECT 1 AS a, 2 AS b",
    "CREATE TABLE u (a, b); CREATE VIEW t AS SELECT * FROM u",
    "CREATE VIRTUAL TABLE t USING fts4(a, b)",
]


@pytest.mark.parametrize("script", VIEWS)
def test_views_and_virtual_tables_are_no_tables(tmp_path: Path, script: str) -> None:
    path = write(tmp_path / "f", script)
    begin = time.perf_counter()
    with pytest.raises(TableError, match="no table t"):
        read(path)
    assert time.perf_counter() - begin < 2
    assert "t" in table_names(path, database.MAGIC)


def test_a_statement_that_runs_a_view_or_writes_or_attaches_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f", VIEWS[0])
    for statement in (
        "SELECT * FROM t",
        "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT * FROM n",
        f"ATTACH '{tmp_path / 'other'}' AS o",
        "CREATE TABLE q (a)",
        "PRAGMA query_only = OFF",
    ):
        with pytest.raises(ReadError, match="not authorized"), opened(path, "x") as connection:
            connection.execute(statement).fetchone()
    assert not (tmp_path / "other").exists()


def test_a_generated_column_counts_as_missing(tmp_path: Path) -> None:
    script = "CREATE TABLE t (a INTEGER, b INTEGER GENERATED ALWAYS AS (length(zeroblob(1000000000))) VIRTUAL)"
    path = write(tmp_path / "f", script, ("INSERT INTO t (a) VALUES (?)", [(1,)]))
    with pytest.raises(TableError, match="no column b"):
        read(path)


def test_an_index_cannot_stand_for_the_table(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 10, "CREATE TABLE t (a INTEGER, b INTEGER); CREATE INDEX i ON t (b, a)")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = 'CREATE INDEX i ON t (a, b)' WHERE name = 'i'")
        connection.commit()
    (batch,), _ = read(path)
    assert batch["b"].tolist() == [2 * i for i in range(10)]


def test_damage_in_the_middle_keeps_what_stands_before(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 20_000)
    data = bytearray(path.read_bytes())
    page = 4096
    middle = len(data) // page // 2 * page
    data[middle : middle + page] = b"\xff" * page
    path.write_bytes(data)
    batches, lost = read(path)
    got = np.concatenate([batch["a"] for batch in batches])
    assert got.tolist() == list(range(len(got)))
    assert 5000 < len(got) < 15_000
    (told,) = lost.told
    assert told[0] == "the rest of table t"
    assert "malformed" in told[1]


def test_damage_at_the_very_beginning_of_a_table(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 20_000)
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096  # the root of t
    path.write_bytes(data)
    batches, lost = read(path)
    assert batches == []
    assert lost.told[0][0] == "the rest of table t"
    with opened(path, "x") as connection:
        assert count(connection, "t") == 0


def test_a_table_has_no_more_rows_than_the_file_has_room_for(tmp_path: Path) -> None:
    """Every pointer of the root leads to the same leaf, whose rows come again and again."""
    path = numbers(tmp_path / "f", 60_000)
    data = bytearray(path.read_bytes())
    root = 4096
    assert data[root] == 5  # an inner page of a table
    cells = int.from_bytes(data[root + 3 : root + 5], "big")
    places = [int.from_bytes(data[root + 12 + 2 * i : root + 14 + 2 * i], "big") for i in range(cells)]
    first = data[root + places[0] : root + places[0] + 4]
    for place in places:
        data[root + place : root + place + 4] = first
    path.write_bytes(data)
    again = np.concatenate([batch["a"] for batch in read(path)[0]])
    assert len(again) > 2 * len(np.unique(again))  # SQLite itself does not see it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wcbench.profilers.readers.database_rows.ROW_BYTES", 100)
        with pytest.raises(ReadError, match="more rows than the file has room for"):
            read(path)


def test_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(database, "SECONDS_PER_BYTE", 0.0)
    path = write(tmp_path / "f", "CREATE TABLE t (a, b)", ("INSERT INTO t VALUES (?, ?)", [("x" * 500_000, 1)] * 100))

    def for_ever() -> None:
        with opened(path, "x") as connection:
            while True:
                list(rows(connection, "t", (Field("a", "text"),), Losses()))

    with pytest.raises(ReadError, match="takes more time"):
        for_ever()


def test_half_written_files_are_refused(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 20_000)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReadError, match=rf"should have {len(data)} bytes and has {len(data) // 2}"):
        read(path)
    for cut in (data[:50], b"", b"no database at all, but more than a hundred bytes of text " * 3):
        path.write_bytes(cut)
        with pytest.raises(ReadError, match="no SQLite file"):
            read(path)


def test_a_cut_file_whose_header_does_not_count_pages(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 20_000)
    data = bytearray(path.read_bytes())
    data[92:96] = b"\0\0\0\0"  # as programs of before 2010 leave it
    path.write_bytes(data)
    assert sum(len(batch["a"]) for batch in read(path)[0]) == 20_000
    path.write_bytes(data[: 5 * 4096 + 17])
    with pytest.raises(ReadError, match="is cut"):
        read(path)


def test_pages_of_an_impossible_size(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 10)
    data = bytearray(path.read_bytes())
    data[16:18] = (1000).to_bytes(2, "big")
    path.write_bytes(data)
    with pytest.raises(ReadError, match="pages of 1000 bytes"):
        read(path)


def test_a_write_ahead_log_or_a_journal_beside_the_file(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 10)
    log, journal = tmp_path / "f-wal", tmp_path / "f-journal"
    log.write_bytes(b"\0" * 32)
    journal.write_bytes(b"")
    assert len(read(path)[0]) == 1
    log.write_bytes(b"\0" * 5000)
    with pytest.raises(ReadError, match="write-ahead log"):
        read(path)
    log.unlink()
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600)
    with pytest.raises(ReadError, match="half-written"):
        read(path)
    journal.write_bytes(b"\0" * 600)  # journal_mode = PERSIST
    assert len(read(path)[0]) == 1


def test_the_file_and_its_folder_are_left_as_they_are(tmp_path: Path) -> None:
    path = numbers(tmp_path / "f", 100)
    before = path.read_bytes()
    path.chmod(0o444)
    read(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_texts_are_looked_up_by_id(tmp_path: Path) -> None:
    script = "CREATE TABLE s (id INTEGER PRIMARY KEY, value TEXT)"
    values: list[tuple[Any, ...]] = [(i, f"name {i}") for i in range(3000)]
    path = write(tmp_path / "f", script, ("INSERT INTO s VALUES (?, ?)", [*values, (5000, b"blob"), (5001, None)]))
    lost = Losses()
    with opened(path, "x") as connection:
        texts = Texts(connection, "s", "value", lost)
        found = texts.of(range(3000))
        assert found == {i: f"name {i}" for i in range(3000)}
        assert texts.of([7, 5000, 5001, 9999, -1, -(2**63)]) == {
            7: "name 7", 5000: None, 5001: None, 9999: None, -1: None, -(2**63): None,
        }  # fmt: skip
        assert lookup(connection, "s", (Field("value", "text"),), [1, 1, 6000], lost) == {1: ("name 1",)}
        with pytest.raises(TableError):
            Texts(connection, "s", "nope", lost)


@pytest.mark.parametrize("damage", [b"CREA\xff\xfe", b"SELECT", b"\x01\x02\x03\x04\x05\x06"])
def test_a_schema_that_cannot_be_read(tmp_path: Path, damage: bytes) -> None:
    """SQLite's message repeats bytes of the file, which may be no text."""
    path = numbers(tmp_path / "f", 10)
    data = bytearray(path.read_bytes())
    at = data.index(b"CREATE TABLE t")
    data[at : at + 6] = damage
    path.write_bytes(data)
    with pytest.raises(ReadError, match="damaged SQLite file"):
        read(path)
    assert table_names(path, bytes(data)) == frozenset()


def test_names_are_read_of_a_damaged_file_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(database.MAGIC + b"\xff" * 5000)
    assert table_names(path, path.read_bytes()) == frozenset()
    assert table_names(path, b"no magic") == frozenset()
    assert table_names(tmp_path / "missing", database.MAGIC) == frozenset()


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("seed") / "f", 600)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 255)), max_size=8), cut=st.integers(0, 3))
def test_any_damage_ends_in_rows_or_an_error_of_ours(
    seed: Path, tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(seed.read_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    path = tmp_path / "f"
    path.write_bytes(data[: len(data) - cut * 1000])
    try:
        for batch in read(path)[0]:
            assert len(batch["a"]) == len(batch["b"]) > 0
        with opened(path, "x") as connection:
            tables(connection)
    except WcbenchError:
        pass
