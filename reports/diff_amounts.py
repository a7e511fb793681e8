"""Sections of two profiles compared that show amounts: operators, work, memory, devices, counters, training runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.figure_data import CapacityCurves, Curve
from wcbench.reports.model import Block, Column, Fact, Facts, Figure, Section, Table, Text

Document = Mapping[str, Any]

WORK = ("complexity", "roofline")
MEMORY = ("memory", "measured_memory", "allocations")
ACTIVITY = ("activity", "hotspots", "categories", "power", "steps")
ROWS = 30


def compare_command(document: Document) -> str:
    """The command that prints the comparison in full."""
    sides = [str(document[side]["run"] or side.upper()) for side in "ab"]
    return fmt.command(["wcbench", "diff", *sides, "--json"])


def operators(document: Document) -> Section | None:
    """Device time by host operator, and calls of the runtime: of the whole records, since neither is told by step."""
    blocks: list[Block] = []
    if document["operators"]:
        said = "Operators have one name on every architecture, kernels have not. Greatest difference of shares first."
        blocks += [Text(said), _launched(document)]
    if document["runtime"]:
        blocks.append(_runtime(document))
    return Section("operators", "Operators and launches", tuple(blocks)) if blocks else None


def _launched(document: Document) -> Table:
    columns = (Column("operator", "name", keep=True), Column("A share", "share"), Column("B share", "share"),
               Column("A", "time_ns", group="time"), Column("B", "time_ns", group="time"),
               Column("A calls", "count"), Column("B calls", "count"), Column("category"))  # fmt: skip
    keys = ("name", "a_share", "b_share", "a_ns", "b_ns", "a_calls", "b_calls", "category")
    rows = tuple(tuple(row[key] for key in keys) for row in document["operators"])
    caption = "Device time by the operator that launched it: share of all device time, time and calls of the record"
    return Table("operators-table", caption, columns, rows, ROWS, compare_command(document))


def _runtime(document: Document) -> Table:
    columns = (Column("call", "name", keep=True), Column("A calls", "count"), Column("B calls", "count"),
               Column("A", "time_ns", group="time"), Column("B", "time_ns", group="time"))  # fmt: skip
    keys = ("name", "a_calls", "b_calls", "a_ns", "b_ns")
    rows = tuple(tuple(row[key] for key in keys) for row in document["runtime"])
    caption = "Calls of the device's runtime on the host, of the whole records"
    return Table("runtime-table", caption, columns, rows, ROWS, compare_command(document))


def work(document: Document) -> Section | None:
    """Counts of the operators pass: they depend on no machine."""
    table = _amounts(document, "work", WORK, "Amounts of work; 1 multiply-accumulate = 2 FLOP")
    return None if table is None else Section("work", "Work", (table,))


def memory(document: Document) -> Section | None:
    """Peaks, and what must be moved behind caches of any size."""
    table = _amounts(document, "memory", MEMORY, "Memory; what is modelled depends on no machine")
    blocks: list[Block] = [] if table is None else [table]
    rows = document["capacities"]
    if rows:
        per = f"of a {rows[0]['per']}"
        columns = (Column("cache", "bytes_each"), Column("A", "bytes", group="traffic"),
                   Column("B", "bytes", group="traffic"), Column("A misses", "share"),
                   Column("B misses", "share"))  # fmt: skip
        keys = ("capacity", "a_traffic", "b_traffic", "a_miss_ratio", "b_miss_ratio")
        cells = _changing(tuple(tuple(row[key] for key in keys) for row in rows))
        caption = f"Traffic {per} behind a cache, and the share of the accessed bytes that misses in it, modelled"
        caption += "; larger caches change nothing" if len(cells) < len(rows) else ""
        blocks += [_traffic(rows, per), Table("memory-capacities", caption, columns, cells, ROWS)]
    return Section("memory", "Memory", tuple(blocks)) if blocks else None


def _changing(cells: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
    """Without the last rows that repeat the one before them in all but the capacity."""
    end = len(cells)
    while end > 1 and cells[end - 1][1:] == cells[end - 2][1:]:
        end -= 1
    return cells[:end]


def _traffic(rows: Any, per: str) -> Figure:
    curves = tuple(
        Curve(side.upper(), tuple((row["capacity"], row[f"{side}_traffic"]) for row in rows)) for side in "ab"
    )
    first, last = rows[0], rows[-1]
    said = "; ".join(
        f"behind {fmt.binary_bytes(row['capacity'])} {fmt.binary_bytes(row['a_traffic'])} of A and "
        f"{fmt.binary_bytes(row['b_traffic'])} of B"
        for row in (first, last)
    )
    data = CapacityCurves(f"traffic {per}", "bytes", curves)
    caption = f"Modelled traffic {per} behind a cache, by its capacity."
    return Figure("memory-traffic", caption, f"Two lines: {said}.", data)


def activity(document: Document) -> Section | None:
    """How busy devices were, and what a step is made of beside its functions; of several devices their median."""
    caption = "Devices and steps; of several devices the median over them"
    table = _amounts(document, "activity", ACTIVITY, caption)
    energy = document["energy"]
    facts = (
        Fact("Energy of A", energy["a_j_per_sample"], "number", "J", hint="per sample, over all devices"),
        Fact("Energy of B", energy["b_j_per_sample"], "number", "J", hint="per sample, over all devices"),
        Fact("Energy, B / A", energy["ratio"], "number"),
    )
    blocks: list[Block] = [] if table is None else [table]
    blocks += [Facts(facts)] if energy["reason"] is None else []
    return Section("activity", "Devices and steps", tuple(blocks)) if blocks else None


def _amounts(document: Document, name: str, blocks: tuple[str, ...], caption: str) -> Table | None:
    """Quantities of some blocks that are known of one of the two at least; None where none is."""
    columns = (Column("quantity", keep=True), Column("unit"), Column("A", "si_each"), Column("B", "si_each"),
               Column("B / A", "number", keep=True), Column("note"))  # fmt: skip
    rows = tuple(
        (
            f"{row['name']}, of a {row['per']}" if row["per"] else row["name"],
            "" if row["unit"] == "1" else row["unit"],
            row["a"],
            row["b"],
            row["ratio"],
            row["reason"] or ("equal" if row["equal"] else ""),
        )
        for row in document["quantities"]
        if row["block"] in blocks and (row["a"] is not None or row["b"] is not None)
    )
    return Table(f"{name}-table", caption, columns, rows) if rows else None


def counters(document: Document) -> Section | None:
    """AIBench's five, and the counters of kernels that both have under one name."""
    found = document["counters"]
    if found is None:
        return None
    said = (
        f"{fmt.plural(len(found['rows']), 'value')} of kernels and metrics that both have, as means over executions; "
        f"{fmt.count(found['only_a'])} only in A, {fmt.count(found['only_b'])} only in B."
    )
    five, common = _five(found["five"]), _common(document, found["rows"])
    blocks: list[Block] = [*five, Text(said), *common]
    return Section("counters", "Counters", tuple(blocks))


