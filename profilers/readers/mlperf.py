"""MLPerf training logs of every version: the runs in them, and what their evaluations say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from wcbench.errors import ReadError
from wcbench.profilers.readers.base import Head, Reader, Sink, Source
from wcbench.profilers.readers.mlperf_lines import EVALUATIONS, LONG, MARK, Event, events, number_of, whole
from wcbench.profilers.readers.mlperf_rows import IDENTITY, Writer
from wcbench.profilers.readers.mlperf_runs import MANY_ROWS, Row, Run

_PROGRESS = ("epoch_start", "block_start", "epoch_stop", "block_stop")
_EVENTS = {"init_start", "init_stop", "cache_clear", "run_final", "eval_start", "eval_stop", "epoch_num", "epoch_count",
           "first_epoch_num", "save_model", "weights_initialization", "eval_result", "tracked_stats"}  # fmt: skip
_MANY_FACTS = 200
_FIRST = ("init_start", "cache_clear")
"""What a run logs before anything else: no log that was seen has them between run_start and run_stop."""
_CLOCKS = 1000.0
"""Milliseconds by which the clocks of a job's processes differ."""


class MlperfLog(Reader):
    """Training logs of MLPerf; what its numbers mean differs by benchmark: `mlperf_runs.RULES`."""

    name = "mlperf"
    title = "MLPerf training log (:::MLLOG of v0.7 and newer, :::MLL of v0.6, :::MLPv0.5.0)"

    def recognizes(self, head: Head) -> bool:
        return any(_is_line(mark) for mark in MARK.finditer(head.text))

    def read(self, source: Source, sink: Sink) -> None:
        log = _Log(sink, Writer(source.label, sink))
        for event in events(source, sink):
            log.take(event)
        log.close()
        if not log.writer.runs:
            raise ReadError(
                f"{source.label} holds lines of MLPerf, but no run: none says run_start, run_stop or eval_accuracy.",
                "Take the log of the process that writes them, usually rank 0.",
            )
        log.writer.describe(echoes=log.echoes)


def _is_line(mark: re.Match[str]) -> bool:
    """Whether the mark begins a line of a log, and is not quoted in a file of another kind."""
    return mark["key5"] is not None or mark.string.startswith(('{"', '{ "'), mark.end())


