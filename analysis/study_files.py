"""A study as plain data: one JSON document and tables, written whole and read back without computing anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wcbench.errors import RecordError
from wcbench.files import write_whole

SCHEMA = "wcbench.study/1"
DOCUMENT, TABLES = "study.json", "tables"


def plain(value: Any) -> Any:
    """JSON's own types: no numpy, tuples as lists, what is no finite number as None, a frame as its rows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str) or value is pd.NA:
        return None if value is pd.NA else value
    return _of_many(value)


def _of_many(value: Any) -> Any:
    """The same for what holds several values."""
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    elif isinstance(value, pd.Series):
        value = value.to_dict()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with texts in place of lists, and names in place of an index that says something."""
    found = frame.copy()
    if found.index.nlevels == 1 and found.index.name is None and pd.api.types.is_integer_dtype(found.index.dtype):
        found = found.reset_index(drop=True)  # places, maybe with gaps
    else:
        found = found.reset_index(names=[name or "workload" for name in found.index.names])
    found.columns = [str(column) for column in found.columns]
    for column in found.columns:
        if found[column].map(lambda item: isinstance(item, list | tuple | set | frozenset)).any():
            found[column] = found[column].map(_joined)
    return found


def _joined(item: Any) -> Any:
    return ", ".join(map(str, item)) if isinstance(item, list | tuple | set | frozenset) else item


def write(folder: Path, document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
    """Write the tables (Parquet for machines, CSV for people), then the document, each whole."""
    for old in (folder / TABLES).glob("*"):
        if old.suffix in (".parquet", ".csv") and old.stem not in tables:
            old.unlink()  # of the study that stood here before
    for name, frame in tables.items():
        write_whole(folder / TABLES / f"{name}.parquet", lambda file, frame=frame: frame.to_parquet(file, index=False))  # type: ignore[misc]
        write_whole(folder / TABLES / f"{name}.csv", lambda file, frame=frame: frame.to_csv(file, index=False))  # type: ignore[misc]
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(folder / DOCUMENT, lambda file: file.write_text(text + "\n", encoding="utf-8"))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Document and tables of a folder; RecordError where it holds no whole study of this version."""
    file = folder / DOCUMENT
    if not file.is_file():
        raise RecordError(f"{folder} holds no {DOCUMENT}, so it is no finished study.", "Make one: `wcbench study`.")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise RecordError(f"{file} cannot be read: {error}.", "Make the study again; its parts are kept.") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise RecordError(f"{file} is of schema {found!r}, not {SCHEMA}.", "Make the study again with this version.")
    tables = {}
    for name in document["tables"]:
        try:
            tables[name] = pd.read_parquet(folder / TABLES / f"{name}.parquet")
        except Exception as error:
            raise RecordError(
                f"Table '{name}' of {folder} cannot be read: {error}.", "Make the study again."
            ) from error
    return document, tables
