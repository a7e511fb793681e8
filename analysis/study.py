"""The study: from a table of features to the provably minimal subset, and a fair comparison of diversity.

One space for all workloads, blind to suites; r* from the same workloads under changes; the smallest subset of those
studied with its certificate and the curve of all other sizes; what it saves, how stable it is, what it predicts; and
the panel against another suite. The result is a document of plain data with tables, from which every report is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from wcbench.analysis import study_sections as sections
from wcbench.analysis.cluster import Clusters, cluster
from wcbench.analysis.cover import Distances, cost_vector, distances
from wcbench.analysis.largen import Coreset, coreset_cover
from wcbench.analysis.pca import Components, pca
from wcbench.analysis.population import Representation, represented
from wcbench.analysis.recipe import Placed
from wcbench.analysis.recipe2021 import Recipe2021, recipe2021
from wcbench.analysis.shown import Drawn
from wcbench.analysis.stability import SEED, Blocks, Stability, sub_samples, without_blocks
from wcbench.analysis.study_answer import answer
from wcbench.analysis.study_compare import compare
from wcbench.analysis.study_comparison import Comparison
from wcbench.analysis.study_files import SCHEMA, flat, plain, read, write
from wcbench.analysis.study_inputs import Group, Inputs, Radius, Settings, radius_of
from wcbench.analysis.study_tables import study_tables
from wcbench.analysis.subset import Constraint, Subset, choose_in
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import rows, to_space
from wcbench.analysis.validation import Validation, validate
from wcbench.errors import UnknownNameError, UsageError, WcbenchError

__all__ = ["Group", "Inputs", "Settings", "Study", "load_study", "make_study"]

EXACT = 300
"""Workloads up to which everything is exact; beyond it an upper bound is printed beside its lower bound."""

RECIPES = ("wcbench", "aibench2021")
T = TypeVar("T")
Told = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Parts:
    """The results themselves, as long as the study is in hand; a study that was read from its folder has none."""

    inputs: Inputs
    space: Placed
    radius: Radius
    components: Components | None
    clusters: Clusters | None
    subset: Subset | None
    coreset: Coreset | None
    stability: Stability | None
    blocks: Blocks | None
    validation: Validation | None
    recipe2021: Recipe2021 | None
    no_recipe: str
    population: Representation | None
    no_population: str
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, eq=False)
class Study(Drawn):
    """A finished study.

    Attributes
    ----------
    document : everything that it says, as JSON's own types (schema wcbench.study/1).
    tables : the same and more as frames; what `write` puts into the folder.
    parts : the results as objects; None where the study was read from a folder.
    """

    document: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    parts: Parts | None = None

    @property
    def answer(self) -> tuple[str, ...]:
        """Three sentences."""
        return tuple(self.document["answer"])

    @property
    def members(self) -> tuple[str, ...]:
        """The subset for workload characterization, sorted by name."""
        return tuple(self.document["subset"]["members"])

    @property
    def radius(self) -> float:
        """The radius of the subset; whether it is r* says ``document["radius"]["how"]``."""
        return float(self.document["subset"]["radius"])

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return dict(self.document)

    def to_frame(self) -> pd.DataFrame:
        """A row a workload: who covers whom, in which cluster, how often chosen."""
        return self.tables["subset"].copy()

    def save(self, folder: str | Path) -> Path:
        """Write document and tables into a folder, each file whole; the document last."""
        write(Path(folder), self.document, self.tables)
        return Path(folder)

    def __repr__(self) -> str:
        found = self.document["subset"]
        head = f"Study ({self.document['title']}; {found['size']} of {found['of']} at r = {found['radius']:.4g})"
        return "\n".join([head, *(f"  {sentence}" for sentence in self.answer)])


def load_study(folder: str | Path) -> Study:
    """Read a study from its folder, without computing anything.

    Raises RecordError where the folder holds none, or one of another version.
    """
    return Study(*read(Path(folder)))


def make_study(inputs: Inputs, settings: Settings | None = None, told: Told | None = None) -> Study:
    """Work everything out. ``told`` is called with what is being done next.

    Raises UsageError where the table makes no space, for unknown options, and where nobody is studied.
    """
    chosen, tell = settings or Settings(), told or (lambda _: None)
    if chosen.recipe not in RECIPES:
        raise UnknownNameError("recipe", chosen.recipe, RECIPES)
    if inputs.against is not None and len(inputs.table.values) > EXACT:
        raise UsageError(f"A comparison takes up to {EXACT} workloads.", "Compare minimal subsets of them.")
    tell("space")
    space = to_space(inputs.table, nulls=chosen.nulls, scale=chosen.scale)
    studied = part_of(space, inputs.studied.workloads)
    if not studied.names:
        raise UsageError(f"No workload of {inputs.studied.title} has a place in the space.", _why_none(inputs, space))
    if len(studied.names) > EXACT:
        return _document(_large(inputs, space, studied, chosen, tell), chosen)
    return _document(_exact(inputs, space, studied, chosen, tell), chosen)


def part_of(space: Placed, names: tuple[str, ...]) -> Placed:
    """Some workloads of a space, where they are."""
    kept = [name for name in space.names if name in set(names)]
    return replace(space, points=space.points.loc[kept])


def _why_none(inputs: Inputs, space: Placed) -> str:
    told = [f"{name}: {space.dropped[name]}." for name in inputs.studied.workloads if name in space.dropped]
    return " ".join(told[:5])


def _exact(inputs: Inputs, space: Placed, studied: Placed, chosen: Settings, tell: Told) -> Parts:
    d = distances(studied.distances(), studied.names)
    neighbour = float(np.median(d.nearest_neighbour)) if len(d) > 1 else 0.0
    radius = radius_of(inputs, space, neighbour, chosen.radius)
    tell("components and clusters")
    components, _ = tried(lambda: pca(space, seed=chosen.seed))
    clusters, _ = tried(lambda: cluster(studied, most=chosen.clusters, draws=chosen.gap_draws, seed=chosen.seed))
    tell("the subset and its curve")
    conditions = inputs.known.constraints(chosen, studied.names)
    subset = subset_of(studied, radius.value, inputs.table, components, conditions)
    tell("stability and validation")
    may = None if not conditions else [name for name in d.names if name not in subset.refused]
    drawn = {"draws": chosen.draws, "seed": SEED + chosen.seed}
    stability = sub_samples(d, radius.value, subset.members, candidates=may, **drawn) if len(d) > 2 else None
    blocks = _blocks((inputs, space, studied), radius, subset, may) if len(d) > 2 else None
    validation = _validated(inputs, d, radius.value, subset, may)
    recipe, no_recipe = _recipe2021(inputs, studied, chosen, tell)
    population, no_population = _population(inputs, space, radius)
    comparisons = compare(inputs, space, radius, subset=subset, settings=chosen, tell=tell)
    return Parts(inputs, space, radius, components, clusters, subset, None, stability, blocks, validation, recipe,
                 no_recipe, population, no_population, comparisons)  # fmt: skip


def subset_of(
    studied: Placed,
    radius: float,
    table: FeatureTable,
    components: Components | None,
    conditions: tuple[Constraint, ...] = (),
) -> Subset:
    """The smallest subset of the workloads of a (part of a) space; costs and components where they are known."""
    kept = None if components is None else max(2, components.kept_columns)
    pcs = None if components is None else components.scores.iloc[:, :kept]
    return choose_in(studied, radius, table=table, pcs=pcs, constraints=conditions)


def _blocks(parts: tuple[Inputs, Placed, Placed], radius: Radius, subset: Subset, may: list[str] | None) -> Blocks:
    inputs, space, studied = parts
    radii = inputs.changed.radii_without(space) if inputs.changed is not None and radius.how == "measured" else None
    return without_blocks(studied, radius.value, subset.members, radii=radii, candidates=may)


def _validated(inputs: Inputs, d: Distances, radius: float, subset: Subset, may: list[str] | None) -> Validation | None:
    if not inputs.metrics or len(d) < 3:
        return None
    costs, _ = cost_vector(d, inputs.table.costs)
    return validate(d, radius, subset.members, inputs.metrics, costs=costs, candidates=may)


def _recipe2021(inputs: Inputs, studied: Placed, chosen: Settings, tell: Told) -> tuple[Recipe2021 | None, str]:
    """The paper's own way, or why there is none: it costs no study that it cannot be gone here."""
    if chosen.recipe != "aibench2021":
        return None, "ask for it with --recipe aibench2021"
    tell("the recipe of 2021")
    return tried(lambda: recipe2021(rows(inputs.facet_table or inputs.table, studied.names), space=studied))


