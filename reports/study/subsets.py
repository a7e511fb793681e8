"""The subset against the other suite, and against that suite's own subset of equal size, in the same space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import Row, View, absent, joined


def section(view: View) -> Section | NoteLine:
    """What each comparison says, and one table of their verdicts."""
    found = [one for one in rows(view.document.get("comparisons")) if one.get("id") in ("subset", "subsets")]
    alone = view.alone("subsets")
    if not found:
        return alone or absent("subsets", "no subsets were compared")
    blocks: list[Block] = [Text(about(one)) for one in found]
    new = _new([one for one in found if one.get("id") == "subset"])
    return Section("subsets", f"The subset against {view.against}", (*blocks, *new, *table("subsets-verdicts", found)))


def about(one: Row) -> str:
    """A comparison in words: what it is of; its verdict is in the table."""
    title, what = fmt.prose(one.get("title")), fmt.prose(one.get("about") or "")
    if one.get("reason"):
        return f"{title[:1].upper()}{title[1:]}: not compared, {fmt.prose(one['reason'])}"
    return f"{title[:1].upper()}{title[1:]}{f': {what}' if what else ''}."


def table(name: str, found: Sequence[Row]) -> Iterator[Table]:
    """The verdicts of some comparisons."""
    known = [one for one in found if one.get("verdict")]
    columns = (
        Column("compared", keep=True),
        Column("n", "count"),
        Column("n, other", "count"),
        Column("dispersion ratio", "number", keep=True),
        Column("low", "number"),
        Column("high", "number"),
        Column("p", "number"),
        Column("favours"),
    )
    fields = ("n_a", "n_b", "dispersion_ratio", "low", "high", "p")
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (
            fmt.prose(one.get("title")),
            *(mapping(one["verdict"]).get(field) for field in fields),
            fmt.prose(one.get("favours") or mapping(one["verdict"]).get("reason") or "not told apart"),
        )
        for one in known
    )
    if cells:
        caption = "Verdicts per task; low and high: jackknife 95 %"
        yield Table(name, caption, columns, cells)


def _new(found: Sequence[Row]) -> Iterator[Text]:
    for one in found:
        for side in rows(one.get("novelty")):
            if side.get("novel") is not None:
                count = f"{len(side['novel'])} of {fmt.count(side.get('size'))}"
                names = f": {joined(side['novel'])}" if side["novel"] else ""
                of, to = fmt.prose(side.get("of")), fmt.prose(side.get("to"))
                yield Text(f"{count} tasks of {of} are further than r* from every task of {to}{names}.")
