"""Which workloads may stand for others: conditions on the choice of a subset, such as those of AIBench's RPR subset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wcbench.analysis.cover import Distances, Set
from wcbench.errors import UsageError


@dataclass(frozen=True)
class Constraint:
    """Workloads that may not be members, each with its reason; they must be covered all the same.

    Attributes
    ----------
    text : what is asked of a member, e.g. "run-to-run variation at most 0.02".
    refused : the workloads that do not meet it.
    asked : the workloads of which it is known or known to be unknown; any other is refused as well. None: all.
    """

    text: str
    refused: Mapping[str, str]
    asked: frozenset[str] | None = None

    def reason(self, name: str) -> str | None:
        """Why the workload may not be a member; None where it may."""
        if self.asked is not None and name not in self.asked:
            return "not known"
        return self.refused.get(name)

    def __repr__(self) -> str:
        return f"Constraint ({self.text}; refuses {len(self.refused)})"


def having(text: str, flags: Mapping[str, bool | None]) -> Constraint:
    """Members must have a property; a workload of which it is not known (None, or not listed) has it not."""
    refused = {name: "not known" if flag is None else "no" for name, flag in flags.items() if not flag}
    return Constraint(text, refused, frozenset(flags))


def at_most(text: str, values: Mapping[str, float | None], limit: float) -> Constraint:
    """Members must have a value of at most the limit, e.g. a coefficient of variation; not known is not at most."""
    refused = {}
    for name, value in values.items():
        if value is None or not math.isfinite(value):
            refused[name] = "not known"
        elif value > limit:
            refused[name] = f"{value:.6g}"
    return Constraint(f"{text} at most {limit:.6g}", refused, frozenset(values))


def without(names: Iterable[str], why: str = "excluded by name") -> Constraint:
    """These must not be members."""
    listed = dict.fromkeys(sorted(set(names)), why)
    return Constraint(f"not {', '.join(listed)}", listed)


def candidates(d: Distances, constraints: Iterable[Constraint]) -> tuple[Set, dict[str, str]]:
    """Places of those that may be members, and why the others may not; raises UsageError where none may."""
    every = tuple(constraints)
    refused: dict[str, str] = {}
    for name in d.names:
        reasons = [f"{c.text}: {why}" for c in every if (why := c.reason(name)) is not None]
        if reasons:
            refused[name] = "; ".join(reasons)
    allowed = tuple(i for i, name in enumerate(d.names) if name not in refused)
    if not allowed:
        raise UsageError(
            f"No workload meets the conditions on members: {'; '.join(c.text for c in every)}.",
            "Loosen a condition, or measure what is not known.",
        )
    return allowed, refused
