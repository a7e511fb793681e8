"""What a study works on: a table, the same tasks changed, who is studied against whom, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.constraints import Constraint, at_most, having
from wcbench.analysis.features import table_of
from wcbench.analysis.radius import QUANTILE, RStar, r_star
from wcbench.analysis.recipe import Placed
from wcbench.analysis.scales import Array
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import apply, rows
from wcbench.analysis.validation import Metric
from wcbench.errors import UsageError, WcbenchError

if TYPE_CHECKING:
    from wcbench.analysis.population import Population

_SEPARATOR = " with "
CARRIED = 8


@dataclass(frozen=True)
class Group:
    """Workloads that are looked at together. ``id`` is a suite's, or a word; ``title`` how sentences call it."""

    id: str
    title: str
    workloads: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """How a study is made; two with equal settings and tables are equal to the last digit.

    Attributes
    ----------
    radius : the radius in place of r*. ``nulls``, ``scale`` : as `transform.to_space` takes them.
    recipe : "wcbench", or "aibench2021" to set that way beside ours.
    clusters, gap_draws : largest number of clusters looked at, and reference sets of the gap statistic.
    draws : of stability. ``permutations`` : of every permutation test. ``robust`` : repeat the comparison without each
        task and each block. ``seed`` : of everything drawn.
    require_metric, max_variation : conditions on members, as AIBench's RPR subset has them: a target on a metric, and a
        run-to-run variation (of epochs to the target, a fraction) of at most so much. Not known is not met.
    """

    radius: float | None = None
    nulls: str = "drop-feature"
    scale: str = "sd"
    recipe: str = "wcbench"
    clusters: int = 10
    gap_draws: int = 50
    draws: int = 200
    permutations: int = 999
    robust: bool = True
    require_metric: bool = False
    max_variation: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Known:
    """What conditions on members are about; None where it is not known.

    ``metric`` : whether a workload has a target on a metric. ``variation`` : of its epochs from run to run, a fraction.
    """

    metric: Mapping[str, bool | None] = field(default_factory=dict)
    variation: Mapping[str, float | None] = field(default_factory=dict)

    def constraints(self, settings: Settings, names: Iterable[str]) -> tuple[Constraint, ...]:
        """The conditions that the settings ask for, on these workloads."""
        every = tuple(names)
        found = []
        if settings.require_metric:
            found.append(having("a target on a metric", {name: self.metric.get(name) for name in every}))
        if settings.max_variation is not None:
            values = {name: self.variation.get(name) for name in every}
            found.append(at_most("run-to-run variation of epochs to the target", values, settings.max_variation))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Changed:
    """Rows of changed versions of the workloads: as `features.evaluate`, with column ``change``.

    ``states`` : workload, change, kind, state (made, skipped, failed), reason.
    ``own`` : the table of the records that were changed. In a space of other versions of them (at another batch) a
    change is measured from there, and not from what stands in the space. None: the space's own points.
    """

    rows: pd.DataFrame
    states: pd.DataFrame
    own: FeatureTable | None = None

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """(workload, change), sorted."""
        if self.rows.empty:
            return []
        every = self.rows[["workload", "change"]].drop_duplicates()
        return sorted((str(w), str(c)) for w, c in every.itertuples(index=False))

    @cached_property
    def table(self) -> FeatureTable:
        """All changed versions; precisions and the like mix here on purpose."""
        named = self.rows.assign(workload=self.rows["workload"].astype(str) + _SEPARATOR + self.rows["change"])
        return table_of(named.drop(columns="change"), mix=True)

    def moves(self, space: Placed) -> pd.DataFrame:
        """How far each change moves its workload in a space: (workload, change) x coordinates; NaN where it cannot be
        placed, and no row for workloads that are not in the space."""
        known = set(space.names)
        pairs = [pair for pair in self.pairs if pair[0] in known]
        index = pd.MultiIndex.from_tuples(pairs, names=["workload", "change"])
        found = np.full((len(pairs), space.points.shape[1]), np.nan)
        if pairs:
            names = [w + _SEPARATOR + c for w, c in pairs]
            placed = apply(space.recipe, rows(self.table, names)).points
            start = self._start(space, sorted({workload for workload, _ in pairs}))
            for i, (name, (workload, _)) in enumerate(zip(names, pairs, strict=True)):
                if name in placed.index and workload in start.index:
                    found[i] = placed.loc[name].to_numpy(np.float64) - start.loc[workload].to_numpy(np.float64)
        return pd.DataFrame(found, index=index, columns=space.points.columns)

    def _start(self, space: Placed, names: list[str]) -> pd.DataFrame:
        """Where the workloads stand before they are changed."""
        if self.own is None:
            return space.points
        wanted = [c.name for c in space.recipe.coordinates]
        if not set(wanted) <= set(self.own.values.columns):
            return space.points
        return apply(space.recipe, rows(self.own, names)).points

    def radius(self, space: Placed) -> RStar:
        """r* in a space (`radius.r_star`); UsageError where no change can be placed."""
        return r_star(_distances(self.moves(space)))

    def radii_without(self, space: Placed) -> dict[str, float]:
        """r* without each block in turn."""
        moves = self.moves(space)
        found = {}
        for block in dict.fromkeys(space.blocks):
            kept = np.array([name != block for name in space.blocks])
            if not kept.any():
                continue
            known = _distances(moves.loc[:, kept])["distance"].dropna()
            if len(known):
                found[block] = float(np.quantile(known, QUANTILE))
        return found

    def by_feature(self, space: Placed) -> pd.DataFrame:
        """Which features carry the distance: feature, block, mean_square, share, of all changes that were placed."""
        squares = (self.moves(space).dropna() ** 2).mean(axis=0)
        total = float(squares.sum()) or 1.0
        frame = pd.DataFrame({"feature": squares.index.astype(str), "block": space.blocks})
        frame["mean_square"], frame["share"] = squares.to_numpy(), squares.to_numpy() / total
        return frame.sort_values(["share", "feature"], ascending=[False, True], ignore_index=True)


