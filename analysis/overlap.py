"""Overlap of the functions in which two suites spend their time; measured and predicted times never mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wcbench.analysis.pairing import TIE, Flags, Floats, Pair, relabellings, tidy
from wcbench.errors import UsageError

SOURCES = ("measured GPU", "measured CPU", "roofline-predicted")
"""Where shares of time can be from: kernels on a GPU, operators on a CPU host, or a model of a named device."""

Shares = Mapping[str, Mapping[str, float]]
"""Workload -> function -> its share of the workload's time."""


@dataclass(frozen=True)
class HotspotOverlap:
    """Two suites' mean profiles over functions, from one source.

    Attributes
    ----------
    source : one of SOURCES. ``device`` : on what it was measured or predicted.
    jaccard : sum of minima over sum of maxima of the mean shares; 1 for equal profiles, 0 without a common function.
    expected, p : mean over relabellings, and the share of them with as little overlap or less.
    rows : columns function, a, b (mean shares, each task counting once), shared; the largest first.
    shared, only_a, only_b : functions with at least ``least`` of the time of some task of the suites; the numbers of
        those in one suite alone grow with its number of tasks.
    missing : workloads without times from this source. ``reason`` : why there is no figure.
    """

    source: str
    device: str
    jaccard: float | None
    expected: float | None
    p: float | None
    rows: pd.DataFrame
    shared: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    missing: tuple[str, ...]
    least: float
    how: str = ""
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        if self.jaccard is None:
            return f"HotspotOverlap({self.source}: none, {self.reason})"
        where = f" on {self.device}" if self.device else ""
        figures = f"weighted Jaccard {self.jaccard:.2f}, {len(self.shared)} functions shared"
        return f"HotspotOverlap({self.source}{where}: {figures})"


def hotspot_overlaps(
    pair: Pair, by_source: Mapping[str, Shares], devices: Mapping[str, str] | None = None, *, seed: int = 0
) -> tuple[HotspotOverlap, ...]:
    """One result for each of the three sources, each from its own times alone."""
    unknown = sorted(set(by_source) - set(SOURCES))
    if unknown:
        raise UsageError(f"Unknown source of times: {', '.join(unknown)}.", f"Known: {', '.join(SOURCES)}.")
    where = devices or {}
    return tuple(
        hotspot_overlap(pair, by_source.get(name, {}), name, device=where.get(name, ""), seed=seed) for name in SOURCES
    )


def hotspot_overlap(
    pair: Pair,
    shares: Shares,
    source: str,
    *,
    device: str = "",
    least: float = 0.01,
    permutations: int = 999,
    seed: int = 0,
) -> HotspotOverlap:
    """Overlap of the two suites' time by function, over the workloads that the source has.

    Raises UsageError for a share that is negative or no number, and for a prediction without its device.
    """
    if source not in SOURCES:
        raise UsageError(f"Unknown source of times: {source}.", f"Known: {', '.join(SOURCES)}.")
    known = {name for name in pair.names if sum(shares.get(name, {}).values()) > 0}
    missing = tuple(name for name in pair.names if name not in known)
    part = pair.without(missing)
    if not min(part.sizes):
        empty = pd.DataFrame(columns=["function", "a", "b", "shared"])
        label = pair.label_a if not part.sizes[0] else pair.label_b
        why = f"no task of {label} has {source} times"
        return HotspotOverlap(source, device, None, None, None, empty, (), (), (), missing, least, reason=why)
    if source == SOURCES[2] and not device:
        raise UsageError("Predicted times need the name of the device they are predicted for.")
    functions, table = _table(part, shares)
    ways = relabellings(part, permutations, seed)
    observed = float(_jaccard(table, part.in_a[None], part.in_b[None])[0])
    null = _jaccard(table, ways.in_a, ways.in_b)
    hits = int((null <= observed + TIE).sum())
    p = None if ways.reason else tidy(hits / len(null) if ways.exact else (hits + 1) / (len(null) + 1))
    a, b = (table[flags].mean(axis=0) for flags in (part.in_a, part.in_b))
    hot_a, hot_b = (set(functions[table[flags].max(axis=0) >= least]) for flags in (part.in_a, part.in_b))
    rows = pd.DataFrame({"function": functions, "a": a, "b": b, "shared": (a > 0) & (b > 0)})
    rows = rows.round({"a": 12, "b": 12}).assign(order=np.maximum(a, b).round(12))
    rows = rows.sort_values(["order", "function"], ascending=[False, True], ignore_index=True).drop(columns="order")
    both, only_a, only_b = (tuple(sorted(x)) for x in (hot_a & hot_b, hot_a - hot_b, hot_b - hot_a))
    return HotspotOverlap(
        source=source,
        device=device,
        jaccard=tidy(observed),
        expected=None if ways.reason else tidy(float(null.mean())),
        p=p,
        rows=rows,
        shared=both,
        only_a=only_a,
        only_b=only_b,
        missing=missing,
        least=least,
        how=ways.words,
        reason=ways.reason,
    )


def _table(pair: Pair, shares: Shares) -> tuple[np.ndarray[tuple[int], np.dtype[np.object_]], Floats]:
    """Function names, sorted, and shares of workloads x functions; each row adds up to 1."""
    functions = sorted({function for name in pair.names for function in shares[name]})
    table = np.array([[float(shares[name].get(f, 0.0)) for f in functions] for name in pair.names])
    bad = [name for name, row in zip(pair.names, table, strict=True) if not np.isfinite(row).all() or (row < 0).any()]
    if bad:
        raise UsageError(f"Shares of time are numbers from 0 up; those of {', '.join(bad)} are not.")
    return np.array(functions, object), table / table.sum(axis=1, keepdims=True)


def _jaccard(table: Floats, in_a: Flags, in_b: Flags) -> Floats:
    """Weighted Jaccard of the mean profiles, for each way to hand out the labels (Ruzicka 1958)."""
    a, b = (flags @ table / flags.sum(axis=1, keepdims=True) for flags in (in_a, in_b))
    found: Floats = np.minimum(a, b).sum(axis=1) / np.maximum(a, b).sum(axis=1)
    return found
