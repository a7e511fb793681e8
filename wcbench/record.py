"""THE record: one folder with `manifest.json` and Parquet tables, readable without wcbench.

A folder is written under a temporary name and renamed when whole, so that an interrupted run leaves no half-record;
nothing is overwritten unless asked for. Older versions are upgraded while they are read; newer ones are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench.errors import RecordError
from wcbench.registry import Registry, Row, load_target
from wcbench.schema import SCHEMA_VERSION, TABLES, table_schema
from wcbench.upgrade import DAMAGED, conform, upgrade_manifest, upgrade_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MANIFEST = "manifest.json"

VIEWS = Registry(
    "view",
    [
        # Found by name, so that the record imports nothing of the layers above it.
        Row("hotspots", "wcbench.analysis.hotspots:hotspots"),
        Row("categories", "wcbench.analysis.hotspots:categories"),
        Row("complexity", "wcbench.analysis.complexity:complexity"),
        Row("lookups", "wcbench.analysis.lookups:lookups"),
        Row("scaling", "wcbench.analysis.scaling:scaling"),
        Row("steps", "wcbench.analysis.steps:step_times"),
        Row("modules", "wcbench.analysis.modules:modules"),
        Row("operators", "wcbench.analysis.complexity:complexity"),
        Row("memory", "wcbench.analysis.memory:memory"),
        Row("measured_memory", "wcbench.analysis.telemetry:measured_memory"),
        Row("power", "wcbench.analysis.telemetry:power"),
        Row("activity", "wcbench.analysis.activity:activity"),
        Row("ops", "wcbench.analysis.ops:ops"),
        Row("totals", "wcbench.analysis.totals:totals"),
        Row("gates", "wcbench.analysis.gates:gates"),
        Row("counters", "wcbench.analysis.counters:counters"),
        Row("convergence", "wcbench.analysis.convergence:convergence"),
        Row("allocations", "wcbench.analysis.allocations:allocations"),
        Row("primitives", "wcbench.analysis.primitives:primitives"),
        Row("notes", "wcbench.analysis.summary:notes"),
        Row("summary", "wcbench.analysis.summary:summary"),
        Row("html", "wcbench.reports.notebook:profile_html"),
        Row("text", "wcbench.reports.notebook:profile_text"),
        Row("figures", "wcbench.reports.plot:names"),
        Row("headline", "wcbench.analysis.headline:headline"),
    ],
)


@dataclass(frozen=True)
class Note:
    """Something missing or doubtful: what it is about (a pass, a table, a counter) and why."""

    about: str
    text: str


@dataclass(frozen=True)
class Loss:
    """What of an imported file is not in the record: the loss log.

    ``file`` it was found in, ``what`` (a damaged event, bytes, a column), ``why``, how many times (``count``), at which
    byte of the uncompressed file it begins the first time (``offset``, None where that has no meaning), and whether it
    was ``repaired``: kept, with its damage mended.
    """

    file: str
    what: str
    why: str
    count: int = 1
    offset: int | None = None
    repaired: bool = False


@dataclass(frozen=True)
class PassInfo:
    """How one pass was run.

    ``tensors`` is real or fake, ``load`` the machine's load average over a minute when the measured steps began (None
    where the system has none), ``torch`` the settings that torch ran under, ``mode`` train or inference,
    ``step_kinds`` the share of all steps of a training by kind of step (empty in records of before schema version 3),
    ``kind_samples`` the samples of kinds that consume another number than ``samples``. Of an imported file, preset,
    batch size, samples, precision and seed are None where it does not tell them, and ``seconds`` is the time it spans.
    """

    preset: str | None
    settings: Mapping[str, Any]
    batch_size: int | None
    samples: int | None
    precision: str | None
    device: str
    tensors: str
    seed: int | None
    steps: int
    warmup: int
    seconds: float
    data_in_step: bool = False
    load: float | None = None
    torch: Mapping[str, Any] = field(default_factory=dict)
    mode: str = "train"
    step_kinds: Mapping[str, float] = field(default_factory=dict)
    kind_samples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """What a record says of itself; written as `manifest.json`."""

    task: str
    variant: str | None
    suites: Sequence[str]
    machine: Mapping[str, Any]
    command: Sequence[str]
    created: str
    id: str
    wcbench: str
    passes: Mapping[str, PassInfo] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    source: Mapping[str, Any] | None = None
    losses: Sequence[Loss] = ()
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """As JSON's own types; what JSON has no word for (a task's settings may hold a dtype, or inf) as text."""
        plain: dict[str, Any] = _json_value(dataclasses.asdict(self))
        return plain

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Manifest:
        """The manifest of a dictionary in today's form.

        Raises KeyError, TypeError, ValueError or AttributeError where a field is missing, unknown or of another form.
        """
        values = dict(data)
        values["machine"] = dict(data["machine"])
        values["suites"], values["command"] = tuple(data["suites"]), tuple(data["command"])
        values["passes"] = {name: _pass_info(name, info) for name, info in data["passes"].items()}
        values["notes"] = tuple(Note(**note) for note in data["notes"])
        values["losses"] = tuple(Loss(**loss) for loss in data.get("losses", ()))
        values["tables"] = {name: int(rows) for name, rows in data["tables"].items()}
        return Manifest(**values)


def _pass_info(name: str, info: Mapping[str, Any]) -> PassInfo:
    """A pass's description, its counts checked: figures are divided by them."""
    made = PassInfo(**info)
    for count, least in (("batch_size", 1), ("samples", 1), ("steps", 1), ("warmup", 0)):
        value = getattr(made, count)
        if value is None and count in ("batch_size", "samples"):
            continue  # an imported file need not tell
        if type(value) is not int or value < least:
            raise ValueError(f"{count} of pass {name} is {value!r}, not a whole number from {least} up")
    return made


