"""A feature table made ready for a space: sorted, checked, and rid of what cannot be placed, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wcbench.analysis import scales
from wcbench.analysis.table import TRANSFORMS, Feature, FeatureTable
from wcbench.errors import UnknownNameError, UsageError

NULLS = ("drop-feature", "drop-workload")
NAMED = 3  # examples that a reason gives


@dataclass(frozen=True)
class Raw:
    """Values by workload (sorted by name) and feature, NaN where there is none that can be used.

    ``why`` says why a value is NaN, by (workload, feature); ``dropped`` what was left out so far.
    """

    names: tuple[str, ...]
    features: tuple[Feature, ...]
    values: scales.Array
    why: Mapping[tuple[str, str], str]
    dropped: Mapping[str, str]

    def without(self, reasons: Mapping[str, str]) -> Raw:
        """Less the features and workloads of these names."""
        rows = [i for i, name in enumerate(self.names) if name not in reasons]
        columns = [j for j, feature in enumerate(self.features) if feature.name not in reasons]
        return replace(
            self,
            names=tuple(self.names[i] for i in rows),
            features=tuple(self.features[j] for j in columns),
            values=self.values[np.ix_(rows, columns)],
            dropped={**self.dropped, **reasons},
        )

    def marked(self, bad: NDArray[np.bool_], reason: str, column: int) -> Raw:
        """With NaN in the ``bad`` rows of a column."""
        if not bad.any():
            return self
        values = self.values.copy()
        values[bad, column] = np.nan
        places = {(self.names[i], self.features[column].name): reason for i in np.flatnonzero(bad)}
        return replace(self, values=values, why={**places, **self.why})

    def compositions(self) -> dict[str, list[int]]:
        """Columns of each block's parts."""
        found: dict[str, list[int]] = {}
        for j, feature in enumerate(self.features):
            if feature.transform == "clr":
                found.setdefault(feature.block, []).append(j)
        return found


def floors(features: Iterable[Feature]) -> scales.Array:
    """Detection limits of a composition's parts, 0 where a part has none."""
    return np.array([feature.floor or 0.0 for feature in features], np.float64)


def raw(table: FeatureTable) -> Raw:
    """The table sorted by workload, with NaN for what no transform can take (inf, a negative time, a share of 30)."""
    _check(table)
    frame = table.values.copy()
    frame.index = frame.index.map(str)
    values = np.array(frame.sort_index().to_numpy(np.float64), order="C")  # sums depend on the layout
    names, why = tuple(sorted(frame.index)), dict(table.reasons)
    for j, feature in enumerate(table.features):
        bad = scales.unfit(values[:, j], feature.transform, feature.floor)
        for i in np.flatnonzero(bad):
            absurd = "is infinite" if np.isinf(values[i, j]) else "is beyond 1e100"
            words = absurd if abs(values[i, j]) > scales.HUGE else scales.UNFIT[feature.transform]
            why[names[i], feature.name] = f"{values[i, j]:g} {words}"
        values[bad, j] = np.nan
    return Raw(names, table.features, values, why, {})


def _check(table: FeatureTable) -> None:
    names = [str(name) for name in table.values.index]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UsageError(
            f"The table has more than one row for {', '.join(twice[:NAMED])}.",
            "Workloads go by name: give repeats and variants names of their own, or aggregate them first.",
        )
    columns = [feature.name for feature in table.features]
    if columns != [str(column) for column in table.values.columns] or len(set(columns)) < len(columns):
        raise UsageError("The table's columns are not its features, one for one and in their order.")
    for feature in table.features:
        if feature.transform not in TRANSFORMS:
            raise UnknownNameError("transform", feature.transform, TRANSFORMS, f"(feature '{feature.name}')")
        scales.check_floor(feature.name, feature.transform, feature.floor)


def prepared(found: Raw, nulls: str, drop_blocks: Iterable[str] = ()) -> Raw:
    """What a space can be fitted to: without the blocks named, without constants, without nulls.

    Features that tell nothing go first, so that their nulls cost nobody else; then, until nothing changes, features and
    workloads without any value, and by the policy either each feature or each workload that has a null.
    """
    if nulls not in NULLS:
        raise UnknownNameError("policy for nulls", nulls, NULLS)
    blocks = {feature.block for feature in found.features}
    for block in drop_blocks:
        if block not in blocks:
            raise UnknownNameError("block", block, blocks)
    left_out = set(drop_blocks)
    found = found.without({f.name: f"block '{f.block}' is left out" for f in found.features if f.block in left_out})
    before = None
    while before != len(found.dropped):
        before = len(found.dropped)
        found = found.without(unmeasured(found))
        found = found.without(_constant(found))
        found = spoilt(found)
        found = found.without(null_features(found) if nulls == "drop-feature" else null_workloads(found))
    return found


