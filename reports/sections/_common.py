"""What the sections share: reading the summary without stumbling over what is absent, and saying where a block ran."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Fact, NoteLine, Notes

Summary = Mapping[str, Any]

EXTRA: Mapping[str, str] = {
    "activity": "timeline",
    "ops": "timeline",
    "totals": "timeline",
    "counters": "counters",
    "convergence": "convergence",
    "allocations": "memory",
}
"""Blocks that are missing in most records by their nature, and so worth a word in imported ones only; else as `BLOCKS`.
"""

NOTHING: Mapping[str, str] = {
    "activity": "no work of a device was recorded",
    "ops": "no host operators were recorded",
    "totals": "it has neither sums by name nor calls of a device's runtime",
    "counters": "it has no hardware counters",
    "convergence": "it has no training runs to a target",
    "allocations": "it has no memory timeline",
    "gates": "its summary holds no checks",
    "losses": "it was not imported",
}
"""Why a record has no such section."""

BLOCKS: Mapping[str, str] = {
    "hotspots": "timeline",
    "categories": "timeline",
    "complexity": "operators",
    "scaling": "operators",
    "operators": "operators",
    "modules": "operators",
    "memory": "operators",
    "measured_memory": "memory",
    "roofline": "operators",
    "primitives": "primitives",
    "power": "timing",
}
"""The summary's blocks in the order of the sections, each with the pass that it comes from.

A section is named like its block; section `memory` holds `memory`, the model's, and `measured_memory`.
"""


def mapping(value: Any) -> Mapping[str, Any]:
    """The mapping itself, or an empty one for what is absent."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> Sequence[Mapping[str, Any]]:
    """The list of mappings, or an empty one for what is absent."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def block(summary: Summary, name: str) -> Mapping[str, Any] | None:
    """A block of the summary; None where it was not measured."""
    value = summary.get(name)
    return value if isinstance(value, Mapping) else None


def imported(summary: Summary) -> bool:
    """Whether the record was read from files of other tools."""
    return isinstance(summary.get("source"), Mapping)


def files(summary: Summary) -> Sequence[Mapping[str, Any]]:
    """What the record says of the files that it was read from."""
    return [file for file in rows(mapping(summary.get("source")).get("files")) if isinstance(file, Mapping)]


def file_name(file: Mapping[str, Any]) -> str:
    """The file's own name, without the folders before it."""
    label = next((file[key] for key in ("label", "name", "path", "file") if file.get(key)), "unnamed file")
    return fmt.prose(str(label).replace("\\", "/").rpartition("/")[2] or label)


def formats(summary: Summary) -> str:
    """The formats of the files, each once."""
    return fmt.prose(", ".join(dict.fromkeys(str(file["format"]) for file in files(summary) if file.get("format"))))


def main_pass(summary: Summary) -> Mapping[str, Any]:
    """The pass whose times count: the timing pass; of an imported record its timeline, else its first."""
    first = next(iter(mapping(summary.get("passes")).values()), None)
    own = run_pass(summary, "timeline") if imported(summary) else {}
    return run_pass(summary, "timing") or own or mapping(first)


def run_pass(summary: Summary, name: str) -> Mapping[str, Any]:
    """What the summary says of a pass; empty where it was not run."""
    return mapping(mapping(summary.get("passes")).get(name))


def task_name(summary: Summary) -> str:
    """``task`` or ``task@variant``."""
    task, variant = summary.get("task") or "unnamed task", summary.get("variant")
    return fmt.prose(f"{task}@{variant}" if variant else task)


def conditions(part: Mapping[str, Any]) -> str:
    """``preset small, batch 64, on cpu``: as much of it as is known."""
    preset, batch, device = part.get("preset"), part.get("batch_size"), part.get("device")
    words = [
        f"preset {preset}" if preset else "",
        f"batch {fmt.count(batch)}" if batch is not None else "",
        f"on {device}" if device else "",
    ]
    return fmt.prose(", ".join(word for word in words if word)) or "conditions unknown"


def measured(part: Mapping[str, Any]) -> str:
    """``Pass timeline: preset small, batch 64, on cpu.``"""
    name = part.get("pass")
    return f"Pass {fmt.prose(name)}: {conditions(part)}." if name else f"Measured at {conditions(part)}."


def show_command(summary: Summary, view: str) -> str:
    """The command that prints a block in full."""
    return fmt.command(["wcbench", "show", str(summary.get("run") or "RUN"), view, "--json"])


def note_lines(summary: Summary) -> Iterator[NoteLine]:
    for note in rows(summary.get("notes")):
        if isinstance(note, Mapping):
            yield NoteLine(fmt.prose(note.get("about") or "record"), fmt.prose(note.get("text") or ""))


