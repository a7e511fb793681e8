"""A placement: which workloads of a reference space are near, whether near enough, and what sets them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wcbench.analysis.differences import apart, beyond
from wcbench.analysis.recipe import Coordinate
from wcbench.analysis.reference import Reference
from wcbench.analysis.shown import Shown
from wcbench.errors import UnknownNameError

SCHEMA = "wcbench.place/1"
INSIDE, NEW, UNDECIDED, NO_RADIUS = "inside", "new", "undecided", "no radius"
NAMED = 3  # examples that a sentence gives
LEAST = 0.005  # share of a squared distance that is worth a line


@dataclass(frozen=True, eq=False)
class Placement(Shown):
    """Where a workload lies in a reference space.

    Attributes
    ----------
    workload : its name.
    reference : the space.
    verdict : "inside" (within r* of at least one workload of the reference, in the whole space), "new" (beyond r* of
        all), "undecided" (within r* in what could be compared, and something could not), or "no radius".
    nearest : a row a workload of the reference, nearest first: workload, distance (a lower bound where ``missing`` has
        anything), within_r (null without r*), same (whether it is this task itself, by name).
    squares : workloads of the reference by compared coordinates: shares of the squared distance, (x_j - y_j)^2.
    coordinates : those that were compared; ``values`` are this workload's raw values of them.
    missing : features of the space that the record does not tell, with reasons.
    unseen : what this workload has and the space cannot see, since no workload of the reference has it.
    mixed : conditions that differ from the reference's, where that was asked for.
    remarks : what the features say of their values.
    """

    workload: str
    reference: Reference
    verdict: str
    nearest: pd.DataFrame
    squares: pd.DataFrame
    coordinates: tuple[Coordinate, ...]
    values: pd.Series
    missing: Mapping[str, str]
    unseen: Mapping[str, str]
    mixed: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every coordinate of the space was compared, so that distances are those of the space."""
        return not self.missing

    @property
    def within(self) -> tuple[str, ...]:
        """Workloads within r*, nearest first; in what was compared."""
        return tuple(self.nearest.loc[self.nearest["within_r"].eq(True), "workload"])

    @property
    def against(self) -> str:
        """The nearest workload that lies apart from this one: with it the differences are told."""
        away = self.nearest[self.nearest["distance"] > 0]
        return str((away if len(away) else self.nearest)["workload"].iloc[0])

    def contributions(self, against: str | None = None) -> pd.DataFrame:
        """What makes the distance to a workload (by default ``against``), largest first.

        Columns: feature, block, unit, value, other (raw values), squared, share (of the squared distance, null at
        distance 0), beyond (where the value lies past all of the reference), words.
        """
        other = self._row(against)
        known = self.reference.values
        theirs, own = known.loc[other].to_dict(), self.values.to_dict()
        squared = self.squares.loc[other].to_dict()
        whole = float(sum(squared.values()))
        rows = [
            {
                "feature": c.name,
                "block": c.block,
                "unit": c.unit,
                "value": own[c.name],
                "other": theirs[c.name],
                "squared": squared[c.name],
                "share": squared[c.name] / whole if whole else None,
                "beyond": beyond(c, own[c.name], known[c.name]),
                "words": apart(c, own[c.name], theirs[c.name], other),
            }
            for c in self.coordinates
        ]
        return pd.DataFrame(rows).sort_values(["squared", "feature"], ascending=[False, True], ignore_index=True)

    def blocks(self, against: str | None = None) -> pd.DataFrame:
        """The same by block: block, features (how many), squared, share; largest first."""
        groups = self.contributions(against).groupby("block", sort=True)
        frame = groups.agg(features=("feature", "size"), squared=("squared", "sum")).reset_index()
        whole = float(frame["squared"].sum())
        frame["share"] = frame["squared"] / whole if whole else None
        return frame.sort_values(["squared", "block"], ascending=[False, True], ignore_index=True)

    def _row(self, against: str | None) -> str:
        if against is not None and against not in self.squares.index:
            raise UnknownNameError("workload of the reference", against, list(map(str, self.squares.index)))
        return self.against if against is None else against

    def to_frame(self) -> pd.DataFrame:
        """The workloads of the reference, nearest first."""
        return self.nearest.copy()

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        radius, first = self.reference.radius, self.nearest.iloc[0]
        near = f"{first['workload']} at {first['distance']:.4g}{'' if self.complete else ' or more'}"
        if radius is None:
            return f"no verdict: r* is not known for this reference ({self.reference.radius_of}). Nearest is {near}."
        if self.verdict == NEW:
            return f"new: beyond r* = {radius:.4g} of every workload of the reference. Nearest is {near}."
        names = f"{', '.join(self.within[:NAMED])}{' and others' if len(self.within) > NAMED else ''}"
        if self.verdict == INSIDE:
            words = f"inside r* = {radius:.4g} of {len(self.within)}: {names}. Nearest is {near}."
            if self.reference.distinguishable:
                return words
            return (
                f"{words} This tells little: r* is not below the median distance of the reference's own workloads to "
                f"their nearest, {self.reference.median_neighbour:.4g}, so that its features do not tell them apart."
            )
        gaps = ["the record lacks features"] if self.missing else []
        gaps += ["it has what the space cannot see"] if self.unseen else []
        return (
            f"undecided: in what could be compared it lies within r* = {radius:.4g} of {len(self.within)} ({names}), "
            f"but {' and '.join(gaps)}. Nearest is {near}."
        )

    def lines(self, rows: int = 5) -> list[str]:
        """A short text: verdict, nearest workloads, what sets it apart, what was not compared."""
        all_blocks = {c.block for c in self.reference.recipe.coordinates}
        own = {c.block for c in self.coordinates}
        lines = [f"{self.workload} in {self.reference.id} ({len(self.squares)} workloads, {len(all_blocks)} blocks)"]
        lines += ["  " + self.sentence]
        bound = "" if self.complete else " (lower bounds)"
        lines.append(f"  distances{bound}:")
        for row in self.nearest.head(rows).itertuples(index=False):
            marks = ["within r*"] if row.within_r is True else []
            marks += ["this task itself"] if row.same else []
            told = f" ({', '.join(marks)})" if marks else ""
            lines.append(f"    {row.distance:8.4f}  {row.workload}{told}")
        lines += self._differences(rows)
        if self.missing:
            counts = f"{len(self.coordinates)} of {len(self.reference.recipe.coordinates)} features in {len(own)} of"
            lines.append(f"  compared on {counts} {len(all_blocks)} blocks; not told by the record:")
            lines += [f"    {name}: {reason}" for name, reason in self.missing.items()]
        lines += [f"  not seen by the space: {name}: {reason}" for name, reason in self.unseen.items()]
        lines += [f"  mixed: {text}" for text in self.mixed]
        return lines + [f"  note: {text}" for text in self.remarks]

    def _differences(self, rows: int) -> list[str]:
        found = self.contributions()
        if not found["squared"].sum():
            return [f"  in every feature compared it is the same as {self.against}"]
        blocks = [f"{row['block']} {100 * row['share']:.0f} %" for row in _large(self.blocks(), rows)]
        lines = [f"  apart from {self.against} by blocks: {', '.join(blocks)}", "  by features:"]
        for row in _large(found, rows):
            past = f"; {row['beyond']}" if row["beyond"] else ""
            lines.append(f"    {100 * row['share']:4.0f} %  {row['words']}{past}")
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """JSON's own types, unrounded but for distances."""
        reference = self.reference
        return {
            "schema": SCHEMA,
            "workload": self.workload,
            "reference": {
                "id": reference.id,
                "fingerprint": reference.recipe.fingerprint,
                "made": dict(reference.made),
                "workloads": len(self.squares),
                "radius": reference.radius,
                "radius_of": reference.radius_of,
                "median_neighbour": reference.median_neighbour,
                "distinguishable": None if reference.radius is None else reference.distinguishable,
            },
            "verdict": None if self.verdict == NO_RADIUS else self.verdict,
            "text": self.sentence,
            "distances_are": "exact" if self.complete else "lower bounds",
            "nearest": _records(self.nearest),
            "against": self.against,
            "blocks": _records(self.blocks()),
            "features": _records(self.contributions()),
            "compared": {"features": len(self.coordinates), "of": len(reference.recipe.coordinates)},
            "missing": [{"feature": name, "reason": reason} for name, reason in self.missing.items()],
            "unseen": [{"feature": name, "reason": reason} for name, reason in self.unseen.items()],
            "mixed": list(self.mixed),
            "notes": list(self.remarks),
        }


def _large(frame: pd.DataFrame, rows: int) -> list[dict[str, Any]]:
    """The first rows, as far as their share is worth a line."""
    return [row for row in _records(frame.head(rows)) if row["share"] >= LEAST]


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
        for row in plain.to_dict("records")
    ]
