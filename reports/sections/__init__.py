"""THE list of a profile report's sections, in reading order; each is one file with a function `section`.

A section turns its block of the summary (docs/json.md) into blocks of the report model, and is None where nothing
was measured; the section `notes` then says that it is missing and why. Sections move values, they derive none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.registry import Registry, Row
from wcbench.reports.model import Section

SECTIONS = Registry(
    "section",
    [
        Row("overview", "wcbench.reports.sections.overview:section"),
        Row("gates", "wcbench.reports.sections.gates:section"),
        Row("hotspots", "wcbench.reports.sections.hotspots:section"),
        Row("categories", "wcbench.reports.sections.categories:section"),
        Row("activity", "wcbench.reports.sections.activity:section"),
        Row("ops", "wcbench.reports.sections.ops:section"),
        Row("totals", "wcbench.reports.sections.totals:section"),
        Row("steps", "wcbench.reports.sections.steps:section"),
        Row("complexity", "wcbench.reports.sections.complexity:section"),
        Row("scaling", "wcbench.reports.sections.scaling:section"),
        Row("operators", "wcbench.reports.sections.operators:section"),
        Row("modules", "wcbench.reports.sections.modules:section"),
        Row("memory", "wcbench.reports.sections.memory:section"),
        Row("lookups", "wcbench.reports.sections.lookups:section"),
        Row("roofline", "wcbench.reports.sections.roofline:section"),
        Row("primitives", "wcbench.reports.sections.primitives:section"),
        Row("power", "wcbench.reports.sections.power:section"),
        Row("counters", "wcbench.reports.sections.counters:section"),
        Row("allocations", "wcbench.reports.sections.allocations:section"),
        Row("convergence", "wcbench.reports.sections.convergence:section"),
        Row("losses", "wcbench.reports.sections.losses:section"),
        Row("notes", "wcbench.reports.sections.notes:section"),
        Row("provenance", "wcbench.reports.sections.provenance:section"),
    ],
)


def build_sections(summary: Mapping[str, Any]) -> tuple[Section, ...]:
    """Every section for which the summary has something to show."""
    built = (SECTIONS.load(name)(summary) for name in SECTIONS.names())
    return tuple(section for section in built if section is not None)
