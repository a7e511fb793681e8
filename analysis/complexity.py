"""Parameters and matrix-class FLOPs of a training step. 1 multiply-accumulate = 2 FLOP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "complexity"


@dataclass(frozen=True)
class Complexity:
    """Size and work of one step of ``samples`` samples.

    ``flops_matrix`` maps phases to FLOPs of convolutions, matrix products, attention and recurrences.
    ``coverage_calls`` is the share of the step's operator calls for which a formula is known, and
    ``coverage_matrix_calls`` the same among matrix-class operators (None where there are none); those without a
    formula stand in ``uncounted`` (columns name, calls). Shared parameters count once; ``params_shared`` is what
    counting them at each name would add.
    """

    source: Source
    samples: int
    params_total: int
    params_trainable: int
    params_bytes: int
    params_shared: int
    flops_matrix: Mapping[str, int]
    operator_calls: int
    coverage_calls: float | None
    coverage_matrix_calls: float | None
    uncounted: pd.DataFrame
    operators: pd.DataFrame

    @property
    def flops_matrix_forward(self) -> int:
        return self.flops_matrix.get("forward", 0)

    @property
    def flops_matrix_step(self) -> int:
        return sum(self.flops_matrix.values())

    def to_frame(self) -> pd.DataFrame:
        """Operators with calls and FLOPs by phase."""
        return self.operators.copy()

    def __repr__(self) -> str:
        step, per_sample = self.flops_matrix_step, self.flops_matrix_forward / self.samples
        coverage = "n/a" if self.coverage_calls is None else f"{self.coverage_calls:.1%}"
        return (
            f"Complexity ({self.source})\n"
            f"  {self.params_total:,} parameters, {self.params_trainable:,} trainable\n"
            f"  {step:,} matrix-class FLOP a step, {per_sample:,.0f} forward a sample\n"
            f"  {coverage} of the operator calls have a formula"
        )


def complexity(profile: Profile) -> Complexity | None:
    """Complexity of a record; None where the pass was not run."""
    origin = source(profile, _PASS)
    if origin is None:
        return None
    counts = profile.table("operator_counts")
    counts = counts[counts["kind"] == counts["kind"].iloc[0]] if len(counts) else counts
    parameters = profile.table("parameters")
    once = parameters[parameters["shared_with"].isna()]
    has_formula = counts["flops_matrix"].notna()
    matrix = counts["matrix_class"].astype(bool)
    uncounted = counts[matrix & ~has_formula].groupby("name", observed=True)["calls"].sum().reset_index()
    by_phase = counts[has_formula].groupby("phase", observed=True)["flops_matrix"].sum()
    return Complexity(
        source=origin,
        samples=profile.manifest.passes[_PASS].samples,
        params_total=int(once["numel"].sum()),
        params_trainable=int(once.loc[once["trainable"].astype(bool), "numel"].sum()),
        params_bytes=int(once["nbytes"].sum()),
        params_shared=int(parameters["numel"].sum() - once["numel"].sum()),
        flops_matrix={str(phase): int(flops) for phase, flops in by_phase.items()},
        operator_calls=int(counts["calls"].sum()),
        coverage_calls=_share(counts, has_formula),
        coverage_matrix_calls=_share(counts[matrix], has_formula[matrix]),
        uncounted=uncounted,
        operators=counts[["name", "phase", "calls", "matrix_class", "flops_matrix"]].reset_index(drop=True),
    )


def _share(counts: pd.DataFrame, covered: pd.Series[bool]) -> float | None:
    calls = int(counts["calls"].sum())
    return float(counts.loc[covered, "calls"].sum() / calls) if calls else None
