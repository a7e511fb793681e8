"""Every feature's values, task by task, and where the suites differ in spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import DotPlot, DotRow
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import DRAWN, View, absent, csv, joined, unit_of
from wcbench.reports.study.diversity import labels

ROWS = 16
"""Features in one figure."""


def section(view: View) -> Section | NoteLine:
    """Dot plots by block, the spread of each feature in both suites, and the list of features."""
    if not view.features:
        return absent("features", "the study's document lists none")
    drawn = len(view.names) <= DRAWN
    intro = (
        "The raw values that the study is made of, each feature on its own scale. Before distances are taken, "
        "amounts go through a logarithm, shares through a logit or centred log-ratios, and each block of features "
        "counts once. Parts of one whole (shares by class) are not drawn again here."
        + ("" if drawn else f" {len(view.names):,} workloads are not drawn one by one.")
    )
    blocks: list[Block] = [Text(intro), *(_figures(view) if drawn else ()), *_spread(view), *_list(view)]
    return Section("features", "Features", tuple(blocks))


def _blocks(view: View) -> list[tuple[list[str], list[DotRow]]]:
    """Rows by block, as many blocks together as make a figure; without parts of a whole and what is left out."""
    dropped = mapping(view.part("space").get("dropped"))
    found: list[tuple[list[str], list[DotRow]]] = []
    by_block: dict[str, list[DotRow]] = {}
    for name, row in view.features.items():
        dots = _row(view, name) if name not in dropped and not _part(row) else None
        if dots:
            by_block.setdefault(fmt.prose(row.get("block") or "features"), []).append(dots)
    for block, dots_ in by_block.items():
        if not found or len(found[-1][1]) + len(dots_) > ROWS:
            found.append(([], []))
        found[-1][0].append(block)
        found[-1][1].extend(dots_)
    return found


def _part(feature: Mapping[str, Any]) -> bool:
    """Whether it is a part of a composition: shares of one whole are drawn as stacks, and read in the table."""
    return feature.get("transform") == "clr"


def _row(view: View, name: str) -> DotRow | None:
    values = view.values(name)
    if not values:
        return None
    feature = view.features[name]
    unit = unit_of(feature.get("unit"))
    log = str(feature.get("transform")).startswith("log") and all(value >= 0 for value in values.values())
    points = tuple((fmt.visible(task), view.group(task), values[task]) for task in view.in_order(values))
    return DotRow(fmt.visible(name), unit.kind, unit.unit, log, points)


def _figures(view: View) -> Iterator[Figure]:
    for number, (blocks, found) in enumerate(_blocks(view), start=1):
        told = "; ".join(f"{row.name} {_range(row)}" for row in found)
        yield Figure(
            f"features-dots-{number}",
            f"Values by task of the features of block{'' if len(blocks) == 1 else 's'} {', '.join(blocks)}; units at "
            f"the axes. n = {fmt.plural(len(view.names), 'task')}.",
            f"Dots on a line for each suite, from the least to the largest value: {told}.",
            DotPlot(view.titles, tuple(found)),
        )


def _range(row: DotRow) -> str:
    values = [value for _, _, value in row.values]
    return f"{fmt.show(min(values), row.kind, row.unit)} to {fmt.show(max(values), row.kind, row.unit)}"


def _spread(view: View) -> Iterator[Table]:
    found = [row for row in rows(view.suites.get("features")) if row.get("feature") is not None]
    one, two = labels(view)
    order = sorted(found, key=lambda row: (row.get("p") is None, row.get("p") or 0.0, str(row["feature"])))
    columns = (
        Column("feature", "name", keep=True),
        Column(f"SD, {one}", "number"),
        Column(f"SD, {two}", "number"),
        Column("ratio", "number", keep=True),
        Column("p", "number"),
        Column("p, Holm", "number"),
        Column("why not"),
    )
    fields = ("feature", "sd_a", "sd_b", "ratio", "p", "p_holm")
    used = [i for i in range(7) if i < 6 or any(row.get("reason") for row in found)]
    cells: tuple[tuple[Any, ...], ...] = tuple(
        tuple([*(row.get(field) for field in fields), fmt.prose(row.get("reason") or "")][i] for i in used)
        for row in order
    )
    if cells:
        caption = (
            "Spread of each feature in both suites: standard deviations in the scaled space, permutation p of Brown "
            "and Forsythe, and after Holm's correction over all features"
        )
        heads = tuple(columns[i] for i in used)
        yield Table("features-spread", caption, heads, cells, limit=12, more=csv("comparison0_features"))


def _list(view: View) -> Iterator[Table]:
    """One row for a feature or for all parts of a family, since those share unit, block and transform."""
    columns = (
        Column("feature", "name", keep=True),
        Column("unit"),
        Column("block"),
        Column("transform"),
        Column("origin"),
        Column("reference"),
    )
    fields = ("unit", "block", "transform", "origin", "reference")
    families: dict[tuple[str, ...], int] = {}
    for name, row in view.features.items():
        key = (name.partition("[")[0], *(fmt.prose(row.get(field) or "") for field in fields))
        families[key] = families.get(key, 0) + 1
    cells = tuple((f"{key[0]}[{size} parts]" if size > 1 else key[0], *key[1:]) for key, size in families.items())
    caption = f"Features of the study, with blocks {joined(view.part('space').get('blocks') or (), 30)}"
    yield Table("features-list", caption, columns, cells, limit=40, more=csv("coordinates"))