class Profile:
    """A record in hand: its manifest and its tables, which are read when first asked for.

    Parameters
    ----------
    manifest : what the record says of itself.
    tables : Arrow tables by name; those of a saved record are read from `path` instead.
    path : the record's folder, or None before it is saved.
    """

    def __init__(
        self, manifest: Manifest, tables: Mapping[str, pa.Table] | None = None, path: Path | None = None
    ) -> None:
        self.manifest = manifest
        self.path = path
        self._arrow: dict[str, pa.Table] = dict(tables or {})
        self._frames: dict[str, pd.DataFrame] = {}
        self._version = SCHEMA_VERSION
        self._folder = path  # where tables are read from: the record's own, or where an import staged them
        self._keeper: Any = None  # keeps a temporary folder alive as long as the record is in hand

    @property
    def name(self) -> str:
        """``task`` or ``task@variant``."""
        return run_name(self.manifest.task, self.manifest.variant)

    @property
    def tables(self) -> list[str]:
        return list(self.manifest.tables)

    @property
    def notes(self) -> Sequence[Note]:
        return self.manifest.notes

    def arrow(self, name: str) -> pa.Table:
        """A table as Arrow; one that was not recorded has no rows."""
        table_schema(name)
        if name not in self._arrow:
            self._arrow[name] = self._read(name)
        return self._arrow[name]

    def columns(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of a table as Arrow: of a saved record these alone are read, so that the lists of a million
        kernels cost nothing to who does not ask for them."""
        if self._at_hand(name):
            return self.arrow(name).select(list(columns))
        return self._read(name, columns)

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same, part by part: whoever makes arrays of them need not hold all of Arrow's beside numpy's."""
        if self._at_hand(name) or name not in self.manifest.tables:
            yield self.columns(name, columns)
            return
        schema, count = _schema(name, columns), 0
        for rows in self._row_groups(name, columns):
            yield self._checked(name, rows, schema)
            count += rows.num_rows
        self._check_rows(name, count)

    def _at_hand(self, name: str) -> bool:
        """Whether a table is in memory, or has to come there whole before it can be read."""
        return name in self._arrow or self._folder is None or self._version != SCHEMA_VERSION

    def table(self, name: str) -> pd.DataFrame:
        """A table as a data frame (columns: docs/record.md); one that was not recorded has no rows."""
        if name not in self._frames:
            self._frames[name] = _to_frame(self.arrow(name), name)
        return self._frames[name]

    def view(self, name: str, **options: Any) -> Any:
        """A derived result by its name in VIEWS: hotspots, categories, complexity, steps, notes, summary, ...

        None where the record holds nothing for it; ``view("notes")`` and the section `notes` of a report say what is
        missing and why.
        """
        return VIEWS.load(name)(self, **options)

    def figures(self) -> list[str]:
        """Names of the figures that `figure` draws, in the report's order."""
        names: list[str] = self.view("figures")
        return names

    def figure(self, name: str, **options: Any) -> Any:
        """A figure of the report as matplotlib's, ready to be shown, changed or saved: ``figure("hotspots")``.

        ``width`` is in CSS pixels. Raises UnknownNameError, with the nearest name, where the record has no such figure.
        """
        return load_target("wcbench.reports.plot:draw")(self, name, **options)

    def to_frame(self) -> pd.DataFrame:
        """One row: the record's conditions and headline figures; `pandas.concat` of several compares records."""
        frame: pd.DataFrame = self.view("headline")
        return frame

    def _read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table of the folder, or some columns of one that needs no upgrade."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = _schema(name, columns)
        if self._folder is None or name not in self.manifest.tables:
            return schema.empty_table()

        file = self._folder / f"{name}.parquet"
        try:
            known = None if columns is None else [c for c in columns if c in pq.read_schema(file).names]
            with lean_memory():
                table = pq.read_table(file, columns=known, page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            raise RecordError(f"{file} cannot be read: {_why(error, file)}.", DAMAGED) from error
        whole = self._checked(name, table, schema)
        self._check_rows(name, whole.num_rows)
        return whole

    def _checked(self, name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of a table's file, if they are what the schema says."""
        import pyarrow as pa

        try:
            whole = conform(upgrade_table(name, table, self._version), schema)
            whole.validate(full=True)
            return whole
        except (KeyError, ValueError, IndexError, pa.ArrowException) as error:
            raise self._not_the_table(name, str(error)) from error

    def _check_rows(self, name: str, found: int) -> None:
        if found != self.manifest.tables[name]:
            raise self._not_the_table(name, f"it has {found} rows, the manifest says {self.manifest.tables[name]}")

    def _not_the_table(self, name: str, why: str) -> RecordError:
        return RecordError(f"{self._folder}/{name}.parquet is not the table {name}: {why}.", DAMAGED)

    def _row_groups(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of a table's file as they stand there, a group of rows at a time."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = f"{self._folder}/{name}.parquet"
        try:
            with pq.ParquetFile(file, page_checksum_verification=True) as opened:
                known = [column for column in columns if column in opened.schema_arrow.names]
                for number in range(opened.num_row_groups):
                    with lean_memory():
                        rows = opened.read_row_group(number, columns=known)
                    yield rows
        except (OSError, pa.ArrowException) as error:
            raise RecordError(f"{file} cannot be read: {_why(error, file)}.", DAMAGED) from error

    def save(self, folder: Path, *, force: bool = False) -> Profile:
        """Write the record to ``folder`` in one piece and return it as loaded from there.

        Raises
        ------
        RecordError : the folder exists and ``force`` is false, or the disk refuses.
        """
        check_place(folder, force=force)
        fresh = not folder.parent.exists()
        partial = folder.parent / f".{folder.name}.{secrets.token_hex(3)}.partial"
        try:
            partial.mkdir(parents=True)
            self._write_files(partial)
            _replace(partial, folder, force=force)
        except OSError as error:
            raise RecordError(
                f"{folder} could not be written: {error.strerror or error}.",
                "Nothing was left behind. Free some space or choose another place with --runs or -o.",
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if fresh:
                _drop_empty(folder.parent)
        return load(folder)

    def _write_files(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        for name in self.manifest.tables:
            target = folder / f"{name}.parquet"
            if self._folder is not None and self._version == SCHEMA_VERSION:
                _place(self._folder / target.name, target)
            else:
                pq.write_table(self.arrow(name), target, compression="zstd", write_page_checksum=True)
        text = json.dumps(self.manifest.to_dict(), indent=1, allow_nan=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return str(self.view("text"))

    def _repr_html_(self) -> str:
        return str(self.view("html"))


def table_writer(file: Path, schema: pa.Schema) -> Any:
    """A Parquet writer as records have them: only texts are worth a dictionary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return pq.ParquetWriter(
        file, schema, compression="zstd", compression_level=1, use_dictionary=texts, write_page_checksum=True
    )


def _place(file: Path, target: Path) -> None:
    """A table's file in another folder too: the same file where the disk allows it, else a copy."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def new_profile(
    *,
    task: str,
    variant: str | None,
    suites: Sequence[str],
    machine: Mapping[str, Any],
    command: Sequence[str],
    passes: Mapping[str, PassInfo],
    tables: Mapping[str, pa.Table],
    notes: Sequence[Note],
) -> Profile:
    """A fresh record in memory, stamped with time, id and version; tables without rows are dropped."""
    from wcbench.machine import wcbench_version

    kept = {name: table for name, table in tables.items() if table.num_rows}
    manifest = Manifest(
        task=task,
        variant=variant,
        suites=tuple(suites),
        machine=machine,
        command=tuple(command),
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        id=secrets.token_hex(4),
        wcbench=wcbench_version(),
        passes=dict(passes),
        tables={name: table.num_rows for name, table in kept.items()},
        notes=tuple(dict.fromkeys(notes)),
    )
    return Profile(manifest, kept)


def imported_profile(
    *,
    task: str,
    machine: Mapping[str, Any],
    command: Sequence[str],
    passes: Mapping[str, PassInfo],
    folder: Path,
    rows: Mapping[str, int],
    notes: Sequence[Note],
    losses: Sequence[Loss],
    source: Mapping[str, Any],
    keeper: Any,
) -> Profile:
    """A record of foreign files whose tables lie as Parquet in ``folder``, which ``keeper`` keeps alive."""
    empty = new_profile(
        task=task, variant=None, suites=(), machine=machine, command=command, passes=passes, tables={}, notes=notes
    )
    manifest = dataclasses.replace(empty.manifest, tables=dict(rows), losses=tuple(losses), source=source)
    made = Profile(manifest)
    made._folder, made._keeper = folder, keeper
    return made


def run_name(task: str, variant: str | None) -> str:
    return task if variant is None else f"{task}@{variant}"


def check_place(folder: Path, *, force: bool) -> None:
    """Raise RecordError if the folder cannot be written, or if that would overwrite something not asked for."""
    if not folder.exists():
        _check_writable(folder)
        return
    if not force:
        raise RecordError(f"{folder} exists and is left as it is.", "Choose another place, or replace it with --force.")
    if not (folder.is_dir() and (_is_record(folder) or not any(folder.iterdir()))):
        raise RecordError(
            f"{folder} is not a record of wcbench, so --force does not replace it.", "Choose another place."
        )


def _check_writable(folder: Path) -> None:
    """Try the nearest folder that exists: minutes of capture must not end in a place that takes nothing."""
    place = next(p for p in folder.absolute().parents if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise RecordError(
            f"{folder} cannot be written: {error.strerror or error}.", "Choose another place with --runs or -o."
        ) from error


def _drop_empty(folder: Path) -> None:
    """Remove the task's folder again where the save failed and nothing else lies in it."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_record(folder: Path) -> bool:
    """Whether the folder's manifest is one of wcbench: many programs call a file `manifest.json`."""
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and {"schema_version", "wcbench", "passes"} <= data.keys()


def _why(error: Exception, file: object) -> str:
    """An error's words; Arrow says of a file that is not there its name alone."""
    return "it is not there" if isinstance(error, FileNotFoundError) or str(error) == str(file) else str(error)


def _schema(name: str, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of a table, or of some columns of it."""
    import pyarrow as pa

    schema = table_schema(name).arrow()
    return schema if columns is None else pa.schema([schema.field(c) for c in columns], schema.metadata)


@contextlib.contextmanager
def lean_memory() -> Iterator[None]:
    """Arrow takes memory from the system and gives it back as soon as it is done with it; its own pool keeps what one
    batch or one table needed."""
    import pyarrow as pa

    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(pool)


def _replace(partial: Path, folder: Path, *, force: bool) -> None:
    """Put the finished folder in its place; an old one there is removed only once the new one stands."""
    if not (force and folder.exists()):
        partial.rename(folder)  # fails where another process has put a record there meanwhile
        return
    old = folder.parent / f".{folder.name}.{secrets.token_hex(3)}.old"
    try:
        folder.rename(old)
        partial.rename(folder)
    except BaseException:  # Ctrl-C too
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def load(folder: str | Path) -> Profile:
    """Read a record; tables are read when asked for.

    Raises
    ------
    RecordError : no manifest, not JSON, written by a newer wcbench, or a field missing.
    """
    folder = Path(folder)
    file = folder / MANIFEST
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RecordError(f"{folder} holds no {MANIFEST}, so it is no record.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{file} is not valid JSON: {error}.", DAMAGED) from error
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror or error}.") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version < 1:
        raise RecordError(f"{file} names no schema version, so it is no record of wcbench.")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{folder} has schema version {version}; this wcbench reads up to {SCHEMA_VERSION}.", "Upgrade wcbench."
        )
    try:
        manifest = Manifest.from_dict(upgrade_manifest(data, version))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{file} is not a manifest that wcbench wrote: {error}.", DAMAGED) from error
    profile = Profile(manifest, path=folder)
    profile._version = version
    return profile


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _to_frame(table: pa.Table, name: str) -> pd.DataFrame:
    """Arrow to pandas; whole numbers stay whole where a column has nulls (nanoseconds do not fit a float64)."""
    import pandas as pd
    import pyarrow as pa

    nullable = {pa.int64(): pd.Int64Dtype()}.get
    frame = {}
    for column in TABLES[name].columns:
        whole = column.type == "int" and not column.required
        frame[column.name] = table[column.name].to_pandas(types_mapper=nullable if whole else None)
    return pd.DataFrame(frame)
