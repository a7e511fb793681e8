"""The panel that compares two suites for each facet of them, each in the space of its own features.

A facet counts as compared by what was counted, measured or published. What only a model answers is named as such and
not counted; what is not known at all is a gap with its reason, and nothing stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from wcbench.analysis.definitions.base import MODELLED
from wcbench.analysis.diversity import Extras, Options, diversity
from wcbench.analysis.factors import FactorCoverage
from wcbench.analysis.overlap import SOURCES, HotspotOverlap
from wcbench.analysis.panel import Diversity
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import Space
from wcbench.analysis.verdict import Source
from wcbench.errors import WcbenchError

CATALOGUE = "catalogue"
PREDICTED = SOURCES[2]

Facet = str | Collection[str] | FactorCoverage | tuple[HotspotOverlap, ...]
"""Of a facet: why it cannot be compared, or its features or blocks, or a result that is no panel."""


@dataclass(frozen=True)
class Facets(Shown):
    """The same panel for each facet.

    Attributes
    ----------
    panels, others : results by facet. ``gaps`` : why a facet has none.
    sources : what each result rests on: origins of its features, sources of times, or the catalogue.
    modelled : facets that only a model answers, and which; they do not count as compared.
    lacks : features of a facet that are not in its panel.
    """

    panels: Mapping[str, Diversity]
    others: Mapping[str, FactorCoverage | tuple[HotspotOverlap, ...]]
    gaps: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)
    modelled: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def of(self) -> int:
        """How many facets there are."""
        return len(self.panels) + len(self.others) + len(self.gaps)

    @property
    def compared(self) -> tuple[str, ...]:
        """Facets compared by what was counted, measured or published."""
        return tuple(name for name in (*self.panels, *self.others) if name not in self.modelled)

    @property
    def sentence(self) -> str:
        """How many, which only by a model, and which not at all and why."""
        part = "; ".join(f"{name} without {', '.join(features)}" for name, features in self.lacks.items())
        said = [f"Facets compared: {len(self.compared)} of {self.of}" + (f" ({part})" if part else "")]
        if self.modelled:
            said.append("only by a model: " + ", ".join(f"{name} ({how})" for name, how in self.modelled.items()))
        if self.gaps:
            said.append("missing: " + "; ".join(f"{name} ({why})" for name, why in self.gaps.items()))
        return "; ".join(said) + "."

    def to_frame(self) -> pd.DataFrame:
        """One row a facet: facet, compared, source, lacks, and the verdict's figures or the reason why not."""
        rows = []
        for name in (*self.panels, *self.others, *self.gaps):
            head = {"facet": name, "compared": name in self.compared, "source": self.sources.get(name, "")}
            head["lacks"] = ", ".join(self.lacks.get(name, ()))
            panel = self.panels.get(name)
            figures = {"reason": self.gaps.get(name, "no distances: see its own table")} if panel is None else (
                panel.verdict.row()
            )  # fmt: skip
            rows.append({**head, **figures})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        lines = [f"  {name}: {panel.verdict.sentences[0]}" for name, panel in self.panels.items()]
        return "\n".join([self.sentence, *lines, *(f"  {name}: {other!r}" for name, other in self.others.items())])


def facets(
    source: Source,
    a: str | Collection[str],
    b: str | Collection[str],
    parts: Mapping[str, Facet],
    *,
    labels: tuple[str, str] | None = None,
    radius: Callable[[Space], float] | None = None,
    extras: Extras | None = None,
    options: Options | None = None,
) -> Facets:
    """The panel for each facet in the space of its own features.

    ``parts`` maps each facet to its features or blocks, to a ready result (hotspots, factors), or to the reason why it
    is missing. A radius is a function of the space: one measured with all features is no distance of a facet's.
    """
    found = Facets({}, {}, {}, {}, {}, {})
    chosen = replace(options or Options(), robust=False)
    known = replace(extras or Extras(), classes=None, levels=None, hotspots=None)
    for name, part in parts.items():
        if isinstance(part, str):
            found = merged(found, Facets({}, {}, {name: part}))
        elif isinstance(part, FactorCoverage):
            found = merged(found, _factors(name, part))
        elif part and isinstance(next(iter(part)), HotspotOverlap):
            found = merged(found, _times(name, part))  # type: ignore[arg-type]
        else:
            try:
                only = replace(source, keep=frozenset(part))  # type: ignore[arg-type]
                panel = diversity(only, a, b, labels=labels, radius=radius, extras=known, options=chosen)
                found = merged(found, _panel(name, panel, source, part))  # type: ignore[arg-type]
            except WcbenchError as error:
                found = merged(found, Facets({}, {}, {name: str(error).replace("\n", " ")}))
    return found


def merged(one: Facets, other: Facets) -> Facets:
    """Facets of both."""
    names = ("panels", "others", "gaps", "sources", "modelled", "lacks")
    return Facets(**{name: {**getattr(one, name), **getattr(other, name)} for name in names})


def _panel(name: str, panel: Diversity, source: Source, part: Collection[str]) -> Facets:
    """Origins of the features that have a place in the panel's space; only modelled ones do not make it compared."""
    there = [str(column) for column in panel.points.columns]
    origins = {} if source.table is None else source.table.origins
    told = sorted({word for column in there for word in origins.get(column, "").split(", ") if word})
    families = {column.partition("[")[0] for column in there}
    lacks = tuple(dict.fromkeys(f for p in part if (f := p.partition("[")[0]) not in families))
    lacks = lacks if families & {p.partition("[")[0] for p in part} else ()  # of blocks nothing is known
    modelled = {name: MODELLED} if told == [MODELLED] else {}
    return Facets({name: panel}, {}, {}, {name: ", ".join(told)}, modelled, {name: lacks} if lacks else {})


def _factors(name: str, part: FactorCoverage) -> Facets:
    """A result with no figure in it is a gap."""
    if len(part.rows):
        return Facets({}, {name: part}, {}, {name: CATALOGUE})
    return Facets({}, {}, {name: "no workload has a factor"})


def _times(name: str, part: tuple[HotspotOverlap, ...]) -> Facets:
    """Times from all three sources; those of a model alone do not make the facet compared."""
    known = [one for one in part if one.jaccard is not None]
    if not known:
        return Facets({}, {}, {name: "; ".join(dict.fromkeys(one.reason for one in part))})
    told = ", ".join(f"{one.source} on {one.device}" if one.device else one.source for one in known)
    modelled = {name: told} if all(one.source == PREDICTED for one in known) else {}
    return Facets({}, {name: part}, {}, {name: told}, modelled)
