"""Peak memory by category, from torch's memory timeline (an imported file)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis.shown import Shown
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

_PASS = "memory"
_BEFORE = -1


@dataclass(frozen=True)
class Allocations(Shown):
    """Bytes in use over time by category of tensor, of one rank.

    A moment is what holds after all events of one time; the first one is the profile's beginning. ``time_ns`` counts
    from the first event after it (its own time is unknown, and stands as 0 here). ``bytes_by_category`` maps each
    category to one value a moment. Tensors count with the sizes of their storages; the allocator's rounding and its
    reserve are not in it.
    """

    source: Source
    rank: int
    time_ns: NDArray[np.int64]
    bytes_by_category: Mapping[str, NDArray[np.int64]]

    @property
    def total(self) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.sum(list(self.bytes_by_category.values()), axis=0, dtype=np.int64)
        return total

    @property
    def peak_at(self) -> int:
        """The first moment at which most bytes are in use."""
        return int(np.argmax(self.total))

    @property
    def peak_bytes(self) -> int:
        return int(self.total[self.peak_at])

    @property
    def peak_ns(self) -> int:
        """Time of the peak since the first event."""
        return int(self.time_ns[self.peak_at])

    @property
    def peak_categories(self) -> dict[str, int]:
        """Bytes of each category at the peak, the largest first; they add up to it."""
        return self._at(self.peak_at)

    @property
    def start_bytes(self) -> int:
        """Bytes in use when the profile began."""
        return int(self.total[0])

    @property
    def start_categories(self) -> dict[str, int]:
        return self._at(0)

    @property
    def end_bytes(self) -> int:
        """Bytes in use after the last event."""
        return int(self.total[-1])

    def _at(self, moment: int) -> dict[str, int]:
        found = {name: int(values[moment]) for name, values in self.bytes_by_category.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def to_frame(self) -> pd.DataFrame:
        """One row a moment: its time, and bytes in use by category."""
        return pd.DataFrame({"time_ns": self.time_ns, **self.bytes_by_category})

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value / 2**20:,.0f}" for name, value in self.peak_categories.items() if value)
        return (
            f"Memory timeline ({self.source}): peak {self.peak_bytes / 2**20:,.0f} MiB ({parts} MiB) "
            f"after {self.peak_ns / 1e6:,.3f} ms; {self.start_bytes / 2**20:,.0f} MiB when it began"
        )


def allocations(profile: Profile, rank: int | None = None) -> Allocations | None:
    """Memory over time of a rank, by default the one with the highest peak; None without a memory timeline.

    From single events (table `allocations`) where the record has them, else from bytes over time (`memory_curve`).
    """
    origin = source(profile, _PASS)
    if origin is None:
        return None
    name, read = ("allocations", _of_events) if len(profile.arrow("allocations")) else ("memory_curve", _of_curve)
    table = profile.arrow(name)
    ranks = np.unique(table["rank"].to_numpy()) if rank is None else np.array([rank])
    found = [each for number in ranks.tolist() if (each := read(origin, table, number)) is not None]
    return max(found, key=lambda each: each.peak_bytes, default=None)


def _of_events(origin: Source, table: Any, rank: int) -> Allocations | None:
    """Bytes in use are sums of the changes before; events of one time make one moment."""
    codes, names = _categories(table)
    mine = table["rank"].to_numpy() == rank
    if not mine.any():
        return None
    time = table["time_ns"].fill_null(_BEFORE).to_numpy()[mine]
    change, codes = table["nbytes"].to_numpy()[mine], codes[mine]
    moments, place = np.unique(np.concatenate([[_BEFORE], time]), return_inverse=True)
    place = place[1:]
    found = {}
    for code, name in enumerate(names):
        own = codes == code
        steps = np.zeros(len(moments), np.int64)
        np.add.at(steps, place[own], change[own])
        found[name] = np.cumsum(steps)
    return Allocations(origin, rank, _since_first(moments), found)


def _of_curve(origin: Source, table: Any, rank: int) -> Allocations | None:
    """The file's own moments; its first one holds what existed before."""
    codes, names = _categories(table)
    mine = table["rank"].to_numpy() == rank
    time, nbytes, codes = table["time_ns"].to_numpy()[mine], table["nbytes"].to_numpy()[mine], codes[mine]
    if not len(time):
        return None
    found = {name: nbytes[codes == code] for code, name in enumerate(names)}
    moments = time[codes == codes[0]]
    return Allocations(origin, rank, moments - moments.min(), found)


def _since_first(moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times since the first event; 0 for the profile's beginning, which has none."""
    after: NDArray[np.int64] = moments[1:] - moments[1] if len(moments) > 1 else moments[1:]
    return np.concatenate([np.zeros(1, np.int64), after])


def _categories(table: Any) -> tuple[NDArray[np.int64], list[str]]:
    """A number for each row's category, and the names by number."""
    column = table["category"].unify_dictionaries().combine_chunks()
    return column.indices.to_numpy().astype(np.int64), [str(name) for name in column.dictionary.to_pylist()]
