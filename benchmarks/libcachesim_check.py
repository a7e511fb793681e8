"""The stack distances against libCacheSim's LRU cache, as a check from outside. Prints the greatest differences.

libCacheSim is no dependency of wcbench. From the checkout, with the links of `make links`:

    python -m venv /tmp/check && /tmp/check/bin/pip install libcachesim numpy pandas
    PYTHONPATH=. /tmp/check/bin/python benchmarks/libcachesim_check.py

1. Objects of one size: the misses must be equal at every capacity.
2. Segments of unequal sizes, each touch replayed as its pages from the lowest up: must be equal too. This is the
   model's claim, that segments behave as the bytes in them do.
3. The same segments as objects of their size: need not be equal. A cache of whole objects evicts a whole one to make
   room for a few bytes and refuses those larger than itself; the model's cache keeps the part that fits.
"""

from __future__ import annotations

import libcachesim
import numpy as np
import numpy.typing as npt

from wcbench.analysis.locality import Accesses, locality, segment, stack_distances

PAGE = 4096
Ints = npt.NDArray[np.int64]


def misses(names: Ints, sizes: Ints, capacity: int) -> int:
    """Missed bytes of an LRU cache of ``capacity`` bytes, by libCacheSim."""
    cache = libcachesim.LRU(capacity, hashpower=18)
    request = libcachesim.Request()
    missed = 0
    for name, size in zip(names.tolist(), sizes.tolist(), strict=True):
        request.obj_id, request.obj_size = name, size
        missed += 0 if cache.get(request) else size
    return missed


def worst(model: Ints, names: Ints, sizes: Ints, capacities: Ints) -> tuple[float, float]:
    """Greatest and mean difference of the miss ratio over the capacities; positive where libCacheSim misses more."""
    theirs = np.array([misses(names, sizes, int(capacity)) for capacity in capacities])
    difference = (theirs - model) / sizes.sum()
    return float(difference[np.abs(difference).argmax()]), float(np.abs(difference).mean())


def missed_by_model(names: Ints, sizes: Ints, capacities: Ints) -> Ints:
    distances = stack_distances(names, sizes)
    return np.array([sizes[distances > capacity].sum() for capacity in capacities])


def stream(rng: np.random.Generator) -> Accesses:
    """3,000 operators on 200 storages of up to 64 pages: two reads and a write of whole pages each."""
    n = 9000
    storage = (rng.zipf(1.2, n) - 1) % 200
    pages = rng.integers(1, 65, 200)[storage]
    cut = np.sort(rng.integers(0, 4, (2, n)), axis=0)  # a quarter or more of the storage
    begin, end = pages * cut[0] // 4, -(-pages * (cut[1] + 1) // 4)
    zeros = np.zeros(n, dtype=np.int64)
    return Accesses(
        op=np.arange(n) // 3,
        storage=storage,
        begin=begin * PAGE,
        end=np.maximum(end, begin + 1) * PAGE,
        write=np.arange(n) % 3 == 2,
        weighted=zeros > 0,
        nbytes=zeros,
        step=zeros,
        phase=zeros.astype(np.int8),
    )


def main() -> None:
    rng = np.random.default_rng(0)
    names = (rng.zipf(1.1, 200_000) - 1) % 20_000
    ones = np.full(len(names), PAGE)
    capacities = np.geomspace(2, 25_000, 16).astype(np.int64) * PAGE
    difference = worst(missed_by_model(names, ones, capacities), names, ones, capacities)
    print(f"1. objects of one size, {len(names):,} touches, 16 capacities: greatest {difference[0]:+g}")

    accesses = stream(rng)
    trace = segment(accesses)
    footprint = locality(accesses).unique_bytes
    capacities = np.geomspace(8 * PAGE, footprint * 1.1, 16).astype(np.int64)
    model = np.rint(locality(accesses, capacities=capacities.tolist()).miss_ratio * trace.size.sum()).astype(np.int64)
    count = trace.size // PAGE
    row = np.repeat(np.arange(len(trace)), count)
    page = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    pages = trace.segment[row] * 64 + page
    whole = capacities // PAGE * PAGE
    model_pages = np.rint(locality(accesses, capacities=whole.tolist()).miss_ratio * trace.size.sum()).astype(np.int64)
    difference = worst(model_pages, pages, np.full(len(pages), PAGE), whole)
    print(
        f"2. {len(trace):,} touches of {len(np.unique(trace.segment)):,} segments as {len(pages):,} of pages, "
        f"16 capacities: greatest {difference[0]:+g}"
    )
    difference = worst(model, trace.segment, trace.size, capacities)
    print(f"3. the same segments as objects of their size: greatest {difference[0]:+.4f}, mean {difference[1]:.4f}")


if __name__ == "__main__":
    main()
