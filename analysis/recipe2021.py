"""The way of AIBench Training (ISPASS 2021), to be set beside ours: z-scores of five counters, t-SNE, three clusters.

The paper takes achieved occupancy, IPC efficiency, global load and store efficiency and DRAM utilization of each task,
draws them with t-SNE, and sees three clusters by k-means. t-SNE keeps neighbours and little else: sizes and distances
on its map mean nothing, and it shows clusters in pure noise. So the steps are repeated over seeds here, and how far the
clusters agree with each other, with k-means on the same z-scores, and with ours is part of the result.

The paper gives neither seed nor perplexity (METHOD 1 has its steps from memory): both are ours, and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from wcbench.analysis import raw, scales
from wcbench.analysis.cluster import agreement, silhouettes
from wcbench.analysis.gap import DIGITS, INITS, Labels, distinct, kmeans
from wcbench.analysis.scales import Array
from wcbench.analysis.table import FeatureTable, Space
from wcbench.errors import UsageError

METRICS = ("achieved_occupancy", "ipc_efficiency", "gld_efficiency", "gst_efficiency", "dram_utilization")
CLUSTERS = 3
SEEDS = tuple(range(20))
LEAST = 5  # workloads: fewer have no perplexity worth the name
REFERENCE = "AIBench Training: Balanced Industry-Standard AI Training Benchmarking, ISPASS 2021"


@dataclass(frozen=True)
class Recipe2021:
    """Clusters by the recipe, once a seed, and how stable they are.

    Attributes
    ----------
    metrics : features that were used; ``missing`` the paper's that were not.
    maps : t-SNE coordinates, seeds x workloads x 2; ``labels`` the clusters in them, seeds x workloads.
    pairs : adjusted Rand index of every two seeds.
    on_scores : of each seed with k-means on the z-scores; ``on_ours`` with k-means in our space, NaN without one.
    map_silhouettes, data_silhouettes : mean silhouette of each seed's clusters on its map and in the z-scores.
    together : share of the seeds in which two workloads are in one cluster, n x n.
    dropped : workloads and metrics left out, each with its reason.
    """

    names: tuple[str, ...]
    metrics: tuple[str, ...]
    missing: tuple[str, ...]
    k: int
    perplexity: float
    seeds: tuple[int, ...]
    maps: Array
    labels: Labels
    pairs: Array
    on_scores: Array
    on_ours: Array
    map_silhouettes: Array
    data_silhouettes: Array
    together: pd.DataFrame
    dropped: dict[str, str]

    @property
    def faithful(self) -> bool:
        """Whether the metrics are the paper's five."""
        return not self.missing and set(self.metrics) == set(METRICS)

    @property
    def unsure(self) -> float:
        """Share of the pairs of workloads that are together in more than 10 % and fewer than 90 % of the seeds."""
        shares = self.together.to_numpy()[np.triu_indices(len(self.names), 1)]
        return float(np.round(((shares > 0.1) & (shares < 0.9)).mean(), DIGITS))

    @property
    def verdict(self) -> str:
        """How far the clusters can be trusted, in words."""
        on_map, in_data = np.median(self.map_silhouettes), np.median(self.data_silhouettes)
        told = (
            f"over {len(self.seeds)} seeds any two runs agree to {np.median(self.pairs):.2f} (median adjusted Rand "
            f"index, from {self.pairs.min():.2f} to {self.pairs.max():.2f}); {100 * self.unsure:.0f} % of the pairs of "
            f"workloads are together in some runs and apart in others; the silhouette is {on_map:.2f} on the map and "
            f"{in_data:.2f} in the data"
        )
        ours = f"; with k-means in our space {np.median(self.on_ours):.2f}" if np.isfinite(self.on_ours).all() else ""
        return f"{told}; with k-means on the z-scores they agree to {np.median(self.on_scores):.2f}{ours}"

    @property
    def caveat(self) -> str:
        """What is not the paper's; empty where nothing is."""
        if self.faithful:
            return ""
        if len(self.missing) == len(METRICS):
            return f"no counter of the paper is used: its steps, on the {len(self.metrics)} features of the table"
        return f"without {', '.join(self.missing)}: its steps, on the {len(self.metrics)} counters that are there"

    def to_frame(self) -> pd.DataFrame:
        """A row a seed and workload: seed, workload, x, y, cluster."""
        n = len(self.names)
        return pd.DataFrame(
            {
                "seed": np.repeat(self.seeds, n),
                "workload": list(self.names) * len(self.seeds),
                "x": self.maps[:, :, 0].ravel(),
                "y": self.maps[:, :, 1].ravel(),
                "cluster": self.labels.ravel(),
            }
        )

    def by_seed(self) -> pd.DataFrame:
        """A row a seed: agreement with the z-scores' and with our clusters, silhouettes on the map and in the data."""
        return pd.DataFrame(
            {
                "seed": self.seeds,
                "on_scores": self.on_scores,
                "on_ours": self.on_ours,
                "map_silhouette": self.map_silhouettes,
                "data_silhouette": self.data_silhouettes,
            }
        )

    def __repr__(self) -> str:
        head = f"Recipe2021 ({len(self.names)} workloads, {len(self.metrics)} metrics, perplexity {self.perplexity:g})"
        return "\n".join([f"{head}: {self.verdict}", *([f"  not the paper's: {self.caveat}"] if self.caveat else [])])


