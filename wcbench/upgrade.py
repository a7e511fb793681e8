"""What older versions of the record need, one step from each schema version to the next, applied while reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wcbench.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

DAMAGED = "The record is damaged; profile or import again."


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


def _unchanged(data: dict[str, Any]) -> dict[str, Any]:
    return data


def _same_table(name: str, table: pa.Table) -> pa.Table:
    """Version 2 recorded operators of one kind of step alone; since 3, `PassInfo.step_kinds` weighs several."""
    return table


def _table_3_to_4(name: str, table: pa.Table) -> pa.Table:
    """Version 3 knew ranks of kernels alone; since 4, imported files bring those of steps, operators and calls."""
    if name not in ("steps", "ops", "runtime"):
        return table
    import numpy as np

    return table.append_column("rank", [np.zeros(table.num_rows, np.int64)])


UPGRADES: dict[int, Upgrade] = {
    1: Upgrade(_manifest_1_to_2, _table_1_to_2),
    2: Upgrade(_unchanged, _same_table),
    3: Upgrade(_unchanged, _table_3_to_4),
}


def upgrade_manifest(data: dict[str, Any], version: int) -> dict[str, Any]:
    for step in range(version, SCHEMA_VERSION):
        data = UPGRADES[step].manifest(data)
    return {**data, "schema_version": SCHEMA_VERSION}


def upgrade_table(name: str, table: pa.Table, version: int) -> pa.Table:
    for step in range(version, SCHEMA_VERSION):
        table = UPGRADES[step].table(name, table)
    return table


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the schema's columns; optional ones that the file lacks become null."""
    import pyarrow as pa

    columns = []
    for wanted in schema:
        if wanted.name in table.column_names:
            column = table[wanted.name].cast(wanted.type)
            if column.null_count and not wanted.nullable:
                raise ValueError(f"its column {wanted.name} has {column.null_count} nulls")
            columns.append(column)
        elif wanted.nullable:
            columns.append(pa.nulls(table.num_rows, wanted.type))
        else:
            raise KeyError(f"it lacks the column {wanted.name}")
    return pa.Table.from_arrays(columns, schema=schema)
