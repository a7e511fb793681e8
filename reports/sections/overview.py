"""What was profiled, where, and the handful of numbers that people ask for first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table
from wcbench.reports.sections._common import (
    BLOCKS,
    Summary,
    block,
    mapping,
    notes_blocks,
    rows,
    run_pass,
    step_fact,
    timed_passes,
)


def section(summary: Summary) -> Section | None:
    """Always there: even an empty record says what it is of."""
    blocks: list[Block] = [Facts((*_what(summary), *_results(summary)))]
    where = tuple(_where(summary))
    if where:
        columns = (Column("section"), Column("pass"), Column("preset"), Column("batch", "count"), Column("device"))
        blocks.append(Table("overview-where", "Which pass each section comes from", columns, where))
    return Section("overview", "Overview", (*blocks, *notes_blocks(summary, "record")))


def _what(summary: Summary) -> Iterator[Fact]:
    yield Fact("Task", summary.get("task"))
    if summary.get("variant"):
        yield Fact("Variant", summary.get("variant"))
    if summary.get("suites"):
        yield Fact("Suites", summary.get("suites"))
    timing = run_pass(summary, "timing") or next(iter(mapping(summary.get("passes")).values()), {})
    yield Fact("Device", timing.get("device"), hint=device_name(summary, timing.get("device")))
    yield Fact("Preset", timing.get("preset"))
    yield Fact("Batch", timing.get("batch_size"), "count")
    yield Fact("Precision", timing.get("precision"))


def _results(summary: Summary) -> Iterator[Fact]:
    timing, complexity = run_pass(summary, "timing"), mapping(summary.get("complexity"))
    if timing:
        yield step_fact(timing)
        yield Fact("Throughput", timing.get("samples_per_s"), "number", "samples/s")
    if complexity:
        hint = f"preset {complexity.get('preset')}, batch {complexity.get('batch_size')}"
        yield Fact("Parameters", complexity.get("params_total"), "si", hint=f"preset {complexity.get('preset')}")
        whole = mapping(complexity.get("continued")) or complexity
        if whole is not complexity:
            hint += f"; continued from length {whole.get('counted_length')} to {whole.get('length')}"
        step = "an average step" if len(rows(complexity.get("kinds"))) > 1 else "a step"
        yield Fact(f"Matrix work {step}", whole.get("flops_matrix_step"), "si", "FLOP", f"{hint}; 1 MAC = 2 FLOP")
        yield Fact(f"All work {step}", whole.get("flops_all_step"), "si", "FLOP", hint)
    model = mapping(summary.get("memory"))
    if model:
        hint = f"preset {model.get('preset')}, batch {model.get('batch_size')}; tensors alive at once"
        yield Fact("Live bytes, peak", _peak(complexity, model), "bytes", hint=hint)


def _where(summary: Summary) -> Iterator[tuple[Any, ...]]:
    def row(name: str, source: str, part: Mapping[str, Any]) -> tuple[Any, ...]:
        return name, part.get("pass", source), part.get("preset"), part.get("batch_size"), part.get("device")

    timed = timed_passes(summary)
    if "timing" in timed:
        yield row("steps", "timing", timed["timing"])
    for name, source in BLOCKS.items():
        part = block(summary, name)
        if part is not None and name != "roofline":  # its device is another one: the roof's
            yield row(name.replace("_", " "), source, part)


def device_name(summary: Summary, device: Any) -> str:
    """The hardware's own name for a device such as ``cpu`` or ``cuda:0``; empty where it is not known."""
    machine = mapping(summary.get("machine"))
    if str(device).startswith("cuda"):
        index = str(device).partition(":")[2]
        gpus = rows(machine.get("gpus"))
        number = int(index) if index.isdigit() else 0
        gpu = gpus[number] if number < len(gpus) else {}
        return fmt.prose(mapping(gpu).get("name") or "") if isinstance(gpu, Mapping) else fmt.prose(gpu)
    cpu = machine.get("cpu")
    return fmt.prose(mapping(cpu).get("model") or "") if isinstance(cpu, Mapping) else fmt.prose(cpu or "")


def _peak(complexity: Mapping[str, Any], model: Mapping[str, Any]) -> Any:
    """The greatest of all kinds of steps; at the preset's own length where it was counted at a shorter one."""
    continued = mapping(complexity.get("continued")).get("peak_bytes")
    peaks = [continued, *mapping(model.get("peak_kinds")).values(), model.get("peak_bytes")]
    return continued or max((peak for peak in peaks if peak is not None), default=None)
