"""Hotspot functions: how many make up a task's time, in how many tasks each occurs, and how much tasks overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Matrix
from wcbench.reports.model import Block, Column, Figure, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import rows
from wcbench.reports.study._common import DRAWN, Row, View, absent, csv, joined
from wcbench.reports.study.categories import SOURCES

FUNCTIONS = 12


def section(view: View) -> Section | NoteLine:
    """Counts by task, functions by task count, the overlap of every two tasks, and of the suites."""
    blocks: list[Block] = [*_counts(view), *_functions(view), *_overlap(view), *_suites(view)]
    if not blocks:
        return absent("hotspots", "times by function are not in the study's tables")
    intro = (
        "Functions are operators, or kernels where a GPU was measured. Measured and predicted times never mix: each "
        "table and figure names its source. Numbers of distinct functions grow with the number of tasks."
    )
    return Section("hotspots", "Hotspot functions", (Text(intro), *blocks))


def _best(found: Sequence[Row]) -> tuple[str, list[Row]]:
    """Rows of the source that most tasks have."""
    counts = {name: len([row for row in found if row.get("source") == name]) for name in SOURCES}
    best = max(SOURCES, key=lambda name: counts[name])
    return best, [row for row in found if row.get("source") == best]


def _where(source: str, found: Sequence[Row]) -> str:
    devices = sorted({fmt.prose(row["device"]) for row in found if row.get("device")})
    return f"{source}{f' on {joined(devices)}' if devices else ''}"


def _counts(view: View) -> Iterator[Table]:
    source, found = _best(view.rows("hotspot_counts", "workload", "source", "functions"))
    heads = {
        "functions": Column("functions", "count"),
        "for_80": Column("for 80 % of time", "count", keep=True),
        "top": Column("longest", "name"),
        "top_share": Column("its share", "share"),
    }
    used = [key for key in heads if any(row.get(key) is not None for row in found)]
    own = {str(row["workload"]): row for row in found}
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (task, *(own[task].get(key) for key in used)) for task in view.in_order(own)
    )
    if cells:
        columns = (Column("task", "name", keep=True), *(heads[key] for key in used))
        caption = f"How many functions make up a task's time ({_where(source, found)})"
        yield Table("hotspots-counts", caption, columns, cells, limit=60, more=csv("hotspot_counts"))


def _functions(view: View) -> Iterator[Table]:
    source, found = _best(view.rows("hotspot_functions", "function", "source", "tasks"))
    used = [
        (key, column)
        for key, column in (
            ("function", Column("function", "name", keep=True)),
            ("category", Column("category")),
            ("tasks", Column("tasks", "count", keep=True)),
            ("a", Column(view.studied, "count")),
            ("b", Column(view.against or "other", "count")),
            ("mean_share", Column("mean share", "share")),
            ("max_share", Column("largest share", "share")),
        )
        if any(row.get(key) is not None for row in found)
    ]
    order = sorted(found, key=lambda row: (-(row["tasks"] or 0), -(row.get("mean_share") or 0), str(row["function"])))
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(key) for key, _ in used) for row in order)
    if cells:
        least = next((row["least"] for row in found if row.get("least") is not None), None)
        of = f" with at least {fmt.share(least)} of the time" if least is not None else ""
        caption = f"In how many tasks each function occurs{of} ({_where(source, found)})"
        columns = tuple(column for _, column in used)
        yield Table("hotspots-functions", caption, columns, cells, limit=FUNCTIONS, more=csv("hotspot_functions"))


# --- overlap ------------------------------------------------------------------------------------------------------


def _overlap(view: View) -> Iterator[Figure]:
    source, found = _best(view.rows("hotspot_overlap", "source", "one", "other", "overlap"))
    pairs = {(str(row["one"]), str(row["other"])): row["overlap"] for row in found}
    names = view.in_order({name for pair in pairs for name in pair})
    if not names or len(names) > DRAWN:
        return
    grid = tuple(tuple(_of(pairs, one, other) for other in names) for one in names)
    known = sorted((v, *pair) for pair, v in pairs.items() if v is not None and pair[0] != pair[1])
    told = (
        f"Most alike: {fmt.prose(known[-1][1])} and {fmt.prose(known[-1][2])} {fmt.share(known[-1][0])}; least: "
        f"{fmt.prose(known[0][1])} and {fmt.prose(known[0][2])} {fmt.share(known[0][0])}."
        if known
        else "No overlap is known."
    )
    yield Figure(
        "hotspots-overlap",
        f"Overlap of every two tasks' time by function ({_where(source, found)}): sum of the smaller over sum of the "
        "larger shares (weighted Jaccard), in percent.",
        f"Matrix of {fmt.plural(len(names), 'task')}. {told}",
        Matrix("overlap of time by function", tuple(fmt.visible(name) for name in names), grid),
    )


def _of(pairs: dict[tuple[str, str], Any], one: str, other: str) -> float | None:
    if one == other:
        return 1.0
    value = pairs.get((one, other), pairs.get((other, one)))
    return None if value is None else float(value)


def _suites(view: View) -> Iterator[Block]:
    """The suites' mean profiles, by source; why a source has none."""
    found = rows(view.suites.get("hotspots"))
    columns = (
        Column("source", keep=True),
        Column("overlap", "share", keep=True),
        Column("expected", "share"),
        Column("p", "number"),
        Column("hotspots in both"),
        Column(f"only {view.studied}"),
        Column(f"only {view.against}"),
    )
    known = [row for row in found if row.get("jaccard") is not None]
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (
            _where(str(row.get("source")), [row]),
            *(row.get(key) for key in ("jaccard", "expected", "p")),
            *(joined(row.get(key) or (), 10) for key in ("shared", "only_a", "only_b")),
        )
        for row in known
    )
    if cells:
        caption = "Overlap of the suites' mean profiles by source; expected and p: of exchanged labels"
        yield Table("hotspots-suites", caption, columns, cells, more=csv("comparison0_hotspots"))
    lines = [NoteLine(fmt.prose(row.get("source")), fmt.prose(row["reason"])) for row in found if row.get("reason")]
    if lines:
        yield Notes(tuple(lines))
