"""What imports left out: on purpose, or because it was damaged, missing or not readable."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wcbench.record import Loss

DELIBERATE = frozenset(
    {
        "advice in words is not kept",
        "another report of the file has what its report holds",
        "it is derived from the work of the device",
        "it is neither a call of HIP or HSA nor a marker",
        "it is no work",
        "it is no work of a device",
        "it is of Python or of the framework's machinery, no operator",
        "it is text, not a number",
        "it is waiting, no work of the device",
        "its kernels are there",
        "its plane is of no device and no host",
        "its report is not read",
        "its time is that of the operations within it",
        "kernels ran one at a time for their counters",
        "ranges of nvprof's files are not read",
    }
)
"""Reasons that the readers give for what they leave out by decision: nothing of it is damaged, no figure lacks it."""


def deliberate(loss: Loss) -> bool:
    """Whether it was left out on purpose: kept for none of its damage, and for a reason on the list. All else may be
    missed in a figure."""
    return not loss.repaired and loss.why in DELIBERATE


def losses_block(losses: Sequence[Loss]) -> list[dict[str, Any]]:
    """The loss log as the summary has it, each entry with `deliberate`."""
    return [{**dataclasses.asdict(loss), "deliberate": deliberate(loss)} for loss in losses]


def lost_block(losses: Sequence[Loss]) -> dict[str, int]:
    """How many pieces are missing though they should not be, were mended, and were left out on purpose."""
    sums = {"missing": 0, "mended": 0, "deliberate": 0}
    for loss in losses:
        sums["mended" if loss.repaired else "deliberate" if deliberate(loss) else "missing"] += loss.count
    return sums
