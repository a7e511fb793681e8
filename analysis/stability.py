"""How much a subset depends on which workloads were there, which features, and the noise of the features.

Draws are without replacement: a bootstrap would make duplicates and so clusters that are none. In each draw the cover
alone is solved again. Where several smallest covers exist, the one that shares most with the full subset is taken, so
that a difference is one that the data force and not one of the solver's taste.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.cover import Bools, Distances, Set, distances, nearest, radius_of, smallest
from wcbench.analysis.programs import Floats
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import Space
from wcbench.errors import UsageError

DRAWS = 200
SHARE = 0.8
SEED = 20240601
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Stability(Shown):
    """What many re-solved covers have in common.

    Attributes
    ----------
    of : what was varied, in words; ``draws`` how many times, from ``seed``.
    table : workload, drawn (draws with it), chosen (of these, in the cover), frequency (chosen / drawn, NaN where never
        drawn), member (of the full subset).
    sizes : sizes of the covers and how many draws had each.
    jaccard : mean over draws of |S and T| / |S or T| for the draw's cover S and the full subset T, of T only what was
        drawn. ``jaccard_between`` is the mean over all pairs of draws, of each only workloads that both drew.
    consensus : workloads x workloads, share of the draws with both in which they had the same nearest member; NaN where
        no draw had both.
    each : a row a draw: draw, drawn (workloads), size (of its cover), jaccard (with the full subset, as above).
    pac : share of the pairs whose consensus lies in (0.1, 0.9): 0 is stable. NaN for fewer than 2 workloads.
    """

    of: str
    radius: float
    draws: int
    seed: int
    table: pd.DataFrame
    sizes: Mapping[int, int]
    jaccard: float
    jaccard_between: float
    consensus: pd.DataFrame
    pac: float
    each: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.table.copy()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{k}: {count}" for k, count in self.sizes.items())
        members = self.table[self.table["member"]].sort_values(["frequency", "workload"], ascending=[False, True])
        pairs = zip(members["workload"], members["frequency"], strict=True)
        return (
            f"Stability ({self.of}; {self.draws} draws at r = {self.radius:.4g})\n"
            f"  Jaccard with the subset {self.jaccard:.3f}, between draws {self.jaccard_between:.3f}; "
            f"PAC {self.pac:.3f}\n"
            f"  sizes {sizes}\n  chosen: {', '.join(f'{name} {100 * share:.0f} %' for name, share in pairs)}"
        )


@dataclass(frozen=True)
class _Draw:
    """Workloads of a draw (places), its cover, and the nearest member of each."""

    drawn: NDArray[np.intp]
    members: Set
    served: NDArray[np.intp]


def sub_samples(
    d: Distances,
    radius: float,
    members: Sequence[str],
    *,
    candidates: Sequence[str] | None = None,
    draws: int = DRAWS,
    share: float = SHARE,
    seed: int = SEED,
) -> Stability:
    """Covers of random parts of the workloads, each a ``share`` of them without replacement.

    Parameters
    ----------
    members : the full subset. ``candidates`` may be members, all by default; a draw in which a workload has no
        candidate within reach leaves that workload out.
    """
    if not 0 < share <= 1 or draws < 1:
        raise UsageError(f"{draws} draws of a share of {share} cannot be made.", "Ask for a share above 0, at most 1.")
    random = np.random.default_rng(seed)
    taken = max(1, round(share * len(d)))
    allowed = np.zeros(len(d), bool)
    allowed[list(range(len(d)) if candidates is None else d.places(candidates))] = True
    full = d.places(members)
    near = d.within(radius)
    found = []
    for _ in range(draws):
        drawn = np.sort(random.choice(len(d), taken, replace=False))
        found.append(_solved(d.values, near, drawn, allowed, full))
    return _summary(f"sub-samples of {taken} of {len(d)} workloads", d.names, full, found, radius=radius, seed=seed)


def jitter(
    space: Space, noise: ArrayLike, radius: float, members: Sequence[str], *, draws: int = DRAWS, seed: int = SEED
) -> Stability:
    """Covers after normal noise was added to the points.

    Parameters
    ----------
    noise : standard deviation from run to run, in the scaled unit of the space: one number, one for each coordinate, or
        workloads x coordinates in the order of ``space.points``. 0 for features that do not vary, as counted ones.
    """
    points = space.points.to_numpy(np.float64)
    deviations = np.broadcast_to(np.asarray(noise, np.float64), points.shape)
    if not np.isfinite(deviations).all() or (deviations < 0).any():
        raise UsageError("The noise of a feature is a number of at least 0.")
    random = np.random.default_rng(seed)
    every = np.arange(len(points))
    full = distances(space.distances(), space.names).places(members)
    found = []
    for _ in range(draws):
        moved = distances(squareform(pdist(points + deviations * random.standard_normal(points.shape))), space.names)
        found.append(_solved(moved.values, moved.within(radius), every, np.ones(len(points), bool), full))
    of = "normal noise of the features"
    return _summary(of, tuple(space.names), full, found, radius=radius, seed=seed)


def _solved(values: Floats, near: Bools, drawn: NDArray[np.intp], allowed: Bools, full: Set) -> _Draw:
    """A smallest cover of those drawn that have a candidate, of several the one with most members of the full subset.

    One program does both: a member costs n + 1, one of the full subset n, so that size always counts first.
    """
    candidates = drawn[allowed[drawn]]
    drawn = drawn[near[np.ix_(drawn, candidates)].any(axis=1)]
    if not len(drawn):
        return _Draw(drawn, (), drawn)
    inside = near[np.ix_(drawn, candidates)]
    weights = (len(near) + 1 - np.isin(candidates, full)).astype(np.float64)
    answer = smallest(inside, range(len(candidates)), weights)
    places = () if answer is None else answer.chosen
    members = tuple(int(candidates[i]) for i in places)
    return _Draw(drawn, members, nearest(values, members)[drawn])


def _summary(of: str, names: tuple[str, ...], full: Set, found: list[_Draw], *, radius: float, seed: int) -> Stability:
    """Frequencies, likeness and consensus of the draws."""
    n = len(names)
    drawn, chosen = np.zeros((len(found), n), bool), np.zeros((len(found), n), bool)
    for i, draw in enumerate(found):
        drawn[i, draw.drawn] = True
        chosen[i, list(draw.members)] = True
    member = np.isin(np.arange(n), full)
    counts = drawn.sum(axis=0)
    table = pd.DataFrame({"workload": names, "drawn": counts, "chosen": chosen.sum(axis=0)})
    table["frequency"] = _divided(chosen.sum(axis=0), counts)
    table["member"] = member
    alike = [_jaccard(chosen[i], member & drawn[i]) for i in range(len(found))]
    each = {"draw": np.arange(len(found)), "drawn": drawn.sum(axis=1), "size": chosen.sum(axis=1), "jaccard": alike}
    sizes, times = np.unique(chosen.sum(axis=1), return_counts=True)
    consensus = _consensus(found, n)
    pairs = consensus[np.triu_indices(n, 1)]
    known = pairs[~np.isnan(pairs)]
    return Stability(
        of=of,
        radius=radius,
        draws=len(found),
        seed=seed,
        table=table,
        sizes=dict(zip(sizes.tolist(), times.tolist(), strict=True)),
        jaccard=_mean(alike),
        jaccard_between=_between(drawn, chosen),
        consensus=pd.DataFrame(consensus, index=list(names), columns=list(names)),
        pac=float(((known > LOW) & (known < HIGH)).mean()) if len(known) else math.nan,
        each=pd.DataFrame(each),
    )


def _divided(above: NDArray[np.int64], below: NDArray[np.int64]) -> Floats:
    """above / below, NaN where below is 0."""
    known = below > 0
    return np.where(known, above / np.where(known, below, 1), np.nan)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _jaccard(a: Bools, b: Bools) -> float:
    """Likeness of two sets, NaN for two empty ones."""
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else math.nan


def _between(drawn: Bools, chosen: Bools) -> float:
    """Mean Jaccard of all pairs of draws, each pair looked at where both drew."""
    had, took = drawn.astype(np.int64), chosen.astype(np.int64)
    both = took @ took.T  # a cover holds only what was drawn, so this is of what both drew
    either = took @ had.T + had @ took.T - both
    found = _divided(both, either)[np.triu_indices(len(drawn), 1)]
    return _mean(found.tolist())


def _consensus(found: list[_Draw], n: int) -> Floats:
    """Share of the draws with both workloads in which one member served both, n x n; NaN where none had both."""
    together, alike = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for draw in found:
        at = np.ix_(draw.drawn, draw.drawn)
        together[at] += 1
        alike[at] += draw.served[:, None] == draw.served[None, :]
    return _divided(alike, together)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The subset without each block of features in turn.

    ``table`` has a row for each block: block, radius (how it came about: radius_from), k, members, jaccard with the
    full subset, reached (largest distance of a workload to the full subset without the block) and holds (whether the
    full subset still covers at that radius).
    """

    radius: float
    table: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.table.copy()

    def __repr__(self) -> str:
        rows = self.table.itertuples(index=False)
        lines = [f"  without {r.block}: k = {r.k} at r = {r.radius:.4g}, Jaccard {r.jaccard:.3f}" for r in rows]
        return "\n".join([f"Blocks ({len(self.table)} dropped in turn)", *lines])


