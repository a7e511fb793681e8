"""Memory by the model (what is alive, and what caches would leave of the traffic), and memory as measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import CapacityCurves, Curve, LiveCurve
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, Section, SideBySide, Table, Text
from wcbench.reports.sections._common import (
    Summary,
    block,
    descending,
    mapping,
    measured,
    notes_blocks,
    rows,
    show_command,
)
from wcbench.reports.sections.complexity import counted_on

MODEL = "inter-operator reuse model"
LOGICAL, ALLOCATOR = "logical (each tensor's bytes new)", "allocator (addresses used again)"
TILED = "logical, with the tiling bound"
WORKING_SETS = (
    ("wss_50", "Working set 50 %", "smallest cache with 50 % of the attainable hits"),
    ("wss_90", "Working set 90 %", "smallest cache with 90 % of the attainable hits"),
    ("wss_99", "Working set 99 %", "smallest cache with 99 % of the attainable hits"),
)
FIELDS = ("device", "moment", "current_bytes", "peak_bytes", "reserved_bytes")


def section(summary: Summary) -> Section | None:
    """The model's half and the measured half, each where its block is there."""
    model, observed = block(summary, "memory"), block(summary, "measured_memory")
    if model is None and observed is None:
        return None
    blocks = [*(_model(summary, model) if model is not None else ())]
    blocks += [*(_measured(summary, observed) if observed is not None else ())]
    return Section("memory", "Memory", (*blocks, *notes_blocks(summary, "memory", "reuse", "measured_memory")))


def pairs(value: Any) -> tuple[tuple[float, float], ...]:
    """The pairs of numbers of a list such as ``traffic``; those with something absent are left out."""
    found = (tuple(pair) for pair in value or () if not any(fmt.absent(item) for item in pair))
    return tuple((float(x), float(y)) for x, y in found)


# --- the model ----------------------------------------------------------------------------------------------------


def _model(summary: Summary, part: Mapping[str, Any]) -> Iterator[Block]:
    yield Text(_intro(part))
    peaks = part.get("peak_kinds") or {}
    if len(peaks) > 1:
        yield Text(
            f"Steps differ in kind; what follows is of the kind {part.get('kind')}, which moves most bytes. "
            f"Peaks of all kinds: {', '.join(f'{kind} {fmt.binary_bytes(peak)}' for kind, peak in peaks.items())}."
        )
    yield Facts(tuple(_facts(part)))
    live = _live(part)
    if live:
        yield live
    tables = tuple(_tables(part))
    if tables:
        yield SideBySide(tables)
    yield from _against_capacity(part)
    if pairs(part.get("traffic")):
        yield _capacities(summary, part)
    if part.get("fused"):
        yield _fused(summary, part)


def _intro(part: Mapping[str, Any]) -> str:
    return (
        f"By the {MODEL}: what an LRU cache of each size would leave of the traffic between operators, in program "
        "order and without any hardware. What happens inside an operator is not in it: below the size of an "
        f"operator's operands it is too low. {counted_on(part)}"
    )


