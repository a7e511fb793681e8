"""THE record: one folder with `manifest.json` and Parquet tables, readable without wcbench.

A folder is written under a temporary name and renamed when whole, so that an interrupted run leaves no half-record;
nothing is overwritten unless asked for. Older versions are upgraded while they are read; newer ones are refused.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench.errors import RecordError, UsageError
from wcbench.registry import Registry, Row
from wcbench.schema import SCHEMA_VERSION, TABLES, table_schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MANIFEST = "manifest.json"
RUNS_VARIABLE = "WCBENCH_RUNS"

VIEWS = Registry(
    "view",
    [
        # Found by name, so that the record imports nothing of the layers above it.
        Row("hotspots", "wcbench.analysis.hotspots:hotspots"),
        Row("categories", "wcbench.analysis.hotspots:categories"),
        Row("complexity", "wcbench.analysis.complexity:complexity"),
        Row("steps", "wcbench.analysis.steps:step_times"),
        Row("memory", "wcbench.analysis.telemetry:memory"),
        Row("power", "wcbench.analysis.telemetry:power"),
        Row("primitives", "wcbench.analysis.primitives:primitives"),
        Row("notes", "wcbench.analysis.summary:notes"),
        Row("summary", "wcbench.analysis.summary:summary"),
        Row("html", "wcbench.reports.notebook:profile_html"),
        Row("text", "wcbench.reports.notebook:profile_text"),
    ],
)


@dataclass(frozen=True)
class Note:
    """Something missing or doubtful: what it is about (a pass, a table, a counter) and why."""

    about: str
    text: str


@dataclass(frozen=True)
class PassInfo:
    """How one pass was run. ``tensors`` is real or fake; ``torch`` the settings that torch ran under."""

    preset: str
    settings: Mapping[str, Any]
    batch_size: int
    samples: int
    precision: str
    device: str
    tensors: str
    seed: int
    steps: int
    warmup: int
    seconds: float
    data_in_step: bool = False
    torch: Mapping[str, Any] = field(default_factory=dict)


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
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Manifest:
        """The manifest of a dictionary in today's form; raises RecordError naming a field that is missing or odd."""
        try:
            values = dict(data)
            values["passes"] = {name: PassInfo(**info) for name, info in data["passes"].items()}
            values["notes"] = tuple(Note(**note) for note in data["notes"])
            return Manifest(**values)
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"The manifest is not one that wcbench wrote: {error}.") from error


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

    def table(self, name: str) -> pd.DataFrame:
        """A table as a data frame (columns: docs/record.md); one that was not recorded has no rows."""
        if name not in self._frames:
            self._frames[name] = _to_frame(self.arrow(name), name)
        return self._frames[name]

    def view(self, name: str, **options: Any) -> Any:
        """A derived result by its name in VIEWS: hotspots, categories, complexity, steps, notes, summary, ..."""
        return VIEWS.load(name)(self, **options)

    def _read(self, name: str) -> pa.Table:
        schema = table_schema(name).arrow()
        if self.path is None or name not in self.manifest.tables:
            return schema.empty_table()
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = self.path / f"{name}.parquet"
        try:
            table = pq.read_table(file)
        except (OSError, pa.ArrowException) as error:
            raise RecordError(f"{file} cannot be read: {error}.", "The record is damaged; profile again.") from error
        return _conform(_upgrade_table(name, table, self._version), schema)

    def save(self, folder: Path, *, force: bool = False) -> Profile:
        """Write the record to ``folder`` in one piece and return it as loaded from there.

        Raises
        ------
        RecordError : the folder exists and ``force`` is false, or the disk refuses.
        """
        check_free(folder, force=force)
        partial = folder.parent / f".{folder.name}.{secrets.token_hex(3)}.partial"
        try:
            partial.mkdir(parents=True)
            self._write_files(partial)
            _replace(partial, folder)
        except OSError as error:
            raise RecordError(
                f"{folder} could not be written: {error.strerror or error}.",
                "Nothing was left behind. Free some space or choose another place with --runs or -o.",
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return load(folder)

    def _write_files(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        for name in self.manifest.tables:
            pq.write_table(self.arrow(name), folder / f"{name}.parquet", compression="zstd")
        text = json.dumps(self.manifest.to_dict(), indent=1, allow_nan=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        return str(self.view("text"))

    def _repr_html_(self) -> str:
        return str(self.view("html"))


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


# --- where records lie ------------------------------------------------------------------------------------------


def runs_root(runs: str | Path | None = None) -> Path:
    """The folder of all runs: the argument, else the variable WCBENCH_RUNS, else ``runs``."""
    return Path(runs or os.environ.get(RUNS_VARIABLE) or "runs")


def run_name(task: str, variant: str | None) -> str:
    return task if variant is None else f"{task}@{variant}"


def run_folder(root: Path, manifest: Manifest) -> Path:
    """The default place of a record: ``root/<task>[@variant]/<UTC time>-<id>``."""
    stamp = re.sub(r"[-:]", "", manifest.created.replace("+00:00", "Z"))
    name = run_name(manifest.task, manifest.variant).replace(":", ".").replace("/", ".")
    return root / name / f"{stamp}-{manifest.id}"


def check_free(folder: Path, *, force: bool) -> None:
    """Raise RecordError if writing to the folder would overwrite something not asked for."""
    if not folder.exists():
        return
    if not force:
        raise RecordError(f"{folder} exists and is left as it is.", "Choose another place, or replace it with --force.")
    if not (folder.is_dir() and ((folder / MANIFEST).exists() or not any(folder.iterdir()))):
        raise RecordError(
            f"{folder} is not a record of wcbench, so --force does not replace it.", "Choose another place."
        )


def _replace(partial: Path, folder: Path) -> None:
    """Put the finished folder in its place; an old one there is removed only once the new one stands."""
    old = None
    if folder.exists():
        old = folder.parent / f".{folder.name}.{secrets.token_hex(3)}.old"
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old is not None:
            old.rename(folder)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def list_runs(root: Path) -> Iterator[Path]:
    """Folders of all records under a root, oldest first within each task."""
    if not root.is_dir():
        return
    for task in sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
        yield from sorted(p for p in task.iterdir() if not p.name.startswith(".") and (p / MANIFEST).is_file())


def find_run(run: str | Path, root: Path) -> Path:
    """The folder that RUN names: a path, ``task``, ``task:latest`` or ``task:<start of its name or id>``."""
    path = Path(run)
    if (path / MANIFEST).is_file():
        return path
    if path.name == MANIFEST and path.is_file():
        return path.parent
    task, _, which = str(run).partition(":")
    found = [p for p in list_runs(root) if p.parent.name == task]
    chosen = found if which in ("", "latest") else [p for p in found if which in (p.name, p.name.rpartition("-")[2])]
    if not chosen and which:
        chosen = [p for p in found if p.name.startswith(which) or p.name.rpartition("-")[2].startswith(which)]
    if not chosen:
        raise _no_run(run, root, found)
    return chosen[-1]


def _no_run(run: str | Path, root: Path, same_task: Sequence[Path]) -> UsageError:
    if Path(run).is_dir():
        return UsageError(f"{run} holds no {MANIFEST}, so it is no record.", "Give the folder that `profile` wrote.")
    if same_task:
        names = ", ".join(p.name for p in same_task[-5:])
        return UsageError(f"No record '{run}' under {root}.", f"There are: {names}.")
    tasks = sorted({p.parent.name for p in list_runs(root)})
    known = (
        f"There are records of: {', '.join(tasks)}." if tasks else "There are no records yet: `wcbench profile TASK`."
    )
    return UsageError(f"No record '{run}' under {root}.", known)


# --- reading, and what older versions need ----------------------------------------------------------------------


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
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RecordError(f"{file} is not valid JSON: {error}.", "The record is damaged; profile again.") from error
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror or error}.") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise RecordError(f"{file} names no schema version, so it is no record of wcbench.")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{folder} has schema version {version}; this wcbench reads up to {SCHEMA_VERSION}.", "Upgrade wcbench."
        )
    profile = Profile(Manifest.from_dict(_upgrade_manifest(data, version)), path=folder)
    profile._version = version
    return profile


@dataclass(frozen=True)
class Upgrade:
    """What leads from one schema version to the next: a step for the manifest, one for each table."""

    manifest: Callable[[dict[str, Any]], dict[str, Any]]
    table: Callable[[str, pa.Table], pa.Table]


def _manifest_1_to_2(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept notes as plain texts and did not say whether making the batch was part of the step."""
    return {**data, "notes": [{"about": "record", "text": text} for text in data["notes"]]}


def _table_1_to_2(name: str, table: pa.Table) -> pa.Table:
    """Version 1 told warm-up steps by a flag; since 2, `role` also knows steps timed without the instrument."""
    if name != "steps":
        return table
    import pyarrow.compute as pc

    role = pc.if_else(table["warmup"], "warmup", "measured")
    return table.drop_columns(["warmup"]).append_column("role", role)


UPGRADES: dict[int, Upgrade] = {1: Upgrade(_manifest_1_to_2, _table_1_to_2)}


def _upgrade_manifest(data: dict[str, Any], version: int) -> dict[str, Any]:
    for step in range(version, SCHEMA_VERSION):
        data = UPGRADES[step].manifest(data)
    return {**data, "schema_version": SCHEMA_VERSION}


def _upgrade_table(name: str, table: pa.Table, version: int) -> pa.Table:
    for step in range(version, SCHEMA_VERSION):
        table = UPGRADES[step].table(name, table)
    return table


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the schema's columns; optional ones that the file lacks become null."""
    import pyarrow as pa

    columns = []
    for wanted in schema:
        if wanted.name in table.column_names:
            columns.append(table[wanted.name].cast(wanted.type))
        elif wanted.nullable:
            columns.append(pa.nulls(table.num_rows, wanted.type))
        else:
            raise RecordError(f"A table lacks its column {wanted.name}.", "The record is damaged; profile again.")
    return pa.Table.from_arrays(columns, schema=schema)


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
