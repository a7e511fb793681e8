"""GPU power and telemetry during a stretch of code, sampled through NVML; and the energy that follows from it.

There are two ways to an energy, and they disagree: the device's own counter, and power integrated over time
(codecarbon and Zeus users saw 187 J against 327 J over the same idle five seconds). Both are given, neither is
corrected by the other. A counter that a device lacks is None with a note, never 0. Torch-free.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

from wcbench.energy import counter_energy, power_span_s, readings
from wcbench.errors import UsageError
from wcbench.nvml import NvmlDevice, NvmlSession, NvmlUnavailable, Reading, open_nvml

_JOIN_S = 10.0  # how long to wait for a driver that hangs before giving the thread up
_AVERAGED_OVER_S = 1.0  # what nvmlDeviceGetPowerUsage is documented to average over, where it averages


class _Column(NamedTuple):
    name: str  # column of the `power` table
    label: str  # what a note calls it
    read: Callable[[NvmlDevice], Reading[Any]]


# Power and energy first: they are the two that belong to the row's time.
_COLUMNS = (
    _Column("watts", "power", NvmlDevice.power_w),
    _Column("energy_j", "energy counter", NvmlDevice.energy_j),
    _Column("utilization", "utilization", NvmlDevice.utilization),
    _Column("memory_utilization", "memory utilization", NvmlDevice.memory_utilization),
    _Column("memory_used_bytes", "memory in use", NvmlDevice.memory_used_bytes),
    _Column("sm_clock_hz", "multiprocessor clock", NvmlDevice.sm_clock_hz),
    _Column("memory_clock_hz", "memory clock", NvmlDevice.memory_clock_hz),
    _Column("temperature_c", "temperature", NvmlDevice.temperature_c),
)


class PowerSampler:
    """Samples every device while a ``with`` block runs; one sample at entry, one at exit, the rest from a thread.

    Whatever goes wrong with the telemetry becomes a note: the measured code never sees an exception of ours.

    Parameters
    ----------
    interval_s : seconds from one sample to the next; UsageError unless positive.
    devices : indices as CUDA (and torch) counts them, or None for all that CUDA_VISIBLE_DEVICES leaves visible.

    Attributes
    ----------
    samples : rows of the `power` table without `pass`, in order of time; `device` counts as NVML does.
    nvml_indices : the NVML index of each sampled device by its CUDA index.
    notes : what is missing or doubtful, and why; one a counter and device.
    """

    def __init__(self, interval_s: float = 0.05, devices: Sequence[int] | None = None) -> None:
        if not (interval_s > 0 and math.isfinite(interval_s)):
            raise UsageError(
                f"A sampling interval of {interval_s} s is impossible.", "Give a positive number of seconds."
            )
        self.interval_s = interval_s
        self.devices = None if devices is None else list(dict.fromkeys(devices))
        self._reset()

    def _reset(self) -> None:
        self.samples: list[dict[str, Any]] = []
        self.nvml_indices: dict[int, int] = {}
        self._remarks: list[str] = []
        self._probes: list[_Probe] = []
        self._nvml = ExitStack()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def notes(self) -> list[str]:
        found = list(self._remarks)
        for probe in self._probes:
            found += [*probe.missing(), *probe.doubts(self.samples)]
        return found

    def __enter__(self) -> Self:
        self._reset()
        try:
            self._open()
        except NvmlUnavailable as error:
            self._remarks.append(f"Power was not measured: {error.reason}.")
        except Exception as error:
            self._remarks.append(f"Power sampling did not start: {_one_line(error)}.")
        return self

    def _open(self) -> None:
        session = self._nvml.enter_context(open_nvml())
        self.nvml_indices, remarks = choose_devices(session, self.devices, os.environ)
        self._remarks += remarks
        if not self.nvml_indices:
            return
        self._probes = [_Probe(session.device(nvml), cuda) for cuda, nvml in self.nvml_indices.items()]
        self._clock = _epoch_clock()
        self._sample()
        self._thread = threading.Thread(target=self._run, name="wcbench-power", daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
        except Exception as problem:
            self._remarks.append(f"Power sampling did not end cleanly: {_one_line(problem)}.")

    def _close(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                # It is inside the driver: touching NVML from here would hang the caller as well.
                self._remarks.append(f"The driver did not answer within {_JOIN_S:g} s; the last samples are missing.")
                return
        with self._nvml:
            if self._probes:
                self._sample()

    def _run(self) -> None:
        due = time.perf_counter() + self.interval_s
        try:
            while not self._stop.wait(max(0.0, due - time.perf_counter())):
                self._sample()
                # A sample that took longer than the interval is not made up for by a burst.
                due = max(due + self.interval_s, time.perf_counter())
        except Exception as error:
            self._remarks.append(f"Power sampling stopped early: {_one_line(error)}.")

    def _sample(self) -> None:
        self.samples.extend([probe.sample(self._clock) for probe in self._probes])


class _Probe:
    """One device, what it failed to report and why."""

    def __init__(self, device: NvmlDevice, cuda_index: int) -> None:
        self.device = device
        self._name = f"Device {device.index}"
        if cuda_index != device.index:
            self._name += f" (cuda:{cuda_index})"
        self._taken = 0
        self._missing: dict[str, Counter[str]] = {}
        self._given_up: dict[str, str] = {}
        self._averaged = _reports_mean_power(device)

    def sample(self, clock: Callable[[], int]) -> dict[str, Any]:
        self._taken += 1
        row: dict[str, Any] = {"device": self.device.index, "time_ns": clock()}
        row.update((column.name, self._read(column)) for column in _COLUMNS)
        return row

    def _read(self, column: _Column) -> Any:
        reason = self._given_up.get(column.name)
        if reason is None:
            reading = column.read(self.device)
            if reading.reason is None:
                return reading.value
            reason = reading.reason
            if reading.final:
                self._given_up[column.name] = reason
        self._missing.setdefault(column.name, Counter())[reason] += 1
        return None

    def missing(self) -> list[str]:
        return [self._note(column) for column in _COLUMNS if column.name in self._missing]

    def _note(self, column: _Column) -> str:
        reasons = self._missing[column.name]
        count = reasons.total()
        share = "" if count == self._taken else f" in {count} of {self._taken} samples"
        return f"{self._name}: {column.label} is missing{share}: {'; '.join(reasons)}."

    def doubts(self, samples: Sequence[Mapping[str, Any]]) -> list[str]:
        rows = [row for row in samples if row["device"] == self.device.index]
        joules = [value for _, value in readings(rows, "energy_j")]
        found = []
        if len(joules) >= 2 and counter_energy(rows) is None:
            how = "did not move" if len(set(joules)) == 1 else "ran backward"
            found.append(f"{self._name}: the energy counter {how}; it gives no energy for this window.")
        span = power_span_s(rows)
        if self._averaged and span is not None and span < 10 * _AVERAGED_OVER_S:
            found.append(
                f"{self._name}: the driver reports power as a mean over {_AVERAGED_OVER_S:g} s, "
                f"so that the readings lag in a window of {span:.2g} s."
            )
        return found


def _reports_mean_power(device: NvmlDevice) -> bool:
    """Ampere without the A100 (8.0), and everything newer, average power; the older ones report the moment's."""
    capability = device.compute_capability().value
    return capability is not None and tuple(int(part) for part in capability.split(".")) > (8, 0)


