"""Fixed and per-sample parts of a step's quantities, and what they say at a batch size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"
WHOLE_STEP = "all"


@dataclass(frozen=True)
class Scaling:
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
            f"error {row.error:.2%}"
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
