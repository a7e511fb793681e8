"""Further suites that the studied one was compared with."""

from __future__ import annotations

from wcbench.reports.model import Block, NoteLine, Section, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import View, absent
from wcbench.reports.study.subsets import about, table

OWN = ("suites", "subset", "subsets")


def section(view: View) -> Section | NoteLine:
    """What each says, and one table of their verdicts."""
    found = [one for one in rows(view.document.get("comparisons")) if one.get("id") not in OWN]
    if not found:
        return view.alone("further suites") or absent("further suites", "none was named")
    blocks: list[Block] = [Text(about(one)) for one in found]
    return Section("others", "Further suites", (*blocks, *table("others-verdicts", found)))