def _epoch_clock() -> Callable[[], int]:
    """Nanoseconds since the epoch that never step back, however the host's clock is set meanwhile."""
    offset = time.time_ns() - time.perf_counter_ns()
    return lambda: offset + time.perf_counter_ns()


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Which devices


def choose_devices(
    session: NvmlSession, devices: Sequence[int] | None, environ: Mapping[str, str]
) -> tuple[dict[int, int], list[str]]:
    """NVML indices by CUDA index for the devices asked for (None: all visible ones), and notes on the others."""
    listed = session.devices()
    if not listed:
        return {}, ["Power was not measured: NVML lists no device."]
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    visible, notes = visible_devices(setting, [device.uuid().value for device in listed])
    if not visible:
        return {}, [*notes, f"Power was not measured: CUDA_VISIBLE_DEVICES={setting} leaves no device to sample."]
    wanted = range(len(visible)) if devices is None else devices
    chosen = {index: visible[index] for index in wanted if 0 <= index < len(visible)}
    notes += [
        f"Power of cuda:{index} was not measured: {_devices(len(visible))} visible."
        for index in wanted
        if index not in chosen
    ]
    if _order_is_doubtful(listed, visible, setting, environ):
        notes.append(
            "The devices differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA may count them in another order than "
            "NVML, so power may belong to another device. Set CUDA_DEVICE_ORDER=PCI_BUS_ID."
        )
    return chosen, notes


def _devices(count: int) -> str:
    return "1 device is" if count == 1 else f"{count} devices are"


def _order_is_doubtful(
    listed: Sequence[NvmlDevice], visible: Sequence[int], setting: str | None, environ: Mapping[str, str]
) -> bool:
    """By default CUDA counts the fastest device first and NVML counts by PCI address; alike devices agree."""
    by_number = setting is None or not setting.strip().upper().startswith("GPU-")
    unordered = environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    return by_number and unordered and len({device.name().value for device in listed}) > 1 and bool(visible)


def visible_devices(setting: str | None, uuids: Sequence[str | None]) -> tuple[list[int], list[str]]:
    """NVML indices in the order in which CUDA counts the devices, and notes on entries that cannot be followed.

    Parameters
    ----------
    setting : CUDA_VISIBLE_DEVICES, or None where it is unset. As in CUDA, the list ends at the first entry that
        names no device, and a device named twice hides all.
    uuids : of every device, in NVML's order; None where the driver keeps one back.
    """
    if setting is None:
        return list(range(len(uuids))), []
    chosen: list[int] = []
    for entry in (part.strip() for part in setting.split(",")):
        index, problem = _visible(entry, uuids)
        if index is None:
            note = [] if problem is None else [f"CUDA_VISIBLE_DEVICES entry '{entry}' was not followed: {problem}."]
            return chosen, note
        if index in chosen:
            return [], [f"CUDA_VISIBLE_DEVICES names device {index} twice, for which CUDA hides all devices."]
        chosen.append(index)
    return chosen, []


def _visible(entry: str, uuids: Sequence[str | None]) -> tuple[int | None, str | None]:
    """The index that one entry names, or None and the problem; nothing and -1 end the list on purpose."""
    number = re.match(r"[+-]?\d+", entry)  # CUDA reads as far as the digits go
    if entry == "" or (number is not None and int(number[0]) < 0):
        return None, None
    if number is not None:
        index = int(number[0])
        return (index, None) if index < len(uuids) else (None, f"NVML lists {len(uuids)} device(s)")
    if entry.upper().startswith("MIG-"):
        return None, "NVML measures the power of whole devices, not of a MIG instance"
    if not entry.upper().startswith("GPU-"):
        return None, "it is neither a number nor a UUID"
    found = [i for i, uuid in enumerate(uuids) if uuid is not None and uuid.lower().startswith(entry.lower())]
    if len(found) == 1:
        return found[0], None
    return None, "no device has this UUID" if not found else f"{len(found)} devices have UUIDs that begin so"
