"""How widely the tasks of a suite spread, by statistics that do not grow with the number of tasks.

Points are workloads x coordinates of one space fitted blind to the suites; nothing here compares ranges or hulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import pdist

from wcbench.analysis.pairing import Flags, Floats, Pair, Relabellings, p_value, tidy

_STEPS = 3000
_CHUNK = 200


def spatial_median(points: Floats) -> Floats:
    """The point with the least sum of distances to n x d points: the mean of what Weiszfeld's steps converge to.

    Where many points do (an even number on a line), the one that these steps reach from the centre of mass.
    References: Weiszfeld 1937; Vardi & Zhang 2000 for the test whether a data point is it.
    """
    scale = float(np.ptp(points, axis=0).max(initial=0.0))
    middle: Floats = points.mean(axis=0)
    if scale == 0.0:
        return middle
    for step in range(_STEPS):
        away = np.sqrt(((points - middle) ** 2).sum(axis=1))
        # steps towards a data point become ever shorter: whether the nearest one is it can be told at once
        if step % 10 == 0 and _is_median(points, int(away.argmin()), scale):
            return np.asarray(points[int(away.argmin())], np.float64)
        pull = 1.0 / np.maximum(away, 1e-14 * scale)
        moved = pull @ points / pull.sum()
        if np.abs(moved - middle).max() <= 1e-13 * scale:
            break
        middle = moved
    return middle


def _is_median(points: Floats, index: int, scale: float) -> bool:
    """Whether the unit pulls of the others add up to less than what lies at this data point."""
    lines = points - points[index]
    away = np.sqrt((lines**2).sum(axis=1))
    same = away <= 1e-14 * scale
    pull = (lines[~same] / away[~same, None]).sum(axis=0)
    return float(same.sum() - np.sqrt((pull**2).sum())) > 1e-9


def median_distances(points: Floats) -> Floats:
    """Distance of each of n points to their spatial median, times sqrt(n / (n - 1)) for the place that was fitted."""
    away = np.sqrt(((points - spatial_median(points)) ** 2).sum(axis=1))
    scaled: Floats = away * np.sqrt(len(points) / (len(points) - 1))
    return scaled


def dispersion(points: Floats) -> float:
    """Mean corrected distance to the spatial median (Anderson 2006); n >= 2."""
    return float(median_distances(points).mean())


def mean_pairwise_distance(points: Floats) -> float:
    """Mean over the n (n - 1) / 2 unequal pairs (Rao's Q without self-pairs): a U-statistic, unbiased; n >= 2."""
    return float(pdist(points).mean())


def total_variance(points: Floats) -> float:
    """Sum of the variances (ddof 1) of the coordinates; n >= 2."""
    return float(points.var(axis=0, ddof=1).sum())


SPREADS: dict[str, Callable[[Floats], float]] = {
    "dispersion": dispersion,
    "mean pairwise distance": mean_pairwise_distance,
    "total variance": total_variance,
}
"""The statistics of question 2 that need no rarefaction."""


@dataclass(frozen=True)
class Ratio:
    """A statistic of two suites and the ratio a / b with its 95 % jackknife interval.

    ``reason`` says why a value, the ratio or the interval is None.
    """

    statistic: str
    a: float | None
    b: float | None
    ratio: float | None
    low: float | None
    high: float | None
    reason: str = ""

    def __repr__(self) -> str:
        if self.ratio is None:
            return f"Ratio({self.statistic}: none, {self.reason})"
        between = f"{self.low:.3g} to {self.high:.3g}" if self.low is not None else self.reason
        return f"Ratio({self.statistic}: {self.ratio:.3g}, 95 % {between})"

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([vars(self)])


def spread_ratio(pair: Pair, points: Floats, statistic: str) -> Ratio:
    """A spread of both suites, their ratio, and an interval from leaving out one task at a time.

    The jackknife is on ln ratio, with Student's t at (smaller suite - 1) degrees of freedom. A shared task is one unit:
    its two influences are added before they are squared.

    References: Efron & Tibshirani 1993, ch. 11.
    """
    measure = SPREADS[statistic]
    small = [label for label, n in zip((pair.label_a, pair.label_b), pair.sizes, strict=True) if n < 2]
    a, b = (measure(points[i]) if len(i) > 1 else None for i in (pair.a, pair.b))
    if a is None or b is None:
        return Ratio(statistic, tidy(a), tidy(b), None, None, None, f"one task has no spread ({', '.join(small)})")
    if min(a, b) <= 1e-12 * max(a, b, 1e-300):
        flat = pair.label_a if a <= b else pair.label_b
        return Ratio(statistic, tidy(a), tidy(b), None, None, None, f"all tasks of {flat} coincide")
    ratio = a / b
    if min(pair.sizes) < 3:
        return Ratio(statistic, tidy(a), tidy(b), tidy(ratio), None, None, "the interval needs three tasks in a suite")
    influence_a, influence_b = _influences(pair.a, points, measure), _influences(pair.b, points, measure)
    if influence_a is None or influence_b is None:
        why = "all tasks of a suite coincide once one is left out"
        return Ratio(statistic, tidy(a), tidy(b), tidy(ratio), None, None, why)
    error = float(np.sqrt(((influence_a - influence_b) ** 2).sum()))
    reach = float(stats.t.ppf(0.975, min(pair.sizes) - 1)) * error
    return Ratio(statistic, tidy(a), tidy(b), tidy(ratio), tidy(ratio * np.exp(-reach)), tidy(ratio * np.exp(reach)))


def _influences(members: NDArray[np.intp], points: Floats, measure: Callable[[Floats], float]) -> Floats | None:
    """Deviations of ln statistic without each task, scaled so that their squares add up to its variance."""
    n = len(members)
    values = np.array([measure(points[np.delete(members, i)]) for i in range(n)])
    if (values <= 1e-12 * values.max()).any():
        return None
    found: Floats = np.zeros(len(points))
    logs = np.log(values)
    found[members] = (logs - logs.mean()) * np.sqrt((n - 1) / n)
    return found


@dataclass(frozen=True)
class PermDisp:
    """Test of equal dispersion: F of the distances to the spatial medians, p from permuted residuals."""

    f: float | None
    p: float | None
    how: str
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([vars(self)])


def permdisp(pair: Pair, points: Floats, ways: Relabellings) -> PermDisp:
    """PERMDISP with spatial medians; residual distances of free tasks change places, those of fixed ones stay.

    References: Anderson 2006, Biometrics 62: 245-253.
    """
    if ways.reason or min(pair.sizes) < 3:
        return PermDisp(None, None, "", ways.reason or "the test needs three tasks in each suite")
    away_a, away_b = np.zeros(len(points)), np.zeros(len(points))
    away_a[pair.a], away_b[pair.b] = median_distances(points[pair.a]), median_distances(points[pair.b])
    observed = float(_f(away_a, away_b, pair.in_a[None], pair.in_b[None])[0])
    if not np.isfinite(observed):
        return PermDisp(None, None, "", "the distances of each suite do not vary")
    rest_a, rest_b = away_a - away_a[pair.a].mean(), away_b - away_b[pair.b].mean()
    free_value = np.where(pair.in_a, rest_a, rest_b)
    rest_a, rest_b = np.where(pair.fixed, rest_a, free_value), np.where(pair.fixed, rest_b, free_value)
    null = _f(rest_a, rest_b, ways.in_a, ways.in_b)
    # the observed labelling is one of the ways, but its residuals have no difference left: it counts as itself
    count = p_value(observed, null, exact=False)
    return PermDisp(tidy(observed), tidy(count), f"residual distances over {ways.words}", ways.too_few)


def _f(value_a: Floats, value_b: Floats, in_a: Flags, in_b: Flags) -> Floats:
    """F of one-way analysis of variance of two groups, for each way to form them; values differ by group if fixed."""
    n_a, n_b = int(in_a[0].sum()), int(in_b[0].sum())
    sum_a, sum_b = in_a @ value_a, in_b @ value_b
    squares = in_a @ value_a**2 + in_b @ value_b**2
    within = squares - sum_a**2 / n_a - sum_b**2 / n_b
    between = (sum_a / n_a - sum_b / n_b) ** 2 * n_a * n_b / (n_a + n_b)
    flat = within <= 1e-18 * np.maximum(squares, 1e-300)
    ratio = between / np.where(flat, 1.0, within) * (n_a + n_b - 2)
    return np.where(flat, np.where(between <= 1e-18 * np.maximum(squares, 1e-300), 0.0, np.inf), ratio)


@dataclass(frozen=True)
class FeatureSpread:
    """Spread of each coordinate: columns feature, sd_a, sd_b, ratio, p, p_holm, reason; one row a coordinate."""

    rows: pd.DataFrame
    how: str

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        told = int((self.rows["p_holm"] <= 0.05).sum())
        return f"FeatureSpread({len(self.rows)} features, {told} differ in spread at 5 % after Holm)"


def feature_spread(pair: Pair, points: pd.DataFrame, ways: Relabellings) -> FeatureSpread:
    """Ratio of SDs (ddof 1, transformed scale) of each coordinate, Brown-Forsythe p by permutation, Holm over all.

    Values are centred on their own suite's median, then exchanged; the medians are taken anew in each permutation.
    References: Brown & Forsythe 1974; Holm 1979.
    """
    values = points.to_numpy(np.float64)
    sd_a, sd_b = (
        values[i].std(axis=0, ddof=1) if len(i) > 1 else np.full(values.shape[1], np.nan) for i in (pair.a, pair.b)
    )
    p, why = np.full(values.shape[1], np.nan), ways.reason or "the test needs three tasks in each suite"
    if not ways.reason and min(pair.sizes) >= 3:
        p, why = _brown_forsythe(pair, values, ways), ""
    rows = pd.DataFrame({"feature": points.columns.astype(str), "sd_a": sd_a, "sd_b": sd_b})
    flat = ~(np.minimum(sd_a, sd_b) > 1e-12)
    rows["ratio"] = np.where(flat, np.nan, sd_a / np.where(flat, 1.0, sd_b))
    rows["p"], rows["p_holm"] = p, holm(p)
    rows["reason"] = np.where(flat, "constant within a suite, or a suite of one task", why)
    numbers = ["sd_a", "sd_b", "ratio", "p", "p_holm"]
    rows[numbers] = rows[numbers].map(lambda x: x if not np.isfinite(x) else float(f"{x:.10g}"))
    return FeatureSpread(rows, f"Brown-Forsythe over {ways.words}")


def _brown_forsythe(pair: Pair, values: Floats, ways: Relabellings) -> Floats:
    value_a, value_b = (values - np.median(values[i], axis=0) for i in (pair.a, pair.b))
    free = np.where(pair.in_a[:, None], value_a, value_b)
    value_a, value_b = (np.where(pair.fixed[:, None], value, free) for value in (value_a, value_b))
    observed = _deviation_f(value_a, value_b, pair.in_a[None], pair.in_b[None])[0]
    starts = range(0, len(ways.in_a), _CHUNK)
    parts = (slice(start, start + _CHUNK) for start in starts)
    null = np.concatenate([_deviation_f(value_a, value_b, ways.in_a[part], ways.in_b[part]) for part in parts])
    return np.array([p_value(x, null[:, i], ways.exact) if np.isfinite(x) else np.nan for i, x in enumerate(observed)])


def _deviation_f(value_a: Floats, value_b: Floats, in_a: Flags, in_b: Flags) -> Floats:
    """F of the absolute deviations from the groups' medians: ways x coordinates; NaN where nothing deviates."""
    groups = [
        value[np.nonzero(flags)[1].reshape(len(flags), -1)] for value, flags in ((value_a, in_a), (value_b, in_b))
    ]
    away = [np.abs(group - np.median(group, axis=1, keepdims=True)) for group in groups]
    (mean_a, mean_b), (n_a, n_b) = [x.mean(axis=1) for x in away], [x.shape[1] for x in away]
    within = sum(((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for x in away)
    between = (mean_a - mean_b) ** 2 * n_a * n_b / (n_a + n_b)
    size = sum((x**2).sum(axis=1) for x in away)
    return np.where(
        size <= 1e-24, np.nan, between / np.maximum(within, 1e-12 * np.maximum(size, 1e-24)) * (n_a + n_b - 2)
    )


def holm(p: Floats) -> Floats:
    """Step-down adjusted p-values (Holm 1979); NaN stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return adjusted


@dataclass(frozen=True)
class Energy:
    """Energy distance (squared form): whether two suites are different, NOT which is more diverse."""

    value: float
    p: float | None
    how: str
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([{"question": "are they different?", **vars(self)}])


def energy(pair: Pair, distances: Floats, ways: Relabellings, stack: Floats | None = None) -> Energy:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| from N x N distances, p by exchanging labels.

    ``stack`` (ways x N x N) holds the distances after each exchange where the space itself depends on the labels.
    References: Szekely & Rizzo 2013, Energy statistics.
    """
    observed = float(_energy(distances, pair.in_a[None], pair.in_b[None])[0])
    value = tidy(observed) or 0.0
    if ways.reason:
        return Energy(value, None, "", ways.reason)
    null = _energy(distances if stack is None else stack, ways.in_a, ways.in_b)
    return Energy(value, tidy(p_value(observed, null, ways.exact)), ways.words)


def _energy(distances: Floats, in_a: Flags, in_b: Flags) -> Floats:
    """For each way; 2 a'Db - a'Da - b'Db = -(a - b)' D (a - b) with a and b the shares of the tasks in each suite."""
    share_a, share_b = (flags / flags.sum(axis=1, keepdims=True) for flags in (in_a, in_b))
    gap: Floats = share_a - share_b
    seen = gap @ distances if distances.ndim == 2 else np.einsum("wi,wij->wj", gap, distances)
    found: Floats = -(seen * gap).sum(axis=1)
    return found
