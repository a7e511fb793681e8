"""The schema: every column documented, and a table that does not fit it refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from wcbench.errors import RecordError, UnknownNameError
from wcbench.schema import SCHEMA_VERSION, TABLES, TableSchema, table_schema, to_arrow

EXACT = 1796052111433335499  # nanoseconds since 1970 in the year 2026; the nearest float64 is 53 away

STEPS: dict[str, list[Any]] = {
    "rank": [0, 0],
    "index": [0, 1],
    "role": ["warmup", "measured"],
    "kind": ["train", "train"],
    "duration_ns": [EXACT, 5],
    "samples": [16, 16],
}


def test_the_tables_are_pinned() -> None:
    assert list(TABLES) == [
        "steps",
        "kernels",
        "ops",
        "runtime",
        "primitives",
        "parameters",
        "operators",
        "storages",
        "scaling",
        "lookups",
        "memory",
        "power",
        "totals",
        "counters",
        "trainings",
        "epochs",
        "allocations",
        "memory_curve",
    ]


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_column_is_documented_and_named_by_its_unit(table: TableSchema) -> None:
    assert table.row
    names = table.column_names()
    assert names[0] == "pass"
    assert len(set(names)) == len(names)
    units = {"_ns": "ns", "_bytes": "B", "_hz": "Hz", "_j": "J", "_c": "degC"}
    for column in table.columns:
        assert column.meaning
        assert column.type in {"int", "float", "bool", "text", "ints", "tensors", "accesses"}
        wanted = {unit for suffix, unit in units.items() if column.name.endswith(suffix)}
        assert not wanted or {column.unit} == wanted, column.name


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_arrow_fields_carry_unit_meaning_and_version(table: TableSchema) -> None:
    schema = table.arrow()
    assert schema.metadata == {
        b"wcbench.table": table.name.encode(),
        b"wcbench.schema_version": str(SCHEMA_VERSION).encode(),
    }
    for column, field in zip(table.columns, schema, strict=True):
        assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}
        assert field.nullable != column.required


def test_an_unknown_table_suggests() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown table 'kernel'\.\nDid you mean 'kernels'"):
        table_schema("kernel")
    with pytest.raises(UnknownNameError):
        to_arrow("kernel", {})


def test_pass_is_filled_and_absent_optional_columns_are_null() -> None:
    table = to_arrow("steps", STEPS, "timing")
    assert table.column_names == ["pass", "rank", "index", "role", "kind", "duration_ns", "samples", "loss"]
    assert table["pass"].to_pylist() == ["timing", "timing"]
    assert table["loss"].to_pylist() == [None, None]
    assert table["duration_ns"].to_pylist() == [EXACT, 5]


def test_a_pass_that_is_given_wins() -> None:
    assert to_arrow("steps", {**STEPS, "pass": ["a", "b"]}, "timing")["pass"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    "values", [[EXACT, 5], (EXACT, 5), np.array([EXACT, 5]), pd.Series([EXACT, 5]), pa.array([EXACT, 5])]
)
def test_any_sequence_is_taken_exactly(values: Any) -> None:
    assert to_arrow("steps", {**STEPS, "duration_ns": values}, "p")["duration_ns"].to_pylist() == [EXACT, 5]


def test_nan_is_null() -> None:
    assert to_arrow("steps", {**STEPS, "loss": [float("nan"), 1.5]}, "p")["loss"].to_pylist() == [None, 1.5]


def test_no_rows_need_no_columns() -> None:
    assert to_arrow("steps", {}).num_rows == 0
    assert to_arrow("steps", {"index": []}, "p").schema == TABLES["steps"].arrow()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": [1, 2], "age": [3, 4]}, r"Table steps has no column age, colour\."),
        ({"role": None}, r"Table steps lacks its column role\."),
        ({"duration_ns": [1, None]}, r"Table steps, column duration_ns: 1 of 2 values are null\."),
        ({"role": ["warmup", None]}, r"Table steps, column role: 1 of 2 values are null\."),
        ({"samples": [1, 2, 3]}, r"Table steps, column samples: 3 values, 2 expected\."),
        ({"loss": [1.0]}, r"Table steps, column loss: 1 values, 2 expected\."),
        ({"duration_ns": [1.5, 2.0]}, "Table steps, column duration_ns: "),
        ({"duration_ns": ["fast", "slow"]}, "Table steps, column duration_ns: "),
        ({"duration_ns": [2**63, 0]}, "Table steps, column duration_ns: "),
        ({"duration_ns": [float("inf"), 0.0]}, "Table steps, column duration_ns: "),
        ({"role": [1, 2]}, "Table steps, column role: "),
        ({"pass": ["p", None]}, r"Table steps, column pass: 1 of 2 values are null\."),
    ],
)
def test_what_does_not_fit_is_refused_by_table_and_column(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        to_arrow("steps", {**STEPS, **changes}, "p")


def test_rows_without_a_pass_are_refused() -> None:
    with pytest.raises(RecordError, match=r"Table steps, column pass: 2 of 2 values are null\."):
        to_arrow("steps", STEPS)
