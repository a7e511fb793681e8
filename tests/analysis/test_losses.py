"""What of imports is counted as missing, as mended, and as left out on purpose."""

from __future__ import annotations

from wcbench.analysis.losses import losses_block, lost_block
from wcbench.record import Loss


def loss(why: str, count: int, *, repaired: bool = False) -> Loss:
    return Loss(file="a.json", what="an event", why=why, count=count, offset=0, repaired=repaired)


def test_pieces_by_kind() -> None:
    found = [
        loss("its braces do not close", 3),
        loss("a time is turned round", 2, repaired=True),
        loss("it is waiting, no work of the device", 40),
        loss("another", 1),
    ]
    assert lost_block(found) == {"missing": 4, "mended": 2, "deliberate": 40}
    assert [row["deliberate"] for row in losses_block(found)] == [False, False, True, False]
    assert lost_block([]) == {"missing": 0, "mended": 0, "deliberate": 0}
