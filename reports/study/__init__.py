"""THE list of a study report's sections, in reading order; each is one file with a function `section`.

A section turns its part of the study's document and tables (docs/study.md) into blocks of the report model. Where there
is nothing to show it gives a line that says why, and the section `notes` has them all. Sections derive no number.
"""

from __future__ import annotations

from dataclasses import replace

from wcbench.registry import Registry, Row
from wcbench.reports.model import NoteLine, Section
from wcbench.reports.study._common import View

SECTIONS = Registry(
    "section of a study",
    [
        # which few are enough
        Row("subset", "wcbench.reports.study.subset:section"),
        Row("proof", "wcbench.reports.study.proof:section"),
        Row("curve", "wcbench.reports.study.curve:section"),
        Row("radius", "wcbench.reports.study.radius:section"),
        Row("stability", "wcbench.reports.study.stability:section"),
        Row("validation", "wcbench.reports.study.validation:section"),
        # one suite against another
        Row("diversity", "wcbench.reports.study.diversity:section"),
        Row("shipped", "wcbench.reports.study.shipped:section"),
        Row("novelty", "wcbench.reports.study.novelty:section"),
        Row("facets", "wcbench.reports.study.facets:section"),
        Row("factors", "wcbench.reports.study.factors:section"),
        Row("subsets", "wcbench.reports.study.subsets:section"),
        Row("others", "wcbench.reports.study.others:section"),
        Row("population", "wcbench.reports.study.population:section"),
        # what the workloads are like
        Row("map", "wcbench.reports.study.pca_map:section"),
        Row("clusters", "wcbench.reports.study.clusters:section"),
        Row("complexity", "wcbench.reports.study.complexity:section"),
        Row("categories", "wcbench.reports.study.categories:section"),
        Row("hotspots", "wcbench.reports.study.hotspots:section"),
        Row("locality", "wcbench.reports.study.locality:section"),
        Row("roofline", "wcbench.reports.study.roofline:section"),
        Row("features", "wcbench.reports.study.features:section"),
        Row("recipe2021", "wcbench.reports.study.recipe2021:section"),
        # how far to trust it
        Row("notes", "wcbench.reports.study.notes:section"),
        Row("method", "wcbench.reports.study.method:section"),
        Row("provenance", "wcbench.reports.study.provenance:section"),
    ],
)


def build_sections(view: View) -> tuple[Section, ...]:
    """Every section that has something to show; what is missing stands in the notes with its reason."""
    built = {name: SECTIONS.load(name)(view) for name in SECTIONS.names() if name != "notes"}
    missing = tuple(line for line in built.values() if isinstance(line, NoteLine))
    built["notes"] = SECTIONS.load("notes")(replace(view, missing=missing))
    found = (built[name] for name in SECTIONS.names())
    return tuple(section for section in found if isinstance(section, Section))
