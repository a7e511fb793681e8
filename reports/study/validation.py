"""Does the subset speak for the suite? Quantities that took no part in the choice, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import Row, View, absent, csv

MEANS = (
    ("suite", Column("suite's mean", "number", group="mean")),
    ("estimate", Column("by the subset", "number", group="mean")),
    ("unit", Column("unit")),
    ("error", Column("off by", "share")),
    ("percentile", Column("percentile", "number", "%")),
    ("subsets", Column("of subsets", "count")),
    ("workloads", Column("workloads", "count")),
)
LEFT_OUT = (
    ("predictions", Column("predictions", "count")),
    ("left_out_median", Column("median |ln ratio|", "number")),
    ("left_out_max", Column("largest", "number")),
    ("left_out_worst", Column("worst workload", "name")),
)


def section(view: View) -> Section | NoteLine:
    """Errors of means against other subsets, workloads left out, and the metrics that could not be used."""
    part = view.part("validation")
    found = rows(part.get("metrics"))
    if not found:
        return absent("validation", part.get("reason") or "no metric is known that took no part in the choice")
    known = [row for row in found if not row.get("reason")]
    blocks: list[Block] = [Text(_intro(known)), *_means(known), *_left_out(known)]
    lines = tuple(NoteLine(name(row), f"no result: {fmt.prose(row['reason'])}") for row in found if row.get("reason"))
    return Section("validation", "Validation", (*blocks, *([Notes(lines)] if lines else [])))


def name(row: Row) -> str:
    """``length of training (published, epochs, AIBench Training v1.1)``."""
    words = [fmt.prose(row[key]) for key in ("source", "unit", "where") if row.get(key)]
    circular = ["circular"] if row.get("circular") else []
    return f"{fmt.prose(row.get('metric'))} ({', '.join([*words[:1], *circular, *words[1:]])})"


def _intro(known: Sequence[Row]) -> str:
    if not known:
        return "No metric could be used, so nothing outside the features has checked this subset:"
    honest = [row for row in known if not row.get("circular")]
    doubt = "" if honest else " Every metric here is a function of the features (circular), so this proves little."
    return (
        "The mean of each metric over the suite, and as the members tell it, weighted by how many workloads each "
        "stands for. Percentile: of other subsets of this size, the percentage with a smaller error; small is good. "
        f"Circular: modelled, a function of the features by which the choice was made.{doubt}"
    )


def _means(known: Sequence[Row]) -> Iterator[Table]:
    cells: tuple[tuple[Any, ...], ...] = tuple((name(row), *(row.get(field) for field, _ in MEANS)) for row in known)
    if cells:
        columns = (Column("metric", keep=True), *(column for _, column in MEANS))
        yield Table("validation-means", "Means of the suite and by the subset", columns, cells, more=csv("validation"))


def _left_out(known: Sequence[Row]) -> Iterator[Table]:
    used = [row for row in known if row.get("predictions")]
    cells: tuple[tuple[Any, ...], ...] = tuple((name(row), *(row.get(field) for field, _ in LEFT_OUT)) for row in used)
    if cells:
        columns = (Column("metric", keep=True), *(column for _, column in LEFT_OUT))
        caption = (
            "Each workload left out, the subset chosen anew, and its value predicted by its representative: |ln of "
            "prediction over value|; 0.69 is a factor of 2"
        )
        yield Table("validation-left-out", caption, columns, cells, more=csv("residuals"))
