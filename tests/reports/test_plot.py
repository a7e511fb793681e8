"""Figures one call away: names, suggestions, and a picture that a notebook shows."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure as Drawing

from wcbench.errors import UnknownNameError, UsageError
from wcbench.reports import plot
from wcbench.reports.profile_report import profile_report


class Profile:
    """As much of a record as figures use."""

    def __init__(self, summary: dict[str, Any]) -> None:
        self.summary = summary

    def view(self, name: str) -> Any:
        assert name == "summary"
        return self.summary


def test_names_are_those_of_the_report(summary: dict[str, Any]) -> None:
    ids = [figure.id for section in profile_report(summary).sections for figure in section.figures()]
    assert [name.replace("-figure", "") for name in ids] == plot.names(Profile(summary))
    assert plot.names(Profile(summary))[:2] == ["hotspots", "categories"]


def test_a_figure_by_its_short_name_and_by_its_id(summary: dict[str, Any]) -> None:
    first, second = plot.draw(Profile(summary), "hotspots"), plot.draw(Profile(summary), "hotspots-figure")
    assert isinstance(first, Drawing)
    assert first.axes[0].get_xlabel() == second.axes[0].get_xlabel()
    assert plot.draw(Profile(summary), "hotspots", width=343).get_size_inches()[0] * 72 == pytest.approx(343)


def test_it_is_a_picture_on_paper_and_a_matplotlib_figure(summary: dict[str, Any]) -> None:
    figure: Any = plot.draw(Profile(summary), "steps")
    root = ElementTree.fromstring(figure._repr_svg_())
    sheet = root[0]
    assert sheet.tag.endswith("rect")
    assert sheet.attrib["fill"] == plot.PAPER
    assert int(root.attrib["width"]) == round(figure.get_size_inches()[0] * 72) + 2 * plot.MARGIN
    assert "script" not in figure._repr_svg_()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")


def test_an_unknown_name_is_told_with_the_nearest(summary: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'hotspots'"):
        plot.draw(Profile(summary), "hotspot")


def test_nothing_to_draw_says_so(any_summary: dict[str, Any]) -> None:
    profile = Profile(any_summary)
    if not plot.names(profile):
        with pytest.raises(UnknownNameError, match="its notes say what is missing"):
            plot.draw(profile, "hotspots")
    with pytest.raises(UsageError, match="no report of class int"):
        plot.names(3)
