"""Temporal locality of the tasks: miss ratios by cache capacity and working sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Band, Bands
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections.memory import MODEL
from wcbench.reports.study._common import View, absent, csv, unit_of

CURVES = 7
"""Curves that can be told apart in one figure."""
AT = 50 * 2**20
"""Bytes: the capacity, an L2 of today, by which tasks are ordered, from the worst to the best."""
CAPACITIES = (2**18, 4 * 2**20, 50 * 2**20, 256 * 2**20)
SETS = (("wss_50", "50 % of hits"), ("wss_90", "90 % of hits"), ("wss_99", "99 % of hits"))


def section(view: View) -> Section | NoteLine:
    """Some tasks' curves, evenly picked, and every task's numbers."""
    curves = curves_of(view)
    blocks: list[Block] = [*_figure(view, curves), *_table(view, curves)]
    if not blocks:
        return absent("locality", "neither miss ratios nor working sets are in the study's tables")
    intro = (
        f"By the {MODEL}: what an LRU cache of each size would miss of the bytes that operators touch, in program "
        "order. What happens inside an operator is not in it: below the size of an operator's operands it is too "
        "low."
    )
    return Section("locality", "Miss ratios and working sets", (Text(intro), *blocks))


def curves_of(view: View) -> dict[str, list[tuple[float, float]]]:
    """(capacity in bytes, miss ratio) by workload: of table ``miss_ratios``, else of the features."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in view.rows("miss_ratios", "workload", "capacity", "miss_ratio"):
        if row["miss_ratio"] is not None and row["capacity"] is not None:
            found.setdefault(str(row["workload"]), []).append((float(row["capacity"]), float(row["miss_ratio"])))
    for name in () if found else view.features:
        capacity = _bytes(name)
        for workload, value in view.values(name).items() if capacity else ():
            found.setdefault(workload, []).append((capacity, value))
    return {name: sorted(points) for name, points in found.items()}


def _bytes(feature: str) -> float:
    """The capacity of ``mrc_miss_ratio[4MiB]``; 0 for other features."""
    family, _, part = feature.rstrip("]").partition("[")
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    number, unit = part[:-3], part[-3:]
    return float(number) * units[unit] if family == "mrc_miss_ratio" and unit in units and number.isdigit() else 0.0


def _at(points: Sequence[tuple[float, float]], capacity: float = AT) -> float:
    return min(points, key=lambda point: abs(point[0] - capacity))[1]


def picked(curves: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Tasks from the one that misses most at 50 MiB to the one that misses least, evenly by rank."""
    order = sorted(curves, key=lambda name: (-_at(curves[name]), name))
    if len(order) <= CURVES:
        return order
    return [order[round(i * (len(order) - 1) / (CURVES - 1))] for i in range(CURVES)]


def _figure(view: View, curves: dict[str, list[tuple[float, float]]]) -> Iterator[Figure]:
    shown = picked(curves)
    if not shown or len(curves[shown[0]]) < 2:
        return
    bands = tuple(Band(fmt.visible(name), *map(tuple, zip(*curves[name], strict=True))) for name in shown)
    told = "; ".join(
        f"{fmt.shorten(band.name, 40)} {fmt.share(_at(curves[name]))}" for name, band in zip(shown, bands, strict=True)
    )
    less = len(shown) < len(curves)
    whole = fmt.plural(len(shown), "task")
    some = (
        f"{len(shown)} of {len(curves)} tasks, evenly by rank at 50 MiB; the others are in the table" if less else whole
    )
    yield Figure(
        "locality-misses",
        f"Share of the touched bytes that an LRU cache of each capacity would miss: {some}. By the {MODEL}.",
        f"Miss ratio against cache capacity. At 50 MiB: {told}.",
        Bands(Axis("cache capacity", "bytes", log=True), Axis("miss ratio by bytes", "share"), bands),
    )


def _table(view: View, curves: dict[str, list[tuple[float, float]]]) -> Iterator[Table]:
    """Every task: misses at a few capacities, and working sets."""
    sizes = sorted({size for points in curves.values() for size, _ in points})
    common = [size for size in sizes if size in CAPACITIES] or sizes[:4]
    sets = [(name, title, view.values(name)) for name, title in SETS if view.features.get(name)]
    sets = [one for one in sets if one[2]]
    columns = [Column("task", "name", keep=True)]
    columns += [Column(f"misses at {fmt.binary_bytes(size)}", "share", group="misses") for size in common]
    columns += [unit_of(view.features[name].get("unit")).column(title) for name, title, _ in sets]
    tasks = view.in_order({*curves, *(task for _, _, values in sets for task in values)})
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (task, *(dict(curves.get(task, ())).get(size) for size in common), *(values.get(task) for *_, values in sets))
        for task in tasks
    )
    if cells:
        caption = (
            "Miss ratio by bytes at some capacities, and working sets: smallest LRU capacity with that share of the "
            "byte hits of an infinite one"
        )
        yield Table("locality-table", caption, tuple(columns), cells, limit=60, more=csv("miss_ratios"))
