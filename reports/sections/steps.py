"""How long a step takes, and what each instrument adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import StepPoint, StepTimes
from wcbench.reports.model import Column, Fact, Facts, Figure, Section, Table
from wcbench.reports.sections._common import (
    Summary,
    imported,
    main_pass,
    mapping,
    notes_blocks,
    rows,
    run_pass,
    show_command,
    spread,
    step_fact,
    throughput_fact,
    timed_passes,
)

WARMUP = "warmup"
UNTOLD = ("on the device", "quartile 1", "quartile 3")
"""Columns that are left out of any record where no pass has a value."""
DEVICE_STEP = "from the first start to the last end of a step's kernels"


def section(summary: Summary) -> Section | None:
    """Times of the timing pass (of an imported record its timeline), every step of it where the summary lists them, and
    all timed passes in a table."""
    timed = timed_passes(summary)
    if not timed:
        return None
    timing = main_pass(summary) if imported(summary) else run_pass(summary, "timing")
    facts = (Facts(_facts(summary, timing)),) if timing else ()
    return Section(
        "steps",
        "Steps",
        (*facts, *_figures(summary, timing), _table(summary, timed), *notes_blocks(summary, "steps", "timing")),
    )


def _facts(summary: Summary, timing: Mapping[str, Any]) -> tuple[Fact, ...]:
    rest = (
        throughput_fact(timing),
        Fact("Loss, first measured step", timing.get("loss_first"), "number"),
        Fact("Loss, last measured step", timing.get("loss_last"), "number"),
    )
    # a file that tells no samples and no losses need not be told so three times
    own: tuple[Fact, ...] = (step_fact(timing, foreign=imported(summary)),)
    if timing.get("device_step_ms_median") is not None:
        own += (Fact("On the device, median", timing["device_step_ms_median"], "time_ms", hint=DEVICE_STEP),)
    return (*own, *(fact for fact in rest if not imported(summary) or fact.value is not None))


def _figures(summary: Summary, timing: Mapping[str, Any]) -> tuple[Figure, ...]:
    part = mapping(summary.get("steps"))
    listed, name = rows(part.get("rows")), fmt.prose(part.get("pass") or "timing")
    points = tuple(
        StepPoint(int(row["index"]), row["duration_ns"] * 1e-6, str(row.get("role") or "measured"))
        for row in listed
        if row.get("duration_ns") is not None and row.get("index") is not None
    )
    if not points:
        return ()
    times = spread(timing)
    warm = sum(point.role == WARMUP for point in points)
    dropped = f" {fmt.plural(warm, 'warm-up step')} dropped." if warm else ""
    quartiles = fmt.quartiles_ms(times)
    said = f"Median {fmt.spread_ms(times)}{f', quartiles {quartiles}' if quartiles else ''}.{dropped}"
    return (
        Figure(
            "steps-figure",
            f"Every step of pass {name}{_ranks(listed)}. {said}",
            f"Dots, time of each of {fmt.plural(len(points), 'step')} in order. {said}",
            StepTimes(points, times.median, times.q1, times.q3),
        ),
    )


def _ranks(listed: Sequence[Mapping[str, Any]]) -> str:
    """Of several processes each has its own dot at a step."""
    count = len({row.get("rank") for row in listed})
    return f" on each of {count} ranks" if count > 1 else ""


def _table(summary: Summary, timed: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = (
        Column("pass"),
        Column("steps", "count"),
        Column("median", "time_ms", group="time"),
        Column("quartile 1", "time_ms", group="time"),
        Column("quartile 3", "time_ms", group="time"),
        Column("on the device", "time_ms", group="time"),
        Column("samples/s", "number"),
        Column("overhead", "number", "×"),
    )
    cells = tuple((name, *_row(part)) for name, part in timed.items())
    caption = "Step times by pass; overhead = step with the instrument / step without it, both in that pass"
    if imported(summary):
        caption = "Step times by pass, by the host's marks; on the device: from first start to last end of the kernels"
    # what no pass tells has no column, but in a record of one's own a missing rate or overhead is worth its n/a
    told = [
        i
        for i, column in enumerate(columns)
        if any(row[i] is not None for row in cells) or not (imported(summary) or column.title in UNTOLD)
    ]
    cells = tuple(tuple(row[i] for i in told) for row in cells)
    more = show_command(summary, "steps")
    return Table("steps-table", caption, tuple(columns[i] for i in told), cells, more=more)


def _row(part: Mapping[str, Any]) -> tuple[Any, ...]:
    """Quartiles only where there are steps enough for them."""
    times = spread(part)
    rest = (part.get(field) for field in ("device_step_ms_median", "samples_per_s", "overhead"))
    return part.get("steps"), times.median, times.q1, times.q3, *rest
