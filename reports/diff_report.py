"""The report of two profiles compared, built from its document (docs/diff.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wcbench.errors import RecordError
from wcbench.reports import format as fmt
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
    SideBySide,
    Table,
    Text,
)

Document = Mapping[str, Any]
SCHEMA = "wcbench.diff/1"
CATEGORIES_DRAWN = 12


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
        lead=tuple(fmt.prose(sentence) for sentence in document["answer"]),
        sections=tuple(section for section in sections if section is not None),
        provenance=fmt.prose(f"A recorded {_when(a)}, B recorded {_when(b)}; {SCHEMA}."),
    )


def _when(side: Mapping[str, Any]) -> str:
    return f"{str(side['created'])[:16].replace('T', ' ')} UTC"


def _conditions(document: Document) -> Section:
    rows = [(name, _text(row["a"]), _text(row["b"])) for name, row in _unlike(document)]
    blocks: list[Block] = [Text("What was unlike. A difference below may come from any of it.")]
    columns = (Column("what", keep=True), Column("A"), Column("B"))
    if rows:
        blocks.append(Table("conditions-table", "Settings and machine that differ", columns, tuple(rows)))
    else:
        blocks = [Text("Both were run alike: no setting that is recorded, and nothing of the machine, differs.")]
    return Section("conditions", "Conditions", tuple(blocks))


def _unlike(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in document["conditions"]:
        yield str(row["what"]).replace("_", " "), row
    for row in document["machine"]:
        yield f"machine: {row['what']}", row


def _text(value: Any) -> str:
    return fmt.ABSENT if value is None else fmt.prose(str(value))


def _time(document: Document) -> Section:
    time = document["time"]
    columns = (Column("profile"), Column("median", "time_ms"), Column("low", "time_ms"), Column("high", "time_ms"),
               Column("samples/s", "number"))  # fmt: skip
    rows = tuple(
        (
            f"{side.upper()}: {fmt.prose(document[side]['label'])}",
            *(time[f"{side}{part}_ms"] for part in ("", "_low", "_high")),
            time[f"{side}_samples_per_s"],
        )
        for side in "ab"
    )
    told = {True: "yes", False: "no: the interval holds 1", None: None}[time["told_apart"]]
    facts = (
        Fact(f"B / A, time of a {document['per']}", time["ratio"], "number", hint=_interval(time)),
        Fact("Told apart", told, hint=time["reason"] or "whether the 95 % interval leaves out 1"),
    )
    table = Table("time-table", "Median time of a step with its 95 % interval by order statistics", columns, rows)
    noise = [NoteLine(side.upper(), fmt.prose(text)) for side in "ab" for text in document[side]["noise"]]
    return Section("time", "Time of a step", (Facts(facts), table, *((Notes(tuple(noise)),) if noise else ())))


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return row.get("reason") or "no interval"
    return f"95 % interval {fmt.number(row['low'])} to {fmt.number(row['high'])}"


# --- where the time differs -------------------------------------------------------------------------------------------


def _categories(document: Document) -> Section | None:
    spots = document["hotspots"]
    if spots is None:
        return None
    per = document["per"]
    unlike = "" if spots["unlike"] is None else f" The two times are of different kinds: {spots['unlike']}."
    blocks: list[Block] = [
        Text(
            f"Time by category of a {per}, and the difference B - A. Differences of one view add up to that of the "
            f"whole.{unlike}"
        ),
        Facts(
            (
                Fact("A in all", spots["total_a_ns"], "time_ns", hint=f"{spots['of'][0]} of a {per}"),
                Fact("B in all", spots["total_b_ns"], "time_ns", hint=f"{spots['of'][1]} of a {per}"),
                Fact("B - A", spots["difference_ns"], "time_ns"),
            )
        ),
        _shares(spots),
        _contributions(spots, per),
        SideBySide(tuple(_category_table(spots, view, title) for view, title in VIEWS)),
    ]
    return Section("categories", "Categories", tuple(blocks))


VIEWS = (("full", "Full view"), ("paper", "Paper's view"))


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
    rows = [row for row in spots["full"] if row["difference_ns"]][:CATEGORIES_DRAWN]
    said = "; ".join(f"{fmt.prose(row['category'])} {fmt.show(row['difference_ns'], 'time_ns')}" for row in rows)
    return Figure(
        "categories-difference",
        f"What each category adds to the difference of a {per}, B - A; left of 0 B takes less.",
        f"Dots left and right of 0: {said or 'none'}.",
        Intervals(
            Axis("B - A (ms)"), tuple(Interval(row["category"], row["difference_ns"] / 1e6) for row in rows), 0.0
        ),
    )


def _category_table(spots: Mapping[str, Any], view: str, title: str) -> Table:
    columns = (Column("category", keep=True), *_TIMES, Column("A", "share"), Column("B", "share"))
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
    columns = (Column("function", "name", keep=True), Column("category"), *_TIMES, Column("A calls", "number"),
               Column("B calls", "number"), Column("paired by"))  # fmt: skip
    rows = tuple(
        (
            " | ".join(row["names"]), row["category"], *(row[key] for key in _TIME_KEYS),
            row["a_calls"], row["b_calls"],
            row["matched"] or ("only in A" if row["b_ns"] is None else "only in B"),
        )
        for row in spots["rows"]
    )  # fmt: skip
    text = (
        "Functions, the greatest difference first; n/a where a profile has none. Paired by name; those left over by "
        "the shape of their names within a category, which is a guess: architectures and library versions name the "
        "same work otherwise."
    )
    facts = (
        Fact("A with a partner", spots["matched_share"][0], "share", hint="of A's time"),
        Fact("B with a partner", spots["matched_share"][1], "share", hint="of B's time"),
        Fact("Of that by whole names", spots["by_name_share"], "share"),
    )
    caption = f"Functions: time and calls of a {document['per']}, and the difference"
    more = fmt.command(
        ["wcbench", "diff", str(document["a"]["run"] or "A"), str(document["b"]["run"] or "B"), "--json"]
    )
    return Section(
        "hotspots", "Hotspots", (Text(text), Facts(facts), Table("hotspots-table", caption, columns, rows, more=more))
    )


# --- amounts ----------------------------------------------------------------------------------------------------------


def _quantities(document: Document) -> Section:
    columns = (Column("quantity", keep=True), Column("unit"), Column("A", "si_each"), Column("B", "si_each"),
               Column("B / A", "number", keep=True), Column("note"))  # fmt: skip
    rows = tuple(
        (
            f"{row['name']} per {row['per']}" if row["per"] else row["name"], row["unit"] if row["unit"] != "1" else "",
            row["a"], row["b"], row["ratio"], row["reason"] or ("equal" if row["equal"] else ""),
        )
        for row in document["quantities"]
    )  # fmt: skip
    energy = document["energy"]
    facts = (
        Fact("Energy of A per sample", energy["a_j_per_sample"], "number", "J", hint=energy["reason"] or ""),
        Fact("Energy of B per sample", energy["b_j_per_sample"], "number", "J", hint=energy["reason"] or ""),
    )
    known = [row for row in rows if row[2] is not None or row[3] is not None]
    table = Table(
        "quantities-table", "Amounts of work and memory; 1 multiply-accumulate = 2 FLOP", columns, tuple(known)
    )
    return Section("quantities", "Work and memory", (table, *((Facts(facts),) if energy["reason"] is None else ())))


def _trainings(document: Document) -> Section | None:
    if not document["trainings"]:
        return None
    columns = (Column("benchmark", keep=True), Column("of"), Column("unit"), Column("A runs", "count"),
               Column("B runs", "count"), Column("A", "number"), Column("B", "number"), Column("B / A", "number"),
               Column("low", "number"), Column("high", "number"))  # fmt: skip
    keys = ("benchmark", "of", "unit", "a_runs", "b_runs", "a", "b", "ratio", "low", "high")
    rows = tuple(tuple(row[key] for key in keys) for row in document["trainings"])
    caption = "Medians over runs, to the last evaluation; B / A with its 95 % interval (n/a with fewer than six runs)"
    return Section("trainings", "Training to the target", (Table("trainings-table", caption, columns, rows),))


def _notes(document: Document) -> Section:
    lines = [NoteLine(row["about"], fmt.prose(row["text"])) for row in document["missing"]]
    lines += [NoteLine(row["name"], fmt.prose(f"Not compared: {row['reason']}.")) for row in document["quantities"]
              if row["a"] is None and row["b"] is None]  # fmt: skip
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
    sides = [str(document[side]["run"] or side.upper()) for side in "ab"]
    blocks.append(Command("The comparison as JSON", fmt.command(["wcbench", "diff", *sides, "--json"])))
    return Section("provenance", "Provenance", tuple(blocks))


SECTIONS: tuple[Callable[[Document], Section | None], ...] = (
    _conditions, _time, _categories, _hotspots, _quantities, _trainings, _notes, _provenance,
)  # fmt: skip
"""In reading order; a section that has nothing to say is None."""
