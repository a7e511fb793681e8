"""The report of two profiles compared, built from its document (docs/diff.md): conditions, time, and where it differs.

`diff_amounts` has the sections of amounts, counters and training runs. THE list of sections stands at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wcbench.analysis.diff_answer import answer
from wcbench.errors import RecordError
from wcbench.reports import diff_amounts as amounts
from wcbench.reports import format as fmt
from wcbench.reports.diff_amounts import Document, compare_command
from wcbench.reports.figure_data import Axis, Bar, BarPanel, Bars, Interval, Intervals
from wcbench.reports.model import (
    Block,
    Column,
    Command,
    Fact,
    Facts,
    Figure,
    NoteLine,
    Notes,
    Report,
    Section,
    Table,
    Text,
)

SCHEMA = "wcbench.diff/1"
CATEGORIES_DRAWN = 12
NAME_WIDTH = 100
"""Characters of a function's name in the answer; the table has all of it."""


def diff_report(document: Document) -> Report:
    """The report model of a comparison.

    Raises RecordError where the document is of another form than this version of wcbench reads.
    """
    found = document.get("schema")
    if found != SCHEMA:
        raise RecordError(
            f"The comparison has the form {found!r}; reports read {SCHEMA}.", "Make it with this wcbench."
        )
    sections = (make(document) for make in SECTIONS)
    a, b = document["a"], document["b"]
    return Report(
        title=fmt.prose(
            f"{a['label']} against {b['label']}" if a["label"] != b["label"] else f"{a['label']}: A against B"
        ),
        subtitle=fmt.prose(f"Two profiles compared; times and amounts per {document['per']}"),
        # made again, so that a long name is cut after it was anonymized and not before
        lead=tuple(fmt.prose(text) for text in answer(document, lambda name: fmt.shorten(name, NAME_WIDTH))),
        sections=tuple(section for section in sections if section is not None),
        provenance=fmt.prose(f"A recorded {_when(a)}, B recorded {_when(b)}; {SCHEMA}."),
    )


def _when(side: Mapping[str, Any]) -> str:
    return f"{str(side['created'])[:16].replace('T', ' ')} UTC"


# --- conditions and time ----------------------------------------------------------------------------------------------


def _conditions(document: Document) -> Section:
    rows = tuple(_unlike(document))
    columns = (Column("what", keep=True), Column("A"), Column("B"), Column("of"))
    if rows:
        blocks: list[Block] = [
            Text("What was unlike. A difference below may come from any of it; n/a: not told."),
            Table("conditions-table", "Settings and machine that differ", columns, rows),
        ]
    else:
        blocks = [Text("No setting that is recorded, and nothing of the machine, differs.")]
    lines = [
        NoteLine(
            row["side"], f"Its files do not tell {', '.join(row['what']).replace('_', ' ')}: it may differ unseen."
        )
        for row in document["untold"]
    ]
    lines += [NoteLine(side.upper(), fmt.prose(text)) for side in "ab" for text in document[side]["noise"]]
    lines += [NoteLine(row["side"], fmt.prose(f"{row['about']}: {row['text']}")) for row in document["doubts"]]
    return Section("conditions", "Conditions", (*blocks, *((Notes(tuple(lines)),) if lines else ())))


def _unlike(document: Document) -> Iterator[tuple[str | None, ...]]:
    for row in document["conditions"]:
        of = fmt.prose(f"pass{'es' if len(row['passes']) > 1 else ''} {', '.join(row['passes'])}")
        yield fmt.prose(str(row["what"]).replace("_", " ")), _text(row["a"]), _text(row["b"]), of
    for row in document["machine"]:
        yield fmt.prose(row["what"]), _text(row["a"]), _text(row["b"]), "machine"


def _text(value: Any) -> str | None:
    return None if value is None else fmt.plain(value)


