"""`wcbench profile`: capture a task, a sweep of it or a suite of tasks, and write the records."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from wcbench.cli._common import (
    DebugOption,
    ForceOption,
    JsonOption,
    QuietOption,
    RunsOption,
    closing,
    parse_list,
    parse_numbers,
    parse_settings,
    print_json,
    progress,
    show,
)
from wcbench.errors import EXIT_FAILED, UsageError


def profile(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK]",
            help="A task of `wcbench list`, TASK@variant, or module:Class of your own.",
            show_default=False,
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="ID", help="All tasks of a suite, each in a process of its own.", show_default=False),
    ] = None,
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
    mode: Annotated[
        str, typer.Option(help="train, or inference: the forward pass alone, in evaluation mode.")
    ] = "train",
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N[,N...]", help="Samples a step instead of the preset's; several are a sweep."),
    ] = None,
    sequence_length: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]", help="Length of the task's sequence instead of the preset's; several are a sweep."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="P[,P]", help="fp32, or bf16 by autocast; both are a sweep.")
    ] = "fp32",
    zipf: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Draw the ids of sparse tables by Zipf's law of this exponent.", show_default=False
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take the ids of sparse tables from a file: .npy, .csv or .txt (docs/locality.md).",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the task, e.g. seq=512.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    threads: Annotated[int | None, typer.Option(help="torch's intra-op threads during the capture.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps to measure in each pass.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Steps to drop before.")] = None,
    data_in_step: Annotated[bool, typer.Option("--data-in-step", help="Time the making of batches too.")] = False,
    no_scaling: Annotated[
        bool, typer.Option("--no-scaling", help="Do not count operators at twice and four times the batch too.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(help="Tasks of a suite at a time.  [default: one a core for operators alone, else 1]"),
    ] = None,
    runs: RunsOption = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The very folder to write.")] = None,
    force: ForceOption = False,
    brief: Annotated[bool, typer.Option("--brief", help="Write the record and show no results.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Profile a training task: time, hotspots, memory and complexity, each in a pass of its own.

    Several values of --batch-size, --sequence-length or --precision make a sweep: one record a combination.
    """
    knobs = {
        "batch_size": parse_numbers("--batch-size", batch_size),
        "sequence_length": parse_numbers("--sequence-length", sequence_length),
        "precision": parse_list(precision) or [precision],
    }
    extra = {"zipf": zipf, "ids": ids}
    options = {
        "device": device,
        "preset": preset,
        "passes": None if passes is None else parse_list(passes),
        "mode": mode,
        "settings": {**parse_settings(settings or []), **{k: str(v) for k, v in extra.items() if v is not None}},
        "seed": seed,
        "threads": threads,
        "steps": steps,
        "warmup": warmup,
        "data_in_step": data_in_step,
        "runs": runs,
        "force": force,
    }
    swept = any(values is not None and len(values) > 1 for values in knobs.values())
    _check(task, suite, swept=swept, jobs=jobs, out=out)
    single = {name: values[0] if values else None for name, values in knobs.items()}
    # with --json standard output is JSON alone, whatever the task prints
    if suite is not None:
        _suite(suite, jobs, {**options, **single, "scaling": not no_scaling}, as_json=as_json, quiet=quiet)
    elif swept:
        _sweep(str(task), knobs, {**options, "scaling": not no_scaling}, as_json=as_json, quiet=quiet)
    else:
        one = {**options, **single, "scaling": not no_scaling, "out": out}
        _one(str(task), one, as_json=as_json, quiet=quiet, brief=brief)


def _check(task: str | None, suite: str | None, *, swept: bool, jobs: int | None, out: Path | None) -> None:
    if (task is None) == (suite is None):
        raise UsageError("Name either a task or a suite.", "wcbench profile TASK, or wcbench profile --suite ID.")
    if suite is not None and swept:
        raise UsageError("A suite is profiled at one point.", "Sweep a single task, or give one value of each knob.")
    if suite is None and jobs is not None:
        raise UsageError("--jobs is for a suite.", "Leave it out.")
    if out is not None and (suite is not None or swept):
        raise UsageError("--out is the folder of a single record.", "Use --runs for the folder of all.")


def _one(task: str, options: Mapping[str, Any], *, as_json: bool, quiet: bool, brief: bool) -> None:
    from wcbench import api
    from wcbench.profilers.streams import stdout_to_stderr

    with progress(quiet) as report, stdout_to_stderr() if as_json else contextlib.nullcontext():
        made = api.profile(task, **options, progress=report, command=["wcbench", *sys.argv[1:]])
    if as_json:
        print_json(api.summary(made))
    elif not (quiet or brief):
        from wcbench.reports.profile_report import profile_report
        from wcbench.reports.terminal import terminal_lead

        show(terminal_lead(profile_report(api.summary(made))))
    run = shlex.quote(str(made.path))
    closing([f"Wrote {made.path}", f"Next: wcbench report {run}"], quiet=quiet, to_stderr=as_json)


def _sweep(task: str, knobs: Mapping[str, Any], options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    from wcbench import api
    from wcbench.profilers.streams import stdout_to_stderr
    from wcbench.reports.sweep import sweep_summary, terminal_sweep

    def told(point: Any, done: int, total: int) -> None:
        if not quiet:
            where = point.error or point.profile.path
            typer.echo(f"[{done}/{total}] {point.label}: {where}", err=True)

    with progress(quiet) as report, stdout_to_stderr() if as_json else contextlib.nullcontext():
        command = ["wcbench", *sys.argv[1:]]
        made = api.sweep(task, **knobs, **options, told=told, progress=report, command=command)
    if as_json:
        print_json(sweep_summary(made))
    else:
        show(terminal_sweep(made))
    written = sum(point.profile is not None for point in made.points)
    lines = [f"Wrote {written} of {len(made.points)} records"]
    if written:
        lines.append(f"Wrote {api.sweep_page(made)}")
    closing(lines, quiet=quiet, to_stderr=as_json)
    if written < len(made.points):
        raise typer.Exit(EXIT_FAILED)


def _suite(suite: str, jobs: int | None, options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    from wcbench import api

    def told(run: Any, done: int, total: int) -> None:
        if not quiet:
            typer.echo(f"[{done}/{total}] {run.task}: {run.path or run.error} ({run.seconds:.0f} s)", err=True)

    found = api.profile_suite(suite, jobs=jobs, told=told, **options)
    failed = [run for run in found if run.path is None]
    if as_json:
        rows = [{"task": r.task, "run": r.path and str(r.path), "seconds": r.seconds, "error": r.error} for r in found]
        print_json({"schema": "wcbench.suite-run/1", "suite": suite, "runs": rows})
    for run in failed:
        typer.echo(f"wcbench: {run.task} failed: {run.error}", err=True)
    closing([f"Wrote {len(found) - len(failed)} of {len(found)} records"], quiet=quiet, to_stderr=as_json)
    if failed:
        raise typer.Exit(EXIT_FAILED)
