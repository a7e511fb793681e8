"""`wcbench study`: the minimal subset of workloads, and a suite compared with another."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wcbench.cli._common import (
    DebugOption,
    JsonOption,
    QuietOption,
    RunsOption,
    closing,
    parse_list,
    print_json,
    show,
)
from wcbench.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

ROWS, DROPPED = 12, 3
CHANGES = 4
"""Changes of each task by default: one of each kind that any task of the catalogue has, as those come first."""


def study(
    records: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Records: folders, TASK, TASK:latest or TASK:ID.", show_default=False),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A suite instead; its tasks are profiled where no record is there.",
                     show_default=False),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Compare diversity with this suite (of --table: a word of its column suite).",
                     show_default=False),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A further suite that both are compared with, or none.  [default: the current "
                     "MLPerf where --against is an older one]", show_default=False),
    ] = None,
    features: Annotated[
        str,
        typer.Option(metavar="SET", help="operators, gpu, training, core, aibench5, all; or names with commas."),
    ] = "operators",
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="A matrix of your own instead: workloads x metrics with a row of units.",
                     show_default=False),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="wcbench; or aibench2021 to set the paper's own way beside it.")
    ] = "wcbench",
    mix: Annotated[bool, typer.Option("--mix", help="Let presets, devices and precisions mix in the table.")] = False,
    radius: Annotated[
        float | None, typer.Option(metavar="R", help="The radius in place of r*.", show_default=False)
    ] = None,
    changes: Annotated[
        str,
        typer.Option(metavar="N", help="Changes of each task by which r* is measured: a number, all, or none."),
    ] = str(CHANGES),
    require_metric: Annotated[
        bool, typer.Option("--require-metric", help="Members must have a target on a metric, by the suite's file.")
    ] = False,
    max_variation: Annotated[
        str | None,
        typer.Option(metavar="X", help="Members must vary from run to run by at most X (2%, 0.02), by the suite.",
                     show_default=False),
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Items with weights: how much of them lies within r* of each suite.",
                     show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder of the study; a stopped one goes on.  [default: "
                     "studies/<what it is of>]", show_default=False),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks at a time.  [default: one a core]", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a study of other workloads there.")] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:  # fmt: skip
    """Choose the provably minimal subset of workloads, and compare a suite's diversity with another's.

    What was finished is kept in the folder of the study: the same command goes on where it was stopped.
    """
    from wcbench import api
    from wcbench.analysis.study_run import default_folder

    chosen = [word for text in suite or [] for word in parse_list(text)]
    if not (records or chosen or table):
        raise UsageError("Nothing to study is named.", "wcbench study RUN..., --suite ID or --table FILE.csv.")
    folder = out or default_folder(chosen, against, table)
    found = api.study(
        records or [],
        suites=chosen,
        against=against,
        also=None if also is None else [id for id in also if id != "none"],
        features=parse_list(features),
        table=table,
        recipe=recipe,
        mix=mix,
        radius=radius,
        changes=parse_changes(changes),
        require_metric=require_metric,
        max_variation=None if max_variation is None else parse_fraction(max_variation, "--max-variation"),
        population=population,
        out=folder,
        jobs=jobs,
        root=runs,
        seed=seed,
        force=force,
        told=_teller(quiet),
        command=["wcbench", *sys.argv[1:]],
    )
    if as_json:
        print_json(found.to_dict())
    else:
        for part in terminal(found.document):
            show(part)
    following = shlex.join(["wcbench", "report", str(folder)])
    closing([f"Wrote {folder}", f"Next: {following}"], quiet=quiet, to_stderr=as_json)


def parse_changes(text: str) -> int | None:
    """How many changes of each task: None for all, 0 for none. Raises UsageError on anything else."""
    if text in ("all", "none"):
        return None if text == "all" else 0
    if not text.isdecimal() or len(text) > 6:
        raise UsageError(f"--changes {text} is refused.", "Give a whole number from 0 up, all, or none.")
    return int(text)


def parse_fraction(text: str, option: str) -> float:
    """A fraction given as 2% or as 0.02; raises UsageError on anything else."""
    bare = text.strip().removesuffix("%")
    try:
        value = float(bare) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{option} {text} is refused.", "Give a fraction from 0 up: 2% or 0.02.")
    return value


def _teller(quiet: bool) -> Callable[[str, int, int, str], None] | None:
    """Lines on standard error: what has ended, or what is being done."""
    if quiet:
        return None

    def told(stage: str, done: int, total: int, text: str) -> None:
        typer.echo(f"[{stage} {done}/{total}] {text}" if total else f"[{stage}] {text}", err=True)

    return told


# --- the terminal -----------------------------------------------------------------------------------------------------


def terminal(document: Mapping[str, Any]) -> list[RenderableType]:
    """The lead, the subset with who covers whom, the curve, and the comparison."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(document["title"], style="bold"), Text(" ".join(document["answer"])), Text("")]
    parts += _subset(document)
    if document["curve"]:
        parts += [Text(""), _curve(document)]
    for found in document["comparisons"]:
        parts += [Text(""), *_comparison(found)]
    if document["population"].get("sentences"):
        parts += [Text(""), *map(Text, document["population"]["sentences"])]
    return [*parts, *_notes(document)]


