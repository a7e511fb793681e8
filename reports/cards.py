"""Cards: how results other than a profile show themselves in a notebook.

One small frozen form, filled by a function for each class that has more to say than its `repr` and its frame. Cells
are the frame's own values, rounded as everywhere; headings are its columns, by which the frame is worked with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wcbench.reports import format as fmt

ROWS = 8
COLUMNS = 7
CELL_WIDTH = 48
LINES = 6
LARGE = 1e6
WORDS = 600
"""Characters of a sentence on a card."""


@dataclass(frozen=True)
class CardTable:
    """The first rows and columns of a frame as text; ``right`` says which columns hold numbers."""

    heads: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    left_out: str = ""
    """What is not shown, and where it is."""


@dataclass(frozen=True)
class Card:
    """A title, sentences, labelled values, tables, and what to call next."""

    title: str
    lines: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[CardTable, ...] = ()
    more: tuple[str, ...] = ()


def result_html(result: Any) -> str:
    """A result as a fragment for a notebook cell. Needs no other style."""
    from wcbench.reports.html import environment

    return environment().get_template("card.html").render(card=card(result))


def card(result: Any) -> Card:
    """The card of a result: by its class, else of its `repr` and its frame."""
    make = next((_CARDS[base.__name__] for base in type(result).__mro__ if base.__name__ in _CARDS), _any)
    return make(result)


# --- tables -------------------------------------------------------------------------------------------------------


def table(
    frame: Any, caption: str = "", call: str = ".to_frame()", columns: Iterable[str] | None = None, beside: int = 0
) -> CardTable:
    """The first rows and columns of a frame; ``call`` gives the whole. ``columns`` : these, as far as it has them.

    ``beside`` : columns that need not be told as left out, since the card says them otherwise.
    """
    names = list(frame.columns) if columns is None else [name for name in columns if name in frame.columns]
    shown = [name for name in names if frame[name].notna().any()][:COLUMNS] or names[:COLUMNS]
    cells = [_column(name, frame[name].head(ROWS).tolist(), frame[name].dtype.kind) for name in shown]
    rows = max(0, len(frame) - ROWS)
    other = len(frame.columns) - len(shown) - beside
    hidden = [fmt.plural(rows, "row") if rows else "", fmt.plural(other, "column") if other else ""]
    words = " and ".join(word for word in hidden if word)
    return CardTable(
        heads=tuple(fmt.shorten(fmt.prose(name), CELL_WIDTH) for name in shown),
        right=tuple(right for _, right in cells),
        rows=tuple(zip(*(texts for texts, _ in cells), strict=True)),
        caption=caption,
        left_out=f"{words} more: {call}" if words else "",
    )


def _column(name: Any, values: list[Any], kind: str) -> tuple[list[str], bool]:
    """The cells, and whether they are numbers: shares in per cent, and columns with large numbers that are not whole
    with prefixes."""
    known = [value for value in values if not _absent(value)]
    numbers = kind in "iuf" or (bool(known) and all(_number(value) for value in known))
    if numbers and str(name).endswith("share") and all(0 <= value <= 1 for value in known):
        return [fmt.share(None if _absent(value) else value) for value in values], True
    if numbers and any(isinstance(value, float) and abs(value) >= LARGE for value in known):
        return [fmt.ABSENT if _absent(value) else fmt.si(value) for value in values], True
    return [_cell(value) for value in values], numbers


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType"


def _cell(value: Any) -> str:
    if _absent(value):
        return fmt.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return fmt.number(value)
    if isinstance(value, list | tuple | set | frozenset):
        return fmt.shorten(fmt.prose(", ".join(map(str, value))), CELL_WIDTH)
    return fmt.shorten(fmt.prose(value), CELL_WIDTH)


# --- any result ---------------------------------------------------------------------------------------------------


def _any(result: Any) -> Card:
    """What its `repr` says before the rows of its frame, and these."""
    head, *lines = repr(result).splitlines() or [type(result).__name__]
    has_frame = hasattr(result, "to_frame")
    told = itertools.takewhile(_is_sentence, lines) if has_frame else iter(lines)
    tables = (table(result.to_frame()),) if has_frame and len(result.to_frame().columns) else ()
    return Card(title=_words(head), lines=tuple(_few([_words(line) for line in told], LINES)), tables=tables)


def _is_sentence(line: str) -> bool:
    """Whether a line of a `repr` is words; rows of numbers come again in the table."""
    first = line.split(maxsplit=1)[:1]
    return bool(first) and not first[0].rstrip("%").replace(".", "", 1).replace(",", "").isdigit()


def _words(line: str) -> str:
    return fmt.shorten(fmt.prose(line.strip()), WORDS)


# --- by class -----------------------------------------------------------------------------------------------------


def _study(study: Any) -> Card:
    document = study.document
    found, cost = document["subset"], document.get("cost") or {}
    radius = document.get("radius") or {}
    how = "" if radius.get("how") in (None, "measured") else f" ({fmt.prose(radius['how'])})"
    facts = [("subset", f"{found['size']} of {fmt.plural(found['of'], 'workload')}")]
    facts.append(("radius", f"{fmt.number(found['radius'])}{how}"))
    if cost.get("saved") is not None:
        facts.append(("saves", f"{fmt.share(cost['saved'])} of {fmt.prose(cost.get('of') or 'the cost')}"))
    facts += [("against", fmt.prose((document.get("against") or {}).get("title") or ""))]
    columns = ("workload", "covered_by", "member", "distance", "cluster", "frequency", "cost")
    frame = study.to_frame()
    if "member" in frame:
        frame = frame.sort_values("member", kind="stable")
    return Card(
        title=fmt.prose(f"Study of {document['title']}"),
        lines=tuple(map(_words, study.answer)),
        facts=tuple((label, value) for label, value in facts if value),
        tables=(table(frame, "Who stands for whom", columns=columns),),
        more=('.figure("map")', ".figures()", ".tables", "wcbench.report(study, FILE)"),
    )


def _categories(found: Any) -> Card:
    """Both views side by side would be one long list of zeros: what has time, longest first."""
    frame = found.to_frame()
    tables = []
    for view in dict.fromkeys(frame["view"]):
        own = frame[(frame["view"] == view) & (frame["share"] > 0)].sort_values("share", ascending=False)
        caption = "In the paper's categories" if view == "paper" else f"In the {view} view"
        tables.append(table(own, caption, ".to_frame()", ("category", "share"), beside=1))
    return Card(title=_words(repr(found).splitlines()[0]), tables=tuple(tables))


def _placement(placement: Any) -> Card:
    bound = "" if placement.complete else " (lower bounds: not everything could be compared)"
    made = placement.contributions()
    made = made[made["squared"] > 0]
    tables = [table(placement.to_frame(), f"Nearest workloads{bound}")]
    if len(made):
        columns = ("feature", "value", "other", "unit", "share")
        caption = fmt.prose(f"What sets it apart from {placement.against}")
        tables.append(table(made, caption, ".contributions()", columns))
    lacking = [f"Not told by the record: {name}: {reason}" for name, reason in placement.missing.items()]
    unseen = [f"Not seen by the space: {name}: {reason}" for name, reason in placement.unseen.items()]
    return Card(
        title=fmt.prose(f"{placement.workload} in {placement.reference.id}"),
        lines=tuple(map(_words, [placement.sentence, *_few(lacking), *_few(unseen), *placement.remarks])),
        tables=tuple(tables),
    )


def _subset(subset: Any) -> Card:
    columns = ("workload", "member", "covered_by", "distance", "core", "share_of_optima", "cost")
    lines = [line for line in repr(subset).splitlines()[1:] if line.strip() != ", ".join(subset.members)]
    return Card(
        title="Subset",
        lines=tuple(map(_words, [subset.verdict, *lines])),
        tables=(table(subset.to_frame(), columns=columns),),
        more=(".curve", ".certificate"),
    )


def _diversity(panel: Any) -> Card:
    head, *_ = repr(panel).splitlines()
    columns = ("question", "measure", "a", "b", "ratio", "low", "high")
    caption = fmt.prose(f"a is {panel.verdict.labels[0]}, b is {panel.verdict.labels[1]}")
    tables = (table(panel.to_frame(), caption, columns=columns),)
    return Card(title=_words(head), lines=tuple(map(_words, panel.sentences)), tables=tables)


def _comparison(comparison: Any) -> Card:
    if comparison.panel is None:
        return Card(title=_words(comparison.title), lines=(_words(f"Not made: {comparison.reason}"),))
    made = _diversity(comparison.panel)
    about = (_words(comparison.about),) if comparison.about else ()
    return Card(_words(comparison.title), (*about, *made.lines), made.facts, made.tables, (".panel",))


def _frame_of_workloads(result: Any) -> Card:
    """Feature tables and spaces: their `repr`, and a corner of the frame with the workloads' names."""
    head, *lines = repr(result).splitlines()
    frame = result.to_frame()
    named = frame.rename_axis("workload").reset_index() if "workload" not in frame.columns else frame
    return Card(title=_words(head), lines=tuple(_few([_words(line) for line in lines], LINES)), tables=(table(named),))


