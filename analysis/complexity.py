"""Parameters, FLOPs and bytes of a training step, from the operator stream. 1 multiply-accumulate = 2 FLOP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from wcbench.analysis.recorded import average_samples, mixture
from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, imported, source

if TYPE_CHECKING:
    from wcbench.record import Profile

_PASS = "operators"


@dataclass(frozen=True)
class Complexity(Shown):
    """Size and work of one step of ``samples`` samples (None where an imported file tells none), the last recorded.

    Where steps differ in kind, ``samples`` and all sums are of an average step: each kind weighs as much as its share
    of all steps of a training, and sums are rounded. ``kinds`` has a row for each kind, in steps of its own.
    ``flops_matrix`` maps phases to FLOPs of convolutions, matrix products, attention and recurrences (comparable with
    published numbers), ``flops_all`` to these and all elementwise arithmetic and reductions; causal attention counts
    in full in both, and ``flops_matrix_half`` leaves its masked half out. Bytes are those that each operator alone
    must move, without reuse between operators. ``coverage_calls`` and ``coverage_bytes`` are the shares of calls and
    of bytes for which a formula is known; operators without one stand in ``uncounted`` (columns name, calls).
    Shared parameters count once; ``params_shared`` is what counting them at each name would add. An imported stream has
    no parameters of its own, so their counts are None.
    """

    source: Source
    samples: float | None
    params_total: int | None
    params_trainable: int | None
    params_bytes: int | None
    params_shared: int | None
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
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def flops_matrix_forward(self) -> int:
        return self.flops_matrix.get("forward", 0)

    @property
    def flops_matrix_forward_per_sample(self) -> float | None:
        """None where the samples are not known."""
        return self.flops_matrix_forward / self.samples if self.samples else None

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
        per_sample = self.flops_matrix_forward_per_sample
        sample = "" if per_sample is None else f", {per_sample:,.0f} forward a sample"
        coverage = "n/a" if self.coverage_calls is None else f"{100 * self.coverage_calls:.1f} %"
        return (
            f"Complexity ({self.source})\n"
            f"  {_words(self.params_total)} parameters, {_words(self.params_trainable)} trainable\n"
            f"  {self.flops_matrix_step:,} matrix-class FLOP a step{sample}\n"
            f"  {self.flops_all_step:,} FLOP of all kinds, {self.bytes_read + self.bytes_written:,} bytes moved\n"
            f"  {coverage} of the operator calls have a formula"
        )


def _words(count: int | None) -> str:
    return "n/a" if count is None else f"{count:,}"


def complexity(profile: Profile) -> Complexity | None:
    """Complexity of a record; None where the pass was not run."""
    origin = source(profile, _PASS)
    if origin is None:
        return None
    operators = mixture(profile)
    covered, share = operators["covered"].astype(bool), operators["share"]
    matrix = _by_phase(operators, "flops_matrix")
    half = _weighted(operators, "flops_matrix_half")
    moved = (operators["bytes_read"] + operators["bytes_written"]) * share
    return Complexity(
        source=origin,
        samples=average_samples(profile),
        **_parameters(profile),
        flops_matrix=matrix,
        # of an average step each phase is rounded for itself
        flops_matrix_half=sum(matrix.values()) if abs(sum(matrix.values()) - half) <= len(matrix) else half,
        flops_all=_by_phase(operators, "flops_all"),
        bytes_read=_weighted(operators, "bytes_read"),
        bytes_written=_weighted(operators, "bytes_written"),
        operator_calls=round(share.sum()),
        coverage_calls=float(share[covered].sum() / share.sum()) if len(operators) else None,
        coverage_bytes=float(moved[covered].sum() / moved.sum()) if moved.sum() else None,
        uncounted=_calls(operators[~covered]),
        operators=_by_name(operators),
        kinds=_by_kind(operators),
    )


def _parameters(profile: Profile) -> dict[str, int | None]:
    """Counts of parameters; None where an imported file or a notebook's cell (neither has a preset) names none, since a
    model without any is not what it had."""
    table = profile.table("parameters")
    if table.empty and (imported(profile) or profile.manifest.passes[_PASS].preset is None):
        return dict.fromkeys(("params_total", "params_trainable", "params_bytes", "params_shared"))
    once = table[table["shared_with"].isna()]
    return {
        "params_total": int(once["numel"].sum()),
        "params_trainable": int(once.loc[once["trainable"].astype(bool), "numel"].sum()),
        "params_bytes": int(once["nbytes"].sum()),
        "params_shared": int(table["numel"].sum() - once["numel"].sum()),
    }


def _weighted(rows: pd.DataFrame, column: str) -> int:
    """A column's sum over an average step; exact where there is one kind."""
    if (rows["share"] == 1).all():
        return int(rows[column].sum())
    return round(float((rows[column].astype("float64") * rows["share"]).sum()))


def _by_phase(operators: pd.DataFrame, column: str) -> dict[str, int]:
    return {str(phase): _weighted(rows, column) for phase, rows in operators.groupby("phase", observed=True)}


_SUMS = ["flops_matrix", "flops_all", "bytes_read", "bytes_written"]


def _by_kind(operators: pd.DataFrame) -> pd.DataFrame:
    """Columns kind, share (of all steps of a training), calls and sums of one step of the kind."""
    grouped = operators.groupby("kind", observed=True, sort=False)
    sums = grouped[_SUMS].sum()
    sums.insert(0, "calls", grouped.size())
    sums.insert(0, "share", grouped["share"].first())
    return sums.reset_index().astype({"kind": str})


def _calls(operators: pd.DataFrame) -> pd.DataFrame:
    counts = operators["name"].astype(str).value_counts()
    return pd.DataFrame({"name": counts.index, "calls": counts.to_numpy()})


def _by_name(operators: pd.DataFrame) -> pd.DataFrame:
    several = bool((operators["share"] != 1).any())
    weights = operators["share"] if several else 1  # one kind keeps its whole numbers
    weighted = operators.assign(calls=1)[["calls", *_SUMS]].mul(weights, axis=0)
    sums = weighted.groupby([operators["name"], operators["phase"]], observed=True).sum()
    return sums.reset_index().sort_values(["flops_all", "bytes_read", "name"], ascending=[False, False, True])