def unmeasured(found: Raw) -> dict[str, str]:
    """Workloads without any value, or else features without any."""
    missing = np.isnan(found.values)
    if not found.features or not found.names:
        return {}
    rows = np.flatnonzero(missing.all(axis=1))
    if len(rows):
        return {found.names[i]: f"none of its {len(found.features)} features has a value" for i in rows}
    columns = np.flatnonzero(missing.all(axis=0))
    return {found.features[j].name: "no workload has a value" + _examples(found, int(j)) for j in columns}


def _constant(found: Raw) -> dict[str, str]:
    """Features equal in all workloads that have them, and parts that are 0 in all."""
    reasons = {}
    for j, feature in enumerate(found.features):
        column = found.values[:, j]
        known = column[~np.isnan(column)]
        if len(known) == 1 and len(column) > 1:
            reasons[feature.name] = "one workload alone has a value"
        elif feature.transform == "clr":
            if len(known) and (known.max() == 0 or known.max() < (feature.floor or 0)):
                reasons[feature.name] = "a part that is 0 (or below its floor) in every workload"
        elif scales.flat(scales.transformed(column, feature.transform, feature.floor), feature.transform):
            reasons[feature.name] = _flat(known, "" if feature.unit in ("1", "") else f" {feature.unit}")
    return reasons


def _flat(known: NDArray[np.float64], unit: str) -> str:
    """Why values tell nothing apart: they are alike, or of sizes that no float64 holds a spread of."""
    least, most = float(known.min()), float(known.max())
    if most - least <= 1e-3 * max(abs(least), abs(most)):
        return f"constant or nearly so: {known[0]:.6g}{unit} in every workload, and tells nothing apart"
    return (
        f"its values, {least:.6g} to {most:.6g}{unit}, are too small or too far apart for their spread to be computed"
    )


def spoilt(found: Raw) -> Raw:
    """With NaN where a composition cannot be taken: a 0 without a floor, or no part above its floor."""
    for block, columns in found.compositions().items():
        parts, least = found.values[:, columns], floors(found.features[j] for j in columns)
        for j, column in enumerate(columns):
            zero = np.array((parts[:, j] == 0) & (least[j] == 0), np.bool_)
            found = found.marked(zero, "is 0, has no logarithm, and the feature declares no floor", column)
        known = ~np.isnan(parts).any(axis=1)
        empty = np.array(known & ~((parts > 0) & (parts >= least)).any(axis=1), np.bool_)
        for column in columns:
            found = found.marked(empty, f"nothing in the composition '{block}' is above its floor", column)
    return found


def null_features(found: Raw) -> dict[str, str]:
    counts = np.isnan(found.values).sum(axis=0)
    words = f"of {len(found.names)} workloads have no value"
    return {found.features[j].name: f"{counts[j]} {words}" + _examples(found, int(j)) for j in np.flatnonzero(counts)}


def null_workloads(found: Raw) -> dict[str, str]:
    """Workloads with a null, each with its first reasons."""
    reasons = {}
    for i in np.flatnonzero(np.isnan(found.values).any(axis=1)):
        columns = np.flatnonzero(np.isnan(found.values[i]))
        told = [_why(found, int(i), int(j)) for j in columns[:NAMED]]
        more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
        reasons[found.names[i]] = f"no value for {'; '.join(told)}{more}"
    return reasons


def _examples(found: Raw, column: int) -> str:
    rows = np.flatnonzero(np.isnan(found.values[:, column]))
    name = found.features[column].name
    told = [f"{found.names[i]}: {found.why.get((found.names[i], name), 'not measured')}" for i in rows[:NAMED]]
    more = f", and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return f" ({'; '.join(told)}{more})"


def _why(found: Raw, row: int, column: int) -> str:
    name = found.features[column].name
    return f"{name} ({found.why.get((found.names[row], name), 'not measured')})"
