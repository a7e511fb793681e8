"""Which report is made of what: a profile, two of them, a study, a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wcbench.redaction import redact_tree
from wcbench.reports.document import Made

if TYPE_CHECKING:
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

    names = function_names(study) if anonymize else {}
    document: Mapping[str, Any] = study.document
    tables = dict(study.tables)
    if redact:
        document = redact_tree(document, identity())
    if names:
        from wcbench.analysis.anonymity import anonymous

        document = anonymous(document, names)
        tables["hotspots"] = tables["hotspots"].replace({"function": names})
    return Made(study_report(document, tables), document, folder)


def of_sweep(sweep: Sweep) -> Made:
    """The curves of a sweep; they go beside its records."""
    from wcbench.reports.sweep import sweep_report

    saved = [point.profile.path for point in sweep.points if point.profile is not None and point.profile.path]
    home, stem = (saved[0].parent, f"sweep-{saved[0].name}") if saved else (None, "sweep")
    return Made(sweep_report(sweep), {"points": sweep.to_frame().to_dict("records")}, home, stem)


def function_names(study: Study) -> dict[str, str]:
    """What stands for the functions of a study that are not public."""
    from wcbench.analysis.anonymity import PUBLIC

    if "hotspots" not in study.tables:
        return {}
    own = [str(name) for name in study.tables["hotspots"]["function"].unique() if not str(name).startswith(PUBLIC)]
    return {name: f"function {number}" for number, name in enumerate(sorted(own), start=1)}


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
