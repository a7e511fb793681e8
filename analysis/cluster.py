"""Clusters of workloads: a tree, k-means, and whether there are any. Workload spaces are mostly a continuum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis.gap import DIGITS, INITS, Gap, Labels, distinct, gap, kmeans, renumbered
from wcbench.analysis.scales import Array
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import Space
from wcbench.errors import UnknownNameError, UsageError

METHODS = ("average", "complete", "single", "ward")
EVIDENCE = 0.3  # mean silhouette below which 27 points are no evidence of clusters (95 % of noise sets: METHOD 1.1)
MOST = 5000  # workloads: all their distances fit in 200 MB


@dataclass(frozen=True)
class Hierarchy:
    """Hierarchical clustering, its leaves in the order that brings neighbours together (Bar-Joseph et al. 2001).

    Attributes
    ----------
    names : workloads, sorted; ``order`` the same as the leaves stand.
    linkage : scipy's (n - 1) x 4: the two that merge, the height, the size.
    cophenetic : correlation of the heights at which pairs meet with their distances; NaN where one of them is constant.
    """

    names: tuple[str, ...]
    method: str
    linkage: Array
    order: tuple[str, ...]
    cophenetic: float

    def labels(self, k: int) -> Labels:
        """Cluster of each workload when the tree is cut into k, numbered by first appearance."""
        from scipy.cluster.hierarchy import cut_tree

        if not 1 <= k <= len(self.names):
            raise UsageError(f"{len(self.names)} workloads cannot be cut into {k} clusters.")
        return renumbered(cut_tree(self.linkage, n_clusters=k)[:, 0])

    def to_frame(self) -> pd.DataFrame:
        """A row a merge."""
        n = len(self.names)
        names = [*self.names, *(f"#{i}" for i in range(n, 2 * n - 1))]
        pairs = self.linkage[:, :2].astype(int)
        return pd.DataFrame(
            {
                "merge": names[n:],
                "left": [names[i] for i in pairs[:, 0]],
                "right": [names[i] for i in pairs[:, 1]],
                "height": self.linkage[:, 2],
                "size": self.linkage[:, 3].astype(int),
            }
        )

    def __repr__(self) -> str:
        return (
            f"Hierarchy ({self.method} linkage, {len(self.names)} workloads, cophenetic correlation "
            f"{self.cophenetic:.2f}): {', '.join(self.order[:12])}{', ...' if len(self.order) > 12 else ''}"
        )


@dataclass(frozen=True)
class Clusters(Shown):
    """Clusters by k-means in the full space, as many as the gap statistic finds, and whether that means anything.

    Attributes
    ----------
    k : by the gap statistic with squared distances; ``labels`` are k-means' for it, by workload (sorted).
    silhouettes : of each workload at k; NaN at k = 1.
    by_k : a row for k = 2, 3, ...: inertia, sizes, silhouette (mean), agreement (adjusted Rand index of k-means with
        the tree cut into k).
    """

    names: tuple[str, ...]
    k: int
    labels: Labels
    silhouettes: Array
    gap: Gap
    hierarchy: Hierarchy
    by_k: pd.DataFrame

    @property
    def silhouette(self) -> float:
        """Mean at k; NaN at k = 1."""
        return float(np.round(self.silhouettes.mean(), DIGITS))

    @property
    def agreement(self) -> float:
        """Adjusted Rand index of k-means with the tree at k; NaN at k = 1, where any two agree."""
        row = self.by_k.loc[self.by_k["k"] == self.k, "agreement"]
        return float(row.iloc[0]) if len(row) else float("nan")

    @property
    def natural(self) -> bool:
        """Whether there is evidence of clusters at all."""
        return self.k > 1 and self.silhouette >= EVIDENCE

    @property
    def verdict(self) -> str:
        other = self.gap.chosen[1]
        also = "" if other == self.k else f" (with distances not squared it finds {other})"
        if self.k == 1:
            return f"no natural clusters: the gap statistic finds one{also}"
        if not self.natural:
            return (
                f"no natural clusters: the gap statistic finds {self.k}{also}, "
                f"but their silhouette of {self.silhouette:.2f} is below {EVIDENCE:g}"
            )
        return (
            f"{self.k} clusters{also}: silhouette {self.silhouette:.2f}, k-means and the tree agree to "
            f"{self.agreement:.2f} (adjusted Rand index)"
        )

    def to_frame(self) -> pd.DataFrame:
        """A row a workload."""
        return pd.DataFrame({"workload": self.names, "cluster": self.labels, "silhouette": self.silhouettes})

    def __repr__(self) -> str:
        lines = [f"Clusters ({len(self.names)} workloads): {self.verdict}"]
        if self.k > 1:
            groups = [
                [n for n, label in zip(self.names, self.labels, strict=True) if label == c] for c in range(self.k)
            ]
            lines += [f"  {c}: {', '.join(g[:8])}{', ...' if len(g) > 8 else ''}" for c, g in enumerate(groups)]
        return "\n".join(lines)


def cluster(space: Space, *, method: str = "average", most: int = 10, draws: int = 50, seed: int = 0) -> Clusters:
    """Cluster the workloads of a space, in the whole space and not on a map of it.

    Parameters
    ----------
    method : linkage of the tree.
    most : largest k that is looked at.
    draws, seed : of the gap statistic; the seed of k-means too.

    Raises UsageError for fewer than three workloads, or more than MOST (merge or sample them first).
    """
    frame = space.points.sort_index()
    points = np.ascontiguousarray(frame.to_numpy(np.float64))  # sums depend on the layout
    _check_size(len(points), 3)
    tree = hierarchy(space, method=method)
    found = gap(points, most=most, draws=draws, seed=seed)
    labels, _ = kmeans(points, found.k, seed=seed)
    distances = _distances(points)
    return Clusters(
        names=tree.names,
        k=found.k,
        labels=labels,
        silhouettes=silhouettes(distances, labels),
        gap=found,
        hierarchy=tree,
        by_k=_by_k(points, distances, tree, most, seed),
    )


def hierarchy(space: Space, *, method: str = "average") -> Hierarchy:
    """The tree of a space by Euclidean distances; of ties the first by name merges first.

    Raises UsageError for one workload.
    """
    from scipy.cluster.hierarchy import cophenet, leaves_list, linkage
    from scipy.spatial.distance import pdist

    if method not in METHODS:
        raise UnknownNameError("linkage", method, METHODS)
    frame = space.points.sort_index()
    _check_size(len(frame), 2)
    pairs = pdist(frame.to_numpy(np.float64))
    tree = linkage(pairs, method=method, optimal_ordering=True)
    names = tuple(str(name) for name in frame.index)
    heights = cophenet(tree)
    varied = np.ptp(pairs) > 0 and np.ptp(heights) > 0
    return Hierarchy(
        names=names,
        method=method,
        linkage=np.round(tree, DIGITS),
        order=tuple(names[i] for i in leaves_list(tree)),
        cophenetic=float(np.round(np.corrcoef(pairs, heights)[0, 1], DIGITS)) if varied else float("nan"),
    )


def _distances(points: Array) -> Array:
    """Euclidean, n x n, rounded at ten decimals."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(np.round(pdist(points), DIGITS)), np.float64)


