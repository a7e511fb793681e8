"""Parameters, FLOPs and bytes of a training step, from the operator stream. 1 multiply-accumulate = 2 FLOP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"


@dataclass(frozen=True)
class Complexity:
    """Size and work of one step of ``samples`` samples, the last that was recorded.

    ``flops_matrix`` maps phases to FLOPs of convolutions, matrix products, attention and recurrences (comparable with
    published numbers), ``flops_all`` to these and all elementwise arithmetic and reductions; causal attention counts
    in full in both, and ``flops_matrix_half`` leaves its masked half out. Bytes are those that each operator alone
    must move, without reuse between operators. ``coverage_calls`` and ``coverage_bytes`` are the shares of calls and
    of bytes for which a formula is known; operators without one stand in ``uncounted`` (columns name, calls).
    Shared parameters count once; ``params_shared`` is what counting them at each name would add.
    """

    source: Source
    samples: int
    params_total: int
    params_trainable: int
    params_bytes: int
    params_shared: int
    flops_matrix: Mapping[str, int]
    flops_matrix_half: int
    flops_all: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    operator_calls: int
    coverage_calls: float | None
    coverage_bytes: float | None
    uncounted: pd.DataFrame
    operators: pd.DataFrame

    @property
    def flops_matrix_forward(self) -> int:
        return self.flops_matrix.get("forward", 0)

    @property
    def flops_matrix_step(self) -> int:
        return sum(self.flops_matrix.values())

    @property
    def flops_all_step(self) -> int:
        return sum(self.flops_all.values())

    def to_frame(self) -> pd.DataFrame:
        """Operators with calls, FLOPs and bytes by name and phase."""
        return self.operators.copy()

    def __repr__(self) -> str:
        per_sample = self.flops_matrix_forward / self.samples
        coverage = "n/a" if self.coverage_calls is None else f"{self.coverage_calls:.1%}"
        return (
            f"Complexity ({self.source})\n"
            f"  {self.params_total:,} parameters, {self.params_trainable:,} trainable\n"
            f"  {self.flops_matrix_step:,} matrix-class FLOP a step, {per_sample:,.0f} forward a sample\n"
            f"  {self.flops_all_step:,} FLOP of all kinds, {self.bytes_read + self.bytes_written:,} bytes moved\n"
            f"  {coverage} of the operator calls have a formula"
        )


def last_step(profile: Profile) -> pd.DataFrame:
    """Rows of table `operators` of the last recorded step, without its columns of lists."""
    table = profile.arrow("operators").drop_columns(["inputs", "outputs", "accesses"])
    frame: pd.DataFrame = table.to_pandas()
    last: pd.DataFrame = frame[frame["step"] == frame["step"].max()]
    return last


def complexity(profile: Profile) -> Complexity | None:
    """Complexity of a record; None where the pass was not run."""
    origin = source(profile, _PASS)
    if origin is None:
        return None
    operators = last_step(profile)
    parameters = profile.table("parameters")
    once = parameters[parameters["shared_with"].isna()]
    covered = operators["covered"].astype(bool)
    moved = operators["bytes_read"] + operators["bytes_written"]
    return Complexity(
        source=origin,
        samples=profile.manifest.passes[_PASS].samples,
        params_total=int(once["numel"].sum()),
        params_trainable=int(once.loc[once["trainable"].astype(bool), "numel"].sum()),
        params_bytes=int(once["nbytes"].sum()),
        params_shared=int(parameters["numel"].sum() - once["numel"].sum()),
        flops_matrix=_by_phase(operators, "flops_matrix"),
        flops_matrix_half=int(operators["flops_matrix_half"].sum()),
        flops_all=_by_phase(operators, "flops_all"),
        bytes_read=int(operators["bytes_read"].sum()),
        bytes_written=int(operators["bytes_written"].sum()),
        operator_calls=len(operators),
        coverage_calls=float(covered.mean()) if len(operators) else None,
        coverage_bytes=float(moved[covered].sum() / moved.sum()) if moved.sum() else None,
        uncounted=_calls(operators[~covered]),
        operators=_by_name(operators),
    )


def _by_phase(operators: pd.DataFrame, column: str) -> dict[str, int]:
    sums = operators.groupby("phase", observed=True)[column].sum()
    return {str(phase): int(value) for phase, value in sums.items()}


def _calls(operators: pd.DataFrame) -> pd.DataFrame:
    counts = operators["name"].astype(str).value_counts()
    return pd.DataFrame({"name": counts.index, "calls": counts.to_numpy()})


def _by_name(operators: pd.DataFrame) -> pd.DataFrame:
    grouped = operators.groupby(["name", "phase"], observed=True)
    sums = grouped[["flops_matrix", "flops_all", "bytes_read", "bytes_written"]].sum()
    sums.insert(0, "calls", grouped.size())
    return sums.reset_index().sort_values(["flops_all", "bytes_read", "name"], ascending=[False, False, True])
