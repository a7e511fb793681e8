"""`wcbench export`: a record for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wcbench.cli._common import DebugOption, ForceOption, QuietOption, RunArgument, RunsOption, closing


def export(
    run: RunArgument,
    form: Annotated[
        str, typer.Option("--format", help="csv or parquet (of one table), or pyprof (operators in PyProf's columns).")
    ] = "csv",
    table: Annotated[
        str | None, typer.Option("--table", help="The table (docs/record.md).", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file.  [default: in export/ of the record's folder]")
    ] = None,
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Do not redact home paths, user and host names.")
    ] = False,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Hide names of kernels, modules, files and own operators, too.")
    ] = False,
    runs: RunsOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a table of a record as CSV or Parquet, or its operators in PyProf's columns.

    CSV: an empty cell is a null, lists are JSON; units stand in docs/record.md and in Parquet's column metadata.
    PyProf: one row per operator call of the recorded step; what is not known is `na`.
    """
    from wcbench import api

    path = api.export(
        run,
        out,
        table=table,
        form=form,
        runs=runs,
        redact=not keep_names,
        anonymize=anonymize,
        force=force,
        note=_note,
    )
    closing([f"Wrote {path}"], quiet=quiet, to_stderr=False)


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)