def _sweep(sweep: Any) -> Card:
    title = fmt.prose(f"Sweep of {sweep.task or 'a task'} over {', '.join(sweep.varied) or 'nothing'}")
    frame = sweep.to_frame()
    known = [name for name in frame.columns if name != "run" and frame[name].notna().any()]
    return Card(title, tables=(table(frame[known]),), more=(".figures()", '.figure("sweep-samples-per-s")'))


def _diff(diff: Any) -> Card:
    """The answer, and the functions that differ most; times in the table are those of the frame."""
    a, b = (fmt.prose(diff.document[side]["label"]) for side in "ab")
    frame = diff.to_frame()
    columns = ("name", "category", "a_ns", "b_ns", "difference_ns", "a_share", "b_share")
    tables = (table(frame, "Functions, greatest difference first", columns=columns),) if len(frame) else ()
    more = (".figures()", ".document", "wcbench.report(a, against=b)")
    return Card(f"A = {a}, B = {b}", tuple(map(_words, diff.answer)), tables=tables, more=more)


def _few(texts: list[str], most: int = 3) -> Iterator[str]:
    yield from texts[:most]
    if len(texts) > most:
        yield f"... and {len(texts) - most:,} more."


_CARDS: Mapping[str, Callable[[Any], Card]] = {
    "Categories": _categories,
    "Study": _study,
    "Placement": _placement,
    "Subset": _subset,
    "Diff": _diff,
    "Diversity": _diversity,
    "Comparison": _comparison,
    "FeatureTable": _frame_of_workloads,
    "Placed": _frame_of_workloads,
    "Space": _frame_of_workloads,
    "Sweep": _sweep,
}
"""What has a card of its own, by class: the classes themselves are loaded with the objects."""
