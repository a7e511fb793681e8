"""GPU telemetry through the real binding (pynvml) over a stand-in for NVIDIA's library, and the energy arithmetic.

The stand-in (tests/native/fake_nvml.c) is found first through LD_LIBRARY_PATH, which only a new process reads; so
everything that touches NVML runs in a child and answers in JSON. That includes `machine.describe`'s GPUs.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wcbench.energy import counter_energy, integrate_energy, power_span_s
from wcbench.errors import UsageError
from wcbench.profilers.power import PowerSampler, visible_devices

HERE = Path(__file__).resolve().parent
Child = Callable[..., Any]

# Samples until every device has `count` rows, then prints what there is.
SAMPLE = """
import json, sys, threading, time
import wcbench.profilers.power as power
from wcbench.energy import counter_energy, integrate_energy
from wcbench.profilers.power import PowerSampler
count, devices, interval = json.loads(sys.argv[1])
with PowerSampler(interval, devices) as sampler:
    late = time.monotonic() + 20
    while count and len(sampler.samples) < count * max(1, len(sampler.nvml_indices)) and time.monotonic() < late:
        time.sleep(0.002)
import pynvml
print(json.dumps({
    "samples": sampler.samples, "notes": sampler.notes, "indices": sampler.nvml_indices,
    "threads": [thread.name for thread in threading.enumerate()],
    "open": pynvml.nvmlLib.fake_nvml_open() if pynvml.nvmlLib else None,
    "integrated": integrate_energy(sampler.samples), "counted": counter_energy(sampler.samples),
}))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the compiled stand-in."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have a C compiler on Linux: the NVML tests need one")
        pytest.skip("the NVML stand-in needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(HERE / "native/fake_nvml.c")]
    subprocess.run(command, check=True)
    return folder


def run_child(folder: Path, code: str, *arguments: Any, **settings: Any) -> Any:
    dropped = ("FAKE_NVML_", "CUDA_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    for key, value in settings.items():
        environment[key if key.startswith("CUDA_") else f"FAKE_NVML_{key}"] = str(value)
    environment["LD_LIBRARY_PATH"] = str(folder)
    command = [sys.executable, "-W", "error", "-c", code, json.dumps(arguments)]
    done = subprocess.run(
        command, env=environment, cwd=HERE.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def sample(library: Path) -> Child:
    """Sample in a child: rows a device to wait for, CUDA indices, interval; the stand-in's settings by keyword."""

    def call(count: int = 4, devices: list[int] | None = None, interval: float = 0.005, **settings: Any) -> Any:
        return run_child(library, SAMPLE, count, devices, interval, **settings)

    return call


def values(result: Any, column: str, device: int = 0) -> list[Any]:
    return [row[column] for row in result["samples"] if row["device"] == device]


# Through the binding


def test_every_counter_arrives_in_si_units(sample: Child) -> None:
    result = sample()
    row = dict(result["samples"][0])
    assert isinstance(row.pop("time_ns"), int)
    assert row == {
        "device": 0,
        "watts": 100.0,  # 100000 mW
        "energy_j": 5000.0,  # 5000000 mJ
        "utilization": 0.75,  # 75 %
        "memory_utilization": 0.4,
        "memory_used_bytes": 1 << 30,
        "sm_clock_hz": 1_200_000_000,  # 1200 MHz
        "memory_clock_hz": 1_500_000_000,
        "temperature_c": 61.0,
    }


def test_constant_power_integrates_to_watts_times_seconds(sample: Child) -> None:
    result = sample(count=6)
    times = values(result, "time_ns")
    assert len(times) >= 6
    assert times == sorted(times)
    assert result["integrated"] == pytest.approx(100 * (times[-1] - times[0]) / 1e9, rel=1e-9)


def test_samples_follow_the_calls_in_order(sample: Child) -> None:
    watts = values(sample(count=5, POWER_MW=50_000, POWER_STEP_MW=10_000), "watts")
    assert watts == [50.0 + 10.0 * n for n in range(len(watts))]


def test_both_energies_are_reported_even_where_they_disagree(sample: Child) -> None:
    # Each read moves the counter by 2 J, whatever the time: n samples count 2 * (n - 1) J.
    result = sample(count=6, ENERGY_STEP_MJ=2000)
    assert result["counted"] == pytest.approx(2.0 * (len(result["samples"]) - 1))
    times = values(result, "time_ns")
    assert result["integrated"] == pytest.approx(100 * (times[-1] - times[0]) / 1e9, rel=1e-9)
    assert result["notes"] == []


def test_a_counter_that_follows_the_power_agrees_with_the_integral(sample: Child) -> None:
    # 100 W both ways; the two readings of a row are a call apart, and the counter has steps of 1 mJ.
    result = sample(count=12, interval=0.02, ENERGY_RATE_MW=100_000)
    assert result["counted"] == pytest.approx(result["integrated"], rel=0.1)


def test_a_short_window_still_holds_the_sample_of_its_entry_and_of_its_exit(sample: Child) -> None:
    result = sample(count=0, interval=10.0)
    assert len(result["samples"]) == 2
    assert result["integrated"] > 0


def test_times_are_nanoseconds_since_the_epoch(library: Path) -> None:
    code = """
import json, time
from wcbench.profilers.power import PowerSampler
before = time.time_ns()
with PowerSampler(10.0) as sampler:
    pass
print(json.dumps([before, *[row["time_ns"] for row in sampler.samples], time.time_ns()]))
"""
    before, first, last, after = run_child(library, code)
    slack = 50_000_000  # the host's clock may be slewed meanwhile
    assert before - slack <= first <= last <= after + slack


@pytest.mark.parametrize(
    ("code", "words"), [(3, "does not report it"), (4, "refuses it to this user"), (77, "A code from the future")]
)
def test_a_missing_counter_is_null_with_its_reason(sample: Child, code: int, words: str) -> None:
    result = sample(ENERGY_RC=code)
    assert set(values(result, "energy_j")) == {None}
    assert result["counted"] is None
    (note,) = result["notes"]
    assert note.startswith("Device 0: energy counter is missing: ")
    assert words in note
    assert result["integrated"] > 0


def test_each_missing_counter_has_its_own_note(sample: Child) -> None:
    notes = sample(MEMORY_RC=3, UTILIZATION_RC=3)["notes"]
    assert [note.split(" is missing")[0] for note in notes] == [
        "Device 0: utilization",
        "Device 0: memory utilization",
        "Device 0: memory in use",
    ]


def test_zero_watts_is_no_reading(sample: Child) -> None:
    result = sample(COUNT=2, POWER_MW_1=0)  # case 93: the second die shows 0 W
    assert set(values(result, "watts", 1)) == {None}
    assert set(values(result, "watts", 0)) == {100.0}
    assert result["integrated"] is None  # the sum would lack a die
    assert any("Device 1: power is missing" in note and "0 W" in note for note in result["notes"])


def test_a_failure_in_passing_costs_one_sample(sample: Child) -> None:
    result = sample(count=6, BLINK_AT=2)
    watts = values(result, "watts")
    assert watts[2] is None
    assert set(watts[:2] + watts[3:]) == {100.0}
    assert result["notes"] == [f"Device 0: power is missing in 1 of {len(watts)} samples: NVML says: Timeout."]
    times = values(result, "time_ns")
    assert result["integrated"] == pytest.approx(100 * (times[-1] - times[0]) / 1e9, rel=1e-9)


def test_a_device_that_dies_does_not_disturb_the_other(sample: Child) -> None:
    result = sample(count=8, COUNT=2, LOST_AFTER_1=3)
    watts = values(result, "watts", 1)
    assert watts[:3] == [100.0] * 3
    assert set(watts[3:]) == {None}
    assert set(values(result, "watts", 0)) == {100.0}
    assert any(note.startswith("Device 1: power is missing in") and "lost" in note for note in result["notes"])
    assert not any(note.startswith("Device 0") for note in result["notes"])


def test_two_devices_are_kept_apart(sample: Child) -> None:
    result = sample(COUNT=2, POWER_MW_0=100_000, POWER_MW_1=250_000)
    assert set(values(result, "watts", 0)) == {100.0}
    assert set(values(result, "watts", 1)) == {250.0}
    spans = [values(result, "time_ns", d)[-1] - values(result, "time_ns", d)[0] for d in (0, 1)]
    assert result["integrated"] == pytest.approx((100 * spans[0] + 250 * spans[1]) / 1e9, rel=1e-9)


def test_only_the_devices_asked_for_are_sampled(sample: Child) -> None:
    result = sample(devices=[1, 5], COUNT=2)
    assert {row["device"] for row in result["samples"]} == {1}
    assert result["notes"] == ["Power of cuda:5 was not measured: 2 devices are visible."]


def test_cuda_visible_devices_is_followed(sample: Child) -> None:
    result = sample(devices=[0], COUNT=3, CUDA_VISIBLE_DEVICES="2,0", POWER_MW_2=300_000, ENERGY_RC_2=3)
    assert result["indices"] == {"0": 2}
    assert set(values(result, "watts", 2)) == {300.0}
    assert result["notes"][0].startswith("Device 2 (cuda:0): energy counter is missing")


def test_a_uuid_selects_a_device(sample: Child) -> None:
    assert sample(COUNT=3, CUDA_VISIBLE_DEVICES="GPU-2")["indices"] == {"0": 1}


def test_no_visible_device_is_said(sample: Child) -> None:
    result = sample(count=0, CUDA_VISIBLE_DEVICES="")
    assert result["samples"] == []
    assert result["notes"] == ["Power was not measured: CUDA_VISIBLE_DEVICES= leaves no device to sample."]
    assert result["open"] == 0


def test_unlike_devices_may_be_counted_otherwise_by_cuda(sample: Child) -> None:
    unlike = {"COUNT": 2, "NAME_1": "Fake T4"}
    assert any("CUDA_DEVICE_ORDER" in note for note in sample(**unlike)["notes"])
    assert sample(**unlike, CUDA_DEVICE_ORDER="PCI_BUS_ID")["notes"] == []


def test_averaged_power_is_called_doubtful_in_a_short_window(sample: Child) -> None:
    (note,) = sample(CAPABILITY=90)["notes"]
    assert note.startswith("Device 0: the driver reports power as a mean over 1 s")
    assert sample(CAPABILITY=70)["notes"] == []


@pytest.mark.parametrize(("step", "words"), [(0, "did not move"), (-1000, "ran backward")])
def test_a_counter_that_does_not_count_gives_no_energy(sample: Child, step: int, words: str) -> None:
    result = sample(ENERGY_STEP_MJ=step)
    assert result["counted"] is None
    (note,) = result["notes"]
    assert f"the energy counter {words}" in note


def test_older_drivers_give_the_temperature_by_the_older_call(sample: Child) -> None:
    result = sample(TEMPERATUREV_RC=13)  # FUNCTION_NOT_FOUND
    assert set(values(result, "temperature_c")) == {59.0}


def test_nothing_is_left_behind(sample: Child) -> None:
    result = sample()
    assert result["threads"] == ["MainThread"]
    assert result["open"] == 0


@pytest.mark.parametrize(("code", "words"), [(9, "driver is not loaded"), (18, "different versions"), (4, "refuses")])
def test_nvml_that_does_not_start_is_one_note(sample: Child, code: int, words: str) -> None:
    result = sample(count=0, INIT=code)
    assert result["samples"] == []
    assert result["integrated"] is None
    assert result["counted"] is None
    (note,) = result["notes"]
    assert note.startswith("Power was not measured: ")
    assert words in note
    assert result["threads"] == ["MainThread"]


def test_a_machine_without_devices_is_one_note(sample: Child) -> None:
    assert sample(count=0, COUNT=0)["notes"] == ["Power was not measured: NVML lists no device."]


def test_a_machine_without_the_library_is_one_note(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")  # hides a real one: loading stops at a broken file
    result = run_child(tmp_path, SAMPLE, 0, None, 0.01)
    assert result["samples"] == []
    (note,) = result["notes"]
    assert note.startswith("Power was not measured: NVML's library was not found")


def test_an_exception_in_the_body_passes_and_the_last_sample_is_taken(library: Path) -> None:
    code = """
import json, threading
from wcbench.profilers.power import PowerSampler
try:
    with PowerSampler(10.0) as sampler:
        raise ValueError("the step failed")
except ValueError as error:
    print(json.dumps([str(error), len(sampler.samples), threading.active_count()]))
"""
    assert run_child(library, code) == ["the step failed", 2, 1]


def test_a_driver_that_hangs_is_given_up(library: Path) -> None:
    code = """
import json, time
import wcbench.profilers.power as power
power._JOIN_S = 0.05
with power.PowerSampler(0.001) as sampler:
    time.sleep(0.1)  # the thread is now inside a read of 1.5 s
print(json.dumps([len(sampler.samples), sampler.notes[0]]))
"""
    count, note = run_child(library, code, SLOW_MS=1500)
    assert count == 1
    assert note == "The driver did not answer within 0.05 s; the last samples are missing."


def test_a_sampler_serves_again(library: Path) -> None:
    code = """
import json
from wcbench.profilers.power import PowerSampler
sampler, seen = PowerSampler(10.0), []
for _ in range(2):
    with sampler:
        pass
    seen.append(len(sampler.samples))
print(json.dumps(seen))
"""
    assert run_child(library, code) == [2, 2]


def test_torch_is_not_loaded(library: Path) -> None:
    code = """
import json, sys
import wcbench.machine
from wcbench.profilers.power import PowerSampler
early = "pynvml" in sys.modules
with PowerSampler(10.0):
    wcbench.machine.describe()
print(json.dumps([early, "torch" in sys.modules]))
"""
    assert run_child(library, code) == [False, False]


# The machine's GPUs, through the same stand-in

DESCRIBE = """
import json
from wcbench.machine import describe
found = describe()
print(json.dumps([found["gpus"], found["gpus_reason"]]))
"""


def test_the_machine_lists_its_gpus(library: Path) -> None:
    gpus, reason = run_child(library, DESCRIBE, COUNT=2, NAME_1="Fake H100", CAPABILITY_1=90)
    assert reason is None
    assert gpus[0] == {
        "index": 0,
        "name": "Fake A100",
        "memory_bytes": 80 * 2**30,
        "driver": "550.54.15",
        "cuda_driver": "12.4",  # 12040
        "pci": "00000000:3B:00.0",
        "power_limit_w": 400.0,
        "compute_capability": "8.0",
        "max_sm_clock_hz": 1_410_000_000,
        "max_memory_clock_hz": 1_593_000_000,
        "mig_enabled": False,
        "reasons": {},
    }
    assert (gpus[1]["name"], gpus[1]["compute_capability"], gpus[1]["pci"]) == ("Fake H100", "9.0", "00000000:3C:00.0")


def test_what_a_gpu_keeps_back_is_null_with_its_reason(library: Path) -> None:
    (gpu,), _ = run_child(library, DESCRIBE, LIMIT_RC=4, MEMORY_RC=3)
    assert gpu["power_limit_w"] is None
    assert "refuses" in gpu["reasons"]["power_limit_w"]
    assert gpu["memory_bytes"] is None
    assert "does not report" in gpu["reasons"]["memory_bytes"]


def test_no_gpu_has_a_reason(library: Path) -> None:
    assert run_child(library, DESCRIBE, INIT=9) == [[], "the NVIDIA driver is not loaded (NVML: Driver Not Loaded)"]
    assert run_child(library, DESCRIBE, COUNT=0) == [[], "NVML lists no device"]


# CUDA_VISIBLE_DEVICES

UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33"]


@pytest.mark.parametrize(
    ("setting", "indices"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("1", [1]),
        ("0,-1,1", [0]),  # CUDA ends the list there
        ("-1", []),
        ("", []),
        ("1gpu", [1]),
        ("GPU-bb", [2]),
        ("GPU-bb33,GPU-aa11", [2, 0]),
        ("gpu-AA22", [1]),
    ],
)
def test_visible_devices(setting: str | None, indices: list[int]) -> None:
    assert visible_devices(setting, UUIDS) == (indices, [])


@pytest.mark.parametrize(
    ("setting", "indices", "words"),
    [
        ("0,7,1", [0], "NVML lists 3 device(s)"),
        ("GPU-aa", [], "2 devices have UUIDs that begin so"),
        ("GPU-cc", [], "no device has this UUID"),
        ("MIG-1234", [], "whole devices, not of a MIG instance"),
        ("first", [], "neither a number nor a UUID"),
        ("1,1", [], "names device 1 twice"),
    ],
)
def test_what_cannot_be_followed_is_noted(setting: str, indices: list[int], words: str) -> None:
    found, (note,) = visible_devices(setting, UUIDS)
    assert found == indices
    assert words in note


# Energy by hand

SECOND = 1_000_000_000
EPOCH = 1_760_000_000 * SECOND  # as large as real times, where float64 no longer holds nanoseconds


def rows(*readings: tuple[float, Any], column: str = "watts", device: int = 0) -> list[dict[str, Any]]:
    return [{"device": device, "time_ns": EPOCH + round(at * SECOND), column: value} for at, value in readings]


def test_trapezoid_by_hand() -> None:
    # (100 + 200) / 2 * 1 + (200 + 100) / 2 * 2 = 150 + 300
    assert integrate_energy(rows((0, 100.0), (1, 200.0), (3, 100.0))) == pytest.approx(450.0, rel=1e-12)


def test_nanoseconds_are_subtracted_before_they_become_floats() -> None:
    # 1 W for 100 ns; as floats the two times would be equal.
    assert integrate_energy(rows((0, 1.0), (100e-9, 1.0))) == pytest.approx(100e-9, rel=1e-12)


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert integrate_energy(rows((3, 100.0), (0, 100.0), (1, 200.0))) == pytest.approx(450.0, rel=1e-12)


@pytest.mark.parametrize("gap", [None, math.nan])
def test_a_gap_is_bridged_by_a_straight_line_and_the_edges_are_not_extended(gap: float | None) -> None:
    samples = rows((0, gap), (1, 100.0), (2, gap), (3, 200.0), (9, gap))
    assert integrate_energy(samples) == pytest.approx(300.0, rel=1e-12)  # (100 + 200) / 2 * 2
    assert power_span_s(samples) == pytest.approx(2.0)


@pytest.mark.parametrize("samples", [[], rows((0, 100.0)), rows((0, 100.0), (1, None)), rows((1, 5.0), (1, 5.0))])
def test_without_two_readings_and_time_there_is_no_energy(samples: list[dict[str, Any]]) -> None:
    assert integrate_energy(samples) is None
    assert power_span_s(samples) is None


def test_devices_add_up_or_the_sum_is_unknown() -> None:
    one, two = rows((0, 100.0), (2, 100.0)), rows((0, 50.0), (2, 50.0), device=1)
    assert integrate_energy([*one, *two]) == pytest.approx(300.0, rel=1e-12)  # 200 + 100
    assert integrate_energy([*one, *rows((0, None), (2, None), device=1)]) is None


def joules(*values: float | None, device: int = 0) -> list[dict[str, Any]]:
    return rows(*enumerate(values), column="energy_j", device=device)


def test_counter_by_hand() -> None:
    assert counter_energy(joules(5000.0, 5040.5, 5187.0)) == pytest.approx(187.0)
    assert counter_energy(joules(None, 5000.0, None, 5187.0, None)) == pytest.approx(187.0)
    assert counter_energy([*joules(5.0, 9.0), *joules(1.0, 3.0, device=1)]) == pytest.approx(6.0)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        joules(5000.0),
        joules(None, None),
        joules(5000.0, 4000.0),  # reset
        joules(5000.0, 10.0, 6000.0),  # reset, and past the start again
        joules(5000.0, 5000.0),  # never 0
        [*joules(5.0, 9.0), *joules(None, None, device=1)],
    ],
)
def test_a_counter_that_cannot_tell_gives_none(samples: list[dict[str, Any]]) -> None:
    assert counter_energy(samples) is None


@pytest.mark.parametrize("interval", [0, -1.0, math.nan, math.inf])
def test_an_impossible_interval_is_refused_before_anything_runs(interval: float) -> None:
    with pytest.raises(UsageError, match="interval"):
        PowerSampler(interval)
