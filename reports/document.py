"""A report as JSON: all that it shows, unrounded, and the data that it was made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from wcbench.errors import UsageError
from wcbench.files import free_file, write_whole
from wcbench.reports.model import Report

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "wcbench.report/1"
Paper = Literal["a4", "letter"]


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """A report with the data behind it.

    Attributes
    ----------
    report : what is shown. ``data`` : the summary or document that it was made of, as JSON's own types. ``tables`` :
        of a study, the frames that the report reads beside its document.
    home : the folder in which it is written where no file is named, under the name ``stem``; None where there is none.
    """

    report: Report
    data: Mapping[str, Any]
    home: Path | None
    stem: str = "report"
    tables: Mapping[str, pd.DataFrame] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything that the report shows, unrounded and in SI units (docs/reports.md)."""
        told = {"schema": SCHEMA, **_plain(self.report), "data": _plain(self.data)}
        if self.tables:
            told["tables"] = {name: _plain(frame.to_dict("records")) for name, frame in self.tables.items()}
        return told

    def html(self) -> str:
        """The report as one page of HTML that needs nothing else."""
        from wcbench.reports.html import render_html

        return render_html(self.report)

    def pdf(self, paper: str = "a4") -> bytes:
        """The report as a tagged PDF (PDF/UA-1). Raises UsageError for an unknown paper."""
        from wcbench.reports.pdf import render_pdf

        for known in get_args(Paper):
            if paper == known:
                return render_pdf(self.report, known)
        raise UsageError(f"There is no paper '{paper}'.", f"Take one of: {', '.join(get_args(Paper))}.")

    def save(self, out: str | Path | None = None, *, pdf: bool = False, paper: str = "a4", force: bool = False) -> Path:
        """Write it as HTML, or as PDF (also where the file's name ends in .pdf); returns the file.

        Raises UsageError where no file is named and there is no folder, RecordError where the file exists or
        may not be replaced (`files.free_file`).
        """
        if out is None and self.home is None:
            raise UsageError("This was not saved, so it has no folder for its report.", "Name a file with --out.")
        as_pdf = pdf or (out is not None and Path(out).suffix.lower() == ".pdf")
        target = Path(out) if out is not None else Path(self.home or ".") / f"{self.stem}.{'pdf' if as_pdf else 'html'}"
        free_file(target, force=force)
        content = self.pdf(paper) if as_pdf else self.html().encode()
        write_whole(target, lambda file: file.write_bytes(content))
        return target


def _plain(value: Any) -> Any:
    """Frozen data as mappings and lists; each block tells its kind. What is no finite number is None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return fields if isinstance(value, Report) else {"is": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(child) for child in value]
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if type(value).__name__ == "NAType":  # of pandas, which a report of a profile need not load
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value
