"""Tables of a study, by name (docs/study.md): everything that a report needs, so that none computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wcbench.analysis.recipe import Placed
from wcbench.analysis.study_hotspots import hotspot_tables

if TYPE_CHECKING:
    from wcbench.analysis.study import Parts


def study_tables(parts: Parts) -> dict[str, pd.DataFrame]:
    """All tables that there is something for."""
    inputs = parts.inputs
    found: dict[str, pd.DataFrame | None] = {
        "features": inputs.table.values.sort_index(),
        "values": inputs.facet_rows,
        "costs": inputs.costs,
        "miss_ratios": inputs.miss_ratios,
        "roofline": inputs.roofline,
        **hotspot_tables(
            inputs.hotspots, inputs.studied.workloads, None if inputs.against is None else inputs.against.workloads
        ),
        **_of_the_space(parts),
        **_of_the_subset(parts),
        **_of_the_changes(parts),
        **_of_the_comparisons(parts),
        "population": None if parts.population is None else parts.population.to_frame(),
    }
    return {name: frame for name, frame in found.items() if frame is not None and frame.shape[1]}


def _of_the_space(parts: Parts) -> dict[str, pd.DataFrame | None]:
    components, clusters = parts.components, parts.clusters
    return {
        "points": parts.space.points,
        "coordinates": parts.space.recipe.to_frame(),
        "distances": None if parts.subset is None else _matrix(parts.space),
        "map": None if components is None else components.scores,
        "loadings": None if components is None else components.loadings.rename_axis("feature"),
        "components": None if components is None else components.to_frame(),
        "merges": None if clusters is None else clusters.hierarchy.to_frame(),
        "recipe2021": None if parts.recipe2021 is None else parts.recipe2021.to_frame(),
    }


def _matrix(space: Placed) -> pd.DataFrame:
    return pd.DataFrame(np.round(space.distances(), 12), index=pd.Index(space.names), columns=pd.Index(space.names))


def _of_the_subset(parts: Parts) -> dict[str, pd.DataFrame | None]:
    subset, stability, validation = parts.subset, parts.stability, parts.validation
    return {
        "curve": None if subset is None else subset.curve,
        "subset": _workloads(parts),
        "certificate": None if subset is None else subset.certificate.to_frame(),
        "consensus": None if stability is None else stability.consensus,
        "draws": None if stability is None else stability.each,
        "blocks": None if parts.blocks is None else parts.blocks.to_frame(),
        "validation": None if validation is None else validation.table,
        "residuals": None if validation is None else validation.residuals,
    }


def _workloads(parts: Parts) -> pd.DataFrame:
    """Who covers whom, with cluster and frequency."""
    if parts.coreset is not None:
        return parts.coreset.to_frame()
    assert parts.subset is not None
    frame = parts.subset.to_frame()
    if parts.clusters is not None:
        frame = frame.merge(parts.clusters.to_frame(), on="workload", how="left")
    if parts.stability is not None:
        frame = frame.merge(parts.stability.table[["workload", "frequency"]], on="workload", how="left")
    return frame


def _of_the_changes(parts: Parts) -> dict[str, pd.DataFrame | None]:
    changed = parts.inputs.changed
    if changed is None:
        return {}
    return {
        "changes": changed.states,
        "moves": None if parts.radius.star is None else parts.radius.star.table,
        "moves_by_feature": changed.by_feature(parts.space),
    }


def _of_the_comparisons(parts: Parts) -> dict[str, pd.DataFrame | None]:
    found: dict[str, pd.DataFrame | None] = {}
    for i, one in enumerate(parts.comparisons):
        found |= {f"comparison{i}_{name}": frame for name, frame in one.tables().items()}
    for name in ("matched", "rarefaction"):
        frames = [frame for one in parts.comparisons if (frame := getattr(one, name)()) is not None]
        found[name] = pd.concat(frames, ignore_index=True) if frames else None
    return found
