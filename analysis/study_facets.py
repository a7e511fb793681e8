"""The facets of a study's comparison: which features each has here, and what is a gap."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from wcbench.analysis.diversity import Extras, Options
from wcbench.analysis.facets import Facets, facets, merged
from wcbench.analysis.factors import factor_coverage
from wcbench.analysis.features import FACETS, chosen
from wcbench.analysis.overlap import hotspot_overlaps
from wcbench.analysis.pairing import pair
from wcbench.analysis.panel import Diversity
from wcbench.analysis.recipe import Placed
from wcbench.analysis.study_inputs import Inputs, devices_of, times_of
from wcbench.analysis.table import FeatureTable, Space
from wcbench.analysis.verdict import Source

HOTSPOTS, DYNAMICS = "hotspot functions", "learning dynamics"


def all_facets(inputs: Inputs, whole: Diversity, source: Callable[[FeatureTable], Source], options: Options) -> Facets:
    """Each facet in the space of its own features; what it cannot be compared by is its gap.

    ``whole`` is the panel of all features, ``source`` makes a source of a table.
    """
    found = [_facet(inputs, whole, name, source=source, options=options) for name in FACETS]
    return reduce(merged, found)


def _facet(
    inputs: Inputs,
    whole: Diversity,
    name: str,
    *,
    source: Callable[[FeatureTable], Source],
    options: Options,
) -> Facets:
    a, b = inputs.studied, inputs.against
    assert b is not None
    part: Any
    radius = None
    both = pair(a.workloads, b.workloads, fixed=whole.shared, labels=(a.title, b.title))
    table = inputs.facet_table or inputs.table
    if name == HOTSPOTS:
        part = hotspot_overlaps(both, times_of(inputs) or {}, devices_of(inputs), seed=options.seed)
    elif name == DYNAMICS:
        part = factor_coverage(both, inputs.levels) if inputs.levels else "the factors of the workloads are not known"
    else:
        columns = [full for d in chosen(FACETS[name]) for full in d.names if full in table.values.columns]
        part = tuple(columns) if _known(table, columns) else _gap(table, columns)
        radius = _reach(inputs, table, columns)
    return facets(
        source(table),
        a.workloads,
        b.workloads,
        {name: part},
        labels=(a.title, b.title),
        radius=radius,
        extras=Extras(shared=whole.shared),
        options=options,
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


def _reach(inputs: Inputs, table: FeatureTable, columns: list[str]) -> Callable[[Space], float] | None:
    """r* in a facet's own space, where all its values are counted: a published one does not move with a change."""
    changed = inputs.changed
    values = table.values[columns]
    full = [column for column in columns if values[column].notna().all()]
    if changed is None or any(table.origins.get(column) not in ("exact", "modelled") for column in full):
        return None
    if not set(full) <= set(changed.table.values.columns):
        return None

    def measured(space: Space) -> float:
        assert isinstance(space, Placed)
        return changed.radius(space).value

    return measured
