"""Storages at the addresses that an allocator would give them: the second identity of a byte.

By `logical` identity each tensor's bytes are new; by `allocator` identity an address is reused as soon as its tenant
dies, and what the dead tenant left in the cache is overwritten in place instead of waiting for its eviction.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace

import numpy as np

from wcbench.analysis.segments import NEVER, Accesses, Births, Ints, Lifetimes

GRANULE = 512  # bytes; the rounding of PyTorch's CUDA caching allocator
_BEFORE = -1  # the operator index of a birth before the window


def to_allocator(accesses: Accesses, births: Births) -> Accesses:
    """The accesses in one address space (storage 0), ``tenant`` holding the storage of each.

    The allocator is the simplest that reuses: sizes are rounded up to 512 bytes, the smallest free block that fits is
    taken (of equal ones the lowest address), what is left of it stays free, freed neighbours unite, and where nothing
    fits the heap grows. An operator's deaths come before its births, births in order of storage number. Real
    allocators keep pools and do not return blocks at once; the addresses are a model of reuse, not of one allocator.

    Parameters
    ----------
    births : storage -> (born, died), as `Lifetimes` has it. Others are born before the window and never die.
    """
    names, at = np.unique(accesses.storage, return_inverse=True)
    lives = Lifetimes.of(births)
    seen = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(seen, at, accesses.end)
    if lives.nbytes is not None:
        seen = np.maximum(seen, lives.lookup(names, "nbytes", 0))
    base = _addresses(seen, lives.lookup(names, "born", _BEFORE), lives.lookup(names, "died", NEVER))[at]
    return replace(
        accesses,
        storage=np.zeros(len(accesses), dtype=np.int64),
        begin=accesses.begin + base,
        end=accesses.end + base,
        tenant=accesses.owner,
    )


def _addresses(nbytes: Ints, born: Ints, died: Ints) -> Ints:
    """The first address of each storage; storages that live at the same time never overlap."""
    heap = _Heap()
    addresses = np.zeros(len(nbytes), dtype=np.int64)
    rounded = np.maximum(-(-nbytes // GRANULE), 1) * GRANULE
    births = [(int(op), 1, i) for i, op in enumerate(born)]
    deaths = [(int(op), 0, i) for i, op in enumerate(died) if born[i] < op < NEVER]
    for _, is_birth, i in sorted(births + deaths):
        if is_birth:
            addresses[i] = heap.take(int(rounded[i]))
        else:
            heap.give(int(addresses[i]), int(rounded[i]))
    return addresses


@dataclass
class _Heap:
    """Best fit over a sorted list of free blocks (size, address)."""

    top: int = 0
    free: list[tuple[int, int]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)  # address -> size of free blocks
    ends: dict[int, int] = field(default_factory=dict)  # past-the-end address -> size

    def take(self, size: int) -> int:
        at = bisect_left(self.free, (size, 0))
        if at == len(self.free):
            self.top += size
            return self.top - size
        found, address = self.free[at]
        self._remove(found, address)
        if found > size:
            self._add(found - size, address + size)
        return address

    def give(self, address: int, size: int) -> None:
        below = self.ends.get(address)
        if below is not None:
            self._remove(below, address - below)
            address, size = address - below, size + below
        above = self.starts.get(address + size)
        if above is not None:
            self._remove(above, address + size)
            size += above
        self._add(size, address)

    def _add(self, size: int, address: int) -> None:
        insort(self.free, (size, address))
        self.starts[address], self.ends[address + size] = size, size

    def _remove(self, size: int, address: int) -> None:
        del self.free[bisect_left(self.free, (size, address))]
        del self.starts[address], self.ends[address + size]
