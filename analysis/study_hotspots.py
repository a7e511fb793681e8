"""Hotspot functions of a study's workloads as tables: by function, by category, how many make up the time, overlap.

The three sources (measured on a GPU, measured on a CPU host, predicted by a roofline) never mix in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from wcbench import kernels
from wcbench.analysis.study_rows import ON_GPU

MOST = 0.8
"""Share of the time that the functions counted as hotspots make up."""
LEAST = 0.01
"""Share of a workload's time from which a function counts as one of its hotspots."""

_BY = ["workload", "source", "device"]


def hotspot_tables(
    rows: pd.DataFrame, studied: Collection[str], against: Collection[str] | None
) -> dict[str, pd.DataFrame]:
    """hotspots, categories, hotspot_counts, hotspot_functions, hotspot_overlap (docs/study.md); none without times.

    ``rows`` : workload, source, device, function, seconds, as `study_rows` makes them.
    """
    if rows.empty:
        return {}
    whole = _with_categories(rows)
    return {
        "hotspots": whole,
        "categories": _categories(whole),
        "hotspot_counts": _counts(whole),
        "hotspot_functions": _functions(whole, studied, against),
        "hotspot_overlap": _overlap(whole),
    }


def _with_categories(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the classifier's category in both views and the share of the workload's time, longest first."""
    found = rows.groupby([*_BY, "function"], as_index=False, sort=True)["seconds"].sum()
    found = found[found["seconds"] > 0]
    host = found["source"] != ON_GPU
    kinds = [kernels.classify(name, host=flag) for name, flag in zip(found["function"], host, strict=True)]
    found["category"], found["paper"] = [kind.full for kind in kinds], [kind.paper for kind in kinds]
    found["share"] = found["seconds"] / found.groupby(_BY)["seconds"].transform("sum")
    return _ordered(found, [*_BY, "share", "function"])[[*_BY, "function", "category", "paper", "seconds", "share"]]


def _ordered(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Sorted by these columns, numbers falling and to 12 digits, so that no last bit decides."""
    numbers = [name for name in by if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    keys = frame[by].assign(**{name: -frame[name].astype("float64").round(12) for name in numbers})
    return frame.loc[keys.sort_values(by, kind="stable").index].reset_index(drop=True)


def _categories(rows: pd.DataFrame) -> pd.DataFrame:
    parts = []
    for view, column in {"full": "category", "paper": "paper"}.items():
        sums = rows.groupby([*_BY, column], sort=True)["share"].sum().rename_axis([*_BY, "category"])
        parts.append(sums.reset_index().assign(view=view))
    return pd.concat(parts, ignore_index=True)[[*_BY, "view", "category", "share"]]


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Functions of each workload, and how many of them make up MOST of its time."""
    found = []
    for key, group in rows.groupby(_BY, sort=True):
        reached = group["share"].cumsum().to_numpy()
        enough = int(np.searchsorted(reached, MOST - 1e-12)) + 1
        top = group.iloc[0]
        found.append((*key, len(group), min(enough, len(group)), top["function"], float(top["share"])))
    return pd.DataFrame(found, columns=[*_BY, "functions", "for_80", "top", "top_share"])


def _functions(rows: pd.DataFrame, studied: Collection[str], against: Collection[str] | None) -> pd.DataFrame:
    """Each function by source: in how many workloads it is a hotspot, in all and in each group."""
    found = []
    for source, device, group in _by_source(rows):
        workloads = group["workload"].nunique()
        for function, mine in group.groupby("function", sort=True):
            hot = set(mine.loc[mine["share"] >= LEAST, "workload"])
            b = None if against is None else len(hot & set(against))
            category, mean = mine["category"].iloc[0], float(mine["share"].sum() / workloads)
            counts = (len(hot), len(hot & set(studied)), b)
            found.append((function, source, device, category, *counts, mean, float(mine["share"].max()), LEAST))
    columns = ["function", "source", "device", "category", "tasks", "a", "b", "mean_share", "max_share", "least"]
    frame = pd.DataFrame(found, columns=columns).astype({"b": "Int64"})
    return _ordered(frame, ["source", "device", "tasks", "mean_share", "function"])


def _by_source(rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for (source, device), group in rows.groupby(["source", "device"], sort=True):
        yield str(source), str(device), group


def _overlap(rows: pd.DataFrame) -> pd.DataFrame:
    """Every pair of workloads of one source once: sum of minima over sum of maxima of their shares by function."""
    parts = [_pairs(group).assign(source=source, device=device) for source, device, group in _by_source(rows)]
    return pd.concat(parts, ignore_index=True)[["source", "device", "one", "other", "overlap"]]


def _pairs(rows: pd.DataFrame) -> pd.DataFrame:
    wide = rows.pivot(index="workload", columns="function", values="share").fillna(0.0).sort_index()
    values, names = wide.to_numpy(np.float64), [str(name) for name in wide.index]
    found = []
    for i, j in combinations(range(len(names)), 2):
        low, high = np.minimum(values[i], values[j]).sum(), np.maximum(values[i], values[j]).sum()
        found.append((names[i], names[j], round(float(low / high), 12)))
    return pd.DataFrame(found, columns=["one", "other", "overlap"])
