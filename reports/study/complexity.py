"""Model complexity against computational cost: parameters and FLOPs of every task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Map, MapPoint
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.study._common import DRAWN, View, absent, csv, joined, unit_of

PARAMETERS, WORK = "params_trainable", "flops_per_sample"
TABLE = (
    (PARAMETERS, "parameters"),
    (WORK, "work"),
    ("bytes_op_level", "bytes moved"),
    ("footprint_peak", "peak of live bytes"),
    ("ops_per_step", "operators a step"),
)
"""Features that say how large a task is, with their headings."""


def section(view: View) -> Section | NoteLine:
    """The scatter of both suites on log axes, and a table of every task's size."""
    table = tuple(_table(view))
    figure = tuple(_figure(view))
    if not table and not figure:
        return absent("complexity", f"features {PARAMETERS} and {WORK} are not in the study's table")
    blocks: list[Block] = [Text(_intro(view, bool(figure))), *figure, *table]
    return Section("complexity", "Complexity against cost", tuple(blocks))


def _intro(view: View, drawn: bool) -> str:
    origins = sorted({str(view.features[name].get("origin")) for name, _ in TABLE if view.features.get(name)} - {""})
    how = f" Origin of the values: {joined(origins)}." if origins else ""
    lacking = "" if drawn else f" Not drawn: {PARAMETERS} or {WORK} is not in the study's table."
    what = "How large the models are, and how much work one sample of training takes (forward and backward)."
    return f"{what}{how}{lacking}"


def _figure(view: View) -> Iterator[Figure]:
    across, up = view.values(PARAMETERS), view.values(WORK)
    both = view.in_order(set(across) & set(up))
    if not both or len(both) > DRAWN:
        return
    points = tuple(
        MapPoint(fmt.visible(name), across[name], up[name], view.group(name), name in view.members) for name in both
    )
    least, most = min(points, key=lambda p: p.x), max(points, key=lambda p: p.x)
    light, heavy = min(points, key=lambda p: p.y), max(points, key=lambda p: p.y)
    yield Figure(
        "complexity-figure",
        f"Trainable parameters and FLOP a sample (1 MAC = 2 FLOP) of {fmt.plural(len(points), 'task')}, on log axes. "
        "Filled marks are in the subset.",
        f"Scatter. Parameters from {fmt.si(least.x)} ({fmt.shorten(least.name, 40)}) to {fmt.si(most.x)} "
        f"({fmt.shorten(most.name, 40)}); work from {fmt.si(light.y, 'FLOP')} ({fmt.shorten(light.name, 40)}) to "
        f"{fmt.si(heavy.y, 'FLOP')} a sample ({fmt.shorten(heavy.name, 40)}).",
        Map(
            Axis("trainable parameters", "si", log=True),
            Axis("work of a sample", "si", "FLOP", log=True),
            points,
        ),
    )


def _table(view: View) -> Iterator[Table]:
    used = [(name, title, view.values(name)) for name, title in TABLE if view.features.get(name)]
    used = [one for one in used if one[2]]
    if not used:
        return
    columns = [Column("task", "name", keep=True), Column("suite")]
    columns += [unit_of(view.features[name].get("unit")).column(title) for name, title, _ in used]
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (task, view.group(task), *(values.get(task) for _, _, values in used)) for task in view.in_order(view.names)
    )
    yield Table("complexity-table", "Size of every task", tuple(columns), cells, limit=60, more=csv("features"))
