"""The comparisons of a study: the suites as they are, and the subset against the other suite and its own subset."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from wcbench.analysis.diversity import Extras, Facets, Options, diversity, facets
from wcbench.analysis.factors import factor_coverage
from wcbench.analysis.features import FACETS, chosen
from wcbench.analysis.novelty import Direction
from wcbench.analysis.overlap import HotspotOverlap, hotspot_overlaps
from wcbench.analysis.pairing import pair
from wcbench.analysis.panel import Diversity
from wcbench.analysis.recipe import Placed
from wcbench.analysis.study_inputs import Inputs, Radius, Settings, small_costs
from wcbench.analysis.subset import Subset, choose_in
from wcbench.analysis.table import FeatureTable, Space
from wcbench.analysis.transform import to_space
from wcbench.analysis.verdict import Source
from wcbench.errors import WcbenchError

HOTSPOTS, DYNAMICS = "hotspot functions", "learning dynamics"


@dataclass(frozen=True, eq=False)
class Comparison:
    """One panel. ``panel`` is None where ``reason`` says why; ``facets`` is there for the suites as they are."""

    id: str
    title: str
    panel: Diversity | None
    reason: str = ""
    facets: Facets | None = None
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """What it says, as plain data."""
        head = {"id": self.id, "title": self.title, "about": self.about, "reason": self.reason}
        panel = self.panel
        if panel is None:
            return head
        return {
            **head,
            "labels": panel.verdict.labels,
            "sizes": panel.verdict.sizes,
            "tasks": [panel.pair.named(panel.pair.in_a), panel.pair.named(panel.pair.in_b)],
            "favours": panel.verdict.favours,
            "verdict": panel.verdict.row(),
            "sentences": panel.sentences,
            "shared": panel.shared,
            "kin": panel.kin,
            "left_out": dict(panel.left_out),
            "relabelled": panel.relabelled,
            "measures": panel.to_frame(),
            "novelty": [_direction(side) for side in (panel.novelty.a, panel.novelty.b)],
            "radius": panel.novelty.radius,
            "features": panel.features.to_frame(),
            "repeats": panel.repeats_frame(),
            "changed_by": [one.name for one in panel.changes],
            "classes": None if panel.classes is None else panel.classes.to_frame(),
            "factors": None if panel.factors is None else panel.factors.to_frame(),
            "hotspots": [_overlap(one) for one in panel.hotspots],
            "facets": None if self.facets is None else _facets(self.facets),
        }

    def tables(self) -> dict[str, pd.DataFrame | None]:
        """The same as frames."""
        panel = self.panel
        if panel is None:
            return {}
        found: dict[str, pd.DataFrame | None] = {
            "measures": panel.to_frame(),
            "novelty": panel.novelty.to_frame(),
            "features": panel.features.to_frame(),
            "repeats": panel.repeats_frame() if panel.repeats else None,
            "coverage": panel.coverage.to_frame(),
            "vendi": panel.vendi.rows,
            "factors": None if panel.factors is None else panel.factors.to_frame(),
            "facets": None if self.facets is None else self.facets.to_frame(),
        }
        spent = [one.to_frame().assign(source=one.source) for one in panel.hotspots if one.jaccard is not None]
        found["hotspots"] = pd.concat(spent, ignore_index=True) if spent else None
        return found


def _direction(side: Direction) -> dict[str, Any]:
    return {
        "of": side.of,
        "to": side.to,
        "size": side.size,
        "novel": side.novel,
        "expected": side.expected,
        "p": side.p,
        "mean": side.mean,
        "largest": side.largest,
        "reason": side.reason,
        "tasks": side.rows,
    }


def _overlap(one: HotspotOverlap) -> dict[str, Any]:
    names = ("source", "device", "jaccard", "expected", "p", "shared", "only_a", "only_b", "missing", "least", "reason")
    return {name: getattr(one, name) for name in names}


def _facets(found: Facets) -> dict[str, Any]:
    compared = len(found.panels) + len(found.others)
    return {
        "sentence": found.sentence,
        "compared": compared,
        "of": compared + len(found.gaps),
        "gaps": dict(found.gaps),
        "hotspots_by": [one.source for one in _spent(found) if one.jaccard is not None],
        "rows": found.to_frame(),
        "left_out": {name: dict(panel.left_out) for name, panel in found.panels.items()},
    }


def _spent(found: Facets) -> tuple[HotspotOverlap, ...]:
    others = found.others.get(HOTSPOTS, ())
    return others if isinstance(others, tuple) else ()


# --- which comparisons are made ---------------------------------------------------------------------------------------


def compare(
    inputs: Inputs, space: Placed, radius: Radius, *, subset: Subset, settings: Settings, tell: Callable[[str], None]
) -> tuple[Comparison, ...]:
    """All comparisons of a study against another group; none without one."""
    if inputs.against is None:
        return ()
    a, b = inputs.studied, inputs.against
    tell(f"comparison with {b.title}")
    whole = _made("suites", f"{a.title} against {b.title}", lambda: _whole(inputs, radius, settings))
    if whole.panel is not None:
        tell("facets")
        whole = replace(whole, facets=_all_facets(inputs, settings, whole.panel))
    tell("comparison of subsets")
    return (whole, *_of_subsets(inputs, space, radius, subset, settings))


def _made(id: str, title: str, make: Callable[[], Diversity], about: str = "") -> Comparison:
    try:
        return Comparison(id, title, make(), about=about)
    except WcbenchError as error:
        return Comparison(id, title, None, str(error).replace("\n", " "), about=about)


def _whole(inputs: Inputs, radius: Radius, settings: Settings) -> Diversity:
    a, b = inputs.studied, inputs.against
    assert b is not None
    names = (*a.workloads, *b.workloads)
    extras = Extras(
        shared=_shared(inputs, names),
        classes={name: inputs.classes[name] for name in names if name in inputs.classes} or None,
        levels={name: inputs.levels[name] for name in names if name in inputs.levels} or None,
        hotspots=_times(inputs),
        devices=_devices(inputs),
    )
    return diversity(
        _source(inputs.table, settings),
        a.workloads,
        b.workloads,
        labels=(a.title, b.title),
        radius=_reach(inputs, radius),
        extras=extras,
        variants=_variants(inputs, names),
        options=_options(settings),
    )


def _options(settings: Settings, robust: bool | None = None) -> Options:
    wanted = settings.robust if robust is None else robust
    return Options(permutations=settings.permutations, seed=settings.seed, robust=wanted)


def _source(table: FeatureTable, settings: Settings) -> Source:
    return Source(partial(to_space, nulls=settings.nulls, scale=settings.scale), table)


def _reach(inputs: Inputs, radius: Radius) -> float | Callable[[Space], float] | None:
    """r* of each space, measured anew; the radius given; None where none is known."""
    changed = inputs.changed
    if radius.how == "given":
        return radius.value
    if changed is None or radius.star is None:
        return None

    def measured(space: Space) -> float:
        assert isinstance(space, Placed)
        return changed.radius(space).value

    return measured


def _shared(inputs: Inputs, names: Collection[str]) -> tuple[str, ...]:
    """Workloads that are one task under two names, of which both are here."""
    known = set(names)
    return tuple(sorted({name for one in inputs.same if set(one) <= known for name in one}))


def _variants(inputs: Inputs, names: Collection[str]) -> dict[str, Any]:
    proposed = [name for name in names if inputs.identities.get(name) == "proposed"]
    found: dict[str, Any] = {}
    if proposed:
        found["without tasks of proposed identity"] = tuple(name for name in names if name not in proposed)
    return found | dict(inputs.others)


def _times(inputs: Inputs) -> dict[str, dict[str, dict[str, float]]] | None:
    frame = inputs.hotspots
    if frame.empty:
        return None
    found: dict[str, dict[str, dict[str, float]]] = {}
    for source, workload, function, seconds in frame[["source", "workload", "function", "seconds"]].to_numpy().tolist():
        found.setdefault(source, {}).setdefault(workload, {})[function] = seconds
    return found


def _devices(inputs: Inputs) -> dict[str, str]:
    frame = inputs.hotspots
    if frame.empty:
        return {}
    return {str(source): ", ".join(sorted(set(rows["device"]))) for source, rows in frame.groupby("source")}


# --- facets -----------------------------------------------------------------------------------------------------------


def _all_facets(inputs: Inputs, settings: Settings, whole: Diversity) -> Facets:
    """Each facet in the space of its own features; what it cannot be compared by is its gap."""
    panels: dict[str, Diversity] = {}
    others: dict[str, Any] = {}
    gaps: dict[str, str] = {}
    for name, features in FACETS.items():
        found = _facet(inputs, settings, whole, name, features)
        panels |= found.panels
        others |= found.others
        gaps |= found.gaps
    return Facets(panels, others, gaps)


def _facet(inputs: Inputs, settings: Settings, whole: Diversity, name: str, features: tuple[str, ...]) -> Facets:
    a, b = inputs.studied, inputs.against
    assert b is not None
    part: Any = features
    radius = None
    both = pair(a.workloads, b.workloads, fixed=whole.shared, labels=(a.title, b.title))
    table = inputs.facet_table or inputs.table
    if name == HOTSPOTS:
        part = hotspot_overlaps(both, _times(inputs) or {}, _devices(inputs), seed=settings.seed)
    elif name == DYNAMICS:
        part = factor_coverage(both, inputs.levels) if inputs.levels else "the factors of the workloads are not known"
    else:
        columns = [full for d in chosen(features) for full in d.names if full in table.values.columns]
        part = tuple(columns) if _known(table, columns) else _gap(table, columns)
        radius = _facet_reach(inputs, table, columns)
    extras = Extras(shared=whole.shared)
    return facets(
        _source(table, settings),
        a.workloads,
        b.workloads,
        {name: part},
        labels=(a.title, b.title),
        radius=radius,
        extras=extras,
        options=_options(settings, robust=False),
    )


def _known(table: FeatureTable, columns: list[str]) -> bool:
    return bool(columns) and bool(table.values[columns].notna().all(axis=0).any())


def _gap(table: FeatureTable, columns: list[str]) -> str:
    """Why no feature of a facet is there for all workloads."""
    if not columns:
        return "none of its features is in the table"
    told: list[tuple[str, int, str]] = []
    for column in columns:
        lacks = [str(name) for name in table.values.index[table.values[column].isna()]]
        family = column.partition("[")[0]
        if family not in {one[0] for one in told}:
            told.append((family, len(lacks), table.reasons.get((lacks[0], column), "not measured")))
    n = len(table.values)
    lacking = ", ".join(f"{family} of {count} of {n} workloads" for family, count, _ in told)
    return f"not known: {lacking} ({told[0][2].partition('; ')[0]})"


def _facet_reach(inputs: Inputs, table: FeatureTable, columns: list[str]) -> Callable[[Space], float] | None:
    """r* in a facet's own space, where all its values are counted: a published one does not move with a change."""
    changed = inputs.changed
    values = table.values[columns]
    full = [column for column in columns if values[column].notna().all()]
    if changed is None or any(table.origins.get(column) != "exact" for column in full):
        return None
    if not set(full) <= set(changed.table.values.columns):
        return None

    def measured(space: Space) -> float:
        assert isinstance(space, Placed)
        return changed.radius(space).value

    return measured


