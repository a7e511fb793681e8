"""k-means, its dispersion, and how many clusters the gap statistic finds, one included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wcbench.analysis.scales import Array
from wcbench.errors import UsageError

DIGITS = 10
INITS = 20  # k-means++ starts, the best of which counts; of data and references alike in the gap statistic
BEST = 100  # starts for a partition that is shown: 20 miss the optimum on the 50 x 4 of USArrests
POWERS = (2, 1)
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Gap:
    """The gap statistic for k = 1, 2, ... up to where both of its readings are settled, or ``most``.

    ``frame`` has a row a k and, for each power p of the distances, the columns log_w_p (ln of `dispersion`), expected_p
    (its mean over the references), gap_p and error_p (s of Tibshirani et al.: SD of the references, ddof 0, times
    sqrt(1 + 1 / draws)). ``chosen`` is k by power: the smallest with gap(k) >= gap(k + 1) - error(k + 1); where no k
    up to ``most`` has it, ``most``, and ``settled`` is False.
    """

    frame: pd.DataFrame
    chosen: dict[int, int]
    settled: dict[int, bool]
    most: int
    draws: int
    seed: int

    @property
    def k(self) -> int:
        """Number of clusters by squared distances, as in the paper."""
        return self.chosen[2]

    def to_frame(self) -> pd.DataFrame:
        return self.frame.copy()

    def __repr__(self) -> str:
        told = [
            f"k = {self.chosen[p]} with {'squared distances' if p == 2 else 'distances'}"
            + ("" if self.settled[p] else f" (not settled up to {self.most})")
            for p in POWERS
        ]
        return f"Gap ({', '.join(told)}; {self.draws} references)"


def gap(
    points: Array, *, most: int = 10, draws: int = 50, seed: int = 0, inits: int = INITS, full: bool = False
) -> Gap:
    """The gap statistic (Tibshirani, Walther, Hastie 2001) of k-means, k = 1 allowed.

    The references are uniform in the box of the points along their principal axes. k goes up until the rule holds for
    both powers (``full``: to ``most`` in any case), and no further than to one less than the distinct points.

    Parameters
    ----------
    points : n x d.
    draws : references; seed : of references and of k-means.

    Raises UsageError for fewer than three points.
    """
    if len(points) < 3:
        raise UsageError(f"{len(points)} points have no clusters.", "It takes 3 workloads.")
    turned = _turned(points)
    most = max(1, min(most, distinct(points) - 1))
    rows: list[dict[str, float]] = []
    for k in range(1, most + 1):
        rows.append(_row(turned, k, draws, seed, inits))
        if not full and k > 1 and all(_first(rows, power) for power in POWERS):
            break
    found = {power: _first(rows, power) for power in POWERS}
    return Gap(
        frame=pd.DataFrame(rows),
        chosen={power: k or most for power, k in found.items()},
        settled={power: bool(k) or most == 1 for power, k in found.items()},
        most=most,
        draws=draws,
        seed=seed,
    )


def kmeans(points: Array, k: int, *, seed: int = 0, inits: int = BEST) -> tuple[Labels, float]:
    """Labels (0, 1, ... in the order of first appearance) and inertia of the best of ``inits`` starts; sklearn's.

    On one thread: at these sizes that is several times as fast, and the same on every machine.

    Raises UsageError where there are fewer distinct points than clusters.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    if k == 1:
        return np.zeros(len(points), np.int64), float(np.round(((points - points.mean(axis=0)) ** 2).sum(), DIGITS))
    there = distinct(points)
    if not 1 <= k <= there:
        raise UsageError(f"{there} distinct points do not make {k} clusters.", f"Ask for 1 to {there}.")
    with threadpool_limits(1):
        fitted = KMeans(k, n_init=inits, random_state=seed).fit(points)
    return renumbered(fitted.labels_), float(np.round(fitted.inertia_, DIGITS))


def renumbered(labels: Sequence[int] | NDArray[np.integer]) -> Labels:
    """The same partition, numbered 0, 1, ... in the order of first appearance."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(int(label), len(numbers)) for label in labels], np.int64)


def distinct(points: Array) -> int:
    """Points that differ at ten decimals."""
    return len(np.unique(np.round(points, DIGITS), axis=0))


def dispersion(points: Array, labels: Labels, power: int) -> float:
    """Sum over clusters of (sum of d^power over pairs, each once) / (size of the cluster).

    With power 2 that is k-means' inertia; R's clusGap halves it, which moves every logarithm by ln 2 and no gap.
    """
    from scipy.spatial.distance import pdist

    clusters = [points[labels == label] for label in np.unique(labels)]
    if power == 2:
        return float(sum(((c - c.mean(axis=0)) ** 2).sum() for c in clusters))
    return float(sum((pdist(c) ** power).sum() / len(c) for c in clusters))


def _turned(points: Array) -> Array:
    """Centred points along their principal axes, the signs fixed; distances are the same."""
    centred = points - points.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[sizes > 1e-10 * max(sizes[0], 1e-300)]
    first = np.round(np.abs(axes), 8).argmax(axis=1)
    axes = axes * np.sign(axes[np.arange(len(axes)), first])[:, None]
    return np.asarray(centred @ axes.T, np.float64)


def _row(turned: Array, k: int, draws: int, seed: int, inits: int) -> dict[str, float]:
    labels, _ = kmeans(turned, k, seed=seed, inits=inits)
    own = [_log(dispersion(turned, labels, power)) for power in POWERS]
    low, high = turned.min(axis=0), turned.max(axis=0)
    references = np.empty((draws, len(POWERS)))
    for draw in range(draws):
        box = np.random.default_rng([seed, draw]).uniform(low, high, turned.shape)
        labels, _ = kmeans(box, k, seed=seed, inits=inits)
        references[draw] = [_log(dispersion(box, labels, power)) for power in POWERS]
    means, errors = references.mean(axis=0), references.std(axis=0) * np.sqrt(1 + 1 / draws)
    row: dict[str, float] = {"k": k}
    for i, power in enumerate(POWERS):
        values = {"log_w": own[i], "expected": means[i], "gap": means[i] - own[i], "error": errors[i]}
        row |= {f"{name}_{power}": float(np.round(value, DIGITS)) for name, value in values.items()}
    return row


def _log(value: float) -> float:
    return float(np.log(max(value, 1e-300)))


def _first(rows: list[dict[str, float]], power: int) -> int:
    """The smallest k that the rule accepts; 0 while there is none."""
    for this, following in pairwise(rows):
        if this[f"gap_{power}"] >= following[f"gap_{power}"] - following[f"error_{power}"]:
            return int(this["k"])
    return 0
