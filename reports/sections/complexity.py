"""How much arithmetic, how many bytes and how many parameters, with the coverage beside every count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command

WORK = (
    ("whole step", "flops_matrix_step", "flops_all_step"),
    ("causal attention without its masked half", "flops_matrix_step_causal_half", "flops_all_step_causal_half"),
    ("forward", "flops_matrix_forward", "flops_all_forward"),
    ("backward", "flops_matrix_backward", "flops_all_backward"),
)
"""Rows of the two totals: what it is, the field of the matrix class, the field of all FLOPs."""


def section(summary: Summary) -> Section | None:
    """Both totals side by side, the same in MAC, bytes, parameters, and what the counts do not cover."""
    part = block(summary, "complexity")
    if part is None:
        return None
    facts = Facts((*_per_sample(part), *_coverage(part), *_bytes(part), *_parameters(part)))
    blocks: list[Block] = [Text(_intro(part)), _totals(summary, part), *_kinds(summary, part), *_continued(part), facts]
    uncounted = tuple((row.get("name"), row.get("calls")) for row in rows(part.get("uncounted")))
    if uncounted:
        columns = (Column("operator", "name"), Column("calls a step", "count"))
        caption = "Operators without a formula: their work is not in the counts above"
        more = show_command(summary, "complexity")
        blocks.append(Table("complexity-uncounted", caption, columns, uncounted, more=more))
    return Section("complexity", "Complexity", (*blocks, *notes_blocks(summary, "complexity", "operators")))


def counted_on(part: Mapping[str, Any]) -> str:
    """Where counts come from: the pass, and that nothing was computed where tensors were fake."""
    fake = " Counted on fake tensors: no arithmetic was done." if part.get("tensors") == "fake" else ""
    return f"{measured(part)}{fake}"


def _intro(part: Mapping[str, Any]) -> str:
    return (
        "Two totals, counted from shapes. Matrix-class work is convolutions, matrix products, attention and "
        "recurrences, as published numbers count it; all work adds elementwise arithmetic and reductions. "
        f"1 MAC = 2 FLOP: a FLOP is one addition or one multiplication. {counted_on(part)}"
    )


def _totals(summary: Summary, part: Mapping[str, Any]) -> Table:
    """A row only where one of its totals is known, and the causal one only where it differs."""
    cells = []
    for label, matrix, every in WORK:
        values = part.get(matrix), part.get(every)
        whole = part.get("flops_matrix_step"), part.get("flops_all_step")
        causal = matrix.endswith("causal_half")
        if values != (None, None) and not (causal and values[0] in (None, whole[0])):
            cells.append((label, *values))
    columns = (Column("work"), Column("matrix class", "si", "FLOP"), Column("all", "si", "FLOP"))
    kinds = len(rows(part.get("kinds")))
    caption = "Work of one training step of the whole batch, in both totals"
    if kinds > 1:
        caption = f"Work of an average step of the {kinds} kinds below, in both totals"
    return Table("complexity-work", caption, columns, tuple(cells), more=show_command(summary, "complexity"))


def _continued(part: Mapping[str, Any]) -> Iterator[Block]:
    """The figures at the preset's own length, where the step was counted at a shorter one."""
    found = part.get("continued")
    if not found:
        return
    yield Text(
        f"The step was counted at length {found['counted_length']:,} of {found['length']:,}; all figures but the next "
        "are of that shorter one. Continued on a straight line to the preset's own length:"
    )
    yield Facts(
        (
            Fact("Forward, per sample", found["flops_matrix_forward_per_sample"], "si", "FLOP", "matrix class"),
            Fact("Matrix class, whole step", found["flops_matrix_step"], "si", "FLOP"),
            Fact("All, whole step", found["flops_all_step"], "si", "FLOP"),
            Fact("Bytes read, step", found["bytes_read"], "bytes"),
            Fact("Bytes written, step", found["bytes_written"], "bytes"),
            Fact("Operator calls a step", found["operator_calls"], "count"),
            Fact("Live bytes at the peak", found["peak_bytes"], "bytes"),
        )
    )


def _kinds(summary: Summary, part: Mapping[str, Any]) -> Iterator[Table]:
    """One row a kind of step, where they differ."""
    kinds = rows(part.get("kinds"))
    if len(kinds) < 2:
        return
    names = ("kind", "share", "calls", "flops_matrix", "flops_all", "bytes_read", "bytes_written")
    columns = (
        Column("kind of step"),
        Column("share of steps", "share"),
        Column("calls", "count"),
        Column("matrix class", "si", "FLOP"),
        Column("all", "si", "FLOP"),
        Column("read", "bytes"),
        Column("written", "bytes"),
    )
    cells = tuple(tuple(row.get(name) for name in names) for row in kinds)
    caption = "Kinds of steps, one step of each; the figures above weigh them by their share of a training"
    yield Table("complexity-kinds", caption, columns, cells, more=show_command(summary, "complexity"))


_FORWARD = "matrix class, forward phase of the step; wcbench list counts each model once"


def _per_sample(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Forward, per sample", part.get("flops_matrix_forward_per_sample"), "si", "FLOP", _FORWARD)
    yield Fact("The same in MAC", part.get("macs_forward_per_sample"), "si", "MAC", "1 MAC = 2 FLOP")


def _coverage(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Operator calls a step", part.get("operator_calls"), "count")
    yield Fact("Coverage by calls", part.get("coverage_calls"), "share", hint="operator calls with a formula")
    yield Fact("Coverage by bytes", part.get("coverage_bytes"), "share", hint="bytes of operators with a formula")


def _bytes(part: Mapping[str, Any]) -> Iterator[Fact]:
    hint = "by each operator alone, without reuse"
    yield Fact("Bytes read, step", part.get("bytes_read"), "bytes", hint=hint)
    yield Fact("Bytes written, step", part.get("bytes_written"), "bytes", hint=hint)


def _parameters(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Parameters", part.get("params_total"), "count")
    yield Fact("Trainable", part.get("params_trainable"), "count")
    yield Fact("Parameter memory", part.get("params_bytes"), "bytes")
    if part.get("params_shared"):
        yield Fact("Shared elements", part.get("params_shared"), "count", hint="further names, not in the total")
