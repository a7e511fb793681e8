"""Vendi score: how many tasks that are wholly unlike each other a suite is worth, under one kernel for both suites.

It grows with the number of tasks and depends wholly on the bandwidth: three are shown, and size is taken out by
rarefaction. References: Friedman & Dieng 2023, arXiv:2210.02410; order 2 and convergence, arXiv:2410.21719.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wcbench.analysis.pairing import Floats, Pair, subsets, tidy
from wcbench.analysis.rarefaction import Rarefied, in_order, place
from wcbench.errors import UsageError

ORDERS = (1.0, 2.0)
BANDWIDTHS = (0.5, 1.0, 2.0)
"""Multiples of the median distance between all workloads of both suites."""

_CHUNK = 20_000


def gaussian(distances: Floats, bandwidth: float) -> Floats:
    """exp(-d^2 / (2 h^2)): 1 for equal tasks, towards 0 for tasks much further apart than h."""
    kernel: Floats = np.exp(-((distances / bandwidth) ** 2) / 2)
    return kernel


def vendi_score(kernel: Floats, order: float = 1.0) -> float:
    """exp of the Renyi entropy of this order of the eigenvalues of K / n; between 1 (all alike) and n (all unlike).

    Parameters
    ----------
    kernel : n x n similarities, symmetric, positive semidefinite, 1 on the diagonal.
    order : q >= 0; 1 is Shannon's, ``math.inf`` the reciprocal of the largest eigenvalue.
    """
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or not np.allclose(np.diag(kernel), 1.0):
        raise UsageError("A Vendi score needs a square matrix of similarities with ones on its diagonal.")
    return float(_scores(kernel[None], order)[0])


def _scores(kernels: Floats, order: float) -> Floats:
    """Scores of a stack of kernels, k x n x n."""
    n = kernels.shape[1]
    if order == 2.0:  # the sum of squared eigenvalues is the squared Frobenius norm
        return np.asarray(n**2 / (kernels**2).sum(axis=(1, 2)), np.float64)
    shares = np.clip(np.linalg.eigvalsh(kernels) / n, 0.0, None)
    shares /= shares.sum(axis=1, keepdims=True)
    if order == 1.0:
        logs = np.log(np.where(shares > 0, shares, 1.0))
        return np.asarray(np.exp(-(shares * logs).sum(axis=1)), np.float64)
    if math.isinf(order):
        return np.asarray(1.0 / shares.max(axis=1), np.float64)
    powers = np.where(shares > 1e-14, shares, 0.0) ** order
    return np.asarray(np.where(shares > 1e-14, powers, 0.0).sum(axis=1) ** (1.0 / (1.0 - order)), np.float64)


def subset_scores(kernel: Floats, picks: NDArray[np.intp], order: float) -> Floats:
    """Scores of the sub-kernels of subsets (rows of indices)."""
    parts = [picks[start : start + _CHUNK] for start in range(0, len(picks), _CHUNK)]
    return np.concatenate([_scores(kernel[part[:, :, None], part[:, None, :]], order) for part in parts])


@dataclass(frozen=True)
class Vendi:
    """Vendi scores of two suites under one kernel.

    Attributes
    ----------
    rows : columns order, bandwidth (multiple of the pooled median distance), a, b (raw, size-dependent), mean (of the
        larger suite's subsets of the smaller one's size), value (the smaller suite's), share_above, subsets, exact.
    curve : columns suite, order, bandwidth, m, score: the mean over subsets of m tasks, the full suite at the last m.
    median_distance : what the multiples are of, in units of the space.
    reason : why there is nothing; empty where there is.
    """

    rows: pd.DataFrame
    curve: pd.DataFrame
    rarefied: tuple[Rarefied, ...]
    median_distance: float | None
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        if self.reason:
            return f"Vendi(none: {self.reason})"
        lines = [
            f"  q = {row.order:g}, bandwidth x {row.bandwidth:g}: {row.mean:.3g} at the smaller size against "
            f"{row.value:.3g}"
            for row in self.rows.itertuples()
        ]
        return "\n".join(["Vendi (size-matched)", *lines])


def vendi(
    pair: Pair,
    distances: Floats,
    *,
    orders: Sequence[float] = ORDERS,
    bandwidths: Sequence[float] = BANDWIDTHS,
    draws: int = 2000,
    curve_draws: int = 100,
    seed: int = 0,
) -> Vendi:
    """Scores, rarefied scores and rarefaction curves for every order and bandwidth.

    The bandwidth is a multiple of the median distance between all workloads of both, which no label enters.
    ``draws`` subsets give the place of the smaller suite (all of them if there are no more), ``curve_draws`` each
    point of the curves.
    """
    empty = pd.DataFrame()
    median = float(np.median(distances[np.triu_indices(len(distances), 1)])) if len(distances) > 1 else 0.0
    if median <= 0.0:
        return Vendi(empty, empty, (), None, "half of all pairs of workloads or more coincide: there is no bandwidth")
    _, _, big, small = in_order(pair)
    picks = big[subsets(len(big), len(small), limit=draws, draws=draws, seed=seed)]
    exact = len(picks) == math.comb(len(big), len(small))
    rows, curves, rarefied = [], [], []
    for bandwidth in bandwidths:
        kernel = gaussian(distances, bandwidth * median)
        for order in orders:
            raw = [subset_scores(kernel, members[None], order) for members in (pair.a, pair.b)]
            name = f"Vendi score, q = {order:g}, bandwidth {bandwidth:g} x median"
            placed = place(
                name, pair, subset_scores(kernel, picks, order), subset_scores(kernel, small[None], order), exact
            )
            rarefied.append(placed)
            figures = (tidy(float(raw[0][0])), tidy(float(raw[1][0])), placed.mean, placed.value, placed.share_above)
            rows.append((order, bandwidth, *figures, len(picks), exact))
            curves += _curve(pair, kernel, order=order, bandwidth=bandwidth, draws=curve_draws, seed=seed)
    columns = ["order", "bandwidth", "a", "b", "mean", "value", "share_above", "subsets", "exact"]
    curve = pd.DataFrame(curves, columns=["suite", "order", "bandwidth", "m", "score"])
    return Vendi(pd.DataFrame(rows, columns=columns), curve, tuple(rarefied), tidy(median))


def _curve(
    pair: Pair, kernel: Floats, *, order: float, bandwidth: float, draws: int, seed: int
) -> list[tuple[str, float, float, int, float | None]]:
    rows = []
    for label, members in ((pair.label_a, pair.a), (pair.label_b, pair.b)):
        for m in _sizes(len(members)):
            picks = members[subsets(len(members), m, limit=draws, draws=draws, seed=seed + m)]
            rows.append((label, order, bandwidth, m, tidy(float(subset_scores(kernel, picks, order).mean()))))
    return rows


def _sizes(n: int) -> list[int]:
    """1 to n, thinned to about thirty sizes where a suite is large."""
    return sorted({*range(1, min(n, 20) + 1), *np.linspace(min(n, 20), n, 10).astype(int).tolist()})
