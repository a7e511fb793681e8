"""Fixed and per-sample parts: lines by hand, and those of counted tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from wcbench.errors import UsageError
from wcbench.profilers.capture import Captured, Request, capture
from wcbench.profilers.scaling import Point, fit, scaling_columns
from wcbench.tasks.base import Built, Config, Settings, Task

Run = Callable[..., Captured]


def test_a_line_is_found_and_its_error_told() -> None:
    assert fit([8, 16, 32], [70, 110, 190]) == (pytest.approx(30), pytest.approx(5), pytest.approx(0))
    assert fit([8, 16], [70, 110])[:2] == (pytest.approx(30), pytest.approx(5))
    assert math.isnan(fit([8, 16], [70, 110])[2])
    fixed, per_sample, error = fit([1, 2, 3], [1, 2, 6])  # by hand: slope 5/2, mean 3 at 2
    assert (fixed, per_sample) == (pytest.approx(-2), pytest.approx(2.5))
    assert error == pytest.approx(0.5)  # 3 where 2 was recorded; 0.5 of 1 and of 6 less


def test_lengths_are_continued_on_a_straight_line() -> None:
    key = ("train", "all", "flops_matrix")
    points = [Point(length, n, {key: 3 * length + n * (5 + 7 * length)}) for length in (10, 20) for n in (1, 2, 4)]
    columns, doubts = scaling_columns(points, 100)
    assert doubts == []
    table = pd.DataFrame(columns).set_index("length")
    assert table["recorded"].to_dict() == {10: True, 20: True, 100: False}
    assert table.loc[100, "fixed"] == pytest.approx(3 * 100)
    assert table.loc[100, "per_sample"] == pytest.approx(5 + 7 * 100)
    assert table.loc[20, "values"] == [60 + n * 145 for n in (1, 2, 4)]


def whole(captured: Captured) -> pd.DataFrame:
    table = captured.tables["scaling"].to_pandas()
    return table[table["phase"] == "all"].set_index("quantity")


def test_an_mlps_work_is_per_sample_and_its_optimizers_is_not(run: Run, mlp: Task) -> None:
    captured = run(mlp, "operators")
    table = captured.tables["scaling"].to_pandas().astype({"phase": str, "quantity": str})
    rows = table.set_index(["phase", "quantity"])
    forward = rows.loc[("forward", "flops_matrix")]
    assert forward["per_sample"] == pytest.approx(2 * (16 * 32 + 32 * 8))
    assert forward["fixed"] == pytest.approx(0, abs=1e-6)
    assert list(forward["samples"]) == [4, 8, 16]
    optimizer = rows.loc[("optimizer", "bytes_written")]
    assert optimizer["per_sample"] == pytest.approx(0, abs=1e-9)
    assert optimizer["fixed"] > 0
    assert (table["error"] < 1e-9).all() or table.loc[table["error"] >= 1e-9, "quantity"].eq("live_peak_bytes").all()


def test_live_bytes_of_the_last_step_equal_the_analysis(run: Run, mlp: Task) -> None:
    from wcbench import record

    captured = run(mlp, "operators")
    made = record.new_profile(
        task="mlp",
        variant=None,
        suites=(),
        machine={},
        command=(),
        passes=captured.passes,
        tables=captured.tables,
        notes=(),
    )
    assert whole(captured).loc["live_peak_bytes", "values"][0] == made.view("memory").live.peak_bytes


def test_a_line_through_two_batches_is_the_same_where_it_is_exact_and_tells_no_error(mlp: Task) -> None:
    three = whole(capture(mlp, Request(passes=["operators"], preset="tiny")))
    captured = capture(mlp, Request(passes=["operators"], preset="tiny", factors=(1, 2)))
    two = whole(captured)
    straight = [name for name in three.index if three.loc[name, "error"] == 0]
    assert {"flops_all", "bytes_read", "bytes_written"} <= set(straight)
    for part in ("fixed", "per_sample"):
        assert two.loc[straight, part].tolist() == pytest.approx(three.loc[straight, part].tolist(), rel=1e-12)
    assert two["error"].isna().all()
    assert [len(samples) for samples in two["samples"]] == [2] * len(two)
    assert any("error of the lines over the batch is not known" in note.text for note in captured.notes)


def test_it_can_be_left_out(mlp: Task) -> None:
    captured = capture(mlp, Request(passes=["operators"], preset="tiny", scaling=False))
    assert "scaling" not in captured.tables


@dataclasses.dataclass(frozen=True)
class Long(Settings):
    frames: int = 50


class Unrolled(Task):
    """A recurrent net over frames of 3, state 5; the loop is unrolled."""

    presets: ClassVar[Any] = {"paper": Long(2), "small": Long(2), "tiny": Long(2, 4)}
    length = "frames"
    unrolled = (4, 8)

    def build(self, config: Config) -> Built:
        torch.manual_seed(0)
        cell = nn.RNNCell(3, 5)
        size, frames = config.settings.batch_size, config.settings.frames

        def step(batch: Tensor) -> Tensor:
            state = torch.zeros(size, 5)
            for frame in batch.unbind(1):
                state = cell(frame, state)
            return state.sum().detach()

        return Built(step, lambda index: torch.ones(size, frames, 3), {"cell": cell}, size)


def test_a_long_recurrence_is_counted_short_and_continued() -> None:
    captured = capture(Unrolled(), Request(passes=["operators"], preset="paper"))
    assert captured.passes["operators"].settings["frames"] == 8
    (note,) = [note.text for note in captured.notes if "frames" in note.text]
    assert note.startswith("Counted at frames 8 of 50")
    rows = captured.tables["scaling"].to_pandas().query("quantity == 'flops_matrix' and phase == 'all'")
    there = rows.set_index("length").loc[50]
    assert not there["recorded"]
    assert there["per_sample"] == pytest.approx(50 * 2 * (3 * 5 + 5 * 5))
    full = capture(Unrolled(), Request(passes=["operators"], preset="tiny"))
    assert full.passes["operators"].settings["frames"] == 4
    assert full.notes == []


def test_a_batch_that_a_task_cannot_double_costs_the_table_alone(run: Run, task_of: Any) -> None:
    def build(config: Config) -> Built:
        model = nn.Linear(4, 2)
        if config.settings.batch_size > 4:
            raise RuntimeError("only four")
        return Built(lambda x: model(x).sum().detach(), lambda i: torch.ones(4, 4), {"model": model}, 4)

    captured = run(task_of(build), "operators")
    assert "scaling" not in captured.tables
    assert captured.tables["operators"].num_rows
    (note,) = captured.notes
    assert note.text.startswith("No fixed and per-sample parts: ")
    assert "only four" in note.text


def test_a_continued_line_has_the_greater_error() -> None:
    key = ("train", "all", "flops_matrix")
    bent = [Point(20, n, {key: value}) for n, value in ((1, 1), (2, 2), (3, 6))]  # error 1/2, as above
    points = [*(Point(10, n, {key: n}) for n in (1, 2, 3)), *bent]
    table = pd.DataFrame(scaling_columns(points, 100)[0]).set_index("length")
    assert table["error"].to_dict() == {10: pytest.approx(0), 20: pytest.approx(0.5), 100: pytest.approx(0.5)}


def test_a_kind_that_some_batches_lack_has_no_line() -> None:
    key, rare = ("a", "all", "calls"), ("b", "all", "calls")
    points = [Point(None, 4, {key: 3, rare: 5}), Point(None, 8, {key: 3}), Point(None, 16, {key: 3})]
    columns, doubts = scaling_columns(points, None)
    assert columns["kind"] == ["a"]
    assert doubts == ["Steps of the kind b occur at some batch sizes only: table scaling has no line."]


def test_kinds_are_fitted_in_their_own_samples() -> None:
    key, own = ("a", "all", "calls"), ("b", "all", "calls")
    points = [Point(None, n, {key: 2 * n, own: 30 * n}, {"b": 10 * n}) for n in (1, 2, 4)]
    table = pd.DataFrame(scaling_columns(points, None)[0]).set_index("kind")
    assert table["per_sample"].to_dict() == {"a": pytest.approx(2), "b": pytest.approx(3)}
    assert table.loc["b", "samples"] == [10, 20, 40]


@pytest.mark.parametrize("unrolled", [(3, 3), (3,), (0, 4), (-2, 2)])
def test_lengths_that_make_no_line_are_refused(unrolled: tuple[int, ...]) -> None:
    class Wrong(Unrolled):
        pass

    Wrong.unrolled = unrolled  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"Task\.unrolled is .* not two different lengths"):
        capture(Wrong(), Request(passes=["operators"], preset="paper"))


def test_what_was_continued_stands_in_the_summary() -> None:
    from wcbench import record

    captured = capture(Unrolled(), Request(passes=["operators"], preset="paper"))
    made = record.new_profile(
        task="u", variant=None, suites=(), machine={}, command=(), passes=captured.passes, tables=captured.tables,
        notes=(),
    )  # fmt: skip
    found = made.view("summary")["complexity"]["continued"]
    assert (found["counted_length"], found["length"]) == (8, 50)
    assert found["flops_matrix_step"] == 2 * 50 * 2 * (3 * 5 + 5 * 5)  # two samples
    assert found["flops_matrix_forward_per_sample"] == pytest.approx(50 * 2 * (3 * 5 + 5 * 5))
