"""A frozen reference space: recipe, raw feature values of its workloads and r*, in one file that never changes.

A file holds everything that a placement needs, so that the same record lands in the same place whatever is profiled
later. A new fit is a new file with a new id; nothing is refitted when somebody's workload is placed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wcbench.analysis.features import COLUMNS, table_of
from wcbench.analysis.recipe import Placed, Recipe
from wcbench.analysis.scales import Array
from wcbench.analysis.shown import Shown
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import apply, to_space
from wcbench.errors import UnknownNameError, UsageError
from wcbench.files import write_whole

SCHEMA = "wcbench.reference/1"
DEFAULT = "reference-1"
IN_STUDY = "space.json"
"""Name of the file in the folder of a study."""

CONDITIONS = ("origin", "preset", "device", "precision", "needs")
_TEXTS = ("reason", "remark")


@dataclass(frozen=True, eq=False)
class Reference(Shown):
    """A space that is fitted and frozen.

    Attributes
    ----------
    id : its name with its version, e.g. "reference-1".
    recipe : the fitted parameters; ``recipe.fitted_on`` are the workloads, ``recipe.fingerprint`` tells spaces apart.
    rows : raw values with their conditions, the columns of `features.COLUMNS`; features that the recipe left out are
        there too, so that a placement can tell what the space cannot see.
    radius : r* in this space, None where it is not known; ``radius_of`` says what it is from, or why it is not known.
    suites : of each workload.
    made : how: wcbench (version), created (UTC), command, and what else its maker says.
    """

    id: str
    recipe: Recipe
    rows: pd.DataFrame
    radius: float | None = None
    radius_of: str = "no changes that leave a workload the same were measured in it"
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius >= 0):
            raise UsageError(f"A radius is a number of at least 0, not {self.radius}.")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features in ``rows``, also of those that the recipe left out."""
        return tuple(dict.fromkeys(self.rows["feature"]))

    @cached_property
    def values(self) -> pd.DataFrame:
        """Raw values, workloads of the recipe (sorted) by all features."""
        wide = self.rows.pivot(index="workload", columns="feature", values="value")
        found = wide.reindex(index=list(self.recipe.fitted_on), columns=list(self.features)).astype("float64")
        return found.rename_axis(index=None, columns=None)

    @cached_property
    def space(self) -> Placed:
        """The workloads as points."""
        return apply(self.recipe, self.table())

    def table(self) -> FeatureTable:
        """The raw values of the recipe's features."""
        wanted = [c.name for c in self.recipe.coordinates]
        if lacking := [name for name in wanted if name not in self.values.columns]:
            raise UsageError(f"The space '{self.id}' is damaged: no values of {', '.join(lacking[:3])}.")
        return FeatureTable(self.values[wanted], tuple(c.feature for c in self.recipe.coordinates))

    @cached_property
    def distances(self) -> Array:
        """Between its workloads, n x n."""
        return self.space.distances()

    @property
    def median_neighbour(self) -> float:
        """Median distance of a workload to its nearest neighbour."""
        apart = self.distances.copy()
        np.fill_diagonal(apart, np.inf)
        return float(np.median(apart.min(axis=1)))

    @property
    def distinguishable(self) -> bool:
        """Whether r* is below the median distance to the nearest neighbour (True where r* is not known)."""
        return self.radius is None or self.radius < self.median_neighbour - 1e-9

    def to_frame(self) -> pd.DataFrame:
        """Raw values, workloads by features."""
        return self.values.copy()

    def __repr__(self) -> str:
        n, blocks = len(self.recipe.fitted_on), len({c.block for c in self.recipe.coordinates})
        radius = f"not known: {self.radius_of}" if self.radius is None else f"{self.radius:.4g} ({self.radius_of})"
        return "\n".join(
            [
                f"Reference {self.id} ({n} workloads, {len(self.recipe.coordinates)} coordinates in {blocks} blocks; "
                f"{self.recipe.fingerprint})",
                f"  r* {radius}",
                *(f"  {key}: {text}" for key, text in self.made.items()),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON's own types, every digit kept: a row a workload, its values in the order of ``features``."""
        conditions = [tuple(row) for row in self.rows[list(CONDITIONS)].itertuples(index=False, name=None)]
        kinds = sorted(set(map(_plain, conditions)), key=str)
        places = {kind: place for place, kind in enumerate(kinds)}
        workloads = {}
        for name, own in self.rows.groupby("workload", sort=True):
            by = own.set_index("feature").reindex(list(self.features))
            which = by[list(CONDITIONS)].itertuples(index=False, name=None)
            workloads[str(name)] = {
                "suites": list(self.suites.get(str(name), ())),
                "values": [None if math.isnan(value) else float(value) for value in by["value"]],
                "conditions": [places.get(_plain(kind)) for kind in which],
                **{text: {str(f): str(t) for f, t in by[text].dropna().items() if t} for text in _TEXTS},
            }
        return {
            "schema": SCHEMA,
            "id": self.id,
            "made": dict(self.made),
            "radius": {"value": self.radius, "of": self.radius_of},
            "fingerprint": self.recipe.fingerprint,
            "recipe": self.recipe.to_dict(),
            "conditions": [dict(zip(CONDITIONS, kind, strict=True)) for kind in kinds],
            "features": list(self.features),
            "workloads": workloads,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reference:
        """Read back what `to_dict` gave, also after JSON. Raises UsageError for anything else."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            told = data.get("schema") if isinstance(data, Mapping) else None
            raise UsageError(f"This is no reference space ({SCHEMA}): its schema is {told!r}.")
        try:
            found = cls(
                id=str(data["id"]),
                recipe=Recipe.from_dict(data["recipe"]),
                rows=_rows(data),
                radius=None if data["radius"]["value"] is None else float(data["radius"]["value"]),
                radius_of=str(data["radius"]["of"]),
                suites={name: tuple(row["suites"]) for name, row in data["workloads"].items()},
                made={str(key): str(text) for key, text in data["made"].items()},
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise UsageError(f"This reference space is damaged: {type(error).__name__} {error}.") from None
        if found.recipe.fingerprint != data.get("fingerprint"):
            raise UsageError(
                f"The space '{found.id}' was changed: its parameters give {found.recipe.fingerprint}, and it says "
                f"{data.get('fingerprint')}.",
                "Take the file as it was made; a new fit is a new reference.",
            )
        return found

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write it as one JSON file, a line a workload; an existing one is kept unless ``force``."""
        target = Path(path)
        if target.exists() and not force:
            raise UsageError(f"{target} exists and is left as it is.", "A new fit is a new file.")
        write_whole(target, lambda file: file.write_text(_text(self.to_dict()), encoding="utf-8"))
        return target


def _plain(kind: Iterable[Any]) -> tuple[str | None, ...]:
    """Conditions with None for what is not told (pandas has several words for that)."""
    return tuple(None if pd.isna(word) else str(word) for word in kind)


def _rows(data: Mapping[str, Any]) -> pd.DataFrame:
    names, kinds = list(data["features"]), list(data["conditions"])
    rows = []
    for workload, row in data["workloads"].items():
        for feature, value, place in zip(names, row["values"], row["conditions"], strict=True):
            if place is None:
                continue
            texts = {text: row[text].get(feature, "") for text in _TEXTS}
            number = math.nan if value is None else float(value)
            rows.append({"workload": workload, "feature": feature, "value": number, **kinds[place], **texts})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _text(data: Mapping[str, Any]) -> str:
    """JSON in which each workload, feature list and coordinate has a line of its own: changes can be read."""
    head = {key: value for key, value in data.items() if key not in ("recipe", "workloads")}
    recipe = {key: value for key, value in data["recipe"].items() if key != "coordinates"}
    lines = [f" {_line(key)}: {_line(value)}" for key, value in head.items()]
    inner = ",\n".join(f"   {_line(row)}" for row in data["recipe"]["coordinates"])
    lines.append(f' "recipe": {_line(recipe)[:-1]}, "coordinates": [\n{inner}\n ]}}')
    body = ",\n".join(f"  {_line(name)}: {_line(row)}" for name, row in data["workloads"].items())
    lines.append(f' "workloads": {{\n{body}\n }}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def freeze(
    id: str,
    rows: pd.DataFrame,
    *,
    radius: float | None = None,
    radius_of: str | None = None,
    suites: Mapping[str, tuple[str, ...]] | None = None,
    made: Mapping[str, str] | None = None,
    mix: bool = False,
    nulls: str = "drop-feature",
    scale: str = "sd",
) -> Reference:
    """Fit a space to rows as `features.evaluate` makes them (several records, one table) and freeze it.

    Raises UsageError where the rows mix, as `features.table_of` does, or leave no space, as `transform.to_space` does.
    """
    space = to_space(table_of(rows, mix=mix), nulls=nulls, scale=scale)
    told = {} if radius_of is None else {"radius_of": radius_of}
    return Reference(id, space.recipe, rows[list(COLUMNS)], radius, suites=suites or {}, made=made or {}, **told)


def references() -> dict[str, Path]:
    """The frozen spaces that come with wcbench, by id."""
    folder = Path(str(files("wcbench") / "reference"))
    return {path.stem: path for path in sorted(folder.glob("reference-*.json"))}


def load_reference(space: str | Path | None = None) -> Reference:
    """A reference space: the default one, one of `references` by id, a file, or the folder of a study.

    Raises UsageError where there is none, or where the file is none.
    """
    known = references()
    text = DEFAULT if space is None else str(space)
    path = known.get(text, Path(text))
    if path.is_dir():
        path /= IN_STUDY
    if not path.is_file():
        hint = f"Or name a file of that kind, or the folder of a study of records, which holds {IN_STUDY}."
        raise UnknownNameError("reference space", text, list(known), hint)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no JSON: {error}.", "Name a file that wcbench wrote, or a study's folder."
        ) from None
    return Reference.from_dict(data)


def plain_rows(table: FeatureTable) -> pd.DataFrame:
    """Rows of a table of somebody's own, whose conditions nobody told but perhaps the origins."""
    long = table.values.rename_axis("workload").reset_index().melt("workload", var_name="feature", value_name="value")
    long["origin"] = long["feature"].map(table.origins.get)
    long["reason"] = [table.reasons.get((w, f), "") for w, f in zip(long["workload"], long["feature"], strict=True)]
    return long.reindex(columns=list(COLUMNS)).astype({"remark": object}).fillna({"remark": ""})
