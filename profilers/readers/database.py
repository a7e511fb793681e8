"""SQLite files of strangers: opened read-only and immutable, asked only for tables that are tables, within limits.

What a hostile or broken file can do, and what stands against it: a view (perhaps a recursive one) or a virtual table
in place of a table is not looked at; a generated column counts as missing; a page tree that is a loop has more rows
than the file has room for; a long text is cut by SQLite before it reaches us; time inside SQLite is limited in
proportion to the file. What is read of the tables is in `database_rows`.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from wcbench.errors import ReadError

MAGIC = b"SQLite format 3\0"
LEAST_SECONDS, SECONDS_PER_BYTE = 60.0, 1e-6
"""How long SQLite may work on a file; real exports are read at 20 MB/s and more."""

_HEADER, _WAL_HEADER = 100, 32
_MAX_VALUE = 1 << 24
_MAX_TABLES = 10_000
_CREATED = re.compile(rb"CREATE (?:TABLE|VIEW) [\"'`\[]?([A-Za-z0-9_-]{1,128})")
ROW_BYTES = 6  # the least that a row takes: pointer, two lengths, row id, header
_TICK = 10_000  # steps of SQLite's machine between two looks at the clock
AGAIN = "Export it again from the profile."


FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged file makes `sqlite3` raise; the second where SQLite's message repeats bytes of it."""


class TableError(ReadError):
    """A table is missing, is none, or lacks a column."""


class Connection(sqlite3.Connection):
    """A connection that knows how much time it may take."""

    label = ""
    size = 0
    allowed = LEAST_SECONDS
    _spent = 0.0
    _since: float | None = None
    _expired = False

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count the time within as SQLite's; raises ReadError where it has used up what it may."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._spent += time.perf_counter() - self._since
            self._since = None
            if self._expired:
                raise ReadError(
                    f"{self.label} takes more time than a file of {self.size} bytes should ({self.allowed:.0f} s).",
                    "It may be damaged or made to stall; export it again from the profile.",
                )

    def tick(self) -> int:
        """Called by SQLite now and then; anything but 0 ends its work."""
        now = time.perf_counter()
        self._expired = self._since is not None and self._spent + now - self._since > self.allowed
        return int(self._expired)


@contextlib.contextmanager
def opened(path: Path, label: str) -> Iterator[Connection]:
    """A connection that can read and nothing else: no writing, no attaching, no extensions, no views, no recursion.

    Raises
    ------
    ReadError : the file is no SQLite file, is cut, is still being written, or its schema cannot be read.
    """
    check_header(path, label)
    _check_alone(path, label)
    try:
        with contextlib.closing(_connected(path)) as connection:
            _limit(connection, path, label)
            yield connection
    except FAULTS as error:
        raise ReadError(f"{label} is a damaged SQLite file: {fault(error)}.", AGAIN) from error


def fault(error: Exception) -> str:
    """What SQLite says; it repeats the file's own bytes, which need not be text."""
    return "its schema is no text" if isinstance(error, UnicodeDecodeError) else str(error)[:200]


def _connected(path: Path) -> Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, factory=Connection)


def _limit(connection: Connection, path: Path, label: str) -> None:
    connection.label, connection.size = label, path.stat().st_size
    connection.allowed = LEAST_SECONDS + SECONDS_PER_BYTE * connection.size
    connection.set_progress_handler(connection.tick, _TICK)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "cache_size = -16384"):
        connection.execute(f"PRAGMA {setting}")
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.set_authorizer(_authorize)


_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION))


def _authorize(action: int, first: str | None, _second: str | None, _base: str | None, inside: str | None) -> int:
    """Allow our own SELECTs; ``inside`` names a view or trigger of the file's that the access comes from."""
    own = action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
    return sqlite3.SQLITE_OK if own and inside is None else sqlite3.SQLITE_DENY


def check_header(path: Path, label: str) -> None:
    """Refuse what is no SQLite file or shorter than its header says: a half-written export."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if not head.startswith(MAGIC) or len(head) < _HEADER:
        raise ReadError(f"{label} is no SQLite file.", AGAIN)
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1):
        raise ReadError(f"{label} is a damaged SQLite file: its header says pages of {page} bytes.", AGAIN)
    size = path.stat().st_size
    counted = head[24:28] == head[92:96]  # whether the program that wrote last kept the number of pages
    expected = page * int.from_bytes(head[28:32], "big") if counted else 0
    if expected > size or (not expected and size % page):
        raise ReadError(
            f"{label} is cut: it should have {expected or (size // page + 1) * page} bytes and has {size}.",
            "Export it again, and wait until the export has ended.",
        )


def _check_alone(path: Path, label: str) -> None:
    """Refuse a file of which a part lies beside it: its tables would look whole without."""
    log, journal = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    if log.is_file() and log.stat().st_size > _WAL_HEADER:
        raise ReadError(
            f"{label} is not whole: rows of it lie in the write-ahead log beside it ({log.name}).",
            "Wait until the program that writes it has ended, or open and close it once with the sqlite3 program.",
        )
    if journal.is_file():
        with journal.open("rb") as file:
            if any(file.read(8)):  # a journal that was done with is emptied or has zeros here
                raise ReadError(
                    f"{label} is half-written: the journal of an unfinished change lies beside it ({journal.name}).",
                    "Export it again, and wait until the export has ended.",
                )


def table_names(path: Path, head: bytes) -> frozenset[str]:
    """Names of the tables and views in a SQLite file, empty where its schema cannot be read.

    ``head`` is the uncompressed beginning; of a compressed file those names are found that stand in it.
    """
    if not head.startswith(MAGIC):
        return frozenset()
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return frozenset(name.decode() for name in _CREATED.findall(head)[:_MAX_TABLES])
        with contextlib.closing(_connected(path)) as connection:
            _limit(connection, path, path.name)
            return _names(connection, "type IN ('table', 'view')")
    except (*FAULTS, OSError, ReadError):
        return frozenset()


def tables(connection: Connection) -> frozenset[str]:
    """Names of the file's real tables: no views, and no virtual tables, which have no page of their own."""
    return _names(connection, "type = 'table' AND rootpage > 0")


def _names(connection: Connection, which: str) -> frozenset[str]:
    with connection.working():
        found = connection.execute(f"SELECT name FROM sqlite_master WHERE {which}").fetchmany(_MAX_TABLES)
    return frozenset(name for (name,) in found if isinstance(name, str))


def columns(connection: Connection, table: str) -> frozenset[str]:
    """Names of the stored columns of a real table; a generated column has an expression of the file's to run.

    Raises TableError where there is no such table.
    """
    if table not in tables(connection):
        raise TableError(f"{connection.label} has no table {table}.", AGAIN)
    with connection.working():
        found = connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    return frozenset(name for _, name, _, _, _, _, hidden in found if hidden == 0)


def count(connection: Connection, table: str) -> int:
    """Number of rows of a real table, 0 where it is missing or damaged."""
    if table not in tables(connection):
        return 0
    try:
        with connection.working():
            (found,) = connection.execute(f"SELECT count(*) FROM {quoted(table)} NOT INDEXED").fetchone()
    except FAULTS:
        return 0
    return min(int(found), connection.size // ROW_BYTES)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
