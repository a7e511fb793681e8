"""Which tasks of one suite have no neighbour in the other, in both directions, and what chance alone would give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from wcbench.analysis.pairing import TIE, Flags, Floats, Pair, Relabellings, p_value, tidy
from wcbench.analysis.table import Space
from wcbench.errors import UsageError


@dataclass(frozen=True)
class Direction:
    """Tasks of ``of`` seen from the tasks of ``to``.

    Attributes
    ----------
    rows : columns task, nearest, distance, novel (None without a radius); tasks of ``of`` that are not shared, the
        furthest first.
    novel : names of the tasks further than the radius from every task of ``to``; None without a radius.
    expected, p : mean of the count over relabellings, and the share of them with as many or more.
    mean, largest : of the distances; the largest is the directed Hausdorff distance.
    reason : why something is None.
    """

    of: str
    to: str
    size: int
    rows: pd.DataFrame
    novel: tuple[str, ...] | None
    expected: float | None
    p: float | None
    mean: float | None
    largest: float | None
    reason: str = ""

    def __repr__(self) -> str:
        if self.novel is None:
            return f"Direction({self.of} seen from {self.to}: {self.reason})"
        names = ", ".join(self.novel) or "none"
        return f"Direction({len(self.novel)} of {self.size} tasks of {self.of} are new to {self.to}: {names})"

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()


@dataclass(frozen=True)
class Novelty:
    """Both directions; shared tasks are listed apart and count in neither."""

    radius: float | None
    a: Direction
    b: Direction
    hausdorff: float | None
    shared: tuple[str, ...]
    how: str

    def to_frame(self) -> pd.DataFrame:
        parts = (side.rows.assign(suite=side.of, other=side.to) for side in (self.a, self.b))
        return pd.concat(parts, ignore_index=True)

    def __repr__(self) -> str:
        return f"Novelty (r* = {self.radius})\n  {self.a!r}\n  {self.b!r}"


def novelty(
    pair: Pair, distances: Floats, radius: float | None, ways: Relabellings, stack: Floats | None = None
) -> Novelty:
    """Nearest neighbours of each suite's tasks in the other.

    Parameters
    ----------
    distances : N x N between all workloads of the pair.
    radius : r*; further away than it is new. None: no counts.
    ways, stack : the null of the counts; ``stack`` (ways x N x N) where the space depends on the labels.
    """
    null_a = null_b = None
    if radius is not None and not ways.reason:
        seen = distances[None] if stack is None else stack
        null_a, null_b = _counts(seen, ways.in_a, ways.in_b, radius), _counts(seen, ways.in_b, ways.in_a, radius)
    a = _direction(
        pair,
        distances,
        pair.in_a,
        pair.in_b,
        labels=(pair.label_a, pair.label_b),
        radius=radius,
        null=null_a,
        ways=ways,
    )
    b = _direction(
        pair,
        distances,
        pair.in_b,
        pair.in_a,
        labels=(pair.label_b, pair.label_a),
        radius=radius,
        null=null_b,
        ways=ways,
    )
    reach = [side.largest for side in (a, b) if side.largest is not None]
    how = "" if null_a is None else f"null over {ways.words}"
    return Novelty(tidy(radius), a, b, max(reach) if reach else None, pair.shared, how)


def _beyond(distance: Floats, radius: float) -> Flags:
    """Further than the radius, by more than rounding."""
    found: Flags = distance > radius * (1 + TIE)
    return found


def _counts(distances: Floats, of: Flags, to: Flags, radius: float) -> Floats:
    """For each way: tasks of the one suite further than the radius from all tasks of the other.

    ``distances`` is 1 x N x N, or one for each way; a few ways at a time, so that memory stays small.
    """
    chunk = max(1, 2_000_000 // to.shape[1] ** 2)
    counts = []
    for start in range(0, len(to), chunk):
        part = slice(start, start + chunk)
        seen = distances if len(distances) == 1 else distances[part]
        nearest = np.where(to[part, None, :], seen, np.inf).min(axis=2)
        counts.append((_beyond(nearest, radius) & of[part] & ~to[part]).sum(axis=1))
    return np.concatenate(counts).astype(np.float64)


def novel_counts(pair: Pair, distances: Floats, radius: float) -> tuple[int, int]:
    """Tasks of a further than the radius from every task of b, and of b from a."""
    seen, in_a, in_b = distances[None], pair.in_a[None], pair.in_b[None]
    return int(_counts(seen, in_a, in_b, radius)[0]), int(_counts(seen, in_b, in_a, radius)[0])


def _direction(
    pair: Pair,
    distances: Floats,
    of: Flags,
    to: Flags,
    *,
    labels: tuple[str, str],
    radius: float | None,
    null: Floats | None,
    ways: Relabellings,
) -> Direction:
    own, others = np.flatnonzero(of & ~to), np.flatnonzero(to)
    block = distances[np.ix_(own, others)]
    # equal distances go to the first name
    nearest = np.argmax(block <= block.min(axis=1, keepdims=True) * (1 + TIE) + 1e-12, axis=1)
    away = block[np.arange(len(own)), nearest]
    rows = pd.DataFrame(
        {
            "task": [pair.names[i] for i in own],
            "nearest": [pair.names[others[i]] for i in nearest],
            "distance": [tidy(float(x)) for x in away],
            "novel": None if radius is None else _beyond(away, radius),
        }
    )
    rows = rows.sort_values(["distance", "task"], ascending=[False, True], ignore_index=True)
    new = None if radius is None else tuple(rows.loc[rows["novel"].astype(bool), "task"])
    expected = None if null is None else tidy(float(null.mean()))
    p = None if null is None or new is None else tidy(p_value(len(new), null, ways.exact))
    mean, largest = (tidy(float(f(away))) if len(away) else None for f in (np.mean, np.max))
    reason = "no radius is given" if radius is None else ways.reason
    if not len(own):
        reason = f"every task of {labels[0]} is in {labels[1]} too"
    return Direction(*labels, int(of.sum()), rows, new, expected, p, mean, largest, reason)


def coverage_null(reference: int, covering: int, k: int) -> float:
    """Expected coverage of N reference by M covering tasks of one population: 1 - prod_{i=1..k} (N - i) / (N + M - i).

    References: Naeem et al. 2020, arXiv:2002.09797, lemma 2.
    """
    i = np.arange(1, k + 1)
    return float(1 - np.prod((reference - i) / (reference + covering - i)))


def coverage_density(reference: Floats, across: Floats, k: int) -> tuple[float, float]:
    """Coverage and density of N reference tasks by M others (Naeem et al. 2020, eq. 3 and 4).

    Parameters
    ----------
    reference : N x N distances among the reference tasks; ``across`` : N x M to the covering ones.
    k : the ball of a reference task reaches to its k-th nearest reference task; 1 <= k < N.
    """
    reach = np.sort(reference, axis=1)[:, k]  # the task itself comes first, at distance 0
    inside = across <= reach[:, None] * (1 + TIE)
    return float(inside.any(axis=1).mean()), float(inside.sum() / (k * across.shape[1]))


@dataclass(frozen=True)
class Coverage:
    """Coverage and density less what one population gives.

    ``rows`` : columns reference, by, n, m, k, coverage, null, excess (coverage - null), density, density_excess
    (density - 1). Only tasks that are not shared take part, on both sides. ``reason`` : why there are no rows.
    """

    rows: pd.DataFrame
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        lines = [
            f"  {row.by} covers {row.coverage:.2f} of {row.reference} (k = {row.k}); one population: {row.null:.2f}"
            for row in self.rows.itertuples()
        ]
        return "\n".join(["Coverage", *lines]) if lines else f"Coverage(none: {self.reason})"


def coverage(pair: Pair, distances: Floats, ks: Collection[int] = (1, 2, 3, 5)) -> Coverage:
    """Both directions, for each k below the number of reference tasks."""
    own_a, own_b = np.flatnonzero(pair.in_a & ~pair.in_b), np.flatnonzero(pair.in_b & ~pair.in_a)
    rows = []
    for labels, of, by in (
        ((pair.label_a, pair.label_b), own_a, own_b),
        ((pair.label_b, pair.label_a), own_b, own_a),
    ):
        n, m = len(of), len(by)
        for k in sorted(ks) if m else ():
            if k >= n:
                continue
            share, density = coverage_density(distances[np.ix_(of, of)], distances[np.ix_(of, by)], k)
            null = coverage_null(n, m, k)
            numbers = [tidy(x) for x in (share, null, share - null, density, density - 1)]
            rows.append((*labels, n, m, k, *numbers))
    columns = ["reference", "by", "n", "m", "k", "coverage", "null", "excess", "density", "density_excess"]
    why = "" if rows else "it needs two tasks that are not shared in a suite, and one in the other"
    return Coverage(pd.DataFrame(rows, columns=columns), why)


@dataclass(frozen=True)
class Represented:
    """Share of a population, by weight, within the radius of a suite.

    ``rows`` : columns workload, weight, nearest, distance, within. ``unplaced`` : share of the weight of workloads that
    have no place in the space; they count as not represented.
    """

    suite: str
    radius: float
    share: float
    unplaced: float
    rows: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        return (
            f"Represented({100 * self.share:.1f} % of the population within r* of {self.suite}, "
            f"{100 * self.unplaced:.1f} % unplaced)"
        )


def population(
    space: Space, weights: Mapping[str, float], suite: Collection[str], radius: float, label: str = "the suite"
) -> Represented:
    """Share of a weighted population of workloads that a suite represents: another question than diversity.

    Parameters
    ----------
    space : holds the suite and the population's workloads, fitted together.
    weights : e.g. GPU hours, by workload; not negative, not all zero.
    """
    total = float(sum(weights.values()))
    if not weights or not np.isfinite(total) or total <= 0 or min(weights.values()) < 0:
        raise UsageError("The weights of a population are numbers from 0 up, and not all are 0.")
    position = {name: i for i, name in enumerate(space.names)}
    members = [name for name in sorted(suite) if name in position]
    if not members:
        raise UsageError(f"No task of {label} is in the space.")
    placed = sorted(name for name in weights if name in position)
    points = space.points.to_numpy(np.float64)
    nearest, away = _nearest(points[[position[name] for name in placed]], points[[position[name] for name in members]])
    rows = pd.DataFrame({"workload": placed, "weight": [float(weights[name]) for name in placed]})
    rows["nearest"], rows["distance"] = [members[i] for i in nearest], [tidy(float(x)) for x in away]
    rows["within"] = ~_beyond(away, radius)
    share = float(rows.loc[rows["within"], "weight"].sum()) / total
    unplaced = 1 - float(rows["weight"].sum()) / total
    return Represented(label, radius, tidy(share) or 0.0, max(float(f"{unplaced:.9f}"), 0.0), rows)


def _nearest(points: Floats, members: Floats, chunk: int = 4096) -> tuple[list[int], Floats]:
    """Index of and distance to the nearest member; equal distances go to the first."""
    found: list[int] = []
    away: list[Floats] = []
    for start in range(0, len(points), chunk):
        block = cdist(points[start : start + chunk], members)
        least = block.min(axis=1)
        found += np.argmax(block <= (least * (1 + TIE) + 1e-12)[:, None], axis=1).tolist()
        away.append(least)
    return found, np.concatenate(away) if away else np.zeros(0)
