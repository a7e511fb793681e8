"""How much of a weighted population lies within r* of a suite: representativeness, which is not diversity.

The population is anybody's table: a row an item (a job, an application), its weight, and either the name of a workload
of the study or raw values of the study's features. Without a population no suite is called representative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from wcbench.analysis.pairing import TIE
from wcbench.analysis.recipe import Placed
from wcbench.analysis.shown import Shown
from wcbench.analysis.study_table import read_table
from wcbench.analysis.table import FeatureTable
from wcbench.analysis.transform import apply
from wcbench.errors import ReadError, UsageError

WEIGHT = "weight"


@dataclass(frozen=True, eq=False)
class Population:
    """Items with weights above 0; ``values`` are raw values by feature, NaN where not given.

    ``title`` is how sentences call it, ``file`` where it was read.
    """

    title: str
    file: str
    weights: pd.Series
    values: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Representation(Shown):
    """The share of a population within the radius of each suite.

    Attributes
    ----------
    rows : item, weight, suite, nearest (task), distance, within_r; items without a place have NaN and no task.
    shares : of all weight, by suite: a lower bound where items have no place. ``placed`` : share of the weight that has
        one. ``left_out`` : items without a place, and why.
    """

    population: Population
    radius: float
    rows: pd.DataFrame
    shares: Mapping[str, float]
    tasks: Mapping[str, int]
    placed: float
    left_out: Mapping[str, str]

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence a suite."""
        least = "" if self.placed == 1 else "at least "
        lost = "" if self.placed == 1 else f" ({100 * (1 - self.placed):.0f} % of the weight has no place in the space)"
        return tuple(
            f"{least}{100 * share:.0f} % of {self.population.title}, by weight, lies within r = {self.radius:.3g} of a "
            f"task of {suite}{lost}."
            for suite, share in self.shares.items()
        )

    def to_dict(self) -> dict[str, Any]:
        known = self.placed or math.nan
        return {
            "reason": "",
            "file": self.population.file,
            "title": self.population.title,
            "items": len(self.population.weights),
            "weight": float(self.population.weights.sum()),
            "placed": self.placed,
            "radius": self.radius,
            "suites": [
                {"suite": suite, "share": share, "share_of_placed": share / known, "tasks": self.tasks[suite]}
                for suite, share in self.shares.items()
            ],
            "left_out": dict(self.left_out),
            "sentences": list(self.sentences),
        }

    def to_frame(self) -> pd.DataFrame:
        return self.rows.copy()

    def __repr__(self) -> str:
        return "\n".join([f"Representation ({self.population.title}, {len(self.population.weights)} items)",
                          *(f"  {text}" for text in self.sentences)])  # fmt: skip


def read_population(file: Path) -> Population:
    """Read a CSV with the columns workload (the item's name), weight and any features of the study.

    Raises ReadError where it is no table or has no weights, UsageError for a weight that is negative or missing, and
    where all are 0.
    """
    table = read_table(file).table
    if WEIGHT not in table.values.columns:
        raise ReadError(f"{file} has no column '{WEIGHT}'.", "A population is a CSV with workload, weight, features.")
    weights = table.values[WEIGHT]
    bad = [str(name) for name, weight in weights.items() if not (math.isfinite(weight) and weight >= 0)]
    if bad:
        raise UsageError(f"Weights are numbers from 0 up; those of {', '.join(bad[:5])} are not.")
    if not weights.sum() > 0:
        raise UsageError(f"All weights of {file} are 0.", "Give how often each item occurs, or what it uses.")
    twice = weights.index[weights.index.duplicated()]
    if len(twice):
        raise UsageError(f"{file} names '{twice[0]}' twice.", "Add up the weights of one item.")
    return Population(file.stem, str(file), weights.sort_index(), table.values.drop(columns=WEIGHT).sort_index())


def represented(
    population: Population, space: Placed, radius: float, suites: Mapping[str, Sequence[str]]
) -> Representation:
    """The share of the weight within the radius of a task of each suite, in a space that is frozen."""
    points, left_out = _points(population, space)
    total = float(population.weights.sum())
    rows: list[tuple[Any, ...]] = []
    shares: dict[str, float] = {}
    kept = {suite: [name for name in tasks if name in set(space.names)] for suite, tasks in suites.items()}
    for suite, tasks in kept.items():
        found = _nearest(points, space, tasks, radius)
        near = set(found.index[found["within_r"]])
        shares[suite] = float(population.weights[[item in near for item in population.weights.index]].sum()) / total
        told = dict(zip(map(str, found.index), found.itertuples(index=False, name=None), strict=True))
        for item, weight in population.weights.items():
            rows.append((str(item), float(weight), suite, *told.get(str(item), (None, math.nan, False))))
    columns = ["item", WEIGHT, "suite", "nearest", "distance", "within_r"]
    placed = float(population.weights[population.weights.index.isin(points.index)].sum()) / total
    sizes = {suite: len(tasks) for suite, tasks in kept.items()}
    return Representation(
        population, radius, pd.DataFrame(rows, columns=columns), shares, sizes, round(placed, 12), left_out
    )


def _points(population: Population, space: Placed) -> tuple[pd.DataFrame, dict[str, str]]:
    """Where each item lies: that of the workload of its name where no values are given; and who has no place."""
    known = population.values.notna().any(axis=1)
    named = [str(name) for name in population.weights.index if not known[name] and name in set(space.names)]
    left = {
        str(name): "it has no values, and no workload of the study has its name"
        for name in population.weights.index
        if not known[name] and str(name) not in set(named)
    }
    parts = [space.points.loc[named]]
    features = tuple(c.feature for c in space.recipe.coordinates)
    values = population.values[known].reindex(columns=[f.name for f in features])
    if len(values):
        whole = values.dropna()
        missing = ", ".join(map(str, values.columns[values.isna().any(axis=0)][:3]))
        left |= {str(name): f"it lacks features of the space ({missing} ...)" for name in values.index.difference(
            whole.index)}  # fmt: skip
        if len(whole):
            placed = apply(space.recipe, FeatureTable(whole, features))
            parts.append(placed.points)
            left |= {str(name): why for name, why in placed.dropped.items() if name in set(whole.index)}
    return pd.concat(parts), left


def _nearest(points: pd.DataFrame, space: Placed, tasks: Sequence[str], radius: float) -> pd.DataFrame:
    """nearest, distance, within_r of each item to the tasks; without tasks nobody is near."""
    if not tasks or not len(points):
        return pd.DataFrame({"nearest": [], "distance": [], "within_r": np.array([], bool)})
    order = sorted(tasks)
    between = np.round(cdist(points.to_numpy(np.float64), space.points.loc[order].to_numpy(np.float64)), 12)
    place = between.argmin(axis=1)
    found = between[np.arange(len(points)), place]
    return pd.DataFrame(
        {"nearest": [order[i] for i in place], "distance": found, "within_r": found <= radius * (1 + TIE)},
        index=points.index,
    )
