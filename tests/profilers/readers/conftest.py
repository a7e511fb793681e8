"""Run one reader on one file, without the rest of the import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from wcbench.profilers.readers.base import Head, PassFacts, Reader, Sink, Source
from wcbench.record import Loss


@dataclass
class Result:
    """What a reader put into its sink, tables as data frames."""

    sink: Sink
    tables: Mapping[str, pd.DataFrame]

    @property
    def losses(self) -> list[Loss]:
        return list(self.sink.losses)

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.sink.notes]

    @property
    def passes(self) -> Mapping[str, PassFacts]:
        return self.sink.passes


Run = Callable[[Reader, "Path | bytes | str"], Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(reader, path or content)``; asserts that the reader recognizes the file first."""
    count = 0

    def reading(reader: Reader, what: Path | bytes | str) -> Result:
        nonlocal count
        count += 1
        path = what if isinstance(what, Path) else tmp_path / f"file-{count}"
        if not isinstance(what, Path):
            path.write_bytes(what.encode() if isinstance(what, str) else what)
        source = Source(path, path.name)
        assert reader.recognizes(Head(source, source.head())), f"{reader.name} does not recognize {path.name}"
        folder = tmp_path / f"stage-{count}"
        folder.mkdir()
        sink = Sink(source.label, folder)
        try:
            reader.read(source, sink)
            sink.finish()
        finally:
            sink.close()
        found = {name: pq.read_table(folder / f"{name}.parquet").to_pandas() for name in sink.rows}
        return Result(sink, found)

    return reading
