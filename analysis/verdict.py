"""The question of diversity per task, answered for one pair of suites in one space, and the answer in sentences."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.dispersion import SPREADS, PermDisp, Ratio, dispersion, permdisp, spread_ratio
from wcbench.analysis.novelty import novel_counts
from wcbench.analysis.pairing import Flags, Floats, Pair, Relabellings, p_value, relabellings, tidy
from wcbench.analysis.table import FeatureTable, Space
from wcbench.errors import UsageError, WcbenchError

ALPHA = 0.05


@dataclass(frozen=True)
class Source:
    """Where spaces come from: a table and a fit, or a fit alone.

    Attributes
    ----------
    fit : with a table, FeatureTable -> Space; without one, sorted names of workloads -> Space. If ``labelled`` it takes
        the names of the suites' tasks as two more arguments and is called anew in each permutation and draw.
    table : raw features; a fit that is blind to labels gets it without its suites.
    keep : features, or blocks of them, that take part; None for all. ``drop`` : blocks that do not.
    """

    fit: Callable[..., Space]
    table: FeatureTable | None = None
    labelled: bool = False
    keep: frozenset[str] | None = None
    drop: frozenset[str] = frozenset()

    def space(self, names: Collection[str], a: Collection[str] = (), b: Collection[str] = ()) -> Space:
        """The space of these workloads, and of the features that take part."""
        extra = (tuple(sorted(a)), tuple(sorted(b))) if self.labelled else ()
        if self.table is None:
            return _columns(self.fit(tuple(sorted(names)), *extra), self.keep, self.drop)
        if self.table.values.index.has_duplicates:
            twice = self.table.values.index[self.table.values.index.duplicated()]
            raise UsageError(f"The table has a workload twice: {', '.join(sorted(set(map(str, twice))))}.")
        unknown = sorted(set(names) - set(self.table.values.index))
        if unknown:
            raise UsageError(f"The table has no workload '{unknown[0]}'.", _others(unknown))
        kept = [f for f in self.table.features if self._takes(f.name, f.block)]
        if not kept:
            raise WcbenchError("No feature is left to compare by.")
        values = self.table.values.loc[sorted(names), [f.name for f in kept]]
        return self.fit(replace(self.table, values=values, features=tuple(kept), suites={}), *extra)

    def _takes(self, name: str, block: str) -> bool:
        return (self.keep is None or name in self.keep or block in self.keep) and block not in self.drop


def _others(names: list[str]) -> str | None:
    return f"Nor {', '.join(names[1:])}." if len(names) > 1 else None


def _columns(space: Space, keep: frozenset[str] | None, drop: frozenset[str]) -> Space:
    named = zip(space.points.columns.astype(str), space.blocks, strict=True)
    flags = np.array(
        [(keep is None or name in keep or block in keep) and block not in drop for name, block in named], bool
    )
    if flags.all() and len(flags):
        return space
    if not flags.any():
        raise WcbenchError("No feature is left to compare by.")
    blocks = tuple(block for block, flag in zip(space.blocks, flags, strict=True) if flag)
    return replace(
        space,
        points=space.points.loc[:, flags],
        blocks=blocks,
        centres=space.centres[flags],
        scales=space.scales[flags],
    )


@dataclass(frozen=True)
class Setting:
    """A pair in its space: the workloads that have a place there, and why other workloads and features have none."""

    pair: Pair
    space: Space
    points: pd.DataFrame
    left_out: dict[str, str]
    source: Source

    @property
    def values(self) -> Floats:
        found: Floats = self.points.to_numpy(np.float64)
        return found

    def refit(self, in_a: Flags, in_b: Flags) -> Floats:
        """Points under other labels."""
        pair = self.pair
        space = self.source.space(pair.names, pair.named(in_a), pair.named(in_b))
        return _checked(space.points.loc[list(pair.names)]).to_numpy(np.float64)


def setting(source: Source, pair: Pair) -> Setting:
    """Fits the space to the pair's workloads; WcbenchError where a suite has no task in it, and for NaN and inf."""
    space = source.space(pair.names, pair.named(pair.in_a), pair.named(pair.in_b))
    if space.points.index.has_duplicates:
        raise UsageError("The space has a workload twice.")
    left = {name: space.dropped.get(name, "not in the space") for name in pair.names if name not in space.points.index}
    kept = pair.without(left)
    for label, size in zip((pair.label_a, pair.label_b), kept.sizes, strict=True):
        if size == 0:
            why = "; ".join(f"{name}: {reason}" for name, reason in sorted(left.items()))
            raise WcbenchError(f"No task of {label} has a place in the space.", why)
    left = {**{str(name): why for name, why in space.dropped.items()}, **left}
    return Setting(kept, space, _checked(space.points.loc[list(kept.names)]), left, source)


def _checked(points: pd.DataFrame) -> pd.DataFrame:
    bad = ~np.isfinite(points.to_numpy(np.float64))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise WcbenchError(
            f"Coordinate '{points.columns[column]}' of workload '{points.index[row]}' is no finite number.",
            "A space has a number in every place: what is not measured is dropped when it is fitted.",
        )
    if not points.shape[1]:
        raise WcbenchError("No feature is left to compare by.")
    return points


