"""``%load_ext wcbench`` in a notebook: ``%%wcbench`` profiles the cell below it, ``%wcbench_help`` says how."""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError

from wcbench.errors import UnknownNameError, UsageError, WcbenchError

VARIABLE = "_wcbench"

_ABOUT = """\
Profile the code of a cell. It is run once as it stands, which shows what it prints and any error as usual, and then
again and again, silently, once a step of each pass. Models, optimizers and schedulers that the cell uses are put back
as they were before each pass and at the end; anything else that it changes (files, lists, iterators) stays changed.
A last line that is one number, such as `loss`, is recorded as the step's loss.
"""
_EPILOG = """\
examples:
  %%wcbench --samples 32
  %%wcbench --passes timing --steps 20 --as before
  %%wcbench --name my-step --save runs

The record is shown, and stands in the variable: profile.figure("hotspots"), profile.view("hotspots"),
profile.table("kernels"), profile.to_frame(), wcbench.report(profile, "report.html").
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong where a program would end."""

    def error(self, message: str) -> Any:
        raise UsageError(f"%%wcbench: {message}.", "%wcbench_help shows the options.")


def parser() -> argparse.ArgumentParser:
    """The options of ``%%wcbench``."""
    made = _Parser(
        prog="%%wcbench",
        description=_ABOUT,
        epilog=_EPILOG,
        add_help=False,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--passes", metavar="P,...", help="operators, timing, timeline, memory, power, primitives; "
                      "by default operators (where there is a model), timing and timeline")  # fmt: skip
    made.add_argument("--steps", type=int, metavar="N", help="runs that each pass measures")
    made.add_argument("--warmup", type=int, metavar="N", help="runs that each pass drops before")
    made.add_argument("--samples", type=int, metavar="N", help="samples that one run consumes, for the throughput")
    made.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1; by default where the model is")
    made.add_argument("--threads", type=int, metavar="N", help="intra-op threads of torch")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the random numbers of each pass (0)")
    made.add_argument("--keep", action="store_true", help="leave models and optimizers as the runs leave them")
    made.add_argument("--name", default="cell", metavar="X", help="name of the record (cell)")
    made.add_argument("--as", dest="variable", default=VARIABLE, metavar="V", help=f"variable it goes to ({VARIABLE})")
    made.add_argument("--save", metavar="DIR", help="also save it, below this folder of runs")
    made.add_argument("--quiet", action="store_true", help="do not show the record")
    made.add_argument("--help", action="store_true", help="show this text and run nothing")
    return made


def parse(line: str) -> argparse.Namespace:
    """The options of a line; raises UsageError, with the nearest name for an unknown option."""
    made = parser()
    try:
        found, rest = made.parse_known_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"%%wcbench: {error}.", "Close the quotes.") from None
    if rest:
        options = [text for action in made._actions for text in action.option_strings]
        raise UnknownNameError("option of %%wcbench", rest[0], options)
    if not found.variable.isidentifier():
        raise UsageError(f"--as {found.variable} is no name of a variable.")
    if found.samples is not None and found.samples < 1:
        raise UsageError(f"--samples {found.samples} is refused.", "Give a whole number from 1 up.")
    name = found.name
    if name != name.strip() or not name.strip(".") or len(name) > 120 or not name.isprintable() or "/" in name:
        raise UsageError(f"{name[:120]!r} is no name for a record.", "Take letters, digits, dots and dashes.")
    return found


# --- what IPython calls -------------------------------------------------------------------------------------------


def load(shell: Any) -> None:
    """Register the magics."""

    def wcbench(line: str, cell: str) -> Any:
        __tracebackhide__ = True
        return run_cell(shell, line, cell)

    def wcbench_help(line: str) -> None:
        """Show how to use %%wcbench."""
        print(parser().format_help())

    wcbench.__doc__ = parser().format_help()
    shell.register_magic_function(wcbench, "cell", "wcbench")
    shell.register_magic_function(wcbench_help, "line", "wcbench_help")


def unload(shell: Any) -> None:
    """Take the magics away."""
    for kind, name in (("cell", "wcbench"), ("line", "wcbench_help")):
        shell.magics_manager.magics[kind].pop(name, None)


def run_cell(shell: Any, line: str, cell: str) -> Any:
    """Profile a cell and give the record, which is also in the variable; None with --help or --quiet."""
    __tracebackhide__ = True
    try:
        asked = parse(line)
        if asked.help:
            print(parser().format_help())
            return None
        made = _profiled(shell, asked, line, cell)
    except UsageError as error:
        raise IPythonUsageError(str(error)) from None
    except WcbenchError as error:
        raise _shown(shell, error, []) from None
    shell.user_ns[asked.variable] = made
    return None if asked.quiet else made


