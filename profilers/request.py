"""What is asked of a capture, and who is told how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Progress(Protocol):
    """Told how far a pass is; ``total`` is 0 while it is not known."""

    def __call__(self, passname: str, done: int, total: int) -> None: ...


def silent(passname: str, done: int, total: int) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Request:
    """What to capture. ``preset`` None takes each pass's own default (DESIGN, section 4).

    ``sequence_length`` sets the task's `Task.length`; ``scaling`` False leaves out the counts at further batches;
    ``factors`` are all that are counted, as multiples of the batch, the batch itself (1) among them.
    """

    device: str = "cpu"
    passes: Sequence[str] | None = None
    preset: str | None = None
    variant: str | None = None
    batch_size: int | None = None
    precision: str = "fp32"
    overrides: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    steps: int | None = None
    warmup: int | None = None
    data_in_step: bool = False
    mode: str = "train"
    sequence_length: int | None = None
    scaling: bool = True
    factors: Sequence[int] = (1, 2, 4)
