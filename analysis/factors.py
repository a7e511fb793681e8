"""Suites seen through names: levels of factors, and classes of tasks.

Counts of levels and classes grow with the number of tasks; each is shown with its value at equal size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from wcbench.analysis.pairing import Pair, tidy
from wcbench.errors import UsageError

Levels = Mapping[str, Mapping[str, str | Collection[str]]]
"""Workload -> factor -> its level, or levels where it has several (types of layers)."""


@dataclass(frozen=True)
class FactorCoverage:
    """Levels of each factor, and pairs of levels of two factors, that each suite covers.

    Attributes
    ----------
    rows : columns way (1 or 2), factor ("optimizer" or "modality x paradigm"), seen (levels or pairs that occur in
        either suite), possible (for pairs: all combinations of the levels seen), a, b (covered, size-dependent),
        a_at_m, b_at_m (expected of m tasks, the smaller number with a level), only_a, only_b (names), reason.
    missing : workloads without levels.
    """

    rows: pd.DataFrame
    labels: tuple[str, str]
    missing: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        first, second = self.labels
        lines = [
            f"  {row.factor}: {row.a} of {row.seen} in {first}, {row.b} in {second}"
            for row in self.rows.itertuples()
            if row.way == 1
        ]
        return "\n".join(["FactorCoverage (levels; a count grows with the number of tasks)", *lines])


def factor_coverage(pair: Pair, levels: Levels) -> FactorCoverage:
    """One- and two-way coverage; a workload without a factor counts for none of its levels."""
    held = {name: {k: _as_set(v) for k, v in levels.get(name, {}).items()} for name in pair.names}
    factors = sorted({factor for task in held.values() for factor in task})
    rows = [
        _one_way(pair, {name: task.get(factor, set()) for name, task in held.items()}, factor) for factor in factors
    ]
    for one, two in combinations(factors, 2):
        cells = {name: set(product(task.get(one, set()), task.get(two, set()))) for name, task in held.items()}
        possible = math.prod(len({x for task in held.values() for x in task.get(f, set())}) for f in (one, two))
        rows.append(_row(pair, 2, f"{one} x {two}", cells, possible))
    columns = ["way", "factor", "seen", "possible", "a", "b", "m", "a_at_m", "b_at_m", "only_a", "only_b", "reason"]
    missing = tuple(name for name in pair.names if not any(held[name].values()))
    return FactorCoverage(pd.DataFrame(rows, columns=columns), (pair.label_a, pair.label_b), missing)


def _as_set(level: str | Collection[str]) -> set[str]:
    return {level} if isinstance(level, str) else set(level)


def _one_way(pair: Pair, cells: Mapping[str, set[str]], factor: str) -> tuple[object, ...]:
    seen = len({level for task in cells.values() for level in task})
    return _row(pair, 1, factor, cells, seen)


def _row(pair: Pair, way: int, factor: str, cells: Mapping[str, set[Any]], possible: int) -> tuple[object, ...]:
    tasks = [[cells[name] for name in pair.named(flags) if cells[name]] for flags in (pair.in_a, pair.in_b)]
    counts = [Counter(level for task in suite for level in task) for suite in tasks]
    m = min(len(suite) for suite in tasks)
    matched = [tidy(expected_levels(count, len(suite), m)) for count, suite in zip(counts, tasks, strict=True)]
    only = [_names(set(counts[i]) - set(counts[1 - i])) for i in (0, 1)]
    why = "" if m else "a suite has no task with this factor"
    seen = len({*counts[0], *counts[1]})
    return way, factor, seen, possible, len(counts[0]), len(counts[1]), m, *matched, *only, why


def _names(levels: set[Any]) -> tuple[str, ...]:
    return tuple(sorted(level if isinstance(level, str) else " + ".join(level) for level in levels))


def expected_levels(counts: Mapping[Hashable, int], tasks: int, m: int) -> float:
    """Expected number of levels in m of n tasks: sum over levels of 1 - C(n - n_l, m) / C(n, m)."""
    whole = math.comb(tasks, m)
    return float(sum(1 - math.comb(tasks - count, m) / whole for count in counts.values()))


def hill(counts: Sequence[float], order: float) -> float:
    """Hill number of shares or counts: (sum p^q)^(1 / (1 - q)), exp of Shannon's entropy at q = 1."""
    shares = np.array([count for count in counts if count > 0], np.float64)
    shares = shares / shares.sum()
    if order == 1:
        return float(np.exp(-(shares * np.log(shares)).sum()))
    return float((shares**order).sum() ** (1 / (1 - order)))


