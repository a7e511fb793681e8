"""The roofline: how fast work can go at most on a device, given its arithmetic and the bytes it moves.

References
----------
S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for multicore architectures.
Communications of the ACM 52 (4), 2009, 65-76.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from wcbench import devices
from wcbench.analysis.recorded import calls_of, rows_of
from wcbench.devices import Device
from wcbench.errors import WcbenchError

if TYPE_CHECKING:
    from wcbench.record import Profile

Numbers = Sequence[float] | npt.NDArray[np.int64] | npt.NDArray[np.float64] | pd.Series

MEMORY, COMPUTE = "memory", "compute"


@dataclass(frozen=True)
class CapacityLine:
    """Traffic below a cache of this capacity, and the FLOP/byte that it leaves (None where nothing moves)."""

    capacity: int
    traffic: float
    intensity: float | None


@dataclass(frozen=True)
class Roofline:
    """Operators under the roof of a device.

    ``rows`` has a row an operator: name, dtype, flops, bytes, intensity (FLOP/byte), attainable (FLOP/s), time_s (at
    least so long: the longer of arithmetic at the type's peak and bytes at full bandwidth) and bound (`memory` or
    `compute`). What does not exist is missing: the intensity where no byte moves, the rate where nothing is computed,
    every prediction where the device has no peak for the type or a count is missing (``unplaced`` counts those
    operators). Totals of time are over the operators that have one; ``flops`` and ``bytes`` over those that have both.
    ``ridge`` maps the types in use to the machine balance in FLOP/byte.
    """

    device: Device
    rows: pd.DataFrame
    ridge: Mapping[str, float]
    flops: float
    bytes: float
    time_s: float
    memory_bound_share: float | None
    attainable: float | None
    unplaced: int
    capacities: tuple[CapacityLine, ...]

    @property
    def intensity(self) -> float | None:
        """FLOP/byte of all operators together; None where no byte moves."""
        return _ratio(self.flops, self.bytes)

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        ridge = ", ".join(f"{dtype} {value:.1f}" for dtype, value in self.ridge.items()) or "n/a"
        share = "n/a" if self.memory_bound_share is None else f"{100 * self.memory_bound_share:.1f} %"
        intensity = "n/a" if self.intensity is None else f"{self.intensity:.2f}"
        left_out = f"; {self.unplaced} without a prediction" if self.unplaced else ""
        return (
            f"Roofline ({self.device.name}; {len(self.rows)} operators{left_out})\n"
            f"  {intensity} FLOP/byte in total, machine balance {ridge}\n"
            f"  at least {self.time_s * 1e3:.3f} ms, {share} of it memory-bound"
        )


def roofline(
    names: Sequence[str],
    flops: Numbers,
    bytes_moved: Numbers,
    dtypes: str | Sequence[str],
    device: Device | str | None,
    *,
    memory_bytes: int | None = None,
    units: int | None = None,
    traffic: Iterable[tuple[int, float]] = (),
) -> tuple[Roofline | None, str | None]:
    """Place operators under a device's roof (Williams, Waterman and Patterson 2009).

    Parameters
    ----------
    names, flops, bytes_moved : one entry an operator; 1 multiply-accumulate = 2 FLOP; NaN = not known.
    dtypes : the type in which each computes, or one for all; ``tf32`` where float32 products may round to it.
    device : its figures, or the name that it reports, with memory_bytes and units where they were recorded.
    traffic : pairs of cache capacity and bytes that still move at that capacity, in any order.

    Returns
    -------
    The roofline and None, or None and the reason why there is none: unknown devices have no roof, and none is guessed.
    """
    known = devices.find(device, memory_bytes, units) if isinstance(device, str) else device
    if known is None:
        return None, _no_roof(device)
    work = _work(names, flops, bytes_moved, dtypes)
    rows = _predict(work, known)
    counted = rows[rows["flops"].notna() & rows["bytes"].notna()]
    total = float(counted["flops"].sum())
    placed = rows[rows["time_s"].notna()]
    time = float(placed["time_s"].sum())
    result = Roofline(
        device=known,
        rows=rows,
        ridge=_ridge(rows["dtype"], known),
        flops=total,
        bytes=float(counted["bytes"].sum()),
        time_s=time,
        memory_bound_share=_ratio(float(placed.loc[placed["bound"] == MEMORY, "time_s"].sum()), time),
        attainable=_ratio(float(placed["flops"].sum()), time) or None,
        unplaced=len(rows) - len(placed),
        capacities=tuple(CapacityLine(int(c), float(b), _ratio(total, float(b))) for c, b in sorted(traffic)),
    )
    return result, None


def _no_roof(name: object) -> str:
    if name is None or str(name).lower() == "cpu":
        return "no roofline: no peak figures are kept for processors, since they depend on clock, width and threads"
    return f"no roofline: no peak figures are known for '{name}', or its name fits several devices; none is guessed"


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _work(names: Sequence[str], flops: Numbers, bytes_moved: Numbers, dtypes: str | Sequence[str]) -> pd.DataFrame:
    """The input as a table, checked."""
    types = [dtypes] * len(names) if isinstance(dtypes, str) else list(dtypes)
    columns = {"name": list(names), "dtype": [devices.normalize_dtype(t) for t in types]}
    numbers = {"flops": np.asarray(flops, dtype=np.float64), "bytes": np.asarray(bytes_moved, dtype=np.float64)}
    lengths = {key: len(value) for key, value in columns.items()} | {key: len(value) for key, value in numbers.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise WcbenchError(f"A roofline needs one entry an operator everywhere, not {text}.")
    for key, values in numbers.items():
        if (values < 0).any() or np.isinf(values).any():
            raise WcbenchError(f"A roofline needs finite {key} of 0 or more.", "Give NaN where a count is not known.")
    return pd.DataFrame({**columns, **numbers})


def _predict(work: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Add intensity, attainable rate, time and bound; NaN inside, missing in the result."""
    flops, moved = work["flops"].to_numpy(), work["bytes"].to_numpy()
    peaks = {dtype: device.peak(dtype) for dtype in work["dtype"].unique()}
    peak = np.array([peaks[dtype] or np.nan for dtype in work["dtype"]], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        intensity = np.where(moved > 0, flops / moved, np.nan)
        # what computes nothing needs no peak: a copy of integers has a time
        arithmetic = np.where(flops == 0, 0.0, flops / peak)
    transfer = moved / device.bandwidth
    time = np.maximum(arithmetic, transfer)  # NaN where either is
    roof = np.where(moved > 0, np.minimum(peak, intensity * device.bandwidth), peak)
    attainable = np.where((flops > 0) & ~np.isnan(time), roof, np.nan)
    bound = np.where(transfer > arithmetic, MEMORY, COMPUTE)
    computed = {"intensity": intensity, "attainable": attainable, "time_s": time}
    nullable = {key: pd.array(values, dtype="Float64") for key, values in computed.items()}
    counts = {key: pd.array(work[key].to_numpy(), dtype="Float64") for key in ("flops", "bytes")}
    return work.assign(**counts, **nullable, bound=pd.Series(bound, dtype="string").where(time > 0))


def _ridge(dtypes: pd.Series, device: Device) -> dict[str, float]:
    balances = {str(dtype): device.balance(str(dtype)) for dtype in dict.fromkeys(dtypes)}
    return {dtype: balance for dtype, balance in balances.items() if balance is not None}


def profile_roofline(
    profile: Profile, on: str | None = None, traffic: Iterable[tuple[int, float]] = ()
) -> tuple[Roofline | None, str | None]:
    """The roofline of a record's last recorded step, or None and the reason why there is none.

    Parameters
    ----------
    on : id of a device in devices.toml (UnknownNameError for another); None takes the GPU that the record was made on.
    traffic : pairs of cache capacity and bytes that still move, from the inter-operator reuse model.
    """
    named = None if on is None else devices.device(on)  # an unknown one is told, be it needed or not
    if "operators" not in profile.manifest.tables:
        return None, "no roofline: the record has no operator stream"
    chosen: Device | str | None
    if named is not None:
        chosen, size, units = named, None, None
    else:
        gpus = profile.manifest.machine.get("gpus") or [{}]
        chosen, size, units = gpus[0].get("name"), gpus[0].get("memory_bytes"), None
    steps = calls_of(profile)
    moved = steps["bytes_read"] + steps["bytes_written"]
    return roofline(
        steps["name"].astype(str).tolist(),
        steps["flops_all"].astype("float64"),
        moved.astype("float64"),
        _types(profile),
        chosen,
        memory_bytes=size,
        units=units,
        traffic=traffic,
    )


def _types(profile: Profile) -> list[str]:
    """The type in which each operator of the step computes: of its first result, float32 where it has none."""
    outputs = rows_of(profile)["outputs"].to_pylist()
    return [row[0]["dtype"] if row else "float32" for row in outputs]