def without_blocks(
    space: Space,
    radius: float,
    members: Sequence[str],
    *,
    radii: Mapping[str, float] | None = None,
    candidates: Sequence[str] | None = None,
) -> Blocks:
    """Covers in the space without one block of features.

    Parameters
    ----------
    radii : r* without the block, by block, computed anew from the changes. Where there is none, r* is scaled by the
        root mean square distance left: r* sqrt(sum of squares without / with), and the table says so.
    candidates : may be members, all by default.
    """
    points = space.points.to_numpy(np.float64)
    every = np.arange(len(points))
    found = []
    for block in dict.fromkeys(space.blocks):
        kept = np.array([name != block for name in space.blocks])
        if not kept.any():
            continue
        d = distances(squareform(pdist(points[:, kept])), space.names)
        known = (radii or {}).get(block)
        scaled = radius * math.sqrt(_spread(points[:, kept]) / _spread(points)) if _spread(points) > 0 else radius
        at = scaled if known is None else known
        full = d.places(members)
        allowed = np.isin(every, every if candidates is None else d.places(candidates))
        draw = _solved(d.values, d.within(at), every, allowed, full)
        reached = radius_of(d.values, full)
        found.append(
            {
                "block": block,
                "radius": at,
                "radius_from": "scaled with the distances" if known is None else "the changes without the block",
                "k": len(draw.members),
                "members": d.called(draw.members),
                "jaccard": _jaccard(np.isin(every, draw.members), np.isin(every, full)),
                "reached": reached,
                "holds": reached <= at + d.tolerance,
            }
        )
    columns = ["block", "radius", "radius_from", "k", "members", "jaccard", "reached", "holds"]
    return Blocks(radius, pd.DataFrame(found, columns=columns))


def _spread(points: Floats) -> float:
    """Sum of squares about the means."""
    return math.fsum(((points - points.mean(axis=0)) ** 2).ravel())
