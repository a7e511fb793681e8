"""One step worked out on paper: a look-up, two products, a rectifier, a sum, an update and a copy, recorded twice.

Bytes of an operator (read + written), its FLOPs and its phase:

    embedding  128 + 32 | 128    0  forward     rows of E [100, 8] by 4 ids, to H [4, 8]
    mm         128 + 128 | 64  256  forward     H W, W [8, 4], to Y [4, 4]
    relu        64 | 64         16  forward     Y to R
    sum         64 | 4          16  forward     R to L
    mm         128 + 64 | 128  256  backward    H transposed, R, to dW [8, 4]
    update     128 + 128 | 128  32  optimizer   dW and W to W
    clone       64 | 64          0  other       R to C
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from wcbench.record import Profile

E, W = 0, 1


def _ids(step: int) -> dict[str, int]:
    return {name: 10 * step + number for number, name in enumerate(("ids", "H", "Y", "R", "L", "dW", "C"), start=2)}


def _operators(made: Any, step: int, kind: str = "train") -> list[dict[str, Any]]:
    at = _ids(step)

    def read(storage: int, shape: list[int], stride: list[int], nbytes: int, **more: Any) -> dict[str, Any]:
        form = {"shape": shape, "stride": stride, "nbytes": nbytes, **more}
        return dict(made.access(storage, nbytes // 4, **form))

    def write(storage: int, shape: list[int], stride: list[int], nbytes: int) -> dict[str, Any]:
        return read(storage, shape, stride, nbytes) | {"write": True}

    gather = read(E, [100, 8], [8, 1], 128, kind="gather")
    ids = read(at["ids"], [4], [1], 32, dtype="int64")
    h, w, y, r = (at["H"], [4, 8], [8, 1], 128), (W, [8, 4], [4, 1], 128), (at["Y"], [4, 4], [4, 1], 64), at["R"]
    rr, dw = (r, [4, 4], [4, 1], 64), (at["dW"], [8, 4], [4, 1], 128)
    turned = read(at["H"], [8, 4], [1, 8], 128, kind="strided")
    rows = [
        ("aten::embedding", "forward", 0, 0, [gather, ids, write(*h)]),
        ("aten::mm", "forward", 256, 256, [read(*h), read(*w), write(*y)]),
        ("aten::relu", "forward", 0, 16, [read(*y), write(*rr)]),
        ("aten::sum", "forward", 0, 16, [read(*rr), write(at["L"], [], [], 4)]),
        ("aten::mm", "backward", 256, 256, [turned, read(*rr), write(*dw)]),
        ("aten::_foreach_add_", "optimizer", 0, 32, [read(*dw), read(*w), write(*w)]),
        ("aten::clone", "other", 0, 0, [read(*rr), write(at["C"], [4, 4], [4, 1], 64)]),
    ]
    return [
        made.operator_row(
            7 * step + place, accesses, step=step, kind=kind, name=name, phase=phase, flops_matrix=m, flops_all=f
        )
        for place, (name, phase, m, f, accesses) in enumerate(rows)
    ]


def _storages(made: Any, steps: int) -> list[dict[str, Any]]:
    """H 128, Y 64, R 64, L 4, dW 128, C 64 bytes; each dies after its last use, C when the next step begins."""
    rows = [made.storage_row(E, 3200, "weight"), made.storage_row(W, 128, "weight")]
    for step in range(steps):
        at, start = _ids(step), 7 * step
        last = step == steps - 1
        rows += [
            made.storage_row(at["ids"], 32, "input"),
            made.storage_row(at["H"], 128, "activation", start, start + 5),
            made.storage_row(at["Y"], 64, "workspace", start + 1, start + 3),
            made.storage_row(at["R"], 64, "activation", start + 2, start + 7),
            made.storage_row(at["L"], 4, "workspace", start + 3, start + 4),
            made.storage_row(at["dW"], 128, "gradient", start + 4, start + 6),
            made.storage_row(at["C"], 64, "workspace", start + 6, None if last else start + 7),
        ]
    return rows


def _parameters() -> list[dict[str, Any]]:
    common = {"model": "model", "dtype": "float32", "shared_with": None}
    table = {**common, "name": "table", "shape": [100, 8], "numel": 800, "nbytes": 3200, "trainable": True}
    return [table, {**common, "name": "w", "shape": [8, 4], "numel": 32, "nbytes": 128, "trainable": True}]


LINES = {
    # quantity: (unit, fixed, per sample)
    "flops_all": ("FLOP", 32.0, 136.0),
    "bytes_read": ("B", 512.0, 100.0),
    "bytes_written": ("B", 256.0, 50.0),
    "live_peak_bytes": ("B", 3000.0, 70.0),
}


def scaling_rows(kind: str = "train", lines: Mapping[str, tuple[str, float, float]] = LINES) -> list[dict[str, Any]]:
    common = {"kind": kind, "phase": "all", "length": None, "recorded": True, "error": 0.0, "samples": [4, 8, 16]}
    return [
        {**common, "quantity": quantity, "unit": unit, "fixed": fixed, "per_sample": slope, "values": [1, 2, 3]}
        for quantity, (unit, fixed, slope) in lines.items()
    ]


@pytest.fixture(scope="session")
def lines() -> Callable[..., list[dict[str, Any]]]:
    """Rows of table scaling: ``lines(kind, {quantity: (unit, fixed, per sample)})``."""
    return scaling_rows


@pytest.fixture(scope="session")
def stream(made: Any) -> Callable[..., Profile]:
    """A record of the step above: ``stream(kinds=["a", "b"], scaling=rows, edit=changes the operators, **info)``."""

    def make(
        kinds: Sequence[str] = ("train", "train"),
        scaling: Sequence[Mapping[str, Any]] | None = None,
        edit: Callable[[list[dict[str, Any]]], Any] | None = None,
        parameters: bool = True,
        **changes: Any,
    ) -> Profile:
        operators = [row for step, kind in enumerate(kinds) for row in _operators(made, step, kind)]
        if edit is not None:
            edit(operators)
        lines = scaling_rows() if scaling is None else list(scaling)
        tables = {"operators": operators, "storages": _storages(made, len(kinds)), "scaling": lines}
        if parameters:
            tables["parameters"] = _parameters()
        info = made.info(**{"preset": "paper", "tensors": "fake", "steps": len(kinds), **changes})
        filled = {name: {"operators": rows} for name, rows in tables.items() if rows}
        return made.record({"operators": info}, filled)

    return make


@pytest.fixture(scope="session")
def hand(stream: Callable[..., Profile]) -> Profile:
    return stream()


@pytest.fixture
def named(hand: Profile) -> Callable[..., Profile]:
    """The same record under the name of a task: ``named(task, variant)``."""

    def make(task: str, variant: str | None = None, **changes: Any) -> Profile:
        manifest = dataclasses.replace(hand.manifest, task=task, variant=variant, **changes)
        return Profile(manifest, {name: hand.arrow(name) for name in hand.tables})

    return make
