"""How groups of workloads are told apart: each has a shape and a colour of its own, and a name in the legend.

Filled marks are in the subset and hollow ones are not; where no workload is chosen, all are filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wcbench.reports.canvas import Key
from wcbench.reports.palette import EDGE, GROUPS, INK

SHAPES = ("o", "s", "^", "D", "v", "P", "X")
"""Circle, square, triangle, diamond, triangle upside down, plus, cross: as many as there are colours."""
SIZES = {"o": 44, "s": 38, "^": 50, "D": 34, "v": 50, "P": 52, "X": 50}
"""Areas at which the shapes look equally large."""
CHOSEN = "in the subset"
OTHER = "not in the subset"


@dataclass(frozen=True)
class Look:
    color: str
    shape: str


def looks(groups: Iterable[str]) -> dict[str, Look]:
    """A look for each group by alphabet, so that the same groups look the same in all figures."""
    names = sorted(set(groups))
    count = len(SHAPES)
    return {name: Look(GROUPS[i % count], SHAPES[(i + i // count) % count]) for i, name in enumerate(names)}


def keys(found: dict[str, Look], chosen: Sequence[bool]) -> list[Key]:
    """The legend of the groups, and of filled and hollow marks where both have a meaning."""
    named = {name: look for name, look in found.items() if name}
    groups = [Key(name, look.color, "dot", look.shape) for name, look in named.items() if len(found) > 1 or any(chosen)]
    if not any(chosen):
        return groups
    return [*groups, Key(CHOSEN, INK, "dot"), *([] if all(chosen) else [Key(OTHER, "none", "dot")])]


def dot(axes: Any, x: Any, y: Any, look: Look, *, filled: bool, scale: float = 1.0, **style: Any) -> None:
    """One mark, or several. Its edge is the group's colour where it is hollow, and dark where it is filled."""
    face, edge = (look.color, EDGE) if filled else ("none", look.color)
    lines = {"linewidths": 0.7 if filled else 1.8, "edgecolors": edge, "facecolors": face}
    axes.scatter(x, y, s=SIZES[look.shape] * scale, marker=look.shape, **{"zorder": 4, **lines, **style})
