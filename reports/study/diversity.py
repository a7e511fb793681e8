"""Is one suite more diverse, task for task? What grows with the number of tasks alone stands in section `shipped`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Axis, Band, Bands, Interval, Intervals
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import Row, View, csv

PER_TASK = "2"
VERDICTS = ("the same verdict", "another verdict")
FLAT = ("mean pairwise distance",)
"""Measures whose rarefaction curve is flat by construction: their value at full size says it all."""
RATIOS = 60
"""Intervals that a figure can take."""


def section(view: View) -> Section | NoteLine:
    """The verdict with all its repeats, measures without bias, and those at equal size."""
    alone = view.alone("diversity")
    if alone:
        return alone
    blocks: list[Block] = [Text(_verdict(view)), Facts(tuple(_facts(view))), *_repeats(view), *_per_task(view)]
    return Section("diversity", "Diversity per task", (*blocks, *_matched(view), *_rarefied(view)))


def _verdict(view: View) -> str:
    said = [fmt.prose(sentence) for sentence in view.suites.get("sentences") or ()]
    return (
        f"{said[0] if said else 'No verdict.'} The suites are complete, chosen sets: p says how unusual this labelling "
        "of the tasks is, no more. A ratio of 1 favours neither."
    )


def _facts(view: View) -> Iterator[Fact]:
    row = mapping(view.suites.get("verdict"))
    one, two = labels(view)
    yield Fact("Dispersion ratio", row.get("dispersion_ratio"), "number", hint=f"{one} to {two}; {_interval(row)}")
    yield Fact("Distance ratio", row.get("distance_ratio"), "number", hint="mean distance between two tasks")
    yield Fact("p", row.get("p"), "number", hint=fmt.prose(row.get("reason") or f"PERMDISP, {_ways(view)}"))
    energy = next((x for x in measures(view, "different?") if x.get("a") is not None), None)
    if energy:
        yield Fact("Different at all?", energy.get("p"), "number", hint="p of the energy distance; not diversity")


def _ways(view: View) -> str:
    return fmt.prose(view.suites.get("relabelled") or "relabelled")


def _interval(row: Row) -> str:
    if row.get("low") is None:
        return fmt.prose(row.get("reason") or "no interval")
    return f"jackknife 95 % {fmt.number(row['low'])} to {fmt.number(row.get('high'))}"


def labels(view: View) -> tuple[str, str]:
    """How the two sides are called."""
    found = [fmt.prose(label) for label in view.suites.get("labels") or ()]
    return (found[0], found[1]) if len(found) == 2 else (view.studied, view.against)


def measures(view: View, question: str) -> list[Row]:
    """The panel's measures of one question: 1 as shipped, 2 per task."""
    return [mapping(row) for row in rows(view.suites.get("measures")) if str(row.get("question")) == question]


# --- the verdict again and again ----------------------------------------------------------------------------------


def _repeats(view: View) -> Iterator[Block]:
    row = mapping(view.suites.get("verdict"))
    again = [one for one in rows(view.suites.get("repeats")) if one.get("dispersion_ratio") is not None]
    if row.get("dispersion_ratio") is None:
        return
    all_tasks = Interval("all tasks", row["dispersion_ratio"], row.get("low"), row.get("high"))
    shown = [all_tasks, *(_repeat(one) for one in again[:RATIOS])]
    changed = [fmt.prose(name) for name in view.suites.get("changed_by") or ()]
    verdict = f"another verdict: {', '.join(changed)}" if changed else "the same verdict in every repeat"
    one, two = labels(view)
    if again:
        ratios = [x.value for x in shown]
        yield Figure(
            "diversity-repeats",
            f"Dispersion ratio of {one} to {two} with its jackknife 95 % interval: of all tasks, and again without "
            "each task, each block of features, and on other tables. No unit. Marked: another verdict than the "
            "first.",
            f"Intervals, one below the other; all tasks {fmt.number(row['dispersion_ratio'])} ({_interval(row)}). The "
            f"repeats have ratios from {fmt.number(min(ratios))} to {fmt.number(max(ratios))}; {verdict}.",
            Intervals(Axis("dispersion ratio", "number", log=True), tuple(shown), 1.0, *VERDICTS),
        )
    lacking = [one for one in rows(view.suites.get("repeats")) if one.get("reason")]
    cells = tuple((fmt.prose(x.get("change")), x.get("n_a"), x.get("n_b"), fmt.prose(x["reason"])) for x in lacking)
    if cells:
        columns = (Column("repeat", keep=True), Column("n", "count"), Column("n, other", "count"), Column("not judged"))
        yield Table("diversity-not-judged", "Repeats that have no verdict, and why", columns, cells, 10)


def _repeat(row: Row) -> Interval:
    name = fmt.visible(str(row.get("change")))
    return Interval(name, row["dispersion_ratio"], row.get("low"), row.get("high"), bool(row.get("changed")))


