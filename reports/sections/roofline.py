"""How far a device's arithmetic and its memory would let the step go: the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Roofline, RoofPoint
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command
from wcbench.reports.sections.memory import MODEL, pairs

TABLE_ROWS = 20
LEAST = 10_000  # the caption says it in words
COLUMNS = (
    ("name", Column("operator", "name")),
    ("intensity", Column("FLOP/byte", "number")),
    ("flops", Column("work", "si_each", "FLOP")),
    ("bytes", Column("bytes", "bytes_each")),
)


def section(summary: Summary) -> Section | None:
    """The figure where the device's peaks are known, and the operators' intensities."""
    part = block(summary, "roofline")
    if part is None:
        return None
    blocks: list[Block] = [Text(_intro(part)), Facts(_facts(part))]
    if part.get("peak_flops") and part.get("bandwidth"):
        blocks.append(_figure(part))
    cells = tuple(tuple(row.get(field) for field, _ in COLUMNS) for row in rows(part.get("points")))
    if cells:
        caption = "Operators by intensity, in the order of the record; bytes of each alone, without reuse"
        columns, more = tuple(column for _, column in COLUMNS), show_command(summary, "roofline")
        blocks.append(Table("roofline-table", caption, columns, cells, TABLE_ROWS, more))
    return Section("roofline", "Roofline", (*blocks, *notes_blocks(summary, "roofline")))


def _intro(part: Mapping[str, Any]) -> str:
    return (
        f"What device {fmt.prose(part.get('on') or fmt.ABSENT)} could attain in {fmt.prose(part.get('dtype'))} by "
        "its published peaks; nothing was measured on it. An operator left of the ridge waits for memory, one right "
        f"of it for arithmetic. {measured(part) if part.get('pass') else ''}"
    ).strip()


def _facts(part: Mapping[str, Any]) -> tuple[Fact, ...]:
    ridge = "where arithmetic and memory take equally long"
    bound = "of the predicted time, in operators that wait for memory"
    return (
        Fact("Peak", part.get("peak_flops"), "si", "FLOP/s"),
        Fact("Memory bandwidth", part.get("bandwidth"), "si", "B/s"),
        Fact("Ridge", part.get("balance"), "number", "FLOP/byte", ridge),
        Fact("Step's intensity", part.get("intensity"), "number", "FLOP/byte", "without any cache"),
        Fact("Memory-bound share", part.get("memory_bound_share"), "share", hint=bound),
        Fact("Least time of a step", part.get("time_ns"), "time_ns", hint="every operator at its roof"),
    )


def _points(part: Mapping[str, Any]) -> tuple[RoofPoint, ...]:
    """Operators with work enough to matter; the others would stretch the axis to nowhere."""
    found = tuple(
        RoofPoint(str(row.get("name")), float(row["flops"]), float(row["intensity"]))
        for row in rows(part.get("points"))
        if not fmt.absent(row.get("flops")) and not fmt.absent(row.get("intensity"))
    )
    most = max((point.flops for point in found), default=0.0)
    return tuple(point for point in found if point.flops * LEAST >= most)


def _figure(part: Mapping[str, Any]) -> Figure:
    points = _points(part)
    device, peak = fmt.prose(part.get("on") or "the device"), fmt.si(part["peak_flops"], "FLOP/s")
    said = f"Roof of {device}: {peak}, {fmt.si(part['bandwidth'], 'B/s')}, ridge at {fmt.number(part.get('balance'))}"
    whole = f"the whole step without a cache at {fmt.number(part.get('intensity'))} FLOP/byte"
    return Figure(
        "roofline-figure",
        f"Operators on the roof of {device}, larger the more FLOPs they have; those with less than a ten-thousandth "
        f"of the largest one's are left out. Upright: the whole step with a cache of that capacity, by the {MODEL}.",
        f"Roofline, FLOP/s over FLOP/byte on log axes, with {fmt.plural(len(points), 'operator')}. {said} FLOP/byte; "
        f"{whole}.",
        Roofline(part["peak_flops"], part["bandwidth"], points, part.get("intensity"), pairs(part.get("capacities"))),
    )