def _distances(moves: pd.DataFrame) -> pd.DataFrame:
    """workload, change, distance: rounded, so that no BLAS shows."""
    squares: Array = moves.to_numpy(np.float64) ** 2
    frame = moves.index.to_frame(index=False)
    return frame.assign(distance=np.round(np.sqrt(squares.sum(axis=1)), 12))


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything that a study is made of.

    Attributes
    ----------
    table : features of the study, of all workloads. ``facet_table`` : also those of facets; None for a plain table.
    studied : whom the subset is chosen from and for. ``against`` : whom it is compared with, None for nobody.
    changed : versions of the same tasks; None where there are none, and ``no_changes`` says why.
    metrics : what the subset is validated by. ``hotspots`` : rows as `study_rows` makes them.
    identities : "proposed" or "verified" by workload. ``same`` : pairs of workloads that are one task.
    rows : the table as rows with their conditions, where it is of records; a frozen space keeps them. ``facet_rows`` :
        those of the facets' features too.
    costs, miss_ratios, roofline : tables of the parts, as `study_rows` makes them.
    classes : domain by workload. ``levels`` : factors of learning by workload.
    also : further suites that both groups are compared with, and ``wide`` the table of all workloads then.
    incomplete : of groups (by id) that are not all of their suite, what is missing, as a sentence.
    known : what conditions on members are about. ``population`` : whose share within r* is asked for.
    notes : what the table was made with and a reader should know (transforms that were taken by default).
    provenance : records, versions, command.
    """

    table: FeatureTable
    studied: Group
    against: Group | None = None
    facet_table: FeatureTable | None = None
    changed: Changed | None = None
    no_changes: str = ""
    metrics: tuple[Metric, ...] = ()
    hotspots: pd.DataFrame = field(default_factory=pd.DataFrame)
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    miss_ratios: pd.DataFrame = field(default_factory=pd.DataFrame)
    roofline: pd.DataFrame = field(default_factory=pd.DataFrame)
    identities: Mapping[str, str] = field(default_factory=dict)
    same: tuple[tuple[str, str], ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    others: Mapping[str, FeatureTable] = field(default_factory=dict)
    also: tuple[Group, ...] = ()
    wide: FeatureTable | None = None
    incomplete: Mapping[str, str] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    population: Population | None = None
    rows: pd.DataFrame | None = None
    facet_rows: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


def times_of(inputs: Inputs) -> dict[str, dict[str, dict[str, float]]] | None:
    """Seconds by source, workload and function; None where no time is known."""
    frame = inputs.hotspots
    if frame.empty:
        return None
    found: dict[str, dict[str, dict[str, float]]] = {}
    for source, workload, function, seconds in frame[["source", "workload", "function", "seconds"]].to_numpy().tolist():
        found.setdefault(source, {}).setdefault(workload, {})[function] = seconds
    return found


def devices_of(inputs: Inputs) -> dict[str, str]:
    """On what each source's times were measured or predicted."""
    frame = inputs.hotspots
    if frame.empty:
        return {}
    return {str(source): ", ".join(sorted(set(rows["device"]))) for source, rows in frame.groupby("source")}


