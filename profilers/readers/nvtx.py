"""Ranges that programs put around their work (NVTX, ROCTX): torch's operators among them, and marks of people.

`torch.autograd.profiler.emit_nvtx` writes one range a call of an operator, with the text
``aten::addmm, seq = 12, op_id = 34, sizes = [[...]]``; everything else is a mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.readers.base import Sink
from wcbench.profilers.readers.timeline import ABSENT

Ints = NDArray[np.int64]

MAX_MARK = 256
"""Characters of a mark that can tell a step or a phase; PyProf's hold descriptions of calls instead."""
MAX_MARKS = 1_000_000
"""Different marks that are kept; a file with more numbers each of its ranges."""

_KEPT = 1 << 16
_LONG, _MANY = -2, -3
_DROPPED = {
    ABSENT: "it has no text",
    _LONG: "its text is too long for a step or an operator",
    _MANY: "the file has too many different texts",
}
_PARTS = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = ([0-9]{1,18})(?![0-9])")
_OPERATOR = ("aten::", "autograd::engine::evaluate_function")


class Ranges:
    """Takes ranges and puts them into the sink's timeline, as calls of operators or as marks.

    ``given`` counts the ranges that were taken.
    """

    def __init__(self, sink: Sink) -> None:
        self.given = 0
        self._sink = sink
        self._known: dict[str, tuple[bool, int, int]] = {}
        self._marks: set[int] = set()

    def add(self, texts: Sequence[str | None], process: Ints, thread: Ints, start: Ints, end: Ints) -> None:
        """Ranges that have ended, with sound times."""
        if not len(start):
            return
        read = np.array([self._read(text) for text in texts], np.int64).reshape(-1, 3)
        operator, name, sequence = read[:, 0] > 0, read[:, 1], read[:, 2]
        mark = ~operator & (name >= 0)
        timeline = self._sink.timeline()
        timeline.ops(
            name=name[operator],
            process=process[operator],
            thread=thread[operator],
            start=start[operator],
            end=end[operator],
            sequence=sequence[operator],
        )
        timeline.marks(name=name[mark], process=process[mark], thread=thread[mark], start=start[mark], end=end[mark])
        self.given += len(start)
        for code, why in _DROPPED.items():
            if (name == code).any():
                self._sink.lose("a range", why, count=int((name == code).sum()))

    def _read(self, text: str | None) -> tuple[bool, int, int]:
        """Whether a text is an operator's, the number of its name (negative if it is dropped), autograd's number."""
        if not text:
            return False, ABSENT, ABSENT
        if (known := self._known.get(text)) is None:
            if len(self._known) >= _KEPT:  # with an op_id in it each text comes once
                self._known.clear()
            name, sequence, operator = parse(text)
            known = (operator, self._number(name, operator), sequence)
            self._known[text] = known
        return known

    def _number(self, name: str, operator: bool) -> int:
        if operator:
            return self._sink.timeline().name(name)
        if len(name) > MAX_MARK:
            return _LONG
        if len(self._marks) >= MAX_MARKS:
            return _MANY
        number = self._sink.timeline().name(name)
        self._marks.add(number)
        return number


def parse(text: str) -> tuple[str, int, bool]:
    """Name, autograd's sequence number (ABSENT if there is none), and whether the range is a call of an operator.

    >>> parse("aten::addmm, seq = 12, op_id = 34")
    ('aten::addmm', 12, True)
    """
    parts = _PARTS.search(text)
    if parts is None:
        return text, ABSENT, text.startswith(_OPERATOR)
    name = text[: parts.start()]
    number = _SEQUENCE.match(text, parts.start())
    # a range of the user's own gets an op_id too, but no sequence number
    operator = number is not None or (parts.group(1) == "op_id" and "::" in name) or name.startswith(_OPERATOR)
    return name, int(number.group(1)) if number else ABSENT, operator