# --- subsets ----------------------------------------------------------------------------------------------------------


def _of_subsets(
    inputs: Inputs, space: Placed, radius: Radius, subset: Subset, settings: Settings
) -> tuple[Comparison, ...]:
    """The subset against the other suite, and against that suite's own minimal subset of equal size; frozen space."""
    a, b = inputs.studied, inputs.against
    assert b is not None
    there = [name for name in b.workloads if name in set(space.names)]
    if not there:
        return ()
    other = _minimal(space, there, radius, inputs.table)
    k = min(len(subset), len(other.curve))
    ours = subset.members if k == len(subset) else tuple(subset.curve.iloc[k - 1]["members"])
    theirs = tuple(other.curve.iloc[k - 1]["members"])
    reach = radius.value if radius.how == "given" else None if radius.star is None else radius.star.value
    fit = Source(lambda names: replace(space, points=space.points.loc[list(names)]))

    def panel(one: Collection[str], two: Collection[str], labels: tuple[str, str]) -> Diversity:
        extras = Extras(shared=_shared(inputs, (*one, *two)), families=inputs.table.families)
        options = _options(settings, robust=False)
        return diversity(fit, one, two, labels=labels, radius=reach, extras=extras, options=options)

    name = f"the subset of {a.title}"
    equal = (f"{k} of {a.title}", f"{k} of {b.title}")
    about = (
        f"{b.title} alone needs {len(other)} of its {len(there)} tasks at r = {radius.value:.4g}: "
        f"{', '.join(other.members)}"
    )
    return (
        _made("subset", f"{name} against {b.title}", lambda: panel(subset.members, there, (name, b.title)), about),
        _made(
            "subsets",
            f"best subsets of {k} tasks of {a.title} and {b.title}",
            lambda: panel(ours, theirs, equal),
            f"{', '.join(ours)} against {', '.join(theirs)}",
        ),
    )


def _minimal(space: Placed, names: Collection[str], radius: Radius, table: FeatureTable) -> Subset:
    kept = [name for name in space.names if name in set(names)]
    return choose_in(replace(space, points=space.points.loc[kept]), radius.value, table=small_costs(table)[0])
