"""What is done to raw values before distances mean anything: logarithms, logits, log-ratios of compositions.

All of it works on plain arrays, workloads by columns, and knows nothing of suites. NaN stays NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wcbench.errors import UsageError

Array = NDArray[np.float64]

LOGS = {"log": np.log, "log2": np.log2, "log10": np.log10}
EDGE = 1e-9  # a share may leave [0, 1] by this much: the rounding of a sum
FLAT = 1e-9  # spread below which a column tells nothing: relative, as a difference of logarithms is
HUGE = 1e100  # beyond it no quantity of this field lies, and squares overflow
DELTA = 0.65  # of the detection limit, in place of a zero part (Martin-Fernandez, Barcelo-Vidal, Pawlowsky-Glahn 2003)

UNFIT = {
    "log": "has no logarithm",
    "log2": "has no logarithm",
    "log10": "has no logarithm",
    "log1p": "is not above -1",
    "sqrt": "is negative",
    "logit": "is no fraction of 1",
    "clr": "is a negative part",
}


def check_floor(name: str, transform: str, floor: float | None) -> None:
    """Refuse a detection limit that cannot be one."""
    if floor is None:
        return
    if not 0 < floor < (0.5 if transform == "logit" else np.inf):
        raise UsageError(
            f"Feature '{name}' has the floor {floor}, which is no detection limit.",
            f"A floor is above 0{' and below 0.5' if transform == 'logit' else ''}; leave it out where none is needed.",
        )


def unfit(values: Array, transform: str, floor: float | None) -> NDArray[np.bool_]:
    """Where a finite value cannot be transformed, for the reason ``UNFIT[transform]``.

    A 0 needs a floor for a logarithm, and so do 0 and 1 for a logit. Zeros of compositions are `replace_zeros`' matter.
    """
    with np.errstate(invalid="ignore"):
        if transform in LOGS:
            bad = values < 0 if floor is not None else values <= 0
        elif transform == "log1p":
            bad = values <= -1
        elif transform in ("sqrt", "clr"):
            bad = values < 0
        elif transform == "logit":
            outside = (values < -EDGE) | (values > 1 + EDGE)
            bad = outside if floor is not None else outside | (values <= 0) | (values >= 1)
        else:
            bad = np.zeros(values.shape, bool)
    found: NDArray[np.bool_] = bad | (np.abs(values) > HUGE)
    return found


def transformed(values: Array, transform: str, floor: float | None) -> Array:
    """Fit values of one feature, transformed; those below the floor count as the floor.

    log, log2, log10: of max(x, floor). logit: ln(p / (1 - p)) of p held within [floor, 1 - floor]. log1p: ln(1 + x).
    """
    if transform in LOGS:
        result = LOGS[transform](values if floor is None else np.maximum(values, floor))
    elif transform == "logit":
        held = values if floor is None else np.clip(values, floor, 1 - floor)
        result = np.log(held) - np.log1p(-held)
    elif transform == "log1p":
        result = np.log1p(values)
    elif transform == "sqrt":
        result = np.sqrt(values)
    else:
        result = values
    return np.asarray(result, np.float64)


def flat(column: Array, transform: str) -> bool:
    """Whether a transformed column tells nothing apart: its range is under FLAT, of its size or of 1 in logs."""
    known = column[~np.isnan(column)]
    if not len(known):
        return False
    size = 1.0 if transform in (*LOGS, "logit", "clr") else float(np.abs(known).max())
    return float(known.max() - known.min()) <= max(FLAT * size, 1 / HUGE)


def replace_zeros(values: Array, floors: Array, delta: float = DELTA) -> Array:
    """Compositions closed to a sum of 1, the parts below their floor replaced, the others scaled to leave room.

    x_j -> delta * floor_j / sum(x) where x_j is below floor_j, else x_j / sum(x) * (1 - sum of the replaced) / (1 - sum
    of what was below its floor). Ratios of the parts that are kept do not change: multiplicative replacement.

    Parameters
    ----------
    values : n x D, not negative, at least one part at or above its floor in every row.
    floors : D detection limits in the unit of ``values``; 0 where a part needs none (it is never 0 then).

    References
    ----------
    Martin-Fernandez, Barcelo-Vidal, Pawlowsky-Glahn, Mathematical Geology 35 (2003) 253.
    """
    totals = values.sum(axis=1, keepdims=True)
    low = values < floors
    shares, instead = values / totals, delta * floors / totals * low
    room = 1 - instead.sum(axis=1, keepdims=True)
    if (room <= 0).any():
        raise UsageError(
            "The floors of a composition's parts are so high that nothing is left for the parts above them.",
            "A floor is the smallest share that can be told from 0: one operator, one tick of the timer.",
        )
    kept = np.where(low, 0.0, shares)
    return np.asarray(np.where(low, instead, kept * room / kept.sum(axis=1, keepdims=True)), np.float64)


def clr(parts: Array) -> Array:
    """Centred log-ratios ln x_j - mean_k ln x_k of positive compositions, n x D, each row with the sum 0: rank D - 1.

    Euclidean distances between them are Aitchison's distances (Aitchison, The Statistical Analysis of Compositional
    Data, 1986).
    """
    logs = np.log(parts)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True), np.float64)


def spread(columns: Array, scale: str) -> Array:
    """Of each column: the standard deviation (ddof 1), or 1.4826 * the median absolute deviation ("mad")."""
    if scale == "sd":
        return np.asarray(columns.std(axis=0, ddof=1), np.float64)
    away = np.abs(columns - np.median(columns, axis=0))
    return np.asarray(1.4826 * np.median(away, axis=0), np.float64)