def _time(document: Document) -> Section | None:
    time = document["time"]
    if time["a_ms"] is None and time["b_ms"] is None:
        return None
    keys = ("ms", "low_ms", "high_ms", "device_ms", "samples", "samples_per_s", "steps", "ranks")
    columns = (Column("profile", keep=True), Column("median", "time_ms", keep=True, group="time"),
               Column("low", "time_ms", group="time"), Column("high", "time_ms", group="time"),
               Column("on the device", "time_ms", group="time"), Column("samples", "number"),
               Column("samples/s", "number"), Column("steps", "count"), Column("ranks", "count"))  # fmt: skip
    rows = tuple((side.upper(), *(time[f"{side}_{key}"] for key in keys)) for side in "ab")
    kept = [i for i, column in enumerate(zip(*rows, strict=True)) if any(value is not None for value in column)]
    told = {True: "yes, beyond the scatter of these steps", False: "no: the interval holds 1", None: None}[
        time["told_apart"]
    ]
    facts = (
        Fact(f"B / A, time of a {time['per']}", time["ratio"], "number", hint=interval(time)),
        Fact("Steps told apart", told, hint=time["reason"] or ""),
    )
    said = (
        "Steps are told apart where the interval leaves out 1. It is of the steps of these two runs: what another run "
        "would differ by is not in it, so repeat before you call a small difference one."
    )
    if time["a_host_marks"] or time["b_host_marks"]:
        said += " Steps of imported files are as the host marks them."
    caption = "Median time of a step with its 95 % interval by order statistics"
    table = Table("time-table", caption, tuple(columns[i] for i in kept), tuple(_only(row, kept) for row in rows))
    return Section("time", "Time of a step", (Facts(facts), table, Text(said)))


def _only(row: tuple[Any, ...], kept: list[int]) -> tuple[Any, ...]:
    return tuple(row[i] for i in kept)


def interval(row: Mapping[str, Any]) -> str:
    """The interval of a ratio in words, or why there is none."""
    if row["low"] is None:
        return row.get("reason") or "no interval"
    return f"95 % interval {fmt.number(row['low'])} to {fmt.number(row['high'])}"


# --- where the time differs -------------------------------------------------------------------------------------------

VIEWS = (("full", "Full view"), ("paper", "Paper's view"))
_PER = {
    "step": "of a step",
    "sample": "of a sample",
    "record": "of the whole record",
    "None": "of each one's own basis",
}


def _per(spots: Mapping[str, Any]) -> str:
    return _PER[str(spots["per"])]


def _categories(document: Document) -> Section | None:
    spots = document["hotspots"]
    if spots is None:
        return None
    per = _per(spots)
    unlike = "" if spots["unlike"] is None else f" The two are of different kinds: {spots['unlike']}."
    adds = (
        "Times are not subtracted, shares of each one's own time are."
        if spots["per"] is None
        else "The differences B - A of one view add up to that of the whole."
    )
    blocks: list[Block] = [
        Text(f"Time by category {per}. {adds}{unlike}"),
        Facts(
            (
                Fact("A in all", spots["total_a_ns"], "time_ns", hint=_hint(spots, 0)),
                Fact("B in all", spots["total_b_ns"], "time_ns", hint=_hint(spots, 1)),
                Fact("B - A", spots["difference_ns"], "time_ns", hint=per),
            )
        ),
        _shares(spots),
        _contributions(spots, per),
        *(_category_table(spots, view, title) for view, title in VIEWS),
    ]
    return Section("categories", "Categories", tuple(blocks))


def _hint(spots: Mapping[str, Any], side: int) -> str:
    ranks = spots["ranks"][side] or 1
    return f"{spots['of'][side]} {_per(spots)}{f', mean over {ranks} ranks' if ranks > 1 else ''}"


def _shares(spots: Mapping[str, Any]) -> Figure:
    rows = sorted(spots["full"], key=lambda row: -max(row["a_share"] or 0, row["b_share"] or 0))[:CATEGORIES_DRAWN]
    panels = tuple(
        BarPanel(
            side.upper(), tuple(Bar(row["category"], row["category"], row[f"{side}_share"] or 0.0) for row in rows)
        )
        for side in "ab"
    )
    said = "; ".join(
        f"{fmt.prose(row['category'])} {fmt.share(row['a_share'])} of A, {fmt.share(row['b_share'])} of B"
        for row in rows
    )
    return Figure("categories-shares", "Share of each profile's own time by category.", f"Bars in two panels: {said}.",
                  Bars("share of the time (%)", panels))  # fmt: skip


def _contributions(spots: Mapping[str, Any], per: str) -> Figure:
    """What each category adds: of time, or where times cannot be subtracted of share."""
    timed = spots["per"] is not None
    field = "difference_ns" if timed else "difference_share"
    rows = [row for row in spots["full"] if row[field]][:CATEGORIES_DRAWN]
    said = "; ".join(
        f"{fmt.prose(row['category'])} {fmt.show(row[field], 'time_ns' if timed else 'share')}" for row in rows
    )
    unit, size = _unit([row[field] for row in rows]) if timed else ("% of own time", 0.01)
    return Figure(
        "categories-difference",
        f"What each category adds to the difference {per}, B - A; left of 0 B takes less.",
        f"Dots left and right of 0: {said or 'none'}.",
        Intervals(Axis(f"B - A ({unit})"), tuple(Interval(row["category"], row[field] / size) for row in rows), 0.0),
    )


