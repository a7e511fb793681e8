"""`wcbench show`: a record, or one section of it, on the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from wcbench.cli._common import DebugOption, JsonOption, OnOption, RunArgument, RunsOption, print_json
from wcbench.cli._common import show as show_


def show(
    run: RunArgument,
    section: Annotated[
        str | None,
        typer.Argument(
            metavar="[SECTION]",
            help="overview, gates, hotspots, categories, activity, ops, totals, counters, steps, complexity, scaling, "
            "operators, modules, memory, allocations, lookups, roofline, primitives, power, convergence, losses, notes "
            "or provenance.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of a table to show.", min=1)] = 20,
    runs: RunsOption = None,
    on: OnOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a record, or one section of it. --json always prints all of it, unrounded."""
    from wcbench import api

    profile = api.load(run, runs=runs)
    if as_json:
        print_json(api.summary(profile, on=on))
        return
    from wcbench.reports.terminal import terminal_view

    show_(terminal_view(api.summary(profile, on=on), section, rows))
