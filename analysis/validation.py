"""Does the subset speak for the suite? Errors of suite means against random subsets, and of workloads left out.

A metric takes no part in the choice. It names its source: a modelled one is a function of the features, so that its
small error proves little; it is labelled circular.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wcbench.analysis.cover import Distances, Set, nearest
from wcbench.analysis.programs import Floats
from wcbench.analysis.shown import Shown
from wcbench.analysis.subset import lexicographic
from wcbench.errors import UsageError

SOURCES = ("measured", "published", "modelled")
MEANS = ("arithmetic", "geometric")
RANDOM = 10_000
SEED = 20240602
_FINE = 1e-9
_PIECE = 2_000_000
_COLUMNS = (
    *("metric", "source", "circular", "unit", "where", "mean", "workloads", "suite", "estimate", "error", "percentile"),
    *("subsets", "all_subsets", "predictions", "left_out_median", "left_out_max", "left_out_worst", "reason"),
)
_RESIDUALS = ("metric", "workload", "predicted_by", "value", "prediction", "log_ratio")


@dataclass(frozen=True)
class Metric:
    """A value for each workload that the subset should predict the mean of.

    ``mean`` is geometric for scores and other ratios. NaN or absent: not measured. ``where`` says on what device and at
    what preset, or in what publication.
    """

    name: str
    values: Mapping[str, float]
    source: str
    unit: str = ""
    mean: str = "arithmetic"
    where: str = ""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise UsageError(f"A metric's source is one of {', '.join(SOURCES)}, not '{self.source}'.")
        if self.mean not in MEANS:
            raise UsageError(f"A mean is one of {', '.join(MEANS)}, not '{self.mean}'.")

    @property
    def circular(self) -> bool:
        """Whether it is a function of the features that the choice was made by."""
        return self.source == "modelled"


@dataclass(frozen=True, eq=False)
class Validation(Shown):
    """How well weighted subsets predict metrics of the whole suite.

    ``table`` has a row for each metric: metric, source, circular, unit, where, mean, workloads (with a value), suite
    (mean over them), estimate (weighted mean of the members), error (estimate / suite - 1), percentile (of random
    subsets of the same size, the percentage with a smaller error in size, equal ones half: small is good), subsets,
    all_subsets (every one was tried), predictions (workloads left out, where value and prediction are above 0),
    left_out_median and left_out_max (|ln ratio| of prediction to value when the workload is left out and the subset
    chosen anew), left_out_worst, reason (why the numbers are missing).

    ``residuals`` are the single predictions: metric, workload, predicted_by, value, prediction, log_ratio.
    """

    k: int
    table: pd.DataFrame
    residuals: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.table.copy()

    def __repr__(self) -> str:
        lines = [f"Validation of a subset of {self.k}"]
        for row in self.table.to_dict("records"):
            circular = ", circular: a function of the features" if row["circular"] else ""
            label = f"  {row['metric']} ({row['source']}{circular})"
            if row["reason"]:
                lines.append(f"{label}: {row['reason']}")
                continue
            of = f"{'all' if row['all_subsets'] else 'random'} {row['subsets']} subsets of this size"
            lines.append(
                f"{label}: mean off by {100 * row['error']:+.2f} %; {row['percentile']:.1f} % of {of} do better"
            )
            if row["predictions"]:
                worst = f"largest {row['left_out_max']:.3f} ({row['left_out_worst']})"
                lines.append(f"    left out: |ln ratio| median {row['left_out_median']:.3f}, {worst}")
        return "\n".join(lines)


def weighted_mean(values: Floats, served: NDArray[np.intp], mean: str = "arithmetic") -> float:
    """sum_c (n_c / n) y_rep(c), with ``served`` the representative (place) of each workload; geometric: of logs."""
    found = values[served]
    return math.exp(math.fsum(np.log(found)) / len(found)) if mean == "geometric" else math.fsum(found) / len(found)


def validate(
    d: Distances,
    radius: float,
    members: Sequence[str],
    metrics: Iterable[Metric],
    *,
    candidates: Sequence[str] | None = None,
    costs: Floats | None = None,
    subsets: int = RANDOM,
    seed: int = SEED,
) -> Validation:
    """Validate a subset against held-out metrics.

    Parameters
    ----------
    candidates : who may be a member, of the subset, of random subsets and when one is left out; all by default.
    costs : in the order of ``d.names``, the tie-break of the choice that is made anew.
    subsets : so many random subsets of the same size, or all where there are no more.
    """
    allowed = tuple(range(len(d))) if candidates is None else d.places(candidates)
    places = d.places(members)
    stand_ins = _stand_ins(d, radius, allowed, costs)
    rows, residuals = [], []
    for metric in metrics:
        y = np.array([float(metric.values.get(name, math.nan)) for name in d.names])
        row = _head(d, metric, y, places)
        if not row["reason"]:
            row |= _suite_error(d, y, metric.mean, places, _Rivals(allowed, subsets, seed))
            single = _residuals(d, metric.name, y, stand_ins)
            row |= _left_out(single)
            residuals += single
        rows.append(row)
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"subsets": "Int64", "predictions": "Int64"})
    return Validation(len(places), table, pd.DataFrame(residuals, columns=list(_RESIDUALS)))


@dataclass(frozen=True)
class _Rivals:
    """The subsets to compare with: of these candidates (places), so many, from this seed."""

    allowed: Set
    subsets: int
    seed: int


def _head(d: Distances, metric: Metric, y: Floats, members: Set) -> dict[str, Any]:
    """What a row says before anything is computed; ``reason`` is empty where something can be."""
    known = ~np.isnan(y)
    reason = ""
    if not known.any():
        reason = "no workload has a value"
    elif not np.isfinite(y[known]).all():
        reason = f"infinite value of {', '.join(d.called(np.flatnonzero(np.isinf(y))))}"
    elif lacking := [d.names[j] for j in members if not known[j]]:
        reason = f"no value of {', '.join(lacking)}, which the subset has"
    elif metric.mean == "geometric" and (y[known] <= 0).any():
        reason = "a geometric mean needs values above 0"
    elif (y[known] < 0).any() and (y[known] > 0).any():
        reason = "values on both sides of 0 have no relative error"
    elif not y[known].any():
        reason = "all values are 0, so there is no relative error"
    return {
        "metric": metric.name,
        "source": metric.source,
        "circular": metric.circular,
        "unit": metric.unit,
        "where": metric.where,
        "mean": metric.mean,
        "workloads": int(known.sum()),
        "reason": reason,
    }


def _suite_error(d: Distances, y: Floats, mean: str, members: Set, rivals: _Rivals) -> dict[str, Any]:
    """The subset's estimate of the mean over the workloads with a value, and its place among other subsets."""
    known = np.flatnonzero(~np.isnan(y))
    suite = weighted_mean(y, known, mean)
    estimate = weighted_mean(y, nearest(d.values, members)[known], mean)
    possible = np.array([j for j in rivals.allowed if not math.isnan(y[j])], np.intp)
    others, every = _subsets(possible, len(members), rivals.subsets, rivals.seed)
    errors = np.abs(_estimates(d.values, y, known, others, mean) / suite - 1)
    own = abs(estimate / suite - 1)
    better, equal = (errors < own - _FINE).mean(), (np.abs(errors - own) <= _FINE).mean()
    return {
        "suite": suite,
        "estimate": estimate,
        "error": estimate / suite - 1,
        "percentile": float(100 * (better + equal / 2)),
        "subsets": len(others),
        "all_subsets": every,
    }


