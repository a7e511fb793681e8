"""Memory over time by category of tensor, from torch's memory timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import LiveCurve
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, descending, mapping, measured, notes_blocks


def section(summary: Summary) -> Section | None:
    """The peak, when it was, and what it consists of."""
    part = block(summary, "allocations")
    if part is None:
        return None
    blocks: list[Block] = [
        Text(
            "Bytes of tensors' storages in use, without the allocator's rounding and reserve; times count from the "
            f"first event. Rank {part.get('rank')}, {fmt.plural(part.get('moments') or 0, 'moment')}. {measured(part)}"
        ),
        Facts(tuple(_facts(part))),
        *_figure(part),
    ]
    start = mapping(part.get("start_categories"))
    cells = tuple((name, value, start.get(name)) for name, value in descending(part.get("peak_categories")))
    columns = (Column("category"), Column("at the peak", "bytes"), Column("at the start", "bytes"))
    blocks.append(Table("allocations-table", "What the peak consists of", columns, cells))
    return Section("allocations", "Memory timeline", (*blocks, *notes_blocks(summary, "allocations")))


def _figure(part: Mapping[str, Any]) -> Iterator[Figure]:
    """Bytes over time, the largest category at the foot of the stack."""
    moments, curve = tuple(part.get("time_ns") or ()), mapping(part.get("curve"))
    if len(moments) < 2:
        return
    classes = sorted(((str(name), tuple(values)) for name, values in curve.items()), key=lambda item: -max(item[1]))
    known = [(name, values) for name, values in classes if any(values)]
    said = ", ".join(f"{fmt.prose(name)} {fmt.binary_bytes(max(values))}" for name, values in known)
    more = "" if len(moments) == part.get("moments") else f" of {fmt.count(part.get('moments'))}"
    yield Figure(
        "allocations-figure",
        f"Bytes in use by category at {len(moments)}{more} moments, the peak among them; the categories stack.",
        f"Stacked areas over time, peak {fmt.binary_bytes(part.get('peak_bytes'))}. Most of each: {said}.",
        LiveCurve(moments, tuple(known), timed=True),
    )


def _facts(part: Mapping[str, Any]) -> Iterator[Fact]:
    when = part.get("peak_ns")
    hint = "" if when is None else f"{fmt.show(when, 'time_ns')} after the first event"
    yield Fact("Peak", part.get("peak_bytes"), "bytes", hint=hint)
    yield Fact("At the start", part.get("start_bytes"), "bytes")
    yield Fact("At the end", part.get("end_bytes"), "bytes")
