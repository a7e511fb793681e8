"""What a reader of foreign files is, and where it puts what it reads.

A reader gets a `Source` (a stream of bytes) and a `Sink` (tables, notes, losses). It holds no more of the file than a
piece at a time, evaluates nothing, and loads neither torch nor a GPU library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wcbench.profilers.readers.source import Lost, Source
from wcbench.record import Loss, Note, table_writer
from wcbench.schema import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from wcbench.profilers.readers.timeline import Timeline

ROW_GROUP = 1 << 15
_SQLITE = b"SQLite format 3\0"
_MANY = 200


class Reader:
    """One foreign format. Subclasses stand on the explicit list in `readers/__init__.py`.

    Attributes
    ----------
    name : what `--format` takes, e.g. "kineto".
    title : one line for help and documents: which tools write it, which versions were seen.
    ranked : whether a file is of one process, so that several files are ranks of a job; those of other formats hold
        different things of one process.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    ranked: ClassVar[bool] = False

    def recognizes(self, head: Head) -> bool:
        """Whether the file's content is of this format; its name plays no part."""
        raise NotImplementedError

    def read(self, source: Source, sink: Sink) -> None:
        """Put into the sink what the file holds.

        Damage is repaired or skipped and told to ``sink.lose``. Raises ReadError, with place and remedy, where the
        file as a whole is refused.
        """
        raise NotImplementedError


@dataclass
class Head:
    """The beginning of a file, uncompressed, by which its format is told."""

    source: Source
    data: bytes

    @cached_property
    def text(self) -> str:
        """The same as text, without byte-order mark."""
        return self.data.decode("utf-8", "replace").removeprefix("﻿")

    @cached_property
    def stripped(self) -> bytes:
        """The same without a byte-order mark and leading blanks."""
        return self.data.removeprefix(b"\xef\xbb\xbf").lstrip()

    @property
    def is_sqlite(self) -> bool:
        return self.data.startswith(_SQLITE)

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the beginning, the last one perhaps cut; lines of `==` messages included."""
        return self.text.splitlines()

    @cached_property
    def sqlite_tables(self) -> frozenset[str]:
        """Names of tables and views of a SQLite file; empty for other files and for damaged ones."""
        from wcbench.profilers.readers.database import table_names

        return table_names(self.source.path, self.data) if self.is_sqlite else frozenset()


@dataclass
class PassFacts:
    """What a file tells of a pass (see `record.PassInfo`); None where it does not."""

    device: str
    steps: int = 1
    seconds: float = 0.0
    warmup: int = 0
    preset: str | None = None
    batch_size: int | None = None
    samples: int | None = None
    precision: str | None = None
    seed: int | None = None
    tensors: str = "real"
    settings: Mapping[str, Any] = field(default_factory=dict)


class Sink:
    """Takes what a reader finds in one file and stages it as Parquet files in a folder.

    Attributes
    ----------
    rank : process of a distributed job that the file is of; a reader sets it where the file tells, and leaves None
        otherwise. Rows get it in their column `rank`.
    own_ranks : a reader that fills the column `rank` itself (files of several processes) sets it to True.
    world_size : number of processes of the job, where the file tells.
    facts : what the file tells of the machine it was made on, e.g. ``{"gpus": [{"name": "NVIDIA A100"}]}``.
    settings : import options by name, e.g. ``{"step_mark": "..."}``.
    """

    def __init__(self, label: str, folder: Path) -> None:
        self.label = label
        self.folder = folder
        self.rank: int | None = None
        self.own_ranks = False
        self.staged: set[int] = set()
        """Ranks that rows were staged with."""
        self.world_size: int | None = None
        self.facts: dict[str, Any] = {}
        self.passes: dict[str, PassFacts] = {}
        self.rows: dict[str, int] = {}
        self.notes: list[Note] = []
        self._losses: dict[tuple[str, str, bool], Loss] = {}
        self._writers: dict[str, Any] = {}
        self._waiting: dict[str, list[pa.Table]] = {}
        self._writing: Future[None] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._timeline: Timeline | None = None

    def describe(self, passname: str, facts: PassFacts) -> None:
        """Say how a pass was run; its rows are of no use without."""
        self.passes[passname] = facts

    def add(self, table: str, passname: str, columns: Mapping[str, Any]) -> int:
        """Add rows to a table of the record (schema.TABLES) and return the number of the first of them.

        Columns are equally long sequences; `pass` and, where the reader knows but one, `rank` are filled in.
        """
        given = dict(columns)
        length = len(next(iter(given.values()))) if given else 0
        first = self.rows.get(table, 0)
        if not length:
            return first
        from wcbench.schema import table_schema

        if "rank" in table_schema(table).column_names() and "rank" not in given:
            given["rank"] = np.full(length, self.rank or 0)  # gather puts another in its place where that is wrong
            self.staged.add(self.rank or 0)
        made = to_arrow(table, given, passname)
        self.rows[table] = first + length
        waiting = self._waiting.setdefault(table, [])
        waiting.append(made)
        if sum(part.num_rows for part in waiting) >= ROW_GROUP:
            self._flush(table)
        return first

    def note(self, about: str, text: str) -> None:
        """Something missing or doubtful, for a reader of the report."""
        self.notes.append(Note(about, text))

    def lose(self, what: str, why: str, *, count: int = 1, offset: int | None = None, repaired: bool = False) -> None:
        """Log what of the file is not in the record (or, ``repaired``, only mended): equal entries are added up.

        ``offset`` counts bytes of the uncompressed file; the first of equal entries is kept. ``why`` holds no values of
        the single case (numbers, names), or equal ones would not meet.
        """
        key = (what, why, repaired)
        known = self._losses.get(key)
        if known is None and len(self._losses) >= _MANY:
            key, what, why = ("", "", repaired), "further damage", "of more kinds than are told apart"
            known = self._losses.get(key)
        total = count + (known.count if known else 0)
        where = known.offset if known else offset
        self._losses[key] = Loss(self.label, what, why, total, where, repaired)

    @property
    def losses(self) -> Sequence[Loss]:
        return tuple(self._losses.values())

    def timeline(self) -> Timeline:
        """Where events in time go (host operators, runtime calls, kernels): they are linked when the file ends."""
        from wcbench.profilers.readers.timeline import Timeline

        if self._timeline is None:
            self._timeline = Timeline(self, self.folder)
        return self._timeline

    def finish(self) -> None:
        """Link the timeline, if there is one, and close the tables."""
        if self._timeline is not None:
            self._timeline.finish()
        for table in list(self._waiting):
            self._flush(table)
        if self._writing is not None:
            self._writing.result()
        self.close()

    def close(self) -> None:
        """End what is being written; what was staged stays."""
        if self._timeline is not None:
            self._timeline.close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
        if self._timeline is not None:
            self._timeline.close()

    def _flush(self, table: str) -> None:
        """Write what waits of a table, beside what the reader does next; one row group at a time is on its way."""
        import pyarrow as pa

        parts = self._waiting.pop(table, [])
        if not parts:
            return
        if self._writing is not None:
            self._writing.result()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "wcbench-write")
        self._writing = self._pool.submit(self._write, table, pa.concat_tables(parts))

    def _write(self, table: str, rows: pa.Table) -> None:
        if table not in self._writers:
            self._writers[table] = table_writer(self.folder / f"{table}.parquet", rows.schema)
        self._writers[table].write_table(rows, row_group_size=ROW_GROUP)


__all__ = ["Head", "Lost", "PassFacts", "Reader", "Sink", "Source"]
