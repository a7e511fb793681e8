"""`wcbench doctor`: what can be measured here."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from wcbench.cli._common import DebugOption, JsonOption, RunsOption, print_json, show
from wcbench.errors import EXIT_FAILED

_STYLE = {"ok": "green", "absent": "yellow", "broken": "bold red"}


def doctor(runs: RunsOption = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Say what can be measured on this machine, what cannot, and what to do about it."""
    from wcbench import api

    found = api.doctor(runs)
    if as_json:
        print_json(found.to_dict())
    else:
        table = Table(box=None, header_style="bold")
        table.add_column("check", no_wrap=True)
        table.add_column("state")
        table.add_column("finding", overflow="fold")
        for check in found.checks:
            finding = check.finding if check.remedy is None else f"{check.finding.rstrip('.')}. {check.remedy}"
            table.add_row(check.name, Text(check.state, _STYLE[check.state]), Text(finding))
        show(table)
    if any(check.state == "broken" for check in found.checks):
        raise typer.Exit(EXIT_FAILED)