def silhouettes(distances: Array, labels: Labels) -> Array:
    """(b - a) / max(a, b) of each point (Rousseeuw 1987): a to its own cluster, b to the nearest other; 0 when alone.

    NaN for one cluster, or where every point is its own.
    """
    from sklearn.metrics import silhouette_samples

    if not 2 <= len(np.unique(labels)) <= len(labels) - 1:
        return np.full(len(labels), np.nan)
    return np.asarray(np.round(silhouette_samples(distances, labels, metric="precomputed"), DIGITS), np.float64)


def agreement(labels: Labels, others: Labels) -> float:
    """Adjusted Rand index of two partitions (Hubert and Arabie 1985): 1 when equal, about 0 when unrelated."""
    from sklearn.metrics import adjusted_rand_score

    return float(np.round(adjusted_rand_score(labels, others), DIGITS))


def prediction_strength(space: Space, k: int, *, draws: int = 20, seed: int = 0, inits: int = INITS) -> float:
    """Mean over random halves of how well one half's k clusters predict who is together in the other.

    Tibshirani and Walther 2005: of each cluster of the one half, the share of its pairs that fall to the same centre of
    the other half; the least over the clusters; the mean over draws. Above 0.8 to 0.9, k is supported. Meant for many
    workloads: a cluster with one point in a half counts as 1, as there is no pair to tell.

    Raises UsageError where a half has fewer than two points a cluster.
    """
    points = space.points.sort_index().to_numpy(np.float64)
    if len(points) < 4 * k:
        raise UsageError(
            f"Halves of {len(points)} workloads are too small for {k} clusters.", "Prediction strength is for many."
        )
    found = []
    for draw in range(draws):
        order = np.random.default_rng([seed, draw]).permutation(len(points))
        one, other = points[order[: len(points) // 2]], points[order[len(points) // 2 :]]
        pair = [_strength(a, b, k, seed, inits) for a, b in ((one, other), (other, one))]
        found.append(float(np.mean(pair)))
    return float(np.round(np.mean(found), DIGITS))


def _strength(train: Array, test: Array, k: int, seed: int, inits: int) -> float:
    from scipy.spatial.distance import cdist

    learnt, _ = kmeans(train, k, seed=seed, inits=inits)
    own, _ = kmeans(test, k, seed=seed, inits=inits)
    centres = np.array([train[learnt == c].mean(axis=0) for c in range(k)])
    predicted = cdist(test, centres).argmin(axis=1)
    shares = [1.0]
    for c in range(k):
        size, sizes = int((own == c).sum()), np.bincount(predicted[own == c])
        if size > 1:
            shares.append(float((sizes * (sizes - 1)).sum() / (size * (size - 1))))
    return min(shares)


def _by_k(points: Array, distances: Array, tree: Hierarchy, most: int, seed: int) -> pd.DataFrame:
    rows = []
    for k in range(2, min(most, len(points) - 1, distinct(points)) + 1):
        labels, inertia = kmeans(points, k, seed=seed)
        rows.append(
            {
                "k": k,
                "inertia": inertia,
                "sizes": tuple(int(size) for size in sorted(np.bincount(labels), reverse=True)),
                "silhouette": float(np.round(silhouettes(distances, labels).mean(), DIGITS)),
                "agreement": agreement(labels, tree.labels(k)),
            }
        )
    return pd.DataFrame(rows, columns=["k", "inertia", "sizes", "silhouette", "agreement"])


def _check_size(n: int, least: int) -> None:
    if n < least:
        raise UsageError(f"{n} workloads cannot be clustered.", f"It takes {least}.")
    if n > MOST:
        raise UsageError(f"{n} workloads have too many distances.", f"Merge duplicates, or draw at most {MOST}.")
