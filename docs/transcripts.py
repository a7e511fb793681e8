"""Transcripts of the docs: run the commands that they show, compare, and write what changed.

A page is a session: one scratch folder, its blocks in order. Markers are comments before the block that they are of:

    <!-- run -->             the commands of the next block are run; what they print must be what stands there
    <!-- run: measured -->   figures depend on the machine: words of the lines without a digit must be printed again
    <!-- run: free -->       what it prints depends on the machine: half of the words must be printed again
    <!-- file: NAME -->      the next block is written to NAME
    <!-- setup: COMMAND -->  a command that is not shown; $SHARED is the folder ../shared

Further words beside these: `slow` (left out of the default tests), `head=N` (only so many lines of what each command
prints are shown, then `...`), `exit=N` (how the last command ends, 0 if not said). What names one moment or place is
masked in every comparison: record ids, times with a unit, dates, folders of this machine.

`python docs/transcripts.py [--quick] [PAGE...]` rewrites the blocks that do not compare equal, and no others; --quick
leaves out the slow ones.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SHARED = ROOT.parent / "shared"
WIDTH = "88"
_MARK = re.compile(r"^<!-- (run|file|setup)(?:: (.*?))? -->\n(?:\n?```\w+\n(.*?)^```$)?", re.M | re.S)
_MASKS = (
    (r"\d{8}T\d{6}\.\d+Z-[0-9a-f]{8}", "<id>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "<time>"),
    (r"\d[\d.,]*( to \d[\d.,]*)? (ns|µs|ms|s|min|h)\b", "<duration>"),
    (r"/\S*/(?=[\w.-]+)", "<folder>/"),
)


@dataclass(frozen=True)
class Block:
    """One marker with its block: where its text lies in the page, and what is asked of it."""

    page: str
    kind: str
    said: str
    text: str
    span: tuple[int, int] = field(default=(0, 0))

    @property
    def words(self) -> set[str]:
        return set(self.said.split(", ")) if self.kind == "run" else set()

    @property
    def slow(self) -> bool:
        return "slow" in self.words

    def number(self, name: str) -> int | None:
        found = [word.removeprefix(f"{name}=") for word in self.words if word.startswith(f"{name}=")]
        return int(found[0]) if found else None

    @property
    def commands(self) -> list[str]:
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(page: Path) -> list[Block]:
    """The marked blocks of a page, in order; raises ValueError on a marker without its block."""
    found = []
    for match in _MARK.finditer(page.read_text(encoding="utf-8")):
        if match[1] != "setup" and match[3] is None:
            raise ValueError(f"{page.name}: no block follows {match[0].strip()}")
        found.append(Block(page.name, match[1], match[2] or "", match[3] or "", match.span(3)))
    return found


def masked(text: str) -> list[str]:
    """The lines of a transcript as they are compared: masked, rules and runs of blanks as one blank."""
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    lines = [re.sub(r"[\s─━]+", " ", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]{3,}", text))


def same(block: Block, printed: str) -> bool:
    """Whether what is printed now is what the page shows, by the block's own rule."""
    if block.commands != [line[2:] for line in printed.splitlines() if line.startswith("$ ")]:
        return False
    shown = block.text.splitlines()
    if "free" in block.words:
        mine = words(block.text)
        return len(shown) > len(block.commands) and 2 * len(mine & words(printed)) >= len(mine)
    if "measured" in block.words:
        fixed = (line for line in shown if not re.search(r"\d", line))
        quiet = all(line.startswith("$ ") for line in shown) and masked(block.text) != masked(printed)
        return not quiet and all(words(line) <= words(printed) for line in fixed)
    return masked(block.text) == masked(printed)


