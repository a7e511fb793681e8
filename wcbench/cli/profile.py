"""`wcbench profile`: capture a task and write its record."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from wcbench.cli._common import (
    DebugOption,
    ForceOption,
    JsonOption,
    QuietOption,
    RunsOption,
    closing,
    parse_settings,
    print_json,
    progress,
    show,
)


def profile(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task of `wcbench list`, TASK@variant, or module:Class of your own.")
    ],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto: a GPU where torch finds one.")] = "auto",
    preset: Annotated[
        str | None,
        typer.Option(
            help="paper, small or tiny, for all passes.  [default: operators at paper; the others at small on a CPU, "
            "at paper on a GPU]",
        ),
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated: operators, memory, timing, power, timeline, primitives.  [default: all that the "
            "device has]"
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step instead of the preset's.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, or bf16 by autocast.")] = "fp32",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the task, e.g. seq=512.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    threads: Annotated[int | None, typer.Option(help="torch's intra-op threads during the capture.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps to measure in each pass.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Steps to drop before.")] = None,
    data_in_step: Annotated[bool, typer.Option("--data-in-step", help="Time the making of batches too.")] = False,
    runs: RunsOption = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The very folder to write.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Profile a training task: time, hotspots, memory and complexity, each in a pass of its own."""
    from wcbench import api
    from wcbench.profilers.streams import stdout_to_stderr

    # with --json standard output is JSON alone, whatever the task prints
    with progress(quiet) as report, stdout_to_stderr() if as_json else contextlib.nullcontext():
        made = api.profile(
            task,
            device=device,
            passes=None if passes is None else [name.strip() for name in passes.split(",") if name.strip()],
            preset=preset,
            batch_size=batch_size,
            precision=precision,
            settings=parse_settings(settings or []),
            seed=seed,
            threads=threads,
            steps=steps,
            warmup=warmup,
            data_in_step=data_in_step,
            runs=runs,
            out=out,
            force=force,
            progress=report,
            command=["wcbench", *sys.argv[1:]],
        )
    if as_json:
        print_json(api.summary(made))
    elif not quiet:
        from wcbench.reports.profile_report import profile_report
        from wcbench.reports.terminal import terminal_lead

        show(terminal_lead(profile_report(api.summary(made))))
    run = shlex.quote(str(made.path))
    closing([f"Wrote {made.path}", f"Next: wcbench report {run}"], quiet=quiet, to_stderr=as_json)
