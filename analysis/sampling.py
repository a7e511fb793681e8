"""SHARDS: stack distances from a sample of the segments, for traces too long to take whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wcbench.analysis.segments import Bools, Ints
from wcbench.analysis.stack import INFINITE, stack_distances

SAMPLE_ABOVE = 10_000_000  # touches; up to here distances are exact
SAMPLE_TARGET = 2_000_000


@dataclass(frozen=True, eq=False)
class Sampled:
    """Distances of the touches of sampled segments.

    ``scale`` has a row a touch: how many bytes of the trace a byte of it stands for, 0 where its segment is not in
    the sample (its distance is then meaningless, 1). ``rate`` is the share of touches kept; ``error`` bounds the
    miss ratio's error by two standard errors of the sampled bytes. The distances are estimates too, which shifts the
    curve along the capacities: ``shift`` is two standard errors, relative, of a distance as large as the footprint F,
    and of a distance D it is shift x sqrt(F / D). Both are 0 for an exact result.
    """

    distances: Ints
    scale: npt.NDArray[np.float64]
    rate: float
    error: float
    shift: float


def distances(segment: Ints, size: Ints, ids: int, previous: Ints, rate: float | None) -> Sampled:
    """Stack distances, exact for ``rate`` None, else from that share of the segments.

    Whether a segment is in the sample is decided by a hash of its number, so that all its touches are in or out, and
    the known totals adjust the estimate (Waldspurger et al.). Unlike theirs, the chance p grows with the bytes that a
    segment's touches add up to: the few segments that carry most of a step's bytes are always in, and on those plain
    SHARDS errs. A byte counts 1/p (Horvitz and Thompson), in the distances of others and in the curves.

    References
    ----------
    Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC construction with SHARDS", FAST 2015.
    """
    if rate is None:
        return Sampled(stack_distances(segment, size, previous), np.ones(len(segment)), 1.0, 0.0, 0.0)
    load = np.bincount(segment, weights=size, minlength=ids).astype(np.float64)
    chance = _chances(load, rate)
    inverse = 1 / np.where(chance > 0, chance, np.inf)
    scale = np.where(_uniform(np.arange(ids)) < chance, inverse, 0.0)
    found, kept = _sample(segment, size, scale)
    each = np.zeros(ids)
    each[segment] = size
    error, shift = (_two_errors(values, chance, inverse) for values in (load, each))
    return Sampled(found, scale[segment], float(kept.mean()), min(error, 1.0), shift)


def _two_errors(
    values: npt.NDArray[np.float64], chance: npt.NDArray[np.float64], inverse: npt.NDArray[np.float64]
) -> float:
    """Two standard errors of the sum that independent draws estimate, as a share of that sum."""
    variance = float((values**2 * (1 - chance) * inverse).sum())
    return 2 * math.sqrt(variance) / max(float(values.sum()), 1.0)


def _sample(segment: Ints, size: Ints, scale: npt.NDArray[np.float64]) -> tuple[Ints, Bools]:
    """Distances of the kept touches, 1 or `INFINITE` at the others, and which are kept."""
    kept = scale[segment] > 0
    names, sizes = segment[kept], size[kept]
    scaled = np.rint(sizes * (scale * _footprint_correction(segment, size, scale))[names]).astype(np.int64)
    sampled = stack_distances(names, scaled)
    # the touched segment itself is known exactly, only those between are estimated
    own = np.where(sampled == INFINITE, INFINITE, sampled - scaled + sizes)
    found = np.ones(len(segment), dtype=np.int64)
    found[kept] = own
    return found, kept


def _footprint_correction(segment: Ints, size: Ints, scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A sample's footprint is off by chance and the true one is known: what makes the drawn part of it right."""
    drawn = np.zeros(len(scale))
    drawn[segment] = size
    drawn[scale == 1] = 0  # these are in for certain
    estimate = float((drawn * scale).sum())
    ratio = float(drawn.sum()) / estimate if estimate else 1.0
    return np.where(scale == 1, 1.0, ratio)


def _chances(load: npt.NDArray[np.float64], rate: float) -> npt.NDArray[np.float64]:
    """Chance of each segment, min(1, rate / 2 + load x slope), such that ``rate`` of the touched ones are expected.

    The even half keeps a byte from standing for more than 2 / rate bytes.
    """
    used = load > 0
    load = load / load.max(initial=1.0)
    wanted = rate * int(used.sum())
    low, high = 0.0, 1 / float(load[used].min(initial=1.0))  # at the greatest slope every segment is in
    for _ in range(64):
        slope = (low + high) / 2
        expected = float(np.minimum(1.0, rate / 2 + load[used] * slope).sum())
        low, high = (slope, high) if expected < wanted else (low, slope)
    return np.where(used, np.minimum(1.0, rate / 2 + load * high), 0.0)


def _uniform(numbers: Ints) -> npt.NDArray[np.float64]:
    """A hash of each number into [0, 1): the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) / 2**53, dtype=np.float64)