@dataclass(frozen=True)
class Verdict:
    """Question 2, diversity per task.

    Attributes
    ----------
    favours : label of the suite whose tasks spread wider, None where that is not told. A suite is favoured only if
        PERMDISP has p <= 0.05 and dispersion and mean pairwise distance point the same way.
    dispersion, distance, variance : the three size-free spreads. ``test`` : the permutation test of the first.
    reason : why nothing can be told, where that is so.
    """

    labels: tuple[str, str]
    sizes: tuple[int, int]
    favours: str | None
    dispersion: Ratio
    distance: Ratio
    variance: Ratio
    test: PermDisp
    reason: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        a, b = self.labels
        if self.reason:
            return (f"Per task, the diversity of {a} and {b} cannot be compared: {self.reason}.",)
        head = (
            f"Per task, {self.favours} spreads wider" if self.favours else f"Per task, {a} and {b} are not told apart"
        )
        test = f"PERMDISP p = {self.test.p:.3g}"
        over = f" ({self.test.how})" if self.test.how else ""
        return (
            f"{head}: dispersion ratio {a} to {b} {_figure(self.dispersion)}, {test}.",
            f"Mean pairwise distance ratio {_figure(self.distance)}; total variance ratio {_figure(self.variance)}.",
            f"The suites are complete, chosen sets: p says how unusual this labelling of the tasks is{over}, no more.",
        )

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    def __repr__(self) -> str:
        return f"Verdict({self.sentences[0]})"

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame([self.row()])

    def row(self) -> dict[str, Any]:
        """The figures of the verdict: one row of a table of repeats."""
        ratio = self.dispersion
        return {
            "n_a": self.sizes[0],
            "n_b": self.sizes[1],
            "dispersion_ratio": ratio.ratio,
            "low": ratio.low,
            "high": ratio.high,
            "distance_ratio": self.distance.ratio,
            "p": self.test.p,
            "favours": self.favours,
            "reason": self.reason,
        }


def _figure(ratio: Ratio) -> str:
    if ratio.ratio is None:
        return f"none ({ratio.reason})"
    if ratio.low is None:
        return f"{ratio.ratio:.2f} (no interval: {ratio.reason})"
    return f"{ratio.ratio:.2f} (jackknife 95 % {ratio.low:.2f} to {ratio.high:.2f})"


def judge(where: Setting, ways: Relabellings) -> Verdict:
    """The verdict in a space that is already fitted."""
    pair, points = where.pair, where.values
    spread, distance, variance = (spread_ratio(pair, points, name) for name in SPREADS)
    test = _refitted_test(where, ways) if where.source.labelled else permdisp(pair, points, ways)
    reason = spread.reason if spread.ratio is None else test.reason
    favours = None
    if not reason and test.p is not None and test.p <= ALPHA and spread.ratio and distance.ratio:
        wider = (spread.ratio > 1, distance.ratio > 1)
        favours = None if wider[0] != wider[1] else pair.label_a if wider[0] else pair.label_b
    return Verdict((pair.label_a, pair.label_b), pair.sizes, favours, spread, distance, variance, test, reason)


def _refitted_test(where: Setting, ways: Relabellings) -> PermDisp:
    """|ln dispersion ratio| under exchanged labels, the space fitted anew for each."""
    pair = where.pair
    if ways.reason or min(pair.sizes) < 3:
        return PermDisp(None, None, "", ways.reason or "the test needs three tasks in each suite")
    observed = _log_ratio(where.values, pair.in_a, pair.in_b)
    null = np.array([_log_ratio(where.refit(a, b), a, b) for a, b in zip(ways.in_a, ways.in_b, strict=True)])
    how = f"labels over {ways.words}, the space fitted anew in each; the statistic is |ln ratio|"
    return PermDisp(tidy(observed), tidy(p_value(observed, null, ways.exact)), how, ways.too_few)


def _log_ratio(points: Floats, in_a: Flags, in_b: Flags) -> float:
    a, b = dispersion(points[in_a]), dispersion(points[in_b])
    return float(abs(np.log(max(a, 1e-300) / max(b, 1e-300))))


@dataclass(frozen=True)
class Repeat:
    """The verdict once more under a change.

    ``kind`` : "variant", "task" or "block". ``verdict`` : None where there is none, with the ``reason``.
    ``changed`` : whether it favours another suite, or none, than the main verdict does. ``novel`` : tasks further than
    r* from the other suite, of a and of b; None where r* is not known in this space.
    """

    name: str
    kind: str
    verdict: Verdict | None
    changed: bool
    reason: str = ""
    novel: tuple[int, int] | None = None

    def row(self) -> dict[str, Any]:
        figures = self.verdict.row() if self.verdict else {"reason": self.reason}
        new = dict(zip(("new_a", "new_b"), self.novel or (None, None), strict=True))
        return {"change": self.name, "kind": self.kind, "changed": self.changed, **figures, **new}


def repeat(
    name: str,
    kind: str,
    source: Source,
    pair: Pair,
    *,
    main: Verdict,
    radius: Callable[[Space], float] | None,
    permutations: int,
    seed: int,
) -> Repeat:
    """The verdict for another pair or source; what cannot be compared is said, not raised."""
    if not min(pair.sizes):
        return Repeat(name, kind, None, False, "a suite has no task left")
    try:
        where = setting(source, pair)
    except WcbenchError as error:
        return Repeat(name, kind, None, False, str(error))
    found = judge(where, relabellings(where.pair, permutations, seed))
    told = found.reason == "" and main.reason == ""
    novel = None if radius is None else novel_counts(where.pair, squareform(pdist(where.values)), radius(where.space))
    return Repeat(name, kind, found, told and found.favours != main.favours, found.reason, novel)
