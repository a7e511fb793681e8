"""mypy over the whole package, and the proof that it was the whole package.

`mypy -p wcbench` passes silently on a part of the files when the links beside them are missing; so the number of
files that it checked is compared with the number that are there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("wcbench", "profilers", "analysis", "reports")


def source_files() -> int:
    """Python files of the package; the links inside wcbench/ are not followed, so each counts once."""
    every = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not _through_link(path))
    return sum(1 for path in every if path.parent != ROOT / "reports" / "samples")  # a script that is in no package


def _through_link(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if parent != ROOT and ROOT in parent.parents)


def missing_links() -> list[str]:
    """The links without which the files of these folders would not be checked at all."""
    return [f"wcbench/{name}" for name in FOLDERS[1:] if not (ROOT / "wcbench" / name).is_symlink()]


def main() -> int:
    if missing_links():
        print(
            f"Not there: {', '.join(missing_links())}. Without them mypy sees a part of the package: run `make links`."
        )
        return 1
    # folders without modules (templates) would count as namespace packages
    command = [sys.executable, "-m", "mypy", "--no-namespace-packages", "-p", "wcbench"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", end="")
    if done.returncode:
        return done.returncode
    checked = re.search(r"(?:in|checked) (\d+) source files?", done.stdout)
    there = source_files()
    if checked is None or int(checked[1]) != there:
        print(f"mypy checked {checked[1] if checked else 'no'} files, but the package has {there}: run `make links`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
