"""`wcbench import`: files of other profilers as a record."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
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
    ended_by_term,
    print_json,
    show,
    stderr,
)


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files, folders (ranks of a job), or archives.", show_default=False),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="Name of the format (docs/formats.md).  [default: told by the content]"),
    ] = None,
    name: Annotated[str | None, typer.Option("--as", help="Name of the record.  [default: the first file's]")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The very folder to write.  [default: under --runs]")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Files read at a time.  [default: one a core]")] = None,
    runs: RunsOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Read traces, counters, execution traces and training logs of other tools as one record.

    Formats are told by content: torch.profiler (Kineto), TensorFlow and JAX, Nsight Systems and Compute, nvprof,
    PyProf, rocprof, execution traces, memory timelines, MLPerf logs. What is damaged is mended or skipped, and said.
    """
    from wcbench import api

    with ended_by_term(), _bytes_bar(quiet) as progress:
        made = api.read(
            files,
            form=form,
            name=name,
            jobs=jobs,
            runs=runs,
            out=out,
            save=True,
            force=force,
            progress=progress,
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


@contextlib.contextmanager
def _bytes_bar(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes read on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as bar:
        row = bar.add_task("reading", total=None)
        yield lambda done, total: bar.update(row, completed=done, total=total)
