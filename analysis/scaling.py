"""Fixed and per-sample parts of a step's quantities, and what they say at a batch size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis.recorded import average_samples, recorded_steps
from wcbench.analysis.shown import Shown, percent
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"
WHOLE_STEP = "all"


@dataclass(frozen=True)
class Scaling(Shown):
    """Quantities of a step as straight lines in the number of samples (table `scaling`).

    ``rows`` has the columns kind, phase, quantity, unit, length, recorded, fixed, per_sample, error, samples, values.
    """

    source: Source
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def at_preset(self) -> pd.DataFrame:
        """The rows at the preset's own length: the recorded ones, or those continued to it."""
        longest = self.rows["length"].max()
        return self.rows if pd.isna(longest) else self.rows[self.rows["length"] == longest]

    def __repr__(self) -> str:
        whole = self.at_preset()
        whole = whole[whole["phase"] == WHOLE_STEP]
        lines = [
            f"  {row.quantity} ({row.kind}): {row.fixed:.4g} + {row.per_sample:.4g} a sample {row.unit}, "
            f"error {percent(row.error, '.2f')}"
            for row in whole.itertuples()
        ]
        return "\n".join([f"Scaling with the batch ({self.source})", *lines])


def scaling(profile: Profile) -> Scaling | None:
    """Fixed and per-sample parts of a record; None where none were fitted."""
    origin, rows = source(profile, _PASS), profile.table("scaling")
    if origin is None or rows.empty:
        return None
    texts = dict.fromkeys(("kind", "phase", "quantity", "unit"), "object")
    return Scaling(origin, rows.drop(columns=["pass"]).astype(texts))


def continued(profile: Profile) -> dict[str, Any] | None:
    """Figures of an average step at the preset's own length, where it was counted at a shorter one; else None.

    counted_length, length, and by the straight line (table `scaling`): flops_matrix_forward, its per-sample value,
    flops_matrix_step, flops_all_step, bytes_read, bytes_written, operator_calls and peak_bytes (the greatest of all
    kinds of steps).
    """
    found = scaling(profile)
    if found is None or found.rows["recorded"].all():
        return None
    info, rows, samples = profile.manifest.passes[_PASS], found.at_preset(), average_samples(profile)
    if info.samples is None or samples is None:  # nothing to continue to
        return None
    steps = recorded_steps(profile)
    at: dict[tuple[str, str, str], float] = {
        (row["kind"], row["phase"], row["quantity"]): row["fixed"]
        + row["per_sample"] * info.kind_samples.get(row["kind"], info.samples)
        for row in rows.to_dict("records")
    }

    def average(phase: str, quantity: str) -> int:
        return round(sum(step.share * at.get((step.kind, phase, quantity), 0.0) for step in steps))

    forward = average("forward", "flops_matrix")
    return {
        "counted_length": int(found.rows.loc[found.rows["recorded"].astype(bool), "length"].max()),
        "length": int(rows["length"].iloc[0]),
        "flops_matrix_forward": forward,
        "flops_matrix_forward_per_sample": forward / samples,
        "flops_matrix_step": average(WHOLE_STEP, "flops_matrix"),
        "flops_all_step": average(WHOLE_STEP, "flops_all"),
        "bytes_read": average(WHOLE_STEP, "bytes_read"),
        "bytes_written": average(WHOLE_STEP, "bytes_written"),
        "operator_calls": average(WHOLE_STEP, "calls"),
        "peak_bytes": round(max(value for (_, _, quantity), value in at.items() if quantity == "live_peak_bytes")),
    }