def _profiled(shell: Any, asked: argparse.Namespace, line: str, cell: str) -> Any:
    from wcbench.cell import Saved, profile_call
    from wcbench.errors import TaskError
    from wcbench.lookup import run_folder, runs_root

    __tracebackhide__ = True
    code = Code(shell, cell)
    before = code.objects()
    with Saved({} if asked.keep else before).putting_back(), _user_errors(shell, code):
        begin = time.perf_counter()
        code.run()
        seconds = time.perf_counter() - begin
    try:
        with _silence():
            made = profile_call(
                code.run,
                name=asked.name,
                objects=before or code.objects(),
                passes=None if asked.passes is None else [p.strip() for p in asked.passes.split(",") if p.strip()],
                device=asked.device,
                samples=asked.samples,
                steps=asked.steps,
                warmup=asked.warmup,
                threads=asked.threads,
                seed=asked.seed,
                keep=asked.keep,
                command=("%%wcbench", *shlex.split(line)),
                seconds=seconds,
            )
    except TaskError as error:
        if error.__cause__ is None:
            raise
        error.__cause__.add_note(f"It ran once without error; {error.message}")
        raise _shown(shell, error.__cause__, code.frames(error.__cause__)) from None
    return made.save(run_folder(runs_root(asked.save), made.manifest)) if asked.save else made


@contextmanager
def _silence() -> Iterator[None]:
    """What the cell prints was shown by its first run; the others are for the passes alone."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


# --- the cell -----------------------------------------------------------------------------------------------------


class Code:
    """A cell's code, compiled as IPython does, so that tracebacks show its lines."""

    def __init__(self, shell: Any, cell: str) -> None:
        __tracebackhide__ = True
        self.namespace: dict[str, Any] = shell.user_ns
        source = shell.transform_cell(cell)
        self.file: str = shell.compile.cache(source, shell.execution_count, raw_code=cell)
        try:
            tree = shell.transform_ast(shell.compile.ast_parse(source, filename=self.file))
            self._body, self._last = _split(tree, self.file)
        except SyntaxError as error:
            raise _syntax_error(shell, error) from None

    def run(self) -> Any:
        """Run it in the notebook's names; gives the value of a last expression."""
        exec(self._body, self.namespace)
        return None if self._last is None else eval(self._last, self.namespace)

    def objects(self) -> dict[str, Any]:
        """What the cell works on that has a state, by name: of its own names, and of the functions that it calls."""
        found: dict[str, Any] = {}
        for part in (self._body, self._last):
            if part is not None:
                _collect(part, self.namespace, found, set())
        return found

    def frames(self, error: BaseException) -> list[types.TracebackType]:
        """The error's traceback from the cell's own first line on; empty where it does not pass through the cell."""
        here = error.__traceback__
        while here is not None and here.tb_frame.f_code.co_filename != self.file:
            here = here.tb_next
        return [] if here is None else [here]


def _split(tree: ast.Module, file: str) -> tuple[types.CodeType, types.CodeType | None]:
    """All statements, and the last one apart where it is an expression."""
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), file, "eval")  # type: ignore[attr-defined]
    return compile(tree, file, "exec"), last


def _collect(code: types.CodeType, names: Mapping[str, Any], found: dict[str, Any], seen: set[int]) -> None:
    """Objects with a state behind the names of some code, of functions that it names, and of attributes one deep."""
    if id(code) in seen:
        return
    seen.add(id(code))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            _collect(inner, names, found, seen)
    for name in code.co_names:
        if name in names:
            _look(name, names[name], found, seen)


def _look(name: str, value: Any, found: dict[str, Any], seen: set[int]) -> None:
    from wcbench.cell import has_state

    if isinstance(value, types.ModuleType | type):
        return
    if has_state(value):
        found.setdefault(name, value)
        return
    function = getattr(value, "__func__", value)
    if isinstance(function, types.FunctionType):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {key: cell.cell_contents for key, cell in cells if _filled(cell)}
        _collect(function.__code__, function.__globals__, found, seen)
        for key, inner in held.items():
            if has_state(inner):
                found.setdefault(key, inner)
    owner = getattr(value, "__self__", value)
    for key, inner in dict(getattr(owner, "__dict__", {})).items():
        if has_state(inner):
            found.setdefault(f"{name}.{key}" if key.isidentifier() else name, inner)


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


# --- errors -------------------------------------------------------------------------------------------------------


@contextmanager
def _user_errors(shell: Any, code: Code) -> Iterator[None]:
    """An error of the cell's own is shown from the cell's line on, as if there were no magic."""
    __tracebackhide__ = True
    try:
        yield
    except Exception as error:
        raise _shown(shell, error, code.frames(error)) from None


def _shown(shell: Any, error: BaseException, frames: Sequence[types.TracebackType]) -> BaseException:
    """The error, told by IPython with these frames alone; the cell fails all the same, and so does "run all"."""

    def lines() -> Any:
        if isinstance(error, WcbenchError):
            return [*str(error).splitlines()]
        if not frames:
            return traceback.format_exception_only(error)
        return shell.InteractiveTB.structured_traceback(type(error), error, frames[0])

    render: Callable[[], Any] = lines
    error._render_traceback_ = render  # type: ignore[attr-defined]
    if frames:
        error.__traceback__ = frames[0]
    return error


def _syntax_error(shell: Any, error: SyntaxError) -> BaseException:
    """The same to read; of another class, since IPython shows a SyntaxError with every frame that led to it."""
    twin: BaseException = type("SyntaxError", (Exception,), {})(str(error))
    render: Callable[[], Any] = lambda: shell.SyntaxTB.structured_traceback(type(error), error, [])  # noqa: E731
    twin._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it
    return twin