def notes_about(summary: Summary, *names: str) -> tuple[NoteLine, ...]:
    """Notes on one of the names, or on a part of it (``power.energy`` is about ``power``)."""
    return tuple(line for line in note_lines(summary) if re.split(r"[.:/ ]", line.about, maxsplit=1)[0] in names)


def notes_blocks(summary: Summary, *names: str) -> tuple[Notes, ...]:
    """The notes on the names as a block, where there are any: an "n/a" stands beside its reason."""
    lines = notes_about(summary, *names)
    return (Notes(lines),) if lines else ()


def missing(summary: Summary) -> tuple[NoteLine, ...]:
    """The parts that this report does not have, each with what the record says about the reason."""
    # of a record of one's own the blocks of foreign files are missing by their nature
    wanted = {**BLOCKS, **EXTRA} if imported(summary) else BLOCKS
    absent = [NoteLine(name, _why(summary, name, wanted[name])) for name in wanted if block(summary, name) is None]
    if not timed_passes(summary):
        absent.insert(0, NoteLine("steps", _why(summary, "steps", "timing")))
    return tuple(absent)


def _why(summary: Summary, name: str, source: str) -> str:
    ran = source in mapping(summary.get("passes"))
    # Pass `memory` measures; its notes are no reason why the model's block `memory` is missing.
    own = () if name in BLOCKS.values() and name != source else notes_about(summary, name)
    # Notes on a pass that ended are about its numbers, not about what it did not give.
    own = own or (() if ran else notes_about(summary, source))
    if own:
        return "Not in this report. " + " ".join(line.text for line in own)
    if imported(summary):
        return "Not in this report: the imported files hold nothing for it."
    if ran:
        return f"Not in this report: pass {source} ran but left nothing for it, and no note says why."
    return f"Not in this report: pass {source} was not run."


def timed_passes(summary: Summary) -> dict[str, Mapping[str, Any]]:
    """The passes in which steps were timed, by name."""
    passes = mapping(summary.get("passes"))
    return {name: info for name, info in passes.items() if mapping(info).get("step_ms_median") is not None}


QUARTILED = 4
"""Steps from which on quartiles are shown."""


def spread(part: Mapping[str, Any]) -> fmt.Spread:
    """A pass's step time with its quartiles, where there are steps enough for them to tell anything."""
    if (part.get("steps") or QUARTILED) * (part.get("ranks") or 1) < QUARTILED:
        return fmt.Spread(part.get("step_ms_median"), None, None)
    return fmt.Spread(part.get("step_ms_median"), part.get("step_ms_q1"), part.get("step_ms_q3"))


def step_hint(part: Mapping[str, Any]) -> str:
    """``quartiles 9.6 to 10.1 ms, 10 steps``."""
    quartiles, steps, ranks = fmt.quartiles_ms(spread(part)), part.get("steps"), part.get("ranks") or 1
    each = f" on each of {ranks} ranks" if ranks > 1 else ""
    words = [f"quartiles {quartiles}" if quartiles else "", f"{fmt.plural(steps, 'step')}{each}" if steps else ""]
    return ", ".join(word for word in words if word)


def step_fact(part: Mapping[str, Any], *, foreign: bool = False) -> Fact:
    """The median step time as a fact; of a ``foreign`` file it is what the host's marks say."""
    words = [HOST_MARKS if foreign else "", step_hint(part)]
    return Fact("Step time, median", spread(part), "spread_ms", hint=", ".join(word for word in words if word))


def throughput_fact(part: Mapping[str, Any]) -> Fact:
    """Samples a second, with no more digits than the step time beside it."""
    rate = part.get("samples_per_s")
    return Fact("Throughput", None if rate is None else f"{fmt.rate(rate, spread(part))} samples/s")


HOST_MARKS = "by the host's marks"
LONGER = 1.02
"""Device over host time of a step from which the difference is worth a word."""


def device_step(part: Mapping[str, Any]) -> float | None:
    """Milliseconds that a step's kernels span on the device, where that is longer than the host's marks say."""
    host, device = part.get("step_ms_median"), part.get("device_step_ms_median")
    longer = host is not None and device is not None and device > LONGER * host
    return float(device) if longer and device is not None else None


def descending(shares: Any) -> list[tuple[str, float]]:
    """Shares from the largest; equal ones in the order of their names, so that the report is reproducible."""
    known = ((str(name), float(value)) for name, value in mapping(shares).items() if not fmt.absent(value))
    return sorted(known, key=lambda item: (-item[1], item[0]))
