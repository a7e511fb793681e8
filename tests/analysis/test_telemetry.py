"""Memory and power: increases, means and energies by hand, nulls included."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from wcbench.analysis.telemetry import measured_memory, power
from wcbench.record import Profile


def test_memory_by_hand(full: Profile) -> None:
    found = measured_memory(full)
    assert found is not None
    assert found.device == "cpu"
    assert found.peak_bytes == 450  # during the warm-up
    assert found.increase_bytes == 350  # over the 100 in use at the start
    assert found.rows["moment"].tolist() == ["start", "built", "warmup", "steps"]


def test_memory_of_the_device_that_stepped(made: Any) -> None:
    device = [
        {"moment": "start", "device": "cuda:0", "current_bytes": 0, "peak_bytes": 0, "reserved_bytes": 0},
        {"moment": "steps", "device": "cuda:0", "current_bytes": 30, "peak_bytes": 70, "reserved_bytes": 96},
    ]
    profile = made.record(
        {"memory": made.info(device="cuda:0")}, {"memory": {"memory": [*made.memory_rows(), *device]}}
    )
    found = measured_memory(profile)
    assert found is not None
    assert (found.device, found.peak_bytes, found.increase_bytes) == ("cuda:0", 70, 70)


def test_peaks_that_are_not_known_are_none(made: Any) -> None:
    rows = [{**row, "peak_bytes": None} for row in made.memory_rows()]
    found = measured_memory(made.record({"memory": made.info()}, {"memory": {"memory": rows}}))
    assert found is not None
    assert found.peak_bytes is None
    assert found.increase_bytes is None
    assert "unknown" in repr(found)


def test_nothing_measured_is_none(made: Any) -> None:
    profile = made.record({"memory": made.info(), "timing": made.info()}, {})
    assert measured_memory(profile) is None
    assert power(profile) is None


def test_power_by_hand(full: Profile) -> None:
    found = power(full)
    assert found is not None
    row = found.rows.iloc[0]
    assert (row["device"], row["samples"], row["seconds"]) == (0, 3, 2.0)
    assert (row["watts_mean"], row["watts_max"]) == (200.0, 300.0)  # of 100 and 300; the reading between is missing
    assert row["energy_counter_j"] == 400.0  # 410 - 10
    assert row["energy_integrated_j"] == 400.0  # from 100 W straight to 300 W over 2 s
    assert row["energy_per_sample_j"] == 400 / 20  # 5 measured steps of 4 samples; the warm-up is none of them
    assert row["utilization_mean"] == pytest.approx(2 / 3)  # 0.5, 1, 0.5
    assert (row["memory_used_bytes_max"], row["sm_clock_hz_mean"], row["temperature_c_max"]) == (9, 1e9, 60.0)


def test_case_93_a_device_without_readings_is_null_and_not_zero(full: Profile) -> None:
    found = power(full)
    assert found is not None
    row = found.rows.iloc[1]
    assert (row["device"], row["samples"]) == (1, 1)
    assert row.drop(["device", "samples"]).isna().all()


def test_energy_per_sample_falls_back_to_integrated_power(made: Any) -> None:
    rows = [{**row, "energy_j": None} for row in made.power_rows() if row["device"] == 0]
    profile = made.record(
        {"timing": made.info()}, {"power": {"timing": rows}, "steps": {"timing": made.step_rows([1, 1])}}
    )
    found = power(profile)
    assert found is not None
    row = found.rows.iloc[0]
    assert pd.isna(row["energy_counter_j"])
    assert row["energy_per_sample_j"] == 400 / 8


def test_power_without_steps_has_no_energy_per_sample(made: Any) -> None:
    found = power(made.record({"timing": made.info()}, {"power": {"timing": made.power_rows()}}))
    assert found is not None
    assert pd.isna(found.rows.iloc[0]["energy_per_sample_j"])
    assert found.rows.iloc[0]["energy_counter_j"] == 400.0
