"""Parameters, FLOPs and coverage by hand (the rows stand in conftest.py)."""

from __future__ import annotations

from typing import Any

from wcbench.analysis.complexity import complexity
from wcbench.record import Profile


def test_by_hand(full: Profile) -> None:
    found = complexity(full)
    assert found is not None
    assert found.samples == 8
    # a 10 x 5 weight met at two names, and a frozen bias of 10
    assert (found.params_total, found.params_trainable, found.params_bytes, found.params_shared) == (60, 50, 240, 50)
    assert found.flops_matrix == {"forward": 6000, "backward": 8000}
    assert (found.flops_matrix_forward, found.flops_matrix_step) == (6000, 14000)
    assert found.operator_calls == 10
    assert found.coverage_calls == 0.5  # 2 + 3 of 10
    assert found.coverage_matrix_calls == 5 / 6
    assert found.uncounted.to_dict("records") == [{"name": "mystery::gemm", "calls": 1}]


def test_calls_without_a_formula_add_up_over_phases(made: Any) -> None:
    rows = [{**row, "flops_matrix": None, "name": "mystery::gemm"} for row in made.count_rows() if row["matrix_class"]]
    rows[0]["phase"], rows[1]["phase"], rows[2]["phase"] = "forward", "backward", "optimizer"
    found = complexity(made.record({"complexity": made.info()}, {"operator_counts": {"complexity": rows}}))
    assert found is not None
    assert found.uncounted.to_dict("records") == [{"name": "mystery::gemm", "calls": 6}]
    assert (found.coverage_calls, found.coverage_matrix_calls) == (0.0, 0.0)
    assert found.flops_matrix_step == 0


def test_kinds_of_steps_do_not_add_up(made: Any) -> None:
    rows = [*made.count_rows("train"), *made.count_rows("discriminator")]
    found = complexity(made.record({"complexity": made.info()}, {"operator_counts": {"complexity": rows}}))
    assert found is not None
    assert found.flops_matrix_step == 14000
    assert found.operator_calls == 10


def test_no_pass_is_none(made: Any) -> None:
    assert complexity(made.record({"timing": made.info()}, {})) is None


def test_a_task_without_operators_or_parameters(made: Any) -> None:
    found = complexity(made.record({"complexity": made.info()}, {}))
    assert found is not None
    assert (found.params_total, found.params_bytes, found.flops_matrix_step, found.operator_calls) == (0, 0, 0, 0)
    assert found.coverage_calls is None
    assert found.coverage_matrix_calls is None
    assert "n/a" in repr(found)


def test_no_matrix_operators_have_no_coverage(made: Any) -> None:
    rows = [row for row in made.count_rows() if not row["matrix_class"]]
    found = complexity(made.record({"complexity": made.info()}, {"operator_counts": {"complexity": rows}}))
    assert found is not None
    assert found.coverage_calls == 0.0
    assert found.coverage_matrix_calls is None
