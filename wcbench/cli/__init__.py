"""The command line: a thin skin over `wcbench.api`. Each command parses, calls and prints, in a file of its own."""

from __future__ import annotations

import signal
import sys
import traceback
from typing import Any

import typer

from wcbench.cli.diff import diff
from wcbench.cli.doctor import doctor
from wcbench.cli.export import export
from wcbench.cli.import_ import import_
from wcbench.cli.list import list_
from wcbench.cli.place import place
from wcbench.cli.profile import profile
from wcbench.cli.report import report
from wcbench.cli.show import show
from wcbench.cli.study import study
from wcbench.errors import EXIT_FAILED, EXIT_INTERRUPTED, WcbenchError

app = typer.Typer(
    name="wcbench",
    help="Characterize what AI training does to a machine: hotspots, memory, complexity.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_)
app.command("profile")(profile)
app.command("import")(import_)
app.command("show")(show)
app.command("diff")(diff)
app.command("study")(study)
app.command("report")(report)
app.command("place")(place)
app.command("export")(export)
app.command("doctor")(doctor)


_INTERRUPTED = "Interrupted; no half-written record is left."


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        from wcbench.machine import wcbench_version

        typer.echo(f"wcbench {wcbench_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def main() -> None:
    """Run the command line; an expected error is told in two lines and ends with its own exit code."""
    debug = "--debug" in sys.argv
    interrupted = _watch_interrupts()
    try:
        app(prog_name="wcbench")  # not the path or the module by which it was started
    except WcbenchError as error:
        if debug:
            traceback.print_exc()
        _tell(error.message, error.hint)
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == EXIT_INTERRUPTED:  # typer turns Ctrl-C into this without a word
            _tell(_INTERRUPTED, None)
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        if debug:
            traceback.print_exc()
        _tell(str(error), None)
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if interrupted:  # code of other libraries makes errors of its own of Ctrl-C
            _tell(_INTERRUPTED, None)
            sys.exit(EXIT_INTERRUPTED)
        if debug:
            traceback.print_exc()
        _tell(
            f"wcbench itself failed: {type(error).__name__}: {error}",
            "This is a defect; --debug shows the traceback to report.",
        )
        sys.exit(EXIT_FAILED)


def _watch_interrupts() -> list[int]:
    """A list that gets an entry when Ctrl-C arrives, which is handled as ever; signals that are ignored stay so."""
    seen: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    return seen


def _tell(message: str, hint: str | None) -> None:
    typer.echo(f"wcbench: {message}", err=True)
    if hint:
        typer.echo(hint, err=True)
