"""The way of AIBench Training (ISPASS 2021) set beside ours: five counters, t-SNE, three clusters."""

from __future__ import annotations

from collections.abc import Iterator

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Map, MapPoint
from wcbench.reports.model import Block, Fact, Facts, Figure, NoteLine, Section, Text
from wcbench.reports.study._common import DRAWN, View, absent, joined


def section(view: View) -> Section | NoteLine:
    """What came out, how much it changes with the seed, and one of its maps."""
    part = view.part("recipe2021")
    if not part or part.get("reason"):
        return absent("recipe2021", part.get("reason") or "ask for it with --recipe aibench2021")
    caveat = f" Not the paper's: {fmt.prose(part['caveat'])}." if part.get("caveat") else ""
    verdict = fmt.prose(part.get("verdict") or "")
    intro = (
        "z-scores of counters, t-SNE, k-means on its map. t-SNE keeps neighbours and little else, and shows "
        f"clusters in pure noise; the paper names neither seed nor perplexity, so both are ours.{caveat}"
    )
    facts = Facts(
        (
            Fact("Metrics", joined(part.get("metrics") or ()), hint=f"lacking: {joined(part.get('missing') or ())}"),
            Fact("Clusters", part.get("clusters"), "count"),
            Fact("Perplexity", part.get("perplexity"), "number"),
        )
    )
    blocks: list[Block] = [Text(intro), Text(f"{verdict[:1].upper()}{verdict[1:]}."), facts, *_figure(view)]
    return Section("recipe2021", "The recipe of 2021 beside ours", tuple(blocks))


def _figure(view: View) -> Iterator[Figure]:
    found = [r for r in view.rows("recipe2021", "workload", "x", "y", "cluster") if None not in (r["x"], r["y"])]
    first = [row for row in found if row.get("seed") == found[0].get("seed")]
    if not first or len(first) > DRAWN:
        return
    points = tuple(
        MapPoint(fmt.visible(str(row["workload"])), row["x"], row["y"], f"cluster {row['cluster']}")
        for row in sorted(first, key=lambda row: (row["cluster"], str(row["workload"])))
    )
    yield Figure(
        "recipe2021-map",
        "t-SNE of one seed with its clusters. Sizes and distances on it mean nothing; another seed gives "
        "another picture. No unit.",
        f"Map of {fmt.plural(len(points), 'workload')} in {fmt.count(view.part('recipe2021').get('clusters'))} "
        "clusters.",
        Map(Axis("t-SNE 1"), Axis("t-SNE 2"), points, equal=True),
    )
