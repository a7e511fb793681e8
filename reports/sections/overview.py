"""What was profiled, where, and the handful of numbers that people ask for first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table
from wcbench.reports.sections._common import (
    BLOCKS,
    EXTRA,
    Summary,
    block,
    conditions,
    device_step,
    file_name,
    files,
    formats,
    imported,
    main_pass,
    mapping,
    notes_blocks,
    rows,
    run_pass,
    step_fact,
    throughput_fact,
    timed_passes,
)

FILES = 3
DEVICE_STEP = "median, from the first start to the last end of its kernels"


def section(summary: Summary) -> Section | None:
    """Always there: even an empty record says what it is of."""
    blocks: list[Block] = [Facts((*_what(summary), *_results(summary)))]
    where = tuple(_where(summary))
    if where:
        blocks.append(_where_table(where))
    return Section("overview", "Overview", (*blocks, *notes_blocks(summary, "record")))


def _where_table(where: tuple[tuple[Any, ...], ...]) -> Table:
    """Preset and batch have a column only where a pass tells them: imported files seldom do."""
    columns = (Column("section"), Column("pass"), Column("preset"), Column("batch", "count"), Column("device"))
    told = [i for i, column in enumerate(columns) if i not in (2, 3) or any(row[i] is not None for row in where)]
    cells = tuple(tuple(row[i] for i in told) for row in where)
    return Table("overview-where", "Which pass each section comes from", tuple(columns[i] for i in told), cells)


def _what(summary: Summary) -> Iterator[Fact]:
    yield Fact("Task", summary.get("task"))
    if imported(summary):
        yield from _imported(summary)
        return
    if summary.get("variant"):
        yield Fact("Variant", summary.get("variant"))
    if summary.get("suites"):
        yield Fact("Suites", summary.get("suites"))
    timing = main_pass(summary)
    yield Fact("Device", timing.get("device"), hint=device_name(summary, timing.get("device")))
    yield Fact("Preset", timing.get("preset"))
    yield Fact("Batch", timing.get("batch_size"), "count")
    yield Fact("Precision", timing.get("precision"))


def _imported(summary: Summary) -> Iterator[Fact]:
    """The files, what of the conditions they tell, and what they hold of devices."""
    told = files(summary)
    names = [file_name(file) for file in told]
    listed = ", ".join(names[:FILES]) + (f" and {len(names) - FILES} more" if len(names) > FILES else "")
    yield Fact("Read from", listed or None, hint=formats(summary))
    main = main_pass(summary)
    yield Fact("Device", main.get("device"), hint=device_name(summary, main.get("device")))
    conditions_told = (Fact(label, main.get(label.lower())) for label in ("Preset", "Precision"))
    yield from (fact for fact in conditions_told if fact.value is not None)
    if main.get("batch_size") is not None:
        yield Fact("Batch", main["batch_size"], "count")
    busy = mapping(summary.get("activity"))
    if busy:
        yield Fact("Executions on devices", busy.get("calls"), "count", hint="kernels, copies and fills")
        yield Fact("Device time", busy.get("sum_ns"), "time_ns", hint="their times added up")
        yield Fact("Busy", busy.get("utilization"), "share", hint="of the devices' span, overlaps counted once")


def _results(summary: Summary) -> Iterator[Fact]:
    timing, complexity = run_pass(summary, "timing"), mapping(summary.get("complexity"))
    timing = timing or (main_pass(summary) if imported(summary) else {})
    if timing.get("step_ms_median") is not None or run_pass(summary, "timing"):
        yield step_fact(timing, foreign=imported(summary))
        if imported(summary) and device_step(timing) is not None:
            yield Fact("Step on the device", device_step(timing), "time_ms", hint=DEVICE_STEP)
    if timing.get("samples_per_s") is not None or run_pass(summary, "timing"):
        yield throughput_fact(timing)
    if complexity:
        hint = _where_counted(complexity)
        yield Fact("Parameters", complexity.get("params_total"), "si", hint=_where_counted(complexity, batch=False))
        whole = mapping(complexity.get("continued")) or complexity
        if whole is not complexity:
            lengths = f"continued from length {whole.get('counted_length')} to {whole.get('length')}"
            hint = "; ".join(filter(None, (hint, lengths)))
        meaning = "; ".join(filter(None, (hint, "1 MAC = 2 FLOP")))
        step = "an average step" if len(rows(complexity.get("kinds"))) > 1 else "a step"
        yield Fact(f"Matrix work {step}", whole.get("flops_matrix_step"), "si", "FLOP", meaning)
        yield Fact(f"All work {step}", whole.get("flops_all_step"), "si", "FLOP", hint)
    model = mapping(summary.get("memory"))
    if model:
        hint = "; ".join(word for word in (_where_counted(model), "tensors alive at once") if word)
        yield Fact("Live bytes, peak", _peak(complexity, model), "bytes", hint=hint)


def _where_counted(part: Mapping[str, Any], *, batch: bool = True) -> str:
    """``preset paper, batch 256``; empty where an imported file tells neither."""
    told = {"preset": part.get("preset"), "batch_size": part.get("batch_size") if batch else None}
    return "" if set(told.values()) == {None} else conditions(told)


def _where(summary: Summary) -> Iterator[tuple[Any, ...]]:
    def row(name: str, source: str, part: Mapping[str, Any]) -> tuple[Any, ...]:
        return name, part.get("pass", source), part.get("preset"), part.get("batch_size"), part.get("device")

    timed = timed_passes(summary)
    if "timing" in timed:
        yield row("steps", "timing", timed["timing"])
    for name, source in {**BLOCKS, **EXTRA}.items():
        part = block(summary, name)
        if part is not None and name != "roofline":  # its device is another one: the roof's
            yield row(name.replace("_", " "), source, part)


def device_name(summary: Summary, device: Any) -> str:
    """The hardware's own name for a device such as ``cpu`` or ``cuda:0``; empty where it is not known.

    Where it can be one of several (a device without a number, or files of several machines), all names, each once.
    """
    machine = mapping(summary.get("machine"))
    gpus = rows(machine.get("gpus"))
    if device and str(device) != "cpu":
        names = [fmt.prose(mapping(g).get("name") or "") if isinstance(g, Mapping) else fmt.prose(g) for g in gpus]
        index = str(device).partition(":")[2]
        if index.isdigit() and int(index) < len(names) and len(files(summary)) < 2:
            return names[int(index)]
        return ", ".join(dict.fromkeys(name for name in names if name))
    cpu = machine.get("cpu")
    return fmt.prose(mapping(cpu).get("model") or "") if isinstance(cpu, Mapping) else fmt.prose(cpu or "")


def _peak(complexity: Mapping[str, Any], model: Mapping[str, Any]) -> Any:
    """The greatest of all kinds of steps; at the preset's own length where it was counted at a shorter one."""
    continued = mapping(complexity.get("continued")).get("peak_bytes")
    peaks = [continued, *mapping(model.get("peak_kinds")).values(), model.get("peak_bytes")]
    return continued or max((peak for peak in peaks if peak is not None), default=None)
