"""Every task under the roof of one device, by published peaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import DevicePoint, Roofs
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, NoteLine, Section, Table, Text
from wcbench.reports.study._common import DRAWN, Row, View, absent, csv

COLUMNS = (
    ("intensity", Column("FLOP/byte", "number")),
    ("attainable", Column("attainable", "si_each", "FLOP/s")),
    ("least_seconds", Column("least time of a step", "number", "s")),
    ("memory_bound_share", Column("waits for memory", "share")),
)


def section(view: View) -> Section | NoteLine:
    """The figure where peaks are known, and the table of intensities."""
    found = [row for row in view.rows("roofline", "workload", "intensity") if row["intensity"] is not None]
    if not found:
        return absent("roofline", "intensities of the tasks are not in the study's tables")
    part = view.part("roofline")
    device = fmt.prose(part.get("device") or found[0].get("device") or "the reference device")
    intro = (
        f"What {device} could attain by its published peaks; nothing was measured on it. Intensity is of a training "
        "step, bytes counted for each operator alone, without reuse; each task stands on the roof at its intensity. A "
        "task left of the ridge waits for memory. Attainable is less than the roof: it takes each operator at its own "
        "intensity."
    )
    blocks: list[Block] = [Text(intro), *_facts(part), *_figure(view, found, device), _table(view, found)]
    return Section("roofline", "Roofline", tuple(blocks))


def _peaks(part: Any) -> tuple[float | None, float | None]:
    bandwidth = next((part[key] for key in ("bandwidth", "bandwidth_bytes_s") if part.get(key) is not None), None)
    return part.get("peak_flops", part.get("peak")), bandwidth


def _facts(part: Any) -> Iterator[Facts]:
    peak, bandwidth = _peaks(part)
    if peak is None and bandwidth is None:
        return
    facts = [
        Fact("Peak", peak, "si", "FLOP/s", fmt.prose(part.get("precision") or part.get("dtype") or "")),
        Fact("Memory bandwidth", bandwidth, "si", "B/s"),
    ]
    if part.get("ridge") is not None:
        facts.append(Fact("Ridge", part["ridge"], "number", "FLOP/byte", "arithmetic and memory take equally long"))
    yield Facts(tuple(facts))


def _figure(view: View, found: list[Row], device: str) -> Iterator[Figure]:
    peak, bandwidth = _peaks(view.part("roofline"))
    if peak is None or bandwidth is None or len(found) > DRAWN:
        return
    own = {str(row["workload"]): row for row in found}
    points = tuple(
        DevicePoint(fmt.visible(name), view.group(name), float(own[name]["intensity"])) for name in view.in_order(own)
    )
    low, high = min(points, key=lambda p: p.intensity), max(points, key=lambda p: p.intensity)
    yield Figure(
        "roofline-figure",
        f"{fmt.plural(len(points), 'task')} on the roof of {device}, each at the FLOP/byte of its step: the most that "
        "it could attain there. Predicted, not measured.",
        f"Log-log roofline, {fmt.si(peak, 'FLOP/s')} and {fmt.si(bandwidth, 'B/s')}. Intensity from "
        f"{fmt.number(low.intensity)} ({fmt.shorten(low.name, 40)}) to {fmt.number(high.intensity)} FLOP/byte "
        f"({fmt.shorten(high.name, 40)}).",
        Roofs(device, float(peak), float(bandwidth), points),
    )


def _table(view: View, found: list[Row]) -> Table:
    used = [(key, column) for key, column in COLUMNS if any(row.get(key) is not None for row in found)]
    own = {str(row["workload"]): row for row in found}
    columns = (Column("task", "name", keep=True), *(column for _, column in used))
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (name, *(own[name].get(key) for key, _ in used)) for name in view.in_order(own)
    )
    caption = "Intensity of a step, and the least time under the roof"
    return Table("roofline-table", caption, columns, cells, limit=60, more=csv("roofline"))
