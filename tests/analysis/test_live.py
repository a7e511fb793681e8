"""Live bytes by hand, and what memory access says of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wcbench.analysis.live import CLASSES, live_bytes
from wcbench.analysis.memory import fusible_operators, memory
from wcbench.record import Profile


def of(made: Any, rows: Any, storages: Any) -> Profile:
    tables = {"operators": {"operators": rows}, "storages": {"operators": storages}}
    profile: Profile = made.record({"operators": made.info()}, tables)
    return profile


def test_three_storages_by_hand(made: Any) -> None:
    chain = [("aten::relu", "forward", None, True, 0, 0)] * 4
    storages = [
        made.storage_row(0, 100, "weight"),
        made.storage_row(1, 30, "activation", 0, 3),  # operators 0, 1 and 2
        made.storage_row(2, 7, "workspace", 2, 3),  # operator 2 alone
        made.storage_row(3, 50, "gradient", 3),
    ]
    found = live_bytes(of(made, made.operator_rows(chain), storages))
    assert found is not None
    assert found.total.tolist() == [130, 130, 137, 150]
    assert (found.peak_at, found.peak_bytes) == (3, 150)
    assert {k: v for k, v in found.peak_classes.items() if v} == {"weight": 100, "gradient": 50}
    assert list(found.peak_classes) == list(CLASSES)
    assert found.to_frame()["activation"].tolist() == [30, 30, 30, 0]
    assert found.sampled(2) == {
        "order": [0, 3],
        **{name: [0, 0] for name in CLASSES},
        "weight": [100, 100],
        "activation": [30, 0],
        "gradient": [0, 50],
    }


def test_the_last_step_alone_with_what_lives_on_from_before(made: Any) -> None:
    chain = [("aten::relu", "forward", None, True, 0, 0)] * 2
    rows = [row for step in range(2) for row in made.operator_rows(chain, step)]
    storages = [
        made.storage_row(0, 10, "workspace", 0, 1),  # gone before the last step
        made.storage_row(1, 20, "gradient", 1, 3),  # lives on into its first operator
        made.storage_row(2, 40, "gradient", 3),
    ]
    found = live_bytes(of(made, rows, storages))
    assert found is not None
    assert found.first == 2
    assert found.total.tolist() == [20, 40]


def test_a_storage_that_dies_at_its_birth_still_counts_nothing_negative(made: Any) -> None:
    chain = [("aten::relu", "forward", None, True, 0, 0)] * 2
    found = live_bytes(of(made, made.operator_rows(chain), [made.storage_row(0, 10, "workspace", 1, 2)]))
    assert found is not None
    assert found.total.tolist() == [0, 10]


def test_the_chain_of_the_full_record(full: Profile) -> None:
    found = live_bytes(full)
    assert found is not None
    assert found.total.tolist() == [80] + [120] * 9


def test_no_stream_is_none(made: Any) -> None:
    assert live_bytes(made.record({"operators": made.info()}, {})) is None
    assert memory(made.record({}, {})) is None


def test_memory_of_the_chain_by_hand(full: Profile) -> None:
    """Read from outside is the weight alone, left behind the gradient alone; all else stays inside."""
    found = memory(full)
    assert found is not None
    local = found.logical
    assert (local.operator_bytes, local.unique_bytes) == (800, 11 * 40)
    assert (local.live_in_bytes, local.live_out_bytes, local.compulsory_bytes) == (40, 40, 80)
    assert local.unplaced_bytes == 0
    assert local.traffic[-1] == 80
    assert (np.diff(local.traffic) <= 0).all()
    assert (np.diff(found.allocator.traffic) <= 0).all()
    assert found.parallelism.depth == 10
    # relu and tanh are neighbours, and pointwise; tanh_backward stands between products
    assert found.fused.groups == ((1, 2),)
    assert found.fused.bytes == 800 - 80


def test_gathers_have_no_place(made: Any) -> None:
    rows = [
        made.operator_row(0, [made.access(0, 5, kind="gather", shape=[100]), made.access(1, 5, write=True)]),
        made.operator_row(1, [made.access(1, 5), made.access(2, 5, write=True)]),
    ]
    storages = [
        made.storage_row(0, 400, "weight"),
        made.storage_row(1, 20, "workspace", 0, 2),
        made.storage_row(2, 20, "gradient", 1),
    ]
    found = memory(of(made, rows, storages))
    assert found is not None
    assert found.logical.unplaced_bytes == 20
    assert found.logical.unique_bytes == 20 + 20
    assert found.logical.traffic[-1] == found.logical.compulsory_bytes == 40


@pytest.mark.parametrize("write", [False, True])
def test_strided_accesses_are_their_runs(made: Any, write: bool) -> None:
    """Two rows of three floats, five apart: 24 bytes in two runs."""
    accessed = made.access(0, 6, write=write, kind="strided", shape=[2, 3], stride=[5, 1])
    found = memory(of(made, [made.operator_row(0, [accessed])], [made.storage_row(0, 200, "weight")]))
    assert found is not None
    assert (found.logical.touches, found.logical.unique_bytes, found.logical.unplaced_bytes) == (2, 24, 0)


def test_what_the_fusion_rule_sees(full: Profile) -> None:
    ops = fusible_operators(full)
    assert [op.pointwise for op in ops] == [False, True, True, False, False, False, False, True, False, False]
    assert ops[1].reads == {1: 40}
    assert ops[1].writes == {2: 40}
    assert {op.elements for op in ops} == {10}
