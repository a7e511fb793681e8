"""Live bytes over a training step by class, and their peak, from births and deaths of storages."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wcbench.analysis.recorded import calls_of
from wcbench.analysis.source import Source, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wcbench.record import Profile

_PASS = "operators"
CLASSES = ("weight", "gradient", "optimizer state", "activation", "input", "workspace")


@dataclass(frozen=True)
class LiveBytes:
    """Bytes of storages that are alive while each operator of the last recorded step runs.

    ``bytes_by_class`` maps each class to one value an operator, in order; activations are what the forward pass leaves
    for the backward pass, workspace is all that dies sooner, gradients of activations included. Storages count with
    their whole size, as torch asked for them; an allocator's rounding and its reserve are not in it.
    """

    source: Source
    first: int
    bytes_by_class: Mapping[str, NDArray[np.int64]]

    @property
    def total(self) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.sum(list(self.bytes_by_class.values()), axis=0, dtype=np.int64)
        return total

    @property
    def peak_at(self) -> int:
        """Position in the step of the operator at which most bytes are alive (the first such)."""
        return int(np.argmax(self.total))

    @property
    def peak_bytes(self) -> int:
        return int(self.total.max())

    @property
    def peak_classes(self) -> dict[str, int]:
        """Bytes of each class at the peak; they add up to it."""
        return {name: int(values[self.peak_at]) for name, values in self.bytes_by_class.items()}

    def sampled(self, points: int) -> dict[str, list[int]]:
        """At most ``points`` operators, the largest of each stretch: `order`, and bytes by class. The peak is in it."""
        total, count = self.total, len(self.total)
        edges = np.unique(np.linspace(0, count, min(points, count) + 1, dtype=np.int64))
        rows = [int(begin + np.argmax(total[begin:end])) for begin, end in itertools.pairwise(edges.tolist())]
        curves = {name: values[rows].tolist() for name, values in self.bytes_by_class.items()}
        return {"order": [self.first + row for row in rows], **curves}

    def to_frame(self) -> pd.DataFrame:
        """One row an operator, one column a class."""
        return pd.DataFrame(dict(self.bytes_by_class))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value / 2**20:,.0f}" for name, value in self.peak_classes.items())
        return f"Live bytes ({self.source}): peak {self.peak_bytes / 2**20:,.0f} MiB: {parts} MiB"


def live_bytes(profile: Profile, kind: str | None = None) -> LiveBytes | None:
    """Live bytes of the last recorded step, of the kind that moves most bytes unless one is named; None where the
    record has no operator stream."""
    origin = source(profile, _PASS)
    operators, storages = profile.table("operators"), profile.table("storages")
    if origin is None or operators.empty or storages.empty:
        return None
    last = calls_of(profile, kind)["order"]
    first, end = int(last.min()), int(last.max()) + 1
    found = {}
    for name in CLASSES:
        mine = storages[storages["role"] == name]
        found[name] = _curve(mine, first, end)
    return LiveBytes(origin, first, found)


def _curve(storages: pd.DataFrame, first: int, end: int) -> NDArray[np.int64]:
    """Bytes alive at each operator of [first, end): born at or before it and not dead before it."""
    born = storages["born"].fillna(first).to_numpy(dtype=np.int64).clip(first, end)
    died = storages["died"].fillna(end).to_numpy(dtype=np.int64).clip(first, end)
    nbytes = storages["nbytes"].to_numpy(dtype=np.int64)
    change = np.zeros(end - first + 1, np.int64)
    np.add.at(change, born - first, nbytes)
    np.add.at(change, np.maximum(died, born) - first, -nbytes)
    return np.cumsum(change)[:-1]
