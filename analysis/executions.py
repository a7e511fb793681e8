"""Rows of a pass as arrays: a million kernels take tens of megabytes, not the gigabytes of a data frame with lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wcbench import kernels

if TYPE_CHECKING:
    import pyarrow as pa

    from wcbench.record import Profile

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

ABSENT = int(np.iinfo(np.int64).min)
"""Stands for null in arrays of whole numbers."""

OUTSIDE = -1
"""Step of what ran outside every step."""

COMMUNICATION, COPY, SYNCHRONIZATION = "communication", "memory copy", "synchronization"

_FIELDS = {
    "name": "name", "device": "device", "phase": "phase", "collective": "collective", "rank": "rank",
    "stream": "stream", "start": "start_ns", "duration": "duration_ns", "step": "step",
}  # fmt: skip
_COLUMNS = ["pass", *_FIELDS.values()]
_TEXTS = {"name": "names", "device": "devices", "phase": "phases"}
_CLOCK_NS = 3_600_000_000_000
"""Where all other work began at least an hour after 0, a start at 0 is no time."""


@dataclass(frozen=True)
class Executions:
    """Executions on devices, or on a host operator calls, one entry each, in the order of the table.

    ``name``, ``device`` and ``phase`` are places in ``names``, ``devices`` and ``phases``; ``row`` is the place in the
    table; ``stream`` and ``start`` are ABSENT where null, ``step`` is OUTSIDE. ``collective`` says whether the file
    itself names a collective operation.
    """

    names: Sequence[str]
    devices: Sequence[str]
    phases: Sequence[str]
    row: Int
    name: Int
    rank: Int
    device: Int
    stream: Int
    start: Int
    duration: Int
    step: Int
    phase: Int
    collective: Bool

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Bool) -> Executions:
        """Those that are chosen; ``chosen`` has an entry for each."""
        if chosen.all():
            return self
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays: dict[str, Any] = {key: part[chosen] for key, part in parts.items() if isinstance(part, np.ndarray)}
        return dataclasses.replace(self, **arrays)

    @property
    def host(self) -> bool:
        """Whether they are operator calls of a CPU host."""
        return all(self.devices[i] == "cpu" for i in np.unique(self.device))

    def category(self) -> NDArray[np.object_]:
        """The full category of each of ``names``, by its name alone."""
        host = self.host
        return np.array([kernels.classify(name, host=host).full for name in self.names], dtype=np.object_)

    def is_in(self, category: str) -> Bool:
        """Which are of a category; what the file calls a collective is communication, whatever its name."""
        of_name = self.category() == category
        found: Bool = of_name[self.name] if len(self.names) else np.zeros(len(self), np.bool_)
        if category == COMMUNICATION:
            return found | self.collective
        return found & ~self.collective

    def placed(self) -> Bool:
        """Which have a place in time: a start, and an end that a clock can reach.

        Profilers write a start of 0 (and mostly a duration of 0) where they have none.
        """
        told: Bool = (self.start != ABSENT) & (self.duration >= 0)
        told &= ~((self.start == 0) & (self.duration == 0))
        later = self.start[told & (self.start != 0)]
        if len(later) and int(later.min()) >= _CLOCK_NS:
            told &= self.start != 0
        reachable: Bool = self.start <= np.iinfo(np.int64).max - np.maximum(self.duration, 0)
        return told & reachable


def executions(profile: Profile, passname: str) -> Executions | None:
    """Rows of table `kernels` of a pass, those of devices alone where there are any; None where there are none."""
    most = profile.manifest.tables.get("kernels", 0)
    arrays: dict[str, NDArray[Any]] = {key: np.empty(most, np.int64) for key in ("row", *_FIELDS)}
    arrays["collective"] = np.empty(most, np.bool_)
    texts: dict[str, dict[str, int]] = {key: {} for key in _TEXTS}
    first = count = 0
    for table in profile.batches("kernels", _COLUMNS):
        mine = np.flatnonzero(is_text(table["pass"], passname))
        new = slice(count, count := count + len(mine))
        arrays["row"][new] = first + mine
        for key, column in _FIELDS.items():
            arrays[key][new] = _values(key, table[column], texts.get(key, {}))[mine]
        first += table.num_rows
    if not count:
        return None
    rows = Executions(
        **{key: found[:count] for key, found in arrays.items()},  # type: ignore[arg-type]
        **{_TEXTS[key]: list(known) for key, known in texts.items()},  # type: ignore[arg-type]
    )
    on_device = np.array([name != "cpu" for name in rows.devices], np.bool_)[rows.device]
    return rows.take(on_device) if on_device.any() else rows


def _values(key: str, column: pa.ChunkedArray, known: dict[str, int]) -> NDArray[Any]:
    """A column as numbers; of texts their places among those that are known, to which new ones are added."""
    if key == "collective":
        return np.asarray(~column.is_null().to_numpy())
    if key not in _TEXTS:
        return whole(column, OUTSIDE if key == "step" else ABSENT)
    numbers, texts = codes(column)
    return np.array([*(known.setdefault(text, len(known)) for text in texts), -1], np.int64)[numbers]


def codes(column: pa.ChunkedArray) -> tuple[Int, list[str]]:
    """A text column as numbers and the texts that they stand for; null is -1."""
    import pyarrow as pa

    whole_column = column.unify_dictionaries().combine_chunks()
    if isinstance(whole_column, pa.ChunkedArray):  # of no rows
        return np.empty(0, np.int64), []
    numbers = whole_column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers, whole_column.dictionary.to_pylist()


def whole(column: pa.ChunkedArray, absent: int = ABSENT) -> Int:
    """A column of whole numbers as an array, null as ``absent``."""
    return np.asarray(column.fill_null(absent).to_numpy(), dtype=np.int64)


def is_text(column: pa.ChunkedArray, text: str) -> Bool:
    """Where a text column has this text."""
    numbers, texts = codes(column)
    return np.isin(numbers, [i for i, known in enumerate(texts) if known == text])


def sums(keys: Int, values: NDArray[Any], size: int) -> NDArray[np.float64]:
    """Sum of the values of each key from 0 to ``size`` - 1; exact up to 2^53."""
    found: NDArray[np.float64] = np.bincount(keys, weights=values.astype(np.float64), minlength=size).astype(np.float64)
    return found


def total(values: Int) -> int:
    """Sum of whole numbers, exact however great."""
    if float(values.sum(dtype=np.float64)) < 2**62:
        return int(values.sum())
    return sum(values.tolist())
