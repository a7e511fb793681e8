"""Counters: AIBench's five over all kernels, and every value by kernel and metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.model import Block, Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, mapping, measured, notes_blocks, rows, show_command

TABLE_ROWS = 40
NAMES_SHOWN = 8
_FIVE = (
    Column("counter"),
    Column("value", "share"),
    Column("of the executions", "share"),
    Column("made of, or why not"),
)
_COLUMNS = (
    ("metric", Column("metric")),
    ("value", Column("mean", "number")),  # before the kernel, so that a phone shows both without scrolling
    ("unit", Column("unit")),
    ("kernel", Column("kernel", "name")),
    ("minimum", Column("least", "number")),
    ("maximum", Column("most", "number")),
    ("calls", Column("executions", "count")),
    ("missing", Column("without a value", "count")),
)


def section(summary: Summary) -> Section | None:
    """The five first, then all of them."""
    part = block(summary, "counters")
    if part is None:
        return None
    listed, more = rows(part.get("rows")), show_command(summary, "counters")
    cells = tuple(tuple(row.get(field) for field, _ in _COLUMNS) for row in listed)
    columns = tuple(column for _, column in _COLUMNS)
    blocks: list[Block] = [Text(_intro(part, listed))]
    five = mapping(part.get("five"))
    if five:
        caption = "AIBench Training's five over all profiled kernels, each execution counting once"
        blocks.append(Table("counters-five", caption, _FIVE, tuple(_figure(*item) for item in five.items())))
    blocks.append(Table("counters-table", "Counters by kernel and metric", columns, cells, TABLE_ROWS, more))
    if part.get("unknown"):
        blocks.append(_unknown(part["unknown"]))
    return Section("counters", "Counters", (*blocks, *notes_blocks(summary, "counters")))


def _intro(part: Mapping[str, Any], listed: Any) -> str:
    kernels, metrics = (len({row.get(key) for row in listed}) for key in ("kernel", "metric"))
    formulas = part.get("hardware") is False
    meaning = "By PyProf's formulas on the operators' arguments, no counters of the hardware. " if formulas else ""
    return (
        f"{meaning}{fmt.plural(metrics, 'metric')} of {fmt.plural(kernels, 'kernel')}, as means over executions, each "
        f"counting once. {measured(part)}"
    )


def _figure(name: str, figure: Any) -> tuple[Any, ...]:
    told = mapping(figure)
    words = [str(told.get(key)) for key in ("metric", "remark", "reason") if told.get(key)]
    return name, told.get("value"), told.get("coverage") if told.get("value") is not None else None, "; ".join(words)


def _unknown(names: Any) -> Text:
    shown = fmt.apart([str(name) for name in names], 80)
    more = f", and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return Text(f"Metrics under the file's own names: {', '.join(shown[:NAMES_SHOWN])}{more}.")
