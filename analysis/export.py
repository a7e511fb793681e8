"""A record's tables, or its operators in PyProf's columns, as one file for other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench.analysis.pyprof import NAMES, PyProf, pyprof
from wcbench.errors import RecordError, UnknownNameError, UsageError
from wcbench.files import free_file, write_whole
from wcbench.redaction import redact
from wcbench.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from wcbench.record import Profile

Redact = Callable[[str], str]

_SUFFIXES = {"csv": "csv", "parquet": "parquet", "pyprof": "csv"}
FORMS = tuple(_SUFFIXES)


@dataclass(frozen=True)
class Exported:
    """The file written, and what to know about it (None: nothing)."""

    path: Path
    note: str | None


def export(
    profile: Profile,
    out: Path | None,
    *,
    table: str | None = None,
    form: str = "csv",
    redacted: bool = True,
    anonymize: bool = False,
    force: bool = False,
) -> Exported:
    """Write one file.

    CSV: integers exact, a null is an empty cell and an empty text ``""``, lists are JSON. Names stand as they are, also
    one that a spreadsheet takes for a formula: import such a column as text. Parquet: as in the record, with unit and
    meaning in each column's metadata. PyProf: see `wcbench.analysis.pyprof`.

    Raises
    ------
    UsageError : unknown format or table, or none named.
    RecordError : the table was not recorded, or the file exists or cannot be written.
    """
    name = _check(profile, table, form)
    target = _target(profile, out, f"{name}.{_SUFFIXES[form]}", force=force)
    clean = _cleaner(profile, redacted=redacted, anonymize=anonymize)
    note = None
    if form == "pyprof":
        found = pyprof(profile)
        note = found.note
        write_whole(target, lambda file: _write_quoted(file, found, clean))
    else:
        rows = _redacted(profile.arrow(name), clean) if redacted or anonymize else profile.arrow(name)
        write_whole(target, lambda file: _WRITERS[form](file, rows))
    return Exported(target, note)


def _check(profile: Profile, table: str | None, form: str) -> str:
    """The name of what is exported."""
    if form not in _SUFFIXES:
        raise UnknownNameError("format", form, FORMS)
    known = f"The record has: {', '.join(profile.tables) or 'no tables'}."
    if form == "pyprof":
        if table not in {None, "operators"}:
            raise UsageError(f"Format pyprof is made from table operators, not {table}.", "Leave --table out.")
        return form
    if table is None:
        raise UsageError(f"Format {form} needs the name of a table.", f"Name one with --table. {known}")
    if table not in TABLES:
        raise UnknownNameError("table", table, profile.tables, known)
    if not profile.arrow(table).num_rows:
        raise RecordError(f"The record has no table {table}: no pass recorded a row of it.", known)
    return table


def _target(profile: Profile, out: Path | None, default: str, *, force: bool) -> Path:
    """The file to write; never one that the record itself consists of."""
    if out is None:
        if profile.path is None:
            raise UsageError("This record was not saved, so it has no folder for its export.", "Name a file (-o).")
        out = profile.path / "export" / default
    return free_file(out, force=force)


def _write_quoted(file: Path, found: PyProf, clean: Redact) -> None:
    """Every cell in quotes, as PyProf wrote them; names repeat, so each is cleaned once."""
    frame = found.to_frame()
    for column in NAMES:
        frame[column] = frame[column].map({name: clean(name) for name in set(frame[column])})
    frame.to_csv(file, index=False, quoting=csv.QUOTE_ALL, lineterminator="\n", encoding="utf-8")


def _write_csv(file: Path, table: pa.Table) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    plain = pa.table({name: _as_cells(table[name]) for name in table.column_names})
    arrow_csv.write_csv(plain, file, arrow_csv.WriteOptions(quoting_style="needed"))


def _as_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that CSV can hold: texts plain, lists as JSON."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if pa.types.is_list(column.type):
        texts = [None if value is None else json.dumps(value, separators=(",", ":")) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column


def _write_parquet(file: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, file, compression="zstd")


_WRITERS: Mapping[str, Callable[[Path, Any], None]] = {"csv": _write_csv, "parquet": _write_parquet}


def _cleaner(profile: Profile, *, redacted: bool, anonymize: bool) -> Redact:
    from wcbench.analysis.anonymity import stand_ins

    identity = profile.manifest.machine.get("identity") or {}
    names = stand_ins(profile) if anonymize else {}
    return lambda text: names[text] if text in names else redact(text, identity) if redacted else text


def _redacted(table: pa.Table, clean: Redact) -> pa.Table:
    """The table with every text cleaned; texts repeat, so each is cleaned once."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(index, field, _clean_column(table.column(index), field.type, clean))
    return table


def _clean_column(column: Any, kind: Any, clean: Redact) -> Any:
    """Equal texts stay one entry, also where cleaning makes two of them equal."""
    import pyarrow as pa

    texts = column.cast(pa.string()).to_pylist()
    cleaned = {text: None if text is None else clean(text) for text in dict.fromkeys(texts)}
    return pa.array([cleaned[text] for text in texts], pa.string()).dictionary_encode().cast(kind)
