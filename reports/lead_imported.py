"""The answer in a few sentences for a record that was read from files of other tools: what they hold, and what not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.sections._common import (
    HOST_MARKS,
    Summary,
    block,
    device_step,
    file_name,
    files,
    formats,
    main_pass,
    mapping,
    rows,
    spread,
    step_hint,
    task_name,
)
from wcbench.reports.sections.convergence import sentence
from wcbench.reports.sections.gates import failed
from wcbench.reports.sections.losses import counted, pieces
from wcbench.reports.sections.overview import device_name

_BESIDE = ("counters", "trainings", "operators", "allocations", "memory_curve")
"""Tables that are worth a word beside kernels."""

Sentence = Callable[[Summary], str]

NAMED = 3
"""Failed checks that are named; the section has them all."""

_NOUNS = {
    "counters": ("value of hardware counters", "values of hardware counters"),
    "trainings": ("training run", "training runs"),
    "epochs": ("evaluation", "evaluations"),
    "operators": ("operator call", "operator calls"),
    "ops": ("timed operator call", "timed operator calls"),
    "runtime": ("call of a device's runtime", "calls of a device's runtime"),
    "totals": ("sum by name", "sums by name"),
    "allocations": ("event of a memory timeline", "events of a memory timeline"),
    "memory_curve": ("point of a memory curve", "points of a memory curve"),
}


_FORMULAS = ("value by PyProf's formulas", "values by PyProf's formulas")

GROUPS = 2
"""Groups of training runs that are told of; the section has them all."""


def lead_imported(summary: Summary, hotspots: Sentence, size: Sentence) -> tuple[str, ...]:
    """What file, of which format, on which device; how busy; where the time goes; what to doubt and what is left out.

    ``hotspots`` and ``size`` are the sentences that other records have too; they are asked only where there is
    something to say.
    """
    return (
        _holds(summary),
        converged(summary),
        _steps(summary),
        doubts(summary),
        hotspots(summary) if block(summary, "hotspots") is not None else "",
        size(summary) if block(summary, "complexity") is not None else "",
        _left_out(summary),
    )


def doubts(summary: Summary) -> str:
    """The checks of plausibility that failed, in a sentence; empty where none did."""
    found = failed(summary)
    if not found:
        return ""
    first = [f"{row.get('name')}: {str(row.get('text') or '').rstrip('.')}" for row in found[:NAMED]]
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    count = fmt.plural(mapping(summary.get("gates")).get("checked") or len(found), "check")
    return f"{len(found)} of {count} of plausibility failed ({'; '.join(first)}{more})."


def _holds(summary: Summary) -> str:
    busy = block(summary, "activity")
    if busy is None:
        held = _and(list(_amounts(summary)))
        return f"{_files(summary)} {held or 'nothing that a report shows'}."
    count = f"{fmt.plural(busy.get('calls') or 0, 'execution')} of kernels and copies on {_devices(summary)}"
    share = busy.get("utilization")
    several = len(rows(busy.get("devices"))) > 1
    where = "the devices were busy for" if several else "the device was busy for"
    span = "" if share is None else f"; {where} {fmt.share(share)} of {'their spans' if several else 'its span'}"
    held = f"{_files(summary)} {count}: {fmt.show(busy.get('sum_ns'), 'time_ns')} of device time{span}."
    also = _and(list(_amounts(summary, _BESIDE)))
    told = f"{held} Beside that it has {also}." if also else held
    hidden = busy.get("hidden_share")
    if hidden is not None:
        told += f" {fmt.share(hidden)} of the communication is hidden behind computation."
    return told


def converged(summary: Summary) -> str:
    """What the runs of the first groups needed to reach their target."""
    groups = rows(mapping(summary.get("convergence")).get("groups"))
    said = " ".join(sentence(group) for group in groups[:GROUPS])
    more = len(groups) - GROUPS
    return f"{said} {fmt.plural(more, 'more group')} in section Convergence." if more > 0 else said


def _files(summary: Summary) -> str:
    """``trace.json (kineto) holds``."""
    told = files(summary)
    if not told:
        return f"{task_name(summary)} holds"
    form = formats(summary)
    more = f" and {fmt.plural(len(told) - 1, 'more file')}" if len(told) > 1 else ""
    name = f"{file_name(told[0])}{more}"
    return fmt.prose(f"{name}{f' ({form})' if form else ''} {'hold' if more else 'holds'}")


def _devices(summary: Summary) -> str:
    """``cuda:0 (NVIDIA A100)``, or how many devices of how many ranks there are."""
    devices = rows(mapping(summary.get("activity")).get("devices"))
    ranks = len({row.get("rank") for row in devices})
    label = devices[0].get("device") if devices else main_pass(summary).get("device")
    hardware = device_name(summary, label)
    kind = f" ({hardware})" if hardware else ""
    if len(devices) < 2:
        return fmt.prose(f"{label}{kind}")
    return f"{len(devices)} devices{kind}{f' of {ranks} ranks' if ranks > 1 else ''}"


def _amounts(summary: Summary, names: Sequence[str] = tuple(_NOUNS)) -> Iterator[str]:
    tables: Any = {**mapping(summary.get("tables"))}
    told = mapping(summary.get("convergence")).get("evaluations")
    if told is not None:
        tables["epochs"] = told  # the table has a row for each epoch too
    formulas = mapping(summary.get("counters")).get("hardware") is False
    for name in names:
        one, several = _FORMULAS if name == "counters" and formulas else _NOUNS[name]
        if tables.get(name):
            yield f"{fmt.count(tables[name])} {one if tables[name] == 1 else several}"


def _and(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1] if parts else ""


def _steps(summary: Summary) -> str:
    part = main_pass(summary)
    times = spread(part)
    if times.median is None:
        unmarked = mapping(summary.get("hotspots")).get("basis") == "trace"
        return "It marks no steps, so that the whole trace counts as one." if unmarked else ""
    details = step_hint(part)
    rate = part.get("samples_per_s")
    throughput = f": {fmt.rate(rate, times)} samples/s" if rate is not None else ""
    spots = mapping(summary.get("hotspots"))
    covered, of = spots.get("coverage"), spots.get("of") or "time"
    part_of = "" if covered is None or covered >= 1 else f"; the steps hold {fmt.share(covered)} of the {of}"
    device = device_step(part)
    longer = "" if device is None else f", but its kernels span {fmt.show(device, 'time_ms')} on the device"
    return (
        f"A step takes {fmt.spread_ms(times)} {HOST_MARKS}{f' ({details})' if details else ''}{throughput}{longer}"
        f"{part_of}."
    )


def _left_out(summary: Summary) -> str:
    missing, mended = pieces(summary, "missing"), pieces(summary, "mended")  # what was left out on purpose is no news
    words = [
        counted(missing, *(f"of the files {be} missing, damaged or not readable" for be in ("is", "are"))),
        counted(mended, "was damaged and mended", "were damaged and mended"),
    ]
    said = ", ".join(word for word in words if word)
    return f"Import: {said} (section Left out)." if said else ""
