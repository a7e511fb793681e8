"""`wcbench report`: the characterization report of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wcbench.cli._common import DebugOption, ForceOption, OnOption, QuietOption, RunArgument, RunsOption, closing


def report(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file.  [default: report.html in the record's folder]")
    ] = None,
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Do not redact home paths, user and host names.")
    ] = False,
    on: OnOption = None,
    runs: RunsOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the report of a record: one HTML file that needs no network."""
    from wcbench import api

    path = api.report(run, out, runs=runs, redact=not keep_names, on=on, force=force)
    closing([f"Wrote {path}", "Next: open it in a browser"], quiet=quiet, to_stderr=False)
