"""The report of a study, built from its document and tables (docs/study.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from wcbench.errors import RecordError
from wcbench.reports import format as fmt
from wcbench.reports.model import Report
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study import build_sections
from wcbench.reports.study._common import View

SCHEMA = "wcbench.study/1"


def study_report(document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Report:
    """The report model of a study, in which names of people and places are already redacted.

    Parameters
    ----------
    document, tables : as `analysis.study.load_study` gives them; tables that are missing cost their figures only.

    Raises
    ------
    RecordError : the document is of another form than this version of wcbench reads.
    """
    found = document.get("schema")
    if found != SCHEMA:
        raise RecordError(f"The study has the form {found!r}; reports read {SCHEMA}.", "Make it with this wcbench.")
    view = View(document, tables)
    return Report(
        title=fmt.prose(document.get("title") or "Study of workloads"),
        subtitle=_subtitle(view),
        lead=tuple(fmt.prose(sentence) for sentence in (*document.get("answer", ()), *_caveats(view)) if sentence),
        sections=build_sections(view),
        provenance=_provenance(view),
    )


def _subtitle(view: View) -> str:
    sizes = [(view.studied, len(view.part("studied").get("workloads") or ()))]
    if view.against:
        sizes.append((view.against, len(view.part("against").get("workloads") or ())))
    told = " and ".join(f"{fmt.plural(size, 'workload')} of {title}" for title, size in sizes)
    return f"Study: {told}, {fmt.plural(len(view.features), 'feature')}"


# --- caveats: what a reader of the first lines alone has to know ---------------------------------------------------


def _caveats(view: View) -> Iterator[str]:
    yield _measured(view)
    yield _unchecked(view)
    yield _by_blocks(view)


def _measured(view: View) -> str:
    origins = {str(row.get("origin")) for row in view.features.values()} - {"None", ""}
    if not origins or origins & {"measured", "published", "given"}:
        return ""
    if "toy" in origins:
        return "The records are of toy presets: they show that the method works, and nothing of the workloads."
    return "All features are counted from operator streams or modelled: nothing here was measured on a device."


def _unchecked(view: View) -> str:
    """Whether any quantity that took no part in the choice could check the subset."""
    if "upper" in view.part("subset"):
        return "The cover is an upper bound, printed with its lower bound; it is not claimed to be minimal."
    metrics = [mapping(row) for row in rows(view.part("validation").get("metrics"))]
    if any(not row.get("reason") and not row.get("circular") for row in metrics):
        return ""
    return "No quantity that took no part in the choice could check the subset."


def _by_blocks(view: View) -> str:
    """How much the size depends on single blocks of features."""
    sizes = [row["k"] for row in rows(view.part("stability").get("blocks")) if row.get("k") is not None]
    size = view.part("subset").get("size")
    if size is None or not sizes or {*sizes} == {size}:
        return ""
    return f"Without one block of features at a time the subset has {min(sizes)} to {max(sizes)} members, not {size}."


def _provenance(view: View) -> str:
    made = view.part("provenance")
    code = f", code {made['code']}" if made.get("code") else ""
    return fmt.prose(f"Made with wcbench {made.get('wcbench') or '(version unknown)'}{code}; {SCHEMA}.")
