"""A task at several batch sizes, sequence lengths or precisions: a row a point, and curves over what varies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis.shown import Drawn

if TYPE_CHECKING:
    from wcbench.record import Profile

KNOBS = ("batch_size", "sequence_length", "precision")
TRAFFIC_AT = 50 * 2**20
"""Capacity in bytes at which a point's modelled traffic is given: the last-level cache of a large GPU."""


@dataclass(frozen=True)
class Point:
    """One combination of the knobs (None: the preset's own) and its record, or why there is none."""

    batch_size: int | None
    sequence_length: int | None
    precision: str
    profile: Profile | None
    error: str | None = None

    @property
    def label(self) -> str:
        """The knobs that were set, in words."""
        set_ = [f"{knob.replace('_', ' ')} {getattr(self, knob)}" for knob in KNOBS if getattr(self, knob) is not None]
        return ", ".join(set_)


@dataclass(frozen=True)
class Sweep(Drawn):
    """Records of one task at several points."""

    points: tuple[Point, ...]

    @property
    def task(self) -> str | None:
        """The task's name; None where every point failed."""
        return next((point.profile.name for point in self.points if point.profile is not None), None)

    @property
    def varied(self) -> tuple[str, ...]:
        """The knobs that take more than one value."""
        return tuple(knob for knob in KNOBS if len({getattr(point, knob) for point in self.points}) > 1)

    def to_frame(self) -> pd.DataFrame:
        """A row a point: the knobs, ``run``, ``error``, and what was measured or counted; absent is null.

        step_ms, samples_per_s (pass timing); flops_matrix_forward_per_sample, flops_step, bytes_step, peak_bytes and
        intensity (FLOP a byte of modelled traffic behind a cache of 50 MiB, pass operators).
        """
        return pd.DataFrame([_row(point) for point in self.points])

    def __repr__(self) -> str:
        return f"Sweep of {self.task} over {', '.join(self.varied) or 'nothing'}\n{self.to_frame().to_string()}"


def _row(point: Point) -> dict[str, Any]:
    knobs: dict[str, Any] = {knob: getattr(point, knob) for knob in KNOBS}
    if point.profile is None:
        return {**knobs, "run": None, "error": point.error}
    run = None if point.profile.path is None else str(point.profile.path)
    return {**knobs, "run": run, "error": None, **_timed(point.profile), **_counted(point.profile)}


def _timed(profile: Profile) -> dict[str, Any]:
    times = profile.view("steps").get("timing")
    return {} if times is None else {"step_ms": times.median_ns / 1e6, "samples_per_s": times.samples_per_s}


def _counted(profile: Profile) -> dict[str, Any]:
    work, moved = profile.view("complexity"), profile.view("memory")
    if work is None or moved is None:
        return {}
    return {
        "flops_matrix_forward_per_sample": work.flops_matrix_forward_per_sample,
        "flops_step": work.flops_all_step,
        "bytes_step": work.bytes_read + work.bytes_written,
        "peak_bytes": moved.live.peak_bytes,
        "intensity": float(moved.logical.intensity(work.flops_all_step, [TRAFFIC_AT])[0]),
    }


def curves(sweep: Sweep, quantity: str) -> dict[str, list[tuple[float, float]]]:
    """Points (knob, quantity) over the first knob that is a number, one curve for each combination of the others.

    Raises KeyError where no point has the quantity.
    """
    frame = sweep.to_frame()
    numbers = [knob for knob in sweep.varied if knob != "precision"]
    if not numbers:
        return {}
    over, others = numbers[0], [knob for knob in sweep.varied if knob != numbers[0]]
    known = frame[frame[quantity].notna()]
    found: dict[str, list[tuple[float, float]]] = {}
    for row in known.sort_values(over).to_dict("records"):
        found.setdefault(_label(row, others), []).append((float(row[over]), float(row[quantity])))
    return found


def _label(row: dict[Any, Any], knobs: Sequence[str]) -> str:
    return ", ".join(f"{knob.replace('_', ' ')} {row[knob]}" for knob in knobs)