def _subset(document: Mapping[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    found = document["subset"]
    table = _table("member", "stands for")
    for member, covered in found.get("covers", {}).items():
        others = [name for name in covered if name != member]
        core = " (in every smallest subset)" if member in found["core"] and len(found["optima"]) > 1 else ""
        table.add_row(Text(member + core), Text(", ".join(others) or "itself alone"))
    proof = found["certificate"]
    packing = f"No fewer: no two of {', '.join(proof['packing'])} have a workload within the radius of both."
    said = {"packing": packing, "bounds": proof["text"]}.get(
        proof["proof"], f"No fewer: proof by {proof['proof']}, in study.json."
    )
    return [table, Text(said, style="dim")]


def _curve(document: Mapping[str, Any]) -> Table:
    from rich.text import Text

    table = _table("size", "radius", "cost", "best subset of that size")
    for row in _some(document["curve"], document["subset"]["size"]):
        mark = " <" if row["k"] == document["subset"]["size"] else ""
        cost = "" if row["cost_share"] is None else f"{100 * row['cost_share']:.0f} %"
        names = row["members"]
        text = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        table.add_row(f"{row['k']}{mark}", f"{row['radius']:.3g}", cost, Text(text))
    return table


def _some(rows: list[Any], size: int) -> list[Any]:
    """Small sizes, and those around the subset's."""
    wanted = {*range(1, 6), *range(size - 1, size + 2), len(rows)}
    return [row for row in rows if row["k"] in wanted] if len(rows) > ROWS else rows


def _comparison(found: Mapping[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    head = Text(found["title"], style="bold")
    if found["reason"]:
        return [head, Text(f"Not compared: {found['reason']}")]
    said = found["sentences"] if found["id"] == "suites" else found["sentences"][:2]
    lines = [*said, *([found["facets"]["sentence"]] if found["facets"] else [])]
    if found["about"]:
        lines.insert(0, found["about"].rstrip(".") + ".")
    return [head, *(Text(line) for line in lines)]


def _notes(document: Mapping[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    notes = list(document["table"]["notes"])
    dropped = document["space"]["dropped"]
    if dropped:
        told = "; ".join(f"{name} ({reason})" for name, reason in list(dropped.items())[:DROPPED])
        more = f"; and {len(dropped) - DROPPED} more, each with its reason in study.json"
        notes.append(f"left out of the space: {told}{more if len(dropped) > DROPPED else ''}")
    failed = document["changes"]["failed"]
    if failed:
        notes.append(f"{len(failed)} changes could not be made, see study.json")
    return [Text(""), *(Text(f"Note: {note}", style="dim") for note in notes)] if notes else []


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in ("size", "radius", "cost") else "left", overflow="fold")
    return table
