"""What the sections of a study share: reading document and tables without stumbling over what is absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from wcbench.reports import format as fmt
from wcbench.reports.format import Kind
from wcbench.reports.model import Column, NoteLine
from wcbench.reports.sections._common import mapping, rows

Row = Mapping[str, Any]

BOTH = "both suites"
DRAWN = 80
"""Workloads that a figure shows by name; a study of more has tables only."""
LISTED = 24
"""Names in a sentence."""


@dataclass(frozen=True, eq=False)
class View:
    """A study as sections read it; ``missing`` says which sections have nothing to show and why."""

    document: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    missing: tuple[NoteLine, ...] = ()

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the document; empty where the study has none."""
        return mapping(self.document.get(name))

    @cached_property
    def _rows(self) -> dict[str, list[Row]]:
        return {}

    def rows(self, name: str, *needed: str) -> list[Row]:
        """A table's rows with None for what is absent; none where it or a ``needed`` column is not there."""
        frame = self.tables.get(name)
        if frame is None or not {*needed} <= {*map(str, frame.columns)}:
            return []
        if name not in self._rows:
            self._rows[name] = [{str(k): _value(v) for k, v in row.items()} for row in frame.to_dict("records")]
        return self._rows[name]

    # --- who ----------------------------------------------------------------------------------------------------------

    @cached_property
    def studied(self) -> str:
        return fmt.prose(self.part("studied").get("title") or "the workloads")

    @cached_property
    def against(self) -> str:
        """The title of the other suite; empty where there is none."""
        return fmt.prose(self.part("against").get("title") or "")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All workloads of the table, of both suites."""
        return tuple(map(str, self.part("table").get("workloads") or ()))

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The group of each workload; one in two suites is of both."""
        one, two = (set(self.part(name).get("workloads") or ()) for name in ("studied", "against"))
        found = {str(name): self.studied for name in one} | {str(name): self.against for name in two}
        return found | {str(name): BOTH for name in one & two}

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The groups that occur, the studied one first."""
        present = set(self.groups.values())
        return tuple(name for name in (self.studied, self.against, BOTH) if name in present)

    @cached_property
    def members(self) -> frozenset[str]:
        """The subset."""
        return frozenset(map(str, self.part("subset").get("members") or ()))

    def group(self, workload: Any) -> str:
        return self.groups.get(str(workload), self.studied)

    def mark(self, workload: Any) -> str | None:
        """What a table says of a workload: whether it is in the subset."""
        return "in the subset" if str(workload) in self.members else None

    def in_order(self, found: Iterable[Any]) -> list[str]:
        """Workloads by suite, then by name, as tables and figures list them."""
        places = {title: place for place, title in enumerate(self.titles)}
        return sorted(map(str, found), key=lambda name: (places.get(self.group(name), 9), name))

    # --- features -----------------------------------------------------------------------------------------------------

    @cached_property
    def features(self) -> Mapping[str, Row]:
        """What the document says of each feature, by name."""
        return {str(row.get("name")): row for row in rows(self.part("table").get("features"))}

    def values(self, feature: str) -> dict[str, float]:
        """A feature's raw values by workload, as far as they are known."""
        known = ((str(row["workload"]), row.get(feature)) for row in self.rows("features", "workload", feature))
        return {name: float(value) for name, value in known if value is not None}

    # --- comparison ---------------------------------------------------------------------------------------------------

    @cached_property
    def suites(self) -> Mapping[str, Any]:
        """The comparison of the suites as they are; empty where there is none."""
        return next((mapping(one) for one in rows(self.document.get("comparisons"))), {})

    def alone(self, about: str) -> NoteLine | None:
        """Why nothing is compared; None where something is."""
        if not self.suites:
            why = "nothing to compare with: name another suite with --against"
        elif self.suites.get("reason"):
            why = f"the suites cannot be compared: {fmt.prose(self.suites['reason'])}"
        else:
            return None
        return absent(about, why)


def _value(value: Any) -> Any:
    """Python's own types, None for what is absent."""
    if isinstance(value, list | tuple):
        return value
    if value is None or value is pd.NA or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def absent(about: str, why: str) -> NoteLine:
    """The line that stands for a section which has nothing to show."""
    return NoteLine(about, f"Not in this report: {fmt.prose(why).rstrip('.')}.")


def joined(names: Iterable[Any], most: int = LISTED) -> str:
    """Names in a sentence; beyond ``most`` their number."""
    found = [fmt.shorten(fmt.prose(name), 60) for name in names]
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return (", ".join(found[:most]) + more) or "none"


def shorter(some: Sequence[Any], every: Sequence[Any]) -> str:
    """The shorter of the two: who is among all, or who is not."""
    left = sorted({*map(str, every)} - {*map(str, some)})
    if every and len(left) < len(some):
        return f"all but {joined(left, 60)}" if left else "all"
    return joined(some, 60)


def csv(table: str) -> str:
    """Where all rows of a table stand, in the folder of the study."""
    return f"tables/{table}.csv"


@dataclass(frozen=True)
class Unit:
    """How a quantity is written, by its unit."""

    kind: Kind
    unit: str = ""

    def column(self, title: str, **others: Any) -> Column:
        return Column(title, self.kind, self.unit, **others)


_UNITS: Mapping[str, Unit] = {
    "fraction": Unit("share"),
    "B": Unit("bytes_each"),
    "s": Unit("time_s"),
    "us": Unit("number", "µs"),
    "count": Unit("si_each"),
    "elements": Unit("si_each"),
    "log2 units": Unit("number"),
    "": Unit("number"),
}
_LARGE = ("FLOP", "B/", "J", "samples", "operators", "warps")


def unit_of(unit: Any) -> Unit:
    """The kind of a feature's or a cost's values."""
    text = fmt.prose(unit or "")
    if text in _UNITS:
        return _UNITS[text]
    return Unit("si_each" if text.startswith(_LARGE) and text != "FLOP/B" else "number", text)
