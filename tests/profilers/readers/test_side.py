"""A second process that decodes its share: the same tables, whatever it does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wcbench.profilers.readers import events as events_module
from wcbench.profilers.readers import source as source_module
from wcbench.profilers.readers.base import Sink, Source
from wcbench.profilers.readers.kineto import EXTRACT, Kineto
from wcbench.profilers.readers.side import Side
from wcbench.record import Loss

EVENTS = 24_000


def trace(tail: str = ', "schemaVersion": 1') -> str:
    """Operators on two threads, the first around the second's time; 3 MB, so that the file is cut into some pieces."""
    rows = [
        {
            "ph": "X", "cat": "cpu_op", "name": f"aten::op{number % 17}", "pid": 1, "tid": 1 + number % 2,
            "ts": 10 * number, "dur": 7, "args": {"External id": number, "Sequence number": number // 2},
        }
        for number in range(EVENTS)
    ]  # fmt: skip
    return '{"traceEvents": [\n' + ",\n".join(map(json.dumps, rows)) + f"\n]{tail}}}"


def read(text: str, folder: Path, cores: int) -> tuple[dict[str, Any], tuple[Loss, ...], dict[str, Any]]:
    """Tables, losses and facts of a trace."""
    import pyarrow.parquet as pq

    folder.mkdir()
    file = folder / "trace.json"
    file.write_text(text)
    sink = Sink("trace.json", folder)
    try:
        Kineto().read(Source(file, "trace.json", cores=cores), sink)
        sink.finish()
    finally:
        sink.close()
    tables = {path.stem: pq.read_table(path).to_pydict() for path in folder.glob("*.parquet")}
    return tables, tuple(sink.losses), sink.facts


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "LARGE", 0)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Pieces that the second process was given."""
    pieces: list[bytes] = []
    submit = Side.submit

    def counted(self: Side, piece: bytes) -> Any:
        pieces.append(piece)
        return submit(self, piece)

    monkeypatch.setattr(Side, "submit", counted)
    return pieces


def _cut(text: str) -> str:
    return text[: len(text) * 2 // 3]


def _damaged(text: str) -> str:
    """A control character in a name, and an event that is none, far apart."""
    third = text.index('"aten::op3"', len(text) // 3)
    late = text.index('{"ph"', len(text) * 3 // 4)
    return text[: third + 3] + "\x01" + text[third + 3 : late] + "{oops}, " + text[late:]


def _long_tail(_: str) -> str:
    """What the file says of itself behind its events reaches over several pieces."""
    padding = json.dumps([{"name": number, "b": ", {"} for number in range(80_000)])  # begins as events do
    return trace(f', "padding": {padding}, "nccl_version": 7, "more": {padding}, "cuda_version": 12')


@pytest.mark.parametrize("change", [str, _cut, _damaged, _long_tail])
def test_two_processes_give_what_one_gives(change: Callable[[str], str], tmp_path: Path, given: list[bytes]) -> None:
    text = change(trace())
    alone = read(text, tmp_path / "one", 1)
    assert not given
    shared = read(text, tmp_path / "two", 2)
    assert given
    assert shared == alone
    assert len(alone[0]["ops"]["name"]) > EVENTS // 2


def test_the_tail_behind_several_pieces_is_read(tmp_path: Path) -> None:
    assert read(_long_tail(""), tmp_path / "two", 2)[2]["versions"] == {"nccl_version": 7, "cuda_version": 12}


def test_a_second_list_of_events_is_told(tmp_path: Path) -> None:
    losses = read(trace(', "traceEvents": [{"ph": "X"}, {"ph": "X"}]'), tmp_path / "one", 1)[1]
    assert [(loss.what, loss.count) for loss in losses] == [("an event", 2)]
    assert "second list of traceEvents" in losses[0].why


def test_a_second_process_that_dies_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = read(trace(), tmp_path / "one", 1)

    class Dying(Side):
        def submit(self, piece: bytes) -> Any:
            future = super().submit(piece)
            os.kill(self._process.pid, signal.SIGKILL)
            return future

    monkeypatch.setattr(events_module, "Side", Dying)
    assert read(trace(), tmp_path / "two", 2) == alone


def test_it_is_gone_when_the_file_ends_or_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[Side] = []

    class Kept(Side):
        def __init__(self, target: str) -> None:
            super().__init__(target)
            started.append(self)

    monkeypatch.setattr(events_module, "Side", Kept)
    read(trace(), tmp_path / "two", 2)
    with pytest.raises(Exception, match="holds no list"):
        read('{"nothing": 1}', tmp_path / "none", 2)
    assert [side._process.returncode is not None for side in started] == [True, True]


def test_a_small_file_or_one_core_starts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.json"
    file.write_text("[]")
    assert not Source(file, "x", cores=1).worth_a_second_process
    assert Source(file, "x", cores=2).worth_a_second_process
    monkeypatch.setattr(source_module, "LARGE", 100)
    assert not Source(file, "x", cores=2).worth_a_second_process


def test_a_piece_that_it_cannot_do_is_told() -> None:
    side = Side(EXTRACT)
    try:
        assert isinstance(side.submit(b"[oops]").exception(30), ChildProcessError)
        assert side.submit(b'[{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 2}]').result(30).parts[0].count == 1
    finally:
        side.close()