def rarefied_hill(counts: Sequence[int], m: int, order: float) -> float:
    """Hill number expected of m individuals (Chao et al. 2014, eq. 6a): order 0 is Hurlbert's rarefaction."""
    n = sum(counts)
    if not 1 <= m <= n:
        raise UsageError(f"Rarefaction to {m} needs between 1 and {n} individuals.")
    k = np.arange(1, m + 1)
    expected = sum(stats.hypergeom.pmf(k, n, count, m) for count in counts)  # number of classes seen k times
    if order == 1:
        return float(np.exp(-(k / m * np.log(k / m) * expected).sum()))
    return float(((k / m) ** order * expected).sum() ** (1 / (1 - order)))


def sample_coverage(counts: Sequence[int], m: int | None = None) -> float:
    """Estimated share of the population in the classes seen, by n or by m of n individuals (Chao & Jost 2012).

    1 - f1 / n ((n - 1) f1 / ((n - 1) f1 + 2 f2)), without doubletons (n - 1) (f1 - 1) / ((n - 1) (f1 - 1) + 2).
    """
    n, singles, doubles = sum(counts), list(counts).count(1), list(counts).count(2)
    if m is not None and m < n:
        return 1 - sum(x / n * math.comb(n - x, m) / math.comb(n - 1, m) for x in counts)
    if singles == 0:
        return 1.0
    if n == 1:
        return 0.0
    top = (n - 1) * singles if doubles else (n - 1) * (singles - 1)
    bottom = top + (2 * doubles or 2)
    return 1 - singles / n * top / bottom


@dataclass(frozen=True)
class ClassDiversity:
    """Hill numbers of tasks in classes.

    ``rows`` : columns order, a, b (raw, size-dependent), m, a_at_m, b_at_m (at the smaller size), coverage, a_at_c,
    b_at_c (where both samples are equally complete). ``completeness`` : sample coverage of each suite.
    ``reason`` : why the figures tell little, or nothing.
    """

    rows: pd.DataFrame
    completeness: tuple[float, float] | None
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        if self.completeness is None:
            return f"ClassDiversity(none: {self.reason})"
        a, b = self.completeness
        return f"ClassDiversity(sample coverage {a:.2f} and {b:.2f}{'; ' + self.reason if self.reason else ''})"


LEAST_COVERAGE = 0.2
"""Below this sample coverage Hill numbers say nothing about the classes that were not seen."""


def class_diversity(pair: Pair, classes: Mapping[str, str]) -> ClassDiversity:
    """Hill numbers of order 0, 1, 2: raw, rarefied to equal size, and at equal sample coverage."""
    named = [[classes[name] for name in pair.named(flags) if name in classes] for flags in (pair.in_a, pair.in_b)]
    columns = ["order", "a", "b", "m", "a_at_m", "b_at_m", "coverage", "a_at_c", "b_at_c"]
    if not all(named):
        return ClassDiversity(pd.DataFrame(columns=columns), None, "a suite has no task with a class")
    counts = [sorted(Counter(suite).values(), reverse=True) for suite in named]
    m = min(sum(count) for count in counts)
    complete = [sample_coverage(count) for count in counts]
    level = min(complete)
    rows = []
    for order in (0, 1, 2):
        raw = [tidy(hill(count, order)) for count in counts]
        matched = [tidy(rarefied_hill(count, m, order)) for count in counts]
        equal = [tidy(_at_coverage(count, level, order)) for count in counts]
        rows.append((order, *raw, m, *matched, tidy(level), *equal))
    alone = any(max(count) == 1 for count in counts)
    few = "sample coverage is near 0" if level < LEAST_COVERAGE else "every task of a suite is a class of its own"
    why = f"{few}: Hill numbers are uninformative here" if alone or level < LEAST_COVERAGE else ""
    frame = pd.DataFrame(rows, columns=columns)
    return ClassDiversity(frame, (tidy(complete[0]) or 0.0, tidy(complete[1]) or 0.0), why)


def _at_coverage(counts: Sequence[int], level: float, order: float) -> float:
    """Hill number where the sample's coverage reaches a level, linear between the two sizes around it."""
    n = sum(counts)
    sizes = np.arange(1, n + 1)
    reached = np.array([sample_coverage(counts, int(m)) for m in sizes])
    above = int(np.argmax(reached >= level - 1e-12)) if (reached >= level - 1e-12).any() else n - 1
    high = rarefied_hill(counts, int(sizes[above]), order)
    if above == 0 or reached[above] <= reached[above - 1]:
        return high
    low = rarefied_hill(counts, int(sizes[above - 1]), order)
    part = min(1.0, max(0.0, (level - reached[above - 1]) / (reached[above] - reached[above - 1])))
    return float(low + part * (high - low))
