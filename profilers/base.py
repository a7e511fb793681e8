"""What an instrument is to the capture loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from wcbench.record import Note
from wcbench.tasks.base import Built

Columns = Mapping[str, Any]


class Collector:
    """An instrument that rides on one pass over a task's steps.

    The loop (`loop.Loop`) builds the task, drops `warmup` steps, times `bare` steps with the instrument off,
    and then enters `measuring` around the measured steps and `step` around each of them. Afterwards it asks for
    `tables` and reads `notes`. A collector never steps the task itself.

    Attributes
    ----------
    name : the pass's name, on the command line and in the record.
    purpose : one line for help and documents.
    tensors : "real", or "fake" where the pass runs inside FakeTensorMode.
    timed : whether its steps' times mean anything; those of a counting pass do not.
    rehearse : whether the task is built and stepped once beforehand and thrown away, so that what a process loads and
        allocates once (imports, thread pools) is not taken for the task's.
    warmup, bare, steps : how many steps of each role by default; ``steps`` None lets the loop fill about two seconds.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    tensors: str = "real"
    timed: ClassVar[bool] = True
    rehearse: ClassVar[bool] = False
    warmup: ClassVar[int] = 2
    bare: ClassVar[int] = 0
    steps: ClassVar[int | None] = None

    def __init__(self, device: str) -> None:
        self.device = device
        self.notes: list[Note] = []

    def note(self, text: str) -> None:
        self.notes.append(Note(self.name, text))

    def starting(self) -> None:
        """Called before the task is built."""

    def built(self, built: Built) -> None:
        """Called when the task stands, before its first step."""

    def warmed(self) -> None:
        """Called after the warm-up and the bare steps."""

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        """Around all measured steps; instruments are switched on and off here, outside the timed steps."""
        yield

    @contextlib.contextmanager
    def step(self, index: int, kind: str, batch: Any = None) -> Iterator[None]:
        """Around one measured step, outside its timer; ``index`` counts the measured steps from 0, ``batch`` is what
        the step is given (None where making it is part of the step)."""
        yield

    def tables(self) -> Mapping[str, Columns]:
        """What was measured, by table of the record; the column `pass` is filled by the loop."""
        return {}
