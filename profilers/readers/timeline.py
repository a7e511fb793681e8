"""Events in time, from any file: kept on disk while it is read, then nested, linked and written as tables.

Memory is bounded: rows are sorted on disk (`spill`), host events are nested thread by thread in time order with only
the open calls carried from one batch to the next, and kernels meet their launches in the order of their ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers import link
from wcbench.profilers.readers.rows import ABSENT, DEVICE, HOST, MARK, OP, RUNTIME, Names, Stages, size_column
from wcbench.profilers.readers.spill import Rows

if TYPE_CHECKING:
    from wcbench.profilers.readers.base import Sink

__all__ = ["ABSENT", "Timeline"]

Numbers = Sequence[int] | NDArray[Any]
Sizes = Sequence[Sequence[int] | None] | NDArray[Any]

# Ranges that count steps: torch's profiler, wcbench's own, and the names that people give to NVTX ranges of steps.
_STEP_FAMILIES = (
    re.compile(r"ProfilerStep#\d{1,12}"),
    re.compile(re.escape(link.STEP_MARK) + r"\d{1,12}"),
    re.compile(r"(?:train(?:ing)?[ _]?)?(?:step|iteration|iter)[ _#:=-]{0,3}\d{1,12}", re.IGNORECASE),
)
MAX_MARKS = 1_000_000


class Timeline:
    """Takes events in any order, in batches of equally long columns, and makes tables `ops`, `runtime`, `kernels` and
    `steps` of pass `timeline` of them when the file ends.

    All times are integer nanoseconds on one clock. Names (of operators, calls, kernels, devices) are given as numbers:
    ``number = timeline.name("aten::addmm")``, the same number for the same text. Columns are lists or numpy arrays;
    optional ones may be left out. Whole numbers that the file does not tell are `ABSENT`.
    """

    def __init__(self, sink: Sink, folder: Path) -> None:
        self._sink = sink
        self._names = Names(sink.lose)
        self._stages = Stages(folder)
        self._lanes: dict[tuple[int, int], int] = {}
        self._processes: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._steps: list[tuple[int, int, int, int, int]] = []  # family, process, start, end, name
        self._dropped_marks = 0
        self.base = 0
        """Nanoseconds to be added to all times, where a file tells them only when it ends."""

    def name(self, text: str) -> int:
        """The number that stands for a text in this timeline."""
        return self._names.number(text)

    def names(self, texts: Sequence[Any]) -> NDArray[np.int64]:
        """The numbers of many texts at once; ABSENT for None, other values by their texts."""
        return self._names.numbers(texts)

    def ops(
        self,
        *,
        name: Numbers,
        process: Numbers,
        thread: Numbers,
        start: Numbers,
        end: Numbers,
        sequence: Numbers | None = None,
        backward: Sequence[bool] | NDArray[np.bool_] | None = None,
        external: Numbers | None = None,
    ) -> None:
        """Calls of host operators.

        ``sequence`` is autograd's number (ABSENT where there is none), ``backward`` whether the file itself says that
        the call is part of a backward pass, ``external`` the id under which runtime calls name their operator.
        """
        rows = self._host(OP, name=name, process=process, thread=thread, start=start, end=end)
        _put(rows, "number", sequence)
        _put(rows, "backward", backward)
        _put(rows, "external", external)
        self._stages.host.add(rows)

    def marks(self, *, name: Numbers, process: Numbers, thread: Numbers, start: Numbers, end: Numbers) -> None:
        """Ranges that people or tools put around calls (user_annotation, NVTX): those that tell steps and phases are
        used, the others are dropped and counted."""
        columns = (name, process, thread, start, end)
        for row in zip(*(np.asarray(column).tolist() for column in columns), strict=True):
            self._mark(*row)

    def _mark(self, name: int, process: int, thread: int, start: int, end: int) -> None:
        text = self._names.texts[name]
        family = next((i for i, form in enumerate(_STEP_FAMILIES) if form.fullmatch(text)), None)
        if family is not None and len(self._steps) < MAX_MARKS:
            self._steps.append((family, self._process(process), start, end, name))
        elif link.is_mark(text):
            row = self._host(MARK, name=[name], process=[process], thread=[thread], start=[start], end=[end])
            self._stages.host.add(row)
        else:
            self._dropped_marks += 1

    def runtime(
        self,
        *,
        name: Numbers,
        process: Numbers,
        thread: Numbers,
        start: Numbers,
        end: Numbers,
        correlation: Numbers,
        external: Numbers | None = None,
    ) -> None:
        """Calls of the device's runtime or driver on the host; ``correlation`` is repeated by the device's record,
        ``external`` is the id of the operator that made the call (ids of another kind than correlations)."""
        rows = self._host(RUNTIME, name=name, process=process, thread=thread, start=start, end=end)
        _put(rows, "number", correlation)
        _put(rows, "external", external)
        self._stages.host.add(rows)

    def device(
        self,
        *,
        name: Numbers,
        process: Numbers,
        device: Numbers,
        stream: Numbers,
        start: Numbers,
        duration: Numbers,
        correlation: Numbers | None = None,
        op: Numbers | None = None,
        phase: Numbers | None = None,
        module: Numbers | None = None,
        grid: Sizes | None = None,
        block: Sizes | None = None,
        registers: Numbers | None = None,
        shared_bytes: Numbers | None = None,
        occupancy: Sequence[float | None] | NDArray[np.float64] | None = None,
        nbytes: Numbers | None = None,
        collective: Numbers | None = None,
        rank: Numbers | None = None,
    ) -> None:
        """Work of a device: kernels, copies, fills. No synchronization records: they are waiting, not work.

        ``device`` is the number of a label such as "cuda:0"; ``process`` the host process whose ``correlation`` it is,
        ABSENT on all records of a file that does not tell.
        ``op``, ``phase``, ``module`` and ``collective`` are numbers of texts, ABSENT where the file names none; an
        ``op`` given here wins over the one found by linking. ``start`` may be ABSENT (the file has durations only).
        ``occupancy`` is a fraction.
        """
        rows = np.full(len(name), ABSENT, DEVICE)
        fields = {
            "name": name, "device": device, "stream": stream, "start": start, "duration": duration,
            "number": correlation, "op": op, "phase": phase, "module": module, "registers": registers,
            "shared": shared_bytes, "bytes": nbytes, "collective": collective, "rank": rank,
        }  # fmt: skip
        for field, values in fields.items():
            _put(rows, field, values)
        if (np.asarray(process) == ABSENT).all():
            self._stages.ownerless = True
        else:
            rows["process"] = self._process_numbers(process)
        rows["occupancy"] = np.nan if occupancy is None else np.array(occupancy, np.float64)
        for field, sizes in (("grid", grid), ("block", block)):
            if sizes is not None:
                rows[field] = size_column(sizes)
        if rank is not None:
            self._learn_ranks(rows)
        rows["order"] = np.arange(self._stages.devices.rows, self._stages.devices.rows + len(rows))
        self._stages.devices.add(rows)

    def _learn_ranks(self, rows: Rows) -> None:
        """Which rank each host process is, where its device records say so with one voice."""
        told = rows[(rows["rank"] >= 0) & (rows["process"] >= 0)]
        for process, rank in {(int(p), int(r)) for p, r in zip(told["process"], told["rank"], strict=True)}:
            known = self._ranks.setdefault(process, rank)
            if known != rank:
                self._ranks[process] = ABSENT  # a merged file

    def _host(
        self, kind: int, *, name: Numbers, process: Numbers, thread: Numbers, start: Numbers, end: Numbers
    ) -> Rows:
        rows = np.full(len(name), ABSENT, HOST)
        rows["kind"], rows["inner"], rows["backward"] = kind, kind == RUNTIME, False
        rows["name"], rows["thread"], rows["start"], rows["end"] = name, thread, start, end
        rows["process"] = self._process_numbers(process)
        rows["lane"] = self._lane_numbers(rows["process"], rows["thread"])
        rows["order"] = np.arange(self._stages.host.rows, self._stages.host.rows + len(rows))
        return rows

    def _process(self, process: int) -> int:
        return self._processes.setdefault(process, len(self._processes))

    def _process_numbers(self, process: Numbers) -> NDArray[np.int32]:
        column = np.asarray(process, np.int64)
        if len(column) and column.min() == column.max():  # nearly always
            return np.full(len(column), self._process(int(column[0])), np.int32)
        values, places = np.unique(column, return_inverse=True)
        return np.array([self._process(value) for value in values.tolist()], np.int32)[places]

    def _lane_numbers(self, process: NDArray[Any], thread: NDArray[Any]) -> NDArray[np.int32]:
        """Threads of all processes, numbered."""
        lanes = np.empty(len(thread), np.int32)
        for number in np.unique(process).tolist():
            mine = process == number
            values, places = np.unique(thread[mine], return_inverse=True)
            known = [self._lanes.setdefault((number, value), len(self._lanes)) for value in values.tolist()]
            lanes[mine] = np.array(known, np.int32)[places]
        return lanes

    def finish(self) -> None:
        """Link everything and write the tables."""
        from wcbench.profilers.readers.linking import Linking

        if self._dropped_marks:
            self._sink.note(
                "timeline", f"{self._dropped_marks} ranges that tell neither steps nor phases are left out."
            )
        ranks = {process: rank for process, rank in self._ranks.items() if rank >= 0}
        Linking(self._sink, self._names, self._stages, self._steps, ranks=ranks, base=self.base).write()

    def close(self) -> None:
        """Let go of what waits on disk."""
        self._stages.close()


def _put(rows: Rows, field: str, values: Any) -> None:
    if values is not None:
        rows[field] = values
