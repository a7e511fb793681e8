"""How much the subset depends on which workloads were there, and on which features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Fact, Facts, NoteLine, Section, Table, Text
from wcbench.reports.sections._common import mapping, rows
from wcbench.reports.study._common import View, absent, csv, joined


def section(view: View) -> Section | NoteLine:
    """Draws of 80 % of the workloads; and the subset without each block of features."""
    part = view.part("stability")
    if not part or part.get("reason"):
        return absent("stability", part.get("reason") or "it was not worked out for a study of this size")
    blocks: list[Block] = [Text(_intro(view)), Facts(tuple(_facts(view))), *_sizes(view), *_frequency(view)]
    return Section("stability", "Stability", (*blocks, *_blocks(view)))


def _intro(view: View) -> str:
    part = view.part("stability")
    frequency = mapping(part.get("frequency"))
    always = [name for name, share in frequency.items() if share == 1]
    never = [name for name, share in frequency.items() if share == 0]
    told = [f"Chosen in every draw: {joined(always)}." if always else "No workload is chosen in every draw."]
    told += [f"Never chosen: {joined(never)}."] if never else []
    return (
        f"The cover was solved again on {fmt.count(part.get('draws'))} {fmt.prose(part.get('of') or 'draws')}, drawn "
        f"without replacement. {' '.join(told)}"
    )


def _facts(view: View) -> Iterator[Fact]:
    part = view.part("stability")
    yield Fact("Jaccard with the subset", part.get("jaccard"), "share", hint="mean; of the subset only who was drawn")
    yield Fact("Jaccard between draws", part.get("jaccard_between"), "share", hint="mean over all pairs of draws")
    yield Fact("Undecided pairs", part.get("pac"), "share", hint="under one member in 10 to 90 % of the draws (PAC)")
    yield Fact("Draws", part.get("draws"), "count", hint=f"seed {part.get('seed')}")


def _sizes(view: View) -> Iterator[Table]:
    cells = tuple((size, count) for size, count in mapping(view.part("stability").get("sizes")).items())
    if cells:
        columns = (Column("members", "text"), Column("draws", "count"))
        yield Table("stability-sizes", "Size of the smallest subset over the draws", columns, cells)


def _frequency(view: View) -> Iterator[Table]:
    """Only those of whom the draws do not agree."""
    found = mapping(view.part("stability").get("frequency"))
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (name, view.mark(name), share)
        for name, share in sorted(found.items(), key=lambda item: (-(item[1] or 0), item[0]))
        if share not in (0, 1)
    )
    if cells:
        columns = (Column("workload", "name", keep=True), Column("chosen"), Column("frequency", "share"))
        caption = "Workloads of whom the draws do not agree: share of the draws with it in which it is chosen"
        cells = tuple((name, mark or "no", share) for name, mark, share in cells)
        yield Table("stability-frequency", caption, columns, cells, more=csv("subset"))


def _names(found: set[str] | frozenset[str]) -> str:
    return joined(sorted(found)) if found else ""


def _blocks(view: View) -> Iterator[Block]:
    found = rows(view.part("stability").get("blocks"))
    members = view.members
    cells: tuple[tuple[Any, ...], ...] = tuple(
        (
            row.get("block"),
            row.get("radius"),
            row.get("k"),
            row.get("jaccard"),
            _names(members - {*map(str, row.get("members") or ())}),
            _names({*map(str, row.get("members") or ())} - members),
        )
        for row in found
    )
    if not cells:
        yield Text("No block of features was left out: there is none that could be, or the study is an older one.")
        return
    columns = (
        Column("without block", keep=True),
        Column("radius", "number"),
        Column("members", "count"),
        Column("Jaccard", "share"),
        Column("no longer"),
        Column("instead"),
    )
    caption = "The subset without each block of features, at the radius of that space"
    yield Table("stability-blocks", caption, columns, cells, more=csv("blocks"))
