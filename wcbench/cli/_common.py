"""What the commands share: options by their one spelling, output, progress."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from wcbench.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wcbench.profilers.request import Progress

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A record: its folder, TASK, TASK:latest or TASK:ID.", show_default=False)
]
RunsOption = Annotated[
    Path | None, typer.Option("--runs", help="Folder of all records.  [default: $WCBENCH_RUNS or runs]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a machine (docs/json.md) to standard output.")]
OnOption = Annotated[
    str | None,
    typer.Option("--on", metavar="DEVICE", help="Device of the roofline, e.g. h100-sxm.  [default: the record's GPU]"),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress and no closing lines.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def stderr() -> Console:
    return Console(stderr=True, highlight=False)


def show(renderable: RenderableType) -> None:
    """Print to standard output, as wide as the terminal; COLUMNS or 110 columns into a pipe."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=int(os.environ.get("COLUMNS") or 110))
    console.print(renderable)


def print_json(value: Any) -> None:
    """JSON to standard output, unrounded; NaN cannot occur and would raise."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def closing(lines: list[str], *, quiet: bool, to_stderr: bool) -> None:
    """The last lines of a command: what was written, and what to try next."""
    if not quiet:
        for line in lines:
            typer.echo(line, err=to_stderr)


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """``key=value`` texts as a mapping; raises UsageError on anything else."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {pair} is not of the form key=value.", "For example --set seq=512.")
        settings[key] = value
    return settings


def parse_list(text: str) -> list[str]:
    """Comma-separated words, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def parse_numbers(option: str, text: str | None) -> list[int] | None:
    """Comma-separated whole numbers; None where the option was not given. Raises UsageError on anything else."""
    if text is None:
        return None
    try:
        numbers = [int(word) for word in parse_list(text)]
    except ValueError:
        numbers = []
    if not numbers:
        raise UsageError(f"{option} {text} is no whole number.", f"For example {option} 8, or {option} 1,2,4,8.")
    return numbers


@contextlib.contextmanager
def ended_by_term() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: what is half done is cleared away."""

    def ended(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, ended) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, one line a pass elsewhere, nothing when quiet; always on standard error."""
    if quiet:
        yield lambda passname, done, total: None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _lines()


def _lines() -> Progress:
    def report(passname: str, done: int, total: int) -> None:
        if total and done == total:
            typer.echo(f"{passname}: {done} steps done", err=True)

    return report


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as bar:
        rows: dict[str, Any] = {}

        def report(passname: str, done: int, total: int) -> None:
            if passname not in rows:
                rows[passname] = bar.add_task(passname, total=None)
            bar.update(rows[passname], completed=done, total=total or None)

        yield report
