"""Diversity of one suite against another: the panel for all features, and the same for each facet of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from wcbench.analysis.dispersion import energy, feature_spread
from wcbench.analysis.factors import Levels, class_diversity, factor_coverage
from wcbench.analysis.novelty import coverage, novelty
from wcbench.analysis.overlap import Shares, hotspot_overlaps
from wcbench.analysis.pairing import Floats, Pair, Relabellings, kin, pair, relabellings
from wcbench.analysis.panel import Diversity
from wcbench.analysis.rarefaction import rarefy, shipped
from wcbench.analysis.table import FeatureTable, Space
from wcbench.analysis.vendi import Vendi, vendi
from wcbench.analysis.verdict import Repeat, Setting, Source, Verdict, judge, repeat, setting
from wcbench.errors import UnknownNameError, UsageError

NO_VENDI = Vendi(pd.DataFrame(), pd.DataFrame(), (), None, "it is not rarefied in a space that depends on the labels")

MOST = 1000
"""Tasks of both suites together: the panel works on all their distances under every relabelling."""

Radius = float | Callable[[Space], float]
"""r* in units of the space; a function where it has to be measured anew in the space of each repeat and facet."""


Variant = FeatureTable | Source | Collection[str]
"""A change under which the verdict is repeated: another table, another table and fit, or the workloads kept."""


@dataclass(frozen=True)
class Options:
    """How a comparison is made; the same options and table give the same result to the last digit.

    Attributes
    ----------
    permutations, seed : of every permutation test. A labelled source is fitted that often in every repeat, too.
    draws : subsets of the larger suite where there are too many to take all.
    robust : repeat the verdict without each task and each block.
    fix_kin : families with tasks in both suites keep their labels in permutations.
    """

    permutations: int = 999
    seed: int = 0
    draws: int = 10_000
    robust: bool = True
    fix_kin: bool = True


@dataclass(frozen=True)
class Extras:
    """What is known of the workloads besides their features; each is optional.

    Attributes
    ----------
    shared : workloads that are one task under two names, besides those in both suites by name.
    families : kin, by workload; of the table where None.
    classes : a class (domain) for each workload. ``levels`` : factors of learning.
    hotspots : times by source, workload and function. ``devices`` : of each source.
    """

    shared: Collection[str] = ()
    families: Mapping[str, str] | None = None
    classes: Mapping[str, str] | None = None
    levels: Levels | None = None
    hotspots: Mapping[str, Shares] | None = None
    devices: Mapping[str, str] = field(default_factory=dict)


def diversity(
    source: Source,
    a: str | Collection[str],
    b: str | Collection[str],
    *,
    labels: tuple[str, str] | None = None,
    radius: Radius | None = None,
    extras: Extras | None = None,
    variants: Mapping[str, Variant] | None = None,
    options: Options | None = None,
) -> Diversity:
    """The panel for two suites.

    Parameters
    ----------
    source : the table and how it becomes a space, or a function that gives the space of a list of workloads.
    a, b : names of suites that the table knows, or workloads. ``labels`` : what they are called.
    radius : r*, further away than which a task is new. None: novelty is not counted.
    variants : changes under which the verdict is repeated: another table or fit, or the workloads that are kept.

    Raises UsageError for unknown, empty or huge suites, WcbenchError where a suite has no task in the space.
    """
    chosen, known = options or Options(), extras or Extras()
    whole = _pair(source, a, b, labels=labels, known=known, chosen=chosen)
    if len(whole.names) > MOST:
        raise UsageError(
            f"The panel takes up to {MOST} tasks, not {len(whole.names)}.", "Compare minimal subsets of them."
        )
    where = setting(source, whole)
    ways = relabellings(where.pair, chosen.permutations, chosen.seed)
    verdict = judge(where, ways)
    repeats = _repeats(source, where, verdict, known=known, variants=variants or {}, radius=radius, chosen=chosen)
    return _panel(where, ways, verdict=verdict, repeats=repeats, radius=radius, known=known, chosen=chosen)


def members(table: FeatureTable | None, suite: str | Collection[str]) -> tuple[str, ...]:
    """Workloads of a suite that the table names, or the given ones."""
    if not isinstance(suite, str):
        return tuple(suite)
    suites = {} if table is None else table.suites
    found = tuple(sorted(name for name, ids in suites.items() if suite in ids))
    if not found:
        raise UnknownNameError("suite", suite, {i for ids in suites.values() for i in ids})
    return found


def _pair(
    source: Source,
    a: str | Collection[str],
    b: str | Collection[str],
    *,
    labels: tuple[str, str] | None,
    known: Extras,
    chosen: Options,
) -> Pair:
    names = members(source.table, a), members(source.table, b)
    called = labels or (a if isinstance(a, str) else "A", b if isinstance(b, str) else "B")
    related = kin(*names, _families(source, known)) if chosen.fix_kin else ()
    return pair(*names, fixed={*known.shared, *related}, labels=called)


def _families(source: Source, known: Extras) -> Mapping[str, str]:
    if known.families is not None:
        return known.families
    return {} if source.table is None else source.table.families


def _panel(
    where: Setting,
    ways: Relabellings,
    *,
    verdict: Verdict,
    repeats: tuple[Repeat, ...],
    radius: Radius | None,
    known: Extras,
    chosen: Options,
) -> Diversity:
    both, points, labelled = where.pair, where.values, where.source.labelled
    distances = squareform(pdist(points))
    stack = _stack(where, ways) if labelled and not ways.reason else None
    reach = radius(where.space) if callable(radius) else radius
    families = _families(where.source, known)
    names_a, names_b = both.named(both.in_a), both.named(both.in_b)
    return Diversity(
        pair=both,
        left_out=where.left_out,
        shared=tuple(sorted({*both.shared, *(set(known.shared) & set(both.names))})),
        kin=kin(names_a, names_b, families),
        verdict=verdict,
        shipped=shipped(both, points),
        rarefied=rarefy(both, points, seed=chosen.seed, draws=chosen.draws, refit=where.refit if labelled else None),
        vendi=NO_VENDI if labelled else vendi(both, distances, seed=chosen.seed),
        features=feature_spread(both, where.points, ways),
        novelty=novelty(both, distances, reach, ways, stack),
        coverage=coverage(both, distances),
        energy=energy(both, distances, ways, stack),
        classes=None if known.classes is None else class_diversity(both, known.classes),
        factors=None if known.levels is None else factor_coverage(both, known.levels),
        hotspots=()
        if known.hotspots is None
        else hotspot_overlaps(both, known.hotspots, known.devices, seed=chosen.seed),
        repeats=repeats,
        points=where.points,
        relabelled=ways.words,
    )


def _stack(where: Setting, ways: Relabellings) -> Floats:
    """Distances under each relabelling, ways x N x N."""
    return np.array([squareform(pdist(where.refit(a, b))) for a, b in zip(ways.in_a, ways.in_b, strict=True)])


def _repeats(
    source: Source,
    where: Setting,
    main: Verdict,
    *,
    known: Extras,
    variants: Mapping[str, Variant],
    radius: Radius | None,
    chosen: Options,
) -> tuple[Repeat, ...]:
    both = where.pair
    shared = {*both.shared, *(set(known.shared) & set(both.names))}
    related = set(kin(both.named(both.in_a), both.named(both.in_b), _families(source, known)))
    changes: list[tuple[str, str, Source, Pair]] = []
    if shared:
        changes.append(("without shared tasks", "variant", source, both.without(shared)))
    if related:
        changes.append(("without families in both suites", "variant", source, both.without(shared | related)))
    for name, variant in variants.items():
        changes.append((name, "variant", *_varied(source, both, variant)))
    if chosen.robust:
        changes += [(f"without {name}", "task", source, both.without((name,))) for name in both.names]
        blocks = sorted(set(where.space.blocks))
        dropped = [(block, replace(source, drop=source.drop | {block})) for block in blocks if len(blocks) > 1]
        changes += [(f"without block {block}", "block", without, both) for block, without in dropped]
    settled = partial(repeat, main=main, permutations=chosen.permutations, seed=chosen.seed)
    measured = radius if callable(radius) else None
    return tuple(settled(*change, radius=measured) for change in changes)


def _varied(source: Source, both: Pair, variant: Variant) -> tuple[Source, Pair]:
    """Source and pair under a variant: another table (less what it lacks), another fit, or some of the workloads."""
    if isinstance(variant, Source):
        return variant, both if variant.table is None else both.without(_lacking(variant.table, both))
    if isinstance(variant, str):
        raise UsageError(f"A variant is a table, a source or a list of workloads, not the text '{variant}'.")
    if not isinstance(variant, FeatureTable):
        return source, both.without(set(both.names) - set(variant))
    return replace(source, table=variant), both.without(_lacking(variant, both))


def _lacking(table: FeatureTable, both: Pair) -> set[str]:
    return set(both.names) - set(map(str, table.values.index))
