"""What counting and starting cost, as ratios within one process tree, interleaved.

Run: python benchmarks/capture.py

1. A fake training step under wcbench's counting mode against the bare fake step (ResNet-50, batch 256).
2. `wcbench list` against a bare `python -c "import typer, rich.table"`: what the command adds to its libraries.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.profilers.complexity import StepCounter
from wcbench.tasks.load import load_task

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


def fake_step(counted: bool) -> Callable[[], object]:
    task = load_task("image-classification")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        built = task.build(task.configure("paper"))
        batch = built.batch(0)
        built.step(batch)

    def run() -> None:
        with mode, StepCounter() if counted else contextlib.nullcontext():
            built.step(batch)

    return run


def main() -> None:
    counted, bare, ratio = interleaved(fake_step(counted=True), fake_step(counted=False))
    print(f"fake ResNet-50 step, batch 256: counted {counted:.3f} s, bare {bare:.3f} s, ratio {ratio:.2f}")
    commands = ([sys.executable, "-m", "wcbench", "list"], [sys.executable, "-c", "import typer, rich.table"])
    first, second = (lambda c=c: subprocess.run(c, check=True, capture_output=True) for c in commands)
    ours, theirs, ratio = interleaved(first, second)
    print(f"wcbench list {ours:.3f} s, its libraries alone {theirs:.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
