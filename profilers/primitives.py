"""oneDNN's verbose log: which implementation ran for each primitive, on which shapes, for how long (CPU only).

The log shows only what torch hands to oneDNN (convolutions, bf16 matmuls; neither fp32 Linear nor attention), so it
is a table of its own and never part of the hotspots; its share of the operators' time is shown beside it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from wcbench.profilers.base import Collector, Columns
from wcbench.profilers.streams import STDOUT, caught_fd, flush_all, flush_native, read_lines, replay
from wcbench.tasks.base import Built

_PREFIX = "onednn_verbose,"
_MARK = "wcbench_step,"
_FIELDS = ("primitive", "implementation", "direction", "memory", "attributes", "auxiliary", "shape")


class Primitives(Collector):
    """Switches oneDNN's log on for the measured steps and reads it back."""

    name = "primitives"
    purpose = "oneDNN's own log of primitives (CPU)"
    warmup = 2
    bare = 3
    steps = 3

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._lines: list[str] = []
        self._measured = False

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        if not torch.backends.mkldnn.is_available():
            self.note("No primitives: this torch was built without oneDNN.")
            yield
            return
        try:
            with caught_fd(STDOUT) as file:
                try:
                    with _verbose():
                        yield
                finally:
                    flush_all()
                    self._lines = read_lines(file)
        finally:
            replay([own for own in map(_before_log, self._lines) if own is not None], STDOUT)
        self._measured = True

    @contextlib.contextmanager
    def step(self, index: int, kind: str, batch: Any = None) -> Iterator[None]:
        _mark(str(index))
        yield
        _mark("")

    def tables(self) -> Mapping[str, Columns]:
        rows, odd = parse_log(self._lines)
        if odd:
            self.note(f"{odd} lines of oneDNN's log were not understood and are left out.")
        if self._measured and not rows:
            self.note("oneDNN ran no primitive in these steps: torch did this task's work without it.")
        return {"primitives": {key: [row[key] for row in rows] for key in rows[0]}} if rows else {}


def _mark(text: str) -> None:
    flush_native()
    os.write(STDOUT, f"{_MARK}{text}\n".encode())


@contextlib.contextmanager
def _verbose() -> Iterator[None]:
    """oneDNN's log on; afterwards at the level that the environment asked for, as oneDNN itself starts with."""
    before = os.environ.get("ONEDNN_VERBOSE") or os.environ.get("DNNL_VERBOSE") or "0"
    torch._C._verbose.mkldnn_set_verbose(1)
    try:
        yield
    finally:
        flush_native()
        torch._C._verbose.mkldnn_set_verbose(int(before) if before.isdigit() else 0)


def parse_log(lines: Iterable[str]) -> tuple[list[dict[str, Any]], int]:
    """Rows of table `primitives` from a log with step marks, and how many execution lines were not understood.

    A line reads ``onednn_verbose,v1,primitive,exec,cpu,<primitive>,<implementation>,<direction>,<memory>,
    <attributes>,<auxiliary>,<problem>,<milliseconds>``; releases before 3.5 leave ``v1,primitive`` out. Lines outside
    every step (the making of batches) are dropped.
    """
    rows: list[dict[str, Any]] = []
    odd = 0
    step: int | None = None
    for whole in lines:
        line = whole[_log_begins(whole) :]
        if line.startswith(_MARK):
            mark = line.removeprefix(_MARK)
            step = int(mark) if mark.isdigit() else None
        elif step is not None and line.startswith(_PREFIX) and ",exec," in line and ",graph," not in line:
            row = _parse_line(line)
            if row is None:
                odd += 1
            else:
                rows.append({**row, "step": step})
    return rows, odd


def _log_begins(line: str) -> int:
    """Where the log or a mark begins: a task may have printed on the same line without ending it."""
    found = [at for at in (line.find(_PREFIX), line.find(_MARK)) if at >= 0]
    return min(found, default=len(line))


def _before_log(line: str) -> str | None:
    """What of a line is the task's own; None where all of it is the log's."""
    at = _log_begins(line)
    return line[:at] if at or not line else None


def _parse_line(line: str) -> dict[str, Any] | None:
    parts = line.split(",exec,", 1)[1].split(",")[1:]  # without the engine
    if len(parts) < len(_FIELDS) + 1:
        return None
    try:
        duration = round(float(parts[-1]) * 1e6)  # logged in milliseconds
    except ValueError:
        return None
    # attributes are the only field in which a comma could stand
    extra = len(parts) - 1 - len(_FIELDS)
    middle = [*parts[:4], ",".join(parts[4 : 5 + extra]), *parts[5 + extra : -1]]
    row: dict[str, Any] = dict(zip(_FIELDS, middle, strict=True))
    auxiliary = row.pop("auxiliary")
    row["attributes"] = " ".join(part for part in (row["attributes"], auxiliary) if part)
    return {**row, "duration_ns": duration}
