"""`wcbench list`: the catalogue or a suite of it, or the records made so far."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from wcbench.cli._common import DebugOption, JsonOption, print_json, show
from wcbench.errors import RecordError, UsageError
from wcbench.lookup import runs_root

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from wcbench.suites import Fact, Suite
    from wcbench.tasks.catalog import TaskRow

_HIDDEN = ("target", "keywords")  # where the code lives, and words for mistyped names
_CAPTION = (
    "FLOP: convolutions and matrix products of one sample's forward pass, 1 multiply-accumulate = 2 FLOP. "
    "Parameters and FLOP at preset paper. A target with ? is from memory, in no source at hand."
)


def list_(
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="ID", help="Only the tasks of a suite, with what is known of it.")
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="List the records instead of the tasks.")] = False,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="With --runs: folder of all records, as other commands take it."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--in", help="The same as FOLDER.  [default: $WCBENCH_RUNS or runs]")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the tasks of the catalogue or of a suite, or with --runs the records made so far."""
    if runs and suite is not None:
        raise UsageError("--suite lists tasks and --runs lists records.", "Give one of the two.")
    if folder is not None and not runs:
        raise UsageError(f"`wcbench list` takes no {folder} by itself.", f"For its records: --runs {folder}.")
    if folder is not None and root is not None:
        raise UsageError(f"--runs {folder} and --in {root} both name a folder.", "Give one of the two.")
    if runs:
        _list_runs(folder or root, as_json)
    else:
        _list_tasks(suite, as_json)


def _list_tasks(id: str | None, as_json: bool) -> None:
    from wcbench import api
    from wcbench.suites import load_suite, suite_ids

    suite = None if id is None else load_suite(id)
    rows = {row.name: row for row in api.tasks()}
    found = list(rows.values()) if suite is None else [rows[task] for task in suite.tasks]
    if as_json:
        whole = {} if suite is None else {"suite": dataclasses.asdict(suite)}
        print_json({"schema": "wcbench.tasks/1", **whole, "tasks": [_json_row(row) for row in found]})
        return
    if suite is not None:
        show(Text.assemble((suite.title, "bold"), f"\n{suite.source}\n"))
    show(_Tasks(found))
    if suite is None:
        show(Text(f"Suites, for --suite: {', '.join(suite_ids())}"))
    else:
        _tell_suite(suite)


def _json_row(row: TaskRow) -> dict[str, Any]:
    from wcbench.tasks.catalog import targets

    values = {key: value for key, value in dataclasses.asdict(row).items() if key not in _HIDDEN}
    quality = {suite: dataclasses.asdict(fact) for suite, fact in targets(row.name).items()}
    return {**values, "quality": quality, "suites": list(row.suites)}


class _Tasks:
    """The table of tasks by the width it is shown at: below 100 columns domain and metric stand under the model."""

    def __init__(self, rows: list[TaskRow]) -> None:
        self.rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.rows, narrow=options.max_width < 100)


def _table(rows: list[TaskRow], *, narrow: bool) -> Table:
    from wcbench.reports.format import si
    from wcbench.tasks.catalog import targets

    table = Table(box=None, header_style="bold", pad_edge=False, caption=_CAPTION, caption_justify="left")
    table.add_column("task", no_wrap=True)
    table.add_column("model", overflow="fold")
    if not narrow:
        table.add_column("domain", no_wrap=True)
        table.add_column("metric", overflow="fold")
    for name in ("target", "params", "FLOP"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        about = (row.domain, row.metric or "no metric")
        words = [Text.assemble(row.model, (f"\n{', '.join(about)}", "dim"))] if narrow else [row.model, *about]
        target = ", ".join(map(_target, targets(row.name).values())) or "-"
        table.add_row(row.name, *words, target, si(row.parameters), si(row.forward_flops))
    return table


def _target(fact: Fact) -> str:
    """A target's value; "?" where it is only remembered, a dash where there is none."""
    if fact.value is None:
        return "-"
    return f"{fact.value:g}{'?' if fact.kind == 'from memory' else ''}"


def _tell_suite(suite: Suite) -> None:
    lines = [f"Note: {suite.note}"] if suite.note else []
    proposed = [member.task for member in suite.members if member.identity == "proposed"]
    if proposed:
        lines.append(f"Proposed, not read in the authors' code: {', '.join(proposed)}.")
    lines += [f"Not included: {left.title}: {left.reason}." for left in suite.not_included]
    lines += [f"Not known: {fact.quantity}: {fact.reason}." for fact in suite.facts if fact.reason is not None]
    if lines:
        show(Text("\n".join(["", *lines])))


def _list_runs(root: Path | None, as_json: bool) -> None:
    from wcbench import api

    found = [_run_row(profile) for profile in api.runs(root, unreadable=_tell)]
    if as_json:
        print_json({"schema": "wcbench.runs/1", "runs": found})
    elif not found:
        typer.echo("There are no records yet: make one with `wcbench profile TASK`.")
    else:
        table = Table(box=None, header_style="bold")
        table.add_column("run", overflow="fold", no_wrap=True)
        table.add_column("created (UTC)", no_wrap=True)
        table.add_column("passes", overflow="fold")
        for row in found:
            name = f"{row['task']}:{row['run'].rpartition('-')[2]}"
            table.add_row(Text(name), row["created"][:19].replace("T", " "), ", ".join(row["passes"]))
        show(table)
        typer.echo(f"Folders of records lie under {runs_root(root)}.")


def _tell(error: RecordError) -> None:
    typer.echo(f"wcbench: {error.message}", err=True)


def _run_row(profile: Any) -> dict[str, Any]:
    manifest = profile.manifest
    return {
        "run": str(profile.path),
        "task": profile.name,
        "created": manifest.created,
        "passes": list(manifest.passes),
    }
