"""Which report is made of what: a profile, two of them, a study, a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench.redaction import redact_tree
from wcbench.reports.document import Made

if TYPE_CHECKING:
    import pandas as pd

    from wcbench.analysis.diff import Diff
    from wcbench.analysis.study import Study
    from wcbench.analysis.sweep import Sweep
    from wcbench.record import Profile


def of_profile(profile: Profile, *, redact: bool, anonymize: bool, on: str | None) -> Made:
    """The report of a profile; ``on`` names the device of its roofline."""
    from wcbench.reports.profile_report import profile_report

    data = shared(profile.view("summary", on=on), [profile], redact=redact, anonymize=anonymize)
    return Made(profile_report(data), data, profile.path)


def of_two(diff: Diff, profiles: tuple[Profile, Profile], *, redact: bool, anonymize: bool) -> Made:
    """The report of two profiles compared; it goes into the first one's folder."""
    from wcbench.reports.diff_report import diff_report

    data = shared(diff.to_dict(), list(profiles), redact=redact, anonymize=anonymize)
    return Made(diff_report(data), data, profiles[0].path, f"report-against-{profiles[1].manifest.id}")


def of_study(study: Study, folder: Path | None, *, redact: bool, anonymize: bool) -> Made:
    """The report of a study, of its document and tables alone."""
    from wcbench.machine import identity
    from wcbench.reports.study_report import study_report

    document: Mapping[str, Any] = study.document
    tables: Mapping[str, pd.DataFrame] = study.tables
    if redact:
        # records of other people's machines have left their names out when the study was made
        who = identity()
        document, tables = redact_tree(document, who), _cells(tables, lambda value: redact_tree(value, who))
    if anonymize:
        from wcbench.analysis.anonymity import FUNCTION, anonymous, stand_ins_of_study

        names = stand_ins_of_study(study)
        keys = {name for name, stands in names.items() if not stands.startswith(FUNCTION)}
        document = anonymous(document, names, keys)
        tables = _cells(tables, lambda value: anonymous(value, names, keys))
        tables = {name: frame.rename(columns=names) for name, frame in tables.items()}
    return Made(study_report(document, tables), document, folder, tables=tables)


def of_sweep(sweep: Sweep, *, redact: bool = True) -> Made:
    """The curves of a sweep; they go beside its records."""
    from wcbench.reports.sweep import sweep_report, sweep_summary

    profiles = [point.profile for point in sweep.points if point.profile is not None]
    if redact:
        errors = shared({"errors": [point.error for point in sweep.points]}, profiles, redact=True, anonymize=False)
        told = zip(sweep.points, errors["errors"], strict=True)
        sweep = replace(sweep, points=tuple(replace(point, error=error) for point, error in told))
    data = sweep_summary(sweep)
    saved = [profile.path for profile in profiles if profile.path is not None]
    home, stem = (saved[0].parent, f"sweep-{saved[0].name}") if saved else (None, "sweep")
    return Made(sweep_report(sweep), shared(data, profiles, redact=redact, anonymize=False), home, stem)


def _cells(tables: Mapping[str, pd.DataFrame], change: Callable[[Any], Any]) -> dict[str, pd.DataFrame]:
    """The frames with every cell that is no number or truth changed, lists among them."""
    return {name: _changed(frame, change) for name, frame in tables.items()}


def _changed(frame: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    words = [name for name in frame.columns if frame[name].dtype.kind not in "biufc"]
    return frame.assign(**{str(name): [change(value) for value in frame[name]] for name in words})


def shared(data: Mapping[str, Any], profiles: list[Profile], *, redact: bool, anonymize: bool) -> dict[str, Any]:
    """A summary without what should not be shared of the records that it was made of."""
    found = dict(data)
    for profile in profiles:
        if redact:
            found = redact_tree(found, profile.manifest.machine.get("identity") or {})
    if anonymize:
        from wcbench.analysis.anonymity import anonymous, stand_ins

        found = anonymous(found, stand_ins(*profiles))
    return found
