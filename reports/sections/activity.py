"""How busy each device was, with what, and how much of the communication hides behind computation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Bar, BarPanel, Bars
from wcbench.reports.model import Block, Column, Figure, NoteLine, Notes, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

FIGURES, PANELS = 4, 2
STREAM_ROWS = 20
IDLE = "idle"

_DEVICE = (
    ("rank", Column("rank", "count", keep=True)),
    ("device", Column("device", keep=True)),
    ("calls", Column("executions", "count")),
    ("sum_ns", Column("times added up", "time_ns", group="time")),
    ("span_ns", Column("span", "time_ns", group="time")),
    ("utilization", Column("busy", "share", keep=True)),
    ("concurrency", Column("at once", "number")),
    ("computation_ns", Column("computation", "time_ns", keep=True, group="time")),
    ("communication_ns", Column("communication", "time_ns", keep=True, group="time")),
    ("copy_ns", Column("copies", "time_ns", group="time")),
    ("overlap_share", Column("hidden", "share", keep=True)),
    ("no_timestamp", Column("no timestamp", "count")),
)
_STREAM = (
    ("rank", Column("rank", "count")),
    ("device", Column("device")),
    ("stream", Column("stream", "text")),
    ("calls", Column("executions", "count")),
    ("sum_ns", Column("times added up", "time_ns", group="time")),
    ("span_ns", Column("span", "time_ns", group="time")),
    ("utilization", Column("busy", "share")),
    ("concurrency", Column("at once", "number")),
)


def section(summary: Summary) -> Section | None:
    """Devices as bars and in a table, streams in another, and what the figures leave out."""
    part = block(summary, "activity")
    if part is None:
        return None
    devices, streams = rows(part.get("devices")), rows(part.get("streams"))
    more = show_command(summary, "activity")
    shown = [(field, c) for field, c in _DEVICE if field != "no_timestamp" or any(row.get(field) for row in devices)]
    caption = (
        "Devices; copies are the driver's copies and fills, computation is all other work; hidden is the share of "
        "communication that runs beside computation"
    )
    blocks: list[Block] = [
        Text(_intro(part)),
        *_figure(devices),
        Table("activity-devices", caption, tuple(c for _, c in shown), _cells(devices, shown), more=more),
        Table(
            "activity-streams",
            "Streams",
            tuple(c for _, c in _STREAM),
            tuple(_stream(row) for row in streams),
            STREAM_ROWS,
            more,
        ),
    ]
    notes = tuple(NoteLine("activity", fmt.prose(text)) for text in part.get("notes") or ())
    blocks += [Notes(notes)] if notes else []
    return Section("activity", "Activity", (*blocks, *notes_blocks(summary, "activity")))


def _intro(part: Mapping[str, Any]) -> str:
    busy = part.get("utilization")
    share = "" if busy is None else f"Devices had something running for {fmt.share(busy)} of their span. "
    if part.get("hidden_share") is not None:
        share += f"{fmt.share(part['hidden_share'])} of the communication is hidden behind computation. "
    return (
        f"{share}The span goes from the first start to the last end on a device, in steps or not; busy, computation, "
        f"communication and copies are times on the clock, in which what overlaps counts once. {measured(part)}"
    )


def _cells(listed: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, Column]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row.get(field) for field, _ in columns) for row in listed)


def _stream(row: Mapping[str, Any]) -> tuple[Any, ...]:
    cells = [row.get(field) for field, _ in _STREAM]
    cells[2] = None if row.get("stream") is None else str(row["stream"])  # a name, not an amount: no separators
    return tuple(cells)


def _figure(devices: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """What ran together, as shares of each device's span; two devices a figure, which is as wide as a page."""
    found = [panel for panel in (_panel(row, len(devices) > 1) for row in devices) if panel.bars]
    for number in range(min(FIGURES, -(-len(found) // PANELS))):
        panels = tuple(found[PANELS * number : PANELS * (number + 1)])
        said = " ".join(_said(panel) for panel in panels)
        last = PANELS * (number + 1) == PANELS * FIGURES < len(found)
        left = f" {len(found) - PANELS * FIGURES} more devices are in the table alone." if last else ""
        yield Figure(
            f"activity-figure-{number + 1}",
            f"Share of the span in which exactly this ran.{left}",
            f"Horizontal bars, share of each device's span. {said}",
            Bars("share of the span (%)", panels),
        )


def _said(panel: BarPanel) -> str:
    bars = ", ".join(f"{bar.name} {fmt.share(bar.share)}" for bar in panel.bars)
    return f"{panel.title}: {bars}." if panel.title else f"{bars}."


def _panel(row: Mapping[str, Any], several: bool) -> BarPanel:
    bars = []
    for group in sorted(rows(row.get("groups")), key=lambda group: -float(group.get("span_share") or 0)):
        name = " + ".join(str(part) for part in group.get("active") or ()) or IDLE
        if group.get("span_share"):
            bars.append(Bar(name, name, float(group["span_share"])))
    return BarPanel(fmt.prose(f"{row.get('device')}, rank {row.get('rank')}") if several else "", tuple(bars))
