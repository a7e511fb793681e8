"""Two profiles compared: what was unlike about them, how their steps differ, and where the difference lies.

Both summaries (docs/json.md) are read, so that a number here is the number that `wcbench show` prints. Where the
samples of a step differ, times and amounts are per sample. docs/diff.md explains every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from wcbench.analysis import diff_hotspots
from wcbench.analysis.diff_answer import answer
from wcbench.analysis.diff_conditions import conditions, doubts, machine, missing, untold, who
from wcbench.analysis.diff_quantities import capacities, energy, quantities
from wcbench.analysis.diff_tables import counters, operators, runtime, trainings
from wcbench.analysis.diff_time import per_of, step_samples, time
from wcbench.analysis.shown import Drawn
from wcbench.errors import UsageError

if TYPE_CHECKING:
    from wcbench.record import Profile

SCHEMA = "wcbench.diff/1"
_TABLES = ("hotspots", "quantities", "conditions", "machine", "capacities", "trainings", "operators", "runtime")


@dataclass(frozen=True, eq=False)
class Diff(Drawn):
    """Two profiles compared; ``document`` is all of it as JSON's own types (schema wcbench.diff/1)."""

    document: Mapping[str, Any]

    @property
    def answer(self) -> tuple[str, ...]:
        """Sentences."""
        return tuple(self.document["answer"])

    def to_dict(self) -> dict[str, Any]:
        """The document."""
        return dict(self.document)

    def to_frame(self, table: str = "hotspots") -> pd.DataFrame:
        """A list of the document as a frame; by default one row a function: times in ns, shares, calls of both, and the
        difference; greatest difference first. Others are quantities, conditions, machine, capacities, trainings,
        operators and runtime.

        Raises UsageError for another name.
        """
        if table not in _TABLES:
            raise UsageError(f"A comparison has no table '{table}'.", f"Take one of: {', '.join(_TABLES)}.")
        found = self.document[table]
        return pd.DataFrame((found or {}).get("rows") if table == "hotspots" else found)

    def __repr__(self) -> str:
        a, b = (self.document[side]["label"] for side in "ab")
        return "\n".join([f"Diff (A = {a}, B = {b})", *(f"  {sentence}" for sentence in self.answer)])


def diff(a: Profile, b: Profile, on: str | None = None) -> Diff:
    """Compare two profiles; ``on`` names the device of their rooflines.

    Raises UsageError where they have nothing in common that could be compared.
    """
    return of_summaries(a.view("summary", on=on), b.view("summary", on=on))


def of_summaries(a: Mapping[str, Any], b: Mapping[str, Any]) -> Diff:
    """Compare two summaries. Raises UsageError where they have nothing in common."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "answer": [],
        "a": who(a, "A"),
        "b": who(b, "B"),
        "per": per_of(step_samples(a), step_samples(b))[0],
        "conditions": conditions(a, b),
        "untold": untold(a, b),
        "machine": machine(a, b),
        "doubts": doubts(a, b),
        "time": time(a, b),
        "hotspots": diff_hotspots.hotspots(a, b),
        "operators": operators(a, b),
        "runtime": runtime(a, b),
        "quantities": quantities(a, b),
        "capacities": capacities(a, b),
        "energy": energy(a, b),
        "counters": counters(a, b),
        "trainings": trainings(a, b),
        "missing": missing(a, b),
    }
    if not _comparable(document):
        held = [f"{name}: {', '.join(side['tables']) or 'no tables'}" for name, side in (("A", a), ("B", b))]
        raise UsageError("These two records have nothing in common to compare.", "; ".join(held) + ".")
    document["answer"] = answer(document)
    return Diff(document)


def _comparable(document: Mapping[str, Any]) -> bool:
    """Whether anything was known of both."""
    time = document["time"]
    return (
        (time["a_ms"] is not None and time["b_ms"] is not None)
        or any(document[name] for name in ("hotspots", "operators", "runtime", "capacities", "counters", "trainings"))
        or any(row["a"] is not None and row["b"] is not None for row in document["quantities"])
    )
