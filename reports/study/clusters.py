"""The dendrogram, and whether there are clusters at all: workloads are mostly a continuum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Leaf, Merge, Tree
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping
from wcbench.reports.study._common import DRAWN, View, absent, csv


def section(view: View) -> Section | NoteLine:
    """The verdict in plain words, the tree, and clusters only where they are natural."""
    part = view.part("clusters")
    if not part or part.get("reason"):
        return absent("clusters", part.get("reason") or "clusters were not looked for")
    natural = bool(part.get("natural"))
    said = fmt.prose(part.get("verdict") or "")
    plain = f"There are {said}." if said else ""
    then = "" if natural else (
        " So no groups are named here. The tree shows who is near whom; cut anywhere, it would give clusters of pure "
        "noise too."
    )  # fmt: skip
    facts = [
        Fact("Clusters", part.get("k"), "count", hint="by the gap statistic; 1 is no clusters"),
        Fact(
            "Cophenetic correlation", part.get("cophenetic"), "number", hint="of the tree's heights with the distances"
        ),
    ]
    if part.get("silhouette") is not None:
        facts.append(Fact("Silhouette", part["silhouette"], "number", hint="mean; below 0.3 is no evidence"))
    blocks: list[Block] = [
        Text(plain + then),
        Facts(tuple(facts)),
        *_figure(view),
        *(_clusters(view) if natural else ()),
    ]
    return Section("clusters", "Dendrogram and clusters", tuple(blocks))


def _figure(view: View) -> Iterator[Block]:
    order = [str(name) for name in view.part("clusters").get("order") or ()]
    merges = _merges(view, order)
    if not merges or len(order) > DRAWN:
        why = f"it has {len(order):,} workloads" if len(order) > DRAWN else "its merges are not in the tables"
        yield Text(f"This study has no drawn tree: {why}.")
        return
    leaves = tuple(Leaf(fmt.visible(name), view.group(name), name in view.members) for name in order)
    first, last = merges[0], merges[-1]
    yield Figure(
        "clusters-tree",
        f"Average linkage of {fmt.plural(len(leaves), 'workload')} of {view.studied} in the full space; height is "
        "the mean distance of the two clusters that merge, no unit. Filled marks are in the subset.",
        f"Dendrogram. Nearest are {_pair(leaves, first)} at {fmt.number(first.height)}; the last two clusters merge at "
        f"{fmt.number(last.height)}. From top to bottom: {', '.join(fmt.shorten(leaf.name, 30) for leaf in leaves)}.",
        Tree("distance at the merge", leaves, merges),
    )


def _pair(leaves: tuple[Leaf, ...], merge: Merge) -> str:
    two = [fmt.shorten(leaves[index].name, 40) for index in (merge.left, merge.right) if index < len(leaves)]
    return " and ".join(two) or "two clusters"


def _merges(view: View, order: list[str]) -> tuple[Merge, ...]:
    """The merges by place; none where they do not fit the leaves."""
    places = {name: place for place, name in enumerate(order)}
    found = []
    for number, row in enumerate(view.rows("merges", "merge", "left", "right", "height")):
        left, right = places.get(str(row["left"])), places.get(str(row["right"]))
        if left is None or right is None or row["height"] is None:
            return ()
        places.setdefault(str(row["merge"]), len(order) + number)
        found.append(Merge(left, right, float(row["height"])))
    return tuple(found) if len(found) == len(order) - 1 else ()


def _clusters(view: View) -> Iterator[Table]:
    """Who is in which cluster; only asked for where clusters are natural."""
    silhouettes = {str(row["workload"]): row.get("silhouette") for row in view.rows("subset", "workload")}
    found = sorted(mapping(view.part("clusters").get("labels")).items(), key=lambda item: (item[1], item[0]))
    cells: tuple[tuple[Any, ...], ...] = tuple((label, name, silhouettes.get(str(name))) for name, label in found)
    columns = (Column("cluster", "count"), Column("workload", "name", keep=True), Column("silhouette", "number"))
    yield Table("clusters-table", "Clusters by k-means in the full space", columns, cells, limit=60, more=csv("subset"))