@contextlib.contextmanager
def session() -> Iterator[Path]:
    """A scratch folder as the working folder, with the environment that transcripts are made in."""
    bins = Path(sys.executable).parent
    asked = {"COLUMNS": WIDTH, "SHARED": str(SHARED), "PATH": f"{bins}:{os.environ['PATH']}", "TERM": "dumb"}
    asked |= {"NO_COLOR": "1"}
    dropped = ("WCBENCH_RUNS", "FORCE_COLOR")
    before, where = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="wcbench-docs-") as folder:
        try:
            os.environ.update(asked)
            for name in dropped:
                os.environ.pop(name, None)
            os.chdir(folder)
            yield Path(folder)
        finally:
            os.chdir(where)
            os.environ.clear()
            os.environ.update(before)


def play(block: Block) -> str:
    """Do what a block says in the session's folder, and give the block's text as it is now.

    Raises RuntimeError where a command does not end as the page says.
    """
    if block.kind == "file":
        Path(block.said).write_text(block.text, encoding="utf-8")
        return block.text
    if block.kind == "setup":
        _expect(block, block.said, *_shell(block.said), 0)
        return block.text
    lines = []
    for command in block.commands:
        code, printed = _run(command)
        last = command == block.commands[-1]
        _expect(block, command, code, printed, (block.number("exit") or 0) if last else 0)
        lines += [f"$ {command}", *_shown(printed, block.number("head"))]
    return "\n".join(lines) + "\n"


def _expect(block: Block, command: str, code: int, printed: str, wanted: int) -> None:
    if code != wanted:
        raise RuntimeError(f"docs/{block.page}: `{command}` ended with {code} and not {wanted}:\n{printed}")


def _shown(printed: str, head: int | None) -> list[str]:
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    lines = ["" if line.startswith("```") else line for line in lines]
    return lines if head is None or len(lines) <= head + 1 else [*lines[:head], "..."]


def _run(command: str) -> tuple[int, str]:
    """Exit code and everything printed. wcbench and Python scripts run in this process, which has torch loaded."""
    words = shlex.split(command, comments=True)
    if any(sign in words for sign in ("|", ">", "<", "&&")) or "*" in command:
        return _shell(command)
    if words[0] == "wcbench":
        return _inside(words)
    if words[0] == "python" and words[1].endswith(".py"):
        return _inside(words[1:])
    return _shell(command)


def _inside(words: list[str]) -> tuple[int, str]:
    before = sys.argv, list(sys.path), sys.excepthook  # typer puts a hook of its own there
    printed, code = io.StringIO(), 0
    sys.argv = words
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if words[0] == "wcbench":
                from wcbench.cli import main

                main()
            else:
                runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.argv, sys.path[:], sys.excepthook = before
    return code, printed.getvalue()


def _shell(command: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", command], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600
    )
    return done.returncode, done.stdout


def pages() -> list[Path]:
    """The pages that have transcripts."""
    return [page for page in sorted(DOCS.glob("*.md")) if any(block.kind == "run" for block in blocks(page))]


def renew(page: Path, *, quick: bool = False) -> tuple[list[str], list[str]]:
    """Run a page and rewrite its blocks that do not compare equal; their first commands, and what went wrong."""
    text, changed, wrong = page.read_text(encoding="utf-8"), [], []
    results = []
    with session():
        for block in blocks(page):
            if quick and block.slow:
                continue
            try:
                results.append((block, play(block)))
            except RuntimeError as error:
                wrong.append(str(error))
    for block, printed in reversed(results):  # from the end, so that places before stay
        if block.kind == "run" and not same(block, printed):
            text = text[: block.span[0]] + printed + text[block.span[1] :]
            changed.insert(0, block.commands[0])
    page.write_text(text, encoding="utf-8")
    return changed, wrong


def main() -> int:
    sys.path.insert(0, str(ROOT))
    quick = "--quick" in sys.argv
    named = [DOCS / Path(name).name for name in sys.argv[1:] if name != "--quick"]
    failed = 0
    for page in named or pages():
        changed, wrong = renew(page, quick=quick)
        failed += len(wrong)
        print(f"docs/{page.name}: {len(changed)} transcripts renewed" + "".join(f"\n  $ {text}" for text in changed))
        print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
