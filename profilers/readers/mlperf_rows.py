"""Rows of tables `trainings` and `epochs` from the runs of an MLPerf log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wcbench.profilers.readers.base import PassFacts, Sink
from wcbench.profilers.readers.mlperf_lines import number_of, settings_of, text, whole
from wcbench.profilers.readers.mlperf_runs import RULES, Row, Run, meaning

PASS = "convergence"
IDENTITY = ("submission_benchmark", "submission_platform", "submission_org", "submission_division")
"""What a log says of all of its runs."""

_BENCHMARK, _PLATFORM, _SUBMITTER, _ = IDENTITY
_TARGETS = ("eval_target", "target_accuracy", "quality_target", "target_quality")
_LATE = 1.0
"""Seconds by which clocks of one log disagree; what is logged later than this was done after the run."""

_RENUMBERED = (
    "Epochs are those trained: the log numbers its evaluations otherwise (from 0 by the last epoch, or from the first "
    "epoch's number)."
)
_BLOCKS = "The blocks of the log add up to another number of epochs than its last evaluation names."
_SEVERAL = "An evaluation gives several metrics, each with a target of its own: their values stand in table epochs."
_AFTERWARDS = (
    "Evaluations were logged after the end of their run: their times are not those of the training and are left out."
)
_ECHOES = "Several processes logged the same events; each is counted once."
_TOO_LARGE = "its numbers are too large for epochs, and what they count is not known"


@dataclass
class Writer:
    """Takes the runs of one file; ``settings`` are those on which they agree."""

    label: str
    sink: Sink
    runs: int = 0
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)

    def add(self, run: Run, facts: Mapping[str, Any]) -> None:
        if not run.stopped:
            self.sink.lose("the end of a run", "the log ends, or the next run begins, before run_stop")
        seconds = self._run_seconds(run)
        self._add_training(run, facts, seconds)
        self._add_epochs(run, text(facts.get(_BENCHMARK)))
        own = settings_of(facts)
        if self.runs:
            own = {key: value for key, value in self.settings.items() if own.get(key) == value}
        self.settings, self.seconds, self.runs = own, self.seconds + (seconds or 0.0), self.runs + 1

    def _run_seconds(self, run: Run) -> float | None:
        seconds = run.seconds(run.stop)
        if seconds is not None and seconds < 0:
            self.sink.lose("a time to train", "run_stop lies before run_start")
            return None
        return seconds

    def _add_training(self, run: Run, facts: Mapping[str, Any], seconds: float | None) -> None:
        benchmark = text(facts.get(_BENCHMARK))
        last = run.evaluations[-1] if run.evaluations else None
        epochs, samples = self._reached(run, benchmark, last)
        names = [name for name in last.qualities if name is not None] if last else []
        several = last is not None and len(last.qualities) > 1
        if several:
            self._note("trainings.quality", _SEVERAL)
        columns = {
            "run": self.runs,
            "file": self.label,
            "benchmark": benchmark,
            "system": text(facts.get(_PLATFORM)),
            "submitter": text(facts.get(_SUBMITTER)),
            "seed": self._whole(facts, "seed"),
            "batch_size": self._whole(facts, "global_batch_size"),
            "target": next((number_of(facts[key]) for key in _TARGETS if key in facts), None),
            "metric": ", ".join(names) or None,
            "status": run.status,
            "seconds": seconds,
            "epochs": epochs,
            "samples": samples,
            "logged": last.logged if last else None,
            "quality": None if last is None or several else next(iter(last.qualities.values())),
        }
        self.sink.add("trainings", PASS, {name: [value] for name, value in columns.items()})

    def _reached(self, run: Run, benchmark: str | None, last: Row | None) -> tuple[float | None, int | None]:
        """Epochs and samples at the last evaluation, with a note where they are not the number that the log gives."""
        if last is None:
            return None, None
        unit, value = _meaning(run, benchmark, last)
        if unit == "under way":
            self._note_rule(benchmark)
            return None, run.late_samples
        if unit == "unknown" and last.logged is not None:
            self._note_rule(benchmark)
        if unit == "samples":
            return None, whole(value)
        if value is not None and last.logged is not None and value != last.logged:
            self._note("trainings.epochs", _RENUMBERED)
        self._check_blocks(run, value)
        return value, None

    def _note_rule(self, benchmark: str | None) -> None:
        rule = RULES.get(benchmark or "")
        why = rule.why if rule else _TOO_LARGE
        self._note("trainings.epochs", f"What the log's epoch_num counts is no number of epochs: {why}.")

    def _check_blocks(self, run: Run, epochs: float | None) -> None:
        """Blocks that add up to another number of epochs than the evaluations say."""
        total = run.block_epochs
        if epochs is not None and total and run.origin == 0 and abs(total - epochs) > 0.5:
            self._note("trainings.epochs", _BLOCKS)

    def _whole(self, facts: Mapping[str, Any], key: str) -> int | None:
        value = facts.get(key)
        found = whole(value)
        if found is None and value is not None:
            self.sink.lose(f"the {key}", "it is no whole number of 64 bits")
        return found

    def _add_epochs(self, run: Run, benchmark: str | None) -> None:
        columns: dict[str, list[Any]] = {
            name: [] for name in ("run", "epoch", "samples", "seconds", "quality", "metric", "loss")
        }
        whole_epochs = RULES.get(benchmark or "") is None
        for row in run.rows:
            if not row.qualities and (not whole_epochs or self._after(run, row)):
                continue
            unit, value = _meaning(run, benchmark, row)
            seconds = self._row_seconds(run, row)
            for metric, quality in (row.qualities or {None: None}).items():
                cells = (self.runs, value if unit == "epochs" else None, whole(value) if unit == "samples" else None,
                         seconds, quality, metric, row.loss)  # fmt: skip
                for column, cell in zip(columns.values(), cells, strict=True):
                    column.append(cell)
        self.sink.add("epochs", PASS, columns)

    def _after(self, run: Run, row: Row) -> bool:
        """Whether an epoch ended only after the run had reached its target."""
        if row.ms is None or run.stop is None or row.ms <= run.stop:
            return False
        self.sink.lose("the end of an epoch", "it lies after the end of its run")
        return True

    def _row_seconds(self, run: Run, row: Row) -> float | None:
        """Time of a row in its run; none where the clock went back, or where it was logged when the run had ended."""
        seconds, total = run.seconds(row.ms), run.seconds(run.stop)
        if seconds is None:
            return None
        if seconds < 0:
            self.sink.lose("a time", "it lies before the beginning of its run; left empty", repaired=True)
            return None
        if total is not None and 0 <= total < seconds - _LATE:
            self._note("epochs.seconds", _AFTERWARDS)
            return None
        return seconds

    def _note(self, about: str, text: str) -> None:
        """A note, once a file."""
        if text not in self.noted:
            self.noted.add(text)
            self.sink.note(about, text)

    def describe(self, *, echoes: int) -> None:
        """The pass; ``echoes`` events were logged again by another process."""
        if echoes:
            self._note("trainings", _ECHOES)
        settings = self.settings
        self.sink.describe(
            PASS,
            PassFacts(
                device=str(settings.get(_PLATFORM, "unknown")),
                seconds=self.seconds,
                batch_size=whole(settings.get("global_batch_size")),
                seed=whole(settings.get("seed")),
                settings=settings,
            ),
        )


def _meaning(run: Run, benchmark: str | None, row: Row) -> tuple[str, float | None]:
    if row.samples is not None:
        return "samples", float(row.samples)
    if not row.qualities:
        return "epochs", row.logged
    return meaning(benchmark, row.logged, run.origin, run.shift or 0)
