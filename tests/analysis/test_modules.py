"""Work by module: the rows of depth 0 are the step, and a parent holds what runs below it."""

from __future__ import annotations

from typing import Any

import pytest

from wcbench.analysis.modules import OUTSIDE, modules
from wcbench.record import Profile


def test_by_hand(full: Profile) -> None:
    found = modules(full)
    assert found is not None
    rows = found.to_frame().set_index("module")
    assert rows["calls"].to_dict() == {OUTSIDE: 1, "model": 9, "model.a": 6, "model.a.act": 2, "model.head": 2}
    assert rows["flops_matrix"].to_dict() == {
        OUTSIDE: 0,
        "model": 14000,
        "model.a": 9000,
        "model.a.act": 0,
        "model.head": 5000,
    }
    assert rows["flops_all"].to_dict() == {
        OUTSIDE: 10,
        "model": 14060,
        "model.a": 9050,
        "model.a.act": 40,
        "model.head": 5010,
    }
    assert rows["depth"].to_dict() == {OUTSIDE: 0, "model": 0, "model.a": 1, "model.a.act": 2, "model.head": 1}
    assert (rows["bytes_read"] == 40 * rows["calls"]).all()
    # model.a holds a weight of 50 and a bias of 10; the head has the same weight under another name
    assert rows["params"].to_dict() == {OUTSIDE: 0, "model": 60, "model.a": 60, "model.a.act": 0, "model.head": 50}
    assert "99.9 %  model\n" in repr(found) + "\n"


def test_case_47_the_roots_are_the_whole_step(full: Profile) -> None:
    found = modules(full)
    assert found is not None
    roots = found.rows[found.rows["depth"] == 0]
    assert roots["share"].sum() == pytest.approx(1)
    assert roots["calls"].sum() == 10
    assert roots["flops_all"].sum() == 14070


def test_parents_hold_their_children(full: Profile) -> None:
    found = modules(full)
    assert found is not None
    rows = found.rows.set_index("module")
    for path in rows.index:
        parent = path.rpartition(".")[0]
        if parent and path != OUTSIDE:
            columns = ["calls", "flops_matrix", "flops_all", "bytes_read", "bytes_written", "params"]
            assert (rows.loc[parent, columns] >= rows.loc[path, columns]).all()


def test_a_step_without_flops_has_no_shares(made: Any) -> None:
    rows = made.operator_rows([("aten::relu", "forward", "model", True, 0, 0)])
    found = modules(made.record({"operators": made.info()}, {"operators": {"operators": rows}}))
    assert found is not None
    assert found.rows["share"].tolist() == [0.0]


def test_no_pass_is_none(made: Any) -> None:
    assert modules(made.record({}, {})) is None
