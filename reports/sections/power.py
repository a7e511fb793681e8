"""Power and energy of each device during the timed steps."""

from __future__ import annotations

from wcbench.reports.model import Block, Column, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

COLUMNS = (
    ("device", Column("device", "count")),
    ("samples", Column("readings", "count")),
    ("seconds", Column("time", "time_s")),
    ("watts_mean", Column("power, mean", "number", "W")),
    ("watts_max", Column("power, max", "number", "W")),
    ("energy_counter_j", Column("energy, counter", "si", "J")),
    ("energy_integrated_j", Column("energy, integrated", "si", "J")),
    ("energy_per_sample_j", Column("energy per sample", "number", "J")),
    ("utilization_mean", Column("utilization", "share")),
    ("memory_used_bytes_max", Column("memory, max", "bytes")),
    ("sm_clock_hz_mean", Column("clock, mean", "si", "Hz")),
    ("temperature_c_max", Column("temperature, max", "number", "°C")),
)


def section(summary: Summary) -> Section | None:
    """One row a device. Counter and integral of the energy stand side by side because they may disagree."""
    part = block(summary, "power")
    if part is None:
        return None
    cells = tuple(tuple(row.get(field) for field, _ in COLUMNS) for row in rows(part.get("devices")))
    blocks: list[Block] = [Text(measured(part) if cells else f"No device reported its power. {measured(part)}")]
    if cells:
        caption = "Telemetry during the measured steps; the counter is the device's own, the integral that of its power"
        columns = tuple(column for _, column in COLUMNS)
        blocks.append(Table("power-table", caption, columns, cells, more=show_command(summary, "power")))
    return Section("power", "Power", (*blocks, *notes_blocks(summary, "power")))