def _five(rows: Any) -> tuple[Table, ...]:
    columns = (Column("counter", keep=True), Column("A", "share"), Column("B", "share"), Column("missing"))
    cells = tuple((row["name"], row["a"], row["b"], row["reason"]) for row in rows)
    caption = "AIBench Training's five, over all executions"
    return (Table("counters-five", caption, columns, cells),) if cells else ()


def _common(document: Document, rows: Any) -> tuple[Table, ...]:
    columns = (Column("metric", keep=True), Column("kernel", "name", keep=True), Column("A", "number"),
               Column("B", "number"), Column("unit"), Column("A calls", "count"),
               Column("B calls", "count"))  # fmt: skip
    keys = ("metric", "kernel", "a", "b", "unit", "a_calls", "b_calls")
    cells = tuple(tuple(row[key] for key in keys) for row in rows)
    caption = "Counters of kernels of one name"
    return (Table("counters-table", caption, columns, cells, ROWS, compare_command(document)),) if cells else ()


def trainings(document: Document) -> Section | None:
    """Medians over successful runs, with the least and the most."""
    if not document["trainings"]:
        return None
    columns = (Column("benchmark", keep=True), Column("of", keep=True), Column("A", "number", keep=True),
               Column("B", "number", keep=True), Column("B / A", "number", keep=True), Column("low", "number"),
               Column("high", "number"), Column("A least", "number"), Column("A most", "number"),
               Column("B least", "number"), Column("B most", "number"), Column("A runs", "count"),
               Column("B runs", "count"), Column("A system"), Column("B system"))  # fmt: skip
    keys = ("benchmark", "of", "a", "b", "ratio", "low", "high", "a_least", "a_most", "b_least", "b_most", "a_runs",
            "b_runs", "a_system", "b_system")  # fmt: skip
    rows = tuple(tuple(_shown(row, key) for key in keys) for row in document["trainings"])
    caption = "Medians over successful runs, to the last evaluation; B / A with its 95 % interval (n/a below six runs)"
    return Section("trainings", "Training to the target", (Table("trainings-table", caption, columns, rows),))


def _shown(row: Mapping[str, Any], key: str) -> Any:
    return "seconds" if key == "of" and row["unit"] == "s" else row[key]