def _population(inputs: Inputs, space: Placed, radius: Radius) -> tuple[Representation | None, str]:
    """How much of a population lies within r* of each suite."""
    if inputs.population is None:
        return None, "no population was given (--population FILE)"
    if radius.how == "shown":
        return None, f"there is no radius to measure it with: {radius.reason}"
    population, groups = inputs.population, [inputs.studied, *([inputs.against] if inputs.against else [])]
    suites = {group.title: group.workloads for group in groups}
    return tried(lambda: represented(population, space, radius.value, suites))


def tried(make: Callable[[], T]) -> tuple[T | None, str]:
    """A result, or None and why there is none."""
    try:
        return make(), ""
    except WcbenchError as error:
        return None, error.message


def _large(inputs: Inputs, space: Placed, studied: Placed, chosen: Settings, tell: Told) -> Parts:
    """Beyond EXACT workloads: a cover with both bounds, and the components."""
    from sklearn.neighbors import NearestNeighbors

    points = studied.points.to_numpy(np.float64)
    away = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)[0][:, 1]
    radius = radius_of(inputs, space, float(np.median(away)), chosen.radius)
    tell("components")
    components, _ = tried(lambda: pca(space, seed=chosen.seed))
    tell("the cover")
    found = coreset_cover(points, studied.names, radius.value)
    left = f"not worked out beyond {EXACT} workloads"
    return Parts(inputs, space, radius, components, None, None, found, None, None, None, None, left, None, left, ())


