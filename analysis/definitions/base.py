"""What a feature is: its name, how it is read off a record, and under which conditions its value holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from wcbench.analysis.source import timed_pass
from wcbench.analysis.table import TRANSFORMS, Feature
from wcbench.errors import WcbenchError

if TYPE_CHECKING:
    from wcbench.record import PassInfo, Profile

T = TypeVar("T")

TIERS = ("core", "opt", "derived", "meta")
EXACT, MODELLED, MEASURED, PUBLISHED, TOY = "exact", "modelled", "measured", "published", "toy"
ORIGINS = (EXACT, MODELLED, MEASURED, PUBLISHED, TOY)
TOYS = ("small", "tiny")
"""Presets that are no workload of a suite: what is counted or measured of them has the origin `toy`."""

SHARE_FLOOR = 1e-3
"""Detection limit of shares: a thousandth of a step makes no difference to an architect, and a log-ratio must not
hang on one stray operator."""

NEEDS: Mapping[str, str] = {
    "operators": "an operator stream: `wcbench profile TASK --passes operators`, or an imported execution trace",
    "timeline": "a timeline: `wcbench profile TASK --passes timeline`, or an imported trace of a profiler",
    "timing": "timed steps: `wcbench profile TASK --passes timing`",
    "counters": "hardware counters: `wcbench import` of a file of Nsight Compute or nvprof",
    "convergence": "training runs: `wcbench import` of MLPerf logs, or a fact of the suite's file",
}
"""What lacks where a pass is missing."""


class NotMeasuredError(Exception):
    """A record does not tell the feature; the text says why."""


@dataclass(frozen=True)
class Found:
    """A value with what deviates from its definition: another origin, the device it is modelled on, a remark."""

    value: float | Mapping[str, float]
    origin: str | None = None
    device: str | None = None
    remark: str = ""


@dataclass(frozen=True)
class Evaluated:
    """A feature of one record. NaN in ``values`` is not measured, and ``reason`` says why.

    ``preset``, ``device`` and ``precision`` are None where the value depends on none or no file tells.
    """

    values: pd.Series
    origin: str
    preset: str | None = None
    device: str | None = None
    precision: str | None = None
    reason: str = ""
    remark: str = ""


Raw = float | Mapping[str, float] | Found
Compute = Callable[["Profile"], Raw]


@dataclass(frozen=True)
class Definition:
    """A feature: called with a record it gives a pandas Series whose index are its pinned names.

    Attributes
    ----------
    name : as in the catalogue; a family has the names ``name[part]``, in the order of ``parts``.
    unit : of the raw value; empty for a plain number.
    needs : the pass of the record (a key of NEEDS).
    transform, block, floor, reference : as `table.Feature` has them.
    tier : core, opt, derived (follows from others) or meta (no property of the workload: in no set).
    origin : exact (counted), modelled, measured or published.
    """

    name: str
    unit: str
    needs: str
    transform: str
    block: str
    reference: str
    tier: str
    floor: float | None
    parts: tuple[str, ...]
    origin: str
    meaning: str
    compute: Compute

    def __post_init__(self) -> None:
        known = self.needs in NEEDS and self.transform in TRANSFORMS and self.tier in TIERS and self.origin in ORIGINS
        if not known:
            raise WcbenchError(f"Feature '{self.name}' has an unknown need, transform, tier or origin.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{part}]" for part in self.parts) or (self.name,)

    @property
    def features(self) -> tuple[Feature, ...]:
        own = (self.unit, self.transform, self.block, self.floor, self.reference)
        return tuple(Feature(name, *own) for name in self.names)

    def __call__(self, profile: Profile) -> pd.Series:
        return self.evaluate(profile).values

    def evaluate(self, profile: Profile) -> Evaluated:
        """The values of a record with their conditions; NaN with the reason where it does not tell them."""
        try:
            found = self.compute(profile)
        except NotMeasuredError as error:
            return Evaluated(self._series(float("nan")), self.origin, reason=str(error))
        found = found if isinstance(found, Found) else Found(found)
        values = self._series(found.value)
        reason = f"{self.name} has no finite value here" if not np.isfinite(values.to_numpy()).all() else ""
        origin = found.origin or self.origin
        if origin == PUBLISHED:
            return Evaluated(values, origin, reason=reason, remark=found.remark)
        passname, info = pass_of(profile, self.needs)
        return Evaluated(
            values,
            TOY if info.preset in TOYS else origin,
            info.preset,
            found.device or device_of(profile, info),
            info.precision,
            reason,
            "; ".join(filter(None, (found.remark, _length(profile) if passname == "operators" else ""))),
        )

    def _series(self, value: float | Mapping[str, float]) -> pd.Series:
        values = [value[part] for part in self.parts] if isinstance(value, Mapping) else [value] * len(self.names)
        return pd.Series(values, index=list(self.names), dtype="float64", name=self.name)


def feature(
    name: str,
    *,
    unit: str,
    needs: str,
    transform: str,
    block: str,
    reference: str = "",
    tier: str = "opt",
    floor: float | None = None,
    parts: tuple[str, ...] = (),
    origin: str = EXACT,
) -> Callable[[Compute], Definition]:
    """Make a function of a record a feature.

    The function returns a number, of a family a mapping from its parts, or `Found`; it raises NotMeasuredError with a
    reason. Its docstring is the meaning in the documentation. The feature is used once `features.FEATURES` lists it.
    """

    def made(compute: Compute) -> Definition:
        meaning = " ".join((compute.__doc__ or "").split())
        return Definition(name, unit, needs, transform, block, reference, tier, floor, parts, origin, meaning, compute)

    return made


# --- what the functions share --------------------------------------------------------------------------------------

_ONCE: WeakKeyDictionary[Profile, dict[str, Any]] = WeakKeyDictionary()


def once(profile: Profile, key: str, make: Callable[[], T]) -> T:
    """The result of ``make``, worked out once for each record in hand and forgotten with it."""
    made = _ONCE.setdefault(profile, {})
    if key not in made:
        made[key] = make()
    value: T = made[key]
    return value


def forget(profile: Profile) -> None:
    """Drop what `once` keeps of a record: many records in hand would hold all their operators as Python objects."""
    _ONCE.pop(profile, None)


def pass_of(profile: Profile, needs: str) -> tuple[str, PassInfo]:
    """The pass that a feature needs; raises NotMeasuredError where the record has none."""
    passname = timed_pass(profile) if needs == "timeline" else needs
    info = profile.manifest.passes.get(passname)
    if info is None:
        raise NotMeasuredError(f"the record lacks {NEEDS[needs]}")
    return passname, info


def device_of(profile: Profile, info: PassInfo) -> str:
    """The device by its name, as far as the record tells; of fake tensors the kind alone, since nothing ran."""
    machine = profile.manifest.machine
    if info.tensors == "fake":
        return info.device
    if info.device.startswith("cuda"):
        names = [gpu.get("name") for gpu in machine.get("gpus") or () if isinstance(gpu, Mapping)]
        return str(names[0]) if names and names[0] else info.device
    cpu = machine.get("cpu")
    name = cpu.get("name") if isinstance(cpu, Mapping) else None
    return str(name) if name and info.device == "cpu" else info.device


def _length(profile: Profile) -> str:
    """Words for a stream that was counted at a shorter length than the preset's."""
    if "scaling" not in profile.manifest.tables:
        return ""
    rows = profile.table("scaling")[["length", "recorded"]]
    if rows["recorded"].all() or rows["length"].isna().all():
        return ""
    counted = rows.loc[rows["recorded"].astype(bool), "length"].max()
    return f"counted at length {counted} of {rows['length'].max()}"


def ratio(above: float, below: float, why: str) -> float:
    """A quotient; NotMeasuredError with ``why`` where nothing stands below."""
    if not below:
        raise NotMeasuredError(why)
    return float(above) / float(below)


def shares(amounts: Mapping[str, float], why: str) -> dict[str, float]:
    """Amounts over their sum."""
    total = float(sum(amounts.values()))
    return {part: ratio(amount, total, why) for part, amount in amounts.items()}


def weighted_median(values: Any, weights: Any, percent: float = 50.0) -> float:
    """The smallest value up to which at least ``percent`` % of the weight lies; NotMeasuredError without any weight."""
    found, weight = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if not weight.sum() > 0:
        raise NotMeasuredError("nothing has any weight here")
    order = np.argsort(found, kind="stable")
    below = np.cumsum(weight[order])
    # a share of a sum of floats is met up to rounding
    return float(found[order][np.searchsorted(below, below[-1] * percent / 100 * (1 - 1e-12))])
