"""Anybody's own matrix as a feature table: a CSV of workloads x metrics, with a unit row or a sidecar.

The first column that is called ``workload`` (or the first of all) names the rows; ``suite``, ``family`` and ``cost``
are optional. Units stand in a row named ``unit`` (or an empty name) right below the header, or in a sidecar beside the
file: ``NAME.units.csv`` (columns metric, unit, and optionally transform, block, floor) or ``NAME.units.toml`` (a table
for each metric). What is not said is decided by the unit, and the result says so.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from wcbench.analysis.scales import HUGE
from wcbench.analysis.study_inputs import Group, Inputs
from wcbench.analysis.table import TRANSFORMS, Feature, FeatureTable
from wcbench.errors import ReadError, UnknownNameError, UsageError

WORKLOAD, SUITE, FAMILY, COST = "workload", "suite", "family", "cost"
KNOWN = (WORKLOAD, SUITE, FAMILY, COST)
MOST_BYTES = 2 * 2**30
EMPTY = ("", "na", "n/a", "nan", "null", "none", "-")
BYTES = ("b", "byte", "bytes", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib")
WORK = ("flop", "flops", "mac", "macs", "op", "ops", "flop/s", "b/s", "bytes/s", "mb/s", "gb/s")
COUNTS = ("count", "counts", "calls", "events", "instructions", "objects", "samples", "steps", "items", "lines")
FRACTIONS = ("fraction", "share", "ratio 0..1", "1")
FLOOR = 1e-3  # of a fraction: as far as a share that was printed can be told from none
SIDECARS = (".units.csv", ".units.toml")


@dataclass(frozen=True)
class Unit:
    """What is known of a metric; None where nothing is said."""

    unit: str = ""
    transform: str | None = None
    block: str | None = None
    floor: float | None = None


@dataclass(frozen=True)
class Read:
    """A table as it was read, and what was decided for it, in sentences."""

    table: FeatureTable
    notes: tuple[str, ...]


def table_inputs(file: Path, against: str | None = None) -> Inputs:
    """Inputs of a study of a CSV: all its workloads, or with ``against`` those that are not of that suite.

    Raises ReadError for what is no such table, UsageError for an unknown suite.
    """
    found = read_table(file)
    table = found.table
    names = tuple(sorted(map(str, table.values.index)))
    other = None
    if against is not None:
        ids = sorted({id for suites in table.suites.values() for id in suites})
        if not ids:
            raise UsageError(f"{file} tells no suite of any workload.", "Add a column suite, or leave --against out.")
        if against not in ids:
            raise UnknownNameError("suite of the table", against, ids)
        theirs = tuple(name for name in names if against in table.suites.get(name, ()))
        other = Group(against, against, theirs)
        names = tuple(name for name in names if against not in table.suites.get(name, ()))
        if not names:
            raise UsageError(f"Every workload of the table is of suite '{against}'.", "Name another with --against.")
    suites = sorted({id for name in names for id in table.suites.get(name, ())})
    title = suites[0] if len(suites) == 1 and other is not None else file.stem
    return Inputs(
        table=table,
        studied=Group(file.name, title, names),
        against=other,
        no_changes="a plain table holds no versions of its workloads; give the radius with --radius",
        classes={},
        notes=found.notes,
        provenance={"table": str(file), "bytes": file.stat().st_size},
    )


def read_table(file: Path) -> Read:
    """Read a CSV with its units. Empty cells, NA and the like are not measured; anything else must be a number.

    Raises ReadError, naming line and column, for a table that is damaged or holds nothing.
    """
    header, rows = _cells(file)
    names = _header(file, header)
    units, rows = _unit_row(names, rows)
    sidecar, told = _sidecar(file, [name for name in names if name not in KNOWN])
    if not rows:
        raise ReadError(f"{file} has no workloads.", "It takes a row a workload below the header.")
    labels = _labels(file, names, rows)
    columns = [name for name in names if name not in KNOWN]
    if not columns:
        raise ReadError(f"{file} has no metrics.", f"Every column but {', '.join(KNOWN)} is one.")
    values = {name: _numbers(file, rows, names.index(name), name) for name in columns}
    described = {name: sidecar.get(name) or Unit(units.get(name, "")) for name in columns}
    features = tuple(_feature(name, described[name], values[name]) for name in columns)
    costs = _costs(file, names, rows, labels)
    table = FeatureTable(
        values=pd.DataFrame(values, index=pd.Index(labels), dtype="float64"),
        features=features,
        reasons={
            (labels[i], name): "empty cell" for name, column in values.items() for i in np.flatnonzero(np.isnan(column))
        },
        suites=_texts(names, rows, labels, SUITE),
        families={name: found[0] for name, found in _texts(names, rows, labels, FAMILY).items()},
        costs=costs,
        cost_unit=units.get(COST, ""),
        cost_of="the column cost of the table" if costs else "",
        origins=dict.fromkeys(columns, "given"),
    )
    return Read(table, (*told, *_decisions(features, described)))


# --- cells ------------------------------------------------------------------------------------------------------------


def _cells(file: Path) -> tuple[list[str], list[list[str]]]:
    if not file.is_file():
        raise UsageError(f"There is no file {file}.", "Name a CSV of workloads x metrics.")
    if file.stat().st_size > MOST_BYTES:
        raise ReadError(f"{file} is larger than {MOST_BYTES // 2**30} GiB.", "Aggregate it first.")
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReadError(f"{file} is no CSV in UTF-8: {error}.", "Save it as CSV.") from error
    if not rows:
        raise ReadError(f"{file} is empty.", "It takes a header and a row a workload.")
    return [cell.strip() for cell in rows[0]], rows[1:]


def _header(file: Path, header: Sequence[str]) -> list[str]:
    """Names of the columns; the first is the workload's where none is called so."""
    names = [name.lower() if name.lower() in KNOWN else name for name in header]
    if WORKLOAD not in names:
        names[0] = WORKLOAD
    empty = [str(i + 1) for i, name in enumerate(names) if not name]
    twice = sorted({name for name in names if names.count(name) > 1})
    if empty or twice:
        what = f"columns without a name: {', '.join(empty)}" if empty else f"columns named twice: {', '.join(twice)}"
        raise ReadError(f"{file} has {what}.", "Every column needs a name of its own.")
    return names


