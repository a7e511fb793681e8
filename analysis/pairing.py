"""Two suites side by side: who is in which, who is in both, and the ways to exchange the labels of the rest."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import UsageError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

TIE = 1e-9
"""Relative difference below which two statistics count as equal, so that rounding never decides a p-value."""


def tidy(value: float | None) -> float | None:
    """The value to 10 significant digits, the same with every BLAS; None for what is no finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.10g}")


@dataclass(frozen=True)
class Pair:
    """Two suites over one list of workloads.

    Attributes
    ----------
    names : all workloads of both, sorted; the arrays below are aligned to it.
    in_a, in_b : members; a shared workload is in both.
    fixed : workloads whose label no permutation exchanges: shared by name, by model or by family.
    label_a, label_b : what the suites are called in sentences.
    """

    names: tuple[str, ...]
    in_a: Flags
    in_b: Flags
    fixed: Flags
    label_a: str = "A"
    label_b: str = "B"

    @property
    def a(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.in_a)

    @property
    def b(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.in_b)

    @property
    def sizes(self) -> tuple[int, int]:
        return int(self.in_a.sum()), int(self.in_b.sum())

    def named(self, flags: Flags) -> tuple[str, ...]:
        return tuple(name for name, flag in zip(self.names, flags, strict=True) if flag)

    @property
    def shared(self) -> tuple[str, ...]:
        """Workloads that are in both suites by name."""
        return self.named(self.in_a & self.in_b)

    def without(self, names: Collection[str]) -> Pair:
        """The same pair less these workloads; a suite may become empty."""
        keep = np.array([name not in names for name in self.names], bool)
        kept = (self.in_a[keep], self.in_b[keep], self.fixed[keep])
        return Pair(self.named(keep), *kept, self.label_a, self.label_b)


def pair(
    a: Collection[str],
    b: Collection[str],
    *,
    fixed: Collection[str] = (),
    labels: tuple[str, str] = ("A", "B"),
) -> Pair:
    """A pair from two lists of names; what is in both is fixed, and so are the names in ``fixed``.

    Raises UsageError for an empty suite and for a name that stands twice in one.
    """
    for label, members in zip(labels, (a, b), strict=True):
        twice = sorted({name for name in members if list(members).count(name) > 1})
        if twice:
            raise UsageError(f"Suite '{label}' names a workload twice: {', '.join(twice)}.")
        if not members:
            raise UsageError(f"Suite '{label}' has no workload.", "A comparison needs at least one on each side.")
    names = tuple(sorted({*a, *b}))
    in_a, in_b = (np.array([name in members for name in names], bool) for members in (set(a), set(b)))
    held = np.array([name in set(fixed) for name in names], bool)
    return Pair(names, in_a, in_b, held | (in_a & in_b), *labels)


def kin(a: Collection[str], b: Collection[str], families: Mapping[str, str]) -> tuple[str, ...]:
    """Workloads of families that have members in both suites, by name."""
    both = {families[name] for name in a if name in families} & {families[name] for name in b if name in families}
    return tuple(sorted(name for name in {*a, *b} if families.get(name) in both))


@dataclass(frozen=True)
class Relabellings:
    """Ways to hand out the labels, sizes kept and fixed workloads where they are.

    Attributes
    ----------
    in_a, in_b : membership, ways x workloads. All ways, the observed one among them, if ``exact``; else seeded draws.
    distinct : how many ways there are at all.
    reason : why there is nothing to exchange; empty where there is.
    """

    in_a: Flags
    in_b: Flags
    exact: bool
    distinct: int
    reason: str = ""

    @property
    def too_few(self) -> str:
        """Why no p from these can be small; empty where it can."""
        if self.reason or len(self.in_a) >= 19:
            return self.reason
        return f"only {self.distinct} relabellings exist: p cannot reach 0.05"

    @property
    def words(self) -> str:
        return f"all {self.distinct} relabellings" if self.exact else f"{len(self.in_a)} seeded relabellings"


def relabellings(pair: Pair, permutations: int = 999, seed: int = 0) -> Relabellings:
    """All relabellings if there are at most ``permutations`` + 1, else that many drawn with this seed."""
    free = np.flatnonzero(~pair.fixed)
    chosen = int(pair.in_a[free].sum())
    distinct = math.comb(len(free), chosen)
    reason = ""
    if chosen in (0, len(free)):
        reason = "no labels can be exchanged: all workloads of a suite are shared with the other, or kin of it"
    exact = distinct <= permutations + 1
    picks = _all(len(free), chosen) if exact else _drawn(len(free), chosen, permutations, seed)
    ways = np.zeros((len(picks), len(free)), bool)
    np.put_along_axis(ways, picks, True, axis=1)
    in_a, in_b = (np.repeat(flags[None], len(picks), axis=0) for flags in (pair.in_a, pair.in_b))
    in_a[:, free], in_b[:, free] = ways, ~ways
    return Relabellings(in_a, in_b, exact, distinct, reason)


def _all(count: int, chosen: int) -> NDArray[np.intp]:
    ways = math.comb(count, chosen)
    flat = np.fromiter((i for way in combinations(range(count), chosen) for i in way), np.intp, ways * chosen)
    return flat.reshape(ways, chosen)


def _drawn(count: int, chosen: int, draws: int, seed: int) -> NDArray[np.intp]:
    order = np.random.default_rng(seed).random((draws, count)).argsort(axis=1, kind="stable")
    return np.sort(order[:, :chosen], axis=1)


def subsets(count: int, size: int, *, limit: int = 200_000, draws: int = 10_000, seed: int = 0) -> NDArray[np.intp]:
    """Subsets of a size as rows of indices: all of them if at most ``limit``, else ``draws`` seeded ones."""
    return _all(count, size) if math.comb(count, size) <= limit else _drawn(count, size, draws, seed)


def p_value(observed: float, null: Floats, exact: bool) -> float:
    """Share of relabellings with a statistic as large as observed; of draws, the observed one counts as one more.

    References: Phipson & Smyth 2010, Permutation p-values should never be zero.
    """
    hits = int((null >= observed - TIE * max(1.0, abs(observed))).sum())
    return hits / len(null) if exact else (hits + 1) / (len(null) + 1)
