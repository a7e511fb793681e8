"""What recording costs: a fake training step under the recorder against the bare fake step.

Run: python benchmarks/operators.py [ROUNDS]

Both steps run in turn in one process; the median of the pairwise ratios is what counts. Target: at most 1.5 for
ResNet-50 at batch 256 and for BERT-base at 32 x 512.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.profilers.recorder import Recorder
from wcbench.tasks.load import load_task

ROUNDS = 7
TASKS: Mapping[str, tuple[int | None, Mapping[str, str]]] = {
    "image-classification": (None, {}),
    "natural-language": (32, {"seq": "512"}),
}


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def steps(name: str) -> tuple[str, Callable[[], None], Callable[[], None]]:
    """What is stepped, its step under a recorder of its own, and bare."""
    batch_size, overrides = TASKS[name]
    task = load_task(name)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    config = task.configure("paper", batch_size=batch_size, overrides=dict(overrides))
    with mode:
        built = task.build(config)
        batch = built.batch(0)
        built.step(batch)

    def recorded() -> None:
        with mode:
            recorder = Recorder(built.modules, built.optimizers)
            with recorder.step(0, "train", batch):
                built.step(batch)

    def bare() -> None:
        with mode:
            built.step(batch)

    return f"{name} (batch {config.settings.batch_size})", recorded, bare


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010  (as the pass has it)
    for name in TASKS:
        told, recorded, bare = steps(name)
        recorded()
        bare()
        pairs = [(seconds(recorded), seconds(bare)) for _ in range(rounds)]
        with_it, without = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"fake step of {told}: recorded {with_it:.3f} s, bare {without:.3f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
