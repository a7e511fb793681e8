"""What results are to a notebook. How they are shown is known to the reports, which are found by name: analysis imports
none of them."""

from __future__ import annotations

from typing import Any

from wcbench.registry import load_target


def percent(share: Any, form: str = ".1f") -> str:
    """A share in per cent, as `repr` shows it."""
    return f"{100 * float(share):{form}} %"


class Shown:
    """A result that a notebook shows as a card: its sentences, and the first rows of its frame."""

    def _repr_html_(self) -> str:
        html: str = load_target("wcbench.reports.cards:result_html")(self)
        return html


class Drawn(Shown):
    """A result of which there is a report, and so figures."""

    def figures(self) -> list[str]:
        """Names of the figures that `figure` draws, in the report's order."""
        names: list[str] = load_target("wcbench.reports.plot:names")(self)
        return names

    def figure(self, name: str, **options: Any) -> Any:
        """A figure of the report as matplotlib's, ready to be shown, changed or saved (`reports.plot.draw`).

        Raises UnknownNameError, with the nearest name, where the result has no such figure.
        """
        return load_target("wcbench.reports.plot:draw")(self, name, **options)
