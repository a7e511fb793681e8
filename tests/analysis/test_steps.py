"""Step times: quartiles, overhead and losses by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wcbench.analysis.steps import StepTimes, step_times
from wcbench.analysis.summary import notes
from wcbench.record import Profile

MS = 1_000_000


def timed(made: Any, durations: list[int], **changes: Any) -> StepTimes:
    profile = made.record({"timing": made.info(**changes)}, {"steps": {"timing": made.step_rows(durations)}})
    found: StepTimes = step_times(profile)["timing"]
    return found


@pytest.mark.parametrize(
    ("durations", "quartiles"),
    [
        ([100, 1, 4, 2, 3], (2, 3, 4)),
        ([10, 20, 30, 40], (17.5, 25, 32.5)),  # linear between neighbours
        ([7], (7, 7, 7)),
        ([2, 4], (2.5, 3, 3.5)),
    ],
)
def test_quartiles(made: Any, durations: list[int], quartiles: tuple[float, float, float]) -> None:
    found = timed(made, [d * MS for d in durations])
    assert found.quartiles_ns == pytest.approx([q * MS for q in quartiles])
    assert found.median_ns == quartiles[1] * MS
    assert found.samples_per_s == pytest.approx(4 / (quartiles[1] / 1000))
    assert found.spread == pytest.approx((quartiles[2] - quartiles[0]) / quartiles[1])


def test_only_measured_steps_count(full: Profile) -> None:
    assert step_times(full)["timing"].durations_ns == (1 * MS, 2 * MS, 3 * MS, 4 * MS, 100 * MS)
    assert step_times(full)["timeline"].durations_ns == (1250, 1250)


def test_case_99_overhead_is_with_over_without(full: Profile) -> None:
    found = step_times(full)
    assert found["timing"].overhead == 1
    assert found["timeline"].overhead == 1250 / 1000  # medians of (1250, 1250) and of (500, 3000, 1000)
    assert found["primitives"].overhead == 5000 / 1000
    assert found["memory"].overhead is None  # no bare steps
    assert "operators" not in found  # counts, and times nothing


def test_losses_are_the_first_and_last_measured(made: Any) -> None:
    rows = [*made.step_rows([9], "warmup", [5.0]), *made.step_rows([1, 1, 1], "measured", [3.0, 7.0, 2.0])]
    found = step_times(made.record({"timing": made.info()}, {"steps": {"timing": rows}}))["timing"]
    assert (found.loss_first, found.loss_last) == (3.0, 2.0)
    rows = made.step_rows([1, 1], "measured", [None, 2.0])
    found = step_times(made.record({"timing": made.info()}, {"steps": {"timing": rows}}))["timing"]
    assert (found.loss_first, found.loss_last) == (None, 2.0)


def test_no_steps_at_all(made: Any) -> None:
    assert step_times(made.record({"timing": made.info()}, {})) == {}
    warm = made.record({"timing": made.info()}, {"steps": {"timing": made.step_rows([1], "warmup")}})
    assert step_times(warm) == {}


def test_nanoseconds_stay_whole(made: Any) -> None:
    assert timed(made, [2**53 + 1]).durations_ns == (2**53 + 1,)


@pytest.mark.parametrize(("durations", "noisy"), [([100, 100, 101], False), ([100, 200, 300], True)])
def test_noisy_times_are_noted(made: Any, durations: list[int], noisy: bool) -> None:
    profile = made.record({"timing": made.info()}, {"steps": {"timing": made.step_rows(durations)}})
    texts = [note.text for note in notes(profile)]
    assert texts == (["Step times are noisy: the quartiles lie 50 % of the median apart."] if noisy else [])


@pytest.mark.parametrize(("bare", "noted"), [(1000, False), (1010, False), (4000, True)])
def test_an_instrument_that_seems_to_speed_up_is_noted(made: Any, bare: int, noted: bool) -> None:
    rows = [*made.step_rows([bare] * 3, "bare"), *made.step_rows([1000] * 3)]
    profile = made.record({"timeline": made.info()}, {"steps": {"timeline": rows}})
    assert step_times(profile)["timeline"].overhead == 1000 / bare  # told as it was measured
    texts = [note.text for note in notes(profile) if note.about == "timeline"]
    assert len(texts) == noted
    assert not noted or "0.25" in texts[0]