@dataclass(frozen=True, eq=False)
class Radius:
    """The radius of a study and where it is from.

    ``how`` : "given", "measured" (r*), or "shown": none is known or it tells nothing apart, and the median distance to
    the nearest neighbour stands in so that a subset can be shown. ``star`` : r* where it could be measured, and
    ``carried`` : the features that carry most of those distances, with their share of the mean square.
    """

    value: float
    how: str
    reason: str
    star: RStar | None
    neighbour: float
    carried: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        star = self.star
        return {
            "value": self.value,
            "how": self.how,
            "reason": self.reason,
            "r_star": None if star is None else star.value,
            "quantile": QUANTILE,
            "distances": 0 if star is None else len(star.table),
            "left_out": 0 if star is None else star.left_out,
            "workloads_changed": [] if star is None else star.workloads,
            "median_nearest_neighbour": self.neighbour,
            "carried_by": [{"feature": name, "share": share} for name, share in self.carried],
            "by_change": [] if star is None else star.to_frame().to_dict("records"),
        }


def radius_of(inputs: Inputs, space: Placed, neighbour: float, given: float | None) -> Radius:
    """The radius given, else r*, else the median distance to the nearest neighbour (labelled as what it is).

    ``neighbour`` is that median, of the workloads studied.
    """
    star, why = None, inputs.no_changes or "no versions of the same workloads are known"
    carried: tuple[tuple[str, float], ...] = ()
    if inputs.changed is not None:
        try:
            star = inputs.changed.radius(space)
            top = inputs.changed.by_feature(space).head(CARRIED)
            carried = tuple(zip(top["feature"], top["share"].astype(float), strict=True))
        except WcbenchError as error:
            why = error.message
    if given is not None:
        if not (np.isfinite(given) and given >= 0):
            raise UsageError(f"--radius {given} is refused.", "Give a number from 0 up, in the unit of the space.")
        return Radius(float(given), "given", "given with --radius", star, neighbour, carried)
    if star is None:
        return Radius(neighbour, "shown", f"r* is not known: {why}", None, neighbour)
    if star.value >= neighbour:
        why = (
            f"r* = {star.value:.4g} is not below the median distance to the nearest neighbour, {neighbour:.4g}: most "
            f"workloads lie as near to another one as to themselves when changed ({_most(star, carried)})"
        )
        return Radius(neighbour, "shown", why, star, neighbour, carried)
    how = "q95 of the distance of a workload to itself when changed"
    return Radius(star.value, "measured", how, star, neighbour, carried)


def _most(star: RStar, carried: tuple[tuple[str, float], ...]) -> str:
    """The change that moves workloads most, and the feature that carries most of all changes."""
    change = star.to_frame().iloc[0]["change"]
    feature, share = carried[0]
    return f"most by {change}; {100 * share:.0f} % of all changes is in {feature}"


def narrowed(table: FeatureTable, names: tuple[str, ...]) -> FeatureTable:
    """The table of these columns alone, as far as it has them."""
    kept = tuple(f for f in table.features if f.name in set(names))
    return replace(table, values=table.values[[f.name for f in kept]], features=kept)


def of_workloads(table: FeatureTable, names: Iterable[str]) -> FeatureTable:
    """The table of these workloads alone, as far as it has them."""
    kept = [name for name in table.values.index if name in set(names)]
    return replace(table, values=table.values.loc[kept], reasons={
        key: why for key, why in table.reasons.items() if key[0] in set(kept)
    })  # fmt: skip