@dataclass
class _Log:
    """The state of one file; ``pending`` is what it says of a run that has not begun.

    A run may end without a word (a job that was killed) and the next begin: what an open run says again is held in
    ``doubtful`` until progress shows that it is of this run, or a run_start that it is of the next. ``other`` says that
    a sign of the next run has been seen, ``renewed`` that it came too late for another process of the same run.
    """

    sink: Sink
    writer: Writer
    run: Run | None = None
    pending: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    doubtful: dict[str, Any] = field(default_factory=dict)
    next_speaks: bool = False
    other: bool = False
    renewed: bool = False
    echoes: int = 0

    def take(self, event: Event) -> None:
        if event.key == "run_start":
            self._start(event)
        elif event.key == "run_stop":
            self._settle()
            self._stop(event)
        elif event.key in EVALUATIONS:
            self._settle()
            self._evaluate(event)
        elif event.key in _PROGRESS:
            self._settle()
            self._progress(event)
        else:
            self._fact(event)

    def _start(self, event: Event) -> None:
        if self.run is not None and not self.renewed and self.run.same(event.ms):
            self.echoes += 1
            return
        if event.ms is None:
            self.sink.lose("a time", "it is no time in milliseconds", offset=event.offset)
        self._begin(event.ms)

    def _begin(self, start: float | None) -> Run:
        self.pending.update(self.doubtful)
        self.doubtful, self.other, self.renewed = {}, False, False
        self.close()
        self.run = Run(start, self.pending, dict(self.identity))
        self.pending, self.next_speaks = {}, False
        return self.run

    def _current(self, event: Event) -> Run:
        """The run that an event is of; one without a beginning where the log starts later."""
        if self.run is not None:
            return self.run
        self.sink.lose("the beginning of a run", "the log has no run_start before what it says", offset=event.offset)
        return self._begin(None)

    def _stop(self, event: Event) -> None:
        run = self._current(event)
        if run.stopped:
            self.echoes += 1
            return
        run.stopped, run.stop, status = True, event.ms, event.meta.get("status")
        if isinstance(status, str) and len(status) < LONG:
            run.status = status.lower()
        else:
            self.sink.lose("a status", "run_stop does not give one", offset=event.offset)

    def _evaluate(self, event: Event) -> None:
        run = self._current(event)
        samples = whole(event.meta.get("samples_count"))
        logged = number_of(event.meta.get("epoch_num")) if samples is None else float(samples)
        given = dict(list(event.value.items())[:20]) if isinstance(event.value, dict) else {None: event.value}
        qualities = {name and name[:LONG]: number_of(value) for name, value in given.items()}
        if run.echoed((event.key, logged, *qualities.items()), event.ms):
            self.echoes += 1
        elif run.stopped:
            self.sink.lose("an evaluation", "it stands after run_stop", offset=event.offset)
        elif len(run.rows) >= MANY_ROWS or not qualities:
            self.sink.lose("an evaluation", "it is empty, or the run has too many", offset=event.offset)
        else:
            if None in qualities.values():
                self.sink.lose("a quality", "it is no finite number; left empty", offset=event.offset, repaired=True)
            run.evaluated(Row(event.ms, logged, samples, qualities, run.loss))

    def _progress(self, event: Event) -> None:
        run = self.run
        if run is None or run.stopped:
            return
        block = event.key.startswith("block")
        first = number_of(event.meta.get("first_epoch_num" if block else "epoch_num"))
        count = number_of(event.meta.get("epoch_count")) if block else 1.0
        if event.key.endswith("start"):
            run.begins(first, count)
        elif first is not None and not run.echoed((event.key, first), event.ms):
            run.ends(first, count, event.ms, block=block)

    def _fact(self, event: Event) -> None:
        """A setting: of the run that is on, or of the next one where that one has begun to speak after run_stop."""
        run, key = self.run, event.key
        ended = run is not None and run.stopped
        if run is not None and not ended:
            self._look_for_next(run, event)
        if key in _EVENTS or key.startswith("duplicate_"):
            self.next_speaks = self.next_speaks or (ended and key in ("init_start", "cache_clear"))
            return
        if run is not None and not ended and key == "train_loss":
            run.loss = number_of(event.value)
            return
        self.next_speaks = self.next_speaks or (ended and run is not None and key in run.facts)
        facts = self.pending if run is None or self.next_speaks else run.facts
        if not ended and run is not None and (self.other or self.doubtful or key in run.facts):
            facts = self.doubtful
        if len(facts) < _MANY_FACTS or key in facts:
            facts[key] = event.value
        if key == "train_samples" and run is not None and not ended and not self.other and run.evaluations:
            run.late_samples = whole(event.value)

    def _look_for_next(self, run: Run, event: Event) -> None:
        """Whether an event that is logged while a run is on is one with which runs begin."""
        late = run.start is not None and event.ms is not None and event.ms > run.start + _CLOCKS
        submitted = (
            event.key in IDENTITY and event.key in run.facts and event.ms is not None
        )  # v0.5 has it in each line
        if event.key not in _FIRST and not submitted:
            return
        if not self.other:
            self._settle()
        self.other, self.renewed = True, self.renewed or late

    def _settle(self) -> None:
        """What is held is of the run that is on after all; where another may have begun, its first words stand."""
        if self.run is not None and self.doubtful:
            self.run.facts.update({**self.doubtful, **(self.run.facts if self.other else {})})
        self.doubtful, self.other, self.renewed = {}, False, False

    def close(self) -> None:
        """Write the run that has ended; the next one keeps who submitted it and on what."""
        if self.run is None:
            return
        run, self.run = self.run, None
        for key, value in self.doubtful.items():
            run.facts.setdefault(key, value)
        facts = {**run.inherited, **run.facts}
        self.identity = {key: facts[key] for key in IDENTITY if key in facts}
        self.writer.add(run, facts)
