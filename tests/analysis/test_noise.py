"""Signs of a busy machine, one at a time, on records made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from wcbench.analysis.noise import noise
from wcbench.analysis.steps import step_times
from wcbench.record import Profile

MS = 1_000_000
CORES = {"cpu": {"usable_cores": 2}, "gpus": []}


def two_passes(made: Any, timing: list[int], bare: list[int], **info: Any) -> Profile:
    rows = {
        "timing": made.step_rows([d * MS for d in timing]),
        "timeline": [*made.step_rows([d * MS for d in bare], "bare"), *made.step_rows([2 * max(bare) * MS] * 2)],
    }
    passes = {"timing": made.info(**info), "timeline": made.info()}
    profile: Profile = made.record(passes, {"steps": rows})
    return profile


def test_a_quiet_record_has_none(made: Any) -> None:
    assert noise(two_passes(made, [100, 101, 102, 103], [100, 110])) == []


def test_tight_times_are_doubted_where_another_pass_disagrees(made: Any) -> None:
    """1,100 ms with tight quartiles in timing, 29 ms for the same steps in the timeline: a newcomer saw both."""
    found = noise(two_passes(made, [1100, 1101, 1102], [29, 29, 29]))
    assert [name for name, _ in found] == ["timeline"]
    assert "took 29 ms in timeline and 1.1e+03 ms in timing" in found[0][1]
    assert noise(two_passes(made, [20, 20, 20], [29, 29, 29])) == []  # a factor of 1.45 is let pass
    assert noise(two_passes(made, [20, 20, 20], [31, 31, 31])) != []  # 1.55 is not


def test_passes_of_other_conditions_are_not_compared(made: Any) -> None:
    assert noise(two_passes(made, [1100, 1101, 1102], [29, 29, 29], batch_size=8)) == []


def test_a_wide_spread(made: Any) -> None:
    # quartiles of 10, 20, 30, 40 are 17.5 and 32.5: 15 of 25
    found = noise(two_passes(made, [10, 20, 30, 40], [25, 25]))
    assert found == [("timing", "Step times are noisy: the quartiles lie 60 % of the median apart.")]


@pytest.mark.parametrize(("load", "told"), [(None, False), (2.0, False), (2.5, False), (2.6, True)])
def test_a_loaded_machine(made: Any, load: float | None, told: bool) -> None:
    import dataclasses

    profile = two_passes(made, [100, 101, 102], [100], load=load)
    profile.manifest = dataclasses.replace(profile.manifest, machine=CORES)
    assert bool(noise(profile)) == told


def test_where_steps_differ_in_kind_throughput_is_of_all_steps(made: Any) -> None:
    """Four critic steps of 2 ms and a generator's of 30 ms: 5 x 4 samples in 38 ms, not 4 in the median's 2 ms."""
    rows = [dict(row) for row in made.step_rows([2 * MS] * 4 + [30 * MS])]
    rows[-1]["kind"] = "generator"
    found = step_times(made.record({"timing": made.info()}, {"steps": {"timing": rows}}))["timing"]
    assert found.samples_per_s == pytest.approx(20 / 0.038)
