"""The report of one profile, built from its summary (docs/json.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.errors import RecordError
from wcbench.reports import format as fmt
from wcbench.reports.lead import lead
from wcbench.reports.model import Report
from wcbench.reports.sections import build_sections
from wcbench.reports.sections._common import conditions, formats, imported, main_pass, task_name

SCHEMA = "wcbench.profile/1"


def profile_report(summary: Mapping[str, Any]) -> Report:
    """The report model of a profile's summary, in which names of people and places are already redacted.

    Raises
    ------
    RecordError : the summary is of another form than this version of wcbench reads.
    """
    found = summary.get("schema")
    if found != SCHEMA:
        raise RecordError(f"The summary has the form {found!r}; reports read {SCHEMA}.", "Make it with this wcbench.")
    return Report(
        title=task_name(summary),
        subtitle=_subtitle(summary),
        lead=lead(summary),
        sections=build_sections(summary),
        provenance=_provenance(summary),
    )


def _subtitle(summary: Mapping[str, Any]) -> str:
    first = main_pass(summary)
    if imported(summary):
        words = (formats(summary), f"on {first['device']}" if first.get("device") else "")
        return fmt.prose(f"Imported profile: {', '.join(filter(None, words)) or 'nothing that a report shows'}")
    where = conditions(first) if first else "no pass was run"
    return f"Training profile: {where}"


def _provenance(summary: Mapping[str, Any]) -> str:
    created = str(summary.get("created") or "an unknown date")[:16].replace("T", " ")
    verb = "Imported" if imported(summary) else "Recorded"
    return f"{verb} {created} UTC with wcbench {summary.get('wcbench') or '(version unknown)'}; {SCHEMA}."