def _unit(times: list[float]) -> tuple[str, float]:
    """The unit that suits the largest of times in ns, and how many ns it has."""
    largest = max(map(abs, times), default=0.0)
    return next(((unit, ns) for unit, ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if largest >= ns), ("ns", 1.0))


def _category_table(spots: Mapping[str, Any], view: str, title: str) -> Table:
    columns = (Column("category", keep=True), *_TIMES, Column("A share", "share"), Column("B share", "share"))
    rows = tuple(
        (row["category"], *(row[key] for key in _TIME_KEYS), row["a_share"], row["b_share"]) for row in spots[view]
    )
    return Table(f"categories-{view}", title, columns, rows)


_TIMES = (Column("A", "time_ns", group="time"), Column("B", "time_ns", group="time"),
          Column("B - A", "time_ns", keep=True, group="time"))  # fmt: skip
_TIME_KEYS = ("a_ns", "b_ns", "difference_ns")


def _hotspots(document: Document) -> Section | None:
    spots = document["hotspots"]
    if spots is None:
        return None
    columns = (Column("function", "name", keep=True), Column("category"), *_TIMES,
               Column("by calls", "time_ns", group="time"), Column("by length", "time_ns", group="time"),
               Column("A calls", "number"),
               Column("B calls", "number"), Column("paired by"))  # fmt: skip
    rows = tuple(
        (
            " | ".join(row["names"]), row["category"],
            *(row[key] for key in (*_TIME_KEYS, "calls_ns", "length_ns", "a_calls", "b_calls")),
            row["matched"] or ("only in A" if row["b_ns"] is None else "only in B"),
        )
        for row in spots["rows"]
    )  # fmt: skip
    text = (
        "Functions, the greatest difference first; n/a where a profile has none. Paired by name; those left over by "
        "the name without its numbers, or by its shape, within a category. Those pairs are guesses: architectures and "
        "library versions name the same work otherwise. By calls: what a pair would differ by if each call took as "
        "long as the mean of both; by length: the rest."
    )
    caption = f"Functions: time and calls {_per(spots)}, and the difference"
    table = Table("hotspots-table", caption, columns, rows, more=compare_command(document))
    return Section("hotspots", "Hotspots", (Text(text), Facts(_matched(spots)), table))


def _matched(spots: Mapping[str, Any]) -> tuple[Fact, ...]:
    facts = (
        Fact("A with a partner", spots["matched_share"][0], "share", hint="of A's time"),
        Fact("B with a partner", spots["matched_share"][1], "share", hint="of B's time"),
        Fact("Of that by whole names", spots["by_name_share"], "share"),
    )
    parts = spots["parts"]
    if parts is None:
        return facts
    return (
        *facts,
        Fact("B - A by calls", parts["calls_ns"], "time_ns", hint="of pairs: how often a function runs"),
        Fact("B - A by length", parts["length_ns"], "time_ns", hint="of pairs: how long a call takes"),
        *((Fact("B - A without calls", parts["uncounted_ns"], "time_ns", hint="of pairs whose calls are not known"),)
          if parts["uncounted_ns"] else ()),
        Fact("Only in A", parts["only_a_ns"], "time_ns", hint="functions without a partner in B"),
        Fact("Only in B", parts["only_b_ns"], "time_ns", hint="functions without a partner in A"),
    )  # fmt: skip


# --- what is missing, and where it comes from -------------------------------------------------------------------------


def _notes(document: Document) -> Section:
    lines = [NoteLine(row["about"], fmt.prose(row["text"])) for row in document["missing"]]
    if document["time"]["reason"]:
        lines.append(NoteLine("time", fmt.prose(document["time"]["reason"])))
    body: Block = Notes(tuple(lines)) if lines else Text("Nothing is missing on one side only.")
    return Section("notes", "What is missing or doubtful", (body,))


def _provenance(document: Document) -> Section:
    blocks: list[Block] = []
    for side in "ab":
        found = document[side]
        if found["command"]:
            blocks.append(Command(f"{side.upper()}, {found['run'] or 'not saved'}", fmt.command(found["command"])))
    blocks.append(Command("The comparison as JSON", compare_command(document)))
    return Section("provenance", "Provenance", tuple(blocks))


SECTIONS: tuple[Callable[[Document], Section | None], ...] = (
    _conditions, _time, _categories, _hotspots, amounts.operators, amounts.work, amounts.memory, amounts.activity,
    amounts.counters, amounts.trainings, _notes, _provenance,
)  # fmt: skip
"""In reading order; a section that has nothing to say is None."""
