"""The rows in which events wait on disk until their file has ended, and the texts behind their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcbench.profilers.readers.source import Lost
from wcbench.profilers.readers.spill import RowFile, Sorter

ABSENT = -1
"""In columns of whole numbers: the file does not tell."""

NO_SIZE = (ABSENT,) * 3
"""A grid or block that is not told."""

OP, MARK, RUNTIME = range(3)
MAX_NAME = 1 << 16

HOST = np.dtype(
    [
        ("lane", "i4"), ("start", "i8"), ("end", "i8"), ("order", "i8"), ("kind", "i1"), ("inner", "i1"),
        ("backward", "?"), ("name", "i4"), ("process", "i4"), ("thread", "i8"), ("number", "i8"), ("external", "i8"),
    ]
)  # fmt: skip
"""A host event; ``number`` is the sequence number of an operator and the correlation of a runtime call; ``inner`` is 1
of a runtime call, which is made by whatever begins at the same time, longer or not."""

OPS = np.dtype(
    [
        ("name", "i4"), ("thread", "i8"), ("start", "i8"), ("duration", "i8"), ("self", "i8"), ("depth", "i4"),
        ("parent", "i8"), ("step", "i4"), ("phase", "i1"), ("children", "i4"), ("external", "i8"), ("process", "i4"),
    ]
)  # fmt: skip
"""A row of table ops, in its final place."""

CALLS = np.dtype(
    [
        ("name", "i4"), ("process", "i4"), ("thread", "i8"), ("start", "i8"), ("duration", "i8"), ("number", "i8"),
        ("op", "i8"), ("opname", "i4"), ("phase", "i1"), ("step", "i4"), ("external", "i8"),
    ]
)  # fmt: skip
"""A row of table runtime, in its final place, with the name of its operator."""

LAUNCH = np.dtype(
    [
        ("process", "i4"), ("number", "i8"), ("row", "i8"), ("op", "i4"), ("phase", "i1"), ("step", "i4"),
        ("name", "i4"), ("owner", "i4"),
    ]
)  # fmt: skip
"""What a kernel takes from its launch: the row in table runtime, and the texts of operator and call."""

DEVICE = np.dtype(
    [
        ("process", "i4"), ("number", "i8"), ("order", "i8"), ("start", "i8"), ("duration", "i8"), ("name", "i4"),
        ("device", "i4"), ("stream", "i8"), ("op", "i4"), ("phase", "i4"), ("module", "i4"), ("collective", "i4"),
        ("registers", "i8"), ("shared", "i8"), ("bytes", "i8"), ("occupancy", "f8"), ("grid", "i4", 3),
        ("block", "i4", 3), ("rank", "i8"), ("launch", "i8"), ("step", "i4"),
    ]
)  # fmt: skip


class Names:
    """Texts and the numbers that stand for them."""

    def __init__(self, lost: Lost) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lost = lost

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        return self._new(text) if found is None else found

    def numbers(self, texts: Sequence[Any]) -> NDArray[np.int64]:
        """The numbers of many; ABSENT for None, other values by their texts."""
        try:
            found = list(map(self._numbers.get, texts))
        except TypeError:  # a list or an object where a text belongs
            return self.numbers([text if text is None or isinstance(text, str) else str(text) for text in texts])
        if None in found:
            found = [
                ABSENT if text is None else self.number(text if type(text) is str else str(text)) for text in texts
            ]
        return np.array(found, np.int64)

    def _new(self, text: str) -> int:
        if len(text) > MAX_NAME:
            self._lost("the end of a name", f"it has more than {MAX_NAME} characters")
            return self.number(text[:MAX_NAME])
        clean = text.encode("utf-8", "replace").decode() if not text.isascii() else text  # lone surrogates
        number = self._numbers.setdefault(clean, len(self.texts))
        if number == len(self.texts):
            self.texts.append(clean)
        return number

    def column(self, numbers: NDArray[Any]) -> Any:
        """An Arrow column of the texts; null where a number is below zero. Only the texts that occur are in it."""
        import pyarrow as pa

        there = numbers[numbers >= 0]
        if len(self.texts) < 4 * len(numbers):  # nearly always: few texts, many rows
            values = np.flatnonzero(np.bincount(there))
            place = np.zeros(len(self.texts) + 1, np.int32)  # the last one is for those below zero
            place[values] = np.arange(len(values))
            codes = pa.array(place[numbers], mask=numbers < 0)
        else:
            values = np.unique(there)
            codes = pa.array(np.searchsorted(values, numbers).astype(np.int32), mask=numbers < 0)
        texts = [self.texts[number] for number in values.tolist()]
        return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))


class Stages:
    """The files on which events wait: host events by thread and time, launches and device records by their ids, and
    device records once more by device and time."""

    def __init__(self, folder: Path) -> None:
        host_keys = [("lane", False), ("start", False), ("inner", False), ("end", True), ("order", False)]
        ids = [("process", False), ("number", False)]
        self.host = Sorter(folder / "host.rows", HOST, host_keys)
        self.launches = Sorter(folder / "launches.rows", LAUNCH, [*ids, ("row", False)])
        self.devices = Sorter(folder / "devices.rows", DEVICE, [*ids, ("order", False)])
        self.kernels = Sorter(folder / "kernels.rows", DEVICE, [("device", False), ("start", False), ("order", False)])
        self.ops = RowFile(folder / "ops.rows", OPS)
        self.calls = RowFile(folder / "calls.rows", CALLS)
        self.ownerless = False
        """Whether device records do not say whose process's call launched them."""

    def close(self) -> None:
        self.ops.close()
        self.calls.close()


def size_column(sizes: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Extents of grids or blocks, (n, 3) of int32; NO_SIZE where they are not told or make no sense."""
    if isinstance(sizes, np.ndarray):
        return sizes
    try:
        if set(map(len, sizes)) == {3}:
            column = np.array(list(chain.from_iterable(sizes)))
            if column.dtype.kind == "i" and column.min() >= ABSENT and column.max() < 1 << 31:
                return column.astype(np.int32).reshape(-1, 3)
    except (ValueError, OverflowError, TypeError):
        pass  # no sizes, or no numbers
    return np.array([_size(size) for size in sizes], np.int32)


def _size(size: Sequence[int] | None) -> tuple[int, int, int]:
    """Extents of a grid or block in three dimensions; NO_SIZE where they are not told or make no sense."""
    if not isinstance(size, list | tuple) or not 1 <= len(size) <= 3:
        return NO_SIZE
    if any(type(extent) is not int or not 0 <= extent < 1 << 31 for extent in size):
        return NO_SIZE
    x, y, z = (*size, 1, 1)[:3]
    return x, y, z
