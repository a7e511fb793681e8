"""The objects of a long list: damage of every size costs time in proportion to the file. Expected values by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from wcbench.profilers.readers.base import Sink, Source
from wcbench.profilers.readers.json_array import MAX_ITEM, JsonArray

OPEN = '{"schema": "1", "nodes": ['


def ids(folder: Path, text: str) -> tuple[list[int], dict[str, int]]:
    """Ids of the objects found, and how many entries were lost for which reason."""
    path = folder / "file"
    path.write_text(text)
    sink = Sink("file", folder)
    found = [item["id"] for _, item in JsonArray(Source(path, "file"), sink, "nodes")]
    return found, {loss.why: loss.count for loss in sink.losses}


def test_offsets_and_the_keys_around(tmp_path: Path) -> None:
    items = [{"id": number, "values": [number] * 5000} for number in range(200)]  # more than a piece
    text = json.dumps({"schema": "1", "nodes": items, "finish": 7})
    path = tmp_path / "file"
    path.write_text(text)
    array = JsonArray(Source(path, "file"), Sink("file", tmp_path), "nodes")
    found = list(array)
    assert [item for _, item in found] == items
    assert all(text.startswith(f'{{"id": {item["id"]},', offset) for offset, item in found)
    assert array.around == {"schema": "1", "finish": 7}


@pytest.mark.parametrize(
    "damage",
    [
        '{"id":1,"values":[' + "[1,2]," * (MAX_ITEM // 4) + "1]}",  # larger than any entry
        '{"id":1,"x":[' * 100_000,  # deeper than Python goes, from each of its starts
        ('{"id":1,"x":[' * 300 + "!") * 1000,
        ('{"id":1,"x":[' + "1," * 20_000) * 50,
        '{"id":1,"n":[1,2],x},' * 50_000,
        '{"id":1,"name":"' + '\\"' * 2_000_000,
    ],
    ids=["large", "deep", "nested", "open", "many", "string"],
)
def test_damage_takes_no_time_to_the_square(tmp_path: Path, damage: str) -> None:
    began = time.process_time()
    found, lost = ids(tmp_path, f"{OPEN}{damage}")
    assert found == []
    assert lost
    assert time.process_time() - began < 10


def test_entries_behind_a_large_and_damaged_ones_are_found(tmp_path: Path) -> None:
    large = '{"id":1,"n":[' + "1," * 1_000_000 + "1]}"
    bad = '{"id":2,x},' * 3000
    found, lost = ids(tmp_path, f'{OPEN}{large},{bad}{{"id":3,"n":[]}},{bad}{{"id":4}}]}}')
    assert found == [1, 3, 4]
    assert lost == {"it is no valid JSON": 6000}


def test_an_entry_whose_list_is_not_closed_costs_none_of_the_others(tmp_path: Path) -> None:
    rest = ",".join(json.dumps({"id": number, "n": [number] * 50}) for number in range(1, 20_000))
    found, lost = ids(tmp_path, f'{OPEN}{{"id":0,"n":[1,{rest}')
    assert found == list(range(1, 20_000))
    assert lost["it is no valid JSON"] == 1