def _unit_row(names: Sequence[str], rows: list[list[str]]) -> tuple[dict[str, str], list[list[str]]]:
    """Units of the second row, if it is one: named unit, units or not at all, and without a number but the unit 1."""
    if not rows:
        return {}, rows
    first = _padded(rows[0], len(names))
    label = first[names.index(WORKLOAD)].strip().lower()
    if label not in ("unit", "units", ""):
        return {}, rows
    cells = {name: cell.strip() for name, cell in zip(names, first, strict=True) if name != WORKLOAD}
    if any(_number(cell) is not None for cell in cells.values() if cell != "1"):
        return {}, rows  # a workload, be it called so
    if len(rows[0]) > len(names):
        raise ReadError(
            f"The row of units has {len(rows[0])} cells, and the header {len(names)}.", "Take out the others."
        )
    return cells, rows[1:]


def _padded(row: Sequence[str], width: int) -> list[str]:
    return [*row[:width], *[""] * (width - len(row))]


def _labels(file: Path, names: Sequence[str], rows: list[list[str]]) -> list[str]:
    place = names.index(WORKLOAD)
    for number, row in enumerate(rows, start=1):
        if len(row) > len(names):
            raise ReadError(
                f"Row {number} of {file} has {len(row)} cells, and the header {len(names)}.", "Quote cells with commas."
            )
    labels = [_padded(row, len(names))[place].strip() for row in rows]
    if "" in labels:
        raise ReadError(f"Row {labels.index('') + 1} of {file} has no name of a workload.", "Name every row.")
    return labels