# --- measures -----------------------------------------------------------------------------------------------------


def _per_task(view: View) -> Iterator[Table]:
    """Measures without bias; those at equal size have a table of their own where the study has it."""
    matched = bool(_matched_rows(view))
    found = [row for row in measures(view, PER_TASK) if not str(row.get("measure")).startswith("Hill")]
    found = [row for row in found if not (matched and str(row.get("measure")).endswith(", rarefied"))]
    one, two = labels(view)
    columns = [
        Column("measure", keep=True),
        Column(one, "number"),
        Column(two, "number"),
        Column("ratio", "number", keep=True),
        Column("low", "number"),
        Column("high", "number"),
    ]
    fields = ("measure", "a", "b", "ratio", "low", "high")
    cells: tuple[tuple[Any, ...], ...] = tuple((*(row.get(f) for f in fields), how(row)) for row in found)
    if cells:
        caption = "Per task: measures that do not grow with the number of tasks; low and high: jackknife 95 %"
        heads = (*columns, Column("how"))
        yield Table("diversity-per-task", caption, heads, cells, more=csv("comparison0_measures"))


def how(row: Row) -> str:
    """The first clause of how: the rest says again what stands in the columns."""
    how = fmt.prose(row.get("how") or "").partition(";")[0].removeprefix("size-dependent: ")
    return "; ".join(text for text in (how, fmt.prose(row.get("reason") or "")) if text)


def _matched_rows(view: View) -> list[Row]:
    first = str(view.suites.get("id"))
    found = view.rows("matched", "measure", "larger", "size", "mean", "value", "share_above")
    return [row for row in found if row.get("comparison") in (None, first)]


def _matched(view: View) -> Iterator[Table]:
    found = _matched_rows(view)
    fields = ("measure", "mean", "value", "share_above", "subsets", "exact")
    cells: tuple[tuple[Any, ...], ...] = tuple(tuple(row.get(field) for field in fields) for row in found)
    if not cells:
        return
    larger, smaller = fmt.prose(found[0]["larger"]), fmt.prose(found[0].get("smaller"))
    size = fmt.count(found[0]["size"])
    columns = (
        Column("measure", keep=True),
        Column(f"{size} of {larger}, mean", "number"),
        Column(smaller, "number"),
        Column("subsets above it", "share", keep=True),
        Column("subsets", "count"),
        Column("all of them"),
    )
    caption = f"At equal size: subsets of {size} tasks of {larger}, and how many of them exceed {smaller}"
    yield Table("diversity-matched", caption, columns, cells, more=csv("matched"))


# --- rarefaction --------------------------------------------------------------------------------------------------


def _rarefied(view: View) -> Iterator[Block]:
    """One figure a measure: the curve of each suite with its band of draws."""
    found = [row for row in _curves(view) if row.get("mean") is not None and row.get("m") is not None]
    if not found:
        yield Text("Rarefaction curves are not in this study's tables; the averages at equal size stand above.")
    for number, measure in enumerate(dict.fromkeys(str(row["measure"]) for row in found)):
        yield _rarefaction(
            f"diversity-rarefaction-{number}", measure, [r for r in found if str(r["measure"]) == measure]
        )


def _curves(view: View) -> Sequence[Row]:
    """The curves of the suites as they are."""
    found = [row for row in view.rows("rarefaction", "measure", "suite", "m", "mean") if row["measure"] not in FLAT]
    first = str(view.suites.get("id"))
    return [row for row in found if row.get("comparison") in (None, 0, "0", first)]


def _rarefaction(name: str, measure: str, found: Sequence[Row]) -> Figure:
    bands = tuple(_band(suite, found) for suite in dict.fromkeys(str(row["suite"]) for row in found))
    ends = "; ".join(
        f"{fmt.prose(band.name)} {fmt.number(band.y[0])} at {band.x[0]:.0f}, {fmt.number(band.y[-1])} at "
        f"{band.x[-1]:.0f}"
        for band in bands
    )
    return Figure(
        name,
        f"{fmt.prose(measure)[:1].upper()}{fmt.prose(measure)[1:]} of m tasks drawn from each suite: mean, and the "
        "middle 95 % of the draws where there are several. Compare at equal m. No unit.",
        f"Rarefaction curves, {fmt.prose(measure)} over the number of tasks: {ends}.",
        Bands(Axis("tasks drawn, m", "count"), Axis(fmt.visible(measure)), bands),
    )


def _band(suite: str, found: Sequence[Row]) -> Band:
    mine = sorted((row for row in found if str(row["suite"]) == suite), key=lambda row: float(row["m"]))
    x, y = tuple(float(row["m"]) for row in mine), tuple(float(row["mean"]) for row in mine)
    known = all(row.get("low") is not None and row.get("high") is not None for row in mine)
    low, high = (tuple(float(row[key]) for row in mine) if known else () for key in ("low", "high"))
    return Band(fmt.visible(suite), x, y, low, high)
