"""One run of an MLPerf log while it is read, and what the numbers of its evaluations mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MANY_ROWS = 200_000
ECHO_MS = 60_000.0
"""Processes of one job log the same event within this time; a second event of this kind comes later."""


@dataclass(frozen=True)
class Rule:
    """What `epoch_num` is, by benchmark: ``unit`` of numbers from ``least`` up, ``below`` of smaller ones, and why."""

    unit: str
    why: str
    least: float = 0.0
    below: str = "epochs"


EPOCHS = Rule("epochs", "the rules of most benchmarks count whole epochs")
RULES: Mapping[str, Rule] = {
    "bert": Rule(
        "samples",
        "it is evaluated every so many samples, within the first epoch; some logs of v0.7 give the number of that "
        "epoch instead, which says nothing of how far the training came",
        least=10_000,
        below="under way",
    ),
    "unet3d": Rule(
        "samples",
        "an epoch has 168 samples, at most 10,000 epochs are allowed and evaluations begin at 1,000: more than 20,000 "
        "counts samples, as logs of v2.1 and newer do",
        least=20_000,
    ),
    "dlrm": Rule("position", "it is evaluated at fractions of the only epoch, counted from that epoch's number"),
    "dlrm_dcnv2": Rule("position", "as dlrm"),
    "gpt3": Rule("unknown", "submitters give tokens or steps, and the log does not say which"),
}
NO_EPOCHS = 100_000
"""No benchmark trains so many epochs: a larger number counts something else."""


def meaning(benchmark: str | None, number: float | None, origin: float | None, shift: int) -> tuple[str, float | None]:
    """Unit and value of an evaluation's number: epochs or samples trained so far; other units have no value.

    ``origin`` is the number of the first epoch in the log; ``shift`` is 1 where it names the last epoch by its number
    from 0.
    """
    if number is None:
        return "unknown", None
    rule = RULES.get(benchmark or "", EPOCHS)
    unit = rule.unit if number >= rule.least else rule.below
    if unit == "position":
        if number < 1 or origin == 0:
            return "epochs", number
        return ("epochs", number - origin) if origin is not None and number >= origin else ("unknown", None)
    if unit == "epochs":
        return ("epochs", number + shift) if number < NO_EPOCHS else ("unknown", None)
    return unit, number if unit == "samples" else None


class Row(NamedTuple):
    """One evaluation (with its metrics) or, where ``qualities`` is empty, the end of an epoch numbered from 1."""

    ms: float | None
    logged: float | None
    samples: int | None
    qualities: Mapping[str | None, float | None]
    loss: float | None


@dataclass
class Run:
    """One run while it is read."""

    start: float | None
    facts: dict[str, Any]
    inherited: Mapping[str, Any] = field(default_factory=dict)
    stop: float | None = None
    stopped: bool = False
    status: str | None = None
    rows: list[Row] = field(default_factory=list)
    origin: float | None = None
    shift: int | None = None
    open_end: float = 0.0
    done: float = 0.0
    blocks: dict[float, float] = field(default_factory=dict)
    block_epochs: float = 0.0
    loss: float | None = None
    late_samples: int | None = None
    seen: dict[tuple[Any, ...], float | None] = field(default_factory=dict)

    @property
    def evaluations(self) -> list[Row]:
        return [row for row in self.rows if row.qualities]

    def begins(self, first: float | None, count: float | None) -> None:
        """An epoch (``count`` 1) or a block of them begins."""
        if first is None or len(self.blocks) >= MANY_ROWS:
            return
        self.origin = first if self.origin is None else self.origin
        self.blocks[first] = count or 1.0
        self.open_end = max(self.open_end, first - self.origin + self.blocks[first])

    def ends(self, first: float, count: float | None, ms: float | None, *, block: bool) -> None:
        """An epoch or a block ends: a row, unless the epoch in a block has had its own."""
        self.origin = first if self.origin is None else self.origin
        epochs = count or self.blocks.get(first) or 1.0
        self.block_epochs += epochs if block else 0.0
        end = first - self.origin + epochs
        if self.done < end < NO_EPOCHS and len(self.rows) < MANY_ROWS:
            self.rows.append(Row(ms, end, None, {}, self.loss))
            self.done, self.loss = end, None

    def evaluated(self, row: Row) -> None:
        """An evaluation; the first one shows whether the log names epochs by number from 0 or counts them."""
        if self.shift is None and row.logged is not None:
            ends = {end for end in (self.done, self.open_end) if end}
            named = self.origin == 0 and row.logged not in ends and row.logged + 1 in ends
            self.shift = int(named)
        self.rows.append(row)
        self.loss = None

    def echoed(self, key: tuple[Any, ...], ms: float | None) -> bool:
        """Whether another process has logged the same just before."""
        known = key in self.seen and (ms is None or self.seen[key] is None or abs(ms - (self.seen[key] or 0)) < ECHO_MS)
        if not known and len(self.seen) < 2 * MANY_ROWS:
            self.seen[key] = ms
        return known

    def same(self, ms: float | None) -> bool:
        """Whether a run_start at this time is another process's word for this run, not a new one."""
        if ms is None or self.start is None:
            return not self.rows and not self.stopped
        latest = self.stop if self.stopped and self.stop is not None else self.start + ECHO_MS
        return self.start - ECHO_MS < ms < latest

    def seconds(self, ms: float | None) -> float | None:
        """Seconds since the run began; None where a time is missing."""
        return None if ms is None or self.start is None else (ms - self.start) / 1000.0
