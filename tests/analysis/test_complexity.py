"""Parameters, FLOPs, bytes and coverage by hand (the rows stand in conftest.py)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from wcbench.analysis.complexity import complexity
from wcbench.record import Profile


def made_of(made: Any, rows: Any) -> Any:
    found = complexity(made.record({"operators": made.info()}, {"operators": {"operators": rows}}))
    assert found is not None
    return found


def test_by_hand(full: Profile) -> None:
    found = complexity(full)
    assert found is not None
    assert found.samples == 8
    # a 10 x 5 weight met at two names, and a frozen bias of 10
    assert (found.params_total, found.params_trainable, found.params_bytes, found.params_shared) == (60, 50, 240, 50)
    assert found.flops_matrix == {"forward": 6000, "backward": 8000}
    assert (found.flops_matrix_forward, found.flops_matrix_step, found.flops_matrix_half) == (6000, 14000, 14000)
    assert found.flops_all == {"forward": 6040, "backward": 8030}
    assert found.flops_all_step == 14070
    assert (found.bytes_read, found.bytes_written) == (400, 400)
    assert found.operator_calls == 10
    assert (found.coverage_calls, found.coverage_bytes) == (0.9, 0.9)
    assert found.uncounted.to_dict("records") == [{"name": "mystery::gemm", "calls": 1}]


def test_rows_by_operator_and_phase_add_up(full: Profile) -> None:
    found = complexity(full)
    assert found is not None
    rows = found.to_frame()
    assert rows["calls"].sum() == found.operator_calls
    assert rows["flops_all"].sum() == found.flops_all_step
    assert rows["bytes_read"].sum() == found.bytes_read
    assert rows.iloc[0].to_dict() == {
        "name": "aten::mm",
        "phase": "backward",
        "calls": 3,
        "flops_matrix": 8000,
        "flops_all": 8000,
        "bytes_read": 120,
        "bytes_written": 120,
    }
    assert rows["flops_all"].is_monotonic_decreasing


def test_calls_without_a_formula_add_up_over_phases(made: Any) -> None:
    chain = [("mystery::gemm", phase, None, False, 0, 0) for phase in ("forward", "forward", "backward", "optimizer")]
    found = made_of(made, made.operator_rows([*chain, ("mystery::fft", "forward", None, False, 0, 0)]))
    assert found.uncounted.to_dict("records") == [
        {"name": "mystery::gemm", "calls": 4},
        {"name": "mystery::fft", "calls": 1},
    ]
    assert (found.coverage_calls, found.coverage_bytes, found.flops_matrix_step) == (0.0, 0.0, 0)
    assert "0.0 % of the operator calls have a formula" in repr(found)


def test_coverage_by_bytes_is_not_coverage_by_calls(made: Any) -> None:
    rows = [
        made.operator_row(0, [made.access(0, 30), made.access(1, 30, write=True)]),
        made.operator_row(1, [made.access(1, 10), made.access(2, 10, write=True)], covered=False, flops_all=None),
    ]
    found = made_of(made, rows)
    assert (found.coverage_calls, found.coverage_bytes) == (0.5, 0.75)


def test_case_39_steps_do_not_add_up(made: Any) -> None:
    """Figures are of one step, the last, however many were recorded."""
    once, twice = (made_of(made, [r for s in range(n) for r in made.operator_rows(step=s)]) for n in (1, 2))
    assert (once.flops_matrix_step, once.operator_calls) == (14000, 10)
    assert (twice.flops_matrix_step, twice.operator_calls, twice.bytes_read) == (14000, 10, once.bytes_read)
    pd.testing.assert_frame_equal(once.operators, twice.operators)


def test_case_28_causal_attention_in_both_conventions(made: Any) -> None:
    row = made.operator_row(0, [made.access(0)], flops_matrix=100, flops_matrix_half=60, flops_all=130)
    found = made_of(made, [row])
    assert (found.flops_matrix_step, found.flops_matrix_half, found.flops_all_step) == (100, 60, 130)


def test_no_pass_is_none(made: Any) -> None:
    assert complexity(made.record({"timing": made.info()}, {})) is None


@pytest.mark.parametrize("tables", [{}, {"operators": {"operators": []}}], ids=["no table", "no rows"])
def test_a_task_without_operators_or_parameters(made: Any, tables: Any) -> None:
    found = complexity(made.record({"operators": made.info()}, tables))
    assert found is not None
    assert (found.params_total, found.params_bytes, found.flops_matrix_step, found.operator_calls) == (0, 0, 0, 0)
    assert found.coverage_calls is None
    assert found.coverage_bytes is None
    assert found.to_frame().empty
    assert "n/a" in repr(found)
