"""`wcbench list`: the catalogue, or the records made so far."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from wcbench.cli._common import DebugOption, JsonOption, print_json, show
from wcbench.errors import RecordError
from wcbench.lookup import runs_root


def list_(
    runs: Annotated[bool, typer.Option("--runs", help="List the records instead of the tasks.")] = False,
    root: Annotated[
        Path | None, typer.Option("--in", help="Folder of all records.  [default: $WCBENCH_RUNS or runs]")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the tasks of the catalogue, or with --runs the records made so far."""
    if runs:
        _list_runs(root, as_json)
    else:
        _list_tasks(as_json)


def _list_tasks(as_json: bool) -> None:
    from wcbench import api

    rows = api.tasks()
    if as_json:
        hidden = ("target", "keywords")
        tasks = [{k: v for k, v in dataclasses.asdict(row).items() if k not in hidden} for row in rows]
        print_json({"schema": "wcbench.tasks/1", "tasks": tasks})
        return
    table = Table(box=None, header_style="bold", caption="FLOPs: convolutions and matrix products; 1 MAC = 2 FLOP.")
    table.add_column("task", no_wrap=True)
    table.add_column("model", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("FLOP a sample, forward", justify="right", no_wrap=True)
    table.add_column("suites", overflow="fold")
    for row in rows:
        table.add_row(row.name, row.model, f"{row.parameters:,}", f"{row.forward_flops:,}", "\n".join(row.suites))
    show(table)


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