# --- the document -----------------------------------------------------------------------------------------------------


def _document(parts: Parts, chosen: Settings) -> Study:
    inputs, radius = parts.inputs, parts.radius
    few = "it takes three workloads"
    title = inputs.studied.title + (f" against {inputs.against.title}" if inputs.against else "")
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "title": title,
        "answer": [],
        "settings": vars(chosen),
        "studied": vars(inputs.studied),
        "against": None if inputs.against is None else vars(inputs.against),
        "table": sections.table_section(inputs),
        "space": sections.space_section(parts.space),
        "pca": sections.pca_section(parts.components, few),
        "clusters": sections.cluster_section(parts.clusters, few),
        "radius": radius.to_dict(),
        "changes": sections.changes_section(inputs),
        **_subset_sections(parts),
        "stability": sections.stability_section(parts.stability, parts.blocks, few),
        "validation": sections.validation_section(parts.validation, "" if parts.validation else _no_metric(inputs)),
        "recipe2021": sections.recipe2021_section(parts.recipe2021, parts.no_recipe),
        "roofline": sections.roofline_section(inputs),
        "population": {"reason": parts.no_population} if parts.population is None else parts.population.to_dict(),
        "comparisons": [one.to_dict() for one in parts.comparisons],
        "provenance": dict(inputs.provenance),
    }
    tables = {name: flat(frame) for name, frame in study_tables(parts).items()}
    document["tables"] = sorted(tables)
    document = plain(document)
    document["answer"] = answer(document)
    return Study(document, tables, parts)


def _no_metric(inputs: Inputs) -> str:
    return "it takes three workloads" if inputs.metrics else "no metric is known that took no part in the choice"


def _subset_sections(parts: Parts) -> dict[str, Any]:
    if parts.subset is not None:
        return {
            "subset": sections.subset_section(parts.subset, parts.radius),
            "curve": sections.curve_section(parts.subset),
            "alternatives": sections.alternatives_section(parts.subset),
            "cost": sections.cost_section(parts.subset),
        }
    found = parts.coreset
    assert found is not None
    return {
        "subset": {
            "members": found.members,
            "size": found.upper,
            "of": found.workloads,
            "radius": found.radius,
            "radius_is": parts.radius.how,
            "reached": found.reached,
            "upper": found.upper,
            "lower": found.lower,
            "distinguishable": parts.radius.how != "shown",
            "verdict": f"A smallest cover at r = {found.radius:.4g} has {found.lower} to {found.upper} members.",
            "certificate": {"proof": "bounds", "text": repr(found), "packing": found.packing},
        },
        "curve": [],
        "alternatives": {"reason": f"beyond {EXACT} workloads covers are not listed"},
        "cost": {"saved": None, "reason": f"not worked out beyond {EXACT} workloads", "of": "", "unit": ""},
    }