def recipe2021(
    table: FeatureTable,
    *,
    space: Space | None = None,
    seeds: Iterable[int] = SEEDS,
    perplexity: float | None = None,
    k: int = CLUSTERS,
) -> Recipe2021:
    """The recipe on a table: raw z-scores (ddof 0) of the paper's counters, t-SNE, k-means on its map.

    Where the table has fewer than two of the counters, all its features without nulls take their place.

    Parameters
    ----------
    space : ours, to compare with; workloads that it lacks do not enter the comparison.
    seeds : of t-SNE (random start) and of k-means on its map; two at least, and 20 to say anything.
    perplexity : below the number of workloads; None for 30, or a third of n - 1 where that is less.

    Raises UsageError for fewer than five workloads, fewer than two metrics, or a perplexity that does not fit.
    """
    chosen = tuple(dict.fromkeys(int(seed) for seed in seeds))
    if len(chosen) < 2:
        raise UsageError("One seed shows no instability.", "Give two or more; 20 are the default.")
    names, metrics, scores, dropped = _scores(table)
    used = _perplexity(len(names), perplexity)
    if not 2 <= k <= min(len(names) - 1, distinct(scores)):
        raise UsageError(f"{len(names)} workloads do not make {k} clusters.", "Ask for 2 or more, and fewer than them.")
    maps = np.array([_tsne(scores, used, seed) for seed in chosen])
    labels = np.array([kmeans(points, k, seed=seed, inits=INITS)[0] for points, seed in zip(maps, chosen, strict=True)])
    plain, _ = kmeans(scores, k)
    distances = _distances(scores)
    together = np.mean([row[:, None] == row[None, :] for row in labels], axis=0)
    return Recipe2021(
        names=names,
        metrics=metrics,
        missing=tuple(name for name in METRICS if name not in metrics),
        k=k,
        perplexity=used,
        seeds=chosen,
        maps=maps,
        labels=labels,
        pairs=np.array([agreement(labels[i], labels[j]) for i, j in combinations(range(len(labels)), 2)]),
        on_scores=np.array([agreement(row, plain) for row in labels]),
        on_ours=_on_ours(labels, names, space, k),
        map_silhouettes=_silhouettes([_distances(points) for points in maps], labels),
        data_silhouettes=_silhouettes([distances] * len(labels), labels),
        together=pd.DataFrame(together, index=pd.Index(names), columns=pd.Index(names)),
        dropped=dropped,
    )


def _scores(table: FeatureTable) -> tuple[tuple[str, ...], tuple[str, ...], Array, dict[str, str]]:
    """Workloads, metrics, their z-scores (SD with ddof 0, as sklearn's), and what was left out."""
    plain = tuple(replace(feature, transform="none", floor=None) for feature in table.features)
    found = raw.raw(replace(table, features=plain))
    found = found.without(raw.unmeasured(found))
    present = [f.name for f in found.features if f.name in METRICS]
    if len(present) >= 2:
        found = found.without({f.name: "not of the paper's counters" for f in found.features if f.name not in METRICS})
        found = found.without(raw.null_workloads(found))
    else:
        found = found.without(raw.null_features(found))
    flat = [f.name for f, column in zip(found.features, found.values.T, strict=True) if scales.flat(column, "none")]
    found = found.without(dict.fromkeys(flat, "constant: no z-score"))
    if len(found.names) < LEAST or len(found.features) < 2:
        raise UsageError(
            f"The recipe of 2021 has {len(found.names)} workloads and {len(found.features)} metrics to work on here, "
            f"and takes {LEAST} and 2.",
            f"Its metrics are {', '.join(METRICS)}: counters of a GPU.",
        )
    scores = (found.values - found.values.mean(axis=0)) / found.values.std(axis=0)
    left = {name: why for name, why in found.dropped.items() if why != "not of the paper's counters"}
    return found.names, tuple(f.name for f in found.features), scores, left


def _perplexity(n: int, asked: float | None) -> float:
    if asked is None:
        return min(30.0, (n - 1) / 3)
    if not 1 <= asked < n:
        raise UsageError(
            f"t-SNE's perplexity of {asked:g} does not fit {n} workloads.", "It lies from 1 to below them."
        )
    return float(asked)


def _tsne(scores: Array, perplexity: float, seed: int) -> Array:
    """n x 2. From a random start, as in 2021; on one thread, so that a seed gives one map on one machine."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    method = "exact" if len(scores) <= 500 else "barnes_hut"
    with threadpool_limits(1):
        model = TSNE(perplexity=perplexity, init="random", learning_rate="auto", random_state=seed, method=method)
        return np.asarray(model.fit_transform(scores), np.float64)


def _distances(points: Array) -> Array:
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)), np.float64)


def _silhouettes(distances: Sequence[Array], labels: Labels) -> Array:
    """Mean silhouette of each row of labels in its distances."""
    pairs = zip(distances, labels, strict=True)
    return np.array([float(np.round(silhouettes(d, row).mean(), DIGITS)) for d, row in pairs])


def _on_ours(labels: Labels, names: tuple[str, ...], space: Space | None, k: int) -> Array:
    """Agreement of each seed with k-means in our space, over the workloads that both have."""
    nothing = np.full(len(labels), np.nan)
    if space is None:
        return nothing
    shared = [i for i, name in enumerate(names) if name in set(space.names)]
    points = space.points.loc[[names[i] for i in shared]].to_numpy(np.float64) if shared else np.empty((0, 1))
    if len(shared) <= k or distinct(points) < k:
        return nothing
    ours, _ = kmeans(points, k)
    return np.array([agreement(row[shared], ours) for row in labels])
