"""The map: principal components of the space, to be read and not to be measured on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Map, MapPoint
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import DRAWN, Row, View, absent, csv

SUITES = 2
PARTS = 8


def section(view: View) -> Section | NoteLine:
    """First two components with both suites and hulls; what the axes mean; how many stand out."""
    part = view.part("pca")
    if not part or part.get("reason"):
        return absent("map", part.get("reason") or "components were not worked out")
    intro = (
        "For reading only: what decides are distances in the full space, and workloads that are near on the map may be "
        f"far apart in what it leaves out. {_sentence(part.get('verdict'))} The effective rank is "
        f"{fmt.number(part.get('effective_rank'))}."
    )
    blocks: list[Block] = [Text(intro), *_figure(view), *_components(view), *_loadings(view)]
    return Section("map", "Map of the workloads", tuple(blocks))


def _sentence(text: Any) -> str:
    said = fmt.prose(text or "")
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _figure(view: View) -> Iterator[Block]:
    found = [r for r in view.rows("map", "workload", "PC1", "PC2") if None not in (r["PC1"], r["PC2"])]
    if not found or len(found) > DRAWN:
        why = f"it has {len(found):,} workloads" if found else "scores on two components are not in its tables"
        yield Text(f"This study has no drawn map: {why}.")
        return
    places = {str(row["workload"]): row for row in found}
    points = tuple(
        MapPoint(fmt.visible(name), places[name]["PC1"], places[name]["PC2"], view.group(name), name in view.members)
        for name in view.in_order(places)
    )
    hulls = len(view.titles) >= SUITES
    ratios = _ratios(view)
    shown = f"{ratios[0]} and {ratios[1]} of the variance" if len(ratios) > 1 else "parts of the variance"
    grows = " The dashed hulls grow with the number of tasks: they compare no diversity." if hulls else ""
    yield Figure(
        "map-figure",
        f"Scores on the first two principal components, {shown}; no unit. Fitted on all "
        f"{fmt.plural(len(points), 'workload')}, blind to suites. Filled marks are in the subset of "
        f"{view.studied}.{grows}",
        f"Map of {fmt.plural(len(points), 'workload')} on two axes. {_words(view)}. Farthest out: {_far(points)}.",
        Map(_axis(view, 0), _axis(view, 1), points, hulls=hulls, equal=True),
    )


def _ratios(view: View) -> list[str]:
    return [fmt.share(row.get("ratio")) for row in rows(view.part("pca").get("components"))]


def _axis(view: View, number: int) -> Axis:
    ratios = _ratios(view)
    share = f", {ratios[number]} of the variance" if number < len(ratios) else ""
    return Axis(f"PC{number + 1}{share}")


def _words(view: View) -> str:
    said = [fmt.prose(row.get("words")) for row in rows(view.part("pca").get("components"))[:2] if row.get("words")]
    return "; ".join(said) or "What the axes mean is not told"


def _far(points: tuple[MapPoint, ...]) -> str:
    ends = (
        ("right", max(points, key=lambda point: point.x)),
        ("left", min(points, key=lambda point: point.x)),
        ("top", max(points, key=lambda point: point.y)),
        ("bottom", min(points, key=lambda point: point.y)),
    )
    return ", ".join(f"{fmt.shorten(point.name, 40)} ({side})" for side, point in ends)


def _components(view: View) -> Iterator[Table]:
    found: list[Row] = list(rows(view.part("pca").get("components")))
    columns = (
        Column("component", keep=True),
        Column("a workload far out on it has"),
        Column("variance", "share", keep=True),
        Column("cumulative", "share"),
    )
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (row.get("component"), _meaning(row.get("words")), row.get("ratio"), row.get("cumulative")) for row in found
    )
    if cells:
        yield Table("map-components", "What the components mean", columns, cells, more=csv("components"))


def _meaning(words: Any) -> str:
    """``PC1 (39 %): more x, less y`` without its head."""
    return fmt.prose(words or "").partition("): ")[2] or fmt.prose(words or "")


def _loadings(view: View) -> Iterator[Table]:
    """The coordinates that make up most of the first component."""
    found = [row for row in view.rows("loadings", "feature", "PC1", "PC2") if row["PC1"] is not None]
    found = sorted(found, key=lambda row: (-abs(row["PC1"]), str(row["feature"])))
    columns = (Column("feature", "name", keep=True), Column("PC1", "number"), Column("PC2", "number"))
    cells: tuple[tuple[Any, ...], ...] = tuple((row["feature"], row["PC1"], row["PC2"]) for row in found)
    if cells:
        caption = "Loadings, largest on PC1 first"
        yield Table("map-loadings", caption, columns, cells, limit=PARTS, more=csv("loadings"))
