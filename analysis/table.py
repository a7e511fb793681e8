"""The two tables of a study: workloads by features as measured, and as points whose distances mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wcbench.analysis.shown import Shown

TRANSFORMS = ("none", "log", "log2", "log10", "log1p", "logit", "clr", "sqrt")


@dataclass(frozen=True)
class Feature:
    """A column of a feature table.

    Attributes
    ----------
    name : its pinned name, of a family in full, e.g. ``op_class_byte_share[GEMM]``.
    unit : unit of the raw value; empty for a plain number.
    transform : one of TRANSFORMS; all columns of one block with "clr" are the parts of one composition.
    block : the group of features that together count once.
    floor : the smallest value that can be told from 0 (detection limit), in the raw unit; used by logit, clr and logs
        of what may be 0. None where the transform needs none.
    reference : where the definition is from.
    """

    name: str
    unit: str
    transform: str
    block: str
    floor: float | None = None
    reference: str = ""


@dataclass(frozen=True)
class FeatureTable(Shown):
    """Workloads (rows, by unique name) by features (columns, in the order of ``features``), raw; NaN is not measured.

    Attributes
    ----------
    values : float64 frame. Its order of rows never changes a result: every step sorts by name first.
    features : one for each column.
    reasons : why a value is NaN, by (workload, feature).
    suites : the suites that a workload belongs to; used only where suites are compared, never in a transform.
    families : workloads that share a name here are kin (one model or family), by workload.
    costs : what running a workload costs, in ``cost_unit``; ``cost_of`` says what that is (FLOPs of a step, GPU hours).
    origins : exact, modelled, measured, published or toy, by feature.
    """

    values: pd.DataFrame
    features: tuple[Feature, ...]
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    cost_unit: str = ""
    cost_of: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """A row a workload, raw values; NaN is not measured."""
        return self.values.copy()

    def units(self) -> pd.DataFrame:
        """A row a feature: name, unit, transform, block, origin."""
        rows = [(f.name, f.unit, f.transform, f.block, self.origins.get(f.name, "")) for f in self.features]
        return pd.DataFrame(rows, columns=["feature", "unit", "transform", "block", "origin"])

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        blocks = len({feature.block for feature in self.features})
        lacking = int(self.values.isna().to_numpy().sum())
        cost = f"\n  cost: {self.cost_of}{f' ({self.cost_unit})' if self.cost_unit else ''}" if self.costs else ""
        known = f"{lacking} of {rows * columns} values not measured" if lacking else "every value is known"
        return (
            f"FeatureTable ({rows} workload{'s' * (rows != 1)} x {columns} features in {blocks} blocks)\n"
            f"  {known}; units(): a row a feature{cost}"
        )


@dataclass(frozen=True)
class Space(Shown):
    """Workloads as points: transformed, scaled, each block of total variance 1, blind to suites.

    Attributes
    ----------
    points : float64 frame, rows sorted by name; columns are coordinates (of a composition of D parts, D of rank D - 1).
    blocks : block of each coordinate, aligned to the columns.
    dropped : features and workloads that are left out, each with its reason.
    scales : what each coordinate was divided by after centring, aligned to the columns.
    centres : what was subtracted.
    """

    points: pd.DataFrame
    blocks: tuple[str, ...]
    dropped: Mapping[str, str]
    centres: NDArray[np.float64]
    scales: NDArray[np.float64]

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.points.index]

    def to_frame(self) -> pd.DataFrame:
        """A row a workload, a column a coordinate."""
        return self.points.copy()

    def __repr__(self) -> str:
        rows, columns = self.points.shape
        out = f"\n  {len(self.dropped)} left out: {', '.join(list(self.dropped)[:5])}" if self.dropped else ""
        return f"Space ({rows} workloads, {columns} coordinates in {len(set(self.blocks))} blocks){out}"

    def distances(self) -> NDArray[np.float64]:
        """Euclidean distances between all workloads, n x n, symmetric with an exact zero diagonal."""
        from scipy.spatial.distance import pdist, squareform

        found: NDArray[np.float64] = squareform(pdist(self.points.to_numpy(np.float64)))
        return found
