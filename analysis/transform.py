"""From a feature table to a space: transforms, centre, scale, and every block of total variance 1; blind to suites.

The parameters of a fitted space are a `Recipe`, which a file can hold and with which further workloads are placed.
Nothing is imputed: what has a null is left out, the feature or the workload, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from wcbench.analysis import scales
from wcbench.analysis.raw import NAMED, Raw, floors, null_workloads, prepared, raw, spoilt
from wcbench.analysis.recipe import Coordinate, Placed, Recipe
from wcbench.analysis.table import FeatureTable
from wcbench.errors import UnknownNameError, UsageError

SCALES = ("sd", "mad")
LEAST = 3  # workloads that a space needs


def to_space(
    table: FeatureTable,
    *,
    nulls: str = "drop-feature",
    scale: str = "sd",
    drop_blocks: Iterable[str] = (),
    delta: float = scales.DELTA,
) -> Placed:
    """Fit a space to a table and place its workloads in it. Suites, families, costs and origins are not looked at.

    Parameters
    ----------
    nulls : "drop-feature" or "drop-workload", whichever has a null. Values without a meaning (inf, a negative time, a
        fraction of 30, a 0 that needs a floor and has none) are nulls with that reason.
    scale : "sd" (ddof 1, about the mean) or "mad" (1.4826 * MAD, about the median; where it is 0 the SD instead).
        The parts of a composition share one: the root of their summed squared spreads over D - 1, so that distances
        within it stay Aitchison's up to a factor, and D parts count as the D - 1 features that they are.
    drop_blocks : blocks to leave out.
    delta : replaces a part below its floor, in units of the floor.

    Raises UsageError where fewer than three workloads, or no feature, remain; the message names what went and why.
    """
    _check_options(scale, delta)
    left_out = tuple(drop_blocks)
    found = _without_flat_compositions(prepared(raw(table), nulls, left_out), delta)
    _check_size(found, nulls)
    columns = _columns(found, delta)
    centres = columns.mean(axis=0) if scale == "sd" else np.median(columns, axis=0)
    spreads, words = _spreads(found, columns, scale)
    scaled = (columns - centres) / spreads
    blocks = [feature.block for feature in found.features]
    total = dict.fromkeys(blocks, 0.0)
    for block, variance in zip(blocks, scaled.var(axis=0, ddof=1), strict=True):
        total[block] += float(variance)
    divisors = spreads * np.sqrt([total[block] for block in blocks])
    coordinates = tuple(
        Coordinate(f.name, f.unit, f.transform, f.block, f.floor, float(centre), float(divisor), word)
        for f, centre, divisor, word in zip(found.features, centres, divisors, words, strict=True)
    )
    recipe = Recipe(
        coordinates=coordinates,
        fitted_on=found.names,
        nulls=nulls,
        scale=scale,
        delta=delta,
        drop_blocks=left_out,
        dropped=dict(found.dropped),
        notes=tuple(_notes(found, words)),
    )
    return _placed(recipe, found, columns)


def apply(recipe: Recipe, table: FeatureTable) -> Placed:
    """Place the workloads of a table in a space that was fitted before, whatever else the table holds.

    A workload with a null in one of the recipe's features is left out with its reason. A part that the recipe's
    composition does not know, and that is not 0 here, is named in ``dropped``: the space cannot see it.

    Raises UsageError where the table lacks features of the recipe or has them in another unit, or where no workload
    can be placed.
    """
    _check_features(recipe, table)
    wanted = [c.name for c in recipe.coordinates]
    found = raw(replace(table, values=table.values[wanted], features=tuple(c.feature for c in recipe.coordinates)))
    found = spoilt(found)
    found = found.without({**null_workloads(found), **_unseen(recipe, table)})
    if not found.names:
        raise UsageError("No workload of the table can be placed in this space.", _told(found.dropped))
    return _placed(recipe, found, _columns(found, recipe.delta))


def refit(space: Placed, table: FeatureTable, names: Iterable[str]) -> Placed:
    """The space fitted again, with the same options, to these workloads of the table it came from (a draw).

    Raises UnknownNameError for a workload that the table does not have.
    """
    recipe, kept = space.recipe, rows(table, names)
    return to_space(kept, nulls=recipe.nulls, scale=recipe.scale, drop_blocks=recipe.drop_blocks, delta=recipe.delta)


def rows(table: FeatureTable, names: Iterable[str]) -> FeatureTable:
    """The table of these workloads alone."""
    known = {str(name): name for name in table.values.index}
    chosen = list(names)
    for name in chosen:
        if name not in known:
            raise UnknownNameError("workload", name, known)
    return replace(table, values=table.values.loc[[known[name] for name in chosen]])


def _check_options(scale: str, delta: float) -> None:
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    if not 0 < delta <= 1:
        raise UsageError(f"Zeros cannot be replaced by {delta:g} of the floor.", "Take more than 0, and at most 1.")


def _check_size(found: Raw, nulls: str) -> None:
    if len(found.names) >= LEAST and found.features:
        return
    what = f"{len(found.names)} workloads and {len(found.features)} features remain"
    raise UsageError(
        f"No space: {what}, and it takes {LEAST} workloads and 1 feature. {_told(found.dropped)}".strip(),
        f"Nulls went by '{nulls}': the other policy, other features or more complete records may leave enough."
        if found.dropped
        else f"Give at least {LEAST} workloads.",
    )


def _told(dropped: Mapping[str, str]) -> str:
    told = [f"{name}: {reason}." for name, reason in list(dropped.items())[:NAMED]]
    more = [f"And {len(dropped) - NAMED} more left out."] if len(dropped) > NAMED else []
    return " ".join(["Left out:", *told, *more]) if told else ""


def _columns(found: Raw, delta: float) -> scales.Array:
    """All values transformed, n x p, each composition as its centred log-ratios."""
    columns = np.empty_like(found.values)
    for j, feature in enumerate(found.features):
        if feature.transform != "clr":
            columns[:, j] = scales.transformed(found.values[:, j], feature.transform, feature.floor)
    for parts in found.compositions().values():
        limits = floors(found.features[j] for j in parts)
        columns[:, parts] = scales.clr(scales.replace_zeros(found.values[:, parts], limits, delta))
    return columns


def _without_flat_compositions(found: Raw, delta: float) -> Raw:
    """Less the compositions that are the same in every workload, or have one part left."""
    reasons: dict[str, str] = {}
    for block, parts in found.compositions().items():
        limits = floors(found.features[j] for j in parts)
        ratios = scales.clr(scales.replace_zeros(found.values[:, parts], limits, delta))
        words = f"the only part left of the composition '{block}', and so constant"
        if len(parts) > 1:
            words = f"the composition '{block}' is the same in every workload, and tells nothing apart"
        if all(scales.flat(column, "clr") for column in ratios.T):
            reasons |= {found.features[j].name: words for j in parts}
    return found.without(reasons)


def _spreads(found: Raw, columns: scales.Array, scale: str) -> tuple[scales.Array, list[str]]:
    """Spread of each column, and which it is; one for all parts of a composition."""
    spreads, deviations = scales.spread(columns, scale), scales.spread(columns, "sd")
    groups = list(found.compositions().values())
    for parts in groups:
        for values in (spreads, deviations):
            values[parts] = np.sqrt((values[parts] ** 2).sum() / (len(parts) - 1))
    none = spreads <= scales.FLAT * deviations
    words = np.where(none, f"sd as {scale.upper()} is 0", scale)
    return np.where(none, deviations, spreads), [str(word) for word in words]


def _notes(found: Raw, words: list[str]) -> list[str]:
    """Floors that were hit, compositions that were closed, spreads that were replaced."""
    notes = []
    n = len(found.names)
    for j, feature in enumerate(found.features):
        held = _held(found.values[:, j], feature.transform, feature.floor)
        if held:
            verb = "replaced as below their floor" if feature.transform == "clr" else "held at its floor"
            notes.append(f"{feature.name}: {held} of {n} values {verb} of {feature.floor:g} {feature.unit}".rstrip())
    for block, parts in found.compositions().items():
        sums = found.values[:, parts].sum(axis=1)
        if np.abs(sums - 1).max() > 1e-6:
            notes.append(f"composition '{block}': sums from {sums.min():.6g} to {sums.max():.6g} were closed to 1")
    odd = [f.name for f, word in zip(found.features, words, strict=True) if word not in SCALES]
    if odd:
        notes.append(f"divided by the SD, as over half of the values are equal and the MAD is 0: {', '.join(odd)}")
    return notes


def _held(column: scales.Array, transform: str, floor: float | None) -> int:
    if floor is None or transform not in (*scales.LOGS, "logit", "clr"):
        return 0
    high = column > 1 - floor if transform == "logit" else np.zeros(len(column), bool)
    return int(((column < floor) | high).sum())


def _placed(recipe: Recipe, found: Raw, columns: scales.Array) -> Placed:
    centres = np.array([c.centre for c in recipe.coordinates])
    divisors = np.array([c.scale for c in recipe.coordinates])
    names = [c.name for c in recipe.coordinates]
    return Placed(
        points=pd.DataFrame((columns - centres) / divisors, index=pd.Index(found.names), columns=pd.Index(names)),
        blocks=tuple(c.block for c in recipe.coordinates),
        dropped=dict(found.dropped),
        centres=centres,
        scales=divisors,
        recipe=recipe,
    )


def _check_features(recipe: Recipe, table: FeatureTable) -> None:
    """Refuse a table that lacks features of the recipe, or has them otherwise."""
    given = {feature.name: feature for feature in table.features}
    missing = [c.name for c in recipe.coordinates if c.name not in given]
    if missing:
        raise UsageError(
            f"The table lacks {len(missing)} of the {len(recipe.coordinates)} features of this space: "
            f"{', '.join(missing[:NAMED])}{' ...' if len(missing) > NAMED else ''}.",
            "Record what they need, or fit a space to features that all workloads have.",
        )
    for c in recipe.coordinates:
        if given[c.name].unit != c.unit or given[c.name].transform != c.transform:
            raise UsageError(
                f"'{c.name}' is in '{given[c.name].unit}' ({given[c.name].transform}) here, "
                f"and in '{c.unit}' ({c.transform}) in the space.",
                "Bring the table to the unit and the definition of the space.",
            )


def _unseen(recipe: Recipe, table: FeatureTable) -> dict[str, str]:
    """Parts of the recipe's compositions that it does not have, and that some workload here does."""
    known = {c.name for c in recipe.coordinates}
    blocks = {c.block for c in recipe.coordinates if c.transform == "clr"}
    reasons = {}
    for feature in table.features:
        if feature.transform != "clr" or feature.block not in blocks or feature.name in known:
            continue
        column = table.values[feature.name]
        if column.max() > (feature.floor or 0):
            where = f"{column.max():.3g} in {column.idxmax()}"
            reasons[feature.name] = f"a part that the space does not have ({where}): it cannot see what lies there"
    return reasons
