"""Sorting on disk against `sorted`, and rows patched in their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wcbench.profilers.readers import spill
from wcbench.profilers.readers.spill import RowFile, Sorter

ROW = np.dtype([("a", "i4"), ("b", "i8"), ("order", "i8"), ("text", "f8")])
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)
WIDE = st.integers(-2, 2) | st.integers(-(1 << 62), 1 << 62)


def rows_of(pairs: list[tuple[int, int]], first: int = 0) -> Any:
    rows = np.zeros(len(pairs), ROW)
    for place, (a, b) in enumerate(pairs):
        rows[place] = (a, b, first + place, (first + place) / 8)
    return rows


def filled(path: Path, keys: list[tuple[str, bool]], pairs: list[tuple[int, int]], batch: int) -> Sorter:
    sorter = Sorter(path, ROW, keys)
    for first in range(0, len(pairs), batch):
        sorter.add(rows_of(pairs[first : first + batch], first))
    return sorter


def asked(sorter: Sorter) -> list[tuple[Any, ...]]:
    return [tuple(row) for batch in sorter for row in batch.tolist()]


@FUZZ
@given(
    pairs=st.lists(st.tuples(NUMBERS, WIDE), max_size=200),
    run=st.integers(1, 60),
    batch=st.integers(1, 40),
    falls=st.tuples(st.booleans(), st.booleans()),
)
def test_rows_come_as_sorted_gives_them(
    pairs: list[tuple[int, int]], run: int, batch: int, falls: tuple[bool, bool], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "RUN", run)
        sorter = filled(tmp_path / "rows", [("a", falls[0]), ("b", falls[1]), ("order", False)], pairs, batch)
        assert sorter.rows == len(pairs)
        found = asked(sorter)
    signs = [-1 if fall else 1 for fall in falls]
    numbered = [(a, b, place) for place, (a, b) in enumerate(pairs)]
    expected = sorted(numbered, key=lambda row: (signs[0] * row[0], signs[1] * row[1], row[2]))
    assert [row[:3] for row in found] == expected
    assert all(row[3] == row[2] / 8 for row in found), "each row keeps its other fields"
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize("share", [1, 3, 1 << 10])
def test_many_runs_are_merged_piece_by_piece(share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1,500 rows in runs of 100 that are read `share` rows at a time (the share has a floor of 1024 rows otherwise)
    monkeypatch.setattr(spill, "RUN", 100)
    monkeypatch.setattr(spill, "max", lambda floor, count: min(share, max(floor, count)), raising=False)
    random = np.random.default_rng(0)
    pairs = [
        (int(a), int(b)) for a, b in zip(random.integers(-5, 5, 1500), random.integers(-50, 50, 1500), strict=True)
    ]
    sorter = filled(tmp_path / "rows", [("a", False), ("b", True), ("order", False)], pairs, 30)
    expected = sorted(range(1500), key=lambda i: (pairs[i][0], -pairs[i][1], i))
    assert [row[2] for row in asked(sorter)] == expected


@pytest.mark.parametrize("share", [1, 2, 1 << 10])
def test_equal_rows_keep_the_order_in_which_they_came(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "RUN", 8)
    monkeypatch.setattr(spill, "max", lambda floor, count: min(share, max(floor, count)), raising=False)
    sorter = filled(tmp_path / "rows", [("a", False), ("b", True), ("order", False)], [(1, -1)] * 100, 3)
    assert [row[2] for row in asked(sorter)] == list(range(100))


def test_an_empty_sorter_gives_nothing(tmp_path: Path) -> None:
    assert asked(filled(tmp_path / "rows", [("a", False), ("order", False)], [], 1)) == []
    sorter = Sorter(tmp_path / "rows", ROW, [("a", False), ("order", False)])
    sorter.add(rows_of([]))
    assert asked(sorter) == []


def test_batches_are_bounded_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "RUN", 4096)
    pairs = [(place * 7919 % 20_000, place) for place in range(20_000)]
    sorter = filled(tmp_path / "rows", [("a", False), ("order", False)], pairs, 1000)
    assert max(len(batch) for batch in sorter) <= 2 * 4096


# --- rows in their place --------------------------------------------------------------------------------------------


@FUZZ
@given(
    count=st.integers(1, 50),
    patches=st.lists(st.tuples(st.integers(0, 49), st.sampled_from(["a", "b"]), st.integers(-1000, 1000)), max_size=30),
    size=st.integers(1, 60),
)
def test_patches_add_to_one_field_of_one_row(
    count: int, patches: list[tuple[int, str, int]], size: int, tmp_path: Path
) -> None:
    file = RowFile(tmp_path / "rows", ROW)
    expected = rows_of([(place - 5, 10 * place) for place in range(count)])
    half = count // 2
    assert file.append(expected[:half]) == 0
    early = [patch for patch in patches if patch[0] < half]
    late = [patch for patch in patches if half <= patch[0] < count]
    for row, field, add in early:
        file.patch(row, field, add)
    assert file.append(expected[half:]) == half  # what is appended after a patch goes to the end all the same
    for row, field, add in late:
        file.patch(row, field, add)
    for row, field, add in early + late:
        expected[field][row] += add
    assert file.rows == count
    assert np.concatenate(list(file.batches(size))).tolist() == expected.tolist()
    assert file.mapped().tolist() == expected.tolist()
    file.close()
    assert not (tmp_path / "rows").exists()


def test_a_file_without_rows_maps_to_nothing(tmp_path: Path) -> None:
    file = RowFile(tmp_path / "rows", ROW)
    assert len(file.mapped()) == 0
    assert list(file.batches()) == []
    file.close()
