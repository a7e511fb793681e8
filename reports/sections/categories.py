"""The same time by category: the paper's eight, the full list, and what neither knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench import kernels
from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Bar, BarPanel, Bars
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, Section, SideBySide, Table, Text
from wcbench.reports.sections._common import Summary, block, descending, mapping, measured, notes_blocks

VIEWS = (("paper", "Paper's view"), ("full", "Full view"))
UNKNOWN = "unknown"
NAMES_SHOWN = 10


def section(summary: Summary) -> Section | None:
    """Both views side by side, with the unknown and the Python share always printed."""
    part = block(summary, "categories")
    if part is None:
        return None
    of = str(part.get("of") or "time")
    blocks: list[Block] = [
        Text(
            f"Shares of {of} by category. The paper's view has AIBench Training's eight categories and what falls "
            f"outside them.{_folded(part)} The full view refines it; the sentences at the head of a report speak of "
            f"the full view. {measured(part)}"
        ),
        Facts(_facts(part)),
    ]
    if any(descending(part.get(view)) for view, _ in VIEWS):
        blocks += [_figure(part, of), SideBySide(tuple(_table(part, view, title) for view, title in VIEWS))]
    if part.get("phases"):
        blocks.append(_phases(part, of))
    if part.get("unknown_names"):
        blocks.append(_unknown(part))
    return Section("categories", "Categories", (*blocks, *notes_blocks(summary, "categories")))


def _folded(part: Mapping[str, Any]) -> str:
    """Which of the full categories with time the paper's view counts under another name."""
    there = [name for name, share in descending(part.get("full")) if share and name in kernels.FULL]
    inside: dict[str, list[str]] = {}
    for name in there:
        if kernels.FULL[name] in kernels.PAPER and kernels.FULL[name] != name:
            inside.setdefault(kernels.FULL[name], []).append(name)
    told = "; ".join(f"{_and(names)} in {paper}" for paper, names in inside.items())
    return f" The paper's view folds others into its eight: {told}." if told else ""


def _and(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]


def _facts(part: Mapping[str, Any]) -> tuple[Fact, ...]:
    python = part.get("python_share")
    hint = "of the step's wall time, outside every operator"
    if python is None:
        hint = "not defined where kernels run on a device or no steps are marked; otherwise see the notes"
    return (
        Fact("Unknown share", part.get("unknown_share"), "share", hint="of the time above; no rule matched the name"),
        Fact("Python share", python, "share", hint=hint),
    )


def _figure(part: Mapping[str, Any], of: str) -> Figure:
    panels = tuple(
        BarPanel(title, tuple(Bar(name, name, value) for name, value in descending(part.get(view)) if value > 0))
        for view, title in VIEWS
    )
    said = " ".join(
        f"{panel.title}: " + ", ".join(f"{fmt.prose(bar.name)} {fmt.share(bar.share)}" for bar in panel.bars) + "."
        for panel in panels
        if panel.bars
    )
    return Figure(
        "categories-figure",
        f"Share of {of} by category in both views; a category has the same colour wherever it appears.{_folded(part)}",
        f"Horizontal bars, share of {of}. {said}",
        Bars(f"share of {of} (%)", panels),
    )


def _table(part: Mapping[str, Any], view: str, title: str) -> Table:
    """All of the paper's categories; of the many full ones those with time, and how much is unknown."""
    shares = descending(part.get(view))
    if view == "full":
        title = f"{title}, categories with time"
        shares = [(name, value) for name, value in shares if value > 0 or name == UNKNOWN]
    return Table(f"categories-{view}", title, (Column("category"), Column("share", "share")), tuple(shares))


def _phases(part: Mapping[str, Any], of: str) -> Table:
    columns = (Column("phase"), Column("share", "share"))
    if None in mapping(part.get("phases")).values():
        of = f"{of} by phase; n/a: the file does not tell it, or none ran"
        return Table("categories-phases", f"Share of {of}", columns, tuple(mapping(part.get("phases")).items()))
    return Table("categories-phases", f"Share of {of} by phase", columns, tuple(mapping(part.get("phases")).items()))


def _unknown(part: Mapping[str, Any]) -> Text:
    names = fmt.apart([str(name) for name in part["unknown_names"]], 80)
    more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return Text(f"Names that no rule matched: {', '.join(names[:NAMES_SHOWN])}{more}.")
