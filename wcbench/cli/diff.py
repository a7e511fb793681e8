"""`wcbench diff`: two records compared."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from wcbench.cli._common import DebugOption, JsonOption, OnOption, QuietOption, RunsOption, closing, print_json, show


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A record: its folder, TASK, TASK:latest or TASK:ID.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The record to compare it with.")],
    rows: Annotated[int, typer.Option(help="Rows of a table to show.", min=1)] = 15,
    runs: RunsOption = None,
    on: OnOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare two records: how the steps differ, and which categories and functions the difference comes from."""
    from wcbench import api

    found = api.diff(a, b, runs=runs, on=on)
    if as_json:
        print_json(found.to_dict())
        return
    from wcbench.reports.diff_report import diff_report
    from wcbench.reports.terminal import terminal_report

    show(terminal_report(diff_report(found.to_dict()), rows))
    words = ["wcbench", "report", a, "--against", b, *([] if runs is None else ["--runs", str(runs)])]
    closing([f"Next: {shlex.join(words)}"], quiet=quiet, to_stderr=False)