def _facts(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Live bytes, peak", part.get("peak_bytes"), "bytes", hint="tensors alive at once")
    yield Fact("Operator bytes", part.get("operator_bytes"), "bytes", hint="what moves without any cache")
    yield Fact("Compulsory bytes", part.get("compulsory_bytes"), "bytes", hint="live at the step's start or end")
    yield Fact("Cold bytes", part.get("cold_bytes"), "bytes", hint="touched for the first time")
    yield Fact("Distinct bytes", part.get("unique_bytes"), "bytes")
    yield Fact("Touches a byte", part.get("reuse_count_mean"), "number", hint="mean")
    for field, label, hint in WORKING_SETS:
        yield Fact(label, part.get(field), "bytes", hint=hint)
    yield Fact("Largest operator", part.get("largest_operator_bytes"), "bytes", hint="below it the model is too low")
    if part.get("unplaced_bytes"):
        yield Fact("Without a place", part.get("unplaced_bytes"), "bytes", hint="gathers, scatters: no reuse credited")


def _live(part: Mapping[str, Any]) -> Figure | None:
    curves = mapping(part.get("live"))
    order = tuple(int(value) for value in curves.get("order") or ())
    if not order:
        return None
    classes = tuple((str(name), tuple(values)) for name, values in curves.items() if name != "order")
    peak = fmt.binary_bytes(part.get("peak_bytes"))
    held = ", ".join(f"{fmt.prose(name)} {fmt.binary_bytes(value)}" for name, value in _peak_classes(part) if value)
    return Figure(
        "memory-live",
        f"Bytes of tensors alive while each operator of the step runs, by class; peak {peak}. An allocator's rounding "
        f"and reserve are not in it. ({MODEL})",
        f"Stacked areas, live bytes over the operators of a step. Peak {peak}{f': {held}' if held else ''}.",
        LiveCurve(order, classes),
    )


def _peak_classes(part: Mapping[str, Any]) -> list[tuple[str, float]]:
    return descending(part.get("peak_classes"))


def _tables(part: Mapping[str, Any]) -> Iterator[Table]:
    classes, reuse = _peak_classes(part), descending(part.get("reuse_classes"))
    if classes:
        columns = (Column("class"), Column("live at the peak", "bytes"))
        cells = tuple((name, mapping(part.get("peak_classes")).get(name)) for name, _ in classes)
        yield Table("memory-classes", "Live bytes at the peak by class", columns, cells)
    if reuse:
        columns = (Column("reuse"), Column("share", "share"))
        yield Table("memory-reuse", "Reused bytes by what lies between the two touches", columns, tuple(reuse))


def _against_capacity(part: Mapping[str, Any]) -> Iterator[Figure]:
    traffic, misses = _curves(part, "traffic"), _curves(part, "miss_ratio")
    too_low, levels = part.get("largest_operator_bytes"), tuple(_levels(part))
    if traffic:
        lines = ", ".join(f"{name} {fmt.binary_bytes(value)}" for name, value in levels)
        yield Figure(
            "memory-traffic",
            "Traffic that a cache of each capacity would leave: read misses and write-backs of bytes needed later. The "
            "compulsory bytes are those of a step that starts with an empty cache; a warm one may stay below them. "
            f"({MODEL})",
            f"Curves on log axes, traffic of a step against cache capacity. {_said(traffic[0], fmt.binary_bytes)} "
            f"Levels: {lines or fmt.ABSENT}. Below {fmt.binary_bytes(too_low)} the model is too low.",
            CapacityCurves("traffic left, a step", "bytes", traffic, levels, too_low),
        )
    if misses:
        yield Figure(
            "memory-misses",
            f"Share of the touched bytes that an LRU cache of each capacity would miss. ({MODEL})",
            f"Curves, miss ratio against cache capacity on a log axis. {_said(misses[0], fmt.share)}",
            CapacityCurves("miss ratio by bytes", "share", misses, (), too_low),
        )


def _capacities(summary: Summary, part: Mapping[str, Any]) -> Table:
    """The curves' values, for a terminal and for readers who see no figures."""
    reused = mapping(part.get("allocator"))
    sources = (
        (Column("traffic, logical", "bytes_each"), part.get("traffic")),
        (Column("traffic, allocator", "bytes_each"), reused.get("traffic")),
        (Column("misses, logical", "share"), part.get("miss_ratio")),
        (Column("misses, allocator", "share"), reused.get("miss_ratio")),
    )
    values = [dict(pairs(value)) for _, value in sources]
    cells = tuple((size, *(column.get(size) for column in values)) for size, _ in pairs(part.get("traffic")))
    columns = (Column("capacity", "bytes_each"), *(column for column, _ in sources))
    caption = f"Traffic left and miss ratio by cache capacity ({MODEL})"
    return Table("memory-capacities", caption, columns, cells, more=show_command(summary, "memory"))


def _curves(part: Mapping[str, Any], field: str) -> tuple[Curve, ...]:
    tiled = part.get(f"{field}_tiled")
    found = (
        (LOGICAL, part.get(field)),
        (ALLOCATOR, mapping(part.get("allocator")).get(field)),
        (TILED, tiled if tiled != part.get(field) else None),
    )
    return tuple(Curve(name, pairs(value)) for name, value in found if pairs(value))


def _said(curve: Curve, show: Any) -> str:
    """The two ends of a curve in words."""
    (first, high), (last, low) = curve.points[0], curve.points[-1]
    ends = f"{show(high)} at {fmt.binary_bytes(first)}, {show(low)} at {fmt.binary_bytes(last)}"
    return f"{curve.name[:1].upper() + curve.name[1:]}: {ends}."


def _levels(part: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, field in (("operator bytes", "operator_bytes"), ("compulsory", "compulsory_bytes")):
        if not fmt.absent(part.get(field)):
            yield name, part[field]


def _fused(summary: Summary, part: Mapping[str, Any]) -> Table:
    """Both streams: bytes and operators mean little alone, since fusion removes much of the traffic."""
    fused = mapping(part.get("fused"))
    columns = (Column("stream"), Column("operators", "count"), Column("operator bytes", "bytes"))
    cells = (
        ("eager, as recorded", fused.get("eager_operators"), part.get("operator_bytes")),
        ("fused", fused.get("operators"), fused.get("operator_bytes")),
    )
    groups = "" if fused.get("groups") is None else f" ({fmt.plural(fused['groups'], 'group')} of two or more)"
    caption = f"Operators that move bytes, and their bytes, before and after greedy pointwise fusion{groups}"
    return Table("memory-fused", caption, columns, cells, more=show_command(summary, "memory"))


# --- as measured --------------------------------------------------------------------------------------------------


def _measured(summary: Summary, part: Mapping[str, Any]) -> Iterator[Block]:
    yield Text(f"As measured: cpu is the resident set of the process, cuda the allocator of torch. {measured(part)}")
    peak, grown = "over all moments, on the device that stepped", "the peak less what stood before"
    yield Facts(
        (
            Fact("Measured peak", part.get("peak_bytes"), "bytes", hint=peak),
            Fact("Over the start", part.get("increase_bytes"), "bytes", hint=grown),
        )
    )
    cells = tuple(tuple(row.get(field) for field in FIELDS) for row in rows(part.get("rows")))
    if cells:
        columns = (
            Column("device"),
            Column("moment"),
            Column("in use", "bytes"),
            Column("peak", "bytes"),
            Column("reserved", "bytes"),
        )
        caption = "Measured memory by moment; the peak is since the moment before"
        yield Table("memory-table", caption, columns, cells, more=show_command(summary, "memory"))
