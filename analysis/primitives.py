"""oneDNN primitives by implementation and shape (CPU)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.hotspots import HOST_TIME, hotspots
from wcbench.analysis.shown import Shown, percent
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "primitives"
_KEYS = ["primitive", "implementation", "direction", "shape", "memory"]


@dataclass(frozen=True)
class Primitives(Shown):
    """Time by primitive, implementation and shape, per step, longest first.

    ``operator_share`` sets ``total_ns`` against the operators' self time in the timeline (another pass, so it can
    pass 1 by noise); None where the record has no timeline of the same preset, batch and device.
    """

    source: Source
    steps: int
    total_ns: float
    operator_share: float | None
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        top = self.rows.head(10).itertuples()
        lines = [
            f"  {percent(row.time_share, '6.1f')}  {row.primitive} {row.implementation} {row.shape}" for row in top
        ]
        return "\n".join([f"oneDNN primitives ({self.source})", *lines])


def primitives(profile: Profile) -> Primitives | None:
    """Primitives of a record; None where the pass was not run or logged nothing."""
    origin = source(profile, _PASS)
    table = profile.table("primitives")
    if origin is None or table.empty:
        return None
    steps = profile.manifest.passes[_PASS].steps
    grouped = table.groupby(_KEYS, observed=True)["duration_ns"].agg(["sum", "size"]).reset_index()
    total = float(grouped["sum"].sum())
    rows = grouped[_KEYS].astype(str)
    rows["time_ns"] = grouped["sum"] / steps
    rows["time_share"] = grouped["sum"] / total if total else 0.0
    rows["calls"] = grouped["size"] / steps
    rows = rows.sort_values(["time_ns", *_KEYS], ascending=[False] + [True] * len(_KEYS), ignore_index=True)
    return Primitives(origin, steps, total / steps, _operator_share(profile, origin, total / steps), rows)


def _operator_share(profile: Profile, origin: Source, total_ns: float) -> float | None:
    hot = hotspots(profile)
    if hot is None or hot.of != HOST_TIME or not hot.total_ns:
        return None
    same = (hot.source.preset, hot.source.batch_size, hot.source.device)
    return total_ns / hot.total_ns if same == (origin.preset, origin.batch_size, origin.device) else None
