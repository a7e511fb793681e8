"""Figures one call away: those of the report of a result in hand, as matplotlib figures for a notebook or a paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure as Drawing

from wcbench.errors import UnknownNameError, UsageError
from wcbench.registry import load_target
from wcbench.reports.canvas import WIDE
from wcbench.reports.model import Figure, Report

PAPER = "#ffffff"
"""Figures in notebooks have dark ink on white paper, in dark notebooks too."""
MARGIN = 12
"""Of the paper around the figure, in pixels."""


def _profile(profile: Any) -> Report:
    report: Report = load_target("wcbench.reports.profile_report:profile_report")(profile.view("summary"))
    return report


def _study(study: Any) -> Report:
    report: Report = load_target("wcbench.reports.study_report:study_report")(study.document, study.tables)
    return report


def _sweep(sweep: Any) -> Report:
    report: Report = load_target("wcbench.reports.sweep:sweep_report")(sweep)
    return report


def _diff(diff: Any) -> Report:
    report: Report = load_target("wcbench.reports.diff_report:diff_report")(diff.to_dict())
    return report


REPORTS: Mapping[str, Callable[[Any], Report]] = {
    "Profile": _profile,
    "Study": _study,
    "Sweep": _sweep,
    "Diff": _diff,
}
"""What has a report, by class: the classes themselves are loaded with the objects."""


def figures(result: Any) -> dict[str, Figure]:
    """The figures of a result's report by short name, in the report's order.

    The short name is the id without a word ``figure`` in it: ``hotspots`` for ``hotspots-figure``.
    """
    kind = next((base.__name__ for base in type(result).__mro__ if base.__name__ in REPORTS), None)
    if kind is None:
        raise UsageError(
            f"There is no report of class {type(result).__name__}, so it has no figures.", "See its to_frame."
        )
    found = (figure for section in REPORTS[kind](result).sections for figure in section.figures())
    return {short(figure.id): figure for figure in found}


def names(result: Any) -> list[str]:
    """Short names of the figures of a result."""
    return list(figures(result))


def draw(result: Any, name: str, width: int = WIDE) -> Drawing:
    """A figure by its short name or its id.

    Parameters
    ----------
    width : in CSS pixels; the height follows from the data.

    Raises
    ------
    UnknownNameError : there is none of the name; suggests the nearest.
    """
    from wcbench.reports import figures as drawers

    found = figures(result)
    figure = found.get(short(name))
    if figure is None:
        words = {**{one.id: key for key, one in found.items()}, **{key: key for key in found}}
        hint = None if found else "What it was made of holds nothing to draw; its notes say what is missing."
        raise UnknownNameError("figure", name, words, hint)
    return _for_notebook(drawers.draw(figure.data, width), figure.alt)


def short(name: str) -> str:
    """``activity-1`` for ``activity-figure-1``."""
    return re.sub(r"-figure(?=-|$)", "", name)


# --- how a notebook shows it ----------------------------------------------------------------------------------------


class NotebookFigure(Drawing):
    """A figure that a notebook shows without pyplot, which draws none of its own accord for figures made elsewhere."""

    alt: str = ""

    def _repr_svg_(self) -> str:
        from wcbench.reports.vector import standalone

        width, height = (round(inches * 72) for inches in self.get_size_inches())
        wide, tall = width + 2 * MARGIN, height + 2 * MARGIN
        sheet = f'<rect width="{wide}" height="{tall}" fill="{PAPER}"/>'
        drawn = standalone(self, self.alt).replace("<svg ", f'<svg x="{MARGIN}" y="{MARGIN}" overflow="visible" ', 1)
        return f'<svg width="{wide}" height="{tall}" xmlns="http://www.w3.org/2000/svg">{sheet}{drawn}</svg>'


def _for_notebook(figure: Drawing, alt: str) -> Drawing:
    """The figure on paper. It is made as a plain one and becomes the other class, which adds nothing but a method."""
    figure.patch.set(facecolor=PAPER, alpha=1)
    figure.__class__ = NotebookFigure
    figure.alt = alt  # type: ignore[attr-defined]  # of the class that it has become
    return figure
