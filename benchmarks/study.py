"""Speed of the choice of a subset: 27 x 80 with everything, and 10^5 x 60 with its bounds.

`python benchmarks/study.py` prints seconds and peak memory and ends with 1 where a limit is passed: 20 s for 27 x 80
(of all parts that are here), 60 s and 2 GB for 10^5 x 60, and a time that grows no more than 1.5 times as fast as the
number of workloads from a quarter of them on.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pandas as pd

from wcbench.analysis.cover import distances
from wcbench.analysis.largen import Coreset, coreset_cover
from wcbench.analysis.stability import jitter, sub_samples, without_blocks
from wcbench.analysis.subset import choose_in
from wcbench.analysis.table import Space
from wcbench.analysis.validation import Metric, validate

SMALL_SECONDS, LARGE_SECONDS, LARGE_BYTES, GROWTH = 20.0, 60.0, 2e9, 1.5
T = TypeVar("T")


def timed(label: str, work: Callable[[], T]) -> tuple[T, float]:
    """Do the work, print how long it took, and return both."""
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    print(f"  {seconds:7.2f} s  {label}", flush=True)
    return found, seconds


def small_space(n: int = 27, p: int = 80, factors: int = 4) -> Space:
    """n workloads of p correlated features in 8 blocks, each block of total variance 1."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, factors)) @ random.normal(size=(factors, p)) + 0.5 * random.normal(size=(n, p))
    blocks = tuple(f"block{i * 8 // p}" for i in range(p))
    deviations = x.std(axis=0, ddof=1) * np.sqrt([blocks.count(name) for name in blocks])
    points = pd.DataFrame((x - x.mean(axis=0)) / deviations, index=[f"w{i:02d}" for i in range(n)])
    return Space(points, blocks, {}, x.mean(axis=0), deviations)


def small() -> float:
    """All parts for 27 x 80; seconds."""
    space = small_space()
    d = distances(space.distances(), space.names)
    # between the quarter and the median of the nearest neighbours: a radius that still tells workloads apart
    radius = float(np.quantile(d.nearest_neighbour, 0.45))
    metrics = [
        Metric(name, dict(zip(d.names, np.exp(space.points[name]), strict=True)), "measured", mean="geometric")
        for name in space.points.columns[:10]
    ]
    print(f"27 x 80 at r = {radius:.3f}")
    seconds = []
    for at in (radius, 2 * radius):
        chosen, one = timed(f"subset, curve, optima, certificate at {at:.3f}", lambda at=at: choose_in(space, at))  # type: ignore[misc]
        several = f"{'' if chosen.optima_complete else 'at least '}{len(chosen.optima)} optima"
        print(f"           {len(chosen)} members, {several}")
        members = chosen.members
        seconds.append(one)
        seconds.append(timed("200 sub-samples", lambda at=at, m=members: sub_samples(d, at, m))[1])  # type: ignore[misc]
        seconds.append(timed("200 jitters", lambda at=at, m=members: jitter(space, 0.02, at, m))[1])  # type: ignore[misc]
        seconds.append(timed("blocks dropped", lambda at=at, m=members: without_blocks(space, at, m))[1])  # type: ignore[misc]
        seconds.append(timed("validation, 10 metrics", lambda at=at, m=members: validate(d, at, m, metrics))[1])  # type: ignore[misc]
    worst = max(sum(seconds[:5]), sum(seconds[5:]))
    print(f"  {worst:7.2f} s  at one radius, the slower one (limit {SMALL_SECONDS:.0f} s)")
    return worst


def large(n: int, p: int = 60) -> tuple[Coreset, float]:
    """A cover with both bounds of n workloads in 40 clusters, a seventh of them duplicates; seconds."""
    random = np.random.default_rng(1)
    x = random.normal(size=(40, p))[random.integers(0, 40, n)] + 0.35 * random.normal(size=(n, p))
    x[::7] = x[0]
    names = [f"job{i:06d}" for i in range(n)]
    return timed(f"{n} x {p}", lambda: coreset_cover(x, names, 6.0))


def main() -> int:
    first = small()
    print("10^5 x 60")
    (_, part), (found, whole) = large(25_000), large(100_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    growth = whole / part / 4
    print(found)
    print(f"  peak memory {peak / 1e9:.2f} GB; time grew {growth:.2f} times as fast as the number of workloads")
    good = first <= SMALL_SECONDS and whole <= LARGE_SECONDS and peak <= LARGE_BYTES and growth <= GROWTH
    print("within the limits" if good else "PAST A LIMIT")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
