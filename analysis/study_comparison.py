"""One comparison of a study: the panel with what belongs to it, as plain data and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wcbench.analysis.facets import Facets
from wcbench.analysis.novelty import Direction
from wcbench.analysis.overlap import HotspotOverlap
from wcbench.analysis.panel import Diversity
from wcbench.analysis.rarefaction_curves import rarefaction_curves
from wcbench.analysis.shown import Shown


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """One panel. ``panel`` is None where ``reason`` says why; ``facets`` is there for the suites as they are."""

    id: str
    title: str
    panel: Diversity | None
    reason: str = ""
    facets: Facets | None = None
    about: str = ""
    seed: int = 0

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

    def to_frame(self) -> pd.DataFrame:
        """Every figure of the panel; empty without one."""
        return pd.DataFrame() if self.panel is None else self.panel.to_frame()

    def __repr__(self) -> str:
        said = (f"not compared: {self.reason}",) if self.panel is None else self.panel.sentences
        return "\n".join([f"Comparison ({self.title})", *(f"  {text}" for text in said)])

    def matched(self) -> pd.DataFrame | None:
        """Each size-dependent measure at the smaller suite's size."""
        if self.panel is None:
            return None
        columns = ["measure", "larger", "smaller", "size", "subsets", "exact", "mean", "value", "share_above", "reason"]
        rows = [vars(one) for one in (*self.panel.rarefied, *self.panel.vendi.rarefied)]
        return pd.DataFrame(rows, columns=columns).assign(comparison=self.id)[["comparison", *columns]]

    def rarefaction(self) -> pd.DataFrame | None:
        """Measures over subsets of every size."""
        if self.panel is None:
            return None
        points = self.panel.points.loc[list(self.panel.pair.names)].to_numpy(np.float64)
        found = rarefaction_curves(self.panel.pair, points, seed=self.seed)
        return found.assign(comparison=self.id)[["comparison", *found.columns]]


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
    return {
        "sentence": found.sentence,
        "compared": len(found.compared),
        "of": found.of,
        "gaps": dict(found.gaps),
        "modelled": dict(found.modelled),
        "hotspots_by": [one.source for one in _spent(found.others) if one.jaccard is not None],
        "rows": found.to_frame(),
        "left_out": {name: dict(panel.left_out) for name, panel in found.panels.items()},
    }


def _spent(others: Mapping[str, Any]) -> tuple[HotspotOverlap, ...]:
    return next((one for one in others.values() if isinstance(one, tuple)), ())
