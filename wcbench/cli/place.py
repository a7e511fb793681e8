"""`wcbench place`: a record in a frozen reference space."""

from __future__ import annotations

from typing import Annotated

import typer

from wcbench.cli._common import DebugOption, JsonOption, RunArgument, RunsOption, print_json


def place(
    run: RunArgument,
    space: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|STUDY",
            help="A reference space: its file, its id, or the folder of a study.  [default: wcbench's own]",
            show_default=False,
        ),
    ] = None,
    mix: Annotated[
        bool,
        typer.Option("--mix", help="Let origin, preset, device and precision differ from the reference's."),
    ] = False,
    rows: Annotated[int, typer.Option(help="Nearest tasks and features to show.", min=1)] = 5,
    runs: RunsOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Place a record among known tasks: the nearest ones, whether it is new, and what sets it apart.

    It needs the pass operators, or an imported execution trace. The space is frozen: the same record always lands in
    the same place. What the record does not tell is named, and nothing is put in its stead.
    """
    from wcbench import api

    placement = api.place(run, space, runs=runs, mix=mix)
    if as_json:
        print_json(placement.to_dict())
        return
    for line in placement.lines(rows):
        typer.echo(line)
