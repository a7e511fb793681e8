"""How much arithmetic and how many parameters, with the coverage beside every count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wcbench.reports.model import Block, Column, Fact, Facts, Section, Table, Text
from wcbench.reports.sections._common import Summary, block, measured, notes_blocks, rows, show_command


def section(summary: Summary) -> Section | None:
    """Parameters, matrix work in FLOP and MAC, and what the counts do not cover."""
    part = block(summary, "complexity")
    if part is None:
        return None
    blocks: list[Block] = [Text(_intro(part)), Facts((*_work(part), *_coverage(part), *_parameters(part)))]
    uncounted = tuple((row.get("name"), row.get("calls")) for row in rows(part.get("uncounted")))
    if uncounted:
        columns = (Column("operator", "name"), Column("calls", "count"))
        caption = "Matrix-class operators without a formula: their work is not in the counts above"
        more = show_command(summary, "complexity")
        blocks.append(Table("complexity-uncounted", caption, columns, uncounted, more=more))
    return Section("complexity", "Complexity", (*blocks, *notes_blocks(summary, "complexity")))


def _intro(part: Mapping[str, Any]) -> str:
    fake = " Counted on fake tensors: no arithmetic was done." if part.get("tensors") == "fake" else ""
    return (
        "Matrix-class work (convolutions, matrix products, attention, recurrences) counted from shapes. "
        f"1 MAC = 2 FLOP: a FLOP is one addition or one multiplication. {measured(part)}{fake}"
    )


def _work(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Whole step", part.get("flops_matrix_step"), "si", "FLOP", "whole batch")
    yield Fact("Forward", part.get("flops_matrix_forward"), "si", "FLOP", "whole batch")
    yield Fact("Backward", part.get("flops_matrix_backward"), "si", "FLOP", "whole batch")
    yield Fact("Forward, per sample", part.get("flops_matrix_forward_per_sample"), "si", "FLOP")
    yield Fact("The same in MAC", part.get("macs_forward_per_sample"), "si", "MAC", "1 MAC = 2 FLOP")


def _coverage(part: Mapping[str, Any]) -> Iterator[Fact]:
    calls, matrix = part.get("coverage_calls"), part.get("coverage_matrix_calls")
    yield Fact("Coverage, matrix operators", matrix, "share", hint="matrix-class calls with a formula")
    yield Fact("Coverage, all operators", calls, "share", hint="operator calls with a formula")
    yield Fact("Operator calls a step", part.get("operator_calls"), "count")


def _parameters(part: Mapping[str, Any]) -> Iterator[Fact]:
    yield Fact("Parameters", part.get("params_total"), "count")
    yield Fact("Trainable", part.get("params_trainable"), "count")
    yield Fact("Parameter memory", part.get("params_bytes"), "bytes")
    if part.get("params_shared"):
        yield Fact("Shared elements", part.get("params_shared"), "count", hint="further names, not in the total")
