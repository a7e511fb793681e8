"""oneDNN primitives by hand (the rows stand in conftest.py)."""

from __future__ import annotations

from typing import Any

import pytest

from wcbench.analysis.hotspots import hotspots
from wcbench.analysis.primitives import primitives
from wcbench.record import Profile


def test_by_hand(full: Profile) -> None:
    found = primitives(full)
    assert found is not None
    assert (found.steps, found.total_ns) == (2, 250.0)
    assert found.rows[["primitive", "shape", "time_ns", "time_share", "calls"]].to_numpy().tolist() == [
        ["convolution", "mb4", 200.0, 0.8, 1.0],
        ["reorder", "8x3", 50.0, 0.2, 0.5],
    ]
    assert found.operator_share == pytest.approx(0.25)  # 250 of 1000 ns a step


def test_it_is_no_part_of_the_hotspots(full: Profile, made: Any) -> None:
    hot = hotspots(full)
    assert hot is not None
    assert not {"convolution", "reorder"} & set(hot.rows["name"])


@pytest.mark.parametrize("other", [{"preset": "tiny"}, {"batch_size": 8}, {"device": "cuda:0"}, None])
def test_no_share_against_a_timeline_of_another_size(made: Any, other: dict[str, Any] | None) -> None:
    passes = {"primitives": made.info()}
    tables = {"primitives": {"primitives": made.primitive_rows()}}
    if other is not None:
        passes["timeline"] = made.info(**other)
        tables["kernels"] = {"timeline": made.kernel_rows()}
    found = primitives(made.record(passes, tables))
    assert found is not None
    assert found.operator_share is None


def test_primitives_without_a_duration(made: Any) -> None:
    rows = [{**row, "duration_ns": 0} for row in made.primitive_rows()]
    found = primitives(made.record({"primitives": made.info()}, {"primitives": {"primitives": rows}}))
    assert found is not None
    assert found.rows["time_share"].tolist() == [0.0, 0.0]


def test_nothing_logged_is_none(made: Any) -> None:
    assert primitives(made.record({"primitives": made.info()}, {})) is None
    assert primitives(made.record({"timing": made.info()}, {})) is None
