"""Where each task's time and bytes go, by category: the paper's eight, and the full view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import StackBar, Stacks
from wcbench.reports.model import Block, Column, Figure, NoteLine, Section, Table, Text
from wcbench.reports.study._common import DRAWN, Row, View, absent, csv

SOURCES = ("measured GPU", "measured CPU", "roofline-predicted")
VIEWS = (("paper", "the eight categories of AIBench Training"), ("full", "all categories"))
CLASSES = {
    "conv": "convolution", "gemm": "GEMM", "attention": "attention", "elementwise": "element-wise",
    "norm": "other normalization", "reduction": "reduction", "rnn": "recurrent", "embedding": "embedding and scatter",
    "layout": "data arrangement", "sort": "sort and selection", "random": "random", "loss": "loss", "other": "other",
}  # fmt: skip
"""Classes of operators by the category whose colour they take; ``norm`` holds batch normalization too."""
COUNTED = (("op_class_byte_share", "bytes moved"), ("op_class_flop_share", "FLOPs"))

Shares = Mapping[str, Mapping[str, float]]
"""Workload -> category -> share."""


def section(view: View) -> Section | NoteLine:
    """Stacks of time where times are known, and of bytes; of FLOPs only where there is no time."""
    source, timed = times(view)
    figures = [*_timed(view, source, timed), *_counted(view, bool(timed))]
    if not figures:
        return absent(
            "categories", "neither times by category nor shares of operator classes are in the study's tables"
        )
    blocks: list[Block] = [Text(_intro(source, timed)), *figures, *_table(view, timed)]
    return Section("categories", "What the time goes to", tuple(blocks))


def times(view: View) -> tuple[str, list[Row]]:
    """The source that most tasks have, measured before predicted, and its rows."""
    found = [row for row in view.rows("categories", "workload", "source", "view", "category", "share") if row["share"]]
    counts = {name: len({row["workload"] for row in found if row["source"] == name}) for name in SOURCES}
    best = max(SOURCES, key=lambda name: counts[name])
    return best, [row for row in found if row["source"] == best]


def _intro(source: str, timed: Sequence[Row]) -> str:
    if not timed:
        return "Times by category are not in this study's tables; bytes and FLOPs by class of operator are counted."
    device = ", ".join(sorted({fmt.prose(row["device"]) for row in timed if row.get("device")}))
    on = f" on {device}" if device else ""
    if source == "roofline-predicted":
        return (
            "Times are predicted, not measured: the least time of each operator under the roof of "
            f"{device or 'a device'} by its published peaks, of a training step. Launch overheads and what kernels "
            "lose are not in them."
        )
    return f"Times are {source}{on}, of a training step."


def _timed(view: View, source: str, timed: Sequence[Row]) -> Iterator[Figure]:
    for name, words in VIEWS:
        shares: dict[str, dict[str, float]] = {}
        for row in timed:
            if row["view"] == name:
                shares.setdefault(str(row["workload"]), {})[fmt.visible(str(row["category"]))] = float(row["share"])
        if shares and len(shares) <= DRAWN:
            yield _figure(view, f"categories-{name}", f"share of time, {source}", f"Time by {words} ({source})", shares)


def _counted(view: View, timed: bool) -> Iterator[Figure]:
    for family, words in COUNTED[:1] if timed else COUNTED:
        shares: dict[str, dict[str, float]] = {}
        for feature in view.features:
            if feature.startswith(f"{family}["):
                part = feature[len(family) + 1 : -1]
                for workload, value in view.values(feature).items():
                    shares.setdefault(workload, {})[CLASSES.get(part, part)] = value
        if shares and len(shares) <= DRAWN:
            name = "categories-bytes" if family == COUNTED[0][0] else "categories-flops"
            yield _figure(
                view, name, f"share of {words}", f"{words[:1].upper()}{words[1:]} by class of operator, counted", shares
            )


def _figure(view: View, name: str, axis: str, words: str, shares: Shares) -> Figure:
    bars = tuple(
        StackBar(fmt.visible(task), view.group(task), tuple((k, v) for k, v in shares[task].items() if v > 0))
        for task in view.in_order(shares)
    )
    told = "; ".join(f"{fmt.shorten(bar.name, 30)} {_largest(bar)}" for bar in bars)
    return Figure(
        name,
        f"{words}, in percent, of {fmt.plural(len(bars), 'task')}.",
        f"A bar of shares for each task; the largest part of each: {told}.",
        Stacks(axis, bars),
    )


def _largest(bar: StackBar) -> str:
    if not bar.parts:
        return "nothing"
    category, share = max(bar.parts, key=lambda part: part[1])
    return f"{category} {fmt.share(share)}"


def _table(view: View, timed: Sequence[Row]) -> Iterator[Table]:
    """The paper's view as numbers: tasks by categories."""
    paper = [row for row in timed if row["view"] == "paper"]
    heads = list(dict.fromkeys(str(row["category"]) for row in sorted(paper, key=lambda r: -float(r["share"]))))
    shares: dict[str, dict[str, Any]] = {}
    for row in paper:
        shares.setdefault(str(row["workload"]), {})[str(row["category"])] = row["share"]
    columns = (Column("task", "name", keep=True), *(Column(fmt.visible(head), "share") for head in heads))
    cells = tuple((task, *(shares[task].get(head, 0.0) for head in heads)) for task in view.in_order(shares))
    if cells:
        caption = "Share of time by the paper's categories"
        yield Table("categories-table", caption, columns, cells, limit=60, more=csv("categories"))