def _subsets(possible: NDArray[np.intp], k: int, most: int, seed: int) -> tuple[NDArray[np.intp], bool]:
    """Subsets of k (rows, sorted places): all, or as many random ones as asked for."""
    if math.comb(len(possible), k) <= most:
        return np.array(list(combinations(possible.tolist(), k)), np.intp), True
    keys = np.random.default_rng(seed).random((most, len(possible)))
    return np.sort(possible[np.argsort(keys, axis=1, kind="stable")[:, :k]], axis=1), False


def _estimates(values: Floats, y: Floats, known: NDArray[np.intp], subsets: NDArray[np.intp], mean: str) -> Floats:
    """Weighted mean of each subset; in pieces, so that memory stays bounded."""
    # a member always serves itself, even where another lies at distance 0
    own = values - np.eye(len(values))
    scale = np.log(y, where=y > 0, out=np.full(len(y), np.nan)) if mean == "geometric" else y
    size = max(1, _PIECE // (len(known) * subsets.shape[1]))
    found = []
    for start in range(0, len(subsets), size):
        piece = subsets[start : start + size]
        place = np.argmin(own[known][:, piece], axis=2)
        served = piece[np.arange(len(piece)), place]
        found.append(scale[served].mean(axis=0))
    estimates: Floats = np.concatenate(found)
    return np.exp(estimates) if mean == "geometric" else estimates


def _stand_ins(d: Distances, radius: float, allowed: Set, costs: Floats | None) -> list[int | None]:
    """For each workload the member that would stand for it had it not been there: the subset is chosen without it.

    None where nobody else may be a member.
    """
    near = d.within(radius)
    found: list[int | None] = []
    for i in range(len(d)):
        candidates = [j for j in allowed if j != i]
        rows = [h for h in range(len(d)) if h != i and near[h, candidates].any()]
        if not rows:
            found.append(None)
            continue
        members, _ = lexicographic(d.values[rows], near[rows], candidates, costs, cap=1)
        found.append(int(members[int(np.argmin(d.values[i, list(members)]))]))
    return found


def _residuals(d: Distances, name: str, y: Floats, stand_ins: list[int | None]) -> list[dict[str, Any]]:
    """A prediction for each workload that has a value and whose stand-in has one, both above 0."""
    return [
        {
            "metric": name,
            "workload": d.names[i],
            "predicted_by": d.names[j],
            "value": float(y[i]),
            "prediction": float(y[j]),
            "log_ratio": math.log(y[j] / y[i]),
        }
        for i, j in enumerate(stand_ins)
        if j is not None and y[i] > 0 and y[j] > 0
    ]


def _left_out(single: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and largest |log ratio| and whose it is; nothing where there is no prediction."""
    if not single:
        return {"predictions": 0}
    sizes = [abs(row["log_ratio"]) for row in single]
    worst = int(np.argmax(np.round(sizes, 12)))
    return {
        "predictions": len(single),
        "left_out_median": float(np.median(sizes)),
        "left_out_max": sizes[worst],
        "left_out_worst": single[worst]["workload"],
    }
