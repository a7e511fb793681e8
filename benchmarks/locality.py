"""What the reuse model costs: stack distances, the whole analysis, and the peak of memory.

Run: python benchmarks/locality.py [TOUCHES]

1. `stack_distances` on TOUCHES touches (10^6 by default), and on a tenth against the Fenwick tree: both in turn in one
   process, the median of the pairwise ratios.
2. `locality` on a stream of about that many touches, logical and allocator; target for 10^6: under 5 s and 2 GB.
   Past 10^7 touches it samples.
3. The error of the miss ratio by sampling a tenth of the segments, on nine skewed traces.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from wcbench.analysis import sampling
from wcbench.analysis.locality import (
    INFINITE,
    Accesses,
    Curve,
    Lifetimes,
    locality,
    miss_ratio_curve,
    segment,
    stack_distances,
    stack_distances_fenwick,
    to_allocator,
)
from wcbench.analysis.stack import previous_touch

ROUNDS = 3
PER_OPERATOR = 4  # accesses: three reads and a write


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def stream(touches: int) -> tuple[Accesses, Lifetimes]:
    """Two steps of forward, backward and optimizer over tensors of a dozen sizes.

    Operator i reads the output of the one before it, that of an earlier one (in the backward half the one it mirrors)
    and a weight, and writes its own output; a sixteenth of the accesses read a quarter of a tensor, which cuts it.
    """
    ops = touches // 10  # two steps of as many operators, whose accesses make about 5 touches
    index = np.arange(2 * ops)
    step, order = index // ops, index % ops
    mirror = np.where(order > ops // 2, ops - order, order - 2).clip(0)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, ops // 4 + 1, 2 * ops)
    output, before = ops + index + 1, ops + index
    other = ops + 1 + step * ops + mirror
    storage = np.stack([before, other, weight, output], axis=1).ravel()
    nbytes = 3072 * (2 ** rng.integers(0, 12, int(storage.max()) + 1))[storage]
    write = np.tile([False, False, False, True], 2 * ops)
    quarter = (np.arange(len(storage)) % 16 == 0) & ~write
    begin = np.where(quarter, nbytes // 4, 0)
    end = np.where(quarter, nbytes // 2, nbytes)
    phase = np.select([order < ops // 2, order < 9 * ops // 10], [0, 1], 2)
    accesses = Accesses(
        op=np.repeat(index, PER_OPERATOR),
        storage=storage,
        begin=begin,
        end=end,
        write=write,
        weighted=np.zeros(len(storage), dtype=np.bool_),
        nbytes=nbytes,
        step=np.repeat(step, PER_OPERATOR),
        phase=np.repeat(phase, PER_OPERATOR).astype(np.int8),
    )
    last_use = np.zeros(int(storage.max()) + 1, dtype=np.int64)
    np.maximum.at(last_use, storage, accesses.op)
    return accesses, Lifetimes(output, index, last_use[output] + 1)


def distances(touches: int) -> None:
    rng = np.random.default_rng(1)
    names = rng.zipf(1.2, touches) % (touches // 10)
    size = rng.integers(1, 2**20, touches // 10)[names]
    times = [seconds(lambda: stack_distances(names, size)) for _ in range(ROUNDS)]
    print(f"stack_distances, {touches:,} touches: {statistics.median(times):.2f} s")
    small, size = names[: touches // 10], size[: touches // 10]
    pairs = [
        (seconds(lambda: stack_distances_fenwick(small, size)), seconds(lambda: stack_distances(small, size)))
        for _ in range(ROUNDS)
    ]
    tree, merge = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{len(small):,} touches: Fenwick tree {tree:.2f} s, merge {merge:.3f} s, ratio {ratio:.0f}")


def analysis(touches: int) -> None:
    accesses, lives = stream(touches)
    print(f"stream: {len(accesses):,} accesses, {len(segment(accesses)):,} touches")
    for name in ("logical", "allocator"):
        begin = time.perf_counter()
        moved = accesses if name == "logical" else to_allocator(accesses, lives)
        found = locality(moved, lives)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{name}: {time.perf_counter() - begin:.2f} s, peak resident memory so far {peak:.2f} GiB")
        print(f"  {found.touches:,} touches in the measured step; {'; '.join(found.notes) or 'exact'}")


def sampling_error(skew: float, seed: int) -> None:
    """A loop over 900 large segments among Zipf touches of small ones."""
    rng = np.random.default_rng(seed)
    names = (rng.zipf(skew, 200_000) - 1) % 20_000
    names[::4] = 20_000 + np.arange(50_000) % 900
    size = np.where(np.arange(20_900) < 20_000, rng.integers(1, 4096, 20_900), 65_536)[names]
    previous = previous_touch(names)
    sample = sampling.distances(names, size, 20_900, previous, 0.1)
    again = previous >= 0
    weights = np.rint(size * sample.scale).astype(np.int64)
    curve = Curve(sample.distances[again], weights[again], int(size[again].sum()), int(size[~again].sum()))
    capacities = np.geomspace(1024, 2**27, 60).astype(np.int64)
    exact = np.where(again, stack_distances(names, size, previous), INFINITE)
    found = curve(capacities) / size.sum()
    error = np.abs(found - miss_ratio_curve(exact, size, capacities))
    # what is left once the curve may move along the capacities as much as is stated
    moved = np.minimum(sample.shift * np.sqrt(size[~again].sum() / capacities), 1) * capacities
    low, high = (miss_ratio_curve(exact, size, capacities + sign * moved) for sign in (1, -1))
    excess = np.maximum(found - high, low - found).max(initial=0)
    print(
        f"Zipf {skew}, seed {seed}: greatest error {error.max():.4f}, mean {error.mean():.4f}; beyond the stated shift "
        f"{excess:.4f}, stated {sample.error:.4f}; shift {sample.shift:.1%}, {sample.rate:.0%} of the touches kept"
    )


def main() -> None:
    touches = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6
    analysis(touches)
    distances(min(touches, 10**6))
    for skew in (1.05, 1.2, 1.6):
        for seed in range(3):
            sampling_error(skew, seed)


if __name__ == "__main__":
    main()
