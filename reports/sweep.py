"""A sweep as JSON (docs/json.md), on the terminal and as a page: a row a point, a figure a quantity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wcbench.analysis.sweep import curves
from wcbench.reports import format as fmt
from wcbench.reports.figure_data import Curve, KnobCurves
from wcbench.reports.model import Column, Figure, Report, Section, Table
from wcbench.reports.terminal import terminal_section

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wcbench.analysis.sweep import Sweep

SCHEMA = "wcbench.sweep/1"

_COLUMNS = {
    "batch_size": Column("batch", "count"),
    "sequence_length": Column("length", "count"),
    "precision": Column("type"),
    "step_ms": Column("step", "time_ms"),
    "samples_per_s": Column("samples/s", "number"),
    "flops_matrix_forward_per_sample": Column("forward", "si", "FLOP"),
    "flops_step": Column("all", "si", "FLOP"),
    "bytes_step": Column("moved", "bytes"),
    "peak_bytes": Column("peak", "bytes"),
    "intensity": Column("FLOP/B", "number"),
    "error": Column("failed"),
}
_MEANING = (
    "One row a record. forward: matrix-class FLOPs of the forward pass of a sample (1 MAC = 2); all: FLOPs of a step; "
    "moved: bytes of its operators; peak: of its live bytes; FLOP/B: of the traffic behind a cache of 50 MiB, modelled."
)


def sweep_summary(sweep: Sweep) -> dict[str, Any]:
    """The sweep as one plain object; values unrounded, absent ones None."""
    rows = [{name: _plain(value) for name, value in row.items()} for row in sweep.to_frame().to_dict("records")]
    return {"schema": SCHEMA, "task": sweep.task, "varied": list(sweep.varied), "points": rows}


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def sweep_section(sweep: Sweep) -> Section:
    """One table: the knobs that vary first, then whatever any point has."""
    rows = sweep_summary(sweep)["points"]
    knobs = [name for name in ("batch_size", "sequence_length", "precision") if name in sweep.varied]
    others = [name for name in list(_COLUMNS)[3:] if any(row.get(name) is not None for row in rows)]
    names = [*knobs, *others]
    table = Table(
        "sweep-table",
        _MEANING,
        tuple(_COLUMNS[name] for name in names),
        tuple(tuple(row.get(name) for name in names) for row in rows),
    )
    return Section("sweep", f"Sweep of {sweep.task or 'a task'}", (table,))


def terminal_sweep(sweep: Sweep) -> RenderableType:
    """The table on a terminal."""
    return terminal_section(sweep_section(sweep), rows=len(sweep.points))


def sweep_report(sweep: Sweep) -> Report:
    """The table, and a figure for each quantity over the first knob that is a number."""
    table = sweep_section(sweep)
    name, varied = sweep.task or "a task", " and ".join(knob.replace("_", " ") for knob in sweep.varied)
    failed = [point for point in sweep.points if point.profile is None]
    lead = [f"{fmt.plural(len(sweep.points), 'point')} of {name} over {varied or 'nothing'}."]
    if failed:
        lead.append(f"{fmt.plural(len(failed), 'point')} failed: {'; '.join(point.label for point in failed)}.")
    figures = tuple(_figures(sweep))
    sections = (Section("curves", "Curves", figures), table) if figures else (table,)
    return Report(f"{name}: sweep", f"Over {varied or 'nothing'}", tuple(lead), sections, f"Made by wcbench; {SCHEMA}.")


_FIGURES = ("samples_per_s", "step_ms", "flops_step", "bytes_step", "peak_bytes", "intensity")
_AXES = {
    "samples_per_s": "samples/s",
    "step_ms": "step",
    "flops_step": "all FLOPs of a step",
    "bytes_step": "bytes of a step's operators",
    "peak_bytes": "live bytes at the peak",
    "intensity": "FLOP/byte behind 50 MiB",
}


def _figures(sweep: Sweep) -> Iterator[Figure]:
    frame = sweep.to_frame()
    numbers = [knob for knob in sweep.varied if knob != "precision"]
    for quantity in _FIGURES:
        if not numbers or quantity not in frame or frame[quantity].isna().all():
            continue
        knob, column = numbers[0].replace("_", " "), _COLUMNS[quantity]
        lines = tuple(Curve(name, tuple(points)) for name, points in curves(sweep, quantity).items())
        ends = [fmt.show(value, column.kind, column.unit) for value in (frame[quantity].min(), frame[quantity].max())]
        said = f"{_AXES[quantity]} against {knob}: from {ends[0]} to {ends[1]}."
        data = KnobCurves(_AXES[quantity], knob, column.kind, column.unit, lines)
        yield Figure(f"sweep-{quantity.replace('_', '-')}", said[0].upper() + said[1:], f"Lines, {said}", data)
