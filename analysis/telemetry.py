"""Memory at the moments of a run, and power during the timed steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source
from wcbench.energy import counter_energy, integrate_energy, power_span_s

if TYPE_CHECKING:
    from wcbench.record import Profile


@dataclass(frozen=True)
class Memory(Shown):
    """Bytes in use and peaks, by device and moment (start, built, warmup, steps).

    On a CPU the figures are the whole process's resident set; ``increase_bytes`` is the peak of all moments over
    what stood at the start, which is the task's own.
    """

    source: Source
    rows: pd.DataFrame

    @property
    def device(self) -> str:
        """The device that the steps ran on, or the host where it has rows alone."""
        return self.source.device if (self.rows["device"] == self.source.device).any() else "cpu"

    @property
    def peak_bytes(self) -> int | None:
        peaks = self.rows.loc[self.rows["device"] == self.device, "peak_bytes"].dropna()
        return int(peaks.max()) if len(peaks) else None

    @property
    def increase_bytes(self) -> int | None:
        start = self.rows[(self.rows["device"] == self.device) & (self.rows["moment"] == "start")]
        if self.peak_bytes is None or start.empty:
            return None
        return self.peak_bytes - int(start["current_bytes"].iloc[0])

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        peak = "unknown" if self.peak_bytes is None else f"{self.peak_bytes / 2**20:,.0f} MiB"
        own = "" if self.increase_bytes is None else f", {self.increase_bytes / 2**20:,.0f} MiB over the start"
        return f"Memory: peak {peak} on {self.device}{own} ({self.source})"


@dataclass(frozen=True)
class Power(Shown):
    """Telemetry of the devices during the measured steps of `timing`, one row a device.

    Energy is given twice where it can be: by the device's counter and by integrating power. They disagree in
    practice, and neither is corrected by the other.
    """

    source: Source
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        return f"Power ({self.source})\n{self.rows.to_string(index=False)}"


def measured_memory(profile: Profile) -> Memory | None:
    """Memory of a record; None where the pass was not run or could not read any."""
    origin, table = source(profile, "memory"), profile.table("memory")
    if origin is None or table.empty:
        return None
    columns = ["device", "moment", "current_bytes", "peak_bytes", "reserved_bytes"]
    return Memory(origin, table[columns].reset_index(drop=True))


def power(profile: Profile) -> Power | None:
    """Power of a record; None where nothing was sampled."""
    origin, table = source(profile, "timing"), profile.table("power")
    if origin is None or table.empty:
        return None
    steps = profile.table("steps")
    timed = steps[(steps["pass"] == "timing") & (steps["role"] == "measured")]
    samples = 0 if timed["samples"].isna().any() else int(timed["samples"].sum())  # 0: energy per sample is not known
    rows = [_device_row(device, table[table["device"] == device], samples) for device in sorted(set(table["device"]))]
    return Power(origin, pd.DataFrame(rows))


def _device_row(device: int, rows: pd.DataFrame, samples: int) -> dict[str, Any]:
    records = [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]
    counted, integrated = counter_energy(records), integrate_energy(records)
    best = integrated if counted is None else counted
    return {
        "device": device,
        "samples": len(rows),
        "seconds": power_span_s(records),
        "watts_mean": _mean(rows["watts"]),
        "watts_max": _largest(rows["watts"]),
        "energy_counter_j": counted,
        "energy_integrated_j": integrated,
        "energy_per_sample_j": best / samples if best is not None and samples else None,
        "utilization_mean": _mean(rows["utilization"]),
        "memory_used_bytes_max": _largest(rows["memory_used_bytes"]),
        "sm_clock_hz_mean": _mean(rows["sm_clock_hz"]),
        "temperature_c_max": _largest(rows["temperature_c"]),
    }


def _mean(values: pd.Series[Any]) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _largest(values: pd.Series[Any]) -> float | None:
    known = values.dropna()
    return float(known.max()) if len(known) else None
