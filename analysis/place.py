"""Any workload in a frozen reference space: what it is near, whether that is near enough, and what sets it apart.

Nothing is fitted and nothing imputed. Squared distances are sums over coordinates, so what is left out can only make
them smaller: where the record lacks features, its distances are lower bounds of those in the whole space. That proves
a workload new, and never that it lies within r* of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wcbench.analysis import scales
from wcbench.analysis.differences import quantity
from wcbench.analysis.features import COLUMNS, all_features, evaluate
from wcbench.analysis.placement import INSIDE, NAMED, NEW, NO_RADIUS, UNDECIDED, Placement
from wcbench.analysis.raw import raw, spoilt
from wcbench.analysis.recipe import Coordinate
from wcbench.analysis.reference import Reference, load_reference
from wcbench.analysis.table import Feature, FeatureTable
from wcbench.analysis.transform import apply
from wcbench.errors import UsageError

if TYPE_CHECKING:
    from wcbench.record import Profile

DIGITS = 10  # decimals of distances: what lies below is the rounding of sums


def place(
    what: Profile | pd.DataFrame,
    reference: Reference | None = None,
    *,
    name: str | None = None,
    mix: bool = False,
) -> Placement:
    """Place a record, or the feature rows of one workload, in a reference space (by default wcbench's own).

    Parameters
    ----------
    what : a record with an operators pass, or rows as `features.evaluate` makes them: at least workload, feature,
        value.
    name : of the workload instead of the record's.
    mix : let origins, presets, devices and precisions differ from the reference's.

    Raises UsageError where they differ, or where nothing of the space can be compared.
    """
    space = reference or load_reference()
    rows = _rows_of(what, space, name)
    workload = str(rows["workload"].iloc[0])
    mixed = _mixtures(space, rows)
    if mixed and not mix:
        raise UsageError(
            f"'{workload}' is not like the workloads of {space.id}: {'; '.join(mixed)}.",
            "Profile it as the reference was, or ask for the mixture with --mix.",
        )
    table = _table(space, rows, workload)
    missing = _missing(space, table)
    kept = tuple(c for c in space.recipe.coordinates if c.name not in missing)
    if not kept:
        told = "; ".join(f"{feature}: {why}" for feature, why in list(missing.items())[:NAMED])
        raise UsageError(f"'{workload}' has no feature of {space.id}: {told}.", "Make a record with an operators pass.")
    squares = _squares(space, table, kept)
    unseen = _unseen(space, rows)
    nearest = _nearest(space, squares, workload)
    return Placement(
        workload=workload,
        reference=space,
        verdict=_verdict(nearest, certain=not missing and not unseen),
        nearest=nearest,
        squares=squares,
        coordinates=kept,
        values=table.values.iloc[0],
        missing=missing,
        unseen=unseen,
        mixed=mixed,
        remarks=tuple(dict.fromkeys(str(text) for text in rows["remark"].dropna() if text)),
    )


def _rows_of(what: Profile | pd.DataFrame, space: Reference, name: str | None) -> pd.DataFrame:
    """One workload's rows, in the columns of `features.COLUMNS`, without those that the space has no use for."""
    if isinstance(what, pd.DataFrame):
        rows = what.reindex(columns=list(COLUMNS))
        rows = rows[rows["feature"].isin(space.features)]
        if len(set(rows["workload"])) != 1 or rows["feature"].duplicated().any():
            raise UsageError(
                f"A placement takes the rows of one workload, each feature once, and not of "
                f"{rows['workload'].nunique()} ({len(rows)} rows for the {len(space.features)} features of the space)."
            )
        rows = rows.astype({"value": "float64"})
    else:
        known = {feature.name for feature in all_features()}
        if strange := [feature for feature in space.features if feature not in known]:
            raise UsageError(
                f"{space.id} is of a table with features of its own ({', '.join(strange[:NAMED])}): a record does not "
                "tell them.",
                "Give the feature rows of the workload, or take another space.",
            )
        rows = evaluate(what, space.features)
        rows = rows[rows["feature"].isin(space.features)]
    return rows.assign(workload=name) if name else rows


def _mixtures(space: Reference, rows: pd.DataFrame) -> tuple[str, ...]:
    """Conditions under which a value holds here and under which no value of that feature holds in the reference."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    used = {c.name for c in space.recipe.coordinates}
    theirs = space.rows[space.rows["value"].notna() & space.rows["feature"].isin(used)]
    own = rows[rows["value"].notna() & rows["feature"].isin(used)]
    by_feature = {str(feature): frame for feature, frame in theirs.groupby("feature")}
    for row in own.to_dict("records"):
        feature = str(row["feature"])
        for column in ("origin", "preset", "device", "precision"):
            here, there = _word(row[column]), sorted({_word(word) for word in by_feature[feature][column]})
            if here not in there:
                groups.setdefault((column, here, " or ".join(there)), []).append(feature)
    texts = []
    for (column, here, known), names in groups.items():
        which = "every feature" if len(names) == len(own) else f"{', '.join(names[:NAMED])}"
        more = f" and {len(names) - NAMED} more" if NAMED < len(names) < len(own) else ""
        texts.append(f"{column} {here} here, {known} there ({which}{more})")
    return tuple(texts)


def _word(value: Any) -> str:
    return "not told" if pd.isna(value) else str(value)


def _table(space: Reference, rows: pd.DataFrame, workload: str) -> FeatureTable:
    """One row of the space's coordinates; raises UsageError where wcbench defines one of them otherwise by now."""
    given = {feature.name: feature for feature in all_features()}
    for c in space.recipe.coordinates:
        now = given.get(c.name)
        if now is not None and (now.unit, now.transform, now.floor) != (c.unit, c.transform, c.floor):
            raise UsageError(
                f"'{c.name}' has another definition in this wcbench than in {space.id} (made with wcbench "
                f"{space.made.get('wcbench', 'of an unknown version')}).",
                "Take a reference of this version, or make the record with that version.",
            )
    names = [c.name for c in space.recipe.coordinates]
    by = rows.set_index("feature")
    values = pd.DataFrame([by["value"].reindex(names).to_numpy(np.float64)], index=[workload], columns=names)
    why = {(workload, str(f)): str(r) for f, r in by["reason"].items() if isinstance(r, str) and r}
    return FeatureTable(values, tuple(c.feature for c in space.recipe.coordinates), reasons=why)


def _missing(space: Reference, table: FeatureTable) -> dict[str, str]:
    """Coordinates that have no value here, and with a part of a composition all its parts."""
    found = spoilt(raw(table))
    (workload,) = found.names
    reasons = {
        c.name: found.why.get((workload, c.name), "not measured")
        for c, lacks in zip(space.recipe.coordinates, np.isnan(found.values[0]), strict=True)
        if lacks
    }
    broken = {c.block: c.name for c in space.recipe.coordinates if c.transform == "clr" and c.name in reasons}
    for c in space.recipe.coordinates:
        if c.transform == "clr" and c.block in broken and c.name not in reasons:
            reasons[c.name] = f"a part of a composition that lacks {broken[c.block]}"
    return reasons


def _squares(space: Reference, table: FeatureTable, kept: tuple[Coordinate, ...]) -> pd.DataFrame:
    """(x_j - y_j)^2 to every workload of the reference; the parameters of what is kept are those of the whole space."""
    recipe = replace(space.recipe, coordinates=kept)
    mine, theirs = apply(recipe, table).points, apply(recipe, space.table()).points
    return (theirs - mine.to_numpy(np.float64)) ** 2


def _nearest(space: Reference, squares: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Workloads of the reference by distance, of equals by name."""
    found = pd.DataFrame({"workload": [str(name) for name in squares.index]})
    found["distance"] = np.round(np.sqrt(squares.to_numpy(np.float64).sum(axis=1)), DIGITS)
    near: list[bool | None] = [None] * len(found)
    if space.radius is not None:
        limit = space.radius + 10.0**-DIGITS
        near = [bool(distance <= limit) for distance in found["distance"]]
    found["within_r"] = pd.Series(near, dtype=object)
    found["same"] = found["workload"] == workload
    return found.sort_values(["distance", "workload"], ignore_index=True)


def _verdict(nearest: pd.DataFrame, *, certain: bool) -> str:
    """See `Placement.verdict`: what was not compared can only add to a distance."""
    if nearest["within_r"].isna().all():
        return NO_RADIUS
    if not nearest["within_r"].eq(True).any():
        return NEW
    return INSIDE if certain else UNDECIDED


def _unseen(space: Reference, rows: pd.DataFrame) -> dict[str, str]:
    """What the record has and the space has no axis for: it was the same in all of the reference, and differs here."""
    catalogue = {feature.name: feature for feature in all_features()}
    used, blocks = {c.name for c in space.recipe.coordinates}, set(space.recipe.drop_blocks)
    reasons = {}
    for feature, value in zip(rows["feature"], rows["value"], strict=True):
        known = catalogue.get(feature)
        if feature in used or known is None or known.block in blocks or not np.isfinite(value):
            continue
        theirs = space.values[feature]
        if not theirs.isna().any() and _differs(known, float(value), theirs):
            reasons[str(feature)] = _told(known, float(value), theirs)
    return reasons


def _told(known: Feature, value: float, theirs: pd.Series) -> str:
    least, most = float(theirs.min()), float(theirs.max())
    bound = f"at most {quantity(most, known.unit)}" if value > most else f"at least {quantity(least, known.unit)}"
    return (
        f"{quantity(value, known.unit)} here, and {bound} in every workload of the reference, which has no axis for it"
    )


def _differs(known: Feature, value: float, theirs: pd.Series) -> bool:
    """Whether the value tells this workload from a reference in which the feature is the same everywhere."""
    if known.transform == "clr":
        floor = known.floor or 0.0
        return value > floor and float(theirs.max()) <= floor
    column = np.append(theirs.to_numpy(np.float64), value)
    if scales.unfit(column, known.transform, known.floor).any():
        return False
    changed = scales.transformed(column, known.transform, known.floor)
    return scales.flat(changed[:-1], known.transform) and not scales.flat(changed, known.transform)


def derived(profile: Profile, workload: str, options: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Feature rows of a record under the name of another, for `profilers.changes`."""
    return {"values": evaluate(profile, options["features"], workload)}
