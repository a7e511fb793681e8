"""What starting costs, as a ratio within one process tree, interleaved.

Run: python benchmarks/capture.py

`wcbench list` against a bare `python -c "import typer, rich.table"`: what the command adds to its libraries.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

ROUNDS = 7


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def interleaved(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float, float]:
    """Medians of both and the median of the pairwise ratios first / second."""
    pairs = [(seconds(first), seconds(second)) for _ in range(ROUNDS)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def main() -> None:
    commands = ([sys.executable, "-m", "wcbench", "list"], [sys.executable, "-c", "import typer, rich.table"])
    first, second = (lambda c=c: subprocess.run(c, check=True, capture_output=True) for c in commands)
    ours, theirs, ratio = interleaved(first, second)
    print(f"wcbench list {ours:.3f} s, its libraries alone {theirs:.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