def _numbers(file: Path, rows: list[list[str]], place: int, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        cell = row[place].strip() if place < len(row) else ""
        if cell.lower() in EMPTY:
            continue
        value = _number(cell)
        if value is None:
            raise ReadError(
                f"Row {i + 1} of {file}, column '{name}': {cell[:40]!r} is no number.",
                "Leave a cell empty where nothing was measured; texts belong into suite or family.",
            )
        found[i] = value
    return found


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _texts(
    names: Sequence[str], rows: list[list[str]], labels: Sequence[str], column: str
) -> dict[str, tuple[str, ...]]:
    """Texts of an optional column, several with semicolons between them."""
    if column not in names:
        return {}
    place = names.index(column)
    cells = [_padded(row, len(names))[place] for row in rows]
    split = [tuple(word.strip() for word in cell.split(";") if word.strip()) for cell in cells]
    return {label: words for label, words in zip(labels, split, strict=True) if words}


def _costs(file: Path, names: Sequence[str], rows: list[list[str]], labels: Sequence[str]) -> dict[str, float]:
    if COST not in names:
        return {}
    column = _numbers(file, rows, names.index(COST), COST)
    return {label: float(value) for label, value in zip(labels, column, strict=True) if math.isfinite(value)}


# --- units ------------------------------------------------------------------------------------------------------------


def _sidecar(file: Path, columns: Sequence[str]) -> tuple[dict[str, Unit], list[str]]:
    """Units of the sidecar, if there is one; a metric it names that the table lacks is told."""
    for suffix in SIDECARS:
        place = file.with_name(file.stem + suffix)
        if place.is_file():
            found = _sidecar_csv(place) if suffix.endswith("csv") else _sidecar_toml(place)
            strangers = sorted(set(found) - set(columns))
            told = [f"{place.name} names metrics that the table lacks: {', '.join(strangers)}"] if strangers else []
            return {name: unit for name, unit in found.items() if name in columns}, told
    return {}, []


def _sidecar_csv(place: Path) -> dict[str, Unit]:
    header, rows = _cells(place)
    names = [name.lower() for name in header]
    if "metric" not in names:
        raise ReadError(f"{place} has no column 'metric'.", "It takes metric, unit, and maybe transform, block, floor.")
    found = {}
    for row in rows:
        cells = {name: cell.strip() for name, cell in zip(names, _padded(row, len(names)), strict=True)}
        found[cells["metric"]] = _unit(place, cells["metric"], cells)
    return found


def _sidecar_toml(place: Path) -> dict[str, Unit]:
    try:
        data = tomllib.loads(place.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ReadError(f"{place} is no TOML: {error}.", 'One table a metric: ["name"] unit = "B".') from error
    wrong = sorted(name for name, entry in data.items() if not isinstance(entry, dict))
    if wrong:
        raise ReadError(f"{place}: {wrong[0]} is no table.", 'One table a metric: ["name"] unit = "B".')
    return {name: _unit(place, name, {key: str(value) for key, value in entry.items()}) for name, entry in data.items()}


def _unit(place: Path, metric: str, cells: Mapping[str, str]) -> Unit:
    transform, floor = cells.get("transform") or None, cells.get("floor") or None
    if transform is not None and transform not in TRANSFORMS:
        raise UnknownNameError(f"transform of {metric} in {place.name}", transform, TRANSFORMS)
    limit = None if floor is None else _number(floor)
    if floor is not None and limit is None:
        raise ReadError(f"{place}: the floor of {metric} is {floor!r}, no number.")
    return Unit(cells.get("unit", ""), transform, cells.get("block") or None, limit)


def _feature(name: str, said: Unit, column: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Feature:
    """The metric as a feature: what is not said is decided by the unit and by what the transform can take."""
    transform = said.transform or default_transform(said.unit, column)
    floor = said.floor
    if floor is None and transform == "logit":
        floor = FLOOR
    return Feature(name, said.unit, transform, said.block or name, floor)


def default_transform(unit: str, column: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """log10 of bytes, work and counts that are all above 0; logit of fractions within 0..1; else none."""
    known = column[np.isfinite(column) & (np.abs(column) < HUGE)]
    word = unit.strip().lower()
    if not len(known):
        return "none"
    if word in (*BYTES, *WORK, *COUNTS):
        return "log10" if (known > 0).all() else "none"
    if word in FRACTIONS and known.min() >= 0 and known.max() <= 1:
        return "logit"
    return "none"


def _decisions(features: Sequence[Feature], described: Mapping[str, Unit]) -> list[str]:
    """What was decided by default, in sentences."""
    notes = []
    for transform in ("log10", "logit", "none"):
        names = [f.name for f in features if f.transform == transform and described[f.name].transform is None]
        if names:
            how = {
                "log10": "log10 by their unit",
                "logit": f"logit, floor {FLOOR:g}, by their unit",
                "none": "as they are",
            }
            notes.append(f"{len(names)} metrics enter {how[transform]}, as nothing else is said: {_some(names)}")
    alone = [f.name for f in features if described[f.name].block is None]
    if alone:
        notes.append(
            f"{len(alone)} metrics are blocks of their own, as no block is said: each counts as much as another"
        )
    bare = [f.name for f in features if not f.unit]
    if bare:
        notes.append(f"{len(bare)} metrics have no unit: {_some(bare)}")
    return notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
