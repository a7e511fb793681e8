"""The parameters of a fitted space, which a file can hold, and a space that knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pandas as pd

from wcbench.analysis.table import Feature, Space
from wcbench.errors import UsageError

VERSION = 1
KIND = "wcbench space"


@dataclass(frozen=True)
class Coordinate:
    """One column of a space: point = (transformed value - centre) / scale.

    ``scale`` is the spread of the column (of a composition: of all its parts together) times the root of its block's
    total variance after that. ``spread`` says which: "sd" (ddof 1), "mad" (1.4826 * MAD), or "sd as MAD is 0".
    """

    name: str
    unit: str
    transform: str
    block: str
    floor: float | None
    centre: float
    scale: float
    spread: str

    @property
    def feature(self) -> Feature:
        return Feature(self.name, self.unit, self.transform, self.block, self.floor)


@dataclass(frozen=True)
class Recipe:
    """Everything with which a table becomes points, fitted once; `to_dict` and `from_dict` keep every digit.

    Attributes
    ----------
    nulls, scale, delta, drop_blocks : the options it was fitted with; delta is what replaces a zero part of a
        composition, in units of its floor.
    fitted_on : the workloads, sorted.
    dropped : features and workloads that were left out of the fit, each with its reason.
    notes : what else a reader should know (floors that were hit, sums that were closed, spreads replaced).
    """

    coordinates: tuple[Coordinate, ...]
    fitted_on: tuple[str, ...]
    nulls: str
    scale: str
    delta: float
    drop_blocks: tuple[str, ...]
    dropped: Mapping[str, str]
    notes: tuple[str, ...]
    version: int = VERSION

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits of the SHA-256 of all parameters: equal only for the same space."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": KIND, **asdict(replace(self, dropped=dict(self.dropped)))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """Read back what `to_dict` gave, also after JSON. Raises UsageError for anything else."""
        if data.get("kind") != KIND or data.get("version") != VERSION:
            raise UsageError(
                f"This is no space of wcbench in version {VERSION} (kind {data.get('kind')!r}, "
                f"version {data.get('version')!r}).",
                "Fit it again from its records with this version of wcbench.",
            )
        try:
            parts = {field.name: data[field.name] for field in fields(cls)}
            parts["coordinates"] = tuple(Coordinate(**row) for row in parts["coordinates"])
        except (KeyError, TypeError) as error:
            raise UsageError(f"This space is damaged: {error}.", "Fit it again from its records.") from None
        lists = ("fitted_on", "drop_blocks", "notes")
        return cls(**{**parts, **{name: tuple(parts[name]) for name in lists}})

    def to_frame(self) -> pd.DataFrame:
        """A row a coordinate."""
        return pd.DataFrame([asdict(c) for c in self.coordinates], columns=[f.name for f in fields(Coordinate)])

    def __repr__(self) -> str:
        blocks = len({c.block for c in self.coordinates})
        return (
            f"Recipe {self.fingerprint} (version {self.version}; {len(self.coordinates)} coordinates in {blocks} "
            f"blocks, scale {self.scale}, fitted on {len(self.fitted_on)} workloads; {len(self.dropped)} left out)"
        )


@dataclass(frozen=True, repr=False)
class Placed(Space):
    """A `Space` that knows its recipe."""

    recipe: Recipe

    def to_frame(self) -> pd.DataFrame:
        """Points: workloads by coordinates."""
        return self.points.copy()

    def __repr__(self) -> str:
        n, p = self.points.shape
        lines = [f"Space ({n} workloads, {p} coordinates in {len(set(self.blocks))} blocks; {self.recipe.fingerprint})"]
        lines += [f"  without {name}: {reason}" for name, reason in list(self.dropped.items())[:10]]
        if len(self.dropped) > 10:
            lines.append(f"  and {len(self.dropped) - 10} more left out")
        return "\n".join(lines + [f"  note: {note}" for note in self.recipe.notes])
