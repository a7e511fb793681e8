"""Principal components of a space, blind to suites: for reading it and for maps, never for distances of a cover.

How many components stand out is asked in two ways (Horn 1965, on permuted data):

- columns permuted one by one: more shared variance than coordinates without any relation would show;
- the rows of whole blocks permuted: more than blocks without any relation would, whatever each holds inside.

Either may be answered with 0. A map is drawn all the same, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from wcbench.analysis.scales import Array
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import Space
from wcbench.errors import UsageError

DIGITS = 10  # decimals kept: what two LAPACK builds agree on
PERCENTILE = 95.0
DRAWS, MANY, FEWER = 100, 5000, 20  # permuted copies, and how many do beyond MANY workloads, where they differ little
LEAST = 3
TIED = 1e-6  # relative difference below which two eigenvalues are one, and their axes arbitrary


@dataclass(frozen=True)
class Components(Shown):
    """Principal components, largest first.

    Attributes
    ----------
    eigenvalues : variances (divided by n - 1) along the components, those that are not 0.
    ratios : the same as shares of the total variance.
    loadings : coordinates by components, unit columns; the largest by absolute value of each is positive (of equals
        the first by name).
    scores : workloads by components.
    centre : mean of the points.
    kept_columns, kept_blocks : leading components above the 95th percentile of the permuted data's, by columns and by
        rows of blocks; ``limits_columns`` and ``limits_blocks`` are those percentiles.
    effective_rank : exp of the Shannon entropy of the ratios (Roy and Vetterli 2007).
    ties : components whose variances are equal, so that their axes are arbitrary: (1, 2) for the first two.
    blocks, draws, seed : how many blocks the space has; permuted copies for each question, and their seed.
    """

    eigenvalues: Array
    ratios: Array
    loadings: pd.DataFrame
    scores: pd.DataFrame
    centre: Array
    kept_columns: int
    kept_blocks: int
    limits_columns: Array
    limits_blocks: Array
    effective_rank: float
    ties: tuple[tuple[int, int], ...]
    blocks: int
    draws: int
    seed: int

    def map(self, dimensions: int = 2) -> pd.DataFrame:
        """Scores on the first components, 0 on those that the space does not have."""
        names = [f"PC{i + 1}" for i in range(dimensions)]
        return self.scores.reindex(columns=names, fill_value=0.0)

    def project(self, space: Space) -> pd.DataFrame:
        """Scores of other points of the same space (`transform.apply`)."""
        if list(space.points.columns) != list(self.loadings.index):
            raise UsageError("These points are of another space than the components.", "Place them with its recipe.")
        found = (space.points.to_numpy(np.float64) - self.centre) @ self.loadings.to_numpy(np.float64)
        return pd.DataFrame(_rounded(found), index=space.points.index, columns=self.loadings.columns)

    def words(self, component: int, most: int = 3, labels: Mapping[str, str] | None = None) -> str:
        """What a workload far out on a component (1 for the first) has more and less of.

        Names the coordinates with the largest loadings, down to half of the largest; ``labels`` rename them.
        """
        column = self.loadings[f"PC{component}"]
        order = sorted(column.index, key=lambda name: (-abs(column[name]), str(name)))[:most]
        chosen = [name for name in order if abs(column[name]) >= 0.5 * abs(column[order[0]])]
        signed = sorted(chosen, key=lambda name: column[name] < 0)
        told = [f"{'more' if column[name] > 0 else 'less'} {_label(str(name), labels or {})}" for name in signed]
        return f"PC{component} ({100 * (self.ratios[component - 1]):.0f} %): {', '.join(told)}"

    @property
    def verdict(self) -> str:
        """How many components stand out, by both questions."""
        if not self.draws:
            return "which components stand out was not asked"
        first = f"by columns permuted, {self.kept_columns} of {len(self.eigenvalues)} components stand out"
        if self.blocks == 1:
            return f"{first}; with one block there is nothing between blocks to ask about"
        if not self.kept_blocks:
            return f"{first}; by rows of blocks permuted, 0: a map of it shows no direction that blocks share"
        return f"{first}; by rows of blocks permuted, {self.kept_blocks}"

    def to_frame(self) -> pd.DataFrame:
        """A row a component."""
        return pd.DataFrame(
            {
                "component": self.loadings.columns,
                "eigenvalue": self.eigenvalues,
                "ratio": self.ratios,
                "cumulative": _rounded(self.ratios.cumsum()),
                "limit_columns": self.limits_columns,
                "limit_blocks": self.limits_blocks,
                "words": [self.words(i + 1) for i in range(len(self.ratios))],
            }
        )

    def __repr__(self) -> str:
        n, p = len(self.scores), len(self.loadings)
        head = f"Components ({n} workloads, {p} coordinates; effective rank {self.effective_rank:.1f}; {self.verdict})"
        return "\n".join([head, *(f"  {self.words(i + 1)}" for i in range(min(4, len(self.ratios))))])


def pca(space: Space, *, draws: int | None = None, seed: int = 0, percentile: float = PERCENTILE) -> Components:
    """Principal components of a space; sklearn's PCA by full SVD, rounded, with fixed signs.

    Parameters
    ----------
    draws : permuted copies for each of the two questions; None for 100 (20 beyond 5000 workloads); 0 skips them, and
        nothing is kept.
    seed : of the permutations.

    Raises UsageError for fewer than three workloads, or where all are the same.
    """
    from sklearn.decomposition import PCA

    frame = space.points.sort_index()
    points = np.ascontiguousarray(frame.to_numpy(np.float64))  # sums depend on the layout
    if len(points) < LEAST:
        raise UsageError(f"{len(points)} workloads have no components worth the name.", f"It takes {LEAST}.")
    if np.ptp(points, axis=0).max(initial=0.0) < 10.0**-DIGITS:
        raise UsageError("All workloads are at the same point: no direction tells them apart.")
    draws = (DRAWS if len(points) <= MANY else FEWER) if draws is None else draws
    fitted = PCA(svd_solver="full").fit(points)
    total = float(fitted.explained_variance_.sum())
    present = fitted.explained_variance_ > 1e-12 * total
    eigenvalues = _rounded(fitted.explained_variance_[present])
    axes = _signed(fitted.components_[present], [str(name) for name in space.points.columns])
    names = pd.Index([f"PC{i + 1}" for i in range(len(axes))])
    limits = partial(_limits, points, draws=draws, seed=seed, percentile=percentile, count=len(axes))
    columns, blocks = limits([[j] for j in range(points.shape[1])]), limits(_groups(space.blocks))
    ratios = _rounded(fitted.explained_variance_[present] / total)
    return Components(
        eigenvalues=eigenvalues,
        ratios=ratios,
        loadings=pd.DataFrame(_rounded(axes.T), index=space.points.columns, columns=names),
        scores=pd.DataFrame(_rounded((points - fitted.mean_) @ axes.T), index=frame.index, columns=names),
        centre=np.asarray(fitted.mean_, np.float64),
        kept_columns=_leading(eigenvalues, columns),
        kept_blocks=_leading(eigenvalues, blocks),
        limits_columns=columns,
        limits_blocks=blocks,
        effective_rank=effective_rank(ratios),
        ties=_ties(eigenvalues),
        blocks=len(set(space.blocks)),
        draws=draws,
        seed=seed,
    )


def effective_rank(shares: Array) -> float:
    """exp(-sum p ln p) of shares that sum to 1: the number of equal components with that entropy."""
    present = shares[shares > 0]
    return float(np.round(np.exp(-(present * np.log(present)).sum()), DIGITS))


def _rounded(values: Array) -> Array:
    """Rounded to DIGITS, without negative zeros."""
    return np.asarray(np.round(values, DIGITS) + 0.0, np.float64)


def _signed(axes: Array, names: Sequence[str]) -> Array:
    """Components (rows) turned so that the largest loading is positive; of equals the first by name decides."""
    order = sorted(range(len(names)), key=lambda j: names[j])
    sizes = np.round(np.abs(axes[:, order]), 8)
    first = np.array(order)[sizes.argmax(axis=1)]
    return np.asarray(axes * np.sign(axes[np.arange(len(axes)), first])[:, None], np.float64)


def _groups(blocks: Iterable[str]) -> list[list[int]]:
    found: dict[str, list[int]] = {}
    for j, block in enumerate(blocks):
        found.setdefault(block, []).append(j)
    return list(found.values())


def _limits(points: Array, groups: list[list[int]], *, draws: int, seed: int, percentile: float, count: int) -> Array:
    """Percentiles of the eigenvalues of permuted copies: the rows of each group are permuted together."""
    if not draws:
        return np.full(count, np.nan)
    rng = np.random.default_rng(seed)
    found = np.zeros((draws, count))
    for draw in range(draws):
        mixed = np.empty_like(points)
        for group in groups:
            mixed[:, group] = points[rng.permutation(len(points))[:, None], np.array(group)]
        values = _eigenvalues(mixed)[:count]
        found[draw, : len(values)] = values
    return _rounded(np.percentile(found, percentile, axis=0))


def _eigenvalues(points: Array) -> Array:
    """Of the covariance (ddof 1), largest first, from the smaller of the two products."""
    from scipy.linalg import eigvalsh

    centred = points - points.mean(axis=0)
    product = centred.T @ centred if points.shape[0] >= points.shape[1] else centred @ centred.T
    found = eigvalsh(product)[::-1] / (len(points) - 1)
    return np.asarray(np.maximum(found, 0.0), np.float64)


def _leading(values: Array, limits: Array) -> int:
    """Components before the first that does not exceed its limit (NaN: none does)."""
    above = values > limits + 10.0**-DIGITS
    return len(above) if above.all() else int(np.argmin(above))


def _ties(values: Array) -> tuple[tuple[int, int], ...]:
    near = (values[:-1] - values[1:]) <= TIED * values[0]
    return tuple((int(i) + 1, int(i) + 2) for i in np.flatnonzero(near))


def _label(name: str, labels: Mapping[str, str]) -> str:
    """A feature's name as words: ``op_class_byte_share[GEMM]`` is "GEMM in op class byte share"."""
    if name in labels:
        return labels[name]
    family, _, part = name.partition("[")
    words = family.replace("_", " ")
    return f"{part.rstrip(']')} in {words}" if part else words
