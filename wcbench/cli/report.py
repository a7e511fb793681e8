"""`wcbench report`: the characterization report of a record, of two compared, or of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wcbench.cli._common import (
    DebugOption,
    ForceOption,
    JsonOption,
    OnOption,
    QuietOption,
    RunsOption,
    closing,
    print_json,
)


def report(
    what: Annotated[
        str, typer.Argument(metavar="RUN|STUDY", help="A record (its folder, TASK, TASK:latest), or a study's folder.")
    ],
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Compare with this record.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file.  [default: report.html in the folder]")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="A tagged PDF instead of HTML.")] = False,
    paper: Annotated[str, typer.Option(help="a4 or letter, of the PDF.")] = "a4",
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Do not redact home paths, user and host names.")
    ] = False,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Hide names of kernels, modules, files and own operators, too.")
    ] = False,
    on: OnOption = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a report: one file that needs no network. --json prints all of its numbers, unrounded, and writes no file
    unless one is named."""
    from wcbench import api

    made = api.make_report(what, against=against, runs=runs, redact=not keep_names, anonymize=anonymize, on=on)
    if as_json:
        print_json(made.to_dict())
    if out is not None or not as_json:
        path = made.save(out, pdf=pdf, paper=paper, force=force)
        viewer = "a PDF reader" if path.suffix == ".pdf" else "a browser"
        closing([f"Wrote {path}", f"Next: open it in {viewer}"], quiet=quiet, to_stderr=as_json)
